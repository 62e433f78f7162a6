/* SPDX-License-Identifier: Apache-2.0 */
/* Wait queues of waitq.h. */
#include "platform/base/waitq.h"

#include "platform/base/assert.h"

void waitq_init(struct waitq *q)
{
	lock_init(&q->lock, RANK_WAITQ);
	list_init(&q->waiters);
	q->count = 0;
}

void waitq_init_nested(struct waitq *q)
{
	lock_init(&q->lock, RANK_WAITQ_NESTED);
	list_init(&q->waiters);
	q->count = 0;
}

void waitq_destroy(struct waitq *q)
{
	ASSERT(list_empty(&q->waiters));
	lock_destroy(&q->lock);
}

void waitq_add(struct waitq *q, struct waiter *w)
{
	lock_acquire_nested(&q->lock);
	ASSERT(!w->q);
	w->q = q;
	if (w->exclusive)
		list_add_tail(&w->node, &q->waiters);
	else
		list_add(&w->node, &q->waiters);
	__atomic_fetch_add(&q->count, 1, __ATOMIC_SEQ_CST);
	lock_release(&q->lock);
}

void waitq_del(struct waiter *w)
{
	struct waitq *q = w->q;

	if (!q)
		return;
	lock_acquire_nested(&q->lock);
	list_del(&w->node);
	w->q = NULL;
	__atomic_fetch_sub(&q->count, 1, __ATOMIC_RELAXED);
	lock_release(&q->lock);
}

void waitq_wake(struct waitq *q, uint32_t events)
{
	struct waiter *w, *tmp;

	/*
	 * The waker has changed the object before it comes here; a waiter adds itself before it
	 * looks at the object. Reading the count by a full-barrier operation pairs with the one in
	 * waitq_add: one of the two sees the other.
	 */
	if (!__atomic_fetch_add(&q->count, 0, __ATOMIC_SEQ_CST))
		return;
	lock_acquire_nested(&q->lock);
	list_for_each_safe(w, tmp, &q->waiters, node) {
		if (!(events & (w->events | POLLERR | POLLHUP | POLLFREE_BIT)))
			continue;
		if (w->wake(w, events) && w->exclusive)
			break;
	}
	lock_release(&q->lock);
}
