/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: what every protocol shares — life, binding, receive queue, errors, wakes, groups — and
 * the dispatch to the protocol.
 *
 * References: the owner's (owned, until endpoint_close), TCP's own while a connection lives, one per
 * wake list entry, and one per entry of an accept queue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/stack_priv.h"
#include "netstack/tcp/tcp_priv.h"

#define ERRQ_MAX 64

struct endpoint *endpoint_new(struct stack *s, enum ep_kind kind, int v6, uint8_t proto)
{
	struct endpoint *ep;

	stack_lock(s);
	ep = kind == EP_TCP ? tcp_new(s) : calloc(1, sizeof(*ep));
	if (ep) {
		endpoint_setup(ep, s, kind, v6, proto);
		ep->owned = 1;
		if (kind == EP_RAW)
			port_insert(ep);
	}
	stack_unlock(s);
	return ep;
}

void endpoint_setup(struct endpoint *ep, struct stack *s, enum ep_kind kind, int v6, uint8_t proto)
{
	ref_init(&ep->ref);
	ep->stack = s;
	ep->kind = kind;
	ep->v6 = (uint8_t)v6;
	ep->proto = proto;
	ep->laddr = ep->raddr = v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);
	ep->o.ttl = ep->o.hops = ep->o.mc_hops = -1;
	ep->o.mc_ttl = 1;
	ep->o.mc_loop = ep->o.mc_all = 1;
	ep->o.pmtudisc = ep->o.pmtudisc6 = 1;
	ep->o.rcvbuf = (int)(kind == EP_TCP ? s->sysctl.tcp_rmem[1] : s->sysctl.rmem_default);
	ep->o.sndbuf = (int)(kind == EP_TCP ? s->sysctl.tcp_wmem[1] : s->sysctl.wmem_default);
	ep->o.rcvlowat = 1;
	ep->o.csum_offset = proto == IPPROTO_ICMPV6 && v6 && kind == EP_RAW ? 2 : -1;
	list_init(&ep->bind_node);
	list_init(&ep->wake_node);
	list_init(&ep->rq);
	list_init(&ep->errq);
	waitq_init(&ep->wq);
	list_add_tail(&ep->all_node, &s->all[kind]);
	if (ep_is_udp(ep))
		s->c.udp_count++;
	else if (kind == EP_RAW)
		s->c.raw_count++;
}

struct endpoint *endpoint_get(struct endpoint *ep)
{
	ref_get(&ep->ref);
	return ep;
}

static void destroy(struct endpoint *ep)
{
	struct stack *s = ep->stack;

	list_del(&ep->all_node);
	demux_del(ep);
	list_del(&ep->bind_node);
	pkt_list_free(&ep->rq);
	pkt_list_free(&ep->errq);
	if (ep->kind == EP_TCP)
		tcp_free(ep);
	else if (ep_is_udp(ep))
		s->c.udp_count--;
	else if (ep->kind == EP_RAW)
		s->c.raw_count--;
	list_add_tail(&ep->wake_node, &s->dead);
}

void endpoint_put_locked(struct endpoint *ep)
{
	lock_assert_held(&ep->stack->lock);
	if (ref_put(&ep->ref))
		destroy(ep);
}

void endpoint_put(struct endpoint *ep)
{
	struct stack *s = ep->stack;

	if (!ref_put(&ep->ref))
		return;
	stack_lock(s);
	destroy(ep);
	stack_unlock(s);
}

void endpoint_wake(struct endpoint *ep, uint32_t events)
{
	if (!__atomic_load_n(&ep->wq.count, __ATOMIC_SEQ_CST))
		return;
	if (list_empty(&ep->wake_node)) {
		endpoint_get(ep);
		list_add_tail(&ep->wake_node, &ep->stack->wakes);
	}
	ep->wake_events |= events;
}

