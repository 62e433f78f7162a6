/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /proc/PID/maps, smaps and smaps_rollup. Resident numbers are estimates from the
 * sampled count of the whole address space (oom.c), spread over its writable private memory; sizes
 * and flags are exact.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/kernel.h"
#include "sentry/mm/mm_priv.h"

#define PATH_BUF (PATH_MAX + 32)

static void show_name(struct mm *mm, const struct vma *v, struct path root, char *buf,
		      struct strbuf *sb)
{
	const char *name = NULL;

	if (v->file && !(v->flags & VMA_SPECIAL)) {
		name = path_name(mm->k->vfs, v->file->path, root, buf, PATH_BUF);
		if (IS_ERR(name))
			name = "(unreachable)";
	} else if (v->name && v->name[0] == '[') {
		name = v->name;
	} else if (v->start < mm->brk && v->end > mm->brk_start) {
		name = "[heap]";
	} else if (v->start <= mm->start_stack && v->end > mm->start_stack) {
		name = "[stack]";
	} else if (v->name) {
		strbuf_printf(sb, "[anon:%s]", v->name);
		return;
	}
	if (!name)
		return;
	/* seq_file_path escapes newlines only. */
	for (; *name; name++) {
		if (*name == '\n')
			strbuf_puts(sb, "\\012");
		else
			strbuf_putc(sb, *name);
	}
}

static void show_line(struct mm *mm, const struct vma *v, struct path root, char *buf,
		      struct strbuf *sb)
{
	uint64_t dev = 0, ino = 0, off = 0;
	size_t from = sb->len;

	if (v->file && !(v->flags & VMA_SPECIAL)) {
		dev = v->file->inode->sb->dev;
		ino = v->file->inode->ino;
		off = v->off;
	}
	strbuf_printf(sb, "%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu ", v->start, v->end,
		      v->prot & PROT_READ ? 'r' : '-', v->prot & PROT_WRITE ? 'w' : '-',
		      v->prot & PROT_EXEC ? 'x' : '-', v->flags & VMA_SHARED ? 's' : 'p', off,
		      linux_major(dev), linux_minor(dev), ino);
	/* Names start at column 74 when there is one. */
	if (v->file || v->name || (v->start < mm->brk && v->end > mm->brk_start) ||
	    (v->start <= mm->start_stack && v->end > mm->start_stack)) {
		while (sb->len - from < 73 && !sb->err)
			strbuf_putc(sb, ' ');
		show_name(mm, v, root, buf, sb);
	}
	strbuf_putc(sb, '\n');
}

struct smaps_sums {
	uint64_t size, rss, priv_dirty, anon, locked;
};

static void show_numbers(const struct smaps_sums *s, int rollup, struct strbuf *sb)
{
	if (!rollup)
		strbuf_printf(sb,
			      "Size:           %8lu kB\nKernelPageSize: %8u kB\n"
			      "MMUPageSize:    %8u kB\n",
			      s->size, 4u, 4u);
	strbuf_printf(sb, "Rss:            %8lu kB\n", s->rss);
	strbuf_printf(sb, "Pss:            %8lu kB\n", s->rss);
	strbuf_printf(sb, "Pss_Dirty:      %8lu kB\n", s->priv_dirty);
	if (rollup)
		strbuf_printf(sb,
			      "Pss_Anon:       %8lu kB\nPss_File:       %8lu kB\n"
			      "Pss_Shmem:      %8u kB\n",
			      s->anon, s->rss - s->anon, 0u);
	strbuf_printf(sb,
		      "Shared_Clean:   %8u kB\nShared_Dirty:   %8u kB\n"
		      "Private_Clean:  %8lu kB\nPrivate_Dirty:  %8lu kB\n"
		      "Referenced:     %8lu kB\nAnonymous:      %8lu kB\n"
		      "KSM:            %8u kB\nLazyFree:       %8u kB\n"
		      "AnonHugePages:  %8u kB\nShmemPmdMapped: %8u kB\nFilePmdMapped:  %8u kB\n"
		      "Shared_Hugetlb: %8u kB\nPrivate_Hugetlb:%8u kB\n"
		      "Swap:           %8u kB\nSwapPss:        %8u kB\nLocked:         %8lu kB\n",
		      0u, 0u, s->rss - s->priv_dirty, s->priv_dirty, s->rss, s->anon, 0u, 0u, 0u,
		      0u, 0u, 0u, 0u, 0u, 0u, s->locked);
}

