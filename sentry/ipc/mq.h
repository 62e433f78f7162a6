/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX message queues: what sys_mq.c needs beside vfs/mqueue. */
#ifndef CAISSON_IPC_MQ_H
#define CAISSON_IPC_MQ_H

#include "sentry/task/task.h"

/* mq_notify(2) for the caller's process; kind is SIGEV_SIGNAL or SIGEV_NONE. 0, -EBUSY, -ENOMEM. */
int mq_register_signal(struct task *t, struct file *f, int kind, int signo, uint64_t value);

#endif
