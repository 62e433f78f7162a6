/* SPDX-License-Identifier: Apache-2.0 */
/* See dns.h. */
#include "netstack/egress/dns.h"

#include <errno.h>

#define JUMPS_MAX 32
#define ALIASES_MAX 12
#define RECORDS_MAX 256u
#define CLASS_IN 1u

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

/*
 * The name at *at, which moves behind it. Compression pointers must go backwards, each further than
 * the last. out is canonical, or "" for a name that has no canonical form. -EINVAL: cut off.
 */
static int read_name(const uint8_t *m, size_t n, size_t *at, int may_jump, char out[EGRESS_NAME_SIZE])
{
	char text[EGRESS_NAME_SIZE + 2];
	size_t len = 0, pos = *at, lowest = pos;
	int jumped = 0, odd = 0;

	for (int jumps = 0;;) {
		if (pos >= n)
			return -EINVAL;
		uint8_t c = m[pos];

		if (c >= 0xc0) {
			size_t to;

			if (!may_jump || pos + 1 >= n || ++jumps > JUMPS_MAX)
				return -EINVAL;
			to = (size_t)(c & 0x3f) << 8 | m[pos + 1];
			if (!jumped)
				*at = pos + 2;
			jumped = 1;
			if (to >= lowest)
				return -EINVAL;
			pos = lowest = to;
			continue;
		}
		if (c > 63 || pos + 1 + c > n)
			return -EINVAL;
		pos++;
		if (!c)
			break;
		if (len + c + 1 > EGRESS_NAME_SIZE)
			return -EINVAL;
		/* A dot within a label is no dot between labels. */
		odd |= memchr(m + pos, '.', c) != NULL;
		memcpy(text + len, m + pos, c);
		len += c;
		text[len++] = '.';
		pos += c;
	}
	if (!jumped)
		*at = pos;
	if (odd || egress_name_canon(text, len, out))
		out[0] = '\0';
	return 0;
}

int dns_read_query(const uint8_t *m, size_t n, struct dns_question *q)
{
	size_t at = DNS_HEADER;
	char owner[EGRESS_NAME_SIZE];

	memset(q, 0, sizeof(*q));
	q->udp_size = DNS_UDP_MIN;
	if (n < DNS_HEADER || m[2] & 0x80) /* a response is never answered */
		return -EINVAL;
	q->id = get16(m);
	q->recursion = m[2] & 1;
	if (m[2] & 0x78)
		return DNS_NOTIMP;
	if (get16(m + 4) != 1 || get16(m + 6) || get16(m + 8) || get16(m + 10) > 1)
		return DNS_FORMERR;
	if (read_name(m, n, &at, 0, q->name) || at + 4 > n || at + 4 - DNS_HEADER > sizeof(q->question))
		return DNS_FORMERR;
	q->type = get16(m + at);
	uint16_t class = get16(m + at + 2);

	at += 4;
	q->question_size = (uint16_t)(at - DNS_HEADER);
	memcpy(q->question, m + DNS_HEADER, q->question_size);
	/* Of the client's options only the size is of interest; none travels on. */
	if (get16(m + 10) && !read_name(m, n, &at, 0, owner) && at + 10 <= n && get16(m + at) == DNS_OPT) {
		uint16_t size = get16(m + at + 2);

		q->udp_size = size < DNS_UDP_MIN ? DNS_UDP_MIN : size > DNS_UDP_MAX ? DNS_UDP_MAX : size;
	}
	if (class != CLASS_IN || (q->type >= DNS_IXFR && q->type <= DNS_ANY) || q->type == DNS_OPT)
		return DNS_NOTIMP;
	return 0;
}

static size_t write_name(uint8_t *out, const char *name)
{
	size_t at = 0;

	while (*name) {
		size_t n = strcspn(name, ".");

		out[at] = (uint8_t)n;
		memcpy(out + at + 1, name, n);
		at += n + 1;
		name += n + (name[n] == '.');
	}
	out[at++] = 0;
	return at;
}

size_t dns_write_query(uint8_t out[DNS_QUERY_MAX], uint16_t id, const char *name, uint16_t type)
{
	static const uint8_t opt[11] = { 0, 0, DNS_OPT, DNS_UDP_MAX >> 8, DNS_UDP_MAX & 0xff };
	size_t at = DNS_HEADER;

	memset(out, 0, DNS_HEADER);
	put16(out, id);
	out[2] = 1; /* RD */
	put16(out + 4, 1);
	put16(out + 10, 1);
	at += write_name(out + at, name);
	put16(out + at, type);
	put16(out + at + 2, CLASS_IN);
	memcpy(out + at + 4, opt, sizeof(opt));
	return at + 4 + sizeof(opt);
}

struct record {
	char owner[EGRESS_NAME_SIZE];
	uint16_t type, class;
	uint32_t ttl;
	size_t data, size;
};

