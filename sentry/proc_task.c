/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID: snapshots of tasks, their texts and settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/proc_priv.h"
#include "vfs/dev/tty.h"

#define ARGS_MAX (2u << 20) /* what cmdline and environ show at most */

int proc_src_owner(const struct proc_source *ps, void *task, int always, uint32_t *uid,
		   uint32_t *gid)
{
	struct task *t = task;
	int err = 0;

	(void)ps;
	*uid = *gid = 0;
	lock_acquire(&g_kernel->tasks_lock);
	if (!t->cred)
		err = -ESRCH;
	else if (always || !t->mm || __atomic_load_n(&t->mm->dumpable, __ATOMIC_RELAXED) == 1) {
		*uid = t->cred->euid;
		*gid = t->cred->egid;
	}
	lock_release(&g_kernel->tasks_lock);
	return err;
}

int proc_src_may_access(const struct proc_source *ps, void *task, int mode)
{
	(void)ps;
	return current ? task_may_access(current, task, mode == PROC_ACCESS_ATTACH) : 0;
}

/* ---- the snapshot ---- */

static char state_letter(struct task *t)
{
	if (t->state == TASK_DEAD)
		return t->tg->leader == t && !(t->tg->group_flags & TG_REAPED) ? 'Z' : 'X';
	if (t->jobctl_stop & JOBCTL_STOPPED)
		return 'T';
	switch (__atomic_load_n(&t->state, __ATOMIC_RELAXED)) {
	case TASK_SLEEPING:
		return 'S';
	case TASK_STOPPED:
		return 'T';
	case TASK_TRACED:
		return 't';
	default:
		return 'R';
	}
}

/* [tasks] */
static void fill_group(struct thread_group *tg, struct pid_ns *ns, struct proc_task_info *o)
{
	o->tgid = pid_nr_in(tg->pid, ns);
	o->ppid = tg->parent ? pid_nr_in(tg->parent->pid, ns) : 0;
	o->pgrp = pid_nr_in(tg->pgrp, ns);
	o->session = pid_nr_in(tg->session, ns);
	o->exit_signal = tg->exit_signal;
	o->exit_code = tg->group_flags & TG_ZOMBIE ? tg->exit_status : 0;
	o->num_threads = tg->task_count;
	o->start_ns = tg->start_mono_ns > tg->k->boot_mono_ns ?
			      tg->start_mono_ns - tg->k->boot_mono_ns : 0;
	o->cminflt = tg->dead_children.minflt;
	o->cmajflt = tg->dead_children.majflt;
	o->cutime_ns = tg->dead_children.utime_ns;
	o->cstime_ns = tg->dead_children.stime_ns;
}

/* [tasks] */
static void fill_ns_numbers(struct task *t, struct pid_ns *ns, struct proc_task_info *o)
{
	int n = 0;

	for (int i = ns->level; i <= t->pid->level && n < PROC_NS_LEVELS; i++, n++) {
		struct pid_ns *at = t->pid->numbers[i].ns;

		o->ns_tgid[n] = pid_nr_in(t->tg->pid, at);
		o->ns_pid[n] = pid_nr_in(t->pid, at);
		o->ns_pgid[n] = pid_nr_in(t->tg->pgrp, at);
		o->ns_sid[n] = pid_nr_in(t->tg->session, at);
	}
	o->ns_pid_levels = n;
}

/* [tasks] */
static void fill_counts(struct task *t, int whole, struct proc_task_info *o)
{
	struct task *i;

	if (!whole) {
		task_cpu_times(t, &o->utime_ns, &o->stime_ns);
		o->minflt = t->ru.minflt;
		o->majflt = t->ru.majflt;
	} else {
		tg_cpu_times_locked(t->tg, &o->utime_ns, &o->stime_ns);
		o->minflt = t->tg->dead_threads.minflt;
		o->majflt = t->tg->dead_threads.majflt;
		list_for_each(i, &t->tg->tasks, tg_node)
			if (i->state != TASK_DEAD) {
				o->minflt += i->ru.minflt;
				o->majflt += i->ru.majflt;
			}
	}
	o->nvcsw = t->ru.nvcsw;
	o->nivcsw = t->ru.nivcsw;
	o->timeslices = o->nvcsw + o->nivcsw;
}

