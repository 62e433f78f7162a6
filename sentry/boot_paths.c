/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container's configuration wants of its tree beyond mounts: file=, device=, masked=, readonly=,
 * sysctl=. All of it happens in the guest's own tree; no host name is looked up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "platform/base/log.h"
#include "sentry/boot.h"
#include "sentry/container.h"
#include "sentry/spawn.h"
#include "sentry/task/task_priv.h"

/* One empty file for all masked files, on a filesystem that no name leads to. */
static int empty_file(const struct vfs_ctx *ctx, struct path *out)
{
	struct superblock *sb = fs_type_find("tmpfs")->mount(ctx->vfs, "masked", 0, "size=4k,mode=0", NULL);
	struct mount *m;
	int err;

	if (IS_ERR(sb))
		return (int)PTR_ERR(sb);
	m = mount_new(sb, MNT_F_RDONLY | MNT_F_NOSUID | MNT_F_NODEV | MNT_F_NOEXEC);
	if (IS_ERR(m))
		return (int)PTR_ERR(m);
	struct vfs_ctx inside = *ctx;

	m->flags &= ~MNT_F_RDONLY;
	inside.root = inside.cwd = (struct path){ .mnt = m, .dentry = m->root };
	err = vfs_mknodat(&inside, NULL, "/empty", S_IFREG | 0444, 0);
	if (!err)
		err = vfs_lookup(&inside, NULL, "/empty", 0, out);
	m->flags |= MNT_F_RDONLY;
	return err;
}

/* A mount of that file's own, at `at`. */
static int cover_file(const struct vfs_ctx *ctx, struct path empty, struct path at)
{
	struct mount *m = mount_new(sb_get(empty.mnt->sb), empty.mnt->flags);
	struct dentry *old;
	int err;

	if (IS_ERR(m))
		return (int)PTR_ERR(m);
	old = m->root;
	m->root = dentry_get(empty.dentry);
	dentry_put(old);
	err = mount_attach(ctx->vfs, m, at);
	if (err)
		mount_put(m);
	return err;
}

static int mask_one(const struct vfs_ctx *ctx, const char *name, struct path empty)
{
	struct path at;
	int err = vfs_lookup(ctx, NULL, name, LOOKUP_FOLLOW, &at);

	if (err)
		return err == -ENOENT || err == -ENOTDIR || err == -EACCES ? 0 : err;
	if (S_ISDIR(at.dentry->inode->mode))
		err = vfs_mount(ctx, "tmpfs", name, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
				"size=0,mode=755");
	else
		err = cover_file(ctx, empty, at);
	path_put(at);
	return err;
}

