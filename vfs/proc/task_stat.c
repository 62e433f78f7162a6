/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of one process or thread: stat, statm, status, sched, limits, io. Linux's formats. */
#include <errno.h>
#include <sched.h>

#include "vfs/proc/proc_priv.h"

static int get_info(const struct pseudo_req *rq, int whole, struct proc_task_info *ti)
{
	const struct proc_source *ps = proc_ps(rq);

	memset(ti, 0, sizeof(*ti));
	return ps->task_info(ps, proc_mnt(rq)->ns, rq->inst->obj, whole, ti);
}

static void put_info(struct proc_task_info *ti)
{
	if (ti->cred)
		cred_put(ti->cred);
	ti->cred = NULL;
}

/* A name may contain anything; a newline or backslash in it must not break the line format. */
static void put_comm(struct strbuf *out, const char *comm, int escape)
{
	for (int i = 0; i < PROC_COMM_SIZE && comm[i]; i++) {
		if (escape && comm[i] == '\n')
			strbuf_puts(out, "\\n");
		else if (escape && comm[i] == '\\')
			strbuf_puts(out, "\\\\");
		else
			strbuf_putc(out, comm[i]);
	}
}

int proc_show_comm(const struct pseudo_req *rq, struct strbuf *out)
{
	struct proc_task_info ti;
	int r = get_info(rq, 0, &ti);

	if (r)
		return r;
	put_comm(out, ti.comm, 0);
	strbuf_putc(out, '\n');
	put_info(&ti);
	return 0;
}

static int is_rt(const struct proc_task_info *ti)
{
	return ti->policy == SCHED_FIFO || ti->policy == SCHED_RR;
}

int proc_show_stat(const struct pseudo_req *rq, struct strbuf *out)
{
	struct proc_task_info ti;
	int r = get_info(rq, !proc_is_thread(rq), &ti);

	if (r)
		return r;
	/* Addresses only for those who could ptrace it; Linux then shows 1 for a start address. */
	int open = proc_may_access(rq, PROC_ACCESS_READ) == 0;
	uint64_t rss = (ti.rss_anon + ti.rss_file + ti.rss_shmem) / 4096;
	int32_t prio = is_rt(&ti) ? -1 - ti.rt_priority : 20 + ti.nice;

#define U(x) ((unsigned long long)(x))
	strbuf_printf(out, "%d (", proc_is_thread(rq) ? ti.pid : ti.tgid);
	put_comm(out, ti.comm, 1);
	strbuf_printf(out, ") %c %d %d %d %d %d %u", ti.state, ti.ppid, ti.pgrp, ti.session,
		      (int)ti.tty, ti.tpgid, ti.flags);
	strbuf_printf(out, " %llu %llu %llu %llu", U(ti.minflt), U(ti.cminflt), U(ti.majflt),
		      U(ti.cmajflt));
	strbuf_printf(out, " %llu %llu %lld %lld", U(ti.utime_ns / NS_PER_TICK),
		      U(ti.stime_ns / NS_PER_TICK), (long long)(ti.cutime_ns / NS_PER_TICK),
		      (long long)(ti.cstime_ns / NS_PER_TICK));
	strbuf_printf(out, " %d %d %u 0 %llu %llu %llu %llu", prio, ti.nice, ti.num_threads,
		      U(ti.start_ns / NS_PER_TICK), U(ti.vm_size), U(rss), U(ti.rss_limit));
	strbuf_printf(out, " %llu %llu %llu 0 0", U(!ti.has_mm ? 0 : open ? ti.start_code : 1),
		      U(!ti.has_mm ? 0 : open ? ti.end_code : 1), U(open ? ti.start_stack : 0));
	strbuf_printf(out, " %llu %llu %llu %llu %d 0 0", U(ti.sig_pending & 0x7fffffff),
		      U(ti.sig_blocked & 0x7fffffff), U(ti.sig_ignored & 0x7fffffff),
		      U(ti.sig_caught & 0x7fffffff), open && ti.state != 'R');
	strbuf_printf(out, " %d %d %d %d 0 0 0", ti.exit_signal, ti.processor, ti.rt_priority,
		      ti.policy);
	if (open)
		strbuf_printf(out, " %llu %llu %llu %llu %llu %llu %llu %d\n", U(ti.start_data),
			      U(ti.end_data), U(ti.start_brk), U(ti.arg_start), U(ti.arg_end),
			      U(ti.env_start), U(ti.env_end), ti.exit_code);
	else
		strbuf_puts(out, " 0 0 0 0 0 0 0 0\n");
	put_info(&ti);
	return 0;
}

