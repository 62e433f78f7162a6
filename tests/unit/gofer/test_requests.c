/* SPDX-License-Identifier: Apache-2.0 */
/* Each request does what it says, and no more, on trees of both kinds. */
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "tests/unit/gofer/gofer_test.h"

static void setup_rw(void)
{
	make_tree();
	start(0);
	serve();
}

static void setup_ro(void)
{
	make_tree();
	start(ATTACH_RDONLY);
	serve();
}

START_TEST(walks)
{
	struct gofer_attr a;
	int64_t n = walk_from(g_root, "d/e/deep", 0, &a);

	ck_assert_int_gt(n, 0);
	ck_assert_uint_eq(a.size, 9);
	ck_assert(S_ISREG(a.mode));
	ck_assert_int_eq(walk("d/e/deep"), n); /* the same name is the same node */
	ck_assert_int_eq(walk("d/nothing"), -ENOENT);
	ck_assert_int_eq(walk("file/x"), -ENOTDIR);
	ck_assert_int_eq(walk("link/x"), -ENOTDIR); /* stops at a link */
	ck_assert_int_eq(walk_from(9999, "d", 0, NULL), -EBADF);
	ck_assert_int_gt(walk_from(g_root, "file", GOFER_WALK_OPEN, &a), 0);
	ck_assert_int_ge(q.r.fd, 0);
	ck_assert(a.flags & GOFER_ATTR_NOCAPS);
	drop_fd();
	ck_assert_int_gt(walk_from(g_root, "fifo", GOFER_WALK_OPEN, NULL), 0);
	ck_assert_int_eq(q.r.fd, -1);
}
END_TEST

START_TEST(opens)
{
	char buf[16] = { 0 };

	ck_assert_int_eq(open_node(walk("file"), GOFER_OPEN_READ), 0);
	ck_assert_int_eq(read(q.r.fd, buf, sizeof(buf)), 4);
	ck_assert_int_eq(write(q.r.fd, buf, 1), -1);
	ck_assert(fcntl(q.r.fd, F_GETFD) & FD_CLOEXEC);
	drop_fd();
	ck_assert_int_eq(open_node(walk("file"), GOFER_OPEN_READ | GOFER_OPEN_WRITE), 0);
	ck_assert_int_eq(write(q.r.fd, "T", 1), 1);
	drop_fd();
	ck_assert_int_eq(open_node(walk("d"), GOFER_OPEN_READ), -EISDIR);
	ck_assert_int_eq(open_node(walk("link"), GOFER_OPEN_READ), -ELOOP);
	ck_assert_int_eq(open_node(walk("fifo"), GOFER_OPEN_READ), -ENXIO);
	ck_assert_int_eq(open_node(0, GOFER_OPEN_READ), -EBADF);
}
END_TEST

/* FIFO, socket and (where we may make them) devices show, and are never opened. */
START_TEST(special_files)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	struct gofer_attr a;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", host("sock"));
	ck_assert_int_eq(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	int64_t n = walk_from(g_root, "sock", 0, &a);

	ck_assert(S_ISSOCK(a.mode));
	ck_assert_int_eq(open_node(n, GOFER_OPEN_READ), -ENXIO);
	close(s);
	if (mknod(host("null"), S_IFCHR | 0666, 0x103) == 0) {
		n = walk_from(g_root, "null", 0, &a);
		ck_assert(S_ISCHR(a.mode));
		ck_assert_uint_eq(a.rdev, 0x103);
		ck_assert_int_eq(open_node(n, GOFER_OPEN_READ), -ENXIO);
		ck_assert_int_eq(open_node(n, GOFER_OPEN_WRITE), -ENXIO);
	}
}
END_TEST

