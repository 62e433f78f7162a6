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
/* The last page of the text: BRING_NUMBERS bytes that say what the stub brings along, see bounce.c. */
#define STUB_BRING_ADDR 0x7fffc000f000
#define STUB_SLOT_ADDR 0x7fffc0010000
#define STUB_RANGE_END 0x7ffffffff000
#define SLOT_SIZE 0x10000
#define SLOT_COUNT 16320

/*
 * Behind the slots: the trampolines of patched syscall sites, r-x for the guest. The table through
 * which patched text jumps is in low memory, see GUEST_RESERVED_START and patch.c.
 */
#define TRAMPOLINE_ADDR 0x7fffffe00000
#define TRAMPOLINE_SIZE 128
#define TRAMPOLINE_COUNT 2048
#define TRAMPOLINES_SIZE 0x40000 /* TRAMPOLINE_COUNT * TRAMPOLINE_SIZE */
#define PATCH_TABLE_SIZE 0x10000

/*
 * Within a slot: the message page, room for bounced arguments, the stack and registers of a
 * patched call, the signal stack up to the end.
 */
#define SLOT_BOUNCE 0x1000
#define SLOT_BOUNCE_SIZE 0x6000
/* Its halves: what a call's argument points to, what its results are to be stored at. */
#define SLOT_IN SLOT_BOUNCE
#define SLOT_IN_SIZE 0x3000
#define SLOT_OUT 0x4000
#define SLOT_OUT_SIZE 0x3000
#define OUT_MAX 4
#define SLOT_FAST_REGS 0x7f00 /* struct fast_regs; the stack of a patched call grows down from it */
#define SLOT_STACK 0x8000

/*
 * msg->self holds SELF_MAGIC - address of the slot, so that a trampoline can tell whether GS base
 * is a slot without touching the flags: gs base + self - SELF_MAGIC is zero.
 */
#define SELF_MAGIC 0x53a17b05
#define MSG_SELF 0x140
#define MSG_FAST_STAGE 0x148
#define MSG_FAST_PENDING 0x14c
#define MSG_ANSWERS 0x150 /* a byte each: the stub may answer by itself */
#define MSG_ANSWER 0x158
/* Indices of answers. */
#define ANSWER_GETPID 0
#define ANSWER_GETTID 1
#define ANSWER_GETUID 2
#define ANSWER_GETEUID 3
#define ANSWER_GETGID 4
#define ANSWER_GETEGID 5
#define ANSWER_COUNT 6

/* Offsets in struct fast_regs. */
#define FR_R8 0
#define FR_R9 8
#define FR_R10 16
#define FR_R11 24
#define FR_R12 32
#define FR_R13 40
#define FR_R14 48
#define FR_R15 56
#define FR_RDI 64
#define FR_RSI 72
#define FR_RBP 80
#define FR_RBX 88
#define FR_RDX 96
#define FR_RAX 104
#define FR_RCX 112
#define FR_RSP 120
#define FR_RIP 128
#define FR_EFLAGS 136

/*
 * The host signal of context_interrupt(): SIGUSR2. Not a real-time signal, which would be queued
 * once for each interrupt, and not at all when the user's queue is full.
 */
#define STUB_INTERRUPT_SIGNAL 12

/* A byte of the table at STUB_BRING_ADDR: which argument, and what it points to. */
#define BRING_NUMBERS 512
#define BRING_ARG(b) ((b)&7u)
#define BRING_KIND(b) ((b) >> 3)
#define BRING_STRING 1
#define BRING_BUFFER 2 /* as many bytes as the next argument says */
#define BRING_PAIRS 3  /* as many times 16 bytes */
#define BRING_PAIR 4   /* 16 bytes */
#define BRING_STRING_MAX 512

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
	uint32_t fast; /* where trampolines jump to */
	uint32_t size;
	uint32_t pad;
};

/* event_signo of stops without a signal frame: the registers are in struct fast_regs. */
#define EVENT_FAST_SYSCALL 0x100
#define EVENT_FAST_INTERRUPT 0x101

