/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's memory limit, enforced inside, and the out-of-memory killer.
 *
 * Theory of operation. Guest pages are host pages of the stub processes: the host faults them in
 * without a word to the kernel here. The sentry has no /proc to read their sizes from, and counting
 * what programs have mapped would refuse programs that overcommit. So the count is sampled:
 *
 *   used = memfile_used() (tmpfs, shared memory) + sum over address spaces of mm->rss_pages
 *
 * mm->rss_pages is counted by mincore over the private anonymous mappings, ordered through the
 * task's own context. Only when a limit is set, mm_oom_check() runs at every syscall; it samples
 * when SAMPLE_NS have passed since the last sample of this address space, and ten times as often
 * once the sandbox is above 3/4 of its limit. A program that allocates touches new memory between
 * calls, so a hog is seen within a fraction of a second, long before the host's own limit (the
 * cgroup the runtime sets a little above ours) would kill the whole sandbox.
 *
 * When the limit is exceeded the process with the greatest badness is killed with SIGKILL: its
 * resident pages plus oom_score_adj thousandths of the limit; -1000 is never chosen; init only when
 * there is nothing else. One line is logged. The sandbox goes on.
 */
#include <signal.h>
#include <stdlib.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "platform/host/memfile.h"
#include "sentry/kernel.h"
#include "sentry/mm/mm_priv.h"
#include "sentry/signal/signal.h"

#define SAMPLE_NS 200000000ull
#define SAMPLE_HOT_NS 20000000ull
#define INCORE_CHUNK (4096 * GUEST_PAGE_SIZE)

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

		/* Untouched reservations can be terabytes; what can not be written holds nothing. */
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

	list_for_each(t, &tg->tasks, tg_node) {
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

	list_for_each(tg, &k->groups, node)
		sum += tg_rss_pages(tg);
	return sum;
}

/* tasks_lock held: the victim, borrowed, or NULL; *dying: one is on its way out already. */
static struct thread_group *pick_victim(struct kernel *k, int *dying, uint64_t *rss)
{
	struct thread_group *tg, *best = NULL;
	int64_t best_points = INT64_MIN, limit = (int64_t)(k->memory_limit / GUEST_PAGE_SIZE);

	*dying = 0;
	list_for_each(tg, &k->groups, node) {
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
		(void)signal_send_group_locked(victim, &si);
	}
	lock_release(&k->tasks_lock);
	if (pid)
		log_warn("out of memory: %lu kB used of %lu kB; killed process %d (%s), %lu kB resident",
			 used * 4, k->memory_limit >> 10, pid, comm, rss * 4);
}

void mm_oom_check(struct task *t)
{
	struct kernel *k = t->k;
	struct mm *mm = t->mm;
	uint64_t now, limit, used, since;

	if (!k->memory_limit || !mm)
		return;
	now = mono_now_ns();
	if (now - __atomic_load_n(&mm->oom_checked_ns, __ATOMIC_RELAXED) < SAMPLE_HOT_NS)
		return;
	__atomic_store_n(&mm->oom_checked_ns, now, __ATOMIC_RELAXED);
	since = now - __atomic_load_n(&mm->rss_sampled_ns, __ATOMIC_RELAXED);
	limit = k->memory_limit / GUEST_PAGE_SIZE;
	if (since < SAMPLE_NS) {
		lock_acquire(&k->tasks_lock);
		used = used_pages_locked(k);
		lock_release(&k->tasks_lock);
		if (used < limit - limit / 4)
			return; /* calm: the long interval is enough */
	}
	__atomic_store_n(&mm->rss_sampled_ns, now, __ATOMIC_RELAXED);
	sample(t);
	lock_acquire(&k->tasks_lock);
	used = used_pages_locked(k);
	lock_release(&k->tasks_lock);
	if (used > limit)
		kill_one(k, used);
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
