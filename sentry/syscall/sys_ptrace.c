/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptrace(2): the requests of a tracer, as a table. Most want the tracee stopped; its registers are
 * then the tracer's to change. The stops themselves are sentry/ptrace.
 */
#include <elf.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"
#include "sentry/ptrace/ptrace_priv.h"
#include "sentry/syscall/syscall.h"

#define FXSAVE_SIZE 512u
#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif
#define PTRACE_GETREGS_NR	    12
#define PTRACE_SETREGS_NR	    13
#define PTRACE_GETFPREGS_NR	    14
#define PTRACE_SETFPREGS_NR	    15
#define PTRACE_ARCH_PRCTL_NR	    30
#define PTRACE_SYSEMU_NR	    31
#define PTRACE_SYSEMU_SINGLESTEP_NR 32

struct request {
	struct task *t;	     /* the tracer */
	struct task *tracee; /* a reference of the caller's */
	uint64_t addr, data;
};

/* ---- memory ---- */

static long peek_text(struct request *r)
{
	struct mm *mm = task_mm_get(r->tracee);
	uint64_t v;
	ssize_t n;

	if (!mm)
		return -EIO;
	n = mm_read(mm, &v, r->addr, sizeof(v));
	mm_put(mm);
	if (n != (ssize_t)sizeof(v))
		return -EIO;
	return put_user_u64(r->t, r->data, v);
}

static long poke_text(struct request *r)
{
	return ptrace_write_word(r->tracee, r->addr, r->data);
}

/* ---- registers ---- */

static long peek_user(struct request *r)
{
	uint64_t v;
	int err = ptrace_peek_user(r->tracee, r->addr, &v);

	return err ? err : put_user_u64(r->t, r->data, v);
}

static long poke_user(struct request *r)
{
	return ptrace_poke_user(r->tracee, r->addr, r->data);
}

static long get_regs(struct request *r)
{
	struct user_regs_struct regs;

	ptrace_get_regs(r->tracee, &regs);
	return copy_to_user(r->t, r->data, &regs, sizeof(regs));
}

static long set_regs(struct request *r)
{
	struct user_regs_struct regs;

	if (copy_from_user(r->t, &regs, r->data, sizeof(regs)))
		return -EFAULT;
	return ptrace_set_regs(r->tracee, &regs);
}

/* The FP image through a kernel copy: `size` bytes of it are the register set asked for. */
static long fp_transfer(struct request *r, uint64_t user, size_t size, int set)
{
	size_t full = platform_xstate_size(r->t->k->platform);
	uint8_t *buf = calloc(1, full);
	long err;

	if (!buf)
		return -ENOMEM;
	if (size > full)
		size = full;
	err = ptrace_get_fp(r->tracee, buf, full);
	if (!err && !set) {
		err = copy_to_user(r->t, user, buf, size);
	} else if (!err) {
		err = copy_from_user(r->t, buf, user, size);
		if (!err)
			err = ptrace_set_fp(r->tracee, buf, size == FXSAVE_SIZE ? size : full);
	}
	free(buf);
	return err;
}

static long get_fpregs(struct request *r)
{
	return fp_transfer(r, r->data, FXSAVE_SIZE, 0);
}

static long set_fpregs(struct request *r)
{
	return fp_transfer(r, r->data, FXSAVE_SIZE, 1);
}

static long regset(struct request *r, int set)
{
	struct user_regs_struct regs;
	uint64_t iov[2], full;
	long err = 0;

	if (copy_from_user(r->t, iov, r->data, sizeof(iov)))
		return -EFAULT;
	switch (r->addr) {
	case NT_PRSTATUS:
		full = sizeof(regs);
		break;
	case NT_PRFPREG:
		full = FXSAVE_SIZE;
		break;
	case NT_X86_XSTATE:
		full = platform_xstate_size(r->t->k->platform);
		break;
	default:
		return -EINVAL;
	}
	if (iov[1] % (r->addr == NT_PRFPREG ? 4 : 8))
		return -EINVAL;
	if (iov[1] > full)
		iov[1] = full;
	if (r->addr == NT_PRSTATUS) {
		ptrace_get_regs(r->tracee, &regs);
		if (!set)
			err = copy_to_user(r->t, iov[0], &regs, iov[1]);
		else if (copy_from_user(r->t, &regs, iov[0], iov[1]))
			err = -EFAULT;
		else
			err = ptrace_set_regs(r->tracee, &regs);
	} else if (set && r->addr == NT_X86_XSTATE && iov[1] < full) {
		err = -EFAULT; /* the whole image or nothing */
	} else {
		err = fp_transfer(r, iov[0], iov[1], set);
	}
	return err ? err : put_user_u64(r->t, r->data + 8, iov[1]);
}

