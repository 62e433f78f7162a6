/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the file system calls; see fs_util.h. */
#include "sentry/syscall/fs_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "platform/base/ktimer.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/socket/socket.h"
#include "vfs/pipe.h"

static int begin_common(struct task *t, struct at_path *ap, int dirfd, uint64_t upath,
			uint32_t flags)
{
	ap->start = NULL;
	ap->f = NULL;
	if (!upath && (flags & AT_BEGIN_NULL)) {
		ap->name = strdup("");
		if (!ap->name)
			return -ENOMEM;
	} else {
		ap->name = copy_path_from_user(t, upath);
		if (IS_ERR(ap->name))
			return (int)PTR_ERR(ap->name);
	}
	if (ap->name[0] == 0 && !(flags & (AT_BEGIN_EMPTY | AT_BEGIN_NULL))) {
		free(ap->name);
		return -ENOENT;
	}
	if (ap->name[0] == '/' || dirfd == AT_FDCWD)
		return 0;
	ap->f = fd_get_path(t, dirfd);
	if (!ap->f) {
		free(ap->name);
		return -EBADF;
	}
	ap->start_path = ap->f->path;
	ap->start = &ap->start_path;
	return 0;
}

int at_begin(struct task *t, struct at_path *ap, int dirfd, uint64_t upath, uint32_t flags)
{
	int err = begin_common(t, ap, dirfd, upath, flags);

	if (!err)
		task_vfs_ctx(t, &ap->ctx);
	return err;
}

void at_end_second(struct at_path *ap)
{
	free(ap->name);
	if (ap->f)
		file_put(ap->f);
}

void at_end(struct at_path *ap)
{
	task_vfs_ctx_put(&ap->ctx);
	at_end_second(ap);
}

int at_begin_second(struct task *t, struct at_path *ap, const struct at_path *first, int dirfd,
		    uint64_t upath, uint32_t flags)
{
	int err = begin_common(t, ap, dirfd, upath, flags);

	ap->ctx = first->ctx;
	return err;
}

int at_lookup(struct at_path *ap, uint32_t lookup_flags, struct path *out)
{
	if (ap->name[0] == 0)
		lookup_flags |= LOOKUP_EMPTY;
	return vfs_lookup(&ap->ctx, ap->start, ap->name, lookup_flags, out);
}

uint64_t fsize_limit(struct task *t)
{
	return rlimit_cur(t, RLIMIT_FSIZE);
}

static void send_self(struct task *t, int signo)
{
	siginfo_t si;

	siginfo_user(&si, signo, t, t);
	(void)signal_send_task(t, &si);
}

long write_error(struct task *t, long err)
{
	if (err == -EPIPE)
		send_self(t, SIGPIPE);
	else if (err == -EFBIG && fsize_limit(t) != RLIM_INFINITY)
		send_self(t, SIGXFSZ);
	return err;
}

int wait_or_eagain(struct task *t, struct file *f, uint32_t events)
{
	uint64_t deadline = NO_DEADLINE, timeout = 0;
	struct socket *s;
	int err;

	if (__atomic_load_n(&f->flags, __ATOMIC_RELAXED) & O_NONBLOCK)
		return -EAGAIN;
	s = f->mode & FMODE_STREAM ? file_socket(f) : NULL;
	if (s)
		timeout = events & POLLIN ? s->rcv_timeout_ns : s->snd_timeout_ns;
	if (timeout)
		deadline = mono_now_ns() + timeout;
	err = task_wait_file(t, f, events, deadline);
	/* SO_RCVTIMEO: EAGAIN at the end, and EINTR rather than a restart. */
	if (err == -ETIMEDOUT)
		return -EAGAIN;
	return err == -ERESTARTSYS && timeout ? -EINTR : err;
}

long file_read_blocking(struct task *t, struct file *f, struct uio *u, const int64_t *pos,
			int nowait)
{
	for (;;) {
		ssize_t r = pos ? file_pread(f, u, *pos) : file_read(f, u);
		int err;

		if (r != -EAGAIN)
			return r;
		if (nowait)
			return -EAGAIN;
		err = wait_or_eagain(t, f, POLLIN | POLLRDNORM);
		if (err)
			return err;
	}
}

long file_write_blocking(struct task *t, struct file *f, struct uio *u, const int64_t *pos, int rwf)
{
	uint64_t limit = fsize_limit(t);
	ssize_t total = 0;
	int nowait = rwf & RWF_NOWAIT;

	for (;;) {
		size_t before = u->left;
		ssize_t r = pos ? file_pwrite(f, u, *pos, limit, rwf) : file_write(f, u, limit);
		int err;

		if (r > 0)
			total += r;
		if (r == -EAGAIN && !nowait) {
			err = wait_or_eagain(t, f, POLLOUT | POLLWRNORM);
			if (!err)
				continue;
			return total ? total : err;
		}
		if (r < 0) {
			/* The signal comes even when some bytes went through before. */
			if (r == -EPIPE || !total)
				write_error(t, r);
			return total ? total : r;
		}
		/* A blocking pipe or socket takes everything before the call ends. */
		if (r == 0 || u->left == 0 || u->left == before || !(f->mode & FMODE_STREAM))
			return total;
		if (nowait || (__atomic_load_n(&f->flags, __ATOMIC_RELAXED) & O_NONBLOCK))
			return total;
	}
}

int open_finish(struct task *t, struct file *f)
{
	struct waiter w;
	int err = fifo_open_wait(f);

	if (err == -EAGAIN) {
		waiter_init(&w, ~0u, task_waiter_wake, t);
		waitq_add(fifo_open_waitq(f), &w);
		while ((err = fifo_open_wait(f)) == -EAGAIN) {
			err = task_sleep(t, NO_DEADLINE);
			if (err)
				break;
		}
		waitq_del(&w);
	}
	if (err)
		file_put(f);
	return err;
}
