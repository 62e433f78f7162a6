/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups, sessions and orphaned groups. */
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static int code_of(pid_t p)
{
	int st;

	if (waitpid(p, &st, 0) != p)
		return -1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

static void test_pgid(void)
{
	pid_t p = fork();

	if (!p)
		for (;;)
			pause();
	CHECK("the group is inherited", getpgid(p) == getpgrp());
	CHECK("setpgid of a child", setpgid(p, p) == 0 && getpgid(p) == p);
	CHECK("and back", setpgid(p, getpgrp()) == 0 && getpgid(p) == getpgrp());
	CHECK_ERRNO("a negative group", setpgid(p, -1), EINVAL);
	CHECK_ERRNO("a group that is not there", setpgid(p, 3999999), EPERM);
	CHECK_ERRNO("not a child", setpgid(getppid() > 1 ? getppid() : 3999999, 0), ESRCH);
	CHECK_ERRNO("getpgid of nobody", getpgid(3999999), ESRCH);
	CHECK_ERRNO("getsid of nobody", getsid(3999999), ESRCH);
	CHECK("getsid of a child", getsid(p) == getsid(0));
	setpgid(p, p);
	CHECK("kill a group", kill(-p, SIGKILL) == 0);
	CHECK("it died", code_of(p) == 1000 + SIGKILL);
	CHECK_ERRNO("the group is gone", kill(-p, 0), ESRCH);
}

static void test_exec_rule(void)
{
	int pfd[2];
	char c;

	CHECK("pipe", pipe(pfd) == 0);
	pid_t p = fork();

	if (!p) {
		dup2(pfd[1], 1);
		char *argv[] = { "x", "exec", NULL };

		execve("/proc/self/exe", argv, NULL);
		_exit(1);
	}
	CHECK("it has exec'd", read(pfd[0], &c, 1) == 1);
	CHECK_ERRNO("setpgid after exec", setpgid(p, p), EACCES);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
	close(pfd[0]);
	close(pfd[1]);
}

static void test_sid(void)
{
	pid_t p = fork();

	if (!p) {
		pid_t sid = setsid();

		if (sid != getpid() || getsid(0) != sid || getpgrp() != sid)
			_exit(1);
		if (setsid() != -1 || errno != EPERM)
			_exit(2);
		if (setpgid(0, 0) != -1 || errno != EPERM)
			_exit(3);
		pid_t q = fork();

		if (!q)
			_exit(getsid(0) == sid && getpgrp() == sid ? 0 : 4);
		_exit(code_of(q));
	}
	CHECK("a new session", code_of(p) == 0);
	p = fork();
	if (!p) {
		setpgid(0, 0);
		_exit(setsid() == -1 && errno == EPERM ? 0 : 1);
	}
	CHECK("a group leader can not start one", code_of(p) == 0);
	p = fork();
	if (!p) {
		setsid();
		for (;;)
			pause();
	}
	while (getsid(p) != p)
		usleep(1000);
	CHECK_ERRNO("a group of another session", setpgid(0, p), EPERM);
	CHECK_ERRNO("a child in another session", setpgid(p, getpgrp()), EPERM);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
}

static void note(int sig)
{
	ssize_t n = write(7, sig == SIGHUP ? "H" : "C", 1);

	(void)n;
}

/*
 * leader (new session) -> middle -> stopped child in a group of its own: when middle dies the
 * group is orphaned, and must get SIGHUP and SIGCONT.
 */
static void test_orphan(void)
{
	int pfd[2];
	char got[3] = "";

	CHECK("pipe", pipe(pfd) == 0);
	dup2(pfd[1], 7);
	pid_t leader = fork();

	if (!leader) {
		setsid();
		pid_t middle = fork();

		if (!middle) {
			pid_t c = fork();
			int st;

			if (!c) {
				setpgid(0, 0);
				signal(SIGHUP, note);
				signal(SIGCONT, note);
				raise(SIGSTOP);
				usleep(50000);
				_exit(0);
			}
			waitpid(c, &st, WUNTRACED);
			_exit(WIFSTOPPED(st) ? 0 : 1);
		}
		_exit(code_of(middle));
	}
	CHECK("middle and leader", code_of(leader) == 0);
	close(7);
	close(pfd[1]);
	size_t n = 0;

	while (n < 2) {
		ssize_t r = read(pfd[0], got + n, 2 - n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	CHECK("an orphaned stopped group gets HUP and CONT", n == 2 && strchr(got, 'H') &&
								     strchr(got, 'C'));
	close(pfd[0]);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "exec")) {
		if (write(1, "x", 1) != 1)
			return 1;
		for (;;)
			pause();
	}
	test_pgid();
	test_exec_rule();
	test_sid();
	test_orphan();
	return guest_done();
}
