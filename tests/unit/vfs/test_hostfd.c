/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/vfs/files_kit.h"
#include "vfs/hostfd/hostfd.h"

START_TEST(pipes_pass_bytes_without_blocking)
{
	static char buf[200000];
	struct file *r, *w;
	ssize_t n, total = 0;
	int p[2], q;

	ck_assert_int_eq(pipe(p), 0);
	r = hostfd_file_new(g_vfs, g_cred, p[0]);
	w = hostfd_file_new(g_vfs, g_cred, p[1]);
	ck_assert(S_ISFIFO(r->inode->mode));
	ck_assert_int_eq(kread(r, buf, 1), -EAGAIN);
	ck_assert_uint_eq(file_poll(r, NULL), 0);
	ck_assert_int_eq(kwrite(w, "hello", 5), 5);
	ck_assert_uint_eq(file_poll(r, NULL), POLLIN | POLLRDNORM);
	ck_assert_int_eq(kioctl(r, FIONREAD, &q), 0);
	ck_assert_int_eq(q, 5);
	ck_assert_int_eq(kread(r, buf, 100), 5);
	while ((n = kwrite(w, buf, sizeof(buf))) > 0)
		total += n;
	ck_assert_int_eq(n, -EAGAIN);
	ck_assert_int_eq(total, 65536);
	ck_assert_int_eq(kread(w, buf, 1), -EBADF);
	ck_assert_int_eq(fcntl(p[0], F_GETFL) & O_NONBLOCK, 0);
	file_put(w);
	while ((n = kread(r, buf, sizeof(buf))) > 0)
		total -= n;
	ck_assert_int_eq(total, 0);
	ck_assert_int_eq(n, 0);
	file_put(r);
	ck_assert_int_eq(fcntl(p[0], F_GETFD), -1);
}
END_TEST

START_TEST(the_host_wakes_waiters)
{
	struct probe w;
	struct file *r;
	int p[2];

	ck_assert_int_eq(pipe(p), 0);
	r = hostfd_file_new(g_vfs, g_cred, p[0]);
	ck_assert_uint_eq(probe_start(&w, r), 0);
	ck_assert_int_eq(write(p[1], "x", 1), 1);
	while (!__atomic_load_n(&w.wakes, __ATOMIC_SEQ_CST))
		sched_yield();
	probe_stop(&w);
	close(p[1]);
	file_put(r);
}
END_TEST

START_TEST(broken_pipes_are_epipe)
{
	struct file *w;
	int p[2];

	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(pipe(p), 0);
	w = hostfd_file_new(g_vfs, g_cred, p[1]);
	close(p[0]);
	ck_assert_int_eq(kwrite(w, "x", 1), -EPIPE);
	ck_assert_uint_eq(file_poll(w, NULL) & POLLERR, POLLERR);
	file_put(w);
}
END_TEST

START_TEST(regular_files_share_the_hosts_offset)
{
	char name[] = "/tmp/hostfd.XXXXXX", buf[32];
	int fd = mkstemp(name), keep = dup(fd);
	struct file *f = hostfd_file_new(g_vfs, g_cred, fd);
	struct linux_stat st;

	unlink(name);
	ck_assert_int_eq(kwrite(f, "0123456789", 10), 10);
	ck_assert_int_eq(lseek(keep, 0, SEEK_CUR), 10);
	ck_assert_int_eq(vfs_getattr(f->path, &st), 0);
	ck_assert_int_eq(st.size, 10);
	ck_assert(S_ISREG(st.mode));
	ck_assert_int_eq(file_llseek(f, 3, SEEK_SET), 3);
	ck_assert_int_eq(kread(f, buf, 4), 4);
	ck_assert(memcmp(buf, "3456", 4) == 0);
	ck_assert_int_eq(lseek(keep, 0, SEEK_CUR), 7);
	struct uio u;
	uio_init_kernel(&u, buf, 2);
	ck_assert_int_eq(file_pread(f, &u, 1), 2);
	ck_assert(memcmp(buf, "12", 2) == 0);
	ck_assert_int_eq(lseek(keep, 0, SEEK_CUR), 7);
	close(keep);
	file_put(f);
}
END_TEST

START_TEST(sockets_and_null_work)
{
	struct file *f, *n;
	char buf[8];
	int sv[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	f = hostfd_file_new(g_vfs, g_cred, sv[0]);
	ck_assert_int_eq(kread(f, buf, 8), -EAGAIN);
	ck_assert_int_eq(write(sv[1], "abc", 3), 3);
	ck_assert_int_eq(kread(f, buf, 8), 3);
	ck_assert_int_eq(kwrite(f, "de", 2), 2);
	ck_assert_int_eq(read(sv[1], buf, 8), 2);
	close(sv[1]);
	ck_assert_int_eq(kread(f, buf, 8), 0);
	file_put(f);
	n = hostfd_file_new(g_vfs, g_cred, open("/dev/null", O_RDWR));
	ck_assert_int_eq(kread(n, buf, 8), 0);
	ck_assert_int_eq(kwrite(n, buf, 8), 8);
	ck_assert(S_ISCHR(n->inode->mode));
	file_put(n);
	ck_assert_int_eq(PTR_ERR(hostfd_file_new(g_vfs, g_cred, open("/", O_RDONLY))), -EINVAL);
}
END_TEST

START_TEST(reopening_gives_the_same_host_file)
{
	struct vfs_ctx ctx = { .vfs = g_vfs, .cred = g_cred };
	struct file *w, *again;
	char buf[8];
	int p[2];

	ck_assert_int_eq(pipe(p), 0);
	w = hostfd_file_new(g_vfs, g_cred, p[1]);
	again = vfs_open_path(&ctx, w->path, O_WRONLY);
	ck_assert(!IS_ERR(again));
	ck_assert_int_eq(PTR_ERR(vfs_open_path(&ctx, w->path, O_RDONLY)), -EACCES);
	file_put(w);
	ck_assert_int_eq(kwrite(again, "yo", 2), 2);
	ck_assert_int_eq(read(p[0], buf, 8), 2);
	file_put(again);
	ck_assert_int_eq(read(p[0], buf, 8), 0);
	close(p[0]);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, pipes_pass_bytes_without_blocking);
	tcase_add_test(tc, the_host_wakes_waiters);
	tcase_add_test(tc, broken_pipes_are_epipe);
	tcase_add_test(tc, regular_files_share_the_hosts_offset);
	tcase_add_test(tc, sockets_and_null_work);
	tcase_add_test(tc, reopening_gives_the_same_host_file);
}

int main(void)
{
	return kit_run("hostfd", add);
}
