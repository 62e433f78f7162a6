/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and names: reading them, making, removing and renaming, the working directory. */
#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

/* One call returns at most this much; programs loop until 0 anyway. */
#define DENTS_MAX (64u << 10)

struct dents {
	struct dir_emit de;
	char *buf;
	size_t size, used;
	int old;       /* getdents(2)'s record */
	int too_small; /* the first entry did not fit */
};

static int dents_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t ino, uint8_t type)
{
	struct dents *d = container_of(de, struct dents, de);
	size_t head = d->old ? 18 : offsetof(struct linux_dirent64, name);
	size_t reclen = (head + len + (d->old ? 2 : 1) + 7) & ~(size_t)7;
	char *at = d->buf + d->used;
	uint16_t rl = (uint16_t)reclen;

	if (reclen > d->size - d->used) {
		d->too_small = d->used == 0;
		return 0;
	}
	memset(at, 0, reclen);
	memcpy(at, &ino, 8);
	memcpy(at + 8, &next_pos, 8);
	memcpy(at + 16, &rl, 2);
	if (d->old) {
		memcpy(at + 18, name, len);
		at[reclen - 1] = (char)type;
	} else {
		at[18] = (char)type;
		memcpy(at + 19, name, len);
	}
	d->used += reclen;
	return 1;
}

static long do_getdents(struct task *t, int fd, uint64_t addr, uint32_t count, int old)
{
	struct file *f = fd_get(t, fd);
	struct dents d = { .de.emit = dents_emit, .old = old };
	long r;

	if (!f)
		return -EBADF;
	d.size = count < DENTS_MAX ? count : DENTS_MAX;
	d.buf = malloc(d.size ? d.size : 1);
	r = d.buf ? file_iterate(f, &d.de) : -ENOMEM;
	if (r >= 0 || (d.used && r != -ENOTDIR)) {
		r = d.used ? (long)d.used : d.too_small ? -EINVAL : r < 0 ? r : 0;
		if (d.used && copy_to_user(t, addr, d.buf, d.used))
			r = -EFAULT;
	}
	free(d.buf);
	file_put(f);
	return r;
}

SYSCALL_HANDLER(getdents)
{
	return do_getdents(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], 1);
}

SYSCALL_HANDLER(getdents64)
{
	return do_getdents(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], 0);
}

