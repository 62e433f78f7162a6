/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes: creation, read, write, poll, sizes, FIFO opening. Moving pages between pipes and other
 * files is splice.c.
 *
 * Theory of operation: a ring of page buffers between `tail` and `head`. A write fills fresh
 * pages at the head (a big one several in a row, of one block), or appends to the last one when
 * all its odd bytes fit there; since a slot takes a whole page, a write of up to PIPE_BUF bytes
 * either finds a free slot or does nothing: that is its atomicity. The lock is held over the copy of
 * one call's bytes, so the pages of one call are never interleaved with another's unless the pipe
 * filled up in between.
 *
 * Wake-ups follow Linux, for edge-triggered epoll: readers at each write, writers only when a
 * read has made a full pipe non-full, both when the last reader or writer goes.
 */
#include "vfs/pipe.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "platform/base/assert.h"
#include "platform/base/hash.h"
#include "vfs/pipe_priv.h"

#define PIPE_DEF_SLOTS 16u
#define PIPE_MIN_SLOTS 2u /* for users over the soft limit */
#ifndef O_NOTIFICATION_PIPE
#define O_NOTIFICATION_PIPE O_EXCL
#endif

struct pipe_limits g_pipe_limits = {
	.max_size = 1u << 20,
	.user_pages_soft = 16384,
	.user_pages_hard = 0,
};

/*
 * Pages (capacity, not use) by user. Users that share a bucket share their allowance, which can
 * only make the limit bite earlier.
 */
#define USER_BUCKETS 256
static uint32_t g_user_pages[USER_BUCKETS]; /* [a] */

static uint32_t *user_pages(uint32_t uid)
{
	return &g_user_pages[hash_u64(uid) % USER_BUCKETS];
}

static int is_unprivileged(const struct cred *c)
{
	return !cred_has_cap(c, CAP_SYS_RESOURCE) && !cred_has_cap(c, CAP_SYS_ADMIN);
}

static uint32_t user_charge(uint32_t uid, uint32_t old, uint32_t new_pages)
{
	return __atomic_add_fetch(user_pages(uid), new_pages - old, __ATOMIC_RELAXED);
}

/* ---- pages and slots ---- */

/*
 * Free blocks of the full size, which heavy pipes use up at a great rate: the allocator would
 * give their memory back to the host each time.
 */
#define BLOCK_CACHE 4u
static struct {
	pthread_mutex_t m; /* a leaf: nothing is taken inside */
	struct pipe_block *block[BLOCK_CACHE];
	uint32_t count;
} g_cache = { .m = PTHREAD_MUTEX_INITIALIZER };

struct pipe_block *pipe_block_new(uint32_t pages)
{
	struct pipe_block *b = NULL;

	if (pages == PIPE_BLOCK_PAGES) {
		pthread_mutex_lock(&g_cache.m);
		if (g_cache.count)
			b = g_cache.block[--g_cache.count];
		pthread_mutex_unlock(&g_cache.m);
	}
	if (!b)
		b = malloc(sizeof(*b) + (size_t)pages * PIPE_PAGE);
	if (b) {
		ref_init(&b->ref);
		b->pages = pages;
	}
	return b;
}

void pipe_block_put(struct pipe_block *b)
{
	if (!ref_put(&b->ref))
		return;
	if (b->pages == PIPE_BLOCK_PAGES) {
		pthread_mutex_lock(&g_cache.m);
		if (g_cache.count < BLOCK_CACHE) {
			g_cache.block[g_cache.count++] = b;
			b = NULL;
		}
		pthread_mutex_unlock(&g_cache.m);
	}
	free(b);
}

int pipe_consume(struct pipe *p, uint32_t n)
{
	struct pipe_buf *b = pipe_slot(p, p->tail);

	lock_assert_held(&p->lock);
	b->off += n;
	b->len = (uint16_t)(b->len - n);
	if (b->len)
		return 0;
	pipe_block_put(b->block);
	b->block = NULL;
	p->tail++;
	return 1;
}

void pipe_wake_readers(struct pipe *p)
{
	waitq_wake(&p->rd_wait, POLLIN | POLLRDNORM);
}

void pipe_wake_writers(struct pipe *p)
{
	waitq_wake(&p->wr_wait, POLLOUT | POLLWRNORM);
}

/* ---- life ---- */

