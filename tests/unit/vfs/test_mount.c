/* SPDX-License-Identifier: Apache-2.0 */
/* mount(2) and its relatives; shared subtrees as mount_namespaces(7) tells them. */
#include <linux/mount.h>

#include "tests/unit/vfs/fixture.h"
#include "vfs/fscontext.h"

#define DETACH 2
#define EXPIRE 4

static int mnt(const char *src, const char *at, const char *type, uint64_t flags)
{
	return vfs_mount(&g_ctx, src, at, type, flags, "");
}

static int bind(const char *src, const char *at)
{
	return mnt(src, at, NULL, MS_BIND);
}

static int umount(const char *at)
{
	return vfs_umount(&g_ctx, at, 0);
}

static int exists(const char *path)
{
	return fix_stat(path, NULL) == 0;
}

/* A fresh tmpfs at path with a file `mark` in it. */
static void fresh(const char *path, const char *mark)
{
	char name[64];

	ck_assert_int_eq(mnt("t", path, "tmpfs", 0), 0);
	snprintf(name, sizeof(name), "%s/%s", path, mark);
	fix_create(name);
}

static void dirs(void)
{
	static const char *const names[] = {"/a", "/b", "/c", "/d", "/a/sub"};

	fix_setup();
	for (size_t i = 0; i < 5; i++)
		ck_assert_int_eq(fix_mkdir(names[i]), 0);
}

static char *show(int kind)
{
	static char text[8192];
	struct strbuf sb;

	strbuf_init(&sb);
	mnt_ns_show(g_ctx.ns, g_ctx.root, kind, &sb);
	ck_assert_int_eq(sb.err, 0);
	snprintf(text, sizeof(text), "%s", sb.data ? sb.data : "");
	strbuf_free(&sb);
	return text;
}

START_TEST(mounting_and_unmounting)
{
	struct file *f;

	fix_create("/file");
	fix_create("/a/under");
	fresh("/a", "over");
	ck_assert(exists("/a/over") && !exists("/a/under"));
	ck_assert(exists("/a/../file"));
	ck_assert_int_eq(mnt("t", "/file", "tmpfs", 0), -ENOTDIR);
	ck_assert_int_eq(mnt("t", "/nope", "tmpfs", 0), -ENOENT);
	ck_assert_int_eq(mnt("t", "/b", "nosuchfs", 0), -ENODEV);
	ck_assert_int_eq(fix_rename("/a/over", "/b/x", 0), -EXDEV);
	ck_assert_int_eq(fix_rename("/a", "/z", 0), -EBUSY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/a", 1), -EBUSY);
	f = fix_open("/a/over", O_RDONLY, 0);
	ck_assert_int_eq(umount("/a"), -EBUSY);
	file_put(f);
	ck_assert_int_eq(umount("/a/over"), -EINVAL);
	ck_assert_int_eq(umount("/a"), 0);
	ck_assert(exists("/a/under"));
	ck_assert_int_eq(umount("/a"), -EINVAL);
	/* lazily, with a file open */
	fresh("/a", "over");
	f = fix_open("/a/over", O_RDWR, 0);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/a", DETACH), 0);
	ck_assert(exists("/a/under"));
	ck_assert_int_eq(fix_pwrite(f, "abc", 3, 0), 3);
	file_put(f);
	/* expiry takes two rounds */
	fresh("/a", "over");
	ck_assert_int_eq(vfs_umount(&g_ctx, "/a", EXPIRE), -EAGAIN);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/a", EXPIRE), 0);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/a", EXPIRE | DETACH), -EINVAL);
	g_ctx.cred = g_user;
	ck_assert_int_eq(mnt("t", "/a", "tmpfs", 0), -EPERM);
	ck_assert_int_eq(umount("/a"), -EPERM);
}
END_TEST

