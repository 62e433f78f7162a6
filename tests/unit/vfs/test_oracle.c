/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same random calls on our tmpfs and on the host's, whose answers must agree: names, links,
 * renames with flags, trailing slashes, dots. Needs root for chroot(2) and a tmpfs at /dev/shm;
 * does nothing elsewhere.
 */
#include <ftw.h>
#include <grp.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/unit/vfs/fixture.h"

#define STEPS 60000

static uint64_t g_seed = 20240607;

static uint32_t rnd(uint32_t below)
{
	g_seed = g_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(g_seed >> 33) % below;
}

/* A path of one to four parts out of few names, so that they meet. */
static void random_path(char *out)
{
	static const char *const parts[] = {"a", "b", "c", "a", "b", "d", "..", ".", "l"};
	uint32_t n = 1 + rnd(4);

	out[0] = 0;
	if (rnd(4) == 0)
		strcat(out, "/");
	for (uint32_t i = 0; i < n; i++) {
		strcat(out, parts[rnd(9)]);
		if (i + 1 < n || rnd(8) == 0)
			strcat(out, rnd(10) ? "/" : "//");
	}
}

static long host(long r)
{
	return r < 0 ? -errno : 0;
}

/* openat2(2) refuses a mode where it means nothing. */
static uint32_t resolve_mode(uint64_t flags, uint32_t mode)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static long host_open(const char *p, uint64_t flags, uint32_t mode, uint64_t resolve)
{
	struct open_how how = {.flags = flags, .mode = resolve_mode(flags, mode),
			       .resolve = resolve};
	long fd;

	/* A rename anywhere on the host lets a scoped walk fail with this. */
	do
		fd = syscall(SYS_openat2, AT_FDCWD, p, &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN);
	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

static long our_open(const char *p, uint64_t flags, uint32_t mode, uint64_t resolve)
{
	struct open_how_k how = {.flags = flags, .mode = mode, .resolve = resolve};
	struct file *f = vfs_open(&g_ctx, NULL, p, &how);

	if (IS_ERR(f))
		return PTR_ERR(f);
	file_put(f);
	return 0;
}

static long compare_stat(const char *p, int follow, long *theirs)
{
	struct linux_stat st;
	struct stat hs;
	long ours = fix_lookup(p, follow ? LOOKUP_FOLLOW : 0, 0, &st);

	*theirs = host(follow ? stat(p, &hs) : lstat(p, &hs));
	if (!ours && !*theirs)
		ck_assert_msg(st.mode == hs.st_mode && st.nlink == hs.st_nlink &&
				      st.size == (int64_t)hs.st_size && st.uid == hs.st_uid && st.gid == hs.st_gid,
			      "stat %s: mode %o/%o nlink %lu/%lu size %ld/%ld", p, st.mode, hs.st_mode,
			      (unsigned long)st.nlink, (unsigned long)hs.st_nlink, (long)st.size,
			      (long)hs.st_size);
	return ours;
}

static int read_sysctl(const char *path)
{
	char c = '0';
	int fd = open(path, O_RDONLY);

	if (fd >= 0 && read(fd, &c, 1) != 1)
		c = '0';
	close(fd);
	return c == '1';
}

/* From here on both sides act as uid and gid `id`. */
static void become(uint32_t id)
{
	g_ctx.cred = id ? g_user : g_root;
	setfsgid(id);
	setfsuid(id); /* takes the filesystem capabilities away, or gives them back */
}

static long change_mode(const char *p, uint32_t mode, long *theirs)
{
	struct path at;
	long r = vfs_lookup(&g_ctx, NULL, p, LOOKUP_FOLLOW, &at);

	*theirs = host(chmod(p, mode));
	if (r)
		return r;
	r = vfs_chmod(&g_ctx, at, mode);
	path_put(at);
	return r;
}

static long change_owner(const char *p, uint32_t uid, uint32_t gid, long *theirs)
{
	struct path at;
	long r = vfs_lookup(&g_ctx, NULL, p, 0, &at);

	*theirs = host(lchown(p, uid, gid));
	if (r)
		return r;
	r = vfs_chown(&g_ctx, at, uid, gid);
	path_put(at);
	return r;
}

static long compare_readlink(const char *p, long *theirs)
{
	char a[300], b[300];
	ssize_t n = readlink(p, a, sizeof(a)), m;
	struct path at;
	long r = vfs_lookup(&g_ctx, NULL, p, 0, &at);

	*theirs = n < 0 ? -errno : n;
	if (r)
		return r;
	m = vfs_readlink(&g_ctx, at, b, sizeof(b));
	path_put(at);
	if (m > 0 && m == n)
		ck_assert(memcmp(a, b, (size_t)n) == 0);
	return m;
}

START_TEST(answers_agree_with_the_host)
{
	static const uint64_t open_flags[] = {
		O_RDONLY, O_WRONLY, O_RDWR | O_TRUNC, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW,
		O_CREAT | O_RDWR, O_CREAT | O_EXCL | O_WRONLY, O_CREAT | O_NOFOLLOW | O_RDWR, O_PATH,
		O_PATH | O_NOFOLLOW, O_PATH | O_DIRECTORY, O_TMPFILE | O_RDWR, O_CREAT | O_TRUNC | O_RDWR,
	};
	static const uint64_t resolves[] = {0, 0, 0, RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS};
	static const uint32_t ids[] = {0, 1000, -1u};
	static const uint32_t renames[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, 8};
	char dir[] = "/dev/shm/caisson-oracle-XXXXXX", a[64], b[64], where[200];
	char verdict[300] = "";
	struct statfs sf;
	/* Where protected_symlinks is off, sticky directories differ on purpose. */
	uint32_t modes = read_sysctl("/proc/sys/fs/protected_symlinks") ? 07777 : 06777;
	struct path cwd;
	int outside = open("/", O_RDONLY | O_DIRECTORY);

	if (geteuid() != 0 || statfs("/dev/shm", &sf) || sf.f_type != 0x01021994 || !mkdtemp(dir))
		return;
	if (chroot(dir) || chdir("/")) {
		rmdir(dir);
		return;
	}
	umask(022);
	setgroups(0, NULL);
	chmod("/", 0755);
	for (int i = 0; i < STEPS; i++) {
		long ours, theirs = 0;
		uint32_t op = rnd(16), k;

		random_path(a);
		random_path(b);
		become(rnd(3) ? 0 : 1000);
		snprintf(where, sizeof(where), "step %d op %u %s %s", i, op, a, b);
		switch (op) {
		case 0:
		case 1:
			ours = fix_mkdir(a);
			theirs = host(mkdir(a, 0755));
			break;
		case 2:
			ours = vfs_unlinkat(&g_ctx, NULL, a, 1);
			theirs = host(rmdir(a));
			break;
		case 3:
			ours = vfs_unlinkat(&g_ctx, NULL, a, 0);
			theirs = host(unlink(a));
			break;
		case 4:
			ours = fix_link(b, a);
			theirs = host(symlink(b, a));
			break;
		case 5:
			k = rnd(2);
			ours = vfs_linkat(&g_ctx, NULL, a, NULL, b, k ? LOOKUP_FOLLOW : 0);
			theirs = host(linkat(AT_FDCWD, a, AT_FDCWD, b, k ? AT_SYMLINK_FOLLOW : 0));
			break;
		case 6:
		case 7:
		case 8:
			k = rnd(6);
			ours = fix_rename(a, b, renames[k]);
			theirs = host(syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, renames[k]));
			break;
		case 9:
		case 10: {
			uint64_t fl = open_flags[rnd(13)], re = resolves[rnd(6)];

			if (!(fl & O_PATH))
				fl |= O_NONBLOCK; /* FIFOs */
			snprintf(where, sizeof(where), "step %d open %s %#lx resolve %#lx", i, a,
				 (unsigned long)fl, (unsigned long)re);
			ours = our_open(a, fl, 0644, re);
			theirs = host_open(a, fl, 0644, re);
			break;
		}
		case 11:
			ours = compare_stat(a, (int)rnd(2), &theirs);
			break;
		case 13:
			k = rnd(3) ? rnd(01000) | 0500 : (rnd(010000) | 0500) & modes;
			ours = change_mode(a, k, &theirs);
			break;
		case 14:
			k = rnd(3);
			ours = change_owner(a, ids[k], ids[rnd(3)], &theirs);
			break;
		case 12:
			ours = compare_readlink(a, &theirs);
			break;
		default:
			/* Moves the working directory, which may be removed later. */
			if (rnd(20)) {
				ours = vfs_mknodat(&g_ctx, NULL, a, S_IFIFO | 0644, 0);
				theirs = host(mknod(a, S_IFIFO | 0644, 0));
				break;
			}
			ours = vfs_lookup(&g_ctx, NULL, a, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &cwd);
			if (!ours) { /* what chdir(2) adds */
				ours = vfs_path_permission(cwd, MAY_EXEC, g_ctx.cred);
				if (ours)
					path_put(cwd);
			}
			theirs = host(chdir(a));
			if (!ours && !theirs) {
				path_put(g_ctx.cwd);
				g_ctx.cwd = cwd;
			}
		}
		if (ours != theirs) {
			snprintf(verdict, sizeof(verdict), "%s: ours %ld, the host's %ld", where, ours,
				 theirs);
			break;
		}
	}
	become(0);
	/* Out of the chroot again, to leave nothing behind. */
	if (fchdir(outside) || chroot("."))
		verdict[0] = '?';
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	ck_assert_msg(!verdict[0], "%s", verdict);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("oracle");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, fix_setup, fix_teardown);
	tcase_add_test(tc, answers_agree_with_the_host);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
