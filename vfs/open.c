/* SPDX-License-Identifier: Apache-2.0 */
/* open(2) in all its forms: from flags and a path, or a path already walked, to a struct file. */
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "vfs/vfs_priv.h"

#define TMPFILE_BIT (O_TMPFILE & ~O_DIRECTORY)
#ifndef O_LARGEFILE_KERNEL
#define O_LARGEFILE_KERNEL 0100000 /* glibc's O_LARGEFILE is 0 on x86-64 */
#endif
#define CREATION_FLAGS (O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC)

struct file *file_alloc(struct path p, struct inode *ino, uint32_t flags, uint32_t mode,
			const struct cred *cred)
{
	struct file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	ref_init(&f->ref);
	f->path = path_get(p);
	f->inode = inode_get(ino);
	f->ops = ino->fops;
	f->flags = flags & ~(uint32_t)CREATION_FLAGS;
	f->mode = mode;
	f->cred = cred_get(cred);
	lock_init(&f->pos_lock, RANK_FILE_POS);
	lock_init(&f->epoll_lock, RANK_LEAF);
	list_init(&f->epoll_items);
	return f;
}

void file_free(struct file *f)
{
	lock_destroy(&f->pos_lock);
	lock_destroy(&f->epoll_lock);
	if (f->owner)
		f->owner->free(f->owner);
	inode_put(f->inode);
	path_put(f->path);
	cred_put(f->cred);
	free(f);
}

static uint32_t open_fmode(uint32_t flags)
{
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return FMODE_READ;
	case O_WRONLY:
		return FMODE_WRITE;
	case O_RDWR:
		return FMODE_READ | FMODE_WRITE;
	default:
		return 0; /* 3: permission for both, I/O through neither (ioctl only) */
	}
}

static uint32_t open_access(uint32_t flags)
{
	static const uint32_t mask[4] = {MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE,
					 MAY_READ | MAY_WRITE};

	return mask[flags & O_ACCMODE] | (flags & O_TRUNC ? MAY_WRITE : 0);
}

/* What Linux's may_open() checks. */
static int may_open(struct path p, uint32_t flags, uint32_t access, const struct cred *cred)
{
	struct inode *ino = p.dentry->inode;
	int r;

	switch (ino->mode & S_IFMT) {
	case S_IFLNK:
		return -ELOOP;
	case S_IFDIR:
		if (access & MAY_WRITE)
			return -EISDIR;
		break;
	case S_IFBLK:
	case S_IFCHR:
		if (p.mnt->flags & MNT_F_NODEV)
			return -EACCES;
		break;
	default:
		break;
	}
	r = access ? vfs_path_permission(p, access, cred) : 0;
	if (r)
		return r;
	if (ino->attr_flags & STATX_ATTR_APPEND) {
		if ((flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND))
			return -EPERM;
		if (flags & O_TRUNC)
			return -EPERM;
	}
	if ((flags & O_NOATIME) && !inode_owner_or_cap(ino, cred))
		return -EPERM;
	return 0;
}

/* Counts a writer of data; refused while the file is being executed or the mount is read-only. */
static int writer_begin(struct file *f)
{
	struct inode *ino = f->inode;
	int r = 0;

	lock_acquire(&ino->lock);
	if (ino->write_count < 0)
		r = -ETXTBSY;
	else
		ino->write_count++;
	lock_release(&ino->lock);
	if (r)
		return r;
	/* Count first, then look: a remount to read-only does it the other way round. */
	__atomic_fetch_add(&f->path.mnt->writers, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&ino->sb->writers, 1, __ATOMIC_SEQ_CST);
	f->mode |= FMODE_WRITER;
	return mount_writable(f->path.mnt);
}

static void writer_end(struct file *f)
{
	struct inode *ino = f->inode;

	if (f->mode & (FMODE_WRITER | FMODE_DENYWRITE)) {
		lock_acquire(&ino->lock);
		ino->write_count += f->mode & FMODE_WRITER ? -1 : 1;
		lock_release(&ino->lock);
	}
	if (f->mode & FMODE_WRITER) {
		__atomic_fetch_sub(&f->path.mnt->writers, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&ino->sb->writers, 1, __ATOMIC_SEQ_CST);
	}
	f->mode &= ~(FMODE_WRITER | FMODE_DENYWRITE);
}

