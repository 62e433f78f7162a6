/* SPDX-License-Identifier: Apache-2.0 */
/* mmap, munmap, mprotect, brk, mincore, mlock, msync, mseal, faults, /proc/self/maps. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define PG 4096ul
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static sigjmp_buf g_jmp;
static volatile int g_sig, g_code;
static void *volatile g_addr;

static void on_fault(int sig, siginfo_t *si, void *uc)
{
	(void)uc;
	g_sig = sig;
	g_code = si->si_code;
	g_addr = si->si_addr;
	siglongjmp(g_jmp, 1);
}

/* Touches p (write: 1); 0, or the signal. */
static int touch(volatile char *p, int write)
{
	g_sig = 0;
	if (sigsetjmp(g_jmp, 1) == 0) {
		if (write)
			*p = 1;
		else
			(void)*p;
	}
	return g_sig;
}

static int temp_file(size_t size)
{
	char name[] = "mmap_test_XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	if (ftruncate(fd, (off_t)size))
		return -1;
	return fd;
}

static void basics(void)
{
	char *p = mmap(NULL, 4 * PG, PROT_READ | PROT_WRITE, ANON, -1, 0);

	CHECK("anonymous", p != MAP_FAILED && p[0] == 0 && p[4 * PG - 1] == 0);
	p[PG] = 7;
	CHECK("munmap middle", munmap(p + PG, PG) == 0);
	CHECK("hole faults MAPERR", touch(p + PG, 0) == SIGSEGV && g_code == SEGV_MAPERR &&
					    g_addr == p + PG);
	CHECK("neighbours stay", touch(p, 1) == 0 && touch(p + 2 * PG, 1) == 0);
	CHECK("munmap over a hole", munmap(p, 4 * PG) == 0);
	CHECK("munmap of nothing", munmap(p, 4 * PG) == 0);
	CHECK_ERRNO("munmap unaligned", munmap(p + 1, PG), EINVAL);
	CHECK_ERRNO("munmap length 0", munmap(p, 0), EINVAL);
	CHECK_ERRNO("munmap huge", munmap(p, ~0ul), EINVAL);
	CHECK_ERRNO("length 0", mmap(NULL, 0, PROT_READ, ANON, -1, 0), EINVAL);
	CHECK_ERRNO("no type", mmap(NULL, PG, PROT_READ, MAP_ANONYMOUS, -1, 0), EINVAL);
	CHECK_ERRNO("huge length", mmap(NULL, ~0ul - PG, PROT_READ, ANON, -1, 0), ENOMEM);
	CHECK_ERRNO("fixed unaligned", mmap((void *)0x10001, PG, PROT_READ, ANON | MAP_FIXED, -1, 0),
		    EINVAL);
	CHECK_ERRNO("bad fd", mmap(NULL, PG, PROT_READ, MAP_PRIVATE, -1, 0), EBADF);
	CHECK_ERRNO("bad offset", syscall(SYS_mmap, NULL, PG, PROT_READ, ANON, -1, 5), EINVAL);
}

