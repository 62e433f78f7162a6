/* SPDX-License-Identifier: Apache-2.0 */
/* How deep things nest, and how long they may be: the exact errno at the edge. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static char g_dir[64];

static void links(void)
{
	char name[32], to[32];
	int fd;

	close(open("l0", O_CREAT | O_WRONLY, 0644));
	for (int i = 1; i <= 41; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		snprintf(to, sizeof(to), "l%d", i - 1);
		symlink(to, name);
	}
	fd = open("l40", O_RDONLY);
	CHECK("40 links", fd >= 0);
	close(fd);
	CHECK_ERRNO("41 links", open("l41", O_RDONLY), ELOOP);
	symlink("round", "round");
	CHECK_ERRNO("a link to itself", open("round", O_RDONLY), ELOOP);
}

static void names(void)
{
	static char long_path[PATH_MAX + 10];
	char name[300];

	memset(name, 'n', sizeof(name));
	name[255] = 0;
	CHECK("255 characters", mkdir(name, 0755) == 0);
	name[255] = 'n';
	name[256] = 0;
	CHECK_ERRNO("256 characters", mkdir(name, 0755), ENAMETOOLONG);
	memset(long_path, '/', sizeof(long_path));
	long_path[PATH_MAX - 1] = 0;
	CHECK("4095 slashes", access(long_path, F_OK) == 0);
	long_path[PATH_MAX - 1] = '/';
	long_path[PATH_MAX] = 0;
	CHECK_ERRNO("4096 slashes", access(long_path, F_OK), ENAMETOOLONG);
	int made = 0;

	for (; made < 3000 && mkdir("deep", 0755) == 0 && chdir("deep") == 0; made++)
		;
	CHECK("3000 directories deep", made == 3000);
	CHECK("up again", chdir(g_dir) == 0);
}

/* Each watches the one before; `depth` of them. */
static int epoll_chain(int depth, int *top)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int p[2], last;

	if (pipe(p))
		return -1;
	last = p[0];
	for (int i = 0; i < depth; i++) {
		int ep = epoll_create1(0);

		if (epoll_ctl(ep, EPOLL_CTL_ADD, last, &ev))
			return -1;
		last = ep;
	}
	*top = last;
	return 0;
}

static void epolls(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int top, ep = epoll_create1(0), other = epoll_create1(0);

	CHECK("epolls nest", epoll_chain(5, &top) == 0);
	CHECK_ERRNO("six deep", epoll_chain(7, &top), ELOOP);
	CHECK_ERRNO("an epoll in itself", epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev), EINVAL);
	epoll_ctl(ep, EPOLL_CTL_ADD, other, &ev);
	CHECK_ERRNO("epolls in a ring", epoll_ctl(other, EPOLL_CTL_ADD, ep, &ev), ELOOP);
}

static void vectors(void)
{
	static struct iovec io[1025];
	static char c[1];
	int fd = open("/dev/null", O_WRONLY);

	for (int i = 0; i < 1025; i++)
		io[i] = (struct iovec){ c, 1 };
	CHECK("1024 pieces", writev(fd, io, 1024) == 1024);
	CHECK_ERRNO("1025 pieces", writev(fd, io, 1025), EINVAL);
	CHECK_ERRNO("-1 pieces", writev(fd, io, -1), EINVAL);
	io[0].iov_len = SIZE_MAX;
	CHECK_ERRNO("a negative length", writev(fd, io, 2), EINVAL);
	CHECK("clamped", write(fd, c, (size_t)1 << 62) == 0x7ffff000 || errno == EFAULT);
	close(fd);
}

static int exec_status(const char *file, char **argv, char **envp)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execve(file, argv, envp);
		_exit(errno);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_script(const char *name, const char *interp)
{
	int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0755);

	dprintf(fd, "#!%s\n", interp);
	close(fd);
}

static void programs(void)
{
	char name[96], before[96] = "/bin/true";
	char *argv[] = { name, NULL }, *none[] = { NULL };

	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "%s/s%d", g_dir, i);
		write_script(name, before);
		int status = exec_status(name, argv, none);

		if (i < 4)
			CHECK("a script of a script", status == 0);
		else if (i > 5)
			CHECK("too many of them", status == ELOOP);
		strcpy(before, name);
	}
	snprintf(name, sizeof(name), "%s/self", g_dir);
	write_script(name, name);
	CHECK("a script that is its own interpreter", exec_status(name, argv, none) == ELOOP);

	/* One string is at most 128 KiB, all together a quarter of the stack's limit. */
	size_t max = 131072;
	char *big = malloc(max + 1), *one[] = { "true", big, NULL };

	memset(big, 'a', max);
	big[max - 1] = 0;
	CHECK("128 KiB in one string", exec_status("/bin/true", one, none) == 0);
	big[max - 1] = 'a';
	big[max] = 0;
	CHECK("one byte more", exec_status("/bin/true", one, none) == E2BIG);
	static char *many[200];

	big[max - 1] = 0;
	for (int i = 0; i < 100; i++)
		many[i] = big;
	CHECK("12 MiB", exec_status("/bin/true", many, none) == E2BIG);
	static char *empty[1000001];

	for (int i = 0; i < 1000000; i++)
		empty[i] = "";
	CHECK("a million empty strings", exec_status("/bin/true", empty, none) == E2BIG);
	free(big);
}

static void in_flight(void)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(254 * sizeof(int))];
	} c;
	struct iovec io = { "x", 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &c };
	int s[2], n = 0;

	socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s);
	memset(&c, 0, sizeof(c));
	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	for (int i = 0; i < 254; i++)
		((int *)CMSG_DATA(&c.h))[i] = s[0];
	c.h.cmsg_len = CMSG_LEN(254 * sizeof(int));
	m.msg_controllen = CMSG_SPACE(254 * sizeof(int));
	CHECK_ERRNO("254 files in a message", sendmsg(s[0], &m, 0), EINVAL);
	c.h.cmsg_len = CMSG_LEN(253 * sizeof(int));
	CHECK("253 files", sendmsg(s[0], &m, 0) == 1);
	m.msg_control = NULL;
	m.msg_controllen = 0;
	io.iov_len = 0;
	/* Empty messages fill a queue as well. */
	while (n < 100000 && sendmsg(s[0], &m, 0) == 0)
		n++;
	CHECK("a queue of empty messages is finite", n < 1000 && errno == EAGAIN);
	close(s[0]);
	close(s[1]);
}

int main(void)
{
	snprintf(g_dir, sizeof(g_dir), "%s/limits.%d", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", getpid());
	mkdir(g_dir, 0755);
	if (chdir(g_dir))
		return 1;
	links();
	names();
	epolls();
	vectors();
	programs();
	in_flight();
	chdir("/");
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_dir);
	return system(cmd) == 0 ? guest_done() : 1;
}
