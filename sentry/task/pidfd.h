/* SPDX-License-Identifier: Apache-2.0 */
/* pidfds: open files that stand for a process. */
#ifndef CAISSON_PIDFD_H
#define CAISSON_PIDFD_H

#include "sentry/task/task.h"

/* A file for p (its own reference is taken); flags: O_NONBLOCK, PIDFD_THREAD. ERR_PTR on error. */
struct file *pidfd_new(struct task *t, struct pid *p, uint32_t flags);
/* The pid behind an open file, borrowed; NULL when it is no pidfd. */
struct pid *pidfd_file_pid(struct file *f);
/* The pid behind fd, a reference; ERR_PTR(-EBADF). flags: those of the file, may be NULL. */
struct pid *pidfd_get_pid(struct task *t, int fd, uint32_t *flags);

#endif
