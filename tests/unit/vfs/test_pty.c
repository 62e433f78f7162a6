/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs in a mounted devpts, /dev as devtmpfs makes it, and job control against a fake sentry. */
#include <asm/termbits.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "tests/unit/vfs/fixture.h"
#include "vfs/dev/dev.h"
#include "vfs/dev/tty.h"

/* ---- the fake: one process that is its group and session, and one background group ---- */

struct pid {
	int nr, refs;
};
static struct pid g_session = { 10, 1 }, g_bg = { 20, 1 };
static struct pid *g_current_pgrp;
static int g_leader, g_ignores, g_orphaned;
static struct tty *g_ctty;
static struct {
	int nr, signo;
} g_sent[16];
static int g_sent_count;

static struct pid *fake_get(struct pid *p)
{
	p->refs++;
	return p;
}
static void fake_put(struct pid *p)
{
	p->refs--;
	ck_assert_int_ge(p->refs, 1);
}
static struct pid *fake_pgrp(void)
{
	return fake_get(g_current_pgrp);
}
static struct pid *fake_session(void)
{
	return fake_get(&g_session);
}
static int fake_leader(void)
{
	return g_leader;
}
static int fake_cap(int cap)
{
	return 0;
}
static int fake_ignores(int signo)
{
	return g_ignores;
}
static int fake_orphaned(void)
{
	return g_orphaned;
}
static struct tty *fake_ctty(void)
{
	return g_ctty ? tty_get(g_ctty) : NULL;
}
static void fake_set_ctty(struct tty *t)
{
	if (g_ctty)
		tty_put(g_ctty);
	g_ctty = t;
}
static void fake_signal(struct pid *p, int signo)
{
	ck_assert_int_lt(g_sent_count, 16);
	g_sent[g_sent_count].nr = p->nr;
	g_sent[g_sent_count++].signo = signo;
}
static void fake_clear(struct pid *session, struct tty *t, int hangup)
{
	if (session != &g_session || g_ctty != t)
		return;
	g_ctty = NULL;
	tty_put(t);
	if (hangup) {
		fake_signal(session, SIGHUP);
		fake_signal(session, SIGCONT);
	}
}
static struct pid *fake_find(int nr)
{
	return nr == 10 ? fake_get(&g_session) : nr == 20 ? fake_get(&g_bg) : NULL;
}
static int fake_in_session(struct pid *p, struct pid *session)
{
	return 1;
}
static int fake_nr(struct pid *p)
{
	return p->nr;
}

static const struct tty_hooks g_hooks = {
	.current_pgrp = fake_pgrp,
	.current_session = fake_session,
	.current_is_session_leader = fake_leader,
	.current_has_cap = fake_cap,
	.current_ignores = fake_ignores,
	.current_pgrp_is_orphaned = fake_orphaned,
	.current_ctty = fake_ctty,
	.set_current_ctty = fake_set_ctty,
	.clear_session_ctty = fake_clear,
	.signal_pgrp = fake_signal,
	.find_pgrp = fake_find,
	.pgrp_in_session = fake_in_session,
	.pid_nr = fake_nr,
	.pid_get = fake_get,
	.pid_put = fake_put,
};

static void expect_sent(int nr, int signo)
{
	ck_assert_int_ge(g_sent_count, 1);
	ck_assert_int_eq(g_sent[0].nr, nr);
	ck_assert_int_eq(g_sent[0].signo, signo);
	memmove(g_sent, g_sent + 1, sizeof(g_sent) - sizeof(g_sent[0]));
	g_sent_count--;
}

/* ---- fixture ---- */

static int kit_in(struct ioctl_req *r, void *dst, uint64_t gaddr, size_t n)
{
	memcpy(dst, (void *)(uintptr_t)gaddr, n);
	return 0;
}

static int kit_out(struct ioctl_req *r, uint64_t gaddr, const void *src, size_t n)
{
	memcpy((void *)(uintptr_t)gaddr, src, n);
	return 0;
}

static long kioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct ioctl_req r = { .cmd = cmd, .arg = arg, .copy_in = kit_in, .copy_out = kit_out };

	return file_ioctl(f, &r);
}
#define PTR(p) ((uint64_t)(uintptr_t)(p))

static ssize_t kread(struct file *f, void *buf, size_t n)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	return file_read(f, &u);
}

static ssize_t kwrite(struct file *f, const void *buf, size_t n)
{
	struct uio u;

	uio_init_kernel(&u, (void *)(uintptr_t)buf, n);
	return file_write(f, &u, UINT64_MAX);
}

