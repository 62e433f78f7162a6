/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ICMP (RFC 792) and ICMPv6 (RFC 4443): echo is answered, errors about our packets are told to the
 * endpoint that sent them, and errors about others' packets are sent, limited in rate.
 */
#include <errno.h>
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

#define ERROR_INTERVAL_NS 1000000u /* a thousand errors a second, with a burst of fifty */
#define ERROR_BURST 50u

static int rate_allows(struct stack *s)
{
	uint64_t now = stack_now(s), floor = now > ERROR_BURST * ERROR_INTERVAL_NS ? now - ERROR_BURST * ERROR_INTERVAL_NS : 0;

	if (s->icmp_tokens_ns < floor)
		s->icmp_tokens_ns = floor;
	if (s->icmp_tokens_ns + ERROR_INTERVAL_NS > now)
		return 0;
	s->icmp_tokens_ns += ERROR_INTERVAL_NS;
	return 1;
}

/* p: its transport header in front, as transport_input saw it. */
void icmp_error(struct nic *n, struct pkt *p, int v4_type, int v4_code, int v6_type, int v6_code,
		uint32_t info)
{
	struct stack *s = n->stack;
	int v4 = ip_is_v4(&p->src);
	uint32_t quote = p->len, max = v4 ? 548 : 1232 - 40;
	struct pkt *e;
	uint8_t buf[1232];

	/* Never about groups, nor to nobody (RFC 1122, 3.2.2). */
	if (p->link_type || ip_is_multicast(&p->dst) || ip_is_any(&p->src) || ip_is_multicast(&p->src) ||
	    stack_is_broadcast(s, &p->dst))
		return;
	if (!(n->flags & NIC_LOOPBACK) && !rate_allows(s))
		return;
	if (quote > max)
		quote = max;
	struct ip_out in = { .src = p->src, .dst = p->dst, .proto = p->proto, .tos = p->tos, .ttl = p->ttl };

	if (pkt_copy(p, 0, buf, quote))
		return;
	e = pkt_from_mem(buf, quote);
	if (!e)
		return;
	/* The quoted IP header is rebuilt from what was read of it; its length is the original's. */
	if (v4) {
		ip_push_v4(s, e, &in, 0, 0);
		((struct ipv4_hdr *)(void *)(e->hdr + e->head))->total_len = htons((uint16_t)(p->len + 20));
	} else {
		ip_push_v6(s, e, &in, p->proto);
		((struct ipv6_hdr *)(void *)(e->hdr + e->head))->payload_len = htons((uint16_t)p->len);
	}
	struct icmp_hdr *h = pkt_push(e, sizeof(*h));

	h->type = (uint8_t)(v4 ? v4_type : v6_type);
	h->code = (uint8_t)(v4 ? v4_code : v6_code);
	h->csum = 0;
	info = htonl(info);
	memcpy(&h->id, &info, 4);
	struct ip_out o = { .src = p->dst, .dst = p->src, .ttl = -1,
			    .proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, .tos = v4 ? 0xc0 : 0,
			    .own = !(n->flags & NIC_LOOPBACK) };

	s->c.icmp_out++;
	s->c.icmp_out_unreach += v4 ? v4_type == 3 : v6_type == 1;
	icmp_send(s, e, &o);
}

int icmp_send(struct stack *s, struct pkt *p, const struct ip_out *o)
{
	uint16_t zero = 0, c;
	uint8_t *at = p->hdr + p->head;

	ASSERT(p->hlen >= sizeof(struct icmp_hdr));
	memcpy(at + 2, &zero, 2);
	if (o->proto == IPPROTO_ICMPV6) {
		c = csum_transport(p, &o->src, &o->dst, IPPROTO_ICMPV6);
	} else {
		/* Without the pseudo header: its sum is taken out again. */
		uint64_t sum = (uint16_t)~csum_transport(p, &o->src, &o->dst, o->proto);

		sum += (uint16_t)~csum_pseudo(&o->src, &o->dst, o->proto, p->len);
		c = csum_fold(sum);
	}
	memcpy(at + 2, &c, 2);
	return ip_output(s, p, o, -1);
}

