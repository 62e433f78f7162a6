/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX message queues. */
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile int g_count, g_code, g_value;

static void on_info(int s, siginfo_t *si, void *u)
{
	(void)s;
	(void)u;
	g_count++;
	g_code = si->si_code;
	g_value = si->si_value.sival_int;
}

static struct timespec in_ms(long ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += ms * 1000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	return ts;
}

int main(void)
{
	struct mq_attr a = { .mq_maxmsg = 3, .mq_msgsize = 16 }, got;
	struct timespec ts;
	struct pollfd pf;
	char name[64], b[32];
	unsigned int prio;
	int st;

	snprintf(name, sizeof(name), "/caisson-test-%d", getpid());
	CHECK_ERRNO("does not exist", mq_open(name, O_RDWR), ENOENT);
	mqd_t q = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);

	CHECK("mq_open", q >= 0);
	CHECK("close on exec", fcntl(q, F_GETFD) == FD_CLOEXEC);
	CHECK_ERRNO("exclusive", mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a), EEXIST);
	CHECK("attributes", mq_getattr(q, &got) == 0 && got.mq_maxmsg == 3 && got.mq_msgsize == 16 &&
				    got.mq_curmsgs == 0 && got.mq_flags == 0);
	CHECK("send", mq_send(q, "low", 4, 1) == 0 && mq_send(q, "high", 5, 9) == 0 &&
			      mq_send(q, "low2", 5, 1) == 0);
	ts = in_ms(3);
	CHECK_ERRNO("full", mq_timedsend(q, "x", 1, 0, &ts), ETIMEDOUT);
	CHECK_ERRNO("too long", mq_send(q, b, 17, 0), EMSGSIZE);
	CHECK_ERRNO("priority too high", mq_send(q, "x", 1, 32768), EINVAL);
	CHECK_ERRNO("short buffer", mq_receive(q, b, 15, &prio), EMSGSIZE);
	CHECK("highest priority first", mq_receive(q, b, 32, &prio) == 5 && prio == 9 &&
						!strcmp(b, "high"));
	CHECK("then in order", mq_receive(q, b, 32, &prio) == 4 && !strcmp(b, "low") &&
				       mq_receive(q, b, 32, NULL) == 5 && !strcmp(b, "low2"));
	ts = in_ms(3);
	CHECK_ERRNO("empty", mq_timedreceive(q, b, 32, NULL, &ts), ETIMEDOUT);
	ts.tv_nsec = 1000000000;
	CHECK_ERRNO("bad time", mq_timedreceive(q, b, 32, NULL, &ts), EINVAL);
	got.mq_flags = O_NONBLOCK;
	CHECK("mq_setattr", mq_setattr(q, &got, NULL) == 0);
	CHECK_ERRNO("non-blocking", mq_receive(q, b, 32, NULL), EAGAIN);
	got.mq_flags = 1;
	CHECK_ERRNO("only O_NONBLOCK", mq_setattr(q, &got, NULL), EINVAL);
	pf = (struct pollfd){ .fd = q, .events = POLLIN | POLLOUT };
	CHECK("poll, empty", poll(&pf, 1, 0) == 1 && pf.revents == POLLOUT);
	mq_send(q, "m", 2, 0);
	CHECK("poll, some", poll(&pf, 1, 0) == 1 && pf.revents == (POLLIN | POLLOUT));
	char line[128] = "";

	CHECK("read tells of it", read(q, line, sizeof(line) - 1) > 0 && !strncmp(line, "QSIZE:2 ", 8));
	mq_receive(q, b, 32, NULL);
	mqd_t ro = mq_open(name, O_RDONLY), wo = mq_open(name, O_WRONLY);

	CHECK_ERRNO("send to a read-only one", mq_send(ro, "x", 1, 0), EBADF);
	CHECK_ERRNO("receive from a write-only one", mq_receive(wo, b, 32, NULL), EBADF);
	CHECK_ERRNO("not a queue", mq_receive(0, b, 32, NULL), EBADF);
	pid_t c = fork();

	if (c == 0) {
		usleep(10000);
		mq_send(wo, "late", 5, 0);
		_exit(0);
	}
	CHECK("receive waits", mq_receive(ro, b, 32, NULL) == 5);
	waitpid(c, &st, 0);
	struct sigaction sa = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1,
			       .sigev_value.sival_int = 12 };

	sigaction(SIGUSR1, &sa, NULL);
	CHECK("mq_notify", mq_notify(q, &ev) == 0);
	CHECK_ERRNO("one only", mq_notify(q, &ev), EBUSY);
	mq_send(q, "n", 2, 0);
	CHECK("it tells of the first message", g_count == 1 && g_code == SI_MESGQ && g_value == 12);
	mq_send(q, "n", 2, 0);
	CHECK("once", g_count == 1);
	CHECK("register again", mq_notify(q, &ev) == 0 && mq_notify(q, NULL) == 0 &&
					mq_notify(q, &ev) == 0);
	close(ro);
	mqd_t again = mq_open(name, O_RDONLY);

	mq_notify(again, NULL);
	CHECK("closing any descriptor withdraws it", mq_notify(q, &ev) == 0);
	ev.sigev_signo = 65;
	CHECK_ERRNO("bad signal", mq_notify(q, &ev), EINVAL);
	ev.sigev_notify = 7;
	CHECK_ERRNO("bad kind", mq_notify(q, &ev), EINVAL);
	a.mq_maxmsg = 0;
	CHECK_ERRNO("no room at all", mq_open("/caisson-none", O_RDWR | O_CREAT, 0600, &a), EINVAL);
	CHECK_ERRNO("a slash inside", mq_open("/a/b", O_RDWR), EACCES);
	CHECK_ERRNO("no name", syscall(SYS_mq_open, "", O_RDWR, 0, NULL), ENOENT);
	struct stat sb;

	CHECK("fstat", fstat(q, &sb) == 0 && S_ISREG(sb.st_mode) && (sb.st_mode & 0777) == 0600);
	if (getuid() == 0) {
		c = fork();
		if (c == 0) {
			setuid(12345);
			int bad = mq_open(name, O_RDWR) != -1 || errno != EACCES;

			bad |= mq_unlink(name) != -1 || errno != EACCES;
			_exit(bad);
		}
		waitpid(c, &st, 0);
		CHECK("permissions", st == 0);
	}
	CHECK("mq_unlink", mq_unlink(name) == 0);
	CHECK_ERRNO("again", mq_unlink(name), ENOENT);
	CHECK("the open one still works", mq_getattr(q, &got) == 0 && got.mq_curmsgs == 2);
	return guest_done();
}
