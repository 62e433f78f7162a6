/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names gave which addresses, and until when: what the sandbox's resolver has answered. A
 * bounded table; when it is full the entry that would end first makes room. No lock of its own.
 */
#ifndef CAISSON_EGRESS_BINDINGS_H
#define CAISSON_EGRESS_BINDINGS_H

#include <stdint.h>

#include "netstack/addr.h"

/* What a name's time to live is brought into, so that a client that just asked can still connect. */
#define EGRESS_TTL_MIN_S 60u
#define EGRESS_TTL_MAX_S 3600u

struct egress_bindings;

struct egress_bindings *egress_bindings_new(uint32_t max); /* NULL: out of memory */
void egress_bindings_free(struct egress_bindings *b);
/* name, canonical, gave a. Repeated: the later end counts. 0 or -ENOMEM. */
int egress_bindings_add(struct egress_bindings *b, const char *name, const struct ip_addr *a, uint64_t now_ns,
			uint32_t ttl_s);
/* The names that give a now, one per call; *cursor starts at 0. NULL at the end. */
const char *egress_bindings_name(const struct egress_bindings *b, const struct ip_addr *a, uint64_t now_ns,
				 uint32_t *cursor);
uint32_t egress_bindings_count(const struct egress_bindings *b);

#endif
