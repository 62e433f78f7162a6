/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what to which inode: mode bits, capabilities, sticky directories, the
 * protected_symlinks/hardlinks rules (both on, as distributions set them). Decided from cached
 * attributes here, never by the host.
 */
#include <linux/capability.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

int vfs_generic_permission(struct inode *ino, uint32_t mask, const struct cred *cred)
{
	uint32_t mode = __atomic_load_n(&ino->mode, __ATOMIC_RELAXED), bits = mode;

	mask &= MAY_READ | MAY_WRITE | MAY_EXEC;
	if (cred->fsuid == ino->uid)
		bits >>= 6;
	else if ((mode & 070) != (mode & 07) << 3 && cred_in_group(cred, ino->gid))
		bits >>= 3;
	if ((mask & ~bits & 7) == 0)
		return 0;
	if (S_ISDIR(mode)) {
		if (!(mask & MAY_WRITE) && cred_has_cap(cred, CAP_DAC_READ_SEARCH))
			return 0;
		return cred_has_cap(cred, CAP_DAC_OVERRIDE) ? 0 : -EACCES;
	}
	if (mask == MAY_READ && cred_has_cap(cred, CAP_DAC_READ_SEARCH))
		return 0;
	/* Even root executes only what has an x bit somewhere. */
	if ((!(mask & MAY_EXEC) || (mode & 0111)) && cred_has_cap(cred, CAP_DAC_OVERRIDE))
		return 0;
	return -EACCES;
}

int inode_permission(struct inode *ino, uint32_t mask, const struct cred *cred)
{
	if ((mask & MAY_WRITE) &&
	    (__atomic_load_n(&ino->attr_flags, __ATOMIC_RELAXED) & STATX_ATTR_IMMUTABLE))
		return -EPERM;
	if (ino->ops->permission)
		return ino->ops->permission(ino, mask, cred);
	return vfs_generic_permission(ino, mask, cred);
}

static int is_data_inode(const struct inode *ino)
{
	return S_ISREG(ino->mode) || S_ISDIR(ino->mode) || S_ISLNK(ino->mode);
}

int vfs_path_permission(struct path p, uint32_t mask, const struct cred *cred)
{
	struct inode *ino = p.dentry->inode;

	if ((mask & MAY_WRITE) && is_data_inode(ino) && mount_writable(p.mnt))
		return -EROFS;
	return inode_permission(ino, mask, cred);
}

int vfs_access(const struct vfs_ctx *ctx, struct path p, uint32_t mask, const struct cred *as)
{
	struct inode *ino = p.dentry->inode;
	int r;

	if (ino->ops->getattr) {
		r = ino->ops->getattr(ino);
		if (r)
			return r;
	}
	if ((mask & MAY_EXEC) && S_ISREG(ino->mode) && (p.mnt->flags & MNT_F_NOEXEC))
		return -EACCES;
	r = inode_permission(ino, mask, as);
	if (r)
		return r;
	/* Special files stay writable on a read-only filesystem. */
	if ((mask & MAY_WRITE) && is_data_inode(ino) && mount_writable(p.mnt))
		return -EROFS;
	return 0;
}

int inode_owner_or_cap(const struct inode *ino, const struct cred *cred)
{
	return cred->fsuid == ino->uid || cred_has_cap(cred, CAP_FOWNER);
}

int perm_may_create(struct inode *dir, int dir_perm)
{
	return dir->nlink == 0 ? -ENOENT : dir_perm;
}

int perm_may_delete(struct inode *dir, int dir_perm, struct inode *victim, int isdir,
		    const struct cred *cred)
{
	if (dir_perm)
		return dir_perm;
	if (dir->attr_flags & STATX_ATTR_APPEND)
		return -EPERM;
	if ((dir->mode & S_ISVTX) && cred->fsuid != victim->uid && cred->fsuid != dir->uid &&
	    !cred_has_cap(cred, CAP_FOWNER))
		return -EPERM;
	if (victim->attr_flags & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE))
		return -EPERM;
	if (isdir && !S_ISDIR(victim->mode))
		return -ENOTDIR;
	if (!isdir && S_ISDIR(victim->mode))
		return -EISDIR;
	return dir->nlink == 0 ? -ENOENT : 0;
}

int perm_may_linkat(struct inode *ino, const struct cred *cred)
{
	if (inode_owner_or_cap(ino, cred))
		return 0;
	/* protected_hardlinks: others may only link what they could have written themselves. */
	if (!S_ISREG(ino->mode) || (ino->mode & S_ISUID) ||
	    (ino->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) ||
	    inode_permission(ino, MAY_READ | MAY_WRITE, cred))
		return -EPERM;
	return 0;
}

int perm_may_follow_link(const struct inode *dir, const struct inode *link,
			 const struct cred *cred)
{
	if (link->uid == cred->fsuid)
		return 0;
	if ((dir->mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH))
		return 0;
	return dir->uid == link->uid ? 0 : -EACCES;
}

uint32_t perm_strip_setid(const struct inode *ino, const struct cred *cred, int *strip)
{
	uint32_t mode = ino->mode, kill = 0;

	if (S_ISREG(mode)) {
		kill = mode & S_ISUID;
		/* Without group execute the bit once meant mandatory locking; it still goes when
		 * the caller is outside the group. */
		if ((mode & S_ISGID) &&
		    ((mode & S_IXGRP) ||
		     (!cred_in_group(cred, ino->gid) && !cred_has_cap(cred, CAP_FSETID))))
			kill |= S_ISGID;
		if (cred_has_cap(cred, CAP_FSETID))
			kill = 0;
	}
	*strip = kill != 0;
	return mode & ~kill;
}
