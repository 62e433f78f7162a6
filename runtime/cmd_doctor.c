/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `caisson doctor`: what this host offers, one line a check, by trying it. Exit status 0 when a
 * full-strength sandbox can run, 1 when something needed is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/command.h"
#include "runtime/error.h"
#include "runtime/launch.h"

#define HWCAP2_FSGSBASE_BIT 2

enum verdict { GOOD, MISSING, OPTIONAL };

struct check {
	const char *name;
	enum verdict (*fn)(char *why, size_t size);
};

static enum verdict check_kernel(char *why, size_t size)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	snprintf(why, size, "Linux %s; 5.14 or later is needed", u.release);
	return major > 5 || (major == 5 && minor >= 14) ? GOOD : MISSING;
}

static enum verdict check_cpu(char *why, size_t size)
{
	int ok = (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT) != 0;

	snprintf(why, size, "%s", ok ? "user-mode FSGSBASE works" :
		"the CPU or kernel does not allow FSGSBASE; boot without 'nofsgsbase'");
	return ok ? GOOD : MISSING;
}

static enum verdict check_seccomp(char *why, size_t size)
{
	char text[256] = "";
	int fd = open("/proc/sys/kernel/seccomp/actions_avail", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	int ok = n > 0 && strstr(text, "trap") && strstr(text, "user_notif");

	snprintf(why, size, "%s", ok ? "trap and user notification are there" :
		"the kernel lacks seccomp trap or user notification (CONFIG_SECCOMP_FILTER)");
	return ok ? GOOD : MISSING;
}

/* A child in new namespaces: 0 or the errno. */
static int try_clone(unsigned long flags)
{
	pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, 0);
	return 0;
}

static enum verdict check_userns(char *why, size_t size)
{
	int err = try_clone(CLONE_NEWUSER);

	if (err)
		snprintf(why, size, "refused (%s): raise user.max_user_namespaces, or the container "
			 "around caisson forbids it; --allow-weaker=userns goes on as root", strerror(err));
	else
		snprintf(why, size, "user namespaces work");
	return err ? MISSING : GOOD;
}

static enum verdict check_namespaces(char *why, size_t size)
{
	static const struct { unsigned long flag; const char *name; } ns[] = {
		{ CLONE_NEWPID, "pidns" }, { CLONE_NEWNS, "mountns" }, { CLONE_NEWNET, "netns" },
		{ CLONE_NEWIPC, "ipcns" },
	};
	unsigned long user = try_clone(CLONE_NEWUSER) ? 0 : CLONE_NEWUSER;

	for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++) {
		int err = try_clone(ns[i].flag | user);

		if (err) {
			snprintf(why, size, "%s is refused (%s); --allow-weaker=%s goes on without",
				 ns[i].name, strerror(err), ns[i].name);
			return MISSING;
		}
	}
	snprintf(why, size, "pid, mount, network and ipc namespaces work");
	return GOOD;
}

static enum verdict check_peek(char *why, size_t size)
{
	static volatile uint64_t word = 42;
	uint64_t got = 0;
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	struct iovec local = { &got, sizeof(got) }, remote = { (void *)(uintptr_t)&word, sizeof(word) };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	int err = errno;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (n == sizeof(got) && got == 42) {
		snprintf(why, size, "process_vm_readv reaches a child");
		return GOOD;
	}
	snprintf(why, size, "process_vm_readv is refused (%s); yama.ptrace_scope must be below 3 and "
		 "the container's seccomp profile must allow it", strerror(err));
	return MISSING;
}

static enum verdict check_landlock(char *why, size_t size)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 1) {
		snprintf(why, size, "not there: the gofer goes without that one layer");
		return OPTIONAL;
	}
	snprintf(why, size, "version %ld", abi);
	return GOOD;
}

static enum verdict check_cgroup(char *why, size_t size)
{
	int v2 = access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0;
	int w = access(v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", W_OK) == 0;

	snprintf(why, size, "%s, %s", v2 ? "version 2" : "version 1",
		 w ? "writable" : "not writable: limits hold inside the sandbox only");
	return w ? GOOD : OPTIONAL;
}

static enum verdict check_parts(char *why, size_t size)
{
	char sentry[4200], gofer[4200];

	launch_find_binary("caisson-sentry", sentry, sizeof(sentry));
	launch_find_binary("caisson-gofer", gofer, sizeof(gofer));
	snprintf(why, size, "%.200s, %.200s", sentry, gofer);
	return GOOD;
}

/* The last proof: a sandbox, from start to exit. */
static enum verdict check_sandbox(char *why, size_t size)
{
	int p[2];
	char text[400] = "";

	if (pipe(p) != 0)
		return MISSING;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(p[1], 2);
		execl("/proc/self/exe", "caisson", "run", "--no-tty", "--timeout", "20", "--",
		      "/bin/true", (char *)NULL);
		_exit(1);
	}
	close(p[1]);
	size_t len = 0;
	ssize_t n;

	while ((n = read(p[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	close(p[0]);
	int status = 0;

	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		snprintf(why, size, "/bin/true ran in a sandbox");
		return GOOD;
	}
	snprintf(why, size, "/bin/true did not run: %s", text[0] ? text : "no message");
	return MISSING;
}

static const struct check g_checks[] = {
	{ "kernel", check_kernel },	    { "cpu", check_cpu },
	{ "seccomp", check_seccomp },	    { "user namespaces", check_userns },
	{ "other namespaces", check_namespaces }, { "guest memory", check_peek },
	{ "landlock", check_landlock },	    { "cgroup", check_cgroup },
	{ "installation", check_parts },    { "sandbox", check_sandbox },
};

int cmd_doctor(int argc, char **argv)
{
	static const char *const words[] = { "ok", "MISSING", "absent" };
	int missing = 0;

	if (argc > 1)
		die(EXIT_SETUP, "doctor takes no arguments");
	(void)argv;
	for (size_t i = 0; i < sizeof(g_checks) / sizeof(*g_checks); i++) {
		char why[700] = "";
		enum verdict v = g_checks[i].fn(why, sizeof(why));

		printf("%-8s %-17s %s\n", words[v], g_checks[i].name, why);
		fflush(stdout);
		missing |= v == MISSING;
	}
	return missing;
}
