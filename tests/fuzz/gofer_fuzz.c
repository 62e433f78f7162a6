/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile sentry for the gofer. Random and half-right messages go straight into
 * gofer_dispatch(); after each, what came back is checked: a donated fd is a regular file of the
 * tree, read-only if the tree is, and nothing outside the tree was touched.
 *
 *   gofer_fuzz [MESSAGES [SEED]]     plain program; the default is 100000 messages
 *   -DFUZZ_LIBFUZZER                 leaves out main(): input is {u16 length, message}…
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char g_base[64];
static struct stat g_canary;
static uint64_t g_seen[GOFER_MSG_COUNT], g_ok[GOFER_MSG_COUNT], g_fds, g_ended;

static void fail(const char *why)
{
	fprintf(stderr, "FAIL: %s\n", why);
	abort();
}

static void need(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(2);
	}
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);

	need(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(fd);
}

/* base/canary and base/out lie outside; base/t is the tree, with links that lead out. */
static void make_tree(void)
{
	char cmd[512];

	snprintf(
		cmd, sizeof(cmd),
		"cd %s && chmod -R u+rwx t 2>/dev/null; rm -rf t && mkdir -p out t/a/b t/ro && "
		"ln -s ../canary t/c && ln -s .. t/d && ln -s / t/a/c && mkfifo t/e && ln -s a t/b",
		g_base);
	need(system(cmd) == 0, "making the tree");
	snprintf(cmd, sizeof(cmd), "%s/t/f", g_base);
	write_file(cmd, "inside");
	snprintf(cmd, sizeof(cmd), "%s/t/a/hidden", g_base);
	write_file(cmd, "hidden");
}

static void make_base(void)
{
	struct rlimit rl = { 1 << 20, 1 << 20 };
	char path[128];

	if (g_base[0])
		return;
	snprintf(g_base, sizeof(g_base), "%s/gofer_fuzz.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	need(mkdtemp(g_base) != NULL, g_base);
	snprintf(path, sizeof(path), "%s/canary", g_base);
	write_file(path, "CANARY");
	need(stat(path, &g_canary) == 0, path);
	/* Files of any size would fill the disk. */
	setrlimit(RLIMIT_FSIZE, &rl);
	signal(SIGXFSZ, SIG_IGN);
	log_setup(-1, LOG_ERROR, "fuzz");
	umask(0);
}

static void check_outside(void)
{
	char path[128], text[16] = { 0 };
	struct stat st;

	snprintf(path, sizeof(path), "%s/canary", g_base);
	if (stat(path, &st) || st.st_ino != g_canary.st_ino ||
	    st.st_mtim.tv_nsec != g_canary.st_mtim.tv_nsec ||
	    st.st_ctim.tv_nsec != g_canary.st_ctim.tv_nsec || st.st_nlink != g_canary.st_nlink)
		fail("the canary was touched");
	int fd = open(path, O_RDONLY);

	if (read(fd, text, sizeof(text)) != 6 || strcmp(text, "CANARY"))
		fail("the canary was changed");
	close(fd);
	snprintf(path, sizeof(path), "%s/out", g_base);
	if (stat(path, &st) || st.st_nlink != 2)
		fail("something appeared outside");
}

static struct gofer *session(uint32_t flags)
{
	struct gofer *g = gofer_new();
	char path[128];

	need(g != NULL, "gofer_new");
	g->uid = geteuid();
	g->gid = getegid();
	g->caps = geteuid() ? 0 : 0x1f;
	g->have_fchmodat2 = 1;
	g->fd_max = 8;
	snprintf(path, sizeof(path), "%s/t", g_base);
	need(gofer_add_attach(g, 0, open(path, O_PATH | O_CLOEXEC), path, flags) == 0, "attach 0");
	snprintf(path, sizeof(path), "%s/t/f", g_base);
	need(gofer_add_attach(g, 1, open(path, O_PATH | O_CLOEXEC), path,
			      ATTACH_FILE | ATTACH_RDONLY) == 0,
	     "attach 1");
	snprintf(path, sizeof(path), "%s/t/a", g_base);
	need(gofer_add_attach(g, 2, open(path, O_PATH | O_CLOEXEC), path, ATTACH_RDONLY) == 0,
	     "attach 2");
	need(gofer_add_hide(g, 0, "a/hidden") == 0, "hide");
	return g;
}

static void check_fd(struct gofer *g, const struct reply *r)
{
	int flags = fcntl(r->fd, F_GETFL);
	struct stat st;

	g_fds++;
	if (fstat(r->fd, &st) || !S_ISREG(st.st_mode))
		fail("a donated fd is no regular file");
	if (st.st_ino == g_canary.st_ino && st.st_dev == g_canary.st_dev)
		fail("the canary was donated");
	if ((flags & O_ACCMODE) != O_RDONLY && (g->attach[0].flags & ATTACH_RDONLY))
		fail("a writable fd of a read-only tree");
	if (!r->fd_borrowed)
		close(r->fd);
}

/* 0 while the connection lives. */
static int one(struct gofer *g, const uint8_t *msg, size_t n)
{
	struct gofer_hdr hdr = { 0 };
	struct reply r = { .fd = -1 };
	int send = gofer_dispatch(g, msg, n, &hdr, &r);

	if (hdr.type < GOFER_MSG_COUNT)
		g_seen[hdr.type]++;
	if (send < 0) {
		g_ended++;
		if (r.fd >= 0 && !g->violation)
			fail("an fd after the end");
		return -1;
	}
	if (send) {
		if (hdr.size != sizeof(hdr) + r.out.len || hdr.size > GOFER_MSG_MAX)
			fail("reply size");
		if (!hdr.error && hdr.type < GOFER_MSG_COUNT)
			g_ok[hdr.type]++;
		if (hdr.error > 0 || hdr.error < -4095)
			fail("reply error");
	}
	if (r.fd >= 0)
		check_fd(g, &r);
	if (g->fd_count > g->fd_max)
		fail("more fds than allowed");
	return 0;
}

static void greet(struct gofer *g)
{
	uint8_t msg[64];

	for (uint32_t step = 0; step < 4; step++) {
		struct gofer_hdr h = { .size = sizeof(h) + (step ? 4 : 8),
				       .type = step ? GOFER_ATTACH : GOFER_HELLO };
		uint32_t body[2] = { step ? step - 1 : GOFER_MAGIC, GOFER_VERSION };

		memcpy(msg, &h, sizeof(h));
		memcpy(msg + sizeof(h), body, sizeof(body));
		if (one(g, msg, h.size))
			fail("greeting refused");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	make_base();
	make_tree();
	struct gofer *g = session(size && (data[0] & 1) ? ATTACH_RDONLY : 0);

	greet(g);
	for (size_t at = 1; at + 2 <= size;) {
		size_t n = data[at] | (size_t)data[at + 1] << 8;

		at += 2;
		n = n < size - at ? n : size - at;
		if (one(g, data + at, n))
			break;
		at += n;
	}
	gofer_free(g);
	check_outside();
	return 0;
}

#ifndef FUZZ_LIBFUZZER

static uint64_t g_rng;

static uint32_t rnd(uint32_t n)
{
	g_rng ^= g_rng << 13;
	g_rng ^= g_rng >> 7;
	g_rng ^= g_rng << 17;
	return n ? (uint32_t)((g_rng >> 11) % n) : 0;
}

static void put_name(struct wire_out *o)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "hidden", "ro" };
	static const char *const bad[] = { "..", ".", "", "a/b", "/", "../canary" };
	char junk[300];

	if (rnd(5000) == 0) {
		const char *s = bad[rnd(6)];

		wire_put_text(o, s, strlen(s));
	} else if (rnd(100) == 0) {
		size_t n = rnd(260);

		for (size_t i = 0; i < n; i++)
			junk[i] = (char)(1 + rnd(255));
		wire_put_text(o, junk, n);
	} else {
		const char *s = names[rnd(8)];

		wire_put_text(o, s, strlen(s));
	}
}

