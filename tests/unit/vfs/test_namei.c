/* SPDX-License-Identifier: Apache-2.0 */
/* The path walk: tables of paths and what Linux answers. */
#include <linux/fs.h>
#include <linux/openat2.h>

#include "tests/unit/vfs/fixture.h"

/*
 * /d/sub/f  /d/l -> sub  /d/abs -> /d/sub  /f  /loop1 <-> /loop2  /dang -> nowhere
 * /up -> d/../d/sub  /slash -> d/sub/  /tofile -> f  /closed (0700, root)
 */
static void tree(void)
{
	fix_setup();
	ck_assert_int_eq(fix_mkdir("/d"), 0);
	ck_assert_int_eq(fix_mkdir("/d/sub"), 0);
	fix_create("/d/sub/f");
	fix_create("/f");
	ck_assert_int_eq(fix_link("sub", "/d/l"), 0);
	ck_assert_int_eq(fix_link("/d/sub", "/d/abs"), 0);
	ck_assert_int_eq(fix_link("loop2", "/loop1"), 0);
	ck_assert_int_eq(fix_link("loop1", "/loop2"), 0);
	ck_assert_int_eq(fix_link("nowhere", "/dang"), 0);
	ck_assert_int_eq(fix_link("d/../d/sub", "/up"), 0);
	ck_assert_int_eq(fix_link("d/sub/", "/slash"), 0);
	ck_assert_int_eq(fix_link("f", "/tofile"), 0);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/closed", 0700), 0);
}

static char g_long[300], g_name255[257];

static const struct {
	const char *path;
	uint32_t flags;
	uint64_t resolve;
	int result;	  /* errno or 0 */
	const char *same; /* the same file by another name */
} g_walks[] = {
	{"/", 0, 0, 0, "/"},
	{"", 0, 0, -ENOENT, NULL},
	{"", LOOKUP_EMPTY, 0, 0, "/"},
	{"/..", 0, 0, 0, "/"},
	{"/../../d", 0, 0, 0, "/d"},
	{"//d//sub//", 0, 0, 0, "/d/sub"},
	{"d/./sub/../sub/f", 0, 0, 0, "/d/sub/f"},
	{"/d/l/f", 0, 0, 0, "/d/sub/f"},
	{"/d/abs/f", 0, 0, 0, "/d/sub/f"},
	{"/d/l", LOOKUP_FOLLOW, 0, 0, "/d/sub"},
	{"/d/l/", 0, 0, 0, "/d/sub"},
	{"/d/l/.", 0, 0, 0, "/d/sub"},
	{"/up/f", 0, 0, 0, "/d/sub/f"},
	{"/up/../l/f", 0, 0, 0, "/d/sub/f"},
	{"/slash", LOOKUP_FOLLOW, 0, 0, "/d/sub"},
	{"/slash/f", LOOKUP_FOLLOW, 0, 0, "/d/sub/f"},
	{"/f/", 0, 0, -ENOTDIR, NULL},
	{"/f/x", 0, 0, -ENOTDIR, NULL},
	{"/f/..", 0, 0, -ENOTDIR, NULL},
	{"/tofile/", 0, 0, -ENOTDIR, NULL},
	{"/f", LOOKUP_DIRECTORY, 0, -ENOTDIR, NULL},
	{"/nope", 0, 0, -ENOENT, NULL},
	{"/nope/", 0, 0, -ENOENT, NULL},
	{"/nope/x", 0, 0, -ENOENT, NULL},
	{"/nope/..", 0, 0, -ENOENT, NULL},
	{"/dang", LOOKUP_FOLLOW, 0, -ENOENT, NULL},
	{"/loop1", LOOKUP_FOLLOW, 0, -ELOOP, NULL},
	{"/loop1/x", 0, 0, -ELOOP, NULL},
	{"/loop1", 0, 0, 0, "/loop1"},
	{g_long, 0, 0, -ENAMETOOLONG, NULL},
	{g_name255, 0, 0, -ENOENT, NULL},
	{"/d/l/f", 0, RESOLVE_NO_SYMLINKS, -ELOOP, NULL},
	{"/d/l", 0, RESOLVE_NO_SYMLINKS, 0, "/d/l"},
	{"/d", 0, RESOLVE_BENEATH, -EXDEV, NULL},
	{"d/sub/../..", 0, RESOLVE_BENEATH, 0, "/"},
	{"d/../..", 0, RESOLVE_BENEATH, -EXDEV, NULL},
	{"d/abs", LOOKUP_FOLLOW, RESOLVE_BENEATH, -EXDEV, NULL},
	{"d/l/f", 0, RESOLVE_BENEATH, 0, "/d/sub/f"},
	{"../../d/abs/f", 0, RESOLVE_IN_ROOT, 0, "/d/sub/f"},
};

