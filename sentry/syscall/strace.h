/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing of syscalls to the log, from the argument kinds of table.def. */
#ifndef CAISSON_STRACE_H
#define CAISSON_STRACE_H

#include "sentry/syscall/syscall.h"

#define STRACE_LINE 1024

struct strace_line {
	char text[STRACE_LINE]; /* "name(args", always NUL-terminated */
	size_t len;
	int formatted;
};

/* Before the call: formats now, unless the row has out-buffers that only the result fills. */
void strace_enter(struct strace_line *l, struct task *t, const char *name, const char *kinds,
		  const struct sysargs *a);
/* After it: writes the line. */
void strace_exit(struct strace_line *l, struct task *t, const char *name, const char *kinds,
		 const struct sysargs *a, long ret);

#endif
