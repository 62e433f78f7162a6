/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SysV message queues. Senders and receivers that must wait do so on the queue's waitq and look
 * again when woken; every change wakes them.
 */
#include <linux/msg.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/ipc/ipc_priv.h"
#include "sentry/mm/mm.h"

#define MSG_MAX_SIZE	8192u  /* kernel.msgmax */
#define MSG_QUEUE_BYTES 16384u /* kernel.msgmnb */
#define MSG_LIMIT	32000

struct message {
	struct list_head node;
	int64_t type;
	size_t size;
	char data[];
};

struct msg_queue {
	struct ipc_obj o;	   /* first */
	struct list_head messages; /* [ns] oldest first */
	uint64_t bytes, count, max_bytes;
	int64_t stime, rtime;
	struct pid *lspid, *lrpid; /* [ns] references, or NULL */
	struct waitq wq;
};

static struct msg_queue *msg_of(struct ipc_obj *o)
{
	return container_of(o, struct msg_queue, o);
}

void ipc_msg_free(struct ipc_obj *o)
{
	struct msg_queue *q = msg_of(o);
	struct message *m, *tmp;

	list_for_each_safe(m, tmp, &q->messages, node)
		free(m);
	if (q->lspid)
		pid_put(q->lspid);
	if (q->lrpid)
		pid_put(q->lrpid);
	waitq_destroy(&q->wq);
	free(q);
}

static void set_pid(struct pid **slot, struct pid *p)
{
	struct pid *old = *slot;

	*slot = pid_get(p);
	if (old)
		pid_put(old);
}

static int pid_as_seen(struct pid *p, struct task *t)
{
	return p ? pid_nr_in(p, t->pid_ns) : 0;
}

long ipc_msgget(struct task *t, int32_t key, int flags)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct msg_queue *q = calloc(1, sizeof(*q));
	long ret;

	if (!ns || !q) {
		free(q);
		return -ENOMEM;
	}
	lock_acquire(&ns->lock);
	ret = ipc_lookup_key(t, ns, IPC_KIND_MSG, key, flags, NULL, 0);
	if (ret == -EAGAIN) {
		list_init(&q->messages);
		waitq_init(&q->wq);
		q->max_bytes = MSG_QUEUE_BYTES;
		ret = ipc_add(t, ns, IPC_KIND_MSG, &q->o, key, flags);
		if (ret >= 0)
			q = NULL;
	}
	lock_release(&ns->lock);
	free(q);
	return ret;
}

/* The queue with a reference for a caller that may wait; *err when there is none for it. */
static struct msg_queue *queue_get(struct task *t, struct ipc_ns *ns, int id, int mode, int *err)
{
	struct ipc_obj *o;

	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_MSG, id);
	*err = IS_ERR(o) ? (int)PTR_ERR(o) : ipc_permission(t, o, mode);
	if (!*err)
		ref_get(&o->ref);
	lock_release(&ns->lock);
	return *err ? NULL : msg_of(o);
}

static void queue_put(struct ipc_ns *ns, struct msg_queue *q)
{
	ipc_obj_put(ns, IPC_KIND_MSG, &q->o);
}

/* Queues m if there is room: 0, -EAGAIN, -EIDRM. */
static int send_once(struct task *t, struct ipc_ns *ns, struct msg_queue *q, struct message *m)
{
	int err = 0;

	lock_acquire(&ns->lock);
	if (q->o.removed) {
		err = -EIDRM;
	} else if (q->bytes + m->size > q->max_bytes || q->count + 1 > q->max_bytes) {
		err = -EAGAIN;
	} else {
		list_add_tail(&m->node, &q->messages);
		q->bytes += m->size;
		q->count++;
		q->stime = ipc_now(t->k);
		set_pid(&q->lspid, t->tg->pid);
	}
	lock_release(&ns->lock);
	return err;
}

