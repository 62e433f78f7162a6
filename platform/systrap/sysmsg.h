/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout that the sentry and the stub share: where things lie in a guest process above
 * GUEST_TASK_SIZE, and the message page through which the two talk. Included by freestanding
 * code, so it holds data only.
 *
 * TRUST: a slot is mapped by the guest process too, so any thread of that process can change any
 * byte at any time. The sentry reads each field once into its own memory and bounds it.
 */
#ifndef CAISSON_SYSTRAP_SYSMSG_H
#define CAISSON_SYSTRAP_SYSMSG_H

/* The stub's range starts where guest memory ends: text first, then the slots. */
#define STUB_TEXT_ADDR 0x7fffc0000000
#define STUB_TEXT_SIZE 0x10000
#define STUB_SLOT_ADDR 0x7fffc0010000
#define STUB_RANGE_END 0x7ffffffff000
#define SLOT_SIZE 0x10000
#define SLOT_COUNT 16382 /* (STUB_RANGE_END - STUB_SLOT_ADDR) / SLOT_SIZE */

/* Within a slot: the message page, room for bounced arguments, the signal stack up to the end. */
#define SLOT_BOUNCE 0x1000
#define SLOT_BOUNCE_SIZE 0x7000
#define SLOT_STACK 0x8000

/* The host signal of context_interrupt(). */
#define STUB_INTERRUPT_SIGNAL 63

#define STUB_MAGIC 0x314255545353434eull

/* Host syscall numbers that the stub's assembler and the filter both name. */
#define STUB_NR_HELLO 186 /* gettid: never carried out, only its notification counts */

#ifndef __ASSEMBLER__

#include <stdint.h>

/* Start of the stub's text: addresses the sentry needs, as offsets from STUB_TEXT_ADDR. */
struct stub_header {
	uint64_t magic;
	uint32_t handler;    /* the signal handler */
	uint32_t restorer;   /* its SA_RESTORER */
	uint32_t zygote;     /* where the zygote's C code jumps to */
	uint32_t clone_ip;   /* instruction pointer the kernel reports for the clone */
	uint32_t hello_ip;   /* the same for a new thread's first notification */
	uint32_t size;
};

enum sysmsg_turn {
	TURN_SENTRY = 0, /* the stub has stopped; the sentry may write the page */
	TURN_STUB = 1,	 /* the stub may run: the guest, or orders */
	TURN_DEAD = 2,	 /* set by the sentry: the process is gone */
};

enum sysmsg_command {
	COMMAND_RESUME = 1, /* return from the signal frame into the guest */
	COMMAND_ORDERS = 2, /* carry out orders[0..order_count) */
};

/* Orders that are not host syscalls. */
#define ORDER_CMPXCHG32 0x1000 /* arg: address, expected, new -> arg[3]: what was there */

struct sysmsg_order {
	uint64_t nr;
	uint64_t arg[6];
	int64_t ret;
};

#define SYSMSG_MAX_ORDERS 32

/* One cache line per direction of traffic, so that a spinning side does not slow the other. */
struct sysmsg {
	uint32_t turn; /* the futex both sides sleep on */
	uint32_t pad0[15];
	uint32_t sentry_sleeps; /* written by the sentry, read by the stub before a wake */
	uint32_t pad1[15];
	uint32_t stub_sleeps; /* the other way round */
	uint32_t pad2[15];

	/* sentry -> stub */
	uint32_t command;
	uint32_t order_count;
	uint64_t fs_base, gs_base; /* to load before COMMAND_RESUME */
	uint64_t spin_cycles;	   /* how long the stub may spin for its next command */
	uint32_t close_fd;	   /* close fd 0 after the orders */
	uint32_t pad3[7];

	/* stub -> sentry */
	uint32_t event_signo; /* the host signal that stopped the guest; 0 when none did */
	uint32_t frame;	      /* offset in the slot of the frame's ucontext */
	uint32_t orders_done; /* count of orders carried out, a failed one not included */
	uint32_t listener;    /* zygote only: fd number of the seccomp listener, plus 1 */
	uint64_t event_fs_base, event_gs_base;
	uint64_t resumed_at, stopped_at; /* processor cycles when the guest last ran; policy only */
	uint64_t pad4[2];

	uint64_t pad5[16];
	struct sysmsg_order orders[SYSMSG_MAX_ORDERS];
	/* The rest of the page is kept for the registers of patched call sites. */
};

/* What the kernel writes to the signal stack; <ucontext.h> says the same with another siginfo. */
struct frame_mcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate; /* address of the XSAVE image */
	uint64_t reserved[8];
};

struct frame_siginfo {
	int32_t signo, err, code, pad;
	union {
		uint64_t addr;
		struct {
			uint64_t call_addr;
			int32_t syscall;
			uint32_t arch;
		} sys;
		uint8_t raw[112];
	};
};

struct frame_ucontext {
	uint64_t flags;
	uint64_t link;
	uint64_t stack_sp;
	uint32_t stack_flags, stack_pad;
	uint64_t stack_size;
	struct frame_mcontext mc;
	uint64_t sigmask;
	struct frame_siginfo info; /* follows the ucontext in the kernel's rt_sigframe */
};

_Static_assert(sizeof(struct sysmsg) <= SLOT_BOUNCE, "the message fits its page");
_Static_assert(sizeof(struct frame_mcontext) == 256, "kernel's sigcontext_64");
_Static_assert(__builtin_offsetof(struct frame_ucontext, info) == 304, "kernel's rt_sigframe");
_Static_assert(sizeof(struct frame_siginfo) == 128, "kernel's siginfo");

#endif
#endif
