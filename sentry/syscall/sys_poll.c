/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for descriptors: poll and select with all their variants. The epoll calls and the makers
 * of event files are sys_epoll.c.
 *
 * Theory of operation. A call holds a reference on each file and, once a first pass has found
 * nothing ready, one waiter on each queue those files depend on (poll_set). Then it sleeps, and
 * polls again without registering, until something is ready, the deadline, or a signal. Registering
 * and the first pass are one, so no event in between is lost.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/ktimer.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/syscall/fs_util.h"

#define NSEC_PER_SEC 1000000000ull

/* ---- a set of waiters ---- */

#define POLL_INLINE 12
#define POLL_CHUNK  64

struct poll_chunk {
	struct poll_chunk *next;
	size_t count;
	struct waiter w[POLL_CHUNK];
};

struct poll_set {
	struct poll_table pt;
	struct task *t;
	uint32_t events; /* of the file being polled */
	int err;
	size_t count;
	struct waiter fast[POLL_INLINE];
	struct poll_chunk *chunks;
};

static void poll_set_add(struct poll_table *pt, struct waitq *q)
{
	struct poll_set *ps = container_of(pt, struct poll_set, pt);
	struct waiter *w;

	if (ps->err)
		return;
	if (ps->count < POLL_INLINE) {
		w = &ps->fast[ps->count++];
	} else {
		if (!ps->chunks || ps->chunks->count == POLL_CHUNK) {
			struct poll_chunk *c = calloc(1, sizeof(*c));

			if (!c) {
				ps->err = -ENOMEM;
				return;
			}
			c->next = ps->chunks;
			ps->chunks = c;
		}
		w = &ps->chunks->w[ps->chunks->count++];
	}
	waiter_init(w, ps->events, task_waiter_wake, ps->t);
	waitq_add(q, w);
}

static void poll_set_init(struct poll_set *ps, struct task *t)
{
	ps->pt.add = poll_set_add;
	ps->t = t;
	ps->events = 0;
	ps->err = 0;
	ps->count = 0;
	ps->chunks = NULL;
}

static void poll_set_end(struct poll_set *ps)
{
	for (size_t i = 0; i < ps->count; i++)
		waitq_del(&ps->fast[i]);
	while (ps->chunks) {
		struct poll_chunk *c = ps->chunks;

		for (size_t i = 0; i < c->count; i++)
			waitq_del(&c->w[i]);
		ps->chunks = c->next;
		free(c);
	}
}

/* One descriptor of a call. */
struct poll_item {
	struct file *f; /* reference, or NULL: not open */
	uint32_t events, revents;
};

/* One pass. pt NULL: do not register. The count of items with revents. */
static int poll_pass(struct poll_item *it, size_t n, struct poll_set *ps, int add)
{
	int ready = 0;

	for (size_t i = 0; i < n; i++) {
		if (!it[i].f) {
			ready += it[i].revents != 0;
			continue;
		}
		ps->events = it[i].events | POLLERR | POLLHUP;
		/* Once one is ready nobody will sleep: no need to register any further. */
		it[i].revents = file_poll(it[i].f, add && !ready ? &ps->pt : NULL) & ps->events;
		ready += it[i].revents != 0;
	}
	return ready;
}

/* Waits: the count of ready items, 0 at the deadline, or a restart code. */
static long poll_wait_items(struct task *t, struct poll_item *it, size_t n, uint64_t deadline)
{
	struct poll_set ps;
	long r;

	poll_set_init(&ps, t);
	r = poll_pass(it, n, &ps, deadline != 0);
	while (r == 0 && deadline != 0) {
		int err = ps.err ? ps.err : task_sleep(t, deadline);

		r = poll_pass(it, n, &ps, 0);
		if (r)
			break;
		if (err == -ETIMEDOUT)
			break;
		if (err) {
			r = err;
			break;
		}
	}
	poll_set_end(&ps);
	return r;
}

static void items_put(struct poll_item *it, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (it[i].f)
			file_put(it[i].f);
	}
}

/* ---- time ---- */

/* A deadline from a relative time; 0 stands for "do not wait". */
static uint64_t deadline_after(uint64_t ns)
{
	uint64_t d;

	if (ns == 0)
		return 0;
	if (__builtin_add_overflow(mono_now_ns(), ns, &d))
		return NO_DEADLINE - 1;
	return d;
}

/* {sec, nsec} of the guest: -EINVAL when not normal. */
static int timespec_to_ns(const struct linux_timespec *ts, uint64_t *ns)
{
	if (ts->sec < 0 || ts->nsec < 0 || ts->nsec >= (int64_t)NSEC_PER_SEC)
		return -EINVAL;
	if ((uint64_t)ts->sec > (NO_DEADLINE / 2) / NSEC_PER_SEC)
		*ns = NO_DEADLINE / 2;
	else
		*ns = (uint64_t)ts->sec * NSEC_PER_SEC + (uint64_t)ts->nsec;
	return 0;
}