START_TEST(flags_and_remounts)
{
	struct file *f;

	ck_assert_int_eq(mnt("t", "/a", "tmpfs", MS_NODEV | MS_NOEXEC | MS_NOSUID), 0);
	ck_assert_ptr_nonnull(strstr(show(0), "t /a tmpfs rw,nosuid,nodev,noexec,relatime,inode64 0 0\n"));
	f = fix_open("/a/x", O_CREAT | O_WRONLY, 0755);
	ck_assert_int_eq(mnt("", "/a", NULL, MS_REMOUNT | MS_RDONLY), -EBUSY);
	file_put(f);
	f = vfs_open_exec(&g_ctx, NULL, "/a/x", LOOKUP_FOLLOW);
	ck_assert_int_eq(PTR_ERR(f), -EACCES);
	ck_assert_int_eq(mnt("", "/a", NULL, MS_REMOUNT | MS_RDONLY), 0);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), -EROFS);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY | O_CREAT), -EROFS);
	ck_assert_int_eq(fix_try_open("/a/new", O_WRONLY | O_CREAT), -EROFS);
	ck_assert_int_eq(fix_mkdir("/a/x"), -EEXIST);
	ck_assert_int_eq(fix_mkdir("/a/y"), -EROFS);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/a/nope", 0), -EROFS);
	ck_assert_int_eq(mnt("", "/a", NULL, MS_REMOUNT), 0);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), 0);
	/* a bind mount has flags of its own */
	ck_assert_int_eq(bind("/a", "/b"), 0);
	ck_assert_int_eq(mnt("", "/b", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY), 0);
	ck_assert_int_eq(fix_try_open("/b/x", O_WRONLY), -EROFS);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), 0);
	f = vfs_open_exec(&g_ctx, NULL, "/b/x", LOOKUP_FOLLOW);
	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), -ETXTBSY);
	file_put(f);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), 0);
}
END_TEST

START_TEST(binds_plain_and_recursive)
{
	fresh("/a", "one");
	ck_assert_int_eq(fix_mkdir("/a/m"), 0);
	fresh("/a/m", "two");
	ck_assert_int_eq(bind("/a", "/b"), 0);
	ck_assert(exists("/b/one") && !exists("/b/m/two"));
	ck_assert_int_eq(mnt("/a", "/c", NULL, MS_BIND | MS_REC), 0);
	ck_assert(exists("/c/one") && exists("/c/m/two"));
	ck_assert_int_eq(umount("/c"), -EBUSY);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/c", DETACH), 0);
	ck_assert(exists("/a/m/two"));
	/* of a subdirectory: ".." leads to the mount point's parent */
	ck_assert_int_eq(fix_mkdir("/a/s"), 0);
	fix_create("/a/s/f");
	ck_assert_int_eq(bind("/a/s", "/d"), 0);
	ck_assert(exists("/d/f") && exists("/d/../b/one"));
	ck_assert_ptr_nonnull(strstr(show(1), " /s /d rw,relatime - tmpfs t rw,inode64\n"));
	/* a file on a file */
	fix_create("/target");
	ck_assert_int_eq(bind("/a/s/f", "/target"), 0);
	ck_assert_int_eq(bind("/a/s/f", "/c"), -ENOTDIR);
	ck_assert_int_eq(umount("/target"), 0);
	/* unbindable */
	ck_assert_int_eq(mnt("", "/a", NULL, MS_UNBINDABLE), 0);
	ck_assert_int_eq(bind("/a", "/c"), -EINVAL);
}
END_TEST

START_TEST(moving)
{
	fresh("/a", "one");
	ck_assert_int_eq(fix_mkdir("/a/m"), 0);
	fresh("/a/m", "two");
	ck_assert_int_eq(mnt("/a", "/b", NULL, MS_MOVE), 0);
	ck_assert(exists("/b/m/two") && !exists("/a/one") && exists("/a/sub"));
	ck_assert_int_eq(mnt("/b", "/b/m", NULL, MS_MOVE), -ELOOP);
	ck_assert_int_eq(mnt("/c", "/d", NULL, MS_MOVE), -EINVAL);
	ck_assert_int_eq(mnt("/", "/d", NULL, MS_MOVE), -EINVAL);
}
END_TEST

