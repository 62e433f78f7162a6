/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's tree: the mount= lines of the boot configuration, in order; the first is the root.
 * Targets are resolved in the guest's own tree, never on the host, and made where the root lacks
 * them.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "sentry/boot.h"
#include "sentry/container.h"
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

static void gofer_died(void *arg)
{
	struct container *c = arg;

	log_error("the gofer is gone; files outside the sandbox fail from now on");
	if (c == c->k->main)
		kernel_exit(c->k, "internal-error", SIGKILL);
	/* Not from here: locks may be held. */
	control_kill_soon(c);
}

/*
 * Host directories that several containers of a pod have (an emptyDir): one superblock, so one
 * inode for each file, with its locks, sockets, FIFOs and mappings. The runtime says which are the
 * same: shared=ID<TAB>KEY. A writable mount can stand for a read-only one, not the other way round.
 */
struct shared_tree {
	struct list_head node;
	char key[64];
	struct superblock *sb; /* a reference */
};

static struct {
	pthread_mutex_t lock;
	struct list_head trees;
} g_shared = { PTHREAD_MUTEX_INITIALIZER, LIST_HEAD_INIT(g_shared.trees) };

/* The key of attach point `id`, or NULL. */
static const char *shared_key(struct container *c, const char *id)
{
	size_t pos = 0, n = strlen(id);
	const char *v;

	while ((v = bootconf_next(c->conf, "shared", &pos)))
		if (!strncmp(v, id, n) && v[n] == '\t' && strlen(v + n + 1) < sizeof(((struct shared_tree *)0)->key))
			return v + n + 1;
	return NULL;
}

/* A reference to what another container has mounted already, or NULL. */
static struct superblock *shared_superblock(struct container *c, const char *id, int readonly)
{
	const char *key = shared_key(c, id);
	struct superblock *sb = NULL;
	struct shared_tree *s;

	pthread_mutex_lock(&g_shared.lock);
	if (key)
		list_for_each(s, &g_shared.trees, node)
			if (!sb && !strcmp(s->key, key) && (readonly || !(s->sb->flags & SB_RDONLY)))
				sb = sb_get(s->sb);
	pthread_mutex_unlock(&g_shared.lock);
	return sb;
}

/* Passes sb through; others may find it from now on. */
static struct superblock *keep_shared(struct container *c, const char *id, struct superblock *sb)
{
	const char *key = shared_key(c, id);
	struct shared_tree *s = key && !IS_ERR(sb) ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return sb;
	snprintf(s->key, sizeof(s->key), "%s", key);
	s->sb = sb_get(sb);
	pthread_mutex_lock(&g_shared.lock);
	list_add_tail(&s->node, &g_shared.trees);
	pthread_mutex_unlock(&g_shared.lock);
	return sb;
}

void boot_forget_shared(void)
{
	struct shared_tree *s, *tmp;
	struct list_head unused = LIST_HEAD_INIT(unused);

	pthread_mutex_lock(&g_shared.lock);
	list_for_each_safe(s, tmp, &g_shared.trees, node)
		if (ref_read(&s->sb->ref) == 1) {
			list_del(&s->node);
			list_add_tail(&s->node, &unused);
		}
	pthread_mutex_unlock(&g_shared.lock);
	list_for_each_safe(s, tmp, &unused, node) {
		sb_put(s->sb);
		free(s);
	}
}

static struct superblock *mount_gofer(struct container *c, const struct mount_line *m, int exclusive)
{
	struct goferfs_boot b = { .exclusive = exclusive };
	char *end;

	if (!c->gofer) {
		struct goferfs_conn *conn = c->gofer_fd < 0 ? ERR_PTR(-ENOTCONN) : goferfs_connect(c->gofer_fd);

		if (IS_ERR(conn))
			return (void *)conn;
		c->gofer_fd = -1;
		c->gofer = conn;
		goferfs_on_death(conn, gofer_died, c);
	}
	b.conn = c->gofer;
	b.attach_id = (uint32_t)strtoul(m->source, &end, 10);
	if (*end || end == m->source)
		return ERR_PTR(-EINVAL);
	b.readonly = exclusive || (m->mnt_flags & MNT_F_RDONLY);
	struct superblock *sb = exclusive ? NULL : shared_superblock(c, m->source, b.readonly);

	if (sb)
		return sb;
	return keep_shared(c, m->source,
			   g_goferfs_type.mount(c->k->vfs, "gofer", b.readonly ? SB_RDONLY : 0, m->options, &b));
}

static struct superblock *mount_overlay(struct container *c, const struct mount_line *m)
{
	struct mount_line lower = *m;
	struct overlay_boot b = { .upper_size_limit = 0 };
	struct superblock *sb;

