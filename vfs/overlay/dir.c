/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: lookup and the operations that change a directory. The VFS has checked permissions, that
 * names exist or not, and types; each operation here first allocates all it needs and then changes
 * the entries, which can not fail. Theory: super.c.
 */
#include <stdlib.h>

#include "vfs/overlay/overlay_priv.h"

static struct inode *ovl_lookup(struct inode *dir, const char *name, size_t len)
{
	struct ovl_entry *e = ovl_entry_find(dir, name, len);

	if (e)
		return e->inode ? inode_get(e->inode) : ERR_PTR(-ENOENT);
	struct inode *low = ovl_i(dir)->lower;

	if (!low || !low->ops->lookup)
		return ERR_PTR(-ENOENT);
	lock_acquire(&low->lock);
	struct inode *found = low->ops->lookup(low, name, len);

	lock_release(&low->lock);
	if (IS_ERR(found))
		return found;
	return ovl_inode_of_lower(ovl_s(dir), found);
}

static void dir_changed(struct inode *dir)
{
	dir->mtime = dir->ctime = vfs_now();
	dir->change_count++;
}

/* Filesystems that do not count subdirectories report 1 for every directory: then so do we. */
static void count_subdir(struct inode *dir, int delta)
{
	if (dir->nlink >= 2)
		dir->nlink = (uint32_t)((int64_t)dir->nlink + delta);
}

/* One name less, or all for a directory; ino->lock held. */
static void lose_link(struct inode *ino)
{
	if (S_ISDIR(ino->mode))
		ino->nlink = 0;
	else if (ino->nlink)
		ino->nlink--;
	ino->ctime = vfs_now();
	ino->change_count++;
	if (ino->nlink == 0)
		ovl_unpin(ino);
	else
		ovl_pin(ino);
}

/* Makes a new inode under name; consumes ino. A reference for the caller. */
static struct inode *add_new(struct inode *dir, const char *name, struct inode *ino)
{
	if (IS_ERR(ino))
		return ino;
	struct ovl_entry *fresh = dir->nlink ? ovl_entry_prepare(dir, name) : ERR_PTR(-ENOENT);

	if (IS_ERR(fresh)) {
		inode_put(ino);
		return ERR_PTR(PTR_ERR(fresh));
	}
	ovl_entry_set(dir, name, inode_get(ino), 0, fresh);
	if (S_ISDIR(ino->mode)) {
		ovl_i(ino)->parent_ino = dir->ino;
		count_subdir(dir, 1);
	}
	dir_changed(dir);
	return ino;
}

static struct inode *ovl_create(struct inode *dir, const char *name, uint32_t mode,
				const struct cred *cred)
{
	return add_new(dir, name, ovl_inode_create(dir, S_IFREG | (mode & 07777), cred));
}

static struct inode *ovl_mkdir(struct inode *dir, const char *name, uint32_t mode,
			       const struct cred *cred)
{
	return add_new(dir, name, ovl_inode_create(dir, S_IFDIR | (mode & 07777), cred));
}

static struct inode *ovl_mknod(struct inode *dir, const char *name, uint32_t mode, uint64_t rdev,
			       const struct cred *cred)
{
	struct inode *ino = ovl_inode_create(dir, mode, cred);

	if (!IS_ERR(ino) && (S_ISCHR(mode) || S_ISBLK(mode)))
		ino->rdev = rdev;
	return add_new(dir, name, ino);
}

static struct inode *ovl_symlink(struct inode *dir, const char *name, const char *target,
				 const struct cred *cred)
{
	struct inode *ino = ovl_inode_create(dir, S_IFLNK | 0777, cred);

	if (IS_ERR(ino))
		return ino;
	ino->size = strlen(target);
	ino->link = strdup(target);
	if (!ino->link) {
		inode_put(ino);
		return ERR_PTR(-ENOMEM);
	}
	return add_new(dir, name, ino);
}

static struct inode *ovl_tmpfile(struct inode *dir, uint32_t mode, const struct cred *cred)
{
	struct inode *ino = ovl_inode_create(dir, S_IFREG | (mode & 07777), cred);

	if (!IS_ERR(ino))
		ino->nlink = 0;
	return ino;
}

static int ovl_link(struct inode *dir, const char *name, struct inode *target)
{
	struct ovl_entry *fresh = dir->nlink ? ovl_entry_prepare(dir, name) : ERR_PTR(-ENOENT);

	if (IS_ERR(fresh))
		return (int)PTR_ERR(fresh);
	lock_acquire_nested(&target->lock);
	target->nlink++;
	target->ctime = vfs_now();
	target->change_count++;
	ovl_pin(target);
	lock_release(&target->lock);
	ovl_entry_set(dir, name, inode_get(target), 0, fresh);
	dir_changed(dir);
	return 0;
}

static int ovl_unlink(struct inode *dir, const char *name, struct inode *victim)
{
	struct ovl_entry *fresh = NULL;

	/* Without an entry the name is the lower's: a whiteout must hide it. */
	if (!ovl_entry_find(dir, name, strlen(name)))
		fresh = ovl_entry_prepare(dir, name);
	if (IS_ERR(fresh))
		return (int)PTR_ERR(fresh);
	lock_acquire_nested(&victim->lock);
	lose_link(victim);
	lock_release(&victim->lock);
	ovl_entry_set(dir, name, NULL, 1, fresh);
	dir_changed(dir);
	return 0;
}

