/* SPDX-License-Identifier: Apache-2.0 */
/* User strings: a misread one must never become root. */
#ifndef CAISSON_RUNTIME_USER_H
#define CAISSON_RUNTIME_USER_H

#include <stdint.h>

#define USER_ID_MAX 4294967294u

/* The whole of `text` as a decimal id: 0 or -1. */
int user_id_parse(const char *text, uint32_t *id);
/* UID or UID:GID; *gid stays as it is without one. 0 or -1, and then nothing is stored. */
int user_parse(const char *text, uint32_t *uid, uint32_t *gid);

#endif
