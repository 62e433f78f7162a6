/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory file of memfile.h: address space of one big sparse memfd, dealt out in power-of-two
 * ranges. Freed ranges wait in a list per size; a request takes one of its size, else splits a
 * bigger one, else fresh space from the top. Ranges are never merged: the space is so much larger
 * than any memory that fragmentation costs nothing.
 */
#include "platform/host/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "platform/base/assert.h"
#include "platform/base/lock.h"

#define MIN_SHIFT 16
#define ORDERS 32

struct free_list {
	int64_t *off;
	uint32_t count, cap;
};

static struct memfile {
	int fd;
	char *base;
	uint64_t size;
	uint64_t host_memory;
	struct lock lock;
	/* [lock] */
	uint64_t top;
	struct free_list free[ORDERS];
} g_memfile = {.fd = -1};

_Static_assert(MEMFILE_MIN == 1u << MIN_SHIFT, "orders count from the smallest range");

/* #hostcalls: memfd_create ftruncate mmap madvise sysinfo */
int memfile_start(void)
{
	struct memfile *mf = &g_memfile;
	struct sysinfo si;

	if (mf->fd >= 0)
		return 0;
	mf->fd = memfd_create("caisson-memory", MFD_CLOEXEC);
	if (mf->fd < 0)
		return -errno;
	if (sysinfo(&si) == 0)
		mf->host_memory = (uint64_t)si.totalram * si.mem_unit;
	/* As much address space as there is; limits of the host may allow less. */
	for (uint64_t size = 16ull << 40; size >= 1ull << 30; size >>= 1) {
		if (ftruncate(mf->fd, (off_t)size))
			continue;
		mf->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
				mf->fd, 0);
		if (mf->base == MAP_FAILED)
			continue;
		mf->size = size;
		madvise(mf->base, size, MADV_DONTDUMP);
		lock_init(&mf->lock, RANK_CACHE);
		return 0;
	}
	close(mf->fd);
	mf->fd = -1;
	return -ENOMEM;
}

uint64_t memfile_host_memory(void)
{
	return g_memfile.host_memory;
}

int memfile_fd(void)
{
	return g_memfile.fd;
}

static int order_of(uint64_t size)
{
	int order = 0;

	while (((uint64_t)MEMFILE_MIN << order) < size)
		if (++order == ORDERS)
			return -1;
	return order;
}

uint64_t memfile_round(uint64_t size)
{
	int order = order_of(size);

	return order < 0 ? 0 : (uint64_t)MEMFILE_MIN << order;
}

static int list_push(struct free_list *l, int64_t off)
{
	if (l->count == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 16;
		int64_t *mem = realloc(l->off, cap * sizeof(*mem));

		if (!mem)
			return -ENOMEM;
		l->off = mem;
		l->cap = cap;
	}
	l->off[l->count++] = off;
	return 0;
}

/* Takes a bigger free range apart; the halves not used go to their lists. */
static int64_t split_bigger(struct memfile *mf, int order)
{
	int64_t off;
	int k;

	for (k = order + 1; k < ORDERS && !mf->free[k].count; k++)
		;
	if (k == ORDERS)
		return -ENOMEM;
	off = mf->free[k].off[--mf->free[k].count];
	while (k > order) {
		k--;
		/* A half that can not be remembered is lost address space, nothing else. */
		list_push(&mf->free[k], off + ((int64_t)MEMFILE_MIN << k));
	}
	return off;
}

int64_t memfile_alloc(uint64_t size)
{
	struct memfile *mf = &g_memfile;
	int order = order_of(size);
	uint64_t bytes, end;
	int64_t off;

	if (mf->fd < 0)
		return -ENOMEM;
	if (order < 0)
		return -EFBIG;
	bytes = (uint64_t)MEMFILE_MIN << order;
	lock_acquire(&mf->lock);
	if (mf->free[order].count) {
		off = mf->free[order].off[--mf->free[order].count];
	} else {
		off = split_bigger(mf, order);
		if (off < 0) {
			if (!__builtin_add_overflow(mf->top, bytes, &end) && end <= mf->size) {
				off = (int64_t)mf->top;
				mf->top = end;
			} else {
				off = -ENOMEM;
			}
		}
	}
	lock_release(&mf->lock);
	return off;
}

/* #hostcalls: fallocate */
void memfile_punch(int64_t off, uint64_t len)
{
	struct memfile *mf = &g_memfile;

	ASSERT(off >= 0 && (uint64_t)off + len <= mf->size);
	if (len)
		fallocate(mf->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, (off_t)len);
}

void memfile_free(int64_t off, uint64_t size)
{
	struct memfile *mf = &g_memfile;
	int order = order_of(size);

	ASSERT(order >= 0);
	memfile_punch(off, (uint64_t)MEMFILE_MIN << order);
	lock_acquire(&mf->lock);
	list_push(&mf->free[order], off);
	lock_release(&mf->lock);
}

void *memfile_at(int64_t off)
{
	return g_memfile.base + off;
}

/* #hostcalls: fstat */
uint64_t memfile_used(void)
{
	struct stat st;

	if (g_memfile.fd < 0 || fstat(g_memfile.fd, &st))
		return 0;
	return (uint64_t)st.st_blocks * 512;
}
