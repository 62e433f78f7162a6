/* SPDX-License-Identifier: Apache-2.0 */
/* wait4 and waitid: what can be waited for, how, and what is left behind. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef __WALL
#define __WALL 0x40000000
#endif
#ifndef __WCLONE
#define __WCLONE 0x80000000
#endif

static pid_t child_exit(int code)
{
	pid_t p = fork();

	if (!p)
		_exit(code);
	return p;
}

static pid_t child_pause(void)
{
	pid_t p = fork();

	if (!p)
		for (;;)
			pause();
	return p;
}

static void test_errors(void)
{
	siginfo_t si;
	int st;

	CHECK_ERRNO("no children", waitpid(-1, &st, 0), ECHILD);
	CHECK_ERRNO("no children, WNOHANG", waitpid(-1, &st, WNOHANG), ECHILD);
	CHECK_ERRNO("not a child", waitpid(1, &st, 0), ECHILD);
	CHECK_ERRNO("bad options", syscall(SYS_wait4, -1, &st, 0x10000, 0), EINVAL);
	CHECK_ERRNO("WEXITED is not wait4's", syscall(SYS_wait4, -1, &st, WEXITED, 0), EINVAL);
	CHECK_ERRNO("smallest pid", syscall(SYS_wait4, INT32_MIN, &st, 0, 0), ESRCH);
	CHECK_ERRNO("waitid without a state", waitid(P_ALL, 0, &si, WNOHANG), EINVAL);
	CHECK_ERRNO("waitid of pid 0", waitid(P_PID, 0, &si, WEXITED), EINVAL);
	CHECK_ERRNO("waitid of a bad type", syscall(SYS_waitid, 17, 0, &si, WEXITED, 0), EINVAL);
	CHECK_ERRNO("waitid of a negative group", waitid(P_PGID, (id_t)-1, &si, WEXITED), EINVAL);
	CHECK_ERRNO("waitid of no pidfd", waitid(P_PIDFD, 0, &si, WEXITED), EBADF);
	CHECK_ERRNO("waitid of a closed pidfd", waitid(P_PIDFD, 999, &si, WEXITED), EBADF);
}

static void test_exit(void)
{
	struct rusage ru;
	int st;
	pid_t p = child_exit(7);

	CHECK("pid of the child", waitpid(p, &st, 0) == p);
	CHECK("exit code", WIFEXITED(st) && WEXITSTATUS(st) == 7);
	CHECK_ERRNO("it is gone", waitpid(p, &st, 0), ECHILD);
	p = child_exit(0x1ff);
	waitpid(-1, &st, 0);
	CHECK("only the low eight bits count", WEXITSTATUS(st) == 0xff);
	p = child_pause();
	CHECK("WNOHANG with a live child", waitpid(p, &st, WNOHANG) == 0);
	kill(p, SIGTERM);
	CHECK("killed", wait4(p, &st, 0, &ru) == p && WIFSIGNALED(st) && WTERMSIG(st) == SIGTERM);
	CHECK("rusage has times", ru.ru_utime.tv_sec >= 0 && ru.ru_utime.tv_usec < 1000000);
	p = fork();
	if (!p) {
		signal(SIGABRT, SIG_DFL);
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		abort();
	}
	waitpid(p, &st, 0);
	CHECK("aborted", WIFSIGNALED(st) && WTERMSIG(st) == SIGABRT);
	p = fork();
	if (!p) {
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		*(volatile int *)8 = 1;
		_exit(0);
	}
	waitpid(p, &st, 0);
	CHECK("a wild pointer", WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
}

static void test_waitid(void)
{
	siginfo_t si;
	pid_t p = child_exit(9);

	memset(&si, 0, sizeof(si));
	CHECK("WNOWAIT leaves it", waitid(P_PID, (id_t)p, &si, WEXITED | WNOWAIT) == 0 &&
					    si.si_pid == p);
	CHECK("siginfo of an exit", si.si_signo == SIGCHLD && si.si_code == CLD_EXITED &&
					    si.si_status == 9 && si.si_uid == getuid());
	CHECK("again, for good", waitid(P_PID, (id_t)p, &si, WEXITED) == 0 && si.si_pid == p);
	CHECK_ERRNO("now it is gone", waitid(P_PID, (id_t)p, &si, WEXITED), ECHILD);
	p = child_pause();
	memset(&si, 0x55, sizeof(si));
	CHECK("WNOHANG with nothing", waitid(P_PID, (id_t)p, &si, WEXITED | WNOHANG) == 0 &&
					      si.si_pid == 0 && si.si_signo == 0);
	kill(p, SIGKILL);
	CHECK("killed", waitid(P_ALL, 0, &si, WEXITED) == 0 && si.si_code == CLD_KILLED &&
				si.si_status == SIGKILL);
}

static void test_stop(void)
{
	siginfo_t si;
	int st;
	pid_t p = child_pause();

	kill(p, SIGSTOP);
	CHECK("stopped", waitpid(p, &st, WUNTRACED) == p && WIFSTOPPED(st) &&
				 WSTOPSIG(st) == SIGSTOP);
	CHECK("a stop is reported once", waitpid(p, &st, WUNTRACED | WNOHANG) == 0);
	kill(p, SIGCONT);
	CHECK("continued", waitpid(p, &st, WCONTINUED) == p && WIFCONTINUED(st));
	CHECK("and once", waitpid(p, &st, WCONTINUED | WNOHANG) == 0);
	kill(p, SIGSTOP);
	CHECK("waitid stopped", waitid(P_PID, (id_t)p, &si, WSTOPPED) == 0 &&
					si.si_code == CLD_STOPPED && si.si_status == SIGSTOP);
	kill(p, SIGCONT);
	CHECK("waitid continued", waitid(P_PID, (id_t)p, &si, WCONTINUED) == 0 &&
					  si.si_code == CLD_CONTINUED && si.si_status == SIGCONT);
	kill(p, SIGSTOP);
	waitpid(p, &st, WUNTRACED);
	kill(p, SIGKILL);
	CHECK("a stopped process can be killed", waitpid(p, &st, 0) == p && WTERMSIG(st) == SIGKILL);
}

static void test_groups(void)
{
	int st;
	pid_t a = child_pause();

	setpgid(a, a);
	pid_t b = child_exit(3);

	CHECK("pid 0 means the own group", waitpid(0, &st, 0) == b);
	CHECK("the other group has nothing yet", waitpid(-a, &st, WNOHANG) == 0);
	kill(a, SIGKILL);
	CHECK("a negative pid is a group", waitpid(-a, &st, 0) == a);
	CHECK_ERRNO("an empty group", waitpid(-a, &st, 0), ECHILD);
}

static void test_ignore(void)
{
	int st;

	signal(SIGCHLD, SIG_IGN);
	child_exit(0);
	CHECK_ERRNO("ignored children leave nothing", waitpid(-1, &st, 0), ECHILD);
	struct sigaction sa = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };

	sigaction(SIGCHLD, &sa, NULL);
	child_exit(0);
	CHECK_ERRNO("SA_NOCLDWAIT", waitpid(-1, &st, 0), ECHILD);
	signal(SIGCHLD, SIG_DFL);
}

static volatile int g_chld, g_chld_pid, g_chld_code, g_chld_status;

static void on_chld(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)uc;
	g_chld++;
	g_chld_pid = si->si_pid;
	g_chld_code = si->si_code;
	g_chld_status = si->si_status;
}

static void test_sigchld(void)
{
	struct sigaction sa = { .sa_sigaction = on_chld, .sa_flags = SA_SIGINFO | SA_RESTART };
	int st;

	sigaction(SIGCHLD, &sa, NULL);
	pid_t p = child_exit(4);

	CHECK("wait with a handler", waitpid(p, &st, 0) == p);
	CHECK("SIGCHLD came", g_chld == 1 && g_chld_pid == p && g_chld_code == CLD_EXITED &&
				      g_chld_status == 4);
	signal(SIGCHLD, SIG_DFL);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void test_interrupt(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	int st;
	pid_t p = child_pause();

	sigaction(SIGALRM, &sa, NULL);
	ualarm(20000, 0);
	CHECK_ERRNO("a signal interrupts", waitpid(p, &st, 0), EINTR);
	kill(p, SIGKILL);
	waitpid(p, &st, 0);
}

static void test_reparent(void)
{
	int pfd[2], st;
	pid_t got[2] = { 0 };

	CHECK("pipe", pipe(pfd) == 0);
	CHECK("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	pid_t p = fork();

	if (!p) {
		if (!fork()) {
			pid_t me[2];

			usleep(50000); /* the middle one is gone by then */
			me[0] = getpid();
			me[1] = getppid();
			if (write(pfd[1], me, sizeof(me)) != sizeof(me))
				_exit(1);
			_exit(6);
		}
		_exit(0);
	}
	waitpid(p, &st, 0);
	CHECK("grandchild reports", read(pfd[0], got, sizeof(got)) == sizeof(got));
	CHECK("it has a new parent", got[1] == getpid());
	CHECK("which can wait for it", waitpid(got[0], &st, 0) == got[0] && WEXITSTATUS(st) == 6);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	close(pfd[0]);
	close(pfd[1]);
}

