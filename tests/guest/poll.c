/* SPDX-License-Identifier: Apache-2.0 */
/* poll, ppoll, select, pselect, epoll, eventfd over pipes: readiness, time, signals, limits. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile int g_signals;

static void on_signal(int s)
{
	(void)s;
	g_signals++;
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static short poll_one(int fd, short events, int timeout)
{
	struct pollfd p = { fd, events, 0x7777 };

	return poll(&p, 1, timeout) < 0 ? -1 : p.revents;
}

static void *write_later(void *arg)
{
	usleep(60000);
	write(*(int *)arg, "x", 1);
	return NULL;
}

static void plain_poll(void)
{
	int p[2];
	char buf[65536] = { 0 };
	struct pollfd two[2];
	struct rlimit rl = { 16, 16 };
	pthread_t th;
	long t0;
	int st;

	pipe(p);
	CHECK("empty pipe", poll_one(p[0], POLLIN, 0) == 0);
	CHECK("writable", poll_one(p[1], POLLOUT | POLLIN, 0) == POLLOUT);
	write(p[1], "x", 1);
	CHECK("readable", poll_one(p[0], POLLIN | POLLRDNORM | POLLOUT, 0) == (POLLIN | POLLRDNORM));
	read(p[0], buf, 1);
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	while (write(p[1], buf, sizeof(buf)) > 0)
		;
	CHECK("full", poll_one(p[1], POLLOUT, 0) == 0);
	while (fcntl(p[0], F_SETFL, O_NONBLOCK) == 0 && read(p[0], buf, sizeof(buf)) > 0)
		;
	CHECK("closed fd", poll_one(999, POLLIN, 0) == POLLNVAL);
	CHECK("negative fd", poll_one(-1, POLLIN, 0) == 0);
	t0 = now_ms();
	CHECK("timeout", poll_one(p[0], POLLIN, 50) == 0 && now_ms() - t0 >= 49);
	t0 = now_ms();
	poll(NULL, 0, 30);
	CHECK("no fds is a sleep", now_ms() - t0 >= 29);
	pthread_create(&th, NULL, write_later, &p[1]);
	two[0] = (struct pollfd){ -1, POLLIN, 0 };
	two[1] = (struct pollfd){ p[0], POLLIN, 0 };
	CHECK("woken by a write", poll(two, 2, 5000) == 1 && two[0].revents == 0 && two[1].revents == POLLIN);
	pthread_join(th, NULL);
	read(p[0], buf, 1);
	CHECK_ERRNO("bad pointer", poll((void *)8, 1, 0), EFAULT);
	close(p[1]);
	CHECK("hang-up comes unasked", poll_one(p[0], 0, 0) == POLLHUP);
	close(p[0]);
	pipe(p);
	close(p[0]);
	CHECK("no reader", poll_one(p[1], POLLOUT, 0) == (POLLOUT | POLLERR));
	close(p[1]);
	if (fork() == 0) {
		struct pollfd many[17] = { { 0 } };

		setrlimit(RLIMIT_NOFILE, &rl);
		_exit(poll(many, 17, 0) == -1 && errno == EINVAL ? 0 : 1);
	}
	wait(&st);
	CHECK("more than RLIMIT_NOFILE", st == 0);
}

static void signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct timespec ts = { 5, 0 }, bad = { 0, 1000000000 };
	struct itimerval it = { { 0, 0 }, { 0, 50000 } };
	sigset_t set, none;
	int p[2];
	fd_set r;

	pipe(p);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
	CHECK_ERRNO("poll is not restarted after a handler", poll(&(struct pollfd){ p[0], POLLIN, 0 }, 1, 5000),
		    EINTR);
	setitimer(ITIMER_REAL, &it, NULL);
	FD_ZERO(&r);
	FD_SET(p[0], &r);
	CHECK_ERRNO("nor select", select(p[0] + 1, &r, NULL, NULL, &(struct timeval){ 5, 0 }), EINTR);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&none);
	g_signals = 0;
	raise(SIGALRM);
	CHECK("blocked", g_signals == 0);
	CHECK_ERRNO("ppoll's mask lets it in", ppoll(NULL, 0, &ts, &none), EINTR);
	CHECK("handled once, mask is back", g_signals == 1 && (raise(SIGALRM), g_signals) == 1);
	CHECK_ERRNO("pselect too", pselect(0, NULL, NULL, NULL, &ts, &none), EINTR);
	CHECK("handled", g_signals == 2);
	CHECK_ERRNO("ppoll bad time", ppoll(NULL, 0, &bad, NULL), EINVAL);
	CHECK_ERRNO("ppoll mask size", syscall(SYS_ppoll, NULL, 0, NULL, &none, 4), EINVAL);
	raise(SIGALRM);
	write(p[1], "x", 1);
	CHECK("ready and pending: ready wins", ppoll(&(struct pollfd){ p[0], POLLIN, 0 }, 1, &ts, &none) == 1);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	close(p[0]);
	close(p[1]);
}

static void selects(void)
{
	int p[2];
	fd_set r, w, e;
	struct timeval tv = { 0, 50000 };
	struct timespec raw = { 5, 0 };
	long t0;

	pipe(p);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(p[0], &r);
	FD_SET(p[1], &w);
	FD_SET(p[0], &e);
	CHECK("select", select(p[1] + 1, &r, &w, &e, NULL) == 1 && !FD_ISSET(p[0], &r) &&
				FD_ISSET(p[1], &w) && !FD_ISSET(p[0], &e));
	write(p[1], "x", 1);
	FD_SET(p[0], &r);
	CHECK("both", select(p[1] + 1, &r, &w, NULL, NULL) == 2);
	read(p[0], &(char){ 0 }, 1);
	t0 = now_ms();
	CHECK("timeout clears the sets", select(p[0] + 1, &r, NULL, NULL, &tv) == 0 && !FD_ISSET(p[0], &r) &&
						 now_ms() - t0 >= 49);
	CHECK("no time left", tv.tv_sec == 0 && tv.tv_usec == 0);
	FD_SET(p[1], &w);
	syscall(SYS_pselect6, p[1] + 1, NULL, &w, NULL, &raw, NULL);
	CHECK("time left is written", raw.tv_sec == 4 || raw.tv_nsec == 0);
	FD_SET(60, &r);
	CHECK_ERRNO("closed fd", select(61, &r, NULL, NULL, &tv), EBADF);
	CHECK_ERRNO("negative count", select(-1, NULL, NULL, NULL, &tv), EINVAL);
	CHECK_ERRNO("negative time", select(0, NULL, NULL, NULL, &(struct timeval){ -1, 0 }), EINVAL);
	close(p[0]);
	close(p[1]);
}

static void epolls(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), p[2];
	struct epoll_event ev = { EPOLLIN, { .u64 = 0x1122334455667788 } }, out[4];
	struct timespec ts = { 0, 30000000 };
	pthread_t th;
	long t0;

	pipe(p);
	CHECK("epoll_create1", ep >= 0 && fcntl(ep, F_GETFD) == 1);
	CHECK("add", epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev) == 0);
	CHECK_ERRNO("add twice", epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev), EEXIST);
	CHECK_ERRNO("mod of nothing", epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &ev), ENOENT);
	CHECK_ERRNO("itself", epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev), EINVAL);
	CHECK_ERRNO("bad fd", epoll_ctl(ep, EPOLL_CTL_ADD, 999, &ev), EBADF);
	CHECK_ERRNO("not an epoll", epoll_ctl(p[0], EPOLL_CTL_ADD, p[1], &ev), EINVAL);
	CHECK_ERRNO("bad pointer", epoll_ctl(ep, EPOLL_CTL_ADD, p[1], (void *)8), EFAULT);
	CHECK("nothing yet", epoll_wait(ep, out, 4, 0) == 0);
	pthread_create(&th, NULL, write_later, &p[1]);
	CHECK("woken", epoll_wait(ep, out, 4, 5000) == 1 && out[0].data.u64 == ev.data.u64 &&
			       out[0].events == EPOLLIN);
	pthread_join(th, NULL);
	CHECK("level", epoll_wait(ep, out, 4, 0) == 1);
	ev.events = EPOLLIN | EPOLLET;
	epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &ev);
	CHECK("edge", epoll_wait(ep, out, 4, 0) == 1 && epoll_wait(ep, out, 4, 0) == 0);
	write(p[1], "y", 1);
	CHECK("a new edge", epoll_wait(ep, out, 4, 0) == 1);
	ev.events = EPOLLIN | EPOLLONESHOT;
	epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &ev);
	CHECK("one shot", epoll_wait(ep, out, 4, 0) == 1 && (write(p[1], "z", 1), epoll_wait(ep, out, 4, 0)) == 0);
	CHECK_ERRNO("maxevents 0", epoll_wait(ep, out, 0, 0), EINVAL);
	CHECK_ERRNO("of a pipe", epoll_wait(p[0], out, 1, 0), EINVAL);
	t0 = now_ms();
	CHECK("epoll_pwait2", syscall(SYS_epoll_pwait2, ep, out, 4, &ts, NULL, 8) == 0 && now_ms() - t0 >= 29);
	CHECK("del", epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL) == 0);
	ev.events = EPOLLIN;
	epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev);
	close(p[0]);
	CHECK("a closed file is forgotten", epoll_wait(ep, out, 4, 0) == 0);
	CHECK("a regular file has no poll",
	      (p[0] = open("/proc/self/exe", O_RDONLY)) >= 0 &&
		      epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev) == -1 && errno == EPERM);
	close(p[0]);
	close(p[1]);
	close(ep);
}

/* All that is ready comes in one call, however many files that are. */
static void many_ready(void)
{
	enum { COUNT = 3000 };
	static struct epoll_event out[COUNT + 100];
	struct rlimit lim, old;
	struct epoll_event ev = { .events = EPOLLOUT };
	int ep = epoll_create1(0), added = 0;

	getrlimit(RLIMIT_NOFILE, &old);
	lim = old;
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	for (int i = 0; i < COUNT; i++)
		added += epoll_ctl(ep, EPOLL_CTL_ADD, eventfd(0, 0), &ev) == 0;
	CHECK("3000 files watched", added == COUNT);
	CHECK("all at once", epoll_wait(ep, out, COUNT + 100, 0) == COUNT);
	CHECK("no more than asked for", epoll_wait(ep, out, 2000, 0) == 2000);
	close_range(ep, ~0u, 0);
	setrlimit(RLIMIT_NOFILE, &old);
}

static void eventfds(void)
{
	int fd = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
	uint64_t v;

	CHECK("eventfd", fd >= 0 && read(fd, &v, 8) == 8 && v == 3);
	CHECK_ERRNO("empty", read(fd, &v, 8), EAGAIN);
	v = 5;
	CHECK("write", write(fd, &v, 8) == 8 && poll_one(fd, POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
	v = ~0ull;
	CHECK_ERRNO("all ones", write(fd, &v, 8), EINVAL);
	CHECK_ERRNO("short", write(fd, &v, 4), EINVAL);
	v = ~0ull - 1;
	CHECK_ERRNO("overflow", write(fd, &v, 8), EAGAIN);
	close(fd);
	fd = eventfd(2, EFD_SEMAPHORE);
	CHECK("semaphore", read(fd, &v, 8) == 8 && v == 1 && read(fd, &v, 8) == 8 && v == 1);
	CHECK_ERRNO("flags", eventfd(0, 0x100), EINVAL);
	close(fd);
}

int main(void)
{
	plain_poll();
	signals();
	selects();
	epolls();
	many_ready();
	eventfds();
	return guest_done();
}
