/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proc filesystem. It knows no tasks and no sockets: everything true it shows comes through the
 * two source structs here, which the sentry (tasks, memory, kernel settings) and its socket layer
 * (net/) fill in and register before proc is first mounted. Nothing is read from the host.
 *
 * Rules for callbacks: any thread may call, several at once, without VFS tree locks; inode and
 * file position locks may be held (RANK_INODE), so they take only later ranks; task_put and
 * pidns_put too. A NULL callback
 * means "not known": its file is absent, or the error named at the callback (but the ones for
 * finding tasks, task_owner, task_info, may_access, uts_get and the texts must be there). `task` handles are
 * opaque references made by task_find and friends; a task that has exited keeps its handle valid
 * and makes callbacks return -ESRCH. `ns` is a pid namespace handle, in whose numbers pids are
 * given and shown; NULL is the initial one.
 */
#ifndef CAISSON_PROC_H
#define CAISSON_PROC_H

#include <stdint.h>

#include "platform/base/strbuf.h"
#include "platform/base/uio.h"
#include "vfs/vfs.h"

struct fs_type;
extern const struct fs_type g_proc_type;

#define PROC_COMM_SIZE 16
#define PROC_MAX_CPUS 1024
#define PROC_NS_LEVELS 32

/* A snapshot of one thread, or of a whole process: stat, status, statm, sched and more. */
struct proc_task_info {
	char comm[PROC_COMM_SIZE];
	char state; /* R S D T t Z X I */
	int32_t pid;  /* thread id */
	int32_t tgid, ppid, tracer, pgrp, session;
	int32_t tpgid;	/* foreground group of the terminal, -1 without one */
	uint32_t tty;	/* device number as stat shows it (linux_makedev), 0: none */
	uint32_t flags; /* PF_* as Linux numbers them; 0 where none applies */
	int32_t exit_signal, exit_code; /* exit_code in wait(2) form */
	uint32_t num_threads;
	uint64_t start_ns; /* since boot */
	/* of the thread, or summed over the group when asked for the process */
	uint64_t minflt, majflt, utime_ns, stime_ns;
	uint64_t cminflt, cmajflt, cutime_ns, cstime_ns; /* of waited-for children */
	uint64_t nvcsw, nivcsw;
	uint64_t run_delay_ns, timeslices; /* schedstat */
	/* scheduling */
	int32_t nice, policy, rt_priority, processor;
	uint8_t cpus_allowed[PROC_MAX_CPUS / 8]; /* bit per CPU */
	/* signals: bit n-1 is signal n */
	uint64_t sig_pending, sig_shared_pending, sig_blocked, sig_ignored, sig_caught;
	uint64_t sigq_used, sigq_limit;
	/* identity */
	const struct cred *cred; /* a reference, which proc puts; may be NULL for a zombie */
	uint32_t umask;
	uint32_t fd_table_size;
	uint32_t no_new_privs, seccomp_mode, seccomp_filters;
	int32_t ns_pid_levels; /* NSpid …: how many of the next are set, outermost visible first */
	int32_t ns_tgid[PROC_NS_LEVELS], ns_pid[PROC_NS_LEVELS], ns_pgid[PROC_NS_LEVELS],
		ns_sid[PROC_NS_LEVELS];
	/* memory, bytes; has_mm is 0 for zombies and then the rest is 0 */
	uint32_t has_mm;
	uint64_t vm_size, vm_peak, vm_locked, vm_pinned, vm_data, vm_stack, vm_exe, vm_lib, vm_pte,
		vm_swap;
	uint64_t rss_anon, rss_file, rss_shmem, rss_peak, rss_limit; /* rss_limit: RLIM_INFINITY ok */
	uint64_t start_code, end_code, start_data, end_data, start_brk, start_stack;
	uint64_t arg_start, arg_end, env_start, env_end;
	uint64_t sp, ip; /* shown only to those who may trace */
};

struct proc_rlimit {
	uint64_t cur, max; /* UINT64_MAX: unlimited */
};
#define PROC_RLIMITS 16 /* in RLIMIT_* order */

struct proc_io {
	uint64_t rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes;
};