void endpoint_close(struct endpoint *ep)
{
	struct stack *s = ep->stack;

	stack_lock(s);
	ep->owned = 0;
	pkt_list_free(&ep->errq);
	if (ep->kind == EP_TCP) {
		tcp_close(ep);
	} else {
		demux_del(ep);
		port_release(ep);
		pkt_list_free(&ep->rq);
	}
	endpoint_put_locked(ep);
	stack_unlock(s);
}

/* ---- binding ---- */

static int bind_locked(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	struct stack *s = ep->stack;
	int err = 0;

	if (ep->kind != EP_RAW && ((ep->lport && !list_empty(&ep->bind_node)) || (ep->kind == EP_TCP && endpoint_tcp_state(ep) != TCPS_CLOSE)))
		return -EINVAL;
	if (!ip_is_any(a) && !ep->o.freebind && !stack_local(s, a)) {
		int group = ip_is_multicast(a) || stack_is_broadcast(s, a);

		if (ep->kind == EP_TCP || !group)
			return -EADDRNOTAVAIL;
	}
	if (ep->kind == EP_RAW) {
		ep->laddr = *a;
		return 0;
	}
	err = port_bind(ep, a, port);
	if (err)
		return err;
	ep->port_bound = 1;
	ep->addr_bound = !ip_is_any(a);
	return 0;
}

int endpoint_bind(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	stack_lock(ep->stack);
	int err = bind_locked(ep, a, port);

	stack_unlock(ep->stack);
	return err;
}

/* Datagrams: a peer to send to and to hear from, and the local address that goes with it. */
static int connect_dgram(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	struct stack *s = ep->stack;
	struct route_result r;
	struct ip_addr to = *a;
	int err;

	if (ip_is_any(&to)) /* "this host" */
		to = ip_is_v4(&to) ? ip_from_v4(htonl(INADDR_LOOPBACK)) : (struct ip_addr){ .b[15] = 1 };
	if (stack_is_broadcast(s, &to) && !ep->o.broadcast)
		return -EACCES;
	err = route_lookup(s, &to, ip_is_multicast(&to) && ep->o.mc_nic ? ep->o.mc_nic : ep->o.nic, &r);
	if (err)
		return err;
	demux_del(ep);
	if (!ep->addr_bound && ep->lport) {
		/* An automatic address follows the route of each connect. */
		ep->laddr = r.src;
	}
	ep->raddr = to;
	ep->rport = ep_is_udp(ep) ? port : 0;
	if (!ep->lport && ep->kind != EP_RAW) {
		struct ip_addr src = ep->addr_bound ? ep->laddr : r.src;

		err = port_bind(ep, &src, 0);
		if (err)
			return err;
	}
	if (!ep->addr_bound)
		ep->laddr = r.src;
	ep->connected = 1;
	if (ep->kind != EP_RAW)
		demux_add(ep);
	return 0;
}

int endpoint_connect(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	stack_lock(ep->stack);
	int err = ep->kind == EP_TCP ? tcp_connect(ep, a, port) : connect_dgram(ep, a, port);

	stack_unlock(ep->stack);
	return err;
}

int endpoint_disconnect(struct endpoint *ep)
{
	int err = 0;

	stack_lock(ep->stack);
	if (ep->kind == EP_TCP) {
		err = tcp_disconnect(ep);
	} else {
		demux_del(ep);
		ep->connected = 0;
		ep->rport = 0;
		ep->raddr = ep->v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);
		if (!ep->addr_bound)
			ep->laddr = ep->raddr;
		if (!ep->port_bound && ep->kind != EP_RAW)
			port_release(ep);
	}
	stack_unlock(ep->stack);
	return err;
}

int endpoint_listen(struct endpoint *ep, int backlog)
{
	stack_lock(ep->stack);
	int err = ep->kind == EP_TCP ? tcp_listen(ep, backlog) : -EOPNOTSUPP;

	stack_unlock(ep->stack);
	return err;
}

