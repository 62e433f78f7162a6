/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces, id maps, fds and exec of the sandbox's processes.
 *
 * Order in the child: wait for the parent's id maps, take the mapped ids, detach from the caller's
 * session, put the fds in place, close the rest, exec. The processes finish their own isolation
 * (empty root, capabilities, seccomp) once they have loaded.
 */
#include "runtime/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/options.h"

#define NOBODY 65534u
#define FD_TEMP_BASE 64 /* fds are parked above this while the low numbers are filled */

void launch_fd(struct launch *l, int fd, int to)
{
	l->fds[l->fd_count] = fd;
	l->to[l->fd_count++] = to;
}

/* Is `id` one of those that the caller's own user namespace has? */
static int id_is_mapped(const char *own, unsigned long id)
{
	unsigned long inside, outside, count;
	FILE *f = fopen(own, "re");
	int found = 0;

	while (f && fscanf(f, "%lu %lu %lu", &inside, &outside, &count) == 3)
		found |= id >= inside && id - inside < count;
	if (f)
		fclose(f);
	return found;
}

static int look_for_privileges(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	if (syscall(SYS_capget, &h, d) != 0)
		return 0;
	const uint32_t need = (1u << CAP_SETUID) | (1u << CAP_SETGID) | (1u << CAP_SYS_ADMIN);

	/* Root of a namespace with a single id has nobody else to hand the sentry to. */
	return (d[0].effective & need) == need && id_is_mapped("/proc/self/uid_map", NOBODY) &&
	       id_is_mapped("/proc/self/gid_map", NOBODY);
}

int launch_is_privileged(void)
{
	static int known; /* 1 no, 2 yes */

	if (!known)
		known = 1 + look_for_privileges();
	return known - 1;
}

void launch_find_binary(const char *name, char *path, size_t size)
{
	static const char *const places[] = { "", "../libexec/caisson/" };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		die(EXIT_SETUP, "/proc is not mounted here; caisson needs it to find its own parts");
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if ((size_t)snprintf(path, size, "%s/%s%s", self, places[i], name) >= size)
			die(EXIT_SETUP, "caisson is installed under too long a path");
		if (access(path, X_OK) == 0)
			return;
	}
	die(EXIT_SETUP, "%s is missing beside %s; install caisson again", name, self);
}

static int write_proc(pid_t pid, const char *file, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, strlen(text));
	int err = n < 0 ? -errno : 0;

	close(fd);
	return err;
}

/* "A A COUNT" for each range of ids that exists in the caller's own namespace. */
static void identity_map(const char *own, char *out, size_t size)
{
	unsigned long inside, outside, count;
	FILE *f = fopen(own, "re");
	size_t len = 0;

	out[0] = '\0';
	if (!f)
		return;
	while (fscanf(f, "%lu %lu %lu", &inside, &outside, &count) == 3 && len + 64 < size)
		len += (size_t)snprintf(out + len, size - len, "%lu %lu %lu\n", inside, inside, count);
	fclose(f);
}

static int write_maps(pid_t pid, const struct launch *l)
{
	char uids[2048], gids[2048];
	int err;

	if (!launch_is_privileged()) {
		snprintf(uids, sizeof(uids), "0 %u 1\n", (unsigned)geteuid());
		snprintf(gids, sizeof(gids), "0 %u 1\n", (unsigned)getegid());
		err = write_proc(pid, "setgroups", "deny");
		if (err && err != -ENOENT)
			return err;
	} else if (l->uid_map && *l->uid_map && l->gid_map && *l->gid_map) {
		snprintf(uids, sizeof(uids), "%s", l->uid_map);
		snprintf(gids, sizeof(gids), "%s", l->gid_map);
	} else if (l->ids == LAUNCH_IDS_ALL) {
		identity_map("/proc/self/uid_map", uids, sizeof(uids));
		identity_map("/proc/self/gid_map", gids, sizeof(gids));
	} else {
		snprintf(uids, sizeof(uids), "0 %u 1\n", NOBODY);
		snprintf(gids, sizeof(gids), "0 %u 1\n", NOBODY);
	}
	err = write_proc(pid, "uid_map", uids);
	return err ? err : write_proc(pid, "gid_map", gids);
}

__attribute__((noreturn)) static void child_fail(int report, const char *step)
{
	dprintf(report, "%s: %s", step, strerror(errno));
	_exit(EXIT_SETUP);
}

