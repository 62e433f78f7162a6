/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handoff between a sentry thread and its stub thread, and context_switch on top of it.
 *
 * Theory: `turn` in the message page says who may act. Whoever waits first spins, then sets its
 * own `sleeps` flag and sleeps on `turn` as a futex. Whoever gives the turn away changes `turn`,
 * then looks at the other's flag; both sides put a full barrier between the two accesses, so
 * either the giver sees the flag and wakes, or the sleeper sees the new turn (and if it changes
 * later still, the futex compares it again).
 *
 * Policy: spinning is worth it while a processor is free for it and the other side has lately
 * been quick. `running` counts contexts whose guest code runs, `spinning` sentry threads that
 * spin; a spinner gives up when the two exceed the processors. Each context keeps two moving
 * averages: how long its guest computes between events (by the stub's clock: without the time it
 * took to wake anybody), and how long the sentry takes to serve one. Other load on the host shows
 * as spins in vain, which make the next ones rarer. An idle sandbox has everybody asleep on
 * futexes without timeout.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/systrap/patch.h"

#define SPIN_US 20     /* longest spin */
#define QUICK_US 12    /* averages below this count as quick (a futex wake is 4 to 12 us) */
#define MAX_PENALTY 63
#define EFLAGS_TF 0x100
#define AVERAGE_SHIFT 3

/*
 * A guest can block the interrupt signal with a forged sigreturn frame, or make its thread look
 * stopped when it is not. It has then only itself to blame, but the sentry must not wait for it.
 */
#define INTERRUPT_PATIENCE_NS 10000000000ull
#define ORDER_PATIENCE_NS 120000000000ull

/* #hostcalls: futex */
long futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct timespec ts = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };

	return syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns ? &ts : NULL, NULL, 0);
}

/* #hostcalls: futex */
void futex_wake(uint32_t *word, int count)
{
	syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static uint64_t average(uint64_t avg, uint64_t sample, uint64_t cap)
{
	if (sample > cap)
		sample = cap;
	return avg - (avg >> AVERAGE_SHIFT) + (sample >> AVERAGE_SHIFT);
}

/* True when `more` threads beyond those counted would still each have a processor. */
static int processors_free(const struct systrap *p, uint32_t more)
{
	return __atomic_load_n(&p->running, __ATOMIC_RELAXED) +
		       __atomic_load_n(&p->spinning, __ATOMIC_RELAXED) + more <=
	       p->cpus;
}

/* True when this wait may spin; counts down the ones that may not. */
static int try_luck(struct spin_luck *l)
{
	if (!l->skip)
		return 1;
	l->skip--;
	return 0;
}

static void note_luck(struct spin_luck *l, int won)
{
	if (won) {
		l->penalty = 0;
		return;
	}
	l->penalty = (uint8_t)(l->penalty * 2 + 1 < MAX_PENALTY ? l->penalty * 2 + 1 : MAX_PENALTY);
	l->skip = l->penalty;
}

void handoff_give(struct systrap_context *c, enum sysmsg_command command)
{
	struct sysmsg *m = c->msg;
	struct systrap *p = c->plat;
	int spun = (int)c->stub_spins;

	/* The stub will spin beside this thread while it serves the next event. */
	c->stub_spins = c->service_cycles < QUICK_US * p->cycles_per_us && processors_free(p, 2) &&
			try_luck(&c->stub_luck);
	m->spin_cycles = c->stub_spins ? SPIN_US * p->cycles_per_us : 0;
	m->command = command;
	__atomic_exchange_n(&m->turn, TURN_STUB, __ATOMIC_SEQ_CST);
	int slept = __atomic_load_n(&m->stub_sleeps, __ATOMIC_SEQ_CST) != 0;

	if (slept)
		futex_wake(&m->turn, 1);
	if (spun)
		note_luck(&c->stub_luck, !slept);
}

static int spin(struct systrap_context *c)
{
	struct systrap *p = c->plat;
	uint64_t start = cycles(), budget = SPIN_US * p->cycles_per_us;
	int won = 0;

	__atomic_fetch_add(&p->spinning, 1, __ATOMIC_RELAXED);
	do {
		if (__atomic_load_n(&c->msg->turn, __ATOMIC_ACQUIRE) != TURN_STUB) {
			won = 1;
			break;
		}
		__builtin_ia32_pause();
	} while (cycles() - start < budget && processors_free(p, 0));
	__atomic_fetch_sub(&p->spinning, 1, __ATOMIC_RELAXED);
	note_luck(&c->sentry_luck, won);
	if (won)
		stat_add(&p->stats.spins_won);
	return won;
}

/* Sleeps until the turn may have changed. Kills a guest that should have stopped long ago. */
static void sleep_turn(struct systrap_context *c, int guest)
{
	struct sysmsg *m = c->msg;
	uint64_t patience = guest ? 0 : ORDER_PATIENCE_NS;

	/* context_interrupt() wakes this thread, so that it sees the flag. */
	if (guest && __atomic_load_n(&c->interrupt, __ATOMIC_SEQ_CST))
		patience = INTERRUPT_PATIENCE_NS;
	if (futex_wait(&m->turn, TURN_STUB, patience) == 0 || errno != ETIMEDOUT ||
	    __atomic_load_n(&m->turn, __ATOMIC_SEQ_CST) != TURN_STUB)
		return;
	log_warn("systrap: stub thread %d does not stop; killed", c->tid);
	systrap_as_kill(&c->as->base);
}

/* Waits until the stub has given the turn back. 0, or -ESRCH: its process is gone. */
static int wait_turn(struct systrap_context *c, int guest, int may_spin)
{
	struct sysmsg *m = c->msg;

	if (!may_spin || !processors_free(c->plat, 1) || !try_luck(&c->sentry_luck) || !spin(c)) {
		stat_add(&c->plat->stats.sleeps);
		__atomic_exchange_n(&m->sentry_sleeps, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&m->turn, __ATOMIC_SEQ_CST) == TURN_STUB) {
			/* The reaper sets dead, then TURN_DEAD: our TURN_STUB may have come last. */
			if (addrspace_dead(c->as))
				break;
			sleep_turn(c, guest);
		}
		__atomic_store_n(&m->sentry_sleeps, 0, __ATOMIC_RELAXED);
	}
	return addrspace_dead(c->as) ? -ESRCH : 0;
}

