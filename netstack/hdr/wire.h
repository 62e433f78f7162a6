/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wire formats. The structs are packed and big-endian; code gets at one only through pkt_pull() or
 * pkt_push(), which check the length, so a struct pointer always has its bytes.
 */
#ifndef CAISSON_NETSTACK_WIRE_H
#define CAISSON_NETSTACK_WIRE_H

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE __attribute__((packed))

/* RFC 894 / IEEE 802.3 */
struct eth_hdr {
	uint8_t dst[6], src[6];
	uint16_t type;
} WIRE;
#define ETH_IPV4 0x0800
#define ETH_ARP 0x0806
#define ETH_IPV6 0x86dd

/* RFC 826, for IPv4 over Ethernet */
struct arp_hdr {
	uint16_t hw_type, proto_type;
	uint8_t hw_len, proto_len;
	uint16_t op;
	uint8_t sha[6];
	uint32_t spa;
	uint8_t tha[6];
	uint32_t tpa;
} WIRE;

/* RFC 791 */
struct ipv4_hdr {
	uint8_t ver_ihl, tos;
	uint16_t total_len, id, frag;
	uint8_t ttl, proto;
	uint16_t csum;
	uint32_t src, dst;
} WIRE;
#define IPV4_DF 0x4000
#define IPV4_MF 0x2000
#define IPV4_OFFSET 0x1fff

/* RFC 8200 */
struct ipv6_hdr {
	uint32_t ver_class_flow;
	uint16_t payload_len;
	uint8_t next, hop_limit;
	uint8_t src[16], dst[16];
} WIRE;

struct ipv6_frag_hdr {
	uint8_t next, reserved;
	uint16_t offset;
	uint32_t id;
} WIRE;

/* RFC 792, RFC 4443: the first eight bytes */
struct icmp_hdr {
	uint8_t type, code;
	uint16_t csum;
	uint16_t id, seq; /* echo; of errors: unused or MTU in both */
} WIRE;

/* RFC 768 */
struct udp_hdr {
	uint16_t sport, dport, len, csum;
} WIRE;

/* RFC 9293 */
struct tcp_hdr {
	uint16_t sport, dport;
	uint32_t seq, ack;
	uint8_t off, flags;
	uint16_t window, csum, urgent;
} WIRE;
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_PSH 0x08
#define TCP_ACK 0x10
#define TCP_URG 0x20
#define TCP_ECE 0x40
#define TCP_CWR 0x80

_Static_assert(sizeof(struct ipv4_hdr) == 20 && sizeof(struct ipv6_hdr) == 40, "IP headers");
_Static_assert(sizeof(struct tcp_hdr) == 20 && sizeof(struct udp_hdr) == 8, "transport headers");

struct ip_addr;
struct pkt;
/* RFC 1071: adds n bytes to a running sum; fold ends it. Odd lengths only in the last piece. */
uint64_t csum_add(uint64_t sum, const void *p, size_t n);
uint16_t csum_fold(uint64_t sum); /* complemented, ready for the wire */
/* Pseudo header and everything in p. 0 for a packet whose checksum field is right. */
uint16_t csum_transport(const struct pkt *p, const struct ip_addr *src, const struct ip_addr *dst,
			uint8_t proto);
/* The uncomplemented pseudo-header sum alone, for checksum offload. */
uint16_t csum_pseudo(const struct ip_addr *src, const struct ip_addr *dst, uint8_t proto, uint32_t len);

#endif
