/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inotify instances: watches on inodes (notify.c raises the events) and the queue of events that
 * read(2) takes.
 *
 * Locks: in->ctl (RANK_EPOLL_CTL) guards the watch tables and is held across notify_add/del;
 * in->lock (RANK_CACHE) guards the queue and is all that the event functions take, since they run
 * under the VFS's notify lock. A watch that ends by itself (its inode is gone, or it was one-shot)
 * can therefore not leave the tables at once: it is marked dead, and the next call that holds
 * ctl sweeps it out.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include "platform/base/hash.h"
#include "vfs/anon/anon.h"

#define MASK_KNOWN                                                                              \
	(IN_ALL_EVENTS | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED | IN_ONLYDIR | IN_DONT_FOLLOW | \
	 IN_EXCL_UNLINK | IN_MASK_ADD | IN_MASK_CREATE | IN_ISDIR | IN_ONESHOT)
#define EVENT_SIZE sizeof(struct inotify_event)
#define BUCKETS_MIN 16u
#define USER_BUCKETS 256u

struct inotify_limits g_inotify_limits = {
	.max_user_instances = 128,
	.max_user_watches = 1u << 20,
	.max_queued_events = 16384,
};

/* By user; users that share a bucket share the allowance. */
static struct {
	uint32_t instances, watches; /* [a] */
} g_users[USER_BUCKETS];

struct event {
	struct list_head node;
	int wd;
	uint32_t mask, cookie;
	uint16_t name_len;
	char name[]; /* NUL-terminated when name_len */
};

struct inotify {
	struct vfs *vfs;	   /* [I] */
	uint32_t user;		   /* [I] index into g_users */
	struct lock ctl;	   /* RANK_EPOLL_CTL */
	struct list_head *by_wd;   /* [ctl] hash tables of one size */
	struct list_head *by_inode; /* [ctl] */
	uint32_t buckets, watches; /* [ctl] */
	int last_wd;		   /* [ctl] */
	struct lock lock;	   /* RANK_CACHE */
	struct list_head queue;	   /* [lock] */
	uint32_t queued;	   /* [lock] */
	size_t queued_bytes;	   /* [lock] */
	int overflowed;		   /* [lock] the overflow event is in the queue */
	struct list_head dead;	   /* [lock] watches to sweep */
	struct waitq wq;
};

struct watch {
	struct notify_watch nw;
	struct inotify *in;	 /* [I] */
	struct inode *key;	 /* [I] the inode's address; a hint once dead */
	uint64_t ino, dev;	 /* [I] for fdinfo */
	int wd;			 /* [I] */
	struct list_head wd_node, inode_node; /* [ctl] */
	uint32_t flags;		 /* [a] IN_ONESHOT, IN_EXCL_UNLINK */
	struct list_head dead_node; /* [in->lock] */
	int dead;		 /* [in->lock] IN_IGNORED was queued */
};

static const struct file_ops g_inotify_ops;

int file_is_inotify(const struct file *f)
{
	return f->ops == &g_inotify_ops;
}

/* ---- the queue ---- */

/* What read(2) gives: the name is padded to a multiple of the event's own size. */
static size_t event_bytes(const struct event *e)
{
	size_t name = e->name_len ? e->name_len + 1u : 0;

	return EVENT_SIZE + (name + EVENT_SIZE - 1) / EVENT_SIZE * EVENT_SIZE;
}

static int same_event(const struct event *e, int wd, uint32_t mask, const char *name, size_t len)
{
	return e->wd == wd && e->mask == mask && !(mask & IN_IGNORED) && e->name_len == len &&
	       memcmp(e->name, name, len) == 0;
}

static void queue_locked(struct inotify *in, int wd, uint32_t mask, uint32_t cookie,
			 const char *name)
{
	size_t len = name ? strlen(name) : 0;
	struct event *e;

	lock_assert_held(&in->lock);
	if (in->queued >= g_inotify_limits.max_queued_events) {
		if (in->overflowed)
			return;
		in->overflowed = 1;
		wd = -1;
		mask = IN_Q_OVERFLOW;
		cookie = 0;
		len = 0;
	} else if (in->queued && same_event(list_last(&in->queue, struct event, node), wd, mask,
					    name ? name : "", len)) {
		return;
	}
	e = malloc(sizeof(*e) + len + 1);
	if (!e)
		return;
	e->wd = wd;
	e->mask = mask;
	e->cookie = cookie;
	e->name_len = (uint16_t)len;
	if (len)
		memcpy(e->name, name, len);
	e->name[len] = 0;
	list_add_tail(&e->node, &in->queue);
	in->queued++;
	in->queued_bytes += event_bytes(e);
	waitq_wake(&in->wq, POLLIN | POLLRDNORM);
}