/* Sends or receives until it works, waiting in between unless told not to. */
static long wait_loop(struct task *t, struct msg_queue *q, int nowait, int nowait_err,
		      long (*once)(void *arg), void *arg)
{
	struct waiter w;
	long ret = once(arg);

	if (ret != -EAGAIN)
		return ret;
	if (nowait)
		return nowait_err;
	waiter_init(&w, POLLIN | POLLOUT, task_waiter_wake, t);
	waitq_add(&q->wq, &w);
	while ((ret = once(arg)) == -EAGAIN) {
		ret = task_sleep(t, NO_DEADLINE);
		if (ret) {
			ret = -ERESTARTNOHAND;
			break;
		}
	}
	waitq_del(&w);
	return ret;
}

struct send_req {
	struct task *t;
	struct ipc_ns *ns;
	struct msg_queue *q;
	struct message *m;
};

static long send_step(void *arg)
{
	struct send_req *r = arg;

	return send_once(r->t, r->ns, r->q, r->m);
}

long ipc_msgsnd(struct task *t, int id, int64_t type, uint64_t text, uint64_t size, int flags)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct send_req r = { .t = t, .ns = ns };
	int err;
	long ret;

	if (!ns)
		return -ENOMEM;
	if (size > MSG_MAX_SIZE || id < 0 || type < 1)
		return -EINVAL;
	r.m = malloc(sizeof(*r.m) + size);
	if (!r.m)
		return -ENOMEM;
	r.m->type = type;
	r.m->size = size;
	ret = copy_from_user(t, r.m->data, text, size);
	if (ret)
		goto out;
	r.q = queue_get(t, ns, id, S_IWUGO_BITS, &err);
	ret = err;
	if (!r.q)
		goto out;
	ret = wait_loop(t, r.q, flags & IPC_NOWAIT, -EAGAIN, send_step, &r);
	if (!ret) {
		waitq_wake(&r.q->wq, POLLIN);
		r.m = NULL;
	}
	queue_put(ns, r.q);
out:
	free(r.m);
	return ret;
}

struct recv_req {
	struct task *t;
	struct ipc_ns *ns;
	struct msg_queue *q;
	int64_t want;
	uint64_t size;
	int flags;
	struct message *m; /* the result: taken out, or a copy (MSG_COPY) */
};

/* The message that msgrcv's type argument means, or NULL. */
static struct message *pick(const struct recv_req *r)
{
	struct message *m, *best = NULL;
	int64_t i = 0, limit = r->want == INT64_MIN ? INT64_MAX : -r->want;

	list_for_each(m, &r->q->messages, node) {
		if (r->flags & MSG_COPY) {
			if (i++ == r->want)
				return m;
		} else if (r->want == 0) {
			return m;
		} else if (r->want > 0) {
			if ((m->type == r->want) == !(r->flags & MSG_EXCEPT))
				return m;
		} else if (m->type <= limit && (!best || m->type < best->type)) {
			best = m; /* the lowest type, the oldest among equals */
		}
	}
	return best;
}

static long recv_step(void *arg)
{
	struct recv_req *r = arg;
	struct msg_queue *q = r->q;
	struct message *m;
	long ret = 0;

	lock_acquire(&r->ns->lock);
	m = q->o.removed ? NULL : pick(r);
	if (q->o.removed) {
		ret = -EIDRM;
	} else if (!m) {
		ret = -EAGAIN;
	} else if (m->size > r->size && !(r->flags & MSG_NOERROR)) {
		ret = -E2BIG;
	} else if (r->flags & MSG_COPY) {
		r->m = malloc(sizeof(*m) + m->size);
		if (r->m)
			memcpy(r->m, m, sizeof(*m) + m->size);
		else
			ret = -ENOMEM;
	} else {
		list_del(&m->node);
		q->bytes -= m->size;
		q->count--;
		q->rtime = ipc_now(r->t->k);
		set_pid(&q->lrpid, r->t->tg->pid);
		r->m = m;
	}
	lock_release(&r->ns->lock);
	return ret;
}

