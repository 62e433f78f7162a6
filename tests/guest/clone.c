/* SPDX-License-Identifier: Apache-2.0 */
/* clone and clone3: threads, shared tables, tid words, flag rules; posix_spawn's kind of child. */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

static long raw_clone(unsigned long flags, void *stack, int *ptid, int *ctid, void *tls)
{
	return syscall(SYS_clone, flags, stack, ptid, ctid, tls);
}

static long clone3(struct clone_args *a, size_t size)
{
	return syscall(SYS_clone3, a, size);
}

static void test_rules(void)
{
	static const struct {
		const char *name;
		unsigned long flags;
	} bad[] = {
		{ "thread without sighand", CLONE_THREAD | CLONE_VM },
		{ "sighand without vm", CLONE_SIGHAND },
		{ "newns with fs", CLONE_NEWNS | CLONE_FS },
		{ "pidfd with parent tid", CLONE_PIDFD | CLONE_PARENT_SETTID },
		{ "newipc with sysvsem", CLONE_NEWIPC | CLONE_SYSVSEM },
		{ "newpid with thread", CLONE_NEWPID | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_ERRNO(bad[i].name, raw_clone(bad[i].flags, NULL, NULL, NULL, NULL), EINVAL);

	struct clone_args a = { .exit_signal = SIGCHLD };

	CHECK_ERRNO("clone3: too small", clone3(&a, 56), EINVAL);
	CHECK_ERRNO("clone3: far too big", clone3(&a, 5000), E2BIG);
	CHECK_ERRNO("clone3: bad pointer", clone3((void *)8, sizeof(a)), EFAULT);
	a.exit_signal = 300;
	CHECK_ERRNO("clone3: exit signal", clone3(&a, sizeof(a)), EINVAL);
	a.exit_signal = SIGCHLD;
	a.flags = 1ull << 50;
	CHECK_ERRNO("clone3: unknown flag", clone3(&a, sizeof(a)), EINVAL);
	a.flags = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
	CHECK_ERRNO("clone3: thread with exit signal", clone3(&a, sizeof(a)), EINVAL);
	a.flags = 0;
	a.stack = 4096;
	CHECK_ERRNO("clone3: stack without size", clone3(&a, sizeof(a)), EINVAL);
	a.stack = 0;
	a.set_tid = 8;
	CHECK_ERRNO("clone3: set_tid without size", clone3(&a, sizeof(a)), EINVAL);
	a.set_tid = 0;
	a.flags = CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM;
	CHECK_ERRNO("clone3: clear and share handlers", clone3(&a, sizeof(a)), EINVAL);
	char big[sizeof(a) + 64] = { 0 };

	memcpy(big, &(struct clone_args){ .exit_signal = SIGCHLD }, sizeof(a));
	big[sizeof(a) + 10] = 1;
	CHECK_ERRNO("clone3: bytes beyond what is known", clone3((void *)big, sizeof(big)), E2BIG);
	big[sizeof(a) + 10] = 0;
	long p = clone3((void *)big, sizeof(big));

	if (!p)
		_exit(3);
	int st = 0;

	CHECK("clone3: zeros beyond what is known", p > 0 && waitpid((pid_t)p, &st, 0) == p &&
							    WEXITSTATUS(st) == 3);
}

static void test_tids(void)
{
	int ptid = 0, *ctid = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = -1, st;
	long p = raw_clone(CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, NULL, &ptid, ctid, NULL);

	if (!p)
		_exit(*ctid == getpid() ? 0 : 1);
	CHECK("parent's tid word", ptid == p);
	CHECK("child's tid word", waitpid((pid_t)p, &st, 0) == p && WEXITSTATUS(st) == 0);
	p = raw_clone(CLONE_PIDFD | SIGCHLD, NULL, &fd, NULL, NULL);
	if (!p)
		_exit(9);
	siginfo_t si;

	CHECK("a pidfd", p > 0 && fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK("that waits", waitid((idtype_t)3, (id_t)fd, &si, WEXITED) == 0 && si.si_status == 9);
	close(fd);
	struct clone_args a = { .exit_signal = SIGCHLD, .flags = CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID,
				.child_tid = (uint64_t)(uintptr_t)ctid };

	*ctid = 1;
	p = clone3(&a, sizeof(a));
	if (!p)
		_exit(0);
	waitpid((pid_t)p, &st, 0);
	/* The word is only cleared for those who still share the memory. */
	CHECK("clear_child_tid without shared memory", *ctid == p);
}

/* ---- threads ---- */

#define THREADS 8

static int g_counter;
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int g_tls;

static void *count(void *arg)
{
	g_tls = (int)(intptr_t)arg;
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&g_mutex);
		g_counter++;
		pthread_mutex_unlock(&g_mutex);
	}
	return (void *)(intptr_t)(g_tls == (int)(intptr_t)arg && getpid() != syscall(SYS_gettid));
}

static void test_threads(void)
{
	pthread_t th[THREADS];
	void *ok;
	int all = 1;

	for (intptr_t i = 0; i < THREADS; i++)
		CHECK("pthread_create", pthread_create(&th[i], NULL, count, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(th[i], &ok);
		all = all && ok;
	}
	CHECK("each has its own tid and storage", all);
	CHECK("no increment is lost", g_counter == THREADS * 2000);
	for (int i = 0; i < 300 && all; i++) {
		all = pthread_create(&th[0], NULL, count, NULL) == 0 && pthread_join(th[0], &ok) == 0;
		g_counter = 0;
	}
	CHECK("three hundred threads one after the other", all);
}

static void *exit_leader(void *arg)
{
	pthread_join(*(pthread_t *)arg, NULL);
	usleep(20000);
	exit(0);
}

static void test_leader_exits(void)
{
	int st;
	pid_t p = fork();

	if (!p) {
		static pthread_t me, th;

		me = pthread_self();
		pthread_create(&th, NULL, exit_leader, &me);
		pthread_exit(NULL);
	}
	usleep(10000);
	CHECK("not over while a thread lives", waitpid(p, &st, WNOHANG) == 0);
	CHECK("over with the last", waitpid(p, &st, 0) == p && WIFEXITED(st) && WEXITSTATUS(st) == 0);
	p = fork();
	if (!p) {
		pthread_t th;

		pthread_create(&th, NULL, count, NULL);
		syscall(SYS_exit_group, 12);
	}
	CHECK("exit_group ends all threads", waitpid(p, &st, 0) == p && WEXITSTATUS(st) == 12);
}

/* ---- shared tables ---- */

static int g_fd = -1;

static int open_and_chdir(void *arg)
{
	(void)arg;
	g_fd = open("/", O_RDONLY);
	return chdir("/tmp") == 0 && g_fd >= 0 ? 0 : 1;
}

static int with_clone(int flags, int (*fn)(void *))
{
	static char stack[65536] __attribute__((aligned(16)));
	int st = -1;
	pid_t p = clone(fn, stack + sizeof(stack), flags | SIGCHLD, NULL);

	if (p < 0 || waitpid(p, &st, 0) != p)
		return -1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

static void test_sharing(void)
{
	char cwd[100];

	CHECK("chdir", chdir("/") == 0);
	CHECK("a child with shared memory", with_clone(CLONE_VM, open_and_chdir) == 0);
	CHECK("files are its own", fcntl(g_fd, F_GETFD) < 0);
	CHECK("directory is its own", getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/"));
	CHECK("sharing all", with_clone(CLONE_VM | CLONE_FILES | CLONE_FS, open_and_chdir) == 0);
	CHECK("its file is ours", fcntl(g_fd, F_GETFD) >= 0);
	CHECK("its directory is ours", getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/tmp"));
	close(g_fd);
}

static void test_spawn(void)
{
	char *argv[] = { "/proc/self/exe", "spawned", NULL };
	int st, ok = 1;
	pid_t p;

	for (int i = 0; i < 20 && ok; i++)
		ok = posix_spawn(&p, "/proc/self/exe", NULL, NULL, argv, NULL) == 0 &&
		     waitpid(p, &st, 0) == p && WEXITSTATUS(st) == 44;
	CHECK("posix_spawn", ok);
	CHECK("posix_spawn of nothing", posix_spawn(&p, "/no/such", NULL, NULL, argv, NULL) == ENOENT);
}

static void *spawner(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		int st;
		pid_t p = fork();

		if (!p)
			_exit(i);
		if (p < 0 || waitpid(p, &st, 0) != p || WEXITSTATUS(st) != i)
			return (void *)1;
	}
	return NULL;
}

static void test_fork_in_threads(void)
{
	pthread_t th[4];
	void *bad;
	int ok = 1;

	for (int i = 0; i < 4; i++)
		pthread_create(&th[i], NULL, spawner, NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(th[i], &bad);
		ok = ok && !bad;
	}
	CHECK("threads that fork at once", ok);
}

static void test_newpid(void)
{
	int st;
	long p;

	if (getuid())
		return;
	p = raw_clone(CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
	if (!p) {
		pid_t q;

		if (getpid() != 1 || getppid() != 0)
			_exit(1);
		q = fork();
		if (!q)
			_exit(getpid() == 2 && getppid() == 1 ? 0 : 1);
		if (q != 2 || waitpid(q, &st, 0) != 2)
			_exit(2);
		if (!fork())
			for (;;)
				pause(); /* dies with its init */
		_exit(WEXITSTATUS(st) ? 3 : 0);
	}
	if (p < 0 && errno == EPERM)
		return;
	CHECK("a pid namespace", waitpid((pid_t)p, &st, 0) == p && WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return 44;
	(void)argv;
	test_rules();
	test_tids();
	test_threads();
	test_leader_exits();
	test_sharing();
	test_spawn();
	test_fork_in_threads();
	test_newpid();
	return guest_done();
}
