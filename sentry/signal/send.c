/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending signals: who may, what is ignored at once, queueing, and which thread is woken. Taking
 * them out again is dequeue.c, acting on them deliver.c. Follows Linux's kernel/signal.c
 * (prepare_signal, __send_signal_locked, complete_signal).
 */
#include <stdlib.h>
#include <string.h>

#include "sentry/signal/signal_priv.h"
#include "sentry/signal/user_count.h"

void siginfo_kernel(siginfo_t *si, int signo)
{
	memset(si, 0, sizeof(*si));
	si->si_signo = signo;
	si->si_code = SI_KERNEL;
}

void siginfo_user(siginfo_t *si, int signo, struct task *sender, struct task *receiver_view)
{
	memset(si, 0, sizeof(*si));
	si->si_signo = signo;
	si->si_code = SI_USER;
	si->si_pid = receiver_view ? tg_pid_for(sender->tg, receiver_view) : task_tgid(sender);
	si->si_uid = task_cred(sender)->uid;
}

struct sighand *tg_sighand(struct thread_group *tg)
{
	struct task *t;

	if (tg->leader && tg->leader->sighand)
		return tg->leader->sighand;
	list_for_each(t, &tg->tasks, tg_node)
		if (t->sighand)
			return t->sighand;
	return NULL;
}

/* The layouts of siginfo that carry the sender's pid and uid (siginfo_layout). */
static int has_sender(const siginfo_t *si)
{
	switch (si->si_code) {
	case SI_USER:
	case SI_TKILL:
	case SI_QUEUE:
	case SI_MESGQ:
	case SI_ASYNCIO:
		return 1;
	}
	return si->si_code < 0 || si->si_signo == SIGCHLD;
}

/* From the kernel or from an ancestor pid namespace: reaches even an init without a handler. */
static int is_forced(const siginfo_t *si, struct thread_group *tg)
{
	if (si->si_code == SI_KERNEL)
		return 1;
	return has_sender(si) && current && si->si_code != SI_TIMER &&
	       pid_nr_in(current->tg->pid, tg->pid->numbers[tg->pid->level].ns) == 0;
}

static int action_ignores(struct thread_group *tg, const struct linux_sigaction *sa, int signo,
			  int forced)
{
	if (sa->handler == LINUX_SIG_IGN)
		return 1;
	if (sa->handler != LINUX_SIG_DFL)
		return 0;
	if ((tg->group_flags & (TG_INIT | TG_INIT_MORTAL)) == TG_INIT &&
	    !(forced && (SIGBIT(signo) & SIG_KERNEL_ONLY_MASK)))
		return 1;
	return (SIGBIT(signo) & SIG_IGNORE_MASK) != 0;
}

/* Blocked signals are never ignored: the action may change before they are unblocked. */
static int send_is_ignored(struct task *t, struct sighand *sh, const siginfo_t *si, int forced)
{
	if (t->blocked & SIGBIT(si->si_signo))
		return 0;
	if (t->ptrace && si->si_signo != SIGKILL)
		return 0;
	return action_ignores(t->tg, &sh->action[si->si_signo - 1], si->si_signo, forced);
}

/* Would t take the signal soon (wants_signal)? */
static int wants(struct task *t, int signo)
{
	if (t->blocked & ~t->waiting_for & SIGBIT(signo))
		return 0;
	if (t->jobctl_stop & JOBCTL_EXITING)
		return 0;
	if (signo == SIGKILL)
		return 1;
	if (t->jobctl_stop & JOBCTL_STOPPED)
		return 0;
	/* One that has nothing to do yet is quicker than one that is on its way to another. */
	return !(__atomic_load_n(&t->work, __ATOMIC_RELAXED) & TASK_WORK_SIGNAL);
}

/* signalfd readers watch by thread; any thread of the group may see a group's signal. */
static void wake_signalfds(struct thread_group *tg)
{
	struct task *t;

	list_for_each(t, &tg->tasks, tg_node)
		waitq_wake(&t->signalfd_wait, POLLIN | POLLRDNORM);
}