static long do_mkdir(struct task *t, int dirfd, uint64_t upath, uint64_t mode)
{
	struct at_path ap;
	int err = at_begin(t, &ap, dirfd, upath, 0);

	if (err)
		return err;
	err = vfs_mkdirat(&ap.ctx, ap.start, ap.name, (uint32_t)mode & 01777);
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(mkdir)
{
	return do_mkdir(t, AT_FDCWD, a->a[0], a->a[1]);
}

SYSCALL_HANDLER(mkdirat)
{
	return do_mkdir(t, (int)a->a[0], a->a[1], a->a[2]);
}

static long do_unlink(struct task *t, int dirfd, uint64_t upath, int dir)
{
	struct at_path ap;
	int err = at_begin(t, &ap, dirfd, upath, 0);

	if (err)
		return err;
	err = vfs_unlinkat(&ap.ctx, ap.start, ap.name, dir);
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(rmdir)
{
	return do_unlink(t, AT_FDCWD, a->a[0], 1);
}

SYSCALL_HANDLER(unlink)
{
	return do_unlink(t, AT_FDCWD, a->a[0], 0);
}

SYSCALL_HANDLER(unlinkat)
{
	if ((int)a->a[2] & ~AT_REMOVEDIR)
		return -EINVAL;
	return do_unlink(t, (int)a->a[0], a->a[1], !!((int)a->a[2] & AT_REMOVEDIR));
}

static long do_rename(struct task *t, int olddir, uint64_t oldpath, int newdir, uint64_t newpath,
		      uint32_t flags)
{
	struct at_path from, to;
	int err;

	if (flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
		return -EINVAL;
	err = at_begin(t, &from, olddir, oldpath, 0);
	if (err)
		return err;
	err = at_begin_second(t, &to, &from, newdir, newpath, 0);
	if (!err) {
		err = vfs_renameat2(&from.ctx, from.start, from.name, to.start, to.name, flags);
		at_end_second(&to);
	}
	at_end(&from);
	return err;
}

SYSCALL_HANDLER(rename)
{
	return do_rename(t, AT_FDCWD, a->a[0], AT_FDCWD, a->a[1], 0);
}

SYSCALL_HANDLER(renameat)
{
	return do_rename(t, (int)a->a[0], a->a[1], (int)a->a[2], a->a[3], 0);
}

SYSCALL_HANDLER(renameat2)
{
	return do_rename(t, (int)a->a[0], a->a[1], (int)a->a[2], a->a[3], (uint32_t)a->a[4]);
}

static long do_link(struct task *t, int olddir, uint64_t oldpath, int newdir, uint64_t newpath,
		    uint32_t flags)
{
	struct at_path from, to;
	uint32_t lookup = 0;
	int err;

	if (flags & ~(uint32_t)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (flags & AT_SYMLINK_FOLLOW)
		lookup |= LOOKUP_FOLLOW;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	err = at_begin(t, &from, olddir, oldpath, flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (err)
		return err;
	/* Linking an arbitrary descriptor needs the privilege to have found it by path. */
	if (from.name[0] == 0 && !cred_has_cap(task_cred(t), CAP_DAC_READ_SEARCH) &&
	    !(from.f && from.f->cred == task_cred(t))) {
		at_end(&from);
		return -ENOENT;
	}
	err = at_begin_second(t, &to, &from, newdir, newpath, 0);
	if (!err) {
		err = vfs_linkat(&from.ctx, from.start, from.name, to.start, to.name, lookup);
		at_end_second(&to);
	}
	at_end(&from);
	return err;
}

SYSCALL_HANDLER(link)
{
	return do_link(t, AT_FDCWD, a->a[0], AT_FDCWD, a->a[1], 0);
}

SYSCALL_HANDLER(linkat)
{
	return do_link(t, (int)a->a[0], a->a[1], (int)a->a[2], a->a[3], (uint32_t)a->a[4]);
}

static long do_symlink(struct task *t, uint64_t utarget, int dirfd, uint64_t upath)
{
	struct at_path ap;
	char *target = copy_path_from_user(t, utarget);
	int err;

	if (IS_ERR(target))
		return PTR_ERR(target);
	err = target[0] ? at_begin(t, &ap, dirfd, upath, 0) : -ENOENT;
	if (!err) {
		err = vfs_symlinkat(&ap.ctx, target, ap.start, ap.name);
		at_end(&ap);
	}
	free(target);
	return err;
}

SYSCALL_HANDLER(symlink)
{
	return do_symlink(t, a->a[0], AT_FDCWD, a->a[1]);
}

SYSCALL_HANDLER(symlinkat)
{
	return do_symlink(t, a->a[0], (int)a->a[1], a->a[2]);
}

static long do_mknod(struct task *t, int dirfd, uint64_t upath, uint32_t mode, uint64_t dev)
{
	struct at_path ap;
	int err;

	if ((mode & S_IFMT) == 0)
		mode |= S_IFREG;
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	err = at_begin(t, &ap, dirfd, upath, 0);
	if (err)
		return err;
	err = vfs_mknodat(&ap.ctx, ap.start, ap.name, mode, dev & 0xffffffffu);
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(mknod)
{
	return do_mknod(t, AT_FDCWD, a->a[0], (uint32_t)a->a[1] & 0xffff, a->a[2]);
}

SYSCALL_HANDLER(mknodat)
{
	return do_mknod(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2] & 0xffff, a->a[3]);
}

/* ---- the task's own directories ---- */

enum { SET_CWD, SET_ROOT };

/* Consumes p. */
static void set_fs_path(struct task *t, int which, struct path p)
{
	struct path *slot = which == SET_CWD ? &t->fs->cwd : &t->fs->root, old;

	lock_acquire(&t->fs->lock);
	old = *slot;
	*slot = p;
	lock_release(&t->fs->lock);
	path_put(old);
}

static long change_dir(struct task *t, uint64_t upath, int which)
{
	struct at_path ap;
	struct path p;
	int err = at_begin(t, &ap, AT_FDCWD, upath, 0);

	if (err)
		return err;
	err = at_lookup(&ap, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &p);
	if (!err) {
		err = vfs_path_permission(p, MAY_EXEC, task_cred(t));
		if (!err && which == SET_ROOT && !cred_has_cap(task_cred(t), CAP_SYS_CHROOT))
			err = -EPERM;
		if (err)
			path_put(p);
	}
	at_end(&ap);
	if (!err)
		set_fs_path(t, which, p);
	return err;
}

SYSCALL_HANDLER(chdir)
{
	return change_dir(t, a->a[0], SET_CWD);
}

SYSCALL_HANDLER(chroot)
{
	return change_dir(t, a->a[0], SET_ROOT);
}

SYSCALL_HANDLER(fchdir)
{
	struct file *f = fd_get_path(t, (int)a->a[0]);
	int err;

	if (!f)
		return -EBADF;
	err = S_ISDIR(f->inode->mode) ? vfs_path_permission(f->path, MAY_EXEC, task_cred(t))
				      : -ENOTDIR;
	if (!err)
		set_fs_path(t, SET_CWD, path_get(f->path));
	file_put(f);
	return err;
}

SYSCALL_HANDLER(getcwd)
{
	struct vfs_ctx ctx;
	char *buf = malloc(PATH_MAX + 32), *name;
	long r;

	if (!buf)
		return -ENOMEM;
	task_vfs_ctx(t, &ctx);
	if (path_is_unlinked(ctx.cwd)) {
		r = -ENOENT;
	} else {
		name = path_name(t->k->vfs, ctx.cwd, ctx.root, buf, PATH_MAX + 32);
		r = IS_ERR(name) ? PTR_ERR(name) : (long)strlen(name) + 1;
		if (r > 0 && (uint64_t)r > a->a[1])
			r = -ERANGE;
		else if (r > 0 && copy_to_user(t, a->a[0], name, (size_t)r))
			r = -EFAULT;
	}
	task_vfs_ctx_put(&ctx);
	free(buf);
	return r;
}
