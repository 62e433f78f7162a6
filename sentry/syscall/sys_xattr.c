/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: by path, by link, by descriptor, and the *at forms of 6.13. */
#include <errno.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

/* What an xattr call works on. */
struct xattr_target {
	struct at_path ap;
	struct vfs_ctx own_ctx;
	const struct vfs_ctx *ctx;
	struct path p; /* reference */
	int by_fd;
};

static int target_path(struct task *t, struct xattr_target *x, int dirfd, uint64_t upath,
		       uint32_t flags)
{
	int err = at_begin(t, &x->ap, dirfd, upath,
			   flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY | AT_BEGIN_NULL : 0);

	if (err)
		return err;
	x->by_fd = 0;
	x->ctx = &x->ap.ctx;
	err = at_lookup(&x->ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &x->p);
	if (err)
		at_end(&x->ap);
	return err;
}

static int target_fd(struct task *t, struct xattr_target *x, int fd)
{
	struct file *f = fd_get(t, fd);

	if (!f)
		return -EBADF;
	x->by_fd = 1;
	x->p = path_get(f->path);
	file_put(f);
	task_vfs_ctx(t, &x->own_ctx);
	x->ctx = &x->own_ctx;
	return 0;
}

static void target_end(struct xattr_target *x)
{
	path_put(x->p);
	if (x->by_fd)
		task_vfs_ctx_put(&x->own_ctx);
	else
		at_end(&x->ap);
}

/* A name of 1 to 255 bytes: -ERANGE otherwise. */
static int get_name(struct task *t, uint64_t uname, char name[XATTR_NAME_MAX + 1])
{
	ssize_t n = copy_string_from_user(t, name, XATTR_NAME_MAX + 1, uname);

	if (n == 0 || n == -ENAMETOOLONG)
		return -ERANGE;
	return n < 0 ? (int)n : 0;
}

/* ---- the four operations on a target ---- */

static long do_set(struct task *t, struct xattr_target *x, const char *name, const void *val,
		   uint64_t size, uint32_t flags)
{
	return vfs_setxattr(x->ctx, x->p, name, val, size, (int)flags);
}