int handoff_orders(struct systrap_context *c)
{
	if (addrspace_dead(c->as))
		return -ESRCH;
	handoff_give(c, COMMAND_ORDERS);
	return wait_turn(c, 0, 1);
}

int handoff_guest(struct systrap_context *c)
{
	struct systrap *p = c->plat;
	uint64_t cap = 64 * QUICK_US * p->cycles_per_us, now = cycles();

	if (c->event_at)
		c->service_cycles = average(c->service_cycles, now - c->event_at, cap);
	bounce_resume(c);
	handoff_give(c, COMMAND_RESUME);
	__atomic_fetch_add(&p->running, 1, __ATOMIC_RELAXED);
	int ret = wait_turn(c, 1, c->guest_cycles < QUICK_US * p->cycles_per_us);

	__atomic_fetch_sub(&p->running, 1, __ATOMIC_RELAXED);
	c->event_at = cycles();
	/* A guest that forges these decides about 20 us of its own sentry thread's time. */
	c->guest_cycles = average(c->guest_cycles,
				  __atomic_load_n(&c->msg->stopped_at, __ATOMIC_RELAXED) -
					  __atomic_load_n(&c->msg->resumed_at, __ATOMIC_RELAXED),
				  cap);
	return ret;
}

/* Takes a pending interrupt, if there is one. */
static int take_interrupt(struct systrap_context *c, struct platform_event *ev)
{
	if (!__atomic_load_n(&c->interrupt, __ATOMIC_SEQ_CST) ||
	    !__atomic_exchange_n(&c->interrupt, 0, __ATOMIC_SEQ_CST))
		return 0;
	memset(ev, 0, sizeof(*ev));
	ev->kind = EVENT_INTERRUPTED;
	return 1;
}

static void bad_rip_event(const struct user_regs_struct *regs, struct platform_event *ev)
{
	memset(ev, 0, sizeof(*ev));
	ev->kind = EVENT_FAULT;
	ev->fault.signo = SIGSEGV;
	ev->fault.code = SI_KERNEL;
	ev->fault.trapno = 13; /* #GP, as iret has it */
}

int frame_ensure(struct systrap_context *c)
{
	if (!c->fast)
		return 0;
	if (addrspace_dead(c->as))
		return -ESRCH;
	(void)systrap_ctx_stores_now(&c->base);
	handoff_give(c, COMMAND_FRAME);
	int ret = wait_turn(c, 0, 1);

	if (!ret && frame_check(c, __atomic_load_n(&c->msg->frame, __ATOMIC_RELAXED))) {
		log_once("systrap: a guest damaged its stub's slot; killed");
		addrspace_kill(&c->as->base);
		ret = -ESRCH;
	}
	if (!ret)
		c->fast = 0;
	return ret;
}

