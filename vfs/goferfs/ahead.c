/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings ahead of need. Who reads a directory and then its subdirectories one by one (find, du,
 * tar, git) would cost two messages for each. LISTDIRS names a directory by its parent, and can
 * name its siblings and what is below them too: when directories are listed by readdir under
 * parents that were so listed, the next ones come along, more each time, and wait in a ring until
 * they are asked for. Only in trees that nobody changes, neither the host nor we.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "vfs/goferfs/goferfs_priv.h"

/* ---- the ring ---- */

static void early_put(struct goferfs *fs, const struct gofer_attr *a, uint32_t nid,
		      struct dircache *dc)
{
	lock_acquire(&fs->lock);
	struct early_listing *e = &fs->early[fs->early_next++ % EARLY_MAX], old = *e;

	*e = (struct early_listing){ a->dev, a->ino, nid, dc };
	lock_release(&fs->lock);
	if (old.dc)
		conn_forget(fs->conn, old.nid, 1);
	dircache_free(fs, old.dc);
}

/* [fs->lock] */
static struct early_listing *early_find(struct goferfs *fs, uint64_t dev, uint64_t hino)
{
	for (uint32_t i = 0; i < EARLY_MAX; i++)
		if (fs->early[i].dc && fs->early[i].hino == hino && fs->early[i].dev == dev)
			return &fs->early[i];
	return NULL;
}

static struct dircache *early_take(struct inode *dir)
{
	struct gnode *gn = gnode_of(dir);
	struct dircache *dc = NULL;
	uint32_t nid = 0;

	lock_acquire(&gn->fs->lock);
	struct early_listing *e = early_find(gn->fs, gn->dev, gn->hino);

	if (e) {
		dc = e->dc;
		nid = e->nid;
		e->dc = NULL;
	}
	lock_release(&gn->fs->lock);
	gnode_take_nid(dir, nid);
	return dc;
}

/* Nobody has it, and it is not on its way already. */
static int is_wanted(struct goferfs *fs, const struct gofer_attr *a)
{
	lock_acquire(&fs->lock);
	struct gnode *gn = gnode_peek(fs, a->dev, a->ino);
	int wanted = !(gn && __atomic_load_n(&gn->listed, __ATOMIC_RELAXED)) &&
		     !early_find(fs, a->dev, a->ino);

	lock_release(&fs->lock);
	return wanted;
}

void ahead_free(struct goferfs *fs)
{
	for (uint32_t i = 0; i < EARLY_MAX; i++)
		dircache_free(fs, fs->early[i].dc);
}

/* ---- asking ---- */

/* How many siblings may come along: more the longer the walk goes on. */
static uint16_t how_many(struct gnode *parent)
{
	struct goferfs *fs = parent->fs;

	if (!__atomic_load_n(&parent->walked, __ATOMIC_RELAXED)) {
		__atomic_store_n(&fs->walk_steps, 0, __ATOMIC_RELAXED);
		return 0;
	}
	uint32_t steps = __atomic_fetch_add(&fs->walk_steps, 1, __ATOMIC_RELAXED);

	if (steps == 0)
		return 0;
	return (uint16_t)(steps < 5 ? 2u << steps : GOFER_LISTDIRS_MAX - 1);
}

/*
 * Names of directories behind `name` in the parent's listing. The caller holds a child's lock, so
 * the parent's is only tried: who holds it may be after the child's.
 */
static uint16_t put_siblings(struct inode *parent, const char *name, uint32_t max,
			     struct wire_out *out)
{
	struct gnode *gn = gnode_of(parent);
	uint16_t count = 0;

	if (!max || !lock_try(&parent->lock))
		return 0;
	struct dirent_slot *s = gn->dc ? dircache_find(gn->dc, name, strlen(name)) : NULL;

	for (uint32_t i = s ? (uint32_t)(s - gn->dc->slot) + 1 : UINT32_MAX;
	     s && i < gn->dc->count && count < max; i++) {
		s = &gn->dc->slot[i];
		if (!s->name || !S_ISDIR(s->attr.mode) || !is_wanted(gn->fs, &s->attr))
			continue;
		wire_put_text(out, s->name, s->len);
		count++;
	}
	lock_release(&parent->lock);
	return count;
}

/* The listing at the cursor: 0 and *dc, the error the gofer had, or -EIO for nonsense. */
static int read_listing(struct goferfs *fs, struct gcall *c, uint32_t *nid, struct gofer_attr *attr,
			struct dircache **dc, uint64_t *next)
{
	int32_t err = (int32_t)wire_u32(&c->rep);

