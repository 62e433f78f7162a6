/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup2 filesystem with one group, the sandbox's own: its limits and what it uses. The guest
 * can not make groups below it (mkdir gives EPERM).
 */
#ifndef CAISSON_CGROUP_H
#define CAISSON_CGROUP_H

#include <stdint.h>

#include "vfs/vfs.h"

extern const struct fs_type g_cgroup2_type;

#define CGROUP_MAX UINT64_MAX /* "max": no limit */

struct cgroup_stats {
	/* peaks of 0: not known, and then there is no such file */
	uint64_t memory_current, memory_peak, memory_max, memory_high;
	uint64_t memory_anon, memory_file, memory_shmem, memory_kernel, pgfault, pgmajfault;
	uint64_t oom_events, oom_kills;
	uint64_t cpu_usage_us, cpu_user_us, cpu_system_us;
	uint64_t cpu_quota_us, cpu_period_us; /* quota CGROUP_MAX: none */
	uint64_t cpu_weight;		      /* 1 … 10000, 100 is the default */
	uint64_t nr_periods, nr_throttled, throttled_us;
	uint64_t pids_current, pids_peak, pids_max;
};

enum cgroup_limit { CGROUP_MEMORY_MAX, CGROUP_MEMORY_HIGH, CGROUP_CPU_WEIGHT, CGROUP_PIDS_MAX };

/* Filled in by the sentry; callbacks as in proc.h. */
struct cgroup_source {
	void *priv;
	uint32_t cpu_count;
	void (*stats)(const struct cgroup_source *cs, struct cgroup_stats *out);
	/* "pid\n" of each process (threads nonzero: of each thread), in the caller's numbers. */
	void (*members)(const struct cgroup_source *cs, int threads, struct strbuf *out);
	/* Changes a limit within what the sandbox was given; NULL or -EPERM: the guest may not. */
	int (*limit_set)(const struct cgroup_source *cs, enum cgroup_limit which, uint64_t val);
};

/* Before the first mount; borrowed for ever. Without it the figures are proc's, with no limits. */
void cgroup_set_source(const struct cgroup_source *cs);

#endif
