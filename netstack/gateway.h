/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack that stands in for other hosts: on an interface with NIC_GATEWAY, packets for any address are
 * taken in, and what no endpoint waits for goes to the owner (struct gateway), who answers in the name
 * of the address it was for. Made for NAT: netstack/nat/ joins such flows to host sockets.
 *
 * All functions are locked unless they say otherwise.
 */
#ifndef CAISSON_NETSTACK_GATEWAY_H
#define CAISSON_NETSTACK_GATEWAY_H

#include "netstack/netstack.h"
#include "netstack/pkt.h"

struct gateway {
	void *priv;
	/*
	 * A connection request (TCP, a SYN), a UDP datagram, or an ICMP echo request that nobody here
	 * waits for. Locked; consumes p, whose front is the transport header (for UDP: the payload), with
	 * src, dst, proto, ttl, and for TCP and UDP sport and dport set and checksums checked. May be told
	 * of one SYN several times, as the peer repeats it.
	 */
	void (*packet)(void *priv, struct nic *n, struct pkt *p);
};

/* The gateway of s; n is where others' packets come from. h must stay. */
void gateway_set(struct nic *n, const struct gateway *h);

/* A listener that no packet finds by itself, for gateway_accept(); not locked. NULL: out of memory. */
struct endpoint *gateway_listener(struct stack *s, int backlog);
/* Answers a SYN: its connection, once complete, is found by endpoint_accept(listener), with laddr and
 * lport what the peer asked for. 0, or -ENOBUFS when it could not begin. Does not consume. */
int gateway_accept(struct endpoint *listener, struct nic *n, const struct pkt *syn);
/* Is there a connection, or one being made, that syn would belong to? */
int gateway_known(struct nic *n, const struct pkt *syn);
/* Nobody listens there: a reset. Does not consume. */
void gateway_refuse(struct nic *n, const struct pkt *syn);

/* Why a packet gets nowhere: ICMP type 3 and type 1 of ICMPv6 have codes for each. */
enum gateway_why { GATEWAY_NO_NET, GATEWAY_NO_HOST, GATEWAY_NO_PORT, GATEWAY_PROHIBITED };
/* An ICMP error about p, a packet that the owner was given. UDP's ports are put back. Does not
 * consume. */
void gateway_unreachable(struct nic *n, const struct pkt *p, enum gateway_why why);

/* A datagram in another's name; consumes p, the payload. 0 or errno. */
int gateway_udp(struct nic *n, struct pkt *p, const struct ip_addr *src, uint16_t sport,
		const struct ip_addr *dst, uint16_t dport);
/* An ICMP message (p: type, code and all that follows) in another's name; consumes p. */
int gateway_icmp(struct nic *n, struct pkt *p, const struct ip_addr *src, const struct ip_addr *dst);

#endif
