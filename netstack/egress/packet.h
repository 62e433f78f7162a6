/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an IP packet is, as far as a policy wants to know: read from its bytes, whoever made them.
 * Every length is checked; a packet that is not understood is an error, not a guess.
 */
#ifndef CAISSON_EGRESS_PACKET_H
#define CAISSON_EGRESS_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include "netstack/addr.h"

/* Bytes from the front that are enough for any packet that is allowed. */
#define EGRESS_PACKET_LOOK 256u

struct egress_packet {
	struct ip_addr src, dst;
	uint8_t proto;
	uint8_t ports_known; /* sport and dport are valid; not in later fragments */
	uint8_t tcp_flags;
	uint16_t sport, dport;
};

/*
 * p: a whole packet from its IP header on, of which `have` bytes are given and `total` exist. -EINVAL
 * for what is malformed, carries a route of its own (source route, routing header), or hides its
 * transport behind too many headers.
 */
int egress_packet_read(const uint8_t *p, size_t have, size_t total, struct egress_packet *out);
/* The same from behind the IP header: proto is what the header says comes next. src and dst stay. */
int egress_packet_transport(uint8_t proto, const uint8_t *p, size_t have, struct egress_packet *out);

#endif
