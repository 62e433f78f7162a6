/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile sandbox for the network helper: random and half-right frames over the pair link, into a NAT
 * with a real host behind it: this process's own, empty network namespace, where loopback is up and
 * everything else is unreachable. It must neither crash nor leak fds nor keep more flows than it may;
 * run it under ASan and UBSan.
 *
 *   nat_fuzz [FRAMES [SEED]]
 */
#include <linux/if.h>
#include <linux/virtio_net.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "netstack/hdr/wire.h"
#include "netstack/nat/nat.h"

static uint64_t g_seed;

static uint32_t rnd(void)
{
	g_seed = g_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(g_seed >> 33);
}

static void own_network(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		perror("nat_fuzz: a network namespace of its own");
		exit(1);
	}
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r)) {
		perror("nat_fuzz: lo");
		exit(1);
	}
	close(fd);
}

static struct nat *start(int link)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 }, guest[6] = { 2, 0, 0, 0, 0, 2 };
	struct nat *n = calloc(1, sizeof(*n));

	n->guest[0] = ip_from_v4(inet_addr("10.0.2.15"));
	n->gate[0] = ip_from_v4(inet_addr("10.0.2.2"));
	n->dns[0] = ip_from_v4(inet_addr("10.0.2.3"));
	n->guest[1] = (struct ip_addr){ .b = { 0xfd, 0x10, [15] = 0x15 } };
	n->gate[1] = (struct ip_addr){ .b = { 0xfd, 0x10, [15] = 2 } };
	n->dns[1] = (struct ip_addr){ .b = { 0xfd, 0x10, [15] = 3 } };
	n->have_v6 = n->host_loopback = 1;
	struct ip_addr lo = ip_from_v4(htonl(INADDR_LOOPBACK));

	nat_sockaddr_from(&n->resolver[0], &lo, 53);
	n->resolver_count = 1;
	if (guard_open(n) || nat_start(n, link, mac, guest, 1500))
		abort();
	return n;
}

/* One of the helper's own addresses, of the outside, or noise. */
static void pick_addr(int v6, uint8_t *to)
{
	static const char *const v4s[] = { "10.0.2.2", "10.0.2.3", "127.0.0.1", "169.254.169.254", "8.8.8.8", "10.0.2.15" };

	if (v6) {
		memset(to, 0, 16);
		to[0] = 0xfd;
		to[1] = 0x10;
		to[15] = (uint8_t)(rnd() % 4 ? 2 + rnd() % 2 : rnd());
	} else {
		uint32_t a = rnd() % 8 ? inet_addr(v4s[rnd() % 6]) : rnd();

		memcpy(to, &a, 4);
	}
}

