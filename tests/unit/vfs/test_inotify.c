/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/inotify.h>

#include "tests/unit/vfs/fixture.h"
#include "vfs/anon/anon.h"

static struct file *in;
static char g_buf[65536];
static ssize_t g_len, g_at;

static int watch(const char *path, uint32_t mask)
{
	int flags = inotify_lookup_flags(mask), r;
	struct path p;

	if (flags < 0)
		return flags;
	r = vfs_lookup(&g_ctx, NULL, path, (uint32_t)flags, &p);
	if (r)
		return r;
	r = inotify_add_watch_path(in, p, mask);
	path_put(p);
	return r;
}

static ssize_t read_events(size_t size)
{
	struct uio u;

	uio_init_kernel(&u, g_buf, size);
	g_at = 0;
	return g_len = file_read(in, &u);
}

/* The next event, reading more when needed; NULL when there is none. */
static struct inotify_event *next(void)
{
	struct inotify_event *e;

	if (g_at >= g_len && read_events(sizeof(g_buf)) <= 0)
		return NULL;
	e = (struct inotify_event *)(g_buf + g_at);
	g_at += (ssize_t)(sizeof(*e) + e->len);
	return e;
}

static void expect(int wd, uint32_t mask, const char *name, int line)
{
	struct inotify_event *e = next();

	ck_assert_msg(e && e->wd == wd && e->mask == mask &&
			      strcmp(e->len ? e->name : "", name) == 0 && e->len % 16 == 0,
		      "line %d: got wd %d mask %x name %s", line, e ? e->wd : 0, e ? e->mask : 0,
		      e && e->len ? e->name : "");
}
#define EXPECT(wd, mask, name) expect(wd, mask, name, __LINE__)
#define EXPECT_NONE() ck_assert_ptr_null(next())

static void start(void)
{
	fix_setup();
	g_len = g_at = 0;
	in = inotify_new(g_vfs, g_root, 0);
	ck_assert(!IS_ERR(in));
}

static void stop(void)
{
	file_put(in);
	fix_teardown();
}

START_TEST(a_directory_tells_of_its_children)
{
	struct file *f;
	int wd;

	fix_mkdir("d");
	wd = watch("d", IN_ALL_EVENTS & ~(IN_OPEN | IN_CLOSE_NOWRITE));
	ck_assert_int_eq(wd, 1);
	f = fix_open("d/f", O_CREAT | O_WRONLY, 0644);
	fix_pwrite(f, "x", 1, 0);
	fix_pwrite(f, "y", 1, 1);
	file_put(f);
	EXPECT(wd, IN_CREATE, "f");
	EXPECT(wd, IN_MODIFY, "f");
	EXPECT(wd, IN_CLOSE_WRITE, "f");
	EXPECT_NONE();
	fix_mkdir("d/sub");
	EXPECT(wd, IN_CREATE | IN_ISDIR, "sub");
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "d/f", 0), 0);
	EXPECT(wd, IN_DELETE, "f");
	EXPECT_NONE();
}
END_TEST

START_TEST(renames_are_paired_by_cookie)
{
	struct inotify_event *e;
	uint32_t cookie;
	int a, b;

	fix_mkdir("a");
	fix_mkdir("b");
	fix_create("a/x");
	a = watch("a", IN_MOVE);
	b = watch("b", IN_MOVE);
	ck_assert_int_eq(fix_rename("a/x", "b/y", 0), 0);
	e = next();
	ck_assert(e && e->wd == a && e->mask == IN_MOVED_FROM && strcmp(e->name, "x") == 0);
	cookie = e->cookie;
	ck_assert_uint_ne(cookie, 0);
	e = next();
	ck_assert(e && e->wd == b && e->mask == IN_MOVED_TO && strcmp(e->name, "y") == 0);
	ck_assert_uint_eq(e->cookie, cookie);
	EXPECT_NONE();
}
END_TEST

START_TEST(a_watch_ends_with_its_inode)
{
	int wd;

	fix_create("f");
	wd = watch("f", IN_DELETE_SELF | IN_ATTRIB);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "f", 0), 0);
	EXPECT(wd, IN_ATTRIB, "");
	EXPECT(wd, IN_DELETE_SELF, "");
	EXPECT(wd, IN_IGNORED, "");
	EXPECT_NONE();
	ck_assert_int_eq(inotify_rm_watch_wd(in, wd), -EINVAL);
}
END_TEST

START_TEST(oneshot_fires_once)
{
	int wd;

	fix_create("f");
	wd = watch("f", IN_OPEN | IN_ONESHOT);
	fix_try_open("f", O_RDONLY);
	fix_try_open("f", O_RDONLY);
	EXPECT(wd, IN_OPEN, "");
	EXPECT(wd, IN_IGNORED, "");
	EXPECT_NONE();
	ck_assert_int_eq(inotify_rm_watch_wd(in, wd), -EINVAL);
	ck_assert_int_eq(watch("f", IN_OPEN), 2);
}
END_TEST

