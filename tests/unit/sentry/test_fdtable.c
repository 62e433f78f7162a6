/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptor tables: lowest free fd, limits, close-on-exec, reservation, ranges, sharing. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/fd/fdtable.h"
#include "sentry/task/task.h"

/* Defined here so that the archive member with main() is not linked. */
static struct kernel g_k;
static struct thread_group g_tg;
static struct task g_task;
static int g_released;

static void count_release(struct file *f)
{
	(void)f;
	g_released++;
}

static const struct file_ops g_ops = { .release = count_release };
static struct vfs *g_vfs;
static struct cred *g_cred;

static struct file *new_file(void)
{
	struct file *f = file_new_anon(g_vfs, "test", &g_ops, NULL, O_RDWR,
				       FMODE_READ | FMODE_WRITE, g_cred);

	ck_assert(!IS_ERR(f));
	return f;
}

static void setup(void)
{
	memset(&g_task, 0, sizeof(g_task));
	memset(&g_tg, 0, sizeof(g_tg));
	lock_init(&g_k.tasks_lock, RANK_TASKS);
	lock_init(&g_tg.rlimit_lock, RANK_LEAF);
	g_tg.rlimits[RLIMIT_NOFILE].rlim_cur = g_tg.rlimits[RLIMIT_NOFILE].rlim_max = 1024;
	g_task.k = &g_k;
	g_task.tg = &g_tg;
	g_vfs = vfs_new();
	g_cred = cred_new(0, 0, CAP_ALL_MASK);
	g_task.cred = g_cred;
	g_task.files = fdtable_new();
	g_released = 0;
}

static int install(int min, uint32_t flags)
{
	return fd_install(&g_task, new_file(), min, flags);
}

START_TEST(the_lowest_free_fd_is_given)
{
	setup();
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(install(0, 0), i);
	ck_assert_int_eq(fd_close(&g_task, 70), 0);
	ck_assert_int_eq(fd_close(&g_task, 5), 0);
	ck_assert_int_eq(fd_close(&g_task, 5), -EBADF);
	ck_assert_int_eq(install(10, 0), 70);
	ck_assert_int_eq(install(0, 0), 5);
	ck_assert_int_eq(install(0, 0), 200);
	ck_assert_int_eq(install(500, 0), 500);
	ck_assert_int_eq(g_released, 2);
	fdtable_put(g_task.files);
	ck_assert_int_eq(g_released, 204);
}
END_TEST

START_TEST(the_limit_gives_emfile)
{
	struct file *f;

	setup();
	g_tg.rlimits[RLIMIT_NOFILE].rlim_cur = 3;
	ck_assert_int_eq(install(0, 0), 0);
	ck_assert_int_eq(install(0, 0), 1);
	ck_assert_int_eq(install(0, 0), 2);
	f = new_file();
	ck_assert_int_eq(fd_install(&g_task, f, 0, 0), -EMFILE);
	file_put(f);
	ck_assert_int_eq(fd_dup2(&g_task, 0, 3, 0, 0), -EBADF);
	ck_assert_int_eq(fd_dup2(&g_task, 0, -1, 0, 0), -EBADF);
	fdtable_put(g_task.files);
}
END_TEST

START_TEST(dup2_replaces_and_dup3_is_strict)
{
	setup();
	ck_assert_int_eq(install(0, O_CLOEXEC), 0);
	ck_assert_int_eq(install(0, 0), 1);
	ck_assert_int_eq(fd_dup2(&g_task, 0, 0, 0, 0), 0);
	ck_assert_int_eq(fd_get_cloexec(&g_task, 0), 1);
	ck_assert_int_eq(fd_dup2(&g_task, 0, 0, 0, 1), -EINVAL);
	ck_assert_int_eq(fd_dup2(&g_task, 0, 1, O_NONBLOCK, 1), -EINVAL);
	ck_assert_int_eq(fd_dup2(&g_task, 9, 1, 0, 0), -EBADF);
	ck_assert_int_eq(fd_dup2(&g_task, 0, 1, 0, 0), 1);
	ck_assert_int_eq(g_released, 1);
	ck_assert_int_eq(fd_get_cloexec(&g_task, 1), 0);
	ck_assert_int_eq(fd_dup2(&g_task, 0, 300, O_CLOEXEC, 1), 300);
	ck_assert_int_eq(fd_get_cloexec(&g_task, 300), 1);
	fdtable_put(g_task.files);
	ck_assert_int_eq(g_released, 2);
}
END_TEST

