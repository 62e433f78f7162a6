/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job control stops, SIGCONT, and what a parent hears about its children.
 *
 * Theory of operation. One thread dequeues a stop signal whose action is the default and starts
 * the stop: every thread of the group gets JOBCTL_STOP_PENDING and is kicked; stop_pending counts
 * them. Each takes part when it next looks at its signals (STOP_PENDING becomes STOPPED, the count
 * falls) and sleeps. The last one makes the group TG_STOPPED and tells the parent. SIGCONT, when
 * it is sent and whatever its action, clears both bits everywhere and wakes the sleepers; SIGKILL
 * does so by TASK_WORK_EXIT.
 */
#include <string.h>

#include "sentry/ptrace/ptrace.h"
#include "sentry/signal/signal_priv.h"

static void group_stopped(struct thread_group *tg)
{
	if (tg->group_flags & TG_STOPPED)
		return;
	tg->group_flags |= TG_STOPPED;
	tg->group_flags &= ~(uint32_t)TG_CONT_REPORT;
	/* The tracer hears of it thread by thread. */
	if (tg->leader && tg->leader->ptrace)
		return;
	tg->group_flags |= TG_STOP_REPORT;
	signal_notify_parent_locked(tg, CLD_STOPPED, tg->stop_signal);
}

static void one_less(struct thread_group *tg)
{
	if (tg->stop_pending && --tg->stop_pending == 0)
		group_stopped(tg);
}

static void stop_begin(struct task *t, int signo)
{
	struct thread_group *tg = t->tg;
	struct task *i;

	if (!(tg->group_flags & TG_STOPPED))
		tg->stop_signal = signo;
	tg->stop_pending = 0;
	list_for_each(i, &tg->tasks, tg_node) {
		if (i->jobctl_stop & (JOBCTL_EXITING | JOBCTL_STOPPED))
			continue;
		i->jobctl_stop |= JOBCTL_STOP_PENDING;
		tg->stop_pending++;
		if (i != t)
			task_kick(i, TASK_WORK_STOP);
	}
}

static int is_stopped(struct task *t)
{
	return __atomic_load_n(&t->jobctl_stop, __ATOMIC_SEQ_CST) & JOBCTL_STOPPED;
}

void signal_stop_and_unlock(struct task *t, int signo)
{
	struct thread_group *tg = t->tg;
	struct kernel *k = t->k;

	lock_assert_held(&k->tasks_lock);
	if (tg->group_flags & TG_EXITING) {
		lock_release(&k->tasks_lock);
		return;
	}
	if (!(t->jobctl_stop & JOBCTL_STOP_PENDING))
		stop_begin(t, signo);
	if (t->ptrace && ptrace_group_stop_locked) {
		/* A tracee counts as stopped, but it is its tracer who lets it go on. */
		t->jobctl_stop &= ~JOBCTL_STOP_PENDING;
		one_less(tg);
		signal_recalc_locked(t);
		ptrace_group_stop_locked(t, tg->stop_signal);
		lock_release(&k->tasks_lock);
		return;
	}
	__atomic_store_n(&t->jobctl_stop, (t->jobctl_stop & ~JOBCTL_STOP_PENDING) | JOBCTL_STOPPED,
			 __ATOMIC_SEQ_CST);
	one_less(tg);
	signal_recalc_locked(t);
	lock_release(&k->tasks_lock);

	while (is_stopped(t)) {
		__atomic_store_n(&t->state, TASK_STOPPED, __ATOMIC_RELAXED);
		if (task_sleep_killable(t, NO_DEADLINE) < 0)
			break;
	}
	__atomic_store_n(&t->state, TASK_RUNNING, __ATOMIC_RELAXED);
	lock_acquire(&k->tasks_lock);
	t->jobctl_stop &= ~JOBCTL_STOPPED;
	signal_recalc_locked(t);
	lock_release(&k->tasks_lock);
}

void signal_stop_leave_locked(struct task *t)
{
	if (t->jobctl_stop & JOBCTL_STOP_PENDING) {
		t->jobctl_stop &= ~JOBCTL_STOP_PENDING;
		if (!(t->tg->group_flags & TG_EXITING))
			one_less(t->tg);
	}
}

