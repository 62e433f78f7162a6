/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of a connection: bytes in and out, readiness, options, numbers. Guest memory is
 * copied with the stack lock released; buffers being read are pinned by references of their own.
 */
#include <errno.h>
#include <string.h>

#include "netstack/tcp/tcp_priv.h"

#define SEND_PIECE 65536u
#define SMALL 2048u
#define SNDBUF_FLOOR 4608u /* SOCK_MIN_SNDBUF */
#define READ_FRAGS 16

uint32_t tcp_sndbuf_used(const struct tcp *t)
{
	if (list_empty(&t->sq))
		return 0;
	return t->snd_una == t->iss ? t->snd_end - (t->iss + 1) : t->snd_end - t->snd_una;
}

/* When packets take more memory than they may, what is queued has to leave first. */
uint32_t tcp_sndbuf(const struct tcp *t)
{
	uint32_t limit = (uint32_t)t->ep.o.sndbuf;

	return limit > SNDBUF_FLOOR && stack_full(t->ep.stack) ? SNDBUF_FLOOR : limit;
}

void tcp_sndbuf_expand(struct tcp *t)
{
	uint32_t max = t->ep.stack->sysctl.tcp_wmem[2], want = t->cwnd > max / 2 ? max : 2 * t->cwnd;

	if (!t->ep.o.sndbuf_locked && !stack_pressed(t->ep.stack) && want > (uint32_t)t->ep.o.sndbuf)
		t->ep.o.sndbuf = (int)want;
}

/* ---- sending ---- */

/* 0 and *room, or what send(2) says. */
static int send_check(struct tcp *t, uint32_t *room)
{
	struct endpoint *ep = &t->ep;

	if (ep->error) {
		int e = ep->error;

		ep->error = 0;
		return -e;
	}
	if (ep->shut & 2)
		return -EPIPE;
	if (t->state == TCPS_SYN_SENT || t->state == TCPS_SYN_RECV) {
		ep->nospace = 1;
		return -EAGAIN;
	}
	if (t->state != TCPS_ESTABLISHED && t->state != TCPS_CLOSE_WAIT)
		return -EPIPE;
	uint32_t used = tcp_sndbuf_used(t);

	uint32_t limit = tcp_sndbuf(t);

	if (used >= limit) {
		ep->nospace = 1;
		return -EAGAIN;
	}
	*room = limit - used;
	return 0;
}

/* Puts n bytes at the end of the send queue: into the last buffer, or as one of its own (consumes
 * b when given). */
static int append(struct tcp *t, const void *small, struct nbuf *b, uint32_t n)
{
	if (!b) {
		struct nbuf *last = list_empty(&t->sq) ? NULL : list_last(&t->sq, struct nbuf, node);

		if (!last || last->cap - last->used < n) {
			uint32_t cap = last ? last->cap * 2 : 512;

			cap = cap < n ? n : cap > SEND_PIECE ? SEND_PIECE : cap;
			last = nbuf_new(cap);
			if (!last)
				return -ENOBUFS;
			list_add_tail(&last->node, &t->sq);
		}
		memcpy(last->data + last->used, small, n);
		last->used += n;
	} else {
		list_add_tail(&b->node, &t->sq);
	}
	t->snd_end += n;
	return 0;
}

ssize_t tcp_send(struct endpoint *ep, struct ep_send *m)
{
	struct tcp *t = tcp_of(ep);
	struct stack *s = ep->stack;
	uint32_t room = 0;
	ssize_t done = 0;
	int err;

	stack_lock(s);
	err = send_check(t, &room);
	stack_unlock(s);
	if (err)
		return err;
	while (m->u->left) {
		uint32_t n = m->u->left < SEND_PIECE ? (uint32_t)m->u->left : SEND_PIECE;
		uint8_t small[SMALL];
		struct nbuf *b = NULL;
		ssize_t got;

		if (n > room)
			n = room;
		if (n > SMALL) {
			b = nbuf_new(n);
			if (!b)
				return done ? done : -ENOBUFS;
		}
		got = uio_copy_in(m->u, b ? b->data : small, n);
		if (got <= 0) {
			if (b)
				nbuf_put(b);
			return done ? done : got ? got : -EFAULT;
		}
		if (b)
			b->used = (uint32_t)got;
		stack_lock(s);
		err = send_check(t, &room);
		if (err == -EAGAIN) { /* another sender took the room; the bytes are copied, so keep them */
			room = 0;
			err = 0;
		}
		if (!err)
			err = append(t, small, b, (uint32_t)got);
		if (!err) {
			uint8_t cork = ep->o.cork;
			int last = !m->u->left;

			if ((m->flags & EPF_OOB) && last) {
				t->urg_out = 1;
				t->snd_up = t->snd_end;
				t->force_ack = 1; /* urgent data does not wait for Nagle */
			}
			if (m->flags & EPF_MORE)
				ep->o.cork = 1;
			tcp_output(t);
			ep->o.cork = cork;
			t->force_ack = 0;
			done += got;
			uint32_t used = tcp_sndbuf_used(t);

			/* What is delivered at once on loopback is free again when the lock goes. */
			room = used < tcp_sndbuf(t) ? tcp_sndbuf(t) - used : 0;
		}
		stack_unlock(s);
		if (err) {
			if (b)
				nbuf_put(b);
			return done ? done : err;
		}
		if ((size_t)got < n)
			return done; /* a bad page follows */
		if (m->u->left && !room) {
			stack_lock(s);
			err = send_check(t, &room);
			stack_unlock(s);
			if (err)
				return done;
		}
	}
	return done;
}

