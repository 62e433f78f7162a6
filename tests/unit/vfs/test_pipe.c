/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/ioctl.h>

#include "tests/unit/vfs/files_kit.h"
#include "vfs/pipe.h"

static struct file *p[2];

static void open_pipe(uint32_t flags)
{
	ck_assert_int_eq(pipe_new(g_vfs, g_cred, flags, p), 0);
}

static void close_both(void)
{
	file_put(p[0]);
	file_put(p[1]);
}

START_TEST(bytes_come_out_as_they_went_in)
{
	char in[10000], out[10000];

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7);
	open_pipe(0);
	ck_assert_int_eq(kread(p[0], out, 1), -EAGAIN);
	ck_assert_int_eq(kwrite(p[1], in, 3), 3);
	ck_assert_int_eq(kwrite(p[1], in + 3, sizeof(in) - 3), sizeof(in) - 3);
	ck_assert_int_eq(kread(p[0], out, 100), 100);
	ck_assert_int_eq(kread(p[0], out + 100, sizeof(out)), sizeof(in) - 100);
	ck_assert(memcmp(in, out, sizeof(in)) == 0);
	ck_assert_int_eq(kread(p[0], out, 0), 0);
	close_both();
}
END_TEST

START_TEST(full_pipe_refuses_and_wakes_writers_when_a_page_is_free)
{
	static char buf[70000];
	struct probe w;
	int n;

	open_pipe(0);
	ck_assert_int_eq(kwrite(p[1], buf, sizeof(buf)), 65536);
	ck_assert_int_eq(kwrite(p[1], buf, 1), -EAGAIN);
	ck_assert_uint_eq(probe_start(&w, p[1]), 0);
	ck_assert_int_eq(kioctl(p[0], FIONREAD, &n), 0);
	ck_assert_int_eq(n, 65536);
	ck_assert_int_eq(kread(p[0], buf, 4095), 4095);
	ck_assert_int_eq(w.wakes, 0);
	ck_assert_int_eq(kread(p[0], buf, 1), 1);
	ck_assert_int_eq(w.wakes, 1);
	ck_assert_uint_eq(file_poll(p[1], NULL), POLLOUT | POLLWRNORM);
	ck_assert_int_eq(kwrite(p[1], buf, 4096), 4096);
	ck_assert_int_eq(kwrite(p[1], buf, 1), -EAGAIN);
	probe_stop(&w);
	close_both();
}
END_TEST

START_TEST(every_write_wakes_readers)
{
	struct probe r;

	open_pipe(0);
	ck_assert_uint_eq(probe_start(&r, p[0]), 0);
	kwrite(p[1], "a", 1);
	kwrite(p[1], "b", 1);
	ck_assert_int_eq(r.wakes, 2);
	probe_stop(&r);
	close_both();
}
END_TEST

START_TEST(ends_that_go_away_show)
{
	char c;

	open_pipe(0);
	kwrite(p[1], "x", 1);
	file_put(p[1]);
	ck_assert_uint_eq(file_poll(p[0], NULL), POLLIN | POLLRDNORM | POLLHUP);
	ck_assert_int_eq(kread(p[0], &c, 1), 1);
	ck_assert_int_eq(kread(p[0], &c, 1), 0);
	ck_assert_uint_eq(file_poll(p[0], NULL), POLLHUP);
	file_put(p[0]);

	open_pipe(0);
	file_put(p[0]);
	ck_assert_int_eq(kwrite(p[1], "x", 1), -EPIPE);
	ck_assert_int_eq(kwrite(p[1], "x", 0), 0);
	ck_assert_uint_eq(file_poll(p[1], NULL), POLLOUT | POLLWRNORM | POLLERR);
	file_put(p[1]);
}
END_TEST

START_TEST(packets_stay_apart_and_lose_their_tail)
{
	char buf[32];

	open_pipe(O_DIRECT);
	kwrite(p[1], "abc", 3);
	kwrite(p[1], "defgh", 5);
	ck_assert_int_eq(kread(p[0], buf, 2), 2);
	ck_assert_int_eq(kread(p[0], buf, sizeof(buf)), 5);
	ck_assert(memcmp(buf, "defgh", 5) == 0);
	close_both();
}
END_TEST

