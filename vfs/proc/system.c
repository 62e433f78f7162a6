/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files about the machine, and the root directory that lists them. What the sandbox has no
 * true figure for (zones, slabs, page types) is absent rather than made up; what it simply has none
 * of (modules, swap, disks) is an empty table.
 */
#include <errno.h>
#include <sys/sysmacros.h>

#include "vfs/proc/proc_priv.h"

static int show_meminfo(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_meminfo m = { 0 };

	ps->meminfo(ps, &m);
	const struct {
		const char *name;
		uint64_t bytes;
	} rows[] = {
		{ "MemTotal:", m.total },
		{ "MemFree:", m.free },
		{ "MemAvailable:", m.available },
		{ "Buffers:", m.buffers },
		{ "Cached:", m.cached },
		{ "SwapCached:", m.swap_cached },
		{ "Active:", m.active_anon + m.active_file },
		{ "Inactive:", m.inactive_anon + m.inactive_file },
		{ "Active(anon):", m.active_anon },
		{ "Inactive(anon):", m.inactive_anon },
		{ "Active(file):", m.active_file },
		{ "Inactive(file):", m.inactive_file },
		{ "Unevictable:", m.unevictable },
		{ "Mlocked:", m.mlocked },
		{ "SwapTotal:", m.swap_total },
		{ "SwapFree:", m.swap_free },
		{ "Dirty:", m.dirty },
		{ "Writeback:", m.writeback },
		{ "AnonPages:", m.anon_pages },
		{ "Mapped:", m.mapped },
		{ "Shmem:", m.shmem },
		{ "KReclaimable:", m.slab_reclaimable },
		{ "Slab:", m.slab_reclaimable + m.slab_unreclaimable },
		{ "SReclaimable:", m.slab_reclaimable },
		{ "SUnreclaim:", m.slab_unreclaimable },
		{ "KernelStack:", m.kernel_stack },
		{ "PageTables:", m.page_tables },
		{ "SecPageTables:", 0 },
		{ "NFS_Unstable:", 0 },
		{ "Bounce:", 0 },
		{ "WritebackTmp:", 0 },
		{ "CommitLimit:", m.commit_limit },
		{ "Committed_AS:", m.committed_as },
		{ "VmallocTotal:", 34359738367ull << 10 },
		{ "VmallocUsed:", 0 },
		{ "VmallocChunk:", 0 },
		{ "Percpu:", 0 },
		{ "AnonHugePages:", 0 },
		{ "ShmemHugePages:", 0 },
		{ "ShmemPmdMapped:", 0 },
		{ "FileHugePages:", 0 },
		{ "FilePmdMapped:", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		strbuf_printf(out, "%-15s %8llu kB\n", rows[i].name,
			      (unsigned long long)rows[i].bytes >> 10);
	strbuf_puts(out, "HugePages_Total:       0\nHugePages_Free:        0\n"
			 "HugePages_Rsvd:        0\nHugePages_Surp:        0\n"
			 "Hugepagesize:       2048 kB\nHugetlb:               0 kB\n");
	return 0;
}

static void put_cpu_times(struct strbuf *out, const struct proc_cpu_times *t)
{
	strbuf_printf(out, " %llu %llu %llu %llu %llu 0 0 %llu 0 0\n",
		      (unsigned long long)(t->user_ns / NS_PER_TICK),
		      (unsigned long long)(t->nice_ns / NS_PER_TICK),
		      (unsigned long long)(t->system_ns / NS_PER_TICK),
		      (unsigned long long)(t->idle_ns / NS_PER_TICK),
		      (unsigned long long)(t->iowait_ns / NS_PER_TICK),
		      (unsigned long long)(t->steal_ns / NS_PER_TICK));
}

static void cpu_times_of(const struct proc_source *ps, uint32_t cpu, struct proc_cpu_times *t)
{
	memset(t, 0, sizeof(*t));
	if (ps->cpu_times)
		ps->cpu_times(ps, cpu, t);
}

static int show_stat(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_system sys = { 0 };
	struct proc_cpu_times sum = { 0 }, t;

	for (uint32_t i = 0; i < ps->cpu_count; i++) {
		cpu_times_of(ps, i, &t);
		sum.user_ns += t.user_ns;
		sum.nice_ns += t.nice_ns;
		sum.system_ns += t.system_ns;
		sum.idle_ns += t.idle_ns;
		sum.iowait_ns += t.iowait_ns;
		sum.steal_ns += t.steal_ns;
	}
	strbuf_puts(out, "cpu ");
	put_cpu_times(out, &sum);
	for (uint32_t i = 0; i < ps->cpu_count; i++) {
		cpu_times_of(ps, i, &t);
		strbuf_printf(out, "cpu%u", i);
		put_cpu_times(out, &t);
	}
	ps->system(ps, &sys);
	strbuf_printf(out,
		      "intr 0\nctxt %llu\nbtime %lld\nprocesses %llu\nprocs_running %u\n"
		      "procs_blocked %u\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
		      (unsigned long long)sys.context_switches, (long long)sys.boot_time,
		      (unsigned long long)sys.forks, sys.running, sys.blocked);
	return 0;
}

static int show_loadavg(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_system sys = { 0 };

	ps->system(ps, &sys);
	for (int i = 0; i < 3; i++) {
		uint64_t v = sys.load[i] + 65536 / 200; /* rounds as LOAD_FRAC's callers do */

		strbuf_printf(out, "%llu.%02llu ", (unsigned long long)(v >> 16),
			      (unsigned long long)(((v & 0xffff) * 100) >> 16));
	}
	strbuf_printf(out, "%u/%u %d\n", sys.running, sys.threads, sys.last_pid);
	return 0;
}

static int show_uptime(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_system sys = { 0 };

	ps->system(ps, &sys);
	uint64_t up = sys.uptime_ns / 10000000, idle = sys.idle_ns / 10000000;

	strbuf_printf(out, "%llu.%02llu %llu.%02llu\n", (unsigned long long)(up / 100),
		      (unsigned long long)(up % 100), (unsigned long long)(idle / 100),
		      (unsigned long long)(idle % 100));
	return 0;
}

static int show_version(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);

	strbuf_printf(out, "Linux version %s %s %s\n", ps->release,
		      ps->builder ? ps->builder : "(caisson)", ps->version);
	return 0;
}

static int show_cmdline(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);

	strbuf_printf(out, "%s\n", ps->cmdline ? ps->cmdline : "");
	return 0;
}

