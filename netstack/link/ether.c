/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet frames that arrive: whose they are, and to whom inside they go. Locked. */
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/net/net_priv.h"

void nic_input(struct nic *n, struct pkt *p)
{
	static const uint8_t bcast[6] = { 255, 255, 255, 255, 255, 255 };
	struct eth_hdr h;
	void *at;

	lock_assert_held(&n->stack->lock);
	n->stats.rx_bytes += p->len;
	n->stats.rx_packets++;
	if (!(n->flags & NIC_UP))
		goto drop;
	if (!(n->flags & NIC_ARP)) {
		ip_input(n, p);
		return;
	}
	at = pkt_pull(p, sizeof(h));
	if (!at) {
		n->stats.rx_errors++;
		goto drop;
	}
	memcpy(&h, at, sizeof(h));
	if (!memcmp(h.dst, bcast, 6))
		p->link_type = 1;
	else if (h.dst[0] & 1)
		p->link_type = 2;
	else if (memcmp(h.dst, n->mac, 6))
		goto drop;
	if (p->link_type == 2)
		n->stats.multicast++;
	p->eth_type = ntohs(h.type);
	switch (p->eth_type) {
	case ETH_IPV4:
	case ETH_IPV6:
		/* A unicast IP address in a broadcast frame is not for us to answer (RFC 1122, 3.3.6). */
		p->nic = 0;
		p->link_type = 0;
		ip_input(n, p);
		return;
	case ETH_ARP:
		arp_input(n, p);
		break;
	}
drop:
	pkt_free(p);
}
