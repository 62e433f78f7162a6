/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams that came in lately, so that answers may go back: the peer's address and port and ours.
 * A fixed table of small sets; in a full set the oldest makes room. No lock of its own.
 */
#ifndef CAISSON_EGRESS_FLOWS_H
#define CAISSON_EGRESS_FLOWS_H

#include <stdint.h>

#include "netstack/addr.h"

#define EGRESS_FLOW_LIFE_NS 60000000000ull

struct egress_flow {
	struct ip_addr local, remote;
	uint16_t local_port, remote_port;
	uint8_t proto;
};

struct egress_flows;

struct egress_flows *egress_flows_new(uint64_t secret); /* NULL: out of memory */
void egress_flows_free(struct egress_flows *f);
void egress_flows_seen(struct egress_flows *f, const struct egress_flow *flow, uint64_t now_ns);
int egress_flows_open(const struct egress_flows *f, const struct egress_flow *flow, uint64_t now_ns);
void egress_flows_clear(struct egress_flows *f);

#endif
