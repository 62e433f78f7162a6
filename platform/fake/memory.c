/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated guest memory: a sorted table of pages. Private pages are copied at fork at once;
 * shared ones are the host's pages, mapped one by one from their file or from a shared block.
 */
#include "platform/fake/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE GUEST_PAGE_SIZE

/* A fake guest that maps more than this is a broken test. */
#define MAX_PAGES (1u << 20)

static size_t find(const struct fake_memory *m, uint64_t addr)
{
	size_t lo = 0, hi = m->count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->pages[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct fake_page *lookup(const struct fake_memory *m, uint64_t addr)
{
	size_t i = find(m, addr & ~(PAGE - 1));

	return i < m->count && m->pages[i].addr == (addr & ~(PAGE - 1)) ? &m->pages[i] : NULL;
}

static void drop(struct fake_page *pg)
{
	if (pg->data)
		munmap(pg->data, PAGE);
	pg->data = NULL;
}

void fake_memory_free(struct fake_memory *m)
{
	for (size_t i = 0; i < m->count; i++)
		drop(&m->pages[i]);
	free(m->pages);
	memset(m, 0, sizeof(*m));
}

static void remove_range(struct fake_memory *m, uint64_t addr, uint64_t len)
{
	size_t first = find(m, addr), last = find(m, addr + len);

	for (size_t i = first; i < last; i++)
		drop(&m->pages[i]);
	if (first != last)
		memmove(&m->pages[first], &m->pages[last], (m->count - last) * sizeof(m->pages[0]));
	m->count -= last - first;
}

/* Makes room for n pages at index i. */
static int make_room(struct fake_memory *m, size_t i, size_t n)
{
	if (n > MAX_PAGES - m->count)
		return -ENOMEM;
	if (m->count + n > m->size) {
		size_t size = (m->count + n) * 2;
		struct fake_page *more = realloc(m->pages, size * sizeof(*more));

		if (!more)
			return -ENOMEM;
		m->pages = more;
		m->size = size;
	}
	memmove(&m->pages[i + n], &m->pages[i], (m->count - i) * sizeof(m->pages[0]));
	memset(&m->pages[i], 0, n * sizeof(m->pages[0]));
	m->count += n;
	return 0;
}

static int map(struct fake_memory *m, const struct mem_op *op)
{
	size_t n = op->len / PAGE;
	int shared = (op->flags & MAP_SHARED) != 0, fd = op->fd;
	int temp = -1;

	if (op->flags & MAP_ANONYMOUS) {
		fd = -1;
		if (shared) {
			fd = temp = memfd_create("fake", MFD_CLOEXEC);
			if (fd < 0 || ftruncate(fd, (off_t)op->len)) {
				if (fd >= 0)
					close(fd);
				return -ENOMEM;
			}
		}
	}
	remove_range(m, op->addr, op->len);

	size_t i = find(m, op->addr);
	int ret = make_room(m, i, n);

	for (size_t k = 0; k < n && !ret; k++) {
		struct fake_page *pg = &m->pages[i + k];
		uint64_t off = (op->flags & MAP_ANONYMOUS ? 0 : op->off) + k * PAGE;
		void *data = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				  fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS :
				  shared ? MAP_SHARED :
					   MAP_PRIVATE,
				  fd, fd < 0 ? 0 : (off_t)off);

		if (data == MAP_FAILED && shared && errno == EACCES && !(op->prot & PROT_WRITE))
			data = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, (off_t)off);
		pg->addr = op->addr + k * PAGE;
		pg->prot = op->prot;
		pg->shared = shared;
		if (data == MAP_FAILED)
			ret = -errno;
		else
			pg->data = data;
	}
	if (ret && m->count > i && m->pages[i].addr == op->addr)
		remove_range(m, op->addr, op->len);
	if (temp >= 0)
		close(temp);
	return ret;
}

/* True when every page of the range is mapped, as mprotect and madvise ask. */
static int all_mapped(const struct fake_memory *m, uint64_t addr, uint64_t len)
{
	return find(m, addr + len) - find(m, addr) == len / PAGE;
}

