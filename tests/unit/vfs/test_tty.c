/* SPDX-License-Identifier: Apache-2.0 */
/* The line discipline, through a pair of a private devpts. */
#include <asm/termbits.h>
#include <sys/ioctl.h>

#include "tests/unit/vfs/files_kit.h"
#include "vfs/dev/tty.h"

static struct file *m, *s;
static struct mnt_ns *ns;

static void open_pair(void)
{
	struct superblock *sb = sb_new(g_vfs, NULL, NULL, 0, 0, "none");
	struct vfs_ctx ctx = { .vfs = g_vfs, .cred = g_cred };
	static const struct inode_ops ops;
	struct mount *root;

	sb->root = dentry_new_root(sb, inode_new(sb, 1, S_IFDIR | 0755, &ops, NULL));
	root = mount_new(sb, 0);
	ctx.root = ctx.cwd = (struct path){ root, sb->root };
	ns = mnt_ns_new(g_vfs, mount_get(root));
	ctx.ns = ns;
	ck_assert_int_eq(console_pty_new(&ctx, 24, 80, &m, &s), 0);
	mount_put(root);
}

static void close_pair(void)
{
	file_put(s);
	file_put(m);
	mnt_ns_put(ns);
}

static void settings(void (*change)(struct linux_termios2 *t))
{
	struct linux_termios2 t;

	ck_assert_int_eq(kioctl(s, TCGETS2, &t), 0);
	change(&t);
	ck_assert_int_eq(kioctl(s, TCSETS2, &t), 0);
}

static void type(const char *text)
{
	ck_assert_int_eq(kwrite(m, text, strlen(text)), (ssize_t)strlen(text));
}

/* What f has to read now must be exactly this. */
static void expect_bytes(struct file *f, const char *want, size_t n, int line)
{
	char buf[8192];
	ssize_t r = kread(f, buf, sizeof(buf));

	ck_assert_msg(r == (ssize_t)n && memcmp(buf, want, n) == 0, "line %d: got %zd \"%.*s\"", line,
		      r, r > 0 ? (int)r : 0, buf);
}
#define EXPECT(f, text) expect_bytes(f, text, sizeof(text) - 1, __LINE__)
#define EXPECT_ERR(f, err)                                            \
	do {                                                          \
		char c_;                                              \
		ck_assert_int_eq(kread(f, &c_, 1), err);              \
	} while (0)

START_TEST(lines_arrive_whole_and_are_echoed)
{
	open_pair();
	type("ab");
	EXPECT_ERR(s, -EAGAIN);
	EXPECT(m, "ab");
	type("c\rnext");
	EXPECT(m, "c\r\nnext");
	ck_assert_uint_eq(file_poll(s, NULL) & POLLIN, POLLIN);
	EXPECT(s, "abc\n");
	EXPECT_ERR(s, -EAGAIN);
	type("\nx\ny\n");
	EXPECT(s, "next\n");
	EXPECT(s, "x\n");
	EXPECT(s, "y\n");
	close_pair();
}
END_TEST

START_TEST(editing_keys_edit)
{
	open_pair();
	type("ab\177c\n");
	EXPECT(m, "ab\b \bc\r\n");
	EXPECT(s, "ac\n");
	type("one two  \027x\n");
	EXPECT(s, "one x\n");
	EXPECT(m, "one two  \b \b\b \b\b \b\b \b\b \bx\r\n");
	type("gone\025left\n");
	EXPECT(s, "left\n");
	EXPECT(m, "gone\b \b\b \b\b \b\b \bleft\r\n");
	type("a\026\003b\n");
	EXPECT(s, "a\003b\n");
	EXPECT(m, "a^\b^Cb\r\n");
	type("a\tb\177\177c\n");
	EXPECT(s, "ac\n");
	EXPECT(m, "a\tb\b \b\b\b\b\b\b\b\bc\r\n");
	type("re\022do\n");
	EXPECT(m, "re^R\r\nredo\r\n");
	EXPECT(s, "redo\n");
	type("\001\177\n");
	EXPECT(m, "^A\b \b\b \b\r\n");
	EXPECT(s, "\n");
	close_pair();
}
END_TEST

START_TEST(end_of_file_ends_reads)
{
	char buf[3];

	open_pair();
	type("\004");
	ck_assert_int_eq(kread(s, buf, 3), 0);
	type("abc\004");
	EXPECT(s, "abc");
	EXPECT_ERR(s, -EAGAIN);
	type("abc\004");
	ck_assert_int_eq(kread(s, buf, 3), 3);
	EXPECT_ERR(s, -EAGAIN); /* the end of file went with the full buffer */
	type("abcd\004");
	ck_assert_int_eq(kread(s, buf, 3), 3);
	EXPECT(s, "d");
	close_pair();
}
END_TEST

static void set_raw(struct linux_termios2 *t)
{
	t->iflag = 0;
	t->oflag = 0;
	t->lflag = 0;
	t->cc[VMIN] = 1;
	t->cc[VTIME] = 0;
}

static void set_min5(struct linux_termios2 *t)
{
	set_raw(t);
	t->cc[VMIN] = 5;
}

static void set_poll(struct linux_termios2 *t)
{
	set_raw(t);
	t->cc[VMIN] = 0;
}

