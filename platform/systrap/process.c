/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life and death of stub processes and threads.
 *
 * A context has two references: its owner's, and the tables' (tid hash, list of its address
 * space), which goes when the stub thread or its process has ended. Only when both are gone is
 * its slot free: before, either a process still maps it or an owner may still touch it. While the
 * process lives, such a slot stays with it as a spare, so that no slot is ever mapped by two
 * processes (fork maps the child's slot into the parent for a moment; op_lock makes sure that no
 * second fork sees it there).
 *
 * A guest thread that ends leaves its stub thread parked for the next clone, up to a limit. The
 * thread group leader never exits: host calls by pid would no longer find its memory.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "platform/systrap/patch.h"

#define MAX_PARKED 16
#define HELLO_LOOK_NS 1000000000ull
#define HELLO_LOOKS 120 /* a guest that keeps its own children from speaking has no claim on us */

/* ---- allocation and references ---- */

struct systrap_addrspace *addrspace_alloc(struct systrap *p)
{
	struct systrap_addrspace *as = calloc(1, sizeof(*as));

	if (!as)
		return NULL;
	as->base.ops = &systrap_ops;
	ref_init(&as->ref);
	as->plat = p;
	lock_init(&as->op_lock, RANK_PLATFORM_OP);
	list_init(&as->contexts);
	list_init(&as->parked);
	list_init(&as->node);
	__atomic_fetch_add(&p->addrspace_count, 1, __ATOMIC_SEQ_CST);
	return as;
}

void addrspace_ref_put(struct systrap_addrspace *as)
{
	struct systrap *p = as->plat;

	if (!ref_put(&as->ref))
		return;
	lock_destroy(&as->op_lock);
	patch_release(as);
	free(as->spare_slots);
	free(as);
	__atomic_fetch_sub(&p->addrspace_count, 1, __ATOMIC_SEQ_CST);
}

struct systrap_context *context_alloc(struct systrap_addrspace *as, uint32_t slot)
{
	struct systrap_context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->base.ops = &systrap_ops;
	c->base.as = &as->base;
	ref_init(&c->ref);
	ref_get(&c->ref);
	ref_get(&as->ref);
	c->as = as;
	c->plat = as->plat;
	c->slot = slot;
	c->msg = slot_message(as->plat, slot);
	c->state = CONTEXT_SPAWNING;
	lock_init(&c->expect_lock, RANK_PLATFORM);
	list_init(&c->as_node);
	return c;
}

/* Gives a slot up: to all when no process maps it, else to its process. With p->lock. */
static void slot_release(struct systrap_addrspace *as, uint32_t slot)
{
	struct systrap *p = as->plat;

	lock_assert_held(&p->lock);
	if (as->ended) {
		slot_free(p, slot);
		return;
	}
	ASSERT(as->pid);
	p->slot_owner[slot] = NULL;
	if (as->spare_count == as->spare_size) {
		uint32_t size = as->spare_size ? as->spare_size * 2 : 16;
		uint32_t *more = realloc(as->spare_slots, size * sizeof(*more));

		if (!more) /* the slot stays out of use: 64 KiB of address space lost */
			return;
		as->spare_slots = more;
		as->spare_size = size;
	}
	as->spare_slots[as->spare_count++] = slot;
}

void context_ref_put(struct systrap_context *c)
{
	struct systrap *p = c->plat;
	struct systrap_addrspace *as = c->as;

	if (!ref_put(&c->ref))
		return;
	lock_acquire(&p->lock);
	if (c->slot_fate == SLOT_MAPPED)
		slot_release(as, c->slot);
	else if (c->slot_fate == SLOT_UNMAPPED)
		slot_free(p, c->slot);
	lock_release(&p->lock);
	lock_destroy(&c->expect_lock);
	free(c);
	addrspace_ref_put(as);
}

/* ---- tables ---- */

static struct systrap_context **tid_bucket(struct systrap *p, pid_t tid)
{
	return &p->by_tid[(uint32_t)tid % TID_BUCKETS];
}

struct systrap_context *context_by_tid(struct systrap *p, pid_t tid)
{
	struct systrap_context *c;

	lock_acquire(&p->lock);
	for (c = *tid_bucket(p, tid); c && c->tid != tid; c = c->tid_next)
		;
	if (c)
		ref_get(&c->ref);
	lock_release(&p->lock);
	return c;
}

