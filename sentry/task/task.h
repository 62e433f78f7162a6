/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks (guest threads), thread groups (processes), process groups and sessions. One host thread
 * of the sentry per task: its kernel stack, straight-line code that may block (block.h).
 *
 * Lock keys: [I] immutable after publish, [a] atomic, [t] the task's own thread only,
 * [tasks] kernel->tasks_lock, others named.
 *
 * Lifetime: a task holds a reference on its thread group; the group lives until it has been
 * reaped and its last task is gone. task_get/task_put from any thread.
 */
#ifndef CAISSON_TASK_H
#define CAISSON_TASK_H

#include <linux/limits.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "platform/abi/signal.h"
#include "platform/base/errptr.h"
#include "platform/base/ktimer.h"
#include "platform/base/list.h"
#include "platform/base/refs.h"
#include "platform/base/waitq.h"
#include "platform/platform.h"
#include "sentry/kernel.h"
#include "vfs/cred.h"

struct mm;
struct fdtable;
struct fs_struct;
struct sighand;
struct posix_timers;
struct ptrace_state;
struct seccomp_state;
struct sysv_undo;
struct container;

/* ---- process ids ---- */

#define PID_NS_MAX_LEVEL 32
#define PID_MAX_DEFAULT 4194304

struct pid_ns {
	struct ref ref;
	struct pid_ns *parent;
	int level;
	int last_pid;			/* [tasks] */
	struct thread_group *reaper;	/* [tasks] its init */
	struct pid **table;		/* [tasks] open hash by number (pid.c) */
	uint32_t table_size, table_used;
	uint64_t ns_id;			/* inode number of /proc/PID/ns/pid */
};

/* An id that may name a task, a process, a process group and a session at once. */
struct pid {
	struct ref ref;
	int level;
	struct task *task;		/* [tasks] the thread with this tid, or NULL */
	struct thread_group *tg;	/* [tasks] the process with this pid (until reaped), or NULL */
	struct list_head pgrp_members;	/* [tasks] thread_group.pgrp_node */
	struct list_head session_members; /* [tasks] thread_group.session_node */
	struct waitq exit_wait;		/* pidfd poll: woken when tg dies */
	struct {
		int nr;
		struct pid_ns *ns;
	} numbers[]; /* level + 1 of them */
};

struct pid *pid_find(struct pid_ns *ns, int nr); /* [tasks] held; borrowed or NULL */
int pid_nr_in(const struct pid *p, const struct pid_ns *ns); /* 0 when not visible there */
struct pid *pid_get(struct pid *p);
void pid_put(struct pid *p);

/* ---- sessions and credentials sharing ---- */

struct fs_struct {
	struct ref ref;
	struct lock lock; /* RANK_FS */
	struct path root, cwd;	/* [lock] references */
	struct mnt_ns *ns;	/* [lock] */
	uint32_t umask;		/* [lock] */
};

struct uts_ns {
	struct ref ref;
	struct lock lock; /* RANK_LEAF */
	char nodename[65], domainname[65];
	uint64_t ns_id;
};

/* ---- processes ---- */

struct sigqueue_entry {
	struct list_head node;
	siginfo_t info;
	struct posix_timer *timer; /* from timer_create: at most one queued each */
	struct user_count *user;   /* charged with it (RLIMIT_SIGPENDING), or NULL */
};

struct sigpending {
	linux_sigset_t set;	/* [tasks] */
	struct list_head queue;	/* [tasks] sigqueue_entry */
};

/* Shared by CLONE_SIGHAND. */
struct sighand {
	struct ref ref;
	struct linux_sigaction action[LINUX_NSIG]; /* [tasks] index signo - 1 */
};

struct rusage_sum {
	uint64_t utime_ns, stime_ns, maxrss_kb, minflt, majflt, nvcsw, nivcsw, inblock, oublock;
};

