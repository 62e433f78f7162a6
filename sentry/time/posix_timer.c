/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer_create(2) and its family.
 *
 * Theory of operation. A timer fires once and queues its own, preallocated signal entry. A periodic
 * one is armed again only when that signal is taken from the queue; the expiries that went by
 * meanwhile are the overrun count it is delivered with. So a timer can never flood a process, and
 * costs nothing while nobody listens. SIGEV_NONE timers are never armed: their state is computed.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sentry/signal/user_count.h"
#include "sentry/time/timers_priv.h"

#define IGNORED_PERIOD_NS 10000000ull /* of a periodic timer whose signal nobody wants */

static uint64_t timer_now(struct posix_timer *pt)
{
	if (!pt->is_cpu)
		return clock_wall_now(pt->pts->tg->k, pt->clock);
	if (pt->cpu.thread)
		return cpu_clock_thread(pt->cpu.thread, pt->cpu.which);
	return cpu_clock_group_locked(pt->cpu.tg, pt->cpu.which);
}

/* Has the host's timer, or the CPU sampler, look at the next expiry. */
static void arm(struct posix_timer *pt, uint64_t not_before)
{
	uint64_t at;

	pt->armed = 1;
	if (pt->notify == SIGEV_NONE || pt->is_cpu)
		return; /* callers rearm the sampler once they are done */
	at = clock_to_mono(pt->pts->tg->k, pt->clock, pt->expires);
	ktimer_arm(&pt->timer, at > not_before ? at : not_before);
}

/* How many expiries, beyond the first, `now` is past; moves expires beyond now. */
static int64_t forward(struct posix_timer *pt, uint64_t now)
{
	uint64_t n;

	if (now < pt->expires)
		return -1;
	n = (now - pt->expires) / pt->interval;
	pt->expires = deadline_add(pt->expires, (n + 1) * pt->interval);
	return (int64_t)n;
}

/* The timer is due: queues its signal. [tasks] */
static void expire(struct posix_timer *pt)
{
	struct thread_group *tg = pt->pts->tg;
	int err;

	if (pt->queued)
		return;
	err = signal_queue_entry_locked(pt->target ? pt->target : tg->leader, !pt->target,
					&pt->entry);
	if (err == 0) {
		pt->queued = 1;
		if (!pt->interval)
			pt->armed = 0;
		return;
	}
	if (err < 0 || !pt->interval) {
		pt->armed = 0;
		return;
	}
	/* Ignored. Keep time, slowly, for the day somebody wants it. */
	pt->overrun += forward(pt, timer_now(pt)) + 1;
	arm(pt, mono_now_ns() + IGNORED_PERIOD_NS);
}

static void timer_fire(struct ktimer *kt)
{
	struct posix_timer *pt = kt->priv;
	struct kernel *k = pt->pts->tg->k;

	lock_acquire(&k->tasks_lock);
	if (pt->armed && !pt->queued) {
		if (timer_now(pt) < pt->expires)
			arm(pt, 0); /* its clock was set back, or it was set anew */
		else
			expire(pt);
	}
	lock_release(&k->tasks_lock);
}

static int clamp_overrun(int64_t n)
{
	return n > INT_MAX ? INT_MAX : (int)n;
}

int posix_timer_dequeued_locked(struct posix_timer *pt, siginfo_t *si)
{
	pt->queued = 0;
	if (pt->interval) {
		int64_t n = forward(pt, timer_now(pt));

		pt->overrun += n > 0 ? n : 0;
		arm(pt, 0);
	}
	pt->overrun_last = clamp_overrun(pt->overrun);
	pt->overrun = 0;
	si->si_overrun = pt->overrun_last;
	if (pt->is_cpu && pt->interval)
		cpu_timers_rearm_locked(pt->pts->tg);
	return 1;
}

void posix_timer_flushed_locked(struct posix_timer *pt)
{
	pt->queued = 0;
	if (pt->interval && !(pt->pts->tg->group_flags & (TG_EXITING | TG_ZOMBIE))) {
		forward(pt, timer_now(pt));
		arm(pt, mono_now_ns() + IGNORED_PERIOD_NS);
	}
}

void posix_timers_clock_set_locked(struct thread_group *tg)
{
	struct posix_timers *pts = tg->timers;
	struct posix_timer *pt;

	if (!pts)
		return;
	list_for_each(pt, &pts->timers, node)
		if (pt->armed && !pt->queued && !pt->is_cpu && pt->clock != CLOCK_MONOTONIC)
			arm(pt, 0);
}

