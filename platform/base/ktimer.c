/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer thread of ktimer.h: a binary heap of deadlines under one lock.
 *
 * Theory of operation: the thread sleeps on g_cond until the root's deadline. ktimer_arm wakes it
 * only when the new timer became the root. Before a function runs its timer leaves the heap and
 * `running` is set, all under the lock; ktimer_cancel_sync waits for `running` to clear. With an
 * empty heap the thread waits without a deadline.
 */
#include "platform/base/ktimer.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "platform/base/assert.h"
#include "platform/base/lock.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"

static pthread_once_t g_once = PTHREAD_ONCE_INIT;
static struct lock g_lock;
static pthread_cond_t g_cond;
static pthread_cond_t g_idle; /* some function returned */
static struct ktimer **g_heap;
static int32_t g_count, g_cap;
static int g_thread_started;

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t mono_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t real_now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static void timers_init(void)
{
	pthread_condattr_t attr;

	lock_init(&g_lock, RANK_TIMER);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g_cond, &attr);
	pthread_cond_init(&g_idle, &attr);
	pthread_condattr_destroy(&attr);
}

static void heap_put(int32_t i, struct ktimer *t)
{
	g_heap[i] = t;
	t->heap_index = i;
}

static void heap_fix(int32_t i)
{
	struct ktimer *t = g_heap[i];

	while (i > 0 && g_heap[(i - 1) / 2]->deadline > t->deadline) {
		heap_put(i, g_heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		int32_t c = 2 * i + 1;

		if (c >= g_count)
			break;
		if (c + 1 < g_count && g_heap[c + 1]->deadline < g_heap[c]->deadline)
			c++;
		if (g_heap[c]->deadline >= t->deadline)
			break;
		heap_put(i, g_heap[c]);
		i = c;
	}
	heap_put(i, t);
}

static void heap_remove(struct ktimer *t)
{
	int32_t i = t->heap_index;

	t->heap_index = -1;
	g_count--;
	if (i != g_count) {
		heap_put(i, g_heap[g_count]);
		heap_fix(i);
	}
}

/* The condition variables work on the raw mutex; the debug owner is handed over around it. */
static void wait_on(pthread_cond_t *c, const struct timespec *until)
{
#ifdef CAISSON_LOCK_DEBUG
	uintptr_t owner = g_lock.owner;
#endif
	if (until)
		pthread_cond_timedwait(c, &g_lock.m, until);
	else
		pthread_cond_wait(c, &g_lock.m);
#ifdef CAISSON_LOCK_DEBUG
	g_lock.owner = owner;
#endif
}

static void *timer_thread(void *arg)
{
	(void)arg;
	lock_acquire(&g_lock);
	for (;;) {
		if (!g_count) {
			wait_on(&g_cond, NULL);
			continue;
		}
		struct ktimer *t = g_heap[0];

		if (t->deadline > mono_now_ns()) {
			struct timespec ts = { .tv_sec = (time_t)(t->deadline / 1000000000u),
					       .tv_nsec = (long)(t->deadline % 1000000000u) };

			wait_on(&g_cond, &ts);
			continue;
		}
		heap_remove(t);
		t->running = 1;
		lock_release(&g_lock);
		t->fn(t);
		lock_acquire(&g_lock);
		t->running = 0;
		pthread_cond_broadcast(&g_idle);
	}
	return NULL;
}

void ktimer_init(struct ktimer *t, ktimer_fn fn, void *priv)
{
	pthread_once(&g_once, timers_init);
	t->fn = fn;
	t->priv = priv;
	t->deadline = 0;
	t->heap_index = -1;
	t->running = 0;
}

void ktimer_arm(struct ktimer *t, uint64_t deadline_ns)
{
	lock_acquire(&g_lock);
	if (t->heap_index >= 0)
		heap_remove(t);
	if (g_count == g_cap) {
		int32_t cap = g_cap ? g_cap * 2 : 64;
		struct ktimer **heap = realloc(g_heap, (size_t)cap * sizeof(*heap));

		/* Each armed timer belongs to an object that was itself allocated and charged. */
		if (!heap)
			panic("no memory for %d timers", cap);
		g_heap = heap;
		g_cap = cap;
	}
	t->deadline = deadline_ns;
	g_count++;
	heap_put(g_count - 1, t);
	heap_fix(g_count - 1);
	if (!g_thread_started) {
		g_thread_started = 1;
		if (thread_start("timers", timer_thread, NULL) < 0)
			panic("no timer thread");
	}
	if (t->heap_index == 0)
		pthread_cond_signal(&g_cond);
	lock_release(&g_lock);
}

int ktimer_cancel(struct ktimer *t)
{
	lock_acquire(&g_lock);
	int armed = t->heap_index >= 0;

	if (armed)
		heap_remove(t);
	lock_release(&g_lock);
	return armed;
}

int ktimer_cancel_sync(struct ktimer *t)
{
	int armed = 0;

	lock_acquire(&g_lock);
	for (;;) {
		if (t->heap_index >= 0) {
			heap_remove(t);
			armed = 1;
		}
		if (!t->running)
			break;
		wait_on(&g_idle, NULL);
	}
	lock_release(&g_lock);
	return armed;
}
