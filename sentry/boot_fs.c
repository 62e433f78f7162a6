/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's tree: the mount= lines of the boot configuration, in order; the first is the root.
 * Targets are resolved in the guest's own tree, never on the host, and made where the root lacks
 * them.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "sentry/boot.h"
#include "vfs/goferfs/goferfs.h"
#include "vfs/overlay/overlay.h"

struct mount_line {
	char type[32], source[64], target[PATH_MAX];
	char options[1024]; /* those of the filesystem */
	uint32_t mnt_flags;
};

static const struct {
	const char *name;
	uint32_t set, clear;
} g_mount_options[] = {
	{ "ro", MNT_F_RDONLY, 0 },	     { "rw", 0, MNT_F_RDONLY },
	{ "nosuid", MNT_F_NOSUID, 0 },	     { "suid", 0, MNT_F_NOSUID },
	{ "nodev", MNT_F_NODEV, 0 },	     { "dev", 0, MNT_F_NODEV },
	{ "noexec", MNT_F_NOEXEC, 0 },	     { "exec", 0, MNT_F_NOEXEC },
	{ "noatime", MNT_F_NOATIME, 0 },     { "nodiratime", MNT_F_NODIRATIME, 0 },
	{ "relatime", MNT_F_RELATIME, 0 },   { "strictatime", MNT_F_STRICTATIME, 0 },
	{ "defaults", 0, 0 },		     { "bind", 0, 0 },
	{ "rbind", 0, 0 },		     { "private", 0, 0 },
	{ "rprivate", 0, 0 },		     { "nosymfollow", MNT_F_NOSYMFOLLOW, 0 },
};

/* One comma-separated option: a mount flag, or one for the filesystem. */
static int take_option(struct mount_line *m, const char *s, size_t n)
{
	size_t have = strlen(m->options);

	if (!n)
		return 0;
	for (size_t i = 0; i < sizeof(g_mount_options) / sizeof(*g_mount_options); i++)
		if (strlen(g_mount_options[i].name) == n && !memcmp(g_mount_options[i].name, s, n)) {
			m->mnt_flags |= g_mount_options[i].set;
			m->mnt_flags &= ~g_mount_options[i].clear;
			return 0;
		}
	if (have + n + 2 > sizeof(m->options))
		return -E2BIG;
	if (have)
		m->options[have++] = ',';
	memcpy(m->options + have, s, n);
	m->options[have + n] = '\0';
	return 0;
}

static int copy_field(const char **p, char *to, size_t size)
{
	size_t n = strcspn(*p, "\t");

	if (n >= size)
		return -E2BIG;
	memcpy(to, *p, n);
	to[n] = '\0';
	*p += n + ((*p)[n] == '\t');
	return 0;
}

static int parse_line(const char *line, struct mount_line *m)
{
	memset(m, 0, sizeof(*m));
	m->mnt_flags = MNT_F_RELATIME;
	if (copy_field(&line, m->type, sizeof(m->type)) ||
	    copy_field(&line, m->source, sizeof(m->source)) ||
	    copy_field(&line, m->target, sizeof(m->target)) || m->target[0] != '/')
		return -EINVAL;
	while (*line) {
		size_t n = strcspn(line, ",");
		int err = take_option(m, line, n);

		if (err)
			return err;
		line += n + (line[n] == ',');
	}
	return 0;
}

static struct goferfs_conn *g_conn;

static void gofer_died(void *arg)
{
	log_error("the gofer is gone; files outside the sandbox fail from now on");
	kernel_exit(arg, "internal-error", SIGKILL);
}

static struct superblock *mount_gofer(struct kernel *k, const struct mount_line *m, int exclusive)
{
	struct goferfs_boot b = { .conn = g_conn, .exclusive = exclusive };
	char *end;

	if (!g_conn) {
		uint64_t fd;

		if (bootconf_get_u64(k->conf, "gofer_fd", UINT64_MAX, &fd) || fd > 65535)
			return ERR_PTR(-ENOTCONN);
		g_conn = goferfs_connect((int)fd);
		if (IS_ERR(g_conn))
			boot_fail(k, BOOT_EXIT_SETUP, "no connection to the gofer: %s",
				  strerror((int)-PTR_ERR(g_conn)));
		goferfs_on_death(g_conn, gofer_died, k);
		b.conn = g_conn;
	}
	b.attach_id = (uint32_t)strtoul(m->source, &end, 10);
	if (*end || end == m->source)
		return ERR_PTR(-EINVAL);
	b.readonly = exclusive || (m->mnt_flags & MNT_F_RDONLY);
	return g_goferfs_type.mount(k->vfs, "gofer", b.readonly ? SB_RDONLY : 0, m->options, &b);
}

static struct superblock *mount_overlay(struct kernel *k, const struct mount_line *m)
{
	struct mount_line lower = *m;
	struct overlay_boot b = { .upper_size_limit = 0 };
	struct superblock *sb;

	lower.options[0] = '\0';
	b.lower = mount_gofer(k, &lower, 1);
	if (IS_ERR(b.lower))
		return b.lower;
	sb = g_overlay_type.mount(k->vfs, "overlay", 0, m->options, &b);
	sb_put(b.lower);
	return sb;
}

static struct superblock *make_superblock(struct kernel *k, const struct mount_line *m)
{
	const struct fs_type *type;

