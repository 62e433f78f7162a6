/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two stacks joined by a wire in simulated time: delay, loss, duplication, reordering and a bit rate,
 * all from a seed, so that a failure repeats. Nothing sleeps.
 */
#ifndef CAISSON_TEST_SIM_H
#define CAISSON_TEST_SIM_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/net/net_priv.h"
#include "netstack/tcp/tcp_priv.h"

struct frame {
	struct list_head node;
	uint64_t at, order;
	int to;
	struct pkt *p;
};

struct sim {
	uint64_t now, seed, order;
	struct stack *s[2];
	struct nic *n[2];
	uint64_t armed[2];
	struct list_head wire; /* frames by time */
	/* per thousand */
	int loss, dup, reorder;
	uint64_t delay_ns, bits_per_s, free_at[2];
	uint64_t sent, lost;
	uint32_t wire_max; /* frames in flight, 0: any number */
	uint32_t wire_count;
};

static struct sim *g_sim;

static inline uint32_t sim_rand(struct sim *m)
{
	m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(m->seed >> 33);
}

static uint64_t sim_now(void *priv)
{
	(void)priv;
	return g_sim->now;
}

static void sim_arm(void *priv, uint64_t deadline)
{
	g_sim->armed[(uintptr_t)priv] = deadline;
}

static void sim_random(void *priv, void *buf, size_t n)
{
	(void)priv;
	for (size_t i = 0; i < n; i++)
		((uint8_t *)buf)[i] = (uint8_t)sim_rand(g_sim);
}

static void wire_put(struct sim *m, int to, struct pkt *p, uint64_t at)
{
	struct frame *f = malloc(sizeof(*f)), *o;

	*f = (struct frame){ .at = at, .order = m->order++, .to = to, .p = p };
	list_for_each(o, &m->wire, node)
		if (o->at > at)
			break;
	list_add_tail(&f->node, &o->node);
	m->wire_count++;
}

static void sim_xmit(struct nic *n, struct pkt *p)
{
	struct sim *m = g_sim;
	int from = n == m->n[1], to = !from;
	uint64_t at = m->now;

	m->sent++;
	/* As a real link would hand it over: one buffer, checksums complete. */
	p->csum_ok = 0;
	ck_assert_int_eq(pkt_linearise(p), 0);
	if ((int)(sim_rand(m) % 1000) < m->loss || (m->wire_max && m->wire_count >= m->wire_max)) {
		m->lost++;
		pkt_free(p);
		return;
	}
	if (m->bits_per_s) {
		uint64_t start = m->free_at[from] > at ? m->free_at[from] : at;

		m->free_at[from] = start + (uint64_t)p->len * 8 * 1000000000u / m->bits_per_s;
		at = m->free_at[from];
	}
	at += m->delay_ns;
	if ((int)(sim_rand(m) % 1000) < m->reorder)
		at += m->delay_ns / 2 + 1000000;
	if ((int)(sim_rand(m) % 1000) < m->dup)
		wire_put(m, to, pkt_clone(p), at);
	wire_put(m, to, p, at);
}

static struct sim *sim_new(uint64_t seed, uint32_t mtu)
{
	struct sim *m = calloc(1, sizeof(*m));

	g_sim = m;
	m->seed = seed;
	m->now = 1000000000000ull;
	m->delay_ns = 1000000;
	list_init(&m->wire);
	for (int i = 0; i < 2; i++) {
		struct stack_env env = { .priv = (void *)(uintptr_t)i, .now = sim_now, .real = sim_now,
					 .arm = sim_arm, .random = sim_random };
		struct nic_addr a4 = { .addr = ip_from_v4(htonl(0x0a000001u + (uint32_t)i)), .plen = 96 + 24,
				       .broadcast = ip_from_v4(htonl(0x0a0000ff)) };
		struct nic_addr a6 = { .addr.b = { 0xfd, [15] = (uint8_t)(1 + i) }, .plen = 64 };
		struct route r4 = { .dst = ip_from_v4(htonl(0x0a000000)), .plen = 96 + 24, .nic = 2,
				    .gateway = ip_from_v4(0), .pref_src = ip_from_v4(0) };
		struct route r6 = { .dst.b = { 0xfd }, .plen = 64, .nic = 2 };

		m->armed[i] = UINT64_MAX;
		m->s[i] = stack_new(&env);
		stack_lock(m->s[i]);
		loopback_new(m->s[i]);
		m->n[i] = nic_new(m->s[i], "eth0", mtu, NIC_UP | NIC_ARP);
		m->n[i]->xmit = sim_xmit;
		memcpy(m->n[i]->mac, "\x02\0\0\0\0", 5);
		m->n[i]->mac[5] = (uint8_t)(i + 1);
		ck_assert_int_eq(nic_add_addr(m->n[i], &a4), 0);
		ck_assert_int_eq(nic_add_addr(m->n[i], &a6), 0);
		ck_assert_int_eq(route_add(m->s[i], &r4), 0);
		ck_assert_int_eq(route_add(m->s[i], &r6), 0);
		stack_unlock(m->s[i]);
	}
	return m;
}

/* The next event, a frame or a timer, at most until `until`. 0 when there is none. */
static int sim_step(struct sim *m, uint64_t until)
{
	uint64_t next = UINT64_MAX;
	int who = -1;

	if (!list_empty(&m->wire)) {
		next = list_first(&m->wire, struct frame, node)->at;
		who = 2;
	}
	for (int i = 0; i < 2; i++)
		if (m->armed[i] < next) {
			next = m->armed[i];
			who = i;
		}
	if (who < 0 || next > until) {
		if (until != UINT64_MAX && m->now < until)
			m->now = until;
		return 0;
	}
	if (next > m->now)
		m->now = next;
	if (who == 2) {
		struct frame *f = list_first(&m->wire, struct frame, node);
		int to = f->to;

		list_del(&f->node);
		m->wire_count--;
		stack_lock(m->s[to]);
		nic_input(m->n[to], f->p);
		stack_unlock(m->s[to]);
		free(f);
	} else {
		m->armed[who] = UINT64_MAX;
		stack_timers(m->s[who]);
	}
	return 1;
}

static void sim_run(struct sim *m, uint64_t ns)
{
	uint64_t until = m->now + ns;

	while (sim_step(m, until))
		;
}

static inline void sim_free(struct sim *m)
{
	while (!list_empty(&m->wire)) {
		struct frame *f = list_first(&m->wire, struct frame, node);

		list_del(&f->node);
		pkt_free(f->p);
		free(f);
	}
	for (int i = 0; i < 2; i++)
		stack_free(m->s[i]);
	free(m);
}

static inline struct ip_addr sim_addr(int i, int v6)
{
	return v6 ? (struct ip_addr){ .b = { 0xfd, [15] = (uint8_t)(1 + i) } } :
		    ip_from_v4(htonl(0x0a000001u + (uint32_t)i));
}

static inline ssize_t ep_write(struct endpoint *ep, const void *p, size_t n)
{
	struct uio u;
	struct ep_send m = { .u = &u, .ttl = -1, .tos = -1 };

	uio_init_kernel(&u, (void *)(uintptr_t)p, n);
	return endpoint_send(ep, &m);
}

static inline ssize_t ep_read(struct endpoint *ep, void *p, size_t n)
{
	struct uio u;
	struct ep_recv m = { .u = &u };

	uio_init_kernel(&u, p, n);
	return endpoint_recv(ep, &m);
}

#endif
