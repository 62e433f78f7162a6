/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel: one per sentry process, the root of all state. Everything in the sentry hangs on
 * `struct kernel`; there are no other mutable globals but the pointer g_kernel, which only
 * boot.c and callbacks without a context argument may use.
 */
#ifndef CAISSON_KERNEL_H
#define CAISSON_KERNEL_H

#include <stdint.h>

#include "platform/base/bootconf.h"
#include "platform/base/ktimer.h"
#include "platform/base/list.h"
#include "platform/base/lock.h"
#include "platform/base/waitq.h"
#include "platform/platform.h"
#include "vfs/vfs.h"

struct task;
struct thread_group;
struct pid_ns;
struct uts_ns;
struct ipc_ns;
struct user_count;
struct ptrace_corpse;
struct socket_layer; /* sentry/socket */
struct container;    /* sentry/container.h */

struct kernel {
	struct platform *platform; /* [I] */
	struct vfs *vfs;	   /* [I] */
	const struct bootconf *conf; /* [I] */
	struct mnt_ns *init_mnt_ns;  /* [I] */
	struct pid_ns *init_pid_ns;  /* [I] */
	struct uts_ns *init_uts_ns;  /* [I] */
	struct ipc_ns *init_ipc_ns;  /* [I] */
	struct socket_layer *sockets; /* [I] NULL until the socket layer starts */

	struct lock tasks_lock;	     /* RANK_TASKS: task tree, pids, sessions, all signal state */
	struct list_head groups;     /* [tasks] every thread_group, by creation */
	uint32_t task_count;	     /* [tasks] */
	struct thread_group *init;   /* [tasks] the sandbox's first process */
	struct container *main;	     /* [I] the container it is in */
	struct list_head containers; /* [tasks] by creation, the first included */

	uint32_t cpu_count;	     /* [I] what the guest sees */
	uint64_t memory_limit;	     /* [I] bytes, 0: none */
	struct ktimer oom_timer;     /* sentry/mm/oom.c */
	uint32_t oom_timer_state;    /* [a] of it: 0 not initialised, 1 idle, 2 armed */
	uint64_t total_memory;	     /* [I] what the guest is told: the limit, or the host's memory */
	uint64_t boot_mono_ns;	     /* [I] CLOCK_MONOTONIC of the sandbox's start */
	char release[65];	     /* [I] uname -r */
	int strace;		     /* [I] trace syscalls to the log */
	uint64_t total_forks;	     /* [a] for /proc/stat */
	struct user_count *user_counts; /* [tasks] per-uid charges: sentry/signal/user_count.h */
	uint32_t traced_count;	     /* [tasks] tasks with a tracer */
	struct ptrace_corpse *ptrace_corpses; /* [tasks] dead tracees nobody has waited for */
	int64_t realtime_offset_ns;  /* [a] guest CLOCK_REALTIME minus the host's */
	int control_fd;		     /* [I] to the runtime, or -1 */
};

extern struct kernel *g_kernel;

/* boot.c: everything up to the first guest instruction; 0 or negative errno after logging why. */
int kernel_boot(const struct bootconf *conf);
/*
 * Ends the sandbox: writes the result record to control_fd and exits the process. reason is one of
 * the taxonomy of docs/bootconf.md ("ok", "nonzero", "signaled", "timeout", "oom", "internal-error").
 * wait_status is the init process's wait(2) status.
 */
__attribute__((noreturn)) void kernel_exit(struct kernel *k, const char *reason, int wait_status);

#endif
