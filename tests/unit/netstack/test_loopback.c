/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback interface under threads: connections, echo, datagrams and closes at once. For TSan. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/tcp/tcp_priv.h"
#include "platform/base/ktimer.h"

#define THREADS 4
#define ROUNDS 60

static struct stack *g_stack;
static struct ktimer g_timer;
static uint16_t g_port;
static uint32_t g_seed = 1;

static uint64_t now(void *p)
{
	(void)p;
	return mono_now_ns();
}

static void arm(void *p, uint64_t deadline)
{
	(void)p;
	ktimer_arm(&g_timer, deadline);
}

static void fires(struct ktimer *t)
{
	(void)t;
	stack_timers(g_stack);
}

static void rnd(void *p, void *buf, size_t n)
{
	(void)p;
	for (size_t i = 0; i < n; i++)
		((uint8_t *)buf)[i] = (uint8_t)(__atomic_add_fetch(&g_seed, 0x9e3779b9u, __ATOMIC_RELAXED) >> 11);
}

struct wait {
	struct waiter w;
	pthread_mutex_t m;
	pthread_cond_t c;
	int woken;
};

static int wake(struct waiter *w, uint32_t events)
{
	struct wait *x = w->priv;

	(void)events;
	pthread_mutex_lock(&x->m);
	x->woken = 1;
	pthread_cond_signal(&x->c);
	pthread_mutex_unlock(&x->m);
	return 1;
}

/* As a blocked task does it. */
static void wait_for(struct endpoint *ep, uint32_t events)
{
	struct wait x = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };

	waiter_init(&x.w, events, wake, &x);
	waitq_add(&ep->wq, &x.w);
	while (!(endpoint_ready(ep) & (events | POLLERR | POLLHUP))) {
		pthread_mutex_lock(&x.m);
		while (!x.woken)
			pthread_cond_wait(&x.c, &x.m);
		x.woken = 0;
		pthread_mutex_unlock(&x.m);
	}
	waitq_del(&x.w);
}

static ssize_t put(struct endpoint *ep, const void *p, size_t n)
{
	struct uio u;
	struct ep_send m = { .u = &u, .ttl = -1, .tos = -1 };

	uio_init_kernel(&u, (void *)(uintptr_t)p, n);
	return endpoint_send(ep, &m);
}

static ssize_t get(struct endpoint *ep, void *p, size_t n)
{
	struct uio u;
	struct ep_recv m = { .u = &u };

	uio_init_kernel(&u, p, n);
	return endpoint_recv(ep, &m);
}

static void *echo(void *arg)
{
	struct endpoint *ep = arg;
	char buf[5000];

	for (;;) {
		ssize_t n = get(ep, buf, sizeof(buf));

		if (n == -EAGAIN) {
			wait_for(ep, POLLIN);
			continue;
		}
		if (n <= 0)
			break;
		for (ssize_t done = 0; done < n;) {
			ssize_t w = put(ep, buf + done, (size_t)(n - done));

			if (w == -EAGAIN)
				wait_for(ep, POLLOUT);
			else if (w < 0)
				break;
			else
				done += w;
		}
	}
	endpoint_close(ep);
	return NULL;
}

static void *server(void *arg)
{
	struct endpoint *l = arg;
	pthread_t th[THREADS * ROUNDS];
	int count = 0;

	while (count < THREADS * ROUNDS) {
		struct endpoint *ep = endpoint_accept(l);

		if (IS_ERR(ep)) {
			ck_assert_int_eq(PTR_ERR(ep), -EAGAIN);
			wait_for(l, POLLIN);
			continue;
		}
		pthread_create(&th[count++], NULL, echo, ep);
	}
	while (count)
		pthread_join(th[--count], NULL);
	return NULL;
}

static void *client(void *arg)
{
	struct ip_addr lo = ip_from_v4(htonl(INADDR_LOOPBACK));
	static char out[20000];

	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct endpoint *ep = endpoint_new(g_stack, EP_TCP, 0, IPPROTO_TCP);
		size_t sent = 0, got = 0, total = sizeof(out);
		char in[3000];

		int err = endpoint_connect(ep, &lo, g_port);

		while (err == -EINPROGRESS || err == -EALREADY) {
			wait_for(ep, POLLOUT);
			err = endpoint_connect(ep, &lo, g_port);
		}
		ck_assert_int_eq(err, 0);
		while (got < total) {
			ssize_t n = sent < total ? put(ep, out + sent, total - sent > 7000 ? 7000 : total - sent) : -EAGAIN;

			if (n > 0)
				sent += (size_t)n;
			n = get(ep, in, sizeof(in));
			if (n > 0)
				got += (size_t)n;
			else if (n == -EAGAIN)
				wait_for(ep, POLLIN);
			else
				ck_abort_msg("recv gave %zd", n);
		}
		if (i % 3 == 0)
			endpoint_shutdown(ep, 2);
		if (i % 5 == 0) {
			ep->o.linger_on = 1;
			ep->o.linger_s = 0;
		}
		endpoint_close(ep);
	}
	return NULL;
}

static void *datagrams(void *arg)
{
	struct ip_addr lo = ip_from_v4(htonl(INADDR_LOOPBACK));
	struct endpoint *a = endpoint_new(g_stack, EP_UDP, 0, IPPROTO_UDP), *b = endpoint_new(g_stack, EP_UDP, 0, IPPROTO_UDP);
	char buf[100];

	(void)arg;
	ck_assert_int_eq(endpoint_bind(a, &lo, 0), 0);
	ck_assert_int_eq(endpoint_connect(b, &lo, a->lport), 0);
	for (int i = 0; i < 2000; i++) {
		ck_assert_int_eq(put(b, buf, 100), 100);
		ck_assert_int_eq(get(a, buf, 100), 100);
	}
	endpoint_close(a);
	ck_assert_int_eq(put(b, buf, 1), 1);
	ck_assert_int_eq(put(b, buf, 1), -ECONNREFUSED);
	endpoint_close(b);
	return NULL;
}

START_TEST(test_threads)
{
	struct stack_env env = { .now = now, .real = now, .arm = arm, .random = rnd };
	struct ip_addr lo = ip_from_v4(htonl(INADDR_LOOPBACK));
	pthread_t th[THREADS], srv, dg;

	ktimer_init(&g_timer, fires, NULL);
	g_stack = stack_new(&env);
	stack_lock(g_stack);
	loopback_new(g_stack);
	stack_unlock(g_stack);
	struct endpoint *l = endpoint_new(g_stack, EP_TCP, 0, IPPROTO_TCP);

	ck_assert_int_eq(endpoint_bind(l, &lo, 0), 0);
	g_port = l->lport;
	ck_assert_int_eq(endpoint_listen(l, 128), 0);
	pthread_create(&srv, NULL, server, l);
	pthread_create(&dg, NULL, datagrams, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&th[i], NULL, client, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	pthread_join(dg, NULL);
	pthread_join(srv, NULL);
	endpoint_close(l);
	ktimer_cancel_sync(&g_timer);
	stack_free(g_stack);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("loopback");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_threads);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
