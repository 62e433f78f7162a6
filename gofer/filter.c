/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host calls a serving gofer may make. The list below is the truth behind the #hostcalls notes
 * of the op_*.c files; a gofer without writable trees loses the second half of it. Whatever is
 * not listed kills the process. Arguments are checked where they are numbers: the socket and log
 * fds, the flags that forbid following links, the types mknod may make.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "gofer/gofer.h"
#include "platform/base/log.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

struct call {
	int nr;
	int writes; /* only with writable trees */
	int args;
	struct scmp_arg_cmp arg[2];
};

/* dirfd arguments must be real fds: AT_FDCWD is negative. */
/* clang-format off */
#define DIRFD(i) { i, SCMP_CMP_MASKED_EQ, 0x80000000u, 0 }
#define IS(i, v) { i, SCMP_CMP_EQ, (uint64_t)(v), 0 }
#define MASKED(i, mask, v) { i, SCMP_CMP_MASKED_EQ, (uint64_t)(mask), (uint64_t)(v) }
#define NO_ARGS { { 0, 0, 0, 0 } }
/* clang-format on */
#define STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH)

static const struct call g_calls[] = {
	{ SYS_statx, 0, 2, { DIRFD(0), IS(2, STAT_FLAGS) } },
	{ SYS_openat2, 0, 2, { DIRFD(0), IS(3, sizeof(struct open_how)) } },
	{ SYS_close, 0, 0, NO_ARGS },
	{ SYS_getdents64, 0, 0, NO_ARGS },
	{ SYS_lseek, 0, 1, { IS(2, SEEK_SET) } },
	{ SYS_readlinkat, 0, 1, { DIRFD(0) } },
	{ SYS_fstatfs, 0, 0, NO_ARGS },
	{ SYS_fgetxattr, 0, 0, NO_ARGS },
	{ SYS_flistxattr, 0, 0, NO_ARGS },
	{ SYS_fsync, 0, 0, NO_ARGS },
	{ SYS_clock_gettime, 0, 0, NO_ARGS },
	{ SYS_exit_group, 0, 0, NO_ARGS },

	{ SYS_mkdirat, 1, 1, { DIRFD(0) } },
	{ SYS_mknodat, 1, 2, { DIRFD(0), MASKED(2, S_IFMT, S_IFIFO) } },
	{ SYS_mknodat, 1, 2, { DIRFD(0), MASKED(2, S_IFMT, S_IFSOCK) } },
	{ SYS_symlinkat, 1, 1, { DIRFD(1) } },
	{ SYS_linkat, 1, 2, { DIRFD(0), IS(4, 0) } },
	{ SYS_unlinkat, 1, 2, { DIRFD(0), MASKED(2, ~(uint32_t)AT_REMOVEDIR, 0) } },
	{ SYS_renameat2, 1, 2, { DIRFD(0), DIRFD(2) } },
	{ SYS_fchownat, 1, 2, { DIRFD(0), IS(4, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) } },
	{ SYS_utimensat, 1, 2, { DIRFD(0), IS(3, AT_EMPTY_PATH) } },
	{ SYS_ftruncate, 1, 0, NO_ARGS },
	{ SYS_fsetxattr, 1, 0, NO_ARGS },
	{ SYS_fremovexattr, 1, 0, NO_ARGS },
};

static int add(scmp_filter_ctx ctx, const struct call *c)
{
	return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, c->nr, (unsigned int)c->args, c->arg);
}

/* The socket, the log, and whichever chmod this kernel has. */
static int add_variable(scmp_filter_ctx ctx, const struct gofer *g, const struct gofer_conf *c)
{
	const struct call recv = { SYS_recvmsg, 0, 1, { IS(0, c->sock) } };
	const struct call send = { SYS_sendmsg, 0, 1, { IS(0, c->sock) } };
	const struct call log = { SYS_write, 0, 1, { IS(0, c->log_fd) } };
	const struct call chmod2 = { SYS_fchmodat2, 1, 2, { DIRFD(0), IS(3, AT_EMPTY_PATH) } };
	const struct call fsuid = { SYS_setfsuid, 0, 0, NO_ARGS };
	const struct call fsgid = { SYS_setfsgid, 0, 0, NO_ARGS };
	const struct call death = { SYS_prctl, 0, 2, { IS(0, PR_SET_PDEATHSIG), IS(1, SIGKILL) } };
	const struct call chmod1 = { SYS_fchmod, 1, 0, NO_ARGS };
	int err = add(ctx, &recv);

	if (!err)
		err = add(ctx, &send);
	if (!err && c->log_fd >= 0)
		err = add(ctx, &log);
	if (!err && g->two_identities)
		err = add(ctx, &fsuid);
	if (!err && g->two_identities)
		err = add(ctx, &fsgid);
	if (!err && g->two_identities && g->pdeathsig)
		err = add(ctx, &death);
	if (!err && c->any_writable)
		err = add(ctx, g->have_fchmodat2 ? &chmod2 : &chmod1);
	return err;
}

/* #hostcalls: seccomp prctl */
int filter_install(const struct gofer *g, const struct gofer_conf *c)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int err = 0;

	if (!ctx)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(g_calls) / sizeof(g_calls[0]) && !err; i++)
		if (!g_calls[i].writes || c->any_writable)
			err = add(ctx, &g_calls[i]);
	if (!err)
		err = add_variable(ctx, g, c);
	if (!err)
		err = seccomp_load(ctx);
	seccomp_release(ctx);
	return err;
}