static void test_pidfd(void)
{
	siginfo_t si;
	pid_t p = child_pause();
	int fd = (int)syscall(SYS_pidfd_open, p, 0);
	struct pollfd pf = { .fd = fd, .events = POLLIN };

	CHECK("pidfd_open", fd >= 0);
	CHECK("close-on-exec", fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK("not ready while it lives", poll(&pf, 1, 0) == 0);
	CHECK("signal 0", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0);
	CHECK("kill", syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0);
	CHECK("ready", poll(&pf, 1, 5000) == 1 && (pf.revents & POLLIN));
	CHECK("waitid by pidfd", waitid(P_PIDFD, (id_t)fd, &si, WEXITED) == 0 && si.si_pid == p &&
					 si.si_status == SIGKILL);
	CHECK_ERRNO("signal to the dead", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0), ESRCH);
	CHECK_ERRNO("bad flags", syscall(SYS_pidfd_open, getpid(), 1), EINVAL);
	CHECK_ERRNO("pid 0", syscall(SYS_pidfd_open, 0, 0), EINVAL);
	CHECK_ERRNO("nobody", syscall(SYS_pidfd_open, 4000000, 0), ESRCH);
	close(fd);
	p = child_pause();
	fd = (int)syscall(SYS_pidfd_open, p, O_NONBLOCK);
	CHECK_ERRNO("nonblocking pidfd", waitid(P_PIDFD, (id_t)fd, &si, WEXITED), EAGAIN);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
	close(fd);
}

