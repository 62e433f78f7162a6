/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an address means to an egress policy: IPv4 addresses that travel inside IPv6 ones, and the
 * ranges that no general rule opens. Pure functions over constant tables.
 */
#ifndef CAISSON_EGRESS_ADDRESS_H
#define CAISSON_EGRESS_ADDRESS_H

#include "netstack/addr.h"

/* A range that is refused unless a rule names it, or a part of it. */
struct egress_range {
	const char *what; /* "private", "loopback", "metadata" … */
	struct ip_addr net;
	uint32_t plen;	  /* of the 16 bytes: IPv4 96 + n */
};

/* The most specific such range a is in, or NULL for a public address. */
const struct egress_range *egress_special(const struct ip_addr *a);

/*
 * The addresses that a packet to `a` reaches as far as its form tells: those inside NAT64, 6to4,
 * Teredo (client and server) and the two translated forms, else `a` itself. 1 or 2 of them.
 */
int egress_reaches(const struct ip_addr *a, struct ip_addr to[2]);

/* Is `a` of a form that egress_reaches() takes apart? */
int egress_is_embedded(const struct ip_addr *a);

#endif