static long get_regset(struct request *r)
{
	return regset(r, 0);
}

static long set_regset(struct request *r)
{
	return regset(r, 1);
}

/* ---- signals and events ---- */

static long get_event_message(struct request *r)
{
	uint64_t v = 0;

	lock_acquire(&r->t->k->tasks_lock);
	if (r->tracee->ptrace)
		v = r->tracee->ptrace->message;
	lock_release(&r->t->k->tasks_lock);
	return put_user_u64(r->t, r->data, v);
}

static long get_siginfo(struct request *r)
{
	siginfo_t si;
	int ok;

	lock_acquire(&r->t->k->tasks_lock);
	ok = r->tracee->ptrace && r->tracee->ptrace->has_info;
	if (ok)
		si = r->tracee->ptrace->info;
	lock_release(&r->t->k->tasks_lock);
	return ok ? copy_to_user(r->t, r->data, &si, sizeof(si)) : -EINVAL;
}

static long set_siginfo(struct request *r)
{
	siginfo_t si;
	int ok;

	if (copy_from_user(r->t, &si, r->data, sizeof(si)))
		return -EFAULT;
	lock_acquire(&r->t->k->tasks_lock);
	ok = r->tracee->ptrace && r->tracee->ptrace->has_info;
	if (ok)
		r->tracee->ptrace->info = si;
	lock_release(&r->t->k->tasks_lock);
	return ok ? 0 : -EINVAL;
}

struct linux_peeksiginfo_args {
	uint64_t off;
	uint32_t flags;
	int32_t nr;
};

/* The n-th queued signal: 1, or 0 past the end. */
static int nth_pending(struct task *t, int shared, uint64_t n, siginfo_t *si)
{
	struct sigpending *p = shared ? &t->tg->pending : &t->pending;
	struct sigqueue_entry *e;
	int found = 0;

	lock_acquire(&t->k->tasks_lock);
	list_for_each(e, &p->queue, node)
		if (n-- == 0) {
			*si = e->info;
			found = 1;
			break;
		}
	lock_release(&t->k->tasks_lock);
	return found;
}

static long peek_siginfo(struct request *r)
{
	struct linux_peeksiginfo_args a;
	siginfo_t si;
	long n;

	if (copy_from_user(r->t, &a, r->addr, sizeof(a)))
		return -EFAULT;
	if ((a.flags & ~(uint32_t)PTRACE_PEEKSIGINFO_SHARED) || a.nr < 0)
		return -EINVAL;
	for (n = 0; n < a.nr; n++) {
		if (!nth_pending(r->tracee, (int)a.flags, a.off + (uint64_t)n, &si))
			break;
		if (copy_to_user(r->t, r->data + (uint64_t)n * sizeof(si), &si, sizeof(si)))
			return n ? n : -EFAULT;
	}
	return n;
}

static long get_sigmask(struct request *r)
{
	if (r->addr != sizeof(linux_sigset_t))
		return -EINVAL;
	uint64_t mask = r->tracee->restore_mask ? r->tracee->saved_mask : r->tracee->blocked;

	return put_user_u64(r->t, r->data, mask);
}

static long set_sigmask(struct request *r)
{
	uint64_t mask;

	if (r->addr != sizeof(linux_sigset_t))
		return -EINVAL;
	if (get_user_u64(r->t, r->data, &mask))
		return -EFAULT;
	lock_acquire(&r->t->k->tasks_lock);
	r->tracee->restore_mask = 0;
	signal_set_blocked_locked(r->tracee, mask);
	lock_release(&r->t->k->tasks_lock);
	return 0;
}

static long set_options(struct request *r)
{
	if (r->data & ~(uint64_t)PTRACE_OPTIONS_KNOWN) {
		log_once("ptrace options %#lx: EINVAL", r->data);
		return -EINVAL;
	}
	lock_acquire(&r->t->k->tasks_lock);
	if (r->tracee->ptrace)
		r->tracee->ptrace->options = (uint32_t)r->data;
	lock_release(&r->t->k->tasks_lock);
	return 0;
}

