/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's interfaces from the boot configuration. */
#ifndef CAISSON_NETBOOT_H
#define CAISSON_NETBOOT_H

#include "sentry/kernel.h"

/* 0, or an errno after logging which line was bad. */
int netboot(struct kernel *k);

#endif
