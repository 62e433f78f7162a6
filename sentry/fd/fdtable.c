/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptor tables. Slots hold a file reference; a bitmap of used slots finds the lowest free
 * fd, with `next_hint` below which all are in use. A reserved slot is used but holds no file: it
 * is EBADF for everyone else, and close() of it fails, until it is published.
 *
 * No file operation runs under the lock: closing takes the file out first.
 */
#include "sentry/fd/fdtable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/signal/dnotify.h"
#include "sentry/task/task.h"

#define NR_OPEN_MAX (1u << 20) /* fs.nr_open */
#define FIRST_SIZE  64u

struct fdtable {
	struct ref ref;
	struct lock lock;    /* RANK_FDTABLE */
	struct file **files; /* [lock] size slots */
	uint64_t *used;	     /* [lock] a bit each */
	uint64_t *cloexec;   /* [lock] a bit each */
	uint32_t size;	     /* [lock] multiple of 64 */
	uint32_t next_hint;  /* [lock] no free fd below */
};

static int bit_get(const uint64_t *map, uint32_t i)
{
	return (map[i / 64] >> (i % 64)) & 1;
}

static void bit_put(uint64_t *map, uint32_t i, int on)
{
	if (on)
		map[i / 64] |= 1ull << (i % 64);
	else
		map[i / 64] &= ~(1ull << (i % 64));
}

static int table_grow(struct fdtable *ft, uint32_t want)
{
	uint32_t size = ft->size ? ft->size : FIRST_SIZE;
	struct file **files;
	uint64_t *used, *cloexec;

	while (size < want)
		size *= 2;
	files = calloc(size, sizeof(*files));
	used = calloc(size / 64, sizeof(*used));
	cloexec = calloc(size / 64, sizeof(*cloexec));
	if (!files || !used || !cloexec) {
		free(files);
		free(used);
		free(cloexec);
		return -ENOMEM;
	}
	if (ft->size) {
		memcpy(files, ft->files, ft->size * sizeof(*files));
		memcpy(used, ft->used, ft->size / 8);
		memcpy(cloexec, ft->cloexec, ft->size / 8);
	}
	free(ft->files);
	free(ft->used);
	free(ft->cloexec);
	ft->files = files;
	ft->used = used;
	ft->cloexec = cloexec;
	ft->size = size;
	return 0;
}

struct fdtable *fdtable_new(void)
{
	struct fdtable *ft = calloc(1, sizeof(*ft));

	if (!ft)
		return NULL;
	ref_init(&ft->ref);
	lock_init(&ft->lock, RANK_FDTABLE);
	if (table_grow(ft, FIRST_SIZE)) {
		lock_destroy(&ft->lock);
		free(ft);
		return NULL;
	}
	return ft;
}

struct fdtable *fdtable_get(struct fdtable *ft)
{
	ref_get(&ft->ref);
	return ft;
}

uint64_t fdtable_owner(const struct fdtable *ft)
{
	return (uint64_t)(uintptr_t)ft;
}

/* What close(2) does with a file that has left its slot. Consumes f. */
static int close_file(struct fdtable *ft, struct file *f)
{
	int err = f->mode & FMODE_PATH ? 0 : file_flush(f, fdtable_owner(ft));

	dnotify_file_closed(ft, f);
	file_put(f);
	/* A close is never restarted: the fd is gone. */
	if (err == -ERESTARTSYS || err == -ERESTARTNOINTR || err == -ERESTARTNOHAND)
		err = -EINTR;
	return err;
}

void fdtable_put(struct fdtable *ft)
{
	if (!ft || !ref_put(&ft->ref))
		return;
	for (uint32_t i = 0; i < ft->size; i++) {
		if (ft->files[i])
			(void)close_file(ft, ft->files[i]);
	}
	free(ft->files);
	free(ft->used);
	free(ft->cloexec);
	lock_destroy(&ft->lock);
	free(ft);
}

struct fdtable *fdtable_dup(struct fdtable *ft)
{
	struct fdtable *n = fdtable_new();
	int err = 0;

	if (!n)
		return ERR_PTR(-ENOMEM);
	lock_acquire(&ft->lock);
	if (ft->size > n->size)
		err = table_grow(n, ft->size);
	for (uint32_t i = 0; !err && i < ft->size; i++) {
		if (!ft->files[i])
			continue; /* reserved ones are not inherited: no file is there yet */
		n->files[i] = file_get(ft->files[i]);
		bit_put(n->used, i, 1);
		bit_put(n->cloexec, i, bit_get(ft->cloexec, i));
	}
	lock_release(&ft->lock);
	if (err) {
		fdtable_put(n);
		return ERR_PTR(err);
	}
	return n;
}

