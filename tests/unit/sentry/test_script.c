/* SPDX-License-Identifier: Apache-2.0 */
/* The "#!" parser on what programs write and on what they should not. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/loader/loader.h"

static char g_head[EXEC_HEAD_SIZE];

static int parse(const char *text, struct script *s)
{
	memset(g_head, 0, sizeof(g_head));
	memcpy(g_head, text, strlen(text) < sizeof(g_head) ? strlen(text) : sizeof(g_head));
	memset(s, 0, sizeof(*s));
	return script_parse(g_head, s);
}

START_TEST(interpreter_and_argument)
{
	struct script s;

	ck_assert_int_eq(parse("#!/bin/sh\n", &s), 0);
	ck_assert_str_eq(s.interp, "/bin/sh");
	ck_assert_ptr_null(s.arg);
	ck_assert_int_eq(parse("#! \t/usr/bin/env  python3 -u \t\nimport os\n", &s), 0);
	ck_assert_str_eq(s.interp, "/usr/bin/env");
	ck_assert_str_eq(s.arg, "python3 -u");
	ck_assert_int_eq(parse("#!/bin/sh", &s), 0);
	ck_assert_str_eq(s.interp, "/bin/sh");
	ck_assert_int_eq(parse("#!/bin/sh -", &s), 0);
	ck_assert_str_eq(s.arg, "-");
}
END_TEST

START_TEST(not_a_script)
{
	static const char *const bad[] = { "", "#", "#!", "#!\n", "#!  \t \n", "# !/bin/sh\n", "\n#!/x\n" };
	struct script s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_int_eq(parse(bad[i], &s), -ENOEXEC);
}
END_TEST

START_TEST(a_path_that_fills_the_head_is_cut_off)
{
	char text[EXEC_HEAD_SIZE + 1];
	struct script s;

	memset(text, 'a', sizeof(text));
	memcpy(text, "#!/", 3);
	text[EXEC_HEAD_SIZE] = 0;
	ck_assert_int_eq(parse(text, &s), -ENOEXEC);
	/* A blank after it shows that the path is whole; the argument may be cut. */
	text[100] = ' ';
	ck_assert_int_eq(parse(text, &s), 0);
	ck_assert_uint_eq(strlen(s.interp), 98);
	ck_assert_ptr_nonnull(s.arg);
	ck_assert_uint_le(strlen(s.arg), EXEC_HEAD_SIZE);
	/* Blanks to the end: no interpreter. */
	memset(text + 2, ' ', EXEC_HEAD_SIZE - 2);
	ck_assert_int_eq(parse(text, &s), -ENOEXEC);
}
END_TEST

START_TEST(random_heads_stay_inside)
{
	struct script s;

	srand(1);
	for (int i = 0; i < 20000; i++) {
		for (size_t j = 0; j < sizeof(g_head); j++)
			g_head[j] = "a/ \t\n\0#!"[rand() % 8];
		g_head[0] = '#';
		g_head[1] = '!';
		if (script_parse(g_head, &s))
			continue;
		ck_assert(s.interp > g_head && s.interp < g_head + sizeof(g_head));
		ck_assert_ptr_nonnull(memchr(s.interp, 0, (size_t)(g_head + sizeof(g_head) - s.interp)));
		ck_assert(s.interp[0] != 0);
		if (s.arg)
			ck_assert_ptr_nonnull(memchr(s.arg, 0, (size_t)(g_head + sizeof(g_head) - s.arg)));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("script");
	TCase *t = tcase_create("parse");
	SRunner *r = srunner_create(s);

	tcase_add_test(t, interpreter_and_argument);
	tcase_add_test(t, not_a_script);
	tcase_add_test(t, a_path_that_fills_the_head_is_cut_off);
	tcase_add_test(t, random_heads_stay_inside);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
