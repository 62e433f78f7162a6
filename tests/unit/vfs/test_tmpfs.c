/* SPDX-License-Identifier: Apache-2.0 */
/* tmpfs against a plain model with random operations, then the special cases one by one. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/unit/vfs/fixture.h"

#define MODEL_MAX (700u << 10) /* spans several extents */

static uint64_t g_seed = 12345;

static uint32_t rnd(uint32_t below)
{
	g_seed = g_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(g_seed >> 33) % below;
}

static char g_model[MODEL_MAX], g_data[MODEL_MAX], g_buf[MODEL_MAX];

START_TEST(file_matches_a_byte_array)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600);
	uint64_t size = 0;

	ck_assert(!IS_ERR(f));
	for (int i = 0; i < 3000; i++) {
		uint32_t off = rnd(MODEL_MAX - 1), len = 1 + rnd(rnd(4) ? 5000 : 200000);

		if (len > MODEL_MAX - off)
			len = MODEL_MAX - off;
		switch (rnd(6)) {
		case 0:
		case 1:
			memset(g_data, 1 + (int)rnd(255), len);
			ck_assert_int_eq(fix_pwrite(f, g_data, len, off), len);
			memcpy(g_model + off, g_data, len);
			if (off + len > size)
				size = off + len;
			break;
		case 2:
			ck_assert_int_eq(vfs_ftruncate(f, off), 0);
			if (off < size)
				memset(g_model + off, 0, size - off);
			size = off;
			break;
		case 3:
			ck_assert_int_eq(file_fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
							off, len, UINT64_MAX), 0);
			memset(g_model + off, 0, len);
			break;
		case 4:
			ck_assert_int_eq(file_fallocate(f, 0, off, len, UINT64_MAX), 0);
			if (off + len > size)
				size = off + len;
			break;
		default: {
			ssize_t want = off >= size ? 0 : off + len > size ? (ssize_t)(size - off) : len;

			ck_assert_int_eq(fix_pread(f, g_buf, len, off), want);
			ck_assert(memcmp(g_buf, g_model + off, (size_t)want) == 0);
		}
		}
		ck_assert_uint_eq(f->inode->size, size);
	}
	file_put(f);
}
END_TEST

START_TEST(holes_are_found)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600);

	ck_assert_int_eq(fix_pwrite(f, "a", 1, 8192), 1);
	ck_assert_int_eq(fix_pwrite(f, "a", 1, 1 << 20), 1);
	ck_assert_int_eq(file_llseek(f, 0, SEEK_DATA), 8192);
	ck_assert_int_eq(file_llseek(f, 8193, SEEK_DATA), 8193);
	ck_assert_int_eq(file_llseek(f, 12288, SEEK_DATA), 1 << 20);
	ck_assert_int_eq(file_llseek(f, 0, SEEK_HOLE), 0);
	ck_assert_int_eq(file_llseek(f, 8192, SEEK_HOLE), 12288);
	ck_assert_int_eq(file_llseek(f, 1 << 20, SEEK_HOLE), (1 << 20) + 1);
	ck_assert_int_eq(file_llseek(f, (1 << 20) + 1, SEEK_DATA), -ENXIO);
	ck_assert_uint_eq(f->inode->blocks, 16);
	ck_assert_int_eq(file_llseek(f, -1, SEEK_SET), -EINVAL);
	ck_assert_int_eq(file_llseek(f, -5, SEEK_END), (1 << 20) - 4);
	/* As far out as a file can be. */
	ck_assert_int_eq(vfs_ftruncate(f, INT64_MAX), 0);
	ck_assert_int_eq(fix_pwrite(f, "z", 1, 1ll << 50), 1);
	ck_assert_int_eq(file_llseek(f, 2 << 20, SEEK_DATA), 1ll << 50);
	ck_assert_int_eq(fix_pread(f, g_buf, 4096, 1ll << 45), 4096);
	ck_assert_int_eq(fix_pwrite(f, "zz", 2, INT64_MAX - 1), 1);
	ck_assert_int_eq(fix_pwrite(f, "zz", 2, INT64_MAX), -EFBIG);
	file_put(f);
}
END_TEST

