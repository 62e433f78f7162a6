/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmap and munmap: address choice, permission and limit checks, the VMA tree and the host orders.
 * Changes of existing mappings are protect.c, remap.c and advise.c.
 *
 * Order of work: the filesystem is asked where the bytes are before mm->lock is taken (its locks
 * rank lower); under the lock all allocations are made first, then the host is ordered, then the
 * tree is changed, which can not fail. When the host fails half-way the range is unmapped in both,
 * as Linux leaves it after a failed MAP_FIXED.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/personality.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "sentry/mm/mm_priv.h"
#include "vfs/tmpfs/tmpfs.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MAP_UNINITIALIZED
#define MAP_UNINITIALIZED 0x4000000
#endif
#define MAP_DROPPABLE_BIT 0x08

/* MAP_SHARED_VALIDATE refuses flags outside this set (MAP_SYNC needs DAX files: none here). */
#define MAP_KNOWN_FLAGS                                                                            \
	(MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_32BIT | MAP_GROWSDOWN |        \
	 MAP_DENYWRITE | MAP_EXECUTABLE | MAP_LOCKED | MAP_NORESERVE | MAP_POPULATE |              \
	 MAP_NONBLOCK | MAP_STACK | MAP_HUGETLB | MAP_FIXED_NOREPLACE | MAP_UNINITIALIZED |        \
	 (0x3fu << MAP_HUGE_SHIFT))

static uint64_t g_host_ram_pages;

/* Before main, and so before the sentry's own lockdown: sysinfo(2) is not on its list. */
__attribute__((constructor)) static void read_host_ram(void)
{
	struct sysinfo si;

	if (sysinfo(&si) == 0)
		g_host_ram_pages = (si.totalram + si.totalswap) * si.mem_unit / GUEST_PAGE_SIZE;
}

/* ---- where file bytes are ---- */

static int extents_add(struct extent_list *el, const struct map_extent *e)
{
	struct map_extent *last = el->count ? &el->v[el->count - 1] : NULL;

	el->mapped += e->len;
	if (last && last->fd == e->fd && last->off + last->len == e->off) {
		last->len += e->len;
		return 0;
	}
	if (el->count == el->cap) {
		size_t cap = el->cap ? el->cap * 2 : 4;
		struct map_extent *n;

		if (cap > 2 * MAX_MAP_COUNT)
			return -ENOMEM;
		n = realloc(el->v, cap * sizeof(*n));
		if (!n)
			return -ENOMEM;
		el->v = n;
		el->cap = cap;
	}
	el->v[el->count++] = *e;
	return 0;
}

int extents_gather(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
		   struct extent_list *el)
{
	memset(el, 0, sizeof(*el));
	while (el->mapped < len) {
		struct map_extent e = { .fd = -1 };
		int err =
			f->ops->map_extent(f, off + el->mapped, len - el->mapped, prot, flags, &e);

		if (err == -ENXIO)
			return 0;
		if (err == -ENODATA && el->mapped == 0) {
			el->anon = 1;
			el->mapped = len;
			return 0;
		}
		if (!err && (e.len == 0 || ((e.off | e.len) & ~PAGE_MASK)))
			err = -EIO;
		if (!err) {
			if (e.len > len - el->mapped)
				e.len = len - el->mapped;
			err = extents_add(el, &e);
		}
		if (err) {
			extents_free(el);
			return err;
		}
	}
	return 0;
}

void extents_free(struct extent_list *el)
{
	free(el->v);
	memset(el, 0, sizeof(*el));
}

/* ---- host orders ---- */

int host_flags_of(const struct vma *v)
{
	return (v->flags & VMA_SHARED ? MAP_SHARED : MAP_PRIVATE) |
	       (v->flags & VMA_NORESERVE ? MAP_NORESERVE : 0);
}

int host_unmap(struct context *ctx, uint64_t addr, uint64_t len)
{
	struct mem_op op = { .kind = MEM_UNMAP, .addr = addr, .len = len, .fd = -1 };

	return context_mem(ctx, &op, 1, NULL);
}

/* Advice that a new mapping needs at once, so that the host treats it right. */
static int vma_flag_advice(uint64_t vma_flags, int *advice)
{
	static const struct {
		uint32_t flag;
		int advice;
	} table[] = {
		{ VMA_DONTFORK, MADV_DONTFORK },
		{ VMA_WIPEONFORK, MADV_WIPEONFORK },
		{ VMA_HUGEPAGE, MADV_HUGEPAGE },
		{ VMA_NOHUGEPAGE, MADV_NOHUGEPAGE },
	};
	int n = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (vma_flags & table[i].flag)
			advice[n++] = table[i].advice;
	}
	return n;
}

