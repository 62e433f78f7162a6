/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User and group ids, supplementary groups, capabilities: credentials(7), capabilities(7). Each
 * change copies the credentials, edits the copy and swaps it in.
 */
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"

#define UNCHANGED UINT32_MAX

SYSCALL_HANDLER(getuid)
{
	(void)a;
	return (long)task_cred(t)->uid;
}

SYSCALL_HANDLER(geteuid)
{
	(void)a;
	return (long)task_cred(t)->euid;
}

SYSCALL_HANDLER(getgid)
{
	(void)a;
	return (long)task_cred(t)->gid;
}

SYSCALL_HANDLER(getegid)
{
	(void)a;
	return (long)task_cred(t)->egid;
}

static int put_three(struct task *t, const struct sysargs *a, uint32_t x, uint32_t y, uint32_t z)
{
	if (put_user_u32(t, a->a[0], x) || put_user_u32(t, a->a[1], y) || put_user_u32(t, a->a[2], z))
		return -EFAULT;
	return 0;
}

SYSCALL_HANDLER(getresuid)
{
	const struct cred *c = task_cred(t);

	return put_three(t, a, c->uid, c->euid, c->suid);
}

SYSCALL_HANDLER(getresgid)
{
	const struct cred *c = task_cred(t);

	return put_three(t, a, c->gid, c->egid, c->sgid);
}

/* ---- changing ids ---- */

/* What leaving or entering uid 0 does to the capability sets (cap_emulate_setxuid). */
static void fix_caps(const struct cred *old, struct cred *c, int keep_caps)
{
	int was_root = old->uid == 0 || old->euid == 0 || old->suid == 0;
	int is_root = c->uid == 0 || c->euid == 0 || c->suid == 0;

	if (old->securebits & (1u << SECURE_NO_SETUID_FIXUP))
		return;
	if (was_root && !is_root) {
		if (!keep_caps)
			c->cap_permitted = c->cap_effective = 0;
		c->cap_ambient = 0;
	}
	if (old->euid == 0 && c->euid != 0)
		c->cap_effective = 0;
	if (old->euid != 0 && c->euid == 0)
		c->cap_effective = c->cap_permitted;
}

/* Capabilities on the file system user id alone (setfsuid). */
static void fix_fs_caps(const struct cred *old, struct cred *c)
{
	const uint64_t fs = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_MKNOD) | CAP_BIT(CAP_DAC_OVERRIDE) |
			    CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |
			    CAP_BIT(CAP_LINUX_IMMUTABLE) | CAP_BIT(CAP_MAC_OVERRIDE);

	if (old->securebits & (1u << SECURE_NO_SETUID_FIXUP))
		return;
	if (old->fsuid == 0 && c->fsuid != 0)
		c->cap_effective &= ~fs;
	if (old->fsuid != 0 && c->fsuid == 0)
		c->cap_effective |= c->cap_permitted & fs;
}

static void commit(struct task *t, const struct cred *old, struct cred *c)
{
	int changed = old->euid != c->euid || old->egid != c->egid || old->fsuid != c->fsuid ||
		      old->fsgid != c->fsgid || (c->cap_permitted & ~old->cap_permitted);

	/* Memory that was readable under the old identity is not under the new (commit_creds). */
	if (changed) {
		if (t->mm)
			__atomic_store_n(&t->mm->dumpable, 0, __ATOMIC_RELAXED);
		t->pdeath_signal = 0;
	}
	task_set_cred(t, c);
}

static struct cred *edit(struct task *t)
{
	return cred_dup(task_cred(t));
}

SYSCALL_HANDLER(setuid)
{
	const struct cred *old = task_cred(t);
	uint32_t uid = (uint32_t)a->a[0];
	struct cred *c;

	if (uid == UNCHANGED)
		return -EINVAL;
	if (!cred_has_cap(old, CAP_SETUID) && uid != old->uid && uid != old->suid)
		return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	if (cred_has_cap(old, CAP_SETUID))
		c->uid = c->suid = uid;
	c->euid = c->fsuid = uid;
	fix_caps(old, c, t->keep_caps);
	commit(t, old, c);
	return 0;
}

SYSCALL_HANDLER(setgid)
{
	const struct cred *old = task_cred(t);
	uint32_t gid = (uint32_t)a->a[0];
	struct cred *c;

	if (gid == UNCHANGED)
		return -EINVAL;
	if (!cred_has_cap(old, CAP_SETGID) && gid != old->gid && gid != old->sgid)
		return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	if (cred_has_cap(old, CAP_SETGID))
		c->gid = c->sgid = gid;
	c->egid = c->fsgid = gid;
	commit(t, old, c);
	return 0;
}