START_TEST(shared_peers_see_mounts)
{
	fresh("/a", "x");
	ck_assert_int_eq(fix_mkdir("/a/m"), 0);
	ck_assert_int_eq(mnt("", "/a", NULL, MS_SHARED), 0);
	ck_assert_int_eq(bind("/a", "/b"), 0);
	fresh("/a/m", "in");
	ck_assert(exists("/b/m/in"));
	ck_assert_ptr_nonnull(strstr(show(1), " / /b rw,relatime shared:1 - tmpfs "));
	/* and the other way, nested, and unmounts */
	ck_assert_int_eq(fix_mkdir("/b/m/deep"), 0);
	fresh("/b/m/deep", "d");
	ck_assert(exists("/a/m/deep/d"));
	ck_assert_int_eq(umount("/a/m/deep"), 0);
	ck_assert(!exists("/b/m/deep/d"));
	ck_assert_int_eq(umount("/b/m"), 0);
	ck_assert(!exists("/a/m/in"));
	/* a slave receives and does not send */
	ck_assert_int_eq(bind("/a", "/c"), 0);
	ck_assert_int_eq(mnt("", "/c", NULL, MS_SLAVE), 0);
	ck_assert_ptr_nonnull(strstr(show(1), " / /c rw,relatime master:1 - tmpfs "));
	fresh("/a/m", "in");
	ck_assert(exists("/c/m/in"));
	ck_assert_int_eq(umount("/a/m"), 0);
	ck_assert(!exists("/c/m/in"));
	fresh("/c/m", "mine");
	ck_assert(!exists("/a/m/mine") && !exists("/b/m/mine"));
	ck_assert_int_eq(umount("/c/m"), 0);
	/* slave and shared: passes on to its own peers and slaves */
	ck_assert_int_eq(mnt("", "/c", NULL, MS_SHARED), 0);
	ck_assert_int_eq(bind("/c", "/d"), 0);
	fresh("/b/m", "chain");
	ck_assert(exists("/a/m/chain") && exists("/c/m/chain") && exists("/d/m/chain"));
	ck_assert_int_eq(umount("/a/m"), 0);
	ck_assert(!exists("/b/m/chain") && !exists("/c/m/chain") && !exists("/d/m/chain"));
	fresh("/d/m", "sub");
	ck_assert(exists("/c/m/sub") && !exists("/a/m/sub"));
	ck_assert_int_eq(umount("/c/m"), 0);
	/* private: on its own */
	ck_assert_int_eq(mnt("", "/b", NULL, MS_PRIVATE), 0);
	fresh("/a/m", "in");
	ck_assert(!exists("/b/m/in") && exists("/c/m/in"));
	/* a busy copy elsewhere keeps the unmount from happening */
	struct file *f = fix_open("/c/m/in", O_RDONLY, 0);

	ck_assert_int_eq(umount("/a/m"), -EBUSY);
	file_put(f);
	ck_assert_int_eq(umount("/a/m"), 0);
}
END_TEST

START_TEST(slaves_keep_a_master_when_peers_leave)
{
	fresh("/a", "x");
	ck_assert_int_eq(fix_mkdir("/a/m"), 0);
	ck_assert_int_eq(mnt("", "/a", NULL, MS_SHARED), 0);
	ck_assert_int_eq(bind("/a", "/b"), 0);
	ck_assert_int_eq(bind("/a", "/c"), 0);
	ck_assert_int_eq(mnt("", "/c", NULL, MS_SLAVE), 0);
	/* whichever peer the slave hangs on goes; the other takes over */
	ck_assert_int_eq(umount("/a"), 0);
	fresh("/b/m", "in");
	ck_assert(exists("/c/m/in"));
	ck_assert_int_eq(umount("/b/m"), 0);
	ck_assert_int_eq(umount("/b"), 0);
	ck_assert_ptr_nonnull(strstr(show(1), " / /c rw,relatime - tmpfs "));
}
END_TEST

