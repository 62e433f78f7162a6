/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlay inodes: making, finding by lower inode, pinning, evicting. Theory: super.c.
 */
#include <stdlib.h>

#include "platform/base/hash.h"
#include "vfs/overlay/overlay_priv.h"

int ovl_charge(struct ovl_sb *os)
{
	if (__atomic_add_fetch(&os->objects, 1, __ATOMIC_RELAXED) > os->object_limit) {
		__atomic_sub_fetch(&os->objects, 1, __ATOMIC_RELAXED);
		return -ENOSPC;
	}
	return 0;
}

void ovl_uncharge(struct ovl_sb *os)
{
	__atomic_sub_fetch(&os->objects, 1, __ATOMIC_RELAXED);
}

static const struct file_ops *fops_for(uint32_t mode)
{
	if (S_ISREG(mode))
		return &g_ovl_file_ops;
	return S_ISDIR(mode) ? &g_ovl_dir_ops : NULL;
}

/* A bare overlay inode; consumes low (may be NULL). */
static struct inode *ovl_inode_alloc(struct ovl_sb *os, uint64_t nr, uint32_t mode,
				     struct inode *low)
{
	struct ovl_inode *oi = calloc(1, sizeof(*oi));
	struct inode *ino = oi ? inode_new(os->sb, nr, mode, &g_ovl_inode_ops, fops_for(mode))
			       : NULL;

	if (!ino || IS_ERR(ino)) {
		free(oi);
		if (low)
			inode_put(low);
		return ERR_PTR(-ENOMEM);
	}
	lock_destroy(&ino->lock);
	lock_init(&ino->lock, RANK_INODE_OVERLAY);
	oi->ino = ino;
	oi->lower = low;
	ino->priv = oi;
	lock_acquire(&os->lock);
	list_add_tail(&oi->all, &os->all);
	lock_release(&os->lock);
	return ino;
}

/* [os->lock] The live inode for low with a reference, or NULL. */
static struct inode *table_find(struct ovl_sb *os, const struct inode *low)
{
	struct ovl_inode *oi = os->table[hash_u64(low->ino) & (os->table_size - 1)];

	for (; oi; oi = oi->hash_next)
		if (oi->lower->ino == low->ino && ref_get_unless_zero(&oi->ino->ref))
			return oi->ino;
	return NULL;
}

/* [os->lock] Failing to grow only makes chains longer. */
static void table_grow(struct ovl_sb *os)
{
	size_t size = os->table_size * 2;
	struct ovl_inode **table = calloc(size, sizeof(struct ovl_inode *));

	if (!table)
		return;
	for (size_t i = 0; i < os->table_size; i++) {
		struct ovl_inode *oi = os->table[i], *next;

		for (; oi; oi = next) {
			size_t at = hash_u64(oi->lower->ino) & (size - 1);

			next = oi->hash_next;
			oi->hash_next = table[at];
			table[at] = oi;
		}
	}
	free(os->table);
	os->table = table;
	os->table_size = size;
}

static void table_insert(struct ovl_sb *os, struct ovl_inode *oi)
{
	if (os->table_used >= os->table_size)
		table_grow(os);
	size_t at = hash_u64(oi->lower->ino) & (os->table_size - 1);

	oi->hash_next = os->table[at];
	os->table[at] = oi;
	os->table_used++;
	oi->hashed = 1;
}

static void table_remove(struct ovl_sb *os, struct ovl_inode *oi)
{
	struct ovl_inode **p = &os->table[hash_u64(oi->lower->ino) & (os->table_size - 1)];

	for (; *p; p = &(*p)->hash_next)
		if (*p == oi) {
			*p = oi->hash_next;
			os->table_used--;
			break;
		}
	oi->hashed = 0;
}

static void copy_attrs(struct inode *ino, const struct inode *low)
{
	ino->uid = low->uid;
	ino->gid = low->gid;
	ino->nlink = low->nlink;
	ino->rdev = low->rdev;
	ino->size = low->size;
	ino->blocks = low->blocks;
	ino->atime = low->atime;
	ino->mtime = low->mtime;
	ino->ctime = low->ctime;
	ino->btime = low->btime;
	ino->attr_flags = low->attr_flags;
	/* Whether the lower has file capabilities is asked when a write would remove them. */
	if (S_ISREG(ino->mode))
		ino->attr_flags |= INODE_MAYBE_CAPS;
	ino->change_count = low->change_count;
}

