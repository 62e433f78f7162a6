/* SPDX-License-Identifier: Apache-2.0 */
/* Moving bytes between descriptors without a user buffer: sendfile, splice and kin. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/pipe.h"

#define SPLICE_KNOWN (SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

/* Two descriptors of a call; end_pair() drops what was taken. */
struct fd_pair {
	struct file *in, *out;
};

static int begin_pair(struct task *t, struct fd_pair *p, int in, int out)
{
	p->in = fd_get(t, in);
	p->out = fd_get(t, out);
	if (!p->in || !p->out)
		return -EBADF;
	return 0;
}

static void end_pair(struct fd_pair *p)
{
	if (p->in)
		file_put(p->in);
	if (p->out)
		file_put(p->out);
}

/* An optional offset argument. */
static int get_offset(struct task *t, uint64_t uoff, int64_t *off)
{
	if (!uoff)
		return 0;
	if (get_user_u64(t, uoff, (uint64_t *)off))
		return -EFAULT;
	return *off < 0 ? -EINVAL : 0;
}

static long put_offset(struct task *t, uint64_t uoff, int64_t off, long r)
{
	if (uoff && put_user_u64(t, uoff, (uint64_t)off))
		return -EFAULT;
	return r;
}

static long sendfile_loop(struct task *t, struct fd_pair *p, int64_t *pos, size_t count)
{
	size_t done = 0;

	while (done < count) {
		ssize_t r = file_copy_range(p->in, pos, p->out, NULL, count - done, fsize_limit(t));
		int err;

		if (r > 0) {
			done += (size_t)r;
			continue;
		}
		if (r == 0)
			break;
		if (r != -EAGAIN) {
			write_error(t, r);
			return done ? (long)done : r;
		}
		err = wait_or_eagain(t, p->out, POLLOUT | POLLWRNORM);
		if (err)
			return done ? (long)done : err;
	}
	return (long)done;
}

SYSCALL_HANDLER(sendfile)
{
	struct fd_pair p;
	int64_t pos = 0;
	uint64_t count = a->a[3] > MAX_RW_COUNT ? MAX_RW_COUNT : a->a[3];
	long r = begin_pair(t, &p, (int)a->a[1], (int)a->a[0]);

	if (!r && (!(p.in->mode & FMODE_READ) || !(p.out->mode & FMODE_WRITE)))
		r = -EBADF;
	if (!r && a->a[2] && (p.in->mode & (FMODE_STREAM | FMODE_NOPREAD)))
		r = -ESPIPE;
	if (!r)
		r = get_offset(t, a->a[2], &pos);
	if (!r && (int64_t)a->a[3] < 0)
		r = -EINVAL;
	if (!r && !S_ISREG(p.in->inode->mode) && !S_ISBLK(p.in->inode->mode))
		r = -EINVAL;
	if (!r && (p.out->flags & O_APPEND))
		r = -EINVAL;
	if (!r) {
		r = sendfile_loop(t, &p, a->a[2] ? &pos : NULL, count);
		if (r >= 0)
			r = put_offset(t, a->a[2], pos, r);
	}
	end_pair(&p);
	return r;
}

SYSCALL_HANDLER(copy_file_range)
{
	struct fd_pair p;
	int64_t in_pos = 0, out_pos = 0;
	uint64_t len = a->a[4] > MAX_RW_COUNT ? MAX_RW_COUNT : a->a[4];
	long r;

	if ((uint32_t)a->a[5])
		return -EINVAL;
	r = begin_pair(t, &p, (int)a->a[0], (int)a->a[2]);
	if (!r)
		r = get_offset(t, a->a[1], &in_pos);
	if (!r)
		r = get_offset(t, a->a[3], &out_pos);
	if (r)
		goto out;
	if (S_ISDIR(p.in->inode->mode) || S_ISDIR(p.out->inode->mode))
		r = -EISDIR;
	else if (!S_ISREG(p.in->inode->mode) || !S_ISREG(p.out->inode->mode))
		r = -EINVAL;
	else if (!(p.in->mode & FMODE_READ) || !(p.out->mode & FMODE_WRITE) ||
		 (p.out->flags & O_APPEND))
		r = -EBADF;
	if (!r && p.in->inode == p.out->inode) {
		int64_t x = a->a[1] ? in_pos : p.in->pos, y = a->a[3] ? out_pos : p.out->pos;

		if ((uint64_t)x + len > (uint64_t)y && (uint64_t)y + len > (uint64_t)x && len)
			r = -EINVAL;
	}
	if (!r && len) {
		r = file_copy_range(p.in, a->a[1] ? &in_pos : NULL, p.out,
				    a->a[3] ? &out_pos : NULL, len, fsize_limit(t));
		if (r < 0)
			write_error(t, r);
		if (r > 0)
			r = put_offset(t, a->a[1], in_pos, r);
		if (r > 0)
			r = put_offset(t, a->a[3], out_pos, r);
	}
out:
	end_pair(&p);
	return r;
}

