/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pidfds and the calls on them: pidfd_open, pidfd_send_signal, pidfd_getfd. A pidfd polls readable
 * once its process is a zombie, and hangs up once it has been reaped.
 */
#include "sentry/task/pidfd.h"

#include <fcntl.h>
#include <string.h>

#include "sentry/syscall/syscall.h"
#include "sentry/task/task_priv.h"
#include "vfs/proc/proc.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif
#ifndef PIDFD_SIGNAL_THREAD
#define PIDFD_SIGNAL_THREAD 1u
#define PIDFD_SIGNAL_THREAD_GROUP 2u
#define PIDFD_SIGNAL_PROCESS_GROUP 4u
#endif

static uint32_t pidfd_poll(struct file *f, struct poll_table *pt)
{
	struct pid *p = f->priv;
	uint32_t mask = 0;

	poll_wait(pt, &p->exit_wait);
	lock_acquire(&g_kernel->tasks_lock);
	if (f->flags & PIDFD_THREAD) {
		if (!p->task)
			mask = POLLIN | POLLRDNORM | POLLHUP;
		else if (p->task->state == TASK_DEAD)
			mask = POLLIN | POLLRDNORM;
	} else if (!p->tg) {
		mask = POLLIN | POLLRDNORM | POLLHUP;
	} else if (p->tg->group_flags & TG_ZOMBIE) {
		mask = POLLIN | POLLRDNORM;
	}
	lock_release(&g_kernel->tasks_lock);
	return mask;
}

static void pidfd_release(struct file *f)
{
	pid_put(f->priv);
}

static void pidfd_show_fdinfo(struct file *f, struct strbuf *sb)
{
	struct pid *p = f->priv;
	int nr = current ? pid_nr_in(p, current->pid_ns) : p->numbers[0].nr;

	lock_acquire(&g_kernel->tasks_lock);
	if (!p->tg && !p->task)
		nr = -1;
	lock_release(&g_kernel->tasks_lock);
	strbuf_printf(sb, "Pid:\t%d\nNSpid:\t%d", nr, nr);
	for (int i = current ? current->pid_ns->level + 1 : 1; nr > 0 && i <= p->level; i++)
		strbuf_printf(sb, "\t%d", p->numbers[i].nr);
	strbuf_putc(sb, '\n');
}

static const struct file_ops g_pidfd_ops = {
	.poll = pidfd_poll,
	.release = pidfd_release,
	.show_fdinfo = pidfd_show_fdinfo,
};

struct file *pidfd_new(struct task *t, struct pid *p, uint32_t flags)
{
	struct file *f = file_new_anon(t->k->vfs, "anon_inode:[pidfd]", &g_pidfd_ops, pid_get(p),
				       O_RDWR | flags, FMODE_READ | FMODE_WRITE | FMODE_STREAM,
				       task_cred(t));

	if (IS_ERR(f))
		pid_put(p);
	return f;
}

struct pid *pidfd_file_pid(struct file *f)
{
	return f->ops == &g_pidfd_ops ? f->priv : NULL;
}

struct pid *pidfd_get_pid(struct task *t, int fd, uint32_t *flags)
{
	struct file *f = fd_get(t, fd);
	struct pid *p = f ? pidfd_file_pid(f) : NULL;

	if (p) {
		pid_get(p);
		if (flags)
			*flags = f->flags;
	}
	if (f)
		file_put(f);
	return p ? p : ERR_PTR(-EBADF);
}

/* A signal may also be sent through an open /proc/PID directory (tgid_pidfd_to_pid). */
static struct pid *signal_target(struct task *t, int fd, uint32_t *flags)
{
	struct file *f = fd_get(t, fd);
	struct pid *p = f ? pidfd_file_pid(f) : NULL;

	if (p) {
		*flags = f->flags;
		pid_get(p);
	} else if (f) {
		struct task *of = proc_dir_task(f);

		if (of)
			p = pid_get(of->tg->pid);
	}
	if (f)
		file_put(f);
	return p ? p : ERR_PTR(-EBADF);
}

