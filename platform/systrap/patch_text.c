/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text with patched sites, as everybody but the processor sees it: where a thread stands, what a
 * reader finds, and how a site is taken back when somebody is about to write there.
 */
#include <errno.h>
#include <string.h>

#include "platform/systrap/patch_priv.h"

/* ---- where a stopped thread really is ---- */

int patch_place(struct systrap_addrspace *as, uint64_t rip, struct patch_place *pl)
{
	struct patch_area *a = area_of(as);
	uint64_t index = (rip - TRAMPOLINE_ADDR) / TRAMPOLINE_SIZE;
	uint64_t offset = (rip - TRAMPOLINE_ADDR) % TRAMPOLINE_SIZE;

	if (!a || rip < TRAMPOLINE_ADDR || index >= __atomic_load_n(&a->count, __ATOMIC_ACQUIRE))
		return 0;
	const struct patch_site *s = &a->sites[index];

	pl->at_call = offset >= s->length;
	pl->rip = s->start + (pl->at_call ? s->length : offset);
	pl->after = s->start + s->length + 2;
	return 1;
}

/* The site at `start`, if the guest's text has its jump there now. */
static const struct patch_site *site_at(struct systrap_addrspace *as, struct patch_area *a,
					uint64_t start)
{
	uint8_t now[PATCH_JUMP_SIZE];
	uint32_t entry;

	if (systrap_as_peek(as, start, now, sizeof(now)) != (ssize_t)sizeof(now) ||
	    now[0] != 0xff || now[1] != 0x24 || now[2] != 0x25)
		return NULL;
	memcpy(&entry, now + 3, 4);
	for (uint32_t i = 0; i < __atomic_load_n(&a->count, __ATOMIC_ACQUIRE); i++)
		if (a->sites[i].start == start && a->sites[i].entry == entry)
			return &a->sites[i];
	return NULL;
}

int patch_undefined(struct systrap_addrspace *as, uint64_t rip, uint64_t *to)
{
	struct patch_area *a = area_of(as);

	if (!a)
		return 0;
	for (uint32_t b = 3; b < PATCH_JUMP_SIZE; b++) {
		const struct patch_site *s = site_at(as, a, rip - b);

		if (!s || !(s->boundaries & 1u << b))
			continue;
		if (b == s->length) {
			*to = rip + 2;
			return 1;
		}
		*to = TRAMPOLINE_ADDR + (uint64_t)(s - a->sites) * TRAMPOLINE_SIZE + b;
		return 2;
	}
	return 0;
}

uint64_t patch_step(struct systrap_addrspace *as, uint64_t rip)
{
	struct patch_area *a = area_of(as);
	const struct patch_site *s = a ? site_at(as, a, rip) : NULL;

	return s ? TRAMPOLINE_ADDR + (uint64_t)(s - a->sites) * TRAMPOLINE_SIZE : rip;
}

/* ---- what readers see, and writers find ---- */

/* What stood where the jump stands. */
static void original(const struct patch_site *s, uint8_t *bytes)
{
	static const uint8_t call[] = { 0x0f, 0x05 };
	uint8_t whole[sizeof(s->bytes) + sizeof(call)];

	memcpy(whole, s->bytes, s->length);
	memcpy(whole + s->length, call, sizeof(call));
	memcpy(bytes, whole, PATCH_JUMP_SIZE);
}

static int may_hold_sites(const struct patch_area *a, uint64_t from, size_t len)
{
	/* More pages than that are not worth asking for one by one. */
	if (len / GUEST_PAGE_SIZE > 64)
		return 1;
	for (uint64_t at = from & ~(GUEST_PAGE_SIZE - 1); at < from + len; at += GUEST_PAGE_SIZE) {
		uint32_t bit = patch_page_bit(at);

		if (__atomic_load_n(&a->pages[bit / 64], __ATOMIC_ACQUIRE) & 1ull << (bit % 64))
			return 1;
	}
	return 0;
}

static int overlaps(const struct patch_site *s, uint64_t from, size_t len)
{
	return s->start < from + len && from < s->start + PATCH_JUMP_SIZE;
}

void patch_hide(struct systrap_addrspace *as, uint64_t from, uint8_t *buf, size_t len)
{
	struct patch_area *a = area_of(as);

	if (!a || !len || !may_hold_sites(a, from, len))
		return;
	uint32_t count = __atomic_load_n(&a->count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		const struct patch_site *s = &a->sites[i];
		uint8_t bytes[PATCH_JUMP_SIZE];

		if (!overlaps(s, from, len) || site_at(as, a, s->start) != s)
			continue;
		original(s, bytes);
		for (uint32_t b = 0; b < PATCH_JUMP_SIZE; b++)
			if (s->start + b >= from && s->start + b < from + len)
				buf[s->start + b - from] = bytes[b];
	}
}

int systrap_ctx_unpatch(struct context *base, uint64_t from, uint64_t len, int prot)
{
	struct systrap_context *c = to_context(base);
	struct systrap_addrspace *as = c->as;
	struct patch_area *a = area_of(as);
	int ret = 0;

	if (!a || !len || !may_hold_sites(a, from, len))
		return 0;
	lock_acquire(&as->op_lock);
	for (uint32_t i = 0; i < __atomic_load_n(&a->count, __ATOMIC_ACQUIRE) && !ret; i++) {
		const struct patch_site *s = &a->sites[i];
		uint8_t bytes[PATCH_JUMP_SIZE];

		if (!overlaps(s, from, len) || site_at(as, a, s->start) != s)
			continue;
		original(s, bytes);
		ret = patch_write_text(c, s->start, bytes, prot);
		stat_add(&as->plat->stats.restored);
	}
	lock_release(&as->op_lock);
	return ret;
}
