/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual filesystem: inodes, dentries, mounts, path walk, open files. It knows no tasks and
 * no fd tables; the sentry passes who is calling in `struct vfs_ctx` and turns -EAGAIN into
 * blocking. Modelled on Linux's VFS objects and names.
 *
 * Blocking: nothing here waits for a guest event. Calls may wait for the gofer (bounded by its
 * life). Errors are negative errno. Names and paths are NUL-terminated kernel copies, already
 * length-checked against PATH_MAX; a component over NAME_MAX gives -ENAMETOOLONG.
 *
 * Locks: vfs->tree_lock (rwlock, RANK_VFS_TREE) protects the dentry tree, the mount tree and the
 * dentry hash; it is a late rank and no operation of a filesystem runs under it. inode->lock
 * (RANK_INODE) protects attributes, size, data, and for a directory its entries: the VFS holds
 * the directory's lock around every directory-modifying inode op and around lookup(); the victim
 * or target inode is locked (nested) by the filesystem where it needs that. rename holds
 * vfs->rename_lock first when the parents differ.
 */
#ifndef CAISSON_VFS_H
#define CAISSON_VFS_H

#include <linux/limits.h>
#include <linux/stat.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/abi/stat.h"
#include "platform/base/errptr.h"
#include "platform/base/list.h"
#include "platform/base/lock.h"
#include "platform/base/refs.h"
#include "platform/base/strbuf.h"
#include "platform/base/uio.h"
#include "platform/base/waitq.h"
#include "vfs/cred.h"

struct vfs;
struct superblock;
struct inode;
struct dentry;
struct mount;
struct mnt_ns;
struct file;
struct poll_table;
struct flock_ctx;

/* ------------------------------------------------------------------ objects */

struct path {
	struct mount *mnt;
	struct dentry *dentry;
};

struct super_ops {
	int (*statfs)(struct superblock *sb, struct linux_statfs *st);
	int (*sync)(struct superblock *sb);		      /* may be NULL */
	void (*evict)(struct inode *ino);		      /* last reference gone: free ino->priv */
	void (*destroy)(struct superblock *sb);		      /* after all inodes are gone */
	int (*remount)(struct superblock *sb, const char *options); /* NULL: options refused */
	void (*show_options)(struct superblock *sb, struct strbuf *sb_out); /* ",size=…" or nothing */
	/*
	 * For filesystems whose names change outside the VFS: 1 the dentry is still right, 0 drop
	 * it, negative errno. Called without locks, before a cached dentry (positive or negative)
	 * is used. NULL: always right.
	 */
	int (*revalidate)(struct dentry *d);
};

#define SB_RDONLY 1u
#define SB_NOCACHE_NEGATIVE 2u /* lookup misses are not cached as negative dentries */
#define SB_NODCACHE 4u	       /* no dentries are cached beyond their references (procfs) */

struct superblock {
	struct ref ref;
	struct vfs *vfs;
	const struct fs_type *type;
	const struct super_ops *ops;
	uint64_t dev;	  /* st_dev, from vfs_new_anon_dev() */
	uint32_t flags;	  /* SB_* */
	uint32_t blksize; /* st_blksize */
	int64_t magic;	  /* f_type */
	struct dentry *root;
	char *source;	  /* the "device" column of /proc/mounts; owned */
	uint32_t live;	  /* [a] 1 while ref > 0, plus one per inode: destroyed at 0 */
	int32_t writers;  /* [a] files open for writing: a remount to read-only is busy */
	void *priv;
};

struct fs_type {
	const char *name;
	/*
	 * Makes a superblock with its root dentry for mount(2) or boot. `options` is the
	 * comma-separated data string ("" when none), `boot` is what only boot-time mounts get
	 * (struct goferfs_boot, struct overlay_boot …), NULL from the guest.
	 * -EINVAL for unknown options. Returns a reference or ERR_PTR.
	 */
	struct superblock *(*mount)(struct vfs *vfs, const char *source, uint32_t sb_flags,
				    const char *options, const void *boot);
	uint32_t flags; /* FS_* */
};
#define FS_USERMOUNT 1u /* a guest with CAP_SYS_ADMIN may mount it */
#define FS_NODEV 2u	/* shown as "nodev" in /proc/filesystems */

