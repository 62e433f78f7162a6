/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an acknowledgement does: bytes leave the send queue, the round trip is measured (RFC 6298),
 * loss is found by SACK (RFC 6675) or duplicate ACKs and repaired at the pace of proportional rate
 * reduction (RFC 6937).
 */
#include "netstack/tcp/tcp_priv.h"

static void free_acked(struct tcp *t, uint32_t n)
{
	while (n && !list_empty(&t->sq)) {
		struct nbuf *b = list_first(&t->sq, struct nbuf, node);
		uint32_t have = b->used - b->start;

		if (n < have) {
			b->start += n;
			return;
		}
		n -= have;
		list_del(&b->node);
		nbuf_put(b);
	}
}

void tcp_rtt_sample(struct tcp *t, uint64_t ns)
{
	if (ns < t->min_rtt)
		t->min_rtt = ns;
	if (!t->srtt) {
		t->srtt = ns ? ns : 1;
		t->rttvar = ns / 2;
	} else {
		uint64_t diff = t->srtt > ns ? t->srtt - ns : ns - t->srtt;

		t->rttvar = (3 * t->rttvar + diff) / 4;
		t->srtt = (7 * t->srtt + ns) / 8;
		if (!t->srtt)
			t->srtt = 1;
	}
	uint64_t var = 4 * t->rttvar;

	t->rto = t->srtt + (var > TCP_RTO_MIN_NS ? var : TCP_RTO_MIN_NS);
	if (t->rto > TCP_RTO_MAX_NS)
		t->rto = TCP_RTO_MAX_NS;
}

/* Bytes that left the sender and are neither acknowledged, reported received, nor taken for lost. */
static uint32_t pipe_now(const struct tcp *t)
{
	uint32_t pipe = tcp_pipe(t), lost_end, lost = 0;
	struct tcp_range h;

	if (!t->recovery)
		return pipe;
	if (t->recovery == 1 && !t->sack_ok) {
		uint32_t left = t->dup_acks * t->snd_mss;

		return pipe > left ? pipe - left : 0;
	}
	lost_end = t->recovery == 2 ? t->recover :
		   t->sacked_count  ? t->sacked[t->sacked_count - 1].start :
				      t->snd_una;
	for (uint32_t at = t->rexmit_nxt; seq_lt(at, lost_end) && sack_hole(t, at, &h); at = h.end) {
		if (!seq_lt(h.start, lost_end))
			break;
		lost += (seq_lt(h.end, lost_end) ? h.end : lost_end) - h.start;
	}
	return pipe > lost ? pipe - lost : 0;
}

/* Fills holes while the congestion window allows. */
static void repair(struct tcp *t, int at_least_one)
{
	uint32_t end = t->recovery == 2 ? t->recover :
		       t->sack_ok && t->sacked_count ? t->sacked[t->sacked_count - 1].start :
						       t->snd_una + 1;
	uint32_t pipe = pipe_now(t);
	struct tcp_range h;

	if (seq_lt(t->rexmit_nxt, t->snd_una))
		t->rexmit_nxt = t->snd_una;
	while (seq_lt(t->rexmit_nxt, end) && sack_hole(t, t->rexmit_nxt, &h) && seq_lt(h.start, end)) {
		uint32_t before;

		if (!at_least_one && pipe + t->snd_mss > t->cwnd)
			break;
		at_least_one = 0;
		before = t->rexmit_nxt = h.start;
		tcp_retransmit(t, h.start, h.end - h.start);
		if (t->rexmit_nxt == before)
			break; /* could not be sent now */
		pipe += t->rexmit_nxt - before;
	}
}

static void prr(struct tcp *t, uint32_t delivered)
{
	uint32_t pipe = pipe_now(t), count;

	t->prr_delivered += delivered;
	if (pipe > t->ssthresh) {
		uint64_t want = ((uint64_t)t->prr_delivered * t->ssthresh + t->prr_pipe - 1) /
				(t->prr_pipe ? t->prr_pipe : 1);

		count = want > t->prr_out ? (uint32_t)want - t->prr_out : 0;
	} else {
		uint32_t limit = t->prr_delivered > t->prr_out ? t->prr_delivered - t->prr_out : 0;

		if (limit < delivered)
			limit = delivered;
		limit += t->snd_mss;
		count = t->ssthresh - pipe < limit ? t->ssthresh - pipe : limit;
	}
	t->cwnd = pipe + count;
	if (t->cwnd < t->snd_mss)
		t->cwnd = t->snd_mss;
}

/*
 * The repair of the first hole was lost too when data sent after it was reported: three segments
 * beyond what had been sent by then.
 */
