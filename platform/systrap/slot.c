/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots: one piece of a memfd per stub thread, at the same index in the sentry's view and at
 * a fixed address in the stub's. A slot goes back to the sandbox-wide pool only when no process
 * maps it any more; within a living process it is kept (process.c).
 */
#include <errno.h>
#include <string.h>

#include "platform/systrap/systrap.h"

struct sysmsg *slot_message(struct systrap *p, uint32_t slot)
{
	return (struct sysmsg *)(p->slots + (size_t)slot * SLOT_SIZE);
}

int slot_alloc(struct systrap *p, uint32_t *slot)
{
	const uint32_t words = (uint32_t)(sizeof(p->slot_used) / sizeof(p->slot_used[0]));
	int ret = -EAGAIN;

	lock_acquire(&p->lock);
	for (uint32_t i = 0; i < words && ret; i++) {
		/* The lowest free one: memory of the memfd is then never spread out. */
		uint32_t w = (p->slot_hint + i) % words;
		uint64_t free_bits = ~p->slot_used[w];

		if (!free_bits)
			continue;
		uint32_t s = w * 64 + (uint32_t)__builtin_ctzll(free_bits);

		if (s >= SLOT_COUNT)
			continue;
		p->slot_used[w] |= 1ull << (s % 64);
		p->slot_hint = w;
		*slot = s;
		ret = 0;
	}
	lock_release(&p->lock);
	return ret;
}

void slot_free(struct systrap *p, uint32_t slot)
{
	lock_assert_held(&p->lock);
	ASSERT(p->slot_used[slot / 64] & 1ull << (slot % 64));
	p->slot_used[slot / 64] &= ~(1ull << (slot % 64));
	p->slot_owner[slot] = NULL;
	if (slot / 64 < p->slot_hint)
		p->slot_hint = slot / 64;
}

void slot_prepare(struct systrap_context *c, const uint8_t *stack, uint32_t frame,
		  uint32_t fpstate)
{
	uint8_t *slot = (uint8_t *)c->msg;
	uint64_t base = slot_address(c->slot);
	uint32_t from = frame - 8; /* the frame's return address, which the restorer pops */

	memset(slot, 0, sizeof(struct sysmsg));
	/* What the last owner, maybe of another process, read and wrote is nobody else's business. */
	if (__atomic_exchange_n(&c->plat->slot_used_once[c->slot], 0, __ATOMIC_RELAXED))
		memset(slot + SLOT_BOUNCE, 0, SLOT_BOUNCE_SIZE);
	/* The handler's own stack lies below the frame and never reaches further than this. */
	memset(slot + from - 4096, 0, 4096);
	memcpy(slot + from, stack + (from - SLOT_STACK), SLOT_SIZE - from);

	struct frame_ucontext *uc = (struct frame_ucontext *)(slot + frame);

	uc->stack_sp = base + SLOT_STACK;
	uc->stack_size = SLOT_SIZE - SLOT_STACK;
	uc->stack_flags = 0;
	uc->mc.fpstate = base + fpstate;
	uc->sigmask = 0;
	c->frame = frame;
	c->fpstate = fpstate;
	c->msg->frame = frame;
	c->msg->self = (uint64_t)SELF_MAGIC - base;
	c->msg->turn = TURN_SENTRY;
}
