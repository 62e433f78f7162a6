/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setitimer(2): ITIMER_REAL on a ktimer, the two on CPU time through cpu_timer.c. A periodic
 * ITIMER_REAL is armed again when its SIGALRM is taken from the queue, as on Linux, so that a
 * process that does not look costs nothing.
 */
#include <sys/time.h>

#include "sentry/time/timers_priv.h"

#define IGNORED_PERIOD_NS 10000000ull /* of a periodic timer whose signal nobody wants */

void timer_send_locked(struct thread_group *tg, int signo)
{
	siginfo_t si;

	siginfo_kernel(&si, signo);
	signal_send_group_locked(tg, &si);
}

/* The first expiry after now of a timer that was due at `due`. */
static uint64_t next_period(uint64_t due, uint64_t interval, uint64_t now)
{
	if (due > now)
		return due;
	return deadline_add(due, ((now - due) / interval + 1) * interval);
}

static void real_fire(struct ktimer *kt)
{
	struct thread_group *tg = kt->priv;
	struct kernel *k = tg->k;
	uint64_t now = mono_now_ns(), due;

	lock_acquire(&k->tasks_lock);
	due = kt->deadline;
	/* Set anew, or cancelled, while we came here. */
	if (!tg->itimer_real_armed || due > now) {
		lock_release(&k->tasks_lock);
		return;
	}
	timer_send_locked(tg, SIGALRM);
	if (!tg->itimer_real_interval) {
		tg->itimer_real_armed = 0;
	} else if (!(tg->pending.set & SIGBIT(SIGALRM)) &&
		   !(tg->group_flags & (TG_EXITING | TG_ZOMBIE))) {
		/* Ignored: nobody will dequeue it. */
		due = next_period(due, tg->itimer_real_interval, now);
		ktimer_arm(kt, due < now + IGNORED_PERIOD_NS ? now + IGNORED_PERIOD_NS : due);
	}
	lock_release(&k->tasks_lock);
}

void itimer_alarm_dequeued_locked(struct thread_group *tg)
{
	uint64_t now;

	if (!tg->itimer_real_armed || !tg->itimer_real_interval ||
	    (tg->group_flags & (TG_EXITING | TG_ZOMBIE)))
		return;
	now = mono_now_ns();
	if (tg->itimer_real.deadline <= now)
		ktimer_arm(&tg->itimer_real,
			   next_period(tg->itimer_real.deadline, tg->itimer_real_interval, now));
}

void timers_group_init(struct thread_group *tg)
{
	ktimer_init(&tg->itimer_real, real_fire, tg);
	tg->itimer_real_armed = 0;
}

uint64_t cpu_itimer_remaining(const struct cpu_itimer *it, uint64_t now)
{
	return it->value_ns > now ? it->value_ns - now : 1;
}

static struct cpu_itimer *cpu_itimer_of(struct thread_group *tg, int which)
{
	return which == ITIMER_VIRTUAL ? &tg->itimer_virt : &tg->itimer_prof;
}

static void get_locked(struct thread_group *tg, int which, struct itimer_ns *cur)
{
	cur->value = 0;
	if (which == ITIMER_REAL) {
		uint64_t now = mono_now_ns();

		cur->interval = tg->itimer_real_interval;
		if (tg->itimer_real_armed)
			cur->value = tg->itimer_real.deadline > now ? tg->itimer_real.deadline - now
								    : 1000;
		return;
	}
	struct cpu_itimer *it = cpu_itimer_of(tg, which);

	cur->interval = it->interval_ns;
	if (it->value_ns) {
		uint64_t now =
			cpu_clock_group_locked(tg, which == ITIMER_VIRTUAL ? CPUCLOCK_VIRT_ID : 0);

		cur->value = cpu_itimer_remaining(it, now);
	}
}

void itimer_get(struct task *t, int which, struct itimer_ns *cur)
{
	lock_acquire(&t->k->tasks_lock);
	get_locked(t->tg, which, cur);
	lock_release(&t->k->tasks_lock);
}

int itimer_set(struct task *t, int which, const struct itimer_ns *val, struct itimer_ns *old)
{
	struct thread_group *tg = t->tg;
	int err = 0;

	lock_acquire(&t->k->tasks_lock);
	if (old)
		get_locked(tg, which, old);
	if (which == ITIMER_REAL) {
		ktimer_cancel(&tg->itimer_real);
		tg->itimer_real_interval = val->interval;
		tg->itimer_real_armed = val->value != 0;
		if (val->value)
			ktimer_arm(&tg->itimer_real, deadline_add(mono_now_ns(), val->value));
	} else if (!val->value && !tg->timers) {
		cpu_itimer_of(tg, which)->interval_ns = val->interval;
	} else if (!timers_of_locked(tg)) {
		err = -ENOMEM;
	} else {
		struct cpu_itimer *it = cpu_itimer_of(tg, which);

		it->interval_ns = val->interval;
		it->value_ns =
			val->value
				? deadline_add(cpu_clock_group_locked(tg, which == ITIMER_VIRTUAL
										  ? CPUCLOCK_VIRT_ID
										  : 0),
					       val->value)
				: 0;
		cpu_timers_rearm_locked(tg);
	}
	lock_release(&t->k->tasks_lock);
	return err;
}