/* The signal is queued: finds the thread to wake, or ends the group at once if it is fatal. */
static void complete(struct task *target, struct sighand *sh, int signo, int group)
{
	struct thread_group *tg = target->tg;
	struct task *t = NULL, *i;

	if (wants(target, signo)) {
		t = target;
	} else if (group) {
		list_for_each(i, &tg->tasks, tg_node)
			if (wants(i, signo)) {
				t = i;
				break;
			}
	}
	if (!t) {
		/*
		 * Nobody is free. Who has work already will look at the queues again, so there is
		 * nothing to do; but a waiter in rt_sigtimedwait must not be missed.
		 */
		return;
	}
	if (sh->action[signo - 1].handler == LINUX_SIG_DFL &&
	    !(SIGBIT(signo) & (SIG_IGNORE_MASK | SIG_STOP_MASK | SIG_COREDUMP_MASK)) &&
	    !(t->blocked & SIGBIT(signo)) && (signo == SIGKILL || !t->ptrace)) {
		if (!(tg->group_flags & TG_EXITING))
			tg_exit_locked(tg, signo);
		return;
	}
	task_kick(t, TASK_WORK_SIGNAL);
}

static int enqueue(struct task *target, struct sigpending *p, const siginfo_t *si)
{
	struct kernel *k = target->k;
	int signo = si->si_signo;
	struct sigqueue_entry *e;
	struct user_count *u;
	uint64_t limit;

	if (signo == SIGKILL) {
		p->set |= SIGBIT(signo);
		return 0;
	}
	lock_acquire(&target->tg->rlimit_lock);
	limit = target->tg->rlimits[RLIMIT_SIGPENDING].rlim_cur;
	lock_release(&target->tg->rlimit_lock);
	/* What the kernel and kill(2) send gets through, if need be without its siginfo. */
	if (signo < LINUX_SIGRTMIN && si->si_code >= 0)
		limit = UINT64_MAX;
	u = user_count_signal(k, target->cred->uid, limit);
	e = u ? malloc(sizeof(*e)) : NULL;
	if (!e) {
		if (u)
			user_uncount_signal(k, u);
		if (signo >= LINUX_SIGRTMIN && si->si_code != SI_USER)
			return -EAGAIN;
		p->set |= SIGBIT(signo);
		return 0;
	}
	e->info = *si;
	e->timer = NULL;
	e->user = u;
	list_add_tail(&e->node, &p->queue);
	p->set |= SIGBIT(signo);
	return 0;
}

static int send_locked(struct task *target, const siginfo_t *si, int group)
{
	struct thread_group *tg = target->tg;
	struct sighand *sh = tg_sighand(tg);
	struct sigpending *p = group ? &tg->pending : &target->pending;
	int signo = si->si_signo, err;

	lock_assert_held(&tg->k->tasks_lock);
	/* A dead or dying process swallows signals without a complaint. */
	if (!sh || (tg->group_flags & (TG_EXITING | TG_ZOMBIE)))
		return 0;
	if (!group && (target->jobctl_stop & JOBCTL_EXITING))
		return 0;
	if (SIGBIT(signo) & (SIG_STOP_MASK | SIGBIT(SIGCONT)))
		signal_stop_cont_locked(tg, signo);
	if (send_is_ignored(target, sh, si, is_forced(si, tg)))
		return 0;
	if (signo < LINUX_SIGRTMIN && (p->set & SIGBIT(signo)))
		return 0; /* one of a kind is enough */
	err = enqueue(target, p, si);
	if (err)
		return err;
	wake_signalfds(tg);
	complete(target, sh, signo, group);
	return 0;
}

int signal_send_task_locked(struct task *t, const siginfo_t *si)
{
	return send_locked(t, si, 0);
}

int signal_send_group_locked(struct thread_group *tg, const siginfo_t *si)
{
	if (!tg->leader)
		return 0;
	return send_locked(tg->leader, si, 1);
}

