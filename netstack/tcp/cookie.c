/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SYN cookies (RFC 4987, 3.6): a listener whose queue of embryos is full answers a SYN without keeping
 * anything. Our initial sequence number is then a keyed hash of the four-tuple, the minute and the
 * peer's MSS; its other options come back in the low bits of our time stamp, as Linux does it. The
 * acknowledgement rebuilds the embryo.
 */
#include "netstack/tcp/tcp_priv.h"

#define MINUTE_NS 60000000000ull
#define LIFE 2u /* minutes a cookie is believed */
#define LOW 0xffffffu
#define TS_BITS 6u
#define TS_NO_WSCALE 15u
#define TS_SACK 16u

/* The largest that is not above the peer's is used. */
static const uint16_t g_mss[8] = { 536, 1220, 1300, 1380, 1420, 1440, 1460, 8940 };

static uint32_t hash_tuple(struct stack *s, const struct pkt *p, uint32_t minute)
{
	struct {
		struct ip_addr src, dst;
		uint16_t sport, dport;
		uint32_t minute;
	} k = { p->src, p->dst, p->sport, p->dport, minute };

	return (uint32_t)(hash_bytes(&k, sizeof(k), s->cookie_secret) >> 16);
}

static uint32_t minute_of(struct stack *s)
{
	return (uint32_t)(stack_now(s) / MINUTE_NS);
}

void cookie_make(struct tcp *t, const struct pkt *p, const struct tcp_hdr *h, const struct tcp_opts *o)
{
	struct stack *s = t->ep.stack;
	uint32_t minute = minute_of(s), which = 7;

	while (which && g_mss[which] > (o->mss ? o->mss : 536))
		which--;
	t->iss = hash_tuple(s, p, UINT32_MAX) + ntohl(h->seq) + (minute << 24) +
		 ((hash_tuple(s, p, minute) + which) & LOW);
	t->snd_una = t->snd_nxt = t->snd_max = t->iss;
	if (t->ts_ok) {
		uint32_t now = tcp_ts_now(t), bits = (t->wscale_ok ? t->snd_wscale : TS_NO_WSCALE) | (t->sack_ok ? TS_SACK : 0);
		uint32_t ts = (now >> TS_BITS << TS_BITS) | bits;

		if (seq_lt(now, ts)) /* never from the future: later ones have to follow it */
			ts -= 1u << TS_BITS;
		t->ts_offset += ts - now;
	} else { /* nowhere to keep them */
		t->wscale_ok = t->sack_ok = 0;
		t->rcv_wscale = 0;
	}
}

int cookie_check(struct stack *s, const struct pkt *p, const struct tcp_hdr *h, const struct tcp_opts *ack,
		 struct tcp_opts *o)
{
	uint32_t minute = minute_of(s);
	uint32_t v = ntohl(h->ack) - 1 - hash_tuple(s, p, UINT32_MAX) - (ntohl(h->seq) - 1);
	uint32_t age = (minute - (v >> 24)) & 0xff;

	if (age >= LIFE)
		return 0;
	v = (v - hash_tuple(s, p, minute - age)) & LOW;
	if (v >= sizeof(g_mss) / sizeof(*g_mss))
		return 0;
	*o = (struct tcp_opts){ .mss = g_mss[v], .has_ts = ack->has_ts, .ts_val = ack->ts_val };
	if (ack->has_ts) {
		uint32_t wscale = ack->ts_ecr & 15;

		o->has_wscale = wscale != TS_NO_WSCALE;
		o->wscale = (uint8_t)(o->has_wscale ? wscale : 0);
		o->sack_perm = (ack->ts_ecr & TS_SACK) != 0;
	}
	return 1;
}
