/* SPDX-License-Identifier: Apache-2.0 */
/* virtio-net headers: see vnet.h. */
#include "netstack/link/vnet.h"

#include <string.h>

#include "netstack/hdr/wire.h"

#define COPY_MAX 32768u

void vnet_fill(const struct pkt *p, struct virtio_net_hdr *v)
{
	const struct eth_hdr *e = (const void *)(p->hdr + p->head);
	int v4 = e->type == htons(ETH_IPV4);
	uint16_t start = (uint16_t)(sizeof(*e) + (v4 ? 20 : 40));

	memset(v, 0, sizeof(*v));
	if (!p->csum_ok)
		return;
	v->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	v->csum_start = start;
	v->csum_offset = p->proto == IPPROTO_TCP ? 16 : 6;
	if (p->gso_size) {
		const struct tcp_hdr *t = (const void *)(p->hdr + p->head + start);

		v->gso_type = v4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
		v->gso_size = p->gso_size;
		v->hdr_len = (uint16_t)(start + (t->off >> 4) * 4);
	}
}

struct pkt *vnet_frame(struct nbuf **b, uint32_t size)
{
	struct virtio_net_hdr v;

	if (size < sizeof(v) + sizeof(struct eth_hdr))
		return NULL;
	memcpy(&v, (*b)->data, sizeof(v));
	struct pkt *p = pkt_new();

	if (!p)
		return NULL;
	uint32_t len = size - (uint32_t)sizeof(v);

	if (len > COPY_MAX) {
		(*b)->used = size;
		pkt_add(p, *b, sizeof(v), len);
		nbuf_put(*b);
		*b = NULL;
	} else {
		struct nbuf *c = nbuf_new(len);

		if (!c) {
			pkt_free(p);
			return NULL;
		}
		memcpy(c->data, (*b)->data + sizeof(v), len);
		c->used = len;
		pkt_add(p, c, 0, len);
		nbuf_put(c);
	}
	/* NEEDS_CSUM: it never left this machine; DATA_VALID: the hardware looked. */
	p->csum_ok = (v.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
	p->gso_size = v.gso_type != VIRTIO_NET_HDR_GSO_NONE ? v.gso_size : 0;
	return p;
}
