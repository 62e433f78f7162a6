/* SPDX-License-Identifier: Apache-2.0 */
/* UDP, raw and ping sockets over loopback: udp(7), raw(7), icmp(7), ancillary data of ip(7), ipv6(7). */
#include "tests/lib/guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <time.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static struct sockaddr_in lo4(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static short ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

	poll(&p, 1, 0);
	return p.revents;
}

static int bound(struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct timeval tv = { 2, 0 };

	*a = lo4(0);
	bind(fd, (struct sockaddr *)a, sizeof(*a));
	getsockname(fd, (struct sockaddr *)a, &len);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return fd;
}

static void basics(void)
{
	struct sockaddr_in a, b, from;
	socklen_t len = sizeof(from);
	int s = bound(&a), c = bound(&b), v;
	char buf[70000];

	CHECK("ready", ready(s) == POLLOUT);
	CHECK_ERRNO("empty", recv(s, buf, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_ERRNO("no destination", send(c, "x", 1, 0), EDESTADDRREQ);
	CHECK("sendto", sendto(c, "hello", 5, 0, (struct sockaddr *)&a, sizeof(a)) == 5);
	CHECK("readable", ready(s) == (POLLIN | POLLOUT));
	CHECK("fionread", ioctl(s, FIONREAD, &v) == 0 && v == 5);
	CHECK("peek", recv(s, buf, 2, MSG_PEEK) == 2);
	CHECK("trunc tells the length", recv(s, buf, 2, MSG_PEEK | MSG_TRUNC) == 5);
	CHECK("recvfrom", recvfrom(s, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len) == 5 && len == sizeof(from) && from.sin_port == b.sin_port);
	sendto(c, "abcdef", 6, 0, (struct sockaddr *)&a, sizeof(a));
	struct iovec iov = { buf, 3 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	CHECK("truncated", recvmsg(s, &m, 0) == 3 && m.msg_flags == MSG_TRUNC);
	CHECK_ERRNO("the rest is gone", recv(s, buf, 1, MSG_DONTWAIT), EAGAIN);
	CHECK("empty datagram", sendto(c, "", 0, 0, (struct sockaddr *)&a, sizeof(a)) == 0 && recv(s, buf, 1, 0) == 0);
	CHECK("largest", sendto(c, buf, 65507, 0, (struct sockaddr *)&a, sizeof(a)) == 65507 && recv(s, buf, sizeof(buf), 0) == 65507);
	CHECK_ERRNO("too large", sendto(c, buf, 65508, 0, (struct sockaddr *)&a, sizeof(a)), EMSGSIZE);
	CHECK_ERRNO("port 0", sendto(c, "x", 1, 0, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = a.sin_addr }, sizeof(a)), EINVAL);
	CHECK_ERRNO("short address", sendto(c, "x", 1, 0, (struct sockaddr *)&a, 8), EINVAL);
	a.sin_family = AF_UNIX;
	CHECK_ERRNO("other family", sendto(c, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)), EAFNOSUPPORT);
	a.sin_family = AF_INET;
	CHECK("connect", connect(c, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK("send", send(c, "conn", 4, 0) == 4 && recv(s, buf, 4, 0) == 4);
	/* A connected socket hears its peer only. */
	struct sockaddr_in o;
	int other = bound(&o);
	sendto(other, "x", 1, 0, (struct sockaddr *)&b, sizeof(b));
	CHECK_ERRNO("others are not heard", recv(c, buf, 1, MSG_DONTWAIT), EAGAIN);
	sendto(s, "y", 1, 0, (struct sockaddr *)&b, sizeof(b));
	CHECK("the peer is", recv(c, buf, 1, 0) == 1 && buf[0] == 'y');
	close(s);
	CHECK("send to a closed port", send(c, "x", 1, 0) == 1);
	CHECK("error is ready", ready(c) & POLLERR);
	CHECK_ERRNO("refused", recv(c, buf, 1, 0), ECONNREFUSED);
	send(c, "x", 1, 0);
	CHECK_ERRNO("refused at send", send(c, "x", 1, 0), ECONNREFUSED);
	struct sockaddr u = { .sa_family = AF_UNSPEC };
	CHECK("disconnect", connect(c, &u, sizeof(u)) == 0);
	len = sizeof(from);
	CHECK_ERRNO("no peer", getpeername(c, (struct sockaddr *)&from, &len), ENOTCONN);
	a = lo4(1);
	a.sin_addr.s_addr = htonl(0xc0000201);
	CHECK_ERRNO("broadcast needs leave", sendto(c, "x", 1, 0, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = INADDR_BROADCAST }, sizeof(a)), EACCES);
	CHECK_ERRNO("listen", listen(c, 1), EOPNOTSUPP);
	CHECK_ERRNO("accept", accept(c, NULL, NULL), EOPNOTSUPP);
	shutdown(c, SHUT_RD);
	close(c);
	close(other);
}

static void ports(void)
{
	struct sockaddr_in a;
	int s = bound(&a), t = socket(AF_INET, SOCK_DGRAM, 0), one = 1, r[2];

	CHECK_ERRNO("in use", bind(t, (struct sockaddr *)&a, sizeof(a)), EADDRINUSE);
	setsockopt(t, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK_ERRNO("reuse on one side", bind(t, (struct sockaddr *)&a, sizeof(a)), EADDRINUSE);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK("reuse on both", bind(t, (struct sockaddr *)&a, sizeof(a)) == 0);
	close(s);
	close(t);
	a = lo4(0);
	for (int i = 0; i < 2; i++) {
		socklen_t len = sizeof(a);

		r[i] = socket(AF_INET, SOCK_DGRAM, 0);
		setsockopt(r[i], SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
		CHECK("reuseport", bind(r[i], (struct sockaddr *)&a, sizeof(a)) == 0);
		getsockname(r[i], (struct sockaddr *)&a, &len);
	}
	int got[2] = { 0, 0 };
	char b;

	for (int i = 0; i < 64; i++) {
		s = socket(AF_INET, SOCK_DGRAM, 0);
		sendto(s, "x", 1, 0, (struct sockaddr *)&a, sizeof(a));
		close(s);
	}
	for (int i = 0; i < 2; i++)
		while (recv(r[i], &b, 1, MSG_DONTWAIT) == 1)
			got[i]++;
	CHECK("the group shares", got[0] + got[1] == 64 && got[0] > 5 && got[1] > 5);
	close(r[0]);
	close(r[1]);
}

static struct cmsghdr *find(struct msghdr *m, int level, int type)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == level && c->cmsg_type == type)
			return c;
	return NULL;
}

static void ancillary(void)
{
	struct sockaddr_in a, b;
	int s = bound(&a), c = bound(&b), one = 1, v;
	char buf[64], ctl[512];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	struct cmsghdr *h;

	setsockopt(s, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one));
	setsockopt(s, IPPROTO_IP, IP_RECVTTL, &one, sizeof(one));
	setsockopt(s, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	setsockopt(s, SOL_SOCKET, SO_TIMESTAMP, &one, sizeof(one));
	v = 33;
	setsockopt(c, IPPROTO_IP, IP_TTL, &v, sizeof(v));
	v = 0x10;
	setsockopt(c, IPPROTO_IP, IP_TOS, &v, sizeof(v));
	sendto(c, "x", 1, 0, (struct sockaddr *)&a, sizeof(a));
	CHECK("recvmsg", recvmsg(s, &m, 0) == 1 && !(m.msg_flags & MSG_CTRUNC));
	h = find(&m, IPPROTO_IP, IP_PKTINFO);
	CHECK("pktinfo", h && ((struct in_pktinfo *)CMSG_DATA(h))->ipi_ifindex == 1 && ((struct in_pktinfo *)CMSG_DATA(h))->ipi_addr.s_addr == htonl(INADDR_LOOPBACK));
	h = find(&m, IPPROTO_IP, IP_TTL);
	CHECK("ttl", h && *(int *)CMSG_DATA(h) == 33);
	h = find(&m, IPPROTO_IP, IP_TOS);
	CHECK("tos", h && *CMSG_DATA(h) == 0x10);
	h = find(&m, SOL_SOCKET, SO_TIMESTAMP);
	struct timeval tv;
	gettimeofday(&tv, NULL);
	CHECK("timestamp", h && labs(((struct timeval *)CMSG_DATA(h))->tv_sec - tv.tv_sec) < 5);
	/* A source address by IP_PKTINFO, and TTL, of one message. */
	char sctl[128] = "";
	struct msghdr w = { .msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = &(struct iovec){ "y", 1 }, .msg_iovlen = 1, .msg_control = sctl, .msg_controllen = CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(int)) };
	h = CMSG_FIRSTHDR(&w);
	h->cmsg_level = IPPROTO_IP;
	h->cmsg_type = IP_PKTINFO;
	h->cmsg_len = CMSG_LEN(sizeof(struct in_pktinfo));
	((struct in_pktinfo *)CMSG_DATA(h))->ipi_spec_dst.s_addr = htonl(0x7f000005);
	h = CMSG_NXTHDR(&w, h);
	h->cmsg_level = IPPROTO_IP;
	h->cmsg_type = IP_TTL;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)CMSG_DATA(h) = 7;
	int any = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK("sendmsg with pktinfo", sendmsg(any, &w, 0) == 1);
	struct sockaddr_in from;
	m.msg_name = &from;
	m.msg_namelen = sizeof(from);
	m.msg_controllen = sizeof(ctl);
	CHECK("source as asked", recvmsg(s, &m, 0) == 1 && from.sin_addr.s_addr == htonl(0x7f000005));
	h = find(&m, IPPROTO_IP, IP_TTL);
	CHECK("ttl as asked", h && *(int *)CMSG_DATA(h) == 7);
	/* Errors with their cause. */
	setsockopt(c, IPPROTO_IP, IP_RECVERR, &one, sizeof(one));
	close(s);
	sendto(c, "lost", 4, 0, (struct sockaddr *)&a, sizeof(a));
	usleep(20000);
	CHECK("error queue is ready", ready(c) & POLLERR);
	m.msg_controllen = sizeof(ctl);
	m.msg_namelen = sizeof(from);
	CHECK("error queue", recvmsg(c, &m, MSG_ERRQUEUE) == 4 && (m.msg_flags & MSG_ERRQUEUE) && !memcmp(buf, "lost", 4) && from.sin_port == a.sin_port);
	h = find(&m, IPPROTO_IP, IP_RECVERR);
	struct sock_extended_err *ee = h ? (void *)CMSG_DATA(h) : NULL;
	CHECK("extended error", ee && ee->ee_errno == ECONNREFUSED && ee->ee_origin == SO_EE_ORIGIN_ICMP && ee->ee_type == 3 && ee->ee_code == 3);
	CHECK_ERRNO("error queue is empty", recvmsg(c, &m, MSG_ERRQUEUE), EAGAIN);
	close(c);
	close(any);
}