struct inode {
	struct ref ref;
	struct superblock *sb; /* [I] */
	uint64_t ino;	       /* [I] */
	const struct inode_ops *ops; /* [I] */
	const struct file_ops *fops; /* [I] for regular files and directories; may be NULL */
	struct lock lock;
	/* [lock]; mode's type bits are [I]. Atomic ones may be read without it. */
	_Atomic uint32_t mode;
	_Atomic uint32_t uid, gid;
	_Atomic uint32_t nlink;
	uint64_t rdev;
	_Atomic uint64_t size;
	_Atomic uint64_t blocks; /* 512-byte units */
	struct linux_timespec atime, mtime, ctime, btime;
	_Atomic uint32_t attr_flags; /* STATX_ATTR_IMMUTABLE, _APPEND; INODE_LINKABLE */
	uint32_t seals;	       /* F_SEAL_* of memfds */
	uint64_t change_count; /* i_version: bumped by each change of data or attributes */
	struct flock_ctx *flock; /* file locks; NULL until the first (flock.c) */
	struct list_head watches; /* inotify/fanotify marks (notify.c) */
	struct pipe *pipe;     /* FIFO: the pipe while it is open (pipe.c) */
	void *bound_socket;    /* S_IFSOCK: set by the socket layer under lock; see below */
	void (*bound_socket_gone)(struct inode *ino); /* called at evict when set */
	int32_t write_count;   /* [lock] writers open; < 0: denied by exec (ETXTBSY) */
	char *link;	       /* [I] symlink text that never changes, freed with free(); may be NULL:
				  then readlink() is asked. Spares the walk an allocation. */
	void *priv;	       /* of the filesystem */
};

#define INODE_MAYBE_CAPS (1u << 30) /* security.capability was set: a write removes it */
#define INODE_LINKABLE (1u << 31) /* O_TMPFILE without O_EXCL: link(2) from nlink 0 is allowed */

#define DENTRY_NAME_INLINE 40

struct dentry {
	struct ref ref;
	struct superblock *sb; /* [I] */
	struct dentry *parent; /* [tree] itself for a root; holds a reference on the parent */
	struct inode *inode;   /* [tree] NULL: negative */
	char *name;	       /* [tree] points to inline_name or an allocation */
	uint32_t name_len;
	uint64_t hash;
	struct dentry *hash_next;   /* [tree] */
	struct list_head child;	    /* [tree] in parent->children */
	struct list_head children;  /* [tree] */
	struct list_head lru;
	uint32_t flags;		    /* DENTRY_* [tree] */
	uint32_t mounted;	    /* [tree] mounts on top of it, over all namespaces */
	uint32_t used;		    /* [a] looked up since the shrinker last passed */
	void *priv;		    /* of the filesystem (overlay, goferfs) */
	char inline_name[DENTRY_NAME_INLINE];
};
#define DENTRY_HASHED 1u   /* reachable by lookup */
#define DENTRY_UNLINKED 2u /* was removed: paths show " (deleted)" */

enum mount_propagation { MNT_PRIVATE, MNT_SHARED, MNT_SLAVE, MNT_UNBINDABLE };

struct mount {
	struct ref ref;
	struct superblock *sb;
	struct dentry *root;	/* holds a reference */
	struct mount *parent;	/* [tree] NULL: detached or namespace root */
	struct dentry *mountpoint; /* [tree] in parent */
	struct mnt_ns *ns;	/* [tree] NULL when detached */
	uint32_t flags;		/* MNT_F_*, [tree] */
	int id;			/* mountinfo's first column */
	enum mount_propagation propagation;
	struct list_head ns_node;   /* in ns->mounts, mount order */
	struct list_head children;  /* [tree] */
	struct list_head child;
	struct list_head peer;	    /* shared peer group ring */
	struct list_head slaves, slave; /* of a master */
	struct mount *master;
	int peer_group;
	struct mount *hash_next;    /* [tree] by (parent, mountpoint) */
	int32_t writers;	    /* [a] files open for writing through it */
	uint32_t expiry_mark;	    /* [tree] MNT_EXPIRE saw it unused */
	struct list_head scratch;   /* [tree] lists of one operation */
	struct mount *copy;	    /* [tree] of one operation: the clone */
	struct mount *dest;	    /* [tree] of one operation: where the clone goes */
	uint32_t seen;		    /* [tree] of one operation */
};
#define MNT_F_RDONLY 1u
#define MNT_F_NOSUID 2u
#define MNT_F_NODEV 4u
#define MNT_F_NOEXEC 8u
#define MNT_F_NOATIME 16u
#define MNT_F_NODIRATIME 32u
#define MNT_F_RELATIME 64u
#define MNT_F_STRICTATIME 128u
#define MNT_F_NOSYMFOLLOW 256u
#define MNT_F_LOCKED 512u /* set up at boot for masking: the guest may not unmount it */
#define MNT_F_DETACHED 1024u /* [tree] top of a tree that a fsmount/open_tree file owns */

