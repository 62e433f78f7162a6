/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference counts that saturate instead of overflowing and abort on underflow.
 * x_new returns one reference, x_get adds one, x_put drops one.
 */
#ifndef CAISSON_REFS_H
#define CAISSON_REFS_H

#include <stdint.h>

#include "platform/base/assert.h"

#define REF_SATURATED (1u << 30)

struct ref {
	uint32_t n;
};

static inline void ref_init(struct ref *r)
{
	__atomic_store_n(&r->n, 1, __ATOMIC_RELAXED);
}

static inline uint32_t ref_read(const struct ref *r)
{
	return __atomic_load_n(&r->n, __ATOMIC_RELAXED);
}

static inline void ref_get(struct ref *r)
{
	uint32_t old = __atomic_fetch_add(&r->n, 1, __ATOMIC_RELAXED);

	ASSERT(old != 0);
	if (old >= REF_SATURATED)
		__atomic_store_n(&r->n, REF_SATURATED, __ATOMIC_RELAXED);
}

/* For lookups in caches whose entries may be dying: 0 when the object is already dead. */
static inline int ref_get_unless_zero(struct ref *r)
{
	uint32_t old = ref_read(r);

	do {
		if (old == 0)
			return 0;
	} while (!__atomic_compare_exchange_n(&r->n, &old, old + 1, 1, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	return 1;
}

/* 1 when this was the last reference: the caller frees the object. */
static inline int ref_put(struct ref *r)
{
	if (ref_read(r) >= REF_SATURATED)
		return 0;
	uint32_t old = __atomic_fetch_sub(&r->n, 1, __ATOMIC_ACQ_REL);

	ASSERT(old != 0);
	return old == 1;
}

#endif