/* Texts whose format and content only the sentry can make; Linux's exact formats. */
enum proc_text {
	PROC_TEXT_MAPS,
	PROC_TEXT_SMAPS,
	PROC_TEXT_SMAPS_ROLLUP,
	PROC_TEXT_CMDLINE, /* the argument bytes with their NULs; none for zombies */
	PROC_TEXT_ENVIRON,
	PROC_TEXT_AUXV,	   /* binary */
	PROC_TEXT_CGROUP,  /* "0::/…\n" */
	PROC_TEXT_TIMERS,
	PROC_TEXT_SYSCALL, /* "running\n" or number, six arguments, sp and ip in hex */
	PROC_TEXT_WCHAN,   /* no newline; "0" when running */
	PROC_TEXT_CHILDREN, /* task/TID/children: "pid pid …" */
	PROC_TEXT_COUNT
};

/* Numbers that are read, and some written, one per file. */
enum proc_number {
	PROC_OOM_SCORE,	    /* read only */
	PROC_OOM_SCORE_ADJ, /* -1000 … 1000, checked here; lowering needs CAP_SYS_RESOURCE: the
			       source checks and returns -EACCES */
	PROC_LOGINUID,	    /* uint32_t */
	PROC_SESSIONID,	    /* uint32_t, read only */
	PROC_COREDUMP_FILTER,
	PROC_TIMERSLACK_NS,
	PROC_PERSONALITY,   /* read only */
	PROC_CLEAR_REFS,    /* write only: 1 … 5 */
	PROC_SETGROUPS,	    /* 1 allow, 0 deny: -EPERM after gid_map was written */
	PROC_SCHED_AUTOGROUP, /* absent when not known */
};

enum proc_link { PROC_LINK_EXE, PROC_LINK_CWD, PROC_LINK_ROOT };

/* In the order of g_ns_names in task_links.c. */
enum proc_ns {
	PROC_NS_CGROUP,
	PROC_NS_IPC,
	PROC_NS_MNT,
	PROC_NS_NET,
	PROC_NS_PID,
	PROC_NS_PID_FOR_CHILDREN,
	PROC_NS_TIME,
	PROC_NS_TIME_FOR_CHILDREN,
	PROC_NS_USER,
	PROC_NS_UTS,
};

enum proc_idmap { PROC_UID_MAP, PROC_GID_MAP, PROC_PROJID_MAP };
struct proc_idmap_extent {
	uint32_t first, lower_first, count;
};
#define PROC_IDMAP_MAX 340

#define PROC_ACCESS_READ 1   /* PTRACE_MODE_READ_FSCREDS */
#define PROC_ACCESS_ATTACH 2 /* PTRACE_MODE_ATTACH_FSCREDS */

/* Bytes. What the sandbox has and uses: never the host's figures. */
struct proc_meminfo {
	uint64_t total, free, available, buffers, cached, swap_cached, active_anon, inactive_anon,
		active_file, inactive_file, unevictable, mlocked, swap_total, swap_free, dirty,
		writeback, anon_pages, mapped, shmem, slab_reclaimable, slab_unreclaimable,
		kernel_stack, page_tables, commit_limit, committed_as;
};

struct proc_cpu_times {
	uint64_t user_ns, nice_ns, system_ns, idle_ns, iowait_ns, steal_ns;
};

struct proc_system {
	uint64_t uptime_ns, idle_ns;	 /* idle summed over all CPUs */
	int64_t boot_time;		 /* seconds since the epoch */
	uint64_t context_switches, forks; /* since boot */
	uint32_t running, blocked, threads; /* tasks now */
	int32_t last_pid;
	uint32_t load[3]; /* averages times 65536 */
	uint64_t pgfault, pgmajfault;
};

enum proc_uts { PROC_UTS_HOSTNAME, PROC_UTS_DOMAINNAME };
#define PROC_UTS_SIZE 65

enum proc_sysvipc { PROC_SYSVIPC_MSG, PROC_SYSVIPC_SEM, PROC_SYSVIPC_SHM };