int signal_send_task(struct task *t, const siginfo_t *si)
{
	lock_acquire(&t->k->tasks_lock);
	int err = send_locked(t, si, 0);

	lock_release(&t->k->tasks_lock);
	return err;
}

int signal_send_group(struct thread_group *tg, const siginfo_t *si)
{
	lock_acquire(&tg->k->tasks_lock);
	int err = signal_send_group_locked(tg, si);

	lock_release(&tg->k->tasks_lock);
	return err;
}

void signal_send_pgrp_locked(struct pid *pgrp, const siginfo_t *si)
{
	struct thread_group *tg;

	list_for_each(tg, &pgrp->pgrp_members, pgrp_node)
		signal_send_group_locked(tg, si);
}

int signal_queue_entry_locked(struct task *target, int group, struct sigqueue_entry *e)
{
	struct thread_group *tg = target->tg;
	struct sighand *sh = tg_sighand(tg);
	struct sigpending *p = group ? &tg->pending : &target->pending;
	int signo = e->info.si_signo;

	lock_assert_held(&tg->k->tasks_lock);
	if (!sh || (tg->group_flags & (TG_EXITING | TG_ZOMBIE)) ||
	    (!group && (target->jobctl_stop & JOBCTL_EXITING)))
		return -ESRCH;
	if (SIGBIT(signo) & (SIG_STOP_MASK | SIGBIT(SIGCONT)))
		signal_stop_cont_locked(tg, signo);
	if (send_is_ignored(target, sh, &e->info, 0))
		return 1;
	list_add_tail(&e->node, &p->queue);
	p->set |= SIGBIT(signo);
	wake_signalfds(tg);
	complete(target, sh, signo, group);
	return 0;
}

int signal_may_send_locked(struct task *from, struct thread_group *to, int signo)
{
	const struct cred *c = task_cred(from), *tc;

	if (from->tg == to || !to->leader)
		return 0;
	tc = to->leader->cred;
	if (!tc)
		return 0;
	if (c->euid == tc->suid || c->euid == tc->uid || c->uid == tc->suid || c->uid == tc->uid)
		return 0;
	if (cred_has_cap(c, CAP_KILL))
		return 0;
	if (signo == SIGCONT && from->tg->session == to->session)
		return 0;
	return -EPERM;
}

int signal_may_send(struct task *from, struct thread_group *to, int signo)
{
	lock_acquire(&from->k->tasks_lock);
	int err = signal_may_send_locked(from, to, signo);

	lock_release(&from->k->tasks_lock);
	return err;
}

/*
 * A fault the program can not be spared: when its handler can not run now (blocked or ignored),
 * the default action does, even for init (force_sig_info_to_task).
 */
void signal_force(struct task *t, const siginfo_t *si)
{
	lock_acquire(&t->k->tasks_lock);
	struct sighand *sh = t->sighand;

	if (!sh) {
		lock_release(&t->k->tasks_lock);
		return;
	}
	struct linux_sigaction *sa = &sh->action[si->si_signo - 1];
	linux_sigset_t bit = SIGBIT(si->si_signo);

	if ((t->blocked & bit) || sa->handler == LINUX_SIG_IGN) {
		sa->handler = LINUX_SIG_DFL;
		t->blocked &= ~bit;
	}
	if (sa->handler == LINUX_SIG_DFL)
		t->tg->group_flags |= TG_INIT_MORTAL;
	send_locked(t, si, 0);
	signal_recalc_locked(t);
	lock_release(&t->k->tasks_lock);
}

void signal_force_fault(struct task *t, const struct platform_event *ev)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = ev->fault.signo;
	si.si_code = ev->fault.code;
	si.si_addr = (void *)(uintptr_t)ev->fault.addr;
	t->trap_nr = ev->fault.trapno;
	t->trap_err = ev->fault.err;
	t->trap_cr2 = ev->fault.cr2;
	signal_force(t, &si);
}
