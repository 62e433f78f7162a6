/* SPDX-License-Identifier: Apache-2.0 */
/* mount(2), umount2(2), pivot_root(2). The mount tree and its rules are vfs/mount*.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"

/* A string of at most a page that may be absent. */
static char *optional_string(struct task *t, uint64_t u)
{
	return u ? copy_path_from_user(t, u) : NULL;
}

/*
 * The data page: as much of a page as can be read (copy_mount_options), taken as a string. Binary
 * options of network filesystems have no taker here.
 */
static char *mount_data(struct task *t, uint64_t u)
{
	char *buf;
	ssize_t n;

	if (!u)
		return calloc(1, 1);
	buf = malloc(GUEST_PAGE_SIZE + 1);
	if (!buf)
		return NULL;
	n = copy_from_user_some(t, buf, u, GUEST_PAGE_SIZE);
	if (n < 0) {
		free(buf);
		return ERR_PTR(-EFAULT);
	}
	buf[n == (ssize_t)GUEST_PAGE_SIZE ? n - 1 : n] = 0;
	return buf;
}

SYSCALL_HANDLER(mount)
{
	uint64_t flags = a->a[3];
	char *source = NULL, *type = NULL, *data = NULL, *target;
	struct vfs_ctx ctx;
	long r = 0;

	target = copy_path_from_user(t, a->a[1]);
	if (IS_ERR(target))
		return PTR_ERR(target);
	source = optional_string(t, a->a[0]);
	type = optional_string(t, a->a[2]);
	data = mount_data(t, a->a[4]);
	if (IS_ERR(source))
		r = PTR_ERR(source);
	else if (IS_ERR(type))
		r = PTR_ERR(type) == -ENAMETOOLONG ? -EINVAL : PTR_ERR(type);
	else if (!data || IS_ERR(data))
		r = data ? PTR_ERR(data) : -ENOMEM;
	if (!r) {
		/* The magic number of old programs. */
		if ((flags & 0xffff0000u) == MS_MGC_VAL)
			flags &= ~0xffff0000ull;
		task_vfs_ctx(t, &ctx);
		r = vfs_mount(&ctx, source, target, type, flags, data);
		task_vfs_ctx_put(&ctx);
	}
	if (!IS_ERR(source))
		free(source);
	if (!IS_ERR(type))
		free(type);
	if (!IS_ERR(data))
		free(data);
	free(target);
	return r;
}

SYSCALL_HANDLER(umount2)
{
	struct vfs_ctx ctx;
	char *target;
	long r;

	if ((int)a->a[1] & ~(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW))
		return -EINVAL;
	target = copy_path_from_user(t, a->a[0]);
	if (IS_ERR(target))
		return PTR_ERR(target);
	task_vfs_ctx(t, &ctx);
	r = vfs_umount(&ctx, target, (int)a->a[1]);
	task_vfs_ctx_put(&ctx);
	free(target);
	return r;
}

/*
 * Moves the root and working directories of every process that stood in the old root to the new
 * one, as chroot_fs_refs() does. Implemented beside fs_struct; absent: only the caller moves.
 */
void fs_chroot_all(struct kernel *k, struct path old_root, struct path new_root)
	__attribute__((weak));

/* The caller's own root and cwd. new_root is borrowed. */
static void move_own_root(struct task *t, struct path old_root, struct path new_root)
{
	struct path drop[2];
	int n = 0;

	lock_acquire(&t->fs->lock);
	if (t->fs->root.mnt == old_root.mnt && t->fs->root.dentry == old_root.dentry) {
		drop[n++] = t->fs->root;
		t->fs->root = path_get(new_root);
	}
	if (t->fs->cwd.mnt == old_root.mnt && t->fs->cwd.dentry == old_root.dentry) {
		drop[n++] = t->fs->cwd;
		t->fs->cwd = path_get(new_root);
	}
	lock_release(&t->fs->lock);
	while (n)
		path_put(drop[--n]);
}

SYSCALL_HANDLER(pivot_root)
{
	char *new_root = copy_path_from_user(t, a->a[0]), *put_old;
	struct path target;
	struct vfs_ctx ctx;
	long r;

	if (IS_ERR(new_root))
		return PTR_ERR(new_root);
	put_old = copy_path_from_user(t, a->a[1]);
	if (IS_ERR(put_old)) {
		free(new_root);
		return PTR_ERR(put_old);
	}
	task_vfs_ctx(t, &ctx);
	r = vfs_lookup(&ctx, NULL, new_root, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &target);
	if (!r) {
		r = vfs_pivot_root(&ctx, new_root, put_old);
		if (!r && fs_chroot_all)
			fs_chroot_all(t->k, ctx.root, target);
		else if (!r)
			move_own_root(t, ctx.root, target);
		path_put(target);
	}
	task_vfs_ctx_put(&ctx);
	free(new_root);
	free(put_old);
	return r;
}
