/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits, scheduling attributes, usage and what the system says of itself. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static void test_limits(void)
{
	struct rlimit r, old;

	CHECK_ERRNO("unknown limit", getrlimit(16, &r), EINVAL);
	CHECK_ERRNO("bad pointer", syscall(SYS_getrlimit, RLIMIT_NOFILE, 8), EFAULT);
	CHECK("read", getrlimit(RLIMIT_NOFILE, &old) == 0 && old.rlim_cur <= old.rlim_max);
	r = old;
	r.rlim_cur = 32;
	CHECK("lower", setrlimit(RLIMIT_NOFILE, &r) == 0);
	CHECK_ERRNO("obeyed", fcntl(0, F_DUPFD, 32), EINVAL);
	int fd = 0, n = 0;

	while ((fd = dup(1)) >= 0)
		n++;
	CHECK("descriptors run out", errno == EMFILE && n < 32);
	for (fd = 3; fd < 40; fd++)
		close(fd);
	r.rlim_cur = old.rlim_cur;
	CHECK("back", setrlimit(RLIMIT_NOFILE, &r) == 0);
	r.rlim_cur = 10;
	r.rlim_max = 5;
	CHECK_ERRNO("soft over hard", setrlimit(RLIMIT_NOFILE, &r), EINVAL);
	CHECK_ERRNO("prlimit of nobody", prlimit(3999999, RLIMIT_CPU, NULL, &r), ESRCH);
	pid_t p = fork();

	if (!p)
		for (;;)
			pause();
	r.rlim_cur = 7;
	r.rlim_max = 77;
	CHECK("prlimit of a child", prlimit(p, RLIMIT_CORE, &(struct rlimit){ 0, 0 }, &old) == 0);
	CHECK("seen", prlimit(p, RLIMIT_CORE, NULL, &r) == 0 && r.rlim_max == 0);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
	p = fork();
	if (!p) {
		r.rlim_cur = r.rlim_max = 1000;
		if (setrlimit(RLIMIT_FSIZE, &r))
			_exit(1);
		signal(SIGXFSZ, SIG_IGN);
		fd = open("/tmp/rlimit_test", O_WRONLY | O_CREAT | O_TRUNC, 0600);
		char buf[2000] = "";

		if (write(fd, buf, 2000) != 1000 || write(fd, buf, 1) != -1 || errno != EFBIG)
			_exit(2);
		_exit(0);
	}
	int st;

	waitpid(p, &st, 0);
	CHECK("file size limit", WIFEXITED(st) && WEXITSTATUS(st) == 0);
	unlink("/tmp/rlimit_test");
}

static void test_sched(void)
{
	struct sched_param sp = { .sched_priority = 1 };
	struct timespec ts;
	cpu_set_t set;

	CHECK("policy", sched_getscheduler(0) == SCHED_OTHER);
	CHECK("priorities", sched_get_priority_max(SCHED_FIFO) == 99 &&
				    sched_get_priority_min(SCHED_RR) == 1 &&
				    sched_get_priority_max(SCHED_OTHER) == 0);
	CHECK_ERRNO("no such policy", sched_get_priority_max(77), EINVAL);
	CHECK_ERRNO("priority without real time", sched_setscheduler(0, SCHED_OTHER, &sp), EINVAL);
	CHECK_ERRNO("negative pid", sched_getscheduler(-1), EINVAL);
	CHECK_ERRNO("nobody", sched_getscheduler(3999999), ESRCH);
	sp.sched_priority = 0;
	CHECK("batch", sched_setscheduler(0, SCHED_BATCH, &sp) == 0 && sched_getscheduler(0) == SCHED_BATCH);
	CHECK("back", sched_setscheduler(0, SCHED_OTHER, &sp) == 0);
	CHECK("interval", sched_rr_get_interval(0, &ts) == 0 && ts.tv_sec == 0);
	CHECK("affinity", sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) >= 1);
	CHECK("set affinity", sched_setaffinity(0, sizeof(set), &set) == 0);
	CPU_ZERO(&set);
	CHECK_ERRNO("no CPU", sched_setaffinity(0, sizeof(set), &set), EINVAL);
	CHECK_ERRNO("odd size", syscall(SYS_sched_getaffinity, 0, 7, &set), EINVAL);
	errno = 0;
	CHECK("nice", getpriority(PRIO_PROCESS, 0) == 0 && errno == 0);
	CHECK("nicer", setpriority(PRIO_PROCESS, 0, 5) == 0 && getpriority(PRIO_PROCESS, 0) == 5);
	CHECK_ERRNO("bad which", getpriority((__priority_which_t)9, 0), EINVAL);
	CHECK_ERRNO("no such process", getpriority(PRIO_PROCESS, 3999999), ESRCH);
	CHECK("yield", sched_yield() == 0);
	CHECK("ioprio", syscall(SYS_ioprio_set, 1, 0, (2 << 13) | 5) == 0 &&
				(syscall(SYS_ioprio_get, 1, 0) & 0xffff) == ((2 << 13) | 5));
	CHECK_ERRNO("ioprio class", syscall(SYS_ioprio_set, 1, 0, 5 << 13), EINVAL);
}

