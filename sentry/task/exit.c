/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of threads and processes (Linux: do_exit, exit_notify, release_task).
 *
 * Theory of operation. A thread leaves in three steps. First it counts itself out of tg->live; who
 * brings that to zero does what ends the process as a whole (timers, semaphores, terminal). Then
 * it gives up guest state and shared resources, without locks. Last, under tasks_lock, it becomes
 * TASK_DEAD: an ordinary thread leaves the tree at once; a leader stays, dead, as long as others
 * live; whoever brings task_count to zero makes the process a zombie, hands its children on, and
 * tells the parent. The parent's wait (or nobody's interest in it) then releases it.
 */
#include "platform/base/log.h"
#include "sentry/ipc/ipc.h"
#include "sentry/task/run.h"
#include "sentry/container.h"
#include "sentry/task/task_priv.h"
#include "vfs/dev/tty.h"

/* A traced or tracing thread dies: its side of ptrace. [tasks] */
void ptrace_task_exit_locked(struct task *t) __attribute__((weak));

void tg_exit_locked(struct thread_group *tg, int wait_status)
{
	struct task *t;

	lock_assert_held(&tg->k->tasks_lock);
	if (tg->group_flags & (TG_EXITING | TG_ZOMBIE))
		return;
	tg->group_flags |= TG_EXITING;
	tg->group_flags &= ~(uint32_t)(TG_STOPPED | TG_STOP_REPORT);
	tg->group_exit_status = wait_status;
	list_for_each(t, &tg->tasks, tg_node)
		if (t->state != TASK_DEAD)
			task_kick(t, TASK_WORK_EXIT);
}

void task_unlink_locked(struct task *t)
{
	lock_assert_held(&t->k->tasks_lock);
	list_del(&t->tg_node);
	if (t->pid->task == t) {
		t->pid->task = NULL;
		pid_release_unused(t->pid);
	}
	task_put(t);
}

void tg_release_locked(struct thread_group *tg)
{
	struct task *leader = tg->leader;

	lock_assert_held(&tg->k->tasks_lock);
	tg->group_flags |= TG_REAPED;
	list_del(&tg->node);
	list_del(&tg->sibling);
	tg->parent = NULL;
	sigpending_flush(&tg->pending);
	tg_leave_pgrp_session(tg);
	tg->leader = NULL;
	tg->pid->tg = NULL;
	if (leader)
		task_unlink_locked(leader);
	pid_release_unused(tg->pid);
	waitq_wake(&tg->pid->exit_wait, POLLIN | POLLRDNORM | POLLHUP);
	tg_put(tg);
}

/* ---- children ---- */

static int tg_is_live(const struct thread_group *tg)
{
	return tg->live != 0;
}

/* Who becomes parent of a dying process's children: the nearest subreaper above, or init. */
static struct thread_group *new_parent_of(struct thread_group *dying)
{
	struct pid_ns *ns = dying->pid->numbers[dying->pid->level].ns;

	for (struct thread_group *up = dying->parent; up; up = up->parent) {
		if (up->pid->numbers[up->pid->level].ns != ns || up == ns->reaper)
			break;
		if (up->child_subreaper && tg_is_live(up))
			return up;
	}
	if (ns->reaper && ns->reaper != dying)
		return ns->reaper;
	/* The init of a namespace itself: what is left of it belongs to the one above. */
	while (ns->parent) {
		ns = ns->parent;
		if (ns->reaper && ns->reaper != dying)
			return ns->reaper;
	}
	return NULL;
}

static struct task *any_live_thread(struct thread_group *tg, struct task *but)
{
	struct task *t;

	list_for_each(t, &tg->tasks, tg_node)
		if (t != but && t->state != TASK_DEAD && !(t->jobctl_stop & JOBCTL_EXITING))
			return t;
	return NULL;
}

static void send_pdeath(struct thread_group *child)
{
	struct task *t;
	siginfo_t si;

	list_for_each(t, &child->tasks, tg_node)
		if (t->pdeath_signal) {
			siginfo_kernel(&si, t->pdeath_signal);
			si.si_code = SI_USER;
			signal_send_group_locked(child, &si);
		}
}

/* A thread dies but its process lives on: another thread stands for it as parent. */
static void thread_children_pass(struct task *t)
{
	struct thread_group *c, *tmp;

	list_for_each_safe(c, tmp, &t->tg->children, sibling)
		if (c->child_of_thread == t) {
			c->child_of_thread = any_live_thread(t->tg, t);
			send_pdeath(c);
		}
}

