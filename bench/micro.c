/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small benchmarks: one process, one operation at a time, nanoseconds an operation on stdout
 * as "NAME NS". Static, so that it runs the same natively, in Caisson and in any other runtime.
 *
 *	micro [NAME...]		all, or the named ones; must run in a writable directory
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOTFS_FILE "/etc/debian_version"
#define BIG_ROOTFS_FILE "/usr/bin/perl"

static char g_buf[1 << 20];
static const char *g_self;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "micro: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

/* ---- each body does n operations ---- */

static void b_getppid(int n)
{
	while (n--)
		syscall(SYS_getppid);
}

static void b_clock_gettime(int n)
{
	struct timespec ts;

	while (n--)
		clock_gettime(CLOCK_MONOTONIC, &ts);
}

static void b_sched_yield(int n)
{
	while (n--)
		sched_yield();
}

static int g_fd = -1;

static void open_tmp(void)
{
	if (g_fd < 0) {
		g_fd = open("micro.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
		need(g_fd >= 0 && write(g_fd, g_buf, sizeof(g_buf)) == sizeof(g_buf), "micro.tmp");
	}
}

static void b_lseek(int n)
{
	open_tmp();
	while (n--)
		lseek(g_fd, 0, SEEK_SET);
}

static void b_fstat(int n)
{
	struct stat st;

	open_tmp();
	while (n--)
		fstat(g_fd, &st);
}

static void b_pread1(int n)
{
	open_tmp();
	while (n--)
		need(pread(g_fd, g_buf, 1, 0) == 1, "pread");
}

static void b_pread4k(int n)
{
	open_tmp();
	while (n--)
		need(pread(g_fd, g_buf, 4096, 0) == 4096, "pread");
}

static void b_pwrite4k(int n)
{
	open_tmp();
	while (n--)
		need(pwrite(g_fd, g_buf, 4096, 0) == 4096, "pwrite");
}

static void rootfs_pread(int n, size_t size)
{
	int fd = open(BIG_ROOTFS_FILE, O_RDONLY);

	need(fd >= 0, BIG_ROOTFS_FILE);
	while (n--)
		need(pread(fd, g_buf, size, 0) == (ssize_t)size, "pread");
	close(fd);
}

static void b_rootfs_pread4k(int n)
{
	rootfs_pread(n, 4096);
}

static void b_rootfs_pread1m(int n)
{
	rootfs_pread(n, sizeof(g_buf));
}

static void b_stat_hit(int n)
{
	struct stat st;

	while (n--)
		need(stat(ROOTFS_FILE, &st) == 0, ROOTFS_FILE);
}

static void b_stat_miss(int n)
{
	struct stat st;

	while (n--)
		need(stat("/usr/bin/no-such-program", &st) != 0, "stat");
}

static void b_open_close(int n)
{
	while (n--) {
		int fd = open(ROOTFS_FILE, O_RDONLY);

		need(fd >= 0, ROOTFS_FILE);
		close(fd);
	}
}

static void b_create_unlink(int n)
{
	while (n--) {
		int fd = open("micro.new", O_RDWR | O_CREAT | O_EXCL, 0600);

		need(fd >= 0, "micro.new");
		close(fd);
		unlink("micro.new");
	}
}

static void b_pipe_pingpong(int n)
{
	int a[2], b[2];
	char c = 0;

	need(pipe(a) == 0 && pipe(b) == 0, "pipe");
	pid_t pid = fork();

	if (pid == 0) {
		while (n--)
			if (read(a[0], &c, 1) != 1 || write(b[1], &c, 1) != 1)
				_exit(1);
		_exit(0);
	}
	while (n--)
		need(write(a[1], &c, 1) == 1 && read(b[0], &c, 1) == 1, "pipe");
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

/* One operation is 64 KiB through a pipe. */
static void b_pipe_bulk64k(int n)
{
	int p[2];

	need(pipe(p) == 0, "pipe");
	pid_t pid = fork();

	if (pid == 0) {
		close(p[0]);
		while (n--)
			if (write(p[1], g_buf, 65536) != 65536)
				_exit(1);
		_exit(0);
	}
	close(p[1]);
	while (read(p[0], g_buf, 65536) > 0)
		;
	close(p[0]);
	waitpid(pid, NULL, 0);
}

static void b_fork_exit(int n)
{
	while (n--) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		need(pid > 0, "fork");
		waitpid(pid, NULL, 0);
	}
}

static void b_fork_exec(int n)
{
	while (n--) {
		pid_t pid = vfork();

		if (pid == 0) {
			execl(g_self, g_self, "--nothing", (char *)NULL);
			_exit(127);
		}
		need(pid > 0, "vfork");
		waitpid(pid, NULL, 0);
	}
}

static void *thread_nothing(void *arg)
{
	return arg;
}

static void b_thread_create(int n)
{
	while (n--) {
		pthread_t th;

		need(pthread_create(&th, NULL, thread_nothing, NULL) == 0, "pthread_create");
		pthread_join(th, NULL);
	}
}

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static int g_rounds;

static void *contend(void *arg)
{
	for (int i = 0; i < g_rounds; i++) {
		pthread_mutex_lock(&g_mutex);
		for (volatile int j = 0; j < 20; j++)
			;
		pthread_mutex_unlock(&g_mutex);
	}
	return arg;
}

static void b_futex_contention(int n)
{
	pthread_t th[4];

	g_rounds = n / 4;
	for (int i = 0; i < 4; i++)
		need(pthread_create(&th[i], NULL, contend, NULL) == 0, "pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
}

static uint32_t g_turn;

static void *futex_partner(void *arg)
{
	for (int i = 0; i < g_rounds; i++) {
		while (__atomic_load_n(&g_turn, __ATOMIC_SEQ_CST) != 1)
			syscall(SYS_futex, &g_turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		__atomic_store_n(&g_turn, 0, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &g_turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return arg;
}

static void b_futex_pingpong(int n)
{
	pthread_t th;

	g_rounds = n;
	g_turn = 0;
	need(pthread_create(&th, NULL, futex_partner, NULL) == 0, "pthread_create");
	for (int i = 0; i < n; i++) {
		__atomic_store_n(&g_turn, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &g_turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		while (__atomic_load_n(&g_turn, __ATOMIC_SEQ_CST) != 0)
			syscall(SYS_futex, &g_turn, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	}
	pthread_join(th, NULL);
}

static void b_mmap_munmap(int n)
{
	while (n--) {
		void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		need(p != MAP_FAILED, "mmap");
		munmap(p, 65536);
	}
}

/* One operation is the first touch of one page. */
static void b_page_fault(int n)
{
	char *p = mmap(NULL, (size_t)n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(p != MAP_FAILED, "mmap");
	madvise(p, (size_t)n * 4096, MADV_NOHUGEPAGE);
	for (int i = 0; i < n; i++)
		p[(size_t)i * 4096] = 1;
	munmap(p, (size_t)n * 4096);
}

static volatile int g_signals;

static void on_signal(int signo)
{
	(void)signo;
	g_signals++;
}

static void b_signal(int n)
{
	signal(SIGUSR1, on_signal);
	while (n--)
		kill(getpid(), SIGUSR1);
}

static const struct {
	const char *name;
	void (*fn)(int n);
	int n;
} g_benches[] = {
	{ "getppid", b_getppid, 50000 },
	{ "clock_gettime", b_clock_gettime, 200000 },
	{ "sched_yield", b_sched_yield, 20000 },
	{ "lseek", b_lseek, 50000 },
	{ "fstat", b_fstat, 50000 },
	{ "pread-1B-tmpfs", b_pread1, 50000 },
	{ "pread-4K-tmpfs", b_pread4k, 50000 },
	{ "pwrite-4K-tmpfs", b_pwrite4k, 50000 },
	{ "pread-4K-rootfs", b_rootfs_pread4k, 50000 },
	{ "pread-1M-rootfs", b_rootfs_pread1m, 1000 },
	{ "stat-hit", b_stat_hit, 20000 },
	{ "stat-miss", b_stat_miss, 20000 },
	{ "open-close", b_open_close, 20000 },
	{ "create-unlink", b_create_unlink, 5000 },
	{ "pipe-pingpong", b_pipe_pingpong, 5000 },
	{ "pipe-64K", b_pipe_bulk64k, 5000 },
	{ "fork-exit", b_fork_exit, 300 },
	{ "vfork-exec", b_fork_exec, 300 },
	{ "thread-create", b_thread_create, 2000 },
	{ "futex-contention", b_futex_contention, 40000 },
	{ "futex-pingpong", b_futex_pingpong, 5000 },
	{ "mmap-munmap", b_mmap_munmap, 5000 },
	{ "page-fault", b_page_fault, 10000 },
	{ "signal", b_signal, 10000 },
};

/* Some 10 us of computing, a seek and a read, n times: what a busy sandbox does. */
static int busy(long n)
{
	char c = 'x';
	int fd = open("micro.busy", O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, &c, 1) != 1)
		return 1;
	unlink("micro.busy");
	while (n-- > 0) {
		for (volatile int i = 0; i < 10000; i++)
			;
		if (lseek(fd, 0, SEEK_SET) != 0 || pread(fd, &c, 1, 0) != 1)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--nothing"))
		return 0;
	if (argc > 2 && !strcmp(argv[1], "--busy"))
		return busy(atol(argv[2]));
	g_self = argv[0];
	for (size_t i = 0; i < sizeof(g_benches) / sizeof(*g_benches); i++) {
		int wanted = argc == 1;

		for (int j = 1; j < argc; j++)
			wanted |= !strcmp(argv[j], g_benches[i].name);
		if (!wanted)
			continue;
		g_benches[i].fn(g_benches[i].n / 20 + 4); /* warm */
		uint64_t t0 = now();

		g_benches[i].fn(g_benches[i].n);
		printf("%s %llu\n", g_benches[i].name,
		       (unsigned long long)((now() - t0) / (uint64_t)g_benches[i].n));
		fflush(stdout);
	}
	unlink("micro.tmp");
	return 0;
}
