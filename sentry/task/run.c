/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a task's host thread: run guest code, serve what stopped it, look at the work bits,
 * again. It ends by a jump out of task_exit (exit.c) back to task_main, so that no frame of a
 * half-served syscall is ever returned into.
 */
#include "sentry/task/run.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "platform/base/assert.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/signal/sigio.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/task_priv.h"

static __thread jmp_buf *g_exit_jump;

void task_thread_end(void)
{
	ASSERT(g_exit_jump);
	longjmp(*g_exit_jump, 1);
}

static int is_restart_code(uint64_t rax)
{
	int64_t v = (int64_t)rax;

	return v == -ERESTARTSYS || v == -ERESTARTNOINTR || v == -ERESTARTNOHAND ||
	       v == -ERESTART_RESTARTBLOCK;
}

/* Everything that must happen before guest code goes on. */
static void before_guest(struct task *t)
{
	for (;;) {
		uint32_t work = __atomic_load_n(&t->work, __ATOMIC_SEQ_CST);

		if (work & TASK_WORK_SIGIO) {
			sigio_flush(t);
			continue;
		}
		if (work & TASK_WORK_EXIT)
			task_exit(t, t->exit_code);
		/* Before a handler's frame, a stop, a restart: the call's results are in place. */
		if (t->copies && (work || t->restore_mask)) {
			if (user_copies_now(t) && t->in_syscall)
				t->regs.rax = (uint64_t)-EFAULT;
			t->copies = 0;
		}
		if (!work && !t->restore_mask && !(t->in_syscall && is_restart_code(t->regs.rax)))
			break;
		/* A kick meant what we are about to look at. */
		if (work)
			context_interrupt_clear(t->ctx);
		signal_deliver(t);
		if (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) == work)
			break; /* nothing the signal code could do away with: guest code goes on */
	}
	t->in_syscall = 0;
	t->copies = 0;
}

static void host_process_gone(struct task *t)
{
	lock_acquire(&t->k->tasks_lock);
	if (!(t->tg->group_flags & TG_EXITING))
		log_info("process %d: its host process is gone", task_tgid(t));
	tg_exit_locked(t->tg, SIGKILL);
	lock_release(&t->k->tasks_lock);
}

/*
 * Calls whose result only the task itself can change are left to the platform once they have been
 * served: nobody watches, and no other thread of the process could start to (ptrace stops the task
 * first; a seccomp filter of another thread could not).
 */
static int may_answer(struct task *t)
{
	return !t->k->strace && !t->seccomp && !__atomic_load_n(&t->ptrace, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&t->tg->live, __ATOMIC_RELAXED) == 1;
}

static void offer_answer(struct task *t, uint64_t nr)
{
	if (nr != SYS_getpid && nr != SYS_gettid && nr != SYS_getuid && nr != SYS_geteuid &&
	    nr != SYS_getgid && nr != SYS_getegid)
		return;
	if (t->answers != TASK_ANSWERS_STALE && may_answer(t) && !(t->regs.rax >> 32) &&
	    context_answer(t->ctx, (int)nr, (uint32_t)t->regs.rax))
		t->answers = TASK_ANSWERS_GIVEN;
}

static void serve(struct task *t, struct platform_event *ev)
{
	switch (ev->kind) {
	case EVENT_SYSCALL:
		if (ev->hot && !__atomic_load_n(&t->ptrace, __ATOMIC_RELAXED))
			mm_patch_site(t, t->regs.rip);
		syscall_dispatch(t, (int)ev->foreign_abi);
		if (!ev->foreign_abi)
			offer_answer(t, t->regs.orig_rax);
		break;
	case EVENT_FAULT:
		t->ru.minflt++;
		if (mm_fault(t, ev) != 0)
			signal_force_fault(t, ev);
		break;
	case EVENT_EXCEPTION:
		signal_force_fault(t, ev);
		break;
	case EVENT_INTERRUPTED:
		t->ru.nivcsw++;
		/* The memory limit's timer interrupts programs that make no syscalls. */
		if (t->k->memory_limit)
			mm_oom_check(t);
		break;
	case EVENT_EXITED:
		host_process_gone(t);
		break;
	}
}

static void run(struct task *t)
{
	struct platform_event ev;

	/* CLONE_CHILD_SETTID: the store is the child's own; a bad address is nobody's business. */
	if (t->set_child_tid) {
		put_user_u32(t, t->set_child_tid, (uint32_t)task_tid(t));
		t->set_child_tid = 0;
	}
	for (;;) {
		before_guest(t);
		lock_assert_none_held();
		if (t->answers && (t->answers == TASK_ANSWERS_STALE || !may_answer(t))) {
			context_answers_clear(t->ctx);
			t->answers = 0;
		}
		context_switch(t->ctx, &t->regs, &ev);
		serve(t, &ev);
	}
}

void *task_main(void *task)
{
	struct task *t = task;
	struct timespec used;
	clockid_t clock;
	jmp_buf jump;

	current = t;
	if (pthread_getcpuclockid(pthread_self(), &clock) == 0 && clock_gettime(clock, &used) == 0) {
		/* The thread may have been another task's before. */
		t->host_clock_base_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
		__atomic_store_n(&t->host_clock, clock, __ATOMIC_RELEASE);
	}
	g_exit_jump = &jump;
	if (_setjmp(jump) == 0)
		run(t);
	current = NULL;
	return NULL;
}

/* The thread holds a reference on its task, which task_exit drops. */
int task_start(struct task *t)
{
	char name[16];
	int err;

	snprintf(name, sizeof(name), "task-%d", t->pid->numbers[0].nr);
	task_get(t);
	err = thread_start(name, task_main, t);
	if (err)
		task_put(t);
	return err;
}
