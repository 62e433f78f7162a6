/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting a gofer's tree, and what the superblock is asked. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "vfs/goferfs/goferfs_priv.h"
#include "vfs/vfs_priv.h" /* tree_lock: a dentry's name may only be read under it */

/* sb->magic, which nobody sees: statfs(2) shows the host's. */
#define GOFERFS_MAGIC 0x43414953

static int g_statfs(struct superblock *sb, struct linux_statfs *st)
{
	struct goferfs *fs = sb->priv;
	int64_t nid = gnode_nid(sb->root->inode);
	struct gofer_statfs w = { 0 };
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_STATFS, 4);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	err = gcall_do(fs->conn, &c);
	if (!err) {
		const void *p = wire_bytes(&c.rep, sizeof(w));

		if (!p || !wire_done(&c.rep))
			err = gcall_bad_reply(fs->conn, &c, "malformed statfs");
		else
			memcpy(&w, p, sizeof(w));
	}
	gcall_end(&c);
	if (err)
		return err;
	memset(st, 0, sizeof(*st));
	st->type = w.type;
	st->bsize = (int64_t)w.bsize;
	st->frsize = (int64_t)w.frsize;
	st->blocks = w.blocks;
	st->bfree = w.bfree;
	st->bavail = w.bavail;
	st->files = w.files;
	st->ffree = w.ffree;
	st->namelen = w.namelen > 255 ? 255 : (int64_t)w.namelen;
	return 0;
}

static void g_destroy(struct superblock *sb)
{
	struct goferfs *fs = sb->priv;

	if (!fs)
		return;
	lock_destroy(&fs->lock);
	ahead_free(fs);
	goferfs_put(fs->conn);
	free(fs->table);
	free(fs->changed);
	free(fs);
	sb->priv = NULL;
}

/*
 * Shared trees: does the name still lead to this inode? The answer brings the attributes along,
 * which the stat or open that follows will want. Positive dentries only; misses are not cached.
 */
static int g_revalidate(struct dentry *d)
{
	struct vfs *vfs = d->sb->vfs;
	char name[GOFER_NAME_MAX + 1];
	struct gofer_attr attr;
	struct inode *dir, *ino;
	uint32_t nid;
	size_t len;

	rwlock_read(&vfs->tree_lock);
	len = d->name_len < sizeof(name) ? d->name_len : 0;
	memcpy(name, d->name, len);
	name[len] = '\0';
	ino = d->inode;
	dir = d->parent != d && d->parent->inode ? inode_get(d->parent->inode) : NULL;
	rwlock_release(&vfs->tree_lock);
	if (!dir)
		return 1;
	if (!len || !ino) {
		inode_put(dir);
		return 0;
	}
	int err = gnode_walk_one(dir, name, len, &attr, &nid);
	int same = !err && gnode_same(ino, &attr);

	inode_put(dir);
	if (!err) {
		struct goferfs *fs = goferfs_of(ino);

		conn_forget(fs->conn, nid, 1);
	}
	if (same) {
		lock_acquire(&ino->lock);
		gnode_set_attr(ino, &attr);
		lock_release(&ino->lock);
		return 1;
	}
	/* What is gone or another object is looked up anew; other failures are the caller's. */
	return !err || err == -ENOENT || err == -ESTALE || err == -ENOTDIR ? 0 : err;
}

static const struct super_ops g_exclusive_ops = {
	.statfs = g_statfs,
	.evict = gnode_evict,
	.destroy = g_destroy,
};

static const struct super_ops g_shared_ops = {
	.statfs = g_statfs,
	.evict = gnode_evict,
	.destroy = g_destroy,
	.revalidate = g_revalidate,
};

static int attach(struct goferfs *fs, uint32_t *nid, uint32_t *flags, struct gofer_attr *attr)
{
	struct gcall c;
	int err = gcall_begin(&c, GOFER_ATTACH, 4);

	if (err)
		return err;
	wire_put_u32(&c.req, fs->attach_id);
	err = gcall_do(fs->conn, &c);
	if (!err) {
		*nid = wire_u32(&c.rep);
		*flags = wire_u32(&c.rep);
		err = gnode_read_attr(fs, &c, attr);
		if (!err && (!wire_done(&c.rep) || !*nid))
			err = gcall_bad_reply(fs->conn, &c, "malformed attach");
	}
	gcall_end(&c);
	return err;
}

/* The host's numbers may be anything; programs size buffers by this one. */
static uint32_t sane_blksize(uint32_t n)
{
	return n >= 512 && n <= (1u << 20) && !(n & (n - 1)) ? n : 4096;
}

static struct superblock *g_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				  const char *options, const void *boot)
{
	const struct goferfs_boot *gb = boot;
	uint32_t nid, flags;
	struct gofer_attr attr;

	if (!gb)
		return ERR_PTR(-ENODEV);
	if (options && *options)
		return ERR_PTR(-EINVAL);
	struct goferfs *fs = calloc(1, sizeof(*fs));

	if (!fs)
		return ERR_PTR(-ENOMEM);
	hostfd_cache_init();
	fs->conn = gb->conn;
	fs->attach_id = gb->attach_id;
	fs->exclusive = gb->exclusive;
	fs->readonly = gb->readonly;
	fs->table_size = 256;
	fs->table = calloc(fs->table_size, sizeof(struct gnode *));
	int err = fs->table ? attach(fs, &nid, &flags, &attr) : -ENOMEM;

	if (err) {
		free(fs->table);
		free(fs);
		return ERR_PTR(err);
	}
	fs->readonly |= (flags & GOFER_AT_RDONLY) != 0;
	lock_init(&fs->lock, RANK_CACHE);
	fs->dev[fs->dev_count++] = attr.dev;
	struct superblock *sb =
		sb_new(vfs, &g_goferfs_type, fs->exclusive ? &g_exclusive_ops : &g_shared_ops,
		       sb_flags | (fs->readonly ? SB_RDONLY : 0) |
			       (fs->exclusive ? 0 : SB_NOCACHE_NEGATIVE),
		       GOFERFS_MAGIC, source);

	if (!sb || IS_ERR(sb)) {
		lock_destroy(&fs->lock);
		free(fs->table);
		free(fs);
		return sb ? sb : ERR_PTR(-ENOMEM);
	}
	goferfs_get(fs->conn);
	fs->sb = sb;
	sb->priv = fs;
	sb->blksize = sane_blksize(attr.blksize);
	struct inode *root = gnode_get(fs, NULL, NULL, &attr, nid);

	if (IS_ERR(root)) {
		sb_put(sb);
		return (void *)root;
	}
	sb->root = dentry_new_root(sb, root);
	if (!sb->root) {
		sb_put(sb);
		return ERR_PTR(-ENOMEM);
	}
	return sb;
}

const struct fs_type g_goferfs_type = { .name = "gofer", .mount = g_mount, .flags = FS_NODEV };
