/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cursor over the memory of a read or write: guest memory (filled in by the sentry's
 * usermem) or kernel memory. Files copy through it and never see a guest pointer. A copy may end
 * short at a bad guest address; the bytes before it count.
 */
#ifndef CAISSON_UIO_H
#define CAISSON_UIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct uio;

struct uio_ops {
	/*
	 * Copies up to n bytes at the cursor and advances it by what was copied. Returns the
	 * count (short only at a bad address), or -EFAULT when not even one byte could be copied.
	 */
	ssize_t (*copy_out)(struct uio *u, const void *src, size_t n); /* kernel -> user */
	ssize_t (*copy_in)(struct uio *u, void *dst, size_t n);	       /* user -> kernel */
	/*
	 * As copy_out, from memory that may be gone by then (a mapped host file that somebody cuts
	 * short): the same results, no fault of ours. NULL when this kind of memory has no such
	 * way.
	 */
	ssize_t (*copy_out_mapped)(struct uio *u, const void *src, size_t n);
};

struct uio_seg {
	uint64_t base; /* guest address, or (uintptr_t) of kernel memory */
	uint64_t len;
};

struct uio {
	const struct uio_ops *ops;
	const struct uio_seg *seg; /* the segment the cursor stands in */
	size_t seg_count;	   /* segments from seg on */
	size_t seg_done;	   /* bytes of *seg already consumed */
	size_t left;		   /* bytes from the cursor to the end */
	void *priv;		   /* of ops: the sentry keeps its mm here */
	struct uio_seg one;	   /* backing store for the single-buffer case */
};

/* A uio over kernel memory; `u->one` holds the segment, so u must not be moved afterwards. */
void uio_init_kernel(struct uio *u, void *buf, size_t len);

/* Copies min(n, u->left); see uio_ops for the result. n == 0 gives 0. */
ssize_t uio_copy_out(struct uio *u, const void *src, size_t n);
ssize_t uio_copy_in(struct uio *u, void *dst, size_t n);
/* Copies out n zero bytes. */
ssize_t uio_zero_out(struct uio *u, size_t n);
/* Moves the cursor forward without copying; n must not exceed u->left. */
void uio_advance(struct uio *u, size_t n);

#endif
