/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials: life and group membership. What they permit is perm.c's business. */
#include "vfs/cred.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct cred *cred_new(uint32_t uid, uint32_t gid, uint64_t caps)
{
	struct cred *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	ref_init(&c->ref);
	c->uid = c->euid = c->suid = c->fsuid = uid;
	c->gid = c->egid = c->sgid = c->fsgid = gid;
	c->cap_permitted = c->cap_effective = c->cap_bounding = caps & CAP_ALL_MASK;
	return c;
}

struct cred *cred_get(const struct cred *c)
{
	struct cred *mine = (struct cred *)c;

	ref_get(&mine->ref);
	return mine;
}

void cred_put(const struct cred *c)
{
	struct cred *mine = (struct cred *)c;

	if (!mine || !ref_put(&mine->ref))
		return;
	free(mine->groups);
	free(mine);
}

struct cred *cred_dup(const struct cred *c)
{
	struct cred *n = malloc(sizeof(*n));

	if (!n)
		return NULL;
	*n = *c;
	ref_init(&n->ref);
	n->groups = NULL;
	if (c->group_count) {
		n->groups = malloc(c->group_count * sizeof(*n->groups));
		if (!n->groups) {
			free(n);
			return NULL;
		}
		memcpy(n->groups, c->groups, c->group_count * sizeof(*n->groups));
	}
	return n;
}

static int compare_gid(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int cred_set_groups(struct cred *c, const uint32_t *groups, size_t count)
{
	uint32_t *copy = NULL;

	if (count > NGROUPS_LIMIT)
		return -EINVAL;
	if (count) {
		copy = malloc(count * sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		memcpy(copy, groups, count * sizeof(*copy));
		qsort(copy, count, sizeof(*copy), compare_gid);
	}
	free(c->groups);
	c->groups = copy;
	c->group_count = (uint32_t)count;
	return 0;
}

static int in_groups(const struct cred *c, uint32_t gid)
{
	size_t lo = 0, hi = c->group_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->groups[mid] == gid)
			return 1;
		if (c->groups[mid] < gid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return 0;
}

int cred_in_group(const struct cred *c, uint32_t gid)
{
	return gid == c->fsgid || in_groups(c, gid);
}

int cred_in_egroup(const struct cred *c, uint32_t gid)
{
	return gid == c->egid || in_groups(c, gid);
}
