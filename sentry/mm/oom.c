/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's memory limit, enforced inside, and the out-of-memory killer.
 *
 * Theory of operation. Guest pages are host pages of the stub processes: the host faults them in
 * without a word to the kernel here. The sentry has no /proc to read their sizes from, and counting
 * what programs have mapped would refuse programs that overcommit. So the count is sampled:
 *
 *   used = memfile_used() (tmpfs, shared memory) + sum over address spaces of mm->rss_pages
 *          + the sentry's heap beyond what a sandbox needs anyway (pipes, socket queues, dentries)
 *
 * mm->rss_pages is counted by mincore over the private writable anonymous mappings, ordered through
 * a context of the address space, so only its own threads can do it: mm_oom_check() runs after each
 * syscall while a limit is set, and when a thread leaves guest code because it was interrupted.
 * Nothing is sampled while all that is mapped would fit (the usual case). Else the next sample is
 * due when a program that touches new pages as fast as it can (FILL_RATE) could have used up the
 * room that is left; a timer interrupts running guest threads then, so that one which makes no
 * syscalls is seen too. The timer is not armed again while nobody runs. Far behind stands the
 * host's own limit (the cgroup the runtime sets), which would end the whole sandbox.
 *
 * When the limit is exceeded the process with the greatest badness is killed with SIGKILL: its
 * resident pages plus oom_score_adj thousandths of the limit; -1000 is never chosen; init only when
 * there is nothing else. One line is logged. The sandbox goes on.
 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "platform/host/memfile.h"
#include "sentry/kernel.h"
#include "sentry/mm/mm_priv.h"
#include "sentry/signal/signal.h"

#define FILL_RATE      4 /* bytes per ns: what page faults can reach at best */
#define HEADROOM_PAGES 1024u
#define PERIOD_MIN_NS  10000000ull
#define PERIOD_MAX_NS  500000000ull
#define HEAP_FREE      (16ull << 20) /* of the sentry's heap, charged to nobody */
#define INCORE_CHUNK   (4096 * GUEST_PAGE_SIZE)

static uint64_t count_resident(struct context *ctx, uint64_t start, uint64_t end, uint8_t *vec)
{
	uint64_t sum = 0;

	while (start < end) {
		uint64_t len = end - start < INCORE_CHUNK ? end - start : INCORE_CHUNK;
		struct mem_op op = {
			.kind = MEM_INCORE, .addr = start, .len = len, .fd = -1, .buf = vec
		};

		if (context_mem(ctx, &op, 1, NULL) == 0) {
			for (uint64_t i = 0; i < len / GUEST_PAGE_SIZE; i++)
				sum += vec[i] & 1;
		}
		start += len;
	}
	return sum;
}

/* Counts t's own address space. */
static void sample(struct task *t)
{
	struct mm *mm = t->mm;
	uint8_t *vec = malloc(INCORE_CHUNK / GUEST_PAGE_SIZE);
	uint64_t sum = 0;

	if (!vec)
		return;
	lock_acquire(&mm->lock);
	for (size_t i = 0; i < mm->vma_count; i++) {
		struct vma *v = mm->vmas[i];

		/* Untouched reservations can be terabytes; what can not be written holds nothing.
		 */
		if (!v->file && !(v->flags & VMA_SHARED) && (v->prot & PROT_WRITE) &&
		    vma_pages(v) <= 4 * (mm->k->memory_limit / GUEST_PAGE_SIZE) + 65536)
			sum += count_resident(t->ctx, v->start, v->end, vec);
	}
	mm_unlock(mm);
	free(vec);
	__atomic_store_n(&mm->rss_pages, sum, __ATOMIC_RELAXED);
}

static uint64_t tg_rss_pages(struct thread_group *tg)
{
	struct task *t;

	list_for_each (t, &tg->tasks, tg_node) {
		if (t->mm)
			return __atomic_load_n(&t->mm->rss_pages, __ATOMIC_RELAXED);
	}
	return 0;
}

