/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress policy: a list of rules and one question, may this go there? No rule fits: no. Deny
 * rules win over allow rules, whatever their order. The text of rules is in docs/egress.md.
 *
 * A policy is built by one thread and constant afterwards; nothing here locks, and nothing keeps
 * state between calls. Text comes from people and from config.json and is checked byte by byte.
 */
#ifndef CAISSON_EGRESS_POLICY_H
#define CAISSON_EGRESS_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "netstack/addr.h"

struct egress_bindings;
struct egress_rule;

#define EGRESS_RULES_MAX 4096u
#define EGRESS_TEXT_MAX 320u /* of one rule */

struct egress_policy {
	struct egress_rule *rule;
	uint32_t count;
};

struct egress_error {
	uint32_t line; /* of egress_policy_text() */
	char text[480];
};

struct egress_policy *egress_policy_new(void); /* NULL: out of memory */
void egress_policy_free(struct egress_policy *p);
/* One rule of n bytes, "[allow|deny] TARGET[:PORTS][/PROTOCOL]". 0, or -1 with e->text filled. */
int egress_policy_add(struct egress_policy *p, const char *text, size_t n, struct egress_error *e);
/* Many, one in each line; '#' starts a comment. 0, or -1 with e->line and e->text filled. */
int egress_policy_text(struct egress_policy *p, const char *text, size_t n, struct egress_error *e);
/* The text of rule i as it was given, blanks trimmed. */
const char *egress_policy_rule(const struct egress_policy *p, uint32_t i);

/* What somebody wants to send. */
struct egress_target {
	struct ip_addr addr;
	uint8_t proto;	     /* IP protocol number */
	uint8_t port_known;  /* 0: only rules without ports fit */
	uint16_t port;	     /* host order */
};

struct egress_verdict {
	int allowed;
	const char *rule; /* the rule's text, or "default", "private", "metadata" …; lives with p */
	const char *name; /* the name that gave the address, or NULL; lives in bindings */
};

/* now_ns: of the clock the bindings were made with; bindings may be NULL. 1 when allowed. */
int egress_decide(const struct egress_policy *p, const struct egress_bindings *b,
		  const struct egress_target *t, uint64_t now_ns, struct egress_verdict *v);

/* May this canonical name be looked up? *rule: which rule said so, or "default". */
int egress_name_allowed(const struct egress_policy *p, const char *name, const char **rule);

/* May a name's answer be this address? Not a special one, unless a rule lists it. */
int egress_answer_allowed(const struct egress_policy *p, const struct ip_addr *a, const char **why);

#endif
