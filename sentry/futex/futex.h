/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futexes. A word is named by a key: (mm, address) for private ones and private memory, (inode,
 * offset) for shared mappings. Calls come from the waiting or waking task itself; no lock may be
 * held. Lock order: hash buckets by address, then the PI lock, then tasks_lock.
 */
#ifndef CAISSON_FUTEX_H
#define CAISSON_FUTEX_H

#include <stdint.h>

#include "platform/base/list.h"
#include "sentry/task/task.h"

enum futex_key_kind { FUTEX_KEY_PRIVATE, FUTEX_KEY_MM, FUTEX_KEY_INODE };

/*
 * What a futex word is known by. No references are held: while somebody waits, his own mapping
 * keeps the object; should he unmap it, the worst a reused pointer can do is a spurious wake.
 */
struct futex_key {
	const void *object;
	uint64_t offset;
	enum futex_key_kind kind;
};

/* An absolute timeout. */
struct futex_timeout {
	int clock;   /* CLOCK_MONOTONIC or CLOCK_REALTIME */
	uint64_t ns; /* NO_DEADLINE: none */
};

#define FUTEX_F_SHARED 1u

/* -EINVAL (alignment), -EFAULT. */
int futex_key_get(struct task *t, uint64_t addr, uint32_t flags, struct futex_key *key);

/* 0, -EAGAIN (another value), -ETIMEDOUT, -ERESTARTSYS, -ERESTART_RESTARTBLOCK, -EFAULT, -EINVAL.
 */
long futex_do_wait(struct task *t, uint64_t addr, uint32_t flags, uint32_t val, uint32_t bitset,
		   const struct futex_timeout *to);
/* How many were woken. */
long futex_do_wake(struct task *t, uint64_t addr, uint32_t flags, int count, uint32_t bitset);
/* cmp: NULL, or the value *addr1 must have (-EAGAIN). Woken and requeued. */
long futex_requeue(struct task *t, uint64_t addr1, uint32_t flags1, uint64_t addr2, uint32_t flags2,
		   int nr_wake, int nr_requeue, const uint32_t *cmp);
long futex_wake_op(struct task *t, uint64_t addr1, uint32_t flags, uint64_t addr2, int nr_wake,
		   int nr_wake2, uint32_t op);

#define FUTEX_WAITV_LIMIT 128
struct futex_wait_entry {
	uint64_t addr;
	uint32_t val, flags;
};
/* The index of one that was woken, or an error as futex_wait. */
long futex_wait_multiple(struct task *t, const struct futex_wait_entry *e, unsigned int count,
			 const struct futex_timeout *to);

/* ---- priority-inheritance futexes (futex_pi.c) ---- */

long futex_lock_pi(struct task *t, uint64_t addr, uint32_t flags, const struct futex_timeout *to,
		   int try_only);
long futex_unlock_pi(struct task *t, uint64_t addr, uint32_t flags);
long futex_wait_requeue_pi(struct task *t, uint64_t addr1, uint32_t flags, uint32_t val,
			   uint32_t bitset, const struct futex_timeout *to, uint64_t addr2);
long futex_cmp_requeue_pi(struct task *t, uint64_t addr1, uint32_t flags, uint64_t addr2,
			  int nr_wake, int nr_requeue, uint32_t cmp);

#endif
