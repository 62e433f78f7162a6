/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dentry cache. The hash owns one reference on each dentry in it; so "unused" means a count
 * of one. A hashed dentry is in the hash, in its parent's list of children and in the LRU, or in
 * none of the three. Everything a reader finds under tree_lock stays alive until the lock is
 * dropped, because dentries leave the hash under the write lock only.
 *
 * The LRU is a clock: lookups set `used`, the shrinker gives used ones a second round. What is
 * taken out is freed after the lock is dropped, for freeing may reach the filesystem.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "vfs/vfs_priv.h"

#define SHRINK_SCAN 16 /* per insertion: pinned dentries must not make each one slow */

uint64_t dentry_hash_name(const struct dentry *parent, const char *name, size_t len)
{
	return hash_bytes(name, len, (uintptr_t)parent);
}

static struct dentry *dentry_alloc(struct superblock *sb, struct dentry *parent, const char *name,
				   size_t len)
{
	struct dentry *d = malloc(sizeof(*d));

	if (!d)
		return NULL;
	ref_init(&d->ref);
	d->sb = sb;
	d->parent = parent ? dentry_get(parent) : d;
	d->inode = NULL;
	d->name = d->inline_name;
	if (len >= DENTRY_NAME_INLINE) {
		d->name = malloc(len + 1);
		if (!d->name) {
			if (parent)
				dentry_put(parent);
			free(d);
			return NULL;
		}
	}
	memcpy(d->name, name, len);
	d->name[len] = 0;
	d->name_len = (uint32_t)len;
	d->hash = 0;
	d->hash_next = NULL;
	list_init(&d->child);
	list_init(&d->children);
	list_init(&d->lru);
	d->flags = d->mounted = d->used = 0;
	d->priv = NULL;
	return d;
}

struct dentry *dentry_new_root(struct superblock *sb, struct inode *ino)
{
	struct dentry *d = dentry_alloc(sb, NULL, "", 0);

	if (!d) {
		inode_put(ino);
		return NULL;
	}
	d->inode = ino;
	return d;
}

struct dentry *dentry_new_unhashed(struct superblock *sb, struct dentry *parent, const char *name,
				   size_t len, struct inode *ino)
{
	struct dentry *d = dentry_alloc(sb, parent, name, len);

	if (!d) {
		inode_put(ino);
		return NULL;
	}
	d->inode = ino;
	d->flags = DENTRY_UNLINKED;
	return d;
}

struct dentry *dentry_get(struct dentry *d)
{
	ref_get(&d->ref);
	return d;
}

/* Frees d, whose count is 0, and every ancestor whose last reference that was. */
static void dentry_free(struct dentry *d)
{
	for (;;) {
		struct dentry *parent = d->parent;

		/* The last use of a removed file, or the end of the filesystem: watches end. */
		if (d->inode && !list_empty(&d->inode->watches)) {
			if (d->inode->nlink == 0)
				notify_inode_gone(d->sb->vfs, d->inode, IN_DELETE_SELF);
			else if (ref_read(&d->sb->ref) == 0)
				notify_inode_gone(d->sb->vfs, d->inode, IN_UNMOUNT);
		}
		inode_put(d->inode);
		if (d->name != d->inline_name)
			free(d->name);
		if (parent == d)
			parent = NULL;
		free(d);
		if (!parent || !ref_put(&parent->ref))
			return;
		d = parent;
	}
}

/* tree_lock held for writing. */
static void hash_insert(struct vfs *vfs, struct dentry *d)
{
	struct dentry **b;

	d->hash = dentry_hash_name(d->parent, d->name, d->name_len);
	b = &vfs->hash[d->hash & vfs->hash_mask];
	d->hash_next = *b;
	*b = d;
}

static void hash_remove(struct vfs *vfs, struct dentry *d)
{
	struct dentry **b = &vfs->hash[d->hash & vfs->hash_mask];

	while (*b != d)
		b = &(*b)->hash_next;
	*b = d->hash_next;
	d->hash_next = NULL;
}

