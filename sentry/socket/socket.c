/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets as open files, the family table, and the SOL_SOCKET options every family shares. What a
 * family does with its peers is in its own file.
 */
#include "sentry/socket/socket.h"

#include <asm/socket.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "platform/base/log.h"
#include "sentry/socket/inet_priv.h"

/* net.core.[rw]mem_default and _max of Linux. */
#define BUF_DEFAULT 212992
#define BUF_MAX 212992
#define RCVBUF_MIN 2304
#define SNDBUF_MIN 4608

static const struct socket_family *const g_families[] = {
	&g_unix_family, &g_inet_family, &g_inet6_family, &g_netlink_family, &g_packet_family,
};

void socket_init(struct socket *s, const struct socket_ops *ops, struct kernel *k, int family,
		 int type, int protocol)
{
	s->ops = ops;
	s->k = k;
	s->family = family;
	s->type = type;
	s->protocol = protocol;
	s->rcvbuf = s->sndbuf = BUF_DEFAULT;
	s->rcvlowat = 1;
	waitq_init(&s->wq);
	s->wait = &s->wq;
}

struct socket *socket_create(struct task *t, int family, int type, int protocol)
{
	if (family < 0 || family >= AF_MAX)
		return ERR_PTR(-EAFNOSUPPORT);
	if (type < 0 || type >= 11)
		return ERR_PTR(-EINVAL);
	for (size_t i = 0; i < sizeof(g_families) / sizeof(*g_families); i++)
		if (g_families[i] && g_families[i]->family == family)
			return g_families[i]->create(t->k, t, type, protocol);
	log_info("socket: family %d is not served", family);
	return ERR_PTR(-EAFNOSUPPORT);
}

/* ---- the file ---- */

static ssize_t sock_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct socket *s = f->priv;
	struct sock_msg m = { .u = u };

	(void)pos;
	if (!current)
		return -EINVAL;
	ssize_t n = s->ops->recvmsg(s, current, &m);

	if (s->ops->msg_free)
		s->ops->msg_free(&m);
	scm_free(m.scm); /* read(2) drops what recvmsg would have delivered */
	sock_cred_put(&m.cred);
	return n;
}

static ssize_t sock_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct socket *s = f->priv, *wait_on = NULL;
	struct sock_msg m = { .u = u };

	(void)pos;
	if (!current)
		return -EINVAL;
	sock_cred_of(current, &m.cred);
	ssize_t n = s->ops->sendmsg(s, current, &m, &wait_on);

	sock_cred_put(&m.cred);
	if (wait_on)
		wait_on->ops->put(wait_on);
	return n;
}

static uint32_t sock_poll(struct file *f, struct poll_table *pt)
{
	struct socket *s = f->priv;

	poll_wait(pt, s->wait);
	return s->ops->poll(s);
}

static long sock_ioctl(struct file *f, struct ioctl_req *r)
{
	struct socket *s = f->priv;

	long ret = s->ops->ioctl ? s->ops->ioctl(s, r) : -ENOIOCTLCMD;

	return ret == -ENOIOCTLCMD ? netdev_ioctl(s, r) : ret; /* any socket answers those */
}

static void sock_release(struct file *f)
{
	struct socket *s = f->priv;

	s->ops->release(s);
}

static void sock_fdinfo(struct file *f, struct strbuf *sb)
{
	(void)f, (void)sb;
}

static const struct file_ops g_socket_fops = {
	.read = sock_read,
	.write = sock_write,
	.poll = sock_poll,
	.ioctl = sock_ioctl,
	.release = sock_release,
	.show_fdinfo = sock_fdinfo,
};

struct file *socket_file(struct task *t, struct socket *s, int type_flags)
{
	struct file *f = file_new_anon(t->k->vfs, "socket:[%ino]", &g_socket_fops, s,
				       O_RDWR | (type_flags & SOCK_NONBLOCK ? O_NONBLOCK : 0),
				       FMODE_READ | FMODE_WRITE | FMODE_STREAM, task_cred(t));

