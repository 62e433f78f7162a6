/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `caisson run`: one table, from which parsing and help come. What the values mean
 * on the host (does the directory exist?) is checked in cmd_run.c.
 */
#include "runtime/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"

struct option_row {
	const char *name; /* with --no- in front: the negative of a flag */
	const char *arg;  /* NULL: a flag */
	const char *help;
	void (*set)(struct run_options *o, const char *name, const char *value);
};

static void bad(const char *name, const char *value, const char *want)
{
	die(EXIT_SETUP, "--%s: '%s' is not %s", name, value, want);
}

/* A whole decimal number up to max; ends the process otherwise. */
static uint64_t number(const char *name, const char *value, const char *what, uint64_t max)
{
	uint64_t v = 0;

	if (!*value)
		bad(name, value, what);
	for (const char *p = value; *p; p++)
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v) || v > max)
			bad(name, value, what);
	return v;
}

/* A decimal fraction with a unit from the table; the product is rounded. */
struct unit {
	const char *suffix;
	double factor;
};

static uint64_t with_unit(const char *name, const char *value, const struct unit *u,
			  const char *what)
{
	char *end;

	if (*value < '0' || *value > '9')
		bad(name, value, what);
	errno = 0;
	double v = strtod(value, &end);

	if (errno || strchr(value, 'x') || strchr(value, 'e'))
		bad(name, value, what);
	for (; u->suffix; u++)
		if (!strcasecmp(end, u->suffix)) {
			v *= u->factor;
			if (v < 1 || v > 9e18)
				bad(name, value, what);
			return (uint64_t)(v + 0.5);
		}
	bad(name, value, what);
	return 0;
}

static void set_rootfs(struct run_options *o, const char *name, const char *v)
{
	(void)name;
	o->rootfs = v;
}

static void set_bind(struct run_options *o, const char *name, const char *v)
{
	char *spec = strdup(v);
	char *colon = spec ? strchr(spec, ':') : NULL;

	if (!colon || colon == spec)
		bad(name, v, "of the form SRC:DST or SRC:DST:ro or SRC:DST:rw");
	*colon = '\0';
	char *dst = colon + 1, *mode = strchr(dst, ':');
	int ro = 1;

	if (mode) {
		*mode++ = '\0';
		if (!strcmp(mode, "rw"))
			ro = 0;
		else if (strcmp(mode, "ro") != 0)
			bad(name, v, "a bind whose mode is ro or rw");
	}
	if (*dst != '/')
		bad(name, v, "a bind whose destination is an absolute path");
	struct bind_option *b =
		realloc(o->binds, (o->bind_count + 1) * sizeof(*b));

	if (!b)
		die(EXIT_SETUP, "out of memory");
	o->binds = b;
	b[o->bind_count++] = (struct bind_option){ .src = spec, .dst = dst, .readonly = ro };
}

static void set_workdir(struct run_options *o, const char *name, const char *v)
{
	if (*v != '/')
		bad(name, v, "an absolute path");
	o->workdir = v;
}

static void set_env(struct run_options *o, const char *name, const char *v)
{
	const char *eq = strchr(v, '=');

	if (eq == v || !*v)
		bad(name, v, "of the form NAME=VALUE or NAME");
	if (!eq) { /* NAME alone: taken over from the caller's environment */
		const char *value = getenv(v);
		char *both;

		if (!value)
			return;
		if (asprintf(&both, "%s=%s", v, value) < 0)
			die(EXIT_SETUP, "out of memory");
		v = both;
	}
	const char **env = realloc(o->env, (o->env_count + 1) * sizeof(*env));

	if (!env)
		die(EXIT_SETUP, "out of memory");
	o->env = env;
	env[o->env_count++] = v;
}

/* UID[:GID[,GID…]], decimal and nothing else: a misread user string must never become root. */
static void set_user(struct run_options *o, const char *name, const char *v)
{
	static const char want[] = "UID or UID:GID in decimal, each at most 4294967294";
	char *copy = strdup(v);
	char *colon = copy ? strchr(copy, ':') : NULL;

	if (!copy)
		die(EXIT_SETUP, "out of memory");
	if (colon)
		*colon = '\0';
	o->uid = (uint32_t)number(name, copy, want, 4294967294u);
	o->gid = o->uid ? o->uid : 0;
	if (colon) {
		char *save, *g = strtok_r(colon + 1, ",", &save);

		if (!g || colon[1] == ',')
			bad(name, v, want);
		o->gid = (uint32_t)number(name, g, want, 4294967294u);
		while ((g = strtok_r(NULL, ",", &save))) {
			uint32_t *groups = realloc(o->groups, (o->group_count + 1) * sizeof(*groups));

			if (!groups)
				die(EXIT_SETUP, "out of memory");
			o->groups = groups;
			groups[o->group_count++] = (uint32_t)number(name, g, want, 4294967294u);
		}
	}
	free(copy);
}

