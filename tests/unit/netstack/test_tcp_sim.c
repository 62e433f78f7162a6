/* SPDX-License-Identifier: Apache-2.0 */
/* TCP over a bad wire in simulated time: what is sent arrives, whole and in order, and in good time. */
#include "tests/unit/netstack/sim.h"

#include <stdio.h>

static struct endpoint *listener(struct sim *m, int v6)
{
	struct endpoint *l = endpoint_new(m->s[1], EP_TCP, v6, IPPROTO_TCP);
	struct ip_addr any = v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);

	l->o.reuseaddr = 1;
	ck_assert_int_eq(endpoint_bind(l, &any, 80), 0);
	ck_assert_int_eq(endpoint_listen(l, 10), 0);
	return l;
}

static void pair(struct sim *m, int v6, struct endpoint **c, struct endpoint **a)
{
	struct endpoint *l = listener(m, v6);
	struct ip_addr to = sim_addr(1, v6);

	*c = endpoint_new(m->s[0], EP_TCP, v6, IPPROTO_TCP);
	ck_assert_int_eq(endpoint_connect(*c, &to, 80), -EINPROGRESS);
	for (int i = 0; i < 400 && endpoint_tcp_state(*c) != TCPS_ESTABLISHED; i++) {
		sim_run(m, 500000000);
		/* Three lost questions for the neighbour end an attempt, as on Linux: one tries again. */
		if (endpoint_tcp_state(*c) == TCPS_CLOSE) {
			ck_assert_int_eq(endpoint_connect(*c, &to, 80), -EHOSTUNREACH);
			ck_assert_int_eq(endpoint_connect(*c, &to, 80), -EINPROGRESS);
		}
	}
	ck_assert_int_eq(endpoint_tcp_state(*c), TCPS_ESTABLISHED);
	*a = ERR_PTR(-EAGAIN);
	for (int i = 0; i < 400 && IS_ERR(*a); i++) {
		*a = endpoint_accept(l);
		if (IS_ERR(*a)) {
			ck_assert_int_eq(PTR_ERR(*a), -EAGAIN);
			sim_run(m, 500000000);
		}
	}
	ck_assert(!IS_ERR(*a));
	endpoint_close(l);
}

