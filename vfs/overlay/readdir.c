/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing a directory: first the lower's names in the lower's order (less those covered by a
 * whiteout; a covering inode appears in its place), then the added names. Positions never
 * change. Names added after the last rewind are left out, so that a program which creates a file
 * for each one it sees comes to an end.
 */
#include "vfs/overlay/overlay_priv.h"

struct merge {
	struct dir_emit de;
	struct dir_emit *out;
	struct inode *dir;
	struct ovl_file *of;
	int64_t want; /* entries before this number were delivered earlier */
	int full;     /* the caller's buffer is */
};

static uint8_t type_of(uint32_t mode)
{
	return (uint8_t)((mode & S_IFMT) >> 12);
}

/* Counts every name of the lower, hidden ones too, so that numbers stay what they are. */
static int merge_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t nr, uint8_t type)
{
	struct merge *m = container_of(de, struct merge, de);
	struct ovl_entry *e = ovl_entry_find(m->dir, name, len);
	int hidden = m->of->low_nr < m->want || (e && !e->inode);

	if (e && e->inode) {
		nr = e->inode->ino;
		type = type_of(e->inode->mode);
	} else if (len == 2 && name[0] == '.' && name[1] == '.' && ovl_i(m->dir)->parent_ino) {
		nr = ovl_i(m->dir)->parent_ino;
	}
	if (!hidden && !m->out->emit(m->out, name, len, (uint64_t)m->of->low_nr + 1, nr, type)) {
		m->full = 1;
		return 0;
	}
	m->of->low_nr++;
	return 1;
}

/* The lower's own positions may be anything (hashes); ours are the numbers of its entries. */
static int iterate_lower(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct file *lower = ovl_lower_file(f);
	struct ovl_file *of = f->priv;

	if (IS_ERR(lower))
		return (int)PTR_ERR(lower);
	if (!lower->ops || !lower->ops->iterate)
		return -ENOTDIR;
	if (*pos < of->low_nr)
		of->low_pos = of->low_nr = 0;
	struct merge m = { .de = { .emit = merge_emit }, .out = de, .dir = f->inode, .of = of,
			   .want = *pos };
	int64_t before;

	do {
		before = of->low_pos;
		int r = lower->ops->iterate(lower, &m.de, &of->low_pos);

		/* Even before an error: what was delivered must not come again. */
		if (of->low_nr > *pos)
			*pos = of->low_nr;
		if (r < 0)
			return r;
	} while (!m.full && of->low_pos != before);
	if (!m.full)
		*pos = (int64_t)OVL_UPPER_POS;
	return 0;
}

/* Directories made here have no lower to supply the dots: they take positions 0 and 1. */
static int iterate_dots(struct file *f, struct dir_emit *de, int64_t *pos)
{
	uint64_t up = ovl_i(f->inode)->parent_ino;

	if (*pos == 0) {
		if (!de->emit(de, ".", 1, 1, f->inode->ino, type_of(S_IFDIR)))
			return 0;
		*pos = 1;
	}
	if (*pos == 1 && !de->emit(de, "..", 2, OVL_UPPER_POS, up ? up : f->inode->ino,
				   type_of(S_IFDIR)))
		return 0;
	*pos = (int64_t)OVL_UPPER_POS;
	return 0;
}

static int iterate_locked(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct ovl_inode *oi = ovl_i(f->inode);
	struct ovl_file *of = f->priv;
	struct ovl_entry *e;

	if (*pos == 0)
		of->end = oi->dir ? oi->dir->next_pos : OVL_UPPER_POS;
	if ((uint64_t)*pos < OVL_UPPER_POS) {
		int r = oi->lower ? iterate_lower(f, de, pos) : iterate_dots(f, de, pos);

		if (r || (uint64_t)*pos < OVL_UPPER_POS)
			return r;
	}
	if (!oi->dir)
		return 0;
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

int ovl_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	if (*pos < 0)
		return -EINVAL;
	lock_acquire(&f->inode->lock);
	int r = iterate_locked(f, de, pos);

	lock_release(&f->inode->lock);
	return r;
}
