/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and names: getdents, mkdir, rename in all forms, links, cwd, chroot. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
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

static int count_entries(const char *dir, int *dots)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	*dots = 0;
	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			(*dots)++;
		else
			n++;
	}
	if (d)
		closedir(d);
	return n;
}

static void making(void)
{
	struct stat sb;
	char path[400];

	CHECK("mkdir", mkdir("d", 0777) == 0 && stat("d", &sb) == 0 && (sb.st_mode & 07777) == 0755);
	CHECK("nlink of a new directory", sb.st_nlink == 2 || sb.st_nlink == 1);
	CHECK_ERRNO("EEXIST", mkdir("d", 0777), EEXIST);
	CHECK_ERRNO("missing parent", mkdir("x/y", 0777), ENOENT);
	CHECK("trailing slash", mkdir("e/", 0777) == 0);
	CHECK_ERRNO("rmdir .", rmdir("d/."), EINVAL);
	CHECK_ERRNO("rmdir ..", rmdir("d/.."), ENOTEMPTY);
	touch("d/f");
	CHECK_ERRNO("not empty", rmdir("d"), ENOTEMPTY);
	CHECK_ERRNO("rmdir of a file", rmdir("d/f"), ENOTDIR);
	CHECK_ERRNO("unlink of a directory", unlink("e"), EISDIR);
	CHECK("unlinkat", unlinkat(AT_FDCWD, "e", AT_REMOVEDIR) == 0 && !exists("e"));
	CHECK_ERRNO("unlinkat flags", unlinkat(AT_FDCWD, "d", 1), EINVAL);
	memset(path, 'n', 256);
	path[256] = 0;
	CHECK_ERRNO("long name", mkdir(path, 0777), ENAMETOOLONG);
	path[255] = 0;
	CHECK("longest name", mkdir(path, 0777) == 0 && rmdir(path) == 0);
	CHECK("mkdirat", mkdirat(AT_FDCWD, "e", 01777) == 0 && stat("e", &sb) == 0 &&
				 (sb.st_mode & 07777) == 01755);
}

static void reading(void)
{
	char name[32], buf[8192];
	int dots, fd, n, total = 0;

	mkdir("many", 0755);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "many/file%d", i);
		touch(name);
	}
	CHECK("readdir", count_entries("many", &dots) == 500 && dots == 2);
	fd = open("many", O_RDONLY);
	CHECK_ERRNO("too small a buffer", syscall(SYS_getdents64, fd, buf, 8), EINVAL);
	while ((n = (int)syscall(SYS_getdents64, fd, buf, 200)) > 0) {
		for (int at = 0; at < n;) {
			struct dirent64 *e = (struct dirent64 *)(buf + at);

			total++;
			at += e->d_reclen;
		}
	}
	CHECK("small buffers", n == 0 && total == 502);
	CHECK("rewind", lseek(fd, 0, SEEK_SET) == 0 && syscall(SYS_getdents64, fd, buf, 8192) > 0);
	CHECK("old getdents", lseek(fd, 0, SEEK_SET) == 0 && syscall(SYS_getdents, fd, buf, 8192) > 0);
	CHECK_ERRNO("bad buffer", (lseek(fd, 0, SEEK_SET), syscall(SYS_getdents64, fd, 8, 8192)), EFAULT);
	close(fd);
	fd = open("d/f", O_RDONLY);
	CHECK_ERRNO("of a file", syscall(SYS_getdents64, fd, buf, 8192), ENOTDIR);
	close(fd);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "many/file%d", i);
		unlink(name);
	}
	fd = open("many", O_RDONLY);
	rmdir("many");
	CHECK_ERRNO("of a removed directory", syscall(SYS_getdents64, fd, buf, 8192), ENOENT);
	CHECK_ERRNO("create in it", openat(fd, "x", O_CREAT | O_WRONLY, 0600), ENOENT);
	close(fd);
}

static int renameat2_(const char *a, const char *b, unsigned int flags)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags);
}

