/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks on inodes and the events raised on them; inotify.c turns them into something to read.
 * Events are delivered under notify_lock, so that a mark that is deleted hears nothing more.
 */
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

void notify_add(struct vfs *vfs, struct notify_watch *w, struct inode *ino)
{
	w->inode = inode_get(ino);
	lock_acquire(&vfs->notify_lock);
	list_add_tail(&w->node, &ino->watches);
	__atomic_fetch_add(&vfs->watch_count, 1, __ATOMIC_RELAXED);
	lock_release(&vfs->notify_lock);
}

void notify_del(struct vfs *vfs, struct notify_watch *w)
{
	struct inode *ino;

	lock_acquire(&vfs->notify_lock);
	ino = w->inode;
	if (ino) {
		list_del(&w->node);
		w->inode = NULL;
		__atomic_fetch_sub(&vfs->watch_count, 1, __ATOMIC_RELAXED);
	}
	lock_release(&vfs->notify_lock);
	inode_put(ino);
}

void notify_inode(struct vfs *vfs, struct inode *ino, uint32_t mask, uint32_t cookie,
		  const char *name)
{
	struct notify_watch *w, *tmp;

	if (list_empty(&ino->watches))
		return;
	lock_acquire(&vfs->notify_lock);
	list_for_each_safe(w, tmp, &ino->watches, node)
		if (w->mask & mask & (IN_ALL_EVENTS | NOTIFY_RENAME))
			w->event(w, mask, cookie, name);
	lock_release(&vfs->notify_lock);
}

void notify_dentry(struct dentry *d, uint32_t mask)
{
	struct vfs *vfs = d->sb->vfs;
	struct inode *ino = d->inode, *dir = NULL;
	char name[NAME_MAX + 1];

	if (!notify_active(vfs) || !ino)
		return;
	if (S_ISDIR(ino->mode))
		mask |= IN_ISDIR;
	rwlock_read(&vfs->tree_lock);
	if (d->parent != d && !(d->flags & DENTRY_UNLINKED) && d->parent->inode &&
	    !list_empty(&d->parent->inode->watches)) {
		dir = inode_get(d->parent->inode);
		memcpy(name, d->name, d->name_len + 1u);
	}
	rwlock_release(&vfs->tree_lock);
	if (dir) {
		notify_inode(vfs, dir, mask, 0, name);
		inode_put(dir);
	}
	notify_inode(vfs, ino, mask, 0, NULL);
}

void notify_inode_gone(struct vfs *vfs, struct inode *ino, uint32_t why)
{
	uint32_t isdir = S_ISDIR(ino->mode) ? IN_ISDIR : 0, dropped = 0;

	lock_acquire(&vfs->notify_lock);
	while (!list_empty(&ino->watches)) {
		struct notify_watch *w = list_first(&ino->watches, struct notify_watch, node);

		/* Whether it is wanted or not, an unmount is told. */
		if (why == IN_UNMOUNT || (w->mask & why))
			w->event(w, why == IN_UNMOUNT ? why : why | isdir, 0, NULL);
		list_del(&w->node);
		w->inode = NULL;
		dropped++;
		w->event(w, IN_IGNORED, 0, NULL);
		if (w->gone)
			w->gone(w);
	}
	__atomic_fetch_sub(&vfs->watch_count, dropped, __ATOMIC_RELAXED);
	lock_release(&vfs->notify_lock);
	/* The caller holds a reference of its own, so these are not the last. */
	while (dropped--)
		inode_put(ino);
}
