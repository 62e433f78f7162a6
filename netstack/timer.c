/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack's timers: a binary heap. The outside timer is only told when the earliest deadline moves
 * forward and then at the end of a lock section, so a timer that is set and cancelled within one
 * section (a segment and its acknowledgement on loopback) costs no host work.
 */
#include <stdlib.h>

#include "netstack/stack_priv.h"

void stimer_init(struct stimer *t, void (*fn)(struct stimer *t))
{
	t->deadline = 0;
	t->index = -1;
	t->fn = fn;
}

static void place(struct stack *s, uint32_t i, struct stimer *t)
{
	s->heap[i] = t;
	t->index = (int32_t)i;
}

static void up(struct stack *s, uint32_t i)
{
	struct stimer *t = s->heap[i];

	while (i && s->heap[(i - 1) / 2]->deadline > t->deadline) {
		place(s, i, s->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(s, i, t);
}

static void down(struct stack *s, uint32_t i)
{
	struct stimer *t = s->heap[i];

	for (;;) {
		uint32_t c = 2 * i + 1;

		if (c >= s->heap_count)
			break;
		if (c + 1 < s->heap_count && s->heap[c + 1]->deadline < s->heap[c]->deadline)
			c++;
		if (s->heap[c]->deadline >= t->deadline)
			break;
		place(s, i, s->heap[c]);
		i = c;
	}
	place(s, i, t);
}

void stimer_arm(struct stack *s, struct stimer *t, uint64_t deadline)
{
	lock_assert_held(&s->lock);
	t->deadline = deadline;
	if (t->index < 0) {
		if (s->heap_count == s->heap_cap) {
			uint32_t cap = s->heap_cap ? s->heap_cap * 2 : 64;
			struct stimer **h = realloc(s->heap, cap * sizeof(*h));

			ASSERT(h); /* a few bytes per endpoint; without timers TCP would hang silently */
			s->heap = h;
			s->heap_cap = cap;
		}
		place(s, s->heap_count++, t);
	}
	up(s, (uint32_t)t->index);
	down(s, (uint32_t)t->index);
}

void stimer_cancel(struct stack *s, struct stimer *t)
{
	if (t->index < 0)
		return;
	uint32_t i = (uint32_t)t->index;
	struct stimer *last = s->heap[--s->heap_count];

	t->index = -1;
	if (last == t)
		return;
	place(s, i, last);
	up(s, i);
	down(s, (uint32_t)last->index);
}

/* The outside timer fired: everything due runs. */
void stack_timers(struct stack *s)
{
	stack_lock(s);
	uint64_t now = stack_now(s);

	s->armed = UINT64_MAX;
	while (s->heap_count && s->heap[0]->deadline <= now) {
		struct stimer *t = s->heap[0];

		stimer_cancel(s, t);
		t->fn(t);
	}
	stack_unlock(s);
}