SYSCALL_HANDLER(setreuid)
{
	const struct cred *old = task_cred(t);
	uint32_t r = (uint32_t)a->a[0], e = (uint32_t)a->a[1];
	int able = cred_has_cap(old, CAP_SETUID);
	struct cred *c;

	if (r != UNCHANGED && r != old->uid && r != old->euid && !able)
		return -EPERM;
	if (e != UNCHANGED && e != old->uid && e != old->euid && e != old->suid && !able)
		return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	if (r != UNCHANGED)
		c->uid = r;
	if (e != UNCHANGED)
		c->euid = e;
	if (r != UNCHANGED || (e != UNCHANGED && e != old->uid))
		c->suid = c->euid;
	c->fsuid = c->euid;
	fix_caps(old, c, t->keep_caps);
	commit(t, old, c);
	return 0;
}

SYSCALL_HANDLER(setregid)
{
	const struct cred *old = task_cred(t);
	uint32_t r = (uint32_t)a->a[0], e = (uint32_t)a->a[1];
	int able = cred_has_cap(old, CAP_SETGID);
	struct cred *c;

	if (r != UNCHANGED && r != old->gid && r != old->egid && !able)
		return -EPERM;
	if (e != UNCHANGED && e != old->gid && e != old->egid && e != old->sgid && !able)
		return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	if (r != UNCHANGED)
		c->gid = r;
	if (e != UNCHANGED)
		c->egid = e;
	if (r != UNCHANGED || (e != UNCHANGED && e != old->gid))
		c->sgid = c->egid;
	c->fsgid = c->egid;
	commit(t, old, c);
	return 0;
}

static int is_one_of(uint32_t id, uint32_t x, uint32_t y, uint32_t z)
{
	return id == UNCHANGED || id == x || id == y || id == z;
}

SYSCALL_HANDLER(setresuid)
{
	const struct cred *old = task_cred(t);
	uint32_t id[3] = { (uint32_t)a->a[0], (uint32_t)a->a[1], (uint32_t)a->a[2] };
	struct cred *c;

	for (int i = 0; i < 3; i++)
		if (!is_one_of(id[i], old->uid, old->euid, old->suid) &&
		    !cred_has_cap(old, CAP_SETUID))
			return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	if (id[0] != UNCHANGED)
		c->uid = id[0];
	if (id[1] != UNCHANGED)
		c->euid = id[1];
	if (id[2] != UNCHANGED)
		c->suid = id[2];
	c->fsuid = c->euid;
	fix_caps(old, c, t->keep_caps);
	commit(t, old, c);
	return 0;
}

SYSCALL_HANDLER(setresgid)
{
	const struct cred *old = task_cred(t);
	uint32_t id[3] = { (uint32_t)a->a[0], (uint32_t)a->a[1], (uint32_t)a->a[2] };
	struct cred *c;

	for (int i = 0; i < 3; i++)
		if (!is_one_of(id[i], old->gid, old->egid, old->sgid) &&
		    !cred_has_cap(old, CAP_SETGID))
			return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	if (id[0] != UNCHANGED)
		c->gid = id[0];
	if (id[1] != UNCHANGED)
		c->egid = id[1];
	if (id[2] != UNCHANGED)
		c->sgid = id[2];
	c->fsgid = c->egid;
	commit(t, old, c);
	return 0;
}

/* Both return the old value, changed or not: there is no error return. */
SYSCALL_HANDLER(setfsuid)
{
	const struct cred *old = task_cred(t);
	uint32_t uid = (uint32_t)a->a[0], was = old->fsuid;
	struct cred *c;

	if (uid == UNCHANGED || (!is_one_of(uid, old->uid, old->euid, old->suid) && uid != was &&
				 !cred_has_cap(old, CAP_SETUID)))
		return (long)was;
	c = uid == was ? NULL : edit(t);
	if (c) {
		c->fsuid = uid;
		fix_fs_caps(old, c);
		commit(t, old, c);
	}
	return (long)was;
}

SYSCALL_HANDLER(setfsgid)
{
	const struct cred *old = task_cred(t);
	uint32_t gid = (uint32_t)a->a[0], was = old->fsgid;
	struct cred *c;

	if (gid == UNCHANGED || (!is_one_of(gid, old->gid, old->egid, old->sgid) && gid != was &&
				 !cred_has_cap(old, CAP_SETGID)))
		return (long)was;
	c = gid == was ? NULL : edit(t);
	if (c) {
		c->fsgid = gid;
		commit(t, old, c);
	}
	return (long)was;
}

/* ---- supplementary groups ---- */

SYSCALL_HANDLER(getgroups)
{
	const struct cred *c = task_cred(t);
	int size = (int)a->a[0];

	if (size < 0)
		return -EINVAL;
	if (!size)
		return (long)c->group_count;
	if ((uint32_t)size < c->group_count)
		return -EINVAL;
	if (c->group_count && copy_to_user(t, a->a[1], c->groups, c->group_count * sizeof(uint32_t)))
		return -EFAULT;
	return (long)c->group_count;
}

