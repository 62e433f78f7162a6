/* SPDX-License-Identifier: Apache-2.0 */
/* About one object: GETATTR, SETATTR, READLINK, STATFS and the extended attributes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "gofer/gofer.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static int put_node_attr(struct gofer *g, struct node *n, struct reply *r)
{
	struct gofer_attr a;
	struct statx st;
	int fd = node_pin(g, n);

	if (fd < 0)
		return fd;
	int err = host_stat(fd, "", &st);

	node_unpin(g, n);
	if (err)
		return err;
	attr_from_statx(&a, &st);
	wire_put(&r->out, &a, sizeof(a));
	return 0;
}

int op_GETATTR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));

	OP_BODY_DONE(g, in);
	return n ? put_node_attr(g, n, r) : -EBADF;
}

/* #hostcalls: readlinkat */
int op_READLINK(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	char text[GOFER_LINK_MAX + 1];

	OP_BODY_DONE(g, in);
	if (!n)
		return -EBADF;
	if (n->type != S_IFLNK)
		return -EINVAL;
	int fd = node_pin(g, n);

	if (fd < 0)
		return fd;
	ssize_t len = readlinkat(fd, "", text, sizeof(text));
	int err = len < 0 ? -errno : (size_t)len > GOFER_LINK_MAX ? -ENAMETOOLONG : 0;

	node_unpin(g, n);
	if (!err)
		wire_put_text(&r->out, text, (size_t)len);
	return err;
}

/* #hostcalls: fstatfs */
int op_STATFS(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	struct statfs sf;

	OP_BODY_DONE(g, in);
	if (!n)
		return -EBADF;
	int fd = node_pin(g, n);

	if (fd < 0)
		return fd;
	int err = fstatfs(fd, &sf) < 0 ? -errno : 0;

	node_unpin(g, n);
	if (err)
		return err;
	struct gofer_statfs w = {
		.type = sf.f_type,
		.bsize = (uint64_t)sf.f_bsize,
		.frsize = (uint64_t)sf.f_frsize,
		.blocks = sf.f_blocks,
		.bfree = sf.f_bfree,
		.bavail = sf.f_bavail,
		.files = sf.f_files,
		.ffree = sf.f_ffree,
		.namelen = (uint64_t)sf.f_namelen,
	};

	wire_put(&r->out, &w, sizeof(w));
	return 0;
}

/*
 * chmod through an O_PATH fd. Kernels before 6.6 can only do it through an open file, which
 * leaves FIFOs and sockets out. #hostcalls: fchmodat2 fchmod close
 */
static int node_chmod(struct gofer *g, struct node *n, int path_fd, uint32_t mode)
{
	int borrowed;

	if (n->type == S_IFLNK)
		return -EOPNOTSUPP;
	if (g->have_fchmodat2)
		return syscall(SYS_fchmodat2, path_fd, "", mode & 07777, AT_EMPTY_PATH) < 0 ? -errno
											    : 0;
	int fd = node_open_any(g, n, &borrowed);

	if (fd < 0)
		return fd == -ENXIO ? -EOPNOTSUPP : fd;
	int err = fchmod(fd, mode & 07777) < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	return err;
}

/* #hostcalls: ftruncate close */
static int node_truncate(struct gofer *g, struct node *n, uint64_t size)
{
	int borrowed;

	if (size > INT64_MAX)
		return -EINVAL;
	int fd = node_open_file(g, n, GOFER_OPEN_WRITE, &borrowed);

	if (fd < 0)
		return fd;
	int err = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	return err;
}

struct setattr {
	uint32_t valid, mode, uid, gid;
	uint64_t size;
	struct timespec ts[2];
};

/* Size first and mode after the owner: chown and truncate drop set-id bits.
 * #hostcalls: fchownat utimensat */
