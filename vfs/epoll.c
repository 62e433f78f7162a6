/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll instances: the interest list, the ready list, nesting.
 *
 * Theory of operation: each watched (file, fd) is an `item` with one waiter on every queue that
 * the file's poll named. A wake puts the item on the ready list (if its events may match) and
 * wakes the instance's own queue. epoll_collect takes items off the list and asks the file's poll
 * for the truth; level-triggered items that were ready go back to the tail, so that a busy file
 * can not starve the others.
 *
 * Locks: ep->ctl (RANK_EPOLL_CTL; an outer instance before the inner ones it watches) guards the
 * interest list and is held while files are polled. ep->ready_lock (RANK_LEAF) guards the ready
 * list and each item's event mask; wake functions take it under the watched file's queue lock.
 * An instance's own queue has RANK_WAITQ_NESTED, so a chain of nested instances locks from the
 * watched one outwards; g_nest_lock keeps that chain free of cycles.
 *
 * Two ends can die: the watched file (epoll_file_gone) and the instance (epoll_release). Both
 * remove the item under ep->ctl. file->epoll_lock guards the file's list of items; an item found
 * there pins its instance, for it leaves the list before the instance can be freed.
 */
#include "vfs/epoll.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/assert.h"
#include "platform/base/hash.h"
#include "vfs/anon/anon.h"

#define EP_MAX_NESTS 4 /* instances below one, as Linux counts */
#define EP_PRIVATE (EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE)
#define EP_EXCLUSIVE_OK                                                                         \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)
#define EP_HASH_MIN 8u

uint32_t g_epoll_max_watches = 1u << 20;
static uint32_t g_watches; /* [a] items of all instances */

struct eventpoll {
	struct ref ref;
	struct lock ctl;	    /* RANK_EPOLL_CTL */
	struct list_head *buckets;  /* [ctl] items by (file, fd) */
	uint32_t bucket_count;	    /* [ctl] */
	uint32_t item_count;	    /* [ctl] to change; [a] to look */
	struct lock ready_lock;	    /* RANK_LEAF */
	struct list_head ready;	    /* [ready_lock] item->ready */
	uint32_t maybe_ready;	    /* [a] 0: the list is empty and no scan holds items of it */
	struct waitq wq;	    /* woken when an item becomes ready */
	struct list_head down;	    /* [nest] item->down: instances we watch */
	struct list_head up;	    /* [nest] item->up: items of others that watch us */
	uint64_t visit;		    /* [nest] generation of the last walk that came by */
	int visit_depth;	    /* [nest] what it found */
};

/* One queue of a watched file. */
struct item_wait {
	struct waiter w;
	struct item_wait *next;
};

struct item {
	struct eventpoll *ep;	  /* [I] no reference: see above */
	struct file *file;	  /* [I] no reference */
	int fd;			  /* [I] */
	struct list_head bucket;  /* [ctl] */
	struct list_head link;	  /* [file->epoll_lock] in file->epoll_items */
	struct list_head ready;	  /* [ready_lock] in ep->ready or a collector's list */
	uint32_t events;	  /* [ready_lock] with EP_PRIVATE bits */
	uint64_t data;		  /* [ctl] */
	struct list_head down, up; /* [nest] when file is an instance itself */
	struct item_wait first;	  /* most files have one queue */
	struct item_wait *more;	  /* [ctl] allocated ones */
	int first_used;		  /* [ctl] */
	int err;		  /* [ctl] no memory for a waiter */
};

/*
 * The graph of instances that watch instances: held over whole walks, which visit each edge once.
 * A leaf: nothing is taken inside.
 */
static struct lock g_nest_lock;
static pthread_once_t g_nest_once = PTHREAD_ONCE_INIT;
static uint64_t g_nest_visit; /* [nest] */

static const struct file_ops g_epoll_ops;

static void nest_init(void)
{
	lock_init(&g_nest_lock, RANK_LEAF);
}

int file_is_epoll(const struct file *f)
{
	return f->ops == &g_epoll_ops;
}

static void ep_put(struct eventpoll *ep)
{
	if (!ref_put(&ep->ref))
		return;
	ASSERT(!ep->item_count);
	waitq_destroy(&ep->wq);
	lock_destroy(&ep->ready_lock);
	lock_destroy(&ep->ctl);
	free(ep->buckets);
	free(ep);
}

/* ---- waking ---- */

