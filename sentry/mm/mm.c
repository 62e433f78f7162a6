/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a guest address space: creation, duplication by fork, end. The VMAs are vma.c's, the
 * orders that change memory map.c's and its neighbours'.
 */
#include "sentry/mm/mm.h"

#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm_priv.h"

struct mm *mm_new(struct kernel *k, struct addrspace *as)
{
	struct mm *mm = calloc(1, sizeof(*mm));

	if (!mm)
		return NULL;
	ref_init(&mm->ref);
	mm->k = k;
	mm->as = as;
	lock_init(&mm->lock, RANK_MM);
	/* The loader lowers this for the stack's size and randomisation. */
	mm->mmap_base = GUEST_TASK_SIZE;
	mm->dumpable = 1;
	mm->pkeys = 1;
	return mm;
}

struct mm *mm_get(struct mm *mm)
{
	ref_get(&mm->ref);
	return mm;
}

void mm_put(struct mm *mm)
{
	if (!mm || !ref_put(&mm->ref))
		return;
	/* The host process first: file pages may be reused once the vmas drop their files. */
	addrspace_put(mm->as);
	for (size_t i = 0; i < mm->vma_count; i++)
		vma_free(mm->vmas[i]);
	free(mm->vmas);
	mm_batch_free(mm);
	if (mm->exe)
		file_put(mm->exe);
	if (mm->aio)
		aio_table_free(mm->aio);
	lock_destroy(&mm->lock);
	free(mm);
}

/* Copies what the child inherits; DONTFORK ranges vanish, memory locks are not inherited. */
static int copy_vmas(struct mm *from, struct mm *to)
{
	int err = vma_reserve(to, from->vma_count);

	for (size_t i = 0; !err && i < from->vma_count; i++) {
		struct vma *v;

		if (from->vmas[i]->flags & VMA_DONTFORK)
			continue;
		v = vma_dup(from->vmas[i]);
		if (!v)
			return -ENOMEM;
		v->flags &= ~(VMA_LOCKED | VMA_LOCKONFAULT);
		to->vmas[to->vma_count++] = v;
		vma_account(to, v, 1);
	}
	return err;
}

static void copy_fields(const struct mm *from, struct mm *to)
{
	to->brk_start = from->brk_start;
	to->brk = from->brk;
	to->mmap_base = from->mmap_base;
	to->stack_top = from->stack_top;
	to->arg_start = from->arg_start;
	to->arg_end = from->arg_end;
	to->env_start = from->env_start;
	to->env_end = from->env_end;
	to->start_code = from->start_code;
	to->end_code = from->end_code;
	to->start_data = from->start_data;
	to->end_data = from->end_data;
	to->start_stack = from->start_stack;
	to->vdso = from->vdso;
	memcpy(to->auxv, from->auxv, sizeof(to->auxv));
	to->auxv_count = from->auxv_count;
	to->exe = from->exe ? file_get(from->exe) : NULL;
	to->dumpable = __atomic_load_n(&from->dumpable, __ATOMIC_RELAXED);
	to->mdwe = from->mdwe;
	to->pkeys = from->pkeys;
	to->rss_pages = from->rss_pages;
}

struct mm *mm_fork(struct task *t, struct context **child_ctx)
{
	struct mm *from = t->mm, *to;
	int err;

	to = mm_new(t->k, NULL);
	if (!to)
		return ERR_PTR(-ENOMEM);
	lock_acquire(&from->lock);
	lock_acquire_nested(&to->lock);
	copy_fields(from, to);
	err = copy_vmas(from, to);
	if (!err)
		err = addrspace_fork(t->ctx, &to->as, child_ctx);
	lock_release(&to->lock);
	lock_release(&from->lock);
	if (err) {
		for (size_t i = 0; i < to->vma_count; i++)
			vma_free(to->vmas[i]);
		free(to->vmas);
		if (to->exe)
			file_put(to->exe);
		lock_destroy(&to->lock);
		free(to);
		return ERR_PTR(err);
	}
	return to;
}

struct mm *task_mm_get(struct task *t)
{
	struct mm *mm;

	lock_acquire(&t->k->tasks_lock);
	mm = t->mm;
	if (mm)
		mm_get(mm);
	lock_release(&t->k->tasks_lock);
	return mm;
}
