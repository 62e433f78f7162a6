/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and results at the edges of memory, again and again from the same sites, since a hot
 * site may have its copies made in another way than a cold one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define ROUNDS 200
#define PAGE 4096

static char *g_page;	/* one page, then nothing */
static char *g_ro;	/* one page that can only be read */
static int g_fd;

static void test_paths(void)
{
	struct stat st;
	int end = 0, cut = 0, none = 0, empty = 0, longest = 0, too_long = 0;
	static char name[PATH_MAX + 1];

	for (int i = 0; i < ROUNDS; i++) {
		strcpy(g_page + PAGE - 6, "/proc");
		end += stat(g_page + PAGE - 6, &st) == 0;
		memcpy(g_page + PAGE - 5, "/proc", 5); /* no NUL before the end of memory */
		cut += stat(g_page + PAGE - 5, &st) == -1 && errno == EFAULT;
		none += stat((char *)8, &st) == -1 && errno == EFAULT;
		empty += stat("", &st) == -1 && errno == ENOENT;
		memset(name, '/', PATH_MAX);
		name[PATH_MAX - 1] = 0;
		longest += stat(name, &st) == 0;
		name[PATH_MAX - 1] = '/';
		too_long += stat(name, &st) == -1 && errno == ENAMETOOLONG;
	}
	CHECK("path at the end of memory", end == ROUNDS);
	CHECK("path without an end", cut == ROUNDS);
	CHECK("path nowhere", none == ROUNDS);
	CHECK("empty path", empty == ROUNDS);
	CHECK("longest path", longest == ROUNDS);
	CHECK("too long a path", too_long == ROUNDS);
}

static void test_results(void)
{
	const size_t n = sizeof(struct stat);
	struct timespec ts;
	int good = 0, over = 0, ro = 0, part = 0, whole = 0, dents = 0, clock = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct stat *st = (struct stat *)(g_page + PAGE - n);

		memset(st, 0, n);
		good += syscall(SYS_fstat, g_fd, st) == 0 && st->st_size == 3 * PAGE;
		over += syscall(SYS_fstat, g_fd, g_page + PAGE - n + 8) == -1 && errno == EFAULT;
		ro += syscall(SYS_fstat, g_fd, g_ro) == -1 && errno == EFAULT;
		/* A read that ends where memory does gives what fits. */
		ssize_t r = pread(g_fd, g_page + PAGE - 100, 200, 0);

		part += r == 100 && !memcmp(g_page + PAGE - 100, "aaaa", 4);
		g_page[0] = 0;
		whole += pread(g_fd, g_page, PAGE, PAGE) == PAGE && g_page[0] == 'b' &&
			 g_page[PAGE - 1] == 'b';
		dents += pread(g_fd, g_ro, 16, 0) == -1 && errno == EFAULT;
		clock += syscall(SYS_clock_getres, CLOCK_MONOTONIC, &ts) == 0 && ts.tv_nsec > 0;
	}
	CHECK("result at the end of memory", good == ROUNDS);
	CHECK("result over the end", over == ROUNDS);
	CHECK("result to read-only memory", ro == ROUNDS);
	CHECK("read over the end", part == ROUNDS);
	CHECK("read of a page", whole == ROUNDS);
	CHECK("read to read-only memory", dents == ROUNDS);
	CHECK("clock_getres", clock == ROUNDS);
}

