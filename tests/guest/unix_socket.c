/* SPDX-License-Identifier: Apache-2.0 */
/* AF_UNIX as unix(7) has it: pairs, names, connections, messages, files in flight. */
#include "tests/lib/guest.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int g_sigpipes;

static void on_sigpipe(int signo)
{
	(void)signo;
	g_sigpipes++;
}

static short revents(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	poll(&p, 1, 0);
	return p.revents;
}

static void pairs(void)
{
	char buf[64];
	int p[2], v;

	CHECK("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0);
	CHECK("write", write(p[0], "hello", 5) == 5);
	CHECK("readable", revents(p[1], POLLIN) == POLLIN);
	CHECK("not readable", revents(p[0], POLLIN) == 0);
	CHECK("fionread", ioctl(p[1], FIONREAD, &v) == 0 && v == 5);
	CHECK("peek", recv(p[1], buf, 3, MSG_PEEK) == 3 && !memcmp(buf, "hel", 3));
	CHECK("short read", read(p[1], buf, 2) == 2 && !memcmp(buf, "he", 2));
	CHECK("rest", read(p[1], buf, sizeof(buf)) == 3 && !memcmp(buf, "llo", 3));
	CHECK_ERRNO("empty, nonblocking", recv(p[1], buf, 1, MSG_DONTWAIT), EAGAIN);
	write(p[0], "ab", 2);
	write(p[0], "cd", 2);
	CHECK("stream has no boundaries", read(p[1], buf, sizeof(buf)) == 4);
	CHECK("shutdown write", shutdown(p[0], SHUT_WR) == 0);
	CHECK("end of file", read(p[1], buf, 1) == 0);
	CHECK("rdhup", (revents(p[1], POLLIN | POLLRDHUP) & (POLLIN | POLLRDHUP)) == (POLLIN | POLLRDHUP));
	signal(SIGPIPE, on_sigpipe);
	CHECK_ERRNO("write after shutdown", write(p[0], "x", 1), EPIPE);
	CHECK("sigpipe", g_sigpipes == 1);
	CHECK_ERRNO("nosignal", send(p[0], "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK("no sigpipe", g_sigpipes == 1);
	CHECK("other direction works", write(p[1], "y", 1) == 1 && read(p[0], buf, 1) == 1);
	close(p[0]);
	CHECK("hangup", (revents(p[1], POLLIN) & POLLHUP) == POLLHUP);
	close(p[1]);

	socketpair(AF_UNIX, SOCK_STREAM, 0, p);
	write(p[0], "unread", 6);
	close(p[1]);
	CHECK_ERRNO("reset", read(p[0], buf, 1), ECONNRESET);
	CHECK("then end of file", read(p[0], buf, 1) == 0);
	close(p[0]);

	CHECK("packet pair", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p) == 0);
	write(p[0], "one", 3);
	write(p[0], "three", 5);
	CHECK("packet boundary", read(p[1], buf, sizeof(buf)) == 3);
	struct iovec iov = { buf, 2 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	CHECK("packet cut", recvmsg(p[1], &m, 0) == 2 && (m.msg_flags & MSG_TRUNC));
	close(p[0]);
	close(p[1]);
	CHECK("datagram pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, p) == 0);
	CHECK("empty datagram", send(p[0], "", 0, 0) == 0);
	CHECK("is received", recv(p[1], buf, sizeof(buf), 0) == 0);
	int sent = 0;

	while (send(p[0], "d", 1, MSG_DONTWAIT) == 1 && sent < 100000)
		sent++;
	CHECK("datagrams fill up", errno == EAGAIN && sent > 0);
	CHECK("truncated length", recv(p[1], buf, 0, MSG_TRUNC) == 1);
	close(p[0]);
	close(p[1]);
	CHECK_ERRNO("bad family", socketpair(AF_MAX, SOCK_STREAM, 0, p), EAFNOSUPPORT);
	CHECK_ERRNO("bad type", socketpair(AF_UNIX, SOCK_RDM, 0, p), ESOCKTNOSUPPORT);
	CHECK_ERRNO("bad protocol", socketpair(AF_UNIX, SOCK_STREAM, 99, p), EPROTONOSUPPORT);
	CHECK_ERRNO("bad pointer", socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)8), EFAULT);
}

static void *big_writer(void *arg)
{
	int fd = *(int *)arg;
	char block[8192];
	size_t total = 0;

	memset(block, 'w', sizeof(block));
	while (total < 4000000) {
		ssize_t n = write(fd, block, sizeof(block));

		if (n <= 0)
			break;
		total += (size_t)n;
	}
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void bulk(void)
{
	static char block[10000];
	size_t total = 0;
	pthread_t th;
	ssize_t n;
	int p[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, p);
	pthread_create(&th, NULL, big_writer, &p[0]);
	while ((n = read(p[1], block, sizeof(block))) > 0)
		total += (size_t)n;
	pthread_join(th, NULL);
	CHECK("4 MB through a pair", total >= 4000000);
	close(p[0]);
	close(p[1]);
}

static socklen_t name(struct sockaddr_un *a, const char *s)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	memcpy(a->sun_path, s, strlen(s + 1) + 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(s + 1) + 1);
}

static void names(void)
{
	struct sockaddr_un a, b;
	socklen_t len = name(&a, "./test.sock") + 1, blen;
	int l = socket(AF_UNIX, SOCK_STREAM, 0), c, s, x;
	struct ucred cred;
	struct stat st;
	char buf[8];

	unlink("./test.sock");
	CHECK_ERRNO("connect to nothing", connect(l, (void *)&a, len), ENOENT);
	CHECK("bind", bind(l, (void *)&a, len) == 0);
	CHECK("is a socket", stat("./test.sock", &st) == 0 && S_ISSOCK(st.st_mode));
	CHECK_ERRNO("cannot be opened", open("./test.sock", O_RDWR), ENXIO);
	CHECK_ERRNO("bind twice", bind(l, (void *)&a, len), EADDRINUSE);
	blen = name(&b, "./other.sock") + 1;
	CHECK_ERRNO("bind to a second name", bind(l, (void *)&b, blen), EINVAL);
	CHECK_ERRNO("it leaves no file", stat("./other.sock", &st), ENOENT);
	x = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_ERRNO("name in use", bind(x, (void *)&a, len), EADDRINUSE);
	CHECK_ERRNO("not listening yet", connect(x, (void *)&a, len), ECONNREFUSED);
	CHECK_ERRNO("accept before listen", accept(l, NULL, NULL), EINVAL);
	CHECK("listen", listen(l, 2) == 0);
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK("connect", connect(c, (void *)&a, len) == 0);
	CHECK_ERRNO("connect again", connect(c, (void *)&a, len), EISCONN);
	CHECK_ERRNO("wrong type", connect(socket(AF_UNIX, SOCK_DGRAM, 0), (void *)&a, len), EPROTOTYPE);
	CHECK("listener readable", revents(l, POLLIN) == POLLIN);
	CHECK("write before accept", write(c, "early", 5) == 5);
	blen = sizeof(b);
	s = accept4(l, (void *)&b, &blen, SOCK_CLOEXEC);
	CHECK("accept", s >= 0 && (fcntl(s, F_GETFD) & FD_CLOEXEC));
	CHECK("peer has no name", blen == sizeof(sa_family_t));
	CHECK("early data", read(s, buf, 8) == 5);
	blen = sizeof(b);
	CHECK("getpeername", getpeername(c, (void *)&b, &blen) == 0 && !strcmp(b.sun_path, "./test.sock"));
	blen = sizeof(cred);
	CHECK("peercred", getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred, &blen) == 0 && cred.pid == getpid());
	int v = 0;

	blen = sizeof(v);
	CHECK("acceptconn", getsockopt(l, SOL_SOCKET, SO_ACCEPTCONN, &v, &blen) == 0 && v == 1);
	CHECK("type", getsockopt(l, SOL_SOCKET, SO_TYPE, &v, &blen) == 0 && v == SOCK_STREAM);
	CHECK("domain", getsockopt(l, SOL_SOCKET, SO_DOMAIN, &v, &blen) == 0 && v == AF_UNIX);
	fcntl(l, F_SETFL, O_NONBLOCK);
	CHECK_ERRNO("nothing to accept", accept(l, NULL, NULL), EAGAIN);
	int many[8], n = 0;

	for (; n < 8; n++) {
		many[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(many[n], (void *)&a, len) != 0)
			break;
	}
	CHECK("backlog is full", n == 3 && errno == EAGAIN);
	for (int i = 0; i <= n && i < 8; i++)
		close(many[i]);
	close(c);
	close(s);
	close(l);
	CHECK_ERRNO("refused after close", connect(x, (void *)&a, len), ECONNREFUSED);
	unlink("./test.sock");
	close(x);

	len = name(&a, "\0caisson-test");
	l = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK("abstract bind", bind(l, (void *)&a, len) == 0 && listen(l, 1) == 0);
	x = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_ERRNO("abstract in use", bind(x, (void *)&a, len), EADDRINUSE);
	CHECK("abstract connect", connect(x, (void *)&a, len) == 0);
	CHECK_ERRNO("longer name is another", connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a, len + 1), ECONNREFUSED);
	CHECK_ERRNO("another type is another name", connect(socket(AF_UNIX, SOCK_DGRAM, 0), (void *)&a, len), ECONNREFUSED);
	close(x);
	close(l);
	x = socket(AF_UNIX, SOCK_DGRAM, 0);
	a.sun_family = AF_UNIX;
	blen = sizeof(b);
	CHECK("autobind", bind(x, (void *)&a, sizeof(sa_family_t)) == 0 && getsockname(x, (void *)&b, &blen) == 0 &&
				  blen == sizeof(sa_family_t) + 6 && b.sun_path[0] == 0);
	close(x);
	CHECK_ERRNO("short address", bind(socket(AF_UNIX, SOCK_DGRAM, 0), (void *)&a, 1), EINVAL);
	CHECK_ERRNO("long address", bind(socket(AF_UNIX, SOCK_DGRAM, 0), (void *)&a, 111), EINVAL);
	CHECK_ERRNO("not a socket", bind(0, (void *)&a, 3), ENOTSOCK);
	CHECK_ERRNO("bad fd", bind(-1, (void *)&a, 3), EBADF);
}

