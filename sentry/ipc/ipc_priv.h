/* SPDX-License-Identifier: Apache-2.0 */
/* What msg.c, sem.c and shm.c share: the id tables and the permission rules. */
#ifndef CAISSON_IPC_PRIV_H
#define CAISSON_IPC_PRIV_H

#include <linux/ipc.h>

#include "platform/base/lock.h"
#include "platform/base/refs.h"
#include "sentry/ipc/ipc.h"

#define S_IRUGO_BITS 0444
#define S_IWUGO_BITS 0222

#define IPC_INDEX_BITS 15u /* Linux's IPCMNI */
#define IPC_INDEX_MAX  (1u << IPC_INDEX_BITS)

enum ipc_kind { IPC_KIND_MSG, IPC_KIND_SEM, IPC_KIND_SHM, IPC_KIND_COUNT };

/* The head of every object. All fields but ref are under the namespace's lock. */
struct ipc_obj {
	struct ref ref;
	int32_t key;
	int id;
	uint32_t uid, gid, cuid, cgid, mode;
	uint16_t seq;
	int removed; /* by IPC_RMID: no longer in the table, calls give EIDRM */
	int64_t ctime;
};

struct ipc_ids {
	struct ipc_obj **slot; /* by index */
	unsigned int cap, used, limit;
	uint16_t next_seq;
	void (*free)(struct ipc_obj *o); /* the last reference; no lock held */
};

struct ipc_ns {
	struct ref ref;
	struct kernel *k;
	uint64_t ns_id;
	struct lock lock;		    /* RANK_IPC */
	struct ipc_ids ids[IPC_KIND_COUNT]; /* [lock] */
	uint64_t shm_pages;		    /* [lock] of all segments */
	struct mount *mq_mount;		    /* [lock] */
};

int64_t ipc_now(struct kernel *k); /* seconds, CLOCK_REALTIME */
/* 0 or -EACCES; flags: the rwx bits wanted, in any of the three positions. [ns] */
int ipc_permission(struct task *t, const struct ipc_obj *o, int flags);
/* For IPC_SET and IPC_RMID: owner, creator or CAP_SYS_ADMIN, else -EPERM. [ns] */
int ipc_may_change(struct task *t, const struct ipc_obj *o);
/* The object called id: a borrowed pointer, or ERR_PTR(-EINVAL). [ns] */
struct ipc_obj *ipc_find(struct ipc_ns *ns, enum ipc_kind kind, int id);
/* By index, for *_STAT; NULL when the slot is free. [ns] */
struct ipc_obj *ipc_at(struct ipc_ns *ns, enum ipc_kind kind, unsigned int index);
int ipc_max_index(struct ipc_ns *ns, enum ipc_kind kind);
/*
 * The rules of msgget & co. An existing object: its id, after `check` (0 or errno) and permissions.
 * Else -ENOENT, or -EAGAIN: the caller makes a new one and calls ipc_add. [ns]
 */
long ipc_lookup_key(struct task *t, struct ipc_ns *ns, enum ipc_kind kind, int32_t key, int flags,
		    int (*check)(struct ipc_obj *o, uint64_t arg), uint64_t arg);
/* Enters o (whose reference the table takes over): its id, or -ENOSPC, -ENOMEM. [ns] */
long ipc_add(struct task *t, struct ipc_ns *ns, enum ipc_kind kind, struct ipc_obj *o, int32_t key,
	     int flags);
/* Takes o out of the table; the table's reference is the caller's then. [ns] */
void ipc_unlink(struct ipc_ns *ns, enum ipc_kind kind, struct ipc_obj *o);
void ipc_obj_put(struct ipc_ns *ns, enum ipc_kind kind, struct ipc_obj *o); /* no lock held */
struct ipc64_perm;
void ipc_fill_perm(const struct ipc_obj *o, struct ipc64_perm *p);
/* IPC_SET's part of the permissions. [ns] */
int ipc_set_perm(struct task *t, struct ipc_obj *o, const struct ipc64_perm *p);
/* Reads bit 8 of cmd away (IPC_64, which is all there is). */
static inline int ipc_cmd(int cmd)
{
	return cmd & ~IPC_64;
}

/* Per kind: frees, and what a dying namespace does. */
void ipc_msg_free(struct ipc_obj *o);
void ipc_sem_free(struct ipc_obj *o);
void ipc_shm_free(struct ipc_obj *o);

#endif
