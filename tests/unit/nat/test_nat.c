/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NAT, driven from one thread: a guest's stack at the other end of the pair link, and host sockets
 * on loopback, which the gateway's address leads to. Nothing leaves this machine.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "netstack/link/pair.h"
#include "netstack/nat/nat.h"
#include "netstack/tcp/tcp_priv.h"

static const uint8_t g_mac[2][6] = { { 2, 0, 0, 0, 0, 1 }, { 2, 0, 0, 0, 0, 2 } };

struct rig {
	struct nat *nat;
	struct stack *guest;
	struct nic *nic;
	uint64_t armed;
};
static struct rig g_rig;

static uint64_t rig_now(void *priv)
{
	return nat_now();
}

static void rig_arm(void *priv, uint64_t deadline)
{
	g_rig.armed = deadline;
}

static void rig_random(void *priv, void *buf, size_t n)
{
	ck_assert_int_eq(getrandom(buf, n, 0), (ssize_t)n);
}

static void set_up(int host_loopback)
{
	struct stack_env env = { .now = rig_now, .real = rig_now, .arm = rig_arm, .random = rig_random };
	struct nic_addr a = { .addr = ip_from_v4(inet_addr("10.0.2.15")), .plen = 96 + 24, .broadcast = ip_from_v4(0) };
	struct route all = { .dst = ip_from_v4(0), .plen = 96, .nic = 2, .gateway = ip_from_v4(inet_addr("10.0.2.2")),
			     .pref_src = ip_from_v4(0), .type = 1 };
	struct route lan = { .dst = ip_from_v4(inet_addr("10.0.2.0")), .plen = 96 + 24, .nic = 2,
			     .gateway = ip_from_v4(0), .pref_src = ip_from_v4(0), .type = 1 };
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd), 0);
	struct nat *n = g_rig.nat = calloc(1, sizeof(*n));

	n->guest[0] = a.addr;
	n->gate[0] = all.gateway;
	n->dns[0] = ip_from_v4(inet_addr("10.0.2.3"));
	n->host_loopback = host_loopback;
	ck_assert_int_eq(guard_open(n), 0);
	ck_assert_int_eq(nat_start(n, fd[0], g_mac[0], g_mac[1], 1500), 0);
	g_rig.armed = NAT_NEVER;
	g_rig.guest = stack_new(&env);
	stack_lock(g_rig.guest);
	loopback_new(g_rig.guest);
	g_rig.nic = pair_new(g_rig.guest, "eth0", fd[1], g_mac[1], 1500);
	ck_assert_int_eq(nic_add_addr(g_rig.nic, &a), 0);
	ck_assert_int_eq(route_add(g_rig.guest, &lan), 0);
	ck_assert_int_eq(route_add(g_rig.guest, &all), 0);
	stack_unlock(g_rig.guest);
}

/* Both sides get their turns. */
static void turn(void)
{
	nat_turn(g_rig.nat, nat_now() + 200000);
	while (pair_receive(g_rig.nic) > 0)
		;
	stack_lock(g_rig.guest);
	pair_writable(g_rig.nic);
	stack_unlock(g_rig.guest);
	if (g_rig.armed <= nat_now()) {
		g_rig.armed = NAT_NEVER;
		stack_timers(g_rig.guest);
	}
}

/* cond may have effects: it is not asked again once it holds. */
#define TURN_UNTIL(cond)                                  \
	do {                                              \
		int holds_ = 0;                           \
		for (int i_ = 0; i_ < 20000; i_++) {      \
			holds_ = (cond);                  \
			if (holds_)                       \
				break;                    \
			turn();                           \
		}                                         \
		ck_assert_msg(holds_, "%s", #cond);       \
	} while (0)

static int host_listen(int type, uint16_t *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, len), 0);
	if (type == SOCK_STREAM)
		ck_assert_int_eq(listen(fd, 16), 0);
	getsockname(fd, (struct sockaddr *)&in, &len);
	*port = ntohs(in.sin_port);
	return fd;
}

static struct endpoint *guest_connect(const char *to, uint16_t port)
{
	struct endpoint *ep = endpoint_new(g_rig.guest, EP_TCP, 0, IPPROTO_TCP);
	struct ip_addr a = ip_from_v4(inet_addr(to));

	ck_assert_int_eq(endpoint_connect(ep, &a, port), -EINPROGRESS);
	return ep;
}

