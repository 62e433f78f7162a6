/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that come from outside the guest: the first one, and those of `caisson exec`. Both are
 * described by the same keys of a configuration (docs/bootconf.md) and made here, whole, before
 * any guest instruction of theirs runs.
 */
#ifndef CAISSON_SPAWN_H
#define CAISSON_SPAWN_H

#include "sentry/boot.h"

struct task;
struct container;
struct console_link;

struct spawn {
	struct kernel *k;
	struct container *c;	     /* where it starts */
	const struct bootconf *conf; /* arg env exe cwd uid gid groups caps … */
	int stdio[3];		     /* host fds, taken over; -1: closed in the guest */
	struct console_link *console; /* out: with tty=1 */
	int code;		     /* out, on failure: BOOT_EXIT_* */
	char why[512];		     /* out, on failure */
};

/*
 * A task of its own process and session, in the container's namespaces, with everything but a program.
 * Not linked into the task tree yet. The caller's thread borrows `current` meanwhile. NULL on
 * failure.
 */
struct task *spawn_task(struct spawn *s);
/* Links it as the container's first process (init) or as one without a parent, and gives it its stdio: 0 or -1. */
int spawn_link(struct spawn *s, struct task *t, int init);
/* In t's own thread: would the program be found, and may it be run? 0 or -1. */
int spawn_check(struct spawn *s, struct task *t);
/* In t's own thread: becomes the program. 0 or -1. */
int spawn_exec(struct spawn *s, struct task *t);

#endif