START_TEST(namespaces_are_copies)
{
	struct mnt_ns *ns2, *ns1 = g_ctx.ns;
	struct path root = path_get(g_ctx.root), cwd = path_get(g_ctx.cwd), old_root, old_cwd;

	fresh("/a", "one");
	ck_assert_int_eq(mnt("", "/a", NULL, MS_SHARED), 0);
	ck_assert_int_eq(fix_mkdir("/a/m"), 0);
	ns2 = mnt_ns_dup(ns1, &root, &cwd);
	ck_assert(!IS_ERR(ns2));
	old_root = g_ctx.root;
	old_cwd = g_ctx.cwd;
	g_ctx.ns = ns2;
	g_ctx.root = root;
	g_ctx.cwd = cwd;
	ck_assert(exists("/a/one"));
	fresh("/b", "private");
	fresh("/a/m", "shared");
	g_ctx.ns = ns1;
	g_ctx.root = old_root;
	g_ctx.cwd = old_cwd;
	ck_assert(!exists("/b/private"));
	ck_assert(exists("/a/m/shared"));
	/* a mountpoint of the other namespace can be removed; the mount goes */
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/b", 1), 0);
	path_put(root);
	path_put(cwd);
	mnt_ns_put(ns2);
	ck_assert_int_eq(umount("/a/m"), 0);
}
END_TEST

START_TEST(pivot_root_swaps_roots)
{
	struct path old_root = g_ctx.root, old_cwd = g_ctx.cwd, p;

	fresh("/a", "newroot");
	ck_assert_int_eq(fix_mkdir("/a/old"), 0);
	fix_create("/oldfile");
	ck_assert_int_eq(vfs_pivot_root(&g_ctx, "/b", "/b"), -EBUSY);
	ck_assert_int_eq(vfs_pivot_root(&g_ctx, "/a", "/c"), -EBUSY);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/a", 0, &p), 0);
	ck_assert_int_eq(vfs_pivot_root(&g_ctx, "/a", "/a/old"), 0);
	g_ctx.root = p;
	g_ctx.cwd = path_get(p);
	ck_assert(exists("/newroot") && exists("/old/oldfile") && exists("/old/../newroot"));
	path_put(old_root);
	path_put(old_cwd);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/old", DETACH), 0);
	ck_assert(!exists("/old/oldfile"));
	ck_assert_int_eq(umount("/"), -EBUSY);
}
END_TEST

START_TEST(locked_mounts_stay)
{
	struct superblock *sb = g_tmpfs_type.mount(g_vfs, "mask", SB_RDONLY, "", NULL);
	struct path at;

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/a/sub", 0, &at), 0);
	ck_assert_int_eq(mount_attach(g_vfs, mount_new(sb, MNT_F_LOCKED | MNT_F_RDONLY), at), 0);
	path_put(at);
	ck_assert_int_eq(umount("/a/sub"), -EINVAL);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/a/sub", DETACH), -EINVAL);
	ck_assert_int_eq(mnt("/a/sub", "/b", NULL, MS_MOVE), -EINVAL);
	ck_assert_int_eq(mnt("", "/a/sub", NULL, MS_REMOUNT), -EPERM);
	ck_assert_int_eq(bind("/a", "/b"), -EINVAL);
	ck_assert_int_eq(mnt("/a", "/b", NULL, MS_BIND | MS_REC), 0);
	ck_assert_int_eq(umount("/b/sub"), -EINVAL);
	ck_assert_int_eq(vfs_umount(&g_ctx, "/b", DETACH), 0);
}
END_TEST

