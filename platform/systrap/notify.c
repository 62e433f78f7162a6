/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp listener: one sentry thread decides about every notified call of every stub. A
 * call passes when it is, number and all six arguments, the next one that was ordered of this
 * very thread (order.c). Nothing that the guest can write takes part in the decision.
 *
 * A new stub thread says hello once, before anything of its slot is believed. clone and hello
 * must come from their own instruction in the stub: between the two the new thread runs code that
 * reads no memory, so slot and nonce are the ones its clone was ordered with. The nonce makes a slot
 * that is used again safe from late hellos.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/systrap/systrap.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1ull << 0)
#endif

#define REFUSED (-ECONNREFUSED) /* not an errno that installing an fd can give */

/* Kills whoever made an unordered call. #hostcalls: kill ioctl */
static void refuse(struct systrap *p, const struct seccomp_notif *n)
{
	uint64_t id = n->id;

	/* Killed between the call and our look: its orders are void, and it needs no more killing. */
	if (ioctl(p->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id))
		return;
	struct systrap_context *c = context_by_tid(p, (pid_t)n->pid);

	log_at(__atomic_load_n(&p->stopping, __ATOMIC_RELAXED) ? LOG_DEBUG : LOG_WARN,
	       "systrap: stub thread %u made host call %d that nobody ordered; killed", n->pid,
	       n->data.nr);
	if (c) {
		systrap_as_kill(&c->as->base);
		context_ref_put(c);
	} else if (n->pid) {
		kill((pid_t)n->pid, SIGKILL);
	}
}

static int hello(struct systrap *p, const struct seccomp_notif *n)
{
	uint64_t offset = n->data.args[0] - STUB_SLOT_ADDR, slot = offset / SLOT_SIZE;
	struct systrap_context *c = NULL;

	if (n->data.instruction_pointer != (uint64_t)STUB_TEXT_ADDR + p->stub->hello_ip ||
	    offset % SLOT_SIZE || slot >= SLOT_COUNT)
		return REFUSED;
	struct systrap_context *known = context_by_tid(p, (pid_t)n->pid);

	if (known) {
		context_ref_put(known);
		return REFUSED;
	}
	lock_acquire(&p->lock);
	c = p->slot_owner[slot];
	if (c && (c->state != CONTEXT_SPAWNING || c->nonce != n->data.args[1]))
		c = NULL;
	if (c) {
		context_publish(c, (pid_t)n->pid);
	}
	/* A wake of an address that is freed meanwhile is harmless: the waiter looks again. */
	uint32_t *word = c ? &c->hello : NULL;

	lock_release(&p->lock);
	if (word)
		futex_wake(word, 1);
	return c ? 0 : REFUSED;
}

/* Installs the call's fd as fd 0 of the stub thread (its fd table is its own and empty). */
static int install_fd(struct systrap *p, const struct seccomp_notif *n, int fd)
{
	struct seccomp_notif_addfd add = {
		.id = n->id,
		.flags = SECCOMP_ADDFD_FLAG_SETFD,
		.srcfd = (uint32_t)fd,
		.newfd = 0,
	};

	return ioctl(p->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
}

/* 0: the call may go on. 1: it may, and it was the thread's exit. */
static int check(struct systrap *p, struct systrap_context *c, const struct seccomp_notif *n)
{
	int ret = REFUSED;

	lock_acquire(&c->expect_lock);
	if (c->expect_next < c->expect_count) {
		const struct expected_call *x = &c->expect[c->expect_next];

		if (x->nr == (uint64_t)(int64_t)n->data.nr &&
		    !memcmp(x->arg, n->data.args, sizeof(x->arg)) &&
		    (x->nr != SYS_clone ||
		     n->data.instruction_pointer == (uint64_t)STUB_TEXT_ADDR + p->stub->clone_ip)) {
			c->expect_next++;
			ret = x->fd >= 0 ? install_fd(p, n, x->fd) : 0;
			if (!ret && x->nr == SYS_exit)
				ret = 1;
		}
	}
	lock_release(&c->expect_lock);
	return ret;
}

static void serve(struct systrap *p, const struct seccomp_notif *n)
{
	struct seccomp_notif_resp resp = { .id = n->id };
	struct systrap_context *c = NULL;
	int ret;

	stat_add(&p->stats.notifications);
	if (n->data.nr == STUB_NR_HELLO) {
		ret = hello(p, n);
	} else {
		c = context_by_tid(p, (pid_t)n->pid);
		ret = c ? check(p, c, n) : REFUSED;
		resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	}
	if (ret < 0) {
		/* ENOENT: it died while we looked. Errors of the fd go to the stub as the call's. */
		if (ret == REFUSED)
			refuse(p, n);
		resp.flags = 0;
		resp.error = ret;
	}
	ioctl(p->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	if (c && ret == 1)
		context_retire(c);
	if (c)
		context_ref_put(c);
}

/* Room for fields that a newer kernel may add; it insists on zeroes. */
union notification {
	struct seccomp_notif n;
	uint8_t room[256];
};

/* What the notifier needs to ask the host once, before lockdown. */
int notify_setup(struct systrap *p)
{
	struct seccomp_notif_sizes sizes;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return -errno;
	if (sizes.seccomp_notif > sizeof(union notification)) {
		log_error("systrap: the host's notifications are too large: %u bytes",
			  (unsigned int)sizes.seccomp_notif);
		return -EOPNOTSUPP;
	}
	/* Wakes then stay on one processor; hosts before 6.6 do without. */
	ioctl(p->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	return 0;
}

/* #hostcalls: ioctl */
void *systrap_notifier(void *arg)
{
	struct systrap *p = arg;
	union notification buf;

	/* ENOENT: a caller is gone before we looked, or all are, which ends a stop. */
	while (!__atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&p->threads, __ATOMIC_SEQ_CST) > 1) {
		memset(&buf, 0, sizeof(buf));
		if (ioctl(p->listener, SECCOMP_IOCTL_NOTIF_RECV, &buf.n) == 0)
			serve(p, &buf.n);
		else if (errno != EINTR && errno != ENOENT)
			break;
	}
	thread_leaves(p);
	return NULL;
}
