/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mremap(2). Shrinking and growing in place, moving, DONTUNMAP, and old_len 0 for shared mappings.
 *
 * One vma here may be several on the host (extents of a file, anonymous pieces that the host can
 * not merge), and the host moves one of its own vmas at a time. So a move is tried whole, and by
 * halves where the host says -EFAULT; what stays unmovable at one page is a hole of a file mapping.
 */
#include <errno.h>
#include <linux/mman.h>

#include "sentry/mm/mm_priv.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

struct remap {
	struct task *t;
	struct mm *mm;
	uint64_t old, old_len, new_len, new_addr;
	int flags;
	struct vma *v; /* borrowed, valid while the lock is held */
};

static int host_move(struct context *ctx, uint64_t from, uint64_t len, uint64_t to, uint64_t to_len,
		     int flags)
{
	struct mem_op op = { .kind = MEM_REMAP,
			     .addr = from,
			     .len = len,
			     .addr2 = to,
			     .len2 = to_len,
			     .flags = flags & MREMAP_DONTUNMAP,
			     .fd = -1 };

	return context_mem(ctx, &op, 1, NULL);
}

/* Moves [from, from+len) to `to`, piece by piece where it must be. */
static int move_pieces(struct context *ctx, uint64_t from, uint64_t len, uint64_t to, int flags,
		       int holes)
{
	uint64_t done = 0, step = len;
	int err = 0;

	while (done < len) {
		if (step > len - done)
			step = len - done;
		err = host_move(ctx, from + done, step, to + done, step, flags);
		if (!err) {
			done += step;
			step = len - done;
			continue;
		}
		if (err != -EFAULT && err != -EINVAL)
			break;
		if (step > PAGE_SIZE) {
			step = page_up(step / 2);
			continue;
		}
		if (!holes)
			break;
		done += PAGE_SIZE; /* nothing is mapped there */
		err = 0;
	}
	if (err && done && !(flags & MREMAP_DONTUNMAP))
		(void)host_move(ctx, to, done, from, done, 0);
	return err;
}

/* vma_to_resize(): may v, from old on, become new_len long? */
static int check_resize(struct remap *rm)
{
	struct vma *v = rm->v;
	uint64_t grow, end_off;
	int err;

	if (rm->old_len == 0 && !(v->flags & VMA_SHARED))
		return -EINVAL;
	if (rm->old_len > v->end - rm->old)
		return -EFAULT;
	if (rm->new_len <= rm->old_len)
		return 0;
	grow = (rm->new_len - rm->old_len) / PAGE_SIZE;
	if (v->flags & VMA_SPECIAL)
		return -EFAULT;
	if (v->file &&
	    (__builtin_add_overflow(v->off + (rm->old - v->start), rm->new_len, &end_off) ||
	     (int64_t)end_off < 0))
		return -EINVAL;
	if (v->flags & VMA_LOCKED) {
		err = mm_may_lock(rm->t, rm->mm, grow);
		if (err)
			return -EAGAIN;
	}
	if (!mm_may_expand(rm->t, rm->mm, grow, vma_is_data(v)))
		return -ENOMEM;
	if (vma_is_data(v) && !(v->flags & VMA_NORESERVE) && !mm_overcommit_ok(rm->mm, grow))
		return -ENOMEM;
	return 0;
}

/* Grows v at its end. The lock is held; el describes the new part of a file. */
static int64_t grow_in_place(struct remap *rm, const struct extent_list *el)
{
	struct vma *v = rm->v;
	uint64_t grow = rm->new_len - rm->old_len, end = v->end;
	uint32_t flags = v->flags;
	int err;

	err = host_map(rm->t->ctx, end, grow, (int)v->prot,
		       host_flags_of(v) | (flags & VMA_LOCKED ? MAP_POPULATE : 0),
		       v->file ? el : NULL, flags);
	if (err)
		return err;
	vma_account(rm->mm, v, -1);
	v->end += grow;
	if (v->file && el->mapped < grow)
		v->flags |= VMA_HOLES;
	vma_account(rm->mm, v, 1);
	rm->mm->generation++;
	vma_merge_range(rm->mm, rm->old, v->end);
	return (int64_t)rm->old;
}

