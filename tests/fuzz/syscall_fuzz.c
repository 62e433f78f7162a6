/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile guest: random system calls from several processes and threads at once, on memory, fds
 * and ids that other calls left in any state.
 *
 *   syscall_fuzz SEED SECONDS [WORKERS [SYSCALL...]]
 *
 * The first process only starts workers and kills those that hang; a worker is one seed. Given
 * syscall numbers, only those are made (and the few that build state). What counts is outside: the
 * sandbox must end with "fuzz: done", never with an internal error.
 *
 * It refuses to run anywhere but in a Caisson sandbox: it would wreck a real machine.
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
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STUB_TEXT 0x7fffc0000000ul /* platform/systrap/sysmsg.h */
#define REGION (64 * 4096ul)
#define CALLS 400
#define WORKER_MS 1500

static uint8_t *g_mem;	/* REGION, then a read-only page, a PROT_NONE page, an unmapped one */
static uint8_t *g_file; /* a mapping whose file was truncated: SIGBUS */
static long g_only[64];
static int g_only_count;
static __thread uint64_t g_state;

static uint64_t rnd(void)
{
	g_state ^= g_state << 13;
	g_state ^= g_state >> 7;
	g_state ^= g_state << 17;
	return g_state * 0x2545f4914f6cdd1dull;
}

static uint64_t below(uint64_t n)
{
	return (rnd() >> 16) % n;
}

static const uint64_t g_ints[] = {
	0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 63, 64, 65, 100, 127, 128, 255, 256, 512, 1000, 1024, 1025,
	4095, 4096, 4097, 8192, 65535, 65536, 65537, 1u << 20, 0x7fffffff, 0x80000000, 0xfffffffe,
	0xffffffff, 0x100000000, 0x100000001, 0x7fffffffffff, 0x7ffffffff000, 0x800000000000,
	0xffff800000000000, 0x7ffffffffffffffe, 0x7fffffffffffffff, 0x8000000000000000,
	0xfffffffffffff000, 0xfffffffffffffffe, 0xffffffffffffffff,
};

static const char *const g_paths[] = {
	"/", ".", "..", "", "/tmp", "/tmp/a", "/tmp/b", "/tmp/d", "/tmp/d/x", "/tmp/l", "/tmp/fifo",
	"/tmp/sock", "/proc", "/proc/self", "/proc/self/fd/0", "/proc/self/fd/5", "/proc/self/mem",
	"/proc/self/maps", "/proc/self/status", "/proc/self/exe", "/proc/self/cwd", "/proc/self/root",
	"/proc/self/environ", "/proc/self/smaps", "/proc/self/task", "/proc/self/ns/pid", "/proc/1/fd",
	"/proc/1/maps", "/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/self/stat", "/proc/mounts",
	"/proc/meminfo", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/dev/null", "/dev/zero",
	"/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts/0", "/dev/shm/s", "/dev/kmsg", "/dev/urandom",
	"/dev/fd/3", "/sys", "/sys/fs/cgroup", "/etc/passwd", "/bin/true", "/bin/sh", "a", "b", "d/../a",
	"/tmp/a/", "////tmp//./d/..//a", "/tmp/nope/nope", "/tmp/loop", "tmpfs", "proc", "overlay",
	"user.x", "security.capability", "trusted.y", "system.posix_acl_access", "/mq",
};

/*
 * How arguments look, one letter each: f fd, b buffer, s path, n length, i number, d pid, g signal,
 * m mapping address, u small flags, z zero, r random.
 */
