/* SPDX-License-Identifier: Apache-2.0 */
/* Guest memory: mappings by order of a stopped stub thread, bytes by process_vm_readv(2). */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "platform/systrap/patch.h"

/* Adds the order for op. Which ones are notified must agree with trap_filter.c. */
static void add_mem_op(struct order_list *l, const struct mem_op *op)
{
	const uint64_t none = (uint64_t)-1;

	switch (op->kind) {
	case MEM_MAP:
		if ((op->flags & MAP_ANONYMOUS) && (op->flags & MAP_PRIVATE))
			order_add(l, 0, -1, SYS_mmap, op->addr, op->len, (uint64_t)op->prot,
				  (uint64_t)(op->flags | MAP_FIXED), none, 0);
		else if (op->flags & MAP_ANONYMOUS)
			order_add(l, 1, -1, SYS_mmap, op->addr, op->len, (uint64_t)op->prot,
				  (uint64_t)(op->flags | MAP_FIXED), none, 0);
		else
			order_add(l, 1, op->fd, SYS_mmap, op->addr, op->len, (uint64_t)op->prot,
				  (uint64_t)(op->flags | MAP_FIXED), 0, op->off);
		break;
	case MEM_UNMAP:
		order_add(l, 0, -1, SYS_munmap, op->addr, op->len, 0, 0, 0, 0);
		break;
	case MEM_PROTECT:
		order_add(l, (op->prot & PROT_WRITE) != 0, -1, SYS_mprotect, op->addr, op->len,
			  (uint64_t)op->prot, 0, 0, 0);
		break;
	case MEM_REMAP:
		order_add(l, 1, -1, SYS_mremap, op->addr, op->len, op->len2,
			  (uint64_t)(op->flags | MREMAP_MAYMOVE | MREMAP_FIXED), op->addr2, 0);
		break;
	case MEM_ADVISE:
		order_add(l,
			  op->flags != MADV_DONTFORK && op->flags != MADV_DONTNEED &&
				  op->flags != MADV_FREE,
			  -1, SYS_madvise, op->addr, op->len, (uint64_t)op->flags, 0, 0, 0);
		break;
	case MEM_SYNC:
		order_add(l, 1, -1, SYS_msync, op->addr, op->len, (uint64_t)op->flags, 0, 0, 0);
		break;
	case MEM_INCORE:
		break;
	}
}

/* mincore writes its vector into the slot's bounce room; long ranges go piecewise. */
static int mem_incore(struct systrap_context *c, const struct mem_op *op)
{
	const uint64_t step = SLOT_BOUNCE_SIZE * GUEST_PAGE_SIZE;

	for (uint64_t at = 0; at < op->len; at += step) {
		uint64_t len = op->len - at < step ? op->len - at : step;
		struct order_list l;

		order_begin(&l, c);
		order_add(&l, 1, -1, SYS_mincore, op->addr + at, len,
			  slot_address(c->slot) + SLOT_BOUNCE, 0, 0, 0);
		int ret = order_run(&l);

		if (ret)
			return ret;
		memcpy((uint8_t *)op->buf + at / GUEST_PAGE_SIZE, (uint8_t *)c->msg + SLOT_BOUNCE,
		       len / GUEST_PAGE_SIZE);
	}
	return 0;
}

/* Does it reach into the platform's own range? */
static int splits(const struct mem_op *op)
{
	return op->addr < GUEST_RESERVED_END && op->addr + op->len > GUEST_RESERVED_START;
}

/* An munmap of everything but the platform's own. */
static int unmap_around(struct systrap_context *c, const struct mem_op *op)
{
	uint64_t end = op->addr + op->len;
	struct order_list l;

	order_begin(&l, c);
	if (op->addr < GUEST_RESERVED_START)
		order_add(&l, 0, -1, SYS_munmap, op->addr, GUEST_RESERVED_START - op->addr, 0, 0, 0,
			  0);
	if (end > GUEST_RESERVED_END)
		order_add(&l, 0, -1, SYS_munmap, GUEST_RESERVED_END, end - GUEST_RESERVED_END, 0, 0,
			  0, 0);
	return l.count ? order_run(&l) : 0;
}

