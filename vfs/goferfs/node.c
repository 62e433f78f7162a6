/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes of goferfs: from the gofer's attributes to an inode (one per host object), and from an
 * inode to the gofer's node number, which is asked for only when something needs it. Names that
 * a cached listing answers never make a node at the gofer.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "vfs/goferfs/goferfs_priv.h"

uint64_t goferfs_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- attributes ---- */

static void clamp_ns(uint32_t *ns)
{
	if (*ns > 999999999u)
		*ns = 0;
}

/* Attributes we can live with: nothing the gofer says may upset the arithmetic further up. */
static int attr_ok(struct gofer_attr *a)
{
	switch (a->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		break;
	default:
		return 0;
	}
	if ((a->mode & ~(uint32_t)(S_IFMT | 07777)) || a->size > INT64_MAX)
		return 0;
	clamp_ns(&a->atime_ns);
	clamp_ns(&a->mtime_ns);
	clamp_ns(&a->ctime_ns);
	clamp_ns(&a->btime_ns);
	return 1;
}

int gnode_read_attr(struct goferfs *fs, struct gcall *c, struct gofer_attr *attr)
{
	wire_attr(&c->rep, attr);
	if (c->rep.bad || !attr_ok(attr))
		return gcall_bad_reply(fs->conn, c, "bad attributes");
	return 0;
}

void gnode_set_attr(struct inode *ino, const struct gofer_attr *a)
{
	struct gnode *gn = gnode_of(ino);

	if (ino->mtime.sec != a->mtime || ino->mtime.nsec != a->mtime_ns ||
	    ino->ctime.sec != a->ctime || ino->ctime.nsec != a->ctime_ns)
		ino->change_count++;
	/* Permission checks read these words without the lock. */
	__atomic_store_n(&ino->mode, (ino->mode & S_IFMT) | (a->mode & 07777), __ATOMIC_RELAXED);
	__atomic_store_n(&ino->uid, a->uid, __ATOMIC_RELAXED);
	__atomic_store_n(&ino->gid, a->gid, __ATOMIC_RELAXED);
	__atomic_store_n(&ino->nlink, a->nlink, __ATOMIC_RELAXED);
	__atomic_store_n(&ino->size, a->size, __ATOMIC_RELAXED);
	ino->rdev = a->rdev;
	ino->blocks = a->blocks;
	ino->atime = (struct linux_timespec){ a->atime, a->atime_ns };
	ino->mtime = (struct linux_timespec){ a->mtime, a->mtime_ns };
	ino->ctime = (struct linux_timespec){ a->ctime, a->ctime_ns };
	ino->attr_flags = (a->flags & GOFER_ATTR_IMMUTABLE ? STATX_ATTR_IMMUTABLE : 0) |
			  (a->flags & GOFER_ATTR_APPEND ? STATX_ATTR_APPEND : 0);
	__atomic_store_n(&gn->fresh, goferfs_now(), __ATOMIC_RELAXED);
	__atomic_store_n(&gn->stale, 0, __ATOMIC_RELAXED);
	if (a->flags & GOFER_ATTR_NOCAPS)
		__atomic_store_n(&gn->nocaps, 1, __ATOMIC_RELAXED);
}

/* The same object, not another one that was given its inode number later. */
int gnode_same(const struct inode *ino, const struct gofer_attr *a)
{
	const struct gnode *gn = gnode_of(ino);

	uint32_t mode = __atomic_load_n(&ino->mode, __ATOMIC_RELAXED);

	if (gn->dev != a->dev || gn->hino != a->ino || ((mode ^ a->mode) & S_IFMT))
		return 0;
	return !(a->btime || a->btime_ns) ||
	       (ino->btime.sec == a->btime && ino->btime.nsec == a->btime_ns);
}

/* ---- the table of live inodes, by host device and inode number ---- */

static struct gnode **bucket(struct goferfs *fs, uint64_t dev, uint64_t hino)
{
	return &fs->table[hash_u64(hino ^ (dev << 40)) & (fs->table_size - 1)];
}

