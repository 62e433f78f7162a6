/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NUMA policy on a machine with one node, node 0. Arguments are checked as Linux checks them; a
 * policy has nowhere else to put pages, so it is accepted and has no effect. The task's own policy
 * is reported as the default.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>

#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

#define MAX_NODES_BITS 1024u
#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif
#define MPOL_WEIGHTED_INTERLEAVE_NR 6
#ifndef MPOL_F_NUMA_BALANCING
#define MPOL_F_NUMA_BALANCING (1 << 13)
#endif

/* Reads a node mask: *any set when it names a node, -EINVAL when one that is not there. */
static int get_nodes(struct task *t, uint64_t umask, uint64_t maxnode, int *any)
{
	uint64_t words[MAX_NODES_BITS / 64] = { 0 }, bits = maxnode - 1;
	size_t n;

	*any = 0;
	if (maxnode == 0 || !umask || bits == 0)
		return 0;
	if (bits > GUEST_PAGE_SIZE * 8)
		return -EINVAL;
	if (bits > MAX_NODES_BITS)
		bits = MAX_NODES_BITS;
	n = (bits + 63) / 64;
	if (copy_from_user(t, words, umask, n * 8))
		return -EFAULT;
	if (bits % 64)
		words[n - 1] &= (1ull << (bits % 64)) - 1;
	*any = words[0] & 1;
	if (words[0] & ~1ull)
		return -EINVAL;
	for (size_t i = 1; i < n; i++) {
		if (words[i])
			return -EINVAL;
	}
	return 0;
}

static int check_policy(struct task *t, uint32_t mode, uint64_t umask, uint64_t maxnode)
{
	uint32_t flags =
		mode & (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES | MPOL_F_NUMA_BALANCING);
	int any, err;

	mode &= ~flags;
	if (mode > MPOL_WEIGHTED_INTERLEAVE_NR)
		return -EINVAL;
	if ((flags & MPOL_F_STATIC_NODES) && (flags & MPOL_F_RELATIVE_NODES))
		return -EINVAL;
	if ((flags & MPOL_F_NUMA_BALANCING) && mode != MPOL_BIND && mode != MPOL_PREFERRED_MANY)
		return -EINVAL;
	err = get_nodes(t, umask, maxnode, &any);
	if (err)
		return err;
	if (mode == MPOL_DEFAULT || mode == MPOL_LOCAL)
		return any ? -EINVAL : 0;
	if (mode == MPOL_PREFERRED)
		return !any && flags ? -EINVAL : 0;
	return any ? 0 : -EINVAL;
}

SYSCALL_HANDLER(set_mempolicy)
{
	return check_policy(t, (uint32_t)a->a[0], a->a[1], a->a[2]);
}

SYSCALL_HANDLER(mbind)
{
	uint64_t start = a->a[0], len = a->a[1], flags = a->a[5], end;
	int err, mapped;

	if (flags & ~(uint64_t)(MPOL_MF_STRICT | MPOL_MF_MOVE | MPOL_MF_MOVE_ALL))
		return -EINVAL;
	if ((flags & MPOL_MF_MOVE_ALL) && !cred_has_cap(task_cred(t), CAP_SYS_NICE))
		return -EPERM;
	if (start & (GUEST_PAGE_SIZE - 1))
		return -EINVAL;
	err = check_policy(t, (uint32_t)a->a[2], a->a[3], a->a[4]);
	if (err)
		return err;
	len = (len + GUEST_PAGE_SIZE - 1) & ~(GUEST_PAGE_SIZE - 1);
	if (__builtin_add_overflow(start, len, &end))
		return -EINVAL;
	if (!len)
		return 0;
	if (!guest_range_ok(start, len))
		return -EFAULT;
	lock_acquire(&t->mm->lock);
	mapped = mm_range_mapped(t->mm, start, len);
	lock_release(&t->mm->lock);
	return mapped ? 0 : -EFAULT;
}

SYSCALL_HANDLER(set_mempolicy_home_node)
{
	uint64_t start = a->a[0], len = a->a[1];

	if (a->a[3] || (start & (GUEST_PAGE_SIZE - 1)) || a->a[2] != 0)
		return -EINVAL;
	if (len > GUEST_TASK_SIZE || !guest_range_ok(start, len))
		return -EINVAL;
	return len ? -ENOENT : 0; /* no bound policy is ever in force there */
}