/* ---- receiving ---- */

static void consume(struct tcp *t, uint32_t n)
{
	struct endpoint *ep = &t->ep;
	uint64_t now;

	if (n > ep->rq_bytes)
		n = ep->rq_bytes;
	ep->rq_bytes -= n;
	t->copied_seq += n;
	t->drs_bytes += n;
	while (n) {
		struct pkt *p = list_first(&ep->rq, struct pkt, node);

		if (n < p->len) {
			pkt_trim_front(p, n);
			break;
		}
		n -= p->len;
		list_del(&p->node);
		pkt_free(p);
	}
	/* Autotuning: a reader that empties the buffer every round trip gets a bigger one. */
	if (!ep->o.rcvbuf_locked && !stack_pressed(ep->stack) && t->drs_bytes >= (uint32_t)ep->o.rcvbuf) {
		uint32_t max = ep->stack->sysctl.tcp_rmem[2];

		now = stack_now(ep->stack);
		if (now - t->drs_start < 4 * t->srtt + 10000000u && (uint32_t)ep->o.rcvbuf < max)
			ep->o.rcvbuf = (uint32_t)ep->o.rcvbuf * 2 > max ? (int)max : ep->o.rcvbuf * 2;
		t->drs_start = now;
		t->drs_bytes = 0;
	}
}

static ssize_t recv_oob(struct tcp *t, struct ep_recv *m)
{
	struct endpoint *ep = &t->ep;
	uint8_t byte = t->urg_byte;
	int have = t->urg_have;
	ssize_t ret;

	if (ep->o.oobinline || !t->urg_in || t->urg_taken) {
		ret = -EINVAL;
	} else if (have) {
		if (!(m->flags & EPF_PEEK)) {
			t->urg_have = 0;
			t->urg_taken = 1;
		}
		ret = 1;
	} else {
		ret = t->state == TCPS_CLOSE || (ep->shut & 1) ? 0 : -EAGAIN;
	}
	stack_unlock(ep->stack);
	if (ret == 1) {
		m->oob = 1;
		if (m->u->left)
			ret = uio_copy_out(m->u, &byte, 1);
		else
			m->truncated = 1;
	}
	return ret;
}

/* Nothing to read: why. */
static int empty_reason(struct tcp *t)
{
	struct endpoint *ep = &t->ep;

	if (ep->error) {
		int e = ep->error;

		ep->error = 0;
		return -e;
	}
	if (ep->shut & 1)
		return 0;
	if (t->state == TCPS_CLOSE)
		return t->was_connected ? 0 : -ENOTCONN;
	return -EAGAIN;
}

