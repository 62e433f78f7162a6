/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about living containers: state, kill, list, ps, pause, resume, events, update. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/args.h"
#include "runtime/cgroup_oci.h"
#include "runtime/client.h"
#include "runtime/command.h"
#include "runtime/container.h"
#include "runtime/error.h"
#include "runtime/oci.h"
#include "runtime/spec.h"

#define ANSWER_MS 5000

static const struct arg_option g_none[] = { { 0 } };

static const char *begin(const struct arg_option *options, const char *usage, int *argc, char ***argv)
{
	oci_begin(1);
	args_parse(options, usage, 1, argc, argv);
	if (*argc < 1)
		die(1, "a container id is needed (usage: caisson %s)", usage);
	return (*argv)[0];
}

static void print_json(struct json_object *o, int pretty)
{
	printf("%s\n", json_object_to_json_string_ext(o, pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
								      JSON_C_TO_STRING_NOSLASHESCAPE
								: JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

int cmd_state(int argc, char **argv)
{
	struct state s;

	container_open(&s, begin(g_none, "state ID", &argc, &argv), 0);
	print_json(container_state_json(&s, container_status(&s)), 1);
	return 0;
}

/* ---- kill ---- */

static int parse_signal(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*text && !*end)
		return n >= 0 && n <= 64 ? (int)n : -1;
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	if (!strncasecmp(text, "RTMIN+", 6)) {
		n = strtol(text + 6, &end, 10);
		return !*end && n >= 0 && n <= 30 ? 34 + (int)n : -1;
	}
	for (int i = 1; i < 32; i++) {
		const char *name = sigabbrev_np(i);

		if (name && !strcasecmp(name, text))
			return i;
	}
	return -1;
}

static void send_signal(const struct state *s, pid_t pid, int signo, int all)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m, a;
	int conn, r;

	/* The end of the waiter is the end of everything, answering or not; in a sandbox with others the
	 * sentry makes an orderly end. */
	if (signo == SIGKILL && !all && !*state_text(s, "sandbox")) {
		kill(pid, SIGKILL);
		return;
	}
	conn = client_connect(s->dir);
	bootconf_init(&m);
	r = conn < 0 ? conn : bootconf_add(&m, "cmd", "signal");
	if (!r)
		r = bootconf_add_u64(&m, "signo", (uint64_t)signo);
	if (!r && all)
		r = bootconf_add(&m, "all", "1");
	if (!r)
		r = client_send(conn, &m, NULL, 0);
	if (!r)
		r = client_receive(conn, buf, &a, ANSWER_MS);
	if (r == -ETIMEDOUT && signo == SIGKILL)
		kill(pid, SIGKILL);
	else if (r < 0 && state_pid(s))
		die(1, "signal %d could not be sent: %s", signo, strerror(-r));
}

int cmd_kill(int argc, char **argv)
{
	int all = 0;
	const struct arg_option options[] = { { "all", 'a', ARG_FLAG, &all, "every process of the container" }, { 0 } };
	struct state s;
	const char *id = begin(options, "kill [--all] ID [SIGNAL]", &argc, &argv);
	int signo = argc > 1 ? parse_signal(argv[1]) : SIGTERM;

	if (argc > 2 || signo < 0)
		die(1, "unknown signal \"%s\"", argc > 1 ? argv[1] : "");
	container_open(&s, id, 0);
	pid_t pid = state_pid(&s);

	if (!pid) {
		if (all)
			return 0;
		die(1, "container not running");
	}
	if (signo)
		send_signal(&s, pid, signo, all);
	return 0;
}

/* ---- list ---- */

struct listing {
	int json, quiet, any;
	struct json_object *array;
};

static void list_one(const char *id, void *arg)
{
	struct listing *l = arg;
	struct state s;

	if (state_open(&s, id, 0) != 0)
		return;
	const char *status = container_status(&s);

	if (l->quiet)
		printf("%s\n", id);
	else if (l->json)
		json_object_array_add(l->array, container_state_json(&s, status));
	else
		printf("%-24s %-8d %-10s %-32s %s\n", id, strcmp(status, "stopped") ? (int)state_pid(&s) : 0, status,
		       state_text(&s, "bundle"), state_text(&s, "created"));
	state_close(&s);
}

int cmd_list(int argc, char **argv)
{
	const char *format = "table";
	struct listing l = { 0 };
	const struct arg_option options[] = { { "format", 'f', ARG_TEXT, &format, "table or json" },
					      { "quiet", 'q', ARG_FLAG, &l.quiet, "ids only" },
					      { 0 } };

	oci_begin(1);
	args_parse(options, "list [-q] [-f FORMAT]", 1, &argc, &argv);
	if (strcmp(format, "table") && strcmp(format, "json"))
		die(1, "--format: '%s' is neither table nor json", format);
	l.json = !strcmp(format, "json");
	if (l.json)
		l.array = json_object_new_array();
	else if (!l.quiet)
		printf("%-24s %-8s %-10s %-32s %s\n", "ID", "PID", "STATUS", "BUNDLE", "CREATED");
	state_each(list_one, &l);
	if (l.json && !l.quiet)
		print_json(l.array, 0);
	return 0;
}

/* ---- ps, pause, resume ---- */

int cmd_ps(int argc, char **argv)
{
	const char *format = "table";
	const struct arg_option options[] = { { "format", 'f', ARG_TEXT, &format, "table or json" }, { 0 } };
	char buf[CLIENT_MESSAGE_MAX], *save;
	struct bootconf a;
	struct state s;

	container_open(&s, begin(options, "ps [-f FORMAT] ID", &argc, &argv), 0);
	container_ask(&s, "ps", buf, &a);
	char *list = strdup(bootconf_get(&a, "pids") ? bootconf_get(&a, "pids") : "");
	struct json_object *pids = json_object_new_array();

	for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save))
		json_object_array_add(pids, json_object_new_int(atoi(p)));
	if (!strcmp(format, "json")) {
		print_json(pids, 0);
	} else {
		printf("PID\n");
		for (size_t i = 0; i < json_object_array_length(pids); i++)
			printf("%d\n", json_object_get_int(json_object_array_get_idx(pids, i)));
	}
	free(list);
	return 0;
}

