/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/eventfd.h>

#include "tests/unit/vfs/files_kit.h"
#include "vfs/anon/anon.h"

START_TEST(counts_and_resets)
{
	struct file *f = eventfd_new(g_vfs, g_cred, 3, 0);
	uint64_t v = 4;

	ck_assert_int_eq(kwrite(f, &v, 8), 8);
	ck_assert_int_eq(kread(f, &v, 7), -EINVAL);
	ck_assert_int_eq(kread(f, &v, 8), 8);
	ck_assert_uint_eq(v, 7);
	ck_assert_int_eq(kread(f, &v, 8), -EAGAIN);
	ck_assert_uint_eq(file_poll(f, NULL), POLLOUT);
	file_put(f);
}
END_TEST

START_TEST(semaphore_gives_ones)
{
	struct file *f = eventfd_new(g_vfs, g_cred, 2, EFD_SEMAPHORE);
	uint64_t v;

	ck_assert_int_eq(kread(f, &v, 8), 8);
	ck_assert_uint_eq(v, 1);
	ck_assert_int_eq(kread(f, &v, 8), 8);
	ck_assert_int_eq(kread(f, &v, 8), -EAGAIN);
	file_put(f);
}
END_TEST

START_TEST(overflow_blocks)
{
	struct file *f = eventfd_new(g_vfs, g_cred, 1, 0);
	uint64_t v = UINT64_MAX;

	ck_assert_int_eq(kwrite(f, &v, 8), -EINVAL);
	v = UINT64_MAX - 1;
	ck_assert_int_eq(kwrite(f, &v, 8), -EAGAIN);
	v--;
	ck_assert_int_eq(kwrite(f, &v, 8), 8);
	ck_assert_uint_eq(file_poll(f, NULL), POLLIN);
	v = 1;
	ck_assert_int_eq(kwrite(f, &v, 8), -EAGAIN);
	eventfd_signal(f, 5);
	ck_assert_uint_eq(file_poll(f, NULL), POLLIN | POLLERR);
	ck_assert_int_eq(kread(f, &v, 8), 8);
	ck_assert_uint_eq(v, UINT64_MAX);
	file_put(f);
	ck_assert(IS_ERR(eventfd_new(g_vfs, g_cred, 0, 0x100)));
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, counts_and_resets);
	tcase_add_test(tc, semaphore_gives_ones);
	tcase_add_test(tc, overflow_blocks);
}

int main(void)
{
	return kit_run("eventfd", add);
}
