/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the host's signal frame in a slot and the contract's registers and events. The frame
 * is guest-writable: it is copied once, and where it lies is checked before it is touched.
 */
#include <errno.h>
#include <linux/audit.h>
#include <string.h>

#include "platform/systrap/patch.h"

#define USER_CS 0x33
#define USER_DS 0x2b
/* CF PF AF ZF SF TF DF OF RF AC: what sigreturn and ptrace let through. */
#define USER_EFLAGS 0x50dd5ull
#define FIXED_EFLAGS 0x202ull
#define VSYSCALL_PAGE 0xffffffffff600000ull
#define X32_BIT 0x40000000u
#define TRAP_GP 13
#define TRAP_PF 14
#define PF_WRITE 2
#define PF_FETCH 16

static int canonical(uint64_t a)
{
	return (uint64_t)((int64_t)(a << 16) >> 16) == a;
}

int frame_check(struct systrap_context *c, uint32_t frame)
{
	const uint8_t *slot = (const uint8_t *)c->msg;
	uint64_t fp;

	if (frame % 16 || frame < SLOT_STACK + 4096 ||
	    frame > SLOT_SIZE - sizeof(struct frame_ucontext))
		return -EINVAL;
	memcpy(&fp, slot + frame + offsetof(struct frame_ucontext, mc.fpstate), sizeof(fp));
	fp -= slot_address(c->slot);
	if (fp % 64 || fp < frame + sizeof(struct frame_ucontext) ||
	    fp > SLOT_SIZE - (c->plat->base.xstate_size + 4))
		return -EINVAL;
	c->frame = frame;
	c->fpstate = (uint32_t)fp;
	return 0;
}

void frame_load_regs(struct systrap_context *c, struct user_regs_struct *regs)
{
	struct frame_ucontext *uc = (struct frame_ucontext *)((uint8_t *)c->msg + c->frame);
	struct frame_mcontext *mc = &uc->mc;

	mc->r8 = regs->r8;
	mc->r9 = regs->r9;
	mc->r10 = regs->r10;
	mc->r11 = regs->r11;
	mc->r12 = regs->r12;
	mc->r13 = regs->r13;
	mc->r14 = regs->r14;
	mc->r15 = regs->r15;
	mc->rdi = regs->rdi;
	mc->rsi = regs->rsi;
	mc->rbp = regs->rbp;
	mc->rbx = regs->rbx;
	mc->rdx = regs->rdx;
	mc->rax = regs->rax;
	mc->rcx = regs->rcx;
	mc->rsp = regs->rsp;
	mc->rip = regs->rip;
	mc->eflags = (regs->eflags & USER_EFLAGS) | FIXED_EFLAGS;
	mc->cs = USER_CS;
	mc->ss = USER_DS;
	mc->fs = mc->gs = 0;
	mc->fpstate = slot_address(c->slot) + c->fpstate;
	/* A guest that has scribbled over these would lose its own stack or block interrupts. */
	uc->stack_sp = slot_address(c->slot) + SLOT_STACK;
	uc->stack_size = SLOT_SIZE - SLOT_STACK;
	uc->stack_flags = 0;
	uc->sigmask = 0;
	/* wrfsbase faults on other addresses; ptrace refuses them. */
	c->msg->fs_base = canonical(regs->fs_base) ? regs->fs_base : 0;
	c->msg->gs_base = canonical(regs->gs_base) ? regs->gs_base : 0;
	/* A guest that does not use GS lends it to the trampolines of its patched sites. */
	if (!c->msg->gs_base && __atomic_load_n(&c->as->area, __ATOMIC_RELAXED))
		c->msg->gs_base = slot_address(c->slot);
}

static void decode_syscall(struct user_regs_struct *regs, const struct frame_siginfo *si,
			   struct platform_event *ev)
{
	uint32_t nr = (uint32_t)si->sys.syscall;

	ev->kind = EVENT_SYSCALL;
	ev->foreign_abi = si->sys.arch != AUDIT_ARCH_X86_64 || (nr >> 30) == 1;
	/*
	 * The host treats a number that looks like one of its restart codes as one and adjusts
	 * rax and rip; the siginfo has the truth. On the vsyscall page it is the other way
	 * round: there the host has carried out the `ret` already, and the frame is right.
	 */
	if ((uint32_t)regs->rax != nr)
		regs->rax = (uint64_t)(int64_t)si->sys.syscall;
	if ((si->sys.call_addr & ~0xfffull) != VSYSCALL_PAGE)
		regs->rip = si->sys.call_addr;
	regs->orig_rax = regs->rax;
}

