/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filesystem of message queues: one flat, sticky directory. Creating a file makes a queue;
 * removing its name leaves it to those who have it open.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/mqueue/mqueue_priv.h"
#include "vfs/vfs_priv.h"

#define MQUEUE_MAGIC 0x19800202
#define DIRENT_SIZE  20 /* what each name adds to the directory's size */

struct mq_name {
	struct mq_name *next;
	struct inode *ino; /* a reference */
	uint64_t cookie;   /* getdents position */
	size_t len;
	char name[];
};

/* Of the root directory; under its inode lock. */
struct mq_root {
	struct mq_name *names;
	uint64_t next_cookie, next_ino;
	unsigned int count;
};

static __thread const struct mq_limits *g_next_limits;

void mqueue_next_limits(const struct mq_limits *l)
{
	g_next_limits = l;
}

static struct mq_name **find(struct inode *dir, const char *name, size_t len)
{
	struct mq_root *r = dir->priv;
	struct mq_name **p = &r->names;

	while (*p && ((*p)->len != len || memcmp((*p)->name, name, len) != 0))
		p = &(*p)->next;
	return p;
}

static struct inode *mq_lookup(struct inode *dir, const char *name, size_t len)
{
	struct mq_name *n = *find(dir, name, len);

	return n ? inode_get(n->ino) : ERR_PTR(-ENOENT);
}

static int mq_setattr(struct inode *ino, const struct iattr *attr)
{
	/* A queue has no size to set: O_TRUNC and truncate are accepted and do nothing. */
	struct iattr a = *attr;

	a.valid &= ~IATTR_SIZE;
	inode_apply_attr(ino, &a);
	return 0;
}

static const struct inode_ops g_file_iops = {
	.setattr = mq_setattr,
};

/* The queue behind a new inode, charged to its owner. */
static struct mqueue *queue_make(const struct cred *cred)
{
	struct mq_limits l = { MQ_DEFAULT_COUNT, MQ_DEFAULT_SIZE };
	struct mqueue *q;
	uint64_t cost;
	int err;

	if (g_next_limits)
		l = *g_next_limits;
	err = mqueue_cost(&l, &cost);
	if (!err && !cred_has_cap(cred, CAP_SYS_RESOURCE) &&
	    (l.max_count > MQ_DEFAULT_COUNT || l.msg_size > MQ_DEFAULT_SIZE))
		err = -EINVAL;
	if (!err && mqueue_charge)
		err = mqueue_charge(cred, cost);
	if (err)
		return ERR_PTR(err);
	q = mqueue_new(&l);
	if (!q) {
		if (mqueue_uncharge)
			mqueue_uncharge(cred->uid, cost);
		return ERR_PTR(-ENOMEM);
	}
	q->owner_uid = cred->uid;
	q->cost = cost;
	return q;
}

static struct inode *mq_create(struct inode *dir, const char *name, uint32_t mode,
			       const struct cred *cred)
{
	struct mq_root *r = dir->priv;
	size_t len = strlen(name);
	struct mq_name *n;
	struct mqueue *q;
	struct inode *ino;

	if (r->count >= MQ_QUEUES_MAX && !cred_has_cap(cred, CAP_SYS_RESOURCE))
		return ERR_PTR(-ENOSPC);
	q = queue_make(cred);
	if (IS_ERR(q))
		return (void *)q;
	n = malloc(sizeof(*n) + len + 1);
	ino = n ? inode_new(dir->sb, ++r->next_ino, S_IFREG | (mode & 07777), &g_file_iops,
			    &g_mqueue_fops)
		: NULL;
	if (!ino) {
		free(n);
		if (mqueue_uncharge)
			mqueue_uncharge(q->owner_uid, q->cost);
		mqueue_free(q);
		return ERR_PTR(-ENOMEM);
	}
	inode_init_owner(ino, dir, S_IFREG | (mode & 07777), cred);
	ino->priv = q;
	ino->size = 80; /* of the text that read gives, as Linux shows */
	ino->nlink = 1;
	memcpy(n->name, name, len + 1);
	n->len = len;
	n->ino = inode_get(ino);
	n->cookie = ++r->next_cookie;
	n->next = NULL;
	*find(dir, "", 0) = n; /* no name is empty: the end of the list */
	r->count++;
	dir->size += DIRENT_SIZE;
	inode_touch(dir, IATTR_MTIME | IATTR_CTIME | IATTR_ATIME);
	return ino;
}

