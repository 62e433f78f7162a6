/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filesystems made of tables: a constant tree of descriptions, each a directory, a text file
 * with a show function, or a link. Directories may also have instances (one per process, CPU,
 * fd …) that share one description. Used by proc, sysfs and cgroup.
 *
 * Text is made when a file is read at position 0 and stays the same while it is read on, as with
 * Linux's seq files. Callbacks run without VFS locks, but lookup-time ones (find, attr) run with the
 * directory inode's lock held.
 */
#ifndef CAISSON_PSEUDO_H
#define CAISSON_PSEUDO_H

#include <stdint.h>

#include "platform/base/strbuf.h"
#include "vfs/vfs.h"

#define PSEUDO_KEYS 3
#define PSEUDO_NAME_SIZE 64
#define PSEUDO_WRITE_MAX 4096
/* getdents positions of instances: key + this; static names come before. */
#define PSEUDO_DYN_POS 0x10000ull

struct pseudo_fs;
struct pseudo_desc;

/* Which of the things a description stands for is meant. */
struct pseudo_inst {
	uint64_t key[PSEUDO_KEYS]; /* by pseudo_dyn.slot: pid, tid, fd; CPU number … */
	void *obj;		   /* what the filesystem pinned for it: pseudo_fs.obj_get/put; or NULL */
};

/* What every callback is told. */
struct pseudo_req {
	const struct pseudo_desc *desc;
	const struct pseudo_inst *inst;
	void *fs;		 /* the pseudo_fs's priv (struct proc_source …) */
	struct superblock *sb;
	const struct cred *cred; /* of the opener; NULL in lookup, getattr and links */
	void *data;		 /* open files: what desc->open left */
};

/* Instances below a directory. */
struct pseudo_dyn {
	uint32_t slot; /* which inst->key its instances set */
	/*
	 * The first instance with key >= from, for readdir: 1 with *key and name filled, 0 when
	 * there is none. Keys below 2^48.
	 */
	int (*next)(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		    char name[PSEUDO_NAME_SIZE]);
	/* The instance called name: fills key[slot] and obj (a reference) of inst, which starts as
	 * a copy of the directory's without obj; when it leaves obj NULL the directory's is
	 * inherited. 0 or -ENOENT. */
	int (*find)(const struct pseudo_req *dir, const char *name, size_t len,
		    struct pseudo_inst *inst);
	const struct pseudo_desc *each; /* what an instance is; its name is unused */
};

struct pseudo_desc {
	const char *name; /* NULL ends a table */
	uint32_t mode;	  /* type and permission bits */
	const struct pseudo_desc *children; /* directories: a table; may be NULL */
	const struct pseudo_dyn *dyn;	    /* directories: instances; may be NULL */
	/* Text of a file. 0 or negative errno, which read(2) returns. */
	int (*show)(const struct pseudo_req *rq, struct strbuf *out);
	/* All of one write(2), at most PSEUDO_WRITE_MAX bytes, NUL-terminated behind len. Returns
	 * the count taken or negative errno. */
	ssize_t (*write)(const struct pseudo_req *rq, char *buf, size_t len);
	/* Links: the text, without NUL. */
	int (*readlink)(const struct pseudo_req *rq, struct strbuf *out);
	/* Magic links: jumps instead of walking the text; fills references. */
	int (*follow)(const struct pseudo_req *rq, struct path *out);
	/* Checks at open, or leaves something in *data for the other callbacks; release frees it. */
	int (*open)(const struct pseudo_req *rq, struct file *f, void **data);
	void (*release)(const struct pseudo_req *rq);
	uint32_t (*poll)(const struct pseudo_req *rq, struct poll_table *pt);
	/* Adjusts mode, owner, size, inode number of a fresh inode; also before each stat. */
	int (*attr)(const struct pseudo_req *rq, struct inode *ino);
	/* Is the entry there at all for this directory? 1 or 0; NULL: yes. */
	int (*present)(const struct pseudo_req *rq);
	int (*permission)(const struct pseudo_req *rq, struct inode *ino, uint32_t mask);
	const struct file_ops *fops; /* not text: own operations, see pseudo_file_req() */
	long arg;		     /* for callbacks that serve several rows */
	const void *ptr;
};

/* What the descriptions of one filesystem have in common. [I] */
struct pseudo_fs {
	int64_t magic;
	uint64_t file_size; /* st_size of text files */
	uint32_t sb_flags;  /* SB_* */
	const struct pseudo_desc *root;
	void (*obj_get)(void *fs, void *obj);
	void (*obj_put)(void *fs, void *obj);
	/* Owner and time of an inode with an obj; called as attr is, before it. */
	int (*obj_attr)(const struct pseudo_req *rq, struct inode *ino);
	/* 0 when a cached name of an obj is stale. */
	int (*obj_alive)(void *fs, void *obj);
	void (*show_options)(struct superblock *sb, struct strbuf *out);
	int (*remount)(struct superblock *sb, const char *options);
	void (*destroy)(void *priv, void *sb_data); /* may be NULL */
};

/*
 * A superblock for fs. priv is handed to all callbacks; sb_data is of this mount alone (options).
 * Both are borrowed until fs->destroy. A reference or ERR_PTR.
 */
struct superblock *pseudo_mount(struct vfs *vfs, const struct fs_type *type, const char *source,
				uint32_t sb_flags, const struct pseudo_fs *fs, void *priv,
				void *sb_data);
void *pseudo_sb_data(const struct superblock *sb);
/* In desc->fops operations: the request of an open file, valid while it is open. */
const struct pseudo_req *pseudo_file_req(struct file *f);
/* Their .release. */
void pseudo_file_release(struct file *f);

/* Helpers for rows. */
/* A decimal number that fills the buffer but for blanks around it and one newline. 0 or -EINVAL,
 * -ERANGE. */
int pseudo_parse_s64(const char *buf, size_t len, int64_t *out);
/* Decimal name without sign or leading zeros, below limit. 0 or -ENOENT. */
int pseudo_name_number(const char *name, size_t len, uint64_t limit, uint64_t *out);

#define PSEUDO_DIR(n, perm, kids) { .name = (n), .mode = S_IFDIR | (perm), .children = (kids) }
#define PSEUDO_FILE(n, perm, fn) { .name = (n), .mode = S_IFREG | (perm), .show = (fn) }
#define PSEUDO_END { .name = NULL }

#endif
