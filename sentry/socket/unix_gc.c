/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collector for AF_UNIX sockets in flight. A socket whose every open-file reference is in some
 * queue can only be reached by receiving it; if all those queues belong to such sockets, nobody
 * ever will. Mark and sweep over the candidates, under the layer lock, without recursion.
 */
#include "sentry/socket/unix_priv.h"

/* Sockets in flight that one close pays for. */
#define INFLIGHT_PER_CLOSE 512

static struct unix_sock *unix_of_file(struct file *f)
{
	struct socket *s = file_socket(f);

	return s && s->family == AF_UNIX ? unix_of(s) : NULL;
}

void unix_inflight(struct unix_layer *l, struct scm *scm, int delta)
{
	lock_assert_held(&l->lock);
	for (int i = 0; i < scm->fd_count; i++) {
		struct unix_sock *u = unix_of_file(scm->files[i]);

		if (!u)
			continue;
		u->inflight += (uint64_t)(int64_t)delta;
		l->inflight += (uint64_t)(int64_t)delta;
	}
}

static int is_candidate(const struct unix_sock *u)
{
	return u->inflight && u->s.file && ref_read(&u->s.file->ref) == u->inflight;
}

/* Calls fn for every AF_UNIX socket in the queues of u, its backlog's included. */
static void for_each_queued(struct unix_sock *u, void (*fn)(struct unix_sock *q, void *arg), void *arg)
{
	struct unix_sock *e;
	struct unix_skb *skb;

	list_for_each(skb, &u->rq, node)
		for (int i = 0; skb->scm && i < skb->scm->fd_count; i++)
			if (unix_of_file(skb->scm->files[i]))
				fn(unix_of_file(skb->scm->files[i]), arg);
	list_for_each(e, &u->backlog, backlog_node)
		list_for_each(skb, &e->rq, node)
			for (int i = 0; skb->scm && i < skb->scm->fd_count; i++)
				if (unix_of_file(skb->scm->files[i]))
					fn(unix_of_file(skb->scm->files[i]), arg);
}

static void count_down(struct unix_sock *q, void *arg)
{
	(void)arg;
	q->gc_refs--;
}

/* Reachable after all: leaves the candidates for the work list. */
static void rescue(struct unix_sock *q, void *work)
{
	if (q->gc_refs < 0) /* already rescued, or never a candidate */
		return;
	q->gc_refs = -1;
	list_del(&q->gc_node);
	list_add_tail(&q->gc_node, work);
}

/* A run costs as much as there is in flight, so it takes so many closes to be worth one. */
int unix_collect_due(struct unix_layer *l)
{
	lock_assert_held(&l->lock);
	l->closes++;
	return l->inflight > 0 && l->closes * INFLIGHT_PER_CLOSE >= l->inflight;
}

void unix_collect(struct unix_layer *l)
{
	struct list_head candidates, work, dead;
	struct unix_sock *u, *tmp;

	list_init(&candidates);
	list_init(&work);
	list_init(&dead);
	lock_acquire(&l->lock);
	l->closes = 0;
	list_for_each(u, &l->all, all_node) {
		u->gc_refs = -1;
		if (is_candidate(u)) {
			u->gc_refs = (int64_t)u->inflight;
			list_add_tail(&u->gc_node, &candidates);
		}
	}
	/* What remains after the candidates' own queues are subtracted comes from outside. */
	list_for_each(u, &candidates, gc_node)
		for_each_queued(u, count_down, NULL);
	list_for_each_safe(u, tmp, &candidates, gc_node)
		if (u->gc_refs > 0) {
			u->gc_refs = -1;
			list_del(&u->gc_node);
			list_add_tail(&u->gc_node, &work);
		}
	while (!list_empty(&work)) {
		u = list_first(&work, struct unix_sock, gc_node);
		list_del(&u->gc_node);
		for_each_queued(u, rescue, &work);
	}
	list_for_each_safe(u, tmp, &candidates, gc_node) {
		list_del(&u->gc_node);
		unix_queue_take(u, &dead);
	}
	lock_release(&l->lock);
	while (!list_empty(&dead)) {
		struct unix_skb *skb = list_first(&dead, struct unix_skb, node);

		list_del(&skb->node);
		unix_skb_free(skb);
	}
}
