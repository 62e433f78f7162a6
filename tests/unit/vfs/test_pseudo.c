/* SPDX-License-Identifier: Apache-2.0 */
/* Table-made filesystems: lookup, instances, text at position 0, writes, and cgroup2 as a user. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "vfs/cgroup/cgroup.h"
#include "vfs/pseudo/pseudo.h"
#include "vfs/vfs.h"

static int g_count;
static char g_written[64];

static int show_count(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "count %d\n", g_count++);
	return 0;
}

static int show_key(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "%d\n", (int)rq->inst->key[1]);
	return 0;
}

static ssize_t take(const struct pseudo_req *rq, char *buf, size_t len)
{
	if (len >= sizeof(g_written))
		return -EINVAL;
	memcpy(g_written, buf, len + 1);
	return (ssize_t)len;
}

static const struct pseudo_desc g_item[] = { PSEUDO_FILE("key", 0444, show_key), PSEUDO_END };
static const struct pseudo_desc g_each = { .mode = S_IFDIR | 0555, .children = g_item };

static int next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		char name[PSEUDO_NAME_SIZE])
{
	if (from > 30)
		return 0;
	*key = (from + 9) / 10 * 10;
	snprintf(name, PSEUDO_NAME_SIZE, "%d", (int)*key);
	return 1;
}

static int find(const struct pseudo_req *dir, const char *name, size_t len,
		struct pseudo_inst *inst)
{
	uint64_t v;

	if (pseudo_name_number(name, len, 31, &v) || v % 10)
		return -ENOENT;
	inst->key[1] = v;
	return 0;
}

static const struct pseudo_dyn g_dyn = { .slot = 1, .next = next, .find = find, .each = &g_each };
static const struct pseudo_desc g_top[] = {
	PSEUDO_FILE("count", 0444, show_count),
	{ .name = "in", .mode = S_IFREG | 0644, .show = show_count, .write = take },
	{ .name = "link", .mode = S_IFLNK | 0777, .ptr = "count" },
	PSEUDO_END,
};
static const struct pseudo_desc g_root = { .mode = S_IFDIR | 0555, .children = g_top, .dyn = &g_dyn };
static const struct pseudo_fs g_fs = { .magic = 1, .file_size = 10, .root = &g_root };
static const struct fs_type g_type = { .name = "testfs" };

static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct mount *g_mnt;
static struct mnt_ns *g_ns;

static void mount_sb(struct superblock *sb)
{
	ck_assert(!IS_ERR(sb));
	g_mnt = mount_new(sb, 0);
	g_ns = mnt_ns_new(g_vfs, mount_get(g_mnt));
	g_ctx.root = g_ctx.cwd = (struct path){ g_mnt, g_mnt->root };
	g_ctx.ns = g_ns;
}

static void setup(void)
{
	hash_seed(1);
	g_vfs = vfs_new();
	g_ctx.vfs = g_vfs;
	g_ctx.cred = cred_new(0, 0, CAP_ALL_MASK);
	mount_sb(pseudo_mount(g_vfs, &g_type, "none", 0, &g_fs, NULL, NULL));
}

static void teardown(void)
{
	mount_put(g_mnt);
	mnt_ns_put(g_ns);
	cred_put(g_ctx.cred);
	vfs_destroy(g_vfs);
}

static struct file *open_at(const char *path, int flags)
{
	struct open_how_k how = { .flags = (uint64_t)flags };

	return vfs_open(&g_ctx, NULL, path, &how);
}

static const char *get(const char *path)
{
	static char buf[4096];
	struct file *f = open_at(path, O_RDONLY);

	if (IS_ERR(f))
		return "<none>";
	ssize_t n = file_kread(f, buf, sizeof(buf) - 1, 0);

	ck_assert_int_ge(n, 0);
	buf[n] = 0;
	file_put(f);
	return buf;
}

static ssize_t put(const char *path, const char *s)
{
	struct file *f = open_at(path, O_WRONLY);
	struct uio u;

	if (IS_ERR(f))
		return PTR_ERR(f);
	uio_init_kernel(&u, (void *)(uintptr_t)s, strlen(s));
	ssize_t n = file_write(f, &u, UINT64_MAX);

	file_put(f);
	return n;
}

struct names {
	struct dir_emit de;
	char text[4096];
	int limit;
};

static int names_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t ino, uint8_t type)
{
	struct names *n = container_of(de, struct names, de);

	if (n->limit-- <= 0)
		return 0;
	strncat(n->text, name, len);
	strcat(n->text, " ");
	return 1;
}

START_TEST(text_is_stable_while_read)
{
	struct file *f = open_at("/count", O_RDONLY);
	char buf[16];

	ck_assert(!IS_ERR(f));
	g_count = 5;
	ck_assert_int_eq(file_kread(f, buf, 3, 0), 3);
	ck_assert_int_eq(file_kread(f, buf, 16, 6), 2); /* "5\n": not made again */
	ck_assert_int_eq(buf[0], '5');
	ck_assert_int_eq(file_kread(f, buf, 16, 0), 8);
	ck_assert_int_eq(memcmp(buf, "count 6\n", 8), 0);
	file_put(f);
	g_count = 1;
	ck_assert_str_eq(get("/link"), "count 1\n");
	ck_assert_int_eq(PTR_ERR(open_at("/none", O_RDONLY)), -ENOENT);
	ck_assert_int_eq(PTR_ERR(open_at("/new", O_WRONLY | O_CREAT)), -EACCES);
}
END_TEST