static ssize_t put(struct endpoint *ep, const void *p, size_t size)
{
	struct uio u;
	struct ep_send m = { .u = &u, .ttl = -1, .tos = -1 };

	uio_init_kernel(&u, (void *)(uintptr_t)p, size);
	return endpoint_send(ep, &m);
}

static ssize_t get(struct endpoint *ep, void *p, size_t size)
{
	struct uio u;
	struct ep_recv m = { .u = &u };

	uio_init_kernel(&u, p, size);
	return endpoint_recv(ep, &m);
}

static int established(const struct endpoint *ep)
{
	return endpoint_tcp_state(ep) == TCPS_ESTABLISHED;
}

START_TEST(test_a_connection_is_joined_both_ways_and_half_closed)
{
	char buf[16];
	uint16_t port;
	ssize_t r = -EAGAIN;
	int fd, lfd;

	set_up(1);
	lfd = host_listen(SOCK_STREAM, &port);
	struct endpoint *ep = guest_connect("10.0.2.2", port);

	TURN_UNTIL(established(ep));
	fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(put(ep, "hello", 5), 5);
	TURN_UNTIL((r = recv(fd, buf, sizeof(buf), 0)) > 0);
	ck_assert_int_eq(r, 5);
	endpoint_shutdown(ep, 2);
	TURN_UNTIL(recv(fd, buf, sizeof(buf), 0) == 0);
	ck_assert_int_eq(send(fd, "world", 5, 0), 5);
	TURN_UNTIL((r = get(ep, buf, sizeof(buf))) != -EAGAIN);
	ck_assert_int_eq(r, 5);
	close(fd);
	TURN_UNTIL((r = get(ep, buf, sizeof(buf))) != -EAGAIN);
	ck_assert_int_eq(r, 0);
	TURN_UNTIL(g_rig.nat->tcp_count == 0);
	endpoint_close(ep);
}
END_TEST

START_TEST(test_an_attempt_given_up_does_not_block_the_next)
{
	struct ip_addr any = ip_from_v4(0), gate = ip_from_v4(inet_addr("10.0.2.2"));
	uint16_t port;
	int lfd;

	set_up(1);
	lfd = host_listen(SOCK_STREAM, &port);
	for (int i = 0; i < 3; i++) {
		struct endpoint *ep = endpoint_new(g_rig.guest, EP_TCP, 0, IPPROTO_TCP);

		ck_assert_int_eq(endpoint_bind(ep, &any, 5555), 0);
		ck_assert_int_eq(endpoint_connect(ep, &gate, port), -EINPROGRESS);
		if (i == 2)
			TURN_UNTIL(established(ep));
		endpoint_close(ep); /* the answer meets nobody, and is reset */
		for (int k = 0; k < 50; k++)
			turn();
	}
	close(lfd);
}
END_TEST

START_TEST(test_refusals_are_the_hosts)
{
	uint16_t port;

	set_up(1);
	close(host_listen(SOCK_STREAM, &port));
	struct endpoint *ep = guest_connect("10.0.2.2", port);

	TURN_UNTIL(ep->error);
	ck_assert_int_eq(ep->error, ECONNREFUSED);
	endpoint_close(ep);
	ep = guest_connect("127.0.0.1", port); /* never sent: it is the guest's own */
	ck_assert_int_ne(endpoint_tcp_state(ep), TCPS_ESTABLISHED);
	endpoint_close(ep);
	ep = guest_connect("169.254.169.254", 80);
	TURN_UNTIL(ep->error);
	ck_assert_int_eq(ep->error, EHOSTUNREACH);
	endpoint_close(ep);
	ck_assert_uint_eq(g_rig.nat->tcp_count, 0);
}
END_TEST

START_TEST(test_the_gateway_is_no_way_to_the_host_unless_asked)
{
	uint16_t port;
	int lfd;

	set_up(0);
	lfd = host_listen(SOCK_STREAM, &port);
	struct endpoint *ep = guest_connect("10.0.2.2", port);

	TURN_UNTIL(ep->error);
	ck_assert_int_eq(ep->error, ECONNREFUSED);
	ck_assert_int_eq(accept(lfd, NULL, NULL), -1);
	endpoint_close(ep);
	close(lfd);
}
END_TEST