static void start(void)
{
	fix_setup();
	tty_set_hooks(&g_hooks);
	g_current_pgrp = &g_session;
	g_leader = 1;
	g_ctty = NULL;
	g_sent_count = g_ignores = g_orphaned = 0;
	ck_assert_int_eq(fix_mkdir("/dev"), 0);
	ck_assert_int_eq(vfs_mount(&g_ctx, "dev", "/dev", "devtmpfs", 0, ""), 0);
	ck_assert_int_eq(vfs_mount(&g_ctx, "devpts", "/dev/pts", "devpts", 0,
				   "newinstance,ptmxmode=0666,mode=0620,gid=5"),
			 0);
}

static void stop(void)
{
	ck_assert_int_eq(g_session.refs, 1);
	ck_assert_int_eq(g_bg.refs, 1);
	fix_teardown();
}

static struct file *m, *s;

static void open_pair(uint64_t flags)
{
	int zero = 0, n;
	char name[32];

	m = fix_open("/dev/ptmx", O_RDWR | O_NOCTTY, 0);
	ck_assert(!IS_ERR(m));
	ck_assert_int_eq(kioctl(m, TIOCGPTN, PTR(&n)), 0);
	snprintf(name, sizeof(name), "/dev/pts/%d", n);
	ck_assert_int_eq(fix_try_open(name, O_RDWR | O_NOCTTY), -EIO);
	ck_assert_int_eq(kioctl(m, TIOCSPTLCK, PTR(&zero)), 0);
	s = fix_open(name, O_RDWR | flags, 0);
	ck_assert(!IS_ERR(s));
}

static void close_pair(void)
{
	file_put(s);
	file_put(m);
}

/* ---- tests ---- */

START_TEST(dev_has_its_nodes)
{
	struct linux_stat st;
	struct file *f;
	char buf[16] = "x";

	ck_assert_int_eq(fix_stat("/dev/null", &st), 0);
	ck_assert(S_ISCHR(st.mode) && (st.mode & 0777) == 0666 && st.rdev == linux_makedev(1, 3));
	ck_assert_int_eq(fix_stat("/dev", &st), 0);
	ck_assert_int_eq(st.mode & 07777, 0755);
	f = fix_open("/dev/zero", O_RDWR, 0);
	ck_assert_int_eq(kread(f, buf, 16), 16);
	ck_assert_int_eq(buf[0], 0);
	file_put(f);
	f = fix_open("/dev/full", O_WRONLY, 0);
	ck_assert_int_eq(kwrite(f, buf, 1), -ENOSPC);
	file_put(f);
	f = fix_open("/dev/urandom", O_RDONLY, 0);
	ck_assert_int_eq(kread(f, buf, 16), 16);
	file_put(f);
	ck_assert_int_eq(fix_try_open("/dev/tty", O_RDWR), -ENXIO);
	f = fix_open("/dev/kmsg", O_RDWR, 0);
	ck_assert_int_eq(kread(f, buf, 16), -EAGAIN);
	ck_assert_int_eq(kwrite(f, "<6>hello\n", 9), 9);
	char line[128];
	ssize_t n = kread(f, line, sizeof(line) - 1);
	ck_assert_int_gt(n, 0);
	line[n] = 0;
	ck_assert(strncmp(line, "14,0,", 5) == 0);
	ck_assert_ptr_nonnull(strstr(line, ",-;hello\n"));
	file_put(f);
}
END_TEST

