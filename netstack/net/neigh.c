/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours: link addresses of next hops, by ARP (RFC 826) and NDP (RFC 4861), in one table.
 *
 * States: INCOMPLETE (asked, packets wait: at most a few), REACHABLE, STALE (used, but asked again in
 * the background when used), DEAD entries go. The table's timer runs only while something is asked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

#define NEIGH_MAX 1024u
#define QUEUE_MAX 64u
#define PROBES 3u
#define RETRANS_NS 1000000000u
#define REACHABLE_NS 30000000000ull

enum state { INCOMPLETE, REACHABLE, PROBING };

struct neigh {
	struct list_head node; /* least recently confirmed first */
	struct nic *nic;
	struct ip_addr addr;
	uint8_t mac[6];
	enum state state;
	uint32_t probes;
	uint64_t next_probe, confirmed;
	struct list_head waiting; /* pkts */
	uint32_t waiting_count;
};

static void ether_push(struct nic *n, struct pkt *p, const uint8_t dst[6], uint16_t type)
{
	struct eth_hdr *h = pkt_push(p, sizeof(*h));

	memcpy(h->dst, dst, 6);
	memcpy(h->src, n->mac, 6);
	h->type = htons(type);
}

static void send_frame(struct nic *n, struct pkt *p, const uint8_t dst[6], uint16_t type)
{
	ether_push(n, p, dst, type);
	n->stats.tx_bytes += p->len;
	n->stats.tx_packets++;
	n->xmit(n, p);
}

static void send_arp(struct nic *n, uint16_t op, const uint8_t dst[6], const uint8_t tha[6], uint32_t spa,
		     uint32_t tpa)
{
	struct pkt *p = pkt_new();

	if (!p)
		return;
	struct arp_hdr *h = pkt_push(p, sizeof(*h));

	h->hw_type = htons(1);
	h->proto_type = htons(ETH_IPV4);
	h->hw_len = 6;
	h->proto_len = 4;
	h->op = htons(op);
	memcpy(h->sha, n->mac, 6);
	memcpy(h->tha, tha, 6);
	h->spa = spa;
	h->tpa = tpa;
	p->cleared = 1;
	send_frame(n, p, dst, ETH_ARP);
}

static const struct nic_addr *own_addr(const struct nic *n, const struct ip_addr *near)
{
	const struct nic_addr *best = NULL;

	for (uint32_t i = 0; i < n->addr_count; i++) {
		const struct nic_addr *a = &n->addr[i];

		if (ip_is_v4(&a->addr) != ip_is_v4(near))
			continue;
		if (ip_match(&a->addr, near, a->plen))
			return a;
		if (!best || (!ip_is_v4(near) && ip_is_linklocal6(&a->addr)))
			best = a;
	}
	return best;
}

/* RFC 4861, 4.3: who has addr? To its solicited-node group, or to the address itself. */
static void send_ns(struct nic *n, const struct ip_addr *addr, const uint8_t *mac)
{
	const struct nic_addr *me = own_addr(n, addr);
	struct pkt *p = pkt_new();
	uint8_t group_mac[6];
	struct ip_addr dst = *addr;

	if (!p || !me) {
		pkt_free(p);
		return;
	}
	if (!mac) {
		dst = (struct ip_addr){ .b = { 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, addr->b[13],
					       addr->b[14], addr->b[15] } };
		group_mac[0] = group_mac[1] = 0x33;
		memcpy(group_mac + 2, dst.b + 12, 4);
		mac = group_mac;
	}
	uint8_t *b = pkt_push(p, 32);

	memset(b, 0, 32);
	b[0] = 135;
	memcpy(b + 8, addr->b, 16);
	b[24] = 1; /* source link-layer address */
	b[25] = 1;
	memcpy(b + 26, n->mac, 6);
	struct ip_out o = { .src = me->addr, .dst = dst, .proto = IPPROTO_ICMPV6, .ttl = 255 };
	uint16_t c = csum_transport(p, &o.src, &o.dst, IPPROTO_ICMPV6);

	memcpy(b + 2, &c, 2);
	ip_push_v6(n->stack, p, &o, IPPROTO_ICMPV6);
	p->cleared = 1;
	send_frame(n, p, mac, ETH_IPV6);
}

static void ask(struct neigh *e)
{
	static const uint8_t bcast[6] = { 255, 255, 255, 255, 255, 255 }, none[6];
	int unicast = e->state == PROBING;

	if (ip_is_v4(&e->addr)) {
		const struct nic_addr *me = own_addr(e->nic, &e->addr);

		send_arp(e->nic, 1, unicast ? e->mac : bcast, none, me ? me->addr.w[3] : 0, e->addr.w[3]);
	} else {
		send_ns(e->nic, &e->addr, unicast ? e->mac : NULL);
	}
	e->probes++;
	e->next_probe = stack_now(e->nic->stack) + RETRANS_NS;
}

