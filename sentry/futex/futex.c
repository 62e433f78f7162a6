/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futex wait queues: WAIT, WAKE, REQUEUE, WAKE_OP, waitv. PI futexes are futex_pi.c, robust lists
 * robust.c, the system calls sys_futex.c.
 *
 * Theory of operation. A waiter locks the bucket of its key, reads the word, and enqueues itself if
 * the word still has the value it was told; a waker changes the word (in guest code) before it
 * locks the bucket. So either the waiter sees the new value, or the waker finds it queued. Being
 * woken is q->bucket == NULL, stored after q has left the list; the waiter may return, and its q
 * vanish, at that instant, which is why the waker holds a reference on the task and not on q.
 * Requeueing changes q->bucket under both bucket locks; who wants to remove q reads it, locks that
 * bucket and looks again.
 */
#include "sentry/futex/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "platform/base/hash.h"
#include "sentry/futex/futex_priv.h"
#include "sentry/mm/mm.h"
#include "sentry/time/timers.h"

#define BUCKET_COUNT 256u

/* One table per sentry, as there is one kernel per sentry; empty whenever no task waits. */
static struct futex_bucket g_buckets[BUCKET_COUNT];
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

static void buckets_init(void)
{
	for (unsigned int i = 0; i < BUCKET_COUNT; i++) {
		lock_init(&g_buckets[i].lock, RANK_FUTEX);
		list_init(&g_buckets[i].waiters);
	}
}

int futex_key_equal(const struct futex_key *a, const struct futex_key *b)
{
	return a->object == b->object && a->offset == b->offset && a->kind == b->kind;
}

struct futex_bucket *futex_bucket_of(const struct futex_key *k)
{
	uint64_t h = hash_u64((uint64_t)(uintptr_t)k->object ^ hash_u64(k->offset + k->kind));

	pthread_once(&g_once, buckets_init);
	return &g_buckets[h % BUCKET_COUNT];
}

int futex_key_get(struct task *t, uint64_t addr, uint32_t flags, struct futex_key *key)
{
	struct mm *mm = t->mm;
	struct vma *v;
	int err = 0;

	if (addr % sizeof(uint32_t))
		return -EINVAL;
	if (!guest_range_ok(addr, sizeof(uint32_t)))
		return -EFAULT;
	memset(key, 0, sizeof(*key));
	key->object = mm;
	key->offset = addr;
	key->kind = FUTEX_KEY_PRIVATE;
	if (!(flags & FUTEX_F_SHARED))
		return 0;
	key->kind = FUTEX_KEY_MM;
	lock_acquire(&mm->lock);
	v = vma_find(mm, addr);
	if (!v || !(v->prot & PROT_READ)) {
		err = -EFAULT;
	} else if ((v->flags & VMA_SHARED) && v->file) {
		key->object = v->file->inode;
		key->offset = v->off + (addr - v->start);
		key->kind = FUTEX_KEY_INODE;
	}
	lock_release(&mm->lock);
	return err;
}

void futex_lock_two(struct futex_bucket *a, struct futex_bucket *b)
{
	if (a > b) {
		struct futex_bucket *x = a;

		a = b;
		b = x;
	}
	lock_acquire(&a->lock);
	if (a != b)
		lock_acquire_nested(&b->lock);
}

void futex_unlock_two(struct futex_bucket *a, struct futex_bucket *b)
{
	lock_release(&a->lock);
	if (a != b)
		lock_release(&b->lock);
}

void futex_q_init(struct futex_q *q, struct task *t, const struct futex_key *key, uint32_t bitset)
{
	memset(q, 0, sizeof(*q));
	list_init(&q->node);
	list_init(&q->pi_node);
	q->key = *key;
	q->task = t;
	q->bitset = bitset;
}

void futex_q_add(struct futex_q *q, struct futex_bucket *b)
{
	list_add_tail(&q->node, &b->waiters);
	__atomic_store_n(&q->bucket, b, __ATOMIC_RELEASE);
}

