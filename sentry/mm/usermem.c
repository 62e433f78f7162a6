/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only door to guest bytes. Every access checks the guest range first and goes through the
 * platform's addrspace_read/write, which apply the protections of the guest's own mappings. A
 * small access is one platform call.
 *
 * An access that fails may be mended (fault.c): a stack grown, a page of a grown file mapped. The
 * plain copy functions do both, so they must be called without VFS locks; the uio copies run
 * below the VFS and only grow stacks: callers of file I/O use mm_fill_holes() beforehand.
 */
#include <errno.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm_priv.h"

#define MAX_RW_COUNT (0x7fffffffull & PAGE_MASK)
#define UIO_MAXIOV   1024

enum copy_dir { COPY_IN, COPY_OUT };

/*
 * Private memory of a mapping that can not shrink under it, where the guest's own store is sure to
 * succeed unless another thread unmaps it this moment. The answer is kept until the mm changes.
 */
static int is_plain(struct task *t, uint64_t addr, size_t n)
{
	struct mm *mm = t->mm;

	if (t->plain_generation != __atomic_load_n(&mm->generation, __ATOMIC_RELAXED) ||
	    addr < t->plain_start || addr + n > t->plain_end) {
		lock_acquire(&mm->lock);
		struct vma *v = vma_find(mm, addr);

		t->plain_generation = 0;
		if (v && (v->prot & PROT_WRITE) && !v->pkey &&
		    !(v->flags & (VMA_SHARED | VMA_HOLES | VMA_SPECIAL))) {
			t->plain_start = v->start;
			t->plain_end = v->end;
			t->plain_generation = mm->generation;
		}
		lock_release(&mm->lock);
		if (!t->plain_generation || addr < t->plain_start || addr + n > t->plain_end)
			return 0;
	}
	return 1;
}

/* Is t's stopped guest thread in the address space that its copies go to, and are they ours? */
static int may_use_context(struct task *t, uint32_t copies)
{
	return (t->copies & copies) && t == current && t->ctx &&
	       context_addrspace(t->ctx) == t->mm->as;
}

/* Not worth a copy more than a host call's 0.7 us of it. */
#define LATER_MAX 8192

/* What can be had without a host call: bytes moved. */
static size_t copy_cheaply(struct task *t, enum copy_dir dir, uint64_t addr, void *buf, size_t n)
{
	if (dir == COPY_OUT) {
		if (n > LATER_MAX || !may_use_context(t, TASK_COPIES_LATER) || !is_plain(t, addr, n) ||
		    !context_store_later(t->ctx, gaddr(addr), buf, n)) {
			/* In order, whatever they may overlap. */
			if (t == current && (t->copies & TASK_COPIES_WAITING))
				user_copies_now(t);
			return 0;
		}
		t->copies |= TASK_COPIES_WAITING;
		return n;
	}
	if (t == current && (t->copies & TASK_COPIES_WAITING))
		user_copies_now(t);
	if (!may_use_context(t, TASK_COPIES_BROUGHT))
		return 0;
	return context_brought(t->ctx, gaddr(addr), buf, n);
}

int user_copies_now(struct task *t)
{
	uint32_t copies = t->copies;

	t->copies &= ~(TASK_COPIES_BROUGHT | TASK_COPIES_WAITING);
	return (copies & TASK_COPIES_WAITING) && t->ctx ? context_stores_now(t->ctx) : 0;
}