static void many(void)
{
	struct sockaddr_in a, b;
	int s = bound(&a), c = bound(&b);
	struct mmsghdr mm[4];
	struct iovec iov[4];
	char buf[4][16];

	memset(mm, 0, sizeof(mm));
	for (int i = 0; i < 4; i++) {
		iov[i] = (struct iovec){ buf[i], (size_t)i + 1 };
		mm[i].msg_hdr = (struct msghdr){ .msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	CHECK("sendmmsg", sendmmsg(c, mm, 4, 0) == 4 && mm[3].msg_len == 4);
	for (int i = 0; i < 4; i++) {
		iov[i].iov_len = 16;
		mm[i].msg_hdr.msg_name = NULL;
	}
	CHECK("recvmmsg", recvmmsg(s, mm, 4, MSG_WAITFORONE, NULL) == 4 && mm[0].msg_len == 1 && mm[3].msg_len == 4);
	int v = 1000;
	static char big[5500];
	if (setsockopt(c, IPPROTO_UDP, UDP_SEGMENT, &v, sizeof(v)) == 0) {
		CHECK("segmented send", sendto(c, big, sizeof(big), 0, (struct sockaddr *)&a, sizeof(a)) == sizeof(big));
		int n = 0, sum = 0;
		ssize_t r;
		while ((r = recv(s, big, sizeof(big), MSG_DONTWAIT)) > 0) {
			n++;
			sum += (int)r;
		}
		CHECK("six datagrams", n == 6 && sum == 5500);
	}
	/* A full receive buffer drops, and stays bounded. */
	v = 4096;
	setsockopt(s, SOL_SOCKET, SO_RCVBUF, &v, sizeof(v));
	v = 0;
	setsockopt(c, IPPROTO_UDP, UDP_SEGMENT, &v, sizeof(v));
	for (int i = 0; i < 100; i++)
		sendto(c, big, 1000, 0, (struct sockaddr *)&a, sizeof(a));
	int n = 0;
	while (recv(s, big, sizeof(big), MSG_DONTWAIT) > 0)
		n++;
	CHECK("overflow drops", n >= 1 && n < 20);
	close(s);
	close(c);
}

static void groups(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
	struct ip_mreqn mr = { .imr_multiaddr.s_addr = htonl(0xefff0101), .imr_ifindex = 1 };
	int s = socket(AF_INET, SOCK_DGRAM, 0), c = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(a);
	struct timeval tv = { 1, 0 };
	char b;

	bind(s, (struct sockaddr *)&a, sizeof(a));
	getsockname(s, (struct sockaddr *)&a, &len);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	CHECK("join", setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &mr, sizeof(mr)) == 0);
	CHECK_ERRNO("join twice", setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &mr, sizeof(mr)), EADDRINUSE);
	CHECK("interface", setsockopt(c, IPPROTO_IP, IP_MULTICAST_IF, &mr, sizeof(mr)) == 0);
	a.sin_addr = mr.imr_multiaddr;
	CHECK("send to the group", sendto(c, "g", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1);
	CHECK("member hears", recv(s, &b, 1, 0) == 1 && b == 'g');
	CHECK("leave", setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, &mr, sizeof(mr)) == 0);
	CHECK_ERRNO("leave twice", setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, &mr, sizeof(mr)), EADDRNOTAVAIL);
	close(s);
	close(c);
}