int systrap_mem(struct context *base, const struct mem_op *ops, size_t count, size_t *done)
{
	struct systrap_context *c = to_context(base);
	int ret = 0;

	*done = 0;
	while (*done < count && !ret) {
		struct order_list l;
		size_t i = *done;

		if (ops[i].kind == MEM_UNMAP && splits(&ops[i])) {
			ret = mem_op_check(&ops[i]);
			if (!ret)
				ret = unmap_around(c, &ops[i]);
			*done += !ret;
			continue;
		}
		order_begin(&l, c);
		for (; i < count && !(ops[i].kind == MEM_UNMAP && splits(&ops[i])) && l.count < SYSMSG_MAX_ORDERS && ops[i].kind != MEM_INCORE; i++) {
			ret = mem_op_check(&ops[i]);
			if (ret)
				break;
			add_mem_op(&l, &ops[i]);
		}
		if (l.count) {
			int err = order_run(&l);

			*done += l.done;
			if (err)
				return err;
		} else if (!ret && ops[i].kind == MEM_INCORE) {
			ret = mem_op_check(&ops[i]);
			if (!ret)
				ret = mem_incore(c, &ops[i]);
			*done += !ret;
		}
	}
	return ret;
}

int systrap_cmpxchg32(struct context *base, uint64_t at, uint32_t expect, uint32_t new_val,
		      uint32_t *old)
{
	struct order_list l;

	order_begin(&l, to_context(base));
	order_add(&l, 0, -1, ORDER_CMPXCHG32, at, expect, new_val, 0, 0, 0);
	int ret = order_run(&l);

	if (!ret)
		*old = (uint32_t)l.order[0].arg[3];
	return ret;
}

int systrap_ctx_cpu_time(struct context *base, uint64_t *ns)
{
	struct systrap_context *c = to_context(base);
	struct order_list l;
	struct timespec ts;

	order_begin(&l, c);
	order_add(&l, 0, -1, SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID,
		  slot_address(c->slot) + SLOT_BOUNCE, 0, 0, 0, 0);
	int ret = order_run(&l);

	if (ret)
		return ret;
	memcpy(&ts, (uint8_t *)c->msg + SLOT_BOUNCE, sizeof(ts));
	*ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return 0;
}

/*
 * One call; short at the first bad page. #hostcalls: process_vm_readv process_vm_writev
 *
 * The kernel walks whole pages, so a range that starts well gives the bytes before the bad page.
 */
static ssize_t transfer(struct systrap_addrspace *as, uint64_t at, void *buf, size_t len, int write)
{
	struct iovec local = { buf, len };
	struct iovec remote = { (void *)(uintptr_t)at, len };

	if (addrspace_enter(as))
		return -EFAULT;
	ssize_t n = write ? process_vm_writev(as->pid, &local, 1, &remote, 1, 0)
			  : process_vm_readv(as->pid, &local, 1, &remote, 1, 0);
	int err = errno;

	addrspace_leave(as);
	if (n > 0)
		return n;
	(void)err; /* EFAULT, or ESRCH for a process on its way out: the guest sees one thing */
	return -EFAULT;
}

/* More than 2 GiB in one call would be cut by the host without saying where memory ended. */
#define TRANSFER_MAX (1u << 30)

ssize_t systrap_as_peek(struct systrap_addrspace *as, uint64_t from, void *buf, size_t len)
{
	size_t done = 0;

	/*
	 * Small sizes may be copied byte by byte in the host, eight aligned bytes are one load.
	 * They never cross a page.
	 */
	if (len < 8 && (len & (len - 1)) == 0 && from % len == 0) {
		uint64_t word;

		if (transfer(as, from & ~7ull, &word, 8, 0) != 8)
			return -EFAULT;
		memcpy(buf, (uint8_t *)&word + from % 8, len);
		return (ssize_t)len;
	}
	while (done < len) {
		size_t step = len - done < TRANSFER_MAX ? len - done : TRANSFER_MAX;
		ssize_t n = transfer(as, from + done, (uint8_t *)buf + done, step, 0);

		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if ((size_t)n < step)
			break;
	}
	return (ssize_t)done;
}

ssize_t systrap_as_read(struct addrspace *base, uint64_t from, void *buf, size_t len)
{
	ssize_t n = systrap_as_peek(to_addrspace(base), from, buf, len);

	if (n > 0)
		patch_hide(to_addrspace(base), from, buf, (size_t)n);
	return n;
}

ssize_t systrap_as_write(struct addrspace *base, uint64_t to, const void *buf, size_t len)
{
	struct systrap_addrspace *as = to_addrspace(base);
	size_t done = 0;

	while (done < len) {
		size_t step = len - done < TRANSFER_MAX ? len - done : TRANSFER_MAX;
		void *src = (void *)(uintptr_t)((const uint8_t *)buf + done);
		ssize_t n = transfer(as, to + done, src, step, 1);

		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if ((size_t)n < step)
			break;
	}
	return (ssize_t)done;
}
