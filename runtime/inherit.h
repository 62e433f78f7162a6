/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program inherits from whoever starts it, besides its arguments: limits, ignored and
 * blocked signals, umask, niceness, missing stdio. `caisson run` stands between a caller and the
 * program, so it takes these for itself no further than they do no harm, and hands them on.
 */
#ifndef CAISSON_RUNTIME_INHERIT_H
#define CAISSON_RUNTIME_INHERIT_H

#include <stdint.h>
#include <sys/resource.h>

struct bootconf;

struct inherited {
	struct rlimit limit[RLIM_NLIMITS];
	uint64_t ignored, blocked; /* signal n is bit n - 1 */
	unsigned umask;
	int nice;
	int missing; /* bit n: fd n was closed */
};

/*
 * Notes the caller's, then gives this process and its children what a sandbox needs: room, an
 * ordinary signal state, and /dev/null where 0, 1 or 2 are closed, so that no other file gets their
 * numbers. Dies with one line where the caller's hard limits leave no room.
 */
void inherit_take(struct inherited *in);
/* Hands the caller's to the first process. 0 or negative errno. */
int inherit_give(const struct inherited *in, struct bootconf *conf);

#endif
