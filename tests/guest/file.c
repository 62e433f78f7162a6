/* SPDX-License-Identifier: Apache-2.0 */
/* Open, read, write and their positions; sizes; stat; modes, owners, times, access; memfd, seals. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>
#include <linux/openat2.h>
#include <linux/falloc.h>

#include "tests/lib/guest.h"

#ifndef RWF_APPEND
#define RWF_APPEND 0x10
#endif

static long openat2(int dirfd, const char *path, struct open_how *how, size_t size)
{
	return syscall(SYS_openat2, dirfd, path, how, size);
}

static void opening(void)
{
	struct open_how how = { .flags = O_RDONLY };
	int fd, d, p;
	char buf[4];

	CHECK_ERRNO("ENOENT", open("nothing", O_RDONLY), ENOENT);
	fd = open("a", O_CREAT | O_EXCL | O_RDWR, 0640);
	CHECK("create", fd >= 0);
	CHECK_ERRNO("EEXIST", open("a", O_CREAT | O_EXCL, 0600), EEXIST);
	CHECK_ERRNO("empty path", open("", O_RDONLY), ENOENT);
	CHECK_ERRNO("bad pointer", syscall(SYS_open, 1, O_RDONLY, 0), EFAULT);
	CHECK_ERRNO("not a directory", open("a/b", O_RDONLY), ENOTDIR);
	CHECK_ERRNO("O_DIRECTORY", open("a", O_DIRECTORY), ENOTDIR);
	CHECK_ERRNO("trailing slash", open("a/", O_RDONLY), ENOTDIR);
	mkdir("d", 0755);
	CHECK_ERRNO("write to a directory", open("d", O_RDWR), EISDIR);
	CHECK_ERRNO("read of a directory", read(open("d", O_RDONLY), buf, 1), EISDIR);
	symlink("a", "ln");
	CHECK_ERRNO("O_NOFOLLOW", open("ln", O_NOFOLLOW), ELOOP);
	symlink("loop2", "loop1");
	symlink("loop1", "loop2");
	CHECK_ERRNO("loop", open("loop1", O_RDONLY), ELOOP);
	CHECK("F_GETFL", (fcntl(fd, F_GETFL) & (O_ACCMODE | 0100000)) == (O_RDWR | 0100000));
	d = open("d", O_RDONLY | O_DIRECTORY);
	CHECK("openat", (p = openat(d, "../a", O_RDONLY)) >= 0);
	close(p);
	CHECK_ERRNO("openat bad dirfd", openat(9999, "a", O_RDONLY), EBADF);
	CHECK_ERRNO("openat file as directory", openat(fd, "a", O_RDONLY), ENOTDIR);
	p = open("a", O_PATH);
	CHECK_ERRNO("O_PATH: read", read(p, buf, 1), EBADF);
	CHECK_ERRNO("O_PATH: fchmod", fchmod(p, 0600), EBADF);
	CHECK("O_PATH: fstat", fstat(p, &(struct stat){ 0 }) == 0);
	close(p);
	p = open("ln", O_PATH | O_NOFOLLOW);
	CHECK("readlinkat of an O_PATH link", readlinkat(p, "", buf, 4) == 1 && buf[0] == 'a');
	close(p);
	p = open("d", O_TMPFILE | O_RDWR, 0600);
	CHECK("O_TMPFILE", p >= 0 || errno == EOPNOTSUPP);
	close(p);
	CHECK("openat2", (p = (int)openat2(AT_FDCWD, "a", &how, sizeof(how))) >= 0);
	close(p);
	how.flags = 1ull << 40;
	CHECK_ERRNO("openat2 unknown flag", openat2(AT_FDCWD, "a", &how, sizeof(how)), EINVAL);
	how.flags = 0;
	how.mode = 0600;
	CHECK_ERRNO("openat2 mode without O_CREAT", openat2(AT_FDCWD, "a", &how, sizeof(how)), EINVAL);
	how.mode = 0;
	how.resolve = RESOLVE_BENEATH;
	CHECK_ERRNO("RESOLVE_BENEATH", openat2(d, "../a", &how, sizeof(how)), EXDEV);
	how.resolve = RESOLVE_NO_SYMLINKS;
	CHECK_ERRNO("RESOLVE_NO_SYMLINKS", openat2(AT_FDCWD, "ln", &how, sizeof(how)), ELOOP);
	CHECK_ERRNO("openat2 size", openat2(AT_FDCWD, "a", &how, 8), EINVAL);
	close(d);
	close(fd);
}

static void transfer(void)
{
	int fd = open("t", O_CREAT | O_TRUNC | O_RDWR, 0600), ap;
	char buf[32] = "", *bad = (char *)8;
	struct iovec iov[2] = { { "abc", 3 }, { "defg", 4 } }, in[2] = { { buf, 2 }, { buf + 8, 10 } };

	CHECK("write", write(fd, "0123456789", 10) == 10);
	CHECK("lseek", lseek(fd, 2, SEEK_SET) == 2 && read(fd, buf, 3) == 3 && !memcmp(buf, "234", 3));
	CHECK("pread keeps the position", pread(fd, buf, 2, 8) == 2 && lseek(fd, 0, SEEK_CUR) == 5);
	CHECK("pwrite extends", pwrite(fd, "x", 1, 20) == 1 && lseek(fd, 0, SEEK_END) == 21);
	CHECK("hole reads zero", pread(fd, buf, 1, 15) == 1 && buf[0] == 0);
	CHECK("EOF", read(fd, buf, 5) == 0);
	CHECK("writev", writev(fd, iov, 2) == 7 && pread(fd, buf, 7, 21) == 7 && !memcmp(buf, "abcdefg", 7));
	CHECK("preadv", preadv(fd, in, 2, 21) == 7 && buf[0] == 'a' && buf[8] == 'c');
	CHECK("pwritev", pwritev(fd, iov, 2, 0) == 7);
	CHECK("preadv2 at -1", lseek(fd, 0, SEEK_SET) == 0 && preadv2(fd, in, 2, -1, 0) == 12 &&
				       lseek(fd, 0, SEEK_CUR) == 12);
	CHECK_ERRNO("RWF unknown", preadv2(fd, in, 2, 0, 0x4000), EOPNOTSUPP);
	CHECK("RWF_APPEND", pwritev2(fd, iov, 1, 0, RWF_APPEND) == 3 && lseek(fd, 0, SEEK_END) == 31);
	CHECK_ERRNO("negative offset", pread(fd, buf, 1, -1), EINVAL);
	CHECK_ERRNO("preadv negative", preadv(fd, in, 2, -2), EINVAL);
	CHECK_ERRNO("seek before the start", lseek(fd, -1, SEEK_SET), EINVAL);
	CHECK_ERRNO("whence", lseek(fd, 0, 9), EINVAL);
	CHECK_ERRNO("bad buffer", pread(fd, bad, 1, 0), EFAULT);
	CHECK_ERRNO("bad write buffer", pwrite(fd, bad, 1, 0), EFAULT);
	CHECK_ERRNO("too many iovecs", readv(fd, in, 1025), EINVAL);
	CHECK_ERRNO("bad iovec pointer", readv(fd, (void *)8, 1), EFAULT);
	CHECK("no iovecs", readv(fd, in, 0) == 0);
	CHECK("zero bytes", read(fd, bad, 0) == 0);
	ap = open("t", O_WRONLY | O_APPEND);
	CHECK("O_APPEND", pwrite(ap, "!", 1, 0) == 1 && lseek(fd, 0, SEEK_END) == 32);
	CHECK_ERRNO("read of a write-only fd", read(ap, buf, 1), EBADF);
	close(ap);
	CHECK("SEEK_DATA", lseek(fd, 0, SEEK_DATA) == 0);
	CHECK("SEEK_HOLE", lseek(fd, 0, SEEK_HOLE) >= 31);
	CHECK_ERRNO("SEEK_DATA past the end", lseek(fd, 100, SEEK_DATA), ENXIO);
	close(fd);
	CHECK_ERRNO("closed", read(fd, buf, 1), EBADF);
}

static volatile int g_xfsz;

static void on_xfsz(int s)
{
	(void)s;
	g_xfsz++;
}

static void sizes(void)
{
	int fd = open("s", O_CREAT | O_TRUNC | O_RDWR, 0600), st;
	struct stat sb;
	char c;

	write(fd, "abcdef", 6);
	CHECK("ftruncate", ftruncate(fd, 3) == 0 && fstat(fd, &sb) == 0 && sb.st_size == 3);
	CHECK("truncate", truncate("s", 100) == 0 && pread(fd, &c, 1, 50) == 1 && c == 0);
	CHECK_ERRNO("negative", truncate("s", -1), EINVAL);
	CHECK_ERRNO("directory", truncate("d", 0), EISDIR);
	CHECK("fallocate", fallocate(fd, 0, 0, 8192) == 0 && fstat(fd, &sb) == 0 && sb.st_size == 8192);
	CHECK("KEEP_SIZE", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 16384) == 0 && fstat(fd, &sb) == 0 &&
				   sb.st_size == 8192);
	CHECK_ERRNO("fallocate length 0", fallocate(fd, 0, 0, 0), EINVAL);
	CHECK_ERRNO("PUNCH without KEEP_SIZE", fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
	pwrite(fd, "x", 1, 10);
	CHECK("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 &&
			       pread(fd, &c, 1, 10) == 1 && c == 0);
	CHECK("fsync", fsync(fd) == 0 && fdatasync(fd) == 0 && syncfs(fd) == 0);
	CHECK("sync_file_range", sync_file_range(fd, 0, 10, 7) == 0);
	CHECK_ERRNO("its flags", sync_file_range(fd, 0, 10, 8), EINVAL);
	CHECK("fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED) == 0);
	CHECK("fadvise bad", posix_fadvise(fd, 0, 0, 77) == EINVAL);
	CHECK("readahead", readahead(fd, 0, 100) == 0);
	close(fd);
	if (fork() == 0) {
		struct rlimit rl = { 1000, 1000 };

		signal(SIGXFSZ, on_xfsz);
		setrlimit(RLIMIT_FSIZE, &rl);
		fd = open("lim", O_CREAT | O_TRUNC | O_RDWR, 0600);
		_exit(pwrite(fd, "0123456789", 10, 995) == 5 && pwrite(fd, "x", 1, 1000) == -1 &&
				      errno == EFBIG && g_xfsz == 1 && ftruncate(fd, 2000) == -1 &&
				      errno == EFBIG && g_xfsz == 2 ?
			      0 :
			      1);
	}
	wait(&st);
	CHECK("RLIMIT_FSIZE", st == 0);
}

static void attributes(void)
{
	struct stat sb, lb;
	struct statx stx;
	struct statfs sf;
	struct timespec ts[2] = { { 1000, 5 }, { 2000, 7 } };
	struct timeval tv[2] = { { 3000, 1 }, { 4000, 2 } };
	struct utimbuf ub = { 5000, 6000 };
	int fd = open("m", O_CREAT | O_TRUNC | O_RDWR, 0666);

	umask(027);
	CHECK("umask", umask(022) == 027);
	CHECK("chmod", chmod("m", 04751) == 0 && stat("m", &sb) == 0 && (sb.st_mode & 07777) == 04751);
	CHECK("fchmod", fchmod(fd, 0600) == 0 && fstat(fd, &sb) == 0 && (sb.st_mode & 07777) == 0600);
	CHECK("fchmodat2 flags", syscall(452, AT_FDCWD, "m", 0644, 0x4000) == -1 && errno == EINVAL);
	symlink("m", "ml");
	CHECK("lstat", lstat("ml", &lb) == 0 && S_ISLNK(lb.st_mode) && lb.st_size == 1);
	CHECK("stat follows", stat("ml", &lb) == 0 && lb.st_ino == sb.st_ino);
	CHECK("fstatat empty", fstatat(fd, "", &lb, AT_EMPTY_PATH) == 0 && lb.st_ino == sb.st_ino);
	CHECK_ERRNO("fstatat empty without the flag", fstatat(fd, "", &lb, 0), ENOENT);
	CHECK_ERRNO("fstatat flags", fstatat(AT_FDCWD, "m", &lb, 0x10), EINVAL);
	CHECK_ERRNO("stat bad buffer", syscall(SYS_stat, "m", 8), EFAULT);
	CHECK("statx", statx(AT_FDCWD, "m", 0, STATX_ALL, &stx) == 0 && stx.stx_ino == sb.st_ino &&
			       (stx.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
	CHECK_ERRNO("statx reserved mask", statx(AT_FDCWD, "m", 0, 0x80000000u, &stx), EINVAL);
	CHECK_ERRNO("statx sync flags", statx(AT_FDCWD, "m", 0x6000, STATX_ALL, &stx), EINVAL);
	CHECK("statfs", statfs(".", &sf) == 0 && sf.f_bsize > 0 && fstatfs(fd, &sf) == 0);
	CHECK("utimensat", utimensat(AT_FDCWD, "m", ts, 0) == 0 && stat("m", &sb) == 0 &&
				   sb.st_atim.tv_sec == 1000 && sb.st_mtim.tv_nsec == 7);
	ts[0].tv_nsec = UTIME_OMIT;
	ts[1].tv_nsec = UTIME_NOW;
	CHECK("OMIT and NOW", futimens(fd, ts) == 0 && fstat(fd, &sb) == 0 && sb.st_atim.tv_sec == 1000 &&
				      sb.st_mtim.tv_sec > 100000);
	ts[1].tv_nsec = 1000000000;
	CHECK_ERRNO("bad nsec", futimens(fd, ts), EINVAL);
	CHECK("utimes", utimes("m", tv) == 0 && stat("m", &sb) == 0 && sb.st_mtim.tv_nsec == 2000);
	CHECK("utime", utime("m", &ub) == 0 && stat("m", &sb) == 0 && sb.st_mtim.tv_sec == 6000);
	CHECK("access", access("m", R_OK | W_OK) == 0 && access("m", F_OK) == 0);
	CHECK_ERRNO("access mode", access("m", 8), EINVAL);
	if (getuid() == 0) {
		CHECK_ERRNO("root needs an x bit", access("m", X_OK), EACCES);
		CHECK("chown", chown("m", 12, 34) == 0 && stat("m", &sb) == 0 && sb.st_uid == 12 &&
				       sb.st_gid == 34);
		CHECK("chown one", fchown(fd, -1, 35) == 0 && fstat(fd, &sb) == 0 && sb.st_uid == 12 &&
					   sb.st_gid == 35);
		CHECK("lchown", lchown("ml", 1, 2) == 0 && lstat("ml", &sb) == 0 && sb.st_uid == 1);
		chmod("m", 06755);
		CHECK("chown strips set-id", chown("m", 0, 0) == 0 && stat("m", &sb) == 0 &&
						     (sb.st_mode & 07777) == 0755);
	}
	CHECK_ERRNO("fchownat flags", fchownat(AT_FDCWD, "m", 0, 0, 1), EINVAL);
	close(fd);
}

static void memory_files(void)
{
	int fd = memfd_create("name", MFD_ALLOW_SEALING | MFD_CLOEXEC), e;
	char link[64] = "", path[64], *p;

	CHECK("memfd_create", fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readlink(path, link, 63);
	CHECK("its name", strcmp(link, "/memfd:name (deleted)") == 0);
	ftruncate(fd, 4096);
	CHECK("no seals yet", fcntl(fd, F_GET_SEALS) == 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_ERRNO("WRITE seal while mapped writable", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
	munmap(p, 4096);
	CHECK("SHRINK GROW", fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	CHECK_ERRNO("shrink", ftruncate(fd, 10), EPERM);
	CHECK_ERRNO("grow", ftruncate(fd, 10000), EPERM);
	CHECK("write still goes", pwrite(fd, "x", 1, 0) == 1);
	CHECK("WRITE", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	CHECK_ERRNO("write", pwrite(fd, "x", 1, 0), EPERM);
	CHECK_ERRNO("writable mapping", mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), EPERM);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK("read-only mapping", p != MAP_FAILED && p[0] == 'x');
	CHECK("SEAL", fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0);
	CHECK_ERRNO("sealed", fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), EPERM);
	CHECK_ERRNO("unknown seal", fcntl(fd, F_ADD_SEALS, 0x1000), EINVAL);
	close(fd);
	fd = memfd_create("plain", 0);
	CHECK_ERRNO("without ALLOW_SEALING", fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), EPERM);
	close(fd);
	CHECK_ERRNO("unknown flags", memfd_create("x", 0x1000), EINVAL);
	fd = open("a", O_RDWR);
	e = fcntl(fd, F_GET_SEALS);
	CHECK("seals of another file", (e == -1 && errno == EINVAL) || e == F_SEAL_SEAL);
	close(fd);
}

int main(void)
{
	char dir[] = "file_test_XXXXXX";

	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	umask(022);
	opening();
	transfer();
	sizes();
	attributes();
	memory_files();
	return guest_done();
}
