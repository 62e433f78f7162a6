/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of platforms, the dispatch of platform.h to the chosen one, and the argument checks
 * that hold for all of them.
 */
#include "platform/platform.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "platform/base/log.h"
#include "platform/platform_priv.h"

/* Best first; `fake` is only taken when it is named. */
static const struct platform_ops *const g_platforms[] = { &systrap_ops, &fake_ops };

int platform_start(const struct platform_options *opt, struct platform **out)
{
	const char *name = opt && opt->name && opt->name[0] ? opt->name : g_platforms[0]->name;

	for (size_t i = 0; i < sizeof(g_platforms) / sizeof(g_platforms[0]); i++)
		if (!strcmp(g_platforms[i]->name, name))
			return g_platforms[i]->start(opt, out);
	log_error("platform \"%s\" does not exist here", name);
	return -EINVAL;
}

void platform_stop(struct platform *p)
{
	p->ops->stop(p);
}

const char *platform_name(const struct platform *p)
{
	return p->ops->name;
}

size_t platform_xstate_size(const struct platform *p)
{
	return p->xstate_size;
}

uint64_t platform_xcr0(const struct platform *p)
{
	return p->xcr0;
}

void platform_stats(const struct platform *p, struct platform_stats *st)
{
	memset(st, 0, sizeof(*st));
	p->ops->stats(p, st);
}

int addrspace_new(struct platform *p, struct addrspace **as, struct context **first)
{
	return p->ops->as_new(p, as, first);
}

int addrspace_fork(struct context *parent, struct addrspace **as, struct context **child)
{
	return parent->ops->as_fork(parent, as, child);
}

struct addrspace *addrspace_get(struct addrspace *as)
{
	return as->ops->as_get(as);
}

void addrspace_put(struct addrspace *as)
{
	as->ops->as_put(as);
}

void addrspace_kill(struct addrspace *as)
{
	as->ops->as_kill(as);
}

int addrspace_cpu_time(struct addrspace *as, uint64_t *ns)
{
	return as->ops->as_cpu_time(as, ns);
}

ssize_t addrspace_read(struct addrspace *as, gaddr_t from, void *buf, size_t len)
{
	if (len == 0)
		return 0;
	if (from.a >= GUEST_TASK_SIZE)
		return -EFAULT;
	if (len > GUEST_TASK_SIZE - from.a)
		len = GUEST_TASK_SIZE - from.a;
	return as->ops->as_read(as, from.a, buf, len);
}

ssize_t addrspace_write(struct addrspace *as, gaddr_t to, const void *buf, size_t len)
{
	if (len == 0)
		return 0;
	if (to.a >= GUEST_TASK_SIZE)
		return -EFAULT;
	if (len > GUEST_TASK_SIZE - to.a)
		len = GUEST_TASK_SIZE - to.a;
	return as->ops->as_write(as, to.a, buf, len);
}

static int range_check(uint64_t addr, uint64_t len)
{
	if (addr % GUEST_PAGE_SIZE || len % GUEST_PAGE_SIZE || !guest_range_ok(addr, len))
		return -EINVAL;
	return 0;
}

/* What the platform keeps for itself within guest range is not the guest's to map. */
static int touches_reserved(uint64_t addr, uint64_t len)
{
	return addr < GUEST_RESERVED_END && addr + len > GUEST_RESERVED_START;
}

int mem_op_check(const struct mem_op *op)
{
	const int map_flags = MAP_PRIVATE | MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE |
			      MAP_POPULATE | MAP_FIXED;
	int sharing = op->flags & (MAP_PRIVATE | MAP_SHARED);

	if (range_check(op->addr, op->len))
		return -EINVAL;
	if (op->len == 0 && op->kind != MEM_REMAP)
		return op->kind == MEM_MAP || op->kind == MEM_UNMAP ? -EINVAL : 0;
	if (op->kind != MEM_UNMAP && (touches_reserved(op->addr, op->len) ||
				      (op->kind == MEM_REMAP && touches_reserved(op->addr2, op->len2))))
		return -ENOMEM;
	switch (op->kind) {
	case MEM_MAP:
		if (op->flags & ~map_flags || (sharing != MAP_PRIVATE && sharing != MAP_SHARED))
			return -EINVAL;
		if (op->prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC) ||
		    op->off % GUEST_PAGE_SIZE)
			return -EINVAL;
		if (!(op->flags & MAP_ANONYMOUS) && op->fd < 0)
			return -EBADF;
		return 0;
	case MEM_PROTECT:
		return op->prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC) ? -EINVAL : 0;
	case MEM_REMAP:
		if (op->len2 == 0 || range_check(op->addr2, op->len2))
			return -EINVAL;
		return op->flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) ? -EINVAL : 0;
	case MEM_UNMAP:
	case MEM_ADVISE:
	case MEM_SYNC:
		return 0;
	case MEM_INCORE:
		return op->buf ? 0 : -EINVAL;
	}
	return -EINVAL;
}

