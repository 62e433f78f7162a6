/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF images: checking their headers and mapping their segments (Linux: fs/binfmt_elf.c). Overlaps
 * between segments are allowed, later ones win; what must hold is that everything stays in guest
 * range and that sizes do not wrap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/loader/loader.h"
#include "sentry/mm/mm_priv.h"

static int header_ok(const Elf64_Ehdr *eh)
{
	return !memcmp(eh->e_ident, ELFMAG, SELFMAG) && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ELFDATA2LSB && eh->e_machine == EM_X86_64 &&
	       (eh->e_type == ET_EXEC || eh->e_type == ET_DYN) &&
	       eh->e_phentsize == sizeof(Elf64_Phdr) && eh->e_phnum >= 1 &&
	       eh->e_phnum <= ELF_PHNUM_MAX;
}

static int read_exact(struct file *f, void *buf, size_t n, uint64_t at)
{
	ssize_t got;

	if (at > INT64_MAX - n)
		return -ENOEXEC;
	got = file_kread(f, buf, n, (int64_t)at);
	if (got < 0)
		return (int)got;
	return (size_t)got == n ? 0 : -EIO;
}

static int read_interp(struct elf_file *e, const Elf64_Phdr *ph)
{
	int err;

	if (ph->p_filesz < 2 || ph->p_filesz > PATH_MAX)
		return -ENOEXEC;
	e->interp = malloc(ph->p_filesz);
	if (!e->interp)
		return -ENOMEM;
	err = read_exact(e->file, e->interp, ph->p_filesz, ph->p_offset);
	if (!err && e->interp[ph->p_filesz - 1] != '\0')
		err = -ENOEXEC;
	return err;
}

/* One PT_LOAD: its place and size, and what it adds to the image's span. */
static int check_load(struct elf_file *e, const Elf64_Phdr *ph)
{
	uint64_t end, file_end;

	if (ph->p_filesz > ph->p_memsz || ph->p_memsz > GUEST_TASK_SIZE)
		return -EINVAL;
	if (__builtin_add_overflow(ph->p_vaddr, ph->p_memsz, &end) || end > GUEST_TASK_SIZE)
		return -EINVAL;
	if (__builtin_add_overflow(ph->p_offset, ph->p_filesz, &file_end) ||
	    file_end > (uint64_t)INT64_MAX - PAGE_SIZE)
		return -EINVAL;
	if ((ph->p_offset ^ ph->p_vaddr) & ~PAGE_MASK)
		return -EINVAL;
	if (page_down(ph->p_vaddr) < e->lo)
		e->lo = page_down(ph->p_vaddr);
	if (page_up(end) > e->hi)
		e->hi = page_up(end);
	return 0;
}

static int scan_headers(struct elf_file *e)
{
	int err = 0, loads = 0;

	e->lo = UINT64_MAX;
	e->exec_stack = -1;
	for (int i = 0; i < e->eh.e_phnum && !err; i++) {
		const Elf64_Phdr *ph = &e->ph[i];

		switch (ph->p_type) {
		case PT_LOAD:
			if (ph->p_memsz == 0)
				break;
			loads++;
			err = check_load(e, ph);
			break;
		case PT_INTERP: /* the first one counts */
			if (!e->interp)
				err = read_interp(e, ph);
			break;
		case PT_GNU_STACK:
			e->exec_stack = (ph->p_flags & PF_X) != 0;
			break;
		}
	}
	if (!err && (!loads || e->hi <= e->lo))
		err = -ENOEXEC;
	return err;
}

int elf_open(struct file *f, struct elf_file *e)
{
	size_t size;
	int err;

	memset(e, 0, sizeof(*e));
	e->file = f;
	err = read_exact(f, &e->eh, sizeof(e->eh), 0);
	if (err)
		return err == -EIO ? -ENOEXEC : err;
	if (!header_ok(&e->eh))
		return -ENOEXEC;
	size = e->eh.e_phnum * sizeof(*e->ph);
	e->ph = malloc(size);
	if (!e->ph)
		return -ENOMEM;
	err = read_exact(f, e->ph, size, e->eh.e_phoff);
	if (err == -EIO)
		err = -ENOEXEC;
	if (!err)
		err = scan_headers(e);
	if (err)
		elf_close(e);
	return err;
}

void elf_close(struct elf_file *e)
{
	free(e->ph);
	free(e->interp);
	e->ph = NULL;
	e->interp = NULL;
}

/* ---- mapping ---- */

static int prot_of(const Elf64_Phdr *ph)
{
	return (ph->p_flags & PF_R ? PROT_READ : 0) | (ph->p_flags & PF_W ? PROT_WRITE : 0) |
	       (ph->p_flags & PF_X ? PROT_EXEC : 0);
}

