/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX message queues as files of the mqueue filesystem. One instance (superblock) per IPC
 * namespace; mounting the filesystem shows the caller's. Names are entries of its root directory,
 * with ordinary permissions. Nothing blocks: -EAGAIN when a queue is full or empty, and the caller
 * waits with poll.
 */
#ifndef CAISSON_MQUEUE_H
#define CAISSON_MQUEUE_H

#include "vfs/vfs.h"

extern const struct fs_type g_mqueue_type;

#define MQ_PRIO_LIMIT	 32768u
#define MQ_DEFAULT_COUNT 10
#define MQ_DEFAULT_SIZE	 8192
#define MQ_HARD_COUNT	 65536
#define MQ_HARD_SIZE	 (16 << 20)
#define MQ_QUEUES_MAX	 256

struct mq_limits {
	int64_t max_count, msg_size;
};

/* A new, empty instance. */
struct superblock *mqueue_sb_new(struct vfs *vfs);
/* The instance of the calling task's IPC namespace: a reference or ERR_PTR. The sentry has it. */
struct superblock *mqueue_sb_of_caller(struct vfs *vfs) __attribute__((weak));
/* What a queue of these limits charges its user (RLIMIT_MSGQUEUE): 0, or -EINVAL/-EOVERFLOW. */
int mqueue_cost(const struct mq_limits *l, uint64_t *bytes);
/* A queue that was charged `bytes` is gone. The sentry has it. */
void mqueue_uncharge(uint32_t uid, uint64_t bytes) __attribute__((weak));
/* Charges a queue that is about to be made; -EMFILE. The sentry has it. */
int mqueue_charge(const struct cred *cred, uint64_t bytes) __attribute__((weak));
/* Limits of the next queue this thread creates by open(O_CREAT); NULL: the defaults. */
void mqueue_next_limits(const struct mq_limits *l);

int file_is_mqueue(const struct file *f);
/* A message of `size` bytes: 0, -EAGAIN (full), -EMSGSIZE, -ENOMEM. */
int mqueue_send(struct file *f, const void *data, size_t size, uint32_t prio);
/*
 * The oldest message of the highest priority: *data is the caller's to free. 0 or -EAGAIN.
 * mqueue_msg_size() says how large a buffer must be at least.
 */
int mqueue_receive(struct file *f, void **data, size_t *size, uint32_t *prio);
int64_t mqueue_msg_size(struct file *f);
void mqueue_attr(struct file *f, struct mq_limits *l, int64_t *count);

/*
 * Notification of the first message in an empty queue nobody receives from. fire() is called once,
 * without locks, and the registration is gone by then; free() releases what it held, also when it
 * is withdrawn or replaced by nothing. owner says whose it is.
 */
struct mq_notify {
	const void *owner;
	int pid, signo, kind; /* for read(2) of the file */
	void (*fire)(struct mq_notify *n);
	void (*free)(struct mq_notify *n);
};
/* 0, -EBUSY when somebody is registered. */
int mqueue_notify_set(struct file *f, struct mq_notify *n);
/* Withdraws owner's registration, if it has one. */
void mqueue_notify_clear(struct file *f, const void *owner);
/* Who is closing a descriptor: his registration goes. The sentry has it. */
const void *mqueue_caller(void) __attribute__((weak));
/* Brackets a blocking receive: while somebody waits no notification is sent. */
void mqueue_receiver(struct file *f, int delta);

#endif
