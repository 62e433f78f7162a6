/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process groups and sessions: membership, orphaned groups, and the calls setpgid, getpgid, setsid,
 * getsid. All state is under kernel->tasks_lock.
 */
#include "sentry/syscall/syscall.h"
#include "sentry/task/task_priv.h"
#include "vfs/dev/tty.h"

static void leave_pgrp(struct thread_group *tg)
{
	struct pid *old = tg->pgrp;

	if (!old)
		return;
	list_del(&tg->pgrp_node);
	tg->pgrp = NULL;
	pid_release_unused(old);
	pid_put(old);
}

static void leave_session(struct thread_group *tg)
{
	struct pid *old = tg->session;

	if (!old)
		return;
	list_del(&tg->session_node);
	tg->session = NULL;
	pid_release_unused(old);
	pid_put(old);
}

void tg_join_pgrp(struct thread_group *tg, struct pid *pgrp)
{
	leave_pgrp(tg);
	tg->pgrp = pgrp;
	list_add_tail(&tg->pgrp_node, &pgrp->pgrp_members);
}

void tg_join_session(struct thread_group *tg, struct pid *session)
{
	leave_session(tg);
	tg->session = session;
	list_add_tail(&tg->session_node, &session->session_members);
}

/* A zombie's group and session stay readable for /proc until it is released: only the lists and
 * the numbers let go here. */
void tg_leave_pgrp_session(struct thread_group *tg)
{
	leave_pgrp(tg);
	leave_session(tg);
}

/* ---- orphaned process groups ---- */

/* Would pgrp be orphaned if `ignored` were not there (will_become_orphaned_pgrp)? */
static int would_be_orphaned(struct pid *pgrp, struct thread_group *ignored)
{
	struct thread_group *tg;

	list_for_each(tg, &pgrp->pgrp_members, pgrp_node) {
		if (tg == ignored || (tg->group_flags & TG_ZOMBIE) || !tg->parent)
			continue;
		if (tg->parent->pgrp != pgrp && tg->parent->session == tg->session)
			return 0;
	}
	return 1;
}

int tg_is_orphaned_pgrp(struct pid *pgrp)
{
	return would_be_orphaned(pgrp, NULL);
}

static int has_stopped_member(struct pid *pgrp)
{
	struct thread_group *tg;

	list_for_each(tg, &pgrp->pgrp_members, pgrp_node)
		if (tg->group_flags & TG_STOPPED)
			return 1;
	return 0;
}

void pgrp_check_orphan_locked(struct thread_group *leaving, struct pid *pgrp)
{
	siginfo_t si;

	if (!pgrp)
		return;
	if (leaving && (!leaving->parent || leaving->parent->pgrp == pgrp ||
			leaving->parent->session != leaving->session))
		return; /* it was no connection to the outside */
	if (!would_be_orphaned(pgrp, leaving) || !has_stopped_member(pgrp))
		return;
	siginfo_kernel(&si, SIGHUP);
	signal_send_pgrp_locked(pgrp, &si);
	siginfo_kernel(&si, SIGCONT);
	signal_send_pgrp_locked(pgrp, &si);
}

/* ---- the calls ---- */

static long setpgid_locked(struct task *t, int pid, int pgid)
{
	struct thread_group *tg;
	struct pid *p, *g;

	p = pid ? pid_find(t->pid_ns, pid) : t->tg->pid;
	tg = p ? p->tg : NULL;
	if (!tg) /* threads that lead no process are no target */
		return p && p->task ? -EINVAL : -ESRCH;
	if (tg->parent == t->tg) {
		if (tg->session != t->tg->session)
			return -EPERM;
		if (tg->did_exec)
			return -EACCES;
	} else if (tg != t->tg) {
		return -ESRCH;
	}
	if (tg->session_leader)
		return -EPERM;
	g = pgid ? pid_find(t->pid_ns, pgid) : tg->pid;
	if (g != tg->pid) {
		struct thread_group *other;

		if (!g || list_empty(&g->pgrp_members))
			return -EPERM;
		other = list_first(&g->pgrp_members, struct thread_group, pgrp_node);
		if (other->session != t->tg->session)
			return -EPERM;
	}
	if (tg->pgrp != g)
		tg_join_pgrp(tg, pid_get(g));
	return 0;
}

SYSCALL_HANDLER(setpgid)
{
	int pid = (int)a->a[0], pgid = (int)a->a[1];
	long r;

	if (pgid < 0)
		return -EINVAL;
	lock_acquire(&t->k->tasks_lock);
	r = setpgid_locked(t, pid, pgid);
	lock_release(&t->k->tasks_lock);
	return r;
}

enum { WANT_PGRP, WANT_SESSION };

static long get_group(struct task *t, int pid, int which)
{
	long r = -ESRCH;

	lock_acquire(&t->k->tasks_lock);
	struct pid *p = pid ? pid_find(t->pid_ns, pid) : t->tg->pid;
	struct thread_group *tg = p && p->task ? p->task->tg : p ? p->tg : NULL;

	if (tg)
		r = pid_nr_in(which == WANT_PGRP ? tg->pgrp : tg->session, t->pid_ns);
	lock_release(&t->k->tasks_lock);
	return r;
}

SYSCALL_HANDLER(getpgid)
{
	return get_group(t, (int)a->a[0], WANT_PGRP);
}

SYSCALL_HANDLER(getpgrp)
{
	(void)a;
	return get_group(t, 0, WANT_PGRP);
}

SYSCALL_HANDLER(getsid)
{
	return get_group(t, (int)a->a[0], WANT_SESSION);
}

SYSCALL_HANDLER(setsid)
{
	struct thread_group *tg = t->tg;
	struct tty *left = NULL;
	long r = -EPERM;

	(void)a;
	lock_acquire(&t->k->tasks_lock);
	/* Neither a leader already, nor the id of a group that others are still in. */
	if (!tg->session_leader && list_empty(&tg->pid->pgrp_members)) {
		tg->session_leader = 1;
		tg_join_session(tg, pid_get(tg->pid));
		tg_join_pgrp(tg, pid_get(tg->pid));
		left = tg->ctty; /* a new session starts without a terminal */
		tg->ctty = NULL;
		r = pid_nr_in(tg->pid, t->pid_ns);
	}
	lock_release(&t->k->tasks_lock);
	if (left)
		tty_put(left);
	return r;
}