/* Bytes moved, or -EFAULT when none. may_fill: file pages may be mapped (no VFS lock held). */
static ssize_t copy_user(struct task *t, enum copy_dir dir, uint64_t addr, void *buf, size_t n,
			 int may_fill)
{
	struct addrspace *as = t->mm->as;
	size_t done = 0;

	if (!guest_range_ok(addr, n))
		return -EFAULT;
	if (t->copies)
		done = copy_cheaply(t, dir, addr, buf, n);
	while (done < n) {
		void *at = (char *)buf + done;
		ssize_t r = dir == COPY_IN ? addrspace_read(as, gaddr(addr + done), at, n - done)
					   : addrspace_write(as, gaddr(addr + done), at, n - done);

		if (r > 0) {
			done += (size_t)r;
			continue;
		}
		/* Each page is mended at most once a round: progress, or the end. */
		if (!mm_mend(t, addr + done, dir == COPY_IN ? FAULT_READ : FAULT_WRITE, may_fill))
			break;
		r = dir == COPY_IN ? addrspace_read(as, gaddr(addr + done), at, n - done)
				   : addrspace_write(as, gaddr(addr + done), at, n - done);
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return done || !n ? (ssize_t)done : -EFAULT;
}

int copy_from_user(struct task *t, void *dst, uint64_t src, size_t n)
{
	return copy_user(t, COPY_IN, src, dst, n, 1) == (ssize_t)n ? 0 : -EFAULT;
}

int copy_to_user(struct task *t, uint64_t dst, const void *src, size_t n)
{
	return copy_user(t, COPY_OUT, dst, (void *)(uintptr_t)src, n, 1) == (ssize_t)n ? 0
										       : -EFAULT;
}

ssize_t copy_from_user_some(struct task *t, void *dst, uint64_t src, size_t n)
{
	return copy_user(t, COPY_IN, src, dst, n, 1);
}

ssize_t copy_to_user_some(struct task *t, uint64_t dst, const void *src, size_t n)
{
	return copy_user(t, COPY_OUT, dst, (void *)(uintptr_t)src, n, 1);
}

int clear_user(struct task *t, uint64_t dst, size_t n)
{
	static const char zeros[GUEST_PAGE_SIZE];

	if (!guest_range_ok(dst, n))
		return -EFAULT;
	while (n) {
		size_t chunk = n < sizeof(zeros) ? n : sizeof(zeros);

		if (copy_to_user(t, dst, zeros, chunk))
			return -EFAULT;
		dst += chunk;
		n -= chunk;
	}
	return 0;
}

ssize_t copy_string_from_user(struct task *t, char *buf, size_t size, uint64_t src)
{
	size_t done = 0;

	if (!size)
		return -ENAMETOOLONG;
	if (t->copies && guest_range_ok(src, 1)) {
		done = copy_cheaply(t, COPY_IN, src, buf, size);
		char *nul = memchr(buf, 0, done);

		if (nul)
			return nul - buf;
	}
	while (done < size) {
		uint64_t at = src + done;
		/* Short first, as most strings are; never past the end of a page, which may be
		 * the last one mapped. */
		size_t chunk = GUEST_PAGE_SIZE - (at & (GUEST_PAGE_SIZE - 1));
		size_t limit = done ? 4096 : 256;
		ssize_t r;
		char *nul;

		if (chunk > limit)
			chunk = limit;
		if (chunk > size - done)
			chunk = size - done;
		r = copy_user(t, COPY_IN, at, buf + done, chunk, 1);
		if (r < 0)
			return -EFAULT;
		nul = memchr(buf + done, 0, (size_t)r);
		if (nul)
			return nul - buf;
		done += (size_t)r;
		if ((size_t)r < chunk)
			return -EFAULT;
	}
	return -ENAMETOOLONG;
}

char *copy_path_from_user(struct task *t, uint64_t src)
{
	char small[256], *path;
	ssize_t len = copy_string_from_user(t, small, sizeof(small), src);

	if (len >= 0) {
		path = malloc((size_t)len + 1);
		if (!path)
			return ERR_PTR(-ENOMEM);
		memcpy(path, small, (size_t)len + 1);
		return path;
	}
	if (len != -ENAMETOOLONG)
		return ERR_PTR(len);
	/* Long: the rest is read behind what is here already, so that no byte is read twice. */
	path = malloc(PATH_MAX);
	if (!path)
		return ERR_PTR(-ENOMEM);
	memcpy(path, small, sizeof(small));
	len = copy_string_from_user(t, path + sizeof(small), PATH_MAX - sizeof(small),
				    src + sizeof(small));
	if (len < 0) {
		free(path);
		return ERR_PTR(len);
	}
	return path;
}

int get_user_u32(struct task *t, uint64_t src, uint32_t *v)
{
	return copy_from_user(t, v, src, sizeof(*v));
}

int get_user_u64(struct task *t, uint64_t src, uint64_t *v)
{
	return copy_from_user(t, v, src, sizeof(*v));
}

int put_user_u32(struct task *t, uint64_t dst, uint32_t v)
{
	return copy_to_user(t, dst, &v, sizeof(v));
}

int put_user_u64(struct task *t, uint64_t dst, uint64_t v)
{
	return copy_to_user(t, dst, &v, sizeof(v));
}

int copy_struct_from_user(struct task *t, void *dst, size_t ksize, uint64_t src, size_t usize,
			  size_t min_size)
{
	size_t n = usize < ksize ? usize : ksize;
	uint64_t at;

	if (usize < min_size)
		return -EINVAL;
	if (usize > GUEST_PAGE_SIZE)
		return -E2BIG;
	memset(dst, 0, ksize);
	for (at = ksize; at < usize;) {
		char tail[64];
		size_t chunk = usize - at < sizeof(tail) ? usize - at : sizeof(tail);

		if (copy_from_user(t, tail, src + at, chunk))
			return -EFAULT;
		for (size_t i = 0; i < chunk; i++) {
			if (tail[i])
				return -E2BIG;
		}
		at += chunk;
	}
	return copy_from_user(t, dst, src, n);
}

/* ---- another process's memory ---- */

static void own_copies_now(struct mm *mm)
{
	if (current && current->mm == mm)
		user_copies_now(current);
}

ssize_t mm_read(struct mm *mm, void *dst, uint64_t src, size_t n)
{
	size_t done = 0;

	own_copies_now(mm);

	if (!guest_range_ok(src, n))
		return -EFAULT;
	while (done < n) {
		ssize_t r = addrspace_read(mm->as, gaddr(src + done), (char *)dst + done, n - done);

		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return done || !n ? (ssize_t)done : -EFAULT;
}

ssize_t mm_write(struct mm *mm, uint64_t dst, const void *src, size_t n)
{
	size_t done = 0;

	own_copies_now(mm);

	if (!guest_range_ok(dst, n))
		return -EFAULT;
	while (done < n) {
		ssize_t r = addrspace_write(mm->as, gaddr(dst + done), (const char *)src + done,
					    n - done);

		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return done || !n ? (ssize_t)done : -EFAULT;
}

/* A platform that can write through read-only pages (breakpoints in text) says so by having it. */
ssize_t addrspace_write_force(struct addrspace *as, gaddr_t to, const void *buf, size_t len)
	__attribute__((weak));

ssize_t mm_write_force(struct mm *mm, uint64_t dst, const void *src, size_t n)
{
	ssize_t r = mm_write(mm, dst, src, n);

	if (r == (ssize_t)n || !addrspace_write_force)
		return r;
	/* Never into shared mappings: FOLL_FORCE writes only private copies. */
	lock_acquire(&mm->lock);
	for (uint64_t at = dst; at < dst + n;) {
		struct vma *v = vma_find(mm, at);

		if (!v || (v->flags & VMA_SHARED) || !(v->max_prot & PROT_WRITE)) {
			n = at - dst;
			break;
		}
		at = v->end;
	}
	lock_release(&mm->lock);
	return n ? addrspace_write_force(mm->as, gaddr(dst), src, n) : -EFAULT;
}

/* ---- uio over guest memory ---- */

static ssize_t user_copy(struct uio *u, char *buf, size_t n, enum copy_dir dir)
{
	struct task *t = u->priv;
	size_t done = 0;

	while (done < n) {
		size_t room = u->seg->len - u->seg_done, chunk = n - done < room ? n - done : room;
		ssize_t r;

		if (chunk == 0) { /* an empty segment */
			u->seg++;
			u->seg_count--;
			u->seg_done = 0;
			continue;
		}
		r = copy_user(t, dir, u->seg->base + u->seg_done, buf + done, chunk, 0);
		if (r <= 0)
			break;
		done += (size_t)r;
		uio_advance(u, (size_t)r);
		if ((size_t)r < chunk)
			break;
	}
	return done || !n ? (ssize_t)done : -EFAULT;
}

static ssize_t user_copy_out(struct uio *u, const void *src, size_t n)
{
	return user_copy(u, (char *)(uintptr_t)src, n, COPY_OUT);
}

/* The host copies, and finds out itself what is not there. */
static ssize_t user_copy_out_mapped(struct uio *u, const void *src, size_t n)
{
	struct task *t = u->priv;
	size_t done = 0;

	if (t->copies)
		user_copies_now(t);
	while (done < n && u->left) {
		size_t room = u->seg->len - u->seg_done, chunk = n - done < room ? n - done : room;

		if (chunk) {
			ssize_t r = addrspace_write(t->mm->as, gaddr(u->seg->base + u->seg_done),
						    (const char *)src + done, chunk);

			if (r <= 0)
				break;
			done += (size_t)r;
			chunk -= (size_t)r;
			uio_advance(u, (size_t)r);
			if (chunk)
				break;
		} else { /* an empty segment */
			u->seg++;
			u->seg_count--;
			u->seg_done = 0;
		}
	}
	return done || !n ? (ssize_t)done : -EFAULT;
}

static ssize_t user_copy_in(struct uio *u, void *dst, size_t n)
{
	return user_copy(u, dst, n, COPY_IN);
}

static const struct uio_ops g_user_ops = {
	.copy_out = user_copy_out,
	.copy_in = user_copy_in,
	.copy_out_mapped = user_copy_out_mapped,
};

int uio_init_user(struct task *t, struct uio *u, uint64_t addr, uint64_t len)
{
	memset(u, 0, sizeof(*u));
	if (len > MAX_RW_COUNT)
		len = MAX_RW_COUNT;
	if (!guest_range_ok(addr, len))
		return -EFAULT;
	u->ops = &g_user_ops;
	u->priv = t;
	u->one.base = addr;
	u->one.len = len;
	u->seg = &u->one;
	u->seg_count = 1;
	u->left = len;
	if (len)
		mm_fill_holes(t, addr, len);
	return 0;
}

int uio_import_iovec(struct task *t, struct uio_user *uu, uint64_t iov, uint64_t count)
{
	uint64_t total = 0;

	memset(uu, 0, sizeof(*uu));
	uu->segs = uu->fast;
	if (count > UIO_MAXIOV)
		return -EINVAL;
	if (count > IOV_FAST) {
		uu->segs = malloc(count * sizeof(*uu->segs));
		if (!uu->segs) {
			uu->segs = uu->fast;
			return -ENOMEM;
		}
	}
	/* struct iovec of the guest and struct uio_seg have one layout: base, length. */
	if (count && copy_from_user(t, uu->segs, iov, count * sizeof(*uu->segs))) {
		uio_user_free(uu);
		return -EFAULT;
	}
	for (uint64_t i = 0; i < count; i++) {
		struct uio_seg *s = &uu->segs[i];

		if ((int64_t)s->len < 0) {
			uio_user_free(uu);
			return -EINVAL;
		}
		if (!guest_range_ok(s->base, s->len)) {
			uio_user_free(uu);
			return -EFAULT;
		}
		if (s->len > MAX_RW_COUNT - total)
			s->len = MAX_RW_COUNT - total;
		total += s->len;
		if (s->len)
			mm_fill_holes(t, s->base, s->len);
	}
	uu->u.ops = &g_user_ops;
	uu->u.priv = t;
	uu->u.seg = uu->segs;
	uu->u.seg_count = count;
	uu->u.left = total;
	return 0;
}

void uio_user_free(struct uio_user *uu)
{
	if (uu->segs != uu->fast)
		free(uu->segs);
	uu->segs = uu->fast;
}
