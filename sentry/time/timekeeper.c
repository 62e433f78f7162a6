/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's clocks. MONOTONIC and its kin are the host's; REALTIME is the host's plus an offset
 * that a privileged guest may set, for its sandbox only. CPU clocks come from rusage.c.
 */
#include <time.h>

#include "sentry/mm/mm.h"
#include "sentry/time/timers.h"

static uint64_t host_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t with_offset(struct kernel *k, uint64_t ns)
{
	int64_t off = __atomic_load_n(&k->realtime_offset_ns, __ATOMIC_RELAXED);

	return ns + (uint64_t)off;
}

uint64_t kernel_real_now(struct kernel *k)
{
	return with_offset(k, host_clock(CLOCK_REALTIME));
}

/* ---- CPU clocks: ids as the C library makes them from a pid or tid ---- */

static uint64_t pick(int which, uint64_t u, uint64_t s)
{
	return which == CPUCLOCK_VIRT_ID ? u : u + s;
}

uint64_t cpu_clock_thread(struct task *t, int which)
{
	uint64_t u, s;

	task_cpu_times(t, &u, &s);
	return pick(which, u, s);
}

uint64_t cpu_clock_group_locked(struct thread_group *tg, int which)
{
	uint64_t u, s;

	tg_cpu_times_locked(tg, &u, &s);
	return pick(which, u, s);
}

int cpu_clock_decode(struct task *t, int clock, struct cpu_clock *out)
{
	int pid, which;

	out->thread = NULL;
	out->tg = NULL;
	if (clock == CLOCK_PROCESS_CPUTIME_ID)
		clock = CPUCLOCK_MAKE(0, 2);
	else if (clock == CLOCK_THREAD_CPUTIME_ID)
		clock = CPUCLOCK_MAKE(0, 2 | CPUCLOCK_PER_THREAD);
	if (clock >= 0)
		return -EINVAL;
	which = clock & 3;
	if (which == 3) /* a clock device's fd: there are none */
		return -EINVAL;
	out->which = which;
	pid = ~(clock >> 3);
	if (clock & CPUCLOCK_PER_THREAD) {
		struct task *o = pid ? task_find(t, pid) : task_get(t);

		if (!o || o->tg != t->tg) {
			if (o)
				task_put(o);
			return -EINVAL;
		}
		out->thread = o;
		return 0;
	}
	out->tg = pid ? tg_find(t, pid) : tg_get(t->tg);
	return out->tg ? 0 : -EINVAL;
}

void cpu_clock_put(struct cpu_clock *c)
{
	if (c->thread)
		task_put(c->thread);
	if (c->tg)
		tg_put(c->tg);
	c->thread = NULL;
	c->tg = NULL;
}

static int cpu_clock_now(struct task *t, int clock, uint64_t *ns)
{
	struct cpu_clock c;
	int err = cpu_clock_decode(t, clock, &c);

	if (err)
		return err;
	if (c.thread) {
		*ns = cpu_clock_thread(c.thread, c.which);
	} else {
		lock_acquire(&t->k->tasks_lock);
		*ns = cpu_clock_group_locked(c.tg, c.which);
		lock_release(&t->k->tasks_lock);
	}
	cpu_clock_put(&c);
	return 0;
}

int clock_now(struct task *t, int clock, uint64_t *ns)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_ALARM:
		*ns = kernel_real_now(t->k);
		return 0;
	case CLOCK_REALTIME_COARSE:
		*ns = with_offset(t->k, host_clock(CLOCK_REALTIME_COARSE));
		return 0;
	case CLOCK_TAI:
		*ns = with_offset(t->k, host_clock(CLOCK_TAI));
		return 0;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		*ns = host_clock(clock);
		return 0;
	case CLOCK_BOOTTIME_ALARM:
		*ns = host_clock(CLOCK_BOOTTIME);
		return 0;
	}
	if (clock == CLOCK_THREAD_CPUTIME_ID && t == current)
		task_cpu_sample(t);
	return cpu_clock_now(t, clock, ns);
}

uint64_t clock_wall_now(struct kernel *k, int clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_ALARM:
		return kernel_real_now(k);
	case CLOCK_TAI:
		return with_offset(k, host_clock(CLOCK_TAI));
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM:
		return host_clock(CLOCK_BOOTTIME);
	}
	return host_clock(CLOCK_MONOTONIC);
}

uint64_t clock_to_mono(struct kernel *k, int clock, uint64_t abs_ns)
{
	uint64_t now;

	if (clock == CLOCK_MONOTONIC)
		return abs_ns;
	now = clock_wall_now(k, clock);
	return deadline_add(mono_now_ns(), abs_ns > now ? abs_ns - now : 0);
}

void clock_set_real(struct kernel *k, uint64_t now_ns)
{
	struct thread_group *tg;
	struct task *t;

	__atomic_store_n(&k->realtime_offset_ns, (int64_t)(now_ns - host_clock(CLOCK_REALTIME)),
			 __ATOMIC_RELAXED);
	if (vdso_clock_changed)
		vdso_clock_changed(k);
	/* Sleepers until an instant of this clock wake, find it is not time yet, and wait anew. */
	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		posix_timers_clock_set_locked(tg);
		list_for_each(t, &tg->tasks, tg_node)
			task_wake(t);
	}
	lock_release(&k->tasks_lock);
}

uint64_t deadline_add(uint64_t now, uint64_t delta)
{
	uint64_t sum;

	if (__builtin_add_overflow(now, delta, &sum) || sum > TIME_NS_MAX)
		return TIME_NS_MAX;
	return sum;
}

int timespec_to_ns(int64_t sec, int64_t nsec, uint64_t *ns)
{
	if (sec < 0 || nsec < 0 || nsec >= (int64_t)NSEC_PER_SEC)
		return -EINVAL;
	if ((uint64_t)sec >= TIME_NS_MAX / NSEC_PER_SEC)
		*ns = TIME_NS_MAX;
	else
		*ns = (uint64_t)sec * NSEC_PER_SEC + (uint64_t)nsec;
	return 0;
}

int timespec_from_user(struct task *t, uint64_t addr, uint64_t *ns)
{
	struct linux_timespec ts;

	if (copy_from_user(t, &ts, addr, sizeof(ts)))
		return -EFAULT;
	return timespec_to_ns(ts.sec, ts.nsec, ns);
}

int timespec_to_user(struct task *t, uint64_t addr, uint64_t ns)
{
	struct linux_timespec ts = { .sec = (int64_t)(ns / NSEC_PER_SEC),
				     .nsec = (int64_t)(ns % NSEC_PER_SEC) };

	return copy_to_user(t, addr, &ts, sizeof(ts));
}