START_TEST(size_limit_holds)
{
	struct linux_statfs st;
	struct file *f;
	struct path p;
	int64_t done = 0;
	ssize_t n;

	ck_assert_int_eq(fix_mkdir("/m"), 0);
	ck_assert_int_eq(vfs_mount(&g_ctx, "tmpfs", "/m", "tmpfs", 0, "size=64k,nr_inodes=4,mode=700"), 0);
	f = fix_open("/m/x", O_CREAT | O_RDWR, 0600);
	while ((n = fix_pwrite(f, g_data, 10000, done)) > 0)
		done += n;
	ck_assert_int_eq(n, -ENOSPC);
	ck_assert_int_eq(done, 65536);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/m", 0, &p), 0);
	ck_assert_int_eq(vfs_statfs(p, &st), 0);
	ck_assert_uint_eq(st.blocks, 16);
	ck_assert_uint_eq(st.bfree, 0);
	ck_assert_uint_eq(st.files, 4);
	ck_assert_uint_eq(st.ffree, 2);
	ck_assert_int_eq(vfs_ftruncate(f, 4096), 0);
	ck_assert_int_eq(vfs_statfs(p, &st), 0);
	ck_assert_uint_eq(st.bfree, 15);
	ck_assert_int_eq(file_fallocate(f, 0, 0, 1 << 20, UINT64_MAX), -ENOSPC);
	ck_assert_int_eq(vfs_statfs(p, &st), 0);
	ck_assert_uint_eq(st.bfree, 15);
	fix_create("/m/a");
	fix_create("/m/b");
	ck_assert_int_eq(fix_try_open("/m/c", O_CREAT | O_WRONLY), -ENOSPC);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/m/a", 0), 0);
	fix_create("/m/c");
	ck_assert_int_eq(vfs_mount(&g_ctx, "none", "/m", "tmpfs", MS_REMOUNT, "size=1m"), 0);
	ck_assert_int_eq(vfs_statfs(p, &st), 0);
	ck_assert_uint_eq(st.blocks, 256);
	path_put(p);
	file_put(f);
	ck_assert_int_eq(vfs_mount(&g_ctx, "x", "/m", "tmpfs", 0, "bogus=1"), -EINVAL);
	ck_assert_int_eq(vfs_mount(&g_ctx, "x", "/m", "tmpfs", 0, "size=12q"), -EINVAL);
}
END_TEST

/* ---- directories ---- */

struct collect {
	struct dir_emit de;
	int count, stop_after;
	uint64_t next;
	char seen[2000];
};

static int collect_one(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		       uint64_t ino, uint8_t type)
{
	struct collect *c = container_of(de, struct collect, de);

	if (c->stop_after && c->count == c->stop_after)
		return 0;
	c->count++;
	c->next = next_pos;
	if (name[0] == 'e')
		c->seen[atoi(name + 1)]++;
	return 1;
}

START_TEST(readdir_survives_changes)
{
	struct collect c = {.de.emit = collect_one, .stop_after = 100};
	struct file *d;
	char name[32];

	ck_assert_int_eq(fix_mkdir("/dir"), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "/dir/e%d", i);
		fix_create(name);
	}
	d = fix_open("/dir", O_RDONLY | O_DIRECTORY, 0);
	ck_assert(!IS_ERR(d));
	for (;;) {
		int before = c.count;

		c.stop_after = c.count + 7 + (int)rnd(60);
		ck_assert_int_eq(file_iterate(d, &c.de), 0);
		if (c.count == before)
			break;
		/* Removing some, seen or not, must not hide or double the others. */
		for (int k = 0; k < 5; k++) {
			int i = (int)rnd(500) * 2;

			snprintf(name, sizeof(name), "/dir/e%d", i);
			vfs_unlinkat(&g_ctx, NULL, name, 0);
		}
	}
	for (int i = 1; i < 1000; i += 2)
		ck_assert_msg(c.seen[i] == 1, "e%d seen %d times", i, c.seen[i]);
	for (int i = 0; i < 1000; i += 2)
		ck_assert(c.seen[i] <= 1);
	/* seekdir back to where it stood */
	ck_assert_int_eq(file_llseek(d, 0, SEEK_SET), 0);
	memset(&c.seen, 0, sizeof(c.seen));
	c.count = 0;
	c.stop_after = 10;
	ck_assert_int_eq(file_iterate(d, &c.de), 0);
	ck_assert_int_eq(file_llseek(d, (int64_t)c.next, SEEK_SET), (int64_t)c.next);
	c.stop_after = 0;
	ck_assert_int_eq(file_iterate(d, &c.de), 0);
	for (int i = 1; i < 1000; i += 2)
		ck_assert_int_eq(c.seen[i], 1);
	file_put(d);
}
END_TEST

