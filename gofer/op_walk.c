/* SPDX-License-Identifier: Apache-2.0 */
/* Finding things: HELLO, ATTACH, WALK, FORGET. */
#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "gofer/gofer.h"

int op_HELLO(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t magic = wire_u32(in), version = wire_u32(in);

	OP_BODY_DONE(g, in);
	if (magic != GOFER_MAGIC || version != GOFER_VERSION)
		return gofer_violation(g, "client speaks another protocol");
	g->phase = PHASE_READY;
	wire_put_u32(&r->out, GOFER_VERSION);
	wire_put_u32(&r->out, GOFER_MSG_MAX);
	return 0;
}

static void put_attr(struct reply *r, const struct statx *st)
{
	struct gofer_attr a;

	attr_from_statx(&a, st);
	wire_put(&r->out, &a, sizeof(a));
}

/* Each attach point can be had once. */
int op_ATTACH(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t id = wire_u32(in);
	struct attach *at = NULL;
	struct statx st;

	OP_BODY_DONE(g, in);
	for (size_t i = 0; i < g->attach_count; i++)
		if (g->attach[i].id == id)
			at = &g->attach[i];
	if (!at)
		return gofer_violation(g, "attach to an unknown id");
	if (at->attached)
		return gofer_violation(g, "second attach to one id");
	int err = host_stat(at->root_fd, "", &st);
	int64_t nid = err ? err : node_get_root(g, at, &st);

	if (nid < 0)
		return (int)nid;
	at->attached = 1;
	g->phase = PHASE_SERVING;
	wire_put_u32(&r->out, (uint32_t)nid);
	wire_put_u32(&r->out, (at->flags & ATTACH_RDONLY ? GOFER_AT_RDONLY : 0) |
				      (at->flags & ATTACH_FILE ? GOFER_AT_FILE : 0) |
				      (at->flags & ATTACH_EXCLUSIVE ? GOFER_AT_EXCLUSIVE : 0));
	put_attr(r, &st);
	return 0;
}

int64_t node_step(struct gofer *g, uint32_t dir, const char *name, size_t len, struct statx *st)
{
	struct node *d = &g->node[dir];
	int hidden;
	uint32_t hide = hide_step(g, d->hide, name, len, &hidden);

	if (hidden || (d->flags & NODE_BARRIER))
		return -ENOENT;
	int fd = node_pin(g, d);

	if (fd < 0)
		return fd;
	int err = host_stat(fd, name, st);

	node_unpin(g, d);
	if (err)
		return err;
	if (hide_object(g, host_dev(st), st->stx_ino))
		return -ENOENT;
	return node_get_child(g, dir, name, len, st, hide);
}

int op_WALK(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t cur = wire_u32(in);
	uint16_t count = wire_u16(in), flags = wire_u16(in);
	struct wire_in names = *in;
	char name[GOFER_NAME_MAX + 1];
	size_t attr_at = 0;
	uint16_t done = 0;
	int64_t err = 0;

	if (count == 0 || count > GOFER_WALK_MAX || (flags & ~GOFER_WALK_OPEN))
		return gofer_violation(g, "malformed walk");
	for (uint16_t i = 0; i < count; i++)
		wire_name(in, name);
	OP_BODY_DONE(g, in);
	if (!node_find(g, cur))
		return -EBADF;
	if (g->node[cur].type != S_IFDIR)
		return -ENOTDIR;

	size_t head = r->out.len;

	wire_put_u16(&r->out, 0); /* done */
	wire_put_u16(&r->out, 0);
	wire_put_u32(&r->out, 0); /* error */
	/* Stops, without an error, at what is no directory: a link is the client's to read. */
	for (; done < count && g->node[cur].type == S_IFDIR; done++) {
		struct statx st;
		size_t len = wire_name(&names, name);
		int64_t nid = node_step(g, cur, name, len, &st);

		if (nid < 0) {
			err = nid;
			break;
		}
		wire_put_u32(&r->out, (uint32_t)nid);
		attr_at = r->out.len;
		put_attr(r, &st);
		cur = (uint32_t)nid;
	}
	wire_patch_u16(&r->out, head, done);
	wire_patch_u32(&r->out, head + 4, (uint32_t)(int32_t)err);
	if (!(flags & GOFER_WALK_OPEN) || done < count || g->node[cur].type != S_IFREG)
		return 0;
	int fd = node_open_file(g, &g->node[cur], GOFER_OPEN_READ, &r->fd_borrowed);

	if (fd >= 0) {
		r->fd = fd;
		wire_patch_u32(&r->out, attr_at + offsetof(struct gofer_attr, flags),
			       host_open_flags(fd));
	}
	return 0;
}

int op_FORGET(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t count = wire_u32(in);
	struct wire_in items = *in;

	(void)r;
	if (count > GOFER_FORGET_MAX)
		return gofer_violation(g, "malformed forget");
	wire_bytes(in, (size_t)count * 8);
	OP_BODY_DONE(g, in);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t nid = wire_u32(&items), refs = wire_u32(&items);

		if (node_forget(g, nid, refs))
			return gofer_violation(g, "forget of references it does not have");
	}
	return 0;
}