static int listing(int64_t nid, uint32_t flags, char *out, size_t size, int *pages)
{
	char name[256];
	uint64_t cookie = 0;
	uint32_t eof = 0;
	int total = 0;

	out[0] = '\0';
	*pages = 0;
	while (!eof) {
		begin();
		u32(nid);
		u64(cookie);
		u32(flags);
		int err = send_type(GOFER_READDIR);

		if (err)
			return err;
		cookie = wire_u64(&q.rep);
		uint32_t count = wire_u32(&q.rep);

		eof = wire_u32(&q.rep);
		for (uint32_t i = 0; i < count; i++) {
			struct gofer_attr a;

			wire_u64(&q.rep);
			if (flags & GOFER_READDIR_PLUS) {
				wire_attr(&q.rep, &a);
			} else {
				wire_u64(&q.rep);
				wire_u8(&q.rep);
			}
			ck_assert_uint_gt(wire_name(&q.rep, name), 0);
			if (strlen(out) + strlen(name) + 2 < size)
				strcat(strcat(out, name), " ");
			total++;
		}
		ck_assert(wire_done(&q.rep));
		(*pages)++;
	}
	return total;
}

START_TEST(lists)
{
	char out[512];
	int pages;

	ck_assert_int_eq(listing(g_root, 0, out, sizeof(out), &pages), 4);
	ck_assert_int_eq(listing(g_root, GOFER_READDIR_PLUS, out, sizeof(out), &pages), 4);
	ck_assert_ptr_nonnull(strstr(out, "fifo"));
	ck_assert_int_eq(listing(walk("file"), 0, out, sizeof(out), &pages), -ENOTDIR);

	ck_assert_int_eq(mkdir(host("big"), 0755), 0);
	for (int i = 0; i < 1200; i++) {
		char name[64];

		snprintf(name, sizeof(name), "big/some-longer-name-%d", i);
		close(open(host(name), O_CREAT | O_WRONLY, 0644));
	}
	int64_t big = walk("big");

	ck_assert_int_eq(listing(big, GOFER_READDIR_PLUS, out, sizeof(out), &pages), 1200);
	ck_assert_int_gt(pages, 1);
	/* Two listings in turn: the kept stream is only a shortcut. */
	begin();
	u32(big);
	u64(0);
	u32(GOFER_READDIR_PLUS);
	ck_assert_int_eq(send_type(GOFER_READDIR), 0);
	uint64_t cookie = wire_u64(&q.rep);
	uint32_t count = wire_u32(&q.rep);

	ck_assert_int_eq(listing(g_root, 0, out, sizeof(out), &pages), 5);
	int rest = 0;

	for (uint32_t eof = 0; !eof; count += (uint32_t)rest) {
		begin();
		u32(big);
		u64(cookie);
		u32(GOFER_READDIR_PLUS);
		ck_assert_int_eq(send_type(GOFER_READDIR), 0);
		cookie = wire_u64(&q.rep);
		rest = (int)wire_u32(&q.rep);
		eof = wire_u32(&q.rep);
	}
	ck_assert_uint_eq(count, 1200);
}
END_TEST

/* One record of a LISTDIRS reply: its error, or the count of entries; *nid, *eof. */
static int listed(uint32_t *nid, uint32_t *eof)
{
	struct gofer_attr a;
	char name[256];
	int32_t err = (int32_t)wire_u32(&q.rep);

	if (err)
		return err;
	*nid = wire_u32(&q.rep);
	wire_attr(&q.rep, &a);
	ck_assert(S_ISDIR(a.mode));
	wire_u64(&q.rep);
	uint32_t count = wire_u32(&q.rep);

	*eof = wire_u32(&q.rep);
	for (uint32_t i = 0; i < count; i++) {
		wire_u64(&q.rep);
		wire_attr(&q.rep, &a);
		ck_assert_uint_gt(wire_name(&q.rep, name), 0);
	}
	return (int)count;
}

