/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket syscalls: argument copies, blocking and time-outs. What happens on the wire is the
 * family's business (sentry/socket).
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/signal/signal.h"
#include "sentry/socket/socket.h"
#include "sentry/syscall/syscall.h"

#define OPTVAL_MAX 4096
#define MMSG_MAX 1024 /* UIO_MAXIOV */

struct linux_msghdr {
	uint64_t name;
	int32_t namelen;
	uint32_t pad0;
	uint64_t iov, iovlen;
	uint64_t control, controllen;
	uint32_t flags;
	uint32_t pad1;
};
_Static_assert(sizeof(struct linux_msghdr) == 56, "struct user_msghdr of x86-64");

struct linux_mmsghdr {
	struct linux_msghdr hdr;
	uint32_t len;
	uint32_t pad;
};

/* A file that is a socket, with a reference on the file; ERR_PTR(-EBADF, -ENOTSOCK). */
static struct file *socket_fd(struct task *t, int fd, struct socket **s)
{
	struct file *f = fd_get(t, fd);

	if (!f)
		return ERR_PTR(-EBADF);
	*s = file_socket(f);
	if (!*s) {
		file_put(f);
		return ERR_PTR(-ENOTSOCK);
	}
	return f;
}

static int addr_from_user(struct task *t, struct sockaddr_storage *a, uint64_t from, int64_t len)
{
	if (len < 0 || len > (int64_t)SOCKADDR_MAX)
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	return len ? copy_from_user(t, a, from, (size_t)len) : 0;
}

/* The truncated address and its full length, as getsockname(2) tells them. */
static int addr_to_user(struct task *t, const struct sockaddr_storage *a, uint32_t len, uint64_t to,
			uint64_t lenp)
{
	uint32_t room;

	if (get_user_u32(t, lenp, &room))
		return -EFAULT;
	if ((int32_t)room < 0)
		return -EINVAL;
	uint32_t n = len < room ? len : room;

	if (n && copy_to_user(t, to, a, n))
		return -EFAULT;
	return put_user_u32(t, lenp, len);
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
	return timeout_ns ? mono_now_ns() + timeout_ns : NO_DEADLINE;
}

/* Sleeps until `on` (or f itself when NULL) may have changed. Consumes on's reference. */
static int wait_socket(struct task *t, struct file *f, struct socket *on, uint32_t events, uint64_t deadline)
{
	struct waiter w;
	int err;

	if (!on)
		return task_wait_file(t, f, events, deadline);
	waiter_init(&w, events, task_waiter_wake, t);
	waitq_add(on->wait, &w);
	err = on->ops->poll(on) & POLLHUP ? 0 : task_sleep(t, deadline);
	waitq_del(&w);
	on->ops->put(on);
	return err;
}

/* What an interrupted or timed-out wait means: EAGAIN for a socket time-out (EINPROGRESS in
 * connect), and EINTR instead of a restart once a time-out is set, as Linux has it. */
static long wait_error(long err, uint64_t timeout_ns)
{
	if (err == -ETIMEDOUT)
		return -EAGAIN;
	return err == -ERESTARTSYS && timeout_ns ? -EINTR : err;
}

SYSCALL_HANDLER(socket)
{
	int type = (int)a->a[1] & 0xf, flags = (int)a->a[1] & ~0xf;

	if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	struct socket *s = socket_create(t, (int)a->a[0], type, (int)a->a[2]);

	if (IS_ERR(s))
		return PTR_ERR(s);
	struct file *f = socket_file(t, s, flags);

	if (IS_ERR(f)) {
		s->ops->release(s);
		return PTR_ERR(f);
	}
	int fd = fd_install(t, f, 0, flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);

	if (fd < 0)
		file_put(f);
	return fd;
}

