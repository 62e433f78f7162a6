/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of tasks and thread groups as objects: allocation, references, finding them by number, what
 * they show of themselves. How they come to life and die is clone.c, exit.c and wait.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sentry/ipc/ipc.h"
#include "sentry/container.h"
#include "sentry/task/task_priv.h"

__thread struct task *current;

struct task *task_new(struct kernel *k, struct thread_group *tg)
{
	static uint64_t last_id;
	struct task *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	ref_init(&t->ref);
	t->k = k;
	t->tg = tg_get(tg);
	list_init(&t->tg_node);
	lock_init(&t->ctx_lock, RANK_NONE);
	t->syscall_nr = (uint64_t)-1;
	t->state = TASK_RUNNING;
	sigpending_init(&t->pending);
	t->altstack.ss_flags = SS_DISABLE;
	waitq_init(&t->signalfd_wait);
	t->timer_slack_ns = 50000;
	t->start_mono_ns = mono_now_ns();
	t->task_id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	return t;
}

struct thread_group *tg_new(struct kernel *k)
{
	struct thread_group *tg = calloc(1, sizeof(*tg));

	if (!tg)
		return NULL;
	ref_init(&tg->ref);
	tg->k = k;
	list_init(&tg->node);
	list_init(&tg->tasks);
	list_init(&tg->children);
	list_init(&tg->sibling);
	list_init(&tg->pgrp_node);
	list_init(&tg->session_node);
	waitq_init(&tg->child_wait);
	waitq_init(&tg->exec_wait);
	lock_init(&tg->rlimit_lock, RANK_LEAF);
	sigpending_init(&tg->pending);
	tg->exit_signal = SIGCHLD;
	tg->start_mono_ns = mono_now_ns();
	return tg;
}

struct task *task_get(struct task *t)
{
	ref_get(&t->ref);
	return t;
}

void task_drop_resources(struct task *t)
{
	if (t->files)
		fdtable_put(t->files);
	if (t->fs)
		fs_put(t->fs);
	if (t->uts)
		uts_put(t->uts);
	if (t->ipc)
		ipc_ns_put(t->ipc);
	t->files = NULL;
	t->fs = NULL;
	t->uts = NULL;
	t->ipc = NULL;
}

void task_put(struct task *t)
{
	if (!t || !ref_put(&t->ref))
		return;
	task_drop_resources(t);
	sighand_put(t->sighand);
	cred_put(t->cred);
	pid_put(t->pid);
	pid_ns_put(t->pid_ns);
	waitq_destroy(&t->signalfd_wait);
	lock_destroy(&t->ctx_lock);
	tg_put(t->tg);
	free(t);
}

struct thread_group *tg_get(struct thread_group *tg)
{
	ref_get(&tg->ref);
	return tg;
}

void tg_put(struct thread_group *tg)
{
	if (!tg || !ref_put(&tg->ref))
		return;
	pid_put(tg->pid);
	pid_put(tg->pgrp);
	pid_put(tg->session);
	pid_ns_put(tg->pid_ns_for_children);
	container_put(tg->container);
	waitq_destroy(&tg->child_wait);
	waitq_destroy(&tg->exec_wait);
	lock_destroy(&tg->rlimit_lock);
	free(tg);
}

void task_link(struct task *t)
{
	lock_assert_held(&t->k->tasks_lock);
	list_add_tail(&t->tg_node, &t->tg->tasks);
	t->tg->task_count++;
	t->tg->live++;
	t->k->task_count++;
	if (t->tg->container)
		t->tg->container->task_count++;
	t->pid->task = t;
}

struct context *task_set_ctx(struct task *t, struct context *ctx)
{
	struct context *old;

	lock_acquire(&t->ctx_lock);
	old = t->ctx;
	t->ctx = ctx;
	lock_release(&t->ctx_lock);
	return old;
}

void task_set_cred(struct task *t, struct cred *c)
{
	const struct cred *old;

	lock_acquire(&t->k->tasks_lock);
	old = t->cred;
	t->cred = c;
	if (t->answers)
		t->answers = TASK_ANSWERS_STALE;
	lock_release(&t->k->tasks_lock);
	cred_put(old);
}

/* ---- numbers ---- */

/* The namespace whose numbers t sees. */
static struct pid_ns *view_of(struct task *t)
{
	return t->pid_ns;
}

int task_tid(struct task *t)
{
	return t->pid->numbers[t->pid->level].nr;
}

int task_tgid(struct task *t)
{
	return t->tg->pid->numbers[t->tg->pid->level].nr;
}

int task_tid_for(struct task *of, struct task *viewer)
{
	return pid_nr_in(of->pid, view_of(viewer));
}

int tg_pid_for(struct thread_group *of, struct task *viewer)
{
	return pid_nr_in(of->pid, view_of(viewer));
}

struct task *task_find(struct task *caller, int tid)
{
	struct task *t = NULL;
	struct pid *p;

	lock_acquire(&caller->k->tasks_lock);
	p = pid_find(view_of(caller), tid);
	if (p && p->task)
		t = task_get(p->task);
	lock_release(&caller->k->tasks_lock);
	return t;
}

struct thread_group *tg_find(struct task *caller, int pid)
{
	struct thread_group *tg = NULL;
	struct pid *p;

	lock_acquire(&caller->k->tasks_lock);
	p = pid_find(view_of(caller), pid);
	if (p && p->tg)
		tg = tg_get(p->tg);
	lock_release(&caller->k->tasks_lock);
	return tg;
}

/* ---- looking into each other ---- */

int task_may_access(struct task *caller, struct task *target, int attach)
{
	const struct cred *c = task_cred(caller), *tc;
	int err = 0, dumpable = 1;

	(void)attach; /* READ and ATTACH differ only for security modules */
	if (caller->tg == target->tg)
		return 0;
	lock_acquire(&caller->k->tasks_lock);
	tc = target->cred ? cred_get(target->cred) : NULL;
	if (target->mm)
		dumpable = __atomic_load_n(&target->mm->dumpable, __ATOMIC_RELAXED);
	lock_release(&caller->k->tasks_lock);
	if (!tc)
		return -EPERM;
	/* __ptrace_may_access: all ids equal, or CAP_SYS_PTRACE. */
	if (!(c->fsuid == tc->euid && c->fsuid == tc->suid && c->fsuid == tc->uid &&
	      c->fsgid == tc->egid && c->fsgid == tc->sgid && c->fsgid == tc->gid) &&
	    !cred_has_cap(c, CAP_SYS_PTRACE))
		err = -EPERM;
	if (!err && dumpable != 1 && !cred_has_cap(c, CAP_SYS_PTRACE))
		err = -EPERM;
	/* cap_ptrace_access_check: its capabilities must be a subset of ours. */
	if (!err && (tc->cap_permitted & ~c->cap_effective) && !cred_has_cap(c, CAP_SYS_PTRACE))
		err = -EPERM;
	cred_put(tc);
	return err;
}

/* ---- path context ---- */

void task_vfs_ctx(struct task *t, struct vfs_ctx *ctx)
{
	struct fs_struct *fs = t->fs;

	ctx->vfs = t->k->vfs;
	ctx->cred = task_cred(t);
	lock_acquire(&fs->lock);
	ctx->root = path_get(fs->root);
	ctx->cwd = path_get(fs->cwd);
	ctx->ns = mnt_ns_get(fs->ns);
	ctx->umask = fs->umask;
	lock_release(&fs->lock);
}

void task_vfs_ctx_put(struct vfs_ctx *ctx)
{
	path_put(ctx->root);
	path_put(ctx->cwd);
	mnt_ns_put(ctx->ns);
}
