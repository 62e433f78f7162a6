/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the VFS core share among themselves: the VFS object, the dentry cache's
 * inside, the path walk's state. Filesystems include vfs.h only.
 */
#ifndef CAISSON_VFS_PRIV_H
#define CAISSON_VFS_PRIV_H

#include "vfs/vfs.h"

#define MOUNT_HASH_SIZE 256u
#define MOUNT_MAX 20000		/* per namespace, as fs.mount-max bounds them */
#define DENTRY_CACHE_MAX 65536u /* hashed dentries kept before the shrinker runs */
#define SYMLINK_MAX 40
#define APPEND_LOCKS 16

struct vfs {
	struct lock rename_lock;
	struct rwlock tree_lock;
	/* [tree] */
	struct dentry **hash;
	size_t hash_mask;
	size_t hashed;		 /* dentries in the hash */
	struct list_head lru;	 /* all hashed dentries; the shrinker's clock hand is the head */
	struct mount *mount_hash[MOUNT_HASH_SIZE];
	uint64_t rename_seq;	 /* bumped by each move of a dentry or mount */
	int next_mnt_id, next_peer_group;
	struct list_head namespaces;
	struct list_head late_dead; /* mounts a failed copy left; freed by who drops tree_lock */
	/* [notify_lock] */
	struct lock notify_lock;
	uint32_t watch_count;	 /* [a] so that an unwatched system pays one load */
	uint32_t next_cookie;	 /* [a] */
	uint32_t next_anon_minor; /* [a] */
	/* [flock_lock]: the graph of blocked POSIX lock owners, all lock contexts */
	struct lock flock_lock;
	struct list_head flock_ctxs;
	struct list_head flock_waits;
	struct lock append_locks[APPEND_LOCKS]; /* by inode: O_APPEND finds the end atomically */
	struct superblock *anon_sb;
	struct mount *anon_mnt;
	struct mount *shmem_mnt; /* tmpfs for memfd, shm and shared anonymous memory */
	struct lock shmem_lock;	 /* creation of shmem_mnt */
	uint64_t next_anon_ino;	 /* [a] */
};

/* ---- dentry.c ---- */
uint64_t dentry_hash_name(const struct dentry *parent, const char *name, size_t len);
/* tree_lock held (any mode): a borrowed dentry or NULL. */
struct dentry *dentry_find(struct vfs *vfs, struct dentry *parent, const char *name, size_t len);
/* parent->inode->lock held: the child, positive or negative, as a reference, or ERR_PTR. */
struct dentry *dentry_lookup_locked(struct dentry *parent, const char *name, size_t len);
/* The same from outside, after revalidation where the filesystem wants it. */
struct dentry *dentry_lookup(struct dentry *parent, const char *name, size_t len);
/* Drops a cached child that its filesystem calls stale. */
void dentry_revalidate_child(struct dentry *parent, const char *name, size_t len);
/* Makes negative d name ino (consumed) and hashed. parent's inode->lock held. */
void dentry_instantiate(struct dentry *d, struct inode *ino);
/* d was removed from its directory. */
void dentry_unlinked(struct vfs *vfs, struct dentry *d);
/* A dentry outside the hash for inodes without a name (O_TMPFILE, memfd); consumes ino. */
struct dentry *dentry_new_unhashed(struct superblock *sb, struct dentry *parent, const char *name,
				   size_t len, struct inode *ino);
/*
 * Moves source over target's place, or exchanges them. Both parents' locks held. name is memory
 * from dentry_name_alloc for names that do not fit inline (consumed) or NULL.
 */
void dentry_move(struct vfs *vfs, struct dentry *source, struct dentry *target, int exchange,
		 char *new_name, char *old_name);
/* An allocation big enough for a name that is not inline; *out NULL when inline. */
int dentry_name_alloc(size_t len, char **out);
int dentry_is_ancestor(const struct dentry *a, const struct dentry *d); /* tree_lock held */
void dentry_drop_superblock(struct superblock *sb);

/* ---- vfs.c ---- */
void sb_unlive(struct superblock *sb);

/* ---- mount.c (tree_lock held for the first four) ---- */
struct mount *mount_at(struct vfs *vfs, const struct mount *parent, const struct dentry *at);
int mount_is_local_mountpoint(struct vfs *vfs, const struct mnt_ns *ns, const struct dentry *d);
/* Unmounts whatever other namespaces have on a dentry that was removed. tree_lock not held. */
void mount_detach_all_at(struct vfs *vfs, struct dentry *d);
struct mount *mount_clone(struct mount *m, struct dentry *root);
int mount_writable(const struct mount *m); /* 0 or -EROFS */

/* ---- anon_fs.c ---- */
int anon_fs_init(struct vfs *vfs);

