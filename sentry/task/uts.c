/* SPDX-License-Identifier: Apache-2.0 */
/* UTS namespaces: host and domain name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/task/task_priv.h"

struct uts_ns *uts_new(const char *nodename, const char *domainname)
{
	struct uts_ns *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	ref_init(&u->ref);
	lock_init(&u->lock, RANK_LEAF);
	snprintf(u->nodename, sizeof(u->nodename), "%s", nodename);
	snprintf(u->domainname, sizeof(u->domainname), "%s", domainname);
	u->ns_id = ns_id_next();
	return u;
}

struct uts_ns *uts_get(struct uts_ns *u)
{
	ref_get(&u->ref);
	return u;
}

struct uts_ns *uts_dup(struct uts_ns *u)
{
	struct uts_ns *n = uts_new("", "");

	if (!n)
		return NULL;
	lock_acquire(&u->lock);
	memcpy(n->nodename, u->nodename, sizeof(n->nodename));
	memcpy(n->domainname, u->domainname, sizeof(n->domainname));
	lock_release(&u->lock);
	return n;
}

void uts_put(struct uts_ns *u)
{
	if (!u || !ref_put(&u->ref))
		return;
	lock_destroy(&u->lock);
	free(u);
}
