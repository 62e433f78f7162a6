/* SPDX-License-Identifier: Apache-2.0 */
/* What does not fit the protocol ends the connection: phases, lengths, fields, fds. */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "gofer/proto/fdpass.h"
#include "tests/unit/gofer/gofer_test.h"

static void setup(void)
{
	make_tree();
	start(0);
}

START_TEST(phases)
{
	uint32_t nid;

	begin();
	u32(1);
	u32(GOFER_OPEN_READ);
	ck_assert_int_eq(send_type(GOFER_OPEN), -EPROTO);
	g->violation = NULL;
	ck_assert_int_eq(attach(0, &nid), -EPROTO);
	g->violation = NULL;
	ck_assert_int_eq(hello(), 0);
	ck_assert_int_eq(hello(), -EPROTO);
	g->violation = NULL;
	begin();
	u32(1);
	ck_assert_int_eq(send_type(GOFER_GETATTR), -EPROTO);
	g->violation = NULL;
	ck_assert_int_eq(attach(4, &nid), -EPROTO);
	g->violation = NULL;
	ck_assert_int_eq(attach(0, &nid), 0);
	ck_assert_int_eq(attach(0, &nid), -EPROTO);
}
END_TEST

START_TEST(wrong_greeting)
{
	begin();
	u32(GOFER_MAGIC);
	u32(GOFER_VERSION + 1);
	ck_assert_int_eq(send_type(GOFER_HELLO), -EPROTO);
}
END_TEST

/* A well-formed body of each type, for a node that may be anything. */
static void good_body(uint32_t type)
{
	begin();
	switch (type) {
	case GOFER_HELLO:
		hello();
		break;
	case GOFER_ATTACH:
	case GOFER_GETATTR:
	case GOFER_READLINK:
	case GOFER_STATFS:
	case GOFER_LISTXATTR:
	case GOFER_FSYNC:
		u32(g_root);
		break;
	case GOFER_WALK:
		u32(g_root);
		u16(2);
		u16(0);
		text("d");
		text("e");
		break;
	case GOFER_LISTDIRS:
		u32(g_root);
		u16(2);
		u16(9);
		text("d");
		text("none");
		break;
	case GOFER_OPEN:
		u32(g_root);
		u32(GOFER_OPEN_READ);
		break;
	case GOFER_READDIR:
		u32(g_root);
		u64(0);
		u32(0);
		break;
	case GOFER_GETXATTR:
	case GOFER_REMOVEXATTR:
		u32(g_root);
		text("user.none");
		break;
	case GOFER_SETXATTR:
		u32(g_root);
		u32(0);
		text("user.none");
		u32(1);
		wire_put_u8(&q.req, 'x');
		break;
	case GOFER_FORGET:
		u32(1);
		u32(g_root);
		u32(0);
		break;
	case GOFER_CREATE:
	case GOFER_MKDIR:
	case GOFER_MKNOD:
		u32(9999);
		u32(S_IFIFO);
		u32(0);
		u32(0);
		text("name");
		break;
	case GOFER_SYMLINK:
		u32(9999);
		u32(0);
		u32(0);
		u32(0);
		text("name");
		text("target");
		break;
	case GOFER_LINK:
	case GOFER_UNLINK:
		u32(9999);
		u32(0);
		text("name");
		break;
	case GOFER_RENAME:
		u32(9999);
		u32(9999);
		u32(0);
		text("a");
		text("b");
		break;
	case GOFER_SETATTR:
		u32(9999);
		for (int i = 0; i < 4; i++)
			u32(0);
		u64(0);
		for (int i = 0; i < 2; i++) {
			u64(0);
			u32(0);
		}
		break;
	default:
		ck_abort_msg("no body for message %u", type);
	}
}