/* Doubles the table; when there is no memory chains just get longer. */
static void hash_grow(struct vfs *vfs)
{
	size_t n = (vfs->hash_mask + 1) * 2;
	struct dentry **table = calloc(n, sizeof(*table));

	if (!table)
		return;
	for (size_t i = 0; i <= vfs->hash_mask; i++)
		for (struct dentry *d = vfs->hash[i], *next; d; d = next) {
			next = d->hash_next;
			d->hash_next = table[d->hash & (n - 1)];
			table[d->hash & (n - 1)] = d;
		}
	free(vfs->hash);
	vfs->hash = table;
	vfs->hash_mask = n - 1;
}

static void dentry_hash(struct vfs *vfs, struct dentry *d)
{
	if (vfs->hashed > vfs->hash_mask)
		hash_grow(vfs);
	dentry_get(d);
	hash_insert(vfs, d);
	vfs->hashed++;
	d->flags |= DENTRY_HASHED;
	list_add_tail(&d->child, &d->parent->children);
	list_add_tail(&d->lru, &vfs->lru);
}

/*
 * Takes d out of the cache and drops the cache's reference. If it was the last, d goes to *dead, a
 * list through hash_next for dentry_reap(); if not, its holders may even hash it again before the
 * list is reaped. tree_lock held for writing.
 */
static void dentry_unhash(struct vfs *vfs, struct dentry *d, struct dentry **dead)
{
	hash_remove(vfs, d);
	vfs->hashed--;
	d->flags &= ~DENTRY_HASHED;
	list_del(&d->child);
	list_del(&d->lru);
	if (!ref_put(&d->ref))
		return;
	d->hash_next = *dead;
	*dead = d;
}

static void dentry_reap(struct dentry *dead)
{
	while (dead) {
		struct dentry *next = dead->hash_next;

		dentry_free(dead);
		dead = next;
	}
}

/* Puts some unused dentries out when there are too many. tree_lock held for writing. */
static void dentry_shrink(struct vfs *vfs, struct dentry **dead)
{
	for (int i = 0; i < SHRINK_SCAN && vfs->hashed > DENTRY_CACHE_MAX; i++) {
		struct dentry *d = list_first(&vfs->lru, struct dentry, lru);

		if (ref_read(&d->ref) != 1 || d->mounted || d->used) {
			d->used = 0;
			list_del(&d->lru);
			list_add_tail(&d->lru, &vfs->lru);
			continue;
		}
		dentry_unhash(vfs, d, dead);
	}
}

void dentry_put(struct dentry *d)
{
	if (!d)
		return;
	/* Without caching the last outside reference also takes it from the hash. Two that race
	 * here may both see three; then the dentry stays until the shrinker comes. */
	if ((d->sb->flags & SB_NODCACHE) && ref_read(&d->ref) == 2) {
		struct vfs *vfs = d->sb->vfs;
		struct dentry *dead = NULL;

		rwlock_write(&vfs->tree_lock);
		if (ref_read(&d->ref) == 2 && (d->flags & DENTRY_HASHED) && !d->mounted)
			dentry_unhash(vfs, d, &dead);
		rwlock_release(&vfs->tree_lock);
		dentry_reap(dead);
	}
	if (ref_put(&d->ref))
		dentry_free(d);
}

struct dentry *dentry_find(struct vfs *vfs, struct dentry *parent, const char *name, size_t len)
{
	uint64_t hash = dentry_hash_name(parent, name, len);
	struct dentry *d = vfs->hash[hash & vfs->hash_mask];

	for (; d; d = d->hash_next)
		if (d->hash == hash && d->parent == parent && d->name_len == len &&
		    memcmp(d->name, name, len) == 0) {
			if (!__atomic_load_n(&d->used, __ATOMIC_RELAXED))
				__atomic_store_n(&d->used, 1, __ATOMIC_RELAXED);
			return d;
		}
	return NULL;
}

