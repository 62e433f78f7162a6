/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What platform.c and the platforms share: the table of operations behind platform.h. Each
 * platform embeds the base structs first in its own.
 */
#ifndef CAISSON_PLATFORM_PRIV_H
#define CAISSON_PLATFORM_PRIV_H

#include "platform/platform.h"

/* One member per function of platform.h, with the same contract. */
struct platform_ops {
	const char *name;
	int (*start)(const struct platform_options *opt, struct platform **out);
	void (*stop)(struct platform *p);
	void (*stats)(const struct platform *p, struct platform_stats *st);

	int (*as_new)(struct platform *p, struct addrspace **as, struct context **first);
	int (*as_fork)(struct context *parent, struct addrspace **as, struct context **child);
	struct addrspace *(*as_get)(struct addrspace *as);
	void (*as_put)(struct addrspace *as);
	void (*as_kill)(struct addrspace *as);
	int (*as_cpu_time)(struct addrspace *as, uint64_t *ns);
	ssize_t (*as_read)(struct addrspace *as, uint64_t from, void *buf, size_t len);
	ssize_t (*as_write)(struct addrspace *as, uint64_t to, const void *buf, size_t len);

	int (*mem)(struct context *c, const struct mem_op *ops, size_t count, size_t *done);
	int (*cmpxchg32)(struct context *c, uint64_t at, uint32_t expect, uint32_t new_val,
			 uint32_t *old);

	int (*ctx_clone)(struct context *parent, struct context **child);
	void (*ctx_put)(struct context *c);
	void (*ctx_switch)(struct context *c, struct user_regs_struct *regs,
			   struct platform_event *ev);
	void (*ctx_interrupt)(struct context *c);
	void (*ctx_interrupt_clear)(struct context *c);
	int (*fpstate_get)(struct context *c, void *buf, size_t size);
	int (*fpstate_set)(struct context *c, const void *buf, size_t size);
	void (*fpstate_reset)(struct context *c);
	int (*ctx_patch)(struct context *c, uint64_t after, uint64_t start, uint64_t end); /* or NULL */
	size_t (*ctx_brought)(struct context *c, uint64_t from, void *buf, size_t size); /* or NULL */
	int (*ctx_store_later)(struct context *c, uint64_t to, const void *buf, size_t size);
	int (*ctx_stores_now)(struct context *c);
	int (*ctx_unpatch)(struct context *c, uint64_t from, uint64_t len, int prot);	   /* or NULL */
	int (*ctx_answer)(struct context *c, int nr, uint32_t value); /* or NULL, with the next */
	void (*ctx_answers_clear)(struct context *c);
	int (*ctx_cpu_time)(struct context *c, uint64_t *ns);
	int (*set_affinity)(struct context *c, const void *mask, size_t size);
	int (*set_nice)(struct context *c, int nice);
};

struct platform {
	const struct platform_ops *ops;
	size_t xstate_size;
	uint64_t xcr0;
};

struct addrspace {
	const struct platform_ops *ops;
};

struct context {
	const struct platform_ops *ops;
	struct addrspace *as;
};

extern const struct platform_ops systrap_ops;
extern const struct platform_ops fake_ops;

/* Checks one memory order against the contract: 0 or the errno mmap(2) and its kin would give. */
int mem_op_check(const struct mem_op *op);

#endif
