/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder only. */
#ifndef CAISSON_PSEUDO_PRIV_H
#define CAISSON_PSEUDO_PRIV_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs/pseudo/pseudo.h"

struct pseudo_sb {
	const struct pseudo_fs *fs;
	void *priv, *sb_data;
};

/* inode->priv */
struct pseudo_inode {
	const struct pseudo_desc *desc;
	struct pseudo_inst inst; /* obj: a reference when fs->obj_get is set */
};

/* file->priv */
struct pseudo_file {
	struct pseudo_req rq;
	struct lock lock; /* RANK_LEAF */
	/* [lock] */
	struct strbuf text;
	int filled;
};

static inline struct pseudo_sb *pseudo_s(const struct superblock *sb)
{
	return sb->priv;
}

/* The request of an inode, for callbacks. */
static inline struct pseudo_req pseudo_req_of(struct inode *ino)
{
	struct pseudo_inode *pi = ino->priv;
	struct pseudo_req rq = { .desc = pi->desc, .inst = &pi->inst,
				 .fs = pseudo_s(ino->sb)->priv, .sb = ino->sb };

	return rq;
}

extern const struct inode_ops g_pseudo_inode_ops, g_pseudo_magic_ops;
extern const struct file_ops g_pseudo_text_ops, g_pseudo_dir_ops;

/* Consumes inst->obj. A reference or ERR_PTR. */
struct inode *pseudo_inode_new(struct superblock *sb, const struct pseudo_desc *desc,
			       const struct pseudo_inst *inst);
uint64_t pseudo_ino(const struct superblock *sb, const struct pseudo_desc *desc,
		    const struct pseudo_inst *inst);
/* What a directory's child inherits: keys and a reference on obj. */
void pseudo_inherit(struct superblock *sb, const struct pseudo_inst *from, struct pseudo_inst *to);
int pseudo_open(struct inode *ino, struct file *f);

#endif
