/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tmpfs directories: a hash table for lookup and a list in order of creation for readdir. Each
 * entry has a cookie that is never given out twice in its directory, so a position stays good
 * whatever is added or removed meanwhile: reading goes on at the first entry with a cookie not
 * below it.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/base/hash.h"
#include "vfs/tmpfs/tmpfs_priv.h"

static struct tmp_dirent *dirent_find(struct tmp_node *n, const char *name, size_t len)
{
	uint64_t h = hash_bytes(name, len, 0);
	struct tmp_dirent *e = n->dir.hash ? n->dir.hash[h & n->dir.mask] : NULL;

	while (e && (e->hash != h || e->len != len || memcmp(e->name, name, len) != 0))
		e = e->hash_next;
	return e;
}

/* Doubles the table; small directories start with 8 chains. */
static int table_grow(struct tmp_node *n)
{
	uint32_t size = n->dir.hash ? (n->dir.mask + 1) * 2 : 8;
	struct tmp_dirent **table = calloc(size, sizeof(*table)), *e;

	if (!table)
		return n->dir.hash ? 0 : -ENOMEM;
	for (e = n->dir.head; e; e = e->next) {
		e->hash_next = table[e->hash & (size - 1)];
		table[e->hash & (size - 1)] = e;
	}
	free(n->dir.hash);
	n->dir.hash = table;
	n->dir.mask = size - 1;
	return 0;
}

/* Prepares an entry without putting it in: the part of an operation that can fail. */
static struct tmp_dirent *dirent_make(struct tmp_node *n, const char *name)
{
	size_t len = strlen(name);
	struct tmp_dirent *e;

	if ((!n->dir.hash || n->dir.count > n->dir.mask) && table_grow(n))
		return NULL;
	e = malloc(sizeof(*e) + len + 1);
	if (!e)
		return NULL;
	e->inode = NULL;
	e->len = (uint32_t)len;
	e->hash = hash_bytes(name, len, 0);
	memcpy(e->name, name, len + 1);
	return e;
}

/* Consumes e and a reference of ino. dir's lock held. */
static void dirent_insert(struct inode *dir, struct tmp_dirent *e, struct inode *ino)
{
	struct tmp_node *n = tmp_node(dir);
	struct tmp_dirent **b = &n->dir.hash[e->hash & n->dir.mask];

	e->inode = ino;
	e->hash_next = *b;
	*b = e;
	e->cookie = n->dir.next_cookie++;
	e->next = NULL;
	e->prev = n->dir.tail;
	if (n->dir.tail)
		n->dir.tail->next = e;
	else
		n->dir.head = e;
	n->dir.tail = e;
	n->dir.count++;
	dir->size += DIRENT_BYTES;
}

/* Takes e out and frees it; returns its reference on the inode. */
static struct inode *dirent_remove(struct inode *dir, struct tmp_dirent *e)
{
	struct tmp_node *n = tmp_node(dir);
	struct tmp_dirent **b = &n->dir.hash[e->hash & n->dir.mask];
	struct inode *ino = e->inode;

	while (*b != e)
		b = &(*b)->hash_next;
	*b = e->hash_next;
	if (e->prev)
		e->prev->next = e->next;
	else
		n->dir.head = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		n->dir.tail = e->prev;
	n->dir.count--;
	dir->size -= DIRENT_BYTES;
	free(e);
	return ino;
}

static struct inode *tmp_lookup(struct inode *dir, const char *name, size_t len)
{
	struct tmp_dirent *e = dirent_find(tmp_node(dir), name, len);

	return e ? inode_get(e->inode) : ERR_PTR(-ENOENT);
}

/* The end of every creation: ino (or an error) gets the name. Returns a reference for the VFS. */
static struct inode *add_entry(struct inode *dir, const char *name, struct inode *ino)
{
	struct tmp_dirent *e;

	if (IS_ERR(ino))
		return ino;
	e = dir->nlink ? dirent_make(tmp_node(dir), name) : NULL;
	if (!e) {
		inode_put(ino);
		return ERR_PTR(dir->nlink ? -ENOMEM : -ENOENT);
	}
	dirent_insert(dir, e, inode_get(ino));
	inode_touch(dir, IATTR_MTIME | IATTR_CTIME);
	return ino;
}

static struct inode *tmp_mknod(struct inode *dir, const char *name, uint32_t mode, uint64_t rdev,
			       const struct cred *cred)
{
	return add_entry(dir, name, tmp_inode_new(dir->sb, dir, mode, rdev, cred));
}

static struct inode *tmp_create(struct inode *dir, const char *name, uint32_t mode,
				const struct cred *cred)
{
	return tmp_mknod(dir, name, S_IFREG | (mode & 07777), 0, cred);
}

static struct inode *tmp_mkdir(struct inode *dir, const char *name, uint32_t mode,
			       const struct cred *cred)
{
	struct inode *ino = tmp_mknod(dir, name, S_IFDIR | (mode & 07777), 0, cred);

	if (!IS_ERR(ino)) {
		tmp_node(ino)->dir.parent = dir;
		dir->nlink++;
	}
	return ino;
}