static void set_hostname(struct run_options *o, const char *name, const char *v)
{
	if (!*v || strlen(v) > 64)
		bad(name, v, "a host name of 1 to 64 characters");
	o->hostname = v;
}

static void set_memory(struct run_options *o, const char *name, const char *v)
{
	static const struct unit units[] = { { "", 1 },	      { "b", 1 },	{ "k", 1024.0 },
					     { "m", 1048576.0 },   { "g", 1073741824.0 },
					     { "kib", 1024.0 },    { "mib", 1048576.0 },
					     { "gib", 1073741824.0 }, { NULL, 0 } };

	o->memory = with_unit(name, v, units, "a size such as 512m or 2g");
	if (o->memory < 4u << 20)
		bad(name, v, "at least 4m, which is what an empty sandbox needs");
}

static void set_pids(struct run_options *o, const char *name, const char *v)
{
	o->pids = number(name, v, "a number of processes from 1 to 4194304", 4194304);
	if (!o->pids)
		bad(name, v, "a number of processes from 1 to 4194304");
}

static void set_cpus(struct run_options *o, const char *name, const char *v)
{
	char *end;

	o->cpus = strtod(v, &end);
	if (*end || !(o->cpus >= 0.01) || o->cpus > 4096 || isnan(o->cpus))
		bad(name, v, "a number of CPUs such as 1 or 0.5");
}

static void set_timeout(struct run_options *o, const char *name, const char *v)
{
	static const struct unit units[] = { { "", 1000.0 },	{ "s", 1000.0 },  { "ms", 1.0 },
					     { "m", 60000.0 }, { "h", 3600000.0 }, { NULL, 0 } };

	o->timeout_ms = with_unit(name, v, units, "a time such as 10, 500ms, 2m or 1h");
}

static void set_read_only(struct run_options *o, const char *name, const char *v)
{
	(void)name, (void)v;
	o->read_only = 1;
}

static void set_tty(struct run_options *o, const char *name, const char *v)
{
	(void)v;
	o->tty = strncmp(name, "no-", 3) != 0;
}

static void set_strace(struct run_options *o, const char *name, const char *v)
{
	(void)name, (void)v;
	o->strace = 1;
}

static void set_log(struct run_options *o, const char *name, const char *v)
{
	(void)name;
	o->log = v;
}

static void set_log_level(struct run_options *o, const char *name, const char *v)
{
	if (strcmp(v, "error") && strcmp(v, "warn") && strcmp(v, "info") && strcmp(v, "debug"))
		bad(name, v, "one of error, warn, info, debug");
	o->log_level = v;
}

static void set_json(struct run_options *o, const char *name, const char *v)
{
	(void)name, (void)v;
	o->json = 1;
}

static void set_json_file(struct run_options *o, const char *name, const char *v)
{
	(void)name;
	o->json = 1;
	o->json_file = v;
}

static void set_platform(struct run_options *o, const char *name, const char *v)
{
	if (strcmp(v, "systrap") != 0)
		bad(name, v, "a platform of this build (systrap)");
	o->platform = v;
}

static void set_platform_flags(struct run_options *o, const char *name, const char *v)
{
	static const char *const known[] = { "nopatch", "nostub" };

	for (const char *p = v; *p;) {
		size_t n = strcspn(p, ","), i = 0;

		while (i < sizeof(known) / sizeof(*known) && (strlen(known[i]) != n || strncmp(known[i], p, n)))
			i++;
		if (i == sizeof(known) / sizeof(*known))
			bad(name, v, "a list of nopatch and nostub");
		p += n + (p[n] == ',');
	}
	o->platform_flags = v;
}

static const struct {
	enum weaker_layer layer;
	const char *name;
} g_layers[] = {
	{ WEAKER_USERNS, "userns" }, { WEAKER_PIDNS, "pidns" },	  { WEAKER_NETNS, "netns" },
	{ WEAKER_MOUNTNS, "mountns" }, { WEAKER_IPCNS, "ipcns" },
};

