/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening. A SYN makes an embryo in SYN_RECV, in the listener's synq; the ACK moves it to acceptq,
 * where accept(2) finds it. Each queue entry is one reference, which becomes the owner's.
 */
#include <errno.h>
#include <stdlib.h>

#include "netstack/tcp/tcp_priv.h"

#define COOKIE_LIFE_NS 120000000000ull

int tcp_is_listening(const struct endpoint *ep)
{
	return ep->kind == EP_TCP && container_of(ep, const struct tcp, ep)->state == TCPS_LISTEN;
}

int tcp_listen(struct endpoint *ep, int backlog)
{
	struct tcp *t = tcp_of(ep);
	struct stack *s = ep->stack;
	int err = 0;

	if (t->state != TCPS_CLOSE && t->state != TCPS_LISTEN)
		return -EINVAL;
	/* Linux compares unsigned: a negative backlog is the largest. */
	t->backlog = (uint32_t)backlog > s->sysctl.somaxconn ? s->sysctl.somaxconn : (uint32_t)backlog;
	if (t->state == TCPS_LISTEN)
		return 0;
	if (list_empty(&ep->bind_node))
		ep->lport = 0;
	if (!ep->lport) {
		err = port_bind(ep, &ep->laddr, 0);
	} else {
		/* Somebody else may have begun to listen on a shared port since bind(2). */
		struct ip_addr a = ep->laddr;

		err = port_bind(ep, &a, ep->lport);
	}
	if (err)
		return err;
	tcp_set_state(t, TCPS_LISTEN);
	ep->shut = 0;
	ep->error = 0;
	return 0;
}

/* Linux's sk_acceptq_is_full: one more than asked for. */
int tcp_accept_room(const struct tcp *l)
{
	return l->accept_count <= l->backlog;
}

/* A connection in the making that answers h, in no table and no queue yet; NULL. */
static struct tcp *embryo_new(struct tcp *l, struct nic *n, const struct pkt *p, const struct tcp_hdr *h,
			      const struct tcp_opts *o)
{
	struct stack *s = n->stack;
	struct endpoint *ep = tcp_new(s);

	if (!ep)
		return NULL;
	struct tcp *t = tcp_of(ep);

	endpoint_setup(ep, s, EP_TCP, l->ep.v6, IPPROTO_TCP);
	ep->o = l->ep.o;
	ep->laddr = p->dst;
	ep->raddr = p->src;
	ep->lport = p->dport;
	ep->rport = p->sport;
	if (!ip_is_v4(&ep->raddr) && ip_is_linklocal6(&ep->raddr))
		ep->o.nic = n->index;
	ep->connected = 1;
	/* Not for a forged peer on loopback: its answers would leave. */
	ep->cleared = n->flags & NIC_LOOPBACK ? 0 : EP_CLEARED_ALWAYS;
	if (tcp_setup_route(t, 0)) {
		endpoint_put_locked(ep);
		return NULL;
	}
	t->reno = l->reno;
	tcp_start(t);
	tcp_embryo_negotiate(t, h, o);
	return t;
}

/* Into the tables and the listener's synq: it waits for the acknowledgement of its SYN-ACK. */
static void embryo_wait(struct tcp *l, struct tcp *t)
{
	struct stack *s = t->ep.stack;

	t->ep.passive = 1;
	port_insert(&t->ep);
	demux_add(&t->ep);
	tcp_set_state(t, TCPS_SYN_RECV);
	t->snd_end = t->snd_nxt = t->snd_max = t->iss + 1;
	t->rtt_timing = 1;
	t->rtt_seq = t->snd_nxt;
	t->rtt_start = t->first_unacked_ns = stack_now(s);
	t->listener = l;
	list_add_tail(&t->q_node, &l->synq);
	l->syn_count++;
	tcp_arm_rexmit(t);
}

/* The queue is full: the oldest embryo makes room. Honest ones leave it within a round trip. */
static void drop_oldest(struct tcp *l)
{
	struct tcp *old = list_first(&l->synq, struct tcp, q_node);

	l->ep.stack->c.listen_drops++;
	endpoint_get(&old->ep);
	if (old->deferred)
		tcp_set_state(old, TCPS_SYN_RECV);
	tcp_done(old, 0);
	endpoint_put_locked(&old->ep);
}

/* Answers a SYN and forgets it. */
static void answer_cookie(struct tcp *l, struct nic *n, const struct pkt *p, const struct tcp_hdr *h,
			  const struct tcp_opts *o)
{
	struct tcp *t = embryo_new(l, n, p, h, o);

	if (!t)
		return;
	cookie_make(t, p, h, o);
	tcp_send_flags(t, TCP_SYN | TCP_ACK, t->iss);
	l->cookie_ns = stack_now(n->stack);
	n->stack->c.cookies_sent++;
	tcp_done(t, 0);
	endpoint_put_locked(&t->ep);
}

