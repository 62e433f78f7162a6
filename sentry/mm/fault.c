/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few page faults that are the kernel's business: a GROWSDOWN stack that must grow, and a
 * file mapping whose file has grown since it was mapped. All other faults are the guest's own and
 * become signals. Demand paging and copy-on-write are the host's.
 */
#include <errno.h>
#include <signal.h>

#include "sentry/mm/mm_priv.h"

/* Growth in steps, so that deep recursion does not fault on every page. */
#define STACK_STEP (32 * GUEST_PAGE_SIZE)

/* The lowest start that vma i may grow to. */
static uint64_t stack_floor(struct task *t, const struct mm *mm, size_t i)
{
	const struct vma *v = mm->vmas[i];
	uint64_t limit = rlimit_cur(t, RLIMIT_STACK), floor = GUEST_MIN_ADDR;

	if (i && (mm->vmas[i - 1]->prot & VMA_PROT_ALL) &&
	    !(mm->vmas[i - 1]->flags & VMA_GROWSDOWN))
		floor = mm->vmas[i - 1]->end + STACK_GUARD_GAP;
	else if (i)
		floor = mm->vmas[i - 1]->end;
	if (limit < v->end && page_up(v->end - limit) > floor)
		floor = page_up(v->end - limit);
	return floor;
}

int mm_grow_stack_locked(struct task *t, uint64_t addr)
{
	struct mm *mm = t->mm;
	size_t i = vma_index(mm, addr);
	struct vma *v = i < mm->vma_count ? mm->vmas[i] : NULL;
	uint64_t want = page_down(addr), floor, pages;
	int err;

	if (!v || v->start <= addr)
		return v && v->start <= addr ? 0 : -EFAULT;
	if (!(v->flags & VMA_GROWSDOWN))
		return -EFAULT;
	floor = stack_floor(t, mm, i);
	if (want < floor)
		return -ENOMEM;
	if (want - floor > STACK_STEP && v->start - want < STACK_STEP && v->start > STACK_STEP)
		want = v->start - STACK_STEP;
	pages = (v->start - want) / PAGE_SIZE;
	if (!mm_may_expand(t, mm, pages, 0))
		return -ENOMEM;
	if ((v->flags & VMA_LOCKED) && mm_may_lock(t, mm, pages))
		return -ENOMEM;
	err = host_map(t->ctx, want, v->start - want, (int)v->prot, host_flags_of(v), NULL,
		       v->flags);
	if (err)
		return -ENOMEM;
	vma_account(mm, v, -1);
	v->start = want;
	vma_account(mm, v, 1);
	mm->generation++;
	return 0;
}

int mm_grow_stack(struct task *t, uint64_t addr)
{
	int err;

	lock_acquire(&t->mm->lock);
	err = mm_grow_stack_locked(t, addr);
	mm_unlock(t->mm);
	return err;
}

/*
 * Maps the whole of v's file range again as far as the file now reaches beyond what is mapped at
 * addr. Called without the lock; the vma may change meanwhile, so everything is checked again.
 * 1: something was mapped at addr, 0: still a hole.
 */
static int fill_hole(struct task *t, uint64_t addr)
{
	struct mm *mm = t->mm;
	struct extent_list el = { 0 };
	struct vma key, *v;
	struct file *f;
	uint64_t at = page_down(addr);
	int filled = 0;

	lock_acquire(&mm->lock);
	v = vma_find(mm, at);
	if (!v || !v->file || !(v->flags & VMA_HOLES)) {
		lock_release(&mm->lock);
		return 0;
	}
	key = *v;
	f = file_get(v->file);
	lock_release(&mm->lock);

	/* The page alone: below it there may be private copies that must not be replaced. */
	if (extents_gather(f, key.off + (at - key.start), PAGE_SIZE, (int)key.prot,
			   key.flags & VMA_SHARED ? MAP_SHARED : MAP_PRIVATE, &el) == 0 &&
	    el.mapped && !el.anon) {
		lock_acquire(&mm->lock);
		v = vma_find(mm, at);
		if (v && v->file == f && (v->flags & VMA_HOLES) &&
		    v->off + (at - v->start) == key.off + (at - key.start)) {
			uint8_t present = 0;
			struct mem_op op = { .kind = MEM_INCORE,
					     .addr = at,
					     .len = PAGE_SIZE,
					     .fd = -1,
					     .buf = &present };

			/* mincore fails with ENOMEM exactly where nothing is mapped. */
			if (context_mem(t->ctx, &op, 1, NULL) == -ENOMEM)
				filled = host_map(t->ctx, at, PAGE_SIZE, (int)v->prot,
						  host_flags_of(v), &el, v->flags) == 0;
			else
				filled = 1;
		}
		mm_unlock(mm);
	}
	extents_free(&el);
	file_put(f);
	return filled;
}