static struct pipe *pipe_alloc(const struct cred *cred)
{
	uint32_t slots = PIPE_DEF_SLOTS, total;
	struct pipe *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->uid = cred->uid;
	if (slots * PIPE_PAGE > g_pipe_limits.max_size && !cred_has_cap(cred, CAP_SYS_RESOURCE))
		slots = g_pipe_limits.max_size / PIPE_PAGE;
	total = user_charge(p->uid, 0, slots);
	if (g_pipe_limits.user_pages_soft && total > g_pipe_limits.user_pages_soft &&
	    is_unprivileged(cred)) {
		total = user_charge(p->uid, slots, PIPE_MIN_SLOTS);
		slots = PIPE_MIN_SLOTS;
	}
	if (g_pipe_limits.user_pages_hard && total > g_pipe_limits.user_pages_hard &&
	    is_unprivileged(cred))
		goto err;
	p->ring = calloc(slots, sizeof(*p->ring));
	if (!p->ring)
		goto err;
	p->slots = slots;
	lock_init(&p->lock, RANK_PIPE);
	waitq_init(&p->rd_wait);
	waitq_init(&p->wr_wait);
	waitq_init(&p->partner);
	return p;
err:
	user_charge(p->uid, slots, 0);
	free(p);
	return NULL;
}

static void pipe_free(struct pipe *p)
{
	ASSERT(!pipe_used(p));
	user_charge(p->uid, p->slots, 0);
	free(p->ring);
	waitq_destroy(&p->rd_wait);
	waitq_destroy(&p->wr_wait);
	waitq_destroy(&p->partner);
	lock_destroy(&p->lock);
	free(p);
}

/* Drops one open file's hold; the last one frees the pipe. */
static void pipe_unhold(struct inode *ino, struct pipe *p)
{
	int last;

	lock_acquire(&ino->lock);
	last = --p->files == 0;
	if (last)
		ino->pipe = NULL;
	lock_release(&ino->lock);
	if (last) {
		lock_acquire(&p->lock);
		while (pipe_used(p))
			pipe_consume(p, pipe_slot(p, p->tail)->len);
		lock_release(&p->lock);
		pipe_free(p);
	}
}

static void pipe_release(struct file *f)
{
	struct pipe_end *e = f->priv;
	struct pipe *p = e->pipe;
	int wake;

	lock_acquire(&p->lock);
	if (f->mode & FMODE_READ)
		p->readers--;
	if (f->mode & FMODE_WRITE)
		p->writers--;
	wake = !p->readers != !p->writers;
	if (wake) {
		waitq_wake(&p->rd_wait, POLLIN | POLLRDNORM | POLLERR | POLLHUP);
		waitq_wake(&p->wr_wait, POLLOUT | POLLWRNORM | POLLERR | POLLHUP);
	}
	lock_release(&p->lock);
	pipe_unhold(f->inode, p);
	free(e);
}

/* ---- I/O ---- */

/* Bytes at the tail that lie in a row in memory, at most max. */
static uint32_t front_run(struct pipe *p, size_t max)
{
	struct pipe_buf *b = pipe_slot(p, p->tail), *next;
	uint32_t n = b->len;

	for (uint32_t i = p->tail + 1; i != p->head && n < max; i++) {
		next = pipe_slot(p, i);
		if (next->block != b->block || next->off != b->off + n)
			break;
		n += next->len;
	}
	return n < max ? n : (uint32_t)max;
}

static ssize_t pipe_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct pipe *p = pipe_of(f);
	ssize_t done = 0;
	int freed = 0, was_full;

	(void)pos;
	if (!u->left)
		return 0;
	lock_acquire(&p->lock);
	was_full = pipe_full(p);
	while (u->left) {
		struct pipe_buf *b;
		uint32_t run, packet, left;
		ssize_t r;

		if (p->draining) {
			done = done ? done : -EAGAIN;
			break;
		}
		if (!pipe_used(p)) {
			if (!done && p->writers)
				done = -EAGAIN;
			break;
		}
		b = pipe_slot(p, p->tail);
		packet = b->flags & PIPE_BUF_PACKET;
		if (packet)
			run = u->left < b->len ? (uint32_t)u->left : b->len;
		else
			run = front_run(p, u->left);
		r = uio_copy_out(u, b->block->data + b->off, run);
		if (r < 0) {
			done = done ? done : r;
			break;
		}
		done += r;
		/* A packet goes as one: what did not fit is lost, unless the memory was bad. */
		left = packet && (uint32_t)r == run ? b->len : (uint32_t)r;
		while (left) {
			uint32_t n = pipe_slot(p, p->tail)->len;

			n = n < left ? n : left;
			freed |= pipe_consume(p, n);
			left -= n;
		}
		if ((uint32_t)r < run || packet)
			break;
	}
	if (freed && was_full && !pipe_full(p))
		pipe_wake_writers(p);
	lock_release(&p->lock);
	return done;
}