struct file_owner;

/* An open file description. */
struct file {
	struct ref ref;
	struct path path;	      /* references; anonymous files have one on the anon mount */
	struct inode *inode;	      /* borrowed from the dentry; one reference of its own */
	const struct file_ops *ops;   /* [I] after open */
	uint32_t flags;		      /* [a] O_* status and access flags; O_CLOEXEC is not here */
	uint32_t mode;		      /* [I] FMODE_* */
	struct lock pos_lock;	      /* held over read/write/lseek/getdents of seekable files */
	int64_t pos;		      /* [pos_lock] */
	const struct cred *cred;      /* [I] of the opener */
	void *priv;		      /* of ops */
	struct list_head epoll_items; /* epoll entries that watch this file (epoll.c) */
	struct lock epoll_lock;	      /* RANK_LEAF, for epoll_items */
	struct file_owner *owner;     /* [a] set once; who gets SIGIO */
};

/* F_SETOWN, F_SETSIG: the sentry's (signal/sigio.c), which derives from it. Freed with the file. */
struct file_owner {
	void (*free)(struct file_owner *o);
};
#define FMODE_READ 1u
#define FMODE_WRITE 2u
#define FMODE_EXEC 4u
#define FMODE_PATH 8u	/* O_PATH: no I/O */
#define FMODE_STREAM 16u /* no position: pipes, sockets, ttys → lseek gives ESPIPE */
#define FMODE_NOPREAD 32u  /* pread/pwrite give ESPIPE though it has read/write */
#define FMODE_WRITER 64u    /* counted in write_count, mount and superblock writers */
#define FMODE_DENYWRITE 128u /* vfs_open_exec: holds writers off until released */
#define FMODE_NOCMTIME 256u /* O_NOATIME-like for kernel-internal files: no time updates */

/* ------------------------------------------------------------------ operations of filesystems */

/* What setattr changes. */
struct iattr {
	uint32_t valid; /* IATTR_* */
	uint32_t mode, uid, gid;
	uint64_t size;
	struct linux_timespec atime, mtime, ctime;
};
#define IATTR_MODE 1u
#define IATTR_UID 2u
#define IATTR_GID 4u
#define IATTR_SIZE 8u
#define IATTR_ATIME 16u
#define IATTR_MTIME 32u
#define IATTR_CTIME 64u

/*
 * Directory-modifying ops and lookup run with dir->lock held; permissions, name validity,
 * existence and type rules are already checked by the VFS. `name` need not be NUL-terminated
 * beyond len, though it always is. The VFS updates the dentries; the filesystem updates inode
 * fields (nlink, size, times) of dir and children. Any op may be NULL: -EPERM, or -ENOTDIR for
 * lookup, -EOPNOTSUPP for xattrs.
 */