/* A fixed amount of work: how long it takes depends on who else runs. */
static void burn(void)
{
	volatile uint64_t x = 0;

	for (int i = 0; i < 60000000; i++)
		x += (uint64_t)i;
}

static uint64_t ms_of(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000 + (uint64_t)tv->tv_usec / 1000;
}

static void test_usage(void)
{
	struct rusage ru, ch;
	struct tms tm;

	burn();
	CHECK("own usage", getrusage(RUSAGE_SELF, &ru) == 0 && ms_of(&ru.ru_utime) >= 10);
	CHECK("peak memory", ru.ru_maxrss > 0);
	CHECK("thread usage", getrusage(RUSAGE_THREAD, &ru) == 0 && ms_of(&ru.ru_utime) >= 10);
	CHECK_ERRNO("unknown who", getrusage((__rusage_who_t)5, &ru), EINVAL);
	pid_t p = fork();

	if (!p) {
		burn();
		_exit(0);
	}
	struct rusage w;
	int st;

	CHECK("wait4", wait4(p, &st, 0, &w) == p && ms_of(&w.ru_utime) >= 10);
	CHECK("children's usage", getrusage(RUSAGE_CHILDREN, &ch) == 0 && ms_of(&ch.ru_utime) >= 10);
	CHECK("times", times(&tm) > 0 && tm.tms_utime >= 1);
}

static void test_system(void)
{
	struct utsname u;
	struct sysinfo si;
	unsigned cpu = 99, node = 99;

	CHECK("uname", uname(&u) == 0 && !strcmp(u.sysname, "Linux") && !strcmp(u.machine, "x86_64"));
	CHECK("release", atoi(u.release) >= 5);
	CHECK("sysinfo", sysinfo(&si) == 0 && si.totalram > 0 && si.mem_unit >= 1 && si.procs >= 1);
	CHECK("getcpu", syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && cpu < 1024 && node == 0);
	CHECK("personality", personality(0xffffffff) >= 0);
	CHECK_ERRNO("reboot", syscall(SYS_reboot, 1, 2, 3, 0), getuid() ? EPERM : EINVAL);
	char name[16] = "";

	CHECK("thread name", prctl(PR_SET_NAME, "a name longer than that") == 0 &&
				     prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "a name longer t"));
	CHECK_ERRNO("unknown prctl", prctl(123456, 0, 0, 0, 0), EINVAL);
	int sig = -1;

	CHECK("pdeathsig", prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &sig) == 0 &&
				   sig == SIGUSR1);
	CHECK_ERRNO("bad pdeathsig", prctl(PR_SET_PDEATHSIG, 65), EINVAL);
	CHECK("slack", prctl(PR_SET_TIMERSLACK, 12345) == 0 && prctl(PR_GET_TIMERSLACK) == 12345);
	CHECK("dumpable", prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0);
	CHECK_ERRNO("dumpable 2", prctl(PR_SET_DUMPABLE, 2), EINVAL);
	prctl(PR_SET_DUMPABLE, 1);
	CHECK_ERRNO("no_new_privs 0", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL);
	CHECK_ERRNO("no_new_privs extra", prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0), EINVAL);
	CHECK("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
				      prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

int main(void)
{
	test_limits();
	test_sched();
	test_usage();
	test_system();
	return guest_done();
}
