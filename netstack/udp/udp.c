/* SPDX-License-Identifier: Apache-2.0 */
/* UDP (RFC 768), UDP-Lite (RFC 3828), and what all datagram endpoints share in receiving. */
#include <errno.h>
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

#define UDP_SEGMENTS_MAX 128 /* Linux's UDP_MAX_SEGMENTS */

static enum ep_kind kind_of(const struct pkt *p)
{
	return p->proto == IPPROTO_UDPLITE ? EP_UDPLITE : EP_UDP;
}

/* The sum of the first `cover` bytes, with a pseudo header of the whole length (RFC 3828, 3.1). */
static uint16_t lite_checksum(const struct pkt *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t cover)
{
	struct pkt *c = pkt_clone(p);
	uint64_t sum;

	if (!c)
		return 1;
	pkt_trim_end(c, c->len - cover);
	sum = (uint16_t)~csum_transport(c, src, dst, IPPROTO_UDPLITE);
	sum += (uint16_t)~csum_pseudo(src, dst, IPPROTO_UDPLITE, cover);
	sum += csum_pseudo(src, dst, IPPROTO_UDPLITE, p->len);
	pkt_free(c);
	return csum_fold(sum);
}

/* Who else wants a datagram for a group or a broadcast: each gets a copy. */
static int deliver_group(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	struct endpoint *ep;
	int taken = 0;

	list_for_each(ep, &s->ports[kind_of(p)][hash_u64(p->dport ^ s->secret) % PORT_HASH], bind_node) {
		int v4 = ip_is_v4(&p->dst);

		if (ep->lport != p->dport || (v4 ? !ep_wants_v4(ep) : !ep->v6))
			continue;
		if (!ip_is_any(&ep->laddr) && !ip_eq(&ep->laddr, &p->dst))
			continue;
		if (ep->connected && (!ip_eq(&ep->raddr, &p->src) || ep->rport != p->sport))
			continue;
		if (ep->o.nic && ep->o.nic != n->index)
			continue;
		if (ip_is_multicast(&p->dst) && !endpoint_in_group(ep, &p->dst, n->index) &&
		    (ep->group_count || !ep->o.mc_all))
			continue;
		struct pkt *c = pkt_clone(p);

		if (c)
			taken |= endpoint_queue(ep, c);
	}
	return taken;
}

void udp_input(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	struct endpoint *ep;
	struct udp_hdr h;

	if (pkt_copy(p, 0, &h, sizeof(h)))
		goto bad;
	uint32_t len = ntohs(h.len), cover = len ? len : p->len;

	if (p->proto == IPPROTO_UDPLITE) { /* the field says how much is covered */
		if (cover < sizeof(h) || cover > p->len ||
		    (!p->csum_ok && lite_checksum(p, &p->src, &p->dst, cover)))
			goto bad;
		len = p->len;
	}
	if (!len && p->len > 65535)
		len = p->len;
	if (len < sizeof(h) || len > p->len)
		goto bad;
	pkt_trim_end(p, p->len - len);
	if (p->proto == IPPROTO_UDP && !p->csum_ok && (h.csum || !ip_is_v4(&p->src)) &&
	    csum_transport(p, &p->src, &p->dst, IPPROTO_UDP))
		goto bad;
	p->sport = ntohs(h.sport);
	p->dport = ntohs(h.dport);
	if (p->link_type) {
		pkt_trim_front(p, sizeof(h));
		if (deliver_group(n, p))
			s->c.udp_in++;
		pkt_free(p);
		return;
	}
	ep = demux_connected(s, kind_of(p), &p->dst, p->dport, &p->src, p->sport, n->index);
	if (!ep)
		ep = demux_bound(s, kind_of(p), &p->dst, p->dport, &p->src, p->sport, n->index);
	if (!ep && (n->flags & NIC_GATEWAY) && p->proto == IPPROTO_UDP) {
		pkt_trim_front(p, sizeof(h));
		if (!gateway_take(n, p))
			pkt_free(p);
		return;
	}
	if (!ep) {
		s->c.udp_no_ports++;
		icmp_error(n, p, 3, 3, 1, 4, 0);
		pkt_free(p);
		return;
	}
	pkt_trim_front(p, sizeof(h));
	if (ep->o.recv_cover && cover < ep->o.recv_cover) {
		pkt_free(p);
		return;
	}
	if (endpoint_queue(ep, p)) {
		s->c.udp_in++;
	} else {
		s->c.udp_in_errors++;
		s->c.udp_rcvbuf_errors++;
	}
	return;
bad:
	s->c.udp_in_errors++;
	pkt_free(p);
}

