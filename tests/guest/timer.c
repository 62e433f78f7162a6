/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, sleeping, interval timers, timer_create, CPU timers, timerfd. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile int g_count, g_value, g_overrun, g_code, g_timerid;

static void on_info(int s, siginfo_t *si, void *u)
{
	(void)s;
	(void)u;
	g_count++;
	g_value = si->si_value.sival_int;
	g_overrun = si->si_overrun;
	g_code = si->si_code;
	g_timerid = si->si_timerid;
}

static void handle(int s)
{
	struct sigaction sa = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO };

	sigaction(s, &sa, NULL);
}

static uint64_t now(clockid_t c)
{
	struct timespec ts = { 0 };

	syscall(SYS_clock_gettime, c, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void wait_count(int n)
{
	for (int i = 0; i < 400 && g_count < n; i++)
		usleep(1000);
}

static void spin(uint64_t ns)
{
	uint64_t end = now(CLOCK_MONOTONIC) + ns;

	while (now(CLOCK_MONOTONIC) < end)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static void test_clocks(void)
{
	static const clockid_t ids[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
					 CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
					 CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
					 CLOCK_TAI };
	struct timespec ts;
	int bad = 0;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		bad += syscall(SYS_clock_gettime, ids[i], &ts) != 0;
		bad += syscall(SYS_clock_getres, ids[i], &ts) != 0 || ts.tv_sec || ts.tv_nsec < 1;
		uint64_t a = now(ids[i]);

		bad += now(ids[i]) < a;
	}
	CHECK("every clock", !bad);
	CHECK_ERRNO("no such clock", syscall(SYS_clock_gettime, 42, &ts), EINVAL);
	CHECK_ERRNO("negative clock", syscall(SYS_clock_gettime, -1, &ts), EINVAL);
	CHECK_ERRNO("bad pointer", syscall(SYS_clock_gettime, 0, (void *)8), EFAULT);
	CHECK("getres without a place", syscall(SYS_clock_getres, 1, NULL) == 0);
	CHECK("time and gettimeofday", ({
		      struct timeval tv;
		      time_t t = time(NULL);

		      gettimeofday(&tv, NULL) == 0 && tv.tv_sec - t >= 0 && tv.tv_sec - t < 2;
	      }));
	uint64_t c0 = now(CLOCK_THREAD_CPUTIME_ID), p0 = now(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < 1000 && now(CLOCK_THREAD_CPUTIME_ID) - c0 <= 2000000; i++)
		spin(20000000);
	CHECK("CPU clocks run", now(CLOCK_THREAD_CPUTIME_ID) - c0 > 2000000 &&
					now(CLOCK_PROCESS_CPUTIME_ID) - p0 > 2000000);
	clockid_t id;

	CHECK("another process's clock", clock_getcpuclockid(getppid(), &id) != 0 ||
						 clock_gettime(id, &ts) == 0);
	CHECK("the thread's own", pthread_getcpuclockid(pthread_self(), &id) == 0 &&
					  clock_gettime(id, &ts) == 0);
	CHECK_ERRNO("setting MONOTONIC", syscall(SYS_clock_settime, CLOCK_MONOTONIC, &ts), EINVAL);
	ts.tv_nsec = 1000000000;
	CHECK_ERRNO("setting nonsense", syscall(SYS_clock_settime, CLOCK_REALTIME, &ts), EINVAL);
	CHECK_ERRNO("setting from nowhere", syscall(SYS_clock_settime, CLOCK_REALTIME, (void *)8), EFAULT);
	struct timex tx = { .modes = 0 };
	int r = adjtimex(&tx);

	CHECK("adjtimex reads", r >= 0 && r <= TIME_ERROR && tx.tick == 10000);
}

static void test_sleep(void)
{
	struct timespec ts = { .tv_nsec = 5000000 }, bad = { .tv_nsec = 1000000000 },
			neg = { .tv_sec = -1 };
	uint64_t t0 = now(CLOCK_MONOTONIC);

	CHECK("nanosleep", nanosleep(&ts, NULL) == 0 && now(CLOCK_MONOTONIC) - t0 >= 5000000);
	CHECK_ERRNO("bad nsec", nanosleep(&bad, NULL), EINVAL);
	CHECK_ERRNO("negative", nanosleep(&neg, NULL), EINVAL);
	CHECK_ERRNO("bad pointer", nanosleep((void *)8, NULL), EFAULT);
	static const clockid_t ids[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI };
	int wrong = 0;

	for (int i = 0; i < 4; i++) {
		t0 = now(CLOCK_MONOTONIC);
		wrong += syscall(SYS_clock_nanosleep, ids[i], 0, &ts, NULL) != 0;
		uint64_t until = now(ids[i]) + 5000000;
		struct timespec abs = { .tv_sec = (time_t)(until / 1000000000u),
					.tv_nsec = (long)(until % 1000000000u) };

		wrong += syscall(SYS_clock_nanosleep, ids[i], TIMER_ABSTIME, &abs, NULL) != 0;
		wrong += now(ids[i]) < until || now(CLOCK_MONOTONIC) - t0 < 10000000;
	}
	CHECK("clock_nanosleep on each clock", !wrong);
	CHECK_ERRNO("on a raw clock", syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &ts, NULL),
		    EOPNOTSUPP);
	CHECK_ERRNO("on the thread's CPU clock",
		    syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &ts, NULL), EOPNOTSUPP);
	CHECK_ERRNO("on no clock", syscall(SYS_clock_nanosleep, 99, 0, &ts, NULL), EINVAL);
	struct timespec past = { .tv_sec = 1 };

	CHECK("until the past", syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &past, NULL) ==
					0);
}

