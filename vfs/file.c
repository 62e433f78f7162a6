/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O on open files: what holds for every kind of file before and after its own operations:
 * modes, positions, limits, O_APPEND, set-id stripping, access times, events.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "vfs/vfs_priv.h"

#define MAX_RW_BYTES 0x7ffff000u
#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif
#ifndef RWF_ATOMIC
#define RWF_ATOMIC 0x40
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif
#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND)
#define SEALS_NO_WRITE (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

static void clamp_bytes(struct uio *u, uint64_t max)
{
	if (u->left > max)
		u->left = max;
}

static int is_watched(struct file *f)
{
	return notify_active(f->inode->sb->vfs);
}

static void after_read(struct file *f, ssize_t n)
{
	uint32_t type = f->inode->mode & S_IFMT;

	if (n <= 0)
		return;
	if ((type == S_IFREG || type == S_IFDIR) && !(f->mode & FMODE_NOCMTIME))
		path_touch_atime(f->path, f->flags);
	if (is_watched(f))
		notify_dentry(f->path.dentry, IN_ACCESS);
}

static int read_check(struct file *f, struct uio *u)
{
	if (!(f->mode & FMODE_READ) || (f->mode & FMODE_PATH))
		return -EBADF;
	if (!f->ops->read)
		return S_ISDIR(f->inode->mode) ? -EISDIR : -EINVAL;
	clamp_bytes(u, MAX_RW_BYTES);
	return 0;
}

ssize_t file_read(struct file *f, struct uio *u)
{
	int64_t pos;
	ssize_t n = read_check(f, u);

	if (n)
		return n;
	if (f->mode & FMODE_STREAM) {
		n = f->ops->read(f, u, NULL);
	} else {
		lock_acquire(&f->pos_lock);
		pos = f->pos;
		/* The position itself is passed: hostfd tells a read at it from a pread by that. */
		n = f->ops->read(f, u, &f->pos);
		if (n <= 0)
			f->pos = pos;
		lock_release(&f->pos_lock);
	}
	after_read(f, n);
	return n;
}

static int positioned_check(struct file *f, int64_t pos)
{
	if (pos < 0)
		return -EINVAL;
	if (f->mode & FMODE_PATH)
		return -EBADF;
	return f->mode & (FMODE_STREAM | FMODE_NOPREAD) ? -ESPIPE : 0;
}

ssize_t file_pread(struct file *f, struct uio *u, int64_t pos)
{
	ssize_t n = positioned_check(f, pos);

	if (!n)
		n = read_check(f, u);
	if (n)
		return n;
	n = f->ops->read(f, u, &pos);
	after_read(f, n);
	return n;
}

