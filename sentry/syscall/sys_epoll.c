/* SPDX-License-Identifier: Apache-2.0 */
/* epoll, and the event files made beside it: eventfd and inotify. The objects are vfs/'s. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

#include "platform/base/ktimer.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/anon/anon.h"
#include "vfs/epoll.h"

/* Installs a new file as an fd; consumes it. */
static long install_new(struct task *t, struct file *f, uint32_t cloexec)
{
	int fd;

	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = fd_install(t, f, 0, cloexec ? O_CLOEXEC : 0);
	if (fd < 0)
		file_put(f);
	return fd;
}

SYSCALL_HANDLER(epoll_create)
{
	if ((int)a->a[0] <= 0)
		return -EINVAL;
	return install_new(t, epoll_new(t->k->vfs, task_cred(t)), 0);
}

SYSCALL_HANDLER(epoll_create1)
{
	if ((uint32_t)a->a[0] & ~(uint32_t)EPOLL_CLOEXEC)
		return -EINVAL;
	return install_new(t, epoll_new(t->k->vfs, task_cred(t)), (uint32_t)a->a[0]);
}

SYSCALL_HANDLER(epoll_ctl)
{
	struct epoll_event ev = { 0 };
	struct file *ep, *target;
	int op = (int)a->a[1], fd = (int)a->a[2];
	long r;

	if (op != EPOLL_CTL_DEL && copy_from_user(t, &ev, a->a[3], sizeof(ev)))
		return -EFAULT;
	ep = fd_get(t, (int)a->a[0]);
	if (!ep)
		return -EBADF;
	target = fd_get(t, fd);
	if (!target)
		r = -EBADF;
	else
		r = epoll_ctl_file(ep, op, target, fd, op == EPOLL_CTL_DEL ? NULL : &ev,
				   task_cred(t));
	if (target)
		file_put(target);
	file_put(ep);
	return r;
}

#define COLLECT_FAST 32

/*
 * Makes room in *ev, which is `fast` or from malloc and has room for `room`, for all events that
 * may come at once: one an item, which the guest has paid for, whatever it claims its array holds.
 * Returns the room; without memory what there was.
 */
static int collect_room(struct file *ep, struct epoll_event **ev, struct epoll_event *fast,
			int room, int max)
{
	uint32_t items = epoll_item_count(ep);
	struct epoll_event *more;

	if (items < (uint32_t)max)
		max = (int)items;
	if (max <= room)
		return room;
	more = malloc((size_t)max * sizeof(*more));
	if (!more)
		return room;
	if (*ev != fast)
		free(*ev);
	*ev = more;
	return max;
}

static long epoll_wait_core(struct task *t, int epfd, uint64_t uevents, int max, uint64_t deadline)
{
	struct epoll_event fast[COLLECT_FAST], *ev = fast;
	struct file *ep;
	int room = COLLECT_FAST;
	long n;

	if (max <= 0 || max > (int)(INT_MAX / sizeof(struct epoll_event)))
		return -EINVAL;
	if (!guest_range_ok(uevents, (uint64_t)max * sizeof(*ev)))
		return -EFAULT;
	ep = fd_get(t, epfd);
	if (!ep)
		return -EBADF;
	if (!file_is_epoll(ep)) {
		file_put(ep);
		return -EINVAL;
	}
	for (;;) {
		int err;

		room = collect_room(ep, &ev, fast, room, max);
		n = epoll_collect(ep, ev, max < room ? max : room);
		if (n || !deadline)
			break;
		err = task_wait_file(t, ep, POLLIN, deadline);
		if (err == -ETIMEDOUT) {
			n = epoll_collect(ep, ev, max < room ? max : room);
			break;
		}
		if (err) {
			/* Never restarted, not even with SA_RESTART. */
			n = err == -ERESTARTSYS ? -EINTR : err;
			break;
		}
	}
	if (n > 0 && copy_to_user(t, uevents, ev, (size_t)n * sizeof(*ev)))
		n = -EFAULT;
	if (ev != fast)
		free(ev);
	file_put(ep);
	return n;
}