START_TEST(lists_side_by_side)
{
	uint32_t nid, eof, first;

	put("d/e/one", "1");
	put("d/e/two", "2");
	ck_assert_int_eq(mkdir(host("d/e/f"), 0755), 0);
	ck_assert_int_eq(mkdir(host("d/e/f/g"), 0755), 0);
	ck_assert_int_eq(mkdir(host("empty"), 0755), 0);
	begin();
	u32(g_root);
	u16(4);
	u16(2);
	text("d");
	text("file");
	text("none");
	text("empty");
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), 0);
	ck_assert_uint_eq(wire_u16(&q.rep), 4);
	ck_assert_uint_eq(wire_u16(&q.rep), 2);
	ck_assert_int_eq(listed(&first, &eof), 1);
	ck_assert_uint_eq(eof, 1);
	ck_assert_int_eq(listed(&nid, &eof), -ENOTDIR);
	ck_assert_int_eq(listed(&nid, &eof), -ENOENT);
	ck_assert_int_eq(listed(&nid, &eof), 0);
	/* Below: d/e, then d/e/f, and no further than was asked. */
	ck_assert_int_eq(listed(&nid, &eof), 4);
	ck_assert_int_eq(listed(&nid, &eof), 1);
	ck_assert(wire_done(&q.rep));
	/* The numbers are the client's. */
	begin();
	u32(1);
	u32(first);
	u32(1);
	ck_assert_int_eq(send_type(GOFER_FORGET), 1);

	/* The first is cut short where the message ends; what does not fit whole is left out. */
	ck_assert_int_eq(mkdir(host("big"), 0755), 0);
	for (int i = 0; i < 1200; i++) {
		char name[64];

		snprintf(name, sizeof(name), "big/some-longer-name-%d", i);
		close(open(host(name), O_CREAT | O_WRONLY, 0644));
	}
	begin();
	u32(g_root);
	u16(2);
	u16(64);
	text("big");
	text("d");
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), 0);
	ck_assert_uint_eq(wire_u16(&q.rep), 1);
	ck_assert_uint_eq(wire_u16(&q.rep), 0);
	ck_assert_int_gt(listed(&nid, &eof), 500);
	ck_assert_uint_eq(eof, 0);
	ck_assert(wire_done(&q.rep));
	begin();
	u32(g_root);
	u16(2);
	u16(0);
	text("d");
	text("big");
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), 0);
	ck_assert_uint_eq(wire_u16(&q.rep), 1);

	int64_t file = walk("file");

	begin();
	u32(file);
	u16(1);
	u16(0);
	text("x");
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), -ENOTDIR);
	begin();
	u32(g_root);
	u16(0);
	u16(0);
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), -EPROTO);
	begin();
	u32(g_root);
	u16(1);
	u16(65);
	text("d");
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), -EPROTO);
	begin();
	u32(g_root);
	u16(1);
	u16(0);
	text("..");
	ck_assert_int_eq(send_type(GOFER_LISTDIRS), -EPROTO);
}
END_TEST

static int make(uint32_t type, int64_t dir, const char *name, uint32_t mode)
{
	begin();
	u32(dir);
	u32(mode);
	u32(geteuid() ? geteuid() : 12);
	u32(getegid() ? getegid() : 34);
	text(name);
	if (type == GOFER_SYMLINK)
		text("some/target");
	return send_type(type);
}

static int rename_it(int64_t od, const char *on, int64_t nd, const char *nn, uint32_t flags)
{
	begin();
	u32(od);
	u32(nd);
	u32(flags);
	text(on);
	text(nn);
	return send_type(GOFER_RENAME);
}

static int unlink_it(int64_t dir, const char *name, uint32_t flags)
{
	begin();
	u32(dir);
	u32(flags);
	text(name);
	return send_type(GOFER_UNLINK);
}

static int link_it(int64_t nid, int64_t dir, const char *name)
{
	begin();
	u32(nid);
	u32(dir);
	text(name);
	return send_type(GOFER_LINK);
}

static int setattr(int64_t nid, uint32_t valid, uint32_t mode, uint64_t size)
{
	begin();
	u32(nid);
	u32(valid);
	u32(mode);
	u32(geteuid());
	u32(getegid());
	u64(size);
	u64(100);
	u32(5);
	u64(200);
	u32(6);
	return send_type(GOFER_SETATTR);
}