	if (!IS_ERR(f)) {
		s->file = f;
		f->inode->mode = S_IFSOCK | 0777; /* not yet visible to anybody */
		if (s->ops->attached)
			s->ops->attached(s);
	}
	return f;
}

struct socket *file_socket(struct file *f)
{
	return f->ops == &g_socket_fops ? f->priv : NULL;
}

/* ---- SOL_SOCKET options ---- */

/* Plain int options that are only stored: value = offset in struct socket. */
static const struct {
	int opt;
	size_t offset;
	int is_flag;
} g_int_options[] = {
	{ SO_REUSEADDR, offsetof(struct socket, reuseaddr), 1 },
	{ SO_REUSEPORT, offsetof(struct socket, reuseport), 1 },
	{ SO_KEEPALIVE, offsetof(struct socket, keepalive), 1 },
	{ SO_BROADCAST, offsetof(struct socket, broadcast), 1 },
	{ SO_OOBINLINE, offsetof(struct socket, oobinline), 1 },
	{ SO_DONTROUTE, offsetof(struct socket, dontroute), 1 },
	{ SO_TIMESTAMP, offsetof(struct socket, timestamp), 1 },
	{ SO_NO_CHECK, offsetof(struct socket, no_check), 1 },
	{ SO_PASSCRED, offsetof(struct socket, passcred), 1 },
	{ SO_PRIORITY, offsetof(struct socket, priority), 0 },
	{ SO_BUSY_POLL, offsetof(struct socket, busy_poll), 0 },
};

