/* SPDX-License-Identifier: Apache-2.0 */
/* TCP options: MSS, window scale and timestamps (RFC 7323), SACK (RFC 2018). */
#include <string.h>

#include "netstack/tcp/tcp_priv.h"

enum { OPT_END, OPT_NOP, OPT_MSS, OPT_WSCALE, OPT_SACK_PERM, OPT_SACK, OPT_TS = 8 };

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, 4);
	return p + 4;
}

int tcp_parse_options(const uint8_t *p, uint32_t n, struct tcp_opts *o)
{
	memset(o, 0, sizeof(*o));
	for (uint32_t i = 0; i < n;) {
		uint8_t kind = p[i];

		if (kind == OPT_END)
			break;
		if (kind == OPT_NOP) {
			i++;
			continue;
		}
		if (n - i < 2 || p[i + 1] < 2 || p[i + 1] > n - i)
			return -EINVAL;
		uint8_t len = p[i + 1];
		const uint8_t *d = p + i + 2;

		if (kind == OPT_MSS && len == 4) {
			o->mss = get16(d);
		} else if (kind == OPT_WSCALE && len == 3) {
			o->has_wscale = 1;
			o->wscale = *d > 14 ? 14 : *d;
		} else if (kind == OPT_SACK_PERM && len == 2) {
			o->sack_perm = 1;
		} else if (kind == OPT_TS && len == 10) {
			o->has_ts = 1;
			o->ts_val = get32(d);
			o->ts_ecr = get32(d + 4);
		} else if (kind == OPT_SACK && (len - 2) % 8 == 0) {
			for (uint32_t k = 0; k < (len - 2u) / 8 && k < 4; k++) {
				o->sack[k].start = get32(d + 8 * k);
				o->sack[k].end = get32(d + 8 * k + 4);
				o->sack_count++;
			}
		}
		i += len;
	}
	return 0;
}

/* Milliseconds, from a random start per connection (RFC 7323, 5.4). */
uint32_t tcp_ts_now(struct tcp *t)
{
	return (uint32_t)(stack_now(t->ep.stack) / 1000000u) + t->ts_offset;
}

static uint32_t write_sack(struct tcp *t, uint8_t *p, uint32_t room)
{
	struct tcp_range r[4] = { { 0, 0 } };
	uint32_t max = room / 8 > 4 ? 4 : room / 8, count = 0;
	struct pkt *o;

	/* Neighbouring pieces are one block; the block with the latest arrival goes first. */
	struct tcp_range cur = { 0, 0 };
	int have = 0;

	list_for_each(o, &t->ooo, node) {
		if (have && o->tcp.seq == cur.end) {
			cur.end = o->tcp.end;
			continue;
		}
		if (have && count < 4)
			r[count++] = cur;
		cur = (struct tcp_range){ o->tcp.seq, o->tcp.end };
		have = 1;
	}
	if (have && count < 4)
		r[count++] = cur;
	for (uint32_t i = 1; i < count; i++)
		if (seq_le(r[i].start, t->last_sack) && seq_lt(t->last_sack, r[i].end)) {
			struct tcp_range first = r[i];

			memmove(&r[1], &r[0], i * sizeof(r[0]));
			r[0] = first;
		}
	if (count > max)
		count = max;
	for (uint32_t i = 0; i < count; i++) {
		put32(p + 8 * i, r[i].start);
		put32(p + 8 * i + 4, r[i].end);
	}
	return count;
}

/* Writes the options of a segment with these flags; returns their size, a multiple of 4, at most 40. */
uint32_t tcp_write_options(struct tcp *t, uint8_t *p, uint8_t flags)
{
	uint8_t *start = p;
	int syn = (flags & TCP_SYN) != 0;

	if (syn) {
		*p++ = OPT_MSS;
		*p++ = 4;
		*p++ = (uint8_t)(t->adv_mss >> 8);
		*p++ = (uint8_t)t->adv_mss;
	}
	if (t->ts_ok && !(flags & TCP_RST)) {
		if (syn && t->sack_ok) {
			*p++ = OPT_SACK_PERM;
			*p++ = 2;
		} else {
			*p++ = OPT_NOP;
			*p++ = OPT_NOP;
		}
		*p++ = OPT_TS;
		*p++ = 10;
		p = put32(p, tcp_ts_now(t));
		p = put32(p, t->ts_recent);
	} else if (syn && t->sack_ok) {
		*p++ = OPT_NOP;
		*p++ = OPT_NOP;
		*p++ = OPT_SACK_PERM;
		*p++ = 2;
	}
	if (syn && t->wscale_ok) {
		*p++ = OPT_NOP;
		*p++ = OPT_WSCALE;
		*p++ = 3;
		*p++ = t->rcv_wscale;
	}
	if (!syn && t->sack_ok && !list_empty(&t->ooo) && !(flags & TCP_RST)) {
		uint32_t used = (uint32_t)(p - start);
		uint32_t n = write_sack(t, p + 4, 40 - used - 4);

		if (n) {
			p[0] = OPT_NOP;
			p[1] = OPT_NOP;
			p[2] = OPT_SACK;
			p[3] = (uint8_t)(2 + 8 * n);
			p += 4 + 8 * n;
		}
	}
	return (uint32_t)(p - start);
}
