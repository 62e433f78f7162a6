/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of open descriptors: fcntl in all its commands, flock, and the ioctls that belong to
 * every descriptor. Waiting for a file lock happens here; who holds what is vfs/flock.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/dnotify.h"
#include "sentry/signal/sigio.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/pipe.h"
#include "vfs/tmpfs/tmpfs.h"

/* From <linux/fcntl.h>, which can not be included beside the C library's. */
#define F_SPECIFIC_BASE 1024
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY (F_SPECIFIC_BASE + 3)
#endif
#ifndef F_CREATED_QUERY
#define F_CREATED_QUERY (F_SPECIFIC_BASE + 4)
#endif
#define F_CANCELLK_CMD (F_SPECIFIC_BASE + 5)
#ifndef F_GETOWNER_UIDS
#define F_GETOWNER_UIDS 17
#endif
#ifndef FIOQSIZE
#define FIOQSIZE 0x5460
#endif

struct linux_flock {
	int16_t type, whence;
	int32_t pad0;
	int64_t start, len;
	int32_t pid, pad1;
};
_Static_assert(sizeof(struct linux_flock) == 32, "struct flock of x86-64");

struct linux_f_owner_ex {
	int32_t type, pid;
};

enum { LOCK_POSIX, LOCK_OFD, LOCK_FLOCK };

/* ---- locks ---- */

/* Sets a lock, waiting for it when wait is set. */
static long lock_set_blocking(struct task *t, struct file *f, struct flock_req *rq, int wait)
{
	struct waitq *q = NULL;
	struct waiter w;
	long err = flock_set(f, rq, &q);
	int registered = 0;

	while (err == -EAGAIN && wait) {
		if (rq->kind == LOCK_POSIX && !registered) {
			err = flock_will_wait(f, rq);
			if (err)
				break;
			registered = 1;
		}
		waiter_init(&w, ~0u, task_waiter_wake, t);
		waitq_add(q, &w);
		/* Again, now that a release can not be missed. */
		err = flock_set(f, rq, &q);
		if (err == -EAGAIN) {
			err = task_sleep(t, NO_DEADLINE);
			if (!err)
				err = -EAGAIN;
			waitq_del(&w);
			if (err != -EAGAIN)
				break;
			err = flock_set(f, rq, &q);
			continue;
		}
		waitq_del(&w);
	}
	if (registered)
		flock_waited(rq);
	return err;
}

/* flock64_to_posix_lock(): absolute, inclusive range. */
static int lock_range(struct file *f, const struct linux_flock *fl, struct flock_req *rq)
{
	int64_t base;

	switch (fl->whence) {
	case SEEK_SET:
		base = 0;
		break;
	case SEEK_CUR:
		base = f->mode & FMODE_STREAM ? 0 : f->pos;
		break;
	case SEEK_END:
		base = (int64_t)f->inode->size;
		break;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow(base, fl->start, &rq->start))
		return -EOVERFLOW;
	if (rq->start < 0)
		return -EINVAL;
	if (fl->len > 0) {
		if (__builtin_add_overflow(rq->start, fl->len - 1, &rq->end))
			return -EOVERFLOW;
	} else if (fl->len < 0) {
		if (rq->start + fl->len < 0)
			return -EINVAL;
		rq->end = rq->start - 1;
		rq->start += fl->len;
	} else {
		rq->end = INT64_MAX;
	}
	rq->type = fl->type;
	return 0;
}

static void lock_owner(struct task *t, struct file *f, struct flock_req *rq, int ofd)
{
	rq->kind = ofd ? LOCK_OFD : LOCK_POSIX;
	rq->owner = ofd ? (uint64_t)(uintptr_t)f : fdtable_owner(t->files);
	rq->pid = ofd ? -1 : task_tgid(t);
}

static long lock_get(struct task *t, struct file *f, uint64_t arg, int ofd)
{
	struct linux_flock fl;
	struct flock_req rq = { 0 };
	int err = copy_from_user(t, &fl, arg, sizeof(fl));

	if (err)
		return err;
	if (fl.type != F_RDLCK && fl.type != F_WRLCK)
		return -EINVAL;
	if (ofd && fl.pid != 0)
		return -EINVAL;
	err = lock_range(f, &fl, &rq);
	if (err)
		return err;
	lock_owner(t, f, &rq, ofd);
	err = flock_test(f, &rq);
	if (err)
		return err;
	fl.type = rq.type;
	if (rq.type != F_UNLCK) {
		fl.whence = SEEK_SET;
		fl.start = rq.start;
		fl.len = rq.end == INT64_MAX ? 0 : rq.end - rq.start + 1;
		fl.pid = rq.pid;
	}
	return copy_to_user(t, arg, &fl, sizeof(fl));
}

