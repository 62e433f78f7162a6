/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling. Policies and priorities are stored and shown as Linux would; affinity and nice values
 * are also applied to the guest's host threads where the host lets us. Real-time policies remain a
 * wish: the sandbox has no right to them on the host.
 */
#include <linux/ioprio.h>
#include <linux/sched.h>

#include <string.h>
#include <sys/resource.h>

#include "platform/abi/sched.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"

#define RT_PRIO_MAX 99
#define NICE_MIN (-20)
#define NICE_MAX 19
#define AFFINITY_BYTES (sizeof(((struct task *)0)->cpu_affinity))

/* The thread named by a pid argument, 0 being the caller: a reference or NULL. */
static struct task *target_of(struct task *t, uint64_t pid)
{
	return (int)pid ? task_find(t, (int)pid) : task_get(t);
}

/* check_same_owner, or CAP_SYS_NICE. */
static int may_change(struct task *t, struct task *of)
{
	const struct cred *c = task_cred(t);
	int ok = t == of;

	if (!ok) {
		lock_acquire(&t->k->tasks_lock);
		ok = of->cred && (c->euid == of->cred->euid || c->euid == of->cred->uid);
		lock_release(&t->k->tasks_lock);
	}
	return ok || cred_has_cap(c, CAP_SYS_NICE) ? 0 : -EPERM;
}

static void apply_nice(struct task *of, int nice)
{
	of->nice = nice;
	lock_acquire(&of->ctx_lock);
	if (of->ctx)
		context_set_nice(of->ctx, nice);
	lock_release(&of->ctx_lock);
}

/* RLIMIT_NICE speaks of 20 - nice, from 1 to 40. */
static int may_nice(struct task *t, struct task *of, int nice)
{
	if (nice >= of->nice || cred_has_cap(task_cred(t), CAP_SYS_NICE))
		return 1;
	return (uint64_t)(20 - nice) <= rlimit_cur(of, RLIMIT_NICE);
}

/* ---- policies ---- */

static int policy_known(int p)
{
	return p == SCHED_NORMAL || p == SCHED_FIFO || p == SCHED_RR || p == SCHED_BATCH ||
	       p == SCHED_IDLE || p == SCHED_DEADLINE;
}

static int policy_rt(int p)
{
	return p == SCHED_FIFO || p == SCHED_RR;
}

static int check_policy(const struct linux_sched_attr *sa)
{
	int p = (int)sa->sched_policy;

	if (!policy_known(p))
		return -EINVAL;
	if (policy_rt(p) ? sa->sched_priority < 1 || sa->sched_priority > RT_PRIO_MAX :
			   sa->sched_priority != 0)
		return -EINVAL;
	if (p == SCHED_DEADLINE &&
	    (sa->sched_runtime < 1024 || sa->sched_deadline < sa->sched_runtime ||
	     (sa->sched_period && sa->sched_period < sa->sched_deadline) ||
	     (int64_t)sa->sched_deadline < 0 || (int64_t)sa->sched_period < 0))
		return -EINVAL;
	return 0;
}

static int may_policy(struct task *t, struct task *of, const struct linux_sched_attr *sa)
{
	int p = (int)sa->sched_policy;

	if (cred_has_cap(task_cred(t), CAP_SYS_NICE))
		return 0;
	if (may_change(t, of))
		return -EPERM;
	if (policy_rt(p)) {
		uint64_t limit = rlimit_cur(of, RLIMIT_RTPRIO);

		if (p != of->sched_policy && !limit)
			return -EPERM;
		if ((int)sa->sched_priority > of->rt_priority && sa->sched_priority > limit)
			return -EPERM;
	}
	if (p == SCHED_DEADLINE)
		return -EPERM;
	if (of->sched_policy == SCHED_IDLE && p != SCHED_IDLE && !may_nice(t, of, of->nice - 1))
		return -EPERM;
	if ((p == SCHED_NORMAL || p == SCHED_BATCH) && !may_nice(t, of, sa->sched_nice))
		return -EPERM;
	if (of->sched_reset_on_fork && !(sa->sched_flags & SCHED_FLAG_RESET_ON_FORK))
		return -EPERM;
	return 0;
}

