/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vDSO in address spaces: the time page ("[vvar]") and the code above it ("[vdso]"), both
 * pieces of the memory file, mapped privately, so that no guest can change what others see.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/host/memfile.h"
#include "sentry/loader/loader.h"
#include "sentry/loader/vdso_priv.h"
#include "sentry/mm/mm_priv.h"
#include "vfs/tmpfs/tmpfs.h"

extern const uint8_t vdso_image_start[], vdso_image_end[];

/* Written once, at boot. */
static struct {
	struct file *file; /* shared memory object: time page, then image */
	uint64_t image_size;
} g_vdso;

/* Fills the object, and finds where the sentry sees its first page. */
static int fill(struct file *f, const uint8_t *image, size_t bytes, void **page)
{
	uint8_t *all = calloc(1, PAGE_SIZE + g_vdso.image_size);
	struct map_extent e;
	struct uio u;
	ssize_t n;

	if (!all)
		return -ENOMEM;
	memcpy(all + PAGE_SIZE, image, bytes);
	uio_init_kernel(&u, all, PAGE_SIZE + g_vdso.image_size);
	n = file_pwrite(f, &u, 0, UINT64_MAX, 0);
	free(all);
	if (n != (ssize_t)(PAGE_SIZE + g_vdso.image_size))
		return n < 0 ? (int)n : -EIO;
	n = f->ops->map_extent(f, 0, PAGE_SIZE, PROT_READ, MAP_SHARED, &e);
	if (n)
		return (int)n;
	*page = memfile_at((int64_t)e.off);
	return 0;
}

int vdso_start(struct kernel *k)
{
	size_t bytes = (size_t)(vdso_image_end - vdso_image_start);
	struct cred *cred = cred_new(0, 0, 0);
	struct file *f;
	void *page = NULL;
	int err;

	if (!cred)
		return -ENOMEM;
	g_vdso.image_size = page_up(bytes);
	f = shmem_file_new(k->vfs, "[vdso]", PAGE_SIZE + g_vdso.image_size, cred);
	cred_put(cred);
	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	err = fill(f, vdso_image_start, bytes, &page);
	if (err) {
		file_put(f);
		return err;
	}
	vdso_clock_start(k, page);
	g_vdso.file = f;
	return 0;
}

int vdso_map(struct mm *mm, struct context *ctx)
{
	uint64_t size = PAGE_SIZE + g_vdso.image_size, at;
	int64_t r;

	mm->vdso = 0;
	lock_acquire(&mm->lock);
	at = vma_gap_topdown(mm, size, GUEST_MIN_ADDR, mm->mmap_base);
	mm_unlock(mm);
	if (!at)
		return -ENOMEM;
	r = mm_map_in(mm, ctx, at, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED, g_vdso.file, 0,
		      "[vvar]", VMA_SPECIAL);
	if (r >= 0)
		r = mm_map_in(mm, ctx, at + PAGE_SIZE, g_vdso.image_size, PROT_READ | PROT_EXEC,
			      MAP_PRIVATE | MAP_FIXED, g_vdso.file, PAGE_SIZE, "[vdso]", VMA_SPECIAL);
	if (r < 0)
		return (int)r;
	mm->vdso = at + PAGE_SIZE;
	return 0;
}
