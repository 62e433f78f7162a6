/* SPDX-License-Identifier: Apache-2.0 */
/* What the gofer's tests share: a tree on the host, a gofer for it, and raw requests. */
#ifndef CAISSON_TEST_GOFER_H
#define CAISSON_TEST_GOFER_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/log.h"

#define MAYBE __attribute__((unused))

static char g_dir[64];
static struct gofer *g;
static uint32_t g_root; /* node of attach point 0 */

static const char *host(const char *name)
{
	static char path[4][2400];
	static int turn;
	char *p = path[turn++ & 3];

	snprintf(p, sizeof(path[0]), "%s/%s", g_dir, name);
	return p;
}

static void put(const char *name, const char *text)
{
	int fd = open(host(name), O_CREAT | O_TRUNC | O_WRONLY, 0644);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
}

/* ---- a request, made and read piece by piece ---- */

static struct {
	uint8_t msg[GOFER_MSG_MAX + 16];
	struct wire_out req;
	struct gofer_hdr hdr;
	struct reply r;
	struct wire_in rep;
} q;

static void begin(void)
{
	wire_out_init(&q.req, q.msg + sizeof(struct gofer_hdr),
		      GOFER_MSG_MAX - sizeof(struct gofer_hdr));
}

MAYBE static void text(const char *s)
{
	wire_put_text(&q.req, s, strlen(s));
}

#define u16(v) wire_put_u16(&q.req, (uint16_t)(v))
#define u32(v) wire_put_u32(&q.req, (uint32_t)(v))
#define u64(v) wire_put_u64(&q.req, (uint64_t)(v))

/* The reply's error, 0, or 1 for "no reply", -EPROTO when it ended the connection. */
static int send_type(uint32_t type)
{
	struct gofer_hdr h = { .size = (uint32_t)(sizeof(h) + q.req.len),
			       .type = (uint16_t)type,
			       .tag = 7 };

	memcpy(q.msg, &h, sizeof(h));
	int r = gofer_dispatch(g, q.msg, h.size, &q.hdr, &q.r);

	if (r < 0)
		return r;
	if (r == 0)
		return 1;
	ck_assert_uint_eq(q.hdr.tag, 7);
	ck_assert_uint_eq(q.hdr.type, type);
	ck_assert_uint_eq(q.hdr.size, sizeof(h) + q.r.out.len);
	ck_assert(!q.hdr.error || q.r.out.len == 0);
	wire_in_init(&q.rep, q.r.out.buf, q.r.out.len);
	return q.hdr.error;
}

MAYBE static void drop_fd(void)
{
	if (q.r.fd >= 0 && !q.r.fd_borrowed)
		close(q.r.fd);
	q.r.fd = -1;
}

static int hello(void)
{
	begin();
	u32(GOFER_MAGIC);
	u32(GOFER_VERSION);
	return send_type(GOFER_HELLO);
}

static int attach(uint32_t id, uint32_t *nid)
{
	begin();
	u32(id);
	int err = send_type(GOFER_ATTACH);

	if (!err)
		*nid = wire_u32(&q.rep);
	return err;
}

/* Walks "a/b/c" from a node; the last node, or negative errno where it stopped. */
static int64_t walk_from(uint32_t from, const char *path, uint16_t flags, struct gofer_attr *attr)
{
	uint16_t count = 0;
	uint32_t nid = 0;
	struct gofer_attr a = { 0 };

	begin();
	u32(from);
	u16(0);
	u16(flags);
	for (const char *p = path; *p; count++) {
		size_t n = strcspn(p, "/");

		wire_put_text(&q.req, p, n);
		p += n + (p[n] == '/');
	}
	wire_patch_u16(&q.req, 4, count);
	int err = send_type(GOFER_WALK);

	if (err)
		return err;
	uint16_t done = wire_u16(&q.rep);

	wire_u16(&q.rep);
	int32_t stop = (int32_t)wire_u32(&q.rep);

	for (uint16_t i = 0; i < done; i++) {
		nid = wire_u32(&q.rep);
		wire_attr(&q.rep, &a);
	}
	ck_assert(wire_done(&q.rep));
	if (attr)
		*attr = a;
	if (stop)
		return stop;
	return done == count ? (int64_t)nid : -ENOTDIR;
}

MAYBE static int64_t walk(const char *path)
{
	return walk_from(g_root, path, 0, NULL);
}

MAYBE static int open_node(int64_t nid, uint32_t access)
{
	begin();
	u32(nid);
	u32(access);
	return send_type(GOFER_OPEN);
}

static void make_tree(void)
{
	strcpy(g_dir, "/tmp/gofer.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(g_dir));
	ck_assert_int_eq(mkdir(host("d"), 0755), 0);
	ck_assert_int_eq(mkdir(host("d/e"), 0755), 0);
	put("file", "text");
	put("d/e/deep", "deep text");
	ck_assert_int_eq(symlink("file", host("link")), 0);
	ck_assert_int_eq(mkfifo(host("fifo"), 0644), 0);
}

static void start(uint32_t flags)
{
	log_setup(-1, LOG_ERROR, "test");
	umask(0);
	g = gofer_new();
	ck_assert_ptr_nonnull(g);
	g->uid = geteuid();
	g->gid = getegid();
	g->caps = geteuid() == 0 ? 0x1f : 0;
	g->have_fchmodat2 = 1;
	int fd = open(g_dir, O_PATH | O_CLOEXEC);

	ck_assert_int_eq(gofer_add_attach(g, 0, fd, g_dir, flags), 0);
}

MAYBE static void serve(void)
{
	ck_assert_int_eq(hello(), 0);
	ck_assert_int_eq(attach(0, &g_root), 0);
}

static void remove_tree(void)
{
	char cmd[128];

	gofer_free(g);
	g = NULL;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_dir);
	ck_assert_int_eq(system(cmd), 0);
}

static int run_suite(Suite *s)
{
	SRunner *sr = srunner_create(s);

	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);

	srunner_free(sr);
	return failed != 0;
}

#endif
