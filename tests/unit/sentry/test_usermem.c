/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory access over a fake guest of a few pages, some of them bad: bounds, partial copies,
 * strings, versioned structs, iovec import. Also that no byte is read twice.
 */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "platform/platform_priv.h"
#include "sentry/mm/mm.h"
#include "sentry/task/task.h"

#define BASE  0x100000ull
#define PAGES 4u

static char g_mem[PAGES * 4096];
static int g_bad[PAGES]; /* not mapped */
static int g_readonly[PAGES];
static uint8_t g_reads[PAGES * 4096]; /* how often each byte was read */

static ssize_t guest_copy(uint64_t at, char *buf, size_t len, int out)
{
	size_t done = 0;

	while (done < len) {
		uint64_t a = at + done;
		size_t page = (a - BASE) / 4096, n = 4096 - a % 4096;

		if (a < BASE || page >= PAGES || g_bad[page] || (out && g_readonly[page]))
			break;
		if (n > len - done)
			n = len - done;
		if (out) {
			memcpy(g_mem + (a - BASE), buf + done, n);
		} else {
			memcpy(buf + done, g_mem + (a - BASE), n);
			for (size_t i = 0; i < n; i++)
				g_reads[a - BASE + i]++;
		}
		done += n;
	}
	return done ? (ssize_t)done : -EFAULT;
}

static ssize_t host_read(struct addrspace *as, uint64_t from, void *buf, size_t len)
{
	(void)as;
	return guest_copy(from, buf, len, 0);
}

static ssize_t host_write(struct addrspace *as, uint64_t to, const void *buf, size_t len)
{
	(void)as;
	return guest_copy(to, (char *)(uintptr_t)buf, len, 1);
}

static int host_mem(struct context *c, const struct mem_op *ops, size_t count, size_t *done)
{
	(void)c;
	(void)ops;
	(void)count;
	(void)done;
	return 0;
}

static void host_put(struct addrspace *as)
{
	(void)as;
}

static const struct platform_ops g_ops = {
	.as_put = host_put,
	.as_read = host_read,
	.as_write = host_write,
	.mem = host_mem,
};

static struct addrspace g_as = { .ops = &g_ops };
static struct context g_ctx = { .ops = &g_ops, .as = &g_as };

/* Defined here so that the archive member with main() is not linked. */
static struct kernel g_k;
static struct thread_group g_tg;
static struct task g_task;

static void setup(void)
{
	memset(g_mem, 0, sizeof(g_mem));
	memset(g_bad, 0, sizeof(g_bad));
	memset(g_readonly, 0, sizeof(g_readonly));
	memset(g_reads, 0, sizeof(g_reads));
	memset(&g_task, 0, sizeof(g_task));
	lock_init(&g_tg.rlimit_lock, RANK_LEAF);
	g_task.k = &g_k;
	g_task.ctx = &g_ctx;
	g_task.tg = &g_tg;
	g_task.mm = mm_new(&g_k, &g_as);
}

START_TEST(whole_copies_fail_and_partial_ones_count)
{
	char buf[8192];

	setup();
	g_bad[1] = 1;
	ck_assert_int_eq(copy_from_user(&g_task, buf, BASE, 4096), 0);
	ck_assert_int_eq(copy_from_user(&g_task, buf, BASE + 1, 4096), -EFAULT);
	ck_assert_int_eq(copy_from_user_some(&g_task, buf, BASE + 1, 4096), 4095);
	ck_assert_int_eq(copy_from_user_some(&g_task, buf, BASE + 4096, 4096), -EFAULT);
	ck_assert_int_eq(copy_to_user(&g_task, 0, buf, 1), -EFAULT);
	ck_assert_int_eq(copy_to_user(&g_task, UINT64_MAX, buf, 2), -EFAULT);
	ck_assert_int_eq(copy_to_user(&g_task, GUEST_TASK_SIZE - 1, buf, 2), -EFAULT);
	ck_assert_int_eq(copy_to_user(&g_task, 0, buf, 0), 0);
	g_readonly[2] = 1;
	ck_assert_int_eq(copy_to_user(&g_task, BASE + 2 * 4096, buf, 1), -EFAULT);
	ck_assert_int_eq(clear_user(&g_task, BASE + 3 * 4096, 4096), 0);
	ck_assert_int_eq(clear_user(&g_task, BASE + 3 * 4096, 4097), -EFAULT);
	mm_put(g_task.mm);
}
END_TEST