/* Finds the operations: the inode's own open, or what its type stands for. */
static int open_ops(struct file *f)
{
	struct inode *ino = f->inode;

	if (ino->ops->open && !S_ISFIFO(ino->mode) && !S_ISSOCK(ino->mode))
		return ino->ops->open(ino, f);
	switch (ino->mode & S_IFMT) {
	case S_IFIFO:
		return fifo_open(ino, f);
	case S_IFCHR:
		return chrdev_open(ino, f);
	case S_IFBLK:
	case S_IFSOCK:
		return -ENXIO;
	default:
		return f->ops ? 0 : -ENXIO;
	}
}

static int open_truncate(struct file *f)
{
	struct inode *ino = f->inode;
	struct iattr attr = {.valid = IATTR_SIZE | IATTR_MTIME | IATTR_CTIME};
	int r;

	r = inode_strip_privs(ino, f->cred);
	if (r)
		return r;
	lock_acquire(&ino->lock);
	attr.mtime = attr.ctime = vfs_now();
	r = ino->ops->setattr ? ino->ops->setattr(ino, &attr) : -EPERM;
	lock_release(&ino->lock);
	if (!r && notify_active(ino->sb->vfs))
		notify_dentry(f->path.dentry, IN_MODIFY);
	return r;
}

static struct file *open_path_only(struct path p, uint32_t flags, const struct cred *cred)
{
	static const struct file_ops none = {0};
	struct file *f = file_alloc(p, p.dentry->inode, flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW),
				    FMODE_PATH, cred);

	if (!f)
		return ERR_PTR(-ENOMEM);
	f->ops = &none;
	return f;
}

struct file *file_open_dentry(const struct vfs_ctx *ctx, struct path p, uint32_t flags, int created)
{
	struct inode *ino = p.dentry->inode;
	struct file *f;
	int r, opened = 0;

	if (flags & O_PATH)
		return open_path_only(p, flags, ctx->cred);
	if (S_ISFIFO(ino->mode) || S_ISSOCK(ino->mode) || S_ISCHR(ino->mode))
		flags &= ~(uint32_t)O_TRUNC;
	/* Who creates a file may open it however its mode is. */
	r = may_open(p, flags, created ? 0 : open_access(flags), ctx->cred);
	if (r)
		return ERR_PTR(r);
	f = file_alloc(p, ino, flags, open_fmode(flags), ctx->cred);
	if (!f)
		return ERR_PTR(-ENOMEM);
	f->flags |= flags & O_NOCTTY; /* terminals ask for it while they are opened */
	if ((f->mode & FMODE_WRITE || flags & O_TRUNC) && S_ISREG(ino->mode))
		r = writer_begin(f);
	if (!r) {
		r = open_ops(f);
		opened = !r;
	}
	if (!r && (flags & O_TRUNC) && !created && S_ISREG(ino->mode))
		r = open_truncate(f);
	if (r) {
		if (opened && f->ops && f->ops->release)
			f->ops->release(f);
		writer_end(f);
		file_free(f);
		return ERR_PTR(r);
	}
	f->flags &= ~(uint32_t)O_NOCTTY;
	if (!(f->mode & FMODE_WRITE))
		writer_end(f); /* O_RDONLY|O_TRUNC */
	if (notify_active(ctx->vfs))
		notify_dentry(p.dentry, IN_OPEN);
	return f;
}

struct file *vfs_open_path(const struct vfs_ctx *ctx, struct path p, uint32_t flags)
{
	if ((flags & O_DIRECTORY) && !S_ISDIR(p.dentry->inode->mode))
		return ERR_PTR(-ENOTDIR);
	return file_open_dentry(ctx, p, flags & ~(uint32_t)(O_CREAT | O_EXCL), 0);
}

