/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP (RFC 9293), theory of operation.
 *
 * A connection is a struct tcp around its endpoint. The send queue is a list of nbufs whose first
 * byte is snd_una's; segments are slices of them, so a retransmission is a new slice. snd_end is the
 * sequence number after the last byte queued, where a FIN goes once fin_queued. Data received in
 * order waits in ep.rq (its first byte is copied_seq's), out of order in ooo, sorted.
 *
 * Events: segments (input.c, ack.c), calls of the owner (tcp.c, listen.c, io.c), timers (timer.c).
 * Each changes state and then calls tcp_output(), the only place that decides what may be sent. One
 * timer each: rexmit (retransmission, zero-window probe, or tail loss probe), delack, and keep
 * (keepalive in synchronised states, the wait of FIN_WAIT2 and TIME_WAIT).
 *
 * References: `alive` is TCP's own, held from connect or from the SYN until CLOSED.
 */
#ifndef CAISSON_TCP_PRIV_H
#define CAISSON_TCP_PRIV_H

#include "netstack/hdr/wire.h"
#include "netstack/stack_priv.h"

enum tcp_state { /* numbered as tcp_info shows them */
	TCPS_ESTABLISHED = 1, TCPS_SYN_SENT, TCPS_SYN_RECV, TCPS_FIN_WAIT1, TCPS_FIN_WAIT2,
	TCPS_TIME_WAIT, TCPS_CLOSE, TCPS_CLOSE_WAIT, TCPS_LAST_ACK, TCPS_LISTEN, TCPS_CLOSING,
};

#define TCP_MSL2_NS 60000000000ull /* Linux's TCP_TIMEWAIT_LEN */
#define TCP_RTO_MIN_NS 200000000ull
#define TCP_RTO_MAX_NS 120000000000ull
#define TCP_RTO_INIT_NS 1000000000ull
#define TCP_DELACK_NS 40000000ull
#define TCP_CORK_NS 200000000ull
#define TCP_SEG_MAX 65535u /* of a super-segment, headers included */
#define TCP_SACK_RANGES 32

struct tcp_range {
	uint32_t start, end;
};

struct tcp {
	struct endpoint ep;	/* first */
	uint8_t state, alive, connecting; /* connecting: connect(2) has not reported success yet */
	uint8_t fin_queued, fin_rcvd, was_connected;
	uint8_t ts_ok, sack_ok, snd_wscale, rcv_wscale, wscale_ok, ecn_ok;
	/* sending */
	uint32_t iss, snd_una, snd_nxt, snd_max, snd_end, snd_wnd, snd_wl1, snd_wl2, snd_wnd_max;
	uint32_t snd_up;
	uint8_t urg_out, force_ack, ack_now, delack_on;
	struct list_head ack_node; /* in the stack's acks: ack_now waits for the end of the burst */
	uint16_t snd_mss, adv_mss, rcv_mss;
	struct list_head sq;	/* nbuf.node */
	uint32_t sq_mem;
	/* receiving */
	uint32_t irs, rcv_nxt, rcv_wup, rcv_adv, copied_seq;
	struct list_head ooo;
	uint32_t ooo_bytes, ooo_mem, ooo_count;
	uint8_t ooo_fin, deferred;
	uint32_t fin_seq;	/* of a FIN that came out of order */
	uint32_t drs_bytes;	/* copied by the reader since drs_start */
	uint64_t drs_start;
	uint32_t last_sack;	/* the block to name first */
	uint32_t segs_unacked;
	uint8_t urg_in, urg_have, urg_taken;
	uint32_t urg_seq;
	uint8_t urg_byte;
	uint32_t ts_recent;
	uint64_t ts_recent_ns;
	uint32_t ts_offset;
	/* round trip: RFC 6298 */
	uint64_t srtt, rttvar, rto, min_rtt;
	uint8_t rtt_timing;
	uint32_t rtt_seq;
	uint64_t rtt_start;
	/* congestion: RFC 5681, 6675, 9438, 6937 */
	uint32_t cwnd, ssthresh; /* bytes */
	uint8_t recovery;	/* 1 fast recovery, 2 after a time-out */
	uint32_t recover;	/* snd_max when it began */
	uint32_t rexmit_nxt;	/* next hole to repair */
	uint32_t repair_high;	/* snd_max when the first hole was last repaired */
	uint32_t dup_acks;
	uint32_t prr_delivered, prr_out, prr_pipe;
	struct tcp_range sacked[TCP_SACK_RANGES];
	uint32_t sacked_count, sacked_bytes;
	struct {
		uint64_t epoch;
		double w_max, k, w_est;
		uint32_t cwnd_prior;
	} cubic;
	uint8_t reno, tlp_out, tlp_armed;
	uint32_t app_limited;
	/* timers */
	struct stimer rexmit, delack, keep;
	uint32_t backoff, retries, probes_out, keep_probes;
	uint64_t first_unacked_ns, last_recv_ns, last_send_ns, last_ack_ns, tw_since;
	/* listening, and being listened for */
	struct tcp *listener;	/* while in its queues, which it empties before it goes */
	struct list_head synq, acceptq, q_node;
	uint32_t syn_count, accept_count, backlog;
	uint64_t cookie_ns;	/* a SYN cookie was last sent, 0: never */
	/* numbers */
	uint64_t bytes_acked, bytes_received, bytes_sent, bytes_retrans;
	uint32_t segs_in, segs_out, data_in, data_out, total_retrans, rcv_ooo;
};

static inline struct tcp *tcp_of(struct endpoint *ep)
{
	return container_of(ep, struct tcp, ep);
}

/* RFC 9293, 3.4: sequence arithmetic modulo 2^32. */
static inline int seq_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}
static inline int seq_le(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

struct tcp_opts {
	uint16_t mss;
	uint8_t wscale, has_wscale, sack_perm, has_ts, sack_count;
	uint32_t ts_val, ts_ecr;
	struct tcp_range sack[4];
};

/* endpoint.c */
void endpoint_setup(struct endpoint *ep, struct stack *s, enum ep_kind kind, int v6, uint8_t proto);

/* options.c */
int tcp_parse_options(const uint8_t *p, uint32_t n, struct tcp_opts *o);
uint32_t tcp_write_options(struct tcp *t, uint8_t *p, uint8_t flags);
uint32_t tcp_ts_now(struct tcp *t);

/* tcp.c */
void tcp_init(struct tcp *t);
void tcp_set_state(struct tcp *t, enum tcp_state st);
void tcp_start(struct tcp *t); /* takes the alive reference, iss, initial window */
/* To CLOSED: timers, queues, tables. err: positive errno for the owner, or 0. */
void tcp_done(struct tcp *t, int err);
void tcp_reset(struct tcp *t); /* sends RST */
void tcp_time_wait(struct tcp *t);
int tcp_setup_route(struct tcp *t, int active);
void tcp_fin(struct tcp *t); /* our FIN into the queue, and the state that follows */

/* output.c */
void tcp_output(struct tcp *t);
void tcp_send_flags(struct tcp *t, uint8_t flags, uint32_t seq);
void tcp_ack(struct tcp *t);	  /* now */
void tcp_ack_later(struct tcp *t);
/* A reset in answer to a segment that belongs to nothing. */
void tcp_refuse(struct nic *n, const struct pkt *p, const struct tcp_hdr *h, uint32_t payload);
uint32_t tcp_window(struct tcp *t); /* what we would advertise, bytes */
void tcp_retransmit(struct tcp *t, uint32_t seq, uint32_t limit);
void tcp_window_update(struct tcp *t);
uint32_t tcp_pipe(const struct tcp *t);

/* ack.c, cc.c, sack.c */
void tcp_ack_input(struct tcp *t, uint32_t ack, uint32_t wnd, uint32_t seq, uint32_t payload, int fin,
		   const struct tcp_opts *o);
void tcp_rtt_sample(struct tcp *t, uint64_t ns);
void cc_init(struct tcp *t);
void cc_acked(struct tcp *t, uint32_t bytes);
void cc_loss(struct tcp *t);
void cc_timeout(struct tcp *t);
uint32_t sack_merge(struct tcp *t, const struct tcp_opts *o); /* bytes newly reported */
void sack_advance(struct tcp *t);
/* The first hole at or after seq: 1 with its bounds. */
int sack_hole(const struct tcp *t, uint32_t seq, struct tcp_range *hole);

/* timer.c */
void tcp_arm_rexmit(struct tcp *t);
void tcp_arm_keep(struct tcp *t);
void tcp_timers_init(struct tcp *t);
void tcp_timers_stop(struct tcp *t);

/* input.c: what a peer's SYN says */
void tcp_embryo_negotiate(struct tcp *t, const struct tcp_hdr *h, const struct tcp_opts *o);

/* listen.c */
/* A segment for a listener. The embryo that it is to be given to (of a SYN cookie), or NULL. */
struct tcp *tcp_listen_input(struct tcp *l, struct nic *n, const struct pkt *p, const struct tcp_hdr *h,
			     const struct tcp_opts *o);
int tcp_accept_room(const struct tcp *l);
void tcp_embryo_established(struct tcp *t);
void tcp_unlisten(struct tcp *l);
void tcp_leave_listener(struct tcp *t);

/* cookie.c */
/* Makes t's initial sequence number and time stamps a cookie for the SYN h. */
void cookie_make(struct tcp *t, const struct pkt *p, const struct tcp_hdr *h, const struct tcp_opts *o);
/* 1: h acknowledges a cookie of ours, whose SYN had the options *o. */
int cookie_check(struct stack *s, const struct pkt *p, const struct tcp_hdr *h, const struct tcp_opts *ack,
		 struct tcp_opts *o);

/* io.c */
uint32_t tcp_sndbuf_used(const struct tcp *t);
uint32_t tcp_sndbuf(const struct tcp *t); /* what of it may be used */
/* The send buffer follows the congestion window, unless SO_SNDBUF fixed it. */
void tcp_sndbuf_expand(struct tcp *t);

#endif
