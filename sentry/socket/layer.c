/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket layer's start: AF_UNIX's tables, and the sandbox's network stack with its clock, timer
 * and random source.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "netstack/netstack.h"
#include "platform/base/hash.h"
#include "platform/base/ktimer.h"
#include "sentry/egress/egress.h"
#include "sentry/socket/net_tables.h"
#include "sentry/socket/netboot.h"
#include "sentry/socket/socket.h"

#define PACKET_MEMORY_MIN (8ull << 20)
#define PACKET_MEMORY_MAX (1ull << 30)

struct stack_host {
	struct ktimer timer;
	struct stack *stack;
	struct lock lock; /* RANK_LEAF */
	uint64_t pool[64]; /* [lock] random bytes, so that a port costs no syscall */
	uint32_t pool_used;
};

static uint64_t host_now(void *priv)
{
	(void)priv;
	return mono_now_ns();
}

static uint64_t host_real(void *priv)
{
	(void)priv;
	return real_now_ns() + (uint64_t)__atomic_load_n(&g_kernel->realtime_offset_ns, __ATOMIC_RELAXED);
}

static void host_arm(void *priv, uint64_t deadline)
{
	struct stack_host *h = priv;

	ktimer_arm(&h->timer, deadline);
}

/* #hostcalls: getrandom */
static void host_random(void *priv, void *buf, size_t n)
{
	struct stack_host *h = priv;

	lock_acquire(&h->lock);
	for (size_t done = 0; done < n; done += 8) {
		if (h->pool_used == sizeof(h->pool) / 8) {
			ASSERT(getrandom(h->pool, sizeof(h->pool), 0) == (ssize_t)sizeof(h->pool));
			h->pool_used = 0;
		}
		memcpy((char *)buf + done, &h->pool[h->pool_used], n - done < 8 ? n - done : 8);
		h->pool[h->pool_used++] = 0;
	}
	lock_release(&h->lock);
}

static void timer_fires(struct ktimer *t)
{
	stack_timers(((struct stack_host *)t->priv)->stack);
}

/* An eighth of the sandbox's memory, as Linux has it for tcp_mem. */
static uint64_t packet_memory(const struct kernel *k)
{
	uint64_t n = k->total_memory / 8;

	return n < PACKET_MEMORY_MIN ? PACKET_MEMORY_MIN : n > PACKET_MEMORY_MAX ? PACKET_MEMORY_MAX : n;
}

int socket_layer_start(struct kernel *k)
{
	struct socket_layer *l = calloc(1, sizeof(*l));
	struct stack_host *h = calloc(1, sizeof(*h));
	struct stack_env env = { .priv = h, .now = host_now, .real = host_real, .arm = host_arm,
				 .random = host_random };

	if (!l || !h)
		goto fail;
	ktimer_init(&h->timer, timer_fires, h);
	lock_init(&h->lock, RANK_LEAF);
	h->pool_used = sizeof(h->pool) / 8;
	l->local = unix_layer_new();
	l->stack = h->stack = stack_new(&env);
	if (!l->local || !l->stack)
		goto fail;
	stack_sysctl(l->stack)->mem_max = packet_memory(k);
	stack_sysctl(l->stack)->mem_pressure = packet_memory(k) / 4 * 3;
	stack_lock(l->stack);
	struct nic *lo = loopback_new(l->stack);

	stack_unlock(l->stack);
	if (!lo)
		goto fail;
	k->sockets = l;
	net_tables_start(k);
	int err = netboot(k);

	return err ? err : egress_start(k);
fail:
	free(l);
	free(h);
	return -ENOMEM;
}
