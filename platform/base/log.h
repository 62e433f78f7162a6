/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of one process: lines of text to one fd, each written with a single write(2). Bytes
 * that came from a guest are escaped by the log, so a guest can not forge lines. Any thread.
 */
#ifndef CAISSON_LOG_H
#define CAISSON_LOG_H

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines at most as chatty as `level` go to `fd` (-1: nowhere); `who` names the process. */
void log_setup(int fd, enum log_level level, const char *who);
/* "error" … "debug", or 0 … 3; -EINVAL. NULL leaves *level as it is. */
int log_level_parse(const char *s, enum log_level *level);
int log_enabled(enum log_level level);
int log_fd(void);

__attribute__((format(printf, 2, 3))) void log_at(enum log_level level, const char *fmt, ...);

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)                                       \
	do {                                                \
		if (log_enabled(LOG_INFO))                  \
			log_at(LOG_INFO, __VA_ARGS__);      \
	} while (0)
#define log_debug(...)                                      \
	do {                                                \
		if (log_enabled(LOG_DEBUG))                 \
			log_at(LOG_DEBUG, __VA_ARGS__);     \
	} while (0)

/* Like log_at(LOG_WARN), but each call site speaks at most once per process. */
#define log_once(...)                                                                   \
	do {                                                                            \
		static unsigned char once;                                              \
		if (!__atomic_exchange_n(&once, 1, __ATOMIC_RELAXED))                   \
			log_at(LOG_WARN, __VA_ARGS__);                                  \
	} while (0)

#endif