/* tasks_lock held. Processes that share an mm by vfork are counted twice: short and harmless. */
static uint64_t used_pages_locked(struct kernel *k)
{
	struct thread_group *tg;
	uint64_t sum = memfile_used() / GUEST_PAGE_SIZE;

	list_for_each (tg, &k->groups, node)
		sum += tg_rss_pages(tg);
	return sum;
}

/* tasks_lock held: the victim, borrowed, or NULL; *dying: one is on its way out already. */
static struct thread_group *pick_victim(struct kernel *k, int *dying, uint64_t *rss)
{
	struct thread_group *tg, *best = NULL;
	int64_t best_points = INT64_MIN, limit = (int64_t)(k->memory_limit / GUEST_PAGE_SIZE);

	*dying = 0;
	list_for_each (tg, &k->groups, node) {
		int64_t adj = __atomic_load_n(&tg->oom_score_adj, __ATOMIC_RELAXED), points;

		if (tg->group_flags & TG_ZOMBIE)
			continue;
		points = (int64_t)tg_rss_pages(tg);
		if ((tg->group_flags & TG_EXITING) && points)
			*dying = 1;
		if (adj == -1000 || (tg->group_flags & TG_EXITING))
			continue;
		points += adj * (limit / 1000);
		if (tg == k->init)
			points = points / 4 - limit; /* only when nothing else is left */
		if (points > best_points) {
			best_points = points;
			best = tg;
		}
	}
	*rss = best ? tg_rss_pages(best) : 0;
	return best;
}

static void kill_one(struct kernel *k, uint64_t used)
{
	struct thread_group *victim;
	siginfo_t si;
	uint64_t rss;
	int dying, pid = 0;
	char comm[16] = "";

	siginfo_kernel(&si, SIGKILL);
	lock_acquire(&k->tasks_lock);
	victim = pick_victim(k, &dying, &rss);
	if (victim && !dying) {
		pid = pid_nr_in(victim->pid, k->init_pid_ns);
		if (victim->leader)
			__builtin_memcpy(comm, victim->leader->comm, sizeof(comm));
		comm[15] = 0;
		victim->group_flags |= TG_OOM;
		(void)signal_send_group_locked(victim, &si);
	}
	lock_release(&k->tasks_lock);
	if (pid)
		log_warn("out of memory: %lu kB used of %lu kB; killed process %d (%s), %lu kB "
			 "resident",
			 used * 4, k->memory_limit >> 10, pid, comm, rss * 4);
}

/*
 * The sentry's heap holds what guests make it hold. There is no telling whose it is, but when it is
 * what breaks the limit, ending processes gives it back. Asking takes the allocator's locks, so one
 * answer serves everybody for a while.
 */
