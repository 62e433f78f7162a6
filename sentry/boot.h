/* SPDX-License-Identifier: Apache-2.0 */
/* What main.c, boot.c, kernel.c and control.c share. */
#ifndef CAISSON_BOOT_H
#define CAISSON_BOOT_H

#include "sentry/kernel.h"

/* Exit codes of a sandbox that could not start its program. */
#define BOOT_EXIT_SETUP 125
#define BOOT_EXIT_NOT_EXECUTABLE 126
#define BOOT_EXIT_NOT_FOUND 127

/* Reports "setup-error" with one line of text and ends the sentry. */
__attribute__((noreturn, format(printf, 3, 4))) void boot_fail(struct kernel *k, int exit_code,
								const char *fmt, ...);

/* boot_fs.c: mounts the sandbox's tree; k->init_mnt_ns is set. Fails through boot_fail. */
void boot_mounts(struct kernel *k);
/* boot_task.c: the first task with everything but its program. */
struct task *boot_init_task(struct kernel *k);
/* Finds and execs the program in the calling thread, whose task t is, then serves it. */
void *boot_init_main(void *t);

/* kernel.c */
void kernel_start_clocks(struct kernel *k); /* the moment wall time is counted from */
void kernel_arm_timeout(struct kernel *k, uint64_t timeout_ms);

/* control.c: serves the runtime's messages; returns only if the runtime is gone. */
void control_run(struct kernel *k);

/* console.c: the guest's terminal, connected to the runtime's by a pty. */
int boot_console(struct kernel *k, const struct vfs_ctx *ctx, int in_fd, int out_fd, uint16_t rows,
		 uint16_t cols, struct file **slave);
void console_resize(uint16_t rows, uint16_t cols);
/* Passes on what the guest has written so far. */
void console_drain(void);

/* filter.c: the sentry's own seccomp filter. 0 or negative errno. */
int sentry_lockdown(void);

#endif