static uint64_t odd_number(void)
{
	static const uint64_t odd[] = { 0,	     1,		0x7fffffff, 0x80000000, 0xffffffff,
					0x100000000, INT64_MAX, 1ull << 63, UINT64_MAX };

	return rnd(3) ? rnd(4096) : odd[rnd(9)];
}

static uint32_t some_node(struct gofer *g)
{
	return rnd(50) == 0 ? (uint32_t)odd_number() : 1 + rnd(g->node_used_end + 1);
}

static void put_xattr_name(struct wire_out *o)
{
	static const char *const n[] = { "user.a", "security.capability", "trusted.x", "user.",
					 "x" };
	const char *s = n[rnd(5)];

	wire_put_text(o, s, strlen(s));
}

/* A body of the right shape with fields that may be anything. */
static void body(struct gofer *g, uint32_t type, struct wire_out *o)
{
	switch (type) {
	case GOFER_WALK: {
		uint32_t n = rnd(2000) == 0 ? rnd(70) : 1 + rnd(4);

		wire_put_u32(o, some_node(g));
		wire_put_u16(o, (uint16_t)n);
		wire_put_u16(o, (uint16_t)rnd(2));
		while (n--)
			put_name(o);
		break;
	}
	case GOFER_LISTDIRS: {
		uint32_t n = rnd(2000) == 0 ? rnd(70) : 1 + rnd(4);

		wire_put_u32(o, some_node(g));
		wire_put_u16(o, (uint16_t)n);
		wire_put_u16(o, (uint16_t)(rnd(2000) == 0 ? rnd(80) : rnd(4)));
		while (n--)
			put_name(o);
		break;
	}
	case GOFER_OPEN:
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, rnd(2000) ? 1 + rnd(3) : (uint32_t)odd_number());
		break;
	case GOFER_READDIR:
		wire_put_u32(o, some_node(g));
		wire_put_u64(o, rnd(2) ? 0 : odd_number());
		wire_put_u32(o, rnd(2000) ? rnd(2) : (uint32_t)odd_number());
		break;
	case GOFER_FORGET: {
		/* Numbers it does not have end the session: seldom. */
		uint32_t nid = 4 + rnd(g->node_used_end), have = 0;

		if (nid < g->node_used_end)
			have = g->node[nid].refs;
		if (!have && rnd(1000)) {
			wire_put_u32(o, 0);
			break;
		}
		wire_put_u32(o, 1);
		wire_put_u32(o, nid);
		wire_put_u32(o, rnd(1000) ? rnd(have + 1) : (uint32_t)odd_number());
		break;
	}
	case GOFER_CREATE:
	case GOFER_MKDIR:
	case GOFER_MKNOD:
	case GOFER_SYMLINK:
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, (rnd(16) << 12) | 0700 | rnd(07777));
		wire_put_u32(o, rnd(3) ? geteuid() : (uint32_t)odd_number());
		wire_put_u32(o, rnd(3) ? getegid() : (uint32_t)odd_number());
		put_name(o);
		if (type == GOFER_SYMLINK)
			wire_put_text(o, "../../canary", 3 + rnd(9));
		break;
	case GOFER_LINK:
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, some_node(g));
		put_name(o);
		break;
	case GOFER_UNLINK:
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, rnd(2000) ? rnd(2) : (uint32_t)odd_number());
		put_name(o);
		break;
	case GOFER_RENAME:
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, rnd(6));
		put_name(o);
		put_name(o);
		break;
	case GOFER_SETATTR:
		wire_put_u32(o, some_node(g));
		wire_put_u32(o, rnd(2000) ? rnd(64) : (uint32_t)odd_number());
		wire_put_u32(o, 0700 | (uint32_t)odd_number());
		wire_put_u32(o, rnd(3) ? geteuid() : (uint32_t)odd_number());
		wire_put_u32(o, rnd(3) ? getegid() : (uint32_t)odd_number());
		wire_put_u64(o, odd_number());
		for (int i = 0; i < 2; i++) {
			wire_put_u64(o, odd_number());
			wire_put_u32(o, (uint32_t)odd_number());
		}
		break;
	case GOFER_GETXATTR:
	case GOFER_REMOVEXATTR:
		wire_put_u32(o, some_node(g));
		put_xattr_name(o);
		break;
	case GOFER_SETXATTR: {
		uint32_t n = rnd(64);

		wire_put_u32(o, some_node(g));
		wire_put_u32(o, rnd(4));
		put_xattr_name(o);
		wire_put_u32(o, n);
		while (n--)
			wire_put_u8(o, (uint8_t)rnd(256));
		break;
	}
	default:
		wire_put_u32(o, some_node(g));
		break;
	}
}

