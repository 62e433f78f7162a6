/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes and FIFOs. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static int p[2];
static volatile sig_atomic_t g_sigpipe;

static void on_sigpipe(int signo)
{
	(void)signo;
	g_sigpipe++;
}

static int revents(int fd, short events)
{
	struct pollfd pf = { .fd = fd, .events = events };

	poll(&pf, 1, 0);
	return pf.revents;
}

static void basics(void)
{
	static char buf[100000];
	struct stat st;
	int n = -1;

	CHECK("pipe", pipe(p) == 0);
	CHECK("fstat", fstat(p[0], &st) == 0 && S_ISFIFO(st.st_mode) && (st.st_mode & 0777) == 0600 &&
			       st.st_size == 0 && st.st_nlink == 1 && st.st_blksize == 4096);
	CHECK("flags", fcntl(p[0], F_GETFL) == O_RDONLY && fcntl(p[1], F_GETFL) == O_WRONLY);
	CHECK_ERRNO("read the write end", read(p[1], buf, 1), EBADF);
	CHECK_ERRNO("write the read end", write(p[0], buf, 1), EBADF);
	CHECK_ERRNO("lseek", lseek(p[0], 0, SEEK_SET), ESPIPE);
	CHECK_ERRNO("pread", pread(p[0], buf, 1, 0), ESPIPE);
	CHECK_ERRNO("fsync", fsync(p[0]), EINVAL);
	CHECK_ERRNO("ftruncate", ftruncate(p[1], 0), EINVAL);
	CHECK("write", write(p[1], "hello", 5) == 5);
	CHECK("FIONREAD", ioctl(p[0], FIONREAD, &n) == 0 && n == 5);
	CHECK("poll", revents(p[0], POLLIN | POLLOUT) == POLLIN && revents(p[1], POLLIN | POLLOUT) == POLLOUT);
	CHECK_ERRNO("bad address", write(p[1], (void *)8, 5), EFAULT);
	CHECK("read", read(p[0], buf, 100) == 5 && !memcmp(buf, "hello", 5));
	CHECK("read of nothing", read(p[0], buf, 0) == 0);
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	CHECK_ERRNO("empty", read(p[0], buf, 1), EAGAIN);
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	CHECK("fill", write(p[1], buf, sizeof(buf)) == 65536);
	CHECK_ERRNO("full", write(p[1], buf, 1), EAGAIN);
	CHECK("poll full", revents(p[1], POLLOUT) == 0);
	CHECK("partial page", read(p[0], buf, 4095) == 4095 && revents(p[1], POLLOUT) == 0);
	CHECK("whole page", read(p[0], buf, 1) == 1 && revents(p[1], POLLOUT) == POLLOUT);
	CHECK("atomic write", write(p[1], buf, 4097) == 4096);
	close(p[1]);
	CHECK("hangup with data", revents(p[0], POLLIN) == (POLLIN | POLLHUP));
	while (read(p[0], buf, sizeof(buf)) > 0)
		;
	CHECK("end of file", read(p[0], buf, 1) == 0 && revents(p[0], POLLIN) == POLLHUP);
	close(p[0]);
	pipe(p);
	close(p[0]);
	signal(SIGPIPE, on_sigpipe);
	CHECK_ERRNO("broken", write(p[1], "x", 1), EPIPE);
	CHECK("SIGPIPE", g_sigpipe == 1);
	CHECK("poll broken", revents(p[1], POLLOUT) == (POLLOUT | POLLERR));
	close(p[1]);
	CHECK_ERRNO("bad flags", pipe2(p, O_APPEND), EINVAL);
	CHECK("pipe2", pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0 && fcntl(p[0], F_GETFD) == FD_CLOEXEC &&
			       fcntl(p[1], F_GETFL) == (O_WRONLY | O_NONBLOCK));
	close(p[0]);
	close(p[1]);
}

