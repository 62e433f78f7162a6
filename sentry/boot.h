/* SPDX-License-Identifier: Apache-2.0 */
/* What main.c, boot.c, kernel.c and control.c share. */
#ifndef CAISSON_BOOT_H
#define CAISSON_BOOT_H

#include "sentry/kernel.h"

struct container;

/* Exit codes of a sandbox that could not start its program. */
#define BOOT_EXIT_SETUP 125
#define BOOT_EXIT_NOT_EXECUTABLE 126
#define BOOT_EXIT_NOT_FOUND 127

/* Reports "setup-error" with one line of text and ends the sentry. */
__attribute__((noreturn, format(printf, 3, 4))) void boot_fail(struct kernel *k, int exit_code,
								const char *fmt, ...);

/* boot_fs.c: mounts the container's tree; c->mnt_ns is set. 0 or -1 with c->why. */
int boot_mounts(struct container *c);
/* Drops shared trees that no container has mounted any more. */
void boot_forget_shared(void);
/* mkdir -p of target's parents and, unless it stands for a file, target itself. */
int boot_make_target(const struct vfs_ctx *ctx, const char *target, int is_dir);
/* boot_task.c: the first task with everything but its program. */
struct task *boot_init_task(struct kernel *k);
/* Finds and execs the program in the calling thread, whose task t is, then serves it. */
void *boot_init_main(void *t);

/* kernel.c */
void kernel_start_clocks(struct kernel *k); /* the moment wall time is counted from */
void kernel_arm_timeout(struct kernel *k, uint64_t timeout_ms);

/* control.c: serves the waiter's messages until it is gone, which for the first container is the end
 * of the sandbox. */
void control_run(struct container *c);
/* One datagram to the runtime; what send(2) says. */
ssize_t control_send(int fd, const struct bootconf *m, int flags);
/* Tells the runtime that the sandbox stands, and waits for its word to start the program. */
void control_hold(struct container *c);
/* With hold=1: the program runs. */
void control_started(struct container *c);
/* Ends the container from any context, a moment later. */
void control_kill_soon(struct container *c);
/* control_exec.c: a process asked for by cmd=exec. Takes over conn, conf_fd and stdio. */
void control_exec(struct container *c, int conn, int conf_fd, const int *stdio);

/* console.c: guest terminals, each connected to one of the runtime's by a pty. */
struct console_link;
/* Takes over both fds; a reference to the slave, and the link for the calls below. 0 or errno. */
int console_open(struct kernel *k, const struct vfs_ctx *ctx, int in_fd, int out_fd, uint16_t rows,
		 uint16_t cols, struct file **slave, struct console_link **link);
/* NULL: no terminal, nothing happens; so for the next. */
void console_resize(struct console_link *link, uint16_t rows, uint16_t cols);
/* Passes on what the guest has written so far. */
void console_drain(struct console_link *link);
/* The process is gone: forgets link. */
void console_close(struct console_link *link);

/* boot_paths.c: device=, masked= and readonly_path= in ctx's tree. 0 or -1 with c->why. */
int boot_paths(struct container *c, const struct vfs_ctx *ctx);
/* boot_resolv.c: /etc/resolv.conf for a network policy's resolver. */
void boot_resolv(struct kernel *k, const struct vfs_ctx *ctx);
/* sysctl= lines, written as the first task t would with every right. */
void boot_sysctls(struct container *c, struct task *t);

/* crash.c: a fault of the sentry's own leaves a line in the log. */
void crash_setup(int log_fd);

/* filter.c: the sentry's own seccomp filter. 0 or negative errno. */
int sentry_lockdown(void);

#endif
