/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio-net headers, which go in front of each frame on links that finish checksums and split
 * super-segments for us (packet sockets, the pair link). Locked or not: touches only its arguments.
 */
#ifndef CAISSON_NETSTACK_VNET_H
#define CAISSON_NETSTACK_VNET_H

#include <linux/virtio_net.h>

#include "netstack/pkt.h"

#define VNET_RX_SIZE 65700u /* a super-segment with its headers */

/* What p, a whole Ethernet frame, still needs of the link. */
void vnet_fill(const struct pkt *p, struct virtio_net_hdr *v);
/* The frame in the first `size` bytes of *b, header in front; NULL: too short, or out of memory.
 * A long frame keeps the buffer, and *b becomes NULL; short ones are copied, so that they do not pin
 * a big one. */
struct pkt *vnet_frame(struct nbuf **b, uint32_t size);

#endif
