/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes: life, ownership of new ones, times. Their data and names belong to the filesystems. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "vfs/vfs_priv.h"

struct linux_timespec vfs_now(void)
{
	struct timespec ts;

	/* The coarse clock is what Linux stamps inodes with, and costs no syscall. */
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return (struct linux_timespec){ts.tv_sec, ts.tv_nsec};
}

struct inode *inode_new(struct superblock *sb, uint64_t ino, uint32_t mode,
			const struct inode_ops *ops, const struct file_ops *fops)
{
	struct inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	ref_init(&i->ref);
	i->sb = sb;
	__atomic_fetch_add(&sb->live, 1, __ATOMIC_RELAXED);
	i->ino = ino;
	i->mode = mode;
	i->nlink = 1;
	i->ops = ops;
	i->fops = fops;
	lock_init(&i->lock, RANK_INODE);
	list_init(&i->watches);
	i->atime = i->mtime = i->ctime = i->btime = vfs_now();
	return i;
}

struct inode *inode_get(struct inode *ino)
{
	ref_get(&ino->ref);
	return ino;
}

void inode_put(struct inode *ino)
{
	struct superblock *sb;

	if (!ino || !ref_put(&ino->ref))
		return;
	/* Nobody can reach it now: marks hold references, so there are none left either. */
	sb = ino->sb;
	if (ino->bound_socket && ino->bound_socket_gone)
		ino->bound_socket_gone(ino);
	if (ino->flock)
		flock_inode_gone(ino);
	if (sb->ops && sb->ops->evict)
		sb->ops->evict(ino);
	free(ino->link);
	lock_destroy(&ino->lock);
	free(ino);
	sb_unlive(sb);
}

void inode_init_owner(struct inode *ino, const struct inode *dir, uint32_t mode,
		      const struct cred *cred)
{
	ino->uid = cred->fsuid;
	if (dir && (dir->mode & S_ISGID)) {
		ino->gid = dir->gid;
		if (S_ISDIR(mode))
			mode |= S_ISGID;
		else if ((mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
			 !cred_in_group(cred, ino->gid) && !cred_has_cap(cred, CAP_FSETID))
			mode &= ~(uint32_t)S_ISGID;
	} else {
		ino->gid = cred->fsgid;
	}
	ino->mode = mode;
}

void inode_touch(struct inode *ino, uint32_t which)
{
	struct linux_timespec now = vfs_now();

	if (which & IATTR_ATIME)
		ino->atime = now;
	if (which & IATTR_MTIME)
		ino->mtime = now;
	if (which & IATTR_CTIME)
		ino->ctime = now;
	if (which & (IATTR_MTIME | IATTR_CTIME))
		ino->change_count++;
}
