/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP flows: one of our stack's connections and one host socket, joined.
 *
 * Theory. A SYN of the guest starts a host connect; the SYN is kept (CONNECTING) and answered only when
 * the host connected (ANSWERED), refused or reported unreachable otherwise, so connect(2) inside says
 * what it would say outside. The handshake done, the listener hands over the endpoint (JOINED). A
 * published port goes the other way: the host connection is accepted first, our stack calls the guest
 * (CALLING), and only when the guest answers is anything read from the host.
 *
 * Joined flows own no bytes: from the guest's receive queue straight into send(2), and from recv(2) into
 * what room the send queue has. A slow reader on either side thus fills the other's window. EOF is passed
 * on as a half-close; any error resets both sides. Host readiness is edge-triggered and remembered in
 * host_in and host_out; endpoints that wake go to tcp_dirty, which nat_tcp_pump() works off.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "netstack/nat/nat.h"
#include "platform/base/errptr.h"

#define ANSWER_NS 90000000000ull /* for the guest to complete a handshake */
#define PUMP_MAX (1u << 20)	 /* bytes each way before others get their turn */
#define ACCEPT_TURN 64

enum state { CONNECTING, ANSWERED, CALLING, JOINED };

struct tcp_flow {
	struct nat_source host;
	struct list_head node;	/* in nat.tcp[] */
	struct list_head dirty; /* in nat.tcp_dirty */
	struct list_head timed; /* in nat.tcp_answered while ANSWERED */
	struct nat *nat;
	struct endpoint *ep; /* CALLING, JOINED */
	struct waiter waits;
	struct pkt *syn; /* CONNECTING, ANSWERED */
	struct ip_addr guest, peer;
	uint16_t gport, pport;
	uint8_t state, host_in, host_out, host_hup;
	uint8_t up_done, down_done; /* EOF was passed on: from the guest, to the guest */
	uint8_t resolver; /* DNS: which one is being tried, plus one */
	uint64_t deadline;
};

static struct tcp_flow *find(struct nat *n, const struct ip_addr *guest, uint16_t gport, const struct ip_addr *peer,
			     uint16_t pport)
{
	struct tcp_flow *f;

	list_for_each(f, &n->tcp[nat_hash(peer, pport, gport)], node)
		if (f->gport == gport && f->pport == pport && ip_eq(&f->peer, peer) && ip_eq(&f->guest, guest))
			return f;
	return NULL;
}

static void mark(struct tcp_flow *f)
{
	if (list_empty(&f->dirty))
		list_add_tail(&f->dirty, &f->nat->tcp_dirty);
}

static int endpoint_wakes(struct waiter *w, uint32_t events)
{
	mark(w->priv);
	return 0;
}

