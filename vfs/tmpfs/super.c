/* SPDX-License-Identifier: Apache-2.0 */
/* tmpfs as a whole: mount options, limits, statfs, the making and unmaking of its inodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/host/memfile.h"
#include "vfs/tmpfs/tmpfs_priv.h"

static uint64_t g_memory; /* bytes; 0: as much as the host has */

void tmpfs_set_memory(uint64_t bytes)
{
	__atomic_store_n(&g_memory, bytes, __ATOMIC_RELAXED);
}

uint64_t tmp_memory_pages(void)
{
	uint64_t bytes = __atomic_load_n(&g_memory, __ATOMIC_RELAXED);

	return (bytes ? bytes : memfile_host_memory()) / PAGE;
}

/* Linux's default for size= and, in pages, for nr_inodes=. */
static uint64_t half_of_memory(void)
{
	return tmp_memory_pages() / 2;
}

int tmp_charge_page(struct tmp_sb *tsb)
{
	uint64_t max = __atomic_load_n(&tsb->max_pages, __ATOMIC_RELAXED);
	uint64_t used = __atomic_add_fetch(&tsb->used_pages, 1, __ATOMIC_RELAXED);

	if (!max || used <= max)
		return 0;
	__atomic_fetch_sub(&tsb->used_pages, 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

static int charge_inode(struct tmp_sb *tsb)
{
	uint64_t max = __atomic_load_n(&tsb->max_inodes, __ATOMIC_RELAXED);
	uint64_t used = __atomic_add_fetch(&tsb->used_inodes, 1, __ATOMIC_RELAXED);

	if (!max || used <= max)
		return 0;
	__atomic_fetch_sub(&tsb->used_inodes, 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

struct inode *tmp_inode_new(struct superblock *sb, const struct inode *dir, uint32_t mode,
			    uint64_t rdev, const struct cred *cred)
{
	struct tmp_sb *tsb = sb->priv;
	struct tmp_node *n = calloc(1, sizeof(*n));
	const struct inode_ops *ops = &g_tmp_special_ops;
	const struct file_ops *fops = NULL;
	struct inode *ino;
	int r;

	if (!n)
		return ERR_PTR(-ENOMEM);
	r = charge_inode(tsb);
	if (r) {
		free(n);
		return ERR_PTR(r);
	}
	if (S_ISREG(mode)) {
		ops = &g_tmp_file_ops;
		fops = &g_tmp_file_fops;
		lock_init(&n->reg.lock, RANK_TMPFS);
	} else if (S_ISDIR(mode)) {
		ops = &g_tmp_dir_ops;
		fops = &g_tmp_dir_fops;
	} else if (S_ISLNK(mode)) {
		ops = &g_tmp_link_ops;
	}
	/* The number is unique among living inodes for any practical life of the sandbox. */
	ino = inode_new(sb, __atomic_add_fetch(&tsb->next_ino, 1, __ATOMIC_RELAXED), mode, ops, fops);
	if (!ino) {
		__atomic_fetch_sub(&tsb->used_inodes, 1, __ATOMIC_RELAXED);
		free(n);
		return ERR_PTR(-ENOMEM);
	}
	n->inode = ino;
	ino->priv = n;
	ino->rdev = rdev;
	if (cred)
		inode_init_owner(ino, dir, mode, cred);
	if (S_ISDIR(mode)) {
		ino->nlink = 2;
		n->dir.next_cookie = 2; /* 0 and 1 are "." and ".." */
		ino->size = 2 * DIRENT_BYTES;
		n->dir.parent = ino;
	}
	return ino;
}

static void tmp_evict(struct inode *ino)
{
	struct tmp_sb *tsb = tmp_sb(ino);
	struct tmp_node *n = tmp_node(ino);

	if (!n)
		return;
	if (S_ISREG(ino->mode))
		tmp_data_evict(n);
	else if (S_ISDIR(ino->mode))
		tmp_dir_evict(n);
	tmp_xattr_evict(n);
	free(n);
	__atomic_fetch_sub(&tsb->used_inodes, 1, __ATOMIC_RELAXED);
}

static void tmp_destroy(struct superblock *sb)
{
	free(sb->priv);
}

static int tmp_statfs(struct superblock *sb, struct linux_statfs *st)
{
	struct tmp_sb *tsb = sb->priv;
	uint64_t used = __atomic_load_n(&tsb->used_pages, __ATOMIC_RELAXED);
	uint64_t inodes = __atomic_load_n(&tsb->used_inodes, __ATOMIC_RELAXED);

	if (tsb->max_pages) {
		st->blocks = tsb->max_pages;
		st->bfree = st->bavail = used < tsb->max_pages ? tsb->max_pages - used : 0;
	}
	if (tsb->max_inodes) {
		st->files = tsb->max_inodes;
		st->ffree = inodes < tsb->max_inodes ? tsb->max_inodes - inodes : 0;
	}
	return 0;
}

/* "64m", "50%", "4096": bytes, or a share of memory. */
static int parse_size(const char *s, int percent_ok, uint64_t *out)
{
	char *end;
	uint64_t v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno)
		return -EINVAL;
	if (percent_ok && end[0] == '%' && !end[1]) {
		if (v > 10000)
			return -EINVAL;
		*out = v * (tmp_memory_pages() / 100) * PAGE;
		return 0;
	}
	if (*end) {
		static const char units[] = "kmgtpe";
		const char *u = strchr(units, *end | 0x20);

		if (!u || __builtin_mul_overflow(v, 1ull << 10 * (u - units + 1), &v))
			return -EINVAL;
		end++;
	}
	if (*end)
		return -EINVAL;
	*out = v;
	return 0;
}

static int parse_u32(const char *s, int base, uint32_t max, uint32_t *out)
{
	char *end;
	unsigned long v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(s, &end, base);
	if (errno || *end || v > max)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

/* Parses into *tsb; only what is named changes. */
static int parse_options(struct tmp_sb *tsb, const char *options)
{
	const char *pos = options;
	char key[64], val[256];
	uint64_t v;
	int r;

	while ((r = mount_option_next(&pos, key, sizeof(key), val, sizeof(val))) > 0) {
		if (strcmp(key, "size") == 0) {
			r = parse_size(val, 1, &v);
			if (!r)
				tsb->max_pages = v / PAGE + (v % PAGE != 0);
		} else if (strcmp(key, "nr_blocks") == 0) {
			r = parse_size(val, 0, &v);
			if (!r)
				tsb->max_pages = v;
		} else if (strcmp(key, "nr_inodes") == 0) {
			r = parse_size(val, 0, &v);
			if (!r)
				tsb->max_inodes = v;
		} else if (strcmp(key, "mode") == 0) {
			r = parse_u32(val, 8, UINT32_MAX, &tsb->mode);
			tsb->mode &= 07777;
			tsb->flags |= TMP_SHOW_MODE;
		} else if (strcmp(key, "uid") == 0) {
			r = parse_u32(val, 10, UINT32_MAX - 1, &tsb->uid);
			tsb->flags |= TMP_SHOW_UID;
		} else if (strcmp(key, "gid") == 0) {
			r = parse_u32(val, 10, UINT32_MAX - 1, &tsb->gid);
			tsb->flags |= TMP_SHOW_GID;
		} else if (strcmp(key, "huge") != 0 && strcmp(key, "mpol") != 0 &&
			   strcmp(key, "inode64") != 0 && strcmp(key, "inode32") != 0 &&
			   strcmp(key, "noswap") != 0) {
			r = -EINVAL;
		}
		if (r < 0)
			return r;
	}
	return r;
}

static int tmp_remount(struct superblock *sb, const char *options)
{
	struct tmp_sb *tsb = sb->priv, fresh = *tsb;
	int r = parse_options(&fresh, options);

	if (r)
		return r;
	if (fresh.max_pages && (!tsb->max_pages || fresh.max_pages < tsb->used_pages))
		return -EINVAL;
	if (fresh.max_inodes && (!tsb->max_inodes || fresh.max_inodes < tsb->used_inodes))
		return -EINVAL;
	tsb->max_pages = fresh.max_pages;
	tsb->max_inodes = fresh.max_inodes;
	return 0;
}

static void tmp_show_options(struct superblock *sb, struct strbuf *out)
{
	struct tmp_sb *tsb = sb->priv;

	if (tsb->max_pages && tsb->max_pages != half_of_memory())
		strbuf_printf(out, ",size=%lluk", (unsigned long long)tsb->max_pages * (PAGE / 1024));
	if (tsb->max_inodes && tsb->max_inodes != half_of_memory())
		strbuf_printf(out, ",nr_inodes=%llu", (unsigned long long)tsb->max_inodes);
	if ((tsb->flags & TMP_SHOW_MODE) && tsb->mode != 01777)
		strbuf_printf(out, ",mode=%03o", tsb->mode);
	if ((tsb->flags & TMP_SHOW_UID) && tsb->uid)
		strbuf_printf(out, ",uid=%u", tsb->uid);
	if ((tsb->flags & TMP_SHOW_GID) && tsb->gid)
		strbuf_printf(out, ",gid=%u", tsb->gid);
	strbuf_puts(out, ",inode64");
}

static const struct super_ops g_tmp_super_ops = {
	.statfs = tmp_statfs,
	.evict = tmp_evict,
	.destroy = tmp_destroy,
	.remount = tmp_remount,
	.show_options = tmp_show_options,
};

struct superblock *tmp_sb_make(struct vfs *vfs, const char *source, uint32_t sb_flags,
			       const char *options, uint32_t tmp_flags)
{
	struct tmp_sb *tsb = calloc(1, sizeof(*tsb));
	struct superblock *sb;
	struct inode *root;
	int r;

	if (!tsb)
		return ERR_PTR(-ENOMEM);
	tsb->mode = 01777;
	tsb->max_pages = tsb->max_inodes = half_of_memory();
	r = parse_options(tsb, options);
	tsb->flags |= tmp_flags;
	sb = r ? NULL
	       : sb_new(vfs, &g_tmpfs_type, &g_tmp_super_ops, sb_flags, TMPFS_MAGIC, source);
	if (!sb) {
		free(tsb);
		return ERR_PTR(r ? r : -ENOMEM);
	}
	sb->priv = tsb;
	root = tmp_inode_new(sb, NULL, S_IFDIR | tsb->mode, 0, NULL);
	if (IS_ERR(root)) {
		sb_put(sb);
		return (void *)root;
	}
	root->uid = tsb->uid;
	root->gid = tsb->gid;
	sb->root = dentry_new_root(sb, root);
	if (!sb->root) {
		sb_put(sb);
		return ERR_PTR(-ENOMEM);
	}
	return sb;
}

static struct superblock *tmp_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				    const char *options, const void *boot)
{
	return tmp_sb_make(vfs, source, sb_flags, options, 0);
}

const struct fs_type g_tmpfs_type = {
	.name = "tmpfs",
	.mount = tmp_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