struct inode_ops {
	/* Returns a reference or ERR_PTR(-ENOENT …). */
	struct inode *(*lookup)(struct inode *dir, const char *name, size_t len);
	/* Each returns a reference to the new inode; owner is cred's fsuid/fsgid (setgid dirs as
	 * inode_init_owner()); mode has the umask applied. */
	struct inode *(*create)(struct inode *dir, const char *name, uint32_t mode,
				const struct cred *cred);
	struct inode *(*mkdir)(struct inode *dir, const char *name, uint32_t mode,
			       const struct cred *cred);
	struct inode *(*mknod)(struct inode *dir, const char *name, uint32_t mode, uint64_t rdev,
			       const struct cred *cred);
	struct inode *(*symlink)(struct inode *dir, const char *name, const char *target,
				 const struct cred *cred);
	struct inode *(*tmpfile)(struct inode *dir, uint32_t mode, const struct cred *cred);
	int (*link)(struct inode *dir, const char *name, struct inode *target);
	int (*unlink)(struct inode *dir, const char *name, struct inode *victim);
	int (*rmdir)(struct inode *dir, const char *name, struct inode *victim); /* checks ENOTEMPTY */
	/* flags: RENAME_NOREPLACE is handled by the VFS; EXCHANGE and WHITEOUT arrive here.
	 * target is the inode replaced or exchanged, or NULL. Both parents locked. */
	int (*rename)(struct inode *olddir, const char *oldname, struct inode *source,
		      struct inode *newdir, const char *newname, struct inode *target,
		      uint32_t flags);
	/* The link text; returns its length (not NUL-terminated, not over size). No lock held. */
	ssize_t (*readlink)(struct inode *ino, char *buf, size_t size);
	/* Magic links (/proc/PID/fd/N, exe, cwd …): jumps to a path; fills references. Set instead
	 * of walking readlink's text. */
	int (*follow)(struct inode *ino, struct path *out);
	/* Refreshes inode fields before a stat (gofer, proc); NULL: fields are right. No lock. */
	int (*getattr)(struct inode *ino);
	/* Applies attr with inode->lock held. Checks (permission, limits) are done. Size changes
	 * of regular files arrive here (truncate). */
	int (*setattr)(struct inode *ino, const struct iattr *attr);
	/* NULL: vfs_generic_permission(). mask: MAY_READ 4, MAY_WRITE 2, MAY_EXEC 1. */
	int (*permission)(struct inode *ino, uint32_t mask, const struct cred *cred);
	ssize_t (*getxattr)(struct inode *ino, const char *name, void *buf, size_t size);
	int (*setxattr)(struct inode *ino, const char *name, const void *val, size_t size, int flags);
	ssize_t (*listxattr)(struct inode *ino, char *buf, size_t size);
	int (*removexattr)(struct inode *ino, const char *name);
	/* Completes an open: may replace file->ops and set file->priv. O_TRUNC is done by the VFS
	 * afterwards through setattr. NULL: file->ops = ino->fops. */
	int (*open)(struct inode *ino, struct file *file);
};
#define MAY_EXEC 1u
#define MAY_WRITE 2u
#define MAY_READ 4u

/* readdir: emit() returns 0 when the entry did not fit (stop; do not advance past it). */
struct dir_emit {
	int (*emit)(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		    uint64_t ino, uint8_t type);
};

struct poll_table {
	/* Called by poll_wait for each queue the file's readiness depends on; may be NULL. */
	void (*add)(struct poll_table *pt, struct waitq *q);
};
static inline void poll_wait(struct poll_table *pt, struct waitq *q)
{
	if (pt && pt->add)
		pt->add(pt, q);
}

/* ioctl: the command is the low 32 bits; memory of the caller is reached only through this. */
struct ioctl_req {
	uint32_t cmd;
	uint64_t arg;
	/* -EFAULT or 0; all n bytes or nothing visible is promised. */
	int (*copy_in)(struct ioctl_req *r, void *dst, uint64_t gaddr, size_t n);
	int (*copy_out)(struct ioctl_req *r, uint64_t gaddr, const void *src, size_t n);
	void *priv;
};

/* Where bytes of a file live on the host, for mmap. */
struct map_extent {
	int fd;	      /* borrowed: valid while the file is open */
	uint64_t off; /* page aligned */
	uint64_t len; /* page multiple */
};

/*
 * File operations. read/write work at *pos and advance it by the result; for FMODE_STREAM files
 * pos is ignored (may be NULL). They return bytes moved, 0 for EOF, -EAGAIN when they would
 * block (always, whatever O_NONBLOCK says: the sentry waits on poll() and calls again).
 */