static struct dentry *dentry_find_get(struct vfs *vfs, struct dentry *parent, const char *name,
				      size_t len)
{
	struct dentry *d;

	rwlock_read(&vfs->tree_lock);
	d = dentry_find(vfs, parent, name, len);
	if (d)
		dentry_get(d);
	rwlock_release(&vfs->tree_lock);
	return d;
}

struct dentry *dentry_lookup_locked(struct dentry *parent, const char *name, size_t len)
{
	struct superblock *sb = parent->sb;
	struct vfs *vfs = sb->vfs;
	struct inode *dir = parent->inode, *ino;
	struct dentry *d, *dead = NULL;

	lock_assert_held(&dir->lock);
	if (len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	d = dentry_find_get(vfs, parent, name, len);
	if (d)
		return d;
	/* No children of removed directories, which they would pin. */
	if (dir->nlink == 0)
		return ERR_PTR(-ENOENT);
	if (!dir->ops->lookup)
		return ERR_PTR(-ENOTDIR);
	ino = dir->ops->lookup(dir, name, len);
	if (IS_ERR(ino)) {
		if (PTR_ERR(ino) != -ENOENT)
			return (void *)ino;
		ino = NULL;
	}
	d = dentry_alloc(sb, parent, name, len);
	if (!d) {
		inode_put(ino);
		return ERR_PTR(-ENOMEM);
	}
	d->inode = ino;
	if (!ino && (sb->flags & SB_NOCACHE_NEGATIVE))
		return d;
	rwlock_write(&vfs->tree_lock);
	dentry_hash(vfs, d);
	dentry_shrink(vfs, &dead);
	rwlock_release(&vfs->tree_lock);
	dentry_reap(dead);
	return d;
}

void dentry_revalidate_child(struct dentry *parent, const char *name, size_t len)
{
	struct superblock *sb = parent->sb;
	struct dentry *d;

	if (!sb->ops || !sb->ops->revalidate || len > NAME_MAX)
		return;
	d = dentry_find_get(sb->vfs, parent, name, len);
	if (!d)
		return;
	if (sb->ops->revalidate(d) == 0)
		dentry_invalidate(d);
	dentry_put(d);
}

struct dentry *dentry_lookup(struct dentry *parent, const char *name, size_t len)
{
	struct inode *dir = parent->inode;
	struct dentry *d;

	if (!dir || !S_ISDIR(dir->mode))
		return ERR_PTR(-ENOTDIR);
	dentry_revalidate_child(parent, name, len);
	lock_acquire(&dir->lock);
	d = dentry_lookup_locked(parent, name, len);
	lock_release(&dir->lock);
	return d;
}

struct dentry *vfs_lookup_one(struct dentry *parent, const char *name, size_t len)
{
	struct dentry *d = dentry_lookup(parent, name, len);

