/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of tasks: installing, inheriting, synchronising threads, and the verdict on each call.
 * Filters form a tree by `prev`; a task holds the newest one of its chain. Follows Linux's
 * kernel/seccomp.c.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "platform/base/log.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/seccomp/seccomp.h"
#include "sentry/signal/signal.h"
#include "sentry/syscall/syscall.h"

#define CACHED_CALLS	   512u
#define MAX_INSNS_PER_PATH 32768u
#define INSNS_PER_FILTER   4u /* what each filter of a chain counts on top of its length */

/* A ptrace event at a SECCOMP_RET_TRACE: 1 a tracer took it and the call goes on, 0 none listens.
 */
int ptrace_seccomp_event(struct task *t, uint32_t data) __attribute__((weak));
/* Guest calls must all come to the sentry from now on. */
void context_no_shortcuts(struct context *c) __attribute__((weak));

struct seccomp_filter {
	struct ref ref;
	struct seccomp_filter *prev;	     /* [I] a reference */
	struct seccomp_listener *listener;   /* [I] a reference, or NULL */
	uint32_t flags;			     /* [I] SECCOMP_FILTER_FLAG_* */
	uint32_t users;			     /* [a] tasks whose chain it is part of */
	uint64_t allowed[CACHED_CALLS / 64]; /* [I] calls it and all before it allow, by number */
	unsigned int len;
	struct sock_filter prog[];
};

struct seccomp_state {
	struct lock lock;	       /* RANK_LEAF */
	int mode;		       /* [lock] SECCOMP_MODE_* */
	struct seccomp_filter *filter; /* [lock] a reference, or NULL */
};

/* ---- filters ---- */

static struct seccomp_filter *filter_get(struct seccomp_filter *f)
{
	if (f)
		ref_get(&f->ref);
	return f;
}

static void filter_put(struct seccomp_filter *f)
{
	while (f && ref_put(&f->ref)) {
		struct seccomp_filter *prev = f->prev;

		seccomp_listener_put(f->listener);
		free(f);
		f = prev;
	}
}

/* Tasks under each filter of a chain, so that listeners learn when the last is gone. */
static void chain_use(struct seccomp_filter *f)
{
	for (; f; f = f->prev)
		__atomic_fetch_add(&f->users, 1, __ATOMIC_RELAXED);
}

static void chain_unuse(struct seccomp_filter *f)
{
	for (; f; f = f->prev)
		if (__atomic_fetch_sub(&f->users, 1, __ATOMIC_ACQ_REL) == 1 && f->listener)
			seccomp_listener_filter_gone(f->listener);
}

static int is_ancestor(const struct seccomp_filter *old, const struct seccomp_filter *f)
{
	if (!old)
		return 1;
	for (; f; f = f->prev)
		if (f == old)
			return 1;
	return 0;
}

static void cache_fill(struct seccomp_filter *f)
{
	for (uint32_t nr = 0; nr < CACHED_CALLS; nr++) {
		if (f->prev && !(f->prev->allowed[nr / 64] >> (nr % 64) & 1))
			continue;
		if (seccomp_bpf_always_allows(f->prog, f->len, nr, AUDIT_ARCH_X86_64))
			f->allowed[nr / 64] |= 1ull << (nr % 64);
	}
}

/* A checked filter from the guest's struct sock_fprog. */
static struct seccomp_filter *filter_from_user(struct task *t, uint64_t uprog, uint32_t flags)
{
	struct {
		uint16_t len;
		uint16_t pad[3];
		uint64_t prog;
	} fprog;
	struct seccomp_filter *f;
	int err;

