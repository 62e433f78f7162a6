/* SPDX-License-Identifier: Apache-2.0 */
/* fcntl(F_NOTIFY): which changes of a directory signal its owner, how, and until when. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile int g_signals;
static siginfo_t g_last;

static void on_signal(int signo, siginfo_t *si, void *context)
{
	(void)signo;
	(void)context;
	g_signals++;
	g_last = *si;
}

/* How many signals came since the last call. */
static int count(void)
{
	int n = g_signals;

	g_signals = 0;
	return n;
}

static void put(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0644);

	if (fd < 0 || write(fd, "x", 1) != 1)
		perror(path);
	close(fd);
}

/* Ends what was asked for and asks anew. */
static void watch(int fd, unsigned long mask)
{
	if (fcntl(fd, F_NOTIFY, 0) || fcntl(fd, F_NOTIFY, mask))
		perror("F_NOTIFY");
	count();
}

static void test_errors(int dir)
{
	int reg = open("w/reg", O_CREAT | O_RDONLY, 0644), path = open("w", O_PATH);

	CHECK_ERRNO("not a directory", fcntl(reg, F_NOTIFY, DN_CREATE), ENOTDIR);
	CHECK_ERRNO("O_PATH", fcntl(path, F_NOTIFY, DN_CREATE), EBADF);
	CHECK("nothing to end", fcntl(dir, F_NOTIFY, 0) == 0);
	CHECK("DN_MULTISHOT alone", fcntl(dir, F_NOTIFY, DN_MULTISHOT) == 0);
	CHECK("makes no owner", fcntl(dir, F_GETOWN) == 0);
	CHECK("unknown bits", fcntl(dir, F_NOTIFY, 0x1000) == 0);
	CHECK("an owner", fcntl(dir, F_GETOWN) == getpid());
	close(reg);
	close(path);
}

static void test_signals(int dir)
{
	watch(dir, DN_CREATE | DN_MULTISHOT);
	put("w/a");
	CHECK("SIGIO", count() == 1 && g_last.si_signo == SIGIO && g_last.si_code == SI_KERNEL);
	CHECK("F_SETSIG", fcntl(dir, F_SETSIG, SIGRTMIN + 1) == 0);
	put("w/b");
	CHECK("says which file", count() == 1 && g_last.si_signo == SIGRTMIN + 1 &&
				       g_last.si_code == POLL_MSG && g_last.si_fd == dir);
	CHECK("and what", g_last.si_band == 0x441);
	put("w/a");
	CHECK("a file that was there", count() == 0);
	fcntl(dir, F_SETOWN, 0);
	put("w/e");
	CHECK("nobody's", count() == 0);
	fcntl(dir, F_SETOWN, getpid());
	watch(dir, DN_MODIFY);
	put("w/a");
	CHECK("once", count() == 1);
	put("w/a");
	CHECK("and not again", count() == 0);
	watch(dir, DN_CREATE | DN_MULTISHOT);
	fcntl(dir, F_NOTIFY, DN_DELETE);
	put("w/m");
	unlink("w/m");
	CHECK("requests add up", count() == 2);
}

static void test_kinds(int dir)
{
	char c;
	int fd;

	watch(dir, DN_RENAME | DN_MULTISHOT);
	CHECK("rename within", rename("w/a", "w/c") == 0 && count() == 1);
	CHECK("rename out and in", rename("w/c", "o/c") == 0 && rename("o/c", "w/a") == 0 && count() == 0);
	watch(dir, DN_CREATE | DN_MULTISHOT);
	CHECK("moved away is no creation", rename("w/a", "o/a") == 0 && count() == 0);
	CHECK("moved here is", rename("o/a", "w/a") == 0 && count() == 1);
	watch(dir, DN_DELETE | DN_MULTISHOT);
	CHECK("moved away is deletion", rename("w/a", "o/a") == 0 && count() == 1);
	CHECK("moved here is not", rename("o/a", "w/a") == 0 && count() == 0);
	CHECK("deletion", unlink("w/b") == 0 && count() == 1);
	watch(dir, DN_ATTRIB | DN_MULTISHOT);
	CHECK("attributes of a file", chmod("w/a", 0600) == 0 && count() == 1);
	CHECK("and its own", chmod("w", 0755) == 0 && count() == 1);
	watch(dir, DN_ACCESS | DN_MULTISHOT);
	fd = open("w/a", O_RDONLY);
	CHECK("access", read(fd, &c, 1) == 1 && count() == 1);
	close(fd);
}

static void test_end(int dir)
{
	int again = dup(dir), st;
	pid_t p;

	watch(dir, DN_CREATE | DN_DELETE | DN_MULTISHOT);
	p = fork();
	if (!p) {
		close(dir);
		put("w/child");
		_exit(g_signals);
	}
	while (waitpid(p, &st, 0) < 0 && errno == EINTR)
		;
	CHECK("the owner is told, not who did it", count() == 1 && WEXITSTATUS(st) == 0);
	close(again);
	put("w/n");
	CHECK("closing a duplicate ends it", count() == 0);
	watch(dir, DN_CREATE | DN_MULTISHOT);
	CHECK("a directory that goes", unlink("w/n") == 0 && unlink("w/child") == 0 &&
					    unlink("w/a") == 0 && unlink("w/e") == 0 &&
					    unlink("w/reg") == 0 && rmdir("w") == 0);
	CHECK("says nothing", count() == 0 && fcntl(dir, F_NOTIFY, 0) == 0);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	char base[] = "/tmp/dnotify-XXXXXX";

	sigaction(SIGIO, &sa, NULL);
	sigaction(SIGRTMIN + 1, &sa, NULL);
	if (!mkdtemp(base) || chdir(base) || mkdir("w", 0755) || mkdir("o", 0755))
		return 1;
	int dir = open("w", O_RDONLY);

	test_errors(dir);
	test_signals(dir);
	test_kinds(dir);
	test_end(dir);
	close(dir);
	rmdir("o");
	rmdir(base);
	return guest_done();
}