static void show_vm_flags(const struct vma *v, struct strbuf *sb)
{
	static const struct {
		uint32_t flag;
		char text[3];
	} table[] = {
		{ VMA_GROWSDOWN, "gd" }, { VMA_LOCKED, "lo" },	  { VMA_LOCKONFAULT, "lf" },
		{ VMA_DONTFORK, "dc" },	 { VMA_NORESERVE, "nr" }, { VMA_WIPEONFORK, "wf" },
		{ VMA_DONTDUMP, "dd" },	 { VMA_HUGEPAGE, "hg" },  { VMA_NOHUGEPAGE, "nh" },
		{ VMA_SEALED, "sl" },
	};

	strbuf_puts(sb, "VmFlags: ");
	if (v->prot & PROT_READ)
		strbuf_puts(sb, "rd ");
	if (v->prot & PROT_WRITE)
		strbuf_puts(sb, "wr ");
	if (v->prot & PROT_EXEC)
		strbuf_puts(sb, "ex ");
	if (v->flags & VMA_SHARED)
		strbuf_puts(sb, "sh ");
	strbuf_puts(sb, "mr ");
	if (v->max_prot & PROT_WRITE)
		strbuf_puts(sb, "mw ");
	if (v->max_prot & PROT_EXEC)
		strbuf_puts(sb, "me ");
	if (v->flags & VMA_SHARED)
		strbuf_puts(sb, "ms ");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (v->flags & table[i].flag)
			strbuf_printf(sb, "%s ", table[i].text);
	}
	strbuf_putc(sb, '\n');
}

/* The part of the sampled resident pages that falls on v. */
static uint64_t vma_rss_kb(const struct mm *mm, const struct vma *v)
{
	uint64_t pages = vma_pages(v), rss = __atomic_load_n(&mm->rss_pages, __ATOMIC_RELAXED);

	if (!(v->prot & VMA_PROT_ALL))
		return 0;
	if (v->file || !vma_is_data(v))
		return pages * 4;
	if (!mm->data_pages || rss >= mm->data_pages)
		return pages * 4;
	return (uint64_t)((unsigned __int128)pages * rss / mm->data_pages) * 4;
}

static struct smaps_sums vma_sums(const struct mm *mm, const struct vma *v)
{
	struct smaps_sums s = { .size = vma_pages(v) * 4, .rss = vma_rss_kb(mm, v) };

	if (!v->file && !(v->flags & VMA_SHARED))
		s.anon = s.priv_dirty = s.rss;
	if (v->flags & VMA_LOCKED)
		s.locked = s.rss;
	return s;
}

void mm_show_maps(struct mm *mm, struct path root, int smaps, struct strbuf *sb)
{
	struct smaps_sums sum = { 0 };
	uint64_t low = 0, high = 0;
	struct vma **copy;
	size_t count, i = 0;
	char *buf = malloc(PATH_BUF);

	if (!buf) {
		sb->err = -ENOMEM;
		return;
	}
	/* path_name takes VFS locks, which rank below mm->lock: show copies. */
	lock_acquire(&mm->lock);
	count = mm->vma_count;
	copy = calloc(count + 1, sizeof(*copy));
	for (; copy && i < count; i++) {
		copy[i] = vma_dup(mm->vmas[i]);
		if (!copy[i])
			break;
	}
	lock_release(&mm->lock);
	if (!copy || i < count)
		sb->err = -ENOMEM;
	count = i;
	for (i = 0; i < count && !sb->err; i++) {
		struct smaps_sums s = vma_sums(mm, copy[i]);

		if (smaps == 2) {
			low = i ? low : copy[i]->start;
			high = copy[i]->end;
			sum.rss += s.rss;
			sum.anon += s.anon;
			sum.priv_dirty += s.priv_dirty;
			sum.locked += s.locked;
			continue;
		}
		show_line(mm, copy[i], root, buf, sb);
		if (smaps) {
			show_numbers(&s, 0, sb);
			strbuf_puts(sb, "THPeligible:           0\n");
			show_vm_flags(copy[i], sb);
		}
	}
	if (smaps == 2 && count) {
		strbuf_printf(sb, "%08lx-%08lx ---p 00000000 00:00 0 %*s[rollup]\n", low, high, 33,
			      "");
		show_numbers(&sum, 1, sb);
	}
	for (i = 0; copy && i < count; i++)
		vma_free(copy[i]);
	free(copy);
	free(buf);
}