/* After -EAGAIN of a splice: waits for what it lacks. 0: try again. */
static int splice_wait_for(struct task *t, const struct splice_wait *w, uint32_t flags)
{
	if ((flags & SPLICE_F_NONBLOCK) || !w->file)
		return -EAGAIN;
	return wait_or_eagain(t, w->file, w->events);
}

SYSCALL_HANDLER(splice)
{
	struct fd_pair p;
	struct splice_wait w = { 0 };
	uint32_t flags = (uint32_t)a->a[5];
	int64_t in_pos = 0, out_pos = 0;
	long r;

	if (flags & ~SPLICE_KNOWN)
		return -EINVAL;
	if (!a->a[4])
		return 0;
	r = begin_pair(t, &p, (int)a->a[0], (int)a->a[2]);
	if (r)
		goto out;
	if ((a->a[1] && file_is_pipe(p.in)) || (a->a[3] && file_is_pipe(p.out)))
		r = -ESPIPE;
	if (!r)
		r = get_offset(t, a->a[1], &in_pos);
	if (!r)
		r = get_offset(t, a->a[3], &out_pos);
	while (!r) {
		r = splice_once(p.in, a->a[1] ? &in_pos : NULL, p.out, a->a[3] ? &out_pos : NULL,
				a->a[4], fsize_limit(t), &w);
		if (r != -EAGAIN)
			break;
		r = splice_wait_for(t, &w, flags);
	}
	if (r < 0)
		write_error(t, r);
	if (r > 0)
		r = put_offset(t, a->a[1], in_pos, r);
	if (r > 0)
		r = put_offset(t, a->a[3], out_pos, r);
out:
	end_pair(&p);
	return r;
}

SYSCALL_HANDLER(tee)
{
	struct fd_pair p;
	struct splice_wait w = { 0 };
	uint32_t flags = (uint32_t)a->a[3];
	long r;

	if (flags & ~SPLICE_KNOWN)
		return -EINVAL;
	if (!a->a[2])
		return 0;
	r = begin_pair(t, &p, (int)a->a[0], (int)a->a[1]);
	while (!r) {
		r = tee_once(p.in, p.out, a->a[2] > MAX_RW_COUNT ? MAX_RW_COUNT : a->a[2], &w);
		if (r != -EAGAIN)
			break;
		r = splice_wait_for(t, &w, flags);
	}
	if (r < 0)
		write_error(t, r);
	end_pair(&p);
	return r;
}

SYSCALL_HANDLER(vmsplice)
{
	struct file *f;
	struct uio_user uu;
	uint32_t flags = (uint32_t)a->a[3];
	long r, total = 0;

	if (flags & ~SPLICE_KNOWN)
		return -EINVAL;
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	r = uio_import_iovec(t, &uu, a->a[1], a->a[2]);
	while (!r && uu.u.left) {
		int writing = f->mode & FMODE_WRITE;

		r = vmsplice_once(f, &uu.u);
		if (r > 0) {
			total += r;
			/* Into a blocking pipe everything goes; out of it what is there. */
			r = writing && !(flags & SPLICE_F_NONBLOCK) ? 0 : r;
			continue;
		}
		if (r != -EAGAIN)
			break;
		r = total && !writing		? -EAGAIN
		    : flags & SPLICE_F_NONBLOCK ? -EAGAIN
						: wait_or_eagain(t, f, writing ? POLLOUT : POLLIN);
	}
	if (r == -EPIPE)
		write_error(t, r);
	uio_user_free(&uu);
	file_put(f);
	return total ? total : r;
}