START_TEST(pairs_appear_and_vanish)
{
	struct linux_stat st, st2;
	struct file *m2, *p;

	open_pair(O_NOCTTY);
	m2 = fix_open("/dev/pts/ptmx", O_RDWR, 0);
	ck_assert(!IS_ERR(m2));
	ck_assert_int_eq(fix_stat("/dev/pts/1", &st), 0);
	ck_assert_int_eq(st.gid, 5);
	ck_assert_int_eq(st.mode, S_IFCHR | 0620);
	ck_assert_uint_eq(st.rdev, linux_makedev(136, 1));
	ck_assert_int_eq(vfs_getattr(s->path, &st), 0);
	ck_assert_int_eq(fix_stat("/dev/pts/0", &st2), 0);
	ck_assert_uint_eq(st.ino, st2.ino);
	ck_assert_uint_eq(st.dev, st2.dev);
	p = pty_open_peer(m, O_RDWR | O_NOCTTY, g_root);
	ck_assert(!IS_ERR(p));
	ck_assert_ptr_eq(p->inode, s->inode);
	file_put(p);
	ck_assert_int_eq(fix_stat("/dev/pts/00", &st), -ENOENT);
	ck_assert_int_eq(fix_stat("/dev/pts/7", &st), -ENOENT);
	file_put(m2);
	ck_assert_int_eq(fix_stat("/dev/pts/1", &st), -ENOENT);
	ck_assert_int_eq(vfs_chmod(&g_ctx, s->path, 0600), 0);
	ck_assert_int_eq(fix_stat("/dev/pts/0", &st), 0);
	ck_assert_int_eq(st.mode, S_IFCHR | 0600);
	close_pair();
	ck_assert_int_eq(fix_stat("/dev/pts/0", &st), -ENOENT);
	ck_assert_int_eq(vfs_mount(&g_ctx, "devpts", "/dev/shm", "devpts", 0, "bogus"), -EINVAL);
	ck_assert_int_eq(vfs_mount(&g_ctx, "devpts", "/dev/shm", "devpts", 0, "max=1"), 0);
	ck_assert_int_eq(fix_stat("/dev/shm/ptmx", &st), 0);
	ck_assert_int_eq(st.mode, S_IFCHR | 0000);
	m = fix_open("/dev/shm/ptmx", O_RDWR, 0);
	ck_assert(!IS_ERR(m));
	ck_assert_int_eq(fix_try_open("/dev/shm/ptmx", O_RDWR), -ENOSPC);
	file_put(m);
}
END_TEST

START_TEST(opening_takes_the_terminal)
{
	struct file *t;
	int nr;

	open_pair(0);
	ck_assert_ptr_nonnull(g_ctty);
	ck_assert_int_eq(kioctl(s, TIOCGPGRP, PTR(&nr)), 0);
	ck_assert_int_eq(nr, 10);
	ck_assert_int_eq(kioctl(s, TIOCGSID, PTR(&nr)), 0);
	ck_assert_int_eq(nr, 10);
	t = fix_open("/dev/tty", O_RDWR, 0);
	ck_assert(!IS_ERR(t));
	file_put(t);
	ck_assert_int_eq(kwrite(m, "\003\034\032", 3), 3);
	expect_sent(10, SIGINT);
	expect_sent(10, SIGQUIT);
	expect_sent(10, SIGTSTP);
	close_pair();
	expect_sent(10, SIGHUP);
	expect_sent(10, SIGCONT);
	ck_assert_ptr_null(g_ctty);
}
END_TEST

START_TEST(background_groups_are_held_back)
{
	struct linux_termios2 tio;
	int nr = 20;
	char c;

	open_pair(0);
	ck_assert_int_eq(kioctl(s, TCGETS2, PTR(&tio)), 0);
	ck_assert_int_eq(kioctl(s, TIOCSPGRP, PTR(&nr)), 0);
	/* We are now in the background. */
	ck_assert_int_eq(kread(s, &c, 1), -ERESTARTSYS);
	expect_sent(10, SIGTTIN);
	ck_assert_int_eq(kioctl(s, TCSETS2, PTR(&tio)), -ERESTARTSYS);
	expect_sent(10, SIGTTOU);
	ck_assert_int_eq(kwrite(s, "x", 1), 1);
	g_ignores = 1;
	ck_assert_int_eq(kread(s, &c, 1), -EIO);
	tio.lflag |= TOSTOP;
	ck_assert_int_eq(kioctl(s, TCSETS2, PTR(&tio)), 0);
	ck_assert_int_eq(kwrite(s, "x", 1), 1);
	g_ignores = 0;
	ck_assert_int_eq(kwrite(s, "x", 1), -ERESTARTSYS);
	expect_sent(10, SIGTTOU);
	g_orphaned = 1;
	ck_assert_int_eq(kread(s, &c, 1), -EIO);
	nr = 10;
	ck_assert_int_eq(kioctl(s, TIOCSPGRP, PTR(&nr)), -ENOTTY);
	g_current_pgrp = &g_bg;
	nr = 99;
	ck_assert_int_eq(kioctl(s, TIOCSPGRP, PTR(&nr)), -ESRCH);
	nr = -1;
	ck_assert_int_eq(kioctl(s, TIOCSPGRP, PTR(&nr)), -EINVAL);
	ck_assert_int_eq(kread(s, &c, 1), -EAGAIN);
	g_sent_count = 0;
	close_pair();
	g_sent_count = 0;
}
END_TEST

