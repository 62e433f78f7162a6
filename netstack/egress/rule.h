/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the policy: one rule. */
#ifndef CAISSON_EGRESS_RULE_H
#define CAISSON_EGRESS_RULE_H

#include "netstack/egress/policy.h"

#define EGRESS_TCP 1u
#define EGRESS_UDP 2u
#define EGRESS_ICMP 4u
#define EGRESS_OTHER 8u
#define EGRESS_ANY 15u

struct egress_rule {
	char *text;	      /* owned; the name, if any, follows in the same memory */
	const char *name;     /* canonical, or NULL: an address rule */
	uint8_t deny, below;  /* below: *.name */
	uint8_t v4, has_ports;
	uint8_t protos;
	uint16_t port_min, port_max;
	struct ip_addr net;
	uint32_t plen;	      /* of the 16 bytes */
};

#endif
