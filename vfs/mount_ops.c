/* SPDX-License-Identifier: Apache-2.0 */
/* mount(2), umount2(2), pivot_root(2): checks in Linux's order, then one step on the tree. */
#include <linux/mount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/mount_priv.h"

#define MS_PROPAGATION (MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE)
#define UMOUNT_FORCE 1
#define UMOUNT_DETACH 2
#define UMOUNT_EXPIRE 4
#define UMOUNT_NO_FOLLOW 8
#define MNT_F_ATIME (MNT_F_NOATIME | MNT_F_RELATIME | MNT_F_STRICTATIME)
#define MNT_F_USER                                                                              \
	(MNT_F_RDONLY | MNT_F_NOSUID | MNT_F_NODEV | MNT_F_NOEXEC | MNT_F_ATIME | MNT_F_NODIRATIME | \
	 MNT_F_NOSYMFOLLOW)

static int may_mount(const struct vfs_ctx *ctx)
{
	return cred_has_cap(ctx->cred, CAP_SYS_ADMIN) ? 0 : -EPERM;
}

/* Write lock, and the list of what is freed after it. */
struct tree_op {
	struct vfs *vfs;
	struct list_head dead;
};

static void op_begin(struct tree_op *op, struct vfs *vfs)
{
	op->vfs = vfs;
	list_init(&op->dead);
	rwlock_write(&vfs->tree_lock);
}

static void op_end(struct tree_op *op)
{
	list_splice_tail(&op->vfs->late_dead, &op->dead);
	rwlock_release(&op->vfs->tree_lock);
	mnt_free_dead(&op->dead);
}

uint32_t mount_flags_from_ms(uint64_t ms)
{
	static const struct {
		uint64_t ms;
		uint32_t mnt;
	} map[] = {
		{MS_RDONLY, MNT_F_RDONLY},     {MS_NOSUID, MNT_F_NOSUID},
		{MS_NODEV, MNT_F_NODEV},       {MS_NOEXEC, MNT_F_NOEXEC},
		{MS_NOATIME, MNT_F_NOATIME},   {MS_NODIRATIME, MNT_F_NODIRATIME},
		{MS_NOSYMFOLLOW, MNT_F_NOSYMFOLLOW},
	};
	uint32_t flags = ms & MS_NOATIME ? 0 : MNT_F_RELATIME;

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (ms & map[i].ms)
			flags |= map[i].mnt;
	if (ms & MS_STRICTATIME)
		flags = (flags & ~(MNT_F_RELATIME | MNT_F_NOATIME)) | MNT_F_STRICTATIME;
	return flags;
}

/* m may go on at: Linux's graft_tree(). Held. */
int mount_check_attach(struct vfs *vfs, const struct vfs_ctx *ctx, struct mount *m, struct path at)
{
	if (at.mnt->ns != ctx->ns || !ctx->ns)
		return -EINVAL;
	if (S_ISLNK(m->root->inode->mode))
		return -EINVAL;
	if (!S_ISDIR(m->root->inode->mode) != !S_ISDIR(at.dentry->inode->mode))
		return -ENOTDIR;
	if (at.dentry->flags & DENTRY_UNLINKED)
		return -ENOENT;
	return 0;
}

/* Attaches a new or copied tree; consumes m in any case. */
int mount_graft(const struct vfs_ctx *ctx, struct mount *m, struct path at)
{
	struct tree_op op;
	int r;

	op_begin(&op, ctx->vfs);
	mnt_descend(ctx->vfs, &at);
	r = mount_check_attach(ctx->vfs, ctx, m, at);
	/* The same thing twice on one place is a mistake, says do_add_mount(). */
	if (!r && at.mnt->sb == m->sb && at.mnt->root == at.dentry && m->root == at.dentry)
		r = -EBUSY;
	if (!r)
		r = propagation_attach(ctx->vfs, m, at, &op.dead);
	if (r)
		mnt_drop_tree(ctx->vfs, m, &op.dead);
	op_end(&op);
	return r;
}