void context_publish(struct systrap_context *c, pid_t tid)
{
	struct systrap *p = c->plat;
	struct systrap_addrspace *as = c->as;
	struct systrap_context **bucket = tid_bucket(p, tid);

	lock_assert_held(&p->lock);
	c->tid = tid;
	c->tid_next = *bucket;
	*bucket = c;
	c->state = CONTEXT_LIVE;
	list_add_tail(&c->as_node, &as->contexts);
	as->live_count++;
	if (!as->pid) {
		as->pid = tid;
		ref_get(&as->ref);
		list_add_tail(&as->node, &p->addrspaces);
		p->stub_count++;
	}
	c->slot_fate = SLOT_MAPPED;
	__atomic_store_n(&c->hello, 1, __ATOMIC_SEQ_CST);
}

static void context_unhash(struct systrap_context *c)
{
	struct systrap_context **at = tid_bucket(c->plat, c->tid);

	lock_assert_held(&c->plat->lock);
	while (*at && *at != c)
		at = &(*at)->tid_next;
	if (*at)
		*at = c->tid_next;
}

void context_retire(struct systrap_context *c)
{
	struct systrap *p = c->plat;
	int ours;

	lock_acquire(&p->lock);
	ours = !c->as->ended && c->state == CONTEXT_EXITING;
	if (ours) {
		context_unhash(c);
		list_del(&c->as_node);
		c->state = CONTEXT_PARKED;
	}
	lock_release(&p->lock);
	if (ours)
		context_ref_put(c);
}

/* ---- the process behind an address space ---- */

int addrspace_enter(struct systrap_addrspace *as)
{
	__atomic_fetch_add(&as->pid_users, 1, __ATOMIC_SEQ_CST);
	if (!addrspace_dead(as))
		return 0;
	addrspace_leave(as);
	return -ESRCH;
}

void addrspace_leave(struct systrap_addrspace *as)
{
	__atomic_fetch_sub(&as->pid_users, 1, __ATOMIC_SEQ_CST);
}

struct addrspace *systrap_as_get(struct addrspace *as)
{
	ref_get(&to_addrspace(as)->ref);
	return as;
}

void systrap_as_put(struct addrspace *as)
{
	addrspace_ref_put(to_addrspace(as));
}

/* #hostcalls: kill */
void systrap_as_kill(struct addrspace *base)
{
	struct systrap_addrspace *as = to_addrspace(base);

	if (addrspace_enter(as))
		return;
	kill(as->pid, SIGKILL);
	addrspace_leave(as);
}

/* #hostcalls: clock_gettime */
int systrap_as_cpu_time(struct addrspace *base, uint64_t *ns)
{
	struct systrap_addrspace *as = to_addrspace(base);
	struct timespec ts;

	if (addrspace_enter(as))
		return -ESRCH;
	/* The kernel's encoding of a process's CPU clock: ~pid << 3 | CPUCLOCK_SCHED. */
	int err = clock_gettime((clockid_t)(((uint32_t)~as->pid << 3) | 2), &ts) ? -errno : 0;

	addrspace_leave(as);
	if (!err)
		*ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return err;
}

/*
 * The reaper has seen the end of the process, which is still a zombie. Who could still hold it:
 * host calls by pid (waited for here), owners of contexts (woken; they keep their slots).
 */
void addrspace_ended(struct systrap_addrspace *as)
{
	struct systrap *p = as->plat;
	struct systrap_context *c, *tmp;
	struct list_head gone;

	__atomic_store_n(&as->dead, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&as->pid_users, __ATOMIC_SEQ_CST))
		thread_nap(20000);
	list_init(&gone);
	lock_acquire(&p->lock);
	as->ended = 1;
	list_del(&as->node);
	p->stub_count--;
	list_splice_tail(&as->contexts, &gone);
	list_splice_tail(&as->parked, &gone);
	list_for_each(c, &gone, as_node)
		context_unhash(c);
	while (as->spare_count)
		slot_free(p, as->spare_slots[--as->spare_count]);
	lock_release(&p->lock);
	list_for_each_safe(c, tmp, &gone, as_node) {
		list_del(&c->as_node);
		__atomic_store_n(&c->msg->turn, TURN_DEAD, __ATOMIC_SEQ_CST);
		futex_wake(&c->msg->turn, 1);
		context_ref_put(c);
	}
	addrspace_ref_put(as);
}

static struct systrap_addrspace *addrspace_by_pid(struct systrap *p, pid_t pid)
{
	struct systrap_addrspace *as, *found = NULL;

