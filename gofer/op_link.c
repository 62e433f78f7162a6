/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing names: MKDIR, MKNOD, SYMLINK, LINK, UNLINK, RENAME, and what they share with CREATE.
 * Every call takes a directory fd and one component.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gofer/gofer.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

void child_read(struct new_child *nc, struct wire_in *in)
{
	nc->mode = wire_u32(in);
	nc->uid = wire_u32(in);
	nc->gid = wire_u32(in);
	nc->hide = 0;
	nc->len = wire_name(in, nc->name);
}

/* A directory that may be changed, and a name in it that is not hidden. */
static int dir_begin(struct gofer *g, uint32_t dir, const char *name, size_t len, int hidden_err,
		     uint32_t *hide)
{
	struct node *d = node_find(g, dir);
	int hidden;

	if (!d)
		return -EBADF;
	if (d->type != S_IFDIR)
		return -ENOTDIR;
	int err = node_writable(g, d);

	if (err)
		return err;
	*hide = hide_step(g, d->hide, name, len, &hidden);
	if (hidden)
		return hidden_err;
	if (d->flags & NODE_BARRIER)
		return -EACCES;
	return node_pin(g, d);
}

int child_begin(struct gofer *g, uint32_t dir, struct new_child *nc)
{
	return dir_begin(g, dir, nc->name, nc->len, -EACCES, &nc->hide);
}

/*
 * Owner and set-id bits of what was just made. Who may not change owners keeps the one it got;
 * an object that is not ours (somebody on the host swapped the name) is left alone.
 * #hostcalls: fchownat fchmodat2 fchmod
 */
