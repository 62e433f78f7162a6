/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the gofer gives up what it does not need, in stages: a mount namespace whose tree holds the
 * attach points and nothing else, Landlock, user and capabilities, limits. The seccomp filter
 * (filter.c) is last. Each stage works without the others; main.c decides which may be missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/log.h"

/* ---- own mount tree ---- */

int isolate_mount_ns(void)
{
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	/* Nothing we mount shows outside, nothing mounted outside shows here from now on. */
	if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return -errno;
	return 0;
}

static int stage(const char *what)
{
	int err = -errno;

	log_warn("mount namespace: %s failed: %s", what, strerror(-err));
	return err;
}

/* An empty tmpfs on top of some directory that surely exists; returns its fd. */
static int new_root(void)
{
	static const char *const places[] = { "/tmp", "/mnt", "/run", "/proc", "/dev", "/etc" };
	int ctx = (int)syscall(SYS_fsopen, "tmpfs", 1 /* FSOPEN_CLOEXEC */);

	if (ctx < 0)
		return stage("fsopen");
	syscall(SYS_fsconfig, ctx, 1 /* SET_STRING */, "mode", "0755", 0);
	syscall(SYS_fsconfig, ctx, 1, "size", "64k", 0);
	if (syscall(SYS_fsconfig, ctx, 6 /* CREATE */, NULL, NULL, 0) < 0) {
		int err = stage("fsconfig");

		close(ctx);
		return err;
	}
	int fd = (int)syscall(SYS_fsmount, ctx, 1 /* FSMOUNT_CLOEXEC */,
			      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);

	close(ctx);
	if (fd < 0)
		return stage("fsmount");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (syscall(SYS_move_mount, fd, "", AT_FDCWD, places[i],
			    4 /* MOVE_MOUNT_F_EMPTY_PATH */) == 0)
			return fd;
	int err = stage("move_mount of the new root");

	close(fd);
	return err;
}

static int set_attr(int fd, unsigned int flags, uint64_t set)
{
	struct mount_attr a = { .attr_set = set };

	return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | flags, &a, sizeof(a));
}

/*
 * Replaces *fd by a detached clone of the tree behind it. All are cloned before the new root is
 * mounted anywhere, or it would show in a clone of "/".
 */
static int clone_tree(int *fd, uint32_t flags)
{
	int tree = (int)syscall(SYS_open_tree, *fd, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);

	if (tree < 0)
		return stage("open_tree");
	/* Programs in it are executed from mappings of donated fds: no NOEXEC. */
	if (set_attr(tree, AT_RECURSIVE,
		     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			     (flags & ATTACH_RDONLY ? MOUNT_ATTR_RDONLY : 0)) < 0) {
		int err = stage("mount_setattr");

		close(tree);
		return err;
	}
	close(*fd);
	*fd = tree;
	return 0;
}

/* Mounts a detached tree at ID in the new root. */
static int graft(int root, uint32_t id, int tree, uint32_t flags)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", id);
	int point = flags & ATTACH_FILE
			    ? openat(root, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0400)
			    : mkdirat(root, name, 0500);
	int err = 0;

	if (point < 0 || syscall(SYS_move_mount, tree, "", root, name, 4) < 0)
		err = stage("placing an attach point");
	if (point >= 0 && (flags & ATTACH_FILE))
		close(point);
	return err;
}

/* Makes `root` our root and lets go of everything else. */
static int enter(int root)
{
	int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (old < 0)
		return stage("opening the old root");
	if (fchdir(root) < 0)
		err = stage("fchdir");
	if (!err && syscall(SYS_pivot_root, ".", ".") < 0) {
		/* An initramfs root can not be pivoted away, only covered. */
		if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
			err = stage("pivot_root");
	} else if (!err) {
		if (fchdir(old) < 0 || umount2(".", MNT_DETACH) < 0)
			err = stage("detaching the old root");
	}
	close(old);
	if (!err && chdir("/") < 0)
		err = stage("chdir");
	if (!err && set_attr(root, 0, MOUNT_ATTR_RDONLY) < 0)
		err = stage("making the new root read-only");
	return err;
}

int isolate_pivot(int *roots, const uint32_t *flags, const uint32_t *ids, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = clone_tree(&roots[i], flags[i]);
	int root = err ? err : new_root();

	if (root < 0)
		return root;
	for (size_t i = 0; i < count && !err; i++)
		err = graft(root, ids[i], roots[i], flags[i]);
	if (!err)
		err = enter(root);
	close(root);
	return err;
}

/* ---- Landlock ---- */