struct superblock *mount_make_sb(const struct vfs_ctx *ctx, const char *type, const char *source,
				 uint32_t sb_flags, const char *options)
{
	const struct fs_type *t = type ? fs_type_find(type) : NULL;

	if (!type)
		return ERR_PTR(-EINVAL);
	if (!t || !t->mount)
		return ERR_PTR(-ENODEV);
	if (!(t->flags & FS_USERMOUNT))
		return ERR_PTR(-EPERM);
	return t->mount(ctx->vfs, source, sb_flags, options ? options : "", NULL);
}

static int do_new_mount(const struct vfs_ctx *ctx, struct path at, const char *type,
			const char *source, uint64_t flags, const char *data)
{
	struct superblock *sb = mount_make_sb(ctx, type, source,
					      flags & MS_RDONLY ? SB_RDONLY : 0, data);
	struct mount *m;

	if (IS_ERR(sb))
		return (int)PTR_ERR(sb);
	m = mount_new(sb, mount_flags_from_ms(flags));
	return m ? mount_graft(ctx, m, at) : -ENOMEM;
}

/* A plain bind must not uncover what lies under a locked mount. Held. */
static int has_locked_child(struct mount *m, struct dentry *below)
{
	struct mount *c;

	list_for_each(c, &m->children, child)
		if ((c->flags & MNT_F_LOCKED) && dentry_is_ancestor(below, c->mountpoint))
			return 1;
	return 0;
}

struct mount *mount_bind_copy(const struct vfs_ctx *ctx, struct path from, int recursive)
{
	struct tree_op op;
	struct mount *m;

	op_begin(&op, ctx->vfs);
	if (from.mnt->ns && from.mnt->ns != ctx->ns)
		m = ERR_PTR(-EINVAL);
	else if (!from.mnt->ns)
		m = ERR_PTR(-EINVAL); /* shmem, pipes, detached trees */
	else if (!recursive && has_locked_child(from.mnt, from.dentry))
		m = ERR_PTR(-EINVAL);
	else
		m = mnt_copy_tree(from.mnt, from.dentry,
				  CLONE_KEEP | (recursive ? 0 : COPY_TOP_ONLY));
	if (!IS_ERR(m))
		m->flags &= ~MNT_F_LOCKED;
	op_end(&op);
	return m;
}

static int do_bind(const struct vfs_ctx *ctx, const char *source, struct path at, int recursive)
{
	struct tree_op op;
	struct path from;
	struct mount *m;
	int r;

	if (!source || !*source)
		return -EINVAL;
	r = vfs_lookup(ctx, NULL, source, LOOKUP_FOLLOW, &from);
	if (r)
		return r;
	m = mount_bind_copy(ctx, from, recursive);
	path_put(from);
	if (IS_ERR(m))
		return (int)PTR_ERR(m);
	/* Unlike a new mount, a bind of the same on the same place is fine. */
	op_begin(&op, ctx->vfs);
	mnt_descend(ctx->vfs, &at);
	r = mount_check_attach(ctx->vfs, ctx, m, at);
	if (!r)
		r = propagation_attach(ctx->vfs, m, at, &op.dead);
	if (r)
		mnt_drop_tree(ctx->vfs, m, &op.dead);
	op_end(&op);
	return r;
}

static int tree_has_unbindable(struct mount *top)
{
	for (struct mount *m = top; m; m = mnt_next(m, top))
		if (m->propagation == MNT_UNBINDABLE)
			return 1;
	return 0;
}

/* Held. */
static int check_move(const struct vfs_ctx *ctx, struct path from, struct path to)
{
	struct mount *m = from.mnt;

	if (from.dentry != m->root || m->ns != ctx->ns || to.mnt->ns != ctx->ns)
		return -EINVAL;
	if (!m->parent || (m->flags & MNT_F_LOCKED) || mnt_is_shared(m->parent))
		return -EINVAL;
	if (!S_ISDIR(from.dentry->inode->mode) != !S_ISDIR(to.dentry->inode->mode))
		return -ENOTDIR;
	if (mnt_is_shared(to.mnt) && tree_has_unbindable(m))
		return -EINVAL;
	for (struct mount *p = to.mnt; p; p = p->parent)
		if (p == m)
			return -ELOOP;
	return to.dentry->flags & DENTRY_UNLINKED ? -ENOENT : 0;
}

