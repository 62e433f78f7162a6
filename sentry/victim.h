/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the host's OOM killer shall take first: stub processes, which hold the guest's memory, and
 * not the sentry, which is needed to say what happened. What was killed is a guest process then,
 * as by Linux's own OOM killer.
 */
#ifndef CAISSON_VICTIM_H
#define CAISSON_VICTIM_H

/* Before isolation: opens what the other two write to. */
void victim_prepare(void);
/* Between the two, children inherit the greatest oom_score_adj that we may give them. */
void victim_begin(void);
void victim_end(void);

#endif
