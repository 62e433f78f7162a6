/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Donated host files. What decides how a file is driven is its kind:
 *
 *   pipe, tty  read and write after poll(2) says that they will not block, with RWF_NOWAIT where
 *              the host knows it, for another holder of the same pipe may come in between;
 *   socket     recv/send with MSG_DONTWAIT;
 *   regular    read/write at the shared offset, pread/pwrite elsewhere;
 *   device     (/dev/null and the like) plain read and write.
 *
 * Bytes go through a bounce buffer: guest memory is only reached through the uio. What could not
 * be copied to a bad guest address is kept for the next read.
 */
#include "vfs/hostfd/hostfd.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "platform/host/event.h"

#define BOUNCE_SIZE (64u << 10)
#define TTY_CHUNK 256u /* POLLOUT of a terminal promises this much */

enum hostfd_kind { KIND_STREAM, KIND_TTY, KIND_SOCKET, KIND_REGULAR, KIND_DEVICE };

struct hostfd {
	struct ref ref;	   /* each open file and the inode hold one */
	int fd;		   /* [I] owned */
	enum hostfd_kind kind; /* [I] */
	int access;	   /* [I] O_ACCMODE of the description */
	int no_nowait;	   /* [a] the host refused RWF_NOWAIT */
	struct lock lock;  /* RANK_PIPE: the leftover, and the order of readers */
	uint8_t *left;	   /* [lock] bytes read but not delivered */
	size_t left_len, left_off;
	int watching;	   /* [lock] */
	struct waitq wq;
};

static const struct file_ops g_hostfd_stream_ops, g_hostfd_file_ops;
static const struct inode_ops g_hostfd_inode_ops;

static void hostfd_put(struct hostfd *h)
{
	if (!ref_put(&h->ref))
		return;
	if (h->watching)
		hostfd_watch_del(h->fd, &h->wq);
	close(h->fd);
	free(h->left);
	waitq_destroy(&h->wq);
	lock_destroy(&h->lock);
	free(h);
}

static int host_ready(const struct hostfd *h, short events)
{
	struct pollfd p = { .fd = h->fd, .events = events };

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

/* ---- host I/O that does not block: bytes, 0 at the end, or negative errno ---- */

/* #hostcalls: preadv2 recvmsg poll */
static ssize_t host_read(struct hostfd *h, void *buf, size_t n)
{
	struct iovec iov = { .iov_base = buf, .iov_len = n };
	ssize_t r;

	if (h->kind == KIND_SOCKET) {
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

		r = recvmsg(h->fd, &m, MSG_DONTWAIT);
		return r < 0 ? -errno : r;
	}
	if (h->kind == KIND_STREAM || h->kind == KIND_TTY) {
		if (!host_ready(h, POLLIN))
			return -EAGAIN;
		if (!__atomic_load_n(&h->no_nowait, __ATOMIC_RELAXED)) {
			r = preadv2(h->fd, &iov, 1, -1, RWF_NOWAIT);
			if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
				return r < 0 ? -errno : r;
			__atomic_store_n(&h->no_nowait, 1, __ATOMIC_RELAXED);
		}
	}
	r = preadv2(h->fd, &iov, 1, -1, 0);
	return r < 0 ? -errno : r;
}

/* #hostcalls: pwritev2 sendmsg poll */
static ssize_t host_write(struct hostfd *h, const void *buf, size_t n)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = n };
	ssize_t r;

	if (h->kind == KIND_SOCKET) {
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

		r = sendmsg(h->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		return r < 0 ? -errno : r;
	}
	if (h->kind == KIND_STREAM || h->kind == KIND_TTY) {
		/* A reader that is gone shows as POLLERR; the write then says EPIPE. */
		if (!host_ready(h, POLLOUT))
			return -EAGAIN;
		if (!__atomic_load_n(&h->no_nowait, __ATOMIC_RELAXED)) {
			r = pwritev2(h->fd, &iov, 1, -1, RWF_NOWAIT);
			if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
				return r < 0 ? -errno : r;
			__atomic_store_n(&h->no_nowait, 1, __ATOMIC_RELAXED);
		}
		if (n > (h->kind == KIND_TTY ? TTY_CHUNK : PIPE_BUF))
			n = h->kind == KIND_TTY ? TTY_CHUNK : PIPE_BUF;
	}
	iov.iov_len = n;
	r = pwritev2(h->fd, &iov, 1, -1, 0);
	return r < 0 ? -errno : r;
}

/* ---- streams ---- */

