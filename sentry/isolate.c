/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Isolation of the sentry process itself. The runtime has already put it into namespaces of its
 * own; here it loses the file tree and every capability. Stub processes are made afterwards and
 * inherit all of it.
 */
#include "sentry/isolate.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "platform/base/log.h"
#include "platform/host/confine.h"

static int weaker_allowed(const struct bootconf *conf, const char *layer)
{
	size_t pos = 0;
	const char *v;

	while ((v = bootconf_next(conf, "allow_weaker", &pos)))
		if (!strcmp(v, layer))
			return 1;
	return 0;
}

static void set_limits(void)
{
	struct rlimit r, core = { 0, 0 };

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	setrlimit(RLIMIT_CORE, &core);
}

int sentry_isolate(const struct bootconf *conf)
{
	int err = confine_root();

	if (err && !weaker_allowed(conf, "mountns")) {
		log_error("no empty root directory for the sentry (%s); --allow-weaker=mountns goes on "
			  "without",
			  strerror(-err));
		return err;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		err = -errno;
		log_error("no_new_privs: %s", strerror(-err));
		return err;
	}
	err = confine_caps();
	if (err) {
		log_error("dropping capabilities: %s", strerror(-err));
		return err;
	}
	set_limits();
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return 0;
}
