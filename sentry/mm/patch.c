/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which guest text the platform may rewrite so that a hot syscall site no longer traps: private
 * mappings of files that are executable and not writable. Anonymous memory is left alone, since
 * whoever makes code at run time may change it at any time.
 */
#include <sys/mman.h>

#include "platform/base/lock.h"
#include "sentry/mm/mm_priv.h"

void mm_patch_site(struct task *t, uint64_t after)
{
	struct mm *mm = t->mm;

	lock_acquire(&mm->lock);
	struct vma *v = vma_find(mm, after - 2);

	if (v && v->file && v->prot == (PROT_READ | PROT_EXEC) && !v->pkey &&
	    !(v->flags & (VMA_SHARED | VMA_SPECIAL | VMA_HOLES)))
		(void)context_patch(t->ctx, after, v->start, v->end);
	mm_unlock(mm);
}
