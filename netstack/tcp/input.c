/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that arrive, in the order of RFC 9293, 3.10.7: find the connection, check the sequence
 * number, RST, SYN, ACK, urgent, data, FIN. Resets and SYNs inside a connection are believed only
 * as RFC 5961 allows.
 */
#include <errno.h>
#include <string.h>

#include "netstack/tcp/tcp_priv.h"

#define ACK_BURST_MAX 262144u /* bytes that one acknowledgement covers at most */
#define PAWS_MAX_NS (24ull * 24 * 3600 * 1000000000u)
#define CHALLENGES_PER_S 1000
#define MERGE_MAX 1024u
#define MERGE_CAP 8192u

struct seg {
	struct nic *nic;
	struct pkt *p;	/* payload only; NULL once taken */
	uint32_t seq, ack, len, wnd;
	uint8_t flags;
	uint16_t urgent;
	struct tcp_opts o;
};

/* RFC 5961: an ACK that asks "did you mean it"; limited in number. */
static void challenge(struct tcp *t)
{
	struct stack *s = t->ep.stack;
	uint64_t now = stack_now(s);

	if (now - s->challenge_ns > 1000000000u) {
		s->challenge_ns = now;
		s->challenge_count = 0;
	}
	if (s->challenge_count++ < CHALLENGES_PER_S)
		tcp_ack(t);
}

/* ---- data ---- */

/* Moves p's bytes to the end of ep.rq, sharing buffers where they continue each other and copying
 * small pieces together, so that the memory held stays in proportion to the bytes. */
static void rq_append(struct tcp *t, struct pkt *p)
{
	struct endpoint *ep = &t->ep;
	struct pkt *tail = list_empty(&ep->rq) ? NULL : list_last(&ep->rq, struct pkt, node);

	ep->rq_bytes += p->len;
	if (p->hlen)
		pkt_linearise(p); /* on failure its bytes stay in the header area, still readable */
	if (tail && tail->frag_count && !p->hlen && p->frag_count) {
		struct pkt_frag *f = &tail->frag[tail->frag_count - 1];

		if (p->frag_count == 1 && f->b == p->frag[0].b && f->off + f->len == p->frag[0].off) {
			f->len += p->len;
			tail->len += p->len;
			pkt_free(p);
			return;
		}
		if (p->len <= MERGE_MAX && ref_read(&f->b->ref) == 1 && f->off + f->len == f->b->used &&
		    f->b->cap - f->b->used >= p->len) {
			pkt_copy(p, 0, f->b->data + f->b->used, p->len);
			f->b->used += p->len;
			f->len += p->len;
			tail->len += p->len;
			pkt_free(p);
			return;
		}
		if (p->frag_count <= PKT_FRAGS - tail->frag_count && p->len > MERGE_MAX) {
			for (uint32_t i = 0; i < p->frag_count; i++)
				pkt_add(tail, p->frag[i].b, p->frag[i].off, p->frag[i].len);
			pkt_free(p);
			return;
		}
	}
	if (tail && p->len <= MERGE_MAX) { /* the second small piece in a row: start a shared buffer */
		struct nbuf *b = nbuf_new(MERGE_CAP);

		if (b) {
			pkt_copy(p, 0, b->data, p->len);
			b->used = p->len;
			uint32_t n = p->len;

			pkt_trim_front(p, n);
			pkt_add(p, b, 0, n);
			nbuf_put(b);
		}
	}
	list_add_tail(&p->node, &ep->rq);
}

static void deliver(struct tcp *t, struct pkt *p)
{
	t->rcv_nxt += p->len;
	t->bytes_received += p->len;
	rq_append(t, p);
}

static void ooo_drain(struct tcp *t)
{
	while (!list_empty(&t->ooo)) {
		struct pkt *o = list_first(&t->ooo, struct pkt, node);

		if (seq_lt(t->rcv_nxt, o->tcp.seq))
			break;
		list_del(&o->node);
		t->ooo_bytes -= o->len;
		t->ooo_mem -= pkt_truesize(o);
		t->ooo_count--;
		uint32_t old = t->rcv_nxt - o->tcp.seq;

		if (old >= o->len) {
			pkt_free(o);
			continue;
		}
		pkt_trim_front(o, old);
		deliver(t, o);
	}
}

