/* SPDX-License-Identifier: Apache-2.0 */
/* Directory notification by signals: fcntl(F_NOTIFY). inotify is vfs/inotify.c. */
#ifndef CAISSON_DNOTIFY_H
#define CAISSON_DNOTIFY_H

#include "sentry/fd/fdtable.h"
#include "sentry/task/task_priv.h"

/* DN_* of f, which t has open as fd; 0 or DN_MULTISHOT alone ends it. 0, -ENOTDIR, -EINVAL,
 * -ENOMEM. */
int dnotify_set(struct task *t, struct file *f, int fd, uint32_t mask);
/* A descriptor of f in ft was closed: that ends what was asked for through ft. */
void dnotify_file_closed(struct fdtable *ft, struct file *f);

#endif
