/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `caisson run` was asked to do, after parsing and checking. Strings are borrowed from argv
 * unless a comment says otherwise. One table in options.c lists every option; help is printed
 * from it.
 */
#ifndef CAISSON_RUNTIME_OPTIONS_H
#define CAISSON_RUNTIME_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/usernet.h"
#include "runtime/egress.h"

struct bind_option {
	char *src, *dst; /* owned; src as the user wrote it, dst absolute in the guest */
	int readonly;
};

/* Isolation layers that --allow-weaker=NAME may do without. */
enum weaker_layer {
	WEAKER_USERNS = 1,
	WEAKER_PIDNS = 2,
	WEAKER_NETNS = 4,
	WEAKER_MOUNTNS = 8,
	WEAKER_IPCNS = 16,
};

struct run_options {
	const char *rootfs; /* NULL: the host's root */
	struct bind_option *binds;
	size_t bind_count;
	const char *workdir;
	const char **env; /* NAME=VALUE */
	size_t env_count;
	uint32_t uid, gid; /* of the guest program */
	uint32_t *groups;
	size_t group_count;
	const char *hostname;
	uint64_t memory; /* bytes, 0: no limit */
	uint64_t pids;	 /* 0: no limit */
	double cpus;	 /* 0: no limit */
	uint64_t timeout_ms;
	int read_only;
	int tty; /* -1 automatic, 0, 1 */
	int strace;
	const char *log;
	const char *log_level;
	int json;
	const char *json_file; /* NULL: stderr */
	const char *platform, *platform_flags;
	unsigned weaker; /* enum weaker_layer bits */
	int user_network, host_loopback;
	struct publish *publish;
	size_t publish_count;
	const char *netns; /* path of the network namespace to take over; NULL: none */
	struct egress_options net;
	char **argv;	 /* the program and its arguments, NULL-terminated */
	int argc;
};

/* Parses argv[1..] of the run command; ends the process with a clear line on a mistake. */
void run_options_parse(struct run_options *o, int argc, char **argv);
void run_options_help(void);
const char *weaker_layer_name(enum weaker_layer l);

#endif