static void ooo_insert(struct tcp *t, struct pkt *p, uint32_t seq)
{
	struct pkt *o, *tmp, *before = NULL;
	uint32_t end = seq + p->len;

	t->rcv_ooo++;
	if (t->ooo_mem + pkt_truesize(p) > 2u * (uint32_t)t->ep.o.rcvbuf + 65536u || stack_full(t->ep.stack)) {
		pkt_free(p); /* the sender will repeat it */
		return;
	}
	list_for_each_safe(o, tmp, &t->ooo, node) {
		if (seq_le(o->tcp.end, seq))
			continue;
		if (seq_le(end, o->tcp.seq)) {
			before = o;
			break;
		}
		if (seq_le(o->tcp.seq, seq)) {
			if (seq_le(end, o->tcp.end)) { /* nothing new */
				t->last_sack = seq;
				pkt_free(p);
				return;
			}
			pkt_trim_front(p, o->tcp.end - seq);
			seq = o->tcp.end;
		} else if (seq_le(o->tcp.end, end)) {
			t->ooo_bytes -= o->len;
			t->ooo_mem -= pkt_truesize(o);
			t->ooo_count--;
			list_del(&o->node);
			pkt_free(o);
		} else {
			pkt_trim_end(p, end - o->tcp.seq);
			end = o->tcp.seq;
			before = o;
			break;
		}
	}
	p->tcp.seq = t->last_sack = seq;
	p->tcp.end = end;
	t->ooo_bytes += p->len;
	t->ooo_mem += pkt_truesize(p);
	t->ooo_count++;
	list_add_tail(&p->node, before ? &before->node : &t->ooo);
}

static void ack_policy(struct tcp *t, struct seg *g)
{
	t->segs_unacked += g->len;
	/* On loopback a delayed ACK saves nothing and would need a timer. */
	if ((g->nic->flags & NIC_LOOPBACK) || !list_empty(&t->ooo) || t->data_in < 16 ||
	    t->segs_unacked >= 2u * t->rcv_mss || t->fin_rcvd)
		t->ack_now = 1;
	else
		tcp_ack_later(t);
}

static void urgent(struct tcp *t, const struct seg *g)
{
	uint32_t at;

	if (!(g->flags & TCP_URG) || !g->urgent)
		return;
	/* The pointer is one past the urgent byte, as everybody but RFC 1122 has it. */
	at = g->seq + g->urgent - 1;
	if (seq_lt(at, t->copied_seq) || (t->urg_in && seq_le(at, t->urg_seq)))
		return;
	t->urg_in = 1;
	t->urg_have = t->urg_taken = 0;
	t->urg_seq = at;
}

static void urgent_byte(struct tcp *t, const struct seg *g)
{
	if (!t->urg_in || t->urg_have || t->urg_taken)
		return;
	uint32_t off = t->urg_seq - g->seq;

	if (off < g->len && g->p && !pkt_copy(g->p, off, &t->urg_byte, 1)) {
		t->urg_have = 1;
		endpoint_wake(&t->ep, POLLPRI);
	}
}

static void fin(struct tcp *t)
{
	struct endpoint *ep = &t->ep;

	t->rcv_nxt++;
	t->fin_rcvd = 1;
	t->ack_now = 1;
	ep->shut |= 1;
	switch (t->state) {
	case TCPS_SYN_RECV:
	case TCPS_ESTABLISHED:
		tcp_set_state(t, TCPS_CLOSE_WAIT);
		break;
	case TCPS_FIN_WAIT1: /* had our FIN been acknowledged, this were FIN_WAIT2 */
		tcp_set_state(t, TCPS_CLOSING);
		break;
	case TCPS_FIN_WAIT2:
		tcp_ack(t);
		tcp_time_wait(t);
		break;
	}
	endpoint_wake(ep, POLLIN | POLLRDNORM | POLLRDHUP | (ep->shut == 3 ? POLLHUP : 0));
}

