/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: sending, masks, queues, actions, restarts, stops, signalfd, altstack. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile sig_atomic_t g_count, g_last;
static siginfo_t g_info;
static int g_order[64], g_values[64];
static volatile int g_orders;

static void on_signal(int s)
{
	g_count++;
	g_last = s;
}

static void on_info(int s, siginfo_t *si, void *uc)
{
	(void)uc;
	g_count++;
	g_last = s;
	g_info = *si;
	if (g_orders < 64) {
		g_order[g_orders] = s;
		g_values[g_orders++] = si->si_value.sival_int;
	}
}

static void handle(int s, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	sigaction(s, &sa, NULL);
}

static void handle_info(int s, int flags)
{
	struct sigaction sa = { .sa_sigaction = on_info, .sa_flags = flags | SA_SIGINFO };

	sigaction(s, &sa, NULL);
}

static void block(int s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, s);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void unblock_all(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

static int gettid_(void)
{
	return (int)syscall(SYS_gettid);
}

static void test_basic(void)
{
	handle_info(SIGUSR1, 0);
	g_count = 0;
	kill(getpid(), SIGUSR1);
	CHECK("kill to itself is delivered at once", g_count == 1 && g_last == SIGUSR1);
	CHECK("siginfo of kill", g_info.si_code == SI_USER && g_info.si_pid == getpid() &&
					 g_info.si_uid == getuid());
	syscall(SYS_tgkill, getpid(), gettid_(), SIGUSR1);
	CHECK("siginfo of tgkill", g_count == 2 && g_info.si_code == SI_TKILL);
	union sigval v = { .sival_int = 77 };

	sigqueue(getpid(), SIGUSR1, v);
	CHECK("siginfo of sigqueue", g_info.si_code == SI_QUEUE && g_info.si_value.sival_int == 77);
	CHECK("signal 0", kill(getpid(), 0) == 0);
	CHECK_ERRNO("kill with a bad signal", kill(getpid(), 65), EINVAL);
	CHECK_ERRNO("kill with a negative signal", kill(getpid(), -1), EINVAL);
	CHECK_ERRNO("kill of nobody", kill(0x3fffff, 0), ESRCH);
	CHECK_ERRNO("tgkill of the wrong group", syscall(SYS_tgkill, 0x3fffff, gettid_(), 0), ESRCH);
	CHECK_ERRNO("tgkill 0", syscall(SYS_tgkill, 0, gettid_(), 0), EINVAL);
	CHECK_ERRNO("tkill 0", syscall(SYS_tkill, 0, 0), EINVAL);
	siginfo_t si = { .si_code = SI_USER };

	CHECK_ERRNO("pretending to be kill",
		    syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &si), EPERM);
	CHECK_ERRNO("queueinfo with a bad pointer",
		    syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, (void *)8), EFAULT);
}

