/* SPDX-License-Identifier: Apache-2.0 */
/* See packet.h. */
#include "netstack/egress/packet.h"

#include <errno.h>

#define HEADERS_MAX 8
#define PROTO_UDPLITE 136

enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, AUTHENTICATION = 51, DESTINATION = 60 };

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void ports(uint8_t proto, const uint8_t *p, size_t have, struct egress_packet *out)
{
	out->proto = proto;
	out->ports_known = 0;
	out->tcp_flags = 0;
	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP && proto != PROTO_UDPLITE) || have < 4)
		return;
	out->sport = be16(p);
	out->dport = be16(p + 2);
	out->ports_known = 1;
	if (proto == IPPROTO_TCP && have >= 14)
		out->tcp_flags = p[13];
}

int egress_packet_transport(uint8_t proto, const uint8_t *p, size_t have, struct egress_packet *out)
{
	if (ip_is_v4(&out->dst)) {
		ports(proto, p, have, out);
		return 0;
	}
	for (int i = 0; i < HEADERS_MAX; i++) {
		size_t size;

		switch (proto) {
		case HOP_BY_HOP:
		case DESTINATION:
			size = have >= 8 ? (p[1] + 1u) * 8 : 8;
			break;
		case AUTHENTICATION:
			size = have >= 8 ? (p[1] + 2u) * 4 : 8;
			break;
		case FRAGMENT:
			size = 8;
			if (have >= 8 && be16(p + 2) & 0xfff8u) {
				ports(p[0], NULL, 0, out);
				return 0;
			}
			break;
		case ROUTING: /* where it goes in the end is not what the header says */
			return -EINVAL;
		default:
			ports(proto, p, have, out);
			return 0;
		}
		if (size > have)
			return -EINVAL;
		proto = p[0];
		p += size;
		have -= size;
	}
	return -EINVAL;
}

static int options_v4(const uint8_t *o, size_t n)
{
	for (size_t i = 0; i < n && o[i];) {
		if (o[i] == 1) {
			i++;
			continue;
		}
		if (i + 1 >= n || o[i + 1] < 2 || o[i + 1] > n - i)
			return -EINVAL;
		if ((o[i] & 0x7f) == 3 || (o[i] & 0x7f) == 9) /* loose and strict source route */
			return -EINVAL;
		i += o[i + 1];
	}
	return 0;
}

static int read_v4(const uint8_t *p, size_t have, size_t total, struct egress_packet *out)
{
	size_t head = (p[0] & 15u) * 4;
	uint32_t a;

	if (have < 20 || head < 20 || head > have || be16(p + 2) > total || options_v4(p + 20, head - 20))
		return -EINVAL;
	memcpy(&a, p + 12, 4);
	out->src = ip_from_v4(a);
	memcpy(&a, p + 16, 4);
	out->dst = ip_from_v4(a);
	if (be16(p + 6) & 0x1fff) { /* a later fragment: no ports */
		ports(p[9], NULL, 0, out);
		return 0;
	}
	return egress_packet_transport(p[9], p + head, have - head, out);
}

int egress_packet_read(const uint8_t *p, size_t have, size_t total, struct egress_packet *out)
{
	*out = (struct egress_packet){ .proto = 0 };
	if (!have)
		return -EINVAL;
	if (p[0] >> 4 == 4)
		return read_v4(p, have, total, out);
	if (p[0] >> 4 != 6 || have < 40)
		return -EINVAL;
	out->src = ip_from_v6(p + 8);
	out->dst = ip_from_v6(p + 24);
	/* Mapped addresses never travel (RFC 4291). */
	if (ip_is_v4(&out->dst) || ip_is_v4(&out->src))
		return -EINVAL;
	return egress_packet_transport(p[6], p + 40, have - 40, out);
}
