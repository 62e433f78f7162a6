/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File data: host fds the gofer donates, and reads, writes and mappings through them. An fd is
 * kept with its inode after the last close so that the next open costs no message; how many may
 * wait like that is bounded by RLIMIT_NOFILE.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "vfs/goferfs/goferfs_priv.h"

#define IO_SMALL 8192u
/* Measured: through 64 KiB that stay in the cache a big read costs 1.6 times a direct one, through
 * 256 KiB 7 times. */
#define IO_CHUNK (64u << 10)
#define IO_BUFS	 16
/*
 * From here on a read is one copy from a mapping of the file instead of two through a buffer:
 * measured, 1 MiB costs a third of it. The mapping must cost less than it saves.
 */
#define MAP_READ_MIN (128u << 10)
#define MAP_FILE_MAX (1ull << 30)

/* ---- the fd cache, one for all mounts of the process: fds are the process's ---- */

static struct {
	pthread_once_t once;
	struct lock lock; /* RANK_CACHE */
	/* [lock] */
	struct list_head idle; /* hostfds without users, oldest first */
	uint32_t idle_count, idle_max;
	uint32_t buf_count;
	void *buf[IO_BUFS]; /* IO_CHUNK bytes each */
} g_cache = { .once = PTHREAD_ONCE_INIT };

/* #hostcalls: prlimit64 (before lockdown: at the first mount) */
static void cache_init(void)
{
	struct rlimit rl;
	rlim_t n = getrlimit(RLIMIT_NOFILE, &rl) == 0 ? rl.rlim_cur / 2 : 64;

	lock_init(&g_cache.lock, RANK_CACHE);
	list_init(&g_cache.idle);
	g_cache.idle_max = n < 64 ? 64 : n > 65536 ? 65536 : (uint32_t)n;
}

void hostfd_cache_init(void)
{
	pthread_once(&g_cache.once, cache_init);
}

/* #hostcalls: close */
static void hostfd_free(struct hostfd *h)
{
	if (!h)
		return;
	close(h->fd);
	free(h);
}

/* [g_cache.lock] One to close, when too many wait. */
static struct hostfd *cache_trim(void)
{
	if (g_cache.idle_count <= g_cache.idle_max)
		return NULL;
	struct hostfd *h = list_first(&g_cache.idle, struct hostfd, lru);

	list_del(&h->lru);
	g_cache.idle_count--;
	if (h->owner->ro == h)
		h->owner->ro = NULL;
	else
		h->owner->rw = NULL;
	return h;
}

/* #hostcalls: munmap */
void hostfd_put(struct hostfd *h)
{
	struct hostfd *dead = NULL;
	void *map = NULL;
	size_t map_size = 0;

	lock_acquire(&g_cache.lock);
	if (--h->users == 0) {
		map = h->map;
		map_size = h->map_size;
		h->map = NULL;
		if (h->owner) {
			list_add_tail(&h->lru, &g_cache.idle);
			g_cache.idle_count++;
			dead = cache_trim();
		} else {
			dead = h;
		}
	}
	lock_release(&g_cache.lock);
	if (map)
		munmap(map, map_size);
	hostfd_free(dead);
}

static struct hostfd *use(struct hostfd *h)
{
	if (h && h->users++ == 0) {
		list_del(&h->lru);
		g_cache.idle_count--;
	}
	return h;
}

struct hostfd *hostfd_use_cached(struct gnode *gn, int writable)
{
	lock_acquire(&g_cache.lock);
	struct hostfd *h = use(writable ? gn->rw : gn->ro ? gn->ro : gn->rw);

	lock_release(&g_cache.lock);
	return h;
}

int hostfd_in_use(struct gnode *gn)
{
	lock_acquire(&g_cache.lock);
	int used = (gn->ro && gn->ro->users) || (gn->rw && gn->rw->users);

	lock_release(&g_cache.lock);
	return used;
}

/* Only a read-only fd: what a reader may map must not become writable. */
static struct hostfd *use_cached_ro(struct gnode *gn)
{
	lock_acquire(&g_cache.lock);
	struct hostfd *h = use(gn->ro);

	lock_release(&g_cache.lock);
	return h;
}

