/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on another process's memory: process_vm_readv/writev, process_madvise. */
#include <errno.h>
#include <linux/mman.h>
#include <stdlib.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"
#include "sentry/task/pidfd.h"

#define BOUNCE	  (64u << 10)
#define IOV_LIMIT 1024

/* A guest iovec array that describes some other address space: only copied and checked. */
static int import_remote(struct task *t, uint64_t uiov, uint64_t count, struct uio_seg **out)
{
	struct uio_seg *segs;

	if (count > IOV_LIMIT)
		return -EINVAL;
	segs = malloc(count * sizeof(*segs) + 1);
	if (!segs)
		return -ENOMEM;
	if (count && copy_from_user(t, segs, uiov, count * sizeof(*segs))) {
		free(segs);
		return -EFAULT;
	}
	for (uint64_t i = 0; i < count; i++) {
		if ((int64_t)segs[i].len < 0) {
			free(segs);
			return -EINVAL;
		}
	}
	*out = segs;
	return 0;
}

/* Moves bytes between the local uio and the remote segments until one of them ends. */
static long transfer(struct mm *mm, struct uio *u, const struct uio_seg *segs, uint64_t count,
		     int writing, char *buf)
{
	long done = 0, err = 0;

	for (uint64_t i = 0; i < count && u->left && !err; i++) {
		uint64_t at = segs[i].base, left = segs[i].len;

		while (left && u->left && !err) {
			size_t n = left < BOUNCE ? left : BOUNCE;
			ssize_t r, w;

			if (n > u->left)
				n = u->left;
			r = writing ? uio_copy_in(u, buf, n) : mm_read(mm, buf, at, n);
			if (r <= 0) {
				err = -EFAULT;
				break;
			}
			w = writing ? mm_write(mm, at, buf, (size_t)r)
				    : uio_copy_out(u, buf, (size_t)r);
			if (w < (ssize_t)n)
				err = -EFAULT;
			if (w > 0) {
				done += w;
				at += (uint64_t)w;
				left -= (uint64_t)w;
			}
		}
	}
	return done ? done : err;
}

static long process_vm(struct task *t, const struct sysargs *a, int writing)
{
	struct uio_seg *remote = NULL;
	struct uio_user local;
	struct task *other;
	struct mm *mm;
	char *buf;
	long r;

	if (a->a[5])
		return -EINVAL;
	r = uio_import_iovec(t, &local, a->a[1], a->a[2]);
	if (r)
		return r;
	r = import_remote(t, a->a[3], a->a[4], &remote);
	if (r || !local.u.left || !a->a[4])
		goto out_local;
	other = task_find(t, (int)a->a[0]);
	if (!other) {
		r = -ESRCH;
		goto out_local;
	}
	r = task_may_access(t, other, 1);
	mm = r ? NULL : task_mm_get(other);
	task_put(other);
	if (!mm) {
		r = r ? r : -ESRCH;
		goto out_local;
	}
	buf = malloc(BOUNCE);
	r = buf ? transfer(mm, &local.u, remote, a->a[4], writing, buf) : -ENOMEM;
	free(buf);
	mm_put(mm);
out_local:
	free(remote);
	uio_user_free(&local);
	return r;
}

SYSCALL_HANDLER(process_vm_readv)
{
	return process_vm(t, a, 0);
}

SYSCALL_HANDLER(process_vm_writev)
{
	return process_vm(t, a, 1);
}

/* Advice that may be given to another process: hints that lose nothing. */
static int advice_for_others(int advice)
{
	return advice == MADV_COLD || advice == MADV_PAGEOUT || advice == MADV_WILLNEED ||
	       advice == 25; /* MADV_COLLAPSE */
}

/*
 * On another process the advice is checked and then dropped: its memory can only be ordered about
 * by its own threads, and these four are hints.
 */
static long advise_segments(struct task *t, struct mm *mm, const struct uio_seg *segs,
			    uint64_t count, int advice)
{
	uint64_t done = 0;

	for (uint64_t i = 0; i < count; i++) {
		int err = 0;

		if (mm == t->mm) {
			err = mm_advise(t, segs[i].base, segs[i].len, advice);
		} else if (segs[i].base & (GUEST_PAGE_SIZE - 1)) {
			err = -EINVAL;
		} else if (!guest_range_ok(segs[i].base, segs[i].len)) {
			err = -ENOMEM;
		} else {
			lock_acquire(&mm->lock);
			if (!mm_range_mapped(mm, segs[i].base, segs[i].len))
				err = -ENOMEM;
			lock_release(&mm->lock);
		}
		if (err)
			return done ? (long)done : err;
		done += segs[i].len;
	}
	return (long)done;
}

/* The leader of the process behind a pidfd: a reference or ERR_PTR. */
static struct task *pidfd_task(struct task *t, int fd)
{
	struct pid *p = pidfd_get_pid(t, fd, NULL);
	struct task *other = NULL;

	if (IS_ERR(p))
		return ERR_PTR(PTR_ERR(p));
	lock_acquire(&t->k->tasks_lock);
	if (p->tg && p->tg->leader)
		other = task_get(p->tg->leader);
	lock_release(&t->k->tasks_lock);
	pid_put(p);
	return other ? other : ERR_PTR(-ESRCH);
}

SYSCALL_HANDLER(process_madvise)
{
	struct uio_seg *segs = NULL;
	struct task *other;
	struct mm *mm;
	int advice = (int)a->a[3];
	long r;

	if ((uint32_t)a->a[4])
		return -EINVAL;
	r = import_remote(t, a->a[1], a->a[2], &segs);
	if (r)
		return r;
	other = pidfd_task(t, (int)a->a[0]);
	if (IS_ERR(other)) {
		free(segs);
		return PTR_ERR(other);
	}
	r = task_may_access(t, other, 0);
	mm = r ? NULL : task_mm_get(other);
	if (!r && !mm)
		r = -ESRCH;
	else if (!r && mm != t->mm && !advice_for_others(advice))
		r = -EINVAL;
	else if (!r && mm != t->mm && !cred_has_cap(task_cred(t), CAP_SYS_NICE))
		r = -EPERM;
	else if (!r)
		r = advise_segments(t, mm, segs, a->a[2], advice);
	if (mm)
		mm_put(mm);
	task_put(other);
	free(segs);
	return r;
}
