/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changed names of one directory: a hash table of entries, each an inode or a whiteout, and
 * the list of those the lower does not have, in readdir order. An entry that covers a lower name
 * keeps the lower's readdir position, so that programs which replace files while they list a
 * directory see each name once.
 */
#include <stdlib.h>

#include "platform/base/hash.h"
#include "vfs/overlay/overlay_priv.h"

static struct ovl_entry **slot_of(struct ovl_dir *od, const char *name, size_t len)
{
	struct ovl_entry **p = &od->bucket[hash_bytes(name, len, 0) & (od->size - 1)];

	while (*p && ((*p)->len != len || memcmp((*p)->name, name, len)))
		p = &(*p)->next;
	return p;
}

struct ovl_entry *ovl_entry_find(const struct inode *dir, const char *name, size_t len)
{
	struct ovl_dir *od = ovl_i(dir)->dir;

	return od && od->used ? *slot_of(od, name, len) : NULL;
}

static int dir_make(struct inode *dir)
{
	struct ovl_inode *oi = ovl_i(dir);

	if (oi->dir)
		return 0;
	struct ovl_dir *od = calloc(1, sizeof(*od));

	if (!od)
		return -ENOMEM;
	od->size = 8;
	od->bucket = calloc(od->size, sizeof(struct ovl_entry *));
	if (!od->bucket) {
		free(od);
		return -ENOMEM;
	}
	list_init(&od->added);
	od->next_pos = OVL_UPPER_POS;
	oi->dir = od;
	return 0;
}

static void dir_grow(struct ovl_dir *od)
{
	size_t size = od->size * 2;
	struct ovl_entry **bucket = calloc(size, sizeof(struct ovl_entry *));

	if (!bucket)
		return; /* longer chains, nothing worse */
	for (size_t i = 0; i < od->size; i++) {
		struct ovl_entry *e = od->bucket[i], *next;

		for (; e; e = next) {
			size_t at = hash_bytes(e->name, e->len, 0) & (size - 1);

			next = e->next;
			e->next = bucket[at];
			bucket[at] = e;
		}
	}
	free(od->bucket);
	od->bucket = bucket;
	od->size = size;
}

struct ovl_entry *ovl_entry_prepare(struct inode *dir, const char *name)
{
	struct ovl_sb *os = ovl_s(dir);
	size_t len = strlen(name);

	lock_assert_held(&dir->lock);
	if (len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	int r = dir_make(dir);

	if (!r)
		r = ovl_charge(os);
	if (r)
		return ERR_PTR(r);
	struct ovl_entry *e = calloc(1, sizeof(*e) + len + 1);

	if (!e) {
		ovl_uncharge(os);
		return ERR_PTR(-ENOMEM);
	}
	list_init(&e->order);
	e->len = (uint8_t)len;
	memcpy(e->name, name, len + 1);
	return e;
}

void ovl_entry_discard(struct inode *dir, struct ovl_entry *fresh)
{
	if (!fresh || IS_ERR(fresh))
		return;
	ovl_uncharge(ovl_s(dir));
	free(fresh);
}

void ovl_entry_set(struct inode *dir, const char *name, struct inode *ino, int covers,
		   struct ovl_entry *fresh)
{
	struct ovl_dir *od = ovl_i(dir)->dir;
	struct ovl_entry **p = slot_of(od, name, strlen(name)), *e = *p;
	struct inode *old = NULL;

	lock_assert_held(&dir->lock);
	if (e) {
		old = e->inode;
		e->inode = ino;
		od->live += (ino != NULL) - (old != NULL);
		if (!ino && !e->covers) {
			*p = e->next;
			od->used--;
			list_del(&e->order);
			ovl_entry_discard(dir, e);
		}
		ovl_entry_discard(dir, fresh);
	} else if (ino || covers) {
		e = fresh;
		e->inode = ino;
		e->covers = (uint8_t)covers;
		e->next = *p;
		*p = e;
		od->used++;
		od->live += ino != NULL;
		if (!covers) {
			e->pos = od->next_pos++;
			list_add_tail(&e->order, &od->added);
		}
		if (od->used > od->size)
			dir_grow(od);
	} else {
		ovl_entry_discard(dir, fresh);
	}
	ovl_pin(dir);
	if (old)
		inode_put(old);
}

/* Is any name of the lower directory still visible? */
struct empty_scan {
	struct dir_emit de;
	struct inode *dir;
	int found;
};

static int empty_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t nr, uint8_t type)
{
	struct empty_scan *es = container_of(de, struct empty_scan, de);

	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return 1;
	if (ovl_entry_find(es->dir, name, len)) /* whiteout: live ones were counted before */
		return 1;
	es->found = 1;
	return 0;
}

int ovl_dir_is_empty(struct inode *dir)
{
	struct ovl_inode *oi = ovl_i(dir);

	lock_assert_held(&dir->lock);
	if (oi->dir && oi->dir->live)
		return 0;
	if (!oi->lower)
		return 1;
	struct file *lf = ovl_open_layer(ovl_s(dir), oi->lower, O_RDONLY | O_DIRECTORY);

	if (IS_ERR(lf))
		return (int)PTR_ERR(lf);
	if (!lf->ops || !lf->ops->iterate) {
		file_put(lf);
		return -ENOTDIR;
	}
	struct empty_scan es = { .de = { .emit = empty_emit }, .dir = dir };
	int64_t pos = 0, before;
	int r;

	do {
		before = pos;
		r = lf->ops->iterate(lf, &es.de, &pos);
	} while (!r && !es.found && pos != before);
	file_put(lf);
	if (r < 0)
		return r;
	return !es.found;
}

/* Frees the table and its whiteouts; entries with an inode go to inodes_out by their order node. */
void ovl_dir_free(struct ovl_sb *os, struct ovl_dir *od, struct list_head *inodes_out)
{
	for (size_t i = 0; i < od->size; i++) {
		struct ovl_entry *e = od->bucket[i], *next;

		for (; e; e = next) {
			next = e->next;
			list_del(&e->order);
			ovl_uncharge(os);
			if (e->inode)
				list_add_tail(&e->order, inodes_out);
			else
				free(e);
		}
	}
	free(od->bucket);
	free(od);
}
