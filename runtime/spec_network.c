/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations that begin with dev.caisson.net.: the options of `caisson run`, for engines. */
#include <stdlib.h>
#include <string.h>

#include "runtime/spec.h"

#define PREFIX "dev.caisson.net."

static int number(const char *v, uint64_t *out)
{
	char *end;

	if (*v < '1' || *v > '9' || strlen(v) > 15)
		return -1;
	*out = strtoull(v, &end, 10);
	return *end ? -1 : 0;
}

static int take(struct spec *s, const char *key, const char *v)
{
	struct egress_options *n = &s->network;

	if (!strcmp(key, "allow")) {
		n->rules = &s->network_rules;
		s->network_rules = v;
		n->rule_count = 1;
	} else if (!strcmp(key, "policy") && v[0] == '/') {
		n->policy_file = v;
	} else if (!strcmp(key, "audit") && v[0] == '/') {
		n->audit_file = v;
	} else if (!strcmp(key, "audit-connections")) {
		n->audit_connections = !strcmp(v, "true");
		return n->audit_connections || !strcmp(v, "false") ? 0 : -1;
	} else if (!strcmp(key, "rate")) {
		return number(v, &n->rate);
	} else if (!strcmp(key, "connects")) {
		return number(v, &n->connects);
	} else if (!strcmp(key, "dns")) {
		n->dns[0] = v;
		n->dns_count = 1;
	} else {
		return -1;
	}
	return 0;
}

int spec_network(struct spec *s, struct spec_error *e)
{
	struct json_object *a;

	if (spec_want(s->json, "", "annotations", json_type_object, &a, e))
		return -1;
	if (!a)
		return 0;
	json_object_object_foreach(a, key, value)
	{
		const char *v;

		if (strncmp(key, PREFIX, strlen(PREFIX)))
			continue;
		if (spec_text(a, "annotations", key, &v, e))
			return -1;
		if (!v || take(s, key + strlen(PREFIX), v))
			return spec_fail(e, key, "is no setting of the network, or its value is not one (docs/egress.md)");
		(void)value;
	}
	return 0;
}
