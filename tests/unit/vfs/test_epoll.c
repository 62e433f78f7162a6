/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/vfs/files_kit.h"
#include "vfs/anon/anon.h"
#include "vfs/epoll.h"
#include "vfs/pipe.h"

static struct file *ep;

static int ctl(struct file *e, int op, struct file *t, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return epoll_ctl_file(e, op, t, fd, &ev, g_cred);
}

static int collect(struct file *e, struct epoll_event *out, int max)
{
	return epoll_collect(e, out, max);
}

START_TEST(level_reports_again_edge_once)
{
	struct file *a = eventfd_new(g_vfs, g_cred, 0, 0), *b = eventfd_new(g_vfs, g_cred, 0, 0);
	uint64_t one = 1;
	struct epoll_event ev[4];
	struct probe w;

	ep = epoll_new(g_vfs, g_cred);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, a, 3, EPOLLIN, 1), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, b, 4, EPOLLIN | EPOLLET, 2), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, b, 4, EPOLLIN, 2), -EEXIST);
	ck_assert_int_eq(collect(ep, ev, 4), 0);
	ck_assert_uint_eq(probe_start(&w, ep), 0);
	kwrite(a, &one, 8);
	ck_assert_int_eq(w.wakes, 1);
	kwrite(b, &one, 8);
	ck_assert_uint_eq(file_poll(ep, NULL), POLLIN | POLLRDNORM);
	ck_assert_int_eq(collect(ep, ev, 4), 2);
	ck_assert_uint_eq(ev[0].data.u64 + ev[1].data.u64, 3);
	ck_assert_int_eq(collect(ep, ev, 4), 1);
	ck_assert_uint_eq(ev[0].data.u64, 1);
	kwrite(b, &one, 8);
	ck_assert_int_eq(collect(ep, ev, 4), 2);
	kread(a, &one, 8);
	ck_assert_int_eq(collect(ep, ev, 4), 0);
	ck_assert_uint_eq(file_poll(ep, NULL), 0);
	probe_stop(&w);
	file_put(a);
	file_put(b);
	file_put(ep);
}
END_TEST

START_TEST(oneshot_needs_rearming)
{
	struct file *a = eventfd_new(g_vfs, g_cred, 1, 0);
	struct epoll_event ev[4];

	ep = epoll_new(g_vfs, g_cred);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, a, 3, EPOLLIN | EPOLLONESHOT, 1), 0);
	ck_assert_int_eq(collect(ep, ev, 4), 1);
	ck_assert_int_eq(collect(ep, ev, 4), 0);
	uint64_t one = 1;
	kwrite(a, &one, 8);
	ck_assert_int_eq(collect(ep, ev, 4), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_MOD, a, 3, EPOLLIN | EPOLLONESHOT, 9), 0);
	ck_assert_int_eq(collect(ep, ev, 4), 1);
	ck_assert_uint_eq(ev[0].data.u64, 9);
	file_put(a);
	file_put(ep);
}
END_TEST

START_TEST(wrong_uses_get_their_errnos)
{
	struct file *a = eventfd_new(g_vfs, g_cred, 1, 0);
	struct file *inner = epoll_new(g_vfs, g_cred);

	ep = epoll_new(g_vfs, g_cred);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_DEL, a, 3, 0, 0), -ENOENT);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_MOD, a, 3, EPOLLIN, 0), -ENOENT);
	ck_assert_int_eq(ctl(ep, 77, a, 3, EPOLLIN, 0), -EINVAL);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, ep, 3, EPOLLIN, 0), -EINVAL);
	ck_assert_int_eq(ctl(a, EPOLL_CTL_ADD, ep, 3, EPOLLIN, 0), -EINVAL);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, inner, 3, EPOLLIN | EPOLLEXCLUSIVE, 0), -EINVAL);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, a, 3, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 0),
			 -EINVAL);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, a, 3, EPOLLIN | EPOLLEXCLUSIVE, 0), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_MOD, a, 3, EPOLLIN, 0), -EINVAL);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_DEL, a, 3, 0, 0), 0);
	file_put(a);
	file_put(inner);
	file_put(ep);
}
END_TEST

