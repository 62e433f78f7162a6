/* SPDX-License-Identifier: Apache-2.0 */
/* ptrace: stops, registers, memory, events, stepping, attaching. */
#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

static volatile long g_word = 41;

static int wait_for(pid_t c)
{
	int st = -1;

	waitpid(c, &st, __WALL);
	return st;
}

static pid_t traced_child(int (*fn)(void))
{
	pid_t c = fork();

	if (c == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(fn());
	}
	return c;
}

static int child_word(void)
{
	return (int)g_word;
}

static void test_memory(void)
{
	pid_t c = traced_child(child_word);
	int st = wait_for(c);
	struct user_regs_struct r;
	siginfo_t si;
	long v;

	CHECK("signal stop", WIFSTOPPED(st) && WSTOPSIG(st) == SIGSTOP);
	CHECK("siginfo", ptrace(PTRACE_GETSIGINFO, c, 0, &si) == 0 && si.si_signo == SIGSTOP);
	errno = 0;
	v = ptrace(PTRACE_PEEKDATA, c, &g_word, 0);
	CHECK("peek", v == 41 && !errno);
	CHECK("poke", ptrace(PTRACE_POKEDATA, c, &g_word, 77L) == 0);
	CHECK("it is the child's", g_word == 41);
	CHECK("poke into read-only text", ptrace(PTRACE_POKETEXT, c, (void *)child_word,
						 ptrace(PTRACE_PEEKTEXT, c, (void *)child_word, 0)) == 0);
	errno = 0;
	ptrace(PTRACE_PEEKDATA, c, (void *)8, 0);
	CHECK("peek of nothing", errno == EIO);
	CHECK("registers", ptrace(PTRACE_GETREGS, c, 0, &r) == 0 && r.cs == 0x33 && r.rip && r.rsp);
	CHECK("peek user", (uint64_t)ptrace(PTRACE_PEEKUSER, c,
					    (void *)offsetof(struct user, regs.rip), 0) == r.rip);
	CHECK("set registers", ptrace(PTRACE_SETREGS, c, 0, &r) == 0);
	struct user_fpregs_struct fp;
	struct iovec iov = { &fp, sizeof(fp) };

	CHECK("FP registers", ptrace(PTRACE_GETFPREGS, c, 0, &fp) == 0 && fp.mxcsr == 0x1f80);
	CHECK("regset", ptrace(PTRACE_GETREGSET, c, (void *)NT_PRFPREG, &iov) == 0 &&
				iov.iov_len == 512);
	fp.xmm_space[60] = 0x1234;
	CHECK("set FP registers", ptrace(PTRACE_SETFPREGS, c, 0, &fp) == 0);
	memset(&fp, 0, sizeof(fp));
	ptrace(PTRACE_GETFPREGS, c, 0, &fp);
	CHECK("they stay", fp.xmm_space[60] == 0x1234);
	CHECK_ERRNO("bad options", ptrace(PTRACE_SETOPTIONS, c, 0, 0x40000000L), EINVAL);
	ptrace(PTRACE_CONT, c, 0, 0);
	st = wait_for(c);
	CHECK("what was poked", WIFEXITED(st) && WEXITSTATUS(st) == 77);
	CHECK_ERRNO("nobody", ptrace(PTRACE_CONT, 0x3fffff, 0, 0), ESRCH);
	CHECK_ERRNO("not a tracee", ptrace(PTRACE_CONT, getppid(), 0, 0), ESRCH);
}

static volatile int g_handled;

static void on_usr(int s)
{
	g_handled = s;
}

static int child_signals(void)
{
	signal(SIGUSR1, on_usr);
	signal(SIGUSR2, on_usr);
	raise(SIGUSR1); /* swallowed */
	int bad = g_handled != 0;

	raise(SIGUSR1); /* becomes SIGUSR2 */
	bad |= g_handled != SIGUSR2;
	return bad;
}