static long lock_set(struct task *t, struct file *f, int fd, uint64_t arg, int ofd, int wait)
{
	struct linux_flock fl;
	struct flock_req rq = { 0 };
	struct file *now;
	long err = copy_from_user(t, &fl, arg, sizeof(fl));

	if (err)
		return err;
	if (ofd && fl.pid != 0)
		return -EINVAL;
	err = lock_range(f, &fl, &rq);
	if (err)
		return err;
	if (fl.type == F_RDLCK	 ? !(f->mode & FMODE_READ)
	    : fl.type == F_WRLCK ? !(f->mode & FMODE_WRITE)
				 : 0)
		return -EBADF;
	if (fl.type != F_RDLCK && fl.type != F_WRLCK && fl.type != F_UNLCK)
		return -EINVAL;
	lock_owner(t, f, &rq, ofd);
	err = lock_set_blocking(t, f, &rq, wait);
	if (err || ofd || fl.type == F_UNLCK)
		return err;
	/* A close of the fd meanwhile has dropped the table's locks before this one came. */
	now = fd_get_path(t, fd);
	if (now != f) {
		struct waitq *q;

		rq.type = F_UNLCK;
		(void)flock_set(f, &rq, &q);
		err = -EBADF;
	}
	if (now)
		file_put(now);
	return err;
}

SYSCALL_HANDLER(flock)
{
	int op = (int)a->a[1], type;
	struct file *f;
	struct flock_req rq = { .start = 0, .end = INT64_MAX, .kind = LOCK_FLOCK };
	long err;

	switch (op & ~LOCK_NB) {
	case LOCK_SH:
		type = F_RDLCK;
		break;
	case LOCK_EX:
		type = F_WRLCK;
		break;
	case LOCK_UN:
		type = F_UNLCK;
		break;
	default:
		return -EINVAL;
	}
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	rq.type = (int16_t)type;
	rq.owner = (uint64_t)(uintptr_t)f;
	rq.pid = task_tgid(t);
	err = lock_set_blocking(t, f, &rq, !(op & LOCK_NB));
	file_put(f);
	return err;
}

/* ---- owners of SIGIO ---- */

static long owner_command(struct task *t, struct file *f, int cmd, uint64_t arg)
{
	struct linux_f_owner_ex ex;
	int pid = (int)arg;

	switch (cmd) {
	case F_SETOWN:
		if (pid == INT32_MIN)
			return -EINVAL;
		return file_owner_set(t, f, pid < 0 ? F_OWNER_PGRP : F_OWNER_PID,
				      pid < 0 ? -pid : pid);
	case F_GETOWN:
		pid = file_owner_get(t, f, &ex.type);
		return ex.type == F_OWNER_PGRP ? -pid : pid;
	case F_SETOWN_EX:
		if (copy_from_user(t, &ex, arg, sizeof(ex)))
			return -EFAULT;
		if (ex.type < F_OWNER_TID || ex.type > F_OWNER_PGRP)
			return -EINVAL;
		return file_owner_set(t, f, ex.type, ex.pid);
	case F_GETOWN_EX:
		ex.pid = file_owner_get(t, f, &ex.type);
		return copy_to_user(t, arg, &ex, sizeof(ex));
	case F_SETSIG:
		if (arg > LINUX_NSIG)
			return -EINVAL;
		return file_owner_set_signal(f, (int)arg);
	default:
		return file_owner_signal(f); /* F_GETSIG */
	}
}

static long dup_min(struct task *t, struct file *f, uint64_t min, uint32_t flags)
{
	int fd;

	if ((uint32_t)min >= rlimit_cur(t, RLIMIT_NOFILE) || (int)min < 0)
		return -EINVAL;
	file_get(f);
	fd = fd_install(t, f, (int)min, flags);
	if (fd < 0)
		file_put(f);
	return fd;
}

static long set_status_flags(struct file *f, uint32_t arg)
{
	const uint32_t settable = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | O_ASYNC;
	uint32_t flags = __atomic_load_n(&f->flags, __ATOMIC_RELAXED);

	if (arg & O_ASYNC)
		log_once("O_ASYNC is stored, but SIGIO is not sent");
	return file_set_flags(f, (flags & ~settable) | (arg & settable));
}

static long hint_command(struct task *t, struct file *f, int cmd, uint64_t arg)
{
	uint64_t hint = 0;

	if (cmd == F_GET_RW_HINT || cmd == F_GET_FILE_RW_HINT)
		return put_user_u64(t, arg, 0);
	if (get_user_u64(t, arg, &hint))
		return -EFAULT;
	return hint > RWH_WRITE_LIFE_EXTREME ? -EINVAL : 0;
}

static long same_file(struct task *t, struct file *f, int fd)
{
	struct file *other = fd_get_path(t, fd);
	long same = other == f;

	if (!other)
		return -EBADF;
	file_put(other);
	return same;
}