int mount_move(const struct vfs_ctx *ctx, struct path from, struct path to)
{
	struct dentry *old_at = NULL;
	struct mount *old_parent = NULL;
	struct tree_op op;
	int r;

	op_begin(&op, ctx->vfs);
	mnt_descend(ctx->vfs, &to);
	r = check_move(ctx, from, to);
	if (!r) {
		old_parent = from.mnt->parent;
		old_at = mnt_take_off(ctx->vfs, from.mnt);
		r = propagation_attach(ctx->vfs, from.mnt, to, &op.dead);
		if (r)
			mnt_link(ctx->vfs, old_parent, old_at, from.mnt);
	}
	op_end(&op);
	dentry_put(old_at);
	return r;
}

static int do_move(const struct vfs_ctx *ctx, const char *source, struct path to)
{
	struct path from;
	int r;

	if (!source || !*source)
		return -EINVAL;
	r = vfs_lookup(ctx, NULL, source, LOOKUP_FOLLOW, &from);
	if (r)
		return r;
	r = mount_move(ctx, from, to);
	path_put(from);
	return r;
}

static int do_change_type(const struct vfs_ctx *ctx, struct path at, uint64_t flags)
{
	static const struct {
		uint64_t ms;
		enum mount_propagation to;
	} types[] = {{MS_SHARED, MNT_SHARED},
		     {MS_PRIVATE, MNT_PRIVATE},
		     {MS_SLAVE, MNT_SLAVE},
		     {MS_UNBINDABLE, MNT_UNBINDABLE}};
	struct tree_op op;
	struct mount *m;
	int r = -EINVAL;

	if (flags & ~(uint64_t)(MS_REC | MS_SILENT | MS_PROPAGATION))
		return -EINVAL;
	if (at.dentry != at.mnt->root)
		return -EINVAL;
	op_begin(&op, ctx->vfs);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if ((flags & MS_PROPAGATION) != types[i].ms || at.mnt->ns != ctx->ns)
			continue;
		for (m = at.mnt; m; m = flags & MS_REC ? mnt_next(m, at.mnt) : NULL)
			propagation_set(ctx->vfs, m, types[i].to);
		mnt_changed(ctx->vfs, ctx->ns);
		r = 0;
	}
	op_end(&op);
	return r;
}

int mount_set_flags(struct vfs *vfs, struct mount *m, uint32_t set, uint32_t clear)
{
	uint32_t fresh = (m->flags & ~clear) | set, old = m->flags;

	/* Boot's masks keep what they were made with. */
	if ((m->flags & MNT_F_LOCKED) && fresh != m->flags)
		return -EPERM;
	__atomic_store_n(&m->flags, fresh, __ATOMIC_SEQ_CST);
	if ((fresh & MNT_F_RDONLY) && !(old & MNT_F_RDONLY) &&
	    __atomic_load_n(&m->writers, __ATOMIC_SEQ_CST) > 0) {
		__atomic_store_n(&m->flags, old, __ATOMIC_SEQ_CST);
		return -EBUSY;
	}
	mnt_changed(vfs, m->ns);
	return 0;
}

int mount_remount_sb(struct superblock *sb, int readonly, const char *options)
{
	uint32_t old = sb->flags;
	int r = 0;

	if (readonly && !(old & SB_RDONLY)) {
		__atomic_store_n(&sb->flags, old | SB_RDONLY, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&sb->writers, __ATOMIC_SEQ_CST) > 0)
			r = -EBUSY;
	}
	if (!r && options && *options)
		r = sb->ops && sb->ops->remount ? sb->ops->remount(sb, options) : -EINVAL;
	if (r)
		__atomic_store_n(&sb->flags, old, __ATOMIC_SEQ_CST);
	else if (!readonly)
		__atomic_store_n(&sb->flags, old & ~SB_RDONLY, __ATOMIC_SEQ_CST);
	return r;
}