/* Consumes g->p. */
static void data(struct tcp *t, struct seg *g)
{
	uint32_t seq = g->seq, room = t->rcv_adv - t->rcv_nxt;
	uint32_t before = t->rcv_nxt;
	struct pkt *p = g->p;

	g->p = NULL;
	if (g->flags & TCP_FIN) {
		uint32_t at = g->seq + g->len;

		if (!t->fin_rcvd && seq_le(t->rcv_nxt, at)) {
			t->ooo_fin = 1;
			t->fin_seq = at;
		}
	}
	if (p->len) {
		if (seq_lt(seq, t->rcv_nxt)) {
			uint32_t old = t->rcv_nxt - seq;

			if (old >= p->len) {
				t->ack_now = 1;
				pkt_trim_front(p, p->len);
			} else {
				pkt_trim_front(p, old);
			}
			seq = t->rcv_nxt;
		}
		if (seq_lt(t->rcv_nxt + room, seq + p->len)) { /* beyond what was offered */
			uint32_t over = seq + p->len - (t->rcv_nxt + room);

			t->ooo_fin = t->ooo_fin && seq_le(t->fin_seq, t->rcv_nxt + room);
			t->ack_now = 1;
			pkt_trim_end(p, over < p->len ? over : p->len);
		}
	}
	/* No memory: the sender repeats it, and meanwhile the reader makes room. */
	if (p->len && t->ep.rq_bytes && stack_full(t->ep.stack))
		pkt_trim_end(p, p->len);
	if (p->len) {
		t->data_in++;
		if (seq == t->rcv_nxt) {
			if (g->len > 64 && g->len < t->rcv_mss)
				t->rcv_mss = (uint16_t)(g->len < 536 ? 536 : g->len);
			else if (g->len > t->rcv_mss)
				t->rcv_mss = (uint16_t)(g->len > t->adv_mss ? t->adv_mss : g->len);
			deliver(t, p);
			ooo_drain(t);
		} else {
			ooo_insert(t, p, seq);
			t->ack_now = 1; /* a duplicate ACK tells of the hole (RFC 5681, 4.2) */
		}
		p = NULL;
		ack_policy(t, g);
	}
	pkt_free(p);
	if (t->rcv_nxt != before) {
		if (t->ep.rq_bytes >= (uint32_t)t->ep.o.rcvlowat)
			endpoint_wake(&t->ep, POLLIN | POLLRDNORM);
		if (t->deferred)
			tcp_embryo_established(t);
	}
	if (t->ooo_fin && t->rcv_nxt == t->fin_seq && !t->fin_rcvd)
		fin(t);
	else if ((g->flags & TCP_FIN) && !t->fin_rcvd)
		t->ack_now = 1;
}

/* ---- states ---- */

static void negotiate(struct tcp *t, const struct seg *g)
{
	uint32_t mss = g->o.mss ? g->o.mss : 536;

	t->irs = g->seq;
	t->rcv_nxt = t->copied_seq = t->rcv_wup = g->seq + 1;
	t->ts_ok = t->ts_ok && g->o.has_ts;
	t->sack_ok = t->sack_ok && g->o.sack_perm;
	t->wscale_ok = t->wscale_ok && g->o.has_wscale;
	if (t->wscale_ok)
		t->snd_wscale = g->o.wscale;
	else
		t->snd_wscale = t->rcv_wscale = 0;
	if (t->ts_ok) {
		t->ts_recent = g->o.ts_val;
		t->ts_recent_ns = stack_now(t->ep.stack);
	}
	if (mss < 64)
		mss = 64;
	if (mss > t->adv_mss)
		mss = t->adv_mss;
	if (t->ep.o.maxseg && mss > t->ep.o.maxseg)
		mss = t->ep.o.maxseg;
	t->snd_mss = (uint16_t)(mss - (t->ts_ok ? 12 : 0));
	t->snd_wnd = t->snd_wnd_max = g->wnd; /* never scaled in a SYN */
	t->snd_wl1 = g->seq;
	t->snd_wl2 = g->ack;
	uint32_t win = tcp_window(t);

	t->rcv_adv = t->rcv_nxt + (win > 65535 ? 65535 : win);
	cc_init(t);
}

void tcp_embryo_negotiate(struct tcp *t, const struct tcp_hdr *h, const struct tcp_opts *o)
{
	struct seg g = { .seq = ntohl(h->seq), .wnd = ntohs(h->window), .o = *o };

	t->ts_ok = t->sack_ok = t->wscale_ok = 1;
	negotiate(t, &g);
}

