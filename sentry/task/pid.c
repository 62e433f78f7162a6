/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process ids: one `struct pid` names a thread, a process, a group and a session, and has a number
 * in its own pid namespace and in each ancestor. A namespace finds them by number in an open hash
 * with linear probing. All under kernel->tasks_lock.
 */
#include <stdlib.h>
#include <string.h>

#include "platform/base/hash.h"
#include "sentry/task/task_priv.h"

#define RESERVED_PIDS 300 /* after the first wrap the numbers below are left to daemons */
#define TABLE_MIN 64u

uint64_t ns_id_next(void)
{
	/* Linux's first dynamic namespace inode; only uniqueness matters. */
	static uint64_t last = 0xf0000000u;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

struct pid_ns *pid_ns_new(struct pid_ns *parent)
{
	struct pid_ns *ns;

	if (parent && parent->level + 1 >= PID_NS_MAX_LEVEL)
		return ERR_PTR(-ENOSPC);
	ns = calloc(1, sizeof(*ns));
	if (!ns)
		return ERR_PTR(-ENOMEM);
	ns->table = calloc(TABLE_MIN, sizeof(*ns->table));
	if (!ns->table) {
		free(ns);
		return ERR_PTR(-ENOMEM);
	}
	ref_init(&ns->ref);
	ns->table_size = TABLE_MIN;
	ns->ns_id = ns_id_next();
	if (parent) {
		ns->parent = pid_ns_get(parent);
		ns->level = parent->level + 1;
	}
	return ns;
}

struct pid_ns *pid_ns_get(struct pid_ns *ns)
{
	ref_get(&ns->ref);
	return ns;
}

void pid_ns_put(struct pid_ns *ns)
{
	while (ns && ref_put(&ns->ref)) {
		struct pid_ns *parent = ns->parent;

		free(ns->table);
		free(ns);
		ns = parent;
	}
}

/* ---- the table ---- */

static uint32_t slot_of(const struct pid_ns *ns, int nr)
{
	return (uint32_t)hash_u64((uint64_t)(uint32_t)nr) & (ns->table_size - 1);
}

static int nr_at(const struct pid_ns *ns, const struct pid *p)
{
	return p->numbers[ns->level].nr;
}

struct pid *pid_find(struct pid_ns *ns, int nr)
{
	if (nr <= 0)
		return NULL;
	for (uint32_t i = slot_of(ns, nr); ns->table[i]; i = (i + 1) & (ns->table_size - 1))
		if (nr_at(ns, ns->table[i]) == nr)
			return ns->table[i];
	return NULL;
}

static void table_put(struct pid_ns *ns, struct pid *p)
{
	uint32_t i = slot_of(ns, nr_at(ns, p));

	while (ns->table[i])
		i = (i + 1) & (ns->table_size - 1);
	ns->table[i] = p;
}

/* Room for one more entry at a load of at most one half. */
static int table_grow(struct pid_ns *ns)
{
	struct pid **old = ns->table;
	uint32_t old_size = ns->table_size;

	if ((ns->table_used + 1) * 2 <= old_size)
		return 0;
	ns->table = calloc((size_t)old_size * 2, sizeof(*old));
	if (!ns->table) {
		ns->table = old;
		return -ENOMEM;
	}
	ns->table_size = old_size * 2;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i])
			table_put(ns, old[i]);
	free(old);
	return 0;
}

/* Deletes by moving back what the gap would make unreachable. */
static void table_del(struct pid_ns *ns, struct pid *p)
{
	uint32_t mask = ns->table_size - 1, hole = slot_of(ns, nr_at(ns, p));

	while (ns->table[hole] != p)
		hole = (hole + 1) & mask;
	for (uint32_t i = (hole + 1) & mask; ns->table[i]; i = (i + 1) & mask) {
		uint32_t home = slot_of(ns, nr_at(ns, ns->table[i]));

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			ns->table[hole] = ns->table[i];
			hole = i;
		}
	}
	ns->table[hole] = NULL;
	ns->table_used--;
}

struct pid *pid_next(struct pid_ns *ns, int nr)
{
	struct pid *best = NULL;

	for (uint32_t i = 0; i < ns->table_size; i++) {
		struct pid *p = ns->table[i];

		if (p && nr_at(ns, p) >= nr && (!best || nr_at(ns, p) < nr_at(ns, best)))
			best = p;
	}
	return best;
}

/* ---- allocation ---- */

static int pick_number(struct pid_ns *ns)
{
	int nr = ns->last_pid;

	for (int tries = 0; tries <= PID_MAX_DEFAULT; tries++) {
		if (++nr >= PID_MAX_DEFAULT)
			nr = RESERVED_PIDS;
		if (!pid_find(ns, nr)) {
			ns->last_pid = nr;
			return nr;
		}
	}
	return -EAGAIN;
}

static int wanted_number(struct pid_ns *ns, int nr)
{
	if (nr < 1 || nr >= PID_MAX_DEFAULT)
		return -EINVAL;
	/* The first process of a namespace is its init, whatever it asks for. */
	if (nr != 1 && !ns->reaper && ns->table_used == 0)
		return -EINVAL;
	return pid_find(ns, nr) ? -EEXIST : nr;
}

struct pid *pid_alloc(struct pid_ns *ns, const int *set, size_t set_count)
{
	struct pid_ns *at = ns;
	struct pid *p;
	int err = 0;

	if (set_count > (size_t)ns->level + 1)
		return ERR_PTR(-EINVAL);
	p = calloc(1, sizeof(*p) + ((size_t)ns->level + 1) * sizeof(p->numbers[0]));
	if (!p)
		return ERR_PTR(-ENOMEM);
	ref_init(&p->ref);
	p->level = ns->level;
	list_init(&p->pgrp_members);
	list_init(&p->session_members);
	waitq_init(&p->exit_wait);
	for (int i = ns->level; i >= 0 && !err; i--, at = at->parent) {
		size_t nth = (size_t)(ns->level - i);

		err = table_grow(at);
		if (err)
			break;
		int nr = nth < set_count ? wanted_number(at, set[nth]) : pick_number(at);

		if (nr < 0)
			err = nr;
		p->numbers[i].nr = nr;
		p->numbers[i].ns = at;
	}
	if (err) {
		waitq_destroy(&p->exit_wait);
		free(p);
		return ERR_PTR(err);
	}
	for (int i = 0; i <= p->level; i++) {
		pid_ns_get(p->numbers[i].ns);
		table_put(p->numbers[i].ns, p);
		p->numbers[i].ns->table_used++;
	}
	ref_get(&p->ref); /* the tables' */
	return p;
}

void pid_release_unused(struct pid *p)
{
	if (p->task || p->tg || !list_empty(&p->pgrp_members) || !list_empty(&p->session_members))
		return;
	if (pid_find(p->numbers[p->level].ns, p->numbers[p->level].nr) != p)
		return;
	for (int i = 0; i <= p->level; i++)
		table_del(p->numbers[i].ns, p);
	pid_put(p);
}

int pid_nr_in(const struct pid *p, const struct pid_ns *ns)
{
	if (p && ns->level <= p->level && p->numbers[ns->level].ns == ns)
		return p->numbers[ns->level].nr;
	return 0;
}

struct pid *pid_get(struct pid *p)
{
	ref_get(&p->ref);
	return p;
}

void pid_put(struct pid *p)
{
	if (!p || !ref_put(&p->ref))
		return;
	for (int i = p->level; i >= 0; i--)
		pid_ns_put(p->numbers[i].ns);
	waitq_destroy(&p->exit_wait);
	free(p);
}
