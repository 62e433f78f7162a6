/* SPDX-License-Identifier: Apache-2.0 */
/* The state store: ids, saving, liveness, leftovers. */
#include "runtime/state.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/oci.h"

static char g_root[64];

static void set_up(void)
{
	snprintf(g_root, sizeof(g_root), "/tmp/caisson-state.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(g_root));
	g_oci.root = g_root;
}

static void tear_down(void)
{
	ck_assert_int_eq(rmdir(g_root), 0);
}

START_TEST(ids_that_could_leave_the_directory_are_invalid)
{
	char longest[STATE_ID_MAX + 2];
	static const char *const bad[] = { "", ".", "..", "a/b", "/", "-a", "--force", "a b", "a\n", "a\tb", "ä", "a*", "a;b" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(!state_id_valid(bad[i]), "'%s' was taken", bad[i]);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ck_assert_int_eq(state_id_valid(longest), 0);
	longest[STATE_ID_MAX] = '\0';
	ck_assert_int_eq(state_id_valid(longest), 1);
	ck_assert_int_eq(state_id_valid("libpod-1a_2.B+c"), 1);
}
END_TEST

START_TEST(what_is_saved_is_found_again)
{
	struct state s, t;

	state_create(&s, "one");
	s.json = json_object_new_object();
	json_object_object_add(s.json, "bundle", json_object_new_string("/b"));
	ck_assert_int_eq(state_save(&s), 0);
	state_close(&s);
	ck_assert_int_eq(state_open(&t, "one", 1), 0);
	ck_assert_str_eq(state_text(&t, "bundle"), "/b");
	ck_assert_str_eq(state_text(&t, "nothing"), "");
	ck_assert_int_eq(state_pid(&t), 0);
	state_remove(&t);
	state_close(&t);
	ck_assert_int_eq(state_open(&t, "one", 0), -ENOENT);
}
END_TEST

START_TEST(an_interrupted_creation_is_taken_over)
{
	struct state s;

	state_create(&s, "half");
	ck_assert_ptr_null(s.json);
	state_close(&s); /* the creator is gone, its lock too */
	state_create(&s, "half");
	state_remove(&s);
	state_close(&s);
}
END_TEST

static void record_pid(struct state *s, pid_t pid, uint64_t start)
{
	s->json = json_object_new_object();
	json_object_object_add(s->json, "pid", json_object_new_int(pid));
	json_object_object_add(s->json, "startTime", json_object_new_uint64(start));
}

START_TEST(a_pid_counts_only_with_its_start_time_and_while_it_lives)
{
	struct state s = { .dir = -1 };
	int dead;
	uint64_t start = state_start_time(getpid(), &dead);

	ck_assert_int_eq(dead, 0);
	record_pid(&s, getpid(), start);
	ck_assert_int_eq(state_pid(&s), getpid());
	state_close(&s);
	record_pid(&s, getpid(), start + 1);
	ck_assert_int_eq(state_pid(&s), 0);
	state_close(&s);

	pid_t child = fork();

	if (child == 0)
		_exit(0);
	siginfo_t si;

	waitid(P_PID, (id_t)child, &si, WEXITED | WNOWAIT);
	start = state_start_time(child, &dead);
	ck_assert_int_eq(dead, 1);
	record_pid(&s, child, start);
	ck_assert_int_eq(state_pid(&s), 0);
	state_close(&s);
	waitpid(child, NULL, 0);
}
END_TEST

START_TEST(a_damaged_file_is_no_state)
{
	static const char *const texts[] = { "", "{", "[]", "42", "{\"pid\": \"x\"}", "{\"pid\": -5}",
					     "{\"pid\": 1e300, \"startTime\": {}}", "\xff\xfe" };
	struct state s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		state_create(&s, "bad");
		int fd = openat(s.dir, "state.json", O_WRONLY | O_CREAT | O_TRUNC, 0600);

		ck_assert_int_eq(write(fd, texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
		close(fd);
		state_close(&s);
		ck_assert_int_eq(state_open(&s, "bad", 1), 0);
		ck_assert_int_eq(state_pid(&s), 0);
		state_remove(&s);
		state_close(&s);
	}
}
END_TEST

START_TEST(a_directory_others_can_write_to_is_refused)
{
	struct state s;

	chmod(g_root, 0777);
	state_create(&s, "x");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("state");
	TCase *c = tcase_create("store"), *d = tcase_create("refusal");
	SRunner *r = srunner_create(s);

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_checked_fixture(d, set_up, NULL);
	tcase_add_test(c, ids_that_could_leave_the_directory_are_invalid);
	tcase_add_test(c, what_is_saved_is_found_again);
	tcase_add_test(c, an_interrupted_creation_is_taken_over);
	tcase_add_test(c, a_pid_counts_only_with_its_start_time_and_while_it_lives);
	tcase_add_test(c, a_damaged_file_is_no_state);
	tcase_add_exit_test(d, a_directory_others_can_write_to_is_refused, 1);
	suite_add_tcase(s, c);
	suite_add_tcase(s, d);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
