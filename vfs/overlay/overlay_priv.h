/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay's own objects, for this folder only. Theory of operation: super.c.
 */
#ifndef CAISSON_OVERLAY_PRIV_H
#define CAISSON_OVERLAY_PRIV_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs/overlay/overlay.h"
#include "vfs/vfs.h"

#define OVL_MAGIC 0x794c7630
/* Inode numbers of files the guest made; those of lower files are the lower's own. */
#define OVL_FIRST_NEW_INO (1ull << 40)
/* Directory positions: below this the numbers of the lower's entries, above it the added ones. */
#define OVL_UPPER_POS (1ull << 61)

struct ovl_sb {
	struct superblock *sb; /* back pointer, borrowed */
	struct superblock *lower, *upper; /* references */
	struct mount *anon;    /* where internal files claim to live; borrowed from the VFS */
	const struct cred *cred; /* of the kernel, for the upper's inodes */
	uint64_t next_ino;     /* [a] */
	uint64_t objects;      /* [a] inodes and entries that only memory holds */
	uint64_t object_limit; /* [I] */
	struct lock lock;      /* RANK_LEAF */
	/* [lock] overlay inodes with a lower, by the lower's inode number: at most one live each */
	struct ovl_inode **table;
	size_t table_size; /* power of two */
	size_t table_used;
	struct list_head all; /* [lock] every overlay inode, for unmount */
};

struct ovl_inode {
	struct inode *ino;   /* [I] the overlay inode this is the private part of */
	struct inode *lower; /* [I] reference; NULL for files made here */
	/*
	 * A nameless tmpfs file: keeps the changed extended attributes of any kind of inode, and
	 * the changed data of regular files. [ino->lock]; NULL until needed.
	 */
	struct inode *upper;
	struct file *upper_file; /* [a] set once under ino->lock: from then on data is in upper */
	uint8_t xattrs_upper;	 /* [a] set once under ino->lock: extended attributes are in upper */
	uint8_t pinned;		 /* [ino->lock] the table holds a reference: changed, and has names */
	uint8_t hashed;		 /* [ovl_sb->lock] */
	uint8_t counted;	 /* [I] in ovl_sb->objects */
	struct ovl_inode *hash_next; /* [ovl_sb->lock] */
	struct list_head all;	     /* [ovl_sb->lock] */
	struct ovl_dir *dir;	     /* [ino->lock] changed names of a directory; NULL: none */
	uint64_t parent_ino;	     /* [ino->lock] of ".."; 0: the lower's is right */
};

/* One changed name. */
struct ovl_entry {
	struct ovl_entry *next;	 /* hash chain */
	struct list_head order;	 /* in ovl_dir->added when !covers */
	struct inode *inode;	 /* reference; NULL: whiteout, which hides the lower's name */
	uint64_t pos;		 /* readdir position of an added name */
	uint8_t covers;		 /* the lower directory has this name too */
	uint8_t len;
	char name[];
};

struct ovl_dir {
	struct ovl_entry **bucket;
	size_t size, used;	/* size: power of two */
	struct list_head added; /* entries without a lower name, by position */
	uint64_t next_pos;
	size_t live; /* entries that are not whiteouts */
};

/* Private part of an open regular file or directory. */
struct ovl_file {
	struct file *lower; /* [a] opened when first needed */
	/* Directories, under file->pos_lock: */
	uint64_t end;	 /* added entries from here on came after the rewind */
	int64_t low_pos; /* the lower's position … */
	int64_t low_nr;	 /* … of its entry number low_nr */
};

static inline struct ovl_inode *ovl_i(const struct inode *ino)
{
	return ino->priv;
}

static inline struct ovl_sb *ovl_s(const struct inode *ino)
{
	return ino->sb->priv;
}

extern const struct inode_ops g_ovl_inode_ops;
extern const struct file_ops g_ovl_file_ops, g_ovl_dir_ops;

/* inode.c */
/* The overlay inode of a lower one; consumes low. A reference or ERR_PTR. */
struct inode *ovl_inode_of_lower(struct ovl_sb *os, struct inode *low);
struct inode *ovl_inode_create(struct inode *dir, uint32_t mode, const struct cred *cred);
/* Keeps a changed inode alive while it has names; ino->lock held. */
void ovl_pin(struct inode *ino);
/* After nlink went to zero; ino->lock held, the caller has a reference of its own. */
void ovl_unpin(struct inode *ino);
int ovl_charge(struct ovl_sb *os); /* one object more, or -ENOSPC */
void ovl_uncharge(struct ovl_sb *os);
void ovl_evict(struct inode *ino);

/* entry.c: changed names of a directory; its lock is held in all of them. */
struct ovl_entry *ovl_entry_find(const struct inode *dir, const char *name, size_t len);
/* Room for a name that may be about to be added: what ovl_entry_set() then never fails for. */
struct ovl_entry *ovl_entry_prepare(struct inode *dir, const char *name);
void ovl_entry_discard(struct inode *dir, struct ovl_entry *fresh);
/*
 * Makes name refer to ino (NULL: to nothing). `covers` says whether the lower has the name when
 * there is no entry for it yet; then `fresh`, from ovl_entry_prepare, is used. Consumes fresh and a
 * reference on ino; drops the entry's old one.
 */
void ovl_entry_set(struct inode *dir, const char *name, struct inode *ino, int covers,
		   struct ovl_entry *fresh);
int ovl_dir_is_empty(struct inode *dir); /* 1, 0 or negative errno */
void ovl_dir_free(struct ovl_sb *os, struct ovl_dir *od, struct list_head *inodes_out);

/* copyup.c; ino->lock held in all of them. */
int ovl_need_upper(struct inode *ino);
/* Moves the data into the upper, of which only the first keep bytes matter. */
int ovl_copy_up_data(struct inode *ino, uint64_t keep);
int ovl_copy_up_xattrs(struct inode *ino);
void ovl_sync_size(struct inode *ino);
/* An internal open file on an inode of a layer: a reference or ERR_PTR. */
struct file *ovl_open_layer(struct ovl_sb *os, struct inode *ino, uint32_t flags);

/* file.c */
int ovl_open(struct inode *ino, struct file *f);
/* readdir.c */
int ovl_iterate(struct file *f, struct dir_emit *de, int64_t *pos);
struct file *ovl_lower_file(struct file *f);
/* attr.c */
int ovl_setattr(struct inode *ino, const struct iattr *attr);
ssize_t ovl_getxattr(struct inode *ino, const char *name, void *buf, size_t size);
int ovl_setxattr(struct inode *ino, const char *name, const void *val, size_t size, int flags);
ssize_t ovl_listxattr(struct inode *ino, char *buf, size_t size);
int ovl_removexattr(struct inode *ino, const char *name);

#endif
