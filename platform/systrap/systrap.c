/* SPDX-License-Identifier: Apache-2.0 */
/* systrap as a platform: start, stop, statistics and the table of its operations. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "platform/systrap/patch.h"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint32_t count_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (uint32_t)CPU_COUNT(&set);
}

static int map_slots(struct systrap *p)
{
	const size_t size = (size_t)SLOT_COUNT * SLOT_SIZE;

	p->slots_fd = memfd_create("caisson-slots", MFD_CLOEXEC);
	if (p->slots_fd < 0 || ftruncate(p->slots_fd, (off_t)size))
		return -errno;
	p->slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			p->slots_fd, 0);
	if (p->slots == MAP_FAILED) {
		p->slots = NULL;
		return -errno;
	}
	return 0;
}

static void release(struct systrap *p)
{
	if (p->slots)
		munmap(p->slots, (size_t)SLOT_COUNT * SLOT_SIZE);
	if (p->slots_fd >= 0)
		close(p->slots_fd);
	if (p->listener >= 0)
		close(p->listener);
	patch_stop(p);
	pthread_cond_destroy(&p->pool_changed);
	lock_destroy(&p->spawn_lock);
	lock_destroy(&p->lock);
	free(p->template);
	free(p);
}

static int start_threads(struct systrap *p)
{
	static const struct {
		const char *name;
		void *(*fn)(void *);
	} threads[] = {
		{ "stub-notify", systrap_notifier },
		{ "stub-reaper", systrap_reaper },
		{ "stub-spawner", systrap_spawner },
	};

	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		__atomic_fetch_add(&p->threads, 1, __ATOMIC_SEQ_CST);
		int ret = thread_start(threads[i].name, threads[i].fn, p);

		if (ret) {
			__atomic_fetch_sub(&p->threads, 1, __ATOMIC_SEQ_CST);
			return ret;
		}
	}
	return 0;
}

/* Allocates the zygote's context in slot 0. */
static int prepare_zygote(struct systrap *p)
{
	struct systrap_addrspace *as = addrspace_alloc(p);
	uint32_t slot;

	if (!as)
		return -ENOMEM;
	int ret = slot_alloc(p, &slot);

	if (!ret) {
		p->zygote = context_alloc(as, slot);
		ret = p->zygote ? 0 : -ENOMEM;
	}
	addrspace_ref_put(as);
	return ret;
}

static void systrap_stop(struct platform *base);

/*
 * Before lockdown. #hostcalls of the rest of the platform stand with their functions; those here
 * and in zygote.c are made before it.
 */
static int systrap_start(const struct platform_options *opt, struct platform **out)
{
	struct systrap *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	uint64_t t0 = now_ns(), c0 = cycles();

	p->base.ops = &systrap_ops;
	p->slots_fd = p->listener = p->patch_fd = -1;
	p->flags = opt ? opt->flags : 0;
	p->bring = opt ? opt->bring : NULL;
	p->stub = (const struct stub_header *)systrap_stub_image;
	ASSERT(p->stub->magic == STUB_MAGIC && p->stub->size <= STUB_BRING_ADDR - STUB_TEXT_ADDR);
	p->cpus = count_cpus();
	list_init(&p->addrspaces);
	lock_init(&p->lock, RANK_LEAF);
	lock_init(&p->spawn_lock, RANK_PLATFORM_OP);
	p->pool_want = 1;
	lock_init(&p->scan_lock, RANK_PLATFORM);
	pthread_cond_init(&p->pool_changed, NULL);
	signal(SIGCHLD, SIG_DFL); /* SIG_IGN would reap stubs behind our back */
	p->template = malloc(SLOT_SIZE - SLOT_STACK);

	int ret = p->template ? map_slots(p) : -ENOMEM;

	if (!ret)
		ret = patch_start(p);
	if (!ret)
		ret = prepare_zygote(p);
	if (!ret)
		ret = zygote_start(p);
	if (ret) {
		release(p);
		return ret;
	}
	while (now_ns() - t0 < 1000000) /* enough for a clock to 0.1 % */
		;
	p->cycles_per_us = (cycles() - c0) * 1000 / (now_ns() - t0);
	ret = notify_setup(p);
	if (!ret)
		ret = start_threads(p);
	if (ret) {
		systrap_stop(&p->base);
		return ret;
	}
	log_info("systrap: started, %u processors, %zu bytes of extended state", p->cpus,
		 p->base.xstate_size);
	*out = &p->base;
	return 0;
}

void thread_leaves(struct systrap *p)
{
	__atomic_fetch_sub(&p->threads, 1, __ATOMIC_SEQ_CST);
	futex_wake(&p->threads, 1);
}

/*
 * Ends all stubs. A sentry that exits stops the platform while its task threads are still in here:
 * what an address space that somebody holds may touch is left to the end of the process.
 * #hostcalls: kill futex
 */
