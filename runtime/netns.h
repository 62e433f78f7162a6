/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over a network namespace for a sandbox (--network netns, and the namespace of an OCI
 * config): its interfaces' addresses, routes and neighbours are written into the sentry's boot
 * configuration and removed from the host's stack, so that only the sandbox answers; frames go
 * through one packet socket per interface, opened here and handed to the sentry.
 */
#ifndef CAISSON_RUNTIME_NETNS_H
#define CAISSON_RUNTIME_NETNS_H

#include "platform/base/bootconf.h"
#include "runtime/launch.h"

struct netns_kept;

/* The first fd number of packet sockets in the sentry. */
#define SENTRY_FD_NIC 16

/*
 * Adopts the network namespace `netns` (an fd; -1: the one this thread is in). Keys are added to
 * conf, sockets to l. Returns how many interfaces there were; ends the process with a clear line
 * when it can not be done. The caller's namespace is the same afterwards. With kept (and netns >= 0)
 * *kept is what netns_restore() needs.
 */
int netns_adopt(int netns, struct bootconf *conf, struct launch *l, struct netns_kept **kept);

/* The sandbox is gone: the namespace gets back what was taken. Consumes k, which may be NULL. */
void netns_restore(struct netns_kept *k);

#endif
