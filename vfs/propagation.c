/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared subtrees. Mounts of one peer group form a ring; a slave hangs in its master's list and
 * receives from the master's whole group. A mount may be both: shared, and slave of another
 * group.
 *
 * Theory of operation of an attach at (D, dentry): the group of D is the first entry of a work
 * list, with the new tree as its source. For each group in the list its other members get peers
 * of the source, and its slaves get slaves of the source; a slave that is itself shared makes a
 * new entry, with its copy as source. Everything is copied before anything is attached. Depth is
 * the guest's choice, so there is no recursion.
 */
#include <stdlib.h>

#include "vfs/mount_priv.h"

#define ring_next(m) list_entry((m)->peer.next, struct mount, peer)

void propagation_join(struct mount *m, struct mount *peer)
{
	list_add(&m->peer, &peer->peer);
	m->propagation = MNT_SHARED;
	m->peer_group = peer->peer_group;
	if (peer->master) {
		m->master = peer->master;
		list_add_tail(&m->slave, &peer->master->slaves);
	}
}

void propagation_enslave(struct mount *m, struct mount *master)
{
	m->propagation = MNT_SLAVE;
	m->master = master;
	list_add_tail(&m->slave, &master->slaves);
}

/* m leaves its group; its slaves go to `heir`, or are left alone when there is none. */
static void leave_group(struct mount *m, struct mount *heir)
{
	while (!list_empty(&m->slaves)) {
		struct mount *s = list_first(&m->slaves, struct mount, slave);

		list_del(&s->slave);
		s->master = heir;
		if (heir)
			list_add_tail(&s->slave, &heir->slaves);
		else if (s->propagation == MNT_SLAVE)
			s->propagation = MNT_PRIVATE;
	}
	list_del(&m->peer);
	m->peer_group = 0;
}

static void leave_master(struct mount *m)
{
	if (m->master)
		list_del(&m->slave);
	m->master = NULL;
}

void propagation_set(struct vfs *vfs, struct mount *m, enum mount_propagation to)
{
	struct mount *heir;

	if (to == MNT_SHARED) {
		if (!mnt_is_shared(m)) {
			m->propagation = MNT_SHARED;
			m->peer_group = vfs->next_peer_group++;
		}
		return;
	}
	if (mnt_is_shared(m)) {
		heir = ring_next(m) != m ? ring_next(m) : m->master;
		leave_group(m, heir);
		if (heir != m->master) {
			leave_master(m);
			if (heir) {
				m->master = heir;
				list_add_tail(&m->slave, &heir->slaves);
			}
		}
		m->propagation = m->master ? MNT_SLAVE : MNT_PRIVATE;
	}
	if (to == MNT_SLAVE)
		return;
	leave_master(m);
	m->propagation = to;
}

/* ------------------------------------------------------------------ whom a mount reaches */

struct reach {
	struct mount **list;
	size_t count, cap;
};