static const struct {
	short nr;
	const char *args;
} g_hints[] = {
	{ 0, "fbn" }, { 1, "fbn" }, { 2, "suu" }, { 3, "f" }, { 4, "sb" }, { 5, "fb" }, { 6, "sb" },
	{ 7, "buu" }, { 8, "fiu" }, { 9, "mnuufi" }, { 10, "mnu" }, { 11, "mn" }, { 12, "m" }, { 13, "gbbn" },
	{ 14, "ubbn" }, { 16, "fib" }, { 17, "fbni" }, { 18, "fbni" }, { 19, "fbu" }, { 20, "fbu" },
	{ 21, "su" }, { 22, "b" }, { 23, "ubbbb" }, { 25, "mnnum" }, { 26, "mnu" }, { 27, "mnb" },
	{ 28, "mnu" }, { 29, "inu" }, { 30, "umu" }, { 31, "uub" }, { 32, "f" }, { 33, "ff" }, { 35, "bb" },
	{ 36, "ub" }, { 38, "ubb" }, { 40, "ffbn" }, { 41, "uuu" }, { 42, "fbn" }, { 43, "fbb" },
	{ 44, "fbnubn" }, { 45, "fbnubb" }, { 46, "fbu" }, { 47, "fbu" }, { 48, "fu" }, { 49, "fbn" },
	{ 50, "fi" }, { 51, "fbb" }, { 52, "fbb" }, { 53, "uuub" }, { 54, "fuubn" }, { 55, "fuubb" },
	{ 56, "rmbbb" }, { 59, "sbb" }, { 61, "dbub" }, { 62, "dg" }, { 63, "b" }, { 64, "iuu" },
	{ 65, "ubu" }, { 66, "uuub" }, { 67, "m" }, { 68, "iu" }, { 69, "ubnu" }, { 70, "ubniu" },
	{ 71, "uub" }, { 72, "fub" }, { 73, "fu" }, { 74, "f" }, { 76, "si" }, { 77, "fi" }, { 78, "fbn" },
	{ 79, "bn" }, { 80, "s" }, { 81, "f" }, { 82, "ss" }, { 83, "su" }, { 84, "s" }, { 85, "su" },
	{ 86, "ss" }, { 87, "s" }, { 88, "ss" }, { 89, "sbn" }, { 90, "su" }, { 91, "fu" }, { 92, "sii" },
	{ 93, "fii" }, { 94, "sii" }, { 96, "bb" }, { 97, "ub" }, { 98, "ub" }, { 99, "b" }, { 100, "b" },
	{ 101, "udbb" }, { 103, "ubn" }, { 105, "i" }, { 106, "i" }, { 109, "dd" }, { 113, "ii" },
	{ 115, "ub" }, { 116, "ub" }, { 117, "iii" }, { 118, "bbb" }, { 125, "bb" }, { 126, "bb" },
	{ 127, "bn" }, { 128, "bbbn" }, { 129, "dgb" }, { 130, "bn" }, { 131, "bb" }, { 132, "sb" },
	{ 133, "sui" }, { 135, "i" }, { 137, "sb" }, { 138, "fb" }, { 140, "ud" }, { 141, "udi" },
	{ 142, "db" }, { 143, "db" }, { 144, "dub" }, { 145, "d" }, { 148, "db" }, { 149, "mn" },
	{ 150, "mn" }, { 151, "u" }, { 155, "ss" }, { 157, "ubbbb" }, { 158, "ub" }, { 160, "ub" },
	{ 161, "s" }, { 165, "sssub" }, { 166, "su" }, { 170, "bn" }, { 171, "bn" }, { 187, "fin" },
	{ 188, "ssbnu" }, { 190, "fsbnu" }, { 191, "ssbn" }, { 193, "fsbn" }, { 194, "sbn" },
	{ 196, "fbn" }, { 197, "ss" }, { 199, "fs" }, { 200, "dg" }, { 202, "buubbi" }, { 203, "dnb" },
	{ 204, "dnb" }, { 206, "ib" }, { 207, "i" }, { 208, "iuubb" }, { 209, "inb" }, { 210, "ibb" },
	{ 213, "u" }, { 216, "mnuuu" }, { 217, "fbn" }, { 218, "b" }, { 220, "ubub" }, { 221, "finu" },
	{ 222, "ubb" }, { 223, "uubb" }, { 224, "ub" }, { 225, "u" }, { 226, "u" }, { 227, "ib" },
	{ 228, "ib" }, { 229, "ib" }, { 230, "uubb" }, { 232, "fbun" }, { 233, "fuub" }, { 234, "ddg" },
	{ 235, "sb" }, { 237, "mnubnu" }, { 238, "ubn" }, { 239, "bbnmu" }, { 240, "suub" }, { 241, "s" },
	{ 242, "fbnub" }, { 243, "fbnbb" }, { 244, "fb" }, { 245, "fbb" }, { 247, "udbub" }, { 253, "" },
	{ 254, "fsu" }, { 255, "fu" }, { 257, "fsuu" }, { 258, "fsu" }, { 259, "fsui" }, { 260, "fsiiu" },
	{ 261, "fsb" }, { 262, "fsbu" }, { 263, "fsu" }, { 264, "fsfs" }, { 265, "fsfsu" }, { 266, "sfs" },
	{ 267, "fsbn" }, { 268, "fsu" }, { 269, "fsu" }, { 270, "ubbbbb" }, { 271, "buubn" }, { 272, "r" },
	{ 273, "bn" }, { 274, "dbb" }, { 275, "fbfbnu" }, { 276, "ffnu" }, { 277, "finu" }, { 278, "fbuu" },
	{ 279, "dnbbbu" }, { 280, "fsbu" }, { 281, "fbunbn" }, { 282, "fbn" }, { 283, "uu" }, { 284, "u" },
	{ 285, "fuii" }, { 286, "fubb" }, { 287, "fb" }, { 288, "fbbu" }, { 289, "fbnu" }, { 290, "uu" },
	{ 291, "u" }, { 292, "ffu" }, { 293, "bu" }, { 294, "u" }, { 295, "fbuii" }, { 296, "fbuii" },
	{ 297, "ddgb" }, { 299, "fbuub" }, { 302, "dubb" }, { 303, "fsbbu" }, { 304, "fbu" }, { 305, "ib" },
	{ 306, "f" }, { 307, "fbuu" }, { 308, "fu" }, { 309, "bbb" }, { 310, "dbubuu" }, { 311, "dbubuu" },
	{ 312, "dduii" }, { 314, "dbu" }, { 315, "dbnu" }, { 316, "fsfsu" }, { 317, "uub" }, { 318, "bnu" },
	{ 319, "su" }, { 321, "ubn" }, { 322, "fsbbu" }, { 323, "u" }, { 324, "uu" }, { 325, "mnu" },
	{ 326, "fbfbnu" }, { 327, "fbuiiu" }, { 328, "fbuiiu" }, { 332, "fsuub" }, { 333, "ibubbb" },
	{ 334, "bnui" }, { 424, "fgbu" }, { 425, "ub" }, { 428, "fsu" }, { 429, "fsfsu" }, { 430, "su" },
	{ 431, "fusbu" }, { 432, "fuu" }, { 433, "fsu" }, { 434, "du" }, { 435, "bn" }, { 436, "uuu" },
	{ 437, "fsbn" }, { 438, "fuu" }, { 439, "fsuu" }, { 440, "fbnuu" }, { 441, "fbubbn" },
	{ 442, "fsubn" }, { 443, "fsub" }, { 444, "bnu" }, { 446, "fu" }, { 448, "fu" }, { 449, "buubu" },
	{ 450, "mnuu" }, { 451, "fbbu" }, { 452, "fsuu" }, { 454, "buuu" }, { 455, "buub" }, { 456, "buuu" },
	{ 457, "bbnu" }, { 458, "bbnu" }, { 462, "mnu" },
};

