/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-uid charges. A list: a sandbox has a handful of users that hold queued signals or message
 * queues at any one time, and an entry goes when its last charge does.
 */
#include "sentry/signal/user_count.h"

#include <errno.h>
#include <stdlib.h>

#include "platform/base/assert.h"
#include "sentry/kernel.h"

struct user_count *user_count_find(struct kernel *k, uint32_t uid)
{
	lock_assert_held(&k->tasks_lock);
	for (struct user_count *u = k->user_counts; u; u = u->next)
		if (u->uid == uid)
			return u;
	return NULL;
}

static struct user_count *find_or_add(struct kernel *k, uint32_t uid)
{
	struct user_count *u = user_count_find(k, uid);

	if (u)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->next = k->user_counts;
	k->user_counts = u;
	return u;
}

static void drop_if_unused(struct kernel *k, struct user_count *u)
{
	if (u->sigpending || u->mq_bytes)
		return;
	for (struct user_count **pp = &k->user_counts; *pp; pp = &(*pp)->next)
		if (*pp == u) {
			*pp = u->next;
			free(u);
			return;
		}
}

struct user_count *user_count_signal(struct kernel *k, uint32_t uid, uint64_t limit)
{
	struct user_count *u = find_or_add(k, uid);

	if (!u)
		return NULL;
	if (u->sigpending >= limit) {
		drop_if_unused(k, u);
		return NULL;
	}
	u->sigpending++;
	return u;
}

void user_uncount_signal(struct kernel *k, struct user_count *u)
{
	lock_assert_held(&k->tasks_lock);
	ASSERT(u->sigpending > 0);
	u->sigpending--;
	drop_if_unused(k, u);
}

int user_count_mq(struct kernel *k, uint32_t uid, uint64_t bytes, uint64_t limit)
{
	struct user_count *u = find_or_add(k, uid);
	uint64_t sum;

	if (!u)
		return -ENOMEM;
	if (__builtin_add_overflow(u->mq_bytes, bytes, &sum) || sum > limit) {
		drop_if_unused(k, u);
		return -EMFILE;
	}
	u->mq_bytes = sum;
	return 0;
}

void user_uncount_mq(struct kernel *k, uint32_t uid, uint64_t bytes)
{
	struct user_count *u = user_count_find(k, uid);

	ASSERT(u && u->mq_bytes >= bytes);
	u->mq_bytes -= bytes;
	drop_if_unused(k, u);
}
