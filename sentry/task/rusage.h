/* SPDX-License-Identifier: Apache-2.0 */
/* Handing resource usage to the guest. */
#ifndef CAISSON_TASK_RUSAGE_H
#define CAISSON_TASK_RUSAGE_H

#include "sentry/task/task.h"

int rusage_to_user(struct task *t, uint64_t addr, const struct rusage_sum *ru);
/* What getrusage(RUSAGE_SELF or RUSAGE_CHILDREN or RUSAGE_THREAD) shows. */
int rusage_get(struct task *t, int who, struct rusage_sum *out);

#endif
