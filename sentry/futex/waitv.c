/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on several futexes at once (futex_waitv). */
#include <linux/futex.h>
#include <stdlib.h>

#include "sentry/futex/futex_priv.h"

/* Takes the first `count` off their queues; the index of one that was woken already, or -1. */
static int unqueue_all(struct futex_q *q, unsigned int count)
{
	int woken = -1;

	for (unsigned int i = 0; i < count; i++)
		if (!futex_q_remove(&q[i]))
			woken = (int)i;
	return woken;
}

/* Queues all of them. 0; 1 when some were woken meanwhile (*woken); or an error, nothing queued. */
static int queue_all(struct task *t, const struct futex_wait_entry *e, unsigned int count,
		     struct futex_q *q, int *woken)
{
	for (unsigned int i = 0; i < count; i++) {
		struct futex_bucket *b = futex_bucket_of(&q[i].key);
		int err = futex_lock_and_check(t, e[i].addr, e[i].val, b);

		if (err) {
			*woken = unqueue_all(q, i);
			return *woken >= 0 ? 1 : err;
		}
		futex_q_add(&q[i], b);
		lock_release(&b->lock);
	}
	return 0;
}

static int any_woken(const struct futex_q *q, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (!__atomic_load_n(&q[i].bucket, __ATOMIC_ACQUIRE))
			return 1;
	return 0;
}

long futex_wait_multiple(struct task *t, const struct futex_wait_entry *e, unsigned int count,
			 const struct futex_timeout *to)
{
	struct futex_q *q = calloc(count, sizeof(*q));
	int woken = -1, err = 0;

	if (!q)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		struct futex_key key;

		err = futex_key_get(t, e[i].addr, e[i].flags, &key);
		if (err)
			goto out;
		futex_q_init(&q[i], t, &key, FUTEX_BITSET_MATCH_ANY);
	}
	err = queue_all(t, e, count, q, &woken);
	if (err)
		goto out;
	while (!any_woken(q, count)) {
		err = task_sleep(t, futex_deadline(t, to));
		if (err)
			break;
	}
	woken = unqueue_all(q, count);
out:
	free(q);
	return woken >= 0 ? woken : err;
}
