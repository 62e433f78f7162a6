/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMA array of an address space: sorted, disjoint, page aligned. Pure bookkeeping, no host
 * orders (map.c and its neighbours give those). An array beats a tree here: lookups are a binary
 * search over one block of pointers, and the count is bounded by MAX_MAP_COUNT.
 */
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm_priv.h"
#include "vfs/tmpfs/tmpfs.h"

struct vma *vma_new(uint64_t start, uint64_t end, uint32_t prot, uint32_t max_prot, uint32_t flags,
		    struct file *file, uint64_t off, const char *name)
{
	struct vma *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	if (name) {
		v->name = strdup(name);
		if (!v->name) {
			free(v);
			return NULL;
		}
	}
	v->start = start;
	v->end = end;
	v->prot = prot;
	v->max_prot = max_prot;
	v->flags = flags;
	v->file = file ? file_get(file) : NULL;
	v->off = off;
	if (vma_counts_writable(v))
		tmpfs_writable_mapping(v->file, 1);
	return v;
}

struct vma *vma_dup(const struct vma *v)
{
	struct vma *n =
		vma_new(v->start, v->end, v->prot, v->max_prot, v->flags, v->file, v->off, v->name);

	if (n)
		n->pkey = v->pkey;
	return n;
}

void vma_free(struct vma *v)
{
	if (vma_counts_writable(v))
		tmpfs_writable_mapping(v->file, -1);
	if (v->file)
		file_put(v->file);
	free(v->name);
	free(v);
}

void mm_unlock(struct mm *mm)
{
	struct vma *dead = mm->dead;

	mm->dead = NULL;
	lock_release(&mm->lock);
	while (dead) {
		struct vma *next = dead->next_dead;

		vma_free(dead);
		dead = next;
	}
}

