/* SPDX-License-Identifier: Apache-2.0 */
/*
 * splice, tee and vmsplice. Between two pipes pages move or are shared by reference; between a
 * pipe and another file the bytes go through the pipe's own pages with the other file's read or
 * write, during which no pipe lock is held.
 *
 * Theory of operation: while a splice writes a pipe's front buffers to a file, `draining` keeps
 * other readers away (they see an empty pipe and are woken afterwards), so bytes can neither be
 * doubled nor reordered. While a splice reads a file towards a pipe, `reserved` holds the slots it
 * will fill.
 */
#include <fcntl.h>
#include <string.h>

#include "vfs/pipe_priv.h"

#define SPLICE_BATCH 16u /* pages per call of the other file */

struct batch {
	struct pipe_block *page[SPLICE_BATCH]; /* of one page each */
	struct uio_seg seg[SPLICE_BATCH];
	uint32_t count;
	size_t bytes;
	struct uio u;
};

static void batch_uio(struct batch *b)
{
	uio_init_kernel(&b->u, NULL, 0);
	b->u.seg = b->seg;
	b->u.seg_count = b->count;
	b->u.left = b->bytes;
}

static ssize_t would_block(struct splice_wait *w, struct file *f, uint32_t events)
{
	w->file = f;
	w->events = events;
	return -EAGAIN;
}

/* 0 when data can be taken from the front, or -EAGAIN; *eof when there will be none. */
static int front_ready(struct pipe *p, int *eof)
{
	lock_assert_held(&p->lock);
	*eof = !pipe_used(p) && !p->writers;
	return pipe_used(p) && !p->draining ? 0 : -EAGAIN;
}

/* ---- pipe to file ---- */

/* Points the batch at the buffers in front and keeps readers away from them; lock held. */
static void drain_begin(struct pipe *p, size_t len, struct batch *b)
{
	b->count = 0;
	b->bytes = 0;
	for (uint32_t i = p->tail; i != p->head && b->count < SPLICE_BATCH && b->bytes < len; i++) {
		struct pipe_buf *buf = pipe_slot(p, i);
		size_t n = buf->len < len - b->bytes ? buf->len : len - b->bytes;

		b->seg[b->count].base = (uint64_t)(uintptr_t)(buf->block->data + buf->off);
		b->seg[b->count++].len = n;
		b->bytes += n;
	}
	p->draining = 1;
	batch_uio(b);
}

static void drain_end(struct pipe *p, size_t n)
{
	int was_full = pipe_full(p);

	lock_assert_held(&p->lock);
	p->draining = 0;
	while (n) {
		struct pipe_buf *buf = pipe_slot(p, p->tail);
		uint32_t chunk = buf->len < n ? buf->len : (uint32_t)n;

		pipe_consume(p, chunk);
		n -= chunk;
	}
	if (was_full && !pipe_full(p))
		pipe_wake_writers(p);
	if (pipe_used(p))
		pipe_wake_readers(p);
	else if (!p->writers)
		waitq_wake(&p->rd_wait, POLLHUP);
}

static ssize_t splice_from_pipe(struct file *in, struct file *out, int64_t *out_pos, size_t len,
				uint64_t fsize_limit, struct splice_wait *wait)
{
	struct pipe *p = pipe_of(in);
	size_t done = 0;
	struct batch b;

	while (done < len) {
		int eof;
		ssize_t r;

		lock_acquire(&p->lock);
		if (front_ready(p, &eof) < 0) {
			lock_release(&p->lock);
			if (done || eof)
				break;
			return would_block(wait, in, POLLIN);
		}
		drain_begin(p, len - done, &b);
		lock_release(&p->lock);
		if (out_pos)
			r = file_pwrite(out, &b.u, *out_pos, fsize_limit, 0);
		else
			r = file_write(out, &b.u, fsize_limit);
		if (r > (ssize_t)b.bytes)
			r = (ssize_t)b.bytes;
		lock_acquire(&p->lock);
		drain_end(p, r > 0 ? (size_t)r : 0);
		lock_release(&p->lock);
		if (r <= 0) {
			if (done)
				break;
			return r == -EAGAIN ? would_block(wait, out, POLLOUT) : r;
		}
		done += (size_t)r;
		if (out_pos)
			*out_pos += r;
		if ((size_t)r < b.bytes)
			break;
	}
	return (ssize_t)done;
}