START_TEST(nesting_is_bounded_and_acyclic)
{
	struct file *e[8], *a = eventfd_new(g_vfs, g_cred, 0, 0);
	struct epoll_event ev[2];
	uint64_t one = 1;
	struct probe w;

	for (int i = 0; i < 8; i++)
		e[i] = epoll_new(g_vfs, g_cred);
	ck_assert_int_eq(ctl(e[0], EPOLL_CTL_ADD, a, 3, EPOLLIN, 5), 0);
	for (int i = 1; i < 5; i++)
		ck_assert_int_eq(ctl(e[i], EPOLL_CTL_ADD, e[i - 1], 3, EPOLLIN, 0), 0);
	ck_assert_int_eq(ctl(e[5], EPOLL_CTL_ADD, e[4], 3, EPOLLIN, 0), -ELOOP);
	ck_assert_int_eq(ctl(e[0], EPOLL_CTL_ADD, e[4], 3, EPOLLIN, 0), -ELOOP);
	ck_assert_int_eq(ctl(e[0], EPOLL_CTL_ADD, e[6], 3, EPOLLIN, 0), -ELOOP);
	ck_assert_uint_eq(probe_start(&w, e[4]), 0);
	kwrite(a, &one, 8);
	ck_assert_int_ge(w.wakes, 1);
	ck_assert_uint_eq(file_poll(e[4], NULL), POLLIN | POLLRDNORM);
	ck_assert_int_eq(collect(e[4], ev, 2), 1);
	ck_assert_int_eq(collect(e[0], ev, 2), 1);
	kread(a, &one, 8);
	ck_assert_int_eq(collect(e[4], ev, 2), 0);
	probe_stop(&w);
	/* The middle goes first: both neighbours must forget it. */
	for (int i = 0; i < 8; i++)
		file_put(e[(i + 3) % 8]);
	file_put(a);
}
END_TEST

START_TEST(closing_a_file_removes_its_items)
{
	struct file *p[2];
	struct epoll_event ev[4];

	ep = epoll_new(g_vfs, g_cred);
	ck_assert_int_eq(pipe_new(g_vfs, g_cred, 0, p), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, p[0], 3, EPOLLIN, 1), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, p[0], 5, EPOLLIN, 2), 0);
	ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, p[1], 4, EPOLLIN, 3), 0);
	file_put(p[1]);
	ck_assert_int_eq(collect(ep, ev, 4), 2);
	ck_assert_uint_eq(ev[0].events, EPOLLHUP);
	file_put(p[0]);
	ck_assert_int_eq(collect(ep, ev, 4), 0);
	file_put(ep);
}
END_TEST

START_TEST(ready_files_take_turns)
{
	struct file *f[100];
	struct epoll_event ev[10];
	int seen[100] = { 0 };

	ep = epoll_new(g_vfs, g_cred);
	for (int i = 0; i < 100; i++) {
		f[i] = eventfd_new(g_vfs, g_cred, 1, 0);
		ck_assert_int_eq(ctl(ep, EPOLL_CTL_ADD, f[i], i, EPOLLIN, (uint64_t)i), 0);
	}
	for (int round = 0; round < 10; round++) {
		ck_assert_int_eq(collect(ep, ev, 10), 10);
		for (int i = 0; i < 10; i++)
			seen[ev[i].data.u64]++;
	}
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(seen[i], 1);
	file_put(ep);
	for (int i = 0; i < 100; i++)
		file_put(f[i]);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, level_reports_again_edge_once);
	tcase_add_test(tc, oneshot_needs_rearming);
	tcase_add_test(tc, wrong_uses_get_their_errnos);
	tcase_add_test(tc, nesting_is_bounded_and_acyclic);
	tcase_add_test(tc, closing_a_file_removes_its_items);
	tcase_add_test(tc, ready_files_take_turns);
}

int main(void)
{
	return kit_run("epoll", add);
}