SYSCALL_HANDLER(pidfd_open)
{
	int nr = (int)a->a[0], fd, err = 0;
	uint32_t flags = (uint32_t)a->a[1];
	struct pid *p;
	struct file *f;

	if (flags & ~(uint32_t)(O_NONBLOCK | PIDFD_THREAD))
		return -EINVAL;
	if (nr <= 0)
		return -EINVAL;
	lock_acquire(&t->k->tasks_lock);
	p = pid_find(t->pid_ns, nr);
	if (!p || (!p->tg && !p->task))
		err = -ESRCH;
	else if (!(flags & PIDFD_THREAD) && !p->tg)
		err = -ENOENT; /* a thread that is no process; older kernels said EINVAL */
	else
		pid_get(p);
	lock_release(&t->k->tasks_lock);
	if (err)
		return err;
	f = pidfd_new(t, p, flags);
	pid_put(p);
	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = fd_install(t, f, 0, O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* The siginfo of pidfd_send_signal: the caller may not pose as the kernel or as another. */
static int signal_info_from(struct task *t, uint64_t addr, int signo, struct pid *target,
			    siginfo_t *si)
{
	if (!addr) {
		siginfo_user(si, signo, t, NULL);
		return 0;
	}
	if (copy_from_user(t, si, addr, sizeof(*si)))
		return -EFAULT;
	if (si->si_signo != signo)
		return -EINVAL;
	if (target != t->tg->pid && (si->si_code >= 0 || si->si_code == SI_TKILL))
		return -EPERM;
	return 0;
}

static long send_to_pid(struct task *t, struct pid *p, int signo, const siginfo_t *si,
			uint32_t how)
{
	struct thread_group *tg, *tmp;
	long r = -ESRCH;

	lock_acquire(&t->k->tasks_lock);
	if (how == PIDFD_SIGNAL_PROCESS_GROUP) {
		list_for_each_safe(tg, tmp, &p->pgrp_members, pgrp_node) {
			long e = signal_may_send_locked(t, tg, signo);

			if (!e && signo)
				e = signal_send_group_locked(tg, si);
			if (r)
				r = e;
		}
	} else {
		struct task *one = how == PIDFD_SIGNAL_THREAD ? p->task : NULL;

		tg = one ? one->tg : p->tg;
		if (tg && (how != PIDFD_SIGNAL_THREAD || one)) {
			r = signal_may_send_locked(t, tg, signo);
			if (!r && signo)
				r = one ? signal_send_task_locked(one, si) :
					  signal_send_group_locked(tg, si);
		}
	}
	lock_release(&t->k->tasks_lock);
	return r;
}

SYSCALL_HANDLER(pidfd_send_signal)
{
	int signo = (int)a->a[1];
	uint32_t how = (uint32_t)a->a[3], file_flags = 0;
	siginfo_t si;
	struct pid *p;
	long r;

	if (how & ~7u || (how & (how - 1)))
		return -EINVAL;
	p = signal_target(t, (int)a->a[0], &file_flags);
	if (IS_ERR(p))
		return PTR_ERR(p);
	if (!how)
		how = file_flags & PIDFD_THREAD ? PIDFD_SIGNAL_THREAD : PIDFD_SIGNAL_THREAD_GROUP;
	r = signal_info_from(t, a->a[2], signo, p, &si);
	if (!r && (signo < 0 || signo > LINUX_NSIG))
		r = -EINVAL;
	if (!r && !pid_nr_in(p, t->pid_ns))
		r = -EINVAL;
	if (!r)
		r = send_to_pid(t, p, signo, &si, how);
	pid_put(p);
	return r;
}

SYSCALL_HANDLER(pidfd_getfd)
{
	struct fdtable *files = NULL;
	struct task *target = NULL;
	struct file *f = NULL;
	struct pid *p;
	long r;

	if (a->a[2] & 0xffffffffu)
		return -EINVAL;
	p = pidfd_get_pid(t, (int)a->a[0], NULL);
	if (IS_ERR(p))
		return PTR_ERR(p);
	lock_acquire(&t->k->tasks_lock);
	if (p->task)
		target = task_get(p->task);
	lock_release(&t->k->tasks_lock);
	r = target ? task_may_access(t, target, 1) : -ESRCH;
	if (!r) {
		lock_acquire(&t->k->tasks_lock);
		if (target->files)
			files = fdtable_get(target->files);
		lock_release(&t->k->tasks_lock);
		r = files ? 0 : -ESRCH;
	}
	if (!r) {
		f = fdtable_file(files, (int)a->a[1], NULL);
		r = f ? fd_install(t, f, 0, O_CLOEXEC) : -EBADF;
		if (f && r < 0)
			file_put(f);
	}
	if (files)
		fdtable_put(files);
	if (target)
		task_put(target);
	pid_put(p);
	return r;
}