START_TEST(strings_end_at_nul_fault_or_size)
{
	char buf[64], *path;

	setup();
	g_bad[1] = 1;
	strcpy(g_mem + 4096 - 6, "hello"); /* ends exactly at the bad page */
	ck_assert_int_eq(copy_string_from_user(&g_task, buf, sizeof(buf), BASE + 4096 - 6), 5);
	ck_assert_str_eq(buf, "hello");
	memset(g_mem + 4096 - 6, 'x', 6);
	ck_assert_int_eq(copy_string_from_user(&g_task, buf, sizeof(buf), BASE + 4096 - 6),
			 -EFAULT);
	memset(g_mem, 'y', 100);
	ck_assert_int_eq(copy_string_from_user(&g_task, buf, sizeof(buf), BASE), -ENAMETOOLONG);
	g_mem[63] = 0;
	ck_assert_int_eq(copy_string_from_user(&g_task, buf, sizeof(buf), BASE), 63);
	memset(g_mem + 2 * 4096, 'p', 8192);
	path = copy_path_from_user(&g_task, BASE + 2 * 4096);
	ck_assert_int_eq(PTR_ERR(path), -ENAMETOOLONG);
	g_mem[2 * 4096 + 4095] = 0;
	memset(g_reads, 0, sizeof(g_reads));
	path = copy_path_from_user(&g_task, BASE + 2 * 4096);
	ck_assert(!IS_ERR(path));
	ck_assert_uint_eq(strlen(path), 4095);
	free(path);
	for (size_t i = 0; i < 4096; i++) {
		if (g_reads[2 * 4096 + i] != 1)
			ck_abort_msg("byte %zu read %d times", i, g_reads[2 * 4096 + i]);
	}
	mm_put(g_task.mm);
}
END_TEST

START_TEST(versioned_structs_grow_and_shrink)
{
	uint64_t k[3];

	setup();
	memset(g_mem, 1, 16);
	ck_assert_int_eq(copy_struct_from_user(&g_task, k, 24, BASE, 8, 16), -EINVAL);
	ck_assert_int_eq(copy_struct_from_user(&g_task, k, 24, BASE, 16, 16), 0);
	ck_assert(k[1] != 0 && k[2] == 0);
	ck_assert_int_eq(copy_struct_from_user(&g_task, k, 24, BASE, 40, 16), 0);
	g_mem[39] = 1;
	ck_assert_int_eq(copy_struct_from_user(&g_task, k, 24, BASE, 40, 16), -E2BIG);
	ck_assert_int_eq(copy_struct_from_user(&g_task, k, 24, BASE, 1 << 20, 16), -E2BIG);
	mm_put(g_task.mm);
}
END_TEST

START_TEST(iovecs_are_checked_and_clamped)
{
	struct uio_seg *iov = (struct uio_seg *)g_mem;
	struct uio_user uu;
	char buf[64];

	setup();
	for (int i = 0; i < 16; i++)
		iov[i] = (struct uio_seg){ BASE + 4096 + (uint64_t)i, 1 };
	memcpy(g_mem + 4096, "abcdefghijklmnop", 16);
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, BASE, 1025), -EINVAL);
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, 8, 1), -EFAULT);
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, BASE, 0), 0);
	ck_assert_uint_eq(uu.u.left, 0);
	uio_user_free(&uu);
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, BASE, 16), 0);
	ck_assert_uint_eq(uu.u.left, 16);
	ck_assert_int_eq(uio_copy_in(&uu.u, buf, 64), 16);
	ck_assert_int_eq(memcmp(buf, "abcdefghijklmnop", 16), 0);
	uio_user_free(&uu);
	iov[1].len = 0;
	iov[2].len = UINT64_MAX;
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, BASE, 3), -EINVAL);
	iov[2] = (struct uio_seg){ GUEST_TASK_SIZE - 1, 2 };
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, BASE, 3), -EFAULT);
	iov[2] = (struct uio_seg){ BASE, 1ull << 40 };
	ck_assert_int_eq(uio_import_iovec(&g_task, &uu, BASE, 3), 0);
	ck_assert_uint_eq(uu.u.left, INT_MAX & ~4095ull);
	/* Short at the first byte that is not there. */
	iov = (struct uio_seg *)(void *)uu.segs;
	uio_user_free(&uu);
	mm_put(g_task.mm);
}
END_TEST

START_TEST(a_uio_stops_at_a_bad_page_and_counts_what_went)
{
	struct uio u;
	char buf[8192] = { 0 };

	setup();
	g_bad[1] = 1;
	ck_assert_int_eq(uio_init_user(&g_task, &u, BASE + 4000, 8000), 0);
	ck_assert_int_eq(uio_copy_out(&u, buf, 200), 96);
	ck_assert_uint_eq(u.left, 8000 - 96);
	ck_assert_int_eq(uio_copy_out(&u, buf, 200), -EFAULT);
	ck_assert_int_eq(uio_init_user(&g_task, &u, UINT64_MAX - 1, 8000), -EFAULT);
	ck_assert_int_eq(uio_init_user(&g_task, &u, BASE, UINT64_MAX), 0);
	ck_assert_uint_eq(u.left, INT_MAX & ~4095ull);
	mm_put(g_task.mm);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("usermem");
	TCase *tc = tcase_create("usermem");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, whole_copies_fail_and_partial_ones_count);
	tcase_add_test(tc, strings_end_at_nul_fault_or_size);
	tcase_add_test(tc, versioned_structs_grow_and_shrink);
	tcase_add_test(tc, iovecs_are_checked_and_clamped);
	tcase_add_test(tc, a_uio_stops_at_a_bad_page_and_counts_what_went);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
