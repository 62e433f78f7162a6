/* SPDX-License-Identifier: Apache-2.0 */
/* The caisson command: one table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "runtime/command.h"
#include "runtime/error.h"
#include "runtime/oci.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name, *help;
	int (*fn)(int argc, char **argv);
} g_commands[] = {
	{ "run", "run a program in a new sandbox", cmd_run },
	{ "create", "make a container from a bundle, up to its program", cmd_create },
	{ "start", "let a created container's program run", cmd_start },
	{ "state", "print a container's state in JSON", cmd_state },
	{ "kill", "send a signal to a container", cmd_kill },
	{ "delete", "remove a stopped container", cmd_delete },
	{ "list", "list containers", cmd_list },
	{ "exec", "run one more program in a container", cmd_exec },
	{ "ps", "list a container's processes", cmd_ps },
	{ "pause", "stop a container's processes for a while", cmd_pause },
	{ "resume", "let them go on", cmd_resume },
	{ "events", "print a container's resource use", cmd_events },
	{ "update", "change a container's limits", cmd_update },
	{ "spec", "write a config.json to start from", cmd_spec },
	{ "features", "print what the OCI side supports", cmd_features },
	{ "checkpoint", "not supported", cmd_checkpoint },
	{ "restore", "not supported", cmd_checkpoint },
	{ "debug", "look into a running container", cmd_debug },
	{ "doctor", "say what this host can do, and what is missing", cmd_doctor },
	{ "version", "print the version", cmd_version },
	{ "help", "print this", cmd_help },
};

static int cmd_help(int argc, char **argv)
{
	(void)argc, (void)argv;
	printf("usage: caisson COMMAND [options]\n\n");
	for (size_t i = 0; i < sizeof(g_commands) / sizeof(*g_commands); i++)
		printf("  %-10s %s\n", g_commands[i].name, g_commands[i].help);
	printf("\n'caisson run --help' lists the options of run.\n");
	return 0;
}

static int cmd_version(int argc, char **argv)
{
	(void)argc, (void)argv;
	printf("caisson version %s\nspec: %s\n", CAISSON_VERSION, OCI_VERSION);
	return 0;
}

int main(int argc, char **argv)
{
	char *help[2] = { (char[]){ "help" }, NULL };
	const char *name;

	/* Engines put their global options first; what is left starts with the command. */
	if (argc > 1 && argv[1][0] == '-') {
		oci_global_parse(&argc, &argv);
	} else {
		argc--;
		argv++;
	}
	if (argc < 1) {
		argc = 1;
		argv = help;
	}
	name = argv[0];
	if (!strcmp(name, "--version") || !strcmp(name, "-v"))
		name = "version";
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	for (size_t i = 0; i < sizeof(g_commands) / sizeof(*g_commands); i++)
		if (!strcmp(g_commands[i].name, name))
			return g_commands[i].fn(argc, argv);
	die(EXIT_SETUP, "unknown command '%s'; 'caisson help' lists them", name);
}