uint64_t posix_cpu_timers_expire_locked(struct posix_timers *pts)
{
	uint64_t left = UINT64_MAX;
	struct posix_timer *pt;

	list_for_each(pt, &pts->timers, node) {
		if (!pt->is_cpu || !pt->armed || pt->queued || pt->notify == SIGEV_NONE)
			continue;
		uint64_t now = timer_now(pt);

		if (now >= pt->expires)
			expire(pt);
		if (pt->armed && !pt->queued && pt->expires > now && pt->expires - now < left)
			left = pt->expires - now;
	}
	return left;
}

static struct posix_timer *find_locked(struct task *t, int id)
{
	struct posix_timer *pt;

	if (t->tg->timers)
		list_for_each(pt, &t->tg->timers->timers, node)
			if (pt->id == id)
				return pt;
	return NULL;
}

/* ---- creation ---- */

static int check_clock(struct task *t, int clock, struct posix_timer *pt)
{
	pt->clock = clock;
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
		return 0;
	case CLOCK_REALTIME_ALARM:
	case CLOCK_BOOTTIME_ALARM:
		return cred_has_cap(task_cred(t), CAP_WAKE_ALARM) ? 0 : -EPERM;
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC_COARSE:
		return -EOPNOTSUPP;
	}
	pt->is_cpu = 1;
	return cpu_clock_decode(t, clock, &pt->cpu);
}

static int check_sigevent(struct task *t, const struct sigevent_k *sev, struct posix_timer *pt)
{
	pt->notify = sev->notify & ~SIGEV_THREAD_ID;
	pt->signo = sev->signo;
	switch (sev->notify) {
	case SIGEV_NONE:
		return 0;
	case SIGEV_SIGNAL | SIGEV_THREAD_ID:
		pt->target = task_find(t, sev->tid);
		if (!pt->target || pt->target->tg != t->tg)
			return -EINVAL;
		break;
	case SIGEV_SIGNAL:
	case SIGEV_THREAD:
		break;
	default:
		return -EINVAL;
	}
	return sev->signo > 0 && sev->signo <= LINUX_NSIG ? 0 : -EINVAL;
}

static void timer_free(struct posix_timer *pt)
{
	if (pt->target)
		task_put(pt->target);
	cpu_clock_put(&pt->cpu);
	free(pt);
}

static int new_id_locked(struct task *t, struct posix_timers *pts)
{
	/* Ids are not reused until all have been; each live timer is charged, so this ends. */
	for (;;) {
		int id = pts->next_id;

		pts->next_id = id == INT_MAX ? 0 : id + 1;
		if (!find_locked(t, id))
			return id;
	}
}

static int publish_locked(struct task *t, struct posix_timer *pt, const struct sigevent_k *sev)
{
	struct posix_timers *pts = timers_of_locked(t->tg);
	uint64_t limit;

	if (!pts)
		return -ENOMEM;
	lock_acquire(&t->tg->rlimit_lock);
	limit = t->tg->rlimits[RLIMIT_SIGPENDING].rlim_cur;
	lock_release(&t->tg->rlimit_lock);
	pt->entry.user = user_count_signal(t->k, task_cred(t)->uid, limit);
	if (!pt->entry.user)
		return -EAGAIN;
	pt->pts = pts;
	pt->id = new_id_locked(t, pts);
	pt->entry.timer = pt;
	list_init(&pt->entry.node);
	pt->entry.info.si_signo = pt->signo;
	pt->entry.info.si_code = SI_TIMER;
	pt->entry.info.si_timerid = pt->id;
	pt->entry.info.si_ptr =
		(void *)(uintptr_t)(sev->value_is_id ? (uint64_t)pt->id : sev->value);
	ktimer_init(&pt->timer, timer_fire, pt);
	list_add_tail(&pt->node, &pts->timers);
	return pt->id;
}

int posix_timer_create(struct task *t, int clock, const struct sigevent_k *sev)
{
	struct posix_timer *pt = calloc(1, sizeof(*pt));
	int ret;

	if (!pt)
		return -ENOMEM;
	ret = check_clock(t, clock, pt);
	if (!ret)
		ret = check_sigevent(t, sev, pt);
	if (!ret) {
		lock_acquire(&t->k->tasks_lock);
		ret = publish_locked(t, pt, sev);
		lock_release(&t->k->tasks_lock);
	}
	if (ret < 0)
		timer_free(pt);
	return ret;
}

