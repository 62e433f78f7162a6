/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allow-list seccomp filters for our own processes (sentry, gofer). Rules are data; whatever no
 * rule allows ends the process, or fails with an errno where the caller says so.
 */
#ifndef CAISSON_HOST_FILTER_H
#define CAISSON_HOST_FILTER_H

#include <stddef.h>
#include <stdint.h>

#define HOST_FILTER_MAX_ARGS 4

enum host_filter_op {
	HOST_ARG_EQ,	 /* arg == value */
	HOST_ARG_MASKED, /* (arg & mask) == value */
	HOST_ARG_LE,	 /* arg <= value, unsigned, all 64 bits */
	HOST_ARG_NE,	 /* arg != value */
};

struct host_filter_arg {
	uint8_t index; /* 0 to 5 */
	uint8_t op;    /* enum host_filter_op */
	uint64_t value, mask;
};

/* Allows one syscall when all argument checks hold. Several rules for one syscall are ORed. */
struct host_filter_rule {
	const char *name; /* NULL: nr is the number */
	int nr;
	uint8_t arg_count;
	struct host_filter_arg arg[HOST_FILTER_MAX_ARGS];
};

#define HOST_FILTER_KILL 0

/*
 * Installs the filter on every thread of the process and sets no_new_privs. `otherwise` is
 * HOST_FILTER_KILL (the process dies with SIGSYS) or a positive errno. 0 or a negative errno:
 * -ENOSYS when a rule names a call that this build does not know, and nothing is installed then.
 * Foreign architectures are always killed. x32 numbers count as unknown calls.
 */
int host_filter_install(const struct host_filter_rule *rules, size_t count, int otherwise);

#endif
