/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners of open files and the sending of their signals (f_setown, send_sigio). Things happen to
 * files under locks that come after tasks_lock, so sigio_raise only queues; the queue is emptied
 * before the task that made it happen goes back to guest code, which therefore sees its own
 * signals as early as on Linux. Service threads have nothing to go back to: they wake a sender.
 */
#include "sentry/signal/sigio.h"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/signal/signal.h"
#include "vfs/vfs.h"

/* What lies between two flushes; more is lost, as from a full signal queue. */
#define EVENTS_MAX 4096

struct owner {
	struct file_owner base;
	struct lock lock; /* RANK_LEAF */
	struct pid *pid;  /* [lock] a reference; NULL: nobody */
	int type, signo;  /* [lock] */
	uint32_t uid, euid; /* [lock] */
};

struct event {
	struct list_head node;
	struct pid *pid; /* a reference */
	int type, signo, fd, reason;
	uint32_t uid, euid;
};

static struct {
	pthread_once_t once;
	struct lock lock; /* RANK_LEAF */
	struct list_head events; /* [lock] */
	uint32_t count;		 /* [lock] */
	sem_t kick;		 /* of the sender */
} g_sigio = { .once = PTHREAD_ONCE_INIT };

static void *sender(void *arg);

static void sigio_init(void)
{
	lock_init(&g_sigio.lock, RANK_LEAF);
	list_init(&g_sigio.events);
	sem_init(&g_sigio.kick, 0, 0);
	if (thread_start("sigio", sender, NULL))
		log_once("sigio: no thread to send with; signals may be late");
}

/* ---- owners ---- */

static void owner_free(struct file_owner *base)
{
	struct owner *o = container_of(base, struct owner, base);

	pid_put(o->pid);
	lock_destroy(&o->lock);
	free(o);
}

static struct owner *owner_of(struct file *f)
{
	struct file_owner *base = __atomic_load_n(&f->owner, __ATOMIC_ACQUIRE);

	return base ? container_of(base, struct owner, base) : NULL;
}

static struct owner *owner_make(struct file *f)
{
	struct owner *o = owner_of(f);
	struct file_owner *none = NULL;