static int set_attr(struct task *t, struct task *of, const struct linux_sched_attr *sa)
{
	int err = check_policy(sa);

	if (!err)
		err = may_policy(t, of, sa);
	if (err)
		return err;
	of->sched_policy = (int)sa->sched_policy;
	of->rt_priority = (int)sa->sched_priority;
	of->sched_reset_on_fork = (sa->sched_flags & SCHED_FLAG_RESET_ON_FORK) != 0;
	of->sched_runtime = sa->sched_runtime;
	of->sched_deadline = sa->sched_deadline;
	of->sched_period = sa->sched_period ? sa->sched_period : sa->sched_deadline;
	if ((sa->sched_policy == SCHED_NORMAL || sa->sched_policy == SCHED_BATCH) &&
	    sa->sched_nice != of->nice)
		apply_nice(of, sa->sched_nice);
	return 0;
}

/* The old calls: policy and priority only. policy -1: unchanged. */
static long set_old(struct task *t, const struct sysargs *a, int policy, uint64_t param)
{
	struct linux_sched_attr sa = { .size = sizeof(sa) };
	struct task *of;
	uint32_t prio;
	int err;

	if (!param || (int)a->a[0] < 0)
		return -EINVAL;
	if (get_user_u32(t, param, &prio))
		return -EFAULT;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	if (policy == -1)
		policy = of->sched_policy | (of->sched_reset_on_fork ? SCHED_RESET_ON_FORK : 0);
	if (policy & SCHED_RESET_ON_FORK)
		sa.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
	sa.sched_policy = (uint32_t)policy & ~(uint32_t)SCHED_RESET_ON_FORK;
	sa.sched_priority = prio;
	sa.sched_nice = of->nice;
	err = set_attr(t, of, &sa);
	task_put(of);
	return err;
}

SYSCALL_HANDLER(sched_setscheduler)
{
	if ((int)a->a[1] < 0)
		return -EINVAL;
	return set_old(t, a, (int)a->a[1], a->a[2]);
}

SYSCALL_HANDLER(sched_setparam)
{
	return set_old(t, a, -1, a->a[1]);
}

SYSCALL_HANDLER(sched_getscheduler)
{
	struct task *of;
	long r;

	if ((int)a->a[0] < 0)
		return -EINVAL;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	r = of->sched_policy | (of->sched_reset_on_fork ? SCHED_RESET_ON_FORK : 0);
	task_put(of);
	return r;
}

SYSCALL_HANDLER(sched_getparam)
{
	struct task *of;
	int prio;

	if (!a->a[1] || (int)a->a[0] < 0)
		return -EINVAL;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	prio = of->rt_priority;
	task_put(of);
	return put_user_u32(t, a->a[1], (uint32_t)prio);
}

#define SCHED_KNOWN_FLAGS                                                                       \
	((uint64_t)(SCHED_FLAG_RESET_ON_FORK | SCHED_FLAG_RECLAIM | SCHED_FLAG_DL_OVERRUN |      \
		    SCHED_FLAG_KEEP_POLICY | SCHED_FLAG_KEEP_PARAMS | SCHED_FLAG_UTIL_CLAMP_MIN | \
		    SCHED_FLAG_UTIL_CLAMP_MAX))