static void syn_sent(struct tcp *t, struct seg *g)
{
	int acked = (g->flags & TCP_ACK) != 0;

	if (acked && (g->ack != t->iss + 1)) {
		if (!(g->flags & TCP_RST)) {
			struct pkt *p = pkt_new();

			if (p) { /* RFC 9293: <SEQ=SEG.ACK><CTL=RST> */
				pkt_free(p);
				tcp_send_flags(t, TCP_RST, g->ack);
			}
		}
		return;
	}
	if (g->flags & TCP_RST) {
		if (acked)
			tcp_done(t, ECONNREFUSED);
		return;
	}
	if (!(g->flags & TCP_SYN))
		return;
	negotiate(t, g);
	if (acked) {
		tcp_set_state(t, TCPS_ESTABLISHED);
		t->was_connected = 1;
		tcp_ack_input(t, g->ack, g->wnd, g->seq, 0, 1, &g->o);
		t->snd_una = t->iss + 1;
		cc_init(t);
		tcp_sndbuf_expand(t);
		tcp_arm_keep(t);
		tcp_ack(t);
		endpoint_wake(&t->ep, POLLOUT | POLLWRNORM);
		if (t->ep.shut & 2)
			tcp_fin(t);
		else
			tcp_output(t);
	} else { /* both called at once, or a socket that called itself */
		tcp_set_state(t, TCPS_SYN_RECV);
		tcp_send_flags(t, TCP_SYN | TCP_ACK, t->iss);
		tcp_arm_rexmit(t);
	}
}

static int paws_rejects(struct tcp *t, const struct seg *g)
{
	return t->ts_ok && g->o.has_ts && seq_lt(g->o.ts_val, t->ts_recent) &&
	       stack_now(t->ep.stack) - t->ts_recent_ns < PAWS_MAX_NS;
}

static int acceptable(const struct tcp *t, const struct seg *g)
{
	uint32_t end = g->seq + g->len + ((g->flags & TCP_FIN) != 0) + ((g->flags & TCP_SYN) != 0);

	/* Something of it at or before the window's end, and it does not end before rcv_nxt. */
	return seq_le(t->rcv_nxt, end) && seq_le(g->seq, t->rcv_adv);
}

/* 1: the connection may go on with the segment. */
static int check_ack(struct tcp *t, struct seg *g)
{
	struct stack *s = t->ep.stack;

	if (t->state == TCPS_SYN_RECV) {
		if (g->ack != t->snd_max) {
			tcp_send_flags(t, TCP_RST, g->ack);
			return 0;
		}
		if (t->listener && !tcp_accept_room(t->listener))
			return 0; /* the peer thinks it is connected; our SYN-ACK will be repeated */
		t->snd_wnd = g->wnd << t->snd_wscale;
		t->snd_wl1 = g->seq;
		t->snd_wl2 = g->ack;
		tcp_set_state(t, TCPS_ESTABLISHED);
		t->was_connected = 1;
		tcp_arm_keep(t);
		tcp_ack_input(t, g->ack, g->wnd << t->snd_wscale, g->seq, g->len, 0, &g->o);
		cc_init(t);
		tcp_sndbuf_expand(t);
		if (t->listener) {
			s->c.tcp_passive++;
			if (t->listener->ep.o.defer_accept && !g->len && !(g->flags & TCP_FIN))
				t->deferred = 1;
			else
				tcp_embryo_established(t);
		} else {
			endpoint_wake(&t->ep, POLLOUT | POLLWRNORM);
			if (t->ep.shut & 2)
				tcp_fin(t);
		}
		return 1;
	}
	if (seq_lt(t->snd_max, g->ack)) {
		challenge(t);
		return 0;
	}
	/* RFC 5961, 5: acknowledgements from the far past are no proof of anything. */
	if (seq_lt(g->ack, t->snd_una - t->snd_wnd_max - 65535u)) {
		challenge(t);
		return 0;
	}
	tcp_ack_input(t, g->ack, g->wnd << t->snd_wscale, g->seq, g->len, (g->flags & TCP_FIN) != 0, &g->o);
	if (t->fin_queued && t->snd_una == t->snd_end + 1) {
		if (t->state == TCPS_FIN_WAIT1) {
			tcp_set_state(t, TCPS_FIN_WAIT2);
			tcp_arm_keep(t);
			endpoint_wake(&t->ep, POLLOUT);
		} else if (t->state == TCPS_CLOSING) {
			tcp_time_wait(t);
			return 0;
		} else if (t->state == TCPS_LAST_ACK) {
			tcp_done(t, 0);
			return 0;
		}
	}
	return 1;
}