	if (o)
		return o;
	pthread_once(&g_sigio.once, sigio_init);
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->base.free = owner_free;
	lock_init(&o->lock, RANK_LEAF);
	if (__atomic_compare_exchange_n(&f->owner, &none, &o->base, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return o;
	owner_free(&o->base);
	return container_of(none, struct owner, base);
}

/* Does p name what an owner of this type must be? [tasks] */
static int names_owner(const struct pid *p, int type)
{
	switch (type) {
	case F_OWNER_TID:
		return p->task != NULL;
	case F_OWNER_PID:
		return p->tg != NULL;
	default:
		return !list_empty(&p->pgrp_members);
	}
}

/* Consumes p. */
static int owner_change(struct task *t, struct file *f, int type, struct pid *p, int only_if_none)
{
	struct owner *o = owner_make(f);

	if (!o) {
		pid_put(p);
		return -ENOMEM;
	}
	lock_acquire(&o->lock);
	if (!only_if_none || !o->pid) {
		struct pid *old = o->pid;

		o->pid = p;
		p = old;
		o->type = type;
		o->uid = task_cred(t)->uid;
		o->euid = task_cred(t)->euid;
	}
	lock_release(&o->lock);
	pid_put(p);
	return 0;
}

int file_owner_set(struct task *t, struct file *f, int type, int nr)
{
	struct pid *p = NULL;

	if (nr) {
		lock_acquire(&t->k->tasks_lock);
		p = pid_find(t->pid_ns, nr);
		if (p && names_owner(p, type))
			pid_get(p);
		else
			p = NULL;
		lock_release(&t->k->tasks_lock);
		if (!p)
			return -ESRCH;
	}
	return owner_change(t, f, type, p, 0);
}

int file_owner_set_default(struct task *t, struct file *f)
{
	return owner_change(t, f, F_OWNER_PID, pid_get(t->tg->pid), 1);
}

int file_owner_get(struct task *t, struct file *f, int *type)
{
	struct owner *o = owner_of(f);
	struct pid *p = NULL;
	int nr = 0, kind = F_OWNER_TID;

	if (o) {
		lock_acquire(&o->lock);
		if (o->pid)
			p = pid_get(o->pid);
		kind = o->type;
		lock_release(&o->lock);
	}
	if (p) {
		lock_acquire(&t->k->tasks_lock);
		if (names_owner(p, kind))
			nr = pid_nr_in(p, t->pid_ns);
		lock_release(&t->k->tasks_lock);
		pid_put(p);
	}
	if (type)
		*type = nr ? kind : F_OWNER_TID;
	return nr;
}

void file_owner_uids(struct file *f, uint32_t ids[2])
{
	struct owner *o = owner_of(f);

	ids[0] = ids[1] = 0;
	if (!o)
		return;
	lock_acquire(&o->lock);
	ids[0] = o->uid;
	ids[1] = o->euid;
	lock_release(&o->lock);
}

int file_owner_set_signal(struct file *f, int signo)
{
	struct owner *o = signo ? owner_make(f) : owner_of(f);

	if (!o)
		return signo ? -ENOMEM : 0;
	lock_acquire(&o->lock);
	o->signo = signo;
	lock_release(&o->lock);
	return 0;
}

int file_owner_signal(struct file *f)
{
	struct owner *o = owner_of(f);
	int signo = 0;

	if (o) {
		lock_acquire(&o->lock);
		signo = o->signo;
		lock_release(&o->lock);
	}
	return signo;
}

/* ---- sending ---- */

/* Might the one who set the owner signal it now (sigio_perm)? */
static int may_send(const struct event *e, const struct cred *to)
{
	return to && (!e->euid || e->euid == to->suid || e->euid == to->uid ||
		      e->uid == to->suid || e->uid == to->uid);
}

/* Signals that use si_code for their own purposes must not seem to. */
static int has_own_codes(int signo)
{
	return signo == SIGILL || signo == SIGFPE || signo == SIGSEGV || signo == SIGBUS ||
	       signo == SIGTRAP || signo == SIGCHLD || signo == SIGSYS;
}

static void fill_info(const struct event *e, siginfo_t *si)
{
	static const short bands[] = {
		[POLL_IN] = POLLIN | POLLRDNORM,
		[POLL_OUT] = POLLOUT | POLLWRNORM | POLLWRBAND,
		[POLL_MSG] = POLLIN | POLLRDNORM | POLLMSG,
		[POLL_ERR] = POLLERR,
		[POLL_PRI] = POLLPRI | POLLRDBAND,
		[POLL_HUP] = POLLHUP | POLLERR,
	};

	siginfo_kernel(si, e->signo ? e->signo : SIGIO);
	if (!e->signo)
		return;
	si->si_code = has_own_codes(e->signo) ? SI_SIGIO : e->reason;
	si->si_band = bands[e->reason];
	si->si_fd = e->fd;
}

/* To one thread, or with `one` NULL to the process. A full queue leaves the plain signal. */
static void send_locked(const struct event *e, struct thread_group *tg, struct task *one)
{
	struct task *to = one ? one : tg->leader;
	siginfo_t si;

	if (!to || !may_send(e, to->cred))
		return;
	fill_info(e, &si);
	if (one ? signal_send_task_locked(one, &si) : signal_send_group_locked(tg, &si)) {
		siginfo_kernel(&si, SIGIO);
		if (one)
			signal_send_task_locked(one, &si);
		else
			signal_send_group_locked(tg, &si);
	}
}

static void send(const struct event *e)
{
	struct thread_group *tg, *tmp;

	lock_acquire(&g_kernel->tasks_lock);
	if (e->type == F_OWNER_PGRP) {
		list_for_each_safe(tg, tmp, &e->pid->pgrp_members, pgrp_node)
			send_locked(e, tg, NULL);
	} else if (e->type == F_OWNER_TID) {
		if (e->pid->task)
			send_locked(e, e->pid->task->tg, e->pid->task);
	} else if (e->pid->tg) {
		send_locked(e, e->pid->tg, NULL);
	}
	lock_release(&g_kernel->tasks_lock);
}

static void send_all(void)
{
	for (;;) {
		struct event *e = NULL;

		lock_acquire(&g_sigio.lock);
		if (!list_empty(&g_sigio.events)) {
			e = list_first(&g_sigio.events, struct event, node);
			list_del(&e->node);
			g_sigio.count--;
		}
		lock_release(&g_sigio.lock);
		if (!e)
			return;
		send(e);
		pid_put(e->pid);
		free(e);
	}
}

static void *sender(void *arg)
{
	(void)arg;
	for (;;) {
		while (sem_wait(&g_sigio.kick))
			;
		send_all();
	}
	return NULL;
}

void sigio_flush(struct task *t)
{
	__atomic_fetch_and(&t->work, ~(uint32_t)TASK_WORK_SIGIO, __ATOMIC_SEQ_CST);
	send_all();
}

void sigio_raise(struct file *f, int fd, int reason)
{
	struct owner *o = owner_of(f);
	struct event *e = o ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return;
	lock_acquire(&o->lock);
	if (o->pid)
		e->pid = pid_get(o->pid);
	e->type = o->type;
	e->signo = o->signo;
	e->uid = o->uid;
	e->euid = o->euid;
	lock_release(&o->lock);
	e->fd = fd;
	e->reason = reason;
	if (e->pid) {
		lock_acquire(&g_sigio.lock);
		if (g_sigio.count < EVENTS_MAX) {
			g_sigio.count++;
			list_add_tail(&e->node, &g_sigio.events);
			e = NULL;
		}
		lock_release(&g_sigio.lock);
	}
	if (e) {
		pid_put(e->pid);
		free(e);
		return;
	}
	if (current)
		__atomic_fetch_or(&current->work, TASK_WORK_SIGIO, __ATOMIC_SEQ_CST);
	else
		sem_post(&g_sigio.kick);
}