	*dc = NULL;
	if (err) {
		if (c->rep.bad || err > 0 || err < -MAX_ERRNO)
			return gcall_bad_reply(fs->conn, c, "malformed listings");
		return err;
	}
	*nid = wire_u32(&c->rep);
	if (gnode_read_attr(fs, c, attr))
		return -EIO;
	*next = wire_u64(&c->rep);
	uint32_t count = wire_u32(&c->rep);

	if (wire_u32(&c->rep)) /* eof */
		*next = 0;
	else if (!*next || c->rep.bad)
		return gcall_bad_reply(fs->conn, c, "malformed listings");
	*dc = calloc(1, sizeof(**dc));
	err = *dc ? dircache_read(fs, *dc, c, count) : -ENOMEM;
	if (err) {
		dircache_free(fs, *dc);
		*dc = NULL;
	}
	return err;
}

/* The reply to a LISTDIRS whose first name is dir's; what else came goes into the ring. */
static int read_reply(struct inode *dir, struct gcall *c, uint16_t asked, uint16_t below,
		      struct dircache **dc, uint64_t *next)
{
	struct goferfs *fs = goferfs_of(dir);
	uint32_t done = wire_u16(&c->rep), more = wire_u16(&c->rep);
	struct gofer_attr attr;
	uint32_t nid = 0;

	if (c->rep.bad || done == 0 || done > asked || more > below)
		return gcall_bad_reply(fs->conn, c, "malformed listings");
	int err = read_listing(fs, c, &nid, &attr, dc, next);

	if (!err && !gnode_same(dir, &attr)) {
		conn_forget(fs->conn, nid, 1);
		dircache_free(fs, *dc);
		*dc = NULL;
		err = -ESTALE;
	} else if (!err) {
		gnode_take_nid(dir, nid);
	}
	for (uint32_t i = 1; !err && i < done + more; i++) {
		struct dircache *early;
		uint64_t rest;
		int e = read_listing(fs, c, &nid, &attr, &early, &rest);

		/* Out of memory leaves the cursor in the middle: what has been read is enough. */
		if (e == -EIO || e == -ENOMEM)
			return 0;
		if (e)
			continue;
		if (rest) {
			conn_forget(fs->conn, nid, 1);
			dircache_free(fs, early);
		} else {
			early_put(fs, &attr, nid, early);
		}
	}
	return err;
}

/* The parent's number and dir's name, if both are known: 1. Returns a reference on the parent. */
static int find_parent(struct inode *dir, struct inode **parent, uint32_t *nid,
		       char name[GOFER_NAME_MAX + 1])
{
	struct gnode *gn = gnode_of(dir);
	int found = 0;

	lock_acquire(&gn->fs->lock);
	if (gn->parent && gn->name && gnode_of(gn->parent)->nid) {
		*parent = inode_get(gn->parent);
		*nid = gnode_of(gn->parent)->nid;
		strcpy(name, gn->name);
		found = 1;
	}
	lock_release(&gn->fs->lock);
	return found;
}

int ahead_load(struct inode *dir, int walking, struct dircache **dc, uint64_t *next)
{
	struct goferfs *fs = goferfs_of(dir);
	char name[GOFER_NAME_MAX + 1];
	struct inode *parent;
	uint16_t count = 1, many = 0;
	uint32_t nid;
	struct gcall c;

	if (!fs->readonly || !fs->exclusive)
		return -EAGAIN;
	*dc = early_take(dir);
	if (*dc)
		return 0;
	if (!find_parent(dir, &parent, &nid, name))
		return -EAGAIN;
	int err = gcall_begin(&c, GOFER_LISTDIRS, 8 + GOFER_LISTDIRS_MAX * (GOFER_NAME_MAX + 2));

	if (!err) {
		wire_put_u32(&c.req, nid);
		wire_put_u32(&c.req, 0);
		wire_put_text(&c.req, name, strlen(name));
		if (walking) {
			many = how_many(gnode_of(parent));
			count += put_siblings(parent, name, many, &c.req);
		}
		wire_patch_u16(&c.req, 4, count);
		wire_patch_u16(&c.req, 6, many);
		err = gcall_do(fs->conn, &c);
		if (!err)
			err = read_reply(dir, &c, count, many, dc, next);
		gcall_end(&c);
	}
	inode_put(parent);
	return err;
}