SYSCALL_HANDLER(sched_setattr)
{
	struct linux_sched_attr sa;
	struct task *of;
	uint32_t size;
	int err;

	if (!a->a[1] || (int)a->a[0] < 0 || a->a[2])
		return -EINVAL;
	if (get_user_u32(t, a->a[1], &size))
		return -EFAULT;
	if (!size)
		size = LINUX_SCHED_ATTR_SIZE_VER0;
	if (size < LINUX_SCHED_ATTR_SIZE_VER0 || size > GUEST_PAGE_SIZE) {
		put_user_u32(t, a->a[1], sizeof(sa));
		return -E2BIG;
	}
	err = copy_struct_from_user(t, &sa, sizeof(sa), a->a[1], size, LINUX_SCHED_ATTR_SIZE_VER0);
	if (err == -E2BIG)
		put_user_u32(t, a->a[1], sizeof(sa));
	if (err)
		return err;
	if ((int)sa.sched_policy < 0 || (sa.sched_flags & ~SCHED_KNOWN_FLAGS))
		return -EINVAL;
	if (sa.sched_flags & (SCHED_FLAG_UTIL_CLAMP_MIN | SCHED_FLAG_UTIL_CLAMP_MAX))
		return -EOPNOTSUPP; /* utilisation clamping is configured out */
	sa.sched_nice = sa.sched_nice < NICE_MIN ? NICE_MIN :
			sa.sched_nice > NICE_MAX ? NICE_MAX : sa.sched_nice;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	if (sa.sched_flags & SCHED_FLAG_KEEP_POLICY)
		sa.sched_policy = (uint32_t)of->sched_policy;
	if (sa.sched_flags & SCHED_FLAG_KEEP_PARAMS) {
		sa.sched_priority = (uint32_t)of->rt_priority;
		sa.sched_nice = of->nice;
	}
	err = set_attr(t, of, &sa);
	task_put(of);
	return err;
}

SYSCALL_HANDLER(sched_getattr)
{
	struct linux_sched_attr sa;
	uint32_t size = (uint32_t)a->a[2];
	struct task *of;

	if (!a->a[1] || (int)a->a[0] < 0 || size < LINUX_SCHED_ATTR_SIZE_VER0 || size > GUEST_PAGE_SIZE ||
	    a->a[3])
		return -EINVAL;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	memset(&sa, 0, sizeof(sa));
	sa.sched_policy = (uint32_t)of->sched_policy;
	if (of->sched_reset_on_fork)
		sa.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
	if (policy_rt(of->sched_policy)) {
		sa.sched_priority = (uint32_t)of->rt_priority;
	} else if (of->sched_policy == SCHED_DEADLINE) {
		sa.sched_runtime = of->sched_runtime;
		sa.sched_deadline = of->sched_deadline;
		sa.sched_period = of->sched_period;
	} else {
		sa.sched_nice = of->nice;
	}
	task_put(of);
	sa.size = size < sizeof(sa) ? size : (uint32_t)sizeof(sa);
	return copy_to_user(t, a->a[1], &sa, sa.size);
}

SYSCALL_HANDLER(sched_get_priority_max)
{
	int p = (int)a->a[0];

	(void)t;
	return policy_rt(p) ? RT_PRIO_MAX : p >= 0 && policy_known(p) ? 0 : -EINVAL;
}

SYSCALL_HANDLER(sched_get_priority_min)
{
	int p = (int)a->a[0];

	(void)t;
	return policy_rt(p) ? 1 : p >= 0 && policy_known(p) ? 0 : -EINVAL;
}

#define RR_SLICE_NS 100000000 /* sched_rr_timeslice_ms */
#define FAIR_SLICE_NS 2800000 /* base slice of the fair class on a small machine */

SYSCALL_HANDLER(sched_rr_get_interval)
{
	struct task *of;
	int64_t ts[2] = { 0, 0 };

	if ((int)a->a[0] < 0)
		return -EINVAL;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	if (of->sched_policy == SCHED_RR)
		ts[1] = RR_SLICE_NS;
	else if (of->sched_policy == SCHED_NORMAL || of->sched_policy == SCHED_BATCH)
		ts[1] = FAIR_SLICE_NS;
	task_put(of);
	return copy_to_user(t, a->a[1], ts, sizeof(ts));
}

SYSCALL_HANDLER(sched_yield)
{
	(void)t;
	(void)a;
	/* Leaving guest code and coming back has let the host's scheduler look around. */
	return 0;
}

/* ---- affinity ---- */

