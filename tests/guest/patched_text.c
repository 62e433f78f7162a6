/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text whose syscall sites have been in use for a while: readers find what the file has, writers
 * (a debugger's breakpoints, a program that changes its own code) find it where they expect it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define WARM 400

/* nops before, so that a decoder finds the instructions; a page of its own for the mprotect below. */
__asm__(".text\n.balign 4096\n.globl site, site_mov, site_call, site_end\n"
	"site:\n.fill 96, 1, 0x90\n"
	"site_mov: mov $110, %eax\n"
	"site_call: syscall\n"
	"ret\nsite_end:\n.balign 4096\n");
long site(void);
extern const unsigned char site_mov[], site_call[], site_end[];

static const unsigned char g_want[] = { 0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0xc3 };

static void warm_up(void)
{
	for (int i = 0; i < WARM; i++)
		site();
}

static void readers(void)
{
	unsigned char buf[sizeof(g_want)] = { 0 }, big[8192] = { 0 };
	struct iovec local = { buf, sizeof(buf) }, remote = { (void *)site_mov, sizeof(buf) };
	int p[2], mem = open("/proc/self/mem", O_RDONLY);

	CHECK("site works", site() == getppid());
	CHECK("process_vm_readv", process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof(buf) &&
					   !memcmp(buf, g_want, sizeof(buf)));
	memset(buf, 0, sizeof(buf));
	CHECK("/proc/self/mem", pread(mem, buf, sizeof(buf), (off_t)(uintptr_t)site_mov) == sizeof(buf) &&
					 !memcmp(buf, g_want, sizeof(buf)));
	CHECK("one byte", pread(mem, buf, 1, (off_t)(uintptr_t)site_mov + 3) == 1 && buf[0] == 0);
	CHECK("a range that begins in it", pread(mem, buf, 4, (off_t)(uintptr_t)site_mov + 4) == 4 &&
						    !memcmp(buf, g_want + 4, 4));
	CHECK("large", pread(mem, big, sizeof(big), (off_t)(uintptr_t)site_mov - 4096) == sizeof(big) &&
				!memcmp(big + 4096, g_want, sizeof(g_want)));
	if (pipe(p))
		exit(2);
	memset(buf, 0, sizeof(buf));
	CHECK("write of text", write(p[1], site_mov, sizeof(buf)) == sizeof(buf) &&
					read(p[0], buf, sizeof(buf)) == sizeof(buf) &&
					!memcmp(buf, g_want, sizeof(buf)));
	close(p[0]);
	close(p[1]);
	close(mem);
}

/* Any instruction of the old text is a place to enter. */
static void entered_in_the_middle(void)
{
	long ret;

	for (int i = 0; i < 100; i++) {
		__asm__ volatile("call *%1" : "=a"(ret) : "r"(site_call), "0"(39L) : "rcx", "r11", "memory");
		if (ret != getpid())
			break;
	}
	CHECK("entered at the syscall", ret == getpid());
}

static int wait_stop(pid_t pid, int sig)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == sig;
}

/* A breakpoint at `at`, hit by the next call; then the old byte again and on. */
static void breakpoint(const char *name, pid_t pid, const unsigned char *at)
{
	uint64_t addr = (uint64_t)(uintptr_t)at;
	struct user_regs_struct regs = { 0 };
	long word = ptrace(PTRACE_PEEKTEXT, pid, addr, 0);
	long with = (word & ~0xffL) | 0xcc;

	CHECK(name, !memcmp(&word, at - site_mov + g_want, at == site_mov ? 8 : 3));
	CHECK("poke", ptrace(PTRACE_POKETEXT, pid, addr, with) == 0);
	CHECK("peek back", ptrace(PTRACE_PEEKTEXT, pid, addr, 0) == with);
	ptrace(PTRACE_CONT, pid, 0, 0);
	CHECK("hit", wait_stop(pid, SIGTRAP));
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	CHECK("place", regs.rip == addr + 1);
	regs.rip = addr;
	CHECK("poke back", ptrace(PTRACE_POKETEXT, pid, addr, word) == 0);
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_CONT, pid, 0, 0);
	CHECK("next stop", wait_stop(pid, SIGSTOP));
}

static void debugged(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		int good = 1;

		warm_up();
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		for (int i = 0; i < 5; i++) {
			raise(SIGSTOP);
			for (int j = 0; j < (i == 2 ? WARM : 1); j++)
				good &= site() == getppid();
		}
		_exit(good ? 42 : 1);
	}
	int status = 0;

	CHECK("first stop", wait_stop(pid, SIGSTOP));
	breakpoint("text as the debugger sees it", pid, site_mov);
	breakpoint("text at the syscall", pid, site_call);
	ptrace(PTRACE_CONT, pid, 0, 0);
	CHECK("after many calls", wait_stop(pid, SIGSTOP));
	breakpoint("text once more", pid, site_mov);
	ptrace(PTRACE_CONT, pid, 0, 0);
	CHECK("end", waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

/* A program that changes its own text by hand. */
static void rewritten(void)
{
	unsigned char *page = (unsigned char *)((uintptr_t)site_mov & ~4095ul);
	unsigned char *number = (unsigned char *)site_mov + 1;

	warm_up();
	CHECK("text made writable", mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
	CHECK("text as it was", !memcmp(site_mov, g_want, sizeof(g_want)));
	*number = 39;
	CHECK("changed", site() == getpid());
	CHECK("text made read-only", mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
	for (int i = 0; i < WARM; i++)
		site();
	CHECK("changed for long", site() == getpid());
	mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	*number = 110;
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	CHECK("changed back", site() == getppid());
	pid_t pid = fork();

	if (pid == 0) {
		warm_up();
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		*number = 39;
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
		_exit(site() == getpid() ? 42 : 1);
	}
	int status = 0;

	CHECK("in a child", waitpid(pid, &status, 0) == pid && status == 42 << 8);
	CHECK("not in the parent", site() == getppid());
}

int main(void)
{
	warm_up();
	readers();
	entered_in_the_middle();
	debugged();
	rewritten();
	return guest_done();
}