int proc_show_statm(const struct pseudo_req *rq, struct strbuf *out)
{
	struct proc_task_info ti;
	int r = get_info(rq, 0, &ti);

	if (r)
		return r;
	strbuf_printf(out, "%llu %llu %llu %llu 0 %llu 0\n", U(ti.vm_size / 4096),
		      U((ti.rss_anon + ti.rss_file + ti.rss_shmem) / 4096),
		      U((ti.rss_file + ti.rss_shmem) / 4096), U(ti.vm_exe / 4096),
		      U((ti.vm_data + ti.vm_stack) / 4096));
	put_info(&ti);
	return 0;
}

static const char *state_text(char c)
{
	static const char *const names[] = { "R (running)",  "S (sleeping)",	 "D (disk sleep)",
					     "T (stopped)",  "t (tracing stop)", "X (dead)",
					     "Z (zombie)",   "P (parked)",	 "I (idle)" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i][0] == c)
			return names[i];
	return "R (running)";
}

static void put_ids(struct strbuf *out, const struct proc_task_info *ti)
{
	static const struct cred nobody = { .ref = { 1 } };
	const struct cred *c = ti->cred ? ti->cred : &nobody;

	strbuf_printf(out, "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n", c->uid, c->euid, c->suid,
		      c->fsuid, c->gid, c->egid, c->sgid, c->fsgid);
	strbuf_printf(out, "FDSize:\t%u\nGroups:\t", ti->fd_table_size);
	for (uint32_t i = 0; i < c->group_count; i++)
		strbuf_printf(out, i ? " %u" : "%u", c->groups[i]);
	/* The blank before the end of the line is Linux's, kept for parsers. */
	strbuf_puts(out, " \n");
}

static void put_ns_pids(struct strbuf *out, const struct proc_task_info *ti)
{
	const struct {
		const char *name;
		const int32_t *ids;
		int32_t fallback;
	} rows[] = { { "NStgid:", ti->ns_tgid, ti->tgid },
		     { "NSpid:", ti->ns_pid, ti->pid },
		     { "NSpgid:", ti->ns_pgid, ti->pgrp },
		     { "NSsid:", ti->ns_sid, ti->session } };

	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		strbuf_puts(out, rows[k].name);
		for (int i = 0; i < ti->ns_pid_levels && i < PROC_NS_LEVELS; i++)
			strbuf_printf(out, "\t%d", rows[k].ids[i]);
		if (!ti->ns_pid_levels)
			strbuf_printf(out, "\t%d", rows[k].fallback);
		strbuf_putc(out, '\n');
	}
}