/* Writes what is left of the time, as select and ppoll do; failure is not reported. */
static void put_remaining(struct task *t, uint64_t uts, uint64_t deadline, uint64_t frac)
{
	uint64_t now = mono_now_ns(), left = deadline > now ? deadline - now : 0;
	struct linux_timespec ts = { (int64_t)(left / NSEC_PER_SEC),
				     (int64_t)(left % NSEC_PER_SEC / frac) };

	(void)copy_to_user(t, uts, &ts, sizeof(ts));
}

/* Sets the temporary mask of ppoll and its like; umask_addr 0: none. */
static int set_wait_mask(struct task *t, uint64_t addr, uint64_t size)
{
	linux_sigset_t set;
	int err;

	if (!addr)
		return 0;
	err = sigset_from_user(t, addr, size, &set);
	if (!err)
		signal_set_temporary_mask(t, set);
	return err;
}

/* A call that a signal interrupted leaves its mask for the handler; any other puts it back. */
static void end_wait_mask(struct task *t, uint64_t addr, int interrupted)
{
	if (addr && !interrupted)
		signal_restore_saved_mask(t);
}

/* ---- poll ---- */

static long poll_core(struct task *t, uint64_t ufds, uint32_t nfds, uint64_t deadline)
{
	struct pollfd fast[POLL_INLINE], *fds = fast;
	struct poll_item fast_items[POLL_INLINE], *items = fast_items;
	long r;

	if (nfds > rlimit_cur(t, RLIMIT_NOFILE))
		return -EINVAL;
	if (nfds > POLL_INLINE) {
		fds = malloc(nfds * sizeof(*fds));
		items = malloc(nfds * sizeof(*items));
		if (!fds || !items) {
			r = -ENOMEM;
			goto out;
		}
	}
	r = nfds ? copy_from_user(t, fds, ufds, nfds * sizeof(*fds)) : 0;
	if (r)
		goto out;
	for (uint32_t i = 0; i < nfds; i++) {
		items[i].f = fds[i].fd >= 0 ? fd_get(t, fds[i].fd) : NULL;
		items[i].events = (uint16_t)fds[i].events;
		items[i].revents = fds[i].fd >= 0 && !items[i].f ? POLLNVAL : 0;
	}
	r = poll_wait_items(t, items, nfds, deadline);
	items_put(items, nfds);
	if (r >= 0) {
		for (uint32_t i = 0; i < nfds; i++)
			fds[i].revents = (short)items[i].revents;
		if (nfds && copy_to_user(t, ufds, fds, nfds * sizeof(*fds)))
			r = -EFAULT;
	}
out:
	if (fds != fast)
		free(fds);
	if (items != fast_items)
		free(items);
	return r;
}

static long poll_restart(struct task *t, struct restart_block *rb)
{
	long r = poll_core(t, rb->arg[0], (uint32_t)rb->arg[1], rb->deadline_ns);

	if (r == -ERESTARTSYS) {
		rb->fn = poll_restart;
		r = -ERESTART_RESTARTBLOCK;
	}
	return r;
}

SYSCALL_HANDLER(poll)
{
	int timeout = (int)a->a[2];
	uint64_t deadline = timeout < 0 ? NO_DEADLINE : deadline_after((uint64_t)timeout * 1000000);
	long r = poll_core(t, a->a[0], (uint32_t)a->a[1], deadline);

	if (r == -ERESTARTSYS) {
		t->restart.fn = poll_restart;
		t->restart.arg[0] = a->a[0];
		t->restart.arg[1] = (uint32_t)a->a[1];
		t->restart.deadline_ns = deadline;
		r = -ERESTART_RESTARTBLOCK;
	}
	return r;
}

SYSCALL_HANDLER(ppoll)
{
	uint64_t ns, deadline = NO_DEADLINE;
	struct linux_timespec ts;
	long r;

	if (a->a[2]) {
		if (copy_from_user(t, &ts, a->a[2], sizeof(ts)))
			return -EFAULT;
		if (timespec_to_ns(&ts, &ns))
			return -EINVAL;
		deadline = deadline_after(ns);
	}
	r = set_wait_mask(t, a->a[3], a->a[4]);
	if (r)
		return r;
	r = poll_core(t, a->a[0], (uint32_t)a->a[1], deadline);
	if (r == -ERESTARTSYS)
		r = -ERESTARTNOHAND;
	end_wait_mask(t, a->a[3], r == -ERESTARTNOHAND);
	if (a->a[2])
		put_remaining(t, a->a[2], deadline, 1);
	return r;
}

/* ---- select ---- */

#define SELECT_IN  (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define SELECT_OUT (POLLWRNORM | POLLWRBAND | POLLOUT | POLLERR)
#define SELECT_EX  POLLPRI

static int set_has(const uint64_t *set, int fd)
{
	return set && ((set[fd / 64] >> (fd % 64)) & 1);
}

