/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READDIR: a directory's entries, with attributes, as many as fit one message. LISTDIRS: those of
 * several directories side by side, for a client that walks a tree. The place between
 * two messages is the host filesystem's own cookie, so nothing has to be kept; the directory last
 * read stays open only to save reopening it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gofer/gofer.h"

struct host_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
} __attribute__((packed));

/* #hostcalls: close lseek */
static int stream_seek(struct gofer *g, struct node *n, uint64_t cookie)
{
	struct dirstream *s = &g->stream;
	uint32_t nid = node_id(g, n);
	int borrowed;

	if (s->nid == nid && s->cookie == cookie && cookie)
		return 0;
	if (s->nid)
		close(s->fd);
	s->nid = 0;
	s->fd = node_open_any(g, n, &borrowed);
	if (s->fd < 0)
		return s->fd;
	s->nid = nid;
	s->at = s->len = 0;
	s->cookie = cookie;
	if (cookie && lseek(s->fd, (off_t)cookie, SEEK_SET) < 0) {
		int err = -errno;

		close(s->fd);
		s->nid = 0;
		return err;
	}
	return 0;
}

/* The next entry, not yet consumed; NULL at the end or with *err set. #hostcalls: getdents64 */
static const struct host_dirent *stream_peek(struct dirstream *s, int *err)
{
	*err = 0;
	if (s->at >= s->len) {
		long n = syscall(SYS_getdents64, s->fd, s->buf, sizeof(s->buf));

		if (n <= 0) {
			*err = n < 0 ? -errno : 0;
			return NULL;
		}
		s->at = 0;
		s->len = (size_t)n;
	}
	return (const struct host_dirent *)(s->buf + s->at);
}

/* 1: put, 0: not for the client, -ENOSPC: no room in this reply. */
static int put_entry(struct gofer *g, struct node *dir, const struct host_dirent *de, int plus,
		     struct wire_out *out)
{
	size_t len = strlen(de->name);
	struct gofer_attr a;
	struct statx st;
	int hidden;

	if (!gofer_name_valid(de->name, len))
		return 0;
	hide_step(g, dir->hide, de->name, len, &hidden);
	if (hidden)
		return 0;
	if (out->cap - out->len < 8 + sizeof(a) + 2 + len)
		return -ENOSPC;
	/* Without attributes the identity is not known, so the deny list decides by name alone
	 * unless there is one to compare with. */
	if (plus || g->hidden_count) {
		if (host_stat(g->stream.fd, de->name, &st))
			return 0; /* raced away */
		if (hide_object(g, host_dev(&st), st.stx_ino))
			return 0;
	}
	wire_put_u64(out, (uint64_t)de->off);
	if (plus) {
		attr_from_statx(&a, &st);
		wire_put(out, &a, sizeof(a));
		if (S_ISDIR(a.mode) && g->below_count < GOFER_LISTDIRS_MAX) {
			g->below[g->below_count].nid = node_id(g, dir);
			g->below[g->below_count++].at = (uint32_t)out->len;
		}
	} else {
		wire_put_u64(out, de->ino);
		wire_put_u8(out, de->type);
	}
	wire_put_text(out, de->name, len);
	return 1;
}

/* {next cookie, count, eof, entries}, as many as there is room for. */
static int put_page(struct gofer *g, struct node *n, uint64_t cookie, int plus,
		    struct wire_out *out)
{
	size_t head = out->len;
	uint32_t count = 0, eof = 0;
	int err = 0;

	wire_put_u64(out, cookie); /* next cookie */
	wire_put_u32(out, 0);	   /* count */
	wire_put_u32(out, 1);	   /* eof */
	if (n->flags & NODE_BARRIER)
		return 0;
	err = stream_seek(g, n, cookie);
	if (err)
		return err;
	struct dirstream *s = &g->stream;

