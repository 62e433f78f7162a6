/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table and the waiters, shared by futex.c and futex_pi.c. */
#ifndef CAISSON_FUTEX_PRIV_H
#define CAISSON_FUTEX_PRIV_H

#include "sentry/futex/futex.h"

struct futex_bucket {
	struct lock lock;
	struct list_head waiters; /* [lock] futex_q.node, oldest first */
};

/* FUTEX_LOCK_PI: where a waiter for the lock itself stands. */
enum pi_wait_state { PI_NONE, PI_QUEUED, PI_GRANTED };

/* One wait; lives on the waiter's stack until it is off every list. */
struct futex_q {
	struct list_head node;
	struct futex_key key;
	struct task *task;
	uint32_t bitset;
	/* [a] where it is queued; NULL once woken: from then on nobody else touches it. */
	struct futex_bucket *bucket;
	/* FUTEX_WAIT_REQUEUE_PI: the PI futex it may be moved to. */
	int requeue_pi;
	struct futex_key pi_key;
	struct list_head pi_node;    /* [pi lock] in pi_lock.waiters */
	struct pi_lock *pi;	     /* [pi lock] */
	enum pi_wait_state pi_state; /* [a], written under the pi lock */
	int owner_died;		     /* [pi lock] */
};

#define WAKE_BATCH 16
/* Tasks to wake once the bucket lock is gone; each holds a reference. */
struct wake_batch {
	struct task *task[WAKE_BATCH];
	unsigned int count;
};

struct futex_bucket *futex_bucket_of(const struct futex_key *k);
int futex_key_equal(const struct futex_key *a, const struct futex_key *b);
/* Locks one or two buckets in order. */
void futex_lock_two(struct futex_bucket *a, struct futex_bucket *b);
void futex_unlock_two(struct futex_bucket *a, struct futex_bucket *b);
void futex_q_init(struct futex_q *q, struct task *t, const struct futex_key *key, uint32_t bitset);
/* [bucket] */
void futex_q_add(struct futex_q *q, struct futex_bucket *b);
/* Takes q off its bucket: 1, or 0 when somebody else did already. */
int futex_q_remove(struct futex_q *q);
void wake_batch_add(struct wake_batch *wb, struct task *t);
void wake_batch_run(struct wake_batch *wb);
/* Wakes q, which is queued in a locked bucket. */
void futex_q_wake(struct futex_q *q, struct wake_batch *wb);
/*
 * Locks the key's bucket and compares the word. 0 with the lock held; -EAGAIN, -EFAULT without.
 */
int futex_lock_and_check(struct task *t, uint64_t addr, uint32_t val, struct futex_bucket *b);
/* The word, without touching any lock: 0 or -EFAULT (the page may need help: futex_fault_in). */
int futex_read(struct task *t, uint64_t addr, uint32_t *val);
/* Brings the word within reach of the kernel (stack growth): 0 or -EFAULT. No lock held. */
int futex_fault_in(struct task *t, uint64_t addr);
/* t dies: walks its robust list (the guest address of its head). */
void futex_robust_died(struct task *t, uint64_t list);
/* t dies: the PI futexes it holds go to their first waiters. */
void futex_pi_task_exit(struct task *t);
uint64_t futex_deadline(struct task *t, const struct futex_timeout *to);

#endif
