/* SPDX-License-Identifier: Apache-2.0 */
/* Signal calls: argument checks and copying; the work is in sentry/signal. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/signalfd.h>

#include "platform/abi/sigframe.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal_priv.h"
#include "sentry/signal/signalfd.h"
#include "sentry/syscall/syscall.h"
#include "sentry/time/timers.h"

SYSCALL_HANDLER(rt_sigaction)
{
	struct linux_sigaction sa, old;
	int signo = (int)a->a[0], err;

	if (a->a[3] != sizeof(linux_sigset_t))
		return -EINVAL;
	if (a->a[1] && copy_from_user(t, &sa, a->a[1], sizeof(sa)))
		return -EFAULT;
	err = signal_set_action(t, signo, a->a[1] ? &sa : NULL, &old);
	if (err)
		return err;
	if (a->a[2] && copy_to_user(t, a->a[2], &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(rt_sigprocmask)
{
	linux_sigset_t set, old = t->blocked;
	int err;

	if (a->a[3] != sizeof(linux_sigset_t))
		return -EINVAL;
	if (a->a[1]) {
		err = sigset_from_user(t, a->a[1], a->a[3], &set);
		if (err)
			return err;
		switch ((int)a->a[0]) {
		case SIG_BLOCK:
			signal_set_blocked(t, old | set);
			break;
		case SIG_UNBLOCK:
			signal_set_blocked(t, old & ~set);
			break;
		case SIG_SETMASK:
			signal_set_blocked(t, set);
			break;
		default:
			return -EINVAL;
		}
	}
	if (a->a[2] && copy_to_user(t, a->a[2], &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(rt_sigreturn)
{
	signal_return(t);
	return (long)t->regs.rax;
}

SYSCALL_HANDLER(rt_sigpending)
{
	linux_sigset_t set;

	if (a->a[1] > sizeof(set))
		return -EINVAL;
	lock_acquire(&t->k->tasks_lock);
	set = (t->pending.set | t->tg->pending.set) & t->blocked;
	lock_release(&t->k->tasks_lock);
	return copy_to_user(t, a->a[0], &set, (size_t)a->a[1]);
}

/* Takes a signal of `wanted`, or waits for one until the deadline: the signal, -EAGAIN, -EINTR. */
static int wait_for_signal(struct task *t, linux_sigset_t wanted, uint64_t deadline, siginfo_t *si)
{
	int signo, err = 0;

	lock_acquire(&t->k->tasks_lock);
	while (!(signo = signal_dequeue_locked(t, ~wanted, si, 0))) {
		if (err || !deadline) {
			err = err == -ERESTARTSYS ? -EINTR : -EAGAIN;
			break;
		}
		t->waiting_for = wanted;
		signal_recalc_locked(t);
		lock_release(&t->k->tasks_lock);
		err = task_sleep(t, deadline);
		lock_acquire(&t->k->tasks_lock);
		t->waiting_for = 0;
	}
	signal_recalc_locked(t);
	lock_release(&t->k->tasks_lock);
	return signo ? signo : err;
}

SYSCALL_HANDLER(rt_sigtimedwait)
{
	linux_sigset_t wanted;
	uint64_t deadline = NO_DEADLINE, ns;
	siginfo_t si;
	int err = sigset_from_user(t, a->a[0], a->a[3], &wanted);

	if (err)
		return err;
	if (a->a[2]) {
		err = timespec_from_user(t, a->a[2], &ns);
		if (err)
			return err;
		deadline = ns ? deadline_add(mono_now_ns(), ns) : 0;
	}
	err = wait_for_signal(t, wanted & ~SIG_KERNEL_ONLY_MASK, deadline, &si);
	if (err > 0 && a->a[1] && copy_to_user(t, a->a[1], &si, sizeof(si)))
		return -EFAULT;
	return err;
}

SYSCALL_HANDLER(rt_sigsuspend)
{
	linux_sigset_t mask;
	int err = sigset_from_user(t, a->a[0], a->a[1], &mask);

	if (err)
		return err;
	signal_set_temporary_mask(t, mask);
	while (task_sleep(t, NO_DEADLINE) == 0)
		;
	return -ERESTARTNOHAND;
}

