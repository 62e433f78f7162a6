/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_INET and AF_INET6: the adapter between the socket layer and the netstack. Addresses of both
 * families become ip_addr; errno and their order are those of tcp(7), udp(7), raw(7), ip(7), ipv6(7).
 */
#include "sentry/socket/inet_priv.h"

#include <stdlib.h>
#include <string.h>

#include "netstack/pkt.h"
#include "sentry/egress/egress.h"
#include "vfs/vfs.h"

#define SIN6_LEN_MIN 24 /* RFC 2133's sockaddr_in6 has no scope id */

static const struct socket_ops g_inet_ops;

static int take_error(struct socket *s)
{
	return endpoint_take_error(inet_of(s)->ep);
}

static struct inet_sock *wrap(struct kernel *k, int family, int type, int protocol, struct endpoint *ep)
{
	struct inet_sock *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	socket_init(&i->s, &g_inet_ops, k, family, type, protocol);
	i->s.take_error = take_error;
	i->s.wait = &ep->wq;
	i->s.rcvbuf = ep->o.rcvbuf;
	i->s.sndbuf = ep->o.sndbuf;
	i->ep = ep;
	lock_init(&i->io_lock, RANK_SOCKET_IO);
	strcpy(i->cc, "cubic");
	return i;
}

/* Type and protocol pairs, as inetsw has them. */
static int kind_of(struct task *t, int family, int type, int *protocol, enum ep_kind *kind)
{
	int icmp = family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;

	switch (type) {
	case SOCK_STREAM:
		if (*protocol && *protocol != IPPROTO_TCP)
			return -EPROTONOSUPPORT;
		*protocol = IPPROTO_TCP;
		*kind = EP_TCP;
		return 0;
	case SOCK_DGRAM:
		if (*protocol == icmp) {
			const struct stack_sysctl *c = stack_sysctl(t->k->sockets->stack);
			uint32_t gid = task_cred(t)->egid;

			if ((gid < c->ping_min || gid > c->ping_max) && !cred_has_cap(task_cred(t), CAP_NET_RAW))
				return -EACCES;
			*kind = EP_PING;
			return 0;
		}
		if (*protocol == IPPROTO_UDPLITE) {
			*kind = EP_UDPLITE;
			return 0;
		}
		if (*protocol && *protocol != IPPROTO_UDP)
			return -EPROTONOSUPPORT;
		*protocol = IPPROTO_UDP;
		*kind = EP_UDP;
		return 0;
	case SOCK_RAW:
		if (*protocol < 0 || *protocol > 255)
			return -EINVAL;
		if (!*protocol)
			return -EPROTONOSUPPORT;
		if (!cred_has_cap(task_cred(t), CAP_NET_RAW))
			return -EPERM;
		*kind = EP_RAW;
		return 0;
	}
	return -ESOCKTNOSUPPORT;
}

static struct socket *create(struct kernel *k, struct task *t, int family, int type, int protocol)
{
	enum ep_kind kind;

	if (protocol < 0 || protocol >= 263) /* IPPROTO_MAX, MPTCP included */
		return ERR_PTR(-EINVAL);
	int err = kind_of(t, family, type, &protocol, &kind);

	if (err)
		return ERR_PTR(err);
	struct endpoint *ep = endpoint_new(k->sockets->stack, kind, family == AF_INET6, (uint8_t)protocol);

	if (!ep)
		return ERR_PTR(-ENOBUFS);
	ep->o.uid = task_cred(t)->euid;
	if (kind == EP_RAW && protocol == IPPROTO_RAW)
		ep->o.hdrincl = 1;
	struct inet_sock *i = wrap(k, family, type, protocol, ep);

	if (!i) {
		endpoint_close(ep);
		return ERR_PTR(-ENOBUFS);
	}
	return &i->s;
}

static struct socket *create4(struct kernel *k, struct task *t, int type, int protocol)
{
	return create(k, t, AF_INET, type, protocol);
}

static struct socket *create6(struct kernel *k, struct task *t, int type, int protocol)
{
	return create(k, t, AF_INET6, type, protocol);
}

/* ---- addresses ---- */

int inet_addr_in(struct socket *s, const struct sockaddr_storage *a, uint32_t len, struct ip_addr *ip,
		 uint16_t *port, uint32_t *nic)
{
	const struct sockaddr_in *in = (const void *)a;
	const struct sockaddr_in6 *in6 = (const void *)a;

	*nic = 0;
	if (s->family == AF_INET) {
		if (len < sizeof(*in))
			return -EINVAL;
		*ip = ip_from_v4(in->sin_addr.s_addr);
		*port = ntohs(in->sin_port);
		return 0;
	}
	if (len < SIN6_LEN_MIN)
		return -EINVAL;
	*ip = ip_from_v6(&in6->sin6_addr);
	*port = ntohs(in6->sin6_port);
	if (ip_is_linklocal6(ip) && len >= sizeof(*in6))
		*nic = in6->sin6_scope_id;
	return 0;
}