const char *weaker_layer_name(enum weaker_layer l)
{
	for (size_t i = 0; i < sizeof(g_layers) / sizeof(*g_layers); i++)
		if (g_layers[i].layer == l)
			return g_layers[i].name;
	return "?";
}

static void set_weaker(struct run_options *o, const char *name, const char *v)
{
	for (size_t i = 0; i < sizeof(g_layers) / sizeof(*g_layers); i++)
		if (!strcmp(v, g_layers[i].name)) {
			o->weaker |= g_layers[i].layer;
			return;
		}
	bad(name, v, "an isolation layer (userns, pidns, netns, mountns, ipcns)");
}

static void set_network(struct run_options *o, const char *name, const char *v)
{
	o->netns = NULL;
	o->user_network = !strcmp(v, "user") || !strcmp(v, "user,host-loopback");
	o->host_loopback = o->user_network && v[4];
	if (!strcmp(v, "none") || o->user_network)
		return;
	if (!strncmp(v, "netns=", 6) && v[6])
		o->netns = v + 6;
	else
		bad(name, v, "none, user, user,host-loopback or netns=PATH");
}

static void set_publish(struct run_options *o, const char *name, const char *v)
{
	struct publish p;

	if (publish_parse(v, &p))
		bad(name, v, "of the form [HOSTIP:]HOSTPORT:GUESTPORT, with /udp behind it for UDP");
	if (o->publish_count == PUBLISH_MAX)
		die(EXIT_SETUP, "--publish: more than %u ports", PUBLISH_MAX);
	o->publish = realloc(o->publish, (o->publish_count + 1) * sizeof(p));
	if (!o->publish)
		die(EXIT_SETUP, "out of memory");
	o->publish[o->publish_count++] = p;
}

static void set_allow_net(struct run_options *o, const char *name, const char *v)
{
	const char **rules = realloc(o->net.rules, (o->net.rule_count + 1) * sizeof(*rules));

	(void)name;
	if (!rules)
		die(EXIT_SETUP, "out of memory");
	o->net.rules = rules;
	rules[o->net.rule_count++] = v;
}

static void set_net_policy(struct run_options *o, const char *name, const char *v)
{
	(void)name;
	o->net.policy_file = v;
}

static void set_audit(struct run_options *o, const char *name, const char *v)
{
	(void)name;
	o->net.audit_file = v;
}

static void set_audit_connections(struct run_options *o, const char *name, const char *v)
{
	(void)name, (void)v;
	o->net.audit_connections = 1;
}

static void set_net_rate(struct run_options *o, const char *name, const char *v)
{
	static const struct unit units[] = { { "", 1 },	       { "k", 1024.0 },	 { "m", 1048576.0 },
					     { "g", 1073741824.0 }, { NULL, 0 } };

	o->net.rate = with_unit(name, v, units, "bytes per second such as 500k or 10m");
	if (o->net.rate > 1ull << 40)
		bad(name, v, "a rate below 1024g");
}

static void set_net_connects(struct run_options *o, const char *name, const char *v)
{
	o->net.connects = number(name, v, "a number of connections per second", 1000000);
	if (!o->net.connects)
		bad(name, v, "at least 1");
}

static void set_dns(struct run_options *o, const char *name, const char *v)
{
	if (o->net.dns_count == EGRESS_DNS_MAX)
		bad(name, v, "needed: three DNS servers are enough");
	o->net.dns[o->net.dns_count++] = v;
}