/* [fs->lock] Failing to grow only makes chains longer. */
static void table_grow(struct goferfs *fs)
{
	struct gnode **old = fs->table, **table;
	uint32_t n = fs->table_size;

	table = calloc((size_t)n * 2, sizeof(struct gnode *));
	if (!table)
		return;
	fs->table = table;
	fs->table_size = n * 2;
	for (uint32_t i = 0; i < n; i++)
		for (struct gnode *gn = old[i], *next; gn; gn = next) {
			struct gnode **b = bucket(fs, gn->dev, gn->hino);

			next = gn->hash_next;
			gn->hash_next = *b;
			*b = gn;
		}
	free(old);
}

static void table_add(struct goferfs *fs, struct gnode *gn)
{
	if (fs->table_count >= fs->table_size)
		table_grow(fs);
	struct gnode **b = bucket(fs, gn->dev, gn->hino);

	gn->hash_next = *b;
	*b = gn;
	gn->hashed = 1;
	fs->table_count++;
}

static void table_del(struct goferfs *fs, struct gnode *gn)
{
	struct gnode **b = bucket(fs, gn->dev, gn->hino);

	if (!gn->hashed)
		return;
	while (*b != gn)
		b = &(*b)->hash_next;
	*b = gn->hash_next;
	gn->hashed = 0;
	fs->table_count--;
}

struct gnode *gnode_peek(struct goferfs *fs, uint64_t dev, uint64_t hino)
{
	struct gnode *gn = *bucket(fs, dev, hino);

	lock_assert_held(&fs->lock);
	while (gn && (gn->dev != dev || gn->hino != hino))
		gn = gn->hash_next;
	return gn;
}

/* [fs->lock] A reference, or NULL. What has the number but is another object leaves the table. */
static struct inode *table_find(struct goferfs *fs, const struct gofer_attr *a)
{
	for (struct gnode *gn = *bucket(fs, a->dev, a->ino); gn; gn = gn->hash_next) {
		if (gn->dev != a->dev || gn->hino != a->ino)
			continue;
		if (!gnode_same(gn->ino, a)) {
			table_del(fs, gn);
			return NULL;
		}
		if (ref_get_unless_zero(&gn->ino->ref))
			return gn->ino;
	}
	return NULL;
}

/* Inode numbers of further host filesystems in one tree are set apart at the top. */
uint64_t gnode_guest_ino(struct goferfs *fs, uint64_t dev, uint64_t hino)
{
	uint32_t i = 0;

	if (fs->dev_count && fs->dev[0] == dev) /* set before the mount is seen by anybody */
		return hino;
	lock_acquire(&fs->lock);
	while (i < fs->dev_count && fs->dev[i] != dev)
		i++;
	if (i == fs->dev_count && fs->dev_count < DEV_MAX)
		fs->dev[fs->dev_count++] = dev;
	lock_release(&fs->lock);
	return hino ^ ((uint64_t)i << 56);
}

static void ops_of(uint32_t mode, const struct inode_ops **ops, const struct file_ops **fops)
{
	*fops = NULL;
	*ops = &g_goferfs_special_ops;
	if (S_ISREG(mode)) {
		*ops = &g_goferfs_file_ops;
		*fops = &g_goferfs_file_fops;
	} else if (S_ISDIR(mode)) {
		*ops = &g_goferfs_dir_ops;
		*fops = &g_goferfs_dir_fops;
	} else if (S_ISLNK(mode)) {
		*ops = &g_goferfs_link_ops;
	}
}

static struct inode *gnode_new(struct goferfs *fs, struct inode *dir, const char *name,
			       const struct gofer_attr *a)
{
	struct gnode *gn = calloc(1, sizeof(*gn));
	char *copy = name ? strdup(name) : NULL;
	const struct inode_ops *ops;
	const struct file_ops *fops;

	if (!gn || (name && !copy))
		goto fail;
	uint64_t num = gnode_guest_ino(fs, a->dev, a->ino);

	ops_of(a->mode, &ops, &fops);
	struct inode *ino = inode_new(fs->sb, num, a->mode, ops, fops);

	if (!ino)
		goto fail;
	gn->ino = ino;
	gn->fs = fs;
	gn->dev = a->dev;
	gn->hino = a->ino;
	gn->parent = dir ? inode_get(dir) : NULL;
	gn->name = copy;
	ino->btime = (struct linux_timespec){ a->btime, a->btime_ns }; /* never changes */
	ino->priv = gn;
	gnode_set_attr(ino, a);
	return ino;
fail:
	free(gn);
	free(copy);
	return ERR_PTR(-ENOMEM);
}