long ipc_msgrcv(struct task *t, int id, uint64_t text, uint64_t size, int64_t want, int flags,
		int64_t *type)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct recv_req r = { .t = t, .ns = ns, .want = want, .size = size, .flags = flags };
	int err;
	long ret;

	if (!ns)
		return -ENOMEM;
	if (id < 0 || (int64_t)size < 0)
		return -EINVAL;
	/* A copy of the n-th message is a debugging aid: it can not wait. */
	if ((flags & MSG_COPY) && ((flags & MSG_EXCEPT) || !(flags & IPC_NOWAIT)))
		return -EINVAL;
	r.q = queue_get(t, ns, id, S_IRUGO_BITS, &err);
	if (!r.q)
		return err;
	ret = wait_loop(t, r.q, flags & IPC_NOWAIT, -ENOMSG, recv_step, &r);
	if (!ret) {
		uint64_t n = r.m->size < size ? r.m->size : size;

		if (!(flags & MSG_COPY))
			waitq_wake(&r.q->wq, POLLOUT);
		*type = r.m->type;
		ret = copy_to_user(t, text, r.m->data, n) ? -EFAULT : (long)n;
		free(r.m);
	}
	queue_put(ns, r.q);
	return ret;
}

/* ---- control ---- */

static void fill_stat(struct task *t, struct msg_queue *q, struct msqid64_ds *ds)
{
	memset(ds, 0, sizeof(*ds));
	ipc_fill_perm(&q->o, &ds->msg_perm);
	ds->msg_stime = q->stime;
	ds->msg_rtime = q->rtime;
	ds->msg_ctime = q->o.ctime;
	ds->msg_cbytes = q->bytes;
	ds->msg_qnum = q->count;
	ds->msg_qbytes = q->max_bytes;
	ds->msg_lspid = pid_as_seen(q->lspid, t);
	ds->msg_lrpid = pid_as_seen(q->lrpid, t);
}

static long ctl_stat(struct task *t, struct ipc_ns *ns, int id, int cmd, uint64_t buf)
{
	struct msqid64_ds ds;
	struct ipc_obj *o;
	long ret;

	lock_acquire(&ns->lock);
	if (cmd == IPC_STAT) {
		o = ipc_find(ns, IPC_KIND_MSG, id);
	} else {
		o = id < 0 ? NULL : ipc_at(ns, IPC_KIND_MSG, (unsigned int)id);
		o = o ? o : ERR_PTR(-EINVAL);
	}
	ret = IS_ERR(o) ? PTR_ERR(o) : cmd == MSG_STAT_ANY ? 0 : ipc_permission(t, o, S_IRUGO_BITS);
	if (!ret) {
		fill_stat(t, msg_of(o), &ds);
		ret = cmd == IPC_STAT ? 0 : o->id;
	}
	lock_release(&ns->lock);
	if (ret >= 0 && copy_to_user(t, buf, &ds, sizeof(ds)))
		return -EFAULT;
	return ret;
}

static long ctl_info(struct task *t, struct ipc_ns *ns, int cmd, uint64_t buf)
{
	struct msginfo mi = {
		.msgmni = MSG_LIMIT,
		.msgmax = MSG_MAX_SIZE,
		.msgmnb = MSG_QUEUE_BYTES,
		.msgssz = 16,
		.msgseg = 0xffff,
		.msgmap = MSG_QUEUE_BYTES,
		.msgpool = MSG_LIMIT * (int)(MSG_QUEUE_BYTES / 1024),
		.msgtql = MSG_QUEUE_BYTES,
	};
	long ret;

	lock_acquire(&ns->lock);
	if (cmd == MSG_INFO) {
		mi.msgpool = (int)ns->ids[IPC_KIND_MSG].used;
		mi.msgmap = mi.msgtql = 0;
		for (unsigned int i = 0; i < ns->ids[IPC_KIND_MSG].cap; i++) {
			struct ipc_obj *o = ipc_at(ns, IPC_KIND_MSG, i);

			if (o) {
				mi.msgmap += (int)msg_of(o)->count;
				mi.msgtql += (int)msg_of(o)->bytes;
			}
		}
	}
	ret = ipc_max_index(ns, IPC_KIND_MSG);
	lock_release(&ns->lock);
	return copy_to_user(t, buf, &mi, sizeof(mi)) ? -EFAULT : ret;
}

