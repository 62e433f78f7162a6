/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devpts: ptmx and one node for each pair whose master is open. Every mount is an instance of its
 * own, as on Linux since 4.7. Nodes come and go with the masters, so no dentry is trusted without
 * asking the table.
 *
 * Locks: the root's inode->lock, then dp->lock (RANK_LEAF); a terminal's lock is never taken here.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/assert.h"
#include "vfs/dev/tty_priv.h"

#define DEVPTS_MAGIC 0x1cd1
#define ROOT_INO 1
#define PTMX_INO 2
#define FIRST_INO 3 /* of pair 0 */
#define PTMX_MODE_DEFAULT 0
#define PTY_MODE_DEFAULT 0600

struct devpts_options {
	uint32_t uid, gid, mode, ptmxmode, max;
	int set_uid, set_gid;
};

struct devpts {
	struct lock lock;      /* RANK_LEAF */
	struct superblock *sb; /* [I] borrowed: it owns us */
	struct inode *ptmx;    /* [lock] no reference: evict clears it, lookup makes a new one */
	uint32_t ptmx_mode, ptmx_uid, ptmx_gid; /* [lock] what the next ptmx inode gets */
	struct devpts_options opt; /* [lock] */
	struct tty **ptys;     /* [lock] by index; borrowed: devpts_kill clears them */
	uint32_t cap, count;   /* [lock] */
};

static uint32_t g_pty_count; /* [a] pairs of all instances */

static const struct inode_ops g_root_ops, g_node_ops;
static const struct file_ops g_root_fops;

struct devpts *devpts_of(struct inode *ino)
{
	return ino->sb->type == &g_devpts_type ? ino->sb->priv : NULL;
}

/* ---- pairs ---- */

static int reserve_index(struct devpts *dp, struct tty *t)
{
	uint32_t i;

	for (i = 0; i < dp->cap; i++)
		if (!dp->ptys[i])
			break;
	if (i >= dp->opt.max)
		return -ENOSPC;
	if (i == dp->cap) {
		uint32_t cap = dp->cap ? dp->cap * 2 : 8;
		struct tty **p = realloc(dp->ptys, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		memset(p + dp->cap, 0, (cap - dp->cap) * sizeof(*p));
		dp->ptys = p;
		dp->cap = cap;
	}
	t->index = i;
	dp->ptys[i] = t;
	dp->count++;
	return 0;
}

struct tty *devpts_new_pty(struct devpts *dp, const struct cred *cred)
{
	struct inode *ino;
	struct tty *t;
	int err = -ENOSPC;

	if (__atomic_add_fetch(&g_pty_count, 1, __ATOMIC_RELAXED) > PTY_MAX)
		goto err_count;
	t = tty_new(0);
	err = -ENOMEM;
	if (!t)
		goto err_count;
	lock_acquire(&dp->lock);
	err = reserve_index(dp, t);
	lock_release(&dp->lock);
	if (err)
		goto err_tty;
	ino = inode_new(dp->sb, FIRST_INO + t->index, S_IFCHR | dp->opt.mode, &g_node_ops, &g_tty_ops);
	if (!ino) {
		err = -ENOMEM;
		goto err_index;
	}
	ino->uid = dp->opt.set_uid ? dp->opt.uid : cred->fsuid;
	ino->gid = dp->opt.set_gid ? dp->opt.gid : cred->fsgid;
	ino->rdev = linux_makedev(PTY_SLAVE_MAJOR, t->index);
	lock_acquire(&dp->lock);
	t->slave_inode = ino; /* from here on lookups find it */
	lock_release(&dp->lock);
	return t;
err_index:
	lock_acquire(&dp->lock);
	dp->ptys[t->index] = NULL;
	dp->count--;
	lock_release(&dp->lock);
err_tty:
	tty_put(t);
err_count:
	__atomic_fetch_sub(&g_pty_count, 1, __ATOMIC_RELAXED);
	return ERR_PTR(err);
}

void devpts_kill(struct tty *t)
{
	struct devpts *dp;
	int killed = 0;

	if (!t->slave_inode)
		return;
	dp = t->slave_inode->sb->priv;
	lock_acquire(&dp->lock);
	if (t->index < dp->cap && dp->ptys[t->index] == t) {
		dp->ptys[t->index] = NULL;
		dp->count--;
		killed = 1;
	}
	lock_release(&dp->lock);
	if (killed) {
		t->slave_inode->nlink = 0;
		__atomic_fetch_sub(&g_pty_count, 1, __ATOMIC_RELAXED);
	}
}

struct tty *devpts_tty(struct inode *ino)
{
	struct devpts *dp = devpts_of(ino);
	struct tty *t = NULL;
	uint64_t i = ino->ino - FIRST_INO;

	if (!dp || ino->ino < FIRST_INO)
		return NULL;
	lock_acquire(&dp->lock);
	if (i < dp->cap && dp->ptys[i] && dp->ptys[i]->slave_inode == ino)
		t = tty_get(dp->ptys[i]);
	lock_release(&dp->lock);
	return t;
}

/* ---- the directory ---- */

/* "0" or digits without a leading zero; -1 otherwise. */
static int64_t parse_index(const char *name, size_t len)
{
	int64_t v = 0;

	if (!len || len > 7 || (len > 1 && name[0] == '0'))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -1;
		v = v * 10 + (name[i] - '0');
	}
	return v;
}

