/* SPDX-License-Identifier: Apache-2.0 */
/* The log behind log.h, and panic_at(), which ends in it. No locks: one write per line. */
#include "platform/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/assert.h"

static int g_fd = 2;
static enum log_level g_level = LOG_WARN;
static char g_who[16] = "caisson";

static const char g_level_letter[] = "EWID";

void log_setup(int fd, enum log_level level, const char *who)
{
	g_fd = fd;
	g_level = level;
	snprintf(g_who, sizeof(g_who), "%s", who);
}

int log_level_parse(const char *s, enum log_level *level)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };

	for (int i = 0; s && i < 4; i++)
		if (!strcmp(s, names[i]) || (s[0] == '0' + i && !s[1])) {
			*level = (enum log_level)i;
			return 0;
		}
	return s ? -EINVAL : 0;
}

int log_enabled(enum log_level level)
{
	return g_fd >= 0 && level <= g_level;
}

int log_fd(void)
{
	return g_fd;
}

/* Everything that is not printable ASCII becomes '?', so that one call is one line. */
static void log_emit(enum log_level level, const char *fmt, va_list ap)
{
	char line[1024];
	struct timespec ts;
	int saved = errno;

	clock_gettime(CLOCK_REALTIME, &ts);
	int head = snprintf(line, sizeof(line), "%s %c %lld.%06ld ", g_who, g_level_letter[level],
			    (long long)ts.tv_sec, ts.tv_nsec / 1000);
	int n = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);
	size_t len = (size_t)head + (n > 0 ? (size_t)n : 0);

	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < 0x20 || (unsigned char)line[i] > 0x7e)
			line[i] = '?';
	line[len++] = '\n';
	/* A log that can not be written is not worth failing for. */
	if (write(g_fd, line, len) < 0)
		errno = 0;
	errno = saved;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	log_emit(level, fmt, ap);
	va_end(ap);
}

void panic_at(const char *file, int line, const char *fmt, ...)
{
	char msg[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	if (g_fd < 0)
		g_fd = 2;
	log_at(LOG_ERROR, "panic at %s:%d: %s", file, line, msg);
	abort();
}
