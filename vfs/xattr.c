/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: names, namespaces and who may touch them. Values are the filesystems'. */
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "vfs/vfs_priv.h"

static int has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* What Linux's xattr_permission() and the capability module decide. write 0 for reads. */
static int xattr_permission(struct path p, const char *name, int write, const struct cred *cred)
{
	struct inode *ino = p.dentry->inode;
	size_t len = strlen(name);
	int r;

	if (len == 0 || len > XATTR_NAME_MAX)
		return -ERANGE;
	if (write) {
		r = mount_writable(p.mnt);
		if (r)
			return r;
		if (ino->attr_flags & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
			return -EPERM;
	}
	if (has_prefix(name, "trusted.")) {
		if (!cred_has_cap(cred, CAP_SYS_ADMIN))
			return write ? -EPERM : -ENODATA;
		return 0;
	}
	if (has_prefix(name, "security.")) {
		int cap = strcmp(name, "security.capability") == 0 ? CAP_SETFCAP : CAP_SYS_ADMIN;

		return write && !cred_has_cap(cred, cap) ? -EPERM : 0;
	}
	if (!has_prefix(name, "user."))
		return -EOPNOTSUPP; /* system.posix_acl_* among them */
	if (!S_ISREG(ino->mode) && !S_ISDIR(ino->mode))
		return write ? -EPERM : -ENODATA;
	if (write && S_ISDIR(ino->mode) && (ino->mode & S_ISVTX) && !inode_owner_or_cap(ino, cred))
		return -EPERM;
	return inode_permission(ino, write ? MAY_WRITE : MAY_READ, cred);
}

ssize_t vfs_getxattr(const struct vfs_ctx *ctx, struct path p, const char *name, void *buf, size_t size)
{
	struct inode *ino = p.dentry->inode;
	int r = xattr_permission(p, name, 0, ctx->cred);

	if (r)
		return r;
	return ino->ops->getxattr ? ino->ops->getxattr(ino, name, buf, size) : -EOPNOTSUPP;
}

static void changed(struct path p)
{
	if (notify_active(p.mnt->sb->vfs))
		notify_dentry(p.dentry, IN_ATTRIB);
}

int vfs_setxattr(const struct vfs_ctx *ctx, struct path p, const char *name, const void *val,
		 size_t size, int flags)
{
	struct inode *ino = p.dentry->inode;
	int r;

	if (flags & ~(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	if (size > XATTR_SIZE_MAX)
		return -E2BIG;
	r = xattr_permission(p, name, 1, ctx->cred);
	if (r)
		return r;
	if (!ino->ops->setxattr)
		return -EOPNOTSUPP;
	r = ino->ops->setxattr(ino, name, val, size, flags);
	if (r)
		return r;
	if (strcmp(name, "security.capability") == 0) {
		lock_acquire(&ino->lock);
		ino->attr_flags |= INODE_MAYBE_CAPS;
		lock_release(&ino->lock);
	}
	changed(p);
	return 0;
}

int vfs_removexattr(const struct vfs_ctx *ctx, struct path p, const char *name)
{
	struct inode *ino = p.dentry->inode;
	int r = xattr_permission(p, name, 1, ctx->cred);

	if (r)
		return r;
	if (!ino->ops->removexattr)
		return -EOPNOTSUPP;
	r = ino->ops->removexattr(ino, name);
	if (!r)
		changed(p);
	return r;
}

/* Drops the names the caller may not see; returns the new length. */
static size_t filter_names(char *buf, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		size_t n = strlen(buf + i) + 1;

		if (!has_prefix(buf + i, "trusted.")) {
			memmove(buf + out, buf + i, n);
			out += n;
		}
		i += n;
	}
	return out;
}

ssize_t vfs_listxattr(const struct vfs_ctx *ctx, struct path p, char *buf, size_t size)
{
	struct inode *ino = p.dentry->inode;
	ssize_t n;
	char *all;

	if (!ino->ops->listxattr)
		return 0;
	if (cred_has_cap(ctx->cred, CAP_SYS_ADMIN))
		return ino->ops->listxattr(ino, buf, size);
	all = malloc(XATTR_LIST_MAX);
	if (!all)
		return -ENOMEM;
	n = ino->ops->listxattr(ino, all, XATTR_LIST_MAX);
	if (n > 0) {
		n = (ssize_t)filter_names(all, (size_t)n);
		if (size && (size_t)n > size)
			n = -ERANGE;
		else if (size)
			memcpy(buf, all, (size_t)n);
	}
	free(all);
	return n;
}