/* Puts the registers where the stub takes them from. 0 or -ESRCH. */
static int load_regs(struct systrap_context *c, struct user_regs_struct *regs)
{
	if (c->fast) {
		struct fast_regs *r = (struct fast_regs *)((uint8_t *)c->msg + SLOT_FAST_REGS);
		struct user_regs_struct *was = &c->fast_regs;

		/* The short way back takes a result along and nothing else. */
		was->rax = regs->rax;
		was->orig_rax = regs->orig_rax;
		if (!memcmp(was, regs, sizeof(*was))) {
			r->rax = regs->rax;
			return 0;
		}
		int ret = frame_ensure(c);

		if (ret)
			return ret;
	}
	/* A single step over a patched site must not end before it has begun. */
	if ((regs->eflags & EFLAGS_TF) && __atomic_load_n(&c->as->area, __ATOMIC_RELAXED))
		regs->rip = patch_step(c->as, regs->rip);
	frame_load_regs(c, regs);
	return 0;
}

/* Text may be written right now, and can not be executed meanwhile: see patch.c. 1: try again. */
static int fetch_met_patch(struct systrap_context *c, const struct platform_event *ev)
{
	struct systrap_addrspace *as = c->as;
	uint32_t now = __atomic_load_n(&as->patch_generation, __ATOMIC_SEQ_CST);

	if (ev->kind != EVENT_FAULT || ev->fault.access != FAULT_EXEC || now == c->generation_seen)
		return 0;
	lock_acquire(&as->op_lock);
	lock_release(&as->op_lock);
	return 1;
}

void systrap_ctx_switch(struct context *base, struct user_regs_struct *regs,
			struct platform_event *ev)
{
	struct systrap_context *c = to_context(base);

	lock_assert_none_held();
	stat_add(&c->plat->stats.switches);
	for (;;) {
		if (take_interrupt(c, ev)) {
			(void)systrap_ctx_stores_now(base);
			return;
		}
		if (regs->rip >> 47 && regs->rip >> 47 != 0x1ffff) {
			bad_rip_event(regs, ev);
			return;
		}
		int ret = load_regs(c, regs);

		if (ret)
			goto gone;
		c->generation_seen =
			__atomic_load_n(&c->as->patch_generation, __ATOMIC_SEQ_CST) & ~1u;
		/* From here on context_interrupt() sends the signal; look once more before. */
		__atomic_store_n(&c->in_guest, 1, __ATOMIC_SEQ_CST);
		if (take_interrupt(c, ev)) {
			__atomic_store_n(&c->in_guest, 0, __ATOMIC_SEQ_CST);
			(void)systrap_ctx_stores_now(base);
			return;
		}
		ret = addrspace_dead(c->as) ? -ESRCH : handoff_guest(c);
		__atomic_store_n(&c->in_guest, 0, __ATOMIC_SEQ_CST);
		c->fast = 0;
		int more = ret ? 0 : frame_decode(c, regs, ev);

		if (more < 0) {
			log_once("systrap: a guest damaged its stub's slot; killed");
			addrspace_kill(&c->as->base);
			ret = -ESRCH;
		}
		if (ret)
			goto gone;
		if (more || fetch_met_patch(c, ev))
			continue;
		if (ev->kind == EVENT_SYSCALL && !ev->foreign_abi)
			bounce_event(c);
		/* A signal sent for an interrupt that has been taken back since is not news. */
		if (ev->kind != EVENT_INTERRUPTED || take_interrupt(c, ev))
			return;
	}
gone:
	memset(ev, 0, sizeof(*ev));
	ev->kind = EVENT_EXITED;
}

/* #hostcalls: tgkill futex */
void systrap_ctx_interrupt(struct context *base)
{
	struct systrap_context *c = to_context(base);

	__atomic_store_n(&c->interrupt, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&c->in_guest, __ATOMIC_SEQ_CST) || addrspace_enter(c->as))
		return;
	syscall(SYS_tgkill, c->as->pid, c->tid, STUB_INTERRUPT_SIGNAL);
	/* For sleep_turn(). */
	if (__atomic_load_n(&c->msg->sentry_sleeps, __ATOMIC_RELAXED))
		futex_wake(&c->msg->turn, 2);
	addrspace_leave(c->as);
}

void systrap_ctx_interrupt_clear(struct context *base)
{
	__atomic_store_n(&to_context(base)->interrupt, 0, __ATOMIC_SEQ_CST);
}
