/* SPDX-License-Identifier: Apache-2.0 */
/* Inside sentry/egress. */
#ifndef CAISSON_SENTRY_EGRESS_PRIV_H
#define CAISSON_SENTRY_EGRESS_PRIV_H

#include "sentry/egress/egress.h"
#include "sentry/socket/socket.h"

#define AUDIT_RULE_MAX (EGRESS_TEXT_MAX + 1)
#define RESOLVER_SERVERS_MAX 3u

struct audit {
	int fd; /* [I] -1: nowhere */
	int connections; /* [I] one record for each connection too */
	char sandbox[128]; /* [I] */
	struct egress_bucket limit; /* [egress] */
	uint64_t unwritten; /* [a] records that were too many, or that the file did not take */
};

struct egress {
	struct kernel *k;	/* [I] */
	struct stack *stack;	/* [I] */
	struct ip_addr server[RESOLVER_SERVERS_MAX]; /* [I] DNS servers outside */
	uint32_t server_count;	/* [I] */
	int enforced;		/* [I] there is a policy */
	struct lock lock;	/* RANK_EGRESS: all that follows */
	struct egress_policy *policy; /* NULL: everything is allowed (only rates or records) */
	uint32_t generation;	/* of the policy: what endpoint.cleared holds */
	struct egress_bindings *bindings;
	struct egress_flows *flows;
	struct egress_bucket bytes_out, bytes_in, connects;
	struct audit audit;
	/* resolver.c */
	struct endpoint *udp, *tcp; /* [I] */
	uint32_t workers;	/* [a] */
};

/* What a record tells; strings are copied out of the policy before its lock is released. */
struct audit_record {
	const char *event, *proto;
	struct ep_label who;
	const struct ip_addr *addr; /* NULL: none */
	int port;		    /* -1: none */
	char name[256], rule[AUDIT_RULE_MAX];
	const char *direction;	    /* connections only */
	uint64_t bytes_in, bytes_out;
};

/* #hostcalls: write */
void audit_write(struct egress *e, const struct audit_record *r);
void audit_label(struct task *t, struct ep_label *l);

/* egress.c */
extern const struct stack_guard g_egress_guard;
void egress_policy_replace(struct egress *e, struct egress_policy *p); /* consumes p */

/* resolver.c */
int resolver_start(struct egress *e);

#endif
