/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll. Nothing here blocks: the sentry waits on file_poll() of the epoll file and calls
 * epoll_collect() again. An idle instance costs nothing: items are queued by the wake functions
 * of the files they watch. Any thread.
 *
 * An item holds no reference on its file; the last file_put of the file removes it
 * (epoll_file_gone), so closing a file ends its watches as on Linux. Waiters on an instance must
 * not be exclusive: a collector that leaves events behind wakes nobody else.
 */
#ifndef CAISSON_VFS_EPOLL_H
#define CAISSON_VFS_EPOLL_H

#include <sys/epoll.h>

#include "vfs/vfs.h"

/* epoll_create1(2) without the fd. A reference or ERR_PTR(-ENOMEM, -ENFILE). */
struct file *epoll_new(struct vfs *vfs, const struct cred *cred);
int file_is_epoll(const struct file *f);
/*
 * epoll_ctl(2) with every check after the two fd lookups: -EINVAL, -EPERM (target has no poll),
 * -EEXIST, -ENOENT, -ELOOP, -ENOSPC, -ENOMEM. ev is unused for EPOLL_CTL_DEL and may be NULL. cred
 * decides EPOLLWAKEUP, which is dropped silently without CAP_BLOCK_SUSPEND.
 */
int epoll_ctl_file(struct file *ep, int op, struct file *target, int fd, struct epoll_event *ev,
		   const struct cred *cred);
/*
 * Takes up to max ready events, rotating fairly. The count, or 0. The caller writes them to the
 * guest; when that fails the events are lost for EPOLLET and EPOLLONESHOT as on Linux.
 */
int epoll_collect(struct file *ep, struct epoll_event *out, int max);
/* How many files it watches: more events than these do not come at once. */
uint32_t epoll_item_count(const struct file *ep);

/* fs.epoll.max_user_watches. */
extern uint32_t g_epoll_max_watches;

#endif
