/* SPDX-License-Identifier: Apache-2.0 */
/* mount, umount2, pivot_root in a mount namespace of its own; needs CAP_SYS_ADMIN. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static int touch(const char *name)
{
	return close(open(name, O_CREAT | O_WRONLY, 0644));
}

static int exists(const char *name)
{
	return access(name, F_OK) == 0;
}

static int in_mounts(const char *what)
{
	char line[1024];
	FILE *f = fopen("/proc/self/mountinfo", "r");
	int found = 0;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, what) != NULL;
	if (f)
		fclose(f);
	return found;
}

static void tmpfs_mounts(void)
{
	struct statfs sf;
	int fd;

	mkdir("m", 0755);
	touch("m/under");
	CHECK("tmpfs", mount("none", "m", "tmpfs", MS_NOSUID, "size=1m,mode=0700") == 0 && !exists("m/under"));
	CHECK("in mountinfo", in_mounts("/m "));
	CHECK("statfs", statfs("m", &sf) == 0 && sf.f_type == 0x01021994 &&
				sf.f_blocks * (unsigned long)sf.f_bsize == 1 << 20);
	touch("m/x");
	fd = open("m/x", O_RDONLY);
	CHECK_ERRNO("busy", umount2("m", 0), EBUSY);
	CHECK_ERRNO("rmdir of a mount point", rmdir("m"), EBUSY);
	CHECK("remount read-only", mount(NULL, "m", NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL) == 0);
	CHECK_ERRNO("is read-only", open("m/y", O_CREAT | O_WRONLY, 0600), EROFS);
	CHECK("detach while busy", umount2("m", MNT_DETACH) == 0 && exists("m/under"));
	close(fd);
	CHECK_ERRNO("not a mount point", umount2("m", 0), EINVAL);
	CHECK_ERRNO("bad flags", umount2("m", 0x100), EINVAL);
	CHECK_ERRNO("unknown type", mount("none", "m", "nosuchfs", 0, NULL), ENODEV);
	CHECK_ERRNO("bad option", mount("none", "m", "tmpfs", 0, "bogus=1"), EINVAL);
	CHECK_ERRNO("missing target", mount("none", "none", "tmpfs", 0, NULL), ENOENT);
	CHECK_ERRNO("target is a file", mount("none", "m/under", "tmpfs", 0, NULL), ENOTDIR);
	CHECK_ERRNO("bad pointer", mount("none", (char *)8, "tmpfs", 0, NULL), EFAULT);
}

static void binds(void)
{
	mkdir("b1", 0755);
	mkdir("b2", 0755);
	touch("b1/f");
	CHECK("bind", mount("b1", "b2", NULL, MS_BIND, NULL) == 0 && exists("b2/f"));
	touch("b2/g");
	CHECK("the same files", exists("b1/g"));
	CHECK("read-only bind", mount(NULL, "b2", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
	CHECK_ERRNO("writes fail there", open("b2/h", O_CREAT | O_WRONLY, 0600), EROFS);
	CHECK("but not here", touch("b1/h") == 0);
	CHECK("umount", umount2("b2", 0) == 0 && !exists("b2/f"));
	touch("file");
	touch("target");
	CHECK("bind of a file", mount("file", "target", NULL, MS_BIND, NULL) == 0);
	CHECK("umount of it", umount2("target", 0) == 0);
	CHECK_ERRNO("directory on a file", mount("b1", "target", NULL, MS_BIND, NULL), ENOTDIR);
	mount("none", "b1", "tmpfs", 0, NULL);
	mkdir("b1/sub", 0755);
	mount("none", "b1/sub", "tmpfs", 0, NULL);
	touch("b1/sub/deep");
	CHECK("bind without REC", mount("b1", "b2", NULL, MS_BIND, NULL) == 0 && !exists("b2/sub/deep"));
	umount2("b2", 0);
	CHECK("with REC", mount("b1", "b2", NULL, MS_BIND | MS_REC, NULL) == 0 && exists("b2/sub/deep"));
	umount2("b2", MNT_DETACH);
	mkdir("b3", 0755);
	CHECK("move", mount("b1", "b3", NULL, MS_MOVE, NULL) == 0 && exists("b3/sub/deep") && !exists("b1/sub"));
	CHECK("EXPIRE", umount2("b3/sub", MNT_EXPIRE) == -1 && errno == EAGAIN &&
				umount2("b3/sub", MNT_EXPIRE) == 0);
	umount2("b3", 0);
}

static void propagation(void)
{
	mkdir("s", 0755);
	mkdir("t", 0755);
	mount("none", "s", "tmpfs", 0, NULL);
	mkdir("s/x", 0755);
	CHECK("make shared", mount(NULL, "s", NULL, MS_SHARED, NULL) == 0 && in_mounts("shared:"));
	mount("s", "t", NULL, MS_BIND, NULL);
	mount("none", "s/x", "tmpfs", 0, NULL);
	touch("s/x/seen");
	CHECK("propagates", exists("t/x/seen"));
	CHECK("unmount propagates", umount2("t/x", 0) == 0 && !exists("s/x/seen"));
	CHECK("make private", mount(NULL, "t", NULL, MS_PRIVATE, NULL) == 0);
	mount("none", "s/x", "tmpfs", 0, NULL);
	touch("s/x/seen");
	CHECK("no more", !exists("t/x/seen"));
	umount2("s/x", 0);
	CHECK("unbindable", mount(NULL, "s", NULL, MS_UNBINDABLE, NULL) == 0);
	mkdir("u", 0755);
	CHECK_ERRNO("can not be bound", mount("s", "u", NULL, MS_BIND, NULL), EINVAL);
	umount2("t", 0);
	umount2("s", 0);
}

static void pivot(void)
{
	int st;

	if (fork() == 0) {
		mkdir("root", 0755);
		if (unshare(CLONE_NEWNS) || mount("none", "root", "tmpfs", 0, NULL))
			_exit(1);
		mkdir("root/old", 0755);
		touch("root/marker");
		if (syscall(SYS_pivot_root, "root", "root/old") || chdir("/"))
			_exit(2);
		if (!exists("/marker") || !exists("/old/proc"))
			_exit(3);
		if (umount2("/old", MNT_DETACH))
			_exit(4);
		_exit(exists("/old/proc") ? 5 : 0);
	}
	wait(&st);
	CHECK("pivot_root", st == 0);
	CHECK_ERRNO("of no mount point", syscall(SYS_pivot_root, "/usr", "/usr"), EBUSY);
	if (fork() == 0) {
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		_exit(mount("none", "b1", "tmpfs", 0, NULL) == -1 && errno == EPERM &&
				      umount2("b1", 0) == -1 && errno == EPERM ?
			      0 :
			      2);
	}
	wait(&st);
	CHECK("needs privilege", st == 0);
}

int main(void)
{
	char dir[] = "mount_test_XXXXXX";

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	chmod(".", 0755);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		printf("ok no privilege to mount here\n");
		return guest_done();
	}
	tmpfs_mounts();
	binds();
	propagation();
	pivot();
	return guest_done();
}