/* Gives out what an earlier read could not deliver. */
static ssize_t deliver_left(struct hostfd *h, struct uio *u)
{
	ssize_t r = uio_copy_out(u, h->left + h->left_off, h->left_len - h->left_off);

	if (r <= 0)
		return r;
	h->left_off += (size_t)r;
	if (h->left_off == h->left_len) {
		free(h->left);
		h->left = NULL;
		h->left_len = h->left_off = 0;
	}
	return r;
}

static ssize_t hostfd_stream_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = f->priv;
	size_t want = u->left < BOUNCE_SIZE ? u->left : BOUNCE_SIZE;
	uint8_t small[4096], *buf = small;
	ssize_t n, r;

	(void)pos;
	if (!want)
		return 0;
	lock_acquire(&h->lock);
	if (h->left) {
		r = deliver_left(h, u);
		lock_release(&h->lock);
		return r;
	}
	if (want > sizeof(small)) {
		buf = malloc(want);
		if (!buf) {
			buf = small;
			want = sizeof(small);
		}
	}
	n = r = host_read(h, buf, want);
	if (n > 0) {
		r = uio_copy_out(u, buf, (size_t)n);
		if (r < n) {
			size_t got = r > 0 ? (size_t)r : 0;

			h->left = malloc((size_t)n - got);
			if (h->left) {
				h->left_len = (size_t)n - got;
				memcpy(h->left, buf + got, h->left_len);
			}
		}
	}
	lock_release(&h->lock);
	if (buf != small)
		free(buf);
	return r;
}

/* A peek at the input, then exactly as much as the host has taken counts. */
static ssize_t hostfd_stream_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = f->priv;
	ssize_t done = 0, r = 0;
	uint8_t buf[16384];

	(void)pos;
	while (u->left) {
		struct uio ahead = *u;
		size_t n = u->left < sizeof(buf) ? u->left : sizeof(buf);

		if (u->seg == &u->one)
			ahead.seg = &ahead.one;
		r = uio_copy_in(&ahead, buf, n);
		if (r <= 0)
			break;
		n = (size_t)r;
		r = host_write(h, buf, n);
		if (r <= 0)
			break;
		uio_advance(u, (size_t)r);
		done += r;
		if ((size_t)r < n)
			break;
	}
	return done ? done : r;
}

static uint32_t hostfd_poll(struct file *f, struct poll_table *pt)
{
	struct hostfd *h = f->priv;
	short events = (short)((f->mode & FMODE_READ ? POLLIN | POLLRDNORM | POLLPRI | POLLRDHUP : 0) |
			       (f->mode & FMODE_WRITE ? POLLOUT | POLLWRNORM : 0));
	uint32_t mask;

	/* Only who is going to wait needs the host's notice; a look costs one poll(2). */
	if (pt && pt->add) {
		poll_wait(pt, &h->wq);
		lock_acquire(&h->lock);
		if (!h->watching)
			h->watching = hostfd_watch_add(h->fd, &h->wq, POLLIN | POLLOUT) == 0;
		lock_release(&h->lock);
	}
	mask = (uint32_t)host_ready(h, events);
	if (__atomic_load_n(&h->left, __ATOMIC_RELAXED))
		mask |= POLLIN | POLLRDNORM;
	return mask;
}

/* #hostcalls: ioctl(FIONREAD) */
static long hostfd_ioctl(struct file *f, struct ioctl_req *r)
{
	struct hostfd *h = f->priv;
	int n = 0;

	if (r->cmd != FIONREAD || h->kind == KIND_DEVICE)
		return -ENOIOCTLCMD;
	if (ioctl(h->fd, FIONREAD, &n) < 0)
		return -errno;
	lock_acquire(&h->lock);
	n += (int)(h->left_len - h->left_off);
	lock_release(&h->lock);
	return r->copy_out(r, r->arg, &n, sizeof(n));
}

static void hostfd_release(struct file *f)
{
	hostfd_put(f->priv);
}

/* ---- regular files and plain devices ---- */

/* An offset of -1 is the description's own. #hostcalls: preadv2 pread64 */
static ssize_t hostfd_file_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = f->priv;
	int shared = pos == &f->pos || h->kind == KIND_DEVICE;
	uint8_t buf[16384];
	ssize_t done = 0, n, r;

	while (u->left) {
		size_t want = u->left < sizeof(buf) ? u->left : sizeof(buf);

		struct iovec iov = { buf, want };

		n = shared ? preadv2(h->fd, &iov, 1, -1, 0) : pread(h->fd, buf, want, *pos);
		if (n <= 0)
			return done ? done : n < 0 ? -errno : 0;
		r = uio_copy_out(u, buf, (size_t)n);
		if (r < 0)
			return done ? done : r;
		done += r;
		*pos += r;
		if (r < n || (size_t)n < want)
			break;
	}
	return done;
}

