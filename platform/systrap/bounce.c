/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small arguments and results without a host call: the stub copies what a call's argument points
 * to into its slot before it gives the turn, and stores results from there before the guest goes
 * on. Which argument, says a table that the kernel makes of its list of syscalls. README.md has
 * the measurement.
 *
 * The room is guest memory as far as trust goes: any thread of the process can change it at any
 * time. A byte in it is read once, into the caller's buffer; sizes are bounded here, when the
 * event comes.
 */
#include <errno.h>
#include <string.h>

#include "platform/systrap/patch.h"

_Static_assert(BRING_NUMBERS == PLATFORM_BRING_NUMBERS && BRING_STRING == BRING_A_STRING &&
		       BRING_BUFFER == BRING_A_BUFFER && BRING_PAIRS == BRING_SOME_PAIRS &&
		       BRING_PAIR == BRING_A_PAIR,
	       "the contract's table is the stub's");

static uint8_t *room(struct systrap_context *c, uint32_t at)
{
	return (uint8_t *)c->msg + at;
}

static void mark_used(struct systrap_context *c)
{
	uint8_t *mark = &c->plat->slot_used_once[c->slot];

	if (!__atomic_load_n(mark, __ATOMIC_RELAXED))
		__atomic_store_n(mark, 1, __ATOMIC_RELAXED);
}

void bounce_event(struct systrap_context *c)
{
	uint32_t size = __atomic_load_n(&c->msg->in_size, __ATOMIC_RELAXED);

	c->in_size = 0;
	if (!size || size > SLOT_IN_SIZE)
		return;
	c->in_addr = __atomic_load_n(&c->msg->in_addr, __ATOMIC_RELAXED);
	c->in_size = size;
	mark_used(c);
}

size_t systrap_ctx_brought(struct context *base, uint64_t from, void *buf, size_t size)
{
	struct systrap_context *c = to_context(base);
	uint64_t at = from - c->in_addr;

	if (at >= c->in_size)
		return 0;
	if (size > c->in_size - at)
		size = c->in_size - at;
	memcpy(buf, room(c, SLOT_IN) + at, size);
	patch_hide(c->as, from, buf, size);
	return size;
}

int systrap_ctx_store_later(struct context *base, uint64_t to, const void *buf, size_t size)
{
	struct systrap_context *c = to_context(base);

	if (c->out_count == OUT_MAX || size > SLOT_OUT_SIZE - c->out_size)
		return 0;
	memcpy(room(c, SLOT_OUT) + c->out_size, buf, size);
	c->out[c->out_count++] = (struct sysmsg_out){ to, (uint32_t)size, 0 };
	c->out_size = (c->out_size + (uint32_t)size + 7) & ~7u;
	mark_used(c);
	return 1;
}

int systrap_ctx_stores_now(struct context *base)
{
	struct systrap_context *c = to_context(base);
	uint32_t at = 0;
	int ret = 0;

	for (uint32_t i = 0; i < c->out_count; i++) {
		uint32_t size = c->out[i].size;

		if (systrap_as_write(&c->as->base, c->out[i].addr, room(c, SLOT_OUT) + at, size) !=
		    (ssize_t)size)
			ret = -EFAULT;
		at = (at + size + 7) & ~7u;
	}
	c->out_count = c->out_size = 0;
	c->in_size = 0;
	return ret;
}

void bounce_resume(struct systrap_context *c)
{
	if (c->out_count)
		memcpy(c->msg->out, c->out, c->out_count * sizeof(c->out[0]));
	c->msg->out_count = c->out_count;
	c->out_count = c->out_size = 0;
	c->in_size = 0;
}