/* A stop in a patched call. The guest's memory is read once, as everywhere. */
static void decode_fast(struct systrap_context *c, uint32_t signo, struct user_regs_struct *regs,
			struct platform_event *ev)
{
	struct fast_regs r;

	memcpy(&r, (const uint8_t *)c->msg + SLOT_FAST_REGS, sizeof(r));
	__asm__ volatile("" ::: "memory");
	memset(ev, 0, sizeof(*ev));
	memset(regs, 0, sizeof(*regs));
	regs->r8 = r.r8;
	regs->r9 = r.r9;
	regs->r10 = r.r10;
	regs->r11 = r.eflags;
	regs->r12 = r.r12;
	regs->r13 = r.r13;
	regs->r14 = r.r14;
	regs->r15 = r.r15;
	regs->rdi = r.rdi;
	regs->rsi = r.rsi;
	regs->rbp = r.rbp;
	regs->rbx = r.rbx;
	regs->rdx = r.rdx;
	regs->rax = r.rax;
	regs->rcx = r.rip;
	regs->rsp = r.rsp;
	regs->rip = r.rip;
	regs->eflags = r.eflags;
	regs->cs = USER_CS;
	regs->ss = USER_DS;
	regs->fs_base = __atomic_load_n(&c->msg->event_fs_base, __ATOMIC_RELAXED);
	regs->orig_rax = (unsigned long)-1;
	ev->kind = EVENT_INTERRUPTED;
	if (signo == EVENT_FAST_SYSCALL) {
		ev->kind = EVENT_SYSCALL;
		ev->foreign_abi = (uint32_t)r.rax >> 30 == 1;
		regs->orig_rax = r.rax;
		stat_add(&c->plat->stats.fast_switches);
	}
	c->fast = 1;
	c->fast_regs = *regs;
}

/* The syscall that ends at `after`, instead of the exception that stands for it. */
static void become_syscall(struct user_regs_struct *regs, uint64_t after, struct platform_event *ev)
{
	memset(ev, 0, sizeof(*ev));
	ev->kind = EVENT_SYSCALL;
	ev->foreign_abi = (uint32_t)regs->rax >> 30 == 1;
	regs->orig_rax = regs->rax;
	regs->rip = regs->rcx = after;
	regs->r11 = regs->eflags;
}

/*
 * Takes patching out of what is reported. 1 when the guest should go on at once, from regs: it ran
 * into a displaced instruction, which has moved.
 */
static int hide_patches(struct systrap_context *c, struct user_regs_struct *regs,
			struct platform_event *ev)
{
	struct patch_place pl;
	uint64_t to;

	if (patch_place(c->as, regs->rip, &pl)) {
		/* Past the displaced code only the look at GS base faults: it is not a slot. */
		if (ev->kind == EVENT_SYSCALL || (ev->kind == EVENT_FAULT && pl.at_call))
			become_syscall(regs, pl.after, ev);
		else
			regs->rip = pl.rip;
		return 0;
	}
	if (ev->kind != EVENT_EXCEPTION || ev->fault.signo != SIGILL)
		return 0;
	switch (patch_undefined(c->as, regs->rip, &to)) {
	case 1:
		become_syscall(regs, to, ev);
		return 0;
	case 2:
		regs->rip = to;
		return 1;
	default:
		return 0;
	}
}

/*
 * uretprobe(2), of Linux 6.11 and later, is carried out without asking seccomp, and raises SIGILL
 * anywhere but in its own trampoline. For the guest it does not exist.
 */
static void decode_uretprobe(struct user_regs_struct *regs, struct platform_event *ev)
{
	memset(ev, 0, sizeof(*ev));
	ev->kind = EVENT_SYSCALL;
	regs->rax = regs->orig_rax = 335;
}

/*
 * A host without a vsyscall page faults where others emulate one of its three entry points. Turns
 * such a fault into the syscall; 0 when it is none.
 */
static int decode_vsyscall_fault(struct systrap_context *c, struct user_regs_struct *regs,
				 struct platform_event *ev)
{
	static const uint16_t numbers[] = { 96, 201, 309 }; /* gettimeofday time getcpu */
	uint64_t offset = regs->rip - VSYSCALL_PAGE, caller;