/* Appends the bytes that stick out of whole pages to the last buffer, if all of them fit. */
static ssize_t write_merge(struct pipe *p, struct uio *u)
{
	uint32_t odd = u->left & (PIPE_PAGE - 1), end;
	struct pipe_buf *b;
	ssize_t r;

	/* A draining splice has noted how much the buffers hold; leave them alone. */
	if (!odd || !pipe_used(p) || p->draining)
		return 0;
	b = pipe_slot(p, p->head - 1);
	end = b->off + b->len;
	if (!(b->flags & PIPE_BUF_CAN_MERGE) || end + odd > (b->off | (PIPE_PAGE - 1)) + 1)
		return 0;
	r = uio_copy_in(u, b->block->data + end, odd);
	if (r > 0)
		b->len = (uint16_t)(b->len + r);
	return r;
}

/* Fills free slots with one block's worth of input: the bytes, or -EAGAIN, -ENOMEM, -EFAULT. */
static ssize_t write_block(struct pipe *p, struct uio *u, uint16_t flags)
{
	uint32_t room = pipe_full(p) ? 0 : p->slots - pipe_used(p) - p->reserved;
	size_t want = u->left, done = 0;
	struct pipe_block *block;
	ssize_t r;

	if (!room)
		return -EAGAIN;
	if (room > PIPE_BLOCK_PAGES)
		room = PIPE_BLOCK_PAGES;
	if (want > (size_t)room * PIPE_PAGE)
		want = (size_t)room * PIPE_PAGE;
	block = pipe_block_new((uint32_t)((want + PIPE_PAGE - 1) / PIPE_PAGE));
	if (!block)
		return -ENOMEM;
	r = uio_copy_in(u, block->data, want);
	while (r > 0 && done < (size_t)r) {
		struct pipe_buf *b = pipe_slot(p, p->head++);
		size_t n = (size_t)r - done < PIPE_PAGE ? (size_t)r - done : PIPE_PAGE;

		ref_get(&block->ref);
		b->block = block;
		b->off = (uint32_t)done;
		b->len = (uint16_t)n;
		b->flags = flags;
		done += n;
	}
	pipe_block_put(block);
	return r ? r : -EFAULT;
}

static ssize_t pipe_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct pipe *p = pipe_of(f);
	uint16_t flags = f->flags & O_DIRECT ? PIPE_BUF_PACKET : PIPE_BUF_CAN_MERGE;
	ssize_t done = 0, err = 0;

	(void)pos;
	if (!u->left)
		return 0;
	lock_acquire(&p->lock);
	if (!p->readers) {
		err = -EPIPE;
		goto out;
	}
	done = write_merge(p, u);
	if (done < 0) {
		err = done;
		done = 0;
		goto out;
	}
	while (u->left) {
		err = write_block(p, u, flags);
		if (err < 0)
			break;
		done += err;
	}
	if (done)
		pipe_wake_readers(p);
out:
	lock_release(&p->lock);
	return done ? done : err;
}

static uint32_t pipe_poll(struct file *f, struct poll_table *pt)
{
	struct pipe_end *e = f->priv;
	struct pipe *p = e->pipe;
	uint32_t mask = 0;

	if (f->mode & FMODE_READ)
		poll_wait(pt, &p->rd_wait);
	if (f->mode & FMODE_WRITE)
		poll_wait(pt, &p->wr_wait);
	lock_acquire(&p->lock);
	if (f->mode & FMODE_READ) {
		if (pipe_used(p) && !p->draining)
			mask |= POLLIN | POLLRDNORM;
		if (!p->writers && !(e->quiet && e->seen == p->w_counter))
			mask |= POLLHUP;
	}
	if (f->mode & FMODE_WRITE) {
		if (!pipe_full(p))
			mask |= POLLOUT | POLLWRNORM;
		if (!p->readers)
			mask |= POLLERR;
	}
	lock_release(&p->lock);
	return mask;
}

