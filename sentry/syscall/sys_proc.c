/* SPDX-License-Identifier: Apache-2.0 */
/* Small calls of the life of processes: ids, exit, robust lists, unsharing. fork and exec are in
 * task/clone.c and sys_exec.c, wait in task/wait.c, groups and sessions in task/session.c. */
#include <string.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"

SYSCALL_HANDLER(exit)
{
	task_exit(t, (int)(a->a[0] & 0xff) << 8);
}

SYSCALL_HANDLER(exit_group)
{
	int status = (int)(a->a[0] & 0xff) << 8;

	lock_acquire(&t->k->tasks_lock);
	tg_exit_locked(t->tg, status);
	lock_release(&t->k->tasks_lock);
	task_exit(t, status);
}

SYSCALL_HANDLER(getpid)
{
	(void)a;
	return pid_nr_in(t->tg->pid, t->pid_ns);
}

SYSCALL_HANDLER(gettid)
{
	(void)a;
	return pid_nr_in(t->pid, t->pid_ns);
}

SYSCALL_HANDLER(getppid)
{
	long r;

	(void)a;
	lock_acquire(&t->k->tasks_lock);
	r = t->tg->parent ? pid_nr_in(t->tg->parent->pid, t->pid_ns) : 0;
	lock_release(&t->k->tasks_lock);
	return r;
}

SYSCALL_HANDLER(set_tid_address)
{
	t->clear_child_tid = a->a[0];
	return task_tid(t);
}

#define ROBUST_HEAD_SIZE 24 /* struct robust_list_head */

SYSCALL_HANDLER(set_robust_list)
{
	if (a->a[1] != ROBUST_HEAD_SIZE)
		return -EINVAL;
	t->robust_list = a->a[0];
	return 0;
}

SYSCALL_HANDLER(get_robust_list)
{
	int tid = (int)a->a[0], err = 0;
	struct task *of = tid ? task_find(t, tid) : task_get(t);
	uint64_t head = 0;

	if (!of)
		return -ESRCH;
	if (of != t)
		err = task_may_access(t, of, 0);
	if (!err)
		head = of->robust_list;
	task_put(of);
	if (err)
		return err;
	if (put_user_u64(t, a->a[2], ROBUST_HEAD_SIZE) || put_user_u64(t, a->a[1], head))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(restart_syscall)
{
	(void)a;
	if (!t->restart.fn)
		return -EINTR;
	return t->restart.fn(t, &t->restart);
}

/* Libraries fall back to other means of knowing their CPU. */
SYSCALL_HANDLER(rseq)
{
	(void)t;
	(void)a;
	log_once("rseq: not supported, refused with ENOSYS");
	return -ENOSYS;
}