	if (offset % 0x400 || offset / 0x400 >= sizeof(numbers) / sizeof(numbers[0]))
		return 0;
	if (addrspace_read(&c->as->base, gaddr(regs->rsp), &caller, sizeof(caller)) !=
	    (ssize_t)sizeof(caller))
		return 0;
	regs->rip = caller;
	regs->rsp += 8;
	regs->rax = regs->orig_rax = numbers[offset / 0x400];
	ev->kind = EVENT_SYSCALL;
	return 1;
}

static int decode_frame(struct systrap_context *c, uint32_t signo, struct user_regs_struct *regs,
			struct platform_event *ev)
{
	struct sysmsg *m = c->msg;
	uint32_t frame = __atomic_load_n(&m->frame, __ATOMIC_RELAXED);
	struct frame_ucontext uc;

	if (frame_check(c, frame))
		return -EINVAL;
	memcpy(&uc, (const uint8_t *)m + frame, sizeof(uc));
	__asm__ volatile("" ::: "memory"); /* from here on only the copy counts */

	regs->r8 = uc.mc.r8;
	regs->r9 = uc.mc.r9;
	regs->r10 = uc.mc.r10;
	regs->r11 = uc.mc.r11;
	regs->r12 = uc.mc.r12;
	regs->r13 = uc.mc.r13;
	regs->r14 = uc.mc.r14;
	regs->r15 = uc.mc.r15;
	regs->rdi = uc.mc.rdi;
	regs->rsi = uc.mc.rsi;
	regs->rbp = uc.mc.rbp;
	regs->rbx = uc.mc.rbx;
	regs->rdx = uc.mc.rdx;
	regs->rax = uc.mc.rax;
	regs->rcx = uc.mc.rcx;
	regs->rsp = uc.mc.rsp;
	regs->rip = uc.mc.rip;
	regs->eflags = uc.mc.eflags;
	regs->cs = USER_CS;
	regs->ss = USER_DS;
	regs->ds = regs->es = regs->fs = regs->gs = 0;
	regs->fs_base = __atomic_load_n(&m->event_fs_base, __ATOMIC_RELAXED);
	regs->gs_base = __atomic_load_n(&m->event_gs_base, __ATOMIC_RELAXED);
	if (regs->gs_base == slot_address(c->slot))
		regs->gs_base = 0;
	regs->orig_rax = (unsigned long)-1;

	memset(ev, 0, sizeof(*ev));
	if (signo == STUB_INTERRUPT_SIGNAL) {
		ev->kind = EVENT_INTERRUPTED;
		return 0;
	}
	if (signo == SIGSYS) {
		decode_syscall(regs, &uc.info, ev);
		return 0;
	}
	if (signo != SIGSEGV && signo != SIGBUS && signo != SIGFPE && signo != SIGILL &&
	    signo != SIGTRAP)
		return -EINVAL;
	ev->kind = signo == SIGSEGV || signo == SIGBUS ? EVENT_FAULT : EVENT_EXCEPTION;
	ev->fault.signo = (int)signo;
	ev->fault.code = uc.info.code;
	ev->fault.addr = uc.info.addr;
	ev->fault.trapno = (uint32_t)uc.mc.trapno;
	ev->fault.err = uc.mc.err;
	ev->fault.cr2 = uc.mc.cr2;
	if (ev->fault.trapno == TRAP_PF) {
		if (uc.mc.err & PF_FETCH)
			ev->fault.access = FAULT_EXEC;
		else
			ev->fault.access = uc.mc.err & PF_WRITE ? FAULT_WRITE : FAULT_READ;
	}
	if (signo == SIGILL && uc.info.code == SI_KERNEL)
		decode_uretprobe(regs, ev);
	if (signo == SIGSEGV && (regs->rip & ~0xfffull) == VSYSCALL_PAGE)
		decode_vsyscall_fault(c, regs, ev);
	return 0;
}

int frame_decode(struct systrap_context *c, struct user_regs_struct *regs,
		 struct platform_event *ev)
{
	uint32_t signo = __atomic_load_n(&c->msg->event_signo, __ATOMIC_RELAXED);

	if (signo == EVENT_FAST_SYSCALL || signo == EVENT_FAST_INTERRUPT) {
		decode_fast(c, signo, regs, ev);
		return 0;
	}
	int ret = decode_frame(c, signo, regs, ev);

	if (!ret && __atomic_load_n(&c->as->area, __ATOMIC_RELAXED))
		ret = hide_patches(c, regs, ev);
	if (!ret && ev->kind == EVENT_SYSCALL && !ev->foreign_abi)
		ev->hot = (uint32_t)patch_note_trap(c->as, regs->rip);
	return ret;
}
