/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX message queues on the sentry's side: the instance of each IPC namespace, charges against
 * RLIMIT_MSGQUEUE, notification by signal. The queues are vfs/mqueue.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/ipc/ipc_priv.h"
#include "sentry/ipc/mq.h"
#include "sentry/signal/signal.h"
#include "sentry/signal/user_count.h"
#include "vfs/mqueue/mqueue.h"

struct mount *ipc_ns_mq_mount(struct ipc_ns *ns)
{
	struct superblock *sb;
	struct mount *m, *twin = NULL;

	lock_acquire(&ns->lock);
	m = ns->mq_mount ? mount_get(ns->mq_mount) : NULL;
	lock_release(&ns->lock);
	if (m)
		return m;
	sb = mqueue_sb_new(ns->k->vfs);
	if (IS_ERR(sb))
		return (void *)sb;
	m = mount_new(sb, 0);
	if (!m || IS_ERR(m))
		return ERR_PTR(-ENOMEM);
	lock_acquire(&ns->lock);
	if (ns->mq_mount) {
		twin = m;
		m = ns->mq_mount;
	} else {
		ns->mq_mount = m;
	}
	m = mount_get(m);
	lock_release(&ns->lock);
	if (twin)
		mount_put(twin);
	return m;
}

struct superblock *mqueue_sb_of_caller(struct vfs *vfs)
{
	struct ipc_ns *ns = current    ? ipc_ns_of(current)
			    : g_kernel ? ipc_ns_initial(g_kernel)
				       : NULL;
	struct superblock *sb;
	struct mount *m;

	(void)vfs;
	if (!ns)
		return ERR_PTR(-ENOMEM);
	m = ipc_ns_mq_mount(ns);
	if (IS_ERR(m))
		return (void *)m;
	sb = sb_get(m->sb);
	mount_put(m);
	return sb;
}

/* The charge goes to the creator's real uid. */
int mqueue_charge(const struct cred *cred, uint64_t bytes)
{
	struct kernel *k = g_kernel;
	uint64_t limit = current ? rlimit_cur(current, RLIMIT_MSGQUEUE) : RLIM_INFINITY;
	int err;

	lock_acquire(&k->tasks_lock);
	err = user_count_mq(k, cred->uid, bytes, limit);
	lock_release(&k->tasks_lock);
	return err;
}

void mqueue_uncharge(uint32_t uid, uint64_t bytes)
{
	lock_acquire(&g_kernel->tasks_lock);
	user_uncount_mq(g_kernel, uid, bytes);
	lock_release(&g_kernel->tasks_lock);
}

const void *mqueue_caller(void)
{
	return current ? current->tg : NULL;
}

/* ---- notification ---- */

struct mq_signal {
	struct mq_notify n;	 /* first */
	struct thread_group *tg; /* a reference */
	uint64_t value;
};

static void fire(struct mq_notify *n)
{
	struct mq_signal *s = container_of(n, struct mq_signal, n);
	struct thread_group *tg = s->tg;
	siginfo_t si;

	if (n->kind != SIGEV_SIGNAL)
		return;
	memset(&si, 0, sizeof(si));
	si.si_signo = n->signo;
	si.si_code = SI_MESGQ;
	si.si_ptr = (void *)(uintptr_t)s->value;
	if (current) {
		si.si_pid = pid_nr_in(current->tg->pid, tg->pid->numbers[tg->pid->level].ns);
		si.si_uid = task_cred(current)->uid;
	}
	signal_send_group(tg, &si);
}

static void release(struct mq_notify *n)
{
	struct mq_signal *s = container_of(n, struct mq_signal, n);

	tg_put(s->tg);
	free(s);
}

int mq_register_signal(struct task *t, struct file *f, int kind, int signo, uint64_t value)
{
	struct mq_signal *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->n.owner = t->tg;
	s->n.pid = task_tgid(t);
	s->n.kind = kind;
	s->n.signo = signo;
	s->n.fire = fire;
	s->n.free = release;
	s->tg = tg_get(t->tg);
	s->value = value;
	err = mqueue_notify_set(f, &s->n);
	if (err)
		release(&s->n);
	return err;
}
