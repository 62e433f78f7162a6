/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's timers: retransmission and probes (RFC 6298, 9293), delayed ACK, keepalive, TIME_WAIT. */
#include <errno.h>

#include "netstack/tcp/tcp_priv.h"

#define PROBES_MAX 15

static uint64_t backed_off(uint64_t ns, uint32_t shift)
{
	if (shift > 16)
		shift = 16;
	ns <<= shift;
	return ns > TCP_RTO_MAX_NS ? TCP_RTO_MAX_NS : ns;
}

/* RFC 8985, 7: before the time-out, one probe for a lost tail. 0: not now. */
static uint64_t probe_timeout(struct tcp *t)
{
	uint64_t pto = 2 * t->srtt;

	if (!t->sack_ok || t->recovery || t->tlp_out || t->retries || !t->srtt || t->snd_max == t->snd_una ||
	    t->sacked_count || (t->state != TCPS_ESTABLISHED && t->state != TCPS_CLOSE_WAIT &&
				t->state != TCPS_FIN_WAIT1 && t->state != TCPS_LAST_ACK))
		return 0;
	if (t->snd_max - t->snd_una <= t->snd_mss)
		pto += TCP_RTO_MIN_NS; /* the peer may delay its only ACK */
	if (pto < 10000000u)
		pto = 10000000u;
	return pto < t->rto ? pto : 0;
}

static void tail_probe(struct tcp *t)
{
	uint32_t n = t->snd_max - t->snd_una, last = n < t->snd_mss ? n : t->snd_mss;

	t->tlp_out = 1;
	if (t->fin_queued && t->snd_max == t->snd_end + 1 && last > 1)
		last--; /* the FIN goes along with the bytes before it */
	tcp_retransmit(t, t->snd_max - last - (t->fin_queued && t->snd_max == t->snd_end + 1 && n > 1), last);
	t->rexmit_nxt = t->snd_una;
}

void tcp_arm_rexmit(struct tcp *t)
{
	uint64_t pto = probe_timeout(t);

	t->tlp_armed = pto != 0;
	if (pto) {
		stimer_arm(t->ep.stack, &t->rexmit, stack_now(t->ep.stack) + pto);
		return;
	}
	stimer_arm(t->ep.stack, &t->rexmit, stack_now(t->ep.stack) + backed_off(t->rto, t->backoff));
}

/* Which wait of `keep` applies; none when there is nothing to wait for. */
void tcp_arm_keep(struct tcp *t)
{
	struct stack *s = t->ep.stack;
	uint64_t now = stack_now(s);

	if (t->state == TCPS_FIN_WAIT2 && !t->ep.owned) {
		uint64_t wait = t->ep.o.linger2_s > 0 ? (uint64_t)t->ep.o.linger2_s : s->sysctl.fin_timeout_s;

		stimer_arm(s, &t->keep, now + wait * 1000000000u);
	} else if (t->state == TCPS_TIME_WAIT) {
		return;
	} else if (t->ep.o.keepalive && t->state != TCPS_CLOSE && t->state != TCPS_LISTEN &&
		   t->state != TCPS_SYN_SENT) {
		uint64_t idle = t->ep.o.keepidle_s ? t->ep.o.keepidle_s : s->sysctl.keepidle_s;

		stimer_arm(s, &t->keep, now + idle * 1000000000u);
	} else {
		stimer_cancel(s, &t->keep);
	}
}

static void keepalive_fires(struct tcp *t)
{
	struct stack *s = t->ep.stack;
	uint64_t now = stack_now(s), last = t->last_recv_ns > t->last_ack_ns ? t->last_recv_ns : t->last_ack_ns;
	uint64_t idle = (uint64_t)(t->ep.o.keepidle_s ? t->ep.o.keepidle_s : s->sysctl.keepidle_s) * 1000000000u;
	uint64_t intvl = (uint64_t)(t->ep.o.keepintvl_s ? t->ep.o.keepintvl_s : s->sysctl.keepintvl_s) * 1000000000u;
	uint32_t count = t->ep.o.keepcnt ? t->ep.o.keepcnt : s->sysctl.keepcnt;

	if (!t->ep.o.keepalive)
		return;
	if (t->snd_max != t->snd_una || seq_lt(t->snd_nxt, t->snd_end)) {
		stimer_arm(s, &t->keep, now + idle); /* retransmission watches the peer already */
		return;
	}
	if (now - last < idle) {
		t->keep_probes = 0;
		stimer_arm(s, &t->keep, last + idle);
		return;
	}
	if ((t->ep.o.user_timeout_ms && t->keep_probes &&
	     now - last >= (uint64_t)t->ep.o.user_timeout_ms * 1000000u) ||
	    (!t->ep.o.user_timeout_ms && t->keep_probes >= count)) {
		tcp_reset(t);
		tcp_done(t, ETIMEDOUT);
		return;
	}
	t->keep_probes++;
	tcp_send_flags(t, TCP_ACK, t->snd_una - 1);
	stimer_arm(s, &t->keep, now + intvl);
}