static void test_sigaction(void)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;

	CHECK_ERRNO("action of SIGKILL", sigaction(SIGKILL, &sa, NULL), EINVAL);
	CHECK_ERRNO("action of SIGSTOP", sigaction(SIGSTOP, &sa, NULL), EINVAL);
	CHECK("old action of SIGKILL", sigaction(SIGKILL, NULL, &old) == 0 &&
					       old.sa_handler == SIG_DFL);
	CHECK_ERRNO("signal 0 has no action", syscall(SYS_rt_sigaction, 0, NULL, NULL, 8), EINVAL);
	CHECK_ERRNO("signal 65 has no action", syscall(SYS_rt_sigaction, 65, NULL, NULL, 8), EINVAL);
	CHECK_ERRNO("set size", syscall(SYS_rt_sigaction, 1, NULL, NULL, 16), EINVAL);
	CHECK_ERRNO("bad new action", syscall(SYS_rt_sigaction, 1, (void *)8, NULL, 8), EFAULT);
	CHECK_ERRNO("bad old action", syscall(SYS_rt_sigaction, 1, NULL, (void *)8, 8), EFAULT);
	handle(SIGUSR2, on_signal, SA_RESETHAND);
	g_count = 0;
	raise(SIGUSR2);
	sigaction(SIGUSR2, NULL, &old);
	CHECK("SA_RESETHAND", g_count == 1 && old.sa_handler == SIG_DFL);
	/* Unknown flags do not stick. */
	struct {
		void *h;
		unsigned long flags;
		void *r;
		uint64_t mask;
	} k = { .h = SIG_IGN, .flags = 0x400 | SA_RESTART, .mask = ~0ull }, kold;

	syscall(SYS_rt_sigaction, SIGUSR2, &k, NULL, 8);
	syscall(SYS_rt_sigaction, SIGUSR2, NULL, &kold, 8);
	CHECK("unknown flags are cleared", kold.flags == SA_RESTART);
	CHECK("SIGKILL and SIGSTOP leave the mask",
	      kold.mask == (~0ull & ~(1ull << (SIGKILL - 1)) & ~(1ull << (SIGSTOP - 1))));
	handle(SIGUSR2, SIG_DFL, 0);
}

static void test_masks(void)
{
	sigset_t set, old, pending;
	uint64_t m = ~0ull;

	block(SIGUSR1);
	handle_info(SIGUSR1, 0);
	g_count = 0;
	raise(SIGUSR1);
	raise(SIGUSR1);
	sigpending(&pending);
	CHECK("blocked signals wait", g_count == 0 && sigismember(&pending, SIGUSR1));
	unblock_all();
	CHECK("standard signals coalesce", g_count == 1);
	sigpending(&pending);
	CHECK("nothing is pending then", !sigismember(&pending, SIGUSR1));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &m, NULL, 8);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &m, 8);
	CHECK("SIGKILL can not be blocked", m == (~0ull & ~(1ull << 8) & ~(1ull << 18)));
	unblock_all();
	CHECK_ERRNO("bad how", syscall(SYS_rt_sigprocmask, 3, &m, NULL, 8), EINVAL);
	CHECK("bad how without a set", syscall(SYS_rt_sigprocmask, 3, NULL, &m, 8) == 0);
	CHECK_ERRNO("bad size", syscall(SYS_rt_sigprocmask, 0, &m, NULL, 4), EINVAL);
	CHECK_ERRNO("bad set", syscall(SYS_rt_sigprocmask, 0, (void *)8, NULL, 8), EFAULT);
	CHECK_ERRNO("pending size", syscall(SYS_rt_sigpending, &m, 9), EINVAL);
	CHECK("pending of 4 bytes", syscall(SYS_rt_sigpending, &m, 4) == 0);
	/* The handler runs with its own signal and sa_mask blocked. */
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, &old);
}

static sigset_t g_in_handler;

static void on_mask(int s)
{
	(void)s;
	sigprocmask(SIG_BLOCK, NULL, &g_in_handler);
}

static void test_handler_mask(void)
{
	struct sigaction sa = { .sa_handler = on_mask };
	sigset_t after;

	sigaddset(&sa.sa_mask, SIGHUP);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK("handler mask", sigismember(&g_in_handler, SIGUSR1) &&
				      sigismember(&g_in_handler, SIGHUP));
	sigprocmask(SIG_BLOCK, NULL, &after);
	CHECK("mask comes back", !sigismember(&after, SIGUSR1) && !sigismember(&after, SIGHUP));
	sa.sa_flags = SA_NODEFER;
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK("SA_NODEFER", !sigismember(&g_in_handler, SIGUSR1));
}

