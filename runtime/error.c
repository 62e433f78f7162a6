/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and exits of error.h. */
#include "runtime/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void (*g_cleanup)(void);

void die_cleanup(void (*fn)(void))
{
	g_cleanup = fn;
}

static void say(const char *fmt, va_list ap)
{
	char line[2048];

	vsnprintf(line, sizeof(line), fmt, ap);
	for (char *p = line; *p; p++) /* names come from users: one message stays one line */
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	fprintf(stderr, "caisson: %s\n", line);
}

void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void die(int status, const char *fmt, ...)
{
	void (*fn)(void) = g_cleanup;
	va_list ap;

	g_cleanup = NULL;
	if (fn)
		fn();
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	exit(status);
}