	if (copy_from_user(t, &fprog, uprog, sizeof(fprog)))
		return ERR_PTR(-EFAULT);
	if (!fprog.len || fprog.len > BPF_MAXINSNS)
		return ERR_PTR(-EINVAL);
	if (!t->no_new_privs && !cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return ERR_PTR(-EACCES);
	f = calloc(1, sizeof(*f) + fprog.len * sizeof(struct sock_filter));
	if (!f)
		return ERR_PTR(-ENOMEM);
	ref_init(&f->ref);
	f->len = fprog.len;
	f->flags = flags;
	err = copy_from_user(t, f->prog, fprog.prog, f->len * sizeof(struct sock_filter));
	if (!err)
		err = seccomp_bpf_check(f->prog, f->len);
	if (err) {
		free(f);
		return ERR_PTR(err);
	}
	return f;
}

/* ---- the state of a task ---- */

/* t's state, made if need be. Called by t itself, or for a thread of its group under tasks_lock. */
static struct seccomp_state *state_of(struct task *t)
{
	struct seccomp_state *s = t->seccomp;

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (s) {
		lock_init(&s->lock, RANK_LEAF);
		__atomic_store_n(&t->seccomp, s, __ATOMIC_RELEASE);
	}
	return s;
}

int seccomp_mode(struct task *t)
{
	return t->seccomp ? t->seccomp->mode : SECCOMP_MODE_DISABLED;
}

long seccomp_prctl_get(struct task *t)
{
	return seccomp_mode(t);
}

unsigned int seccomp_filter_count(struct task *t)
{
	struct seccomp_state *s = t->seccomp;
	unsigned int n = 0;

	if (!s)
		return 0;
	lock_acquire(&s->lock);
	for (struct seccomp_filter *f = s->filter; f; f = f->prev)
		n++;
	lock_release(&s->lock);
	return n;
}

/* Consumes the reference on f. */
static void state_set(struct task *t, int mode, struct seccomp_filter *f)
{
	struct seccomp_state *s = t->seccomp;
	struct seccomp_filter *old;

	chain_use(f);
	lock_acquire(&s->lock);
	old = s->filter;
	s->filter = f;
	s->mode = mode;
	lock_release(&s->lock);
	chain_unuse(old);
	filter_put(old);
	if (context_no_shortcuts && t->ctx)
		context_no_shortcuts(t->ctx);
}

void seccomp_task_fork(struct task *child, struct task *parent)
{
	struct seccomp_state *s = parent->seccomp;
	struct seccomp_filter *f;
	int mode;

	child->seccomp = NULL;
	if (!s)
		return;
	lock_acquire(&s->lock);
	f = filter_get(s->filter);
	mode = s->mode;
	lock_release(&s->lock);
	if (!state_of(child)) {
		/* Without its filter the child must not run at all. */
		filter_put(f);
		lock_acquire(&child->k->tasks_lock);
		tg_exit_locked(child->tg, SIGKILL);
		lock_release(&child->k->tasks_lock);
		return;
	}
	state_set(child, mode, f);
}

void seccomp_task_exit(struct task *t)
{
	struct seccomp_state *s;

	lock_acquire(&t->k->tasks_lock);
	s = t->seccomp;
	t->seccomp = NULL;
	lock_release(&t->k->tasks_lock);
	if (!s)
		return;
	chain_unuse(s->filter);
	filter_put(s->filter);
	lock_destroy(&s->lock);
	free(s);
}

int seccomp_set_program(struct task *t, const struct sock_filter *prog, unsigned int len)
{
	int err = seccomp_bpf_check(prog, len);
	struct seccomp_filter *f;

	if (err)
		return err;
	f = calloc(1, sizeof(*f) + len * sizeof(*prog));
	if (!f || !state_of(t)) {
		free(f);
		return -ENOMEM;
	}
	ref_init(&f->ref);
	f->len = len;
	memcpy(f->prog, prog, len * sizeof(*prog));
	cache_fill(f);
	state_set(t, SECCOMP_MODE_FILTER, f);
	return 0;
}

long seccomp_set_strict(struct task *t)
{
	struct seccomp_state *s = state_of(t);

	if (!s)
		return -ENOMEM;
	if (s->mode == SECCOMP_MODE_FILTER)
		return -EINVAL;
	state_set(t, SECCOMP_MODE_STRICT, NULL);
	return 0;
}

/* The tid of a thread that can not follow, or 0. [tasks] */
static int cannot_sync(struct task *t, struct seccomp_filter *mine)
{
	struct task *o;

	list_for_each(o, &t->tg->tasks, tg_node) {
		struct seccomp_state *s = o->seccomp;

		if (o == t || o->state == TASK_DEAD || !s || s->mode == SECCOMP_MODE_DISABLED)
			continue;
		if (s->mode != SECCOMP_MODE_FILTER || !is_ancestor(s->filter, mine))
			return task_tid_for(o, t);
	}
	return 0;
}

/* Gives every thread of the group the caller's new filter. [tasks] */
static void sync_threads(struct task *t, struct seccomp_filter *f)
{
	struct task *o;

	list_for_each(o, &t->tg->tasks, tg_node) {
		if (o == t || o->state == TASK_DEAD)
			continue;
		if (!state_of(o)) {
			tg_exit_locked(t->tg, SIGKILL); /* no memory, and no filter is no option */
			return;
		}
		if (t->no_new_privs)
			o->no_new_privs = 1;
		state_set(o, SECCOMP_MODE_FILTER, filter_get(f));
		/* Out of guest code once, so that its shortcuts end. */
		task_wake(o);
	}
}

static int chain_too_long(const struct seccomp_filter *f)
{
	uint64_t total = 0;

	for (; f; f = f->prev)
		total += f->len + INSNS_PER_FILTER;
	return total > MAX_INSNS_PER_PATH;
}

static int has_listener(const struct seccomp_filter *f)
{
	for (; f; f = f->prev)
		if (f->listener)
			return 1;
	return 0;
}

/* Puts f on top of t's filters; consumes f on success. */
static long attach(struct task *t, struct seccomp_filter *f, uint32_t flags)
{
	struct seccomp_state *s = t->seccomp;
	long ret = 0;

	lock_acquire(&t->k->tasks_lock);
	if (s->mode == SECCOMP_MODE_STRICT) {
		ret = -EINVAL;
		goto out;
	}
	f->prev = s->filter;
	if (chain_too_long(f))
		ret = -ENOMEM;
	else if (f->listener && has_listener(f->prev))
		ret = -EBUSY;
	else if (flags & SECCOMP_FILTER_FLAG_TSYNC)
		ret = cannot_sync(t, s->filter);
	if (ret) {
		if (ret > 0 && (flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH))
			ret = -ESRCH;
		f->prev = NULL;
		goto out;
	}
	filter_get(f->prev);
	cache_fill(f);
	if (flags & SECCOMP_FILTER_FLAG_TSYNC)
		sync_threads(t, f);
	state_set(t, SECCOMP_MODE_FILTER, f);
out:
	lock_release(&t->k->tasks_lock);
	return ret;
}

#define FILTER_FLAGS                                                                               \
	(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG | SECCOMP_FILTER_FLAG_SPEC_ALLOW |    \
	 SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC_ESRCH |                      \
	 SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

static int flags_ok(uint32_t flags)
{
	if (flags & ~(uint32_t)FILTER_FLAGS)
		return 0;
	/* A positive result must not be a tid and a listener's fd at once. */
	if ((flags & SECCOMP_FILTER_FLAG_TSYNC) && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) &&
	    !(flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH))
		return 0;
	return !(flags & SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) ||
	       (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

long seccomp_set_filter(struct task *t, uint32_t flags, uint64_t uprog)
{
	struct seccomp_filter *f;
	struct file *file = NULL;
	int fd = -1;
	long ret;

	if (!flags_ok(flags))
		return -EINVAL;
	f = filter_from_user(t, uprog, flags);
	if (IS_ERR(f))
		return PTR_ERR(f);
	if (!state_of(t)) {
		ret = -ENOMEM;
		goto err;
	}
	if (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) {
		f->listener = seccomp_listener_new();
		ret = -ENOMEM;
		if (!f->listener)
			goto err;
		file = seccomp_listener_file(t, f->listener);
		ret = PTR_ERR(file);
		if (IS_ERR(file))
			goto err;
		fd = fd_reserve(t, 0, O_CLOEXEC);
		ret = fd;
		if (fd < 0)
			goto err_file;
	}
	ret = attach(t, f, flags);
	if (ret) {
		if (fd >= 0)
			fd_unreserve(t, fd);
		goto err_file;
	}
	if (fd < 0)
		return 0;
	fd_publish(t, fd, file);
	return fd;
err_file:
	if (file)
		file_put(file);
err:
	filter_put(f);
	return ret;
}

long seccomp_prctl_set(struct task *t, uint64_t mode, uint64_t arg)
{
	switch (mode) {
	case SECCOMP_MODE_STRICT:
		return seccomp_set_strict(t);
	case SECCOMP_MODE_FILTER:
		return seccomp_set_filter(t, 0, arg);
	}
	return -EINVAL;
}

/* ---- the verdict ---- */

static int strict_check(struct task *t, uint64_t nr)
{
	if (nr == SYS_read || nr == SYS_write || nr == SYS_exit || nr == SYS_rt_sigreturn)
		return 0;
	task_exit(t, SIGKILL);
}

static void send_sigsys(struct task *t, uint32_t data)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_signo = SIGSYS;
	si.si_code = 1; /* SYS_SECCOMP */
	si.si_errno = (int)data;
	si.si_call_addr = (void *)(uintptr_t)t->regs.rip;
	si.si_syscall = (int)t->regs.orig_rax;
	si.si_arch = AUDIT_ARCH_X86_64;
	signal_force(t, &si);
}

/* Runs the chain, newest first; the strictest verdict counts, the newest among equals. */
static uint32_t run_chain(struct seccomp_filter *f, const struct seccomp_data *d,
			  struct seccomp_filter **by)
{
	uint32_t ret = SECCOMP_RET_ALLOW;

	for (; f; f = f->prev) {
		uint32_t cur = seccomp_bpf_run(f->prog, f->len, d);

		if ((int32_t)(cur & SECCOMP_RET_ACTION_FULL) <
		    (int32_t)(ret & SECCOMP_RET_ACTION_FULL)) {
			ret = cur;
			*by = f;
		}
	}
	return ret;
}

__attribute__((noreturn)) static void kill_caller(struct task *t, int whole_process)
{
	log_info("task %d: killed by its seccomp filter, call %llu", task_tid(t),
		 (unsigned long long)t->regs.orig_rax);
	if (whole_process || t->tg->task_count == 1) {
		lock_acquire(&t->k->tasks_lock);
		tg_exit_locked(t->tg, SIGSYS);
		lock_release(&t->k->tasks_lock);
	}
	task_exit(t, SIGSYS);
}

/* Does what a verdict asks; f, which gave it, is a reference of ours to drop. */
static int act(struct task *t, uint32_t verdict, struct seccomp_filter *by,
	       const struct seccomp_data *d)
{
	uint32_t data = verdict & SECCOMP_RET_DATA;

	switch (verdict & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
		return 0;
	case SECCOMP_RET_LOG:
		log_info("task %d: seccomp logs call %d", task_tid(t), d->nr);
		return 0;
	case SECCOMP_RET_ERRNO:
		t->regs.rax = (uint64_t) - (int64_t)(data > MAX_ERRNO ? MAX_ERRNO : data);
		return 1;
	case SECCOMP_RET_TRAP:
		/* The handler sees the call as not begun. */
		t->regs.rax = t->regs.orig_rax;
		t->in_syscall = 0;
		send_sigsys(t, data);
		return 1;
	case SECCOMP_RET_TRACE:
		if (t->ptrace && ptrace_seccomp_event && ptrace_seccomp_event(t, data))
			return (int64_t)(int32_t)t->regs.orig_rax < 0;
		t->regs.rax = (uint64_t)-ENOSYS;
		return 1;
	case SECCOMP_RET_USER_NOTIF:
		if (by && by->listener)
			return seccomp_ask(t, by->listener, d,
					   by->flags & SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
		t->regs.rax = (uint64_t)-ENOSYS;
		return 1;
	}
	return -1; /* SECCOMP_RET_KILL_* and what nobody knows */
}

int seccomp_check(struct task *t)
{
	struct seccomp_state *s = t->seccomp;
	uint32_t nr = (uint32_t)t->regs.orig_rax, verdict;
	struct seccomp_filter *f, *by = NULL;
	struct seccomp_data d;
	int mode, skip;

	lock_acquire(&s->lock);
	mode = s->mode;
	f = s->filter;
	if (mode == SECCOMP_MODE_FILTER && nr < CACHED_CALLS &&
	    (f->allowed[nr / 64] >> (nr % 64) & 1)) {
		lock_release(&s->lock);
		return 0;
	}
	filter_get(f);
	lock_release(&s->lock);
	if (mode == SECCOMP_MODE_DISABLED)
		return 0;
	if (mode == SECCOMP_MODE_STRICT)
		return strict_check(t, nr);
	d = (struct seccomp_data){
		.nr = (int)nr,
		.arch = AUDIT_ARCH_X86_64,
		.instruction_pointer = t->regs.rip,
		.args = { t->regs.rdi, t->regs.rsi, t->regs.rdx, t->regs.r10, t->regs.r8,
			  t->regs.r9 },
	};
	verdict = run_chain(f, &d, &by);
	skip = act(t, verdict, by, &d);
	filter_put(f);
	if (skip < 0)
		kill_caller(t, (verdict & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_KILL_THREAD);
	return skip;
}
