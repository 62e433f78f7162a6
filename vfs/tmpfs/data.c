/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of tmpfs files. A file is a few extents of the memory file: 64 KiB, then as much
 * again as lies before, up to 1 GiB pieces; only those touched exist, so any sparse file needs
 * few. Each extent has a bit per page that was written (or mapped for shared writing); pages
 * without it are holes, read as zeros and are not charged.
 *
 * Locks: reads and writes hold inode->lock and copy straight between the caller and the memory
 * file. Page faults come in under the mm lock, which is inside inode->lock; so the extent table
 * has a later lock of its own, never held over a copy from or to the caller. Extents are not
 * freed before the inode is, since guests may have them mapped (and copies rely on it); what
 * truncation and hole punching give back is the pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/host/memfile.h"
#include "vfs/tmpfs/tmpfs_priv.h"

#define MIN_PAGES (MEMFILE_MIN / PAGE)
#define MAX_EXTENT_PAGES ((1ull << 30) / PAGE)

/* The extent that page belongs to, whether it exists or not. */
static void extent_shape(uint64_t page, uint64_t *first, uint64_t *pages)
{
	if (page < MIN_PAGES) {
		*first = 0;
		*pages = MIN_PAGES;
	} else if (page < MAX_EXTENT_PAGES) {
		*first = *pages = 1ull << (63 - __builtin_clzll(page));
	} else {
		*first = page & ~(MAX_EXTENT_PAGES - 1);
		*pages = MAX_EXTENT_PAGES;
	}
}

