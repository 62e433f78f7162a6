/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages and IP packets, honest and hostile. */
#include <arpa/inet.h>
#include <check.h>
#include <string.h>

#include "netstack/egress/dns.h"
#include "netstack/egress/packet.h"

/* ---- messages by hand ---- */

static uint8_t g_m[1500];
static size_t g_n;

static void put(const void *p, size_t n)
{
	memcpy(g_m + g_n, p, n);
	g_n += n;
}

static void put16(uint32_t v)
{
	uint8_t b[2] = { (uint8_t)(v >> 8), (uint8_t)v };

	put(b, 2);
}

static void begin(uint32_t id, uint32_t flags, uint32_t qd, uint32_t an)
{
	g_n = 0;
	put16(id);
	put16(flags);
	put16(qd);
	put16(an);
	put16(0);
	put16(0);
}

/* "3www7example3com" in DNS form from dotted text */
static void name(const char *s)
{
	while (*s) {
		size_t n = strcspn(s, ".");
		uint8_t len = (uint8_t)n;

		put(&len, 1);
		put(s, n);
		s += n + (s[n] == '.');
	}
	put("", 1);
}

static void question(const char *s, uint32_t type)
{
	name(s);
	put16(type);
	put16(1);
}

static void record(const char *owner, uint32_t type, uint32_t ttl, const void *data, size_t n)
{
	name(owner);
	put16(type);
	put16(1);
	put16(ttl >> 16);
	put16(ttl);
	put16((uint32_t)n);
	put(data, n);
}

static void alias(const char *owner, const char *to, uint32_t ttl)
{
	name(owner);
	put16(DNS_CNAME);
	put16(1);
	put16(ttl >> 16);
	put16(ttl);
	size_t at = g_n;

	put16(0);
	name(to);
	g_m[at + 1] = (uint8_t)(g_n - at - 2);
}

START_TEST(test_questions_are_read_and_written_anew)
{
	struct dns_question q;
	uint8_t out[DNS_QUERY_MAX];

	begin(7, 0x0100, 1, 0);
	question("WWW.Example.com", DNS_A);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), 0);
	ck_assert_str_eq(q.name, "www.example.com");
	ck_assert_uint_eq(q.udp_size, 512);
	size_t n = dns_write_query(out, 0x1234, q.name, q.type);

	/* Nothing but the canonical name, the type and the constant option. */
	ck_assert_uint_eq(n, 12 + 17 + 4 + 11);
	ck_assert(!memcmp(out + 12, "\3www\7example\3com\0\0\1\0\1", 21));
	/* What the client wrote comes back in its own spelling. */
	n = dns_write_answer(out, sizeof(out), &q, DNS_NXDOMAIN, NULL, 0, 0);
	ck_assert(!memcmp(out + 12, "\3WWW\7Example\3com\0", 17));
	ck_assert_uint_eq(out[3] & 15, DNS_NXDOMAIN);
}
END_TEST

START_TEST(test_odd_questions_get_no_name)
{
	struct dns_question q;

	begin(7, 0x0100, 1, 0);
	put("\13example.com\0", 13); /* one label with a dot in it */
	put16(1);
	put16(1);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), 0);
	ck_assert_str_eq(q.name, "");
	begin(7, 0x0100, 1, 0);
	put("\7exa\0mpl\3com", 13); /* a NUL; put's own NUL ends the name */
	put16(1);
	put16(1);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), 0);
	ck_assert_str_eq(q.name, "");
	begin(7, 0x0100, 1, 0);
	put("\300\14", 2); /* a pointer to itself */
	put16(1);
	put16(1);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), DNS_FORMERR);
	begin(7, 0x8100, 1, 0);
	question("example.com", 1);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), -22);
	begin(7, 0x2900, 1, 0); /* UPDATE */
	question("example.com", 1);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), DNS_NOTIMP);
	begin(7, 0x0100, 1, 0);
	question("example.com", 252); /* AXFR */
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), DNS_NOTIMP);
	begin(7, 0x0100, 2, 0);
	question("example.com", 1);
	question("evil.example", 1);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), DNS_FORMERR);
	for (size_t n = 0; n < g_n; n++) /* every cut */
		dns_read_query(g_m, n, &q);
}
END_TEST

