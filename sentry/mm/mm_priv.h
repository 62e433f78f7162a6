/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside sentry/mm: the VMA array (vma.c) and the order helpers (map.c). Everything here wants
 * mm->lock held unless it says otherwise.
 */
#ifndef CAISSON_MM_PRIV_H
#define CAISSON_MM_PRIV_H

#include <linux/mman.h>

#include "sentry/mm/mm.h"
#include "sentry/task/task.h"

#define MAX_MAP_COUNT	65530u
#define STACK_GUARD_GAP (256 * GUEST_PAGE_SIZE)
#define VMA_PROT_ALL	(PROT_READ | PROT_WRITE | PROT_EXEC)

static inline uint64_t page_down(uint64_t v)
{
	return v & PAGE_MASK;
}

/* v must be at most 2^64 - PAGE_SIZE. */
static inline uint64_t page_up(uint64_t v)
{
	return (v + PAGE_SIZE - 1) & PAGE_MASK;
}

static inline uint64_t vma_pages(const struct vma *v)
{
	return (v->end - v->start) / PAGE_SIZE;
}

/*
 * Releases mm->lock and frees the vmas taken out meanwhile. Everything that may remove vmas ends
 * with this: the last put of a file takes VFS locks, which rank before mm->lock.
 */
void mm_unlock(struct mm *mm);

/* ---- vma.c ---- */

/* A vma outside any tree; takes its own reference on file and copy of name. NULL: no memory. */
struct vma *vma_new(uint64_t start, uint64_t end, uint32_t prot, uint32_t max_prot, uint32_t flags,
		    struct file *file, uint64_t off, const char *name);
/* Does it keep F_SEAL_WRITE from being set on its file? */
static inline int vma_counts_writable(const struct vma *v)
{
	return v->file && (v->flags & VMA_SHARED) && (v->max_prot & PROT_WRITE);
}
struct vma *vma_dup(const struct vma *v);
void vma_free(struct vma *v);
/* Index of the first vma that ends above addr (vma_count when none). */
size_t vma_index(const struct mm *mm, uint64_t addr);
/* Makes room for `extra` more array slots. */
int vma_reserve(struct mm *mm, size_t extra);
/* Puts v in its place; room must be reserved. Accounts it. */
void vma_insert(struct mm *mm, struct vma *v);
/* Splits so that no vma straddles addr. -ENOMEM, also over MAX_MAP_COUNT. */
int vma_split_at(struct mm *mm, uint64_t addr);
/* Takes all vmas inside [start, end) out (both ends already split) and puts them on mm->dead. */
void vma_remove_range(struct mm *mm, uint64_t start, uint64_t end);
/* Merges equal neighbours that touch [start, end]. */
void vma_merge_range(struct mm *mm, uint64_t start, uint64_t end);
/* Adds (sign 1) or takes away (-1) v in the mm's page counts. */
void vma_account(struct mm *mm, const struct vma *v, int sign);
/* Changes flags or protection with the accounts kept right. */
void vma_set_flags(struct mm *mm, struct vma *v, uint32_t flags);
void vma_set_prot(struct mm *mm, struct vma *v, uint32_t prot);
/* True when [start, end) touches no vma, counting stack guard gaps when gaps is set. */
int vma_range_free(const struct mm *mm, uint64_t start, uint64_t end, int gaps);
/* A free range of len bytes: highest below high (not under low), or lowest above low. 0: none. */
uint64_t vma_gap_topdown(const struct mm *mm, uint64_t len, uint64_t low, uint64_t high);
uint64_t vma_gap_bottomup(const struct mm *mm, uint64_t len, uint64_t low, uint64_t high);
int vma_is_data(const struct vma *v);

/* ---- map.c ---- */

/* Where the bytes of a file range are on the host; gathered without mm->lock. */
struct extent_list {
	struct map_extent *v;
	size_t count, cap;
	uint64_t mapped; /* bytes the extents cover from the start; the rest is a hole */
	int anon;	 /* the file stands for plain anonymous memory */
};
/* mm->lock must NOT be held: asks the filesystem. */
int extents_gather(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
		   struct extent_list *el);
void extents_free(struct extent_list *el);
/*
 * Orders the host mapping of [addr, addr+len): the extents, or anonymous memory when el is NULL or
 * el->anon. What lies past el->mapped is unmapped on the host.
 */
int host_map(struct context *ctx, uint64_t addr, uint64_t len, int prot, int host_flags,
	     const struct extent_list *el, uint64_t vma_flags);
int host_unmap(struct context *ctx, uint64_t addr, uint64_t len);
/* As host_map, but held back while mm has a batch. */
int host_map_in(struct mm *mm, struct context *ctx, uint64_t addr, uint64_t len, int prot,
		int host_flags, const struct extent_list *el, uint64_t vma_flags);

/* ---- batch.c ---- */

/* Holds ops back when mm has a batch, else orders them. */
int batch_or_order(struct mm *mm, struct context *ctx, const struct mem_op *ops, size_t count);
void mm_batch_free(struct mm *mm);
/* Host flags of a vma's mapping. */
int host_flags_of(const struct vma *v);
/* RLIMIT_AS and RLIMIT_DATA: may the space grow by these pages? */
int mm_may_expand(struct task *t, struct mm *mm, uint64_t pages, int is_data);
/* RLIMIT_MEMLOCK: 0, -EPERM or -EAGAIN. */
int mm_may_lock(struct task *t, struct mm *mm, uint64_t pages);
/* The default overcommit heuristic: an obvious excess is refused. */
int mm_overcommit_ok(const struct mm *mm, uint64_t pages);
/* Unmaps [start, end) in tree and host. */
int mm_unmap_locked(struct mm *mm, struct context *ctx, uint64_t start, uint64_t end);
/* The address for a new mapping of len bytes, or -ENOMEM. */
int64_t mm_pick_address(struct mm *mm, uint64_t hint, uint64_t len, int flags);
/* True when a vma in [start, end) is sealed. */
int mm_range_sealed(const struct mm *mm, uint64_t start, uint64_t end);

/* ---- fault.c ---- */
int mm_grow_stack_locked(struct task *t, uint64_t addr);
/* Without mm->lock. 1 when the access at addr can be tried again. */
int mm_mend(struct task *t, uint64_t addr, uint32_t access, int may_fill);

#endif