/* What an ICMP error means to a socket: errno, and whether a connection attempt ends by it. */
static int meaning(int v4, uint8_t type, uint8_t code, int *hard)
{
	static const struct {
		uint8_t err, hard;
	} unreach[16] = {
		{ ENETUNREACH, 0 }, { EHOSTUNREACH, 0 }, { ENOPROTOOPT, 1 }, { ECONNREFUSED, 1 },
		{ EMSGSIZE, 0 },    { EOPNOTSUPP, 0 },	 { ENETUNREACH, 1 }, { EHOSTDOWN, 1 },
		{ ENONET, 1 },	    { ENETUNREACH, 1 },	 { EHOSTUNREACH, 1 }, { ENETUNREACH, 0 },
		{ EHOSTUNREACH, 0 }, { EHOSTUNREACH, 1 }, { EHOSTUNREACH, 1 }, { EHOSTUNREACH, 1 },
	};
	static const struct {
		uint8_t err, hard;
	} unreach6[7] = {
		{ ENETUNREACH, 0 }, { EACCES, 1 }, { EHOSTUNREACH, 0 }, { EHOSTUNREACH, 0 },
		{ ECONNREFUSED, 1 }, { EACCES, 1 }, { EACCES, 1 },
	};

	*hard = 0;
	if (v4 && type == 3 && code < 16) {
		*hard = unreach[code].hard;
		return unreach[code].err;
	}
	if (v4 && type == 11)
		return EHOSTUNREACH;
	if (v4 && type == 12) {
		*hard = 1;
		return EPROTO;
	}
	if (!v4 && type == 1 && code < 7) {
		*hard = unreach6[code].hard;
		return unreach6[code].err;
	}
	if (!v4 && type == 2)
		return EMSGSIZE;
	if (!v4 && type == 3)
		return EHOSTUNREACH;
	if (!v4 && type == 4) {
		*hard = 1;
		return EPROTO;
	}
	return 0;
}

/* p's front: the quoted IP header of a packet we are said to have sent. */
static void quoted_error(struct nic *n, struct pkt *p, const struct icmp_hdr *h)
{
	struct stack *s = n->stack;
	int v4 = ip_is_v4(&p->src), hard, err = meaning(v4, h->type, h->code, &hard);
	struct ip_addr src, dst;
	uint16_t ports[4] = { 0 };
	uint32_t info, mtu = 0;
	struct endpoint *ep = NULL;
	uint8_t proto;

	memcpy(&info, &h->id, 4);
	info = ntohl(info);
	if (v4) {
		struct ipv4_hdr ih;

		if (pkt_copy(p, 0, &ih, sizeof(ih)) || ih.ver_ihl >> 4 != 4)
			return;
		uint32_t ihl = (ih.ver_ihl & 15u) * 4;

		if (ihl < 20 || ihl > p->len || (ih.frag & htons(IPV4_OFFSET)))
			return;
		src = ip_from_v4(ih.src);
		dst = ip_from_v4(ih.dst);
		proto = ih.proto;
		pkt_trim_front(p, ihl);
		if (h->type == 3 && h->code == 4)
			mtu = info & 0xffff ? info & 0xffff : 576;
	} else {
		struct ipv6_hdr ih;

		if (pkt_copy(p, 0, &ih, sizeof(ih)))
			return;
		src = ip_from_v6(ih.src);
		dst = ip_from_v6(ih.dst);
		proto = ih.next;
		pkt_trim_front(p, sizeof(ih));
		if (h->type == 2)
			mtu = info;
	}
	if (pkt_copy(p, 0, ports, 8) || !err)
		return;
	struct pkt *copy;

	switch (proto) {
	case IPPROTO_TCP: {
		uint32_t seq;

		memcpy(&seq, &ports[2], 4);
		ep = demux_connected(s, EP_TCP, &src, ntohs(ports[0]), &dst, ntohs(ports[1]), 0);
		if (ep) {
			endpoint_get(ep);
			tcp_icmp_error(ep, err, ntohl(seq), mtu);
			endpoint_put_locked(ep);
		}
		break;
	}
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		ep = demux_connected(s, proto == IPPROTO_UDP ? EP_UDP : EP_UDPLITE, &src, ntohs(ports[0]), &dst, ntohs(ports[1]), 0);
		if (!ep)
			ep = demux_bound(s, proto == IPPROTO_UDP ? EP_UDP : EP_UDPLITE, &src, ntohs(ports[0]),
					 &dst, ntohs(ports[1]), 0);
		if (!ep)
			break;
		pkt_trim_front(p, 8);
		if (mtu && (v4 ? ep->o.pmtudisc : ep->o.pmtudisc6) == 0)
			break;
		copy = pkt_clone(p);
		if (hard || mtu || (v4 ? ep->o.recverr : ep->o.recverr6))
			endpoint_report(ep, err, v4 ? 2 : 3, h->type, h->code, mtu, &p->src, &dst,
					ntohs(ports[1]), copy);
		else
			pkt_free(copy);
		break;
	}
}

