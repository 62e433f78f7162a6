/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of tmpfs share. */
#ifndef CAISSON_TMPFS_PRIV_H
#define CAISSON_TMPFS_PRIV_H

#include "vfs/tmpfs/tmpfs.h"

#define TMPFS_MAGIC 0x01021994
#define PAGE 4096u
#define PAGE_SHIFT 12
#define DIRENT_BYTES 20 /* what each entry adds to a directory's st_size, as Linux's tmpfs */

struct tmp_sb {
	/* [a] */
	uint64_t max_pages;  /* 0: no limit */
	uint64_t used_pages;
	uint64_t max_inodes; /* 0: no limit */
	uint64_t used_inodes;
	uint64_t next_ino;
	/* [I] */
	uint32_t mode, uid, gid; /* as given at mount, for show_options */
	uint32_t flags;
};
#define TMP_SHOW_MODE 1u
#define TMP_SHOW_UID 2u
#define TMP_SHOW_GID 4u
#define TMP_NO_XATTR 8u /* the internal mount of shared memory */

/*
 * A piece of a file's bytes: file pages [first, first + pages) live at `off` in the memory file.
 * bits says which of them were written; the rest are holes and were never charged, unless the
 * extent is `mapped`: then guests may have written any of it through a mapping.
 */
struct tmp_extent {
	uint64_t first;
	uint64_t pages;
	int64_t off;
	uint64_t *bits; /* &one for up to 64 pages */
	uint64_t one;
	int mapped; /* was mapped shared and writable */
};

struct tmp_xattr {
	struct tmp_xattr *next;
	size_t size;
	char *value;
	char name[];
};

struct tmp_dirent {
	struct tmp_dirent *hash_next;
	struct tmp_dirent *prev, *next; /* by cookie */
	struct inode *inode;		/* a reference */
	uint64_t cookie;		/* seekdir position: never reused in this directory */
	uint64_t hash;
	uint32_t len;
	char name[];
};

/* inode->priv */
struct tmp_node {
	struct inode *inode;
	struct tmp_xattr *xattrs; /* [inode lock] */
	union {
		struct {
			struct lock lock; /* RANK_TMPFS: page faults take it under the mm lock */
			struct tmp_extent *ext; /* [lock] sorted by first */
			uint32_t count, cap;
			int32_t writable_maps; /* [a] */
		} reg;
		struct {
			/* [inode lock] */
			struct tmp_dirent **hash;
			uint32_t mask, count;
			struct tmp_dirent *head, *tail;
			uint64_t next_cookie;
			struct inode *parent; /* [inode lock] no reference; itself for the root */
		} dir;
	};
};

static inline struct tmp_node *tmp_node(const struct inode *ino)
{
	return ino->priv;
}

static inline struct tmp_sb *tmp_sb(const struct inode *ino)
{
	return ino->sb->priv;
}

/* ---- super.c ---- */
int tmp_charge_page(struct tmp_sb *tsb); /* 0 or -ENOSPC */
/* A fresh inode counted against nr_inodes, or ERR_PTR. */
struct inode *tmp_inode_new(struct superblock *sb, const struct inode *dir, uint32_t mode,
			    uint64_t rdev, const struct cred *cred);
uint64_t tmp_memory_pages(void); /* of the whole sandbox */
struct superblock *tmp_sb_make(struct vfs *vfs, const char *source, uint32_t sb_flags,
			       const char *options, uint32_t tmp_flags);

/* ---- dir.c ---- */
extern const struct inode_ops g_tmp_dir_ops;
extern const struct file_ops g_tmp_dir_fops;
void tmp_dir_evict(struct tmp_node *n);

/* ---- data.c ---- */
extern const struct file_ops g_tmp_file_fops;
int tmp_truncate(struct inode *ino, uint64_t size); /* inode lock held */
void tmp_data_evict(struct tmp_node *n);

/* ---- node.c ---- */
extern const struct inode_ops g_tmp_file_ops, g_tmp_link_ops, g_tmp_special_ops;
int tmp_setattr(struct inode *ino, const struct iattr *attr);
ssize_t tmp_getxattr(struct inode *ino, const char *name, void *buf, size_t size);
int tmp_setxattr(struct inode *ino, const char *name, const void *val, size_t size, int flags);
ssize_t tmp_listxattr(struct inode *ino, char *buf, size_t size);
int tmp_removexattr(struct inode *ino, const char *name);
void tmp_xattr_evict(struct tmp_node *n);

#endif
