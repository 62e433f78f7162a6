/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SECCOMP_RET_USER_NOTIF: calls that a supervisor process decides. Its end is a file; RECV takes
 * the next call, SEND answers one by id, ADDFD installs a file in the caller's table.
 *
 * Theory of operation. A caller's notification lives on its stack and in the listener's list:
 * NEW until received, SENT until answered, DONE. The caller leaves the list itself, under the
 * listener's lock, whether answered, interrupted or killed; a supervisor that answers too late
 * finds no such id (ENOENT).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sentry/fd/fdtable.h"
#include "sentry/seccomp/seccomp.h"

enum notif_state { NOTIF_NEW, NOTIF_SENT, NOTIF_DONE };

struct notif {
	struct list_head node;
	uint64_t id;
	struct task *task;
	const struct seccomp_data *data;
	enum notif_state state;
	int64_t val;
	int32_t error;
	uint32_t flags;
};

struct seccomp_listener {
	struct ref ref;
	struct lock lock;	 /* RANK_IPC */
	struct list_head notifs; /* [lock] oldest first */
	uint64_t next_id;	 /* [lock] */
	int closed;		 /* [lock] the supervisor closed its file: calls give ENOSYS */
	int filter_gone;	 /* [a] */
	struct waitq wq;
};

struct seccomp_listener *seccomp_listener_new(void)
{
	struct seccomp_listener *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	ref_init(&l->ref);
	lock_init(&l->lock, RANK_IPC);
	list_init(&l->notifs);
	l->next_id = 1;
	waitq_init(&l->wq);
	return l;
}

void seccomp_listener_put(struct seccomp_listener *l)
{
	if (l && ref_put(&l->ref)) {
		waitq_destroy(&l->wq);
		lock_destroy(&l->lock);
		free(l);
	}
}

void seccomp_listener_filter_gone(struct seccomp_listener *l)
{
	__atomic_store_n(&l->filter_gone, 1, __ATOMIC_RELEASE);
	waitq_wake(&l->wq, POLLHUP);
}

static int state_now(struct seccomp_listener *l, struct notif *n)
{
	lock_acquire(&l->lock);
	int state = n->state;

	lock_release(&l->lock);
	return state;
}

int seccomp_ask(struct task *t, struct seccomp_listener *l, const struct seccomp_data *data,
		int killable_once_received)
{
	struct notif n = { .task = t, .data = data, .state = NOTIF_NEW };
	int err = 0, state;

	lock_acquire(&l->lock);
	if (l->closed) {
		lock_release(&l->lock);
		t->regs.rax = (uint64_t)-ENOSYS;
		return 1;
	}
	n.id = l->next_id++;
	list_add_tail(&n.node, &l->notifs);
	lock_release(&l->lock);
	waitq_wake(&l->wq, POLLIN | POLLRDNORM);

	while ((state = state_now(l, &n)) != NOTIF_DONE) {
		if (killable_once_received && state == NOTIF_SENT)
			err = task_sleep_killable(t, NO_DEADLINE);
		else
			err = task_sleep(t, NO_DEADLINE);
		if (err)
			break;
	}
	lock_acquire(&l->lock);
	list_del(&n.node);
	lock_release(&l->lock);
	if (n.state != NOTIF_DONE) {
		t->regs.rax = (uint64_t)-ERESTARTSYS;
		return 1;
	}
	if (n.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE)
		return 0;
	t->regs.rax = n.error ? (uint64_t)(int64_t)n.error : (uint64_t)n.val;
	return 1;
}

/* ---- the supervisor's side ---- */

static struct notif *find_locked(struct seccomp_listener *l, uint64_t id)
{
	struct notif *n;

	list_for_each(n, &l->notifs, node)
		if (n->id == id)
			return n;
	return NULL;
}

static struct notif *first_new_locked(struct seccomp_listener *l)
{
	struct notif *n;

	list_for_each(n, &l->notifs, node)
		if (n->state == NOTIF_NEW)
			return n;
	return NULL;
}

static int all_zero(const void *p, size_t n)
{
	const char *c = p;

	for (size_t i = 0; i < n; i++)
		if (c[i])
			return 0;
	return 1;
}

