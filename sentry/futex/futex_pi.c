/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PI futexes. The word holds the owner's tid; waiters queue in the kernel, which passes the lock
 * on. The sandbox has no scheduler of its own, so no priority is inherited: what is kept is
 * everything a program can observe otherwise: ownership, hand-over order, deadlock detection,
 * owner death, and moving waiters of a condition variable to the lock.
 *
 * Theory of operation. All PI state is under one lock, taken after any hash bucket's. A pi_lock
 * exists while somebody waits for the word, or while a hand-over waits for the new owner to write
 * its tid (`handover`); meanwhile it, and not the word, says who owns the lock. UNLOCK_PI writes
 * the next owner's tid itself. When an owner dies it can not: the waiter is granted the lock and
 * writes the word when it runs.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "platform/base/thread.h"
#include "sentry/futex/futex_priv.h"
#include "sentry/signal/signal.h"

struct pi_lock {
	struct list_head node; /* [g_pi] in g_pi_locks */
	struct futex_key key;
	struct task *owner;	  /* [g_pi] a reference */
	struct list_head waiters; /* [g_pi] futex_q.pi_node, oldest first */
	int handover;		  /* [g_pi] granted by a dying owner; the word is not written yet */
};

#define CHAIN_LIMIT 1024 /* Linux's max_lock_depth */

static struct lock g_pi;
static struct list_head g_pi_locks;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

static void pi_init(void)
{
	lock_init(&g_pi, RANK_FUTEX);
	list_init(&g_pi_locks);
}

static void pi_acquire(void)
{
	pthread_once(&g_once, pi_init);
	lock_acquire_nested(&g_pi);
}

static struct pi_lock *pi_find(const struct futex_key *key)
{
	struct pi_lock *pl;

	list_for_each(pl, &g_pi_locks, node)
		if (futex_key_equal(&pl->key, key))
			return pl;
	return NULL;
}

/* Takes over the reference on owner. */
static struct pi_lock *pi_new(const struct futex_key *key, struct task *owner)
{
	struct pi_lock *pl = calloc(1, sizeof(*pl));

	if (!pl)
		return NULL;
	pl->key = *key;
	pl->owner = owner;
	list_init(&pl->waiters);
	list_add_tail(&pl->node, &g_pi_locks);
	return pl;
}

static void pi_free_if_unused(struct pi_lock *pl)
{
	if (!list_empty(&pl->waiters) || pl->handover)
		return;
	list_del(&pl->node);
	task_put(pl->owner);
	free(pl);
}

static void pi_set_owner(struct pi_lock *pl, struct task *t)
{
	task_get(t);
	task_put(pl->owner);
	pl->owner = t;
}

/* The lock t waits for, or NULL. */
static struct pi_lock *pi_blocked_on(const struct task *t)
{
	struct pi_lock *pl;
	struct futex_q *q;

	list_for_each(pl, &g_pi_locks, node)
		list_for_each(q, &pl->waiters, pi_node)
			if (q->task == t)
				return pl;
	return NULL;
}

/* Would waiting for `owner` close a circle through t? */
static int pi_would_deadlock(struct task *t, struct task *owner)
{
	for (int depth = 0; owner && depth < CHAIN_LIMIT; depth++) {
		struct pi_lock *pl;

		if (owner == t)
			return 1;
		pl = pi_blocked_on(owner);
		owner = pl ? pl->owner : NULL;
	}
	return 0;
}

static void pi_enqueue(struct pi_lock *pl, struct futex_q *q)
{
	q->pi = pl;
	list_add_tail(&q->pi_node, &pl->waiters);
	__atomic_store_n(&q->pi_state, PI_QUEUED, __ATOMIC_RELEASE);
}

/* Gives the lock to its first waiter, which leaves the queue. */
static void pi_grant_first(struct pi_lock *pl, int owner_died, struct wake_batch *wb)
{
	struct futex_q *q = list_first(&pl->waiters, struct futex_q, pi_node);

	pi_set_owner(pl, q->task);
	list_del(&q->pi_node);
	q->owner_died = owner_died;
	pl->handover = owner_died;
	wake_batch_add(wb, q->task);
	/* The last access to q: its owner may return at once. */
	__atomic_store_n(&q->pi_state, PI_GRANTED, __ATOMIC_RELEASE);
}

