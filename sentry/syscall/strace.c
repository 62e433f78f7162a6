/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line a syscall: "[tid] name(args) = ret ERRNO". Strings and buffers are read from the guest
 * with a bound and escaped; a bad pointer is shown as the bare address. Tracing never changes what
 * a call does: it reads its own copies.
 */
#include "sentry/syscall/strace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/mm/mm.h"

#define STRING_SHOWN 96
#define BUFFER_SHOWN 48

__attribute__((format(printf, 2, 3))) static void add(struct strace_line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->len += (size_t)n < sizeof(l->text) - l->len ? (size_t)n
							       : sizeof(l->text) - l->len - 1;
}

static void add_quoted(struct strace_line *l, const char *p, size_t n, int cut)
{
	add(l, "\"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '"' || c == '\\')
			add(l, "\\%c", c);
		else if (c == '\n')
			add(l, "\\n");
		else if (c < 32 || c > 126)
			add(l, "\\x%02x", c);
		else
			add(l, "%c", c);
	}
	add(l, cut ? "\"..." : "\"");
}

static void add_string(struct strace_line *l, struct task *t, uint64_t addr)
{
	char buf[STRING_SHOWN];
	ssize_t n = addr && t->mm ? copy_string_from_user(t, buf, sizeof(buf), addr) : -EFAULT;

	if (n >= 0)
		add_quoted(l, buf, (size_t)n, 0);
	else if (n == -ENAMETOOLONG)
		add_quoted(l, buf, sizeof(buf), 1);
	else
		add(l, "%#lx", addr);
}

static void add_buffer(struct strace_line *l, struct task *t, uint64_t addr, uint64_t size)
{
	char buf[BUFFER_SHOWN];
	size_t n = size < sizeof(buf) ? size : sizeof(buf);
	ssize_t r = addr && n && t->mm ? copy_from_user_some(t, buf, addr, n) : 0;

	if (r > 0)
		add_quoted(l, buf, (size_t)r, size > (size_t)r);
	else
		add(l, "%#lx", addr);
}

static void add_timespec(struct strace_line *l, struct task *t, uint64_t addr)
{
	struct linux_timespec ts;

	if (addr && t->mm && copy_from_user(t, &ts, addr, sizeof(ts)) == 0)
		add(l, "{%ld, %ld}", (long)ts.sec, (long)ts.nsec);
	else
		add(l, "%#lx", addr);
}

static void add_open_flags(struct strace_line *l, uint64_t flags)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {
		{ O_CREAT, "O_CREAT" },		{ O_EXCL, "O_EXCL" },
		{ O_NOCTTY, "O_NOCTTY" },	{ O_TRUNC, "O_TRUNC" },
		{ O_APPEND, "O_APPEND" },	{ O_NONBLOCK, "O_NONBLOCK" },
		{ O_DIRECTORY, "O_DIRECTORY" }, { O_NOFOLLOW, "O_NOFOLLOW" },
		{ O_CLOEXEC, "O_CLOEXEC" },	{ O_PATH, "O_PATH" },
		{ O_DIRECT, "O_DIRECT" },
	};
	static const char *const access_names[] = { "O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE" };
	uint64_t rest = flags & ~(uint64_t)O_ACCMODE;

	add(l, "%s", access_names[flags & O_ACCMODE]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if ((rest & names[i].bit) == names[i].bit) {
			add(l, "|%s", names[i].name);
			rest &= ~(uint64_t)names[i].bit;
		}
	}
	if (rest)
		add(l, "|%#lx", rest);
}

static void add_arg(struct strace_line *l, struct task *t, char kind, uint64_t v, uint64_t next,
		    long ret)
{
	switch (kind) {
	case 'd':
	case 'f':
		add(l, "%d", (int)v);
		break;
	case 'u':
		add(l, "%u", (unsigned int)v);
		break;
	case 'z':
		add(l, "%lu", v);
		break;
	case 'D':
		if ((int)v == AT_FDCWD)
			add(l, "AT_FDCWD");
		else
			add(l, "%d", (int)v);
		break;
	case 's':
	case 'P':
		add_string(l, t, v);
		break;
	case 'b':
		add_buffer(l, t, v, ret > 0 ? (uint64_t)ret : 0);
		break;
	case 'B':
		add_buffer(l, t, v, next);
		break;
	case 'o':
		add_open_flags(l, v);
		break;
	case 'm':
		add(l, "0%o", (unsigned int)v);
		break;
	case 'S': {
		const char *name = sigabbrev_np((int)v);

		if (name)
			add(l, "SIG%s", name);
		else
			add(l, "%d", (int)v);
		break;
	}
	case 't':
		add_timespec(l, t, v);
		break;
	default:
		if (v || (kind != 'p' && kind != 'r'))
			add(l, "%#lx", v);
		else
			add(l, "NULL");
		break;
	}
}

static void format(struct strace_line *l, struct task *t, const char *name, const char *kinds,
		   const struct sysargs *a, long ret)
{
	add(l, "%s(", name);
	for (size_t i = 0; i < 6 && kinds[i]; i++) {
		if (i)
			add(l, ", ");
		add_arg(l, t, kinds[i], a->a[i], i < 5 ? a->a[i + 1] : 0, ret);
	}
	l->formatted = 1;
}

void strace_enter(struct strace_line *l, struct task *t, const char *name, const char *kinds,
		  const struct sysargs *a)
{
	l->text[0] = 0;
	l->len = 0;
	l->formatted = 0;
	if (!strchr(kinds, 'b'))
		format(l, t, name, kinds, a, 0);
	/* These do not come back to have their line finished. */
	if (strcmp(name, "exit") == 0 || strcmp(name, "exit_group") == 0)
		log_at(LOG_WARN, "[%d] %s) = ?", task_tid(t), l->text);
}

static const char *restart_name(long ret)
{
	switch (-ret) {
	case ERESTARTSYS:
		return "ERESTARTSYS";
	case ERESTARTNOINTR:
		return "ERESTARTNOINTR";
	case ERESTARTNOHAND:
		return "ERESTARTNOHAND";
	case ERESTART_RESTARTBLOCK:
		return "ERESTART_RESTARTBLOCK";
	default:
		return NULL;
	}
}

void strace_exit(struct strace_line *l, struct task *t, const char *name, const char *kinds,
		 const struct sysargs *a, long ret)
{
	const char *err = NULL;

	if (!l->formatted)
		format(l, t, name, kinds, a, ret);
	if (ret < 0 && ret >= -MAX_ERRNO) {
		err = restart_name(ret);
		if (!err)
			err = strerrorname_np((int)-ret);
	}
	if (err)
		log_at(LOG_WARN, "[%d] %s) = -1 %s", task_tid(t), l->text, err);
	else if (ret > 0xffff || ret < -MAX_ERRNO)
		log_at(LOG_WARN, "[%d] %s) = %#lx", task_tid(t), l->text, (unsigned long)ret);
	else
		log_at(LOG_WARN, "[%d] %s) = %ld", task_tid(t), l->text, ret);
}
