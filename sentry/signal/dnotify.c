/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fcntl(F_NOTIFY): a mark on a directory's inode (vfs/notify.c) that signals the file's owner
 * (sigio.c). A registration belongs to one open file and one fd table, as on Linux: closing any
 * descriptor of that file in that table ends it, so it needs no reference on the file.
 *
 * Locks: g_dnotify.lock (RANK_EPOLL_CTL, like inotify's) guards the table and is held across
 * notify_add/del. The event function runs under the VFS's notify lock and touches only its own
 * registration, whose event mask is atomic.
 */
#include "sentry/signal/dnotify.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "sentry/signal/sigio.h"
#include "vfs/proc/proc.h"
#include "vfs/vfs.h"

#define BUCKETS 256u

struct dnotify {
	struct notify_watch nw; /* nw.mask: [a] events, 0 once a one-shot has fired */
	struct list_head node;	/* [lock] in its bucket */
	struct file *file;	/* [I] */
	struct fdtable *files;	/* [I] only compared */
	int fd;			/* [a] */
	uint32_t multishot;	/* [a] */
};

static struct {
	pthread_once_t once;
	struct lock lock;
	struct list_head bucket[BUCKETS]; /* [lock] by file */
	uint32_t count;			  /* [a] so that a close pays one load while there are none */
} g_dnotify = { .once = PTHREAD_ONCE_INIT };

static void dnotify_init(void)
{
	lock_init(&g_dnotify.lock, RANK_EPOLL_CTL);
	for (uint32_t i = 0; i < BUCKETS; i++)
		list_init(&g_dnotify.bucket[i]);
}

static struct list_head *bucket_of(const struct file *f)
{
	return &g_dnotify.bucket[hash_u64((uint64_t)(uintptr_t)f) % BUCKETS];
}

static struct dnotify *find(const struct fdtable *ft, const struct file *f)
{
	struct dnotify *d;

	lock_assert_held(&g_dnotify.lock);
	list_for_each(d, bucket_of(f), node)
		if (d->file == f && d->files == ft)
			return d;
	return NULL;
}

/* Consumes d, which may be NULL. */
static void end(struct dnotify *d)
{
	lock_assert_held(&g_dnotify.lock);
	if (!d)
		return;
	notify_del(d->file->inode->sb->vfs, &d->nw);
	list_del(&d->node);
	__atomic_fetch_sub(&g_dnotify.count, 1, __ATOMIC_RELAXED);
	free(d);
}

static void on_event(struct notify_watch *nw, uint32_t mask, uint32_t cookie, const char *name)
{
	struct dnotify *d = container_of(nw, struct dnotify, nw);

	(void)cookie;
	(void)name;
	/* The mark's end comes as IN_IGNORED, wanted or not. */
	if (!(__atomic_load_n(&nw->mask, __ATOMIC_RELAXED) & mask))
		return;
	if (!__atomic_load_n(&d->multishot, __ATOMIC_RELAXED))
		__atomic_store_n(&nw->mask, 0, __ATOMIC_RELAXED);
	sigio_raise(d->file, __atomic_load_n(&d->fd, __ATOMIC_RELAXED), POLL_MSG);
}

static uint32_t events_of(uint32_t mask)
{
	static const struct {
		uint32_t dn, in;
	} table[] = {
		{ DN_ACCESS, IN_ACCESS },
		{ DN_MODIFY, IN_MODIFY },
		{ DN_CREATE, IN_CREATE | IN_MOVED_TO },
		{ DN_DELETE, IN_DELETE | IN_MOVED_FROM },
		{ DN_RENAME, NOTIFY_RENAME },
		{ DN_ATTRIB, IN_ATTRIB },
	};
	uint32_t events = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (mask & table[i].dn)
			events |= table[i].in;
	return events;
}

static struct dnotify *start(struct task *t, struct file *f)
{
	struct dnotify *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->file = f;
	d->files = t->files;
	d->nw.event = on_event;
	list_add_tail(&d->node, bucket_of(f));
	__atomic_fetch_add(&g_dnotify.count, 1, __ATOMIC_RELAXED);
	notify_add(f->inode->sb->vfs, &d->nw, f->inode);
	return d;
}

int dnotify_set(struct task *t, struct file *f, int fd, uint32_t mask)
{
	struct dnotify *d;
	struct file *now;
	int64_t enabled = 1;
	int r = 0;

	pthread_once(&g_dnotify.once, dnotify_init);
	(void)proc_sysctl_value("fs.dir-notify-enable", &enabled, 1);
	if (!enabled)
		return -EINVAL;
	if (!(mask & ~(uint32_t)DN_MULTISHOT)) {
		dnotify_file_closed(t->files, f);
		return 0;
	}
	if (!S_ISDIR(f->inode->mode))
		return -ENOTDIR;
	r = file_owner_set_default(t, f);
	if (r)
		return r;
	lock_acquire(&g_dnotify.lock);
	d = find(t->files, f);
	if (!d)
		d = start(t, f);
	if (d) {
		/* What was asked for before goes on. */
		__atomic_store_n(&d->fd, fd, __ATOMIC_RELAXED);
		if (!d->nw.mask)
			__atomic_store_n(&d->multishot, 0, __ATOMIC_RELAXED);
		if (mask & DN_MULTISHOT)
			__atomic_store_n(&d->multishot, 1, __ATOMIC_RELAXED);
		__atomic_fetch_or(&d->nw.mask, events_of(mask), __ATOMIC_RELAXED);
		/* Another thread may have closed fd before it could find anything to end. */
		now = fd_get(t, fd);
		if (now != f)
			end(d);
	} else {
		r = -ENOMEM;
		now = NULL;
	}
	lock_release(&g_dnotify.lock);
	if (now)
		file_put(now);
	return r;
}

void dnotify_file_closed(struct fdtable *ft, struct file *f)
{
	if (!__atomic_load_n(&g_dnotify.count, __ATOMIC_RELAXED) || !S_ISDIR(f->inode->mode))
		return;
	lock_acquire(&g_dnotify.lock);
	end(find(ft, f));
	lock_release(&g_dnotify.lock);
}
