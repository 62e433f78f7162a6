/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts and mount namespaces: life, the tree, copies of it. Rules of mount(2) are in
 * mount_ops.c, shared subtrees in propagation.c.
 *
 * An attached mount is kept by one reference of the tree; paths, files and working directories
 * add theirs, so "busy" can be read off the count. A mount may outlive its place (MNT_DETACH).
 */
#include <poll.h>
#include <stdlib.h>

#include "platform/base/hash.h"
#include "vfs/mount_priv.h"

static struct mount **bucket(struct vfs *vfs, const struct mount *parent, const struct dentry *at)
{
	uint64_t h = hash_u64((uintptr_t)parent ^ ((uintptr_t)at << 7) ^ ((uintptr_t)at >> 5));

	return &vfs->mount_hash[h % MOUNT_HASH_SIZE];
}

struct mount *mount_at(struct vfs *vfs, const struct mount *parent, const struct dentry *at)
{
	struct mount *m = *bucket(vfs, parent, at);

	while (m && (m->parent != parent || m->mountpoint != at))
		m = m->hash_next;
	return m;
}

struct mount *mount_new(struct superblock *sb, uint32_t mnt_flags)
{
	struct mount *m = calloc(1, sizeof(*m));

	if (!m) {
		sb_put(sb);
		return NULL;
	}
	ref_init(&m->ref);
	m->sb = sb;
	m->root = dentry_get(sb->root);
	m->flags = mnt_flags;
	m->id = __atomic_fetch_add(&sb->vfs->next_mnt_id, 1, __ATOMIC_RELAXED);
	list_init(&m->ns_node);
	list_init(&m->children);
	list_init(&m->child);
	list_init(&m->peer);
	list_init(&m->slaves);
	list_init(&m->slave);
	list_init(&m->scratch);
	return m;
}

struct mount *mount_clone(struct mount *m, struct dentry *root)
{
	struct mount *c = mount_new(sb_get(m->sb), m->flags & ~MNT_F_DETACHED);

	if (!c)
		return NULL;
	if (root != c->root) {
		/* The superblock's root keeps more references than the one dropped here. */
		dentry_put(c->root);
		c->root = dentry_get(root);
	}
	return c;
}

struct mount *mount_get(struct mount *m)
{
	ref_get(&m->ref);
	return m;
}

void mount_put(struct mount *m)
{
	struct vfs *vfs;

	if (!m || !ref_put(&m->ref))
		return;
	vfs = m->sb->vfs;
	if (m->propagation != MNT_PRIVATE || m->master) {
		rwlock_write(&vfs->tree_lock);
		propagation_set(vfs, m, MNT_PRIVATE);
		rwlock_release(&vfs->tree_lock);
	}
	ASSERT(!m->parent && list_empty(&m->children));
	dentry_put(m->root);
	sb_put(m->sb);
	free(m);
}

int mount_writable(const struct mount *m)
{
	return (m->flags & MNT_F_RDONLY) || (m->sb->flags & SB_RDONLY) ? -EROFS : 0;
}

void mnt_link(struct vfs *vfs, struct mount *parent, struct dentry *at, struct mount *m)
{
	struct mount **b = bucket(vfs, parent, at);

	m->parent = parent;
	m->mountpoint = dentry_get(at);
	m->hash_next = *b;
	*b = m;
	at->mounted++;
	list_add_tail(&m->child, &parent->children);
	vfs->rename_seq++;
}

struct dentry *mnt_take_off(struct vfs *vfs, struct mount *m)
{
	struct mount **b = bucket(vfs, m->parent, m->mountpoint);
	struct dentry *at = m->mountpoint;

	while (*b != m)
		b = &(*b)->hash_next;
	*b = m->hash_next;
	m->hash_next = NULL;
	at->mounted--;
	list_del(&m->child);
	m->parent = NULL;
	vfs->rename_seq++;
	return at;
}

static void leave_ns(struct mount *m)
{
	if (!m->ns)
		return;
	list_del(&m->ns_node);
	m->ns->count--;
	m->ns = NULL;
}

void mnt_unlink(struct vfs *vfs, struct mount *m, struct list_head *dead)
{
	if (m->parent)
		mnt_take_off(vfs, m); /* mountpoint keeps the reference until mnt_free_dead */
	leave_ns(m);
	list_del(&m->scratch);
	list_add_tail(&m->scratch, dead);
}

void mnt_free_dead(struct list_head *dead)
{
	while (!list_empty(dead)) {
		struct mount *m = list_first(dead, struct mount, scratch);
		struct dentry *at = m->mountpoint;

		list_del(&m->scratch);
		m->mountpoint = NULL;
		dentry_put(at);
		mount_put(m);
	}
}