static void ready_add(struct eventpoll *ep, struct item *it)
{
	lock_assert_held(&ep->ready_lock);
	if (list_empty(&it->ready))
		list_add_tail(&it->ready, &ep->ready);
	__atomic_store_n(&ep->maybe_ready, 1, __ATOMIC_SEQ_CST);
}

static int item_wake(struct waiter *w, uint32_t events)
{
	struct item *it = w->priv;
	struct eventpoll *ep = it->ep;
	int took;

	if (events & POLLFREE_BIT) {
		/* The queue goes away under its own lock: leave it before it does. */
		list_del(&w->node);
		__atomic_fetch_sub(&w->q->count, 1, __ATOMIC_RELAXED);
		w->q = NULL;
	}
	lock_acquire(&ep->ready_lock);
	/* A fired one-shot item has only private bits left and sleeps until EPOLL_CTL_MOD. */
	if (!(it->events & ~EP_PRIVATE) || !(events & (it->events | POLLFREE_BIT))) {
		lock_release(&ep->ready_lock);
		return 0;
	}
	ready_add(ep, it);
	took = !(it->events & EPOLLEXCLUSIVE) ||
	       __atomic_load_n(&ep->wq.count, __ATOMIC_RELAXED) != 0;
	lock_release(&ep->ready_lock);
	waitq_wake(&ep->wq, POLLIN | POLLRDNORM);
	return took;
}

struct item_table {
	struct poll_table pt;
	struct item *it;
};

static void item_queue(struct poll_table *pt, struct waitq *q)
{
	struct item *it = container_of(pt, struct item_table, pt)->it;
	struct item_wait *iw = &it->first;

	if (it->first_used) {
		iw = malloc(sizeof(*iw));
		if (!iw) {
			it->err = -ENOMEM;
			return;
		}
		iw->next = it->more;
		it->more = iw;
	}
	it->first_used = 1;
	/* All bits: item_wake compares with the item's current mask, which MOD may change. */
	waiter_init(&iw->w, ~0u, item_wake, it);
	iw->w.exclusive = (it->events & EPOLLEXCLUSIVE) != 0;
	waitq_add(q, &iw->w);
}

static uint32_t item_poll(struct item *it, struct poll_table *pt)
{
	return file_poll(it->file, pt) & it->events & ~EP_PRIVATE;
}

/* ---- the interest list (ep->ctl held) ---- */

static uint32_t key_hash(const struct file *f, int fd)
{
	return (uint32_t)hash_u64((uint64_t)(uintptr_t)f ^ ((uint64_t)(uint32_t)fd << 48));
}

static struct item *item_find(struct eventpoll *ep, const struct file *f, int fd)
{
	struct item *it;

	lock_assert_held(&ep->ctl);
	list_for_each(it, &ep->buckets[key_hash(f, fd) & (ep->bucket_count - 1)], bucket)
		if (it->file == f && it->fd == fd)
			return it;
	return NULL;
}

static struct list_head *buckets_new(uint32_t n)
{
	struct list_head *b = malloc(n * sizeof(*b));

	for (uint32_t i = 0; b && i < n; i++)
		list_init(&b[i]);
	return b;
}

/* Doubles the table when it is crowded; without memory the chains just get longer. */
static void table_grow(struct eventpoll *ep)
{
	uint32_t n = ep->bucket_count * 2;
	struct list_head *fresh;
	struct item *it, *tmp;

	if (ep->item_count < ep->bucket_count || n > 1u << 20)
		return;
	fresh = buckets_new(n);
	if (!fresh)
		return;
	for (uint32_t i = 0; i < ep->bucket_count; i++)
		list_for_each_safe(it, tmp, &ep->buckets[i], bucket) {
			list_del(&it->bucket);
			list_add_tail(&it->bucket, &fresh[key_hash(it->file, it->fd) & (n - 1)]);
		}
	free(ep->buckets);
	ep->buckets = fresh;
	ep->bucket_count = n;
}

static void nest_unlink(struct item *it)
{
	if (!file_is_epoll(it->file))
		return;
	lock_acquire(&g_nest_lock);
	list_del(&it->down);
	list_del(&it->up);
	lock_release(&g_nest_lock);
}

static void item_remove(struct eventpoll *ep, struct item *it)
{
	struct item_wait *iw, *next;

	lock_assert_held(&ep->ctl);
	waitq_del(&it->first.w);
	for (iw = it->more; iw; iw = next) {
		next = iw->next;
		waitq_del(&iw->w);
		free(iw);
	}
	nest_unlink(it);
	lock_acquire(&it->file->epoll_lock);
	list_del(&it->link);
	lock_release(&it->file->epoll_lock);
	lock_acquire(&ep->ready_lock);
	list_del(&it->ready);
	lock_release(&ep->ready_lock);
	list_del(&it->bucket);
	ep->item_count--;
	__atomic_fetch_sub(&g_watches, 1, __ATOMIC_RELAXED);
	free(it);
}

