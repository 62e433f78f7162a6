/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress policy's parsers under bytes: `egress_fuzz [ROUNDS [SEED]]`. Each round changes a valid
 * rule list, DNS message or packet and feeds it to all readers; the sanitizers are the judge. What a
 * reader accepts must also hold: canonical names, addresses within bounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/egress/dns.h"
#include "netstack/egress/packet.h"
#include "netstack/egress/policy.h"

static uint64_t g_seed;

static uint32_t rnd(void)
{
	g_seed = g_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(g_seed >> 33);
}

static const char g_rules[] = "allow 192.0.2.0/24:80-90/tcp\n*.example.com:443 # x\n[2001:db8::]/32:53/udp\n"
			      "deny ads.example.com\n10.0.0.0/8/icmp\n::ffff:192.0.2.0/120\n";
static const uint8_t g_answer[] = "\0\11\201\200\0\1\0\2\0\0\0\0\3www\7example\3com\0\0\1\0\1"
				  "\300\14\0\5\0\1\0\0\0\74\0\6\3cdn\300\20\300\55\0\1\0\1\0\0\0\74\0\4\300\0\2\1";
static const uint8_t g_packet[] = "\140\0\0\0\0\50\0\100 \1\15\270\0\0\0\0\0\0\0\0\0\0\0\1 \1\15\270\0\0\0\0\0\0\0\0"
				  "\0\0\0\2\74\0\1\4\0\0\0\0\54\0\1\4\0\0\0\0\6\0\0\1\0\0\0\0\22\64\1\273\0\0\0\0\0\0\0\0";

/* A changed copy of what, in memory of just its size. */
static uint8_t *mutate(const void *what, size_t size, size_t *n)
{
	uint8_t *b;

	*n = rnd() % 4 ? size : rnd() % (size + 1);
	b = malloc(*n ? *n : 1);
	if (!b)
		exit(2);
	memcpy(b, what, *n);
	for (uint32_t k = rnd() % 8; k && *n; k--)
		b[rnd() % *n] = rnd() % 3 ? (uint8_t)rnd() : (uint8_t)"\0\1\77\100\300\377:/.-*"[rnd() % 11];
	return b;
}

static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "egress_fuzz: %s does not hold, seed %llu\n", what, (unsigned long long)g_seed);
		abort();
	}
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 20000;
	uint64_t taken = 0;

	g_seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
	for (long i = 0; i < rounds; i++) {
		struct egress_policy *p = egress_policy_new();
		struct egress_error e;
		struct dns_question q;
		struct dns_answer a;
		struct egress_packet k;
		char canon[EGRESS_NAME_SIZE];
		uint8_t *b, out[DNS_UDP_MAX];
		size_t n;

		b = mutate(g_rules, sizeof(g_rules) - 1, &n);
		taken += (uint64_t)(egress_policy_text(p, (char *)b, n, &e) == 0);
		free(b);
		b = mutate(g_answer, sizeof(g_answer) - 1, &n);
		if (!dns_read_answer(b, n, 9, "www.example.com", DNS_A, &a)) {
			taken++;
			must(a.count <= DNS_ADDRESSES_MAX, "the count");
			for (uint32_t j = 0; j < a.count; j++) {
				struct egress_target t = { a.addr[j], 6, 1, 443 };
				struct egress_verdict v;

				egress_decide(p, NULL, &t, 1, &v);
			}
		}
		if (n > 2)
			b[2] &= 0x7f;
		if (!dns_read_query(b, n, &q)) {
			taken++;
			must(!q.name[0] || !egress_name_canon(q.name, strlen(q.name), canon), "a canonical name");
			must(dns_write_answer(out, q.udp_size, &q, 0, a.addr, a.count, 60) <= q.udp_size, "the size");
			if (q.name[0])
				must(dns_write_query(out, 1, q.name, q.type) <= DNS_QUERY_MAX, "the query's size");
		}
		free(b);
		b = mutate(g_packet, sizeof(g_packet) - 1, &n);
		taken += (uint64_t)(egress_packet_read(b, n, n, &k) == 0);
		free(b);
		egress_policy_free(p);
	}
	printf("egress_fuzz: %ld rounds, %llu inputs accepted\n", rounds, (unsigned long long)taken);
	return 0;
}
