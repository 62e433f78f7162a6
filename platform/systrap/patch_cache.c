/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A direct-mapped table. The hash is keyed, but the bytes are compared as well: a guest that found
 * two stretches with one hash must not have one process's text patched by the other's plan.
 */
#include "platform/systrap/patch_cache.h"

#include <stdlib.h>
#include <string.h>

#include "platform/base/hash.h"

#define ENTRIES 1024

struct patch_verdict_entry {
	uint8_t used, why, before;
	struct patch_plan plan;
	uint8_t code[PATCH_SCAN_BEFORE];
};

static size_t slot_of(const uint8_t *code, size_t before)
{
	return hash_bytes(code, before, before) % ENTRIES;
}

int patch_cache_find(const struct patch_cache *cache, const uint8_t *code, size_t before,
		     enum patch_verdict *why, struct patch_plan *plan)
{
	if (!cache->entry || before > PATCH_SCAN_BEFORE)
		return 0;
	const struct patch_verdict_entry *e = &cache->entry[slot_of(code, before)];

	if (!e->used || e->before != before || memcmp(e->code, code, before))
		return 0;
	*why = (enum patch_verdict)e->why;
	*plan = e->plan;
	return 1;
}

void patch_cache_add(struct patch_cache *cache, const uint8_t *code, size_t before,
		     enum patch_verdict why, const struct patch_plan *plan)
{
	if (before > PATCH_SCAN_BEFORE)
		return;
	if (!cache->entry)
		cache->entry = calloc(ENTRIES, sizeof(*cache->entry));
	if (!cache->entry)
		return;
	struct patch_verdict_entry *e = &cache->entry[slot_of(code, before)];

	e->used = 1;
	e->why = (uint8_t)why;
	e->before = (uint8_t)before;
	memset(&e->plan, 0, sizeof(e->plan));
	if (why == PATCH_OK)
		e->plan = *plan;
	memcpy(e->code, code, before);
}

void patch_cache_free(struct patch_cache *cache)
{
	free(cache->entry);
	cache->entry = NULL;
}