/* The lowest fd from `from` on that the process keeps up to its exec; ~0 for none. */
static unsigned kept_from(const struct launch *l, unsigned from, int report, int bin)
{
	unsigned best = ~0u;
	const int more[] = { l->conf_fd, report, bin };

	for (size_t i = 0; i < l->fd_count; i++)
		if ((unsigned)l->to[i] >= from && (unsigned)l->to[i] < best)
			best = (unsigned)l->to[i];
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
		if (more[i] >= 0 && (unsigned)more[i] >= from && (unsigned)more[i] < best)
			best = (unsigned)more[i];
	return best;
}

/* In the new process, after the parent's go: becomes the binary. */
__attribute__((noreturn)) static void child_main(const struct launch *l, int conf, int report,
						 int in_userns)
{
	static const int stop[] = { SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH,
				    SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
	char conf_arg[16];
	sigset_t none;

	/* The runtime's own dispositions and mask must not leak. */
	for (size_t i = 0; i < sizeof(stop) / sizeof(*stop); i++)
		signal(stop[i], SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (in_userns) {
		if (setgroups(0, NULL) != 0 && errno != EPERM)
			child_fail(report, "setgroups");
		if (setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0)
			child_fail(report, "taking the mapped ids");
	}
	setsid();
	umask(0);
	int bin = open(l->binary, O_RDONLY | O_CLOEXEC);

	if (bin < 0 && errno != EACCES)
		child_fail(report, l->binary);
	/* Out of the way of the numbers they are to get, each to wherever there is room. */
	int temp[LAUNCH_FDS_MAX], conf_temp = fcntl(conf, F_DUPFD_CLOEXEC, FD_TEMP_BASE);
	int report_temp = fcntl(report, F_DUPFD_CLOEXEC, FD_TEMP_BASE);
	int bin_temp = bin < 0 ? -1 : fcntl(bin, F_DUPFD_CLOEXEC, FD_TEMP_BASE);

	if (conf_temp < 0 || report_temp < 0 || (bin >= 0 && bin_temp < 0))
		child_fail(report, "moving file descriptors");
	report = report_temp;
	for (size_t i = 0; i < l->fd_count; i++) {
		temp[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, FD_TEMP_BASE);
		if (temp[i] < 0)
			child_fail(report, "moving file descriptors");
	}
	for (size_t i = 0; i < l->fd_count; i++)
		if (dup2(temp[i], l->to[i]) < 0)
			child_fail(report, "placing file descriptors");
	if (dup2(conf_temp, l->conf_fd) < 0)
		child_fail(report, "placing file descriptors");
	/* Keep 0-2, the given numbers, and the two close-on-exec ones; all others go. */
	for (unsigned fd = 3, next; fd != ~0u; fd = next + (next != ~0u)) {
		next = kept_from(l, fd, report, bin_temp);
		if (next > fd && syscall(SYS_close_range, fd, next == ~0u ? next : next - 1, 0) != 0)
			child_fail(report, "close_range");
	}
	prctl(PR_SET_PDEATHSIG, l->outlives ? 0 : SIGKILL);
	snprintf(conf_arg, sizeof(conf_arg), "%d", l->conf_fd);
	char *argv[] = { (char *)l->binary, conf_arg, NULL };
	char *envp[] = { NULL };

	if (bin_temp >= 0)
		syscall(SYS_execveat, bin_temp, "", argv, envp, AT_EMPTY_PATH);
	execve(l->binary, argv, envp);
	child_fail(report, l->binary);
}

static int conf_memfd(const struct launch *l)
{
	int fd = memfd_create("bootconf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		die(EXIT_SETUP, "memfd_create: %s", strerror(errno));
	int err = bootconf_write(l->conf, fd);

	if (err)
		die(EXIT_SETUP, "handing the configuration to the %s: %s", l->what, strerror(-err));
	lseek(fd, 0, SEEK_SET);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}

static const struct {
	enum weaker_layer layer;
	unsigned long flag;
	const char *what;
} g_namespaces[] = {
	{ WEAKER_USERNS, CLONE_NEWUSER, "a user namespace" },
	{ WEAKER_PIDNS, CLONE_NEWPID, "a pid namespace" },
	{ WEAKER_MOUNTNS, CLONE_NEWNS, "a mount namespace" },
	{ WEAKER_NETNS, CLONE_NEWNET, "a network namespace" },
	{ WEAKER_IPCNS, CLONE_NEWIPC, "an ipc namespace" },
};

/* Which single namespace is refused, for the message. */
static size_t refused_namespace(unsigned long userns)
{
	for (size_t i = 0; i < sizeof(g_namespaces) / sizeof(*g_namespaces); i++) {
		unsigned long f = g_namespaces[i].flag | (i ? userns : 0);
		pid_t pid = (pid_t)syscall(SYS_clone, f | SIGCHLD, NULL, NULL, NULL, NULL);

		if (pid == 0)
			_exit(0);
		if (pid < 0)
			return i;
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static void begin(struct launch *l)
{
	int go[2], report[2];
	unsigned long flags = 0;
	int conf = conf_memfd(l);

	if (pipe2(go, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
		die(EXIT_SETUP, "pipe: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(g_namespaces) / sizeof(*g_namespaces); i++)
		if (!(l->weaker & g_namespaces[i].layer) &&
		    !(l->host_network && g_namespaces[i].flag == CLONE_NEWNET))
			flags |= g_namespaces[i].flag;
	if (l->empty_netns)
		flags &= ~(unsigned long)CLONE_NEWNET;
	flags |= CLONE_NEWUTS & ((l->weaker & WEAKER_USERNS) ? 0 : ~0ul);
	pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid < 0) {
		int err = errno;
		size_t i = refused_namespace(flags & CLONE_NEWUSER);

		die(EXIT_SETUP,
		    "this host refuses %s (%s); run as root, enable user namespaces, or accept less "
		    "isolation with --allow-weaker=%s ('caisson doctor' tells more)",
		    g_namespaces[i].what, strerror(err), weaker_layer_name(g_namespaces[i].layer));
	}
	if (pid == 0) {
		char c;

		close(go[1]);
		close(report[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &c, 1) != 1)
			_exit(EXIT_SETUP);
		child_main(l, conf, report[1], (flags & CLONE_NEWUSER) != 0);
	}
	close(go[0]);
	close(report[1]);
	close(conf);
	if (flags & CLONE_NEWUSER) {
		int err = write_maps(pid, l);

		if (err) {
			kill(pid, SIGKILL);
			die(EXIT_SETUP,
			    "the id map of the %s's user namespace is refused (%s); accept less "
			    "isolation with --allow-weaker=userns",
			    l->what, strerror(-err));
		}
	}
	if (l->oom_score_adj) /* takes a right that few have inside of a container */
		write_proc(pid, "oom_score_adj", l->oom_score_adj);
	if (l->cgroup)
		cgroup_add(l->cgroup, pid);
	if (write(go[1], "g", 1) != 1)
		die(EXIT_SETUP, "the %s process ended at once", l->what);
	close(go[1]);
	l->pid = pid;
	l->report = report[0];
}

static void finish(struct launch *l)
{
	/* The report pipe closes with exec; text in it is why that failed. */
	char why[512];
	size_t len = 0;
	ssize_t n;

	while ((n = read(l->report, why + len, sizeof(why) - 1 - len)) > 0)
		len += (size_t)n;
	why[len] = '\0';
	close(l->report);
	if (len) {
		waitpid(l->pid, NULL, 0);
		die(EXIT_SETUP, "starting the %s: %s", l->what, why);
	}
}

/*
 * Making a network namespace costs a millisecond, more than all others together. Neither process
 * can make a socket, so one empty namespace does for both where the caller may make it; it is owned
 * by the caller's user namespace, so that nobody inside has a right over it. The fd of the caller's
 * own one, or -1: each makes its own.
 */
static int enter_empty_netns(void)
{
	int own = launch_is_privileged() ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1;

	if (own >= 0 && unshare(CLONE_NEWNET) != 0) {
		close(own);
		return -1;
	}
	return own;
}

void launch_both(struct launch *a, struct launch *b)
{
	int own = (a->weaker | b->weaker) & WEAKER_NETNS ? -1 : enter_empty_netns();

	a->empty_netns = b->empty_netns = own >= 0;
	begin(a);
	begin(b);
	if (own >= 0) {
		if (setns(own, CLONE_NEWNET) != 0)
			die(EXIT_SETUP, "leaving the sandbox's network namespace: %s", strerror(errno));
		close(own);
	}
	finish(a);
	finish(b);
}

void launch_one(struct launch *l)
{
	begin(l);
	finish(l);
}