int child_owner(struct gofer *g, int fd, const struct new_child *nc)
{
	struct statx st;
	int err = host_stat(fd, "", &st);

	if (err)
		return err;
	if (st.stx_uid != g->uid)
		return 0;
	if ((st.stx_uid != nc->uid || st.stx_gid != nc->gid) && ((g->caps >> CAP_CHOWN) & 1))
		if (fchownat(fd, "", nc->uid, nc->gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	if (S_ISLNK(st.stx_mode) || !((st.stx_mode ^ nc->mode) & 07777))
		return 0;
	if (g->have_fchmodat2)
		err = syscall(SYS_fchmodat2, fd, "", nc->mode & 07777, AT_EMPTY_PATH) < 0 ? -errno
											  : 0;
	else if (S_ISREG(st.stx_mode))
		err = fchmod(fd, nc->mode & 07777) < 0 ? -errno : 0;
	return err == -EOPNOTSUPP ? 0 : err;
}

int64_t child_node(struct gofer *g, uint32_t dir, int fd, const struct new_child *nc)
{
	struct statx st;
	int err = host_stat(fd, "", &st);

	if (err)
		return err;
	return node_get_child(g, dir, nc->name, nc->len, &st, nc->hide);
}

/* After the name was made by mkdirat, mknodat or symlinkat; replies {nid, attr}. */
static int child_finish(struct gofer *g, uint32_t dir, int dfd, const struct new_child *nc,
			uint32_t type, struct reply *r)
{
	struct gofer_attr a;
	struct statx st;
	int fd = host_open(dfd, nc->name, O_PATH, 0);

	if (fd < 0)
		return fd;
	int err = host_stat(fd, "", &st);

	if (!err && (st.stx_mode & S_IFMT) != type)
		err = -ESTALE;
	if (!err)
		err = child_owner(g, fd, nc);
	if (!err)
		err = host_stat(fd, "", &st);
	close(fd);
	if (err)
		return err;
	int64_t nid = node_get_child(g, dir, nc->name, nc->len, &st, nc->hide);

	if (nid < 0)
		return (int)nid;
	attr_from_statx(&a, &st);
	wire_put_u32(&r->out, (uint32_t)nid);
	wire_put(&r->out, &a, sizeof(a));
	return 0;
}

/* #hostcalls: mkdirat */
int op_MKDIR(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t dir = wire_u32(in);
	struct new_child nc;

	child_read(&nc, in);
	OP_BODY_DONE(g, in);
	int dfd = child_begin(g, dir, &nc);

	if (dfd < 0)
		return dfd;
	int err = mkdirat(dfd, nc.name, nc.mode & 01777) < 0 ? -errno : 0;

	if (!err)
		err = child_finish(g, dir, dfd, &nc, S_IFDIR, r);
	node_unpin(g, &g->node[dir]);
	return err;
}

/* Only what can not reach the host: FIFOs and sockets, which here are names without a life.
 * #hostcalls: mknodat */
int op_MKNOD(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t dir = wire_u32(in);
	struct new_child nc;

	child_read(&nc, in);
	OP_BODY_DONE(g, in);
	uint32_t type = nc.mode & S_IFMT;

	if (type != S_IFIFO && type != S_IFSOCK)
		return -EPERM;
	int dfd = child_begin(g, dir, &nc);

	if (dfd < 0)
		return dfd;
	int err = mknodat(dfd, nc.name, type | (nc.mode & 0777), 0) < 0 ? -errno : 0;

	if (!err)
		err = child_finish(g, dir, dfd, &nc, type, r);
	node_unpin(g, &g->node[dir]);
	return err;
}

/* #hostcalls: symlinkat */
int op_SYMLINK(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t dir = wire_u32(in);
	char target[GOFER_LINK_MAX + 1];
	struct new_child nc;

	child_read(&nc, in);
	wire_text(in, target, GOFER_LINK_MAX);
	OP_BODY_DONE(g, in);
	int dfd = child_begin(g, dir, &nc);

	if (dfd < 0)
		return dfd;
	int err = symlinkat(target, dfd, nc.name) < 0 ? -errno : 0;

	if (!err)
		err = child_finish(g, dir, dfd, &nc, S_IFLNK, r);
	node_unpin(g, &g->node[dir]);
	return err;
}

/*
 * Links a node by its name, then checks that it was the node that got linked: nothing else can
 * be linked without a capability. Never across attach points: a file of a read-only tree would
 * become writable by a name in another.
 */
static int link_checked(struct gofer *g, struct node *n, int dfd, const char *name)
{
	struct node *from = &g->node[n->parent];
	struct statx st;
	int sfd = node_pin(g, from);

	if (sfd < 0)
		return sfd;
	int err = linkat(sfd, n->name, dfd, name, 0) < 0 ? -errno : 0;

	node_unpin(g, from);
	if (err)
		return err;
	err = host_stat(dfd, name, &st);
	if (!err && (st.stx_ino != n->ino || host_dev(&st) != n->dev)) {
		unlinkat(dfd, name, 0);
		err = -ESTALE;
	}
	return err;
}

/* #hostcalls: linkat unlinkat */
int op_LINK(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t nid = wire_u32(in), dir = wire_u32(in);
	char name[GOFER_NAME_MAX + 1];
	size_t len = wire_name(in, name);
	uint32_t hide;

	(void)r;
	OP_BODY_DONE(g, in);
	struct node *n = node_find(g, nid);

	if (!n)
		return -EBADF;
	if (n->type == S_IFDIR)
		return -EPERM;
	if (n->flags & NODE_GONE)
		return -ENOENT;
	int dfd = dir_begin(g, dir, name, len, -EACCES, &hide);

	if (dfd < 0)
		return dfd;
	int err = -EXDEV;

	if (n->parent && n->attach == g->node[dir].attach)
		err = link_checked(g, n, dfd, name);
	node_unpin(g, &g->node[dir]);
	return err;
}

/* #hostcalls: unlinkat */
int op_UNLINK(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t dir = wire_u32(in), flags = wire_u32(in);
	char name[GOFER_NAME_MAX + 1];
	size_t len = wire_name(in, name);
	uint32_t hide;

	(void)r;
	OP_BODY_DONE(g, in);
	if (flags & ~GOFER_UNLINK_DIR)
		return gofer_violation(g, "malformed unlink");
	int dfd = dir_begin(g, dir, name, len, -ENOENT, &hide);

	if (dfd < 0)
		return dfd;
	node_unlink_prepare(g, dir, name, len);
	int err = unlinkat(dfd, name, flags & GOFER_UNLINK_DIR ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;

	if (!err)
		node_unlinked(g, dir, name, len);
	node_unpin(g, &g->node[dir]);
	return err;
}

/* #hostcalls: renameat2 */
int op_RENAME(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t olddir = wire_u32(in), newdir = wire_u32(in), flags = wire_u32(in);
	char oldname[GOFER_NAME_MAX + 1], newname[GOFER_NAME_MAX + 1];
	size_t oldlen = wire_name(in, oldname), newlen = wire_name(in, newname);
	uint32_t oldhide, newhide;

	(void)r;
	OP_BODY_DONE(g, in);
	if (flags != 0 && flags != RENAME_NOREPLACE && flags != RENAME_EXCHANGE)
		return -EINVAL;
	int ofd = dir_begin(g, olddir, oldname, oldlen, -ENOENT, &oldhide);

	if (ofd < 0)
		return ofd;
	int nfd = dir_begin(g, newdir, newname, newlen, -EACCES, &newhide);
	int err = nfd < 0 ? nfd : 0;

	/* What holds hidden names stays where the deny list says it is. */
	if (!err && (oldhide || newhide))
		err = -EBUSY;
	if (!err && g->node[olddir].attach != g->node[newdir].attach)
		err = -EXDEV;
	if (!err) {
		if (flags != RENAME_EXCHANGE)
			node_unlink_prepare(g, newdir, newname, newlen);
		/* glibc's wrapper makes another call of it when there are no flags. */
		err = syscall(SYS_renameat2, ofd, oldname, nfd, newname, flags) < 0 ? -errno : 0;
	}
	if (!err)
		node_renamed(g, olddir, oldname, newdir, newname, flags == RENAME_EXCHANGE);
	node_unpin(g, &g->node[olddir]);
	if (nfd >= 0)
		node_unpin(g, &g->node[newdir]);
	return err;
}
