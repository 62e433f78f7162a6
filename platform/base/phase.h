/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of a start and of an end goes: each process notes the moment it reaches a stage,
 * and says them in a log line (`caisson run --log FILE`): "phases: NAME +US ..., TOTAL us", each
 * figure the time since the mark before it, the total that since the runtime began.
 */
#ifndef CAISSON_PHASE_H
#define CAISSON_PHASE_H

#include <stdint.h>

/* `from` is the runtime's CLOCK_MONOTONIC at its own start, in ns; 0: now. Returns it. */
uint64_t phase_begin(uint64_t from);
/* `name` stays the caller's; a literal. The marks beyond a fixed number are dropped. Any thread. */
void phase_mark(const char *name);
/* Says the marks since the last call, at level info. One thread at a time. */
void phase_log(void);

#endif
