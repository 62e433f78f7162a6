/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acting on signals before guest code runs: the one place that decides about restarts, handlers,
 * default actions, stops and the end of the process (Linux: get_signal, handle_signal,
 * arch_do_signal_or_restart).
 */
#include <sys/syscall.h>

#include "platform/base/log.h"
#include "sentry/ptrace/ptrace.h"
#include "sentry/signal/signal_priv.h"

/* Fixes up a restartable sequence before a handler's frame is built (task helper's rseq). */
void rseq_signal_deliver(struct task *t) __attribute__((weak));

/*
 * Takes the next signal that has a handler; its number, or 0 when there is none. Default actions
 * happen in here, so it may stop the task for a while or not return at all.
 */
static int get_signal(struct task *t, struct ksignal *ks)
{
	struct thread_group *tg = t->tg;
	struct kernel *k = t->k;

relock:
	lock_acquire(&k->tasks_lock);
	for (;;) {
		struct linux_sigaction *sa;
		int signo;

		if ((tg->group_flags & TG_EXITING) ||
		    (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) & TASK_WORK_EXIT)) {
			int status = tg->group_exit_status;

			lock_release(&k->tasks_lock);
			task_exit(t, status);
		}
		if (t->ptrace && ptrace_stop_pending_locked(t)) {
			ptrace_trap_and_unlock(t);
			goto relock;
		}
		if (t->jobctl_stop & JOBCTL_STOP_PENDING) {
			signal_stop_and_unlock(t, 0);
			goto relock;
		}
		signo = signal_dequeue_locked(t, t->blocked, &ks->info, 1);
		if (!signo)
			signo = signal_dequeue_locked(t, t->blocked, &ks->info, 0);
		if (!signo)
			break;
		if (t->ptrace && signo != SIGKILL) {
			/* Drops and retakes the lock: the tracer may change or swallow the signal.
			 */
			signo = ptrace_signal_locked(t, signo, &ks->info);
			if (!signo)
				continue;
		}
		sa = &t->sighand->action[signo - 1];
		if (sa->handler == LINUX_SIG_IGN)
			continue;
		if (sa->handler != LINUX_SIG_DFL) {
			ks->action = *sa;
			if (sa->flags & SA_RESETHAND)
				sa->handler = LINUX_SIG_DFL;
			lock_release(&k->tasks_lock);
			return signo;
		}
		if (SIGBIT(signo) & SIG_IGNORE_MASK)
			continue;
		if ((tg->group_flags & (TG_INIT | TG_INIT_MORTAL)) == TG_INIT &&
		    !(SIGBIT(signo) & SIG_KERNEL_ONLY_MASK))
			continue;
		if (SIGBIT(signo) & SIG_STOP_MASK) {
			/* A tty stop of a group nobody could continue would last for ever. */
			if (signo != SIGSTOP && tg_is_orphaned_pgrp(tg->pgrp))
				continue;
			signal_stop_and_unlock(t, signo);
			goto relock;
		}
		if (t->ptrace && ptrace_dies_locked)
			ptrace_dies_locked(t, signo);
		/* wait(2) gets no core-dump bit: the sandbox writes no cores. */
		tg_exit_locked(tg, signo);
		lock_release(&k->tasks_lock);
		task_exit(t, signo);
	}
	signal_recalc_locked(t);
	lock_release(&k->tasks_lock);
	return 0;
}

static int is_restart_code(uint64_t rax)
{
	int64_t v = (int64_t)rax;

	return v == -ERESTARTSYS || v == -ERESTARTNOINTR || v == -ERESTARTNOHAND ||
	       v == -ERESTART_RESTARTBLOCK;
}

static void restart_call(struct task *t)
{
	t->regs.rax = t->regs.orig_rax;
	t->regs.rip -= 2; /* syscall and int 0x80 are two bytes long */
}

/* A handler is about to run in the middle of a call that wanted to sleep. */
static void restart_for_handler(struct task *t, const struct linux_sigaction *sa)
{
	switch ((int64_t)t->regs.rax) {
	case -ERESTART_RESTARTBLOCK:
	case -ERESTARTNOHAND:
		t->regs.rax = (uint64_t)-EINTR;
		break;
	case -ERESTARTSYS:
		if (!(sa->flags & SA_RESTART)) {
			t->regs.rax = (uint64_t)-EINTR;
			break;
		}
		restart_call(t);
		break;
	case -ERESTARTNOINTR:
		restart_call(t);
		break;
	}
}

static void restart_without_handler(struct task *t)
{
	if (!is_restart_code(t->regs.rax))
		return;
	if ((int64_t)t->regs.rax == -ERESTART_RESTARTBLOCK) {
		t->regs.rax = SYS_restart_syscall;
		t->regs.rip -= 2;
	} else {
		restart_call(t);
	}
}

static void block_for_handler(struct task *t, const struct ksignal *ks, linux_sigset_t base)
{
	linux_sigset_t mask = base | ks->action.mask;

	if (!(ks->action.flags & SA_NODEFER))
		mask |= SIGBIT(ks->info.si_signo);
	signal_set_blocked(t, mask);
}

/* The handler's frame does not fit: SIGSEGV, fatal if that is the signal itself. */
static void frame_failed(struct task *t, int signo)
{
	siginfo_t si;

	if (signo == SIGSEGV) {
		lock_acquire(&t->k->tasks_lock);
		t->sighand->action[SIGSEGV - 1].handler = LINUX_SIG_DFL;
		lock_release(&t->k->tasks_lock);
	}
	siginfo_kernel(&si, SIGSEGV);
	signal_force(t, &si);
}

static void run_handler(struct task *t, const struct ksignal *ks)
{
	linux_sigset_t saved = t->restore_mask ? t->saved_mask : t->blocked;

	if (t->in_syscall)
		restart_for_handler(t, &ks->action);
	t->in_syscall = 0;
	if (rseq_signal_deliver)
		rseq_signal_deliver(t);
	if (signal_frame_push(t, ks, saved)) {
		frame_failed(t, ks->info.si_signo);
		return;
	}
	/* The frame holds the mask to come back to; what the handler runs with builds on ours. */
	t->restore_mask = 0;
	block_for_handler(t, ks, t->blocked);
	if (t->ptrace)
		ptrace_handler_entered(t);
}

void signal_deliver(struct task *t)
{
	struct ksignal ks;

	while (get_signal(t, &ks))
		run_handler(t, &ks);
	if (t->in_syscall) {
		restart_without_handler(t);
		t->in_syscall = 0;
	}
	signal_restore_saved_mask(t);
}

int signal_return(struct task *t)
{
	siginfo_t si;

	/* Not a call that could be restarted, whatever ends up in rax. */
	t->in_syscall = 0;
	if (signal_frame_pop(t) == 0)
		return 0;
	log_debug("task %d: bad signal frame at %#llx", task_tid(t),
		  (unsigned long long)t->regs.rsp);
	siginfo_kernel(&si, SIGSEGV);
	signal_force(t, &si);
	return -EFAULT;
}