/* #hostcalls: fstat fcntl close */
struct hostfd *hostfd_adopt(struct inode *ino, int fd, int writable)
{
	struct gnode *gn = gnode_of(ino);
	struct hostfd *h = NULL, *old = NULL, **slot;
	struct stat st;

	/* Reading a device or FIFO by mistake could hang a thread for ever. */
	int flags = fcntl(fd, F_GETFL);

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_ino != gn->hino ||
	    flags < 0 || (flags & O_PATH) ||
	    (writable ? (flags & O_ACCMODE) == O_RDONLY : (flags & O_ACCMODE) != O_RDONLY)) {
		log_warn("gofer donated an fd that is not the file asked for");
		close(fd);
		return NULL;
	}
	h = calloc(1, sizeof(*h));
	if (!h) {
		close(fd);
		return NULL;
	}
	h->fd = fd;
	h->users = 1;
	list_init(&h->lru);
	lock_acquire(&g_cache.lock);
	slot = writable ? &gn->rw : &gn->ro;
	if (*slot) {
		old = h;
		h = use(*slot);
	} else {
		h->owner = gn;
		*slot = h;
	}
	lock_release(&g_cache.lock);
	hostfd_free(old);
	return h;
}

static struct hostfd *detach(struct hostfd *h)
{
	if (!h)
		return NULL;
	h->owner = NULL;
	if (h->users)
		return NULL;
	list_del(&h->lru);
	g_cache.idle_count--;
	return h;
}

void hostfd_detach(struct gnode *gn)
{
	lock_acquire(&g_cache.lock);
	struct hostfd *a = detach(gn->ro), *b = detach(gn->rw);

	gn->ro = gn->rw = NULL;
	lock_release(&g_cache.lock);
	hostfd_free(a);
	hostfd_free(b);
}

static void *buf_get(void)
{
	void *p = NULL;

	lock_acquire(&g_cache.lock);
	if (g_cache.buf_count)
		p = g_cache.buf[--g_cache.buf_count];
	lock_release(&g_cache.lock);
	return p ? p : malloc(IO_CHUNK);
}

static void buf_put(void *p)
{
	lock_acquire(&g_cache.lock);
	if (g_cache.buf_count < IO_BUFS) {
		g_cache.buf[g_cache.buf_count++] = p;
		p = NULL;
	}
	lock_release(&g_cache.lock);
	free(p);
}

/* ---- open ---- */

static int ask_open(struct inode *ino, uint32_t access, int *fd)
{
	struct goferfs *fs = goferfs_of(ino);
	struct gofer_attr attr;
	struct gcall c;
	int64_t nid;

	if (access == GOFER_OPEN_READ) {
		nid = gnode_nid_open(ino, fd);
		if (nid >= 0 && *fd >= 0)
			return 0;
	} else {
		nid = gnode_nid(ino);
	}
	if (nid < 0)
		return (int)nid;
	int err = gcall_begin(&c, GOFER_OPEN, 8);

	if (err)
		return err;
	wire_put_u32(&c.req, (uint32_t)nid);
	wire_put_u32(&c.req, access);
	err = gcall_do(fs->conn, &c);
	if (!err)
		err = gnode_read_attr(fs, &c, &attr);
	if (!err) {
		*fd = gcall_fd(&c);
		if (*fd < 0)
			err = gcall_bad_reply(fs->conn, &c, "no fd");
	}
	gcall_end(&c);
	if (err)
		return err;
	/* Close-to-open: what was true when the host opened it. */
	lock_acquire(&ino->lock);
	if (!fs->exclusive && gnode_same(ino, &attr))
		gnode_set_attr(ino, &attr);
	lock_release(&ino->lock);
	if (attr.flags & GOFER_ATTR_NOCAPS)
		__atomic_store_n(&gnode_of(ino)->nocaps, 1, __ATOMIC_RELAXED);
	return 0;
}

static struct hostfd *hostfd_open(struct inode *ino, int writable)
{
	struct gnode *gn = gnode_of(ino);
	struct hostfd *h = writable ? hostfd_use_cached(gn, 1) : use_cached_ro(gn);
	int fd = -1;

	if (h)
		return h;
	int err =
		ask_open(ino, writable ? GOFER_OPEN_READ | GOFER_OPEN_WRITE : GOFER_OPEN_READ, &fd);

