/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The anonymous filesystem: where pipes, sockets, eventfds and the like have their inodes. It is
 * mounted nowhere; its names are seen in /proc/PID/fd only.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

#define ANON_MAGIC 0x09041934

static int anon_setattr(struct inode *ino, const struct iattr *attr)
{
	if (attr->valid & IATTR_SIZE)
		return -EINVAL;
	inode_apply_attr(ino, attr);
	return 0;
}

static const struct inode_ops g_anon_inode_ops = {.setattr = anon_setattr};
static const struct super_ops g_anon_super_ops = {0};
static const struct fs_type g_anon_type = {.name = "anon_inodefs", .flags = FS_NODEV};

int anon_fs_init(struct vfs *vfs)
{
	struct superblock *sb;
	struct inode *root;

	sb = sb_new(vfs, &g_anon_type, &g_anon_super_ops, SB_NODCACHE, ANON_MAGIC, "anon_inodefs");
	if (!sb)
		return -ENOMEM;
	root = inode_new(sb, 1, S_IFDIR | 0500, &g_anon_inode_ops, NULL);
	sb->root = root ? dentry_new_root(sb, root) : NULL;
	if (!sb->root) {
		sb_put(sb);
		return -ENOMEM;
	}
	vfs->next_anon_ino = 1;
	vfs->anon_sb = sb;
	vfs->anon_mnt = mount_new(sb, MNT_F_NOEXEC | MNT_F_NOSUID);
	return vfs->anon_mnt ? 0 : -ENOMEM;
}

struct mount *vfs_anon_mount(struct vfs *vfs)
{
	return vfs->anon_mnt;
}

/* The type bits stat(2) shows: of pipes and sockets their own, of the rest none. */
static uint32_t anon_mode(const char *name)
{
	if (strncmp(name, "pipe:", 5) == 0)
		return S_IFIFO | 0600;
	if (strncmp(name, "socket:", 7) == 0)
		return S_IFSOCK | 0777;
	return 0600;
}

struct file *file_new_anon(struct vfs *vfs, const char *name, const struct file_ops *ops, void *priv,
			   uint32_t flags, uint32_t mode, const struct cred *cred)
{
	uint64_t num = __atomic_add_fetch(&vfs->next_anon_ino, 1, __ATOMIC_RELAXED);
	const char *percent = strstr(name, "%ino");
	char text[NAME_MAX + 1];
	struct inode *ino;
	struct dentry *d;
	struct file *f;

	if (percent)
		snprintf(text, sizeof(text), "%.*s%llu%s", (int)(percent - name), name,
			 (unsigned long long)num, percent + 4);
	else
		snprintf(text, sizeof(text), "%s", name);
	ino = inode_new(vfs->anon_sb, num, anon_mode(name), &g_anon_inode_ops, NULL);
	if (!ino)
		return ERR_PTR(-ENOMEM);
	ino->uid = cred->fsuid;
	ino->gid = cred->fsgid;
	d = dentry_new_unhashed(vfs->anon_sb, vfs->anon_sb->root, text, strlen(text), ino);
	if (!d)
		return ERR_PTR(-ENOMEM);
	d->flags = 0;
	f = file_new_on(ino, (struct path){vfs->anon_mnt, d}, ops, priv, flags, mode, cred);
	dentry_put(d);
	return f;
}