START_TEST(test_answers_are_checked_against_the_question)
{
	static const uint8_t good[4] = { 192, 0, 2, 1 }, other[4] = { 198, 51, 100, 1 };
	struct dns_answer a;

	begin(9, 0x8180, 1, 4);
	question("www.example.com", DNS_A);
	record("evil.example", DNS_A, 60, other, 4); /* nobody asked */
	alias("www.example.com", "cdn.example.net", 300);
	record("edge.example.net", DNS_A, 40, good, 4);
	alias("cdn.example.net", "edge.example.net", 20);
	ck_assert(!dns_read_answer(g_m, g_n, 9, "www.example.com", DNS_A, &a));
	ck_assert_uint_eq(a.count, 1);
	ck_assert(!memcmp(a.addr[0].b + 12, good, 4));
	ck_assert_uint_eq(a.ttl, 20);
	ck_assert(dns_read_answer(g_m, g_n, 8, "www.example.com", DNS_A, &a));
	ck_assert(dns_read_answer(g_m, g_n, 9, "ww.example.com", DNS_A, &a));
	ck_assert(dns_read_answer(g_m, g_n, 9, "www.example.com", DNS_AAAA, &a));
	for (size_t n = 0; n < g_n; n++)
		ck_assert(dns_read_answer(g_m, n, 9, "www.example.com", DNS_A, &a));
	/* A query is no answer. */
	begin(9, 0x0100, 1, 0);
	question("www.example.com", DNS_A);
	ck_assert(dns_read_answer(g_m, g_n, 9, "www.example.com", DNS_A, &a));
	/* Aliases in a circle end. */
	begin(9, 0x8180, 1, 2);
	question("a.example", DNS_A);
	alias("a.example", "b.example", 1);
	alias("b.example", "a.example", 1);
	ck_assert(dns_read_answer(g_m, g_n, 9, "a.example", DNS_A, &a));
	/* An address of the wrong size. */
	begin(9, 0x8180, 1, 1);
	question("a.example", DNS_A);
	record("a.example", DNS_A, 1, "12345", 5);
	ck_assert(dns_read_answer(g_m, g_n, 9, "a.example", DNS_A, &a));
	/* More addresses than are kept. */
	begin(9, 0x8180, 1, 50);
	question("a.example", DNS_A);
	for (int i = 0; i < 50; i++)
		record("a.example", DNS_A, 1, good, 4);
	ck_assert(!dns_read_answer(g_m, g_n, 9, "a.example", DNS_A, &a));
	ck_assert_uint_eq(a.count, DNS_ADDRESSES_MAX);
}
END_TEST

START_TEST(test_long_answers_are_cut)
{
	struct ip_addr addr[DNS_ADDRESSES_MAX];
	struct dns_question q;
	struct dns_answer a;
	uint8_t out[2000];

	for (uint32_t i = 0; i < DNS_ADDRESSES_MAX; i++)
		addr[i] = (struct ip_addr){ .b = { 0x20, 1, 0xd, 0xb8, [15] = (uint8_t)i } };
	begin(7, 0x0100, 1, 0);
	question("a.example", DNS_AAAA);
	ck_assert_int_eq(dns_read_query(g_m, g_n, &q), 0);
	size_t n = dns_write_answer(out, 512, &q, 0, addr, DNS_ADDRESSES_MAX, 60);

	ck_assert_uint_le(n, 512);
	ck_assert(out[2] & 2);
	n = dns_write_answer(out, sizeof(out), &q, 0, addr, DNS_ADDRESSES_MAX, 60);
	ck_assert(!(out[2] & 2));
	ck_assert(!dns_read_answer(out, n, 7, "a.example", DNS_AAAA, &a));
	ck_assert_uint_eq(a.count, DNS_ADDRESSES_MAX);
	ck_assert_uint_eq(a.ttl, 60);
}
END_TEST

/* ---- packets ---- */