static void test_realtime(void)
{
	union sigval v;
	int rt = SIGRTMIN;

	block(rt);
	block(rt + 1);
	block(SIGUSR1);
	for (int i = 0; i < 2; i++)
		handle_info(rt + i, 0);
	handle_info(SIGUSR1, 0);
	g_orders = 0;
	for (int i = 0; i < 3; i++) {
		v.sival_int = 10 + i;
		sigqueue(getpid(), rt + 1, v);
	}
	for (int i = 0; i < 3; i++) {
		v.sival_int = i;
		sigqueue(getpid(), rt, v);
	}
	raise(SIGUSR1);
	/* One at a time, in the order the kernel takes them. */
	sigset_t all;
	siginfo_t si;
	int got[8], val[8], n = 0;
	struct timespec zero = { 0 };

	sigemptyset(&all);
	sigaddset(&all, rt);
	sigaddset(&all, rt + 1);
	sigaddset(&all, SIGUSR1);
	while (n < 8 && (got[n] = sigtimedwait(&all, &si, &zero)) > 0) {
		val[n] = si.si_value.sival_int;
		n++;
	}
	CHECK("all are queued", n == 7);
	CHECK("lowest number first", got[0] == SIGUSR1 && got[1] == rt && got[4] == rt + 1);
	CHECK("first in, first out", val[1] == 0 && val[2] == 1 && val[3] == 2 && val[4] == 10 &&
					     val[6] == 12);
	CHECK("then EAGAIN", sigtimedwait(&all, &si, &zero) == -1 && errno == EAGAIN);
	struct rlimit rl, old;

	getrlimit(RLIMIT_SIGPENDING, &old);
	rl = old;
	rl.rlim_cur = 0;
	setrlimit(RLIMIT_SIGPENDING, &rl);
	CHECK_ERRNO("RLIMIT_SIGPENDING", sigqueue(getpid(), rt, v), EAGAIN);
	CHECK("kill passes the limit", kill(getpid(), SIGUSR1) == 0 &&
					       sigtimedwait(&all, &si, &zero) == SIGUSR1);
	setrlimit(RLIMIT_SIGPENDING, &old);
	unblock_all();
}

static void test_sigwait_errors(void)
{
	struct timespec ts = { .tv_nsec = 1000000000 }, ok = { .tv_nsec = 2000000 };
	uint64_t set = 1ull << (SIGUSR1 - 1);

	CHECK_ERRNO("bad time", syscall(SYS_rt_sigtimedwait, &set, NULL, &ts, 8), EINVAL);
	CHECK_ERRNO("bad size", syscall(SYS_rt_sigtimedwait, &set, NULL, &ok, 7), EINVAL);
	CHECK_ERRNO("bad set", syscall(SYS_rt_sigtimedwait, (void *)8, NULL, &ok, 8), EFAULT);
	CHECK_ERRNO("timeout", syscall(SYS_rt_sigtimedwait, &set, NULL, &ok, 8), EAGAIN);
	block(SIGUSR1);
	raise(SIGUSR1);
	CHECK_ERRNO("bad siginfo", syscall(SYS_rt_sigtimedwait, &set, (void *)8, &ok, 8), EFAULT);
	unblock_all();
	/* An unwanted signal with a handler ends the wait. */
	pid_t parent = getpid(), c;

	handle(SIGUSR2, on_signal, SA_RESTART);
	c = fork();
	if (c == 0) {
		usleep(10000);
		kill(parent, SIGUSR2);
		_exit(0);
	}
	CHECK_ERRNO("another signal interrupts", syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 8),
		    EINTR);
	waitpid(c, NULL, 0);
}

static pid_t child_kills(int sig, int delay_us)
{
	pid_t parent = getpid(), c = fork();

	if (c == 0) {
		usleep((unsigned int)delay_us);
		kill(parent, sig);
		_exit(0);
	}
	return c;
}

