/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest side of tests/e2e/hostile.sh: one attack per mode. Prints "done" or what it found; the
 * verdict is the host side's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static uint64_t g_state = 88172645463325252ull;

static uint64_t rnd(void)
{
	g_state ^= g_state << 13;
	g_state ^= g_state >> 7;
	g_state ^= g_state << 17;
	return g_state;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- ways into a kernel that are not `syscall` ---- */

static void in_child(const char *name, void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", name, WTERMSIG(status));
	else
		printf("%s: exit %d\n", name, WEXITSTATUS(status));
	fflush(stdout);
}

/* Success of any of these would show as exit status 77: the call is the old exit(77). */
static void int80(void)
{
	__asm__ volatile("int $0x80" : : "a"(1), "b"(77) : "memory");
}

static void sysenter(void)
{
	__asm__ volatile("sysenter" : : "a"(1), "b"(77) : "rcx", "rdx", "memory");
}

static void x32(void)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(0x40000000 | SYS_exit_group), "D"(77) : "rcx", "r11", "memory");
	_exit(r == -ENOSYS ? 0 : 78);
}

static void huge_number(void)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(0x100000000ul | SYS_exit_group), "D"(77) : "rcx", "r11", "memory");
	_exit(r == -ENOSYS ? 0 : 78);
}

static void vsyscall(void)
{
	time_t t = ((time_t(*)(time_t *))0xffffffffff600400ul)(NULL), n = time(NULL);

	_exit(t == n || t + 1 == n ? 0 : 78);
}

static void vsyscall_middle(void)
{
	((void (*)(void))0xffffffffff600123ul)();
}

static void vsyscall_read(void)
{
	_exit(*(volatile unsigned char *)0xffffffffff600000ul == 0x48 ? 0 : 1);
}

static void stub_text(void)
{
	for (unsigned i = 0; i < 0x10000; i += 61)
		if (fork() == 0)
			((void (*)(long, long, long, long))(0x7fffc0000000ul + i))(1, 2, 3, 4);
	while (wait(NULL) > 0)
		;
}

/* Every syscall instruction of the stub, with numbers that would hurt. */
static void stub_syscalls(void)
{
	static const long nr[] = { SYS_exit, SYS_kill, SYS_openat, SYS_mmap, SYS_clone, SYS_mprotect,
				   SYS_ptrace, SYS_execve, SYS_prctl, SYS_mremap, 186, SYS_close_range };
	const unsigned char *text = (void *)0x7fffc0000000ul;
	int p[2];

	pipe(p);
	for (unsigned i = 0; i + 1 < 0x10000; i++) {
		/* Guests may or may not read it; write(2) tells without a fault. */
		if (write(p[1], text + i, 2) != 2)
			break;
		unsigned char b[2];

		read(p[0], b, 2);
		if (b[0] != 0x0f || b[1] != 0x05)
			continue;
		for (size_t j = 0; j < sizeof(nr) / sizeof(*nr); j++)
			if (fork() == 0)
				__asm__ volatile("call *%0" : : "r"(text + i), "a"(nr[j]), "D"(0x11),
						 "S"(0x1000), "d"(7) : "rcx", "r11", "memory");
		while (wait(NULL) > 0)
			;
	}
}

static int entry(void)
{
	in_child("int80", int80);
	in_child("sysenter", sysenter);
	in_child("x32", x32);
	in_child("huge", huge_number);
	in_child("vsyscall", vsyscall);
	in_child("vsyscall-middle", vsyscall_middle);
	in_child("vsyscall-read", vsyscall_read);
	in_child("stub-text", stub_text);
	in_child("stub-syscalls", stub_syscalls);
	return 0;
}

/* ---- characters pushed into the caller's terminal ---- */