/* An inode of its own would keep the superblock alive for ever, so ptmx is made when asked for. */
static struct inode *get_ptmx(struct devpts *dp)
{
	struct inode *ino = NULL;

	/* The directory's lock keeps two lookups apart. */
	lock_acquire(&dp->lock);
	if (dp->ptmx && ref_get_unless_zero(&dp->ptmx->ref))
		ino = dp->ptmx;
	lock_release(&dp->lock);
	if (ino)
		return ino;
	ino = inode_new(dp->sb, PTMX_INO, S_IFCHR, &g_node_ops, &g_tty_ops);
	if (!ino)
		return ERR_PTR(-ENOMEM);
	ino->rdev = linux_makedev(5, 2);
	lock_acquire(&dp->lock);
	ino->mode = S_IFCHR | dp->ptmx_mode;
	ino->uid = dp->ptmx_uid;
	ino->gid = dp->ptmx_gid;
	dp->ptmx = ino;
	lock_release(&dp->lock);
	return ino;
}

static void devpts_evict(struct inode *ino)
{
	struct devpts *dp = ino->sb->priv;

	if (!dp || ino->ino != PTMX_INO)
		return;
	lock_acquire(&dp->lock);
	if (dp->ptmx == ino)
		dp->ptmx = NULL;
	lock_release(&dp->lock);
}

static struct inode *devpts_lookup(struct inode *dir, const char *name, size_t len)
{
	struct devpts *dp = dir->sb->priv;
	struct inode *ino = NULL;
	int64_t i;

	if (len == 4 && memcmp(name, "ptmx", 4) == 0)
		return get_ptmx(dp);
	i = parse_index(name, len);
	lock_acquire(&dp->lock);
	if (i >= 0 && i < dp->cap && dp->ptys[i] && dp->ptys[i]->slave_inode)
		ino = inode_get(dp->ptys[i]->slave_inode);
	lock_release(&dp->lock);
	return ino ? ino : ERR_PTR(-ENOENT);
}

static int devpts_revalidate(struct dentry *d)
{
	struct inode *ino = d->inode;
	struct tty *t;

	if (!ino)
		return 0;
	if (ino->ino < FIRST_INO)
		return 1;
	t = devpts_tty(ino);
	if (!t)
		return 0;
	tty_put(t);
	return 1;
}