SYSCALL_HANDLER(socketpair)
{
	int type = (int)a->a[1] & 0xf, flags = (int)a->a[1] & ~0xf;
	struct file *files[2] = { NULL, NULL };
	int fds[2] = { -1, -1 };
	long ret = 0;

	if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	for (int i = 0; i < 2 && !ret; i++) {
		struct socket *s = socket_create(t, (int)a->a[0], type, (int)a->a[2]);

		if (IS_ERR(s)) {
			ret = PTR_ERR(s);
			break;
		}
		files[i] = socket_file(t, s, flags);
		if (IS_ERR(files[i])) {
			ret = PTR_ERR(files[i]);
			files[i] = NULL;
			s->ops->release(s);
		}
	}
	if (!ret) {
		struct socket *s = file_socket(files[0]);

		ret = s->ops->pair ? s->ops->pair(s, file_socket(files[1]), t) : -EOPNOTSUPP;
	}
	for (int i = 0; i < 2 && !ret; i++) {
		fds[i] = fd_reserve(t, 0, flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);
		if (fds[i] < 0)
			ret = fds[i];
	}
	if (!ret && copy_to_user(t, a->a[3], fds, sizeof(fds)))
		ret = -EFAULT;
	for (int i = 0; i < 2; i++) {
		if (!ret) {
			fd_publish(t, fds[i], files[i]);
			continue;
		}
		if (fds[i] >= 0)
			fd_unreserve(t, fds[i]);
		if (files[i])
			file_put(files[i]);
	}
	return ret;
}

