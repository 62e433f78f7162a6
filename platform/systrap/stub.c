/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of systrap that runs inside guest processes, with the guest's rights: the signal
 * handler that stops a guest thread, tells the sentry, and does what the sentry orders. It is
 * freestanding, touches no FP register, no TLS and no memory but its own slot, and is not trusted
 * by the sentry. stub_entry.S holds what can not be said in C; README.md the whole story.
 */
#include "platform/systrap/sysmsg.h"

#define NR_CLOSE 3
#define NR_CLONE 56
#define NR_SIGALTSTACK 131
#define NR_FUTEX 202
#define EFAULT_ 14
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define SIGTRAP_ 5
#define SIGBUS_ 7
#define SIGSEGV_ 11
#define SIGSYS_ 31

long stub_syscall(uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
		  uint64_t f);
long stub_clone(uint64_t flags, uint64_t stack, uint64_t nonce);
/* 0 and *old, or -14 (EFAULT): see the fixup below. */
long stub_cmpxchg32(uint64_t addr, uint32_t expect, uint32_t new_val, uint64_t *old);
extern const char stub_cmpxchg_insn[], stub_cmpxchg_fault[];
/* Bytes that could not be copied. */
uint64_t stub_copy(void *to, const void *from, uint64_t size);
/* Bytes copied: up to and with a NUL, up to max, or up to a bad address. */
uint64_t stub_copy_string(void *to, const void *from, uint64_t max);
extern const char stub_copy_insn[], stub_copy_fault[], stub_string_insn[], stub_string_fault[];

void stub_handler(int sig, struct frame_siginfo *si, struct frame_ucontext *uc);
uint64_t stub_child(struct sysmsg *m);
void stub_fast_serve(struct sysmsg *m);
/* The patched call's entry and exit in stub_entry.S; the trap that makes a signal frame of it. */
extern const char stub_fast[], stub_fast_leave[], stub_fast_end[], stub_frame_trap[];
extern const char stub_answer[], stub_answer_mov[], stub_answer_end[];

static inline uint64_t read_fs_base(void)
{
	uint64_t v;

	__asm__ volatile("rdfsbase %0" : "=r"(v));
	return v;
}

static inline uint64_t read_gs_base(void)
{
	uint64_t v;

	__asm__ volatile("rdgsbase %0" : "=r"(v));
	return v;
}

static inline uint64_t cycles(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/*
 * Copies what an argument of the call points to into the slot, as the table of STUB_BRING_ADDR
 * has it, so that the sentry need not reach for it. What can not be read is left to the sentry.
 */
static void bring_argument(struct sysmsg *m, const struct fast_regs *r)
{
	uint64_t arg[6] = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 };
	uint32_t nr = (uint32_t)r->rax, how = 0, which;
	uint64_t size = 0;
	void *to = (void *)((uint64_t)m + SLOT_IN);

	if (nr < BRING_NUMBERS)
		how = ((const uint8_t *)STUB_BRING_ADDR)[nr];
	m->in_size = 0;
	if (!how)
		return;
	which = BRING_ARG(how);
	if (which > 4)
		return;
	switch (BRING_KIND(how)) {
	case BRING_STRING:
		size = stub_copy_string(to, (const void *)arg[which], BRING_STRING_MAX);
		break;
	case BRING_BUFFER:
		size = arg[which + 1];
		break;
	case BRING_PAIRS:
		size = arg[which + 1] <= SLOT_IN_SIZE / 16 ? arg[which + 1] * 16 : 0;
		break;
	case BRING_PAIR:
		size = 16;
		break;
	}
	if (size > SLOT_IN_SIZE)
		return;
	if (BRING_KIND(how) != BRING_STRING &&
	    stub_copy(to, (const void *)arg[which], size))
		return;
	m->in_addr = arg[which];
	m->in_size = (uint32_t)size;
}

/* Stores the results that the sentry has left in the slot. 0, or -EFAULT. */
static long store_results(struct sysmsg *m)
{
	uint32_t count = m->out_count, at = 0;
	long ret = 0;

	for (uint32_t i = 0; i < count && i < OUT_MAX; i++) {
		uint32_t size = m->out[i].size;

		if (size > SLOT_OUT_SIZE - at)
			break;
		if (stub_copy((void *)m->out[i].addr, (void *)((uint64_t)m + SLOT_OUT + at), size))
			ret = -EFAULT_;
		at = (at + size + 7) & ~7u;
		if (at > SLOT_OUT_SIZE)
			break;
	}
	return ret;
}

