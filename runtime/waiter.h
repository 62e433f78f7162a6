/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one host process of a container that engines know: its pid is reported, its exit status is
 * the container's, signals to it are passed on. It is the init of a pid namespace that holds gofer,
 * sentry and stubs, so its death, whatever the cause, is theirs.
 */
#ifndef CAISSON_RUNTIME_WAITER_H
#define CAISSON_RUNTIME_WAITER_H

#include <sys/types.h>

#include "runtime/pod.h"
#include "runtime/spec.h"

struct waiter_setup {
	struct spec *spec;
	const char *id;
	const struct pod *pod; /* the sandbox it joins, or NULL: it makes one */
	int parent;	/* SEQPACKET to the creating command */
	int listen;	/* the control socket */
	int netns;	/* to enter, or -1 */
	int tty;	/* the slave of the terminal; -1: none */
	int log;	/* fd for sentry and gofer */
	int audit;	/* fd for the sentry, or -1 */
	const char *log_level;
	uid_t owner;	/* may speak to the control socket, besides root */
};

/*
 * In the new process, first thing. Waits for the parent's word (one message: the cgroup is set),
 * builds the sandbox, reports "ok=1" or "error=TEXT", waits for the parent's second word, and then
 * serves. A parent that goes away before that ends it all.
 */
__attribute__((noreturn)) void waiter_run(const struct waiter_setup *w);

#endif
