/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New threads and processes: fork, vfork, clone, clone3 (Linux: kernel_clone, copy_process).
 *
 * The order is: check flags; build the child without anybody seeing it; take an id and link it
 * into the tree under tasks_lock, where the limits and our own death are checked; start its host
 * thread. Only the last step can fail after the child is visible, and then it is unlinked again.
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/ipc/ipc.h"
#include "sentry/syscall/syscall.h"
#include "sentry/task/pidfd.h"
#include "sentry/container.h"
#include "sentry/task/task_priv.h"
#include "vfs/dev/tty.h"

#define CLONE_NS_FLAGS                                                                         \
	((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		    CLONE_NEWPID | CLONE_NEWNET) |                                              \
	 CLONE_NEWTIME)
#define CLONE_KNOWN                                                                            \
	((uint64_t)(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_PIDFD | CLONE_PTRACE | \
		    CLONE_VFORK | CLONE_PARENT | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |   \
		    CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED |                \
		    CLONE_UNTRACED | CLONE_CHILD_SETTID | CLONE_IO) |                            \
	 CLONE_NS_FLAGS | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP)

/* ptrace: events of fork-like calls, and attaching the child. Weak: sentry/ptrace has them. */
void ptrace_clone_locked(struct task *parent, struct task *child, uint64_t flags)
	__attribute__((weak));
void ptrace_clone_event(struct task *parent, uint64_t flags, int child_tid) __attribute__((weak));
void ptrace_vfork_done_event(struct task *parent, int child_tid) __attribute__((weak));

