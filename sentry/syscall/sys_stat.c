/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of files: stat in all forms, access, statfs, readlink, mode, owner, times. Extended
 * attributes are sys_xattr.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/securebits.h>
#include <sys/stat.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

/* ---- stat ---- */

static long stat_path(struct task *t, int dirfd, uint64_t upath, uint64_t ubuf, uint32_t flags)
{
	struct at_path ap;
	struct path p;
	struct linux_stat st = { 0 };
	int err = at_begin(t, &ap, dirfd, upath,
			   flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY | AT_BEGIN_NULL : 0);

	if (err)
		return err;
	err = at_lookup(&ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
	if (!err) {
		err = vfs_getattr(p, &st);
		path_put(p);
	}
	at_end(&ap);
	return err ? err : copy_to_user(t, ubuf, &st, sizeof(st));
}

SYSCALL_HANDLER(stat)
{
	return stat_path(t, AT_FDCWD, a->a[0], a->a[1], 0);
}

SYSCALL_HANDLER(lstat)
{
	return stat_path(t, AT_FDCWD, a->a[0], a->a[1], AT_SYMLINK_NOFOLLOW);
}

SYSCALL_HANDLER(fstat)
{
	struct file *f = fd_get_path(t, (int)a->a[0]);
	struct linux_stat st = { 0 };
	int err;

	if (!f)
		return -EBADF;
	err = vfs_getattr(f->path, &st);
	file_put(f);
	return err ? err : copy_to_user(t, a->a[1], &st, sizeof(st));
}

SYSCALL_HANDLER(newfstatat)
{
	uint32_t flags = (uint32_t)a->a[3];

	if (flags &
	    ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE))
		return -EINVAL;
	return stat_path(t, (int)a->a[0], a->a[1], a->a[2], flags);
}

