/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: lowest free, dup family, flags, limits, close_range, exec, fcntl odds and ends. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_UNSHARE 2
#define CLOSE_RANGE_CLOEXEC 4
#endif

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void dups(void)
{
	int a = open("/dev/null", O_RDWR), b = dup(a), c, d;
	struct stat s1, s2;

	CHECK("dup gives the lowest", b == a + 1);
	close(a);
	CHECK("reuse", (c = dup(b)) == a);
	fstat(b, &s1);
	CHECK("dup2", dup2(b, 50) == 50 && fstat(50, &s2) == 0 && s1.st_ino == s2.st_ino);
	CHECK("dup2 to itself", dup2(50, 50) == 50);
	CHECK_ERRNO("dup2 bad old", dup2(9999, 50), EBADF);
	CHECK("which keeps the new one", is_open(50));
	CHECK_ERRNO("dup2 negative", dup2(b, -1), EBADF);
	CHECK_ERRNO("dup2 to itself, closed", dup2(9999, 9999), EBADF);
	CHECK("dup3", syscall(SYS_dup3, b, 51, O_CLOEXEC) == 51 && fcntl(51, F_GETFD) == FD_CLOEXEC);
	CHECK_ERRNO("dup3 same", syscall(SYS_dup3, b, b, 0), EINVAL);
	CHECK_ERRNO("dup3 flags", syscall(SYS_dup3, b, 52, O_NONBLOCK), EINVAL);
	CHECK("F_DUPFD", (d = fcntl(b, F_DUPFD, 100)) == 100 && fcntl(100, F_GETFD) == 0);
	CHECK("F_DUPFD_CLOEXEC", fcntl(b, F_DUPFD_CLOEXEC, 100) == 101 && fcntl(101, F_GETFD) == 1);
	CHECK_ERRNO("F_DUPFD negative", fcntl(b, F_DUPFD, -1), EINVAL);
	CHECK_ERRNO("F_DUPFD over the limit", fcntl(b, F_DUPFD, 1 << 30), EINVAL);
	CHECK("F_SETFD", fcntl(b, F_SETFD, 1) == 0 && fcntl(b, F_GETFD) == 1 && fcntl(a, F_GETFD) == 0);
	CHECK("FIONCLEX FIOCLEX", ioctl(b, FIONCLEX) == 0 && fcntl(b, F_GETFD) == 0 && ioctl(b, FIOCLEX) == 0 &&
					 fcntl(b, F_GETFD) == 1);
	CHECK("position is shared", 1);
	close(50);
	close(51);
	close(100);
	close(101);
	close(b);
	close(c);
	CHECK_ERRNO("double close", close(c), EBADF);
	CHECK_ERRNO("close -1", close(-1), EBADF);
}

