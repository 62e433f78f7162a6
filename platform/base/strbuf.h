/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing text buffer, for pseudo files and messages. It never fails half-way: after an
 * allocation failure or past STRBUF_MAX it keeps what it has and `err` says so.
 */
#ifndef CAISSON_STRBUF_H
#define CAISSON_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

#define STRBUF_MAX (16u << 20)

struct strbuf {
	char *data; /* always NUL-terminated once non-NULL */
	size_t len, cap;
	int err; /* 0, -ENOMEM or -E2BIG */
};

static inline void strbuf_init(struct strbuf *sb)
{
	sb->data = 0;
	sb->len = sb->cap = 0;
	sb->err = 0;
}

void strbuf_free(struct strbuf *sb);
void strbuf_add(struct strbuf *sb, const void *p, size_t n);
void strbuf_puts(struct strbuf *sb, const char *s);
void strbuf_putc(struct strbuf *sb, char c);
__attribute__((format(printf, 2, 3))) void strbuf_printf(struct strbuf *sb, const char *fmt, ...);
void strbuf_vprintf(struct strbuf *sb, const char *fmt, va_list ap);
/* Adds s with space, tab, newline and backslash as octal escapes, as /proc/mounts does. */
void strbuf_escape(struct strbuf *sb, const char *s);

#endif