/* What one call stores is what the next one reads, at the same place too. */
static void test_order(void)
{
	int p[2], same = 0, self = 0, twice = 0;
	char a[16], b[16];

	CHECK("pipe", pipe(p) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(a, sizeof(a), "%d", i);
		memset(b, 0, sizeof(b));
		same += write(p[1], a, sizeof(a)) == sizeof(a) && read(p[0], b, sizeof(b)) == sizeof(b) &&
			!strcmp(a, b);
		/* A vector whose second part lies in the first part's results. */
		struct iovec iov[2] = { { b, 8 }, { b + 4, 8 } };

		write(p[1], "0123456789abcdef", 16);
		memset(b, 0, sizeof(b));
		self += syscall(SYS_readv, p[0], iov, 2) == 16 && !memcmp(b, "012389abcdef", 12);
		/* The vector itself is overwritten by what is read. */
		struct iovec own[2] = { { own, sizeof(own) }, { b, 8 } };
		char data[sizeof(own) + 8];

		memset(data, 'z', sizeof(data));
		write(p[1], data, sizeof(data));
		twice += syscall(SYS_readv, p[0], own, 2) == sizeof(data) &&
			 !memcmp(own, data, sizeof(own)) && !memcmp(b, "zzzzzzzz", 8);
	}
	CHECK("through a pipe", same == ROUNDS);
	CHECK("overlapping vector", self == ROUNDS);
	CHECK("vector that is its own buffer", twice == ROUNDS);
}

/* Results are there before a handler looks, and before another process does. */
static volatile int g_seen, g_wrong;
static struct stat g_st;

static void on_signal(int sig)
{
	g_seen++;
	g_wrong += g_st.st_size != 3 * PAGE;
}

static void test_seen(void)
{
	int st, shown = 0;
	sigset_t set, old;
	int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int p[2];

	signal(SIGUSR1, on_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	for (int i = 0; i < ROUNDS; i++) {
		memset(&g_st, 0, sizeof(g_st));
		sigprocmask(SIG_BLOCK, &set, &old);
		raise(SIGUSR1);
		syscall(SYS_fstat, g_fd, &g_st);
		sigprocmask(SIG_SETMASK, &old, NULL); /* the handler runs here */
	}
	CHECK("seen by handlers", g_seen == ROUNDS && g_wrong == 0);
	CHECK("pipe", pipe(p) == 0);
	pid_t c = fork();

	if (c == 0) {
		char x;

		for (int i = 0; i < ROUNDS; i++)
			if (read(p[0], &x, 1) != 1 || ((char *)&shared[i])[0] != 'a')
				_exit(1);
		_exit(0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		shown += pread(g_fd, &shared[i], 1, 0) == 1;
		write(p[1], "x", 1);
	}
	CHECK("seen by others", waitpid(c, &st, 0) == c && st == 0 && shown == ROUNDS);
	munmap(shared, PAGE);
}

/* Memory that comes and goes under a call: its result or EFAULT, never anything else. */
static char *g_loose;
static volatile int g_stop;

static void *come_and_go(void *arg)
{
	while (!g_stop) {
		mmap(g_loose, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		mprotect(g_loose, PAGE, PROT_NONE);
	}
	return arg;
}

static void test_races(void)
{
	pthread_t th;
	int odd = 0;

	g_loose = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK("thread", pthread_create(&th, NULL, come_and_go, NULL) == 0);
	for (int i = 0; i < 2000; i++) {
		long r = syscall(SYS_fstat, g_fd, g_loose);

		odd += !(r == 0 || (r == -1 && errno == EFAULT));
		r = pread(g_fd, g_loose, 64, 0);
		odd += !(r == 64 || (r == -1 && errno == EFAULT));
		r = access(g_loose, F_OK);
		odd += !(r == -1 && (errno == EFAULT || errno == ENOENT));
	}
	g_stop = 1;
	pthread_join(th, NULL);
	CHECK("memory that comes and goes", odd == 0);
}

int main(void)
{
	char buf[PAGE];
	char name[] = "/tmp/copies.XXXXXX";

	g_page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(g_page + PAGE, PAGE, PROT_NONE);
	g_ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_fd = mkstemp(name);
	unlink(name);
	for (int i = 0; i < 3; i++) {
		memset(buf, 'a' + i, sizeof(buf));
		CHECK("file", write(g_fd, buf, sizeof(buf)) == sizeof(buf));
	}
	test_paths();
	test_results();
	test_order();
	test_seen();
	test_races();
	return guest_done();
}
