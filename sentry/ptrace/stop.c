/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stops of a traced task: where they happen, how the tracer hears of them, and going on.
 *
 * Theory of operation. The tracee's own thread enters ptrace_stop_locked, says why, tells the
 * tracer (SIGCHLD and its wait queue) and sleeps until `stopped` is cleared by the tracer's
 * request, by a detach, or until it is killed. While `stopped` is set the tracer's thread may
 * change the saved registers; tasks_lock, taken by both around it, orders that. What only the
 * tracee's thread may touch (FP state) is done by it on order, inside the same sleep.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "sentry/ptrace/ptrace_priv.h"
#include "sentry/syscall/syscall.h"

#define EFLAGS_TF 0x100ull

static void tell_tracer(struct task *t, const struct ptrace_state *p)
{
	struct task *tracer = p->tracer;
	struct sighand *sh = tg_sighand(tracer->tg);
	const struct linux_sigaction *sa = sh ? &sh->action[SIGCHLD - 1] : NULL;
	siginfo_t si;

	if (sa && sa->handler != LINUX_SIG_IGN && !(sa->flags & SA_NOCLDSTOP)) {
		memset(&si, 0, sizeof(si));
		si.si_signo = SIGCHLD;
		si.si_code = CLD_TRAPPED;
		si.si_pid = task_tid_for(t, tracer);
		si.si_uid = t->cred->uid;
		si.si_status = p->code;
		signal_send_group_locked(tracer->tg, &si);
	}
	waitq_wake(&tracer->tg->child_wait, POLLIN | POLLHUP);
}

/* Sleeps until let go; carries out orders. tasks_lock held on entry and return. */
static void wait_for_tracer(struct task *t)
{
	struct kernel *k = t->k;

	while (t->ptrace && t->ptrace->stopped) {
		struct trace_order *order = t->ptrace->order;

		if (order) {
			t->ptrace->order = NULL;
			/* The tracer waits for the result and keeps the order alive until then. */
			struct task *tracer = task_get(t->ptrace->tracer);

			lock_release(&k->tasks_lock);
			ptrace_run_order(t, order);
			task_wake(tracer);
			task_put(tracer);
			lock_acquire(&k->tasks_lock);
			continue;
		}
		lock_release(&k->tasks_lock);
		__atomic_store_n(&t->state, TASK_TRACED, __ATOMIC_RELAXED);
		int killed = task_sleep_killable(t, NO_DEADLINE);

		__atomic_store_n(&t->state, TASK_RUNNING, __ATOMIC_RELAXED);
		lock_acquire(&k->tasks_lock);
		if (killed)
			break;
	}
}

void ptrace_stop_locked(struct task *t, int code, const siginfo_t *si)
{
	struct ptrace_state *p = t->ptrace;

	lock_assert_held(&t->k->tasks_lock);
	if (!p || (t->tg->group_flags & TG_EXITING))
		return;
	if (p->forced_tf) {
		t->regs.eflags &= ~EFLAGS_TF;
		p->forced_tf = 0;
	}
	p->code = code;
	p->has_info = si != NULL;
	if (si)
		p->info = *si;
	p->stopped = 1;
	p->listening = 0;
	p->unreported = 1;
	p->resume_signo = 0;
	tell_tracer(t, p);
	wait_for_tracer(t);
	p = t->ptrace; /* it may have detached */
	if (!p)
		return;
	if (p->order) {
		/* Killed before it could be done. */
		__atomic_store_n(&p->order->result, -ESRCH, __ATOMIC_RELEASE);
		task_wake(p->tracer);
	}
	p->order = NULL;
	p->stopped = 0;
	p->unreported = 0;
	p->has_info = 0;
	p->group_stop = 0;
}

void ptrace_resume_locked(struct task *t, enum trace_mode mode, int signo)
{
	struct ptrace_state *p = t->ptrace;

	p->mode = mode;
	p->resume_signo = signo;
	if (mode == TRACE_STEP || mode == TRACE_SYSEMU_STEP) {
		if (!(t->regs.eflags & EFLAGS_TF)) {
			t->regs.eflags |= EFLAGS_TF;
			p->forced_tf = 1;
		}
	}
	p->stopped = 0;
	p->unreported = 0;
	task_wake(t);
}