static int cmpxchg(struct task *t, uint64_t addr, uint32_t old, uint32_t val, uint32_t *seen)
{
	int err = context_cmpxchg32(t->ctx, gaddr(addr), old, val, seen);

	return err == -ESRCH ? -EFAULT : err;
}

/*
 * Tries to take a word nobody waits for, on behalf of `who`. 1 taken; 0 it has an owner: *owner is
 * set (a reference) and the word says FUTEX_WAITERS; or an error. -EAGAIN: the owner is just
 * dying, or the word changed hands; ask again. [g_pi]
 */
static int word_take(struct task *t, uint64_t addr, struct task *who, int with_waiters,
		     int try_only, struct task **owner)
{
	uint32_t tid = (uint32_t)task_tid(who), val, seen;
	int err = futex_read(t, addr, &val);

	if (err)
		return err;
	for (;;) {
		uint32_t holder = val & FUTEX_TID_MASK, next;

		if (holder == tid)
			return -EDEADLK;
		if (!holder)
			next = tid | (val & FUTEX_OWNER_DIED) | (with_waiters ? FUTEX_WAITERS : 0);
		else if (try_only)
			return -EAGAIN;
		else
			next = val | FUTEX_WAITERS;
		if (next != val) {
			err = cmpxchg(t, addr, val, next, &seen);
			if (err)
				return err;
			if (seen != val) {
				val = seen;
				continue;
			}
		}
		if (!holder)
			return 1;
		*owner = task_find(t, (int)holder);
		if (!*owner)
			return -ESRCH;
		if ((*owner)->jobctl_stop & JOBCTL_EXITING) {
			task_put(*owner);
			return -EBUSY;
		}
		return 0;
	}
}

/* The new owner writes the word that its dying predecessor could not. */
static int pi_fixup(struct task *t, uint64_t addr, struct futex_q *q)
{
	uint32_t tid = (uint32_t)task_tid(t), val, seen;
	struct pi_lock *pl = NULL;
	int err = futex_fault_in(t, addr);

	pi_acquire();
	if (!err)
		err = futex_read(t, addr, &val);
	while (!err) {
		uint32_t next = tid | FUTEX_WAITERS | FUTEX_OWNER_DIED;

		err = cmpxchg(t, addr, val, next, &seen);
		if (err || seen == val)
			break;
		val = seen;
	}
	pl = pi_find(q->requeue_pi ? &q->pi_key : &q->key);
	if (pl && pl->owner == t) {
		pl->handover = 0;
		pi_free_if_unused(pl);
	}
	lock_release(&g_pi);
	return err;
}

/* Sleeps until granted. 0, -ETIMEDOUT, -ERESTARTSYS; not queued any more then. */
static int pi_wait(struct task *t, uint64_t addr, struct futex_q *q, const struct futex_timeout *to)
{
	int err = 0;

	while (__atomic_load_n(&q->pi_state, __ATOMIC_ACQUIRE) == PI_QUEUED) {
		err = task_sleep(t, futex_deadline(t, to));
		if (err)
			break;
	}
	pi_acquire();
	if (q->pi_state == PI_QUEUED) {
		list_del(&q->pi_node);
		q->pi_state = PI_NONE;
		pi_free_if_unused(q->pi);
		lock_release(&g_pi);
		return err;
	}
	lock_release(&g_pi);
	return q->owner_died ? pi_fixup(t, addr, q) : 0;
}

/* One attempt of LOCK_PI: 1 taken, 0 queued, or an error. */
static int lock_pi_once(struct task *t, uint64_t addr, struct futex_q *q, int try_only)
{
	struct task *owner = NULL;
	struct pi_lock *pl;
	int ret;

	pi_acquire();
	pl = pi_find(&q->key);
	if (pl && (pl->handover || !list_empty(&pl->waiters))) {
		ret = pl->owner == t ? -EDEADLK : try_only ? -EAGAIN : 0;
		owner = pl->owner;
	} else {
		ret = word_take(t, addr, t, 0, try_only, &owner);
		if (ret == 0) {
			pl = pi_new(&q->key, owner);
			if (!pl) {
				task_put(owner);
				ret = -ENOMEM;
			}
		}
	}
	if (ret == 0 && pi_would_deadlock(t, owner)) {
		ret = -EDEADLK;
		pi_free_if_unused(pl);
	}
	if (ret == 0)
		pi_enqueue(pl, q);
	lock_release(&g_pi);
	return ret;
}