static long pipe_ioctl(struct file *f, struct ioctl_req *r)
{
	struct pipe *p = pipe_of(f);
	int bytes = 0;

	if (r->cmd != FIONREAD)
		return -ENOIOCTLCMD;
	lock_acquire(&p->lock);
	for (uint32_t i = p->tail; i != p->head; i++)
		bytes += pipe_slot(p, i)->len;
	lock_release(&p->lock);
	return r->copy_out(r, r->arg, &bytes, sizeof(bytes));
}

const struct file_ops g_pipe_ops = {
	.read = pipe_read,
	.write = pipe_write,
	.poll = pipe_poll,
	.ioctl = pipe_ioctl,
	.release = pipe_release,
};

int file_is_pipe(const struct file *f)
{
	return f->ops == &g_pipe_ops;
}

/* ---- sizes ---- */

int64_t pipe_get_size(struct file *f)
{
	if (!file_is_pipe(f))
		return -EBADF;
	return (int64_t)__atomic_load_n(&pipe_of(f)->slots, __ATOMIC_RELAXED) * PIPE_PAGE;
}

static int64_t resize_locked(struct pipe *p, uint32_t slots)
{
	uint32_t used = pipe_used(p);
	struct pipe_buf *ring;

	if (used + p->reserved > slots)
		return -EBUSY;
	ring = calloc(slots, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	for (uint32_t i = 0; i < used; i++)
		ring[i] = *pipe_slot(p, p->tail + i);
	free(p->ring);
	p->ring = ring;
	p->tail = 0;
	p->head = used;
	__atomic_store_n(&p->slots, slots, __ATOMIC_RELAXED);
	return (int64_t)slots * PIPE_PAGE;
}

int64_t pipe_set_size(struct file *f, uint64_t size, const struct cred *cred)
{
	uint32_t slots, old, total;
	struct pipe *p;
	int64_t r;

	if (!file_is_pipe(f))
		return -EBADF;
	if (size > 1u << 31)
		return -EINVAL;
	slots = 1;
	while ((uint64_t)slots * PIPE_PAGE < size)
		slots *= 2;
	p = pipe_of(f);
	lock_acquire(&p->lock);
	old = p->slots;
	/* Growing past a limit needs a capability; shrinking and staying never do. */
	if (slots > old && (uint64_t)slots * PIPE_PAGE > g_pipe_limits.max_size &&
	    !cred_has_cap(cred, CAP_SYS_RESOURCE)) {
		lock_release(&p->lock);
		return -EPERM;
	}
	total = user_charge(p->uid, old, slots);
	if (slots > old && is_unprivileged(cred) &&
	    ((g_pipe_limits.user_pages_soft && total > g_pipe_limits.user_pages_soft) ||
	     (g_pipe_limits.user_pages_hard && total > g_pipe_limits.user_pages_hard)))
		r = -EPERM;
	else
		r = resize_locked(p, slots);
	if (r < 0)
		user_charge(p->uid, slots, old);
	else if (slots > old)
		pipe_wake_writers(p);
	lock_release(&p->lock);
	return r;
}

/* ---- opening ---- */

static struct pipe_end *pipe_end_new(struct pipe *p)
{
	struct pipe_end *e = calloc(1, sizeof(*e));

	if (e)
		e->pipe = p;
	return e;
}

int pipe_new(struct vfs *vfs, const struct cred *cred, uint32_t flags, struct file *out[2])
{
	struct pipe_end *rd, *wr;
	struct pipe *p;

	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK | O_DIRECT | O_NOTIFICATION_PIPE))
		return -EINVAL;
	if (flags & O_NOTIFICATION_PIPE)
		return -ENOPKG;
	flags &= O_NONBLOCK | O_DIRECT;
	p = pipe_alloc(cred);
	if (!p)
		return -ENFILE;
	p->readers = p->writers = p->r_counter = p->w_counter = 1;
	p->files = 2;
	rd = pipe_end_new(p);
	wr = pipe_end_new(p);
	if (!rd || !wr)
		goto err;
	out[0] = file_new_anon(vfs, "pipe:[%ino]", &g_pipe_ops, rd, O_RDONLY | (flags & O_NONBLOCK),
			       FMODE_READ | FMODE_STREAM, cred);
	if (IS_ERR(out[0]))
		goto err;
	lock_acquire(&out[0]->inode->lock);
	out[0]->inode->mode = S_IFIFO | 0600;
	out[0]->inode->pipe = p;
	lock_release(&out[0]->inode->lock);
	out[1] = file_new_on(out[0]->inode, out[0]->path, &g_pipe_ops, wr, O_WRONLY | flags,
			     FMODE_WRITE | FMODE_STREAM, cred);
	if (IS_ERR(out[1])) {
		p->files = 1;
		p->writers = 0;
		free(wr);
		file_put(out[0]); /* frees rd and p */
		return -ENFILE;
	}
	return 0;