static int read_record(const uint8_t *m, size_t n, size_t *at, struct record *r)
{
	if (read_name(m, n, at, 1, r->owner) || *at + 10 > n)
		return -EINVAL;
	r->type = get16(m + *at);
	r->class = get16(m + *at + 2);
	r->ttl = get32(m + *at + 4);
	if (r->ttl & 0x80000000u) /* RFC 2181, 8 */
		r->ttl = 0;
	r->size = get16(m + *at + 8);
	r->data = *at + 10;
	if (r->size > n - r->data)
		return -EINVAL;
	*at = r->data + r->size;
	return 0;
}

/* The alias of `of` among the records from `at` on: 1 and *to, 0 for none, -EINVAL. */
static int alias(const uint8_t *m, size_t n, size_t at, uint32_t records, const char *of, uint32_t *ttl,
		 char to[EGRESS_NAME_SIZE])
{
	for (uint32_t i = 0; i < records; i++) {
		struct record r;
		size_t pos;

		if (read_record(m, n, &at, &r))
			return -EINVAL;
		if (r.class != CLASS_IN || r.type != DNS_CNAME || strcmp(r.owner, of))
			continue;
		pos = r.data;
		if (read_name(m, n, &pos, 1, to) || pos != r.data + r.size || !to[0])
			return -EINVAL;
		if (r.ttl < *ttl)
			*ttl = r.ttl;
		return 1;
	}
	return 0;
}

int dns_read_answer(const uint8_t *m, size_t n, uint16_t id, const char *name, uint16_t type,
		    struct dns_answer *a)
{
	char owner[EGRESS_NAME_SIZE], next[EGRESS_NAME_SIZE];
	size_t at = DNS_HEADER, first, size = type == DNS_A ? 4 : 16;
	uint32_t records;
	int got;

	*a = (struct dns_answer){ .ttl = UINT32_MAX };
	if (n < DNS_HEADER || get16(m) != id || !(m[2] & 0x80) || (m[2] & 0x78) || get16(m + 4) != 1)
		return -EINVAL;
	if (read_name(m, n, &at, 0, owner) || strcmp(owner, name) || !owner[0] || at + 4 > n ||
	    get16(m + at) != type || get16(m + at + 2) != CLASS_IN)
		return -EINVAL;
	first = at + 4;
	a->rcode = m[3] & 15;
	a->truncated = (m[2] & 2) != 0;
	records = get16(m + 6);
	if (records > RECORDS_MAX)
		return -EINVAL;
	if (a->truncated || a->rcode || (type != DNS_A && type != DNS_AAAA))
		return 0;
	for (int i = 0; (got = alias(m, n, first, records, owner, &a->ttl, next)) > 0; i++) {
		if (i == ALIASES_MAX)
			return -EINVAL;
		memcpy(owner, next, sizeof(owner));
	}
	if (got < 0)
		return got;
	at = first;
	for (uint32_t i = 0; i < records; i++) {
		struct record r;

		if (read_record(m, n, &at, &r))
			return -EINVAL;
		if (r.class != CLASS_IN || r.type != type || strcmp(r.owner, owner))
			continue;
		if (r.size != size)
			return -EINVAL;
		if (a->count == DNS_ADDRESSES_MAX)
			break;
		if (type == DNS_A) {
			uint32_t v4;

			memcpy(&v4, m + r.data, 4);
			a->addr[a->count++] = ip_from_v4(v4);
		} else {
			a->addr[a->count++] = ip_from_v6(m + r.data);
		}
		if (r.ttl < a->ttl)
			a->ttl = r.ttl;
	}
	return 0;
}

size_t dns_write_answer(uint8_t *out, size_t max, const struct dns_question *q, int rcode,
			const struct ip_addr *addr, uint32_t count, uint32_t ttl)
{
	size_t at = DNS_HEADER + q->question_size, size = q->type == DNS_A ? 4 : 16;
	uint32_t written = 0;

	memset(out, 0, DNS_HEADER);
	put16(out, q->id);
	out[2] = (uint8_t)(0x80 | (q->recursion ? 1 : 0));
	out[3] = (uint8_t)(0x80 | (rcode & 15));
	put16(out + 4, q->question_size != 0);
	memcpy(out + DNS_HEADER, q->question, q->question_size);
	for (; written < count; written++) {
		if (at + 12 + size > max) {
			out[2] |= 2; /* TC */
			break;
		}
		put16(out + at, 0xc000u | DNS_HEADER);
		put16(out + at + 2, q->type);
		put16(out + at + 4, CLASS_IN);
		put16(out + at + 6, ttl >> 16);
		put16(out + at + 8, ttl);
		put16(out + at + 10, (uint32_t)size);
		memcpy(out + at + 12, addr[written].b + 16 - size, size);
		at += 12 + size;
	}
	put16(out + 6, written);
	return at;
}