START_TEST(writes_arrive_whole)
{
	char big[5000];
	struct path p;

	ck_assert_int_eq(put("/in", "hello"), 5);
	ck_assert_str_eq(g_written, "hello");
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	ck_assert_int_eq(put("/in", big), -EINVAL);
	ck_assert_int_eq(put("/count", "x"), -EINVAL);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/in", 0, &p), 0);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 0777), -EPERM);
	path_put(p);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/dir", 0755), -EPERM);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/in", 0), -EPERM);
}
END_TEST

START_TEST(instances)
{
	struct linux_stat a, b;
	struct path p;

	ck_assert_str_eq(get("/20/key"), "20\n");
	ck_assert_str_eq(get("/21/key"), "<none>");
	for (int step = 1; step < 4; step++) {
		struct names n = { .de = { .emit = names_emit } };
		struct file *f = open_at("/", O_RDONLY | O_DIRECTORY);

		ck_assert(!IS_ERR(f));
		for (int i = 0; i < 12; i++) {
			n.limit = step;
			ck_assert_int_eq(file_iterate(f, &n.de), 0);
		}
		ck_assert_str_eq(n.text, ". .. count in link 0 10 20 30 ");
		file_put(f);
	}
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/10", 0, &p), 0);
	ck_assert_int_eq(vfs_getattr(p, &a), 0);
	path_put(p);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/20", 0, &p), 0);
	ck_assert_int_eq(vfs_getattr(p, &b), 0);
	path_put(p);
	ck_assert_uint_ne(a.ino, b.ino);
}
END_TEST

START_TEST(numbers)
{
	int64_t v;
	uint64_t u;

	ck_assert_int_eq(pseudo_parse_s64(" -12\n", 5, &v), 0);
	ck_assert_int_eq(v, -12);
	ck_assert_int_eq(pseudo_parse_s64("9223372036854775807", 19, &v), 0);
	ck_assert_int_eq(pseudo_parse_s64("9223372036854775808", 19, &v), -ERANGE);
	ck_assert_int_eq(pseudo_parse_s64("-9223372036854775808", 20, &v), 0);
	ck_assert(v == INT64_MIN);
	ck_assert_int_eq(pseudo_parse_s64("1x", 2, &v), -EINVAL);
	ck_assert_int_eq(pseudo_parse_s64("", 0, &v), -EINVAL);
	ck_assert_int_eq(pseudo_name_number("007", 3, 10, &u), -ENOENT);
	ck_assert_int_eq(pseudo_name_number("0", 1, 10, &u), 0);
	ck_assert_int_eq(pseudo_name_number("+1", 2, 10, &u), -ENOENT);
}
END_TEST

static void cg_stats(const struct cgroup_source *cs, struct cgroup_stats *st)
{
	st->memory_current = 4096;
	st->memory_max = 1 << 20;
	st->pids_current = 3;
}

static int cg_limit(const struct cgroup_source *cs, enum cgroup_limit which, uint64_t val)
{
	return which == CGROUP_PIDS_MAX && val == 10 ? 0 : -EPERM;
}

START_TEST(cgroup_files)
{
	static const struct cgroup_source src = { .cpu_count = 2, .stats = cg_stats,
						  .limit_set = cg_limit };
	struct mount *m = g_mnt;
	struct mnt_ns *ns = g_ns;

	cgroup_set_source(&src);
	mount_sb(g_cgroup2_type.mount(g_vfs, "cgroup2", 0, "nsdelegate", NULL));
	ck_assert_str_eq(get("/memory.max"), "1048576\n");
	ck_assert_str_eq(get("/memory.current"), "4096\n");
	ck_assert_str_eq(get("/pids.max"), "max\n");
	ck_assert_str_eq(get("/cpu.max"), "max 100000\n");
	ck_assert_str_eq(get("/cpuset.cpus.effective"), "0-1\n");
	ck_assert_int_eq(put("/pids.max", "10\n"), 3);
	ck_assert_int_eq(put("/memory.max", "1G"), -EPERM);
	ck_assert_int_eq(put("/memory.max", "1X"), -EINVAL);
	ck_assert_int_eq(put("/cpu.weight", "0"), -ERANGE);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/child", 0755), -EPERM);
	mount_put(g_mnt);
	mnt_ns_put(g_ns);
	g_mnt = m;
	g_ns = ns;
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pseudo");
	TCase *tc = tcase_create("pseudo");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text_is_stable_while_read);
	tcase_add_test(tc, writes_arrive_whole);
	tcase_add_test(tc, instances);
	tcase_add_test(tc, numbers);
	tcase_add_test(tc, cgroup_files);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