START_TEST(a_reserved_fd_is_nobodys)
{
	struct file *f;
	int fd;

	setup();
	fd = fd_reserve(&g_task, 0, O_CLOEXEC);
	ck_assert_int_eq(fd, 0);
	ck_assert_ptr_null(fd_get(&g_task, 0));
	ck_assert_int_eq(fd_close(&g_task, 0), -EBADF);
	ck_assert_int_eq(install(0, 0), 1);
	ck_assert_int_eq(fd_dup2(&g_task, 1, 0, 0, 0), -EBUSY);
	fd_publish(&g_task, 0, new_file());
	f = fd_get(&g_task, 0);
	ck_assert_ptr_nonnull(f);
	file_put(f);
	fd = fd_reserve(&g_task, 0, 0);
	ck_assert_int_eq(fd, 2);
	fd_unreserve(&g_task, fd);
	ck_assert_int_eq(install(0, 0), 2);
	fdtable_put(g_task.files);
}
END_TEST

START_TEST(exec_closes_marked_fds_of_a_private_copy)
{
	struct fdtable *shared;

	setup();
	ck_assert_int_eq(install(0, O_CLOEXEC), 0);
	ck_assert_int_eq(install(0, 0), 1);
	ck_assert_int_eq(install(100, O_CLOEXEC), 100);
	shared = fdtable_get(g_task.files);
	ck_assert_int_eq(fdtable_exec(&g_task), 0);
	ck_assert_ptr_ne(shared, g_task.files);
	ck_assert_int_eq(fdtable_next(g_task.files, 0), 1);
	ck_assert_int_eq(fdtable_next(g_task.files, 2), -1);
	ck_assert_int_eq(fdtable_next(shared, 2), 100);
	ck_assert_int_eq(g_released, 0);
	fdtable_put(shared);
	ck_assert_int_eq(g_released, 2);
	fdtable_put(g_task.files);
}
END_TEST

START_TEST(close_range_closes_marks_and_unshares)
{
	struct fdtable *shared;

	setup();
	for (int i = 0; i < 150; i++)
		install(0, 0);
	ck_assert_int_eq(fd_close_range(&g_task, 5, 4, 0), -EINVAL);
	ck_assert_int_eq(fd_close_range(&g_task, 0, 4, 0x80), -EINVAL);
	ck_assert_int_eq(fd_close_range(&g_task, 140, ~0u, CLOSE_RANGE_CLOEXEC), 0);
	ck_assert_int_eq(fd_get_cloexec(&g_task, 139), 0);
	ck_assert_int_eq(fd_get_cloexec(&g_task, 149), 1);
	shared = fdtable_get(g_task.files);
	ck_assert_int_eq(fd_close_range(&g_task, 3, ~0u, CLOSE_RANGE_UNSHARE), 0);
	ck_assert_int_eq(fdtable_next(g_task.files, 3), -1);
	ck_assert_int_eq(fdtable_next(shared, 3), 3);
	fdtable_put(shared);
	ck_assert_int_eq(g_released, 147);
	fdtable_put(g_task.files);
}
END_TEST

START_TEST(random_operations_match_an_array)
{
	uint8_t model[256];

	setup();
	memset(model, 0, sizeof(model));
	srand(3);
	for (int i = 0; i < 5000; i++) {
		int fd = rand() % 256, lowest;

		switch (rand() % 3) {
		case 0:
			for (lowest = 0; lowest < 256 && model[lowest]; lowest++)
				;
			if (lowest == 256)
				break;
			if (install(0, 0) != lowest)
				ck_abort_msg("lowest");
			model[lowest] = 1;
			break;
		case 1:
			if (fd_close(&g_task, fd) != (model[fd] ? 0 : -EBADF))
				ck_abort_msg("close");
			model[fd] = 0;
			break;
		default:
			lowest = rand() % 256;
			if (fd_dup2(&g_task, fd, lowest, 0, 0) != (model[fd] ? lowest : -EBADF))
				ck_abort_msg("dup2");
			model[lowest] |= model[fd];
			break;
		}
	}
	fdtable_put(g_task.files);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fdtable");
	TCase *tc = tcase_create("fdtable");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, the_lowest_free_fd_is_given);
	tcase_add_test(tc, the_limit_gives_emfile);
	tcase_add_test(tc, dup2_replaces_and_dup3_is_strict);
	tcase_add_test(tc, a_reserved_fd_is_nobodys);
	tcase_add_test(tc, exec_closes_marked_fds_of_a_private_copy);
	tcase_add_test(tc, close_range_closes_marks_and_unshares);
	tcase_add_test(tc, random_operations_match_an_array);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
