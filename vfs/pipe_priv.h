/* SPDX-License-Identifier: Apache-2.0 */
/* What pipe.c and splice.c share: the ring of pages behind a pipe. */
#ifndef CAISSON_VFS_PIPE_PRIV_H
#define CAISSON_VFS_PIPE_PRIV_H

#include "vfs/pipe.h"

#define PIPE_PAGE 4096u

/*
 * Memory of one or more pages in a row: a big write gets one block, so that it takes one copy
 * instead of one a page, and so does the read that finds the buffers still side by side. Each
 * buffer holds a reference. Immutable once shared (after tee(2), only ever of one page).
 */
struct pipe_block {
	struct ref ref;
	uint32_t pages;
	uint8_t data[];
};
#define PIPE_BLOCK_PAGES 16u

struct pipe_buf { /* what one slot of the ring holds: at most a page */
	struct pipe_block *block; /* a reference */
	uint32_t off;		  /* in block->data; the buffer never leaves its page */
	uint16_t len;
	uint16_t flags; /* PIPE_BUF_* */
};
#define PIPE_BUF_PACKET 1u    /* O_DIRECT write: a read takes it alone and drops the rest */
#define PIPE_BUF_CAN_MERGE 2u /* later small writes may append */

struct pipe {
	struct lock lock;      /* RANK_PIPE */
	struct pipe_buf *ring; /* [lock] slot i & (slots - 1) */
	uint32_t slots;	       /* [lock] a power of two: the capacity in pages */
	uint32_t head, tail;   /* [lock] next slot to fill, next to drain; they wrap */
	uint32_t reserved;     /* [lock] slots promised to splices that are reading their input */
	uint32_t draining;     /* [lock] a splice works on the buffers at the tail: readers wait */
	uint32_t readers, writers; /* [lock] */
	uint32_t r_counter, w_counter; /* [lock] opens so far; FIFO opens wait for a change */
	uint32_t files;	       /* [inode->lock] open files; the last one frees the pipe */
	uint32_t uid;	       /* [I] whom the pages count against */
	struct waitq rd_wait, wr_wait;
	struct waitq partner;  /* FIFO opens that wait for the other end */
};

/* file->priv of a pipe end. */
struct pipe_end {
	struct pipe *pipe;
	uint32_t waiting_for; /* FMODE_READ or _WRITE: the end an open still waits for; 0 when done */
	uint32_t seen;	      /* the other side's counter when the open began */
	uint32_t quiet;	      /* opened O_NONBLOCK for reading without a writer: no POLLHUP while
				 w_counter is still `seen` */
};

extern const struct file_ops g_pipe_ops;

static inline struct pipe *pipe_of(const struct file *f)
{
	return ((struct pipe_end *)f->priv)->pipe;
}

static inline uint32_t pipe_used(const struct pipe *p)
{
	return p->head - p->tail;
}

static inline int pipe_full(const struct pipe *p)
{
	return pipe_used(p) + p->reserved >= p->slots;
}

static inline struct pipe_buf *pipe_slot(struct pipe *p, uint32_t i)
{
	return &p->ring[i & (p->slots - 1)];
}

/* A block of pages (1 … PIPE_BLOCK_PAGES), or NULL. */
struct pipe_block *pipe_block_new(uint32_t pages);
void pipe_block_put(struct pipe_block *b);
/* Drops `n` bytes from the front buffer; lock held. 1 when that freed a slot. */
int pipe_consume(struct pipe *p, uint32_t n);
void pipe_wake_readers(struct pipe *p);
void pipe_wake_writers(struct pipe *p);

#endif
