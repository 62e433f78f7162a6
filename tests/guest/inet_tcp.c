/* SPDX-License-Identifier: Apache-2.0 */
/* TCP over loopback as tcp(7), ip(7) and ipv6(7) have it: life, errors, options, readiness, urgent data. */
#include "tests/lib/guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static short ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	poll(&p, 1, 0);
	return p.revents;
}

static struct sockaddr_in lo4(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct sockaddr_in6 lo6(int port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port),
				      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
}

static int port_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);

	getsockname(fd, (struct sockaddr *)&a, &len);
	return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

static int listener(int backlog)
{
	struct sockaddr_in a = lo4(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	bind(fd, (struct sockaddr *)&a, sizeof(a));
	listen(fd, backlog);
	return fd;
}

static void pair(int p[2])
{
	int l = listener(5);
	struct sockaddr_in a = lo4(port_of(l));

	p[0] = socket(AF_INET, SOCK_STREAM, 0);
	connect(p[0], (struct sockaddr *)&a, sizeof(a));
	p[1] = accept(l, NULL, NULL);
	close(l);
}

static void settle(void)
{
	usleep(20000);
}

static void names(void)
{
	struct sockaddr_in a = lo4(0), got;
	socklen_t len = sizeof(got);
	int l = socket(AF_INET, SOCK_STREAM, 0), c, s;

	CHECK("fresh socket", ready(l) == (POLLOUT | POLLHUP));
	CHECK_ERRNO("peer of none", getpeername(l, (struct sockaddr *)&got, &len), ENOTCONN);
	CHECK_ERRNO("recv of none", recv(l, &c, 1, 0), ENOTCONN);
	CHECK_ERRNO("send of none", send(l, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK_ERRNO("shutdown of none", shutdown(l, SHUT_WR), ENOTCONN);
	CHECK_ERRNO("accept of none", accept(l, NULL, NULL), EINVAL);
	CHECK_ERRNO("bind: short", bind(l, (struct sockaddr *)&a, 8), EINVAL);
	a.sin_family = AF_UNIX;
	CHECK_ERRNO("bind: family", bind(l, (struct sockaddr *)&a, sizeof(a)), EAFNOSUPPORT);
	a = lo4(0);
	a.sin_addr.s_addr = htonl(0x08080808);
	CHECK_ERRNO("bind: not ours", bind(l, (struct sockaddr *)&a, sizeof(a)), EADDRNOTAVAIL);
	a = lo4(0);
	CHECK("bind", bind(l, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK_ERRNO("bind again", bind(l, (struct sockaddr *)&a, sizeof(a)), EINVAL);
	len = sizeof(got);
	CHECK("getsockname", getsockname(l, (struct sockaddr *)&got, &len) == 0 && len == sizeof(got) &&
			     got.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && got.sin_port);
	CHECK("ephemeral range", ntohs(got.sin_port) >= 32768 && ntohs(got.sin_port) <= 60999);
	CHECK("listen", listen(l, 5) == 0);
	CHECK("listener not ready", ready(l) == 0);
	fcntl(l, F_SETFL, O_NONBLOCK);
	CHECK_ERRNO("accept: nobody", accept(l, NULL, NULL), EAGAIN);
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK("connect", connect(c, (struct sockaddr *)&got, sizeof(got)) == 0);
	CHECK("listener ready", ready(l) == POLLIN);
	CHECK_ERRNO("connect twice", connect(c, (struct sockaddr *)&got, sizeof(got)), EISCONN);
	len = sizeof(a);
	s = accept4(l, (struct sockaddr *)&a, &len, SOCK_NONBLOCK);
	CHECK("accept", s >= 0 && len == sizeof(a) && ntohs(a.sin_port) == port_of(c));
	CHECK("accepted is nonblocking", fcntl(s, F_GETFL) & O_NONBLOCK);
	len = sizeof(a);
	CHECK("getpeername", getpeername(c, (struct sockaddr *)&a, &len) == 0 && a.sin_port == got.sin_port);
	CHECK_ERRNO("recv of a listener", recv(l, &c, 1, 0), ENOTCONN);
	CHECK_ERRNO("fionread of a listener", ioctl(l, FIONREAD, &len), EINVAL);
	close(c);
	close(s);
	a = got;
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERRNO("port in use", bind(c, (struct sockaddr *)&a, sizeof(a)), EADDRINUSE);
	int one = 1;
	setsockopt(c, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK_ERRNO("in use even with reuse", bind(c, (struct sockaddr *)&a, sizeof(a)), EADDRINUSE);
	close(c);
	close(l);
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERRNO("refused", connect(c, (struct sockaddr *)&got, sizeof(got)), ECONNREFUSED);
	close(c);
}

static void reuse(void)
{
	struct sockaddr_in a = lo4(0);
	int one = 1, l1 = socket(AF_INET, SOCK_STREAM, 0), l2 = socket(AF_INET, SOCK_STREAM, 0);
	int p[2];

	setsockopt(l1, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	bind(l1, (struct sockaddr *)&a, sizeof(a));
	a = lo4(port_of(l1));
	CHECK_ERRNO("reuseport: one side", bind(l2, (struct sockaddr *)&a, sizeof(a)), EADDRINUSE);
	setsockopt(l2, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	CHECK("reuseport: both", bind(l2, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK("both listen", listen(l1, 8) == 0 && listen(l2, 8) == 0);
	close(l1);
	close(l2);
	/* The port of a connection in TIME_WAIT: only with SO_REUSEADDR on both. */
	l1 = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(l1, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	a = lo4(0);
	bind(l1, (struct sockaddr *)&a, sizeof(a));
	listen(l1, 5);
	a = lo4(port_of(l1));
	p[0] = socket(AF_INET, SOCK_STREAM, 0);
	connect(p[0], (struct sockaddr *)&a, sizeof(a));
	p[1] = accept(l1, NULL, NULL);
	close(p[1]);
	settle();
	close(p[0]);
	close(l1);
	settle();
	l2 = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERRNO("time-wait", bind(l2, (struct sockaddr *)&a, sizeof(a)), EADDRINUSE);
	setsockopt(l2, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK("time-wait with reuse", bind(l2, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(l2, 1) == 0);
	close(l2);
}

static void nonblocking(void)
{
	int l = listener(5), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), v = -1;
	struct sockaddr_in a = lo4(port_of(l));
	socklen_t len = sizeof(v);

	CHECK_ERRNO("connect", connect(c, (struct sockaddr *)&a, sizeof(a)), EINPROGRESS);
	struct pollfd p = { .fd = c, .events = POLLOUT };
	CHECK("becomes writable", poll(&p, 1, 1000) == 1 && p.revents == POLLOUT);
	CHECK("SO_ERROR", getsockopt(c, SOL_SOCKET, SO_ERROR, &v, &len) == 0 && v == 0);
	CHECK("connect reports success once", connect(c, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK_ERRNO("then it is connected", connect(c, (struct sockaddr *)&a, sizeof(a)), EISCONN);
	close(c);
	close(l);
	c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK_ERRNO("to a closed port", connect(c, (struct sockaddr *)&a, sizeof(a)), EINPROGRESS);
	p.fd = c;
	CHECK("fails", poll(&p, 1, 1000) == 1 && (p.revents & (POLLERR | POLLHUP | POLLOUT)) == (POLLERR | POLLHUP | POLLOUT));
	CHECK("SO_ERROR", getsockopt(c, SOL_SOCKET, SO_ERROR, &v, &len) == 0 && v == ECONNREFUSED);
	CHECK("SO_ERROR is read once", getsockopt(c, SOL_SOCKET, SO_ERROR, &v, &len) == 0 && v == 0);
	close(c);
}

static void data(void)
{
	char buf[65536];
	int p[2], v;
	struct timeval tv = { 0, 50000 };

	pair(p);
	CHECK("ready", ready(p[0]) == POLLOUT);
	CHECK("send", send(p[0], "hello world", 11, 0) == 11);
	settle();
	CHECK("readable", ready(p[1]) == (POLLIN | POLLOUT));
	CHECK("fionread", ioctl(p[1], FIONREAD, &v) == 0 && v == 11);
	CHECK("outq empties", ioctl(p[0], SIOCOUTQ, &v) == 0 && v == 0);
	CHECK("peek", recv(p[1], buf, 5, MSG_PEEK) == 5 && !memcmp(buf, "hello", 5));
	CHECK("trunc discards", recv(p[1], NULL, 6, MSG_TRUNC) == 6);
	CHECK("rest", recv(p[1], buf, sizeof(buf), 0) == 5 && !memcmp(buf, "world", 5));
	CHECK_ERRNO("empty", recv(p[1], buf, 1, MSG_DONTWAIT), EAGAIN);
	setsockopt(p[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	CHECK_ERRNO("time-out", recv(p[1], buf, 1, 0), EAGAIN);
	send(p[0], "abc", 3, 0);
	CHECK("waitall ends at the time-out", recv(p[1], buf, 10, MSG_WAITALL) == 3);
	send(p[0], "abc", 3, 0);
	send(p[0], "def", 3, 0);
	CHECK("stream", recv(p[1], buf, 6, MSG_WAITALL) == 6 && !memcmp(buf, "abcdef", 6));
	struct iovec iov[2] = { { "scat", 4 }, { "ter", 3 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	CHECK("sendmsg", sendmsg(p[0], &m, 0) == 7 && recv(p[1], buf, 7, MSG_WAITALL) == 7);
	/* Until the buffers are full. */
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	size_t total = 0;
	ssize_t n;
	while ((n = send(p[0], buf, sizeof(buf), 0)) > 0)
		total += (size_t)n;
	CHECK("fills up", n == -1 && errno == EAGAIN && total > 100000);
	CHECK("not writable", !(ready(p[0]) & POLLOUT));
	pid_t child = fork();
	if (!child) {
		size_t got = 0;
		while (got < total && (n = recv(p[1], buf, sizeof(buf), 0)) > 0)
			got += (size_t)n;
		_exit(got != total);
	}
	struct pollfd w = { .fd = p[0], .events = POLLOUT };
	CHECK("writable again", poll(&w, 1, 5000) == 1 && w.revents == POLLOUT);
	waitpid(child, &v, 0);
	CHECK("all arrived", v == 0);
	close(p[0]);
	close(p[1]);
}

static void closing(void)
{
	char buf[64];
	int p[2], v;
	socklen_t len = sizeof(v);

	signal(SIGPIPE, SIG_IGN);
	pair(p);
	send(p[0], "bye", 3, 0);
	CHECK("shutdown", shutdown(p[0], SHUT_WR) == 0);
	settle();
	CHECK("half closed", ready(p[1]) == (POLLIN | POLLOUT | POLLRDHUP));
	CHECK("data first", recv(p[1], buf, sizeof(buf), 0) == 3);
	CHECK("then the end", recv(p[1], buf, 1, 0) == 0 && recv(p[1], buf, 1, 0) == 0);
	CHECK_ERRNO("no more sending", send(p[0], "x", 1, 0), EPIPE);
	CHECK("other direction", send(p[1], "yet", 3, 0) == 3 && recv(p[0], buf, 3, MSG_WAITALL) == 3);
	shutdown(p[1], SHUT_WR);
	settle();
	CHECK("closed both ways", (ready(p[0]) & (POLLIN | POLLHUP | POLLRDHUP)) == (POLLIN | POLLHUP | POLLRDHUP));
	close(p[0]);
	close(p[1]);
	/* A peer that left with our data unread resets. */
	pair(p);
	send(p[0], "unread", 6, 0);
	settle();
	close(p[1]);
	settle();
	CHECK("reset: ready", (ready(p[0]) & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
	CHECK_ERRNO("reset: recv", recv(p[0], buf, 1, 0), ECONNRESET);
	CHECK("reset: then the end", recv(p[0], buf, 1, 0) == 0);
	CHECK_ERRNO("reset: send", send(p[0], "x", 1, 0), EPIPE);
	close(p[0]);
	/* SO_LINGER with no time. */
	pair(p);
	struct linger lg = { 1, 0 };
	setsockopt(p[1], SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	close(p[1]);
	settle();
	CHECK_ERRNO("linger 0 resets", recv(p[0], buf, 1, 0), ECONNRESET);
	close(p[0]);
	/* Writing to one that is gone: the first is lost, then EPIPE. */
	pair(p);
	close(p[1]);
	settle();
	CHECK("peer closed", ready(p[0]) == (POLLIN | POLLOUT | POLLRDHUP));
	CHECK("first write goes", send(p[0], "x", 1, 0) == 1);
	settle();
	CHECK_ERRNO("second does not", send(p[0], "x", 1, 0), EPIPE);
	CHECK("SO_ERROR taken by send", getsockopt(p[0], SOL_SOCKET, SO_ERROR, &v, &len) == 0);
	close(p[0]);
	pair(p);
	CHECK("shutdown read", shutdown(p[0], SHUT_RD) == 0 && recv(p[0], buf, 1, 0) == 0);
	CHECK("shut down reader polls", (ready(p[0]) & (POLLIN | POLLRDHUP)) == (POLLIN | POLLRDHUP));
	close(p[0]);
	close(p[1]);
	int l = listener(1);
	CHECK("shutdown of a listener", shutdown(l, SHUT_RD) == 0);
	CHECK_ERRNO("stops listening", accept(l, NULL, NULL), EINVAL);
	close(l);
}

static void options(void)
{
	int p[2], v, one = 1;
	socklen_t len = sizeof(v);
	struct tcp_info ti;
	char cc[16] = "";

	pair(p);
#define GET(lvl, o) (len = sizeof(v), getsockopt(p[0], lvl, o, &v, &len) == 0 ? v : -1)
	CHECK("SO_TYPE", GET(SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK("SO_PROTOCOL", GET(SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
	CHECK("SO_DOMAIN", GET(SOL_SOCKET, SO_DOMAIN) == AF_INET);
	CHECK("nodelay off", GET(IPPROTO_TCP, TCP_NODELAY) == 0);
	CHECK("nodelay", setsockopt(p[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 && GET(IPPROTO_TCP, TCP_NODELAY) == 1);
	CHECK("keepidle", GET(IPPROTO_TCP, TCP_KEEPIDLE) == 7200);
	CHECK("keepintvl", GET(IPPROTO_TCP, TCP_KEEPINTVL) == 75);
	CHECK("keepcnt", GET(IPPROTO_TCP, TCP_KEEPCNT) == 9);
	v = 0;
	CHECK_ERRNO("keepidle 0", setsockopt(p[0], IPPROTO_TCP, TCP_KEEPIDLE, &v, sizeof(v)), EINVAL);
	CHECK("ttl", GET(IPPROTO_IP, IP_TTL) == 64);
	v = 300;
	CHECK_ERRNO("ttl range", setsockopt(p[0], IPPROTO_IP, IP_TTL, &v, sizeof(v)), EINVAL);
	CHECK_ERRNO("short value", setsockopt(p[0], IPPROTO_TCP, TCP_NODELAY, &v, 1), EINVAL);
	CHECK_ERRNO("unknown option", setsockopt(p[0], IPPROTO_TCP, 9999, &v, sizeof(v)), ENOPROTOOPT);
	len = sizeof(v);
	CHECK_ERRNO("unknown option", getsockopt(p[0], IPPROTO_TCP, 9999, &v, &len), ENOPROTOOPT);
	len = sizeof(ti);
	CHECK("TCP_INFO", getsockopt(p[0], IPPROTO_TCP, TCP_INFO, &ti, &len) == 0 && ti.tcpi_state == TCP_ESTABLISHED && ti.tcpi_snd_mss > 500);
	len = sizeof(cc);
	CHECK("TCP_CONGESTION", getsockopt(p[0], IPPROTO_TCP, TCP_CONGESTION, cc, &len) == 0 && cc[0]);
	CHECK_ERRNO("unknown algorithm", setsockopt(p[0], IPPROTO_TCP, TCP_CONGESTION, "nosuch", 6), ENOENT);
	CHECK("user timeout", (v = 5000, setsockopt(p[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &v, sizeof(v))) == 0 && GET(IPPROTO_TCP, TCP_USER_TIMEOUT) == 5000);
	CHECK("IP_MTU", GET(IPPROTO_IP, IP_MTU) == 65535);
	v = 8192;
	CHECK("SO_SNDBUF doubles", setsockopt(p[0], SOL_SOCKET, SO_SNDBUF, &v, sizeof(v)) == 0 && GET(SOL_SOCKET, SO_SNDBUF) == 16384);
	CHECK("SO_ACCEPTCONN", GET(SOL_SOCKET, SO_ACCEPTCONN) == 0);
	CHECK_ERRNO("no such device", setsockopt(p[0], SOL_SOCKET, SO_BINDTODEVICE, "nosuch0", 8), ENODEV);
	/* CORK holds a small segment back; taking it off sends. */
	setsockopt(p[0], IPPROTO_TCP, TCP_CORK, &one, sizeof(one));
	send(p[0], "held", 4, 0);
	CHECK_ERRNO("corked", recv(p[1], &v, 4, MSG_DONTWAIT), EAGAIN);
	v = 0;
	setsockopt(p[0], IPPROTO_TCP, TCP_CORK, &v, sizeof(v));
	CHECK("uncorked", recv(p[1], &v, 4, MSG_WAITALL) == 4);
	send(p[0], "mo", 2, MSG_MORE);
	CHECK_ERRNO("MSG_MORE", recv(p[1], &v, 4, MSG_DONTWAIT), EAGAIN);
	send(p[0], "re", 2, 0);
	CHECK("after MSG_MORE", recv(p[1], &v, 4, MSG_WAITALL) == 4);
	close(p[0]);
	close(p[1]);
}

static void urgent(void)
{
	char buf[16];
	int p[2], v, one = 1;

	pair(p);
	CHECK_ERRNO("no urgent data", recv(p[1], buf, 1, MSG_OOB), EINVAL);
	send(p[0], "ab", 2, 0);
	send(p[0], "cX", 2, MSG_OOB);
	send(p[0], "de", 2, 0);
	settle();
	CHECK("POLLPRI", ready(p[1]) & POLLPRI);
	CHECK("peek urgent", recv(p[1], buf, 1, MSG_OOB | MSG_PEEK) == 1 && buf[0] == 'X');
	CHECK("urgent byte", recv(p[1], buf, 1, MSG_OOB) == 1 && buf[0] == 'X');
	CHECK("up to the mark", recv(p[1], buf, sizeof(buf), 0) == 3 && !memcmp(buf, "abc", 3));
	CHECK("at the mark", ioctl(p[1], SIOCATMARK, &v) == 0 && v == 1);
	CHECK("behind the mark", recv(p[1], buf, sizeof(buf), 0) == 2 && !memcmp(buf, "de", 2));
	setsockopt(p[1], SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
	send(p[0], "fY", 2, MSG_OOB);
	settle();
	CHECK("inline: to the mark", recv(p[1], buf, sizeof(buf), 0) == 1 && buf[0] == 'f');
	CHECK("inline: the byte", recv(p[1], buf, sizeof(buf), 0) == 1 && buf[0] == 'Y');
	close(p[0]);
	close(p[1]);
}

static void ipv6(void)
{
	struct sockaddr_in6 a6 = lo6(0), got;
	struct sockaddr_in a4;
	socklen_t len = sizeof(got);
	int l = socket(AF_INET6, SOCK_STREAM, 0), c, s, one = 1;

	a6.sin6_addr = in6addr_any;
	CHECK("bind any", bind(l, (struct sockaddr *)&a6, sizeof(a6)) == 0 && listen(l, 5) == 0);
	CHECK_ERRNO("V6ONLY is too late", setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), EINVAL);
	a4 = lo4(port_of(l));
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK("IPv4 to a dual-stack listener", connect(c, (struct sockaddr *)&a4, sizeof(a4)) == 0);
	s = accept(l, (struct sockaddr *)&got, &len);
	CHECK("mapped peer", s >= 0 && len == sizeof(got) && IN6_IS_ADDR_V4MAPPED(&got.sin6_addr) && got.sin6_port == htons((uint16_t)port_of(c)));
	close(c);
	close(s);
	c = socket(AF_INET6, SOCK_STREAM, 0);
	a6 = lo6(port_of(l));
	CHECK("IPv6", connect(c, (struct sockaddr *)&a6, sizeof(a6)) == 0);
	len = sizeof(got);
	s = accept(l, (struct sockaddr *)&got, &len);
	CHECK("IPv6 peer", s >= 0 && IN6_IS_ADDR_LOOPBACK(&got.sin6_addr));
	CHECK("IPv6 data", send(c, "six", 3, 0) == 3 && recv(s, &got, 3, MSG_WAITALL) == 3);
	close(c);
	close(s);
	c = socket(AF_INET6, SOCK_STREAM, 0);
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &a6.sin6_addr);
	CHECK("IPv6 socket to a mapped address", connect(c, (struct sockaddr *)&a6, sizeof(a6)) == 0);
	close(c);
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERRNO("IPv4 bind against dual stack", bind(c, (struct sockaddr *)&a4, sizeof(a4)), EADDRINUSE);
	close(l);
	close(c);
	l = socket(AF_INET6, SOCK_STREAM, 0);
	setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	a6 = lo6(0);
	a6.sin6_addr = in6addr_any;
	bind(l, (struct sockaddr *)&a6, sizeof(a6));
	listen(l, 1);
	a4 = lo4(port_of(l));
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERRNO("V6ONLY refuses IPv4", connect(c, (struct sockaddr *)&a4, sizeof(a4)), ECONNREFUSED);
	close(c);
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK("V6ONLY leaves the IPv4 port", bind(c, (struct sockaddr *)&a4, sizeof(a4)) == 0);
	close(c);
	close(l);
	c = socket(AF_INET6, SOCK_STREAM, 0);
	CHECK_ERRNO("short address", connect(c, (struct sockaddr *)&a6, 16), EINVAL);
	a6 = lo6(1);
	a6.sin6_addr.s6_addr[0] = 0x20;
	CHECK("unreachable", connect(c, (struct sockaddr *)&a6, sizeof(a6)) == -1 && (errno == ENETUNREACH || errno == EHOSTUNREACH));
	close(c);
}

static void backlog(void)
{
	int l = listener(1), c[4], i;
	struct sockaddr_in a = lo4(port_of(l));

	for (i = 0; i < 2; i++) {
		c[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(c[i], (struct sockaddr *)&a, sizeof(a));
		struct pollfd p = { .fd = c[i], .events = POLLOUT };
		CHECK("within the backlog", poll(&p, 1, 1000) == 1 && p.revents == POLLOUT);
	}
	c[2] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	connect(c[2], (struct sockaddr *)&a, sizeof(a));
	struct pollfd p = { .fd = c[2], .events = POLLOUT };
	CHECK("over the backlog waits", poll(&p, 1, 200) == 0);
	int s = accept(l, NULL, NULL);
	CHECK("after accept it connects", poll(&p, 1, 4000) == 1 && p.revents == POLLOUT);
	close(s);
	for (i = 0; i < 3; i++)
		close(c[i]);
	close(l);
	/* A listener that closes resets those who wait. */
	l = listener(5);
	a = lo4(port_of(l));
	c[0] = socket(AF_INET, SOCK_STREAM, 0);
	connect(c[0], (struct sockaddr *)&a, sizeof(a));
	close(l);
	settle();
	CHECK_ERRNO("waiting ones are reset", recv(c[0], &i, 1, 0), ECONNRESET);
	close(c[0]);
}

static void *late_close(void *arg)
{
	usleep(100000);
	close(*(int *)arg);
	return NULL;
}

static void wakes(void)
{
	int p[2], ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP }, got[4];
	char buf[16];
	pthread_t th;

	pair(p);
	epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev);
	CHECK("edge: writable", epoll_wait(ep, got, 4, 1000) == 1 && got[0].events == EPOLLOUT);
	CHECK("edge: once", epoll_wait(ep, got, 4, 0) == 0);
	send(p[1], "1", 1, 0);
	CHECK("edge: data", epoll_wait(ep, got, 4, 1000) == 1 && (got[0].events & EPOLLIN));
	CHECK("edge: data once", epoll_wait(ep, got, 4, 0) == 0);
	send(p[1], "2", 1, 0);
	CHECK("edge: more data", epoll_wait(ep, got, 4, 1000) == 1 && (got[0].events & EPOLLIN));
	pthread_create(&th, NULL, late_close, &p[1]);
	CHECK("read what is there", recv(p[0], buf, 2, MSG_WAITALL) == 2);
	CHECK("reader wakes at the end", recv(p[0], buf, 1, 0) == 0);
	pthread_join(th, NULL);
	CHECK("edge: hang-up", epoll_wait(ep, got, 4, 1000) == 1 && (got[0].events & EPOLLRDHUP));
	close(p[0]);
	close(ep);
}

static void self(void)
{
	struct sockaddr_in a = lo4(0);
	int c = socket(AF_INET, SOCK_STREAM, 0);
	char b = 0;

	bind(c, (struct sockaddr *)&a, sizeof(a));
	a = lo4(port_of(c));
	CHECK("connect to oneself", connect(c, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK("talk to oneself", send(c, "s", 1, 0) == 1 && recv(c, &b, 1, 0) == 1 && b == 's');
	close(c);
	/* connect(AF_UNSPEC) ends a connection; the socket can be used again. */
	int l = listener(5);
	a = lo4(port_of(l));
	c = socket(AF_INET, SOCK_STREAM, 0);
	connect(c, (struct sockaddr *)&a, sizeof(a));
	struct sockaddr u = { .sa_family = AF_UNSPEC };
	CHECK("disconnect", connect(c, &u, sizeof(u)) == 0);
	CHECK("connect again", connect(c, (struct sockaddr *)&a, sizeof(a)) == 0);
	close(c);
	close(l);
	a.sin_addr.s_addr = 0;
	l = socket(AF_INET, SOCK_STREAM, 0);
	bind(l, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET }, sizeof(a));
	listen(l, 1);
	a.sin_port = htons((uint16_t)port_of(l));
	c = socket(AF_INET, SOCK_STREAM, 0);
	CHECK("0.0.0.0 is this host", connect(c, (struct sockaddr *)&a, sizeof(a)) == 0);
	close(c);
	close(l);
	c = socket(AF_INET, SOCK_STREAM, 0);
	a.sin_addr.s_addr = htonl(0xe0000001);
	CHECK_ERRNO("multicast", connect(c, (struct sockaddr *)&a, sizeof(a)), ENETUNREACH);
	close(c);
	CHECK_ERRNO("protocol", socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	CHECK_ERRNO("type", socket(AF_INET, SOCK_SEQPACKET, 0), ESOCKTNOSUPPORT);
	CHECK_ERRNO("family", socket(AF_MAX + 1, SOCK_STREAM, 0), EAFNOSUPPORT);
	CHECK_ERRNO("socketpair", socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){ 0, 0 }), EOPNOTSUPP);
}

int main(void)
{
	names();
	reuse();
	nonblocking();
	data();
	closing();
	options();
	urgent();
	ipv6();
	backlog();
	wakes();
	self();
	return guest_done();
}
