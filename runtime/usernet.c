/* SPDX-License-Identifier: Apache-2.0 */
/* User-mode networking: see usernet.h. The helper's configuration keys are in netstack/nat/main.c. */
#include "runtime/usernet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/launch.h"
#include "runtime/netns.h"
#include "runtime/options.h"

#define MTU 1500
#define LINK_BUFFER (4 << 20)
#define LISTEN_BACKLOG 1024

/* fd numbers in caisson-net. */
enum { NET_FD_CONF = 3, NET_FD_LINK = 4, NET_FD_LOG = 5, NET_FD_PUBLISH = 8 };

static void must(int err)
{
	if (err)
		die(EXIT_SETUP, "--network user: configuration: %s", strerror(-err));
}

/* ---- --publish ---- */

/* A whole decimal number from min to 65535; -1 otherwise. */
static long port_number(const char *s, size_t len, long min)
{
	long v = 0;

	if (!len || len > 5)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (s[i] - '0');
	}
	return v < min || v > 65535 ? -1 : v;
}

int publish_parse(const char *text, struct publish *p)
{
	const char *at = text, *end = text + strlen(text), *slash = strchr(text, '/'), *colon;
	unsigned char addr[16];

	memset(p, 0, sizeof(*p));
	p->text = text;
	if (slash) {
		if (strcmp(slash, "/udp") && strcmp(slash, "/tcp"))
			return -EINVAL;
		p->udp = slash[1] == 'u';
		end = slash;
	}
	/* An address in front: in brackets, or up to the last but one colon. */
	const char *host = NULL;
	size_t host_len = 0;

	if (*at == '[') {
		const char *close = strchr(at, ']');

		if (!close || close > end || close[1] != ':')
			return -EINVAL;
		host = at + 1;
		host_len = (size_t)(close - host);
		at = close + 2;
	} else {
		const char *first = memchr(at, ':', (size_t)(end - at));

		if (first && memchr(first + 1, ':', (size_t)(end - first - 1))) {
			host = at;
			host_len = (size_t)(first - at);
			at = first + 1;
		}
	}
	if (host) {
		if (!host_len || host_len >= sizeof(p->host))
			return -EINVAL;
		memcpy(p->host, host, host_len);
		if (inet_pton(*text == '[' ? AF_INET6 : AF_INET, p->host, addr) != 1)
			return -EINVAL;
	}
	colon = memchr(at, ':', (size_t)(end - at));
	if (!colon)
		return -EINVAL;
	long hp = port_number(at, (size_t)(colon - at), 0);
	long gp = port_number(colon + 1, (size_t)(end - colon - 1), 1);

	if (hp < 0 || gp < 0)
		return -EINVAL;
	p->host_port = (uint16_t)hp;
	p->guest_port = (uint16_t)gp;
	return 0;
}

/* The address to bind: a named one, or all of both families where there are both. */
static socklen_t publish_address(const struct publish *p, int v6, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (void *)ss;
	struct sockaddr_in6 *in6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (strchr(p->host, ':') || (!p->host[0] && v6)) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(p->host_port);
		if (p->host[0])
			inet_pton(AF_INET6, p->host, &in6->sin6_addr);
		return sizeof(*in6);
	}
	in->sin_family = AF_INET;
	in->sin_port = htons(p->host_port);
	if (p->host[0])
		inet_pton(AF_INET, p->host, &in->sin_addr);
	return sizeof(*in);
}

__attribute__((noreturn)) static void publish_fails(const struct publish *p, int err)
{
	if (err == EADDRINUSE)
		die(EXIT_SETUP, "--publish %s: port %u of the host is taken; choose another, or 0 for a free one",
		    p->text, p->host_port);
	if (err == EACCES)
		die(EXIT_SETUP, "--publish %s: port %u of the host is for root only; choose one from 1024 on", p->text,
		    p->host_port);
	if (err == EADDRNOTAVAIL)
		die(EXIT_SETUP, "--publish %s: this host has no address %s", p->text, p->host);
	die(EXIT_SETUP, "--publish %s: %s", p->text, strerror(err));
}