/* #hostcalls: pwritev2 pwrite64 */
static ssize_t hostfd_file_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct hostfd *h = f->priv;
	int shared = pos == &f->pos || h->kind == KIND_DEVICE;
	uint8_t buf[16384];
	ssize_t done = 0, n, r;

	while (u->left) {
		r = uio_copy_in(u, buf, sizeof(buf));
		if (r <= 0)
			return done ? done : r;
		struct iovec iov = { buf, (size_t)r };

		n = shared ? pwritev2(h->fd, &iov, 1, -1, 0) : pwrite(h->fd, buf, (size_t)r, *pos);
		if (n < 0)
			return done ? done : -errno;
		done += n;
		*pos += n;
		if (n < r)
			break;
	}
	return done;
}

/* #hostcalls: lseek */
static int64_t hostfd_llseek(struct file *f, int64_t off, int whence)
{
	struct hostfd *h = f->priv;
	off_t r = lseek(h->fd, off, whence);

	if (r < 0)
		return -errno;
	f->pos = r;
	return r;
}

static int hostfd_map(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
		      struct map_extent *out)
{
	struct hostfd *h = f->priv;
	struct stat st;

	(void)prot;
	(void)flags;
	if (h->kind != KIND_REGULAR)
		return -ENODEV;
	if (fstat(h->fd, &st) < 0)
		return -errno;
	if (off >= (((uint64_t)st.st_size + 4095) & ~4095ull))
		return -ENXIO;
	out->fd = h->fd;
	out->off = off;
	out->len = len;
	if (len > (((uint64_t)st.st_size + 4095) & ~4095ull) - off)
		out->len = (((uint64_t)st.st_size + 4095) & ~4095ull) - off;
	return 0;
}

static int hostfd_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	struct hostfd *h = f->priv;

	(void)start;
	(void)end;
	if (h->kind != KIND_REGULAR)
		return -EINVAL;
	return (datasync ? fdatasync(h->fd) : fsync(h->fd)) < 0 ? -errno : 0;
}

static const struct file_ops g_hostfd_stream_ops = {
	.read = hostfd_stream_read,
	.write = hostfd_stream_write,
	.poll = hostfd_poll,
	.ioctl = hostfd_ioctl,
	.release = hostfd_release,
};

static const struct file_ops g_hostfd_file_ops = {
	.read = hostfd_file_read,
	.write = hostfd_file_write,
	.llseek = hostfd_llseek,
	.ioctl = hostfd_ioctl,
	.map_extent = hostfd_map,
	.fsync = hostfd_fsync,
	.release = hostfd_release,
};

/* ---- the inode ---- */

static const struct file_ops *kind_ops(const struct hostfd *h)
{
	return h->kind == KIND_REGULAR || h->kind == KIND_DEVICE ? &g_hostfd_file_ops
								 : &g_hostfd_stream_ops;
}

static struct linux_timespec from_host(struct timespec ts)
{
	return (struct linux_timespec){ .sec = ts.tv_sec, .nsec = ts.tv_nsec };
}

/* #hostcalls: fstat */
static int hostfd_getattr(struct inode *ino)
{
	struct hostfd *h = ino->priv;
	struct stat st;

	if (fstat(h->fd, &st) < 0)
		return -errno;
	lock_acquire(&ino->lock);
	if (h->kind == KIND_REGULAR) {
		ino->size = (uint64_t)st.st_size;
		ino->blocks = (uint64_t)st.st_blocks;
	}
	ino->atime = from_host(st.st_atim);
	ino->mtime = from_host(st.st_mtim);
	ino->ctime = from_host(st.st_ctim);
	lock_release(&ino->lock);
	return 0;
}

static int hostfd_setattr(struct inode *ino, const struct iattr *attr)
{
	struct hostfd *h = ino->priv;

	if (!(attr->valid & IATTR_SIZE))
		return -EPERM;
	if (h->kind == KIND_REGULAR) {
		if (ftruncate(h->fd, (off_t)attr->size) < 0)
			return -errno;
		ino->size = attr->size;
	}
	return 0;
}

