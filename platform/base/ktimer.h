/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-shot timers on CLOCK_MONOTONIC, run by one host thread that exists only while a timer is
 * armed and sleeps until the earliest deadline: no tick. Periodic timers re-arm themselves from
 * their function, which runs without any ktimer lock and must not block for long.
 */
#ifndef CAISSON_KTIMER_H
#define CAISSON_KTIMER_H

#include <stdint.h>

struct ktimer;
typedef void (*ktimer_fn)(struct ktimer *t);

struct ktimer {
	ktimer_fn fn;
	void *priv;
	uint64_t deadline;   /* ns, CLOCK_MONOTONIC */
	int32_t heap_index;  /* -1 when not armed */
	uint32_t running;    /* the thread is in fn */
};

uint64_t mono_now_ns(void);
uint64_t real_now_ns(void);

void ktimer_init(struct ktimer *t, ktimer_fn fn, void *priv);
/* Arms or re-arms. A deadline in the past fires at once. */
void ktimer_arm(struct ktimer *t, uint64_t deadline_ns);
/* Disarms; returns 1 if it was armed. fn may still be running in the timer thread. */
int ktimer_cancel(struct ktimer *t);
/* Disarms and waits until fn is not running: afterwards t may be freed. Not from fn itself. */
int ktimer_cancel_sync(struct ktimer *t);

#endif