static int reach_add(struct reach *r, struct mount *m)
{
	if (r->count == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		struct mount **list = realloc(r->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		r->list = list;
		r->cap = cap;
	}
	r->list[r->count++] = m;
	return 0;
}

/* One group of the work list: `member` already has its copy, `source`. */
struct group {
	struct mount *member, *source;
};

struct attach {
	struct vfs *vfs;
	struct dentry *at;
	struct group *groups;
	size_t count, cap;
	struct list_head clones; /* through scratch; clone->dest is the mount it goes on */
};

static int group_push(struct attach *a, struct mount *member, struct mount *source)
{
	if (a->count == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 8;
		struct group *g = realloc(a->groups, cap * sizeof(*g));

		if (!g)
			return -ENOMEM;
		a->groups = g;
		a->cap = cap;
	}
	a->groups[a->count++] = (struct group){member, source};
	return 0;
}

/* A copy of source for target; *out NULL when the place is not visible there. */
static int copy_for(struct attach *a, struct mount *source, struct mount *target, int how,
		    struct mount **out)
{
	struct mount *c;

	*out = NULL;
	if (target->root->sb != a->at->sb || !dentry_is_ancestor(target->root, a->at))
		return 0;
	c = mnt_copy_tree(source, source->root, how | COPY_UNBINDABLE);
	if (IS_ERR(c))
		return (int)PTR_ERR(c);
	/* c may become a source itself, which overwrites ->copy; c->dest names the target. */
	c->dest = target;
	list_add_tail(&c->scratch, &a->clones);
	*out = c;
	return 0;
}

static int handled(struct attach *a, struct mount *m)
{
	for (size_t i = 0; i < a->count; i++) {
		struct mount *g = a->groups[i].member, *p = g;

		do {
			if (p == m)
				return 1;
			p = ring_next(p);
		} while (p != g);
	}
	return 0;
}

static int attach_group(struct attach *a, size_t index)
{
	struct mount *member = a->groups[index].member, *source = a->groups[index].source, *p, *s, *c;
	int r;

	for (p = ring_next(member); p != member; p = ring_next(p)) {
		r = copy_for(a, source, p, CLONE_SHARED, &c);
		if (r)
			return r;
	}
	p = member;
	do {
		list_for_each(s, &p->slaves, slave) {
			if (mnt_is_shared(s) && handled(a, s))
				continue;
			r = copy_for(a, source, s, CLONE_SLAVE, &c);
			if (r)
				return r;
			if (!mnt_is_shared(s))
				continue;
			/* Its peers and slaves follow; where it is not visible they still may. */
			if (c)
				for (struct mount *m = c; m; m = mnt_next(m, c))
					propagation_set(a->vfs, m, MNT_SHARED);
			r = group_push(a, s, c ? c : source);
			if (r)
				return r;
		}
		p = ring_next(p);
	} while (p != member);
	return 0;
}

static uint32_t tree_size(struct mount *top)
{
	uint32_t n = 0;

	for (struct mount *m = top; m; m = mnt_next(m, top))
		n++;
	return n;
}

int propagation_attach(struct vfs *vfs, struct mount *m, struct path at, struct list_head *dead)
{
	struct attach a = {.vfs = vfs, .at = at.dentry};
	struct mnt_ns *ns = at.mnt->ns;
	struct mount *c;
	int r = 0;

	list_init(&a.clones);
	if (ns && ns->count + tree_size(m) > MOUNT_MAX)
		return -ENOSPC;
	if (mnt_is_shared(at.mnt)) {
		for (c = m; c; c = mnt_next(c, m))
			propagation_set(vfs, c, MNT_SHARED);
		r = group_push(&a, at.mnt, m);
		for (size_t i = 0; !r && i < a.count; i++)
			r = attach_group(&a, i);
	}
	free(a.groups);
	if (r) {
		while (!list_empty(&a.clones)) {
			c = list_first(&a.clones, struct mount, scratch);
			mnt_drop_tree(vfs, c, dead);
		}
		return r;
	}
	mnt_link(vfs, at.mnt, at.dentry, m);
	mnt_set_ns(m, ns);
	mnt_changed(vfs, ns);
	while (!list_empty(&a.clones)) {
		struct path to;

		c = list_first(&a.clones, struct mount, scratch);
		list_del(&c->scratch);
		to = (struct path){c->dest, at.dentry};
		mnt_descend(vfs, &to);
		mnt_link(vfs, to.mnt, to.dentry, c);
		mnt_set_ns(c, to.mnt->ns);
		mnt_changed(vfs, to.mnt->ns);
	}
	return 0;
}

/* Collects all mounts that m propagates to. */
static int reach_all(struct mount *m, struct reach *out)
{
	int r = 0;

	if (!mnt_is_shared(m))
		return 0;
	m->seen = 1;
	r = reach_add(out, m);
	/* list doubles as the queue. */
	for (size_t i = 0; !r && i < out->count; i++) {
		struct mount *cur = out->list[i], *n;

		if (mnt_is_shared(cur)) {
			n = ring_next(cur);
			if (n != cur && !n->seen) {
				n->seen = 1;
				r = reach_add(out, n);
			}
		}
		list_for_each(n, &cur->slaves, slave)
			if (!r && !n->seen) {
				n->seen = 1;
				r = reach_add(out, n);
			}
	}
	for (size_t i = 0; i < out->count; i++)
		out->list[i]->seen = 0;
	return r;
}

/* The copy of m on target, childless, or NULL. */
static struct mount *copy_on(struct vfs *vfs, struct mount *m, struct mount *target)
{
	struct mount *c = mount_at(vfs, target, m->mountpoint);

	return c && c != m && list_empty(&c->children) && c->root == m->root &&
			       !(c->flags & MNT_F_LOCKED)
		       ? c
		       : NULL;
}

void propagation_unmount(struct vfs *vfs, struct mount *m, struct list_head *dead)
{
	struct reach r = {0};
	struct mount *c;

	if (m->parent && reach_all(m->parent, &r) == 0)
		for (size_t i = 0; i < r.count; i++)
			if (r.list[i] != m->parent && (c = copy_on(vfs, m, r.list[i]))) {
				struct mnt_ns *ns = c->ns;

				propagation_set(vfs, c, MNT_PRIVATE);
				mnt_unlink(vfs, c, dead);
				mnt_changed(vfs, ns);
			}
	free(r.list);
}

int propagation_busy(struct vfs *vfs, struct mount *m)
{
	struct reach r = {0};
	struct mount *c;
	int busy = 0;

	if (m->parent && reach_all(m->parent, &r) == 0)
		for (size_t i = 0; i < r.count; i++)
			if (r.list[i] != m->parent && (c = copy_on(vfs, m, r.list[i])) &&
			    ref_read(&c->ref) > 1)
				busy = 1;
	free(r.list);
	return busy;
}