/* An acknowledgement that belongs to no embryo: of a cookie? */
static struct tcp *take_cookie(struct tcp *l, struct nic *n, const struct pkt *p, const struct tcp_hdr *h,
			       const struct tcp_opts *ack)
{
	struct stack *s = n->stack;
	struct tcp_hdr syn = *h;
	struct tcp_opts o;

	if (!l->cookie_ns || stack_now(s) - l->cookie_ns > COOKIE_LIFE_NS || (h->flags & TCP_SYN))
		return NULL;
	if (!cookie_check(s, p, h, ack, &o)) {
		s->c.cookies_failed++;
		return NULL;
	}
	syn.seq = htonl(ntohl(h->seq) - 1);
	struct tcp *t = embryo_new(l, n, p, &syn, &o);

	if (!t)
		return NULL;
	s->c.cookies_recv++;
	if (!t->wscale_ok)
		t->rcv_wscale = 0;
	t->iss = ntohl(h->ack) - 1;
	t->snd_una = t->rexmit_nxt = t->iss;
	embryo_wait(l, t);
	t->rtt_timing = 0; /* of a SYN-ACK whose time nobody knows */
	return t;
}

struct tcp *tcp_listen_input(struct tcp *l, struct nic *n, const struct pkt *p, const struct tcp_hdr *h,
			     const struct tcp_opts *o)
{
	struct stack *s = n->stack;
	uint32_t syn_max = l->backlog > s->sysctl.max_syn_backlog ? l->backlog : s->sysctl.max_syn_backlog;

	if (h->flags & TCP_RST)
		return NULL;
	if (h->flags & TCP_ACK) {
		if (tcp_accept_room(l)) {
			struct tcp *t = take_cookie(l, n, p, h, o);

			if (t)
				return t;
		}
		tcp_refuse(n, p, h, p->len);
		return NULL;
	}
	if (!(h->flags & TCP_SYN) || p->link_type || ip_is_multicast(&p->dst))
		return NULL;
	if (!tcp_accept_room(l)) {
		s->c.listen_overflows++;
		s->c.listen_drops++;
		return NULL; /* dropped: the peer tries again */
	}
	if (l->syn_count >= syn_max || s->sysctl.syncookies == 2) {
		if (s->sysctl.syncookies) {
			answer_cookie(l, n, p, h, o);
			return NULL;
		}
		drop_oldest(l);
	}
	struct tcp *t = embryo_new(l, n, p, h, o);

	if (!t)
		return NULL;
	embryo_wait(l, t);
	tcp_send_flags(t, TCP_SYN | TCP_ACK, t->iss);
	return NULL;
}

/* The handshake is done (and, with TCP_DEFER_ACCEPT, data is here): ready for accept(2). */
void tcp_embryo_established(struct tcp *t)
{
	struct tcp *l = t->listener;

	t->deferred = 0;
	if (!l)
		return;
	list_del(&t->q_node);
	l->syn_count--;
	list_add_tail(&t->q_node, &l->acceptq);
	l->accept_count++;
	endpoint_wake(&l->ep, POLLIN | POLLRDNORM);
}

/* A dying embryo leaves; one that waits for accept(2) stays to be found dead, as on Linux. */
void tcp_leave_listener(struct tcp *t)
{
	struct tcp *l = t->listener;

	if (!l || (t->state != TCPS_SYN_RECV && !t->deferred))
		return;
	list_del(&t->q_node);
	l->syn_count--;
	t->listener = NULL;
	t->deferred = 0;
	endpoint_put_locked(&t->ep); /* `alive` still holds it */
}

struct endpoint *tcp_accept(struct endpoint *ep)
{
	struct tcp *l = tcp_of(ep);

	if (l->state != TCPS_LISTEN)
		return ERR_PTR(-EINVAL);
	if (list_empty(&l->acceptq))
		return ERR_PTR(-EAGAIN);
	struct tcp *t = list_first(&l->acceptq, struct tcp, q_node);

	list_del(&t->q_node);
	l->accept_count--;
	t->listener = NULL;
	t->ep.owned = 1;
	return &t->ep;
}

void tcp_unlisten(struct tcp *l)
{
	struct tcp *t, *tmp;

	list_for_each_safe(t, tmp, &l->synq, q_node) {
		endpoint_get(&t->ep);
		tcp_reset(t);
		if (t->deferred)
			tcp_set_state(t, TCPS_SYN_RECV); /* so that it leaves the queue */
		tcp_done(t, 0);
		endpoint_put_locked(&t->ep);
	}
	list_for_each_safe(t, tmp, &l->acceptq, q_node) {
		list_del(&t->q_node);
		l->accept_count--;
		t->listener = NULL;
		if (t->state != TCPS_CLOSE && t->state != TCPS_TIME_WAIT) {
			tcp_reset(t);
			tcp_done(t, 0);
		}
		endpoint_put_locked(&t->ep);
	}
	tcp_set_state(l, TCPS_CLOSE);
	if (!l->ep.port_bound)
		port_release(&l->ep);
	endpoint_wake(&l->ep, POLLIN | POLLRDNORM | POLLOUT | POLLHUP);
}