static int do_remount(const struct vfs_ctx *ctx, struct path at, uint64_t flags, const char *data)
{
	uint32_t set = mount_flags_from_ms(flags), clear = MNT_F_USER;
	struct tree_op op;
	int r = 0;

	if (at.dentry != at.mnt->root || at.mnt->ns != ctx->ns)
		return -EINVAL;
	/* Without any atime flag the mount keeps what it has. */
	if (!(flags & (MS_NOATIME | MS_NODIRATIME | MS_RELATIME | MS_STRICTATIME))) {
		set &= ~MNT_F_ATIME;
		clear &= ~(MNT_F_ATIME | MNT_F_NODIRATIME);
	}
	if (at.mnt->flags & MNT_F_LOCKED)
		return -EPERM;
	if (!(flags & MS_BIND))
		r = mount_remount_sb(at.mnt->sb, (flags & MS_RDONLY) != 0, data);
	if (r)
		return r;
	op_begin(&op, ctx->vfs);
	r = mount_set_flags(ctx->vfs, at.mnt, set, clear);
	op_end(&op);
	return r;
}

int vfs_mount(const struct vfs_ctx *ctx, const char *source, const char *target, const char *type,
	      uint64_t flags, const char *data)
{
	struct path at;
	int r;

	if ((flags & MS_MGC_MSK) == MS_MGC_VAL)
		flags &= ~(uint64_t)MS_MGC_MSK;
	r = vfs_lookup(ctx, NULL, target, LOOKUP_FOLLOW, &at);
	if (r)
		return r;
	r = may_mount(ctx);
	if (r)
		goto out;
	if (flags & (1u << 31)) /* MS_NOUSER: kernel mounts only */
		r = -EINVAL;
	else if (flags & MS_REMOUNT)
		r = do_remount(ctx, at, flags, data);
	else if (flags & MS_BIND)
		r = do_bind(ctx, source, at, (flags & MS_REC) != 0);
	else if (flags & MS_PROPAGATION)
		r = do_change_type(ctx, at, flags);
	else if (flags & MS_MOVE)
		r = do_move(ctx, source, at);
	else
		r = do_new_mount(ctx, at, type, source, flags, data);
out:
	path_put(at);
	return r;
}

/* ------------------------------------------------------------------ umount */

/* Takes the whole tree at m apart, copies elsewhere included. Held. */
static void detach_tree(struct vfs *vfs, struct mount *top, struct list_head *dead)
{
	struct mount *m = top, *up;
	struct mnt_ns *ns = top->ns;

	for (;;) {
		while (!list_empty(&m->children))
			m = list_first(&m->children, struct mount, child);
		up = m == top ? NULL : m->parent;
		propagation_unmount(vfs, m, dead);
		propagation_set(vfs, m, MNT_PRIVATE);
		mnt_unlink(vfs, m, dead);
		if (!up)
			break;
		m = up;
	}
	mnt_changed(vfs, ns);
}

/* The caller's own path holds one reference beside the tree's. Held. */
static int umount_locked(const struct vfs_ctx *ctx, struct path p, int flags, struct list_head *dead)
{
	struct mount *m = p.mnt;

	if (p.dentry != m->root || m->ns != ctx->ns || (m->flags & MNT_F_LOCKED))
		return -EINVAL;
	if (m == ctx->ns->root)
		return flags & UMOUNT_DETACH ? -EINVAL : -EBUSY;
	if (flags & UMOUNT_EXPIRE) {
		if (m == ctx->root.mnt)
			return -EINVAL;
		if (ref_read(&m->ref) > 2 || !list_empty(&m->children))
			return -EBUSY;
		if (!m->expiry_mark) {
			m->expiry_mark = 1;
			return -EAGAIN;
		}
	}
	if (!(flags & UMOUNT_DETACH)) {
		if (ref_read(&m->ref) > 2 || !list_empty(&m->children))
			return -EBUSY;
		if (propagation_busy(ctx->vfs, m))
			return -EBUSY;
	}
	detach_tree(ctx->vfs, m, dead);
	return 0;
}