#define HOST_MAP_BATCH 16

int host_map(struct context *ctx, uint64_t addr, uint64_t len, int prot, int host_flags,
	     const struct extent_list *el, uint64_t vma_flags)
{
	return host_map_in(NULL, ctx, addr, len, prot, host_flags, el, vma_flags);
}

int host_map_in(struct mm *mm, struct context *ctx, uint64_t addr, uint64_t len, int prot,
		int host_flags, const struct extent_list *el, uint64_t vma_flags)
{
	struct mem_op ops[HOST_MAP_BATCH + 8];
	size_t n = 0, i = 0, extents = el && !el->anon ? el->count : 0;
	uint64_t at = addr, mapped = el ? el->mapped : len;
	int advice[4], advice_count = vma_flag_advice(vma_flags, advice), err;

	memset(ops, 0, sizeof(ops));
	/* Private anonymous memory that can not be touched costs nothing: never reserve for it. */
	if ((!el || el->anon) && prot == PROT_NONE)
		host_flags |= MAP_NORESERVE;
	if (!el || el->anon) {
		ops[n++] = (struct mem_op){ .kind = MEM_MAP,
					    .addr = addr,
					    .len = len,
					    .prot = prot,
					    .flags = host_flags | MAP_ANONYMOUS,
					    .fd = -1 };
		mapped = len;
	}
	while (i < extents) {
		ops[n++] = (struct mem_op){ .kind = MEM_MAP,
					    .addr = at,
					    .len = el->v[i].len,
					    .prot = prot,
					    .flags = host_flags,
					    .fd = el->v[i].fd,
					    .off = el->v[i].off };
		at += el->v[i++].len;
		if (n == HOST_MAP_BATCH && i < extents) {
			err = batch_or_order(mm, ctx, ops, n);
			if (err)
				return err;
			n = 0;
		}
	}
	if (mapped < len)
		ops[n++] = (struct mem_op){
			.kind = MEM_UNMAP, .addr = addr + mapped, .len = len - mapped, .fd = -1
		};
	for (int k = 0; k < advice_count && mapped; k++)
		ops[n++] = (struct mem_op){ .kind = MEM_ADVISE,
					    .addr = addr,
					    .len = mapped,
					    .flags = advice[k],
					    .fd = -1 };
	return n ? batch_or_order(mm, ctx, ops, n) : 0;
}

int mm_unmap_locked(struct mm *mm, struct context *ctx, uint64_t start, uint64_t end)
{
	int err;

	lock_assert_held(&mm->lock);
	if (vma_range_free(mm, start, end, 0))
		return 0;
	if (mm_range_sealed(mm, start, end))
		return -EPERM;
	err = vma_split_at(mm, start);
	if (!err)
		err = vma_split_at(mm, end);
	if (!err)
		err = host_unmap(ctx, start, end - start);
	if (!err)
		vma_remove_range(mm, start, end);
	else
		vma_merge_range(mm, start, end);
	return err;
}

/* ---- limits ---- */

int mm_may_expand(struct task *t, struct mm *mm, uint64_t pages, int is_data)
{
	uint64_t total;

	if (!t)
		return 1;
	if (__builtin_add_overflow(mm->total_pages, pages, &total) ||
	    total > rlimit_cur(t, RLIMIT_AS) / PAGE_SIZE)
		return 0;
	return !is_data || mm->data_pages + pages <= rlimit_cur(t, RLIMIT_DATA) / PAGE_SIZE;
}

int mm_may_lock(struct task *t, struct mm *mm, uint64_t pages)
{
	uint64_t limit;

	if (cred_has_cap(task_cred(t), CAP_IPC_LOCK))
		return 0;
	limit = rlimit_cur(t, RLIMIT_MEMLOCK);
	if (limit == 0)
		return -EPERM;
	return mm->locked_pages + pages <= limit / PAGE_SIZE ? 0 : -EAGAIN;
}

/* Against the machine, as in a container on Linux: the sandbox's own limit is oom.c's. */
int mm_overcommit_ok(const struct mm *mm, uint64_t pages)
{
	(void)mm;
	return g_host_ram_pages == 0 || pages <= g_host_ram_pages;
}

