/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The syscall table and dispatch. table.def is the one list: each row gives number, name, the
 * argument kinds for tracing, and how far the call is served. Handlers have one signature; they
 * return a value or negative errno, restart codes included (they never leave dispatch.c).
 */
#ifndef CAISSON_SYSCALL_H
#define CAISSON_SYSCALL_H

#include <stdint.h>

#include "sentry/task/task.h"

struct sysargs {
	uint64_t a[6];
};

typedef long (*syscall_fn)(struct task *t, const struct sysargs *a);

#define SYSCALL_HANDLER(name) long sys_##name(struct task *t, const struct sysargs *a)

/* Serves the call in t->regs and leaves its result (or restart code) in regs.rax. */
void syscall_dispatch(struct task *t, int foreign_abi);
/* What guest threads bring along, for platform_start(); made of table.def. */
const uint8_t *syscall_bring_table(void);
const char *syscall_name(uint64_t nr); /* NULL when unknown */

/* ---- hooks of dispatch; a missing definition means the feature is not there ---- */

/*
 * The task's seccomp filters over the call in t->regs (orig_rax, arguments): 0 go on, 1 do not run
 * the call: regs.rax holds its result already. Called only while t->seccomp is set.
 */
int seccomp_check(struct task *t) __attribute__((weak));
/* Syscall stops of a traced task, called while t->ptrace is set; enter: nonzero skips the call. */
int ptrace_syscall_enter(struct task *t) __attribute__((weak));
void ptrace_syscall_exit(struct task *t) __attribute__((weak));

/* Prototypes of every handler, from the table. */
#define SYS(nr, name, args, level) SYSCALL_HANDLER(name) __attribute__((weak));
#include "sentry/syscall/table.def"
#undef SYS

#endif
