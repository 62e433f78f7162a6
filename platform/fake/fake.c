/* SPDX-License-Identifier: Apache-2.0 */
/* The fake platform's objects: reference counts, sticky interrupts, scripts. memory.c has the rest. */
#include "platform/fake/fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/list.h"
#include "platform/base/lock.h"
#include "platform/base/refs.h"
#include "platform/fake/memory.h"
#include "platform/platform_priv.h"

#define XSTATE_SIZE 576

struct fake_platform {
	struct platform base;
	fake_script script;
	void *priv;
	uint32_t addrspaces, contexts; /* [a] */
	uint64_t switches;	       /* [a] */
};

struct fake_addrspace {
	struct addrspace base;
	struct fake_platform *plat;
	struct ref ref;
	struct lock lock;
	struct fake_memory mem; /* [lock] */
	uint32_t contexts;	/* [a] */
	uint32_t dead;		/* [a] */
};

struct fake_context {
	struct context base;
	struct fake_addrspace *as;
	uint32_t interrupt; /* [a] */
	uint8_t fpstate[XSTATE_SIZE];
};

static struct fake_addrspace *to_as(struct addrspace *as)
{
	return container_of(as, struct fake_addrspace, base);
}

static struct fake_context *to_ctx(struct context *c)
{
	return container_of(c, struct fake_context, base);
}

static struct fake_platform *to_plat(const struct platform *p)
{
	return (struct fake_platform *)(uintptr_t)container_of(p, const struct fake_platform, base);
}

void fake_set_script(struct platform *p, fake_script script, void *priv)
{
	to_plat(p)->script = script;
	to_plat(p)->priv = priv;
}

unsigned int fake_addrspaces(const struct platform *p)
{
	return __atomic_load_n(&to_plat(p)->addrspaces, __ATOMIC_SEQ_CST);
}

unsigned int fake_contexts(const struct platform *p)
{
	return __atomic_load_n(&to_plat(p)->contexts, __ATOMIC_SEQ_CST);
}

static int fake_start(const struct platform_options *opt, struct platform **out)
{
	struct fake_platform *p = calloc(1, sizeof(*p));

	(void)opt;
	if (!p)
		return -ENOMEM;
	p->base.ops = &fake_ops;
	p->base.xstate_size = XSTATE_SIZE;
	p->base.xcr0 = 3;
	*out = &p->base;
	return 0;
}

static void fake_stop(struct platform *p)
{
	free(to_plat(p));
}

static void fake_stats(const struct platform *p, struct platform_stats *st)
{
	st->switches = __atomic_load_n(&to_plat(p)->switches, __ATOMIC_RELAXED);
	st->stubs = fake_addrspaces(p);
}

static struct fake_addrspace *as_alloc(struct fake_platform *p)
{
	struct fake_addrspace *as = calloc(1, sizeof(*as));

	if (!as)
		return NULL;
	as->base.ops = &fake_ops;
	as->plat = p;
	ref_init(&as->ref);
	lock_init(&as->lock, RANK_PLATFORM);
	__atomic_fetch_add(&p->addrspaces, 1, __ATOMIC_SEQ_CST);
	return as;
}

static struct addrspace *fake_as_get(struct addrspace *as)
{
	ref_get(&to_as(as)->ref);
	return as;
}

static void fake_as_put(struct addrspace *base)
{
	struct fake_addrspace *as = to_as(base);

	if (!ref_put(&as->ref))
		return;
	fake_memory_free(&as->mem);
	lock_destroy(&as->lock);
	__atomic_fetch_sub(&as->plat->addrspaces, 1, __ATOMIC_SEQ_CST);
	free(as);
}

static void fake_fpstate_reset(struct context *c)
{
	const uint16_t fcw = 0x37f;
	const uint32_t mxcsr = 0x1f80;

	memset(to_ctx(c)->fpstate, 0, XSTATE_SIZE);
	memcpy(to_ctx(c)->fpstate, &fcw, sizeof(fcw));
	memcpy(to_ctx(c)->fpstate + 24, &mxcsr, sizeof(mxcsr));
}

