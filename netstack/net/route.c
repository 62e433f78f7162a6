/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes: the local table first (our own addresses go over lo), then the longest prefix and lowest
 * metric. Sandboxes have a handful of routes; a list is searched.
 */
#include <errno.h>
#include <stdlib.h>

#include "netstack/stack_priv.h"

#define ROUTES_MAX 4096

int route_add(struct stack *s, const struct route *r)
{
	struct route *o;

	list_for_each(o, &s->routes, node)
		if (ip_eq(&o->dst, &r->dst) && o->plen == r->plen && o->metric == r->metric &&
		    o->nic == r->nic && ip_eq(&o->gateway, &r->gateway))
			return -EEXIST;
	if (s->route_count == ROUTES_MAX)
		return -ENOBUFS;
	o = malloc(sizeof(*o));
	if (!o)
		return -ENOBUFS;
	*o = *r;
	list_add_tail(&o->node, &s->routes);
	s->route_count++;
	return 0;
}

int route_del(struct stack *s, const struct route *r)
{
	struct route *o;

	list_for_each(o, &s->routes, node) {
		if (!ip_eq(&o->dst, &r->dst) || o->plen != r->plen || (r->nic && o->nic != r->nic) ||
		    (r->metric && o->metric != r->metric) ||
		    (!ip_is_any(&r->gateway) && !ip_eq(&o->gateway, &r->gateway)))
			continue;
		list_del(&o->node);
		free(o);
		s->route_count--;
		return 0;
	}
	return -ESRCH;
}

/* RFC 6724 in short: same network first, then same scope, then whatever there is. */
static int choose_src(const struct nic *n, const struct ip_addr *dst, struct ip_addr *src)
{
	const struct nic_addr *best = NULL;
	int best_score = -1;

	for (uint32_t i = 0; i < n->addr_count; i++) {
		const struct nic_addr *a = &n->addr[i];
		int score = 0;

		if (ip_is_v4(&a->addr) != ip_is_v4(dst))
			continue;
		if (ip_match(&a->addr, dst, a->plen))
			score += 4;
		if (!ip_is_v4(dst) && ip_is_linklocal6(&a->addr) == ip_is_linklocal6(dst))
			score += 2;
		if (a->scope == 0)
			score += 1;
		if (score > best_score) {
			best_score = score;
			best = a;
		}
	}
	if (!best)
		return -EADDRNOTAVAIL;
	*src = best->addr;
	return 0;
}

static const struct route *best_route(struct stack *s, const struct ip_addr *dst, uint32_t nic)
{
	const struct route *r, *best = NULL;

	list_for_each(r, &s->routes, node) {
		struct nic *n;

		if (ip_is_v4(&r->dst) != ip_is_v4(dst) || !ip_match(dst, &r->dst, r->plen) ||
		    (nic && r->nic != nic))
			continue;
		if (best && (r->plen < best->plen || (r->plen == best->plen && r->metric >= best->metric)))
			continue;
		n = nic_find(s, r->nic);
		if (n && (n->flags & NIC_UP))
			best = r;
	}
	return best;
}

int route_lookup(struct stack *s, const struct ip_addr *dst, uint32_t nic, struct route_result *out)
{
	struct nic *n = stack_local(s, dst);
	const struct route *r;

	out->local = 0;
	out->next_hop = *dst;
	if (n && (!nic || nic == n->index || !(n->flags & NIC_LOOPBACK))) {
		out->nic = s->lo;
		out->local = 1;
		if (n == s->lo)
			return choose_src(n, dst, &out->src);
		out->src = *dst;
		return 0;
	}
	r = best_route(s, dst, nic);
	if (r) {
		if (r->type >= 6) /* blackhole, unreachable, prohibit */
			return r->type == 6 ? -EINVAL : r->type == 8 ? -EACCES : -EHOSTUNREACH;
		out->nic = nic_find(s, r->nic);
		if (!ip_is_any(&r->gateway))
			out->next_hop = r->gateway;
		if (!ip_is_any(&r->pref_src)) {
			out->src = r->pref_src;
			return 0;
		}
		return choose_src(out->nic, &out->next_hop, &out->src);
	}
	/* A socket bound to an interface may reach whatever is on that link; multicast too. */
	if (!nic)
		return -ENETUNREACH;
	out->nic = nic_find(s, nic);
	if (!out->nic || !(out->nic->flags & NIC_UP))
		return -ENETUNREACH;
	return choose_src(out->nic, dst, &out->src) ? -ENETUNREACH : 0;
}

uint32_t route_mtu(const struct route_result *r)
{
	return r->nic->mtu;
}
