/* SPDX-License-Identifier: Apache-2.0 */
/* lo: what is sent is received, by whoever releases the stack lock next. Checksums are not made. */
#include "netstack/stack_priv.h"

static void loop_xmit(struct nic *n, struct pkt *p)
{
	n->stats.tx_bytes += p->len;
	n->stats.tx_packets++;
	p->csum_ok = 1;
	p->link_type = 0;
	list_add_tail(&p->node, &n->stack->loop);
}

struct nic *loopback_new(struct stack *s)
{
	struct nic *n = nic_new(s, "lo", 65536, NIC_UP | NIC_LOOPBACK | NIC_CSUM_TX);
	struct nic_addr v4 = { .addr = ip_from_v4(htonl(INADDR_LOOPBACK)), .plen = 96 + 8, .scope = 254,
			       .broadcast = ip_from_v4(0), .flags = 0x80 };
	struct nic_addr v6 = { .addr.b[15] = 1, .plen = 128, .scope = 254, .flags = 0x80 };

	if (!n)
		return NULL;
	n->xmit = loop_xmit;
	n->tx_queue_len = 1000;
	s->lo = n;
	nic_add_addr(n, &v4);
	nic_add_addr(n, &v6);
	return n;
}