struct proc_source {
	void *priv; /* of the sentry: reached through the first argument */
	struct vfs *vfs;
	/* Immutable texts. */
	const char *release; /* uname -r */
	const char *version; /* uname -v: "#1 SMP …" */
	const char *builder; /* of /proc/version: "(user@host) (compiler)" */
	const char *cmdline; /* of the kernel; may be "" */
	const char *boot_id; /* random per sandbox, in UUID form */
	uint32_t cpu_count;

	/* -- finding tasks. find and current return references or NULL. -- */
	/* Any thread by number, zombies included; the handle stands for its process. */
	void *(*task_find)(const struct proc_source *ps, void *ns, int pid);
	/* A thread of the same process. */
	void *(*thread_find)(const struct proc_source *ps, void *ns, void *task, int tid);
	/* The lowest process (thread of it) with number >= from, 0 when there is none. */
	int (*pid_next)(const struct proc_source *ps, void *ns, int from);
	int (*tid_next)(const struct proc_source *ps, void *ns, void *task, int from);
	void *(*task_current)(const struct proc_source *ps); /* who makes this call */
	void (*task_get)(const struct proc_source *ps, void *task);
	void (*task_put)(const struct proc_source *ps, void *task);
	/* 1 until it has been reaped. */
	int (*task_alive)(const struct proc_source *ps, void *task);
	/* Its numbers in ns: 0 or -ESRCH (not visible there). */
	int (*task_ids)(const struct proc_source *ps, void *ns, void *task, int *tgid, int *tid);
	/* The caller's pid namespace (a reference), when proc is mounted. */
	void *(*pidns_current)(const struct proc_source *ps);
	void (*pidns_put)(const struct proc_source *ps, void *ns);

	/* -- one task. 0 or negative errno (-ESRCH) unless said otherwise -- */
	/* Owner of its files: effective ids while dumpable, else 0; with `always` (its world-readable
	 * directories) the effective ids in any case. */
	int (*task_owner)(const struct proc_source *ps, void *task, int always, uint32_t *uid,
			  uint32_t *gid);
	/* whole: figures summed over the process. */
	int (*task_info)(const struct proc_source *ps, void *ns, void *task, int whole,
			 struct proc_task_info *out);
	/* May the caller (mode PROC_ACCESS_*) look inside? 0 or -EACCES/-EPERM: ptrace_may_access. */
	int (*may_access)(const struct proc_source *ps, void *task, int mode);
	int (*text)(const struct proc_source *ps, void *task, enum proc_text what,
		    struct strbuf *out);
	int (*rlimits)(const struct proc_source *ps, void *task, struct proc_rlimit out[PROC_RLIMITS]);
	int (*io)(const struct proc_source *ps, void *task, int whole, struct proc_io *out);
	int (*number_get)(const struct proc_source *ps, void *task, enum proc_number what,
			  int64_t *out);
	int (*number_set)(const struct proc_source *ps, void *task, enum proc_number what,
			  int64_t val);
	/* Only threads of the caller's process may be renamed: -EINVAL else. */
	int (*comm_set)(const struct proc_source *ps, void *task, const char comm[PROC_COMM_SIZE]);
	/* Returns the count of extents (at most PROC_IDMAP_MAX), ids as the caller sees them. */
	int (*idmap_get)(const struct proc_source *ps, void *task, enum proc_idmap which,
			 struct proc_idmap_extent *out);
	/* Once per namespace: -EPERM. Syntax and overlaps are checked here. */
	int (*idmap_set)(const struct proc_source *ps, void *task, enum proc_idmap which,
			 const struct proc_idmap_extent *ext, int count);
	/* Its memory, at *addr; advances. Counts as ptrace access, checked at open. 0 at the end of
	 * what is mapped → -EIO here. */
	ssize_t (*mem_rw)(const struct proc_source *ps, void *task, struct uio *u, uint64_t addr,
			  int write);
	/* What mem opened on must not follow an exec: an opaque reference to the mm, or NULL. When
	 * set, mem_rw is called with it in place of task. */
	void *(*mem_get)(const struct proc_source *ps, void *task);
	void (*mem_put)(const struct proc_source *ps, void *mem);

