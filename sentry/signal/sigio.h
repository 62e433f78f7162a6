/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGIO: who owns an open file (F_SETOWN, F_SETSIG) and the signal its owner gets when something
 * happens to it. What happens is for others to say: dnotify.c.
 */
#ifndef CAISSON_SIGIO_H
#define CAISSON_SIGIO_H

#include "sentry/task/task_priv.h"

struct file;

/* type: F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP; nr in t's pid namespace, 0: nobody. 0, -ESRCH,
 * -ENOMEM. */
int file_owner_set(struct task *t, struct file *f, int type, int nr);
/* t's process becomes the owner if there is none. 0 or -ENOMEM. */
int file_owner_set_default(struct task *t, struct file *f);
/* Its number in t's pid namespace, or 0 when there is none or it is gone; *type may be NULL. */
int file_owner_get(struct task *t, struct file *f, int *type);
/* The ids of who set the owner: real, effective. */
void file_owner_uids(struct file *f, uint32_t ids[2]);
/* F_SETSIG: 0 is plain SIGIO. 0 or -ENOMEM. */
int file_owner_set_signal(struct file *f, int signo);
int file_owner_signal(struct file *f);

/*
 * Tells f's owner; reason is POLL_IN and its like, fd what siginfo shows. Callable under any lock
 * of rank below RANK_LEAF: the signal is sent when the calling task's syscall ends, or from a
 * thread of its own when no task is calling.
 */
void sigio_raise(struct file *f, int fd, int reason);
/* Sends what was raised: for the run loop, on TASK_WORK_SIGIO. */
void sigio_flush(struct task *t);

#endif
