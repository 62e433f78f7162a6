/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPC namespaces and SysV IPC: message queues, semaphores, shared memory. All state of a namespace
 * is under its one lock (RANK_IPC). Objects are found by id or key and stay alive, though removed,
 * while somebody waits on them or has them attached.
 */
#ifndef CAISSON_IPC_H
#define CAISSON_IPC_H

#include <stdint.h>

#include "platform/base/strbuf.h"
#include "sentry/task/task.h"

struct ipc_ns;

struct ipc_ns *ipc_ns_new(struct kernel *k); /* CLONE_NEWIPC; NULL without memory */
struct ipc_ns *ipc_ns_get(struct ipc_ns *ns);
void ipc_ns_put(struct ipc_ns *ns);
uint64_t ipc_ns_id(struct ipc_ns *ns); /* inode number of /proc/PID/ns/ipc */
/* The namespace of t: t->ipc, or the sandbox's first one. Borrowed. */
struct ipc_ns *ipc_ns_of(struct task *t);
struct ipc_ns *ipc_ns_initial(struct kernel *k); /* made when first asked for; borrowed */

/* /proc/sysvipc/{msg,sem,shm} as t sees them. */
void ipc_show_msg(struct task *t, struct strbuf *sb);
void ipc_show_sem(struct task *t, struct strbuf *sb);
void ipc_show_shm(struct task *t, struct strbuf *sb);

/* The calls, with the arguments of their system calls. */
long ipc_msgget(struct task *t, int32_t key, int flags);
long ipc_msgsnd(struct task *t, int id, int64_t type, uint64_t text, uint64_t size, int flags);
/* *type is set; text receives the bytes. */
long ipc_msgrcv(struct task *t, int id, uint64_t text, uint64_t size, int64_t want, int flags,
		int64_t *type);
long ipc_msgctl(struct task *t, int id, int cmd, uint64_t buf);

struct sem_op {
	uint16_t num;
	int16_t op, flags;
};
long ipc_semget(struct task *t, int32_t key, int count, int flags);
long ipc_semop(struct task *t, int id, struct sem_op *ops, unsigned int count, uint64_t deadline);
long ipc_semctl(struct task *t, int id, int num, int cmd, uint64_t arg);

long ipc_shmget(struct task *t, int32_t key, uint64_t size, int flags);
long ipc_shmat(struct task *t, int id, uint64_t addr, int flags);
long ipc_shmdt(struct task *t, uint64_t addr);
long ipc_shmctl(struct task *t, int id, int cmd, uint64_t buf);

/* The internal mount of POSIX message queues of a namespace (vfs/mqueue): a reference, or ERR_PTR.
 */
struct mount *ipc_ns_mq_mount(struct ipc_ns *ns);

#endif
