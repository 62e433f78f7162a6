/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the decoder said of a stretch of text, by the text itself: an executable is analysed once,
 * whatever the processes that run it, their addresses and the file's name. The caller locks.
 */
#ifndef CAISSON_SYSTRAP_PATCH_CACHE_H
#define CAISSON_SYSTRAP_PATCH_CACHE_H

#include "platform/systrap/patch_scan.h"

struct patch_verdict_entry;
struct patch_cache {
	struct patch_verdict_entry *entry; /* a table by hash, made when it is first needed */
};

/* 1 with the verdict on code[0..before), and the plan if it is PATCH_OK; 0: not known. */
int patch_cache_find(const struct patch_cache *cache, const uint8_t *code, size_t before,
		     enum patch_verdict *why, struct patch_plan *plan);
/* Forgets another verdict where there is no room. */
void patch_cache_add(struct patch_cache *cache, const uint8_t *code, size_t before,
		     enum patch_verdict why, const struct patch_plan *plan);
void patch_cache_free(struct patch_cache *cache);

#endif
