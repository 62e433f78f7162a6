/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What terminals need to know about processes (vfs/dev/tty.h's hooks). They may run under a
 * terminal's lock and take tasks_lock.
 */
#include <fcntl.h>

#include "sentry/fd/fdtable.h"
#include "sentry/signal/signal.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/task_priv.h"
#include "vfs/dev/tty.h"

void tty_hooks_start(struct kernel *k);

static struct kernel *lock_tasks(void)
{
	lock_acquire(&g_kernel->tasks_lock);
	return g_kernel;
}

static void unlock_tasks(void)
{
	lock_release(&g_kernel->tasks_lock);
}

static struct pid *hook_pid_get(struct pid *p)
{
	return pid_get(p);
}

static void hook_pid_put(struct pid *p)
{
	pid_put(p);
}

static struct pid *current_pgrp(void)
{
	struct pid *p = NULL;

	lock_tasks();
	if (current && current->tg->pgrp)
		p = pid_get(current->tg->pgrp);
	unlock_tasks();
	return p;
}

static struct pid *current_session(void)
{
	struct pid *p = NULL;

	lock_tasks();
	if (current && current->tg->session)
		p = pid_get(current->tg->session);
	unlock_tasks();
	return p;
}

static int current_is_session_leader(void)
{
	return current && current->tg->session_leader;
}

static int current_has_cap(int cap)
{
	return current && cred_has_cap(task_cred(current), cap);
}

static int current_ignores(int signo)
{
	int r = 0;

	lock_tasks();
	if (current && current->sighand)
		r = (current->blocked & SIGBIT(signo)) ||
		    current->sighand->action[signo - 1].handler == (uint64_t)(uintptr_t)SIG_IGN;
	unlock_tasks();
	return r;
}

static int current_pgrp_is_orphaned(void)
{
	int r = 1;

	lock_tasks();
	if (current && current->tg->pgrp)
		r = tg_is_orphaned_pgrp(current->tg->pgrp);
	unlock_tasks();
	return r;
}

static struct tty *current_ctty(void)
{
	struct tty *tty = NULL;

	lock_tasks();
	if (current && current->tg->ctty)
		tty = tty_get(current->tg->ctty);
	unlock_tasks();
	return tty;
}

static void set_current_ctty(struct tty *tty)
{
	struct tty *old = NULL;

	lock_tasks();
	if (current) {
		old = current->tg->ctty;
		current->tg->ctty = tty;
		tty = NULL;
	}
	unlock_tasks();
	if (old)
		tty_put(old);
	if (tty)
		tty_put(tty);
}

static void clear_session_ctty(struct pid *session, struct tty *tty, int hangup)
{
	struct thread_group *tg;
	siginfo_t si;

	lock_tasks();
	list_for_each(tg, &session->session_members, session_node) {
		if (hangup && tg->session_leader) {
			siginfo_kernel(&si, SIGHUP);
			signal_send_group_locked(tg, &si);
			siginfo_kernel(&si, SIGCONT);
			signal_send_group_locked(tg, &si);
		}
		if (tg->ctty == tty) {
			tg->ctty = NULL;
			tty_put(tty); /* never the last: the caller holds one */
		}
	}
	unlock_tasks();
}

static void hook_signal_pgrp(struct pid *pgrp, int signo)
{
	siginfo_t si;

	siginfo_kernel(&si, signo);
	lock_tasks();
	signal_send_pgrp_locked(pgrp, &si);
	unlock_tasks();
}

static struct pid *find_pgrp(int nr)
{
	struct pid *p = NULL;

	lock_tasks();
	if (current)
		p = pid_find(current->pid_ns, nr);
	if (p)
		pid_get(p);
	unlock_tasks();
	return p;
}

static int pgrp_in_session(struct pid *pgrp, struct pid *session)
{
	struct thread_group *tg;
	int r = 0;

	lock_tasks();
	list_for_each(tg, &pgrp->pgrp_members, pgrp_node)
		if (tg->session == session) {
			r = 1;
			break;
		}
	unlock_tasks();
	return r;
}

static int hook_pid_nr(struct pid *p)
{
	return current ? pid_nr_in(p, current->pid_ns) : p->numbers[0].nr;
}

static int install_fd(struct file *f, uint32_t flags)
{
	int fd = current ? fd_install(current, f, 0, flags & O_CLOEXEC) : -ENOTTY;

	if (fd < 0)
		file_put(f);
	return fd;
}

static const struct tty_hooks g_hooks = {
	.current_pgrp = current_pgrp,
	.current_session = current_session,
	.current_is_session_leader = current_is_session_leader,
	.current_has_cap = current_has_cap,
	.current_ignores = current_ignores,
	.current_pgrp_is_orphaned = current_pgrp_is_orphaned,
	.current_ctty = current_ctty,
	.set_current_ctty = set_current_ctty,
	.clear_session_ctty = clear_session_ctty,
	.signal_pgrp = hook_signal_pgrp,
	.find_pgrp = find_pgrp,
	.pgrp_in_session = pgrp_in_session,
	.pid_nr = hook_pid_nr,
	.pid_get = hook_pid_get,
	.pid_put = hook_pid_put,
	.install_fd = install_fd,
};

void tty_hooks_start(struct kernel *k)
{
	(void)k;
	tty_set_hooks(&g_hooks);
}
