/* SPDX-License-Identifier: Apache-2.0 */
/* The group's figures as proc knows them: the whole sandbox is the one group. */
#include "vfs/cgroup/cgroup_priv.h"
#include "vfs/proc/proc.h"

static void stats(const struct cgroup_source *cs, struct cgroup_stats *out)
{
	const struct proc_source *ps = proc_get_source();
	struct proc_meminfo m = { .total = 0 };
	struct proc_system sys = { .uptime_ns = 0 };

	if (ps->meminfo)
		ps->meminfo(ps, &m);
	if (ps->system)
		ps->system(ps, &sys);
	out->memory_current = m.total > m.free ? m.total - m.free : 0;
	out->memory_anon = m.anon_pages;
	out->memory_file = m.cached;
	out->memory_shmem = m.shmem;
	out->pgfault = sys.pgfault;
	out->pgmajfault = sys.pgmajfault;
	for (uint32_t i = 0; ps->cpu_times && i < ps->cpu_count; i++) {
		struct proc_cpu_times t = { .user_ns = 0 };

		ps->cpu_times(ps, i, &t);
		out->cpu_user_us += (t.user_ns + t.nice_ns) / 1000;
		out->cpu_system_us += t.system_ns / 1000;
	}
	out->cpu_usage_us = out->cpu_user_us + out->cpu_system_us;
	out->pids_current = sys.threads;
}

static void members(const struct cgroup_source *cs, int threads, struct strbuf *out)
{
	const struct proc_source *ps = proc_get_source();

	for (int pid = 1; (pid = ps->pid_next(ps, NULL, pid)) > 0; pid++) {
		void *task = threads ? ps->task_find(ps, NULL, pid) : NULL;

		if (!threads)
			strbuf_printf(out, "%d\n", pid);
		if (!task)
			continue;
		for (int tid = 1; (tid = ps->tid_next(ps, NULL, task, tid)) > 0; tid++)
			strbuf_printf(out, "%d\n", tid);
		ps->task_put(ps, task);
	}
}

const struct cgroup_source *cgroup_source_of_proc(void)
{
	static struct cgroup_source source = { .stats = stats, .members = members };
	const struct proc_source *ps = proc_get_source();

	if (!ps || !ps->cpu_count)
		return NULL;
	/* The same value from every caller. */
	__atomic_store_n(&source.cpu_count, ps->cpu_count, __ATOMIC_RELAXED);
	return &source;
}
