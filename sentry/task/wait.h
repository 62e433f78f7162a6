/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for children: what wait4 and waitid ask for, and what ptrace adds to it. */
#ifndef CAISSON_TASK_WAIT_H
#define CAISSON_TASK_WAIT_H

#include "sentry/task/task.h"

struct wait_opts {
	int which;	 /* P_ALL, P_PID, P_PGID */
	struct pid *pid; /* borrowed; NULL with P_ALL */
	uint32_t options;
};

struct wait_result {
	int pid;    /* as the waiter sees it; 0: nothing happened */
	uint32_t uid;
	int status; /* wait(2) form */
	int code;   /* CLD_* */
	struct rusage_sum ru;
};

/*
 * Waits for a child of t: 0 and *r filled (r->pid 0 with WNOHANG and nothing to report), -ECHILD,
 * -ERESTARTSYS.
 */
int task_wait_child(struct task *t, const struct wait_opts *o, struct wait_result *r);

/*
 * ptrace: looks at the threads t traces. 1: *r holds an event, taken unless WNOWAIT. Sets *any when a
 * tracee matches at all. [tasks]
 */
int ptrace_wait_scan_locked(struct task *t, const struct wait_opts *o, struct wait_result *r,
			    int *any) __attribute__((weak));

#endif
