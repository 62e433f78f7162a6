/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devtmpfs: a tmpfs that starts with the nodes a container's /dev has. What is mounted below
 * (pts, shm, mqueue) are empty directories here; boot mounts over them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/dev/dev.h"

extern const struct fs_type g_tmpfs_type;

struct node {
	const char *name;
	uint32_t mode; /* with the type; S_IFLNK: target counts */
	uint32_t major, minor;
	const char *target;
};

static const struct node g_nodes[] = {
	{ "null", S_IFCHR | 0666, 1, 3, NULL },
	{ "zero", S_IFCHR | 0666, 1, 5, NULL },
	{ "full", S_IFCHR | 0666, 1, 7, NULL },
	{ "random", S_IFCHR | 0666, 1, 8, NULL },
	{ "urandom", S_IFCHR | 0666, 1, 9, NULL },
	{ "kmsg", S_IFCHR | 0644, 1, 11, NULL },
	{ "tty", S_IFCHR | 0666, 5, 0, NULL },
	{ "console", S_IFCHR | 0620, 5, 1, NULL },
	{ "pts", S_IFDIR | 0755, 0, 0, NULL },
	{ "shm", S_IFDIR | 01777, 0, 0, NULL },
	{ "mqueue", S_IFDIR | 01777, 0, 0, NULL },
	{ "ptmx", S_IFLNK | 0777, 0, 0, "pts/ptmx" },
	{ "fd", S_IFLNK | 0777, 0, 0, "/proc/self/fd" },
	{ "stdin", S_IFLNK | 0777, 0, 0, "/proc/self/fd/0" },
	{ "stdout", S_IFLNK | 0777, 0, 0, "/proc/self/fd/1" },
	{ "stderr", S_IFLNK | 0777, 0, 0, "/proc/self/fd/2" },
};

static int add_node(struct inode *dir, const struct node *n, const struct cred *cred)
{
	struct inode *ino;

	lock_acquire(&dir->lock);
	switch (n->mode & S_IFMT) {
	case S_IFLNK:
		ino = dir->ops->symlink(dir, n->name, n->target, cred);
		break;
	case S_IFDIR:
		ino = dir->ops->mkdir(dir, n->name, n->mode, cred);
		break;
	default:
		ino = dir->ops->mknod(dir, n->name, n->mode, linux_makedev(n->major, n->minor),
				      cred);
	}
	lock_release(&dir->lock);
	if (IS_ERR(ino))
		return (int)PTR_ERR(ino);
	inode_put(ino);
	return 0;
}

static struct superblock *devtmpfs_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
					 const char *options, const void *boot)
{
	struct superblock *sb;
	struct cred *cred;
	char buf[4096];
	int err = 0;

	/* A /dev is 0755 unless asked otherwise; a later mode= wins. */
	if (snprintf(buf, sizeof(buf), "mode=755%s%s", options[0] ? "," : "", options) >=
	    (int)sizeof(buf))
		return ERR_PTR(-EINVAL);
	sb = g_tmpfs_type.mount(vfs, source, sb_flags, buf, boot);
	if (IS_ERR(sb))
		return sb;
	sb->type = &g_devtmpfs_type;
	cred = cred_new(0, 0, CAP_ALL_MASK);
	if (!cred)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < sizeof(g_nodes) / sizeof(g_nodes[0]); i++)
		err = add_node(sb->root->inode, &g_nodes[i], cred);
	if (cred)
		cred_put(cred);
	if (err) {
		sb_put(sb);
		return ERR_PTR(err);
	}
	return sb;
}

const struct fs_type g_devtmpfs_type = {
	.name = "devtmpfs",
	.mount = devtmpfs_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