SYSCALL_HANDLER(setgroups)
{
	const struct cred *old = task_cred(t);
	uint32_t count = (uint32_t)a->a[0], *groups = NULL;
	struct cred *c;
	int err = 0;

	if (!cred_has_cap(old, CAP_SETGID))
		return -EPERM;
	if (count > NGROUPS_LIMIT)
		return -EINVAL;
	if (count) {
		groups = malloc(count * sizeof(*groups));
		if (!groups)
			return -ENOMEM;
		if (copy_from_user(t, groups, a->a[1], count * sizeof(*groups)))
			err = -EFAULT;
		for (uint32_t i = 0; !err && i < count; i++)
			if (groups[i] == UNCHANGED)
				err = -EINVAL;
	}
	c = err ? NULL : edit(t);
	if (!err)
		err = c ? cred_set_groups(c, groups, count) : -ENOMEM;
	free(groups);
	if (err) {
		cred_put(c);
		return err;
	}
	task_set_cred(t, c);
	return 0;
}

/* ---- capabilities ---- */

/* The header's version, as it says how many words follow; unknown ones are told the newest. */
static int cap_header(struct task *t, uint64_t addr, struct __user_cap_header_struct *h, int *words)
{
	if (copy_from_user(t, h, addr, sizeof(*h)))
		return -EFAULT;
	switch (h->version) {
	case _LINUX_CAPABILITY_VERSION_1:
		*words = 1;
		return 0;
	case _LINUX_CAPABILITY_VERSION_2:
	case _LINUX_CAPABILITY_VERSION_3:
		*words = 2;
		return 0;
	}
	if (put_user_u32(t, addr, _LINUX_CAPABILITY_VERSION_3))
		return -EFAULT;
	return -EINVAL;
}

SYSCALL_HANDLER(capget)
{
	struct __user_cap_header_struct h;
	struct __user_cap_data_struct d[2];
	uint64_t e, p, i;
	struct task *of;
	int words, err = cap_header(t, a->a[0], &h, &words);

	/* Asking with a wrong version and no data is how programs learn the right one. */
	if (err == -EINVAL && !a->a[1])
		return 0;
	if (err)
		return err;
	if (h.pid < 0)
		return -EINVAL;
	of = h.pid ? task_find(t, h.pid) : task_get(t);
	if (!of)
		return -ESRCH;
	lock_acquire(&t->k->tasks_lock);
	e = of->cred->cap_effective;
	p = of->cred->cap_permitted;
	i = of->cred->cap_inheritable;
	lock_release(&t->k->tasks_lock);
	task_put(of);
	if (!a->a[1])
		return 0;
	for (int w = 0; w < words; w++) {
		d[w].effective = (uint32_t)(e >> (32 * w));
		d[w].permitted = (uint32_t)(p >> (32 * w));
		d[w].inheritable = (uint32_t)(i >> (32 * w));
	}
	return copy_to_user(t, a->a[1], d, (size_t)words * sizeof(d[0]));
}

SYSCALL_HANDLER(capset)
{
	const struct cred *old = task_cred(t);
	struct __user_cap_header_struct h;
	struct __user_cap_data_struct d[2] = { 0 };
	uint64_t e, p, i;
	struct cred *c;
	int words, err = cap_header(t, a->a[0], &h, &words);

	if (err)
		return err;
	if (h.pid != 0 && h.pid != task_tid(t))
		return -EPERM;
	if (copy_from_user(t, d, a->a[1], (size_t)words * sizeof(d[0])))
		return -EFAULT;
	e = (d[0].effective | (uint64_t)d[1].effective << 32) & CAP_ALL_MASK;
	p = (d[0].permitted | (uint64_t)d[1].permitted << 32) & CAP_ALL_MASK;
	i = (d[0].inheritable | (uint64_t)d[1].inheritable << 32) & CAP_ALL_MASK;
	/* cap_capset: inheritable within what we have (or may get by CAP_SETPCAP) and the bounding
	 * set; permitted never grows; effective within the new permitted. */
	if (!cred_has_cap(old, CAP_SETPCAP) && (i & ~(old->cap_inheritable | old->cap_permitted)))
		return -EPERM;
	if (i & ~(old->cap_inheritable | old->cap_bounding))
		return -EPERM;
	if ((p & ~old->cap_permitted) || (e & ~p))
		return -EPERM;
	c = edit(t);
	if (!c)
		return -ENOMEM;
	c->cap_effective = e;
	c->cap_permitted = p;
	c->cap_inheritable = i;
	c->cap_ambient &= p & i;
	commit(t, old, c);
	return 0;
}
