/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One address type for both families: sixteen bytes, IPv4 in its mapped form (::ffff:a.b.c.d), so
 * that every table, comparison and hash is written once. "Any" exists in both forms.
 */
#ifndef CAISSON_NETSTACK_ADDR_H
#define CAISSON_NETSTACK_ADDR_H

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

struct ip_addr {
	union {
		uint8_t b[16];
		uint32_t w[4]; /* big endian, as on the wire */
		uint64_t d[2];
	};
};

static inline int ip_eq(const struct ip_addr *a, const struct ip_addr *b)
{
	return a->d[0] == b->d[0] && a->d[1] == b->d[1];
}

static inline int ip_is_v4(const struct ip_addr *a)
{
	return !a->d[0] && a->w[2] == htonl(0xffff);
}

static inline struct ip_addr ip_from_v4(uint32_t be)
{
	struct ip_addr a = { .w = { 0, 0, htonl(0xffff), be } };

	return a;
}

static inline struct ip_addr ip_from_v6(const void *p)
{
	struct ip_addr a;

	memcpy(&a, p, 16);
	return a;
}

static inline int ip_is_any(const struct ip_addr *a)
{
	return !a->d[0] && !a->w[3] && (!a->w[2] || a->w[2] == htonl(0xffff));
}

static inline int ip_is_loopback(const struct ip_addr *a)
{
	if (ip_is_v4(a))
		return a->b[12] == 127;
	return !a->d[0] && !a->w[2] && a->w[3] == htonl(1);
}

static inline int ip_is_multicast(const struct ip_addr *a)
{
	return ip_is_v4(a) ? (a->b[12] & 0xf0) == 0xe0 : a->b[0] == 0xff;
}

/* The limited broadcast address; those of subnets are asked of the interfaces. */
static inline int ip_is_broadcast(const struct ip_addr *a)
{
	return ip_is_v4(a) && a->w[3] == 0xffffffffu;
}

static inline int ip_is_linklocal6(const struct ip_addr *a)
{
	return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

/* Do the first `plen` bits agree? plen counts from the start of the 16 bytes (IPv4: 96 + n). */
static inline int ip_match(const struct ip_addr *a, const struct ip_addr *b, uint32_t plen)
{
	uint32_t n = plen / 8, bits = plen % 8;

	if (memcmp(a->b, b->b, n))
		return 0;
	return !bits || !((a->b[n] ^ b->b[n]) >> (8 - bits));
}

#endif
