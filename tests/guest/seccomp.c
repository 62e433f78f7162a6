/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp: strict mode, filters and each of their actions, TSYNC, user notification. */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/guest.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RET(v) BPF_STMT(BPF_RET | BPF_K, (v))

static long sc(unsigned int op, unsigned int flags, void *arg)
{
	return syscall(SYS_seccomp, op, flags, arg);
}

/* One call gets an action, all others are allowed. */
static long filter_call(long nr, uint32_t action, unsigned int flags)
{
	struct sock_filter f[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		RET(action),
		RET(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { .len = 4, .filter = f };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return sc(SECCOMP_SET_MODE_FILTER, flags, &p);
}

/* Runs fn in a child; its wait status. */
static int in_child(int (*fn)(void))
{
	int st;
	pid_t c = fork();

	if (c == 0)
		_exit(fn());
	waitpid(c, &st, 0);
	return st;
}

static int strict_ok(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	write(-1, "", 0);
	syscall(SYS_exit, 7);
	return 1;
}

static int strict_bad(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	getppid();
	return 1;
}

static int act_errno(void)
{
	int bad = prctl(PR_GET_SECCOMP) != 0;

	bad |= filter_call(SYS_getppid, SECCOMP_RET_ERRNO | 77, 0) != 0;
	errno = 0;
	bad |= syscall(SYS_getppid) != -1 || errno != 77;
	bad |= syscall(SYS_getpid) <= 0;
	bad |= prctl(PR_GET_SECCOMP) != 2;
	/* Newer filters add, never take away. */
	bad |= filter_call(SYS_getppid, SECCOMP_RET_ALLOW, 0) != 0;
	errno = 0;
	bad |= syscall(SYS_getppid) != -1 || errno != 77;
	bad |= filter_call(SYS_getuid, SECCOMP_RET_ERRNO | 0xffff, 0) != 0;
	errno = 0;
	bad |= syscall(SYS_getuid) != -1 || errno != 4095;
	return bad;
}

static volatile int g_trapped, g_trap_nr, g_trap_arch, g_trap_errno, g_trap_code;

static void on_sys(int s, siginfo_t *si, void *u)
{
	(void)s;
	(void)u;
	g_trapped++;
	g_trap_nr = si->si_syscall;
	g_trap_arch = (int)si->si_arch;
	g_trap_errno = si->si_errno;
	g_trap_code = si->si_code;
}

static int act_trap(void)
{
	struct sigaction sa = { .sa_sigaction = on_sys, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &sa, NULL);
	filter_call(SYS_getppid, SECCOMP_RET_TRAP | 9, 0);
	long r = syscall(SYS_getppid);

	return g_trapped != 1 || g_trap_nr != SYS_getppid || g_trap_arch != (int)AUDIT_ARCH_X86_64 ||
	       g_trap_errno != 9 || g_trap_code != 1 || r != SYS_getppid;
}

static int act_kill_process(void)
{
	filter_call(SYS_getppid, SECCOMP_RET_KILL_PROCESS, 0);
	syscall(SYS_getppid);
	return 0;
}

static void *killed_thread(void *arg)
{
	(void)arg;
	syscall(SYS_getppid);
	return (void *)1;
}

static int act_kill_thread(void)
{
	pthread_t t;

	filter_call(SYS_getppid, SECCOMP_RET_KILL_THREAD, 0);
	pthread_create(&t, NULL, killed_thread, NULL);
	usleep(20000);
	return 5; /* this thread lives */
}

static int act_trace(void)
{
	filter_call(SYS_getppid, SECCOMP_RET_TRACE, 0);
	errno = 0;
	return syscall(SYS_getppid) != -1 || errno != ENOSYS;
}

static int act_log(void)
{
	filter_call(SYS_getppid, SECCOMP_RET_LOG, 0);
	return syscall(SYS_getppid) < 0;
}

static int args_and_inherit(void)
{
	struct sock_filter f[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RET(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lseek, 0, 3),
		LOAD(args[1]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x12345678, 0, 1),
		RET(SECCOMP_RET_ERRNO | 99),
		RET(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { .len = 9, .filter = f };
	int st, bad;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	bad = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) != 0;
	bad |= lseek(-1, 1, 0) != -1 || errno != EBADF;
	bad |= lseek(-1, 0x12345678, 0) != -1 || errno != 99;
	pid_t c = fork();

	if (c == 0)
		_exit(lseek(-1, 0x12345678, 0) != -1 || errno != 99);
	waitpid(c, &st, 0);
	return bad | st;
}

static volatile int g_go, g_thread_result = -1, g_ready;

static void *sync_thread(void *arg)
{
	(void)arg;
	g_ready = 1;
	while (!g_go)
		usleep(500);
	errno = 0;
	g_thread_result = syscall(SYS_getppid) == -1 && errno == 55;
	return NULL;
}

static int tsync(void)
{
	pthread_t t;
	int bad;

	pthread_create(&t, NULL, sync_thread, NULL);
	while (!g_ready)
		usleep(500);
	bad = filter_call(SYS_getppid, SECCOMP_RET_ERRNO | 55, SECCOMP_FILTER_FLAG_TSYNC) != 0;
	g_go = 1;
	pthread_join(t, NULL);
	return bad | (g_thread_result != 1);
}

static volatile int g_other_tid;

static void *own_filter_thread(void *arg)
{
	(void)arg;
	filter_call(SYS_getuid, SECCOMP_RET_ERRNO | 1, 0);
	g_other_tid = (int)syscall(SYS_gettid);
	while (!g_go)
		usleep(500);
	return NULL;
}

static int tsync_fails(void)
{
	pthread_t t;
	int bad;

	pthread_create(&t, NULL, own_filter_thread, NULL);
	while (!g_other_tid)
		usleep(500);
	bad = filter_call(SYS_getppid, SECCOMP_RET_ERRNO | 55, SECCOMP_FILTER_FLAG_TSYNC) !=
	      g_other_tid;
	errno = 0;
	bad |= filter_call(SYS_getppid, SECCOMP_RET_ERRNO | 55,
			   SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH) != -1 ||
	       errno != ESRCH;
	bad |= syscall(SYS_getppid) < 0;
	g_go = 1;
	pthread_join(t, NULL);
	return bad;
}

static void *supervisor(void *arg)
{
	int fd = (int)(long)arg;
	struct seccomp_notif n;
	struct seccomp_notif_resp r;
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	long bad = 0;

	for (int i = 0; i < 3; i++) {
		memset(&n, 0, sizeof(n));
		bad |= poll(&pf, 1, 2000) != 1;
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &n))
			return (void *)2;
		bad |= n.data.nr != SYS_getppid || n.pid == 0;
		bad |= ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &n.id) != 0;
		memset(&r, 0, sizeof(r));
		r.id = n.id;
		if (i == 0)
			r.val = 4242;
		else if (i == 1)
			r.error = -EXDEV;
		else
			r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		bad |= ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &r) != 0;
	}
	r.id = 999999;
	bad |= ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &r) != -1 || errno != ENOENT;
	return (void *)bad;
}