/* The watch ends: IN_IGNORED once, then it waits to be swept. */
static void watch_die_locked(struct watch *w)
{
	if (w->dead)
		return;
	w->dead = 1;
	queue_locked(w->in, w->wd, IN_IGNORED, 0, NULL);
	list_add_tail(&w->dead_node, &w->in->dead);
}

static void on_event(struct notify_watch *nw, uint32_t mask, uint32_t cookie, const char *name)
{
	struct watch *w = container_of(nw, struct watch, nw);
	struct inotify *in = w->in;

	lock_acquire(&in->lock);
	if (w->dead) {
		lock_release(&in->lock);
		return;
	}
	if (mask & IN_IGNORED) {
		watch_die_locked(w);
	} else {
		queue_locked(in, w->wd, mask, cookie, name);
		if (w->flags & IN_ONESHOT) {
			nw->mask = 0;
			watch_die_locked(w);
		}
	}
	lock_release(&in->lock);
}

/* ---- watches (ctl held) ---- */

static struct list_head *wd_bucket(struct inotify *in, int wd)
{
	return &in->by_wd[(uint32_t)wd & (in->buckets - 1)];
}

static struct list_head *inode_bucket(struct inotify *in, const struct inode *ino)
{
	return &in->by_inode[hash_u64((uint64_t)(uintptr_t)ino) & (in->buckets - 1)];
}

static void watch_free(struct watch *w)
{
	struct inotify *in = w->in;

	lock_assert_held(&in->ctl);
	notify_del(in->vfs, &w->nw);
	list_del(&w->wd_node);
	list_del(&w->inode_node);
	in->watches--;
	__atomic_fetch_sub(&g_users[in->user].watches, 1, __ATOMIC_RELAXED);
	free(w);
}

static void sweep(struct inotify *in)
{
	struct watch *w;

	for (;;) {
		lock_acquire(&in->lock);
		w = list_empty(&in->dead) ? NULL : list_first(&in->dead, struct watch, dead_node);
		if (w)
			list_del(&w->dead_node);
		lock_release(&in->lock);
		if (!w)
			return;
		watch_free(w);
	}
}

static int watch_is_dead(struct watch *w)
{
	int dead;

	lock_acquire(&w->in->lock);
	dead = w->dead;
	lock_release(&w->in->lock);
	return dead;
}

static struct watch *find_inode(struct inotify *in, const struct inode *ino)
{
	struct watch *w;

	list_for_each(w, inode_bucket(in, ino), inode_node)
		if (w->key == ino && !watch_is_dead(w))
			return w;
	return NULL;
}

static struct watch *find_wd(struct inotify *in, int wd)
{
	struct watch *w;

	list_for_each(w, wd_bucket(in, wd), wd_node)
		if (w->wd == wd && !watch_is_dead(w))
			return w;
	return NULL;
}

static int tables_new(struct inotify *in, uint32_t n)
{
	struct list_head *t = malloc(2 * n * sizeof(*t));
	struct list_head *old = in->by_wd;
	uint32_t old_n = in->buckets;
	struct watch *w, *tmp;

	if (!t)
		return -ENOMEM;
	for (uint32_t i = 0; i < 2 * n; i++)
		list_init(&t[i]);
	in->by_wd = t;
	in->by_inode = t + n;
	in->buckets = n;
	for (uint32_t i = 0; i < old_n; i++)
		list_for_each_safe(w, tmp, &old[i], wd_node) {
			list_del(&w->wd_node);
			list_add_tail(&w->wd_node, wd_bucket(in, w->wd));
			list_del(&w->inode_node);
			list_add_tail(&w->inode_node, inode_bucket(in, w->key));
		}
	free(old);
	return 0;
}