/* Index of the first extent that ends after page. */
static uint32_t extent_index(struct tmp_node *n, uint64_t page)
{
	uint32_t lo = 0, hi = n->reg.count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (n->reg.ext[mid].first + n->reg.ext[mid].pages <= page)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct tmp_extent *extent_find(struct tmp_node *n, uint64_t page)
{
	uint32_t i = extent_index(n, page);

	return i < n->reg.count && n->reg.ext[i].first <= page ? &n->reg.ext[i] : NULL;
}

static uint64_t *extent_bits(struct tmp_extent *e)
{
	return e->pages <= 64 ? &e->one : e->bits;
}

/* The extent of page, made if need be. The table's lock is held. */
static struct tmp_extent *extent_make(struct tmp_node *n, uint64_t page)
{
	struct tmp_extent *e = extent_find(n, page), fresh = {0};
	uint32_t at;

	if (e)
		return e;
	if (n->reg.count == n->reg.cap) {
		uint32_t cap = n->reg.cap ? n->reg.cap * 2 : 1;

		e = realloc(n->reg.ext, cap * sizeof(*e));
		if (!e)
			return ERR_PTR(-ENOMEM);
		n->reg.ext = e;
		n->reg.cap = cap;
	}
	extent_shape(page, &fresh.first, &fresh.pages);
	if (fresh.pages > 64) {
		fresh.bits = calloc(fresh.pages / 64, sizeof(uint64_t));
		if (!fresh.bits)
			return ERR_PTR(-ENOMEM);
	}
	fresh.off = memfile_alloc(fresh.pages * PAGE);
	if (fresh.off < 0) {
		free(fresh.bits);
		return ERR_PTR(-ENOSPC);
	}
	at = extent_index(n, page);
	memmove(&n->reg.ext[at + 1], &n->reg.ext[at], (n->reg.count - at) * sizeof(*e));
	n->reg.ext[at] = fresh;
	n->reg.count++;
	return &n->reg.ext[at];
}

static int bit_get(struct tmp_extent *e, uint64_t page)
{
	uint64_t i = page - e->first;

	return (extent_bits(e)[i / 64] >> (i % 64)) & 1;
}

static void bit_set(struct tmp_extent *e, uint64_t page)
{
	uint64_t i = page - e->first;

	extent_bits(e)[i / 64] |= 1ull << (i % 64);
}

static void bit_clear(struct tmp_extent *e, uint64_t page)
{
	uint64_t i = page - e->first;

	extent_bits(e)[i / 64] &= ~(1ull << (i % 64));
}

static int64_t page_off(struct tmp_extent *e, uint64_t page)
{
	return e->off + (int64_t)((page - e->first) * PAGE);
}

/* The first page in [from, to) of e whose bit is `value`, or to. */
static uint64_t bit_next(struct tmp_extent *e, uint64_t from, uint64_t to, int value)
{
	const uint64_t *bits = extent_bits(e);
	uint64_t i = from - e->first, end = to - e->first;

	while (i < end) {
		uint64_t word = value ? bits[i / 64] : ~bits[i / 64];

		word &= ~0ull << (i % 64);
		if (word) {
			i = (i & ~63ull) + (uint64_t)__builtin_ctzll(word);
			return i < end ? e->first + i : to;
		}
		i = (i | 63) + 1;
	}
	return to;
}

/*
 * Makes pages [from, to), all of one extent, data; holes among them are charged and zero. Stops
 * at the first page that can not be had: returns the page after the last good one, or an error
 * when there is none. *off is where `from` lies in the memory file. inode->lock held.
 */
static int64_t pages_make(struct inode *ino, uint64_t from, uint64_t to, int64_t *off)
{
	struct tmp_node *n = tmp_node(ino);
	struct tmp_extent *e;
	uint64_t page = from;
	int r = 0;

	lock_acquire(&n->reg.lock);
	e = extent_make(n, from);
	if (IS_ERR(e)) {
		lock_release(&n->reg.lock);
		return PTR_ERR(e);
	}
	while ((page = bit_next(e, page, to, 0)) < to) {
		r = tmp_charge_page(tmp_sb(ino));
		if (r)
			break;
		bit_set(e, page);
		ino->blocks += PAGE / 512;
		page++;
	}
	*off = page_off(e, from);
	lock_release(&n->reg.lock);
	return page > from ? (int64_t)page : r;
}

/* Turns data pages [from, to) into holes. inode->lock held. */
static void pages_drop(struct inode *ino, uint64_t from, uint64_t to)
{
	struct tmp_node *n = tmp_node(ino);
	struct tmp_sb *tsb = tmp_sb(ino);

	lock_acquire(&n->reg.lock);
	for (uint32_t i = extent_index(n, from); i < n->reg.count; i++) {
		struct tmp_extent *e = &n->reg.ext[i];
		uint64_t page = from > e->first ? from : e->first;
		uint64_t end = to < e->first + e->pages ? to : e->first + e->pages;

		if (e->first >= to)
			break;
		/* The whole range, since a mapping may have touched pages unseen. */
		memfile_punch(page_off(e, page), (end - page) * PAGE);
		while ((page = bit_next(e, page, end, 1)) < end) {
			bit_clear(e, page++);
			__atomic_fetch_sub(&tsb->used_pages, 1, __ATOMIC_RELAXED);
			ino->blocks -= PAGE / 512;
		}
	}
	lock_release(&n->reg.lock);
}

/*
 * What [page, …) is: a run of data pages that is contiguous in the memory file (*off is its
 * start), or a run of holes (*off -1). Returns the page after the run.
 */
static uint64_t run_at(struct tmp_node *n, uint64_t page, int64_t *off)
{
	struct tmp_extent *e;
	uint64_t end;
	uint32_t i;

	*off = -1;
	lock_acquire(&n->reg.lock);
	i = extent_index(n, page);
	e = i < n->reg.count ? &n->reg.ext[i] : NULL;
	if (!e) {
		end = UINT64_MAX >> PAGE_SHIFT;
	} else if (e->first > page) {
		end = e->first;
	} else {
		int data = e->mapped || bit_get(e, page);

		if (data)
			*off = page_off(e, page);
		end = e->first + e->pages;
		if (!e->mapped)
			end = bit_next(e, page, end, !data);
	}
	lock_release(&n->reg.lock);
	return end;
}

/* Zeros [from, to), within one page, where it is data. inode->lock held. */
static void zero_bytes(struct inode *ino, uint64_t from, uint64_t to)
{
	int64_t off;

	if (from >= to)
		return;
	run_at(tmp_node(ino), from >> PAGE_SHIFT, &off);
	if (off >= 0)
		memset((char *)memfile_at(off) + (from & (PAGE - 1)), 0, to - from);
}

/* ------------------------------------------------------------------ read and write */

static ssize_t tmp_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *ino = f->inode;
	struct tmp_node *n = tmp_node(ino);
	size_t done = 0;
	ssize_t r = 0;

	lock_acquire(&ino->lock);
	while (u->left && (uint64_t)*pos < ino->size) {
		int64_t off;
		uint64_t end = run_at(n, (uint64_t)*pos >> PAGE_SHIFT, &off);
		uint64_t bytes = (end << PAGE_SHIFT) - (uint64_t)*pos;

		if (bytes > ino->size - (uint64_t)*pos)
			bytes = ino->size - (uint64_t)*pos;
		if (bytes > u->left)
			bytes = u->left;
		if (off >= 0)
			r = uio_copy_out(u, (char *)memfile_at(off) + (*pos & (PAGE - 1)), bytes);
		else
			r = uio_zero_out(u, bytes);
		if (r <= 0)
			break;
		done += (size_t)r;
		*pos += r;
		if ((uint64_t)r < bytes)
			break;
	}
	lock_release(&ino->lock);
	return done ? (ssize_t)done : r;
}

