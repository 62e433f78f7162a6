/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections: birth, connect, shutdown, close, death. The theory is in tcp_priv.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/tcp/tcp_priv.h"

#define SNDBUF_LOCAL 2626560u /* what Linux's autotuning reaches at once on loopback */

struct endpoint *tcp_new(struct stack *s)
{
	struct tcp *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ep.stack = s;
	tcp_init(t);
	return &t->ep;
}

void tcp_init(struct tcp *t)
{
	t->state = TCPS_CLOSE;
	list_init(&t->sq);
	list_init(&t->ooo);
	list_init(&t->synq);
	list_init(&t->acceptq);
	list_init(&t->q_node);
	list_init(&t->ack_node);
	tcp_timers_init(t);
	t->rto = TCP_RTO_INIT_NS;
	t->min_rtt = UINT64_MAX;
	t->snd_mss = 536;
	t->ep.o.quickack = 1;
}

static void free_sq(struct tcp *t)
{
	while (!list_empty(&t->sq)) {
		struct nbuf *b = list_first(&t->sq, struct nbuf, node);

		list_del(&b->node);
		nbuf_put(b);
	}
	t->sq_mem = 0;
}

/* The last reference is gone; the caller frees the memory. */
void tcp_free(struct endpoint *ep)
{
	struct tcp *t = tcp_of(ep);

	ASSERT(!t->alive);
	tcp_timers_stop(t);
	free_sq(t);
	pkt_list_free(&t->ooo);
}

static int synchronised(int st)
{
	return st == TCPS_ESTABLISHED || st == TCPS_CLOSE_WAIT;
}

void tcp_set_state(struct tcp *t, enum tcp_state st)
{
	struct stack_counters *c = &t->ep.stack->c;

	if (!synchronised(t->state) && synchronised((int)st))
		c->tcp_count++;
	if (synchronised(t->state) && !synchronised((int)st))
		c->tcp_count--;
	if (st == TCPS_TIME_WAIT && t->state != TCPS_TIME_WAIT)
		c->tcp_tw++;
	if (st != TCPS_TIME_WAIT && t->state == TCPS_TIME_WAIT)
		c->tcp_tw--;
	t->state = (uint8_t)st;
}

void tcp_start(struct tcp *t)
{
	struct stack *s = t->ep.stack;

	if (!t->alive) {
		t->alive = 1;
		endpoint_get(&t->ep);
	}
	/* RFC 6528: a keyed hash of the four-tuple plus a clock of 4 µs. */
	uint32_t ports = (uint32_t)t->ep.lport << 16 | t->ep.rport;
	uint64_t h = hash_bytes(&t->ep.raddr, 16, s->secret ^ ports);

	t->iss = (uint32_t)(h + stack_now(s) / 64);
	t->ts_offset = (uint32_t)(h >> 32);
	t->snd_una = t->snd_nxt = t->snd_max = t->iss;
	t->snd_end = t->iss + 1;
	t->rexmit_nxt = t->snd_una;
	t->last_recv_ns = t->last_ack_ns = stack_now(s);
}

int tcp_setup_route(struct tcp *t, int active)
{
	struct route_result r;
	int err = route_lookup(t->ep.stack, &t->ep.raddr, t->ep.o.nic, &r);

	if (err)
		return err;
	uint32_t mtu = route_mtu(&r) > 65535 ? 65535 : route_mtu(&r);
	uint32_t head = ip_is_v4(&t->ep.raddr) ? 40 : 60;

	t->adv_mss = (uint16_t)(mtu - head);
	if (t->ep.o.maxseg && t->ep.o.maxseg < t->adv_mss)
		t->adv_mss = (uint16_t)t->ep.o.maxseg;
	t->rcv_mss = t->adv_mss;
	if (active) {
		if (!t->ep.addr_bound)
			t->ep.laddr = r.src;
		t->snd_mss = t->adv_mss;
		t->wscale_ok = t->sack_ok = t->ts_ok = 1;
	}
	/* The scale has to serve the largest buffer autotuning may reach. */
	uint32_t space = t->ep.o.rcvbuf_locked ? (uint32_t)t->ep.o.rcvbuf : t->ep.stack->sysctl.tcp_rmem[2];

	t->rcv_wscale = 0;
	while (space > 65535u << t->rcv_wscale && t->rcv_wscale < 14)
		t->rcv_wscale++;
	if (!t->ep.o.sndbuf_locked && t->ep.o.sndbuf < (int)SNDBUF_LOCAL && r.local)
		t->ep.o.sndbuf = SNDBUF_LOCAL;
	return 0;
}

