/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the command line fails: one line on stderr that says what was wrong and what to do, and
 * docker's exit statuses. Only the short-lived runtime may end the process this way. Engines read
 * a log file instead (--log): one entry a line, in JSON or text.
 */
#ifndef CAISSON_RUNTIME_ERROR_H
#define CAISSON_RUNTIME_ERROR_H

#define EXIT_SETUP 125	   /* caisson itself could not do what was asked */
#define EXIT_NOT_EXEC 126  /* the program is there but can not be executed */
#define EXIT_NOT_FOUND 127 /* the program is not there */
#define EXIT_TIMEOUT 124   /* --timeout passed, as timeout(1) says it */

/* Prints "caisson: MESSAGE" and exits with `status`. */
__attribute__((noreturn, format(printf, 2, 3))) void die(int status, const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void warn(const char *fmt, ...);
/* What die() calls before it exits, once (terminal modes, half-started children). NULL: nothing. */
void die_cleanup(void (*fn)(void));
/* The exit status of every die() from now on: engines expect 1 (exec: 255) whatever went wrong. */
void error_status(int status);
/* Lines go to fn instead (status -1: a warning): for a child that reports to its parent. */
void error_sink(void (*fn)(int status, const char *line));
/* Lines go to the file too, appended. */
void error_log(const char *path, int json);
int error_log_fd(void); /* -1: none */

#endif