static void test_signals(void)
{
	pid_t c = traced_child(child_signals);
	int st;

	wait_for(c);
	ptrace(PTRACE_CONT, c, 0, 0);
	st = wait_for(c);
	CHECK("delivery stop", WIFSTOPPED(st) && WSTOPSIG(st) == SIGUSR1);
	ptrace(PTRACE_CONT, c, 0, 0);
	wait_for(c);
	ptrace(PTRACE_CONT, c, 0, SIGUSR2);
	st = wait_for(c);
	CHECK("swallowed and changed", WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

static int child_calls(void)
{
	long a = syscall(SYS_getppid);
	long b = syscall(SYS_getuid);

	return a != 12345 || b != -1 || errno != EXDEV;
}

static void test_syscalls(void)
{
	pid_t c = traced_child(child_calls);
	struct user_regs_struct r;
	int st, entries = 0, inside = 0;
	struct __ptrace_syscall_info si;

	wait_for(c);
	ptrace(PTRACE_SETOPTIONS, c, 0, PTRACE_O_TRACESYSGOOD);
	for (;;) {
		ptrace(PTRACE_SYSCALL, c, 0, 0);
		st = wait_for(c);
		if (!WIFSTOPPED(st) || WSTOPSIG(st) != (SIGTRAP | 0x80))
			break;
		ptrace(PTRACE_GETREGS, c, 0, &r);
		long n = ptrace(PTRACE_GET_SYSCALL_INFO, c, sizeof(si), &si);

		inside = !inside;
		entries += inside;
		if (inside && (n <= 0 || si.op != PTRACE_SYSCALL_INFO_ENTRY || si.entry.nr != r.orig_rax ||
			       (long)r.rax != -ENOSYS))
			CHECK("entry stop", 0);
		if (!inside && (n <= 0 || si.op != PTRACE_SYSCALL_INFO_EXIT ||
				si.exit.rval != (int64_t)r.rax))
			CHECK("exit stop", 0);
		if (inside && r.orig_rax == SYS_getuid) {
			r.orig_rax = (uint64_t)-1; /* not at all */
			ptrace(PTRACE_SETREGS, c, 0, &r);
		} else if (!inside && r.orig_rax == SYS_getppid) {
			r.rax = 12345;
			ptrace(PTRACE_SETREGS, c, 0, &r);
		} else if (!inside && (int)r.orig_rax == -1) {
			r.rax = (uint64_t)-EXDEV;
			ptrace(PTRACE_SETREGS, c, 0, &r);
		}
	}
	CHECK("stops in pairs", entries >= 3);
	CHECK("results changed", WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

static int child_forks(void)
{
	pid_t c = fork();

	if (c == 0)
		_exit(3);
	waitpid(c, NULL, 0);
	execl("/proc/self/exe", "ptrace", "child", NULL);
	return 9;
}

static void test_events(void)
{
	pid_t c = traced_child(child_forks), kid = 0;
	int st, forks = 0, execs = 0, exits = 0, kid_status = -1;
	unsigned long msg;

	wait_for(c);
	CHECK("options", ptrace(PTRACE_SETOPTIONS, c, 0,
				PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT |
					PTRACE_O_EXITKILL) == 0);
	ptrace(PTRACE_CONT, c, 0, 0);
	for (;;) {
		pid_t p = waitpid(-1, &st, __WALL);
		int sig = 0;

		if (p < 0)
			break;
		if (WIFEXITED(st) || WIFSIGNALED(st)) {
			if (p == c)
				break;
			if (p == kid)
				kid_status = st;
			continue;
		}
		switch (st >> 16) {
		case PTRACE_EVENT_FORK:
			ptrace(PTRACE_GETEVENTMSG, p, 0, &msg);
			kid = (pid_t)msg;
			forks++;
			break;
		case PTRACE_EVENT_EXEC:
			execs++;
			break;
		case PTRACE_EVENT_EXIT:
			exits++;
			break;
		default:
			if (WSTOPSIG(st) != SIGSTOP && WSTOPSIG(st) != SIGTRAP)
				sig = WSTOPSIG(st);
		}
		ptrace(PTRACE_CONT, p, 0, sig);
	}
	CHECK("fork event", forks == 1 && kid > 0);
	CHECK("exec event", execs == 1);
	CHECK("exit events", exits == 2);
	CHECK("the fork's child is traced", kid_status == 3 << 8);
	CHECK("the program ran", WIFEXITED(st) && WEXITSTATUS(st) == 42);
}

static int child_steps(void)
{
	__asm__ volatile("nop; nop; nop");
	return 0;
}

static void test_step(void)
{
	pid_t c = traced_child(child_steps);
	struct user_regs_struct a, b;
	int st, ok = 1;

	wait_for(c);
	for (int i = 0; i < 5; i++) {
		ptrace(PTRACE_GETREGS, c, 0, &a);
		ptrace(PTRACE_SINGLESTEP, c, 0, 0);
		st = wait_for(c);
		ptrace(PTRACE_GETREGS, c, 0, &b);
		ok &= WIFSTOPPED(st) && WSTOPSIG(st) == SIGTRAP && a.rip != b.rip;
		ok &= !(b.eflags & 0x100);
	}
	CHECK("single steps", ok);
	ptrace(PTRACE_CONT, c, 0, 0);
	CHECK("and on", wait_for(c) == 0);
}

static void test_attach(void)
{
	pid_t c = fork();
	int st;

	if (c == 0)
		for (;;)
			pause();
	usleep(5000);
	CHECK("attach", ptrace(PTRACE_ATTACH, c, 0, 0) == 0);
	st = wait_for(c);
	CHECK("stops with SIGSTOP", WIFSTOPPED(st) && WSTOPSIG(st) == SIGSTOP);
	CHECK_ERRNO("twice", ptrace(PTRACE_ATTACH, c, 0, 0), EPERM);
	CHECK("detach", ptrace(PTRACE_DETACH, c, 0, 0) == 0);
	CHECK_ERRNO("then it is not ours", ptrace(PTRACE_CONT, c, 0, 0), ESRCH);
	CHECK("seize", ptrace(PTRACE_SEIZE, c, 0, PTRACE_O_TRACESYSGOOD) == 0);
	CHECK("does not stop it", waitpid(c, &st, WNOHANG | __WALL) == 0);
	CHECK("interrupt", ptrace(PTRACE_INTERRUPT, c, 0, 0) == 0);
	st = wait_for(c);
	CHECK("event stop", st >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8));
	ptrace(PTRACE_CONT, c, 0, 0);
	kill(c, SIGSTOP);
	st = wait_for(c);
	CHECK("signal first", st >> 8 == SIGSTOP);
	ptrace(PTRACE_CONT, c, 0, SIGSTOP);
	st = wait_for(c);
	CHECK("then the group stop", st >> 8 == (SIGSTOP | PTRACE_EVENT_STOP << 8));
	CHECK("listen", ptrace(PTRACE_LISTEN, c, 0, 0) == 0);
	kill(c, SIGCONT);
	st = wait_for(c);
	CHECK("told of its end", st >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8));
	ptrace(PTRACE_CONT, c, 0, 0);
	kill(c, SIGKILL);
	do
		st = wait_for(c);
	while (WIFSTOPPED(st) && ptrace(PTRACE_CONT, c, 0, 0) <= 0);
	CHECK("killed", WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	CHECK_ERRNO("itself", ptrace(PTRACE_ATTACH, getpid(), 0, 0), EPERM);
}

static void *thread(void *arg)
{
	(void)arg;
	return NULL;
}

static int child_threads(void)
{
	pthread_t t;

	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	return 6;
}

static void test_threads(void)
{
	pid_t c = traced_child(child_threads), tid = 0;
	int st, dead = 0;
	unsigned long msg;

	wait_for(c);
	ptrace(PTRACE_SETOPTIONS, c, 0, PTRACE_O_TRACECLONE);
	ptrace(PTRACE_CONT, c, 0, 0);
	for (;;) {
		pid_t p = waitpid(-1, &st, __WALL);

		if (p < 0 || (p == c && !WIFSTOPPED(st)))
			break;
		if (!WIFSTOPPED(st)) {
			dead += p == tid && WIFEXITED(st);
			continue;
		}
		if (st >> 16 == PTRACE_EVENT_CLONE) {
			ptrace(PTRACE_GETEVENTMSG, p, 0, &msg);
			tid = (pid_t)msg;
		}
		ptrace(PTRACE_CONT, p, 0, 0);
	}
	CHECK("clone event", tid > 0);
	CHECK("a traced thread's end is told", dead == 1);
	CHECK("the process goes on", WIFEXITED(st) && WEXITSTATUS(st) == 6);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return 42;
	test_memory();
	test_signals();
	test_syscalls();
	test_events();
	test_step();
	test_attach();
	test_threads();
	return guest_done();
}
