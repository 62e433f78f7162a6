/* SPDX-License-Identifier: Apache-2.0 */
/* Thread creation of thread.h. */
#include "platform/base/thread.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* The deepest sentry path (a path walk through an overlay into the gofer client) uses about a
 * quarter of this; pages that are not touched cost nothing. */
#define THREAD_STACK_SIZE (256 * 1024)

int thread_start(const char *name, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t th;
	char comm[16];

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK_SIZE);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int err = pthread_create(&th, &attr, fn, arg);

	if (!err) {
		snprintf(comm, sizeof(comm), "%s", name);
		pthread_setname_np(th, comm);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}