static void packets(void)
{
	char buf[8192];

	CHECK("O_DIRECT", pipe2(p, O_DIRECT) == 0);
	write(p[1], "abc", 3);
	write(p[1], "defgh", 5);
	write(p[1], buf, 5000);
	CHECK("short read drops the rest", read(p[0], buf, 2) == 2);
	CHECK("packets stay apart", read(p[0], buf, 100) == 5 && !memcmp(buf, "defgh", 5));
	CHECK("long packets are split", read(p[0], buf, 8192) == 4096 && read(p[0], buf, 8192) == 904);
	close(p[0]);
	close(p[1]);
}

static void sizes(void)
{
	char buf[5000] = { 0 };

	pipe(p);
	CHECK("F_GETPIPE_SZ", fcntl(p[0], F_GETPIPE_SZ) == 65536);
	CHECK("F_SETPIPE_SZ rounds", fcntl(p[1], F_SETPIPE_SZ, 5000) == 8192);
	write(p[1], buf, 5000);
	CHECK_ERRNO("busy", fcntl(p[1], F_SETPIPE_SZ, 4096), EBUSY);
	CHECK("to a megabyte", fcntl(p[1], F_SETPIPE_SZ, 1 << 20) == 1 << 20);
	CHECK_ERRNO("too much", fcntl(p[1], F_SETPIPE_SZ, 0x90000000u), EINVAL);
	CHECK_ERRNO("not a pipe", fcntl(open("/dev/null", O_RDONLY), F_GETPIPE_SZ), EBADF);
	close(p[0]);
	close(p[1]);
}

static void *reader(void *arg)
{
	char buf[1000];
	long total = 0;
	ssize_t n;

	(void)arg;
	while ((n = read(p[0], buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++, total++)
			if (buf[i] != (char)(total * 31 >> 3))
				return (void *)-1L;
	return (void *)total;
}

static void blocking(void)
{
	static char buf[3000000];
	pthread_t th;
	void *got;

	for (long i = 0; i < (long)sizeof(buf); i++)
		buf[i] = (char)(i * 31 >> 3);
	pipe(p);
	pthread_create(&th, NULL, reader, NULL);
	CHECK("a blocking write writes all", write(p[1], buf, sizeof(buf)) == sizeof(buf));
	close(p[1]);
	pthread_join(th, &got);
	CHECK("in order", (long)got == sizeof(buf));
	close(p[0]);
}

static void fifos(void)
{
	const char *name = "/tmp/guest-fifo";
	int r, w, pid, st;
	char c;

	unlink(name);
	CHECK("mkfifo", mkfifo(name, 0600) == 0);
	CHECK_ERRNO("no reader", open(name, O_WRONLY | O_NONBLOCK), ENXIO);
	r = open(name, O_RDONLY | O_NONBLOCK);
	CHECK("nonblocking reader", r >= 0);
	CHECK("never had a writer", revents(r, POLLIN) == 0 && read(r, &c, 1) == 0);
	w = open(name, O_WRONLY | O_NONBLOCK);
	CHECK("writer", w >= 0);
	CHECK_ERRNO("now it blocks", read(r, &c, 1), EAGAIN);
	close(w);
	CHECK("had a writer", revents(r, POLLIN) == POLLHUP);
	close(r);
	r = open(name, O_RDWR);
	CHECK("read-write never waits", r >= 0);
	close(r);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		w = open(name, O_WRONLY);
		_exit(write(w, "z", 1) == 1 ? 0 : 1);
	}
	r = open(name, O_RDONLY);
	CHECK("they meet", r >= 0 && read(r, &c, 1) == 1 && c == 'z');
	waitpid(pid, &st, 0);
	CHECK("and part", st == 0 && read(r, &c, 1) == 0);
	close(r);
	unlink(name);
}

static void vectors(void)
{
	char a[10], b[10];
	struct iovec in[2] = { { "hello ", 6 }, { "world", 5 } }, out[2] = { { a, 4 }, { b, 10 } };

	pipe(p);
	CHECK("writev", writev(p[1], in, 2) == 11);
	CHECK("readv", readv(p[0], out, 2) == 11 && !memcmp(a, "hell", 4) && !memcmp(b, "o world", 7));
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	basics();
	packets();
	sizes();
	blocking();
	fifos();
	vectors();
	return guest_done();
}
