/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. The ranges are those of the IANA special-purpose registries (RFC 6890) and the
 * addresses under which clouds serve instance metadata and credentials. */
#include "netstack/egress/address.h"

#include <stddef.h>

#define V4(x0, x1, x2, x3) { .b = { [10] = 0xff, [11] = 0xff, [12] = x0, [13] = x1, [14] = x2, [15] = x3 } }
#define V6(...) { .b = { __VA_ARGS__ } }

static const struct egress_range g_special[] = {
	{ "this network", V4(0, 0, 0, 0), 96 + 8 },
	{ "private", V4(10, 0, 0, 0), 96 + 8 },
	{ "private", V4(100, 64, 0, 0), 96 + 10 },
	{ "metadata", V4(100, 100, 100, 200), 128 },
	{ "loopback", V4(127, 0, 0, 0), 96 + 8 },
	{ "metadata", V4(168, 63, 129, 16), 128 },
	{ "metadata", V4(169, 254, 0, 0), 96 + 16 },
	{ "private", V4(172, 16, 0, 0), 96 + 12 },
	{ "reserved", V4(192, 0, 0, 0), 96 + 24 },
	{ "metadata", V4(192, 0, 0, 192), 128 },
	{ "private", V4(192, 168, 0, 0), 96 + 16 },
	{ "private", V4(198, 18, 0, 0), 96 + 15 },
	{ "multicast", V4(224, 0, 0, 0), 96 + 4 },
	{ "reserved", V4(240, 0, 0, 0), 96 + 4 },
	{ "broadcast", V4(255, 255, 255, 255), 128 },
	{ "this network", V6(0), 128 },
	{ "loopback", V6([15] = 1), 128 },
	{ "private", V6(0, 0x64, 0xff, 0x9b, 0, 1), 48 }, /* RFC 8215: somebody's own NAT64 */
	{ "private", V6(0xfc), 7 },
	{ "metadata", V6(0xfd, 0, 0x0e, 0xc2, [14] = 2, [15] = 0x54), 128 },
	{ "metadata", V6(0xfd, 0, 0, 0x42, [15] = 0x42), 128 },
	{ "metadata", V6(0xfd, 0x20, 0, 0xce, [14] = 2, [15] = 0x54), 128 },
	{ "link-local", V6(0xfe, 0x80), 10 },
	{ "metadata", V6(0xfe, 0x80, [12] = 0xa9, [13] = 0xfe, [14] = 0xa9, [15] = 0xfe), 128 },
	{ "private", V6(0xfe, 0xc0), 10 },
	{ "multicast", V6(0xff), 8 },
};

const struct egress_range *egress_special(const struct ip_addr *a)
{
	const struct egress_range *best = NULL;

	for (size_t i = 0; i < sizeof(g_special) / sizeof(*g_special); i++) {
		const struct egress_range *r = &g_special[i];

		if (ip_match(a, &r->net, r->plen) && (!best || r->plen > best->plen))
			best = r;
	}
	return best;
}

/* Where the four bytes stand in each form. Teredo's second pair is the client's, inverted. */
static const struct {
	struct ip_addr net;
	uint32_t plen;
	uint8_t at;
	uint8_t inverted_at; /* 0: none */
} g_forms[] = {
	{ V6(0, 0x64, 0xff, 0x9b), 96, 12, 0 },		/* NAT64, RFC 6052 */
	{ V6(0x20, 0x02), 16, 2, 0 },			/* 6to4, RFC 3056 */
	{ V6(0x20, 0x01), 32, 4, 12 },			/* Teredo, RFC 4380 */
	{ V6([8] = 0xff, [9] = 0xff), 96, 12, 0 },	/* IPv4-translated, RFC 2765 */
	{ V6(0), 96, 12, 0 },				/* IPv4-compatible, RFC 4291 */
};

static struct ip_addr v4_at(const struct ip_addr *a, uint32_t at, uint8_t mask)
{
	struct ip_addr r = V4(0, 0, 0, 0);

	for (uint32_t i = 0; i < 4; i++)
		r.b[12 + i] = a->b[at + i] ^ mask;
	return r;
}

static int form_of(const struct ip_addr *a)
{
	/* ::, ::1 are no IPv4-compatible addresses. */
	if (ip_is_v4(a) || ip_is_any(a) || ip_is_loopback(a))
		return -1;
	for (size_t i = 0; i < sizeof(g_forms) / sizeof(*g_forms); i++)
		if (ip_match(a, &g_forms[i].net, g_forms[i].plen))
			return (int)i;
	return -1;
}

int egress_is_embedded(const struct ip_addr *a)
{
	return form_of(a) >= 0;
}

int egress_reaches(const struct ip_addr *a, struct ip_addr to[2])
{
	int f = form_of(a);

	if (f < 0) {
		to[0] = *a;
		return 1;
	}
	to[0] = v4_at(a, g_forms[f].at, 0);
	if (!g_forms[f].inverted_at)
		return 1;
	to[1] = v4_at(a, g_forms[f].inverted_at, 0xff);
	return 2;
}