int dgram_route(struct endpoint *ep, const struct ep_send *m, struct ip_out *o, uint16_t *port)
{
	struct stack *s = ep->stack;
	struct route_result r;
	int err;

	if (ep->error) {
		err = -ep->error;
		ep->error = 0;
		return err;
	}
	if (ep->shut & 2)
		return -EPIPE;
	if (!m->to && !ep->connected)
		return -EDESTADDRREQ;
	o->dst = m->to ? *m->to : ep->raddr;
	*port = m->to ? m->port : ep->rport;
	if (ip_is_any(&o->dst))
		o->dst = ip_is_v4(&o->dst) ? ip_from_v4(htonl(INADDR_LOOPBACK)) : (struct ip_addr){ .b[15] = 1 };
	int v4 = ip_is_v4(&o->dst), group = ip_is_multicast(&o->dst);

	if (stack_is_broadcast(s, &o->dst) && !ep->o.broadcast)
		return -EACCES;
	o->nic = m->nic ? m->nic : ep->o.nic;
	if (group && !o->nic)
		o->nic = ep->o.mc_nic;
	o->proto = ep->proto;
	o->ep = ep;
	if (m->tos >= 0)
		o->tos = (uint8_t)m->tos;
	else
		o->tos = v4 ? ep->o.tos : ep->o.tclass;
	if (m->ttl >= 0)
		o->ttl = m->ttl;
	else if (group)
		o->ttl = v4 ? ep->o.mc_ttl : ep->o.mc_hops < 0 ? 1 : ep->o.mc_hops;
	else
		o->ttl = v4 ? ep->o.ttl : ep->o.hops;
	o->mc_loop = ep->o.mc_loop;
	o->df = (v4 ? ep->o.pmtudisc : ep->o.pmtudisc6) >= 2;
	err = route_lookup(s, &o->dst, o->nic, &r);
	if (err && stack_is_broadcast(s, &o->dst))
		err = -ENETUNREACH;
	if (err)
		return err;
	if (!ip_is_any(&m->src))
		o->src = m->src;
	else if (!ip_is_any(&ep->laddr) && ip_is_v4(&ep->laddr) == v4)
		o->src = ep->laddr;
	else
		o->src = r.src;
	if (group && ip_is_any(&m->src) && !ip_is_any(&ep->o.mc_addr) && ip_is_any(&ep->laddr))
		o->src = ep->o.mc_addr;
	if (ip_is_multicast(&o->src))
		o->src = r.src;
	return 0;
}

static int send_one(struct endpoint *ep, struct pkt *p, const struct ip_out *o, uint16_t port)
{
	struct udp_hdr *h = pkt_push(p, sizeof(*h));

	h->sport = htons(ep->lport);
	h->dport = htons(port);
	h->len = htons((uint16_t)p->len);
	h->csum = 0;
	ep->stack->c.udp_out++;
	if (ep->kind == EP_UDPLITE) {
		uint32_t cover = ep->o.send_cover && ep->o.send_cover < p->len ? ep->o.send_cover : p->len;

		h->len = htons((uint16_t)(cover == p->len && !ep->o.send_cover ? 0 : cover));
		h->csum = lite_checksum(p, &o->src, &o->dst, cover);
		if (!h->csum)
			h->csum = 0xffff;
		return ip_output(ep->stack, p, o, -1);
	}
	return ip_output(ep->stack, p, o, ep->o.no_check && ip_is_v4(&o->dst) ? -1 : (int)offsetof(struct udp_hdr, csum));
}