static uint16_t sum(const void *p, int n)
{
	const uint16_t *w = p;
	uint32_t s = 0;

	for (; n > 1; n -= 2)
		s += *w++;
	s = (s >> 16) + (s & 0xffff);
	return (uint16_t)~(s + (s >> 16));
}

static void raw(void)
{
	struct sockaddr_in a = lo4(0), from;
	struct icmphdr h = { .type = ICMP_ECHO, .un.echo = { .id = htons(77), .sequence = htons(1) } };
	char buf[256];
	struct timeval tv = { 1, 0 };
	socklen_t len = sizeof(from);
	int s = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);

	if (s < 0 && errno == EPERM)
		return;
	CHECK("raw socket", s >= 0);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	h.checksum = sum(&h, sizeof(h));
	CHECK("echo request", sendto(s, &h, sizeof(h), 0, (struct sockaddr *)&a, sizeof(a)) == sizeof(h));
	int reply = 0;
	for (int i = 0; i < 4 && !reply; i++) {
		ssize_t n = recvfrom(s, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);

		if (n < 28)
			break;
		struct icmphdr *r = (void *)(buf + (buf[0] & 15) * 4);
		reply = n == 28 && buf[9] == IPPROTO_ICMP && r->type == ICMP_ECHOREPLY && r->un.echo.id == htons(77);
	}
	CHECK("echo reply with IP header", reply);
	close(s);
	CHECK_ERRNO("protocol 0", socket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
	s = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
	struct sockaddr_in b;
	int u = bound(&b), c = bound(&a);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	sendto(c, "raw", 3, 0, (struct sockaddr *)&b, sizeof(b));
	CHECK("raw sees UDP", recv(s, buf, sizeof(buf), 0) == 31);
	CHECK("and UDP gets it", recv(u, buf, sizeof(buf), 0) == 3);
	close(s);
	close(u);
	close(c);
}

