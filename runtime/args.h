/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the OCI commands, as Go's flag packages accept them: -x, --name VALUE, --name=VALUE;
 * flags also --name=true|false.
 */
#ifndef CAISSON_RUNTIME_ARGS_H
#define CAISSON_RUNTIME_ARGS_H

#include <stddef.h>

enum arg_kind {
	ARG_FLAG,   /* int *: 1 when given */
	ARG_TEXT,   /* const char ** */
	ARG_NUMBER, /* int *: 0..65535 */
	ARG_LIST,   /* struct arg_list *: may be repeated */
	ARG_IGNORE_TEXT, /* takes a value, means nothing here */
};

struct arg_list {
	const char *items[256];
	size_t count;
};

struct arg_option {
	const char *name;
	char letter; /* 0: none */
	enum arg_kind kind;
	void *out;
	const char *help;
};

/*
 * Parses options from (*argv)[1]; the table ends with a NULL name. Stops at "--" or, unless `mixed`,
 * at the first word that is no option; *argc and *argv are then what is left. Ends the process with
 * a clear line on a mistake, and after --help.
 */
void args_parse(const struct arg_option *table, const char *usage, int mixed, int *argc, char ***argv);

#endif