static int xattr(uint32_t type, int64_t nid, const char *name, const char *val)
{
	begin();
	u32(nid);
	if (type == GOFER_SETXATTR)
		u32(0);
	text(name);
	if (type == GOFER_SETXATTR) {
		u32(strlen(val));
		wire_put(&q.req, val, strlen(val));
	}
	return send_type(type);
}

START_TEST(makes)
{
	struct stat st;

	ck_assert_int_eq(make(GOFER_CREATE, g_root, "new", 04755), 0);
	ck_assert_int_eq(write(q.r.fd, "abc", 3), 3);
	drop_fd();
	ck_assert_int_eq(stat(host("new"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 04755);
	if (!geteuid())
		ck_assert_uint_eq(st.st_uid, 12);
	ck_assert_int_eq(make(GOFER_CREATE, g_root, "new", 0644), -EEXIST);
	ck_assert_int_eq(make(GOFER_MKDIR, g_root, "dir", 01777), 0);
	ck_assert_int_eq(stat(host("dir"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 01777);
	ck_assert_int_eq(make(GOFER_MKNOD, g_root, "p", S_IFIFO | 0600), 0);
	ck_assert_int_eq(make(GOFER_MKNOD, g_root, "s", S_IFSOCK | 0600), 0);
	ck_assert_int_eq(make(GOFER_MKNOD, g_root, "c", S_IFCHR | 0600), -EPERM);
	ck_assert_int_eq(make(GOFER_MKNOD, g_root, "b", S_IFBLK | 0600), -EPERM);
	ck_assert_int_eq(make(GOFER_SYMLINK, g_root, "l", S_IFLNK), 0);
	int64_t l = walk("l");

	begin();
	u32(l);
	ck_assert_int_eq(send_type(GOFER_READLINK), 0);
	char buf[64];

	ck_assert_uint_eq(wire_text(&q.rep, buf, 63), 11);
	ck_assert_str_eq(buf, "some/target");
	ck_assert_int_eq(make(GOFER_CREATE, walk("file"), "x", 0644), -ENOTDIR);
	/* Creating through a link that was put in the way does not leave the directory. */
	ck_assert_int_eq(symlink("/tmp/elsewhere", host("trap")), 0);
	ck_assert_int_eq(make(GOFER_CREATE, g_root, "trap", 0644), -EEXIST);
}
END_TEST

START_TEST(moves)
{
	int64_t d = walk("d"), file = walk("file"), deep = walk("d/e/deep");

	ck_assert_int_eq(link_it(file, d, "file2"), 0);
	ck_assert_int_eq(link_it(d, d, "dd"), -EPERM);
	ck_assert_int_eq(link_it(g_root, d, "dd"), -EPERM);
	ck_assert_int_eq(rename_it(g_root, "file", d, "file3", 0), 0);
	/* The node followed the name: with its fd dropped it is still found. */
	ck_assert_int_eq(open_node(file, GOFER_OPEN_READ), 0);
	drop_fd();
	ck_assert_int_eq(walk("d/file3"), file);
	ck_assert_int_eq(rename_it(g_root, "d", g_root, "moved", 0), 0);
	ck_assert_int_eq(open_node(deep, GOFER_OPEN_READ), 0);
	drop_fd();
	ck_assert_int_eq(walk("moved/e/deep"), deep);
	ck_assert_int_eq(rename_it(g_root, "moved", d, "inside", 0), -EINVAL);
	ck_assert_int_eq(rename_it(g_root, "moved", g_root, "link", 1), -EEXIST);
	ck_assert_int_eq(rename_it(g_root, "moved", g_root, "link", 2), 0);
	ck_assert_int_eq(walk("link/e/deep"), deep);
	ck_assert_int_eq(rename_it(g_root, "link", g_root, "moved", 4), -EINVAL);
	ck_assert_int_eq(unlink_it(g_root, "link", 0), -EISDIR);
	ck_assert_int_eq(unlink_it(g_root, "link", GOFER_UNLINK_DIR), -ENOTEMPTY);
	/* Unlinked, but the client's node lives. */
	ck_assert_int_eq(unlink_it(walk("link/e"), "deep", 0), 0);
	begin();
	u32(deep);
	ck_assert_int_eq(send_type(GOFER_GETATTR), 0);
	struct gofer_attr a;

	wire_attr(&q.rep, &a);
	ck_assert_uint_eq(a.nlink, 0);
	ck_assert_int_eq(open_node(deep, GOFER_OPEN_READ), -ESTALE);
	ck_assert_int_eq(walk("link/e/deep"), -ENOENT);
}
END_TEST

START_TEST(attributes)
{
	int64_t n = walk("file");
	struct gofer_attr a;
	struct stat st;
	char buf[64] = { 0 };

	ck_assert_int_eq(setattr(n, GOFER_SET_ALL, 02751, 1000), 0);
	wire_attr(&q.rep, &a);
	ck_assert_int_eq(stat(host("file"), &st), 0);
	ck_assert_uint_eq(st.st_size, 1000);
	ck_assert_uint_eq(st.st_mode & 07777, 02751);
	ck_assert_int_eq(st.st_atim.tv_sec, 100);
	ck_assert_int_eq(st.st_mtim.tv_nsec, 6);
	ck_assert_uint_eq(a.size, 1000);
	ck_assert_int_eq(setattr(walk("link"), GOFER_SET_MODE, 0600, 0), -EOPNOTSUPP);
	ck_assert_int_eq(setattr(walk("link"), GOFER_SET_MTIME, 0, 0), 0);
	ck_assert_int_eq(setattr(walk("fifo"), GOFER_SET_MODE, 0600, 0), 0);
	ck_assert_int_eq(setattr(walk("fifo"), GOFER_SET_SIZE, 0, 0), -ENXIO);
	ck_assert_int_eq(setattr(walk("d"), GOFER_SET_SIZE, 0, 0), -EISDIR);

	ck_assert_int_eq(xattr(GOFER_SETXATTR, n, "user.a", "value"), 0);
	ck_assert_int_eq(getxattr(host("file"), "user.a", buf, sizeof(buf)), 5);
	ck_assert_int_eq(xattr(GOFER_GETXATTR, n, "user.a", NULL), 0);
	ck_assert_uint_eq(q.rep.left, 5);
	ck_assert_int_eq(xattr(GOFER_GETXATTR, n, "security.selinux", NULL), -EOPNOTSUPP);
	ck_assert_int_eq(xattr(GOFER_GETXATTR, n, "security.capability", NULL), -ENODATA);
	ck_assert_int_eq(xattr(GOFER_SETXATTR, n, "security.capability", "x"), -EOPNOTSUPP);
	ck_assert_int_eq(xattr(GOFER_SETXATTR, n, "trusted.x", "x"), -EOPNOTSUPP);
	begin();
	u32(n);
	ck_assert_int_eq(send_type(GOFER_LISTXATTR), 0);
	ck_assert_uint_eq(q.rep.left, 7);
	ck_assert_int_eq(xattr(GOFER_REMOVEXATTR, n, "user.a", NULL), 0);
	ck_assert_int_eq(xattr(GOFER_REMOVEXATTR, n, "user.a", NULL), -ENODATA);
	ck_assert_int_eq(xattr(GOFER_GETXATTR, walk("fifo"), "user.a", NULL), -ENODATA);
	ck_assert_int_eq(xattr(GOFER_SETXATTR, walk("link"), "user.a", "x"), -EPERM);

	begin();
	u32(n);
	ck_assert_int_eq(send_type(GOFER_FSYNC), 0);
	begin();
	u32(g_root);
	ck_assert_int_eq(send_type(GOFER_STATFS), 0);
	ck_assert_uint_eq(q.rep.left, sizeof(struct gofer_statfs));
}
END_TEST

/* Whatever the sentry says, a read-only tree stays as it is. */
START_TEST(read_only)
{
	int64_t n = walk("file"), d = walk("d");

	ck_assert_int_eq(open_node(n, GOFER_OPEN_READ), 0);
	drop_fd();
	ck_assert_int_eq(open_node(n, GOFER_OPEN_WRITE), -EROFS);
	ck_assert_int_eq(open_node(n, GOFER_OPEN_WRITE | GOFER_OPEN_READ), -EROFS);
	ck_assert_int_eq(make(GOFER_CREATE, g_root, "x", 0644), -EROFS);
	ck_assert_int_eq(make(GOFER_MKDIR, g_root, "x", 0644), -EROFS);
	ck_assert_int_eq(make(GOFER_MKNOD, g_root, "x", S_IFIFO), -EROFS);
	ck_assert_int_eq(make(GOFER_SYMLINK, g_root, "x", 0), -EROFS);
	ck_assert_int_eq(link_it(n, d, "x"), -EROFS);
	ck_assert_int_eq(unlink_it(g_root, "file", 0), -EROFS);
	ck_assert_int_eq(rename_it(g_root, "file", d, "x", 0), -EROFS);
	ck_assert_int_eq(setattr(n, GOFER_SET_MODE, 0, 0), -EROFS);
	ck_assert_int_eq(setattr(n, GOFER_SET_SIZE, 0, 0), -EROFS);
	ck_assert_int_eq(setattr(n, 0, 0, 0), -EROFS);
	ck_assert_int_eq(xattr(GOFER_SETXATTR, n, "user.a", "x"), -EROFS);
	ck_assert_int_eq(xattr(GOFER_REMOVEXATTR, n, "user.a", NULL), -EROFS);
}
END_TEST

/* Links and renames do not cross attach points: ro content must not get a rw name. */
START_TEST(attach_points_are_apart)
{
	uint32_t other;

	ck_assert_int_eq(mkdir(host("rw"), 0755), 0);
	make_tree();
	start(ATTACH_RDONLY);
	int fd = open(host("d"), O_PATH | O_CLOEXEC);

	ck_assert_int_eq(gofer_add_attach(g, 1, fd, host("d"), 0), 0);
	ck_assert_int_eq(gofer_add_attach(g, 1, fd, host("d"), 0), -EEXIST);
	fd = open(host("file"), O_PATH | O_CLOEXEC);
	ck_assert_int_eq(gofer_add_attach(g, 2, fd, host("file"), ATTACH_FILE | ATTACH_RDONLY), 0);
	fd = open("/proc/self", O_PATH | O_CLOEXEC);
	ck_assert_int_eq(gofer_add_attach(g, 3, fd, "/proc/self", ATTACH_RDONLY), -EOPNOTSUPP);
	close(fd);
	serve();
	ck_assert_int_eq(attach(1, &other), 0);
	ck_assert_int_eq(link_it(walk("file"), other, "x"), -EXDEV);
	ck_assert_int_eq(rename_it(other, "e", g_root, "e", 0), -EROFS);
	ck_assert_int_eq(rename_it(g_root, "file", other, "e", 0), -EROFS);
	ck_assert_int_eq(attach(2, &other), 0);
	ck_assert_int_eq(open_node(other, GOFER_OPEN_READ), 0);
	ck_assert_int_ge(q.r.fd, 0);
	ck_assert_int_eq(open_node(other, GOFER_OPEN_WRITE), -EROFS);
	ck_assert_int_eq(walk_from(other, "x", 0, NULL), -ENOTDIR);
}
END_TEST

START_TEST(hidden_names)
{
	char out[512];
	int pages;

	gofer_free(g);
	ck_assert_int_eq(mkdir(host("d/secret"), 0755), 0);
	put("d/secret/key", "canary");
	put("plain", "canary2");
	ck_assert_int_eq(link(host("plain"), host("d/alias")), 0);
	start(0);
	ck_assert_int_eq(gofer_add_hide(g, 0, "/d/secret/"), 0);
	ck_assert_int_eq(gofer_add_hide(g, 0, "plain"), 0);
	ck_assert_int_eq(gofer_add_hide(g, 0, "not/there"), 0);
	ck_assert_int_eq(gofer_add_hide(g, 0, "d/../x"), -EINVAL);
	ck_assert_int_eq(gofer_add_hide(g, 5, "x"), -EINVAL);
	serve();
	ck_assert_int_eq(walk("d/secret"), -ENOENT);
	ck_assert_int_eq(walk("d/secret/key"), -ENOENT);
	ck_assert_int_eq(walk("plain"), -ENOENT);
	ck_assert_int_eq(walk("d/alias"), -ENOENT); /* the same object by another name */
	ck_assert_int_gt(walk("d/e"), 0);
	ck_assert_int_eq(listing(g_root, 0, out, sizeof(out), &pages), 4);
	ck_assert_int_eq(listing(walk("d"), 0, out, sizeof(out), &pages), 1);
	ck_assert_int_eq(listing(walk("d"), GOFER_READDIR_PLUS, out, sizeof(out), &pages), 1);
	ck_assert_int_eq(make(GOFER_MKDIR, walk("d"), "secret", 0755), -EACCES);
	ck_assert_int_eq(make(GOFER_CREATE, g_root, "plain", 0755), -EACCES);
	ck_assert_int_eq(unlink_it(g_root, "plain", 0), -ENOENT);
	ck_assert_int_eq(rename_it(g_root, "plain", g_root, "x", 0), -ENOENT);
	ck_assert_int_eq(rename_it(g_root, "file", g_root, "plain", 0), -EACCES);
	ck_assert_int_eq(rename_it(g_root, "d", g_root, "x", 0), -EBUSY);
	ck_assert_int_eq(rename_it(g_root, "d", g_root, "link", 2), -EBUSY);
}
END_TEST

START_TEST(forgets)
{
	int64_t d = walk("d"), deep = walk("d/e/deep");

	walk("d");
	uint32_t before = g->node_count;

	begin();
	u32(1);
	u32(d);
	u32(3); /* walked three times: alone, on the way, alone */
	ck_assert_int_eq(send_type(GOFER_FORGET), 1);
	/* Its kids keep it, but it can not be named any more. */
	ck_assert_uint_eq(g->node_count, before);
	begin();
	u32(d);
	ck_assert_int_eq(send_type(GOFER_GETATTR), -EBADF);
	ck_assert_int_eq(open_node(deep, GOFER_OPEN_READ), 0);
	drop_fd();
	begin();
	u32(1);
	u32(deep);
	u32(1);
	ck_assert_int_eq(send_type(GOFER_FORGET), 1);
	int64_t e = walk("d/e");

	ck_assert_int_gt(e, 0);
	ck_assert_uint_eq(g->node_count, before - 1);
	begin();
	u32(1);
	u32(e);
	u32(3);
	ck_assert_int_eq(send_type(GOFER_FORGET), -EPROTO); /* it had two */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("requests");
	TCase *rw = tcase_create("rw"), *ro = tcase_create("ro");

	tcase_set_timeout(rw, 30);
	tcase_add_checked_fixture(rw, setup_rw, remove_tree);
	tcase_add_checked_fixture(ro, setup_ro, remove_tree);
	tcase_add_test(rw, walks);
	tcase_add_test(rw, opens);
	tcase_add_test(rw, special_files);
	tcase_add_test(rw, lists);
	tcase_add_test(rw, lists_side_by_side);
	tcase_add_test(rw, makes);
	tcase_add_test(rw, moves);
	tcase_add_test(rw, attributes);
	tcase_add_test(rw, attach_points_are_apart);
	tcase_add_test(rw, hidden_names);
	tcase_add_test(rw, forgets);
	tcase_add_test(ro, read_only);
	suite_add_tcase(s, rw);
	suite_add_tcase(s, ro);
	return run_suite(s);
}
