/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mounts, mountinfo and mountstats. */
#include <stdlib.h>

#include "vfs/mount_priv.h"

static void show_mnt_options(const struct mount *m, struct strbuf *out)
{
	static const struct {
		uint32_t flag;
		const char *text;
	} opts[] = {
		{MNT_F_NOSUID, ",nosuid"},	   {MNT_F_NODEV, ",nodev"},
		{MNT_F_NOEXEC, ",noexec"},	   {MNT_F_NOATIME, ",noatime"},
		{MNT_F_NODIRATIME, ",nodiratime"}, {MNT_F_RELATIME, ",relatime"},
		{MNT_F_NOSYMFOLLOW, ",nosymfollow"},
	};

	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++)
		if (m->flags & opts[i].flag)
			strbuf_puts(out, opts[i].text);
}

static void show_sb_options(struct superblock *sb, struct strbuf *out)
{
	if (sb->ops && sb->ops->show_options)
		sb->ops->show_options(sb, out);
}

/* What is mounted, as a path from the superblock's root. tree_lock held. */
static char *root_name(const struct mount *m, char *buf, size_t size)
{
	const struct dentry *d = m->root;
	char *at = buf + size - 1;

	*at = 0;
	while (d->parent != d) {
		if ((size_t)(at - buf) < d->name_len + 1u)
			return at;
		at -= d->name_len;
		__builtin_memcpy(at, d->name, d->name_len);
		*--at = '/';
		d = d->parent;
	}
	if (!*at)
		*--at = '/';
	return at;
}

/* One mount as it was under the lock; the rest is asked without it. */
struct row {
	struct mount *m; /* a reference */
	int parent_id, peer_group, master_group, unbindable;
};

static void show_info(const struct row *r, const char *name, char *buf, struct strbuf *out)
{
	struct mount *m = r->m;
	struct superblock *sb = m->sb;
	char *root;

	rwlock_read(&sb->vfs->tree_lock);
	root = root_name(m, buf, PATH_MAX);
	rwlock_release(&sb->vfs->tree_lock);
	strbuf_printf(out, "%d %d %u:%u ", m->id, r->parent_id, linux_major(sb->dev),
		      linux_minor(sb->dev));
	strbuf_escape(out, root);
	strbuf_putc(out, ' ');
	strbuf_escape(out, name);
	strbuf_puts(out, m->flags & MNT_F_RDONLY ? " ro" : " rw");
	show_mnt_options(m, out);
	if (r->peer_group)
		strbuf_printf(out, " shared:%d", r->peer_group);
	if (r->master_group)
		strbuf_printf(out, " master:%d", r->master_group);
	if (r->unbindable)
		strbuf_puts(out, " unbindable");
	strbuf_printf(out, " - %s ", sb->type->name);
	strbuf_escape(out, sb->source);
	strbuf_puts(out, sb->flags & SB_RDONLY ? " ro" : " rw");
	show_sb_options(sb, out);
	strbuf_putc(out, '\n');
}

static void show_mounts(const struct row *r, const char *name, struct strbuf *out)
{
	struct mount *m = r->m;

	strbuf_escape(out, m->sb->source);
	strbuf_putc(out, ' ');
	strbuf_escape(out, name);
	strbuf_printf(out, " %s %s", m->sb->type->name, mount_writable(m) ? "ro" : "rw");
	show_mnt_options(m, out);
	show_sb_options(m->sb, out);
	strbuf_puts(out, " 0 0\n");
}

static void show_stats(const struct row *r, const char *name, struct strbuf *out)
{
	strbuf_puts(out, "device ");
	strbuf_escape(out, r->m->sb->source);
	strbuf_puts(out, " mounted on ");
	strbuf_escape(out, name);
	strbuf_printf(out, " with fstype %s\n", r->m->sb->type->name);
}

static int reachable(struct vfs *vfs, struct path p, struct path root)
{
	int ok = 0;

	rwlock_read(&vfs->tree_lock);
	for (;;) {
		if (p.mnt == root.mnt) {
			ok = dentry_is_ancestor(root.dentry, p.dentry);
			break;
		}
		if (!p.mnt->parent)
			break;
		p.dentry = p.mnt->mountpoint;
		p.mnt = p.mnt->parent;
	}
	rwlock_release(&vfs->tree_lock);
	return ok;
}

/* The namespace's mounts as references, in mount order. */
static struct row *snapshot(struct mnt_ns *ns, size_t *count)
{
	struct row *rows;
	struct mount *m;
	size_t n = 0;

	rwlock_read(&ns->vfs->tree_lock);
	rows = calloc(ns->count + 1, sizeof(*rows));
	if (rows)
		list_for_each(m, &ns->mounts, ns_node)
			rows[n++] = (struct row){
				.m = mount_get(m),
				.parent_id = m->parent ? m->parent->id : m->id,
				.peer_group = mnt_is_shared(m) ? m->peer_group : 0,
				.master_group = m->master ? m->master->peer_group : 0,
				.unbindable = m->propagation == MNT_UNBINDABLE,
			};
	rwlock_release(&ns->vfs->tree_lock);
	*count = n;
	return rows;
}

void mnt_ns_show(struct mnt_ns *ns, struct path root, int kind, struct strbuf *sb)
{
	size_t count;
	struct row *rows = snapshot(ns, &count);
	char *buf = malloc(2 * PATH_MAX);

	for (size_t i = 0; rows && i < count; i++) {
		struct path p = {rows[i].m, rows[i].m->root};
		char *name;

		if (buf && reachable(ns->vfs, p, root)) {
			name = path_name(ns->vfs, p, root, buf, PATH_MAX);
			if (!IS_ERR(name)) {
				if (kind == 0)
					show_mounts(&rows[i], name, sb);
				else if (kind == 1)
					show_info(&rows[i], name, buf + PATH_MAX, sb);
				else
					show_stats(&rows[i], name, sb);
			}
		}
		mount_put(rows[i].m);
	}
	if (!rows || !buf)
		sb->err = -ENOMEM;
	free(buf);
	free(rows);
}