static long ctl_set(struct task *t, struct ipc_ns *ns, int id, uint64_t buf)
{
	struct msg_queue *q = NULL;
	struct msqid64_ds ds;
	struct ipc_obj *o;
	long ret;

	if (copy_from_user(t, &ds, buf, sizeof(ds)))
		return -EFAULT;
	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_MSG, id);
	ret = IS_ERR(o) ? PTR_ERR(o) : ipc_may_change(t, o);
	if (!ret && ds.msg_qbytes > MSG_QUEUE_BYTES &&
	    !cred_has_cap(task_cred(t), CAP_SYS_RESOURCE))
		ret = -EPERM;
	if (!ret)
		ret = ipc_set_perm(t, o, &ds.msg_perm);
	if (!ret) {
		q = msg_of(o);
		q->max_bytes = ds.msg_qbytes;
		ref_get(&o->ref);
	}
	lock_release(&ns->lock);
	if (q) {
		waitq_wake(&q->wq, POLLIN | POLLOUT);
		queue_put(ns, q);
	}
	return ret;
}

static long ctl_rmid(struct task *t, struct ipc_ns *ns, int id)
{
	struct ipc_obj *o;
	long ret;

	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_MSG, id);
	ret = IS_ERR(o) ? PTR_ERR(o) : ipc_may_change(t, o);
	if (!ret)
		ipc_unlink(ns, IPC_KIND_MSG, o);
	lock_release(&ns->lock);
	if (!ret) {
		waitq_wake(&msg_of(o)->wq, POLLIN | POLLOUT);
		queue_put(ns, msg_of(o));
	}
	return ret;
}

long ipc_msgctl(struct task *t, int id, int cmd, uint64_t buf)
{
	struct ipc_ns *ns = ipc_ns_of(t);

	if (!ns)
		return -ENOMEM;
	cmd = ipc_cmd(cmd);
	if (id < 0 || cmd < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case MSG_INFO:
		return ctl_info(t, ns, cmd, buf);
	case IPC_STAT:
	case MSG_STAT:
	case MSG_STAT_ANY:
		return ctl_stat(t, ns, id, cmd, buf);
	case IPC_SET:
		return ctl_set(t, ns, id, buf);
	case IPC_RMID:
		return ctl_rmid(t, ns, id);
	}
	return -EINVAL;
}

void ipc_show_msg(struct task *t, struct strbuf *sb)
{
	struct ipc_ns *ns = ipc_ns_of(t);

	strbuf_puts(sb,
		    "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  "
		    "cuid  cgid      stime      rtime      ctime\n");
	if (!ns)
		return;
	lock_acquire(&ns->lock);
	for (unsigned int i = 0; i < ns->ids[IPC_KIND_MSG].cap; i++) {
		struct ipc_obj *o = ipc_at(ns, IPC_KIND_MSG, i);
		struct msqid64_ds d;

		if (!o)
			continue;
		fill_stat(t, msg_of(o), &d);
		strbuf_printf(
			sb,
			"%10d %10d  %4o  %10lu %10lu %5u %5u %5u %5u %5u %5u %10lu %10lu %10lu\n",
			o->key, o->id, o->mode, d.msg_cbytes, d.msg_qnum, (unsigned int)d.msg_lspid,
			(unsigned int)d.msg_lrpid, o->uid, o->gid, o->cuid, o->cgid,
			(unsigned long)d.msg_stime, (unsigned long)d.msg_rtime,
			(unsigned long)d.msg_ctime);
	}
	lock_release(&ns->lock);
}
