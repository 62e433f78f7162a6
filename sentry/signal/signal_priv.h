/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of sentry/signal share: classes of signals, queues, stops, the frame. */
#ifndef CAISSON_SIGNAL_PRIV_H
#define CAISSON_SIGNAL_PRIV_H

#include "sentry/signal/signal.h"

#define SIG_STOP_MASK	(SIGBIT(SIGSTOP) | SIGBIT(SIGTSTP) | SIGBIT(SIGTTIN) | SIGBIT(SIGTTOU))
#define SIG_IGNORE_MASK (SIGBIT(SIGCONT) | SIGBIT(SIGCHLD) | SIGBIT(SIGWINCH) | SIGBIT(SIGURG))
#define SIG_COREDUMP_MASK                                                                          \
	(SIGBIT(SIGQUIT) | SIGBIT(SIGILL) | SIGBIT(SIGTRAP) | SIGBIT(SIGABRT) | SIGBIT(SIGFPE) |   \
	 SIGBIT(SIGSEGV) | SIGBIT(SIGBUS) | SIGBIT(SIGSYS) | SIGBIT(SIGXCPU) | SIGBIT(SIGXFSZ))
/* Raised by the instruction itself: delivered before all others. */
#define SIG_SYNC_MASK                                                                              \
	(SIGBIT(SIGSEGV) | SIGBIT(SIGBUS) | SIGBIT(SIGILL) | SIGBIT(SIGTRAP) | SIGBIT(SIGFPE) |    \
	 SIGBIT(SIGSYS))

#define LINUX_SIGRTMIN 32
#define LINUX_SIG_DFL  0u
#define LINUX_SIG_IGN  1u

/* A signal taken out of the queues, with the action that will serve it. */
struct ksignal {
	siginfo_t info;
	struct linux_sigaction action;
};

/* The sighand of a group: that of any thread that still has one; NULL when all are gone. */
struct sighand *tg_sighand(struct thread_group *tg);
/* Removes the signals of mask from a queue. [tasks] */
void sigpending_remove(struct kernel *k, struct sigpending *p, linux_sigset_t mask);
/* What t would take now: its own and its group's, less what it blocks and does not wait for. */
linux_sigset_t signal_deliverable_locked(struct task *t);
/*
 * Takes the next signal that is not in `masked` out of t's queues into *si; its number, or 0.
 * sync_only: only those raised by t's own last instruction. [tasks]
 */
int signal_dequeue_locked(struct task *t, linux_sigset_t masked, siginfo_t *si, int sync_only);

/* stop.c */
/* t starts or joins a group stop for signo; waits until it is over. tasks_lock held on entry,
 * released on return. */
void signal_stop_and_unlock(struct task *t, int signo);
/* A stop signal or SIGCONT is about to be queued for tg: its effects that do not depend on masks.
 */
void signal_stop_cont_locked(struct thread_group *tg, int signo);
/* t needs not take part any more in a stop of its group (exit). */
void signal_stop_leave_locked(struct task *t);

/*
 * frame_x86_64.c: writes the frame of a handler and points the registers at it. 0, or -EFAULT when
 * the stack can not take it.
 */
int signal_frame_push(struct task *t, const struct ksignal *ks, linux_sigset_t saved);
/* rt_sigreturn: 0, or -EFAULT when the frame is bad (nothing guaranteed about the registers). */
int signal_frame_pop(struct task *t);
/* sigaltstack's state of sp: SS_DISABLE, SS_ONSTACK or 0. */
int altstack_state(const struct task *t, uint64_t sp);
int altstack_contains(const struct task *t, uint64_t sp); /* whatever its flags */
void altstack_reset(struct task *t);
/* Sets it as sigaltstack(2) would, with sp as the current stack pointer. min_size: MINSIGSTKSZ. */
int altstack_set(struct task *t, const stack_t *ss, uint64_t sp, uint64_t min_size);

#endif
