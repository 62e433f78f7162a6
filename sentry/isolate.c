/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Isolation of the sentry process itself. The runtime has already put it into namespaces of its
 * own; here it loses the file tree and every capability. Stub processes are made afterwards and
 * inherit all of it.
 */
#include "sentry/isolate.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/log.h"

static int weaker_allowed(const struct bootconf *conf, const char *layer)
{
	size_t pos = 0;
	const char *v;

	while ((v = bootconf_next(conf, "allow_weaker", &pos)))
		if (!strcmp(v, layer))
			return 1;
	return 0;
}

/* An empty, read-only tmpfs becomes the root; the host's tree is detached.
 * #hostcalls: mount pivot_root umount2 chdir */
static int empty_root(void)
{
	static const char *const places[] = { "/tmp", "/mnt", "/dev", "/proc", "/usr" };
	size_t i;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -errno;
	for (i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (mount("empty", places[i], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			  "size=4k,nr_inodes=2,mode=0") == 0)
			break;
	if (i == sizeof(places) / sizeof(*places))
		return -errno;
	if (chdir(places[i]) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
	    umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
		return -errno;
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  NULL) != 0)
		return -errno;
	return 0;
}

/* #hostcalls: prctl capset */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) != 0 && errno != EPERM)
			return -errno;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &h, none) != 0)
		return -errno;
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
	int err = empty_root();

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
	err = drop_capabilities();
	if (err) {
		log_error("dropping capabilities: %s", strerror(-err));
		return err;
	}
	set_limits();
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return 0;
}
