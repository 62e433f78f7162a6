/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser of args.h. */
#include "runtime/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"

static void print_help(const struct arg_option *table, const char *usage)
{
	printf("usage: caisson %s\n\n", usage);
	for (; table->name; table++) {
		char left[64], letter[4] = "";

		if (table->letter)
			snprintf(letter, sizeof(letter), "-%c,", table->letter);
		snprintf(left, sizeof(left), "%s --%s%s", letter, table->name,
			 table->kind == ARG_FLAG ? "" : " VALUE");
		printf("  %-32s %s\n", left, table->help ? table->help : "");
	}
}

static const struct arg_option *find(const struct arg_option *table, const char *name, size_t len)
{
	for (; table->name; table++)
		if ((strlen(table->name) == len && !strncmp(table->name, name, len)) ||
		    (len == 1 && table->letter == name[0] && name[0]))
			return table;
	return NULL;
}

static void store(const struct arg_option *o, const char *value)
{
	struct arg_list *list = o->out;
	char *end;

	switch (o->kind) {
	case ARG_FLAG:
		if (value && strcmp(value, "true") && strcmp(value, "false"))
			die(1, "--%s: '%s' is neither true nor false", o->name, value);
		*(int *)o->out = !value || !strcmp(value, "true");
		return;
	case ARG_TEXT:
		*(const char **)o->out = value;
		return;
	case ARG_NUMBER: {
		long v = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : -1;

		if (v < 0 || v > 65535 || *end)
			die(1, "--%s: '%s' is not a number from 0 to 65535", o->name, value);
		*(int *)o->out = (int)v;
		return;
	}
	case ARG_LIST:
		if (list->count == sizeof(list->items) / sizeof(*list->items))
			die(1, "--%s is given too often", o->name);
		list->items[list->count++] = value;
		return;
	case ARG_IGNORE_TEXT:
		return;
	}
}

/* One option at argv[i]; returns how many words it took. */
static int take(const struct arg_option *table, const char *usage, int argc, char **argv, int i)
{
	const char *name = argv[i] + 1 + (argv[i][1] == '-'), *eq = strchr(name, '=');
	const struct arg_option *o = find(table, name, eq ? (size_t)(eq - name) : strlen(name));
	const char *value = eq ? eq + 1 : NULL;

	if (!o && (!strcmp(name, "help") || !strcmp(name, "h"))) {
		print_help(table, usage);
		exit(0);
	}
	if (!o)
		die(1, "unknown option '%s' (usage: caisson %s)", argv[i], usage);
	if (o->kind == ARG_FLAG || value) {
		store(o, value);
		return 1;
	}
	if (i + 1 >= argc)
		die(1, "--%s needs a value", o->name);
	store(o, argv[i + 1]);
	return 2;
}

void args_parse(const struct arg_option *table, const char *usage, int mixed, int *argc, char ***argv)
{
	char **v = *argv;
	int n = 0, i = 1;

	while (i < *argc) {
		if (!strcmp(v[i], "--")) {
			i++;
			break;
		}
		if (v[i][0] == '-' && v[i][1]) {
			i += take(table, usage, *argc, v, i);
			continue;
		}
		if (!mixed)
			break;
		v[n++] = v[i++];
	}
	/* What is left moves to the front of the same vector. */
	while (i < *argc)
		v[n++] = v[i++];
	v[n] = NULL;
	*argc = n;
}
