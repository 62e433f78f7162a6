/* SPDX-License-Identifier: Apache-2.0 */
/* What pipe.c and splice.c share: the ring of pages behind a pipe. */
#ifndef CAISSON_VFS_PIPE_PRIV_H
#define CAISSON_VFS_PIPE_PRIV_H

#include "vfs/pipe.h"

#define PIPE_PAGE 4096u

/* Shared by buffers of several pipes after tee(2); immutable once shared. */
struct pipe_page {
	struct ref ref;
	uint8_t data[PIPE_PAGE];
};

struct pipe_buf {
	struct pipe_page *page; /* a reference */
	uint16_t off, len;
	uint32_t flags; /* PIPE_BUF_* */
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
	struct pipe_page *spare; /* [lock] one drained page, kept for the next write */
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

struct pipe_page *pipe_page_new(struct pipe *p); /* lock held when p is given; NULL: no memory */
void pipe_page_put(struct pipe *p, struct pipe_page *pg); /* lock held when p is given */
/* Drops `n` bytes from the front buffer; lock held. 1 when that freed a slot. */
int pipe_consume(struct pipe *p, uint32_t n);
void pipe_wake_readers(struct pipe *p);
void pipe_wake_writers(struct pipe *p);

#endif