START_TEST(raw_mode_passes_everything)
{
	char all[256], buf[256];
	int n;

	open_pair();
	settings(set_raw);
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	ck_assert_int_eq(kwrite(m, all, 256), 256);
	ck_assert_int_eq(kioctl(s, FIONREAD, &n), 0);
	ck_assert_int_eq(n, 256);
	ck_assert_int_eq(kread(s, buf, 256), 256);
	ck_assert(memcmp(all, buf, 256) == 0);
	ck_assert_int_eq(kwrite(s, all, 256), 256);
	ck_assert_int_eq(kread(m, buf, 256), 256);
	ck_assert(memcmp(all, buf, 256) == 0);
	settings(set_poll);
	EXPECT_ERR(s, 0);
	settings(set_min5);
	type("abc");
	ck_assert_uint_eq(file_poll(s, NULL) & POLLIN, 0);
	ck_assert_int_eq(kread(s, buf, 100), -EAGAIN);
	ck_assert_int_eq(kread(s, buf, 2), 2);
	type("defg");
	ck_assert_uint_eq(file_poll(s, NULL) & POLLIN, POLLIN);
	EXPECT(s, "cdefg");
	close_pair();
}
END_TEST

START_TEST(a_long_line_keeps_its_newline)
{
	char buf[5000];

	open_pair();
	memset(buf, 'x', sizeof(buf));
	for (size_t done = 0; done < 5000;) {
		char sink[8192];
		ssize_t r = kwrite(m, buf, sizeof(buf) - done);

		ck_assert_int_gt(r, 0);
		done += (size_t)r;
		while (kread(m, sink, sizeof(sink)) > 0)
			;
	}
	type("\n");
	ck_assert_int_eq(kread(s, buf, sizeof(buf)), 4096);
	ck_assert_int_eq(buf[4095], '\n');
	close_pair();
}
END_TEST

START_TEST(bytes_wait_beyond_the_read_buffer)
{
	static char buf[20000];
	size_t in = 0, out = 0;
	ssize_t r;

	open_pair();
	settings(set_raw);
	while ((r = kwrite(m, buf, 1000)) > 0)
		in += (size_t)r;
	ck_assert_int_eq(r, -EAGAIN);
	ck_assert_uint_ge(in, 12000);
	ck_assert_uint_eq(file_poll(m, NULL) & POLLOUT, 0);
	while ((r = kread(s, buf, sizeof(buf))) > 0)
		out += (size_t)r;
	ck_assert_uint_eq(in, out);
	ck_assert_uint_eq(file_poll(m, NULL) & POLLOUT, POLLOUT);
	close_pair();
}
END_TEST

START_TEST(flow_control_stops_output)
{
	open_pair();
	type("\023");
	ck_assert_uint_eq(file_poll(s, NULL) & POLLOUT, 0);
	ck_assert_int_eq(kwrite(s, "x", 1), -EAGAIN);
	type("\021");
	ck_assert_int_eq(kwrite(s, "x\n", 2), 2);
	EXPECT(m, "x\r\n");
	close_pair();
}
END_TEST

static void set_tabs(struct linux_termios2 *t)
{
	t->oflag |= XTABS;
}

START_TEST(output_is_processed)
{
	open_pair();
	settings(set_tabs);
	ck_assert_int_eq(kwrite(s, "ab\tc\n\td", 7), 7);
	EXPECT(m, "ab      c\r\n        d");
	close_pair();
}
END_TEST

static void set_canon(struct linux_termios2 *t)
{
	t->lflag |= ICANON | ECHO;
	t->iflag |= ICRNL;
}

START_TEST(switching_to_canonical_keeps_what_was_typed)
{
	open_pair();
	settings(set_raw);
	type("part");
	settings(set_canon);
	EXPECT(s, "part");
	type("line\n");
	EXPECT(s, "line\n");
	close_pair();
}
END_TEST

START_TEST(packet_mode_tells)
{
	struct linux_winsize ws;
	int on = 1;

	open_pair();
	ck_assert_int_eq(kioctl(m, TIOCPKT, &on), 0);
	kwrite(s, "hi", 2);
	EXPECT(m, "\0hi");
	ck_assert_int_eq(kioctl(s, TCFLSH, (void *)2), 0);
	ck_assert_uint_eq(file_poll(m, NULL) & (POLLIN | POLLPRI), POLLIN | POLLPRI);
	EXPECT(m, "\003");
	type("\023");
	EXPECT(m, "\004");
	type("\021");
	EXPECT(m, "\010");
	settings(set_raw);
	EXPECT(m, "\020");
	EXPECT_ERR(m, -EAGAIN);
	ck_assert_int_eq(kioctl(m, TIOCGWINSZ, &ws), 0);
	ck_assert_int_eq(ws.row, 24);
	ck_assert_int_eq(ws.col, 80);
	close_pair();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, lines_arrive_whole_and_are_echoed);
	tcase_add_test(tc, editing_keys_edit);
	tcase_add_test(tc, end_of_file_ends_reads);
	tcase_add_test(tc, raw_mode_passes_everything);
	tcase_add_test(tc, a_long_line_keeps_its_newline);
	tcase_add_test(tc, bytes_wait_beyond_the_read_buffer);
	tcase_add_test(tc, flow_control_stops_output);
	tcase_add_test(tc, output_is_processed);
	tcase_add_test(tc, switching_to_canonical_keeps_what_was_typed);
	tcase_add_test(tc, packet_mode_tells);
}

int main(void)
{
	return kit_run("tty", add);
}
