/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptrace(2) as the rest of the sentry meets it: hooks at the points where a traced task stops. All
 * are called by the traced task's own thread, and only when t->ptrace is set. State is under
 * kernel->tasks_lock.
 */
#ifndef CAISSON_PTRACE_H
#define CAISSON_PTRACE_H

#include "sentry/task/task.h"

/* TracerPid of /proc/PID/status as viewer sees it: 0 when t is not traced. [tasks] */
int ptrace_tracer_pid_locked(struct task *t, struct task *viewer) __attribute__((weak));

/* ---- stops, called by sentry/signal ---- */

/* The tracer asked for a stop (PTRACE_INTERRUPT, or a group stop it watches). [tasks] */
int ptrace_stop_pending_locked(struct task *t) __attribute__((weak));
/* Stops for it. tasks_lock held on entry, released on return. */
void ptrace_trap_and_unlock(struct task *t) __attribute__((weak));
/* A signal is about to be delivered: stops, and returns the signal to deliver, or 0. [tasks] held,
 * dropped while stopped. */
int ptrace_signal_locked(struct task *t, int signo, siginfo_t *si) __attribute__((weak));
/* t takes part in a group stop as a tracee: stops for its tracer. [tasks], dropped while stopped.
 */
void ptrace_group_stop_locked(struct task *t, int signo) __attribute__((weak));
/* SIGCONT reached t's group: a tracee that listens for it stops anew to say so. [tasks] */
void ptrace_continued_locked(struct task *t) __attribute__((weak));
/* A signal is about to end t's process. [tasks], dropped while stopped. */
void ptrace_dies_locked(struct task *t, int signo) __attribute__((weak));
/* A handler's frame was built: with single-stepping on, stops at its first instruction. */
void ptrace_handler_entered(struct task *t) __attribute__((weak));

#endif