static uint64_t heap_pages(uint64_t now)
{
	static uint64_t next_ns, pages;
	uint64_t next = __atomic_load_n(&next_ns, __ATOMIC_RELAXED);

	if (now >= next && __atomic_compare_exchange_n(&next_ns, &next, now + PERIOD_MIN_NS, 0,
						       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		struct mallinfo2 mi = mallinfo2();
		uint64_t bytes = mi.uordblks + mi.hblkhd;

		__atomic_store_n(&pages, bytes > HEAP_FREE ? (bytes - HEAP_FREE) / GUEST_PAGE_SIZE : 0,
				 __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&pages, __ATOMIC_RELAXED);
}

/* All pages the guests could hold with what they have mapped. tasks_lock held. */
static uint64_t possible_pages_locked(struct kernel *k)
{
	uint64_t sum = memfile_used() / GUEST_PAGE_SIZE;
	struct thread_group *tg;

	list_for_each (tg, &k->groups, node) {
		struct task *t;

		list_for_each (t, &tg->tasks, tg_node) {
			if (!t->mm)
				continue;
			/* Single words, read racily: a page more or less does not matter. */
			sum += t->mm->data_pages + t->mm->stack_pages;
			break;
		}
	}
	return sum;
}

/* Interrupts guest code that is running, so that its thread comes by mm_oom_check(). */
static void oom_tick(struct ktimer *timer)
{
	struct kernel *k = timer->priv;
	struct thread_group *tg;

	__atomic_store_n(&k->oom_timer_state, 1, __ATOMIC_SEQ_CST);
	lock_acquire(&k->tasks_lock);
	list_for_each (tg, &k->groups, node) {
		struct task *t;

		list_for_each (t, &tg->tasks, tg_node) {
			if (__atomic_load_n(&t->state, __ATOMIC_RELAXED) != TASK_RUNNING)
				continue;
			lock_acquire(&t->ctx_lock);
			if (t->ctx)
				context_interrupt(t->ctx);
			lock_release(&t->ctx_lock);
			break; /* one thread samples for its whole address space */
		}
	}
	lock_release(&k->tasks_lock);
}

static void arm_timer(struct kernel *k, uint64_t deadline)
{
	uint32_t fresh = 0, idle = 1;

	if (__atomic_compare_exchange_n(&k->oom_timer_state, &fresh, 3, 0, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST)) {
		ktimer_init(&k->oom_timer, oom_tick, k);
		__atomic_store_n(&k->oom_timer_state, 1, __ATOMIC_SEQ_CST);
	}
	if (__atomic_compare_exchange_n(&k->oom_timer_state, &idle, 2, 0, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		ktimer_arm(&k->oom_timer, deadline);
}

/* How long until the room left could be gone. */
static uint64_t period_for(uint64_t room_pages)
{
	uint64_t ns = room_pages * (GUEST_PAGE_SIZE / FILL_RATE);

	return ns < PERIOD_MIN_NS ? PERIOD_MIN_NS : ns > PERIOD_MAX_NS ? PERIOD_MAX_NS : ns;
}

void mm_oom_check(struct task *t)
{
	struct kernel *k = t->k;
	struct mm *mm = t->mm;
	uint64_t now, limit, used, possible, heap;

	if (!k->memory_limit || !mm)
		return;
	now = mono_now_ns();
	if (now < __atomic_load_n(&mm->oom_next_ns, __ATOMIC_RELAXED))
		return;
	/* A little below, for the sentry's own memory: the host's limit must not come first. */
	limit = k->memory_limit / GUEST_PAGE_SIZE;
	limit -= limit / 32 + (limit > HEADROOM_PAGES * 8 ? HEADROOM_PAGES : 0);
	heap = heap_pages(now);
	lock_acquire(&k->tasks_lock);
	possible = possible_pages_locked(k) + heap;
	lock_release(&k->tasks_lock);
	if (possible <= limit) {
		__atomic_store_n(&mm->oom_next_ns, now + PERIOD_MIN_NS, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&mm->rss_sampled_ns, now, __ATOMIC_RELAXED);
	sample(t);
	lock_acquire(&k->tasks_lock);
	used = used_pages_locked(k) + heap;
	lock_release(&k->tasks_lock);
	if (used > limit)
		kill_one(k, used);
	now = mono_now_ns() + period_for(used < limit ? limit - used : 0);
	__atomic_store_n(&mm->oom_next_ns, now, __ATOMIC_RELAXED);
	arm_timer(k, now);
}

uint64_t mm_rss_kb(struct mm *mm)
{
	uint64_t rss = __atomic_load_n(&mm->rss_pages, __ATOMIC_RELAXED), data;

	lock_acquire(&mm->lock);
	data = mm->data_pages + mm->stack_pages;
	/* Never sampled: what is mapped writable and private, bounded as a guess must be. */
	if (!__atomic_load_n(&mm->rss_sampled_ns, __ATOMIC_RELAXED))
		rss = data < 16384 ? data : 16384;
	else if (rss > mm->total_pages)
		rss = mm->total_pages;
	lock_release(&mm->lock);
	return rss * (GUEST_PAGE_SIZE / 1024);
}