int futex_q_remove(struct futex_q *q)
{
	for (;;) {
		struct futex_bucket *b = __atomic_load_n(&q->bucket, __ATOMIC_ACQUIRE);

		if (!b)
			return 0;
		lock_acquire(&b->lock);
		if (q->bucket == b) {
			list_del(&q->node);
			q->bucket = NULL;
			lock_release(&b->lock);
			return 1;
		}
		lock_release(&b->lock);
	}
}

void wake_batch_run(struct wake_batch *wb)
{
	for (unsigned int i = 0; i < wb->count; i++) {
		task_wake(wb->task[i]);
		task_put(wb->task[i]);
	}
	wb->count = 0;
}

void wake_batch_add(struct wake_batch *wb, struct task *t)
{
	if (wb->count == WAKE_BATCH)
		wake_batch_run(wb);
	wb->task[wb->count++] = task_get(t);
}

void futex_q_wake(struct futex_q *q, struct wake_batch *wb)
{
	wake_batch_add(wb, q->task);
	list_del(&q->node);
	__atomic_store_n(&q->bucket, NULL, __ATOMIC_RELEASE);
}

int futex_read(struct task *t, uint64_t addr, uint32_t *val)
{
	return addrspace_read(t->mm->as, gaddr(addr), val, sizeof(*val)) == sizeof(*val) ? 0
											 : -EFAULT;
}

int futex_fault_in(struct task *t, uint64_t addr)
{
	uint32_t v;

	return get_user_u32(t, addr, &v);
}

int futex_lock_and_check(struct task *t, uint64_t addr, uint32_t val, struct futex_bucket *b)
{
	for (int tries = 0;; tries++) {
		uint32_t now;

		lock_acquire(&b->lock);
		if (futex_read(t, addr, &now) == 0) {
			if (now == val)
				return 0;
			lock_release(&b->lock);
			return -EAGAIN;
		}
		lock_release(&b->lock);
		/* Stack growth needs the mm lock, which comes before ours. */
		if (tries || futex_fault_in(t, addr))
			return -EFAULT;
	}
}

uint64_t futex_deadline(struct task *t, const struct futex_timeout *to)
{
	return to->ns == NO_DEADLINE ? NO_DEADLINE : clock_to_mono(t->k, to->clock, to->ns);
}

static int is_queued(const struct futex_q *q)
{
	return __atomic_load_n(&q->bucket, __ATOMIC_ACQUIRE) != NULL;
}

static long restart_wait(struct task *t, struct restart_block *rb)
{
	struct futex_timeout to = { .clock = rb->clock, .ns = rb->deadline_ns };

	return futex_do_wait(t, rb->arg[0], (uint32_t)rb->arg[1], (uint32_t)rb->arg[2],
			     (uint32_t)rb->arg[3], &to);
}

long futex_do_wait(struct task *t, uint64_t addr, uint32_t flags, uint32_t val, uint32_t bitset,
		   const struct futex_timeout *to)
{
	struct futex_bucket *b;
	struct futex_key key;
	struct futex_q q;
	int err;

	if (!bitset)
		return -EINVAL;
	err = futex_key_get(t, addr, flags, &key);
	if (err)
		return err;
	b = futex_bucket_of(&key);
	futex_q_init(&q, t, &key, bitset);
	err = futex_lock_and_check(t, addr, val, b);
	if (err)
		return err;
	futex_q_add(&q, b);
	lock_release(&b->lock);

	while (is_queued(&q)) {
		err = task_sleep(t, futex_deadline(t, to));
		if (err)
			break;
	}
	if (!futex_q_remove(&q))
		return 0;
	if (err == -ETIMEDOUT)
		return -ETIMEDOUT;
	if (to->ns == NO_DEADLINE)
		return -ERESTARTSYS;
	t->restart = (struct restart_block){ .fn = restart_wait,
					     .deadline_ns = to->ns,
					     .clock = to->clock,
					     .arg = { addr, flags, val, bitset } };
	return -ERESTART_RESTARTBLOCK;
}