/* ---- use ---- */

static void get_locked(struct posix_timer *pt, struct itimer_ns *cur)
{
	uint64_t now, next = pt->expires;

	cur->interval = pt->interval;
	cur->value = 0;
	if (!pt->armed)
		return;
	now = timer_now(pt);
	if (next <= now && pt->interval && (pt->queued || pt->notify == SIGEV_NONE))
		next = deadline_add(next, ((now - next) / pt->interval + 1) * pt->interval);
	if (next > now)
		cur->value = next - now;
	else if (pt->notify != SIGEV_NONE)
		cur->value = 1; /* due, and on its way */
}

int posix_timer_get(struct task *t, int id, struct itimer_ns *cur)
{
	struct posix_timer *pt;

	lock_acquire(&t->k->tasks_lock);
	pt = find_locked(t, id);
	if (pt)
		get_locked(pt, cur);
	lock_release(&t->k->tasks_lock);
	return pt ? 0 : -EINVAL;
}

/* Takes a signal that still waits back out of its queue. */
static void unqueue_locked(struct posix_timer *pt)
{
	struct sigpending *p = pt->target ? &pt->target->pending : &pt->pts->tg->pending;
	struct sigqueue_entry *e;

	if (!pt->queued)
		return;
	pt->queued = 0;
	list_del(&pt->entry.node);
	list_for_each(e, &p->queue, node)
		if (e->info.si_signo == pt->signo)
			return;
	p->set &= ~SIGBIT(pt->signo);
}

static void disarm_locked(struct posix_timer *pt)
{
	pt->armed = 0;
	ktimer_cancel(&pt->timer);
	unqueue_locked(pt);
	pt->overrun = 0;
	pt->overrun_last = 0;
}

int posix_timer_set(struct task *t, int id, int flags, const struct itimer_ns *val,
		    struct itimer_ns *old)
{
	struct posix_timer *pt;
	int err = 0;

	lock_acquire(&t->k->tasks_lock);
	pt = find_locked(t, id);
	if (!pt) {
		err = -EINVAL;
		goto out;
	}
	if (old)
		get_locked(pt, old);
	disarm_locked(pt);
	pt->interval = val->interval;
	if (val->value) {
		pt->expires = flags & TIMER_ABSTIME ? val->value
						    : deadline_add(timer_now(pt), val->value);
		arm(pt, 0);
	}
	if (pt->is_cpu)
		cpu_timers_rearm_locked(t->tg);
out:
	lock_release(&t->k->tasks_lock);
	return err;
}

int posix_timer_overrun(struct task *t, int id)
{
	struct posix_timer *pt;
	int ret;

	lock_acquire(&t->k->tasks_lock);
	pt = find_locked(t, id);
	ret = pt ? pt->overrun_last : -EINVAL;
	lock_release(&t->k->tasks_lock);
	return ret;
}

/* Out of the tree; the caller frees it once its function can not run any more. */
static void unlink_locked(struct posix_timer *pt)
{
	disarm_locked(pt);
	pt->interval = 0;
	list_del(&pt->node);
	user_uncount_signal(pt->pts->tg->k, pt->entry.user);
}

int posix_timer_delete(struct task *t, int id)
{
	struct posix_timer *pt;

	lock_acquire(&t->k->tasks_lock);
	pt = find_locked(t, id);
	if (pt)
		unlink_locked(pt);
	lock_release(&t->k->tasks_lock);
	if (!pt)
		return -EINVAL;
	ktimer_cancel_sync(&pt->timer);
	timer_free(pt);
	return 0;
}

void timers_group_exit(struct thread_group *tg, int exec)
{
	struct posix_timers *pts;

	for (;;) {
		struct posix_timer *pt = NULL;

		lock_acquire(&tg->k->tasks_lock);
		pts = tg->timers;
		if (pts && !list_empty(&pts->timers)) {
			pt = list_first(&pts->timers, struct posix_timer, node);
			unlink_locked(pt);
		} else if (!exec) {
			tg->timers = NULL;
			tg->itimer_real_armed = 0;
		}
		lock_release(&tg->k->tasks_lock);
		if (!pt)
			break;
		ktimer_cancel_sync(&pt->timer);
		timer_free(pt);
	}
	if (exec)
		return;
	ktimer_cancel_sync(&tg->itimer_real);
	if (pts) {
		ktimer_cancel_sync(&pts->sample);
		free(pts);
	}
}
