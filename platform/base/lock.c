/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock construction and the debug checks behind lock.h. What lies in the hot path of release
 * builds is inline there.
 */
#include "platform/base/lock.h"

#include "platform/base/assert.h"

void lock_init(struct lock *l, enum lock_rank rank)
{
	pthread_mutex_init(&l->m, NULL);
#ifdef CAISSON_LOCK_DEBUG
	l->rank = rank;
	l->owner = 0;
#else
	(void)rank;
#endif
}

void lock_destroy(struct lock *l)
{
	pthread_mutex_destroy(&l->m);
}

void rwlock_init(struct rwlock *l, enum lock_rank rank)
{
	pthread_rwlock_init(&l->rw, NULL);
#ifdef CAISSON_LOCK_DEBUG
	l->rank = rank;
#else
	(void)rank;
#endif
}

void rwlock_destroy(struct rwlock *l)
{
	pthread_rwlock_destroy(&l->rw);
}

#ifdef CAISSON_LOCK_DEBUG

#define MAX_HELD 32

/* What this thread holds, in order of acquisition; its address names the thread. */
static __thread struct held {
	const void *lock;
	enum lock_rank rank;
} g_held[MAX_HELD];
static __thread int g_held_count;

static void held_push(const void *l, enum lock_rank rank, int nested, const char *file, int line)
{
	if (rank != RANK_NONE)
		for (int i = 0; i < g_held_count; i++) {
			if (g_held[i].lock == l)
				panic_at(file, line, "lock %p taken twice", l);
			if (g_held[i].rank > rank || (g_held[i].rank == rank && !nested))
				panic_at(file, line, "lock order: rank %d taken under rank %d",
					 (int)rank, (int)g_held[i].rank);
		}
	if (g_held_count == MAX_HELD)
		panic_at(file, line, "more than %d locks held", MAX_HELD);
	g_held[g_held_count].lock = l;
	g_held[g_held_count++].rank = rank;
}

static void held_pop(const void *l, const char *file, int line)
{
	for (int i = g_held_count - 1; i >= 0; i--)
		if (g_held[i].lock == l) {
			for (g_held_count--; i < g_held_count; i++)
				g_held[i] = g_held[i + 1];
			return;
		}
	panic_at(file, line, "release of lock %p, which this thread does not hold", l);
}

void lock_acquire_at(struct lock *l, int nested, const char *file, int line)
{
	held_push(l, l->rank, nested, file, line);
	pthread_mutex_lock(&l->m);
	__atomic_store_n(&l->owner, (uintptr_t)g_held, __ATOMIC_RELAXED);
}

int lock_try_at(struct lock *l, const char *file, int line)
{
	if (pthread_mutex_trylock(&l->m) != 0)
		return 0;
	/* A try cannot deadlock, so any rank is allowed. */
	if (g_held_count == MAX_HELD)
		panic_at(file, line, "more than %d locks held", MAX_HELD);
	g_held[g_held_count].lock = l;
	g_held[g_held_count++].rank = RANK_NONE;
	__atomic_store_n(&l->owner, (uintptr_t)g_held, __ATOMIC_RELAXED);
	return 1;
}

void lock_release_at(struct lock *l, const char *file, int line)
{
	held_pop(l, file, line);
	__atomic_store_n(&l->owner, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&l->m);
}

void lock_assert_held_at(const struct lock *l, const char *file, int line)
{
	if (__atomic_load_n(&l->owner, __ATOMIC_RELAXED) != (uintptr_t)g_held)
		panic_at(file, line, "lock %p is not held", (const void *)l);
}

void rwlock_read_at(struct rwlock *l, const char *file, int line)
{
	held_push(l, l->rank, 0, file, line);
	pthread_rwlock_rdlock(&l->rw);
}

void rwlock_write_at(struct rwlock *l, const char *file, int line)
{
	held_push(l, l->rank, 0, file, line);
	pthread_rwlock_wrlock(&l->rw);
}

void rwlock_release_at(struct rwlock *l, const char *file, int line)
{
	held_pop(l, file, line);
	pthread_rwlock_unlock(&l->rw);
}

void lock_assert_none_held(void)
{
	if (g_held_count)
		panic_at(__FILE__, __LINE__, "lock of rank %d held where none may be",
			 (int)g_held[0].rank);
}

#endif
