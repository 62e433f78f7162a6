/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing through descriptors: read and write in all their forms, lseek. Copies between
 * descriptors are sys_splice.c, size changes and syncing sys_fsync.c.
 */
#include <errno.h>
#include <sys/uio.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif
#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND)

static struct file *get_for(struct task *t, int fd, uint32_t mode)
{
	struct file *f = fd_get(t, fd);

	if (f && !(f->mode & mode)) {
		file_put(f);
		return NULL;
	}
	return f;
}

static long rw_buffer(struct task *t, int fd, uint64_t addr, uint64_t len, const int64_t *pos,
		      int writing)
{
	struct file *f = get_for(t, fd, writing ? FMODE_WRITE : FMODE_READ);
	struct uio u;
	long r;

	if (!f)
		return -EBADF;
	if (pos && *pos < 0)
		r = -EINVAL;
	else if ((int64_t)len < 0)
		r = -EINVAL;
	else
		r = uio_init_user(t, &u, addr, len);
	if (!r)
		r = writing ? file_write_blocking(t, f, &u, pos, 0)
			    : file_read_blocking(t, f, &u, pos, 0);
	file_put(f);
	return r;
}

SYSCALL_HANDLER(read)
{
	return rw_buffer(t, (int)a->a[0], a->a[1], a->a[2], NULL, 0);
}

SYSCALL_HANDLER(write)
{
	return rw_buffer(t, (int)a->a[0], a->a[1], a->a[2], NULL, 1);
}

SYSCALL_HANDLER(pread64)
{
	int64_t pos = (int64_t)a->a[3];

	return pos < 0 ? -EINVAL : rw_buffer(t, (int)a->a[0], a->a[1], a->a[2], &pos, 0);
}

SYSCALL_HANDLER(pwrite64)
{
	int64_t pos = (int64_t)a->a[3];

	return pos < 0 ? -EINVAL : rw_buffer(t, (int)a->a[0], a->a[1], a->a[2], &pos, 1);
}

/* pwritev2 with RWF flags at the file's own position, which the flagged write does not know. */
static long write_flagged(struct task *t, struct file *f, struct uio *u, int rwf)
{
	int64_t pos;
	long r;

	if (f->mode & FMODE_STREAM)
		return file_write_blocking(t, f, u, NULL, rwf);
	pos = file_llseek(f, 0, SEEK_CUR);
	if (pos < 0)
		return file_write_blocking(t, f, u, NULL, rwf);
	r = file_write_blocking(t, f, u, &pos, rwf);
	if (r > 0) {
		if (rwf & RWF_APPEND)
			(void)file_llseek(f, 0, SEEK_END);
		else
			(void)file_llseek(f, r, SEEK_CUR);
	}
	return r;
}

static long rw_vector(struct task *t, int fd, uint64_t iov, uint64_t count, const int64_t *pos,
		      int writing, int rwf)
{
	struct file *f = get_for(t, fd, writing ? FMODE_WRITE : FMODE_READ);
	struct uio_user uu;
	long r;

	if (!f)
		return -EBADF;
	r = uio_import_iovec(t, &uu, iov, count);
	if (r)
		goto out_file;
	if (rwf & ~RWF_KNOWN)
		r = -EOPNOTSUPP;
	else if ((rwf & RWF_APPEND) && (rwf & RWF_NOAPPEND))
		r = -EINVAL;
	else if (!writing)
		r = file_read_blocking(t, f, &uu.u, pos, rwf & RWF_NOWAIT);
	else if (!pos && (rwf & ~(RWF_HIPRI | RWF_NOWAIT)))
		r = write_flagged(t, f, &uu.u, rwf);
	else
		r = file_write_blocking(t, f, &uu.u, pos, rwf);
	uio_user_free(&uu);
out_file:
	file_put(f);
	return r;
}

SYSCALL_HANDLER(readv)
{
	return rw_vector(t, (int)a->a[0], a->a[1], a->a[2], NULL, 0, 0);
}

SYSCALL_HANDLER(writev)
{
	return rw_vector(t, (int)a->a[0], a->a[1], a->a[2], NULL, 1, 0);
}

SYSCALL_HANDLER(preadv)
{
	int64_t pos = (int64_t)a->a[3];

	return pos < 0 ? -EINVAL : rw_vector(t, (int)a->a[0], a->a[1], a->a[2], &pos, 0, 0);
}

SYSCALL_HANDLER(pwritev)
{
	int64_t pos = (int64_t)a->a[3];

	return pos < 0 ? -EINVAL : rw_vector(t, (int)a->a[0], a->a[1], a->a[2], &pos, 1, 0);
}

SYSCALL_HANDLER(preadv2)
{
	int64_t pos = (int64_t)a->a[3];

	if (pos < -1)
		return -EINVAL;
	return rw_vector(t, (int)a->a[0], a->a[1], a->a[2], pos == -1 ? NULL : &pos, 0,
			 (int)a->a[5]);
}

SYSCALL_HANDLER(pwritev2)
{
	int64_t pos = (int64_t)a->a[3];

	if (pos < -1)
		return -EINVAL;
	return rw_vector(t, (int)a->a[0], a->a[1], a->a[2], pos == -1 ? NULL : &pos, 1,
			 (int)a->a[5]);
}

SYSCALL_HANDLER(lseek)
{
	struct file *f = fd_get(t, (int)a->a[0]);
	uint32_t whence = (uint32_t)a->a[2];
	long r;

	if (!f)
		return -EBADF;
	r = whence > SEEK_HOLE ? -EINVAL : file_llseek(f, (int64_t)a->a[1], (int)whence);
	file_put(f);
	return r;
}
