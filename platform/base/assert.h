/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own broken invariants end the process with file and line. Nothing a guest, a packet, a
 * gofer message or a config file can contain may lead here: those get an errno.
 */
#ifndef CAISSON_ASSERT_H
#define CAISSON_ASSERT_H

__attribute__((noreturn, format(printf, 3, 4))) void panic_at(const char *file, int line,
							      const char *fmt, ...);

#define panic(...) panic_at(__FILE__, __LINE__, __VA_ARGS__)
#define ASSERT(cond)                                                 \
	do {                                                         \
		if (__builtin_expect(!(cond), 0))                    \
			panic_at(__FILE__, __LINE__, "%s", #cond);   \
	} while (0)

#endif
