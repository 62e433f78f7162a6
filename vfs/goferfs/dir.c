/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings. In exclusive trees a directory is fetched whole, with attributes, and from then on
 * answers lookups (also of names that are not there) and readdir without a message. In shared
 * trees, and for directories too big to keep, readdir pages through the gofer at the host
 * filesystem's own positions.
 *
 * Positions of a kept listing: 0 ".", 1 "..", then slot + 2. A removed entry leaves its slot
 * empty and a new one goes to the end, so a reader in the middle neither repeats nor misses.
 * Positions of a paged listing: 0, 1, then the host's cookie + 2 (its last possible one as is).
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "vfs/goferfs/goferfs_priv.h"

/* ---- the kept listing; dir->lock protects it ---- */

static uint32_t slot_hash(const struct dircache *dc, const char *name, size_t len)
{
	return (uint32_t)hash_bytes(name, len, 0) & (dc->hash_size - 1);
}

struct dirent_slot *dircache_find(struct dircache *dc, const char *name, size_t len)
{
	if (!dc->hash_size)
		return NULL;
	for (uint32_t i = dc->hash[slot_hash(dc, name, len)]; i; i = dc->slot[i - 1].hash_next) {
		struct dirent_slot *s = &dc->slot[i - 1];

		if (s->name && s->len == len && !memcmp(s->name, name, len))
			return s;
	}
	return NULL;
}

static int dc_rehash(struct dircache *dc, uint32_t size)
{
	uint32_t *hash = calloc(size, sizeof(*hash));

	if (!hash)
		return -ENOMEM;
	free(dc->hash);
	dc->hash = hash;
	dc->hash_size = size;
	for (uint32_t i = 0; i < dc->count; i++) {
		struct dirent_slot *s = &dc->slot[i];

		if (!s->name)
			continue;
		uint32_t *b = &hash[slot_hash(dc, s->name, s->len)];

		s->hash_next = *b;
		*b = i + 1;
	}
	return 0;
}

