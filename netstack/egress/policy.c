/* SPDX-License-Identifier: Apache-2.0 */
/* See policy.h: judging. parse.c makes rules of text. */
#include "netstack/egress/policy.h"

#include <stdlib.h>
#include <string.h>

#include "netstack/egress/address.h"
#include "netstack/egress/bindings.h"
#include "netstack/egress/name.h"
#include "netstack/egress/rule.h"

#define PROTO_UDPLITE 136

struct egress_policy *egress_policy_new(void)
{
	return calloc(1, sizeof(struct egress_policy));
}

void egress_policy_free(struct egress_policy *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->count; i++)
		free(p->rule[i].text);
	free(p->rule);
	free(p);
}

const char *egress_policy_rule(const struct egress_policy *p, uint32_t i)
{
	return p->rule[i].text;
}

static uint8_t proto_bit(uint8_t proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return EGRESS_TCP;
	case IPPROTO_UDP:
	case PROTO_UDPLITE:
		return EGRESS_UDP;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return EGRESS_ICMP;
	}
	return EGRESS_OTHER;
}

/* Protocol and port; the address or name is the caller's question. */
static int fits(const struct egress_rule *r, const struct egress_target *t)
{
	uint8_t bit = proto_bit(t->proto);

	if (!(r->protos & bit))
		return 0;
	if (!r->has_ports)
		return 1;
	return (bit & (EGRESS_TCP | EGRESS_UDP)) && t->port_known && t->port >= r->port_min && t->port <= r->port_max;
}

static int covers(const struct egress_rule *r, const struct ip_addr *a)
{
	/* Both families share one form, but ::/0 does not mean IPv4 (nor 0.0.0.0/0 IPv6). */
	return !r->name && r->v4 == ip_is_v4(a) && ip_match(a, &r->net, r->plen);
}

/* Does the rule name this special range, or a part of it, and not just all the world? */
static int lists(const struct egress_rule *r, const struct egress_range *s)
{
	return r->plen >= s->plen && ip_match(&r->net, &s->net, s->plen);
}

static int name_fits(const struct egress_rule *r, const char *name)
{
	if (!r->name)
		return 0;
	return r->below ? egress_name_below(name, r->name) : !strcmp(name, r->name);
}

/* One address, which stands for itself. */
static int decide_one(const struct egress_policy *p, const struct egress_bindings *b, const struct ip_addr *a,
		      const struct egress_target *t, uint64_t now, struct egress_verdict *v)
{
	const struct egress_range *special = egress_special(a);
	const struct egress_rule *allow = NULL;
	const char *name;
	uint32_t cursor = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		const struct egress_rule *r = &p->rule[i];

		if (!covers(r, a) || !fits(r, t))
			continue;
		if (r->deny) {
			v->rule = r->text;
			return 0;
		}
		if (!allow && (!special || lists(r, special)))
			allow = r;
	}
	if (allow) {
		v->rule = allow->text;
		v->name = b ? egress_bindings_name(b, a, now, &cursor) : NULL;
		return 1;
	}
	/* A name never leads to a special address by itself: that would be rebinding. */
	v->rule = special ? special->what : "default";
	while (!special && b && (name = egress_bindings_name(b, a, now, &cursor))) {
		const struct egress_rule *yes = NULL, *no = NULL;

		for (uint32_t i = 0; i < p->count; i++) {
			const struct egress_rule *r = &p->rule[i];

			if (!name_fits(r, name) || !fits(r, t))
				continue;
			if (r->deny)
				no = r;
			else if (!yes)
				yes = r;
		}
		v->name = name;
		if (no)
			v->rule = no->text;
		else if (yes)
			v->rule = yes->text;
		if (yes && !no)
			return 1;
	}
	return 0;
}

int egress_decide(const struct egress_policy *p, const struct egress_bindings *b,
		  const struct egress_target *t, uint64_t now_ns, struct egress_verdict *v)
{
	struct ip_addr to[2];
	int n = egress_reaches(&t->addr, to);

	*v = (struct egress_verdict){ .rule = "default" };
	for (int i = 0; i < n; i++)
		if (!decide_one(p, b, &to[i], t, now_ns, v))
			return 0;
	v->allowed = 1;
	return 1;
}

int egress_name_allowed(const struct egress_policy *p, const char *name, const char **rule)
{
	const char *found = NULL;

	for (uint32_t i = 0; i < p->count; i++) {
		if (!name_fits(&p->rule[i], name))
			continue;
		if (p->rule[i].deny && !p->rule[i].has_ports && p->rule[i].protos == EGRESS_ANY) {
			if (rule)
				*rule = p->rule[i].text;
			return 0;
		}
		if (!p->rule[i].deny && !found)
			found = p->rule[i].text;
	}
	if (rule)
		*rule = found ? found : "default";
	return found != NULL;
}

int egress_answer_allowed(const struct egress_policy *p, const struct ip_addr *a, const char **why)
{
	struct ip_addr to[2];
	int n = egress_reaches(a, to);

	for (int i = 0; i < n; i++) {
		const struct egress_range *s = egress_special(&to[i]);
		int listed = 0;

		for (uint32_t k = 0; s && k < p->count && !listed; k++)
			listed = !p->rule[k].deny && covers(&p->rule[k], &to[i]) && lists(&p->rule[k], s);
		if (s && !listed) {
			*why = s->what;
			return 0;
		}
	}
	return 1;
}
