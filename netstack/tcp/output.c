/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending. tcp_output() is the only place that decides whether data, a FIN or a window probe may
 * go: the peer's window, the congestion window, Nagle (RFC 1122, 4.2.3.4), TCP_CORK and the silly
 * window rule. Segments may be larger than the MSS when the interface splits them.
 */
#include <errno.h>
#include <string.h>

#include "netstack/tcp/tcp_priv.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- the window we advertise ---- */

uint32_t tcp_window(struct tcp *t)
{
	uint32_t space = (uint32_t)t->ep.o.rcvbuf, used = t->ep.rq_bytes;
	uint32_t max = t->wscale_ok ? 65535u << t->rcv_wscale : 65535u;
	uint32_t win = space > used ? space - used : 0;
	uint32_t unit = min_u32(t->rcv_mss ? t->rcv_mss : 536, space / 2);

	if (t->ep.o.window_clamp)
		max = min_u32(max, t->ep.o.window_clamp);
	win = min_u32(win, max);
	/* RFC 9293, 3.8.6.2.2: do not offer less than a segment or half the buffer. */
	if (win < unit)
		win = 0;
	/* Never take back what was offered (RFC 9293, 3.8.6). */
	uint32_t offered = seq_lt(t->rcv_nxt, t->rcv_adv) ? t->rcv_adv - t->rcv_nxt : 0;

	if (win < offered)
		win = offered;
	if (t->wscale_ok && t->rcv_wscale)
		win = (win >> t->rcv_wscale) << t->rcv_wscale;
	return win < offered && !t->rcv_wscale ? offered : win;
}

static uint16_t window_field(struct tcp *t, uint8_t flags)
{
	uint32_t win = tcp_window(t);

	if (flags & TCP_SYN) {
		win = min_u32(win, 65535);
	} else {
		uint32_t field = win >> t->rcv_wscale;

		if (field > 65535)
			field = 65535;
		win = field << t->rcv_wscale;
	}
	t->rcv_wup = t->rcv_nxt;
	if (seq_lt(t->rcv_adv, t->rcv_nxt + win))
		t->rcv_adv = t->rcv_nxt + win;
	return (uint16_t)((flags & TCP_SYN) ? win : win >> t->rcv_wscale);
}

/* The reader made room: tell the peer when it is worth a packet. */
void tcp_window_update(struct tcp *t)
{
	if (t->state == TCPS_CLOSE || t->state == TCPS_LISTEN || t->state == TCPS_SYN_SENT || t->fin_rcvd)
		return;
	uint32_t offered = seq_lt(t->rcv_nxt, t->rcv_adv) ? t->rcv_adv - t->rcv_nxt : 0;
	uint32_t win = tcp_window(t);

	/* RFC 9293, 3.8.6.2.2, asks for two segments or half the buffer; with large windows that is an
	 * ACK for each read, so it is a doubling, as in Linux's __tcp_cleanup_rbuf. */
	if ((!offered && win) ||
	    (win >= offered + 2u * t->rcv_mss && (win / 2 >= offered || win - offered >= (uint32_t)t->ep.o.rcvbuf / 2)))
		tcp_ack(t);
}

/* ---- one segment ---- */

/* Adds the header to p (payload in its frags) and sends it; consumes p. */
static int transmit(struct tcp *t, struct pkt *p, uint8_t flags, uint32_t seq)
{
	struct stack *s = t->ep.stack;
	uint8_t opts[40];
	uint32_t payload = p->len, n = tcp_write_options(t, opts, flags);
	struct tcp_hdr *h = pkt_push(p, (uint32_t)sizeof(*h) + n);
	uint64_t now = stack_now(s);

	memcpy(h + 1, opts, n);
	h->sport = htons(t->ep.lport);
	h->dport = htons(t->ep.rport);
	h->seq = htonl(seq);
	h->ack = htonl(flags & TCP_ACK ? t->rcv_nxt : 0);
	h->off = (uint8_t)((sizeof(*h) + n) / 4 << 4);
	h->flags = flags;
	h->window = htons(window_field(t, flags));
	h->csum = 0;
	h->urgent = 0;
	if (t->urg_out && seq_le(seq, t->snd_up) && t->snd_up - seq <= 0xffff && !(flags & TCP_SYN)) {
		h->flags |= TCP_URG;
		h->urgent = htons((uint16_t)(t->snd_up - seq));
	}
	p->gso_size = payload > t->snd_mss ? t->snd_mss : 0;
	if (flags & TCP_ACK) {
		t->segs_unacked = 0;
		t->ack_now = 0;
		if (t->delack_on) {
			t->delack_on = 0;
			stimer_cancel(s, &t->delack);
		}
	}
	s->c.tcp_out++;
	t->segs_out++;
	if (payload) {
		t->data_out++;
		t->bytes_sent += payload;
		t->last_send_ns = now;
	}
	struct ip_out o = {
		.src = t->ep.laddr, .dst = t->ep.raddr, .proto = IPPROTO_TCP, .df = 1,
		.tos = ip_is_v4(&t->ep.raddr) ? t->ep.o.tos : t->ep.o.tclass,
		.ttl = ip_is_v4(&t->ep.raddr) ? t->ep.o.ttl : t->ep.o.hops, .nic = t->ep.o.nic,
		.ep = &t->ep,
	};
	return ip_output(s, p, &o, offsetof(struct tcp_hdr, csum));
}

