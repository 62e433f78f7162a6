/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caisson-net gives up its rights: an empty root, no capabilities, limits. The runtime has put it into
 * user, mount, pid, ipc and uts namespaces of its own; the network namespace is the caller's, on whose
 * sockets it is to live, and in which its user namespace gives it no power. The filter comes last.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "netstack/nat/nat.h"
#include "platform/base/log.h"
#include "platform/host/confine.h"

#define FD_SPARE 64u
#define MEMORY_MAX (768ull << 20) /* of data; flows share it, and those without room fail */

static int weaker_allowed(const struct bootconf *conf)
{
	const char *v;
	size_t pos = 0;

	while ((v = bootconf_next(conf, "allow_weaker", &pos)))
		if (!strcmp(v, "mountns"))
			return 1;
	return 0;
}

int nat_isolate(const struct bootconf *conf)
{
	rlim_t fds = NAT_TCP_MAX + NAT_UDP_MAX + NAT_PING_MAX + NAT_DNS_MAX + NAT_PUBLISH_MAX + FD_SPARE;
	struct rlimit none = { 0, 0 }, r;
	int err = confine_root();

	if (err && !weaker_allowed(conf)) {
		log_error("no empty root directory for the network helper (%s); --allow-weaker=mountns goes on "
			  "without", strerror(-err));
		return err;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	err = confine_caps();
	if (err)
		return err;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_max = r.rlim_max < fds ? r.rlim_max : fds;
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	if (setrlimit(RLIMIT_CORE, &none))
		return -errno;
#ifndef __SANITIZE_ADDRESS__ /* whose shadow counts */
	r.rlim_cur = r.rlim_max = MEMORY_MAX;
	setrlimit(RLIMIT_DATA, &r);
#endif
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return 0;
}
