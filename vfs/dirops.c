/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes directories: mknod, mkdir, symlink, link, unlink, rmdir, rename, and open's create.
 * Each walks to the parent, locks it, looks the last name up under the lock, checks everything
 * in Linux's order, then calls the filesystem and moves the dentries. The permission op of a
 * directory is asked before its lock is taken, because it may take that lock; its answer is used
 * in its place among the checks.
 */
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

uint32_t vfs_apply_umask(const struct vfs_ctx *ctx, uint32_t mode)
{
	return mode & ~(ctx->umask & 0777);
}

static int dir_perm(struct inode *dir, const struct cred *cred)
{
	return inode_permission(dir, MAY_WRITE | MAY_EXEC, cred);
}

/* A directory gained, lost or renamed an entry: inotify. */
static void notify_entry(struct vfs *vfs, struct inode *dir, uint32_t mask, const struct inode *ino,
			 const char *name)
{
	if (notify_active(vfs))
		notify_inode(vfs, dir, mask | (ino && S_ISDIR(ino->mode) ? IN_ISDIR : 0), 0, name);
}

/* A new name: what the walk and the lock found. */
struct create {
	struct walk w;
	struct inode *dir;
	struct dentry *d; /* negative, a reference */
	int perm;	  /* of writing to dir */
	char name[NAME_MAX + 1];
};

/*
 * Ends with the parent locked and a negative dentry in c->d, or an error and nothing locked;
 * create_end() in any case. Permission is still to be checked: link(2) asks other things first.
 */
static int create_lookup(struct create *c, const struct vfs_ctx *ctx, const struct path *start,
			const char *path, int is_dir)
{
	struct walk *w = &c->w;
	int r;

	c->d = NULL;
	r = walk_parent(w, ctx, start, path, 0);
	if (r)
		return r;
	if (w->last_type != LAST_NORM)
		return -EEXIST;
	c->dir = w->held_cur.dentry->inode;
	memcpy(c->name, w->last, w->last_len);
	c->name[w->last_len] = 0;
	c->perm = dir_perm(c->dir, ctx->cred);
	lock_acquire(&c->dir->lock);
	c->d = dentry_lookup_locked(w->held_cur.dentry, w->last, w->last_len);
	if (IS_ERR(c->d)) {
		r = (int)PTR_ERR(c->d);
		c->d = NULL;
	} else if (c->d->inode) {
		r = -EEXIST;
	} else if (w->trailing && !is_dir) {
		r = -ENOENT;
	} else {
		r = mount_writable(w->held_cur.mnt);
	}
	if (r)
		lock_release(&c->dir->lock);
	return r;
}

static int create_begin(struct create *c, const struct vfs_ctx *ctx, const struct path *start,
			const char *path, int is_dir)
{
	int r = create_lookup(c, ctx, start, path, is_dir);

	if (r)
		return r;
	r = perm_may_create(c->dir, c->perm);
	if (r)
		lock_release(&c->dir->lock);
	return r;
}

/* ino: the new inode or ERR_PTR; unlocks. */
static int create_commit(struct create *c, struct inode *ino)
{
	struct vfs *vfs = c->w.vfs;
	int r = 0;

	if (IS_ERR(ino))
		r = (int)PTR_ERR(ino);
	else
		dentry_instantiate(c->d, ino);
	lock_release(&c->dir->lock);
	if (!r)
		notify_entry(vfs, c->dir, IN_CREATE, c->d->inode, c->name);
	return r;
}

static void create_end(struct create *c)
{
	dentry_put(c->d);
	walk_end(&c->w);
}

static struct inode *make_node(struct create *c, uint32_t mode, uint64_t rdev)
{
	const struct inode_ops *ops = c->dir->ops;
	const struct cred *cred = c->w.ctx->cred;

	if (S_ISREG(mode))
		return ops->create ? ops->create(c->dir, c->name, mode, cred) : ERR_PTR(-EPERM);
	return ops->mknod ? ops->mknod(c->dir, c->name, mode, rdev, cred) : ERR_PTR(-EPERM);
}

