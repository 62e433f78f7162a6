/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile peer for the netstack: random and half-right Ethernet frames into nic_input(), around live
 * connections, listeners, UDP, raw and ping endpoints, in simulated time. The stack must neither crash
 * nor leak nor grow without bound; run it under ASan and UBSan.
 *
 *   frame_fuzz [FRAMES [SEED]]      plain program; the default is 200000 frames
 *   -DFUZZ_LIBFUZZER                leaves out main(): input is {u16 length, frame}…
 */
#include <stdio.h>

/* The simulated wire's checks, without the test framework. */
#define CHECK_H
#define ck_assert_int_eq(a, b) ((a) == (b) ? (void)0 : abort())
#define ck_assert_ptr_nonnull(a) ((a) ? (void)0 : abort())
#include "tests/unit/netstack/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct endpoint *g_tcp[2], *g_listener, *g_udp[2], *g_raw[2], *g_ping;
static uint64_t g_frames;

static struct endpoint *bound(enum ep_kind kind, int v6, uint8_t proto, uint16_t port)
{
	struct endpoint *ep = endpoint_new(g_sim->s[0], kind, v6, proto);
	struct ip_addr any = v6 ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);

	ep->o.v6only = kind == EP_UDP;
	if (endpoint_bind(ep, &any, port))
		abort();
	ep->o.recverr = ep->o.recverr6 = 1;
	return ep;
}

static void connect_tcp(int i)
{
	struct ip_addr to = sim_addr(1, i);

	if (g_tcp[i])
		endpoint_close(g_tcp[i]);
	g_tcp[i] = endpoint_new(g_sim->s[0], EP_TCP, i, IPPROTO_TCP);
	endpoint_connect(g_tcp[i], &to, 80);
}

static void set_up(uint64_t seed)
{
	sim_new(seed, 1500);
	g_listener = bound(EP_TCP, 1, IPPROTO_TCP, 80);
	endpoint_listen(g_listener, 16);
	for (int i = 0; i < 2; i++) {
		g_udp[i] = bound(EP_UDP, i, IPPROTO_UDP, 53);
		g_raw[i] = bound(EP_RAW, i, i ? IPPROTO_ICMPV6 : IPPROTO_ICMP, 0);
	}
	g_ping = bound(EP_PING, 0, IPPROTO_ICMP, 7);
	/* The other stack serves, so that connections exist. */
	struct endpoint *l = endpoint_new(g_sim->s[1], EP_TCP, 1, IPPROTO_TCP);
	struct ip_addr any = { .d = { 0, 0 } };

	endpoint_bind(l, &any, 80);
	endpoint_listen(l, 100);
	connect_tcp(0);
	connect_tcp(1);
	sim_run(g_sim, 100000000);
}

static void drain(struct endpoint *ep)
{
	uint8_t buf[4096];
	struct pkt *p;

	while (ep_read(ep, buf, sizeof(buf)) > 0)
		;
	while ((p = endpoint_errq(ep)))
		pkt_free(p);
}

static void one(const uint8_t *frame, size_t n)
{
	struct pkt *p = pkt_from_mem(frame, (uint32_t)n);

	g_frames++;
	stack_lock(g_sim->s[0]);
	nic_input(g_sim->n[0], p);
	stack_unlock(g_sim->s[0]);
	if (g_frames % 64)
		return;
	struct endpoint *a;

	while (!IS_ERR(a = endpoint_accept(g_listener)))
		endpoint_close(a);
	for (int i = 0; i < 2; i++) {
		uint8_t b[3000] = { 1 };

		drain(g_udp[i]);
		drain(g_raw[i]);
		drain(g_tcp[i]);
		ep_write(g_tcp[i], b, sizeof(b));
		if (endpoint_tcp_state(g_tcp[i]) == TCPS_CLOSE)
			connect_tcp(i);
	}
	drain(g_ping);
	sim_run(g_sim, 20000000);
	if (g_sim->s[0]->frag_mem > (5u << 20) || g_sim->s[0]->neigh_count > 1024)
		abort();
}