int tcp_connect(struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	struct tcp *t = tcp_of(ep);
	struct ip_addr to = *a;
	int err;

	if (t->connecting) {
		if (t->state == TCPS_SYN_SENT || t->state == TCPS_SYN_RECV)
			return -EALREADY;
		t->connecting = 0;
		if (t->state == TCPS_CLOSE) {
			err = ep->error ? -ep->error : -ECONNABORTED;
			ep->error = 0;
			ep->shut = 0;
			return err;
		}
		return 0;
	}
	if (t->state != TCPS_CLOSE)
		return -EISCONN;
	if (ip_is_any(&to))
		to = ip_is_v4(&to) ? ip_from_v4(htonl(INADDR_LOOPBACK)) : (struct ip_addr){ .b[15] = 1 };
	if (ip_is_multicast(&to) || stack_is_broadcast(ep->stack, &to))
		return -ENETUNREACH;
	if (!port)
		port = 0; /* Linux lets it go and gets the refusal */
	ep->raddr = to;
	ep->rport = port;
	ep->shut = 0;
	ep->error = 0;
	ep->cleared = 0; /* another connection than the one that was cleared */
	err = tcp_setup_route(t, 1);
	if (err)
		return err;
	if (list_empty(&ep->bind_node))
		ep->lport = 0;
	if (!ep->lport) {
		err = port_autoconnect(ep);
	} else {
		struct endpoint *o = demux_connected(ep->stack, EP_TCP, &ep->laddr, ep->lport, &ep->raddr,
						     ep->rport, 0);

		if (o && o != ep) {
			if (tcp_timewait_reusable(o))
				tcp_timewait_kill(o);
			else
				err = -EADDRNOTAVAIL;
		}
	}
	if (err) {
		if (!ep->addr_bound)
			ep->laddr = ep->v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);
		return err;
	}
	tcp_start(t);
	cc_init(t);
	ep->connected = 1;
	demux_add(ep);
	t->connecting = 1;
	tcp_set_state(t, TCPS_SYN_SENT);
	ep->stack->c.tcp_active++;
	t->snd_nxt = t->snd_max = t->iss + 1;
	t->rtt_timing = 1;
	t->rtt_seq = t->snd_nxt;
	t->rtt_start = t->first_unacked_ns = stack_now(ep->stack);
	tcp_arm_rexmit(t);
	tcp_send_flags(t, TCP_SYN, t->iss);
	return -EINPROGRESS;
}

/* ---- the end ---- */

void tcp_done(struct tcp *t, int err)
{
	struct endpoint *ep = &t->ep;

	if (t->state == TCPS_SYN_SENT || t->state == TCPS_SYN_RECV)
		ep->stack->c.tcp_fails++;
	if (err && synchronised(t->state))
		ep->stack->c.tcp_est_resets++;
	tcp_leave_listener(t);
	tcp_timers_stop(t);
	list_del(&t->ack_node);
	tcp_set_state(t, TCPS_CLOSE);
	demux_del(ep);
	/* getsockname(2) still shows the port; it is only no longer taken. */
	if (!ep->port_bound || !ep->owned)
		list_del(&ep->bind_node);
	free_sq(t);
	pkt_list_free(&t->ooo);
	t->ooo_bytes = t->ooo_mem = t->ooo_count = 0;
	t->snd_end = t->snd_nxt = t->snd_max = t->snd_una;
	ep->shut = 3;
	if (err)
		ep->error = err;
	endpoint_wake(ep, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | POLLHUP | POLLPRI |
			  (err ? POLLERR : 0));
	if (t->alive) {
		t->alive = 0;
		endpoint_put_locked(ep);
	}
}

