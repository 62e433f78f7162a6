/* SPDX-License-Identifier: Apache-2.0 */
/* What sentry and network helper give up alike: see confine.h. */
#include "platform/host/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An empty, read-only tmpfs becomes the root; the host's tree is detached.
 * #hostcalls: mount pivot_root umount2 chdir */
int confine_root(void)
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
int confine_caps(void)
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