static ssize_t tmp_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *ino = f->inode;
	size_t done = 0;
	ssize_t r = 0;

	lock_acquire(&ino->lock);
	if (ino->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		r = -EPERM;
	else if ((ino->seals & F_SEAL_GROW) && (uint64_t)*pos + u->left > ino->size)
		r = -EPERM;
	while (!r && u->left) {
		uint64_t page = (uint64_t)*pos >> PAGE_SHIFT, first, pages, last;
		uint64_t in_page = (uint64_t)*pos & (PAGE - 1), bytes;
		int64_t end, off;
		ssize_t n;

		extent_shape(page, &first, &pages);
		last = ((uint64_t)*pos + u->left - 1) >> PAGE_SHIFT;
		if (last >= first + pages)
			last = first + pages - 1;
		end = pages_make(ino, page, last + 1, &off);
		if (end <= 0) {
			r = end;
			break;
		}
		bytes = (((uint64_t)end - page) << PAGE_SHIFT) - in_page;
		if (bytes > u->left)
			bytes = u->left;
		n = uio_copy_in(u, (char *)memfile_at(off) + in_page, bytes);
		if (n <= 0) {
			r = n;
			break;
		}
		done += (size_t)n;
		*pos += n;
		if ((uint64_t)*pos > ino->size)
			ino->size = (uint64_t)*pos;
		if ((uint64_t)n < bytes)
			break;
	}
	if (done)
		inode_touch(ino, IATTR_MTIME | IATTR_CTIME);
	lock_release(&ino->lock);
	return done ? (ssize_t)done : r;
}

