/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unshare and setns. There are mount, UTS, IPC and PID namespaces; user, network, time and cgroup
 * ones are refused as a kernel built without them refuses.
 */
#include <fcntl.h>
#include <linux/sched.h>

#include "platform/base/log.h"
#include "sentry/ipc/ipc.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/pidfd.h"
#include "sentry/task/task_priv.h"

#define UNSHARE_KNOWN                                                                          \
	((uint64_t)(CLONE_THREAD | CLONE_FS | CLONE_NEWNS | CLONE_SIGHAND | CLONE_VM | CLONE_FILES | \
		    CLONE_SYSVSEM | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUSER | \
		    CLONE_NEWPID | CLONE_NEWCGROUP) |                                            \
	 CLONE_NEWTIME)
#define NS_SUPPORTED ((uint64_t)(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID))
#define NS_REFUSED                                                                      \
	((uint64_t)(CLONE_NEWNET | CLONE_NEWUSER | CLONE_NEWCGROUP) | CLONE_NEWTIME)

/* What unshare has made and not yet put into the task. */
struct fresh {
	struct fs_struct *fs;
	struct fdtable *files;
	struct uts_ns *uts;
	struct ipc_ns *ipc;
	struct pid_ns *pid;
};

static void fresh_drop(struct fresh *f)
{
	if (f->fs)
		fs_put(f->fs);
	if (f->files)
		fdtable_put(f->files);
	if (f->uts)
		uts_put(f->uts);
	if (f->ipc)
		ipc_ns_put(f->ipc);
	if (f->pid)
		pid_ns_put(f->pid);
}

static int new_mnt_ns(struct fresh *f)
{
	struct mnt_ns *ns = mnt_ns_dup(f->fs->ns, &f->fs->root, &f->fs->cwd);

	if (IS_ERR(ns))
		return (int)PTR_ERR(ns);
	mnt_ns_put(f->fs->ns);
	f->fs->ns = ns;
	return 0;
}

static int make_fresh(struct task *t, uint64_t flags, struct fresh *f)
{
	int err = 0;

	if (flags & (CLONE_FS | CLONE_NEWNS)) {
		f->fs = fs_dup(t->fs);
		if (!f->fs)
			return -ENOMEM;
		if (flags & CLONE_NEWNS)
			err = new_mnt_ns(f);
	}
	if (!err && (flags & CLONE_FILES)) {
		f->files = fdtable_dup(t->files);
		if (IS_ERR(f->files)) {
			err = (int)PTR_ERR(f->files);
			f->files = NULL;
		}
	}
	if (!err && (flags & CLONE_NEWUTS)) {
		f->uts = uts_dup(t->uts);
		err = f->uts ? 0 : -ENOMEM;
	}
	if (!err && (flags & CLONE_NEWIPC)) {
		f->ipc = ipc_ns_new(t->k);
		err = f->ipc ? 0 : -ENOMEM;
	}
	if (!err && (flags & CLONE_NEWPID)) {
		f->pid = pid_ns_new(t->pid_ns);
		if (IS_ERR(f->pid)) {
			err = (int)PTR_ERR(f->pid);
			f->pid = NULL;
		}
	}
	return err;
}

#define SWAP(x, y)                            \
	do {                                  \
		__typeof__(x) was = (x);      \
		(x) = (y);                    \
		(y) = was;                    \
	} while (0)

/* The task takes the new ones; what it had is left in f. */
static void install(struct task *t, struct fresh *f)
{
	lock_acquire(&t->k->tasks_lock);
	if (f->fs)
		SWAP(t->fs, f->fs);
	if (f->files)
		SWAP(t->files, f->files);
	if (f->uts)
		SWAP(t->uts, f->uts);
	if (f->ipc)
		SWAP(t->ipc, f->ipc);
	if (f->pid)
		SWAP(t->tg->pid_ns_for_children, f->pid);
	lock_release(&t->k->tasks_lock);
}

