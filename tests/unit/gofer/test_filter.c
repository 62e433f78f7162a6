/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter by trial: every syscall number with senseless arguments, from a process that
 * has the filter. Only the listed ones come back; what takes a directory or flags is refused with
 * such arguments even where it is allowed with right ones.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/unit/gofer/gofer_test.h"

#define NR_MAX 480

static void setup(void)
{
	make_tree();
	start(0);
}

/* 1 when the call came back (or ended the process regularly), 0 when it was killed. */
static int comes_back(int nr, long a0, long a1, long a2, long a3, long a4, int writable)
{
	struct gofer_conf c = { .any_writable = writable, .log_fd = 77, .sock = 78 };
	struct rlimit none = { 0, 0 };
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (filter_install(g, &c))
			_exit(99);
		syscall(nr, a0, a1, a2, a3, a4, -1L);
		syscall(SYS_exit_group, 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 99);
	if (WIFSIGNALED(status))
		ck_assert_int_eq(WTERMSIG(status), SIGSYS);
	return WIFEXITED(status);
}

static int listed(int nr, const int *list)
{
	for (; *list >= 0; list++)
		if (*list == nr)
			return 1;
	return 0;
}

START_TEST(read_only_list)
{
	static const int allowed[] = { SYS_close,	  SYS_getdents64, SYS_fstatfs,
				       SYS_fgetxattr,	  SYS_flistxattr, SYS_fsync,
				       SYS_clock_gettime, SYS_exit_group, -1 };

	/* uretprobe and uprobe pass every filter; they do nothing without a probe. */
	for (int nr = 0; nr < NR_MAX; nr++)
		if (nr != 335 && nr != 336)
			ck_assert_msg(comes_back(nr, -1, -1, -1, -1, -1, 0) == listed(nr, allowed),
				      "syscall %d", nr);
}
END_TEST

START_TEST(writable_list)
{
	static const int more[] = { SYS_ftruncate, SYS_fsetxattr, SYS_fremovexattr, -1 };
	static const int some[] = { SYS_open,  SYS_openat,  SYS_execve, SYS_socket,   SYS_mmap,
				    SYS_fork,  SYS_mkdirat, SYS_ptrace, SYS_connect,  SYS_fchmod,
				    SYS_chmod, SYS_unlink,  SYS_rename, SYS_renameat, SYS_mount,
				    SYS_kill,  SYS_fallocate, -1 };

	for (const int *nr = more; *nr >= 0; nr++)
		ck_assert_msg(comes_back(*nr, -1, -1, -1, -1, -1, 1), "syscall %d", *nr);
	for (const int *nr = some; *nr >= 0; nr++)
		ck_assert_msg(!comes_back(*nr, -1, -1, -1, -1, -1, 1), "syscall %d", *nr);
}
END_TEST

START_TEST(arguments)
{
	const int stat_flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;

	/* statx: never by cwd, never following */
	ck_assert(comes_back(SYS_statx, 500, 0, stat_flags, 0, 0, 0));
	ck_assert(!comes_back(SYS_statx, AT_FDCWD, 0, stat_flags, 0, 0, 0));
	ck_assert(!comes_back(SYS_statx, 500, 0, 0, 0, 0, 0));
	ck_assert(comes_back(SYS_openat2, 500, 0, 0, 24, 0, 0));
	ck_assert(!comes_back(SYS_openat2, AT_FDCWD, 0, 0, 24, 0, 0));
	ck_assert(!comes_back(SYS_openat2, 500, 0, 0, 32, 0, 0));
	/* the one socket, the one log */
	ck_assert(comes_back(SYS_recvmsg, 78, 0, 0, 0, 0, 0));
	ck_assert(!comes_back(SYS_recvmsg, 79, 0, 0, 0, 0, 0));
	ck_assert(!comes_back(SYS_sendmsg, 79, 0, 0, 0, 0, 0));
	ck_assert(comes_back(SYS_write, 77, 0, 0, 0, 0, 0));
	ck_assert(!comes_back(SYS_write, 1, 0, 0, 0, 0, 0));
	/* no device nodes, no following link or chown */
	ck_assert(comes_back(SYS_mknodat, 500, 0, S_IFIFO | 0644, 0, 0, 1));
	ck_assert(comes_back(SYS_mknodat, 500, 0, S_IFSOCK | 0644, 0, 0, 1));
	ck_assert(!comes_back(SYS_mknodat, 500, 0, S_IFCHR | 0644, 0, 0, 1));
	ck_assert(!comes_back(SYS_mknodat, 500, 0, S_IFBLK | 0644, 0, 0, 1));
	ck_assert(!comes_back(SYS_mknodat, 500, 0, S_IFREG | 0644, 0, 0, 1));
	ck_assert(comes_back(SYS_linkat, 500, 0, 500, 0, 0, 1));
	ck_assert(!comes_back(SYS_linkat, 500, 0, 500, 0, AT_SYMLINK_FOLLOW, 1));
	ck_assert(!comes_back(SYS_fchownat, 500, 0, 0, 0, 0, 1));
	ck_assert(comes_back(SYS_fchownat, 500, 0, 0, 0, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, 1));
	ck_assert(!comes_back(SYS_lseek, 500, 0, SEEK_END, 0, 0, 1));
	/* and none of the writing ones for read-only trees */
	ck_assert(!comes_back(SYS_mkdirat, 500, 0, 0, 0, 0, 0));
	ck_assert(!comes_back(SYS_unlinkat, 500, 0, 0, 0, 0, 0));
	ck_assert(comes_back(SYS_unlinkat, 500, 0, 0, 0, 0, 1));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("filter");
	TCase *tc = tcase_create("filter");

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	printf("skipped: sanitizers make calls of their own\n");
	suite_add_tcase(s, tc);
	srunner_free(srunner_create(s));
	return 0;
#endif
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, remove_tree);
	tcase_add_test(tc, read_only_list);
	tcase_add_test(tc, writable_list);
	tcase_add_test(tc, arguments);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