long futex_lock_pi(struct task *t, uint64_t addr, uint32_t flags, const struct futex_timeout *to,
		   int try_only)
{
	struct futex_key key;
	struct futex_q q;
	int err = futex_key_get(t, addr, flags, &key), faulted = 0;

	if (err)
		return err;
	futex_q_init(&q, t, &key, FUTEX_BITSET_MATCH_ANY);
	for (;;) {
		err = lock_pi_once(t, addr, &q, try_only);
		if (err == 1)
			return 0;
		if (err == 0)
			break;
		if (err == -EFAULT && !faulted) {
			faulted = 1;
			if (futex_fault_in(t, addr))
				return -EFAULT;
			continue;
		}
		if (err != -EBUSY)
			return err;
		/* The owner is on its way out and will release or pass the lock on. */
		if (task_has_work(t))
			return -ERESTARTNOINTR;
		thread_nap(20000);
	}
	err = pi_wait(t, addr, &q, to);
	return err == -ERESTARTSYS ? -ERESTARTNOINTR : err;
}

long futex_unlock_pi(struct task *t, uint64_t addr, uint32_t flags)
{
	struct wake_batch wb = { .count = 0 };
	uint32_t tid = (uint32_t)task_tid(t), val, seen, next;
	struct futex_key key;
	struct pi_lock *pl;
	int err = futex_fault_in(t, addr);

	if (!err)
		err = futex_key_get(t, addr, flags, &key);
	if (err)
		return err;
	pi_acquire();
	err = futex_read(t, addr, &val);
	while (!err) {
		if ((val & FUTEX_TID_MASK) != tid) {
			err = -EPERM;
			break;
		}
		pl = pi_find(&key);
		if (pl && pl->owner != t) {
			err = -EINVAL; /* the word and the kernel disagree */
			break;
		}
		next = 0;
		if (pl && !list_empty(&pl->waiters)) {
			struct futex_q *q = list_first(&pl->waiters, struct futex_q, pi_node);

			next = FUTEX_WAITERS | (uint32_t)task_tid(q->task);
		}
		err = cmpxchg(t, addr, val, next, &seen);
		if (err)
			break;
		if (seen != val) {
			val = seen;
			continue;
		}
		if (next) {
			pi_grant_first(pl, 0, &wb);
			pi_free_if_unused(pl);
		}
		break;
	}
	lock_release(&g_pi);
	wake_batch_run(&wb);
	return err;
}

void futex_pi_task_exit(struct task *t)
{
	struct wake_batch wb = { .count = 0 };
	struct pi_lock *pl, *tmp;

	pi_acquire();
	list_for_each_safe(pl, tmp, &g_pi_locks, node) {
		if (pl->owner != t)
			continue;
		pl->handover = 0;
		if (!list_empty(&pl->waiters))
			pi_grant_first(pl, 1, &wb);
		else
			pi_free_if_unused(pl);
	}
	lock_release(&g_pi);
	wake_batch_run(&wb);
}

/* ---- condition variables: WAIT_REQUEUE_PI, CMP_REQUEUE_PI ---- */