static void time_wait(struct tcp *t, struct seg *g)
{
	if (g->flags & TCP_RST) {
		if (g->seq == t->rcv_nxt)
			tcp_done(t, 0);
		return;
	}
	if ((g->flags & TCP_FIN) || g->len || !acceptable(t, g)) {
		tcp_ack(t);
		if (g->flags & TCP_FIN)
			stimer_arm(t->ep.stack, &t->keep, stack_now(t->ep.stack) + TCP_MSL2_NS);
	}
}

/*
 * More of the burst is here: one acknowledgement for all of it, as if it had been merged by GRO. Only
 * for in-order data in the middle of a stream; everything that tells the peer of trouble goes at once.
 */
static int ack_waits(struct tcp *t, const struct seg *g)
{
	struct stack *s = t->ep.stack;

	if (!s->burst || !g->len || t->state != TCPS_ESTABLISHED || !list_empty(&t->ooo) ||
	    t->rcv_nxt == t->rcv_wup || t->segs_unacked >= ACK_BURST_MAX || t->data_in < 16)
		return 0;
	if (list_empty(&t->ack_node))
		list_add_tail(&t->ack_node, &s->acks);
	return 1;
}

static void segment(struct tcp *t, struct seg *g)
{
	t->segs_in++;
	t->last_recv_ns = stack_now(t->ep.stack);
	if (t->state == TCPS_SYN_SENT) {
		syn_sent(t, g);
		return;
	}
	if (t->state == TCPS_TIME_WAIT) {
		time_wait(t, g);
		return;
	}
	if (paws_rejects(t, g) || !acceptable(t, g)) {
		if (g->flags & TCP_RST)
			return;
		if (t->state == TCPS_SYN_RECV && (g->flags & TCP_SYN)) /* our SYN-ACK was lost */
			tcp_send_flags(t, TCP_SYN | TCP_ACK, t->iss);
		else
			tcp_ack(t);
		return;
	}
	if (t->ts_ok && g->o.has_ts && seq_le(g->seq, t->rcv_wup)) {
		t->ts_recent = g->o.ts_val;
		t->ts_recent_ns = t->last_recv_ns;
	}
	if (g->flags & TCP_RST) {
		if (g->seq != t->rcv_nxt) {
			challenge(t);
			return;
		}
		tcp_done(t, t->state == TCPS_SYN_RECV && !t->listener ? ECONNREFUSED :
			    t->state == TCPS_CLOSE_WAIT		      ? EPIPE :
									ECONNRESET);
		return;
	}
	if (g->flags & TCP_SYN) {
		int crossed = t->state == TCPS_SYN_RECV && (g->flags & TCP_ACK) && g->seq == t->irs &&
			      !g->len && g->ack == t->snd_max;

		if (t->state == TCPS_SYN_RECV && !(g->flags & TCP_ACK) && g->seq == t->irs) {
			tcp_send_flags(t, TCP_SYN | TCP_ACK, t->iss);
			return;
		}
		if (!crossed) {
			challenge(t);
			return;
		}
	}
	if (!(g->flags & TCP_ACK))
		return;
	if (!check_ack(t, g))
		return;
	/* RFC 1122, 4.2.2.13: data for a reader that is gone resets. */
	if (g->len && (t->state == TCPS_FIN_WAIT1 || t->state == TCPS_FIN_WAIT2) && (t->ep.shut & 1) &&
	    !t->fin_rcvd && seq_lt(t->rcv_nxt, g->seq + g->len)) {
		tcp_reset(t);
		tcp_done(t, ECONNRESET);
		return;
	}
	if (t->state != TCPS_CLOSE_WAIT && t->state != TCPS_CLOSING && t->state != TCPS_LAST_ACK) {
		urgent(t, g);
		urgent_byte(t, g);
		if (g->len || (g->flags & TCP_FIN))
			data(t, g);
	} else if (g->len || (g->flags & TCP_FIN)) {
		t->ack_now = 1; /* a repetition: everything up to the FIN is here */
	}
	if (t->state == TCPS_CLOSE || t->state == TCPS_TIME_WAIT)
		return;
	tcp_output(t);
	if (t->ack_now && !ack_waits(t, g))
		tcp_ack(t);
}