int vfs_mknodat(const struct vfs_ctx *ctx, const struct path *start, const char *path,
		uint32_t mode, uint64_t rdev)
{
	struct create c;
	int r;

	if (!(mode & S_IFMT))
		mode |= S_IFREG;
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
		rdev = 0;
		break;
	case S_IFCHR:
	case S_IFBLK:
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	r = create_begin(&c, ctx, start, path, 0);
	if (!r) {
		mode = vfs_apply_umask(ctx, mode & (S_IFMT | 07777));
		/* A character device 0:0 is overlay's whiteout and needs no privilege. */
		if ((S_ISCHR(mode) || S_ISBLK(mode)) && !(S_ISCHR(mode) && rdev == 0) &&
		    !cred_has_cap(ctx->cred, CAP_MKNOD)) {
			lock_release(&c.dir->lock);
			r = -EPERM;
		} else {
			r = create_commit(&c, make_node(&c, mode, rdev));
		}
	}
	create_end(&c);
	return r;
}

struct inode *vfs_bind_socket(const struct vfs_ctx *ctx, const char *path, uint32_t mode,
			      struct path *out)
{
	struct create c;
	struct inode *ino = NULL;
	int r = create_begin(&c, ctx, NULL, path, 0);

	if (!r) {
		mode = vfs_apply_umask(ctx, S_IFSOCK | (mode & 07777));
		r = create_commit(&c, make_node(&c, mode, 0));
	}
	if (!r) {
		ino = inode_get(c.d->inode);
		*out = path_get((struct path){c.w.held_cur.mnt, c.d});
	}
	create_end(&c);
	return r ? ERR_PTR(r == -EEXIST ? -EADDRINUSE : r) : ino;
}

int vfs_mkdirat(const struct vfs_ctx *ctx, const struct path *start, const char *path, uint32_t mode)
{
	struct create c;
	int r = create_begin(&c, ctx, start, path, 1);

	if (!r) {
		const struct inode_ops *ops = c.dir->ops;

		mode = S_IFDIR | vfs_apply_umask(ctx, mode & (0777 | S_ISVTX));
		r = create_commit(&c, ops->mkdir ? ops->mkdir(c.dir, c.name, mode, ctx->cred)
						 : ERR_PTR(-EPERM));
	}
	create_end(&c);
	return r;
}

int vfs_symlinkat(const struct vfs_ctx *ctx, const char *target, const struct path *start,
		  const char *path)
{
	struct create c;
	int r;

	if (!*target)
		return -ENOENT;
	r = create_begin(&c, ctx, start, path, 0);
	if (!r) {
		const struct inode_ops *ops = c.dir->ops;

		r = create_commit(&c, ops->symlink ? ops->symlink(c.dir, c.name, target, ctx->cred)
						   : ERR_PTR(-EPERM));
	}
	create_end(&c);
	return r;
}

static int link_checked(struct create *c, struct inode *target)
{
	if (target->attr_flags & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE))
		return -EPERM;
	if (!c->dir->ops->link || S_ISDIR(target->mode))
		return -EPERM;
	if (target->nlink == 0 && !(target->attr_flags & INODE_LINKABLE))
		return -ENOENT;
	return c->dir->ops->link(c->dir, c->name, target);
}

int vfs_linkat(const struct vfs_ctx *ctx, const struct path *old_start, const char *old_path,
	       const struct path *new_start, const char *new_path, uint32_t lookup_flags)
{
	struct create c;
	struct path old;
	struct inode *target;
	int r;

	r = vfs_lookup(ctx, old_start, old_path, lookup_flags & (LOOKUP_FOLLOW | LOOKUP_EMPTY),
		       &old);
	if (r)
		return r;
	target = old.dentry->inode;
	r = create_lookup(&c, ctx, new_start, new_path, 0);
	if (!r) {
		if (c.w.held_cur.mnt != old.mnt)
			r = -EXDEV;
		else
			r = perm_may_linkat(target, ctx->cred);
		if (!r)
			r = perm_may_create(c.dir, c.perm);
		if (!r)
			r = link_checked(&c, target);
		r = create_commit(&c, r ? ERR_PTR(r) : inode_get(target));
		if (!r && notify_active(ctx->vfs))
			notify_inode(ctx->vfs, target, IN_ATTRIB, 0, NULL);
	}
	create_end(&c);
	path_put(old);
	return r;
}

