/* SPDX-License-Identifier: Apache-2.0 */
/* Control files of one cgroup directory. Each is written with one write(2); 0 or negative errno. */
#ifndef CAISSON_RUNTIME_CGROUP_FILE_H
#define CAISSON_RUNTIME_CGROUP_FILE_H

#include <stdint.h>

int cgroup_write_text(const char *dir, const char *name, const char *text);
int cgroup_write_number(const char *dir, const char *name, int64_t v);

#endif
