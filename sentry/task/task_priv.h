/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of sentry/task share. [tasks] means kernel->tasks_lock is held. */
#ifndef CAISSON_TASK_PRIV_H
#define CAISSON_TASK_PRIV_H

#include <sys/wait.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/task/task.h"

/* ---- pid.c ---- */

struct pid_ns *pid_ns_new(struct pid_ns *parent);
struct pid_ns *pid_ns_get(struct pid_ns *ns);
void pid_ns_put(struct pid_ns *ns);
/*
 * A fresh id in ns and all its ancestors. set[i] asks for a number, innermost namespace first
 * (clone3's set_tid): -EEXIST when taken. [tasks] Returns a reference or ERR_PTR; the tables hold
 * another until pid_unhash.
 */
struct pid *pid_alloc(struct pid_ns *ns, const int *set, size_t set_count);
/* Frees the numbers once nothing is named by p any more; harmless when something still is. [tasks] */
void pid_release_unused(struct pid *p);
/* Lowest number >= nr in use in ns, as a borrowed pid; NULL: none. [tasks] */
struct pid *pid_next(struct pid_ns *ns, int nr);

/* ---- task.c ---- */

/* Zeroed but for what every task needs; one reference. NULL without memory. */
struct task *task_new(struct kernel *k, struct thread_group *tg);
struct thread_group *tg_new(struct kernel *k);
/* Puts t into tg's list and the counts. [tasks] */
void task_link(struct task *t);
/* Drops what a task owns besides guest state: called when it dies or never lived. */
void task_drop_resources(struct task *t);
/* Swaps the context under ctx_lock; returns the old one. */
struct context *task_set_ctx(struct task *t, struct context *ctx);
uint64_t ns_id_next(void); /* inode numbers of namespaces */

/* ---- exit.c ---- */

/* Takes a zombie out of the tree; the caller still holds its own references. [tasks] */
void tg_release_locked(struct thread_group *tg);
/* Lets the vfork parent go on, if any. */
void task_vfork_done(struct task *t);
/* Gives up address space and context, with all that hangs on guest memory (exec and exit). */
void task_leave_mm(struct task *t);
/* Removes a thread that is not its group's leader any more. [tasks] */
void task_unlink_locked(struct task *t);

/* ---- session.c ---- */

void tg_join_pgrp(struct thread_group *tg, struct pid *pgrp);	  /* [tasks] consumes pgrp */
void tg_join_session(struct thread_group *tg, struct pid *session); /* [tasks] consumes */
void tg_leave_pgrp_session(struct thread_group *tg);		  /* [tasks] */
/* A member of pgrp exits or moves away: HUP and CONT if that orphans a stopped group. [tasks] */
void pgrp_check_orphan_locked(struct thread_group *leaving, struct pid *pgrp);

/* ---- fs_struct.c ---- */

struct fs_struct *fs_new(struct path root, struct path cwd, struct mnt_ns *ns, uint32_t umask);
struct fs_struct *fs_get(struct fs_struct *fs);
struct fs_struct *fs_dup(struct fs_struct *fs);
void fs_put(struct fs_struct *fs);

/* ---- uts.c ---- */

struct uts_ns *uts_new(const char *nodename, const char *domainname);
struct uts_ns *uts_get(struct uts_ns *u);
struct uts_ns *uts_dup(struct uts_ns *u);
void uts_put(struct uts_ns *u);

/* ---- exec's credentials (exec_cred.c) ---- */

struct exec_creds {
	struct cred *cred; /* new, or NULL: unchanged */
	int secure;	   /* AT_SECURE */
	int ids_changed;   /* effective ids or capabilities grew: not dumpable, pdeath cleared */
};
/* What executing file (set-id bits, file capabilities) makes of t's credentials. 0 or errno. */
int exec_creds_prepare(struct task *t, struct file *file, struct exec_creds *out);

/* ---- rusage.c ---- */

/* Adds the end state of t to its group's dead_threads. [tasks] */
void rusage_collect_locked(struct task *t, uint64_t utime_ns, uint64_t stime_ns);
/* t leaves its address space: settles what it has used there. No lock held. */
void task_cpu_settle(struct task *t);
void rusage_add(struct rusage_sum *to, const struct rusage_sum *from);

/* ---- rlimit.c ---- */

void rlimits_default(struct rlimit *r);

#endif
