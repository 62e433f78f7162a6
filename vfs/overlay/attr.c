/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes: those of struct inode live in the overlay inode itself, so that a chmod copies
 * nothing; extended ones move to the upper when the first of them changes.
 */
#include "vfs/overlay/overlay_priv.h"

static int set_size(struct inode *ino, uint64_t size)
{
	struct ovl_inode *oi = ovl_i(ino);
	int r = ovl_copy_up_data(ino, size);

	if (r)
		return r;
	struct iattr attr = { .valid = IATTR_SIZE, .size = size };

	lock_acquire(&oi->upper->lock);
	r = oi->upper->ops->setattr(oi->upper, &attr);
	lock_release(&oi->upper->lock);
	ovl_sync_size(ino);
	return r;
}

int ovl_setattr(struct inode *ino, const struct iattr *attr)
{
	lock_assert_held(&ino->lock);
	if (attr->valid & IATTR_SIZE) {
		if (!S_ISREG(ino->mode))
			return -EINVAL;
		int r = set_size(ino, attr->size);

		if (r)
			return r;
		ino->mtime = ino->ctime = vfs_now();
	}
	if (attr->valid & IATTR_MODE)
		ino->mode = (ino->mode & S_IFMT) | (attr->mode & 07777);
	if (attr->valid & IATTR_UID)
		ino->uid = attr->uid;
	if (attr->valid & IATTR_GID)
		ino->gid = attr->gid;
	if (attr->valid & IATTR_ATIME)
		ino->atime = attr->atime;
	if (attr->valid & IATTR_MTIME)
		ino->mtime = attr->mtime;
	ino->ctime = attr->valid & IATTR_CTIME ? attr->ctime : vfs_now();
	ino->change_count++;
	ovl_pin(ino);
	return 0;
}

/* The layer whose extended attributes count: NULL when there are none yet. */
static struct inode *xattr_layer(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);

	return __atomic_load_n(&oi->xattrs_upper, __ATOMIC_ACQUIRE) ? oi->upper : oi->lower;
}

ssize_t ovl_getxattr(struct inode *ino, const char *name, void *buf, size_t size)
{
	struct inode *layer = xattr_layer(ino);

	ssize_t n = layer && layer->ops->getxattr ? layer->ops->getxattr(layer, name, buf, size)
						  : -EOPNOTSUPP;

	/* A lower without any is still a file that may get what the upper can hold. */
	return n == -EOPNOTSUPP && strncmp(name, "system.", 7) ? -ENODATA : n;
}

int ovl_setxattr(struct inode *ino, const char *name, const void *val, size_t size, int flags)
{
	lock_acquire(&ino->lock);
	int r = ovl_copy_up_xattrs(ino);

	if (!r) {
		struct inode *up = ovl_i(ino)->upper;

		r = up->ops->setxattr ? up->ops->setxattr(up, name, val, size, flags)
				      : -EOPNOTSUPP;
	}
	if (!r) {
		ino->ctime = vfs_now();
		ino->change_count++;
	}
	lock_release(&ino->lock);
	return r;
}

ssize_t ovl_listxattr(struct inode *ino, char *buf, size_t size)
{
	struct inode *layer = xattr_layer(ino);

	if (!layer || !layer->ops->listxattr)
		return 0;
	ssize_t n = layer->ops->listxattr(layer, buf, size);

	return n == -EOPNOTSUPP ? 0 : n;
}

int ovl_removexattr(struct inode *ino, const char *name)
{
	/* A name that is not there needs no copying up: writes try to remove capabilities. */
	ssize_t n = ovl_getxattr(ino, name, NULL, 0);

	if (n < 0)
		return (int)n;
	lock_acquire(&ino->lock);
	int r = ovl_copy_up_xattrs(ino);

	if (!r) {
		struct inode *up = ovl_i(ino)->upper;

		r = up->ops->removexattr ? up->ops->removexattr(up, name) : -EOPNOTSUPP;
	}
	if (!r) {
		ino->ctime = vfs_now();
		ino->change_count++;
	}
	lock_release(&ino->lock);
	return r;
}
