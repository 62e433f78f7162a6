/* SPDX-License-Identifier: Apache-2.0 */
/* timer_create's overruns and ids, interval timers, clocks. */
#include "tests/unit/sentry/task_fixture.h"

#include <sched.h>
#include <sys/time.h>

#define MS 1000000ull

static struct fixture *f;

static void setup(void)
{
	f = fix_new();
	fix_action(f, SIGUSR1, 0x1000, 0);
	fix_action(f, SIGALRM, 0x1000, 0);
}

static void teardown(void)
{
	timers_group_exit(&f->tg, 0);
	ck_assert_ptr_null(f->k.user_counts);
}

static int make(int notify)
{
	struct sigevent_k sev = { .notify = notify, .signo = SIGUSR1, .value = 7 };
	int id = posix_timer_create(&f->t[0], CLOCK_MONOTONIC, &sev);

	ck_assert_int_ge(id, 0);
	return id;
}

/* The timer thread needs a moment even for what is due already. */
static void wait_pending(int signo)
{
	for (;;) {
		lock_acquire(&f->k.tasks_lock);
		int there = (f->tg.pending.set & SIGBIT(signo)) != 0;

		lock_release(&f->k.tasks_lock);
		if (there)
			return;
		sched_yield();
	}
}

static int take(siginfo_t *si)
{
	lock_acquire(&f->k.tasks_lock);
	int signo = signal_dequeue_locked(&f->t[0], 0, si, 0);

	lock_release(&f->k.tasks_lock);
	return signo;
}

START_TEST(missed_periods_are_the_overrun)
{
	struct itimer_ns v = { .value = mono_now_ns() - 100 * MS, .interval = 10 * MS };
	int id = make(SIGEV_SIGNAL);
	siginfo_t si;

	ck_assert_int_eq(posix_timer_set(&f->t[0], id, TIMER_ABSTIME, &v, NULL), 0);
	wait_pending(SIGUSR1);
	ck_assert_int_eq(take(&si), SIGUSR1);
	ck_assert_int_eq(si.si_code, SI_TIMER);
	ck_assert_int_eq(si.si_timerid, id);
	ck_assert_int_eq(si.si_value.sival_int, 7);
	ck_assert_int_ge(si.si_overrun, 10);
	ck_assert_int_lt(si.si_overrun, 100);
	ck_assert_int_eq(posix_timer_overrun(&f->t[0], id), si.si_overrun);
	ck_assert_int_eq(posix_timer_get(&f->t[0], id, &v), 0);
	ck_assert(v.value > 0 && v.value <= 10 * MS && v.interval == 10 * MS);
}
END_TEST

START_TEST(setting_anew_takes_the_signal_back)
{
	struct itimer_ns v = { .value = 1 }, off = { 0 };
	int id = make(SIGEV_SIGNAL);
	siginfo_t si;

	posix_timer_set(&f->t[0], id, TIMER_ABSTIME, &v, NULL);
	wait_pending(SIGUSR1);
	posix_timer_set(&f->t[0], id, 0, &off, NULL);
	ck_assert_int_eq(take(&si), 0);
	posix_timer_set(&f->t[0], id, TIMER_ABSTIME, &v, NULL);
	wait_pending(SIGUSR1);
	ck_assert_int_eq(posix_timer_delete(&f->t[0], id), 0);
	ck_assert_int_eq(take(&si), 0);
	ck_assert_int_eq(posix_timer_delete(&f->t[0], id), -EINVAL);
}
END_TEST

START_TEST(ids_are_not_reused_at_once)
{
	int a = make(SIGEV_NONE), b = make(SIGEV_NONE);

	ck_assert_int_ne(a, b);
	posix_timer_delete(&f->t[0], a);
	ck_assert_int_gt(make(SIGEV_NONE), b);
}
END_TEST

START_TEST(timers_count_against_the_limit)
{
	struct sigevent_k sev = { .notify = SIGEV_NONE };

	f->tg.rlimits[RLIMIT_SIGPENDING].rlim_cur = 1;
	make(SIGEV_NONE);
	ck_assert_int_eq(posix_timer_create(&f->t[0], CLOCK_MONOTONIC, &sev), -EAGAIN);
}
END_TEST

START_TEST(exec_drops_timers_and_keeps_itimers)
{
	struct itimer_ns v = { .value = 100000 * MS }, cur;
	int id = make(SIGEV_SIGNAL);

	itimer_set(&f->t[0], ITIMER_REAL, &v, NULL);
	timers_group_exit(&f->tg, 1);
	ck_assert_int_eq(posix_timer_get(&f->t[0], id, &cur), -EINVAL);
	itimer_get(&f->t[0], ITIMER_REAL, &cur);
	ck_assert(cur.value > 99000 * MS);
}
END_TEST

START_TEST(a_periodic_itimer_goes_on_when_its_signal_is_taken)
{
	struct itimer_ns v = { .value = 1, .interval = 1 * MS }, off = { 0 };
	siginfo_t si;

	itimer_set(&f->t[0], ITIMER_REAL, &v, NULL);
	for (int i = 0; i < 3; i++) {
		wait_pending(SIGALRM);
		ck_assert_int_eq(take(&si), SIGALRM);
		ck_assert_int_eq(si.si_code, SI_KERNEL);
	}
	itimer_set(&f->t[0], ITIMER_REAL, &off, &v);
	ck_assert_uint_eq(v.interval, 1 * MS);
}
END_TEST

START_TEST(times_saturate)
{
	uint64_t ns;

	ck_assert_int_eq(timespec_to_ns(INT64_MAX, 0, &ns), 0);
	ck_assert_uint_eq(ns, TIME_NS_MAX);
	ck_assert_int_eq(timespec_to_ns(-1, 0, &ns), -EINVAL);
	ck_assert_int_eq(timespec_to_ns(0, 1000000000, &ns), -EINVAL);
	ck_assert_uint_eq(deadline_add(TIME_NS_MAX - 1, 5), TIME_NS_MAX);
	ck_assert_uint_eq(deadline_add(UINT64_MAX, UINT64_MAX), TIME_NS_MAX);
}
END_TEST

START_TEST(realtime_can_be_stepped)
{
	uint64_t now;

	clock_set_real(&f->k, 5 * NSEC_PER_SEC);
	ck_assert_int_eq(clock_now(&f->t[0], CLOCK_REALTIME, &now), 0);
	ck_assert(now >= 5 * NSEC_PER_SEC && now < 6 * NSEC_PER_SEC);
	ck_assert_int_eq(clock_now(&f->t[0], 42, &now), -EINVAL);
	ck_assert_int_eq(clock_now(&f->t[0], -1, &now), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timers");
	TCase *tc = tcase_create("timers");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, missed_periods_are_the_overrun);
	tcase_add_test(tc, setting_anew_takes_the_signal_back);
	tcase_add_test(tc, ids_are_not_reused_at_once);
	tcase_add_test(tc, timers_count_against_the_limit);
	tcase_add_test(tc, exec_drops_timers_and_keeps_itimers);
	tcase_add_test(tc, a_periodic_itimer_goes_on_when_its_signal_is_taken);
	tcase_add_test(tc, times_saturate);
	tcase_add_test(tc, realtime_can_be_stepped);
	suite_add_tcase(s, tc);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
