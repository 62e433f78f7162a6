/* SPDX-License-Identifier: Apache-2.0 */
/* brk(2): the data segment's end. Failure is the unchanged break, never an errno. */
#include <errno.h>

#include "sentry/mm/mm_priv.h"

static int grow(struct task *t, uint64_t from, uint64_t to)
{
	struct mm *mm = t->mm;
	uint64_t pages = (to - from) / PAGE_SIZE;
	struct vma *v;
	int err;

	if (!vma_range_free(mm, from, to + PAGE_SIZE, 1) || mm->vma_count >= MAX_MAP_COUNT)
		return -ENOMEM;
	if (!mm_may_expand(t, mm, pages, 1) || !mm_overcommit_ok(mm, pages))
		return -ENOMEM;
	if ((mm->def_flags & VMA_LOCKED) && mm_may_lock(t, mm, pages))
		return -ENOMEM;
	err = vma_reserve(mm, 1);
	if (err)
		return err;
	v = vma_new(from, to, PROT_READ | PROT_WRITE, VMA_PROT_ALL, mm->def_flags, NULL, 0, NULL);
	if (!v)
		return -ENOMEM;
	err = host_map(t->ctx, from, to - from, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | (mm->def_flags & VMA_LOCKED ? MAP_POPULATE : 0), NULL, 0);
	if (err) {
		vma_free(v);
		return err;
	}
	vma_insert(mm, v);
	vma_merge_range(mm, from, to);
	return 0;
}

uint64_t mm_brk(struct task *t, uint64_t addr)
{
	struct mm *mm = t->mm;
	uint64_t old_end, new_end, result, data_limit = rlimit_cur(t, RLIMIT_DATA);

	lock_acquire(&mm->lock);
	result = mm->brk;
	if (addr < mm->brk_start || addr > GUEST_TASK_SIZE - 2 * PAGE_SIZE)
		goto out;
	if (data_limit != RLIM_INFINITY &&
	    addr - mm->brk_start + (mm->end_data - mm->start_data) > data_limit)
		goto out;
	old_end = page_up(mm->brk);
	new_end = page_up(addr);
	if (new_end < old_end) {
		if (mm_unmap_locked(mm, t->ctx, new_end, old_end))
			goto out;
	} else if (new_end > old_end) {
		if (grow(t, old_end, new_end))
			goto out;
	}
	mm->brk = result = addr;
out:
	mm_unlock(mm);
	return result;
}
