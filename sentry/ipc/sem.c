/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SysV semaphores with SEM_UNDO.
 *
 * Theory of operation. A call's operations happen all together or not at all. One that can not go
 * on queues itself, in order of arrival; whoever changes a value tries the queue from its head on
 * behalf of the sleepers, again and again until nobody more can proceed, and wakes those it served.
 * A sleeper's entry is on its stack and belongs to the queue only while `queued`.
 *
 * Undo adjustments hang on the process (shared by CLONE_SYSVSEM) and on the set, all under the
 * namespace's lock.
 */
#include <linux/sem.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/ipc/ipc_priv.h"
#include "sentry/mm/mm.h"

#define SEM_VALUE_MAX 32767 /* SEMVMX, and SEMAEM */
#define SEM_SET_MAX   32000 /* SEMMSL */
#define SEM_OPS_MAX   500   /* SEMOPM */
#define SEM_TOTAL_MAX 1024000000

struct semaphore {
	int val;
	struct pid *pid; /* who changed it last: a reference, or NULL */
};

struct sem_set {
	struct ipc_obj o;	  /* first */
	struct list_head waiting; /* [ns] sem_wait.node */
	struct list_head undos;	  /* [ns] sem_undo.set_node */
	int64_t otime;
	int count;
	struct semaphore sem[];
};

/* What one process owes one set. */
struct sem_undo {
	struct list_head set_node, proc_node;
	struct sem_set *set; /* a reference while on set->undos; NULL once the set is gone */
	struct sysv_undo *owner;
	int16_t adj[];
};

struct sysv_undo {
	struct ref ref; /* processes that share it */
	struct ipc_ns *ns;
	struct list_head undos; /* [ns] sem_undo.proc_node */
};

struct sem_wait {
	struct list_head node;
	struct task *task;
	const struct sem_op *ops;
	unsigned int count;
	struct sem_undo *undo;
	unsigned int blocked_at; /* index of the operation that could not be done */
	int alters;
	int queued; /* [ns] */
	int result; /* [ns] once not queued */
};

static struct sem_set *set_of(struct ipc_obj *o)
{
	return container_of(o, struct sem_set, o);
}

void ipc_sem_free(struct ipc_obj *o)
{
	struct sem_set *s = set_of(o);

	for (int i = 0; i < s->count; i++)
		if (s->sem[i].pid)
			pid_put(s->sem[i].pid);
	free(s);
}

static void set_pid(struct semaphore *sem, struct pid *p)
{
	struct pid *old = sem->pid;

	sem->pid = pid_get(p);
	if (old)
		pid_put(old);
}

static int check_count(struct ipc_obj *o, uint64_t count)
{
	return (int)count > set_of(o)->count ? -EINVAL : 0;
}

long ipc_semget(struct task *t, int32_t key, int count, int flags)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct sem_set *s;
	long ret;

	if (!ns)
		return -ENOMEM;
	if (count < 0 || count > SEM_SET_MAX)
		return -EINVAL;
	s = calloc(1, sizeof(*s) + (size_t)count * sizeof(struct semaphore));
	if (!s)
		return -ENOMEM;
	s->count = count;
	list_init(&s->waiting);
	list_init(&s->undos);
	lock_acquire(&ns->lock);
	ret = ipc_lookup_key(t, ns, IPC_KIND_SEM, key, flags, check_count, (uint64_t)count);
	if (ret == -EAGAIN) {
		ret = count ? ipc_add(t, ns, IPC_KIND_SEM, &s->o, key, flags) : -EINVAL;
		if (ret >= 0)
			s = NULL;
	}
	lock_release(&ns->lock);
	free(s);
	return ret;
}

/* ---- operations ---- */

