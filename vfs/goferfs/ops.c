/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inode operations of goferfs: lookup, the changes of names and attributes (each one message,
 * after which a kept listing is put right), links and extended attributes.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "vfs/goferfs/goferfs_priv.h"

/* ---- lookup ---- */

/*
 * The first name asked of a directory is asked alone; a second one, or a miss, fetches them all.
 * In a large directory that costs as much as very many single questions (a stat of each entry, and
 * /usr/lib has a thousand), so it takes more of them. A directory's size on the host says roughly
 * how many entries there are; the divisor lets the questions cost about what the listing will.
 */
#define DIR_SMALL 4096
#define DIR_BYTES_PER_LOOKUP 512

static int listing_pays(const struct inode *dir)
{
	uint64_t size = dir->size;

	return size <= DIR_SMALL || gnode_of(dir)->lookups > size / DIR_BYTES_PER_LOOKUP;
}

static struct inode *lookup_kept(struct inode *dir, const char *name, size_t len)
{
	struct gnode *gn = gnode_of(dir);
	struct dirent_slot *s;

	if (!gn->dc && gn->lookups > 0 && listing_pays(dir)) {
		int err = dircache_load(dir, 0);

		if (err && err != -E2BIG && err != -ENOMEM)
			return ERR_PTR(err);
	}
	gn->lookups++;
	if (!gn->dc)
		return NULL;
	s = dircache_find(gn->dc, name, len);
	if (!s)
		return ERR_PTR(-ENOENT);
	if (gnode_was_changed(gn->fs, s->attr.dev, s->attr.ino)) {
		uint32_t nid;
		int err = gnode_walk_one(dir, name, len, &s->attr, &nid);

		return err ? ERR_PTR(err) : gnode_get(gn->fs, dir, name, &s->attr, nid);
	}
	return gnode_get(gn->fs, dir, name, &s->attr, 0);
}

static struct inode *g_lookup(struct inode *dir, const char *component, size_t len)
{
	struct goferfs *fs = goferfs_of(dir);
	char name[GOFER_NAME_MAX + 1];
	struct gofer_attr attr;
	uint32_t nid;

	/* A component may stand in the middle of a path. */
	if (len > GOFER_NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	memcpy(name, component, len);
	name[len] = '\0';

	if (fs->exclusive) {
		struct inode *ino = lookup_kept(dir, name, len);

		if (ino)
			return ino;
	}
	int err = gnode_walk_one(dir, name, len, &attr, &nid);

	if (err == -ENOENT && fs->exclusive && listing_pays(dir))
		dircache_load(dir, 0); /* one miss is rarely the last */
	if (err)
		return ERR_PTR(err);
	struct inode *ino = gnode_get(fs, dir, name, &attr, nid);

	if (!IS_ERR(ino) && !fs->exclusive) {
		lock_acquire_nested(&ino->lock);
		gnode_set_attr(ino, &attr);
		lock_release(&ino->lock);
	}
	return ino;
}

static int g_getattr(struct inode *ino)
{
	return gnode_refresh(ino, 0);
}

static int g_open(struct inode *ino, struct file *f)
{
	f->ops = ino->fops;
	return S_ISDIR(ino->mode) ? gdir_open(ino, f) : gfile_open(ino, f);
}

/* ---- making ---- */

/* Starts a creating request {dir, mode, uid, gid, name}; the owner is what Linux would give. */
static int child_begin(struct gcall *c, enum gofer_msg type, struct inode *dir, const char *name,
		       uint32_t mode, const struct cred *cred, size_t more)
{
	struct inode who = { 0 };
	int64_t nid = goferfs_of(dir)->readonly ? -EROFS : gnode_nid(dir);

	if (nid < 0)
		return (int)nid;
	inode_init_owner(&who, dir, mode, cred);
	int err = gcall_begin(c, type, 16 + 2 + strlen(name) + more);

	if (err)
		return err;
	wire_put_u32(&c->req, (uint32_t)nid);
	wire_put_u32(&c->req, who.mode);
	wire_put_u32(&c->req, who.uid);
	wire_put_u32(&c->req, who.gid);
	wire_put_text(&c->req, name, strlen(name));
	return 0;
}

/* Sends it and makes the inode; ends the call. fd NULL: none is expected. */
static struct inode *child_finish(struct gcall *c, struct inode *dir, const char *name, int *fd)
{
	struct goferfs *fs = goferfs_of(dir);
	struct gofer_attr attr;
	int err = gcall_do(fs->conn, c);

