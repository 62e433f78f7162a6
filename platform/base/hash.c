/* SPDX-License-Identifier: Apache-2.0 */
/* The process-wide hash key of hash.h. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "platform/base/hash.h"

static uint64_t g_seed = 0x5ca1ab1e;

void hash_seed(uint64_t seed)
{
	g_seed = seed;
}

uint64_t hash_bytes(const void *p, size_t n, uint64_t extra)
{
	return XXH3_64bits_withSeed(p, n, g_seed ^ extra);
}
