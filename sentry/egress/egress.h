/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress policy of a sandbox: what may be sent to the outside, how fast, and the record of it.
 *
 * Two doors ask the same policy. The socket layer asks for connect(2), for the right errno and the
 * name of the caller; the stack's guard (netstack/guard.c) asks for every packet, whoever made it.
 * Names are resolved by the sandbox's own resolver (resolver.c), which fills the table of addresses
 * that names gave. State: the policy (replaced as a whole), that table, datagram flows, two kinds of
 * token buckets; all bounded, all under one lock of RANK_EGRESS, which is taken under the stack's.
 */
#ifndef CAISSON_SENTRY_EGRESS_H
#define CAISSON_SENTRY_EGRESS_H

#include "netstack/egress/bindings.h"
#include "netstack/egress/bucket.h"
#include "netstack/egress/flows.h"
#include "netstack/egress/policy.h"
#include "netstack/netstack.h"
#include "sentry/kernel.h"

struct egress;

/* Reads the net_* keys; k->sockets->egress stays NULL when there are none. 0 or errno, logged. */
int egress_start(struct kernel *k);

/* A connect(2) of t: may ep go there? 0, -ECONNREFUSED (TCP) or -EPERM. e may be NULL. */
int egress_connect(struct egress *e, struct task *t, struct endpoint *ep, const struct ip_addr *a, uint16_t port);
/* Notes who uses ep, for records. e may be NULL. */
void egress_label(const struct egress *e, struct task *t, struct endpoint *ep);
/* The socket of a connection is gone: its record, if connections are recorded. */
void egress_closed(struct egress *e, struct endpoint *ep);
/* Is there a policy? Then neighbours, addresses and routes stay as they are, and names are resolved by
 * the policy's resolver. e may be NULL. */
int egress_has_policy(const struct egress *e);
/*
 * net_rule= lines as the new policy, or an error text in why and the old one stays. Open connections
 * are judged again: those that are not allowed any more end with EPERM.
 */
int egress_reload(struct egress *e, const struct bootconf *conf, char *why, size_t size);

#endif