START_TEST(contexts_make_mounts)
{
	struct file *fc, *m;
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	ck_assert_int_eq(PTR_ERR(fscontext_fsopen(&g_ctx, "nosuch", 0)), -ENODEV);
	fc = fscontext_fsopen(&g_ctx, "tmpfs", 0);
	ck_assert(!IS_ERR(fc));
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_SET_STRING, "size", "1m", 0), 0);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_SET_STRING, "source", "mine", 0), 0);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_SET_STRING, "x", "1,size=2m", 0), -EINVAL);
	ck_assert_int_eq(PTR_ERR(fscontext_fsmount(&g_ctx, fc, 0, 0)), -EINVAL);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_CMD_CREATE, NULL, NULL, 0), 0);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_CMD_CREATE, NULL, NULL, 0), -EBUSY);
	m = fscontext_fsmount(&g_ctx, fc, 0, MOUNT_ATTR_NODEV);
	ck_assert(!IS_ERR(m));
	ck_assert_int_eq(fscontext_move_mount(&g_ctx, &m->path, "", NULL, "/a", MOVE_MOUNT_F_EMPTY_PATH), 0);
	file_put(m);
	file_put(fc);
	ck_assert_ptr_nonnull(strstr(show(0), "mine /a tmpfs rw,nodev,relatime,size=1024k,inode64 0 0\n"));
	fix_create("/a/x");
	/* a reconfiguration through fspick */
	fc = fscontext_fspick(&g_ctx, NULL, "/a", 0);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_SET_FLAG, "ro", NULL, 0), 0);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0), 0);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), -EROFS);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_SET_FLAG, "rw", NULL, 0), 0);
	ck_assert_int_eq(fscontext_fsconfig(&g_ctx, fc, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0), 0);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), 0);
	file_put(fc);
	/* a tree cloned, dropped; cloned again and attached */
	m = fscontext_open_tree(&g_ctx, NULL, "/a", OPEN_TREE_CLONE | 0x8000);
	ck_assert(!IS_ERR(m));
	file_put(m);
	m = fscontext_open_tree(&g_ctx, NULL, "/a", OPEN_TREE_CLONE | 0x8000);
	ck_assert_int_eq(fscontext_mount_setattr(&g_ctx, &m->path, "", AT_EMPTY_PATH, &attr), 0);
	ck_assert_int_eq(fscontext_move_mount(&g_ctx, &m->path, "", NULL, "/b", MOVE_MOUNT_F_EMPTY_PATH), 0);
	ck_assert_int_eq(fix_try_open("/b/x", O_WRONLY), -EROFS);
	ck_assert_int_eq(fix_try_open("/a/x", O_WRONLY), 0);
	ck_assert_int_eq(umount("/b"), -EBUSY);
	file_put(m);
	ck_assert_int_eq(umount("/b"), 0);
	struct file *f = fix_open("/a/x", O_WRONLY, 0);

	ck_assert_int_eq(fscontext_mount_setattr(&g_ctx, NULL, "/a", 0, &attr), -EBUSY);
	file_put(f);
	ck_assert_int_eq(fscontext_mount_setattr(&g_ctx, NULL, "/a/x", 0, &attr), -EINVAL);
	attr.attr_set = MOUNT_ATTR_NOATIME;
	ck_assert_int_eq(fscontext_mount_setattr(&g_ctx, NULL, "/a", 0, &attr), -EINVAL);
	attr.attr_clr = MOUNT_ATTR__ATIME;
	ck_assert_int_eq(fscontext_mount_setattr(&g_ctx, NULL, "/a", 0, &attr), 0);
	ck_assert_ptr_nonnull(strstr(show(0), "mine /a tmpfs rw,nodev,noatime,size"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		mounting_and_unmounting, flags_and_remounts, binds_plain_and_recursive, moving,
		shared_peers_see_mounts, slaves_keep_a_master_when_peers_leave,
		namespaces_are_copies, pivot_root_swaps_roots, locked_mounts_stay, contexts_make_mounts,
	};
	Suite *s = suite_create("mount");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, dirs, fix_teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