static int show_filesystems(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct fs_type *t;

	for (size_t i = 0; (t = fs_type_at(i)); i++)
		strbuf_printf(out, "%s\t%s\n", t->flags & FS_NODEV ? "nodev" : "", t->name);
	return 0;
}

static int show_vmstat(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	struct proc_meminfo m = { 0 };
	struct proc_system sys = { 0 };

	ps->meminfo(ps, &m);
	if (ps->system)
		ps->system(ps, &sys);
	const struct {
		const char *name;
		uint64_t val;
	} rows[] = {
		{ "nr_free_pages", m.free / 4096 },
		{ "nr_inactive_anon", m.inactive_anon / 4096 },
		{ "nr_active_anon", m.active_anon / 4096 },
		{ "nr_inactive_file", m.inactive_file / 4096 },
		{ "nr_active_file", m.active_file / 4096 },
		{ "nr_unevictable", m.unevictable / 4096 },
		{ "nr_mlock", m.mlocked / 4096 },
		{ "nr_anon_pages", m.anon_pages / 4096 },
		{ "nr_mapped", m.mapped / 4096 },
		{ "nr_file_pages", (m.cached + m.buffers) / 4096 },
		{ "nr_dirty", m.dirty / 4096 },
		{ "nr_writeback", m.writeback / 4096 },
		{ "nr_shmem", m.shmem / 4096 },
		{ "nr_page_table_pages", m.page_tables / 4096 },
		{ "pswpin", 0 },
		{ "pswpout", 0 },
		{ "pgfault", sys.pgfault },
		{ "pgmajfault", sys.pgmajfault },
		{ "oom_kill", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		strbuf_printf(out, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].val);
	return 0;
}

static int show_interrupts(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);

	strbuf_puts(out, "           ");
	for (uint32_t i = 0; i < ps->cpu_count; i++)
		strbuf_printf(out, "CPU%-8u", i);
	strbuf_putc(out, '\n');
	return 0;
}

static int show_softirqs(const struct pseudo_req *rq, struct strbuf *out)
{
	static const char *const names[] = { "HI",	 "TIMER",   "NET_TX", "NET_RX",	 "BLOCK",
					     "IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU" };
	const struct proc_source *ps = proc_ps(rq);

	strbuf_puts(out, "                    ");
	for (uint32_t i = 0; i < ps->cpu_count; i++)
		strbuf_printf(out, "CPU%-8u", i);
	strbuf_putc(out, '\n');
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		strbuf_printf(out, "%12s:", names[k]);
		for (uint32_t i = 0; i < ps->cpu_count; i++)
			strbuf_puts(out, "          0");
		strbuf_putc(out, '\n');
	}
	return 0;
}

static int show_locks(const struct pseudo_req *rq, struct strbuf *out)
{
	flock_show_all(proc_ps(rq)->vfs, out);
	return 0;
}

/* Files whose text never changes: ptr. */
static int show_fixed(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_puts(out, rq->desc->ptr);
	return 0;
}

static int show_sysvipc(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);

	return ps->sysvipc(ps, (enum proc_sysvipc)rq->desc->arg, out);
}

/* Names of kernel addresses are nobody's business here, root's included. */
static int refuse_open(const struct pseudo_req *rq, struct file *f, void **data)
{
	return -EPERM;
}