static void notify_zombie(struct thread_group *tg)
{
	int status = tg->exit_status, sig = status & 0x7f;

	signal_notify_parent_locked(tg, sig ? (status & 0x80 ? CLD_DUMPED : CLD_KILLED) : CLD_EXITED,
				    sig ? sig : (status >> 8) & 0xff);
	if (signal_parent_ignores_child(tg))
		tg_release_locked(tg);
}

static void reparent_children(struct thread_group *tg)
{
	struct thread_group *to = new_parent_of(tg), *c, *tmp;

	list_for_each_safe(c, tmp, &tg->children, sibling) {
		list_del(&c->sibling);
		c->parent = to;
		c->child_of_thread = to ? any_live_thread(to, NULL) : NULL;
		if (to)
			list_add_tail(&c->sibling, &to->children);
		send_pdeath(c);
		c->exit_signal = SIGCHLD;
		if (c->group_flags & TG_ZOMBIE) {
			notify_zombie(c);
			continue;
		}
		if (c->pgrp != tg->pgrp && c->session == tg->session)
			pgrp_check_orphan_locked(NULL, c->pgrp);
	}
}

/* ---- the steps of one thread ---- */

/* The init of a nested pid namespace takes everybody in it along (zap_pid_ns_processes). */
static void pid_ns_zap(struct task *t)
{
	struct pid_ns *ns = t->tg->pid->numbers[t->tg->pid->level].ns;
	struct kernel *k = t->k;
	struct thread_group *tg, *tmp;
	struct waiter w;
	uint32_t others;

	waiter_init(&w, POLLIN | POLLHUP, task_waiter_wake, t);
	waitq_add(&t->tg->child_wait, &w);
	for (;;) {
		others = 0;
		lock_acquire(&k->tasks_lock);
		list_for_each_safe(tg, tmp, &k->groups, node) {
			if (tg == t->tg || !pid_nr_in(tg->pid, ns))
				continue;
			if (tg->group_flags & TG_ZOMBIE) {
				if (tg->parent == t->tg)
					tg_release_locked(tg);
				else
					others++; /* its parent dies too, and hands it to us */
				continue;
			}
			others++;
			tg_exit_locked(tg, SIGKILL);
		}
		lock_release(&k->tasks_lock);
		if (!others)
			break;
		/* Not interruptible: we are dead already. Exits in the namespace wake child_wait. */
		__atomic_fetch_and(&t->work, ~(uint32_t)TASK_WORK_EXIT, __ATOMIC_SEQ_CST);
		task_sleep_killable(t, mono_now_ns() + 20000000u);
	}
	waitq_del(&w);
}

/* A session leader hangs up its terminal; others just let go of it. */
static void leave_terminal(struct thread_group *tg)
{
	struct tty *tty;

	if (tg->session_leader && tg->ctty)
		tty_disassociate(1);
	lock_acquire(&tg->k->tasks_lock);
	tty = tg->ctty;
	tg->ctty = NULL;
	lock_release(&tg->k->tasks_lock);
	if (tty)
		tty_put(tty);
}

/* The parts of the end that belong to the process, not the thread. */
static void group_exit(struct task *t, int status)
{
	struct thread_group *tg = t->tg;
	struct kernel *k = t->k;

	if (tg == k->init)
		kernel_exit(k, tg->group_flags & TG_OOM	    ? "oom"
			       : WIFSIGNALED(status) ? "signaled"
			       : status		     ? "nonzero"
						     : "ok",
			    status);
	if (timers_group_exit)
		timers_group_exit(tg, 0);
	if (sysv_group_exit)
		sysv_group_exit(tg);
	leave_terminal(tg);
	if (tg == tg->pid->numbers[tg->pid->level].ns->reaper)
		pid_ns_zap(t);
}

void task_vfork_done(struct task *t)
{
	struct task *parent;

	lock_acquire(&t->k->tasks_lock);
	parent = t->vfork_parent;
	t->vfork_parent = NULL;
	if (parent)
		__atomic_store_n(&parent->vfork_done, 1, __ATOMIC_SEQ_CST);
	lock_release(&t->k->tasks_lock);
	if (parent) {
		task_wake(parent);
		task_put(parent);
	}
}

