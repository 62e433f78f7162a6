/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes: stat and statx, chmod, chown, truncate, utimens, access times. */
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

#define RELATIME_SECONDS (24 * 60 * 60)

static int ts_compare(const struct linux_timespec *a, const struct linux_timespec *b)
{
	if (a->sec != b->sec)
		return a->sec < b->sec ? -1 : 1;
	return (a->nsec > b->nsec) - (a->nsec < b->nsec);
}

int inode_atime_is_stale(const struct inode *ino, uint32_t mnt_flags)
{
	if ((ino->sb->flags & SB_RDONLY) || (mnt_flags & (MNT_F_RDONLY | MNT_F_NOATIME)))
		return 0;
	if ((mnt_flags & MNT_F_NODIRATIME) && S_ISDIR(ino->mode))
		return 0;
	if (mnt_flags & MNT_F_STRICTATIME)
		return 1;
	if (ts_compare(&ino->mtime, &ino->atime) >= 0 || ts_compare(&ino->ctime, &ino->atime) >= 0)
		return 1;
	return vfs_now().sec - ino->atime.sec >= RELATIME_SECONDS;
}

void path_touch_atime(struct path p, uint32_t file_flags)
{
	struct inode *ino = p.dentry->inode;

	if ((file_flags & O_NOATIME) || !inode_atime_is_stale(ino, p.mnt->flags))
		return;
	lock_acquire(&ino->lock);
	ino->atime = vfs_now();
	lock_release(&ino->lock);
}

void inode_fill_stat(struct inode *ino, struct linux_stat *st)
{
	*st = (struct linux_stat){
		.dev = ino->sb->dev,
		.ino = ino->ino,
		.nlink = ino->nlink,
		.mode = ino->mode,
		.uid = ino->uid,
		.gid = ino->gid,
		.rdev = ino->rdev,
		.size = (int64_t)ino->size,
		.blksize = ino->sb->blksize,
		.blocks = (int64_t)ino->blocks,
		.atime = ino->atime,
		.mtime = ino->mtime,
		.ctime = ino->ctime,
	};
}

static int refresh(struct inode *ino)
{
	return ino->ops->getattr ? ino->ops->getattr(ino) : 0;
}

int vfs_getattr(struct path p, struct linux_stat *st)
{
	struct inode *ino = p.dentry->inode;
	int r = refresh(ino);

	if (r)
		return r;
	lock_acquire(&ino->lock);
	inode_fill_stat(ino, st);
	lock_release(&ino->lock);
	return 0;
}

static struct statx_timestamp statx_time(struct linux_timespec t)
{
	return (struct statx_timestamp){.tv_sec = t.sec, .tv_nsec = (uint32_t)t.nsec};
}

int vfs_statx(struct path p, uint32_t mask, struct statx *stx)
{
	struct inode *ino = p.dentry->inode;
	struct linux_stat st;
	int r = vfs_getattr(p, &st);

	if (r)
		return r;
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_blksize = (uint32_t)st.blksize;
	stx->stx_nlink = (uint32_t)st.nlink;
	stx->stx_uid = st.uid;
	stx->stx_gid = st.gid;
	stx->stx_mode = (uint16_t)st.mode;
	stx->stx_ino = st.ino;
	stx->stx_size = (uint64_t)st.size;
	stx->stx_blocks = (uint64_t)st.blocks;
	stx->stx_atime = statx_time(st.atime);
	stx->stx_mtime = statx_time(st.mtime);
	stx->stx_ctime = statx_time(st.ctime);
	if (ino->btime.sec) {
		stx->stx_mask |= STATX_BTIME;
		stx->stx_btime = statx_time(ino->btime);
	}
	stx->stx_rdev_major = linux_major(st.rdev);
	stx->stx_rdev_minor = linux_minor(st.rdev);
	stx->stx_dev_major = linux_major(st.dev);
	stx->stx_dev_minor = linux_minor(st.dev);
	stx->stx_attributes = ino->attr_flags & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND);
	stx->stx_attributes_mask = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND |
				   STATX_ATTR_MOUNT_ROOT;
	if (p.dentry == p.mnt->root)
		stx->stx_attributes |= STATX_ATTR_MOUNT_ROOT;
	stx->stx_mnt_id = (uint64_t)p.mnt->id;
	stx->stx_mask |= STATX_MNT_ID;
	return 0;
}

int vfs_statfs(struct path p, struct linux_statfs *st)
{
	/* ST_* of statfs(2), which are not MS_*. */
	static const struct {
		uint32_t mnt, st;
	} bits[] = {
		{MNT_F_RDONLY, 0x0001}, {MNT_F_NOSUID, 0x0002},	    {MNT_F_NODEV, 0x0004},
		{MNT_F_NOEXEC, 0x0008}, {MNT_F_NOATIME, 0x0400},    {MNT_F_NODIRATIME, 0x0800},
		{MNT_F_RELATIME, 0x1000}, {MNT_F_NOSYMFOLLOW, 0x2000},
	};
	struct superblock *sb = p.dentry->sb;
	int r;

	memset(st, 0, sizeof(*st));
	st->type = sb->magic;
	st->bsize = st->frsize = sb->blksize;
	st->namelen = NAME_MAX;
	st->fsid[0] = (int32_t)(sb->dev & 0xffffffff);
	st->fsid[1] = (int32_t)(sb->dev >> 32);
	if (sb->ops && sb->ops->statfs) {
		r = sb->ops->statfs(sb, st);
		if (r)
			return r;
	}
	st->flags = 0x0020; /* ST_VALID */
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (p.mnt->flags & bits[i].mnt)
			st->flags |= bits[i].st;
	if (sb->flags & SB_RDONLY)
		st->flags |= 1;
	return 0;
}