static int freeze(int argc, char **argv, const char *cmd)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf a;
	struct state s;

	container_open(&s, begin(g_none, "pause|resume ID", &argc, &argv), 1);
	container_ask(&s, cmd, buf, &a);
	return 0;
}

int cmd_pause(int argc, char **argv)
{
	return freeze(argc, argv, "pause");
}

int cmd_resume(int argc, char **argv)
{
	return freeze(argc, argv, "resume");
}

/* ---- events ---- */

static uint64_t number(const struct bootconf *a, const char *key)
{
	uint64_t v;

	return bootconf_get_u64(a, key, 0, &v) ? 0 : v;
}

static void add_u64(struct json_object *o, const char *key, uint64_t v)
{
	json_object_object_add(o, key, json_object_new_uint64(v));
}

/* CPU, processes from the guest's view; memory as the host accounts it, which is what is paid. */
static struct json_object *stats(const struct state *s, const struct bootconf *a)
{
	struct json_object *o = json_object_new_object(), *data = json_object_new_object(),
			   *cpu = json_object_new_object(), *usage = json_object_new_object(),
			   *memory = json_object_new_object(), *mem = json_object_new_object(),
			   *pids = json_object_new_object();
	struct cgroup_oci cg;
	uint64_t used, limit;

	cgroup_oci_from_json(&cg, spec_get(s->json, "cgroups"));
	used = cgroup_oci_read(&cg, "memory", cg.v2 ? "memory.current" : "memory.usage_in_bytes", NULL);
	limit = number(a, "memory_limit");
	add_u64(usage, "total", number(a, "cpu_user_ns") + number(a, "cpu_system_ns"));
	add_u64(usage, "kernel", number(a, "cpu_system_ns"));
	add_u64(usage, "user", number(a, "cpu_user_ns"));
	json_object_object_add(cpu, "usage", usage);
	add_u64(mem, "limit", limit ? limit : UINT64_MAX >> 1);
	add_u64(mem, "usage", used);
	json_object_object_add(memory, "usage", mem);
	add_u64(pids, "current", number(a, "pids"));
	add_u64(pids, "limit", number(a, "pids_limit"));
	json_object_object_add(data, "cpu", cpu);
	json_object_object_add(data, "memory", memory);
	json_object_object_add(data, "pids", pids);
	json_object_object_add(o, "type", json_object_new_string("stats"));
	json_object_object_add(o, "id", json_object_new_string(s->id));
	json_object_object_add(o, "data", data);
	return o;
}