static int not_subset(const struct pseudo_req *rq)
{
	return !proc_mnt(rq)->subset_pid;
}

static const struct pseudo_desc g_sysvipc[] = {
	{ .name = "msg", .mode = S_IFREG | 0444, .show = show_sysvipc, .arg = PROC_SYSVIPC_MSG },
	{ .name = "sem", .mode = S_IFREG | 0444, .show = show_sysvipc, .arg = PROC_SYSVIPC_SEM },
	{ .name = "shm", .mode = S_IFREG | 0444, .show = show_sysvipc, .arg = PROC_SYSVIPC_SHM },
	PSEUDO_END,
};

#define FIXED(n, text) { .name = (n), .mode = S_IFREG | 0444, .show = show_fixed, .ptr = (text), \
			 .present = not_subset }
#define FILE_ROW(n, fn) { .name = (n), .mode = S_IFREG | 0444, .show = (fn), .present = not_subset }

static const struct pseudo_desc g_tty[] = {
	FIXED("drivers",
	      "/dev/tty             /dev/tty        5       0 system:/dev/tty\n"
	      "/dev/console         /dev/console    5       1 system:console\n"
	      "/dev/ptmx            /dev/ptmx       5       2 system\n"
	      "pty_slave            /dev/pts      136 0-1048575 pty:slave\n"
	      "pty_master           /dev/ptm      128 0-1048575 pty:master\n"),
	PSEUDO_END,
};

static const struct pseudo_desc g_proc_top[] = {
	FILE_ROW("cmdline", show_cmdline),
	FILE_ROW("cpuinfo", proc_show_cpuinfo),
	FILE_ROW("filesystems", show_filesystems),
	FILE_ROW("interrupts", show_interrupts),
	{ .name = "loadavg", .mode = S_IFREG | 0444, .show = show_loadavg, PROC_NEEDS(system) },
	FILE_ROW("locks", show_locks),
	{ .name = "meminfo", .mode = S_IFREG | 0444, .show = show_meminfo, PROC_NEEDS(meminfo) },
	FILE_ROW("softirqs", show_softirqs),
	{ .name = "stat", .mode = S_IFREG | 0444, .show = show_stat, PROC_NEEDS(system) },
	{ .name = "uptime", .mode = S_IFREG | 0444, .show = show_uptime, PROC_NEEDS(system) },
	FILE_ROW("version", show_version),
	{ .name = "vmstat", .mode = S_IFREG | 0444, .show = show_vmstat, PROC_NEEDS(meminfo) },
	/* The v1 table: programs ask it which controllers exist; all are on the v2 hierarchy. */
	FIXED("cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
			 "cpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\nmemory\t0\t1\t1\n"
			 "pids\t0\t1\t1\n"),
	FIXED("consoles", ""),
	FIXED("crypto", ""),
	FIXED("devices", "Character devices:\n  1 mem\n  4 tty\n  5 /dev/tty\n  5 /dev/console\n"
			 "  5 /dev/ptmx\n 10 misc\n128 ptm\n136 pts\n\nBlock devices:\n"),
	FIXED("diskstats", ""),
	FIXED("execdomains", "0-0\tLinux           \t[kernel]\n"),
	FIXED("fb", ""),
	FIXED("key-users", ""),
	FIXED("keys", ""),
	FIXED("misc", ""),
	FIXED("modules", ""),
	FIXED("partitions", "major minor  #blocks  name\n\n"),
	FIXED("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
	{ .name = "kallsyms", .mode = S_IFREG | 0444, .open = refuse_open, .present = not_subset },
	{ .name = "mounts", .mode = S_IFLNK | 0777, .ptr = "self/mounts", .present = not_subset },
	{ .name = "net", .mode = S_IFLNK | 0777, .ptr = "self/net", .present = not_subset },
	{ .name = "sys", .mode = S_IFDIR | 0555, .children = g_proc_sys_dirs,
	  .present = not_subset },
	{ .name = "bus", .mode = S_IFDIR | 0555, .present = not_subset },
	{ .name = "driver", .mode = S_IFDIR | 0555, .present = not_subset },
	{ .name = "fs", .mode = S_IFDIR | 0555, .present = not_subset },
	{ .name = "irq", .mode = S_IFDIR | 0555, .present = not_subset },
	{ .name = "sysvipc", .mode = S_IFDIR | 0555, .children = g_sysvipc,
	  PROC_NEEDS(sysvipc) },
	{ .name = "tty", .mode = S_IFDIR | 0555, .children = g_tty, .present = not_subset },
	{ .name = "self", .mode = S_IFLNK | 0777, .readlink = proc_self_read },
	{ .name = "thread-self", .mode = S_IFLNK | 0777, .readlink = proc_self_read, .arg = 1 },
	PSEUDO_END,
};

const struct pseudo_desc g_proc_root = {
	.name = "/",
	.mode = S_IFDIR | 0555,
	.children = g_proc_top,
	.dyn = &g_proc_pid_dyn,
};
