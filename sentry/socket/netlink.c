/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_NETLINK (netlink(7)): a request written by a program is answered at once into its receive
 * queue. NETLINK_ROUTE is in netlink_route.c, NETLINK_SOCK_DIAG in netlink_diag.c;
 * NETLINK_KOBJECT_UEVENT can be listened to and stays silent.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"
#include "sentry/socket/inet_priv.h"
#include "sentry/socket/netlink_priv.h"

#define PIECE_MAX 16384u   /* a reader's buffer is at least this long (libnetlink: 32 KiB) */
#define REPLY_MAX (4u << 20)
#define REQUEST_MAX 65536u
#define GROUPS_MAX 32

struct nl_msg {
	struct list_head node;
	uint32_t len;
	char data[];
};

struct nl_sock {
	struct socket s;
	struct lock lock;	/* RANK_SOCKET */
	uint32_t portid;	/* [lock] 0: not bound yet */
	uint32_t groups;	/* [lock] */
	uint32_t dst_portid;	/* [lock] connect(2) */
	int connected;
	struct list_head rq;	/* [lock] nl_msg.node */
	size_t rq_bytes;	/* [lock] */
	int overrun;		/* [lock] a message was dropped: ENOBUFS once */
	uint8_t cap_ack, ext_ack, strict, pktinfo, no_enobufs;
};

static struct nl_sock *nl_of(struct socket *s)
{
	return container_of(s, struct nl_sock, s);
}

static const struct socket_ops g_netlink_ops;

static struct socket *create(struct kernel *k, struct task *t, int type, int protocol)
{
	(void)t;
	if (type != SOCK_RAW && type != SOCK_DGRAM)
		return ERR_PTR(-ESOCKTNOSUPPORT);
	if (protocol != NETLINK_ROUTE && protocol != NETLINK_SOCK_DIAG && protocol != NETLINK_KOBJECT_UEVENT) {
		log_info("netlink: protocol %d is not served", protocol);
		return ERR_PTR(-EPROTONOSUPPORT);
	}
	struct nl_sock *n = calloc(1, sizeof(*n));

	if (!n)
		return ERR_PTR(-ENOMEM);
	socket_init(&n->s, &g_netlink_ops, k, AF_NETLINK, type, protocol);
	lock_init(&n->lock, RANK_SOCKET);
	list_init(&n->rq);
	return &n->s;
}

const struct socket_family g_netlink_family = { AF_NETLINK, create };

/* Port ids: the process's pid first, as Linux chooses, else a number nobody else has. */
static void autobind(struct nl_sock *n, struct task *t)
{
	static uint32_t next = 0xfffff000u, pids_used;
	uint32_t pid = (uint32_t)task_tgid(t);

	lock_assert_held(&n->lock);
	if (n->portid)
		return;
	/* One netlink socket of a process may have its pid; ids only have to differ. */
	if (__atomic_exchange_n(&pids_used, pid, __ATOMIC_RELAXED) - pid)
		n->portid = pid;
	else
		n->portid = __atomic_fetch_sub(&next, 1, __ATOMIC_RELAXED);
}

static int op_bind(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t len)
{
	const struct sockaddr_nl *nl = (const void *)a;
	struct nl_sock *n = nl_of(s);
	int err = 0;

	if (len < sizeof(*nl) || nl->nl_family != AF_NETLINK)
		return -EINVAL;
	lock_acquire(&n->lock);
	if (n->portid && nl->nl_pid != n->portid && nl->nl_pid)
		err = -EINVAL;
	else if (nl->nl_pid && !n->portid)
		n->portid = nl->nl_pid;
	else
		autobind(n, t);
	if (!err)
		n->groups = nl->nl_groups;
	lock_release(&n->lock);
	return err;
}

static int op_connect(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t len,
		      struct socket **wait_on)
{
	const struct sockaddr_nl *nl = (const void *)a;
	struct nl_sock *n = nl_of(s);

	(void)wait_on;
	if (len < sizeof(sa_family_t))
		return -EINVAL;
	if (a->ss_family == AF_UNSPEC) {
		n->connected = 0;
		n->dst_portid = 0;
		return 0;
	}
	if (a->ss_family != AF_NETLINK || len < sizeof(*nl))
		return -EINVAL;
	if (nl->nl_pid)
		return -ECONNREFUSED; /* only the kernel listens here */
	lock_acquire(&n->lock);
	autobind(n, t);
	n->connected = 1;
	lock_release(&n->lock);
	return 0;
}

static int op_getname(struct socket *s, int peer, struct sockaddr_storage *a, uint32_t *len)
{
	struct sockaddr_nl *nl = (void *)a;
	struct nl_sock *n = nl_of(s);

	nl->nl_family = AF_NETLINK;
	nl->nl_pad = 0;
	nl->nl_pid = peer ? n->dst_portid : n->portid;
	nl->nl_groups = peer ? 0 : n->groups;
	*len = sizeof(*nl);
	return 0;
}

