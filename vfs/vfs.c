/* SPDX-License-Identifier: Apache-2.0 */
/* The VFS object and superblocks: what lives as long as a mount does. */
#include "vfs/vfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

#define HASH_START 1024u

struct vfs *vfs_new(void)
{
	struct vfs *vfs = calloc(1, sizeof(*vfs));

	if (!vfs)
		return NULL;
	vfs->hash = calloc(HASH_START, sizeof(*vfs->hash));
	if (!vfs->hash) {
		free(vfs);
		return NULL;
	}
	vfs->hash_mask = HASH_START - 1;
	lock_init(&vfs->rename_lock, RANK_VFS_RENAME);
	rwlock_init(&vfs->tree_lock, RANK_VFS_TREE);
	lock_init(&vfs->notify_lock, RANK_VFS_NOTIFY);
	lock_init(&vfs->flock_lock, RANK_FLOCK);
	lock_init(&vfs->shmem_lock, RANK_BOOT);
	for (int i = 0; i < APPEND_LOCKS; i++)
		lock_init(&vfs->append_locks[i], RANK_FILE_APPEND);
	list_init(&vfs->lru);
	list_init(&vfs->namespaces);
	list_init(&vfs->late_dead);
	list_init(&vfs->flock_ctxs);
	list_init(&vfs->flock_waits);
	vfs->next_mnt_id = 1;
	vfs->next_peer_group = 1;
	if (anon_fs_init(vfs)) {
		vfs_destroy(vfs);
		return NULL;
	}
	return vfs;
}

void vfs_destroy(struct vfs *vfs)
{
	if (!vfs)
		return;
	mount_put(vfs->shmem_mnt);
	mount_put(vfs->anon_mnt);
	lock_destroy(&vfs->rename_lock);
	rwlock_destroy(&vfs->tree_lock);
	lock_destroy(&vfs->notify_lock);
	lock_destroy(&vfs->flock_lock);
	lock_destroy(&vfs->shmem_lock);
	free(vfs->hash);
	free(vfs);
}

uint64_t vfs_new_anon_dev(struct vfs *vfs)
{
	/* Minor 0 is nobody's; 20 bits as Linux's dev_t has. */
	uint32_t minor = __atomic_add_fetch(&vfs->next_anon_minor, 1, __ATOMIC_RELAXED);

	return linux_makedev(0, 1 + (minor - 1) % 0xfffff);
}

struct superblock *sb_new(struct vfs *vfs, const struct fs_type *type, const struct super_ops *ops,
			  uint32_t sb_flags, int64_t magic, const char *source)
{
	struct superblock *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	ref_init(&sb->ref);
	sb->live = 1;
	sb->source = strdup(source ? source : "none");
	if (!sb->source) {
		free(sb);
		return NULL;
	}
	sb->vfs = vfs;
	sb->type = type;
	sb->ops = ops;
	sb->flags = sb_flags;
	sb->magic = magic;
	sb->blksize = 4096;
	sb->dev = vfs_new_anon_dev(vfs);
	return sb;
}

struct superblock *sb_get(struct superblock *sb)
{
	ref_get(&sb->ref);
	return sb;
}

/*
 * Two steps: with the last mount the names go; with the last inode (an open file or a bound
 * socket may outlive the mount) the superblock itself.
 */
void sb_put(struct superblock *sb)
{
	if (!sb || !ref_put(&sb->ref))
		return;
	dentry_drop_superblock(sb);
	sb_unlive(sb);
}

void sb_unlive(struct superblock *sb)
{
	if (__atomic_sub_fetch(&sb->live, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	if (sb->ops && sb->ops->destroy)
		sb->ops->destroy(sb);
	free(sb->source);
	free(sb);
}

int mount_option_next(const char **pos, char *key, size_t ksize, char *val, size_t vsize)
{
	const char *s = *pos, *end, *eq;
	size_t klen, vlen;

	if (!s)
		return 0;
	while (*s == ',')
		s++;
	if (!*s) {
		*pos = s;
		return 0;
	}
	end = strchr(s, ',');
	if (!end)
		end = s + strlen(s);
	eq = memchr(s, '=', (size_t)(end - s));
	klen = (size_t)((eq ? eq : end) - s);
	vlen = eq ? (size_t)(end - eq - 1) : 0;
	*pos = end;
	if (klen >= ksize || vlen >= vsize)
		return -EINVAL;
	memcpy(key, s, klen);
	key[klen] = 0;
	if (vlen)
		memcpy(val, eq + 1, vlen);
	val[vlen] = 0;
	return 1;
}

/* ------------------------------------------------------------------ paths */

struct path path_get(struct path p)
{
	mount_get(p.mnt);
	dentry_get(p.dentry);
	return p;
}

void path_put(struct path p)
{
	/* The dentry first: the mount may be what keeps its superblock. */
	dentry_put(p.dentry);
	mount_put(p.mnt);
}