ssize_t udp_send(struct endpoint *ep, struct ep_send *m)
{
	struct stack *s = ep->stack;
	size_t n = m->u->left;
	struct ip_out o = { .ttl = -1 };
	uint16_t port;
	struct pkt *p;
	int err;

	if (n > 65507 + 20u)
		return -EMSGSIZE;
	if (m->flags & EPF_OOB)
		return -EOPNOTSUPP;
	if (m->to && !m->port)
		return -EINVAL;
	p = pkt_from_uio(m->u, (uint32_t)n);
	if (IS_ERR(p))
		return PTR_ERR(p);
	stack_lock(s);
	err = dgram_route(ep, m, &o, &port);
	if (!err && n > (ip_is_v4(&o.dst) ? 65507u : 65527u))
		err = -EMSGSIZE;
	if (!err && !ep->lport) {
		err = port_bind(ep, &ep->laddr, 0);
		if (err == -EADDRINUSE)
			err = -EAGAIN;
	}
	uint32_t gso = (uint32_t)(m->gso_size ? m->gso_size : ep->o.udp_segment);

	if (!err && gso && n > (size_t)gso * UDP_SEGMENTS_MAX)
		err = -EINVAL;
	if (err) {
		pkt_free(p);
	} else if (!gso || n <= gso) {
		err = send_one(ep, p, &o, port);
	} else {
		/* UDP_SEGMENT: one call, many datagrams. */
		for (uint32_t off = 0; off < n && !err; off += gso) {
			uint32_t take = (uint32_t)n - off < gso ? (uint32_t)n - off : gso;
			struct pkt *c = pkt_new();

			if (!c) {
				err = -ENOBUFS;
				break;
			}
			pkt_add(c, p->frag[0].b, p->frag[0].off + off, take);
			err = send_one(ep, c, &o, port);
		}
		pkt_free(p);
	}
	stack_unlock(s);
	return err ? err : (ssize_t)n;
}

ssize_t dgram_recv(struct endpoint *ep, struct ep_recv *m)
{
	struct stack *s = ep->stack;
	struct pkt *p;
	ssize_t ret;

	if (m->flags & EPF_OOB)
		return -EOPNOTSUPP;
	stack_lock(s);
	if (ep->error) {
		ret = -ep->error;
		ep->error = 0;
		stack_unlock(s);
		return ret;
	}
	if (list_empty(&ep->rq)) {
		ret = ep->shut & 1 ? 0 : -EAGAIN;
		stack_unlock(s);
		return ret;
	}
	p = list_first(&ep->rq, struct pkt, node);
	if (m->flags & EPF_PEEK) {
		p = pkt_clone(p);
	} else {
		list_del(&p->node);
		ep->rq_mem -= pkt_truesize(p);
		ep->rq_bytes -= p->len;
		ep->rq_count--;
	}
	stack_unlock(s);
	if (!p)
		return -ENOBUFS;
	m->full_len = p->len;
	m->truncated = p->len > m->u->left;
	m->from = p->src;
	m->from_port = p->sport;
	m->to = p->dst;
	m->to_port = p->dport;
	m->nic = p->nic;
	m->ttl = p->ttl;
	m->tos = p->tos;
	m->flow = p->flow;
	m->stamp_ns = p->stamp_ns;
	uint32_t n = p->len < m->u->left ? p->len : (uint32_t)m->u->left;

	ret = pkt_to_uio(p, 0, n, m->u);
	if (ret >= 0 && (uint32_t)ret < n)
		ret = -EFAULT;
	pkt_free(p);
	return ret;
}