int context_mem(struct context *c, const struct mem_op *ops, size_t count, size_t *done)
{
	size_t dummy;

	return c->ops->mem(c, ops, count, done ? done : &dummy);
}

int context_cmpxchg32(struct context *c, gaddr_t at, uint32_t expect, uint32_t new_val,
		      uint32_t *old)
{
	if (!guest_range_ok(at.a, 4))
		return -EFAULT;
	if (at.a % 4)
		return -EINVAL;
	return c->ops->cmpxchg32(c, at.a, expect, new_val, old);
}

int context_clone(struct context *parent, struct context **child)
{
	return parent->ops->ctx_clone(parent, child);
}

void context_put(struct context *c)
{
	c->ops->ctx_put(c);
}

struct addrspace *context_addrspace(struct context *c)
{
	return c->as;
}

void context_switch(struct context *c, struct user_regs_struct *regs, struct platform_event *ev)
{
	c->ops->ctx_switch(c, regs, ev);
}

void context_interrupt(struct context *c)
{
	c->ops->ctx_interrupt(c);
}

void context_interrupt_clear(struct context *c)
{
	c->ops->ctx_interrupt_clear(c);
}

int context_fpstate_get(struct context *c, void *buf, size_t size)
{
	return c->ops->fpstate_get(c, buf, size);
}

int context_fpstate_set(struct context *c, const void *buf, size_t size)
{
	return c->ops->fpstate_set(c, buf, size);
}

void context_fpstate_reset(struct context *c)
{
	c->ops->fpstate_reset(c);
}

int context_patch(struct context *c, uint64_t after, uint64_t start, uint64_t end)
{
	if (end > GUEST_TASK_SIZE || start % GUEST_PAGE_SIZE || end % GUEST_PAGE_SIZE)
		return -EINVAL;
	return c->ops->ctx_patch ? c->ops->ctx_patch(c, after, start, end) : -EOPNOTSUPP;
}

size_t context_brought(struct context *c, gaddr_t from, void *buf, size_t size)
{
	return c->ops->ctx_brought ? c->ops->ctx_brought(c, from.a, buf, size) : 0;
}

int context_store_later(struct context *c, gaddr_t to, const void *buf, size_t size)
{
	if (!c->ops->ctx_store_later || !guest_range_ok(to.a, size))
		return 0;
	return c->ops->ctx_store_later(c, to.a, buf, size);
}

int context_stores_now(struct context *c)
{
	return c->ops->ctx_stores_now ? c->ops->ctx_stores_now(c) : 0;
}

int context_unpatch(struct context *c, uint64_t from, uint64_t len, int prot)
{
	uint64_t end;

	if (__builtin_add_overflow(from, len, &end) || end > GUEST_TASK_SIZE)
		return -EINVAL;
	return c->ops->ctx_unpatch ? c->ops->ctx_unpatch(c, from, len, prot) : 0;
}

int context_answer(struct context *c, int nr, uint32_t value)
{
	return c->ops->ctx_answer ? c->ops->ctx_answer(c, nr, value) : 0;
}

void context_answers_clear(struct context *c)
{
	if (c->ops->ctx_answers_clear)
		c->ops->ctx_answers_clear(c);
}

int context_cpu_time(struct context *c, uint64_t *ns)
{
	return c->ops->ctx_cpu_time(c, ns);
}

int context_set_affinity(struct context *c, const void *mask, size_t size)
{
	return c->ops->set_affinity(c, mask, size);
}

int context_set_nice(struct context *c, int nice)
{
	return c->ops->set_nice(c, nice);
}