/* Waits for a call and describes it in *out; its id stays claimed. */
static int take(struct file *f, struct seccomp_listener *l, struct seccomp_notif *out)
{
	struct notif *n;

	for (;;) {
		lock_acquire(&l->lock);
		n = first_new_locked(l);
		if (n) {
			n->state = NOTIF_SENT;
			memset(out, 0, sizeof(*out));
			out->id = n->id;
			out->pid = (uint32_t)task_tid_for(n->task, current);
			out->data = *n->data;
			lock_release(&l->lock);
			/* WAIT_KILLABLE_RECV: from now on only death ends the wait. */
			return 0;
		}
		lock_release(&l->lock);
		if (__atomic_load_n(&l->filter_gone, __ATOMIC_ACQUIRE))
			return -ENOENT;
		if (f->flags & O_NONBLOCK)
			return -EAGAIN;
		int err = task_wait_file(current, f, POLLIN, NO_DEADLINE);

		if (err)
			return err;
	}
}

static long ioctl_recv(struct file *f, struct ioctl_req *r)
{
	struct seccomp_listener *l = f->priv;
	struct seccomp_notif out;
	struct notif *n;
	int err;

	if (r->copy_in(r, &out, r->arg, sizeof(out)))
		return -EFAULT;
	if (!all_zero(&out, sizeof(out)))
		return -EINVAL;
	err = take(f, l, &out);
	if (err)
		return err;
	waitq_wake(&l->wq, POLLOUT | POLLWRNORM);
	if (!r->copy_out(r, r->arg, &out, sizeof(out)))
		return 0;
	/* Nobody saw it: somebody else may. */
	lock_acquire(&l->lock);
	n = find_locked(l, out.id);
	if (n && n->state == NOTIF_SENT)
		n->state = NOTIF_NEW;
	lock_release(&l->lock);
	waitq_wake(&l->wq, POLLIN);
	return -EFAULT;
}

static long ioctl_send(struct file *f, struct ioctl_req *r)
{
	struct seccomp_listener *l = f->priv;
	struct seccomp_notif_resp resp;
	struct notif *n;
	long ret = 0;

	if (r->copy_in(r, &resp, r->arg, sizeof(resp)))
		return -EFAULT;
	if (resp.flags & ~SECCOMP_USER_NOTIF_FLAG_CONTINUE)
		return -EINVAL;
	if ((resp.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE) && (resp.error || resp.val))
		return -EINVAL;
	lock_acquire(&l->lock);
	n = find_locked(l, resp.id);
	if (!n) {
		ret = -ENOENT;
	} else if (n->state != NOTIF_SENT) {
		ret = -EINPROGRESS;
	} else {
		n->val = resp.val;
		n->error = resp.error;
		n->flags = resp.flags;
		n->state = NOTIF_DONE;
		/* Under the lock: the caller can not be gone. */
		task_wake(n->task);
	}
	lock_release(&l->lock);
	return ret;
}

static long ioctl_id_valid(struct file *f, struct ioctl_req *r)
{
	struct seccomp_listener *l = f->priv;
	struct notif *n;
	uint64_t id;

	if (r->copy_in(r, &id, r->arg, sizeof(id)))
		return -EFAULT;
	lock_acquire(&l->lock);
	n = find_locked(l, id);
	int ok = n && n->state == NOTIF_SENT;

	lock_release(&l->lock);
	return ok ? 0 : -ENOENT;
}

/* The caller of notification id, waiting for its answer: a reference, or NULL. */
static struct task *waiting_task(struct seccomp_listener *l, uint64_t id, int *err)
{
	struct task *t = NULL;
	struct notif *n;

	lock_acquire(&l->lock);
	n = find_locked(l, id);
	if (!n)
		*err = -ENOENT;
	else if (n->state != NOTIF_SENT)
		*err = -EINPROGRESS;
	else
		t = task_get(n->task);
	lock_release(&l->lock);
	return t;
}

