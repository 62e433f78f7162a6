/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The new mount API: filesystem contexts (fsopen, fspick, fsconfig, fsmount), detached trees
 * (open_tree) and what is done with them (move_mount, mount_setattr).
 *
 * A context collects options as mount(2) would get them in one string. A detached tree is kept by
 * the tree reference of its top mount, which the O_PATH file that brought it owns as long as
 * MNT_F_DETACHED stands; attaching the tree takes it over.
 */
#include "vfs/fscontext.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "vfs/mount_priv.h"

#ifndef FSCONFIG_CMD_CREATE_EXCL
#define FSCONFIG_CMD_CREATE_EXCL 8
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif
#define MOVE_MOUNT_KNOWN 0x77u
#define MOVE_MOUNT_BENEATH_BIT 0x200u
#define MOVE_MOUNT_GROUP_BIT 0x100u
#define OPTIONS_MAX 4096u
#define ATTR_KNOWN                                                                          \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |        \
	 MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME | MOUNT_ATTR_NOSYMFOLLOW)

enum phase {
	CREATE_PARAMS,	/* fsopen: options are collected */
	AWAIT_MOUNT,	/* the superblock is made */
	RECONF_PARAMS,	/* fspick, or after fsmount: options for a remount */
	FAILED,		/* creating failed: nothing more can be done with it */
};

struct fscontext {
	struct lock lock;
	enum phase phase;
	const struct fs_type *type;
	char *source;
	struct strbuf options;
	int readonly; /* -1: not said */
	struct superblock *sb; /* a reference, from AWAIT_MOUNT on */
};

static int may_mount(const struct vfs_ctx *ctx)
{
	return cred_has_cap(ctx->cred, CAP_SYS_ADMIN) ? 0 : -EPERM;
}

/* ------------------------------------------------------------------ contexts */

static void context_release(struct file *f)
{
	struct fscontext *fc = f->priv;

	sb_put(fc->sb);
	free(fc->source);
	strbuf_free(&fc->options);
	lock_destroy(&fc->lock);
	free(fc);
}

/* The log of the context: there are never messages in it. */
static ssize_t context_read(struct file *f, struct uio *u, int64_t *pos)
{
	return -ENODATA;
}

static const struct file_ops g_context_ops = {
	.read = context_read,
	.release = context_release,
};

static struct fscontext *context_of(struct file *f)
{
	return f->ops == &g_context_ops ? f->priv : NULL;
}

static struct file *context_new(const struct vfs_ctx *ctx, const struct fs_type *type,
				struct superblock *sb)
{
	struct fscontext *fc = calloc(1, sizeof(*fc));
	struct file *f;

	if (!fc)
		return ERR_PTR(-ENOMEM);
	lock_init(&fc->lock, RANK_BOOT);
	strbuf_init(&fc->options);
	fc->type = type;
	fc->readonly = -1;
	fc->phase = sb ? RECONF_PARAMS : CREATE_PARAMS;
	f = file_new_anon(ctx->vfs, "anon_inode:[fscontext]", &g_context_ops, fc, O_RDWR,
			  FMODE_READ | FMODE_STREAM, ctx->cred);
	if (IS_ERR(f)) {
		lock_destroy(&fc->lock);
		free(fc);
		return f;
	}
	if (sb)
		fc->sb = sb_get(sb);
	return f;
}

struct file *fscontext_fsopen(const struct vfs_ctx *ctx, const char *fs_name, unsigned int flags)
{
	const struct fs_type *type;
	int r = may_mount(ctx);

	if (r)
		return ERR_PTR(r);
	if (flags & ~(unsigned int)FSOPEN_CLOEXEC)
		return ERR_PTR(-EINVAL);
	type = fs_type_find(fs_name);
	if (!type || !type->mount || !(type->flags & FS_USERMOUNT))
		return ERR_PTR(-ENODEV);
	return context_new(ctx, type, NULL);
}