static int alone(struct task *t, uint64_t flags)
{
	uint32_t threads;

	lock_acquire(&t->k->tasks_lock);
	threads = t->tg->task_count;
	lock_release(&t->k->tasks_lock);
	if ((flags & (CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) && threads > 1)
		return 0;
	if ((flags & (CLONE_SIGHAND | CLONE_VM)) && ref_read(&t->sighand->ref) > 1)
		return 0;
	return !((flags & CLONE_VM) && __atomic_load_n(&t->mm->users, __ATOMIC_RELAXED) > 1);
}

SYSCALL_HANDLER(unshare)
{
	uint64_t flags = a->a[0];
	struct fresh f = { 0 };
	int err;

	if (flags & ~UNSHARE_KNOWN)
		return -EINVAL;
	if (flags & NS_REFUSED) {
		log_once("unshare: flags %#llx are not supported", (unsigned long long)flags);
		return -EINVAL;
	}
	if (!alone(t, flags))
		return -EINVAL;
	if ((flags & NS_SUPPORTED) && !cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	if ((flags & CLONE_NEWPID) && t->tg->pid_ns_for_children)
		return -EINVAL;
	if ((flags & (CLONE_NEWIPC | CLONE_SYSVSEM)) && sysv_group_exit)
		sysv_group_exit(t->tg);
	err = make_fresh(t, flags, &f);
	if (!err)
		install(t, &f);
	fresh_drop(&f);
	return err;
}

/* ---- setns, by pidfd ---- */

/* References on what `of` has of the namespaces asked for. */
static int borrow(struct task *t, struct task *of, uint64_t flags, struct fresh *f)
{
	struct fs_struct *theirs = NULL;

	lock_acquire(&t->k->tasks_lock);
	if ((flags & CLONE_NEWUTS) && of->uts)
		f->uts = uts_get(of->uts);
	if ((flags & CLONE_NEWIPC) && of->ipc)
		f->ipc = ipc_ns_get(of->ipc);
	if (flags & CLONE_NEWPID)
		f->pid = pid_ns_get(of->pid_ns);
	if ((flags & CLONE_NEWNS) && of->fs)
		theirs = fs_get(of->fs);
	lock_release(&t->k->tasks_lock);
	if (((flags & CLONE_NEWUTS) && !f->uts) || ((flags & CLONE_NEWIPC) && !f->ipc) ||
	    ((flags & CLONE_NEWNS) && !theirs)) {
		if (theirs)
			fs_put(theirs);
		return -ESRCH;
	}
	if (theirs) {
		struct mount *root = mnt_ns_root(theirs->ns);
		struct path p = { .mnt = root, .dentry = root->root };

		f->fs = fs_new(p, p, theirs->ns, t->fs->umask);
		mount_put(root);
		fs_put(theirs);
		if (!f->fs)
			return -ENOMEM;
	}
	return 0;
}

/* Only our own pid namespace or one below it may be entered. */
static int pid_ns_below(const struct pid_ns *ns, const struct pid_ns *top)
{
	while (ns && ns->level > top->level)
		ns = ns->parent;
	return ns == top;
}

SYSCALL_HANDLER(setns)
{
	struct pid *p = pidfd_get_pid(t, (int)a->a[0], NULL);
	uint64_t flags = (uint32_t)a->a[1];
	struct task *of = NULL;
	struct fresh f = { 0 };
	struct file *file;
	int err = 0;

	if (IS_ERR(p)) {
		file = fd_get(t, (int)a->a[0]);
		if (!file)
			return -EBADF;
		file_put(file);
		return -EINVAL; /* no namespace file: nsfs files can not be opened here */
	}
	if (!flags || (flags & ~(NS_SUPPORTED | NS_REFUSED)) || (flags & NS_REFUSED))
		err = -EINVAL;
	lock_acquire(&t->k->tasks_lock);
	if (!err && p->task)
		of = task_get(p->task);
	lock_release(&t->k->tasks_lock);
	if (!err && !of)
		err = -ESRCH;
	if (!err)
		err = task_may_access(t, of, 0);
	if (!err && !cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		err = -EPERM;
	if (!err && (flags & CLONE_NEWNS) && ref_read(&t->fs->ref) > 1)
		err = -EINVAL;
	if (!err)
		err = borrow(t, of, flags, &f);
	if (!err && f.pid && !pid_ns_below(f.pid, t->pid_ns))
		err = -EINVAL;
	if (!err)
		install(t, &f);
	fresh_drop(&f);
	task_put(of);
	pid_put(p);
	return err;
}