SYSCALL_HANDLER(statx)
{
	uint32_t flags = (uint32_t)a->a[2], mask = (uint32_t)a->a[3];
	struct at_path ap;
	struct path p;
	struct statx stx;
	int err;

	if (mask & 0x80000000u) /* STATX__RESERVED */
		return -EINVAL;
	if ((flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE)
		return -EINVAL;
	if (flags &
	    ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE))
		return -EINVAL;
	err = at_begin(t, &ap, (int)a->a[0], a->a[1],
		       flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY | AT_BEGIN_NULL : 0);
	if (err)
		return err;
	memset(&stx, 0, sizeof(stx));
	err = at_lookup(&ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
	if (!err) {
		err = vfs_statx(p, mask, &stx);
		path_put(p);
	}
	at_end(&ap);
	return err ? err : copy_to_user(t, a->a[4], &stx, sizeof(stx));
}

/* ---- statfs ---- */

SYSCALL_HANDLER(statfs)
{
	struct at_path ap;
	struct path p;
	struct linux_statfs st = { 0 };
	int err = at_begin(t, &ap, AT_FDCWD, a->a[0], 0);

	if (err)
		return err;
	err = at_lookup(&ap, LOOKUP_FOLLOW, &p);
	if (!err) {
		err = vfs_statfs(p, &st);
		path_put(p);
	}
	at_end(&ap);
	return err ? err : copy_to_user(t, a->a[1], &st, sizeof(st));
}

SYSCALL_HANDLER(fstatfs)
{
	struct file *f = fd_get_path(t, (int)a->a[0]);
	struct linux_statfs st = { 0 };
	int err;

	if (!f)
		return -EBADF;
	err = vfs_statfs(f->path, &st);
	file_put(f);
	return err ? err : copy_to_user(t, a->a[1], &st, sizeof(st));
}

/* ---- access ---- */

/*
 * Credentials with the real ids in the filesystem ids' place (access_override_creds): a set-id
 * program asks what its caller may do.
 */
static const struct cred *real_cred(struct task *t)
{
	const struct cred *c = task_cred(t);
	uint64_t caps = c->cap_effective;
	struct cred *n;

	if (!(c->securebits & SECBIT_NO_SETUID_FIXUP))
		caps = c->uid == 0 ? c->cap_permitted : 0;
	if (c->fsuid == c->uid && c->fsgid == c->gid && caps == c->cap_effective)
		return cred_get(c);
	n = cred_dup(c);
	if (!n)
		return ERR_PTR(-ENOMEM);
	n->fsuid = c->uid;
	n->fsgid = c->gid;
	n->cap_effective = caps;
	return n;
}

static long do_access(struct task *t, int dirfd, uint64_t upath, uint32_t mode, uint32_t flags)
{
	const struct cred *cred;
	struct at_path ap;
	struct path p;
	int err;

	if (mode & ~(uint32_t)(R_OK | W_OK | X_OK))
		return -EINVAL;
	if (flags & ~(uint32_t)(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	cred = flags & AT_EACCESS ? cred_get(task_cred(t)) : real_cred(t);
	if (IS_ERR(cred))
		return PTR_ERR(cred);
	err = at_begin(t, &ap, dirfd, upath, flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (!err) {
		const struct cred *own = ap.ctx.cred;

		ap.ctx.cred = cred;
		err = at_lookup(&ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
		if (!err) {
			err = vfs_access(&ap.ctx, p, mode, cred);
			path_put(p);
		}
		ap.ctx.cred = own;
		at_end(&ap);
	}
	cred_put(cred);
	return err;
}

SYSCALL_HANDLER(access)
{
	return do_access(t, AT_FDCWD, a->a[0], (uint32_t)a->a[1], 0);
}

SYSCALL_HANDLER(faccessat)
{
	return do_access(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], 0);
}

SYSCALL_HANDLER(faccessat2)
{
	return do_access(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], (uint32_t)a->a[3]);
}

/* ---- readlink ---- */

static long do_readlink(struct task *t, int dirfd, uint64_t upath, uint64_t ubuf, int size)
{
	struct at_path ap;
	struct path p;
	char *buf;
	size_t n;
	long r;

	if (size <= 0)
		return -EINVAL;
	n = size < PATH_MAX ? (size_t)size : PATH_MAX;
	r = at_begin(t, &ap, dirfd, upath, AT_BEGIN_EMPTY);
	if (r)
		return r;
	r = at_lookup(&ap, 0, &p);
	if (!r) {
		buf = malloc(n);
		if (!buf)
			r = -ENOMEM;
		else if (!S_ISLNK(p.dentry->inode->mode))
			r = ap.name[0] ? -EINVAL : -ENOENT;
		else
			r = vfs_readlink(&ap.ctx, p, buf, n);
		if (r > 0 && copy_to_user(t, ubuf, buf, (size_t)r))
			r = -EFAULT;
		free(buf);
		path_put(p);
	}
	at_end(&ap);
	return r;
}

SYSCALL_HANDLER(readlink)
{
	return do_readlink(t, AT_FDCWD, a->a[0], a->a[1], (int)a->a[2]);
}

SYSCALL_HANDLER(readlinkat)
{
	return do_readlink(t, (int)a->a[0], a->a[1], a->a[2], (int)a->a[3]);
}

/* ---- mode and owner ---- */

static long do_chmod(struct task *t, int dirfd, uint64_t upath, uint32_t mode, uint32_t flags)
{
	struct at_path ap;
	struct path p;
	int err;

	if (flags & ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	err = at_begin(t, &ap, dirfd, upath, flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (err)
		return err;
	err = at_lookup(&ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
	if (!err) {
		err = vfs_chmod(&ap.ctx, p, mode & 07777);
		path_put(p);
	}
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(chmod)
{
	return do_chmod(t, AT_FDCWD, a->a[0], (uint32_t)a->a[1], 0);
}

SYSCALL_HANDLER(fchmodat)
{
	return do_chmod(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], 0);
}

SYSCALL_HANDLER(fchmodat2)
{
	return do_chmod(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], (uint32_t)a->a[3]);
}

SYSCALL_HANDLER(fchmod)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	struct vfs_ctx ctx;
	int err;

	if (!f)
		return -EBADF;
	task_vfs_ctx(t, &ctx);
	err = vfs_chmod(&ctx, f->path, (uint32_t)a->a[1] & 07777);
	task_vfs_ctx_put(&ctx);
	file_put(f);
	return err;
}

static long do_chown(struct task *t, int dirfd, uint64_t upath, uint64_t uid, uint64_t gid,
		     uint32_t flags)
{
	struct at_path ap;
	struct path p;
	int err;

	if (flags & ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	err = at_begin(t, &ap, dirfd, upath, flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (err)
		return err;
	err = at_lookup(&ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
	if (!err) {
		err = vfs_chown(&ap.ctx, p, (uint32_t)uid, (uint32_t)gid);
		path_put(p);
	}
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(chown)
{
	return do_chown(t, AT_FDCWD, a->a[0], a->a[1], a->a[2], 0);
}

SYSCALL_HANDLER(lchown)
{
	return do_chown(t, AT_FDCWD, a->a[0], a->a[1], a->a[2], AT_SYMLINK_NOFOLLOW);
}

SYSCALL_HANDLER(fchownat)
{
	return do_chown(t, (int)a->a[0], a->a[1], a->a[2], a->a[3], (uint32_t)a->a[4]);
}

SYSCALL_HANDLER(fchown)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	struct vfs_ctx ctx;
	int err;

	if (!f)
		return -EBADF;
	task_vfs_ctx(t, &ctx);
	err = vfs_chown(&ctx, f->path, (uint32_t)a->a[1], (uint32_t)a->a[2]);
	task_vfs_ctx_put(&ctx);
	file_put(f);
	return err;
}

/* ---- times ---- */

static int nsec_ok(int64_t ns)
{
	return (ns >= 0 && ns < 1000000000) || ns == UTIME_NOW || ns == UTIME_OMIT;
}

static long set_times(struct task *t, int dirfd, uint64_t upath, const struct linux_timespec *ts,
		      uint32_t flags)
{
	struct at_path ap;
	struct path p;
	struct vfs_ctx ctx;
	struct file *f;
	int err;

	if (ts && (!nsec_ok(ts[0].nsec) || !nsec_ok(ts[1].nsec)))
		return -EINVAL;
	if (ts && ts[0].nsec == UTIME_OMIT && ts[1].nsec == UTIME_OMIT)
		return 0;
	if (flags & ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (!upath && dirfd != AT_FDCWD) {
		if (flags)
			return -EINVAL;
		f = fd_get(t, dirfd);
		if (!f)
			return -EBADF;
		task_vfs_ctx(t, &ctx);
		err = vfs_utimens(&ctx, f->path, ts);
		task_vfs_ctx_put(&ctx);
		file_put(f);
		return err;
	}
	err = at_begin(t, &ap, dirfd, upath, flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (err)
		return err;
	err = at_lookup(&ap, flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW, &p);
	if (!err) {
		err = vfs_utimens(&ap.ctx, p, ts);
		path_put(p);
	}
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(utimensat)
{
	struct linux_timespec ts[2];

	if (a->a[2] && copy_from_user(t, ts, a->a[2], sizeof(ts)))
		return -EFAULT;
	return set_times(t, (int)a->a[0], a->a[1], a->a[2] ? ts : NULL, (uint32_t)a->a[3]);
}

static long times_from_timeval(struct task *t, int dirfd, uint64_t upath, uint64_t utv)
{
	struct linux_timespec ts[2];

	if (!utv)
		return set_times(t, dirfd, upath, NULL, 0);
	/* struct timeval: seconds, microseconds. */
	if (copy_from_user(t, ts, utv, sizeof(ts)))
		return -EFAULT;
	for (int i = 0; i < 2; i++) {
		if (ts[i].nsec < 0 || ts[i].nsec >= 1000000)
			return -EINVAL;
		ts[i].nsec *= 1000;
	}
	return set_times(t, dirfd, upath, ts, 0);
}

SYSCALL_HANDLER(utimes)
{
	return times_from_timeval(t, AT_FDCWD, a->a[0], a->a[1]);
}

SYSCALL_HANDLER(futimesat)
{
	return times_from_timeval(t, (int)a->a[0], a->a[1], a->a[2]);
}

SYSCALL_HANDLER(utime)
{
	struct linux_timespec ts[2] = { { 0 } };
	int64_t tb[2];

	if (!a->a[1])
		return set_times(t, AT_FDCWD, a->a[0], NULL, 0);
	if (copy_from_user(t, tb, a->a[1], sizeof(tb)))
		return -EFAULT;
	ts[0].sec = tb[0];
	ts[1].sec = tb[1];
	return set_times(t, AT_FDCWD, a->a[0], ts, 0);
}