err:
	free(rd);
	free(wr);
	pipe_free(p);
	return -ENFILE;
}

/* Counts f in as an end of p and says which end it has to wait for; p->lock held. */
static int fifo_join(struct pipe *p, struct pipe_end *e, struct file *f, int is_fifo)
{
	int nonblock = f->flags & O_NONBLOCK;

	switch (f->mode & (FMODE_READ | FMODE_WRITE)) {
	case FMODE_READ:
		p->r_counter++;
		p->readers++;
		e->seen = p->w_counter;
		if (is_fifo && !p->writers) {
			if (nonblock)
				e->quiet = 1;
			else
				e->waiting_for = FMODE_WRITE;
		}
		return 0;
	case FMODE_WRITE:
		if (is_fifo && nonblock && !p->readers)
			return -ENXIO;
		p->w_counter++;
		p->writers++;
		e->seen = p->r_counter;
		if (is_fifo && !p->readers)
			e->waiting_for = FMODE_READ;
		return 0;
	case FMODE_READ | FMODE_WRITE: /* POSIX leaves it open; Linux never waits */
		p->r_counter++;
		p->w_counter++;
		p->readers++;
		p->writers++;
		return 0;
	default:
		return -EINVAL;
	}
}

int fifo_open(struct inode *ino, struct file *f)
{
	struct pipe *p, *fresh = pipe_alloc(f->cred);
	int err, is_fifo = 1;
	struct pipe_end *e;

	if (ino->ops->open) { /* a pipe of the host (hostfd) */
		if (fresh)
			pipe_free(fresh);
		return ino->ops->open(ino, f);
	}
	if (!fresh)
		return -ENOMEM;
	e = pipe_end_new(NULL);
	if (!e) {
		pipe_free(fresh);
		return -ENOMEM;
	}
	lock_acquire(&ino->lock);
	if (!ino->pipe) {
		ino->pipe = fresh;
		fresh = NULL;
	}
	p = ino->pipe;
	p->files++;
	lock_release(&ino->lock);
	if (fresh)
		pipe_free(fresh);

	/* /proc/PID/fd/N of an anonymous pipe opens like a FIFO, but never waits for partners. */
	if (f->path.mnt && f->path.mnt == vfs_anon_mount(ino->sb->vfs))
		is_fifo = 0;
	e->pipe = p;
	lock_acquire(&p->lock);
	err = fifo_join(p, e, f, is_fifo);
	lock_release(&p->lock);
	if (err) {
		pipe_unhold(ino, p);
		free(e);
		return err;
	}
	waitq_wake(&p->partner, POLLIN | POLLOUT);
	f->ops = &g_pipe_ops;
	f->priv = e;
	f->mode |= FMODE_STREAM;
	return 0;
}

int fifo_open_wait(struct file *f)
{
	struct pipe_end *e;
	struct pipe *p;
	uint32_t now;

	if (!file_is_pipe(f))
		return 0;
	e = f->priv;
	if (!e->waiting_for)
		return 0;
	p = e->pipe;
	lock_acquire(&p->lock);
	now = e->waiting_for == FMODE_WRITE ? p->w_counter : p->r_counter;
	if (now != e->seen)
		e->waiting_for = 0;
	lock_release(&p->lock);
	return e->waiting_for ? -EAGAIN : 0;
}

struct waitq *fifo_open_waitq(struct file *f)
{
	return &pipe_of(f)->partner;
}
