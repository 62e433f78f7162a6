/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/resolv.conf of a sandbox with a network policy: a file of the sandbox's own that names the
 * policy's resolver, mounted over whatever the image or the engine has there, which stays as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "sentry/boot.h"
#include "sentry/egress/egress.h"
#include "sentry/socket/socket.h"

#define RESOLV_CONF "/etc/resolv.conf"

static const char g_text[] = "# the network policy's resolver\nnameserver 127.0.0.53\noptions timeout:10 attempts:1\n";

static int write_file(const struct vfs_ctx *ctx, const char *path)
{
	struct open_how_k how = { .flags = O_WRONLY | O_CREAT, .mode = 0644 };
	struct file *f = vfs_open(ctx, NULL, path, &how);
	char text[sizeof(g_text)];
	struct uio u;
	ssize_t n;

	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	memcpy(text, g_text, sizeof(text));
	uio_init_kernel(&u, text, sizeof(text) - 1);
	n = file_write(f, &u, UINT64_MAX);
	file_put(f);
	return n < 0 ? (int)n : 0;
}

/* A detached mount whose root is the file. */
static struct mount *file_mount(const struct vfs_ctx *ctx)
{
	struct superblock *sb = fs_type_find("tmpfs")->mount(ctx->vfs, "resolv.conf", 0, "size=64k,mode=0755", NULL);
	struct vfs_ctx inside = *ctx;
	struct mount *m;
	struct path at;
	int err;

	if (IS_ERR(sb))
		return ERR_PTR(PTR_ERR(sb));
	m = mount_new(sb, MNT_F_NOSUID | MNT_F_NODEV | MNT_F_NOEXEC);
	if (IS_ERR(m))
		return m;
	inside.root = inside.cwd = (struct path){ .mnt = m, .dentry = m->root };
	err = write_file(&inside, "/file");
	if (!err)
		err = vfs_lookup(&inside, NULL, "/file", 0, &at);
	if (err) {
		mount_put(m);
		return ERR_PTR(err);
	}
	struct dentry *old = m->root;

	m->root = dentry_get(at.dentry);
	path_put(at);
	dentry_put(old);
	return m;
}

/* The place, made when it is missing: at the end of a link that leads nowhere, too. */
static int find_place(const struct vfs_ctx *ctx, struct path *at)
{
	char link[512], path[600] = RESOLV_CONF;
	int err = vfs_lookup(ctx, NULL, RESOLV_CONF, LOOKUP_FOLLOW, at);
	ssize_t n;

	if (err != -ENOENT)
		return err;
	if (!vfs_lookup(ctx, NULL, RESOLV_CONF, 0, at)) {
		n = vfs_readlink(ctx, *at, link, sizeof(link) - 1);
		path_put(*at);
		if (n <= 0)
			return n ? (int)n : -ENOENT;
		link[n] = '\0';
		snprintf(path, sizeof(path), "%s%s", link[0] == '/' ? "" : "/etc/", link);
	}
	err = boot_make_target(ctx, path, 0);
	return err ? err : vfs_lookup(ctx, NULL, RESOLV_CONF, LOOKUP_FOLLOW, at);
}

void boot_resolv(struct kernel *k, const struct vfs_ctx *ctx)
{
	struct mount *m;
	struct path at;
	int err;

	if (!egress_has_policy(k->sockets ? k->sockets->egress : NULL))
		return;
	err = find_place(ctx, &at);
	if (!err) {
		m = file_mount(ctx);
		err = IS_ERR(m) ? (int)PTR_ERR(m) : mount_attach(k->vfs, m, at);
		if (err && !IS_ERR(m))
			mount_put(m);
		path_put(at);
	}
	if (err)
		log_warn(RESOLV_CONF " can not name the policy's resolver: %s", strerror(-err));
}