static void renaming(void)
{
	struct stat a, b;

	touch("r1");
	stat("r1", &a);
	CHECK("rename", rename("r1", "r2") == 0 && !exists("r1") && stat("r2", &b) == 0 &&
				a.st_ino == b.st_ino);
	touch("r1");
	CHECK("over a file", rename("r2", "r1") == 0 && stat("r1", &b) == 0 && a.st_ino == b.st_ino);
	CHECK_ERRNO("missing", rename("r2", "r3"), ENOENT);
	mkdir("rd", 0755);
	mkdir("rd/sub", 0755);
	CHECK_ERRNO("file over directory", rename("r1", "rd"), EISDIR);
	CHECK_ERRNO("directory over file", rename("rd", "r1"), ENOTDIR);
	CHECK_ERRNO("into itself", rename("rd", "rd/sub/x"), EINVAL);
	mkdir("rd2", 0755);
	CHECK("over an empty directory", rename("rd", "rd2") == 0 && exists("rd2/sub"));
	mkdir("rd", 0755);
	CHECK_ERRNO("over a full one", rename("rd", "rd2"), ENOTEMPTY);
	CHECK("to itself", rename("r1", "r1") == 0 && exists("r1"));
	touch("r2");
	CHECK_ERRNO("NOREPLACE", renameat2_("r1", "r2", RENAME_NOREPLACE), EEXIST);
	CHECK("EXCHANGE", renameat2_("r1", "rd2", RENAME_EXCHANGE) == 0 && exists("r1/sub") &&
				  stat("rd2", &b) == 0 && S_ISREG(b.st_mode));
	CHECK_ERRNO("EXCHANGE with nothing", renameat2_("r1", "none", RENAME_EXCHANGE), ENOENT);
	CHECK_ERRNO("both flags", renameat2_("r1", "r2", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
	CHECK_ERRNO("unknown flag", renameat2_("r1", "r2", 8), EINVAL);
	CHECK_ERRNO("of .", rename("d/.", "x"), EBUSY);
}

static void links(void)
{
	struct stat sb;
	char buf[16];
	int fd;

	touch("l1");
	CHECK("link", link("l1", "l2") == 0 && stat("l2", &sb) == 0 && sb.st_nlink == 2);
	CHECK_ERRNO("link exists", link("l1", "l2"), EEXIST);
	CHECK_ERRNO("link of a directory", link("d", "dl"), EPERM);
	CHECK("symlink", symlink("l1", "sl") == 0 && readlink("sl", buf, 16) == 2);
	CHECK("readlink cuts", readlink("sl", buf, 1) == 1);
	CHECK_ERRNO("readlink size 0", syscall(SYS_readlink, "sl", buf, 0), EINVAL);
	CHECK_ERRNO("readlink of a file", readlink("l1", buf, 16), EINVAL);
	CHECK_ERRNO("empty target", symlink("", "sx"), ENOENT);
	CHECK("link does not follow", link("sl", "sl2") == 0 && lstat("sl2", &sb) == 0 &&
					      S_ISLNK(sb.st_mode));
	CHECK("linkat follows when asked", linkat(AT_FDCWD, "sl", AT_FDCWD, "sl3", AT_SYMLINK_FOLLOW) == 0 &&
						   lstat("sl3", &sb) == 0 && S_ISREG(sb.st_mode));
	CHECK_ERRNO("linkat flags", linkat(AT_FDCWD, "l1", AT_FDCWD, "lx", 1), EINVAL);
	CHECK("unlink leaves the other name", unlink("l1") == 0 && stat("l2", &sb) == 0);
	fd = open("l2", O_RDWR);
	unlink("l2");
	unlink("sl3");
	CHECK("an open file outlives its name", write(fd, "x", 1) == 1 && fstat(fd, &sb) == 0 &&
							sb.st_nlink == 0);
	close(fd);
	CHECK("mkfifo", mkfifo("fifo", 0600) == 0 && stat("fifo", &sb) == 0 && S_ISFIFO(sb.st_mode));
	CHECK("mknod regular", mknod("reg", 0644, 0) == 0 && stat("reg", &sb) == 0 && S_ISREG(sb.st_mode));
	CHECK_ERRNO("mknod directory", mknod("nd", S_IFDIR | 0755, 0), EPERM);
	CHECK_ERRNO("mknod type", mknod("nd", 0170000, 0), EINVAL);
}

static void working_directory(const char *base)
{
	char buf[4096], want[4096];
	int fd, st;

	getcwd(want, sizeof(want));
	mkdir("w", 0755);
	CHECK("chdir", chdir("w") == 0 && getcwd(buf, 4096) && strncmp(buf, want, strlen(want)) == 0);
	CHECK_ERRNO("getcwd too small", syscall(SYS_getcwd, buf, 2), ERANGE);
	CHECK("its length", syscall(SYS_getcwd, buf, 4096) == (long)strlen(buf) + 1);
	CHECK("chdir ..", chdir("..") == 0);
	CHECK_ERRNO("chdir to a file", chdir("reg"), ENOTDIR);
	fd = open("w", O_RDONLY);
	CHECK("fchdir", fchdir(fd) == 0);
	chdir("..");
	rmdir("w");
	CHECK("fchdir to a removed one", fchdir(fd) == 0);
	CHECK_ERRNO("getcwd there", syscall(SYS_getcwd, buf, 4096), ENOENT);
	CHECK("and back", chdir(want) == 0);
	close(fd);
	fd = open("reg", O_RDONLY);
	CHECK_ERRNO("fchdir to a file", fchdir(fd), ENOTDIR);
	close(fd);
	(void)base;
	if (getuid() != 0)
		return;
	if (fork() == 0) {
		if (chroot("d") || chdir("/"))
			_exit(1);
		_exit(getcwd(buf, 4096) && strcmp(buf, "/") == 0 && exists("/f") && exists("/../f") ? 0 : 2);
	}
	wait(&st);
	CHECK("chroot", st == 0);
	if (fork() == 0) {
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		_exit(chroot("/") == -1 && errno == EPERM ? 0 : 1);
	}
	wait(&st);
	CHECK("chroot needs a capability", st == 0);
}

int main(void)
{
	char dir[] = "dir_test_XXXXXX";

	umask(022);
	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	chmod(".", 0755);
	making();
	reading();
	renaming();
	links();
	working_directory(dir);
	return guest_done();
}