static uint64_t number(void)
{
	uint64_t v = g_ints[below(sizeof(g_ints) / sizeof(*g_ints))];

	switch (below(8)) {
	case 0:
		return v + below(5) - 2;
	case 1:
		return rnd();
	case 2:
		return rnd() & 0xffffffff;
	case 3:
		return 1ull << below(64) | 1ull << below(64);
	default:
		return v;
	}
}

static uint64_t small_flags(void)
{
	switch (below(6)) {
	case 0:
		return number();
	case 1:
		return 1ull << below(32);
	case 2:
		return 1ull << below(24) | 1ull << below(24) | 1ull << below(24);
	default:
		return below(32);
	}
}

static uint64_t buffer(void)
{
	switch (below(24)) {
	case 0:
		return 0;
	case 1:
		return (uint64_t)g_mem + REGION - below(64); /* runs into the read-only page */
	case 2:
		return (uint64_t)g_mem + REGION + below(4096);
	case 3:
		return (uint64_t)g_mem + REGION + 8192 - below(64); /* into PROT_NONE and beyond */
	case 4:
		return (uint64_t)g_file + below(8192);
	case 5:
		return number();
	case 6:
		return STUB_TEXT + below(1 << 16);
	case 7:
		return (uint64_t)&g_state & ~below(4096);
	default:
		return (uint64_t)g_mem + (below(REGION - 8192) & ~(below(4) ? 15ull : 0));
	}
}