void task_leave_mm(struct task *t)
{
	struct mm *mm = t->mm;
	struct context *ctx;

	if (!mm)
		return;
	if (futex_task_exit)
		futex_task_exit(t);
	if (t->clear_child_tid && __atomic_load_n(&mm->users, __ATOMIC_SEQ_CST) > 1) {
		put_user_u32(t, t->clear_child_tid, 0);
		if (futex_wake_user)
			futex_wake_user(t, t->clear_child_tid, 1);
	}
	t->clear_child_tid = 0;
	task_cpu_settle(t);
	t->past_utime_ns = t->last_cpu_ns;
	if (mm->rss_pages * 4 > t->ru.maxrss_kb)
		t->ru.maxrss_kb = mm->rss_pages * 4;
	if (__atomic_sub_fetch(&mm->users, 1, __ATOMIC_SEQ_CST) == 0 && aio_mm_exit)
		aio_mm_exit(t);
	ctx = task_set_ctx(t, NULL);
	lock_acquire(&t->k->tasks_lock);
	t->mm = NULL;
	lock_release(&t->k->tasks_lock);
	/* The address space may be ours alone: then its host process goes now. */
	if (ctx)
		context_put(ctx);
	mm_put(mm);
	task_vfork_done(t);
}

static void leave_resources(struct task *t)
{
	struct fdtable *files;
	struct fs_struct *fs;
	struct uts_ns *uts;
	struct ipc_ns *ipc;

	lock_acquire(&t->k->tasks_lock);
	files = t->files;
	fs = t->fs;
	uts = t->uts;
	ipc = t->ipc;
	t->files = NULL;
	t->fs = NULL;
	t->uts = NULL;
	t->ipc = NULL;
	lock_release(&t->k->tasks_lock);
	if (files)
		fdtable_put(files);
	if (fs)
		fs_put(fs);
	if (uts)
		uts_put(uts);
	if (ipc)
		ipc_ns_put(ipc);
	if (seccomp_task_exit)
		seccomp_task_exit(t);
}

static void become_zombie(struct thread_group *tg)
{
	struct pid_ns *ns = tg->pid->numbers[tg->pid->level].ns;

	tg->exit_status = tg->group_flags & TG_EXITING ? tg->group_exit_status :
							 tg->leader->exit_code;
	tg->group_flags |= TG_ZOMBIE;
	tg->group_flags &= ~(uint32_t)(TG_STOPPED | TG_STOP_REPORT | TG_CONT_REPORT);
	reparent_children(tg);
	if (ns->reaper == tg)
		ns->reaper = NULL;
	pgrp_check_orphan_locked(tg, tg->pgrp);
	waitq_wake(&tg->pid->exit_wait, POLLIN | POLLRDNORM);
	notify_zombie(tg);
}

static void thread_dead(struct task *t)
{
	struct thread_group *tg = t->tg;
	struct kernel *k = t->k;
	uint64_t ut, st;

	lock_acquire(&k->tasks_lock);
	task_cpu_times(t, &ut, &st);
	t->host_clock = 0;
	rusage_collect_locked(t, ut, st);
	__atomic_store_n(&t->state, TASK_DEAD, __ATOMIC_RELAXED);
	if (ptrace_task_exit_locked)
		ptrace_task_exit_locked(t);
	tg->task_count--;
	k->task_count--;
	if (tg->container && --tg->container->task_count == 0 && tg->container->ending)
		sem_post(&tg->container->empty);
	if (tg->task_count)
		thread_children_pass(t);
	if (tg->exec_task && tg->task_count == 1)
		task_wake(tg->exec_task);
	if (tg->task_count == 0) {
		tg_get(tg);
		if (t != tg->leader)
			task_unlink_locked(t);
		become_zombie(tg);
		tg_put(tg);
	} else if (t != tg->leader) {
		task_unlink_locked(t);
	}
	lock_release(&k->tasks_lock);
}

void task_exit(struct task *t, int wait_status)
{
	struct thread_group *tg = t->tg;
	struct kernel *k = t->k;
	int last;

	lock_acquire(&k->tasks_lock);
	if (tg->group_flags & TG_EXITING)
		wait_status = tg->group_exit_status;
	t->exit_code = wait_status;
	signal_task_exit_locked(t);
	last = --tg->live == 0;
	if (last && !(tg->group_flags & TG_EXITING) && tg->leader)
		wait_status = tg->leader->exit_code;
	lock_release(&k->tasks_lock);
	if (last)
		group_exit(t, wait_status);
	task_leave_mm(t);
	leave_resources(t);
	thread_dead(t);
	task_put(t);
	task_thread_end();
}
