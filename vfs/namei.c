/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path walk: from a text to a (mount, dentry). What is done to names is in dirops.c and
 * open.c.
 *
 * Theory of operation. The walk holds tree_lock for reading and steps through cached dentries
 * with borrowed pointers: no reference counts, no allocation. It leaves this mode (walk_unlazy:
 * pin cur, drop the lock) only to ask a filesystem something: a name that is not cached, a
 * revalidation, a permission op, a link text the inode does not carry, a magic link, an access
 * time that is due. Then it takes the lock again and goes on from the pinned place. So one walk
 * over cached names costs one lock round trip, and everything between two unlocked moments is
 * seen as of one state of the tree.
 *
 * Symlinks: the rest of the outer text is pushed on an explicit stack, unless nothing is left of
 * it; 40 links in total end in ELOOP as in Linux, which also bounds the stack.
 */
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

#define RESOLVE_SCOPED (RESOLVE_BENEATH | RESOLVE_IN_ROOT)

/* Drops what earlier unlocked moments pinned. Not under tree_lock. */
static void drop_pins(struct path *cur, struct dentry **next, struct path *jump)
{
	if (cur->mnt)
		path_put(*cur);
	if (jump->mnt)
		path_put(*jump);
	dentry_put(*next);
	cur->mnt = jump->mnt = NULL;
	*next = NULL;
}

void walk_unlazy(struct walk *w)
{
	struct path old_cur = w->held_cur, old_jump = w->held_jump;
	struct dentry *old_next = w->held_next;

	ASSERT(w->locked);
	w->held_cur = path_get(w->cur);
	w->held_next = NULL;
	w->held_jump.mnt = NULL;
	rwlock_release(&w->vfs->tree_lock);
	w->locked = 0;
	drop_pins(&old_cur, &old_next, &old_jump);
}

void walk_relock(struct walk *w)
{
	rwlock_read(&w->vfs->tree_lock);
	w->locked = 1;
}

static void text_free(struct walk *w, char *owned)
{
	if (owned == w->small)
		w->small_used = 0;
	else
		free(owned);
}

void walk_end(struct walk *w)
{
	if (w->locked)
		rwlock_release(&w->vfs->tree_lock);
	w->locked = 0;
	drop_pins(&w->held_cur, &w->held_next, &w->held_jump);
	text_free(w, w->owned);
	w->owned = NULL;
	while (w->depth)
		text_free(w, w->stack[--w->depth].owned);
}

int walk_start(struct walk *w, const struct vfs_ctx *ctx, const struct path *start,
	       const char *path, uint32_t flags, uint64_t resolve)
{
	w->ctx = ctx;
	w->vfs = ctx->vfs;
	w->flags = flags;
	w->resolve = resolve;
	w->root = ctx->root;
	w->held_cur.mnt = w->held_jump.mnt = NULL;
	w->held_next = NULL;
	w->want_dir = w->trailing = 0;
	w->depth = w->links = w->small_used = 0;
	w->owned = NULL;
	w->pos = path;
	w->locked = 0;
	if (!*path && !(flags & LOOKUP_EMPTY))
		return -ENOENT;
	walk_relock(w);
	w->rename_seq = w->vfs->rename_seq;
	w->cur = start ? *start : ctx->cwd;
	if (resolve & RESOLVE_SCOPED)
		w->root = w->cur;
	if (*path == '/') {
		if (resolve & RESOLVE_BENEATH)
			return -EXDEV;
		if ((resolve & RESOLVE_NO_XDEV) && w->cur.mnt != w->root.mnt)
			return -EXDEV;
		w->cur = w->root;
	}
	return 0;
}

/* x permission on the directory cur. */
static int may_search(struct walk *w)
{
	struct inode *dir = w->cur.dentry->inode;
	int r;

	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (!dir->ops->permission)
		return vfs_generic_permission(dir, MAY_EXEC, w->ctx->cred);
	walk_unlazy(w);
	r = dir->ops->permission(dir, MAY_EXEC, w->ctx->cred);
	walk_relock(w);
	return r;
}

/* Goes to the topmost mount on p. */
static int cross_mounts(struct walk *w, struct path *p)
{
	while (p->dentry->mounted) {
		struct mount *m = mount_at(w->vfs, p->mnt, p->dentry);

		if (!m)
			break;
		if (w->resolve & RESOLVE_NO_XDEV)
			return -EXDEV;
		p->mnt = m;
		p->dentry = m->root;
	}
	return 0;
}

static int follow_dotdot(struct walk *w)
{
	struct path p = w->cur;

	for (;;) {
		if (p.dentry == w->root.dentry && p.mnt == w->root.mnt) {
			if (w->resolve & RESOLVE_BENEATH)
				return -EXDEV;
			break;
		}
		if (p.dentry != p.mnt->root) {
			struct dentry *parent = p.dentry->parent;

			/* A directory moved out of a bind mount's tree has no way up in it. */
			if (p.mnt->root != p.mnt->sb->root &&
			    !dentry_is_ancestor(p.mnt->root, parent))
				return -ENOENT;
			p.dentry = parent;
			break;
		}
		if (!p.mnt->parent)
			break;
		if (w->resolve & RESOLVE_NO_XDEV)
			return -EXDEV;
		p.dentry = p.mnt->mountpoint;
		p.mnt = p.mnt->parent;
	}
	/* While the lock was dropped a rename may have moved us above the ceiling unseen. */
	if ((w->resolve & RESOLVE_SCOPED) && w->vfs->rename_seq != w->rename_seq)
		return -EAGAIN;
	if (cross_mounts(w, &p))
		return -EXDEV;
	w->next = p;
	return 0;
}