/* ---- nesting ---- */

/* Longest chain of instances below (down) or above ep; each is looked at once per walk. */
static int nest_depth(struct eventpoll *ep, int down, int level)
{
	int deepest = 0, d;
	struct item *it;

	if (ep->visit == g_nest_visit)
		return ep->visit_depth;
	ep->visit = g_nest_visit;
	ep->visit_depth = 0;
	if (level > EP_MAX_NESTS)
		return 0;
	if (down) {
		list_for_each(it, &ep->down, down) {
			d = 1 + nest_depth(it->file->priv, down, level + 1);
			deepest = d > deepest ? d : deepest;
		}
	} else {
		list_for_each(it, &ep->up, up) {
			d = 1 + nest_depth(it->ep, down, level + 1);
			deepest = d > deepest ? d : deepest;
		}
	}
	return ep->visit_depth = deepest;
}

/* Is `find` reachable below ep? */
static int nest_reaches(struct eventpoll *ep, const struct eventpoll *find, int level)
{
	struct item *it;

	if (ep == find)
		return 1;
	if (ep->visit == g_nest_visit || level > EP_MAX_NESTS)
		return 0;
	ep->visit = g_nest_visit;
	list_for_each(it, &ep->down, down)
		if (nest_reaches(it->file->priv, find, level + 1))
			return 1;
	return 0;
}

/* Enters the edge ep → child for it, unless that made a cycle or a chain too long. */
static int nest_link(struct eventpoll *ep, struct item *it, struct eventpoll *child)
{
	int err = -ELOOP, below, above;

	lock_acquire(&g_nest_lock);
	g_nest_visit++;
	if (nest_reaches(child, ep, 0))
		goto out;
	g_nest_visit++;
	below = nest_depth(child, 1, 0);
	g_nest_visit++;
	above = nest_depth(ep, 0, 0);
	if (below + 1 + above > EP_MAX_NESTS)
		goto out;
	list_add_tail(&it->down, &ep->down);
	list_add_tail(&it->up, &child->up);
	err = 0;
out:
	lock_release(&g_nest_lock);
	return err;
}

/* ---- epoll_ctl ---- */

static void item_make_ready(struct eventpoll *ep, struct item *it)
{
	lock_acquire(&ep->ready_lock);
	ready_add(ep, it);
	lock_release(&ep->ready_lock);
	waitq_wake(&ep->wq, POLLIN | POLLRDNORM);
}

static int ep_insert(struct eventpoll *ep, struct file *target, int fd,
		     const struct epoll_event *ev)
{
	struct item_table it_table = { .pt.add = item_queue };
	struct item *it;
	int err;

	if (__atomic_add_fetch(&g_watches, 1, __ATOMIC_RELAXED) > g_epoll_max_watches) {
		err = -ENOSPC;
		goto err_count;
	}
	it = calloc(1, sizeof(*it));
	err = -ENOMEM;
	if (!it)
		goto err_count;
	it->ep = ep;
	it->file = target;
	it->fd = fd;
	it->events = ev->events | EPOLLERR | EPOLLHUP;
	it->data = ev->data.u64;
	list_init(&it->ready);
	list_init(&it->down);
	list_init(&it->up);
	waiter_init(&it->first.w, 0, item_wake, it);
	if (file_is_epoll(target)) {
		err = nest_link(ep, it, target->priv);
		if (err) {
			free(it);
			goto err_count;
		}
	}
	lock_acquire(&target->epoll_lock);
	list_add_tail(&it->link, &target->epoll_items);
	lock_release(&target->epoll_lock);
	table_grow(ep);
	list_add_tail(&it->bucket, &ep->buckets[key_hash(target, fd) & (ep->bucket_count - 1)]);
	ep->item_count++;

	it_table.it = it;
	if (item_poll(it, &it_table.pt))
		item_make_ready(ep, it);
	if (it->err) {
		err = it->err;
		item_remove(ep, it);
		return err;
	}
	return 0;
err_count:
	__atomic_fetch_sub(&g_watches, 1, __ATOMIC_RELAXED);
	return err;
}