SYSCALL_HANDLER(sched_setaffinity)
{
	uint64_t mask[AFFINITY_BYTES / 8] = { 0 };
	size_t n = (uint32_t)a->a[1] < sizeof(mask) ? (uint32_t)a->a[1] : sizeof(mask);
	struct task *of;
	int any = 0, err;

	if (copy_from_user(t, mask, a->a[2], n))
		return -EFAULT;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	err = may_change(t, of);
	for (uint32_t cpu = 0; cpu < 1024; cpu++) {
		if (cpu >= t->k->cpu_count)
			mask[cpu / 64] &= ~(1ull << (cpu % 64));
		any |= (mask[cpu / 64] >> (cpu % 64)) & 1;
	}
	if (!err && !any)
		err = -EINVAL;
	if (!err) {
		memcpy(of->cpu_affinity, mask, sizeof(mask));
		lock_acquire(&of->ctx_lock);
		if (of->ctx)
			context_set_affinity(of->ctx, mask, sizeof(mask));
		lock_release(&of->ctx_lock);
	}
	task_put(of);
	return err;
}

SYSCALL_HANDLER(sched_getaffinity)
{
	uint32_t len = (uint32_t)a->a[1], need = ((t->k->cpu_count + 63) / 64) * 8;
	struct task *of;
	uint64_t mask[AFFINITY_BYTES / 8];

	if ((uint64_t)len * 8 < t->k->cpu_count || len % 8)
		return -EINVAL;
	of = target_of(t, a->a[0]);
	if (!of)
		return -ESRCH;
	memcpy(mask, of->cpu_affinity, sizeof(mask));
	task_put(of);
	if (need > len)
		need = len;
	if (copy_to_user(t, a->a[2], mask, need))
		return -EFAULT;
	return (long)need;
}

/* ---- nice values and I/O priorities over sets of threads ---- */

enum who_kind { WHO_PROCESS, WHO_PGRP, WHO_USER };

/* Calls fn for each thread of the set, under tasks_lock. */
static void for_each_who(struct task *t, enum who_kind kind, int who,
			 void (*fn)(struct task *caller, struct task *of, void *arg), void *arg)
{
	struct kernel *k = t->k;
	struct thread_group *tg;
	struct task *i;
	struct pid *p;

	lock_acquire(&k->tasks_lock);
	if (kind == WHO_PROCESS) {
		p = who ? pid_find(t->pid_ns, who) : NULL;
		i = who ? p ? p->task : NULL : t;
		if (i)
			fn(t, i, arg);
	} else {
		uint32_t uid = who ? (uint32_t)who : task_cred(t)->uid;

		p = who ? pid_find(t->pid_ns, who) : t->tg->pgrp;
		list_for_each(tg, &k->groups, node) {
			if (kind == WHO_PGRP ? !p || tg->pgrp != p :
					       !tg->leader || !tg->leader->cred ||
						       tg->leader->cred->uid != uid)
				continue;
			list_for_each(i, &tg->tasks, tg_node)
				if (i->state != TASK_DEAD)
					fn(t, i, arg);
		}
	}
	lock_release(&k->tasks_lock);
}

static void best_nice(struct task *caller, struct task *of, void *arg)
{
	long *best = arg;

	(void)caller;
	/* The call returns 20 - nice, so that all good results are positive. */
	if (20 - of->nice > *best)
		*best = 20 - of->nice;
}

SYSCALL_HANDLER(getpriority)
{
	long best = -ESRCH;

	if ((uint32_t)a->a[0] > PRIO_USER)
		return -EINVAL;
	for_each_who(t, (enum who_kind)a->a[0], (int)a->a[1], best_nice, &best);
	return best;
}

struct nice_request {
	int nice;
	long err;
};

