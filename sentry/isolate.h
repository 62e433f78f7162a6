/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry gives up what it was started with. First step, before the platform starts: empty
 * root directory, no capabilities, no_new_privs, limits. The last step, the syscall filter, is
 * sentry/filter.c.
 */
#ifndef CAISSON_ISOLATE_H
#define CAISSON_ISOLATE_H

#include "platform/base/bootconf.h"

/*
 * Called single-threaded, once. A layer that can not be had is an error unless an "allow_weaker"
 * key of the boot configuration names it ("mountns"). 0 or negative errno after logging why.
 */
int sentry_isolate(const struct bootconf *conf);

#endif