START_TEST(walks_end_where_linux_ends)
{
	struct linux_stat a, b;

	memset(g_long, 'x', 256);
	g_name255[0] = '/';
	memset(g_name255 + 1, 'y', 255);
	/* Twice: from the filesystem, then from the cache. */
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(g_walks) / sizeof(g_walks[0]); i++) {
			int r = fix_lookup(g_walks[i].path, g_walks[i].flags, g_walks[i].resolve, &a);

			ck_assert_msg(r == g_walks[i].result, "%s: %d, not %d", g_walks[i].path, r,
				      g_walks[i].result);
			if (!g_walks[i].same)
				continue;
			ck_assert_int_eq(fix_lookup(g_walks[i].same, 0, 0, &b), 0);
			ck_assert_msg(a.ino == b.ino, "%s is not %s", g_walks[i].path,
				      g_walks[i].same);
		}
}
END_TEST

START_TEST(forty_links_are_the_limit)
{
	char name[32], target[32];

	for (int i = 0; i < 42; i++) {
		snprintf(name, sizeof(name), "/c%d", i);
		snprintf(target, sizeof(target), i ? "c%d" : "f", i - 1);
		ck_assert_int_eq(fix_link(target, name), 0);
	}
	ck_assert_int_eq(fix_stat("/c39", NULL), 0);
	ck_assert_int_eq(fix_stat("/c40", NULL), -ELOOP);
	/* Nested: each text has something behind it. */
	for (int i = 0; i < 42; i++) {
		snprintf(name, sizeof(name), "/n%d", i);
		snprintf(target, sizeof(target), i ? "n%d/." : "d", i - 1);
		ck_assert_int_eq(fix_link(target, name), 0);
	}
	ck_assert_int_eq(fix_stat("/n39/sub", NULL), 0);
	ck_assert_int_eq(fix_stat("/n40/sub", NULL), -ELOOP);
}
END_TEST

START_TEST(search_permission_is_checked)
{
	fix_create("/closed/x");
	g_ctx.cred = g_user;
	ck_assert_int_eq(fix_stat("/closed/x", NULL), -EACCES);
	ck_assert_int_eq(fix_stat("/closed/nope", NULL), -EACCES);
	ck_assert_int_eq(fix_stat("/closed", NULL), 0);
	ck_assert_int_eq(fix_try_open("/f", O_WRONLY), -EACCES);
	ck_assert_int_eq(fix_try_open("/f", O_RDONLY), 0);
	ck_assert_int_eq(fix_try_open("/newfile", O_CREAT | O_WRONLY), -EACCES);
}
END_TEST

static const struct {
	const char *path;
	uint64_t flags;
	int result;
} g_opens[] = {
	{"/f", O_RDONLY, 0},
	{"/f", O_RDONLY | O_DIRECTORY, -ENOTDIR},
	{"/d", O_RDONLY | O_DIRECTORY, 0},
	{"/d", O_WRONLY, -EISDIR},
	{"/d", O_RDWR, -EISDIR},
	{"/d", O_RDONLY | O_CREAT, -EISDIR},
	{"/d/", O_RDONLY | O_CREAT, -EISDIR},
	{"/new/", O_WRONLY | O_CREAT, -EISDIR},
	{"/f", O_CREAT | O_EXCL | O_WRONLY, -EEXIST},
	{"/dang", O_CREAT | O_EXCL | O_WRONLY, -EEXIST},
	{"/tofile", O_RDONLY | O_NOFOLLOW, -ELOOP},
	{"/tofile", O_PATH | O_NOFOLLOW, 0},
	{"/tofile", O_CREAT | O_WRONLY | O_NOFOLLOW, -ELOOP},
	{"/nope", O_RDONLY, -ENOENT},
	{"/nope/x", O_CREAT | O_WRONLY, -ENOENT},
	{"/f/x", O_CREAT | O_WRONLY, -ENOTDIR},
	{"/loop1", O_CREAT | O_WRONLY, -ELOOP},
	{"/d", O_TMPFILE | O_RDWR, 0},
	{"/d", O_TMPFILE | O_RDONLY, -EINVAL},
	{"/f", O_TMPFILE | O_RDWR, -ENOTDIR},
	{"/f", O_CREAT | O_DIRECTORY, -EINVAL},
	{"/dang", O_CREAT | O_WRONLY, 0}, /* makes /nowhere */
	{"/nowhere", O_RDONLY, 0},
	{"/d/l/made", O_CREAT | O_WRONLY, 0},
	{"/d/sub/made", O_RDONLY, 0},
};

