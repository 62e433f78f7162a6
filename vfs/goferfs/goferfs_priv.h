/* SPDX-License-Identifier: Apache-2.0 */
/* What fs.c, node.c, dir.c, ops.c and io.c share. */
#ifndef CAISSON_GOFERFS_PRIV_H
#define CAISSON_GOFERFS_PRIV_H

#include "vfs/goferfs/client.h"
#include "vfs/vfs.h"

#define DIR_CACHE_MAX	20000u	   /* entries of one listing kept */
#define DIR_CACHE_TOTAL (1u << 19) /* entries of all listings of one mount */
#define DEV_MAX		64u
#define EARLY_MAX	256u /* listings that wait to be asked for */

/* A host fd of a file. Open files hold it; without users it waits in an LRU to be used again. */
struct hostfd {
	struct list_head lru; /* [cache] while users == 0 */
	struct gnode *owner;  /* [cache] whose ro or rw this is; NULL once detached */
	int fd;		      /* [I] */
	uint32_t users;	      /* [cache] */
	/* [cache] The file as mapped for big reads, while there are users; NULL: not. */
	void *map;
	size_t map_size;
};

/* One entry of a cached listing. Slots keep their place, so readdir positions stay right. */
struct dirent_slot {
	char *name; /* NULL: removed */
	uint32_t len;
	uint32_t hash_next; /* slot index + 1 */
	struct gofer_attr attr;
};

/* A whole directory as its last listing showed it, kept right by our own changes. */
struct dircache {
	uint32_t count, cap; /* slots */
	uint32_t live;
	uint32_t hash_size; /* power of two */
	uint32_t *hash;	    /* slot index + 1 */
	struct dirent_slot *slot;
};

/* What goferfs knows of an inode: inode->priv. */
struct gnode {
	struct inode *ino;
	struct goferfs *fs;
	uint64_t dev, hino;	 /* [I] the host's */
	struct gnode *hash_next; /* [fs->lock] */
	int hashed;		 /* [fs->lock] */
	/* [fs->lock] the gofer's node, 0 while unknown; and the name to find it by */
	uint32_t nid, nid_refs;
	uint32_t old_nid, old_refs; /* the one before, for requests still under way */
	struct inode *parent;	    /* a reference; NULL for the root and after removal */
	char *name;
	/* [cache lock] */
	struct hostfd *ro, *rw;
	/* [ino->lock] */
	struct dircache *dc;
	uint32_t lookups; /* since there was no dc */
	int too_big;	  /* not worth a dc */
	uint32_t stale;	  /* [a] attributes changed on the host by us: ask before telling */
	uint32_t nocaps;  /* [a] known to have no security.capability */
	uint32_t noted;	  /* [a] in fs->changed */
	uint32_t listed;  /* [a] has had a dc */
	uint32_t walked;  /* [a] somebody reads its listing by readdir */
	uint64_t fresh;	  /* [a] when the attributes were last told, ns (shared trees) */
};

struct goferfs {
	struct goferfs_conn *conn;
	struct superblock *sb;
	uint32_t attach_id;
	int exclusive, readonly;
	uint32_t dc_entries; /* [a] cached dirent slots */
	struct lock lock;    /* RANK_CACHE */
	/* [lock] */
	struct gnode **table; /* by (dev, hino) */
	uint32_t table_size, table_count;
	uint64_t dev[DEV_MAX];
	uint32_t dev_count;
	uint64_t *changed; /* open-addressed set of host inodes we changed; 0 is empty */
	uint32_t changed_count, changed_size; /* size a power of two */
	int changed_all;		      /* the set is full: believe no listing's attributes */
	/* Listings that came before they were asked for, a ring: see ahead.c. */
	struct early_listing {
		uint64_t dev, hino;
		uint32_t nid; /* with one reference */
		struct dircache *dc;
	} early[EARLY_MAX];
	uint32_t early_next;
	uint32_t walk_steps; /* [a] */
};

static inline struct gnode *gnode_of(const struct inode *ino)
{
	return ino->priv;
}

static inline struct goferfs *goferfs_of(const struct inode *ino)
{
	return ((struct gnode *)ino->priv)->fs;
}

/* ---- node.c ---- */
/*
 * The inode for what attr describes, found at name in dir (NULL for the root). nid is the
 * gofer's node with one reference, or 0. Returns a reference or ERR_PTR; nid is used up.
 */