struct mount *mnt_next(struct mount *m, struct mount *top)
{
	if (!list_empty(&m->children))
		return list_first(&m->children, struct mount, child);
	while (m != top) {
		if (m->child.next != &m->parent->children)
			return list_entry(m->child.next, struct mount, child);
		m = m->parent;
	}
	return NULL;
}

void mnt_drop_tree(struct vfs *vfs, struct mount *top, struct list_head *dead)
{
	struct mount *m = top;

	/* Leaves first, so that each mount is childless when it goes. */
	for (;;) {
		struct mount *up;

		while (!list_empty(&m->children))
			m = list_first(&m->children, struct mount, child);
		up = m == top ? NULL : m->parent;
		propagation_set(vfs, m, MNT_PRIVATE);
		mnt_unlink(vfs, m, dead);
		if (!up)
			return;
		m = up;
	}
}

static struct mount *clone_as(struct vfs *vfs, struct mount *m, struct dentry *root, int how)
{
	struct mount *c = mount_clone(m, root);

	if (!c)
		return NULL;
	switch (how & 0xff) {
	case CLONE_SHARED:
		if (!mnt_is_shared(m))
			propagation_set(vfs, m, MNT_SHARED);
		propagation_join(c, m);
		break;
	case CLONE_SLAVE:
		propagation_enslave(c, m);
		break;
	case CLONE_KEEP:
		if (mnt_is_shared(m))
			propagation_join(c, m);
		else if (m->master)
			propagation_enslave(c, m->master);
		if (m->propagation == MNT_UNBINDABLE && (how & COPY_UNBINDABLE))
			c->propagation = MNT_UNBINDABLE;
		break;
	default:
		break;
	}
	m->copy = c;
	return c;
}

struct mount *mnt_copy_tree(struct mount *m, struct dentry *root, int how)
{
	struct vfs *vfs = m->sb->vfs;
	struct mount *top, *from, *next;

	if (m->propagation == MNT_UNBINDABLE && !(how & COPY_UNBINDABLE))
		return ERR_PTR(-EINVAL);
	for (from = m; from; from = mnt_next(from, m))
		from->copy = NULL;
	top = clone_as(vfs, m, root, how);
	if (!top)
		return ERR_PTR(-ENOMEM);
	if (how & COPY_TOP_ONLY)
		return top;
	for (from = mnt_next(m, m); from; from = next) {
		struct mount *c;

		next = mnt_next(from, m);
		/* Only what lies below root, and below copied mounts. */
		if (!from->parent->copy ||
		    (from->parent == m && root != m->root &&
		     !dentry_is_ancestor(root, from->mountpoint)) ||
		    (from->propagation == MNT_UNBINDABLE && !(how & COPY_UNBINDABLE)))
			continue;
		c = clone_as(vfs, from, from->root, how);
		if (!c) {
			struct list_head dead;

			list_init(&dead);
			mnt_drop_tree(vfs, top, &dead);
			/* They can not be freed under the lock: the caller does. */
			list_splice_tail(&dead, &vfs->late_dead);
			return ERR_PTR(-ENOMEM);
		}
		mnt_link(vfs, from->parent->copy, from->mountpoint, c);
	}
	return top;
}

void mnt_set_ns(struct mount *top, struct mnt_ns *ns)
{
	for (struct mount *m = top; m; m = mnt_next(m, top)) {
		if (m->ns == ns)
			continue;
		leave_ns(m);
		m->ns = ns;
		if (ns) {
			list_add_tail(&m->ns_node, &ns->mounts);
			ns->count++;
		}
	}
}

void mnt_changed(struct vfs *vfs, struct mnt_ns *ns)
{
	if (!ns)
		return;
	__atomic_fetch_add(&ns->generation, 1, __ATOMIC_RELAXED);
	waitq_wake(&ns->waitq, POLLPRI | POLLERR);
}

int mnt_descend(struct vfs *vfs, struct path *p)
{
	struct mount *m;
	int moved = 0;

	while (p->dentry->mounted && (m = mount_at(vfs, p->mnt, p->dentry))) {
		p->mnt = m;
		p->dentry = m->root;
		moved = 1;
	}
	return moved;
}

int mount_is_local_mountpoint(struct vfs *vfs, const struct mnt_ns *ns, const struct dentry *d)
{
	if (!d->mounted)
		return 0;
	for (size_t i = 0; i < MOUNT_HASH_SIZE; i++)
		for (struct mount *m = vfs->mount_hash[i]; m; m = m->hash_next)
			if (m->mountpoint == d && m->ns == ns)
				return 1;
	return 0;
}

static struct mount *any_mount_at(struct vfs *vfs, const struct dentry *d)
{
	for (size_t i = 0; i < MOUNT_HASH_SIZE; i++)
		for (struct mount *m = vfs->mount_hash[i]; m; m = m->hash_next)
			if (m->mountpoint == d)
				return m;
	return NULL;
}

