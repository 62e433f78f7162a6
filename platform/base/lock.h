/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes and reader-writer locks with an owner and a rank. In builds with CAISSON_LOCK_DEBUG
 * every acquisition checks lock_ranks.h and aborts with file and line on an inversion; release
 * builds pay for the pthread operation only. None of these may be held while guest code runs, or
 * across a wait for a guest event.
 */
#ifndef CAISSON_LOCK_H
#define CAISSON_LOCK_H

#include <pthread.h>
#include <stdint.h>

#include "platform/base/lock_ranks.h"

struct lock {
	pthread_mutex_t m;
#ifdef CAISSON_LOCK_DEBUG
	enum lock_rank rank;
	uintptr_t owner; /* 0 or an address unique to the owning thread */
#endif
};

struct rwlock {
	pthread_rwlock_t rw;
#ifdef CAISSON_LOCK_DEBUG
	enum lock_rank rank;
#endif
};

void lock_init(struct lock *l, enum lock_rank rank);
void lock_destroy(struct lock *l);
void rwlock_init(struct rwlock *l, enum lock_rank rank);
void rwlock_destroy(struct rwlock *l);

#ifdef CAISSON_LOCK_DEBUG
void lock_acquire_at(struct lock *l, int nested, const char *file, int line);
int lock_try_at(struct lock *l, const char *file, int line); /* 1 when taken */
void lock_release_at(struct lock *l, const char *file, int line);
void lock_assert_held_at(const struct lock *l, const char *file, int line);
void rwlock_read_at(struct rwlock *l, const char *file, int line);
void rwlock_write_at(struct rwlock *l, const char *file, int line);
void rwlock_release_at(struct rwlock *l, const char *file, int line);
#define lock_acquire(l) lock_acquire_at((l), 0, __FILE__, __LINE__)
#define lock_acquire_nested(l) lock_acquire_at((l), 1, __FILE__, __LINE__)
#define lock_try(l) lock_try_at((l), __FILE__, __LINE__)
#define lock_release(l) lock_release_at((l), __FILE__, __LINE__)
#define lock_assert_held(l) lock_assert_held_at((l), __FILE__, __LINE__)
#define rwlock_read(l) rwlock_read_at((l), __FILE__, __LINE__)
#define rwlock_write(l) rwlock_write_at((l), __FILE__, __LINE__)
#define rwlock_release(l) rwlock_release_at((l), __FILE__, __LINE__)
/* Asserts that this thread holds no ranked lock at all; placed where guest code is about to run. */
void lock_assert_none_held(void);
#else
#define lock_acquire(l) ((void)pthread_mutex_lock(&(l)->m))
#define lock_acquire_nested(l) ((void)pthread_mutex_lock(&(l)->m))
#define lock_try(l) (pthread_mutex_trylock(&(l)->m) == 0)
#define lock_release(l) ((void)pthread_mutex_unlock(&(l)->m))
#define lock_assert_held(l) ((void)(l))
#define rwlock_read(l) ((void)pthread_rwlock_rdlock(&(l)->rw))
#define rwlock_write(l) ((void)pthread_rwlock_wrlock(&(l)->rw))
#define rwlock_release(l) ((void)pthread_rwlock_unlock(&(l)->rw))
static inline void lock_assert_none_held(void) {}
#endif

#endif