/* Every message, cut at every length and with one byte too many. */
START_TEST(lengths)
{
	serve();
	for (uint32_t type = GOFER_ATTACH + 1; type < GOFER_MSG_COUNT; type++) {
		good_body(type);
		size_t whole = q.req.len;

		ck_assert_msg(send_type(type) != -EPROTO, "%s: %s", gofer_msg_name(type),
			      g->violation);
		drop_fd();
		for (size_t n = 0; n < whole + 3; n++) {
			if (n == whole)
				continue;
			good_body(type);
			while (q.req.len < n)
				wire_put_u8(&q.req, 0);
			q.req.len = n;
			ck_assert_msg(send_type(type) == -EPROTO, "%s at %zu of %zu",
				      gofer_msg_name(type), n, whole);
			ck_assert_ptr_nonnull(g->violation);
			g->violation = NULL;
		}
	}
}
END_TEST

static int one_name(const char *name, size_t len)
{
	begin();
	u32(g_root);
	u16(1);
	u16(0);
	wire_put_text(&q.req, name, len);
	int r = send_type(GOFER_WALK);

	g->violation = NULL;
	return r;
}

START_TEST(names)
{
	static char longest[256];

	serve();
	memset(longest, 'x', sizeof(longest));
	ck_assert_int_eq(one_name("..", 2), -EPROTO);
	ck_assert_int_eq(one_name(".", 1), -EPROTO);
	ck_assert_int_eq(one_name("", 0), -EPROTO);
	ck_assert_int_eq(one_name("a/b", 3), -EPROTO);
	ck_assert_int_eq(one_name("/", 1), -EPROTO);
	ck_assert_int_eq(one_name("a\0b", 3), -EPROTO);
	ck_assert_int_eq(one_name("a\0", 2), -EPROTO);
	ck_assert_int_eq(one_name(longest, 256), -EPROTO);
	ck_assert_int_eq(one_name(longest, 255), 0);
	ck_assert_int_eq(one_name("...", 3), 0);
	ck_assert_int_eq(one_name("..x", 3), 0);
}
END_TEST

START_TEST(headers)
{
	struct gofer_hdr h = { .size = sizeof(h), .type = GOFER_GETATTR };

	serve();
	ck_assert_int_eq(gofer_dispatch(g, &h, sizeof(h) - 1, &q.hdr, &q.r), -EPROTO);
	h.size = sizeof(h) + 1;
	ck_assert_int_eq(gofer_dispatch(g, &h, sizeof(h), &q.hdr, &q.r), -EPROTO);
	h.size = sizeof(h);
	for (uint32_t type = 0; type <= UINT16_MAX; type += type < 64 ? 1 : 997) {
		h.type = (uint16_t)type;
		ck_assert_int_eq(gofer_dispatch(g, &h, sizeof(h), &q.hdr, &q.r), -EPROTO);
	}
	begin();
	u32(g_root);
	memcpy(q.msg, &h, sizeof(h));
	h = (struct gofer_hdr){ .size = sizeof(h) + 4,
				.type = GOFER_GETATTR,
				.flags = GOFER_F_REPLY };
	memcpy(q.msg, &h, sizeof(h));
	ck_assert_int_eq(gofer_dispatch(g, q.msg, h.size, &q.hdr, &q.r), -EPROTO);
}
END_TEST

START_TEST(bounds)
{
	serve();
	begin();
	u32(g_root);
	u16(GOFER_WALK_MAX + 1);
	u16(0);
	for (unsigned int i = 0; i <= GOFER_WALK_MAX; i++)
		text("a");
	ck_assert_int_eq(send_type(GOFER_WALK), -EPROTO);
	g->violation = NULL;
	begin();
	u32(GOFER_FORGET_MAX + 1);
	for (unsigned int i = 0; i <= GOFER_FORGET_MAX; i++)
		u64(0);
	ck_assert_int_eq(send_type(GOFER_FORGET), -EPROTO);
	g->violation = NULL;
	begin();
	u32(0x20000001u); /* times 8 wraps in 32 bits */
	u64(0);
	ck_assert_int_eq(send_type(GOFER_FORGET), -EPROTO);
}
END_TEST