/* ---- building answers ---- */

static int reserve(struct nl_reply *r, uint32_t n)
{
	if (r->err)
		return 0;
	if (r->len + n > r->cap) {
		uint32_t cap = r->cap ? r->cap * 2 : 8192;

		while (cap < r->len + n)
			cap *= 2;
		char *d = cap <= REPLY_MAX ? realloc(r->data, cap) : NULL;

		if (!d) {
			r->err = -ENOMEM;
			return 0;
		}
		r->data = d;
		r->cap = cap;
	}
	memset(r->data + r->len, 0, n);
	return 1;
}

void *nl_begin(struct nl_reply *r, uint16_t type, uint16_t flags, uint32_t n)
{
	static char nowhere[256];
	struct nlmsghdr *h;

	r->msg = r->len;
	if (!reserve(r, NLMSG_SPACE(n)))
		return nowhere; /* the answer is lost anyway; writes go where nobody reads */
	h = (void *)(r->data + r->len);
	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(flags | (r->dump ? NLM_F_MULTI : 0));
	h->nlmsg_seq = r->seq;
	h->nlmsg_pid = r->portid;
	r->len += NLMSG_SPACE(n);
	return r->data + r->msg + NLMSG_HDRLEN;
}

void nl_attr(struct nl_reply *r, uint16_t type, const void *data, uint32_t n)
{
	struct nlattr a = { .nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type };

	if (!reserve(r, NLA_ALIGN(a.nla_len)))
		return;
	memcpy(r->data + r->len, &a, sizeof(a));
	if (n)
		memcpy(r->data + r->len + NLA_HDRLEN, data, n);
	r->len += NLA_ALIGN(a.nla_len);
}

void nl_attr_u32(struct nl_reply *r, uint16_t type, uint32_t v)
{
	nl_attr(r, type, &v, sizeof(v));
}

void nl_attr_u8(struct nl_reply *r, uint16_t type, uint8_t v)
{
	nl_attr(r, type, &v, sizeof(v));
}

void nl_attr_str(struct nl_reply *r, uint16_t type, const char *s)
{
	nl_attr(r, type, s, (uint32_t)strlen(s) + 1);
}

void nl_end(struct nl_reply *r)
{
	if (r->err)
		return;
	((struct nlmsghdr *)(void *)(r->data + r->msg))->nlmsg_len = r->len - r->msg;
	/* The last message goes to the next datagram when this one grew too long. */
	if (r->len - r->piece > PIECE_MAX && r->msg > r->piece && r->cut_count < 255) {
		r->cuts[r->cut_count++] = r->msg;
		r->piece = r->msg;
	}
}

const void *nl_find(const struct nlmsghdr *h, uint32_t hdr, uint16_t type, uint32_t min, uint32_t *len)
{
	uint32_t at = (uint32_t)NLMSG_HDRLEN + NLMSG_ALIGN(hdr);

	while (at + (uint32_t)NLA_HDRLEN <= h->nlmsg_len) {
		struct nlattr a;

		memcpy(&a, (const char *)h + at, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > h->nlmsg_len - at)
			return NULL;
		if ((a.nla_type & NLA_TYPE_MASK) == type && (uint32_t)a.nla_len - (uint32_t)NLA_HDRLEN >= min) {
			if (len)
				*len = a.nla_len - NLA_HDRLEN;
			return (const char *)h + at + NLA_HDRLEN;
		}
		at += NLA_ALIGN(a.nla_len);
	}
	return NULL;
}

/* ---- requests ---- */

static void queue_one(struct nl_sock *n, const char *data, uint32_t len)
{
	struct nl_msg *m;

	if (n->rq_bytes + len > (size_t)n->s.rcvbuf && n->rq_bytes) {
		n->overrun = 1;
		return;
	}
	m = malloc(sizeof(*m) + len);
	if (!m) {
		n->overrun = 1;
		return;
	}
	m->len = len;
	memcpy(m->data, data, len);
	list_add_tail(&m->node, &n->rq);
	n->rq_bytes += len;
}

static void put_error(struct nl_reply *r, const struct nlmsghdr *h, int err, int whole)
{
	uint32_t n = err && whole ? h->nlmsg_len - NLMSG_HDRLEN : 0;
	int dump = r->dump;

	r->dump = 0;
	struct nlmsgerr *e = nl_begin(r, NLMSG_ERROR, (uint16_t)(whole ? 0 : NLM_F_CAPPED), (uint32_t)sizeof(*e) + n);

	if (!r->err) {
		e->error = err;
		memcpy(&e->msg, h, sizeof(*h) + n);
	}
	nl_end(r);
	r->dump = dump;
}