/* Copies or moves to rm->new_addr, which is free. el: the part of a file beyond old_len. */
static int64_t move_to(struct remap *rm, const struct extent_list *el)
{
	struct mm *mm = rm->mm;
	struct context *ctx = rm->t->ctx;
	uint64_t copy = rm->old_len < rm->new_len ? rm->old_len : rm->new_len;
	uint64_t grow = rm->new_len - copy;
	struct vma *n;
	int err, holes = !!(rm->v->flags & VMA_HOLES);

	err = vma_split_at(mm, rm->old);
	if (!err)
		err = vma_split_at(mm, rm->old + rm->old_len);
	if (!err)
		err = vma_reserve(mm, 1);
	if (err)
		return err;
	rm->v = vma_find(mm, rm->old);
	n = vma_dup(rm->v);
	if (!n)
		return -ENOMEM;
	n->start = rm->new_addr;
	n->end = rm->new_addr + rm->new_len;
	if (n->file)
		n->off = rm->v->off + (rm->old - rm->v->start);

	if (copy && grow && !n->file && !holes) {
		/* One host mremap grows its own vma; in two steps the pieces would never merge. */
		err = host_move(ctx, rm->old, copy, rm->new_addr, rm->new_len, 0);
		if (!err)
			grow = 0;
		else
			err = move_pieces(ctx, rm->old, copy, rm->new_addr, rm->flags, holes);
	} else if (copy) {
		err = move_pieces(ctx, rm->old, copy, rm->new_addr, rm->flags, holes);
	}
	if (!err && grow) {
		err = host_map(ctx, rm->new_addr + copy, grow, (int)n->prot, host_flags_of(n),
			       n->file ? el : NULL, n->flags);
		if (err && copy)
			(void)move_pieces(ctx, rm->new_addr, copy, rm->old, 0, holes);
		if (!err && n->file && el->mapped < grow)
			n->flags |= VMA_HOLES;
	}
	if (err) {
		vma_merge_range(mm, rm->old, rm->old + rm->old_len);
		n->next_dead = mm->dead;
		mm->dead = n;
		return err;
	}
	if (rm->flags & MREMAP_DONTUNMAP)
		vma_set_flags(mm, rm->v, rm->v->flags & ~(VMA_LOCKED | VMA_LOCKONFAULT));
	else if (rm->old_len)
		vma_remove_range(mm, rm->old, rm->old + rm->old_len);
	vma_insert(mm, n);
	vma_merge_range(mm, rm->new_addr, rm->new_addr + rm->new_len);
	return (int64_t)rm->new_addr;
}

/* Everything that needs the lock; rm->v is set. */
static int64_t remap_locked(struct remap *rm, const struct extent_list *el)
{
	struct mm *mm = rm->mm;
	int64_t at;
	int err, fixed = rm->flags & MREMAP_FIXED;

	if (mm_range_sealed(mm, rm->old, rm->old + (rm->old_len ? rm->old_len : 1)))
		return -EPERM;
	if (mm->vma_count > MAX_MAP_COUNT - 3)
		return -ENOMEM;
	if (fixed) {
		err = mm_unmap_locked(mm, rm->t->ctx, rm->new_addr, rm->new_addr + rm->new_len);
		if (err)
			return err;
	}
	if (rm->old_len >= rm->new_len && rm->old_len && !(rm->flags & MREMAP_DONTUNMAP)) {
		/* Shrinking may reach over several vmas; only the kept part must be one. */
		if (rm->old_len > rm->new_len) {
			err = mm_unmap_locked(mm, rm->t->ctx, rm->old + rm->new_len,
					      rm->old + rm->old_len);
			if (err)
				return err;
			rm->old_len = rm->new_len;
		}
		if (!fixed)
			return (int64_t)rm->old;
		rm->v = vma_find(mm, rm->old);
		if (!rm->v)
			return -EFAULT;
	}
	err = check_resize(rm);
	if (err)
		return err;
	if (fixed)
		return move_to(rm, el);
	if (rm->old_len && !(rm->flags & MREMAP_DONTUNMAP) && rm->old + rm->old_len == rm->v->end &&
	    guest_range_ok(rm->old, rm->new_len) &&
	    vma_range_free(mm, rm->v->end, rm->old + rm->new_len, 1))
		return grow_in_place(rm, el);
	if (!(rm->flags & MREMAP_MAYMOVE))
		return -ENOMEM;
	at = mm_pick_address(mm, rm->flags & MREMAP_DONTUNMAP ? rm->new_addr : 0, rm->new_len, 0);
	if (at < 0)
		return at;
	rm->new_addr = (uint64_t)at;
	return move_to(rm, el);
}