ssize_t tcp_recv(struct endpoint *ep, struct ep_recv *m)
{
	struct tcp *t = tcp_of(ep);
	struct stack *s = ep->stack;
	uint32_t peeked = 0;
	ssize_t done = 0;

	stack_lock(s);
	if (t->state == TCPS_LISTEN) {
		stack_unlock(s);
		return -ENOTCONN;
	}
	if (m->flags & EPF_OOB)
		return recv_oob(t, m);
	for (;;) {
		struct nbuf *bufs[READ_FRAGS];
		struct uio_seg seg[READ_FRAGS];
		uint32_t count = 0, total = 0, skip = peeked;
		size_t want = m->u->left;
		struct pkt *p;

		if (!want && done)
			break;
		/* The mark: a read ends there; the byte itself is not in the stream unless asked. */
		if (t->urg_in && seq_le(t->copied_seq + peeked, t->urg_seq)) {
			uint32_t to_mark = t->urg_seq - (t->copied_seq + peeked);

			if (!to_mark && done)
				break;
			if (!to_mark && !ep->o.oobinline && ep->rq_bytes > peeked) {
				if (m->flags & EPF_PEEK) {
					peeked++;
				} else {
					consume(t, 1);
					t->urg_in = t->urg_have = 0;
				}
				continue;
			}
			if (to_mark && to_mark < want)
				want = to_mark;
		}
		list_for_each(p, &ep->rq, node) {
			if (skip >= p->len) {
				skip -= p->len;
				continue;
			}
			for (uint32_t i = 0; i < p->frag_count && count < READ_FRAGS && total < want; i++) {
				struct pkt_frag *f = &p->frag[i];

				if (skip >= f->len) {
					skip -= f->len;
					continue;
				}
				uint32_t take = f->len - skip;

				if (take > want - total)
					take = (uint32_t)(want - total);
				bufs[count] = nbuf_get(f->b);
				seg[count].base = (uintptr_t)(f->b->data + f->off + skip);
				seg[count++].len = take;
				total += take;
				skip = 0;
			}
			if (count == READ_FRAGS || total >= want)
				break;
		}
		if (!count) {
			if (!done && !(want == 0 && ep->rq_bytes))
				done = empty_reason(t);
			break;
		}
		stack_unlock(s);
		uint32_t got = 0;
		ssize_t bad = 0;

		for (uint32_t i = 0; i < count; i++) {
			ssize_t n = (ssize_t)seg[i].len;

			if (bad) {
				nbuf_put(bufs[i]);
				continue;
			}
			if (m->flags & EPF_TRUNC)
				uio_advance(m->u, seg[i].len);
			else
				n = uio_copy_out(m->u, (void *)(uintptr_t)seg[i].base, seg[i].len);
			nbuf_put(bufs[i]);
			if (n < 0 || (uint64_t)n < seg[i].len)
				bad = n < 0 ? n : -EFAULT;
			if (n > 0)
				got += (uint32_t)n;
		}
		stack_lock(s);
		done += got;
		if (m->flags & EPF_PEEK)
			peeked += got;
		else
			consume(t, got);
		if (bad) {
			if (!done)
				done = bad;
			break;
		}
	}
	if (done > 0 && !(m->flags & EPF_PEEK))
		tcp_window_update(t);
	stack_unlock(s);
	return done;
}

/* ---- readiness: tcp_poll of Linux ---- */

uint32_t tcp_ready(struct endpoint *ep)
{
	struct tcp *t = tcp_of(ep);
	uint32_t m = 0;

	if (t->state == TCPS_LISTEN)
		return list_empty(&t->acceptq) ? 0 : POLLIN | POLLRDNORM;
	if (ep->shut == 3 || t->state == TCPS_CLOSE)
		m |= POLLHUP;
	if (ep->shut & 1)
		m |= POLLIN | POLLRDNORM | POLLRDHUP;
	if (t->state != TCPS_SYN_SENT && t->state != TCPS_SYN_RECV) {
		uint32_t have = ep->rq_bytes, low = (uint32_t)ep->o.rcvlowat;

		if (low > (uint32_t)ep->o.rcvbuf / 2)
			low = (uint32_t)ep->o.rcvbuf / 2;
		/* The urgent byte alone is nothing to read. */
		if (t->urg_in && !ep->o.oobinline && t->urg_seq - t->copied_seq < have)
			have = have - 1;
		if (have && have >= low)
			m |= POLLIN | POLLRDNORM;
		if (ep->shut & 2) {
			m |= POLLOUT | POLLWRNORM;
		} else if (tcp_sndbuf_used(t) <= tcp_sndbuf(t) / 3 * 2) {
			m |= POLLOUT | POLLWRNORM;
		} else {
			ep->nospace = 1;
		}
		if (t->urg_in && t->urg_have)
			m |= POLLPRI;
	}
	if (ep->error || !list_empty(&ep->errq))
		m |= POLLERR;
	return m;
}

/* Options changed: NODELAY and CORK push, KEEPALIVE starts its timer, a bigger buffer is told. */
void tcp_options(struct endpoint *ep)
{
	struct tcp *t = tcp_of(ep);

	if (t->state == TCPS_CLOSE || t->state == TCPS_LISTEN)
		return;
	tcp_output(t);
	tcp_arm_keep(t);
	if (t->delack_on && ep->o.quickack)
		tcp_ack(t);
	if (t->ep.nospace && tcp_sndbuf_used(t) <= tcp_sndbuf(t) / 3 * 2) {
		t->ep.nospace = 0;
		endpoint_wake(ep, POLLOUT | POLLWRNORM);
	}
}

uint32_t endpoint_outq(struct endpoint *ep)
{
	uint32_t n = 0;

	stack_lock(ep->stack);
	if (ep->kind == EP_TCP)
		n = tcp_sndbuf_used(tcp_of(ep));
	stack_unlock(ep->stack);
	return n;
}

int endpoint_at_mark(struct endpoint *ep)
{
	struct tcp *t = tcp_of(ep);
	int at = 0;

	stack_lock(ep->stack);
	if (ep->kind == EP_TCP)
		at = t->urg_in && t->urg_seq == t->copied_seq;
	stack_unlock(ep->stack);
	return at;
}

