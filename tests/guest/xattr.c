/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: set, get, list, remove by path, link and descriptor; limits and names. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static char g_big[70000];

/* Is name in the list? */
static int listed(const char *path, const char *name)
{
	char list[4096];
	ssize_t n = listxattr(path, list, sizeof(list));

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1) {
		if (strcmp(list + at, name) == 0)
			return 1;
	}
	return 0;
}

int main(void)
{
	char dir[] = "xattr_test_XXXXXX", buf[256], name[300];
	int fd, st, trusted = getuid() == 0;

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	fd = open("f", O_CREAT | O_RDWR, 0644);
	symlink("f", "l");
	if (setxattr("f", "user.probe", "x", 1, 0) && errno == EOPNOTSUPP) {
		printf("ok no xattrs on this filesystem\n");
		return guest_done();
	}
	CHECK("set", setxattr("f", "user.a", "value", 5, 0) == 0);
	CHECK("get", getxattr("f", "user.a", buf, 256) == 5 && !memcmp(buf, "value", 5));
	CHECK("size", getxattr("f", "user.a", NULL, 0) == 5);
	CHECK_ERRNO("too small", getxattr("f", "user.a", buf, 4), ERANGE);
	CHECK_ERRNO("missing", getxattr("f", "user.none", buf, 4), ENODATA);
	CHECK_ERRNO("CREATE of an existing one", setxattr("f", "user.a", "v", 1, XATTR_CREATE), EEXIST);
	CHECK_ERRNO("REPLACE of a missing one", setxattr("f", "user.b", "v", 1, XATTR_REPLACE), ENODATA);
	CHECK("REPLACE", setxattr("f", "user.a", "vv", 2, XATTR_REPLACE) == 0 &&
				 getxattr("f", "user.a", buf, 256) == 2);
	CHECK_ERRNO("flags", setxattr("f", "user.a", "v", 1, 8), EINVAL);
	CHECK("empty value", setxattr("f", "user.e", "", 0, 0) == 0 && getxattr("f", "user.e", buf, 9) == 0);
	CHECK("list", listed("f", "user.a") && listed("f", "user.e"));
	CHECK("through a link", getxattr("l", "user.a", buf, 256) == 2);
	CHECK_ERRNO("not of the link", lgetxattr("l", "user.a", buf, 256), ENODATA);
	CHECK_ERRNO("user.* on a link", lsetxattr("l", "user.a", "x", 1, 0), EPERM);
	CHECK("by fd", fsetxattr(fd, "user.fd", "1", 1, 0) == 0 && fgetxattr(fd, "user.fd", buf, 9) == 1 &&
			       flistxattr(fd, NULL, 0) > 0 && fremovexattr(fd, "user.fd") == 0);
	CHECK_ERRNO("removed", fgetxattr(fd, "user.fd", buf, 9), ENODATA);
	CHECK("remove", removexattr("f", "user.e") == 0 && !listed("f", "user.e"));
	CHECK_ERRNO("remove again", removexattr("f", "user.e"), ENODATA);
	CHECK_ERRNO("empty name", setxattr("f", "", "x", 1, 0), ERANGE);
	memset(name, 'n', 299);
	memcpy(name, "user.", 5);
	name[299] = 0;
	CHECK_ERRNO("long name", setxattr("f", name, "x", 1, 0), ERANGE);
	CHECK_ERRNO("no namespace", setxattr("f", "plain", "x", 1, 0), EOPNOTSUPP);
	CHECK_ERRNO("huge value", setxattr("f", "user.big", g_big, 65537, 0), E2BIG);
	CHECK_ERRNO("missing file", setxattr("none", "user.a", "x", 1, 0), ENOENT);
	CHECK_ERRNO("bad fd", fgetxattr(999, "user.a", buf, 9), EBADF);
	CHECK_ERRNO("bad name pointer", getxattr("f", (char *)8, buf, 9), EFAULT);
	CHECK_ERRNO("bad value pointer", setxattr("f", "user.a", (char *)8, 9, 0), EFAULT);
	if (trusted) {
		CHECK("trusted.*", setxattr("f", "trusted.t", "x", 1, 0) == 0 && listed("f", "trusted.t"));
		chmod(".", 0755);
		if (fork() == 0) {
			if (setresuid(65534, 65534, 65534))
				_exit(9);
			if (setxattr("f", "trusted.u", "x", 1, 0) != -1 || errno != EPERM)
				_exit(1);
			if (setxattr("f", "user.u", "x", 1, 0) != -1 || errno != EACCES)
				_exit(2);
			if (getxattr("f", "user.a", buf, 9) != 2 || listed("f", "trusted.t"))
				_exit(3);
			_exit(0);
		}
		wait(&st);
		CHECK("another user", st == 0);
	}
	close(fd);
	return guest_done();
}
