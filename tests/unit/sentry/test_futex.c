/* SPDX-License-Identifier: Apache-2.0 */
/* Futex queues over a fake guest's memory, with host threads as tasks. */
#include "tests/unit/sentry/task_fixture.h"

#include <linux/futex.h>
#include <pthread.h>

#include "sentry/futex/futex_priv.h"

static struct fixture *f;
static const struct futex_timeout g_forever = { .clock = CLOCK_MONOTONIC, .ns = NO_DEADLINE };

static void setup(void)
{
	f = fix_new();
	fix_memory(f);
}

static void word_set(uint64_t at, uint32_t v)
{
	ck_assert_int_eq(put_user_u32(&f->t[0], at, v), 0);
}

static uint32_t word(uint64_t at)
{
	uint32_t v = 0;

	get_user_u32(&f->t[0], at, &v);
	return v;
}

START_TEST(another_value_does_not_wait)
{
	word_set(FIX_PAGE, 3);
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE, 0, 4, ~0u, &g_forever), -EAGAIN);
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE + 2, 0, 4, ~0u, &g_forever), -EINVAL);
	ck_assert_int_eq(futex_do_wait(&f->t[0], 0x1000, 0, 4, ~0u, &g_forever), -EFAULT);
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE, 0, 3, 0, &g_forever), -EINVAL);
}
END_TEST

START_TEST(a_timeout_ends_the_wait)
{
	struct futex_timeout to = { .clock = CLOCK_MONOTONIC, .ns = mono_now_ns() + 1000000 };

	word_set(FIX_PAGE, 3);
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE, 0, 3, ~0u, &to), -ETIMEDOUT);
	to.clock = CLOCK_REALTIME;
	to.ns = kernel_real_now(&f->k) + 1000000;
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE, 0, 3, ~0u, &to), -ETIMEDOUT);
}
END_TEST

START_TEST(work_interrupts_and_arranges_the_restart)
{
	struct futex_timeout to = { .clock = CLOCK_MONOTONIC, .ns = mono_now_ns() + 1000000000 };

	word_set(FIX_PAGE, 3);
	f->t[0].work = TASK_WORK_SIGNAL;
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE, 0, 3, ~0u, &g_forever), -ERESTARTSYS);
	ck_assert_int_eq(futex_do_wait(&f->t[0], FIX_PAGE, 0, 3, ~0u, &to), -ERESTART_RESTARTBLOCK);
	f->t[0].work = 0;
	word_set(FIX_PAGE, 4);
	ck_assert_int_eq(f->t[0].restart.fn(&f->t[0], &f->t[0].restart), -EAGAIN);
	ck_assert_int_eq(futex_do_wake(&f->t[0], FIX_PAGE, 0, 1, ~0u), 0);
}
END_TEST

#define ROUNDS 3000

/* Two tasks pass a turn to and fro; a lost wake-up would hang the test. */
static void *ping(void *arg)
{
	long me = (long)arg;
	struct task *t = &f->t[me];

	current = t;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t v;

		while ((v = word(FIX_PAGE)) % 2 != (uint32_t)me)
			futex_do_wait(t, FIX_PAGE, 0, v, ~0u, &g_forever);
		put_user_u32(t, FIX_PAGE, v + 1);
		futex_do_wake(t, FIX_PAGE, 0, 1, ~0u);
	}
	return NULL;
}

START_TEST(no_wake_is_lost)
{
	pthread_t a, b;

	word_set(FIX_PAGE, 0);
	pthread_create(&a, NULL, ping, (void *)0L);
	pthread_create(&b, NULL, ping, (void *)1L);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	ck_assert_uint_eq(word(FIX_PAGE), 2 * ROUNDS);
}
END_TEST

static void *wait_once(void *arg)
{
	long me = (long)arg;

	current = &f->t[me];
	return (void *)futex_do_wait(&f->t[me], FIX_PAGE, 0, 0, ~0u, &g_forever);
}

START_TEST(waiters_move_and_wake_where_they_went)
{
	pthread_t a, b;
	void *ra, *rb;
	long moved = 0, woken = 0;

	word_set(FIX_PAGE, 0);
	word_set(FIX_PAGE + 64, 0);
	pthread_create(&a, NULL, wait_once, (void *)1L);
	pthread_create(&b, NULL, wait_once, (void *)2L);
	while (moved < 2)
		moved += futex_requeue(&f->t[0], FIX_PAGE, 0, FIX_PAGE + 64, 0, 0, 2, NULL);
	ck_assert_int_eq(futex_do_wake(&f->t[0], FIX_PAGE, 0, 9, ~0u), 0);
	ck_assert_int_eq(futex_do_wake(&f->t[0], FIX_PAGE + 64, FUTEX_F_SHARED, 9, ~0u), 0);
	while (woken < 2)
		woken += futex_do_wake(&f->t[0], FIX_PAGE + 64, 0, 1, ~0u);
	pthread_join(a, &ra);
	pthread_join(b, &rb);
	ck_assert_ptr_null(ra);
	ck_assert_ptr_null(rb);
}
END_TEST

START_TEST(wake_op_changes_the_word)
{
	word_set(FIX_PAGE, 0);
	word_set(FIX_PAGE + 4, 10);
	ck_assert_int_eq(futex_wake_op(&f->t[0], FIX_PAGE, 0, FIX_PAGE + 4, 1, 1,
				       FUTEX_OP(FUTEX_OP_ADD, 0xfff, FUTEX_OP_CMP_EQ, 10)),
			 0);
	ck_assert_uint_eq(word(FIX_PAGE + 4), 9);
	ck_assert_int_eq(futex_wake_op(&f->t[0], FIX_PAGE, 0, FIX_PAGE + 4, 1, 1, 6u << 28),
			 -ENOSYS);
}
END_TEST

START_TEST(robust_list_walks_end)
{
	struct task *t = &f->t[0];

	/* An entry that points to itself: bounded, and the word is marked. */
	put_user_u64(t, FIX_PAGE, FIX_PAGE + 64);      /* head.next */
	put_user_u64(t, FIX_PAGE + 8, 16);	       /* futex_offset */
	put_user_u64(t, FIX_PAGE + 16, 0);	       /* pending */
	put_user_u64(t, FIX_PAGE + 64, FIX_PAGE + 64); /* entry.next: itself */
	put_user_u32(t, FIX_PAGE + 80, 100);	       /* the word: this thread's tid */
	futex_robust_died(t, FIX_PAGE);
	ck_assert_uint_eq(word(FIX_PAGE + 80), FUTEX_OWNER_DIED);
	/* Pointers into nowhere. */
	put_user_u64(t, FIX_PAGE, 0xdead0000);
	futex_robust_died(t, FIX_PAGE);
	futex_robust_died(t, 0x10);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("futex");
	TCase *tc = tcase_create("futex");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, another_value_does_not_wait);
	tcase_add_test(tc, a_timeout_ends_the_wait);
	tcase_add_test(tc, work_interrupts_and_arranges_the_restart);
	tcase_add_test(tc, no_wake_is_lost);
	tcase_add_test(tc, waiters_move_and_wake_where_they_went);
	tcase_add_test(tc, wake_op_changes_the_word);
	tcase_add_test(tc, robust_list_walks_end);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
