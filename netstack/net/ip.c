/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPv4 (RFC 791) and IPv6 (RFC 8200): out to a route, in from an interface. Fragments are made and
 * put together in frag.c; nothing is forwarded.
 */
#include <errno.h>
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"
#include "netstack/stack_priv.h"

/* ---- out ---- */

static int ttl_of(struct stack *s, const struct ip_out *o)
{
	return o->ttl >= 0 ? o->ttl : (int)s->sysctl.default_ttl;
}

void ip_push_v4(struct stack *s, struct pkt *p, const struct ip_out *o, uint16_t id, uint16_t frag)
{
	uint32_t total = p->len + (uint32_t)sizeof(struct ipv4_hdr);
	struct ipv4_hdr *h = pkt_push(p, sizeof(*h));

	h->ver_ihl = 0x45;
	h->tos = o->tos;
	h->total_len = htons((uint16_t)(total > 65535 ? 0 : total));
	h->id = htons(id);
	h->frag = htons(frag);
	h->ttl = (uint8_t)ttl_of(s, o);
	h->proto = o->proto;
	h->csum = 0;
	h->src = o->src.w[3];
	h->dst = o->dst.w[3];
	h->csum = csum_fold(csum_add(0, h, sizeof(*h)));
}

void ip_push_v6(struct stack *s, struct pkt *p, const struct ip_out *o, uint8_t next)
{
	uint32_t payload = p->len;
	struct ipv6_hdr *h = pkt_push(p, sizeof(*h));

	h->ver_class_flow = htonl(6u << 28 | (uint32_t)o->tos << 20);
	h->payload_len = htons((uint16_t)(payload > 65535 ? 0 : payload));
	h->next = next;
	h->hop_limit = (uint8_t)ttl_of(s, o);
	memcpy(h->src, o->src.b, 16);
	memcpy(h->dst, o->dst.b, 16);
}

/* whole: by us, as the pieces of a fragmented packet carry one checksum. */
static void checksum(struct pkt *p, const struct ip_out *o, int at, const struct nic *n, int whole)
{
	uint16_t c;

	if (at < 0 || (uint32_t)at + 2 > p->hlen)
		return;
	memset(p->hdr + p->head + at, 0, 2);
	if (n->flags & NIC_LOOPBACK)
		return;
	if ((n->flags & NIC_CSUM_TX) && !whole) {
		p->csum_ok = 1; /* the link completes it; where: from the header it knows */
		c = csum_pseudo(&o->src, &o->dst, o->proto, p->len);
	} else {
		c = csum_transport(p, &o->src, &o->dst, o->proto);
		if (!c && o->proto == IPPROTO_UDP)
			c = 0xffff;
	}
	memcpy(p->hdr + p->head + at, &c, 2);
}

/* A copy for our own members of the group the packet goes to. */
static void loop_multicast(struct stack *s, struct nic *n, const struct pkt *p)
{
	struct pkt *c = pkt_clone(p);

	if (!c)
		return;
	c->csum_ok = 1;
	c->nic = n->index;
	c->link_type = 2;
	list_add_tail(&c->node, &s->loop);
}

int ip_output(struct stack *s, struct pkt *p, const struct ip_out *o, int csum_off)
{
	int v4 = ip_is_v4(&o->dst), group = ip_is_multicast(&o->dst);
	struct route_result r;
	int err = route_lookup(s, &o->dst, o->nic, &r);

	if (err && group && o->nic) {
		r.nic = nic_find(s, o->nic);
		r.next_hop = o->dst;
		r.local = 0;
		err = r.nic ? 0 : err;
	}
	if (!err && ip_is_broadcast(&o->dst) && !r.nic)
		err = -ENETUNREACH;
	if (err) {
		s->c.ip_out_no_routes++;
		pkt_free(p);
		return err;
	}
	struct nic *n = r.nic;
	uint32_t head = v4 ? 20 : 40, mtu = n->mtu;

	err = guard_output(n, p, o);
	if (err) {
		pkt_free(p);
		return err;
	}

	s->c.ip_out++;
	p->proto = o->proto;
	int too_long = p->len + head > (mtu > 65535 && v4 ? 65535 : mtu) && !p->gso_size;

	checksum(p, o, csum_off, n, too_long);
	if (too_long) {
		if (o->df && mtu < 65535) {
			pkt_free(p);
			s->c.ip_frag_fails++;
			return -EMSGSIZE;
		}
		return ip_fragment(s, p, o, &r);
	}
	if (v4)
		ip_push_v4(s, p, o, o->df ? 0 : s->ip_id++, o->df ? IPV4_DF : 0);
	else
		ip_push_v6(s, p, o, o->proto);
	ip_link_output(&r, p, o);
	return 0;
}

