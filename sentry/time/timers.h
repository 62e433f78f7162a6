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
#define TIME_NS_MAX  ((uint64_t)INT64_MAX) /* what any time saturates at */

/* Now on a guest clock, CPU clocks of other processes (negative ids) included. 0, -EINVAL. */
int clock_now(struct task *t, int clock, uint64_t *ns);
/* CLOCK_REALTIME of the sandbox. [any] */
uint64_t kernel_real_now(struct kernel *k);
/*
 * The CLOCK_MONOTONIC deadline of an instant on REALTIME, MONOTONIC, BOOTTIME, TAI or an alarm
 * clock. Only as good as long as nobody sets the clock: recompute after each wake.
 */
uint64_t clock_to_mono(struct kernel *k, int clock, uint64_t abs_ns);
/* Now on a clock that follows the wall, not CPU use. [any] */
uint64_t clock_wall_now(struct kernel *k, int clock);
/* Steps CLOCK_REALTIME of the sandbox; sleepers on it are woken to look again. */
void clock_set_real(struct kernel *k, uint64_t now_ns);
/* A timespec of the guest: -EFAULT, -EINVAL (not normalised, negative); saturates. */
int timespec_from_user(struct task *t, uint64_t addr, uint64_t *ns);
int timespec_to_user(struct task *t, uint64_t addr, uint64_t ns);
/* 0, or -EINVAL when negative or not normalised. */
int timespec_to_ns(int64_t sec, int64_t nsec, uint64_t *ns);
/* now + delta, TIME_NS_MAX at most. */
uint64_t deadline_add(uint64_t now, uint64_t delta);
/* Tells the guest's time page about a new offset; weak: loader/vdso.c has it. */
void vdso_clock_changed(struct kernel *k) __attribute__((weak));

/*
 * CPU clocks. An id holds a pid or tid (0: the caller's), what counts, and whether it is a
 * thread's: PROCESS and THREAD_CPUTIME_ID are two of them.
 */
#define CPUCLOCK_PER_THREAD	 4
#define CPUCLOCK_VIRT_ID	 1 /* user time only */
#define CPUCLOCK_MAKE(pid, bits) ((int)((~(unsigned int)(pid) << 3) | (bits)))
struct cpu_clock {
	struct task *thread;	 /* either a reference here … */
	struct thread_group *tg; /* … or here */
	int which;
};
int cpu_clock_decode(struct task *t, int clock, struct cpu_clock *out); /* 0, -EINVAL */
void cpu_clock_put(struct cpu_clock *c);
uint64_t cpu_clock_thread(struct task *t, int which);
uint64_t cpu_clock_group_locked(struct thread_group *tg, int which); /* [tasks] */

/* ---- timers (itimer.c, cpu_timer.c, posix_timer.c) ---- */

/*
 * The signal of a timer leaves the queue: fills the overrun and rearms. 0: the timer has been
 * set anew or deleted since, and the signal must not be delivered. [tasks]
 */
int posix_timer_dequeued_locked(struct posix_timer *pt, siginfo_t *si);
/* CLOCK_REALTIME was set: timers on it move. [tasks] */
void posix_timers_clock_set_locked(struct thread_group *tg);
/* SIGALRM left the group's queue: a periodic ITIMER_REAL goes on. [tasks] */
void itimer_alarm_dequeued_locked(struct thread_group *tg);
/* The signal of a timer was thrown away unseen. [tasks] */
void posix_timer_flushed_locked(struct posix_timer *pt);

/* setitimer(2) and getitimer(2), in ns; which is valid. */
struct itimer_ns {
	uint64_t value, interval;
};
void itimer_get(struct task *t, int which, struct itimer_ns *cur);
int itimer_set(struct task *t, int which, const struct itimer_ns *val, struct itimer_ns *old);

/* timer_create(2) and its family; id is the guest's. */
struct sigevent_k {
	int notify, signo, tid;
	uint64_t value;
	int value_is_id; /* no sigevent was given: the value is the timer's id */
};
int posix_timer_create(struct task *t, int clock, const struct sigevent_k *sev);
int posix_timer_set(struct task *t, int id, int flags, const struct itimer_ns *val,
		    struct itimer_ns *old);
int posix_timer_get(struct task *t, int id, struct itimer_ns *cur);
int posix_timer_overrun(struct task *t, int id);
int posix_timer_delete(struct task *t, int id);

#endif
