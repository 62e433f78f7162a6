/* SPDX-License-Identifier: Apache-2.0 */
/* Standing in for other hosts: see gateway.h. The hooks are in ip.c, tcp/input.c, udp.c and icmp.c. */
#include "netstack/gateway.h"

#include <errno.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"
#include "netstack/tcp/tcp_priv.h"

void gateway_set(struct nic *n, const struct gateway *h)
{
	lock_assert_held(&n->stack->lock);
	n->flags |= NIC_GATEWAY;
	n->stack->gateway = h;
}

int gateway_take(struct nic *n, struct pkt *p)
{
	const struct gateway *g = n->stack->gateway;

	if (!g || !(n->flags & NIC_GATEWAY) || p->link_type || ip_is_any(&p->src))
		return 0;
	g->packet(g->priv, n, p);
	return 1;
}

struct endpoint *gateway_listener(struct stack *s, int backlog)
{
	struct endpoint *ep = endpoint_new(s, EP_TCP, 1, IPPROTO_TCP);

	if (!ep)
		return NULL;
	stack_lock(s);
	tcp_of(ep)->backlog = (uint32_t)backlog;
	tcp_set_state(tcp_of(ep), TCPS_LISTEN); /* in no port's list: packets do not find it */
	stack_unlock(s);
	return ep;
}

/* The header and options of a SYN that the owner was given. */
static int syn_parts(const struct pkt *p, struct tcp_hdr *h, struct tcp_opts *o)
{
	uint8_t opts[40];

	if (pkt_copy(p, 0, h, sizeof(*h)))
		return -EINVAL;
	uint32_t head = (uint32_t)(h->off >> 4) * 4;

	if (head < sizeof(*h) || pkt_copy(p, sizeof(*h), opts, head - (uint32_t)sizeof(*h)))
		return -EINVAL;
	return tcp_parse_options(opts, head - (uint32_t)sizeof(*h), o);
}

int gateway_accept(struct endpoint *listener, struct nic *n, const struct pkt *syn)
{
	struct tcp *l = tcp_of(listener);
	struct tcp_opts o = { 0 };
	uint32_t before = l->syn_count;
	struct tcp_hdr h;
	int err = syn_parts(syn, &h, &o);

	if (!err)
		tcp_listen_input(l, n, syn, &h, &o);
	return err ? err : l->syn_count > before ? 0 : -ENOBUFS;
}

int gateway_known(struct nic *n, const struct pkt *syn)
{
	return demux_connected(n->stack, EP_TCP, &syn->dst, syn->dport, &syn->src, syn->sport, n->index) != NULL;
}

void gateway_refuse(struct nic *n, const struct pkt *syn)
{
	struct tcp_hdr h;

	if (!pkt_copy(syn, 0, &h, sizeof(h)))
		tcp_refuse(n, syn, &h, syn->len - (uint32_t)(h.off >> 4) * 4);
}

void gateway_unreachable(struct nic *n, const struct pkt *p, enum gateway_why why)
{
	static const struct {
		int v4, v6;
	} code[] = {
		[GATEWAY_NO_NET] = { 0, 0 },
		[GATEWAY_NO_HOST] = { 1, 3 },
		[GATEWAY_NO_PORT] = { 3, 4 },
		[GATEWAY_PROHIBITED] = { 13, 1 },
	};
	struct pkt *c = pkt_clone(p);

	if (!c)
		return;
	if (p->proto == IPPROTO_UDP) {
		struct udp_hdr *h = pkt_push(c, sizeof(*h));

		h->sport = htons(p->sport);
		h->dport = htons(p->dport);
		h->len = htons((uint16_t)c->len);
		h->csum = 0;
	}
	icmp_error(n, c, 3, code[why].v4, 1, code[why].v6, 0);
	pkt_free(c);
}

int gateway_udp(struct nic *n, struct pkt *p, const struct ip_addr *src, uint16_t sport,
		const struct ip_addr *dst, uint16_t dport)
{
	struct udp_hdr *h = pkt_push(p, sizeof(*h));
	struct ip_out o = { .src = *src, .dst = *dst, .proto = IPPROTO_UDP, .ttl = -1, .nic = n->index };

	h->sport = htons(sport);
	h->dport = htons(dport);
	h->len = htons((uint16_t)p->len);
	h->csum = 0;
	n->stack->c.udp_out++;
	return ip_output(n->stack, p, &o, offsetof(struct udp_hdr, csum));
}

int gateway_icmp(struct nic *n, struct pkt *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct ip_out o = { .src = *src, .dst = *dst, .ttl = -1, .nic = n->index,
			    .proto = ip_is_v4(dst) ? IPPROTO_ICMP : IPPROTO_ICMPV6 };
	struct icmp_hdr h, *front;

	if (pkt_copy(p, 0, &h, sizeof(h))) {
		pkt_free(p);
		return -EINVAL;
	}
	pkt_trim_front(p, sizeof(h));
	front = pkt_push(p, sizeof(h)); /* in the header area, where the checksum is filled in */
	*front = h;
	return icmp_send(n->stack, p, &o);
}
