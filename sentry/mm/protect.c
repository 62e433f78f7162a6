/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of protection and of plain VMA properties over a range: mprotect, mseal, memory locks,
 * names. The rule for a gap is Linux's: what lies before it is changed, then -ENOMEM.
 */
#include <errno.h>
#include <linux/mman.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm_priv.h"

/* Rounds and checks a guest range; 0 and *end set, 1 for the empty range, or -EINVAL/-ENOMEM. */
static int range_args(uint64_t addr, uint64_t len, uint64_t *end, int overflow_err)
{
	if (addr & ~PAGE_MASK)
		return -EINVAL;
	if (len == 0)
		return 1;
	if (len > UINT64_MAX - PAGE_SIZE || __builtin_add_overflow(addr, page_up(len), end))
		return overflow_err;
	if (*end > GUEST_TASK_SIZE)
		return -ENOMEM;
	return 0;
}

static struct mem_op protect_op(uint64_t start, uint64_t end, int prot)
{
	return (struct mem_op){
		.kind = MEM_PROTECT, .addr = start, .len = end - start, .prot = prot, .fd = -1
	};
}

/* Host protection of [start, end), whose vmas are split at both ends. */
static int host_protect(struct mm *mm, struct context *ctx, uint64_t start, uint64_t end, int prot)
{
	size_t first = vma_index(mm, start), i;
	int holes = 0, err = 0;
	struct mem_op op;

	for (i = first; i < mm->vma_count && mm->vmas[i]->start < end; i++)
		holes |= mm->vmas[i]->flags & VMA_HOLES;
	if (!holes) {
		op = protect_op(start, end, prot);
		err = context_mem(ctx, &op, 1, NULL);
	} else {
		for (i = first; !err && i < mm->vma_count && mm->vmas[i]->start < end; i++) {
			struct vma *v = mm->vmas[i];

			op = protect_op(v->start, v->end, prot);
			err = context_mem(ctx, &op, 1, NULL);
			/* The host has nothing at the end of this one; the rest is done. */
			if (err == -ENOMEM && (v->flags & VMA_HOLES))
				err = 0;
		}
	}
	if (!err)
		return 0;
	/* Put back what may have been changed: the tree has not. */
	for (i = first; i < mm->vma_count && mm->vmas[i]->start < end; i++) {
		op = protect_op(mm->vmas[i]->start, mm->vmas[i]->end, (int)mm->vmas[i]->prot);
		(void)context_mem(ctx, &op, 1, NULL);
	}
	return err;
}

/* Walks the mapped run from start: what may not get prot ends it with an error. */
static int check_protect(struct task *t, uint64_t start, uint64_t end, uint32_t prot,
			 uint64_t *stop)
{
	struct mm *mm = t->mm;
	uint64_t data = 0, at = start;

	for (size_t i = vma_index(mm, start); at < end; i++) {
		struct vma *v = i < mm->vma_count ? mm->vmas[i] : NULL;
		uint64_t to;

		*stop = at;
		if (!v || v->start > at)
			return -ENOMEM;
		if ((prot & ~v->max_prot) || ((v->flags & VMA_SPECIAL) && (prot & PROT_WRITE)))
			return -EACCES;
		if (mm->mdwe && (prot & PROT_EXEC) && !(v->prot & PROT_EXEC))
			return -EACCES;
		to = v->end < end ? v->end : end;
		if ((prot & PROT_WRITE) && !(v->prot & PROT_WRITE) &&
		    !(v->flags & (VMA_SHARED | VMA_GROWSDOWN)))
			data += (to - at) / PAGE_SIZE;
		if (data && mm->data_pages + data > rlimit_cur(t, RLIMIT_DATA) / PAGE_SIZE)
			return -ENOMEM;
		at = to;
	}
	*stop = end;
	return 0;
}