static int install(struct task *target, struct file *src, const struct seccomp_notif_addfd *a)
{
	int fd = fd_install(target, src, 0, a->newfd_flags & O_CLOEXEC), err;

	if (fd < 0)
		return fd;
	if (!(a->flags & SECCOMP_ADDFD_FLAG_SETFD) || (uint32_t)fd == a->newfd)
		return fd;
	err = fd_dup2(target, fd, (int)a->newfd, a->newfd_flags & O_CLOEXEC, 1);
	fd_close(target, fd);
	return err;
}

static long ioctl_addfd(struct file *f, struct ioctl_req *r)
{
	struct seccomp_listener *l = f->priv;
	struct seccomp_notif_addfd a;
	struct task *target;
	struct file *src;
	struct notif *n;
	int fd = 0;

	if (r->copy_in(r, &a, r->arg, sizeof(a)))
		return -EFAULT;
	if ((a.newfd_flags & ~(uint32_t)O_CLOEXEC) ||
	    (a.flags & ~(uint32_t)(SECCOMP_ADDFD_FLAG_SETFD | SECCOMP_ADDFD_FLAG_SEND)) ||
	    (a.newfd && !(a.flags & SECCOMP_ADDFD_FLAG_SETFD)))
		return -EINVAL;
	src = fd_get(current, (int)a.srcfd);
	if (!src)
		return -EBADF;
	target = waiting_task(l, a.id, &fd);
	if (!target) {
		file_put(src);
		return fd;
	}
	fd = install(target, src, &a);
	if (fd < 0)
		file_put(src);
	task_put(target);
	if (fd < 0 || !(a.flags & SECCOMP_ADDFD_FLAG_SEND))
		return fd;
	lock_acquire(&l->lock);
	n = find_locked(l, a.id);
	if (n && n->state == NOTIF_SENT) {
		n->val = fd;
		n->state = NOTIF_DONE;
		task_wake(n->task);
	}
	lock_release(&l->lock);
	return fd;
}

static long listener_ioctl(struct file *f, struct ioctl_req *r)
{
	switch (r->cmd) {
	case SECCOMP_IOCTL_NOTIF_RECV:
		return ioctl_recv(f, r);
	case SECCOMP_IOCTL_NOTIF_SEND:
		return ioctl_send(f, r);
	case SECCOMP_IOCTL_NOTIF_ID_VALID:
	case SECCOMP_IOR(2, __u64): /* the direction it had at first */
		return ioctl_id_valid(f, r);
	case SECCOMP_IOCTL_NOTIF_ADDFD:
		return ioctl_addfd(f, r);
	}
	return -EINVAL;
}

static uint32_t listener_poll(struct file *f, struct poll_table *pt)
{
	struct seccomp_listener *l = f->priv;
	uint32_t ev = 0;
	struct notif *n;

	poll_wait(pt, &l->wq);
	lock_acquire(&l->lock);
	list_for_each(n, &l->notifs, node) {
		if (n->state == NOTIF_NEW)
			ev |= POLLIN | POLLRDNORM;
		if (n->state == NOTIF_SENT)
			ev |= POLLOUT | POLLWRNORM;
	}
	lock_release(&l->lock);
	if (__atomic_load_n(&l->filter_gone, __ATOMIC_ACQUIRE))
		ev |= POLLHUP;
	return ev;
}

/* Without a supervisor waiting callers get ENOSYS. */
static void listener_release(struct file *f)
{
	struct seccomp_listener *l = f->priv;
	struct notif *n;

	lock_acquire(&l->lock);
	l->closed = 1;
	list_for_each(n, &l->notifs, node) {
		if (n->state == NOTIF_DONE)
			continue;
		n->error = -ENOSYS;
		n->state = NOTIF_DONE;
		task_wake(n->task);
	}
	lock_release(&l->lock);
	seccomp_listener_put(l);
}

static const struct file_ops g_listener_ops = {
	.ioctl = listener_ioctl,
	.poll = listener_poll,
	.release = listener_release,
};

struct file *seccomp_listener_file(struct task *t, struct seccomp_listener *l)
{
	struct file *f =
		file_new_anon(t->k->vfs, "anon_inode:seccomp notify", &g_listener_ops, l, O_RDWR,
			      FMODE_READ | FMODE_WRITE | FMODE_STREAM, task_cred(t));

	if (!IS_ERR(f))
		ref_get(&l->ref);
	return f;
}