static volatile long g_asked[3];
static volatile int g_asked_errno, g_listener = -1;

static void *asking_thread(void *arg)
{
	(void)arg;
	g_listener = (int)filter_call(SYS_getppid, SECCOMP_RET_USER_NOTIF,
				      SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (g_listener < 0)
		return NULL;
	g_asked[0] = syscall(SYS_getppid);
	g_asked[1] = syscall(SYS_getppid);
	g_asked_errno = errno;
	g_asked[2] = syscall(SYS_getppid);
	return NULL;
}

static int user_notif(void)
{
	pthread_t a, s;
	void *bad;

	pthread_create(&a, NULL, asking_thread, NULL);
	for (int i = 0; i < 1000 && g_listener < 0; i++)
		usleep(500);
	if (g_listener < 0)
		return 1;
	pthread_create(&s, NULL, supervisor, (void *)(long)g_listener);
	pthread_join(s, &bad);
	pthread_join(a, NULL);
	return bad != NULL || g_asked[0] != 4242 || g_asked[1] != -1 || g_asked_errno != EXDEV ||
	       g_asked[2] != getppid();
}

static int without_privilege(void)
{
	struct sock_filter f = RET(SECCOMP_RET_ALLOW);
	struct sock_fprog p = { .len = 1, .filter = &f };

	if (getuid() == 0 && setuid(12345))
		return 1;
	return sc(SECCOMP_SET_MODE_FILTER, 0, &p) != -1 || errno != EACCES;
}

static long try_prog(struct sock_filter *f, unsigned short len)
{
	struct sock_fprog p = { .len = len, .filter = f };

	return sc(SECCOMP_SET_MODE_FILTER, 0, &p);
}

static int bad_programs(void)
{
	struct sock_filter no_ret[] = { LOAD(nr) };
	struct sock_filter far[] = { BPF_JUMP(BPF_JMP | BPF_JA, 5, 0, 0), RET(0) };
	struct sock_filter odd[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RET(0) };
	struct sock_filter beyond[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), RET(0) };
	struct sock_filter byte[] = { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), RET(0) };
	struct sock_filter mem[] = { BPF_STMT(BPF_LD | BPF_MEM, 3), RET(0) };
	struct sock_filter slot[] = { BPF_STMT(BPF_ST, 16), RET(0) };
	struct sock_filter div[] = { BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RET(0) };
	int ok = 1;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	ok &= try_prog(no_ret, 1) == -1 && errno == EINVAL;
	ok &= try_prog(far, 2) == -1 && errno == EINVAL;
	ok &= try_prog(odd, 2) == -1 && errno == EINVAL;
	ok &= try_prog(beyond, 2) == -1 && errno == EINVAL;
	ok &= try_prog(byte, 2) == -1 && errno == EINVAL;
	ok &= try_prog(mem, 2) == -1 && errno == EINVAL;
	ok &= try_prog(slot, 2) == -1 && errno == EINVAL;
	ok &= try_prog(div, 2) == -1 && errno == EINVAL;
	ok &= try_prog(far, 0) == -1 && errno == EINVAL;
	ok &= try_prog(far, 4097) == -1 && errno == EINVAL;
	ok &= try_prog((void *)8, 1) == -1 && errno == EFAULT;
	return !ok;
}