/* p is a complete IP packet: to the wire, and to our own groups. */
void ip_link_output(struct route_result *r, struct pkt *p, const struct ip_out *o)
{
	struct nic *n = r->nic;
	int group = ip_is_multicast(&o->dst), bcast = stack_is_broadcast(n->stack, &o->dst);

	if ((group && o->mc_loop && !(n->flags & NIC_LOOPBACK)) || (bcast && !(n->flags & NIC_LOOPBACK)))
		loop_multicast(n->stack, n, p);
	if (n->flags & NIC_ARP)
		neigh_output(n, &r->next_hop, p);
	else
		n->xmit(n, p);
}

/* ---- in ---- */

/* Is this for us? Sets link_type for groups. */
static int for_us(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;

	if (stack_local(s, &p->dst)) {
		/* Packets with loopback addresses come from lo only (RFC 1122, 3.2.1.3). */
		return (n->flags & NIC_LOOPBACK) || !ip_is_loopback(&p->dst);
	}
	if (ip_is_multicast(&p->dst)) {
		p->link_type = 2;
		return 1;
	}
	if (stack_is_broadcast(s, &p->dst)) {
		p->link_type = 1;
		return 1;
	}
	return (n->flags & NIC_GATEWAY) && !ip_is_any(&p->dst);
}

void transport_input(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;

	if (guard_input(n, p)) {
		s->c.ip_in_discards++;
		pkt_free(p);
		return;
	}
	int taken = raw_input(n, p);

	s->c.ip_in_delivers++;
	switch (p->proto) {
	case IPPROTO_TCP:
		tcp_input(n, p);
		return;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		udp_input(n, p);
		return;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		icmp_input(n, p);
		return;
	}
	if (!taken) {
		s->c.ip_in_unknown++;
		icmp_error(n, p, 3, 2, 4, 1, 40);
	}
	pkt_free(p);
}

static void input_v4(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	struct ipv4_hdr *h = pkt_pull(p, sizeof(*h));

	if (!h)
		goto bad;
	uint32_t ihl = (h->ver_ihl & 15u) * 4, total = ntohs(h->total_len);

	if (ihl < sizeof(*h))
		goto bad;
	if (!total && (p->csum_ok || p->gso_size)) /* a super-segment, longer than the field */
		total = p->len + (uint32_t)sizeof(*h);
	if (total < ihl || total - sizeof(*h) > p->len)
		goto bad;
	if (!(n->flags & NIC_LOOPBACK) && ihl == sizeof(*h) && csum_fold(csum_add(0, h, sizeof(*h))))
		goto bad;
	p->src = ip_from_v4(h->src);
	p->dst = ip_from_v4(h->dst);
	p->ttl = h->ttl;
	p->tos = h->tos;
	p->proto = h->proto;
	uint16_t id = h->id, frag = ntohs(h->frag);

	if (p->len > total - sizeof(*h))
		pkt_trim_end(p, p->len - (total - (uint32_t)sizeof(*h)));
	if (ihl > sizeof(*h)) {
		uint8_t opt[40];
		uint32_t n_opt = ihl - (uint32_t)sizeof(*h);

		/* Options are not acted upon; source routes are refused (RFC 7126). */
		if (n_opt > p->len || pkt_copy(p, 0, opt, n_opt))
			goto bad;
		for (uint32_t i = 0; i < n_opt && opt[i];) {
			if ((opt[i] & 0x7f) == 3 || (opt[i] & 0x7f) == 9)
				goto bad;
			if (opt[i] == 1) {
				i++;
				continue;
			}
			if (i + 1 >= n_opt || opt[i + 1] < 2)
				goto bad;
			i += opt[i + 1];
		}
		pkt_trim_front(p, n_opt);
	}
	if (ip_is_multicast(&p->src) || stack_is_broadcast(s, &p->src) ||
	    (!(n->flags & NIC_LOOPBACK) && ip_is_loopback(&p->src))) {
		s->c.ip_in_addr_errors++;
		pkt_free(p);
		return;
	}
	if (!for_us(n, p)) {
		s->c.ip_in_addr_errors++;
		pkt_free(p);
		return;
	}
	if (frag & (IPV4_MF | IPV4_OFFSET)) {
		p = ip_reassemble(n, p, id, (uint32_t)(frag & IPV4_OFFSET) * 8, (frag & IPV4_MF) != 0);
		if (!p)
			return;
	}
	transport_input(n, p);
	return;
bad:
	s->c.ip_in_hdr_errors++;
	pkt_free(p);
}

