/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay's superblock. Not here: inodes (inode.c), changed names (entry.c, dir.c, readdir.c),
 * changed data and attributes (copyup.c, file.c, attr.c).
 *
 * Theory of operation. The lower never changes, so an overlay inode stands for one lower inode, or
 * for a file made here, for ever: copying up changes where its data is, not what it is. Hence
 * inode numbers, hard links and open files need no care, and a renamed lower directory is merely
 * the same inode under a new name.
 *
 * Attributes are copied from the lower once, when the overlay inode is made; afterwards the
 * overlay inode's are the truth. Data of a regular file is read from the lower until it is first
 * written; then it moves to a nameless tmpfs file (ovl_inode->upper). Extended attributes likewise,
 * for inodes of all types.
 *
 * A directory keeps only the names that differ from its lower (struct ovl_dir): names added and
 * whiteouts. All other names are looked up in the lower, then ovl_sb->table maps the lower inode
 * to its overlay inode. An inode that differs from its lower in anything is pinned in the table
 * while it has names, so that the next lookup finds it; others go when nobody uses them.
 *
 * Locks: overlay directory, overlay child, lower or upper inode (all RANK_INODE, in this order),
 * ovl_sb->lock.
 */
#include <stdio.h>
#include <stdlib.h>

#include "platform/base/log.h"
#include "vfs/overlay/overlay_priv.h"
#include "vfs/tmpfs/tmpfs.h"

#define OVL_OBJECTS_DEFAULT (2ull << 20)
#define OVL_OBJECTS_MIN (64ull << 10)
#define OVL_BYTES_PER_OBJECT 4096

/* Adds what the lower holds to the totals; nothing when it can not say. */
static void add_lower_use(struct superblock *lower, struct linux_statfs *st)
{
	struct linux_statfs low = { .bsize = lower->blksize, .frsize = lower->blksize };
	uint64_t unit, bytes, blocks, files;

	if (lower->ops->statfs(lower, &low))
		return;
	unit = (uint64_t)(low.frsize > 0 ? low.frsize : low.bsize);
	if (low.blocks > low.bfree &&
	    !__builtin_mul_overflow(low.blocks - low.bfree, unit, &bytes) &&
	    !__builtin_add_overflow(st->blocks, bytes / (uint64_t)st->bsize, &blocks))
		st->blocks = blocks;
	if (low.files > low.ffree &&
	    !__builtin_add_overflow(st->files, low.files - low.ffree, &files))
		st->files = files;
}

/*
 * Free is what the upper can still take; used is what both layers hold. Linux shows the upper's
 * figures alone, but there the upper is as a rule the disk that has the lower too: a root that
 * claims to be empty would be wrong for programs that ask how full it is.
 */
static int ovl_statfs(struct superblock *sb, struct linux_statfs *st)
{
	struct ovl_sb *os = sb->priv;
	int r = os->upper->ops->statfs(os->upper, st);

	if (r)
		return r;
	uint64_t used = __atomic_load_n(&os->objects, __ATOMIC_RELAXED);

	st->type = OVL_MAGIC;
	st->namelen = NAME_MAX;
	st->files = os->object_limit;
	st->ffree = used < os->object_limit ? os->object_limit - used : 0;
	add_lower_use(os->lower, st);
	st->fsid[0] = (int32_t)sb->dev;
	st->fsid[1] = 0;
	return 0;
}

static void ovl_destroy(struct superblock *sb)
{
	struct ovl_sb *os = sb->priv;

	if (!os)
		return;
	if (os->upper)
		sb_put(os->upper);
	if (os->lower)
		sb_put(os->lower);
	if (os->cred)
		cred_put(os->cred);
	free(os->table);
	lock_destroy(&os->lock);
	free(os);
	sb->priv = NULL;
}

static const struct super_ops g_ovl_super_ops = {
	.statfs = ovl_statfs,
	.evict = ovl_evict,
	.destroy = ovl_destroy,
};

/* The only option is tmpfs's "size=", which goes before the boot struct's limit. */
static struct superblock *upper_new(struct vfs *vfs, uint64_t limit, const char *mount_options)
{
	const char *pos = mount_options ? mount_options : "";
	char options[64] = "", key[32], val[48];
	int r;

	if (limit)
		snprintf(options, sizeof(options), "size=%llu", (unsigned long long)limit);
	while ((r = mount_option_next(&pos, key, sizeof(key), val, sizeof(val))) > 0) {
		if (strcmp(key, "size"))
			return ERR_PTR(-EINVAL);
		snprintf(options, sizeof(options), "size=%s", val);
	}
	if (r < 0)
		return ERR_PTR(r);
	return g_tmpfs_type.mount(vfs, "overlay", 0, options, NULL);
}

static struct superblock *ovl_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				    const char *options, const void *boot)
{
	const struct overlay_boot *ob = boot;

	if (!ob) {
		log_once("overlay: mounts made by the guest are not supported");
		return ERR_PTR(-EINVAL);
	}
	struct ovl_sb *os = calloc(1, sizeof(*os));
	struct superblock *sb = sb_new(vfs, &g_overlay_type, &g_ovl_super_ops, sb_flags, OVL_MAGIC,
				       source && source[0] ? source : "overlay");
	int err = -ENOMEM;

	if (!os || !sb || IS_ERR(sb)) {
		free(os);
		if (sb && !IS_ERR(sb))
			sb_put(sb);
		return ERR_PTR(err);
	}
	lock_init(&os->lock, RANK_LEAF);
	list_init(&os->all);
	os->sb = sb;
	sb->priv = os;
	sb->blksize = 4096;
	os->anon = vfs_anon_mount(vfs);
	os->lower = sb_get(ob->lower);
	os->next_ino = OVL_FIRST_NEW_INO;
	os->object_limit = OVL_OBJECTS_DEFAULT;
	if (ob->upper_size_limit) {
		os->object_limit = ob->upper_size_limit / OVL_BYTES_PER_OBJECT;
		if (os->object_limit < OVL_OBJECTS_MIN)
			os->object_limit = OVL_OBJECTS_MIN;
	}
	os->table_size = 1024;
	os->table = calloc(os->table_size, sizeof(struct ovl_inode *));
	os->cred = cred_new(0, 0, CAP_ALL_MASK);
	if (!os->table || !os->cred)
		goto out_put;
	struct superblock *upper = upper_new(vfs, ob->upper_size_limit, options);

	if (IS_ERR(upper)) {
		err = (int)PTR_ERR(upper);
		goto out_put;
	}
	os->upper = upper;
	struct inode *root = ovl_inode_of_lower(os, inode_get(os->lower->root->inode));

	if (IS_ERR(root)) {
		err = (int)PTR_ERR(root);
		goto out_put;
	}
	sb->root = dentry_new_root(sb, root);
	if (!sb->root || IS_ERR(sb->root)) {
		sb->root = NULL;
		goto out_put;
	}
	return sb;
out_put:
	sb_put(sb);
	return ERR_PTR(err);
}

const struct fs_type g_overlay_type = {
	.name = "overlay",
	.mount = ovl_mount,
	.flags = FS_NODEV,
};
