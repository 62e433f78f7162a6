/* SPDX-License-Identifier: Apache-2.0 */
/* What patch.c (making sites) and patch_text.c (the text they are in) share. */
#ifndef CAISSON_SYSTRAP_PATCH_PRIV_H
#define CAISSON_SYSTRAP_PATCH_PRIV_H

#include "platform/systrap/patch.h"

#define PATCH_PAGE_BITS 4096

struct patch_site {
	uint64_t start; /* of the displaced instructions */
	uint32_t entry; /* its table entry */
	uint8_t length, boundaries;
	uint8_t bytes[12]; /* what was displaced */
};

struct patch_area {
	struct ref ref;
	struct systrap *plat;
	uint32_t index;
	uint8_t *table, *trampolines; /* the sentry's view */
	struct lock lock;	      /* RANK_PLATFORM */
	uint32_t count;		      /* [a] sites; a site never changes once counted */
	struct patch_site *sites;     /* TRAMPOLINE_COUNT */
	uint8_t used[PATCH_TABLE_SIZE / 8]; /* [lock] a bit for each byte of the table */
	uint64_t pages[PATCH_PAGE_BITS / 64]; /* [a] hashed: pages that may hold a site */
};

static inline struct patch_area *area_of(const struct systrap_addrspace *as)
{
	return __atomic_load_n(&as->area, __ATOMIC_ACQUIRE);
}

static inline uint32_t patch_page_bit(uint64_t addr)
{
	return (uint32_t)((addr / GUEST_PAGE_SIZE * 0x9e3779b97f4a7c15ull) >> 52);
}

/*
 * PATCH_JUMP_SIZE bytes into text, which is not executable for that moment and has `prot` after it.
 * With op_lock.
 */
int patch_write_text(struct systrap_context *c, uint64_t start, const uint8_t *bytes, int prot);

#endif
