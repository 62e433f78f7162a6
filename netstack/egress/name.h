/* SPDX-License-Identifier: Apache-2.0 */
/* Host names as a policy compares them: one spelling for each. Pure functions. */
#ifndef CAISSON_EGRESS_NAME_H
#define CAISSON_EGRESS_NAME_H

#include <stddef.h>

#define EGRESS_NAME_SIZE 254 /* 253 characters and a NUL */

/*
 * The canonical form of the n bytes at `in`: lower case, without the final dot. IDNA names must come
 * in their ASCII form (xn--…). -EINVAL for anything else: NUL, other bytes than letters, digits,
 * '-' and '_', empty or long labels, and what looks like an IPv4 address.
 */
int egress_name_canon(const char *in, size_t n, char out[EGRESS_NAME_SIZE]);

/* Both canonical. Is name below suffix (and not suffix itself)? */
int egress_name_below(const char *name, const char *suffix);

#endif
