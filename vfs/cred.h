/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials: immutable once published, shared by reference (Linux's struct cred). To change
 * them, copy, edit the copy, swap the pointer. Any thread may hold a reference.
 */
#ifndef CAISSON_CRED_H
#define CAISSON_CRED_H

#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/base/refs.h"

#define NGROUPS_LIMIT 65536
#define CAP_BIT(cap) (1ull << (cap))
#define CAP_ALL_MASK (CAP_BIT(CAP_LAST_CAP + 1) - 1)

struct cred {
	struct ref ref;
	uint32_t uid, euid, suid, fsuid;
	uint32_t gid, egid, sgid, fsgid;
	uint64_t cap_inheritable, cap_permitted, cap_effective, cap_bounding, cap_ambient;
	uint32_t securebits;
	uint32_t group_count;
	uint32_t *groups; /* sorted; owned */
};

/* uid/gid 0 with the given bounding set as permitted and effective. Returns a reference. */
struct cred *cred_new(uint32_t uid, uint32_t gid, uint64_t caps);
struct cred *cred_get(const struct cred *c);
void cred_put(const struct cred *c);
/* A private copy to edit, refcount 1; NULL when out of memory. */
struct cred *cred_dup(const struct cred *c);
/* Replaces the group list; takes a copy and sorts it. -ENOMEM, -EINVAL when too many. */
int cred_set_groups(struct cred *c, const uint32_t *groups, size_t count);
/* True when gid is the fsgid or a supplementary group. */
int cred_in_group(const struct cred *c, uint32_t gid);
int cred_in_egroup(const struct cred *c, uint32_t gid); /* egid or supplementary */
static inline int cred_has_cap(const struct cred *c, int cap)
{
	return (c->cap_effective >> cap) & 1;
}

#endif