static int protect_locked(struct task *t, uint64_t start, uint64_t end, int prot, int pkey)
{
	struct mm *mm = t->mm;
	uint64_t stop = start;
	int result, err;

	if (mm_range_sealed(mm, start, end))
		return -EPERM;
	result = check_protect(t, start, end, (uint32_t)prot, &stop);
	if (stop == start)
		return result;
	err = vma_split_at(mm, start);
	if (!err)
		err = vma_split_at(mm, stop);
	if (!err && (prot & PROT_WRITE)) /* patched sites are in text that nobody can write */
		err = context_unpatch(t->ctx, start, stop - start, PROT_READ | PROT_EXEC);
	if (!err)
		err = host_protect(mm, t->ctx, start, stop, prot);
	if (!err) {
		for (size_t i = vma_index(mm, start);
		     i < mm->vma_count && mm->vmas[i]->start < stop; i++) {
			vma_set_prot(mm, mm->vmas[i], (uint32_t)prot);
			if (pkey >= 0)
				mm->vmas[i]->pkey = pkey;
		}
		mm->generation++;
	}
	vma_merge_range(mm, start, stop);
	return err ? err : result;
}

int mm_protect(struct task *t, uint64_t addr, uint64_t len, int prot, int pkey)
{
	struct mm *mm = t->mm;
	int grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP), err;
	uint64_t end;

	prot &= ~(PROT_GROWSDOWN | PROT_GROWSUP);
	if (grows == (PROT_GROWSDOWN | PROT_GROWSUP))
		return -EINVAL;
	err = range_args(addr, len, &end, -ENOMEM);
	if (err)
		return err == 1 ? 0 : err;
	if (prot & ~(VMA_PROT_ALL | PROT_SEM))
		return -EINVAL;
	prot &= VMA_PROT_ALL;
	if (grows & PROT_GROWSUP)
		return -EINVAL; /* no upward stacks on x86 */
	lock_acquire(&mm->lock);
	if (grows) {
		size_t i = vma_index(mm, addr);
		struct vma *v = i < mm->vma_count ? mm->vmas[i] : NULL;

		if (!v || v->start >= end)
			err = -ENOMEM;
		else if (!(v->flags & VMA_GROWSDOWN))
			err = -EINVAL;
		else
			addr = v->start;
	}
	if (!err)
		err = protect_locked(t, addr, end, prot, pkey);
	mm_unlock(mm);
	return err;
}

/*
 * Replaces flag bits over [start, end): clear, then set. Changes what lies before a gap, then
 * -ENOMEM. Needs no host order.
 */
static int change_flags(struct mm *mm, uint64_t start, uint64_t end, uint32_t clear, uint32_t set)
{
	uint64_t at = start;
	int err = vma_split_at(mm, start);

	if (!err)
		err = vma_split_at(mm, end);
	if (err)
		return err;
	for (size_t i = vma_index(mm, start); at < end; i++) {
		struct vma *v = i < mm->vma_count ? mm->vmas[i] : NULL;

		if (!v || v->start > at) {
			err = -ENOMEM;
			break;
		}
		vma_set_flags(mm, v, (v->flags & ~clear) | set);
		at = v->end;
	}
	mm->generation++;
	vma_merge_range(mm, start, end);
	return err;
}

int mm_seal(struct task *t, uint64_t addr, uint64_t len)
{
	struct mm *mm = t->mm;
	uint64_t end;
	int err = range_args(addr, len, &end, -EINVAL);

	if (err)
		return err == 1 ? 0 : err;
	lock_acquire(&mm->lock);
	/* All or nothing, unlike mprotect. */
	err = mm_range_mapped(mm, addr, end - addr) ? 0 : -ENOMEM;
	if (!err)
		err = change_flags(mm, addr, end, 0, VMA_SEALED);
	mm_unlock(mm);
	return err;
}

/* ---- memory locks: counted and populated; the host's own mlock is not used ---- */

static uint64_t locked_in_range(const struct mm *mm, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;

	for (size_t i = vma_index(mm, start); i < mm->vma_count && mm->vmas[i]->start < end; i++) {
		const struct vma *v = mm->vmas[i];
		uint64_t a = v->start > start ? v->start : start, b = v->end < end ? v->end : end;

		if (v->flags & VMA_LOCKED)
			sum += (b - a) / PAGE_SIZE;
	}
	return sum;
}

