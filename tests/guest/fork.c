/* SPDX-License-Identifier: Apache-2.0 */
/* fork, vfork, clone without threads: copies are private, shared things are shared, ids are right. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static int wait_code(pid_t pid)
{
	int st;

	if (waitpid(pid, &st, 0) != pid)
		return -1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

static volatile int g_value = 1;

static void test_memory(void)
{
	int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*private = 10;
	pid_t p = fork();

	if (!p) {
		g_value = 2;
		*private = 20;
		*shared = 30;
		_exit(g_value == 2 && *private == 20 ? 0 : 1);
	}
	CHECK("child sees its own writes", wait_code(p) == 0);
	CHECK("globals are copied", g_value == 1);
	CHECK("private mappings are copied", *private == 10);
	CHECK("shared mappings are shared", *shared == 30);

	*private = 77;
	p = fork();
	if (!p) {
		usleep(20000);
		_exit(*private == 77 ? 0 : 1);
	}
	*private = 78; /* the parent's later write must not reach the child */
	CHECK("the child keeps the old page", wait_code(p) == 0);
}

static void test_ids(void)
{
	pid_t me = getpid(), p = fork();

	if (!p)
		_exit(getppid() == me && getpid() != me && getpid() == syscall(SYS_gettid) ? 0 : 1);
	CHECK("pid and parent pid of a child", wait_code(p) == 0);
	CHECK("the tid of a process is its pid", syscall(SYS_gettid) == me);
}

static void test_files(void)
{
	int pfd[2], fd;
	char c = 0;

	CHECK("pipe", pipe(pfd) == 0);
	fd = open("/tmp/fork_test_file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK("a file", fd >= 0);
	pid_t p = fork();

	if (!p) {
		if (write(fd, "12345", 5) != 5)
			_exit(1);
		close(pfd[0]);
		fcntl(pfd[1], F_SETFD, FD_CLOEXEC);
		_exit(write(pfd[1], "x", 1) == 1 ? 0 : 1);
	}
	close(pfd[1]);
	CHECK("the child's end of a pipe", read(pfd[0], &c, 1) == 1 && c == 'x');
	CHECK("end of file once the child is gone", read(pfd[0], &c, 1) == 0);
	CHECK("exit status", wait_code(p) == 0);
	CHECK("file positions are shared", lseek(fd, 0, SEEK_CUR) == 5);
	close(pfd[0]);
	close(fd);
	unlink("/tmp/fork_test_file");
}

static void test_signals(void)
{
	sigset_t set, pend;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	pid_t p = fork();

	if (!p) {
		sigset_t now;

		sigpending(&pend);
		sigprocmask(SIG_BLOCK, NULL, &now);
		_exit(!sigismember(&pend, SIGUSR1) && sigismember(&now, SIGUSR1) ? 0 : 1);
	}
	CHECK("pending signals are not inherited, the mask is", wait_code(p) == 0);
	sigpending(&pend);
	CHECK("the parent keeps its pending signal", sigismember(&pend, SIGUSR1));
	signal(SIGUSR1, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGUSR1, SIG_DFL);
}

static void test_vfork(void)
{
	volatile int seen = 0;
	pid_t p = vfork();

	if (!p) {
		seen = 1;
		usleep(30000);
		seen = 2;
		_exit(5);
	}
	CHECK("vfork shares memory and makes the parent wait", seen == 2);
	CHECK("vfork's child status", wait_code(p) == 5);
}

static void test_killed_in_vfork(void)
{
	pid_t p = fork();

	if (!p) {
		if (!vfork()) {
			usleep(200000);
			_exit(0);
		}
		_exit(0);
	}
	usleep(50000);
	kill(p, SIGKILL);
	CHECK("a parent waiting in vfork can be killed", wait_code(p) == 1000 + SIGKILL);
}

static void test_many(void)
{
	int ok = 1;

	for (int i = 0; i < 200 && ok; i++) {
		pid_t p = fork();

		if (!p)
			_exit(i & 0x7f);
		ok = p > 0 && wait_code(p) == (i & 0x7f);
	}
	CHECK("two hundred children one after the other", ok);
	pid_t kids[40];

	for (int i = 0; i < 40; i++) {
		kids[i] = fork();
		if (!kids[i]) {
			usleep(1000);
			_exit(i);
		}
	}
	for (int i = 0; i < 40; i++)
		ok = ok && kids[i] > 0 && wait_code(kids[i]) == i;
	CHECK("forty children at once", ok);
}

static void test_depth(void)
{
	pid_t p = fork();

	if (!p) {
		for (int i = 0; i < 20; i++) {
			pid_t q = fork();

			if (q < 0)
				_exit(99);
			if (q) {
				int st;

				waitpid(q, &st, 0);
				_exit(WEXITSTATUS(st));
			}
		}
		_exit(42);
	}
	CHECK("twenty generations", wait_code(p) == 42);
}

int main(void)
{
	test_memory();
	test_ids();
	test_files();
	test_signals();
	test_vfork();
	test_killed_in_vfork();
	test_many();
	test_depth();
	return guest_done();
}