int vfs_umount(const struct vfs_ctx *ctx, const char *target, int flags)
{
	struct tree_op op;
	struct path p;
	int r;

	if (flags & ~(UMOUNT_FORCE | UMOUNT_DETACH | UMOUNT_EXPIRE | UMOUNT_NO_FOLLOW))
		return -EINVAL;
	if ((flags & UMOUNT_EXPIRE) && (flags & (UMOUNT_FORCE | UMOUNT_DETACH)))
		return -EINVAL;
	r = vfs_lookup(ctx, NULL, target, flags & UMOUNT_NO_FOLLOW ? 0 : LOOKUP_FOLLOW, &p);
	if (r)
		return r;
	r = may_mount(ctx);
	if (!r) {
		op_begin(&op, ctx->vfs);
		r = umount_locked(ctx, p, flags, &op.dead);
		op_end(&op);
	}
	path_put(p);
	return r;
}

/* ------------------------------------------------------------------ pivot_root */

/* p lies below root, following mounts upwards. Held. */
static int is_below(struct path p, struct path root)
{
	while (p.mnt != root.mnt) {
		if (!p.mnt->parent)
			return 0;
		p.dentry = p.mnt->mountpoint;
		p.mnt = p.mnt->parent;
	}
	return dentry_is_ancestor(root.dentry, p.dentry);
}

static int check_pivot(const struct vfs_ctx *ctx, struct path fresh, struct path old)
{
	struct mount *root_mnt = ctx->root.mnt, *new_mnt = fresh.mnt;

	if (root_mnt->ns != ctx->ns || new_mnt->ns != ctx->ns || old.mnt->ns != ctx->ns)
		return -EINVAL;
	if (mnt_is_shared(old.mnt) || (new_mnt->parent && mnt_is_shared(new_mnt->parent)) ||
	    (root_mnt->parent && mnt_is_shared(root_mnt->parent)))
		return -EINVAL;
	if (new_mnt->flags & MNT_F_LOCKED)
		return -EINVAL;
	if (fresh.dentry->flags & DENTRY_UNLINKED)
		return -ENOENT;
	if (new_mnt == root_mnt || old.mnt == root_mnt)
		return -EBUSY;
	if (ctx->root.dentry != root_mnt->root || fresh.dentry != new_mnt->root ||
	    !new_mnt->parent)
		return -EINVAL;
	if (!is_below(old, fresh) || !is_below(fresh, ctx->root))
		return -EINVAL;
	return 0;
}

int vfs_pivot_root(const struct vfs_ctx *ctx, const char *new_root, const char *put_old)
{
	struct dentry *root_at = NULL, *new_at = NULL;
	struct mount *root_mnt = ctx->root.mnt, *root_parent;
	struct path fresh, old;
	struct tree_op op;
	int r = may_mount(ctx);

	if (r)
		return r;
	r = vfs_lookup(ctx, NULL, new_root, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &fresh);
	if (r)
		return r;
	r = vfs_lookup(ctx, NULL, put_old, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &old);
	if (r) {
		path_put(fresh);
		return r;
	}
	op_begin(&op, ctx->vfs);
	r = check_pivot(ctx, fresh, old);
	if (!r) {
		new_at = mnt_take_off(ctx->vfs, fresh.mnt);
		root_parent = root_mnt->parent;
		if (root_parent) {
			root_at = mnt_take_off(ctx->vfs, root_mnt);
			mnt_link(ctx->vfs, root_parent, root_at, fresh.mnt);
		} else {
			ctx->ns->root = fresh.mnt;
			fresh.mnt->mountpoint = NULL;
		}
		mnt_link(ctx->vfs, old.mnt, old.dentry, root_mnt);
		mnt_changed(ctx->vfs, ctx->ns);
	}
	op_end(&op);
	dentry_put(root_at);
	dentry_put(new_at);
	path_put(old);
	path_put(fresh);
	return r;
}