long futex_wait_requeue_pi(struct task *t, uint64_t addr1, uint32_t flags, uint32_t val,
			   uint32_t bitset, const struct futex_timeout *to, uint64_t addr2)
{
	struct futex_bucket *b;
	struct futex_key key;
	struct futex_q q;
	int err, removed;

	if (addr1 == addr2 || !bitset)
		return -EINVAL;
	err = futex_key_get(t, addr1, flags, &key);
	if (err)
		return err;
	futex_q_init(&q, t, &key, bitset);
	q.requeue_pi = 1;
	err = futex_key_get(t, addr2, flags, &q.pi_key);
	if (err)
		return err;
	if (futex_key_equal(&key, &q.pi_key))
		return -EINVAL;
	b = futex_bucket_of(&key);
	err = futex_lock_and_check(t, addr1, val, b);
	if (err)
		return err;
	futex_q_add(&q, b);
	lock_release(&b->lock);
	while (__atomic_load_n(&q.bucket, __ATOMIC_ACQUIRE)) {
		err = task_sleep(t, futex_deadline(t, to));
		if (err)
			break;
	}
	removed = futex_q_remove(&q);
	if (removed) /* never moved to the lock */
		return err == -ETIMEDOUT ? -ETIMEDOUT : -ERESTARTNOINTR;
	err = pi_wait(t, addr2, &q, to);
	return err == -ERESTARTSYS ? -EAGAIN : err;
}

/* The first waiter takes the lock if it is free, else all queue for it. Bucket 1 and g_pi held. */
static int requeue_pi_one(struct task *t, struct futex_q *q, uint64_t addr2,
			  const struct futex_key *key2, int more, struct wake_batch *wb)
{
	struct pi_lock *pl = pi_find(key2);
	struct task *owner = NULL;
	int ret = 0;

	if (!pl) {
		ret = word_take(t, addr2, q->task, more, 0, &owner);
		if (ret < 0)
			return ret;
		if (ret == 0) {
			pl = pi_new(key2, owner);
			if (!pl) {
				task_put(owner);
				return -ENOMEM;
			}
		}
	}
	if (ret == 0) {
		if (pl->owner == q->task || pi_would_deadlock(q->task, pl->owner)) {
			pi_free_if_unused(pl);
			return -EDEADLK;
		}
		pi_enqueue(pl, q);
	} else {
		wake_batch_add(wb, q->task);
		__atomic_store_n(&q->pi_state, PI_GRANTED, __ATOMIC_RELEASE);
	}
	list_del(&q->node);
	__atomic_store_n(&q->bucket, NULL, __ATOMIC_RELEASE);
	return 0;
}

static int waiters_of(struct futex_bucket *b, const struct futex_key *key)
{
	struct futex_q *q;
	int n = 0;

	list_for_each(q, &b->waiters, node)
		n += futex_key_equal(&q->key, key);
	return n;
}

long futex_cmp_requeue_pi(struct task *t, uint64_t addr1, uint32_t flags, uint64_t addr2,
			  int nr_wake, int nr_requeue, uint32_t cmp)
{
	struct wake_batch wb = { .count = 0 };
	struct futex_key key1, key2;
	struct futex_bucket *b;
	struct futex_q *q, *tmp;
	int err, done = 0, left;

	if (nr_wake != 1 || nr_requeue < 0 || addr1 == addr2)
		return -EINVAL;
	err = futex_key_get(t, addr1, flags, &key1);
	if (!err)
		err = futex_key_get(t, addr2, flags, &key2);
	if (!err && futex_key_equal(&key1, &key2))
		err = -EINVAL;
	if (!err)
		err = futex_fault_in(t, addr2);
	if (err)
		return err;
	b = futex_bucket_of(&key1);
again:
	err = futex_lock_and_check(t, addr1, cmp, b);
	if (err)
		return err;
	pi_acquire();
	left = waiters_of(b, &key1);
	list_for_each_safe(q, tmp, &b->waiters, node) {
		if (done - nr_wake >= nr_requeue)
			break;
		if (!futex_key_equal(&q->key, &key1))
			continue;
		/* Both sides must have named the same lock. */
		if (!q->requeue_pi || !futex_key_equal(&q->pi_key, &key2)) {
			err = -EINVAL;
			break;
		}
		err = requeue_pi_one(t, q, addr2, &key2, --left > 0, &wb);
		if (err)
			break;
		done++;
	}
	lock_release(&g_pi);
	lock_release(&b->lock);
	wake_batch_run(&wb);
	if (err == -EBUSY && !done) {
		thread_nap(20000);
		goto again;
	}
	return done ? done : err;
}
