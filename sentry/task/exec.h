/* SPDX-License-Identifier: Apache-2.0 */
/* Argument limits of execve, for whoever gathers the strings. */
#ifndef CAISSON_TASK_EXEC_H
#define CAISSON_TASK_EXEC_H

#include "sentry/task/task.h"

#define EXEC_STRING_MAX (128u << 10)	/* one string, its NUL included */
#define EXEC_STRINGS_MAX (6u << 20)	/* all of them, whatever the stack limit */
#define EXEC_STRINGS_MIN (128u << 10)	/* always allowed */

#endif
