/* SPDX-License-Identifier: Apache-2.0 */
/* The memory file: ranges do not overlap, come back zero, split from bigger ones. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/host/memfile.h"

#define RANGES 200

START_TEST(ranges_are_zero_and_disjoint)
{
	int64_t off[RANGES] = {0};
	uint64_t size[RANGES] = {0};

	ck_assert_int_eq(memfile_start(), 0);
	srand(7);
	for (int i = 0; i < 20000; i++) {
		int k = rand() % RANGES;

		if (size[k]) {
			char *p = memfile_at(off[k]);

			/* What was written is still ours alone. */
			ck_assert(p[0] == (char)k && p[size[k] - 1] == (char)k);
			memfile_free(off[k], size[k]);
			size[k] = 0;
			continue;
		}
		size[k] = 1 + (uint64_t)rand() % (4 * MEMFILE_MIN);
		off[k] = memfile_alloc(size[k]);
		ck_assert_int_ge(off[k], 0);
		ck_assert_int_eq(off[k] % 4096, 0);
		char *p = memfile_at(off[k]);

		ck_assert(p[0] == 0 && p[size[k] - 1] == 0);
		p[0] = p[size[k] - 1] = (char)k;
	}
	for (int k = 0; k < RANGES; k++)
		if (size[k])
			memfile_free(off[k], size[k]);
}
END_TEST

START_TEST(sizes_round_and_end)
{
	ck_assert_int_eq(memfile_start(), 0);
	ck_assert_uint_eq(memfile_round(1), MEMFILE_MIN);
	ck_assert_uint_eq(memfile_round(MEMFILE_MIN + 1), 2 * MEMFILE_MIN);
	ck_assert_int_eq(memfile_alloc(UINT64_MAX), -EFBIG);
	ck_assert_int_eq(memfile_alloc(1ull << 46), -ENOMEM);
	ck_assert(memfile_host_memory() > (1u << 20));
}
END_TEST

START_TEST(punched_pages_cost_nothing)
{
	int64_t off;
	uint64_t before;

	ck_assert_int_eq(memfile_start(), 0);
	before = memfile_used();
	off = memfile_alloc(1 << 20);
	memset(memfile_at(off), 1, 1 << 20);
	ck_assert_uint_ge(memfile_used(), before + (1 << 20));
	memfile_punch(off + 4096, (1 << 20) - 4096);
	ck_assert_uint_le(memfile_used(), before + 4096);
	ck_assert_int_eq(*((char *)memfile_at(off) + 8192), 0);
	ck_assert_int_eq(*(char *)memfile_at(off), 1);
	memfile_free(off, 1 << 20);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memfile");
	TCase *tc = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, ranges_are_zero_and_disjoint);
	tcase_add_test(tc, sizes_round_and_end);
	tcase_add_test(tc, punched_pages_cost_nothing);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