/* [tasks] */
static void fill_task(struct task *t, struct proc_task_info *o)
{
	memcpy(o->comm, t->comm, sizeof(o->comm));
	o->state = state_letter(t);
	o->nice = t->nice;
	o->policy = t->sched_policy;
	o->rt_priority = t->rt_priority;
	o->processor = (int32_t)(t->task_id % t->k->cpu_count);
	_Static_assert(sizeof(o->cpus_allowed) == sizeof(t->cpu_affinity), "1024 CPUs");
	memcpy(o->cpus_allowed, t->cpu_affinity, sizeof(o->cpus_allowed));
	signal_sets_locked(t, &o->sig_pending, &o->sig_shared_pending, &o->sig_ignored,
			   &o->sig_caught);
	o->sig_blocked = t->state == TASK_DEAD ? 0 : t->blocked;
	o->sigq_used = signal_queued_locked(t);
	o->cred = t->cred ? cred_get(t->cred) : NULL;
	o->no_new_privs = (uint32_t)t->no_new_privs;
	o->seccomp_mode = t->seccomp ? 2 : 0;
	o->seccomp_filters = t->seccomp ? 1 : 0;
}

static void fill_mm(struct mm *mm, struct proc_task_info *o)
{
	uint64_t rss = mm_rss_kb(mm) * 1024;

	lock_acquire(&mm->lock);
	o->has_mm = 1;
	o->vm_size = mm->total_pages * GUEST_PAGE_SIZE;
	o->vm_peak = (mm->hiwater_pages > mm->total_pages ? mm->hiwater_pages : mm->total_pages) *
		     GUEST_PAGE_SIZE;
	o->vm_locked = mm->locked_pages * GUEST_PAGE_SIZE;
	o->vm_data = mm->data_pages * GUEST_PAGE_SIZE;
	o->vm_stack = mm->stack_pages * GUEST_PAGE_SIZE;
	o->vm_exe = (mm->end_code - mm->start_code + 4095) & ~4095ull;
	for (size_t i = 0; i < mm->vma_count; i++) {
		struct vma *v = mm->vmas[i];

		if (v->file && (v->prot & PROT_EXEC) && !(v->prot & PROT_WRITE))
			o->vm_lib += v->end - v->start;
	}
	o->vm_lib = o->vm_lib > o->vm_exe ? o->vm_lib - o->vm_exe : 0;
	o->vm_pte = (mm->vma_count + 16) * 4096;
	o->rss_anon = rss;
	o->rss_peak = rss;
	o->start_code = mm->start_code;
	o->end_code = mm->end_code;
	o->start_data = mm->start_data;
	o->end_data = mm->end_data;
	o->start_brk = mm->brk_start;
	o->start_stack = mm->start_stack;
	o->arg_start = mm->arg_start;
	o->arg_end = mm->arg_end;
	o->env_start = mm->env_start;
	o->env_end = mm->env_end;
	lock_release(&mm->lock);
}

int proc_src_info(const struct proc_source *ps, void *ns, void *task, int whole,
		  struct proc_task_info *o)
{
	struct pid_ns *n = ns ? ns : g_kernel->init_pid_ns;
	struct fdtable *files = NULL;
	struct tty *tty = NULL;
	struct fs_struct *fs;
	struct task *t = task;
	struct mm *mm;

	(void)ps;
	memset(o, 0, sizeof(*o));
	lock_acquire(&g_kernel->tasks_lock);
	if (!t->tg->pid || t->pid->task != t) {
		lock_release(&g_kernel->tasks_lock);
		return -ESRCH;
	}
	o->pid = pid_nr_in(t->pid, n);
	fill_group(t->tg, n, o);
	fill_ns_numbers(t, n, o);
	fill_counts(t, whole, o);
	fill_task(t, o);
	if (t->files)
		files = fdtable_get(t->files);
	if (t->tg->ctty)
		tty = tty_get(t->tg->ctty);
	lock_release(&g_kernel->tasks_lock);

	o->sigq_limit = rlimit_cur(t, RLIMIT_SIGPENDING);
	o->rss_limit = rlimit_cur(t, RLIMIT_RSS);
	o->tpgid = -1;
	if (tty) {
		o->tty = (uint32_t)tty_dev(tty);
		o->tpgid = tty_foreground_nr(tty);
		tty_put(tty);
	}
	if (files) {
		o->fd_table_size = (uint32_t)fdtable_size(files);
		fdtable_put(files);
	}
	fs = proc_fs_of(t);
	if (fs) {
		lock_acquire(&fs->lock);
		o->umask = fs->umask;
		lock_release(&fs->lock);
		fs_put(fs);
	}
	mm = task_mm_get(t);
	if (mm) {
		fill_mm(mm, o);
		mm_put(mm);
	}
	return 0;
}

