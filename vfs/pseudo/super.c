/* SPDX-License-Identifier: Apache-2.0 */
/* Superblocks of table-made filesystems, and small helpers for their tables. */
#include <errno.h>

#include "vfs/pseudo/pseudo_priv.h"

static int pseudo_statfs(struct superblock *sb, struct linux_statfs *st)
{
	memset(st, 0, sizeof(*st));
	st->type = sb->magic;
	st->bsize = st->frsize = 4096;
	st->namelen = NAME_MAX;
	st->fsid[0] = (int32_t)sb->dev;
	return 0;
}

static void pseudo_evict(struct inode *ino)
{
	struct pseudo_inode *pi = ino->priv;
	struct pseudo_sb *ps = pseudo_s(ino->sb);

	if (!pi)
		return;
	if (pi->inst.obj && ps->fs->obj_put)
		ps->fs->obj_put(ps->priv, pi->inst.obj);
	free(pi);
	ino->priv = NULL;
}

static void pseudo_destroy(struct superblock *sb)
{
	struct pseudo_sb *ps = sb->priv;

	if (!ps)
		return;
	if (ps->fs->destroy)
		ps->fs->destroy(ps->priv, ps->sb_data);
	free(ps);
	sb->priv = NULL;
}

static void pseudo_show_options(struct superblock *sb, struct strbuf *out)
{
	struct pseudo_sb *ps = sb->priv;

	if (ps->fs->show_options)
		ps->fs->show_options(sb, out);
}

static int pseudo_remount(struct superblock *sb, const char *options)
{
	struct pseudo_sb *ps = sb->priv;

	if (ps->fs->remount)
		return ps->fs->remount(sb, options);
	return options && options[0] ? -EINVAL : 0;
}

static int pseudo_revalidate(struct dentry *d)
{
	struct inode *ino = d->inode;

	if (!ino)
		return 0; /* instances come and go: nothing negative lasts */
	struct pseudo_inode *pi = ino->priv;
	struct pseudo_sb *ps = pseudo_s(ino->sb);
	const struct pseudo_desc *desc = pi->desc;

	if (pi->inst.obj && ps->fs->obj_alive && !ps->fs->obj_alive(ps->priv, pi->inst.obj))
		return 0;
	if (desc->present || desc->attr || desc->follow) {
		/* An fd may have been closed or have become another file. */
		struct pseudo_req rq = pseudo_req_of(ino);

		if (desc->present && !desc->present(&rq))
			return 0;
		if (desc->attr && desc->attr(&rq, ino))
			return 0;
	}
	return 1;
}

static const struct super_ops g_pseudo_super_ops = {
	.statfs = pseudo_statfs,
	.evict = pseudo_evict,
	.destroy = pseudo_destroy,
	.show_options = pseudo_show_options,
	.remount = pseudo_remount,
	.revalidate = pseudo_revalidate,
};

struct superblock *pseudo_mount(struct vfs *vfs, const struct fs_type *type, const char *source,
				uint32_t sb_flags, const struct pseudo_fs *fs, void *priv,
				void *sb_data)
{
	struct pseudo_sb *ps = calloc(1, sizeof(*ps));
	struct superblock *sb;

	if (!ps)
		return ERR_PTR(-ENOMEM);
	sb = sb_new(vfs, type, &g_pseudo_super_ops, sb_flags | fs->sb_flags, fs->magic,
		    source && source[0] ? source : type->name);
	if (!sb || IS_ERR(sb)) {
		free(ps);
		return ERR_PTR(-ENOMEM);
	}
	ps->fs = fs;
	ps->priv = priv;
	ps->sb_data = sb_data;
	sb->priv = ps;
	sb->blksize = 4096;

	struct pseudo_inst none = { .obj = NULL };
	struct inode *root = pseudo_inode_new(sb, fs->root, &none);

	if (!IS_ERR(root))
		sb->root = dentry_new_root(sb, root);
	if (!sb->root || IS_ERR(sb->root)) {
		sb->root = NULL;
		/* The caller frees sb_data itself when the mount fails. */
		free(ps);
		sb->priv = NULL;
		sb_put(sb);
		return ERR_PTR(-ENOMEM);
	}
	return sb;
}

void *pseudo_sb_data(const struct superblock *sb)
{
	return pseudo_s(sb)->sb_data;
}

int pseudo_parse_s64(const char *buf, size_t len, int64_t *out)
{
	size_t i = 0;
	int neg = 0, digits = 0;
	uint64_t v = 0;

	while (i < len && (buf[i] == ' ' || buf[i] == '\t'))
		i++;
	if (i < len && (buf[i] == '-' || buf[i] == '+'))
		neg = buf[i++] == '-';
	for (; i < len && buf[i] >= '0' && buf[i] <= '9'; i++, digits++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(buf[i] - '0'), &v))
			return -ERANGE;
	while (i < len && (buf[i] == ' ' || buf[i] == '\t' || buf[i] == '\n' || buf[i] == 0))
		i++;
	if (!digits || i != len)
		return -EINVAL;
	if (v > (uint64_t)INT64_MAX + (uint64_t)neg)
		return -ERANGE;
	*out = neg ? (int64_t)-v : (int64_t)v;
	return 0;
}

int pseudo_name_number(const char *name, size_t len, uint64_t limit, uint64_t *out)
{
	uint64_t v = 0;

	if (len == 0 || len > 19 || (name[0] == '0' && len > 1))
		return -ENOENT;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -ENOENT;
		v = v * 10 + (uint64_t)(name[i] - '0');
	}
	if (v >= limit)
		return -ENOENT;
	*out = v;
	return 0;
}