static struct fake_context *ctx_alloc(struct fake_addrspace *as)
{
	struct fake_context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->base.ops = &fake_ops;
	c->base.as = &as->base;
	c->as = as;
	fake_fpstate_reset(&c->base);
	ref_get(&as->ref);
	__atomic_fetch_add(&as->contexts, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&as->plat->contexts, 1, __ATOMIC_SEQ_CST);
	return c;
}

static int fake_as_new(struct platform *p, struct addrspace **as_out, struct context **first)
{
	struct fake_addrspace *as = as_alloc(to_plat(p));
	struct fake_context *c = as ? ctx_alloc(as) : NULL;

	if (!c) {
		if (as)
			fake_as_put(&as->base);
		return -ENOMEM;
	}
	*as_out = &as->base;
	*first = &c->base;
	return 0;
}

static void fake_ctx_put(struct context *base)
{
	struct fake_context *c = to_ctx(base);

	if (__atomic_sub_fetch(&c->as->contexts, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&c->as->dead, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&c->as->plat->contexts, 1, __ATOMIC_SEQ_CST);
	fake_as_put(&c->as->base);
	free(c);
}

static int fake_as_fork(struct context *base, struct addrspace **as_out, struct context **child)
{
	struct fake_context *parent = to_ctx(base);
	struct addrspace *as;
	struct context *c;
	int ret = fake_as_new(&parent->as->plat->base, &as, &c);

	if (ret)
		return ret;
	lock_acquire(&parent->as->lock);
	ret = fake_memory_copy(&to_as(as)->mem, &parent->as->mem);
	lock_release(&parent->as->lock);
	if (ret) {
		fake_ctx_put(c);
		fake_as_put(as);
		return ret;
	}
	memcpy(to_ctx(c)->fpstate, parent->fpstate, XSTATE_SIZE);
	*as_out = as;
	*child = c;
	return 0;
}

static void fake_as_kill(struct addrspace *as)
{
	__atomic_store_n(&to_as(as)->dead, 1, __ATOMIC_SEQ_CST);
}

static int fake_as_cpu_time(struct addrspace *as, uint64_t *ns)
{
	(void)as;
	*ns = 0;
	return 0;
}

static ssize_t fake_access(struct fake_addrspace *as, uint64_t at, void *buf, size_t len, int write)
{
	if (__atomic_load_n(&as->dead, __ATOMIC_SEQ_CST))
		return -EFAULT;
	lock_acquire(&as->lock);
	ssize_t n = fake_memory_access(&as->mem, at, buf, len, write);

	lock_release(&as->lock);
	return n;
}

static ssize_t fake_as_read(struct addrspace *as, uint64_t from, void *buf, size_t len)
{
	return fake_access(to_as(as), from, buf, len, 0);
}

static ssize_t fake_as_write(struct addrspace *as, uint64_t to, const void *buf, size_t len)
{
	return fake_access(to_as(as), to, (void *)(uintptr_t)buf, len, 1);
}

static int fake_mem(struct context *c, const struct mem_op *ops, size_t count, size_t *done)
{
	struct fake_addrspace *as = to_ctx(c)->as;
	int ret = 0;

	*done = 0;
	if (__atomic_load_n(&as->dead, __ATOMIC_SEQ_CST))
		return -ESRCH;
	lock_acquire(&as->lock);
	for (; *done < count; ++*done) {
		ret = mem_op_check(&ops[*done]);
		if (!ret)
			ret = fake_memory_op(&as->mem, &ops[*done]);
		if (ret)
			break;
	}
	lock_release(&as->lock);
	return ret;
}

static int fake_cmpxchg32(struct context *c, uint64_t at, uint32_t expect, uint32_t new_val,
			  uint32_t *old)
{
	struct fake_addrspace *as = to_ctx(c)->as;
	uint32_t now;
	int ret = -EFAULT;

	if (__atomic_load_n(&as->dead, __ATOMIC_SEQ_CST))
		return -ESRCH;
	lock_acquire(&as->lock);
	if (fake_memory_access(&as->mem, at, &now, 4, 0) == 4) {
		/* Like the instruction, it needs a writable page whatever the outcome. */
		uint32_t put = now == expect ? new_val : now;

		if (fake_memory_access(&as->mem, at, &put, 4, 1) == 4) {
			*old = now;
			ret = 0;
		}
	}
	lock_release(&as->lock);
	return ret;
}

static int fake_ctx_clone(struct context *parent, struct context **child)
{
	struct fake_context *c = ctx_alloc(to_ctx(parent)->as);

	if (!c)
		return -ENOMEM;
	memcpy(c->fpstate, to_ctx(parent)->fpstate, XSTATE_SIZE);
	*child = &c->base;
	return 0;
}

static void fake_ctx_switch(struct context *base, struct user_regs_struct *regs,
			    struct platform_event *ev)
{
	struct fake_context *c = to_ctx(base);
	struct fake_platform *p = c->as->plat;

	lock_assert_none_held();
	__atomic_fetch_add(&p->switches, 1, __ATOMIC_RELAXED);
	memset(ev, 0, sizeof(*ev));
	if (__atomic_exchange_n(&c->interrupt, 0, __ATOMIC_SEQ_CST)) {
		ev->kind = EVENT_INTERRUPTED;
		return;
	}
	ev->kind = EVENT_EXITED;
	if (p->script && !__atomic_load_n(&c->as->dead, __ATOMIC_SEQ_CST))
		p->script(base, regs, ev, p->priv);
}

static void fake_ctx_interrupt(struct context *c)
{
	__atomic_store_n(&to_ctx(c)->interrupt, 1, __ATOMIC_SEQ_CST);
}

static void fake_ctx_interrupt_clear(struct context *c)
{
	__atomic_store_n(&to_ctx(c)->interrupt, 0, __ATOMIC_SEQ_CST);
}

static int fake_fpstate_get(struct context *c, void *buf, size_t size)
{
	if (size < XSTATE_SIZE)
		return -EINVAL;
	memcpy(buf, to_ctx(c)->fpstate, XSTATE_SIZE);
	return 0;
}

static int fake_fpstate_set(struct context *c, const void *buf, size_t size)
{
	uint32_t mxcsr;

	if (size != 512 && size < XSTATE_SIZE)
		return -EINVAL;
	memcpy(&mxcsr, (const uint8_t *)buf + 24, sizeof(mxcsr));
	if (mxcsr & ~0xffffu)
		return -EINVAL;
	fake_fpstate_reset(c);
	memcpy(to_ctx(c)->fpstate, buf, size == 512 ? 512 : XSTATE_SIZE);
	return 0;
}

static int fake_ctx_cpu_time(struct context *c, uint64_t *ns)
{
	(void)c;
	*ns = 0;
	return 0;
}

static int fake_set_affinity(struct context *c, const void *mask, size_t size)
{
	(void)c;
	(void)mask;
	(void)size;
	return 0;
}

static int fake_set_nice(struct context *c, int nice)
{
	(void)c;
	(void)nice;
	return 0;
}

const struct platform_ops fake_ops = {
	.name = "fake",
	.start = fake_start,
	.stop = fake_stop,
	.stats = fake_stats,
	.as_new = fake_as_new,
	.as_fork = fake_as_fork,
	.as_get = fake_as_get,
	.as_put = fake_as_put,
	.as_kill = fake_as_kill,
	.as_cpu_time = fake_as_cpu_time,
	.as_read = fake_as_read,
	.as_write = fake_as_write,
	.mem = fake_mem,
	.cmpxchg32 = fake_cmpxchg32,
	.ctx_clone = fake_ctx_clone,
	.ctx_put = fake_ctx_put,
	.ctx_switch = fake_ctx_switch,
	.ctx_interrupt = fake_ctx_interrupt,
	.ctx_interrupt_clear = fake_ctx_interrupt_clear,
	.fpstate_get = fake_fpstate_get,
	.fpstate_set = fake_fpstate_set,
	.fpstate_reset = fake_fpstate_reset,
	.ctx_cpu_time = fake_ctx_cpu_time,
	.set_affinity = fake_set_affinity,
	.set_nice = fake_set_nice,
};