/*
 * The gofer's number, with one reference, belongs to gn now. A newer number replaces an older
 * one: the name behind that may have been moved away on the host. 1 when it did.
 */
int gnode_take_nid(struct inode *ino, uint32_t nid)
{
	struct gnode *gn = gnode_of(ino);
	struct goferfs *fs = gn->fs;
	uint32_t drop = 0, drop_refs = 0;
	int replaced = 0;

	if (!nid)
		return 0;
	lock_acquire(&fs->lock);
	if (gn->nid == nid && gn->nid_refs < UINT32_MAX) {
		gn->nid_refs++;
	} else {
		replaced = gn->nid != 0;
		drop = gn->old_nid;
		drop_refs = gn->old_refs;
		gn->old_nid = gn->nid;
		gn->old_refs = gn->nid_refs;
		gn->nid = nid;
		gn->nid_refs = 1;
	}
	lock_release(&fs->lock);
	conn_forget(fs->conn, drop, drop_refs);
	return replaced;
}

struct inode *gnode_get(struct goferfs *fs, struct inode *dir, const char *name,
			const struct gofer_attr *attr, uint32_t nid)
{
	struct inode *ino, *fresh = NULL;

	lock_acquire(&fs->lock);
	ino = table_find(fs, attr);
	lock_release(&fs->lock);
	if (!ino) {
		fresh = gnode_new(fs, dir, name, attr);
		if (IS_ERR(fresh)) {
			conn_forget(fs->conn, nid, 1);
			return fresh;
		}
		lock_acquire(&fs->lock);
		ino = table_find(fs, attr); /* somebody else was faster, by another name */
		if (!ino) {
			table_add(fs, gnode_of(fresh));
			ino = fresh;
			fresh = NULL;
		}
		lock_release(&fs->lock);
		inode_put(fresh);
	}
	if (gnode_take_nid(ino, nid))
		gnode_set_name(ino, dir, name);
	return ino;
}

/* ---- names and numbers ---- */

void gnode_set_name(struct inode *ino, struct inode *dir, const char *name)
{
	struct gnode *gn = gnode_of(ino);
	struct goferfs *fs = gn->fs;
	char *copy = name ? strdup(name) : NULL, *old;
	struct inode *old_parent;

	if (!copy)
		dir = NULL;
	if (dir)
		inode_get(dir);
	lock_acquire(&fs->lock);
	old = gn->name;
	old_parent = gn->parent;
	gn->name = copy;
	gn->parent = dir;
	lock_release(&fs->lock);
	free(old);
	if (old_parent)
		inode_put(old_parent);
}

/*
 * The inodes from ino (last) up to the nearest whose number is known, at most GOFER_WALK_MAX of
 * them, with references; their names go into the request. Returns the count, *base that number,
 * or negative errno. When there are more, the topmost ones come first: *whole is 0.
 */
static int chain_of(struct inode *ino, struct inode **chain, struct wire_out *names, uint32_t *base,
		    int *whole)
{
	struct goferfs *fs = goferfs_of(ino);
	uint32_t depth = 0, skip, i;
	struct gnode *gn;

	lock_acquire(&fs->lock);
	for (gn = gnode_of(ino); !gn->nid; gn = gnode_of(gn->parent)) {
		if (!gn->parent || depth > 4096) {
			lock_release(&fs->lock);
			return -ESTALE;
		}
		depth++;
	}
	*base = gn->nid;
	skip = depth > GOFER_WALK_MAX ? depth - GOFER_WALK_MAX : 0;
	*whole = skip == 0;
	depth -= skip;
	for (gn = gnode_of(ino); skip; skip--)
		gn = gnode_of(gn->parent);
	for (i = depth; i-- > 0; gn = gnode_of(gn->parent))
		chain[i] = inode_get(gn->ino);
	for (i = 0; i < depth; i++)
		wire_put_text(names, gnode_of(chain[i])->name, strlen(gnode_of(chain[i])->name));
	lock_release(&fs->lock);
	return (int)depth;
}