static int new_watch(struct inotify *in, struct inode *ino, uint32_t mask)
{
	struct watch *w;

	if (__atomic_add_fetch(&g_users[in->user].watches, 1, __ATOMIC_RELAXED) >
	    g_inotify_limits.max_user_watches) {
		__atomic_fetch_sub(&g_users[in->user].watches, 1, __ATOMIC_RELAXED);
		return -ENOSPC;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		__atomic_fetch_sub(&g_users[in->user].watches, 1, __ATOMIC_RELAXED);
		return -ENOMEM;
	}
	if (in->watches >= in->buckets && in->buckets < 1u << 18)
		tables_new(in, in->buckets * 2); /* without memory the chains grow */
	do /* numbers are not used again until they run out */
		in->last_wd = in->last_wd == INT32_MAX ? 1 : in->last_wd + 1;
	while (find_wd(in, in->last_wd));
	w->in = in;
	w->key = ino;
	w->ino = ino->ino;
	w->dev = ino->sb->dev;
	w->wd = in->last_wd;
	w->flags = mask & (IN_ONESHOT | IN_EXCL_UNLINK);
	w->nw.mask = mask & IN_ALL_EVENTS;
	w->nw.event = on_event;
	list_init(&w->dead_node);
	list_add_tail(&w->wd_node, wd_bucket(in, w->wd));
	list_add_tail(&w->inode_node, inode_bucket(in, ino));
	in->watches++;
	notify_add(in->vfs, &w->nw, ino);
	return w->wd;
}

int inotify_lookup_flags(uint32_t mask)
{
	if (!(mask & MASK_KNOWN) || ((mask & IN_MASK_ADD) && (mask & IN_MASK_CREATE)))
		return -EINVAL;
	return (int)((mask & IN_DONT_FOLLOW ? 0 : LOOKUP_FOLLOW) |
		     (mask & IN_ONLYDIR ? LOOKUP_DIRECTORY : 0));
}

int inotify_add_watch_path(struct file *f, struct path p, uint32_t mask)
{
	struct inode *ino = p.dentry->inode;
	struct inotify *in = f->priv;
	uint32_t flags = mask & (IN_ONESHOT | IN_EXCL_UNLINK);
	struct watch *w;
	int r;

	if (inotify_lookup_flags(mask) < 0 || !file_is_inotify(f))
		return -EINVAL;
	lock_acquire(&in->ctl);
	sweep(in);
	w = find_inode(in, ino);
	if (!w) {
		r = new_watch(in, ino, mask);
	} else if (mask & IN_MASK_CREATE) {
		r = -EEXIST;
	} else {
		uint32_t events = mask & IN_ALL_EVENTS;

		if (mask & IN_MASK_ADD) {
			events |= w->nw.mask;
			flags |= w->flags;
		}
		__atomic_store_n(&w->nw.mask, events, __ATOMIC_RELAXED);
		__atomic_store_n(&w->flags, flags, __ATOMIC_RELAXED);
		r = w->wd;
	}
	lock_release(&in->ctl);
	return r;
}

int inotify_rm_watch_wd(struct file *f, int wd)
{
	struct inotify *in = f->priv;
	struct watch *w;
	int r = -EINVAL;

	if (!file_is_inotify(f))
		return -EINVAL;
	lock_acquire(&in->ctl);
	w = find_wd(in, wd);
	if (w) {
		lock_acquire(&in->lock);
		watch_die_locked(w);
		lock_release(&in->lock);
		r = 0;
	}
	sweep(in);
	lock_release(&in->ctl);
	return r;
}

/* ---- the file ---- */

/* Takes the first event if `room` holds it; NULL with *err -EAGAIN or -EINVAL. */
static struct event *take_event(struct inotify *in, size_t room, int *err)
{
	struct event *e = NULL;

	lock_acquire(&in->lock);
	*err = -EAGAIN;
	if (in->queued) {
		e = list_first(&in->queue, struct event, node);
		if (event_bytes(e) > room) {
			*err = -EINVAL;
			e = NULL;
		} else {
			list_del(&e->node);
			in->queued--;
			in->queued_bytes -= event_bytes(e);
			if (e->mask & IN_Q_OVERFLOW)
				in->overflowed = 0;
		}
	}
	lock_release(&in->lock);
	return e;
}

static ssize_t copy_event(struct uio *u, const struct event *e)
{
	char buf[EVENT_SIZE + NAME_MAX + 1 + EVENT_SIZE];
	struct inotify_event head = { .wd = e->wd, .mask = e->mask, .cookie = e->cookie };
	size_t n = event_bytes(e);

	head.len = (uint32_t)(n - EVENT_SIZE);
	memset(buf, 0, sizeof(buf));
	memcpy(buf, &head, EVENT_SIZE);
	memcpy(buf + EVENT_SIZE, e->name, e->name_len);
	return uio_copy_out(u, buf, n) == (ssize_t)n ? (ssize_t)n : -EFAULT;
}