	if (!IS_ERR(d) && !d->inode) {
		dentry_put(d);
		return ERR_PTR(-ENOENT);
	}
	return d;
}

void dentry_instantiate(struct dentry *d, struct inode *ino)
{
	struct vfs *vfs = d->sb->vfs;
	struct dentry *dead = NULL;

	rwlock_write(&vfs->tree_lock);
	ASSERT(!d->inode);
	d->inode = ino;
	if (!(d->flags & DENTRY_HASHED)) {
		/* The negative one may have been shrunk away and looked up anew meanwhile. */
		struct dentry *twin = dentry_find(vfs, d->parent, d->name, d->name_len);

		if (twin)
			dentry_unhash(vfs, twin, &dead);
		dentry_hash(vfs, d);
	}
	dentry_shrink(vfs, &dead);
	rwlock_release(&vfs->tree_lock);
	dentry_reap(dead);
}

void dentry_unlinked(struct vfs *vfs, struct dentry *d)
{
	struct dentry *dead = NULL;

	/* Cached negative children of a removed directory would keep it alive. */
	if (d->inode && S_ISDIR(d->inode->mode))
		dentry_invalidate(d);
	rwlock_write(&vfs->tree_lock);
	if (d->flags & DENTRY_HASHED)
		dentry_unhash(vfs, d, &dead);
	d->flags |= DENTRY_UNLINKED;
	rwlock_release(&vfs->tree_lock);
	dentry_reap(dead);
}

int dentry_name_alloc(size_t len, char **out)
{
	*out = NULL;
	if (len < DENTRY_NAME_INLINE)
		return 0;
	*out = malloc(len + 1);
	return *out ? 0 : -ENOMEM;
}

/* Gives d a name; mem is big enough or NULL. Returns an allocation that is no longer used. */
static char *dentry_set_name(struct dentry *d, const char *name, size_t len, char *mem)
{
	char *old = d->name != d->inline_name ? d->name : NULL;

	if (len < DENTRY_NAME_INLINE) {
		memmove(d->inline_name, name, len);
		d->inline_name[len] = 0;
		d->name = d->inline_name;
		free(mem);
	} else {
		memcpy(mem, name, len);
		mem[len] = 0;
		d->name = mem;
	}
	d->name_len = (uint32_t)len;
	return old;
}

void dentry_move(struct vfs *vfs, struct dentry *source, struct dentry *target, int exchange,
		 char *new_name, char *old_name)
{
	struct dentry *dead = NULL, *old_parent = source->parent, *put = NULL;
	char saved[NAME_MAX + 1], *f1, *f2 = NULL;
	uint32_t saved_len = source->name_len;

	memcpy(saved, source->name, saved_len + 1);
	rwlock_write(&vfs->tree_lock);
	vfs->rename_seq++;
	if (source->flags & DENTRY_HASHED) {
		hash_remove(vfs, source);
		list_del(&source->child);
	} else {
		source->flags |= DENTRY_HASHED;
		vfs->hashed++;
		dentry_get(source);
		list_add_tail(&source->lru, &vfs->lru);
	}
	if (exchange) {
		if (target->flags & DENTRY_HASHED) {
			hash_remove(vfs, target);
			list_del(&target->child);
		} else {
			target->flags |= DENTRY_HASHED;
			vfs->hashed++;
			dentry_get(target);
			list_add_tail(&target->lru, &vfs->lru);
		}
	} else if (target->flags & DENTRY_HASHED) {
		dentry_unhash(vfs, target, &dead);
	}
	/* The references on the parents trade places as the children do. */
	source->parent = target->parent;
	f1 = dentry_set_name(source, target->name, target->name_len, new_name);
	if (exchange) {
		target->parent = old_parent;
		f2 = dentry_set_name(target, saved, saved_len, old_name);
		hash_insert(vfs, target);
		list_add_tail(&target->child, &target->parent->children);
	} else {
		dentry_get(source->parent);
		put = old_parent;
		if (target->inode)
			target->flags |= DENTRY_UNLINKED;
	}
	hash_insert(vfs, source);
	list_add_tail(&source->child, &source->parent->children);
	rwlock_release(&vfs->tree_lock);
	free(f1);
	free(f2);
	dentry_reap(dead);
	dentry_put(put);
}

/*
 * Unhashes what is cached below top, children first, without recursion. Mountpoints stay. Busy
 * directories stay too unless `all` says so: a second dentry for the same directory would have a
 * cache of its own, which changes made through the first never reach.
 */
static void dentry_drop_children(struct vfs *vfs, struct dentry *top, int all, struct dentry **dead)
{
	struct dentry *cur = top;

	for (;;) {
		while (!list_empty(&cur->children))
			cur = list_first(&cur->children, struct dentry, child);
		for (;;) {
			struct dentry *parent = cur->parent;
			struct list_head *next = cur->child.next;

			if (cur == top)
				return;
			if (!cur->mounted && list_empty(&cur->children) &&
			    (all || ref_read(&cur->ref) == 1 || !cur->inode ||
			     !S_ISDIR(cur->inode->mode)))
				dentry_unhash(vfs, cur, dead);
			if (next != &parent->children) {
				cur = list_entry(next, struct dentry, child);
				break;
			}
			cur = parent;
		}
	}
}

static void dentry_drop_tree(struct dentry *d, int all)
{
	struct vfs *vfs = d->sb->vfs;
	struct dentry *dead = NULL;

	rwlock_write(&vfs->tree_lock);
	dentry_drop_children(vfs, d, all, &dead);
	if ((d->flags & DENTRY_HASHED) && !d->mounted && list_empty(&d->children))
		dentry_unhash(vfs, d, &dead);
	rwlock_release(&vfs->tree_lock);
	dentry_reap(dead);
}

void dentry_invalidate(struct dentry *d)
{
	dentry_drop_tree(d, 0);
}

void dentry_drop_superblock(struct superblock *sb)
{
	if (sb->root) {
		dentry_drop_tree(sb->root, 1);
		dentry_put(sb->root);
		sb->root = NULL;
	}
}

int dentry_is_ancestor(const struct dentry *a, const struct dentry *d)
{
	for (; d != a; d = d->parent)
		if (d->parent == d)
			return 0;
	return 1;
}

/* ------------------------------------------------------------------ names of paths */

/* Puts text in front of *p; 0 when there is no room. */
static int prepend(char **p, const char *start, const char *text, size_t len)
{
	if ((size_t)(*p - start) < len)
		return 0;
	*p -= len;
	memcpy(*p, text, len);
	return 1;
}

char *path_name(struct vfs *vfs, struct path p, struct path root, char *buf, size_t size)
{
	char *at = buf + size;
	int ok, reachable = 1, unlinked;
	char *end;

	if (size < 2)
		return ERR_PTR(-ENAMETOOLONG);
	rwlock_read(&vfs->tree_lock);
	if (p.mnt == vfs->anon_mnt) {
		/* "pipe:[7]": a label rather than a path. */
		ok = prepend(&at, buf, p.dentry->name, p.dentry->name_len + 1u);
		rwlock_release(&vfs->tree_lock);
		return ok ? at : ERR_PTR(-ENAMETOOLONG);
	}
	unlinked = (p.dentry->flags & DENTRY_UNLINKED) != 0;
	ok = prepend(&at, buf, "", 1);
	if (unlinked)
		ok = ok && prepend(&at, buf, " (deleted)", 10);
	end = at;
	while (ok && (p.mnt != root.mnt || p.dentry != root.dentry)) {
		if (p.dentry == p.mnt->root || p.dentry->parent == p.dentry) {
			if (p.dentry == p.mnt->root && p.mnt->parent) {
				p.dentry = p.mnt->mountpoint;
				p.mnt = p.mnt->parent;
				continue;
			}
			/* The top of a tree that is not root's: a namespace's own root still
			 * reads as an absolute name when the caller has no root (NULL). */
			reachable = !root.mnt || p.mnt == vfs->shmem_mnt;
			break;
		}
		ok = prepend(&at, buf, p.dentry->name, p.dentry->name_len) &&
		     prepend(&at, buf, "/", 1);
		p.dentry = p.dentry->parent;
	}
	if (ok && at == end)
		ok = prepend(&at, buf, "/", 1);
	if (ok && !reachable)
		ok = prepend(&at, buf, "(unreachable)", 13);
	rwlock_release(&vfs->tree_lock);
	return ok ? at : ERR_PTR(-ENAMETOOLONG);
}

int path_is_unlinked(struct path p)
{
	return (__atomic_load_n(&p.dentry->flags, __ATOMIC_RELAXED) & DENTRY_UNLINKED) != 0;
}
