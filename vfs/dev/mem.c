/* SPDX-License-Identifier: Apache-2.0 */
/* The memory devices: null, zero, full, random, urandom. */
#include <linux/random.h>
#include <string.h>
#include <sys/random.h>

#include "vfs/dev/dev.h"

/* Any seek ends at 0, as Linux's null_lseek has it. */
static int64_t mem_llseek(struct file *f, int64_t off, int whence)
{
	(void)off;
	(void)whence;
	f->pos = 0;
	return 0;
}

static ssize_t null_read(struct file *f, struct uio *u, int64_t *pos)
{
	(void)f;
	(void)u;
	(void)pos;
	return 0;
}

/* The bytes are not even looked at. */
static ssize_t null_write(struct file *f, struct uio *u, int64_t *pos)
{
	size_t n = u->left;

	(void)f;
	(void)pos;
	uio_advance(u, n);
	return (ssize_t)n;
}

static ssize_t zero_read(struct file *f, struct uio *u, int64_t *pos)
{
	(void)f;
	(void)pos;
	return uio_zero_out(u, u->left);
}

static ssize_t full_write(struct file *f, struct uio *u, int64_t *pos)
{
	(void)f;
	(void)u;
	(void)pos;
	return -ENOSPC;
}

static int zero_map(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
		    struct map_extent *out)
{
	(void)f;
	(void)off;
	(void)len;
	(void)prot;
	(void)flags;
	(void)out;
	return -ENODATA;
}

/* #hostcalls: getrandom */
static ssize_t random_read(struct file *f, struct uio *u, int64_t *pos)
{
	uint8_t buf[4096];
	ssize_t done = 0;

	(void)f;
	(void)pos;
	while (u->left) {
		size_t n = u->left < sizeof(buf) ? u->left : sizeof(buf);
		ssize_t got = getrandom(buf, n > 256 ? n : 256, 0), r;

		if (got < (ssize_t)n)
			return done ? done : -EAGAIN;
		r = uio_copy_out(u, buf, n);
		if (r < 0) {
			done = done ? done : r;
			break;
		}
		done += r;
		if ((size_t)r < n)
			break;
	}
	explicit_bzero(buf, sizeof(buf));
	return done;
}

/* Entropy that guests add is read, so that bad addresses show, and dropped: ours is the host's. */
static ssize_t random_write(struct file *f, struct uio *u, int64_t *pos)
{
	uint8_t buf[256];
	ssize_t done = 0;

	(void)f;
	(void)pos;
	while (u->left) {
		ssize_t r = uio_copy_in(u, buf, sizeof(buf));

		if (r <= 0)
			return done ? done : r;
		done += r;
		if ((size_t)r < sizeof(buf))
			break;
	}
	return done;
}

static uint32_t random_poll(struct file *f, struct poll_table *pt)
{
	(void)f;
	(void)pt;
	return POLLIN | POLLRDNORM;
}

static long random_ioctl(struct file *f, struct ioctl_req *r)
{
	int v = 256, head[2];

	switch (r->cmd) {
	case RNDGETENTCNT:
		return r->copy_out(r, r->arg, &v, sizeof(v));
	case RNDADDTOENTCNT:
		if (!cred_has_cap(f->cred, CAP_SYS_ADMIN))
			return -EPERM;
		if (r->copy_in(r, &v, r->arg, sizeof(v)) < 0)
			return -EFAULT;
		return v < 0 ? -EINVAL : 0;
	case RNDADDENTROPY:
		if (!cred_has_cap(f->cred, CAP_SYS_ADMIN))
			return -EPERM;
		if (r->copy_in(r, head, r->arg, sizeof(head)) < 0)
			return -EFAULT;
		return head[0] < 0 || head[1] < 0 ? -EINVAL : 0;
	case RNDZAPENTCNT:
	case RNDCLEARPOOL:
	case RNDRESEEDCRNG:
		return cred_has_cap(f->cred, CAP_SYS_ADMIN) ? 0 : -EPERM;
	default:
		return -EINVAL; /* as random_ioctl does, not ENOTTY */
	}
}

const struct file_ops g_null_ops = {
	.read = null_read,
	.write = null_write,
	.llseek = mem_llseek,
};

const struct file_ops g_zero_ops = {
	.read = zero_read,
	.write = null_write,
	.llseek = mem_llseek,
	.map_extent = zero_map,
};

const struct file_ops g_full_ops = {
	.read = zero_read,
	.write = full_write,
	.llseek = mem_llseek,
};

const struct file_ops g_random_ops = {
	.read = random_read,
	.write = random_write,
	.llseek = mem_llseek,
	.poll = random_poll,
	.ioctl = random_ioctl,
};

/* Without poll, so that epoll refuses it, which programs probe for. */
const struct file_ops g_urandom_ops = {
	.read = random_read,
	.write = random_write,
	.llseek = mem_llseek,
	.ioctl = random_ioctl,
};