	/* -- its files and links -- */
	int (*fd_next)(const struct proc_source *ps, void *task, int from); /* -1: none */
	/* How fd was opened (FMODE_*), without taking a reference: dropping the last one would close
	 * the file under our locks. -ENOENT: not open. */
	int (*fd_mode)(const struct proc_source *ps, void *task, int fd, uint32_t *fmode);
	/* The open file (a reference) or NULL; *cloexec may be NULL. */
	struct file *(*fd_get)(const struct proc_source *ps, void *task, int fd, int *cloexec);
	int (*link_path)(const struct proc_source *ps, void *task, enum proc_link which,
			 struct path *out); /* references; -ENOENT: has none */
	int (*ns_inum)(const struct proc_source *ps, void *task, enum proc_ns which, uint64_t *inum);
	/* A path on nsfs, for open and setns; fills references. */
	int (*ns_path)(const struct proc_source *ps, void *task, enum proc_ns which,
		       struct path *out);
	/* Its mount namespace (a reference) and root (references); NULL when gone. */
	struct mnt_ns *(*mnt_ns)(const struct proc_source *ps, void *task, struct path *root);
	/* map_files: the file mapped at exactly [start, end), a path with references. */
	int (*map_path)(const struct proc_source *ps, void *task, uint64_t start, uint64_t end,
			struct path *out);
	/* The first file mapping with start >= from: 1 and its bounds, or 0. */
	int (*map_next)(const struct proc_source *ps, void *task, uint64_t from, uint64_t *start,
			uint64_t *end);

	/* -- the system -- */
	void (*meminfo)(const struct proc_source *ps, struct proc_meminfo *out);
	void (*system)(const struct proc_source *ps, struct proc_system *out);
	void (*cpu_times)(const struct proc_source *ps, uint32_t cpu, struct proc_cpu_times *out);
	void (*uts_get)(const struct proc_source *ps, enum proc_uts which, char out[PROC_UTS_SIZE]);
	/* Root of the UTS namespace only: -EPERM. */
	int (*uts_set)(const struct proc_source *ps, enum proc_uts which, const char *val);
	int (*sysvipc)(const struct proc_source *ps, enum proc_sysvipc which, struct strbuf *out);
	/*
	 * Kernel settings the sentry acts on, by their sysctl name ("kernel.pid_max", "kernel.sem",
	 * "vm.max_map_count"; net ones go to proc_net_source). count values in, or out. -ENOENT:
	 * the sentry does not know it, and proc keeps the value itself. Ranges are checked before.
	 */
	int (*sysctl_get)(const struct proc_source *ps, const char *name, int64_t *val, int count);
	int (*sysctl_set)(const struct proc_source *ps, const char *name, const int64_t *val,
			  int count);
};

/* net/: task says whose network namespace; it may be NULL (the caller's). */
struct proc_net_source {
	void *priv;
	/* The whole text of net/NAME ("tcp", "dev", "if_inet6" …; the list is in net.c). -ENOENT: not
	 * known, then the file is absent. out may be NULL to ask whether it is known. */
	int (*show)(const struct proc_net_source *ns, void *task, const char *name,
		    struct strbuf *out);
	/* sys/net: by sysctl name ("net.ipv4.ip_forward"); -ENOENT: proc keeps it. */
	int (*sysctl_get)(const struct proc_net_source *ns, const char *name, int64_t *val,
			  int count);
	int (*sysctl_set)(const struct proc_net_source *ns, const char *name, const int64_t *val,
			  int count);
};

/* Before the first mount; borrowed for ever. Without a task source proc can not be mounted. */
void proc_set_source(const struct proc_source *ps);
void proc_set_net_source(const struct proc_net_source *ns);
/* NULL before it was set. For sysfs and cgroup2, whose figures are the same ones. */
const struct proc_source *proc_get_source(void);

/* The process whose directory (/proc/PID itself, not what is below) f has open: a task handle,
 * borrowed from f; NULL for all other files. */
void *proc_dir_task(struct file *f);

/* A value of sys/ that proc keeps itself, for whoever obeys it: 0 or -ENOENT. */
int proc_sysctl_value(const char *name, int64_t *val, int count);
/* Boot-time setting (OCI linux.sysctl): the text of one value, checked as a write by root is. */
int proc_sysctl_set_text(const char *name, const char *text);

#endif