/* A message: virtio-net header, Ethernet, IP, transport; then some of it is damaged. */
static uint32_t make_frame(uint8_t *b)
{
	static const uint8_t protos[] = { IPPROTO_TCP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDP, IPPROTO_ICMP };
	struct virtio_net_hdr v = { .flags = rnd() % 16 ? VIRTIO_NET_HDR_F_NEEDS_CSUM : 0,
				    .gso_type = rnd() % 8 ? 0 : (uint8_t)rnd(), .gso_size = (uint16_t)rnd() };
	int v6 = rnd() % 4 == 0;
	uint8_t proto = protos[rnd() % 5];
	uint8_t *eth = b + sizeof(v), *ip = eth + 14, *t = ip + (v6 ? 40 : 20);
	uint32_t payload = rnd() % 4 ? rnd() % 64 : rnd() % 1400, head = proto == IPPROTO_TCP ? 20 : 8, len = head + payload;

	memcpy(b, &v, sizeof(v));
	memcpy(eth, "\2\0\0\0\0\1\2\0\0\0\0\2", 12);
	eth[12] = v6 ? 0x86 : 8;
	eth[13] = v6 ? 0xdd : 0;
	for (uint32_t i = 0; i < len; i++)
		t[i] = (uint8_t)rnd();
	if (proto == IPPROTO_ICMP && v6)
		proto = IPPROTO_ICMPV6;
	if (proto == IPPROTO_TCP) {
		t[0] = 0x40;
		t[1] = (uint8_t)(rnd() % 16);
		t[2] = 0;
		t[12] = 5 << 4;
		if (rnd() % 2)
			t[13] = TCP_SYN;
	} else if (proto == IPPROTO_UDP) {
		uint16_t dport = htons(rnd() % 2 ? 53 : 7), size = htons((uint16_t)len);

		memcpy(t + 2, &dport, 2);
		memcpy(t + 4, &size, 2);
		if (dport == htons(53) && payload > 20 && rnd() % 2)
			memcpy(t + 10, "\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", 17);
	} else {
		t[0] = proto == IPPROTO_ICMPV6 ? 128 : 8;
	}
	if (v6) {
		struct ipv6_hdr h = { .ver_class_flow = htonl(6u << 28), .payload_len = htons((uint16_t)len), .next = proto,
				      .hop_limit = 64, .src = { 0xfd, 0x10, [15] = 0x15 } };

		pick_addr(1, h.dst);
		memcpy(ip, &h, sizeof(h));
	} else {
		struct ipv4_hdr h = { .ver_ihl = 0x45, .total_len = htons((uint16_t)(len + 20)), .ttl = 64, .proto = proto,
				      .src = inet_addr("10.0.2.15") };

		pick_addr(0, (uint8_t *)&h.dst);
		h.csum = csum_fold(csum_add(0, &h, sizeof(h)));
		memcpy(ip, &h, sizeof(h));
	}
	uint32_t total = (uint32_t)(t - b) + len;

	for (uint32_t i = rnd() % 8 ? 0 : 1 + rnd() % 4; i; i--)
		b[rnd() % total] = (uint8_t)rnd();
	return rnd() % 32 ? total : rnd() % total;
}

static uint32_t open_fds(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 8192; fd++)
		count += !(dup2(fd, fd) < 0);
	return count;
}

int main(int argc, char **argv)
{
	uint64_t frames = argc > 1 ? strtoull(argv[1], NULL, 0) : 200000;
	struct rlimit r = { 8192, 8192 };
	static uint8_t b[2048], drain[65536];
	int fd[2];

	g_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	own_network();
	setrlimit(RLIMIT_NOFILE, &r);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd))
		abort();
	struct nat *n = start(fd[0]);
	uint32_t before = open_fds();

	for (uint64_t i = 0; i < frames; i++) {
		uint32_t len = make_frame(b);

		if (len)
			(void)!send(fd[1], b, len, 0);
		nat_turn(n, 0);
		while (recv(fd[1], drain, sizeof(drain), 0) > 0)
			;
		if (n->done || n->tcp_count > NAT_TCP_MAX || n->udp_count > NAT_UDP_MAX || n->dns_count > NAT_DNS_MAX ||
		    n->ping_count > NAT_PING_MAX) {
			fprintf(stderr, "frame %llu: bounds\n", (unsigned long long)i);
			return 1;
		}
	}
	uint64_t far = nat_now() + 1000000000000ull;

	nat_udp_expire(n, far);
	nat_ping_expire(n, far);
	for (int i = 0; i < 20 && n->dns_count; i++)
		nat_dns_expire(n, far + nat_now());
	nat_tcp_expire(n, far);
	for (int i = 0; i < 200 && (n->tcp_count || n->dns_count); i++)
		nat_turn(n, nat_now() + 1000000);
	if (n->udp_count || n->ping_count || n->tcp_count || open_fds() != before) {
		fprintf(stderr, "left: %u tcp, %u udp, %u dns, %u ping, %u fds\n", n->tcp_count, n->udp_count, n->dns_count,
			n->ping_count, open_fds() - before);
		return 1;
	}
	printf("%llu frames\n", (unsigned long long)frames);
	return 0;
}
