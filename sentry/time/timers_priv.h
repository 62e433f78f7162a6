/* SPDX-License-Identifier: Apache-2.0 */
/* The timers of a process, shared by itimer.c, cpu_timer.c and posix_timer.c. */
#ifndef CAISSON_TIMERS_PRIV_H
#define CAISSON_TIMERS_PRIV_H

#include "sentry/signal/signal_priv.h"
#include "sentry/time/timers.h"

/* Made when a process first uses timer_create, a CPU itimer or a CPU limit. */
struct posix_timers {
	struct thread_group *tg; /* [I] borrowed: it owns us */
	struct list_head timers; /* [tasks] posix_timer.node */
	int next_id;		 /* [tasks] */
	struct ktimer sample;	 /* looks at CPU use while something depends on it */
	uint64_t last_cpu_ns;	 /* [tasks] at the last sample */
	uint32_t idle_samples;	 /* [tasks] in a row: the process does not run */
	uint64_t xcpu_next_sec;	 /* [tasks] CPU seconds at which SIGXCPU comes next; 0: by the limit
				  */
};

struct posix_timer {
	struct list_head node;	     /* [tasks] in posix_timers */
	struct posix_timers *pts;    /* [I] */
	int id;			     /* [I] */
	int clock;		     /* [I] */
	struct cpu_clock cpu;	     /* [I] set for CPU clocks */
	int is_cpu;		     /* [I] */
	int notify, signo;	     /* [I] SIGEV_* */
	struct task *target;	     /* [I] SIGEV_THREAD_ID: a reference */
	struct sigqueue_entry entry; /* [tasks] in a pending queue while `queued` */
	int queued;		     /* [tasks] */
	int armed;		     /* [tasks] `expires` means something */
	uint64_t expires;	     /* [tasks] on its clock: the next expiry nobody has heard of */
	uint64_t interval;	     /* [tasks] */
	int64_t overrun;	     /* [tasks] expiries missed before the one that is queued */
	int overrun_last;	     /* [tasks] of the last delivered signal */
	struct ktimer timer;	     /* wall clocks */
};

/* The timers of tg, made if need be; NULL without memory. [tasks] */
struct posix_timers *timers_of_locked(struct thread_group *tg);
/* Something about CPU-time timers changed: sets the next sample. [tasks] */
void cpu_timers_rearm_locked(struct thread_group *tg);
/* A process-wide kernel signal. [tasks] */
void timer_send_locked(struct thread_group *tg, int signo);
/* Every timer on CPU clocks that is due at the times given; the least time left, or UINT64_MAX.
 * [tasks] */
uint64_t posix_cpu_timers_expire_locked(struct posix_timers *pts);
/* itimers on CPU time. */
uint64_t cpu_itimer_remaining(const struct cpu_itimer *it, uint64_t now);

#endif