/* ---- over the socket, with a served process on the other side ---- */

static int g_sock;
static pid_t g_pid;

static void spawn(void)
{
	int sv[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	g_pid = fork();
	if (g_pid == 0) {
		close(sv[0]);
		_exit(gofer_serve(g, sv[1]) ? 1 : 0);
	}
	close(sv[1]);
	g_sock = sv[0];
}

static int ended(void)
{
	int status;

	ck_assert_int_eq(waitpid(g_pid, &status, 0), g_pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void say(uint32_t type, int fd)
{
	struct gofer_hdr h = { .size = (uint32_t)(sizeof(h) + q.req.len), .type = (uint16_t)type };
	struct iovec iov[2] = { { &h, sizeof(h) }, { q.msg + sizeof(h), q.req.len } };

	ck_assert_int_eq(fdpass_send(g_sock, iov, 2, fd), 0);
}

static ssize_t hear(int *fd)
{
	return fdpass_recv(g_sock, q.msg, sizeof(q.msg), fd);
}

static void greet(void)
{
	int fd;

	begin();
	u32(GOFER_MAGIC);
	u32(GOFER_VERSION);
	say(GOFER_HELLO, -1);
	ck_assert_int_eq(hear(&fd), (int)sizeof(struct gofer_hdr) + 8);
	begin();
	u32(0);
	say(GOFER_ATTACH, -1);
	ck_assert_int_eq(hear(&fd),
			 (int)(sizeof(struct gofer_hdr) + 8 + sizeof(struct gofer_attr)));
	memcpy(&g_root, q.msg + sizeof(struct gofer_hdr), 4);
}

START_TEST(serves_and_ends)
{
	char buf[8] = { 0 };
	int fd;

	spawn();
	greet();
	begin();
	u32(g_root);
	u16(1);
	u16(GOFER_WALK_OPEN);
	text("file");
	say(GOFER_WALK, -1);
	ck_assert_int_gt(hear(&fd), 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, buf, 8), 4);
	ck_assert_str_eq(buf, "text");
	close(fd);
	close(g_sock);
	ck_assert_int_eq(ended(), 0);
}
END_TEST

START_TEST(refuses_fds)
{
	int fd;

	spawn();
	greet();
	begin();
	u32(g_root);
	say(GOFER_GETATTR, 0);
	ck_assert_int_eq(hear(&fd), 0);
	ck_assert_int_eq(ended(), 1);
	close(g_sock);
}
END_TEST

START_TEST(refuses_oversize)
{
	int fd, size = 1 << 20;

	spawn();
	greet();
	setsockopt(g_sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	ck_assert_int_eq(send(g_sock, q.msg, GOFER_MSG_MAX + 1, MSG_NOSIGNAL),
			 (int)GOFER_MSG_MAX + 1);
	ck_assert_int_eq(hear(&fd), 0);
	ck_assert_int_eq(ended(), 1);
	close(g_sock);
}
END_TEST

START_TEST(refuses_garbage)
{
	int fd;

	spawn();
	greet();
	ck_assert_int_eq(send(g_sock, "garbage", 7, MSG_NOSIGNAL), 7);
	ck_assert_int_eq(hear(&fd), 0);
	ck_assert_int_eq(ended(), 1);
	close(g_sock);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("protocol");
	TCase *tc = tcase_create("protocol");

	tcase_set_timeout(tc, 30);
	tcase_add_checked_fixture(tc, setup, remove_tree);
	tcase_add_test(tc, phases);
	tcase_add_test(tc, wrong_greeting);
	tcase_add_test(tc, lengths);
	tcase_add_test(tc, names);
	tcase_add_test(tc, headers);
	tcase_add_test(tc, bounds);
	tcase_add_test(tc, serves_and_ends);
	tcase_add_test(tc, refuses_fds);
	tcase_add_test(tc, refuses_oversize);
	tcase_add_test(tc, refuses_garbage);
	suite_add_tcase(s, tc);
	return run_suite(s);
}
