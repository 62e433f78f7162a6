/* SPDX-License-Identifier: Apache-2.0 */
/* futex(2) and its successors: argument checks; the work is in sentry/futex. */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <time.h>

#include "sentry/futex/futex.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"
#include "sentry/time/timers.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

static int has_timeout(int cmd)
{
	return cmd == FUTEX_WAIT || cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2 ||
	       cmd == FUTEX_WAIT_BITSET || cmd == FUTEX_WAIT_REQUEUE_PI;
}

static int timeout_from_user(struct task *t, int cmd, int op, uint64_t addr,
			     struct futex_timeout *to)
{
	uint64_t ns;
	int err;

	to->clock = (op & FUTEX_CLOCK_REALTIME) || cmd == FUTEX_LOCK_PI ? CLOCK_REALTIME
									: CLOCK_MONOTONIC;
	to->ns = NO_DEADLINE;
	if (!addr || !has_timeout(cmd))
		return 0;
	err = timespec_from_user(t, addr, &ns);
	if (err)
		return err;
	to->ns = cmd == FUTEX_WAIT ? deadline_add(mono_now_ns(), ns) : deadline_add(0, ns);
	return 0;
}

SYSCALL_HANDLER(futex)
{
	uint64_t addr = a->a[0], addr2 = a->a[4];
	int op = (int)a->a[1], cmd = op & FUTEX_CMD_MASK;
	uint32_t val = (uint32_t)a->a[2], val3 = (uint32_t)a->a[5];
	uint32_t flags = op & FUTEX_PRIVATE_FLAG ? 0 : FUTEX_F_SHARED;
	int count2 = (int)a->a[3];
	struct futex_timeout to;
	int err = timeout_from_user(t, cmd, op, a->a[3], &to);

	if (err)
		return err;
	if ((op & FUTEX_CLOCK_REALTIME) && cmd != FUTEX_WAIT_BITSET &&
	    cmd != FUTEX_WAIT_REQUEUE_PI && cmd != FUTEX_LOCK_PI2)
		return -ENOSYS;
	switch (cmd) {
	case FUTEX_WAIT:
		return futex_do_wait(t, addr, flags, val, FUTEX_BITSET_MATCH_ANY, &to);
	case FUTEX_WAIT_BITSET:
		return futex_do_wait(t, addr, flags, val, val3, &to);
	case FUTEX_WAKE:
		return futex_do_wake(t, addr, flags, (int)val, FUTEX_BITSET_MATCH_ANY);
	case FUTEX_WAKE_BITSET:
		return futex_do_wake(t, addr, flags, (int)val, val3);
	case FUTEX_REQUEUE:
		return futex_requeue(t, addr, flags, addr2, flags, (int)val, count2, NULL);
	case FUTEX_CMP_REQUEUE:
		return futex_requeue(t, addr, flags, addr2, flags, (int)val, count2, &val3);
	case FUTEX_WAKE_OP:
		return futex_wake_op(t, addr, flags, addr2, (int)val, count2, val3);
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return futex_lock_pi(t, addr, flags, &to, 0);
	case FUTEX_TRYLOCK_PI:
		return futex_lock_pi(t, addr, flags, &to, 1);
	case FUTEX_UNLOCK_PI:
		return futex_unlock_pi(t, addr, flags);
	case FUTEX_WAIT_REQUEUE_PI:
		return futex_wait_requeue_pi(t, addr, flags, val, FUTEX_BITSET_MATCH_ANY, &to,
					     addr2);
	case FUTEX_CMP_REQUEUE_PI:
		return futex_cmp_requeue_pi(t, addr, flags, addr2, (int)val, count2, val3);
	}
	return -ENOSYS;
}

/* ---- futex2: sized, with flags of their own ---- */

#define FUTEX2_SIZE_MASK_BITS 0x03u
#define FUTEX2_U32	      0x02u
#define FUTEX2_PRIVATE_BIT    128u

