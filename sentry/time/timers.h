/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks and timers of processes. Clocks: the guest's CLOCK_* in ns. Timers: setitimer, alarm,
 * timer_create and RLIMIT_CPU; their state is under kernel->tasks_lock, since all they do is send
 * signals. Nothing ticks: CPU-time timers sample only while one is armed.
 */
#ifndef CAISSON_TIMERS_H
#define CAISSON_TIMERS_H

#include "sentry/task/task.h"

struct posix_timer;
struct posix_timers;

/* ---- clocks (timekeeper.c) ---- */

#define NSEC_PER_SEC 1000000000ull

/* Now on a guest clock, CPU clocks of other processes (negative ids) included. 0, -EINVAL. */
int clock_now(struct task *t, int clock, uint64_t *ns);
/* CLOCK_REALTIME of the sandbox. [any] */
uint64_t kernel_real_now(struct kernel *k);
/*
 * The CLOCK_MONOTONIC deadline of an instant on REALTIME, MONOTONIC, BOOTTIME, TAI or an alarm clock.
 * Only as good as long as nobody sets the clock: recompute after each wake.
 */
uint64_t clock_to_mono(struct kernel *k, int clock, uint64_t abs_ns);
/* Steps CLOCK_REALTIME of the sandbox; sleepers on it are woken to look again. */
void clock_set_real(struct kernel *k, uint64_t now_ns);
/* A timespec of the guest: -EFAULT, -EINVAL (not normalised, negative); saturates. */
int timespec_from_user(struct task *t, uint64_t addr, uint64_t *ns);
int timespec_to_user(struct task *t, uint64_t addr, uint64_t ns);
/* now + delta, NO_DEADLINE - 1 at most. */
uint64_t deadline_add(uint64_t now, uint64_t delta);
/* Tells the guest's time page about a new offset; weak: loader/vdso.c has it. */
void vdso_clock_changed(struct kernel *k) __attribute__((weak));

/* ---- timers (itimer.c, cpu_timer.c, posix_timer.c) ---- */

/*
 * The signal of a timer leaves the queue: fills the overrun and rearms. 0: the timer has been
 * set anew or deleted since, and the signal must not be delivered. [tasks]
 */
int posix_timer_dequeued_locked(struct posix_timer *pt, siginfo_t *si);
/* The signal of a timer was thrown away unseen. [tasks] */
void posix_timer_flushed_locked(struct posix_timer *pt);

#endif