static const struct option_row g_options[] = {
	{ "rootfs", "DIR", "the guest's root; default: the host's /, secrets hidden", set_rootfs },
	{ "bind", "SRC:DST[:ro|rw]", "show a host file or directory in the guest; ro is the default",
	  set_bind },
	{ "workdir", "DIR", "working directory in the guest; default /", set_workdir },
	{ "env", "NAME[=VALUE]", "set, or take over, an environment variable", set_env },
	{ "user", "UID[:GID[,GID...]]", "who the program is in the guest; default 0:0", set_user },
	{ "hostname", "NAME", "the guest's host name; default caisson", set_hostname },
	{ "memory", "SIZE", "memory limit of the sandbox, such as 512m", set_memory },
	{ "pids", "N", "limit on guest processes and threads", set_pids },
	{ "cpus", "N", "CPU limit, such as 1.5", set_cpus },
	{ "timeout", "TIME", "kill the sandbox after this time; exit status 124", set_timeout },
	{ "read-only", NULL, "the guest's root can not be written", set_read_only },
	{ "tty", NULL, "give the program a terminal; default when stdin and stdout are one", set_tty },
	{ "no-tty", NULL, "pass stdin, stdout and stderr as they are", set_tty },
	{ "strace", NULL, "write every guest syscall to the log", set_strace },
	{ "log", "FILE", "where log lines go; default: errors to stderr", set_log },
	{ "log-level", "LEVEL", "error, warn, info or debug; default info with --log", set_log_level },
	{ "json", NULL, "print a result record in JSON on stderr at the end", set_json },
	{ "json-file", "FILE", "write the result record to FILE", set_json_file },
	{ "network", "MODE", "none (the default): loopback only; user: the host's network by NAT, with "
	  "user,host-loopback its loopback at 10.0.2.2 too; netns=PATH: take that namespace over", set_network },
	{ "publish", "[IP:]PORT:GUESTPORT[/udp]", "with --network user: a port of the host leads to one inside",
	  set_publish },
	{ "allow-net", "RULE", "allow this outside, and nothing else: ADDRESS[/LEN][:PORTS][/PROTO], NAME, *.NAME",
	  set_allow_net },
	{ "net-policy", "FILE", "rules from a file; SIGRTMIN to this process reads it again", set_net_policy },
	{ "audit", "FILE", "append a JSON line for each refused packet, connection and name", set_audit },
	{ "audit-connections", NULL, "and one for each TCP connection, with its bytes", set_audit_connections },
	{ "net-rate", "BYTES", "bytes per second, each way, such as 10m", set_net_rate },
	{ "net-connects", "N", "TCP connections per second", set_net_connects },
	{ "dns", "ADDRESS", "DNS server behind the policy's resolver; default: the namespace's, the host's", set_dns },
	{ "platform", "NAME", "how guest code is run (systrap)", set_platform },
	{ "platform-flags", "LIST", "nopatch, nostub: leave a way of being fast out, to find faults",
	  set_platform_flags },
	{ "allow-weaker", "LAYER", "go on without userns, pidns, netns, mountns or ipcns", set_weaker },
};

#define OPTION_COUNT (sizeof(g_options) / sizeof(*g_options))

void run_options_help(void)
{
	printf("usage: caisson run [options] -- PROGRAM [ARGS...]\n\n");
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", g_options[i].name,
			 g_options[i].arg ? " " : "", g_options[i].arg ? g_options[i].arg : "");
		printf("  %-32s %s\n", left, g_options[i].help);
	}
	printf("\nThe exit status is the program's; 128+N when signal N ended it; 124 on timeout;\n"
	       "125 when caisson failed, 126 when the program can not be executed, 127 when it is\n"
	       "not there.\n");
}

static const struct option_row *find(const char *name, size_t len)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (strlen(g_options[i].name) == len && !strncmp(g_options[i].name, name, len))
			return &g_options[i];
	return NULL;
}

void run_options_parse(struct run_options *o, int argc, char **argv)
{
	int i;

	memset(o, 0, sizeof(*o));
	o->tty = -1;
	o->hostname = "caisson";
	o->workdir = "/";
	for (i = 1; i < argc; i++) {
		const char *a = argv[i];

		if (!strcmp(a, "--")) {
			i++;
			break;
		}
		if (a[0] != '-' || !a[1])
			break;
		if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
			run_options_help();
			exit(0);
		}
		if (a[1] != '-')
			die(EXIT_SETUP, "unknown option '%s'; 'caisson run --help' lists them", a);
		const char *name = a + 2, *eq = strchr(name, '=');
		const struct option_row *row = find(name, eq ? (size_t)(eq - name) : strlen(name));

		if (!row)
			die(EXIT_SETUP, "unknown option '%s'; 'caisson run --help' lists them", a);
		const char *value = eq ? eq + 1 : NULL;

		if (!row->arg && value)
			die(EXIT_SETUP, "--%s takes no value", row->name);
		if (row->arg && !value) {
			if (i + 1 >= argc)
				die(EXIT_SETUP, "--%s needs a value (%s)", row->name, row->arg);
			value = argv[++i];
		}
		row->set(o, row->name, value);
	}
	o->argv = argv + i;
	o->argc = argc - i;
	if (o->publish_count && !o->user_network)
		die(EXIT_SETUP, "--publish needs --network user");
	if (o->argc < 1)
		die(EXIT_SETUP, "no program given; usage: caisson run [options] -- PROGRAM [ARGS...]");
}