static int remap(struct fake_memory *m, const struct mem_op *op)
{
	size_t n = op->len / PAGE, n2 = op->len2 / PAGE, keep = n < n2 ? n : n2;

	if (!n) /* duplicating a shared mapping: not simulated */
		return -EINVAL;
	if (!all_mapped(m, op->addr, op->len))
		return -EFAULT;
	if (op->addr < op->addr2 + op->len2 && op->addr2 < op->addr + op->len)
		return -EINVAL;

	struct fake_page *moved = calloc(n, sizeof(*moved));

	if (!moved)
		return -ENOMEM;
	size_t i = find(m, op->addr);

	memcpy(moved, &m->pages[i], n * sizeof(*moved));
	for (size_t k = 0; k < n; k++)
		m->pages[i + k].data = NULL;
	remove_range(m, op->addr, op->len);
	remove_range(m, op->addr2, op->len2);
	i = find(m, op->addr2);
	int ret = make_room(m, i, n2);

	for (size_t k = 0; k < n; k++) {
		if (ret || k >= keep) {
			drop(&moved[k]);
			continue;
		}
		m->pages[i + k] = moved[k];
		m->pages[i + k].addr = op->addr2 + k * PAGE;
	}
	for (size_t k = keep; k < n2 && !ret; k++) {
		struct fake_page *pg = &m->pages[i + k];

		pg->addr = op->addr2 + k * PAGE;
		pg->prot = moved[0].prot;
		pg->data = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0);
		if (pg->data == MAP_FAILED)
			pg->data = NULL;
	}
	free(moved);
	return ret;
}

int fake_memory_op(struct fake_memory *m, const struct mem_op *op)
{
	size_t i = find(m, op->addr), end = find(m, op->addr + op->len);

	switch (op->kind) {
	case MEM_MAP:
		return map(m, op);
	case MEM_UNMAP:
		remove_range(m, op->addr, op->len);
		return 0;
	case MEM_PROTECT:
		if (!all_mapped(m, op->addr, op->len))
			return -ENOMEM;
		for (; i < end; i++)
			m->pages[i].prot = op->prot;
		return 0;
	case MEM_REMAP:
		return remap(m, op);
	case MEM_ADVISE:
		for (size_t k = i; k < end; k++) {
			if (op->flags == MADV_DONTNEED && !m->pages[k].shared)
				memset(m->pages[k].data, 0, PAGE);
			if (op->flags == MADV_DONTFORK || op->flags == MADV_DOFORK)
				m->pages[k].dont_fork = op->flags == MADV_DONTFORK;
		}
		return all_mapped(m, op->addr, op->len) ? 0 : -ENOMEM;
	case MEM_SYNC:
		return all_mapped(m, op->addr, op->len) ? 0 : -ENOMEM;
	case MEM_INCORE:
		if (!all_mapped(m, op->addr, op->len))
			return -ENOMEM;
		memset(op->buf, 1, op->len / PAGE);
		return 0;
	}
	return -EINVAL;
}

int fake_memory_copy(struct fake_memory *to, const struct fake_memory *from)
{
	int ret = make_room(to, 0, from->count);

	if (ret)
		return ret;
	to->count = 0;
	for (size_t i = 0; i < from->count; i++) {
		const struct fake_page *src = &from->pages[i];
		struct fake_page *dst = &to->pages[to->count];

		if (src->dont_fork)
			continue;
		*dst = *src;
		/* Length 0 of a shared mapping duplicates it. */
		dst->data = src->shared ? mremap(src->data, 0, PAGE, MREMAP_MAYMOVE)
					: mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (dst->data == MAP_FAILED) {
			fake_memory_free(to);
			return -ENOMEM;
		}
		if (!src->shared)
			memcpy(dst->data, src->data, PAGE);
		to->count++;
	}
	return 0;
}

ssize_t fake_memory_access(struct fake_memory *m, uint64_t at, void *buf, size_t len, int write)
{
	size_t done = 0;

	while (done < len) {
		struct fake_page *pg = lookup(m, at + done);
		size_t off = (at + done) % PAGE, n = PAGE - off < len - done ? PAGE - off : len - done;

		if (!pg || !(pg->prot & (write ? PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC)))
			break;
		if (write)
			memcpy(pg->data + off, (uint8_t *)buf + done, n);
		else
			memcpy((uint8_t *)buf + done, pg->data + off, n);
		done += n;
	}
	return done ? (ssize_t)done : -EFAULT;
}