static void test_itimer(void)
{
	struct itimerval it = { .it_value.tv_usec = 5000, .it_interval.tv_usec = 3000 }, old;

	handle(SIGALRM);
	g_count = 0;
	CHECK("setitimer", setitimer(ITIMER_REAL, &it, NULL) == 0);
	getitimer(ITIMER_REAL, &old);
	CHECK("getitimer", old.it_value.tv_usec <= 5000 && old.it_interval.tv_usec == 3000);
	wait_count(3);
	CHECK("it repeats", g_count >= 3);
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, &old);
	CHECK("the old value", old.it_interval.tv_usec == 3000);
	int n = g_count;

	usleep(8000);
	CHECK("off", g_count == n);
	CHECK("alarm", alarm(100) == 0 && alarm(0) == 100);
	it.it_value.tv_usec = 1000000;
	CHECK_ERRNO("bad usec", setitimer(ITIMER_REAL, &it, NULL), EINVAL);
	CHECK_ERRNO("bad timer", syscall(SYS_getitimer, 3, &old), EINVAL);
	CHECK_ERRNO("bad pointer", setitimer(ITIMER_REAL, (void *)8, NULL), EFAULT);
	static const int which[] = { ITIMER_VIRTUAL, ITIMER_PROF }, sig[] = { SIGVTALRM, SIGPROF };

	for (int i = 0; i < 2; i++) {
		struct itimerval cpu = { .it_value.tv_usec = 10000 };

		handle(sig[i]);
		g_count = 0;
		setitimer(which[i], &cpu, NULL);
		for (int k = 0; k < 50 && !g_count; k++)
			spin(10000000);
		CHECK(i ? "ITIMER_PROF" : "ITIMER_VIRTUAL", g_count == 1);
		getitimer(which[i], &cpu);
		CHECK("one shot", !cpu.it_value.tv_sec && !cpu.it_value.tv_usec);
	}
}

static timer_t make(clockid_t c, int notify, int sig, int val)
{
	struct sigevent sev = { .sigev_notify = notify, .sigev_signo = sig,
				.sigev_value.sival_int = val };
	int id = -1;

	if (notify == SIGEV_THREAD_ID)
		((int *)&sev)[4] = (int)syscall(SYS_gettid);
	if (syscall(SYS_timer_create, c, &sev, &id))
		return (timer_t)-1l;
	return (timer_t)(long)id;
}

static int set(timer_t t, int flags, uint64_t val, uint64_t iv)
{
	struct itimerspec its = { .it_value = { (time_t)(val / 1000000000u), (long)(val % 1000000000u) },
				  .it_interval = { (time_t)(iv / 1000000000u), (long)(iv % 1000000000u) } };

	return (int)syscall(SYS_timer_settime, (int)(long)t, flags, &its, NULL);
}

