/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net/: between IP, fragments, ICMP and neighbours. All locked. */
#ifndef CAISSON_NET_PRIV_H
#define CAISSON_NET_PRIV_H

#include "netstack/stack_priv.h"

struct icmp_hdr;

void ip_push_v4(struct stack *s, struct pkt *p, const struct ip_out *o, uint16_t id, uint16_t frag);
void ip_push_v6(struct stack *s, struct pkt *p, const struct ip_out *o, uint8_t next);
void ip_link_output(struct route_result *r, struct pkt *p, const struct ip_out *o);
/* Sends p, too long for the link, in pieces; consumes it. */
int ip_fragment(struct stack *s, struct pkt *p, const struct ip_out *o, struct route_result *r);
/* A piece at off; the whole packet once it is complete, else NULL. Consumes p. */
struct pkt *ip_reassemble(struct nic *n, struct pkt *p, uint32_t id, uint32_t off, int more);
int icmp_send(struct stack *s, struct pkt *p, const struct ip_out *o); /* p: from the ICMP header on */
/* Finds the link address of next_hop and sends p as a frame, or keeps it until it is known. */
void arp_input(struct nic *n, struct pkt *p); /* does not consume */
void ndp_input(struct nic *n, struct pkt *p, const struct icmp_hdr *h);
void neigh_free(struct stack *s);
void neigh_output(struct nic *n, const struct ip_addr *next_hop, struct pkt *p);

#endif