/* Reads the answers to a walk along chain. */
static int walk_answers(struct goferfs *fs, struct gcall *c, struct inode **chain, int count)
{
	uint16_t done = wire_u16(&c->rep);
	struct gofer_attr attr;
	int err = 0;

	wire_u16(&c->rep);
	int32_t stop = (int32_t)wire_u32(&c->rep);

	if (c->rep.bad || done > count || stop > 0 || stop < -MAX_ERRNO)
		return gcall_bad_reply(fs->conn, c, "malformed walk");
	for (int i = 0; i < done; i++) {
		uint32_t nid = wire_u32(&c->rep);

		if (gnode_read_attr(fs, c, &attr))
			return -EIO;
		if (!err && gnode_same(chain[i], &attr)) {
			gnode_take_nid(chain[i], nid);
			if (i == count - 1 && (attr.flags & GOFER_ATTR_NOCAPS))
				__atomic_store_n(&gnode_of(chain[i])->nocaps, 1, __ATOMIC_RELAXED);
		} else {
			err = -ESTALE;
			conn_forget(fs->conn, nid, 1);
		}
	}
	if (!wire_done(&c->rep))
		return gcall_bad_reply(fs->conn, c, "malformed walk");
	if (!err && done < count)
		err = stop && stop != -ENOENT ? stop : -ESTALE;
	return err;
}

static int walk_chain(struct inode *ino, int want_open, int *fd)
{
	struct goferfs *fs = goferfs_of(ino);
	struct inode *chain[GOFER_WALK_MAX];
	struct gcall c;
	uint32_t base = 0;
	int whole;
	int err = gcall_begin(&c, GOFER_WALK, 8 + GOFER_WALK_MAX * (GOFER_NAME_MAX + 2));

	if (err)
		return err;
	wire_put(&c.req, "\0\0\0\0\0\0\0\0", 8);
	int count = chain_of(ino, chain, &c.req, &base, &whole);

	if (count <= 0) {
		gcall_end(&c);
		return count;
	}
	wire_patch_u32(&c.req, 0, base);
	wire_patch_u16(&c.req, 4, (uint16_t)count);
	wire_patch_u16(&c.req, 6, whole && want_open ? GOFER_WALK_OPEN : 0);
	err = gcall_do(fs->conn, &c);
	if (!err)
		err = walk_answers(fs, &c, chain, count);
	if (!err && whole && want_open)
		*fd = gcall_fd(&c);
	gcall_end(&c);
	for (int i = 0; i < count; i++)
		inode_put(chain[i]);
	return err ? err : whole ? 0 : 1;
}

static uint32_t known_nid(struct gnode *gn)
{
	lock_acquire(&gn->fs->lock);
	uint32_t nid = gn->nid;

	lock_release(&gn->fs->lock);
	return nid;
}

int64_t gnode_nid_open(struct inode *ino, int *fd)
{
	struct gnode *gn = gnode_of(ino);

	*fd = -1;
	for (;;) {
		uint32_t nid = known_nid(gn);

		if (nid)
			return nid;
		int r = walk_chain(ino, S_ISREG(ino->mode), fd);

		if (r < 0)
			return r;
		if (r == 0 && !known_nid(gn))
			return -ESTALE;
	}
}

int64_t gnode_nid(struct inode *ino)
{
	struct gnode *gn = gnode_of(ino);

	for (;;) {
		uint32_t nid = known_nid(gn);

		if (nid)
			return nid;
		int r = walk_chain(ino, 0, NULL);

		if (r < 0)
			return r;
		if (r == 0 && !known_nid(gn))
			return -ESTALE;
	}
}

