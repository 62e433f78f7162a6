/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal frame on the guest stack, byte for byte as x86-64 Linux lays it out, and its way back
 * in rt_sigreturn. The frame is at the new stack pointer; above it, 64-byte aligned, the XSAVE
 * image with Linux's fx_sw_reserved description in bytes 464..511 and a second magic behind it.
 * Everything a frame holds on the way back is the guest's word: checked, never believed.
 */
#include <stdlib.h>
#include <string.h>

#include "platform/abi/sigframe.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal_priv.h"

#define RED_ZONE	128
#define FXSAVE_SIZE	512
#define XSAVE_HDR_END	576 /* legacy area and header */
#define XSTATE_BV_OFF	512
#define SW_RESERVED_OFF 464

#define USER_CS	  0x33
#define USER_DS	  0x2b
#define EFLAGS_CF 0x1ull
#define EFLAGS_TF 0x100ull
#define EFLAGS_DF 0x400ull
#define EFLAGS_RF 0x10000ull
/* What a program may set by a frame (FIX_EFLAGS). */
#define EFLAGS_USER 0x50dd5ull

static void regs_to_sigcontext(struct linux_sigcontext *sc, const struct task *t,
			       linux_sigset_t saved, uint64_t fpstate)
{
	const struct user_regs_struct *r = &t->regs;

	sc->r8 = r->r8;
	sc->r9 = r->r9;
	sc->r10 = r->r10;
	sc->r11 = r->r11;
	sc->r12 = r->r12;
	sc->r13 = r->r13;
	sc->r14 = r->r14;
	sc->r15 = r->r15;
	sc->rdi = r->rdi;
	sc->rsi = r->rsi;
	sc->rbp = r->rbp;
	sc->rbx = r->rbx;
	sc->rdx = r->rdx;
	sc->rax = r->rax;
	sc->rcx = r->rcx;
	sc->rsp = r->rsp;
	sc->rip = r->rip;
	sc->eflags = r->eflags;
	sc->cs = USER_CS;
	sc->ss = USER_DS;
	sc->err = t->trap_err;
	sc->trapno = t->trap_nr;
	sc->oldmask = saved;
	sc->cr2 = t->trap_cr2;
	sc->fpstate = fpstate;
}

/* The XSAVE image into buf (xsize + 4 bytes), described as Linux does for its readers. */
static int fpstate_fill(struct task *t, uint8_t *buf, size_t xsize)
{
	struct linux_fpx_sw_bytes sw;
	uint32_t magic2 = LINUX_FP_XSTATE_MAGIC2;
	int err = context_fpstate_get(t->ctx, buf, xsize);

	if (err)
		return err;
	memset(&sw, 0, sizeof(sw));
	sw.magic1 = LINUX_FP_XSTATE_MAGIC1;
	sw.extended_size = (uint32_t)xsize + LINUX_FP_XSTATE_MAGIC2_SIZE;
	sw.xfeatures = platform_xcr0(t->k->platform);
	sw.xstate_size = (uint32_t)xsize;
	memcpy(buf + SW_RESERVED_OFF, &sw, sizeof(sw));
	memcpy(buf + xsize, &magic2, sizeof(magic2));
	return 0;
}

/* Where the frame goes. 0 when the alternate stack would overflow. */
static uint64_t frame_place(struct task *t, const struct linux_sigaction *sa, size_t fpsize,
			    uint64_t *fpstate)
{
	uint64_t sp = t->regs.rsp;
	int nested = altstack_state(t, sp) == SS_ONSTACK, entering = 0;

	sp -= RED_ZONE;
	if ((sa->flags & SA_ONSTACK) && altstack_state(t, sp) == 0) {
		sp = (uint64_t)(uintptr_t)t->altstack.ss_sp + t->altstack.ss_size;
		entering = 1;
	}
	sp = (sp - fpsize) & ~63ull;
	*fpstate = sp;
	sp -= sizeof(struct linux_rt_sigframe);
	sp = (sp & ~15ull) - 8;
	if ((nested || entering) && !altstack_contains(t, sp))
		return 0;
	return sp;
}

