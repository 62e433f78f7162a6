/* SPDX-License-Identifier: Apache-2.0 */
/* User strings: a table of what must be refused, and what it means otherwise. */
#include "runtime/user.h"

#include <check.h>
#include <stdlib.h>

START_TEST(odd_strings_are_refused_and_store_nothing)
{
	static const char *const bad[] = {
		"", " ", "+1", "-1", " 1", "1 ", "1\n", "\t1", "1:", ":1", ":", "1:2:3", "1::2", "1: 2", "1:+2",
		"1:-2", "0x0", "0X1", "1e3", "1.0", "1,2", "1000abc", "abc", "root", "root:root", "0:root", "4294967295",
		"4294967296", "4294967295:0", "0:4294967295", "99999999999999999999", "18446744073709551616",
		"00000000000", "1;2", "1/2", "$UID", "%d", "\xc2\xb9", "１", "1\x01", "--", "-0", "+0", "1-1",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		uint32_t uid = 77, gid = 88;

		ck_assert_msg(user_parse(bad[i], &uid, &gid) != 0, "'%s' was taken", bad[i]);
		ck_assert_uint_eq(uid, 77);
		ck_assert_uint_eq(gid, 88);
	}
}
END_TEST

START_TEST(decimal_ids_mean_themselves)
{
	static const struct {
		const char *text;
		uint32_t uid, gid;
	} good[] = {
		{ "0", 0, 88 },		 { "1", 1, 88 },	 { "007", 7, 88 },
		{ "1000:1001", 1000, 1001 }, { "0:0", 0, 0 },	 { "4294967294", 4294967294u, 88 },
		{ "2147483648", 2147483648u, 88 }, { "65536:65536", 65536, 65536 },
		{ "5:4294967294", 5, 4294967294u },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		uint32_t uid = 77, gid = 88;

		ck_assert_msg(user_parse(good[i].text, &uid, &gid) == 0, "'%s' was refused", good[i].text);
		ck_assert_uint_eq(uid, good[i].uid);
		ck_assert_uint_eq(gid, good[i].gid);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("user");
	TCase *c = tcase_create("strings");
	SRunner *r = srunner_create(s);

	tcase_add_test(c, odd_strings_are_refused_and_store_nothing);
	tcase_add_test(c, decimal_ids_mean_themselves);
	suite_add_tcase(s, c);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
