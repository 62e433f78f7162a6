/* SPDX-License-Identifier: Apache-2.0 */
/* signalfd(2): a file from which the reading task's own signals are taken. */
#ifndef CAISSON_SIGNALFD_H
#define CAISSON_SIGNALFD_H

#include "sentry/signal/signal.h"

/* A new signalfd for the signals of mask; flags: O_NONBLOCK. Returns a reference or ERR_PTR. */
struct file *signalfd_new(struct task *t, linux_sigset_t mask, uint32_t flags);
/* Changes the mask of an open one; -EINVAL when f is something else. */
int signalfd_set_mask(struct file *f, linux_sigset_t mask);

#endif
