/* SPDX-License-Identifier: Apache-2.0 */
/* Open files and attributes: positions, appends, limits, set-id bits, times, events; threads. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/unit/vfs/fixture.h"

static ssize_t fwrite_str(struct file *f, const char *s, uint64_t limit)
{
	struct uio u;

	uio_init_kernel(&u, (void *)(uintptr_t)s, strlen(s));
	return file_write(f, &u, limit);
}

static ssize_t fread_n(struct file *f, char *buf, size_t n)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	return file_read(f, &u);
}

START_TEST(positions_and_modes)
{
	struct file *f = fix_open("/x", O_CREAT | O_RDWR, 0600), *g;
	char buf[16] = {0};
	struct uio u;

	ck_assert_int_eq(fwrite_str(f, "hello", UINT64_MAX), 5);
	ck_assert_int_eq(f->pos, 5);
	ck_assert_int_eq(file_llseek(f, 1, SEEK_SET), 1);
	ck_assert_int_eq(fread_n(f, buf, 2), 2);
	ck_assert_str_eq(buf, "el");
	ck_assert_int_eq(file_llseek(f, 0, SEEK_CUR), 3);
	ck_assert_int_eq(file_llseek(f, 0, 9), -EINVAL);
	ck_assert_int_eq(fix_pread(f, buf, 2, -1), -EINVAL);
	ck_assert_int_eq(fix_pread(f, buf, 2, 100), 0);
	g = fix_open("/x", O_WRONLY, 0);
	ck_assert_int_eq(fread_n(g, buf, 2), -EBADF);
	file_put(g);
	g = fix_open("/x", O_RDONLY, 0);
	ck_assert_int_eq(fwrite_str(g, "x", UINT64_MAX), -EBADF);
	ck_assert_int_eq(file_fallocate(g, 0, 0, 1, UINT64_MAX), -EBADF);
	ck_assert_int_eq(vfs_ftruncate(g, 0), -EINVAL);
	file_put(g);
	g = fix_open("/x", O_PATH, 0);
	ck_assert_int_eq(fread_n(g, buf, 2), -EBADF);
	ck_assert_int_eq(file_llseek(g, 0, SEEK_SET), -EBADF);
	file_put(g);
	g = fix_open("/", O_RDONLY, 0);
	ck_assert_int_eq(fread_n(g, buf, 2), -EISDIR);
	file_put(g);
	ck_assert_int_eq(file_fallocate(f, FALLOC_FL_PUNCH_HOLE, 0, 1, UINT64_MAX), -EOPNOTSUPP);
	ck_assert_int_eq(file_fallocate(f, FALLOC_FL_ZERO_RANGE, 0, 1, UINT64_MAX), -EOPNOTSUPP);
	ck_assert_int_eq(file_fallocate(f, 0, 0, 0, UINT64_MAX), -EINVAL);
	uio_init_kernel(&u, buf, 1);
	ck_assert_int_eq(file_pwrite(f, &u, 0, UINT64_MAX, 0x400), -EOPNOTSUPP);
	file_put(f);
}
END_TEST

START_TEST(appends_and_limits)
{
	struct file *f = fix_open("/x", O_CREAT | O_WRONLY | O_APPEND, 0600);
	struct uio u;

	ck_assert_int_eq(fwrite_str(f, "one", UINT64_MAX), 3);
	ck_assert_int_eq(file_llseek(f, 0, SEEK_SET), 0);
	ck_assert_int_eq(fwrite_str(f, "two", UINT64_MAX), 3);
	ck_assert_int_eq(f->pos, 6);
	ck_assert_int_eq(fix_pwrite(f, "!", 1, 0), 1); /* pwrite appends too, as on Linux */
	ck_assert_uint_eq(f->inode->size, 7);
	uio_init_kernel(&u, (char[]){'Z'}, 1);
	ck_assert_int_eq(file_pwrite(f, &u, 0, UINT64_MAX, 0x20 /* RWF_NOAPPEND */), 1);
	ck_assert_uint_eq(f->inode->size, 7);
	ck_assert_int_eq(fwrite_str(f, "12345", 9), 2); /* RLIMIT_FSIZE cuts, then refuses */
	ck_assert_int_eq(fwrite_str(f, "12345", 9), -EFBIG);
	ck_assert_int_eq(file_set_flags(f, 0), 0);
	ck_assert_int_eq(file_llseek(f, 0, SEEK_SET), 0);
	ck_assert_int_eq(fwrite_str(f, "a", UINT64_MAX), 1);
	ck_assert_uint_eq(f->inode->size, 9);
	file_put(f);
}
END_TEST

static int mode_of(const char *path)
{
	struct linux_stat st;

	ck_assert_int_eq(fix_stat(path, &st), 0);
	return (int)(st.mode & 07777);
}

