/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening: OPEN, CREATE, FSYNC. Only regular files are ever opened for the client;
 * FIFOs, devices and sockets of the host show in a stat and no further.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "gofer/gofer.h"

/*
 * Opens a name for the node it stands for. The name is looked at before it is opened, so that a
 * FIFO or device put there is not touched, and afterwards, so that nobody swapped it in between.
 * #hostcalls: close
 */
static int open_checked(struct gofer *g, struct node *n, uint64_t flags)
{
	struct node *dir = &g->node[n->parent];
	struct statx st;

	if (n->flags & NODE_GONE)
		return -ESTALE;
	int dfd = node_pin(g, dir);

	if (dfd < 0)
		return dfd;
	int fd = host_stat(dfd, n->name, &st);

	if (!fd &&
	    (st.stx_ino != n->ino || host_dev(&st) != n->dev || (st.stx_mode & S_IFMT) != n->type))
		fd = -ESTALE;
	if (!fd)
		fd = host_open(dfd, n->name, flags, 0);
	node_unpin(g, dir);
	if (fd == -ENOENT || fd == -ELOOP)
		return -ESTALE;
	if (fd < 0)
		return fd;
	int err = host_stat(fd, "", &st);

	if (!err &&
	    (st.stx_ino != n->ino || host_dev(&st) != n->dev || (st.stx_mode & S_IFMT) != n->type))
		err = -ESTALE;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int node_open_file(struct gofer *g, struct node *n, uint32_t access, int *borrowed)
{
	*borrowed = 0;
	if (n->type == S_IFDIR)
		return -EISDIR;
	if (n->type == S_IFLNK)
		return -ELOOP;
	if (n->type != S_IFREG || (n->flags & NODE_BARRIER))
		return -ENXIO;
	if (access & GOFER_OPEN_WRITE) {
		int err = node_writable(g, n);

		if (err)
			return err;
	}
	if (!n->parent) {
		const struct attach *at = &g->attach[n->attach];

		*borrowed = 1;
		if (access & GOFER_OPEN_WRITE)
			return at->rw_fd >= 0 ? at->rw_fd : -EACCES;
		return at->ro_fd >= 0 ? at->ro_fd : -EACCES;
	}
	if (access == (GOFER_OPEN_READ | GOFER_OPEN_WRITE))
		return open_checked(g, n, O_RDWR);
	return open_checked(g, n, access & GOFER_OPEN_WRITE ? O_WRONLY : O_RDONLY);
}

int node_open_any(struct gofer *g, struct node *n, int *borrowed)
{
	if (n->type != S_IFDIR)
		return node_open_file(g, n, GOFER_OPEN_READ, borrowed);
	*borrowed = 0;
	if (n->flags & NODE_BARRIER)
		return -EACCES;
	int fd = node_pin(g, n);

	if (fd < 0)
		return fd;
	int dir = host_open(fd, ".", O_RDONLY | O_DIRECTORY, 0);

	node_unpin(g, n);
	return dir;
}

/* Attribute flags that only an open file can tell. #hostcalls: fgetxattr */
uint32_t host_open_flags(int fd)
{
	if (fgetxattr(fd, "security.capability", NULL, 0) < 0 &&
	    (errno == ENODATA || errno == EOPNOTSUPP))
		return GOFER_ATTR_NOCAPS;
	return 0;
}

static int put_open(struct reply *r, int fd)
{
	struct gofer_attr a;
	struct statx st;
	int err = host_stat(fd, "", &st);

	if (err)
		return err;
	attr_from_statx(&a, &st);
	a.flags |= host_open_flags(fd);
	wire_put(&r->out, &a, sizeof(a));
	return 0;
}

int op_OPEN(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	uint32_t access = wire_u32(in);

	OP_BODY_DONE(g, in);
	if (!access || (access & ~(GOFER_OPEN_READ | GOFER_OPEN_WRITE)))
		return gofer_violation(g, "unknown access mode");
	if (!n)
		return -EBADF;
	r->fd = node_open_file(g, n, access, &r->fd_borrowed);
	if (r->fd < 0)
		return r->fd;
	return put_open(r, r->fd);
}

/* #hostcalls: close unlinkat */
int op_CREATE(struct gofer *g, struct wire_in *in, struct reply *r)
{
	uint32_t dir = wire_u32(in);
	struct new_child nc;

	child_read(&nc, in);
	OP_BODY_DONE(g, in);
	int dfd = child_begin(g, dir, &nc);

	if (dfd < 0)
		return dfd;
	int fd = host_open(dfd, nc.name, O_CREAT | O_EXCL | O_RDWR, nc.mode & 0777);

	if (fd < 0) {
		node_unpin(g, &g->node[dir]);
		return fd;
	}
	int err = child_owner(g, fd, &nc);
	int64_t nid = err ? err : child_node(g, dir, fd, &nc);

	node_unpin(g, &g->node[dir]);
	if (nid < 0) {
		close(fd);
		return (int)nid;
	}
	r->fd = fd;
	wire_put_u32(&r->out, (uint32_t)nid);
	err = put_open(r, fd);
	if (err)
		node_forget(g, (uint32_t)nid, 1);
	return err;
}

/* #hostcalls: fsync close */
int op_FSYNC(struct gofer *g, struct wire_in *in, struct reply *r)
{
	struct node *n = node_find(g, wire_u32(in));
	int borrowed;

	(void)r;
	OP_BODY_DONE(g, in);
	if (!n)
		return -EBADF;
	int fd = node_open_any(g, n, &borrowed);

	if (fd < 0)
		return fd;
	int err = fsync(fd) < 0 ? -errno : 0;

	if (!borrowed)
		close(fd);
	return err;
}
