/* SPDX-License-Identifier: Apache-2.0 */
/* Pid allocation and the open hash behind it, over namespaces. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "sentry/task/task_priv.h"

#define MANY 3000

START_TEST(numbers_go_up_and_are_found)
{
	struct pid_ns *ns = pid_ns_new(NULL);
	struct pid *p[MANY];

	for (int i = 0; i < MANY; i++) {
		p[i] = pid_alloc(ns, NULL, 0);
		ck_assert(!IS_ERR(p[i]));
		ck_assert_int_eq(pid_nr_in(p[i], ns), i + 1);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert_ptr_eq(pid_find(ns, i + 1), p[i]);
	ck_assert_ptr_null(pid_find(ns, MANY + 1));
	ck_assert_ptr_null(pid_find(ns, 0));
	ck_assert_ptr_null(pid_find(ns, -1));
	ck_assert_ptr_eq(pid_next(ns, 17), p[16]);
	for (int i = 0; i < MANY; i++) {
		pid_release_unused(p[i]);
		pid_put(p[i]);
	}
	ck_assert_uint_eq(ns->table_used, 0);
	pid_ns_put(ns);
}
END_TEST

START_TEST(deletions_in_random_order_lose_nothing)
{
	struct pid_ns *ns = pid_ns_new(NULL);
	struct pid *p[MANY];

	srand(2);
	for (int i = 0; i < MANY; i++)
		p[i] = pid_alloc(ns, NULL, 0);
	for (int left = MANY; left > 0; left--) {
		int i = rand() % MANY;

		while (!p[i])
			i = (i + 1) % MANY;
		pid_release_unused(p[i]);
		pid_put(p[i]);
		p[i] = NULL;
		if (left % 100 == 0)
			for (int j = 0; j < MANY; j++)
				ck_assert_ptr_eq(pid_find(ns, j + 1), p[j]);
	}
	pid_ns_put(ns);
}
END_TEST

START_TEST(an_id_in_use_as_a_group_keeps_its_number)
{
	struct pid_ns *ns = pid_ns_new(NULL);
	struct pid *p = pid_alloc(ns, NULL, 0);
	struct list_head member;

	list_init(&member);
	list_add(&member, &p->pgrp_members);
	pid_release_unused(p);
	ck_assert_ptr_eq(pid_find(ns, 1), p);
	list_del(&member);
	pid_release_unused(p);
	ck_assert_ptr_null(pid_find(ns, 1));
	pid_release_unused(p); /* harmless */
	pid_put(p);
	pid_ns_put(ns);
}
END_TEST

START_TEST(wanted_numbers)
{
	struct pid_ns *top = pid_ns_new(NULL), *in = pid_ns_new(top);
	struct pid *a = pid_alloc(top, (int[]){ 1 }, 1), *b, *c;

	ck_assert(!IS_ERR(a));
	ck_assert_int_eq(PTR_ERR(pid_alloc(top, (int[]){ 1 }, 1)), -EEXIST);
	ck_assert_int_eq(PTR_ERR(pid_alloc(top, (int[]){ 0 }, 1)), -EINVAL);
	ck_assert_int_eq(PTR_ERR(pid_alloc(top, (int[]){ PID_MAX_DEFAULT }, 1)), -EINVAL);
	ck_assert_int_eq(PTR_ERR(pid_alloc(top, (int[]){ 5, 6 }, 2)), -EINVAL);
	/* The first of a namespace is number 1. */
	ck_assert_int_eq(PTR_ERR(pid_alloc(in, (int[]){ 7 }, 1)), -EINVAL);
	b = pid_alloc(in, (int[]){ 1, 77 }, 2);
	ck_assert_int_eq(pid_nr_in(b, in), 1);
	ck_assert_int_eq(pid_nr_in(b, top), 77);
	c = pid_alloc(top, NULL, 0);
	ck_assert_int_eq(pid_nr_in(c, in), 0);
	ck_assert_ptr_null(pid_find(in, pid_nr_in(c, top) + 1000));
	struct pid *all[] = { a, b, c };

	for (int i = 0; i < 3; i++) {
		pid_release_unused(all[i]);
		pid_put(all[i]);
	}
	pid_ns_put(in);
	pid_ns_put(top);
}
END_TEST

START_TEST(namespaces_nest_so_deep_and_no_deeper)
{
	struct pid_ns *ns[PID_NS_MAX_LEVEL];
	int n = 1;

	ns[0] = pid_ns_new(NULL);
	for (; n < PID_NS_MAX_LEVEL; n++) {
		ns[n] = pid_ns_new(ns[n - 1]);
		ck_assert(!IS_ERR(ns[n]));
	}
	ck_assert_int_eq(PTR_ERR(pid_ns_new(ns[n - 1])), -ENOSPC);
	struct pid *p = pid_alloc(ns[n - 1], NULL, 0);

	for (int i = 0; i < n; i++)
		ck_assert_int_eq(pid_nr_in(p, ns[i]), 1);
	pid_release_unused(p);
	pid_put(p);
	while (n-- > 0)
		pid_ns_put(ns[n]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pid");
	TCase *t = tcase_create("table");
	SRunner *r = srunner_create(s);

	tcase_add_test(t, numbers_go_up_and_are_found);
	tcase_add_test(t, deletions_in_random_order_lose_nothing);
	tcase_add_test(t, an_id_in_use_as_a_group_keeps_its_number);
	tcase_add_test(t, wanted_numbers);
	tcase_add_test(t, namespaces_nest_so_deep_and_no_deeper);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