struct thread_group {
	struct ref ref;
	struct kernel *k;
	struct container *container;	  /* [I] a reference; NULL in tests without one */
	struct pid *pid;		  /* [I] */
	struct list_head node;		  /* [tasks] in kernel->groups */
	struct list_head tasks;		  /* [tasks] task.tg_node; live and exiting threads */
	uint32_t task_count;		  /* [tasks] threads that are not dead */
	uint32_t live;			  /* [tasks] threads that have not begun to exit */
	struct task *leader;		  /* [tasks] may be a dead thread (zombie leader) */

	struct thread_group *parent;	  /* [tasks] */
	struct list_head children;	  /* [tasks] */
	struct list_head sibling;	  /* [tasks] */
	struct waitq child_wait;	  /* woken when a child's wait state changes */
	struct pid *pgrp;		  /* [tasks] */
	struct list_head pgrp_node;	  /* [tasks] */
	struct pid *session;		  /* [tasks] */
	struct list_head session_node;	  /* [tasks] */
	int session_leader;		  /* [tasks] */
	struct tty *ctty;		  /* [tasks] a reference or NULL; see vfs/dev/tty.h */
	int exit_signal;		  /* [tasks] sent to the parent; SIGCHLD, 0 or other */
	int child_subreaper;		  /* [tasks] */
	struct task *child_of_thread;	  /* [tasks] the parent's thread, for __WNOTHREAD */

	struct sigpending pending;	  /* [tasks] process-directed */
	uint32_t group_flags;		  /* [tasks] TG_* */
	int exit_status;		  /* [tasks] wait(2) status, valid with TG_ZOMBIE */
	int group_exit_status;		  /* [tasks] with TG_EXITING */
	int stop_signal;		  /* [tasks] of the current group stop */
	uint32_t stop_pending;		  /* [tasks] threads that have not stopped yet */
	struct task *exec_task;		  /* [tasks] thread that waits for all others to die */
	struct waitq exec_wait;

	struct lock rlimit_lock;	  /* RANK_LEAF */
	struct rlimit rlimits[RLIM_NLIMITS]; /* [rlimit_lock]; glibc's struct: 64-bit values */
	struct rusage_sum dead_threads;	  /* [tasks] sums of exited threads */
	struct rusage_sum dead_children;  /* [tasks] of reaped children */
	uint64_t start_mono_ns;		  /* [I] */
	struct ktimer itimer_real;
	uint64_t itimer_real_interval;	  /* [tasks] ns */
	int itimer_real_armed;		  /* [tasks] */
	struct cpu_itimer { uint64_t value_ns, interval_ns; } itimer_virt, itimer_prof; /* [tasks] */
	struct posix_timers *timers;	  /* sentry/time; NULL until the first timer_create */
	int oom_score_adj;		  /* [a] */
	uint64_t did_exec;		  /* [a] for setpgid's EACCES */
	uint32_t personality_inherit;
	struct pid_ns *pid_ns_for_children; /* [tasks] */
	struct sysv_undo *sem_undo;	  /* sentry/ipc */
	uint64_t past_utime_ns;		  /* [tasks] guest CPU time of address spaces left by exec */
};
#define TG_EXITING 1u	  /* exit_group or fatal signal: every thread must die */
#define TG_ZOMBIE 2u	  /* waits to be reaped */
#define TG_STOPPED 4u	  /* job-control stopped, all threads */
#define TG_STOP_REPORT 8u /* a stop that wait() has not reported */
#define TG_CONT_REPORT 16u
#define TG_REAPED 32u
#define TG_EXECING 64u	  /* exec_task kills the others */
#define TG_OOM 512u	  /* the memory limit's killer chose it */
#define TG_INIT 128u	  /* init of its pid namespace: default-action signals are ignored */
#define TG_INIT_MORTAL 256u /* … unless this is set: by a fault of its own, or at boot (init_signals=plain) */

/* ---- threads ---- */

enum task_state { TASK_RUNNING, TASK_SLEEPING, TASK_STOPPED, TASK_TRACED, TASK_DEAD };