static void ipv6(void)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT }, from;
	socklen_t len = sizeof(a);
	int s = socket(AF_INET6, SOCK_DGRAM, 0), c = socket(AF_INET6, SOCK_DGRAM, 0), one = 1;
	char buf[64], ctl[256];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	struct timeval tv = { 1, 0 };

	bind(s, (struct sockaddr *)&a, sizeof(a));
	getsockname(s, (struct sockaddr *)&a, &len);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one));
	setsockopt(s, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &one, sizeof(one));
	setsockopt(s, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
	CHECK("sendto", sendto(c, "6", 1, 0, (struct sockaddr *)&a, sizeof(a)) == 1);
	CHECK("recvmsg", recvmsg(s, &m, 0) == 1 && from.sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&from.sin6_addr));
	struct cmsghdr *h = find(&m, IPPROTO_IPV6, IPV6_PKTINFO);
	CHECK("pktinfo", h && ((struct in6_pktinfo *)CMSG_DATA(h))->ipi6_ifindex == 1 && IN6_IS_ADDR_LOOPBACK(&((struct in6_pktinfo *)CMSG_DATA(h))->ipi6_addr));
	h = find(&m, IPPROTO_IPV6, IPV6_HOPLIMIT);
	CHECK("hop limit", h && *(int *)CMSG_DATA(h) == 64);
	h = find(&m, IPPROTO_IPV6, IPV6_TCLASS);
	CHECK("traffic class", h && *(int *)CMSG_DATA(h) == 0);
	connect(c, (struct sockaddr *)&a, sizeof(a));
	close(s);
	send(c, "x", 1, 0);
	usleep(20000);
	CHECK_ERRNO("refused", recv(c, buf, 1, MSG_DONTWAIT), ECONNREFUSED);
	close(c);
	/* Both families on one socket. */
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	s = socket(AF_INET6, SOCK_DGRAM, 0);
	bind(s, (struct sockaddr *)&any, sizeof(any));
	len = sizeof(any);
	getsockname(s, (struct sockaddr *)&any, &len);
	struct sockaddr_in v4 = lo4(ntohs(any.sin6_port));
	c = socket(AF_INET, SOCK_DGRAM, 0);
	sendto(c, "4", 1, 0, (struct sockaddr *)&v4, sizeof(v4));
	len = sizeof(from);
	CHECK("IPv4 to a dual-stack socket", recvfrom(s, buf, 1, MSG_DONTWAIT, (struct sockaddr *)&from, &len) == 1 && IN6_IS_ADDR_V4MAPPED(&from.sin6_addr));
	CHECK("answer to a mapped address", sendto(s, "a", 1, 0, (struct sockaddr *)&from, sizeof(from)) == 1 && recv(c, buf, 1, 0) == 1);
	close(s);
	close(c);
}

int main(void)
{
	basics();
	ports();
	ancillary();
	many();
	groups();
	raw();
	ipv6();
	return guest_done();
}