static void run_orders(struct sysmsg *m)
{
	uint32_t n = m->order_count, i;

	if (n > SYSMSG_MAX_ORDERS)
		n = SYSMSG_MAX_ORDERS;
	for (i = 0; i < n; i++) {
		struct sysmsg_order *o = &m->orders[i];
		long ret;

		if (o->nr == ORDER_CMPXCHG32)
			ret = stub_cmpxchg32(o->arg[0], (uint32_t)o->arg[1], (uint32_t)o->arg[2],
					     &o->arg[3]);
		else if (o->nr == NR_CLONE)
			ret = stub_clone(o->arg[0], o->arg[1], o->arg[4]);
		else
			ret = stub_syscall(o->nr, o->arg[0], o->arg[1], o->arg[2], o->arg[3],
					   o->arg[4], o->arg[5]);
		o->ret = ret;
		if (ret < 0 && ret >= -4095)
			break;
	}
	if (m->close_fd)
		stub_syscall(NR_CLOSE, 0, 0, 0, 0, 0, 0);
	m->orders_done = i;
}

/* Hands the turn to the sentry; the exchange is the full barrier that the sleep flags need. */
static void give_turn(struct sysmsg *m)
{
	__atomic_exchange_n(&m->turn, TURN_SENTRY, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&m->sentry_sleeps, __ATOMIC_SEQ_CST))
		stub_syscall(NR_FUTEX, (uint64_t)&m->turn, FUTEX_WAKE, 1, 0, 0, 0);
}

static void wait_turn(struct sysmsg *m)
{
	uint64_t budget = m->spin_cycles;

	if (budget) {
		uint64_t start = cycles();

		do {
			if (__atomic_load_n(&m->turn, __ATOMIC_ACQUIRE) != TURN_SENTRY)
				return;
			__builtin_ia32_pause();
		} while (cycles() - start < budget);
	}
	__atomic_exchange_n(&m->stub_sleeps, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&m->turn, __ATOMIC_SEQ_CST) == TURN_SENTRY)
		stub_syscall(NR_FUTEX, (uint64_t)&m->turn, FUTEX_WAIT, TURN_SENTRY, 0, 0, 0);
	__atomic_store_n(&m->stub_sleeps, 0, __ATOMIC_RELAXED);
}

/* Serves the sentry until it says that the guest may go on, from the signal frame. */
static void serve(struct sysmsg *m)
{
	for (;;) {
		wait_turn(m);
		if (m->command == COMMAND_ORDERS) {
			run_orders(m);
			give_turn(m);
			continue;
		}
		if (m->command == COMMAND_FRAME) { /* there is one already */
			give_turn(m);
			continue;
		}
		__asm__ volatile("wrfsbase %0" ::"r"(m->fs_base));
		__asm__ volatile("wrgsbase %0" ::"r"(m->gs_base));
		m->resumed_at = cycles();
		return;
	}
}

static void serve_frame(struct sysmsg *m, struct frame_ucontext *uc)
{
	give_turn(m);
	serve(m);
	if (m->out_count && store_results(m))
		uc->mc.rax = (uint64_t)-EFAULT_;
}

/*
 * The interrupt signal found the thread in a trampoline or in the stub, that is in a patched call:
 * nowhere else does this code run with the signal unmasked. Before the sentry has said resume, the
 * call's own event is on its way, or the sentry is at work on it: the interrupt is noted for
 * stub_fast_serve(). After that, the frame is made that of a thread just after the call. 1: so it
 * was.
 */
static int interrupt_in_call(struct sysmsg *m, struct frame_mcontext *mc)
{
	const struct fast_regs *r = (struct fast_regs *)((uint64_t)m + SLOT_FAST_REGS);
	uint64_t *to = &mc->r8;

	if (mc->rip >= (uint64_t)stub_answer && mc->rip < (uint64_t)stub_answer_end) {
		if (mc->rip <= (uint64_t)stub_answer_mov)
			mc->rax = mc->rcx;
		mc->rip = mc->rcx = r->rip;
		mc->rsp = r->rsp;
		mc->eflags = mc->r11 = r->eflags;
		return 1;
	}
	if (!(mc->rip >= (uint64_t)stub_fast_leave && mc->rip < (uint64_t)stub_fast_end) &&
	    (mc->rip >= TRAMPOLINE_ADDR || __atomic_load_n(&m->fast_stage, __ATOMIC_RELAXED) != FAST_LEAVING ||
	     (mc->rip >= (uint64_t)stub_fast && mc->rip < (uint64_t)stub_fast_leave))) {
		__atomic_store_n(&m->fast_pending, 1, __ATOMIC_RELAXED);
		return 0;
	}
	for (uint32_t i = 0; i < sizeof(*r) / 8; i++)
		to[i] = ((const uint64_t *)r)[i];
	mc->rcx = r->rip;
	mc->r11 = r->eflags;
	return 1;
}