struct restart_block { /* for restart_syscall(2) */
	long (*fn)(struct task *t, struct restart_block *rb);
	uint64_t deadline_ns, rem_addr, arg[4];
	int clock;
};

struct task {
	struct ref ref;
	struct kernel *k;		/* [I] */
	struct thread_group *tg;	/* [I] */
	struct list_head tg_node;	/* [tasks] */
	struct pid *pid;		/* [tasks] changes only when a thread execs and becomes leader */

	/* running guest code [t] */
	struct context *ctx;		/* [t] to use; [ctx_lock] to change, for task_kick */
	struct lock ctx_lock;		/* unranked leaf: only context_interrupt runs under it */
	struct user_regs_struct regs;
	uint64_t syscall_nr;		/* the call being served, or -1 */
	int in_syscall;			/* restart rules apply to regs.rax */
	struct restart_block restart;

	/* resources; the pointers are [t] to write, others take references under tasks_lock */
	struct mm *mm;
	struct fdtable *files;
	struct fs_struct *fs;
	struct sighand *sighand;
	const struct cred *cred;	/* task_cred() */
	struct uts_ns *uts;
	struct ipc_ns *ipc;
	struct pid_ns *pid_ns;		/* [I] where its own pid lives */

	/* waking: block.c */
	uint32_t wake_word;		/* [a] futex: 1 when woken */
	uint32_t work;			/* [a] TASK_WORK_*: looked at before guest code runs */
	enum task_state state;		/* [a] for /proc */
	char wchan[24];

	/* signals: sentry/signal */
	linux_sigset_t blocked;		/* [tasks] to write, [t] to read */
	linux_sigset_t saved_mask;	/* [t] sigsuspend, ppoll, pselect, epoll_pwait */
	int restore_mask;		/* [t] saved_mask is valid */
	linux_sigset_t waiting_for;	/* [tasks] rt_sigtimedwait */
	struct sigpending pending;	/* [tasks] thread-directed */
	stack_t altstack;		/* [t] */
	struct waitq signalfd_wait;	/* woken when a signal is queued for this task or its group */
	int jobctl_stop;		/* [tasks] JOBCTL_*: must take part in the group stop, or has */
	uint64_t trap_nr, trap_err, trap_cr2; /* [t] of the last fault, for sigcontext */

	/* misc per-thread state */
	char comm[16];			/* [tasks] */
	uint64_t set_child_tid, clear_child_tid; /* [t] */
	uint64_t robust_list;		/* [t] guest address */
	uint64_t rseq_addr;		/* [t] */
	uint32_t rseq_len, rseq_sig;
	int pdeath_signal;		/* [tasks] */
	int no_new_privs;		/* [t] */
	uint32_t personality;		/* [t] */
	int keep_caps;
	int dumpable_shadow;
	int exit_code;			/* [t] wait status of this thread */
	struct task *vfork_parent;	/* [tasks] waits until we exec or exit */
	int vfork_done;			/* [a] on the parent's side */
	uint64_t timer_slack_ns;
	int nice, sched_policy, rt_priority;
	uint64_t cpu_affinity[16];	/* 1024 bits */
	struct rusage_sum ru;		/* [t] own counters so far (times sampled at exit and on demand) */
	uint64_t start_mono_ns;		/* [I] */
	uint64_t last_cpu_ns;		/* [a] guest CPU time when last sampled */
	struct ptrace_state *ptrace;	/* [tasks] NULL when not traced */
	struct seccomp_state *seccomp;	/* [t] NULL: no filter */
	uint32_t copies;		/* [t] TASK_COPIES_*: usermem.c */
	uint64_t plain_start, plain_end; /* [t] memory where stores may wait: usermem.c ... */
	uint64_t plain_generation;	/* [t] ... while mm->generation is this; 0 none */
	int answers;			/* [t] TASK_ANSWERS_*: run.c */
	struct io_context *aio;
	uint32_t exec_guard;
	uint32_t ioprio;
	uint32_t sched_reset_on_fork;
	uint64_t sched_runtime, sched_deadline, sched_period; /* SCHED_DEADLINE, stored only */
	clockid_t host_clock;		/* [a] CPU clock of its sentry thread (system time); 0: none */
	uint64_t host_clock_base_ns;	/* [I] what that clock said when the thread became this task's */
	uint64_t past_utime_ns;		/* [t] guest CPU time in contexts it left by exec */
	uint64_t task_id;		/* unique, never reused */
};
#define TASK_COPIES_BROUGHT 1u /* the guest may have brought an argument along */
#define TASK_COPIES_LATER   2u /* the syscall's stores may wait until the guest goes on */
#define TASK_COPIES_WAITING 4u /* some do */
#define TASK_ANSWERS_GIVEN 1 /* the platform answers some calls of this task by itself */
#define TASK_ANSWERS_STALE 2 /* ... and must forget how */
#define TASK_WORK_SIGNAL 1u /* signals may be deliverable: signal_deliver() decides */
#define TASK_WORK_EXIT 2u   /* the group is exiting, or exec in another thread kills us */
#define TASK_WORK_STOP 4u   /* group stop or ptrace stop pending */
#define TASK_WORK_SIGIO 16u /* sigio_flush() has signals to send */
#define TASK_WORK_RSEQ 8u   /* preempted or signalled: fix rseq before guest code */