	if (!strcmp(m->type, "overlay"))
		return mount_overlay(k, m);
	if (!strcmp(m->type, "gofer"))
		return mount_gofer(k, m, 0);
	type = fs_type_find(m->type);
	if (!type)
		return ERR_PTR(-ENODEV);
	return type->mount(k->vfs, m->source, 0, m->options, NULL);
}

static void root_ctx(struct kernel *k, const struct cred *cred, struct vfs_ctx *ctx)
{
	struct mount *root = mnt_ns_root(k->init_mnt_ns);

	*ctx = (struct vfs_ctx){ .vfs = k->vfs, .cred = cred, .ns = k->init_mnt_ns, .umask = 022 };
	ctx->root.mnt = root;
	ctx->root.dentry = dentry_get(root->root);
	ctx->cwd = path_get(ctx->root);
}

static void root_ctx_put(struct vfs_ctx *ctx)
{
	path_put(ctx->root);
	path_put(ctx->cwd);
}

int boot_make_target(const struct vfs_ctx *ctx, const char *target, int is_dir)
{
	char path[PATH_MAX];
	int err = 0;

	for (const char *p = target + 1;; p++) {
		if (*p && *p != '/')
			continue;
		if (p[-1] == '/') {
			if (!*p)
				break;
			continue;
		}
		memcpy(path, target, (size_t)(p - target));
		path[p - target] = '\0';
		if (!*p && !is_dir)
			err = vfs_mknodat(ctx, NULL, path, S_IFREG | 0644, 0);
		else
			err = vfs_mkdirat(ctx, NULL, path, 0755);
		if (err == -EEXIST)
			err = 0;
		if (err || !*p)
			break;
	}
	return err;
}

static int attach(struct kernel *k, const struct mount_line *m, struct superblock *sb,
		  const struct cred *cred)
{
	struct mount *mnt = mount_new(sb, m->mnt_flags);
	struct vfs_ctx ctx;
	struct path at;
	int err;

	if (IS_ERR(mnt))
		return (int)PTR_ERR(mnt);
	if (!k->init_mnt_ns) {
		k->init_mnt_ns = mnt_ns_new(k->vfs, mnt);
		return IS_ERR(k->init_mnt_ns) ? (int)PTR_ERR(k->init_mnt_ns) : 0;
	}
	root_ctx(k, cred, &ctx);
	err = vfs_lookup(&ctx, NULL, m->target, LOOKUP_FOLLOW, &at);
	if (err == -ENOENT) {
		err = boot_make_target(&ctx, m->target, S_ISDIR(sb->root->inode->mode));
		if (!err)
			err = vfs_lookup(&ctx, NULL, m->target, LOOKUP_FOLLOW, &at);
	}
	if (!err) {
		err = mount_attach(k->vfs, mnt, at);
		path_put(at);
	}
	if (err)
		mount_put(mnt);
	root_ctx_put(&ctx);
	return err;
}

/* A filesystem that is not the root and that this build lacks is left out, with a word. */
static void mount_one(struct kernel *k, const struct mount_line *m, const struct cred *cred)
{
	struct superblock *sb = make_superblock(k, m);
	int err;

	if (IS_ERR(sb)) {
		err = (int)PTR_ERR(sb);
		if (err == -ENODEV && k->init_mnt_ns) {
			log_warn("mount: no filesystem \"%s\" for %s", m->type, m->target);
			return;
		}
		boot_fail(k, BOOT_EXIT_SETUP, "mount %s (%s): %s", m->target, m->type, strerror(-err));
	}
	err = attach(k, m, sb, cred);
	if (err)
		boot_fail(k, BOOT_EXIT_SETUP, "mount %s (%s): %s", m->target, m->type, strerror(-err));
}

void boot_mounts(struct kernel *k)
{
	struct cred *cred = cred_new(0, 0, CAP_ALL_MASK);
	struct mount_line *m = malloc(sizeof(*m));
	int root_readonly = 0;
	const char *line;
	size_t pos = 0;
	uint64_t ro;

	if (!cred || !m)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	while ((line = bootconf_next(k->conf, "mount", &pos))) {
		if (parse_line(line, m))
			boot_fail(k, BOOT_EXIT_SETUP, "configuration: bad mount line");
		if (!k->init_mnt_ns) {
			if (strcmp(m->target, "/"))
				boot_fail(k, BOOT_EXIT_SETUP, "configuration: the first mount is not /");
			/* Mountpoints are still made in it; it becomes read-only at the end. */
			root_readonly = (m->mnt_flags & MNT_F_RDONLY) != 0;
			m->mnt_flags &= ~MNT_F_RDONLY;
		}
		mount_one(k, m, cred);
	}
	if (!k->init_mnt_ns)
		boot_fail(k, BOOT_EXIT_SETUP, "configuration: no root filesystem");
	if (bootconf_get_u64(k->conf, "readonly_root", 0, &ro) == 0 && ro)
		root_readonly = 1;
	struct vfs_ctx ctx;

	root_ctx(k, cred, &ctx);
	boot_resolv(k, &ctx);
	boot_paths(k, &ctx);
	root_ctx_put(&ctx);
	if (root_readonly) {
		struct mount *root = mnt_ns_root(k->init_mnt_ns);

		root->flags |= MNT_F_RDONLY;
		mount_put(root);
	}
	free(m);
	cred_put(cred);
}