/* Carries the operations out: 0; 1 it must wait (w->blocked_at); -EAGAIN, -ERANGE. [ns] */
static int try_ops(struct sem_set *s, struct sem_wait *w)
{
	int ret = 0;
	unsigned int i;

	for (i = 0; i < w->count; i++) {
		const struct sem_op *op = &w->ops[i];
		struct semaphore *sem = &s->sem[op->num];
		int next = sem->val + op->op;

		if ((!op->op && sem->val) || next < 0) {
			ret = op->flags & IPC_NOWAIT ? -EAGAIN : 1;
			break;
		}
		if (next > SEM_VALUE_MAX) {
			ret = -ERANGE;
			break;
		}
		if (op->flags & SEM_UNDO) {
			int adj = w->undo->adj[op->num] - op->op;

			if (adj < -SEM_VALUE_MAX - 1 || adj > SEM_VALUE_MAX) {
				ret = -ERANGE;
				break;
			}
			w->undo->adj[op->num] = (int16_t)adj;
		}
		sem->val = next;
	}
	if (!ret) {
		for (i = 0; i < w->count; i++)
			set_pid(&s->sem[w->ops[i].num], w->task->tg->pid);
		return 0;
	}
	w->blocked_at = i;
	/* Back out of what was done. */
	while (i-- > 0) {
		const struct sem_op *op = &w->ops[i];

		s->sem[op->num].val -= op->op;
		if (op->flags & SEM_UNDO)
			w->undo->adj[op->num] = (int16_t)(w->undo->adj[op->num] + op->op);
	}
	return ret;
}

static void finish_wait(struct sem_wait *w, int result)
{
	list_del(&w->node);
	w->result = result;
	w->queued = 0;
	/* Under the lock: the sleeper can not be gone before it has had it too. */
	task_wake(w->task);
}

/* Something changed: serves the sleepers that can go on now. [ns] */
static void serve_waiting(struct sem_set *s, int64_t now)
{
	struct sem_wait *w, *tmp;
	int again;

	do {
		again = 0;
		list_for_each_safe(w, tmp, &s->waiting, node) {
			int ret = try_ops(s, w);

			if (ret == 1)
				continue;
			again |= !ret && w->alters;
			if (!ret)
				s->otime = now;
			finish_wait(w, ret);
		}
	} while (again);
}

static void wake_all_removed(struct sem_set *s)
{
	struct sem_wait *w, *tmp;

	list_for_each_safe(w, tmp, &s->waiting, node)
		finish_wait(w, -EIDRM);
}

/* ---- undo ---- */

static struct sysv_undo *undo_list_of(struct task *t, struct ipc_ns *ns)
{
	struct sysv_undo *u = t->tg->sem_undo;

	lock_assert_held(&ns->lock);
	/* Left over from before the process changed its namespace, which exit_sem should have
	 * ended. */
	if (u)
		return u->ns == ns ? u : NULL;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	ref_init(&u->ref);
	u->ns = ipc_ns_get(ns);
	list_init(&u->undos);
	t->tg->sem_undo = u;
	return u;
}

/* The caller's entry for s, made if need be; NULL without memory. [ns] */
static struct sem_undo *undo_get(struct task *t, struct ipc_ns *ns, struct sem_set *s)
{
	struct sysv_undo *u = undo_list_of(t, ns);
	struct sem_undo *un;

	if (!u)
		return NULL;
	list_for_each(un, &u->undos, proc_node)
		if (un->set == s)
			return un;
	un = calloc(1, sizeof(*un) + (size_t)s->count * sizeof(int16_t));
	if (!un)
		return NULL;
	un->set = s;
	un->owner = u;
	list_add_tail(&un->set_node, &s->undos);
	list_add_tail(&un->proc_node, &u->undos);
	return un;
}

static void undo_free(struct sem_undo *un)
{
	list_del(&un->set_node);
	list_del(&un->proc_node);
	free(un);
}

/* A process is gone: gives back what it took, as far as values allow. [ns] */
static void undo_apply(struct sem_undo *un, struct pid *pid, int64_t now)
{
	struct sem_set *s = un->set;

	for (int i = 0; i < s->count; i++) {
		int val = s->sem[i].val + un->adj[i];

		if (!un->adj[i])
			continue;
		s->sem[i].val = val < 0 ? 0 : val > SEM_VALUE_MAX ? SEM_VALUE_MAX : val;
		set_pid(&s->sem[i], pid);
	}
	undo_free(un);
	s->otime = now;
	serve_waiting(s, now);
}

void sysv_group_exit(struct thread_group *tg)
{
	struct sysv_undo *u = tg->sem_undo;
	struct ipc_ns *ns;
	int64_t now;

	if (!u)
		return;
	tg->sem_undo = NULL;
	if (!ref_put(&u->ref))
		return;
	ns = u->ns;
	now = ipc_now(tg->k);
	lock_acquire(&ns->lock);
	while (!list_empty(&u->undos))
		undo_apply(list_first(&u->undos, struct sem_undo, proc_node), tg->pid, now);
	lock_release(&ns->lock);
	ipc_ns_put(ns);
	free(u);
}