	if (err == -EACCES && writable)
		err = ask_open(ino, GOFER_OPEN_WRITE, &fd);
	if (err)
		return ERR_PTR(err);
	h = hostfd_adopt(ino, fd, writable);
	return h ? h : ERR_PTR(-EIO);
}

int gfile_open(struct inode *ino, struct file *file)
{
	int writable = (file->flags & O_ACCMODE) != O_RDONLY;

	if (writable && goferfs_of(ino)->readonly)
		return -EROFS;
	struct hostfd *h = hostfd_open(ino, writable);

	if (IS_ERR(h))
		return (int)PTR_ERR(h);
	file->priv = h;
	return 0;
}

static void gfile_release(struct file *f)
{
	hostfd_put(f->priv);
}

static int file_fd(const struct file *f)
{
	return ((struct hostfd *)f->priv)->fd;
}

/* ---- read and write ---- */

/* #hostcalls: pread64 */
static ssize_t read_piece(int fd, struct uio *u, void *buf, size_t n, int64_t pos)
{
	ssize_t got;

	do {
		got = pread(fd, buf, n, pos);
	} while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? -errno : 0;
	return uio_copy_out(u, buf, (size_t)got);
}

/* At the end of a file that others may extend, too. #hostcalls: pwritev2 */
static ssize_t append_piece(int fd, struct uio *u, void *buf, size_t n, int64_t pos)
{
	ssize_t have = uio_copy_in(u, buf, n), put;
	struct iovec iov = { buf, (size_t)(have > 0 ? have : 0) };

	(void)pos;
	if (have <= 0)
		return have;
	do {
		put = pwritev2(fd, &iov, 1, 0, RWF_APPEND);
	} while (put < 0 && errno == EINTR);
	return put < 0 ? -errno : put;
}

/* #hostcalls: pwrite64 */
static ssize_t write_piece(int fd, struct uio *u, void *buf, size_t n, int64_t pos)
{
	ssize_t have = uio_copy_in(u, buf, n), put, done = 0;

	if (have <= 0)
		return have;
	while (done < have) {
		put = pwrite(fd, (char *)buf + done, (size_t)(have - done), pos + done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return done ? done : -errno;
		if (put == 0)
			break;
		done += put;
	}
	return done;
}

typedef ssize_t (*piece_fn)(int fd, struct uio *u, void *buf, size_t n, int64_t pos);

/* Piece by piece through a buffer; a short piece ends it. */
static ssize_t transfer(struct file *f, struct uio *u, int64_t *pos, piece_fn piece)
{
	char small[IO_SMALL];
	size_t size = u->left > sizeof(small) ? IO_CHUNK : sizeof(small);
	void *buf = size == IO_CHUNK ? buf_get() : small;
	ssize_t done = 0;

	if (!buf)
		return -ENOMEM;
	while (u->left) {
		size_t n = u->left < size ? u->left : size;
		ssize_t r = piece(file_fd(f), u, buf, n, *pos);

		if (r < 0 && !done)
			done = r;
		if (r <= 0)
			break;
		done += r;
		*pos += r;
		if ((size_t)r < n)
			break;
	}
	if (buf != small)
		buf_put(buf);
	return done;
}

/* The file's bytes as far as they are mapped; NULL: read them. #hostcalls: mmap munmap */
static const void *file_map(struct file *f, uint64_t *size)
{
	struct hostfd *h = f->priv;
	uint64_t want = __atomic_load_n(&f->inode->size, __ATOMIC_RELAXED);

	lock_acquire(&g_cache.lock);
	void *map = h->map;

	*size = h->map_size;
	lock_release(&g_cache.lock);
	if (map || want < MAP_READ_MIN || want > MAP_FILE_MAX)
		return map;
	map = mmap(NULL, want, PROT_READ, MAP_SHARED, h->fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	lock_acquire(&g_cache.lock);
	void *extra = h->map ? map : NULL; /* another reader was faster */

	if (!extra) {
		h->map = map;
		h->map_size = want;
	}
	map = h->map;
	*size = h->map_size;
	lock_release(&g_cache.lock);
	if (extra)
		munmap(extra, want);
	return map;
}

/*
 * A big read straight from the mapping. What the mapping does not have, because the file has been
 * cut short or has grown, or the guest's memory does not take, is left to transfer(): 0.
 */
static ssize_t read_mapped(struct file *f, struct uio *u, int64_t *pos)
{
	uint64_t size, at = (uint64_t)*pos;
	const uint8_t *map;

	if (u->left < MAP_READ_MIN || !u->ops->copy_out_mapped)
		return 0;
	map = file_map(f, &size);
	if (!map || at >= size)
		return 0;
	size_t n = size - at < u->left ? size - at : u->left;
	ssize_t done = u->ops->copy_out_mapped(u, map + at, n);

	if (done <= 0)
		return 0;
	*pos += done;
	return done;
}

static ssize_t gfile_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *ino = f->inode;
	ssize_t mapped;

	/* Nothing behind the end of a file that nobody else writes. */
	if (goferfs_of(ino)->exclusive && (uint64_t)*pos >= ino->size)
		return 0;
	mapped = read_mapped(f, u, pos);
	if (mapped && (!u->left || (goferfs_of(ino)->exclusive && (uint64_t)*pos >= ino->size)))
		return mapped;
	ssize_t n = transfer(f, u, pos, read_piece);

	return mapped ? mapped + (n > 0 ? n : 0) : n;
}

/* What the host says of the size of a file that others may change. #hostcalls: fstat */
static void refresh_size(struct file *f)
{
	struct inode *ino = f->inode;
	struct stat st;

	if (goferfs_of(ino)->exclusive || fstat(file_fd(f), &st) < 0)
		return;
	lock_acquire(&ino->lock);
	ino->size = (uint64_t)st.st_size;
	lock_release(&ino->lock);
}

static ssize_t gfile_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct inode *ino = f->inode;
	int append = (f->flags & O_APPEND) && !goferfs_of(ino)->exclusive;
	ssize_t n = transfer(f, u, pos, append ? append_piece : write_piece);

	if (n > 0 && append) {
		refresh_size(f);
		*pos = (int64_t)ino->size;
		gnode_mark_stale(ino);
	} else if (n > 0) {
		lock_acquire(&ino->lock);
		if ((uint64_t)*pos > ino->size)
			ino->size = (uint64_t)*pos;
		lock_release(&ino->lock);
		gnode_mark_stale(ino);
	}
	return n;
}

