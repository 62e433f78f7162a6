/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and signal states of inherit.h. */
#include "runtime/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/bootconf.h"
#include "runtime/error.h"

#define MIB (1ull << 20)
#define STACK_SIZE (8 * MIB) /* of our own threads, and of what stubs start with */
#define FILES_WANTED 65536u

/* What our own processes need: `least` of it, or else the word for the user. */
static const struct {
	int which;
	const char *name, *option; /* the option is ulimit's; NULL: we can do with any value */
	uint64_t least;
} g_limits[] = {
	{ RLIMIT_AS, "AS", "-v", RLIM_INFINITY },	/* the memory file is mapped whole */
	{ RLIMIT_FSIZE, "FSIZE", "-f", RLIM_INFINITY }, /* and is as long as the host's memory */
	{ RLIMIT_DATA, "DATA", "-d", 512 * MIB },
	{ RLIMIT_CPU, "CPU", "-t", RLIM_INFINITY },
	{ RLIMIT_NOFILE, "NOFILE", "-n", 256 },
	{ RLIMIT_NPROC, "NPROC", NULL, 0 },
	{ RLIMIT_STACK, "STACK", NULL, 0 },
	{ RLIMIT_CORE, "CORE", NULL, 0 },
	{ RLIMIT_RSS, "RSS", NULL, 0 },
	{ RLIMIT_MEMLOCK, "MEMLOCK", NULL, 0 },
	{ RLIMIT_LOCKS, "LOCKS", NULL, 0 },
	{ RLIMIT_SIGPENDING, "SIGPENDING", NULL, 0 },
	{ RLIMIT_MSGQUEUE, "MSGQUEUE", NULL, 0 },
	{ RLIMIT_NICE, "NICE", NULL, 0 },
	{ RLIMIT_RTPRIO, "RTPRIO", NULL, 0 },
	{ RLIMIT_RTTIME, "RTTIME", NULL, 0 },
};

/* To the hard limit, or past it where we may. */
static void raise_limit(int which, struct rlimit r)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (which == RLIMIT_STACK) {
		all.rlim_cur = STACK_SIZE;
	} else if (which == RLIMIT_NOFILE) {
		if (r.rlim_max < FILES_WANTED)
			r.rlim_max = FILES_WANTED;
		all = (struct rlimit){ r.rlim_max, r.rlim_max };
	}
	if (setrlimit(which, &all) == 0 || getrlimit(which, &r) != 0)
		return;
	r.rlim_cur = which == RLIMIT_STACK && r.rlim_max > STACK_SIZE ? STACK_SIZE : r.rlim_max;
	setrlimit(which, &r);
}

static void take_limits(struct inherited *in)
{
	for (size_t i = 0; i < sizeof(g_limits) / sizeof(*g_limits); i++) {
		struct rlimit r;

		getrlimit(g_limits[i].which, &in->limit[g_limits[i].which]);
		r = in->limit[g_limits[i].which];
		if (g_limits[i].least || g_limits[i].which == RLIMIT_STACK)
			raise_limit(g_limits[i].which, r);
		if (g_limits[i].option && getrlimit(g_limits[i].which, &r) == 0 && r.rlim_cur < g_limits[i].least)
			die(EXIT_SETUP, "the limit 'ulimit %s' leaves a sandbox no room; raise its hard limit and try again",
			    g_limits[i].option);
	}
}

/* rt_sigaction's struct on x86-64. */
struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

/* By the kernel's own calls: libc's keep two signals to themselves, which can be ignored as well. */
static void take_signals(struct inherited *in)
{
	const struct kernel_sigaction dfl = { .handler = (void *)SIG_DFL };
	const uint64_t none = 0;

	for (int sig = 1; sig < NSIG; sig++) {
		struct kernel_sigaction sa;

		if (syscall(SYS_rt_sigaction, sig, NULL, &sa, sizeof(sa.mask)) != 0 ||
		    sa.handler != (void *)SIG_IGN)
			continue;
		in->ignored |= 1ull << (sig - 1);
		syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof(sa.mask));
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, &in->blocked, sizeof(none));
}

void inherit_take(struct inherited *in)
{
	memset(in, 0, sizeof(*in));
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		in->missing |= 1 << fd;
		if (open("/dev/null", O_RDWR) != fd)
			die(EXIT_SETUP, "fd %d is closed and /dev/null can not take its place", fd);
	}
	take_limits(in);
	take_signals(in);
	in->umask = (unsigned)umask(022);
	errno = 0;
	in->nice = getpriority(PRIO_PROCESS, 0);
}

static int give_limit(struct bootconf *conf, const char *name, const struct rlimit *r)
{
	char soft[24] = "unlimited", hard[24] = "unlimited";

	if (r->rlim_cur != RLIM_INFINITY)
		snprintf(soft, sizeof(soft), "%llu", (unsigned long long)r->rlim_cur);
	if (r->rlim_max != RLIM_INFINITY)
		snprintf(hard, sizeof(hard), "%llu", (unsigned long long)r->rlim_max);
	return bootconf_addf(conf, "rlimit", "%s:%s:%s", name, soft, hard);
}

int inherit_give(const struct inherited *in, struct bootconf *conf)
{
	int err = bootconf_add_u64(conf, "umask", in->umask);

	for (size_t i = 0; i < sizeof(g_limits) / sizeof(*g_limits) && !err; i++)
		err = give_limit(conf, g_limits[i].name, &in->limit[g_limits[i].which]);
	if (!err && in->ignored)
		err = bootconf_add_u64(conf, "ignored_signals", in->ignored);
	if (!err && in->blocked)
		err = bootconf_add_u64(conf, "blocked_signals", in->blocked);
	if (!err && in->nice)
		err = bootconf_addf(conf, "nice", "%d", in->nice);
	return err;
}
