/* SPDX-License-Identifier: Apache-2.0 */
/* How exit.c leaves the run loop. */
#ifndef CAISSON_TASK_RUN_H
#define CAISSON_TASK_RUN_H

#include <setjmp.h>

/* Jumps back to task_main of the calling thread, which ends. No lock may be held. */
__attribute__((noreturn)) void task_thread_end(void);

#endif
