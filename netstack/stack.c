/* SPDX-License-Identifier: Apache-2.0 */
/* The stack: its life, its lock, and what is done when the lock is released. */
#include <stdlib.h>

#include "netstack/net/net_priv.h"

#define EST_SIZE_START 256

static const struct stack_sysctl g_defaults = {
	.port_min = 32768, .port_max = 60999, .somaxconn = 4096, .max_syn_backlog = 1024,
	.rmem_default = 212992, .rmem_max = 212992, .wmem_default = 212992, .wmem_max = 212992,
	.tcp_rmem = { 4096, 131072, 6291456 }, .tcp_wmem = { 4096, 16384, 4194304 },
	.default_ttl = 64, .syn_retries = 6, .synack_retries = 5, .retries2 = 15,
	.fin_timeout_s = 60, .keepidle_s = 7200, .keepintvl_s = 75, .keepcnt = 9, .tw_reuse = 2,
	.max_tw = 16384, .syncookies = 1,
	.mem_pressure = 192u << 20, .mem_max = 256u << 20, .ping_min = 1, .ping_max = 0, .unprivileged_port = 1024,
};

struct stack *stack_new(const struct stack_env *env)
{
	struct stack *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->est_size = EST_SIZE_START;
	s->est = calloc(s->est_size, sizeof(*s->est));
	if (!s->est) {
		free(s);
		return NULL;
	}
	lock_init(&s->lock, RANK_STACK);
	s->env = *env;
	s->sysctl = g_defaults;
	list_init(&s->nics);
	list_init(&s->routes);
	list_init(&s->loop);
	list_init(&s->wakes);
	list_init(&s->dead);
	list_init(&s->acks);
	list_init(&s->frags);
	list_init(&s->neigh);
	for (uint32_t k = 0; k < KINDS; k++) {
		list_init(&s->all[k]);
		for (uint32_t i = 0; i < PORT_HASH; i++)
			list_init(&s->ports[k][i]);
	}
	s->next_nic = 1;
	s->armed = UINT64_MAX;
	env->random(env->priv, &s->secret, sizeof(s->secret));
	env->random(env->priv, &s->cookie_secret, sizeof(s->cookie_secret));
	env->random(env->priv, &s->ip_id, sizeof(s->ip_id));
	env->random(env->priv, &s->port_hint, sizeof(s->port_hint));
	return s;
}

void stack_free(struct stack *s)
{
	struct nic *n, *nn;
	struct route *r, *rn;

	stack_lock(s);
	for (uint32_t k = 0; k < KINDS; k++) {
		struct endpoint *ep, *tmp;

		list_for_each_safe(ep, tmp, &s->all[k], all_node) {
			ASSERT(!ep->owned);
			if (tcp_is_timewait(ep))
				tcp_timewait_kill(ep);
		}
	}
	stack_unlock(s);
	list_for_each_safe(n, nn, &s->nics, node) {
		list_del(&n->node);
		free(n);
	}
	list_for_each_safe(r, rn, &s->routes, node) {
		list_del(&r->node);
		free(r);
	}
	neigh_free(s);
	pkt_list_free(&s->loop);
	lock_destroy(&s->lock);
	free(s->heap);
	free(s->est);
	free(s);
}

uint32_t stack_random(struct stack *s)
{
	uint32_t v;

	s->env.random(s->env.priv, &v, sizeof(v));
	return v;
}

void stack_lock(struct stack *s)
{
	lock_acquire(&s->lock);
}

/*
 * Bounded: a packet on loopback can cause others only while windows and buffers have room, and ICMP
 * errors and resets are never answered.
 */
static void drain(struct stack *s)
{
	while (!list_empty(&s->loop)) {
		struct pkt *p = list_first(&s->loop, struct pkt, node);

		list_del(&p->node);
		s->lo->stats.rx_bytes += p->len;
		s->lo->stats.rx_packets++;
		ip_input(s->lo, p);
	}
}

void stack_unlock(struct stack *s)
{
	struct list_head wakes, dead;
	struct endpoint *ep;
	struct nic *n;

	lock_assert_held(&s->lock);
	s->burst = 0;
	tcp_flush_acks(s);
	drain(s);
	list_for_each(n, &s->nics, node)
		if (n->flush)
			n->flush(n);
	if (s->heap_count && s->heap[0]->deadline < s->armed) {
		s->armed = s->heap[0]->deadline;
		s->env.arm(s->env.priv, s->armed);
	}
	if (list_empty(&s->wakes) && list_empty(&s->dead)) {
		lock_release(&s->lock);
		return;
	}
	list_init(&wakes);
	list_init(&dead);
	list_splice_tail(&s->dead, &dead);
	/* An endpoint leaves the list with its events read here: a later event queues it again. Each
	 * entry owns a reference, and wake_node may be reused at once, so take small batches. */
	do {
		struct {
			struct endpoint *ep;
			uint32_t events;
		} batch[16];
		int n_wakes = 0;

		while (n_wakes < 16 && !list_empty(&s->wakes)) {
			ep = list_first(&s->wakes, struct endpoint, wake_node);
			list_del(&ep->wake_node);
			batch[n_wakes].ep = ep;
			batch[n_wakes++].events = ep->wake_events;
			ep->wake_events = 0;
		}
		int more = !list_empty(&s->wakes);

		lock_release(&s->lock);
		for (int i = 0; i < n_wakes; i++)
			waitq_wake(&batch[i].ep->wq, batch[i].events);
		for (int i = 0; i < n_wakes; i++)
			endpoint_put(batch[i].ep);
		if (!more)
			break;
		lock_acquire(&s->lock);
	} while (1);
	while (!list_empty(&dead)) {
		ep = list_first(&dead, struct endpoint, wake_node);
		list_del(&ep->wake_node);
		waitq_destroy(&ep->wq);
		free(ep);
	}
}

struct list_head *stack_nics(struct stack *s)
{
	return &s->nics;
}

struct list_head *stack_routes(struct stack *s)
{
	return &s->routes;
}

const struct stack_counters *stack_counters(struct stack *s)
{
	return &s->c;
}

struct stack_sysctl *stack_sysctl(struct stack *s)
{
	return &s->sysctl;
}

void stack_each(struct stack *s, enum ep_kind kind, void (*fn)(struct endpoint *ep, void *priv), void *priv)
{
	struct endpoint *ep, *tmp;

	lock_assert_held(&s->lock);
	list_for_each_safe(ep, tmp, &s->all[kind], all_node) /* fn may end ep */
		fn(ep, priv);
}