static int ovl_rmdir(struct inode *dir, const char *name, struct inode *victim)
{
	struct ovl_entry *fresh = NULL;

	if (!ovl_entry_find(dir, name, strlen(name)))
		fresh = ovl_entry_prepare(dir, name);
	if (IS_ERR(fresh))
		return (int)PTR_ERR(fresh);
	lock_acquire_nested(&victim->lock);
	int empty = ovl_dir_is_empty(victim);

	if (empty > 0)
		lose_link(victim);
	lock_release(&victim->lock);
	if (empty <= 0) {
		ovl_entry_discard(dir, fresh);
		return empty < 0 ? empty : -ENOTEMPTY;
	}
	ovl_entry_set(dir, name, NULL, 1, fresh);
	count_subdir(dir, -1);
	dir_changed(dir);
	return 0;
}

/* ino has come into newdir. */
static void moved_to(struct inode *ino, struct inode *newdir)
{
	lock_acquire_nested(&ino->lock);
	ino->ctime = vfs_now();
	ino->change_count++;
	ovl_i(ino)->parent_ino = newdir->ino;
	ovl_pin(ino);
	lock_release(&ino->lock);
}

/* A name that is the lower's now is one that a new entry covers. */
static int is_lower_name(struct inode *dir, const char *name, const struct inode *ino)
{
	return ino && !ovl_entry_find(dir, name, strlen(name));
}

static int exchange(struct inode *olddir, const char *oldname, struct inode *source,
		    struct inode *newdir, const char *newname, struct inode *target)
{
	struct ovl_entry *of = ovl_entry_prepare(olddir, oldname), *nf;

	if (IS_ERR(of))
		return (int)PTR_ERR(of);
	nf = ovl_entry_prepare(newdir, newname);
	if (IS_ERR(nf)) {
		ovl_entry_discard(olddir, of);
		return (int)PTR_ERR(nf);
	}
	int old_covers = is_lower_name(olddir, oldname, source);
	int new_covers = is_lower_name(newdir, newname, target);

	ovl_entry_set(olddir, oldname, inode_get(target), old_covers, of);
	ovl_entry_set(newdir, newname, inode_get(source), new_covers, nf);
	if (olddir != newdir) {
		int moved = (S_ISDIR(source->mode) != 0) - (S_ISDIR(target->mode) != 0);

		count_subdir(newdir, moved);
		count_subdir(olddir, -moved);
	}
	moved_to(source, newdir);
	moved_to(target, olddir);
	dir_changed(olddir);
	dir_changed(newdir);
	return 0;
}

/* The target of a rename goes away: -ENOTEMPTY for a directory with names. */
static int drop_target(struct inode *target)
{
	int r = 0;

	lock_acquire_nested(&target->lock);
	if (S_ISDIR(target->mode)) {
		int empty = ovl_dir_is_empty(target);

		r = empty > 0 ? 0 : empty < 0 ? empty : -ENOTEMPTY;
	}
	if (!r)
		lose_link(target);
	lock_release(&target->lock);
	return r;
}

static int ovl_rename(struct inode *olddir, const char *oldname, struct inode *source,
		      struct inode *newdir, const char *newname, struct inode *target,
		      uint32_t flags)
{
	if (flags & RENAME_EXCHANGE)
		return exchange(olddir, oldname, source, newdir, newname, target);
	if (newdir->nlink == 0)
		return -ENOENT;
	struct ovl_sb *os = ovl_s(olddir);
	struct inode *white = NULL;
	struct ovl_entry *of = NULL, *nf = NULL;
	int r;

	if (flags & RENAME_WHITEOUT) {
		white = ovl_inode_create(olddir, S_IFCHR, os->cred);
		if (IS_ERR(white))
			return (int)PTR_ERR(white);
	}
	of = ovl_entry_prepare(olddir, oldname);
	nf = ovl_entry_prepare(newdir, newname);
	r = IS_ERR(of) ? (int)PTR_ERR(of) : IS_ERR(nf) ? (int)PTR_ERR(nf) : 0;
	int old_covers = is_lower_name(olddir, oldname, source);
	int new_covers = is_lower_name(newdir, newname, target);

	if (!r && target)
		r = drop_target(target);
	if (r) {
		ovl_entry_discard(olddir, of);
		ovl_entry_discard(newdir, nf);
		if (white)
			inode_put(white);
		return r;
	}
	inode_get(source);
	/* The old entry's reference may be the only one besides the caller's. */
	ovl_entry_set(olddir, oldname, white, old_covers, of);
	ovl_entry_set(newdir, newname, source, new_covers, nf);
	if (target && S_ISDIR(target->mode))
		count_subdir(newdir, -1);
	if (S_ISDIR(source->mode)) {
		count_subdir(olddir, -1);
		count_subdir(newdir, 1);
	}
	moved_to(source, newdir);
	dir_changed(olddir);
	dir_changed(newdir);
	return 0;
}

static ssize_t ovl_readlink(struct inode *ino, char *buf, size_t size)
{
	struct inode *low = ovl_i(ino)->lower;

	/* Links made here have their text in ino->link. */
	if (!low || !low->ops->readlink)
		return -EINVAL;
	return low->ops->readlink(low, buf, size);
}

const struct inode_ops g_ovl_inode_ops = {
	.lookup = ovl_lookup,
	.create = ovl_create,
	.mkdir = ovl_mkdir,
	.mknod = ovl_mknod,
	.symlink = ovl_symlink,
	.tmpfile = ovl_tmpfile,
	.link = ovl_link,
	.unlink = ovl_unlink,
	.rmdir = ovl_rmdir,
	.rename = ovl_rename,
	.readlink = ovl_readlink,
	.setattr = ovl_setattr,
	.getxattr = ovl_getxattr,
	.setxattr = ovl_setxattr,
	.listxattr = ovl_listxattr,
	.removexattr = ovl_removexattr,
	.open = ovl_open,
};