/* Only 32-bit words without NUMA hints exist here, as on kernels before 6.16. */
static int flags2(uint64_t flags, uint32_t *out)
{
	if (flags & ~(uint64_t)(FUTEX2_SIZE_MASK_BITS | FUTEX2_PRIVATE_BIT))
		return -EINVAL;
	if ((flags & FUTEX2_SIZE_MASK_BITS) != FUTEX2_U32)
		return -EINVAL;
	*out = flags & FUTEX2_PRIVATE_BIT ? 0 : FUTEX_F_SHARED;
	return 0;
}

static int timeout2(struct task *t, uint64_t addr, int clock, struct futex_timeout *to)
{
	uint64_t ns;
	int err;

	to->clock = CLOCK_MONOTONIC;
	to->ns = NO_DEADLINE;
	if (!addr)
		return 0;
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return -EINVAL;
	err = timespec_from_user(t, addr, &ns);
	if (err)
		return err;
	to->clock = clock;
	to->ns = deadline_add(0, ns);
	return 0;
}

SYSCALL_HANDLER(futex_wake)
{
	uint32_t flags;
	int nr = (int)a->a[2];
	int err = flags2((uint32_t)a->a[3], &flags);

	if (err)
		return err;
	if (a->a[1] > UINT32_MAX)
		return -EINVAL;
	if (!a->a[1])
		return -EINVAL;
	if (!nr) {
		struct futex_key key;

		return futex_key_get(t, a->a[0], flags, &key);
	}
	return futex_do_wake(t, a->a[0], flags, nr, (uint32_t)a->a[1]);
}

SYSCALL_HANDLER(futex_wait)
{
	struct futex_timeout to;
	uint32_t flags;
	int err = flags2((uint32_t)a->a[3], &flags);

	if (err)
		return err;
	if (a->a[1] > UINT32_MAX || a->a[2] > UINT32_MAX)
		return -EINVAL;
	err = timeout2(t, a->a[4], (int)a->a[5], &to);
	if (err)
		return err;
	return futex_do_wait(t, a->a[0], flags, (uint32_t)a->a[1], (uint32_t)a->a[2], &to);
}

struct linux_futex_waitv {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};

static int waitv_from_user(struct task *t, uint64_t addr, unsigned int count,
			   struct futex_wait_entry *e)
{
	for (unsigned int i = 0; i < count; i++) {
		struct linux_futex_waitv w;
		int err;

		if (copy_from_user(t, &w, addr + i * sizeof(w), sizeof(w)))
			return -EFAULT;
		err = flags2(w.flags, &e[i].flags);
		if (err)
			return err;
		if (w.reserved || w.val > UINT32_MAX)
			return -EINVAL;
		e[i].addr = w.uaddr;
		e[i].val = (uint32_t)w.val;
	}
	return 0;
}

SYSCALL_HANDLER(futex_requeue)
{
	struct futex_wait_entry e[2];
	int err;

	if ((uint32_t)a->a[1] || !a->a[0])
		return -EINVAL;
	err = waitv_from_user(t, a->a[0], 2, e);
	if (err)
		return err;
	return futex_requeue(t, e[0].addr, e[0].flags, e[1].addr, e[1].flags, (int)a->a[2],
			     (int)a->a[3], &e[0].val);
}

SYSCALL_HANDLER(futex_waitv)
{
	struct futex_wait_entry e[FUTEX_WAITV_LIMIT];
	uint32_t count = (uint32_t)a->a[1];
	struct futex_timeout to;
	int err;

	if ((uint32_t)a->a[2] || !count || count > FUTEX_WAITV_LIMIT || !a->a[0])
		return -EINVAL;
	err = timeout2(t, a->a[3], (int)a->a[4], &to);
	if (!err)
		err = waitv_from_user(t, a->a[0], count, e);
	return err ? err : futex_wait_multiple(t, e, count, &to);
}
