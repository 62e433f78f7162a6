/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, id tables and permissions of SysV IPC (Linux: ipc/util.c). */
#include <linux/ipc.h>
#include <asm/ipcbuf.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sentry/ipc/ipc_priv.h"
#include "sentry/time/timers.h"

#define MSG_LIMIT	32000u
#define SEM_LIMIT	32000u
#define SHM_LIMIT	4096u
#define IPC_NS_FIRST_ID 0xeffffff9ull /* of the initial namespace, as Linux shows it */

struct ipc_ns *ipc_ns_new(struct kernel *k)
{
	static uint64_t next_id = IPC_NS_FIRST_ID;
	struct ipc_ns *ns = calloc(1, sizeof(*ns));

	if (!ns)
		return NULL;
	ref_init(&ns->ref);
	ns->k = k;
	ns->ns_id = __atomic_fetch_add(&next_id, 16, __ATOMIC_RELAXED);
	lock_init(&ns->lock, RANK_IPC);
	ns->ids[IPC_KIND_MSG] = (struct ipc_ids){ .limit = MSG_LIMIT, .free = ipc_msg_free };
	ns->ids[IPC_KIND_SEM] = (struct ipc_ids){ .limit = SEM_LIMIT, .free = ipc_sem_free };
	ns->ids[IPC_KIND_SHM] = (struct ipc_ids){ .limit = SHM_LIMIT, .free = ipc_shm_free };
	return ns;
}

struct ipc_ns *ipc_ns_get(struct ipc_ns *ns)
{
	ref_get(&ns->ref);
	return ns;
}

void ipc_ns_put(struct ipc_ns *ns)
{
	if (!ns || !ref_put(&ns->ref))
		return;
	for (int kind = 0; kind < IPC_KIND_COUNT; kind++) {
		struct ipc_ids *ids = &ns->ids[kind];

		for (unsigned int i = 0; i < ids->cap; i++)
			if (ids->slot[i]) {
				ids->slot[i]->removed = 1;
				ids->free(ids->slot[i]);
			}
		free(ids->slot);
	}
	if (ns->mq_mount)
		mount_put(ns->mq_mount);
	lock_destroy(&ns->lock);
	free(ns);
}

uint64_t ipc_ns_id(struct ipc_ns *ns)
{
	return ns->ns_id;
}