void inet_addr_out(int family, const struct ip_addr *ip, uint16_t port, uint32_t nic,
		   struct sockaddr_storage *a, uint32_t *len)
{
	struct sockaddr_in *in = (void *)a;
	struct sockaddr_in6 *in6 = (void *)a;

	memset(a, 0, sizeof(*a));
	if (family == AF_INET) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr.s_addr = ip_is_v4(ip) ? ip->w[3] : 0;
		*len = sizeof(*in);
		return;
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, ip->b, 16);
	if (ip_is_linklocal6(ip))
		in6->sin6_scope_id = nic;
	*len = sizeof(*in6);
}

static int op_bind(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t len)
{
	struct inet_sock *i = inet_of(s);
	struct ip_addr ip;
	uint16_t port;
	uint32_t nic;
	int err;

	if (s->family == AF_INET) {
		if (len < sizeof(struct sockaddr_in))
			return -EINVAL;
		if (a->ss_family != AF_INET &&
		    !(a->ss_family == AF_UNSPEC && !((const struct sockaddr_in *)a)->sin_addr.s_addr))
			return -EAFNOSUPPORT;
	} else {
		if (len < SIN6_LEN_MIN)
			return -EINVAL;
		if (a->ss_family != AF_INET6)
			return -EAFNOSUPPORT;
	}
	err = inet_addr_in(s, a, len, &ip, &port, &nic);
	if (err)
		return err;
	if (s->family == AF_INET6 && ip_is_v4(&ip) && i->ep->o.v6only)
		return -EINVAL;
	if (nic) {
		stack_lock(inet_stack(s));
		err = nic_find(inet_stack(s), nic) ? 0 : -ENODEV;
		if (!err)
			i->ep->o.nic = nic;
		stack_unlock(inet_stack(s));
		if (err)
			return err;
	} else if (s->family == AF_INET6 && ip_is_linklocal6(&ip) && !i->ep->o.nic) {
		return -EINVAL;
	}
	if (port && port < stack_sysctl(inet_stack(s))->unprivileged_port && s->type != SOCK_RAW &&
	    !cred_has_cap(task_cred(t), CAP_NET_BIND_SERVICE))
		return -EACCES;
	return endpoint_bind(i->ep, &ip, port);
}

/* The address is good: the policy's turn, then the protocol's. */
static int connect_to(struct inet_sock *i, struct task *t, const struct ip_addr *ip, uint16_t port)
{
	struct egress *e = i->s.k->sockets->egress;
	int err = egress_connect(e, t, i->ep, ip, port);

	egress_label(e, t, i->ep);
	return err ? err : endpoint_connect(i->ep, ip, port);
}

static int op_connect(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t len,
		      struct socket **wait_on)
{
	struct inet_sock *i = inet_of(s);
	struct ip_addr ip;
	uint16_t port;
	uint32_t nic;

	(void)wait_on;
	if (len < sizeof(sa_family_t))
		return -EINVAL;
	if (a->ss_family == AF_UNSPEC)
		return endpoint_disconnect(i->ep);
	if (len < (s->family == AF_INET ? sizeof(struct sockaddr_in) : SIN6_LEN_MIN))
		return -EINVAL;
	/* A UDP socket of AF_INET6 may be connected to an AF_INET address (RFC 3493 came later). */
	if (a->ss_family == AF_INET && s->family == AF_INET6 && s->type == SOCK_DGRAM) {
		if (i->ep->o.v6only)
			return -EAFNOSUPPORT;
		ip = ip_from_v4(((const struct sockaddr_in *)a)->sin_addr.s_addr);
		port = ntohs(((const struct sockaddr_in *)a)->sin_port);
		return connect_to(i, t, &ip, port);
	}
	if (a->ss_family != s->family)
		return -EAFNOSUPPORT;
	int err = inet_addr_in(s, a, len, &ip, &port, &nic);

	if (err)
		return err;
	if (s->family == AF_INET6 && ip_is_v4(&ip) && i->ep->o.v6only)
		return -ENETUNREACH;
	if (s->family == AF_INET6 && ip_is_linklocal6(&ip)) {
		if (!nic && !i->ep->o.nic)
			return -EINVAL;
		if (nic && i->ep->o.nic && i->ep->o.nic != nic)
			return -EINVAL;
		if (nic)
			i->ep->o.nic = nic;
	}
	return connect_to(i, t, &ip, port);
}

static int op_listen(struct socket *s, struct task *t, int backlog)
{
	(void)t;
	int err = endpoint_listen(inet_of(s)->ep, backlog);

	if (!err)
		s->listening = 1;
	return err;
}