size_t vma_index(const struct mm *mm, uint64_t addr)
{
	size_t lo = 0, hi = mm->vma_count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (mm->vmas[mid]->end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

struct vma *vma_find(struct mm *mm, uint64_t addr)
{
	size_t i;

	lock_assert_held(&mm->lock);
	i = vma_index(mm, addr);
	return i < mm->vma_count && mm->vmas[i]->start <= addr ? mm->vmas[i] : NULL;
}

int vma_reserve(struct mm *mm, size_t extra)
{
	size_t want = mm->vma_count + extra, cap = mm->vma_cap ? mm->vma_cap : 32;
	struct vma **n;

	if (want <= mm->vma_cap)
		return 0;
	while (cap < want)
		cap *= 2;
	n = realloc(mm->vmas, cap * sizeof(*n));
	if (!n)
		return -ENOMEM;
	mm->vmas = n;
	mm->vma_cap = cap;
	return 0;
}

int vma_is_data(const struct vma *v)
{
	return (v->prot & PROT_WRITE) && !(v->flags & (VMA_SHARED | VMA_GROWSDOWN));
}

void vma_account(struct mm *mm, const struct vma *v, int sign)
{
	uint64_t n = vma_pages(v) * (uint64_t)(int64_t)sign;

	mm->total_pages += n;
	if (vma_is_data(v))
		mm->data_pages += n;
	if (v->flags & VMA_GROWSDOWN)
		mm->stack_pages += n;
	if (v->flags & VMA_LOCKED)
		mm->locked_pages += n;
	if (v->flags & VMA_HOLES)
		__atomic_fetch_add(&mm->hole_vmas, (uint32_t)sign, __ATOMIC_RELAXED);
	if (mm->total_pages > mm->hiwater_pages)
		mm->hiwater_pages = mm->total_pages;
}

void vma_set_flags(struct mm *mm, struct vma *v, uint32_t flags)
{
	vma_account(mm, v, -1);
	v->flags = flags;
	vma_account(mm, v, 1);
}

void vma_set_prot(struct mm *mm, struct vma *v, uint32_t prot)
{
	vma_account(mm, v, -1);
	v->prot = prot;
	vma_account(mm, v, 1);
}

static void insert_at(struct mm *mm, size_t i, struct vma *v)
{
	ASSERT(mm->vma_count < mm->vma_cap);
	memmove(mm->vmas + i + 1, mm->vmas + i, (mm->vma_count - i) * sizeof(*mm->vmas));
	mm->vmas[i] = v;
	mm->vma_count++;
	mm->generation++;
}

static void remove_slots(struct mm *mm, size_t i, size_t n)
{
	memmove(mm->vmas + i, mm->vmas + i + n, (mm->vma_count - i - n) * sizeof(*mm->vmas));
	mm->vma_count -= n;
	mm->generation++;
}

void vma_insert(struct mm *mm, struct vma *v)
{
	size_t i = vma_index(mm, v->start);

	lock_assert_held(&mm->lock);
	ASSERT(i == mm->vma_count || mm->vmas[i]->start >= v->end);
	insert_at(mm, i, v);
	vma_account(mm, v, 1);
}

int vma_split_at(struct mm *mm, uint64_t addr)
{
	struct vma *v = vma_find(mm, addr), *upper;
	int err;

	if (!v || v->start == addr)
		return 0;
	if (mm->vma_count >= MAX_MAP_COUNT)
		return -ENOMEM;
	err = vma_reserve(mm, 1);
	if (err)
		return err;
	upper = vma_dup(v);
	if (!upper)
		return -ENOMEM;
	vma_account(mm, v, -1);
	upper->start = addr;
	if (upper->file)
		upper->off += addr - v->start;
	v->end = addr;
	vma_account(mm, v, 1);
	vma_account(mm, upper, 1);
	insert_at(mm, vma_index(mm, addr), upper);
	return 0;
}

void vma_remove_range(struct mm *mm, uint64_t start, uint64_t end)
{
	size_t first = vma_index(mm, start), i;

	for (i = first; i < mm->vma_count && mm->vmas[i]->start < end; i++) {
		ASSERT(mm->vmas[i]->start >= start && mm->vmas[i]->end <= end);
		vma_account(mm, mm->vmas[i], -1);
		mm->vmas[i]->next_dead = mm->dead;
		mm->dead = mm->vmas[i];
	}
	if (i > first)
		remove_slots(mm, first, i - first);
}

static int names_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static int can_merge(const struct vma *a, const struct vma *b)
{
	if (a->end != b->start || a->prot != b->prot || a->flags != b->flags ||
	    a->file != b->file || a->max_prot != b->max_prot || a->pkey != b->pkey)
		return 0;
	if (a->flags & (VMA_SPECIAL | VMA_SYSV_SHM))
		return 0;
	if (a->file && a->off + (a->end - a->start) != b->off)
		return 0;
	return names_equal(a->name, b->name);
}

void vma_merge_range(struct mm *mm, uint64_t start, uint64_t end)
{
	size_t i = vma_index(mm, start ? start - 1 : 0);

	while (i + 1 < mm->vma_count && mm->vmas[i]->start <= end) {
		struct vma *a = mm->vmas[i], *b = mm->vmas[i + 1];

		if (!can_merge(a, b)) {
			i++;
			continue;
		}
		vma_account(mm, a, -1);
		vma_account(mm, b, -1);
		a->end = b->end;
		vma_account(mm, a, 1);
		vma_free(b);
		remove_slots(mm, i + 1, 1);
	}
}

/* Where the room that v claims begins: stacks keep a guard gap free below them. */
static uint64_t vma_start_gap(const struct vma *v)
{
	if (!(v->flags & VMA_GROWSDOWN))
		return v->start;
	return v->start > STACK_GUARD_GAP ? v->start - STACK_GUARD_GAP : 0;
}

int vma_range_free(const struct mm *mm, uint64_t start, uint64_t end, int gaps)
{
	size_t i = vma_index(mm, start);

	if (start < GUEST_RESERVED_END && end > GUEST_RESERVED_START)
		return 0;
	if (i == mm->vma_count)
		return 1;
	return (gaps ? vma_start_gap(mm->vmas[i]) : mm->vmas[i]->start) >= end;
}

static uint64_t gap_topdown(const struct mm *mm, uint64_t len, uint64_t low, uint64_t high)
{
	size_t i = vma_index(mm, high);
	uint64_t top = high;

	/* The vma above may claim a gap below itself. */
	if (i < mm->vma_count && vma_start_gap(mm->vmas[i]) < top)
		top = vma_start_gap(mm->vmas[i]);
	for (;;) {
		uint64_t floor = i ? mm->vmas[i - 1]->end : 0;

		if (floor < low)
			floor = low;
		if (top >= floor && top - floor >= len)
			return top - len;
		if (i == 0 || mm->vmas[i - 1]->start <= low)
			return 0;
		i--;
		if (vma_start_gap(mm->vmas[i]) < top)
			top = vma_start_gap(mm->vmas[i]);
	}
}

/* The platform's own range within guest memory is no gap. */
uint64_t vma_gap_topdown(const struct mm *mm, uint64_t len, uint64_t low, uint64_t high)
{
	if (low < GUEST_RESERVED_END && high > GUEST_RESERVED_START) {
		uint64_t at = high > GUEST_RESERVED_END ?
				      gap_topdown(mm, len, GUEST_RESERVED_END, high) : 0;

		if (at || low >= GUEST_RESERVED_START)
			return at;
		high = GUEST_RESERVED_START;
	}
	return gap_topdown(mm, len, low, high);
}

static uint64_t gap_bottomup(const struct mm *mm, uint64_t len, uint64_t low, uint64_t high)
{
	size_t i = vma_index(mm, low);
	uint64_t at = low;

	for (;;) {
		uint64_t limit = high;

		if (i < mm->vma_count && mm->vmas[i]->start <= at)
			limit = at;
		else if (i < mm->vma_count && vma_start_gap(mm->vmas[i]) < high)
			limit = vma_start_gap(mm->vmas[i]);
		if (limit > at && limit - at >= len)
			return at;
		if (i == mm->vma_count)
			return 0;
		if (mm->vmas[i]->end > at)
			at = mm->vmas[i]->end;
		i++;
		if (at >= high)
			return 0;
	}
}

uint64_t vma_gap_bottomup(const struct mm *mm, uint64_t len, uint64_t low, uint64_t high)
{
	if (low < GUEST_RESERVED_END && high > GUEST_RESERVED_START) {
		uint64_t at = low < GUEST_RESERVED_START ?
				      gap_bottomup(mm, len, low, GUEST_RESERVED_START) : 0;

		if (at || high <= GUEST_RESERVED_END)
			return at;
		low = GUEST_RESERVED_END;
	}
	return gap_bottomup(mm, len, low, high);
}

int mm_range_mapped(struct mm *mm, uint64_t addr, uint64_t len)
{
	size_t i = vma_index(mm, addr);
	uint64_t end = addr + len;

	lock_assert_held(&mm->lock);
	while (addr < end) {
		if (i == mm->vma_count || mm->vmas[i]->start > addr)
			return 0;
		addr = mm->vmas[i++]->end;
	}
	return 1;
}

int mm_range_sealed(const struct mm *mm, uint64_t start, uint64_t end)
{
	for (size_t i = vma_index(mm, start); i < mm->vma_count && mm->vmas[i]->start < end; i++) {
		if (mm->vmas[i]->flags & VMA_SEALED)
			return 1;
	}
	return 0;
}
