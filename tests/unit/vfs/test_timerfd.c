/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines lie in the past, or so far off that they never come: nothing here sleeps for time. */
#include <sched.h>
#include <sys/ioctl.h>

#include "tests/unit/vfs/files_kit.h"
#include "vfs/anon/anon.h"

#define ABSTIME 1

/* The timer thread needs a moment to fire what is due. */
static int64_t read_soon(struct file *f)
{
	uint64_t v;
	ssize_t r;

	while ((r = kread(f, &v, 8)) == -EAGAIN)
		sched_yield();
	return r == 8 ? (int64_t)v : r;
}

START_TEST(past_deadline_counts_every_interval)
{
	struct file *f = timerfd_new(g_vfs, g_cred, CLOCK_MONOTONIC, 0);
	struct itimerspec its = { .it_interval = { 0, 1000000 } };
	struct timespec now;
	int64_t got, elapsed;

	clock_gettime(CLOCK_MONOTONIC, &now);
	its.it_value = (struct timespec){ now.tv_sec - 1, now.tv_nsec };
	if (now.tv_sec < 1)
		return;
	ck_assert_int_eq(timerfd_set(f, g_cred, ABSTIME, &its, NULL), 0);
	got = read_soon(f);
	ck_assert_int_ge(got, 1000);
	clock_gettime(CLOCK_MONOTONIC, &now);
	elapsed = (now.tv_sec - its.it_value.tv_sec) * 1000 +
		  (now.tv_nsec - its.it_value.tv_nsec) / 1000000;
	ck_assert_int_le(got, elapsed + 1);
	file_put(f);
}
END_TEST

START_TEST(settings_read_back)
{
	struct file *f = timerfd_new(g_vfs, g_cred, CLOCK_REALTIME, 0);
	struct itimerspec its = { { 7, 5 }, { 1000, 0 } }, cur;
	uint64_t v;

	ck_assert_int_eq(timerfd_set(f, g_cred, 0, &its, &cur), 0);
	ck_assert_int_eq(cur.it_value.tv_sec, 0);
	ck_assert_int_eq(timerfd_get(f, &cur), 0);
	ck_assert_int_ge(cur.it_value.tv_sec, 998);
	ck_assert_int_eq(cur.it_interval.tv_sec, 7);
	ck_assert_int_eq(cur.it_interval.tv_nsec, 5);
	ck_assert_int_eq(kread(f, &v, 8), -EAGAIN);
	ck_assert_int_eq(kread(f, &v, 4), -EINVAL);
	ck_assert_uint_eq(file_poll(f, NULL), 0);
	memset(&its, 0, sizeof(its));
	ck_assert_int_eq(timerfd_set(f, g_cred, 0, &its, &cur), 0);
	ck_assert_int_ge(cur.it_value.tv_sec, 998);
	ck_assert_int_eq(timerfd_get(f, &cur), 0);
	ck_assert_int_eq(cur.it_value.tv_sec, 0);
	its.it_value = (struct timespec){ INT64_MAX, 999999999 };
	ck_assert_int_eq(timerfd_set(f, g_cred, ABSTIME, &its, NULL), 0);
	v = 3;
	ck_assert_int_eq(kioctl(f, _IOW('T', 0, uint64_t), &v), 0);
	ck_assert_int_eq(read_soon(f), 3);
	file_put(f);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
	struct file *f = timerfd_new(g_vfs, g_cred, CLOCK_BOOTTIME, 0);
	struct itimerspec its = { .it_value = { 1, 1000000000 } };

	ck_assert_int_eq(timerfd_set(f, g_cred, 0, &its, NULL), -EINVAL);
	its.it_value = (struct timespec){ -1, 0 };
	ck_assert_int_eq(timerfd_set(f, g_cred, 0, &its, NULL), -EINVAL);
	its.it_value = (struct timespec){ 1, 0 };
	ck_assert_int_eq(timerfd_set(f, g_cred, 8, &its, NULL), -EINVAL);
	file_put(f);
	ck_assert_int_eq(PTR_ERR(timerfd_new(g_vfs, g_cred, CLOCK_THREAD_CPUTIME_ID, 0)), -EINVAL);
	ck_assert_int_eq(PTR_ERR(timerfd_new(g_vfs, g_cred, CLOCK_MONOTONIC, 1)), -EINVAL);
	ck_assert_int_eq(PTR_ERR(timerfd_new(g_vfs, g_nobody, CLOCK_BOOTTIME_ALARM, 0)), -EPERM);
	f = timerfd_new(g_vfs, g_cred, CLOCK_REALTIME_ALARM, 0);
	ck_assert_int_eq(timerfd_set(f, g_nobody, 0, &its, NULL), -EPERM);
	file_put(f);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, past_deadline_counts_every_interval);
	tcase_add_test(tc, settings_read_back);
	tcase_add_test(tc, bad_arguments_are_refused);
}

int main(void)
{
	return kit_run("timerfd", add);
}