int signal_frame_push(struct task *t, const struct ksignal *ks, linux_sigset_t saved)
{
	size_t xsize = platform_xstate_size(t->k->platform);
	size_t fpsize = xsize + LINUX_FP_XSTATE_MAGIC2_SIZE;
	uint64_t fpstate, sp = frame_place(t, &ks->action, fpsize, &fpstate);
	size_t size = fpstate - sp + fpsize; /* bounded: alignment gaps are below 80 bytes */
	struct linux_rt_sigframe *f;
	uint8_t *buf;
	int err;

	if (!sp || !guest_range_ok(sp, size) || !(ks->action.flags & LINUX_SA_RESTORER))
		return -EFAULT;
	buf = calloc(1, size);
	if (!buf)
		return -EFAULT;
	f = (struct linux_rt_sigframe *)buf;
	err = fpstate_fill(t, buf + (fpstate - sp), xsize);
	if (err)
		goto out;
	f->pretcode = ks->action.restorer;
	f->uc.flags = LINUX_UC_FP_XSTATE | LINUX_UC_SIGCONTEXT_SS | LINUX_UC_STRICT_RESTORE_SS;
	f->uc.stack = t->altstack;
	regs_to_sigcontext(&f->uc.mcontext, t, saved, fpstate);
	f->uc.sigmask = saved;
	f->info = ks->info;
	err = copy_to_user(t, sp, buf, size);
	if (err)
		goto out;
	t->regs.rdi = (uint64_t)ks->info.si_signo;
	t->regs.rsi = sp + offsetof(struct linux_rt_sigframe, info);
	t->regs.rdx = sp + offsetof(struct linux_rt_sigframe, uc);
	t->regs.rax = 0;
	t->regs.rip = ks->action.handler;
	t->regs.rsp = sp;
	t->regs.cs = USER_CS;
	t->regs.ss = USER_DS;
	t->regs.eflags &= ~(EFLAGS_DF | EFLAGS_RF | EFLAGS_TF);
	if ((uint32_t)t->altstack.ss_flags & LINUX_SS_AUTODISARM)
		altstack_reset(t);
out:
	free(buf);
	return err;
}

/*
 * The bytes of a frame on its way back, read in one go from the ucontext up to where the FP state
 * of a frame of ours ends. A guest may have moved the FP state elsewhere: then it is read there.
 */
struct frame_bytes {
	uint64_t at;
	size_t len;
	uint8_t *data;
};

static int frame_get(struct task *t, const struct frame_bytes *fb, uint64_t from, void *to,
		     size_t n)
{
	if (from >= fb->at && from - fb->at <= fb->len && n <= fb->len - (from - fb->at)) {
		memcpy(to, fb->data + (from - fb->at), n);
		return 0;
	}
	return copy_from_user(t, to, from, n);
}

/* What the software bytes say about the image; 0 when it is a bare FXSAVE one. */
static size_t frame_xstate_size(struct task *t, const struct frame_bytes *fb, uint64_t at,
				const uint8_t *fx, size_t xsize, uint64_t *xfeatures)
{
	struct linux_fpx_sw_bytes sw;
	uint32_t magic2;

	memcpy(&sw, fx + SW_RESERVED_OFF, sizeof(sw));
	if (sw.magic1 != LINUX_FP_XSTATE_MAGIC1 || sw.xstate_size < XSAVE_HDR_END ||
	    sw.xstate_size > xsize || sw.xstate_size > sw.extended_size)
		return 0;
	if (frame_get(t, fb, at + sw.xstate_size, &magic2, sizeof(magic2)) ||
	    magic2 != LINUX_FP_XSTATE_MAGIC2)
		return 0;
	*xfeatures = sw.xfeatures;
	return sw.xstate_size;
}