/* Pages of [start, end) that are mapped already: MAP_FIXED replaces them. */
static uint64_t mapped_pages(const struct mm *mm, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;

	for (size_t i = vma_index(mm, start); i < mm->vma_count && mm->vmas[i]->start < end; i++) {
		uint64_t a = mm->vmas[i]->start > start ? mm->vmas[i]->start : start;
		uint64_t b = mm->vmas[i]->end < end ? mm->vmas[i]->end : end;

		sum += (b - a) / PAGE_SIZE;
	}
	return sum;
}

/* ---- mmap ---- */

struct map_request {
	struct mm *mm;
	struct context *ctx;
	struct task *t; /* NULL: the loader, no limits apply */
	uint64_t addr, len;
	int prot, flags;
	struct file *file; /* borrowed */
	uint64_t off;
	const char *name;
	uint32_t vma_flags, max_prot;
};

int64_t mm_pick_address(struct mm *mm, uint64_t hint, uint64_t len, int flags)
{
	uint64_t at;

	lock_assert_held(&mm->lock);
	if (hint) {
		hint = page_up(hint & ~(1ull << 63));
		if (hint < GUEST_MIN_ADDR)
			hint = GUEST_MIN_ADDR;
		if (guest_range_ok(hint, len) && vma_range_free(mm, hint, hint + len, 1) &&
		    (!(flags & MAP_32BIT) || hint + len <= 0x80000000ull))
			return (int64_t)hint;
	}
	if (flags & MAP_32BIT)
		at = vma_gap_bottomup(mm, len, 0x40000000ull, 0x80000000ull);
	else
		at = vma_gap_topdown(mm, len, GUEST_MIN_ADDR, mm->mmap_base);
	if (!at && !(flags & MAP_32BIT))
		at = vma_gap_bottomup(mm, len, page_down(GUEST_TASK_SIZE / 3), GUEST_TASK_SIZE);
	return at ? (int64_t)at : -ENOMEM;
}

/* Rules of the file's mode, its mount and its seals; computes max_prot. */
static int check_file(struct map_request *rq)
{
	struct file *f = rq->file;
	int shared = !!(rq->vma_flags & VMA_SHARED), err;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (!(f->mode & FMODE_READ))
		return -EACCES;
	if (shared && (rq->prot & PROT_WRITE) && !(f->mode & FMODE_WRITE))
		return -EACCES;
	if (!f->ops->map_extent)
		return -ENODEV;
	if (f->path.mnt && (f->path.mnt->flags & MNT_F_NOEXEC)) {
		if (rq->prot & PROT_EXEC)
			return -EPERM;
		rq->max_prot &= ~(uint32_t)PROT_EXEC;
	}
	if (shared && !(f->mode & FMODE_WRITE))
		rq->max_prot &= ~(uint32_t)PROT_WRITE;
	if (shared && f->inode && (f->inode->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))) {
		if (rq->prot & PROT_WRITE)
			return -EPERM;
		rq->max_prot &= ~(uint32_t)PROT_WRITE;
	}
	if (rq->flags & MAP_GROWSDOWN)
		return -EINVAL;
	err = file_map_check(f, rq->prot, rq->flags);
	return err;
}

/* Everything under the lock that can refuse the request; splits are not made yet. */
static int check_limits(struct map_request *rq)
{
	struct mm *mm = rq->mm;
	uint64_t pages = rq->len / PAGE_SIZE, replaced = 0;
	int is_data = (rq->prot & PROT_WRITE) && !(rq->vma_flags & (VMA_SHARED | VMA_GROWSDOWN));
	int err;

	if (mm->vma_count >= MAX_MAP_COUNT)
		return -ENOMEM;
	if (!rq->t)
		return 0;
	if (rq->flags & MAP_FIXED)
		replaced = mapped_pages(mm, rq->addr, rq->addr + rq->len);
	if (!mm_may_expand(rq->t, mm, pages - replaced, 0) ||
	    (is_data && !mm_may_expand(rq->t, mm, pages, 1) &&
	     mm->data_pages + pages - replaced > rlimit_cur(rq->t, RLIMIT_DATA) / PAGE_SIZE))
		return -ENOMEM;
	if (is_data && !(rq->vma_flags & VMA_NORESERVE) && !mm_overcommit_ok(mm, pages))
		return -ENOMEM;
	if (rq->vma_flags & VMA_LOCKED) {
		err = mm_may_lock(rq->t, mm, pages);
		if (err)
			return err == -EPERM && !(rq->flags & MAP_LOCKED) ? -EAGAIN : err;
	}
	return 0;
}