SYSCALL_HANDLER(get_mempolicy)
{
	uint64_t flags = a->a[4], addr = a->a[3], zero[MAX_NODES_BITS / 64] = { 0 };
	int node_query = flags & MPOL_F_NODE;
	struct vma *v = NULL;

	if (flags & ~(uint64_t)(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED))
		return -EINVAL;
	if (a->a[1] && a->a[2] < 1)
		return -EINVAL;
	if ((flags & MPOL_F_MEMS_ALLOWED) && (flags & (MPOL_F_NODE | MPOL_F_ADDR)))
		return -EINVAL;
	if (flags & MPOL_F_ADDR) {
		lock_acquire(&t->mm->lock);
		v = vma_find(t->mm, addr);
		lock_release(&t->mm->lock);
		if (!v)
			return -EFAULT;
	} else if (addr) {
		return -EINVAL;
	}
	if (node_query && !(flags & MPOL_F_ADDR))
		return -EINVAL; /* only an interleave policy has a next node */
	if (a->a[0] && !(flags & MPOL_F_MEMS_ALLOWED) && put_user_u32(t, a->a[0], 0))
		return -EFAULT;
	if (a->a[1]) {
		uint64_t bytes = (a->a[2] - 1 + 63) / 64 * 8;

		if (flags & MPOL_F_MEMS_ALLOWED)
			zero[0] = 1;
		if (bytes > sizeof(zero)) {
			if (bytes > GUEST_PAGE_SIZE)
				return -EINVAL;
			if (clear_user(t, a->a[1] + sizeof(zero), bytes - sizeof(zero)))
				return -EFAULT;
			bytes = sizeof(zero);
		}
		if (bytes && copy_to_user(t, a->a[1], zero, bytes))
			return -EFAULT;
	}
	return 0;
}

/* The task pid names (0: the caller), checked for access: a reference or ERR_PTR. */
static struct task *numa_target(struct task *t, int pid)
{
	struct task *other = pid ? task_find(t, pid) : task_get(t);
	int err;

	if (!other)
		return ERR_PTR(-ESRCH);
	err = task_may_access(t, other, 0);
	if (!err)
		return other;
	task_put(other);
	return ERR_PTR(err);
}

SYSCALL_HANDLER(migrate_pages)
{
	struct task *other;
	int any, err = get_nodes(t, a->a[2], a->a[1], &any);

	if (!err)
		err = get_nodes(t, a->a[3], a->a[1], &any);
	if (err)
		return err;
	other = numa_target(t, (int)a->a[0]);
	if (IS_ERR(other))
		return PTR_ERR(other);
	task_put(other);
	return any ? 0 : -EINVAL;
}

SYSCALL_HANDLER(move_pages)
{
	uint64_t count = a->a[1];
	uint32_t flags = (uint32_t)a->a[5];
	struct task *other;
	struct mm *mm;
	long r = 0;

	if (flags & ~(uint32_t)(MPOL_MF_MOVE | MPOL_MF_MOVE_ALL))
		return -EINVAL;
	if ((flags & MPOL_MF_MOVE_ALL) && !cred_has_cap(task_cred(t), CAP_SYS_NICE))
		return -EPERM;
	if (count > UINT64_MAX / 8 || !guest_range_ok(a->a[2], count * 8))
		return -EFAULT;
	other = numa_target(t, (int)a->a[0]);
	if (IS_ERR(other))
		return PTR_ERR(other);
	mm = task_mm_get(other);
	task_put(other);
	if (!mm)
		return -EINVAL;
	for (uint64_t i = 0; i < count && !r; i++) {
		uint64_t page;
		uint32_t node = 0;
		int32_t status = 0;
		struct vma *v;

		if (get_user_u64(t, a->a[2] + i * 8, &page) ||
		    (a->a[3] && get_user_u32(t, a->a[3] + i * 4, &node))) {
			r = -EFAULT;
			break;
		}
		if (a->a[3] && node != 0) {
			r = -ENODEV;
			break;
		}
		lock_acquire(&mm->lock);
		v = vma_find(mm, page);
		if (!v)
			status = -EFAULT;
		lock_release(&mm->lock);
		if (put_user_u32(t, a->a[4] + i * 4, (uint32_t)status))
			r = -EFAULT;
		if (i % 256 == 255 && task_has_work(t) && !r)
			r = -EINTR;
	}
	mm_put(mm);
	return r;
}