void icmp_input(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	int v4 = ip_is_v4(&p->dst);
	struct icmp_hdr h;

	s->c.icmp_in++;
	if (v4 != (p->proto == IPPROTO_ICMP))
		goto out;
	if (!p->csum_ok) {
		uint64_t sum = (uint16_t)~csum_transport(p, &p->src, &p->dst, p->proto);

		if (v4)
			sum += (uint16_t)~csum_pseudo(&p->src, &p->dst, p->proto, p->len);
		if (csum_fold(sum)) {
			s->c.icmp_in_errors++;
			goto out;
		}
	}
	if (pkt_copy(p, 0, &h, sizeof(h))) {
		s->c.icmp_in_errors++;
		goto out;
	}
	if (h.type == (v4 ? 8 : 128)) {
		struct pkt *r;

		if (!stack_local(s, &p->dst) && gateway_take(n, p))
			return;
		s->c.icmp_in_echo++;
		if (v4 && p->link_type) /* no answers to broadcast, as Linux by default */
			goto out;
		pkt_trim_front(p, sizeof(h));
		r = pkt_clone(p);
		if (!r || (r->hlen && pkt_linearise(r))) {
			pkt_free(r);
			goto out;
		}
		r->head = PKT_HEADROOM;
		r->hlen = 0;
		struct icmp_hdr *rh = pkt_push(r, sizeof(*rh));

		*rh = h;
		rh->type = v4 ? 0 : 129;
		struct ip_out o = { .src = p->dst, .dst = p->src, .proto = p->proto, .ttl = -1, .tos = p->tos,
				    .own = !(n->flags & NIC_LOOPBACK) };

		if (p->link_type) { /* to a group: from the address we have on that link */
			struct route_result rr;

			if (route_lookup(s, &p->src, n->index, &rr)) {
				pkt_free(r);
				goto out;
			}
			o.src = rr.src;
		}
		if (ip_is_linklocal6(&p->src) && !v4)
			o.nic = n->index;
		r->csum_ok = 0;
		s->c.icmp_out++;
		s->c.icmp_out_echo_reply++;
		icmp_send(s, r, &o);
	} else if (h.type == (v4 ? 0 : 129)) {
		ping_input(n, p, ntohs(h.id));
	} else if (v4 ? h.type == 3 || h.type == 11 || h.type == 12 : h.type >= 1 && h.type <= 4) {
		s->c.icmp_in_unreach += h.type == (v4 ? 3 : 1);
		pkt_trim_front(p, sizeof(h));
		quoted_error(n, p, &h);
	} else if (!v4 && h.type >= 133 && h.type <= 137) {
		ndp_input(n, p, &h);
	}
out:
	pkt_free(p);
}