SYSCALL_HANDLER(pause)
{
	while (task_sleep(t, NO_DEADLINE) == 0)
		;
	return -ERESTARTNOHAND;
}

SYSCALL_HANDLER(sigaltstack)
{
	stack_t ss, old = t->altstack;
	uint64_t sp = t->regs.rsp;
	int err;

	old.ss_flags = (int)((uint32_t)altstack_state(t, sp) |
			     ((uint32_t)t->altstack.ss_flags & LINUX_SS_AUTODISARM));
	if (a->a[0]) {
		if (copy_from_user(t, &ss, a->a[0], sizeof(ss)))
			return -EFAULT;
		err = altstack_set(t, &ss, sp, LINUX_MINSIGSTKSZ);
		if (err)
			return err;
	}
	if (a->a[1] && copy_to_user(t, a->a[1], &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(restart_syscall)
{
	struct restart_block *rb = &t->restart;

	return rb->fn ? rb->fn(t, rb) : -EINTR;
}

/* ---- sending ---- */

/* Permission, then the signal, unless it is 0. [tasks] */
static int kill_checked_locked(struct task *t, struct thread_group *tg, int signo,
			       const siginfo_t *given)
{
	siginfo_t si;
	int err;

	if (signo < 0 || signo > LINUX_NSIG)
		return -EINVAL;
	err = signal_may_send_locked(t, tg, signo);
	if (err || !signo)
		return err;
	if (given)
		si = *given;
	else
		siginfo_user(&si, signo, t, tg->leader);
	return signal_send_group_locked(tg, &si);
}

/* A process by the number of any of its threads, or of its zombie. Returns a reference. */
static struct thread_group *group_by_number(struct task *t, int nr)
{
	struct task *o = task_find(t, nr);
	struct thread_group *tg;

	if (!o)
		return tg_find(t, nr);
	tg = tg_get(o->tg);
	task_put(o);
	return tg;
}

static int kill_one(struct task *t, int pid, int signo, const siginfo_t *si)
{
	struct thread_group *tg = group_by_number(t, pid);
	int err;

	if (!tg)
		return -ESRCH;
	lock_acquire(&t->k->tasks_lock);
	err = kill_checked_locked(t, tg, signo, si);
	lock_release(&t->k->tasks_lock);
	tg_put(tg);
	return err;
}

static int kill_pgrp(struct task *t, int nr, int signo)
{
	int err = -ESRCH, sent = 0;
	struct thread_group *tg;
	struct pid *p;

	lock_acquire(&t->k->tasks_lock);
	p = nr ? pid_find(t->pid_ns, nr) : t->tg->pgrp;
	if (p)
		list_for_each(tg, &p->pgrp_members, pgrp_node) {
			err = kill_checked_locked(t, tg, signo, NULL);
			sent |= !err;
		}
	lock_release(&t->k->tasks_lock);
	return sent ? 0 : err;
}

/* Everybody this task can see, but its own process and its namespace's init. */
static int kill_all(struct task *t, int signo)
{
	struct thread_group *tg;
	int ret = 0, count = 0;

	lock_acquire(&t->k->tasks_lock);
	list_for_each(tg, &t->k->groups, node) {
		if (tg == t->tg || pid_nr_in(tg->pid, t->pid_ns) <= 1)
			continue;
		int err = kill_checked_locked(t, tg, signo, NULL);

		count++;
		if (err != -EPERM)
			ret = err;
	}
	lock_release(&t->k->tasks_lock);
	return count ? ret : -ESRCH;
}

SYSCALL_HANDLER(kill)
{
	int pid = (int)a->a[0], signo = (int)a->a[1];

	if (pid > 0)
		return kill_one(t, pid, signo, NULL);
	if (pid == INT_MIN)
		return -ESRCH;
	if (pid == -1)
		return kill_all(t, signo);
	return kill_pgrp(t, -pid, signo);
}

/* To one thread; tgid > 0: it must belong to that process. */
static int kill_thread(struct task *t, int tgid, int tid, int signo, const siginfo_t *given)
{
	struct task *o = task_find(t, tid);
	siginfo_t si;
	int err;

	if (!o)
		return -ESRCH;
	lock_acquire(&t->k->tasks_lock);
	if (tgid > 0 && pid_nr_in(o->tg->pid, t->pid_ns) != tgid)
		err = -ESRCH;
	else if (signo < 0 || signo > LINUX_NSIG)
		err = -EINVAL;
	else
		err = signal_may_send_locked(t, o->tg, signo);
	if (!err && signo) {
		if (given) {
			si = *given;
		} else {
			siginfo_user(&si, signo, t, o);
			si.si_code = SI_TKILL;
		}
		err = signal_send_task_locked(o, &si);
	}
	lock_release(&t->k->tasks_lock);
	task_put(o);
	return err;
}

SYSCALL_HANDLER(tkill)
{
	if ((int)a->a[0] <= 0)
		return -EINVAL;
	return kill_thread(t, 0, (int)a->a[0], (int)a->a[1], NULL);
}

SYSCALL_HANDLER(tgkill)
{
	if ((int)a->a[0] <= 0 || (int)a->a[1] <= 0)
		return -EINVAL;
	return kill_thread(t, (int)a->a[0], (int)a->a[1], (int)a->a[2], NULL);
}

#define SIGINFO_KNOWN_SIZE 48 /* bytes of siginfo the kernel itself uses */
#define SI_DETHREAD_CODE   (-7)
#define SI_ASYNCNL_CODE	   (-60)

/* Copies a siginfo in; bytes no known layout uses must be zero (post_copy_siginfo_from_user). */
static int siginfo_from_user(struct task *t, uint64_t addr, int signo, siginfo_t *si)
{
	const char *p = (const char *)si;

	if (copy_from_user(t, si, addr, sizeof(*si)))
		return -EFAULT;
	si->si_signo = signo;
	if (si->si_code >= SI_DETHREAD_CODE || si->si_code == SI_ASYNCNL_CODE)
		return 0;
	for (size_t i = SIGINFO_KNOWN_SIZE; i < sizeof(*si); i++)
		if (p[i])
			return -E2BIG;
	return 0;
}

SYSCALL_HANDLER(rt_sigqueueinfo)
{
	int pid = (int)a->a[0], signo = (int)a->a[1];
	siginfo_t si;
	int err = siginfo_from_user(t, a->a[2], signo, &si);

	if (err)
		return err;
	/* Nobody may pretend to be the kernel, or kill(2), towards others. */
	if ((si.si_code >= 0 || si.si_code == SI_TKILL) && task_tid(t) != pid)
		return -EPERM;
	return kill_one(t, pid, signo, &si);
}

SYSCALL_HANDLER(rt_tgsigqueueinfo)
{
	int tgid = (int)a->a[0], tid = (int)a->a[1], signo = (int)a->a[2];
	siginfo_t si;
	int err = siginfo_from_user(t, a->a[3], signo, &si);

	if (err)
		return err;
	if (tgid <= 0 || tid <= 0)
		return -EINVAL;
	if ((si.si_code >= 0 || si.si_code == SI_TKILL) && task_tid(t) != tid)
		return -EPERM;
	return kill_thread(t, tgid, tid, signo, &si);
}

/* ---- signalfd ---- */

static long do_signalfd(struct task *t, int fd, uint64_t mask_addr, uint64_t size, int flags)
{
	linux_sigset_t mask;
	struct file *f;
	int err;

	if (flags & ~(SFD_CLOEXEC | SFD_NONBLOCK))
		return -EINVAL;
	err = sigset_from_user(t, mask_addr, size, &mask);
	if (err)
		return err;
	if (fd == -1) {
		f = signalfd_new(t, mask, (uint32_t)(flags & SFD_NONBLOCK));
		if (IS_ERR(f))
			return PTR_ERR(f);
		err = fd_install(t, f, 0, (uint32_t)(flags & SFD_CLOEXEC));
		if (err < 0)
			file_put(f);
		return err;
	}
	f = fd_get(t, fd);
	if (!f)
		return -EBADF;
	err = signalfd_set_mask(f, mask);
	file_put(f);
	return err ? err : fd;
}

SYSCALL_HANDLER(signalfd)
{
	return do_signalfd(t, (int)a->a[0], a->a[1], a->a[2], 0);
}

SYSCALL_HANDLER(signalfd4)
{
	return do_signalfd(t, (int)a->a[0], a->a[1], a->a[2], (int)a->a[3]);
}
