/* SPDX-License-Identifier: Apache-2.0 */
/* Writing control files, for cgroup.c (limits of `run`) and cgroup_oci.c (those of config.json). */
#include "runtime/cgroup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cgroup_write_text(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return -ENAMETOOLONG;
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int err = write(fd, text, strlen(text)) < 0 ? -errno : 0;

	close(fd);
	return err;
}

int cgroup_write_number(const char *dir, const char *name, int64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)v);
	return cgroup_write_text(dir, name, text);
}
