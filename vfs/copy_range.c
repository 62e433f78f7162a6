/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from one file to another through a buffer: copy_file_range(2) and sendfile(2). What
 * pipes need beyond that is splice.c's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

#define COPY_CHUNK (256u << 10)

static ssize_t read_some(struct file *in, int64_t *pos, void *buf, size_t n)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	return pos ? file_pread(in, &u, *pos) : file_read(in, &u);
}

static ssize_t write_some(struct file *out, int64_t *pos, void *buf, size_t n, uint64_t limit)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	return pos ? file_pwrite(out, &u, *pos, limit, 0) : file_write(out, &u, limit);
}

/* What was read but could not be written goes back: only seekable inputs come here. */
static void give_back(struct file *in, int64_t *pos, ssize_t n)
{
	if (!pos && n && !(in->mode & FMODE_STREAM)) {
		lock_acquire(&in->pos_lock);
		in->pos -= n;
		lock_release(&in->pos_lock);
	}
}

ssize_t file_copy_range(struct file *in, int64_t *in_pos, struct file *out, int64_t *out_pos,
			size_t len, uint64_t fsize_limit)
{
	size_t done = 0, chunk = len < COPY_CHUNK ? len : COPY_CHUNK;
	ssize_t err = 0;
	char *buf;

	if (!(in->mode & FMODE_READ) || !(out->mode & FMODE_WRITE))
		return -EBADF;
	if (len == 0)
		return 0;
	buf = malloc(chunk);
	if (!buf)
		return -ENOMEM;
	while (done < len) {
		size_t want = len - done < chunk ? len - done : chunk, put = 0;
		ssize_t n, w = 0;

		/* Bytes of a stream can not be put back, so take them only when they have a place. */
		if ((in->mode & FMODE_STREAM) && !(file_poll(out, NULL) & POLLOUT)) {
			err = -EAGAIN;
			break;
		}
		n = read_some(in, in_pos, buf, want);
		if (n <= 0) {
			err = n;
			break;
		}
		if (in_pos)
			*in_pos += n;
		while (put < (size_t)n) {
			w = write_some(out, out_pos, buf + put, (size_t)n - put, fsize_limit);
			if (w <= 0)
				break;
			put += (size_t)w;
			if (out_pos)
				*out_pos += w;
		}
		done += put;
		if (put < (size_t)n) {
			if (in_pos)
				*in_pos -= n - (ssize_t)put;
			give_back(in, in_pos, n - (ssize_t)put);
			err = w;
			break;
		}
	}
	free(buf);
	return done ? (ssize_t)done : err;
}
