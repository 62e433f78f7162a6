/* SPDX-License-Identifier: Apache-2.0 */
/* See bindings.h. Entries are numbered from 1 and chained by the hash of their address. */
#include "netstack/egress/bindings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/hash.h"

#define BUCKETS 1024u

struct binding {
	struct ip_addr addr;
	uint64_t end_ns;
	char *name; /* owned; NULL: a free entry */
	uint32_t next;
};

struct egress_bindings {
	uint32_t max, count, used; /* used: entries that were ever taken */
	uint32_t bucket[BUCKETS];
	struct binding e[];
};

struct egress_bindings *egress_bindings_new(uint32_t max)
{
	struct egress_bindings *b = calloc(1, sizeof(*b) + (max + 1) * sizeof(b->e[0]));

	if (b)
		b->max = max;
	return b;
}

void egress_bindings_free(struct egress_bindings *b)
{
	if (!b)
		return;
	for (uint32_t i = 1; i <= b->used; i++)
		free(b->e[i].name);
	free(b);
}

static uint32_t bucket_of(const struct ip_addr *a)
{
	return (uint32_t)(hash_u64(hash_u64(a->d[0]) ^ a->d[1]) % BUCKETS);
}

static void forget(struct egress_bindings *b, uint32_t i)
{
	uint32_t *at = &b->bucket[bucket_of(&b->e[i].addr)];

	while (*at != i)
		at = &b->e[*at].next;
	*at = b->e[i].next;
	free(b->e[i].name);
	b->e[i].name = NULL;
	b->count--;
}

/* A free entry's number. */
static uint32_t room(struct egress_bindings *b)
{
	uint32_t first = 1;

	if (b->used < b->max)
		return ++b->used;
	for (uint32_t i = 1; i <= b->max; i++) {
		if (!b->e[i].name)
			return i;
		if (b->e[i].end_ns < b->e[first].end_ns)
			first = i;
	}
	forget(b, first);
	return first;
}

int egress_bindings_add(struct egress_bindings *b, const char *name, const struct ip_addr *a, uint64_t now_ns,
			uint32_t ttl_s)
{
	uint32_t h = bucket_of(a), i;

	if (ttl_s < EGRESS_TTL_MIN_S)
		ttl_s = EGRESS_TTL_MIN_S;
	if (ttl_s > EGRESS_TTL_MAX_S)
		ttl_s = EGRESS_TTL_MAX_S;
	uint64_t end = now_ns + ttl_s * 1000000000ull;

	for (i = b->bucket[h]; i; i = b->e[i].next)
		if (ip_eq(&b->e[i].addr, a) && !strcmp(b->e[i].name, name)) {
			if (b->e[i].end_ns < end)
				b->e[i].end_ns = end;
			return 0;
		}
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	i = room(b);
	b->e[i] = (struct binding){ .addr = *a, .end_ns = end, .name = copy, .next = b->bucket[h] };
	b->bucket[h] = i;
	b->count++;
	return 0;
}

const char *egress_bindings_name(const struct egress_bindings *b, const struct ip_addr *a, uint64_t now_ns,
				 uint32_t *cursor)
{
	uint32_t i = *cursor ? b->e[*cursor].next : b->bucket[bucket_of(a)];

	for (; i; i = b->e[i].next)
		if (ip_eq(&b->e[i].addr, a) && b->e[i].end_ns > now_ns) {
			*cursor = i;
			return b->e[i].name;
		}
	return NULL;
}

uint32_t egress_bindings_count(const struct egress_bindings *b)
{
	return b->count;
}
