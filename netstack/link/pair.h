/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link between two stacks of ours in different processes: one SOCK_SEQPACKET socket of a pair, each
 * message a virtio-net header and an Ethernet frame, as on a packet socket. Unlike a wire it does not
 * lose frames when the other side is slow: they wait here (bounded) until the socket takes them.
 *
 * Either threads drive it (pair_start: the sentry), or an event loop (the others: caisson-net).
 */
#ifndef CAISSON_NETSTACK_PAIR_H
#define CAISSON_NETSTACK_PAIR_H

#include "netstack/netstack.h"

/* Takes over fd. The interface is up; its addresses and routes are the caller's to add. Locked. */
struct nic *pair_new(struct stack *s, const char *name, int fd, const uint8_t mac[6], uint32_t mtu);
/* From now on threads receive, and send what had to wait. When the other side goes away the interface
 * goes down and its connections end with ENETDOWN. Not locked. */
int pair_start(struct nic *n);

/* For a loop; fd is non-blocking. Takes one batch of frames: how many, -EAGAIN, or -EPIPE at the end.
 * Not locked. */
int pair_receive(struct nic *n);
/* Frames wait for the socket to become writable. */
int pair_blocked(const struct nic *n);
/* It is. Locked; the frames go when the lock is released. */
void pair_writable(struct nic *n);

#endif