static uint64_t deadline_ms(int timeout)
{
	if (timeout < 0)
		return NO_DEADLINE;
	return timeout ? mono_now_ns() + (uint64_t)timeout * 1000000 : 0;
}

SYSCALL_HANDLER(epoll_wait)
{
	return epoll_wait_core(t, (int)a->a[0], a->a[1], (int)a->a[2], deadline_ms((int)a->a[3]));
}

static long wait_masked(struct task *t, const struct sysargs *a, uint64_t deadline)
{
	linux_sigset_t set;
	long r;

	if (a->a[4]) {
		r = sigset_from_user(t, a->a[4], a->a[5], &set);
		if (r)
			return r;
		signal_set_temporary_mask(t, set);
	}
	r = epoll_wait_core(t, (int)a->a[0], a->a[1], (int)a->a[2], deadline);
	if (a->a[4] && r != -EINTR)
		signal_restore_saved_mask(t);
	return r;
}

SYSCALL_HANDLER(epoll_pwait)
{
	return wait_masked(t, a, deadline_ms((int)a->a[3]));
}

SYSCALL_HANDLER(epoll_pwait2)
{
	struct linux_timespec ts;
	uint64_t deadline = NO_DEADLINE;

	if (a->a[3]) {
		if (copy_from_user(t, &ts, a->a[3], sizeof(ts)))
			return -EFAULT;
		if (ts.sec < 0 || ts.nsec < 0 || ts.nsec >= 1000000000)
			return -EINVAL;
		if (ts.sec == 0 && ts.nsec == 0)
			deadline = 0;
		else if (ts.sec < INT64_MAX / 2000000000)
			deadline = mono_now_ns() + (uint64_t)ts.sec * 1000000000ull +
				   (uint64_t)ts.nsec;
	}
	return wait_masked(t, a, deadline);
}

/* ---- event files ---- */

SYSCALL_HANDLER(eventfd)
{
	return install_new(t, eventfd_new(t->k->vfs, task_cred(t), (uint32_t)a->a[0], 0), 0);
}

SYSCALL_HANDLER(eventfd2)
{
	int flags = (int)a->a[1];

	return install_new(t, eventfd_new(t->k->vfs, task_cred(t), (uint32_t)a->a[0], flags),
			   (uint32_t)flags & O_CLOEXEC);
}

SYSCALL_HANDLER(inotify_init)
{
	return install_new(t, inotify_new(t->k->vfs, task_cred(t), 0), 0);
}

SYSCALL_HANDLER(inotify_init1)
{
	int flags = (int)a->a[0];

	if (flags & ~(IN_CLOEXEC | IN_NONBLOCK))
		return -EINVAL;
	return install_new(t, inotify_new(t->k->vfs, task_cred(t), flags),
			   (uint32_t)flags & O_CLOEXEC);
}

SYSCALL_HANDLER(inotify_add_watch)
{
	uint32_t mask = (uint32_t)a->a[2];
	int lookup = inotify_lookup_flags(mask);
	struct file *f;
	struct at_path ap;
	struct path p;
	long r;

	if (lookup < 0)
		return lookup;
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	r = file_is_inotify(f) ? at_begin(t, &ap, AT_FDCWD, a->a[1], 0) : -EINVAL;
	if (!r) {
		r = at_lookup(&ap, (uint32_t)lookup, &p);
		if (!r) {
			r = vfs_path_permission(p, MAY_READ, task_cred(t));
			if (!r)
				r = inotify_add_watch_path(f, p, mask);
			path_put(p);
		}
		at_end(&ap);
	}
	file_put(f);
	return r;
}

SYSCALL_HANDLER(inotify_rm_watch)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	long r;

	if (!f)
		return -EBADF;
	r = file_is_inotify(f) ? inotify_rm_watch_wd(f, (int)a->a[1]) : -EINVAL;
	file_put(f);
	return r;
}