/* #hostcalls: lseek */
static int64_t gfile_llseek(struct file *f, int64_t off, int whence)
{
	int64_t base;

	switch (whence) {
	case SEEK_SET:
		base = 0;
		break;
	case SEEK_CUR:
		base = f->pos;
		break;
	case SEEK_END:
		refresh_size(f);
		base = (int64_t)f->inode->size;
		break;
	case SEEK_DATA:
	case SEEK_HOLE:
		/* The host fd's own position means nothing here. */
		off = lseek(file_fd(f), off, whence);
		return off < 0 ? -errno : off;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow(base, off, &off))
		return -EOVERFLOW;
	if (off < 0)
		return -EINVAL;
	return off;
}

static int gfile_map_extent(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
			    struct map_extent *out)
{
	uint64_t end;

	(void)prot, (void)flags;
	refresh_size(f);
	if (__builtin_add_overflow(f->inode->size, 4095, &end))
		return -EOVERFLOW;
	end &= ~4095ull;
	if (off >= end)
		return -ENXIO;
	out->fd = file_fd(f);
	out->off = off;
	out->len = len < end - off ? len : end - off;
	return 0;
}

/* #hostcalls: fsync fdatasync */
static int gfile_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	(void)start, (void)end;
	if (goferfs_of(f->inode)->readonly)
		return 0;
	return (datasync ? fdatasync(file_fd(f)) : fsync(file_fd(f))) < 0 ? -errno : 0;
}

/* #hostcalls: fallocate */
static int gfile_fallocate(struct file *f, int mode, int64_t off, int64_t len)
{
	struct inode *ino = f->inode;

	if (fallocate(file_fd(f), mode, off, len) < 0)
		return -errno;
	gnode_note_change(ino);
	return gnode_refresh(ino, 1);
}

const struct file_ops g_goferfs_file_fops = {
	.read = gfile_read,
	.write = gfile_write,
	.llseek = gfile_llseek,
	.map_extent = gfile_map_extent,
	.fsync = gfile_fsync,
	.fallocate = gfile_fallocate,
	.release = gfile_release,
};
