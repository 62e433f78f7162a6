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

/* A thread names itself: to name another one the C library opens a file in /proc. */
static void *thread_main(void *arg)
{
	struct start *s = arg, mine = *s;

	free(s);
	prctl(PR_SET_NAME, mine.name);
	return mine.fn(mine.arg);
}

int thread_start(const char *name, void *(*fn)(void *), void *arg)
{
	struct start *s = malloc(sizeof(*s));
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t th;

	if (!s)
		return -ENOMEM;
	s->fn = fn;
	s->arg = arg;
	snprintf(s->name, sizeof(s->name), "%s", name);
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