/* An event or syscall stop: SIGTRAP with the event above it. */
static void event_stop_locked(struct task *t, int code, uint64_t message)
{
	siginfo_t si;

	if (!t->ptrace)
		return;
	t->ptrace->message = message;
	memset(&si, 0, sizeof(si));
	si.si_signo = SIGTRAP;
	si.si_code = code;
	si.si_pid = task_tid(t);
	si.si_uid = t->cred->uid;
	ptrace_stop_locked(t, code, &si);
}

/* A signal the tracer injects at a stop that is not for a signal. [tasks] */
static void inject_locked(struct task *t)
{
	siginfo_t si;

	if (!t->ptrace || !t->ptrace->resume_signo)
		return;
	memset(&si, 0, sizeof(si));
	si.si_signo = t->ptrace->resume_signo;
	si.si_code = SI_USER;
	t->ptrace->resume_signo = 0;
	signal_send_task_locked(t, &si);
}

/* ---- hooks of sentry/signal ---- */

int ptrace_stop_pending_locked(struct task *t)
{
	return t->ptrace && t->ptrace->stop_wanted;
}

void ptrace_trap_and_unlock(struct task *t)
{
	struct ptrace_state *p = t->ptrace;
	int signo = t->tg->group_flags & TG_STOPPED ? t->tg->stop_signal : SIGTRAP;

	p->stop_wanted = 0;
	signal_recalc_locked(t);
	if (p->seized)
		event_stop_locked(t, signo | PTRACE_EVENT_STOP << 8, 0);
	else
		ptrace_stop_locked(t, signo == SIGTRAP ? SIGSTOP : signo, NULL);
	lock_release(&t->k->tasks_lock);
}

void ptrace_group_stop_locked(struct task *t, int signo)
{
	if (!t->ptrace)
		return;
	t->ptrace->group_stop = 1;
	if (t->ptrace->seized)
		event_stop_locked(t, signo | PTRACE_EVENT_STOP << 8, 0);
	else
		ptrace_stop_locked(t, signo, NULL);
}

void ptrace_continued_locked(struct task *t)
{
	struct ptrace_state *p = t->ptrace;

	if (!p || !p->seized)
		return;
	/* Stays wanted over a stop it is in now: LISTEN then ends at once. */
	p->stop_wanted = 1;
	if (p->stopped && !p->listening)
		return;
	p->listening = 0;
	p->stopped = 0;
	signal_recalc_locked(t);
	task_kick(t, TASK_WORK_STOP);
}

int ptrace_signal_locked(struct task *t, int signo, siginfo_t *si)
{
	struct ptrace_state *p;

	ptrace_stop_locked(t, signo, si);
	p = t->ptrace;
	if (!p) /* detached: the signal it was let go with was queued */
		return 0;
	if (!p->resume_signo)
		return 0;
	if (p->resume_signo != signo) {
		signo = p->resume_signo;
		memset(si, 0, sizeof(*si));
		si->si_signo = signo;
		si->si_code = SI_USER;
		si->si_pid = task_tid_for(p->tracer, t);
		si->si_uid = p->tracer->cred->uid;
	} else {
		*si = p->info;
	}
	p->resume_signo = 0;
	if (t->blocked & SIGBIT(signo)) {
		signal_send_task_locked(t, si);
		return 0;
	}
	return signo;
}

void ptrace_handler_entered(struct task *t)
{
	lock_acquire(&t->k->tasks_lock);
	struct ptrace_state *p = t->ptrace;

	if (p && (p->mode == TRACE_STEP || p->mode == TRACE_SYSEMU_STEP)) {
		event_stop_locked(t, SIGTRAP, 0);
		inject_locked(t);
	}
	lock_release(&t->k->tasks_lock);
}

/* ---- hooks of the system call path ---- */

static int trap_code(const struct ptrace_state *p)
{
	return p->options & PTRACE_O_TRACESYSGOOD ? SIGTRAP | 0x80 : SIGTRAP;
}

/* The last stop before a thread ends itself. [tasks] */
static void exit_event_locked(struct task *t)
{
	uint64_t nr = t->regs.orig_rax;

	if (t->ptrace && (t->ptrace->options & PTRACE_O_TRACEEXIT) &&
	    (nr == SYS_exit || nr == SYS_exit_group))
		event_stop_locked(t, SIGTRAP | PTRACE_EVENT_EXIT << 8, (t->regs.rdi & 0xff) << 8);
}

