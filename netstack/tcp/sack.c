/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the peer says it has beyond snd_una (RFC 2018): at most TCP_SACK_RANGES sorted, disjoint
 * ranges; what does not fit is forgotten, which costs a retransmission and nothing else.
 */
#include <string.h>

#include "netstack/tcp/tcp_priv.h"

static uint32_t total(const struct tcp *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->sacked_count; i++)
		n += t->sacked[i].end - t->sacked[i].start;
	return n;
}

static void insert(struct tcp *t, struct tcp_range r)
{
	uint32_t i = 0, j;

	while (i < t->sacked_count && seq_lt(t->sacked[i].end, r.start))
		i++;
	for (j = i; j < t->sacked_count && seq_le(t->sacked[j].start, r.end); j++) {
		if (seq_lt(t->sacked[j].start, r.start))
			r.start = t->sacked[j].start;
		if (seq_lt(r.end, t->sacked[j].end))
			r.end = t->sacked[j].end;
	}
	if (i == j) {
		if (t->sacked_count == TCP_SACK_RANGES)
			return;
		memmove(&t->sacked[i + 1], &t->sacked[i], (t->sacked_count - i) * sizeof(r));
		t->sacked_count++;
	} else if (j > i + 1) {
		memmove(&t->sacked[i + 1], &t->sacked[j], (t->sacked_count - j) * sizeof(r));
		t->sacked_count -= j - i - 1;
	}
	t->sacked[i] = r;
}

uint32_t sack_merge(struct tcp *t, const struct tcp_opts *o)
{
	uint32_t before = t->sacked_bytes;

	if (!t->sack_ok)
		return 0;
	for (uint32_t i = 0; i < o->sack_count; i++) {
		struct tcp_range r = o->sack[i];

		/* Only of what is outstanding; below snd_una it is a D-SACK (RFC 2883). */
		if (!seq_lt(r.start, r.end) || seq_lt(t->snd_max, r.end) || seq_le(r.end, t->snd_una))
			continue;
		if (seq_lt(r.start, t->snd_una))
			r.start = t->snd_una;
		insert(t, r);
	}
	t->sacked_bytes = total(t);
	return t->sacked_bytes > before ? t->sacked_bytes - before : 0;
}

void sack_advance(struct tcp *t)
{
	uint32_t gone = 0;

	while (gone < t->sacked_count && seq_le(t->sacked[gone].end, t->snd_una))
		gone++;
	if (gone) {
		memmove(t->sacked, t->sacked + gone, (t->sacked_count - gone) * sizeof(t->sacked[0]));
		t->sacked_count -= gone;
	}
	if (t->sacked_count && seq_lt(t->sacked[0].start, t->snd_una))
		t->sacked[0].start = t->snd_una;
	t->sacked_bytes = total(t);
}

int sack_hole(const struct tcp *t, uint32_t seq, struct tcp_range *hole)
{
	uint32_t end = t->snd_max;

	if (seq_lt(seq, t->snd_una))
		seq = t->snd_una;
	for (uint32_t i = 0; i < t->sacked_count; i++) {
		const struct tcp_range *r = &t->sacked[i];

		if (seq_lt(seq, r->start)) {
			end = r->start;
			break;
		}
		if (seq_lt(seq, r->end))
			seq = r->end;
	}
	hole->start = seq;
	hole->end = end;
	return seq_lt(seq, end);
}