/* Sends total bytes from c to a; returns the simulated time it took. */
static uint64_t transfer(struct sim *m, struct endpoint *c, struct endpoint *a, size_t total)
{
	uint8_t *out = malloc(total), *in = malloc(total + 1);
	size_t sent = 0, got = 0;
	uint64_t start = m->now;
	int shut = 0, eof = 0;

	for (size_t i = 0; i < total; i++)
		out[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
	while (!eof) {
		ck_assert_msg(m->now - start < 3600ull * 1000000000u, "stuck: sent %zu got %zu of %zu", sent, got, total);
		while (sent < total) {
			ssize_t n = ep_write(c, out + sent, total - sent);

			if (n < 0) {
				ck_assert_int_eq(n, -EAGAIN);
				break;
			}
			sent += (size_t)n;
		}
		if (sent == total && !shut) {
			ck_assert_int_eq(endpoint_shutdown(c, 2), 0);
			shut = 1;
		}
		int moved = sim_step(m, UINT64_MAX);

		for (;;) {
			ssize_t n = ep_read(a, in + got, total + 1 - got);

			if (n == 0) {
				eof = 1;
				break;
			}
			if (n < 0) {
				ck_assert_int_eq(n, -EAGAIN);
				break;
			}
			got += (size_t)n;
		}
		ck_assert_msg(moved || eof, "nothing happens: sent %zu got %zu of %zu", sent, got, total);
	}
	ck_assert_uint_eq(got, total);
	ck_assert(!memcmp(in, out, total));
	free(out);
	free(in);
	return m->now - start;
}

static void finish(struct sim *m, struct endpoint *c, struct endpoint *a)
{
	m->loss = m->dup = m->reorder = 0;
	endpoint_close(a);
	endpoint_close(c);
	sim_run(m, 400ull * 1000000000u);
	for (int i = 0; i < 2; i++) {
		ck_assert(list_empty(&m->s[i]->all[EP_TCP]));
		ck_assert_uint_eq(m->armed[i], UINT64_MAX); /* an idle stack ticks not */
		ck_assert_uint_eq(m->s[i]->c.tcp_tw, 0);
		ck_assert_uint_eq(m->s[i]->c.tcp_count, 0);
	}
	sim_free(m);
}

static uint64_t run(uint64_t seed, int v6, uint32_t mtu, int loss, int dup, int reorder, uint64_t delay, size_t total)
{
	struct sim *m = sim_new(seed, mtu);
	struct endpoint *c, *a;

	m->loss = loss;
	m->dup = dup;
	m->reorder = reorder;
	m->delay_ns = delay;
	m->bits_per_s = 100000000;
	/* TCP is what is tested: three lost ARP requests would end a connect, as they may. */
	for (int i = 0; i < 2; i++) {
		struct ip_addr peer = sim_addr(!i, v6);

		stack_lock(m->s[i]);
		neigh_add(m->n[i], &peer, m->n[!i]->mac);
		stack_unlock(m->s[i]);
	}
	pair(m, v6, &c, &a);
	uint64_t t = transfer(m, c, a, total);

	if (getenv("SIM_VERBOSE"))
		fprintf(stderr, "v6 %d mtu %u loss %d dup %d reorder %d delay %llu ms: %.3f s, %llu frames, %llu lost, rexmit %u\n",
			v6, mtu, loss, dup, reorder, (unsigned long long)delay / 1000000, (double)t / 1e9,
			(unsigned long long)m->sent, (unsigned long long)m->lost, tcp_of(c)->total_retrans);
	finish(m, c, a);
	return t;
}

START_TEST(test_clean)
{
	/* 4 MB at 100 Mbit/s and 2 ms round trip: near the line rate. */
	ck_assert_uint_lt(run(1, 0, 1500, 0, 0, 0, 1000000, 4 << 20), 600000000);
	ck_assert_uint_lt(run(2, 1, 1500, 0, 0, 0, 1000000, 4 << 20), 600000000);
	run(3, 0, 9000, 0, 0, 0, 1000000, 1 << 20);
	run(3, 0, 65535, 0, 0, 0, 1000000, 1 << 20);
}
END_TEST

START_TEST(test_loss)
{
	for (uint64_t seed = 10; seed < 20; seed++)
		ck_assert_uint_lt(run(seed, seed & 1, 1500, 20, 0, 0, 5000000, 1 << 20), 20000000000ull);
	for (uint64_t seed = 20; seed < 26; seed++)
		run(seed, 0, 1500, 200, 0, 0, 5000000, 100000);
}
END_TEST

START_TEST(test_everything)
{
	for (uint64_t seed = 30; seed < 40; seed++)
		run(seed, seed & 1, 1500, 50, 30, 100, 50000000, 300000);
}
END_TEST

START_TEST(test_dup_reorder)
{
	for (uint64_t seed = 40; seed < 44; seed++)
		run(seed, 0, 1500, 0, 200, 200, 5000000, 1 << 20);
}
END_TEST

START_TEST(test_refused)
{
	struct sim *m = sim_new(5, 1500);
	struct endpoint *c = endpoint_new(m->s[0], EP_TCP, 0, IPPROTO_TCP);
	struct ip_addr to = sim_addr(1, 0), nobody = ip_from_v4(htonl(0x0a000063));

	ck_assert_int_eq(endpoint_connect(c, &to, 81), -EINPROGRESS);
	sim_run(m, 1000000000);
	ck_assert_int_eq(endpoint_take_error(c), ECONNREFUSED);
	endpoint_close(c);
	c = endpoint_new(m->s[0], EP_TCP, 0, IPPROTO_TCP);
	ck_assert_int_eq(endpoint_connect(c, &nobody, 81), -EINPROGRESS);
	sim_run(m, 10000000000ull);
	ck_assert_int_eq(endpoint_take_error(c), EHOSTUNREACH);
	endpoint_close(c);
	sim_run(m, 200000000000ull);
	sim_free(m);
}
END_TEST

START_TEST(test_zero_window)
{
	struct sim *m = sim_new(6, 1500);
	struct endpoint *c, *a;
	static uint8_t buf[65536];
	size_t sent = 0, got = 0;
	ssize_t n;

	pair(m, 0, &c, &a);
	stack_lock(m->s[1]);
	a->o.rcvbuf_locked = 1;
	stack_unlock(m->s[1]);
	for (int i = 0; i < 100; i++) {
		while ((n = ep_write(c, buf, sizeof(buf))) > 0)
			sent += (size_t)n;
		sim_run(m, 10000000);
	}
	ck_assert_uint_eq(tcp_of(c)->snd_wnd, 0);
	sim_run(m, 60ull * 1000000000u);
	ck_assert_int_eq(endpoint_tcp_state(c), TCPS_ESTABLISHED); /* probes keep it alive */
	ck_assert(tcp_of(c)->probes_out > 1);
	endpoint_shutdown(c, 2);
	while ((n = ep_read(a, buf, sizeof(buf))) != 0) {
		if (n > 0)
			got += (size_t)n;
		else
			ck_assert(sim_step(m, UINT64_MAX));
	}
	ck_assert_uint_eq(got, sent);
	finish(m, c, a);
}
END_TEST

START_TEST(test_keepalive)
{
	struct sim *m = sim_new(7, 1500);
	struct endpoint *c, *a;
	uint8_t b;

	pair(m, 0, &c, &a);
	stack_lock(m->s[0]);
	c->o.keepalive = 1;
	c->o.keepidle_s = 10;
	c->o.keepintvl_s = 2;
	c->o.keepcnt = 3;
	endpoint_options(c);
	stack_unlock(m->s[0]);
	sim_run(m, 100ull * 1000000000u);
	ck_assert_int_eq(endpoint_tcp_state(c), TCPS_ESTABLISHED);
	m->loss = 1000;
	sim_run(m, 30ull * 1000000000u);
	ck_assert_int_eq(endpoint_tcp_state(c), TCPS_CLOSE);
	ck_assert_int_eq(ep_read(c, &b, 1), -ETIMEDOUT);
	finish(m, c, a);
}
END_TEST

START_TEST(test_user_timeout)
{
	struct sim *m = sim_new(8, 1500);
	struct endpoint *c, *a;
	uint8_t b = 1;

	pair(m, 1, &c, &a);
	c->o.user_timeout_ms = 3000;
	m->loss = 1000;
	ck_assert_int_eq(ep_write(c, &b, 1), 1);
	sim_run(m, 2ull * 1000000000u);
	ck_assert_int_eq(endpoint_tcp_state(c), TCPS_ESTABLISHED);
	sim_run(m, 10ull * 1000000000u);
	ck_assert_int_eq(endpoint_take_error(c), ETIMEDOUT);
	finish(m, c, a);
}
END_TEST

/* Readers that do not read: all connections together take no more memory than they may, and every one of
 * them still ends well. */
START_TEST(test_memory_is_bounded)
{
	enum { COUNT = 60, TOTAL = 300000, MAX = 2 << 20 };
	struct endpoint *c[COUNT], *a[COUNT];
	static size_t sent[COUNT], got[COUNT];
	uint64_t before = pkt_memory(), most = 0;
	struct sim *m = sim_new(5, 1500);
	static uint8_t buf[TOTAL];
	size_t left = COUNT;

	for (size_t i = 0; i < TOTAL; i++)
		buf[i] = (uint8_t)(i * 7 + (i >> 9));
	for (int i = 0; i < 2; i++) {
		stack_sysctl(m->s[i])->mem_max = MAX;
		stack_sysctl(m->s[i])->mem_pressure = MAX / 4 * 3;
	}
	for (int i = 0; i < COUNT; i++)
		pair(m, i & 1, &c[i], &a[i]);
	for (int round = 0; left; round++) {
		ck_assert_msg(round < 20000, "%zu connections are stuck", left);
		for (int i = 0; i < COUNT; i++) {
			ssize_t n = sent[i] < TOTAL ? ep_write(c[i], buf + sent[i], TOTAL - sent[i]) : 0;

			ck_assert(n >= 0 || n == -EAGAIN);
			/* Writable means that a write is taken, or a guest would spin. */
			if (n == -EAGAIN)
				ck_assert(!(endpoint_ready(c[i]) & POLLOUT));
			sent[i] += n > 0 ? (size_t)n : 0;
		}
		sim_run(m, 100000000);
		if (pkt_memory() - before > most)
			most = pkt_memory() - before;
		for (int i = 0; i < COUNT && round > 50; i++) {
			uint8_t in[4096];
			ssize_t n = ep_read(a[i], in, sizeof(in));

			if (n <= 0)
				continue;
			ck_assert(!memcmp(in, buf + got[i], (size_t)n));
			got[i] += (size_t)n;
			left -= got[i] == TOTAL;
		}
	}
	ck_assert_msg(most > MAX / 2 && most < 2 * MAX /* what is on the wire counts */, "at most %llu bytes", (unsigned long long)most);
	for (int i = 1; i < COUNT; i++) {
		endpoint_close(a[i]);
		endpoint_close(c[i]);
	}
	finish(m, c[0], a[0]);
	ck_assert_uint_eq(pkt_memory(), before);
}
END_TEST

/* Ten thousand SYNs that nobody follows up, in front of one honest client. */
START_TEST(test_syn_flood)
{
	struct sim *m = sim_new(6, 1500);
	struct endpoint *l = listener(m, 0), *c, *a;
	struct ip_addr to = sim_addr(1, 0);
	uint32_t embryos = 0;
	struct endpoint *ep;

	/* The flood's answers go to a host that is not there; stack 0 only sends. */
	stack_lock(m->s[0]);
	for (int i = 0; i < 10000; i++) {
		struct pkt *p = pkt_new();
		struct tcp_hdr *h = pkt_push(p, sizeof(*h));
		struct ip_out o = { .src = ip_from_v4(htonl(0x0a000010u + (uint32_t)i % 100)), .dst = to,
				    .proto = IPPROTO_TCP, .ttl = 64, .any_src = 1 };

		memset(h, 0, sizeof(*h));
		h->sport = htons((uint16_t)(1000 + i));
		h->dport = htons(80);
		h->seq = htonl((uint32_t)i * 99991);
		h->off = 5 << 4;
		h->flags = TCP_SYN;
		h->window = 9;
		ip_output(m->s[0], p, &o, offsetof(struct tcp_hdr, csum));
		if (i % 100 == 99) {
			stack_unlock(m->s[0]);
			sim_run(m, 2000000);
			stack_lock(m->s[0]);
		}
	}
	stack_unlock(m->s[0]);
	list_for_each(ep, &m->s[1]->all[EP_TCP], all_node)
		embryos++;
	ck_assert_uint_le(embryos, stack_sysctl(m->s[1])->max_syn_backlog + 1);
	/* What a SYN has to pass by is the listener, not the flood's embryos. */
	ck_assert(demux_bound(m->s[1], EP_TCP, &to, 80, &to, 9, 2) == l);
	ck_assert_uint_gt(stack_counters(m->s[1])->cookies_sent, 5000);
	c = endpoint_new(m->s[0], EP_TCP, 0, IPPROTO_TCP);
	ck_assert_int_eq(endpoint_connect(c, &to, 80), -EINPROGRESS);
	sim_run(m, 100000000);
	ck_assert_int_eq(endpoint_tcp_state(c), TCPS_ESTABLISHED);
	a = endpoint_accept(l);
	ck_assert(!IS_ERR(a));
	ck_assert_uint_eq(stack_counters(m->s[1])->cookies_recv, 1);
	transfer(m, c, a, 200000);
	endpoint_close(l);
	finish(m, c, a);
}
END_TEST

START_TEST(test_udp_fragments)
{
	struct sim *m = sim_new(9, 1500);
	static uint8_t out[30000], in[30000];

	for (int v6 = 0; v6 < 2; v6++) {
		struct endpoint *c = endpoint_new(m->s[0], EP_UDP, v6, IPPROTO_UDP);
		struct endpoint *a = endpoint_new(m->s[1], EP_UDP, v6, IPPROTO_UDP);
		struct ip_addr to = sim_addr(1, v6), any = v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);

		c->o.pmtudisc = c->o.pmtudisc6 = 0;
		for (size_t i = 0; i < sizeof(out); i++)
			out[i] = (uint8_t)(i * 13 + (i >> 7));
		ck_assert_int_eq(endpoint_bind(a, &any, 53), 0);
		ck_assert_int_eq(endpoint_connect(c, &to, 53), 0);
		ck_assert_int_eq(ep_write(c, out, sizeof(out)), sizeof(out));
		sim_run(m, 1000000000);
		ck_assert_int_eq(ep_read(a, in, sizeof(in)), sizeof(in));
		ck_assert(!memcmp(in, out, sizeof(in)));
		/* Lost pieces are forgotten after their time, and the timer with them. */
		m->loss = 300;
		for (int i = 0; i < 20; i++)
			ep_write(c, out, sizeof(out));
		m->loss = 0;
		sim_run(m, 40000000000ull);
		ck_assert(list_empty(&m->s[1]->frags));
		ck_assert_uint_eq(m->s[1]->frag_mem, 0);
		endpoint_close(a);
		ck_assert_int_eq(ep_write(c, out, 10), 10);
		sim_run(m, 1000000000);
		ck_assert_int_eq(ep_read(c, in, 1), -ECONNREFUSED);
		endpoint_close(c);
	}
	sim_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tcp_sim");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_memory_is_bounded);
	tcase_add_test(t, test_syn_flood);
	tcase_add_test(t, test_clean);
	tcase_add_test(t, test_loss);
	tcase_add_test(t, test_everything);
	tcase_add_test(t, test_dup_reorder);
	tcase_add_test(t, test_refused);
	tcase_add_test(t, test_zero_window);
	tcase_add_test(t, test_keepalive);
	tcase_add_test(t, test_user_timeout);
	tcase_add_test(t, test_udp_fragments);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