/* Words that make structures with pointers, lengths and fds in them. */
static void fill(uint64_t *p, size_t words)
{
	for (size_t i = 0; i < words; i++)
		switch (below(6)) {
		case 0:
			p[i] = buffer();
			break;
		case 1:
			p[i] = number();
			break;
		case 2:
			p[i] = below(64) << 32 | below(64);
			break;
		case 3:
			p[i] = 0;
			break;
		default:
			p[i] = below(256);
		}
}

static uint64_t path(void)
{
	char *p = (char *)g_mem + REGION - 8192 + below(1024) * 4;

	if (below(12) == 0)
		return buffer();
	if (below(40) == 0) {
		memset(p, 'A', 4000);
		return (uint64_t)p;
	}
	strcpy(p, g_paths[below(sizeof(g_paths) / sizeof(*g_paths))]);
	return (uint64_t)p;
}

static uint64_t pick(char kind)
{
	if (below(20) == 0)
		return number();
	switch (kind) {
	case 'f':
		return below(16) ? below(48) : below(2) ? (uint64_t)-100 : number();
	case 'b':
		return buffer();
	case 's':
		return path();
	case 'n':
		return below(3) ? below(4097) : number();
	case 'd':
		return below(3) ? below(40) : below(2) ? (uint64_t)getpid() : number();
	case 'g':
		return below(66);
	case 'm':
		return below(3) ? (uint64_t)g_mem + below(68) * 4096 : below(2) ? 0 : number();
	case 'u':
		return small_flags();
	case 'i':
		return number();
	case 'z':
		return 0;
	default:
		return rnd();
	}
}

static const char *hint(long nr)
{
	for (size_t i = 0; i < sizeof(g_hints) / sizeof(*g_hints); i++)
		if (g_hints[i].nr == nr)
			return g_hints[i].args;
	return "";
}

/* Into the middle of the code that belongs to the sandbox, with registers of our choice. */
static void jump_to_stub(void)
{
	uint64_t to = STUB_TEXT + below(1 << 16), a = number(), b = buffer(), c = number();

	__asm__ volatile("mov %3, %%rax\n call *%0" : : "r"(to), "D"(a), "S"(b), "r"(c), "d"(b)
			 : "rax", "rcx", "r11", "memory");
}

static void __attribute__((noinline)) other_entry(void)
{
	uint64_t nr = below(400), a = number();

	switch (below(4)) {
	case 0:
		__asm__ volatile("int $0x80" : : "a"(nr), "b"(a), "c"(a) : "memory");
		break;
	case 1:
		__asm__ volatile("syscall" : : "a"(nr | 0x40000000), "D"(a), "S"(a) : "rcx", "r11", "memory");
		break;
	case 2:
		__asm__ volatile("sysenter" : : "a"(nr) : "rcx", "rdx", "memory");
		break;
	default:
		((void (*)(void *))(0xffffffffff600000ul + 1024 * below(4)))((void *)buffer());
	}
}

