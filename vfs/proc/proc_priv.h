/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of proc share. */
#ifndef CAISSON_PROC_PRIV_H
#define CAISSON_PROC_PRIV_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/proc/proc.h"
#include "vfs/pseudo/pseudo.h"

#define PROC_MAGIC 0x9fa0
#define NS_PER_TICK 10000000ull /* USER_HZ is 100 */
#define PID_NUMBER_LIMIT (1ull << 31)

/* pseudo_inst.key slots */
#define KEY_PID 0
#define KEY_TID 1 /* 0: the process as a whole */
#define KEY_SUB 2 /* fd, map start */

/* Of one mount; pseudo_sb_data(). */
struct proc_mount {
	const struct proc_source *ps;
	void *ns;	  /* reference; NULL: the initial one */
	uint32_t hidepid; /* 0, 1, 2 or 4 */
	uint32_t gid;	  /* who is exempt */
	uint32_t subset_pid;
};

static inline const struct proc_source *proc_ps(const struct pseudo_req *rq)
{
	return rq->fs;
}

static inline struct proc_mount *proc_mnt(const struct pseudo_req *rq)
{
	return pseudo_sb_data(rq->sb);
}

static inline int proc_is_thread(const struct pseudo_req *rq)
{
	return rq->inst->key[KEY_TID] != 0;
}

extern const struct pseudo_dyn g_proc_pid_dyn;
extern const struct pseudo_desc g_proc_root, g_proc_sys_dirs[], g_proc_net_files[];

/* super.c */
int proc_self_read(const struct pseudo_req *rq, struct strbuf *out);
const struct proc_net_source *proc_net(void);
/* Rows that one optional callback feeds: present when the source has it. */
int proc_has_callback(const struct pseudo_req *rq);
#define PROC_NEEDS(field) \
	.present = proc_has_callback, .ptr = (const void *)offsetof(struct proc_source, field)
/* task.c: may the caller look into rq's task? */
int proc_may_access(const struct pseudo_req *rq, int mode);
int proc_hidden(const struct pseudo_req *rq, void *task);

/* system.c rows are tables; cpuinfo.c, sysctl.c: */
int proc_show_cpuinfo(const struct pseudo_req *rq, struct strbuf *out);
/* "a-b,c" and "ff,ffffffff" of bits below n */
void proc_put_cpu_list(struct strbuf *out, const uint8_t *bits, uint32_t n);
void proc_put_cpu_mask(struct strbuf *out, const uint8_t *bits, uint32_t n);

/* task_stat.c */
int proc_show_stat(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_statm(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_status(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_sched(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_schedstat(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_comm(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_limits(const struct pseudo_req *rq, struct strbuf *out);
int proc_show_io(const struct pseudo_req *rq, struct strbuf *out);

/* task_ctl.c */
int proc_show_number(const struct pseudo_req *rq, struct strbuf *out);
ssize_t proc_write_number(const struct pseudo_req *rq, char *buf, size_t len);
int proc_number_present(const struct pseudo_req *rq);
ssize_t proc_write_comm(const struct pseudo_req *rq, char *buf, size_t len);
int proc_show_idmap(const struct pseudo_req *rq, struct strbuf *out);
ssize_t proc_write_idmap(const struct pseudo_req *rq, char *buf, size_t len);
int proc_idmap_present(const struct pseudo_req *rq);
int proc_show_setgroups(const struct pseudo_req *rq, struct strbuf *out);
ssize_t proc_write_setgroups(const struct pseudo_req *rq, char *buf, size_t len);
int proc_mem_open(const struct pseudo_req *rq, struct file *f, void **data);
void proc_mem_release(const struct pseudo_req *rq);
extern const struct file_ops g_proc_mem_ops;

/* task_links.c */
int proc_link_read(const struct pseudo_req *rq, struct strbuf *out);
int proc_link_follow(const struct pseudo_req *rq, struct path *out);
int proc_mounts_open(const struct pseudo_req *rq, struct file *f, void **data);
int proc_mounts_show(const struct pseudo_req *rq, struct strbuf *out);
void proc_mounts_release(const struct pseudo_req *rq);
uint32_t proc_mounts_poll(const struct pseudo_req *rq, struct poll_table *pt);
extern const struct pseudo_dyn g_proc_fd_dyn, g_proc_fdinfo_dyn, g_proc_map_files_dyn;
extern const struct pseudo_desc g_proc_ns_links[];
int proc_fd_dir_permission(const struct pseudo_req *rq, struct inode *ino, uint32_t mask);
int proc_fd_dir_attr(const struct pseudo_req *rq, struct inode *ino);

#endif