struct file *fscontext_fspick(const struct vfs_ctx *ctx, const struct path *start, const char *path,
			      unsigned int flags)
{
	const unsigned int known = FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW | FSPICK_NO_AUTOMOUNT |
				   FSPICK_EMPTY_PATH;
	uint32_t lookup = LOOKUP_FOLLOW;
	struct file *f;
	struct path p;
	int r = may_mount(ctx);

	if (r)
		return ERR_PTR(r);
	if (flags & ~known)
		return ERR_PTR(-EINVAL);
	if (flags & FSPICK_SYMLINK_NOFOLLOW)
		lookup = 0;
	if (flags & FSPICK_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	r = vfs_lookup(ctx, start, path, lookup, &p);
	if (r)
		return ERR_PTR(r);
	f = p.dentry == p.mnt->root ? context_new(ctx, p.mnt->sb->type, p.mnt->sb)
				    : ERR_PTR(-EINVAL);
	path_put(p);
	return f;
}

/* One option; value NULL for a flag. */
static int set_param(struct fscontext *fc, const char *key, const char *value)
{
	if (fc->phase != CREATE_PARAMS && fc->phase != RECONF_PARAMS)
		return -EBUSY;
	if (!value && strcmp(key, "ro") == 0) {
		fc->readonly = 1;
		return 0;
	}
	if (!value && strcmp(key, "rw") == 0) {
		fc->readonly = 0;
		return 0;
	}
	if (value && strcmp(key, "source") == 0) {
		if (fc->source || fc->phase != CREATE_PARAMS)
			return -EINVAL;
		fc->source = strdup(value);
		return fc->source ? 0 : -ENOMEM;
	}
	/* The options become one comma list: nothing may smuggle in a second one. */
	if (!*key || strpbrk(key, ",=") || (value && strchr(value, ',')))
		return -EINVAL;
	if (fc->options.len + strlen(key) + (value ? strlen(value) : 0) + 2 > OPTIONS_MAX)
		return -EINVAL;
	if (fc->options.len)
		strbuf_putc(&fc->options, ',');
	strbuf_puts(&fc->options, key);
	if (value)
		strbuf_printf(&fc->options, "=%s", value);
	return fc->options.err;
}

static int context_create(const struct vfs_ctx *ctx, struct fscontext *fc)
{
	struct superblock *sb;

	if (fc->phase != CREATE_PARAMS)
		return -EBUSY;
	sb = mount_make_sb(ctx, fc->type->name, fc->source ? fc->source : "none",
			   fc->readonly == 1 ? SB_RDONLY : 0,
			   fc->options.data ? fc->options.data : "");
	if (IS_ERR(sb)) {
		fc->phase = FAILED;
		return (int)PTR_ERR(sb);
	}
	fc->sb = sb;
	fc->phase = AWAIT_MOUNT;
	return 0;
}

static void reset_params(struct fscontext *fc)
{
	strbuf_free(&fc->options);
	strbuf_init(&fc->options);
	fc->readonly = -1;
	fc->phase = RECONF_PARAMS;
}

static int context_reconfigure(struct fscontext *fc)
{
	int ro, r;

	if (fc->phase != RECONF_PARAMS)
		return -EBUSY;
	ro = fc->readonly >= 0 ? fc->readonly : (fc->sb->flags & SB_RDONLY) != 0;
	r = mount_remount_sb(fc->sb, ro, fc->options.data);
	if (!r)
		reset_params(fc);
	return r;
}

int fscontext_fsconfig(const struct vfs_ctx *ctx, struct file *f, unsigned int cmd, const char *key,
		       const char *value, int aux)
{
	struct fscontext *fc = context_of(f);
	int r;

	if (!fc)
		return -EINVAL;
	/* Which arguments each command takes. */
	switch (cmd) {
	case FSCONFIG_SET_FLAG:
		if (!key || value || aux)
			return -EINVAL;
		break;
	case FSCONFIG_SET_STRING:
		if (!key || !value || aux)
			return -EINVAL;
		break;
	case FSCONFIG_CMD_CREATE:
	case FSCONFIG_CMD_CREATE_EXCL:
	case FSCONFIG_CMD_RECONFIGURE:
		if (key || value || aux)
			return -EINVAL;
		break;
	default:
		return -EOPNOTSUPP; /* binary, path and fd parameters: no filesystem here has any */
	}
	r = cmd >= FSCONFIG_CMD_CREATE ? may_mount(ctx) : 0;
	if (r)
		return r;
	lock_acquire(&fc->lock);
	switch (cmd) {
	case FSCONFIG_SET_FLAG:
	case FSCONFIG_SET_STRING:
		r = set_param(fc, key, value);
		break;
	case FSCONFIG_CMD_RECONFIGURE:
		r = context_reconfigure(fc);
		break;
	default:
		r = context_create(ctx, fc);
	}
	lock_release(&fc->lock);
	return r;
}

/* ------------------------------------------------------------------ detached trees */

static void detached_release(struct file *f)
{
	struct vfs *vfs = f->inode->sb->vfs;
	struct mount *m = f->path.mnt;
	struct list_head dead;

	list_init(&dead);
	rwlock_write(&vfs->tree_lock);
	if (m->flags & MNT_F_DETACHED) {
		m->flags &= ~MNT_F_DETACHED;
		mnt_drop_tree(vfs, m, &dead);
	}
	rwlock_release(&vfs->tree_lock);
	mnt_free_dead(&dead);
}

static const struct file_ops g_detached_ops = {.release = detached_release};

/* An O_PATH file on the top of a tree nobody else has; consumes m. */
static struct file *detached_file(const struct vfs_ctx *ctx, struct mount *m)
{
	struct file *f = file_alloc((struct path){m, m->root}, m->root->inode, O_PATH, FMODE_PATH,
				    ctx->cred);
	struct list_head dead;

	if (f) {
		f->ops = &g_detached_ops;
		m->flags |= MNT_F_DETACHED;
		return f;
	}
	list_init(&dead);
	rwlock_write(&ctx->vfs->tree_lock);
	mnt_drop_tree(ctx->vfs, m, &dead);
	rwlock_release(&ctx->vfs->tree_lock);
	mnt_free_dead(&dead);
	return ERR_PTR(-ENOMEM);
}

static int attr_to_flags(uint64_t attr, uint32_t *out)
{
	static const struct {
		uint64_t attr;
		uint32_t mnt;
	} map[] = {
		{MOUNT_ATTR_RDONLY, MNT_F_RDONLY},	   {MOUNT_ATTR_NOSUID, MNT_F_NOSUID},
		{MOUNT_ATTR_NODEV, MNT_F_NODEV},	   {MOUNT_ATTR_NOEXEC, MNT_F_NOEXEC},
		{MOUNT_ATTR_NODIRATIME, MNT_F_NODIRATIME}, {MOUNT_ATTR_NOSYMFOLLOW, MNT_F_NOSYMFOLLOW},
	};

	if (attr & ~(uint64_t)ATTR_KNOWN)
		return -EINVAL;
	*out = 0;
	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (attr & map[i].attr)
			*out |= map[i].mnt;
	return 0;
}

/* The atime mode in attr, or -EINVAL. */
static int attr_atime(uint64_t attr, uint32_t *out)
{
	switch (attr & MOUNT_ATTR__ATIME) {
	case MOUNT_ATTR_RELATIME:
		*out = MNT_F_RELATIME;
		return 0;
	case MOUNT_ATTR_NOATIME:
		*out = MNT_F_NOATIME;
		return 0;
	case MOUNT_ATTR_STRICTATIME:
		*out = MNT_F_STRICTATIME;
		return 0;
	default:
		return -EINVAL;
	}
}

struct file *fscontext_fsmount(const struct vfs_ctx *ctx, struct file *f, unsigned int flags,
			       unsigned int attr_flags)
{
	struct fscontext *fc = context_of(f);
	uint32_t mnt_flags, atime;
	struct mount *m = NULL;
	int r = may_mount(ctx);

	if (r)
		return ERR_PTR(r);
	if (flags & ~(unsigned int)FSMOUNT_CLOEXEC)
		return ERR_PTR(-EINVAL);
	r = attr_to_flags(attr_flags, &mnt_flags);
	if (!r)
		r = attr_atime(attr_flags, &atime);
	if (r)
		return ERR_PTR(r);
	if (!fc)
		return ERR_PTR(-EINVAL);
	lock_acquire(&fc->lock);
	if (!fc->sb)
		r = -EINVAL;
	else if (fc->phase != AWAIT_MOUNT)
		r = -EBUSY;
	if (!r) {
		m = mount_new(sb_get(fc->sb), mnt_flags | atime);
		if (m)
			reset_params(fc);
		else
			r = -ENOMEM;
	}
	lock_release(&fc->lock);
	return r ? ERR_PTR(r) : detached_file(ctx, m);
}

struct file *fscontext_open_tree(const struct vfs_ctx *ctx, const struct path *start,
				 const char *path, unsigned int flags)
{
	const unsigned int known = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_RECURSIVE |
				   AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	uint32_t lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct file *f;
	struct mount *m;
	struct path p;
	int r;

	if (flags & ~known)
		return ERR_PTR(-EINVAL);
	if ((flags & (AT_RECURSIVE | OPEN_TREE_CLONE)) == AT_RECURSIVE)
		return ERR_PTR(-EINVAL);
	if ((flags & OPEN_TREE_CLONE) && may_mount(ctx))
		return ERR_PTR(-EPERM);
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	r = vfs_lookup(ctx, start, path, lookup, &p);
	if (r)
		return ERR_PTR(r);
	if (flags & OPEN_TREE_CLONE) {
		m = mount_bind_copy(ctx, p, (flags & AT_RECURSIVE) != 0);
		f = IS_ERR(m) ? (void *)m : detached_file(ctx, m);
	} else {
		f = file_open_dentry(ctx, p, O_PATH, 0);
	}
	path_put(p);
	return f;
}

/* A detached tree finds its place. */
static int attach_detached(const struct vfs_ctx *ctx, struct path from, struct path to)
{
	struct list_head dead;
	int r;

	list_init(&dead);
	rwlock_write(&ctx->vfs->tree_lock);
	mnt_descend(ctx->vfs, &to);
	if (!(from.mnt->flags & MNT_F_DETACHED) || from.dentry != from.mnt->root)
		r = -EINVAL;
	else
		r = mount_check_attach(ctx->vfs, ctx, from.mnt, to);
	if (!r)
		r = propagation_attach(ctx->vfs, from.mnt, to, &dead);
	if (!r)
		from.mnt->flags &= ~MNT_F_DETACHED;
	list_splice_tail(&ctx->vfs->late_dead, &dead);
	rwlock_release(&ctx->vfs->tree_lock);
	mnt_free_dead(&dead);
	return r;
}

int fscontext_move_mount(const struct vfs_ctx *ctx, const struct path *from_start,
			 const char *from_path, const struct path *to_start, const char *to_path,
			 unsigned int flags)
{
	uint32_t from_lookup = 0, to_lookup = 0;
	struct path from, to;
	int r = may_mount(ctx);

	if (r)
		return r;
	if (flags & (MOVE_MOUNT_BENEATH_BIT | MOVE_MOUNT_GROUP_BIT))
		log_once("move_mount: flags %#x are not supported", flags);
	if (flags & ~MOVE_MOUNT_KNOWN)
		return -EINVAL;
	if (flags & MOVE_MOUNT_F_SYMLINKS)
		from_lookup |= LOOKUP_FOLLOW;
	if (flags & MOVE_MOUNT_F_EMPTY_PATH)
		from_lookup |= LOOKUP_EMPTY;
	if (flags & MOVE_MOUNT_T_SYMLINKS)
		to_lookup |= LOOKUP_FOLLOW;
	if (flags & MOVE_MOUNT_T_EMPTY_PATH)
		to_lookup |= LOOKUP_EMPTY;
	r = vfs_lookup(ctx, from_start, from_path, from_lookup, &from);
	if (r)
		return r;
	r = vfs_lookup(ctx, to_start, to_path, to_lookup, &to);
	if (!r) {
		r = from.mnt->ns ? mount_move(ctx, from, to) : attach_detached(ctx, from, to);
		path_put(to);
	}
	path_put(from);
	return r;
}

/* ------------------------------------------------------------------ mount_setattr */

struct change {
	uint32_t set, clear;
	int propagation; /* -1: none */
};

static int parse_attr(const struct mount_attr *a, struct change *c)
{
	static const struct {
		uint64_t ms;
		enum mount_propagation to;
	} types[] = {{MS_SHARED, MNT_SHARED},
		     {MS_PRIVATE, MNT_PRIVATE},
		     {MS_SLAVE, MNT_SLAVE},
		     {MS_UNBINDABLE, MNT_UNBINDABLE}};
	uint32_t atime;
	int r;

	/* Id-mapped mounts (MOUNT_ATTR_IDMAP) fall out here too. */
	r = attr_to_flags(a->attr_set, &c->set);
	if (!r)
		r = attr_to_flags(a->attr_clr, &c->clear);
	if (r)
		return r;
	/* A new atime mode is only taken when the old one is cleared as a whole. */
	if (a->attr_clr & MOUNT_ATTR__ATIME) {
		if ((a->attr_clr & MOUNT_ATTR__ATIME) != MOUNT_ATTR__ATIME)
			return -EINVAL;
		r = attr_atime(a->attr_set, &atime);
		if (r)
			return r;
		c->clear |= MNT_F_NOATIME | MNT_F_RELATIME | MNT_F_STRICTATIME;
		c->set |= atime;
	} else if (a->attr_set & MOUNT_ATTR__ATIME) {
		return -EINVAL;
	}
	c->propagation = -1;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (a->propagation == types[i].ms)
			c->propagation = (int)types[i].to;
	return a->propagation && c->propagation < 0 ? -EINVAL : 0;
}

/* Applies to the whole subtree or to nothing. Held. */
static int change_tree(const struct vfs_ctx *ctx, struct mount *top, const struct change *c, int rec)
{
	struct mount *m;
	int busy = 0;

	for (m = top; m; m = rec ? mnt_next(m, top) : NULL)
		if ((m->flags & MNT_F_LOCKED) && ((m->flags & ~c->clear) | c->set) != m->flags)
			return -EPERM;
	if (c->set & MNT_F_RDONLY) {
		/* Read-only first, then look for writers; openers count themselves first. */
		for (m = top; m; m = rec ? mnt_next(m, top) : NULL) {
			m->seen = m->flags & MNT_F_RDONLY;
			__atomic_fetch_or(&m->flags, MNT_F_RDONLY, __ATOMIC_SEQ_CST);
		}
		for (m = top; m; m = rec ? mnt_next(m, top) : NULL)
			if (!m->seen && __atomic_load_n(&m->writers, __ATOMIC_SEQ_CST) > 0)
				busy = 1;
		for (m = top; m; m = rec ? mnt_next(m, top) : NULL) {
			if (busy && !m->seen)
				m->flags &= ~MNT_F_RDONLY;
			m->seen = 0;
		}
		if (busy)
			return -EBUSY;
	}
	for (m = top; m; m = rec ? mnt_next(m, top) : NULL) {
		__atomic_store_n(&m->flags, (m->flags & ~c->clear) | c->set, __ATOMIC_SEQ_CST);
		if (c->propagation >= 0)
			propagation_set(ctx->vfs, m, (enum mount_propagation)c->propagation);
	}
	mnt_changed(ctx->vfs, top->ns);
	return 0;
}

int fscontext_mount_setattr(const struct vfs_ctx *ctx, const struct path *start, const char *path,
			    unsigned int flags, const struct mount_attr *attr)
{
	const unsigned int known = AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
	uint32_t lookup = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct change c;
	struct path p;
	int r;

	if (flags & ~known)
		return -EINVAL;
	r = may_mount(ctx);
	if (r)
		return r;
	if (!attr->attr_set && !attr->attr_clr && !attr->propagation)
		return 0;
	r = parse_attr(attr, &c);
	if (r)
		return r;
	if (flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	r = vfs_lookup(ctx, start, path, lookup, &p);
	if (r)
		return r;
	rwlock_write(&ctx->vfs->tree_lock);
	if (p.dentry != p.mnt->root)
		r = -EINVAL;
	else if (p.mnt->ns ? p.mnt->ns != ctx->ns : !(p.mnt->flags & MNT_F_DETACHED))
		r = -EINVAL;
	else
		r = change_tree(ctx, p.mnt, &c, (flags & AT_RECURSIVE) != 0);
	rwlock_release(&ctx->vfs->tree_lock);
	path_put(p);
	return r;
}