/* ---- perm.c ---- */
int inode_permission(struct inode *ino, uint32_t mask, const struct cred *cred);
int inode_owner_or_cap(const struct inode *ino, const struct cred *cred);
/* dir_perm is inode_permission(dir, MAY_WRITE | MAY_EXEC), asked before dir was locked. */
int perm_may_create(struct inode *dir, int dir_perm);
int perm_may_delete(struct inode *dir, int dir_perm, struct inode *victim, int isdir,
		    const struct cred *cred);
int perm_may_linkat(struct inode *ino, const struct cred *cred);
int perm_may_follow_link(const struct inode *dir, const struct inode *link,
			 const struct cred *cred);
/* The mode after a write or chown by cred: set-id bits stripped; *strip 0 when unchanged. */
uint32_t perm_strip_setid(const struct inode *ino, const struct cred *cred, int *strip);
/* For O_CREAT in sticky directories (fs.protected_regular/fifos are off, as upstream default). */

/* ---- attr.c ---- */
void inode_fill_stat(struct inode *ino, struct linux_stat *st);
void path_touch_atime(struct path p, uint32_t file_flags);
int inode_atime_is_stale(const struct inode *ino, uint32_t mnt_flags);
/* Removes set-id bits (and security.capability) before a write. inode->lock not held. */
int inode_strip_privs(struct inode *ino, const struct cred *cred);

/* ---- flock.c ---- */
void flock_inode_gone(struct inode *ino);
void flock_file_closed(struct file *f); /* last reference: OFD and flock locks */

/* ---- notify.c ---- */
/* Ends all watches with `why` (IN_DELETE_SELF or IN_UNMOUNT) and IN_IGNORED. */
void notify_inode_gone(struct vfs *vfs, struct inode *ino, uint32_t why);
static inline int notify_active(struct vfs *vfs)
{
	return __atomic_load_n(&vfs->watch_count, __ATOMIC_RELAXED) != 0;
}

/* ---- namei.c: the walk ---- */

enum last_type { LAST_NORM, LAST_DOT, LAST_DOTDOT, LAST_ROOT };

struct walk_text {
	const char *rest; /* what remains of the outer text */
	char *owned;	  /* its buffer, when it is a link's text */
};

/*
 * While `locked`, tree_lock is held for reading and cur/next are borrowed. walk_unlazy() pins
 * cur in held_cur and releases the lock; pins are only dropped without the lock.
 */
struct walk {
	const struct vfs_ctx *ctx;
	struct vfs *vfs;
	uint32_t flags;	  /* LOOKUP_* */
	uint64_t resolve; /* RESOLVE_* */
	struct path root; /* borrowed: the ceiling of ".." and where "/" leads */
	struct path cur, next;
	struct path held_cur, held_jump;
	struct dentry *held_next;
	int locked;
	int want_dir; /* a trailing slash was seen */
	uint64_t rename_seq;
	const char *pos; /* where the text stands */
	char *owned;	 /* buffer pos points into, or NULL */
	const char *last;
	size_t last_len;
	enum last_type last_type;
	int trailing; /* the last component has slashes behind it */
	int depth, links;
	int small_used;
	struct walk_text stack[SYMLINK_MAX];
	char small[160];
};

int walk_start(struct walk *w, const struct vfs_ctx *ctx, const struct path *start,
	       const char *path, uint32_t flags, uint64_t resolve);
int walk_to_last(struct walk *w);
/* Resolves the last component into next. -ENOENT when negative. */
int walk_last(struct walk *w);
/* next is a symlink: goes on with its text, or jumps (then returns 1 and cur is the end). */
int walk_follow(struct walk *w, int is_last);
void walk_unlazy(struct walk *w);
void walk_relock(struct walk *w);
void walk_end(struct walk *w);
/* The parent of path's last component: cur pinned, lock released. walk_end() in any case. */
int walk_parent(struct walk *w, const struct vfs_ctx *ctx, const struct path *start,
		const char *path, uint64_t resolve);

/* ---- dirops.c ---- */
/*
 * For open(2) with O_CREAT: the last component below w->held_cur, found or created as a regular
 * file; *created says which. The walk is unlocked. Returns a reference, never a negative one.
 */
struct dentry *dirops_find_or_create(struct walk *w, uint32_t mode, int *created);
uint32_t vfs_apply_umask(const struct vfs_ctx *ctx, uint32_t mode);

/* ---- open.c ---- */
/* A bare file on p (references taken); counters and ops are the caller's. NULL: no memory. */
struct file *file_alloc(struct path p, struct inode *ino, uint32_t flags, uint32_t mode,
			const struct cred *cred);
void file_free(struct file *f); /* undoes file_alloc */
struct file *file_open_dentry(const struct vfs_ctx *ctx, struct path p, uint32_t flags,
			      int created);

#endif