/* ---- file to pipe ---- */

static void fill_abort(struct batch *b, uint32_t from)
{
	for (uint32_t i = from; i < b->count; i++)
		pipe_block_put(b->page[i]);
}

/* Reserves slots and pages for up to len bytes; -EAGAIN when full, -EPIPE, -ENOMEM. */
static int fill_begin(struct pipe *p, size_t len, struct batch *b)
{
	uint32_t room, want = (uint32_t)((len + PIPE_PAGE - 1) / PIPE_PAGE);

	lock_acquire(&p->lock);
	if (!p->readers) {
		lock_release(&p->lock);
		return -EPIPE;
	}
	room = pipe_full(p) ? 0 : p->slots - pipe_used(p) - p->reserved;
	if (want > room)
		want = room;
	if (want > SPLICE_BATCH)
		want = SPLICE_BATCH;
	p->reserved += want;
	lock_release(&p->lock);
	if (!want)
		return -EAGAIN;
	b->bytes = 0;
	for (b->count = 0; b->count < want; b->count++) {
		size_t n = len - b->bytes < PIPE_PAGE ? len - b->bytes : PIPE_PAGE;

		b->page[b->count] = pipe_block_new(1);
		if (!b->page[b->count]) {
			fill_abort(b, 0);
			lock_acquire(&p->lock);
			p->reserved -= want;
			pipe_wake_writers(p);
			lock_release(&p->lock);
			return -ENOMEM;
		}
		b->seg[b->count].base = (uint64_t)(uintptr_t)b->page[b->count]->data;
		b->seg[b->count].len = n;
		b->bytes += n;
	}
	batch_uio(b);
	return 0;
}

static void fill_end(struct pipe *p, struct batch *b, size_t got)
{
	uint32_t i;

	lock_acquire(&p->lock);
	p->reserved -= b->count;
	for (i = 0; i < b->count && got; i++) {
		struct pipe_buf *buf = pipe_slot(p, p->head++);
		size_t n = got < b->seg[i].len ? got : b->seg[i].len;

		buf->block = b->page[i];
		buf->off = 0;
		buf->len = (uint16_t)n;
		buf->flags = 0;
		got -= n;
	}
	if (i)
		pipe_wake_readers(p);
	if (i < b->count)
		pipe_wake_writers(p);
	lock_release(&p->lock);
	fill_abort(b, i);
}

static ssize_t splice_to_pipe(struct file *in, int64_t *in_pos, struct file *out, size_t len,
			      struct splice_wait *wait)
{
	struct pipe *p = pipe_of(out);
	size_t done = 0;
	struct batch b;

	while (done < len) {
		int err = fill_begin(p, len - done, &b);
		ssize_t r;

		if (err) {
			if (done)
				break;
			return err == -EAGAIN ? would_block(wait, out, POLLOUT) : err;
		}
		r = in_pos ? file_pread(in, &b.u, *in_pos) : file_read(in, &b.u);
		if (r > (ssize_t)b.bytes)
			r = (ssize_t)b.bytes;
		fill_end(p, &b, r > 0 ? (size_t)r : 0);
		if (r <= 0) {
			if (done || !r)
				break;
			return r == -EAGAIN ? would_block(wait, in, POLLIN) : r;
		}
		done += (size_t)r;
		if (in_pos)
			*in_pos += r;
		if ((size_t)r < b.bytes)
			break;
	}
	return (ssize_t)done;
}

/* ---- pipe to pipe ---- */

static void lock_two(struct pipe *a, struct pipe *b)
{
	lock_acquire(a < b ? &a->lock : &b->lock);
	lock_acquire_nested(a < b ? &b->lock : &a->lock);
}

static void unlock_two(struct pipe *a, struct pipe *b)
{
	lock_release(&a->lock);
	lock_release(&b->lock);
}

/*
 * Makes `to` n bytes of `from`. A page is shared; of a bigger block a copy is made, for else one
 * page in a second pipe could hold on to all of it. Nothing is appended to what is shared.
 */