static long get_syscall_info(struct request *r)
{
	struct ptrace_syscall_info si;
	struct task *t = r->tracee;
	size_t size = offsetof(struct ptrace_syscall_info, entry);
	enum trace_op op;
	uint64_t message;

	lock_acquire(&r->t->k->tasks_lock);
	op = t->ptrace ? t->ptrace->op : OP_NONE;
	message = t->ptrace ? t->ptrace->message : 0;
	lock_release(&r->t->k->tasks_lock);
	memset(&si, 0, sizeof(si));
	si.arch = AUDIT_ARCH_X86_64;
	si.instruction_pointer = t->regs.rip;
	si.stack_pointer = t->regs.rsp;
	if (op == OP_ENTRY || op == OP_SECCOMP) {
		const uint64_t args[6] = { t->regs.rdi, t->regs.rsi, t->regs.rdx,
					   t->regs.r10, t->regs.r8,  t->regs.r9 };

		/* entry and seccomp begin alike */
		si.op = op == OP_ENTRY ? PTRACE_SYSCALL_INFO_ENTRY : PTRACE_SYSCALL_INFO_SECCOMP;
		si.seccomp.nr = t->regs.orig_rax;
		memcpy(si.seccomp.args, args, sizeof(args));
		size = offsetof(struct ptrace_syscall_info, entry) + sizeof(si.entry);
		if (op == OP_SECCOMP) {
			si.seccomp.ret_data = (uint32_t)message;
			size = offsetof(struct ptrace_syscall_info, seccomp.ret_data) + 4;
		}
	} else if (op == OP_EXIT) {
		si.op = PTRACE_SYSCALL_INFO_EXIT;
		si.exit.rval = (int64_t)t->regs.rax;
		si.exit.is_error = (int64_t)t->regs.rax < 0 && (int64_t)t->regs.rax >= -MAX_ERRNO;
		size = offsetof(struct ptrace_syscall_info, exit.is_error) + 1;
	}
	size_t n = r->addr < size ? (size_t)r->addr : size;

	return copy_to_user(r->t, r->data, &si, n) ? -EFAULT : (long)size;
}

/* ---- going on ---- */

static long resume(struct request *r, enum trace_mode mode)
{
	if (r->data > LINUX_NSIG)
		return -EIO;
	lock_acquire(&r->t->k->tasks_lock);
	if (r->tracee->ptrace && r->tracee->ptrace->stopped)
		ptrace_resume_locked(r->tracee, mode, (int)r->data);
	lock_release(&r->t->k->tasks_lock);
	return 0;
}

static long do_cont(struct request *r)
{
	return resume(r, TRACE_CONT);
}

static long do_syscall(struct request *r)
{
	return resume(r, TRACE_SYSCALL);
}

static long do_sysemu(struct request *r)
{
	return resume(r, TRACE_SYSEMU);
}

static long do_step(struct request *r)
{
	return resume(r, TRACE_STEP);
}

static long do_sysemu_step(struct request *r)
{
	return resume(r, TRACE_SYSEMU_STEP);
}

static long do_detach(struct request *r)
{
	if (r->data > LINUX_NSIG)
		return -EIO;
	lock_acquire(&r->t->k->tasks_lock);
	if (r->tracee->ptrace && r->tracee->ptrace->tracer == r->t)
		ptrace_detach_locked(r->tracee, (int)r->data);
	lock_release(&r->t->k->tasks_lock);
	return 0;
}

static long do_kill(struct request *r)
{
	siginfo_t si;

	siginfo_kernel(&si, SIGKILL);
	signal_send_task(r->tracee, &si);
	return 0;
}

static long do_interrupt(struct request *r)
{
	long err = 0;

	lock_acquire(&r->t->k->tasks_lock);
	struct ptrace_state *p = r->tracee->ptrace;

	if (!p || !p->seized) {
		err = -EIO;
	} else if (!p->stopped || p->listening) {
		p->stop_wanted = 1;
		if (p->listening)
			ptrace_continued_locked(r->tracee);
		else
			task_kick(r->tracee, TASK_WORK_STOP);
	}
	lock_release(&r->t->k->tasks_lock);
	return err;
}

static long do_listen(struct request *r)
{
	long err = -EIO;

	lock_acquire(&r->t->k->tasks_lock);
	struct ptrace_state *p = r->tracee->ptrace;

	if (p && p->seized && p->stopped && p->code >> 8 == PTRACE_EVENT_STOP) {
		p->listening = 1;
		p->unreported = 0;
		if (p->stop_wanted)
			ptrace_continued_locked(r->tracee);
		err = 0;
	}
	lock_release(&r->t->k->tasks_lock);
	return err;
}

