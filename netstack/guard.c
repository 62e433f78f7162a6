/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: what leaves by an interface other than lo is shown to whoever decides about it
 * (stack_set_guard), read from the packet's own bytes.
 *
 * It is asked once per packet. The IP layer asks before neighbours are resolved and before fragments
 * are made, so that nothing at all is sent for a refused packet, and marks what may go (pkt.cleared).
 * Every interface's xmit then goes by guard_xmit(), which asks about each frame without the mark:
 * whoever sends a frame past the IP layer is judged too, and ARP of others than ourselves has no way
 * out. What the stack itself says in answer to a packet from outside (ip_out.own) needs no rule.
 */
#include <errno.h>

#include "netstack/egress/packet.h"
#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

static int refused(struct nic *n, struct pkt *p)
{
	n->stats.tx_dropped++;
	pkt_free(p);
	return -EPERM;
}

static int ask(struct nic *n, struct egress_packet *k, struct endpoint *ep, uint32_t len, const char *fault)
{
	struct stack *s = n->stack;
	struct nic *from = fault ? n : stack_local(s, &k->src);

	if (!fault && (!from || (from->flags & NIC_LOOPBACK)))
		fault = "source address is not ours";
	return s->guard.output(s->guard.priv, k, ep, len, fault);
}

/* p from offset `at` on is a whole IP packet. */
static int ask_bytes(struct nic *n, const struct pkt *p, uint32_t at, uint8_t version, struct endpoint *ep)
{
	uint32_t total = p->len - at, have = total < EGRESS_PACKET_LOOK ? total : EGRESS_PACKET_LOOK;
	struct egress_packet k = { .proto = 0 };
	uint8_t buf[EGRESS_PACKET_LOOK];
	const char *fault = NULL;

	if (pkt_copy(p, at, buf, have) || !have || (version && buf[0] >> 4 != version) ||
	    egress_packet_read(buf, have, total, &k))
		fault = "malformed packet, or one with a route of its own";
	return ask(n, &k, ep, p->len, fault);
}

int guard_output(struct nic *n, struct pkt *p, const struct ip_out *o)
{
	struct stack *s = n->stack;

	if (!s->guard.output || (n->flags & NIC_LOOPBACK))
		return 0;
	if (!o->own) {
		struct egress_packet k = { .src = o->src, .dst = o->dst };
		uint32_t have = p->len < EGRESS_PACKET_LOOK ? p->len : EGRESS_PACKET_LOOK;
		uint8_t buf[EGRESS_PACKET_LOOK];
		const char *fault = NULL;

		if (pkt_copy(p, 0, buf, have) || egress_packet_transport(o->proto, buf, have, &k))
			fault = "malformed packet, or one with a route of its own";
		int err = ask(n, &k, o->ep, p->len + (ip_is_v4(&o->dst) ? 20 : 40), fault);

		if (err)
			return err;
	}
	p->cleared = 1;
	return 0;
}

int guard_whole(struct nic *n, struct pkt *p, struct endpoint *ep)
{
	if (!n->stack->guard.output || (n->flags & NIC_LOOPBACK))
		return 0;
	int err = ask_bytes(n, p, 0, 0, ep);

	p->cleared = !err;
	return err;
}

static void guard_xmit(struct nic *n, struct pkt *p)
{
	struct eth_hdr h;
	int err;

	if (!p->cleared) {
		if (!(n->flags & NIC_ARP))
			err = ask_bytes(n, p, 0, 0, NULL);
		else if (pkt_copy(p, 0, &h, sizeof(h)) || (h.type != htons(ETH_IPV4) && h.type != htons(ETH_IPV6)))
			err = ask(n, &(struct egress_packet){ .proto = 0 }, NULL, p->len, "frame that is not IP");
		else
			err = ask_bytes(n, p, sizeof(h), h.type == htons(ETH_IPV4) ? 4 : 6, NULL);
		if (err) {
			refused(n, p);
			return;
		}
	}
	n->link_xmit(n, p);
}

int guard_input(struct nic *n, const struct pkt *p)
{
	struct stack *s = n->stack;
	struct egress_packet k = { .src = p->src, .dst = p->dst };
	uint8_t buf[20];
	uint32_t have = p->len < sizeof(buf) ? p->len : (uint32_t)sizeof(buf);

	if (!s->guard.input || (n->flags & NIC_LOOPBACK))
		return 0;
	if (pkt_copy(p, 0, buf, have) || egress_packet_transport(p->proto, buf, have, &k))
		return 0; /* the transports refuse it */
	return s->guard.input(s->guard.priv, &k, p->len);
}

void stack_set_guard(struct stack *s, const struct stack_guard *g)
{
	struct nic *n;

	lock_assert_held(&s->lock);
	s->guard = *g;
	list_for_each(n, &s->nics, node)
		if (!(n->flags & NIC_LOOPBACK) && n->xmit != guard_xmit) {
			n->link_xmit = n->xmit;
			n->xmit = guard_xmit;
		}
}
