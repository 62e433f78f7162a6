/* SPDX-License-Identifier: Apache-2.0 */
/* /proc beyond processes: memory, load, CPU time, names, SysV IPC. The sandbox's own figures only. */
#include <stdio.h>
#include <string.h>

#include "platform/host/memfile.h"
#include "sentry/ipc/ipc.h"
#include "sentry/proc_priv.h"

static uint64_t uptime_ns(struct kernel *k)
{
	return mono_now_ns() - k->boot_mono_ns;
}

/* All CPU time the sandbox's processes have used. */
static void used_cpu(struct kernel *k, uint64_t *user, uint64_t *system)
{
	struct thread_group *tg;

	*user = *system = 0;
	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		uint64_t u, s;

		tg_cpu_times_locked(tg, &u, &s);
		*user += u + tg->dead_children.utime_ns;
		*system += s + tg->dead_children.stime_ns;
	}
	lock_release(&k->tasks_lock);
}

void proc_src_meminfo(const struct proc_source *ps, struct proc_meminfo *o)
{
	struct kernel *k = ps->priv;
	uint64_t anon = 0, mapped = 0, tables = 0, as = 0;
	struct thread_group *tg;

	memset(o, 0, sizeof(*o));
	o->total = k->total_memory;
	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		struct mm *mm = tg->leader ? tg->leader->mm : NULL;

		if (!mm)
			continue;
		anon += mm->rss_pages * GUEST_PAGE_SIZE;
		mapped += (mm->end_code - mm->start_code) & ~4095ull;
		as += mm->data_pages * GUEST_PAGE_SIZE;
		tables += (mm->vma_count + 16) * 4096;
	}
	lock_release(&k->tasks_lock);
	o->shmem = memfile_used();
	o->anon_pages = o->active_anon = anon;
	o->mapped = mapped;
	o->cached = o->shmem;
	o->inactive_file = 0;
	o->page_tables = tables;
	o->committed_as = as;
	o->commit_limit = o->total / 2;
	o->free = anon + o->shmem < o->total ? o->total - anon - o->shmem : 0;
	o->available = o->free;
}

/*
 * Load averages without a tick: each reading decays the last by the time since, towards what runs
 * now. Who reads rarely gets a rough figure.
 */
static void load_average(uint32_t running, uint32_t out[3])
{
	static const uint64_t period_s[3] = { 60, 300, 900 };
	static struct {
		uint64_t at_ns;
		double v[3];
	} last;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t now = mono_now_ns();

	pthread_mutex_lock(&lock);
	for (int i = 0; i < 3; i++) {
		double dt = last.at_ns ? (double)(now - last.at_ns) / 1e9 : 0;
		/* First-order decay, its factor bounded to a full replacement. */
		double f = dt / ((double)period_s[i] + dt);

		last.v[i] += ((double)running - last.v[i]) * f;
		out[i] = (uint32_t)(last.v[i] * 65536.0);
	}
	last.at_ns = now;
	pthread_mutex_unlock(&lock);
}

void proc_src_system(const struct proc_source *ps, struct proc_system *o)
{
	struct kernel *k = ps->priv;
	struct thread_group *tg;
	uint64_t user, sys;
	struct task *t;

	memset(o, 0, sizeof(*o));
	used_cpu(k, &user, &sys);
	o->uptime_ns = uptime_ns(k);
	o->idle_ns = o->uptime_ns * k->cpu_count;
	o->idle_ns = o->idle_ns > user + sys ? o->idle_ns - user - sys : 0;
	o->boot_time = (int64_t)((real_now_ns() - o->uptime_ns) / 1000000000u);
	o->forks = __atomic_load_n(&k->total_forks, __ATOMIC_RELAXED);
	lock_acquire(&k->tasks_lock);
	o->threads = k->task_count;
	o->last_pid = k->init_pid_ns->last_pid;
	list_for_each(tg, &k->groups, node) {
		list_for_each(t, &tg->tasks, tg_node) {
			o->running += t->state == TASK_RUNNING;
			o->context_switches += t->ru.nvcsw + t->ru.nivcsw;
			o->pgfault += t->ru.minflt;
		}
		o->context_switches += tg->dead_threads.nvcsw + tg->dead_threads.nivcsw +
				       tg->dead_children.nvcsw + tg->dead_children.nivcsw;
		o->pgfault += tg->dead_threads.minflt + tg->dead_children.minflt;
	}
	lock_release(&k->tasks_lock);
	load_average(o->running, o->load);
}

void proc_src_cpu_times(const struct proc_source *ps, uint32_t cpu, struct proc_cpu_times *o)
{
	struct kernel *k = ps->priv;
	uint64_t user, sys, up = uptime_ns(k);

	(void)cpu;
	memset(o, 0, sizeof(*o));
	used_cpu(k, &user, &sys);
	o->user_ns = user / k->cpu_count;
	o->system_ns = sys / k->cpu_count;
	o->idle_ns = up > o->user_ns + o->system_ns ? up - o->user_ns - o->system_ns : 0;
}

static struct uts_ns *caller_uts(struct kernel *k)
{
	return current && current->uts ? current->uts : k->init_uts_ns;
}

void proc_src_uts_get(const struct proc_source *ps, enum proc_uts which, char out[PROC_UTS_SIZE])
{
	struct uts_ns *u = caller_uts(ps->priv);

	lock_acquire(&u->lock);
	memcpy(out, which == PROC_UTS_HOSTNAME ? u->nodename : u->domainname, PROC_UTS_SIZE);
	lock_release(&u->lock);
}

int proc_src_uts_set(const struct proc_source *ps, enum proc_uts which, const char *val)
{
	struct uts_ns *u = caller_uts(ps->priv);

	if (current && !cred_has_cap(task_cred(current), CAP_SYS_ADMIN))
		return -EPERM;
	lock_acquire(&u->lock);
	snprintf(which == PROC_UTS_HOSTNAME ? u->nodename : u->domainname, PROC_UTS_SIZE, "%s", val);
	lock_release(&u->lock);
	return 0;
}

int proc_src_sysvipc(const struct proc_source *ps, enum proc_sysvipc which, struct strbuf *out)
{
	(void)ps;
	if (!current)
		return -ESRCH;
	switch (which) {
	case PROC_SYSVIPC_MSG:
		ipc_show_msg(current, out);
		return 0;
	case PROC_SYSVIPC_SEM:
		ipc_show_sem(current, out);
		return 0;
	case PROC_SYSVIPC_SHM:
		ipc_show_shm(current, out);
		return 0;
	}
	return -ENOENT;
}
