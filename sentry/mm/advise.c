/* SPDX-License-Identifier: Apache-2.0 */
/*
 * madvise, mincore, msync: advice and questions about mapped memory. Each advice is a row in a
 * table: what it needs of a vma, and whether the host is told.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <linux/mman.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/mm/mm_priv.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#define ADV_HOST	 1u  /* ordered on the host too */
#define ADV_NOT_LOCKED	 2u  /* -EINVAL for locked memory */
#define ADV_ANON	 4u  /* -EINVAL unless private anonymous */
#define ADV_DISCARDS	 8u  /* loses data: refused for sealed read-only memory */
#define ADV_NOT_SPECIAL	 16u /* -EINVAL for the vdso and its like */
#define ADV_HOST_MATTERS 32u /* the host's error is the call's */
#define ADV_LATE	 64u /* file work, done without the lock (REMOVE) */

struct advice_rule {
	int advice;
	uint32_t rules;
	uint32_t set, clear; /* VMA_* */
};

static const struct advice_rule g_rules[] = {
	{ MADV_NORMAL, 0, 0, 0 },
	{ MADV_RANDOM, 0, 0, 0 },
	{ MADV_SEQUENTIAL, 0, 0, 0 },
	{ MADV_WILLNEED, 0, 0, 0 },
	{ MADV_DONTNEED, ADV_HOST | ADV_NOT_LOCKED | ADV_DISCARDS | ADV_NOT_SPECIAL, 0, 0 },
	{ MADV_DONTNEED_LOCKED, ADV_HOST | ADV_DISCARDS | ADV_NOT_SPECIAL, 0, 0 },
	{ MADV_FREE, ADV_HOST | ADV_NOT_LOCKED | ADV_ANON | ADV_DISCARDS | ADV_NOT_SPECIAL, 0, 0 },
	{ MADV_REMOVE, ADV_LATE | ADV_NOT_LOCKED | ADV_DISCARDS, 0, 0 },
	{ MADV_DONTFORK, ADV_HOST, VMA_DONTFORK, 0 },
	{ MADV_DOFORK, ADV_HOST | ADV_NOT_SPECIAL, 0, VMA_DONTFORK },
	{ MADV_WIPEONFORK, ADV_HOST | ADV_ANON, VMA_WIPEONFORK, 0 },
	{ MADV_KEEPONFORK, ADV_HOST, 0, VMA_WIPEONFORK },
	{ MADV_DONTDUMP, 0, VMA_DONTDUMP, 0 },
	{ MADV_DODUMP, ADV_NOT_SPECIAL, 0, VMA_DONTDUMP },
	{ MADV_MERGEABLE, 0, 0, 0 },
	{ MADV_UNMERGEABLE, 0, 0, 0 },
	{ MADV_HUGEPAGE, ADV_HOST, VMA_HUGEPAGE, VMA_NOHUGEPAGE },
	{ MADV_NOHUGEPAGE, ADV_HOST, VMA_NOHUGEPAGE, VMA_HUGEPAGE },
	{ MADV_COLD, ADV_HOST | ADV_NOT_LOCKED, 0, 0 },
	{ MADV_PAGEOUT, ADV_HOST | ADV_NOT_LOCKED, 0, 0 },
	{ MADV_POPULATE_READ, ADV_HOST | ADV_HOST_MATTERS, 0, 0 },
	{ MADV_POPULATE_WRITE, ADV_HOST | ADV_HOST_MATTERS, 0, 0 },
	{ MADV_COLLAPSE, ADV_HOST | ADV_HOST_MATTERS | ADV_NOT_SPECIAL, 0, 0 },
};

static const struct advice_rule *find_rule(int advice)
{
	for (size_t i = 0; i < sizeof(g_rules) / sizeof(g_rules[0]); i++) {
		if (g_rules[i].advice == advice)
			return &g_rules[i];
	}
	return NULL;
}