static size_t random_message(struct gofer *g, uint8_t *msg)
{
	struct gofer_hdr h = { .type = (uint16_t)(3 + rnd(GOFER_MSG_COUNT - 3)), .tag = rnd(0) };
	struct wire_out o;

	wire_out_init(&o, msg + sizeof(h), 8192);
	body(g, h.type, &o);
	h.size = (uint32_t)(sizeof(h) + o.len);
	memcpy(msg, &h, sizeof(h));
	/* Now and then break it: that usually ends the session. */
	if (rnd(3000) == 0)
		msg[rnd(h.size)] ^= (uint8_t)(1 + rnd(255));
	if (rnd(5000) == 0)
		return rnd(h.size + 1);
	return h.size;
}

int main(int argc, char **argv)
{
	uint64_t total = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, sessions = 0;
	static uint8_t msg[16384];

	g_rng = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 0x9e3779b97f4a7c15ull | 1;
	make_base();
	for (uint64_t done = 0; done < total;) {
		sessions++;
		make_tree();
		struct gofer *g = session(rnd(4) ? 0 : ATTACH_RDONLY);

		greet(g);
		for (int i = 0; i < 4000 && done < total; i++, done++)
			if (one(g, msg, random_message(g, msg)))
				break;
		gofer_free(g);
		check_outside();
	}
	for (unsigned int t = 1; t < GOFER_MSG_COUNT; t++)
		printf("%-12s %9llu sent %9llu served\n", gofer_msg_name(t),
		       (unsigned long long)g_seen[t], (unsigned long long)g_ok[t]);
	printf("%llu messages, %llu sessions, %llu ended, %llu fds donated\n",
	       (unsigned long long)total, (unsigned long long)sessions, (unsigned long long)g_ended,
	       (unsigned long long)g_fds);
	snprintf((char *)msg, sizeof(msg), "chmod -R u+rwx %s; rm -rf %s", g_base, g_base);
	return system((char *)msg) != 0;
}

#endif