static uint64_t oom_kills(const struct state *s)
{
	struct cgroup_oci cg;

	cgroup_oci_from_json(&cg, spec_get(s->json, "cgroups"));
	return cgroup_oci_read(&cg, "memory", cg.v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

int cmd_events(int argc, char **argv)
{
	const char *interval = "5s";
	int once = 0;
	const struct arg_option options[] = { { "stats", 0, ARG_FLAG, &once, "one record, and done" },
					      { "interval", 0, ARG_TEXT, &interval, "between records, in seconds" },
					      { 0 } };
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf a;
	struct state s;
	uint64_t kills;

	container_open(&s, begin(options, "events [--stats] ID", &argc, &argv), 0);
	container_ask(&s, "stats", buf, &a);
	print_json(stats(&s, &a), 0);
	fflush(stdout);
	int seconds = atoi(interval);

	kills = oom_kills(&s);
	while (!once) {
		sleep(seconds > 0 ? (unsigned)seconds : 5);
		if (oom_kills(&s) > kills) {
			kills = oom_kills(&s);
			printf("{\"type\":\"oom\",\"id\":\"%s\"}\n", s.id);
		}
		if (!state_pid(&s) || client_ask(s.dir, "stats", NULL, NULL, buf, &a, ANSWER_MS) <= 0)
			break;
		if (bootconf_get(&a, "error"))
			continue;
		print_json(stats(&s, &a), 0);
		fflush(stdout);
	}
	return 0;
}

/* ---- update ---- */

static struct {
	const char *resources, *memory, *swap, *reservation, *shares, *quota, *period, *cpus, *mems, *pids,
		*net_policy;
} g_update;

static void add_number(struct json_object *o, const char *key, const char *text, const char *option)
{
	char *end;

	if (!text)
		return;
	errno = 0;
	long long v = strtoll(text, &end, 10);

	if (errno || !*text || *end)
		die(1, "--%s: '%s' is not a whole number", option, text);
	json_object_object_add(o, key, json_object_new_int64(v));
}

static struct json_object *update_from_flags(void)
{
	struct json_object *r = json_object_new_object(), *memory = json_object_new_object(),
			   *cpu = json_object_new_object(), *pids = json_object_new_object();

	add_number(memory, "limit", g_update.memory, "memory");
	add_number(memory, "swap", g_update.swap, "memory-swap");
	add_number(memory, "reservation", g_update.reservation, "memory-reservation");
	add_number(cpu, "shares", g_update.shares, "cpu-share");
	add_number(cpu, "quota", g_update.quota, "cpu-quota");
	add_number(cpu, "period", g_update.period, "cpu-period");
	add_number(pids, "limit", g_update.pids, "pids-limit");
	if (g_update.cpus)
		json_object_object_add(cpu, "cpus", json_object_new_string(g_update.cpus));
	if (g_update.mems)
		json_object_object_add(cpu, "mems", json_object_new_string(g_update.mems));
	json_object_object_add(r, "memory", memory);
	json_object_object_add(r, "cpu", cpu);
	json_object_object_add(r, "pids", pids);
	return r;
}

static void tell_sandbox(const struct state *s, struct json_object *r)
{
	struct json_object *memory = spec_get(spec_get(r, "memory"), "limit"), *pids = spec_get(spec_get(r, "pids"), "limit");
	int64_t m = memory ? json_object_get_int64(memory) : 0, p = pids ? json_object_get_int64(pids) : 0;
	char buf[CLIENT_MESSAGE_MAX], text[32];
	struct bootconf a;

	if (m > 0) {
		snprintf(text, sizeof(text), "%lld", (long long)m);
		client_ask(s->dir, "limits", "memory", text, buf, &a, ANSWER_MS);
	}
	if (p) {
		snprintf(text, sizeof(text), "%lld", p > 0 && p <= 4194304 ? (long long)p : 0);
		client_ask(s->dir, "limits", "pids", text, buf, &a, ANSWER_MS);
	}
}

static void tell_policy(const struct state *s, const char *file)
{
	struct egress_options o = { .policy_file = file };
	char why[EGRESS_WHY_MAX];
	int conn = client_connect(s->dir);

	if (conn < 0)
		die(1, "container not running");
	if (egress_tell(&o, conn, 0, why, sizeof(why)))
		die(1, "%s; the network policy stays as it was", why);
	close(conn);
}

int cmd_update(int argc, char **argv)
{
	static const struct arg_option options[] = {
		{ "resources", 'r', ARG_TEXT, &g_update.resources, "file with a resources object, or - for stdin" },
		{ "memory", 0, ARG_TEXT, &g_update.memory, "bytes" },
		{ "memory-swap", 0, ARG_TEXT, &g_update.swap, "bytes, memory and swap together" },
		{ "memory-reservation", 0, ARG_TEXT, &g_update.reservation, "bytes" },
		{ "cpu-share", 0, ARG_TEXT, &g_update.shares, "relative weight" },
		{ "cpu-quota", 0, ARG_TEXT, &g_update.quota, "microseconds per period" },
		{ "cpu-period", 0, ARG_TEXT, &g_update.period, "microseconds" },
		{ "cpuset-cpus", 0, ARG_TEXT, &g_update.cpus, "CPUs such as 0-2" },
		{ "cpuset-mems", 0, ARG_TEXT, &g_update.mems, "memory nodes" },
		{ "pids-limit", 0, ARG_TEXT, &g_update.pids, "processes" },
		{ "net-policy", 0, ARG_TEXT, &g_update.net_policy, "file with new rules of the network policy" },
		{ "kernel-memory", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
		{ "kernel-memory-tcp", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
		{ "blkio-weight", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
		{ "cpu-rt-period", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
		{ "cpu-rt-runtime", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
		{ 0 },
	};
	const char *id = begin(options, "update [options] ID", &argc, &argv);
	struct spec_error e = { "" };
	struct json_object *r;
	struct cgroup_oci cg;
	char why[600] = "";
	struct state s;

	container_open(&s, id, 1);
	if (!state_pid(&s))
		die(1, "container not running");
	if (g_update.resources) {
		size_t len;
		char *text = spec_read_file(AT_FDCWD, g_update.resources, &len, &e);

		r = text ? spec_json(text, len, "--resources", &e) : NULL;
		if (!r)
			die(1, "%s", e.text);
		free(text);
	} else {
		r = update_from_flags();
	}
	cgroup_oci_from_json(&cg, spec_get(s.json, "cgroups"));
	if (cgroup_oci_apply(&cg, r, why, sizeof(why)))
		die(1, "%s", why);
	tell_sandbox(&s, r);
	json_object_put(r);
	if (g_update.net_policy)
		tell_policy(&s, g_update.net_policy);
	return 0;
}