static int timeout_from(const void *val, uint32_t len, uint64_t *ns)
{
	struct timeval tv;

	if (len < sizeof(tv))
		return -EINVAL;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	if (tv.tv_sec < 0)
		*ns = 1; /* Linux: a negative time-out is one that has passed */
	else if (tv.tv_sec > 9000000000ll)
		*ns = 0;
	else
		*ns = (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000u;
	return 0;
}

static int clamp_buf(int v, int min, int force)
{
	if (!force && v > BUF_MAX)
		v = BUF_MAX;
	if (v < 0 || v > (1 << 30) / 2)
		v = force ? (1 << 30) / 2 : BUF_MAX;
	v *= 2; /* Linux doubles the value for its own overhead, and shows it doubled */
	return v < min ? min : v;
}

static int set_generic(struct socket *s, struct task *t, int opt, const void *val, uint32_t len);

int socket_setsockopt(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len)
{
	if (level != SOL_SOCKET)
		return s->ops->setsockopt ? s->ops->setsockopt(s, t, level, opt, val, len) : -ENOPROTOOPT;
	int err = set_generic(s, t, opt, val, len);

	if (err != -ENOPROTOOPT) {
		if (!err && s->ops->option)
			s->ops->option(s, opt == SO_SNDBUFFORCE ? SO_SNDBUF : opt == SO_RCVBUFFORCE ? SO_RCVBUF : opt);
		return err;
	}
	switch (opt) { /* to be read only */
	case SO_TYPE:
	case SO_PROTOCOL:
	case SO_DOMAIN:
	case SO_ERROR:
	case SO_SNDLOWAT:
	case SO_ACCEPTCONN:
		return -ENOPROTOOPT;
	}
	return s->ops->setsockopt ? s->ops->setsockopt(s, t, level, opt, val, len) : -ENOPROTOOPT;
}

static int set_generic(struct socket *s, struct task *t, int opt, const void *val, uint32_t len)
{
	int v = 0;

	switch (opt) {
	case SO_RCVTIMEO:
		return timeout_from(val, len, &s->rcv_timeout_ns);
	case SO_SNDTIMEO:
		return timeout_from(val, len, &s->snd_timeout_ns);
	case SO_LINGER:
		if (len < sizeof(struct linger))
			return -EINVAL;
		memcpy(&s->linger, val, sizeof(struct linger));
		return 0;
	}
	if (opt == SO_BINDTODEVICE)
		return -ENOPROTOOPT; /* a name, however short */
	if (len < sizeof(int))
		return -EINVAL;
	memcpy(&v, val, sizeof(int));
	for (size_t i = 0; i < sizeof(g_int_options) / sizeof(*g_int_options); i++)
		if (g_int_options[i].opt == opt) {
			int *field = (int *)((char *)s + g_int_options[i].offset);

			if (opt == SO_PRIORITY && (v < 0 || v > 6) && !cred_has_cap(task_cred(t), CAP_NET_ADMIN))
				return -EPERM;
			*field = g_int_options[i].is_flag ? v != 0 : v;
			return 0;
		}
	switch (opt) {
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
	case SO_RCVBUF:
	case SO_RCVBUFFORCE: {
		int force = opt == SO_SNDBUFFORCE || opt == SO_RCVBUFFORCE;

		if (force && !cred_has_cap(task_cred(t), CAP_NET_ADMIN))
			return -EPERM;
		if (opt == SO_SNDBUF || opt == SO_SNDBUFFORCE)
			s->sndbuf = clamp_buf(v, SNDBUF_MIN, force);
		else
			s->rcvbuf = clamp_buf(v, RCVBUF_MIN, force);
		waitq_wake(s->wait, POLLOUT | POLLWRNORM);
		return 0;
	}
	case SO_RCVLOWAT:
		s->rcvlowat = v <= 0 ? 1 : v;
		return 0;
	case SO_MARK:
		if (!cred_has_cap(task_cred(t), CAP_NET_ADMIN))
			return -EPERM;
		s->mark = v;
		return 0;
	case SO_DEBUG:
		return v && !cred_has_cap(task_cred(t), CAP_NET_ADMIN) ? -EACCES : 0;
	}
	return -ENOPROTOOPT;
}

static int give(void *val, uint32_t *len, const void *from, uint32_t size)
{
	if (*len > size)
		*len = size;
	memcpy(val, from, *len);
	return 0;
}

int socket_getsockopt(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len)
{
	struct timeval tv = { 0 };
	int v = 0;

	if (level != SOL_SOCKET)
		return s->ops->getsockopt ? s->ops->getsockopt(s, t, level, opt, val, len) : -ENOPROTOOPT;
	for (size_t i = 0; i < sizeof(g_int_options) / sizeof(*g_int_options); i++)
		if (g_int_options[i].opt == opt)
			return give(val, len, (char *)s + g_int_options[i].offset, sizeof(int));
	switch (opt) {
	case SO_TYPE:
		v = s->type;
		break;
	case SO_PROTOCOL:
		v = s->protocol;
		break;
	case SO_DOMAIN:
		v = s->family;
		break;
	case SO_ERROR:
		v = s->take_error ? s->take_error(s) : -__atomic_exchange_n(&s->error, 0, __ATOMIC_RELAXED);
		break;
	case SO_ACCEPTCONN:
		v = s->listening;
		break;
	case SO_SNDBUF:
		v = s->sndbuf;
		break;
	case SO_RCVBUF:
		v = s->rcvbuf;
		break;
	case SO_RCVLOWAT:
		v = s->rcvlowat;
		break;
	case SO_SNDLOWAT:
		v = 1;
		break;
	case SO_MARK:
		v = s->mark;
		break;
	case SO_DEBUG:
		break;
	case SO_LINGER:
		return give(val, len, &s->linger, sizeof(s->linger));
	case SO_RCVTIMEO:
	case SO_SNDTIMEO: {
		uint64_t ns = opt == SO_RCVTIMEO ? s->rcv_timeout_ns : s->snd_timeout_ns;

		tv.tv_sec = (time_t)(ns / 1000000000u);
		tv.tv_usec = (suseconds_t)(ns % 1000000000u / 1000u);
		return give(val, len, &tv, sizeof(tv));
	}
	default:
		return s->ops->getsockopt ? s->ops->getsockopt(s, t, level, opt, val, len) : -ENOPROTOOPT;
	}
	return give(val, len, &v, sizeof(v));
}