/* fast_stage */
#define FAST_ENTERING 0
#define FAST_LEAVING 1 /* the sentry has said resume: a signal now means just after the call */

enum sysmsg_turn {
	TURN_SENTRY = 0, /* the stub has stopped; the sentry may write the page */
	TURN_STUB = 1,	 /* the stub may run: the guest, or orders */
	TURN_DEAD = 2,	 /* set by the sentry: the process is gone */
};

enum sysmsg_command {
	COMMAND_RESUME = 1, /* return from the signal frame into the guest */
	COMMAND_ORDERS = 2, /* carry out orders[0..order_count) */
	COMMAND_FRAME = 3,  /* in a patched call: stop again, with a signal frame */
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
	uint32_t out_count;	   /* stores to make before COMMAND_RESUME is obeyed */
	uint32_t pad3[6];

	/* stub -> sentry */
	uint32_t event_signo; /* the host signal that stopped the guest; 0 when none did */
	uint32_t frame;	      /* offset in the slot of the frame's ucontext */
	uint32_t orders_done; /* count of orders carried out, a failed one not included */
	uint32_t listener;    /* zygote only: fd number of the seccomp listener, plus 1 */
	uint64_t event_fs_base, event_gs_base;
	uint64_t resumed_at, stopped_at; /* processor cycles when the guest last ran; policy only */
	uint64_t in_addr; /* SLOT_IN holds in_size bytes of what was there when the call came */
	uint32_t in_size, pad4;

	/* Patched calls. */
	uint64_t self;	       /* see SELF_MAGIC; sentry -> stub */
	uint32_t fast_stage;   /* the stub's own */
	uint32_t fast_pending; /* the stub's own: an interrupt came that has not been reported */
	uint8_t answers[8];    /* sentry -> stub: calls that the stub answers, see stub_fast */
	uint32_t answer[ANSWER_COUNT];
	uint64_t pad5[2];
	struct sysmsg_out {
		uint64_t addr;
		uint32_t size; /* each starts at a multiple of 8 in SLOT_OUT, behind the one before */
		uint32_t pad;
	} out[OUT_MAX];
	struct sysmsg_order orders[SYSMSG_MAX_ORDERS];
};

/* The guest's registers in a patched call, at SLOT_FAST_REGS. The first 18 of frame_mcontext. */
struct fast_regs {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
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

_Static_assert(SLOT_OUT + SLOT_OUT_SIZE <= SLOT_BOUNCE + SLOT_BOUNCE_SIZE, "within");
_Static_assert(sizeof(struct sysmsg) <= SLOT_BOUNCE, "the message fits its page");
_Static_assert(__builtin_offsetof(struct sysmsg, self) == MSG_SELF, "for the assembler");
_Static_assert(__builtin_offsetof(struct sysmsg, fast_stage) == MSG_FAST_STAGE, "the same");
_Static_assert(__builtin_offsetof(struct sysmsg, fast_pending) == MSG_FAST_PENDING, "the same");
_Static_assert(__builtin_offsetof(struct sysmsg, answers) == MSG_ANSWERS, "the same");
_Static_assert(__builtin_offsetof(struct sysmsg, answer) == MSG_ANSWER, "the same");
_Static_assert(sizeof(struct fast_regs) == FR_EFLAGS + 8, "the same");
_Static_assert(__builtin_offsetof(struct fast_regs, rip) == FR_RIP, "the same");
_Static_assert(SLOT_FAST_REGS + sizeof(struct fast_regs) <= SLOT_STACK, "below the signal stack");
_Static_assert(STUB_SLOT_ADDR + (uint64_t)SLOT_COUNT * SLOT_SIZE <= TRAMPOLINE_ADDR, "apart");
_Static_assert(TRAMPOLINE_ADDR + TRAMPOLINES_SIZE <= STUB_RANGE_END, "within");
_Static_assert(sizeof(struct frame_mcontext) == 256, "kernel's sigcontext_64");
_Static_assert(__builtin_offsetof(struct frame_ucontext, info) == 304, "kernel's rt_sigframe");
_Static_assert(sizeof(struct frame_siginfo) == 128, "kernel's siginfo");

#endif
#endif