#define ANY_STATE 1u /* the tracee need not be stopped */

static const struct {
	uint32_t nr, flags;
	long (*fn)(struct request *r);
} g_requests[] = {
	{ PTRACE_PEEKTEXT, 0, peek_text },
	{ PTRACE_PEEKDATA, 0, peek_text },
	{ PTRACE_POKETEXT, 0, poke_text },
	{ PTRACE_POKEDATA, 0, poke_text },
	{ PTRACE_PEEKUSR, 0, peek_user },
	{ PTRACE_POKEUSR, 0, poke_user },
	{ PTRACE_GETREGS_NR, 0, get_regs },
	{ PTRACE_SETREGS_NR, 0, set_regs },
	{ PTRACE_GETFPREGS_NR, 0, get_fpregs },
	{ PTRACE_SETFPREGS_NR, 0, set_fpregs },
	{ PTRACE_GETREGSET, 0, get_regset },
	{ PTRACE_SETREGSET, 0, set_regset },
	{ PTRACE_SETOPTIONS, 0, set_options },
	{ 21 /* PTRACE_OLDSETOPTIONS */, 0, set_options },
	{ PTRACE_GETEVENTMSG, 0, get_event_message },
	{ PTRACE_GETSIGINFO, 0, get_siginfo },
	{ PTRACE_SETSIGINFO, 0, set_siginfo },
	{ PTRACE_PEEKSIGINFO, 0, peek_siginfo },
	{ PTRACE_GETSIGMASK, 0, get_sigmask },
	{ PTRACE_SETSIGMASK, 0, set_sigmask },
	{ PTRACE_GET_SYSCALL_INFO, 0, get_syscall_info },
	{ PTRACE_CONT, 0, do_cont },
	{ PTRACE_SYSCALL, 0, do_syscall },
	{ PTRACE_SINGLESTEP, 0, do_step },
	{ PTRACE_SYSEMU_NR, 0, do_sysemu },
	{ PTRACE_SYSEMU_SINGLESTEP_NR, 0, do_sysemu_step },
	{ PTRACE_DETACH, 0, do_detach },
	{ PTRACE_LISTEN, 0, do_listen },
	{ PTRACE_KILL, ANY_STATE, do_kill },
	{ PTRACE_INTERRUPT, ANY_STATE, do_interrupt },
};

/* Is it ours, and in the state a request wants (ptrace_check_attach)? */
static int check(struct task *t, struct task *tracee, int any_state)
{
	struct ptrace_state *p;
	int err = -ESRCH;

	lock_acquire(&t->k->tasks_lock);
	p = tracee->ptrace;
	if (p && p->tracer == t && (any_state || (p->stopped && !p->listening)))
		err = 0;
	lock_release(&t->k->tasks_lock);
	return err;
}

static long attach(struct task *t, struct task *tracee, int seize, uint64_t addr, uint64_t options)
{
	if (seize && (addr || (options & ~(uint64_t)PTRACE_OPTIONS_KNOWN)))
		return -EIO;
	return ptrace_attach(t, tracee, seize, seize ? (uint32_t)options : 0);
}

SYSCALL_HANDLER(ptrace)
{
	uint64_t nr = a->a[0];
	struct request r = { .t = t, .addr = a->a[2], .data = a->a[3] };
	long ret = -EIO;

	if (nr == PTRACE_TRACEME)
		return ptrace_traceme(t);
	r.tracee = task_find(t, (int)a->a[1]);
	if (!r.tracee)
		return -ESRCH;
	if (nr == PTRACE_ATTACH || nr == PTRACE_SEIZE) {
		ret = attach(t, r.tracee, nr == PTRACE_SEIZE, r.addr, r.data);
		goto out;
	}
	for (size_t i = 0; i < sizeof(g_requests) / sizeof(g_requests[0]); i++) {
		if (g_requests[i].nr != nr)
			continue;
		ret = check(t, r.tracee, g_requests[i].flags & ANY_STATE);
		if (!ret)
			ret = g_requests[i].fn(&r);
		goto out;
	}
	ret = check(t, r.tracee, 0);
	if (!ret) {
		log_once("ptrace request %#lx: EIO", nr);
		ret = -EIO;
	}
out:
	task_put(r.tracee);
	return ret;
}