/* Wakes up to `count` (at least one, as Linux does for 0) waiters of key. Bucket locked. */
static int wake_locked(struct futex_bucket *b, const struct futex_key *key, int count,
		       uint32_t bitset, struct wake_batch *wb)
{
	struct futex_q *q, *tmp;
	int woken = 0;

	list_for_each_safe(q, tmp, &b->waiters, node) {
		if (!futex_key_equal(&q->key, key))
			continue;
		if (q->requeue_pi) /* must be moved by CMP_REQUEUE_PI, not woken */
			return -EINVAL;
		if (!(q->bitset & bitset))
			continue;
		futex_q_wake(q, wb);
		if (++woken >= count)
			break;
	}
	return woken;
}

long futex_do_wake(struct task *t, uint64_t addr, uint32_t flags, int count, uint32_t bitset)
{
	struct wake_batch wb = { .count = 0 };
	struct futex_bucket *b;
	struct futex_key key;
	long ret;

	if (!bitset)
		return -EINVAL;
	ret = futex_key_get(t, addr, flags, &key);
	if (ret)
		return ret;
	b = futex_bucket_of(&key);
	lock_acquire(&b->lock);
	ret = wake_locked(b, &key, count, bitset, &wb);
	lock_release(&b->lock);
	wake_batch_run(&wb);
	return ret;
}

int futex_wake_user(struct task *t, uint64_t addr, int count)
{
	return (int)futex_do_wake(t, addr, FUTEX_F_SHARED, count, FUTEX_BITSET_MATCH_ANY);
}

static void requeue_one(struct futex_q *q, struct futex_bucket *to, const struct futex_key *key)
{
	list_del(&q->node);
	q->key = *key;
	futex_q_add(q, to);
}

/* Moves or wakes the waiters of key1. Both buckets locked. */
static int requeue_locked(struct futex_bucket *b1, const struct futex_key *key1,
			  struct futex_bucket *b2, const struct futex_key *key2, int nr_wake,
			  int nr_requeue, struct wake_batch *wb)
{
	struct list_head moving;
	struct futex_q *q, *tmp;
	int done = 0;

	list_init(&moving);
	list_for_each_safe(q, tmp, &b1->waiters, node) {
		if (done - nr_wake >= nr_requeue)
			break;
		if (!futex_key_equal(&q->key, key1))
			continue;
		if (q->requeue_pi) {
			done = -EINVAL;
			break;
		}
		if (++done <= nr_wake) {
			futex_q_wake(q, wb);
			continue;
		}
		/* Aside first: with b1 == b2 the walk would meet it again. */
		list_del(&q->node);
		list_add_tail(&q->node, &moving);
	}
	list_for_each_safe(q, tmp, &moving, node)
		requeue_one(q, b2, key2);
	return done;
}

long futex_requeue(struct task *t, uint64_t addr1, uint32_t flags1, uint64_t addr2, uint32_t flags2,
		   int nr_wake, int nr_requeue, const uint32_t *cmp)
{
	struct wake_batch wb = { .count = 0 };
	struct futex_key key1, key2;
	struct futex_bucket *b1, *b2;
	long ret;

	if (nr_wake < 0 || nr_requeue < 0)
		return -EINVAL;
	ret = futex_key_get(t, addr1, flags1, &key1);
	if (!ret)
		ret = futex_key_get(t, addr2, flags2, &key2);
	if (ret)
		return ret;
	b1 = futex_bucket_of(&key1);
	b2 = futex_bucket_of(&key2);
	for (int tries = 0;; tries++) {
		uint32_t now;

		futex_lock_two(b1, b2);
		if (!cmp)
			break;
		if (futex_read(t, addr1, &now) == 0) {
			if (now == *cmp)
				break;
			futex_unlock_two(b1, b2);
			return -EAGAIN;
		}
		futex_unlock_two(b1, b2);
		if (tries || futex_fault_in(t, addr1))
			return -EFAULT;
	}
	ret = requeue_locked(b1, &key1, b2, &key2, nr_wake, nr_requeue, &wb);
	futex_unlock_two(b1, b2);
	wake_batch_run(&wb);
	return ret;
}