int elf_zero_tails(struct mm *mm, struct elf_tails *t)
{
	static const uint8_t zeros[PAGE_SIZE];

	for (size_t i = 0; i < t->count; i++) {
		size_t n = t->v[i].to - t->v[i].from;

		if (mm_write(mm, t->v[i].from, zeros, n) != (ssize_t)n)
			return -EFAULT;
	}
	t->count = 0;
	return 0;
}

/*
 * The rest of the last file page reads as zero. A segment that is not writable keeps the file's
 * bytes. Images with an absurd number of segments take more handoffs.
 */
static int add_tail(struct mm *mm, struct context *ctx, struct elf_tails *t, uint64_t from,
		    uint64_t to, int prot)
{
	int err;

	if (from == to || !(prot & PROT_WRITE))
		return 0;
	if (t->count == ELF_TAILS_MAX) {
		err = mm_batch_end(mm, ctx);
		if (!err)
			err = elf_zero_tails(mm, t);
		if (!err)
			err = mm_batch_begin(mm);
		if (err)
			return err;
	}
	t->v[t->count].from = from;
	t->v[t->count++].to = to;
	return 0;
}

static int map_segment(const struct elf_file *e, const Elf64_Phdr *ph, struct mm *mm,
		       struct context *ctx, uint64_t bias, struct elf_tails *tails)
{
	uint64_t start = bias + ph->p_vaddr, skew = start & ~PAGE_MASK;
	uint64_t file_end = start + ph->p_filesz, mem_end = start + ph->p_memsz;
	uint64_t anon = ph->p_filesz ? page_up(file_end) : page_down(start);
	int prot = prot_of(ph);
	int64_t r;

	if (ph->p_filesz) {
		r = mm_map_in(mm, ctx, start - skew, ph->p_filesz + skew, prot,
			      MAP_PRIVATE | MAP_FIXED, e->file, ph->p_offset - skew, NULL, 0);
		if (r < 0)
			return (int)r;
		if (mem_end > file_end) {
			uint64_t to = mem_end < anon ? page_up(mem_end) : anon;
			int err = add_tail(mm, ctx, tails, file_end, to, prot);

			if (err)
				return err;
		}
	}
	if (page_up(mem_end) > anon) {
		r = mm_map_in(mm, ctx, anon, page_up(mem_end) - anon, prot,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0, NULL, 0);
		if (r < 0)
			return (int)r;
	}
	return 0;
}

/* The bias that puts the image at base, or into the mmap area. */
static int choose_bias(const struct elf_file *e, struct mm *mm, uint64_t base, uint64_t *bias)
{
	uint64_t span = e->hi - e->lo;

	if (e->eh.e_type == ET_EXEC) {
		*bias = 0;
		return e->lo < GUEST_MIN_ADDR ? -EPERM : 0;
	}
	if (!base) {
		lock_acquire(&mm->lock);
		base = vma_gap_topdown(mm, span, GUEST_MIN_ADDR, mm->mmap_base);
		mm_unlock(mm);
		if (!base)
			return -ENOMEM;
	}
	if (!guest_range_ok(base, span))
		return -ENOMEM;
	*bias = base - e->lo; /* may wrap; added to addresses of the image it comes out right */
	return 0;
}

static void note_bounds(struct elf_image *img, const Elf64_Phdr *ph, uint64_t bias)
{
	uint64_t start = bias + ph->p_vaddr, file_end = start + ph->p_filesz;

	if ((ph->p_flags & PF_X) && start < img->start_code)
		img->start_code = start;
	if (start > img->start_data)
		img->start_data = start;
	if ((ph->p_flags & PF_X) && file_end > img->end_code)
		img->end_code = file_end;
	if (file_end > img->end_data)
		img->end_data = file_end;
	if (start + ph->p_memsz > img->end)
		img->end = start + ph->p_memsz;
}

int elf_map(const struct elf_file *e, struct mm *mm, struct context *ctx, uint64_t base,
	    struct elf_image *img, struct elf_tails *tails)
{
	uint64_t bias = 0;
	int err = choose_bias(e, mm, base, &bias);

	memset(img, 0, sizeof(*img));
	img->start_code = UINT64_MAX;
	img->bias = bias;
	img->entry = bias + e->eh.e_entry;
	for (int i = 0; i < e->eh.e_phnum && !err; i++) {
		const Elf64_Phdr *ph = &e->ph[i];

		if (ph->p_type != PT_LOAD || ph->p_memsz == 0)
			continue;
		err = map_segment(e, ph, mm, ctx, bias, tails);
		note_bounds(img, ph, bias);
		if (ph->p_offset <= e->eh.e_phoff &&
		    e->eh.e_phoff - ph->p_offset < ph->p_filesz)
			img->phdr = e->eh.e_phoff - ph->p_offset + ph->p_vaddr + bias;
	}
	return err;
}