/* The child `name` of cur, through the filesystem. Leaves it pinned in held_next. */
static int lookup_slow(struct walk *w, const char *name, size_t len, struct dentry **out)
{
	struct dentry *d;

	if (w->resolve & RESOLVE_CACHED)
		return -EAGAIN;
	walk_unlazy(w);
	d = dentry_lookup(w->held_cur.dentry, name, len);
	walk_relock(w);
	if (IS_ERR(d))
		return (int)PTR_ERR(d);
	w->held_next = d;
	*out = d;
	return 0;
}

/* d is cached below cur, in a filesystem that revalidates. */
static int revalidate(struct walk *w, const char *name, size_t len, struct dentry **dp)
{
	struct dentry *d = dentry_get(*dp);
	int r;

	walk_unlazy(w);
	w->held_next = d;
	r = d->sb->ops->revalidate(d);
	if (r == 0)
		dentry_invalidate(d);
	walk_relock(w);
	if (r < 0)
		return r;
	return r ? 0 : lookup_slow(w, name, len, dp);
}

/* Resolves one component below cur into next. */
static int step(struct walk *w, const char *name, size_t len, enum last_type type)
{
	struct dentry *d;
	int r;

	if (type == LAST_DOT) {
		w->next = w->cur;
		return 0;
	}
	if (type == LAST_DOTDOT)
		return follow_dotdot(w);
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	d = dentry_find(w->vfs, w->cur.dentry, name, len);
	if (!d)
		r = lookup_slow(w, name, len, &d);
	else if (d->sb->ops && d->sb->ops->revalidate)
		r = revalidate(w, name, len, &d);
	else
		r = 0;
	if (r)
		return r;
	if (!d->inode)
		return -ENOENT;
	w->next.mnt = w->cur.mnt;
	w->next.dentry = d;
	return d->mounted ? cross_mounts(w, &w->next) : 0;
}

/* A buffer for a link text of len bytes, NUL included. */
static char *text_alloc(struct walk *w, size_t size)
{
	if (size <= sizeof(w->small) && !w->small_used) {
		w->small_used = 1;
		return w->small;
	}
	return malloc(size);
}

/* Asks the filesystem for next's text. next is pinned by the caller. */
static char *read_link_slow(struct walk *w, struct inode *ino)
{
	char *buf = malloc(PATH_MAX);
	ssize_t n;

	if (!buf)
		return ERR_PTR(-ENOMEM);
	n = ino->ops->readlink ? ino->ops->readlink(ino, buf, PATH_MAX) : -EINVAL;
	if (n >= PATH_MAX)
		n = -ENAMETOOLONG;
	if (n < 0) {
		free(buf);
		return ERR_PTR(n);
	}
	buf[n] = 0;
	return buf;
}

/* A magic link: cur becomes where it leads. Lock not held on entry, held on exit. */
static int jump(struct walk *w, struct inode *link)
{
	struct path to = {NULL, NULL};
	int r = link->ops->follow(link, &to);

	if (!r) {
		path_put(w->held_jump);
		w->held_jump = to; /* until the next unlocked moment */
	}
	walk_relock(w);
	if (r)
		return r;
	if ((w->resolve & RESOLVE_NO_XDEV) && to.mnt != w->cur.mnt)
		return -EXDEV;
	if (w->resolve & RESOLVE_SCOPED)
		return -EXDEV;
	w->cur = to;
	return 0;
}

int walk_follow(struct walk *w, int is_last)
{
	struct mount *mnt = w->next.mnt;
	struct inode *ino = w->next.dentry->inode;
	char *text;
	int r;

	if (w->links++ >= SYMLINK_MAX)
		return -ELOOP;
	if ((w->resolve & RESOLVE_NO_SYMLINKS) || (mnt->flags & MNT_F_NOSYMFOLLOW) ||
	    ((w->resolve & RESOLVE_NO_MAGICLINKS) && ino->ops->follow))
		return -ELOOP;
	if (is_last) {
		r = perm_may_follow_link(w->cur.dentry->inode, ino, w->ctx->cred);
		if (r)
			return r;
	}
	if (ino->link && !inode_atime_is_stale(ino, mnt->flags)) {
		size_t size = strlen(ino->link) + 1;

		text = text_alloc(w, size);
		if (!text)
			return -ENOMEM;
		memcpy(text, ino->link, size);
	} else {
		struct path p = path_get(w->next);

		walk_unlazy(w);
		w->held_jump = p;
		path_touch_atime(p, 0);
		if (ino->ops->follow) {
			r = jump(w, ino);
			return r ? r : 1;
		}
		if (ino->link) {
			text = strdup(ino->link);
			if (!text)
				text = ERR_PTR(-ENOMEM);
		} else {
			text = read_link_slow(w, ino);
		}
		walk_relock(w);
		if (IS_ERR(text))
			return (int)PTR_ERR(text);
	}
	if (!*text) {
		text_free(w, text);
		return -ENOENT;
	}
	while (*w->pos == '/')
		w->pos++;
	if (!is_last && *w->pos) {
		w->stack[w->depth].rest = w->pos;
		w->stack[w->depth++].owned = w->owned;
	} else {
		text_free(w, w->owned);
	}
	w->owned = text;
	w->pos = text;
	if (*text == '/') {
		if (w->resolve & RESOLVE_BENEATH)
			return -EXDEV;
		if ((w->resolve & RESOLVE_NO_XDEV) && w->cur.mnt != w->root.mnt)
			return -EXDEV;
		w->cur = w->root;
	}
	return 0;
}

