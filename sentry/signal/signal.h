/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: sending, pending sets, delivery to the guest, stops. All state is under
 * kernel->tasks_lock; functions named _locked want it held.
 */
#ifndef CAISSON_SIGNAL_H
#define CAISSON_SIGNAL_H

#include "platform/abi/signal.h"
#include "sentry/task/task.h"

#define SIG_KERNEL_ONLY_MASK (SIGBIT(SIGKILL) | SIGBIT(SIGSTOP))

/* task->jobctl_stop */
#define JOBCTL_STOP_PENDING 1 /* must stop when it next looks at its signals */
#define JOBCTL_STOPPED	    2 /* has stopped, and waits for SIGCONT */
#define JOBCTL_EXITING	    4 /* signal_task_exit_locked() was called: no signal goes to it */

/* A siginfo from the kernel itself (SI_KERNEL), or from a user (SI_USER with sender's ids). */
void siginfo_kernel(siginfo_t *si, int signo);
void siginfo_user(siginfo_t *si, int signo, struct task *sender, struct task *receiver_view);

/* Queue a signal. 0, -EAGAIN (RLIMIT_SIGPENDING for queued ones). Ignored signals vanish. */
int signal_send_task(struct task *t, const siginfo_t *si);
int signal_send_group(struct thread_group *tg, const siginfo_t *si);
int signal_send_task_locked(struct task *t, const siginfo_t *si);
int signal_send_group_locked(struct thread_group *tg, const siginfo_t *si);
/* To every member of a process group / session id; kernel-originated (tty, orphaned groups). */
void signal_send_pgrp_locked(struct pid *pgrp, const siginfo_t *si);
/* kill(2)'s permission: 0 or -EPERM. */
int signal_may_send(struct task *from, struct thread_group *to, int signo);
int signal_may_send_locked(struct task *from, struct thread_group *to, int signo);
/*
 * Queues a preallocated entry (posix timers), to a task or its group: 0 when queued, 1 when the
 * signal is ignored now, -ESRCH when the target is ending. The entry stays the caller's when it
 * is not queued, and comes back through posix_timer_dequeued_locked(). [tasks]
 */
int signal_queue_entry_locked(struct task *target, int group, struct sigqueue_entry *e);
/* A synchronous fault of t itself: can not be blocked or ignored (then the default kills). */
void signal_force(struct task *t, const siginfo_t *si);
void signal_force_fault(struct task *t, const struct platform_event *ev);

/* Recomputes TASK_WORK_SIGNAL of t. [tasks] */
void signal_recalc_locked(struct task *t);
/* Would task_sleep be interrupted? */
int signal_is_pending(struct task *t);
/* Changes the calling task's mask. */
void signal_set_blocked(struct task *t, linux_sigset_t mask);
void signal_set_blocked_locked(struct task *t, linux_sigset_t mask); /* [tasks] */
/* For sigsuspend/ppoll/…: sets the temporary mask; the old one comes back after delivery. */
void signal_set_temporary_mask(struct task *t, linux_sigset_t mask);
/* End of a ppoll/pselect/epoll_pwait that was not interrupted: puts the old mask back. */
void signal_restore_saved_mask(struct task *t);
/*
 * Called by the run loop before guest code runs, with TASK_WORK_* set or a restart code in
 * regs.rax (in_syscall set) or restore_mask set: syscall restart decision, handlers, default
 * actions, group stops (blocks inside), ptrace stops. May end the task. Clears in_syscall.
 */
void signal_deliver(struct task *t);
/* rt_sigreturn: registers, mask, FP state and altstack from the frame. A bad frame forces SIGSEGV.
 * The call's result is t->regs.rax as restored. */
int signal_return(struct task *t);
/* After execve: handlers to default, altstack off. fork: copies. */
void signal_exec(struct task *t);
/* sigaction(2) of the caller's process; either pointer may be NULL. -EINVAL. */
int signal_set_action(struct task *t, int signo, const struct linux_sigaction *new_action,
		      struct linux_sigaction *old);
struct sighand *sighand_new(void);
struct sighand *sighand_dup(struct sighand *sh, struct kernel *k);
void sighand_put(struct sighand *sh);
void sigpending_init(struct sigpending *p);
void sigpending_flush(struct sigpending *p); /* [tasks] frees the queue */
/*
 * A thread ends: its own queue goes, signals of the group it might have been woken for find
 * another thread, and a group stop no longer waits for it. t counts as dead afterwards. [tasks]
 */
void signal_task_exit_locked(struct task *t);
/* clone: a new thread of a group that is being stopped, or is, takes part. Published already.
 * [tasks] */
void signal_task_join_stop_locked(struct task *t);
/* /proc/PID/status: pending (thread, group), blocked, ignored and caught sets. [tasks] */
void signal_sets_locked(struct task *t, linux_sigset_t *pending, linux_sigset_t *shared,
			linux_sigset_t *ignored, linux_sigset_t *caught);
/* Signals queued by t's user, and how many it may (SigQ of /proc/PID/status). [tasks] */
uint32_t signal_queued_locked(struct task *t);
/* A child changed state: SIGCHLD (or exit_signal) to its parent, waking wait(). [tasks] */
void signal_notify_parent_locked(struct thread_group *child, int code, int status);
/* From the exit path of tg: the parent ignores SIGCHLD or has SA_NOCLDWAIT → autoreap. [tasks] */
int signal_parent_ignores_child(struct thread_group *child);

/* Marks set/clear from a guest sigset of `size` bytes (must be 8): -EINVAL, -EFAULT. */
int sigset_from_user(struct task *t, uint64_t addr, uint64_t size, linux_sigset_t *out);

#endif
