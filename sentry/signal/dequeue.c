/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending sets: what is deliverable, taking signals out in Linux's order, masks, and the per-task
 * work bit that says "look at your signals". Sending is send.c, acting on a signal deliver.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm.h"
#include "sentry/ptrace/ptrace.h"
#include "sentry/signal/signal_priv.h"
#include "sentry/signal/user_count.h"
#include "sentry/time/timers.h"

void sigpending_init(struct sigpending *p)
{
	p->set = 0;
	list_init(&p->queue);
}

static void entry_free(struct kernel *k, struct sigqueue_entry *e)
{
	list_del(&e->node);
	if (e->timer) {
		/* The entry is part of the timer, which keeps its charge. */
		posix_timer_flushed_locked(e->timer);
		return;
	}
	if (e->user)
		user_uncount_signal(k, e->user);
	free(e);
}

void sigpending_remove(struct kernel *k, struct sigpending *p, linux_sigset_t mask)
{
	struct sigqueue_entry *e, *tmp;

	if (!(p->set & mask))
		return;
	p->set &= ~mask;
	list_for_each_safe(e, tmp, &p->queue, node)
		if (mask & SIGBIT(e->info.si_signo))
			entry_free(k, e);
}

void sigpending_flush(struct sigpending *p)
{
	sigpending_remove(g_kernel, p, ~0ull);
}

linux_sigset_t signal_deliverable_locked(struct task *t)
{
	return (t->pending.set | t->tg->pending.set) & ~(t->blocked & ~t->waiting_for);
}

void signal_recalc_locked(struct task *t)
{
	uint32_t want = 0;

	if (signal_deliverable_locked(t))
		want |= TASK_WORK_SIGNAL;
	if ((t->jobctl_stop & JOBCTL_STOP_PENDING) ||
	    (t->ptrace && ptrace_stop_pending_locked && ptrace_stop_pending_locked(t)))
		want |= TASK_WORK_STOP;
	if (t->jobctl_stop & JOBCTL_EXITING)
		want = 0;
	uint32_t clear = (TASK_WORK_SIGNAL | TASK_WORK_STOP) & ~want;

	if (clear)
		__atomic_fetch_and(&t->work, ~clear, __ATOMIC_SEQ_CST);
	if (want & ~__atomic_load_n(&t->work, __ATOMIC_SEQ_CST)) {
		if (t == current)
			__atomic_fetch_or(&t->work, want, __ATOMIC_SEQ_CST);
		else
			task_kick(t, want);
	}
}

int signal_is_pending(struct task *t)
{
	return task_has_work(t);
}

/* The lowest number, but what the program's own instruction raised goes first (next_signal). */
static int next_signo(linux_sigset_t ready)
{
	if (ready & SIG_SYNC_MASK)
		ready &= SIG_SYNC_MASK;
	return ready ? __builtin_ctzll(ready) + 1 : 0;
}

/* Takes the first entry of signo off the queue; the bit stays while another is queued. */
static int collect(struct kernel *k, struct sigpending *p, int signo, siginfo_t *si)
{
	struct sigqueue_entry *e, *found = NULL;
	int more = 0, keep = 1;

	list_for_each(e, &p->queue, node) {
		if (e->info.si_signo != signo)
			continue;
		if (found) {
			more = 1;
			break;
		}
		found = e;
	}
	if (!more)
		p->set &= ~SIGBIT(signo);
	if (!found) {
		/* Sent without memory for its siginfo: all that is known is that a user sent it. */
		memset(si, 0, sizeof(*si));
		si->si_signo = signo;
		si->si_code = SI_USER;
		return 1;
	}
	*si = found->info;
	if (found->timer) {
		list_del(&found->node);
		keep = posix_timer_dequeued_locked(found->timer, si);
	} else {
		entry_free(k, found);
	}
	return keep;
}

static int dequeue_from(struct task *t, struct sigpending *p, linux_sigset_t masked,
			linux_sigset_t only, siginfo_t *si)
{
	int signo;

	while ((signo = next_signo(p->set & ~masked & only))) {
		int keep = collect(t->k, p, signo, si);

		if (signo == SIGALRM && p == &t->tg->pending)
			itimer_alarm_dequeued_locked(t->tg);
		if (keep)
			return signo;
	}
	return 0;
}