static void test_posix(void)
{
	struct itimerspec cur;
	timer_t t = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 55);

	handle(SIGUSR1);
	g_count = 0;
	CHECK("timer_create", t != (timer_t)-1l);
	CHECK("timer_settime", set(t, 0, 3000000, 0) == 0);
	wait_count(1);
	CHECK("it fires", g_count == 1 && g_value == 55 && g_code == SI_TIMER &&
				  g_timerid == (int)(long)t);
	syscall(SYS_timer_gettime, (int)(long)t, &cur);
	CHECK("and is off", !cur.it_value.tv_sec && !cur.it_value.tv_nsec);
	CHECK("absolute, past", set(t, TIMER_ABSTIME, 1, 0) == 0);
	wait_count(2);
	CHECK("fires at once", g_count == 2);
	/* Overruns: blocked for many periods. */
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	sigprocmask(SIG_BLOCK, &s, NULL);
	g_count = 0;
	set(t, 0, 1000000, 1000000);
	spin(20000000);
	sigprocmask(SIG_UNBLOCK, &s, NULL);
	set(t, 0, 0, 0);
	CHECK("overruns are counted", g_count >= 1 && g_count <= 3);
	sigprocmask(SIG_BLOCK, &s, NULL);
	g_count = 0;
	set(t, 0, 1000000, 1000000);
	spin(20000000);
	siginfo_t si;
	struct timespec zero = { 0 };

	CHECK("one signal for all", sigtimedwait(&s, &si, &zero) == SIGUSR1 && si.si_overrun >= 15 &&
					    si.si_overrun < 200);
	CHECK("timer_getoverrun", syscall(SYS_timer_getoverrun, (int)(long)t) == si.si_overrun);
	set(t, 0, 1000000, 0);
	spin(3000000);
	CHECK("setting it anew takes a pending signal back",
	      set(t, 0, 0, 0) == 0 && sigtimedwait(&s, &si, &zero) == -1 && errno == EAGAIN);
	sigprocmask(SIG_UNBLOCK, &s, NULL);
	CHECK("timer_delete", syscall(SYS_timer_delete, (int)(long)t) == 0);
	CHECK_ERRNO("it is gone", syscall(SYS_timer_delete, (int)(long)t), EINVAL);
	CHECK_ERRNO("gettime of none", syscall(SYS_timer_gettime, (int)(long)t, &cur), EINVAL);
	t = make(CLOCK_REALTIME, SIGEV_THREAD_ID, SIGUSR1, 66);
	g_count = 0;
	set(t, 0, 2000000, 0);
	wait_count(1);
	CHECK("SIGEV_THREAD_ID", g_count == 1 && g_value == 66);
	syscall(SYS_timer_delete, (int)(long)t);
	t = make(CLOCK_BOOTTIME, SIGEV_NONE, 0, 0);
	set(t, 0, 50000000, 7000000);
	syscall(SYS_timer_gettime, (int)(long)t, &cur);
	CHECK("SIGEV_NONE counts down", cur.it_value.tv_nsec > 0 && cur.it_value.tv_nsec <= 50000000 &&
						cur.it_interval.tv_nsec == 7000000);
	syscall(SYS_timer_delete, (int)(long)t);
	int id;

	CHECK("no sigevent", syscall(SYS_timer_create, CLOCK_REALTIME, NULL, &id) == 0);
	handle(SIGALRM);
	g_count = 0;
	set((timer_t)(long)id, 0, 1000000, 0);
	wait_count(1);
	CHECK("means SIGALRM with the id", g_count == 1 && g_value == id);
	syscall(SYS_timer_delete, id);
	struct sigevent sev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = 0 };

	CHECK_ERRNO("bad signal", syscall(SYS_timer_create, CLOCK_REALTIME, &sev, &id), EINVAL);
	sev.sigev_signo = SIGUSR1;
	sev.sigev_notify = 99;
	CHECK_ERRNO("bad notify", syscall(SYS_timer_create, CLOCK_REALTIME, &sev, &id), EINVAL);
	CHECK_ERRNO("bad clock", syscall(SYS_timer_create, 42, NULL, &id), EINVAL);
	CHECK_ERRNO("raw clock", syscall(SYS_timer_create, CLOCK_MONOTONIC_RAW, NULL, &id), EOPNOTSUPP);
	CHECK_ERRNO("bad sigevent", syscall(SYS_timer_create, CLOCK_REALTIME, (void *)8, &id), EFAULT);
	CHECK_ERRNO("bad id pointer", syscall(SYS_timer_create, CLOCK_REALTIME, NULL, (void *)8), EFAULT);
	CHECK_ERRNO("settime without a value", syscall(SYS_timer_settime, 0, 0, NULL, NULL), EINVAL);
	t = make(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, SIGUSR1, 1);
	g_count = 0;
	set(t, 0, 10000000, 0);
	for (int k = 0; k < 50 && !g_count; k++)
		spin(10000000);
	CHECK("process CPU timer", g_count == 1);
	syscall(SYS_timer_delete, (int)(long)t);
	t = make(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, SIGUSR1, 1);
	g_count = 0;
	set(t, 0, 10000000, 0);
	for (int k = 0; k < 50 && !g_count; k++)
		spin(10000000);
	CHECK("thread CPU timer", g_count == 1);
	syscall(SYS_timer_delete, (int)(long)t);
}

