/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to an interface of the host's network namespace: an AF_PACKET socket that the runtime
 * opened and bound, with virtio-net headers (PACKET_VNET_HDR). A thread of its own receives; frames to
 * be sent gather under the stack lock and go out in one sendmmsg when it is released.
 */
#ifndef CAISSON_NETSTACK_PACKET_H
#define CAISSON_NETSTACK_PACKET_H

#include "netstack/netstack.h"

/* Takes over fd. The interface is up; its addresses and routes are the caller's to add. Locked. */
struct nic *packet_new(struct stack *s, const char *name, int fd, const uint8_t mac[6], uint32_t mtu);
/* Starts receiving; not locked. */
int packet_start(struct nic *n);

#endif