static void test_restart(void)
{
	int p[2];
	char b;
	pid_t c;

	pipe(p);
	handle(SIGUSR1, on_signal, 0);
	c = child_kills(SIGUSR1, 10000);
	CHECK_ERRNO("read without SA_RESTART", read(p[0], &b, 1), EINTR);
	waitpid(c, NULL, 0);
	handle(SIGUSR1, on_signal, SA_RESTART);
	g_count = 0;
	c = fork();
	if (c == 0) {
		usleep(10000);
		kill(getppid(), SIGUSR1);
		usleep(10000);
		write(p[1], "x", 1);
		_exit(0);
	}
	CHECK("read with SA_RESTART", read(p[0], &b, 1) == 1 && g_count == 1);
	waitpid(c, NULL, 0);
	c = child_kills(SIGUSR1, 10000);
	CHECK_ERRNO("pause ignores SA_RESTART", pause(), EINTR);
	waitpid(c, NULL, 0);
	struct timespec ts = { .tv_nsec = 40000000 }, longer = { .tv_sec = 5 }, rem = { 0 };

	c = child_kills(SIGUSR1, 10000);
	CHECK_ERRNO("nanosleep ignores SA_RESTART", nanosleep(&longer, &rem), EINTR);
	CHECK("nanosleep gives the rest", rem.tv_sec < 5 && (rem.tv_sec || rem.tv_nsec));
	waitpid(c, NULL, 0);
	struct pollfd pf = { .fd = p[0], .events = POLLIN };

	c = child_kills(SIGUSR1, 10000);
	CHECK_ERRNO("poll ignores SA_RESTART", poll(&pf, 1, 1000), EINTR);
	waitpid(c, NULL, 0);
	/* An ignored signal, and a stop, do not show. */
	struct timespec t0, t1;

	signal(SIGUSR1, SIG_IGN);
	c = child_kills(SIGUSR1, 5000);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	CHECK("nanosleep through an ignored signal", nanosleep(&ts, &rem) == 0);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	CHECK("for all its time", (t1.tv_sec - t0.tv_sec) * 1000000000 + t1.tv_nsec - t0.tv_nsec >=
					  40000000);
	waitpid(c, NULL, 0);
	c = fork();
	if (c == 0) {
		clock_gettime(CLOCK_MONOTONIC, &t0);
		int r = nanosleep(&ts, NULL);

		clock_gettime(CLOCK_MONOTONIC, &t1);
		_exit(r == 0 && (t1.tv_sec - t0.tv_sec) * 1000000000 + t1.tv_nsec - t0.tv_nsec >=
					40000000 ? 0 : 1);
	}
	int st;

	usleep(10000);
	kill(c, SIGSTOP);
	waitpid(c, &st, WUNTRACED);
	kill(c, SIGCONT);
	waitpid(c, &st, 0);
	CHECK("nanosleep goes on after a stop", WIFEXITED(st) && WEXITSTATUS(st) == 0);
	close(p[0]);
	close(p[1]);
}

static void test_sigsuspend(void)
{
	sigset_t set, empty, now;

	handle(SIGUSR1, on_signal, 0);
	sigemptyset(&empty);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	g_count = 0;
	CHECK_ERRNO("sigsuspend", sigsuspend(&empty), EINTR);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK("it ran the handler and put the mask back", g_count == 1 && sigismember(&now, SIGUSR1));
	raise(SIGUSR1);
	struct timespec ts = { .tv_sec = 1 };

	CHECK_ERRNO("ppoll with a mask", ppoll(NULL, 0, &ts, &empty), EINTR);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK("mask after ppoll", g_count == 2 && sigismember(&now, SIGUSR1));
	ts.tv_sec = 0;
	CHECK("ppoll times out", ppoll(NULL, 0, &ts, &empty) == 0);
	sigprocmask(SIG_BLOCK, NULL, &now);
	CHECK("mask after a timeout", sigismember(&now, SIGUSR1));
	unblock_all();
}

static int wait_child(pid_t c)
{
	int st = -1;

	waitpid(c, &st, 0);
	return st;
}