static void serve(struct nl_sock *n, struct task *t, const struct nlmsghdr *h)
{
	struct nl_reply r = { .seq = h->nlmsg_seq, .portid = n->portid };
	struct nl_req q = { .s = &n->s, .t = t, .h = h, .r = &r };
	int err;

	/* Control messages and answers are not requests. */
	if (h->nlmsg_type < NLMSG_MIN_TYPE || !(h->nlmsg_flags & NLM_F_REQUEST)) {
		if (!(h->nlmsg_flags & NLM_F_ACK))
			return;
		err = 0;
	} else {
		r.dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP &&
			 (n->s.protocol == NETLINK_SOCK_DIAG || (h->nlmsg_type & 3) == 2);
		err = n->s.protocol == NETLINK_ROUTE	 ? rtnl_request(&q) :
		      n->s.protocol == NETLINK_SOCK_DIAG ? diag_request(&q) :
							   -ECONNREFUSED;
	}
	if (r.err)
		err = r.err;
	if (err) {
		r.len = r.piece = r.cut_count = 0;
		r.err = 0;
		put_error(&r, h, err, !n->cap_ack);
	} else if (r.dump) {
		int *done = nl_begin(&r, NLMSG_DONE, 0, sizeof(int));

		*done = 0;
		nl_end(&r);
	} else if (h->nlmsg_flags & NLM_F_ACK) {
		put_error(&r, h, 0, 0);
	}
	if (r.err) {
		n->overrun = 1;
	} else {
		uint32_t from = 0;

		lock_acquire(&n->lock);
		for (uint32_t i = 0; i <= r.cut_count; i++) {
			uint32_t to = i < r.cut_count ? r.cuts[i] : r.len;

			if (to > from)
				queue_one(n, r.data + from, to - from);
			from = to;
		}
		lock_release(&n->lock);
	}
	free(r.data);
}

static ssize_t op_sendmsg(struct socket *s, struct task *t, struct sock_msg *m, struct socket **wait_on)
{
	const struct sockaddr_nl *nl = (const void *)&m->addr;
	struct nl_sock *n = nl_of(s);
	size_t len = m->u->left;

	(void)wait_on;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (m->addrlen) {
		if (m->addrlen < sizeof(*nl) || nl->nl_family != AF_NETLINK)
			return -EINVAL;
		if (nl->nl_groups && !cred_has_cap(task_cred(t), CAP_NET_ADMIN))
			return -EPERM;
		if (nl->nl_pid)
			return -ECONNREFUSED;
	}
	if (len > REQUEST_MAX || len > (size_t)s->sndbuf)
		return -EMSGSIZE;
	char *buf = malloc(len + NLMSG_HDRLEN);

	if (!buf)
		return -ENOBUFS;
	ssize_t got = uio_copy_in(m->u, buf, len);

	if (got < 0 || (size_t)got < len) {
		free(buf);
		return got < 0 ? got : -EFAULT;
	}
	lock_acquire(&n->lock);
	autobind(n, t);
	lock_release(&n->lock);
	for (size_t at = 0; len - at >= NLMSG_HDRLEN;) {
		const struct nlmsghdr *h = (void *)(buf + at);

		if (h->nlmsg_len < NLMSG_HDRLEN || h->nlmsg_len > len - at)
			break;
		serve(n, t, h);
		if (NLMSG_ALIGN(h->nlmsg_len) >= len - at)
			break;
		at += NLMSG_ALIGN(h->nlmsg_len);
	}
	free(buf);
	waitq_wake(s->wait, POLLIN | POLLRDNORM);
	return got;
}

static ssize_t op_recvmsg(struct socket *s, struct task *t, struct sock_msg *m)
{
	struct nl_sock *n = nl_of(s);
	struct sockaddr_nl *nl = (void *)&m->addr;
	struct nl_msg *msg;
	ssize_t ret;

	(void)t;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	lock_acquire(&n->lock);
	if (list_empty(&n->rq)) {
		ret = n->overrun && !n->no_enobufs ? -ENOBUFS : -EAGAIN;
		n->overrun = 0;
		lock_release(&n->lock);
		return ret;
	}
	msg = list_first(&n->rq, struct nl_msg, node);
	if (m->flags & MSG_PEEK) {
		struct nl_msg *copy = malloc(sizeof(*copy) + msg->len);

		if (copy) {
			memcpy(copy, msg, sizeof(*copy) + msg->len);
			list_init(&copy->node);
		}
		msg = copy;
	} else {
		list_del(&msg->node);
		n->rq_bytes -= msg->len;
	}
	lock_release(&n->lock);
	if (!msg)
		return -ENOBUFS;
	size_t take = msg->len < m->u->left ? msg->len : m->u->left;

	ret = uio_copy_out(m->u, msg->data, take);
	if (take < msg->len)
		m->out_flags |= MSG_TRUNC;
	if (ret >= 0 && (m->flags & MSG_TRUNC))
		ret = (ssize_t)msg->len;
	free(msg);
	memset(nl, 0, sizeof(*nl));
	nl->nl_family = AF_NETLINK;
	m->addrlen = sizeof(*nl);
	return ret;
}

