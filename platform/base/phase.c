/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/phase.h"

#include <stdio.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"

#define MARKS_MAX 32

static struct {
	const char *name;
	uint64_t at;
} g_marks[MARKS_MAX];
static uint32_t g_count; /* [a] */
static uint32_t g_said;
static uint64_t g_from, g_last;

uint64_t phase_begin(uint64_t from)
{
	uint64_t now = mono_now_ns();

	g_from = g_last = from && from <= now ? from : now;
	return g_from;
}

void phase_mark(const char *name)
{
	uint32_t i = __atomic_fetch_add(&g_count, 1, __ATOMIC_RELAXED);

	if (i >= MARKS_MAX)
		return;
	g_marks[i].at = mono_now_ns();
	__atomic_store_n(&g_marks[i].name, name, __ATOMIC_RELEASE);
}

void phase_log(void)
{
	uint32_t count = __atomic_load_n(&g_count, __ATOMIC_RELAXED);
	char line[900];
	size_t len = 0;

	if (!log_enabled(LOG_INFO))
		return;
	line[0] = '\0';
	for (uint32_t i = g_said; i < count && i < MARKS_MAX && len + 64 < sizeof(line); i++) {
		const char *name = __atomic_load_n(&g_marks[i].name, __ATOMIC_ACQUIRE);

		if (!name || g_marks[i].at < g_last)
			continue;
		len += (size_t)snprintf(line + len, sizeof(line) - len, " %s +%llu", name,
					(unsigned long long)(g_marks[i].at - g_last) / 1000);
		g_last = g_marks[i].at;
	}
	g_said = count;
	log_info("phases:%s, %llu us", line, (unsigned long long)(g_last - g_from) / 1000);
}