static int tioc(void)
{
	static const unsigned long high[] = { 0, 1ul << 32, 0xffffffff00000000ul, 1ul << 63, 0xdeadul << 32 };
	static const unsigned long cmds[] = { TIOCSTI, TIOCLINUX, 0x5412, 0x541c };
	int bad = 0, console = open("/dev/tty", O_RDWR);

	for (size_t c = 0; c < sizeof(cmds) / sizeof(*cmds); c++)
		for (size_t h = 0; h < sizeof(high) / sizeof(*high); h++)
			for (int fd = 0; fd < 4; fd++) {
				char text[] = "Z", sel[8] = { 3 };

				errno = 0;
				long r = syscall(SYS_ioctl, fd == 3 ? console : fd, cmds[c] | high[h],
						 cmds[c] == TIOCSTI ? text : sel);

				bad += r >= 0 && cmds[c] != TIOCSTI;
			}
	tcflush(0, TCIFLUSH);
	printf("tioc: %d\n", bad);
	return 0;
}

/* ---- bombs: each takes all it gets ---- */

static int memory_bomb(void)
{
	for (size_t n = 0;; n++) {
		char *p = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			break;
		memset(p, (int)n | 1, 8 << 20);
	}
	printf("done\n");
	return 0;
}

static int shared_bomb(void)
{
	int fd = memfd_create("bomb", 0);
	static char block[1 << 20];

	memset(block, 7, sizeof(block));
	while (write(fd, block, sizeof(block)) > 0)
		;
	printf("done %d\n", errno);
	return 0;
}

static int tmpfs_bomb(void)
{
	static char block[1 << 20];
	int fd = open("/tmp/fill", O_CREAT | O_RDWR, 0666), n = 0;

	memset(block, 7, sizeof(block));
	while (write(fd, block, sizeof(block)) > 0)
		n++;
	printf("done %d MiB %d\n", n, errno);
	return 0;
}

static int name_bomb(void)
{
	char name[300];
	double end = now() + 2;

	memset(name, 'n', sizeof(name));
	for (int i = 0; now() < end; i++) {
		snprintf(name + 200, 20, "%d", i);
		memcpy(name, "/tmp/", 5);
		if (mknod(name, S_IFREG | 0600, 0) != 0)
			break;
	}
	printf("done %d\n", errno);
	return 0;
}

static int fork_bomb(void)
{
	int n = 0;

	for (double end = now() + 2; now() < end;)
		if (fork() >= 0)
			n++;
		else if (getpid() == 1)
			break;
	if (getpid() != 1)
		pause();
	printf("done %d\n", n > 0);
	fflush(stdout);
	_exit(0);
}

static void *idle_thread(void *p)
{
	pause();
	return p;
}

static int thread_bomb(void)
{
	pthread_t t;
	pthread_attr_t a;
	int n = 0;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	while (n < 100000 && pthread_create(&t, &a, idle_thread, NULL) == 0)
		n++;
	printf("done %d\n", n);
	fflush(stdout);
	_exit(0);
}

static void many_fds(void)
{
	struct rlimit r = { 1 << 20, 1 << 20 };

	if (setrlimit(RLIMIT_NOFILE, &r)) {
		getrlimit(RLIMIT_NOFILE, &r);
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* Full pipes, sockets with queued data, epolls watching each other, fds in flight. */
static int fd_bomb(const char *what)
{
	static char block[65536];
	int p[2], n = 0, ep = epoll_create1(0);
	double end = now() + 2.5;

	many_fds();
	while (now() < end) {
		int r;

		if (!strcmp(what, "pipe")) {
			r = pipe2(p, O_NONBLOCK);
			if (!r) {
				fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
				while (write(p[1], block, sizeof(block)) > 0)
					;
			}
		} else if (!strcmp(what, "socket")) {
			r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
			int big = 1 << 30;

			setsockopt(p[0], SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
			setsockopt(p[1], SOL_SOCKET, SO_RCVBUF, &big, sizeof(big));
			while (!r && write(p[1], block, sizeof(block)) > 0)
				;
		} else if (!strcmp(what, "epoll")) {
			struct epoll_event ev = { .events = EPOLLIN };

			r = p[0] = epoll_create1(0);
			if (r >= 0)
				epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &ev);
		} else if (!strcmp(what, "flight")) {
			union {
				struct cmsghdr h;
				char b[CMSG_SPACE(250 * sizeof(int))];
			} c;
			struct iovec io = { "x", 1 };
			struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c) };

			r = socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, p);
			if (r)
				break;
			c.h.cmsg_level = SOL_SOCKET;
			c.h.cmsg_type = SCM_RIGHTS;
			c.h.cmsg_len = CMSG_LEN(250 * sizeof(int));
			for (int i = 0; i < 250; i++)
				((int *)CMSG_DATA(&c.h))[i] = p[i & 1];
			while (sendmsg(p[0], &m, 0) > 0)
				;
			close(p[0]); /* only the messages hold the sockets now: a cycle */
			close(p[1]);
		} else {
			r = open("/etc/passwd", O_RDONLY);
		}
		if (r < 0)
			break;
		n++;
	}
	printf("done %d\n", errno);
	return 0;
}