	if (!err) {
		uint32_t nid = wire_u32(&c->rep);

		err = gnode_read_attr(fs, c, &attr);
		if (!err && !wire_done(&c->rep))
			err = gcall_bad_reply(fs->conn, c, "malformed reply");
		if (!err && fd)
			*fd = gcall_fd(c);
		gcall_end(c);
		if (err)
			return ERR_PTR(err);
		gnode_mark_stale(dir);
		dircache_add(dir, name, strlen(name), &attr);
		return gnode_get(fs, dir, name, &attr, nid);
	}
	gcall_end(c);
	return ERR_PTR(err);
}

static struct inode *g_create(struct inode *dir, const char *name, uint32_t mode,
			      const struct cred *cred)
{
	struct gcall c;
	int fd = -1;
	int err = child_begin(&c, GOFER_CREATE, dir, name, (mode & 07777) | S_IFREG, cred, 0);

	if (err)
		return ERR_PTR(err);
	struct inode *ino = child_finish(&c, dir, name, &fd);

	if (IS_ERR(ino)) {
		if (fd >= 0)
			close(fd);
		return ino;
	}
	/* The open that follows finds the fd here. */
	struct hostfd *h = fd >= 0 ? hostfd_adopt(ino, fd, 1) : NULL;

	if (h)
		hostfd_put(h);
	return ino;
}

static struct inode *g_mkdir(struct inode *dir, const char *name, uint32_t mode,
			     const struct cred *cred)
{
	struct gcall c;
	int err = child_begin(&c, GOFER_MKDIR, dir, name, (mode & 07777) | S_IFDIR, cred, 0);

	if (err)
		return ERR_PTR(err);
	struct inode *ino = child_finish(&c, dir, name, NULL);

	if (!IS_ERR(ino)) {
		lock_acquire_nested(&ino->lock);
		dircache_new_empty(ino);
		lock_release(&ino->lock);
	}
	return ino;
}

static struct inode *g_mknod(struct inode *dir, const char *name, uint32_t mode, uint64_t rdev,
			     const struct cred *cred)
{
	struct gcall c;

	(void)rdev;
	if (S_ISREG(mode))
		return g_create(dir, name, mode, cred);
	/* Device nodes of the guest's making have no business in the host's trees. */
	if (!S_ISFIFO(mode) && !S_ISSOCK(mode))
		return ERR_PTR(-EPERM);
	int err = child_begin(&c, GOFER_MKNOD, dir, name, mode, cred, 0);

	return err ? ERR_PTR(err) : child_finish(&c, dir, name, NULL);
}

static struct inode *g_symlink(struct inode *dir, const char *name, const char *target,
			       const struct cred *cred)
{
	size_t len = strlen(target);
	struct gcall c;
	int err = child_begin(&c, GOFER_SYMLINK, dir, name, S_IFLNK | 0777, cred, len + 2);

	if (err)
		return ERR_PTR(err);
	wire_put_text(&c.req, target, len);
	return child_finish(&c, dir, name, NULL);
}

static int g_link(struct inode *dir, const char *name, struct inode *target)
{
	struct goferfs *fs = goferfs_of(dir);
	int64_t nid = fs->readonly ? -EROFS : gnode_nid(target),
		dnid = nid < 0 ? nid : gnode_nid(dir);
	struct gofer_attr attr;
	struct gcall c;

	if (dnid < 0)
		return (int)dnid;
	int err = gcall_begin(&c, GOFER_LINK, 8 + 2 + strlen(name));

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_u32(&c.req, (uint32_t)dnid);
	wire_put_text(&c.req, name, strlen(name));
	err = gcall_do(fs->conn, &c);
	gcall_end(&c);
	if (err)
		return err;
	lock_acquire_nested(&target->lock);
	target->nlink++;
	inode_touch(target, IATTR_CTIME);
	memset(&attr, 0, sizeof(attr));
	attr.dev = gnode_of(target)->dev;
	attr.ino = gnode_of(target)->hino;
	attr.mode = target->mode;
	attr.nlink = target->nlink;
	attr.uid = target->uid;
	attr.gid = target->gid;
	attr.size = target->size;
	attr.blocks = target->blocks;
	attr.rdev = target->rdev;
	attr.atime = target->atime.sec, attr.atime_ns = (uint32_t)target->atime.nsec;
	attr.mtime = target->mtime.sec, attr.mtime_ns = (uint32_t)target->mtime.nsec;
	attr.ctime = target->ctime.sec, attr.ctime_ns = (uint32_t)target->ctime.nsec;
	attr.btime = target->btime.sec, attr.btime_ns = (uint32_t)target->btime.nsec;
	lock_release(&target->lock);
	gnode_mark_stale(target);
	gnode_mark_stale(dir);
	dircache_add(dir, name, strlen(name), &attr);
	return 0;
}

/* ---- removing and moving ---- */

/* ino lost one of its names. */
static void lost_name(struct inode *ino, struct inode *dir, const char *name, int is_dir)
{
	struct gnode *gn = gnode_of(ino);
	int was_it;

	lock_acquire(&gn->fs->lock);
	was_it = gn->parent == dir && gn->name && !strcmp(gn->name, name);
	lock_release(&gn->fs->lock);
	if (was_it)
		gnode_set_name(ino, NULL, NULL);
	lock_acquire_nested(&ino->lock);
	if (is_dir)
		ino->nlink = 0;
	else if (ino->nlink)
		ino->nlink--;
	inode_touch(ino, IATTR_CTIME);
	lock_release(&ino->lock);
	gnode_mark_stale(ino);
}

/* While a file is open its node must be known, or nothing could be done to it afterwards. */
static void keep_reachable(struct inode *ino)
{
	if (S_ISREG(ino->mode) && hostfd_in_use(gnode_of(ino)))
		gnode_nid(ino);
}

static int remove_name(struct inode *dir, const char *name, struct inode *victim, uint32_t flags)
{
	struct goferfs *fs = goferfs_of(dir);
	int64_t nid = fs->readonly ? -EROFS : gnode_nid(dir);
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	keep_reachable(victim);
	int err = gcall_begin(&c, GOFER_UNLINK, 8 + 2 + strlen(name));

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_u32(&c.req, flags);
	wire_put_text(&c.req, name, strlen(name));
	err = gcall_do(fs->conn, &c);
	gcall_end(&c);
	if (err)
		return err;
	dircache_remove(dir, name, strlen(name));
	lost_name(victim, dir, name, (int)(flags & GOFER_UNLINK_DIR));
	gnode_mark_stale(dir);
	return 0;
}

static int g_unlink(struct inode *dir, const char *name, struct inode *victim)
{
	return remove_name(dir, name, victim, 0);
}

static int g_rmdir(struct inode *dir, const char *name, struct inode *victim)
{
	return remove_name(dir, name, victim, GOFER_UNLINK_DIR);
}

/* The slot of a name moves to another directory's listing, attributes and all. */
static void slot_take(struct inode *dir, const char *name, struct gofer_attr *attr, int *have)
{
	struct dircache *dc = gnode_of(dir)->dc;
	struct dirent_slot *s = dc ? dircache_find(dc, name, strlen(name)) : NULL;

	*have = s != NULL;
	if (s)
		*attr = s->attr;
	dircache_remove(dir, name, strlen(name));
}

static void slot_put(struct inode *dir, const char *name, struct inode *ino,
		     const struct gofer_attr *attr, int have)
{
	struct gnode *gn = gnode_of(ino);
	struct gofer_attr a;

	if (!have) {
		memset(&a, 0, sizeof(a));
		a.dev = gn->dev;
		a.ino = gn->hino;
		a.mode = ino->mode;
		a.nlink = ino->nlink;
		a.uid = ino->uid;
		a.gid = ino->gid;
		a.size = ino->size;
		a.blocks = ino->blocks;
		a.rdev = ino->rdev;
		a.mtime = ino->mtime.sec, a.mtime_ns = (uint32_t)ino->mtime.nsec;
		a.ctime = ino->ctime.sec, a.ctime_ns = (uint32_t)ino->ctime.nsec;
		a.atime = ino->atime.sec, a.atime_ns = (uint32_t)ino->atime.nsec;
		a.btime = ino->btime.sec, a.btime_ns = (uint32_t)ino->btime.nsec;
		attr = &a;
	}
	dircache_add(dir, name, strlen(name), attr);
}

static int g_rename(struct inode *olddir, const char *oldname, struct inode *source,
		    struct inode *newdir, const char *newname, struct inode *target, uint32_t flags)
{
	struct goferfs *fs = goferfs_of(olddir);
	int64_t onid = fs->readonly ? -EROFS : gnode_nid(olddir);
	int64_t nnid = onid < 0 ? onid : gnode_nid(newdir);
	int exchange = flags == RENAME_EXCHANGE, have_s, have_t = 0;
	struct gofer_attr sa, ta;
	struct gcall c;