START_TEST(open_flags_act_as_on_linux)
{
	for (size_t i = 0; i < sizeof(g_opens) / sizeof(g_opens[0]); i++) {
		int r = fix_try_open(g_opens[i].path, g_opens[i].flags);

		ck_assert_msg(r == g_opens[i].result, "open %s %#lx: %d, not %d", g_opens[i].path,
			      (unsigned long)g_opens[i].flags, r, g_opens[i].result);
	}
}
END_TEST

START_TEST(making_and_removing_names)
{
	ck_assert_int_eq(fix_mkdir("/d"), -EEXIST);
	ck_assert_int_eq(fix_mkdir("/d/"), -EEXIST);
	ck_assert_int_eq(fix_mkdir("/m/"), 0);
	ck_assert_int_eq(fix_mkdir("/"), -EEXIST);
	ck_assert_int_eq(fix_mkdir("/m/."), -EEXIST);
	ck_assert_int_eq(fix_mkdir("/dang"), -EEXIST);
	ck_assert_int_eq(fix_link("x", "/s/"), -ENOENT);
	ck_assert_int_eq(fix_link("", "/s"), -ENOENT);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 0), -EISDIR);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/f/", 0), -ENOTDIR);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/", 0), -EISDIR);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/f", 1), -ENOTDIR);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 1), -ENOTEMPTY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/m/.", 1), -EINVAL);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/m/..", 1), -ENOTEMPTY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/", 1), -EBUSY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/m/", 1), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/m", 1), -ENOENT);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/tofile", 0), 0);
	ck_assert_int_eq(fix_stat("/f", NULL), 0);
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/f", NULL, "/f2", 0), 0);
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/f", NULL, "/f2", 0), -EEXIST);
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/d", NULL, "/d2", 0), -EPERM);
	ck_assert_int_eq(vfs_mknodat(&g_ctx, NULL, "/fifo", S_IFIFO | 0600, 0), 0);
	ck_assert_int_eq(vfs_mknodat(&g_ctx, NULL, "/x", S_IFDIR | 0600, 0), -EPERM);
	ck_assert_int_eq(vfs_mknodat(&g_ctx, NULL, "/x", S_IFLNK | 0600, 0), -EINVAL);
}
END_TEST

START_TEST(renames)
{
	struct linux_stat a, b;

	ck_assert_int_eq(fix_rename("/d", "/d/sub/x", 0), -EINVAL);
	ck_assert_int_eq(fix_rename("/d/sub", "/d", 0), -ENOTEMPTY);
	ck_assert_int_eq(fix_rename("/f", "/d", 0), -EISDIR);
	ck_assert_int_eq(fix_rename("/d", "/f", 0), -ENOTDIR);
	ck_assert_int_eq(fix_rename("/f", "/x/", 0), -ENOTDIR);
	ck_assert_int_eq(fix_rename("/nope", "/x", 0), -ENOENT);
	ck_assert_int_eq(fix_rename("/d/.", "/x", 0), -EBUSY);
	ck_assert_int_eq(fix_rename("/f", "/d/..", 0), -EBUSY);
	ck_assert_int_eq(fix_rename("/f", "/tofile", RENAME_NOREPLACE), -EEXIST);
	ck_assert_int_eq(fix_rename("/f", "/nope", RENAME_EXCHANGE), -ENOENT);
	ck_assert_int_eq(fix_rename("/f", "/x", RENAME_EXCHANGE | RENAME_NOREPLACE), -EINVAL);
	ck_assert_int_eq(fix_rename("/d", "/d/sub", RENAME_EXCHANGE), -EINVAL);
	/* exchange of a file and a directory, across directories */
	ck_assert_int_eq(fix_lookup("/f", 0, 0, &a), 0);
	ck_assert_int_eq(fix_rename("/f", "/d/sub", RENAME_EXCHANGE), 0);
	ck_assert_int_eq(fix_lookup("/d/sub", 0, 0, &b), 0);
	ck_assert_uint_eq(a.ino, b.ino);
	ck_assert_int_eq(fix_stat("/f/f", NULL), 0);
	ck_assert_int_eq(fix_lookup("/", 0, 0, &a), 0);
	ck_assert_int_eq(fix_rename("/f", "/d/sub", RENAME_EXCHANGE), 0);
	ck_assert_int_eq(fix_stat("/d/sub/f", NULL), 0);
	/* replace, long names, and a directory moved */
	ck_assert_int_eq(fix_rename("/f", "/a-name-that-does-not-fit-into-the-dentry-itself", 0), 0);
	ck_assert_int_eq(fix_stat("/f", NULL), -ENOENT);
	ck_assert_int_eq(fix_rename("/a-name-that-does-not-fit-into-the-dentry-itself", "/f", 0), 0);
	ck_assert_int_eq(fix_stat("/a-name-that-does-not-fit-into-the-dentry-itself", NULL), -ENOENT);
	ck_assert_int_eq(fix_mkdir("/e"), 0);
	ck_assert_int_eq(fix_rename("/d/sub", "/e", 0), 0);
	ck_assert_int_eq(fix_stat("/e/f", NULL), 0);
	ck_assert_int_eq(fix_lookup("/d", 0, 0, &a), 0);
	ck_assert_uint_eq(a.nlink, 2);
	/* two names of one file: nothing happens */
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/f", NULL, "/f2", 0), 0);
	ck_assert_int_eq(fix_rename("/f", "/f2", 0), 0);
	ck_assert_int_eq(fix_stat("/f", NULL), 0);
	/* whiteout */
	ck_assert_int_eq(fix_rename("/f", "/f3", RENAME_WHITEOUT), 0);
	ck_assert_int_eq(fix_lookup("/f", 0, 0, &a), 0);
	ck_assert(S_ISCHR(a.mode) && a.rdev == 0);
}
END_TEST

