/* SPDX-License-Identifier: Apache-2.0 */
/* See flows.h. */
#include "netstack/egress/flows.h"

#include <stdlib.h>
#include <string.h>

#include "platform/base/hash.h"

#define SETS 512u
#define WAYS 8u

struct slot {
	struct egress_flow flow;
	uint64_t seen_ns; /* 0: empty */
};

struct egress_flows {
	uint64_t secret; /* so that nobody outside aims at one set */
	struct slot set[SETS][WAYS];
};

struct egress_flows *egress_flows_new(uint64_t secret)
{
	struct egress_flows *f = calloc(1, sizeof(*f));

	if (f)
		f->secret = secret;
	return f;
}

void egress_flows_free(struct egress_flows *f)
{
	free(f);
}

static uint32_t set_of(const struct egress_flows *f, const struct egress_flow *w)
{
	uint64_t h = f->secret ^ w->proto;

	h = hash_u64(h ^ w->remote.d[0]) + w->remote.d[1];
	h = hash_u64(h) ^ w->local.d[0];
	h = hash_u64(h) + w->local.d[1];
	return (uint32_t)(hash_u64(h ^ ((uint64_t)w->remote_port << 16 | w->local_port)) % SETS);
}

static int same(const struct egress_flow *a, const struct egress_flow *b)
{
	return ip_eq(&a->remote, &b->remote) && ip_eq(&a->local, &b->local) && a->remote_port == b->remote_port &&
	       a->local_port == b->local_port && a->proto == b->proto;
}

void egress_flows_seen(struct egress_flows *f, const struct egress_flow *flow, uint64_t now_ns)
{
	struct slot *s = f->set[set_of(f, flow)], *to = s;

	for (uint32_t i = 0; i < WAYS; i++) {
		if (s[i].seen_ns && same(&s[i].flow, flow)) {
			to = &s[i];
			break;
		}
		if (s[i].seen_ns < to->seen_ns)
			to = &s[i];
	}
	to->flow = *flow;
	to->seen_ns = now_ns ? now_ns : 1;
}

int egress_flows_open(const struct egress_flows *f, const struct egress_flow *flow, uint64_t now_ns)
{
	const struct slot *s = f->set[set_of(f, flow)];

	for (uint32_t i = 0; i < WAYS; i++)
		if (s[i].seen_ns && same(&s[i].flow, flow))
			return now_ns - s[i].seen_ns < EGRESS_FLOW_LIFE_NS;
	return 0;
}

void egress_flows_clear(struct egress_flows *f)
{
	memset(f->set, 0, sizeof(f->set));
}
