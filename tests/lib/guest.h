/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every guest test shares: named checks, one line each, and an exit status. Native Linux is
 * the oracle: a test passes there before it is run in the sandbox.
 */
#ifndef CAISSON_TEST_GUEST_H
#define CAISSON_TEST_GUEST_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* What /proc says of a process or thread: R, S, T, Z…; 0 when it is gone. */
static inline char guest_state(const char *dir)
{
	char path[320], line[512] = "", *p;
	FILE *f;

	snprintf(path, sizeof(path), "%s/stat", dir);
	f = fopen(path, "r");
	if (!f)
		return 0;
	p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return p && p[1] ? p[2] : 0;
}

/* Until process pid sleeps, however busy the machine is; 20 s at most. */
static inline void guest_asleep(int pid)
{
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%d", pid);
	for (int i = 0; i < 20000 && guest_state(dir) != 'S'; i++)
		usleep(1000);
}

/* Until `want` threads of this process sleep, the caller not counted (it does not). */
static inline void guest_threads_asleep(int want)
{
	for (int i = 0, n = 0; i < 20000 && n < want; i++) {
		DIR *d = opendir("/proc/self/task");
		char path[300];

		n = 0;
		for (struct dirent *e; d && (e = readdir(d));) {
			snprintf(path, sizeof(path), "/proc/self/task/%s", e->d_name);
			n += e->d_name[0] != '.' && guest_state(path) == 'S';
		}
		if (d)
			closedir(d);
		if (n < want)
			usleep(1000);
	}
}

/* The end of main(): 0 when every check held. */
static inline int guest_done(void)
{
	printf("%s: %d failed\n", g_failures ? "FAILED" : "PASSED", g_failures);
	return g_failures ? 1 : 0;
}

#endif
