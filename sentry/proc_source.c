/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc asks the sentry (vfs/proc/proc.h): finding tasks, and the table of all answers. A
 * `task` handle is a struct task with a reference; a namespace handle a struct pid_ns.
 */
#include <stdio.h>
#include <sys/random.h>

#include "sentry/proc_priv.h"

void proc_source_start(struct kernel *k);

static struct pid_ns *ns_of(void *ns)
{
	return ns ? ns : g_kernel->init_pid_ns;
}

static void *src_task_find(const struct proc_source *ps, void *ns, int nr)
{
	struct task *t = NULL;
	struct pid *p;

	(void)ps;
	lock_acquire(&g_kernel->tasks_lock);
	p = pid_find(ns_of(ns), nr);
	if (p && p->task)
		t = task_get(p->task);
	lock_release(&g_kernel->tasks_lock);
	return t;
}

static void *src_thread_find(const struct proc_source *ps, void *ns, void *task, int tid)
{
	struct task *of = task, *t = src_task_find(ps, ns, tid);

	if (t && t->tg != of->tg) {
		task_put(t);
		t = NULL;
	}
	return t;
}

static int src_pid_next(const struct proc_source *ps, void *ns, int from)
{
	struct pid_ns *n = ns_of(ns);
	struct pid *p;
	int nr = 0;

	(void)ps;
	lock_acquire(&g_kernel->tasks_lock);
	for (p = pid_next(n, from); p; p = pid_next(n, pid_nr_in(p, n) + 1))
		if (p->tg) {
			nr = pid_nr_in(p, n);
			break;
		}
	lock_release(&g_kernel->tasks_lock);
	return nr;
}

static int src_tid_next(const struct proc_source *ps, void *ns, void *task, int from)
{
	struct task *of = task, *t;
	int best = 0;

	(void)ps;
	lock_acquire(&g_kernel->tasks_lock);
	list_for_each(t, &of->tg->tasks, tg_node) {
		int nr = pid_nr_in(t->pid, ns_of(ns));

		if (nr >= from && (!best || nr < best))
			best = nr;
	}
	lock_release(&g_kernel->tasks_lock);
	return best;
}

static void *src_task_current(const struct proc_source *ps)
{
	(void)ps;
	return current ? task_get(current) : NULL;
}

static void src_task_get(const struct proc_source *ps, void *task)
{
	(void)ps;
	task_get(task);
}

static void src_task_put(const struct proc_source *ps, void *task)
{
	(void)ps;
	task_put(task);
}

static int src_task_alive(const struct proc_source *ps, void *task)
{
	struct task *t = task;
	int alive;

	(void)ps;
	lock_acquire(&g_kernel->tasks_lock);
	alive = t->pid && t->pid->task == t;
	lock_release(&g_kernel->tasks_lock);
	return alive;
}

static int src_task_ids(const struct proc_source *ps, void *ns, void *task, int *tgid, int *tid)
{
	struct task *t = task;

	(void)ps;
	lock_acquire(&g_kernel->tasks_lock);
	*tgid = pid_nr_in(t->tg->pid, ns_of(ns));
	*tid = pid_nr_in(t->pid, ns_of(ns));
	lock_release(&g_kernel->tasks_lock);
	return *tgid && *tid ? 0 : -ESRCH;
}

static void *src_pidns_current(const struct proc_source *ps)
{
	(void)ps;
	return pid_ns_get(current ? current->pid_ns : g_kernel->init_pid_ns);
}

static void src_pidns_put(const struct proc_source *ps, void *ns)
{
	(void)ps;
	pid_ns_put(ns);
}

static char g_boot_id[37];

static struct proc_source g_source = {
	.version = "#1 SMP PREEMPT_DYNAMIC Caisson",
	.builder = "(caisson@caisson) (gcc)",
	.cmdline = "",
	.boot_id = g_boot_id,
	.task_find = src_task_find,
	.thread_find = src_thread_find,
	.pid_next = src_pid_next,
	.tid_next = src_tid_next,
	.task_current = src_task_current,
	.task_get = src_task_get,
	.task_put = src_task_put,
	.task_alive = src_task_alive,
	.task_ids = src_task_ids,
	.pidns_current = src_pidns_current,
	.pidns_put = src_pidns_put,
	.task_owner = proc_src_owner,
	.task_info = proc_src_info,
	.may_access = proc_src_may_access,
	.text = proc_src_text,
	.rlimits = proc_src_rlimits,
	.number_get = proc_src_number_get,
	.number_set = proc_src_number_set,
	.comm_set = proc_src_comm_set,
	.idmap_get = proc_src_idmap_get,
	.mem_rw = proc_src_mem_rw,
	.mem_get = proc_src_mem_get,
	.mem_put = proc_src_mem_put,
	.fd_next = proc_src_fd_next,
	.fd_get = proc_src_fd_get,
	.link_path = proc_src_link_path,
	.ns_inum = proc_src_ns_inum,
	.mnt_ns = proc_src_mnt_ns,
	.map_path = proc_src_map_path,
	.map_next = proc_src_map_next,
	.meminfo = proc_src_meminfo,
	.system = proc_src_system,
	.cpu_times = proc_src_cpu_times,
	.uts_get = proc_src_uts_get,
	.uts_set = proc_src_uts_set,
	.sysvipc = proc_src_sysvipc,
};

void proc_source_start(struct kernel *k)
{
	uint8_t r[16];

	if (getrandom(r, sizeof(r), 0) != sizeof(r))
		return;
	r[6] = (r[6] & 0x0f) | 0x40;
	r[8] = (r[8] & 0x3f) | 0x80;
	snprintf(g_boot_id, sizeof(g_boot_id),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", r[0], r[1],
		 r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], r[14],
		 r[15]);
	g_source.priv = k;
	g_source.vfs = k->vfs;
	g_source.release = k->release;
	g_source.cpu_count = k->cpu_count;
	proc_set_source(&g_source);
}
