/* SPDX-License-Identifier: Apache-2.0 */
/* The first line of a "#!" file, by the rules of Linux's load_script(). */
#include <errno.h>
#include <string.h>

#include "sentry/loader/loader.h"

static int is_blank(char c)
{
	return c == ' ' || c == '\t';
}

int script_parse(char head[EXEC_HEAD_SIZE], struct script *s)
{
	char *last = head + EXEC_HEAD_SIZE - 1, *end, *p, *name;

	if (head[0] != '#' || head[1] != '!')
		return -ENOEXEC;
	end = memchr(head, '\n', EXEC_HEAD_SIZE);
	if (!end) {
		/* No newline in sight: fine for a short file, but a path must not be cut off. */
		for (p = head + 2; p < last && is_blank(*p); p++)
			;
		if (p == last)
			return -ENOEXEC;
		for (; p < last && !is_blank(*p) && *p; p++)
			;
		if (p == last)
			return -ENOEXEC;
		end = last;
	}
	while (end > head + 2 && is_blank(end[-1]))
		end--;
	*end = '\0';
	for (name = head + 2; name < end && is_blank(*name); name++)
		;
	if (name == end || !*name)
		return -ENOEXEC;
	for (p = name; p < end && !is_blank(*p) && *p; p++)
		;
	s->interp = name;
	s->arg = NULL;
	if (p < end && *p) {
		*p++ = '\0';
		while (p < end && is_blank(*p))
			p++;
		if (p < end && *p)
			s->arg = p;
	}
	return 0;
}