static int check_vma(const struct advice_rule *rule, const struct vma *v)
{
	if ((rule->rules & ADV_NOT_LOCKED) && (v->flags & VMA_LOCKED))
		return -EINVAL;
	if ((rule->rules & ADV_NOT_SPECIAL) && (v->flags & VMA_SPECIAL))
		return -EINVAL;
	if ((rule->rules & ADV_ANON) && (v->file || (v->flags & VMA_SHARED)))
		return -EINVAL;
	if ((rule->rules & ADV_DISCARDS) && (v->flags & VMA_SEALED) && !(v->prot & PROT_WRITE) &&
	    !v->file)
		return -EPERM;
	if (rule->advice == MADV_REMOVE) {
		if (!v->file)
			return -EINVAL;
		if (!(v->flags & VMA_SHARED) || !(v->max_prot & PROT_WRITE))
			return -EACCES;
	}
	if (rule->advice == MADV_POPULATE_WRITE && !(v->prot & PROT_WRITE))
		return -EINVAL;
	if (rule->advice == MADV_POPULATE_READ && !(v->prot & (PROT_READ | PROT_EXEC)))
		return -EINVAL;
	return 0;
}

/* The host's part for [start, end), inside one vma. */
static int host_advise(struct context *ctx, const struct advice_rule *rule, const struct vma *v,
		       uint64_t start, uint64_t end)
{
	struct mem_op op = { .kind = MEM_ADVISE,
			     .addr = start,
			     .len = end - start,
			     .flags = rule->advice == MADV_DONTNEED_LOCKED ? MADV_DONTNEED
									   : rule->advice,
			     .fd = -1 };
	int err = context_mem(ctx, &op, 1, NULL);

	/* Where a file has ended nothing is mapped on the host. */
	if (err == -ENOMEM && (v->flags & VMA_HOLES))
		err = rule->rules & ADV_HOST_MATTERS ? -EFAULT : 0;
	if (rule->rules & ADV_HOST_MATTERS)
		return err;
	/* Hints that the host can not take (no THP, no swap) are still hints. Losing data and fork
	 * behaviour are not. */
	if (rule->set & (VMA_DONTFORK | VMA_WIPEONFORK))
		return err;
	return rule->rules & ADV_DISCARDS ? err : 0;
}

/* MADV_REMOVE on one piece: punches the file. The lock is dropped meanwhile. */
static int remove_range(struct task *t, const struct vma *v, uint64_t start, uint64_t end)
{
	struct file *f = file_get(v->file);
	int64_t off = (int64_t)(v->off + (start - v->start));
	int err;

	mm_unlock(t->mm);
	err = file_fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off,
			     (int64_t)(end - start), UINT64_MAX);
	file_put(f);
	lock_acquire(&t->mm->lock);
	return err;
}

static int advise_locked(struct task *t, const struct advice_rule *rule, uint64_t start,
			 uint64_t end)
{
	struct mm *mm = t->mm;
	uint64_t at = start;
	int gap = 0, err = 0;

	while (at < end) {
		size_t i = vma_index(mm, at);
		struct vma *v = i < mm->vma_count ? mm->vmas[i] : NULL;
		uint64_t to;

		if (!v || v->start >= end) {
			gap = 1;
			break;
		}
		if (v->start > at) {
			gap = 1;
			/* POPULATE stops at a gap, the others skip it. */
			if (rule->rules & ADV_HOST_MATTERS)
				break;
			at = v->start;
		}
		to = v->end < end ? v->end : end;
		err = check_vma(rule, v);
		if (err)
			break;
		if (rule->rules & ADV_LATE) {
			err = remove_range(t, v, at, to);
			if (err)
				break;
			at = to;
			continue;
		}
		if (rule->rules & ADV_HOST)
			err = host_advise(t->ctx, rule, v, at, to);
		if (err)
			break;
		if ((v->flags & rule->clear) || (v->flags & rule->set) != rule->set) {
			err = vma_split_at(mm, at);
			if (!err)
				err = vma_split_at(mm, to);
			if (err)
				break;
			v = vma_find(mm, at);
			vma_set_flags(mm, v, (v->flags & ~rule->clear) | rule->set);
			mm->generation++;
		}
		at = to;
	}
	if (rule->set | rule->clear)
		vma_merge_range(mm, start, end);
	return err ? err : gap ? -ENOMEM : 0;
}

int mm_advise(struct task *t, uint64_t addr, uint64_t len, int advice)
{
	const struct advice_rule *rule = find_rule(advice);
	uint64_t end;
	int err;

	if (!rule) {
		if (advice == MADV_HWPOISON || advice == MADV_SOFT_OFFLINE)
			return -EPERM;
		log_once("madvise advice %d is not known: EINVAL", advice);
		return -EINVAL;
	}
	if (addr & ~PAGE_MASK)
		return -EINVAL;
	if (len > UINT64_MAX - PAGE_SIZE || __builtin_add_overflow(addr, page_up(len), &end))
		return -EINVAL;
	if (end == addr)
		return 0;
	if (end > GUEST_TASK_SIZE)
		end = GUEST_TASK_SIZE;
	if (addr >= end)
		return -ENOMEM;
	lock_acquire(&t->mm->lock);
	err = advise_locked(t, rule, addr, end);
	mm_unlock(t->mm);
	return err;
}

