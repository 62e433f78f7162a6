/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local ports: who may have which. The rules are Linux's (inet_csk_get_port, inet_rcv_saddr_equal,
 * udp_lib_get_port): addresses conflict unless both sides said SO_REUSEADDR (TCP: and nobody
 * listens there already) or SO_REUSEPORT of one user.
 */
#include <errno.h>

#include "netstack/stack_priv.h"

static struct list_head *bucket(struct stack *s, enum ep_kind kind, uint16_t port)
{
	return &s->ports[kind][hash_u64(port ^ s->secret) % PORT_HASH];
}

/* Could one packet be meant for both? */
static int addresses_meet(const struct endpoint *a, const struct ip_addr *la, const struct endpoint *b)
{
	int a_any = ip_is_any(la), b_any = ip_is_any(&b->laddr);
	int a_v4 = ip_is_v4(la), b_v4 = ip_is_v4(&b->laddr);
	/* An IPv6 wildcard covers IPv4 too unless V6ONLY. */
	int a4 = a_v4 || (a_any && !a->o.v6only), a6 = !a_v4;
	int b4 = b_v4 || (b_any && !b->o.v6only), b6 = !b_v4;

	if (!(a4 && b4) && !(a6 && b6))
		return 0;
	if (a_any || b_any)
		return 1;
	return ip_eq(la, &b->laddr);
}

static int conflicts(const struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	struct endpoint *o;

	list_for_each(o, bucket(ep->stack, ep->kind, port), bind_node) {
		if (o == ep || o->lport != port)
			continue;
		if (ep->o.nic && o->o.nic && ep->o.nic != o->o.nic)
			continue;
		if (!addresses_meet(ep, a, o))
			continue;
		if (ep->o.reuseport && o->o.reuseport && ep->o.uid == o->o.uid)
			continue;
		if (ep->o.reuseaddr && o->o.reuseaddr &&
		    (ep->kind != EP_TCP || !tcp_is_listening(o)))
			continue;
		/* A reuseport group member in TIME_WAIT does not block it. */
		if (ep->kind == EP_TCP && ep->o.reuseport && o->o.reuseport && tcp_is_timewait(o))
			continue;
		return 1;
	}
	return 0;
}

void port_insert(struct endpoint *ep)
{
	struct list_head *b = bucket(ep->stack, ep->kind, ep->lport);

	/* Connections of a listener go behind all others, where demux_bound() stops: there may be ten
	 * thousand of them, and each SYN comes by here. */
	if (ep->passive)
		list_add_tail(&ep->bind_node, b);
	else
		list_add(&ep->bind_node, b);
}

void port_release(struct endpoint *ep)
{
	list_del(&ep->bind_node);
	ep->lport = 0;
	ep->port_bound = ep->addr_bound = 0;
}

static int take(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	ep->laddr = *a;
	ep->lport = port;
	list_del(&ep->bind_node);
	port_insert(ep);
	return 0;
}

int port_bind(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	struct stack *s = ep->stack;

	if (port)
		return conflicts(ep, a, port) ? -EADDRINUSE : take(ep, a, port);
	uint32_t min = ep->kind == EP_PING ? 1 : s->sysctl.port_min;
	uint32_t max = ep->kind == EP_PING ? 65535 : s->sysctl.port_max, count;

	if (min < 1 || max > 65535 || min > max)
		return -EADDRINUSE;
	count = max - min + 1;
	uint32_t at = stack_random(s) % count;
	/* First a port nobody has at all: sharing by SO_REUSEADDR is only for those who name one. */
	for (uint32_t i = 0; i < count; i++, at = at + 1 == count ? 0 : at + 1) {
		uint16_t p = (uint16_t)(min + at);
		struct endpoint *o;
		int used = 0;

		list_for_each(o, bucket(s, ep->kind, p), bind_node)
			if (o->lport == p && o != ep) {
				used = 1;
				break;
			}
		if (!used)
			return take(ep, a, p);
	}
	for (uint32_t i = 0; i < count; i++, at = at + 1 == count ? 0 : at + 1)
		if (!conflicts(ep, a, (uint16_t)(min + at)))
			return take(ep, a, (uint16_t)(min + at));
	return -EADDRINUSE;
}

int port_autoconnect(struct endpoint *ep)
{
	struct stack *s = ep->stack;
	uint32_t min = s->sysctl.port_min, max = s->sysctl.port_max;

	if (min < 1 || max > 65535 || min > max)
		return -EADDRNOTAVAIL;
	uint32_t count = max - min + 1;
	/* RFC 6056, algorithm 3: a keyed hash of the destination plus a counter. */
	uint32_t at = (uint32_t)(hash_bytes(&ep->raddr, 16, s->secret ^ ep->rport) + s->port_hint) % count;

	for (uint32_t i = 0; i < count; i++, at = at + 1 == count ? 0 : at + 1) {
		uint16_t p = (uint16_t)(min + at);
		struct endpoint *o, *tw = NULL;
		int used = 0;

		/* A port that somebody bound is left alone; those of other connections are shared. */
		list_for_each(o, bucket(s, ep->kind, p), bind_node)
			if (o->lport == p && (o->port_bound || tcp_is_listening(o))) {
				used = 1;
				break;
			}
		if (used)
			continue;
		o = demux_connected(s, ep->kind, &ep->laddr, p, &ep->raddr, ep->rport, 0);
		if (o && tcp_timewait_reusable(o))
			tw = o;
		else if (o)
			continue;
		if (tw)
			tcp_timewait_kill(tw);
		s->port_hint += i + 1;
		return take(ep, &ep->laddr, p);
	}
	return -EADDRNOTAVAIL;
}