static int check_args(struct remap *rm)
{
	int flags = rm->flags;

	if (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP))
		return -EINVAL;
	if ((flags & MREMAP_FIXED) && !(flags & MREMAP_MAYMOVE))
		return -EINVAL;
	if (rm->old & ~PAGE_MASK)
		return -EINVAL;
	if (rm->old_len > GUEST_TASK_SIZE || rm->new_len > GUEST_TASK_SIZE)
		return -EINVAL;
	rm->old_len = page_up(rm->old_len);
	rm->new_len = page_up(rm->new_len);
	if ((flags & MREMAP_DONTUNMAP) && (!(flags & MREMAP_MAYMOVE) || rm->old_len != rm->new_len))
		return -EINVAL;
	if (rm->new_len == 0)
		return -EINVAL;
	if (!guest_range_ok(rm->old, rm->old_len))
		return -EFAULT;
	if (!(flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)))
		return 0;
	if ((rm->new_addr & ~PAGE_MASK) || !guest_range_ok(rm->new_addr, rm->new_len))
		return -EINVAL;
	if ((flags & MREMAP_FIXED) && rm->new_addr < GUEST_MIN_ADDR)
		return -EPERM;
	if (rm->old < rm->new_addr + rm->new_len && rm->new_addr < rm->old + rm->old_len)
		return -EINVAL;
	return 0;
}

int64_t mm_remap(struct task *t, uint64_t old, uint64_t old_len, uint64_t new_len, int flags,
		 uint64_t new_addr)
{
	struct remap rm = { .t = t,
			    .mm = t->mm,
			    .old = old,
			    .old_len = old_len,
			    .new_len = new_len,
			    .new_addr = new_addr,
			    .flags = flags };
	struct mm *mm = t->mm;
	struct extent_list el = { 0 };
	struct file *f = NULL;
	uint64_t generation = 0, grow_from;
	int64_t r = check_args(&rm);

	if (r)
		return r;
	grow_from = rm.old_len < rm.new_len ? rm.old_len : rm.new_len;
	for (int tries = 0; tries < 16; tries++) {
		lock_acquire(&mm->lock);
		rm.v = vma_find(mm, rm.old);
		if (!rm.v) {
			lock_release(&mm->lock);
			r = -EFAULT;
			break;
		}
		if (!rm.v->file || rm.new_len <= rm.old_len ||
		    (f && generation == mm->generation)) {
			r = remap_locked(&rm, &el);
			mm_unlock(mm);
			break;
		}
		/* A file grows: ask where the new part is, without the lock, then look again. */
		struct vma key = *rm.v;

		if (f)
			file_put(f);
		f = file_get(key.file);
		generation = mm->generation;
		lock_release(&mm->lock);
		extents_free(&el);
		r = extents_gather(f, key.off + (rm.old - key.start) + grow_from,
				   rm.new_len - grow_from, (int)key.prot,
				   key.flags & VMA_SHARED ? MAP_SHARED : MAP_PRIVATE, &el);
		if (r)
			break;
		r = -EAGAIN;
	}
	extents_free(&el);
	if (f)
		file_put(f);
	return r;
}