	lock_acquire(&p->lock);
	list_for_each(as, &p->addrspaces, node) {
		if (as->pid == pid) {
			found = as;
			break;
		}
	}
	lock_release(&p->lock);
	return found;
}

/*
 * Waits for stubs to end. All of them are children of the sentry's main thread, and the sentry
 * has no others. A child stays a zombie, its pid unusable for another, until nobody names it.
 * #hostcalls: waitid
 */
void *systrap_reaper(void *arg)
{
	struct systrap *p = arg;
	siginfo_t si;

	for (;;) {
		memset(&si, 0, sizeof(si));
		if (waitid(P_ALL, 0, &si, WEXITED | WNOWAIT) < 0) {
			if (errno == EINTR)
				continue;
			break; /* ECHILD: even the zygote is gone */
		}
		struct systrap_addrspace *as = addrspace_by_pid(p, si.si_pid);

		if (as)
			addrspace_ended(as);
		waitid(P_PID, (id_t)si.si_pid, &si, WEXITED);
	}
	if (!__atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST))
		log_error("systrap: all stub processes are gone, the first one too");
	thread_leaves(p);
	return NULL;
}

/* ---- creation ---- */

#define PROCESS_FLAGS ((uint64_t)(CLONE_PARENT | SIGCHLD))
/* No CLONE_FILES: each thread has its own, empty fd table, see install_fd(). */
#define THREAD_FLAGS \
	((uint64_t)(CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM))

/*
 * Waits until the new thread has said hello, however busy the host is. 0, or -EAGAIN: its process,
 * or the one that made it, has died. `pid` is what the clone is said to have returned: when that is
 * not true, the worst is a wait that the guest has asked for.
 * #hostcalls: kill
 */
static int await_hello(struct systrap_context *c, struct systrap_addrspace *parent, pid_t pid)
{
	for (int i = 0; i < HELLO_LOOKS; i++) {
		int gone = addrspace_dead(parent) ||
			   (i && (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH)));

		if (__atomic_load_n(&c->hello, __ATOMIC_SEQ_CST))
			return 0;
		if (gone)
			break;
		futex_wait(&c->hello, 0, HELLO_LOOK_NS);
	}
	return -EAGAIN;
}

/* Takes the slot of a failed spawn out of parent's process, or the process out of the world. */
static void unmap_slot(struct systrap_context *parent, struct systrap_context *c)
{
	struct systrap *p = c->plat;
	struct order_list l;

	order_begin(&l, parent);
	order_add(&l, 1, -1, SYS_munmap, slot_address(c->slot), SLOT_SIZE, 0, 0, 0, 0);
	if (order_run(&l) == 0 && l.approved == 1)
		return;
	systrap_as_kill(&parent->as->base);
	lock_acquire(&p->lock);
	if (c->state == CONTEXT_SPAWNING)
		slot_release(parent->as, c->slot);
	/* else two dying processes share it, and it stays out of use for good */
	c->slot_fate = SLOT_GIVEN;
	lock_release(&p->lock);
}

/*
 * Undoes a spawn that failed. What the stub said about it is not believed: the child may exist.
 * If it has not said hello it will be refused, and before that it touches no memory, so its slot
 * can be used again. Consumes c.
 */
static void spawn_failed(struct systrap_context *parent, struct systrap_context *c)
{
	struct systrap *p = c->plat;

	lock_acquire(&p->lock);
	int listed = c->state != CONTEXT_SPAWNING;

	p->slot_owner[c->slot] = NULL;
	lock_release(&p->lock);
	if (listed) {
		systrap_as_kill(&c->as->base);
		if (c->as != parent->as)
			unmap_slot(parent, c);
	} else {
		if (c->slot_fate == SLOT_UNMAPPED)
			unmap_slot(parent, c);
		ref_put(&c->ref); /* the tables', where it never was */
	}
	context_ref_put(c);
}

/*
 * Makes parent's stub thread clone one that starts as `c`, whose slot is prepared here. With
 * parent's op_lock. Consumes c on failure.
 */