/* /dev/stdout and /proc/PID/fd/N: another open file on the same host description. */
static int hostfd_open(struct inode *ino, struct file *f)
{
	struct hostfd *h = ino->priv;

	if (((f->mode & FMODE_READ) && h->access == O_WRONLY) ||
	    ((f->mode & FMODE_WRITE) && h->access == O_RDONLY))
		return -EACCES;
	f->ops = kind_ops(h);
	if (f->ops == &g_hostfd_stream_ops)
		f->mode |= FMODE_STREAM;
	ref_get(&h->ref);
	f->priv = h;
	return 0;
}

static const struct inode_ops g_hostfd_inode_ops = {
	.getattr = hostfd_getattr,
	.setattr = hostfd_setattr,
	.open = hostfd_open,
};

/* The inode's hold on h ends with the inode. */
static void hostfd_inode_gone(struct inode *ino)
{
	hostfd_put(ino->priv);
}

static int kind_of(const struct stat *st, int fd, enum hostfd_kind *kind, const char **name)
{
	*name = "host:[%ino]";
	switch (st->st_mode & S_IFMT) {
	case S_IFIFO:
		*kind = KIND_STREAM;
		*name = "pipe:[%ino]";
		return 0;
	case S_IFSOCK:
		*kind = KIND_SOCKET;
		*name = "pipe:[%ino]";
		return 0;
	case S_IFREG:
		*kind = KIND_REGULAR;
		return 0;
	case S_IFCHR:
		if (isatty(fd)) {
			*kind = KIND_TTY;
		} else {
			*kind = KIND_DEVICE;
			if (st->st_rdev == makedev(1, 3))
				*name = "/dev/null";
		}
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * What a guest sees of the host's inode: type, permission bits and size; the owner is the guest
 * user that the file was opened for. A terminal shows as a character device without a number, a
 * socket as a pipe, since no socket call works on it. bound_socket makes the VFS call
 * hostfd_inode_gone; the socket layer never looks at it because the inode is no S_IFSOCK.
 */
static void inode_setup(struct inode *ino, struct hostfd *h, const struct stat *st)
{
	lock_acquire(&ino->lock);
	ino->mode = st->st_mode & (S_IFMT | 0777);
	if (h->kind == KIND_TTY)
		ino->mode = S_IFCHR | 0620;
	else if (h->kind == KIND_SOCKET)
		ino->mode = S_IFIFO | 0600;
	else if (h->kind == KIND_DEVICE)
		ino->rdev = linux_makedev(major(st->st_rdev), minor(st->st_rdev));
	ino->ops = &g_hostfd_inode_ops;
	ino->fops = kind_ops(h);
	ino->priv = h;
	ino->bound_socket = h;
	ino->bound_socket_gone = hostfd_inode_gone;
	lock_release(&ino->lock);
}

/* #hostcalls: fcntl(F_GETFL) fstat ioctl(TCGETS) */
struct file *hostfd_file_new(struct vfs *vfs, const struct cred *cred, int fd)
{
	uint32_t mode = FMODE_READ | FMODE_WRITE;
	int fl = fcntl(fd, F_GETFL), err;
	enum hostfd_kind kind;
	const char *name;
	struct hostfd *h;
	struct stat st;
	struct file *f;

	if (fl < 0 || fstat(fd, &st) < 0)
		return ERR_PTR(-errno);
	err = kind_of(&st, fd, &kind, &name);
	h = err ? NULL : calloc(1, sizeof(*h));
	if (!h) {
		close(fd);
		return ERR_PTR(err ? err : -ENOMEM);
	}
	ref_init(&h->ref);
	h->fd = fd;
	h->kind = kind;
	h->access = fl & O_ACCMODE;
	lock_init(&h->lock, RANK_PIPE);
	waitq_init(&h->wq);
	if (h->access == O_RDONLY)
		mode = FMODE_READ;
	else if (h->access == O_WRONLY)
		mode = FMODE_WRITE;
	if (kind_ops(h) == &g_hostfd_stream_ops)
		mode |= FMODE_STREAM;
	f = file_new_anon(vfs, name, kind_ops(h), h, (uint32_t)(fl & (O_ACCMODE | O_APPEND)), mode,
			  cred);
	if (IS_ERR(f)) {
		hostfd_put(h);
		return f;
	}
	ref_get(&h->ref); /* the inode's */
	inode_setup(f->inode, h, &st);
	if (kind == KIND_REGULAR) {
		off_t at = lseek(fd, 0, SEEK_CUR);

		f->pos = at > 0 ? at : 0;
	}
	return f;
}
