/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which endpoint is a packet for: connected ones by their four-tuple in a keyed hash, others by port
 * with the best match of address and interface, as compute_score of Linux has it.
 */
#include <stdlib.h>

#include "netstack/stack_priv.h"

static uint32_t tuple_hash(const struct stack *s, enum ep_kind kind, const struct ip_addr *l, uint16_t lp,
			   const struct ip_addr *r, uint16_t rp)
{
	uint64_t h = s->secret + kind;

	h = hash_u64(h ^ l->d[0]) + l->d[1];
	h = hash_u64(h) ^ r->d[0];
	h = hash_u64(h) + r->d[1];
	h = hash_u64(h) ^ ((uint64_t)lp << 16 | rp);
	return (uint32_t)hash_u64(h ^ s->secret);
}

static void grow(struct stack *s)
{
	uint32_t size = s->est_size * 4;
	struct endpoint **t = calloc(size, sizeof(*t));

	if (!t)
		return; /* longer chains, still right */
	for (uint32_t i = 0; i < s->est_size; i++)
		while (s->est[i]) {
			struct endpoint *ep = s->est[i];

			s->est[i] = ep->hash_next;
			ep->hash_next = t[ep->hash & (size - 1)];
			t[ep->hash & (size - 1)] = ep;
		}
	free(s->est);
	s->est = t;
	s->est_size = size;
}

void demux_add(struct endpoint *ep)
{
	struct stack *s = ep->stack;

	if (ep->hashed)
		demux_del(ep);
	if (s->est_count > s->est_size)
		grow(s);
	ep->hash = tuple_hash(s, ep->kind, &ep->laddr, ep->lport, &ep->raddr, ep->rport);
	ep->hash_next = s->est[ep->hash & (s->est_size - 1)];
	s->est[ep->hash & (s->est_size - 1)] = ep;
	ep->hashed = 1;
	s->est_count++;
}

void demux_del(struct endpoint *ep)
{
	struct stack *s = ep->stack;
	struct endpoint **at = &s->est[ep->hash & (s->est_size - 1)];

	if (!ep->hashed)
		return;
	while (*at != ep)
		at = &(*at)->hash_next;
	*at = ep->hash_next;
	ep->hashed = 0;
	s->est_count--;
}

struct endpoint *demux_connected(struct stack *s, enum ep_kind kind, const struct ip_addr *laddr,
				 uint16_t lport, const struct ip_addr *raddr, uint16_t rport,
				 uint32_t nic)
{
	uint32_t h = tuple_hash(s, kind, laddr, lport, raddr, rport);
	struct endpoint *ep;

	for (ep = s->est[h & (s->est_size - 1)]; ep; ep = ep->hash_next)
		if (ep->hash == h && ep->kind == kind && ep->lport == lport && ep->rport == rport &&
		    ip_eq(&ep->laddr, laddr) && ip_eq(&ep->raddr, raddr) &&
		    (!nic || !ep->o.nic || ep->o.nic == nic))
			return ep;
	return NULL;
}

static int score(const struct endpoint *ep, const struct ip_addr *laddr, const struct ip_addr *raddr,
		 uint16_t rport, uint32_t nic)
{
	int n = 1;

	if (ep->kind == EP_TCP ? !tcp_is_listening(ep) : 0)
		return 0;
	if (ep->v6 ? ip_is_v4(laddr) && !ep_wants_v4(ep) : !ip_is_v4(laddr))
		return 0;
	if (!ip_is_any(&ep->laddr)) {
		if (!ip_eq(&ep->laddr, laddr))
			return 0;
		n += 4;
	} else if (ip_is_v4(&ep->laddr) && !ip_is_v4(laddr)) {
		return 0; /* an IPv6 socket bound to ::ffff:0.0.0.0 */
	}
	if (ep->connected && ep->kind != EP_TCP) {
		if (!ip_eq(&ep->raddr, raddr) || ep->rport != rport)
			return 0;
		n += 8;
	}
	if (ep->o.nic) {
		if (ep->o.nic != nic)
			return 0;
		n += 4;
	}
	if (ip_is_v4(laddr) && !ep->v6)
		n += 1;
	return n;
}

struct endpoint *demux_bound(struct stack *s, enum ep_kind kind, const struct ip_addr *laddr,
			     uint16_t lport, const struct ip_addr *raddr, uint16_t rport, uint32_t nic)
{
	struct list_head *b = &s->ports[kind][hash_u64(lport ^ s->secret) % PORT_HASH];
	struct endpoint *ep, *best = NULL;
	uint32_t ties = 0, h = 0;
	int best_score = 0;

	list_for_each(ep, b, bind_node) {
		if (ep->passive)
			break;
		if (ep->lport != lport)
			continue;
		int n = score(ep, laddr, raddr, rport, nic);

		if (n > best_score) {
			best_score = n;
			best = ep;
			ties = 1;
		} else if (n && n == best_score && ep->o.reuseport && best->o.reuseport) {
			/* A group shares by the peer's address: one flow, one member. */
			if (!h)
				h = tuple_hash(s, kind, laddr, lport, raddr, rport) | 1;
			ties++;
			h = h * 1664525u + 1013904223u;
			if ((h >> 8) % ties == 0)
				best = ep;
		}
	}
	return best;
}