void tcp_abort(struct endpoint *ep, int err)
{
	struct tcp *t = tcp_of(ep);

	if (t->state == TCPS_CLOSE || t->state == TCPS_LISTEN)
		return;
	endpoint_get(ep);
	tcp_done(t, err);
	endpoint_put_locked(ep);
}

void tcp_reset(struct tcp *t)
{
	t->ep.stack->c.tcp_out_rsts++;
	tcp_send_flags(t, TCP_RST | TCP_ACK, t->snd_nxt);
}

void tcp_time_wait(struct tcp *t)
{
	struct stack *s = t->ep.stack;

	if (s->c.tcp_tw >= s->sysctl.max_tw) {
		tcp_done(t, 0);
		return;
	}
	tcp_set_state(t, TCPS_TIME_WAIT);
	tcp_timers_stop(t);
	free_sq(t);
	t->ep.shut = 3;
	t->tw_since = stack_now(s);
	stimer_arm(s, &t->keep, t->tw_since + TCP_MSL2_NS);
	endpoint_wake(&t->ep, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLHUP | POLLRDHUP);
}

int tcp_is_timewait(const struct endpoint *ep)
{
	return ep->kind == EP_TCP && container_of(ep, const struct tcp, ep)->state == TCPS_TIME_WAIT;
}

/* Linux's tcp_tw_reuse = 2: on loopback, with timestamps, after a second. */
int tcp_timewait_reusable(const struct endpoint *ep)
{
	const struct tcp *t = container_of(ep, const struct tcp, ep);
	uint32_t mode = ep->stack->sysctl.tw_reuse;

	if (ep->kind != EP_TCP || t->state != TCPS_TIME_WAIT || !t->ts_ok || !mode)
		return 0;
	if (mode == 2 && !ip_is_loopback(&ep->laddr))
		return 0;
	return stack_now(ep->stack) - t->tw_since > 1000000000u;
}

void tcp_timewait_kill(struct endpoint *ep)
{
	tcp_done(tcp_of(ep), 0);
}

void tcp_fin(struct tcp *t)
{
	switch (t->state) {
	case TCPS_SYN_RECV:
	case TCPS_ESTABLISHED:
		tcp_set_state(t, TCPS_FIN_WAIT1);
		break;
	case TCPS_CLOSE_WAIT:
		tcp_set_state(t, TCPS_LAST_ACK);
		break;
	default:
		return;
	}
	t->fin_queued = 1;
	t->ep.o.cork = 0;
	tcp_output(t);
}

int tcp_shutdown(struct endpoint *ep, int how)
{
	struct tcp *t = tcp_of(ep);
	int err = 0;

	switch (t->state) {
	case TCPS_CLOSE:
		return -ENOTCONN;
	case TCPS_LISTEN:
		if (how & 1) {
			tcp_unlisten(t);
			ep->shut = 0;
		}
		break;
	case TCPS_SYN_SENT:
		if (how & 2) {
			t->connecting = 0;
			tcp_done(t, 0);
			ep->shut = 0;
			break;
		}
		ep->shut |= (uint8_t)how;
		break;
	default:
		ep->shut |= (uint8_t)how;
		if (how & 2)
			tcp_fin(t);
	}
	endpoint_wake(ep, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | (ep->shut == 3 ? POLLHUP : 0));
	return err;
}