struct file_ops {
	ssize_t (*read)(struct file *f, struct uio *u, int64_t *pos);
	ssize_t (*write)(struct file *f, struct uio *u, int64_t *pos);
	int (*iterate)(struct file *f, struct dir_emit *de, int64_t *pos); /* directories */
	int64_t (*llseek)(struct file *f, int64_t off, int whence); /* NULL: generic by inode size */
	uint32_t (*poll)(struct file *f, struct poll_table *pt);    /* NULL: always IN|OUT|RDNORM|WRNORM */
	long (*ioctl)(struct file *f, struct ioctl_req *r);	    /* -ENOIOCTLCMD: unknown */
	/*
	 * The host location of [off, off+len) of the file (page aligned), of which the extent
	 * returned may be a prefix. prot/flags are mmap's, so that private and shared, read and
	 * write mappings can differ. -ENXIO: beyond the end (the page faults with SIGBUS until the
	 * file grows), -ENODEV: this file can not be mapped, -ENODATA: plain anonymous memory
	 * (/dev/zero).
	 */
	int (*map_extent)(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
			  struct map_extent *out);
	int (*fsync)(struct file *f, int64_t start, int64_t end, int datasync);
	int (*fallocate)(struct file *f, int mode, int64_t off, int64_t len); /* inode lock not held */
	int (*flush)(struct file *f);	 /* each close(2) of an fd; its error is close's */
	void (*release)(struct file *f); /* last reference */
	int (*set_flags)(struct file *f, uint32_t new_flags); /* F_SETFL; NULL: allowed */
	void (*show_fdinfo)(struct file *f, struct strbuf *sb);
};

/* ------------------------------------------------------------------ the VFS itself */

struct vfs *vfs_new(void);
void vfs_destroy(struct vfs *vfs);
/* The table of filesystem types is one static array in vfs/fs_types.c. */
const struct fs_type *fs_type_find(const char *name);
const struct fs_type *fs_type_at(size_t i); /* NULL past the end: for /proc/filesystems */
uint64_t vfs_new_anon_dev(struct vfs *vfs); /* major 0, the next minor */

/* Who calls and from where: filled by the sentry for each syscall; everything is borrowed. */
struct vfs_ctx {
	struct vfs *vfs;
	const struct cred *cred;
	struct path root, cwd;
	struct mnt_ns *ns;
	uint32_t umask;
};

/* Lookup flags; openat2's RESOLVE_* come in how.resolve. */
#define LOOKUP_FOLLOW 1u	/* follow a symlink in the last component */
#define LOOKUP_DIRECTORY 2u	/* the result must be a directory, else -ENOTDIR */
#define LOOKUP_EMPTY 4u		/* "" means start itself (AT_EMPTY_PATH) */
#define LOOKUP_NO_AUTOMOUNT 8u

/*
 * Resolves path; relative ones start at *start (NULL: ctx->cwd). Fills references in *out
 * (path_put them). An empty path without LOOKUP_EMPTY is -ENOENT.
 */
int vfs_lookup(const struct vfs_ctx *ctx, const struct path *start, const char *path,
	       uint32_t flags, struct path *out);
int vfs_lookup_resolve(const struct vfs_ctx *ctx, const struct path *start, const char *path,
		       uint32_t flags, uint64_t resolve, struct path *out);
struct path path_get(struct path p);
void path_put(struct path p);
/* The absolute name of p as seen from root, at the end of buf; pointer into buf or ERR_PTR
 * (-ENAMETOOLONG). Unreachable ones start with "(unreachable)"; removed ones end in " (deleted)". */
char *path_name(struct vfs *vfs, struct path p, struct path root, char *buf, size_t size);
/* getcwd(2)'s rule: -ENOENT when removed. */
int path_is_unlinked(struct path p);

struct open_how_k {
	uint64_t flags;	  /* O_*; validated: unknown bits are -EINVAL only with openat2 (strict) */
	uint64_t mode;
	uint64_t resolve; /* RESOLVE_* */
};
/* Returns a reference. Handles everything open(2) names: O_CREAT|EXCL, O_TMPFILE, O_PATH, O_NOFOLLOW,
 * O_DIRECTORY, O_TRUNC, O_APPEND, FIFOs, devices, ETXTBSY, EISDIR, ENXIO, EROFS, O_NOATIME's EPERM. */
struct file *vfs_open(const struct vfs_ctx *ctx, const struct path *start, const char *path,
		      const struct open_how_k *how);
/* Opens what a path refers to (exec, /proc/PID/fd reopen). */
struct file *vfs_open_path(const struct vfs_ctx *ctx, struct path p, uint32_t flags);
/* Opens for execve(2): regular, x permission, not noexec; denies writers until file_put. */
struct file *vfs_open_exec(const struct vfs_ctx *ctx, const struct path *start, const char *path,
			   uint32_t lookup_flags);

int vfs_mknodat(const struct vfs_ctx *ctx, const struct path *start, const char *path,
		uint32_t mode, uint64_t rdev);
