/* SPDX-License-Identifier: Apache-2.0 */
/* getrlimit, setrlimit, prlimit64. The limits themselves are obeyed where they apply. */
#include <string.h>

#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"

#define NR_OPEN_MAX 1048576u /* fs.nr_open */

static int read_limit(struct thread_group *tg, int which, struct rlimit *r)
{
	lock_acquire(&tg->rlimit_lock);
	*r = tg->rlimits[which];
	lock_release(&tg->rlimit_lock);
	return 0;
}

/* do_prlimit: raising a hard limit takes CAP_SYS_RESOURCE. */
static int change_limit(struct task *t, struct thread_group *tg, uint32_t which,
			const struct rlimit *new_limit, struct rlimit *old)
{
	int err = 0;

	if (which >= RLIM_NLIMITS)
		return -EINVAL;
	if (new_limit && new_limit->rlim_cur > new_limit->rlim_max)
		return -EINVAL;
	if (new_limit && which == RLIMIT_NOFILE && new_limit->rlim_max > NR_OPEN_MAX)
		return -EPERM;
	lock_acquire(&tg->rlimit_lock);
	if (old)
		*old = tg->rlimits[which];
	if (new_limit) {
		if (new_limit->rlim_max > tg->rlimits[which].rlim_max &&
		    !cred_has_cap(task_cred(t), CAP_SYS_RESOURCE))
			err = -EPERM;
		else
			tg->rlimits[which] = *new_limit;
	}
	lock_release(&tg->rlimit_lock);
	if (!err && new_limit && which == RLIMIT_CPU && timers_cpu_limit_changed)
		timers_cpu_limit_changed(tg);
	return err;
}

SYSCALL_HANDLER(getrlimit)
{
	struct rlimit r;

	if ((uint32_t)a->a[0] >= RLIM_NLIMITS)
		return -EINVAL;
	read_limit(t->tg, (int)a->a[0], &r);
	return copy_to_user(t, a->a[1], &r, sizeof(r));
}

SYSCALL_HANDLER(setrlimit)
{
	struct rlimit r;

	if (copy_from_user(t, &r, a->a[1], sizeof(r)))
		return -EFAULT;
	return change_limit(t, t->tg, (uint32_t)a->a[0], &r, NULL);
}

/* check_prlimit_permission: all real, effective and saved ids ours, or CAP_SYS_RESOURCE. */
static int may_prlimit(struct task *t, struct task *of)
{
	const struct cred *c = task_cred(t), *oc;
	int ok;

	if (of->tg == t->tg)
		return 0;
	lock_acquire(&t->k->tasks_lock);
	oc = of->cred;
	ok = oc && c->uid == oc->euid && c->uid == oc->suid && c->uid == oc->uid &&
	     c->gid == oc->egid && c->gid == oc->sgid && c->gid == oc->gid;
	lock_release(&t->k->tasks_lock);
	return ok || cred_has_cap(c, CAP_SYS_RESOURCE) ? 0 : -EPERM;
}

SYSCALL_HANDLER(prlimit64)
{
	struct rlimit in, out;
	struct task *of;
	int pid = (int)a->a[0], err;

	if (a->a[2] && copy_from_user(t, &in, a->a[2], sizeof(in)))
		return -EFAULT;
	of = pid ? task_find(t, pid) : task_get(t);
	if (!of)
		return -ESRCH;
	err = may_prlimit(t, of);
	if (!err)
		err = change_limit(t, of->tg, (uint32_t)a->a[1], a->a[2] ? &in : NULL, &out);
	task_put(of);
	if (!err && a->a[3])
		err = copy_to_user(t, a->a[3], &out, sizeof(out));
	return err;
}