/* Rights by the ABI version that brought them; older headers do not know the later ones. */
#define LL_V1	     ((1ull << 13) - 1)
#define LL_REFER     (1ull << 13) /* 2 */
#define LL_TRUNCATE  (1ull << 14) /* 3 */
#define LL_IOCTL_DEV (1ull << 15) /* 5 */
#define LL_READ	     (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define LL_WRITE                                                                                   \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                           \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                            \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                              \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LL_REFER | LL_TRUNCATE)
#define LL_FILE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LL_TRUNCATE)

struct ll_ruleset { /* struct landlock_ruleset_attr as of ABI 6 */
	uint64_t fs, net, scoped;
};

static int landlock_rule(int ruleset, const struct attach *at, uint64_t handled)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LL_READ | (at->flags & ATTACH_RDONLY ? 0 : LL_WRITE),
		.parent_fd = at->root_fd,
	};

	rule.allowed_access &= handled;
	if (at->flags & ATTACH_FILE)
		rule.allowed_access &= LL_FILE;
	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* -ENOSYS or -EOPNOTSUPP where the kernel has none: that is not a failure. */
int isolate_landlock(const struct gofer *g)
{
	struct ll_ruleset attr = { .fs = LL_V1 };
	size_t size = sizeof(attr.fs);
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 0)
		return -errno;
	if (abi >= 2)
		attr.fs |= LL_REFER;
	if (abi >= 3)
		attr.fs |= LL_TRUNCATE;
	if (abi >= 4) {
		attr.net = 3; /* bind and connect of TCP: no rule allows any */
		size = 2 * sizeof(uint64_t);
	}
	if (abi >= 5)
		attr.fs |= LL_IOCTL_DEV;
	if (abi >= 6) {
		attr.scoped = 3; /* abstract Unix sockets and signals of others */
		size = sizeof(attr);
	}
	int rs = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);

	if (rs < 0)
		return -errno;
	int err = 0;

	for (size_t i = 0; i < g->attach_count && !err; i++)
		if (landlock_rule(rs, &g->attach[i], attr.fs) < 0)
			err = -errno;
	if (!err && syscall(SYS_landlock_restrict_self, rs, 0) < 0)
		err = -errno;
	close(rs);
	return err;
}

/* ---- user, capabilities, limits ---- */

static int drop_bounding(uint64_t keep)
{
	for (int cap = 0; cap < 64; cap++) {
		if ((keep >> cap) & 1)
			continue;
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return -errno;
	}
	return 0;
}

static int set_caps(uint64_t keep)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	d[0].effective = d[0].permitted = (uint32_t)keep;
	d[1].effective = d[1].permitted = (uint32_t)(keep >> 32);
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

static uint64_t current_caps(uint64_t *effective)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	if (syscall(SYS_capget, &h, d) < 0)
		return 0;
	*effective = d[0].effective | (uint64_t)d[1].effective << 32;
	return d[0].permitted | (uint64_t)d[1].permitted << 32;
}

static int switch_user(const struct gofer_conf *c)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -errno;
	/* In a user namespace that may not change groups there are none worth dropping. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0)
		return -errno;
	return 0;
}

int isolate_privileges(struct gofer *g, const struct gofer_conf *c)
{
	struct rlimit core = { 0, 0 };
	uint64_t effective = 0, have = current_caps(&effective);
	int err = 0;

	umask(0); /* the client decides on modes */
	if (setrlimit(RLIMIT_CORE, &core) < 0)
		return -errno;
	if ((effective >> CAP_SETPCAP) & 1)
		err = drop_bounding(c->caps);
	if (!err)
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (!err && c->switch_user)
		err = switch_user(c);
	for (size_t i = 0; i < g->attach_count; i++)
		g->two_identities |= geteuid() == 0 && (g->attach[i].flags & ATTACH_PUBLIC);
	/* A saved id may be taken as fs id later, without any capability. */
	if (!err && g->two_identities &&
	    (setresgid((gid_t)-1, (gid_t)-1, GOFER_STRANGER) < 0 ||
	     setresuid((uid_t)-1, (uid_t)-1, GOFER_STRANGER) < 0)) {
		if (errno != EINVAL) /* rootless: a single id is mapped, and it is no stranger */
			err = -errno;
		g->two_identities = 0;
	}
	if (!err)
		err = set_caps(c->caps & have);
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		err = -errno;
	if (!err && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		err = -errno;
	/* A change of user clears it, so it comes here. */
	if (!err && c->pdeathsig && prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0) < 0)
		err = -errno;
	if (err)
		return err;
	g->pdeathsig = c->pdeathsig;
	g->caps = c->caps & have;
	g->uid = geteuid();
	g->gid = getegid();
	return 0;
}
