/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX, OFD and flock locks: conflicts, ranges, owners, waiting, deadlock, release. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static int g_fd;

static int lk(int fd, int cmd, int type, off_t start, off_t len)
{
	struct flock fl = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	return fcntl(fd, cmd, &fl);
}

/* Who blocks this lock: 0 nobody, else pid (-1 for OFD). */
static int blocker(int fd, int cmd, int type, off_t start, off_t len, struct flock *out)
{
	struct flock fl = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	if (fcntl(fd, cmd, &fl))
		return -2;
	if (out)
		*out = fl;
	return fl.l_type == F_UNLCK ? 0 : fl.l_pid;
}

/* Runs fn in a child; its exit status. */
static int child(int (*fn)(void))
{
	int st;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	waitpid(pid, &st, 0);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 99;
}

static int conflict_0_10(void)
{
	return lk(g_fd, F_SETLK, F_WRLCK, 5, 1) == -1 && (errno == EAGAIN || errno == EACCES) ? 0 : 1;
}

static int free_10_20(void)
{
	return lk(g_fd, F_SETLK, F_WRLCK, 10, 10) == 0 ? 0 : 1;
}

static int read_shared(void)
{
	return lk(g_fd, F_SETLK, F_RDLCK, 0, 10) == 0 && lk(g_fd, F_SETLK, F_WRLCK, 0, 1) == -1 ? 0 : 1;
}

static int sees_parent(void)
{
	struct flock fl;

	if (blocker(g_fd, F_GETLK, F_WRLCK, 0, 0, &fl) != getppid())
		return 1;
	return fl.l_start == 0 && fl.l_len == 10 && fl.l_type == F_WRLCK && fl.l_whence == SEEK_SET ? 0 : 2;
}

static int hole_is_free(void)
{
	return lk(g_fd, F_SETLK, F_WRLCK, 4, 2) == 0 && lk(g_fd, F_SETLK, F_WRLCK, 3, 1) == -1 &&
			       lk(g_fd, F_SETLK, F_WRLCK, 6, 1) == -1 ?
		       0 :
		       1;
}

static int all_free(void)
{
	return lk(g_fd, F_SETLK, F_WRLCK, 0, 0) == 0 ? 0 : 1;
}

static void posix_locks(void)
{
	int fd2;

	CHECK("write lock", lk(g_fd, F_SETLK, F_WRLCK, 0, 10) == 0);
	CHECK("a child conflicts", child(conflict_0_10) == 0);
	CHECK("F_GETLK", child(sees_parent) == 0);
	CHECK("own locks never conflict", blocker(g_fd, F_GETLK, F_WRLCK, 0, 10, NULL) == 0);
	CHECK("other ranges are free", child(free_10_20) == 0);
	CHECK("downgrade", lk(g_fd, F_SETLK, F_RDLCK, 0, 10) == 0 && child(read_shared) == 0);
	CHECK("split", lk(g_fd, F_SETLK, F_UNLCK, 4, 2) == 0 && child(hole_is_free) == 0);
	fd2 = open("lockfile", O_RDWR);
	close(fd2);
	CHECK("any close drops them all", child(all_free) == 0);
	CHECK_ERRNO("bad type", lk(g_fd, F_SETLK, 9, 0, 1), EINVAL);
	CHECK_ERRNO("negative start", lk(g_fd, F_SETLK, F_WRLCK, -1, 1), EINVAL);
	CHECK("negative length", lk(g_fd, F_SETLK, F_WRLCK, 10, -10) == 0 && child(conflict_0_10) == 0);
	CHECK_ERRNO("length below zero", lk(g_fd, F_SETLK, F_WRLCK, 5, -10), EINVAL);
	CHECK_ERRNO("overflow", lk(g_fd, F_SETLK, F_WRLCK, 0x7fffffffffffffff, 2), EOVERFLOW);
	lk(g_fd, F_SETLK, F_UNLCK, 0, 0);
	fd2 = open("lockfile", O_RDONLY);
	CHECK_ERRNO("write lock on a read-only fd", lk(fd2, F_SETLK, F_WRLCK, 0, 1), EBADF);
	close(fd2);
	CHECK_ERRNO("bad pointer", fcntl(g_fd, F_SETLK, 8), EFAULT);
}

static void sleep_ms(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&ts, NULL);
}

static void on_alarm(int s)
{
	(void)s;
}