static int arithmetic(void)
{
	/* ((nr * 3 + 7) ^ 5) >> 1, kept in memory, compared with X. */
	struct sock_filter f[] = {
		LOAD(nr),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 3),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 7),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 5),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),
		BPF_STMT(BPF_ST, 4),
		BPF_STMT(BPF_LDX | BPF_IMM, ((SYS_getppid * 3 + 7) ^ 5) >> 1),
		BPF_STMT(BPF_LD | BPF_MEM, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
		RET(SECCOMP_RET_ERRNO | 42),
		RET(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { .len = 11, .filter = f };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sc(SECCOMP_SET_MODE_FILTER, 0, &p))
		return 1;
	return syscall(SYS_getppid) != -1 || errno != 42;
}

int main(void)
{
	uint32_t act = SECCOMP_RET_ERRNO;
	struct seccomp_notif_sizes sz;
	int st;

	CHECK("mode at first", prctl(PR_GET_SECCOMP) == 0);
	CHECK("ERRNO is there", sc(SECCOMP_GET_ACTION_AVAIL, 0, &act) == 0);
	act = 0x12340000;
	CHECK_ERRNO("nonsense is not", sc(SECCOMP_GET_ACTION_AVAIL, 0, &act), EOPNOTSUPP);
	CHECK("sizes", sc(SECCOMP_GET_NOTIF_SIZES, 0, &sz) == 0 && sz.seccomp_notif == 80 &&
			       sz.seccomp_notif_resp == 24 && sz.seccomp_data == 64);
	CHECK_ERRNO("bad operation", sc(9, 0, NULL), EINVAL);
	CHECK_ERRNO("bad flags", sc(SECCOMP_SET_MODE_FILTER, 1u << 31, NULL), EINVAL);
	CHECK_ERRNO("strict takes no flags", sc(SECCOMP_SET_MODE_STRICT, 1, NULL), EINVAL);
	CHECK_ERRNO("bad prctl mode", prctl(PR_SET_SECCOMP, 77, 0), EINVAL);
	CHECK("strict allows exit and write", in_child(strict_ok) == 7 << 8);
	st = in_child(strict_bad);
	CHECK("strict kills", WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
	CHECK("ERRNO", in_child(act_errno) == 0);
	CHECK("TRAP", in_child(act_trap) == 0);
	st = in_child(act_kill_process);
	CHECK("KILL_PROCESS", WIFSIGNALED(st) && WTERMSIG(st) == SIGSYS);
	CHECK("KILL_THREAD", in_child(act_kill_thread) == 5 << 8);
	CHECK("TRACE without a tracer", in_child(act_trace) == 0);
	CHECK("LOG", in_child(act_log) == 0);
	CHECK("arguments, inheritance", in_child(args_and_inherit) == 0);
	CHECK("TSYNC", in_child(tsync) == 0);
	CHECK("TSYNC that can not be", in_child(tsync_fails) == 0);
	CHECK("user notification", in_child(user_notif) == 0);
	CHECK("without privilege", in_child(without_privilege) == 0);
	CHECK("bad programs", in_child(bad_programs) == 0);
	CHECK("arithmetic", in_child(arithmetic) == 0);
	return guest_done();
}
