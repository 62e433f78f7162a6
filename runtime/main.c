/* SPDX-License-Identifier: Apache-2.0 */
/* The caisson command: one table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "runtime/command.h"
#include "runtime/error.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name, *help;
	int (*fn)(int argc, char **argv);
} g_commands[] = {
	{ "run", "run a program in a new sandbox", cmd_run },
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
	printf("caisson version %s\n", CAISSON_VERSION);
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";

	if (!strcmp(name, "--version") || !strcmp(name, "-v"))
		name = "version";
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	for (size_t i = 0; i < sizeof(g_commands) / sizeof(*g_commands); i++)
		if (!strcmp(g_commands[i].name, name))
			return g_commands[i].fn(argc - 1, argv + 1);
	die(EXIT_SETUP, "unknown command '%s'; 'caisson help' lists them", name);
}