static struct socket *op_accept(struct socket *s, struct task *t)
{
	struct inet_sock *parent = inet_of(s), *i;
	struct endpoint *ep = endpoint_accept(parent->ep);

	if (IS_ERR(ep))
		return ERR_PTR(PTR_ERR(ep));
	i = wrap(s->k, s->family, s->type, s->protocol, ep);
	if (!i) {
		endpoint_close(ep);
		return ERR_PTR(-ENOBUFS);
	}
	egress_label(s->k->sockets->egress, t, ep);
	i->want = parent->want;
	memcpy(i->cc, parent->cc, sizeof(i->cc));
	i->s.reuseaddr = s->reuseaddr;
	i->s.reuseport = s->reuseport;
	i->s.keepalive = s->keepalive;
	i->s.broadcast = s->broadcast;
	i->s.oobinline = s->oobinline;
	i->s.linger = s->linger;
	i->s.priority = s->priority;
	i->s.mark = s->mark;
	i->s.rcvlowat = s->rcvlowat;
	i->s.timestamp = s->timestamp;
	i->s.rcv_timeout_ns = s->rcv_timeout_ns;
	i->s.snd_timeout_ns = s->snd_timeout_ns;
	return &i->s;
}

static int op_getname(struct socket *s, int peer, struct sockaddr_storage *a, uint32_t *len)
{
	struct endpoint *ep = inet_of(s)->ep;
	struct ip_addr ip;
	uint16_t port;
	int err = 0;

	stack_lock(inet_stack(s));
	if (peer) {
		int st = endpoint_tcp_state(ep);

		if (!ep->connected || (ep->kind == EP_TCP && peer == 1 && (st == 7 || st == 2)))
			err = -ENOTCONN;
		ip = ep->raddr;
		port = ep->rport;
	} else {
		ip = ep->laddr;
		port = ep->kind == EP_RAW ? ep->proto : ep->lport;
	}
	uint32_t nic = ep->o.nic;

	stack_unlock(inet_stack(s));
	if (!err)
		inet_addr_out(s->family, &ip, port, nic, a, len);
	return err;
}

/* ---- messages ---- */

static ssize_t op_sendmsg(struct socket *s, struct task *t, struct sock_msg *m, struct socket **wait_on)
{
	struct inet_sock *i = inet_of(s);
	struct ip_addr ip;
	struct ep_send e = { .u = m->u, .ttl = -1, .tos = -1 };
	uint16_t port;
	uint32_t nic;

	(void)wait_on;
	egress_label(s->k->sockets->egress, t, i->ep);
	e.flags = (m->flags & MSG_MORE ? EPF_MORE : 0) | (m->flags & MSG_OOB ? EPF_OOB : 0);
	if (m->ip.src.d[1] || m->ip.src.d[0])
		e.src = m->ip.src;
	e.nic = m->ip.nic;
	e.gso_size = m->ip.gso_size;
	if (m->ip.ttl > 0)
		e.ttl = m->ip.ttl - 1;
	if (m->ip.tos > 0)
		e.tos = m->ip.tos - 1;
	if (m->addrlen && s->type != SOCK_STREAM) {
		if (s->family == AF_INET || (m->addrlen >= sizeof(struct sockaddr_in) && m->addr.ss_family == AF_INET)) {
			const struct sockaddr_in *in = (const void *)&m->addr;

			if (m->addrlen < sizeof(*in))
				return -EINVAL;
			if (in->sin_family != AF_INET && in->sin_family != AF_UNSPEC)
				return -EAFNOSUPPORT;
			if (s->family == AF_INET6 && i->ep->o.v6only)
				return -ENETUNREACH;
			ip = ip_from_v4(in->sin_addr.s_addr);
			port = ntohs(in->sin_port);
		} else if (m->addr.ss_family == AF_UNSPEC && m->addrlen >= sizeof(sa_family_t)) {
			goto send; /* to the peer */
		} else {
			int err;

			if (m->addrlen < SIN6_LEN_MIN)
				return -EINVAL;
			if (m->addr.ss_family != AF_INET6)
				return -EINVAL;
			err = inet_addr_in(s, &m->addr, m->addrlen, &ip, &port, &nic);
			if (err)
				return err;
			if (ip_is_v4(&ip) && i->ep->o.v6only)
				return -ENETUNREACH;
			if (nic && !e.nic)
				e.nic = nic;
		}
		e.to = &ip;
		e.port = port;
	}
send:
	return endpoint_send(i->ep, &e);
}