static int fpstate_restore(struct task *t, const struct frame_bytes *fb, uint64_t at)
{
	size_t xsize = platform_xstate_size(t->k->platform), n;
	uint64_t xfeatures = 3, bv;
	uint8_t *buf;
	int err = -EFAULT;

	if (!at) {
		context_fpstate_reset(t->ctx);
		return 0;
	}
	buf = calloc(1, xsize);
	if (!buf)
		return -EFAULT;
	if (frame_get(t, fb, at, buf, FXSAVE_SIZE))
		goto out;
	n = frame_xstate_size(t, fb, at, buf, xsize, &xfeatures);
	if (!n) {
		err = context_fpstate_set(t->ctx, buf, FXSAVE_SIZE);
		goto out;
	}
	if (frame_get(t, fb, at + FXSAVE_SIZE, buf + FXSAVE_SIZE, n - FXSAVE_SIZE))
		goto out;
	/* Features the frame does not claim start afresh. */
	memcpy(&bv, buf + XSTATE_BV_OFF, sizeof(bv));
	bv &= xfeatures & platform_xcr0(t->k->platform);
	memcpy(buf + XSTATE_BV_OFF, &bv, sizeof(bv));
	err = context_fpstate_set(t->ctx, buf, xsize);
out:
	free(buf);
	return err;
}

static void sigcontext_to_regs(struct task *t, const struct linux_sigcontext *sc)
{
	struct user_regs_struct *r = &t->regs;

	r->r8 = sc->r8;
	r->r9 = sc->r9;
	r->r10 = sc->r10;
	r->r11 = sc->r11;
	r->r12 = sc->r12;
	r->r13 = sc->r13;
	r->r14 = sc->r14;
	r->r15 = sc->r15;
	r->rdi = sc->rdi;
	r->rsi = sc->rsi;
	r->rbp = sc->rbp;
	r->rbx = sc->rbx;
	r->rdx = sc->rdx;
	r->rax = sc->rax;
	r->rcx = sc->rcx;
	r->rsp = sc->rsp;
	r->rip = sc->rip;
	/* Selectors other than the two flat ones do not exist in the sandbox. */
	r->cs = USER_CS;
	r->ss = USER_DS;
	r->eflags = (r->eflags & ~EFLAGS_USER) | (sc->eflags & EFLAGS_USER);
	r->orig_rax = (uint64_t)-1;
}

/* Registers, mask, FP state and altstack of a frame that has been read. */
static int frame_apply(struct task *t, const struct frame_bytes *fb)
{
	struct linux_ucontext uc;
	stack_t ss;

	if (fb->len < sizeof(uc))
		return -EFAULT;
	memcpy(&uc, fb->data, sizeof(uc));
	/* A program that wrote a non-canonical rip would fault at its first instruction. */
	if ((int64_t)(uc.mcontext.rip << 16) >> 16 != (int64_t)uc.mcontext.rip)
		return -EFAULT;
	if (uc.mcontext.cs && (uc.mcontext.cs | 3) != USER_CS)
		return -EFAULT;
	signal_set_blocked(t, uc.sigmask);
	sigcontext_to_regs(t, &uc.mcontext);
	if (fpstate_restore(t, fb, uc.mcontext.fpstate))
		return -EFAULT;
	ss = uc.stack;
	altstack_set(t, &ss, t->regs.rsp,
		     LINUX_MINSIGSTKSZ); /* Linux ignores its complaints here too */
	return 0;
}

int signal_frame_pop(struct task *t)
{
	/* The gaps that alignment leaves below the FP state are under 80 bytes. */
	size_t size = sizeof(struct linux_rt_sigframe) + 80 + platform_xstate_size(t->k->platform) +
		      LINUX_FP_XSTATE_MAGIC2_SIZE;
	struct frame_bytes fb = { .at = t->regs.rsp - 8 + offsetof(struct linux_rt_sigframe, uc) };
	ssize_t n;
	int err;

	if (!guest_range_ok(fb.at, sizeof(struct linux_ucontext)))
		return -EFAULT;
	if (!guest_range_ok(fb.at, size))
		size = (size_t)(GUEST_TASK_SIZE - fb.at);
	fb.data = malloc(size);
	if (!fb.data)
		return -EFAULT;
	n = copy_from_user_some(t, fb.data, fb.at, size);
	fb.len = n < 0 ? 0 : (size_t)n;
	err = frame_apply(t, &fb);
	free(fb.data);
	return err;
}