static int dc_append(struct goferfs *fs, struct dircache *dc, const char *name, size_t len,
		     const struct gofer_attr *attr)
{
	if (dc->count == dc->cap) {
		uint32_t cap = dc->cap ? dc->cap * 2 : 16;
		struct dirent_slot *p = realloc(dc->slot, (size_t)cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		dc->slot = p;
		dc->cap = cap;
	}
	if (dc->count >= dc->hash_size) {
		int err = dc_rehash(dc, dc->hash_size ? dc->hash_size * 2 : 16);

		if (err)
			return err;
	}
	struct dirent_slot *s = &dc->slot[dc->count];

	s->name = strndup(name, len);
	if (!s->name)
		return -ENOMEM;
	s->len = (uint32_t)len;
	s->attr = *attr;
	uint32_t *b = &dc->hash[slot_hash(dc, name, len)];

	s->hash_next = *b;
	*b = ++dc->count;
	dc->live++;
	__atomic_fetch_add(&fs->dc_entries, 1, __ATOMIC_RELAXED);
	return 0;
}

void dircache_free(struct goferfs *fs, struct dircache *dc)
{
	if (!dc)
		return;
	__atomic_fetch_sub(&fs->dc_entries, dc->count, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < dc->count; i++)
		free(dc->slot[i].name);
	free(dc->slot);
	free(dc->hash);
	free(dc);
}

static void dc_drop(struct inode *dir)
{
	struct gnode *gn = gnode_of(dir);

	dircache_free(gn->fs, gn->dc);
	gn->dc = NULL;
}

/* A listing that can not be kept right is forgotten. */
void dircache_add(struct inode *dir, const char *name, size_t len, const struct gofer_attr *attr)
{
	struct gnode *gn = gnode_of(dir);

	lock_assert_held(&dir->lock);
	if (!gn->dc)
		return;
	if (gn->dc->count >= DIR_CACHE_MAX * 2 || dc_append(gn->fs, gn->dc, name, len, attr)) {
		dc_drop(dir);
		gn->too_big = 1;
	}
}

void dircache_remove(struct inode *dir, const char *name, size_t len)
{
	struct dircache *dc = gnode_of(dir)->dc;
	struct dirent_slot *s = dc ? dircache_find(dc, name, len) : NULL;

	lock_assert_held(&dir->lock);
	if (!s)
		return;
	uint32_t me = (uint32_t)(s - dc->slot) + 1;
	uint32_t *at = &dc->hash[slot_hash(dc, name, len)];

	while (*at != me)
		at = &dc->slot[*at - 1].hash_next;
	*at = s->hash_next;
	free(s->name);
	s->name = NULL;
	dc->live--;
}

/* A directory that was just made holds nothing: no need to ask. */
void dircache_new_empty(struct inode *dir)
{
	struct gnode *gn = gnode_of(dir);

	if (gn->fs->exclusive && !gn->dc)
		gn->dc = calloc(1, sizeof(*gn->dc));
}

/* ---- asking ---- */

struct dirpage {
	uint64_t next;
	uint32_t count, eof;
};

static int page_ask(struct goferfs *fs, uint32_t nid, uint64_t cookie, uint32_t flags,
		    struct gcall *c, struct dirpage *p)
{
	int err = gcall_begin(c, GOFER_READDIR, 16);

	if (err)
		return err;
	wire_put_u32(&c->req, nid);
	wire_put_u64(&c->req, cookie);
	wire_put_u32(&c->req, flags);
	err = gcall_do(fs->conn, c);
	if (!err) {
		p->next = wire_u64(&c->rep);
		p->count = wire_u32(&c->rep);
		p->eof = wire_u32(&c->rep);
		if (c->rep.bad || (!p->eof && (p->count == 0 && p->next == cookie)))
			err = gcall_bad_reply(fs->conn, c, "malformed listing");
	}
	if (err)
		gcall_end(c);
	return err;
}

int dircache_read(struct goferfs *fs, struct dircache *dc, struct gcall *c, uint32_t count)
{
	char name[GOFER_NAME_MAX + 1];
	struct gofer_attr attr;

	for (uint32_t i = 0; i < count; i++) {
		wire_u64(&c->rep);
		if (gnode_read_attr(fs, c, &attr))
			return -EIO;
		size_t len = wire_name(&c->rep, name);

		if (!len)
			return gcall_bad_reply(fs->conn, c, "bad name in a listing");
		if (dircache_find(dc, name, len))
			continue; /* the host changed under the reading of it */
		int err = dc_append(fs, dc, name, len, &attr);

		if (err)
			return err;
	}
	return 0;
}

/* Everything from *next on. */
static int load_rest(struct inode *dir, struct dircache *dc, uint64_t next)
{
	struct gnode *gn = gnode_of(dir);
	struct goferfs *fs = gn->fs;
	struct dirpage page = { .next = next };
	int64_t nid = gnode_nid(dir);

	if (nid < 0)
		return (int)nid;
	do {
		struct gcall c;
		int err = page_ask(fs, (uint32_t)nid, page.next, GOFER_READDIR_PLUS, &c, &page);

		if (!err) {
			err = dircache_read(fs, dc, &c, page.count);
			if (!err && !wire_done(&c.rep))
				err = gcall_bad_reply(fs->conn, &c, "malformed listing");
			gcall_end(&c);
		}
		if (!err && dc->count > DIR_CACHE_MAX) {
			gn->too_big = 1;
			err = -E2BIG;
		}
		if (err)
			return err;
	} while (!page.eof);
	return 0;
}

int dircache_load(struct inode *dir, int walking)
{
	struct gnode *gn = gnode_of(dir);
	struct goferfs *fs = gn->fs;
	struct dircache *dc = NULL;
	uint64_t next = 0;

	lock_assert_held(&dir->lock);
	if (gn->dc)
		return 0;
	if (gn->too_big || __atomic_load_n(&fs->dc_entries, __ATOMIC_RELAXED) >= DIR_CACHE_TOTAL)
		return -E2BIG;
	int err = ahead_load(dir, walking, &dc, &next);

	if (err == -EAGAIN) {
		dc = calloc(1, sizeof(*dc));
		err = dc ? load_rest(dir, dc, 0) : -ENOMEM;
	} else if (!err && next) {
		err = load_rest(dir, dc, next);
	}
	if (err) {
		dircache_free(fs, dc);
		return err;
	}
	gn->dc = dc;
	__atomic_store_n(&gn->listed, 1, __ATOMIC_RELAXED);
	return 0;
}

/* ---- readdir ---- */

/* Of an open directory in a paged listing: the reply last received and where it stands. */
struct gdir {
	enum { GDIR_NEW, GDIR_KEPT, GDIR_PAGED } kind; /* of positions, until rewound */
	struct gcall call;
	int have;
	uint64_t pos;  /* guest position of the next entry in call.rep */
	uint32_t left; /* entries in it */
	uint32_t eof;
	uint64_t next; /* host cookie after the page */
};

#define POS_FIRST 2

static uint64_t pos_of_cookie(uint64_t cookie)
{
	return cookie > INT64_MAX - POS_FIRST ? INT64_MAX : cookie + POS_FIRST;
}

static uint64_t cookie_of_pos(uint64_t pos)
{
	return pos == INT64_MAX ? INT64_MAX : pos - POS_FIRST;
}

static uint64_t parent_ino(struct inode *dir)
{
	struct gnode *gn = gnode_of(dir);

	lock_acquire(&gn->fs->lock);
	uint64_t n = gn->parent ? gn->parent->ino : dir->ino;

	lock_release(&gn->fs->lock);
	return n;
}

static int emit_dots(struct inode *dir, struct dir_emit *de, int64_t *pos)
{
	if (*pos == 0) {
		if (!de->emit(de, ".", 1, 1, dir->ino, DT_DIR))
			return 0;
		*pos = 1;
	}
	if (*pos == 1) {
		if (!de->emit(de, "..", 2, POS_FIRST, parent_ino(dir), DT_DIR))
			return 0;
		*pos = POS_FIRST;
	}
	return 1;
}

static uint64_t slot_ino(struct goferfs *fs, const struct gofer_attr *a)
{
	return gnode_guest_ino(fs, a->dev, a->ino);
}

static int iterate_kept(struct inode *dir, struct dir_emit *de, int64_t *pos)
{
	struct gnode *gn = gnode_of(dir);
	struct dircache *dc = gn->dc;

	for (uint64_t i = (uint64_t)*pos - POS_FIRST; i < dc->count; i++) {
		struct dirent_slot *s = &dc->slot[i];

		if (s->name && !de->emit(de, s->name, s->len, i + 1 + POS_FIRST,
					 slot_ino(gn->fs, &s->attr), (uint8_t)IFTODT(s->attr.mode)))
			return 0;
		*pos = (int64_t)(i + 1 + POS_FIRST);
	}
	return 0;
}

static void gdir_drop(struct gdir *gd)
{
	if (gd->have)
		gcall_end(&gd->call);
	gd->have = 0;
}

static int gdir_fetch(struct inode *dir, struct gdir *gd, uint64_t pos)
{
	struct goferfs *fs = goferfs_of(dir);
	struct dirpage page = { 0 };
	int64_t nid = gnode_nid(dir);

	gdir_drop(gd);
	if (nid < 0)
		return (int)nid;
	int err = page_ask(fs, (uint32_t)nid, cookie_of_pos(pos), 0, &gd->call, &page);

	if (err)
		return err;
	gd->have = 1;
	gd->pos = pos;
	gd->left = page.count;
	gd->eof = page.eof;
	gd->next = page.next;
	return 0;
}

static int iterate_paged(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct inode *dir = f->inode;
	struct goferfs *fs = goferfs_of(dir);
	struct gdir *gd = f->priv;
	char name[GOFER_NAME_MAX + 1];

	for (;;) {
		if (!gd->have || gd->pos != (uint64_t)*pos || (!gd->left && !gd->eof)) {
			int err = gdir_fetch(dir, gd, (uint64_t)*pos);

			if (err)
				return err;
		}
		if (!gd->left) {
			if (gd->eof)
				return 0;
			/* A page of entries that are not for us. */
			*pos = (int64_t)pos_of_cookie(gd->next);
			continue;
		}
		struct wire_in save = gd->call.rep;
		uint64_t next = pos_of_cookie(wire_u64(&gd->call.rep));
		uint64_t hino = wire_u64(&gd->call.rep);
		uint8_t type = wire_u8(&gd->call.rep);
		size_t len = wire_name(&gd->call.rep, name);

		if (!len || type > 15)
			return gcall_bad_reply(fs->conn, &gd->call, "malformed listing");
		if (!de->emit(de, name, len, next, hino, type)) {
			gd->call.rep = save;
			return 0;
		}
		gd->left--;
		gd->pos = next;
		*pos = (int64_t)next;
	}
}

static int iterate_locked(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct inode *dir = f->inode;
	struct gdir *gd = f->priv;

	if (*pos == 0) {
		gdir_drop(gd); /* rewound: what the host has now */
		gd->kind = GDIR_NEW;
	}
	if (!emit_dots(dir, de, pos))
		return 0;
	if (gd->kind != GDIR_PAGED && goferfs_of(dir)->exclusive) {
		__atomic_store_n(&gnode_of(dir)->walked, 1, __ATOMIC_RELAXED);
		int err = dircache_load(dir, 1);

		if (err && (gd->kind == GDIR_KEPT || (err != -E2BIG && err != -ENOMEM)))
			return err;
	}
	if (gd->kind == GDIR_NEW)
		gd->kind = gnode_of(dir)->dc ? GDIR_KEPT : GDIR_PAGED;
	return gd->kind == GDIR_KEPT ? iterate_kept(dir, de, pos) : iterate_paged(f, de, pos);
}

static int gdir_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	if (*pos < 0)
		return -EINVAL;
	lock_acquire(&f->inode->lock);
	int err = iterate_locked(f, de, pos);

	lock_release(&f->inode->lock);
	return err;
}

static int64_t gdir_llseek(struct file *f, int64_t off, int whence)
{
	if (whence == SEEK_CUR && __builtin_add_overflow(off, f->pos, &off))
		return -EOVERFLOW;
	if ((whence != SEEK_SET && whence != SEEK_CUR) || off < 0)
		return -EINVAL;
	return off;
}

int gdir_open(struct inode *dir, struct file *f)
{
	(void)dir;
	f->priv = calloc(1, sizeof(struct gdir));
	return f->priv ? 0 : -ENOMEM;
}

static void gdir_release(struct file *f)
{
	gdir_drop(f->priv);
	free(f->priv);
}

static int gdir_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	struct goferfs *fs = goferfs_of(f->inode);
	struct gcall c;

	(void)start, (void)end, (void)datasync;
	if (fs->readonly)
		return 0;
	int64_t nid = gnode_nid(f->inode);

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_FSYNC, 4);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	err = gcall_do(fs->conn, &c);
	gcall_end(&c);
	return err;
}

const struct file_ops g_goferfs_dir_fops = {
	.iterate = gdir_iterate,
	.llseek = gdir_llseek,
	.fsync = gdir_fsync,
	.release = gdir_release,
};