static void random_call(void)
{
	long nr = below(10) ? (long)below(470) : (long)(below(2) ? number() : below(600));
	uint64_t a[6];

	if (g_only_count && below(8))
		nr = g_only[below((uint64_t)g_only_count)];
	if ((nr == SYS_exit || nr == SYS_exit_group || nr == SYS_rt_sigreturn || nr == SYS_pause ||
	     nr == SYS_vfork) && below(50))
		return;
	const char *h = hint(nr);
	size_t known = strlen(h);

	for (size_t i = 0; i < 6; i++)
		a[i] = i < known ? pick(h[i]) : pick("fbsniu"[below(6)]);
	if (below(3) == 0)
		fill((uint64_t *)(g_mem + (below(REGION - 4096) & ~7ull)), 64);
	/* The first process starts the others: keep it. */
	if ((nr == SYS_kill || nr == SYS_tkill || nr == SYS_tgkill || nr == SYS_ptrace ||
	     nr == SYS_rt_sigqueueinfo || nr == SYS_prlimit64 || nr == SYS_rt_tgsigqueueinfo || nr == SYS_process_vm_writev) &&
	    ((int)a[0] == 1 || (int)a[1] == 1))
		return;
	if (nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone) {
		if (nr == SYS_clone && below(4))
			a[0] = (a[0] & 0xff800000) | SIGCHLD; /* namespaces, no sharing */
		if (a[0] & CLONE_VM && nr == SYS_clone && below(10))
			return;
	}
	long r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);

	if ((nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone || nr == SYS_clone3) && r == 0) {
		g_state ^= 0x9e3779b97f4a7c15ull * (uint64_t)syscall(SYS_getpid);
		for (int i = 0; i < 20; i++)
			random_call();
		syscall(SYS_exit_group, 0);
	}
}

static void on_signal(int s)
{
	(void)s;
}

static void *thread_main(void *arg)
{
	g_state = (uint64_t)arg | 1;
	for (int i = 0; i < CALLS; i++) {
		random_call();
		if (below(400) == 0)
			other_entry();
		if (below(1000) == 0)
			jump_to_stub();
	}
	return NULL;
}

/* One of every kind of file at low numbers. */
static void open_files(void)
{
	int p[2];

	for (int i = 3; i < 64; i++)
		close(i);
	mkdir("/tmp/d", 0777);
	symlink("/tmp/a", "/tmp/l");
	symlink("/tmp/loop", "/tmp/loop");
	mkfifo("/tmp/fifo", 0666);
	open("/tmp/a", O_RDWR | O_CREAT, 0666);
	open("/tmp/d", O_RDONLY | O_DIRECTORY);
	pipe2(p, O_NONBLOCK);
	pipe(p);
	epoll_create1(0);
	eventfd(3, EFD_NONBLOCK);
	timerfd_create(CLOCK_MONOTONIC, 0);
	inotify_init1(IN_NONBLOCK);
	inotify_add_watch(11, "/tmp", 0xfff);
	memfd_create("m", MFD_ALLOW_SEALING);
	socketpair(AF_UNIX, SOCK_STREAM, 0, p);
	socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, p);
	socket(AF_UNIX, SOCK_DGRAM, 0);
	socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	socket(AF_NETLINK, SOCK_RAW, 0);
	open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
	open("/dev/pts/0", O_RDWR | O_NOCTTY | O_NONBLOCK);
	open("/proc/self/mem", O_RDWR);
	open("/proc/self/maps", O_RDONLY);
	open("/proc/self/status", O_RDONLY);
	open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	open("/dev/zero", O_RDWR);
	open("/tmp", O_PATH);
	open("/etc/passwd", O_RDONLY);
	open("/tmp/fifo", O_RDWR | O_NONBLOCK);
	syscall(SYS_pidfd_open, getpid(), 0);
	sigset_t s;

	sigfillset(&s);
	signalfd(-1, &s, SFD_NONBLOCK);
	syscall(SYS_fsopen, "tmpfs", 0);
	syscall(SYS_mq_open, "mq", O_RDWR | O_CREAT, 0666, NULL);
	open("/sys", O_RDONLY | O_DIRECTORY);
	open("/dev/kmsg", O_RDWR | O_NONBLOCK);
}

