/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets. A pkt is a small header area plus up to four slices of shared, reference-counted byte
 * buffers (nbuf). Data that sits in a TCP send queue is sent, kept for retransmission and, on
 * loopback, received without being copied. Going down a pkt has headers pushed in front; coming up
 * they are pulled. Protected by the stack lock once a stack has seen them.
 */
#ifndef CAISSON_NETSTACK_PKT_H
#define CAISSON_NETSTACK_PKT_H

#include <stddef.h>
#include <stdint.h>

#include "netstack/addr.h"
#include "platform/base/list.h"
#include "platform/base/refs.h"
#include "platform/base/uio.h"

struct nbuf {
	struct ref ref;
	struct list_head node; /* of a send queue */
	uint32_t cap, used;    /* bytes of data[]; used only grows */
	uint32_t start;	       /* send queue: acknowledged bytes at the front */
	uint8_t data[];
};

#define PKT_FRAGS 4
#define PKT_HEADROOM 136 /* Ethernet 14, IPv6 40 + 8, TCP 60, and alignment */

struct pkt_frag {
	struct nbuf *b; /* a reference */
	uint32_t off, len;
};

struct pkt {
	struct list_head node;
	uint32_t len;	      /* everything: header area and frags */
	uint16_t head, hlen;  /* valid bytes of hdr[] */
	uint8_t frag_count;
	uint8_t csum_ok;      /* receive: need not be checked; send: the link fills it in */
	uint8_t proto;	      /* transport protocol */
	uint8_t ttl, tos;
	uint8_t link_type;    /* receive: 0 to us, 1 broadcast, 2 multicast, 3 other host */
	uint8_t cleared;      /* send: the guard has seen it */
	uint16_t gso_size;    /* more than one segment: bytes of payload in each */
	uint16_t eth_type;
	uint16_t sport, dport;
	uint32_t nic;	      /* index of the interface it came by */
	uint32_t flow;	      /* IPv6 flow label */
	uint32_t frag_max;    /* reassembled: the largest piece */
	uint64_t stamp_ns;    /* realtime of arrival, 0: not asked for */
	struct ip_addr src, dst;
	union {		      /* of the layer that queues it */
		struct {
			uint32_t seq, end;
			uint8_t flags;
		} tcp;
		struct {
			uint32_t err, origin, type, code, info; /* error queue */
			struct ip_addr offender;
		} ee;
	};
	struct pkt_frag frag[PKT_FRAGS];
	uint8_t hdr[PKT_HEADROOM];
};

#define NBUF_BIG 66560u /* a super-segment with all headers; larger than half of it is rounded up */
struct nbuf *nbuf_new(uint32_t cap); /* NULL when out of memory */
static inline struct nbuf *nbuf_get(struct nbuf *b)
{
	ref_get(&b->ref);
	return b;
}
void nbuf_put(struct nbuf *b);

/* Bytes that all packets and buffers of this process take now. */
uint64_t pkt_memory(void);
struct pkt *pkt_new(void);
void pkt_free(struct pkt *p);
void pkt_list_free(struct list_head *l);
/* A second pkt over the same bytes; header area copied. */
struct pkt *pkt_clone(const struct pkt *p);
/* Appends a slice; takes its own reference. 0 or -ENOBUFS when all frags are in use. */
int pkt_add(struct pkt *p, struct nbuf *b, uint32_t off, uint32_t len);
/* n bytes in front, to be filled. Never NULL: headers are ours and fit in PKT_HEADROOM. */
void *pkt_push(struct pkt *p, uint32_t n);
/* The first n bytes, contiguous, which then no longer belong to p; NULL when p is shorter. Valid
 * as long as p is and nothing is pushed. n is at most PKT_HEADROOM. */
void *pkt_pull(struct pkt *p, uint32_t n);
/* Copies bytes [off, off+n) out; 0 or -EINVAL when p is shorter. */
int pkt_copy(const struct pkt *p, uint32_t off, void *to, uint32_t n);
void pkt_trim_front(struct pkt *p, uint32_t n);
void pkt_trim_end(struct pkt *p, uint32_t n);
/* To a reader; the uio's rule for the result. */
ssize_t pkt_to_uio(const struct pkt *p, uint32_t off, uint32_t n, struct uio *u);
/* A packet whose payload is n bytes of u. ERR_PTR(-ENOBUFS, -EFAULT). */
struct pkt *pkt_from_uio(struct uio *u, uint32_t n);
/* A packet whose payload is a copy of n bytes. NULL when out of memory. */
struct pkt *pkt_from_mem(const void *data, uint32_t n);
/* All bytes in one frag; the header area becomes empty. 0 or -ENOBUFS. */
int pkt_linearise(struct pkt *p);

static inline uint32_t pkt_truesize(const struct pkt *p)
{
	return p->len + (uint32_t)sizeof(*p) + 256;
}

#endif
