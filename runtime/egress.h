/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network policy as people give it (options, a file, annotations), checked and turned into keys
 * of the sentry's configuration. The rules' grammar is netstack/egress's; docs/egress.md explains it.
 * Nothing here ends the process: what is wrong is said in `why`.
 */
#ifndef CAISSON_RUNTIME_EGRESS_H
#define CAISSON_RUNTIME_EGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "platform/base/bootconf.h"

#define EGRESS_DNS_MAX 3
#define EGRESS_WHY_MAX 1200

struct egress_options {
	const char **rules; /* --allow-net; "" stands for an empty list */
	size_t rule_count;
	const char *policy_file;
	const char *audit_file;
	int audit_connections;
	uint64_t rate;	    /* bytes a second each way, 0: no limit */
	uint64_t connects;  /* a second, 0: no limit */
	const char *dns[EGRESS_DNS_MAX];
	int dns_count;
};

/* Is there a policy, a rate or a record to keep? */
int egress_wanted(const struct egress_options *o);
/* The rules as net_rule= lines. 0, or -1 and why. */
int egress_rules_conf(const struct egress_options *o, struct bootconf *c, char *why, size_t size);
/*
 * All of it: rules, rates, DNS servers (those of the files in `resolv`, NULL-terminated, the first
 * that has any, when none is given), and the audit file, whose fd is opened into *audit_fd (-1: none)
 * and becomes fd `as` of the sentry. id names the sandbox in records.
 */
int egress_conf(const struct egress_options *o, const char *id, const char *const resolv[], int as,
		struct bootconf *c, int *audit_fd, char *why, size_t size);
/* The rules of o to a sandbox that runs, over the control connection conn; its answer. 0, or -1. */
int egress_tell(const struct egress_options *o, int conn, int direct, char *why, size_t size);

#endif