struct dentry *dirops_find_or_create(struct walk *w, uint32_t mode, int *created)
{
	struct dentry *parent = w->held_cur.dentry, *d;
	struct inode *dir = parent->inode, *ino;
	const struct cred *cred = w->ctx->cred;
	char name[NAME_MAX + 1];
	int r, perm;

	*created = 0;
	if (w->last_len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	memcpy(name, w->last, w->last_len);
	name[w->last_len] = 0;
	perm = dir_perm(dir, cred);
	lock_acquire(&dir->lock);
	d = dentry_lookup_locked(parent, name, w->last_len);
	if (IS_ERR(d) || d->inode) {
		lock_release(&dir->lock);
		return d;
	}
	r = mount_writable(w->held_cur.mnt);
	if (!r)
		r = perm_may_create(dir, perm);
	if (!r && !dir->ops->create)
		r = -EACCES;
	if (!r) {
		ino = dir->ops->create(dir, name, mode, cred);
		if (IS_ERR(ino))
			r = (int)PTR_ERR(ino);
		else
			dentry_instantiate(d, ino);
	}
	lock_release(&dir->lock);
	if (r) {
		dentry_put(d);
		return ERR_PTR(r);
	}
	*created = 1;
	notify_entry(w->vfs, dir, IN_CREATE, d->inode, name);
	return d;
}

/* ------------------------------------------------------------------ unlink, rmdir */

static int last_type_error(enum last_type type, int isdir)
{
	if (type == LAST_NORM)
		return 0;
	if (!isdir)
		return -EISDIR;
	return type == LAST_DOT ? -EINVAL : type == LAST_DOTDOT ? -ENOTEMPTY : -EBUSY;
}

/* d, found under dir's lock, is removed; everything about it is checked here. */
static int remove_checked(struct walk *w, struct inode *dir, int perm, struct dentry *d, int isdir,
			  const char *name)
{
	struct inode *victim = d->inode;
	int r, busy;

	if (!victim)
		return -ENOENT;
	if (!isdir && w->trailing)
		return S_ISDIR(victim->mode) ? -EISDIR : -ENOTDIR;
	r = perm_may_delete(dir, perm, victim, isdir, w->ctx->cred);
	if (r)
		return r;
	if (isdir ? !dir->ops->rmdir : !dir->ops->unlink)
		return -EPERM;
	rwlock_read(&w->vfs->tree_lock);
	busy = mount_is_local_mountpoint(w->vfs, w->ctx->ns, d);
	rwlock_release(&w->vfs->tree_lock);
	if (busy)
		return -EBUSY;
	r = isdir ? dir->ops->rmdir(dir, name, victim) : dir->ops->unlink(dir, name, victim);
	if (!r)
		dentry_unlinked(w->vfs, d);
	return r;
}

int vfs_unlinkat(const struct vfs_ctx *ctx, const struct path *start, const char *path, int isdir)
{
	struct walk w;
	struct inode *dir;
	struct dentry *d;
	char name[NAME_MAX + 1];
	int r, perm;

	r = walk_parent(&w, ctx, start, path, 0);
	if (!r)
		r = last_type_error(w.last_type, isdir);
	if (!r)
		r = mount_writable(w.held_cur.mnt);
	if (r)
		goto out;
	memcpy(name, w.last, w.last_len);
	name[w.last_len] = 0;
	dir = w.held_cur.dentry->inode;
	perm = dir_perm(dir, ctx->cred);
	lock_acquire(&dir->lock);
	d = dentry_lookup_locked(w.held_cur.dentry, name, w.last_len);
	if (IS_ERR(d)) {
		lock_release(&dir->lock);
		r = (int)PTR_ERR(d);
		goto out;
	}
	r = remove_checked(&w, dir, perm, d, isdir, name);
	lock_release(&dir->lock);
	if (!r) {
		if (d->mounted)
			mount_detach_all_at(ctx->vfs, d);
		if (!isdir && notify_active(ctx->vfs))
			notify_inode(ctx->vfs, d->inode, IN_ATTRIB, 0, NULL);
	}
	/* The inode's own end (IN_DELETE_SELF) is told before its name's. */
	dentry_put(d);
	if (!r && notify_active(ctx->vfs))
		notify_inode(ctx->vfs, dir, IN_DELETE | (isdir ? IN_ISDIR : 0), 0, name);
out:
	walk_end(&w);
	return r;
}

/* ------------------------------------------------------------------ rename */

struct rename {
	const struct vfs_ctx *ctx;
	uint32_t flags;
	struct walk ow, nw;
	struct dentry *old_parent, *new_parent;
	struct inode *old_dir, *new_dir;
	int old_perm, new_perm;
	struct dentry *od, *nd; /* references */
	char old_name[NAME_MAX + 1], new_name[NAME_MAX + 1];
};

/*
 * Both parents, an ancestor before its descendant, else by address. rename_lock keeps the
 * relation of two directories from changing meanwhile.
 */
static void lock_parents(struct rename *rn)
{
	struct inode *a = rn->old_dir, *b = rn->new_dir;
	int b_first;

	if (a == b) {
		lock_acquire(&a->lock);
		return;
	}
	lock_acquire(&rn->ctx->vfs->rename_lock);
	rwlock_read(&rn->ctx->vfs->tree_lock);
	b_first = dentry_is_ancestor(rn->new_parent, rn->old_parent) ||
		  (b < a && !dentry_is_ancestor(rn->old_parent, rn->new_parent));
	rwlock_release(&rn->ctx->vfs->tree_lock);
	lock_acquire(b_first ? &b->lock : &a->lock);
	lock_acquire_nested(b_first ? &a->lock : &b->lock);
}

static void unlock_parents(struct rename *rn)
{
	lock_release(&rn->old_dir->lock);
	if (rn->old_dir == rn->new_dir)
		return;
	lock_release(&rn->new_dir->lock);
	lock_release(&rn->ctx->vfs->rename_lock);
}

/* Existence, slashes and loops, in do_renameat2's order. */
static int rename_check_names(struct rename *rn)
{
	struct dentry *od = rn->od, *nd = rn->nd;
	int exchange = (rn->flags & RENAME_EXCHANGE) != 0, r = 0;

	if (!od->inode)
		return -ENOENT;
	if ((rn->flags & RENAME_NOREPLACE) && nd->inode)
		return -EEXIST;
	if (exchange) {
		if (!nd->inode)
			return -ENOENT;
		if (!S_ISDIR(nd->inode->mode) && rn->nw.trailing)
			return -ENOTDIR;
	}
	if (!S_ISDIR(od->inode->mode)) {
		if (rn->ow.trailing || (!exchange && rn->nw.trailing))
			return -ENOTDIR;
	}
	rwlock_read(&rn->ctx->vfs->tree_lock);
	if (dentry_is_ancestor(od, rn->new_parent))
		r = -EINVAL;
	else if (nd->inode && dentry_is_ancestor(nd, rn->old_parent))
		r = exchange ? -EINVAL : -ENOTEMPTY;
	rwlock_release(&rn->ctx->vfs->tree_lock);
	return r;
}

static int rename_check_perm(struct rename *rn)
{
	const struct cred *cred = rn->ctx->cred;
	struct inode *src = rn->od->inode, *target = rn->nd->inode;
	int exchange = (rn->flags & RENAME_EXCHANGE) != 0, r;
	int isdir = S_ISDIR(src->mode), new_isdir = target && S_ISDIR(target->mode), busy;

	r = perm_may_delete(rn->old_dir, rn->old_perm, src, isdir, cred);
	if (!r && !target)
		r = perm_may_create(rn->new_dir, rn->new_perm);
	else if (!r)
		r = perm_may_delete(rn->new_dir, rn->new_perm, target,
				    exchange ? new_isdir : isdir, cred);
	if (r)
		return r;
	if (!rn->old_dir->ops->rename)
		return -EPERM;
	/* ".." of a moved directory changes: that is a write to it. */
	if (rn->old_dir != rn->new_dir) {
		if (isdir)
			r = inode_permission(src, MAY_WRITE, cred);
		if (!r && exchange && new_isdir)
			r = inode_permission(target, MAY_WRITE, cred);
		if (r)
			return r;
	}
	rwlock_read(&rn->ctx->vfs->tree_lock);
	busy = mount_is_local_mountpoint(rn->ctx->vfs, rn->ctx->ns, rn->od) ||
	       mount_is_local_mountpoint(rn->ctx->vfs, rn->ctx->ns, rn->nd);
	rwlock_release(&rn->ctx->vfs->tree_lock);
	return busy ? -EBUSY : 0;
}

static void rename_notify(struct rename *rn, struct inode *src, struct inode *target)
{
	struct vfs *vfs = rn->ctx->vfs;
	uint32_t isdir = S_ISDIR(src->mode) ? IN_ISDIR : 0, cookie;

	if (!notify_active(vfs))
		return;
	cookie = __atomic_add_fetch(&vfs->next_cookie, 1, __ATOMIC_RELAXED);
	if (rn->old_dir == rn->new_dir)
		notify_inode(vfs, rn->old_dir, NOTIFY_RENAME | isdir, cookie, rn->old_name);
	notify_inode(vfs, rn->old_dir, IN_MOVED_FROM | isdir, cookie, rn->old_name);
	notify_inode(vfs, rn->new_dir, IN_MOVED_TO | isdir, cookie, rn->new_name);
	notify_inode(vfs, src, IN_MOVE_SELF, 0, NULL);
	if (rn->flags & RENAME_EXCHANGE) {
		isdir = S_ISDIR(target->mode) ? IN_ISDIR : 0;
		cookie = __atomic_add_fetch(&vfs->next_cookie, 1, __ATOMIC_RELAXED);
		notify_inode(vfs, rn->new_dir, IN_MOVED_FROM | isdir, cookie, rn->new_name);
		notify_inode(vfs, rn->old_dir, IN_MOVED_TO | isdir, cookie, rn->old_name);
	} else if (target) {
		notify_inode(vfs, target, IN_ATTRIB, 0, NULL);
	}
}

/* Parents locked, names looked up. */
static int rename_locked(struct rename *rn)
{
	struct inode *src, *target;
	char *new_mem, *old_mem = NULL;
	int exchange = (rn->flags & RENAME_EXCHANGE) != 0, r;

	r = rename_check_names(rn);
	if (r)
		return r;
	src = rn->od->inode;
	target = rn->nd->inode;
	if (src == target)
		return 1;
	r = rename_check_perm(rn);
	if (r)
		return r;
	r = dentry_name_alloc(rn->nd->name_len, &new_mem);
	if (!r && exchange)
		r = dentry_name_alloc(rn->od->name_len, &old_mem);
	if (!r)
		r = rn->old_dir->ops->rename(rn->old_dir, rn->old_name, src, rn->new_dir,
					     rn->new_name, target,
					     rn->flags & (RENAME_EXCHANGE | RENAME_WHITEOUT));
	if (r) {
		free(new_mem);
		free(old_mem);
		return r;
	}
	if (target && !exchange && S_ISDIR(target->mode))
		dentry_invalidate(rn->nd);
	dentry_move(rn->ctx->vfs, rn->od, rn->nd, exchange, new_mem, old_mem);
	return 0;
}

static int rename_lookup(struct rename *rn)
{
	rn->od = dentry_lookup_locked(rn->old_parent, rn->old_name, rn->ow.last_len);
	if (IS_ERR(rn->od))
		return (int)PTR_ERR(rn->od);
	rn->nd = dentry_lookup_locked(rn->new_parent, rn->new_name, rn->nw.last_len);
	return IS_ERR(rn->nd) ? (int)PTR_ERR(rn->nd) : 0;
}

static int rename_parents(struct rename *rn, const struct path *old_start, const char *old_path,
			  const struct path *new_start, const char *new_path)
{
	const struct vfs_ctx *ctx = rn->ctx;
	int r = walk_parent(&rn->nw, ctx, new_start, new_path, 0);

	if (r)
		return r;
	if (rn->ow.held_cur.mnt != rn->nw.held_cur.mnt)
		return -EXDEV;
	if (rn->ow.last_type != LAST_NORM)
		return -EBUSY;
	if (rn->nw.last_type != LAST_NORM)
		return rn->flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	r = mount_writable(rn->ow.held_cur.mnt);
	if (r)
		return r;
	rn->old_parent = rn->ow.held_cur.dentry;
	rn->new_parent = rn->nw.held_cur.dentry;
	rn->old_dir = rn->old_parent->inode;
	rn->new_dir = rn->new_parent->inode;
	memcpy(rn->old_name, rn->ow.last, rn->ow.last_len);
	rn->old_name[rn->ow.last_len] = 0;
	memcpy(rn->new_name, rn->nw.last, rn->nw.last_len);
	rn->new_name[rn->nw.last_len] = 0;
	rn->old_perm = dir_perm(rn->old_dir, ctx->cred);
	rn->new_perm = rn->new_dir == rn->old_dir ? rn->old_perm
						  : dir_perm(rn->new_dir, ctx->cred);
	return 0;
}

int vfs_renameat2(const struct vfs_ctx *ctx, const struct path *old_start, const char *old_path,
		  const struct path *new_start, const char *new_path, uint32_t flags)
{
	struct rename rn = {.ctx = ctx, .flags = flags};
	int r;

	if (flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	if ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)))
		return -EINVAL;
	r = walk_parent(&rn.ow, ctx, old_start, old_path, 0);
	if (r) {
		walk_end(&rn.ow);
		return r;
	}
	r = rename_parents(&rn, old_start, old_path, new_start, new_path);
	if (r)
		goto out;
	lock_parents(&rn);
	r = rename_lookup(&rn);
	if (!r)
		r = rename_locked(&rn);
	unlock_parents(&rn);
	if (!r) {
		struct inode *target = flags & RENAME_EXCHANGE || rn.nd->flags & DENTRY_UNLINKED
					       ? rn.nd->inode
					       : NULL;

		if (target && !(flags & RENAME_EXCHANGE) && rn.nd->mounted)
			mount_detach_all_at(ctx->vfs, rn.nd);
		rename_notify(&rn, rn.od->inode, target);
	} else if (r == 1) {
		r = 0; /* two names of one inode: nothing to do */
	}
	if (!IS_ERR(rn.od))
		dentry_put(rn.od);
	if (rn.nd && !IS_ERR(rn.nd))
		dentry_put(rn.nd);
out:
	walk_end(&rn.nw);
	walk_end(&rn.ow);
	return r;
}

ssize_t vfs_readlink(const struct vfs_ctx *ctx, struct path p, char *buf, size_t size)
{
	struct inode *ino = p.dentry->inode;

	if (size == 0)
		return -EINVAL;
	if (!S_ISLNK(ino->mode) || (!ino->link && !ino->ops->readlink))
		return -EINVAL;
	path_touch_atime(p, 0);
	if (ino->link) {
		size_t len = strlen(ino->link);

		if (len > size)
			len = size;
		memcpy(buf, ino->link, len);
		return (ssize_t)len;
	}
	return ino->ops->readlink(ino, buf, size);
}
