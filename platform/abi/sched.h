/* SPDX-License-Identifier: Apache-2.0 */
/* struct sched_attr of sched_setattr(2): the kernel header clashes with the C library's. Data only. */
#ifndef CAISSON_ABI_SCHED_H
#define CAISSON_ABI_SCHED_H

#include <stdint.h>

#define LINUX_SCHED_ATTR_SIZE_VER0 48

struct linux_sched_attr {
	uint32_t size;
	uint32_t sched_policy;
	uint64_t sched_flags;
	int32_t sched_nice;
	uint32_t sched_priority;
	uint64_t sched_runtime, sched_deadline, sched_period;
	uint32_t sched_util_min, sched_util_max;
};
_Static_assert(sizeof(struct linux_sched_attr) == 56, "SCHED_ATTR_SIZE_VER1");

#endif