void sysv_group_share_undo(struct thread_group *child, struct thread_group *parent)
{
	struct task *any = parent->leader;
	struct ipc_ns *ns = any ? ipc_ns_of(any) : NULL;
	struct sysv_undo *u = NULL;

	if (!ns)
		return;
	lock_acquire(&ns->lock);
	u = undo_list_of(any, ns);
	if (u)
		ref_get(&u->ref);
	lock_release(&ns->lock);
	child->sem_undo = u;
}

/* ---- semop ---- */

/* Checks against the set, and does or queues the operations. 0 done, 1 queued, or an error. */
static int semop_start(struct task *t, struct ipc_ns *ns, int id, struct sem_wait *w,
		       struct sem_set **set)
{
	int undo = 0, err;
	struct ipc_obj *o;
	struct sem_set *s;

	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SEM, id);
	err = IS_ERR(o) ? (int)PTR_ERR(o) : 0;
	if (err)
		goto out;
	s = set_of(o);
	for (unsigned int i = 0; i < w->count; i++) {
		if (w->ops[i].num >= s->count)
			err = -EFBIG;
		w->alters |= w->ops[i].op != 0;
		undo |= w->ops[i].flags & SEM_UNDO;
	}
	if (!err)
		err = ipc_permission(t, o, w->alters ? S_IWUGO_BITS : S_IRUGO_BITS);
	if (!err && undo) {
		w->undo = undo_get(t, ns, s);
		err = w->undo ? 0 : -ENOMEM;
	}
	if (!err)
		err = try_ops(s, w);
	if (!err) {
		s->otime = ipc_now(t->k);
		if (w->alters)
			serve_waiting(s, s->otime);
	} else if (err == 1) {
		list_add_tail(&w->node, &s->waiting);
		w->queued = 1;
		ref_get(&o->ref);
		*set = s;
	}
out:
	lock_release(&ns->lock);
	return err;
}

static int still_queued(struct ipc_ns *ns, struct sem_wait *w)
{
	lock_acquire(&ns->lock);
	int queued = w->queued;

	lock_release(&ns->lock);
	return queued;
}

long ipc_semop(struct task *t, int id, struct sem_op *ops, unsigned int count, uint64_t deadline)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct sem_wait w = { .task = t, .ops = ops, .count = count };
	struct sem_set *s = NULL;
	int err;

	if (!ns)
		return -ENOMEM;
	err = semop_start(t, ns, id, &w, &s);
	if (err != 1)
		return err;
	err = 0;
	while (still_queued(ns, &w)) {
		err = task_sleep(t, deadline);
		if (err)
			break;
	}
	lock_acquire(&ns->lock);
	if (w.queued) {
		list_del(&w.node);
		w.result = err == -ETIMEDOUT ? -EAGAIN : -EINTR;
	}
	lock_release(&ns->lock);
	ipc_obj_put(ns, IPC_KIND_SEM, &s->o);
	return w.result;
}

/* ---- control ---- */

static void fill_stat(struct sem_set *s, struct semid64_ds *ds)
{
	memset(ds, 0, sizeof(*ds));
	ipc_fill_perm(&s->o, &ds->sem_perm);
	ds->sem_otime = s->otime;
	ds->sem_ctime = s->o.ctime;
	ds->sem_nsems = (unsigned long)s->count;
}

static long ctl_stat(struct task *t, struct ipc_ns *ns, int id, int cmd, uint64_t buf)
{
	struct semid64_ds ds;
	struct ipc_obj *o;
	long ret;

	lock_acquire(&ns->lock);
	if (cmd == IPC_STAT) {
		o = ipc_find(ns, IPC_KIND_SEM, id);
	} else {
		o = ipc_at(ns, IPC_KIND_SEM, (unsigned int)id);
		o = o ? o : ERR_PTR(-EINVAL);
	}
	ret = IS_ERR(o) ? PTR_ERR(o) : cmd == SEM_STAT_ANY ? 0 : ipc_permission(t, o, S_IRUGO_BITS);
	if (!ret) {
		fill_stat(set_of(o), &ds);
		ret = cmd == IPC_STAT ? 0 : o->id;
	}
	lock_release(&ns->lock);
	if (ret >= 0 && copy_to_user(t, buf, &ds, sizeof(ds)))
		return -EFAULT;
	return ret;
}