/* The task served by this host thread; NULL in service threads. */
extern __thread struct task *current;

struct task *task_get(struct task *t);
void task_put(struct task *t);
static inline const struct cred *task_cred(struct task *t)
{
	return t->cred; /* own task; another task's needs tasks_lock and cred_get */
}
/* Publishes new credentials of the calling task; consumes c. */
void task_set_cred(struct task *t, struct cred *c);

/* Numbers as the caller sees them. */
int task_tid(struct task *t);  /* in its own namespace */
int task_tgid(struct task *t);
int task_tid_for(struct task *of, struct task *viewer);
int tg_pid_for(struct thread_group *of, struct task *viewer);

/* Finds by number in the caller's namespace; references are returned. NULL: none (ESRCH). */
struct task *task_find(struct task *caller, int tid);
struct thread_group *tg_find(struct task *caller, int pid);
struct thread_group *tg_get(struct thread_group *tg);
void tg_put(struct thread_group *tg);

uint64_t rlimit_cur(struct task *t, int which);

/* Path context of the task for vfs calls; references are held until _put. */
void task_vfs_ctx(struct task *t, struct vfs_ctx *ctx);
void task_vfs_ctx_put(struct vfs_ctx *ctx);
/* May `caller` look into `target` (ptrace_may_access): 0 or -EPERM. */
int task_may_access(struct task *caller, struct task *target, int attach);

/* ---- life (clone.c, exec.c, exit.c, run.c) ---- */

struct clone_args_k {
	uint64_t flags;	      /* CLONE_* without the signal */
	int exit_signal;
	uint64_t stack, stack_size, tls, parent_tid, child_tid, pidfd;
	int set_tid[PID_NS_MAX_LEVEL];
	size_t set_tid_count;
};
long task_clone(struct task *t, const struct clone_args_k *a); /* child's tid or errno */
/* Starts the task's host thread, which runs task_main(). */
int task_start(struct task *t);
void *task_main(void *task);
/*
 * The image of an execve: strings already copied in. On success the old program is gone and the
 * registers are the new one's entry; a failure after the point of no return kills the task.
 */
struct exec_args {
	struct file *file;     /* consumed; NULL: opened from path */
	const char *path;      /* as given, for AT_EXECFN and scripts */
	char **argv, **envp;   /* argc/envc entries, owned by the caller */
	size_t argc, envc;
	int path_inaccessible; /* path names a close-on-exec fd: a script could not be reopened */
};
int task_exec(struct task *t, struct exec_args *a);
/* Ends the calling thread. Does not return. */
__attribute__((noreturn)) void task_exit(struct task *t, int wait_status);
/* Starts the end of the whole process (exit_group, fatal signal); the caller then sees
 * TASK_WORK_EXIT. tasks_lock held. */
