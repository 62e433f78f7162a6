/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox ended, in the terms of the result record, and its JSON form. */
#ifndef CAISSON_RUNTIME_RESULT_H
#define CAISSON_RUNTIME_RESULT_H

#include <stdint.h>

#include "platform/base/bootconf.h"

struct result {
	char reason[24];  /* ok nonzero signaled timeout oom setup-error internal-error */
	int exit_code;	  /* of the program; -1 when a signal ended it */
	int signal;	  /* 0 when it exited */
	char message[512]; /* of setup-error and internal-error */
	uint64_t wall_ms, cpu_ms, peak_memory_kb;
};

/* From the sentry's last message; a missing or odd one is an internal-error. */
void result_from_message(struct result *r, const struct bootconf *msg);
/* caisson's own exit status for it. */
int result_exit_status(const struct result *r);
/* One line of JSON to `file`, or to stderr when NULL. */
void result_print_json(const struct result *r, const char *file);

#endif