static void keep_fires(struct stimer *st)
{
	struct tcp *t = container_of(st, struct tcp, keep);

	if (t->state == TCPS_TIME_WAIT || (t->state == TCPS_FIN_WAIT2 && !t->ep.owned))
		tcp_done(t, 0);
	else
		keepalive_fires(t);
}

static void delack_fires(struct stimer *st)
{
	struct tcp *t = container_of(st, struct tcp, delack);

	t->delack_on = 0;
	tcp_ack(t);
}

/* RFC 9293, 3.8.6.1: a byte the peer has seen asks for its window. */
static void probe(struct tcp *t)
{
	struct stack *s = t->ep.stack;
	uint64_t now = stack_now(s);

	if (!t->probes_out)
		t->first_unacked_ns = now;
	if ((t->ep.o.user_timeout_ms && t->probes_out &&
	     now - t->first_unacked_ns >= (uint64_t)t->ep.o.user_timeout_ms * 1000000u) ||
	    (!t->ep.owned && t->probes_out > s->sysctl.retries2 / 2 + 1)) {
		tcp_reset(t);
		tcp_done(t, ETIMEDOUT);
		return;
	}
	t->probes_out++;
	tcp_send_flags(t, TCP_ACK, t->snd_una - 1);
	if (t->backoff < PROBES_MAX)
		t->backoff++;
	tcp_arm_rexmit(t);
}

static int gives_up(struct tcp *t)
{
	struct stack *s = t->ep.stack;
	uint64_t now = stack_now(s);
	uint32_t max = s->sysctl.retries2;

	if (t->state == TCPS_SYN_SENT)
		max = t->ep.o.syncnt ? t->ep.o.syncnt : s->sysctl.syn_retries;
	else if (t->state == TCPS_SYN_RECV)
		max = s->sysctl.synack_retries;
	else if (!t->ep.owned)
		max = 8; /* orphans: tcp_orphan_retries */
	if (t->ep.o.user_timeout_ms && t->state != TCPS_SYN_RECV)
		return now - t->first_unacked_ns >= (uint64_t)t->ep.o.user_timeout_ms * 1000000u;
	return t->retries >= max;
}

static void rexmit_fires(struct stimer *st)
{
	struct tcp *t = container_of(st, struct tcp, rexmit);

	if (t->state == TCPS_CLOSE || t->state == TCPS_LISTEN || t->state == TCPS_TIME_WAIT)
		return;
	if (t->snd_max == t->snd_una) {
		int pending = seq_lt(t->snd_nxt, t->snd_end + (t->fin_queued ? 1 : 0));

		if (!pending)
			return;
		if (t->snd_wnd) { /* corked long enough */
			uint8_t cork = t->ep.o.cork;

			t->ep.o.cork = 0;
			tcp_output(t);
			t->ep.o.cork = cork;
			return;
		}
		probe(t);
		return;
	}
	if (t->tlp_armed) {
		t->tlp_armed = 0;
		tail_probe(t);
		tcp_arm_rexmit(t);
		return;
	}
	if (gives_up(t)) {
		int err = t->ep.soft_error ? t->ep.soft_error : ETIMEDOUT;

		if (t->state != TCPS_SYN_SENT && t->state != TCPS_SYN_RECV && !t->ep.owned)
			tcp_reset(t);
		tcp_done(t, err);
		return;
	}
	t->retries++;
	if (t->backoff < 16)
		t->backoff++;
	if (t->state == TCPS_SYN_SENT || t->state == TCPS_SYN_RECV) {
		t->total_retrans++;
		t->ep.stack->c.tcp_retrans++;
		t->rtt_timing = 0;
		tcp_send_flags(t, t->state == TCPS_SYN_SENT ? TCP_SYN : TCP_SYN | TCP_ACK, t->iss);
	} else {
		cc_timeout(t);
		/* The receiver may have dropped what it reported (RFC 2018, 8), so forget it. */
		t->sacked_count = t->sacked_bytes = 0;
		t->rexmit_nxt = t->snd_una;
		t->dup_acks = 0;
		tcp_retransmit(t, t->snd_una, t->snd_mss);
	}
	tcp_arm_rexmit(t);
}

void tcp_timers_init(struct tcp *t)
{
	stimer_init(&t->rexmit, rexmit_fires);
	stimer_init(&t->delack, delack_fires);
	stimer_init(&t->keep, keep_fires);
}

void tcp_timers_stop(struct tcp *t)
{
	stimer_cancel(t->ep.stack, &t->rexmit);
	stimer_cancel(t->ep.stack, &t->delack);
	stimer_cancel(t->ep.stack, &t->keep);
	t->delack_on = 0;
}