static uint32_t since_ms(uint64_t now, uint64_t then)
{
	return then ? (uint32_t)((now - then) / 1000000u) : 0;
}

void endpoint_tcp_numbers(struct endpoint *ep, struct tcp_numbers *n)
{
	struct tcp *t = tcp_of(ep);
	uint32_t mss = t->snd_mss ? t->snd_mss : 1;

	memset(n, 0, sizeof(*n));
	stack_lock(ep->stack);
	uint64_t now = stack_now(ep->stack);

	n->state = t->state;
	n->ca_state = t->recovery == 2 ? 4 : t->recovery == 1 ? 3 : t->dup_acks ? 1 : 0;
	n->retransmits = (uint8_t)t->retries;
	n->probes = (uint8_t)t->probes_out;
	n->backoff = (uint8_t)t->backoff;
	n->options = (uint8_t)(t->ts_ok | t->sack_ok << 1 | t->wscale_ok << 2);
	n->snd_wscale = t->snd_wscale;
	n->rcv_wscale = t->rcv_wscale;
	n->rto_us = (uint32_t)(t->rto / 1000);
	n->ato_us = 40000;
	n->snd_mss = t->snd_mss;
	n->rcv_mss = t->rcv_mss;
	if (t->state == TCPS_LISTEN) {
		n->unacked = t->accept_count;
		n->sacked = t->backlog;
	} else {
		n->unacked = (t->snd_max - t->snd_una + mss - 1) / mss;
		n->sacked = t->sacked_bytes / mss;
	}
	n->last_data_sent_ms = since_ms(now, t->last_send_ns);
	n->last_data_recv_ms = since_ms(now, t->last_recv_ns);
	n->last_ack_recv_ms = since_ms(now, t->last_ack_ns);
	n->pmtu = t->adv_mss + (ip_is_v4(&ep->raddr) ? 40u : 60u);
	n->rcv_ssthresh = (uint32_t)ep->o.rcvbuf / 2;
	n->rtt_us = (uint32_t)(t->srtt / 1000);
	n->rttvar_us = (uint32_t)(t->rttvar / 1000);
	n->snd_ssthresh = t->ssthresh / mss;
	n->snd_cwnd = t->cwnd / mss;
	n->advmss = t->adv_mss;
	n->reordering = 3;
	n->rcv_space = (uint32_t)ep->o.rcvbuf / 2;
	n->total_retrans = t->total_retrans;
	n->snd_wnd = t->snd_wnd;
	n->rcv_wnd = tcp_window(t);
	n->notsent = seq_lt(t->snd_nxt, t->snd_end) ? t->snd_end - t->snd_nxt : 0;
	n->bytes_acked = t->bytes_acked;
	n->bytes_received = t->bytes_received;
	n->bytes_sent = t->bytes_sent;
	n->bytes_retrans = t->bytes_retrans;
	n->segs_out = t->segs_out;
	n->segs_in = t->segs_in;
	n->data_segs_in = t->data_in;
	n->data_segs_out = t->data_out;
	n->min_rtt_us = t->min_rtt == UINT64_MAX ? 0 : (uint32_t)(t->min_rtt / 1000);
	n->rcv_ooopack = t->rcv_ooo;
	stack_unlock(ep->stack);
}

void tcp_table_row(struct endpoint *ep, struct tcp_table_row *r)
{
	struct tcp *t = tcp_of(ep);
	uint64_t now = stack_now(ep->stack);
	const struct stimer *st = stimer_armed(&t->rexmit) ? &t->rexmit : stimer_armed(&t->keep) ? &t->keep : NULL;

	memset(r, 0, sizeof(*r));
	if (t->state == TCPS_LISTEN) {
		r->rxq = t->accept_count;
		r->txq = 0;
	} else {
		r->txq = tcp_sndbuf_used(t);
		r->rxq = ep->rq_bytes;
	}
	r->backlog = t->accept_count;
	r->backlog_max = t->backlog;
	r->timer = !st ? 0 : st == &t->rexmit ? (t->probes_out ? 4 : 1) : t->state == TCPS_TIME_WAIT ? 3 : 2;
	r->timer_left_ns = st && st->deadline > now ? st->deadline - now : 0;
	r->retransmits = t->retries;
	r->probes = t->probes_out;
	r->rto_us = (uint32_t)(t->rto / 1000);
	r->ato_us = 40000;
	r->cwnd = t->snd_mss ? t->cwnd / t->snd_mss : 0;
	r->ssthresh = t->ssthresh >= (64u << 20) ? -1 : (int)(t->ssthresh / (t->snd_mss ? t->snd_mss : 1));
}