static void input_v6(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	struct ipv6_hdr *h = pkt_pull(p, sizeof(*h));

	if (!h)
		goto bad;
	uint32_t len = ntohs(h->payload_len), vcf = ntohl(h->ver_class_flow);
	uint8_t next = h->next;

	if (!len && (p->csum_ok || p->gso_size))
		len = p->len;
	if (len > p->len)
		goto bad;
	p->src = ip_from_v6(h->src);
	p->dst = ip_from_v6(h->dst);
	p->ttl = h->hop_limit;
	p->tos = (uint8_t)(vcf >> 20);
	p->flow = vcf & 0xfffff;
	/* RFC 4291: mapped addresses never travel; multicast is never a source. */
	if (ip_is_v4(&p->src) || ip_is_v4(&p->dst) || ip_is_multicast(&p->src) ||
	    (!(n->flags & NIC_LOOPBACK) && ip_is_loopback(&p->src)))
		goto bad;
	pkt_trim_end(p, p->len - len);
	if (!for_us(n, p)) {
		s->c.ip_in_addr_errors++;
		pkt_free(p);
		return;
	}
	/* Extension headers: a handful at most; each makes progress. */
	for (int i = 0; i < 8; i++) {
		uint8_t eh[8];

		if (next == 0 || next == 43 || next == 60) {
			if (pkt_copy(p, 0, eh, 8) || (eh[1] + 1u) * 8 > p->len)
				goto bad;
			if (next == 43 && eh[3]) /* a route still to go: we do not forward */
				goto bad;
			next = eh[0];
			pkt_trim_front(p, (eh[1] + 1u) * 8);
			continue;
		}
		if (next == 44) {
			struct ipv6_frag_hdr fh;

			if (pkt_copy(p, 0, &fh, sizeof(fh)))
				goto bad;
			pkt_trim_front(p, sizeof(fh));
			p->proto = fh.next;
			p = ip_reassemble(n, p, fh.id, ntohs(fh.offset) & 0xfff8u, ntohs(fh.offset) & 1);
			if (!p)
				return;
			next = p->proto;
			continue;
		}
		p->proto = next;
		if (next == 59) {
			pkt_free(p);
			return;
		}
		transport_input(n, p);
		return;
	}
bad:
	s->c.ip_in_hdr_errors++;
	pkt_free(p);
}

void ip_input(struct nic *n, struct pkt *p)
{
	uint8_t first;

	if (p->link_type == 2 && p->nic) { /* a looped multicast came from another interface */
		struct nic *real = nic_find(n->stack, p->nic);

		n = real ? real : n;
	}
	p->nic = n->index;
	n->stack->c.ip_in++;
	if (pkt_copy(p, 0, &first, 1)) {
		pkt_free(p);
		return;
	}
	if (first >> 4 == 4)
		input_v4(n, p);
	else if (first >> 4 == 6)
		input_v6(n, p);
	else
		pkt_free(p);
}
