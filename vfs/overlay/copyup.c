/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving data and extended attributes of one inode from the lower into its nameless tmpfs file.
 * All run with the overlay inode's lock held, so that a copy happens once and nobody writes
 * before it is complete.
 */
#include <stdlib.h>

#include "vfs/overlay/overlay_priv.h"

#define COPY_CHUNK (256u << 10)
#define XATTR_LIST_LIMIT 65536
#define XATTR_VALUE_LIMIT 65536

struct file *ovl_open_layer(struct ovl_sb *os, struct inode *ino, uint32_t flags)
{
	struct path p = { os->anon, os->anon->root };
	uint32_t mode = FMODE_READ | ((flags & O_ACCMODE) == O_RDWR ? FMODE_WRITE : 0);
	struct file *f = file_new_on(ino, p, ino->fops, NULL, flags, mode, os->cred);

	if (IS_ERR(f) || !ino->ops->open)
		return f;
	int r = ino->ops->open(ino, f);

	if (!r)
		return f;
	f->ops = NULL; /* nothing was opened, so there is nothing to release */
	file_put(f);
	return ERR_PTR(r);
}

int ovl_need_upper(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);
	struct ovl_sb *os = ovl_s(ino);

	lock_assert_held(&ino->lock);
	if (oi->upper)
		return 0;
	struct inode *dir = os->upper->root->inode;

	lock_acquire(&dir->lock);
	struct inode *up = dir->ops->tmpfile(dir, S_IFREG | 0600, os->cred);

	lock_release(&dir->lock);
	if (IS_ERR(up))
		return (int)PTR_ERR(up);
	oi->upper = up;
	return 0;
}

void ovl_sync_size(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);

	ino->size = __atomic_load_n(&oi->upper->size, __ATOMIC_RELAXED);
	ino->blocks = __atomic_load_n(&oi->upper->blocks, __ATOMIC_RELAXED);
}

static int set_upper_size(struct inode *up, uint64_t size)
{
	struct iattr attr = { .valid = IATTR_SIZE, .size = size };

	lock_acquire(&up->lock);
	int r = up->ops->setattr(up, &attr);

	lock_release(&up->lock);
	return r;
}

static int is_zero(const char *p, size_t n)
{
	return n == 0 || (p[0] == 0 && !memcmp(p, p + 1, n - 1));
}

static int write_all(struct file *to, char *buf, size_t n, int64_t pos)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	while (u.left) {
		ssize_t w = to->ops->write(to, &u, &pos);

		if (w <= 0)
			return w < 0 ? (int)w : -EIO;
	}
	return 0;
}

static int copy_bytes(struct file *from, struct file *to, uint64_t len)
{
	char *buf = malloc(COPY_CHUNK);
	int64_t pos = 0;
	int r = buf ? 0 : -ENOMEM;

	while (!r && (uint64_t)pos < len) {
		uint64_t want = len - (uint64_t)pos;
		struct uio u;
		int64_t at = pos;

		uio_init_kernel(&u, buf, want < COPY_CHUNK ? want : COPY_CHUNK);
		ssize_t n = from->ops->read(from, &u, &pos);

		if (n < 0)
			r = (int)n;
		else if (n == 0)
			break; /* shorter than it said: the rest reads as zero */
		else if (!is_zero(buf, (size_t)n)) /* holes stay holes */
			r = write_all(to, buf, (size_t)n, at);
	}
	free(buf);
	return r;
}

int ovl_copy_up_data(struct inode *ino, uint64_t keep)
{
	struct ovl_inode *oi = ovl_i(ino);
	struct ovl_sb *os = ovl_s(ino);

	if (oi->upper_file)
		return 0;
	if (!S_ISREG(ino->mode))
		return -EINVAL;
	int r = ovl_need_upper(ino);

	if (r)
		return r;
	struct file *up = ovl_open_layer(os, oi->upper, O_RDWR);

	if (IS_ERR(up))
		return (int)PTR_ERR(up);
	uint64_t len = keep < ino->size ? keep : ino->size;

	if (oi->lower && len) {
		struct file *low = ovl_open_layer(os, oi->lower, O_RDONLY);

		r = IS_ERR(low) ? (int)PTR_ERR(low) : copy_bytes(low, up, len);
		if (!IS_ERR(low))
			file_put(low);
	}
	if (!r)
		r = set_upper_size(oi->upper, len);
	if (r) {
		set_upper_size(oi->upper, 0);
		file_put(up);
		return r;
	}
	__atomic_store_n(&oi->upper_file, up, __ATOMIC_RELEASE);
	ovl_sync_size(ino);
	ovl_pin(ino);
	return 0;
}

static int copy_one_xattr(struct inode *low, struct inode *up, const char *name, void *val)
{
	ssize_t n = low->ops->getxattr(low, name, val, XATTR_VALUE_LIMIT);

	if (n < 0)
		return n == -ENODATA || n == -EOPNOTSUPP ? 0 : (int)n;
	n = up->ops->setxattr(up, name, val, (size_t)n, 0);
	/* A kind the upper does not know (ACLs) stays behind. */
	return n == -EOPNOTSUPP ? 0 : (int)n;
}

int ovl_copy_up_xattrs(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);
	struct inode *low = oi->lower;
	int r = ovl_need_upper(ino);

	if (r || oi->xattrs_upper)
		return r;
	if (low && low->ops->listxattr && low->ops->getxattr) {
		char *list = malloc(XATTR_LIST_LIMIT), *val = malloc(XATTR_VALUE_LIMIT);
		ssize_t n = list && val ? low->ops->listxattr(low, list, XATTR_LIST_LIMIT)
					: -ENOMEM;

		if (n == -EOPNOTSUPP)
			n = 0;
		r = n < 0 ? (int)n : 0;
		for (ssize_t i = 0; !r && i < n; i += (ssize_t)strnlen(list + i, (size_t)(n - i)) + 1)
			if (memchr(list + i, 0, (size_t)(n - i)))
				r = copy_one_xattr(low, oi->upper, list + i, val);
		free(list);
		free(val);
		if (r)
			return r;
	}
	__atomic_store_n(&oi->xattrs_upper, 1, __ATOMIC_RELEASE);
	ovl_pin(ino);
	return 0;
}
