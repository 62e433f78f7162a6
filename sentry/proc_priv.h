/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the sentry's answers to /proc: tasks, their files and memory, the system. */
#ifndef CAISSON_PROC_SOURCE_H
#define CAISSON_PROC_SOURCE_H

#include "sentry/task/task_priv.h"
#include "vfs/proc/proc.h"

/* proc_task.c */
int proc_src_owner(const struct proc_source *ps, void *task, int always, uint32_t *uid,
		   uint32_t *gid);
int proc_src_info(const struct proc_source *ps, void *ns, void *task, int whole,
		  struct proc_task_info *out);
int proc_src_may_access(const struct proc_source *ps, void *task, int mode);
int proc_src_text(const struct proc_source *ps, void *task, enum proc_text what, struct strbuf *out);
int proc_src_rlimits(const struct proc_source *ps, void *task, struct proc_rlimit out[PROC_RLIMITS]);
int proc_src_number_get(const struct proc_source *ps, void *task, enum proc_number what, int64_t *out);
int proc_src_number_set(const struct proc_source *ps, void *task, enum proc_number what, int64_t val);
int proc_src_comm_set(const struct proc_source *ps, void *task, const char comm[PROC_COMM_SIZE]);
int proc_src_idmap_get(const struct proc_source *ps, void *task, enum proc_idmap which,
		       struct proc_idmap_extent *out);

/* proc_files.c */
ssize_t proc_src_mem_rw(const struct proc_source *ps, void *mem, struct uio *u, uint64_t addr,
			int write);
void *proc_src_mem_get(const struct proc_source *ps, void *task);
void proc_src_mem_put(const struct proc_source *ps, void *mem);
int proc_src_fd_next(const struct proc_source *ps, void *task, int from);
struct file *proc_src_fd_get(const struct proc_source *ps, void *task, int fd, int *cloexec);
int proc_src_link_path(const struct proc_source *ps, void *task, enum proc_link which,
		       struct path *out);
int proc_src_ns_inum(const struct proc_source *ps, void *task, enum proc_ns which, uint64_t *inum);
struct mnt_ns *proc_src_mnt_ns(const struct proc_source *ps, void *task, struct path *root);
int proc_src_map_path(const struct proc_source *ps, void *task, uint64_t start, uint64_t end,
		      struct path *out);
int proc_src_map_next(const struct proc_source *ps, void *task, uint64_t from, uint64_t *start,
		      uint64_t *end);
/* A reference on the task's fs_struct, or NULL. */
struct fs_struct *proc_fs_of(struct task *t);

/* proc_system.c */
void proc_src_meminfo(const struct proc_source *ps, struct proc_meminfo *out);
void proc_src_system(const struct proc_source *ps, struct proc_system *out);
void proc_src_cpu_times(const struct proc_source *ps, uint32_t cpu, struct proc_cpu_times *out);
void proc_src_uts_get(const struct proc_source *ps, enum proc_uts which, char out[PROC_UTS_SIZE]);
int proc_src_uts_set(const struct proc_source *ps, enum proc_uts which, const char *val);
int proc_src_sysvipc(const struct proc_source *ps, enum proc_sysvipc which, struct strbuf *out);

#endif