void mm_fill_holes(struct task *t, uint64_t addr, uint64_t len)
{
	struct mm *mm = t->mm;
	uint64_t end;

	if (!__atomic_load_n(&mm->hole_vmas, __ATOMIC_RELAXED) || !guest_range_ok(addr, len))
		return;
	end = addr + len;
	for (uint64_t at = page_down(addr); at < end;) {
		struct vma *v;
		size_t i;
		uint64_t next, file_end = 0;

		lock_acquire(&mm->lock);
		i = vma_index(mm, at);
		v = i < mm->vma_count ? mm->vmas[i] : NULL;
		if (!v || v->start >= end) {
			lock_release(&mm->lock);
			return;
		}
		if (at < v->start)
			at = v->start;
		next = v->end;
		if ((v->flags & VMA_HOLES) && v->file && v->file->inode) {
			uint64_t size = page_up(v->file->inode->size & ~(1ull << 63));

			file_end = size > v->off ? v->start + (size - v->off) : v->start;
		}
		lock_release(&mm->lock);
		if (next > end)
			next = end;
		for (; at < next && at < file_end; at += PAGE_SIZE) {
			if (!fill_hole(t, at))
				break;
		}
		at = next;
	}
}

/* Does a vma give `access` there? A host fault then was stale, or the two have come apart. */
static int vma_permits(const struct vma *v, uint32_t access)
{
	uint32_t need = access & FAULT_WRITE  ? PROT_WRITE
			: access & FAULT_EXEC ? PROT_EXEC
					      : PROT_READ | PROT_WRITE | PROT_EXEC;

	return (v->prot & need) != 0;
}

int mm_mend(struct task *t, uint64_t addr, uint32_t access, int may_fill)
{
	struct mm *mm = t->mm;
	struct vma *v;
	int hole = 0, grown;

	if (!guest_range_ok(addr, 1))
		return 0;
	lock_acquire(&mm->lock);
	v = vma_find(mm, addr);
	if (v) {
		hole = (v->flags & VMA_HOLES) && vma_permits(v, access);
		lock_release(&mm->lock);
		return hole && may_fill && fill_hole(t, addr);
	}
	grown = mm_grow_stack_locked(t, addr) == 0;
	mm_unlock(mm);
	return grown;
}

int mm_fault(struct task *t, struct platform_event *ev)
{
	struct mm *mm = t->mm;
	uint64_t addr = ev->fault.addr;
	struct vma *v;
	uint32_t flags = 0;
	int permits = 0, again = 0;

	/* General protection and the like carry no address. */
	if ((ev->fault.trapno != 14 && ev->fault.trapno != 0) || !guest_range_ok(addr, 1))
		return -EFAULT;
	if (mm_mend(t, addr, ev->fault.access, 1))
		return 0;
	lock_acquire(&mm->lock);
	v = vma_find(mm, addr);
	if (v) {
		flags = v->flags;
		permits = vma_permits(v, ev->fault.access);
	}
	/*
	 * Allowed by the tree but refused by the host: another thread has just mended it, so the
	 * access is retried, but only a few times in a row.
	 */
	if (v && permits && ev->fault.signo == SIGSEGV && !(flags & VMA_HOLES) &&
	    ev->fault.code != SEGV_PKUERR) {
		if (mm->fault_addr != addr) {
			mm->fault_addr = addr;
			mm->fault_tries = 0;
		}
		again = ++mm->fault_tries <= 3;
		if (!again)
			mm->fault_addr = 0;
	}
	lock_release(&mm->lock);
	if (again)
		return 0;
	if (v && (flags & VMA_HOLES) && permits) {
		ev->fault.signo = SIGBUS;
		ev->fault.code = BUS_ADRERR;
	} else if (ev->fault.signo == SIGSEGV && ev->fault.code != SEGV_PKUERR) {
		ev->fault.code = v ? SEGV_ACCERR : SEGV_MAPERR;
	}
	return -EFAULT;
}