#define INCORE_PAGES 4096u

int mm_incore(struct task *t, uint64_t addr, uint64_t len, uint64_t vec)
{
	struct mm *mm = t->mm;
	uint8_t *buf;
	uint64_t end;
	int err = 0;

	if (addr & ~PAGE_MASK)
		return -EINVAL;
	if (len > GUEST_TASK_SIZE || !guest_range_ok(addr, page_up(len)))
		return -ENOMEM;
	end = addr + page_up(len);
	if (!guest_range_ok(vec, (end - addr) / PAGE_SIZE))
		return -EFAULT;
	buf = malloc(INCORE_PAGES);
	if (!buf)
		return -ENOMEM;
	while (addr < end && !err) {
		uint64_t chunk = end - addr;
		size_t i;

		if (chunk > INCORE_PAGES * PAGE_SIZE)
			chunk = INCORE_PAGES * PAGE_SIZE;
		memset(buf, 0, INCORE_PAGES);
		lock_acquire(&mm->lock);
		if (!mm_range_mapped(mm, addr, chunk))
			err = -ENOMEM;
		for (i = vma_index(mm, addr);
		     !err && i < mm->vma_count && mm->vmas[i]->start < addr + chunk; i++) {
			struct vma *v = mm->vmas[i];
			uint64_t from = v->start > addr ? v->start : addr;
			uint64_t to = v->end < addr + chunk ? v->end : addr + chunk;
			struct mem_op op = { .kind = MEM_INCORE,
					     .addr = from,
					     .len = to - from,
					     .fd = -1,
					     .buf = buf + (from - addr) / PAGE_SIZE };

			err = context_mem(t->ctx, &op, 1, NULL);
			if (err == -ENOMEM && (v->flags & VMA_HOLES))
				err = 0;
		}
		mm_unlock(mm);
		for (i = 0; i < chunk / PAGE_SIZE; i++)
			buf[i] &= 1;
		if (!err && copy_to_user(t, vec, buf, chunk / PAGE_SIZE))
			err = -EFAULT;
		vec += chunk / PAGE_SIZE;
		addr += chunk;
	}
	free(buf);
	return err;
}

int mm_sync(struct task *t, uint64_t addr, uint64_t len, int flags)
{
	struct mm *mm = t->mm;
	uint64_t end;
	int err = 0, gap = 0;

	if (flags & ~(MS_ASYNC | MS_INVALIDATE | MS_SYNC))
		return -EINVAL;
	if ((addr & ~PAGE_MASK) || ((flags & MS_ASYNC) && (flags & MS_SYNC)))
		return -EINVAL;
	if (len > UINT64_MAX - PAGE_SIZE || __builtin_add_overflow(addr, page_up(len), &end))
		return -ENOMEM;
	while (addr < end && !err) {
		struct file *f = NULL;
		struct vma *v;
		uint64_t to;
		int64_t off = 0;
		size_t i;

		lock_acquire(&mm->lock);
		i = vma_index(mm, addr);
		v = i < mm->vma_count ? mm->vmas[i] : NULL;
		if (!v || v->start >= end) {
			lock_release(&mm->lock);
			return -ENOMEM;
		}
		if (v->start > addr) {
			gap = 1;
			addr = v->start;
		}
		if ((flags & MS_INVALIDATE) && (v->flags & VMA_LOCKED))
			err = -EBUSY;
		to = v->end < end ? v->end : end;
		if ((flags & MS_SYNC) && v->file && (v->flags & VMA_SHARED)) {
			f = file_get(v->file);
			off = (int64_t)(v->off + (addr - v->start));
		}
		lock_release(&mm->lock);
		if (f) {
			if (!err)
				err = file_fsync(f, off, off + (int64_t)(to - addr) - 1, 1);
			if (err == -EINVAL)
				err = 0; /* nothing to sync there: memory */
			file_put(f);
		}
		addr = to;
	}
	return err ? err : gap ? -ENOMEM : 0;
}
