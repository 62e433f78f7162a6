/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry's own oom_score_adj goes up for the moment in which the first stub is made and back
 * down to where it was, for which no right is needed; all other stubs descend from that one. An
 * engine that has given the sandbox a score keeps its order among sandboxes: with a score of its
 * own (`oom_score_adj` in the configuration) the runtime has lowered the sentry's instead.
 */
#include "sentry/victim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "sentry/kernel.h"

static int g_fd = -1;
static char g_own[16];

/* #hostcalls: openat read (before lockdown) */
void victim_prepare(void)
{
	ssize_t n;

	g_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	n = g_fd < 0 ? -1 : pread(g_fd, g_own, sizeof(g_own) - 1, 0);
	if (n <= 0)
		log_debug("oom_score_adj can not be read; the host chooses its victims as it likes");
	else
		g_own[n] = '\0';
}

static void set(const char *score)
{
	if (pwrite(g_fd, score, strlen(score), 0) < 0)
		log_info("oom_score_adj %s is refused", score);
}

void victim_begin(void)
{
	const char *given = bootconf_get(g_kernel->conf, "oom_score_adj");
	char most[16];

	if (!g_own[0])
		return;
	snprintf(most, sizeof(most), "%d", atoi(g_own) > 0 ? 1000 : atoi(g_own) + 1000);
	set(given ? given : most);
}

void victim_end(void)
{
	if (g_own[0])
		set(g_own);
	if (g_fd >= 0)
		close(g_fd);
	g_fd = -1;
}