static void systrap_stop(struct platform *base)
{
	struct systrap *p = container_of(base, struct systrap, base);
	struct systrap_addrspace *as;

	patch_log(p);
	__atomic_store_n(&p->stopping, 1, __ATOMIC_SEQ_CST);
	lock_acquire(&p->spawn_lock);
	pthread_cond_broadcast(&p->pool_changed);
	lock_release(&p->spawn_lock);
	for (int i = 0; i < 2000; i++) {
		/* Again and again: the spawner may have been at work on one more. */
		lock_acquire(&p->lock);
		list_for_each(as, &p->addrspaces, node)
			kill(as->pid, SIGKILL);
		lock_release(&p->lock);
		uint32_t left = __atomic_load_n(&p->threads, __ATOMIC_SEQ_CST);

		if (!left)
			break;
		futex_wait(&p->threads, left, 1000000);
	}
	if (__atomic_load_n(&p->threads, __ATOMIC_SEQ_CST)) {
		/* Older hosts do not end the notifier's wait: it keeps what it uses. */
		log_debug("systrap: a service thread does not end");
		return;
	}
	while (p->pool_count) {
		struct systrap_context *c = p->pool[--p->pool_count];

		systrap_as_put(&c->as->base);
		context_ref_put(c);
	}
	context_ref_put(p->zygote);
	if (!__atomic_load_n(&p->addrspace_count, __ATOMIC_SEQ_CST))
		release(p);
}

static void systrap_stats(const struct platform *base, struct platform_stats *st)
{
	struct systrap *p = (struct systrap *)(uintptr_t)container_of(base, const struct systrap, base);

	st->switches = __atomic_load_n(&p->stats.switches, __ATOMIC_RELAXED);
	st->spins_won = __atomic_load_n(&p->stats.spins_won, __ATOMIC_RELAXED);
	st->sleeps = __atomic_load_n(&p->stats.sleeps, __ATOMIC_RELAXED);
	st->orders = __atomic_load_n(&p->stats.orders, __ATOMIC_RELAXED);
	st->notifications = __atomic_load_n(&p->stats.notifications, __ATOMIC_RELAXED);
	patch_stats(p, st);
	lock_acquire(&p->spawn_lock);
	st->pool_ready = p->pool_count;
	lock_release(&p->spawn_lock);
	lock_acquire(&p->lock);
	st->stubs = p->stub_count;
	lock_release(&p->lock);
}

static int systrap_ctx_answer(struct context *base, int nr, uint32_t value)
{
	static const uint16_t calls[ANSWER_COUNT] = {
		[ANSWER_GETPID] = SYS_getpid, [ANSWER_GETTID] = SYS_gettid,
		[ANSWER_GETUID] = SYS_getuid, [ANSWER_GETEUID] = SYS_geteuid,
		[ANSWER_GETGID] = SYS_getgid, [ANSWER_GETEGID] = SYS_getegid,
	};
	struct systrap_context *c = to_context(base);

	if (c->plat->flags & PLATFORM_NOSTUB)
		return 0;
	for (size_t i = 0; i < ANSWER_COUNT; i++) {
		if (calls[i] != nr)
			continue;
		c->msg->answer[i] = value;
		c->msg->answers[i] = 1;
		return 1;
	}
	return 0;
}

static void systrap_ctx_answers_clear(struct context *base)
{
	memset(to_context(base)->msg->answers, 0, ANSWER_COUNT);
}

/* #hostcalls: sched_setaffinity */
static int systrap_set_affinity(struct context *base, const void *mask, size_t size)
{
	struct systrap_context *c = to_context(base);

	if (addrspace_enter(c->as))
		return -ESRCH;
	int ret = sched_setaffinity(c->tid, size, mask) ? -errno : 0;

	addrspace_leave(c->as);
	return ret;
}

/* #hostcalls: setpriority */
static int systrap_set_nice(struct context *base, int nice)
{
	struct systrap_context *c = to_context(base);

	if (addrspace_enter(c->as))
		return -ESRCH;
	int ret = setpriority(PRIO_PROCESS, (id_t)c->tid, nice) ? -errno : 0;

	addrspace_leave(c->as);
	return ret;
}

const struct platform_ops systrap_ops = {
	.name = "systrap",
	.start = systrap_start,
	.stop = systrap_stop,
	.stats = systrap_stats,
	.as_new = systrap_as_new,
	.as_fork = systrap_as_fork,
	.as_get = systrap_as_get,
	.as_put = systrap_as_put,
	.as_kill = systrap_as_kill,
	.as_cpu_time = systrap_as_cpu_time,
	.as_read = systrap_as_read,
	.as_write = systrap_as_write,
	.mem = systrap_mem,
	.cmpxchg32 = systrap_cmpxchg32,
	.ctx_clone = systrap_ctx_clone,
	.ctx_put = systrap_ctx_put,
	.ctx_switch = systrap_ctx_switch,
	.ctx_interrupt = systrap_ctx_interrupt,
	.ctx_interrupt_clear = systrap_ctx_interrupt_clear,
	.fpstate_get = systrap_fpstate_get,
	.fpstate_set = systrap_fpstate_set,
	.fpstate_reset = systrap_fpstate_reset,
	.ctx_patch = systrap_ctx_patch,
	.ctx_brought = systrap_ctx_brought,
	.ctx_store_later = systrap_ctx_store_later,
	.ctx_stores_now = systrap_ctx_stores_now,
	.ctx_unpatch = systrap_ctx_unpatch,
	.ctx_answer = systrap_ctx_answer,
	.ctx_answers_clear = systrap_ctx_answers_clear,
	.ctx_cpu_time = systrap_ctx_cpu_time,
	.set_affinity = systrap_set_affinity,
	.set_nice = systrap_set_nice,
};