static int ep_modify(struct eventpoll *ep, struct item *it, const struct epoll_event *ev)
{
	if (it->events & EPOLLEXCLUSIVE)
		return -EINVAL;
	lock_acquire(&ep->ready_lock);
	it->events = ev->events | EPOLLERR | EPOLLHUP;
	lock_release(&ep->ready_lock);
	it->data = ev->data.u64;
	/* A wake that came in between has queued the item, or will see the new mask. */
	if (item_poll(it, NULL))
		item_make_ready(ep, it);
	return 0;
}

int epoll_ctl_file(struct file *epf, int op, struct file *target, int fd, struct epoll_event *ev,
		   const struct cred *cred)
{
	int has_event = op != EPOLL_CTL_DEL, err;
	struct epoll_event e = { 0 };
	struct eventpoll *ep;
	struct item *it;

	if (!target->ops || !target->ops->poll)
		return -EPERM;
	if (has_event) {
		e = *ev;
		if ((e.events & EPOLLWAKEUP) && !cred_has_cap(cred, CAP_BLOCK_SUSPEND))
			e.events &= ~(uint32_t)EPOLLWAKEUP;
	}
	if (!file_is_epoll(epf) || epf == target)
		return -EINVAL;
	if (has_event && (e.events & EPOLLEXCLUSIVE)) {
		if (op == EPOLL_CTL_MOD)
			return -EINVAL;
		if (op == EPOLL_CTL_ADD &&
		    (file_is_epoll(target) || (e.events & ~(uint32_t)EP_EXCLUSIVE_OK)))
			return -EINVAL;
	}
	ep = epf->priv;
	lock_acquire(&ep->ctl);
	it = item_find(ep, target, fd);
	switch (op) {
	case EPOLL_CTL_ADD:
		err = it ? -EEXIST : ep_insert(ep, target, fd, &e);
		break;
	case EPOLL_CTL_DEL:
		err = it ? 0 : -ENOENT;
		if (it)
			item_remove(ep, it);
		break;
	case EPOLL_CTL_MOD:
		err = it ? ep_modify(ep, it, &e) : -ENOENT;
		break;
	default:
		err = -EINVAL;
	}
	lock_release(&ep->ctl);
	return err;
}

/* ---- collecting ---- */

/*
 * The cheap look without locks. A scan under way may yet give items back, and no wake tells of
 * that: until it ends the answer is "perhaps not", and the caller finds out under ep->ctl.
 */
static int ready_is_empty(struct eventpoll *ep)
{
	return !__atomic_load_n(&ep->maybe_ready, __ATOMIC_SEQ_CST);
}

/* Gives back what a scan has not looked at; it comes first next time. */
static void scan_end(struct eventpoll *ep, struct list_head *todo)
{
	list_splice_tail(&ep->ready, todo);
	list_splice_tail(todo, &ep->ready);
	__atomic_store_n(&ep->maybe_ready, !list_empty(&ep->ready), __ATOMIC_SEQ_CST);
}

/* Decides one item that left the ready list; 1 when out was filled. */
static int item_report(struct eventpoll *ep, struct item *it, struct epoll_event *out)
{
	uint32_t revents = item_poll(it, NULL);

	if (!revents)
		return 0;
	out->events = revents;
	out->data.u64 = it->data;
	lock_acquire(&ep->ready_lock);
	if (it->events & EPOLLONESHOT)
		it->events &= EP_PRIVATE;
	else if (!(it->events & EPOLLET))
		ready_add(ep, it);
	lock_release(&ep->ready_lock);
	return 1;
}

int epoll_collect(struct file *epf, struct epoll_event *out, int max)
{
	struct eventpoll *ep = epf->priv;
	struct list_head todo;
	int n = 0;

	if (ready_is_empty(ep))
		return 0;
	lock_acquire(&ep->ctl);
	lock_acquire(&ep->ready_lock);
	list_init(&todo);
	list_splice_tail(&ep->ready, &todo);
	while (n < max && !list_empty(&todo)) {
		struct item *it = list_first(&todo, struct item, ready);

		list_del(&it->ready);
		lock_release(&ep->ready_lock);
		n += item_report(ep, it, &out[n]);
		lock_acquire(&ep->ready_lock);
	}
	scan_end(ep, &todo);
	lock_release(&ep->ready_lock);
	lock_release(&ep->ctl);
	return n;
}

uint32_t epoll_item_count(const struct file *epf)
{
	const struct eventpoll *ep = epf->priv;

	return __atomic_load_n(&ep->item_count, __ATOMIC_RELAXED);
}

