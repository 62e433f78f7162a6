/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest seccomp: filters that guests install on themselves, run by an interpreter on every system
 * call of a filtered task. Nothing here protects the sandbox; it is a service to the guest.
 *
 * A task's seccomp_state is made when it first gets a mode and lives as long as the task. Its
 * filter may be replaced by another thread (TSYNC), under the state's own lock.
 */
#ifndef CAISSON_SECCOMP_H
#define CAISSON_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>

#include "sentry/task/task.h"

/* ---- bpf.c: classic BPF over struct seccomp_data ---- */

/* 0, or -EINVAL: unknown instruction, jump or memory slot out of range, no return at the end. */
int seccomp_bpf_check(const struct sock_filter *prog, unsigned int len);
/* Runs a checked program. */
uint32_t seccomp_bpf_run(const struct sock_filter *prog, unsigned int len,
			 const struct seccomp_data *data);
/* 1 when the program allows this call number whatever its arguments are. */
int seccomp_bpf_always_allows(const struct sock_filter *prog, unsigned int len, uint32_t nr,
			      uint32_t arch);

/* ---- filter.c ---- */

/* seccomp(2) with SECCOMP_SET_MODE_STRICT or _FILTER: 0, a listener's fd, a tid (TSYNC), errno. */
long seccomp_set_strict(struct task *t);
long seccomp_set_filter(struct task *t, uint32_t flags, uint64_t uprog);
/* The first filter of a task that does not run yet (the configuration's): 0, -EINVAL, -ENOMEM. */
int seccomp_set_program(struct task *t, const struct sock_filter *prog, unsigned int len);
/* PR_GET_SECCOMP: SECCOMP_MODE_*. */
int seccomp_mode(struct task *t);
long seccomp_prctl_get(struct task *t);
/* PR_SET_SECCOMP. */
long seccomp_prctl_set(struct task *t, uint64_t mode, uint64_t arg);
/* Number of filters, for /proc/PID/status (Seccomp_filters). [tasks] */
unsigned int seccomp_filter_count(struct task *t);

/* ---- notify.c: SECCOMP_RET_USER_NOTIF ---- */

struct seccomp_listener;
struct seccomp_listener *seccomp_listener_new(void);
void seccomp_listener_put(struct seccomp_listener *l);
/* No task runs under the filter any more: pollers see POLLHUP. */
void seccomp_listener_filter_gone(struct seccomp_listener *l);
/* The file of a listener; takes a reference of its own on it. ERR_PTR. */
struct file *seccomp_listener_file(struct task *t, struct seccomp_listener *l);
/* Asks the supervisor: 0 carry out the call, 1 regs.rax holds the answer. */
int seccomp_ask(struct task *t, struct seccomp_listener *l, const struct seccomp_data *data,
		int killable_once_received);

#endif