static void put_memory(struct strbuf *out, const struct proc_task_info *ti)
{
	const struct {
		const char *name;
		uint64_t bytes;
	} rows[] = {
		{ "VmPeak:", ti->vm_peak > ti->vm_size ? ti->vm_peak : ti->vm_size },
		{ "VmSize:", ti->vm_size },
		{ "VmLck:", ti->vm_locked },
		{ "VmPin:", ti->vm_pinned },
		{ "VmHWM:", ti->rss_peak },
		{ "VmRSS:", ti->rss_anon + ti->rss_file + ti->rss_shmem },
		{ "RssAnon:", ti->rss_anon },
		{ "RssFile:", ti->rss_file },
		{ "RssShmem:", ti->rss_shmem },
		{ "VmData:", ti->vm_data },
		{ "VmStk:", ti->vm_stack },
		{ "VmExe:", ti->vm_exe },
		{ "VmLib:", ti->vm_lib },
		{ "VmPTE:", ti->vm_pte },
		{ "VmSwap:", ti->vm_swap },
		{ "HugetlbPages:", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		strbuf_printf(out, "%s\t%8llu kB\n", rows[i].name, U(rows[i].bytes) >> 10);
	strbuf_puts(out, "CoreDumping:\t0\nTHP_enabled:\t0\nuntag_mask:\t0xffffffffffffffff\n");
}

int proc_show_status(const struct pseudo_req *rq, struct strbuf *out)
{
	struct proc_task_info ti;
	int r = get_info(rq, !proc_is_thread(rq), &ti);
	uint32_t cpus = proc_ps(rq)->cpu_count;

	if (r)
		return r;
	strbuf_puts(out, "Name:\t");
	put_comm(out, ti.comm, 1);
	strbuf_printf(out,
		      "\nUmask:\t%#04o\nState:\t%s\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\n"
		      "TracerPid:\t%d\n",
		      ti.umask, state_text(ti.state), ti.tgid,
		      proc_is_thread(rq) ? ti.pid : ti.tgid, ti.ppid, ti.tracer);
	put_ids(out, &ti);
	put_ns_pids(out, &ti);
	strbuf_puts(out, "Kthread:\t0\n");
	if (ti.has_mm)
		put_memory(out, &ti);
	strbuf_printf(out, "Threads:\t%u\nSigQ:\t%llu/%llu\n", ti.num_threads, U(ti.sigq_used),
		      U(ti.sigq_limit));
	strbuf_printf(out, "SigPnd:\t%016llx\nShdPnd:\t%016llx\nSigBlk:\t%016llx\n",
		      U(ti.sig_pending), U(ti.sig_shared_pending), U(ti.sig_blocked));
	strbuf_printf(out, "SigIgn:\t%016llx\nSigCgt:\t%016llx\n", U(ti.sig_ignored),
		      U(ti.sig_caught));
	const struct cred *c = ti.cred;

	strbuf_printf(out, "CapInh:\t%016llx\nCapPrm:\t%016llx\nCapEff:\t%016llx\n",
		      U(c ? c->cap_inheritable : 0), U(c ? c->cap_permitted : 0),
		      U(c ? c->cap_effective : 0));
	strbuf_printf(out, "CapBnd:\t%016llx\nCapAmb:\t%016llx\n", U(c ? c->cap_bounding : 0),
		      U(c ? c->cap_ambient : 0));
	strbuf_printf(out, "NoNewPrivs:\t%u\nSeccomp:\t%u\nSeccomp_filters:\t%u\n",
		      ti.no_new_privs, ti.seccomp_mode, ti.seccomp_filters);
	strbuf_puts(out, "Speculation_Store_Bypass:\tunknown\n"
			 "SpeculationIndirectBranch:\tunknown\nCpus_allowed:\t");
	proc_put_cpu_mask(out, ti.cpus_allowed, cpus);
	strbuf_puts(out, "\nCpus_allowed_list:\t");
	proc_put_cpu_list(out, ti.cpus_allowed, cpus);
	strbuf_printf(out,
		      "\nMems_allowed:\t1\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t%llu\n"
		      "nonvoluntary_ctxt_switches:\t%llu\nx86_Thread_features:\t\n"
		      "x86_Thread_features_locked:\t\n",
		      U(ti.nvcsw), U(ti.nivcsw));
	put_info(&ti);
	return 0;
}

static void put_ms(struct strbuf *out, const char *name, uint64_t ns)
{
	strbuf_printf(out, "%-45s:%14llu.%06llu\n", name, U(ns / 1000000), U(ns % 1000000));
}

int proc_show_sched(const struct pseudo_req *rq, struct strbuf *out)
{
	struct proc_task_info ti;
	int r = get_info(rq, 0, &ti);

	if (r)
		return r;
	put_comm(out, ti.comm, 1);
	strbuf_printf(out, " (%d, #threads: %u)\n", ti.pid, ti.num_threads);
	strbuf_puts(out, "-------------------------------------------------------------------\n");
	put_ms(out, "se.sum_exec_runtime", ti.utime_ns + ti.stime_ns);
	const struct {
		const char *name;
		long long val;
	} rows[] = { { "nr_switches", (long long)(ti.nvcsw + ti.nivcsw) },
		     { "nr_voluntary_switches", (long long)ti.nvcsw },
		     { "nr_involuntary_switches", (long long)ti.nivcsw },
		     { "policy", ti.policy },
		     { "prio", is_rt(&ti) ? 99 - ti.rt_priority : 120 + ti.nice } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		strbuf_printf(out, "%-45s:%21lld\n", rows[i].name, rows[i].val);
	put_info(&ti);
	return 0;
}

int proc_show_schedstat(const struct pseudo_req *rq, struct strbuf *out)
{
	struct proc_task_info ti;
	int r = get_info(rq, 0, &ti);

	if (r)
		return r;
	strbuf_printf(out, "%llu %llu %llu\n", U(ti.utime_ns + ti.stime_ns), U(ti.run_delay_ns),
		      U(ti.timeslices));
	put_info(&ti);
	return 0;
}

int proc_show_limits(const struct pseudo_req *rq, struct strbuf *out)
{
	static const struct {
		const char *name, *unit;
	} names[PROC_RLIMITS] = {
		{ "Max cpu time", "seconds" },	    { "Max file size", "bytes" },
		{ "Max data size", "bytes" },	    { "Max stack size", "bytes" },
		{ "Max core file size", "bytes" },  { "Max resident set", "bytes" },
		{ "Max processes", "processes" },   { "Max open files", "files" },
		{ "Max locked memory", "bytes" },   { "Max address space", "bytes" },
		{ "Max file locks", "locks" },	    { "Max pending signals", "signals" },
		{ "Max msgqueue size", "bytes" },   { "Max nice priority", NULL },
		{ "Max realtime priority", NULL },  { "Max realtime timeout", "us" },
	};
	const struct proc_source *ps = proc_ps(rq);
	struct proc_rlimit lim[PROC_RLIMITS];
	int r = ps->rlimits(ps, rq->inst->obj, lim);

	if (r)
		return r;
	strbuf_printf(out, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit",
		      "Units");
	for (int i = 0; i < PROC_RLIMITS; i++) {
		const uint64_t v[2] = { lim[i].cur, lim[i].max };

		strbuf_printf(out, "%-25s ", names[i].name);
		for (int k = 0; k < 2; k++)
			if (v[k] == UINT64_MAX)
				strbuf_printf(out, "%-20s ", "unlimited");
			else
				strbuf_printf(out, "%-20llu ", U(v[k]));
		if (names[i].unit)
			strbuf_printf(out, "%-10s\n", names[i].unit);
		else
			strbuf_putc(out, '\n');
	}
	return 0;
}

int proc_show_io(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_io io = { 0 };
	int r = proc_may_access(rq, PROC_ACCESS_READ);

	if (!r)
		r = ps->io(ps, rq->inst->obj, !proc_is_thread(rq), &io);
	if (r)
		return r;
	strbuf_printf(out,
		      "rchar: %llu\nwchar: %llu\nsyscr: %llu\nsyscw: %llu\nread_bytes: %llu\n"
		      "write_bytes: %llu\ncancelled_write_bytes: %llu\n",
		      U(io.rchar), U(io.wchar), U(io.syscr), U(io.syscw), U(io.read_bytes),
		      U(io.write_bytes), U(io.cancelled_write_bytes));
	return 0;
}