static uint32_t op_poll(struct socket *s)
{
	struct nl_sock *n = nl_of(s);
	uint32_t m = POLLOUT | POLLWRNORM | POLLWRBAND;

	lock_acquire(&n->lock);
	if (!list_empty(&n->rq))
		m |= POLLIN | POLLRDNORM;
	if (n->overrun && !n->no_enobufs)
		m |= POLLERR;
	lock_release(&n->lock);
	return m;
}

static int op_setsockopt(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len)
{
	struct nl_sock *n = nl_of(s);
	uint32_t v = 0;

	(void)t;
	if (level == SOL_SOCKET)
		return opt == SO_ATTACH_FILTER || opt == SO_DETACH_FILTER ? 0 : -ENOPROTOOPT; /* nothing is sent unasked */
	if (level != SOL_NETLINK)
		return -ENOPROTOOPT;
	if (len >= sizeof(v))
		memcpy(&v, val, sizeof(v));
	switch (opt) {
	case NETLINK_ADD_MEMBERSHIP:
	case NETLINK_DROP_MEMBERSHIP:
		if (!v || v > GROUPS_MAX)
			return -EINVAL;
		lock_acquire(&n->lock);
		if (opt == NETLINK_ADD_MEMBERSHIP)
			n->groups |= 1u << (v - 1);
		else
			n->groups &= ~(1u << (v - 1));
		lock_release(&n->lock);
		return 0;
	case NETLINK_PKTINFO:
		n->pktinfo = v != 0;
		return 0;
	case NETLINK_NO_ENOBUFS:
		n->no_enobufs = v != 0;
		return 0;
	case NETLINK_BROADCAST_ERROR:
		return 0;
	case NETLINK_CAP_ACK:
		n->cap_ack = v != 0;
		return 0;
	case NETLINK_EXT_ACK:
		n->ext_ack = v != 0;
		return 0;
	case NETLINK_GET_STRICT_CHK:
		n->strict = v != 0;
		return 0;
	}
	return -ENOPROTOOPT;
}

static int op_getsockopt(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len)
{
	struct nl_sock *n = nl_of(s);
	int v;

	(void)t;
	if (level != SOL_NETLINK)
		return -ENOPROTOOPT;
	switch (opt) {
	case NETLINK_PKTINFO:
		v = n->pktinfo;
		break;
	case NETLINK_NO_ENOBUFS:
		v = n->no_enobufs;
		break;
	case NETLINK_CAP_ACK:
		v = n->cap_ack;
		break;
	case NETLINK_EXT_ACK:
		v = n->ext_ack;
		break;
	case NETLINK_GET_STRICT_CHK:
		v = n->strict;
		break;
	case NETLINK_LIST_MEMBERSHIPS:
		v = (int)n->groups;
		break;
	default:
		return -ENOPROTOOPT;
	}
	if (*len < sizeof(v))
		return -EINVAL;
	*len = sizeof(v);
	memcpy(val, &v, sizeof(v));
	return 0;
}

static long op_ioctl(struct socket *s, struct ioctl_req *r)
{
	struct nl_sock *n = nl_of(s);
	int v = 0;

	if (r->cmd == FIONREAD) {
		lock_acquire(&n->lock);
		if (!list_empty(&n->rq))
			v = (int)list_first(&n->rq, struct nl_msg, node)->len;
		lock_release(&n->lock);
		return r->copy_out(r, r->arg, &v, sizeof(v));
	}
	return -ENOIOCTLCMD;
}

static void op_release(struct socket *s)
{
	struct nl_sock *n = nl_of(s);

	while (!list_empty(&n->rq)) {
		struct nl_msg *m = list_first(&n->rq, struct nl_msg, node);

		list_del(&m->node);
		free(m);
	}
	lock_destroy(&n->lock);
	waitq_destroy(&s->wq);
	free(n);
}

static const struct socket_ops g_netlink_ops = {
	.bind = op_bind,
	.connect = op_connect,
	.getname = op_getname,
	.sendmsg = op_sendmsg,
	.recvmsg = op_recvmsg,
	.poll = op_poll,
	.setsockopt = op_setsockopt,
	.getsockopt = op_getsockopt,
	.ioctl = op_ioctl,
	.release = op_release,
};