START_TEST(giving_up_and_taking_back)
{
	struct linux_winsize ws = { 5, 6, 0, 0 };
	int nr;

	open_pair(0);
	ck_assert_int_eq(kioctl(m, TIOCSWINSZ, PTR(&ws)), 0);
	expect_sent(10, SIGWINCH);
	ck_assert_int_eq(kioctl(s, TIOCNOTTY, 0), 0);
	expect_sent(10, SIGHUP);
	expect_sent(10, SIGCONT);
	ck_assert_ptr_null(g_ctty);
	ck_assert_int_eq(kioctl(s, TIOCGPGRP, PTR(&nr)), -ENOTTY);
	ck_assert_int_eq(kioctl(m, TIOCGPGRP, PTR(&nr)), 0);
	ck_assert_int_eq(nr, 0);
	ck_assert_int_eq(kioctl(s, TIOCSCTTY, 0), 0);
	ck_assert_int_eq(kioctl(s, TIOCSCTTY, 0), 0);
	ck_assert_ptr_nonnull(g_ctty);
	g_leader = 0;
	ck_assert_int_eq(kioctl(s, TIOCSCTTY, 0), -EPERM);
	g_leader = 1;
	tty_disassociate(1);
	expect_sent(10, SIGHUP);
	ck_assert_int_eq(g_sent_count, 0);
	ck_assert_ptr_null(g_ctty);
	ck_assert_int_eq(kioctl(s, TIOCSTI, PTR("x")), -EIO);
	close_pair();
}
END_TEST

START_TEST(dead_masters_leave_dead_slaves)
{
	char c;
	int nr = 1;

	open_pair(O_NOCTTY);
	kwrite(s, "bye", 3);
	file_put(m);
	ck_assert_int_eq(kread(s, &c, 1), 0);
	ck_assert_int_eq(kwrite(s, &c, 1), -EIO);
	ck_assert_int_eq(kioctl(s, TIOCGPGRP, PTR(&nr)), -EIO);
	ck_assert_int_eq(kioctl(s, TIOCSPGRP, PTR(&nr)), -ENOTTY);
	ck_assert_uint_eq(file_poll(s, NULL),
			  POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP);
	file_put(s);
	open_pair(O_NOCTTY);
	kwrite(s, "bye", 3);
	file_put(s);
	ck_assert_uint_eq(file_poll(m, NULL) & (POLLIN | POLLHUP), POLLIN | POLLHUP);
	char buf[8];
	ck_assert_int_eq(kread(m, buf, 8), 3);
	ck_assert_int_eq(kread(m, buf, 8), -EIO);
	file_put(m);
}
END_TEST

START_TEST(console_is_the_pair_of_the_sandbox)
{
	struct linux_winsize ws;
	struct file *c;
	char buf[64];

	ck_assert_int_eq(fix_try_open("/dev/console", O_RDWR), -ENXIO);
	ck_assert_int_eq(console_pty_new(&g_ctx, 30, 100, &m, &s), 0);
	ck_assert(file_is_tty(s));
	char *name = path_name(g_vfs, s->path, g_ctx.root, buf, sizeof(buf));
	ck_assert_str_eq(name, "/dev/pts/0");
	c = fix_open("/dev/console", O_RDWR, 0);
	ck_assert(!IS_ERR(c));
	ck_assert_int_eq(kioctl(c, TIOCGWINSZ, PTR(&ws)), 0);
	ck_assert_int_eq(ws.row, 30);
	tty_resize(m, 31, 100);
	ck_assert_int_eq(kioctl(c, TIOCGWINSZ, PTR(&ws)), 0);
	ck_assert_int_eq(ws.row, 31);
	ck_assert_ptr_nonnull(g_ctty);
	expect_sent(10, SIGWINCH);
	file_put(c);
	close_pair();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pty");
	TCase *tc = tcase_create("pty");

	tcase_add_checked_fixture(tc, start, stop);
	tcase_add_test(tc, dev_has_its_nodes);
	tcase_add_test(tc, pairs_appear_and_vanish);
	tcase_add_test(tc, opening_takes_the_terminal);
	tcase_add_test(tc, background_groups_are_held_back);
	tcase_add_test(tc, giving_up_and_taking_back);
	tcase_add_test(tc, dead_masters_leave_dead_slaves);
	tcase_add_test(tc, console_is_the_pair_of_the_sandbox);
	suite_add_tcase(suite, tc);
	return fix_run(suite);
}