/* As mknodat for sockets: returns the new inode (a reference) for bind(2); -EADDRINUSE if it exists. */
struct inode *vfs_bind_socket(const struct vfs_ctx *ctx, const char *path, uint32_t mode,
			      struct path *out);
int vfs_mkdirat(const struct vfs_ctx *ctx, const struct path *start, const char *path, uint32_t mode);
int vfs_symlinkat(const struct vfs_ctx *ctx, const char *target, const struct path *start,
		  const char *path);
int vfs_linkat(const struct vfs_ctx *ctx, const struct path *old_start, const char *old_path,
	       const struct path *new_start, const char *new_path, uint32_t lookup_flags);
/* dir nonzero: rmdir. */
int vfs_unlinkat(const struct vfs_ctx *ctx, const struct path *start, const char *path, int dir);
int vfs_renameat2(const struct vfs_ctx *ctx, const struct path *old_start, const char *old_path,
		  const struct path *new_start, const char *new_path, uint32_t flags);
ssize_t vfs_readlink(const struct vfs_ctx *ctx, struct path p, char *buf, size_t size);

/* Attributes of what p names, everything filled that the filesystem knows. */
int vfs_getattr(struct path p, struct linux_stat *st);
int vfs_statx(struct path p, uint32_t mask, struct statx *stx);
int vfs_statfs(struct path p, struct linux_statfs *st);
/* chmod, chown, truncate, utimens with all of Linux's checks (setuid stripping included).
 * uid/gid -1: unchanged. */
int vfs_chmod(const struct vfs_ctx *ctx, struct path p, uint32_t mode);
int vfs_chown(const struct vfs_ctx *ctx, struct path p, uint32_t uid, uint32_t gid);
int vfs_truncate(const struct vfs_ctx *ctx, struct path p, int64_t size);
int vfs_ftruncate(struct file *f, int64_t size);
/* ts[0], ts[1] as utimensat(2) (UTIME_NOW, UTIME_OMIT); ts NULL: both now. */
int vfs_utimens(const struct vfs_ctx *ctx, struct path p, const struct linux_timespec ts[2]);
/* access(2) with the given (real or effective) credentials in ctx->cred's place. */
int vfs_access(const struct vfs_ctx *ctx, struct path p, uint32_t mask, const struct cred *as);
int vfs_generic_permission(struct inode *ino, uint32_t mask, const struct cred *cred);
int vfs_path_permission(struct path p, uint32_t mask, const struct cred *cred); /* EROFS included */

ssize_t vfs_getxattr(const struct vfs_ctx *ctx, struct path p, const char *name, void *buf, size_t size);
int vfs_setxattr(const struct vfs_ctx *ctx, struct path p, const char *name, const void *val,
		 size_t size, int flags);
ssize_t vfs_listxattr(const struct vfs_ctx *ctx, struct path p, char *buf, size_t size);
int vfs_removexattr(const struct vfs_ctx *ctx, struct path p, const char *name);

/* ------------------------------------------------------------------ mounts (mount.c) */

struct mnt_ns *mnt_ns_new(struct vfs *vfs, struct mount *root); /* consumes root */
struct mnt_ns *mnt_ns_get(struct mnt_ns *ns);
void mnt_ns_put(struct mnt_ns *ns);
struct mnt_ns *mnt_ns_dup(struct mnt_ns *ns, struct path *root, struct path *cwd); /* CLONE_NEWNS: moves the paths */
struct mount *mnt_ns_root(struct mnt_ns *ns); /* a reference */
/* A detached mount of a fresh superblock; consumes sb. */
struct mount *mount_new(struct superblock *sb, uint32_t mnt_flags);
struct mount *mount_get(struct mount *m);
void mount_put(struct mount *m);
int mount_attach(struct vfs *vfs, struct mount *m, struct path at); /* consumes m on success */
/* mount(2) and friends, with every flag; privilege is checked by ctx->cred (CAP_SYS_ADMIN). */
int vfs_mount(const struct vfs_ctx *ctx, const char *source, const char *target, const char *type,
	      uint64_t flags, const char *data);
int vfs_umount(const struct vfs_ctx *ctx, const char *target, int flags);
/* Moves the mounts; the caller then moves each task whose root or cwd was ctx->root to the path
 * that new_root named before the call. */
