/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount tree's inside, shared by mount.c, propagation.c, mount_ops.c, mount_show.c and
 * fscontext.c. "Held" means tree_lock held for writing unless a line says otherwise.
 */
#ifndef CAISSON_MOUNT_PRIV_H
#define CAISSON_MOUNT_PRIV_H

#include "vfs/vfs_priv.h"

struct mnt_ns {
	struct ref ref;
	struct vfs *vfs;
	struct list_head node;	 /* [tree] in vfs->namespaces */
	struct list_head mounts; /* [tree] through ns_node, in mount order */
	struct mount *root;	 /* [tree] */
	uint32_t count;		 /* [tree] */
	uint64_t generation;	 /* [a] */
	struct waitq waitq;
};

/* How clones relate to what they are cloned from. */
enum clone_how {
	CLONE_KEEP,    /* a peer of a shared one, another slave of a slave's master */
	CLONE_PRIVATE,
	CLONE_SHARED,  /* peers, whatever the original was */
	CLONE_SLAVE,   /* slaves of the original */
};
#define COPY_UNBINDABLE 0x100 /* copies unbindable mounts too (namespaces) */
#define COPY_TOP_ONLY 0x200

/* Puts m on (parent, at); takes its own reference on at and the caller's on m. Held. */
void mnt_link(struct vfs *vfs, struct mount *parent, struct dentry *at, struct mount *m);
/* Takes m off its place and out of its namespace; its tree reference goes to dead. Held. */
void mnt_unlink(struct vfs *vfs, struct mount *m, struct list_head *dead);
/* Off its place only, to be linked elsewhere; returns the reference on the mountpoint. Held. */
struct dentry *mnt_take_off(struct vfs *vfs, struct mount *m);
/* Drops what mnt_unlink collected. Not held. */
void mnt_free_dead(struct list_head *dead);
/* The next mount of top's subtree in preorder, NULL at the end. Held, reading is enough. */
struct mount *mnt_next(struct mount *m, struct mount *top);
/* The subtree at (m, root) as a new detached tree, or ERR_PTR. Held. */
struct mount *mnt_copy_tree(struct mount *m, struct dentry *root, int how);
/* Frees a detached tree of clones. Held; the rest happens in mnt_free_dead. */
void mnt_drop_tree(struct vfs *vfs, struct mount *top, struct list_head *dead);
/* Every mount of the tree joins ns (NULL: leaves). Held. */
void mnt_set_ns(struct mount *top, struct mnt_ns *ns);
void mnt_changed(struct vfs *vfs, struct mnt_ns *ns);
/* p moved to the topmost mount on it; 1 when it moved. */
int mnt_descend(struct vfs *vfs, struct path *p);

/* ---- propagation.c; held ---- */
static inline int mnt_is_shared(const struct mount *m)
{
	return m->propagation == MNT_SHARED;
}
void propagation_set(struct vfs *vfs, struct mount *m, enum mount_propagation to);
void propagation_join(struct mount *m, struct mount *peer);   /* m becomes a peer of peer */
void propagation_enslave(struct mount *m, struct mount *master);
/*
 * Attaches the tree at m (consumed on success) to at, with copies wherever at's mount propagates
 * to. All or nothing.
 */
int propagation_attach(struct vfs *vfs, struct mount *m, struct path at, struct list_head *dead);
/* Unmounts what m's parent propagated it to, where nothing is mounted on top. */
void propagation_unmount(struct vfs *vfs, struct mount *m, struct list_head *dead);
/* 1 when one of the copies that would go too is in use. */
int propagation_busy(struct vfs *vfs, struct mount *m);

/* ---- mount_ops.c ---- */
uint32_t mount_flags_from_ms(uint64_t ms_flags);
int mount_check_attach(struct vfs *vfs, const struct vfs_ctx *ctx, struct mount *m, struct path at);
int mount_move(const struct vfs_ctx *ctx, struct path from, struct path to);
struct mount *mount_bind_copy(const struct vfs_ctx *ctx, struct path from, int recursive);
int mount_graft(const struct vfs_ctx *ctx, struct mount *m, struct path at);
struct superblock *mount_make_sb(const struct vfs_ctx *ctx, const char *type, const char *source,
				 uint32_t sb_flags, const char *options);
int mount_remount_sb(struct superblock *sb, int readonly, const char *options);
int mount_set_flags(struct vfs *vfs, struct mount *m, uint32_t set, uint32_t clear);

#endif