/* ---- structures that change while they are read ---- */

static volatile int g_stop;
static union {
	uint64_t w[64];
	struct iovec iov[16];
	struct msghdr msg;
	char path[512];
} g_race;

static void *flip(void *p)
{
	static const uint64_t v[] = { 0, 1, 8, 1024, 65536, 0x7fffffff, 0xffffffff, 1ull << 63, ~0ull };

	while (!g_stop)
		for (int i = 0; i < 64; i++)
			g_race.w[i] = i & 1 ? v[i % 9] : i % 3 ? (uint64_t)&g_race : v[(i + g_race.w[0]) % 9];
	return p;
}

static int racer(double seconds)
{
	pthread_t t;
	int p[2], s[2], null = open("/dev/zero", O_RDWR);

	if (fork() == 0) { /* the parent outlives what happens to its child */
		pthread_create(&t, NULL, flip, NULL);
		pipe2(p, O_NONBLOCK);
		socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s);
		for (double end = now() + seconds; now() < end;)
			for (int i = 0; i < 50; i++) {
				struct iovec mine = { &g_race, sizeof(g_race) };

				syscall(SYS_writev, p[1], &g_race, 16);
				syscall(SYS_readv, p[0], &g_race, 16);
				syscall(SYS_writev, null, &g_race, 16);
				syscall(SYS_preadv, null, &g_race, 16, 0, 0);
				syscall(SYS_sendmsg, s[0], &g_race, MSG_DONTWAIT);
				syscall(SYS_recvmsg, s[1], &g_race, MSG_DONTWAIT);
				syscall(SYS_sendmmsg, s[0], &g_race, 4, MSG_DONTWAIT);
				syscall(SYS_recvmmsg, s[1], &g_race, 4, MSG_DONTWAIT, 0);
				syscall(SYS_rt_sigaction, SIGUSR1, &g_race, 0, 8);
				syscall(SYS_bind, s[0], &g_race, 110);
				syscall(SYS_connect, s[0], &g_race, 110);
				syscall(SYS_openat, AT_FDCWD, &g_race, O_RDONLY);
				syscall(SYS_openat2, AT_FDCWD, "/", &g_race, 24);
				syscall(SYS_futex_waitv, &g_race, 4, 0, &g_race, 1);
				syscall(SYS_poll, &g_race, 16, 0);
				syscall(SYS_pselect6, 64, &g_race, &g_race, &g_race, &g_race, 0);
				syscall(SYS_vmsplice, p[1], &g_race, 16, 2);
				syscall(SYS_process_vm_readv, getpid(), &mine, 1, &g_race, 16, 0);
				syscall(SYS_prctl, 35, 14, &g_race, 104, 0);
				syscall(SYS_setsockopt, s[0], SOL_SOCKET, SO_RCVTIMEO, &g_race, 16);
				syscall(SYS_sched_setattr, 0, &g_race, 0);
				syscall(SYS_timer_create, 0, &g_race, &g_race.w[40]);
				syscall(SYS_semtimedop, 0, &g_race, 4, &g_race);
				syscall(SYS_seccomp, 1, 0x100, &g_race);
				syscall(SYS_execve, "/bin/nope", &g_race, &g_race);
				if (i == 0)
					syscall(SYS_clone3, &g_race, 88);
			}
		_exit(0);
	}
	double end = now() + seconds + 5;

	while (waitpid(-1, NULL, WNOHANG) == 0 && now() < end)
		usleep(50000);
	printf("done\n");
	fflush(stdout);
	_exit(0); /* ends what clone3 may have started */
}

