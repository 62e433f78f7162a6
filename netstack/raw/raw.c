/* SPDX-License-Identifier: Apache-2.0 */
/* Raw IP endpoints (raw(7)) and ping endpoints (SOCK_DGRAM with IPPROTO_ICMP). */
#include <errno.h>
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

static int filtered(const struct endpoint *ep, const struct pkt *p)
{
	uint8_t type;

	if (pkt_copy(p, 0, &type, 1))
		return 1;
	if (ep->proto == IPPROTO_ICMP && !ep->v6)
		return type < 32 && (ep->o.icmp_filter >> type & 1);
	if (ep->proto == IPPROTO_ICMPV6)
		return ep->o.icmp6_filter[type / 32] >> (type % 32) & 1;
	return 0;
}

int raw_input(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	int v4 = ip_is_v4(&p->dst), taken = 0;
	struct endpoint *ep;

	if (list_empty(&s->all[EP_RAW]))
		return 0;
	list_for_each(ep, &s->all[EP_RAW], all_node) {
		if (!ep->owned || ep->v6 == v4 || (ep->proto != p->proto))
			continue;
		if (ep->o.nic && ep->o.nic != n->index)
			continue;
		if (!ip_is_any(&ep->laddr) && !ip_eq(&ep->laddr, &p->dst))
			continue;
		if (ep->connected && !ip_eq(&ep->raddr, &p->src))
			continue;
		taken = 1;
		if (filtered(ep, p))
			continue;
		struct pkt *c = pkt_clone(p);

		if (!c)
			continue;
		if (v4) { /* readers get the IP header too */
			struct ip_out o = { .src = p->src, .dst = p->dst, .proto = p->proto, .ttl = p->ttl,
					    .tos = p->tos };
			uint8_t hdr[PKT_HEADROOM];
			uint16_t hlen = c->hlen;

			/* The area may not have room in front; rebuild it at its end. */
			if (c->head < sizeof(struct ipv4_hdr)) {
				memcpy(hdr, c->hdr + c->head, hlen);
				c->head = (uint16_t)(PKT_HEADROOM - hlen);
				memcpy(c->hdr + c->head, hdr, hlen);
			}
			ip_push_v4(s, c, &o, 0, 0);
		}
		c->sport = c->dport = 0;
		endpoint_queue(ep, c);
	}
	return taken;
}

void ping_input(struct nic *n, struct pkt *p, uint16_t id)
{
	struct stack *s = n->stack;
	struct endpoint *ep = demux_bound(s, EP_PING, &p->dst, id, &p->src, 0, n->index);

	if (!ep || (ep->v6 == ip_is_v4(&p->dst)))
		return;
	struct pkt *c = pkt_clone(p);

	if (c) {
		c->sport = 0;
		endpoint_queue(ep, c);
	}
}

/* The echo request of a ping endpoint: type and code are checked, the id is the port. */
static int ping_fix(struct endpoint *ep, struct pkt *p, const struct ip_out *o)
{
	struct icmp_hdr h, *w;

	if (pkt_copy(p, 0, &h, sizeof(h)))
		return -EINVAL;
	if (h.type != (ip_is_v4(&o->dst) ? 8 : 128) || h.code)
		return -EINVAL;
	pkt_trim_front(p, sizeof(h));
	w = pkt_push(p, sizeof(*w));
	*w = h;
	w->id = htons(ep->lport);
	return 0;
}

static int send_hdrincl(struct endpoint *ep, struct pkt *p, const struct ip_out *o)
{
	struct ipv4_hdr h;
	struct route_result r;

	if (pkt_copy(p, 0, &h, sizeof(h)) || (h.ver_ihl & 15) < 5 || (h.ver_ihl & 15u) * 4 > p->len) {
		pkt_free(p);
		return -EINVAL;
	}
	int err = route_lookup(ep->stack, &o->dst, o->nic, &r);

	if (!err && p->len > r.nic->mtu)
		err = -EMSGSIZE;
	if (err) {
		pkt_free(p);
		return err;
	}
	h.total_len = htons((uint16_t)p->len);
	if (!h.src)
		h.src = o->src.w[3];
	if (!h.id)
		h.id = htons(ep->stack->ip_id++);
	h.csum = 0;
	if ((h.ver_ihl & 15) == 5)
		h.csum = csum_fold(csum_add(0, &h, sizeof(h)));
	pkt_trim_front(p, sizeof(h));
	memcpy(pkt_push(p, sizeof(h)), &h, sizeof(h));
	err = guard_whole(r.nic, p, ep);
	if (err) {
		pkt_free(p);
		return err;
	}
	ip_link_output(&r, p, o);
	return 0;
}

ssize_t raw_send(struct endpoint *ep, struct ep_send *m)
{
	struct stack *s = ep->stack;
	size_t n = m->u->left;
	struct ip_out o = { .ttl = -1 };
	uint16_t port;
	struct pkt *p;
	int err;

	if (n > 65535)
		return -EMSGSIZE;
	if (m->flags & EPF_OOB)
		return -EOPNOTSUPP;
	p = pkt_from_uio(m->u, (uint32_t)n);
	if (IS_ERR(p))
		return PTR_ERR(p);
	stack_lock(s);
	err = dgram_route(ep, m, &o, &port);
	if (err)
		goto fail;
	if (ep->kind == EP_PING) {
		if (!ep->lport)
			err = port_bind(ep, &ep->laddr, 0);
		if (!err)
			err = ping_fix(ep, p, &o);
		if (err)
			goto fail;
		err = icmp_send(s, p, &o);
	} else if (ep->o.hdrincl && !ep->v6) {
		err = send_hdrincl(ep, p, &o);
	} else {
		int at = ep->v6 ? ep->o.csum_offset : -1;

		if (at >= 0) {
			uint8_t head[64];
			uint32_t pull = (uint32_t)at + 2;

			if (pull > p->len || pull > sizeof(head)) {
				err = -EINVAL;
				goto fail;
			}
			/* The checksum is made in the header area. */
			pkt_copy(p, 0, head, pull);
			pkt_trim_front(p, pull);
			memcpy(pkt_push(p, pull), head, pull);
			memset(p->hdr + p->head + at, 0, 2);
			uint16_t c = csum_transport(p, &o.src, &o.dst, ep->proto);

			memcpy(p->hdr + p->head + at, &c, 2);
		}
		err = ip_output(s, p, &o, -1);
	}
	stack_unlock(s);
	return err ? err : (ssize_t)n;
fail:
	pkt_free(p);
	stack_unlock(s);
	return err;
}