struct inode *ovl_inode_of_lower(struct ovl_sb *os, struct inode *low)
{
	lock_acquire(&os->lock);
	struct inode *ino = table_find(os, low);

	lock_release(&os->lock);
	if (ino) {
		inode_put(low);
		return ino;
	}
	ino = ovl_inode_alloc(os, low->ino, low->mode, low);
	if (IS_ERR(ino))
		return ino;
	copy_attrs(ino, low);
	if (low->link)
		ino->link = strdup(low->link); /* NULL: readlink() is asked instead */
	lock_acquire(&os->lock);
	struct inode *other = table_find(os, low); /* another lookup may have come first */

	if (!other)
		table_insert(os, ovl_i(ino));
	lock_release(&os->lock);
	if (other) {
		inode_put(ino);
		return other;
	}
	return ino;
}

struct inode *ovl_inode_create(struct inode *dir, uint32_t mode, const struct cred *cred)
{
	struct ovl_sb *os = ovl_s(dir);
	int r = ovl_charge(os);

	if (r)
		return ERR_PTR(r);
	uint64_t nr = __atomic_fetch_add(&os->next_ino, 1, __ATOMIC_RELAXED);
	struct inode *ino = ovl_inode_alloc(os, nr, mode, NULL);

	if (IS_ERR(ino)) {
		ovl_uncharge(os);
		return ino;
	}
	ovl_i(ino)->counted = 1;
	inode_init_owner(ino, dir, mode, cred);
	ino->nlink = S_ISDIR(mode) ? 2 : 1;
	ino->atime = ino->mtime = ino->ctime = ino->btime = vfs_now();
	return ino;
}

void ovl_pin(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);

	lock_assert_held(&ino->lock);
	/* The root is held by the superblock; pinning it would keep the superblock alive. */
	if (oi->pinned || !oi->lower || ino->nlink == 0 || !ino->sb->root ||
	    ino->sb->root->inode == ino)
		return;
	oi->pinned = 1;
	inode_get(ino);
}

void ovl_unpin(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);

	lock_assert_held(&ino->lock);
	if (!oi->pinned)
		return;
	oi->pinned = 0;
	inode_put(ino);
}

/*
 * The root goes last of what has users: everything that only the table or a directory's entries
 * keep alive is let go here. First all entries are collected, then dropped, so that no inode's
 * eviction leads to another's and the depth of the tree does not matter.
 */
static void drop_tree(struct ovl_sb *os)
{
	struct list_head entries, pinned;
	struct ovl_inode *oi, *tmp;
	struct ovl_entry *e, *etmp;

	list_init(&entries);
	list_init(&pinned);
	lock_acquire(&os->lock);
	list_for_each_safe(oi, tmp, &os->all, all) {
		if (oi->dir) {
			struct ovl_dir *od = oi->dir;

			oi->dir = NULL;
			ovl_dir_free(os, od, &entries);
		}
		if (oi->pinned) {
			oi->pinned = 0;
			list_del(&oi->all);
			list_add_tail(&oi->all, &pinned);
		}
	}
	lock_release(&os->lock);
	list_for_each_safe(oi, tmp, &pinned, all) {
		list_del(&oi->all);
		inode_put(oi->ino);
	}
	list_for_each_safe(e, etmp, &entries, order) {
		list_del(&e->order);
		inode_put(e->inode);
		free(e);
	}
}

void ovl_evict(struct inode *ino)
{
	struct ovl_inode *oi = ovl_i(ino);

	if (!oi)
		return;
	struct ovl_sb *os = ovl_s(ino);

	lock_acquire(&os->lock);
	if (oi->hashed)
		table_remove(os, oi);
	lock_release(&os->lock);
	if (oi->lower && oi->lower == os->lower->root->inode)
		drop_tree(os);

	lock_acquire(&os->lock);
	list_del(&oi->all);
	lock_release(&os->lock);
	if (oi->dir) {
		/* A directory goes either empty or after drop_tree: only whiteouts are left. */
		struct list_head none;

		list_init(&none);
		ovl_dir_free(os, oi->dir, &none);
		ASSERT(list_empty(&none));
	}
	if (oi->upper_file)
		file_put(oi->upper_file);
	if (oi->upper)
		inode_put(oi->upper);
	if (oi->lower)
		inode_put(oi->lower);
	if (oi->counted)
		ovl_uncharge(os);
	free(oi);
	ino->priv = NULL;
}
