/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson debug WHAT ID|PID`: figures of a running sandbox that no engine asks for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/args.h"
#include "runtime/client.h"
#include "runtime/command.h"
#include "runtime/container.h"
#include "runtime/error.h"
#include "runtime/oci.h"
#include "runtime/state.h"

static const char g_usage[] = "debug patch ID|PID";

struct search {
	pid_t pid;
	char id[STATE_ID_MAX + 1];
};

static void compare_pid(const char *id, void *arg)
{
	struct search *w = arg;
	struct state s;

	if (state_open(&s, id, 0))
		return;
	if (state_pid(&s) == w->pid)
		snprintf(w->id, sizeof(w->id), "%s", id);
	state_close(&s);
}

/* A number that is no container's name is the process that engines know the container by. */
static void open_target(struct state *s, const char *name)
{
	struct search w = { .pid = (pid_t)strtol(name, NULL, 10) };

	if (state_id_valid(name) && state_open(s, name, 0) == 0)
		return;
	if (w.pid > 0 && name[strspn(name, "0123456789")] == '\0')
		state_each(compare_pid, &w);
	if (!w.id[0] || state_open(s, w.id, 0))
		die(1, "no container has the id or the process %s", name);
}

int cmd_debug(int argc, char **argv)
{
	static const struct arg_option none[] = { { 0 } };
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf a;
	struct state s;
	const char *line;

	oci_begin(1);
	args_parse(none, g_usage, 1, &argc, &argv);
	if (argc != 2 || strcmp(argv[0], "patch"))
		die(1, "usage: caisson %s (what became of the syscall sites)", g_usage);
	open_target(&s, argv[1]);
	container_ask(&s, "patches", buf, &a);
	for (size_t pos = 0; (line = bootconf_next(&a, "line", &pos));)
		printf("%s\n", line);
	state_close(&s);
	return 0;
}