static ssize_t inotify_read_op(struct file *f, struct uio *u, int64_t *pos)
{
	struct inotify *in = f->priv;
	ssize_t done = 0;

	(void)pos;
	for (;;) {
		int err;
		struct event *e = take_event(in, u->left, &err);
		ssize_t r;

		if (!e)
			return done ? done : err;
		r = copy_event(u, e);
		free(e);
		if (r < 0)
			return r;
		done += r;
	}
}

static uint32_t inotify_poll(struct file *f, struct poll_table *pt)
{
	struct inotify *in = f->priv;
	uint32_t mask;

	poll_wait(pt, &in->wq);
	lock_acquire(&in->lock);
	mask = in->queued ? POLLIN | POLLRDNORM : 0;
	lock_release(&in->lock);
	return mask;
}

static long inotify_ioctl(struct file *f, struct ioctl_req *r)
{
	struct inotify *in = f->priv;
	int n;

	if (r->cmd != FIONREAD)
		return -ENOIOCTLCMD;
	lock_acquire(&in->lock);
	n = (int)in->queued_bytes;
	lock_release(&in->lock);
	return r->copy_out(r, r->arg, &n, sizeof(n));
}

static void inotify_free(struct inotify *in)
{
	struct watch *w, *tmp;
	struct event *e, *etmp;

	lock_acquire(&in->ctl);
	for (uint32_t i = 0; i < in->buckets; i++)
		list_for_each_safe(w, tmp, &in->by_wd[i], wd_node)
			watch_free(w);
	lock_release(&in->ctl);
	list_for_each_safe(e, etmp, &in->queue, node)
		free(e);
	__atomic_fetch_sub(&g_users[in->user].instances, 1, __ATOMIC_RELAXED);
	waitq_destroy(&in->wq);
	lock_destroy(&in->lock);
	lock_destroy(&in->ctl);
	free(in->by_wd);
	free(in);
}

static void inotify_release(struct file *f)
{
	inotify_free(f->priv);
}

static void inotify_show_fdinfo(struct file *f, struct strbuf *sb)
{
	struct inotify *in = f->priv;
	struct watch *w;

	lock_acquire(&in->ctl);
	sweep(in);
	for (uint32_t i = 0; i < in->buckets; i++)
		list_for_each(w, &in->by_wd[i], wd_node)
			if (!watch_is_dead(w))
				strbuf_printf(sb, "inotify wd:%x ino:%llx sdev:%x mask:%x ignored_mask:0\n",
					      w->wd, (unsigned long long)w->ino, (unsigned)w->dev,
					      w->nw.mask);
	lock_release(&in->ctl);
}

static const struct file_ops g_inotify_ops = {
	.read = inotify_read_op,
	.llseek = anon_llseek,
	.poll = inotify_poll,
	.ioctl = inotify_ioctl,
	.release = inotify_release,
	.show_fdinfo = inotify_show_fdinfo,
};

struct file *inotify_new(struct vfs *vfs, const struct cred *cred, int flags)
{
	uint32_t user = (uint32_t)(hash_u64(cred->uid) % USER_BUCKETS);
	struct inotify *in;
	struct file *f;

	if (flags & ~(IN_CLOEXEC | IN_NONBLOCK))
		return ERR_PTR(-EINVAL);
	if (__atomic_add_fetch(&g_users[user].instances, 1, __ATOMIC_RELAXED) >
	    g_inotify_limits.max_user_instances) {
		__atomic_fetch_sub(&g_users[user].instances, 1, __ATOMIC_RELAXED);
		return ERR_PTR(-EMFILE);
	}
	in = calloc(1, sizeof(*in));
	if (!in || tables_new(in, BUCKETS_MIN)) {
		__atomic_fetch_sub(&g_users[user].instances, 1, __ATOMIC_RELAXED);
		free(in);
		return ERR_PTR(-ENOMEM);
	}
	in->vfs = vfs;
	in->user = user;
	lock_init(&in->ctl, RANK_EPOLL_CTL);
	lock_init(&in->lock, RANK_CACHE);
	list_init(&in->queue);
	list_init(&in->dead);
	waitq_init(&in->wq);
	f = file_new_anon(vfs, "anon_inode:inotify", &g_inotify_ops, in,
			  (uint32_t)(flags & IN_NONBLOCK), FMODE_READ | FMODE_NOPREAD, cred);
	if (IS_ERR(f))
		inotify_free(in);
	return f;
}