struct endpoint *endpoint_accept(struct endpoint *ep)
{
	stack_lock(ep->stack);
	struct endpoint *c = ep->kind == EP_TCP ? tcp_accept(ep) : ERR_PTR(-EOPNOTSUPP);

	stack_unlock(ep->stack);
	return c;
}

int endpoint_shutdown(struct endpoint *ep, int how)
{
	int err = 0;

	stack_lock(ep->stack);
	if (ep->kind == EP_TCP) {
		err = tcp_shutdown(ep, how);
	} else {
		ep->shut |= (uint8_t)how;
		if (!ep->connected)
			err = -ENOTCONN;
		endpoint_wake(ep, POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
	}
	stack_unlock(ep->stack);
	return err;
}

static uint32_t dgram_ready(struct endpoint *ep)
{
	uint32_t m = POLLOUT | POLLWRNORM | POLLWRBAND;

	if (ep->error || !list_empty(&ep->errq))
		m |= POLLERR;
	if (ep->shut & 1)
		m |= POLLRDHUP | POLLIN | POLLRDNORM;
	if (ep->shut == 3)
		m |= POLLHUP;
	if (!list_empty(&ep->rq))
		m |= POLLIN | POLLRDNORM;
	return m;
}

uint32_t endpoint_ready(struct endpoint *ep)
{
	stack_lock(ep->stack);
	uint32_t m = ep->kind == EP_TCP ? tcp_ready(ep) : dgram_ready(ep);

	stack_unlock(ep->stack);
	return m;
}

void endpoint_options(struct endpoint *ep)
{
	if (ep->kind == EP_TCP)
		tcp_options(ep);
}

int endpoint_take_error(struct endpoint *ep)
{
	stack_lock(ep->stack);
	int e = ep->error;

	ep->error = 0;
	if (!e && ep->soft_error) {
		e = ep->soft_error;
		ep->soft_error = 0;
	}
	stack_unlock(ep->stack);
	return e;
}

ssize_t endpoint_send(struct endpoint *ep, struct ep_send *m)
{
	if (ep->kind == EP_TCP)
		return tcp_send(ep, m);
	return ep_is_udp(ep) ? udp_send(ep, m) : raw_send(ep, m);
}

ssize_t endpoint_recv(struct endpoint *ep, struct ep_recv *m)
{
	return ep->kind == EP_TCP ? tcp_recv(ep, m) : dgram_recv(ep, m);
}

void endpoint_abort(struct endpoint *ep, int err)
{
	lock_assert_held(&ep->stack->lock);
	if (ep->kind == EP_TCP)
		tcp_abort(ep, err);
}

int stack_label(struct stack *s, enum ep_kind kind, const struct ip_addr *laddr, uint16_t lport,
		const struct ip_addr *raddr, uint16_t rport, struct ep_label *out)
{
	struct endpoint *ep;

	stack_lock(s);
	ep = demux_connected(s, kind, laddr, lport, raddr, rport, 0);
	if (!ep && kind != EP_TCP)
		ep = demux_bound(s, kind, laddr, lport, raddr, rport, 0);
	if (ep)
		*out = ep->label;
	stack_unlock(s);
	return ep ? 0 : -ENOENT;
}

/* ---- receiving ---- */

int endpoint_queue(struct endpoint *ep, struct pkt *p)
{
	uint32_t size = pkt_truesize(p);

	if ((ep->rq_mem + size > (uint32_t)ep->o.rcvbuf || stack_full(ep->stack)) && ep->rq_count) {
		ep->drops++;
		pkt_free(p);
		return 0;
	}
	if (!p->stamp_ns)
		p->stamp_ns = ep->stack->env.real(ep->stack->env.priv);
	list_add_tail(&p->node, &ep->rq);
	ep->rq_mem += size;
	ep->rq_bytes += p->len;
	ep->rq_count++;
	endpoint_wake(ep, POLLIN | POLLRDNORM | POLLRDBAND);
	return 1;
}

void endpoint_report(struct endpoint *ep, int err, uint32_t origin, uint32_t type, uint32_t code,
		     uint32_t info, const struct ip_addr *offender, const struct ip_addr *dst,
		     uint16_t dport, struct pkt *quoted)
{
	int v4 = ip_is_v4(dst);

	if ((v4 ? ep->o.recverr : ep->o.recverr6) && ep->errq_count < ERRQ_MAX) {
		if (!quoted)
			quoted = pkt_new();
		if (quoted) {
			quoted->ee.err = (uint32_t)err;
			quoted->ee.origin = origin;
			quoted->ee.type = type;
			quoted->ee.code = code;
			quoted->ee.info = info;
			quoted->ee.offender = *offender;
			quoted->dst = *dst;
			quoted->dport = dport;
			list_add_tail(&quoted->node, &ep->errq);
			ep->errq_count++;
			quoted = NULL;
		}
	} else if (!ep->connected) {
		pkt_free(quoted); /* nobody asked: udp(7) says only connected sockets are told */
		return;
	}
	pkt_free(quoted);
	ep->error = err;
	endpoint_wake(ep, POLLERR | POLLIN | POLLOUT);
}

struct pkt *endpoint_errq(struct endpoint *ep)
{
	struct pkt *p = NULL;

	stack_lock(ep->stack);
	if (!list_empty(&ep->errq)) {
		p = list_first(&ep->errq, struct pkt, node);
		list_del(&p->node);
		ep->errq_count--;
		ep->error = list_empty(&ep->errq) ? 0 : (int)list_first(&ep->errq, struct pkt, node)->ee.err;
	}
	stack_unlock(ep->stack);
	return p;
}

/* ---- groups ---- */

int endpoint_in_group(const struct endpoint *ep, const struct ip_addr *group, uint32_t nic)
{
	for (uint32_t i = 0; i < ep->group_count; i++)
		if (ip_eq(&ep->group[i].addr, group) && (!ep->group[i].nic || ep->group[i].nic == nic))
			return 1;
	return 0;
}

int endpoint_join(struct endpoint *ep, const struct ip_addr *group, uint32_t nic)
{
	int err = 0;

	if (!ip_is_multicast(group))
		return -EINVAL;
	stack_lock(ep->stack);
	if (!nic) {
		struct route_result r;

		err = route_lookup(ep->stack, group, 0, &r);
		if (!err)
			nic = r.nic->index;
	}
	if (err || !nic_find(ep->stack, nic))
		err = -ENODEV;
	for (uint32_t i = 0; !err && i < ep->group_count; i++)
		if (ip_eq(&ep->group[i].addr, group) && ep->group[i].nic == nic)
			err = -EADDRINUSE;
	if (!err && ep->group_count == EP_GROUPS)
		err = -ENOBUFS;
	if (!err)
		ep->group[ep->group_count++] = (struct ep_group){ *group, nic };
	stack_unlock(ep->stack);
	return err;
}

int endpoint_leave(struct endpoint *ep, const struct ip_addr *group, uint32_t nic)
{
	int err = -EADDRNOTAVAIL;

	stack_lock(ep->stack);
	for (uint32_t i = 0; i < ep->group_count; i++)
		if (ip_eq(&ep->group[i].addr, group) && (!nic || ep->group[i].nic == nic)) {
			ep->group[i] = ep->group[--ep->group_count];
			err = 0;
			break;
		}
	stack_unlock(ep->stack);
	return err;
}

uint32_t endpoint_inq(struct endpoint *ep)
{
	uint32_t n = 0;

	stack_lock(ep->stack);
	if (ep->kind == EP_TCP)
		n = ep->rq_bytes;
	else if (!list_empty(&ep->rq))
		n = list_first(&ep->rq, struct pkt, node)->len;
	stack_unlock(ep->stack);
	return n;
}
