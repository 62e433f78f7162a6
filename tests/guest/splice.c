/* SPDX-License-Identifier: Apache-2.0 */
/* sendfile, splice, tee, vmsplice, copy_file_range; blocking pipe writes and SIGPIPE. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile int g_pipes;

static void on_pipe(int s)
{
	(void)s;
	g_pipes++;
}

static void *drain(void *arg)
{
	char buf[10000];
	long total = 0;
	ssize_t n;

	while ((n = read(*(int *)arg, buf, sizeof(buf))) > 0)
		total += n;
	return (void *)total;
}

static int text_file(const char *name, const char *text)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);

	write(fd, text, strlen(text));
	return fd;
}

static void sendfiles(void)
{
	int in = text_file("in", "hello world"), out = text_file("out", ""), p[2], sv[2];
	off_t off = 6;
	char buf[64];

	CHECK("to a file", sendfile(out, in, &off, 100) == 5 && off == 11 && pread(out, buf, 5, 0) == 5 &&
				   !memcmp(buf, "world", 5));
	CHECK("at the end", sendfile(out, in, &off, 100) == 0);
	lseek(in, 0, SEEK_SET);
	pipe(p);
	CHECK("to a pipe, own position", sendfile(p[1], in, NULL, 5) == 5 && lseek(in, 0, SEEK_CUR) == 5 &&
						  read(p[0], buf, 64) == 5);
	socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
	off = 0;
	CHECK("to a socket", sendfile(sv[0], in, &off, 11) == 11 && read(sv[1], buf, 64) == 11);
	CHECK_ERRNO("from a pipe with an offset", sendfile(out, p[0], &off, 5), ESPIPE);
	off = -1;
	CHECK_ERRNO("negative offset", sendfile(out, in, &off, 5), EINVAL);
	CHECK_ERRNO("bad fd", sendfile(out, 999, NULL, 5), EBADF);
	close(out);
	out = open("out", O_WRONLY | O_APPEND);
	CHECK_ERRNO("to O_APPEND", sendfile(out, in, NULL, 5), EINVAL);
	close(in);
	close(out);
	close(p[0]);
	close(p[1]);
	close(sv[0]);
	close(sv[1]);
}

static void splices(void)
{
	int in = text_file("in", "0123456789"), out = text_file("out", ""), p[2], q[2];
	loff_t off = 2, oo = 3;
	char buf[64];
	struct iovec iov[2] = { { "vm", 2 }, { "splice", 6 } };

	pipe(p);
	pipe(q);
	CHECK("file to pipe", splice(in, &off, p[1], NULL, 4, 0) == 4 && off == 6);
	CHECK("tee", tee(p[0], q[1], 100, 0) == 4 && read(q[0], buf, 64) == 4 && !memcmp(buf, "2345", 4));
	CHECK("pipe to file at an offset", splice(p[0], NULL, out, &oo, 4, 0) == 4 && oo == 7 &&
						   pread(out, buf, 7, 0) == 7 && !memcmp(buf + 3, "2345", 4));
	CHECK_ERRNO("nothing in the pipe", splice(p[0], NULL, out, NULL, 4, SPLICE_F_NONBLOCK), EAGAIN);
	write(p[1], "abc", 3);
	CHECK("pipe to pipe", splice(p[0], NULL, q[1], NULL, 10, 0) == 3 && read(q[0], buf, 64) == 3);
	CHECK_ERRNO("neither is a pipe", splice(in, NULL, out, NULL, 4, 0), EINVAL);
	CHECK_ERRNO("offset on a pipe", splice(p[0], &off, out, NULL, 4, 0), ESPIPE);
	CHECK_ERRNO("same pipe", splice(p[0], NULL, p[1], NULL, 4, 0), EINVAL);
	CHECK_ERRNO("flags", splice(in, NULL, p[1], NULL, 4, 0x100), EINVAL);
	CHECK("length 0", splice(in, NULL, p[1], NULL, 0, 0) == 0);
	CHECK_ERRNO("tee of a file", tee(in, q[1], 4, 0), EINVAL);
	CHECK_ERRNO("tee empty", tee(p[0], q[1], 4, SPLICE_F_NONBLOCK), EAGAIN);
	CHECK("vmsplice in", vmsplice(p[1], iov, 2, 0) == 8 && read(p[0], buf, 64) == 8 &&
				     !memcmp(buf, "vmsplice", 8));
	CHECK_ERRNO("vmsplice of a file", vmsplice(in, iov, 2, 0), EBADF);
	close(p[1]);
	CHECK("end of file", splice(p[0], NULL, q[1], NULL, 10, 0) == 0);
	close(p[0]);
	close(q[0]);
	g_pipes = 0;
	lseek(in, 0, SEEK_SET);
	CHECK_ERRNO("broken pipe", splice(in, NULL, q[1], NULL, 4, 0), EPIPE);
	CHECK("with its signal", g_pipes == 1);
	close(q[1]);
	close(in);
	close(out);
}

static void copies(void)
{
	int in = text_file("in", "0123456789"), out = text_file("out", "xxxxxxxxxxxxxxx"), d;
	loff_t a = 2, b = 5;
	char buf[32];

	CHECK("copy_file_range", copy_file_range(in, &a, out, &b, 4, 0) == 4 && a == 6 && b == 9 &&
					 pread(out, buf, 15, 0) == 15 && !memcmp(buf, "xxxxx2345xxxxxx", 15));
	lseek(in, 8, SEEK_SET);
	lseek(out, 0, SEEK_SET);
	CHECK("own positions", copy_file_range(in, NULL, out, NULL, 100, 0) == 2 &&
				       lseek(in, 0, SEEK_CUR) == 10 && lseek(out, 0, SEEK_CUR) == 2);
	CHECK("at the end", copy_file_range(in, NULL, out, NULL, 100, 0) == 0);
	a = 0;
	b = 2;
	CHECK_ERRNO("overlap", copy_file_range(in, &a, in, &b, 5, 0), EINVAL);
	b = 5;
	CHECK("same file, apart", copy_file_range(in, &a, in, &b, 5, 0) == 5);
	CHECK_ERRNO("flags", copy_file_range(in, NULL, out, NULL, 1, 1), EINVAL);
	d = open(".", O_RDONLY);
	CHECK_ERRNO("directory", copy_file_range(d, NULL, out, NULL, 1, 0), EISDIR);
	close(d);
	d = open("in", O_WRONLY);
	CHECK_ERRNO("write-only source", copy_file_range(d, NULL, out, NULL, 1, 0), EBADF);
	close(d);
	close(in);
	close(out);
}

static void pipes(void)
{
	static char big[300000];
	int p[2];
	pthread_t th;
	void *got;

	pipe(p);
	pthread_create(&th, NULL, drain, &p[0]);
	CHECK("a blocking write goes on until the end", write(p[1], big, sizeof(big)) == sizeof(big));
	close(p[1]);
	pthread_join(th, &got);
	CHECK("and all arrives", (long)got == sizeof(big));
	close(p[0]);
	pipe(p);
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	CHECK("a non-blocking one is partial", write(p[1], big, sizeof(big)) == 65536);
	CHECK_ERRNO("then EAGAIN", write(p[1], big, 1), EAGAIN);
	close(p[0]);
	g_pipes = 0;
	CHECK_ERRNO("EPIPE", write(p[1], big, 1), EPIPE);
	CHECK("SIGPIPE", g_pipes == 1);
	close(p[1]);
}

int main(void)
{
	char dir[] = "splice_test_XXXXXX";

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	signal(SIGPIPE, on_pipe);
	sendfiles();
	splices();
	copies();
	pipes();
	return guest_done();
}