SYSCALL_HANDLER(bind)
{
	struct sockaddr_storage addr;
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = addr_from_user(t, &addr, a->a[1], (int)a->a[2]);

	if (!ret)
		ret = s->ops->bind ? s->ops->bind(s, t, &addr, (uint32_t)a->a[2]) : -EOPNOTSUPP;
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(listen)
{
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = s->ops->listen ? s->ops->listen(s, t, (int)a->a[1]) : -EOPNOTSUPP;

	file_put(f);
	return ret;
}

SYSCALL_HANDLER(connect)
{
	struct sockaddr_storage addr;
	struct socket *s, *on;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = addr_from_user(t, &addr, a->a[1], (int)a->a[2]);
	uint64_t deadline = deadline_of(s->snd_timeout_ns);

	while (!ret) {
		on = NULL;
		ret = s->ops->connect ? s->ops->connect(s, t, &addr, (uint32_t)a->a[2], &on) : -EOPNOTSUPP;
		/* -EALREADY: an earlier call began it; a blocking one waits for it. */
		if (ret != -EAGAIN && ret != -EINPROGRESS && ret != -EALREADY)
			break;
		if (f->flags & O_NONBLOCK) {
			if (on)
				on->ops->put(on);
			break;
		}
		long err = wait_socket(t, f, on, POLLOUT | POLLIN, deadline);

		if (err == -ETIMEDOUT)
			ret = ret == -EAGAIN ? -EAGAIN : -EINPROGRESS;
		else
			ret = err ? wait_error(err, s->snd_timeout_ns) : 0;
	}
	file_put(f);
	return ret;
}

static long do_accept(struct task *t, int fd, uint64_t addrp, uint64_t lenp, int flags)
{
	struct sockaddr_storage addr;
	struct socket *s, *conn;
	uint32_t len = 0;

	if (flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	struct file *f = socket_fd(t, fd, &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	uint64_t deadline = deadline_of(s->rcv_timeout_ns);
	long ret;

	for (;;) {
		conn = s->ops->accept ? s->ops->accept(s, t) : ERR_PTR(-EOPNOTSUPP);
		ret = IS_ERR(conn) ? PTR_ERR(conn) : 0;
		if (ret != -EAGAIN || (f->flags & O_NONBLOCK))
			break;
		ret = task_wait_file(t, f, POLLIN, deadline);
		if (ret) {
			ret = wait_error(ret, s->rcv_timeout_ns);
			break;
		}
	}
	file_put(f);
	if (ret)
		return ret;
	f = socket_file(t, conn, flags);
	if (IS_ERR(f)) {
		conn->ops->release(conn);
		return PTR_ERR(f);
	}
	int new_fd = fd_reserve(t, 0, flags & SOCK_CLOEXEC ? O_CLOEXEC : 0);

	ret = new_fd < 0 ? new_fd : 0;
	if (!ret && addrp) {
		memset(&addr, 0, sizeof(addr));
		ret = conn->ops->getname(conn, 2, &addr, &len); /* 2: of accept, whatever became of it */
		if (ret == -ENOTCONN) /* the peer left already; its name is unknown */
			ret = -ECONNABORTED;
		if (!ret)
			ret = addr_to_user(t, &addr, len, addrp, lenp);
	}
	if (ret) {
		if (new_fd >= 0)
			fd_unreserve(t, new_fd);
		file_put(f);
		return ret;
	}
	fd_publish(t, new_fd, f);
	return new_fd;
}

SYSCALL_HANDLER(accept)
{
	return do_accept(t, (int)a->a[0], a->a[1], a->a[2], 0);
}

SYSCALL_HANDLER(accept4)
{
	return do_accept(t, (int)a->a[0], a->a[1], a->a[2], (int)a->a[3]);
}

static long do_getname(struct task *t, const struct sysargs *a, int peer)
{
	struct sockaddr_storage addr;
	uint32_t len = 0;
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	memset(&addr, 0, sizeof(addr));
	long ret = s->ops->getname(s, peer, &addr, &len);

	if (!ret)
		ret = addr_to_user(t, &addr, len, a->a[1], a->a[2]);
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(getsockname)
{
	return do_getname(t, a, 0);
}

SYSCALL_HANDLER(getpeername)
{
	return do_getname(t, a, 1);
}

SYSCALL_HANDLER(shutdown)
{
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = -EINVAL;

	if (a->a[1] <= SHUT_RDWR) /* 0, 1, 2 become the bits 1, 2, 3 */
		ret = s->ops->shutdown ? s->ops->shutdown(s, (int)a->a[1] + 1) : -EOPNOTSUPP;
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(setsockopt)
{
	uint64_t val[OPTVAL_MAX / 8];
	struct socket *s;
	int32_t len = (int32_t)a->a[4];
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = len < 0 || len > OPTVAL_MAX ? -EINVAL : 0;

	memset(val, 0, 64);
	if (!ret && len)
		ret = copy_from_user(t, val, a->a[3], (size_t)len);
	if (!ret)
		ret = socket_setsockopt(s, t, (int)a->a[1], (int)a->a[2], val, (uint32_t)len);
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(getsockopt)
{
	uint64_t val[OPTVAL_MAX / 8];
	struct socket *s;
	uint32_t len;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = get_user_u32(t, a->a[4], &len);

	if (!ret && (int32_t)len < 0)
		ret = -EINVAL;
	if (!ret) {
		len = len > OPTVAL_MAX ? OPTVAL_MAX : len;
		memset(val, 0, sizeof(val));
		ret = socket_getsockopt(s, t, (int)a->a[1], (int)a->a[2], val, &len);
	}
	if (!ret && len)
		ret = copy_to_user(t, a->a[3], val, len);
	if (!ret)
		ret = put_user_u32(t, a->a[4], len);
	file_put(f);
	return ret;
}

/* ---- messages ---- */

/* The blocking send loop; a stream goes on until everything is sent. */
static long send_loop(struct task *t, struct file *f, struct socket *s, struct sock_msg *m)
{
	int nonblock = (m->flags & MSG_DONTWAIT) || (f->flags & O_NONBLOCK);
	uint64_t deadline = deadline_of(s->snd_timeout_ns);
	long done = 0, ret;

	for (;;) {
		struct socket *on = NULL;

		ret = s->ops->sendmsg ? s->ops->sendmsg(s, t, m, &on) : -EOPNOTSUPP;
		if (ret >= 0) {
			done += ret;
			if (!m->u->left || s->type != SOCK_STREAM || ret == 0 || nonblock)
				break;
			continue;
		}
		if (ret != -EAGAIN || nonblock) {
			if (on)
				on->ops->put(on);
			break;
		}
		ret = wait_socket(t, f, on, POLLOUT, deadline);
		if (ret) {
			ret = wait_error(ret, s->snd_timeout_ns);
			break;
		}
	}
	if (ret == -EPIPE && !done && s->type == SOCK_STREAM && !(m->flags & MSG_NOSIGNAL)) {
		siginfo_t si;

		siginfo_user(&si, SIGPIPE, t, t);
		signal_send_task(t, &si);
	}
	return done ? done : ret;
}

static long recv_loop(struct task *t, struct file *f, struct socket *s, struct sock_msg *m)
{
	int nonblock = (m->flags & MSG_DONTWAIT) || (f->flags & O_NONBLOCK);
	uint64_t deadline = deadline_of(s->rcv_timeout_ns);
	int waitall = (m->flags & MSG_WAITALL) && s->type == SOCK_STREAM && !(m->flags & MSG_PEEK);
	long done = 0, ret;

	for (;;) {
		ret = s->ops->recvmsg ? s->ops->recvmsg(s, t, m) : -EOPNOTSUPP;
		if (ret > 0) {
			done += ret;
			if (waitall && m->u->left && !m->scm)
				continue;
			break;
		}
		if (ret != -EAGAIN || nonblock)
			break;
		ret = task_wait_file(t, f, m->flags & MSG_OOB ? POLLPRI | POLLRDHUP : POLLIN, deadline);
		if (ret) {
			ret = wait_error(ret, s->rcv_timeout_ns);
			break;
		}
	}
	return done ? done : ret;
}

static long do_sendmsg(struct task *t, struct file *f, struct socket *s, const struct linux_msghdr *h,
		       uint32_t flags)
{
	struct sock_msg m = { .flags = flags };
	struct uio_user uu;
	int32_t namelen = h->name ? h->namelen : 0;
	long ret;

	if (namelen < 0)
		return -EINVAL;
	if (namelen > (int32_t)SOCKADDR_MAX)
		namelen = SOCKADDR_MAX;
	if (h->iovlen > 1024)
		return -EMSGSIZE;
	if (h->controllen > INT_MAX)
		return -ENOBUFS;
	ret = addr_from_user(t, &m.addr, h->name, namelen);
	if (ret)
		return ret;
	m.addrlen = (uint32_t)namelen;
	ret = uio_import_iovec(t, &uu, h->iov, h->iovlen);
	if (ret)
		return ret;
	m.u = &uu.u;
	sock_cred_of(t, &m.cred);
	ret = scm_import(t, s, &m, h->control, h->control ? h->controllen : 0);
	if (!ret)
		ret = send_loop(t, f, s, &m);
	scm_free(m.scm);
	sock_cred_put(&m.cred);
	uio_user_free(&uu);
	return ret;
}

/* Receives one message and fills the result fields of *h (not yet copied out). */
static long do_recvmsg(struct task *t, struct file *f, struct socket *s, struct linux_msghdr *h, uint32_t flags)
{
	struct sock_msg m = { .flags = flags };
	uint64_t control_used = 0;
	struct uio_user uu;
	long ret;

	if (h->namelen < 0)
		return -EINVAL;
	if (h->iovlen > 1024)
		return -EMSGSIZE;
	ret = uio_import_iovec(t, &uu, h->iov, h->iovlen);
	if (ret)
		return ret;
	m.u = &uu.u;
	ret = recv_loop(t, f, s, &m);
	if (ret >= 0) {
		int err = scm_export(t, s, &m, h->control, h->control ? h->controllen : 0, &control_used);

		if (!err && h->name) {
			uint32_t n = m.addrlen < (uint32_t)h->namelen ? m.addrlen : (uint32_t)h->namelen;

			if (n && copy_to_user(t, h->name, &m.addr, n))
				err = -EFAULT;
			h->namelen = (int32_t)m.addrlen;
		}
		h->controllen = control_used;
		h->flags = m.out_flags | (flags & MSG_CMSG_CLOEXEC);
		if (err)
			ret = err;
	}
	if (s->ops->msg_free)
		s->ops->msg_free(&m);
	scm_free(m.scm);
	sock_cred_put(&m.cred);
	uio_user_free(&uu);
	return ret;
}

SYSCALL_HANDLER(sendmsg)
{
	struct linux_msghdr h;
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = copy_from_user(t, &h, a->a[1], sizeof(h));

	if (!ret)
		ret = do_sendmsg(t, f, s, &h, (uint32_t)a->a[2]);
	file_put(f);
	return ret;
}

/* namelen, controllen and flags go back to the guest; the rest of its header is its own. */
static int put_msghdr(struct task *t, uint64_t at, const struct linux_msghdr *h)
{
	if (h->name && put_user_u32(t, at + offsetof(struct linux_msghdr, namelen), (uint32_t)h->namelen))
		return -EFAULT;
	if (put_user_u64(t, at + offsetof(struct linux_msghdr, controllen), h->controllen) ||
	    put_user_u32(t, at + offsetof(struct linux_msghdr, flags), h->flags))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(recvmsg)
{
	struct linux_msghdr h;
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = copy_from_user(t, &h, a->a[1], sizeof(h));

	if (!ret)
		ret = do_recvmsg(t, f, s, &h, (uint32_t)a->a[2]);
	if (ret >= 0 && put_msghdr(t, a->a[1], &h))
		ret = -EFAULT;
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(sendto)
{
	struct sock_msg m = { .flags = (uint32_t)a->a[3] };
	struct socket *s;
	struct uio u;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = uio_init_user(t, &u, a->a[1], a->a[2]);

	if (!ret && a->a[4]) {
		ret = addr_from_user(t, &m.addr, a->a[4], (int32_t)a->a[5]);
		m.addrlen = (uint32_t)a->a[5];
	}
	if (!ret) {
		m.u = &u;
		sock_cred_of(t, &m.cred);
		ret = send_loop(t, f, s, &m);
		sock_cred_put(&m.cred);
	}
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(recvfrom)
{
	struct sock_msg m = { .flags = (uint32_t)a->a[3] };
	struct socket *s;
	struct uio u;
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	long ret = uio_init_user(t, &u, a->a[1], a->a[2]);

	if (!ret) {
		m.u = &u;
		ret = recv_loop(t, f, s, &m);
	}
	if (ret >= 0 && a->a[4]) {
		int err = addr_to_user(t, &m.addr, m.addrlen, a->a[4], a->a[5]);

		if (err)
			ret = err;
	}
	if (s->ops->msg_free)
		s->ops->msg_free(&m);
	scm_free(m.scm);
	sock_cred_put(&m.cred);
	file_put(f);
	return ret;
}

SYSCALL_HANDLER(sendmmsg)
{
	uint32_t count = (uint32_t)a->a[2] > MMSG_MAX ? MMSG_MAX : (uint32_t)a->a[2], done = 0;
	struct linux_msghdr h;
	struct socket *s;
	struct file *f = socket_fd(t, (int)a->a[0], &s);
	long ret = 0;

	if (IS_ERR(f))
		return PTR_ERR(f);
	for (; done < count; done++) {
		uint64_t at = a->a[1] + (uint64_t)done * sizeof(struct linux_mmsghdr);

		ret = copy_from_user(t, &h, at, sizeof(h));
		if (!ret)
			ret = do_sendmsg(t, f, s, &h, (uint32_t)a->a[3]);
		if (ret < 0)
			break;
		if (put_user_u32(t, at + offsetof(struct linux_mmsghdr, len), (uint32_t)ret)) {
			ret = -EFAULT;
			break;
		}
	}
	file_put(f);
	return done ? (long)done : ret;
}

SYSCALL_HANDLER(recvmmsg)
{
	uint32_t count = (uint32_t)a->a[2] > MMSG_MAX ? MMSG_MAX : (uint32_t)a->a[2], done = 0;
	uint32_t flags = (uint32_t)a->a[3];
	uint64_t deadline = NO_DEADLINE;
	struct linux_timespec ts;
	struct linux_msghdr h;
	struct socket *s;
	long ret = 0;

	if (a->a[4]) {
		if (copy_from_user(t, &ts, a->a[4], sizeof(ts)))
			return -EFAULT;
		if (ts.sec < 0 || ts.nsec < 0 || ts.nsec >= 1000000000)
			return -EINVAL;
		if (ts.sec < 1000000000)
			deadline = mono_now_ns() + (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
	}
	struct file *f = socket_fd(t, (int)a->a[0], &s);

	if (IS_ERR(f))
		return PTR_ERR(f);
	while (done < count) {
		uint64_t at = a->a[1] + (uint64_t)done * sizeof(struct linux_mmsghdr);

		ret = copy_from_user(t, &h, at, sizeof(h));
		if (!ret)
			ret = do_recvmsg(t, f, s, &h, flags & ~(uint32_t)MSG_WAITFORONE);
		if (ret < 0)
			break;
		if (put_msghdr(t, at, &h) ||
		    put_user_u32(t, at + offsetof(struct linux_mmsghdr, len), (uint32_t)ret)) {
			ret = -EFAULT;
			break;
		}
		done++;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		/* Linux looks at the time-out after each message only. */
		if (mono_now_ns() >= deadline)
			break;
	}
	file_put(f);
	return done ? (long)done : ret;
}