static ssize_t recv_error(struct inet_sock *i, struct sock_msg *m)
{
	struct pkt *p = endpoint_errq(i->ep);

	if (!p)
		return -EAGAIN;
	uint32_t n = p->len < m->u->left ? p->len : (uint32_t)m->u->left;
	ssize_t ret = pkt_to_uio(p, 0, n, m->u);

	m->out_flags |= MSG_ERRQUEUE | (p->len > n ? MSG_TRUNC : 0);
	m->ip.err = p;
	inet_addr_out(i->s.family, &p->dst, p->dport, p->nic, &m->addr, &m->addrlen);
	return ret;
}

static ssize_t op_recvmsg(struct socket *s, struct task *t, struct sock_msg *m)
{
	struct inet_sock *i = inet_of(s);
	struct ep_recv e = { .u = m->u };
	ssize_t ret;

	(void)t;
	if (m->flags & MSG_ERRQUEUE)
		return recv_error(i, m);
	e.flags = (m->flags & MSG_PEEK ? EPF_PEEK : 0) | (m->flags & MSG_OOB ? EPF_OOB : 0) |
		  (m->flags & MSG_TRUNC && s->type == SOCK_STREAM ? EPF_TRUNC : 0);
	lock_acquire(&i->io_lock);
	ret = endpoint_recv(i->ep, &e);
	lock_release(&i->io_lock);
	if (ret < 0)
		return ret;
	if (e.oob)
		m->out_flags |= MSG_OOB;
	if (e.truncated)
		m->out_flags |= MSG_TRUNC;
	if (s->type == SOCK_STREAM)
		return ret;
	if (!e.stamp_ns && !e.nic)
		return ret; /* shut down: no message behind the 0 */
	m->full_len = e.full_len;
	m->ip = (struct sock_ip){ .ttl = e.ttl, .tos = e.tos, .nic = e.nic, .to = e.to,
				  .to_port = e.to_port, .flow = e.flow, .stamp_ns = e.stamp_ns };
	inet_addr_out(s->family, &e.from, e.from_port, e.nic, &m->addr, &m->addrlen);
	return m->flags & MSG_TRUNC ? (ssize_t)e.full_len : ret;
}

static void op_msg_free(struct sock_msg *m)
{
	pkt_free(m->ip.err);
	m->ip.err = NULL;
}

static uint32_t op_poll(struct socket *s)
{
	return endpoint_ready(inet_of(s)->ep);
}

static int op_shutdown(struct socket *s, int how)
{
	int err = endpoint_shutdown(inet_of(s)->ep, how);

	if (s->listening && endpoint_tcp_state(inet_of(s)->ep) == 7)
		s->listening = 0;
	return err;
}

static void op_release(struct socket *s)
{
	struct inet_sock *i = inet_of(s);

	egress_closed(s->k->sockets->egress, i->ep);
	endpoint_close(i->ep);
	lock_destroy(&i->io_lock);
	free(i);
}

static void op_attached(struct socket *s)
{
	inet_of(s)->ep->sockfs_ino = s->file->inode->ino;
}

/* Generic fields the protocols obey. */
void inet_option(struct socket *s, int opt)
{
	struct inet_sock *i = inet_of(s);
	struct ep_opts *o = &i->ep->o;

	stack_lock(inet_stack(s));
	o->reuseaddr = s->reuseaddr != 0;
	o->reuseport = s->reuseport != 0;
	o->keepalive = s->keepalive != 0;
	o->broadcast = s->broadcast != 0;
	o->oobinline = s->oobinline != 0;
	o->no_check = s->no_check != 0;
	o->rcvlowat = s->rcvlowat;
	o->linger_on = s->linger.l_onoff;
	o->linger_s = s->linger.l_linger;
	if (opt == SO_RCVBUF) {
		o->rcvbuf = s->rcvbuf;
		o->rcvbuf_locked = 1;
	}
	if (opt == SO_SNDBUF) {
		o->sndbuf = s->sndbuf;
		o->sndbuf_locked = 1;
	}
	endpoint_options(i->ep);
	stack_unlock(inet_stack(s));
}

static const struct socket_ops g_inet_ops = {
	.bind = op_bind,
	.connect = op_connect,
	.listen = op_listen,
	.accept = op_accept,
	.getname = op_getname,
	.sendmsg = op_sendmsg,
	.recvmsg = op_recvmsg,
	.poll = op_poll,
	.shutdown = op_shutdown,
	.setsockopt = inet_setsockopt,
	.getsockopt = inet_getsockopt,
	.ioctl = inet_ioctl,
	.cmsg_in = inet_cmsg_in,
	.cmsg_out = inet_cmsg_out,
	.msg_free = op_msg_free,
	.attached = op_attached,
	.option = inet_option,
	.release = op_release,
};

const struct socket_family g_inet_family = { AF_INET, create4 };
const struct socket_family g_inet6_family = { AF_INET6, create6 };
