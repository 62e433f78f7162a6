/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every guest test shares: named checks, one line each, and an exit status. Native Linux is
 * the oracle: a test passes there before it is run in the sandbox.
 */
#ifndef CAISSON_TEST_GUEST_H
#define CAISSON_TEST_GUEST_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int g_failures;

#define CHECK(name, cond)                                                                  \
	do {                                                                               \
		if (cond) {                                                                \
			printf("ok %s\n", name);                                           \
		} else {                                                                   \
			printf("FAIL %s: %s (line %d, errno %d %s)\n", name, #cond, __LINE__, \
			       errno, strerror(errno));                                    \
			g_failures++;                                                      \
		}                                                                          \
		fflush(stdout);                                                            \
	} while (0)

/* The call must fail with this errno. */
#define CHECK_ERRNO(name, call, want)                                                      \
	do {                                                                               \
		errno = 0;                                                                 \
		long r_ = (long)(call);                                                    \
		int e_ = errno;                                                            \
		if (r_ == -1 && e_ == (want)) {                                            \
			printf("ok %s\n", name);                                           \
		} else {                                                                   \
			printf("FAIL %s: %s gave %ld errno %d (%s), want errno %d (line %d)\n", name, \
			       #call, r_, e_, strerror(e_), want, __LINE__);               \
			g_failures++;                                                      \
		}                                                                          \
		fflush(stdout);                                                            \
	} while (0)

/* The end of main(): 0 when every check held. */
static inline int guest_done(void)
{
	printf("%s: %d failed\n", g_failures ? "FAILED" : "PASSED", g_failures);
	return g_failures ? 1 : 0;
}

#endif