static int node_setattr(struct gofer *g, struct node *n, int fd, const struct setattr *s)
{
	int err = 0;

	if (s->valid & GOFER_SET_SIZE)
		err = node_truncate(g, n, s->size);
	if (!err && (s->valid & (GOFER_SET_UID | GOFER_SET_GID)))
		err = fchownat(fd, "", s->valid & GOFER_SET_UID ? s->uid : (uid_t)-1,
			       s->valid & GOFER_SET_GID ? s->gid : (gid_t)-1,
			       AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0
			      ? -errno
			      : 0;
	if (!err && (s->valid & GOFER_SET_MODE))
		err = node_chmod(g, n, fd, s->mode);
	if (!err && (s->valid & (GOFER_SET_ATIME | GOFER_SET_MTIME)))
		err = utimensat(fd, "", s->ts, AT_EMPTY_PATH) < 0 ? -errno : 0;
	return err;
}

int op_SETATTR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	struct setattr s;

	s.valid = wire_u32(in);
	s.mode = wire_u32(in);
	s.uid = wire_u32(in);
	s.gid = wire_u32(in);
	s.size = wire_u64(in);
	for (int i = 0; i < 2; i++) {
		s.ts[i].tv_sec = (time_t)wire_u64(in);
		s.ts[i].tv_nsec = (long)wire_u32(in);
	}
	OP_BODY_DONE(g, in);
	if (s.valid & ~GOFER_SET_ALL)
		return gofer_violation(g, "malformed setattr");
	if (!n)
		return -EBADF;
	int err = node_writable(g, n);

	if (err)
		return err;
	if (n->flags & NODE_BARRIER)
		return -EPERM;
	for (int i = 0; i < 2; i++) {
		if (!(s.valid & (i ? GOFER_SET_MTIME : GOFER_SET_ATIME)))
			s.ts[i].tv_nsec = UTIME_OMIT;
		else if (s.ts[i].tv_nsec > 999999999)
			return -EINVAL;
	}
	int fd = node_pin(g, n);

	if (fd < 0)
		return fd;
	err = node_setattr(g, n, fd, &s);
	node_unpin(g, n);
	return err ? err : put_node_attr(g, n, r);
}

/* ---- extended attributes: user.* both ways, file capabilities to read, nothing else ---- */

static int xattr_readable(const char *name)
{
	return !strncmp(name, "user.", 5) || !strcmp(name, "security.capability");
}

/* An fd that xattr calls accept; those of special files and symlinks can not be reached. */
static int xattr_open(struct gofer *g, uint32_t nid, int *borrowed, int missing)
{
	struct node *n = node_find(g, nid);

	if (!n)
		return -EBADF;
	if (n->type != S_IFREG && n->type != S_IFDIR)
		return missing;
	return node_open_any(g, n, borrowed);
}

/* #hostcalls: fgetxattr close */
int op_GETXATTR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t nid = wire_u32(in);
	char name[GOFER_XATTR_NAME_MAX + 1];
	int borrowed;

	wire_text(in, name, GOFER_XATTR_NAME_MAX);
	OP_BODY_DONE(g, in);
	if (!xattr_readable(name))
		return -EOPNOTSUPP;
	int fd = xattr_open(g, nid, &borrowed, -ENODATA);

	if (fd < 0)
		return fd;
	ssize_t n = fgetxattr(fd, name, r->out.buf + r->out.len, GOFER_XATTR_MAX);
	int err = n < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	if (!err)
		r->out.len += (size_t)n;
	return err;
}

/* #hostcalls: flistxattr close */
int op_LISTXATTR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t nid = wire_u32(in);
	char *list = (char *)g->in; /* the request has been read */
	int borrowed;

	OP_BODY_DONE(g, in);
	int fd = xattr_open(g, nid, &borrowed, -ENODATA);

	if (fd == -ENODATA)
		return 0;
	if (fd < 0)
		return fd;
	ssize_t n = flistxattr(fd, list, GOFER_XATTR_MAX);
	int err = n < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	if (err)
		return err == -EOPNOTSUPP ? 0 : err;
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1)
		if (xattr_readable(list + at))
			wire_put(&r->out, list + at, strlen(list + at) + 1);
	return 0;
}

/* Opens for a change of user.* attributes. */
static int xattr_open_write(struct gofer *g, uint32_t nid, const char *name, int *borrowed)
{
	struct node *n = node_find(g, nid);
	int err = n ? node_writable(g, n) : -EBADF;

	if (err)
		return err;
	if (strncmp(name, "user.", 5))
		return -EOPNOTSUPP;
	return xattr_open(g, nid, borrowed, -EPERM);
}

/* #hostcalls: fsetxattr close */
int op_SETXATTR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t nid = wire_u32(in), flags = wire_u32(in);
	char name[GOFER_XATTR_NAME_MAX + 1];
	int borrowed;

	(void)r;
	wire_text(in, name, GOFER_XATTR_NAME_MAX);
	uint32_t size = wire_u32(in);
	const void *val = wire_bytes(in, size);

	OP_BODY_DONE(g, in);
	if (size > GOFER_XATTR_MAX || (flags & ~(uint32_t)(XATTR_CREATE | XATTR_REPLACE)))
		return -EINVAL;
	int fd = xattr_open_write(g, nid, name, &borrowed);

	if (fd < 0)
		return fd;
	int err = fsetxattr(fd, name, val, size, (int)flags) < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	return err;
}

/* #hostcalls: fremovexattr close */
int op_REMOVEXATTR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t nid = wire_u32(in);
	char name[GOFER_XATTR_NAME_MAX + 1];
	int borrowed;

	(void)r;
	wire_text(in, name, GOFER_XATTR_NAME_MAX);
	OP_BODY_DONE(g, in);
	int fd = xattr_open_write(g, nid, name, &borrowed);

	if (fd < 0)
		return fd;
	int err = fremovexattr(fd, name) < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	return err;
}