	if (nnid < 0)
		return (int)nnid;
	if (flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (target && !exchange)
		keep_reachable(target);
	int err = gcall_begin(&c, GOFER_RENAME, 12 + 4 + strlen(oldname) + strlen(newname));

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)onid);
	wire_put_u32(&c.req, (uint32_t)nnid);
	wire_put_u32(&c.req, flags);
	wire_put_text(&c.req, oldname, strlen(oldname));
	wire_put_text(&c.req, newname, strlen(newname));
	err = gcall_do(fs->conn, &c);
	gcall_end(&c);
	if (err)
		return err;
	slot_take(olddir, oldname, &sa, &have_s);
	slot_take(newdir, newname, &ta, &have_t);
	slot_put(newdir, newname, source, &sa, have_s);
	gnode_set_name(source, newdir, newname);
	if (exchange && target) {
		slot_put(olddir, oldname, target, &ta, have_t);
		gnode_set_name(target, olddir, oldname);
		gnode_mark_stale(target);
	} else if (target) {
		lost_name(target, newdir, newname, S_ISDIR(target->mode));
	}
	gnode_mark_stale(source);
	gnode_mark_stale(olddir);
	gnode_mark_stale(newdir);
	return 0;
}

/* ---- attributes ---- */

/* A size change alone goes through the fd, if there is one. #hostcalls: ftruncate */
static int set_size_here(struct inode *ino, uint64_t size)
{
	struct hostfd *h = hostfd_use_cached(gnode_of(ino), 1);

	if (!h)
		return -ENOENT;
	int err = ftruncate(h->fd, (off_t)size) < 0 ? -errno : 0;

	hostfd_put(h);
	return err;
}