void tg_exit_locked(struct thread_group *tg, int wait_status);
int tg_is_orphaned_pgrp(struct pid *pgrp); /* [tasks] */

/* ---- waking and blocking (block.c) ---- */

/* Wakes t out of task_sleep. [any thread] */
void task_wake(struct task *t);
/* Sets work bits, and makes t leave guest code or task_sleep to look at them. [any thread] */
void task_kick(struct task *t, uint32_t work);
/* A waiter_fn whose priv is the task. */
int task_waiter_wake(struct waiter *w, uint32_t events);
#define NO_DEADLINE UINT64_MAX
/*
 * Sleeps until task_wake (0), a signal or kill that must be handled (-ERESTARTSYS), or the
 * CLOCK_MONOTONIC deadline in ns (-ETIMEDOUT). Pattern: add waiters, then
 *	while (!condition) { err = task_sleep(t, deadline); if (err) break; }
 * A wake between the check and the sleep is not lost. No lock may be held.
 */
int task_sleep(struct task *t, uint64_t deadline_ns);
/* As task_sleep, but only fatal signals interrupt. */
int task_sleep_killable(struct task *t, uint64_t deadline_ns);
/*
 * Waits until file_poll(f) shows one of events (or ERR/HUP): 0, -ERESTARTSYS, -ETIMEDOUT. exclusive:
 * an exclusive waiter (accept).
 */
int task_wait_file(struct task *t, struct file *f, uint32_t events, uint64_t deadline_ns);
/* True when TASK_WORK_SIGNAL/EXIT/STOP is set. */
int task_has_work(struct task *t);

/* ---- CPU time (rusage.c) ---- */

/* Brings the calling task's own figure up to date: one handoff to its host thread. No lock held. */
void task_cpu_sample(struct task *t);
/* CPU time of a thread: user time as last sampled, system time exact. */
void task_cpu_times(struct task *t, uint64_t *utime_ns, uint64_t *stime_ns);
/* Of a whole process, dead threads included. tasks_lock held. */
void tg_cpu_times_locked(struct thread_group *tg, uint64_t *utime_ns, uint64_t *stime_ns);

/* ---- what other parts of the sentry do at turning points of a task's life ---- */

/*
 * Implemented by the part named; weak, so that a build without it links. Unless said otherwise the
 * calling task is t and no lock is held.
 */
/* futex: robust list of an exiting or exec'ing thread, PI futexes. Before clear_child_tid. */
void futex_task_exit(struct task *t) __attribute__((weak));
/* futex: FUTEX_WAKE of a shared-or-private waiter on addr, for clear_child_tid. */
int futex_wake_user(struct task *t, uint64_t addr, int count) __attribute__((weak));
/* time: the last thread of tg is gone (exec: 0) or tg runs a new program (exec: 1): timers of
 * timer_create go, and at exit the itimers too. */
void timers_group_exit(struct thread_group *tg, int exec) __attribute__((weak));
/* time: prepares the timers of a new process, before it is published. */
void timers_group_init(struct thread_group *tg) __attribute__((weak));
/* time: RLIMIT_CPU of tg was set, or inherited. */
void timers_cpu_limit_changed(struct thread_group *tg) __attribute__((weak));
/* ipc: semaphore undo of a process whose last thread is gone; attaches are gone with the mm. */
void sysv_group_exit(struct thread_group *tg) __attribute__((weak));
/* ipc: CLONE_SYSVSEM gives the child the parent's undo list. */
void sysv_group_share_undo(struct thread_group *child, struct thread_group *parent)
	__attribute__((weak));
/* seccomp: a new thread inherits; a dying one drops. */
void seccomp_task_fork(struct task *child, struct task *parent) __attribute__((weak));
void seccomp_task_exit(struct task *t) __attribute__((weak));
/* aio contexts belong to the mm; called when the last user of t->mm leaves it. */
void aio_mm_exit(struct task *t) __attribute__((weak));

#endif