START_TEST(set_id_bits_go)
{
	struct path p;
	struct file *f;

	fix_create("/x");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/x", 0, &p), 0);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 1000, 1000), 0);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 06777), 0);
	f = fix_open("/x", O_WRONLY, 0);
	ck_assert_int_eq(fwrite_str(f, "r", UINT64_MAX), 1); /* root keeps them */
	file_put(f);
	ck_assert_int_eq(mode_of("/x"), 06777);
	g_ctx.cred = g_user;
	f = fix_open("/x", O_WRONLY, 0);
	ck_assert_int_eq(fwrite_str(f, "u", UINT64_MAX), 1);
	file_put(f);
	ck_assert_int_eq(mode_of("/x"), 0777);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 06777), 0);
	ck_assert_int_eq(vfs_truncate(&g_ctx, p, 0), 0);
	ck_assert_int_eq(mode_of("/x"), 0777);
	/* chmod by the owner to a group it is not in loses setgid */
	g_ctx.cred = g_root;
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 1000, 50), 0);
	g_ctx.cred = g_user;
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 02755), 0);
	ck_assert_int_eq(mode_of("/x"), 0755);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 0, -1u), -EPERM);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, -1u, 0), -EPERM);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, -1u, 1000), 0);
	/* chown by root strips too */
	g_ctx.cred = g_root;
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 06755), 0);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 1000, 1000), 0);
	ck_assert_int_eq(mode_of("/x"), 0755);
	path_put(p);
	/* setgid directories hand their group on */
	ck_assert_int_eq(fix_mkdir("/g"), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/g", 0, &p), 0);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 0, 50), 0);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 02777), 0);
	path_put(p);
	ck_assert_int_eq(fix_mkdir("/g/d"), 0);
	ck_assert_int_eq(mode_of("/g/d"), 02755);
}
END_TEST

START_TEST(times)
{
	struct linux_timespec ts[2] = {{.sec = 1000, .nsec = 5}, {.nsec = UTIME_OMIT}};
	struct linux_stat st, st2;
	char buf[4];
	struct path p;
	struct file *f;

	fix_create("/x");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/x", 0, &p), 0);
	ck_assert_int_eq(vfs_getattr(p, &st), 0);
	ck_assert_int_eq(vfs_utimens(&g_ctx, p, ts), 0);
	ck_assert_int_eq(vfs_getattr(p, &st2), 0);
	ck_assert_int_eq(st2.atime.sec, 1000);
	ck_assert_int_eq(st2.mtime.sec, st.mtime.sec);
	/* relatime: atime before mtime is due */
	f = fix_open("/x", O_RDWR, 0);
	ck_assert_int_eq(fix_pwrite(f, "a", 1, 0), 1);
	ck_assert_int_eq(fread_n(f, buf, 1), 1);
	ck_assert_int_eq(vfs_getattr(p, &st2), 0);
	ck_assert_int_ne(st2.atime.sec, 1000);
	file_put(f);
	g_ctx.cred = g_user;
	ck_assert_int_eq(vfs_utimens(&g_ctx, p, ts), -EPERM);
	ck_assert_int_eq(vfs_utimens(&g_ctx, p, NULL), -EACCES);
	ts[0].nsec = UTIME_OMIT;
	ck_assert_int_eq(vfs_utimens(&g_ctx, p, ts), 0);
	ts[0].nsec = 1000000000;
	ck_assert_int_eq(vfs_utimens(&g_ctx, p, ts), -EINVAL);
	path_put(p);
}
END_TEST

/* ---- events ---- */

static char g_events[1000];

static void log_event(struct notify_watch *w, uint32_t mask, uint32_t cookie, const char *name)
{
	size_t n = strlen(g_events);

	snprintf(g_events + n, sizeof(g_events) - n, "%x:%s ", mask, name ? name : "");
}

START_TEST(events_reach_watches)
{
	struct notify_watch d = {.mask = IN_ALL_EVENTS, .event = log_event};
	struct notify_watch x = {.mask = IN_ALL_EVENTS, .event = log_event};
	struct path p;
	struct file *f;

	ck_assert_int_eq(fix_mkdir("/d"), 0);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/d", 0, &p), 0);
	notify_add(g_vfs, &d, p.dentry->inode);
	path_put(p);
	f = fix_open("/d/x", O_CREAT | O_WRONLY, 0600);
	ck_assert_int_eq(fwrite_str(f, "a", UINT64_MAX), 1);
	file_put(f);
	ck_assert_str_eq(g_events, "100:x 20:x 2:x 8:x ");
	g_events[0] = 0;
	ck_assert_int_eq(fix_rename("/d/x", "/d/y", 0), 0);
	ck_assert_int_eq(fix_mkdir("/d/s"), 0);
	ck_assert_str_eq(g_events, "40:x 80:y 40000100:s ");
	g_events[0] = 0;
	/* the file goes with its last descriptor */
	f = fix_open("/d/y", O_RDONLY, 0);
	notify_del(g_vfs, &d);
	g_events[0] = 0;
	notify_add(g_vfs, &x, f->inode);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/y", 0), 0);
	ck_assert_str_eq(g_events, "4: ");
	file_put(f);
	ck_assert_str_eq(g_events, "4: 10: 400: 8000: ");
	ck_assert_ptr_null(x.inode);
	notify_del(g_vfs, &x);
	/* an unmount ends watches */
	ck_assert_int_eq(vfs_mount(&g_ctx, "t", "/d", "tmpfs", 0, ""), 0);
	fix_create("/d/z");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/d/z", 0, &p), 0);
	notify_add(g_vfs, &x, p.dentry->inode);
	path_put(p);
	g_events[0] = 0;
	ck_assert_int_eq(vfs_umount(&g_ctx, "/d", 0), 0);
	ck_assert_str_eq(g_events, "2000: 8000: ");
	ck_assert_ptr_null(x.inode);
}
END_TEST