static int mq_unlink(struct inode *dir, const char *name, struct inode *victim)
{
	struct mq_root *r = dir->priv;
	struct mq_name **p = find(dir, name, strlen(name)), *n = *p;

	if (!n)
		return -ENOENT;
	*p = n->next;
	r->count--;
	dir->size -= DIRENT_SIZE;
	victim->nlink = 0;
	inode_touch(dir, IATTR_MTIME | IATTR_CTIME | IATTR_ATIME);
	inode_put(n->ino); /* the caller holds another */
	free(n);
	return 0;
}

#define FIRST_POS 2 /* after "." and ".." */

static int mq_iterate(struct file *f, struct dir_emit *de, int64_t *pos)
{
	struct inode *dir = f->inode;
	struct mq_root *r = dir->priv;

	lock_acquire(&dir->lock);
	for (; *pos < FIRST_POS; (*pos)++)
		if (!de->emit(de, "..", *pos == 0 ? 1 : 2, (uint64_t)*pos + 1, dir->ino, DT_DIR))
			goto out;
	for (struct mq_name *n = r->names; n; n = n->next) {
		if (n->cookie + FIRST_POS <= (uint64_t)*pos)
			continue;
		if (!de->emit(de, n->name, n->len, n->cookie + FIRST_POS, n->ino->ino, DT_REG))
			break;
		*pos = (int64_t)(n->cookie + FIRST_POS);
	}
out:
	lock_release(&dir->lock);
	return 0;
}

static const struct inode_ops g_dir_iops = {
	.lookup = mq_lookup,
	.create = mq_create,
	.unlink = mq_unlink,
	.setattr = mq_setattr,
};

static const struct file_ops g_dir_fops = {
	.iterate = mq_iterate,
};

static void mq_evict(struct inode *ino)
{
	struct mqueue *q = ino->priv;

	if (!q)
		return;
	if (S_ISDIR(ino->mode)) {
		struct mq_root *r = ino->priv;

		while (r->names) {
			struct mq_name *n = r->names;

			r->names = n->next;
			inode_put(n->ino);
			free(n);
		}
		free(r);
		return;
	}
	if (mqueue_uncharge)
		mqueue_uncharge(q->owner_uid, q->cost);
	mqueue_free(q);
}

static const struct super_ops g_super_ops = {
	.evict = mq_evict,
};

struct superblock *mqueue_sb_new(struct vfs *vfs)
{
	struct superblock *sb =
		sb_new(vfs, &g_mqueue_type, &g_super_ops, 0, MQUEUE_MAGIC, "mqueue");
	struct mq_root *r;
	struct inode *ino;

	if (!sb || IS_ERR(sb))
		return sb ? sb : ERR_PTR(-ENOMEM);
	r = calloc(1, sizeof(*r));
	ino = r ? inode_new(sb, 1, S_IFDIR | S_ISVTX | 0777, &g_dir_iops, &g_dir_fops) : NULL;
	if (!ino) {
		free(r);
		sb_put(sb);
		return ERR_PTR(-ENOMEM);
	}
	ino->priv = r;
	ino->nlink = 2;
	ino->size = 2 * DIRENT_SIZE;
	r->next_ino = 1;
	sb->root = dentry_new_root(sb, ino);
	if (!sb->root || IS_ERR(sb->root)) {
		sb->root = NULL;
		sb_put(sb);
		return ERR_PTR(-ENOMEM);
	}
	return sb;
}

static struct superblock *mq_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				   const char *options, const void *boot)
{
	(void)source;
	(void)sb_flags;
	(void)boot;
	if (*options)
		return ERR_PTR(-EINVAL);
	/* At boot there is no caller yet: the instance is handed over when the first one comes. */
	return mqueue_sb_of_caller ? mqueue_sb_of_caller(vfs) : mqueue_sb_new(vfs);
}

const struct fs_type g_mqueue_type = {
	.name = "mqueue",
	.mount = mq_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