/* ---- WAKE_OP ---- */

static int32_t sign12(uint32_t v)
{
	return (int32_t)(v << 20) >> 20;
}

static int op_apply(uint32_t op, uint32_t old, uint32_t arg, uint32_t *result)
{
	switch (op) {
	case FUTEX_OP_SET:
		*result = arg;
		return 0;
	case FUTEX_OP_ADD:
		*result = old + arg;
		return 0;
	case FUTEX_OP_OR:
		*result = old | arg;
		return 0;
	case FUTEX_OP_ANDN:
		*result = old & ~arg;
		return 0;
	case FUTEX_OP_XOR:
		*result = old ^ arg;
		return 0;
	}
	return -ENOSYS;
}

static int op_compare(uint32_t cmp, int32_t old, int32_t arg)
{
	switch (cmp) {
	case FUTEX_OP_CMP_EQ:
		return old == arg;
	case FUTEX_OP_CMP_NE:
		return old != arg;
	case FUTEX_OP_CMP_LT:
		return old < arg;
	case FUTEX_OP_CMP_GE:
		return old >= arg;
	case FUTEX_OP_CMP_LE:
		return old <= arg;
	case FUTEX_OP_CMP_GT:
		return old > arg;
	}
	return -ENOSYS;
}

/* The atomic half: changes *addr; 1 or 0 as the comparison with the old value says. */
static int op_in_user(struct task *t, uint64_t addr, uint32_t encoded)
{
	uint32_t op = (encoded >> 28) & 7, cmp = (encoded >> 24) & 0xf;
	uint32_t arg = (uint32_t)sign12(encoded >> 12);
	int32_t cmparg = sign12(encoded);
	uint32_t old, next;

	if (encoded & ((uint32_t)FUTEX_OP_OPARG_SHIFT << 28))
		arg = 1u << (arg & 31);
	if (futex_read(t, addr, &old))
		return -EFAULT;
	for (;;) {
		uint32_t seen;
		int err = op_apply(op, old, arg, &next);

		if (err)
			return err;
		err = context_cmpxchg32(t->ctx, gaddr(addr), old, next, &seen);
		if (err)
			return err == -ESRCH ? -EFAULT : err;
		if (seen == old)
			return op_compare(cmp, (int32_t)old, cmparg);
		old = seen;
	}
}

long futex_wake_op(struct task *t, uint64_t addr1, uint32_t flags, uint64_t addr2, int nr_wake,
		   int nr_wake2, uint32_t op)
{
	struct wake_batch wb = { .count = 0 };
	struct futex_key key1, key2;
	struct futex_bucket *b1, *b2;
	long ret = futex_key_get(t, addr1, flags, &key1);
	int hit, n;

	if (!ret)
		ret = futex_key_get(t, addr2, flags, &key2);
	if (ret)
		return ret;
	b1 = futex_bucket_of(&key1);
	b2 = futex_bucket_of(&key2);
	futex_lock_two(b1, b2);
	hit = op_in_user(t, addr2, op);
	if (hit == -EFAULT) {
		futex_unlock_two(b1, b2);
		if (futex_fault_in(t, addr2))
			return -EFAULT;
		futex_lock_two(b1, b2);
		hit = op_in_user(t, addr2, op);
	}
	if (hit < 0) {
		ret = hit;
		goto out;
	}
	ret = wake_locked(b1, &key1, nr_wake, FUTEX_BITSET_MATCH_ANY, &wb);
	if (ret >= 0 && hit) {
		n = wake_locked(b2, &key2, nr_wake2, FUTEX_BITSET_MATCH_ANY, &wb);
		ret = n < 0 ? n : ret + n;
	}
out:
	futex_unlock_two(b1, b2);
	wake_batch_run(&wb);
	return ret;
}