	lower.options[0] = '\0';
	b.lower = mount_gofer(c, &lower, 1);
	if (IS_ERR(b.lower))
		return b.lower;
	sb = g_overlay_type.mount(c->k->vfs, "overlay", 0, m->options, &b);
	sb_put(b.lower);
	return sb;
}

static struct superblock *make_superblock(struct container *c, const struct mount_line *m)
{
	const struct fs_type *type;

	if (!strcmp(m->type, "overlay"))
		return mount_overlay(c, m);
	if (!strcmp(m->type, "gofer"))
		return mount_gofer(c, m, 0);
	type = fs_type_find(m->type);
	if (!type)
		return ERR_PTR(-ENODEV);
	return type->mount(c->k->vfs, m->source, 0, m->options, NULL);
}

static void root_ctx(struct container *c, const struct cred *cred, struct vfs_ctx *ctx)
{
	struct mount *root = mnt_ns_root(c->mnt_ns);

	*ctx = (struct vfs_ctx){ .vfs = c->k->vfs, .cred = cred, .ns = c->mnt_ns, .umask = 022 };
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

static int attach(struct container *c, const struct mount_line *m, struct superblock *sb,
		  const struct cred *cred)
{
	struct mount *mnt = mount_new(sb, m->mnt_flags);
	struct vfs_ctx ctx;
	struct path at;
	int err;

	if (IS_ERR(mnt))
		return (int)PTR_ERR(mnt);
	if (!c->mnt_ns) {
		struct mnt_ns *ns = mnt_ns_new(c->k->vfs, mnt);

		if (IS_ERR(ns))
			return (int)PTR_ERR(ns);
		c->mnt_ns = ns;
		return 0;
	}
	root_ctx(c, cred, &ctx);
	err = vfs_lookup(&ctx, NULL, m->target, LOOKUP_FOLLOW, &at);
	if (err == -ENOENT) {
		err = boot_make_target(&ctx, m->target, S_ISDIR(sb->root->inode->mode));
		if (!err)
			err = vfs_lookup(&ctx, NULL, m->target, LOOKUP_FOLLOW, &at);
	}
	if (!err) {
		err = mount_attach(c->k->vfs, mnt, at);
		path_put(at);
	}
	if (err)
		mount_put(mnt);
	root_ctx_put(&ctx);
	return err;
}

/* A filesystem that is not the root and that this build lacks is left out, with a word. */
static int mount_one(struct container *c, const struct mount_line *m, const struct cred *cred)
{
	struct superblock *sb = make_superblock(c, m);
	int err;

	if (IS_ERR(sb)) {
		err = (int)PTR_ERR(sb);
		if (err == -ENODEV && c->mnt_ns) {
			log_warn("mount: no filesystem \"%s\" for %s", m->type, m->target);
			return 0;
		}
	} else {
		err = attach(c, m, sb, cred);
	}
	return err ? container_fail(c, BOOT_EXIT_SETUP, "mount %s (%s): %s", m->target, m->type, strerror(-err))
		   : 0;
}

static int mount_all(struct container *c, struct mount_line *m, const struct cred *cred)
{
	int root_readonly = 0;
	const char *line;
	size_t pos = 0;
	uint64_t ro;

	while ((line = bootconf_next(c->conf, "mount", &pos))) {
		if (parse_line(line, m))
			return container_fail(c, BOOT_EXIT_SETUP, "configuration: bad mount line");
		if (!c->mnt_ns) {
			if (strcmp(m->target, "/"))
				return container_fail(c, BOOT_EXIT_SETUP, "configuration: the first mount is not /");
			/* Mountpoints are still made in it; it becomes read-only at the end. */
			root_readonly = (m->mnt_flags & MNT_F_RDONLY) != 0;
			m->mnt_flags &= ~MNT_F_RDONLY;
		}
		if (mount_one(c, m, cred))
			return -1;
	}
	if (!c->mnt_ns)
		return container_fail(c, BOOT_EXIT_SETUP, "configuration: no root filesystem");
	if (bootconf_get_u64(c->conf, "readonly_root", 0, &ro) == 0 && ro)
		root_readonly = 1;
	struct vfs_ctx ctx;

	root_ctx(c, cred, &ctx);
	boot_resolv(c->k, &ctx);
	int err = boot_paths(c, &ctx);

	root_ctx_put(&ctx);
	if (root_readonly) {
		struct mount *root = mnt_ns_root(c->mnt_ns);

		root->flags |= MNT_F_RDONLY;
		mount_put(root);
	}
	return err;
}

int boot_mounts(struct container *c)
{
	struct cred *cred = cred_new(0, 0, CAP_ALL_MASK);
	struct mount_line *m = malloc(sizeof(*m));
	int err = cred && m ? mount_all(c, m, cred) : container_fail(c, BOOT_EXIT_SETUP, "out of memory");

	free(m);
	if (cred)
		cred_put(cred);
	return err;
}
