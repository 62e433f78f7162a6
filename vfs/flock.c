/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File locks of the whole sandbox: POSIX and open-file-description byte ranges, and flock(2).
 * Waiting is the caller's: a lock that conflicts gives -EAGAIN and the queue that is woken when
 * any lock of the file goes or shrinks.
 *
 * One lock (vfs->flock_lock) covers all lists and the graph of waiters: lock traffic is rare, and
 * the deadlock search wants a still picture of everything.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>

#include "vfs/vfs_priv.h"

#define LOCKS_MAX 1000000u /* over all files; more is -ENOLCK */

struct held_lock {
	struct list_head node;
	struct flock_req rq; /* type is never F_UNLCK */
};

struct flock_ctx {
	struct list_head node;	 /* in vfs->flock_ctxs */
	struct list_head ranges; /* POSIX and OFD, by start */
	struct list_head whole;	 /* flock(2) */
	struct waitq waitq;
	struct inode *inode; /* borrowed: the context dies with it */
};

struct flock_wait {
	struct list_head node; /* in vfs->flock_waits */
	struct vfs *vfs;
	struct flock_ctx *ctx;
	struct flock_req rq;
	int seen;
};

static uint32_t g_lock_count; /* [a] */

static struct flock_ctx *ctx_get(struct vfs *vfs, struct inode *ino)
{
	struct flock_ctx *c = ino->flock;

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	list_init(&c->ranges);
	list_init(&c->whole);
	waitq_init(&c->waitq);
	c->inode = ino;
	list_add_tail(&c->node, &vfs->flock_ctxs);
	__atomic_store_n(&ino->flock, c, __ATOMIC_RELEASE);
	return c;
}

static int same_owner(const struct flock_req *a, const struct flock_req *b)
{
	return a->owner == b->owner && a->kind == b->kind;
}

static int conflicts(const struct flock_req *a, const struct flock_req *b)
{
	return !same_owner(a, b) && (a->type == F_WRLCK || b->type == F_WRLCK) &&
	       a->start <= b->end && b->start <= a->end;
}

static struct list_head *list_for(struct flock_ctx *c, const struct flock_req *rq)
{
	return rq->kind == 2 ? &c->whole : &c->ranges;
}

static struct held_lock *find_conflict(struct flock_ctx *c, const struct flock_req *rq)
{
	struct held_lock *l;

	list_for_each(l, list_for(c, rq), node)
		if (conflicts(&l->rq, rq))
			return l;
	return NULL;
}

static struct held_lock *lock_alloc(void)
{
	struct held_lock *l;