START_TEST(flags_are_checked)
{
	ck_assert_int_eq(pipe_new(g_vfs, g_cred, O_APPEND, p), -EINVAL);
	ck_assert_int_eq(pipe_new(g_vfs, g_cred, O_EXCL, p), -ENOPKG);
}
END_TEST

START_TEST(sizes_round_up_and_keep_the_bytes)
{
	static char buf[65536];

	open_pipe(0);
	ck_assert_int_eq(pipe_get_size(p[0]), 65536);
	kwrite(p[1], buf, 5000);
	ck_assert_int_eq(pipe_set_size(p[1], 4096, g_cred), -EBUSY);
	ck_assert_int_eq(pipe_set_size(p[1], 5000, g_cred), 8192);
	ck_assert_int_eq(kwrite(p[1], buf, 4096), -EAGAIN);
	ck_assert_int_eq(pipe_set_size(p[0], 1 << 20, g_nobody), 1 << 20);
	ck_assert_int_eq(pipe_set_size(p[0], (1 << 20) + 1, g_nobody), -EPERM);
	ck_assert_int_eq(pipe_set_size(p[0], (1 << 20) + 1, g_cred), 1 << 21);
	ck_assert_int_eq(pipe_set_size(p[0], (1ull << 31) + 1, g_cred), -EINVAL);
	ck_assert_int_eq(kread(p[0], buf, sizeof(buf)), 5000);
	ck_assert_int_eq(pipe_set_size(p[0], 0, g_cred), 4096);
	close_both();
}
END_TEST

START_TEST(tee_shares_and_splice_moves)
{
	struct file *q[2];
	struct splice_wait w;
	char buf[64];

	open_pipe(0);
	ck_assert_int_eq(pipe_new(g_vfs, g_cred, 0, q), 0);
	ck_assert_int_eq(tee_once(p[0], q[1], 10, &w), -EAGAIN);
	ck_assert_ptr_eq(w.file, p[0]);
	kwrite(p[1], "hello", 5);
	ck_assert_int_eq(tee_once(p[0], q[1], 10, &w), 5);
	/* The shared page must not be appended to through either pipe. */
	kwrite(p[1], "P", 1);
	kwrite(q[1], "Q", 1);
	ck_assert_int_eq(kread(q[0], buf, sizeof(buf)), 6);
	ck_assert(memcmp(buf, "helloQ", 6) == 0);
	ck_assert_int_eq(splice_once(p[0], NULL, q[1], NULL, 3, UINT64_MAX, &w), 3);
	ck_assert_int_eq(kread(q[0], buf, sizeof(buf)), 3);
	ck_assert_int_eq(kread(p[0], buf, sizeof(buf)), 3);
	ck_assert(memcmp(buf, "loP", 3) == 0);
	ck_assert_int_eq(splice_once(p[0], NULL, p[1], NULL, 3, UINT64_MAX, &w), -EINVAL);
	ck_assert_int_eq(splice_once(p[1], NULL, q[1], NULL, 3, UINT64_MAX, &w), -EBADF);
	int64_t off = 0;
	ck_assert_int_eq(splice_once(p[0], &off, q[1], NULL, 3, UINT64_MAX, &w), -ESPIPE);
	file_put(p[1]);
	ck_assert_int_eq(splice_once(p[0], NULL, q[1], NULL, 3, UINT64_MAX, &w), 0);
	file_put(p[0]);
	file_put(q[0]);
	file_put(q[1]);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, bytes_come_out_as_they_went_in);
	tcase_add_test(tc, full_pipe_refuses_and_wakes_writers_when_a_page_is_free);
	tcase_add_test(tc, every_write_wakes_readers);
	tcase_add_test(tc, ends_that_go_away_show);
	tcase_add_test(tc, packets_stay_apart_and_lose_their_tail);
	tcase_add_test(tc, flags_are_checked);
	tcase_add_test(tc, sizes_round_up_and_keep_the_bytes);
	tcase_add_test(tc, tee_shares_and_splice_moves);
}

int main(void)
{
	return kit_run("pipe", add);
}
