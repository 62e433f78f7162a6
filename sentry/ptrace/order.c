/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: what a tracer wants done that only the tracee's own thread may do, since a platform
 * context belongs to one thread. The tracer leaves the order in the ptrace_state and sleeps; the
 * tracee carries it out inside its stop (stop.c).
 */
#include <string.h>
#include <sys/mman.h>

#include "platform/base/thread.h"
#include "sentry/mm/mm.h"
#include "sentry/ptrace/ptrace_priv.h"

#define XCR0_OFFSET 464 /* where debuggers look for it: software bytes of the FXSAVE area */

static int host_protect(struct task *t, uint64_t page, int prot)
{
	struct mem_op op = {
		.kind = MEM_PROTECT, .addr = page, .len = GUEST_PAGE_SIZE, .prot = prot
	};

	return context_mem(t->ctx, &op, 1, NULL);
}

/* A write within one page, whose host protection is lifted around it. Private mappings only. */
static int write_page(struct task *t, uint64_t addr, const void *buf, size_t n)
{
	uint64_t page = addr & ~(GUEST_PAGE_SIZE - 1);
	struct vma *v;
	int err = -EIO;

	lock_acquire(&t->mm->lock);
	v = vma_find(t->mm, addr);
	if (v && !(v->flags & VMA_SHARED) && (v->max_prot & PROT_WRITE)) {
		int prot = (int)v->prot;

		err = context_unpatch(t->ctx, addr, n, prot);
		/* Still executable meanwhile: other threads may run there. */
		if (!err)
			err = host_protect(t, page, prot | PROT_READ | PROT_WRITE);
		if (!err) {
			if (addrspace_write(t->mm->as, gaddr(addr), buf, n) != (ssize_t)n)
				err = -EIO;
			host_protect(t, page, prot);
		}
	}
	lock_release(&t->mm->lock);
	return err ? -EIO : 0;
}

static int write_forced(struct task *t, uint64_t addr, const char *buf, size_t n)
{
	while (n) {
		size_t left = GUEST_PAGE_SIZE - addr % GUEST_PAGE_SIZE, part = n < left ? n : left;
		int err = write_page(t, addr, buf, part);

		if (err)
			return err;
		addr += part;
		buf += part;
		n -= part;
	}
	return 0;
}

void ptrace_run_order(struct task *t, struct trace_order *o)
{
	int err = -EIO;

	switch (o->kind) {
	case ORDER_FP_GET:
		err = context_fpstate_get(t->ctx, o->buf, o->size);
		break;
	case ORDER_FP_SET:
		err = context_fpstate_set(t->ctx, o->buf, o->size);
		break;
	case ORDER_WRITE:
		err = write_forced(t, o->addr, o->buf, o->size);
		break;
	}
	__atomic_store_n(&o->result, err, __ATOMIC_RELEASE);
}

/* Takes the order back: 1, or 0 when it is being carried out or was. */
static int withdraw(struct task *t, struct trace_order *o)
{
	int mine;

	lock_acquire(&t->k->tasks_lock);
	mine = t->ptrace && t->ptrace->order == o;
	if (mine)
		t->ptrace->order = NULL;
	lock_release(&t->k->tasks_lock);
	return mine;
}

static int give_order(struct task *t, struct trace_order *o)
{
	struct kernel *k = t->k;
	int err = -ESRCH;

	o->result = 1;
	lock_acquire(&k->tasks_lock);
	if (t->ptrace && t->ptrace->tracer == current && t->ptrace->stopped && !t->ptrace->order) {
		t->ptrace->order = o;
		task_wake(t);
		err = 0;
	}
	lock_release(&k->tasks_lock);
	if (err)
		return err;
	while (__atomic_load_n(&o->result, __ATOMIC_ACQUIRE) == 1) {
		if (task_sleep_killable(current, NO_DEADLINE) == 0)
			continue;
		if (withdraw(t, o))
			return -EINTR;
		thread_nap(20000); /* it will be done in a moment, and writes to our stack */
	}
	return o->result;
}

int ptrace_get_fp(struct task *t, void *buf, size_t size)
{
	struct trace_order o = { .kind = ORDER_FP_GET, .buf = buf, .size = size };
	uint64_t xcr0 = platform_xcr0(t->k->platform);
	int err = give_order(t, &o);

	if (!err)
		memcpy((char *)buf + XCR0_OFFSET, &xcr0, sizeof(xcr0));
	return err;
}

int ptrace_set_fp(struct task *t, const void *buf, size_t size)
{
	struct trace_order o = { .kind = ORDER_FP_SET,
				 .buf = (void *)(uintptr_t)buf,
				 .size = size };

	return give_order(t, &o);
}

/* The stopped tracee of the caller that runs in `as`: a reference, or NULL. */
static struct task *stopped_tracee_in(const struct addrspace *as)
{
	struct kernel *k = current->k;
	struct task *o, *found = NULL;
	struct thread_group *tg;

	lock_acquire(&k->tasks_lock);
	if (k->traced_count)
		list_for_each(tg, &k->groups, node)
			list_for_each(o, &tg->tasks, tg_node)
				if (!found && o->ptrace && o->ptrace->tracer == current &&
				    o->ptrace->stopped && o->mm && o->mm->as == as)
					found = task_get(o);
	lock_release(&k->tasks_lock);
	return found;
}

/* Debuggers set breakpoints through /proc/PID/mem too: usermem.c comes here for read-only pages. */
ssize_t addrspace_write_force(struct addrspace *as, gaddr_t to, const void *buf, size_t len)
{
	struct trace_order o = {
		.kind = ORDER_WRITE, .addr = to.a, .buf = (void *)(uintptr_t)buf, .size = len
	};
	struct task *t = current ? stopped_tracee_in(as) : NULL;
	int err = t ? give_order(t, &o) : -EFAULT;

	if (t)
		task_put(t);
	return err ? -EFAULT : (ssize_t)len;
}

int ptrace_write_word(struct task *t, uint64_t addr, uint64_t val)
{
	struct trace_order o = {
		.kind = ORDER_WRITE, .addr = addr, .buf = &val, .size = sizeof(val)
	};
	struct mm *mm = task_mm_get(t);
	ssize_t n;

	if (!mm)
		return -EIO;
	n = mm_write(mm, addr, &val, sizeof(val));
	mm_put(mm);
	return n == (ssize_t)sizeof(val) ? 0 : give_order(t, &o);
}
