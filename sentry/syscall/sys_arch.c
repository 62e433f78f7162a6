/* SPDX-License-Identifier: Apache-2.0 */
/* arch_prctl and other calls that exist on x86 only. */
#include <asm/prctl.h>
#include <asm/ldt.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"

#ifndef ARCH_GET_XCOMP_SUPP
#define ARCH_GET_XCOMP_SUPP 0x1021
#define ARCH_GET_XCOMP_PERM 0x1022
#define ARCH_REQ_XCOMP_PERM 0x1023
#endif

SYSCALL_HANDLER(arch_prctl)
{
	uint64_t addr = a->a[1], xcr0 = platform_xcr0(t->k->platform);

	switch ((int)a->a[0]) {
	case ARCH_SET_FS:
	case ARCH_SET_GS:
		/* Linux: -EPERM for a base outside user space. */
		if (addr >= GUEST_TASK_SIZE)
			return -EPERM;
		if ((int)a->a[0] == ARCH_SET_FS)
			t->regs.fs_base = addr;
		else
			t->regs.gs_base = addr;
		return 0;
	case ARCH_GET_FS:
		return put_user_u64(t, addr, t->regs.fs_base);
	case ARCH_GET_GS:
		return put_user_u64(t, addr, t->regs.gs_base);
	case ARCH_GET_CPUID:
		return 1;
	case ARCH_SET_CPUID:
		return addr ? 0 : -ENODEV; /* faulting on CPUID is not available */
	case ARCH_GET_XCOMP_SUPP:
	case ARCH_GET_XCOMP_PERM:
		return put_user_u64(t, addr, xcr0);
	case ARCH_REQ_XCOMP_PERM:
		if (addr >= 64)
			return -EINVAL;
		return (xcr0 >> addr) & 1 ? 0 : -EOPNOTSUPP;
	}
	/* Shadow stacks, LAM and the vDSO mappings are configured out. */
	return -EINVAL;
}

SYSCALL_HANDLER(modify_ldt)
{
	(void)t;
	(void)a;
	log_once("modify_ldt: not supported");
	return -ENOSYS;
}

SYSCALL_HANDLER(set_thread_area)
{
	(void)t;
	(void)a;
	return -ENOSYS; /* as Linux's 64-bit table has it */
}

SYSCALL_HANDLER(get_thread_area)
{
	(void)t;
	(void)a;
	return -ENOSYS;
}

static long need_rawio(struct task *t)
{
	return cred_has_cap(task_cred(t), CAP_SYS_RAWIO) ? -ENOSYS : -EPERM;
}

SYSCALL_HANDLER(iopl)
{
	if ((uint32_t)a->a[0] > 3)
		return -EINVAL;
	return a->a[0] == 0 ? 0 : need_rawio(t);
}

SYSCALL_HANDLER(ioperm)
{
	uint64_t end;

	if (__builtin_add_overflow(a->a[0], a->a[1], &end) || end > 65536 || a->a[1] == 0)
		return -EINVAL;
	return a->a[2] ? need_rawio(t) : 0;
}

SYSCALL_HANDLER(map_shadow_stack)
{
	(void)t;
	(void)a;
	return -EOPNOTSUPP; /* as on a CPU without user shadow stacks */
}