	for (;;) {
		const struct host_dirent *de = stream_peek(s, &err);

		if (!de) {
			eof = !err;
			break;
		}
		int put = put_entry(g, n, de, plus, out);

		if (put == -ENOSPC)
			break;
		count += (uint32_t)put;
		s->cookie = (uint64_t)de->off;
		s->at += de->reclen;
	}
	cookie = s->cookie;
	if (eof || err) {
		close(s->fd);
		s->nid = 0;
	}
	memcpy(out->buf + head, &cookie, sizeof(cookie));
	wire_patch_u32(out, head + 8, count);
	wire_patch_u32(out, head + 12, eof);
	return err;
}

int op_READDIR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	uint64_t cookie = wire_u64(in);
	uint32_t flags = wire_u32(in);

	OP_BODY_DONE(g, in);
	g->below_count = 0;
	if (flags & ~GOFER_READDIR_PLUS)
		return gofer_violation(g, "malformed readdir");
	if (!n)
		return -EBADF;
	if (n->type != S_IFDIR)
		return -ENOTDIR;
	return put_page(g, n, cookie, (int)(flags & GOFER_READDIR_PLUS), &r->out);
}

#define LISTED_HEAD (4 + 4 + sizeof(struct gofer_attr) + 16)

/*
 * One directory of LISTDIRS: 1, or 0 when it must wait for another message and *out is as it was.
 * The first may be cut short.
 */
static int put_listed(struct gofer *g, uint32_t dir, const char *name, size_t len, int first,
		      struct wire_out *out)
{
	size_t mark = out->len;
	uint32_t below = g->below_count;
	struct gofer_attr a;
	struct statx st;

	if (out->cap - out->len < LISTED_HEAD)
		return 0;
	int64_t nid = node_step(g, dir, name, len, &st);
	int err = nid < 0 ? (int)nid : 0;

	if (!err && g->node[nid].type != S_IFDIR)
		err = -ENOTDIR;
	wire_put_u32(out, 0);
	if (!err) {
		wire_put_u32(out, (uint32_t)nid);
		attr_from_statx(&a, &st);
		wire_put(out, &a, sizeof(a));
		size_t page = out->len;
		uint32_t eof = 0;

		err = put_page(g, &g->node[nid], 0, 1, out);
		memcpy(&eof, out->buf + page + 12, sizeof(eof));
		if (!err && !eof && !first) {
			out->len = mark;
			g->below_count = below;
			node_forget(g, (uint32_t)nid, 1);
			return 0;
		}
	}
	if (err) {
		out->len = mark;
		g->below_count = below;
		wire_put_u32(out, (uint32_t)(int32_t)err);
	}
	if (nid >= 0 && err)
		node_forget(g, (uint32_t)nid, 1);
	return 1;
}

int op_LISTDIRS(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t dir = wire_u32(in);
	uint16_t count = wire_u16(in), deep = wire_u16(in), done = 0, more = 0;
	struct wire_in names = *in;
	char name[GOFER_NAME_MAX + 1];

	if (count == 0 || count > GOFER_LISTDIRS_MAX || deep > GOFER_LISTDIRS_MAX)
		return gofer_violation(g, "malformed listdirs");
	for (uint16_t i = 0; i < count; i++)
		wire_name(in, name);
	OP_BODY_DONE(g, in);
	struct node *d = node_find(g, dir);

	if (!d)
		return -EBADF;
	if (d->type != S_IFDIR)
		return -ENOTDIR;
	size_t head = r->out.len;

	wire_put_u16(&r->out, 0); /* done */
	wire_put_u16(&r->out, 0); /* below */
	g->below_count = 0;
	for (; done < count; done++) {
		size_t len = wire_name(&names, name);

		if (!put_listed(g, dir, name, len, done == 0, &r->out))
			break;
	}
	/* The list grows on the way; `deep` bounds it, and the room. */
	for (; done == count && more < deep && more < g->below_count; more++) {
		const uint8_t *text = r->out.buf + g->below[more].at;
		uint16_t len;

		memcpy(&len, text, sizeof(len));
		memcpy(name, text + sizeof(len), len);
		name[len] = '\0';
		if (!put_listed(g, g->below[more].nid, name, len, 0, &r->out))
			break;
	}
	wire_patch_u16(&r->out, head, done);
	wire_patch_u16(&r->out, head + 2, more);
	return 0;
}
