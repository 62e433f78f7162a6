/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait4 and waitid: which child may be reported, in what state, and its release once it has been
 * (Linux: do_wait, wait_consider_task).
 */
#include "sentry/task/wait.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "sentry/syscall/syscall.h"
#include "sentry/task/pidfd.h"
#include "sentry/task/rusage.h"
#include "sentry/task/task_priv.h"

static int eligible(struct task *t, struct thread_group *c, const struct wait_opts *o)
{
	if (o->which == P_PID && c->pid != o->pid)
		return 0;
	if (o->which == P_PGID && c->pgrp != o->pid)
		return 0;
	if ((o->options & __WNOTHREAD) && c->child_of_thread != t)
		return 0;
	if (o->options & __WALL)
		return 1;
	/* "Clone" children are those that do not send SIGCHLD. */
	return (c->exit_signal != SIGCHLD) == ((o->options & __WCLONE) != 0);
}

static void fill(struct task *t, struct thread_group *c, struct wait_result *r)
{
	r->pid = tg_pid_for(c, t);
	r->uid = c->leader && c->leader->cred ? c->leader->cred->uid : 0;
	r->ru = c->dead_threads;
	rusage_add(&r->ru, &c->dead_children);
}

static void report_zombie(struct task *t, struct thread_group *c, const struct wait_opts *o,
			  struct wait_result *r)
{
	int sig = c->exit_status & 0x7f;

	fill(t, c, r);
	r->status = c->exit_status;
	r->code = !sig ? CLD_EXITED : c->exit_status & 0x80 ? CLD_DUMPED : CLD_KILLED;
	if (o->options & WNOWAIT)
		return;
	rusage_add(&t->tg->dead_children, &r->ru);
	tg_release_locked(c);
}

/* 1: c has an event for us, which is in *r now. */
static int consider(struct task *t, struct thread_group *c, const struct wait_opts *o,
		    struct wait_result *r, int *any)
{
	if (!eligible(t, c, o))
		return 0;
	if (c->group_flags & TG_ZOMBIE) {
		if (!(o->options & WEXITED))
			return 0;
		*any = 1;
		/* A tracer that is not the parent sees the end first. */
		if (c->leader && c->leader->ptrace && ptrace_wait_scan_locked)
			return 0;
		report_zombie(t, c, o, r);
		return 1;
	}
	*any = 1;
	if ((o->options & WUNTRACED) && (c->group_flags & TG_STOP_REPORT)) {
		fill(t, c, r);
		r->status = (c->stop_signal << 8) | 0x7f;
		r->code = CLD_STOPPED;
		if (!(o->options & WNOWAIT))
			c->group_flags &= ~(uint32_t)TG_STOP_REPORT;
		return 1;
	}
	if ((o->options & WCONTINUED) && (c->group_flags & TG_CONT_REPORT)) {
		fill(t, c, r);
		r->status = 0xffff;
		r->code = CLD_CONTINUED;
		if (!(o->options & WNOWAIT))
			c->group_flags &= ~(uint32_t)TG_CONT_REPORT;
		return 1;
	}
	return 0;
}

static int scan(struct task *t, const struct wait_opts *o, struct wait_result *r, int *any)
{
	struct thread_group *c, *tmp;

	if (ptrace_wait_scan_locked && ptrace_wait_scan_locked(t, o, r, any))
		return 1;
	list_for_each_safe(c, tmp, &t->tg->children, sibling)
		if (consider(t, c, o, r, any))
			return 1;
	return 0;
}

int task_wait_child(struct task *t, const struct wait_opts *o, struct wait_result *r)
{
	struct waiter w;
	int err, any, hit;

	memset(r, 0, sizeof(*r));
	waiter_init(&w, POLLIN | POLLHUP, task_waiter_wake, t);
	waitq_add(&t->tg->child_wait, &w);
	for (;;) {
		any = 0;
		lock_acquire(&t->k->tasks_lock);
		hit = scan(t, o, r, &any);
		lock_release(&t->k->tasks_lock);
		err = hit || (any && (o->options & WNOHANG)) ? 0 : any ? 1 : -ECHILD;
		if (err <= 0)
			break;
		err = task_sleep(t, NO_DEADLINE);
		if (err)
			break;
	}
	waitq_del(&w);
	return err;
}

/* The pid behind a number, or the caller's own group for 0: a reference or NULL. */
static struct pid *find_pid(struct task *t, int nr, int own_group)
{
	struct pid *p;