void signal_task_join_stop_locked(struct task *t)
{
	struct thread_group *tg = t->tg;

	if (tg->stop_pending || (tg->group_flags & TG_STOPPED)) {
		t->jobctl_stop |= JOBCTL_STOP_PENDING;
		tg->stop_pending++;
		signal_recalc_locked(t);
	}
}

static void group_continue(struct thread_group *tg)
{
	struct task *i;
	uint32_t was_pending = tg->stop_pending;

	tg->stop_pending = 0;
	list_for_each(i, &tg->tasks, tg_node) {
		int was = i->jobctl_stop;

		__atomic_store_n(&i->jobctl_stop, was & ~(JOBCTL_STOP_PENDING | JOBCTL_STOPPED),
				 __ATOMIC_SEQ_CST);
		if (was & JOBCTL_STOPPED)
			task_wake(i);
		if (was & (JOBCTL_STOP_PENDING | JOBCTL_STOPPED))
			signal_recalc_locked(i);
		if (i->ptrace && ptrace_continued_locked)
			ptrace_continued_locked(i);
	}
	if (tg->group_flags & TG_STOPPED) {
		tg->group_flags &= ~(uint32_t)(TG_STOPPED | TG_STOP_REPORT);
		tg->group_flags |= TG_CONT_REPORT;
		signal_notify_parent_locked(tg, CLD_CONTINUED, SIGCONT);
	} else if (was_pending) {
		/* The stop had begun: the parent hears of it, and then that it is over. */
		tg->group_flags |= TG_CONT_REPORT;
		signal_notify_parent_locked(tg, CLD_STOPPED, tg->stop_signal);
	}
}

void signal_stop_cont_locked(struct thread_group *tg, int signo)
{
	linux_sigset_t opposite = signo == SIGCONT ? SIG_STOP_MASK : SIGBIT(SIGCONT);
	struct task *i;

	sigpending_remove(tg->k, &tg->pending, opposite);
	list_for_each(i, &tg->tasks, tg_node)
		sigpending_remove(tg->k, &i->pending, opposite);
	if (signo == SIGCONT)
		group_continue(tg);
}

static int is_cldstop(int code)
{
	return code == CLD_STOPPED || code == CLD_CONTINUED || code == CLD_TRAPPED;
}

#define NS_PER_TICK 10000000ull /* USER_HZ 100 */

void signal_notify_parent_locked(struct thread_group *child, int code, int status)
{
	struct thread_group *parent = child->parent;
	struct sighand *sh;
	int signo;

	lock_assert_held(&child->k->tasks_lock);
	if (!parent)
		return;
	sh = tg_sighand(parent);
	signo = is_cldstop(code) ? SIGCHLD : child->exit_signal;
	if (sh && signo == SIGCHLD) {
		const struct linux_sigaction *sa = &sh->action[SIGCHLD - 1];

		if (sa->handler == LINUX_SIG_IGN ||
		    (is_cldstop(code) && (sa->flags & SA_NOCLDSTOP)))
			signo = 0;
	}
	if (sh && signo > 0 && signo <= LINUX_NSIG) {
		uint64_t ut = 0, st = 0;
		siginfo_t si;

		memset(&si, 0, sizeof(si));
		si.si_signo = signo;
		si.si_code = code;
		si.si_pid = pid_nr_in(child->pid, parent->pid->numbers[parent->pid->level].ns);
		si.si_uid = child->leader && child->leader->cred ? child->leader->cred->uid : 0;
		si.si_status = status;
		tg_cpu_times_locked(child, &ut, &st);
		si.si_utime = (clock_t)(ut / NS_PER_TICK);
		si.si_stime = (clock_t)(st / NS_PER_TICK);
		signal_send_group_locked(parent, &si);
	}
	waitq_wake(&parent->child_wait, POLLIN | POLLHUP);
}

int signal_parent_ignores_child(struct thread_group *child)
{
	struct sighand *sh;

	lock_assert_held(&child->k->tasks_lock);
	if (!child->parent)
		return 1;
	if (child->exit_signal != SIGCHLD)
		return 0;
	sh = tg_sighand(child->parent);
	if (!sh)
		return 0;
	return sh->action[SIGCHLD - 1].handler == LINUX_SIG_IGN ||
	       (sh->action[SIGCHLD - 1].flags & SA_NOCLDWAIT) != 0;
}