/* Something near a good packet: headers right, fields and bytes off here and there. */
static size_t make(uint8_t *f)
{
	struct sim *m = g_sim;
	int v6 = (int)(sim_rand(m) & 1), kind = (int)(sim_rand(m) % 8);
	struct eth_hdr *e = (void *)f;
	size_t payload = sim_rand(m) % (sim_rand(m) % 8 ? 60 : 1400);
	struct ip_addr src = sim_addr(1, v6), dst = sim_addr(0, v6);
	uint8_t *l4 = f + 14 + (v6 ? 40 : 20);
	size_t n = payload;
	uint8_t proto = 0;

	memset(f, 0, 128);
	memcpy(e->dst, m->n[0]->mac, 6);
	memcpy(e->src, m->n[1]->mac, 6);
	for (size_t i = 0; i < payload; i++)
		l4[i] = (uint8_t)sim_rand(m);
	if (kind < 4) { /* TCP: to the listener, or of a live connection */
		struct endpoint *ep = g_tcp[v6];
		struct tcp *t = tcp_of(ep);
		struct tcp_hdr *h = (void *)l4;
		uint8_t opts = (uint8_t)(sim_rand(m) % 4 ? 0 : sim_rand(m) % 11);

		n = sizeof(*h) + opts * 4u + payload;
		proto = IPPROTO_TCP;
		h->sport = htons((uint16_t)(kind ? 80 : sim_rand(m)));
		h->dport = htons(kind ? ep->lport : 80);
		h->seq = htonl(t->rcv_nxt + sim_rand(m) % 3000 - (sim_rand(m) & 1 ? 1500 : 0));
		h->ack = htonl(t->snd_una + sim_rand(m) % 3000);
		if (sim_rand(m) % 3 == 0) {
			h->seq = htonl(t->rcv_nxt);
			h->ack = htonl(t->snd_max);
		}
		h->off = (uint8_t)((5 + opts) << 4);
		h->flags = (uint8_t)(sim_rand(m) % 4 ? TCP_ACK : sim_rand(m));
		h->window = (uint16_t)sim_rand(m);
		h->csum = 0;
		h->urgent = (uint16_t)(sim_rand(m) % 50);
	} else if (kind == 4) {
		struct udp_hdr *h = (void *)l4;

		n = sizeof(*h) + payload;
		proto = IPPROTO_UDP;
		h->sport = htons(9);
		h->dport = htons((uint16_t)(53 + sim_rand(m) % 2));
		h->len = htons((uint16_t)(n + (sim_rand(m) % 8 ? 0 : sim_rand(m))));
		h->csum = 0;
	} else if (kind < 7) { /* ICMP: echo, errors about real or random flows, neighbour messages */
		struct icmp_hdr *h = (void *)l4;
		static const uint8_t t4[] = { 0, 3, 5, 8, 11, 12 }, t6[] = { 1, 2, 3, 4, 128, 129, 133, 134, 135, 136 };

		n = sizeof(*h) + payload;
		proto = v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
		h->type = v6 ? t6[sim_rand(m) % sizeof(t6)] : t4[sim_rand(m) % sizeof(t4)];
		h->code = (uint8_t)(sim_rand(m) % 6);
		h->csum = 0;
		if (payload > 60 && (sim_rand(m) & 1)) {
			struct ipv4_hdr *q = (void *)(h + 1);
			struct tcp_hdr *th = (void *)(q + 1);

			if (!v6) {
				q->ver_ihl = 0x45;
				q->frag = 0;
				q->proto = IPPROTO_TCP;
				q->src = dst.w[3];
				q->dst = src.w[3];
				th->sport = htons(g_tcp[0]->lport);
				th->dport = htons(80);
				th->seq = htonl(tcp_of(g_tcp[0])->snd_una);
			}
		}
	} else {
		struct arp_hdr *a = (void *)(f + 14);

		if (sim_rand(m) & 1) {
			e->type = htons(ETH_ARP);
			for (size_t i = 0; i < sizeof(*a); i++)
				((uint8_t *)a)[i] = (uint8_t)sim_rand(m);
			a->hw_type = htons(1);
			a->proto_type = htons(ETH_IPV4);
			a->hw_len = 6;
			a->proto_len = 4;
			a->tpa = dst.w[3];
			return 14 + sizeof(*a);
		}
		proto = (uint8_t)sim_rand(m);
	}
	/* The checksum, over what is there. */
	struct pkt *p = pkt_from_mem(l4, (uint32_t)n);
	uint16_t c = csum_transport(p, &src, &dst, proto);

	if (proto == IPPROTO_ICMP)
		c = csum_fold((uint64_t)(uint16_t)~c + (uint16_t)~csum_pseudo(&src, &dst, proto, (uint32_t)n));
	pkt_free(p);
	if (proto == IPPROTO_TCP)
		memcpy(l4 + 16, &c, 2);
	else if (proto == IPPROTO_UDP && n >= 8)
		memcpy(l4 + 6, &c, 2);
	else if (n >= 4)
		memcpy(l4 + 2, &c, 2);
	if (v6) {
		struct ipv6_hdr *h = (void *)(f + 14);

		e->type = htons(ETH_IPV6);
		h->ver_class_flow = htonl(6u << 28);
		h->payload_len = htons((uint16_t)n);
		h->next = sim_rand(m) % 16 ? proto : (uint8_t)(sim_rand(m) % 3 ? 44 : sim_rand(m) % 61);
		h->hop_limit = sim_rand(m) & 1 ? 255 : 64;
		memcpy(h->src, src.b, 16);
		memcpy(h->dst, dst.b, 16);
		if (sim_rand(m) % 8 == 0)
			h->src[sim_rand(m) % 16] ^= (uint8_t)sim_rand(m);
		n += 40;
	} else {
		struct ipv4_hdr *h = (void *)(f + 14);

		e->type = htons(ETH_IPV4);
		h->ver_ihl = sim_rand(m) % 16 ? 0x45 : (uint8_t)(0x40 | sim_rand(m) % 16);
		h->total_len = htons((uint16_t)(n + 20));
		h->id = htons((uint16_t)(sim_rand(m) % 4));
		h->frag = sim_rand(m) % 6 ? 0 : htons((uint16_t)(sim_rand(m) % 40 | (sim_rand(m) & 1 ? IPV4_MF : 0)));
		h->ttl = 64;
		h->proto = proto;
		h->src = src.w[3];
		h->dst = dst.w[3];
		if (sim_rand(m) % 16 == 0)
			h->src = sim_rand(m);
		if (sim_rand(m) % 16 == 0)
			h->dst = htonl(0xe0000001);
		h->csum = csum_fold(csum_add(0, h, sizeof(*h)));
		n += 20;
	}
	n += 14;
	while (sim_rand(m) % 8 == 0)
		f[sim_rand(m) % n] ^= (uint8_t)(1u << sim_rand(m) % 8);
	return sim_rand(m) % 16 ? n : sim_rand(m) % n + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!g_sim)
		set_up(1);
	while (size > 2) {
		size_t n = (size_t)(data[0] | data[1] << 8) % 2000;

		data += 2;
		size -= 2;
		n = n > size ? size : n;
		if (n)
			one(data, n);
		data += n;
		size -= n;
	}
	return 0;
}

#ifndef FUZZ_LIBFUZZER
int main(int argc, char **argv)
{
	uint64_t frames = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
	static uint8_t frame[4096];

	set_up(argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
	for (uint64_t i = 0; i < frames; i++)
		one(frame, make(frame));
	const struct stack_counters *c = stack_counters(g_sim->s[0]);

	printf("frame_fuzz: %llu frames: tcp in %llu (bad %llu), passive %llu, resets out %llu, udp in %llu, icmp in %llu, reassembled %llu, header errors %llu\n",
	       (unsigned long long)g_frames, (unsigned long long)c->tcp_in, (unsigned long long)c->tcp_in_errs,
	       (unsigned long long)c->tcp_passive, (unsigned long long)c->tcp_out_rsts, (unsigned long long)c->udp_in,
	       (unsigned long long)c->icmp_in, (unsigned long long)c->ip_reasm_oks, (unsigned long long)c->ip_in_hdr_errors);
	return 0;
}
#endif
