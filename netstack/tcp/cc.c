/* SPDX-License-Identifier: Apache-2.0 */
/* Congestion control: CUBIC (RFC 9438) with Reno (RFC 5681) as the other choice. Bytes throughout. */
#include "netstack/tcp/tcp_priv.h"

#define CUBIC_C 0.4
#define CUBIC_BETA 0.7
#define CWND_MAX (64u << 20)

void cc_init(struct tcp *t)
{
	/* RFC 6928: ten segments, and on links with giant segments at least 64 KiB's worth. */
	t->cwnd = 10u * t->snd_mss;
	t->ssthresh = CWND_MAX;
	t->recovery = 0;
	t->cubic.epoch = 0;
	t->cubic.w_max = 0;
}

static double cube_root(double v)
{
	double x = v > 1 ? v / 3 + 1 : 1;

	if (v <= 0)
		return 0;
	for (int i = 0; i < 40; i++) /* Newton; v is at most some 10^8 */
		x -= (x * x * x - v) / (3 * x * x);
	return x;
}

/* The window CUBIC wants at this time, in segments. */
static uint32_t cubic_target(struct tcp *t)
{
	uint64_t now = stack_now(t->ep.stack);
	double cwnd = (double)t->cwnd / t->snd_mss;

	if (!t->cubic.epoch) {
		t->cubic.epoch = now;
		if (cwnd < t->cubic.w_max) {
			t->cubic.k = cube_root((t->cubic.w_max - cwnd) / CUBIC_C);
		} else {
			t->cubic.k = 0;
			t->cubic.w_max = cwnd;
		}
		t->cubic.w_est = cwnd;
	}
	double at = (double)(now - t->cubic.epoch + t->srtt) / 1e9 - t->cubic.k;
	double w = CUBIC_C * at * at * at + t->cubic.w_max;

	if (w < cwnd)
		w = cwnd;
	if (w > 1.5 * cwnd)
		w = 1.5 * cwnd;
	return (uint32_t)w;
}

void cc_acked(struct tcp *t, uint32_t bytes)
{
	if (t->recovery == 1)
		return; /* PRR decides */
	/* RFC 7661 in short: a window that was not used is not grown. */
	if (t->app_limited && t->cwnd > 2 * (t->snd_max - t->snd_una + bytes))
		return;
	if (t->cwnd < t->ssthresh) {
		t->cwnd += bytes;
	} else if (t->reno) {
		uint64_t inc = (uint64_t)t->snd_mss * bytes / t->cwnd;

		t->cwnd += inc ? (uint32_t)inc : 1;
	} else {
		double segs = (double)bytes / t->snd_mss, cwnd = (double)t->cwnd / t->snd_mss;
		uint32_t target = cubic_target(t);

		/* The Reno-friendly region: at least what Reno would have. */
		t->cubic.w_est += 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA) * segs / cwnd;
		if (t->cubic.w_est > target && t->cubic.w_est > cwnd)
			t->cwnd = (uint32_t)(t->cubic.w_est * t->snd_mss);
		else if (target > cwnd)
			t->cwnd += (uint32_t)((target - cwnd) / cwnd * bytes);
	}
	if (t->cwnd > CWND_MAX)
		t->cwnd = CWND_MAX;
}

static void reduce(struct tcp *t)
{
	double cwnd = (double)t->cwnd / t->snd_mss;

	t->cubic.epoch = 0;
	t->cubic.w_max = cwnd < t->cubic.w_max ? cwnd * (1 + CUBIC_BETA) / 2 : cwnd; /* fast convergence */
	t->ssthresh = t->reno ? t->cwnd / 2 : (uint32_t)(t->cwnd * CUBIC_BETA);
	if (t->ssthresh < 2u * t->snd_mss)
		t->ssthresh = 2u * t->snd_mss;
}

void cc_loss(struct tcp *t)
{
	reduce(t);
	t->recovery = 1;
	t->recover = t->snd_max;
	t->rexmit_nxt = t->snd_una;
	t->repair_high = t->snd_max;
	t->prr_delivered = t->prr_out = 0;
	t->prr_pipe = t->snd_max - t->snd_una;
}

void cc_timeout(struct tcp *t)
{
	if (!t->recovery || t->retries <= 1)
		reduce(t);
	t->cwnd = t->snd_mss;
	t->recovery = 2;
	t->recover = t->snd_max;
}