static void check_lost_repair(struct tcp *t)
{
	uint32_t high;

	if (!t->sack_ok || !t->sacked_count || t->rexmit_nxt == t->snd_una)
		return;
	high = t->sacked[t->sacked_count - 1].end;
	if (seq_lt(t->repair_high + 2u * t->snd_mss, high)) {
		t->rexmit_nxt = t->snd_una;
		t->repair_high = t->snd_max;
	}
}

/* RFC 6675: three segments' worth reported above a hole. */
static int loss_found(const struct tcp *t)
{
	if (t->sack_ok)
		return t->sacked_bytes > 2u * t->snd_mss || t->sacked_count >= 3;
	return t->dup_acks >= 3;
}

static void advance(struct tcp *t, uint32_t ack)
{
	struct stack *s = t->ep.stack;
	uint32_t acked = ack - t->snd_una, data = acked;

	if (t->snd_una == t->iss && data)
		data--; /* the SYN */
	if (t->fin_queued && ack == t->snd_end + 1 && data)
		data--; /* the FIN */
	free_acked(t, data);
	t->bytes_acked += data;
	if (t->rtt_timing && seq_le(t->rtt_seq, ack)) {
		tcp_rtt_sample(t, stack_now(s) - t->rtt_start);
		t->rtt_timing = 0;
	}
	t->snd_una = ack;
	if (seq_lt(t->snd_nxt, ack))
		t->snd_nxt = ack;
	sack_advance(t);
	t->backoff = t->retries = 0;
	t->tlp_out = 0;
	tcp_sndbuf_expand(t);
	t->ep.soft_error = 0;
	t->first_unacked_ns = stack_now(s);
	if (t->snd_una == t->snd_max)
		stimer_cancel(s, &t->rexmit);
	else
		tcp_arm_rexmit(t);
	if (t->ep.nospace && tcp_sndbuf_used(t) <= tcp_sndbuf(t) / 3 * 2) {
		t->ep.nospace = 0;
		endpoint_wake(&t->ep, POLLOUT | POLLWRNORM);
	}
}

void tcp_ack_input(struct tcp *t, uint32_t ack, uint32_t wnd, uint32_t seq, uint32_t payload, int fin,
		   const struct tcp_opts *o)
{
	uint32_t old_wnd = t->snd_wnd, acked, sacked;

	t->last_ack_ns = stack_now(t->ep.stack);
	t->keep_probes = 0;
	if (seq_lt(ack, t->snd_una))
		return;
	if (seq_lt(t->snd_wl1, seq) || (t->snd_wl1 == seq && seq_le(t->snd_wl2, ack))) {
		t->snd_wnd = wnd;
		t->snd_wl1 = seq;
		t->snd_wl2 = ack;
		if (wnd > t->snd_wnd_max)
			t->snd_wnd_max = wnd;
	}
	if (t->probes_out && t->snd_wnd) {
		t->probes_out = 0;
		t->backoff = 0;
		if (t->snd_max == t->snd_una)
			stimer_cancel(t->ep.stack, &t->rexmit);
	}
	sacked = sack_merge(t, o);
	acked = ack - t->snd_una;
	t->app_limited = t->snd_nxt == t->snd_end && tcp_pipe(t) < t->cwnd;
	if (!acked) {
		if (t->snd_max != t->snd_una && !payload && !fin && t->snd_wnd == old_wnd)
			t->dup_acks++;
	} else {
		advance(t, ack);
		if (!t->recovery)
			t->dup_acks = 0;
	}
	if (!t->recovery && !acked && !sacked && !t->dup_acks)
		return;
	if (t->recovery && seq_le(t->recover, t->snd_una)) {
		if (t->recovery == 1)
			t->cwnd = t->ssthresh;
		t->recovery = 0;
		t->dup_acks = 0;
	}
	if (!t->recovery) {
		if (t->snd_max != t->snd_una && loss_found(t)) {
			cc_loss(t);
			prr(t, sacked);
			repair(t, 1);
			tcp_arm_rexmit(t); /* the time-out, no tail probe any more */
		} else if (acked) {
			cc_acked(t, acked);
		}
		return;
	}
	if (t->recovery == 1) {
		if (acked)
			t->repair_high = t->snd_max;
		else
			check_lost_repair(t);
		prr(t, acked + sacked);
		if (acked && !t->sack_ok) { /* NewReno's partial acknowledgement (RFC 6582) */
			t->rexmit_nxt = t->snd_una;
			t->dup_acks = 0;
		}
		repair(t, acked && !t->sack_ok);
	} else {
		cc_acked(t, acked);
		repair(t, 0);
	}
}