START_TEST(test_a_reset_passes_in_both_directions)
{
	struct linger l = { .l_onoff = 1 };
	uint16_t port;
	char c;
	int fd, lfd;

	set_up(1);
	lfd = host_listen(SOCK_STREAM, &port);
	struct endpoint *ep = guest_connect("10.0.2.2", port);

	TURN_UNTIL(established(ep));
	fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(fd);
	TURN_UNTIL(ep->error);
	ck_assert_int_eq(ep->error, ECONNRESET);
	endpoint_close(ep);
	ep = guest_connect("10.0.2.2", port);
	TURN_UNTIL(established(ep));
	fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK);
	ep->o.linger_on = 1;
	endpoint_close(ep);
	TURN_UNTIL(recv(fd, &c, 1, 0) < 0 && errno != EAGAIN);
	ck_assert_int_eq(errno, ECONNRESET);
	ck_assert_uint_eq(g_rig.nat->tcp_count, 0);
}
END_TEST

START_TEST(test_a_reader_that_does_not_read_stops_the_sender)
{
	static char block[65536];
	uint64_t sent = 0;
	uint16_t port;
	int size = 4096, lfd, idle = 0;

	set_up(1);
	lfd = host_listen(SOCK_STREAM, &port);
	setsockopt(lfd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	struct endpoint *ep = guest_connect("10.0.2.2", port);

	TURN_UNTIL(established(ep));
	while (idle < 500) {
		ssize_t r = put(ep, block, sizeof(block));

		idle = r > 0 ? 0 : idle + 1;
		sent += r > 0 ? (uint64_t)r : 0;
		turn();
	}
	ck_assert_uint_lt(sent, 24u << 20);
	struct endpoint *own;

	list_for_each(own, &g_rig.nat->stack->all[EP_TCP], all_node)
		ck_assert_uint_le(own->rq_bytes, 1u << 20);
}
END_TEST

START_TEST(test_udp_flows_answer_and_are_bounded)
{
	struct ip_addr any = ip_from_v4(0), gate = ip_from_v4(inet_addr("10.0.2.2"));
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[16];
	uint16_t port;
	int fd;

	set_up(1);
	fd = host_listen(SOCK_DGRAM, &port);
	struct endpoint *ep = NULL;

	for (uint32_t i = 0; i < NAT_UDP_MAX + 50; i++) {
		if (ep)
			endpoint_close(ep);
		ep = endpoint_new(g_rig.guest, EP_UDP, 0, IPPROTO_UDP);
		ck_assert_int_eq(endpoint_bind(ep, &any, (uint16_t)(2000 + i)), 0);
		ck_assert_int_eq(endpoint_connect(ep, &gate, port), 0);
		ck_assert_int_eq(put(ep, "ask", 3), 3);
		TURN_UNTIL((len = sizeof(from), recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len)) == 3);
		ck_assert_uint_le(g_rig.nat->udp_count, NAT_UDP_MAX);
	}
	ck_assert_uint_eq(g_rig.nat->udp_count, NAT_UDP_MAX);
	ck_assert_int_eq(sendto(fd, "answer", 6, 0, (struct sockaddr *)&from, len), 6);
	TURN_UNTIL(get(ep, buf, sizeof(buf)) == 6);
	/* Time passes: all of them go. */
	ck_assert_uint_eq(nat_udp_expire(g_rig.nat, nat_now() + 200000000000ull), NAT_NEVER);
	ck_assert_uint_eq(g_rig.nat->udp_count, 0);
	endpoint_close(ep);
}
END_TEST

