/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Robust lists: what a dying thread still holds is marked FUTEX_OWNER_DIED and one waiter is woken.
 * The list is the guest's: every pointer is hostile, and the walk is bounded.
 */
#include <linux/futex.h>

#include "sentry/futex/futex_priv.h"
#include "sentry/mm/mm.h"

/* As struct robust_list_head. */
struct robust_head {
	uint64_t next;
	int64_t futex_offset;
	uint64_t pending;
};

/* 0, or -1 when the list must not be walked further (handle_futex_death). */
static int one_died(struct task *t, uint64_t addr, int is_pi, int is_pending)
{
	uint32_t tid = (uint32_t)task_tid(t), val, seen;

	if (addr % sizeof(uint32_t) || get_user_u32(t, addr, &val))
		return -1;
	for (;;) {
		/* Died between unlocking the word and waking: the waiter must not sleep on. */
		if (is_pending && !is_pi && !val) {
			futex_do_wake(t, addr, FUTEX_F_SHARED, 1, FUTEX_BITSET_MATCH_ANY);
			return 0;
		}
		if ((val & FUTEX_TID_MASK) != tid)
			return 0;
		if (!t->ctx || context_cmpxchg32(t->ctx, gaddr(addr), val,
						 (val & FUTEX_WAITERS) | FUTEX_OWNER_DIED, &seen))
			return -1;
		if (seen == val)
			break;
		val = seen;
	}
	if (!is_pi && (val & FUTEX_WAITERS))
		futex_do_wake(t, addr, FUTEX_F_SHARED, 1, FUTEX_BITSET_MATCH_ANY);
	return 0;
}

/* Bit 0 of an entry's address marks a PI futex. */
void futex_robust_died(struct task *t, uint64_t list)
{
	struct robust_head h;
	uint64_t entry, next, pending;
	int limit = ROBUST_LIST_LIMIT, fetch_failed = 0;

	if (copy_from_user(t, &h, list, sizeof(h)))
		return;
	entry = h.next;
	pending = h.pending & ~1ull;
	while ((entry & ~1ull) != list && !fetch_failed) {
		uint64_t at = entry & ~1ull;

		/* The next pointer first: once released, the entry may be reused. */
		fetch_failed = get_user_u64(t, at, &next);
		if (at != pending &&
		    one_died(t, at + (uint64_t)h.futex_offset, (int)(entry & 1), 0))
			return;
		if (--limit == 0)
			break;
		entry = next;
	}
	if (pending)
		one_died(t, pending + (uint64_t)h.futex_offset, (int)(h.pending & 1), 1);
}

void futex_task_exit(struct task *t)
{
	if (t->robust_list) {
		uint64_t list = t->robust_list;

		t->robust_list = 0;
		if (t->mm)
			futex_robust_died(t, list);
	}
	futex_pi_task_exit(t);
}
