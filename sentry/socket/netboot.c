/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interfaces the runtime took over for this sandbox: the keys nic, nic_addr, route and neigh of the
 * boot configuration (docs/bootconf.md) become interfaces of the stack. Before lockdown.
 */
#include "sentry/socket/netboot.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netstack/link/packet.h"
#include "netstack/link/pair.h"
#include "netstack/netstack.h"
#include "platform/base/log.h"
#include "sentry/socket/socket.h"

#define FIELDS 8

/* Splits at tabs into f[]; the number of fields. buf keeps the text. */
static int split(const char *v, char *buf, size_t size, char *f[FIELDS])
{
	int n = 0;

	if (strlen(v) >= size)
		return 0;
	strcpy(buf, v);
	for (char *p = buf; p && n < FIELDS;) {
		f[n++] = p;
		p = strchr(p, '\t');
		if (p)
			*p++ = 0;
	}
	return n;
}

static int parse_ip(const char *s, struct ip_addr *out)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, s, &v4) == 1)
		*out = ip_from_v4(v4.s_addr);
	else if (inet_pton(AF_INET6, s, &v6) == 1)
		*out = ip_from_v6(&v6);
	else
		return -EINVAL;
	return 0;
}

/* ADDRESS/LENGTH */
static int parse_net(char *s, struct ip_addr *out, uint32_t *plen)
{
	char *slash = strchr(s, '/');

	if (!slash)
		return -EINVAL;
	*slash = 0;
	if (parse_ip(s, out))
		return -EINVAL;
	*plen = (uint32_t)strtoul(slash + 1, NULL, 10);
	if (*plen > (ip_is_v4(out) ? 32u : 128u))
		return -EINVAL;
	if (ip_is_v4(out))
		*plen += 96;
	return 0;
}

static int parse_mac(const char *s, uint8_t mac[6])
{
	unsigned m[6];

	if (sscanf(s, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6)
		return -EINVAL;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)m[i];
	return 0;
}

static int add_nic(struct stack *s, char *f[], int n)
{
	uint8_t mac[6];

	if (n < 4 || n > 5 || parse_mac(f[2], mac) || (n == 5 && strcmp(f[4], "pair")))
		return -EINVAL;
	struct nic *(*link)(struct stack *, const char *, int, const uint8_t *, uint32_t) = n == 5 ? pair_new : packet_new;

	return link(s, f[0], atoi(f[1]), mac, (uint32_t)strtoul(f[3], NULL, 10)) ? 0 : -ENOMEM;
}

static int add_addr(struct stack *s, char *f[], int n)
{
	struct nic *nic = n == 4 ? nic_by_name(s, f[0]) : NULL;
	struct nic_addr a = { .scope = 0 };

	if (!nic || parse_net(f[1], &a.addr, &a.plen))
		return -EINVAL;
	a.broadcast = ip_from_v4(0);
	parse_ip(f[2], &a.broadcast);
	a.scope = (uint32_t)strtoul(f[3], NULL, 10);
	return nic_add_addr(nic, &a);
}

static int add_route(struct stack *s, char *f[], int n)
{
	struct nic *nic = n == 7 ? nic_by_name(s, f[1]) : NULL;
	struct route r = { .type = 1 };

	if (!nic || parse_net(f[0], &r.dst, &r.plen))
		return -EINVAL;
	r.gateway = r.pref_src = ip_is_v4(&r.dst) ? ip_from_v4(0) : (struct ip_addr){ .d = { 0, 0 } };
	parse_ip(f[2], &r.gateway);
	parse_ip(f[3], &r.pref_src);
	r.metric = (uint32_t)strtoul(f[4], NULL, 10);
	r.protocol = (uint32_t)strtoul(f[5], NULL, 10);
	r.scope = (uint32_t)strtoul(f[6], NULL, 10);
	r.nic = nic->index;
	int err = route_add(s, &r);

	return err == -EEXIST ? 0 : err;
}

static int add_neigh(struct stack *s, char *f[], int n)
{
	struct nic *nic = n == 3 ? nic_by_name(s, f[0]) : NULL;
	struct ip_addr a;
	uint8_t mac[6];

	if (!nic || parse_ip(f[1], &a) || parse_mac(f[2], mac))
		return -EINVAL;
	neigh_add(nic, &a, mac);
	return 0;
}

static const struct {
	const char *key;
	int (*add)(struct stack *s, char *f[], int n);
} g_keys[] = {
	{ "nic", add_nic }, { "nic_addr", add_addr }, { "route", add_route }, { "neigh", add_neigh },
};

int netboot(struct kernel *k)
{
	struct stack *s = k->sockets->stack;
	struct nic *n;
	int err = 0;

	stack_lock(s);
	for (size_t i = 0; i < sizeof(g_keys) / sizeof(*g_keys) && !err; i++) {
		size_t pos = 0;
		const char *v;

		while (!err && (v = bootconf_next(k->conf, g_keys[i].key, &pos))) {
			char buf[512], *f[FIELDS];
			int count = split(v, buf, sizeof(buf), f);

			err = g_keys[i].add(s, f, count);
			if (err)
				log_error("network: %s=%s: %s", g_keys[i].key, v, strerror(-err));
		}
	}
	stack_unlock(s);
	/* Interfaces never go away, so the list may be read unlocked. */
	list_for_each(n, stack_nics(s), node)
		if (!err && !(n->flags & NIC_LOOPBACK))
			err = n->start(n);
	return err;
}