START_TEST(test_a_published_port_shows_the_gateway_for_loopback)
{
	struct ip_addr any = ip_from_v4(0), peer;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct endpoint *c = ERR_PTR(-EAGAIN);
	uint16_t port;
	char buf[8];

	set_up(0);
	struct nat_publish *b = &g_rig.nat->publish[0];

	b->port = 80;
	b->src.fd = host_listen(SOCK_STREAM, &port);
	struct endpoint *l = endpoint_new(g_rig.guest, EP_TCP, 0, IPPROTO_TCP);

	ck_assert_int_eq(endpoint_bind(l, &any, 80), 0);
	ck_assert_int_eq(endpoint_listen(l, 5), 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_port = htons(port);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	nat_tcp_published(g_rig.nat, b);
	TURN_UNTIL(!IS_ERR(c = endpoint_accept(l)));
	peer = ip_from_v4(inet_addr("10.0.2.2"));
	ck_assert(ip_eq(&c->raddr, &peer));
	ck_assert_int_eq(send(fd, "hi", 2, 0), 2);
	TURN_UNTIL(get(c, buf, sizeof(buf)) == 2);
	ck_assert_int_eq(put(c, "ho", 2), 2);
	TURN_UNTIL(recv(fd, buf, sizeof(buf), 0) == 2);
	endpoint_close(c);
	endpoint_close(l);
	close(fd);
}
END_TEST

START_TEST(test_ranges)
{
	static const struct {
		const char *addr;
		int allowed;
	} rows[] = {
		{ "8.8.8.8", 1 }, { "10.1.2.3", 1 }, { "192.168.0.1", 1 }, { "100.64.0.1", 1 },
		{ "127.0.0.1", 0 }, { "127.255.255.254", 0 }, { "0.0.0.0", 0 }, { "0.1.2.3", 0 },
		{ "169.254.169.254", 0 }, { "169.254.0.1", 0 }, { "100.100.100.200", 0 }, { "168.63.129.16", 0 },
		{ "224.0.0.1", 0 }, { "240.0.0.1", 0 }, { "255.255.255.255", 0 },
		{ "2606:4700::1", 1 }, { "fd12::1", 1 }, { "::", 0 }, { "::1", 0 }, { "fe80::1", 0 },
		{ "ff02::1", 0 }, { "fd00:ec2::254", 0 }, { "fd20:ce::254", 0 }, { "64:ff9b::7f00:1", 0 },
		{ "64:ff9b::a9fe:a9fe", 0 }, { "64:ff9b::808:808", 1 }, { "64:ff9b:1::1", 0 },
		{ "2002:7f00:1::1", 0 }, { "2002:a9fe:a9fe::", 0 }, { "2001::ffff:ffff", 0 }, { "::127.0.0.1", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct in6_addr v6;
		struct ip_addr a = ip_from_v4(0);

		if (inet_pton(AF_INET6, rows[i].addr, &v6) == 1)
			a = ip_from_v6(&v6);
		else
			ck_assert_int_eq(inet_pton(AF_INET, rows[i].addr, &a.w[3]), 1);
		ck_assert_msg(guard_range_allowed(&a) == rows[i].allowed, "%s", rows[i].addr);
	}
}
END_TEST

START_TEST(test_dns_answers_match_by_id_and_question)
{
	uint8_t q[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\3www\4test\0\0\1\0\1";
	uint8_t a[sizeof(q) - 1];
	uint32_t len = sizeof(a);

	ck_assert_uint_eq(dns_question(q, len), len - 12);
	memcpy(a, q, len);
	ck_assert(!dns_answers(q, len, 0x1234, a, len)); /* a query is no answer */
	a[2] |= 0x80;
	ck_assert(dns_answers(q, len, 0x1234, a, len));
	ck_assert(!dns_answers(q, len, 0x1235, a, len));
	a[13] = 'W'; /* the very bytes that were asked, or it is a guess */
	ck_assert(!dns_answers(q, len, 0x1234, a, len));
	a[13] = 'w';
	a[len - 3] = 28; /* another type */
	ck_assert(!dns_answers(q, len, 0x1234, a, len));
	a[len - 3] = 1;
	for (uint32_t cut = 0; cut < len; cut++) {
		ck_assert(!dns_answers(q, len, 0x1234, a, cut));
		ck_assert_uint_eq(dns_question(q, cut), 0);
	}
	a[5] = 0; /* no question: only together with an error */
	ck_assert(!dns_answers(q, len, 0x1234, a, 12));
	a[3] |= 1;
	ck_assert(dns_answers(q, len, 0x1234, a, 12));
	q[12] = 0xc0; /* a pointer in a question */
	ck_assert_uint_eq(dns_question(q, len), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nat");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, test_a_connection_is_joined_both_ways_and_half_closed);
	tcase_add_test(t, test_an_attempt_given_up_does_not_block_the_next);
	tcase_add_test(t, test_refusals_are_the_hosts);
	tcase_add_test(t, test_the_gateway_is_no_way_to_the_host_unless_asked);
	tcase_add_test(t, test_a_reset_passes_in_both_directions);
	tcase_add_test(t, test_a_reader_that_does_not_read_stops_the_sender);
	tcase_add_test(t, test_udp_flows_answer_and_are_bounded);
	tcase_add_test(t, test_a_published_port_shows_the_gateway_for_loopback);
	tcase_add_test(t, test_ranges);
	tcase_add_test(t, test_dns_answers_match_by_id_and_question);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