static int check_flags(struct task *t, const struct clone_args_k *a)
{
	uint64_t f = a->flags;

	if (f & ~CLONE_KNOWN)
		return -EINVAL;
	if ((f & (CLONE_NEWNS | CLONE_FS)) == (CLONE_NEWNS | CLONE_FS))
		return -EINVAL;
	if ((f & (CLONE_NEWUSER | CLONE_FS)) == (CLONE_NEWUSER | CLONE_FS))
		return -EINVAL;
	if ((f & CLONE_THREAD) && !(f & CLONE_SIGHAND))
		return -EINVAL;
	if ((f & CLONE_SIGHAND) && !(f & CLONE_VM))
		return -EINVAL;
	/* An init's siblings would have nobody to reap them. */
	if ((f & CLONE_PARENT) && (t->tg->group_flags & TG_INIT))
		return -EINVAL;
	if ((f & CLONE_THREAD) &&
	    ((f & (CLONE_NEWUSER | CLONE_NEWPID)) || t->tg->pid_ns_for_children))
		return -EINVAL;
	if ((f & CLONE_VM) && (f & CLONE_NEWTIME))
		return -EINVAL;
	if ((f & CLONE_PIDFD) && (f & CLONE_DETACHED))
		return -EINVAL;
	if ((f & CLONE_CLEAR_SIGHAND) && (f & CLONE_SIGHAND))
		return -EINVAL;
	if ((f & CLONE_NEWIPC) && (f & CLONE_SYSVSEM))
		return -EINVAL;
	if (f & CLONE_INTO_CGROUP)
		return -EOPNOTSUPP;
	/* Not there, as with a kernel built without them. */
	if (f & (CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWTIME | CLONE_NEWCGROUP)) {
		log_once("clone: namespace flags %#llx are not supported", (unsigned long long)f);
		return -EINVAL;
	}
	if ((f & CLONE_NS_FLAGS) && !cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	return 0;
}

/* RLIMIT_NPROC counts the threads of a real user id; counted only when it could matter. [tasks] */
static int over_nproc(struct task *t)
{
	struct kernel *k = t->k;
	uint64_t limit = rlimit_cur(t, RLIMIT_NPROC), n = 0;
	const struct cred *c = task_cred(t);
	struct thread_group *tg;

	if (k->task_count < limit || cred_has_cap(c, CAP_SYS_RESOURCE) ||
	    cred_has_cap(c, CAP_SYS_ADMIN))
		return 0;
	list_for_each(tg, &k->groups, node)
		if (tg->leader && tg->leader->cred && tg->leader->cred->uid == c->uid)
			n += tg->task_count;
	return n >= limit;
}

/* ---- the parts of a child ---- */

static int copy_mm(struct task *t, struct task *c, uint64_t flags)
{
	struct context *ctx;
	int err;

	if (flags & CLONE_VM) {
		err = context_clone(t->ctx, &ctx);
		if (err)
			return err;
		c->mm = mm_get(t->mm);
	} else {
		struct mm *mm = mm_fork(t, &ctx);

		if (IS_ERR(mm))
			return (int)PTR_ERR(mm);
		c->mm = mm;
	}
	c->ctx = ctx;
	__atomic_add_fetch(&c->mm->users, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static int copy_fs(struct task *t, struct task *c, uint64_t flags)
{
	c->fs = flags & CLONE_FS ? fs_get(t->fs) : fs_dup(t->fs);
	if (!c->fs)
		return -ENOMEM;
	if (flags & CLONE_NEWNS) {
		struct mnt_ns *ns = mnt_ns_dup(c->fs->ns, &c->fs->root, &c->fs->cwd);

		if (IS_ERR(ns))
			return (int)PTR_ERR(ns);
		mnt_ns_put(c->fs->ns);
		c->fs->ns = ns;
	}
	return 0;
}

static int copy_sighand(struct task *t, struct task *c, uint64_t flags)
{
	if (flags & CLONE_SIGHAND) {
		ref_get(&t->sighand->ref);
		c->sighand = t->sighand;
		return 0;
	}
	c->sighand = sighand_dup(t->sighand, t->k);
	if (!c->sighand)
		return -ENOMEM;
	if (flags & CLONE_CLEAR_SIGHAND)
		for (int i = 0; i < LINUX_NSIG; i++)
			if (c->sighand->action[i].handler != (uint64_t)(uintptr_t)SIG_IGN)
				memset(&c->sighand->action[i], 0, sizeof(c->sighand->action[i]));
	return 0;
}

static int copy_shared(struct task *t, struct task *c, uint64_t flags)
{
	int err;

	c->files = flags & CLONE_FILES ? fdtable_get(t->files) : fdtable_dup(t->files);
	if (IS_ERR(c->files)) {
		err = (int)PTR_ERR(c->files);
		c->files = NULL;
		return err;
	}
	err = copy_fs(t, c, flags);
	if (!err)
		err = copy_sighand(t, c, flags);
	if (err)
		return err;
	c->uts = flags & CLONE_NEWUTS ? uts_dup(t->uts) : uts_get(t->uts);
	c->ipc = flags & CLONE_NEWIPC ? ipc_ns_new(t->k) : ipc_ns_get(ipc_ns_of(t));
	return c->uts && c->ipc ? 0 : -ENOMEM;
}

static void copy_misc(struct task *t, struct task *c, const struct clone_args_k *a)
{
	uint64_t flags = a->flags;

	c->regs = t->regs;
	c->regs.rax = 0;
	c->regs.orig_rax = (uint64_t)-1;
	if (a->stack)
		c->regs.rsp = a->stack + a->stack_size;
	if (flags & CLONE_SETTLS)
		c->regs.fs_base = a->tls;
	c->cred = cred_get(t->cred);
	c->blocked = t->blocked;
	/* A vfork child may not use the parent's handler stack by accident; others on VM neither. */
	if ((flags & (CLONE_VM | CLONE_VFORK)) != CLONE_VM)
		c->altstack = t->altstack;
	memcpy(c->comm, t->comm, sizeof(c->comm));
	c->set_child_tid = flags & CLONE_CHILD_SETTID ? a->child_tid : 0;
	c->clear_child_tid = flags & CLONE_CHILD_CLEARTID ? a->child_tid : 0;
	if (!(flags & CLONE_VM)) {
		c->rseq_addr = t->rseq_addr;
		c->rseq_len = t->rseq_len;
		c->rseq_sig = t->rseq_sig;
	}
	c->no_new_privs = t->no_new_privs;
	c->personality = t->personality;
	c->keep_caps = t->keep_caps;
	c->timer_slack_ns = t->timer_slack_ns;
	c->nice = t->nice;
	c->sched_policy = t->sched_policy;
	c->rt_priority = t->rt_priority;
	c->ioprio = t->ioprio;
	if (t->sched_reset_on_fork) {
		if (c->sched_policy == SCHED_FIFO || c->sched_policy == SCHED_RR) {
			c->sched_policy = SCHED_OTHER;
			c->rt_priority = 0;
			c->nice = 0;
		} else if (c->nice < 0) {
			c->nice = 0;
		}
	}
	memcpy(c->cpu_affinity, t->cpu_affinity, sizeof(c->cpu_affinity));
}

static void copy_group(struct task *t, struct thread_group *tg, const struct clone_args_k *a)
{
	struct thread_group *from = t->tg;

	tg->exit_signal = a->flags & CLONE_PARENT ? from->exit_signal : a->exit_signal;
	lock_acquire(&from->rlimit_lock);
	memcpy(tg->rlimits, from->rlimits, sizeof(tg->rlimits));
	lock_release(&from->rlimit_lock);
	tg->oom_score_adj = from->oom_score_adj;
	tg->container = from->container ? container_get(from->container) : NULL;
	tg->personality_inherit = from->personality_inherit;
	if (timers_group_init)
		timers_group_init(tg);
	if ((a->flags & CLONE_SYSVSEM) && sysv_group_share_undo)
		sysv_group_share_undo(tg, from);
}

/* ---- publishing ---- */

static void link_group(struct task *t, struct task *c, const struct clone_args_k *a)
{
	struct thread_group *tg = c->tg, *from = t->tg;

	tg->pid = pid_get(c->pid);
	c->pid->tg = tg;
	tg->leader = c;
	tg->parent = a->flags & CLONE_PARENT ? from->parent : from;
	tg->child_of_thread = a->flags & CLONE_PARENT ? from->child_of_thread : t;
	if (tg->parent)
		list_add_tail(&tg->sibling, &tg->parent->children);
	list_add_tail(&tg->node, &t->k->groups);
	tg_get(tg); /* the tree's */
	if (!c->pid_ns->reaper && c->pid->numbers[c->pid->level].nr == 1) {
		c->pid_ns->reaper = tg;
		tg->group_flags |= TG_INIT;
	}
	tg_join_pgrp(tg, pid_get(from->pgrp));
	tg_join_session(tg, pid_get(from->session));
	tg->ctty = from->ctty ? tty_get(from->ctty) : NULL;
}

static int over_pids_limit(const struct container *c)
{
	return c && (c->ending || (c->pids_limit && c->task_count >= c->pids_limit));
}

/* Gives the child its id and its place in the tree. */
static int publish(struct task *t, struct task *c, const struct clone_args_k *a)
{
	struct kernel *k = t->k;
	struct pid *pid;
	int err = 0;

	lock_acquire(&k->tasks_lock);
	if (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) & TASK_WORK_EXIT)
		err = -ERESTARTNOINTR;
	/* A fork that a signal raced with starts over after the handler (signals sent to a group
	 * must reach all its future members, or none). */
	else if (!(a->flags & CLONE_THREAD) &&
		 (__atomic_load_n(&t->work, __ATOMIC_SEQ_CST) & TASK_WORK_SIGNAL))
		err = -ERESTARTNOINTR;
	else if (over_pids_limit(t->tg->container) || over_nproc(t))
		err = -EAGAIN;
	else if (c->pid_ns != t->k->init_pid_ns && c->pid_ns->table_used && !c->pid_ns->reaper)
		err = -ENOMEM; /* its init is dead */
	if (err)
		goto out;
	pid = pid_alloc(c->pid_ns, a->set_tid, a->set_tid_count);
	if (IS_ERR(pid)) {
		err = (int)PTR_ERR(pid);
		goto out;
	}
	c->pid = pid;
	if (!(a->flags & CLONE_THREAD))
		link_group(t, c, a);
	task_get(c); /* the tree's */
	task_link(c);
	if (a->flags & CLONE_VFORK)
		c->vfork_parent = task_get(t);
	if (a->flags & CLONE_THREAD)
		signal_task_join_stop_locked(c);
	if (ptrace_clone_locked)
		ptrace_clone_locked(t, c, a->flags);
	__atomic_add_fetch(&k->total_forks, 1, __ATOMIC_RELAXED);
out:
	lock_release(&k->tasks_lock);
	return err;
}

static void unpublish(struct task *c)
{
	struct thread_group *tg = c->tg;
	struct task *vfork_parent;

	lock_acquire(&c->k->tasks_lock);
	tg->task_count--;
	tg->live--;
	c->k->task_count--;
	c->state = TASK_DEAD;
	vfork_parent = c->vfork_parent;
	c->vfork_parent = NULL;
	if (tg->leader == c) {
		struct pid_ns *ns = tg->pid->numbers[tg->pid->level].ns;

		if (ns->reaper == tg)
			ns->reaper = NULL;
		tg->group_flags |= TG_ZOMBIE;
		tg_release_locked(tg);
	} else {
		task_unlink_locked(c);
	}
	lock_release(&c->k->tasks_lock);
	task_put(vfork_parent);
}

/* A child that will not live: gives back what copy_mm took. */
static void drop_unborn(struct task *c)
{
	struct context *ctx = task_set_ctx(c, NULL);
	struct mm *mm = c->mm;

	if (seccomp_task_exit)
		seccomp_task_exit(c);
	c->mm = NULL;
	if (ctx)
		context_put(ctx);
	if (mm) {
		__atomic_sub_fetch(&mm->users, 1, __ATOMIC_SEQ_CST);
		mm_put(mm);
	}
	task_put(c);
}

static struct task *build(struct task *t, const struct clone_args_k *a)
{
	struct thread_group *tg;
	struct task *c;
	int err;

	tg = a->flags & CLONE_THREAD ? tg_get(t->tg) : tg_new(t->k);
	if (!tg)
		return ERR_PTR(-ENOMEM);
	c = task_new(t->k, tg);
	tg_put(tg);
	if (!c)
		return ERR_PTR(-ENOMEM);
	c->pid_ns = t->tg->pid_ns_for_children ? t->tg->pid_ns_for_children : t->pid_ns;
	if (a->flags & CLONE_NEWPID) {
		c->pid_ns = pid_ns_new(c->pid_ns);
		if (IS_ERR(c->pid_ns)) {
			err = (int)PTR_ERR(c->pid_ns);
			c->pid_ns = NULL;
			task_put(c);
			return ERR_PTR(err);
		}
	} else {
		pid_ns_get(c->pid_ns);
	}
	copy_misc(t, c, a);
	err = copy_shared(t, c, a->flags);
	if (!(a->flags & CLONE_THREAD))
		copy_group(t, tg, a);
	if (!err)
		err = copy_mm(t, c, a->flags);
	if (!err && seccomp_task_fork)
		seccomp_task_fork(c, t);
	if (err) {
		drop_unborn(c);
		return ERR_PTR(err);
	}
	return c;
}

/* ---- the call ---- */

/* The parent of a vfork sleeps until the child has left its memory; only death wakes it early. */
static void wait_vfork(struct task *t, struct task *c)
{
	while (!__atomic_load_n(&t->vfork_done, __ATOMIC_SEQ_CST))
		if (task_sleep_killable(t, NO_DEADLINE) < 0)
			break;
	struct task *mine = NULL;

	/* Killed while waiting: the child must not wake who is no longer there. */
	lock_acquire(&t->k->tasks_lock);
	if (c->vfork_parent == t) {
		mine = t;
		c->vfork_parent = NULL;
	}
	lock_release(&t->k->tasks_lock);
	task_put(mine);
}

/* The pidfd is in the table before the child runs, and its number in guest memory. */
static int make_pidfd(struct task *t, struct task *c, const struct clone_args_k *a, int fd)
{
	struct file *f = pidfd_new(t, c->pid, a->flags & CLONE_THREAD ? O_EXCL : 0);

	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	fd_publish(t, fd, f);
	return 0;
}

long task_clone(struct task *t, const struct clone_args_k *a)
{
	struct task *c;
	long r = check_flags(t, a);
	int fd = -1;

	if (r)
		return r;
	c = build(t, a);
	if (IS_ERR(c))
		return PTR_ERR(c);
	if (a->flags & CLONE_PIDFD) {
		fd = fd_reserve(t, 0, O_CLOEXEC);
		if (fd >= 0 && put_user_u32(t, a->pidfd, (uint32_t)fd)) {
			fd_unreserve(t, fd);
			fd = -EFAULT;
		}
		if (fd < 0) {
			drop_unborn(c);
			return fd;
		}
	}
	r = publish(t, c, a);
	if (r)
		goto err_fd;
	if (fd >= 0) {
		r = make_pidfd(t, c, a, fd);
		if (r)
			goto err_published;
		fd = -1;
	}
	int tid = task_tid_for(c, t);

	if (a->flags & CLONE_PARENT_SETTID)
		put_user_u32(t, a->parent_tid, (uint32_t)tid);
	t->vfork_done = 0;
	r = task_start(c);
	if (r) {
		r = -EAGAIN;
		goto err_published;
	}
	if (ptrace_clone_event && t->ptrace)
		ptrace_clone_event(t, a->flags | (a->exit_signal == SIGCHLD ? 1u << 31 : 0), tid);
	if (a->flags & CLONE_VFORK) {
		wait_vfork(t, c);
		if (ptrace_vfork_done_event && t->ptrace)
			ptrace_vfork_done_event(t, tid);
	}
	task_put(c);
	return tid;

err_published:
	unpublish(c);
err_fd:
	if (fd >= 0)
		fd_unreserve(t, fd);
	drop_unborn(c);
	return r;
}

SYSCALL_HANDLER(fork)
{
	(void)a;
	return task_clone(t, &(struct clone_args_k){ .exit_signal = SIGCHLD });
}

SYSCALL_HANDLER(vfork)
{
	(void)a;
	return task_clone(t, &(struct clone_args_k){ .flags = CLONE_VFORK | CLONE_VM,
						     .exit_signal = SIGCHLD });
}

SYSCALL_HANDLER(clone)
{
	struct clone_args_k k = {
		/* The upper half of the flag word is not looked at. */
		.flags = (uint32_t)a->a[0] & ~(uint64_t)CSIGNAL,
		.exit_signal = (int)(a->a[0] & CSIGNAL),
		.stack = a->a[1],
		.parent_tid = a->a[2],
		.pidfd = a->a[2],
		.child_tid = a->a[3],
		.tls = a->a[4],
	};

	/* The old call stores the pidfd where the parent's tid would go. */
	if ((k.flags & CLONE_PIDFD) && (k.flags & CLONE_PARENT_SETTID))
		return -EINVAL;
	return task_clone(t, &k);
}

static int check_clone3(const struct clone_args *u, size_t size)
{
	if (u->flags & ~CLONE_KNOWN)
		return -EINVAL;
	if (u->flags & (CLONE_DETACHED | (CSIGNAL & ~CLONE_NEWTIME)))
		return -EINVAL;
	if (u->exit_signal & ~(uint64_t)CSIGNAL || u->exit_signal > LINUX_NSIG)
		return -EINVAL;
	if ((u->flags & (CLONE_THREAD | CLONE_PARENT)) && u->exit_signal)
		return -EINVAL;
	if (u->set_tid_size > PID_NS_MAX_LEVEL || !u->set_tid != !u->set_tid_size)
		return -EINVAL;
	if ((u->flags & CLONE_INTO_CGROUP) && (size < CLONE_ARGS_SIZE_VER2 || u->cgroup > INT32_MAX))
		return -EINVAL;
	if (!u->stack != !u->stack_size)
		return -EINVAL;
	if (u->stack && !guest_range_ok(u->stack, u->stack_size))
		return -EINVAL;
	return 0;
}

SYSCALL_HANDLER(clone3)
{
	struct clone_args u;
	uint64_t size = a->a[1];
	struct clone_args_k k;
	int err;

	if (size > GUEST_PAGE_SIZE)
		return -E2BIG;
	if (size < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	err = copy_struct_from_user(t, &u, sizeof(u), a->a[0], size, CLONE_ARGS_SIZE_VER0);
	if (err)
		return err;
	err = check_clone3(&u, size);
	if (err)
		return err;
	k = (struct clone_args_k){
		.flags = u.flags,
		.exit_signal = (int)u.exit_signal,
		.stack = u.stack,
		.stack_size = u.stack_size,
		.tls = u.tls,
		.parent_tid = u.parent_tid,
		.child_tid = u.child_tid,
		.pidfd = u.pidfd,
		.set_tid_count = u.set_tid_size,
	};
	if (u.set_tid_size) {
		if (copy_from_user(t, k.set_tid, u.set_tid, u.set_tid_size * sizeof(int)))
			return -EFAULT;
		if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN) &&
		    !cred_has_cap(task_cred(t), CAP_CHECKPOINT_RESTORE))
			return -EPERM;
	}
	return task_clone(t, &k);
}