static void test_inherit(void)
{
	struct itimerval it = { .it_value.tv_sec = 100 }, cur;
	timer_t t = make(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 0);
	int st;

	setitimer(ITIMER_REAL, &it, NULL);
	pid_t c = fork();

	if (c == 0) {
		struct itimerspec s;

		getitimer(ITIMER_REAL, &cur);
		_exit((cur.it_value.tv_sec || cur.it_value.tv_usec) |
		      (syscall(SYS_timer_gettime, (int)(long)t, &s) == 0) << 1);
	}
	waitpid(c, &st, 0);
	CHECK("fork inherits no timers", st == 0);
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
	syscall(SYS_timer_delete, (int)(long)t);
	c = fork();
	if (c == 0) {
		struct rlimit rl = { .rlim_cur = 1, .rlim_max = 2 };
		struct itimerval soon = { .it_value.tv_usec = 1 };

		(void)soon;
		signal(SIGXCPU, SIG_DFL);
		setrlimit(RLIMIT_CPU, &rl);
		for (;;)
			;
	}
	waitpid(c, &st, 0);
	CHECK("RLIMIT_CPU", WIFSIGNALED(st) && WTERMSIG(st) == SIGXCPU);
}

static void test_timerfd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	struct itimerspec its = { .it_value.tv_nsec = 3000000, .it_interval.tv_nsec = 1000000 }, cur;
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	uint64_t n = 0;

	CHECK("timerfd_create", fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK_ERRNO("not armed", read(fd, &n, 8), EAGAIN);
	CHECK("settime", timerfd_settime(fd, 0, &its, NULL) == 0);
	CHECK("poll", poll(&pf, 1, 1000) == 1);
	spin(5000000);
	CHECK("ticks", read(fd, &n, 8) == 8 && n >= 3);
	CHECK("gettime", timerfd_gettime(fd, &cur) == 0 && cur.it_interval.tv_nsec == 1000000);
	CHECK_ERRNO("bad fd", timerfd_gettime(999, &cur), EBADF);
	CHECK_ERRNO("not a timerfd", timerfd_gettime(0, &cur), EINVAL);
	CHECK_ERRNO("bad flags", timerfd_create(CLOCK_MONOTONIC, 1), EINVAL);
	CHECK_ERRNO("bad clock", timerfd_create(CLOCK_MONOTONIC_RAW, 0), EINVAL);
	CHECK_ERRNO("bad value", timerfd_settime(fd, 0, (void *)8, NULL), EFAULT);
	its.it_value.tv_nsec = 1000000000;
	CHECK_ERRNO("bad nsec", timerfd_settime(fd, 0, &its, NULL), EINVAL);
	close(fd);
}

int main(void)
{
	test_clocks();
	test_sleep();
	test_itimer();
	test_posix();
	test_inherit();
	test_timerfd();
	return guest_done();
}