	if (__atomic_add_fetch(&g_lock_count, 1, __ATOMIC_RELAXED) > LOCKS_MAX ||
	    !(l = malloc(sizeof(*l)))) {
		__atomic_fetch_sub(&g_lock_count, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	return l;
}

static void lock_free(struct held_lock *l)
{
	if (!l)
		return;
	free(l);
	__atomic_fetch_sub(&g_lock_count, 1, __ATOMIC_RELAXED);
}

static void lock_drop(struct held_lock *l)
{
	list_del(&l->node);
	lock_free(l);
}

static void insert_sorted(struct flock_ctx *c, struct held_lock *fresh)
{
	struct held_lock *l;

	list_for_each(l, &c->ranges, node)
		if (l->rq.start > fresh->rq.start)
			break;
	list_add_tail(&fresh->node, &l->node);
}

/* 1 when a and b overlap or touch. */
static int touches(const struct flock_req *a, const struct flock_req *b)
{
	return (a->end == INT64_MAX || b->start <= a->end + 1) &&
	       (b->end == INT64_MAX || a->start <= b->end + 1);
}

/*
 * Puts rq among its owner's ranges: same types merge, other types are cut. *fresh and *spare are
 * allocations to use (set NULL when used). Returns 1 when something was given up, so that waiters
 * should look again.
 */
static int apply_range(struct flock_ctx *c, const struct flock_req *rq, struct held_lock **fresh,
		       struct held_lock **spare)
{
	struct flock_req want = *rq;
	struct held_lock *l, *tmp;
	int gave = 0;

	list_for_each_safe(l, tmp, &c->ranges, node) {
		if (!same_owner(&l->rq, rq))
			continue;
		if (l->rq.type == rq->type) {
			if (!touches(&l->rq, &want))
				continue;
			if (l->rq.start < want.start)
				want.start = l->rq.start;
			if (l->rq.end > want.end)
				want.end = l->rq.end;
			lock_drop(l);
			continue;
		}
		if (l->rq.end < want.start || l->rq.start > want.end)
			continue;
		/* An upgrade gives nothing up. */
		if (l->rq.type == F_WRLCK || rq->type == F_UNLCK)
			gave = 1;
		if (l->rq.start < want.start && l->rq.end > want.end) {
			struct held_lock *right = *spare;

			*spare = NULL;
			right->rq = l->rq;
			right->rq.start = want.end + 1;
			l->rq.end = want.start - 1;
			list_add(&right->node, &l->node);
			break;
		}
		if (l->rq.start < want.start) {
			l->rq.end = want.start - 1;
		} else if (l->rq.end > want.end) {
			l->rq.start = want.end + 1;
		} else {
			lock_drop(l);
		}
	}
	if (rq->type != F_UNLCK) {
		(*fresh)->rq = want;
		(*fresh)->rq.wait = NULL;
		insert_sorted(c, *fresh);
		*fresh = NULL;
	}
	return gave;
}

static int set_range(struct flock_ctx *c, const struct flock_req *rq, int *gave)
{
	struct held_lock *fresh = NULL, *spare;
	int r = 0;

	if (rq->type != F_UNLCK && find_conflict(c, rq))
		return -EAGAIN;
	spare = lock_alloc();
	if (rq->type != F_UNLCK)
		fresh = lock_alloc();
	/* An unlock of everything needs no memory, and must not fail at close. */
	if ((rq->type != F_UNLCK && (!fresh || !spare)) ||
	    (rq->type == F_UNLCK && !spare && (rq->start > 0 || rq->end < INT64_MAX)))
		r = -ENOLCK;
	else
		*gave = apply_range(c, rq, &fresh, &spare);
	lock_free(fresh);
	lock_free(spare);
	return r;
}

static int set_whole(struct flock_ctx *c, const struct flock_req *rq, int *gave)
{
	struct held_lock *l, *mine = NULL;

	list_for_each(l, &c->whole, node)
		if (same_owner(&l->rq, rq))
			mine = l;
	if (mine && mine->rq.type == rq->type)
		return 0;
	/* A conversion first gives up what it had, as flock(2) warns. */
	if (mine) {
		lock_drop(mine);
		*gave = 1;
	}
	if (rq->type == F_UNLCK)
		return 0;
	if (find_conflict(c, rq))
		return -EAGAIN;
	l = lock_alloc();
	if (!l)
		return -ENOLCK;
	l->rq = *rq;
	l->rq.start = 0;
	l->rq.end = INT64_MAX;
	l->rq.wait = NULL;
	list_add_tail(&l->node, &c->whole);
	return 0;
}

int flock_set(struct file *f, const struct flock_req *rq, struct waitq **q)
{
	struct vfs *vfs = f->inode->sb->vfs;
	struct flock_ctx *c;
	int r, gave = 0;

	if (rq->type == F_UNLCK && !__atomic_load_n(&f->inode->flock, __ATOMIC_ACQUIRE))
		return 0;
	lock_acquire(&vfs->flock_lock);
	c = ctx_get(vfs, f->inode);
	if (!c)
		r = -ENOLCK;
	else
		r = rq->kind == 2 ? set_whole(c, rq, &gave) : set_range(c, rq, &gave);
	lock_release(&vfs->flock_lock);
	if (gave)
		waitq_wake(&c->waitq, POLLIN | POLLOUT);
	if (r == -EAGAIN && q)
		*q = &c->waitq;
	return r;
}

int flock_test(struct file *f, struct flock_req *rq)
{
	struct vfs *vfs = f->inode->sb->vfs;
	struct held_lock *l = NULL;

	lock_acquire(&vfs->flock_lock);
	if (f->inode->flock)
		l = find_conflict(f->inode->flock, rq);
	if (l) {
		rq->type = l->rq.type;
		rq->start = l->rq.start;
		rq->end = l->rq.end;
		rq->pid = l->rq.kind == 1 ? -1 : l->rq.pid;
		rq->kind = l->rq.kind;
	} else {
		rq->type = F_UNLCK;
	}
	lock_release(&vfs->flock_lock);
	return 0;
}

/* ------------------------------------------------------------------ deadlocks */

/* Marks every waiter whose owner holds a lock that rq waits for; 1 when that is `self`. */
static int mark_blockers(struct vfs *vfs, struct flock_ctx *c, const struct flock_req *rq,
			 uint64_t self, int *more)
{
	struct held_lock *l;
	struct flock_wait *w;

	list_for_each(l, &c->ranges, node) {
		if (!conflicts(&l->rq, rq) || l->rq.kind != 0)
			continue;
		if (l->rq.owner == self)
			return 1;
		list_for_each(w, &vfs->flock_waits, node)
			if (w->rq.owner == l->rq.owner && !w->seen) {
				w->seen = 1;
				*more = 1;
			}
	}
	return 0;
}

/* Would rq's owner end up waiting for itself? seen: 0 not reached, 1 to look at, 2 done. */
static int is_deadlock(struct vfs *vfs, struct flock_ctx *c, const struct flock_req *rq)
{
	struct flock_wait *w;
	int more = 0, r;

	list_for_each(w, &vfs->flock_waits, node)
		w->seen = 0;
	r = mark_blockers(vfs, c, rq, rq->owner, &more);
	while (!r && more) {
		more = 0;
		list_for_each(w, &vfs->flock_waits, node)
			if (w->seen == 1 && !r) {
				w->seen = 2;
				r = mark_blockers(vfs, w->ctx, &w->rq, rq->owner, &more);
			}
	}
	return r;
}

int flock_will_wait(struct file *f, struct flock_req *rq)
{
	struct vfs *vfs = f->inode->sb->vfs;
	struct flock_wait *w;
	int r = 0;

	rq->wait = NULL;
	if (rq->kind != 0)
		return 0; /* as Linux: only POSIX owners are in the graph */
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	lock_acquire(&vfs->flock_lock);
	w->ctx = ctx_get(vfs, f->inode);
	w->vfs = vfs;
	w->rq = *rq;
	if (!w->ctx)
		r = -ENOLCK;
	else if (is_deadlock(vfs, w->ctx, rq))
		r = -EDEADLK;
	else
		list_add_tail(&w->node, &vfs->flock_waits);
	lock_release(&vfs->flock_lock);
	if (r)
		free(w);
	else
		rq->wait = w;
	return r;
}

void flock_waited(struct flock_req *rq)
{
	struct vfs *vfs;

	if (!rq->wait)
		return;
	vfs = rq->wait->vfs;
	lock_acquire(&vfs->flock_lock);
	list_del(&rq->wait->node);
	lock_release(&vfs->flock_lock);
	free(rq->wait);
	rq->wait = NULL;
}

/* ------------------------------------------------------------------ ends */

void flock_file_closed(struct file *f)
{
	struct vfs *vfs = f->inode->sb->vfs;
	struct flock_ctx *c = f->inode->flock;
	struct held_lock *l, *tmp;
	int gave = 0;

	lock_acquire(&vfs->flock_lock);
	list_for_each_safe(l, tmp, &c->ranges, node)
		if (l->rq.kind == 1 && l->rq.owner == (uintptr_t)f) {
			lock_drop(l);
			gave = 1;
		}
	list_for_each_safe(l, tmp, &c->whole, node)
		if (l->rq.owner == (uintptr_t)f) {
			lock_drop(l);
			gave = 1;
		}
	lock_release(&vfs->flock_lock);
	if (gave)
		waitq_wake(&c->waitq, POLLIN | POLLOUT);
}

void flock_inode_gone(struct inode *ino)
{
	struct vfs *vfs = ino->sb->vfs;
	struct flock_ctx *c = ino->flock;
	struct held_lock *l, *tmp;

	lock_acquire(&vfs->flock_lock);
	list_del(&c->node);
	list_for_each_safe(l, tmp, &c->ranges, node)
		lock_drop(l);
	list_for_each_safe(l, tmp, &c->whole, node)
		lock_drop(l);
	lock_release(&vfs->flock_lock);
	waitq_destroy(&c->waitq);
	free(c);
	ino->flock = NULL;
}

static void show_one(struct strbuf *sb, int n, const struct flock_ctx *c, const struct flock_req *rq)
{
	static const char *const kinds[] = {"POSIX ", "OFDLCK", "FLOCK "};

	strbuf_printf(sb, "%d: %s ADVISORY  %s %d %02x:%02x:%llu %lld ", n, kinds[rq->kind],
		      rq->type == F_WRLCK ? "WRITE" : "READ ", rq->kind == 1 ? -1 : rq->pid,
		      linux_major(c->inode->sb->dev), linux_minor(c->inode->sb->dev),
		      (unsigned long long)c->inode->ino, (long long)rq->start);
	if (rq->end == INT64_MAX)
		strbuf_puts(sb, "EOF\n");
	else
		strbuf_printf(sb, "%lld\n", (long long)rq->end);
}

void flock_show_all(struct vfs *vfs, struct strbuf *sb)
{
	struct flock_ctx *c;
	struct held_lock *l;
	int n = 1;

	lock_acquire(&vfs->flock_lock);
	list_for_each(c, &vfs->flock_ctxs, node) {
		list_for_each(l, &c->whole, node)
			show_one(sb, n++, c, &l->rq);
		list_for_each(l, &c->ranges, node)
			show_one(sb, n++, c, &l->rq);
	}
	lock_release(&vfs->flock_lock);
}
