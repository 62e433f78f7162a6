/* SPDX-License-Identifier: Apache-2.0 */
/* From the boot configuration, or a reload's, to a policy. The runtime has checked all of it once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "sentry/egress/egress_priv.h"

#define BINDINGS_MAX 4096u
#define AUDIT_RATE 1000u  /* lines a second */
#define AUDIT_BURST 5000u
#define RATE_BURST_MIN (256u << 10) /* four of TCP's largest segments */

/* The net_rule= lines; NULL and a text in why. */
static struct egress_policy *read_policy(const struct bootconf *conf, char *why, size_t size)
{
	struct egress_policy *p = egress_policy_new();
	struct egress_error err;
	const char *rule;
	size_t pos = 0;

	if (!p) {
		snprintf(why, size, "out of memory");
		return NULL;
	}
	while ((rule = bootconf_next(conf, "net_rule", &pos)))
		if (egress_policy_add(p, rule, strlen(rule), &err)) {
			snprintf(why, size, "%s", err.text);
			egress_policy_free(p);
			return NULL;
		}
	return p;
}

int egress_reload(struct egress *e, const struct bootconf *conf, char *why, size_t size)
{
	struct egress_policy *p;

	if (!egress_has_policy(e)) {
		snprintf(why, size, "the sandbox was started without a network policy");
		return -EINVAL;
	}
	p = read_policy(conf, why, size);
	if (!p)
		return -EINVAL;
	egress_policy_replace(e, p);
	return 0;
}

static int read_servers(struct egress *e, const struct bootconf *conf)
{
	struct in6_addr v6;
	struct in_addr v4;
	const char *s;
	size_t pos = 0;

	while ((s = bootconf_next(conf, "net_dns", &pos)) && e->server_count < RESOLVER_SERVERS_MAX) {
		if (inet_pton(AF_INET, s, &v4) == 1)
			e->server[e->server_count++] = ip_from_v4(v4.s_addr);
		else if (inet_pton(AF_INET6, s, &v6) == 1)
			e->server[e->server_count++] = ip_from_v6(&v6);
		else
			return -EINVAL;
	}
	return 0;
}

static void fill(struct egress *e, uint64_t rate, uint64_t connects)
{
	uint64_t now = mono_now_ns(), burst = rate / 4;

	egress_bucket_init(&e->bytes_out, rate, burst < RATE_BURST_MIN ? RATE_BURST_MIN : burst, now);
	e->bytes_in = e->bytes_out;
	egress_bucket_init(&e->connects, connects, connects, now);
	egress_bucket_init(&e->audit.limit, AUDIT_RATE, AUDIT_BURST, now);
}

int egress_start(struct kernel *k)
{
	uint64_t given, rate, connects, fd, connections;
	const char *id = bootconf_get(k->conf, "sandbox");
	struct stack_guard g = g_egress_guard;
	char why[512] = "out of memory";
	int err = -EINVAL;

	if (bootconf_get_u64(k->conf, "net_policy", 0, &given) || bootconf_get_u64(k->conf, "net_rate", 0, &rate) ||
	    bootconf_get_u64(k->conf, "net_connects", 0, &connects) ||
	    bootconf_get_u64(k->conf, "audit_fd", UINT64_MAX, &fd) ||
	    bootconf_get_u64(k->conf, "audit_connections", 0, &connections)) {
		log_error("network policy: a key is no number");
		return err;
	}
	if (!given && !rate && !connects && fd > 65535)
		return 0;
	struct egress *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	lock_init(&e->lock, RANK_EGRESS);
	e->k = k;
	e->stack = k->sockets->stack;
	e->generation = 1;
	e->audit.fd = fd > 65535 ? -1 : (int)fd;
	e->audit.connections = connections != 0;
	snprintf(e->audit.sandbox, sizeof(e->audit.sandbox), "%s", id ? id : "");
	fill(e, rate, connects);
	e->bindings = egress_bindings_new(BINDINGS_MAX);
	e->flows = egress_flows_new(mono_now_ns() * 0x9e3779b97f4a7c15ull ^ (uintptr_t)e);
	err = e->bindings && e->flows ? read_servers(e, k->conf) : -ENOMEM;
	if (!err && given) {
		e->enforced = 1;
		e->policy = read_policy(k->conf, why, sizeof(why));
		err = e->policy ? resolver_start(e) : -EINVAL;
	}
	if (err) {
		log_error("network policy: %s", why);
		return err;
	}
	g.priv = e;
	stack_lock(e->stack);
	stack_set_guard(e->stack, &g);
	stack_unlock(e->stack);
	k->sockets->egress = e;
	return 0;
}
