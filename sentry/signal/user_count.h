/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user (a real uid) holds over all its processes: queued signals (RLIMIT_SIGPENDING) and
 * bytes of POSIX message queues (RLIMIT_MSGQUEUE). Entries live while something is charged. All
 * calls want kernel->tasks_lock.
 */
#ifndef CAISSON_USER_COUNT_H
#define CAISSON_USER_COUNT_H

#include <stdint.h>

struct kernel;

struct user_count {
	struct user_count *next; /* in kernel->user_counts */
	uint32_t uid;
	uint32_t sigpending;
	uint64_t mq_bytes;
};

/* The entry of uid, or NULL when nothing is charged to it. */
struct user_count *user_count_find(struct kernel *k, uint32_t uid);
/* Charges one queued signal unless that would pass `limit`; NULL then, or without memory. */
struct user_count *user_count_signal(struct kernel *k, uint32_t uid, uint64_t limit);
void user_uncount_signal(struct kernel *k, struct user_count *u);
/* 0, or -EMFILE when the sum would pass `limit`, -ENOMEM. */
int user_count_mq(struct kernel *k, uint32_t uid, uint64_t bytes, uint64_t limit);
void user_uncount_mq(struct kernel *k, uint32_t uid, uint64_t bytes);

#endif
