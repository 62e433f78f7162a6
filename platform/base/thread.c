/* SPDX-License-Identifier: Apache-2.0 */
/* Thread creation of thread.h. */
#include "platform/base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The deepest sentry path (a path walk through an overlay into the gofer client) uses about a
 * quarter of this; pages that are not touched cost nothing. */
#define THREAD_STACK_SIZE (256 * 1024)

struct start {
	void *(*fn)(void *);
	void *arg;
	char name[16];
};

/*
 * A thread whose work is done waits for more, if not too many do: making one costs a dozen host
 * calls, and guests make threads and processes by the thousand.
 */
#define IDLE_MAX 8

struct worker {
	uint32_t ready; /* [a] futex: start holds work */
	struct start start;
	struct worker *next; /* [g_lock] */
};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *g_idle; /* [g_lock] each on its own thread's stack */
static uint32_t g_idle_count; /* [g_lock] */

/* 0: there are enough. #hostcalls: futex */
static int await_work(struct worker *w)
{
	int kept;

	__atomic_store_n(&w->ready, 0, __ATOMIC_RELAXED);
	pthread_mutex_lock(&g_lock);
	kept = g_idle_count < IDLE_MAX;
	if (kept) {
		w->next = g_idle;
		g_idle = w;
		g_idle_count++;
	}
	pthread_mutex_unlock(&g_lock);
	while (kept && !__atomic_load_n(&w->ready, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &w->ready, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	return kept;
}

/* #hostcalls: futex */
static int give_to_idle(const struct start *s)
{
	struct worker *w;

	pthread_mutex_lock(&g_lock);
	w = g_idle;
	if (w) {
		g_idle = w->next;
		g_idle_count--;
	}
	pthread_mutex_unlock(&g_lock);
	if (!w)
		return 0;
	w->start = *s;
	__atomic_store_n(&w->ready, 1, __ATOMIC_RELEASE);
	/* It may be at work already and its frame gone: then nobody waits at this address. */
	syscall(SYS_futex, &w->ready, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return 1;
}

/* A thread names itself: to name another one the C library opens a file in /proc. */
static void *thread_main(void *arg)
{
	struct worker w = { .start = *(struct start *)arg };

	free(arg);
	do {
		prctl(PR_SET_NAME, w.start.name);
		w.start.fn(w.start.arg);
	} while (await_work(&w));
	return NULL;
}

int thread_start(const char *name, void *(*fn)(void *), void *arg)
{
	struct start work = { .fn = fn, .arg = arg }, *s;
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t th;

	snprintf(work.name, sizeof(work.name), "%s", name);
	if (give_to_idle(&work))
		return 0;
	s = malloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = work;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK_SIZE);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	/* What a fault of our own raises is better not blocked. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int err = pthread_create(&th, &attr, thread_main, s);

	if (err)
		free(s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

/* A wait that nobody ends, on the call that the sentry needs in any case. #hostcalls: futex */
void thread_nap(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	uint32_t word = 0;

	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);
}