struct inode *gnode_get(struct goferfs *fs, struct inode *dir, const char *name,
			const struct gofer_attr *attr, uint32_t nid);
/* The gofer's number for ino, asking for it if need be; 0 < nid or negative errno. */
int64_t gnode_nid(struct inode *ino);
/* As gnode_nid for a regular file, and an fd for reading when one came along (else -1). */
int64_t gnode_nid_open(struct inode *ino, int *fd);
/* Records another name for ino (rename, link); name NULL: it has none any more. */
void gnode_set_name(struct inode *ino, struct inode *dir, const char *name);
/* inode->lock held. */
void gnode_set_attr(struct inode *ino, const struct gofer_attr *attr);
void gnode_evict(struct inode *ino);
/*
 * We changed ino on the host: what a kept listing says of it is old from now on. _stale: and what
 * the inode itself says, too.
 */
void gnode_note_change(struct inode *ino);
void gnode_mark_stale(struct inode *ino);
int gnode_was_changed(struct goferfs *fs, uint64_t dev, uint64_t hino);
/* A reply's attributes, or -EIO after ending the connection. */
int gnode_read_attr(struct goferfs *fs, struct gcall *c, struct gofer_attr *attr);
/* The inode number the guest sees. */
uint64_t gnode_guest_ino(struct goferfs *fs, uint64_t dev, uint64_t hino);
int gnode_same(const struct inode *ino, const struct gofer_attr *attr);
uint64_t goferfs_now(void);

/* One name asked of the gofer: attr and a nid with a reference, or negative errno. */
int gnode_walk_one(struct inode *dir, const char *name, size_t len, struct gofer_attr *attr,
		   uint32_t *nid);
/* Refreshes the attributes if they may be wrong. No lock held. */
int gnode_refresh(struct inode *ino, int force);

/* [fs->lock] The live inode's node for a host object, or NULL. */
struct gnode *gnode_peek(struct goferfs *fs, uint64_t dev, uint64_t hino);
/* The gofer's number, with one reference, is ino's now; 1: it takes the place of another. */
int gnode_take_nid(struct inode *ino, uint32_t nid);

/* ---- ahead.c: listings of directories side by side ---- */
/*
 * The listing of dir, whose number the gofer need not have told yet: 0 and *dc, complete if *next
 * is 0 and else to be continued at that cookie; -EAGAIN: ask for it in the ordinary way. walking:
 * for readdir, so its siblings may come along. dir->lock held.
 */
int ahead_load(struct inode *dir, int walking, struct dircache **dc, uint64_t *next);
void ahead_free(struct goferfs *fs);

/* ---- dir.c: listings ---- */
/* 0 or negative errno; dir->lock held, like the next. walking: for readdir. */
int dircache_load(struct inode *dir, int walking);
/* Entries of a reply, with attributes. */
int dircache_read(struct goferfs *fs, struct dircache *dc, struct gcall *c, uint32_t count);
struct dirent_slot *dircache_find(struct dircache *dc, const char *name, size_t len);
void dircache_add(struct inode *dir, const char *name, size_t len, const struct gofer_attr *attr);
void dircache_remove(struct inode *dir, const char *name, size_t len);
void dircache_new_empty(struct inode *dir);
void dircache_free(struct goferfs *fs, struct dircache *dc);
int gdir_open(struct inode *dir, struct file *f);
extern const struct file_ops g_goferfs_dir_fops;

/* ---- io.c: file data ---- */
extern const struct file_ops g_goferfs_file_fops;
void hostfd_cache_init(void); /* before the first use of any of these */
int gfile_open(struct inode *ino, struct file *file);
/* Takes over an fd the gofer sent; NULL when it is not what it should be (then closed). */
struct hostfd *hostfd_adopt(struct inode *ino, int fd, int writable);
void hostfd_put(struct hostfd *h);
/* The cached fd (writable or any), used; NULL when there is none. */
struct hostfd *hostfd_use_cached(struct gnode *gn, int writable);
int hostfd_in_use(struct gnode *gn);  /* by an open file */
void hostfd_detach(struct gnode *gn); /* the inode dies */

/* ---- ops.c ---- */
extern const struct inode_ops g_goferfs_dir_ops, g_goferfs_file_ops, g_goferfs_link_ops,
	g_goferfs_special_ops;

#endif