/* ---- frames of our own making ---- */

static int frames(int count)
{
	static uint64_t frame[8192 / 8] __attribute__((aligned(64)));
	int alive = 0;

	/* A child that vforks would share: plain fork for each 64 frames, ended by its signal. */
	for (int i = 0; i < count; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			for (size_t j = 0; j < sizeof(frame) / 8; j++)
				frame[j] = rnd() % 3 == 0 ? rnd() : rnd() % 2 ? 0 : rnd() & 0xffff;
			if (rnd() % 2) {
				frame[5 + 16] = rnd() % 2 ? (uint64_t)&_exit : 1ull << (rnd() % 64);	/* rip */
				frame[5 + 17] = rnd();							/* eflags */
				frame[5 + 18] = rnd() % 2 ? 0x33 : rnd();				/* cs.. */
				frame[5 + 23] = rnd() % 2 ? (uint64_t)&frame[512] & ~63ull : rnd();	/* fpstate */
			}
			if (rnd() % 2) { /* an XSAVE header that means something */
				frame[512 + 58] = 0x46505853 | rnd() << 32;
				frame[512 + 64] = rnd();
			}
			__asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n hlt" : : "r"(&frame[0]) : "memory");
		}
		if (pid < 0)
			continue;
		waitpid(pid, NULL, 0);
		alive++;
	}
	printf("done %d\n", alive);
	return 0;
}

/* ---- out of a chroot ---- */

static const char *g_canary;

static void look(const char *recipe)
{
	static const char *const names[] = { "%s", "../%s", "../../../../../../%s", "/%s", "/../%s", "/old/%s" };
	char path[4096];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), names[i], g_canary);
		if (access(path, F_OK) == 0)
			printf("ESCAPED: %s by %s\n", recipe, path);
	}
}

static void recipe(int n)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "recipe %d", n);
	mkdir("/tmp/jail", 0755);
	mkdir("/tmp/jail/in", 0755);
	mkdir("/tmp/jail/proc", 0755);
	chdir("/");
	switch (n) {
	case 0: /* chroot without chdir, then up */
		chroot("/tmp/jail");
		for (int i = 0; i < 100; i++)
			chdir("..");
		chroot(".");
		break;
	case 1: /* a kept directory fd */
		fd = open("/", O_RDONLY | O_DIRECTORY);
		chroot("/tmp/jail");
		fchdir(fd);
		for (int i = 0; i < 100; i++)
			chdir("..");
		chroot(".");
		break;
	case 2: /* double chroot */
		chroot("/tmp/jail");
		chdir("/");
		chroot("in");
		for (int i = 0; i < 100; i++)
			chdir("..");
		chroot(".");
		break;
	case 3:
		chdir("/proc/self/root/..");
		break;
	case 4:
		chdir("/proc/1/root/../..");
		break;
	case 5:
		chdir("/proc/1/cwd/../..");
		break;
	case 6: /* own mount namespace, move the root mount away */
		unshare(CLONE_NEWNS);
		mount("/", "/tmp/jail", NULL, MS_BIND | MS_REC, NULL);
		mount("/tmp/jail", "/", NULL, MS_MOVE, NULL);
		umount2("/", MNT_DETACH);
		chdir("/..");
		break;
	case 7: /* pivot_root and away with the old one */
		unshare(CLONE_NEWNS);
		mount("/tmp/jail", "/tmp/jail", NULL, MS_BIND, NULL);
		mkdir("/tmp/jail/old", 0755);
		syscall(SYS_pivot_root, "/tmp/jail", "/tmp/jail/old");
		chdir("/old/..");
		umount2("/old", MNT_DETACH);
		break;
	case 8: /* a directory that moves out while we stand in it */
		mkdir("/tmp/jail/in/deep", 0755);
		chdir("/tmp/jail/in/deep");
		if (fork() == 0) {
			chroot("/tmp/jail");
			chdir("/in/deep");
			usleep(100000);
			for (int i = 0; i < 100; i++)
				chdir("..");
			look(name);
			_exit(0);
		}
		usleep(50000);
		rename("/tmp/jail/in/deep", "/tmp/deep");
		wait(NULL);
		break;
	case 9: /* every /proc link there is */
		for (int i = 0; i < 64; i++) {
			static const char *const links[] = { "/proc/%d/root/..", "/proc/%d/cwd/..", "/proc/self/fd/%d",
							     "/proc/self/fd/%d/..", "/dev/fd/%d/../.." };

			for (int j = 0; j < 5; j++) {
				char p[64];

				snprintf(p, sizeof(p), links[j], i);
				if (chdir(p) == 0)
					look(name);
			}
		}
		break;
	case 10: /* open by handle */
		fd = open("/", O_RDONLY);
		for (uint64_t ino = 1; ino < 300; ino++) {
			struct {
				uint32_t bytes;
				int type;
				uint64_t a, b;
			} h = { 8, (int)(ino % 4), ino, 0 };
			int d = (int)syscall(SYS_open_by_handle_at, fd, &h, O_RDONLY);

			if (d >= 0 && fchdir(d) == 0)
				look(name);
		}
		break;
	default:
		syscall(SYS_setns, open("/proc/1/ns/mnt", O_RDONLY), 0);
		chdir("/..");
	}
	look(name);
}