ssize_t file_kread(struct file *f, void *buf, size_t n, int64_t pos)
{
	size_t done = 0;

	if (!f->ops->read)
		return -EINVAL;
	while (done < n) {
		struct uio u;
		ssize_t r;

		uio_init_kernel(&u, (char *)buf + done, n - done);
		r = f->ops->read(f, &u, &pos);
		if (r < 0)
			return done ? (ssize_t)done : r;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static struct lock *append_lock(struct file *f)
{
	struct vfs *vfs = f->inode->sb->vfs;

	return &vfs->append_locks[hash_u64((uintptr_t)f->inode) >> 60 & (APPEND_LOCKS - 1)];
}

/* Limits of regular files at pos: may shorten u. */
static int write_limits(struct file *f, struct uio *u, int64_t pos, uint64_t fsize_limit)
{
	if (!S_ISREG(f->inode->mode))
		return 0;
	if ((uint64_t)pos >= fsize_limit)
		return -EFBIG;
	clamp_bytes(u, fsize_limit - (uint64_t)pos);
	if (pos == INT64_MAX)
		return -EFBIG;
	clamp_bytes(u, (uint64_t)(INT64_MAX - pos));
	return 0;
}

/* The write itself, of a file with positions; appends find their place here. */
static ssize_t write_at(struct file *f, struct uio *u, int64_t *pos, uint64_t fsize_limit,
			int append)
{
	struct inode *ino = f->inode;
	struct lock *l = NULL;
	ssize_t n = 0;

	if (u->left == 0)
		return 0;
	if (append && S_ISREG(ino->mode)) {
		l = append_lock(f);
		lock_acquire(l);
		if (ino->ops->getattr)
			n = ino->ops->getattr(ino);
		*pos = (int64_t)ino->size;
	}
	if (!n)
		n = write_limits(f, u, *pos, fsize_limit);
	if (!n && (ino->mode & (S_ISUID | S_ISGID) || ino->attr_flags & INODE_MAYBE_CAPS))
		n = inode_strip_privs(ino, f->cred);
	if (!n)
		n = f->ops->write(f, u, pos);
	if (l)
		lock_release(l);
	return n;
}

static int write_check(struct file *f, struct uio *u)
{
	if (!(f->mode & FMODE_WRITE) || (f->mode & FMODE_PATH))
		return -EBADF;
	if (!f->ops->write)
		return -EINVAL;
	clamp_bytes(u, MAX_RW_BYTES);
	return 0;
}

static ssize_t after_write(struct file *f, ssize_t n, int sync)
{
	if (n <= 0)
		return n;
	if (is_watched(f))
		notify_dentry(f->path.dentry, IN_MODIFY);
	if (((f->flags & O_DSYNC) || sync) && f->ops->fsync) {
		int r = f->ops->fsync(f, 0, INT64_MAX, !(f->flags & (O_SYNC & ~O_DSYNC)));

		if (r)
			return r;
	}
	return n;
}

ssize_t file_write(struct file *f, struct uio *u, uint64_t fsize_limit)
{
	ssize_t n = write_check(f, u);
	int64_t pos;

	if (n)
		return n;
	if (f->mode & FMODE_STREAM) {
		n = f->ops->write(f, u, NULL);
	} else {
		lock_acquire(&f->pos_lock);
		pos = f->pos;
		n = write_at(f, u, &f->pos, fsize_limit, (f->flags & O_APPEND) != 0);
		if (n <= 0)
			f->pos = pos;
		lock_release(&f->pos_lock);
	}
	return after_write(f, n, 0);
}

ssize_t file_pwrite(struct file *f, struct uio *u, int64_t pos, uint64_t fsize_limit, int rwf)
{
	ssize_t n;
	int append = (f->flags & O_APPEND) != 0;

	if (rwf & ~RWF_KNOWN)
		return -EOPNOTSUPP;
	if ((rwf & RWF_APPEND) && (rwf & RWF_NOAPPEND))
		return -EINVAL;
	n = positioned_check(f, pos);
	if (!n)
		n = write_check(f, u);
	if (n)
		return n;
	if (rwf & RWF_APPEND)
		append = 1;
	if (rwf & RWF_NOAPPEND) {
		if (f->inode->attr_flags & STATX_ATTR_APPEND)
			return -EPERM;
		append = 0;
	}
	n = write_at(f, u, &pos, fsize_limit, append);
	return after_write(f, n, rwf & (RWF_SYNC | RWF_DSYNC));
}

static int64_t generic_llseek(struct file *f, int64_t off, int whence)
{
	struct inode *ino = f->inode;
	int64_t size = (int64_t)ino->size, pos;

	if (whence != SEEK_SET && whence != SEEK_CUR && ino->ops->getattr) {
		int r = ino->ops->getattr(ino);

		if (r)
			return r;
		size = (int64_t)ino->size;
	}
	switch (whence) {
	case SEEK_SET:
		pos = off;
		break;
	case SEEK_CUR:
		if (__builtin_add_overflow(f->pos, off, &pos))
			return -EOVERFLOW;
		break;
	case SEEK_END:
		if (S_ISDIR(ino->mode))
			return -EINVAL;
		if (__builtin_add_overflow(size, off, &pos))
			return -EOVERFLOW;
		break;
	case SEEK_DATA: /* all of it is data, with a hole at the end */
	case SEEK_HOLE:
		if (S_ISDIR(ino->mode))
			return -EINVAL;
		if (off < 0 || off >= size)
			return -ENXIO;
		pos = whence == SEEK_DATA ? off : size;
		break;
	default:
		return -EINVAL;
	}
	return pos < 0 ? -EINVAL : pos;
}

int64_t file_llseek(struct file *f, int64_t off, int whence)
{
	int64_t pos;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (whence < 0 || whence > SEEK_HOLE)
		return -EINVAL;
	if (f->mode & FMODE_STREAM)
		return -ESPIPE;
	lock_acquire(&f->pos_lock);
	pos = f->ops->llseek ? f->ops->llseek(f, off, whence) : generic_llseek(f, off, whence);
	if (pos >= 0)
		f->pos = pos;
	lock_release(&f->pos_lock);
	return pos;
}

int file_iterate(struct file *f, struct dir_emit *de)
{
	int64_t pos;
	int r;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (!S_ISDIR(f->inode->mode) || !f->ops->iterate)
		return -ENOTDIR;
	if (path_is_unlinked(f->path))
		return -ENOENT;
	lock_acquire(&f->pos_lock);
	pos = f->pos;
	r = f->ops->iterate(f, de, &pos);
	f->pos = pos;
	lock_release(&f->pos_lock);
	after_read(f, 1);
	return r;
}

uint32_t file_poll(struct file *f, struct poll_table *pt)
{
	if (f->mode & FMODE_PATH)
		return POLLNVAL;
	if (!f->ops->poll)
		return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
	return f->ops->poll(f, pt);
}

/* What every regular file answers; -ENOIOCTLCMD for the rest. */
static long regular_ioctl(struct file *f, struct ioctl_req *r)
{
	struct inode *ino = f->inode;
	int64_t left;
	int n, e;

	switch (r->cmd) {
	case FIONREAD:
		e = ino->ops->getattr ? ino->ops->getattr(ino) : 0;
		if (e)
			return e;
		left = (int64_t)ino->size - f->pos;
		n = left > INT32_MAX ? INT32_MAX : left < INT32_MIN ? INT32_MIN : (int)left;
		return r->copy_out(r, r->arg, &n, sizeof(n));
	case FIBMAP:
		return cred_has_cap(f->cred, CAP_SYS_RAWIO) ? -EINVAL : -EPERM;
	case FS_IOC_FIEMAP:
		return -EOPNOTSUPP;
	default:
		return -ENOIOCTLCMD;
	}
}

long file_ioctl(struct file *f, struct ioctl_req *r)
{
	long e = -ENOIOCTLCMD;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (r->cmd == FIGETBSZ) {
		int n = (int)f->inode->sb->blksize;

		return r->copy_out(r, r->arg, &n, sizeof(n));
	}
	if (S_ISREG(f->inode->mode))
		e = regular_ioctl(f, r);
	if (e == -ENOIOCTLCMD && f->ops->ioctl)
		e = f->ops->ioctl(f, r);
	return e == -ENOIOCTLCMD ? -ENOTTY : e;
}

int file_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	if (f->mode & FMODE_PATH)
		return -EBADF;
	return f->ops->fsync ? f->ops->fsync(f, start, end, datasync) : -EINVAL;
}

static int fallocate_mode_ok(int mode)
{
	switch (mode & ~FALLOC_FL_KEEP_SIZE) {
	case 0:
	case FALLOC_FL_ZERO_RANGE:
		return 0;
	case FALLOC_FL_PUNCH_HOLE:
		return mode & FALLOC_FL_KEEP_SIZE ? 0 : -EOPNOTSUPP;
	case FALLOC_FL_UNSHARE_RANGE:
		return 0;
	case FALLOC_FL_COLLAPSE_RANGE:
	case FALLOC_FL_INSERT_RANGE:
		return mode & FALLOC_FL_KEEP_SIZE ? -EOPNOTSUPP : 0;
	default:
		return -EOPNOTSUPP;
	}
}

int file_fallocate(struct file *f, int mode, int64_t off, int64_t len, uint64_t fsize_limit)
{
	struct inode *ino = f->inode;
	int64_t end;
	int r;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (off < 0 || len <= 0)
		return -EINVAL;
	r = fallocate_mode_ok(mode);
	if (r)
		return r;
	if (!(f->mode & FMODE_WRITE))
		return -EBADF;
	if ((mode & ~FALLOC_FL_KEEP_SIZE) && (ino->attr_flags & STATX_ATTR_APPEND))
		return -EPERM;
	if (ino->attr_flags & STATX_ATTR_IMMUTABLE)
		return -EPERM;
	if (S_ISFIFO(ino->mode))
		return -ESPIPE;
	if (S_ISDIR(ino->mode))
		return -EISDIR;
	if (!S_ISREG(ino->mode) && !S_ISBLK(ino->mode))
		return -ENODEV;
	if (__builtin_add_overflow(off, len, &end))
		return -EFBIG;
	if (!f->ops->fallocate)
		return -EOPNOTSUPP;
	if (!(mode & FALLOC_FL_KEEP_SIZE) && (uint64_t)end > ino->size &&
	    (uint64_t)end > fsize_limit)
		return -EFBIG;
	r = inode_strip_privs(ino, f->cred);
	if (!r)
		r = f->ops->fallocate(f, mode, off, len);
	if (!r && is_watched(f))
		notify_dentry(f->path.dentry, IN_MODIFY);
	return r;
}

int file_flush(struct file *f, uint64_t owner)
{
	int r = 0;

	if (f->ops && f->ops->flush && !(f->mode & FMODE_PATH))
		r = f->ops->flush(f);
	if (f->inode->flock && !(f->mode & FMODE_PATH)) {
		struct flock_req rq = {.type = F_UNLCK, .start = 0, .end = INT64_MAX,
				       .owner = owner, .kind = 0};

		flock_set(f, &rq, NULL);
	}
	return r;
}

int file_set_flags(struct file *f, uint32_t flags)
{
	const uint32_t mutable = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | O_ASYNC;
	uint32_t old, fresh;
	int r;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if ((f->inode->attr_flags & STATX_ATTR_APPEND) && (f->flags & O_APPEND) &&
	    !(flags & O_APPEND))
		return -EPERM;
	if ((flags & O_NOATIME) && !(f->flags & O_NOATIME) &&
	    !inode_owner_or_cap(f->inode, f->cred))
		return -EPERM;
	old = __atomic_load_n(&f->flags, __ATOMIC_RELAXED);
	if (f->ops->set_flags) {
		r = f->ops->set_flags(f, (old & ~mutable) | (flags & mutable));
		if (r)
			return r;
	}
	do
		fresh = (old & ~mutable) | (flags & mutable);
	while (!__atomic_compare_exchange_n(&f->flags, &old, fresh, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	return 0;
}

int file_map_check(struct file *f, int prot, int flags)
{
	int shared = (flags & MAP_TYPE) != MAP_PRIVATE;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (shared && (prot & PROT_WRITE) && !(f->mode & FMODE_WRITE))
		return -EACCES;
	if (shared && (f->inode->attr_flags & STATX_ATTR_APPEND) && (f->mode & FMODE_WRITE))
		return -EACCES;
	if (!(f->mode & FMODE_READ))
		return -EACCES;
	if ((prot & PROT_EXEC) && (f->path.mnt->flags & MNT_F_NOEXEC))
		return -EPERM;
	if (!f->ops->map_extent)
		return -ENODEV;
	if (shared && (prot & PROT_WRITE) && (f->inode->seals & SEALS_NO_WRITE))
		return -EPERM;
	return 0;
}