void tcp_flush_acks(struct stack *s)
{
	while (!list_empty(&s->acks)) {
		struct tcp *t = list_first(&s->acks, struct tcp, ack_node);

		list_del(&t->ack_node);
		if (t->ack_now)
			tcp_ack(t);
	}
}

/* A SYN that nobody here listens for, to the gateway: its header, which was taken off, goes along. */
static int gateway_syn(struct nic *n, struct pkt *p, const struct tcp_hdr *h, const uint8_t *opts, uint32_t opts_len)
{
	struct pkt *c;

	if (!(n->flags & NIC_GATEWAY))
		return 0;
	c = pkt_new();
	if (!c)
		return 0;
	memcpy(pkt_push(c, opts_len), opts, opts_len);
	memcpy(pkt_push(c, sizeof(*h)), h, sizeof(*h));
	c->src = p->src;
	c->dst = p->dst;
	c->sport = p->sport;
	c->dport = p->dport;
	c->proto = p->proto;
	c->ttl = p->ttl;
	c->tos = p->tos;
	c->nic = p->nic;
	c->link_type = p->link_type;
	if (!gateway_take(n, c)) {
		pkt_free(c);
		return 0;
	}
	pkt_free(p);
	return 1;
}

void tcp_input(struct nic *n, struct pkt *p)
{
	struct stack *s = n->stack;
	struct seg g = { .nic = n, .p = p };
	struct endpoint *ep;
	struct tcp_hdr h;
	uint8_t opts[40];
	uint32_t head;

	s->c.tcp_in++;
	if (!p->csum_ok && csum_transport(p, &p->src, &p->dst, IPPROTO_TCP))
		goto bad;
	void *at = pkt_pull(p, sizeof(h));

	if (!at)
		goto bad;
	memcpy(&h, at, sizeof(h));
	head = (uint32_t)(h.off >> 4) * 4;
	if (head < sizeof(h) || head - sizeof(h) > p->len)
		goto bad;
	head -= (uint32_t)sizeof(h);
	if (head) {
		pkt_copy(p, 0, opts, head);
		pkt_trim_front(p, head);
	}
	if (tcp_parse_options(opts, head, &g.o))
		goto bad;
	g.seq = ntohl(h.seq);
	g.ack = ntohl(h.ack);
	g.wnd = ntohs(h.window);
	g.urgent = ntohs(h.urgent);
	g.flags = h.flags;
	g.len = p->len;
	p->sport = ntohs(h.sport);
	p->dport = ntohs(h.dport);
	ep = demux_connected(s, EP_TCP, &p->dst, p->dport, &p->src, p->sport, n->index);
	if (ep && tcp_of(ep)->state == TCPS_TIME_WAIT && (g.flags & (TCP_SYN | TCP_RST | TCP_ACK)) == TCP_SYN) {
		struct tcp *t = tcp_of(ep);

		/* RFC 6191: a later SYN of the same pair starts anew. */
		if (seq_lt(t->rcv_nxt, g.seq) ||
		    (t->ts_ok && g.o.has_ts && seq_lt(t->ts_recent, g.o.ts_val))) {
			tcp_done(t, 0);
			ep = NULL;
		}
	}
	if (!ep)
		ep = demux_bound(s, EP_TCP, &p->dst, p->dport, &p->src, p->sport, n->index);
	if (!ep) {
		if ((h.flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN && gateway_syn(n, p, &h, opts, head))
			return;
		tcp_refuse(n, p, &h, g.len);
		pkt_free(p);
		return;
	}
	endpoint_get(ep); /* the segment may be its last */
	struct tcp *t = tcp_of(ep), *owner = t;

	if (t->state == TCPS_LISTEN) {
		owner = tcp_listen_input(t, n, p, &h, &g.o);
		if (owner)
			endpoint_get(&owner->ep);
	}
	if (owner)
		segment(owner, &g);
	if (owner && owner != t)
		endpoint_put_locked(&owner->ep);
	endpoint_put_locked(ep);
	pkt_free(g.p);
	return;
bad:
	s->c.tcp_in_errs++;
	pkt_free(p);
}