/* Gives t a table of its own. */
static int make_private(struct task *t)
{
	struct fdtable *old = t->files, *n;

	if (ref_read(&old->ref) == 1)
		return 0;
	n = fdtable_dup(old);
	if (IS_ERR(n))
		return (int)PTR_ERR(n);
	lock_acquire(&t->k->tasks_lock);
	t->files = n;
	lock_release(&t->k->tasks_lock);
	fdtable_put(old);
	return 0;
}

/* Takes the file of a slot out, lock held; NULL for free and reserved slots. */
static struct file *slot_take(struct fdtable *ft, uint32_t fd)
{
	struct file *f = ft->files[fd];

	if (!f)
		return NULL;
	ft->files[fd] = NULL;
	bit_put(ft->used, fd, 0);
	bit_put(ft->cloexec, fd, 0);
	if (fd < ft->next_hint)
		ft->next_hint = fd;
	return f;
}

int fdtable_exec(struct task *t)
{
	struct fdtable *ft;
	int err = make_private(t);

	if (err)
		return err;
	ft = t->files;
	for (uint32_t w = 0;; w++) {
		for (;;) {
			struct file *f = NULL;
			int more;

			lock_acquire(&ft->lock);
			if (w >= ft->size / 64) {
				lock_release(&ft->lock);
				return 0;
			}
			more = ft->cloexec[w] != 0;
			if (more) {
				uint32_t fd = w * 64 + (uint32_t)__builtin_ctzll(ft->cloexec[w]);

				f = slot_take(ft, fd);
				bit_put(ft->cloexec, fd, 0);
			}
			lock_release(&ft->lock);
			if (f)
				(void)close_file(ft, f);
			if (!more)
				break;
		}
	}
}

struct file *fd_get_path(struct task *t, int fd)
{
	struct fdtable *ft = t->files;
	struct file *f = NULL;

	lock_acquire(&ft->lock);
	if (fd >= 0 && (uint32_t)fd < ft->size) {
		f = ft->files[fd];
		if (f)
			file_get(f);
	}
	lock_release(&ft->lock);
	return f;
}

struct file *fd_get(struct task *t, int fd)
{
	struct file *f = fd_get_path(t, fd);

	if (f && (f->mode & FMODE_PATH)) {
		file_put(f);
		return NULL;
	}
	return f;
}

/* Lock held: the lowest free fd >= min and under limit. */
static int slot_reserve(struct fdtable *ft, uint32_t min, uint64_t limit, int cloexec)
{
	uint32_t fd = min > ft->next_hint ? min : ft->next_hint;
	int err;

	if (limit > NR_OPEN_MAX)
		limit = NR_OPEN_MAX;
	for (; fd < ft->size; fd = (fd / 64 + 1) * 64) {
		uint64_t free_bits = ~ft->used[fd / 64] & (~0ull << (fd % 64));

		if (free_bits) {
			fd = fd / 64 * 64 + (uint32_t)__builtin_ctzll(free_bits);
			break;
		}
	}
	if (fd >= limit)
		return -EMFILE;
	if (fd >= ft->size) {
		err = table_grow(ft, fd + 1);
		if (err)
			return err;
	}
	bit_put(ft->used, fd, 1);
	bit_put(ft->cloexec, fd, cloexec);
	if (min <= ft->next_hint)
		ft->next_hint = fd + 1;
	return (int)fd;
}

int fd_reserve(struct task *t, int min, uint32_t flags)
{
	struct fdtable *ft = t->files;
	uint64_t limit = rlimit_cur(t, RLIMIT_NOFILE);
	int fd;

	lock_acquire(&ft->lock);
	fd = slot_reserve(ft, (uint32_t)min, limit, !!(flags & O_CLOEXEC));
	lock_release(&ft->lock);
	return fd;
}

void fd_publish(struct task *t, int fd, struct file *f)
{
	struct fdtable *ft = t->files;

	lock_acquire(&ft->lock);
	ASSERT((uint32_t)fd < ft->size && !ft->files[fd] && bit_get(ft->used, (uint32_t)fd));
	ft->files[fd] = f;
	lock_release(&ft->lock);
}

void fd_unreserve(struct task *t, int fd)
{
	struct fdtable *ft = t->files;

	lock_acquire(&ft->lock);
	ASSERT((uint32_t)fd < ft->size && !ft->files[fd]);
	bit_put(ft->used, (uint32_t)fd, 0);
	bit_put(ft->cloexec, (uint32_t)fd, 0);
	if ((uint32_t)fd < ft->next_hint)
		ft->next_hint = (uint32_t)fd;
	lock_release(&ft->lock);
}

int fd_install(struct task *t, struct file *f, int min, uint32_t flags)
{
	struct fdtable *ft = t->files;
	uint64_t limit = rlimit_cur(t, RLIMIT_NOFILE);
	int fd;

	lock_acquire(&ft->lock);
	fd = slot_reserve(ft, (uint32_t)min, limit, !!(flags & O_CLOEXEC));
	if (fd >= 0)
		ft->files[fd] = f;
	lock_release(&ft->lock);
	return fd;
}