int tmp_truncate(struct inode *ino, uint64_t size)
{
	uint64_t old = ino->size, page_end;

	lock_assert_held(&ino->lock);
	if (size < old && (ino->seals & F_SEAL_SHRINK))
		return -EPERM;
	if (size > old && (ino->seals & F_SEAL_GROW))
		return -EPERM;
	if (size > INT64_MAX)
		return -EFBIG;
	ino->size = size;
	if (size < old) {
		/* The rest of the last page must read as zeros if the file grows again. */
		page_end = (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
		zero_bytes(ino, size, page_end);
		pages_drop(ino, page_end >> PAGE_SHIFT, UINT64_MAX >> PAGE_SHIFT);
	} else if (size > old) {
		/* A mapping may have scribbled behind the old end. */
		page_end = (old + PAGE - 1) & ~(uint64_t)(PAGE - 1);
		zero_bytes(ino, old, page_end);
	}
	return 0;
}

/* ------------------------------------------------------------------ fallocate, seek */

static void punch(struct inode *ino, uint64_t from, uint64_t to)
{
	uint64_t first = (from + PAGE - 1) >> PAGE_SHIFT, last = to >> PAGE_SHIFT;

	if (from >> PAGE_SHIFT == last) {
		zero_bytes(ino, from, to);
		return;
	}
	zero_bytes(ino, from, first << PAGE_SHIFT);
	zero_bytes(ino, last << PAGE_SHIFT, to);
	if (first < last)
		pages_drop(ino, first, last);
}

static int preallocate(struct inode *ino, uint64_t from, uint64_t to)
{
	uint64_t page = from >> PAGE_SHIFT, end = (to + PAGE - 1) >> PAGE_SHIFT;
	uint64_t limit = __atomic_load_n(&tmp_sb(ino)->max_pages, __ATOMIC_RELAXED);
	int r = 0;

	/* All at once or nothing, and no loop over what can not be had anyway. */
	if (end - page > (limit ? limit : tmp_memory_pages()))
		r = -ENOSPC;
	while (!r && page < end) {
		uint64_t first, pages, stop;
		int64_t got, at;

		extent_shape(page, &first, &pages);
		stop = first + pages < end ? first + pages : end;
		got = pages_make(ino, page, stop, &at);
		if (got < 0 || (uint64_t)got < stop)
			r = got < 0 ? (int)got : -ENOSPC;
		page = stop;
	}
	return r;
}

static int tmp_fallocate(struct file *f, int mode, int64_t off, int64_t len)
{
	struct inode *ino = f->inode;
	uint64_t from = (uint64_t)off, to = (uint64_t)(off + len);
	uint64_t blocks;
	int r = 0;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP; /* as tmpfs answers to ZERO_RANGE, COLLAPSE, INSERT, UNSHARE */
	lock_acquire(&ino->lock);
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		if (ino->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
			r = -EPERM;
		else
			punch(ino, from, to);
	} else {
		if (!(mode & FALLOC_FL_KEEP_SIZE) && to > ino->size && (ino->seals & F_SEAL_GROW))
			r = -EPERM;
		blocks = ino->blocks;
		if (!r)
			r = preallocate(ino, from, to);
		/* What a failed request added beyond the end goes back at once. */
		if (r && ino->blocks != blocks)
			pages_drop(ino, (ino->size + PAGE - 1) >> PAGE_SHIFT,
				   UINT64_MAX >> PAGE_SHIFT);
		if (!r && !(mode & FALLOC_FL_KEEP_SIZE) && to > ino->size)
			ino->size = to;
	}
	if (!r)
		inode_touch(ino, IATTR_MTIME | IATTR_CTIME);
	lock_release(&ino->lock);
	return r;
}

/* The first page from `page` on that is data (or a hole), or end. */
static uint64_t seek_page(struct tmp_node *n, uint64_t page, uint64_t end, int data)
{
	while (page < end) {
		uint32_t i = extent_index(n, page);
		struct tmp_extent *e = i < n->reg.count ? &n->reg.ext[i] : NULL;
		uint64_t stop, hit;

		if (!e || e->first > page) {
			if (!data)
				return page;
			if (!e)
				return end;
			page = e->first;
			continue;
		}
		stop = e->first + e->pages < end ? e->first + e->pages : end;
		if (!e->mapped)
			hit = bit_next(e, page, stop, data);
		else
			hit = data ? page : stop;
		if (hit < stop)
			return hit;
		page = stop;
	}
	return end;
}

static int64_t tmp_llseek(struct file *f, int64_t off, int whence)
{
	struct inode *ino = f->inode;
	int64_t pos = -EINVAL;
	uint64_t page, end;

	lock_acquire(&ino->lock);
	switch (whence) {
	case SEEK_SET:
		pos = off;
		break;
	case SEEK_CUR:
		if (__builtin_add_overflow(f->pos, off, &pos))
			pos = -EOVERFLOW;
		else if (pos < 0)
			pos = -EINVAL;
		break;
	case SEEK_END:
		if (__builtin_add_overflow((int64_t)ino->size, off, &pos))
			pos = -EOVERFLOW;
		else if (pos < 0)
			pos = -EINVAL;
		break;
	case SEEK_DATA:
	case SEEK_HOLE:
		if (off < 0 || (uint64_t)off >= ino->size) {
			pos = -ENXIO;
			break;
		}
		end = (ino->size + PAGE - 1) >> PAGE_SHIFT;
		lock_acquire(&tmp_node(ino)->reg.lock);
		page = seek_page(tmp_node(ino), (uint64_t)off >> PAGE_SHIFT, end,
				 whence == SEEK_DATA);
		lock_release(&tmp_node(ino)->reg.lock);
		if (page >= end)
			pos = whence == SEEK_DATA ? -ENXIO : (int64_t)ino->size;
		else if (page == (uint64_t)off >> PAGE_SHIFT)
			pos = off;
		else
			pos = (int64_t)(page << PAGE_SHIFT);
		break;
	default:
		break;
	}
	lock_release(&ino->lock);
	return whence == SEEK_SET && pos < 0 ? -EINVAL : pos;
}

/* ------------------------------------------------------------------ mapping, the rest */

/*
 * Called under the mm lock: inode->lock is out of reach, size is read as a word. Nobody tells when
 * a guest touches the pages of a shared writable mapping, so the extent counts as data from now
 * on; charging them all would make sparse files that are mapped eat up size=; what is touched is
 * bounded by the sandbox's memory limit instead.
 */
static int tmp_map_extent(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
			  struct map_extent *out)
{
	struct inode *ino = f->inode;
	struct tmp_node *n = tmp_node(ino);
	uint64_t size = __atomic_load_n(&ino->size, __ATOMIC_RELAXED);
	uint64_t page = off >> PAGE_SHIFT, end = (size + PAGE - 1) >> PAGE_SHIFT, stop;
	struct tmp_extent *e;
	int r = 0;

	if (page >= end)
		return -ENXIO;
	if (len >> PAGE_SHIFT < end - page)
		end = page + (len >> PAGE_SHIFT);
	lock_acquire(&n->reg.lock);
	e = extent_make(n, page);
	if (IS_ERR(e)) {
		r = (int)PTR_ERR(e);
	} else {
		stop = e->first + e->pages < end ? e->first + e->pages : end;
		out->fd = memfile_fd();
		out->off = (uint64_t)page_off(e, page);
		out->len = (stop - page) * PAGE;
		/* Not only with PROT_WRITE: mprotect(2) may add it later. */
		if ((f->mode & FMODE_WRITE) && (flags & MAP_TYPE) != MAP_PRIVATE)
			e->mapped = 1;
	}
	lock_release(&n->reg.lock);
	return r;
}

static int tmp_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	return 0;
}