void mount_detach_all_at(struct vfs *vfs, struct dentry *d)
{
	struct list_head dead;
	struct mount *m;

	list_init(&dead);
	rwlock_write(&vfs->tree_lock);
	while (d->mounted && (m = any_mount_at(vfs, d))) {
		struct mnt_ns *ns = m->ns;

		mnt_drop_tree(vfs, m, &dead);
		mnt_changed(vfs, ns);
	}
	rwlock_release(&vfs->tree_lock);
	mnt_free_dead(&dead);
}

/* ------------------------------------------------------------------ namespaces */

static struct mnt_ns *ns_alloc(struct vfs *vfs)
{
	struct mnt_ns *ns = calloc(1, sizeof(*ns));

	if (!ns)
		return NULL;
	ref_init(&ns->ref);
	ns->vfs = vfs;
	list_init(&ns->mounts);
	list_init(&ns->node);
	waitq_init(&ns->waitq);
	return ns;
}

static void ns_publish(struct vfs *vfs, struct mnt_ns *ns, struct mount *root)
{
	ns->root = root;
	mnt_set_ns(root, ns);
	list_add_tail(&ns->node, &vfs->namespaces);
}

struct mnt_ns *mnt_ns_new(struct vfs *vfs, struct mount *root)
{
	struct mnt_ns *ns = ns_alloc(vfs);

	if (!ns) {
		mount_put(root);
		return NULL;
	}
	rwlock_write(&vfs->tree_lock);
	ns_publish(vfs, ns, root);
	rwlock_release(&vfs->tree_lock);
	return ns;
}

struct mnt_ns *mnt_ns_get(struct mnt_ns *ns)
{
	ref_get(&ns->ref);
	return ns;
}

void mnt_ns_put(struct mnt_ns *ns)
{
	struct list_head dead;

	if (!ns || !ref_put(&ns->ref))
		return;
	list_init(&dead);
	rwlock_write(&ns->vfs->tree_lock);
	list_del(&ns->node);
	mnt_drop_tree(ns->vfs, ns->root, &dead);
	rwlock_release(&ns->vfs->tree_lock);
	mnt_free_dead(&dead);
	waitq_destroy(&ns->waitq);
	free(ns);
}

struct mnt_ns *mnt_ns_dup(struct mnt_ns *old, struct path *root, struct path *cwd)
{
	struct vfs *vfs = old->vfs;
	struct mnt_ns *ns = ns_alloc(vfs);
	struct path old_root = {NULL, NULL}, old_cwd = {NULL, NULL};
	struct list_head dead;
	struct mount *top;

	if (!ns)
		return ERR_PTR(-ENOMEM);
	list_init(&dead);
	rwlock_write(&vfs->tree_lock);
	top = mnt_copy_tree(old->root, old->root->root, CLONE_KEEP | COPY_UNBINDABLE);
	if (!IS_ERR(top)) {
		ns_publish(vfs, ns, top);
		if (root && root->mnt->ns == old) {
			old_root = *root;
			*root = path_get((struct path){root->mnt->copy, root->dentry});
		}
		if (cwd && cwd->mnt->ns == old) {
			old_cwd = *cwd;
			*cwd = path_get((struct path){cwd->mnt->copy, cwd->dentry});
		}
	}
	list_splice_tail(&vfs->late_dead, &dead);
	rwlock_release(&vfs->tree_lock);
	mnt_free_dead(&dead);
	if (old_root.mnt)
		path_put(old_root);
	if (old_cwd.mnt)
		path_put(old_cwd);
	if (IS_ERR(top)) {
		waitq_destroy(&ns->waitq);
		free(ns);
		return (void *)top;
	}
	return ns;
}

struct mount *mnt_ns_root(struct mnt_ns *ns)
{
	struct mount *m;

	rwlock_read(&ns->vfs->tree_lock);
	m = mount_get(ns->root);
	rwlock_release(&ns->vfs->tree_lock);
	return m;
}

struct waitq *mnt_ns_waitq(struct mnt_ns *ns)
{
	return &ns->waitq;
}

uint64_t mnt_ns_generation(struct mnt_ns *ns)
{
	return __atomic_load_n(&ns->generation, __ATOMIC_RELAXED);
}

int mount_attach(struct vfs *vfs, struct mount *m, struct path at)
{
	struct list_head dead;
	int r;

	list_init(&dead);
	rwlock_write(&vfs->tree_lock);
	mnt_descend(vfs, &at);
	r = propagation_attach(vfs, m, at, &dead);
	list_splice_tail(&vfs->late_dead, &dead);
	rwlock_release(&vfs->tree_lock);
	mnt_free_dead(&dead);
	return r;
}
