/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and extended attributes of tmpfs inodes, which all kinds of them share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "vfs/tmpfs/tmpfs_priv.h"

/* Bounds what one inode can hold, so that xattrs can not eat memory past any accounting. */
#define XATTR_TOTAL_MAX (1u << 20)

int tmp_setattr(struct inode *ino, const struct iattr *attr)
{
	int r;

	if ((attr->valid & IATTR_SIZE) && S_ISREG(ino->mode)) {
		r = tmp_truncate(ino, attr->size);
		if (r)
			return r;
	}
	inode_apply_attr(ino, attr);
	return 0;
}

static struct tmp_xattr **xattr_find(struct tmp_node *n, const char *name)
{
	struct tmp_xattr **x = &n->xattrs;

	while (*x && strcmp((*x)->name, name) != 0)
		x = &(*x)->next;
	return x;
}

static int xattr_name_ok(const struct inode *ino, const char *name)
{
	if (tmp_sb(ino)->flags & TMP_NO_XATTR)
		return 0;
	return strncmp(name, "user.", 5) == 0 || strncmp(name, "trusted.", 8) == 0 ||
	       strncmp(name, "security.", 9) == 0;
}

ssize_t tmp_getxattr(struct inode *ino, const char *name, void *buf, size_t size)
{
	struct tmp_xattr *x;
	ssize_t r = -ENODATA;

	if (!xattr_name_ok(ino, name))
		return -EOPNOTSUPP;
	lock_acquire(&ino->lock);
	x = *xattr_find(tmp_node(ino), name);
	if (x) {
		r = (ssize_t)x->size;
		if (size && size < x->size)
			r = -ERANGE;
		else if (size && x->size)
			memcpy(buf, x->value, x->size);
	}
	lock_release(&ino->lock);
	return r;
}

static size_t xattr_total(struct tmp_node *n)
{
	size_t total = 0;

	for (struct tmp_xattr *x = n->xattrs; x; x = x->next)
		total += x->size + strlen(x->name) + sizeof(*x);
	return total;
}

static void xattr_free(struct tmp_xattr *x)
{
	if (!x)
		return;
	free(x->value);
	free(x);
}

static struct tmp_xattr *xattr_alloc(const char *name, const void *val, size_t size)
{
	size_t len = strlen(name);
	struct tmp_xattr *x = malloc(sizeof(*x) + len + 1);

	if (!x)
		return NULL;
	x->value = malloc(size ? size : 1);
	if (!x->value) {
		free(x);
		return NULL;
	}
	if (size)
		memcpy(x->value, val, size);
	x->size = size;
	x->next = NULL;
	memcpy(x->name, name, len + 1);
	return x;
}

int tmp_setxattr(struct inode *ino, const char *name, const void *val, size_t size, int flags)
{
	struct tmp_node *n = tmp_node(ino);
	struct tmp_xattr *x, **at;
	int r = 0;

	if (!xattr_name_ok(ino, name))
		return -EOPNOTSUPP;
	x = xattr_alloc(name, val, size);
	if (!x)
		return -ENOMEM;
	lock_acquire(&ino->lock);
	at = xattr_find(n, name);
	if (*at && (flags & XATTR_CREATE))
		r = -EEXIST;
	else if (!*at && (flags & XATTR_REPLACE))
		r = -ENODATA;
	else if (xattr_total(n) + size > XATTR_TOTAL_MAX)
		r = -ENOSPC;
	if (!r) {
		struct tmp_xattr *old = *at;

		x->next = old ? old->next : NULL;
		*at = x;
		x = old;
		inode_touch(ino, IATTR_CTIME);
	}
	lock_release(&ino->lock);
	xattr_free(x);
	return r;
}

ssize_t tmp_listxattr(struct inode *ino, char *buf, size_t size)
{
	size_t done = 0;

	lock_acquire(&ino->lock);
	for (struct tmp_xattr *x = tmp_node(ino)->xattrs; x; x = x->next) {
		size_t len = strlen(x->name) + 1;

		if (size) {
			if (done + len > size) {
				lock_release(&ino->lock);
				return -ERANGE;
			}
			memcpy(buf + done, x->name, len);
		}
		done += len;
	}
	lock_release(&ino->lock);
	return (ssize_t)done;
}

int tmp_removexattr(struct inode *ino, const char *name)
{
	struct tmp_xattr *x, **at;

	if (!xattr_name_ok(ino, name))
		return -EOPNOTSUPP;
	lock_acquire(&ino->lock);
	at = xattr_find(tmp_node(ino), name);
	x = *at;
	if (x) {
		*at = x->next;
		inode_touch(ino, IATTR_CTIME);
	}
	lock_release(&ino->lock);
	if (!x)
		return -ENODATA;
	xattr_free(x);
	return 0;
}

void tmp_xattr_evict(struct tmp_node *n)
{
	while (n->xattrs) {
		struct tmp_xattr *x = n->xattrs;

		n->xattrs = x->next;
		xattr_free(x);
	}
}

const struct inode_ops g_tmp_file_ops = {
	.setattr = tmp_setattr,
	.getxattr = tmp_getxattr,
	.setxattr = tmp_setxattr,
	.listxattr = tmp_listxattr,
	.removexattr = tmp_removexattr,
};

/* The text is in inode->link. */
const struct inode_ops g_tmp_link_ops = {
	.setattr = tmp_setattr,
	.getxattr = tmp_getxattr,
	.setxattr = tmp_setxattr,
	.listxattr = tmp_listxattr,
	.removexattr = tmp_removexattr,
};

const struct inode_ops g_tmp_special_ops = {
	.setattr = tmp_setattr,
	.getxattr = tmp_getxattr,
	.setxattr = tmp_setxattr,
	.listxattr = tmp_listxattr,
	.removexattr = tmp_removexattr,
};
