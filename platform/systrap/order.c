/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: host calls that a stopped stub thread makes for the sentry. Those that need consent are
 * written down in sentry memory first (expect); notify.c lets exactly these pass, in this order.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "platform/systrap/systrap.h"

void order_begin(struct order_list *l, struct systrap_context *c)
{
	/* Orders come in the middle of a call; their arguments may lie in the bounce room, too. */
	(void)systrap_ctx_stores_now(&c->base);
	l->c = c;
	l->count = l->done = l->approved = 0;
}

void order_add(struct order_list *l, int notified, int fd, uint64_t nr, uint64_t a, uint64_t b,
	       uint64_t d, uint64_t e, uint64_t f, uint64_t g)
{
	ASSERT(l->count < SYSMSG_MAX_ORDERS);
	l->order[l->count] = (struct sysmsg_order){ nr, { a, b, d, e, f, g }, 0 };
	l->fd[l->count] = fd;
	l->notified[l->count++] = (uint8_t)notified;
}

static void expect_calls(struct order_list *l, int *has_fd)
{
	struct systrap_context *c = l->c;

	lock_acquire(&c->expect_lock);
	c->expect_count = c->expect_next = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		if (!l->notified[i])
			continue;
		struct expected_call *x = &c->expect[c->expect_count++];

		x->nr = l->order[i].nr;
		memcpy(x->arg, l->order[i].arg, sizeof(x->arg));
		x->fd = l->fd[i];
		*has_fd |= x->fd >= 0;
	}
	lock_release(&c->expect_lock);
}

int order_run(struct order_list *l)
{
	struct systrap_context *c = l->c;
	struct sysmsg *m = c->msg;
	int has_fd = 0;

	if (addrspace_dead(c->as))
		return -ESRCH;
	stat_add(&c->plat->stats.orders);
	expect_calls(l, &has_fd);
	memcpy(m->orders, l->order, l->count * sizeof(l->order[0]));
	m->order_count = l->count;
	m->close_fd = (uint32_t)has_fd;
	m->orders_done = 0;
	int ret = handoff_orders(c);

	/* Whatever was not used up is void from now on, and the fds are the caller's again. */
	lock_acquire(&c->expect_lock);
	l->approved = c->expect_next;
	c->expect_count = c->expect_next = 0;
	lock_release(&c->expect_lock);
	if (ret)
		return ret;
	l->done = __atomic_load_n(&m->orders_done, __ATOMIC_RELAXED);
	if (l->done > l->count)
		l->done = l->count;
	for (uint32_t i = 0; i < l->done; i++) {
		l->order[i].ret = __atomic_load_n(&m->orders[i].ret, __ATOMIC_RELAXED);
		l->order[i].arg[3] = __atomic_load_n(&m->orders[i].arg[3], __ATOMIC_RELAXED);
	}
	if (l->done == l->count)
		return 0;
	int64_t err = __atomic_load_n(&m->orders[l->done].ret, __ATOMIC_RELAXED);

	return err < 0 && err >= -4095 ? (int)err : -EFAULT;
}

void order_exit(struct systrap_context *c)
{
	struct order_list l;
	int has_fd = 0;

	order_begin(&l, c);
	order_add(&l, 1, -1, SYS_exit, 0, 0, 0, 0, 0, 0);
	expect_calls(&l, &has_fd);
	c->msg->orders[0] = l.order[0];
	c->msg->order_count = 1;
	c->msg->close_fd = 0;
	handoff_give(c, COMMAND_ORDERS);
}