static int emit_pty(struct devpts *dp, struct dir_emit *de, uint32_t i)
{
	char name[16];
	int there, n;

	lock_acquire(&dp->lock);
	there = i < dp->cap && dp->ptys[i] && dp->ptys[i]->slave_inode;
	lock_release(&dp->lock);
	if (!there)
		return 1;
	n = snprintf(name, sizeof(name), "%u", i);
	return de->emit(de, name, (size_t)n, (uint64_t)i + 4, FIRST_INO + i, 2 /* DT_CHR */);
}

/* Positions: 0 ".", 1 "..", 2 ptmx, 3 + N the pairs. */
static int devpts_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct devpts *dp = f->inode->sb->priv;
	uint32_t cap = __atomic_load_n(&dp->cap, __ATOMIC_RELAXED);

	if (*pos == 0) {
		if (!de->emit(de, ".", 1, 1, ROOT_INO, 4))
			return 0;
		*pos = 1;
	}
	if (*pos == 1) {
		if (!de->emit(de, "..", 2, 2, ROOT_INO, 4))
			return 0;
		*pos = 2;
	}
	if (*pos == 2) {
		if (!de->emit(de, "ptmx", 4, 3, PTMX_INO, 2))
			return 0;
		*pos = 3;
	}
	for (; *pos - 3 < cap; ++*pos)
		if (!emit_pty(dp, de, (uint32_t)(*pos - 3)))
			return 0;
	return 0;
}

static int devpts_setattr(struct inode *ino, const struct iattr *attr)
{
	if (attr->valid & IATTR_SIZE)
		return S_ISDIR(ino->mode) ? -EISDIR : 0;
	if (attr->valid & IATTR_MODE)
		ino->mode = (ino->mode & S_IFMT) | (attr->mode & 07777);
	if (attr->valid & IATTR_UID)
		ino->uid = attr->uid;
	if (attr->valid & IATTR_GID)
		ino->gid = attr->gid;
	if (attr->valid & IATTR_ATIME)
		ino->atime = attr->atime;
	if (attr->valid & IATTR_MTIME)
		ino->mtime = attr->mtime;
	if (attr->valid & IATTR_CTIME)
		ino->ctime = attr->ctime;
	if (ino->ino == PTMX_INO) {
		struct devpts *dp = ino->sb->priv;

		lock_acquire(&dp->lock);
		dp->ptmx_mode = ino->mode & 07777;
		dp->ptmx_uid = ino->uid;
		dp->ptmx_gid = ino->gid;
		lock_release(&dp->lock);
	}
	return 0;
}

static const struct inode_ops g_root_ops = {
	.lookup = devpts_lookup,
	.setattr = devpts_setattr,
};

static const struct inode_ops g_node_ops = {
	.setattr = devpts_setattr,
};

static const struct file_ops g_root_fops = {
	.iterate = devpts_iterate,
};

/* ---- options and the superblock ---- */

