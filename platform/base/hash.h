/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed hashing with xxhash: the key is random per process, so a guest can not aim at buckets. */
#ifndef CAISSON_HASH_H
#define CAISSON_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Called once at start, before any table is filled. */
void hash_seed(uint64_t seed);
uint64_t hash_bytes(const void *p, size_t n, uint64_t extra);

static inline uint64_t hash_u64(uint64_t v)
{
	v *= 0x9e3779b97f4a7c15ull;
	return v ^ (v >> 32);
}

#endif