/* The owner hears EHOSTUNREACH for each packet that waited. */
static void fail_waiting(struct neigh *e)
{
	while (!list_empty(&e->waiting)) {
		struct pkt *p = list_first(&e->waiting, struct pkt, node);

		list_del(&p->node);
		/* As an ICMP error of our own about it: back up to the transport. */
		if (ip_is_v4(&e->addr) && p->hlen >= 20) {
			struct ipv4_hdr *h = pkt_pull(p, 20);
			struct pkt *q = p;

			q->src = ip_from_v4(h->src);
			q->dst = ip_from_v4(h->dst);
			q->proto = h->proto;
			q->tos = h->tos;
			q->ttl = h->ttl;
			if (!ip_is_multicast(&q->dst)) {
				struct ip_addr src = q->src;

				icmp_error(e->nic->stack->lo, q, 3, 1, 1, 3, 0);
				(void)src;
			}
		} else if (!ip_is_v4(&e->addr) && p->hlen >= 40) {
			struct ipv6_hdr *h = pkt_pull(p, 40);

			p->src = ip_from_v6(h->src);
			p->dst = ip_from_v6(h->dst);
			p->proto = h->next;
			p->tos = 0;
			p->ttl = h->hop_limit;
			icmp_error(e->nic->stack->lo, p, 3, 1, 1, 3, 0);
		}
		pkt_free(p);
	}
	e->waiting_count = 0;
}

static void drop(struct stack *s, struct neigh *e)
{
	list_del(&e->node);
	s->neigh_count--;
	pkt_list_free(&e->waiting);
	free(e);
}

static void timer(struct stimer *t)
{
	struct stack *s = container_of(t, struct stack, neigh_timer);
	uint64_t now = stack_now(s), next = UINT64_MAX;
	struct neigh *e, *tmp;

	list_for_each_safe(e, tmp, &s->neigh, node) {
		if (e->state == REACHABLE)
			continue;
		if (e->next_probe <= now) {
			if (e->probes >= PROBES) {
				fail_waiting(e);
				drop(s, e);
				continue;
			}
			ask(e);
		}
		if (e->next_probe < next)
			next = e->next_probe;
	}
	if (next != UINT64_MAX)
		stimer_arm(s, t, next);
}

static void want_timer(struct stack *s, uint64_t at)
{
	if (!s->neigh_timer.fn)
		stimer_init(&s->neigh_timer, timer);
	if (!stimer_armed(&s->neigh_timer) || s->neigh_timer.deadline > at)
		stimer_arm(s, &s->neigh_timer, at);
}

static struct neigh *lookup(struct nic *n, const struct ip_addr *a)
{
	struct neigh *e;

	list_for_each(e, &n->stack->neigh, node)
		if (e->nic == n && ip_eq(&e->addr, a))
			return e;
	return NULL;
}

static struct neigh *create(struct nic *n, const struct ip_addr *a)
{
	struct stack *s = n->stack;
	struct neigh *e;

	if (s->neigh_count >= NEIGH_MAX)
		drop(s, list_first(&s->neigh, struct neigh, node));
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->nic = n;
	e->addr = *a;
	e->state = INCOMPLETE;
	list_init(&e->waiting);
	list_add_tail(&e->node, &s->neigh);
	s->neigh_count++;
	return e;
}

/* What a neighbour said of itself. create_it: also when nobody asked (it talks to us). */
static void learn(struct nic *n, const struct ip_addr *a, const uint8_t mac[6], int create_it)
{
	struct stack *s = n->stack;
	struct neigh *e = lookup(n, a);

	if (!e && create_it)
		e = create(n, a);
	if (!e || (mac[0] & 1))
		return;
	memcpy(e->mac, mac, 6);
	e->state = REACHABLE;
	e->probes = 0;
	e->confirmed = stack_now(s);
	list_del(&e->node);
	list_add_tail(&e->node, &s->neigh);
	while (!list_empty(&e->waiting)) {
		struct pkt *p = list_first(&e->waiting, struct pkt, node);

		list_del(&p->node);
		send_frame(n, p, e->mac, ip_is_v4(a) ? ETH_IPV4 : ETH_IPV6);
	}
	e->waiting_count = 0;
}

void neigh_add(struct nic *n, const struct ip_addr *a, const uint8_t mac[6])
{
	learn(n, a, mac, 1);
}