START_TEST(copies_between_files)
{
	struct file *a = fix_open("/a", O_CREAT | O_RDWR, 0600);
	struct file *b = fix_open("/b", O_CREAT | O_RDWR, 0600);
	static char big[600000], back[600000];
	int64_t in = 100, out = 5;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 + i / 251);
	ck_assert_int_eq(fix_pwrite(a, big, sizeof(big), 0), sizeof(big));
	ck_assert_int_eq(file_copy_range(a, &in, b, &out, 1 << 20, UINT64_MAX), sizeof(big) - 100);
	ck_assert_int_eq(in, sizeof(big));
	ck_assert_int_eq(fix_pread(b, back, sizeof(big), 5), sizeof(big) - 100);
	ck_assert(memcmp(back, big + 100, sizeof(big) - 100) == 0);
	/* a limit leaves the positions where the bytes ended */
	ck_assert_int_eq(file_copy_range(a, NULL, b, NULL, 1000, 300), 300);
	ck_assert_int_eq(a->pos, 300);
	ck_assert_int_eq(b->pos, 300);
	ck_assert_int_eq(file_copy_range(a, NULL, b, NULL, 1000, 300), -EFBIG);
	ck_assert_int_eq(a->pos, 300);
	file_put(a);
	file_put(b);
}
END_TEST

/* ---- threads ---- */

#define ROUNDS 3000

static void *churn(void *arg)
{
	unsigned int id = (unsigned int)(uintptr_t)arg, seed = id * 77 + 1;
	char a[64], b[64];

	for (int i = 0; i < ROUNDS; i++) {
		struct file *f;

		snprintf(a, sizeof(a), "/w/%u/f%u", rand_r(&seed) % 3, rand_r(&seed) % 6);
		snprintf(b, sizeof(b), "/w/%u/f%u", rand_r(&seed) % 3, rand_r(&seed) % 6);
		switch (rand_r(&seed) % 9) {
		case 0:
			fix_try_open(a, O_CREAT | O_WRONLY);
			break;
		case 1:
			vfs_unlinkat(&g_ctx, NULL, a, 0);
			break;
		case 2:
			fix_rename(a, b, 0);
			break;
		case 3:
			fix_rename(a, b, RENAME_EXCHANGE);
			break;
		case 4:
			fix_mkdir(a);
			break;
		case 5:
			vfs_unlinkat(&g_ctx, NULL, a, 1);
			break;
		case 6:
			fix_link(b, a);
			break;
		case 7:
			vfs_linkat(&g_ctx, NULL, a, NULL, b, 0);
			break;
		default:
			f = fix_open(a, O_RDWR | O_APPEND, 0);
			if (!IS_ERR(f)) {
				fwrite_str(f, "x", UINT64_MAX);
				file_put(f);
			}
		}
		fix_stat("/w/1/f1/../f2", NULL);
		if (i % 64 == 0) {
			struct path p;

			if (!vfs_lookup(&g_ctx, NULL, "/w/2/f1", 0, &p)) {
				dentry_invalidate(p.dentry);
				path_put(p);
			}
			if (!vfs_mount(&g_ctx, "t", "/w/0", "tmpfs", 0, ""))
				vfs_umount(&g_ctx, "/w/0", 2);
		}
	}
	return NULL;
}

START_TEST(threads_do_not_break_the_tree)
{
	pthread_t t[4];

	ck_assert_int_eq(fix_mkdir("/w"), 0);
	ck_assert_int_eq(fix_mkdir("/w/0"), 0);
	ck_assert_int_eq(fix_mkdir("/w/1"), 0);
	ck_assert_int_eq(fix_mkdir("/w/2"), 0);
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}
END_TEST

static struct file *g_shared;

static void *append_lines(void *arg)
{
	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(fwrite_str(g_shared, "0123456789", UINT64_MAX), 10);
	return NULL;
}

static void *append_own(void *arg)
{
	struct file *f = fix_open("/log", O_WRONLY | O_APPEND, 0);

	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(fwrite_str(f, "abcdefghij", UINT64_MAX), 10);
	file_put(f);
	return NULL;
}

START_TEST(appends_do_not_overlap)
{
	pthread_t t[4];

	g_shared = fix_open("/log", O_CREAT | O_WRONLY | O_APPEND, 0600);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, i % 2 ? append_own : append_lines, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(g_shared->inode->size, 80000);
	file_put(g_shared);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		positions_and_modes, appends_and_limits, set_id_bits_go, times,
		events_reach_watches, copies_between_files, threads_do_not_break_the_tree,
		appends_do_not_overlap,
	};
	Suite *s = suite_create("file");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 30);
	tcase_add_checked_fixture(tc, fix_setup, fix_teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	return fix_run(s);
}