static int in_call(uint64_t rip)
{
	return rip - STUB_TEXT_ADDR < STUB_TEXT_SIZE || rip - TRAMPOLINE_ADDR < TRAMPOLINES_SIZE;
}

/* Every signal of a guest thread comes here, on the signal stack, with all but SEGV/BUS masked. */
void stub_handler(int sig, struct frame_siginfo *si, struct frame_ucontext *uc)
{
	struct sysmsg *m = (struct sysmsg *)((uint64_t)uc & ~(uint64_t)(SLOT_SIZE - 1));

	if ((sig == SIGSEGV_ || sig == SIGBUS_) && uc->mc.rip == (uint64_t)stub_cmpxchg_insn) {
		uc->mc.rip = (uint64_t)stub_cmpxchg_fault;
		return;
	}
	if ((sig == SIGSEGV_ || sig == SIGBUS_) && uc->mc.rip == (uint64_t)stub_copy_insn) {
		uc->mc.rip = (uint64_t)stub_copy_fault;
		return;
	}
	if ((sig == SIGSEGV_ || sig == SIGBUS_) && uc->mc.rip == (uint64_t)stub_string_insn) {
		uc->mc.rip = (uint64_t)stub_string_fault;
		return;
	}
	if (sig == STUB_INTERRUPT_SIGNAL && in_call(uc->mc.rip) && !interrupt_in_call(m, &uc->mc))
		return;
	if (sig == SIGTRAP_ && uc->mc.rip == (uint64_t)stub_frame_trap) {
		/* COMMAND_FRAME: the event is known already. */
		m->frame = (uint32_t)((uint64_t)uc - (uint64_t)m);
		serve_frame(m, uc);
		return;
	}
	m->stopped_at = cycles();
	m->event_signo = (uint32_t)sig;
	m->frame = (uint32_t)((uint64_t)uc - (uint64_t)m);
	m->event_fs_base = read_fs_base();
	m->event_gs_base = read_gs_base();
	m->in_size = 0;
	if (sig == SIGSYS_)
		bring_argument(m, (const struct fast_regs *)&uc->mc);
	serve_frame(m, uc);
}

/*
 * A patched call, on the slot's own small stack, with no signal masked and the guest's extended
 * state in the registers. Returns to let the guest go on after the site.
 */
void stub_fast_serve(struct sysmsg *m)
{
	struct fast_regs *r = (struct fast_regs *)((uint64_t)m + SLOT_FAST_REGS);

	m->event_signo = EVENT_FAST_SYSCALL;
	m->event_fs_base = read_fs_base();
	bring_argument(m, r);
	for (;;) {
		m->stopped_at = cycles();
		give_turn(m);
		for (;;) {
			wait_turn(m);
			if (m->command == COMMAND_RESUME)
				break;
			if (m->command == COMMAND_ORDERS) {
				run_orders(m);
				give_turn(m);
				continue;
			}
			/* The kernel makes the frame. No return: the frame's sigreturn is the way on. */
			__asm__ volatile("int3\n\t.globl stub_frame_trap\nstub_frame_trap:" ::: "memory");
			__builtin_trap();
		}
		/* Not yet FAST_LEAVING: an interrupt in the copies is noted, and comes after them. */
		if (m->out_count && store_results(m))
			r->rax = (uint64_t)-EFAULT_;
		m->resumed_at = cycles();
		__atomic_store_n(&m->fast_stage, FAST_LEAVING, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&m->fast_pending, __ATOMIC_SEQ_CST))
			return;
		__atomic_store_n(&m->fast_stage, FAST_ENTERING, __ATOMIC_SEQ_CST);
		__atomic_store_n(&m->fast_pending, 0, __ATOMIC_SEQ_CST);
		m->event_signo = EVENT_FAST_INTERRUPT;
	}
}

/*
 * A new thread or process, after its hello: waits for its first command, then says where the
 * signal frame lies that the sentry has prepared for it. The frame would set the signal stack
 * too, but stub_cmpxchg32 may fault before.
 */
uint64_t stub_child(struct sysmsg *m)
{
	struct {
		uint64_t sp;
		uint64_t flags, size;
	} stack = { (uint64_t)m + SLOT_STACK, 0, SLOT_SIZE - SLOT_STACK };

	stub_syscall(NR_SIGALTSTACK, (uint64_t)&stack, 0, 0, 0, 0, 0);
	serve(m);
	return (uint64_t)m + m->frame;
}
