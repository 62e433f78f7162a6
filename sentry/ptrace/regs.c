/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of a stopped tracee, with the checks x86-64 Linux makes on what a tracer writes.
 * FP state is order.c.
 */
#include <stddef.h>
#include <string.h>
#include <sys/user.h>

#include "platform/base/log.h"
#include "sentry/ptrace/ptrace_priv.h"

#define EFLAGS_TF   0x100ull
#define EFLAGS_USER 0x50dd5ull
#define USER_CS	    0x33
#define USER_DS	    0x2b

void ptrace_get_regs(struct task *t, struct user_regs_struct *r)
{
	*r = t->regs;
	r->cs = USER_CS;
	r->ss = USER_DS;
	if (t->ptrace && t->ptrace->forced_tf)
		r->eflags &= ~EFLAGS_TF;
}

int ptrace_set_regs(struct task *t, const struct user_regs_struct *r)
{
	if (r->fs_base >= GUEST_TASK_SIZE || r->gs_base >= GUEST_TASK_SIZE)
		return -EIO;
	if ((r->cs && r->cs != USER_CS) || (r->ss && r->ss != USER_DS))
		return -EIO;
	uint64_t fixed = t->regs.eflags & ~EFLAGS_USER;

	t->regs = *r;
	t->regs.cs = USER_CS;
	t->regs.ss = USER_DS;
	t->regs.eflags = fixed | (r->eflags & EFLAGS_USER);
	if (t->ptrace && (t->regs.eflags & EFLAGS_TF))
		t->ptrace->forced_tf = 0;
	/* Whether the call is restarted is decided by the registers, as they are now. */
	t->in_syscall = (int64_t)(int32_t)r->orig_rax >= 0;
	return 0;
}

int ptrace_peek_user(struct task *t, uint64_t off, uint64_t *val)
{
	struct user_regs_struct r;

	if (off % 8 || off >= sizeof(struct user))
		return -EIO;
	*val = 0;
	if (off < sizeof(r)) {
		ptrace_get_regs(t, &r);
		memcpy(val, (char *)&r + off, sizeof(*val));
	}
	return 0;
}

int ptrace_poke_user(struct task *t, uint64_t off, uint64_t val)
{
	struct user_regs_struct r;

	if (off % 8 || off >= sizeof(struct user))
		return -EIO;
	if (off < sizeof(r)) {
		ptrace_get_regs(t, &r);
		memcpy((char *)&r + off, &val, sizeof(val));
		return ptrace_set_regs(t, &r);
	}
	if (off >= offsetof(struct user, u_debugreg) &&
	    off < offsetof(struct user, u_debugreg) + sizeof(((struct user *)0)->u_debugreg)) {
		/* No debug registers: switching them off works, breakpoints do not. */
		if (!val)
			return 0;
		log_once("ptrace: hardware breakpoints are not there: ENOSPC");
		return off == offsetof(struct user, u_debugreg[7]) ? -ENOSPC : 0;
	}
	return -EIO;
}