START_TEST(masks_are_replaced_or_added)
{
	int wd;

	fix_create("f");
	wd = watch("f", IN_OPEN);
	ck_assert_int_eq(watch("f", IN_CLOSE_NOWRITE), wd);
	fix_try_open("f", O_RDONLY);
	EXPECT(wd, IN_CLOSE_NOWRITE, "");
	ck_assert_int_eq(watch("f", IN_OPEN | IN_MASK_ADD), wd);
	fix_try_open("f", O_RDONLY);
	EXPECT(wd, IN_OPEN, "");
	EXPECT(wd, IN_CLOSE_NOWRITE, "");
	ck_assert_int_eq(watch("f", IN_OPEN | IN_MASK_CREATE), -EEXIST);
	ck_assert_int_eq(watch("f", IN_OPEN | IN_ONLYDIR), -ENOTDIR);
	ck_assert_int_eq(watch("f", IN_OPEN | IN_MASK_CREATE | IN_MASK_ADD), -EINVAL);
	ck_assert_int_eq(watch("f", 0), -EINVAL);
	ck_assert_int_eq(inotify_rm_watch_wd(in, wd), 0);
	EXPECT(wd, IN_IGNORED, "");
	ck_assert_int_eq(inotify_rm_watch_wd(in, wd), -EINVAL);
}
END_TEST

START_TEST(reads_need_room_for_a_whole_event)
{
	int wd;

	fix_mkdir("d");
	wd = watch("d", IN_CREATE);
	ck_assert_int_eq(read_events(100), -EAGAIN);
	ck_assert_uint_eq(file_poll(in, NULL), 0);
	fix_create("d/a");
	fix_create("d/b");
	ck_assert_uint_eq(file_poll(in, NULL), POLLIN | POLLRDNORM);
	ck_assert_int_eq(read_events(31), -EINVAL);
	ck_assert_int_eq(read_events(40), 32);
	EXPECT(wd, IN_CREATE, "a");
	EXPECT(wd, IN_CREATE, "b");
}
END_TEST

START_TEST(a_full_queue_overflows_once)
{
	struct inotify_limits old = g_inotify_limits;
	char name[32];
	int wd;

	g_inotify_limits.max_queued_events = 10;
	fix_mkdir("d");
	wd = watch("d", IN_CREATE);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "d/%d", i);
		fix_create(name);
	}
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%d", i);
		EXPECT(wd, IN_CREATE, name);
	}
	EXPECT(-1, IN_Q_OVERFLOW, "");
	EXPECT_NONE();
	g_inotify_limits = old;
}
END_TEST

START_TEST(limits_hold)
{
	struct inotify_limits old = g_inotify_limits;

	fix_create("a");
	fix_create("b");
	g_inotify_limits.max_user_watches = 1;
	ck_assert_int_eq(watch("a", IN_OPEN), 1);
	ck_assert_int_eq(watch("b", IN_OPEN), -ENOSPC);
	ck_assert_int_eq(inotify_rm_watch_wd(in, 1), 0);
	ck_assert_int_eq(watch("b", IN_OPEN), 2);
	g_inotify_limits.max_user_instances = 1;
	ck_assert_int_eq(PTR_ERR(inotify_new(g_vfs, g_root, 0)), -EMFILE);
	ck_assert_int_eq(PTR_ERR(inotify_new(g_vfs, g_root, 1)), -EINVAL);
	g_inotify_limits = old;
}
END_TEST

START_TEST(many_watches_are_found_again)
{
	char name[32];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		fix_create(name);
		ck_assert_int_eq(watch(name, IN_OPEN), i + 1);
	}
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		ck_assert_int_eq(watch(name, IN_OPEN), i + 1);
		ck_assert_int_eq(inotify_rm_watch_wd(in, i + 1), 0);
		EXPECT(i + 1, IN_IGNORED, "");
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("inotify");
	TCase *tc = tcase_create("inotify");

	tcase_add_checked_fixture(tc, start, stop);
	tcase_add_test(tc, a_directory_tells_of_its_children);
	tcase_add_test(tc, renames_are_paired_by_cookie);
	tcase_add_test(tc, a_watch_ends_with_its_inode);
	tcase_add_test(tc, oneshot_fires_once);
	tcase_add_test(tc, masks_are_replaced_or_added);
	tcase_add_test(tc, reads_need_room_for_a_whole_event);
	tcase_add_test(tc, a_full_queue_overflows_once);
	tcase_add_test(tc, limits_hold);
	tcase_add_test(tc, many_watches_are_found_again);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