static long ctl_info(struct task *t, struct ipc_ns *ns, int cmd, uint64_t buf)
{
	struct seminfo si = {
		.semmni = SEM_SET_MAX,
		.semmns = SEM_TOTAL_MAX,
		.semmsl = SEM_SET_MAX,
		.semopm = SEM_OPS_MAX,
		.semvmx = SEM_VALUE_MAX,
		.semmnu = SEM_TOTAL_MAX,
		.semmap = SEM_TOTAL_MAX,
		.semume = SEM_OPS_MAX,
		.semusz = 20,
		.semaem = SEM_VALUE_MAX,
	};
	long ret;

	lock_acquire(&ns->lock);
	if (cmd == SEM_INFO) {
		si.semusz = (int)ns->ids[IPC_KIND_SEM].used;
		si.semaem = 0;
		for (unsigned int i = 0; i < ns->ids[IPC_KIND_SEM].cap; i++) {
			struct ipc_obj *o = ipc_at(ns, IPC_KIND_SEM, i);

			si.semaem += o ? set_of(o)->count : 0;
		}
	}
	ret = ipc_max_index(ns, IPC_KIND_SEM);
	lock_release(&ns->lock);
	return copy_to_user(t, buf, &si, sizeof(si)) ? -EFAULT : ret;
}

static int count_waiting(struct sem_set *s, int num, int for_zero)
{
	struct sem_wait *w;
	int n = 0;

	list_for_each(w, &s->waiting, node) {
		const struct sem_op *op = &w->ops[w->blocked_at];

		n += op->num == num && (op->op == 0) == for_zero;
	}
	return n;
}

static void undo_clear(struct sem_set *s, int num)
{
	struct sem_undo *un;

	list_for_each(un, &s->undos, set_node)
		un->adj[num] = 0;
}

/* GETVAL, GETPID, GETNCNT, GETZCNT, SETVAL. */
static long ctl_one(struct task *t, struct ipc_ns *ns, int id, int num, int cmd, int val)
{
	struct ipc_obj *o;
	struct sem_set *s;
	long ret;

	if (cmd == SETVAL && (val < 0 || val > SEM_VALUE_MAX))
		return -ERANGE;
	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SEM, id);
	ret = IS_ERR(o) ? PTR_ERR(o) : 0;
	if (ret)
		goto out;
	s = set_of(o);
	if (cmd == SETVAL && (num < 0 || num >= s->count)) {
		ret = -EINVAL;
		goto out;
	}
	ret = ipc_permission(t, o, cmd == SETVAL ? S_IWUGO_BITS : S_IRUGO_BITS);
	if (!ret && (num < 0 || num >= s->count))
		ret = -EINVAL;
	if (ret)
		goto out;
	switch (cmd) {
	case GETVAL:
		ret = s->sem[num].val;
		break;
	case GETPID:
		ret = s->sem[num].pid ? pid_nr_in(s->sem[num].pid, t->pid_ns) : 0;
		break;
	case GETNCNT:
	case GETZCNT:
		ret = count_waiting(s, num, cmd == GETZCNT);
		break;
	case SETVAL:
		s->sem[num].val = val;
		set_pid(&s->sem[num], t->tg->pid);
		undo_clear(s, num);
		s->o.ctime = ipc_now(t->k);
		serve_waiting(s, s->o.ctime);
		break;
	}
out:
	lock_release(&ns->lock);
	return ret;
}

