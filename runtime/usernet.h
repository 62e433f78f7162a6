/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `--network user`: the sandbox's link, addresses and published ports, and the network helper
 * (caisson-net, netstack/nat/) at the link's other end.
 */
#ifndef CAISSON_RUNTIME_USERNET_H
#define CAISSON_RUNTIME_USERNET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/base/bootconf.h"

struct cgroup;
struct launch;

/* The guest's side of it. */
#define USERNET_GUEST "10.0.2.15"
#define USERNET_GATE "10.0.2.2"
#define USERNET_DNS "10.0.2.3"
#define USERNET_GUEST6 "fd10:0:2::15"
#define USERNET_GATE6 "fd10:0:2::2"
#define USERNET_DNS6 "fd10:0:2::3"

/* --publish [HOSTIP:]HOSTPORT:GUESTPORT[/tcp|/udp]; an IPv6 HOSTIP stands in brackets. */
struct publish {
	const char *text; /* as written */
	char host[46];	  /* empty: all addresses */
	uint16_t host_port, guest_port; /* host_port 0: any, which is shown */
	int udp;
};
#define PUBLISH_MAX 32u

/* 0 or -EINVAL. */
int publish_parse(const char *text, struct publish *p);

struct usernet_options {
	const struct publish *publish;
	size_t publish_count;
	int host_loopback;
	const struct cgroup *cgroup;
	unsigned weaker;
	const char *log_level;
	int log_fd;
};

/*
 * Opens the published ports and starts the helper; adds the link to the sentry's configuration and fds.
 * The helper's pid. Ends the process with a clear line when a port can not be had.
 */
pid_t usernet_start(const struct usernet_options *o, struct bootconf *sentry_conf, struct launch *sentry);
/* Has the guest IPv6? The same answer for one process. */
int usernet_has_v6(void);

#endif