int fd_close(struct task *t, int fd)
{
	struct fdtable *ft = t->files;
	struct file *f = NULL;

	lock_acquire(&ft->lock);
	if (fd >= 0 && (uint32_t)fd < ft->size)
		f = slot_take(ft, (uint32_t)fd);
	lock_release(&ft->lock);
	return f ? close_file(ft, f) : -EBADF;
}

int fd_dup2(struct task *t, int oldfd, int newfd, uint32_t flags, int dup3)
{
	struct fdtable *ft = t->files;
	struct file *f, *old = NULL;
	uint64_t limit = rlimit_cur(t, RLIMIT_NOFILE);
	int err = 0;

	if (dup3 && (flags & ~(uint32_t)O_CLOEXEC))
		return -EINVAL;
	if (dup3 && oldfd == newfd)
		return -EINVAL;
	if (newfd < 0 || (uint64_t)newfd >= limit || (uint32_t)newfd >= NR_OPEN_MAX)
		return -EBADF;
	f = fd_get_path(t, oldfd);
	if (!f)
		return -EBADF;
	if (oldfd == newfd) {
		file_put(f);
		return newfd;
	}
	lock_acquire(&ft->lock);
	if ((uint32_t)newfd >= ft->size)
		err = table_grow(ft, (uint32_t)newfd + 1);
	/* Reserved by an open or accept in another thread that is about to publish it. */
	if (!err && !ft->files[newfd] && bit_get(ft->used, (uint32_t)newfd))
		err = -EBUSY;
	if (!err) {
		old = ft->files[newfd];
		ft->files[newfd] = f;
		bit_put(ft->used, (uint32_t)newfd, 1);
		bit_put(ft->cloexec, (uint32_t)newfd, !!(flags & O_CLOEXEC));
	}
	lock_release(&ft->lock);
	if (err) {
		file_put(f);
		return err;
	}
	if (old)
		(void)close_file(ft, old);
	return newfd;
}

int fd_close_range(struct task *t, uint32_t first, uint32_t last, uint32_t flags)
{
	struct fdtable *ft;

	if ((flags & ~(uint32_t)(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)) || first > last)
		return -EINVAL;
	if (flags & CLOSE_RANGE_UNSHARE) {
		int err = make_private(t);

		if (err)
			return err;
	}
	ft = t->files;
	for (uint64_t fd = first; fd <= last; fd++) {
		struct file *f = NULL;

		lock_acquire(&ft->lock);
		if (fd >= ft->size) {
			lock_release(&ft->lock);
			break;
		}
		if (flags & CLOSE_RANGE_CLOEXEC) {
			for (; fd < ft->size && fd <= last; fd++) {
				if (ft->files[fd])
					bit_put(ft->cloexec, (uint32_t)fd, 1);
			}
		} else {
			while (fd < ft->size && fd <= last && !ft->files[fd])
				fd++;
			if (fd < ft->size && fd <= last)
				f = slot_take(ft, (uint32_t)fd);
		}
		lock_release(&ft->lock);
		if (f)
			(void)close_file(ft, f);
	}
	return 0;
}

int fd_get_cloexec(struct task *t, int fd)
{
	struct fdtable *ft = t->files;
	int r = -EBADF;

	lock_acquire(&ft->lock);
	if (fd >= 0 && (uint32_t)fd < ft->size && ft->files[fd])
		r = bit_get(ft->cloexec, (uint32_t)fd);
	lock_release(&ft->lock);
	return r;
}

int fd_set_cloexec(struct task *t, int fd, int on)
{
	struct fdtable *ft = t->files;
	int r = -EBADF;

	lock_acquire(&ft->lock);
	if (fd >= 0 && (uint32_t)fd < ft->size && ft->files[fd]) {
		bit_put(ft->cloexec, (uint32_t)fd, on);
		r = 0;
	}
	lock_release(&ft->lock);
	return r;
}

int fdtable_next(struct fdtable *ft, int from)
{
	int r = -1;

	lock_acquire(&ft->lock);
	for (uint32_t fd = from < 0 ? 0 : (uint32_t)from; fd < ft->size; fd++) {
		if (ft->files[fd]) {
			r = (int)fd;
			break;
		}
	}
	lock_release(&ft->lock);
	return r;
}

struct file *fdtable_file(struct fdtable *ft, int fd, int *cloexec)
{
	struct file *f = NULL;

	lock_acquire(&ft->lock);
	if (fd >= 0 && (uint32_t)fd < ft->size && ft->files[fd]) {
		f = file_get(ft->files[fd]);
		if (cloexec)
			*cloexec = bit_get(ft->cloexec, (uint32_t)fd);
	}
	lock_release(&ft->lock);
	return f;
}

int fdtable_size(struct fdtable *ft)
{
	int size;

	lock_acquire(&ft->lock);
	size = (int)ft->size;
	lock_release(&ft->lock);
	return size;
}