static void test_default_actions(void)
{
	static const int fatal[] = { SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGABRT, SIGFPE, SIGKILL, SIGSEGV,
				     SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGBUS, SIGSYS, SIGTRAP,
				     SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, 34, 64 };
	static const int ignored[] = { SIGCHLD, SIGURG, SIGWINCH, SIGCONT };
	int bad = 0;
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		pid_t c = fork();

		if (c == 0) {
			signal(fatal[i], SIG_DFL);
			unblock_all();
			kill(getpid(), fatal[i]);
			for (;;)
				pause();
		}
		int st = wait_child(c);

		if (!WIFSIGNALED(st) || WTERMSIG(st) != fatal[i] || WCOREDUMP(st)) {
			printf("signal %d: status %#x\n", fatal[i], st);
			bad++;
		}
	}
	CHECK("fatal by default", !bad);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
		pid_t c = fork();

		if (c == 0) {
			signal(ignored[i], SIG_DFL);
			kill(getpid(), ignored[i]);
			_exit(5);
		}
		bad += wait_child(c) != 5 << 8;
	}
	CHECK("ignored by default", !bad);
	pid_t c = fork();

	if (c == 0) {
		signal(SIGSEGV, SIG_IGN);
		*(volatile int *)16 = 1;
		_exit(0);
	}
	CHECK("a fault can not be ignored", WTERMSIG(wait_child(c)) == SIGSEGV);
	c = fork();
	if (c == 0) {
		block(SIGSEGV);
		*(volatile int *)16 = 1;
		_exit(0);
	}
	CHECK("nor blocked", WTERMSIG(wait_child(c)) == SIGSEGV);
}

static volatile int g_chld_code, g_chld_status, g_chld_pid, g_chld_count;

static void on_chld(int s, siginfo_t *si, void *u)
{
	(void)s;
	(void)u;
	g_chld_code = si->si_code;
	g_chld_status = si->si_status;
	g_chld_pid = si->si_pid;
	g_chld_count++;
}

static void wait_for(volatile int *v, int want)
{
	for (int i = 0; i < 1000 && *v < want; i++)
		usleep(1000);
}

