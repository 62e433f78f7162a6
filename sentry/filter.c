/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry's own seccomp filter, installed once everything that needs a path, a socket or a
 * program is open. From then on: memory without PROT_EXEC, threads but no processes, I/O on fds it
 * holds, guest memory by process_vm_*, seccomp notifications. What is not listed gives ENOSYS, on
 * which the C library falls back where it can (clone3, mremap).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "platform/host/filter.h"
#include "sentry/boot.h"

#define ANY(n) { .name = n }
#define ONE_ARG(n, i, o, v, m)                                                         \
	{                                                                              \
		.name = n, .arg_count = 1,                                             \
		.arg = { { .index = i, .op = o, .value = (uint64_t)(v), .mask = (uint64_t)(m) } } \
	}
#define ARG_IS(n, i, v) ONE_ARG(n, i, HOST_ARG_EQ, v, 0)
#define ARG_LACKS(n, i, m) ONE_ARG(n, i, HOST_ARG_MASKED, 0, m)
#define ARG_HAS(n, i, m) ONE_ARG(n, i, HOST_ARG_MASKED, m, m)

static const struct host_filter_rule g_rules[] = {
	/* fds: gofer files, stdio, memory file, links */
	ANY("write"),
	ANY("pread64"),
	ANY("pwrite64"),
	ANY("preadv2"),
	ANY("pwritev2"),
	ANY("lseek"),
	ANY("close"),
	ANY("fsync"),
	ANY("fdatasync"),
	ANY("ftruncate"),
	ANY("fallocate"),
	ARG_IS("newfstatat", 3, AT_EMPTY_PATH),
	ARG_IS("fcntl", 1, F_GETFL),
	ARG_IS("ioctl", 1, FIONREAD),
	ARG_IS("ioctl", 1, SECCOMP_IOCTL_NOTIF_RECV),
	ARG_IS("ioctl", 1, SECCOMP_IOCTL_NOTIF_SEND),
	ARG_IS("ioctl", 1, SECCOMP_IOCTL_NOTIF_ID_VALID),
	ARG_IS("ioctl", 1, SECCOMP_IOCTL_NOTIF_ADDFD),
	ANY("poll"),
	ANY("epoll_ctl"),
	ANY("epoll_wait"),
	/* sockets that are open already: gofer, runtime, links */
	ANY("sendmsg"),
	ANY("recvmsg"),
	ANY("sendmmsg"),
	ANY("recvmmsg"),
	/* memory and threads */
	ARG_LACKS("mmap", 2, PROT_EXEC),
	ARG_LACKS("mprotect", 2, PROT_EXEC),
	ANY("munmap"),
	ANY("madvise"),
	ANY("brk"),
	ARG_HAS("clone", 0, CLONE_VM | CLONE_THREAD),
	ANY("rseq"),		 /* glibc will not start a thread without */
	ANY("set_robust_list"), /* as it does for each thread */
	ANY("futex"),
	ANY("rt_sigprocmask"),
	ARG_IS("prctl", 0, PR_SET_NAME),
	ANY("exit"),
	ANY("exit_group"),
	/* stubs */
	ANY("process_vm_readv"),
	ANY("process_vm_writev"),
	ANY("kill"),
	ANY("tgkill"),
	ANY("waitid"),
	ANY("setpriority"),
	ANY("sched_setaffinity"),
	/* time, random numbers, usage */
	ANY("clock_gettime"),
	ANY("restart_syscall"), /* timed waits, after SIGSTOP and SIGCONT or a freezer */
	ANY("getrandom"),
	ANY("getrusage"),
#ifdef __SANITIZE_ADDRESS__
	ANY("sigaltstack"), /* at a thread's end */
#endif
};

int sentry_lockdown(void)
{
	return host_filter_install(g_rules, sizeof(g_rules) / sizeof(*g_rules), ENOSYS);
}