static int ask_setattr(struct inode *ino, const struct iattr *a, uint32_t valid)
{
	struct goferfs *fs = goferfs_of(ino);
	int64_t nid = gnode_nid(ino);
	struct gofer_attr attr;
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_SETATTR, 64);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_u32(&c.req, valid);
	wire_put_u32(&c.req, a->mode & 07777);
	wire_put_u32(&c.req, a->uid);
	wire_put_u32(&c.req, a->gid);
	wire_put_u64(&c.req, a->size);
	wire_put_u64(&c.req, (uint64_t)a->atime.sec);
	wire_put_u32(&c.req, (uint32_t)a->atime.nsec);
	wire_put_u64(&c.req, (uint64_t)a->mtime.sec);
	wire_put_u32(&c.req, (uint32_t)a->mtime.nsec);
	err = gcall_do(fs->conn, &c);
	if (!err)
		err = gnode_read_attr(fs, &c, &attr);
	gcall_end(&c);
	if (!err) {
		gnode_note_change(ino);
		gnode_set_attr(ino, &attr);
	}
	return err;
}

static int g_setattr(struct inode *ino, const struct iattr *a)
{
	uint32_t valid = 0;

	lock_assert_held(&ino->lock);
	if (goferfs_of(ino)->readonly)
		return -EROFS;
	valid |= a->valid & IATTR_MODE ? GOFER_SET_MODE : 0;
	valid |= a->valid & IATTR_UID ? GOFER_SET_UID : 0;
	valid |= a->valid & IATTR_GID ? GOFER_SET_GID : 0;
	valid |= a->valid & IATTR_ATIME ? GOFER_SET_ATIME : 0;
	valid |= a->valid & IATTR_MTIME ? GOFER_SET_MTIME : 0;
	if (a->valid & IATTR_SIZE) {
		/* The host stamps a truncated file itself. */
		valid &= ~(GOFER_SET_ATIME | GOFER_SET_MTIME);
		int err = set_size_here(ino, a->size);

		if (err == -ENOENT)
			valid |= GOFER_SET_SIZE;
		else if (err)
			return err;
		if (!err) {
			ino->size = a->size;
			inode_touch(ino, IATTR_MTIME | IATTR_CTIME);
			gnode_mark_stale(ino);
		}
	}
	return valid ? ask_setattr(ino, a, valid) : 0;
}

/* ---- links ---- */

