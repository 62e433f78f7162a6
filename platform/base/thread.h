/* SPDX-License-Identifier: Apache-2.0 */
/* Detached host threads with small stacks (all signals blocked) for the sentry's own work, and naps. */
#ifndef CAISSON_THREAD_H
#define CAISSON_THREAD_H

#include <stdint.h>

/* Starts a detached thread, or one that has ended its work before. 0 or -EAGAIN/-ENOMEM. `name` is cut to 15 bytes. */
int thread_start(const char *name, void *(*fn)(void *), void *arg);
/* Lets others run for about `ns`, where nothing could wake this thread; a signal ends it early. */
void thread_nap(uint64_t ns);

#endif