static int spawn(struct systrap_context *parent, struct systrap_context *c)
{
	struct systrap *p = c->plat;
	int thread = c->as == parent->as;
	uint64_t addr, stack;
	uint32_t calls = 1, clone;
	struct order_list l;

	if (frame_ensure(parent)) {
		spawn_failed(parent, c);
		return -ESRCH;
	}
	addr = slot_address(c->slot);
	stack = addr + ((parent->frame - 1024) & ~63u);
	slot_prepare(c, (uint8_t *)parent->msg + SLOT_STACK, parent->frame, parent->fpstate);
	lock_acquire(&p->lock);
	c->nonce = ++p->last_nonce;
	p->slot_owner[c->slot] = c;
	lock_release(&p->lock);
	order_begin(&l, parent);
	if (c->slot_fate == SLOT_UNMAPPED) {
		order_add(&l, 1, p->slots_fd, SYS_mmap, addr, SLOT_SIZE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_FIXED, 0, (uint64_t)c->slot * SLOT_SIZE);
		/* Before the clone, or the child keeps it. */
		order_add(&l, 0, -1, SYS_close, 0, 0, 0, 0, 0, 0);
		calls++;
	}
	clone = l.count;
	order_add(&l, 1, -1, SYS_clone, thread ? THREAD_FLAGS : PROCESS_FLAGS, stack, 0, 0,
		  c->nonce, 0);
	if (!thread) {
		order_add(&l, 1, -1, SYS_munmap, addr, SLOT_SIZE, 0, 0, 0, 0);
		calls++;
	}
	int ret = order_run(&l);

	/* A munmap that did not really come would leave the child's slot open to its parent. */
	if (!ret && l.approved != calls)
		ret = -EAGAIN;
	if (!ret)
		ret = await_hello(c, parent->as, (pid_t)l.order[clone].ret);
	if (ret)
		spawn_failed(parent, c);
	return ret;
}

/* A slot for another thread of the process; *mapped says that it is a spare one. */
static int take_slot(struct systrap_addrspace *as, uint32_t *slot, int *mapped)
{
	lock_acquire(&as->plat->lock);
	*mapped = as->spare_count > 0;
	if (*mapped)
		*slot = as->spare_slots[--as->spare_count];
	lock_release(&as->plat->lock);
	return *mapped ? 0 : slot_alloc(as->plat, slot);
}

int spawn_process(struct systrap_context *parent, struct systrap_context **child)
{
	struct systrap *p = parent->plat;
	struct systrap_addrspace *as = addrspace_alloc(p);
	struct systrap_context *c;
	uint32_t slot;
	int ret = -ENOMEM;

	if (!as)
		return ret;
	ret = slot_alloc(p, &slot);
	if (ret)
		goto out;
	c = context_alloc(as, slot);
	if (!c) {
		lock_acquire(&p->lock);
		slot_free(p, slot);
		lock_release(&p->lock);
		ret = -ENOMEM;
		goto out;
	}
	lock_acquire(&parent->as->op_lock);
	patch_inherit(parent->as, as);
	ret = spawn(parent, c);
	lock_release(&parent->as->op_lock);
	if (ret)
		goto out;
	*child = c;
	return 0;
out:
	addrspace_ref_put(as);
	return ret;
}

/* Execs are to be expected. [spawn_lock] */
static void pool_fill(struct systrap *p)
{
	if (p->pool_want == POOL_SIZE)
		return;
	p->pool_want = POOL_SIZE;
	pthread_cond_broadcast(&p->pool_changed);
}

int systrap_as_fork(struct context *parent, struct addrspace **as, struct context **child)
{
	struct systrap *p = to_context(parent)->plat;
	struct systrap_context *c;

	lock_acquire(&p->spawn_lock);
	pool_fill(p);
	lock_release(&p->spawn_lock);
	int ret = spawn_process(to_context(parent), &c);

	if (ret)
		return ret;
	*as = &c->as->base;
	*child = &c->base;
	return 0;
}

/* Takes a parked stub thread back into life, with parent's extended state; NULL when none. */
static struct systrap_context *unpark(struct systrap_context *parent)
{
	struct systrap *p = parent->plat;
	struct systrap_addrspace *as = parent->as;
	struct systrap_context *c = NULL;

	lock_acquire(&p->lock);
	if (!list_empty(&as->parked) && !as->ended) {
		c = list_first(&as->parked, struct systrap_context, as_node);
		list_del(&c->as_node);
		list_add_tail(&c->as_node, &as->contexts);
		as->parked_count--;
		as->live_count++;
		c->state = CONTEXT_LIVE;
		ref_get(&c->ref);
	}
	lock_release(&p->lock);
	if (!c)
		return NULL;
	c->interrupt = 0;
	memset(c->msg->answers, 0, sizeof(c->msg->answers));
	c->guest_cycles = c->service_cycles = c->event_at = 0;
	if (frame_ensure(parent) || frame_ensure(c)) /* gone, as its first switch will tell */
		return c;
	memcpy((uint8_t *)c->msg + c->fpstate, (uint8_t *)parent->msg + parent->fpstate,
	       p->base.xstate_size + 4);
	return c;
}

