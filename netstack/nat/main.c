/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caisson-net BOOTCONF_FD: started by the runtime beside the sentry, with a configuration of the form
 * of platform/base/bootconf.h:
 *
 *   link_fd= log_fd= log_level=	      the pair link, and the log
 *   mac= guest_mac= mtu=		      of the link
 *   guest= gate= dns= and guest6= …	      addresses; the IPv6 ones only where the host has it
 *   resolver=ADDR<TAB>SCOPE		      repeated: the host's, at most NAT_RESOLVERS
 *   publish=tcp|udp<TAB>FD<TAB>PORT	      repeated: a bound host socket, and the guest's port
 *   host_loopback=0|1			      the gateway's address is the host's loopback
 *   allow_weaker=mountns
 *
 * It isolates itself and serves until the link closes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netstack/nat/nat.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"

#define EXIT_SETUP 125

static struct nat g_nat;

static int bad(const char *key, const char *value)
{
	log_error("configuration: %s=%s", key, value ? value : "");
	return -EINVAL;
}

static int parse_ip(const char *s, struct ip_addr *out)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (s && inet_pton(AF_INET, s, &v4) == 1)
		*out = ip_from_v4(v4.s_addr);
	else if (s && inet_pton(AF_INET6, s, &v6) == 1)
		*out = ip_from_v6(&v6);
	else
		return -EINVAL;
	return 0;
}

static int conf_mac(const struct bootconf *c, const char *key, uint8_t mac[6])
{
	const char *v = bootconf_get(c, key);
	unsigned m[6];

	if (!v || sscanf(v, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6)
		return bad(key, v);
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)m[i];
	return 0;
}

static int conf_number(const struct bootconf *c, const char *key, uint64_t dflt, uint64_t max, int *out)
{
	uint64_t v;

	if (bootconf_get_u64(c, key, dflt, &v) || v > max)
		return bad(key, bootconf_get(c, key));
	*out = (int)v;
	return 0;
}

static int conf_addresses(const struct bootconf *c, struct nat *n)
{
	static const char *const keys[2][3] = { { "guest", "gate", "dns" }, { "guest6", "gate6", "dns6" } };

	n->have_v6 = bootconf_get(c, "guest6") != NULL;
	for (int f = 0; f < 1 + n->have_v6; f++)
		if (parse_ip(bootconf_get(c, keys[f][0]), &n->guest[f]) ||
		    parse_ip(bootconf_get(c, keys[f][1]), &n->gate[f]) ||
		    parse_ip(bootconf_get(c, keys[f][2]), &n->dns[f]))
			return bad("addresses", NULL);
	return 0;
}

static int conf_resolvers(const struct bootconf *c, struct nat *n)
{
	const char *v;
	size_t pos = 0;

	while ((v = bootconf_next(c, "resolver", &pos)) && n->resolver_count < NAT_RESOLVERS) {
		union nat_sockaddr *to = &n->resolver[n->resolver_count++];
		const char *tab = strchr(v, '\t');
		char addr[INET6_ADDRSTRLEN];
		struct ip_addr a;

		if (!tab || (size_t)(tab - v) >= sizeof(addr))
			return bad("resolver", v);
		memcpy(addr, v, (size_t)(tab - v));
		addr[tab - v] = '\0';
		if (parse_ip(addr, &a))
			return bad("resolver", v);
		nat_sockaddr_from(to, &a, 53);
		if (to->sa.sa_family == AF_INET6)
			to->in6.sin6_scope_id = (uint32_t)strtoul(tab + 1, NULL, 10);
	}
	return 0;
}

static int conf_publish(const struct bootconf *c, struct nat *n)
{
	const char *v;
	size_t pos = 0;

	while ((v = bootconf_next(c, "publish", &pos))) {
		struct nat_publish *b = &n->publish[n->publish_count];
		unsigned fd, port;
		char proto[4];

		if (n->publish_count == NAT_PUBLISH_MAX || sscanf(v, "%3s\t%u\t%u", proto, &fd, &port) != 3 ||
		    fd > 1023 || !port || port > 65535)
			return bad("publish", v);
		b->src.fd = (int)fd;
		b->udp = !strcmp(proto, "udp");
		b->port = (uint16_t)port;
		n->publish_count++;
	}
	return 0;
}

/* What the configuration does not name is closed. */
static void close_others(const struct nat *n, int link, int log)
{
	for (int fd = 3, next; fd <= 1023; fd = next + 1) {
		next = 1024;
		if (link >= fd && link < next)
			next = link;
		if (log >= fd && log < next)
			next = log;
		for (uint32_t i = 0; i < n->publish_count; i++)
			if (n->publish[i].src.fd >= fd && n->publish[i].src.fd < next)
				next = n->publish[i].src.fd;
		if (next > fd)
			syscall(SYS_close_range, fd, next == 1024 ? ~0u : (unsigned)next - 1, 0);
	}
}

static enum log_level parse_level(const char *s)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	for (int i = 0; s && i < 4; i++)
		if (!strcmp(s, names[i]))
			return (enum log_level)i;
	return LOG_WARN;
}

static int serve(const struct bootconf *c)
{
	struct nat *n = &g_nat;
	uint8_t mac[6], guest_mac[6];
	int link, log, mtu, err;
	uint64_t seed;

	if (conf_number(c, "link_fd", 1024, 1023, &link) || conf_number(c, "log_fd", 2, 1023, &log) ||
	    conf_number(c, "mtu", 1500, 65535, &mtu) || conf_number(c, "host_loopback", 0, 1, &n->host_loopback) ||
	    conf_mac(c, "mac", mac) || conf_mac(c, "guest_mac", guest_mac) || conf_addresses(c, n) ||
	    conf_resolvers(c, n) || conf_publish(c, n))
		return -EINVAL;
	log_setup(log, parse_level(bootconf_get(c, "log_level")), "net");
	close_others(n, link, log);
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	hash_seed(seed);
	err = guard_open(n);
	if (!err)
		err = nat_isolate(c);
	if (!err)
		err = nat_start(n, link, mac, guest_mac, (uint32_t)mtu);
	if (!err)
		err = nat_filter(n, log);
	if (err) {
		log_error("the network helper can not start: %s", strerror(-err));
		return err;
	}
	nat_run(n);
	return 0;
}

int main(int argc, char **argv)
{
	static struct bootconf conf;
	char *end;

	log_setup(2, LOG_WARN, "net");
	long fd = argc == 2 ? strtol(argv[1], &end, 10) : -1;

	if (fd < 0 || fd > 1023 || *end) {
		log_error("usage: caisson-net BOOTCONF_FD (it is started by `caisson run --network user`)");
		return EXIT_SETUP;
	}
	bootconf_init(&conf);
	int err = bootconf_read(&conf, (int)fd);

	if (err) {
		log_error("no usable configuration on fd %ld: %s", fd, strerror(-err));
		return EXIT_SETUP;
	}
	return serve(&conf) ? EXIT_SETUP : 0;
}
