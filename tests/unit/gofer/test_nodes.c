/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes under pressure: few fds, names that change on the host, and an attacker there who swaps
 * components for symlinks while the gofer walks.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/unit/gofer/gofer_test.h"

static void setup(void)
{
	make_tree();
	start(0);
	serve();
}

/* Deep chains with room for four fds: each step down is opened again as needed. */
START_TEST(few_fds)
{
	char path[2048] = "";

	for (int i = 0; i < 100; i++) {
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "%sdir%d", i ? "/" : "",
			 i);
		ck_assert_int_eq(mkdir(host(path), 0755), 0);
	}
	g->fd_max = 4;
	uint32_t at = g_root, nodes[100];

	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "dir%d", i);
		int64_t n = walk_from(at, name, 0, NULL);

		ck_assert_int_gt(n, 0);
		nodes[i] = at = (uint32_t)n;
		ck_assert_uint_le(g->fd_count, 4);
	}
	for (int round = 0; round < 3; round++)
		for (int i = 99; i >= 0; i -= 9) {
			begin();
			u32(nodes[i]);
			ck_assert_int_eq(send_type(GOFER_GETATTR), 0);
			ck_assert_uint_le(g->fd_count, 4);
		}
	/* rename pins two directories at once */
	put("f", "x");
	begin();
	u32(nodes[90]);
	u32(nodes[20]);
	u32(0);
	text("dir91");
	text("moved");
	ck_assert_int_eq(send_type(GOFER_RENAME), 0);
	begin();
	u32(nodes[99]);
	ck_assert_int_eq(send_type(GOFER_GETATTR), 0);
}
END_TEST

/* A node whose name leads to something else by now is stale, and does not become the other. */
START_TEST(identity)
{
	g->fd_max = 2; /* nothing stays open for long */
	int64_t e = walk("d/e"), deep = walk("d/e/deep");

	put("other", "other text");
	ck_assert_int_eq(rename(host("other"), host("d/e/deep")), 0);
	ck_assert_int_eq(open_node(deep, GOFER_OPEN_READ), -ESTALE);
	ck_assert_int_gt(walk("d/e/deep"), 0); /* a new node for a new object */
	ck_assert_int_ne(walk("d/e/deep"), deep);
	ck_assert_int_eq(rename(host("d/e"), host("d/gone")), 0);
	ck_assert_int_eq(symlink("/", host("d/e")), 0);
	ck_assert_int_eq(mkdir(host("z"), 0755), 0);
	ck_assert_int_eq(mkdir(host("z/z"), 0755), 0);
	ck_assert_int_eq(walk("z/z/z"), -ENOENT); /* takes the two fds */
	begin();
	u32(e);
	ck_assert_int_eq(send_type(GOFER_GETATTR), -ESTALE);
	ck_assert_int_eq(walk_from((uint32_t)e, "deep", 0, NULL), -ESTALE);
}
END_TEST

/* Another node table entry in the way of a rename, or a ring of them, is survived. */
START_TEST(ring)
{
	int64_t d = walk("d"), e = walk("d/e");

	/* Somebody on the host takes e out of d; then we move d into e. */
	ck_assert_int_ge(node_pin(g, &g->node[e]), 0);
	node_unpin(g, &g->node[e]);
	ck_assert_int_eq(rename(host("d/e"), host("e2")), 0);
	begin();
	u32(g_root);
	u32(e);
	u32(0);
	text("d");
	text("d");
	ck_assert_int_eq(send_type(GOFER_RENAME), 0);
	g->fd_max = 1;
	ck_assert_int_gt(walk("file"), 0);
	ck_assert_int_gt(walk("link"), 0);
	walk_from(g_root, "e2", 0, NULL);
	begin();
	u32(d);
	int r = send_type(GOFER_GETATTR);

	ck_assert_msg(r == -ESTALE || r == 0, "%d", r);
}
END_TEST

START_TEST(table_is_bounded)
{
	uint32_t cap = g->node_cap;

	g->node_cap = g->node_used_end + 2;
	int64_t d = walk("d"), e = walk("d/e");

	ck_assert_int_gt(d, 0);
	ck_assert_int_gt(e, 0);
	ck_assert_int_eq(walk("d/e/deep"), -ENFILE);
	begin();
	u32(1);
	u32(e);
	u32(2);
	ck_assert_int_eq(send_type(GOFER_FORGET), 1);
	ck_assert_int_gt(walk("file"), 0);
	g->node_cap = cap;
}
END_TEST

/*
 * The attacker flips d/x between a directory and a symlink to a directory with the canary, and
 * d/f between a file and a link to the canary. 10^5 walks and opens never bring it back.
 */
START_TEST(races)
{
	char outside[] = "/tmp/canary.XXXXXX", path[128];
	int canary_seen = 0, opened = 0, walked = 0;

	ck_assert_ptr_nonnull(mkdtemp(outside));
	snprintf(path, sizeof(path), "%s/f", outside);
	int fd = open(path, O_CREAT | O_WRONLY, 0644);

	ck_assert_int_eq(write(fd, "CANARY", 6), 6);
	close(fd);
	ck_assert_int_eq(mkdir(host("d/x"), 0755), 0);
	put("d/x/f", "inside");
	put("d/f", "inside");
	ck_assert_int_eq(symlink(outside, host("d/y")), 0);
	ck_assert_int_eq(symlink(path, host("d/g")), 0);
	char x[300], y[300], f[300], gg[300];

	strcpy(x, host("d/x"));
	strcpy(y, host("d/y"));
	strcpy(f, host("d/f"));
	strcpy(gg, host("d/g"));
	pid_t pid = fork();

	if (pid == 0)
		for (;;) {
			syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, y, 2);
			syscall(SYS_renameat2, AT_FDCWD, f, AT_FDCWD, gg, 2);
		}
	for (int i = 0; i < 50000; i++) {
		static const char *const paths[] = { "d/x/f", "d/f" };
		int64_t n = walk_from(g_root, paths[i & 1], GOFER_WALK_OPEN, NULL);

		if (n > 0)
			walked++;
		for (int again = 0; again < 2 && n > 0; again++) {
			char buf[16] = { 0 };

			if (again && open_node(n, GOFER_OPEN_READ))
				break;
			if (q.r.fd >= 0) {
				opened++;
				if (pread(q.r.fd, buf, sizeof(buf), 0) > 0 &&
				    !strcmp(buf, "CANARY"))
					canary_seen = 1;
				drop_fd();
			}
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	snprintf(path, sizeof(path), "rm -rf %s", outside);
	ck_assert_int_eq(system(path), 0);
	ck_assert(!canary_seen);
	ck_assert_int_gt(walked, 1000);
	ck_assert_int_gt(opened, 1000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nodes");
	TCase *tc = tcase_create("nodes");

	tcase_set_timeout(tc, 30);
	tcase_add_checked_fixture(tc, setup, remove_tree);
	tcase_add_test(tc, few_fds);
	tcase_add_test(tc, identity);
	tcase_add_test(tc, ring);
	tcase_add_test(tc, table_is_bounded);
	tcase_add_test(tc, races);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