START_TEST(directory_sizes_and_links)
{
	struct linux_stat st;

	ck_assert_int_eq(fix_mkdir("/a"), 0);
	ck_assert_int_eq(fix_mkdir("/a/b"), 0);
	fix_create("/a/f");
	ck_assert_int_eq(fix_stat("/a", &st), 0);
	ck_assert_uint_eq(st.nlink, 3);
	ck_assert_int_eq(st.size, 80);
	ck_assert_int_eq(fix_rename("/a/b", "/c", 0), 0);
	ck_assert_int_eq(fix_stat("/a", &st), 0);
	ck_assert_uint_eq(st.nlink, 2);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/a/f", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/a", 1), 0);
}
END_TEST

START_TEST(xattrs_by_namespace)
{
	char buf[100];
	struct path p, l;

	fix_create("/x");
	ck_assert_int_eq(fix_link("x", "/l"), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/x", 0, &p), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/l", 0, &l), 0);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.a", "1234", 4, 0), 0);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.a", "12", 2, XATTR_CREATE), -EEXIST);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.b", "12", 2, XATTR_REPLACE), -ENODATA);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "trusted.t", "", 0, 0), 0);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, l, "user.a", "1", 1, 0), -EPERM);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.a", buf, 2), -ERANGE);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.a", buf, 0), 4);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.a", buf, 100), 4);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "system.posix_acl_access", buf, 100), -EOPNOTSUPP);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "nonsense", buf, 100), -EOPNOTSUPP);
	ck_assert_int_eq(vfs_listxattr(&g_ctx, p, buf, 100), 17);
	g_ctx.cred = g_user;
	ck_assert_int_eq(vfs_listxattr(&g_ctx, p, buf, 100), 7);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "trusted.t", buf, 100), -ENODATA);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.a", "1", 1, 0), -EACCES);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "trusted.t", "1", 1, 0), -EPERM);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "security.x", "1", 1, 0), -EPERM);
	g_ctx.cred = g_root;
	ck_assert_int_eq(vfs_removexattr(&g_ctx, p, "user.a"), 0);
	ck_assert_int_eq(vfs_removexattr(&g_ctx, p, "user.a"), -ENODATA);
	path_put(p);
	path_put(l);
}
END_TEST

START_TEST(memfd_seals)
{
	struct file *f;
	char buf[64];

	ck_assert_int_eq(tmpfs_memfd_create(g_vfs, "x", 0x40, g_root, &f), -EINVAL);
	ck_assert_int_eq(tmpfs_memfd_create(g_vfs, "x", MFD_ALLOW_SEALING, g_root, &f), 0);
	ck_assert_str_eq(path_name(g_vfs, f->path, g_ctx.root, buf, sizeof(buf)), "/memfd:x (deleted)");
	ck_assert_int_eq(vfs_ftruncate(f, 100), 0);
	ck_assert_int_eq(tmpfs_add_seals(f, F_SEAL_SHRINK), 0);
	ck_assert_int_eq(vfs_ftruncate(f, 10), -EPERM);
	ck_assert_int_eq(vfs_ftruncate(f, 200), 0);
	ck_assert_int_eq(tmpfs_add_seals(f, F_SEAL_GROW), 0);
	ck_assert_int_eq(vfs_ftruncate(f, 300), -EPERM);
	ck_assert_int_eq(fix_pwrite(f, "abc", 3, 199), -EPERM);
	ck_assert_int_eq(fix_pwrite(f, "abc", 3, 0), 3);
	tmpfs_writable_mapping(f, 1);
	ck_assert_int_eq(tmpfs_add_seals(f, F_SEAL_WRITE), -EBUSY);
	tmpfs_writable_mapping(f, -1);
	ck_assert_int_eq(tmpfs_add_seals(f, F_SEAL_WRITE | F_SEAL_SEAL), 0);
	ck_assert_int_eq(fix_pwrite(f, "abc", 3, 0), -EPERM);
	ck_assert_int_eq(tmpfs_add_seals(f, F_SEAL_WRITE), -EPERM);
	ck_assert_int_eq(file_map_check(f, PROT_WRITE, MAP_SHARED), -EPERM);
	ck_assert_int_eq(file_map_check(f, PROT_WRITE, MAP_PRIVATE), 0);
	file_put(f);
	f = shmem_file_new(g_vfs, "dev/zero", 1 << 20, g_root);
	ck_assert(!IS_ERR(f));
	ck_assert_str_eq(path_name(g_vfs, f->path, g_ctx.root, buf, sizeof(buf)), "/dev/zero (deleted)");
	file_put(f);
}
END_TEST