void inode_apply_attr(struct inode *ino, const struct iattr *attr)
{
	lock_assert_held(&ino->lock);
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
	if (attr->valid & IATTR_CTIME)
		ino->ctime = attr->ctime;
	ino->change_count++;
}

/* Calls setattr under the lock; ctime goes with every change of attributes. */
static int set_locked(struct inode *ino, struct iattr *attr)
{
	lock_assert_held(&ino->lock);
	if (!ino->ops->setattr)
		return -EPERM;
	if (!(attr->valid & IATTR_SIZE))
		attr->valid |= IATTR_CTIME;
	if (attr->valid & IATTR_CTIME)
		attr->ctime = vfs_now();
	return ino->ops->setattr(ino, attr);
}

static void notify_attrib(struct path p)
{
	if (notify_active(p.mnt->sb->vfs))
		notify_dentry(p.dentry, IN_ATTRIB);
}

/* Read-only mounts, then immutable and append-only files. */
static int may_change(struct path p)
{
	int r = mount_writable(p.mnt);

	if (r)
		return r;
	if (p.dentry->inode->attr_flags & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		return -EPERM;
	return 0;
}

int vfs_chmod(const struct vfs_ctx *ctx, struct path p, uint32_t mode)
{
	struct inode *ino = p.dentry->inode;
	struct iattr attr = {.valid = IATTR_MODE, .mode = mode & 07777};
	int r;

	r = mount_writable(p.mnt);
	if (r)
		return r;
	if (S_ISLNK(ino->mode))
		return -EOPNOTSUPP;
	r = refresh(ino);
	if (!r)
		r = may_change(p);
	if (r)
		return r;
	lock_acquire(&ino->lock);
	if (!inode_owner_or_cap(ino, ctx->cred)) {
		r = -EPERM;
	} else {
		if (!cred_in_group(ctx->cred, ino->gid) && !cred_has_cap(ctx->cred, CAP_FSETID))
			attr.mode &= ~(uint32_t)S_ISGID;
		r = set_locked(ino, &attr);
	}
	lock_release(&ino->lock);
	if (!r)
		notify_attrib(p);
	return r;
}

static void drop_file_caps(struct inode *ino)
{
	if (!(ino->attr_flags & INODE_MAYBE_CAPS))
		return;
	if (ino->ops->removexattr)
		ino->ops->removexattr(ino, "security.capability");
	lock_acquire(&ino->lock);
	ino->attr_flags &= ~INODE_MAYBE_CAPS;
	lock_release(&ino->lock);
}

int vfs_chown(const struct vfs_ctx *ctx, struct path p, uint32_t uid, uint32_t gid)
{
	struct inode *ino = p.dentry->inode;
	const struct cred *cred = ctx->cred;
	struct iattr attr = {.uid = uid, .gid = gid};
	int r = refresh(ino);

	if (!r)
		r = may_change(p);
	if (r)
		return r;
	lock_acquire(&ino->lock);
	if (uid != UINT32_MAX) {
		attr.valid |= IATTR_UID;
		if ((cred->fsuid != ino->uid || uid != ino->uid) && !cred_has_cap(cred, CAP_CHOWN))
			r = -EPERM;
	}
	if (gid != UINT32_MAX) {
		attr.valid |= IATTR_GID;
		if ((cred->fsuid != ino->uid || (!cred_in_group(cred, gid) && gid != ino->gid)) &&
		    !cred_has_cap(cred, CAP_CHOWN))
			r = -EPERM;
	}
	if (!S_ISDIR(ino->mode)) {
		/* Unlike a write, a change of owner strips them for the privileged too. */
		uint32_t kill = ino->mode & S_ISUID;

		if ((ino->mode & S_ISGID) &&
		    ((ino->mode & S_IXGRP) || (!cred_in_group(cred, ino->gid) &&
					       !cred_has_cap(cred, CAP_FSETID))))
			kill |= S_ISGID;
		if (kill) {
			uint32_t g = gid != UINT32_MAX ? gid : ino->gid;

			/* To Linux this is a chmod along the way, with a chmod's rules. */
			if (!inode_owner_or_cap(ino, cred))
				r = -EPERM;
			if (!cred_in_group(cred, g) && !cred_has_cap(cred, CAP_FSETID))
				kill |= S_ISGID;
			attr.valid |= IATTR_MODE;
			attr.mode = ino->mode & ~kill;
		}
	}
	if (!r)
		r = set_locked(ino, &attr);
	lock_release(&ino->lock);
	if (!r) {
		if (!S_ISDIR(ino->mode))
			drop_file_caps(ino);
		notify_attrib(p);
	}
	return r;
}

int inode_strip_privs(struct inode *ino, const struct cred *cred)
{
	struct iattr attr = {.valid = IATTR_MODE};
	int strip, r = 0;

	if (!S_ISREG(ino->mode))
		return 0;
	if (ino->attr_flags & INODE_MAYBE_CAPS)
		drop_file_caps(ino);
	if (!(ino->mode & (S_ISUID | S_ISGID)))
		return 0;
	lock_acquire(&ino->lock);
	attr.mode = perm_strip_setid(ino, cred, &strip);
	if (strip)
		r = set_locked(ino, &attr);
	lock_release(&ino->lock);
	return r;
}

static int truncate_inode(struct inode *ino, int64_t size, uint32_t times, const struct cred *cred)
{
	struct iattr attr = {.valid = IATTR_SIZE | times, .size = (uint64_t)size};
	int r = inode_strip_privs(ino, cred);

	if (r)
		return r;
	lock_acquire(&ino->lock);
	attr.mtime = vfs_now();
	r = set_locked(ino, &attr);
	lock_release(&ino->lock);
	return r;
}

int vfs_truncate(const struct vfs_ctx *ctx, struct path p, int64_t size)
{
	struct inode *ino = p.dentry->inode;
	int r;

	if (size < 0)
		return -EINVAL;
	if (S_ISDIR(ino->mode))
		return -EISDIR;
	if (!S_ISREG(ino->mode))
		return -EINVAL;
	r = refresh(ino);
	if (!r)
		r = mount_writable(p.mnt);
	if (!r)
		r = inode_permission(ino, MAY_WRITE, ctx->cred);
	if (r)
		return r;
	if (ino->attr_flags & STATX_ATTR_APPEND)
		return -EPERM;
	if (__atomic_load_n(&ino->write_count, __ATOMIC_RELAXED) < 0)
		return -ETXTBSY;
	r = truncate_inode(ino, size, (uint64_t)size != ino->size ? IATTR_MTIME | IATTR_CTIME : 0,
			   ctx->cred);
	if (!r && notify_active(ctx->vfs))
		notify_dentry(p.dentry, IN_MODIFY);
	return r;
}

int vfs_ftruncate(struct file *f, int64_t size)
{
	struct inode *ino = f->inode;
	int r;

	if (size < 0)
		return -EINVAL;
	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (!S_ISREG(ino->mode) || !(f->mode & FMODE_WRITE))
		return -EINVAL;
	if (ino->attr_flags & STATX_ATTR_APPEND)
		return -EPERM;
	r = truncate_inode(ino, size, IATTR_MTIME | IATTR_CTIME, f->cred);
	if (!r && notify_active(ino->sb->vfs))
		notify_dentry(f->path.dentry, IN_MODIFY);
	return r;
}

int vfs_utimens(const struct vfs_ctx *ctx, struct path p, const struct linux_timespec ts[2])
{
	struct inode *ino = p.dentry->inode;
	struct iattr attr = {0};
	int now = 1, r;

	if (ts) {
		for (int i = 0; i < 2; i++)
			if (ts[i].nsec != UTIME_NOW && ts[i].nsec != UTIME_OMIT &&
			    (ts[i].nsec < 0 || ts[i].nsec > 999999999))
				return -EINVAL;
		if (ts[0].nsec == UTIME_OMIT && ts[1].nsec == UTIME_OMIT)
			return 0;
		now = ts[0].nsec == UTIME_NOW && ts[1].nsec == UTIME_NOW;
	}
	r = mount_writable(p.mnt);
	if (!r)
		r = refresh(ino);
	if (r)
		return r;
	if (ino->attr_flags & STATX_ATTR_IMMUTABLE)
		return -EPERM;
	if (now) {
		/* Setting both to now needs only what writing would. */
		if (!inode_owner_or_cap(ino, ctx->cred)) {
			r = inode_permission(ino, MAY_WRITE, ctx->cred);
			if (r)
				return r;
		}
	} else if ((ino->attr_flags & STATX_ATTR_APPEND) || !inode_owner_or_cap(ino, ctx->cred)) {
		return -EPERM;
	}
	lock_acquire(&ino->lock);
	attr.atime = attr.mtime = vfs_now();
	attr.valid = IATTR_ATIME | IATTR_MTIME;
	if (!now) {
		if (ts[0].nsec == UTIME_OMIT)
			attr.valid &= ~IATTR_ATIME;
		else if (ts[0].nsec != UTIME_NOW)
			attr.atime = ts[0];
		if (ts[1].nsec == UTIME_OMIT)
			attr.valid &= ~IATTR_MTIME;
		else if (ts[1].nsec != UTIME_NOW)
			attr.mtime = ts[1];
	}
	r = set_locked(ino, &attr);
	lock_release(&ino->lock);
	if (!r)
		notify_attrib(p);
	return r;
}