/* Name, value and flags are read before the target is looked up. */
static long set_args(struct task *t, uint64_t uname, uint64_t uval, uint64_t size, uint32_t flags,
		     char name[XATTR_NAME_MAX + 1], void **val)
{
	int err;

	*val = NULL;
	if (flags & ~(uint32_t)(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	err = get_name(t, uname, name);
	if (err)
		return err;
	if (size > XATTR_SIZE_MAX)
		return -E2BIG;
	*val = malloc(size ? size : 1);
	if (!*val)
		return -ENOMEM;
	err = size ? copy_from_user(t, *val, uval, size) : 0;
	if (err) {
		free(*val);
		*val = NULL;
	}
	return err;
}

static long do_get(struct task *t, struct xattr_target *x, const char *name, uint64_t uval,
		   uint64_t size)
{
	void *buf = NULL;
	long r;

	if (size > XATTR_SIZE_MAX)
		size = XATTR_SIZE_MAX;
	if (size) {
		buf = malloc(size);
		if (!buf)
			return -ENOMEM;
	}
	r = vfs_getxattr(x->ctx, x->p, name, buf, size);
	if (r > 0 && size && copy_to_user(t, uval, buf, (size_t)r))
		r = -EFAULT;
	else if (r == -ERANGE && size == XATTR_SIZE_MAX)
		r = -E2BIG;
	free(buf);
	return r;
}

static long do_list(struct task *t, struct xattr_target *x, uint64_t ulist, uint64_t size)
{
	char *buf = NULL;
	long r;

	if (size > XATTR_LIST_MAX)
		size = XATTR_LIST_MAX;
	if (size) {
		buf = malloc(size);
		if (!buf)
			return -ENOMEM;
	}
	r = vfs_listxattr(x->ctx, x->p, buf, size);
	if (r > 0 && size && copy_to_user(t, ulist, buf, (size_t)r))
		r = -EFAULT;
	else if (r == -ERANGE && size == XATTR_LIST_MAX)
		r = -E2BIG;
	free(buf);
	return r;
}

/* ---- by path, link and fd: fd -1 means the path ---- */

struct xattr_where {
	int fd; /* f*xattr, else -1 */
	int dirfd;
	uint64_t upath;
	uint32_t flags; /* AT_* */
};

static int target_begin(struct task *t, struct xattr_target *x, const struct xattr_where *w,
			int by_fd)
{
	return by_fd ? target_fd(t, x, w->fd) : target_path(t, x, w->dirfd, w->upath, w->flags);
}

static long xattr_set(struct task *t, const struct xattr_where *w, int by_fd, uint64_t uname,
		      uint64_t uval, uint64_t size, uint32_t flags)
{
	char name[XATTR_NAME_MAX + 1];
	struct xattr_target x;
	void *val;
	long r = set_args(t, uname, uval, size, flags, name, &val);

	if (!r)
		r = target_begin(t, &x, w, by_fd);
	if (!r) {
		r = do_set(t, &x, name, val, size, flags);
		target_end(&x);
	}
	free(val);
	return r;
}

static long xattr_get(struct task *t, const struct xattr_where *w, int by_fd, uint64_t uname,
		      uint64_t uval, uint64_t size)
{
	char name[XATTR_NAME_MAX + 1];
	struct xattr_target x;
	long r = get_name(t, uname, name);

	if (!r)
		r = target_begin(t, &x, w, by_fd);
	if (!r) {
		r = do_get(t, &x, name, uval, size);
		target_end(&x);
	}
	return r;
}

static long xattr_list(struct task *t, const struct xattr_where *w, int by_fd, uint64_t ulist,
		       uint64_t size)
{
	struct xattr_target x;
	long r = target_begin(t, &x, w, by_fd);

	if (!r) {
		r = do_list(t, &x, ulist, size);
		target_end(&x);
	}
	return r;
}

static long xattr_remove(struct task *t, const struct xattr_where *w, int by_fd, uint64_t uname)
{
	char name[XATTR_NAME_MAX + 1];
	struct xattr_target x;
	long r = get_name(t, uname, name);

	if (!r)
		r = target_begin(t, &x, w, by_fd);
	if (!r) {
		r = vfs_removexattr(x.ctx, x.p, name);
		target_end(&x);
	}
	return r;
}

static struct xattr_where by_path(uint64_t upath, uint32_t flags)
{
	return (struct xattr_where){ .fd = -1, .dirfd = AT_FDCWD, .upath = upath, .flags = flags };
}

#define XATTR_FAMILY(prefix, where, by_fd)                                                         \
	SYSCALL_HANDLER(prefix##setxattr)                                                          \
	{                                                                                          \
		struct xattr_where w = where;                                                      \
		return xattr_set(t, &w, by_fd, a->a[1], a->a[2], a->a[3], (uint32_t)a->a[4]);      \
	}                                                                                          \
	SYSCALL_HANDLER(prefix##getxattr)                                                          \
	{                                                                                          \
		struct xattr_where w = where;                                                      \
		return xattr_get(t, &w, by_fd, a->a[1], a->a[2], a->a[3]);                         \
	}                                                                                          \
	SYSCALL_HANDLER(prefix##listxattr)                                                         \
	{                                                                                          \
		struct xattr_where w = where;                                                      \
		return xattr_list(t, &w, by_fd, a->a[1], a->a[2]);                                 \
	}                                                                                          \
	SYSCALL_HANDLER(prefix##removexattr)                                                       \
	{                                                                                          \
		struct xattr_where w = where;                                                      \
		return xattr_remove(t, &w, by_fd, a->a[1]);                                        \
	}

/* clang-format off */
XATTR_FAMILY(, by_path(a->a[0], 0), 0)
XATTR_FAMILY(l, by_path(a->a[0], AT_SYMLINK_NOFOLLOW), 0)
XATTR_FAMILY(f, ((struct xattr_where){ .fd = (int)a->a[0] }), 1)
/* clang-format on */

/* ---- *at ---- */

struct linux_xattr_args {
	uint64_t value;
	uint32_t size;
	uint32_t flags;
};

/* An empty path with AT_EMPTY_PATH works on the descriptor itself. */
static int at_where(const struct sysargs *a, struct xattr_where *w)
{
	uint32_t flags = (uint32_t)a->a[2];

	if (flags & ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	*w = (struct xattr_where){
		.fd = -1, .dirfd = (int)a->a[0], .upath = a->a[1], .flags = flags
	};
	return 0;
}

SYSCALL_HANDLER(setxattrat)
{
	struct linux_xattr_args args;
	struct xattr_where w;
	int err = copy_struct_from_user(t, &args, sizeof(args), a->a[4], a->a[5], sizeof(args));

	if (!err)
		err = at_where(a, &w);
	return err ? err : xattr_set(t, &w, 0, a->a[3], args.value, args.size, args.flags);
}

SYSCALL_HANDLER(getxattrat)
{
	struct linux_xattr_args args;
	struct xattr_where w;
	int err = copy_struct_from_user(t, &args, sizeof(args), a->a[4], a->a[5], sizeof(args));

	if (!err && args.flags)
		err = -EINVAL;
	if (!err)
		err = at_where(a, &w);
	return err ? err : xattr_get(t, &w, 0, a->a[3], args.value, args.size);
}

SYSCALL_HANDLER(listxattrat)
{
	struct xattr_where w;
	int err = at_where(a, &w);

	return err ? err : xattr_list(t, &w, 0, a->a[3], a->a[4]);
}

SYSCALL_HANDLER(removexattrat)
{
	struct xattr_where w;
	int err = at_where(a, &w);

	return err ? err : xattr_remove(t, &w, 0, a->a[3]);
}