static struct inode *tmp_symlink(struct inode *dir, const char *name, const char *target,
				 const struct cred *cred)
{
	struct inode *ino = tmp_inode_new(dir->sb, dir, S_IFLNK | 0777, 0, cred);

	if (IS_ERR(ino))
		return ino;
	ino->link = strdup(target);
	if (!ino->link) {
		inode_put(ino);
		return ERR_PTR(-ENOMEM);
	}
	ino->size = strlen(target);
	return add_entry(dir, name, ino);
}

static struct inode *tmp_tmpfile(struct inode *dir, uint32_t mode, const struct cred *cred)
{
	struct inode *ino = tmp_inode_new(dir->sb, dir, S_IFREG | (mode & 07777), 0, cred);

	if (!IS_ERR(ino))
		ino->nlink = 0;
	return ino;
}

static int tmp_link(struct inode *dir, const char *name, struct inode *target)
{
	struct tmp_dirent *e = dirent_make(tmp_node(dir), name);

	if (!e)
		return -ENOMEM;
	lock_acquire_nested(&target->lock);
	target->nlink++;
	__atomic_fetch_and(&target->attr_flags, ~INODE_LINKABLE, __ATOMIC_RELAXED); /* read without the lock */
	inode_touch(target, IATTR_CTIME);
	lock_release(&target->lock);
	dirent_insert(dir, e, inode_get(target));
	inode_touch(dir, IATTR_MTIME | IATTR_CTIME);
	return 0;
}

/* The name is gone from dir; ino loses a link (a directory its last two). Consumes ino's ref. */
static void drop_link(struct inode *dir, struct inode *ino)
{
	lock_acquire_nested(&ino->lock);
	if (S_ISDIR(ino->mode)) {
		ino->nlink = 0;
		dir->nlink--;
	} else {
		ino->nlink--;
	}
	inode_touch(ino, IATTR_CTIME);
	lock_release(&ino->lock);
	inode_put(ino);
}

static int tmp_unlink(struct inode *dir, const char *name, struct inode *victim)
{
	struct tmp_dirent *e = dirent_find(tmp_node(dir), name, strlen(name));

	if (!e || e->inode != victim)
		return -ENOENT;
	inode_touch(dir, IATTR_MTIME | IATTR_CTIME);
	drop_link(dir, dirent_remove(dir, e));
	return 0;
}

/* Empty, and never to be filled again: with nlink 0 creations in it fail. */
static int kill_if_empty(struct inode *ino)
{
	int r = 0;

	lock_acquire_nested(&ino->lock);
	if (tmp_node(ino)->dir.count)
		r = -ENOTEMPTY;
	else
		ino->nlink = 0;
	lock_release(&ino->lock);
	return r;
}

static int tmp_rmdir(struct inode *dir, const char *name, struct inode *victim)
{
	int r = kill_if_empty(victim);

	return r ? r : tmp_unlink(dir, name, victim);
}

static void set_parent(struct inode *ino, struct inode *parent)
{
	lock_acquire_nested(&ino->lock);
	if (S_ISDIR(ino->mode))
		tmp_node(ino)->dir.parent = parent;
	inode_touch(ino, IATTR_CTIME);
	lock_release(&ino->lock);
}

static int rename_exchange(struct inode *olddir, struct tmp_dirent *oe, struct inode *newdir,
			   struct tmp_dirent *ne)
{
	struct inode *a = oe->inode, *b = ne->inode;

	oe->inode = b;
	ne->inode = a;
	if (olddir != newdir) {
		int delta = S_ISDIR(a->mode) - S_ISDIR(b->mode);

		olddir->nlink -= (uint32_t)delta;
		newdir->nlink += (uint32_t)delta;
	}
	set_parent(a, newdir);
	set_parent(b, olddir);
	inode_touch(olddir, IATTR_MTIME | IATTR_CTIME);
	inode_touch(newdir, IATTR_MTIME | IATTR_CTIME);
	return 0;
}

static int tmp_rename(struct inode *olddir, const char *oldname, struct inode *source,
		      struct inode *newdir, const char *newname, struct inode *target, uint32_t flags)
{
	struct tmp_dirent *oe = dirent_find(tmp_node(olddir), oldname, strlen(oldname));
	struct tmp_dirent *ne = dirent_find(tmp_node(newdir), newname, strlen(newname));
	struct inode *whiteout = NULL, *replaced = NULL;
	struct tmp_dirent *fresh = NULL;
	int r;