static void placement(void)
{
	char *p = mmap(NULL, 8 * PG, PROT_READ | PROT_WRITE, ANON, -1, 0), *q;

	munmap(p, 8 * PG);
	q = mmap(p + 2 * PG, PG, PROT_READ, ANON, -1, 0);
	CHECK("hint is taken", q == p + 2 * PG);
	CHECK_ERRNO("NOREPLACE over a mapping",
		    mmap(q, PG, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
	CHECK("NOREPLACE in a gap", mmap(p + 4 * PG, PG, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0) ==
					    p + 4 * PG);
	CHECK("FIXED replaces", mmap(q, PG, PROT_READ | PROT_WRITE, ANON | MAP_FIXED, -1, 0) == q &&
					touch(q, 1) == 0);
	munmap(p, 8 * PG);
	q = mmap(NULL, PG, PROT_READ, ANON | MAP_32BIT, -1, 0);
	CHECK("32BIT", (uintptr_t)q < 0x80000000ul);
	munmap(q, PG);
	p = mmap(NULL, 1ul << 40, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	CHECK("1 TiB reservation", p != MAP_FAILED);
	CHECK("a piece of it made usable",
	      mprotect(p + (1ul << 39), 2 * PG, PROT_READ | PROT_WRITE) == 0 &&
		      touch(p + (1ul << 39), 1) == 0);
	munmap(p, 1ul << 40);
}

static void protection(void)
{
	char *p = mmap(NULL, 5 * PG, PROT_READ | PROT_WRITE, ANON, -1, 0);

	CHECK("mprotect", mprotect(p + PG, PG, PROT_READ) == 0);
	CHECK("write faults ACCERR", touch(p + PG, 1) == SIGSEGV && g_code == SEGV_ACCERR);
	CHECK("read goes", touch(p + PG, 0) == 0);
	CHECK("none", mprotect(p + 2 * PG, PG, PROT_NONE) == 0 && touch(p + 2 * PG, 0) == SIGSEGV);
	CHECK("back", mprotect(p, 5 * PG, PROT_READ | PROT_WRITE) == 0 && touch(p + 2 * PG, 1) == 0);
	munmap(p + 3 * PG, PG);
	CHECK_ERRNO("over a gap", mprotect(p, 5 * PG, PROT_READ), ENOMEM);
	CHECK("before the gap it is done", touch(p, 1) == SIGSEGV);
	CHECK("behind it not", touch(p + 4 * PG, 1) == 0);
	CHECK_ERRNO("unaligned", mprotect(p + 1, PG, PROT_READ), EINVAL);
	CHECK_ERRNO("bad bits", mprotect(p, PG, 0x40), EINVAL);
	CHECK("length 0", mprotect(p, 0, PROT_READ) == 0);
	CHECK_ERRNO("GROWSDOWN on a plain mapping", mprotect(p, PG, PROT_READ | PROT_GROWSDOWN), EINVAL);
	munmap(p, 5 * PG);
}

static void files(void)
{
	int fd = temp_file(2 * PG + 100), ro;
	char path[64], buf[8], *p, *q;

	pwrite(fd, "hello", 5, PG);
	p = mmap(NULL, 4 * PG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, 2 * PG, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PG);
	CHECK("file contents", memcmp(p + PG, "hello", 5) == 0 && memcmp(q, "hello", 5) == 0);
	p[PG] = 'J';
	pread(fd, buf, 5, PG);
	CHECK("shared write is seen by read", memcmp(buf, "Jello", 5) == 0);
	pwrite(fd, "Y", 1, PG + 1);
	CHECK("write is seen by the mapping", p[PG + 1] == 'Y');
	q[2] = 'Q';
	CHECK("private write stays", p[PG + 2] == 'l');
	CHECK("tail of the last page is zero", p[2 * PG + 200] == 0);
	CHECK("beyond the end: SIGBUS", touch(p + 3 * PG, 0) == SIGBUS && g_code == BUS_ADRERR);
	CHECK_ERRNO("read into it", pread(fd, p + 3 * PG, 1, 0), EFAULT);
	CHECK("after growth it is there", ftruncate(fd, 4 * PG) == 0 && touch(p + 3 * PG, 1) == 0);
	CHECK("and coherent", pread(fd, buf, 1, 3 * PG) == 1 && buf[0] == 1);
	CHECK("msync", msync(p, 4 * PG, MS_SYNC) == 0 && msync(p, 4 * PG, MS_ASYNC) == 0);
	CHECK_ERRNO("msync both", msync(p, PG, MS_SYNC | MS_ASYNC), EINVAL);
	CHECK_ERRNO("msync flags", msync(p, PG, 8), EINVAL);
	munmap(p, 4 * PG);
	munmap(q, 2 * PG);
	CHECK_ERRNO("msync of a gap", msync(p, PG, MS_SYNC), ENOMEM);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	CHECK_ERRNO("shared writable of a read-only fd",
		    mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
	p = mmap(NULL, PG, PROT_READ, MAP_SHARED, ro, 0);
	CHECK_ERRNO("nor by mprotect", mprotect(p, PG, PROT_READ | PROT_WRITE), EACCES);
	CHECK("private writable is fine",
	      mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_PRIVATE, ro, 0) != MAP_FAILED);
	close(ro);
	ro = open(path, O_WRONLY);
	CHECK_ERRNO("write-only fd", mmap(NULL, PG, PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
	close(ro);
	CHECK_ERRNO("VALIDATE with unknown flags",
		    mmap(NULL, PG, PROT_READ, MAP_SHARED_VALIDATE | (1 << 22), fd, 0), EOPNOTSUPP);
	ro = open(".", O_RDONLY);
	CHECK_ERRNO("directory", mmap(NULL, PG, PROT_READ, MAP_PRIVATE, ro, 0), ENODEV);
	close(ro);
	close(fd);
}

static void sharing(void)
{
	char *s = mmap(NULL, 2 * PG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *p = mmap(NULL, PG, PROT_READ | PROT_WRITE, ANON, -1, 0);
	pid_t pid;
	int st, z;

	p[0] = 1;
	pid = fork();
	if (pid == 0) {
		s[PG] = 42;
		p[0] = 9;
		_exit(0);
	}
	waitpid(pid, &st, 0);
	CHECK("shared anonymous crosses fork", s[PG] == 42);
	CHECK("private does not", p[0] == 1);
	z = open("/dev/zero", O_RDWR);
	if (z >= 0) {
		char *a = mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_PRIVATE, z, 0);
		char *b = mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_SHARED, z, 0);

		CHECK("/dev/zero private", a != MAP_FAILED && a[0] == 0 && touch(a, 1) == 0);
		CHECK("/dev/zero shared", b != MAP_FAILED && b[0] == 0 && touch(b, 1) == 0);
		close(z);
	}
	munmap(s, 2 * PG);
	munmap(p, PG);
}

static void breaks(void)
{
	char *b = (char *)syscall(SYS_brk, 0), *n;

	n = (char *)syscall(SYS_brk, b + 3 * PG);
	CHECK("brk grows", n == b + 3 * PG && touch(b + PG, 1) == 0);
	n = (char *)syscall(SYS_brk, b);
	CHECK("brk shrinks", n == b);
	n = (char *)syscall(SYS_brk, b + 2 * PG);
	CHECK("grown again it is zero", b[PG] == 0);
	CHECK("below the start nothing happens", (char *)syscall(SYS_brk, 1) == b + 2 * PG);
	syscall(SYS_brk, b);
}

static void incore_and_locks(void)
{
	char *p = mmap(NULL, 4 * PG, PROT_READ | PROT_WRITE, ANON, -1, 0);
	unsigned char vec[4];
	struct rlimit old, rl = { 2 * PG, 2 * PG };

	p[PG] = 1;
	CHECK("mincore", mincore(p, 4 * PG, vec) == 0 && !(vec[0] & 1) && (vec[1] & 1) && !(vec[3] & 1));
	CHECK_ERRNO("mincore unaligned", mincore(p + 1, PG, vec), EINVAL);
	CHECK_ERRNO("mincore bad vector", mincore(p, PG, (void *)1), EFAULT);
	CHECK("mlock", mlock(p, 2 * PG) == 0 && mincore(p, 4 * PG, vec) == 0 && (vec[0] & 1));
	CHECK("munlock", munlock(p, 2 * PG) == 0);
	CHECK_ERRNO("mlock2 flags", syscall(SYS_mlock2, p, PG, 2), EINVAL);
	munmap(p + 2 * PG, PG);
	CHECK_ERRNO("mincore gap", mincore(p, 4 * PG, vec), ENOMEM);
	CHECK_ERRNO("mlock gap", mlock(p, 4 * PG), ENOMEM);
	munlockall();
	CHECK_ERRNO("mlockall flags", mlockall(0), EINVAL);
	CHECK_ERRNO("mlockall onfault alone", mlockall(4), EINVAL);
	if (getuid() == 0 && fork() == 0) {
		getrlimit(RLIMIT_MEMLOCK, &old);
		setrlimit(RLIMIT_MEMLOCK, &rl);
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		_exit(mlock(p, 2 * PG) == 0 && mlock(p + 3 * PG, PG) == -1 && errno == ENOMEM ? 0 : 1);
	} else {
		int st = 0;

		if (getuid() == 0)
			wait(&st);
		CHECK("RLIMIT_MEMLOCK", st == 0);
	}
	munmap(p, 4 * PG);
}

static void limits(void)
{
	struct rlimit rl = { 64ul << 20, 64ul << 20 };
	int st;

	if (fork() == 0) {
		setrlimit(RLIMIT_AS, &rl);
		_exit(mmap(NULL, 128ul << 20, PROT_READ, ANON, -1, 0) == MAP_FAILED && errno == ENOMEM ? 0 :
													   1);
	}
	wait(&st);
	CHECK("RLIMIT_AS", st == 0);
	if (fork() == 0) {
		rl.rlim_cur = rl.rlim_max = 1 << 20;
		setrlimit(RLIMIT_DATA, &rl);
		_exit(mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, ANON, -1, 0) == MAP_FAILED &&
				      mmap(NULL, 8 << 20, PROT_READ, ANON, -1, 0) != MAP_FAILED ?
			      0 :
			      1);
	}
	wait(&st);
	CHECK("RLIMIT_DATA", st == 0);
}

/* Uses about n KiB of stack. */
static int deep(int n)
{
	volatile char buf[1024];

	buf[0] = (char)n;
	return n ? deep(n - 1) + buf[0] : 0;
}

static void stacks(void)
{
	char *p = mmap(NULL, 600 * PG, PROT_NONE, ANON, -1, 0), *s;
	int st;

	munmap(p, 600 * PG);
	s = mmap(p + 590 * PG, 4 * PG, PROT_READ | PROT_WRITE, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	CHECK("GROWSDOWN grows by a touch", s != MAP_FAILED && touch(s - 8, 1) == 0);
	munmap(p, 600 * PG);
	deep(4000);
	CHECK("the stack grows by megabytes", 1);
	if (fork() == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(deep(1 << 20) & 1);
	}
	wait(&st);
	CHECK("up to its limit", WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
}

static int find_maps(void *addr, const char *want)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	int found = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx", &a, &b) == 2 && (unsigned long)addr >= a &&
		    (unsigned long)addr < b)
			found = strstr(line, want) != NULL;
	}
	if (f)
		fclose(f);
	return found;
}

static void maps(void)
{
	char *p = mmap(NULL, 2 * PG, PROT_READ | PROT_WRITE, ANON, -1, 0);
	int local, fd = temp_file(PG);
	char *q = mmap(NULL, PG, PROT_READ, MAP_SHARED, fd, 0);
	char *s = mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	mprotect(p, PG, PROT_READ);
	CHECK("maps: private", find_maps(p, "r--p 00000000 00:00 0 "));
	CHECK("maps: split", find_maps(p + PG, "rw-p 00000000 00:00 0 "));
	CHECK("maps: stack", find_maps(&local, "[stack]"));
	CHECK("maps: file", find_maps(q, "r--s") && find_maps(q, "(deleted)"));
	CHECK("maps: shared memory", find_maps(s, "rw-s") && find_maps(s, "/dev/zero (deleted)"));
	CHECK("maps: program", find_maps((void *)(uintptr_t)find_maps, "r-xp"));
	munmap(p, 2 * PG);
	close(fd);
}

static void process_vm(void)
{
	char a[64] = "remote bytes", b[64] = "";
	struct iovec l = { b, 12 }, r = { a, 12 };

	CHECK("process_vm_readv", process_vm_readv(getpid(), &l, 1, &r, 1, 0) == 12 &&
					  memcmp(b, "remote bytes", 12) == 0);
	b[0] = 'R';
	CHECK("process_vm_writev", process_vm_writev(getpid(), &l, 1, &r, 1, 0) == 12 && a[0] == 'R');
	CHECK_ERRNO("flags", process_vm_readv(getpid(), &l, 1, &r, 1, 1), EINVAL);
	CHECK_ERRNO("no process", process_vm_readv(0x3ffffff, &l, 1, &r, 1, 0), ESRCH);
	r.iov_base = (void *)8;
	CHECK_ERRNO("bad remote", process_vm_readv(getpid(), &l, 1, &r, 1, 0), EFAULT);
	CHECK("nothing", process_vm_readv(getpid(), &l, 0, &r, 1, 0) == 0);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t ss = { .ss_sp = malloc(65536), .ss_size = 65536 };

	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	basics();
	placement();
	protection();
	files();
	sharing();
	breaks();
	incore_and_locks();
	limits();
	stacks();
	maps();
	process_vm();
	return guest_done();
}