static int link_fetch(struct inode *ino)
{
	struct goferfs *fs = goferfs_of(ino);
	int64_t nid = gnode_nid(ino);
	char text[GOFER_LINK_MAX + 1];
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_READLINK, 4);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	err = gcall_do(fs->conn, &c);
	if (!err && (!wire_text(&c.rep, text, GOFER_LINK_MAX) || !wire_done(&c.rep)))
		err = gcall_bad_reply(fs->conn, &c, "bad link text");
	gcall_end(&c);
	if (err)
		return err;
	char *copy = strdup(text), *none = NULL;

	if (!copy)
		return -ENOMEM;
	/* Readers see NULL or the whole text; it never changes afterwards. */
	if (!__atomic_compare_exchange_n(&ino->link, &none, copy, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		free(copy);
	return 0;
}

static ssize_t g_readlink(struct inode *ino, char *buf, size_t size)
{
	const char *text = __atomic_load_n(&ino->link, __ATOMIC_ACQUIRE);

	if (!text) {
		int err = link_fetch(ino);

		if (err)
			return err;
		text = __atomic_load_n(&ino->link, __ATOMIC_ACQUIRE);
	}
	size_t n = strlen(text);

	n = n < size ? n : size;
	memcpy(buf, text, n);
	return (ssize_t)n;
}

/* ---- extended attributes ---- */

/* Copies the rest of the reply out with the rules of getxattr(2): size 0 asks for the length. */
static ssize_t xattr_result(struct gcall *c, void *buf, size_t size)
{
	size_t n = c->rep.left;

	if (size == 0)
		return (ssize_t)n;
	if (n > size)
		return -ERANGE;
	if (n)
		memcpy(buf, wire_bytes(&c->rep, n), n);
	return (ssize_t)n;
}

static ssize_t g_getxattr(struct inode *ino, const char *name, void *buf, size_t size)
{
	struct gnode *gn = gnode_of(ino);
	int is_caps = !strcmp(name, "security.capability");
	struct gcall c;

	if (!is_caps && strncmp(name, "user.", 5))
		return -EOPNOTSUPP;
	if (is_caps && gn->fs->exclusive && __atomic_load_n(&gn->nocaps, __ATOMIC_RELAXED))
		return -ENODATA;
	int64_t nid = gnode_nid(ino);

	if (nid < 0)
		return nid;
	int err = gcall_begin(&c, GOFER_GETXATTR, 4 + 2 + strlen(name));

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_text(&c.req, name, strlen(name));
	ssize_t r = gcall_do(gn->fs->conn, &c);

	if (!r)
		r = xattr_result(&c, buf, size);
	else if (is_caps && (r == -ENODATA || r == -EOPNOTSUPP))
		__atomic_store_n(&gn->nocaps, 1, __ATOMIC_RELAXED);
	gcall_end(&c);
	return r;
}

static ssize_t g_listxattr(struct inode *ino, char *buf, size_t size)
{
	struct goferfs *fs = goferfs_of(ino);
	int64_t nid = gnode_nid(ino);
	struct gcall c;

	if (nid < 0)
		return nid;
	int err = gcall_begin(&c, GOFER_LISTXATTR, 4);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	ssize_t r = gcall_do(fs->conn, &c);

	if (!r && c.rep.left && c.rep.p[c.rep.left - 1] != '\0')
		r = gcall_bad_reply(fs->conn, &c, "bad attribute list");
	if (!r)
		r = xattr_result(&c, buf, size);
	gcall_end(&c);
	return r;
}

static int g_setxattr(struct inode *ino, const char *name, const void *val, size_t size, int flags)
{
	struct goferfs *fs = goferfs_of(ino);
	int64_t nid = fs->readonly ? -EROFS : gnode_nid(ino);
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_SETXATTR, 8 + 2 + strlen(name) + 4 + size);

	if (err)
		return err == -EMSGSIZE ? -E2BIG : err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_u32(&c.req, (uint32_t)flags);
	wire_put_text(&c.req, name, strlen(name));
	wire_put_u32(&c.req, (uint32_t)size);
	wire_put(&c.req, val, size);
	err = gcall_do(fs->conn, &c);
	gcall_end(&c);
	gnode_mark_stale(ino);
	return err;
}

static int g_removexattr(struct inode *ino, const char *name)
{
	struct goferfs *fs = goferfs_of(ino);
	int64_t nid = fs->readonly ? -EROFS : gnode_nid(ino);
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_REMOVEXATTR, 4 + 2 + strlen(name));

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_text(&c.req, name, strlen(name));
	err = gcall_do(fs->conn, &c);
	gcall_end(&c);
	gnode_mark_stale(ino);
	return err;
}

#define COMMON_OPS                                                                                 \
	.getattr = g_getattr, .setattr = g_setattr, .getxattr = g_getxattr,                        \
	.setxattr = g_setxattr, .listxattr = g_listxattr, .removexattr = g_removexattr

const struct inode_ops g_goferfs_dir_ops = {
	COMMON_OPS,	  .lookup = g_lookup,	.create = g_create, .mkdir = g_mkdir,
	.mknod = g_mknod, .symlink = g_symlink, .link = g_link,	    .unlink = g_unlink,
	.rmdir = g_rmdir, .rename = g_rename,	.open = g_open,
};

const struct inode_ops g_goferfs_file_ops = { COMMON_OPS, .open = g_open };
const struct inode_ops g_goferfs_link_ops = { COMMON_OPS, .readlink = g_readlink };
const struct inode_ops g_goferfs_special_ops = { COMMON_OPS };