static int pass_buf(struct pipe_buf *from, struct pipe_buf *to, uint32_t n)
{
	struct pipe_block *b = from->block;

	*to = *from;
	if (b->pages == 1) {
		from->flags &= (uint16_t)~PIPE_BUF_CAN_MERGE;
		ref_get(&b->ref);
	} else {
		to->block = pipe_block_new(1);
		if (!to->block)
			return 0;
		memcpy(to->block->data, b->data + from->off, n);
		to->off = 0;
	}
	to->len = (uint16_t)n;
	to->flags &= (uint16_t)~PIPE_BUF_CAN_MERGE;
	return 1;
}

/* Moves (or with keep shares) buffers from one pipe to the other. */
static ssize_t pipe_to_pipe(struct file *in, struct file *out, size_t len, int keep,
			    struct splice_wait *wait)
{
	struct pipe *ip = pipe_of(in), *op = pipe_of(out);
	int eof, was_full;
	size_t done = 0;
	uint32_t i;
	ssize_t r = 0;

	lock_two(ip, op);
	if (!op->readers) {
		r = -EPIPE;
		goto out;
	}
	if (front_ready(ip, &eof) < 0) {
		r = eof ? 0 : would_block(wait, in, POLLIN);
		goto out;
	}
	if (pipe_full(op)) {
		r = would_block(wait, out, POLLOUT);
		goto out;
	}
	was_full = pipe_full(ip);
	i = ip->tail;
	while (done < len && i != ip->head && !pipe_full(op)) {
		struct pipe_buf *from = pipe_slot(ip, i), *to = pipe_slot(op, op->head);
		uint32_t n = from->len < len - done ? from->len : (uint32_t)(len - done);

		if (!pass_buf(from, to, n)) {
			r = -ENOMEM;
			break;
		}
		op->head++;
		done += n;
		if (keep)
			i++;
		else if (pipe_consume(ip, n))
			i = ip->tail;
	}
	if (done) {
		pipe_wake_readers(op);
		r = (ssize_t)done;
	}
	if (was_full && !pipe_full(ip))
		pipe_wake_writers(ip);
out:
	unlock_two(ip, op);
	return r;
}

/* ---- entry points ---- */

ssize_t splice_once(struct file *in, int64_t *in_pos, struct file *out, int64_t *out_pos,
		    size_t len, uint64_t fsize_limit, struct splice_wait *wait)
{
	int from_pipe = file_is_pipe(in), to_pipe = file_is_pipe(out);

	if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE))
		return -EBADF;
	if ((from_pipe && in_pos) || (to_pipe && out_pos))
		return -ESPIPE;
	if (len > 0x7ffff000)
		len = 0x7ffff000;
	if (from_pipe && to_pipe) {
		if (pipe_of(in) == pipe_of(out))
			return -EINVAL;
		return len ? pipe_to_pipe(in, out, len, 0, wait) : 0;
	}
	if (from_pipe) {
		if (out_pos && (out->mode & (FMODE_STREAM | FMODE_NOPREAD)))
			return -EINVAL;
		if ((out->flags & O_APPEND) || !out->ops->write)
			return -EINVAL;
		if (out_pos && *out_pos < 0)
			return -EINVAL;
		return splice_from_pipe(in, out, out_pos, len, fsize_limit, wait);
	}
	if (to_pipe) {
		if (in_pos && (in->mode & (FMODE_STREAM | FMODE_NOPREAD)))
			return -EINVAL;
		if (!in->ops->read || (in_pos && *in_pos < 0))
			return -EINVAL;
		return splice_to_pipe(in, in_pos, out, len, wait);
	}
	return -EINVAL;
}

ssize_t tee_once(struct file *in, struct file *out, size_t len, struct splice_wait *wait)
{
	if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE))
		return -EBADF;
	if (!file_is_pipe(in) || !file_is_pipe(out) || pipe_of(in) == pipe_of(out))
		return -EINVAL;
	return len ? pipe_to_pipe(in, out, len, 1, wait) : 0;
}

ssize_t vmsplice_once(struct file *f, struct uio *u)
{
	if (!file_is_pipe(f) || !(f->mode & (FMODE_READ | FMODE_WRITE)))
		return -EBADF;
	return f->mode & FMODE_WRITE ? file_write(f, u, UINT64_MAX) : file_read(f, u);
}