struct ipc_ns *ipc_ns_initial(struct kernel *k)
{
	if (!__atomic_load_n(&k->init_ipc_ns, __ATOMIC_ACQUIRE)) {
		struct ipc_ns *ns = ipc_ns_new(k), *none = NULL;

		if (ns && !__atomic_compare_exchange_n(&k->init_ipc_ns, &none, ns, 0,
						       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			ipc_ns_put(ns);
	}
	return k->init_ipc_ns;
}

struct ipc_ns *ipc_ns_of(struct task *t)
{
	return t->ipc ? t->ipc : ipc_ns_initial(t->k);
}

int64_t ipc_now(struct kernel *k)
{
	return (int64_t)(kernel_real_now(k) / NSEC_PER_SEC);
}

int ipc_permission(struct task *t, const struct ipc_obj *o, int flags)
{
	const struct cred *c = task_cred(t);
	uint32_t wanted = ((uint32_t)flags >> 6 | (uint32_t)flags >> 3 | (uint32_t)flags) & 7;
	uint32_t granted = o->mode;

	if (c->euid == o->cuid || c->euid == o->uid)
		granted >>= 6;
	else if (cred_in_egroup(c, o->cgid) || cred_in_egroup(c, o->gid))
		granted >>= 3;
	if ((wanted & ~granted) && !cred_has_cap(c, CAP_IPC_OWNER))
		return -EACCES;
	return 0;
}

int ipc_may_change(struct task *t, const struct ipc_obj *o)
{
	const struct cred *c = task_cred(t);

	return c->euid == o->cuid || c->euid == o->uid || cred_has_cap(c, CAP_SYS_ADMIN) ? 0
											 : -EPERM;
}

struct ipc_obj *ipc_at(struct ipc_ns *ns, enum ipc_kind kind, unsigned int index)
{
	struct ipc_ids *ids = &ns->ids[kind];

	lock_assert_held(&ns->lock);
	return index < ids->cap ? ids->slot[index] : NULL;
}

struct ipc_obj *ipc_find(struct ipc_ns *ns, enum ipc_kind kind, int id)
{
	struct ipc_obj *o = id < 0 ? NULL : ipc_at(ns, kind, (unsigned int)id % IPC_INDEX_MAX);

	return o && o->id == id ? o : ERR_PTR(-EINVAL);
}

int ipc_max_index(struct ipc_ns *ns, enum ipc_kind kind)
{
	struct ipc_ids *ids = &ns->ids[kind];

	for (unsigned int i = ids->cap; i > 0; i--)
		if (ids->slot[i - 1])
			return (int)i - 1;
	return 0;
}

static struct ipc_obj *find_key(struct ipc_ids *ids, int32_t key)
{
	for (unsigned int i = 0; i < ids->cap; i++)
		if (ids->slot[i] && ids->slot[i]->key == key)
			return ids->slot[i];
	return NULL;
}

long ipc_lookup_key(struct task *t, struct ipc_ns *ns, enum ipc_kind kind, int32_t key, int flags,
		    int (*check)(struct ipc_obj *o, uint64_t arg), uint64_t arg)
{
	struct ipc_obj *o;
	int err;

	lock_assert_held(&ns->lock);
	if (key == IPC_PRIVATE)
		return -EAGAIN;
	o = find_key(&ns->ids[kind], key);
	if (!o)
		return flags & IPC_CREAT ? -EAGAIN : -ENOENT;
	if ((flags & IPC_CREAT) && (flags & IPC_EXCL))
		return -EEXIST;
	err = check ? check(o, arg) : 0;
	if (!err)
		err = ipc_permission(t, o, flags);
	return err ? err : o->id;
}

/* A free index, growing the table when it is full. */
static long free_index(struct ipc_ids *ids)
{
	unsigned int cap;
	void *slot;

	if (ids->used >= ids->limit)
		return -ENOSPC;
	for (unsigned int i = 0; i < ids->cap; i++)
		if (!ids->slot[i])
			return i;
	cap = ids->cap ? ids->cap * 2 : 16;
	slot = realloc(ids->slot, cap * sizeof(*ids->slot));
	if (!slot)
		return -ENOMEM;
	ids->slot = slot;
	memset(ids->slot + ids->cap, 0, (cap - ids->cap) * sizeof(*ids->slot));
	cap = ids->cap;
	ids->cap = cap ? cap * 2 : 16;
	return cap;
}

long ipc_add(struct task *t, struct ipc_ns *ns, enum ipc_kind kind, struct ipc_obj *o, int32_t key,
	     int flags)
{
	const struct cred *c = task_cred(t);
	struct ipc_ids *ids = &ns->ids[kind];
	long i = free_index(ids);

	lock_assert_held(&ns->lock);
	if (i < 0)
		return i;
	ref_init(&o->ref);
	o->key = key;
	o->uid = o->cuid = c->euid;
	o->gid = o->cgid = c->egid;
	o->mode = (uint32_t)flags & 0777;
	o->seq = ids->next_seq;
	ids->next_seq = (uint16_t)((ids->next_seq + 1) & 0x7fff);
	o->id = (int)(o->seq * (unsigned int)IPC_INDEX_MAX + (unsigned int)i);
	o->ctime = ipc_now(t->k);
	ids->slot[i] = o;
	ids->used++;
	return o->id;
}

void ipc_unlink(struct ipc_ns *ns, enum ipc_kind kind, struct ipc_obj *o)
{
	struct ipc_ids *ids = &ns->ids[kind];

	lock_assert_held(&ns->lock);
	ids->slot[(unsigned int)o->id % IPC_INDEX_MAX] = NULL;
	ids->used--;
	o->removed = 1;
}

void ipc_obj_put(struct ipc_ns *ns, enum ipc_kind kind, struct ipc_obj *o)
{
	if (ref_put(&o->ref))
		ns->ids[kind].free(o);
}

void ipc_fill_perm(const struct ipc_obj *o, struct ipc64_perm *p)
{
	memset(p, 0, sizeof(*p));
	p->key = o->key;
	p->uid = o->uid;
	p->gid = o->gid;
	p->cuid = o->cuid;
	p->cgid = o->cgid;
	p->mode = o->mode;
	p->seq = o->seq;
}

int ipc_set_perm(struct task *t, struct ipc_obj *o, const struct ipc64_perm *p)
{
	if (p->uid == (uint32_t)-1 || p->gid == (uint32_t)-1)
		return -EINVAL;
	o->uid = p->uid;
	o->gid = p->gid;
	o->mode = (o->mode & ~0777u) | (p->mode & 0777);
	o->ctime = ipc_now(t->k);
	return 0;
}
