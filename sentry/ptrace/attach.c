/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who traces whom: TRACEME, ATTACH, SEIZE, children of tracees, DETACH, the end of either side, and
 * what wait(2) tells a tracer.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "sentry/ptrace/ptrace_priv.h"
#include "sentry/task/wait.h"

/* Links t to its tracer. [tasks] */
static int link_locked(struct task *t, struct task *tracer, int seize, uint32_t options)
{
	struct ptrace_state *p;

	if (t->ptrace || (t->jobctl_stop & JOBCTL_EXITING))
		return -EPERM;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->tracer = task_get(tracer);
	p->seized = seize;
	p->options = options;
	t->ptrace = p;
	t->k->traced_count++;
	return 0;
}

static void unlink_locked(struct task *t)
{
	struct ptrace_state *p = t->ptrace;

	t->ptrace = NULL;
	t->k->traced_count--;
	if (p->order) {
		__atomic_store_n(&p->order->result, -ESRCH, __ATOMIC_RELEASE);
		task_wake(p->tracer);
	}
	task_put(p->tracer);
	free(p);
}

int ptrace_tracer_pid_locked(struct task *t, struct task *viewer)
{
	return t->ptrace ? tg_pid_for(t->ptrace->tracer->tg, viewer) : 0;
}

static struct task *parent_thread(struct task *t)
{
	struct thread_group *parent = t->tg->parent;

	if (!parent)
		return NULL;
	return t->tg->child_of_thread && t->tg->child_of_thread->tg == parent
		       ? t->tg->child_of_thread
		       : parent->leader;
}

int ptrace_traceme(struct task *t)
{
	struct task *tracer;
	int err = -EPERM;

	lock_acquire(&t->k->tasks_lock);
	tracer = parent_thread(t);
	if (tracer && !t->ptrace)
		err = link_locked(t, tracer, 0, 0);
	lock_release(&t->k->tasks_lock);
	return err;
}

int ptrace_attach(struct task *tracer, struct task *t, int seize, uint32_t options)
{
	siginfo_t si;
	int err;

	if (t->tg == tracer->tg)
		return -EPERM;
	err = task_may_access(tracer, t, 1);
	if (err)
		return err;
	lock_acquire(&t->k->tasks_lock);
	err = link_locked(t, tracer, seize, options);
	if (!err) {
		if (t->jobctl_stop & JOBCTL_STOPPED) {
			/* From the group stop into a stop of the tracer's. */
			t->ptrace->stop_wanted = 1;
			__atomic_store_n(&t->jobctl_stop, t->jobctl_stop & ~JOBCTL_STOPPED,
					 __ATOMIC_SEQ_CST);
			task_kick(t, TASK_WORK_STOP);
		} else if (!seize) {
			siginfo_kernel(&si, SIGSTOP);
			signal_send_task_locked(t, &si);
		}
	}
	lock_release(&t->k->tasks_lock);
	return err;
}

void ptrace_detach_locked(struct task *t, int signo)
{
	struct ptrace_state *p = t->ptrace;
	siginfo_t si;

	if (p->forced_tf)
		t->regs.eflags &= ~0x100ull;
	if (signo) {
		if (p->has_info && p->info.si_signo == signo && signo == p->code)
			si = p->info;
		else {
			memset(&si, 0, sizeof(si));
			si.si_signo = signo;
			si.si_code = SI_USER;
		}
	}
	int group_stopped = (t->tg->group_flags & TG_STOPPED) != 0;

	unlink_locked(t);
	if (signo)
		signal_send_task_locked(t, &si);
	else if (group_stopped)
		t->jobctl_stop |= JOBCTL_STOP_PENDING; /* back into the group stop */
	signal_recalc_locked(t);
	task_wake(t);
}

void ptrace_clone_locked(struct task *parent, struct task *child, uint64_t flags)
{
	struct ptrace_state *p = parent->ptrace;
	int kind;
	siginfo_t si;

	if (!p || (flags & CLONE_UNTRACED))
		return;
	kind = ptrace_clone_kind(flags,
				 !(flags & CLONE_THREAD) && child->tg->exit_signal == SIGCHLD);
	if (!(p->options & (1u << kind)) && !(flags & CLONE_PTRACE))
		return;
	if (link_locked(child, p->tracer, p->seized, p->options))
		return;
	if (p->seized) {
		child->ptrace->stop_wanted = 1;
		__atomic_fetch_or(&child->work, TASK_WORK_STOP, __ATOMIC_SEQ_CST);
	} else {
		siginfo_kernel(&si, SIGSTOP);
		signal_send_task_locked(child, &si);
	}
}

