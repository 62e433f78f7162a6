/* SPDX-License-Identifier: Apache-2.0 */
/* platform/host: watches of fds, and the allow-list filter. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/host/event.h"
#include "platform/host/filter.h"

struct seen {
	struct waiter w;
	sem_t sem;
	uint32_t events;
};

static int on_wake(struct waiter *w, uint32_t events)
{
	struct seen *s = w->priv;

	__atomic_fetch_or(&s->events, events, __ATOMIC_SEQ_CST);
	sem_post(&s->sem);
	return 1;
}

static int wait_for(struct seen *s)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 5;
	return sem_timedwait(&s->sem, &ts);
}

START_TEST(a_ready_fd_wakes_its_queue)
{
	struct waitq q;
	struct seen s = { .events = 0 };
	int p[2];
	char c;

	ck_assert_int_eq(pipe(p), 0);
	waitq_init(&q);
	sem_init(&s.sem, 0, 0);
	waiter_init(&s.w, POLLIN | POLLHUP, on_wake, &s);
	waitq_add(&q, &s.w);
	ck_assert_int_eq(hostfd_watch_add(p[0], &q, POLLIN), 0);
	ck_assert_int_eq(hostfd_watch_add(p[0], &q, POLLIN), -EEXIST);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(write(p[1], "x", 1), 1);
		ck_assert_int_eq(wait_for(&s), 0);
		ck_assert_int_eq(read(p[0], &c, 1), 1);
	}
	ck_assert_uint_eq(__atomic_load_n(&s.events, __ATOMIC_SEQ_CST), POLLIN);
	/* Ready and not served: no further wakes. */
	ck_assert_int_eq(write(p[1], "x", 1), 1);
	ck_assert_int_eq(wait_for(&s), 0);
	ck_assert_int_eq(sem_trywait(&s.sem), -1);
	close(p[1]);
	ck_assert_int_eq(wait_for(&s), 0);
	ck_assert_uint_ne(__atomic_load_n(&s.events, __ATOMIC_SEQ_CST) & POLLHUP, 0);
	hostfd_watch_del(p[0], &q);
	close(p[0]);
	waitq_del(&s.w);
	waitq_destroy(&q);
}
END_TEST

START_TEST(what_is_ready_already_wakes_at_once)
{
	struct waitq q;
	struct seen s = { .events = 0 };
	int p[2], fd = open("/proc/self/exe", O_RDONLY);

	ck_assert_int_eq(pipe(p), 0);
	waitq_init(&q);
	sem_init(&s.sem, 0, 0);
	waiter_init(&s.w, POLLOUT, on_wake, &s);
	waitq_add(&q, &s.w);
	ck_assert_int_eq(hostfd_watch_add(p[1], &q, POLLOUT), 0);
	ck_assert_int_eq(wait_for(&s), 0);
	hostfd_watch_del(p[1], &q);
	ck_assert_int_eq(hostfd_watch_add(fd, &q, POLLIN), -EPERM);
	waitq_del(&s.w);
	waitq_destroy(&q);
	close(p[0]);
	close(p[1]);
	close(fd);
}
END_TEST

/* Runs body(arg) behind the filter in a child; its wait status. */
static int behind(const struct host_filter_rule *r, size_t n, int otherwise, void (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (host_filter_install(r, n, otherwise))
			syscall(SYS_exit_group, 99);
		body();
		syscall(SYS_exit_group, 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static const struct host_filter_rule g_rules[] = {
	{ .name = "exit_group" },
	{ .nr = SYS_getpid },
	{ .name = "fcntl", .arg_count = 2,
	  .arg = { { 0, HOST_ARG_LE, 2, 0 }, { 1, HOST_ARG_EQ, F_GETFL, 0 } } },
	{ .name = "fcntl", .arg_count = 1, .arg = { { 1, HOST_ARG_EQ, F_GETFD, 0 } } },
};

static void allowed(void)
{
	if (syscall(SYS_getpid) < 0 || fcntl(0, F_GETFD) == -1 || syscall(SYS_fcntl, 1, F_GETFL) == -1)
		syscall(SYS_exit_group, 1);
}

static void not_listed(void)
{
	syscall(SYS_getppid);
}

static void bad_argument(void)
{
	syscall(SYS_fcntl, 3, F_GETFL);
}

static void errno_expected(void)
{
	if (syscall(SYS_getppid) != -1 || errno != EPERM)
		syscall(SYS_exit_group, 1);
}

START_TEST(the_filter_allows_its_list_only)
{
	const size_t n = sizeof(g_rules) / sizeof(g_rules[0]);
	int s;

	ck_assert_int_eq(behind(g_rules, n, HOST_FILTER_KILL, allowed), 0);
	s = behind(g_rules, n, HOST_FILTER_KILL, not_listed);
	ck_assert(WIFSIGNALED(s) && WTERMSIG(s) == SIGSYS);
	s = behind(g_rules, n, HOST_FILTER_KILL, bad_argument);
	ck_assert(WIFSIGNALED(s) && WTERMSIG(s) == SIGSYS);
	ck_assert_int_eq(behind(g_rules, n, EPERM, errno_expected), 0);
	const struct host_filter_rule unknown = { .name = "no_such_call" };

	ck_assert_int_eq(host_filter_install(&unknown, 1, HOST_FILTER_KILL), -ENOSYS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("host");
	TCase *t = tcase_create("host");

	tcase_add_test(t, a_ready_fd_wakes_its_queue);
	tcase_add_test(t, what_is_ready_already_wakes_at_once);
	tcase_add_test(t, the_filter_allows_its_list_only);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? 1 : 0;
}