static int readonly_one(const struct vfs_ctx *ctx, const char *name)
{
	int err = vfs_mount(ctx, name, name, NULL, MS_BIND | MS_REC, NULL);

	if (err == -ENOENT || err == -ENOTDIR)
		return 0;
	if (!err)
		err = vfs_mount(ctx, NULL, name, NULL,
				MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	return err;
}

/* PATH<TAB>c|b|p<TAB>MAJOR<TAB>MINOR<TAB>MODE(octal) */
static int device_one(const struct vfs_ctx *ctx, const char *line)
{
	char path[PATH_MAX], type;
	unsigned major, minor, mode;
	const char *tab = strchr(line, '\t');
	int err;

	if (!tab || (size_t)(tab - line) >= sizeof(path) || line[0] != '/' ||
	    sscanf(tab + 1, "%c\t%u\t%u\t%o", &type, &major, &minor, &mode) != 4)
		return -EINVAL;
	memcpy(path, line, (size_t)(tab - line));
	path[tab - line] = '\0';
	/* The mode is the configuration's, whatever the umask. */
	struct vfs_ctx plain = *ctx;
	char *slash = strrchr(path, '/');

	plain.umask = 0;
	*slash = '\0';
	err = *path ? boot_make_target(ctx, path, 1) : 0;
	*slash = '/';
	if (err)
		return err;
	err = vfs_mknodat(&plain, NULL, path,
			  (type == 'b' ? S_IFBLK : type == 'p' ? S_IFIFO : S_IFCHR) | (mode & 07777),
			  makedev(major, minor));
	return err == -EEXIST ? 0 : err;
}

/*
 * PATH<TAB>TEXT, on the root filesystem only: what somebody mounted there, or above it, is theirs. A link
 * or file of the image makes way.
 */
static int file_one(const struct vfs_ctx *ctx, const char *line)
{
	const char *tab = strchr(line, '\t');
	char path[PATH_MAX], *slash;
	struct path at;
	struct file *f;
	struct uio u;
	int err, theirs;

	if (!tab || (size_t)(tab - line) >= sizeof(path) || line[0] != '/')
		return -EINVAL;
	memcpy(path, line, (size_t)(tab - line));
	path[tab - line] = '\0';
	slash = strrchr(path, '/');
	*slash = '\0';
	err = *path ? boot_make_target(ctx, path, 1) : 0;
	if (!err)
		err = vfs_lookup(ctx, NULL, *path ? path : "/", LOOKUP_FOLLOW, &at);
	if (err)
		return err;
	theirs = at.mnt != ctx->root.mnt;
	path_put(at);
	*slash = '/';
	if (!theirs && !vfs_lookup(ctx, NULL, path, 0, &at)) {
		theirs = at.mnt != ctx->root.mnt || S_ISDIR(at.dentry->inode->mode);
		path_put(at);
		if (!theirs)
			err = vfs_unlinkat(ctx, NULL, path, 0);
	}
	if (theirs || err)
		return err;
	f = vfs_open(ctx, NULL, path, &(struct open_how_k){ .flags = O_WRONLY | O_CREAT | O_EXCL, .mode = 0644 });
	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	uio_init_kernel(&u, (void *)(uintptr_t)(tab + 1), strlen(tab + 1));
	ssize_t r = file_write(f, &u, UINT64_MAX);

	file_put(f);
	return r < 0 ? (int)r : 0;
}

static int report_failure(struct container *c, const char *what, const char *line, int err)
{
	return err ? container_fail(c, BOOT_EXIT_SETUP, "%s %s: %s", what, line, strerror(-err)) : 0;
}

int boot_paths(struct container *c, const struct vfs_ctx *ctx)
{
	struct path empty;
	const char *v;
	size_t pos = 0;
	int err = 0;

	while ((v = bootconf_next(c->conf, "file", &pos))) {
		int failed = file_one(ctx, v);

		if (failed)
			log_warn("%.*s is not provided: %s", (int)strcspn(v, "\t"), v, strerror(-failed));
	}
	for (pos = 0; !err && (v = bootconf_next(c->conf, "device", &pos));)
		err = report_failure(c, "device", v, device_one(ctx, v));
	if (!err && bootconf_get(c->conf, "masked")) {
		err = report_failure(c, "masked paths", "", empty_file(ctx, &empty));
		if (err)
			return err;
		for (pos = 0; !err && (v = bootconf_next(c->conf, "masked", &pos));)
			err = report_failure(c, "masked path", v, mask_one(ctx, v, empty));
		path_put(empty);
	}
	for (pos = 0; !err && (v = bootconf_next(c->conf, "readonly_path", &pos));)
		err = report_failure(c, "read-only path", v, readonly_one(ctx, v));
	return err;
}

/* NAME=VALUE, the name with dots: written where the guest's own /proc/sys has it. */
static void sysctl_one(const struct vfs_ctx *ctx, const char *line)
{
	const char *eq = strchr(line, '=');
	char path[256] = "/proc/sys/";
	size_t n = strlen(path);
	struct file *f;
	struct uio u;

	if (!eq || (size_t)(eq - line) >= sizeof(path) - n)
		return;
	for (const char *p = line; p < eq; p++)
		path[n++] = *p == '.' ? '/' : *p;
	path[n] = '\0';
	f = vfs_open(ctx, NULL, path, &(struct open_how_k){ .flags = O_WRONLY });
	if (IS_ERR(f)) {
		log_info("sysctl %s is not there", path);
		return;
	}
	uio_init_kernel(&u, (void *)(uintptr_t)(eq + 1), strlen(eq + 1));
	ssize_t r = file_write(f, &u, UINT64_MAX);

	if (r < 0)
		log_warn("sysctl %s: %s", path, strerror((int)-r));
	file_put(f);
}

void boot_sysctls(struct container *c, struct task *t)
{
	struct cred *root = cred_new(0, 0, CAP_ALL_MASK);
	struct vfs_ctx ctx;
	const char *v;
	size_t pos = 0;

	if (!root)
		return;
	struct task *before = current;

	current = t;
	task_vfs_ctx(t, &ctx);
	const struct cred *own = ctx.cred;

	ctx.cred = root;
	while ((v = bootconf_next(c->conf, "sysctl", &pos)))
		sysctl_one(&ctx, v);
	ctx.cred = own;
	task_vfs_ctx_put(&ctx);
	current = before;
	cred_put(root);
}
