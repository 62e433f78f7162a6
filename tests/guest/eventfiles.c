/* SPDX-License-Identifier: Apache-2.0 */
/* epoll, eventfd, timerfd, inotify. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static int ctl(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return epoll_ctl(ep, op, fd, &ev);
}

static int revents(int fd)
{
	struct pollfd pf = { .fd = fd, .events = POLLIN | POLLOUT };

	poll(&pf, 1, 0);
	return pf.revents;
}

static void *write_later(void *arg)
{
	uint64_t one = 1;

	usleep(30000);
	write((int)(intptr_t)arg, &one, 8);
	return NULL;
}

static void epoll(void)
{
	int ep = epoll_create1(0), a = eventfd(0, EFD_NONBLOCK), b = eventfd(0, EFD_NONBLOCK), p[2], e[7];
	struct epoll_event ev[8];
	uint64_t one = 1;
	pthread_t th;

	CHECK("add", ctl(ep, EPOLL_CTL_ADD, a, EPOLLIN) == 0);
	CHECK("add edge", ctl(ep, EPOLL_CTL_ADD, b, EPOLLIN | EPOLLET) == 0);
	CHECK_ERRNO("add twice", ctl(ep, EPOLL_CTL_ADD, b, EPOLLIN), EEXIST);
	CHECK("nothing", epoll_wait(ep, ev, 8, 0) == 0 && revents(ep) == 0);
	write(a, &one, 8);
	write(b, &one, 8);
	CHECK("epoll is readable", revents(ep) == POLLIN);
	CHECK("both", epoll_wait(ep, ev, 8, 0) == 2);
	CHECK("level only", epoll_wait(ep, ev, 8, 0) == 1 && ev[0].data.fd == a);
	write(b, &one, 8);
	CHECK("edge again", epoll_wait(ep, ev, 8, 0) == 2);
	read(a, &one, 8);
	CHECK("quiet", epoll_wait(ep, ev, 8, 0) == 0);
	CHECK("oneshot", ctl(ep, EPOLL_CTL_MOD, a, EPOLLOUT | EPOLLONESHOT) == 0 &&
				 epoll_wait(ep, ev, 8, 0) == 1 && ev[0].events == EPOLLOUT);
	CHECK("oneshot is spent", epoll_wait(ep, ev, 8, 0) == 0);
	CHECK("rearm", ctl(ep, EPOLL_CTL_MOD, a, EPOLLOUT | EPOLLONESHOT) == 0 && epoll_wait(ep, ev, 8, 0) == 1);
	CHECK_ERRNO("del unknown", ctl(ep, EPOLL_CTL_DEL, eventfd(0, 0), 0), ENOENT);
	CHECK_ERRNO("itself", ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN), EINVAL);
	CHECK_ERRNO("bad op", ctl(ep, 9, a, EPOLLIN), EINVAL);
	CHECK_ERRNO("bad fd", ctl(ep, EPOLL_CTL_ADD, 999, EPOLLIN), EBADF);
	CHECK_ERRNO("no epoll", ctl(a, EPOLL_CTL_ADD, b, EPOLLIN), EINVAL);
	CHECK_ERRNO("regular file", ctl(ep, EPOLL_CTL_ADD, open("/etc/passwd", O_RDONLY), EPOLLIN), EPERM);
	CHECK_ERRNO("maxevents", epoll_wait(ep, ev, 0, 0), EINVAL);
	CHECK_ERRNO("read an epoll", read(ep, ev, 8), EINVAL);
	CHECK("close removes", close(b) == 0);
	b = eventfd(1, EFD_NONBLOCK);
	CHECK("and the number is free", ctl(ep, EPOLL_CTL_ADD, b, EPOLLIN) == 0);
	pipe(p);
	ctl(ep, EPOLL_CTL_DEL, b, 0);
	ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN | EPOLLRDHUP);
	close(p[1]);
	CHECK("hangup", epoll_wait(ep, ev, 8, 0) == 1 && ev[0].events == EPOLLHUP);
	close(p[0]);
	for (int i = 0; i < 7; i++)
		e[i] = epoll_create1(0);
	ctl(e[0], EPOLL_CTL_ADD, a, EPOLLIN);
	for (int i = 1; i < 5; i++)
		CHECK("nest", ctl(e[i], EPOLL_CTL_ADD, e[i - 1], EPOLLIN) == 0);
	CHECK_ERRNO("nest too deep", ctl(e[5], EPOLL_CTL_ADD, e[4], EPOLLIN), ELOOP);
	CHECK_ERRNO("cycle", ctl(e[0], EPOLL_CTL_ADD, e[4], EPOLLIN), ELOOP);
	pthread_create(&th, NULL, write_later, (void *)(intptr_t)a);
	CHECK("wakes through nests", epoll_wait(e[4], ev, 8, 5000) == 1 && ev[0].data.fd == e[3]);
	pthread_join(th, NULL);
	CHECK_ERRNO("exclusive mod", ctl(ep, EPOLL_CTL_MOD, a, EPOLLIN | EPOLLEXCLUSIVE), EINVAL);
	close(ep);
	for (int i = 0; i < 7; i++)
		close(e[i]);
}

static void eventfds(void)
{
	int f = eventfd(3, EFD_NONBLOCK), s = eventfd(2, EFD_NONBLOCK | EFD_SEMAPHORE);
	uint64_t v = 4;

	CHECK("write", write(f, &v, 8) == 8);
	CHECK_ERRNO("short read", read(f, &v, 4), EINVAL);
	CHECK("read", read(f, &v, 8) == 8 && v == 7);
	CHECK_ERRNO("empty", read(f, &v, 8), EAGAIN);
	v = UINT64_MAX;
	CHECK_ERRNO("too big", write(f, &v, 8), EINVAL);
	v = UINT64_MAX - 1;
	CHECK("biggest", write(f, &v, 8) == 8 && revents(f) == POLLIN);
	v = 1;
	CHECK_ERRNO("full", write(f, &v, 8), EAGAIN);
	CHECK("semaphore", read(s, &v, 8) == 8 && v == 1 && read(s, &v, 8) == 8 && v == 1);
	CHECK_ERRNO("semaphore empty", read(s, &v, 8), EAGAIN);
	CHECK_ERRNO("flags", eventfd(0, 2), EINVAL);
	CHECK("lseek", lseek(f, 5, SEEK_SET) == 0);
	CHECK_ERRNO("pread", pread(f, &v, 8, 0), ESPIPE);
	close(f);
	close(s);
}

static void timerfds(void)
{
	int f = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), b;
	struct itimerspec its = { { 0, 10000000 }, { 0, 20000000 } }, cur;
	struct timespec set, after;
	struct itimerspec far = { .it_value.tv_sec = 100 };
	uint64_t v, v2;

	CHECK("far away", timerfd_settime(f, 0, &far, NULL) == 0 && revents(f) == 0);
	CHECK_ERRNO("not yet", read(f, &v, 8), EAGAIN);
	clock_gettime(CLOCK_MONOTONIC, &set);
	CHECK("set", timerfd_settime(f, 0, &its, NULL) == 0);
	CHECK("get", timerfd_gettime(f, &cur) == 0 && cur.it_value.tv_nsec <= 20000000 &&
			     cur.it_interval.tv_nsec == 10000000);
	usleep(105000);
	CHECK("readable", revents(f) == POLLIN);
	v = 0;
	CHECK("count", read(f, &v, 8) == 8 && v >= 8);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK("no tick too many", v <= (uint64_t)((after.tv_sec - set.tv_sec) * 100 +
						  (after.tv_nsec - set.tv_nsec) / 10000000));
	usleep(50000);
	CHECK("count goes on", read(f, &v2, 8) == 8 && v2 >= 4);
	CHECK_ERRNO("short", read(f, &v, 7), EINVAL);
	memset(&its, 0, sizeof(its));
	CHECK("disarm", timerfd_settime(f, 0, &its, &cur) == 0 && cur.it_interval.tv_nsec == 10000000);
	CHECK("disarmed", timerfd_gettime(f, &cur) == 0 && !cur.it_value.tv_sec && !cur.it_value.tv_nsec);
	its.it_value.tv_sec = 1;
	CHECK("past", timerfd_settime(f, TFD_TIMER_ABSTIME, &its, NULL) == 0);
	usleep(5000);
	CHECK("fires at once", read(f, &v, 8) == 8 && v == 1);
	its.it_value.tv_nsec = 1000000000;
	CHECK_ERRNO("bad time", timerfd_settime(f, 0, &its, NULL), EINVAL);
	CHECK_ERRNO("bad clock", timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0), EINVAL);
	CHECK_ERRNO("bad flags", timerfd_create(CLOCK_MONOTONIC, 1), EINVAL);
	b = timerfd_create(CLOCK_REALTIME, 0);
	its = (struct itimerspec){ { 0, 0 }, { 0, 20000000 } };
	timerfd_settime(b, 0, &its, NULL);
	CHECK("blocking", read(b, &v, 8) == 8 && v == 1);
	close(f);
	close(b);
}

static char g_buf[65536];

static int next_is(int in, int wd, uint32_t mask, const char *name)
{
	static ssize_t len, at;
	struct inotify_event *e;

	if (at >= len) {
		at = 0;
		len = read(in, g_buf, sizeof(g_buf));
	}
	if (at >= len)
		return mask == 0;
	e = (struct inotify_event *)(g_buf + at);
	at += (ssize_t)(sizeof(*e) + e->len);
	if (e->wd == wd && e->mask == mask && !strcmp(e->len ? e->name : "", name))
		return 1;
	printf("# wd %d mask %x cookie %u name %s\n", e->wd, e->mask, e->cookie, e->len ? e->name : "");
	return 0;
}

static void inotify(void)
{
	char dir[] = "/tmp/guest-inotify-XXXXXX", path[100], path2[100];
	int in = inotify_init1(IN_NONBLOCK), wd, wd2, fd, n;

	mkdtemp(dir);
	snprintf(path, sizeof(path), "%s/f", dir);
	snprintf(path2, sizeof(path2), "%s/g", dir);
	wd = inotify_add_watch(in, dir, IN_ALL_EVENTS);
	CHECK("first wd", wd == 1);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	write(fd, "x", 1);
	CHECK("create", next_is(in, wd, IN_CREATE, "f"));
	CHECK("open", next_is(in, wd, IN_OPEN, "f"));
	CHECK("modify", next_is(in, wd, IN_MODIFY, "f"));
	fchmod(fd, 0600);
	close(fd);
	CHECK("attrib", next_is(in, wd, IN_ATTRIB, "f"));
	CHECK("close", next_is(in, wd, IN_CLOSE_WRITE, "f"));
	rename(path, path2);
	CHECK("moved from", next_is(in, wd, IN_MOVED_FROM, "f"));
	CHECK("moved to", next_is(in, wd, IN_MOVED_TO, "g"));
	wd2 = inotify_add_watch(in, path2, IN_ATTRIB | IN_DELETE_SELF);
	unlink(path2);
	CHECK("link count", next_is(in, wd2, IN_ATTRIB, ""));
	CHECK("delete self", next_is(in, wd2, IN_DELETE_SELF, ""));
	CHECK("ignored", next_is(in, wd2, IN_IGNORED, ""));
	CHECK("delete", next_is(in, wd, IN_DELETE, "g"));
	CHECK("nothing more", next_is(in, 0, 0, ""));
	snprintf(path, sizeof(path), "%s/d", dir);
	mkdir(path, 0755);
	CHECK("FIONREAD", ioctl(in, FIONREAD, &n) == 0 && n == 32);
	CHECK_ERRNO("small buffer", read(in, g_buf, 16), EINVAL);
	CHECK("mkdir", next_is(in, wd, IN_CREATE | IN_ISDIR, "d"));
	rmdir(path);
	CHECK("rmdir", next_is(in, wd, IN_DELETE | IN_ISDIR, "d"));
	CHECK_ERRNO("mask create", inotify_add_watch(in, dir, IN_OPEN | IN_MASK_CREATE), EEXIST);
	CHECK("replace", inotify_add_watch(in, dir, IN_DELETE_SELF) == wd);
	CHECK_ERRNO("no mask", inotify_add_watch(in, dir, 0), EINVAL);
	CHECK_ERRNO("no file", inotify_add_watch(in, "/nonexistent", IN_OPEN), ENOENT);
	CHECK_ERRNO("only dir", inotify_add_watch(in, "/etc/passwd", IN_OPEN | IN_ONLYDIR), ENOTDIR);
	CHECK("rm", inotify_rm_watch(in, wd) == 0 && next_is(in, wd, IN_IGNORED, ""));
	CHECK_ERRNO("rm twice", inotify_rm_watch(in, wd), EINVAL);
	CHECK_ERRNO("not inotify", inotify_rm_watch(0, 1), EINVAL);
	rmdir(dir);
	close(in);
}

int main(void)
{
	epoll();
	eventfds();
	timerfds();
	inotify();
	return guest_done();
}