/* ---- the file ---- */

/* Readable when some item on the ready list is truly ready; stale ones are dropped. */
static uint32_t epoll_poll(struct file *f, struct poll_table *pt)
{
	struct eventpoll *ep = f->priv;
	struct list_head todo;
	uint32_t mask = 0;

	poll_wait(pt, &ep->wq);
	if (ready_is_empty(ep))
		return 0;
	lock_acquire_nested(&ep->ctl);
	lock_acquire(&ep->ready_lock);
	list_init(&todo);
	list_splice_tail(&ep->ready, &todo);
	while (!mask && !list_empty(&todo)) {
		struct item *it = list_first(&todo, struct item, ready);

		list_del(&it->ready);
		lock_release(&ep->ready_lock);
		if (item_poll(it, NULL))
			mask = POLLIN | POLLRDNORM;
		lock_acquire(&ep->ready_lock);
		if (mask && list_empty(&it->ready))
			list_add(&it->ready, &todo);
	}
	scan_end(ep, &todo);
	lock_release(&ep->ready_lock);
	lock_release(&ep->ctl);
	return mask;
}

static void epoll_release(struct file *f)
{
	struct eventpoll *ep = f->priv;
	struct item *it, *tmp;

	lock_acquire(&ep->ctl);
	for (uint32_t i = 0; i < ep->bucket_count; i++)
		list_for_each_safe(it, tmp, &ep->buckets[i], bucket)
			item_remove(ep, it);
	lock_release(&ep->ctl);
	ep_put(ep);
}

void epoll_file_gone(struct file *f)
{
	struct eventpoll *ep;
	struct item *it;

	for (;;) {
		lock_acquire(&f->epoll_lock);
		if (list_empty(&f->epoll_items))
			break;
		ep = list_first(&f->epoll_items, struct item, link)->ep;
		ref_get(&ep->ref);
		lock_release(&f->epoll_lock);

		/* The instance may have removed items of its own accord meanwhile: look again. */
		lock_acquire(&ep->ctl);
		for (;;) {
			struct item *mine = NULL;

			lock_acquire(&f->epoll_lock);
			list_for_each(it, &f->epoll_items, link)
				if (it->ep == ep) {
					mine = it;
					break;
				}
			lock_release(&f->epoll_lock);
			if (!mine)
				break;
			item_remove(ep, mine);
		}
		lock_release(&ep->ctl);
		ep_put(ep);
	}
	lock_release(&f->epoll_lock);
}

static void epoll_show_fdinfo(struct file *f, struct strbuf *sb)
{
	struct eventpoll *ep = f->priv;
	struct item *it;

	lock_acquire(&ep->ctl);
	for (uint32_t i = 0; i < ep->bucket_count; i++)
		list_for_each(it, &ep->buckets[i], bucket) {
			struct inode *ino = it->file->inode;

			strbuf_printf(sb, "tfd: %8d events: %8x data: %16llx  pos:%lli ino:%llx sdev:%x\n",
				      it->fd, it->events, (unsigned long long)it->data,
				      (long long)it->file->pos, (unsigned long long)ino->ino,
				      (unsigned)ino->sb->dev);
		}
	lock_release(&ep->ctl);
}

static const struct file_ops g_epoll_ops = {
	.llseek = anon_llseek,
	.poll = epoll_poll,
	.release = epoll_release,
	.show_fdinfo = epoll_show_fdinfo,
};

struct file *epoll_new(struct vfs *vfs, const struct cred *cred)
{
	struct eventpoll *ep = calloc(1, sizeof(*ep));
	struct file *f;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	pthread_once(&g_nest_once, nest_init);
	ep->buckets = buckets_new(EP_HASH_MIN);
	if (!ep->buckets) {
		free(ep);
		return ERR_PTR(-ENOMEM);
	}
	ref_init(&ep->ref);
	ep->bucket_count = EP_HASH_MIN;
	lock_init(&ep->ctl, RANK_EPOLL_CTL);
	lock_init(&ep->ready_lock, RANK_LEAF);
	list_init(&ep->ready);
	list_init(&ep->down);
	list_init(&ep->up);
	waitq_init_nested(&ep->wq);
	f = file_new_anon(vfs, "anon_inode:[eventpoll]", &g_epoll_ops, ep, O_RDWR,
			  FMODE_READ | FMODE_WRITE | FMODE_NOPREAD, cred);
	if (IS_ERR(f))
		ep_put(ep);
	return f;
}
