/* SPDX-License-Identifier: Apache-2.0 */
/* File sizes and storage: truncate, fallocate, syncing, advice on access. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

static long do_fsync(struct task *t, int fd, int datasync)
{
	struct file *f = fd_get(t, fd);
	int err;

	if (!f)
		return -EBADF;
	err = file_fsync(f, 0, INT64_MAX, datasync);
	file_put(f);
	return err;
}

SYSCALL_HANDLER(fsync)
{
	return do_fsync(t, (int)a->a[0], 0);
}

SYSCALL_HANDLER(fdatasync)
{
	return do_fsync(t, (int)a->a[0], 1);
}

static int sync_sb(struct superblock *sb)
{
	return sb->ops->sync ? sb->ops->sync(sb) : 0;
}

SYSCALL_HANDLER(syncfs)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	int err;

	if (!f)
		return -EBADF;
	err = sync_sb(f->inode->sb);
	file_put(f);
	return err;
}

/* The filesystems the task sees from its root and stands in; others sync when they are closed. */
SYSCALL_HANDLER(sync)
{
	struct vfs_ctx ctx;

	task_vfs_ctx(t, &ctx);
	(void)sync_sb(ctx.root.dentry->sb);
	if (ctx.cwd.dentry->sb != ctx.root.dentry->sb)
		(void)sync_sb(ctx.cwd.dentry->sb);
	task_vfs_ctx_put(&ctx);
	return 0;
}

SYSCALL_HANDLER(sync_file_range)
{
	int64_t off = (int64_t)a->a[1], len = (int64_t)a->a[2], end;
	uint32_t flags = (uint32_t)a->a[3];
	struct file *f = fd_get(t, (int)a->a[0]);
	long r = 0;

	if (!f)
		return -EBADF;
	if ((flags & ~7u) || off < 0 || len < 0 || __builtin_add_overflow(off, len, &end))
		r = -EINVAL;
	else if (!S_ISREG(f->inode->mode) && !S_ISBLK(f->inode->mode) && !S_ISDIR(f->inode->mode) &&
		 !S_ISLNK(f->inode->mode))
		r = -ESPIPE;
	else if (flags & SYNC_FILE_RANGE_WAIT_AFTER)
		r = file_fsync(f, off, len ? end - 1 : INT64_MAX, 1);
	if (r == -EINVAL && !(flags & ~7u) && off >= 0 && len >= 0)
		r = 0; /* memory: nothing to write back */
	file_put(f);
	return r;
}

/* ---- sizes ---- */

static int check_new_size(struct task *t, int64_t size)
{
	if (size < 0)
		return -EINVAL;
	return 0;
}

/* Growing over RLIMIT_FSIZE: signal and EFBIG. */
static int check_size_limit(struct task *t, int64_t size, uint64_t now)
{
	if ((uint64_t)size > now && (uint64_t)size > fsize_limit(t))
		return (int)write_error(t, -EFBIG);
	return 0;
}

SYSCALL_HANDLER(truncate)
{
	int64_t size = (int64_t)a->a[1];
	struct at_path ap;
	struct path p;
	int err = check_new_size(t, size);

	if (!err)
		err = at_begin(t, &ap, AT_FDCWD, a->a[0], 0);
	if (err)
		return err;
	err = at_lookup(&ap, LOOKUP_FOLLOW, &p);
	if (!err) {
		if (S_ISREG(p.dentry->inode->mode))
			err = check_size_limit(t, size, p.dentry->inode->size);
		if (!err)
			err = vfs_truncate(&ap.ctx, p, size);
		path_put(p);
	}
	at_end(&ap);
	return err;
}

SYSCALL_HANDLER(ftruncate)
{
	int64_t size = (int64_t)a->a[1];
	struct file *f;
	int err = check_new_size(t, size);

	if (err)
		return err;
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	if (S_ISREG(f->inode->mode) && (f->mode & FMODE_WRITE))
		err = check_size_limit(t, size, f->inode->size);
	if (!err)
		err = vfs_ftruncate(f, size);
	file_put(f);
	return err;
}

SYSCALL_HANDLER(fallocate)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	long r;

	if (!f)
		return -EBADF;
	r = file_fallocate(f, (int)a->a[1], (int64_t)a->a[2], (int64_t)a->a[3], fsize_limit(t));
	if (r == -EFBIG)
		write_error(t, r);
	file_put(f);
	return r;
}

/* ---- advice ---- */

SYSCALL_HANDLER(fadvise64)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	long r = 0;

	if (!f)
		return -EBADF;
	if (S_ISFIFO(f->inode->mode))
		r = -ESPIPE;
	else if ((int64_t)a->a[2] < 0 || (uint32_t)a->a[3] > POSIX_FADV_NOREUSE)
		r = -EINVAL;
	file_put(f);
	return r;
}

SYSCALL_HANDLER(readahead)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	long r = 0;

	if (!f)
		return -EBADF;
	if (!(f->mode & FMODE_READ))
		r = -EBADF;
	else if (!S_ISREG(f->inode->mode) && !S_ISBLK(f->inode->mode))
		r = -EINVAL;
	file_put(f);
	return r;
}

/* struct cachestat of <linux/mman.h> (6.5). */
struct linux_cachestat {
	uint64_t cache, dirty, writeback, evicted, recently_evicted;
};

/* Everything the sentry serves counts as cached: it knows no dirty or evicted pages of its own. */
SYSCALL_HANDLER(cachestat)
{
	uint64_t range[2], end, size;
	struct linux_cachestat cs = { 0 };
	struct file *f = fd_get(t, (int)a->a[0]);
	long r = 0;

	if (!f)
		return -EBADF;
	if (copy_from_user(t, range, a->a[1], sizeof(range)))
		r = -EFAULT;
	else if ((uint32_t)a->a[3])
		r = -EINVAL;
	if (!r) {
		size = S_ISREG(f->inode->mode) ? f->inode->size : 0;
		if (!range[1] || __builtin_add_overflow(range[0], range[1], &end) || end > size)
			end = size;
		if (range[0] < end)
			cs.cache = (end - 1) / GUEST_PAGE_SIZE - range[0] / GUEST_PAGE_SIZE + 1;
		r = copy_to_user(t, a->a[2], &cs, sizeof(cs));
	}
	file_put(f);
	return r;
}