/* Splits the next component off pos. */
static size_t component(struct walk *w, const char **name, enum last_type *type)
{
	const char *s = w->pos, *e = strchrnul(s, '/');
	size_t len = (size_t)(e - s);

	*name = s;
	*type = LAST_NORM;
	if (s[0] == '.' && len <= 2) {
		if (len == 1)
			*type = LAST_DOT;
		else if (s[1] == '.')
			*type = LAST_DOTDOT;
	}
	w->trailing = *e == '/';
	while (*e == '/')
		e++;
	w->pos = e;
	return len;
}

/* Walks up to, not into, the last component of the text at pos. */
int walk_to_last(struct walk *w)
{
	for (;;) {
		int r;

		while (*w->pos == '/')
			w->pos++;
		if (!*w->pos && w->depth) {
			text_free(w, w->owned);
			w->depth--;
			w->owned = w->stack[w->depth].owned;
			w->pos = w->stack[w->depth].rest;
			continue;
		}
		if (!*w->pos) {
			w->last = w->pos;
			w->last_len = 0;
			w->last_type = LAST_ROOT;
			w->trailing = 0;
			return 0;
		}
		r = may_search(w);
		if (r)
			return r;
		w->last_len = component(w, &w->last, &w->last_type);
		if (!*w->pos && !w->depth) {
			if (w->trailing)
				w->want_dir = 1;
			return 0;
		}
		r = step(w, w->last, w->last_len, w->last_type);
		if (r)
			return r;
		if (S_ISLNK(w->next.dentry->inode->mode)) {
			/* pos may be at the end of a nested text while outer ones wait. */
			r = walk_follow(w, 0);
			if (r < 0)
				return r;
		} else {
			w->cur = w->next;
		}
		if (!S_ISDIR(w->cur.dentry->inode->mode))
			return -ENOTDIR;
	}
}

int walk_last(struct walk *w)
{
	if (w->last_type == LAST_ROOT) {
		w->next = w->cur;
		return 0;
	}
	return step(w, w->last, w->last_len, w->last_type);
}

int vfs_lookup_resolve(const struct vfs_ctx *ctx, const struct path *start, const char *path,
		       uint32_t flags, uint64_t resolve, struct path *out)
{
	struct walk w __attribute__((uninitialized)); /* a kilobyte not worth clearing */
	int r = walk_start(&w, ctx, start, path, flags, resolve);

	if (r)
		goto out;
	for (;;) {
		r = walk_to_last(&w);
		if (r)
			goto out;
		r = walk_last(&w);
		if (r)
			goto out;
		/* Nothing was walked: an empty path on an O_PATH fd of a link means the link. */
		if (w.last_type == LAST_ROOT || !S_ISLNK(w.next.dentry->inode->mode) ||
		    (!(flags & LOOKUP_FOLLOW) && !w.want_dir))
			break;
		/* O_NOFOLLOW with slashes behind it: still followed, as Linux does. */
		r = walk_follow(&w, 1);
		if (r < 0)
			goto out;
		if (r == 1) {
			w.next = w.cur;
			r = 0;
			break;
		}
	}
	if ((w.want_dir || (flags & LOOKUP_DIRECTORY)) && !S_ISDIR(w.next.dentry->inode->mode)) {
		r = -ENOTDIR;
		goto out;
	}
	*out = path_get(w.next);
out:
	walk_end(&w);
	return r;
}

int vfs_lookup(const struct vfs_ctx *ctx, const struct path *start, const char *path,
	       uint32_t flags, struct path *out)
{
	return vfs_lookup_resolve(ctx, start, path, flags, 0, out);
}

int walk_parent(struct walk *w, const struct vfs_ctx *ctx, const struct path *start,
		const char *path, uint64_t resolve)
{
	int r = walk_start(w, ctx, start, path, 0, resolve);

	if (r)
		return r;
	r = walk_to_last(w);
	if (r)
		return r;
	walk_unlazy(w);
	if (w->last_type == LAST_NORM) {
		if (w->last_len > NAME_MAX)
			return -ENAMETOOLONG;
		dentry_revalidate_child(w->held_cur.dentry, w->last, w->last_len);
	}
	return 0;
}
