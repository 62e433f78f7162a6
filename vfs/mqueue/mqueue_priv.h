/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the queues (mqueue.c) and their filesystem (mqueue_fs.c). */
#ifndef CAISSON_MQUEUE_PRIV_H
#define CAISSON_MQUEUE_PRIV_H

#include "vfs/mqueue/mqueue.h"

struct mq_message {
	struct list_head node;
	uint32_t prio;
	size_t size;
	char data[];
};

struct mqueue {
	struct lock lock;	   /* RANK_IPC */
	struct list_head messages; /* [lock] highest priority first, oldest first among equals */
	int64_t count;		   /* [lock] */
	uint64_t bytes;		   /* [lock] */
	int receivers;		   /* [lock] blocked in a receive */
	struct mq_notify *notify;  /* [lock] */
	struct mq_limits limits;   /* [I] */
	uint32_t owner_uid;	   /* [I] who is charged */
	uint64_t cost;		   /* [I] */
	struct waitq wq;
};

struct mqueue *mqueue_new(const struct mq_limits *l);
void mqueue_free(struct mqueue *q);
extern const struct file_ops g_mqueue_fops;

#endif