	lock_acquire(&t->k->tasks_lock);
	p = own_group ? t->tg->pgrp : pid_find(t->pid_ns, nr);
	if (p)
		pid_get(p);
	lock_release(&t->k->tasks_lock);
	return p;
}

SYSCALL_HANDLER(wait4)
{
	int pid = (int)a->a[0], err;
	uint32_t options = (uint32_t)a->a[2];
	struct wait_opts o = { .which = P_ALL, .options = options | WEXITED };
	struct wait_result r;

	if (options & ~(uint32_t)(WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL))
		return -EINVAL;
	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid != -1) {
		o.which = pid > 0 ? P_PID : P_PGID;
		o.pid = find_pid(t, pid > 0 ? pid : -pid, pid == 0);
		if (!o.pid)
			return -ECHILD;
	}
	err = task_wait_child(t, &o, &r);
	pid_put(o.pid);
	if (err || !r.pid)
		return err;
	if (a->a[1] && put_user_u32(t, a->a[1], (uint32_t)r.status))
		return -EFAULT;
	if (a->a[3] && rusage_to_user(t, a->a[3], &r.ru))
		return -EFAULT;
	return r.pid;
}

static int siginfo_status(const struct wait_result *r)
{
	switch (r->code) {
	case CLD_EXITED:
		return (r->status >> 8) & 0xff;
	case CLD_KILLED:
	case CLD_DUMPED:
		return r->status & 0x7f;
	case CLD_CONTINUED:
		return SIGCONT;
	}
	return r->status >> 8; /* stopped or trapped; ptrace events are in the upper bytes */
}

/* Fields one by one: what lies between and behind them stays the caller's. */
static int write_siginfo(struct task *t, uint64_t to, const struct wait_result *r)
{
	uint32_t head[3] = { r->pid ? SIGCHLD : 0, 0, (uint32_t)r->code };
	uint32_t body[3] = { (uint32_t)r->pid, r->uid, r->pid ? (uint32_t)siginfo_status(r) : 0 };

	if (copy_to_user(t, to, head, sizeof(head)) || copy_to_user(t, to + 16, body, sizeof(body)))
		return -EFAULT;
	return 0;
}

/* Who is asked for: fills o->which and o->pid (a reference, or NULL). */
static int waitid_target(struct task *t, int type, int id, struct wait_opts *o, int *nonblock)
{
	switch (type) {
	case P_ALL:
		o->which = P_ALL;
		return 0;
	case P_PID:
		if (id <= 0)
			return -EINVAL;
		o->which = P_PID;
		o->pid = find_pid(t, id, 0);
		break;
	case P_PGID:
		if (id < 0)
			return -EINVAL;
		o->which = P_PGID;
		o->pid = find_pid(t, id, id == 0);
		break;
	case P_PIDFD: {
		uint32_t flags;

		if (id < 0)
			return -EINVAL;
		o->which = P_PID;
		o->pid = pidfd_get_pid(t, id, &flags);
		if (IS_ERR(o->pid)) {
			int err = (int)PTR_ERR(o->pid);

			o->pid = NULL;
			return err;
		}
		*nonblock = (flags & O_NONBLOCK) != 0;
		break;
	}
	default:
		return -EINVAL;
	}
	return o->pid ? 0 : -ECHILD;
}

SYSCALL_HANDLER(waitid)
{
	uint32_t options = (uint32_t)a->a[3];
	struct wait_opts o = { .options = options };
	struct wait_result r = { 0 };
	int err, nonblock = 0;

	if (options & ~(uint32_t)(WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | __WNOTHREAD |
				  __WCLONE | __WALL))
		return -EINVAL;
	if (!(options & (WEXITED | WSTOPPED | WCONTINUED)))
		return -EINVAL;
	err = waitid_target(t, (int)a->a[0], (int)a->a[1], &o, &nonblock);
	if (!err) {
		if (nonblock)
			o.options |= WNOHANG;
		err = task_wait_child(t, &o, &r);
		if (!err && !r.pid && nonblock && !(options & WNOHANG))
			err = -EAGAIN;
	}
	pid_put(o.pid);
	if (!err && r.pid && a->a[4] && rusage_to_user(t, a->a[4], &r.ru))
		return -EFAULT;
	if (a->a[2] && write_siginfo(t, a->a[2], &r))
		return -EFAULT;
	return err;
}