int vfs_pivot_root(const struct vfs_ctx *ctx, const char *new_root, const char *put_old);
/* One line per mount: kind 0 /proc/mounts, 1 mountinfo, 2 mountstats. */
void mnt_ns_show(struct mnt_ns *ns, struct path root, int kind, struct strbuf *sb);
struct waitq *mnt_ns_waitq(struct mnt_ns *ns); /* woken (POLLPRI|POLLERR) when the table changes */
uint64_t mnt_ns_generation(struct mnt_ns *ns);

/* ------------------------------------------------------------------ open files (file.c) */

struct file *file_get(struct file *f);
void file_put(struct file *f);
/*
 * A file without a name of its own (pipe, eventfd, socket …): inode on the anonymous filesystem,
 * shown in /proc/PID/fd as "name" ("anon_inode:[eventfd]", "pipe:[%ino]", "socket:[%ino]").
 * flags: O_* status flags. mode: FMODE_*. Returns a reference.
 */
struct file *file_new_anon(struct vfs *vfs, const char *name, const struct file_ops *ops, void *priv,
			   uint32_t flags, uint32_t mode, const struct cred *cred);
/* Same on an existing inode (a pipe's two ends share one): consumes nothing. */
struct file *file_new_on(struct inode *ino, struct path p, const struct file_ops *ops, void *priv,
			 uint32_t flags, uint32_t mode, const struct cred *cred);

/* read(2)/write(2) at the file's position, pread/pwrite at *pos. rwf: RWF_* flags (0 for none).
 * Check modes, limits (-EBADF, -EINVAL, -EFBIG against fsize_limit), O_APPEND, set-id stripping,
 * atime, notify events. -EAGAIN as in file_ops. */
ssize_t file_read(struct file *f, struct uio *u);
ssize_t file_write(struct file *f, struct uio *u, uint64_t fsize_limit);
ssize_t file_pread(struct file *f, struct uio *u, int64_t pos);
ssize_t file_pwrite(struct file *f, struct uio *u, int64_t pos, uint64_t fsize_limit, int rwf);
/* Kernel-side read, for the loader and exec: all of n, or less at EOF. */
ssize_t file_kread(struct file *f, void *buf, size_t n, int64_t pos);
int64_t file_llseek(struct file *f, int64_t off, int whence);
int file_iterate(struct file *f, struct dir_emit *de); /* getdents; -ENOTDIR, -ENOENT if removed */
uint32_t file_poll(struct file *f, struct poll_table *pt);
long file_ioctl(struct file *f, struct ioctl_req *r); /* generic ones (FIONREAD, FIGETBSZ…) included */
int file_fsync(struct file *f, int64_t start, int64_t end, int datasync);
int file_fallocate(struct file *f, int mode, int64_t off, int64_t len, uint64_t fsize_limit);
int file_flush(struct file *f, uint64_t owner); /* close(2): drops POSIX locks of owner */
int file_set_flags(struct file *f, uint32_t flags); /* F_SETFL */
/* copy_file_range / sendfile / splice between files, through kernel memory; -EAGAIN as above. */
ssize_t file_copy_range(struct file *in, int64_t *in_pos, struct file *out, int64_t *out_pos,
			size_t len, uint64_t fsize_limit);
/* Takes over what only the fs knows; used by mm for exec and mmap: -EACCES on noexec etc. */
int file_map_check(struct file *f, int prot, int flags);

/* ------------------------------------------------------------------ file locks (flock.c) */

struct flock_req {
	int16_t type;	/* F_RDLCK, F_WRLCK, F_UNLCK */
	int64_t start;	/* absolute */
	int64_t end;	/* inclusive; INT64_MAX to the end */
	uint64_t owner; /* POSIX: the fd table's identity; OFD and flock: (uintptr_t) of the file */
	int32_t pid;	/* shown by F_GETLK; -1 for OFD */
	uint32_t kind;	/* 0 POSIX, 1 OFD, 2 flock */
	struct flock_wait *wait; /* flock.c's, between flock_will_wait and flock_waited */
};
/* Tries once: 0, -EAGAIN when it conflicts (then *q is the queue to wait on), -ENOLCK, -EDEADLK
 * (POSIX cycles are found through flock_will_wait). */
int flock_set(struct file *f, const struct flock_req *rq, struct waitq **q);
int flock_test(struct file *f, struct flock_req *rq); /* F_GETLK: rq->type = F_UNLCK if free */
int flock_will_wait(struct file *f, struct flock_req *rq); /* registers; -EDEADLK, -ENOMEM */
void flock_waited(struct flock_req *rq);
void flock_show_all(struct vfs *vfs, struct strbuf *sb); /* /proc/locks */

