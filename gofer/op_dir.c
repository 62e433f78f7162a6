/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READDIR: a directory's entries, with attributes, as many as fit one message. The place between
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
	} else {
		wire_put_u64(out, de->ino);
		wire_put_u8(out, de->type);
	}
	wire_put_text(out, de->name, len);
	return 1;
}

int op_READDIR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	uint64_t cookie = wire_u64(in);
	uint32_t flags = wire_u32(in);
	uint32_t count = 0, eof = 0;
	int err = 0;

	OP_BODY_DONE(g, in);
	if (flags & ~GOFER_READDIR_PLUS)
		return gofer_violation(g, "malformed readdir");
	if (!n)
		return -EBADF;
	if (n->type != S_IFDIR)
		return -ENOTDIR;
	size_t head = r->out.len;

	wire_put_u64(&r->out, cookie); /* next cookie */
	wire_put_u32(&r->out, 0);      /* count */
	wire_put_u32(&r->out, 1);      /* eof */
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
		int put = put_entry(g, n, de, (int)(flags & GOFER_READDIR_PLUS), &r->out);

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
	memcpy(r->out.buf + head, &cookie, sizeof(cookie));
	wire_patch_u32(&r->out, head + 8, count);
	wire_patch_u32(&r->out, head + 12, eof);
	return err;
}