/* ---- texts ---- */

/* Bytes [from, to) of the process's memory. */
static void add_memory(struct mm *mm, uint64_t from, uint64_t to, struct strbuf *out)
{
	char buf[4096];

	if (to - from > ARGS_MAX)
		to = from + ARGS_MAX;
	while (from < to) {
		size_t want = to - from < sizeof(buf) ? (size_t)(to - from) : sizeof(buf);
		ssize_t n = mm_read(mm, buf, from, want);

		if (n <= 0)
			return;
		strbuf_add(out, buf, (size_t)n);
		from += (uint64_t)n;
	}
}

static void add_range(struct mm *mm, const uint64_t *from, const uint64_t *to, struct strbuf *out)
{
	uint64_t a, b;

	lock_acquire(&mm->lock);
	a = *from;
	b = *to;
	lock_release(&mm->lock);
	if (a < b)
		add_memory(mm, a, b, out);
}

static void add_children(struct task *t, struct strbuf *out)
{
	struct pid_ns *ns = current ? current->pid_ns : g_kernel->init_pid_ns;
	struct thread_group *c;

	lock_acquire(&g_kernel->tasks_lock);
	list_for_each(c, &t->tg->children, sibling)
		if (c->child_of_thread == t || (!c->child_of_thread && t == t->tg->leader))
			strbuf_printf(out, "%d ", pid_nr_in(c->pid, ns));
	lock_release(&g_kernel->tasks_lock);
}

static void add_syscall(struct task *t, struct strbuf *out)
{
	if (t->state == TASK_RUNNING || t->syscall_nr == (uint64_t)-1) {
		strbuf_puts(out, "running\n");
		return;
	}
	strbuf_printf(out, "%llu 0x%llx 0x%llx 0x%llx 0x%llx 0x%llx 0x%llx 0x%llx 0x%llx\n",
		      (unsigned long long)t->syscall_nr, (unsigned long long)t->regs.rdi,
		      (unsigned long long)t->regs.rsi, (unsigned long long)t->regs.rdx,
		      (unsigned long long)t->regs.r10, (unsigned long long)t->regs.r8,
		      (unsigned long long)t->regs.r9, (unsigned long long)t->regs.rsp,
		      (unsigned long long)t->regs.rip);
}

static void add_maps(struct task *t, struct mm *mm, int kind, struct strbuf *out)
{
	struct fs_struct *fs = proc_fs_of(current ? current : t);
	struct path root;

	if (!fs)
		return;
	lock_acquire(&fs->lock);
	root = path_get(fs->root);
	lock_release(&fs->lock);
	mm_show_maps(mm, root, kind, out);
	path_put(root);
	fs_put(fs);
}

int proc_src_text(const struct proc_source *ps, void *task, enum proc_text what, struct strbuf *out)
{
	struct task *t = task;
	struct mm *mm;

	(void)ps;
	switch (what) {
	case PROC_TEXT_CGROUP:
		strbuf_puts(out, "0::/\n");
		return 0;
	case PROC_TEXT_TIMERS:
		return 0;
	case PROC_TEXT_SYSCALL:
		add_syscall(t, out);
		return 0;
	case PROC_TEXT_WCHAN:
		strbuf_puts(out, t->state == TASK_SLEEPING && t->wchan[0] ? t->wchan : "0");
		return 0;
	case PROC_TEXT_CHILDREN:
		add_children(t, out);
		return 0;
	default:
		break;
	}
	mm = task_mm_get(t);
	if (!mm)
		return 0;
	switch (what) {
	case PROC_TEXT_MAPS:
		add_maps(t, mm, 0, out);
		break;
	case PROC_TEXT_SMAPS:
		add_maps(t, mm, 1, out);
		break;
	case PROC_TEXT_SMAPS_ROLLUP:
		add_maps(t, mm, 2, out);
		break;
	case PROC_TEXT_CMDLINE:
		add_range(mm, &mm->arg_start, &mm->arg_end, out);
		break;
	case PROC_TEXT_ENVIRON:
		add_range(mm, &mm->env_start, &mm->env_end, out);
		break;
	case PROC_TEXT_AUXV:
		strbuf_add(out, mm->auxv, mm->auxv_count * sizeof(mm->auxv[0]));
		break;
	default:
		break;
	}
	mm_put(mm);
	return 0;
}

