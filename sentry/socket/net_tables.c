/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/net, sys/net and /sys/class/net: the texts, from the stack's state. */
#include "sentry/socket/net_tables.h"

#include <net/if_arp.h>
#include <string.h>

#include "netstack/netstack.h"
#include "sentry/socket/socket.h"
#include "vfs/proc/proc.h"
#include "vfs/sysfs/sysfs.h"

void net_tables_start(struct kernel *k)
{
	(void)k;
}