static void test_stops(void)
{
	struct sigaction sa = { .sa_sigaction = on_chld, .sa_flags = SA_SIGINFO | SA_RESTART };
	int st;
	pid_t c;

	sigaction(SIGCHLD, &sa, NULL);
	c = fork();
	if (c == 0)
		for (;;)
			pause();
	setpgid(c, c); /* a group whose parent can continue it: SIGTSTP works */
	kill(c, SIGSTOP);
	wait_for(&g_chld_count, 1);
	CHECK("CLD_STOPPED", g_chld_code == CLD_STOPPED && g_chld_status == SIGSTOP &&
				     g_chld_pid == c);
	CHECK("WUNTRACED", waitpid(c, &st, WUNTRACED) == c && WIFSTOPPED(st) &&
				   WSTOPSIG(st) == SIGSTOP);
	CHECK("once only", waitpid(c, &st, WUNTRACED | WNOHANG) == 0);
	g_chld_count = 0;
	kill(c, SIGCONT);
	wait_for(&g_chld_count, 1);
	CHECK("CLD_CONTINUED", g_chld_code == CLD_CONTINUED && g_chld_status == SIGCONT);
	CHECK("WCONTINUED", waitpid(c, &st, WCONTINUED) == c && WIFCONTINUED(st));
	/* A stopped process dies of SIGKILL at once. */
	kill(c, SIGTSTP);
	waitpid(c, &st, WUNTRACED);
	g_chld_count = 0;
	kill(c, SIGTERM);
	CHECK("stopped: other signals wait", waitpid(c, &st, WNOHANG) == 0);
	kill(c, SIGKILL);
	CHECK("SIGKILL", waitpid(c, &st, 0) == c && WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	CHECK("CLD_KILLED", g_chld_code == CLD_KILLED && g_chld_status == SIGKILL);
	/* SA_NOCLDSTOP. */
	sa.sa_flags |= SA_NOCLDSTOP;
	sigaction(SIGCHLD, &sa, NULL);
	g_chld_count = 0;
	c = fork();
	if (c == 0)
		for (;;)
			pause();
	kill(c, SIGSTOP);
	waitpid(c, &st, WUNTRACED);
	CHECK("SA_NOCLDSTOP", g_chld_count == 0);
	kill(c, SIGKILL);
	waitpid(c, &st, 0);
	wait_for(&g_chld_count, 1);
	CHECK("death is told all the same", g_chld_count == 1);
	c = fork();
	if (c == 0)
		_exit(9);
	waitpid(c, &st, 0);
	wait_for(&g_chld_count, 2);
	CHECK("CLD_EXITED", g_chld_code == CLD_EXITED && g_chld_status == 9);
	/* No zombies with SA_NOCLDWAIT, or SIGCHLD ignored. */
	sa.sa_flags |= SA_NOCLDWAIT;
	sigaction(SIGCHLD, &sa, NULL);
	c = fork();
	if (c == 0)
		_exit(0);
	CHECK("SA_NOCLDWAIT", waitpid(c, &st, 0) == -1 && errno == ECHILD);
	signal(SIGCHLD, SIG_IGN);
	c = fork();
	if (c == 0)
		_exit(0);
	CHECK("SIGCHLD ignored", waitpid(c, &st, 0) == -1 && errno == ECHILD);
	signal(SIGCHLD, SIG_DFL);
	/* SIGCONT and stop signals cancel each other while pending. */
	block(SIGCONT);
	block(SIGTSTP);
	raise(SIGTSTP);
	raise(SIGCONT);
	sigset_t p;

	sigpending(&p);
	CHECK("SIGCONT removes a pending stop", !sigismember(&p, SIGTSTP) && sigismember(&p, SIGCONT));
	raise(SIGTSTP);
	sigpending(&p);
	CHECK("and a stop removes SIGCONT", sigismember(&p, SIGTSTP) && !sigismember(&p, SIGCONT));
	signal(SIGTSTP, SIG_IGN);
	unblock_all();
	signal(SIGTSTP, SIG_DFL);
}

static void *spin_thread(void *arg)
{
	volatile int *n = arg;

	for (;;) {
		(*n)++;
		sched_yield();
	}
	return NULL;
}

static void test_group_stop(void)
{
	volatile int *n = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t c = fork();
	int st, a, b;

	if (c == 0) {
		pthread_t t;

		pthread_create(&t, NULL, spin_thread, (void *)&n[0]);
		pthread_create(&t, NULL, spin_thread, (void *)&n[16]);
		for (;;)
			pause();
	}
	wait_for(&n[0], 1);
	wait_for(&n[16], 1);
	kill(c, SIGSTOP);
	waitpid(c, &st, WUNTRACED);
	a = n[0];
	b = n[16];
	usleep(10000);
	CHECK("all threads stop", a == n[0] && b == n[16]);
	kill(c, SIGCONT);
	for (int i = 0; i < 1000 && (n[0] == a || n[16] == b); i++)
		usleep(1000);
	CHECK("all threads continue", a != n[0] && b != n[16]);
	kill(c, SIGKILL);
	CHECK("all threads die", wait_child(c) == SIGKILL);
	munmap((void *)n, 4096);
}

static void test_signalfd(void)
{
	sigset_t set;
	struct signalfd_siginfo si[2];
	union sigval v = { .sival_int = 42 };

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	struct pollfd pf = { .fd = fd, .events = POLLIN };

	CHECK("signalfd", fd >= 0);
	CHECK_ERRNO("nothing there", read(fd, si, sizeof(si)), EAGAIN);
	CHECK("poll before", poll(&pf, 1, 0) == 0);
	kill(getpid(), SIGUSR1);
	sigqueue(getpid(), SIGRTMIN, v);
	CHECK("poll after", poll(&pf, 1, 0) == 1 && pf.revents == POLLIN);
	CHECK("read two", read(fd, si, sizeof(si)) == (ssize_t)sizeof(si));
	CHECK("first", si[0].ssi_signo == SIGUSR1 && si[0].ssi_pid == (uint32_t)getpid() &&
			       si[0].ssi_code == SI_USER);
	CHECK("second", si[1].ssi_signo == (uint32_t)SIGRTMIN && si[1].ssi_int == 42 &&
				si[1].ssi_code == SI_QUEUE);
	CHECK_ERRNO("short buffer", read(fd, si, 127), EINVAL);
	sigdelset(&set, SIGUSR1);
	CHECK("new mask", signalfd(fd, &set, 0) == fd);
	kill(getpid(), SIGUSR1);
	CHECK_ERRNO("the new mask counts", read(fd, si, sizeof(si)), EAGAIN);
	CHECK_ERRNO("bad flags", signalfd(-1, &set, 1), EINVAL);
	CHECK_ERRNO("not a signalfd", signalfd(0, &set, 0), EINVAL);
	CHECK_ERRNO("bad fd", signalfd(999, &set, 0), EBADF);
	CHECK_ERRNO("bad set size", syscall(SYS_signalfd4, -1, &set, 4, 0), EINVAL);
	signal(SIGUSR1, SIG_IGN);
	fcntl(fd, F_SETFL, 0);
	pid_t c = child_kills(SIGRTMIN, 10000);

	CHECK("blocking read", read(fd, si, sizeof(si[0])) == (ssize_t)sizeof(si[0]) &&
				       si[0].ssi_pid == (uint32_t)c);
	waitpid(c, NULL, 0);
	close(fd);
	unblock_all();
}

static char g_alt[65536] __attribute__((aligned(16)));
static stack_t g_alt_seen;
static int g_on_alt;

static void on_alt(int s)
{
	char here;

	(void)s;
	g_on_alt = &here >= g_alt && &here < g_alt + sizeof(g_alt);
	sigaltstack(NULL, &g_alt_seen);
}

static sigjmp_buf g_jump;

static void on_overflow(int s)
{
	on_alt(s);
	siglongjmp(g_jump, 1);
}

static int recurse(int n)
{
	volatile char pad[4096];

	pad[0] = (char)n;
	return n > 1000000 ? 0 : recurse(n + 1) + pad[0];
}

static void test_altstack(void)
{
	stack_t ss = { .ss_sp = g_alt, .ss_size = sizeof(g_alt) }, old;
	struct sigaction sa = { .sa_handler = on_alt, .sa_flags = SA_ONSTACK };

	CHECK("none at first", sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
	CHECK("set", sigaltstack(&ss, NULL) == 0);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
	CHECK("handler runs on it", g_on_alt && g_alt_seen.ss_flags == SS_ONSTACK);
	sigaltstack(NULL, &old);
	CHECK("and off it after", old.ss_flags == 0 && old.ss_sp == g_alt);
	ss.ss_size = 1024;
	CHECK_ERRNO("too small", sigaltstack(&ss, NULL), ENOMEM);
	ss.ss_size = sizeof(g_alt);
	ss.ss_flags = 7;
	CHECK_ERRNO("bad flags", sigaltstack(&ss, NULL), EINVAL);
	CHECK_ERRNO("bad pointer", sigaltstack((void *)8, NULL), EFAULT);
	ss.ss_flags = (int)(1u << 31); /* SS_AUTODISARM */
	CHECK("autodisarm", sigaltstack(&ss, NULL) == 0);
	raise(SIGUSR1);
	CHECK("disarmed inside", g_on_alt && g_alt_seen.ss_flags == SS_DISABLE);
	sigaltstack(NULL, &old);
	CHECK("armed again after", old.ss_sp == g_alt && old.ss_flags == ss.ss_flags);
	ss.ss_flags = 0;
	sigaltstack(&ss, NULL);
	sa.sa_handler = on_overflow;
	sigaction(SIGSEGV, &sa, NULL);
	g_on_alt = 0;
	if (sigsetjmp(g_jump, 1) == 0)
		recurse(1);
	CHECK("stack overflow is caught on it", g_on_alt);
	pid_t c = fork();

	if (c == 0) {
		struct sigaction on_main = { .sa_handler = on_alt };

		sigaction(SIGSEGV, &on_main, NULL);
		recurse(1);
		_exit(0);
	}
	CHECK("without one it kills", WTERMSIG(wait_child(c)) == SIGSEGV);
	ss.ss_flags = SS_DISABLE;
	sigaltstack(&ss, NULL);
	signal(SIGSEGV, SIG_DFL);
}

static volatile int g_thread_ready, g_thread_go;
static volatile pid_t g_thread_tid, g_handled_by;

static void on_who(int s)
{
	(void)s;
	g_handled_by = gettid_();
}

static void *listener(void *arg)
{
	(void)arg;
	unblock_all();
	g_thread_tid = gettid_();
	g_thread_ready = 1;
	while (!g_thread_go)
		usleep(500);
	return NULL;
}

static void test_threads(void)
{
	pthread_t t;

	handle(SIGUSR1, on_who, 0);
	block(SIGUSR1);
	pthread_create(&t, NULL, listener, NULL);
	wait_for(&g_thread_ready, 1);
	kill(getpid(), SIGUSR1);
	wait_for(&g_handled_by, 1);
	CHECK("a thread that does not block it takes it", g_handled_by == g_thread_tid);
	unblock_all();
	kill(getpid(), SIGUSR1);
	CHECK("the main thread is asked first", g_handled_by == gettid_());
	pthread_kill(t, SIGUSR1);
	for (int i = 0; i < 1000 && g_handled_by != g_thread_tid; i++)
		usleep(500);
	CHECK("pthread_kill", g_handled_by == g_thread_tid);
	CHECK("kill by a thread's tid means its process", kill(g_thread_tid, 0) == 0);
	g_thread_go = 1;
	pthread_join(t, NULL);
}

static void test_groups(void)
{
	int st;
	pid_t a = fork();

	if (a == 0) {
		setpgid(0, 0);
		pid_t b = fork();

		if (b == 0)
			for (;;)
				pause();
		usleep(5000);
		kill(0, SIGTERM);
		for (;;)
			pause();
	}
	setpgid(a, a);
	CHECK("kill(0) reaches the sender's group", waitpid(a, &st, 0) == a && WTERMSIG(st) == SIGTERM);
	a = fork();
	if (a == 0) {
		setpgid(0, 0);
		for (;;)
			pause();
	}
	setpgid(a, a);
	CHECK("kill(-pgrp)", kill(-a, SIGINT) == 0 && waitpid(a, &st, 0) == a &&
				     WTERMSIG(st) == SIGINT);
	CHECK_ERRNO("no such group", kill(-0x3ffffe, 0), ESRCH);
	if (getuid() == 0) {
		a = fork();
		if (a == 0) {
			setuid(12345);
			_exit(kill(getppid(), 0) == -1 && errno == EPERM ? 0 : 1);
		}
		waitpid(a, &st, 0);
		CHECK("EPERM for a stranger", st == 0);
	}
	CHECK_ERRNO("INT_MIN", syscall(SYS_kill, (int)0x80000000, 0), ESRCH);
}

int main(void)
{
	test_basic();
	test_sigaction();
	test_masks();
	test_handler_mask();
	test_realtime();
	test_sigwait_errors();
	test_restart();
	test_sigsuspend();
	test_default_actions();
	test_stops();
	test_group_stop();
	test_signalfd();
	test_altstack();
	test_threads();
	test_groups();
	return guest_done();
}