START_TEST(mappings_see_the_same_bytes)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600);
	struct map_extent e;
	char buf[4];

	ck_assert_int_eq(f->ops->map_extent(f, 0, 4096, PROT_READ, MAP_SHARED, &e), -ENXIO);
	ck_assert_int_eq(vfs_ftruncate(f, 300000), 0);
	ck_assert_int_eq(f->ops->map_extent(f, 65536, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, &e), 0);
	ck_assert_uint_eq(e.len, 65536);
	memcpy(memfile_at((int64_t)e.off), "via", 3);
	ck_assert_int_eq(fix_pread(f, buf, 3, 65536), 3);
	ck_assert(memcmp(buf, "via", 3) == 0);
	ck_assert_int_eq(f->ops->map_extent(f, 262144, 1 << 20, PROT_READ, MAP_SHARED, &e), 0);
	ck_assert_uint_eq(e.len, 40960);
	ck_assert_int_eq(vfs_ftruncate(f, 0), 0);
	ck_assert_int_eq(vfs_ftruncate(f, 70000), 0);
	ck_assert_int_eq(fix_pread(f, buf, 3, 65536), 3);
	ck_assert(memcmp(buf, "\0\0\0", 3) == 0);
	file_put(f);
}
END_TEST

START_TEST(tmpfiles_can_be_linked_unless_exclusive)
{
	struct open_how_k how = {.flags = O_TMPFILE | O_RDWR, .mode = 0600};
	struct file *f;
	struct linux_stat st;

	ck_assert_int_eq(fix_mkdir("/d"), 0);
	f = vfs_open(&g_ctx, NULL, "/d", &how);
	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(vfs_getattr(f->path, &st), 0);
	ck_assert_uint_eq(st.nlink, 0);
	ck_assert_int_eq(vfs_linkat(&g_ctx, &f->path, "", NULL, "/d/named", LOOKUP_EMPTY), 0);
	ck_assert_int_eq(fix_stat("/d/named", &st), 0);
	ck_assert_uint_eq(st.nlink, 1);
	file_put(f);
	how.flags |= O_EXCL;
	f = vfs_open(&g_ctx, NULL, "/d", &how);
	ck_assert_int_eq(vfs_linkat(&g_ctx, &f->path, "", NULL, "/d/n2", LOOKUP_EMPTY), -ENOENT);
	file_put(f);
}
END_TEST

/* Depth is the guest's choice: taking the tree apart must not recurse. */
START_TEST(deep_trees_go_away)
{
	struct path cwd = g_ctx.cwd, p;

	ck_assert_int_eq(fix_mkdir("/m"), 0);
	ck_assert_int_eq(vfs_mount(&g_ctx, "t", "/m", "tmpfs", 0, "nr_inodes=0"), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/m", 0, &g_ctx.cwd), 0);
	for (int i = 0; i < 60000; i++) {
		ck_assert_int_eq(fix_mkdir("d"), 0);
		ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "d", 0, &p), 0);
		path_put(g_ctx.cwd);
		g_ctx.cwd = p;
	}
	path_put(g_ctx.cwd);
	g_ctx.cwd = cwd;
	ck_assert_int_eq(vfs_umount(&g_ctx, "/m", 0), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		file_matches_a_byte_array, holes_are_found, size_limit_holds,
		readdir_survives_changes, directory_sizes_and_links, xattrs_by_namespace,
		memfd_seals, mappings_see_the_same_bytes, tmpfiles_can_be_linked_unless_exclusive,
		deep_trees_go_away,
	};
	Suite *s = suite_create("tmpfs");
	TCase *tc = tcase_create("all");

	tcase_add_checked_fixture(tc, fix_setup, fix_teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