/* With the lock held and the address chosen: host first, then the tree. */
static int commit_map(struct map_request *rq, const struct extent_list *el)
{
	struct mm *mm = rq->mm;
	uint64_t end = rq->addr + rq->len;
	int host_flags = (rq->vma_flags & VMA_SHARED ? MAP_SHARED : MAP_PRIVATE) |
			 (rq->vma_flags & VMA_NORESERVE ? MAP_NORESERVE : 0);
	struct vma *v;
	int err;

	if (mm_range_sealed(mm, rq->addr, end))
		return -EPERM;
	if ((rq->flags & MAP_POPULATE) ||
	    (rq->vma_flags & (VMA_LOCKED | VMA_LOCKONFAULT)) == VMA_LOCKED) {
		if (!(rq->flags & MAP_NONBLOCK) && rq->prot != PROT_NONE)
			host_flags |= MAP_POPULATE;
	}
	if (el && !el->anon && el->mapped < rq->len)
		rq->vma_flags |= VMA_HOLES;
	v = vma_new(rq->addr, end, (uint32_t)rq->prot, rq->max_prot, rq->vma_flags,
		    el && el->anon && !rq->name ? NULL : rq->file, rq->off, rq->name);
	if (!v)
		return -ENOMEM;
	/* The vma counts as a writable mapping now: a seal set since check_file() is seen here. */
	err = vma_counts_writable(v) && (v->file->inode->seals & F_SEAL_WRITE) ? -EPERM : 0;
	if (!err)
		err = vma_split_at(mm, rq->addr);
	if (!err)
		err = vma_split_at(mm, end);
	if (!err)
		err = vma_reserve(mm, 1);
	if (err)
		goto out_free;
	/* A hole over nothing needs no order; but MAP_FIXED over something must unmap it. */
	err = host_map_in(mm, rq->ctx, rq->addr, rq->len, rq->prot, host_flags, el, rq->vma_flags);
	if (err) {
		(void)host_unmap(rq->ctx, rq->addr, rq->len);
		vma_remove_range(mm, rq->addr, end);
		goto out_free;
	}
	vma_remove_range(mm, rq->addr, end);
	vma_insert(mm, v);
	vma_merge_range(mm, rq->addr, end);
	return 0;
out_free:
	vma_merge_range(mm, rq->addr, end);
	v->next_dead = mm->dead; /* its file is put once the lock is released */
	mm->dead = v;
	return err;
}

static int64_t do_map(struct map_request *rq)
{
	struct mm *mm = rq->mm;
	struct extent_list el = { 0 };
	int64_t at;
	int err;

	if (rq->file) {
		err = extents_gather(rq->file, rq->off, rq->len, rq->prot, rq->flags, &el);
		if (err)
			return err;
	}
	lock_acquire(&mm->lock);
	if (mm->def_flags && rq->t)
		rq->vma_flags |= mm->def_flags;
	at = (int64_t)rq->addr;
	if (!(rq->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))) {
		at = mm_pick_address(mm, rq->addr, rq->len, rq->flags);
	} else if (rq->flags & MAP_FIXED_NOREPLACE) {
		if (!vma_range_free(mm, rq->addr, rq->addr + rq->len, 0))
			at = -EEXIST;
	}
	if (at >= 0) {
		rq->addr = (uint64_t)at;
		err = check_limits(rq);
		if (!err)
			err = commit_map(rq, rq->file ? &el : NULL);
		if (err)
			at = err;
	}
	mm_unlock(mm);
	extents_free(&el);
	return at;
}