SYSCALL_HANDLER(fcntl)
{
	int fd = (int)a->a[0], cmd = (int)(uint32_t)a->a[1];
	uint64_t arg = a->a[2];
	struct file *f = fd_get_path(t, fd);
	long r;

	if (!f)
		return -EBADF;
	if ((f->mode & FMODE_PATH) && cmd != F_DUPFD && cmd != F_DUPFD_CLOEXEC && cmd != F_GETFD &&
	    cmd != F_SETFD && cmd != F_GETFL && cmd != F_DUPFD_QUERY && cmd != F_CREATED_QUERY) {
		file_put(f);
		return -EBADF;
	}
	switch (cmd) {
	case F_DUPFD:
		r = dup_min(t, f, arg, 0);
		break;
	case F_DUPFD_CLOEXEC:
		r = dup_min(t, f, arg, O_CLOEXEC);
		break;
	case F_DUPFD_QUERY:
		r = same_file(t, f, (int)arg);
		break;
	case F_CREATED_QUERY:
		r = 0;
		break;
	case F_GETFD:
		r = fd_get_cloexec(t, fd);
		break;
	case F_SETFD:
		r = fd_set_cloexec(t, fd, !!(arg & FD_CLOEXEC));
		break;
	case F_GETFL:
		r = (long)(__atomic_load_n(&f->flags, __ATOMIC_RELAXED) & ~(uint32_t)O_CLOEXEC);
		break;
	case F_SETFL:
		r = set_status_flags(f, (uint32_t)arg);
		break;
	case F_GETLK:
	case F_OFD_GETLK:
		r = lock_get(t, f, arg, cmd == F_OFD_GETLK);
		break;
	case F_SETLK:
	case F_SETLKW:
		r = lock_set(t, f, fd, arg, 0, cmd == F_SETLKW);
		break;
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		r = lock_set(t, f, fd, arg, 1, cmd == F_OFD_SETLKW);
		break;
	case F_SETOWN:
	case F_GETOWN:
	case F_SETOWN_EX:
	case F_GETOWN_EX:
	case F_SETSIG:
	case F_GETSIG:
		r = owner_command(t, f, cmd, arg);
		break;
	case F_GETOWNER_UIDS: {
		uint32_t ids[2];

		file_owner_uids(f, ids);
		r = copy_to_user(t, arg, ids, sizeof(ids));
		break;
	}
	case F_GETLEASE:
		r = F_UNLCK;
		break;
	case F_SETLEASE:
		log_once("fcntl(F_SETLEASE): leases are not offered");
		r = (int)arg == F_UNLCK ? -EAGAIN : -EINVAL;
		break;
	case F_NOTIFY:
		r = dnotify_set(t, f, fd, (uint32_t)arg);
		break;
	case F_SETPIPE_SZ:
		r = (int64_t)(int)arg < 0 ? -EINVAL : pipe_set_size(f, (uint32_t)arg, task_cred(t));
		break;
	case F_GETPIPE_SZ:
		r = pipe_get_size(f);
		break;
	case F_ADD_SEALS:
		r = arg >> 32 ? -EINVAL : tmpfs_add_seals(f, (uint32_t)arg);
		break;
	case F_GET_SEALS:
		r = tmpfs_get_seals(f);
		break;
	case F_GET_RW_HINT:
	case F_SET_RW_HINT:
	case F_GET_FILE_RW_HINT:
	case F_SET_FILE_RW_HINT:
		r = hint_command(t, f, cmd, arg);
		break;
	default:
		if (cmd != F_CANCELLK_CMD)
			log_once("fcntl command %d is not known: EINVAL", cmd);
		r = -EINVAL;
		break;
	}
	file_put(f);
	return r;
}

/* ---- ioctl ---- */

static int ioctl_copy_in(struct ioctl_req *r, void *dst, uint64_t addr, size_t n)
{
	return copy_from_user(r->priv, dst, addr, n);
}

static int ioctl_copy_out(struct ioctl_req *r, uint64_t addr, const void *src, size_t n)
{
	return copy_to_user(r->priv, addr, src, n);
}

static long set_flag_from_user(struct task *t, struct file *f, uint64_t arg, uint32_t flag)
{
	uint32_t on, flags = __atomic_load_n(&f->flags, __ATOMIC_RELAXED);

	if (get_user_u32(t, arg, &on))
		return -EFAULT;
	return file_set_flags(f, on ? flags | flag : flags & ~flag);
}

SYSCALL_HANDLER(ioctl)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	struct ioctl_req rq = { .cmd = (uint32_t)a->a[1],
				.arg = a->a[2],
				.copy_in = ioctl_copy_in,
				.copy_out = ioctl_copy_out,
				.priv = t };
	long r;

	if (!f)
		return -EBADF;
	switch (rq.cmd) {
	case FIOCLEX:
	case FIONCLEX:
		r = fd_set_cloexec(t, (int)a->a[0], rq.cmd == FIOCLEX);
		break;
	case FIONBIO:
		r = set_flag_from_user(t, f, rq.arg, O_NONBLOCK);
		break;
	case FIOASYNC:
		r = set_flag_from_user(t, f, rq.arg, O_ASYNC);
		break;
	case FIOQSIZE:
		if (S_ISREG(f->inode->mode) || S_ISDIR(f->inode->mode) || S_ISLNK(f->inode->mode))
			r = put_user_u64(t, rq.arg, f->inode->size);
		else
			r = -ENOTTY;
		break;
	default:
		r = file_ioctl(f, &rq);
		if (r == -ENOIOCTLCMD)
			r = -ENOTTY;
		break;
	}
	file_put(f);
	return r;
}
