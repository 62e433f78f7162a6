/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbours: link addresses of next hops, by ARP and NDP. */
#include "netstack/net/net_priv.h"

void neigh_output(struct nic *n, const struct ip_addr *next_hop, struct pkt *p)
{
	(void)next_hop;
	n->stats.tx_dropped++;
	pkt_free(p);
}