/* Builds the items from the three sets; -EBADF for a closed fd. The count in *count. */
static int select_items(struct task *t, int n, uint64_t *sets[3], struct poll_item *items, int *fds,
			size_t *count)
{
	*count = 0;
	for (int fd = 0; fd < n; fd++) {
		uint32_t events = (set_has(sets[0], fd) ? SELECT_IN : 0) |
				  (set_has(sets[1], fd) ? SELECT_OUT : 0) |
				  (set_has(sets[2], fd) ? SELECT_EX : 0);

		if (!events)
			continue;
		items[*count].f = fd_get(t, fd);
		items[*count].events = events;
		items[*count].revents = 0;
		fds[*count] = fd;
		if (!items[*count].f)
			return -EBADF;
		(*count)++;
	}
	return 0;
}

/* Turns results into bits; returns how many were set. */
static long select_results(const struct poll_item *items, const int *fds, size_t count,
			   uint64_t *sets[3], uint64_t *in[3])
{
	static const uint32_t masks[3] = { SELECT_IN, SELECT_OUT, SELECT_EX };
	long bits = 0;

	for (size_t i = 0; i < count; i++) {
		for (int s = 0; s < 3; s++) {
			if (set_has(in[s], fds[i]) && (items[i].revents & masks[s])) {
				sets[s][fds[i] / 64] |= 1ull << (fds[i] % 64);
				bits++;
			}
		}
	}
	return bits;
}

static long select_core(struct task *t, int n, const uint64_t usets[3], uint64_t deadline)
{
	uint64_t *mem, *in[3], *out[3];
	struct poll_item *items;
	size_t words, count = 0;
	int *fds, size;
	long r;

	if (n < 0)
		return -EINVAL;
	size = fdtable_size(t->files);
	if (n > size)
		n = size;
	words = ((size_t)n + 63) / 64;
	mem = calloc(6 * words + 1, sizeof(*mem));
	items = malloc(((size_t)n + 1) * sizeof(*items));
	fds = malloc(((size_t)n + 1) * sizeof(*fds));
	r = mem && items && fds ? 0 : -ENOMEM;
	for (int s = 0; s < 3 && !r; s++) {
		in[s] = usets[s] ? mem + (size_t)s * words : NULL;
		out[s] = mem + (size_t)(s + 3) * words;
		if (usets[s] && words)
			r = copy_from_user(t, in[s], usets[s], words * 8);
	}
	if (!r)
		r = select_items(t, n, in, items, fds, &count);
	if (!r) {
		r = poll_wait_items(t, items, count, deadline);
		if (r >= 0)
			r = select_results(items, fds, count, out, in);
	}
	if (items)
		items_put(items, count);
	for (int s = 0; s < 3 && r >= 0; s++) {
		if (usets[s] && words && copy_to_user(t, usets[s], out[s], words * 8))
			r = -EFAULT;
	}
	free(mem);
	free(items);
	free(fds);
	return r == -ERESTARTSYS ? -ERESTARTNOHAND : r;
}

SYSCALL_HANDLER(select)
{
	const uint64_t usets[3] = { a->a[1], a->a[2], a->a[3] };
	uint64_t ns, deadline = NO_DEADLINE;
	struct linux_timespec tv;
	long r;

	if (a->a[4]) {
		if (copy_from_user(t, &tv, a->a[4], sizeof(tv)))
			return -EFAULT;
		if (tv.sec < 0 || tv.nsec < 0)
			return -EINVAL;
		/* Microseconds, and more than a second of them are allowed. */
		if (__builtin_add_overflow(tv.sec, tv.nsec / 1000000, &tv.sec))
			return -EINVAL;
		tv.nsec = tv.nsec % 1000000 * 1000;
		if (timespec_to_ns(&tv, &ns))
			return -EINVAL;
		deadline = deadline_after(ns);
	}
	r = select_core(t, (int)a->a[0], usets, deadline);
	if (a->a[4])
		put_remaining(t, a->a[4], deadline, 1000);
	return r;
}

SYSCALL_HANDLER(pselect6)
{
	const uint64_t usets[3] = { a->a[1], a->a[2], a->a[3] };
	uint64_t ns, deadline = NO_DEADLINE, mask[2] = { 0, 0 };
	struct linux_timespec ts;
	long r;

	if (a->a[5] && copy_from_user(t, mask, a->a[5], sizeof(mask)))
		return -EFAULT;
	if (a->a[4]) {
		if (copy_from_user(t, &ts, a->a[4], sizeof(ts)))
			return -EFAULT;
		if (timespec_to_ns(&ts, &ns))
			return -EINVAL;
		deadline = deadline_after(ns);
	}
	r = set_wait_mask(t, mask[0], mask[1]);
	if (r)
		return r;
	r = select_core(t, (int)a->a[0], usets, deadline);
	end_wait_mask(t, mask[0], r == -ERESTARTNOHAND);
	if (a->a[4])
		put_remaining(t, a->a[4], deadline, 1);
	return r;
}