static long tmp_ioctl(struct file *f, struct ioctl_req *r)
{
	static const struct {
		uint32_t fs, attr;
	} bits[] = {{FS_IMMUTABLE_FL, STATX_ATTR_IMMUTABLE}, {FS_APPEND_FL, STATX_ATTR_APPEND}};
	struct inode *ino = f->inode;
	uint32_t flags = 0, attrs = 0;
	int e;

	switch (r->cmd) {
	case FS_IOC_GETFLAGS:
		for (size_t i = 0; i < 2; i++)
			if (ino->attr_flags & bits[i].attr)
				flags |= bits[i].fs;
		return r->copy_out(r, r->arg, &flags, sizeof(flags));
	case FS_IOC_SETFLAGS:
		e = r->copy_in(r, &flags, r->arg, sizeof(flags));
		if (e)
			return e;
		if (flags & ~(uint32_t)(FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL))
			return -EOPNOTSUPP;
		if (f->cred->fsuid != ino->uid && !cred_has_cap(f->cred, CAP_FOWNER))
			return -EPERM;
		for (size_t i = 0; i < 2; i++)
			if (flags & bits[i].fs)
				attrs |= bits[i].attr;
		lock_acquire(&ino->lock);
		if (((ino->attr_flags ^ attrs) & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) &&
		    !cred_has_cap(f->cred, CAP_LINUX_IMMUTABLE)) {
			lock_release(&ino->lock);
			return -EPERM;
		}
		ino->attr_flags &= ~(uint32_t)(STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND);
		ino->attr_flags |= attrs;
		inode_touch(ino, IATTR_CTIME);
		lock_release(&ino->lock);
		return 0;
	default:
		return -ENOIOCTLCMD;
	}
}

const struct file_ops g_tmp_file_fops = {
	.read = tmp_read,
	.write = tmp_write,
	.llseek = tmp_llseek,
	.ioctl = tmp_ioctl,
	.map_extent = tmp_map_extent,
	.fsync = tmp_fsync,
	.fallocate = tmp_fallocate,
};

void tmp_data_evict(struct tmp_node *n)
{
	struct tmp_sb *tsb = tmp_sb(n->inode);

	for (uint32_t i = 0; i < n->reg.count; i++) {
		memfile_free(n->reg.ext[i].off, n->reg.ext[i].pages * PAGE);
		free(n->reg.ext[i].bits);
	}
	free(n->reg.ext);
	__atomic_fetch_sub(&tsb->used_pages, n->inode->blocks / (PAGE / 512), __ATOMIC_RELAXED);
	lock_destroy(&n->reg.lock);
}
