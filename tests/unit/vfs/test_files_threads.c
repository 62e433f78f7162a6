/* SPDX-License-Identifier: Apache-2.0 */
/* Races between closing, waking, collecting and writing; for the sanitizers to look at. */
#include <pthread.h>

#include "tests/unit/vfs/files_kit.h"
#include "vfs/anon/anon.h"
#include "vfs/epoll.h"
#include "vfs/pipe.h"

#define ROUNDS 3000

static struct file *g_ep[2];
static uint32_t g_stop;

static void *open_and_close(void *arg)
{
	uint64_t one = 1;

	for (int i = 0; i < ROUNDS; i++) {
		struct file *f = eventfd_new(g_vfs, g_cred, 0, 0), *inner = epoll_new(g_vfs, g_cred);
		struct epoll_event ev = { .events = EPOLLIN | (i & 1 ? EPOLLET : 0) };

		epoll_ctl_file(g_ep[0], EPOLL_CTL_ADD, f, i, &ev, g_cred);
		epoll_ctl_file(inner, EPOLL_CTL_ADD, f, i, &ev, g_cred);
		epoll_ctl_file(g_ep[1], EPOLL_CTL_ADD, inner, i, &ev, g_cred);
		kwrite(f, &one, 8);
		if (i & 2) {
			file_put(inner);
			file_put(f);
		} else {
			file_put(f);
			file_put(inner);
		}
	}
	return NULL;
}

static void *collect(void *arg)
{
	struct file *ep = arg;
	struct epoll_event ev[8];

	while (!__atomic_load_n(&g_stop, __ATOMIC_SEQ_CST)) {
		struct probe p;

		epoll_collect(ep, ev, 8);
		probe_start(&p, ep);
		probe_stop(&p);
	}
	return NULL;
}

START_TEST(closing_races_with_waking_and_collecting)
{
	pthread_t open[2], coll[2];

	g_stop = 0;
	for (int i = 0; i < 2; i++)
		g_ep[i] = epoll_new(g_vfs, g_cred);
	for (int i = 0; i < 2; i++) {
		pthread_create(&coll[i], NULL, collect, g_ep[i]);
		pthread_create(&open[i], NULL, open_and_close, NULL);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(open[i], NULL);
	__atomic_store_n(&g_stop, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 2; i++)
		pthread_join(coll[i], NULL);
	file_put(g_ep[0]);
	file_put(g_ep[1]);
}
END_TEST

static struct file *g_pipe[2], *g_other[2];
#define TOTAL 4000000u

static void *pipe_writer(void *arg)
{
	static char buf[70000];
	size_t left = TOTAL;

	while (left) {
		size_t n = left * 7 % sizeof(buf) + 1;
		ssize_t r = kwrite(g_pipe[1], buf, n < left ? n : left);

		if (r > 0)
			left -= (size_t)r;
		else
			sched_yield();
	}
	file_put(g_pipe[1]);
	return NULL;
}

static void *pipe_splicer(void *arg)
{
	struct splice_wait w;
	ssize_t r;

	while ((r = splice_once(g_pipe[0], NULL, g_other[1], NULL, 10000, UINT64_MAX, &w)) != 0)
		if (r < 0)
			sched_yield();
	file_put(g_other[1]);
	return NULL;
}

START_TEST(every_byte_of_a_busy_pipe_arrives_once)
{
	static char buf[9000];
	size_t got = 0;
	pthread_t w, s;
	ssize_t r;

	ck_assert_int_eq(pipe_new(g_vfs, g_cred, 0, g_pipe), 0);
	ck_assert_int_eq(pipe_new(g_vfs, g_cred, 0, g_other), 0);
	pthread_create(&w, NULL, pipe_writer, NULL);
	pthread_create(&s, NULL, pipe_splicer, NULL);
	while ((r = kread(g_other[0], buf, sizeof(buf))) != 0) {
		if (r > 0)
			got += (size_t)r;
		else
			sched_yield();
	}
	pthread_join(w, NULL);
	pthread_join(s, NULL);
	ck_assert_uint_eq(got, TOTAL);
	file_put(g_pipe[0]);
	file_put(g_other[0]);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, closing_races_with_waking_and_collecting);
	tcase_add_test(tc, every_byte_of_a_busy_pipe_arrives_once);
}

int main(void)
{
	return kit_run("files_threads", add);
}