/* /proc/PID opened as a directory does for pidfd_send_signal, and for nothing else. */
static void test_proc_directory(void)
{
	siginfo_t si;
	char path[64];
	pid_t p = child_pause();

	snprintf(path, sizeof(path), "/proc/%d", p);
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	int by_path = open(path, O_PATH);

	strcat(path, "/task");
	int below = open(path, O_RDONLY);
	int other = open("/proc", O_RDONLY);

	CHECK("signal 0 through /proc/PID",
	      syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0);
	CHECK_ERRNO("not by O_PATH", syscall(SYS_pidfd_send_signal, by_path, 0, NULL, 0), EBADF);
	CHECK_ERRNO("nor a directory below", syscall(SYS_pidfd_send_signal, below, 0, NULL, 0), EBADF);
	CHECK_ERRNO("nor /proc itself", syscall(SYS_pidfd_send_signal, other, 0, NULL, 0), EBADF);
	CHECK_ERRNO("no pidfd for waitid", waitid(P_PIDFD, (id_t)fd, &si, WEXITED), EBADF);
	CHECK("kill through it", syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0);
	alarm(20); /* should that not have worked */
	CHECK("killed", waitid(P_PID, (id_t)p, &si, WEXITED) == 0 && si.si_status == SIGKILL);
	alarm(0);
	CHECK_ERRNO("then it is nobody's", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0), ESRCH);
	close(fd);
	close(by_path);
	close(below);
	close(other);
}

static void test_clone_children(void)
{
	int st;
	pid_t p = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0); /* no exit signal */

	if (!p)
		_exit(1);
	CHECK_ERRNO("a plain wait does not see it", waitpid(p, &st, 0), ECHILD);
	CHECK("__WCLONE does", waitpid(p, &st, (int)__WCLONE) == p);
	signal(SIGUSR2, SIG_IGN);
	p = (pid_t)syscall(SYS_clone, SIGUSR2, NULL, NULL, NULL, 0);
	if (!p)
		_exit(2);
	CHECK("__WALL sees all", waitpid(p, &st, __WALL) == p && WEXITSTATUS(st) == 2);
	signal(SIGUSR2, SIG_DFL);
}

int main(void)
{
	test_errors();
	test_exit();
	test_waitid();
	test_stop();
	test_groups();
	test_ignore();
	test_sigchld();
	test_interrupt();
	test_reparent();
	test_pidfd();
	test_proc_directory();
	test_clone_children();
	return guest_done();
}