static int escape(void)
{
	for (int n = 0; n < 12; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			recipe(n);
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	printf("done\n");
	return 0;
}

/* ---- every way to change a file, on a tree of the host ---- */

static void vandal_file(const char *p)
{
	char other[4096];
	int fd;

	snprintf(other, sizeof(other), "%s.x", p);
	for (int flags = 0; flags < 8; flags++) {
		fd = open(p, (flags & 3) | (flags & 4 ? O_TRUNC : O_APPEND));
		if (fd >= 0) {
			write(fd, "vandal", 6);
			ftruncate(fd, 1);
			fchmod(fd, 0777);
			fchown(fd, 12, 34);
			fallocate(fd, 0, 0, 100000);
			void *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

			if (m != MAP_FAILED)
				memcpy(m, "vandal", 6);
			m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
			if (m != MAP_FAILED && mprotect(m, 4096, PROT_READ | PROT_WRITE) == 0)
				memcpy(m, "vandal", 6);
			close(fd);
		}
	}
	int mem = open("/proc/self/mem", O_RDWR); /* through a private and a read-only mapping */
	fd = open(p, O_RDONLY);
	void *m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (m != MAP_FAILED)
		pwrite(mem, "vandal", 6, (off_t)(uintptr_t)m);
	close(mem);
	close(fd);
	truncate(p, 3);
	chmod(p, 0);
	chown(p, 1, 1);
	utimensat(AT_FDCWD, p, NULL, 0);
	syscall(SYS_setxattr, p, "user.vandal", "x", 1, 0);
	link(p, other);
	rename(p, other);
	rename(other, p);
	syscall(SYS_renameat2, AT_FDCWD, p, AT_FDCWD, other, 2);
	mount("tmpfs", p, "tmpfs", 0, NULL);
	mount(p, p, NULL, MS_BIND, NULL);
	mount(NULL, p, NULL, MS_BIND | MS_REMOUNT, NULL);
	umount2(p, MNT_DETACH);
	unlink(p);
	rmdir(p);
	mkdir(other, 0777);
	symlink("/etc", other);
	mknod(other, S_IFREG | 0666, 0);
}

static int vandal(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		vandal_file(argv[i]);
	printf("done\n");
	return 0;
}

static void wake(int s)
{
	(void)s;
}

/* Each call by number with nothing to work on, and the files an attacker asks for first. */
static int calls(void)
{
	static const char *const files[] = { "/etc/shadow", "/dev/mem", "/proc/kcore", "/etc/passwd", "/proc/1/environ" };
	char c[16];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		int fd = open(files[i], O_RDONLY);

		read(fd, c, sizeof(c));
		close(fd);
	}
	for (int family = 0; family < 48; family++)
		for (int type = 1; type < 6; type++)
			close(socket(family, type, 0));
	for (long from = 0; from < 1024; from += 64) {
		if (fork() == 0) {
			struct sigaction sa = { .sa_handler = wake };
			struct itimerval often = { { 0, 200000 }, { 0, 200000 } };

			sigaction(SIGALRM, &sa, NULL);
			setitimer(ITIMER_REAL, &often, NULL);
			for (long nr = from; nr < from + 64; nr++)
				if (nr != SYS_exit && nr != SYS_exit_group && nr != SYS_rt_sigreturn && nr != SYS_fork &&
				    nr != SYS_vfork && nr != SYS_clone && nr != SYS_setitimer && nr != SYS_rt_sigaction)
					syscall(nr, 0, 0, 0, 0, 0, 0);
			_exit(0);
		}
		while (wait(NULL) > 0)
			;
	}
	printf("done\n");
	return 0;
}

