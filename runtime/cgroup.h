/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host cgroup of one sandbox, version 1 or 2, made only when a limit was asked for. It stands
 * behind the limits that the sentry enforces inside. Where none can be made (rootless, no
 * delegation) the inner limits stand alone and one warning says so.
 */
#ifndef CAISSON_RUNTIME_CGROUP_H
#define CAISSON_RUNTIME_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#define CGROUP_DIRS_MAX 3

struct cgroup {
	char *dirs[CGROUP_DIRS_MAX]; /* one per v1 hierarchy, or one for v2; owned */
	int count;
	char *memory_dir;	     /* borrowed from dirs: where OOM events are counted */
	int v2;
};

/* memory bytes, cpus, pids: 0 for no limit. Pids get headroom for the sentry's own threads. */
void cgroup_create(struct cgroup *cg, uint64_t memory, double cpus, uint64_t pids);
void cgroup_add(const struct cgroup *cg, pid_t pid);
/* 1 when the host's OOM killer has acted in it. */
int cgroup_oom_killed(const struct cgroup *cg);
/* Removes the directories; the processes are gone. */
void cgroup_remove(struct cgroup *cg);

#endif
