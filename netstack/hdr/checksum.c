/* SPDX-License-Identifier: Apache-2.0 */
/* The Internet checksum (RFC 1071), summed in 64-bit steps with the carries kept. */
#include <string.h>

#include "netstack/hdr/wire.h"
#include "netstack/pkt.h"

static uint64_t add64(uint64_t sum, uint64_t v)
{
	sum += v;
	return sum + (sum < v);
}

uint64_t csum_add(uint64_t sum, const void *p, size_t n)
{
	const uint8_t *b = p;
	uint64_t v;

	for (; n >= 8; b += 8, n -= 8) {
		memcpy(&v, b, 8);
		sum = add64(sum, v);
	}
	if (n) {
		v = 0;
		memcpy(&v, b, n);
		sum = add64(sum, v);
	}
	return sum;
}

static uint32_t reduce(uint64_t sum)
{
	sum = (sum & 0xffffffffu) + (sum >> 32);
	sum = (sum & 0xffffffffu) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

uint16_t csum_fold(uint64_t sum)
{
	return (uint16_t)~reduce(sum);
}

static uint64_t pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t proto, uint32_t len)
{
	uint32_t be_len = htonl(len), be_proto = htonl(proto);
	uint64_t sum;

	if (ip_is_v4(src))
		sum = csum_add(csum_add(0, &src->w[3], 4), &dst->w[3], 4);
	else
		sum = csum_add(csum_add(0, src->b, 16), dst->b, 16);
	return csum_add(csum_add(sum, &be_len, 4), &be_proto, 4);
}

uint16_t csum_pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t proto, uint32_t len)
{
	return (uint16_t)reduce(pseudo(src, dst, proto, len));
}

uint16_t csum_transport(const struct pkt *p, const struct ip_addr *src, const struct ip_addr *dst,
			uint8_t proto)
{
	uint64_t sum = pseudo(src, dst, proto, p->len);
	uint32_t at = 0;

	for (int i = -1; i < (int)p->frag_count; i++) {
		const uint8_t *data = i < 0 ? p->hdr + p->head : p->frag[i].b->data + p->frag[i].off;
		uint32_t len = i < 0 ? p->hlen : p->frag[i].len;
		uint64_t part = csum_add(0, data, len);

		/* A piece that starts at an odd place counts with its bytes swapped. */
		if (at & 1)
			part = __builtin_bswap16((uint16_t)reduce(part));
		sum = add64(sum, part);
		at += len;
	}
	return csum_fold(sum);
}