int signal_dequeue_locked(struct task *t, linux_sigset_t masked, siginfo_t *si, int sync_only)
{
	int signo = dequeue_from(t, &t->pending, masked, sync_only ? SIG_SYNC_MASK : ~0ull, si);

	if (!signo && !sync_only)
		signo = dequeue_from(t, &t->tg->pending, masked, ~0ull, si);
	signal_recalc_locked(t);
	return signo;
}

/* Signals of the group that t now blocks, or will not see, may be wanted by another thread. */
static void retarget_locked(struct task *t, linux_sigset_t lost)
{
	linux_sigset_t left = t->tg->pending.set & lost;
	struct task *o;

	if (!left)
		return;
	list_for_each(o, &t->tg->tasks, tg_node) {
		if (o == t || (o->jobctl_stop & JOBCTL_EXITING))
			continue;
		if (!(left & ~(o->blocked & ~o->waiting_for)))
			continue;
		left &= o->blocked & ~o->waiting_for;
		task_kick(o, TASK_WORK_SIGNAL);
		if (!left)
			return;
	}
}

void signal_set_blocked_locked(struct task *t, linux_sigset_t mask)
{
	mask &= ~SIG_KERNEL_ONLY_MASK;
	linux_sigset_t newly = mask & ~t->blocked;

	t->blocked = mask;
	retarget_locked(t, newly);
	signal_recalc_locked(t);
}

void signal_set_blocked(struct task *t, linux_sigset_t mask)
{
	mask &= ~SIG_KERNEL_ONLY_MASK;
	if (mask == t->blocked)
		return;
	lock_acquire(&t->k->tasks_lock);
	signal_set_blocked_locked(t, mask);
	lock_release(&t->k->tasks_lock);
}

void signal_set_temporary_mask(struct task *t, linux_sigset_t mask)
{
	t->saved_mask = t->blocked;
	t->restore_mask = 1;
	signal_set_blocked(t, mask);
}

void signal_restore_saved_mask(struct task *t)
{
	if (!t->restore_mask)
		return;
	t->restore_mask = 0;
	signal_set_blocked(t, t->saved_mask);
}

void signal_task_exit_locked(struct task *t)
{
	lock_assert_held(&t->k->tasks_lock);
	if (t->jobctl_stop & JOBCTL_EXITING)
		return;
	signal_stop_leave_locked(t);
	t->jobctl_stop |= JOBCTL_EXITING;
	linux_sigset_t lost = ~t->blocked;

	t->blocked = ~0ull;
	retarget_locked(t, lost);
	sigpending_remove(t->k, &t->pending, ~0ull);
	/* Polls of a signalfd that this thread set up end with it. */
	waitq_wake(&t->signalfd_wait, POLLIN | POLLHUP | POLLFREE_BIT);
}

void signal_sets_locked(struct task *t, linux_sigset_t *pending, linux_sigset_t *shared,
			linux_sigset_t *ignored, linux_sigset_t *caught)
{
	struct sighand *sh = tg_sighand(t->tg);

	*pending = t->pending.set;
	*shared = t->tg->pending.set;
	*ignored = *caught = 0;
	for (int i = 0; sh && i < LINUX_NSIG; i++) {
		if (sh->action[i].handler == LINUX_SIG_IGN)
			*ignored |= SIGBIT(i + 1);
		else if (sh->action[i].handler != LINUX_SIG_DFL)
			*caught |= SIGBIT(i + 1);
	}
}

uint32_t signal_queued_locked(struct task *t)
{
	struct user_count *u = user_count_find(t->k, t->cred->uid);

	return u ? u->sigpending : 0;
}

int sigset_from_user(struct task *t, uint64_t addr, uint64_t size, linux_sigset_t *out)
{
	if (size != sizeof(linux_sigset_t))
		return -EINVAL;
	return copy_from_user(t, out, addr, sizeof(*out));
}
