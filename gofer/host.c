/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways the gofer looks at the host's tree: statx of one name and openat2 of one name,
 * both relative to an fd, neither following anything. Every other file goes through these.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "gofer/gofer.h"

/* #hostcalls: statx */
int host_stat(int dirfd, const char *name, struct statx *st)
{
	unsigned int want = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;

	/* The flags are one constant for both uses, so that the filter can insist on them. */
	if (syscall(SYS_statx, dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH,
		    want, st) < 0)
		return -errno;
	return 0;
}

/* #hostcalls: openat2 */
int host_open(int dirfd, const char *name, uint64_t flags, uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_NOFOLLOW | O_CLOEXEC,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	if (!(flags & O_PATH))
		how.flags |= O_NONBLOCK | O_NOCTTY | O_LARGEFILE;
	for (int tries = 0;; tries++) {
		long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));

		if (fd >= 0)
			return (int)fd;
		/* EAGAIN: a rename elsewhere raced with the kernel's check of BENEATH. */
		if (errno == EINTR || (errno == EAGAIN && tries < 64))
			continue;
		return -errno;
	}
}

/* #hostcalls: fstatfs */
int host_is_kernel_fs(int fd)
{
	static const long magic[] = {
		PROC_SUPER_MAGIC,
		SYSFS_MAGIC,
		DEVPTS_SUPER_MAGIC,
		CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC,
		DEBUGFS_MAGIC,
		TRACEFS_MAGIC,
		SECURITYFS_MAGIC,
		SELINUX_MAGIC,
		SMACK_MAGIC,
		BPF_FS_MAGIC,
		PSTOREFS_MAGIC,
		EFIVARFS_MAGIC,
		BINFMTFS_MAGIC,
		NSFS_MAGIC,
		AUTOFS_SUPER_MAGIC,
		0x62656570 /* configfs */,
		0x65735543 /* fusectl */,
		0x19800202 /* mqueue */,
		0x6c6f6f70 /* binderfs */,
		0x09041934 /* anon inodes */,
		0x67596969 /* rpc_pipefs */,
	};
	struct statfs sf;

	if (fstatfs(fd, &sf) < 0)
		return 1;
	for (size_t i = 0; i < sizeof(magic) / sizeof(magic[0]); i++)
		if ((long)sf.f_type == magic[i])
			return 1;
	return 0;
}

uint64_t host_dev(const struct statx *st)
{
	return ((uint64_t)st->stx_dev_major << 32) | st->stx_dev_minor;
}

void attr_from_statx(struct gofer_attr *a, const struct statx *st)
{
	memset(a, 0, sizeof(*a));
	a->dev = host_dev(st);
	a->ino = st->stx_ino;
	a->size = st->stx_size;
	a->blocks = st->stx_blocks;
	a->rdev = makedev(st->stx_rdev_major, st->stx_rdev_minor);
	a->mode = st->stx_mode;
	a->nlink = st->stx_nlink;
	a->uid = st->stx_uid;
	a->gid = st->stx_gid;
	a->blksize = st->stx_blksize;
	a->atime = st->stx_atime.tv_sec;
	a->mtime = st->stx_mtime.tv_sec;
	a->ctime = st->stx_ctime.tv_sec;
	a->atime_ns = st->stx_atime.tv_nsec;
	a->mtime_ns = st->stx_mtime.tv_nsec;
	a->ctime_ns = st->stx_ctime.tv_nsec;
	if (st->stx_mask & STATX_BTIME) {
		a->btime = st->stx_btime.tv_sec;
		a->btime_ns = st->stx_btime.tv_nsec;
	}
	if (st->stx_attributes & STATX_ATTR_IMMUTABLE)
		a->flags |= GOFER_ATTR_IMMUTABLE;
	if (st->stx_attributes & STATX_ATTR_APPEND)
		a->flags |= GOFER_ATTR_APPEND;
}

/*
 * With fs ids other than 0 the kernel drops the file capabilities from the effective set, and gives
 * them back with 0. It also forgets the parent-death signal, without which a gofer that is stopped
 * would outlive its sandbox. #hostcalls: setfsuid setfsgid prctl
 */
void host_act_for(struct gofer *g, const struct attach *at)
{
	int want = (at->flags & ATTACH_PUBLIC) != 0;

	if (!g->two_identities || g->is_stranger == want)
		return;
	syscall(SYS_setfsgid, want ? GOFER_STRANGER : g->gid);
	syscall(SYS_setfsuid, want ? GOFER_STRANGER : g->uid);
	if (g->pdeathsig)
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	g->is_stranger = want;
}