/* ---- settings ---- */

int proc_src_rlimits(const struct proc_source *ps, void *task, struct proc_rlimit out[PROC_RLIMITS])
{
	struct thread_group *tg = ((struct task *)task)->tg;

	(void)ps;
	lock_acquire(&tg->rlimit_lock);
	for (int i = 0; i < PROC_RLIMITS; i++) {
		out[i].cur = tg->rlimits[i].rlim_cur;
		out[i].max = tg->rlimits[i].rlim_max;
	}
	lock_release(&tg->rlimit_lock);
	return 0;
}

/* Linux's oom_badness scaled to 0 … 2000, with the adjustment in. */
static int64_t oom_score(struct task *t)
{
	struct mm *mm = task_mm_get(t);
	uint64_t total = g_kernel->total_memory, rss = 0;
	int64_t score;

	if (mm) {
		rss = mm_rss_kb(mm) * 1024;
		mm_put(mm);
	}
	if (t->tg->oom_score_adj == -1000)
		return 0;
	score = (int64_t)(rss * 1000 / total) + t->tg->oom_score_adj;
	score = 666 + score * 666 / 1000;
	return score < 0 ? 0 : score > 2000 ? 2000 : score;
}

int proc_src_number_get(const struct proc_source *ps, void *task, enum proc_number what, int64_t *out)
{
	struct task *t = task;

	(void)ps;
	switch (what) {
	case PROC_OOM_SCORE:
		*out = oom_score(t);
		return 0;
	case PROC_OOM_SCORE_ADJ:
		*out = __atomic_load_n(&t->tg->oom_score_adj, __ATOMIC_RELAXED);
		return 0;
	case PROC_LOGINUID:
	case PROC_SESSIONID:
		*out = UINT32_MAX; /* nobody logged in */
		return 0;
	case PROC_COREDUMP_FILTER:
		*out = 0x33;
		return 0;
	case PROC_TIMERSLACK_NS:
		*out = (int64_t)t->timer_slack_ns;
		return 0;
	case PROC_PERSONALITY:
		*out = t->personality;
		return 0;
	case PROC_SETGROUPS:
		*out = 1;
		return 0;
	default:
		return -ENOENT;
	}
}

int proc_src_number_set(const struct proc_source *ps, void *task, enum proc_number what, int64_t val)
{
	struct task *t = task;

	(void)ps;
	switch (what) {
	case PROC_OOM_SCORE_ADJ:
		if (val < t->tg->oom_score_adj && current &&
		    !cred_has_cap(task_cred(current), CAP_SYS_RESOURCE))
			return -EACCES;
		__atomic_store_n(&t->tg->oom_score_adj, (int)val, __ATOMIC_RELAXED);
		return 0;
	case PROC_TIMERSLACK_NS:
		t->timer_slack_ns = val ? (uint64_t)val : 50000;
		return 0;
	case PROC_COREDUMP_FILTER:
	case PROC_CLEAR_REFS:
		return 0;
	case PROC_LOGINUID:
	case PROC_SETGROUPS:
		return -EPERM;
	default:
		return -EINVAL;
	}
}

int proc_src_comm_set(const struct proc_source *ps, void *task, const char comm[PROC_COMM_SIZE])
{
	struct task *t = task;

	(void)ps;
	if (!current || current->tg != t->tg)
		return -EINVAL;
	lock_acquire(&g_kernel->tasks_lock);
	memcpy(t->comm, comm, sizeof(t->comm));
	t->comm[sizeof(t->comm) - 1] = '\0';
	lock_release(&g_kernel->tasks_lock);
	return 0;
}

/* The sandbox has one user namespace, which maps everything to itself. */
int proc_src_idmap_get(const struct proc_source *ps, void *task, enum proc_idmap which,
		       struct proc_idmap_extent *out)
{
	(void)ps;
	(void)task;
	(void)which;
	out[0] = (struct proc_idmap_extent){ .first = 0, .lower_first = 0, .count = UINT32_MAX };
	return 1;
}