void tcp_send_flags(struct tcp *t, uint8_t flags, uint32_t seq)
{
	struct pkt *p = pkt_new();

	if (p)
		transmit(t, p, flags, seq);
}

void tcp_ack(struct tcp *t)
{
	tcp_send_flags(t, TCP_ACK, t->snd_max);
}

void tcp_ack_later(struct tcp *t)
{
	if (t->delack_on)
		return;
	t->delack_on = 1;
	stimer_arm(t->ep.stack, &t->delack, stack_now(t->ep.stack) + TCP_DELACK_NS);
}

/* The bytes [seq, seq+len) of the send queue as slices in p; what fits into its frags. */
static uint32_t gather(struct tcp *t, struct pkt *p, uint32_t seq, uint32_t len)
{
	uint32_t off = seq - t->snd_una, done = 0;
	struct nbuf *b;

	if (t->snd_una == t->iss) /* the SYN is not acknowledged: data starts after it */
		off = seq - (t->iss + 1);
	list_for_each(b, &t->sq, node) {
		uint32_t have = b->used - b->start;

		if (off >= have) {
			off -= have;
			continue;
		}
		uint32_t take = min_u32(have - off, len - done);

		if (pkt_add(p, b, b->start + off, take))
			break;
		done += take;
		off = 0;
		if (done == len)
			break;
	}
	return done;
}

/* Sends data [seq, seq+len) and FIN if it is the end. Returns what of it went, in sequence space. */
static uint32_t send_data(struct tcp *t, uint32_t seq, uint32_t len, int fin)
{
	struct pkt *p = pkt_new();
	uint8_t flags = TCP_ACK;
	uint32_t got = 0;

	if (!p)
		return 0;
	if (len) {
		got = gather(t, p, seq, len);
		if (got < len)
			fin = 0;
		if (!got) {
			pkt_free(p);
			return 0;
		}
		if (seq + got == t->snd_end)
			flags |= TCP_PSH;
	}
	if (fin)
		flags |= TCP_FIN;
	if (transmit(t, p, flags, seq) == -EMSGSIZE)
		return 0;
	return got + (fin ? 1 : 0);
}

void tcp_retransmit(struct tcp *t, uint32_t seq, uint32_t limit)
{
	uint32_t end = seq_lt(t->snd_max, t->snd_end) ? t->snd_max : t->snd_end;
	uint32_t len = seq_lt(seq, end) ? end - seq : 0;
	int fin = 0;

	len = min_u32(len, limit);
	len = min_u32(len, t->snd_mss);
	if (t->fin_queued && seq + len == t->snd_end && seq_lt(t->snd_end, t->snd_max))
		fin = 1;
	if (!len && !fin)
		return;
	uint32_t n = send_data(t, seq, len, fin);

	t->ep.stack->c.tcp_retrans++;
	t->total_retrans++;
	t->bytes_retrans += n;
	t->rtt_timing = 0; /* Karn */
	if (t->recovery)
		t->prr_out += n;
	if (seq_lt(t->rexmit_nxt, seq + n))
		t->rexmit_nxt = seq + n;
}

uint32_t tcp_pipe(const struct tcp *t)
{
	uint32_t out = t->snd_max - t->snd_una;

	return out > t->sacked_bytes ? out - t->sacked_bytes : 0;
}

static int nagle_holds(const struct tcp *t, uint32_t len)
{
	if (len >= t->snd_mss)
		return 0;
	if (t->ep.o.cork)
		return 1;
	if (t->ep.o.nodelay || t->force_ack)
		return 0;
	/* Minshall: only an unacknowledged small segment holds back the next one; simplified to any. */
	return t->snd_max != t->snd_una;
}

static uint32_t largest(struct tcp *t)
{
	struct nic *n = stack_local(t->ep.stack, &t->ep.raddr);
	struct route_result r;

	if (n)
		return t->snd_mss;
	if (route_lookup(t->ep.stack, &t->ep.raddr, t->ep.o.nic, &r) || !(r.nic->flags & NIC_GSO))
		return t->snd_mss;
	uint32_t most = (TCP_SEG_MAX - 120) / t->snd_mss * t->snd_mss;

	return most ? most : t->snd_mss;
}