static void flags(void)
{
	int p[2], on = 1;

	CHECK("pipe2", pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0 && fcntl(p[0], F_GETFD) == 1 &&
			       (fcntl(p[0], F_GETFL) & O_NONBLOCK));
	CHECK("F_SETFL", fcntl(p[0], F_SETFL, 0) == 0 && !(fcntl(p[0], F_GETFL) & O_NONBLOCK));
	CHECK("F_SETFL can not change the access mode",
	      fcntl(p[0], F_SETFL, O_RDWR) == 0 && (fcntl(p[0], F_GETFL) & O_ACCMODE) == O_RDONLY);
	CHECK("FIONBIO", ioctl(p[0], FIONBIO, &on) == 0 && (fcntl(p[0], F_GETFL) & O_NONBLOCK));
	CHECK("the other end keeps its own", (fcntl(p[1], F_GETFL) & O_ACCMODE) == O_WRONLY);
	CHECK_ERRNO("unknown ioctl", ioctl(p[0], 0x12345678), ENOTTY);
	CHECK_ERRNO("unknown fcntl", fcntl(p[0], 999), EINVAL);
	CHECK_ERRNO("pipe2 flags", pipe2((int[2]){ 0 }, O_CREAT), EINVAL);
	CHECK_ERRNO("pipe bad pointer", syscall(SYS_pipe, 8), EFAULT);
	CHECK("F_GETPIPE_SZ", fcntl(p[0], F_GETPIPE_SZ) == 65536);
	CHECK("F_SETPIPE_SZ", fcntl(p[0], F_SETPIPE_SZ, 5000) == 8192);
	CHECK("F_GETOWN", fcntl(p[0], F_GETOWN) == 0);
	CHECK("F_SETOWN", fcntl(p[0], F_SETOWN, getpid()) == 0 && fcntl(p[0], F_GETOWN) == getpid());
	CHECK("a process group", fcntl(p[0], F_SETOWN, -getpgrp()) == 0);
	CHECK_ERRNO("nobody", fcntl(p[0], F_SETOWN, 0x3ffffff), ESRCH);
	CHECK("F_SETSIG", fcntl(p[0], F_SETSIG, 35) == 0 && fcntl(p[0], F_GETSIG) == 35);
	CHECK_ERRNO("F_SETSIG wild", fcntl(p[0], F_SETSIG, 99), EINVAL);
	CHECK_ERRNO("lseek of a pipe", lseek(p[0], 0, SEEK_SET), ESPIPE);
	CHECK_ERRNO("pread of a pipe", pread(p[0], p, 1, 0), ESPIPE);
	CHECK_ERRNO("ftruncate of a pipe", ftruncate(p[1], 0), EINVAL);
	CHECK_ERRNO("wrong direction", write(p[0], "x", 1), EBADF);
	close(p[0]);
	close(p[1]);
}

static void limits(void)
{
	struct rlimit rl = { 20, 20 };
	int st, n = 0, p[2];

	if (fork() == 0) {
		setrlimit(RLIMIT_NOFILE, &rl);
		while (dup(0) >= 0)
			n++;
		if (errno != EMFILE || open("/dev/null", O_RDONLY) != -1 || errno != EMFILE)
			_exit(1);
		close(10);
		if (pipe(p) != -1 || errno != EMFILE)
			_exit(2);
		if (dup(0) != 10) /* the half-made pipe gave its fd back */
			_exit(3);
		_exit(dup2(0, 20) == -1 && errno == EBADF && fcntl(0, F_DUPFD, 20) == -1 &&
				      errno == EINVAL ?
			      0 :
			      4);
	}
	wait(&st);
	CHECK("RLIMIT_NOFILE", st == 0);
}

static void ranges(void)
{
	int st;

	for (int i = 200; i < 220; i++)
		dup2(0, i);
	CHECK("close_range", syscall(SYS_close_range, 205, 209, 0) == 0 && is_open(204) && !is_open(205) &&
				     !is_open(209) && is_open(210));
	CHECK("CLOEXEC", syscall(SYS_close_range, 210, ~0u, CLOSE_RANGE_CLOEXEC) == 0 &&
				 fcntl(219, F_GETFD) == 1 && fcntl(204, F_GETFD) == 0);
	CHECK_ERRNO("first > last", syscall(SYS_close_range, 5, 4, 0), EINVAL);
	CHECK_ERRNO("flags", syscall(SYS_close_range, 5, 6, 1), EINVAL);
	if (fork() == 0) {
		syscall(SYS_close_range, 200, 219, CLOSE_RANGE_UNSHARE);
		_exit(is_open(204));
	}
	wait(&st);
	CHECK("UNSHARE", st == 0 && is_open(204));
	syscall(SYS_close_range, 200, 300, 0);
	CHECK("all of them", !is_open(219));
}

static void across_exec(const char *self)
{
	int st;

	dup2(0, 60);
	dup2(0, 61);
	fcntl(61, F_SETFD, FD_CLOEXEC);
	if (fork() == 0) {
		execl(self, self, "check", NULL);
		_exit(9);
	}
	wait(&st);
	CHECK("exec closes what is marked", st == 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return is_open(60) && !is_open(61) ? 0 : 1;
	dups();
	flags();
	limits();
	ranges();
	across_exec(argv[0]);
	return guest_done();
}
