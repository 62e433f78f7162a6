/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers: what one sandbox runs apart. The first is made by boot and ends the sandbox with its
 * end; containers of the same pod join later, each with a channel to its own waiter, a tree and a
 * gofer of its own, and namespaces of its own or of one that is there already. All share memory,
 * network stack and platform.
 *
 * A container is known to every process in it (thread_group.container, a reference, inherited by
 * fork). Lock keys: [I] immutable once its first process is linked, [tasks] kernel->tasks_lock.
 */
#ifndef CAISSON_CONTAINER_H
#define CAISSON_CONTAINER_H

#include <semaphore.h>

#include "platform/base/refs.h"
#include "sentry/kernel.h"

struct console_link;
struct goferfs_conn;

struct container {
	struct ref ref;
	struct kernel *k;	      /* [I] */
	struct list_head node;	      /* [tasks] in kernel->containers */
	const struct bootconf *conf;  /* [I] */
	struct bootconf own_conf;     /* of a container that joined */
	int control_fd;		      /* [I] to its waiter, or -1 */
	struct mnt_ns *mnt_ns;	      /* [I] namespaces of what starts in it */
	struct pid_ns *pid_ns;	      /* [I] */
	struct uts_ns *uts;	      /* [I] */
	struct ipc_ns *ipc;	      /* [I] */
	struct thread_group *init;    /* [tasks] its first process, NULL before and after */
	struct console_link *console; /* [I] the first process's */
	int gofer_fd;		      /* until taken over by gofer */
	struct goferfs_conn *gofer;   /* [I] a reference, or NULL */
	uint32_t task_count;	      /* [tasks] */
	uint32_t pids_limit;	      /* [a] 0: none */
	int ending;		      /* [tasks] nothing starts in it any more */
	sem_t start;		      /* with hold=1: the runtime's word */
	sem_t empty;		      /* posted when its last task dies while it is ending */
	struct ktimer kill_timer;     /* armed by the first lethal signal, kill_signal */
	int kill_signal;	      /* [a] */
	int code;		      /* why it could not be made: BOOT_EXIT_* and a line */
	char why[512];
};

/* One reference; NULL without memory. */
struct container *container_new(struct kernel *k);
struct container *container_get(struct container *c);
void container_put(struct container *c);
/* Notes why in c; always -1. */
__attribute__((format(printf, 3, 4))) int container_fail(struct container *c, int code, const char *fmt, ...);
/* Ends every process in it. [tasks] */
void container_kill_locked(struct container *c);
/* By container_id=; borrowed, or NULL. [tasks] */
struct container *container_find(struct kernel *k, const char *id);
/* One more container, asked for by cmd=container. Takes over all fds; stdio as spawn has it. */
void container_join(struct kernel *k, int conn, int conf_fd, int gofer_fd, const int *stdio);

#endif