/* GETALL and SETALL: the values go through a buffer that is allocated without the lock. */
static long ctl_all(struct task *t, struct ipc_ns *ns, int id, int cmd, uint64_t buf)
{
	uint16_t *vals = malloc(SEM_SET_MAX * sizeof(*vals));
	struct ipc_obj *o;
	struct sem_set *s;
	int count;
	long ret;

	if (!vals)
		return -ENOMEM;
	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SEM, id);
	ret = IS_ERR(o) ? PTR_ERR(o)
			: ipc_permission(t, o, cmd == SETALL ? S_IWUGO_BITS : S_IRUGO_BITS);
	count = ret ? 0 : set_of(o)->count;
	for (int i = 0; i < count; i++)
		vals[i] = (uint16_t)set_of(o)->sem[i].val;
	lock_release(&ns->lock);
	if (ret)
		goto out;
	if (cmd == GETALL) {
		ret = copy_to_user(t, buf, vals, (size_t)count * sizeof(*vals));
		goto out;
	}
	ret = copy_from_user(t, vals, buf, (size_t)count * sizeof(*vals));
	for (int i = 0; !ret && i < count; i++)
		if (vals[i] > SEM_VALUE_MAX)
			ret = -ERANGE;
	if (ret)
		goto out;
	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SEM, id);
	s = IS_ERR(o) ? NULL : set_of(o);
	if (!s || s->count != count) {
		ret = -EIDRM;
	} else {
		for (int i = 0; i < count; i++) {
			s->sem[i].val = vals[i];
			set_pid(&s->sem[i], t->tg->pid);
			undo_clear(s, i);
		}
		s->o.ctime = ipc_now(t->k);
		serve_waiting(s, s->o.ctime);
	}
	lock_release(&ns->lock);
out:
	free(vals);
	return ret;
}

static long ctl_set(struct task *t, struct ipc_ns *ns, int id, uint64_t buf)
{
	struct semid64_ds ds;
	struct ipc_obj *o;
	long ret;

	if (copy_from_user(t, &ds, buf, sizeof(ds)))
		return -EFAULT;
	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SEM, id);
	ret = IS_ERR(o) ? PTR_ERR(o) : ipc_may_change(t, o);
	if (!ret)
		ret = ipc_set_perm(t, o, &ds.sem_perm);
	lock_release(&ns->lock);
	return ret;
}

static long ctl_rmid(struct task *t, struct ipc_ns *ns, int id)
{
	struct ipc_obj *o;
	struct sem_set *s;
	long ret;

	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SEM, id);
	ret = IS_ERR(o) ? PTR_ERR(o) : ipc_may_change(t, o);
	if (!ret) {
		s = set_of(o);
		ipc_unlink(ns, IPC_KIND_SEM, o);
		while (!list_empty(&s->undos))
			undo_free(list_first(&s->undos, struct sem_undo, set_node));
		wake_all_removed(s);
	}
	lock_release(&ns->lock);
	if (!ret)
		ipc_obj_put(ns, IPC_KIND_SEM, o);
	return ret;
}

long ipc_semctl(struct task *t, int id, int num, int cmd, uint64_t arg)
{
	struct ipc_ns *ns = ipc_ns_of(t);

	if (!ns)
		return -ENOMEM;
	cmd = ipc_cmd(cmd);
	if (id < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case SEM_INFO:
		return ctl_info(t, ns, cmd, arg);
	case IPC_STAT:
	case SEM_STAT:
	case SEM_STAT_ANY:
		return ctl_stat(t, ns, id, cmd, arg);
	case GETVAL:
	case GETPID:
	case GETNCNT:
	case GETZCNT:
	case SETVAL:
		return ctl_one(t, ns, id, num, cmd, (int)arg);
	case GETALL:
	case SETALL:
		return ctl_all(t, ns, id, cmd, arg);
	case IPC_SET:
		return ctl_set(t, ns, id, arg);
	case IPC_RMID:
		return ctl_rmid(t, ns, id);
	}
	return -EINVAL;
}

void ipc_show_sem(struct task *t, struct strbuf *sb)
{
	struct ipc_ns *ns = ipc_ns_of(t);

	strbuf_puts(sb, "       key      semid perms      nsems   uid   gid  cuid  cgid      otime"
			"      ctime\n");
	if (!ns)
		return;
	lock_acquire(&ns->lock);
	for (unsigned int i = 0; i < ns->ids[IPC_KIND_SEM].cap; i++) {
		struct ipc_obj *o = ipc_at(ns, IPC_KIND_SEM, i);

		if (o)
			strbuf_printf(sb, "%10d %10d  %4o %10d %5u %5u %5u %5u %10ld %10ld\n",
				      o->key, o->id, o->mode, set_of(o)->count, o->uid, o->gid,
				      o->cuid, o->cgid, (long)set_of(o)->otime, (long)o->ctime);
	}
	lock_release(&ns->lock);
}