int systrap_ctx_clone(struct context *base, struct context **child)
{
	struct systrap_context *parent = to_context(base), *c = unpark(parent);
	struct systrap_addrspace *as = parent->as;
	struct systrap *p = parent->plat;
	uint32_t slot;
	int mapped, ret;

	if (c) {
		*child = &c->base;
		return 0;
	}
	ret = take_slot(as, &slot, &mapped);
	if (ret)
		return ret;
	c = context_alloc(as, slot);
	if (!c) {
		lock_acquire(&p->lock);
		if (mapped)
			slot_release(as, slot);
		else
			slot_free(p, slot);
		lock_release(&p->lock);
		return -ENOMEM;
	}
	c->slot_fate = mapped ? SLOT_MAPPED : SLOT_UNMAPPED;
	lock_acquire(&as->op_lock);
	ret = spawn(parent, c);
	lock_release(&as->op_lock);
	if (ret)
		return ret;
	*child = &c->base;
	return 0;
}

void systrap_ctx_put(struct context *base)
{
	struct systrap_context *c = to_context(base);
	struct systrap_addrspace *as = c->as;
	struct systrap *p = c->plat;
	int last = 0, leave = 0;

	lock_acquire(&p->lock);
	if (!as->ended && c->state == CONTEXT_LIVE) {
		last = --as->live_count == 0;
		leave = !last && c->tid != as->pid && as->parked_count >= MAX_PARKED;
		if (!last && !leave) {
			list_del(&c->as_node);
			list_add(&c->as_node, &as->parked);
			as->parked_count++;
			c->state = CONTEXT_PARKED;
		} else {
			c->state = CONTEXT_EXITING;
		}
	}
	lock_release(&p->lock);
	if (last)
		systrap_as_kill(&as->base);
	else if (leave)
		order_exit(c);
	context_ref_put(c);
}

/* ---- the pool ---- */

/*
 * Keeps pool_want processes ready: one at the start, for the first program, and none from then on
 * until a fork tells that there will be more execs. Asleep unless one has been taken.
 */
void *systrap_spawner(void *arg)
{
	struct systrap *p = arg;

	lock_acquire(&p->spawn_lock);
	while (!__atomic_load_n(&p->stopping, __ATOMIC_SEQ_CST)) {
		if (p->pool_count >= p->pool_want || p->pool_error) {
			pthread_cond_wait(&p->pool_changed, &p->spawn_lock.m);
			continue;
		}
		struct systrap_context *c;

		lock_release(&p->spawn_lock);
		int err = spawn_process(p->zygote, &c);

		lock_acquire(&p->spawn_lock);
		if (err)
			p->pool_error = err;
		else
			p->pool[p->pool_count++] = c;
		pthread_cond_broadcast(&p->pool_changed);
	}
	lock_release(&p->spawn_lock);
	thread_leaves(p);
	return NULL;
}

int systrap_as_new(struct platform *base, struct addrspace **as, struct context **first)
{
	struct systrap *p = container_of(base, struct systrap, base);
	struct systrap_context *c = NULL;
	int err = 0;

	lock_acquire(&p->spawn_lock);
	while (!c && !err) {
		if (p->pool_count) {
			c = p->pool[--p->pool_count];
			if (p->pool_want < POOL_SIZE)
				p->pool_want = 0;
			if (addrspace_dead(c->as)) { /* the host killed it in the pool */
				systrap_as_put(&c->as->base);
				context_ref_put(c);
				c = NULL;
			}
			pthread_cond_broadcast(&p->pool_changed);
		} else if (p->pool_error) {
			/* One caller gets the error; the spawner tries again for the next. */
			err = p->pool_error;
			p->pool_error = 0;
			pthread_cond_broadcast(&p->pool_changed);
		} else {
			pool_fill(p);
			pthread_cond_wait(&p->pool_changed, &p->spawn_lock.m);
		}
	}
	lock_release(&p->spawn_lock);
	if (err)
		return err == -ESRCH ? -EAGAIN : err;
	*as = &c->as->base;
	*first = &c->base;
	return 0;
}