static void worker(uint64_t seed)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct rlimit nofile = { 256, 256 };
	pthread_t t[3];

	g_state = seed;
	signal(SIGALRM, on_signal);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &sa, NULL);
	if (below(4) == 0)
		signal(SIGSEGV, on_signal);
	if (below(3) == 0)
		setsid();
	else
		setpgid(0, 0);
	/* What it leaves goes with its last process, or memory would run out in a minute. */
	if (syscall(SYS_unshare, CLONE_NEWNS | CLONE_NEWIPC) == 0) {
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
		mount("tmp", "/tmp", "tmpfs", 0, "size=16m");
		mount("shm", "/dev/shm", "tmpfs", 0, "size=4m");
	}
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i < 3; i++)
		dup2(null, i);
	setrlimit(RLIMIT_NOFILE, &nofile);
	open_files();
	g_mem = mmap(NULL, REGION + 4 * 4096, PROT_READ | PROT_WRITE,
		     (below(2) ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
	mprotect(g_mem + REGION, 4096, PROT_READ);
	mprotect(g_mem + REGION + 4096, 4096, PROT_NONE);
	munmap(g_mem + REGION + 8192, 8192);
	int fd = memfd_create("cut", 0);

	ftruncate(fd, 8192);
	g_file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ftruncate(fd, 100);
	close(fd);
	fill((uint64_t *)g_mem, REGION / 8);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, thread_main, (void *)rnd());
	thread_main((void *)rnd());
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	syscall(SYS_exit_group, 0);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct utsname u;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, seconds = argc > 2 ? strtoull(argv[2], NULL, 0) : 10;
	int workers = argc > 3 ? atoi(argv[3]) : 4;

	if (argc < 3) /* a worker found its way to execve */
		return 0;
	uname(&u);
	if (!strcasestr(u.version, "caisson")) {
		fprintf(stderr, "syscall_fuzz: only in a Caisson sandbox\n");
		return 2;
	}
	if (workers < 1 || workers > 16)
		workers = 4;
	for (int i = 4; i < argc && g_only_count < 64; i++)
		g_only[g_only_count++] = atol(argv[i]);
	uint64_t end = now_ms() + seconds * 1000, round = 0, killed = 0, born[16] = { 0 };
	pid_t pid[16] = { 0 };

	printf("fuzz: seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	while (now_ms() < end) {
		for (int i = 0; i < workers; i++) {
			if (pid[i] > 0 && now_ms() - born[i] < WORKER_MS)
				continue;
			if (pid[i] > 0) {
				kill(pid[i], SIGKILL);
				killed++;
			}
			g_state = (seed + ++round) * 0x9e3779b97f4a7c15ull | 1;
			uint64_t sub = rnd();

			pid[i] = fork();
			born[i] = now_ms();
			if (pid[i] == 0)
				worker(sub);
		}
		usleep(20000);
		for (pid_t p; (p = waitpid(-1, NULL, WNOHANG)) > 0;)
			for (int i = 0; i < workers; i++)
				if (pid[i] == p)
					pid[i] = 0;
		/* What workers left running. */
		if (round % 16 == 0) {
			kill(-1, SIGCONT);
			kill(-1, SIGKILL);
		}
	}
	kill(-1, SIGKILL);
	printf("fuzz: done, %llu workers, %llu of them killed\n", (unsigned long long)round,
	       (unsigned long long)killed);
	return 0;
}