static struct file *open_tmpfile(const struct vfs_ctx *ctx, const struct path *start,
				 const char *path, const struct open_how_k *how)
{
	uint32_t mode = S_IFREG | vfs_apply_umask(ctx, (uint32_t)how->mode & 07777);
	struct inode *dir, *ino;
	struct dentry *d;
	struct file *f;
	struct path p;
	char name[32];
	int r;

	r = vfs_lookup_resolve(ctx, start, path,
			       LOOKUP_DIRECTORY | (how->flags & O_NOFOLLOW ? 0 : LOOKUP_FOLLOW),
			       how->resolve, &p);
	if (r)
		return ERR_PTR(r);
	dir = p.dentry->inode;
	r = mount_writable(p.mnt);
	if (!r)
		r = inode_permission(dir, MAY_WRITE | MAY_EXEC, ctx->cred);
	if (!r && !dir->ops->tmpfile)
		r = -EOPNOTSUPP;
	if (r)
		goto fail;
	lock_acquire(&dir->lock);
	ino = dir->ops->tmpfile(dir, mode, ctx->cred); /* even in a removed one */
	lock_release(&dir->lock);
	if (IS_ERR(ino)) {
		r = (int)PTR_ERR(ino);
		goto fail;
	}
	if (!(how->flags & O_EXCL))
		ino->attr_flags |= INODE_LINKABLE;
	snprintf(name, sizeof(name), "#%llu", (unsigned long long)ino->ino);
	d = dentry_new_unhashed(p.dentry->sb, p.dentry, name, strlen(name), ino);
	if (!d) {
		r = -ENOMEM;
		goto fail;
	}
	f = file_open_dentry(ctx, (struct path){p.mnt, d},
			     (uint32_t)how->flags & ~(uint32_t)(O_TMPFILE | O_EXCL), 1);
	if (!IS_ERR(f))
		f->flags |= O_TMPFILE; /* F_GETFL shows it */
	dentry_put(d);
	path_put(p);
	return f;
fail:
	path_put(p);
	return ERR_PTR(r);
}

/* O_CREAT: the last component may be there, be created, or be a link to such a place. */
static struct file *open_create(const struct vfs_ctx *ctx, const struct path *start,
				const char *path, const struct open_how_k *how)
{
	uint32_t flags = (uint32_t)how->flags;
	uint32_t mode = S_IFREG | vfs_apply_umask(ctx, (uint32_t)how->mode & 07777);
	struct dentry *d;
	struct file *f;
	struct walk w;
	int r, created = 0;

	r = walk_start(&w, ctx, start, path, 0, how->resolve);
	while (!r) {
		r = walk_to_last(&w);
		if (r)
			break;
		/* "dir/", "." and "..": a directory can not be created so. */
		if (w.last_type != LAST_NORM) {
			r = walk_last(&w);
			if (!r)
				r = flags & O_EXCL ? -EEXIST : -EISDIR;
			break;
		}
		if (w.trailing) {
			r = -EISDIR;
			break;
		}
		r = walk_last(&w);
		if (r == -ENOENT) {
			/* Negative: from here the parent's lock decides who creates it. */
			walk_unlazy(&w);
			d = dirops_find_or_create(&w, mode, &created);
			if (IS_ERR(d)) {
				r = (int)PTR_ERR(d);
				break;
			}
			walk_relock(&w);
			w.held_next = d;
			w.next = (struct path){w.cur.mnt, d};
			r = 0;
			if (created)
				break;
		} else if (r) {
			break;
		}
		if (flags & O_EXCL) {
			r = -EEXIST;
			break;
		}
		if (!S_ISLNK(w.next.dentry->inode->mode))
			break;
		if (flags & O_NOFOLLOW) {
			r = -ELOOP;
			break;
		}
		r = walk_follow(&w, 1);
		if (r == 1) {
			w.next = w.cur;
			r = 0;
			break;
		}
	}
	if (!r && !created && S_ISDIR(w.next.dentry->inode->mode))
		r = -EISDIR;
	if (r) {
		walk_end(&w);
		return ERR_PTR(r);
	}
	struct path p = path_get(w.next);

	walk_end(&w);
	f = file_open_dentry(ctx, p, flags, created);
	path_put(p);
	return f;
}