/* Flag and argument rules that need no lock. */
static int check_args(struct map_request *rq)
{
	int type = rq->flags & MAP_TYPE;
	uint64_t end_off;

	if (rq->len == 0)
		return -EINVAL;
	if (type == MAP_DROPPABLE_BIT ||
	    (type != MAP_SHARED && type != MAP_PRIVATE && type != MAP_SHARED_VALIDATE))
		return -EINVAL;
	if (type == MAP_SHARED_VALIDATE && rq->file && (rq->flags & ~MAP_KNOWN_FLAGS))
		return -EOPNOTSUPP;
	if (type == MAP_SHARED_VALIDATE && !rq->file)
		return -EINVAL;
	if (rq->len > GUEST_TASK_SIZE)
		return -ENOMEM;
	rq->len = page_up(rq->len);
	if (__builtin_add_overflow(rq->off, rq->len, &end_off) || (int64_t)end_off < 0)
		return -EOVERFLOW;
	if (type == MAP_SHARED_VALIDATE)
		rq->flags = (rq->flags & ~MAP_TYPE) | MAP_SHARED;
	if (rq->flags & MAP_FIXED_NOREPLACE)
		rq->flags |= MAP_FIXED;
	if (rq->flags & MAP_FIXED) {
		if (rq->addr & ~PAGE_MASK)
			return -EINVAL;
		if (!guest_range_ok(rq->addr, rq->len))
			return -ENOMEM;
		if (rq->addr < GUEST_MIN_ADDR)
			return -EPERM;
		if (rq->addr < GUEST_RESERVED_END && rq->addr + rq->len > GUEST_RESERVED_START)
			return -ENOMEM;
	}
	/* No huge page pool is configured. */
	if (rq->flags & MAP_HUGETLB)
		return rq->file ? -EINVAL : -ENOMEM;
	rq->prot &= VMA_PROT_ALL;
	if (rq->flags & MAP_SHARED)
		rq->vma_flags |= VMA_SHARED;
	if ((rq->flags & MAP_GROWSDOWN) && !rq->file) {
		if (rq->flags & MAP_SHARED)
			return -EINVAL;
		rq->vma_flags |= VMA_GROWSDOWN;
	}
	if (rq->flags & MAP_NORESERVE)
		rq->vma_flags |= VMA_NORESERVE;
	if (rq->flags & MAP_LOCKED)
		rq->vma_flags |= VMA_LOCKED;
	if (rq->mm->mdwe && (rq->prot & PROT_WRITE) && (rq->prot & PROT_EXEC))
		return -EACCES;
	return 0;
}

static int64_t map_request(struct map_request *rq)
{
	struct file *shmem = NULL;
	int64_t r = check_args(rq);

	if (r)
		return r;
	if (!rq->file && (rq->vma_flags & VMA_SHARED)) {
		shmem = shmem_file_new(rq->mm->k->vfs, "dev/zero", rq->len,
				       rq->t ? task_cred(rq->t) : NULL);
		if (IS_ERR(shmem))
			return PTR_ERR(shmem);
		rq->file = shmem;
		rq->off = 0;
	} else if (rq->file) {
		struct map_extent e;

		r = check_file(rq);
		if (r)
			return r;
		/* A shared mapping of /dev/zero is shared anonymous memory. */
		if ((rq->vma_flags & VMA_SHARED) &&
		    rq->file->ops->map_extent(rq->file, rq->off, rq->len, rq->prot, rq->flags,
					      &e) == -ENODATA) {
			shmem = shmem_file_new(rq->mm->k->vfs, "dev/zero", rq->len,
					       rq->t ? task_cred(rq->t) : NULL);
			if (IS_ERR(shmem))
				return PTR_ERR(shmem);
			rq->file = shmem;
			rq->off = 0;
		}
	}
	r = do_map(rq);
	if (shmem)
		file_put(shmem);
	return r;
}

int64_t mm_map(struct task *t, uint64_t addr, uint64_t len, int prot, int flags, struct file *file,
	       uint64_t off)
{
	struct map_request rq = { .mm = t->mm,
				  .ctx = t->ctx,
				  .t = t,
				  .addr = addr,
				  .len = len,
				  .prot = prot,
				  .flags = flags,
				  .file = file,
				  .off = off,
				  .max_prot = VMA_PROT_ALL };

	if ((t->personality & READ_IMPLIES_EXEC) && (prot & PROT_READ) &&
	    !(file && file->path.mnt && (file->path.mnt->flags & MNT_F_NOEXEC)))
		rq.prot |= PROT_EXEC;
	return map_request(&rq);
}

int64_t mm_map_in(struct mm *mm, struct context *ctx, uint64_t addr, uint64_t len, int prot,
		  int flags, struct file *file, uint64_t off, const char *name, uint32_t vma_flags)
{
	struct map_request rq = { .mm = mm,
				  .ctx = ctx,
				  .addr = addr,
				  .len = len,
				  .prot = prot,
				  .flags = flags,
				  .file = file,
				  .off = off,
				  .name = name,
				  .vma_flags = vma_flags,
				  .max_prot = VMA_PROT_ALL };

	return map_request(&rq);
}

int mm_unmap(struct task *t, uint64_t addr, uint64_t len)
{
	struct mm *mm = t->mm;
	int err;

	if ((addr & ~PAGE_MASK) || len > GUEST_TASK_SIZE || !guest_range_ok(addr, len))
		return -EINVAL;
	len = page_up(len);
	if (len == 0 || !guest_range_ok(addr, len))
		return -EINVAL;
	lock_acquire(&mm->lock);
	err = mm_unmap_locked(mm, t->ctx, addr, addr + len);
	mm_unlock(mm);
	return err;
}
