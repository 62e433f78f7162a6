/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time and other counts of threads and processes. User time is what the guest thread's host
 * thread ran, system time what the task's sentry thread ran. A process's user time comes from its
 * host process, which counts all threads, dead ones too; address spaces it left by exec are added.
 */
#include "sentry/task/rusage.h"

#include <string.h>
#include <time.h>

#include "sentry/syscall/syscall.h"
#include "sentry/task/task_priv.h"

static uint64_t sentry_thread_ns(struct task *t)
{
	clockid_t id = __atomic_load_n(&t->host_clock, __ATOMIC_ACQUIRE);
	struct timespec ts;

	if (!id || clock_gettime(id, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - t->host_clock_base_ns;
}

void task_cpu_sample(struct task *t)
{
	uint64_t ns;

	if (t->ctx && context_cpu_time(t->ctx, &ns) == 0)
		__atomic_store_n(&t->last_cpu_ns, t->past_utime_ns + ns, __ATOMIC_RELAXED);
}

void task_cpu_times(struct task *t, uint64_t *utime_ns, uint64_t *stime_ns)
{
	*utime_ns = __atomic_load_n(&t->last_cpu_ns, __ATOMIC_RELAXED);
	*stime_ns = t->state == TASK_DEAD ? t->ru.stime_ns : sentry_thread_ns(t);
}

/* User time of all address spaces tg alone has been in; 0: not known, or shared with another. */
static uint64_t group_utime(struct thread_group *tg, struct mm *mm)
{
	uint64_t ns;

	if (!mm || __atomic_load_n(&mm->users, __ATOMIC_RELAXED) > tg->task_count ||
	    addrspace_cpu_time(mm->as, &ns))
		return 0;
	return tg->past_utime_ns + ns;
}

void tg_cpu_times_locked(struct thread_group *tg, uint64_t *utime_ns, uint64_t *stime_ns)
{
	uint64_t u = tg->dead_threads.utime_ns, s = tg->dead_threads.stime_ns, whole;
	struct mm *mm = NULL;
	struct task *t;

	lock_assert_held(&tg->k->tasks_lock);
	list_for_each(t, &tg->tasks, tg_node) {
		uint64_t tu, ts;

		if (t->state == TASK_DEAD)
			continue;
		task_cpu_times(t, &tu, &ts);
		u += tu;
		s += ts;
		if (t->mm)
			mm = t->mm;
	}
	/* Threads' own figures are as old as their last sample; the host process's is not. */
	whole = group_utime(tg, mm);
	*utime_ns = whole > u ? whole : u;
	*stime_ns = s;
}

/*
 * The thread's user time as it is going to stand in its group's sum. The last one brings what its
 * host process has counted for all; the others need not be asked, which would take a handoff each.
 */
void task_cpu_settle(struct task *t)
{
	struct thread_group *tg = t->tg;
	uint64_t whole, known;

	if (__atomic_load_n(&t->mm->users, __ATOMIC_SEQ_CST) > tg->task_count) {
		task_cpu_sample(t); /* vfork: the host process is another's */
		return;
	}
	if (__atomic_load_n(&t->mm->users, __ATOMIC_SEQ_CST) > 1)
		return;
	lock_acquire(&t->k->tasks_lock);
	whole = group_utime(tg, t->mm);
	known = tg->dead_threads.utime_ns;
	if (whole > known)
		__atomic_store_n(&t->last_cpu_ns, whole - known, __ATOMIC_RELAXED);
	lock_release(&t->k->tasks_lock);
}

void rusage_add(struct rusage_sum *to, const struct rusage_sum *from)
{
	to->utime_ns += from->utime_ns;
	to->stime_ns += from->stime_ns;
	if (from->maxrss_kb > to->maxrss_kb)
		to->maxrss_kb = from->maxrss_kb;
	to->minflt += from->minflt;
	to->majflt += from->majflt;
	to->nvcsw += from->nvcsw;
	to->nivcsw += from->nivcsw;
	to->inblock += from->inblock;
	to->oublock += from->oublock;
}

void rusage_collect_locked(struct task *t, uint64_t utime_ns, uint64_t stime_ns)
{
	t->ru.utime_ns = utime_ns;
	t->ru.stime_ns = stime_ns;
	rusage_add(&t->tg->dead_threads, &t->ru);
}

/* ---- what the guest sees ---- */

static struct timeval to_timeval(uint64_t ns)
{
	return (struct timeval){ .tv_sec = (time_t)(ns / 1000000000u),
				 .tv_usec = (suseconds_t)(ns % 1000000000u / 1000) };
}

int rusage_to_user(struct task *t, uint64_t addr, const struct rusage_sum *ru)
{
	struct rusage r;

	memset(&r, 0, sizeof(r));
	r.ru_utime = to_timeval(ru->utime_ns);
	r.ru_stime = to_timeval(ru->stime_ns);
	r.ru_maxrss = (long)ru->maxrss_kb;
	r.ru_minflt = (long)ru->minflt;
	r.ru_majflt = (long)ru->majflt;
	r.ru_inblock = (long)ru->inblock;
	r.ru_oublock = (long)ru->oublock;
	r.ru_nvcsw = (long)ru->nvcsw;
	r.ru_nivcsw = (long)ru->nivcsw;
	/* The kernel's struct is the C library's without its name for reserved fields: 144 bytes. */
	return copy_to_user(t, addr, &r, sizeof(r));
}

int rusage_get(struct task *t, int who, struct rusage_sum *out)
{
	struct thread_group *tg = t->tg;
	struct task *i;
	uint64_t rss = 0;

	memset(out, 0, sizeof(*out));
	if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN && who != RUSAGE_THREAD)
		return -EINVAL;
	if (who != RUSAGE_CHILDREN && t->mm)
		rss = mm_rss_kb(t->mm);
	if (who == RUSAGE_THREAD)
		task_cpu_sample(t);
	lock_acquire(&t->k->tasks_lock);
	if (who == RUSAGE_CHILDREN) {
		*out = tg->dead_children;
	} else if (who == RUSAGE_THREAD) {
		*out = t->ru;
		task_cpu_times(t, &out->utime_ns, &out->stime_ns);
	} else {
		*out = tg->dead_threads;
		list_for_each(i, &tg->tasks, tg_node)
			if (i->state != TASK_DEAD)
				rusage_add(out, &i->ru);
		tg_cpu_times_locked(tg, &out->utime_ns, &out->stime_ns);
	}
	lock_release(&t->k->tasks_lock);
	if (rss > t->ru.maxrss_kb)
		t->ru.maxrss_kb = rss;
	if (t->ru.maxrss_kb > out->maxrss_kb && who != RUSAGE_CHILDREN)
		out->maxrss_kb = t->ru.maxrss_kb;
	return 0;
}

SYSCALL_HANDLER(getrusage)
{
	struct rusage_sum ru;
	int err = rusage_get(t, (int)a->a[0], &ru);

	return err ? err : rusage_to_user(t, a->a[1], &ru);
}

#define NS_PER_TICK 10000000u /* USER_HZ is 100 */

SYSCALL_HANDLER(times)
{
	struct thread_group *tg = t->tg;
	uint64_t v[4];

	lock_acquire(&t->k->tasks_lock);
	tg_cpu_times_locked(tg, &v[0], &v[1]);
	v[2] = tg->dead_children.utime_ns;
	v[3] = tg->dead_children.stime_ns;
	lock_release(&t->k->tasks_lock);
	for (int i = 0; i < 4; i++)
		v[i] /= NS_PER_TICK;
	if (a->a[0] && copy_to_user(t, a->a[0], v, sizeof(v)))
		return -EFAULT;
	return (long)(mono_now_ns() / NS_PER_TICK);
}