START_TEST(sticky_directories_and_protected_links)
{
	struct path p;

	ck_assert_int_eq(fix_mkdir("/tmp"), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/tmp", 0, &p), 0);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 01777), 0);
	path_put(p);
	fix_create("/tmp/roots");
	ck_assert_int_eq(fix_link("/f", "/tmp/rootlink"), 0);
	g_ctx.cred = g_user;
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/tmp/roots", 0), -EPERM);
	ck_assert_int_eq(fix_rename("/tmp/roots", "/tmp/mine", 0), -EPERM);
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/f", NULL, "/tmp/hard", 0), -EPERM);
	fix_create("/tmp/users");
	ck_assert_int_eq(fix_link("/f", "/tmp/userlink"), 0);
	ck_assert_int_eq(fix_stat("/tmp/userlink", NULL), 0);
	ck_assert_int_eq(fix_stat("/tmp/rootlink", NULL), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/tmp/users", 0), 0);
	/* root does not follow a user's link out of a sticky directory */
	g_ctx.cred = g_root;
	ck_assert_int_eq(fix_stat("/tmp/userlink", NULL), -EACCES);
}
END_TEST

static const char *name_of(const char *path, char *buf)
{
	struct path p;
	char *s;

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, path, 0, &p), 0);
	s = path_name(g_vfs, p, g_ctx.root, buf, PATH_MAX);
	path_put(p);
	return s;
}

START_TEST(names_of_paths)
{
	char buf[PATH_MAX];
	struct path p;

	ck_assert_str_eq(name_of("/", buf), "/");
	ck_assert_str_eq(name_of("d/l/f", buf), "/d/sub/f");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/f", 0, &p), 0);
	ck_assert(!path_is_unlinked(p));
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/f", 0), 0);
	ck_assert(path_is_unlinked(p));
	ck_assert_str_eq(path_name(g_vfs, p, g_ctx.root, buf, sizeof(buf)), "/f (deleted)");
	ck_assert_int_eq(PTR_ERR(path_name(g_vfs, p, g_ctx.root, buf, 5)), -ENAMETOOLONG);
	path_put(p);
}
END_TEST

START_TEST(removed_directories_take_nothing)
{
	struct path d, old = g_ctx.cwd;

	ck_assert_int_eq(fix_mkdir("/gone"), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/gone", 0, &d), 0);
	g_ctx.cwd = d;
	ck_assert_int_eq(fix_stat("nope", NULL), -ENOENT);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/gone", 1), 0);
	ck_assert_int_eq(fix_try_open("x", O_CREAT | O_WRONLY), -ENOENT);
	ck_assert_int_eq(fix_mkdir("x"), -ENOENT);
	ck_assert_int_eq(fix_stat(".", NULL), 0);
	ck_assert_int_eq(fix_stat("..", NULL), 0);
	g_ctx.cwd = old;
	path_put(d);
}
END_TEST

/* Many more names than the cache keeps: it shrinks and everything is still found. */
START_TEST(cache_is_bounded_and_rebuilt)
{
	char name[32];

	ck_assert_int_eq(fix_mkdir("/many"), 0);
	for (int i = 0; i < 70000; i++) {
		snprintf(name, sizeof(name), "/many/%d", i);
		ck_assert_int_eq(fix_stat(name, NULL), -ENOENT);
	}
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "/many/%d", i);
		fix_create(name);
	}
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "/many/%d", i);
		ck_assert_int_eq(fix_stat(name, NULL), 0);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		walks_end_where_linux_ends, forty_links_are_the_limit,
		search_permission_is_checked, open_flags_act_as_on_linux,
		making_and_removing_names, renames, sticky_directories_and_protected_links,
		names_of_paths, removed_directories_take_nothing, cache_is_bounded_and_rebuilt,
	};
	Suite *s = suite_create("namei");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, tree, fix_teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