static int publish_open(const struct publish *p)
{
	struct sockaddr_storage ss;
	int one = 1, zero = 0, v6 = 1, fd;
	socklen_t len = publish_address(p, v6, &ss);

	fd = socket(ss.ss_family, (p->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 && errno == EAFNOSUPPORT && !p->host[0]) {
		len = publish_address(p, 0, &ss);
		fd = socket(AF_INET, (p->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	if (fd < 0)
		publish_fails(p, errno);
	if (!p->udp)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (ss.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, p->host[0] ? &one : &zero, sizeof(one));
	if (bind(fd, (struct sockaddr *)&ss, len) != 0 || (!p->udp && listen(fd, LISTEN_BACKLOG) != 0))
		publish_fails(p, errno);
	if (!p->host_port && getsockname(fd, (struct sockaddr *)&ss, &len) == 0) {
		const struct sockaddr_in *in = (void *)&ss; /* the port is at the same place in both */

		fprintf(stderr, "caisson: published host port %u as the sandbox's %u/%s\n", ntohs(in->sin_port),
			p->guest_port, p->udp ? "udp" : "tcp");
	}
	return fd;
}

/* ---- what the host has ---- */

int usernet_has_v6(void)
{
	static int known = -1;
	struct ifaddrs *all;

	if (known >= 0 || getifaddrs(&all) != 0)
		return known > 0;
	known = 0;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const struct sockaddr_in6 *a = (const void *)i->ifa_addr;

		if (a && a->sin6_family == AF_INET6 && (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK) &&
		    !IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr))
			known = 1;
	}
	freeifaddrs(all);
	return known;
}

/* The host's resolvers, as resolv.conf(5) has them; its default is the host itself. */
static void add_resolvers(struct bootconf *c)
{
	FILE *f = fopen("/etc/resolv.conf", "re");
	char line[512];
	int count = 0;

	while (f && count < 3 && fgets(line, sizeof(line), f)) {
		char addr[128], *percent;
		unsigned char bin[16];
		unsigned scope = 0;

		if (sscanf(line, " nameserver %127s", addr) != 1)
			continue;
		percent = strchr(addr, '%');
		if (percent) {
			*percent = '\0';
			scope = if_nametoindex(percent + 1);
		}
		if (inet_pton(AF_INET, addr, bin) != 1 && inet_pton(AF_INET6, addr, bin) != 1)
			continue;
		must(bootconf_addf(c, "resolver", "%s\t%u", addr, scope));
		count++;
	}
	if (f)
		fclose(f);
	if (!count)
		must(bootconf_add(c, "resolver", "127.0.0.1\t0"));
}

/* ---- the link ---- */

static void socket_buffers(int fd)
{
	int size = LINK_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static void new_mac(char out[18])
{
	unsigned char b[5];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		die(EXIT_SETUP, "no random numbers");
	snprintf(out, 18, "02:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4]);
}

/* The guest's view: one Ethernet interface, the gateway behind it. */
static void sentry_side(struct bootconf *c, const char *guest_mac, const char *mac)
{
	must(bootconf_add_u64(c, "nic0_fd", SENTRY_FD_NIC));
	must(bootconf_addf(c, "nic", "eth0\t%d\t%s\t%d\tpair", SENTRY_FD_NIC, guest_mac, MTU));
	must(bootconf_add(c, "nic_addr", "eth0\t" USERNET_GUEST "/24\t10.0.2.255\t0"));
	must(bootconf_add(c, "route", "10.0.2.0/24\teth0\t-\t" USERNET_GUEST "\t0\t2\t253"));
	must(bootconf_add(c, "route", "0.0.0.0/0\teth0\t" USERNET_GATE "\t-\t0\t3\t0"));
	must(bootconf_addf(c, "neigh", "eth0\t" USERNET_GATE "\t%s", mac));
	if (!usernet_has_v6())
		return;
	must(bootconf_add(c, "nic_addr", "eth0\t" USERNET_GUEST6 "/64\t-\t0"));
	must(bootconf_add(c, "route", "fd10:0:2::/64\teth0\t-\t-\t256\t2\t0"));
	must(bootconf_add(c, "route", "::/0\teth0\t" USERNET_GATE6 "\t-\t1024\t3\t0"));
	must(bootconf_addf(c, "neigh", "eth0\t" USERNET_GATE6 "\t%s", mac));
}

static void helper_side(struct bootconf *c, const struct usernet_options *o, const char *guest_mac, const char *mac)
{
	bootconf_init(c);
	must(bootconf_add_u64(c, "link_fd", NET_FD_LINK));
	must(bootconf_add_u64(c, "log_fd", NET_FD_LOG));
	must(bootconf_add(c, "log_level", o->log_level));
	must(bootconf_add(c, "mac", mac));
	must(bootconf_add(c, "guest_mac", guest_mac));
	must(bootconf_add_u64(c, "mtu", MTU));
	must(bootconf_add(c, "guest", USERNET_GUEST));
	must(bootconf_add(c, "gate", USERNET_GATE));
	must(bootconf_add(c, "dns", USERNET_DNS));
	if (usernet_has_v6()) {
		must(bootconf_add(c, "guest6", USERNET_GUEST6));
		must(bootconf_add(c, "gate6", USERNET_GATE6));
		must(bootconf_add(c, "dns6", USERNET_DNS6));
	}
	must(bootconf_add_u64(c, "host_loopback", (uint64_t)o->host_loopback));
	if (o->weaker & WEAKER_MOUNTNS)
		must(bootconf_add(c, "allow_weaker", "mountns"));
	add_resolvers(c);
}

pid_t usernet_start(const struct usernet_options *o, struct bootconf *sentry_conf, struct launch *sentry)
{
	struct bootconf c;
	char bin[4200], guest_mac[18], mac[18];
	int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	launch_find_binary("caisson-net", bin, sizeof(bin));
	if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		die(EXIT_SETUP, "--network user: %s", strerror(errno));
	socket_buffers(pair[0]);
	socket_buffers(pair[1]);
	new_mac(guest_mac);
	new_mac(mac);
	sentry_side(sentry_conf, guest_mac, mac);
	launch_fd(sentry, pair[0], SENTRY_FD_NIC);
	helper_side(&c, o, guest_mac, mac);

	struct launch l = { .what = "network helper", .binary = bin, .conf = &c, .conf_fd = NET_FD_CONF,
			    .ids = LAUNCH_IDS_NONE, .cgroup = o->cgroup, .weaker = o->weaker, .host_network = 1 };

	launch_fd(&l, null, 0);
	launch_fd(&l, null, 1);
	launch_fd(&l, o->log_fd, 2);
	launch_fd(&l, pair[1], NET_FD_LINK);
	launch_fd(&l, o->log_fd, NET_FD_LOG);
	for (size_t i = 0; i < o->publish_count; i++) {
		const struct publish *p = &o->publish[i];
		int to = NET_FD_PUBLISH + (int)i;

		launch_fd(&l, publish_open(p), to);
		must(bootconf_addf(&c, "publish", "%s\t%d\t%u", p->udp ? "udp" : "tcp", to, p->guest_port));
	}
	launch_one(&l);

	for (size_t i = 0; i < o->publish_count; i++)
		close(l.fds[l.fd_count - 1 - i]);
	close(pair[1]);
	close(null);
	bootconf_free(&c);
	return l.pid;
}
