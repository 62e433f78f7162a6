/* SPDX-License-Identifier: Apache-2.0 */
/* The growing text buffer of strbuf.h. */
#include "platform/base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strbuf_free(struct strbuf *sb)
{
	free(sb->data);
	strbuf_init(sb);
}

/* Room for n more bytes and a NUL. */
static int grow(struct strbuf *sb, size_t n)
{
	size_t want;

	if (sb->err)
		return sb->err;
	if (__builtin_add_overflow(sb->len, n, &want) || want >= STRBUF_MAX)
		return sb->err = -E2BIG;
	if (want + 1 <= sb->cap)
		return 0;
	size_t cap = sb->cap ? sb->cap : 256;

	while (cap < want + 1)
		cap *= 2;
	char *p = realloc(sb->data, cap);

	if (!p)
		return sb->err = -ENOMEM;
	sb->data = p;
	sb->cap = cap;
	return 0;
}

void strbuf_add(struct strbuf *sb, const void *p, size_t n)
{
	if (grow(sb, n))
		return;
	memcpy(sb->data + sb->len, p, n);
	sb->len += n;
	sb->data[sb->len] = '\0';
}

void strbuf_puts(struct strbuf *sb, const char *s)
{
	strbuf_add(sb, s, strlen(s));
}

void strbuf_putc(struct strbuf *sb, char c)
{
	strbuf_add(sb, &c, 1);
}

void strbuf_vprintf(struct strbuf *sb, const char *fmt, va_list ap)
{
	va_list again;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);

	if (n >= 0 && !grow(sb, (size_t)n)) {
		vsnprintf(sb->data + sb->len, (size_t)n + 1, fmt, again);
		sb->len += (size_t)n;
	}
	va_end(again);
}

void strbuf_printf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_vprintf(sb, fmt, ap);
	va_end(ap);
}

void strbuf_escape(struct strbuf *sb, const char *s)
{
	for (; *s; s++) {
		if (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\\')
			strbuf_printf(sb, "\\%03o", (unsigned)(unsigned char)*s);
		else
			strbuf_putc(sb, *s);
	}
}
