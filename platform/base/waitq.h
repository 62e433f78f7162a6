/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wait queues: how an object tells whoever waits that its readiness may have changed. Events are
 * poll(2) bits. A waiter is embedded in the one who waits (a blocked task, an epoll item); its
 * wake function runs under the queue's lock, must not block, and may take only RANK_EPOLL_READY
 * locks and above.
 */
#ifndef CAISSON_WAITQ_H
#define CAISSON_WAITQ_H

#include <poll.h>
#include <stdint.h>

#include "platform/base/list.h"
#include "platform/base/lock.h"

struct waiter;
struct waitq;

/* Returns nonzero when the waiter took the event: that stops a wake of exclusive waiters. */
typedef int (*waiter_fn)(struct waiter *w, uint32_t events);

struct waiter {
	struct list_head node;
	struct waitq *q;  /* where it is queued; NULL when not */
	uint32_t events;  /* poll bits wanted; POLLERR, POLLHUP and POLLFREE always pass */
	uint32_t exclusive; /* nonzero: one such waiter per wake is enough (accept, EPOLLEXCLUSIVE) */
	waiter_fn wake;
	void *priv;
};

struct waitq {
	struct lock lock;
	struct list_head waiters; /* exclusive ones at the tail */
	uint32_t count;		  /* [a] so that a wake of an empty queue costs one load */
};

#define POLLFREE_BIT 0x4000u /* the object dies: forget the queue (Linux's POLLFREE) */

void waitq_init(struct waitq *q);
/* For the waitq of a file that is itself an epoll instance (RANK_WAITQ_NESTED). */
void waitq_init_nested(struct waitq *q);
void waitq_destroy(struct waitq *q); /* must be empty */

static inline void waiter_init(struct waiter *w, uint32_t events, waiter_fn wake, void *priv)
{
	list_init(&w->node);
	w->q = 0;
	w->events = events;
	w->exclusive = 0;
	w->wake = wake;
	w->priv = priv;
}

void waitq_add(struct waitq *q, struct waiter *w);
/* Removes w if queued. When it returns, w's wake function is not running and will not run. */
void waitq_del(struct waiter *w);
/*
 * Wakes every waiter that wants one of `events`, but exclusive ones only until the first of them
 * takes the event.
 */
void waitq_wake(struct waitq *q, uint32_t events);

#endif