/* Faults the pages in, best effort. */
static void populate(struct mm *mm, struct context *ctx, uint64_t start, uint64_t end)
{
	for (size_t i = vma_index(mm, start); i < mm->vma_count && mm->vmas[i]->start < end; i++) {
		struct vma *v = mm->vmas[i];
		struct mem_op op = { .kind = MEM_ADVISE, .fd = -1 };

		if (!(v->prot & (PROT_READ | PROT_WRITE)) || (v->flags & VMA_LOCKONFAULT))
			continue;
		op.addr = v->start > start ? v->start : start;
		op.len = (v->end < end ? v->end : end) - op.addr;
		op.flags = (v->prot & PROT_WRITE) && !(v->flags & VMA_SHARED) ? MADV_POPULATE_WRITE
									      : MADV_POPULATE_READ;
		(void)context_mem(ctx, &op, 1, NULL);
	}
}

int mm_lock_range(struct task *t, uint64_t addr, uint64_t len, uint32_t vma_flags)
{
	struct mm *mm = t->mm;
	uint64_t start = page_down(addr), end, limit;
	int err = 0;

	limit = rlimit_cur(t, RLIMIT_MEMLOCK) / PAGE_SIZE;
	if (vma_flags && limit == 0 && !cred_has_cap(task_cred(t), CAP_IPC_LOCK))
		return -EPERM;
	if (__builtin_add_overflow(len, addr - start, &len) || len > UINT64_MAX - PAGE_SIZE ||
	    __builtin_add_overflow(start, page_up(len), &end))
		return len ? -EINVAL : 0;
	if (end == start)
		return 0;
	if (end > GUEST_TASK_SIZE)
		return -ENOMEM;
	lock_acquire(&mm->lock);
	if (vma_flags && !cred_has_cap(task_cred(t), CAP_IPC_LOCK) &&
	    mm->locked_pages + (end - start) / PAGE_SIZE - locked_in_range(mm, start, end) > limit)
		err = -ENOMEM;
	if (!err)
		err = change_flags(mm, start, end, VMA_LOCKED | VMA_LOCKONFAULT, vma_flags);
	if (!err && vma_flags)
		populate(mm, t->ctx, start, end);
	mm_unlock(mm);
	return err;
}

int mm_lock_all(struct task *t, int mcl_flags)
{
	struct mm *mm = t->mm;
	uint32_t set = VMA_LOCKED | (mcl_flags & MCL_ONFAULT ? VMA_LOCKONFAULT : 0);
	int err = 0;

	lock_acquire(&mm->lock);
	if ((mcl_flags & MCL_CURRENT) && !cred_has_cap(task_cred(t), CAP_IPC_LOCK) &&
	    mm->total_pages > rlimit_cur(t, RLIMIT_MEMLOCK) / PAGE_SIZE)
		err = -ENOMEM;
	if (!err) {
		mm->def_flags = mcl_flags & MCL_FUTURE ? set : 0;
		if (!mcl_flags || (mcl_flags & MCL_CURRENT)) {
			for (size_t i = 0; i < mm->vma_count; i++) {
				struct vma *v = mm->vmas[i];
				uint32_t keep = v->flags & ~(VMA_LOCKED | VMA_LOCKONFAULT);

				if (!(v->flags & VMA_SPECIAL))
					vma_set_flags(mm, v, keep | (mcl_flags ? set : 0));
			}
			vma_merge_range(mm, 0, GUEST_TASK_SIZE);
			if (mcl_flags && !(mcl_flags & MCL_ONFAULT))
				populate(mm, t->ctx, 0, GUEST_TASK_SIZE);
		}
	}
	mm_unlock(mm);
	return err;
}

int mm_set_name(struct task *t, uint64_t addr, uint64_t len, const char *name)
{
	struct mm *mm = t->mm;
	uint64_t end, at = addr;
	int err = range_args(addr, len, &end, -ENOMEM);

	if (err)
		return err == 1 ? 0 : err;
	lock_acquire(&mm->lock);
	err = vma_split_at(mm, addr);
	if (!err)
		err = vma_split_at(mm, end);
	for (size_t i = vma_index(mm, addr); !err && at < end; i++) {
		struct vma *v = i < mm->vma_count ? mm->vmas[i] : NULL;
		char *copy = NULL;

		if (!v || v->start > at) {
			err = -ENOMEM;
			break;
		}
		at = v->end;
		if (v->file || (v->flags & VMA_SPECIAL)) {
			err = -EBADF;
			break;
		}
		if (name && !(copy = strdup(name))) {
			err = -ENOMEM;
			break;
		}
		free(v->name);
		v->name = copy;
	}
	vma_merge_range(mm, addr, end);
	mm_unlock(mm);
	return err;
}
