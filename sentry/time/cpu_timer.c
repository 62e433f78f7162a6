/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What depends on CPU time: ITIMER_VIRTUAL and PROF, RLIMIT_CPU, timer_create on CPU clocks. The
 * host gives no notice when a process has used so much, so a ktimer samples: next when the process
 * could be there at the earliest, were all its threads running. It exists only while needed, and
 * slows down for a process that does not run.
 */
#include <stdlib.h>

#include "sentry/time/timers_priv.h"

#define SAMPLE_MIN_NS	   4000000ull /* as fine as Linux's own tick */
#define SAMPLE_IDLE_MAX_NS 100000000ull

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Sends what is due of one CPU itimer; the time left to its next expiry. */
static uint64_t itimer_expire(struct thread_group *tg, struct cpu_itimer *it, uint64_t now,
			      int signo)
{
	if (!it->value_ns)
		return UINT64_MAX;
	if (now >= it->value_ns) {
		timer_send_locked(tg, signo);
		if (!it->interval_ns) {
			it->value_ns = 0;
			return UINT64_MAX;
		}
		it->value_ns += ((now - it->value_ns) / it->interval_ns + 1) * it->interval_ns;
	}
	return it->value_ns - now;
}

/* RLIMIT_CPU: SIGXCPU at the soft limit and every second after, SIGKILL at the hard one. */
static uint64_t limit_expire(struct posix_timers *pts, uint64_t now)
{
	struct thread_group *tg = pts->tg;
	uint64_t soft, hard, sec = now / NSEC_PER_SEC;

	lock_acquire(&tg->rlimit_lock);
	soft = tg->rlimits[RLIMIT_CPU].rlim_cur;
	hard = tg->rlimits[RLIMIT_CPU].rlim_max;
	lock_release(&tg->rlimit_lock);
	if (soft == RLIM_INFINITY)
		return UINT64_MAX;
	if (hard != RLIM_INFINITY && sec >= hard) {
		timer_send_locked(tg, SIGKILL);
		return UINT64_MAX;
	}
	if (soft < pts->xcpu_next_sec)
		soft = pts->xcpu_next_sec;
	if (sec >= soft) {
		timer_send_locked(tg, SIGXCPU);
		soft = pts->xcpu_next_sec = sec + 1;
	}
	return min_u64(soft, TIME_NS_MAX / NSEC_PER_SEC) * NSEC_PER_SEC - now;
}

/* Expires what is due; the least CPU time anything is away from. */
static uint64_t expire_all(struct posix_timers *pts)
{
	struct thread_group *tg = pts->tg;
	uint64_t u, s, left;

	tg_cpu_times_locked(tg, &u, &s);
	pts->idle_samples = u + s > pts->last_cpu_ns + 100000 ? 0 : pts->idle_samples + 1;
	pts->last_cpu_ns = u + s;
	left = itimer_expire(tg, &tg->itimer_virt, u, SIGVTALRM);
	left = min_u64(left, itimer_expire(tg, &tg->itimer_prof, u + s, SIGPROF));
	left = min_u64(left, limit_expire(pts, u + s));
	return min_u64(left, posix_cpu_timers_expire_locked(pts));
}

void cpu_timers_rearm_locked(struct thread_group *tg)
{
	struct posix_timers *pts = tg->timers;
	uint64_t left, wait, cpus = tg->k->cpu_count ? tg->k->cpu_count : 1;

	lock_assert_held(&tg->k->tasks_lock);
	if (!pts || (tg->group_flags & (TG_EXITING | TG_ZOMBIE)))
		return;
	left = expire_all(pts);
	if (left == UINT64_MAX) {
		ktimer_cancel(&pts->sample);
		return;
	}
	/* Each thread may burn user and system time at once, in the guest and in the sentry. */
	cpus = min_u64(cpus, (uint64_t)tg->task_count + 1);
	wait = left / cpus;
	if (wait < SAMPLE_MIN_NS)
		wait = min_u64(SAMPLE_MIN_NS << min_u64(pts->idle_samples / 2, 5),
			       SAMPLE_IDLE_MAX_NS);
	ktimer_arm(&pts->sample, deadline_add(mono_now_ns(), wait));
}

static void sample_fire(struct ktimer *kt)
{
	struct posix_timers *pts = kt->priv;
	struct kernel *k = pts->tg->k;

	lock_acquire(&k->tasks_lock);
	cpu_timers_rearm_locked(pts->tg);
	lock_release(&k->tasks_lock);
}

struct posix_timers *timers_of_locked(struct thread_group *tg)
{
	struct posix_timers *pts = tg->timers;

	lock_assert_held(&tg->k->tasks_lock);
	if (pts)
		return pts;
	pts = calloc(1, sizeof(*pts));
	if (!pts)
		return NULL;
	pts->tg = tg;
	list_init(&pts->timers);
	ktimer_init(&pts->sample, sample_fire, pts);
	tg->timers = pts;
	return pts;
}

void timers_cpu_limit_changed(struct thread_group *tg)
{
	struct posix_timers *pts;
	uint64_t soft;

	lock_acquire(&tg->k->tasks_lock);
	lock_acquire(&tg->rlimit_lock);
	soft = tg->rlimits[RLIMIT_CPU].rlim_cur;
	lock_release(&tg->rlimit_lock);
	pts = soft != RLIM_INFINITY ? timers_of_locked(tg) : tg->timers;
	if (pts) {
		pts->xcpu_next_sec = 0;
		cpu_timers_rearm_locked(tg);
	}
	lock_release(&tg->k->tasks_lock);
}