struct file *vfs_open(const struct vfs_ctx *ctx, const struct path *start, const char *path,
		      const struct open_how_k *how)
{
	uint32_t flags = (uint32_t)how->flags, lookup = 0;
	struct file *f;
	struct path p;
	int r;

	if (flags & O_PATH)
		flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if (flags & TMPFILE_BIT) {
		if ((flags & O_TMPFILE) != O_TMPFILE || (flags & O_CREAT) ||
		    !(open_access(flags & O_ACCMODE) & MAY_WRITE))
			return ERR_PTR(-EINVAL);
		if (how->resolve & RESOLVE_CACHED)
			return ERR_PTR(-EAGAIN);
		return open_tmpfile(ctx, start, path, how);
	}
	if (flags & O_CREAT) {
		if (flags & O_DIRECTORY)
			return ERR_PTR(-EINVAL);
		if (how->resolve & RESOLVE_CACHED)
			return ERR_PTR(-EAGAIN);
		return open_create(ctx, start, path, how);
	}
	if ((how->resolve & RESOLVE_CACHED) && (flags & O_TRUNC))
		return ERR_PTR(-EAGAIN);
	if (!(flags & O_NOFOLLOW))
		lookup |= LOOKUP_FOLLOW;
	if (flags & O_DIRECTORY)
		lookup |= LOOKUP_DIRECTORY;
	r = vfs_lookup_resolve(ctx, start, path, lookup, how->resolve, &p);
	if (r)
		return ERR_PTR(r);
	f = file_open_dentry(ctx, p, flags, 0);
	path_put(p);
	return f;
}

struct file *vfs_open_exec(const struct vfs_ctx *ctx, const struct path *start, const char *path,
			   uint32_t lookup_flags)
{
	struct inode *ino;
	struct file *f;
	struct path p;
	int r = vfs_lookup(ctx, start, path, lookup_flags, &p);

	if (r)
		return ERR_PTR(r);
	ino = p.dentry->inode;
	if (S_ISLNK(ino->mode))
		r = -ELOOP;
	else if (!S_ISREG(ino->mode) || (p.mnt->flags & MNT_F_NOEXEC))
		r = -EACCES;
	else
		r = inode_permission(ino, MAY_EXEC, ctx->cred);
	if (r) {
		path_put(p);
		return ERR_PTR(r);
	}
	f = file_alloc(p, ino, O_RDONLY, FMODE_READ | FMODE_EXEC, ctx->cred);
	path_put(p);
	if (!f)
		return ERR_PTR(-ENOMEM);
	lock_acquire(&ino->lock);
	if (ino->write_count > 0) {
		r = -ETXTBSY;
	} else {
		ino->write_count--;
		f->mode |= FMODE_DENYWRITE;
	}
	lock_release(&ino->lock);
	if (!r)
		r = open_ops(f);
	if (r) {
		writer_end(f);
		file_free(f);
		return ERR_PTR(r);
	}
	if (notify_active(ctx->vfs))
		notify_dentry(f->path.dentry, IN_OPEN);
	return f;
}

/* ------------------------------------------------------------------ references */

struct file *file_new_on(struct inode *ino, struct path p, const struct file_ops *ops, void *priv,
			 uint32_t flags, uint32_t mode, const struct cred *cred)
{
	struct file *f = file_alloc(p, ino, flags, mode, cred);

	if (!f)
		return ERR_PTR(-ENOMEM);
	f->ops = ops;
	f->priv = priv;
	return f;
}

struct file *file_get(struct file *f)
{
	ref_get(&f->ref);
	return f;
}

void file_put(struct file *f)
{
	struct vfs *vfs;

	if (!f || !ref_put(&f->ref))
		return;
	vfs = f->inode->sb->vfs;
	if (notify_active(vfs) && !(f->mode & FMODE_PATH))
		notify_dentry(f->path.dentry,
			      f->mode & FMODE_WRITE ? IN_CLOSE_WRITE : IN_CLOSE_NOWRITE);
	epoll_file_gone(f);
	if (f->inode->flock)
		flock_file_closed(f);
	if (f->ops && f->ops->release)
		f->ops->release(f);
	writer_end(f);
	file_free(f);
}
