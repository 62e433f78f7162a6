/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and exits of error.h. */
#include "runtime/error.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void (*g_cleanup)(void);
static void (*g_sink)(int status, const char *line);
static int g_status = -1;
static int g_log_fd = -1;
static int g_log_json;

void die_cleanup(void (*fn)(void))
{
	g_cleanup = fn;
}

void error_status(int status)
{
	g_status = status;
}

void error_sink(void (*fn)(int status, const char *line))
{
	g_sink = fn;
}

void error_log(const char *path, int json)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		die(1, "the log %s can not be opened: %m", path);
	/* Out of the way of the numbers that belong to the container. */
	g_log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (g_log_fd < 0)
		g_log_fd = fd;
	else
		close(fd);
	g_log_json = json;
}

int error_log_fd(void)
{
	return g_log_fd;
}

/* One entry, written at once: several processes append to one file. */
static void log_line(const char *level, const char *line)
{
	char when[40], *text = NULL;
	time_t now = time(NULL);
	struct tm tm;
	int n;

	if (g_log_fd < 0)
		return;
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	if (g_log_json) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "level", json_object_new_string(level));
		json_object_object_add(o, "msg", json_object_new_string(line));
		json_object_object_add(o, "time", json_object_new_string(when));
		n = asprintf(&text, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
		json_object_put(o);
	} else {
		n = asprintf(&text, "time=\"%s\" level=%s msg=\"%s\"\n", when, level, line);
	}
	if (n > 0 && write(g_log_fd, text, (size_t)n) != n)
		fprintf(stderr, "caisson: the log can not be written\n");
	free(text);
}

static void say(int status, const char *fmt, va_list ap)
{
	char line[2048];

	vsnprintf(line, sizeof(line), fmt, ap);
	for (char *p = line; *p; p++) /* names come from users: one message stays one line */
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	if (g_sink) {
		g_sink(status, line);
		return;
	}
	log_line(status < 0 ? "warning" : "error", line);
	if (status >= 0 || g_log_fd < 0)
		fprintf(stderr, "caisson: %s\n", line);
}

void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(-1, fmt, ap);
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
	say(status, fmt, ap);
	va_end(ap);
	exit(g_status >= 0 ? g_status : status);
}