/* A close that tells the peer so: a reset. #hostcalls: setsockopt */
static void reset_host(struct tcp_flow *f)
{
	struct linger l = { .l_onoff = 1 };

	if (f->host.fd >= 0)
		setsockopt(f->host.fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static void let_go(struct tcp_flow *f, int reset)
{
	struct endpoint *ep = f->ep;

	f->ep = NULL;
	if (!ep)
		return;
	waitq_del(&f->waits);
	if (reset) {
		stack_lock(ep->stack);
		ep->o.linger_on = 1;
		ep->o.linger_s = 0;
		stack_unlock(ep->stack);
	}
	endpoint_close(ep);
}

static void end(struct tcp_flow *f, int reset)
{
	struct nat *n = f->nat;

	if (reset)
		reset_host(f);
	let_go(f, reset);
	pkt_free(f->syn);
	list_del(&f->node);
	list_del(&f->dirty);
	list_del(&f->timed);
	n->tcp_count--;
	nat_bury(n, &f->host);
}

static struct tcp_flow *flow_new(struct nat *n, const struct ip_addr *guest, uint16_t gport,
				 const struct ip_addr *peer, uint16_t pport, enum state st)
{
	struct tcp_flow *f = n->tcp_count < NAT_TCP_MAX ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return NULL;
	f->nat = n;
	f->host.fd = -1;
	list_init(&f->host.dead);
	list_init(&f->dirty);
	list_init(&f->timed);
	f->guest = *guest;
	f->peer = *peer;
	f->gport = gport;
	f->pport = pport;
	f->state = (uint8_t)st;
	list_add(&f->node, &n->tcp[nat_hash(peer, pport, gport)]);
	n->tcp_count++;
	return f;
}

/* ---- the guest connects ---- */

/* The SYN gets its answer: err is the host's. */
static void refuse(struct tcp_flow *f, int err)
{
	struct nat *n = f->nat;

	stack_lock(n->stack);
	if (err == ECONNREFUSED || err == ECONNRESET)
		gateway_refuse(n->nic, f->syn);
	else if (err != ETIMEDOUT && err != EMFILE && err != ENFILE && err != ENOBUFS && err != ENOMEM)
		gateway_unreachable(n->nic, f->syn, nat_why(err));
	/* Else silence, as of a host that does not answer: the guest asks again, and gives up itself. */
	stack_unlock(n->stack);
	end(f, 0);
}

static void host_ready(struct nat *n, struct nat_source *s, uint32_t events);

/* #hostcalls: setsockopt */
static void host_options(int fd)
{
	int one = 1;

	/* The guest's stack has decided already what goes when; dead peers must not hold flows for ever. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

/* 0 when it is on its way, or -errno. #hostcalls: connect */
static int dial(struct nat *n, struct tcp_flow *f, const union nat_sockaddr *to)
{
	int fd = nat_socket(to, SOCK_STREAM, 0);

	if (fd < 0)
		return fd;
	if (f->host.fd >= 0)
		close(f->host.fd); /* an earlier attempt; closing takes it out of the epoll set */
	f->host.fd = fd;
	f->host.ready = host_ready;
	host_options(fd);
	if (connect(fd, &to->sa, nat_sockaddr_len(to)) && errno != EINPROGRESS)
		return -errno;
	return nat_watch(n, &f->host, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

/* The next resolver, or the one target there is. */
static int dial_next(struct nat *n, struct tcp_flow *f, int err)
{
	while (f->resolver && f->resolver <= n->resolver_count) {
		err = dial(n, f, &n->resolver[f->resolver++ - 1]);
		if (!err)
			return 0;
	}
	return err;
}

void nat_tcp_syn(struct nat *n, struct pkt *p)
{
	struct tcp_flow *f = find(n, &p->src, p->sport, &p->dst, p->dport);
	union nat_sockaddr to;
	int err;

	if (f && f->state != CONNECTING) {
		stack_lock(n->stack);
		int known = gateway_known(n->nic, p);

		stack_unlock(n->stack);
		if (!known) { /* the guest has given that one up, and begins anew */
			end(f, 1);
			f = NULL;
		}
	}
	if (f) { /* asked again while it is being worked on */
		pkt_free(p);
		return;
	}
	f = flow_new(n, &p->src, p->sport, &p->dst, p->dport, CONNECTING);
	if (!f) { /* full: the guest asks again */
		pkt_free(p);
		return;
	}
	f->syn = p;
	if (p->dport == 53 && ip_eq(&p->dst, &n->dns[nat_family(&p->dst)])) {
		f->resolver = 1;
		err = dial_next(n, f, -ECONNREFUSED);
	} else {
		err = guard_target(n, &p->dst, p->dport, &to);
		if (!err)
			err = dial(n, f, &to);
	}
	if (err)
		refuse(f, -err);
}

/* #hostcalls: getsockopt */
static void connected(struct nat *n, struct tcp_flow *f, uint32_t events)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(f->host.fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (!err && (events & EPOLLHUP)) /* connect had not begun or is over: no success */
		err = ECONNREFUSED;
	if (err && f->resolver && !dial_next(n, f, -err))
		return;
	if (err) {
		refuse(f, err);
		return;
	}
	if (!(events & EPOLLOUT))
		return;
	stack_lock(n->stack);
	err = gateway_accept(n->listener, n->nic, f->syn);
	stack_unlock(n->stack);
	if (err) {
		refuse(f, ECONNREFUSED);
		return;
	}
	f->state = ANSWERED;
	f->deadline = nat_now() + ANSWER_NS;
	list_add_tail(&f->timed, &n->tcp_answered);
}

void nat_tcp_accepted(struct nat *n)
{
	for (;;) {
		struct endpoint *ep = endpoint_accept(n->listener);

		if (IS_ERR(ep))
			return;
		struct tcp_flow *f = find(n, &ep->raddr, ep->rport, &ep->laddr, ep->lport);

		if (!f || f->state != ANSWERED) { /* it took too long */
			ep->o.linger_on = 1;
			endpoint_close(ep);
			continue;
		}
		pkt_free(f->syn);
		f->syn = NULL;
		list_del(&f->timed);
		f->state = JOINED;
		f->ep = ep;
		f->host_in = f->host_out = 1;
		waiter_init(&f->waits, POLLIN | POLLOUT | POLLRDHUP, endpoint_wakes, f);
		waitq_add(&ep->wq, &f->waits);
		mark(f);
	}
}

/* ---- a published port ---- */

static int call_guest(struct nat *n, struct tcp_flow *f)
{
	struct endpoint *ep = endpoint_new(n->stack, EP_TCP, !ip_is_v4(&f->peer), IPPROTO_TCP);
	int err;

	if (!ep)
		return -ENOMEM;
	f->ep = ep;
	ep->o.freebind = ep->o.nodelay = ep->o.oobinline = 1;
	waiter_init(&f->waits, POLLIN | POLLOUT | POLLRDHUP, endpoint_wakes, f);
	waitq_add(&ep->wq, &f->waits);
	err = endpoint_bind(ep, &f->peer, f->pport);
	if (!err)
		err = endpoint_connect(ep, &f->guest, f->gport);
	return err == -EINPROGRESS ? 0 : err;
}

/* #hostcalls: accept4 */
void nat_tcp_published(struct nat *n, struct nat_publish *b)
{
	for (int i = 0; i < ACCEPT_TURN; i++) {
		union nat_sockaddr from;
		socklen_t len = sizeof(from);
		struct ip_addr peer;
		uint16_t pport;

		if (n->tcp_count >= NAT_TCP_MAX) { /* they wait in the host's backlog */
			n->publish_stalled = 1;
			return;
		}
		int fd = accept4(b->src.fd, &from.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0) {
			n->publish_stalled |= errno == EMFILE || errno == ENFILE || errno == ENOMEM;
			return;
		}
		nat_sockaddr_to(&from, &peer, &pport);
		if (nat_visible_peer(n, &peer))
			pport = 0; /* the gateway's own: any */
		int fam = nat_family(&peer);
		struct tcp_flow *f = fam && !n->have_v6 ? NULL :
				     flow_new(n, &n->guest[fam], b->port, &peer, pport, CALLING);

		if (!f) {
			close(fd);
			continue;
		}
		f->host.fd = fd;
		f->host.ready = host_ready;
		host_options(fd);
		if (nat_watch(n, &f->host, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) || call_guest(n, f))
			end(f, 1);
	}
	n->publish_stalled = 1; /* more may wait: next turn */
}

/* ---- joined ---- */

/* A uio whose bytes go into the flow's host socket: short when it is full. #hostcalls: sendto */
static ssize_t to_host(struct uio *u, const void *src, size_t size)
{
	struct tcp_flow *f = u->priv;
	ssize_t got;

	do
		got = send(f->host.fd, src, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		f->host_out = 0;
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	}
	uio_advance(u, (size_t)got);
	return got;
}

static const struct uio_ops g_to_host = { .copy_out = to_host };

/* Guest to host. 0, or -errno of a side that broke. #hostcalls: shutdown */
static int pump_up(struct tcp_flow *f)
{
	for (size_t total = 0; f->host_out && !f->up_done;) {
		struct uio u = { .ops = &g_to_host, .one = { 0, PUMP_MAX }, .left = PUMP_MAX, .seg_count = 1, .priv = f };
		struct ep_recv m = { .u = &u };

		u.seg = &u.one;
		ssize_t got = endpoint_recv(f->ep, &m);

		if (got == -EAGAIN)
			return 0;
		if (got < 0)
			return (int)got;
		if (!got) {
			f->up_done = 1;
			return shutdown(f->host.fd, SHUT_WR) && errno != ENOTCONN ? -errno : 0;
		}
		total += (size_t)got;
		if (total >= PUMP_MAX) {
			mark(f);
			return 0;
		}
	}
	return 0;
}

/* Host to guest. #hostcalls: recvfrom */
static int pump_down(struct tcp_flow *f)
{
	struct nat *n = f->nat;

	for (size_t total = 0; f->host_in && !f->down_done;) {
		if (!(endpoint_ready(f->ep) & POLLOUT))
			return 0; /* it wakes us */
		uint32_t used = endpoint_outq(f->ep), room = (uint32_t)f->ep->o.sndbuf;

		room = room > used ? room - used : 0;
		room = room < NAT_MSG_MAX ? room : NAT_MSG_MAX;
		if (!room)
			return 0;
		ssize_t got = recv(f->host.fd, n->msg, room, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN) {
			f->host_in = 0;
			return 0;
		}
		if (got < 0)
			return -errno;
		if (!got) {
			f->down_done = 1;
			endpoint_shutdown(f->ep, 2);
			return 0;
		}
		/* A short read emptied the socket; what comes later is a new edge. */
		if ((uint32_t)got < room && !f->host_hup)
			f->host_in = 0;
		struct uio u;
		struct ep_send m = { .u = &u, .ttl = -1, .tos = -1 };

		uio_init_kernel(&u, n->msg, (size_t)got);
		ssize_t sent = endpoint_send(f->ep, &m);

		if (sent != got) /* there was room: the guest is gone, or there is no memory */
			return sent < 0 ? (int)sent : -ENOBUFS;
		total += (size_t)got;
		if (total >= PUMP_MAX) {
			mark(f);
			return 0;
		}
	}
	return 0;
}

static void pump(struct nat *n, struct tcp_flow *f)
{
	int err;

	if (f->state == CALLING) {
		if (!f->ep->error && !(endpoint_ready(f->ep) & (POLLOUT | POLLHUP)))
			return;
		f->state = JOINED;
		f->host_in = f->host_out = 1;
	}
	err = f->ep->error ? -f->ep->error : pump_up(f);
	if (!err)
		err = pump_down(f);
	if (err)
		end(f, 1);
	else if (f->up_done && f->down_done)
		end(f, 0);
}

void nat_tcp_pump(struct nat *n)
{
	struct list_head now;
	struct tcp_flow *f;

	list_init(&now);
	list_splice_tail(&n->tcp_dirty, &now);
	while (!list_empty(&now)) {
		f = list_first(&now, struct tcp_flow, dirty);
		list_del(&f->dirty);
		if (f->ep)
			pump(n, f);
	}
}

static void host_ready(struct nat *n, struct nat_source *s, uint32_t events)
{
	struct tcp_flow *f = (struct tcp_flow *)s;

	if (f->state == CONNECTING) {
		connected(n, f, events);
		return;
	}
	f->host_in |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	f->host_out |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
	f->host_hup |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	if (f->state == JOINED)
		mark(f);
	else if (f->state == CALLING && (events & (EPOLLERR | EPOLLHUP)))
		end(f, 1); /* the caller gave up */
}

uint64_t nat_tcp_expire(struct nat *n, uint64_t now)
{
	while (!list_empty(&n->tcp_answered)) {
		struct tcp_flow *f = list_first(&n->tcp_answered, struct tcp_flow, timed);

		if (f->deadline > now)
			return f->deadline;
		end(f, 1);
	}
	return NAT_NEVER;
}