static int parse_number(const char *val, int base, uint32_t limit, uint32_t *out)
{
	unsigned long v;
	char *end;

	if (*val < '0' || *val > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(val, &end, base);
	if (errno || *end || v > limit)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

static int parse_options(const char *options, struct devpts_options *o)
{
	char key[32], val[32];
	const char *pos = options;
	int r;

	while ((r = mount_option_next(&pos, key, sizeof(key), val, sizeof(val))) > 0) {
		int err = -EINVAL;

		if (strcmp(key, "uid") == 0) {
			err = parse_number(val, 10, UINT32_MAX - 1, &o->uid);
			o->set_uid = 1;
		} else if (strcmp(key, "gid") == 0) {
			err = parse_number(val, 10, UINT32_MAX - 1, &o->gid);
			o->set_gid = 1;
		} else if (strcmp(key, "mode") == 0) {
			err = parse_number(val, 8, UINT32_MAX, &o->mode);
			o->mode &= 07777;
		} else if (strcmp(key, "ptmxmode") == 0) {
			err = parse_number(val, 8, UINT32_MAX, &o->ptmxmode);
			o->ptmxmode &= 07777;
		} else if (strcmp(key, "max") == 0) {
			err = parse_number(val, 10, 1u << 20, &o->max);
		} else if (strcmp(key, "newinstance") == 0) {
			err = 0;
		}
		if (err)
			return err;
	}
	return r;
}

static void default_options(struct devpts_options *o)
{
	*o = (struct devpts_options){
		.mode = PTY_MODE_DEFAULT,
		.ptmxmode = PTMX_MODE_DEFAULT,
		.max = 1u << 20,
	};
}

static void devpts_show_options(struct superblock *sb, struct strbuf *out)
{
	struct devpts *dp = sb->priv;

	if (dp->opt.set_uid)
		strbuf_printf(out, ",uid=%u", dp->opt.uid);
	if (dp->opt.set_gid)
		strbuf_printf(out, ",gid=%u", dp->opt.gid);
	strbuf_printf(out, ",mode=%03o,ptmxmode=%03o", dp->opt.mode, dp->opt.ptmxmode);
	if (dp->opt.max < 1u << 20)
		strbuf_printf(out, ",max=%u", dp->opt.max);
}

static int devpts_remount(struct superblock *sb, const char *options)
{
	struct devpts *dp = sb->priv;
	struct devpts_options o;
	int err;

	default_options(&o);
	err = parse_options(options, &o);
	if (err)
		return err;
	lock_acquire(&dp->lock);
	dp->opt = o;
	dp->ptmx_mode = o.ptmxmode;
	if (dp->ptmx)
		dp->ptmx->mode = S_IFCHR | o.ptmxmode;
	lock_release(&dp->lock);
	return 0;
}

static int devpts_statfs(struct superblock *sb, struct linux_statfs *st)
{
	memset(st, 0, sizeof(*st));
	st->type = sb->magic;
	st->bsize = st->frsize = 4096;
	st->namelen = 255;
	return 0;
}

static void devpts_destroy(struct superblock *sb)
{
	struct devpts *dp = sb->priv;

	if (!dp)
		return;
	lock_destroy(&dp->lock);
	free(dp->ptys);
	free(dp);
}

static const struct super_ops g_super_ops = {
	.statfs = devpts_statfs,
	.evict = devpts_evict,
	.destroy = devpts_destroy,
	.remount = devpts_remount,
	.show_options = devpts_show_options,
	.revalidate = devpts_revalidate,
};

static struct superblock *devpts_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				       const char *options, const void *boot)
{
	struct devpts_options o;
	struct superblock *sb;
	struct inode *root;
	struct devpts *dp;
	int err;

	(void)boot;
	default_options(&o);
	err = parse_options(options, &o);
	if (err)
		return ERR_PTR(err);
	dp = calloc(1, sizeof(*dp));
	if (!dp)
		return ERR_PTR(-ENOMEM);
	sb = sb_new(vfs, &g_devpts_type, &g_super_ops, sb_flags | SB_NODCACHE | SB_NOCACHE_NEGATIVE,
		    DEVPTS_MAGIC, source);
	if (!sb) {
		free(dp);
		return ERR_PTR(-ENOMEM);
	}
	sb->blksize = 1024;
	lock_init(&dp->lock, RANK_LEAF);
	dp->opt = o;
	dp->ptmx_mode = o.ptmxmode;
	dp->sb = sb;
	sb->priv = dp;
	root = inode_new(sb, ROOT_INO, S_IFDIR | 0755, &g_root_ops, &g_root_fops);
	if (root)
		root->nlink = 2;
	sb->root = root ? dentry_new_root(sb, root) : NULL;
	if (!sb->root) {
		sb_put(sb);
		return ERR_PTR(-ENOMEM);
	}
	return sb;
}

const struct fs_type g_devpts_type = {
	.name = "devpts",
	.mount = devpts_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
