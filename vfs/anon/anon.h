/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eventfd, timerfd and inotify files. Each _new returns a reference or ERR_PTR; flags are the
 * system call's, of which O_CLOEXEC is the caller's business. Nothing blocks. Any thread.
 */
#ifndef CAISSON_VFS_ANON_H
#define CAISSON_VFS_ANON_H

#include <time.h>

#include "vfs/vfs.h"

/* Seeking on these files succeeds and does nothing. */
static inline int64_t anon_llseek(struct file *f, int64_t off, int whence)
{
	(void)f;
	(void)off;
	(void)whence;
	return 0;
}

/* eventfd2(2). -EINVAL for unknown flags. */
struct file *eventfd_new(struct vfs *vfs, const struct cred *cred, uint32_t count, int flags);
int file_is_eventfd(const struct file *f);
/* Adds n as a kernel-side signal (AIO): saturates at the largest count instead of failing. */
void eventfd_signal(struct file *f, uint64_t n);

/* timerfd_create(2): -EINVAL, -EPERM (*_ALARM without CAP_WAKE_ALARM). */
struct file *timerfd_new(struct vfs *vfs, const struct cred *cred, int clockid, int flags);
int file_is_timerfd(const struct file *f);
/* timerfd_settime(2) and gettime: -EINVAL also when f is no timerfd. old may be NULL. */
int timerfd_set(struct file *f, const struct cred *cred, int flags, const struct itimerspec *val,
		    struct itimerspec *old);
int timerfd_get(struct file *f, struct itimerspec *cur);

/* inotify_init1(2): -EINVAL, -EMFILE. */
struct file *inotify_new(struct vfs *vfs, const struct cred *cred, int flags);
int file_is_inotify(const struct file *f);
/*
 * inotify_add_watch(2) on what the caller has looked up (following and directory rules by
 * inotify_lookup_flags, read permission checked there too). The watch descriptor, or -EINVAL,
 * -EEXIST (IN_MASK_CREATE), -ENOSPC, -ENOMEM.
 */
int inotify_add_watch_path(struct file *f, struct path p, uint32_t mask);
/* -EINVAL when the mask is not acceptable, else LOOKUP_* for the path. */
int inotify_lookup_flags(uint32_t mask);
/* inotify_rm_watch(2): -EINVAL. */
int inotify_rm_watch_wd(struct file *f, int wd);

/* fs.inotify.* of /proc/sys. */
struct inotify_limits {
	uint32_t max_user_instances, max_user_watches, max_queued_events;
};
extern struct inotify_limits g_inotify_limits;

#endif
