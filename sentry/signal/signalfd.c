/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signalfd(2). The file holds a mask only: read and poll look at the queues of whoever calls, as on
 * Linux. A poller waits on its own task's signalfd_wait, which every signal of its process wakes.
 */
#include "sentry/signal/signalfd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "sentry/signal/signal_priv.h"

struct signalfd {
	linux_sigset_t mask; /* [a] */
};

static int info_is_timer(const siginfo_t *si)
{
	return si->si_code == SI_TIMER;
}

/* The fields each kind of siginfo has (signalfd_copyinfo). */
static void fill(struct signalfd_siginfo *o, const siginfo_t *si)
{
	memset(o, 0, sizeof(*o));
	o->ssi_signo = (uint32_t)si->si_signo;
	o->ssi_errno = si->si_errno;
	o->ssi_code = si->si_code;
	if (info_is_timer(si)) {
		o->ssi_tid = (uint32_t)si->si_timerid;
		o->ssi_overrun = (uint32_t)si->si_overrun;
		o->ssi_ptr = (uint64_t)(uintptr_t)si->si_ptr;
		o->ssi_int = si->si_int;
		return;
	}
	if (si->si_code > 0 && si->si_code != SI_KERNEL) {
		switch (si->si_signo) {
		case SIGCHLD:
			o->ssi_pid = (uint32_t)si->si_pid;
			o->ssi_uid = si->si_uid;
			o->ssi_status = si->si_status;
			o->ssi_utime = (uint64_t)si->si_utime;
			o->ssi_stime = (uint64_t)si->si_stime;
			return;
		case SIGPOLL:
			o->ssi_band = (uint32_t)si->si_band;
			o->ssi_fd = si->si_fd;
			return;
		case SIGILL:
		case SIGFPE:
		case SIGSEGV:
		case SIGBUS:
		case SIGTRAP:
			o->ssi_addr = (uint64_t)(uintptr_t)si->si_addr;
			if (si->si_signo == SIGBUS)
				o->ssi_addr_lsb = (uint16_t)si->si_addr_lsb;
			return;
		case SIGSYS:
			o->ssi_call_addr = (uint64_t)(uintptr_t)si->si_call_addr;
			o->ssi_syscall = si->si_syscall;
			o->ssi_arch = si->si_arch;
			return;
		}
	}
	o->ssi_pid = (uint32_t)si->si_pid;
	o->ssi_uid = si->si_uid;
	if (si->si_code < 0) {
		o->ssi_ptr = (uint64_t)(uintptr_t)si->si_ptr;
		o->ssi_int = si->si_int;
	}
}

static ssize_t signalfd_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct signalfd *s = f->priv;
	struct task *t = current;
	ssize_t total = 0;

	(void)pos;
	if (u->left < sizeof(struct signalfd_siginfo))
		return -EINVAL;
	while (t && u->left >= sizeof(struct signalfd_siginfo)) {
		struct signalfd_siginfo out;
		siginfo_t si;

		lock_acquire(&t->k->tasks_lock);
		int signo = signal_dequeue_locked(t, ~__atomic_load_n(&s->mask, __ATOMIC_RELAXED),
						  &si, 0);

		lock_release(&t->k->tasks_lock);
		if (!signo)
			break;
		fill(&out, &si);
		ssize_t n = uio_copy_out(u, &out, sizeof(out));

		if (n != (ssize_t)sizeof(out))
			return total ? total : -EFAULT;
		total += n;
	}
	return total ? total : -EAGAIN;
}

static uint32_t signalfd_poll(struct file *f, struct poll_table *pt)
{
	struct signalfd *s = f->priv;
	struct task *t = current;
	uint32_t ev = 0;

	if (!t)
		return 0;
	poll_wait(pt, &t->signalfd_wait);
	lock_acquire(&t->k->tasks_lock);
	if ((t->pending.set | t->tg->pending.set) & __atomic_load_n(&s->mask, __ATOMIC_RELAXED))
		ev = POLLIN;
	lock_release(&t->k->tasks_lock);
	return ev;
}

static void signalfd_release(struct file *f)
{
	free(f->priv);
}

static void signalfd_fdinfo(struct file *f, struct strbuf *sb)
{
	struct signalfd *s = f->priv;

	strbuf_printf(sb, "sigmask:\t%016llx\n", (unsigned long long)s->mask);
}

static const struct file_ops g_signalfd_ops = {
	.read = signalfd_read,
	.poll = signalfd_poll,
	.release = signalfd_release,
	.show_fdinfo = signalfd_fdinfo,
};

struct file *signalfd_new(struct task *t, linux_sigset_t mask, uint32_t flags)
{
	struct signalfd *s = calloc(1, sizeof(*s));
	struct file *f;

	if (!s)
		return ERR_PTR(-ENOMEM);
	s->mask = mask & ~SIG_KERNEL_ONLY_MASK;
	f = file_new_anon(t->k->vfs, "anon_inode:[signalfd]", &g_signalfd_ops, s, O_RDWR | flags,
			  FMODE_READ | FMODE_STREAM, task_cred(t));
	if (IS_ERR(f))
		free(s);
	return f;
}

int signalfd_set_mask(struct file *f, linux_sigset_t mask)
{
	struct signalfd *s = f->priv;

	if (f->ops != &g_signalfd_ops)
		return -EINVAL;
	__atomic_store_n(&s->mask, mask & ~SIG_KERNEL_ONLY_MASK, __ATOMIC_RELAXED);
	/* What is pending already may be wanted now. */
	if (current)
		waitq_wake(&current->signalfd_wait, POLLIN);
	return 0;
}