int gnode_walk_one(struct inode *dir, const char *name, size_t len, struct gofer_attr *attr,
		   uint32_t *nid)
{
	struct goferfs *fs = goferfs_of(dir);
	int64_t dnid = gnode_nid(dir);
	struct gcall c;

	if (dnid < 0)
		return (int)dnid;
	int err = gcall_begin(&c, GOFER_WALK, 8 + len + 2);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)dnid);
	wire_put_u16(&c.req, 1);
	wire_put_u16(&c.req, 0);
	wire_put_text(&c.req, name, len);
	err = gcall_do(fs->conn, &c);
	if (!err) {
		uint16_t done = wire_u16(&c.rep);

		wire_u16(&c.rep);
		int32_t stop = (int32_t)wire_u32(&c.rep);

		if (done == 1 && !c.rep.bad) {
			*nid = wire_u32(&c.rep);
			err = gnode_read_attr(fs, &c, attr);
		} else {
			err = stop < 0 && stop >= -MAX_ERRNO ? stop : -EIO;
		}
		if (!wire_done(&c.rep) || done > 1)
			err = gcall_bad_reply(fs->conn, &c, "malformed walk");
	}
	gcall_end(&c);
	return err;
}

/* ---- freshness ---- */

static int ask_attr(struct inode *ino, struct gofer_attr *attr)
{
	struct goferfs *fs = goferfs_of(ino);
	int64_t nid = gnode_nid(ino);
	struct gcall c;

	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_GETATTR, 4);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	err = gcall_do(fs->conn, &c);
	if (!err)
		err = gnode_read_attr(fs, &c, attr);
	gcall_end(&c);
	return err;
}

/*
 * In a shared tree attributes are believed for SHARED_FRESH_NS, so that the lookup and the stat
 * of one stat(2) are one message. In an exclusive tree they are wrong only where we changed the
 * file itself, and then an fd we may have can tell.
 */
#define SHARED_FRESH_NS 1000000u

static int ask_hostfd(struct inode *ino, struct gofer_attr *a)
{
	struct gnode *gn = gnode_of(ino);
	struct hostfd *h = hostfd_use_cached(gn, 0);
	struct stat st;

	if (!h)
		return -ENOENT;
	int err = fstat(h->fd, &st) < 0 ? -errno : 0;

	hostfd_put(h);
	if (err)
		return err;
	memset(a, 0, sizeof(*a));
	a->mode = st.st_mode;
	a->nlink = (uint32_t)st.st_nlink;
	a->uid = st.st_uid;
	a->gid = st.st_gid;
	a->size = (uint64_t)st.st_size;
	a->blocks = (uint64_t)st.st_blocks;
	a->atime = st.st_atim.tv_sec;
	a->atime_ns = (uint32_t)st.st_atim.tv_nsec;
	a->mtime = st.st_mtim.tv_sec;
	a->mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
	a->ctime = st.st_ctim.tv_sec;
	a->ctime_ns = (uint32_t)st.st_ctim.tv_nsec;
	if (ino->attr_flags & STATX_ATTR_IMMUTABLE)
		a->flags |= GOFER_ATTR_IMMUTABLE;
	if (ino->attr_flags & STATX_ATTR_APPEND)
		a->flags |= GOFER_ATTR_APPEND;
	return 0;
}

int gnode_refresh(struct inode *ino, int force)
{
	struct gnode *gn = gnode_of(ino);
	struct gofer_attr attr;

	if (!force && !__atomic_load_n(&gn->stale, __ATOMIC_RELAXED)) {
		if (gn->fs->exclusive)
			return 0;
		if (goferfs_now() - __atomic_load_n(&gn->fresh, __ATOMIC_RELAXED) < SHARED_FRESH_NS)
			return 0;
	}
	int err = S_ISREG(ino->mode) ? ask_hostfd(ino, &attr) : -ENOENT;

	if (err)
		err = ask_attr(ino, &attr);
	/* A file without a name and without an open fd is known to us only. */
	if (err == -ESTALE && ino->nlink == 0)
		return 0;
	if (err)
		return err;
	lock_acquire(&ino->lock);
	gnode_set_attr(ino, &attr);
	lock_release(&ino->lock);
	return 0;
}