static int may_send_data(const struct tcp *t)
{
	return t->state == TCPS_ESTABLISHED || t->state == TCPS_CLOSE_WAIT || t->state == TCPS_FIN_WAIT1 ||
	       t->state == TCPS_CLOSING || t->state == TCPS_LAST_ACK;
}

void tcp_output(struct tcp *t)
{
	uint32_t big = 0;
	int sent = 0;

	lock_assert_held(&t->ep.stack->lock);
	if (!may_send_data(t))
		return;
	for (;;) {
		uint32_t unsent = t->snd_end - t->snd_nxt;
		int fin_left = t->fin_queued && seq_le(t->snd_nxt, t->snd_end);

		if (seq_lt(t->snd_end, t->snd_nxt))
			unsent = 0; /* the FIN was sent */
		if (!unsent && !fin_left)
			break;
		uint32_t wnd_end = t->snd_una + t->snd_wnd;
		uint32_t room = seq_lt(t->snd_nxt, wnd_end) ? wnd_end - t->snd_nxt : 0;
		uint32_t pipe = tcp_pipe(t);
		uint32_t cw = t->cwnd > pipe ? t->cwnd - pipe : 0;
		uint32_t len = min_u32(unsent, room);

		if (!big)
			big = largest(t);
		len = min_u32(min_u32(len, cw), big);
		int fin = fin_left && len == unsent && room > len;

		if (!len && !fin)
			break;
		if (len && len < unsent && len > t->snd_mss)
			len = len / t->snd_mss * t->snd_mss;
		if (len && len < t->snd_mss && !fin) {
			if (len == unsent ? nagle_holds(t, len) :
					    /* cut by a window: wait for more of it */
					    (t->snd_max != t->snd_una && len < t->snd_wnd_max / 2))
				break;
		}
		uint32_t n = send_data(t, t->snd_nxt, len, fin);

		if (!n)
			break;
		if (!t->rtt_timing) {
			t->rtt_timing = 1;
			t->rtt_seq = t->snd_nxt + n;
			t->rtt_start = stack_now(t->ep.stack);
		}
		if (t->snd_max == t->snd_una)
			t->first_unacked_ns = stack_now(t->ep.stack);
		t->snd_nxt += n;
		if (seq_lt(t->snd_max, t->snd_nxt))
			t->snd_max = t->snd_nxt;
		sent = 1;
	}
	int pending = seq_lt(t->snd_nxt, t->snd_end + (t->fin_queued ? 1 : 0));

	/* In flight: a retransmission time-out; nothing in flight and no window: a probe. */
	if ((sent || (pending && t->snd_max == t->snd_una && !t->snd_wnd)) && !stimer_armed(&t->rexmit))
		tcp_arm_rexmit(t);
	/* Corked bytes leave after 200 ms all the same. */
	if (t->ep.o.cork && t->snd_max == t->snd_una && seq_lt(t->snd_nxt, t->snd_end) && t->snd_wnd &&
	    !stimer_armed(&t->rexmit))
		stimer_arm(t->ep.stack, &t->rexmit, stack_now(t->ep.stack) + TCP_CORK_NS);
	if (t->ack_now)
		tcp_ack(t);
}

/* RFC 9293, 3.10.7.1 */
void tcp_refuse(struct nic *n, const struct pkt *p, const struct tcp_hdr *in, uint32_t payload)
{
	struct pkt *r;

	if ((in->flags & TCP_RST) || p->link_type || ip_is_multicast(&p->dst))
		return;
	r = pkt_new();
	if (!r)
		return;
	struct tcp_hdr *h = pkt_push(r, sizeof(*h));

	memset(h, 0, sizeof(*h));
	h->sport = in->dport;
	h->dport = in->sport;
	h->off = 5 << 4;
	if (in->flags & TCP_ACK) {
		h->flags = TCP_RST;
		h->seq = in->ack;
	} else {
		h->flags = TCP_RST | TCP_ACK;
		h->ack = htonl(ntohl(in->seq) + payload + ((in->flags & TCP_SYN) != 0) +
			       ((in->flags & TCP_FIN) != 0));
	}
	struct ip_out o = { .src = p->dst, .dst = p->src, .proto = IPPROTO_TCP, .ttl = -1, .df = 1,
			    .own = !(n->flags & NIC_LOOPBACK) };

	n->stack->c.tcp_out++;
	n->stack->c.tcp_out_rsts++;
	ip_output(n->stack, r, &o, offsetof(struct tcp_hdr, csum));
}
