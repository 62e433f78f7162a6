/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages (RFC 1035) as the policy's resolver needs them: a question is read from the sandbox and
 * written anew for the server outside, so that nothing but a permitted name and a type leaves; an
 * answer is checked against the question and read, and written anew for the sandbox. Pure functions
 * over bytes; all of them hostile.
 */
#ifndef CAISSON_EGRESS_DNS_H
#define CAISSON_EGRESS_DNS_H

#include <stddef.h>
#include <stdint.h>

#include "netstack/addr.h"
#include "netstack/egress/name.h"

#define DNS_HEADER 12u
#define DNS_QUERY_MAX (DNS_HEADER + 256u + 4u + 11u)
#define DNS_UDP_MIN 512u  /* what every client takes */
#define DNS_UDP_MAX 1232u /* what is sent and taken without fragments */
#define DNS_ADDRESSES_MAX 32u

enum { DNS_A = 1, DNS_CNAME = 5, DNS_AAAA = 28, DNS_OPT = 41, DNS_IXFR = 251, DNS_ANY = 255 };
enum { DNS_OK = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_question {
	uint16_t id, type;
	uint8_t recursion;	      /* RD, to be given back */
	uint16_t udp_size;	      /* how much the client takes by UDP */
	char name[EGRESS_NAME_SIZE];  /* canonical; "" when the name has no canonical form */
	uint16_t question_size;	      /* bytes of the question section, as it was */
	uint8_t question[260];
};

/* A client's query. 0; or a DNS_ error to answer it with; or -EINVAL: no answer at all. id, recursion
 * and question are filled as far as they could be read. */
int dns_read_query(const uint8_t *m, size_t n, struct dns_question *q);

/* The query for the server outside. Its length. */
size_t dns_write_query(uint8_t out[DNS_QUERY_MAX], uint16_t id, const char *name, uint16_t type);

struct dns_answer {
	uint8_t rcode, truncated;
	uint32_t ttl; /* the smallest of the addresses and of the aliases that lead to them */
	uint32_t count;
	struct ip_addr addr[DNS_ADDRESSES_MAX];
};

/*
 * A server's answer to dns_write_query(id, name, type): it must be a response with that id and that
 * question. Aliases are followed from the name asked for; only addresses at their end count. -EINVAL
 * for anything else.
 */
int dns_read_answer(const uint8_t *m, size_t n, uint16_t id, const char *name, uint16_t type,
		    struct dns_answer *a);

/* An answer for the client with count addresses of q->type; truncated (TC) when they do not fit into
 * max bytes. Its length. */
size_t dns_write_answer(uint8_t *out, size_t max, const struct dns_question *q, int rcode,
			const struct ip_addr *addr, uint32_t count, uint32_t ttl);

#endif
