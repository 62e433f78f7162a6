/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes of table-made filesystems: made afresh at each lookup, numbered by what they stand for,
 * so that two lookups of one thing agree.
 */
#include "platform/base/hash.h"
#include "vfs/pseudo/pseudo_priv.h"

#define PSEUDO_INO_MASK ((1ull << 40) - 1)

uint64_t pseudo_ino(const struct superblock *sb, const struct pseudo_desc *desc,
		    const struct pseudo_inst *inst)
{
	if (desc == pseudo_s(sb)->fs->root)
		return 1;
	/* Keyed hash: a plain function of the pointer would show the guest our addresses. */
	uint64_t key[PSEUDO_KEYS + 1] = { (uintptr_t)desc };

	memcpy(key + 1, inst->key, sizeof(inst->key));
	return (hash_bytes(key, sizeof(key), 0) & PSEUDO_INO_MASK) | 0x100;
}

void pseudo_inherit(struct superblock *sb, const struct pseudo_inst *from, struct pseudo_inst *to)
{
	struct pseudo_sb *ps = pseudo_s(sb);

	*to = *from;
	if (to->obj && ps->fs->obj_get)
		ps->fs->obj_get(ps->priv, to->obj);
}

static uint32_t count_subdirs(const struct pseudo_desc *d)
{
	uint32_t n = 0;

	for (; d && d->name; d++)
		n += S_ISDIR(d->mode);
	return n;
}

static int refresh(struct inode *ino)
{
	struct pseudo_req rq = pseudo_req_of(ino);
	const struct pseudo_fs *fs = pseudo_s(ino->sb)->fs;
	int r = 0;

	if (rq.inst->obj && fs->obj_attr)
		r = fs->obj_attr(&rq, ino);
	if (!r && rq.desc->attr)
		r = rq.desc->attr(&rq, ino);
	return r;
}

struct inode *pseudo_inode_new(struct superblock *sb, const struct pseudo_desc *desc,
			       const struct pseudo_inst *inst)
{
	struct pseudo_sb *ps = pseudo_s(sb);
	struct pseudo_inode *pi = calloc(1, sizeof(*pi));
	const struct inode_ops *ops = desc->follow ? &g_pseudo_magic_ops : &g_pseudo_inode_ops;
	const struct file_ops *fops = S_ISDIR(desc->mode)  ? &g_pseudo_dir_ops
				      : S_ISREG(desc->mode) ? &g_pseudo_text_ops
							    : NULL;
	struct inode *ino = pi ? inode_new(sb, pseudo_ino(sb, desc, inst), desc->mode, ops, fops)
			       : NULL;
	int r;

	if (!ino || IS_ERR(ino)) {
		free(pi);
		if (inst->obj && ps->fs->obj_put)
			ps->fs->obj_put(ps->priv, inst->obj);
		return ERR_PTR(-ENOMEM);
	}
	pi->desc = desc;
	pi->inst = *inst;
	ino->priv = pi;
	ino->nlink = S_ISDIR(desc->mode) ? 2 + count_subdirs(desc->children) : 1;
	ino->size = S_ISREG(desc->mode) ? ps->fs->file_size : 0;
	ino->atime = ino->mtime = ino->ctime = vfs_now();
	r = refresh(ino);
	if (r) {
		inode_put(ino);
		return ERR_PTR(r);
	}
	return ino;
}

static struct inode *pseudo_lookup(struct inode *dir, const char *name, size_t len)
{
	struct pseudo_req rq = pseudo_req_of(dir);
	const struct pseudo_desc *d = rq.desc->children;
	struct pseudo_inst inst;
	struct pseudo_sb *ps = pseudo_s(dir->sb);

	for (; d && d->name; d++)
		if (!strncmp(d->name, name, len) && d->name[len] == 0) {
			struct pseudo_req child = rq;

			child.desc = d;
			if (d->present && !d->present(&child))
				return ERR_PTR(-ENOENT);
			pseudo_inherit(dir->sb, rq.inst, &inst);
			return pseudo_inode_new(dir->sb, d, &inst);
		}
	const struct pseudo_dyn *dyn = rq.desc->dyn;

	if (!dyn)
		return ERR_PTR(-ENOENT);
	inst = *rq.inst;
	inst.obj = NULL;
	int r = dyn->find(&rq, name, len, &inst);

	if (r)
		return ERR_PTR(r);
	if (!inst.obj && rq.inst->obj) {
		inst.obj = rq.inst->obj;
		if (ps->fs->obj_get)
			ps->fs->obj_get(ps->priv, inst.obj);
	}
	return pseudo_inode_new(dir->sb, dyn->each, &inst);
}

static ssize_t pseudo_readlink(struct inode *ino, char *buf, size_t size)
{
	struct pseudo_req rq = pseudo_req_of(ino);
	struct strbuf sb;

	if (!rq.desc->readlink) {
		/* A fixed link keeps its text in ptr. */
		if (!rq.desc->ptr || !S_ISLNK(ino->mode))
			return -EINVAL;
		size_t n = strlen(rq.desc->ptr);

		n = n < size ? n : size;
		memcpy(buf, rq.desc->ptr, n);
		return (ssize_t)n;
	}
	strbuf_init(&sb);
	int r = rq.desc->readlink(&rq, &sb);

	if (!r)
		r = sb.err;
	size_t n = sb.len < size ? sb.len : size;

	if (!r && n)
		memcpy(buf, sb.data, n);
	strbuf_free(&sb);
	return r ? r : (ssize_t)n;
}

static int pseudo_follow(struct inode *ino, struct path *out)
{
	struct pseudo_req rq = pseudo_req_of(ino);

	return rq.desc->follow(&rq, out);
}

static int pseudo_getattr(struct inode *ino)
{
	struct pseudo_inode *pi = ino->priv;

	if (!pi->inst.obj && !pi->desc->attr)
		return 0;
	lock_acquire(&ino->lock);
	int r = refresh(ino);

	lock_release(&ino->lock);
	return r;
}

/* Truncation by O_TRUNC means nothing; times may be set; owner and mode are not the guest's. */
static int pseudo_setattr(struct inode *ino, const struct iattr *attr)
{
	if (attr->valid & (IATTR_MODE | IATTR_UID | IATTR_GID))
		return -EPERM;
	if (attr->valid & IATTR_ATIME)
		ino->atime = attr->atime;
	if (attr->valid & IATTR_MTIME)
		ino->mtime = attr->mtime;
	return 0;
}

static int pseudo_permission(struct inode *ino, uint32_t mask, const struct cred *cred)
{
	struct pseudo_req rq = pseudo_req_of(ino);

	rq.cred = cred;
	if (rq.inst->obj) {
		/* The owner follows the task's credentials. */
		const struct pseudo_fs *fs = pseudo_s(ino->sb)->fs;

		if (fs->obj_attr) {
			int r = fs->obj_attr(&rq, ino);

			if (r)
				return r;
		}
	}
	if (rq.desc->permission)
		return rq.desc->permission(&rq, ino, mask);
	return vfs_generic_permission(ino, mask, cred);
}

const struct inode_ops g_pseudo_inode_ops = {
	.lookup = pseudo_lookup,
	.readlink = pseudo_readlink,
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.permission = pseudo_permission,
	.open = pseudo_open,
};

const struct inode_ops g_pseudo_magic_ops = {
	.readlink = pseudo_readlink,
	.follow = pseudo_follow,
	.getattr = pseudo_getattr,
	.setattr = pseudo_setattr,
	.permission = pseudo_permission,
};