/* ---- the end ---- */

static void bury_locked(struct task *t)
{
	struct ptrace_state *p = t->ptrace;
	struct ptrace_corpse *c = calloc(1, sizeof(*c));

	if (c) {
		c->tracer = p->tracer;
		c->tracer_tg = p->tracer->tg;
		c->pid = pid_get(t->pid);
		c->pgrp = pid_get(t->tg->pgrp);
		c->uid = t->cred->uid;
		c->status =
			t->tg->group_flags & TG_EXITING ? t->tg->group_exit_status : t->exit_code;
		c->next = t->k->ptrace_corpses;
		t->k->ptrace_corpses = c;
	}
	waitq_wake(&p->tracer->tg->child_wait, POLLIN | POLLHUP);
}

static void free_corpse(struct ptrace_corpse *c)
{
	pid_put(c->pid);
	pid_put(c->pgrp);
	free(c);
}

static void forget_corpses_locked(struct task *tracer)
{
	struct ptrace_corpse **pp = &tracer->k->ptrace_corpses;

	while (*pp) {
		struct ptrace_corpse *c = *pp;

		if (c->tracer != tracer) {
			pp = &c->next;
			continue;
		}
		*pp = c->next;
		free_corpse(c);
	}
}

/* t, which dies, traces others: they go on without it, or die with it. */
static void tracer_dies_locked(struct task *t)
{
	struct thread_group *tg;
	struct task *o;

	list_for_each(tg, &t->k->groups, node)
		list_for_each(o, &tg->tasks, tg_node) {
			if (!o->ptrace || o->ptrace->tracer != t)
				continue;
			int kill = o->ptrace->options & PTRACE_O_EXITKILL;

			ptrace_detach_locked(o, 0);
			if (kill)
				tg_exit_locked(tg, SIGKILL);
		}
	forget_corpses_locked(t);
}

void ptrace_task_exit_locked(struct task *t)
{
	if (t->ptrace) {
		/* A parent that traces its child learns of the end as a parent. */
		if (t != t->tg->leader || t->ptrace->tracer->tg != t->tg->parent)
			bury_locked(t);
		unlink_locked(t);
	}
	if (t->k->traced_count || t->k->ptrace_corpses)
		tracer_dies_locked(t);
}

/* ---- wait(2) ---- */

static int matches(const struct wait_opts *o, const struct pid *pid, const struct pid *pgrp)
{
	if (o->which == P_PID)
		return o->pid == pid;
	if (o->which == P_PGID)
		return o->pid == pgrp;
	return 1;
}

static int scan_corpses(struct task *t, const struct wait_opts *o, struct wait_result *r, int *any)
{
	struct ptrace_corpse **pp = &t->k->ptrace_corpses;

	for (; *pp; pp = &(*pp)->next) {
		struct ptrace_corpse *c = *pp;

		if (c->tracer_tg != t->tg || !matches(o, c->pid, c->pgrp) ||
		    !(o->options & WEXITED))
			continue;
		if ((o->options & __WNOTHREAD) && c->tracer != t)
			continue;
		*any = 1;
		r->pid = pid_nr_in(c->pid, t->pid_ns);
		r->uid = c->uid;
		r->status = c->status;
		r->code = c->status & 0x7f ? CLD_KILLED : CLD_EXITED;
		if (!(o->options & WNOWAIT)) {
			*pp = c->next;
			free_corpse(c);
		}
		return 1;
	}
	return 0;
}

int ptrace_wait_scan_locked(struct task *t, const struct wait_opts *o, struct wait_result *r,
			    int *any)
{
	struct thread_group *tg;
	struct task *c;

	if (t->k->ptrace_corpses && scan_corpses(t, o, r, any))
		return 1;
	if (!t->k->traced_count)
		return 0;
	list_for_each(tg, &t->k->groups, node)
		list_for_each(c, &tg->tasks, tg_node) {
			struct ptrace_state *p = c->ptrace;

			if (!p || p->tracer->tg != t->tg || !matches(o, c->pid, tg->pgrp))
				continue;
			if ((o->options & __WNOTHREAD) && p->tracer != t)
				continue;
			*any = 1;
			if (!p->stopped || !p->unreported)
				continue;
			r->pid = task_tid_for(c, t);
			r->uid = c->cred->uid;
			r->status = (p->code << 8) | 0x7f;
			r->code = CLD_TRAPPED;
			if (!(o->options & WNOWAIT))
				p->unreported = 0;
			return 1;
		}
	return 0;
}