static ssize_t send_fd(int over, const int *fds, int count)
{
	char control[CMSG_SPACE(sizeof(int) * 16)], byte = 'f';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count) };

	memset(control, 0, sizeof(control));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
	return sendmsg(over, &m, 0);
}

/* Receives with room for `room` bytes of control; the first fd or -1. */
static int recv_fd(int over, size_t room, int *flags, int msg_flags)
{
	char control[256], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room };
	int fd = -1;

	if (recvmsg(over, &m, msg_flags) != 1)
		return -2;
	*flags = m.msg_flags;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

static void rights(void)
{
	int p[2], q[2], flags, fds[2];
	char buf[8];

	socketpair(AF_UNIX, SOCK_STREAM, 0, p);
	pipe(q);
	CHECK("send a pipe", send_fd(p[0], &q[1], 1) == 1);
	int got = recv_fd(p[1], 256, &flags, MSG_CMSG_CLOEXEC);

	CHECK("receive it", got >= 0 && got != q[1] && (fcntl(got, F_GETFD) & FD_CLOEXEC));
	CHECK("it is the pipe", write(got, "x", 1) == 1 && read(q[0], buf, 1) == 1);
	close(got);
	fds[0] = q[0];
	fds[1] = q[1];
	send_fd(p[0], fds, 2);
	got = recv_fd(p[1], CMSG_LEN(sizeof(int)), &flags, 0);
	CHECK("room for one of two", got >= 0 && (flags & MSG_CTRUNC));
	close(got);
	fds[0] = 999;
	CHECK_ERRNO("bad fd in rights", send_fd(p[0], fds, 1), EBADF);
	/* A socket that holds itself in its own queue must not live for ever. */
	for (int i = 0; i < 2000; i++) {
		int c[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, c) != 0 || send_fd(c[0], &c[1], 1) != 1 ||
		    send_fd(c[1], &c[0], 1) != 1) {
			CHECK("cycles", 0);
			break;
		}
		close(c[0]);
		close(c[1]);
	}
	/* A long chain, each in the queue of the next: freed without deep recursion. */
	int prev = -1, first[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, first);
	prev = first[0];
	for (int i = 0; i < 3000; i++) {
		int c[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, c) != 0 || send_fd(c[0], &prev, 1) != 1) {
			CHECK("chain", 0);
			break;
		}
		close(prev);
		close(c[0]);
		prev = c[1];
	}
	close(prev);
	CHECK("chain is freed", read(first[1], buf, 1) == 0);
	int on = 1;

	setsockopt(p[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	pid_t pid = fork();

	if (pid == 0) {
		write(p[0], "c", 1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	char control[256], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 256 };
	struct ucred cred = { 0 };

	CHECK("message with credentials", recvmsg(p[1], &m, 0) == 1 && CMSG_FIRSTHDR(&m));
	if (CMSG_FIRSTHDR(&m))
		memcpy(&cred, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(cred));
	CHECK("they are the sender's", cred.pid == pid && cred.uid == getuid());
	close(p[0]);
	close(p[1]);
}

static void timeouts(void)
{
	struct timeval tv = { 0, 30000 }, back;
	socklen_t len = sizeof(back);
	char buf[1];
	int p[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, p);
	CHECK("set a time-out", setsockopt(p[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	CHECK("read it back", getsockopt(p[0], SOL_SOCKET, SO_RCVTIMEO, &back, &len) == 0 && back.tv_usec > 0);
	CHECK_ERRNO("it passes", recv(p[0], buf, 1, 0), EAGAIN);
	tv.tv_usec = 1000000;
	CHECK_ERRNO("bad microseconds", setsockopt(p[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), EDOM);
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	char dir[] = "/tmp/unix_socket.XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) != 0)
		return 1;
	pairs();
	bulk();
	names();
	rights();
	timeouts();
	rmdir(dir);
	return guest_done();
}
