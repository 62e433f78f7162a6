/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a directory: first the lower's names at the lower's own positions (less those covered by
 * a whiteout; a covering inode appears in its place), then the added names. Positions never
 * change. Names added after the last rewind are left out, so that a program which creates a file
 * for each one it sees comes to an end.
 */
#include "vfs/overlay/overlay_priv.h"

struct merge {
	struct dir_emit de;
	struct dir_emit *out;
	struct inode *dir;
	int full;	 /* the caller's buffer is */
	int64_t stopped; /* and the lower's position of the entry that did not fit is unknown */
};

static uint8_t type_of(uint32_t mode)
{
	return (uint8_t)((mode & S_IFMT) >> 12);
}

static int merge_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t nr, uint8_t type)
{
	struct merge *m = container_of(de, struct merge, de);
	struct ovl_entry *e = ovl_entry_find(m->dir, name, len);

	if (next_pos >= OVL_UPPER_POS) {
		m->full = 1;
		return 0;
	}
	if (e && !e->inode)
		return 1;
	if (e) {
		nr = e->inode->ino;
		type = type_of(e->inode->mode);
	}
	if (m->out->emit(m->out, name, len, next_pos, nr, type))
		return 1;
	m->full = 1;
	return 0;
}

/* One call of the lower's iterate, which expects its directory's lock to be held. */
int ovl_lower_iterate(struct file *lower, struct dir_emit *de, int64_t *pos)
{
	if (!lower->ops || !lower->ops->iterate)
		return -ENOTDIR;
	lock_acquire_nested(&lower->inode->lock);
	int r = lower->ops->iterate(lower, de, pos);

	lock_release(&lower->inode->lock);
	return r;
}

static int iterate_lower(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct file *lower = ovl_lower_file(f);

	if (IS_ERR(lower))
		return (int)PTR_ERR(lower);
	struct merge m = { .de = { .emit = merge_emit }, .out = de, .dir = f->inode };
	int64_t before;

	do {
		before = *pos;
		int r = ovl_lower_iterate(lower, &m.de, pos);

		if (r < 0)
			return r;
	} while (!m.full && *pos != before && (uint64_t)*pos < OVL_UPPER_POS);
	if (!m.full)
		*pos = (int64_t)OVL_UPPER_POS;
	return 0;
}

/* Directories made here have no lower to supply the dots: they take positions 0 and 1. */
static int iterate_dots(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct dentry *d = f->path.dentry;
	struct inode *up = d && d->parent ? d->parent->inode : NULL;

	if (*pos == 0) {
		if (!de->emit(de, ".", 1, 1, f->inode->ino, type_of(S_IFDIR)))
			return 1;
		*pos = 1;
	}
	if (*pos == 1) {
		if (!de->emit(de, "..", 2, OVL_UPPER_POS, up ? up->ino : f->inode->ino,
			      type_of(S_IFDIR)))
			return 1;
	}
	*pos = (int64_t)OVL_UPPER_POS;
	return 0;
}

int ovl_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct inode *dir = f->inode;
	struct ovl_inode *oi = ovl_i(dir);
	struct ovl_file *of = f->priv;

	lock_assert_held(&dir->lock);
	if (*pos < 0)
		return -EINVAL;
	if (*pos == 0)
		of->end = oi->dir ? oi->dir->next_pos : OVL_UPPER_POS;
	if ((uint64_t)*pos < OVL_UPPER_POS) {
		int r = oi->lower ? iterate_lower(f, de, pos) : iterate_dots(f, de, pos);

		if (r)
			return r < 0 ? r : 0;
		if ((uint64_t)*pos < OVL_UPPER_POS)
			return 0;
	}
	if (!oi->dir)
		return 0;
	struct ovl_entry *e;

	list_for_each(e, &oi->dir->added, order) {
		if (e->pos < (uint64_t)*pos)
			continue;
		if (of->end && e->pos >= of->end)
			break;
		if (!de->emit(de, e->name, e->len, e->pos + 1, e->inode->ino,
			      type_of(e->inode->mode)))
			return 0;
		*pos = (int64_t)(e->pos + 1);
	}
	return 0;
}