/* ---- what we changed ourselves, in exclusive trees ---- */

#define CHANGED_MAX (1u << 16)

static uint64_t changed_key(uint64_t dev, uint64_t hino)
{
	uint64_t k = hash_u64(hino) ^ dev;

	return k ? k : 1;
}

/* [fs->lock] */
static int changed_insert(uint64_t *set, uint32_t size, uint64_t key)
{
	uint32_t i = (uint32_t)hash_u64(key) & (size - 1);

	while (set[i] && set[i] != key)
		i = (i + 1) & (size - 1);
	if (set[i])
		return 0;
	set[i] = key;
	return 1;
}

/* [fs->lock] */
static void changed_grow(struct goferfs *fs)
{
	uint32_t size = fs->changed_size ? fs->changed_size * 2 : 64;
	uint64_t *set = size <= CHANGED_MAX ? calloc(size, sizeof(*set)) : NULL;

	if (!set) {
		fs->changed_all = 1;
		return;
	}
	for (uint32_t i = 0; i < fs->changed_size; i++)
		if (fs->changed[i])
			changed_insert(set, size, fs->changed[i]);
	free(fs->changed);
	fs->changed = set;
	fs->changed_size = size;
}

void gnode_note_change(struct inode *ino)
{
	struct gnode *gn = gnode_of(ino);
	struct goferfs *fs = gn->fs;

	if (!fs->exclusive || __atomic_exchange_n(&gn->noted, 1, __ATOMIC_RELAXED))
		return;
	lock_acquire(&fs->lock);
	if (!fs->changed_all && fs->changed_count * 2 >= fs->changed_size)
		changed_grow(fs);
	if (!fs->changed_all)
		fs->changed_count += (uint32_t)changed_insert(fs->changed, fs->changed_size,
							      changed_key(gn->dev, gn->hino));
	lock_release(&fs->lock);
}

void gnode_mark_stale(struct inode *ino)
{
	gnode_note_change(ino);
	__atomic_store_n(&gnode_of(ino)->stale, 1, __ATOMIC_RELAXED);
}

int gnode_was_changed(struct goferfs *fs, uint64_t dev, uint64_t hino)
{
	uint64_t key = changed_key(dev, hino);

	if (fs->readonly)
		return 0;
	lock_acquire(&fs->lock);
	int found = fs->changed_all;

	if (!found && fs->changed_size) {
		uint32_t i = (uint32_t)hash_u64(key) & (fs->changed_size - 1);

		while (fs->changed[i] && fs->changed[i] != key)
			i = (i + 1) & (fs->changed_size - 1);
		found = fs->changed[i] != 0;
	}
	lock_release(&fs->lock);
	return found;
}

/* ---- the end ---- */

/*
 * Dropping an inode drops its parent, which may be the last reference to that one too, and so on
 * up. The outermost call does them one after the other, so the depth of a tree is not a depth of
 * stack.
 */
static __thread struct {
	int active;
	struct inode *next;
} g_evict;

void gnode_evict(struct inode *ino)
{
	struct gnode *gn = gnode_of(ino);

	if (!gn)
		return;
	struct goferfs *fs = gn->fs;
	struct inode *parent = gn->parent;

	lock_acquire(&fs->lock);
	table_del(fs, gn);
	lock_release(&fs->lock);
	hostfd_detach(gn);
	conn_forget(fs->conn, gn->nid, gn->nid_refs);
	conn_forget(fs->conn, gn->old_nid, gn->old_refs);
	dircache_free(fs, gn->dc);
	free(gn->name);
	free(gn);
	ino->priv = NULL;
	if (g_evict.active) {
		g_evict.next = parent;
		return;
	}
	g_evict.active = 1;
	while (parent) {
		g_evict.next = NULL;
		inode_put(parent);
		parent = g_evict.next;
	}
	g_evict.active = 0;
}