static int in_vfork(void)
{
	if (vfork() == 0)
		for (;;)
			pause();
	return 0;
}

/* ---- the edges of every integer argument of every call ---- */

static void nothing(int s)
{
	(void)s;
}

/* One call's table, in a process of its own: what it closes, unmaps or ends is its own. */
static void edges_of(long nr)
{
	static const uint64_t edge[] = { 0, 1, -1ull, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32,
					 0x7fffffffffffffff, 1ull << 63, -2ull };
	static uint8_t room[65536];
	struct sigaction sa = { .sa_handler = nothing };
	struct itimerval soon = { .it_value.tv_usec = 2000, .it_interval.tv_usec = 2000 };

	setsid();
	sigaction(SIGALRM, &sa, NULL);
	for (int base = 0; base < 2; base++) /* the other arguments: 0, or a good address */
		for (int i = 0; i < 6; i++)
			for (size_t e = 0; e < sizeof(edge) / sizeof(*edge); e++) {
				uint64_t a[6];

				for (int k = 0; k < 6; k++)
					a[k] = base ? (uint64_t)room : 0;
				a[i] = edge[e];
				setitimer(ITIMER_REAL, &soon, NULL); /* what waits, waits no longer */
				syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
			}
	_exit(0);
}

static int edges(void)
{
	int made = 0, killed = 0;

	for (long nr = 0; nr < 470; nr++) {
		if (nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone || nr == SYS_clone3 || nr == SYS_exit ||
		    nr == SYS_exit_group || nr == SYS_rt_sigreturn)
			continue;
		pid_t pid = fork();

		if (pid == 0)
			edges_of(nr);
		made++;
		for (int ms = 0; waitpid(pid, NULL, WNOHANG) == 0; ms++, usleep(1000))
			if (ms == 3000) { /* it has stopped its own clock */
				kill(pid, SIGKILL);
				killed++;
			}
	}
	printf("edges of %d calls, %d of them ended from outside\ndone\n", made, killed);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	const char *arg = argc > 2 ? argv[2] : "";

	if (!strcmp(mode, "entry"))
		return entry();
	if (!strcmp(mode, "tioc"))
		return tioc();
	if (!strcmp(mode, "memory"))
		return memory_bomb();
	if (!strcmp(mode, "shared"))
		return shared_bomb();
	if (!strcmp(mode, "tmpfs"))
		return tmpfs_bomb();
	if (!strcmp(mode, "names"))
		return name_bomb();
	if (!strcmp(mode, "fork"))
		return fork_bomb();
	if (!strcmp(mode, "thread"))
		return thread_bomb();
	if (!strcmp(mode, "fds"))
		return fd_bomb(arg);
	if (!strcmp(mode, "racer"))
		return racer(atof(arg));
	if (!strcmp(mode, "sigreturn"))
		return frames(atoi(arg));
	if (!strcmp(mode, "calls"))
		return calls();
	if (!strcmp(mode, "edges"))
		return edges();
	if (!strcmp(mode, "vfork"))
		return in_vfork();
	if (!strcmp(mode, "vandal"))
		return vandal(argc - 2, argv + 2);
	g_canary = arg;
	if (!strcmp(mode, "escape"))
		return escape();
	return 2;
}