int tcp_disconnect(struct endpoint *ep)
{
	struct tcp *t = tcp_of(ep);

	if (t->state == TCPS_LISTEN) {
		tcp_unlisten(t);
	} else if (t->state != TCPS_CLOSE) {
		if (t->state != TCPS_SYN_SENT && t->state != TCPS_TIME_WAIT)
			tcp_reset(t);
		tcp_done(t, 0);
	}
	pkt_list_free(&ep->rq);
	ep->rq_bytes = ep->rq_mem = ep->rq_count = 0;
	if (!ep->addr_bound)
		ep->laddr = ep->v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);
	if (!ep->port_bound)
		port_release(ep);
	ep->rport = 0;
	ep->connected = 0;
	ep->shut = 0;
	ep->error = ep->soft_error = 0;
	t->connecting = t->was_connected = t->fin_queued = t->fin_rcvd = 0;
	t->urg_in = t->urg_have = t->urg_out = 0;
	t->srtt = t->rttvar = 0;
	t->rto = TCP_RTO_INIT_NS;
	t->backoff = t->retries = t->probes_out = 0;
	t->sacked_count = t->sacked_bytes = 0;
	t->recovery = 0;
	return 0;
}

/* close(2): tcp_close of Linux. */
void tcp_close(struct endpoint *ep)
{
	struct tcp *t = tcp_of(ep);
	int unread = ep->rq_bytes != 0 && !(ep->shut & 1 && t->state == TCPS_CLOSE);

	if (t->state == TCPS_LISTEN) {
		tcp_unlisten(t);
		port_release(ep);
		return;
	}
	pkt_list_free(&ep->rq);
	ep->rq_bytes = ep->rq_mem = ep->rq_count = 0;
	if (t->state == TCPS_CLOSE) {
		port_release(ep);
		return;
	}
	if (t->state == TCPS_TIME_WAIT)
		return;
	if (t->state == TCPS_SYN_SENT) {
		tcp_done(t, 0);
		return;
	}
	/* RFC 2525, 2.17: unread data is told to the peer by a reset. */
	if (unread || (ep->o.linger_on && !ep->o.linger_s)) {
		tcp_reset(t);
		tcp_done(t, 0);
		return;
	}
	ep->shut = 3;
	if (!t->fin_queued)
		tcp_fin(t);
	if (t->state == TCPS_FIN_WAIT2)
		tcp_arm_keep(t);
}

int endpoint_tcp_state(const struct endpoint *ep)
{
	return ep->kind == EP_TCP ? container_of(ep, const struct tcp, ep)->state :
	       ep->connected	  ? TCPS_ESTABLISHED :
				    TCPS_CLOSE;
}

/* An ICMP error about a segment of ours: RFC 5927's checks were made. */
void tcp_icmp_error(struct endpoint *ep, int err, uint32_t seq, uint32_t mtu)
{
	struct tcp *t = tcp_of(ep);

	if (t->state == TCPS_LISTEN || t->state == TCPS_CLOSE || t->state == TCPS_TIME_WAIT)
		return;
	if (seq_lt(seq, t->snd_una) || seq_lt(t->snd_max, seq))
		return;
	if (mtu) {
		uint32_t head = ip_is_v4(&ep->raddr) ? 40 : 60;
		uint32_t floor = ip_is_v4(&ep->raddr) ? 552 : 1280;
		uint32_t mss = (mtu < floor ? floor : mtu) - head - (t->ts_ok ? 12 : 0);

		if (mss < t->snd_mss) {
			t->snd_mss = (uint16_t)mss;
			t->rexmit_nxt = t->snd_una;
			if (t->snd_max != t->snd_una)
				tcp_retransmit(t, t->snd_una, mss);
		}
		return;
	}
	/* Linux (tcp_v4_err) ends an attempt by any of them, RFC 1122 notwithstanding. */
	if (t->state == TCPS_SYN_SENT || t->state == TCPS_SYN_RECV) {
		if (t->listener)
			return;
		tcp_done(t, err);
		return;
	}
	ep->soft_error = err;
	if (ep->o.recverr) {
		ep->error = err;
		endpoint_wake(ep, POLLERR | POLLIN | POLLOUT);
	}
}
