/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory calls of a task on its own address space; the work is sentry/mm. Calls on other
 * processes' memory are sys_vm.c, NUMA policy sys_numa.c.
 */
#include <errno.h>
#include <linux/memfd.h>
#include <linux/mman.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/tmpfs/tmpfs.h"

#define PAGE_OFF(v) ((v) & (GUEST_PAGE_SIZE - 1))

SYSCALL_HANDLER(mmap)
{
	int flags = (int)a->a[3];
	struct file *f = NULL;
	int64_t r;

	if (PAGE_OFF(a->a[5]))
		return -EINVAL;
	if (!(flags & MAP_ANONYMOUS)) {
		f = fd_get(t, (int)a->a[4]);
		if (!f)
			return -EBADF;
	}
	r = mm_map(t, a->a[0], a->a[1], (int)a->a[2], flags, f, f ? a->a[5] : 0);
	if (f)
		file_put(f);
	return r;
}

SYSCALL_HANDLER(munmap)
{
	return mm_unmap(t, a->a[0], a->a[1]);
}

/* Untagged prot: upper bits count, so that a wild value is refused. */
static int prot_arg(uint64_t v)
{
	return v > 0x7fffffffu ? 0x40000000 : (int)v;
}

SYSCALL_HANDLER(mprotect)
{
	return mm_protect(t, a->a[0], a->a[1], prot_arg(a->a[2]), -1);
}

/* Protection keys need the platform's help to follow PKRU: offered as on a CPU without them. */
SYSCALL_HANDLER(pkey_alloc)
{
	if (a->a[0] || (a->a[1] & ~3ull))
		return -EINVAL;
	return -ENOSPC;
}

SYSCALL_HANDLER(pkey_free)
{
	return -EINVAL;
}

SYSCALL_HANDLER(pkey_mprotect)
{
	int pkey = (int)a->a[3];

	if (pkey != -1 && pkey != 0)
		return -EINVAL;
	return mm_protect(t, a->a[0], a->a[1], prot_arg(a->a[2]), pkey);
}

SYSCALL_HANDLER(mremap)
{
	uint64_t flags = a->a[3];

	if (flags > 0x7fffffffu)
		return -EINVAL;
	return mm_remap(t, a->a[0], a->a[1], a->a[2], (int)flags, a->a[4]);
}

SYSCALL_HANDLER(brk)
{
	return (long)mm_brk(t, a->a[0]);
}

SYSCALL_HANDLER(madvise)
{
	return mm_advise(t, a->a[0], a->a[1], (int)a->a[2]);
}

SYSCALL_HANDLER(mincore)
{
	return mm_incore(t, a->a[0], a->a[1], a->a[2]);
}

SYSCALL_HANDLER(msync)
{
	return mm_sync(t, a->a[0], a->a[1], (int)a->a[2]);
}

SYSCALL_HANDLER(mlock)
{
	return mm_lock_range(t, a->a[0], a->a[1], VMA_LOCKED);
}

SYSCALL_HANDLER(mlock2)
{
	if ((int)a->a[2] & ~MLOCK_ONFAULT)
		return -EINVAL;
	return mm_lock_range(t, a->a[0], a->a[1],
			     VMA_LOCKED | ((int)a->a[2] & MLOCK_ONFAULT ? VMA_LOCKONFAULT : 0));
}

SYSCALL_HANDLER(munlock)
{
	return mm_lock_range(t, a->a[0], a->a[1], 0);
}

SYSCALL_HANDLER(mlockall)
{
	int flags = (int)a->a[0];

	if (!flags || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) || flags == MCL_ONFAULT)
		return -EINVAL;
	if (!cred_has_cap(task_cred(t), CAP_IPC_LOCK) && rlimit_cur(t, RLIMIT_MEMLOCK) == 0)
		return -EPERM;
	return mm_lock_all(t, flags);
}

SYSCALL_HANDLER(munlockall)
{
	return mm_lock_all(t, 0);
}

SYSCALL_HANDLER(mseal)
{
	if (a->a[2])
		return -EINVAL;
	return mm_seal(t, a->a[0], a->a[1]);
}

/*
 * remap_file_pages(2), emulated as Linux does since 4.0: a fresh shared mapping of the page range
 * over the old one.
 */
SYSCALL_HANDLER(remap_file_pages)
{
	uint64_t start = a->a[0] & ~(GUEST_PAGE_SIZE - 1), size = a->a[1] & ~(GUEST_PAGE_SIZE - 1);
	struct mm *mm = t->mm;
	struct file *f = NULL;
	struct vma *v;
	int prot = 0;
	int64_t r;

	if (a->a[2] || !size || !guest_range_ok(start, size) || a->a[3] > (UINT64_MAX >> 13))
		return -EINVAL;
	lock_acquire(&mm->lock);
	v = vma_find(mm, start);
	if (v && (v->flags & VMA_SHARED) && v->file && v->end >= start + size) {
		f = file_get(v->file);
		prot = (int)v->prot;
	}
	lock_release(&mm->lock);
	if (!f)
		return -EINVAL;
	r = mm_map(t, start, size, prot, MAP_SHARED | MAP_FIXED, f, a->a[3] * GUEST_PAGE_SIZE);
	file_put(f);
	return r < 0 ? r : 0;
}

/* ---- memory files ---- */

#define MFD_NAME_MAX 249 /* what NAME_MAX leaves behind "memfd:" */

SYSCALL_HANDLER(memfd_create)
{
	uint32_t flags = (uint32_t)a->a[1];
	char name[MFD_NAME_MAX + 1];
	struct file *f;
	ssize_t len;
	int fd, err;

	len = copy_string_from_user(t, name, sizeof(name), a->a[0]);
	if (len < 0)
		return len == -ENAMETOOLONG ? -EINVAL : len;
	err = tmpfs_memfd_create(t->k->vfs, name, flags, task_cred(t), &f);
	if (err)
		return err;
	fd = fd_install(t, f, 0, flags & MFD_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		file_put(f);
	return fd;
}

SYSCALL_HANDLER(map_shadow_stack)
{
	return -EOPNOTSUPP; /* as on a CPU without shadow stacks */
}