static void set_one_nice(struct task *caller, struct task *of, void *arg)
{
	struct nice_request *rq = arg;
	const struct cred *c = task_cred(caller), *oc = of->cred;

	if (!oc || (c->euid != oc->uid && c->euid != oc->euid && !cred_has_cap(c, CAP_SYS_NICE))) {
		rq->err = -EPERM;
		return;
	}
	if (!may_nice(caller, of, rq->nice)) {
		rq->err = -EACCES;
		return;
	}
	if (rq->err == -ESRCH)
		rq->err = 0;
	apply_nice(of, rq->nice);
}

SYSCALL_HANDLER(setpriority)
{
	struct nice_request rq = { .nice = (int)a->a[2], .err = -ESRCH };

	if ((uint32_t)a->a[0] > PRIO_USER)
		return -EINVAL;
	rq.nice = rq.nice < NICE_MIN ? NICE_MIN : rq.nice > NICE_MAX ? NICE_MAX : rq.nice;
	for_each_who(t, (enum who_kind)a->a[0], (int)a->a[1], set_one_nice, &rq);
	return rq.err;
}

static uint32_t effective_ioprio(struct task *of)
{
	if (IOPRIO_PRIO_CLASS(of->ioprio) != IOPRIO_CLASS_NONE)
		return of->ioprio;
	/* From the nice value, as the block layer takes it. */
	return IOPRIO_PRIO_VALUE(of->sched_policy == SCHED_IDLE ? IOPRIO_CLASS_IDLE :
				 policy_rt(of->sched_policy)	? IOPRIO_CLASS_RT :
								  IOPRIO_CLASS_BE,
				 (of->nice + 20) / 5);
}

static void best_ioprio(struct task *caller, struct task *of, void *arg)
{
	long *best = arg, v = (long)effective_ioprio(of);

	(void)caller;
	if (*best < 0 || v < *best)
		*best = v;
}

static int ioprio_who(uint64_t which, enum who_kind *kind)
{
	switch ((int)which) {
	case IOPRIO_WHO_PROCESS:
		*kind = WHO_PROCESS;
		return 0;
	case IOPRIO_WHO_PGRP:
		*kind = WHO_PGRP;
		return 0;
	case IOPRIO_WHO_USER:
		*kind = WHO_USER;
		return 0;
	}
	return -EINVAL;
}

SYSCALL_HANDLER(ioprio_get)
{
	enum who_kind kind;
	long best = -ESRCH;

	if (ioprio_who(a->a[0], &kind))
		return -EINVAL;
	for_each_who(t, kind, (int)a->a[1], best_ioprio, &best);
	return best;
}

static void set_one_ioprio(struct task *caller, struct task *of, void *arg)
{
	struct nice_request *rq = arg;
	const struct cred *c = task_cred(caller), *oc = of->cred;

	if (!oc || (oc->uid != c->euid && oc->uid != c->uid && !cred_has_cap(c, CAP_SYS_NICE))) {
		rq->err = -EPERM;
		return;
	}
	if (rq->err == -ESRCH)
		rq->err = 0;
	of->ioprio = (uint32_t)rq->nice;
}

SYSCALL_HANDLER(ioprio_set)
{
	int value = (int)a->a[2];
	uint32_t level = IOPRIO_PRIO_DATA((uint32_t)value);
	struct nice_request rq = { .nice = value, .err = -ESRCH };
	enum who_kind kind;

	switch (IOPRIO_PRIO_CLASS((uint32_t)value)) {
	case IOPRIO_CLASS_RT:
		if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN) &&
		    !cred_has_cap(task_cred(t), CAP_SYS_NICE))
			return -EPERM;
		if (level >= IOPRIO_NR_LEVELS)
			return -EINVAL;
		break;
	case IOPRIO_CLASS_BE:
		if (level >= IOPRIO_NR_LEVELS)
			return -EINVAL;
		break;
	case IOPRIO_CLASS_IDLE:
		break;
	case IOPRIO_CLASS_NONE:
		if (level)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	if (ioprio_who(a->a[0], &kind))
		return -EINVAL;
	for_each_who(t, kind, (int)a->a[1], set_one_ioprio, &rq);
	return rq.err;
}
