/* SPDX-License-Identifier: Apache-2.0 */
/* The network's tables in /proc/net, /proc/sys/net and /sys/class/net. */
#ifndef CAISSON_NET_TABLES_H
#define CAISSON_NET_TABLES_H

#include "sentry/kernel.h"

/* Tells proc and sysfs where to ask. Before the first mount. */
void net_tables_start(struct kernel *k);

#endif
