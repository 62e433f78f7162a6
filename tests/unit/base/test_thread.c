/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: each does its work once, and those that have ended theirs take more. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/thread.h"

#define MANY 60

static uint32_t g_runs[MANY], g_running, g_hold;
static pid_t g_tid[MANY];
static char g_name[MANY][16];

static void *work(void *arg)
{
	uintptr_t i = (uintptr_t)arg;

	g_tid[i] = (pid_t)syscall(SYS_gettid);
	prctl(PR_GET_NAME, g_name[i]);
	__atomic_fetch_add(&g_running, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&g_hold, __ATOMIC_SEQ_CST))
		sched_yield();
	__atomic_fetch_add(&g_runs[i], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void await_runs(uintptr_t i)
{
	while (!__atomic_load_n(&g_runs[i], __ATOMIC_SEQ_CST))
		sched_yield();
}

static void reset(void)
{
	memset(g_runs, 0, sizeof(g_runs));
	g_running = g_hold = 0;
}

START_TEST(one_after_the_other_shares_threads)
{
	int same = 0;

	reset();
	for (uintptr_t i = 0; i < MANY; i++) {
		char name[16];

		snprintf(name, sizeof(name), "work-%d", (int)i);
		ck_assert_int_eq(thread_start(name, work, (void *)i), 0);
		await_runs(i);
		usleep(1000); /* it goes back to wait */
		ck_assert_str_eq(g_name[i], name);
		same += i && g_tid[i] == g_tid[i - 1];
	}
	ck_assert_int_gt(same, MANY / 2);
	ck_assert_int_ne(g_tid[0], getpid());
}
END_TEST

START_TEST(side_by_side_has_one_each)
{
	for (int round = 0; round < 3; round++) {
		reset();
		g_hold = 1;
		for (uintptr_t i = 0; i < MANY; i++)
			ck_assert_int_eq(thread_start("work", work, (void *)i), 0);
		while (__atomic_load_n(&g_running, __ATOMIC_SEQ_CST) < MANY)
			sched_yield();
		for (int i = 0; i < MANY; i++)
			for (int j = 0; j < i; j++)
				ck_assert_int_ne(g_tid[i], g_tid[j]);
		__atomic_store_n(&g_hold, 0, __ATOMIC_SEQ_CST);
		for (uintptr_t i = 0; i < MANY; i++)
			await_runs(i);
		usleep(5000);
		for (int i = 0; i < MANY; i++)
			ck_assert_uint_eq(g_runs[i], 1);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("thread");
	TCase *tc = tcase_create("threads");
	SRunner *sr;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, one_after_the_other_shares_threads);
	tcase_add_test(tc, side_by_side_has_one_each);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