static size_t v4(uint8_t *p, uint8_t proto, const void *opt, size_t nopt, uint16_t frag, const void *body, size_t n)
{
	memset(p, 0, 20);
	p[0] = (uint8_t)(0x45 + nopt / 4);
	p[2] = (uint8_t)((20 + nopt + n) >> 8);
	p[3] = (uint8_t)(20 + nopt + n);
	p[6] = (uint8_t)(frag >> 8);
	p[7] = (uint8_t)frag;
	p[8] = 64;
	p[9] = proto;
	memcpy(p + 12, "\300\0\2\2\306\63\144\1", 8);
	memcpy(p + 20, opt, nopt);
	memcpy(p + 20 + nopt, body, n);
	return 20 + nopt + n;
}

static size_t v6(uint8_t *p, uint8_t next, const void *body, size_t n)
{
	memset(p, 0, 40);
	p[0] = 0x60;
	p[4] = (uint8_t)(n >> 8);
	p[5] = (uint8_t)n;
	p[6] = next;
	p[8] = p[24] = 0x20;
	p[39] = 1;
	memcpy(p + 40, body, n);
	return 40 + n;
}

START_TEST(test_packets_are_read)
{
	static const uint8_t tcp[20] = { 0x12, 0x34, 0x01, 0xbb, [12] = 0x50, [13] = 2 };
	static const uint8_t ext[32] = { 60, 0, 1, 4, [8] = 44, 0, 1, 4, [16] = 6, 0, 0, 1,
					 [24] = 0x12, 0x34, 0x01, 0xbb };
	static const uint8_t later[16] = { 6, 0, 0, 9 }, routing[24] = { 6, 2, 0, 1 };
	struct egress_packet k;
	uint8_t p[200];
	size_t n = v4(p, 6, "", 0, 0x4000, tcp, 20);

	ck_assert(!egress_packet_read(p, n, n, &k));
	ck_assert(k.proto == 6 && k.ports_known && k.dport == 443 && k.sport == 0x1234 && k.tcp_flags == 2);
	ck_assert(ip_is_v4(&k.dst) && k.dst.b[12] == 198);
	for (size_t cut = 0; cut < 20; cut++)
		ck_assert(egress_packet_read(p, cut, cut, &k));
	n = v4(p, 6, "\1\1\1\0", 4, 0, tcp, 20);
	ck_assert(!egress_packet_read(p, n, n, &k));
	ck_assert(k.dport == 443);
	n = v4(p, 6, "\203\7\4\300\0\2\1\0", 8, 0, tcp, 20); /* loose source route */
	ck_assert(egress_packet_read(p, n, n, &k));
	n = v4(p, 6, "\211\7\4\300\0\2\1\0", 8, 0, tcp, 20);
	ck_assert(egress_packet_read(p, n, n, &k));
	n = v4(p, 6, "\7\377\4\0", 4, 0, tcp, 20); /* an option longer than the header */
	ck_assert(egress_packet_read(p, n, n, &k));
	n = v4(p, 6, "", 0, 1, tcp, 20); /* a later fragment */
	ck_assert(!egress_packet_read(p, n, n, &k));
	ck_assert(k.proto == 6 && !k.ports_known);
	p[0] = 0x44;
	ck_assert(egress_packet_read(p, n, n, &k));
	n = v6(p, 6, tcp, 20);
	ck_assert(!egress_packet_read(p, n, n, &k));
	ck_assert(k.dport == 443);
	n = v6(p, 0, ext, sizeof(ext)); /* hop-by-hop, destination options, first fragment, TCP */
	ck_assert(!egress_packet_read(p, n, n, &k));
	ck_assert(k.proto == 6 && k.dport == 443);
	n = v6(p, 44, later, sizeof(later));
	ck_assert(!egress_packet_read(p, n, n, &k));
	ck_assert(k.proto == 6 && !k.ports_known);
	n = v6(p, 43, routing, sizeof(routing));
	ck_assert(egress_packet_read(p, n, n, &k));
	uint8_t many[80] = { 0 };

	for (size_t i = 0; i < sizeof(many); i += 8)
		many[i] = 60;
	n = v6(p, 60, many, sizeof(many));
	ck_assert(egress_packet_read(p, n, n, &k));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dns");
	TCase *t = tcase_create("all");

	tcase_add_test(t, test_questions_are_read_and_written_anew);
	tcase_add_test(t, test_odd_questions_get_no_name);
	tcase_add_test(t, test_answers_are_checked_against_the_question);
	tcase_add_test(t, test_long_answers_are_cut);
	tcase_add_test(t, test_packets_are_read);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
