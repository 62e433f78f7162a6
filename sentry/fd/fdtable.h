/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptor tables: fd → open file description, shared by CLONE_FILES. One lock a table
 * (RANK_FDTABLE), never held over file operations.
 */
#ifndef CAISSON_FDTABLE_H
#define CAISSON_FDTABLE_H

#include <stdint.h>

#include "vfs/vfs.h"

struct task;
struct fdtable;

struct fdtable *fdtable_new(void);
struct fdtable *fdtable_get(struct fdtable *ft);
void fdtable_put(struct fdtable *ft);		 /* the last one closes everything */
struct fdtable *fdtable_dup(struct fdtable *ft); /* fork: ERR_PTR(-ENOMEM) */
/* execve: makes the table private, closes close-on-exec fds. */
int fdtable_exec(struct task *t);

/* A reference on the file behind fd, or NULL (EBADF). O_PATH files only with fd_get_path. */
struct file *fd_get(struct task *t, int fd);
struct file *fd_get_path(struct task *t, int fd);
/*
 * Installs f at the lowest free fd >= min; consumes f on success only. FD_CLOEXEC if O_CLOEXEC is
 * in flags. The fd, -EMFILE (RLIMIT_NOFILE), -ENOMEM.
 */
int fd_install(struct task *t, struct file *f, int min, uint32_t flags);
/* In two steps, for calls that must copy results out before the fd becomes visible. */
int fd_reserve(struct task *t, int min, uint32_t flags);
void fd_publish(struct task *t, int fd, struct file *f); /* consumes f */
void fd_unreserve(struct task *t, int fd);
int fd_close(struct task *t, int fd); /* -EBADF, or flush's error (the fd is closed anyway) */
int fd_dup2(struct task *t, int oldfd, int newfd, uint32_t flags, int dup3);
int fd_close_range(struct task *t, uint32_t first, uint32_t last, uint32_t flags);
int fd_get_cloexec(struct task *t, int fd); /* 0, 1, -EBADF */
int fd_set_cloexec(struct task *t, int fd, int on);
/* Iteration for /proc: the next used fd >= from of a table, -1 at the end. */
int fdtable_next(struct fdtable *ft, int from);
struct file *fdtable_file(struct fdtable *ft, int fd, int *cloexec); /* reference or NULL */
/* The identity under which the table's POSIX locks are held (file_flush, flock_req.owner). */
uint64_t fdtable_owner(const struct fdtable *ft);
/* FDSize of /proc/PID/status. */
int fdtable_size(struct fdtable *ft);

#endif