void ptrace_dies_locked(struct task *t, int signo)
{
	if (t->ptrace && (t->ptrace->options & PTRACE_O_TRACEEXIT))
		event_stop_locked(t, SIGTRAP | PTRACE_EVENT_EXIT << 8, (uint64_t)signo);
}

int ptrace_syscall_enter(struct task *t)
{
	struct ptrace_state *p;
	int skip = 0;

	lock_acquire(&t->k->tasks_lock);
	p = t->ptrace;
	if (p &&
	    (p->mode == TRACE_SYSCALL || p->mode == TRACE_SYSEMU || p->mode == TRACE_SYSEMU_STEP)) {
		int emulate = p->mode != TRACE_SYSCALL;

		p->op = OP_ENTRY;
		event_stop_locked(t, trap_code(p), 1 /* PTRACE_EVENTMSG_SYSCALL_ENTRY */);
		inject_locked(t);
		skip = emulate || (int32_t)t->regs.orig_rax < 0;
		if (t->ptrace)
			t->ptrace->op = OP_NONE;
	}
	if (!skip)
		exit_event_locked(t);
	lock_release(&t->k->tasks_lock);
	return skip;
}

void ptrace_syscall_exit(struct task *t)
{
	struct ptrace_state *p;

	lock_acquire(&t->k->tasks_lock);
	p = t->ptrace;
	if (p && p->mode == TRACE_SYSCALL) {
		p->op = OP_EXIT;
		event_stop_locked(t, trap_code(p), 2 /* PTRACE_EVENTMSG_SYSCALL_EXIT */);
		inject_locked(t);
		if (t->ptrace)
			t->ptrace->op = OP_NONE;
	}
	lock_release(&t->k->tasks_lock);
}

int ptrace_seccomp_event(struct task *t, uint32_t data)
{
	int took = 0;

	lock_acquire(&t->k->tasks_lock);
	if (t->ptrace && (t->ptrace->options & PTRACE_O_TRACESECCOMP)) {
		t->ptrace->op = OP_SECCOMP;
		event_stop_locked(t, SIGTRAP | PTRACE_EVENT_SECCOMP << 8, data);
		inject_locked(t);
		if (t->ptrace)
			t->ptrace->op = OP_NONE;
		took = 1;
	}
	lock_release(&t->k->tasks_lock);
	return took;
}

/* ---- hooks of clone and exec ---- */

static void option_event(struct task *t, uint32_t option, int event, uint64_t message)
{
	lock_acquire(&t->k->tasks_lock);
	if (t->ptrace && (t->ptrace->options & option)) {
		event_stop_locked(t, SIGTRAP | event << 8, message);
		inject_locked(t);
	}
	lock_release(&t->k->tasks_lock);
}

#define FLAG_SIGCHLD (1ull << 31) /* how clone.c says that the child signals its exit so */

int ptrace_clone_kind(uint64_t flags, int sends_sigchld)
{
	if (flags & CLONE_VFORK)
		return PTRACE_EVENT_VFORK;
	return sends_sigchld ? PTRACE_EVENT_FORK : PTRACE_EVENT_CLONE;
}

void ptrace_clone_event(struct task *parent, uint64_t flags, int child_tid)
{
	int kind = ptrace_clone_kind(flags, (flags & FLAG_SIGCHLD) != 0);

	if (!(flags & CLONE_UNTRACED))
		option_event(parent, 1u << kind, kind, (uint64_t)child_tid);
}

void ptrace_vfork_done_event(struct task *parent, int child_tid)
{
	option_event(parent, PTRACE_O_TRACEVFORKDONE, PTRACE_EVENT_VFORK_DONE, (uint64_t)child_tid);
}

void ptrace_exec_event(struct task *t, int old_tid)
{
	siginfo_t si;

	lock_acquire(&t->k->tasks_lock);
	if (t->ptrace && (t->ptrace->options & PTRACE_O_TRACEEXEC)) {
		event_stop_locked(t, SIGTRAP | PTRACE_EVENT_EXEC << 8, (uint64_t)old_tid);
		inject_locked(t);
	} else if (t->ptrace && !t->ptrace->seized) {
		/* As of old: a SIGTRAP to itself, met before the first instruction. */
		memset(&si, 0, sizeof(si));
		si.si_signo = SIGTRAP;
		si.si_code = SI_USER;
		si.si_pid = task_tgid(t);
		si.si_uid = t->cred->uid;
		signal_send_task_locked(t, &si);
	}
	lock_release(&t->k->tasks_lock);
}
