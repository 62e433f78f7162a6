/* SPDX-License-Identifier: Apache-2.0 */
/* The frame x86-64 Linux puts on the stack for a signal handler. Data only. */
#ifndef CAISSON_ABI_SIGFRAME_H
#define CAISSON_ABI_SIGFRAME_H

#include <stddef.h>

#include "platform/abi/signal.h"

struct linux_sigcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
	uint64_t eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate; /* guest address */
	uint64_t reserved1[8];
};
_Static_assert(sizeof(struct linux_sigcontext) == 256, "struct sigcontext_64");

struct linux_ucontext {
	uint64_t flags;
	uint64_t link;
	stack_t stack;
	struct linux_sigcontext mcontext;
	linux_sigset_t sigmask;
};
_Static_assert(sizeof(struct linux_ucontext) == 304, "the kernel's struct ucontext");

#define LINUX_UC_FP_XSTATE	   1u
#define LINUX_UC_SIGCONTEXT_SS	   2u
#define LINUX_UC_STRICT_RESTORE_SS 4u

#define LINUX_FP_XSTATE_MAGIC1	    0x46505853u
#define LINUX_FP_XSTATE_MAGIC2	    0x46505845u
#define LINUX_FP_XSTATE_MAGIC2_SIZE 4u

/* Software-owned bytes 464..511 of the FXSAVE area in a frame. */
struct linux_fpx_sw_bytes {
	uint32_t magic1, extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size, padding[7];
};
_Static_assert(sizeof(struct linux_fpx_sw_bytes) == 48, "struct _fpx_sw_bytes");

#define LINUX_MINSIGSTKSZ   2048u
#define LINUX_SS_AUTODISARM (1u << 31)

struct linux_rt_sigframe {
	uint64_t pretcode;
	struct linux_ucontext uc;
	siginfo_t info;
};
_Static_assert(sizeof(struct linux_rt_sigframe) == 440, "struct rt_sigframe");

#endif