/* ------------------------------------------------------------------ notification (notify.c) */

/* A mark on an inode. event() and gone() run under vfs->notify_lock (RANK_VFS_NOTIFY), with
 * inode->lock possibly held: they only queue and may take RANK_CACHE locks and later ones. Do not
 * call notify_add/notify_del while holding a lock that event() takes; after notify_del neither
 * runs any more. cookie pairs the halves of a rename; name is NULL for events on the inode itself. */
struct notify_watch {
	struct list_head node; /* in inode->watches, under vfs->notify_lock */
	struct inode *inode;   /* a reference while marked */
	uint32_t mask;	       /* IN_* wanted */
	void (*event)(struct notify_watch *w, uint32_t mask, uint32_t cookie, const char *name);
	void (*gone)(struct notify_watch *w); /* inode deleted or unmounted: after IN_IGNORED */
};
/* Beside the IN_* events, for dnotify alone: a name of the directory changed to another of it. */
#define NOTIFY_RENAME 0x10000000u
void notify_add(struct vfs *vfs, struct notify_watch *w, struct inode *ino);
void notify_del(struct vfs *vfs, struct notify_watch *w);
/* Raises mask for the dentry's inode, and for its parent directory with the dentry's name. */
void notify_dentry(struct dentry *d, uint32_t mask);
/* Raises mask for one inode (a directory's IN_CREATE, IN_MOVED_FROM … with the child's name). */
void notify_inode(struct vfs *vfs, struct inode *ino, uint32_t mask, uint32_t cookie,
		  const char *name);

/* ------------------------------------------------------------------ for filesystems */

struct inode *inode_new(struct superblock *sb, uint64_t ino, uint32_t mode,
			const struct inode_ops *ops, const struct file_ops *fops);
struct inode *inode_get(struct inode *ino);
void inode_put(struct inode *ino);
/* Owner and mode of a new child, with setgid-directory inheritance (inode_init_owner). */
void inode_init_owner(struct inode *ino, const struct inode *dir, uint32_t mode,
		      const struct cred *cred);
struct linux_timespec vfs_now(void); /* CLOCK_REALTIME of the sandbox */
/* A setattr for filesystems that live in memory: copies the fields; size is the caller's. */
void inode_apply_attr(struct inode *ino, const struct iattr *attr);
void inode_touch(struct inode *ino, uint32_t which); /* IATTR_ATIME|MTIME|CTIME: now; lock held */
/* A root dentry for a new superblock; consumes ino. */
struct dentry *dentry_new_root(struct superblock *sb, struct inode *ino);
struct dentry *dentry_get(struct dentry *d);
void dentry_put(struct dentry *d);
/* Forgets cached children that are not in use, and d itself unless such a child or a mount is
 * below (revalidation, proc exit). No lock held. */
void dentry_invalidate(struct dentry *d);
/* One component below parent: cached, or through lookup(); -ENOENT is ERR_PTR, not negative. */
struct dentry *vfs_lookup_one(struct dentry *parent, const char *name, size_t len);
struct superblock *sb_new(struct vfs *vfs, const struct fs_type *type, const struct super_ops *ops,
			  uint32_t sb_flags, int64_t magic, const char *source);
struct superblock *sb_get(struct superblock *sb);
void sb_put(struct superblock *sb);
/* mount options: iterates "key=value" of a comma list; *pos starts NULL-able at options. */
int mount_option_next(const char **pos, char *key, size_t ksize, char *val, size_t vsize);

/* Hooks of special inodes, implemented beside the things themselves. */
/*
 * pipe.c. Sets f->ops and f->priv. An open that has to wait for the other end succeeds all the same:
 * vfs_open returns the file and the sentry waits while fifo_open_wait(f) (pipe.h) says -EAGAIN.
 */
int fifo_open(struct inode *ino, struct file *f);
int chrdev_open(struct inode *ino, struct file *f); /* dev/chrdev.c by ino->rdev; -ENXIO */

/* epoll.c: file_put calls it on the last reference, always, before ops->release. */
void epoll_file_gone(struct file *f);

/* The anonymous filesystem's mount, for file_new_anon. */
struct mount *vfs_anon_mount(struct vfs *vfs);

#endif