static void waiting(void)
{
	int p[2], q[2], st;
	char c;
	pid_t pid;

	pipe(p);
	pipe(q);
	pid = fork();
	if (pid == 0) {
		lk(g_fd, F_SETLK, F_WRLCK, 0, 1);
		write(p[1], "x", 1);
		sleep_ms(100);
		_exit(0);
	}
	read(p[0], &c, 1);
	CHECK("SETLKW waits for the holder's death", lk(g_fd, F_SETLKW, F_WRLCK, 0, 1) == 0);
	waitpid(pid, &st, 0);

	/* Deadlock: parent holds 0 and wants 1, child holds 1 and wants 0. */
	pid = fork();
	if (pid == 0) {
		lk(g_fd, F_SETLK, F_WRLCK, 1, 1);
		write(p[1], "x", 1);
		_exit(lk(g_fd, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 0 : errno == EDEADLK ? 3 : 4);
	}
	read(p[0], &c, 1);
	sleep_ms(100);
	CHECK_ERRNO("EDEADLK", lk(g_fd, F_SETLKW, F_WRLCK, 1, 1), EDEADLK);
	lk(g_fd, F_SETLK, F_UNLCK, 0, 0);
	waitpid(pid, &st, 0);
	CHECK("and the other one gets it", WIFEXITED(st) && WEXITSTATUS(st) == 0);

	pid = fork();
	if (pid == 0) {
		lk(g_fd, F_SETLK, F_WRLCK, 0, 1);
		write(p[1], "x", 1);
		read(q[0], &c, 1);
		_exit(0);
	}
	read(p[0], &c, 1);
	struct sigaction sa = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &sa, NULL);
	alarm(1);
	CHECK_ERRNO("a signal ends the wait", lk(g_fd, F_SETLKW, F_WRLCK, 0, 1), EINTR);
	write(q[1], "x", 1);
	waitpid(pid, &st, 0);
	close(p[0]);
	close(p[1]);
	close(q[0]);
	close(q[1]);
}

static int ofd_conflict(void)
{
	int fd = open("lockfile", O_RDWR);

	return lk(fd, F_OFD_SETLK, F_WRLCK, 0, 1) == -1 && errno == EAGAIN &&
			       blocker(fd, F_OFD_GETLK, F_WRLCK, 0, 1, NULL) == -1 ?
		       0 :
		       1;
}

static int ofd_inherited(void)
{
	return lk(g_fd, F_OFD_SETLK, F_WRLCK, 0, 1) == 0 ? 0 : 1;
}

static void ofd_locks(void)
{
	int fd2 = open("lockfile", O_RDWR), dupd = dup(g_fd);
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1, .l_pid = 5 };

	CHECK("OFD lock", lk(g_fd, F_OFD_SETLK, F_WRLCK, 0, 10) == 0);
	CHECK_ERRNO("another open conflicts in one process", lk(fd2, F_OFD_SETLK, F_WRLCK, 0, 1), EAGAIN);
	CHECK("a dup does not", lk(dupd, F_OFD_SETLK, F_WRLCK, 0, 1) == 0);
	CHECK_ERRNO("POSIX locks conflict with it", lk(fd2, F_SETLK, F_WRLCK, 0, 1), EAGAIN);
	CHECK("in a child too", child(ofd_conflict) == 0);
	CHECK("the inherited fd owns it", child(ofd_inherited) == 0);
	close(fd2);
	fd2 = open("lockfile", O_RDWR);
	CHECK_ERRNO("a close of another fd keeps it", lk(fd2, F_OFD_SETLK, F_WRLCK, 0, 1), EAGAIN);
	CHECK_ERRNO("l_pid must be 0", fcntl(fd2, F_OFD_SETLK, &fl), EINVAL);
	close(dupd);
	lk(g_fd, F_OFD_SETLK, F_UNLCK, 0, 0);
	CHECK("released", lk(fd2, F_OFD_SETLK, F_WRLCK, 0, 1) == 0);
	close(fd2);
}

static void flocks(void)
{
	int fd2 = open("lockfile", O_RDWR), fd3 = open("lockfile", O_RDONLY), st;
	pid_t pid;

	CHECK("flock", flock(g_fd, LOCK_EX) == 0);
	CHECK_ERRNO("conflict", flock(fd2, LOCK_EX | LOCK_NB), EAGAIN);
	CHECK_ERRNO("shared conflicts too", flock(fd3, LOCK_SH | LOCK_NB), EAGAIN);
	CHECK("convert", flock(g_fd, LOCK_SH) == 0 && flock(fd3, LOCK_SH | LOCK_NB) == 0);
	CHECK_ERRNO("convert back fails", flock(g_fd, LOCK_EX | LOCK_NB), EAGAIN);
	flock(fd3, LOCK_UN);
	flock(g_fd, LOCK_EX);
	pid = fork();
	if (pid == 0) {
		close(g_fd); /* only a reference: the lock stays */
		sleep_ms(100);
		_exit(flock(fd2, LOCK_EX | LOCK_NB) == -1 ? 0 : 1);
	}
	waitpid(pid, &st, 0);
	CHECK("a child's close keeps it", st == 0);
	CHECK("POSIX locks are another world", lk(fd2, F_SETLK, F_WRLCK, 0, 0) == 0);
	CHECK_ERRNO("bad operation", flock(g_fd, 0), EINVAL);
	CHECK_ERRNO("bad fd", flock(9999, LOCK_EX), EBADF);
	flock(g_fd, LOCK_UN);
	CHECK("released", flock(fd2, LOCK_EX | LOCK_NB) == 0);
	close(fd2);
	CHECK("closed", flock(g_fd, LOCK_EX | LOCK_NB) == 0);
	close(fd3);
}

int main(void)
{
	char dir[] = "lock_test_XXXXXX";

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	g_fd = open("lockfile", O_CREAT | O_RDWR, 0600);
	posix_locks();
	waiting();
	ofd_locks();
	flocks();
	return guest_done();
}