void neigh_output(struct nic *n, const struct ip_addr *next_hop, struct pkt *p)
{
	static const uint8_t bcast[6] = { 255, 255, 255, 255, 255, 255 };
	int v4 = ip_is_v4(next_hop);
	uint16_t type = v4 ? ETH_IPV4 : ETH_IPV6;
	struct neigh *e;

	if (ip_is_multicast(next_hop)) {
		uint8_t mac[6] = { 0x01, 0, 0x5e, next_hop->b[13] & 0x7f, next_hop->b[14], next_hop->b[15] };

		if (!v4) {
			mac[0] = mac[1] = 0x33;
			memcpy(mac + 2, next_hop->b + 12, 4);
		}
		send_frame(n, p, mac, type);
		return;
	}
	if (v4 && stack_is_broadcast(n->stack, next_hop)) {
		send_frame(n, p, bcast, type);
		return;
	}
	e = lookup(n, next_hop);
	if (e && e->state != INCOMPLETE) {
		uint64_t now = stack_now(n->stack);

		if (e->state == REACHABLE && now - e->confirmed > REACHABLE_NS) {
			e->state = PROBING; /* still used, and asked whether it is there */
			e->probes = 0;
			ask(e);
			want_timer(n->stack, e->next_probe);
		}
		send_frame(n, p, e->mac, type);
		return;
	}
	if (!e) {
		e = create(n, next_hop);
		if (!e) {
			pkt_free(p);
			return;
		}
		ask(e);
		want_timer(n->stack, e->next_probe);
	}
	if (e->waiting_count == QUEUE_MAX) {
		n->stats.tx_dropped++;
		pkt_free(p);
		return;
	}
	list_add_tail(&p->node, &e->waiting);
	e->waiting_count++;
}

void arp_input(struct nic *n, struct pkt *p)
{
	struct arp_hdr h;

	if (pkt_copy(p, 0, &h, sizeof(h)) || h.hw_type != htons(1) || h.proto_type != htons(ETH_IPV4) ||
	    h.hw_len != 6 || h.proto_len != 4)
		return;
	struct ip_addr from = ip_from_v4(h.spa), to = ip_from_v4(h.tpa);
	int ours = 0;

	for (uint32_t i = 0; i < n->addr_count; i++)
		ours |= ip_eq(&n->addr[i].addr, &to);
	if (h.spa && !ip_is_multicast(&from) && !ip_is_loopback(&from))
		learn(n, &from, h.sha, ours && h.op == htons(1));
	if (ours && h.op == htons(1))
		send_arp(n, 2, h.sha, h.sha, h.tpa, h.spa);
}

static const uint8_t *nd_option(const uint8_t *b, uint32_t n, uint8_t type)
{
	for (uint32_t i = 24; i + 8 <= n && b[i + 1];) {
		if (b[i] == type)
			return b + i + 2;
		i += b[i + 1] * 8u;
	}
	return NULL;
}

void ndp_input(struct nic *n, struct pkt *p, const struct icmp_hdr *h)
{
	uint8_t b[128];
	uint32_t len = p->len < sizeof(b) ? p->len : (uint32_t)sizeof(b);

	if (p->ttl != 255 || len < 24 || h->code || pkt_copy(p, 0, b, len))
		return;
	struct ip_addr target = ip_from_v6(b + 8);

	if (h->type == 136) {
		const uint8_t *mac = nd_option(b, len, 2);

		if (mac && lookup(n, &target))
			learn(n, &target, mac, 0);
		return;
	}
	if (h->type != 135)
		return;
	int ours = 0;

	for (uint32_t i = 0; i < n->addr_count; i++)
		ours |= ip_eq(&n->addr[i].addr, &target);
	if (!ours)
		return;
	const uint8_t *mac = nd_option(b, len, 1);
	struct ip_addr to = p->src;
	uint8_t dst[6] = { 0x33, 0x33, 0, 0, 0, 1 };

	if (ip_is_any(&to)) { /* somebody checks for a duplicate: tell all */
		to = (struct ip_addr){ .b = { 0xff, 2, [15] = 1 } };
	} else {
		if (mac)
			learn(n, &to, mac, 1);
		struct neigh *e = lookup(n, &to);

		if (!e || e->state == INCOMPLETE)
			return;
		memcpy(dst, e->mac, 6);
	}
	struct pkt *r = pkt_new();

	if (!r)
		return;
	uint8_t *w = pkt_push(r, 32);

	memset(w, 0, 32);
	w[0] = 136;
	w[4] = ip_is_any(&p->src) ? 0x20 : 0x60; /* solicited, override */
	memcpy(w + 8, target.b, 16);
	w[24] = 2;
	w[25] = 1;
	memcpy(w + 26, n->mac, 6);
	struct ip_out o = { .src = target, .dst = to, .proto = IPPROTO_ICMPV6, .ttl = 255 };
	uint16_t c = csum_transport(r, &o.src, &o.dst, IPPROTO_ICMPV6);

	memcpy(w + 2, &c, 2);
	ip_push_v6(n->stack, r, &o, IPPROTO_ICMPV6);
	r->cleared = 1;
	send_frame(n, r, dst, ETH_IPV6);
}

void neigh_each(struct stack *s, void (*fn)(const struct neigh_info *i, void *priv), void *priv)
{
	struct neigh *e;

	list_for_each(e, &s->neigh, node) {
		struct neigh_info i = { .nic = e->nic->index, .addr = e->addr,
					.state = e->state == INCOMPLETE ? 1 :
						 e->state == PROBING	? 16 :
						 stack_now(s) - e->confirmed > REACHABLE_NS ? 4 : 2 };

		memcpy(i.mac, e->mac, 6);
		fn(&i, priv);
	}
}

void neigh_free(struct stack *s)
{
	while (!list_empty(&s->neigh))
		drop(s, list_first(&s->neigh, struct neigh, node));
}