	if (!oe || oe->inode != source || (ne ? ne->inode : NULL) != target)
		return -ENOENT;
	if (flags & RENAME_EXCHANGE)
		return ne ? rename_exchange(olddir, oe, newdir, ne) : -ENOENT;
	if (!ne) {
		if (!newdir->nlink)
			return -ENOENT;
		fresh = dirent_make(tmp_node(newdir), newname);
		if (!fresh)
			return -ENOMEM;
	}
	if (flags & RENAME_WHITEOUT) {
		static const struct cred root_cred; /* whiteouts belong to root */

		whiteout = tmp_inode_new(olddir->sb, olddir, S_IFCHR, 0, &root_cred);
		if (IS_ERR(whiteout)) {
			free(fresh);
			return (int)PTR_ERR(whiteout);
		}
	}
	if (target && S_ISDIR(target->mode)) {
		r = kill_if_empty(target);
		if (r) {
			inode_put(whiteout);
			return r;
		}
	}
	/* From here nothing fails. */
	if (ne) {
		replaced = ne->inode;
		ne->inode = inode_get(source);
	} else {
		dirent_insert(newdir, fresh, inode_get(source));
	}
	if (S_ISDIR(source->mode)) {
		olddir->nlink--;
		newdir->nlink++;
	}
	if (whiteout) {
		oe->inode = whiteout;
		inode_put(source);
	} else {
		inode_put(dirent_remove(olddir, oe));
	}
	set_parent(source, newdir);
	inode_touch(olddir, IATTR_MTIME | IATTR_CTIME);
	inode_touch(newdir, IATTR_MTIME | IATTR_CTIME);
	if (replaced)
		drop_link(newdir, replaced);
	return 0;
}

/* ------------------------------------------------------------------ reading */

static int emit_dots(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct inode *dir = f->inode, *parent = tmp_node(dir)->dir.parent;

	if (*pos == 0) {
		if (!de->emit(de, ".", 1, 1, dir->ino, DT_DIR))
			return 0;
		*pos = 1;
	}
	if (*pos == 1) {
		if (!de->emit(de, "..", 2, 2, parent->ino, DT_DIR))
			return 0;
		*pos = 2;
	}
	return 1;
}

/* The first entry at or behind the cookie; f remembers nothing, so this is a scan from an end. */
static struct tmp_dirent *entry_from(struct tmp_node *n, uint64_t cookie)
{
	struct tmp_dirent *e;

	if (!n->dir.tail || n->dir.tail->cookie < cookie)
		return NULL;
	/* From whichever end is likely nearer. */
	if (cookie - n->dir.head->cookie < n->dir.tail->cookie - cookie ||
	    cookie <= n->dir.head->cookie) {
		for (e = n->dir.head; e->cookie < cookie; e = e->next)
			;
		return e;
	}
	for (e = n->dir.tail; e->prev && e->prev->cookie >= cookie; e = e->prev)
		;
	return e;
}

static int tmp_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct inode *dir = f->inode;
	struct tmp_dirent *e;

	if (*pos < 0)
		return -EINVAL;
	lock_acquire(&dir->lock);
	if (emit_dots(f, de, pos)) {
		for (e = entry_from(tmp_node(dir), (uint64_t)*pos); e; e = e->next) {
			if (!de->emit(de, e->name, e->len, e->cookie + 1, e->inode->ino,
				      IFTODT(e->inode->mode)))
				break;
			*pos = (int64_t)e->cookie + 1;
		}
	}
	lock_release(&dir->lock);
	return 0;
}

static int64_t tmp_dir_llseek(struct file *f, int64_t off, int whence)
{
	if (whence == SEEK_CUR && __builtin_add_overflow(off, f->pos, &off))
		return -EOVERFLOW;
	if ((whence != SEEK_SET && whence != SEEK_CUR) || off < 0)
		return -EINVAL;
	return off;
}

static int tmp_dir_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	return 0;
}

/*
 * Only the end of a superblock evicts a directory with entries. A subdirectory's entries are
 * moved to our own list before it is put: the depth of the tree is the guest's choice and must
 * not become depth of recursion.
 */
void tmp_dir_evict(struct tmp_node *n)
{
	struct tmp_dirent *e, *next;

	for (e = n->dir.head; e; e = next) {
		if (S_ISDIR(e->inode->mode)) {
			struct tmp_node *sub = tmp_node(e->inode);

			if (sub->dir.head) {
				n->dir.tail->next = sub->dir.head;
				n->dir.tail = sub->dir.tail;
			}
			free(sub->dir.hash);
			sub->dir.hash = NULL;
			sub->dir.head = sub->dir.tail = NULL;
			sub->dir.count = sub->dir.mask = 0;
		}
		next = e->next;
		inode_put(e->inode);
		free(e);
	}
	free(n->dir.hash);
}

const struct inode_ops g_tmp_dir_ops = {
	.lookup = tmp_lookup,
	.create = tmp_create,
	.mkdir = tmp_mkdir,
	.mknod = tmp_mknod,
	.symlink = tmp_symlink,
	.tmpfile = tmp_tmpfile,
	.link = tmp_link,
	.unlink = tmp_unlink,
	.rmdir = tmp_rmdir,
	.rename = tmp_rename,
	.setattr = tmp_setattr,
	.getxattr = tmp_getxattr,
	.setxattr = tmp_setxattr,
	.listxattr = tmp_listxattr,
	.removexattr = tmp_removexattr,
};

const struct file_ops g_tmp_dir_fops = {
	.iterate = tmp_iterate,
	.llseek = tmp_dir_llseek,
	.fsync = tmp_dir_fsync,
};
