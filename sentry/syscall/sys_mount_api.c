/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file-descriptor mount calls: fsopen and its family. The work is vfs/fscontext.c; here are the
 * argument rules and the fds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/fscontext.h"

#define PARAM_MAX 256
#ifndef FSCONFIG_CMD_CREATE_EXCL
#define FSCONFIG_CMD_CREATE_EXCL 8
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#define MOUNT_ATTR_SIZE_FIRST 32

/* Installs what a call made; consumes f. */
static long install_result(struct task *t, struct file *f, int cloexec)
{
	int fd;

	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = fd_install(t, f, 0, cloexec ? O_CLOEXEC : 0);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* A parameter string: at most 255 bytes, else -EINVAL. */
static int param_string(struct task *t, uint64_t u, char buf[PARAM_MAX])
{
	ssize_t n = copy_string_from_user(t, buf, PARAM_MAX, u);

	return n == -ENAMETOOLONG ? -EINVAL : n < 0 ? (int)n : 0;
}

SYSCALL_HANDLER(fsopen)
{
	uint32_t flags = (uint32_t)a->a[1];
	char name[PARAM_MAX];
	struct vfs_ctx ctx;
	long r;

	if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	if (flags & ~(uint32_t)FSOPEN_CLOEXEC)
		return -EINVAL;
	r = param_string(t, a->a[0], name);
	if (r)
		return r;
	task_vfs_ctx(t, &ctx);
	r = install_result(t, fscontext_fsopen(&ctx, name, flags), flags & FSOPEN_CLOEXEC);
	task_vfs_ctx_put(&ctx);
	return r;
}

SYSCALL_HANDLER(fspick)
{
	uint32_t flags = (uint32_t)a->a[2];
	struct at_path ap;
	long r;

	if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	if (flags & ~(uint32_t)(FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW | FSPICK_NO_AUTOMOUNT |
				FSPICK_EMPTY_PATH))
		return -EINVAL;
	r = at_begin(t, &ap, (int)a->a[0], a->a[1], flags & FSPICK_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (r)
		return r;
	r = install_result(t, fscontext_fspick(&ap.ctx, ap.start, ap.name, flags),
			   flags & FSPICK_CLOEXEC);
	at_end(&ap);
	return r;
}

/* Which arguments each command takes. */
static const struct {
	uint8_t known, key, value,
		aux; /* aux: 0 must be 0, 1 an fd, 2 an fd or AT_FDCWD, 3 a size */
} g_commands[] = {
	[FSCONFIG_SET_FLAG] = { 1, 1, 0, 0 },	     [FSCONFIG_SET_STRING] = { 1, 1, 1, 0 },
	[FSCONFIG_SET_BINARY] = { 1, 1, 1, 3 },	     [FSCONFIG_SET_PATH] = { 1, 1, 1, 2 },
	[FSCONFIG_SET_PATH_EMPTY] = { 1, 1, 1, 2 },  [FSCONFIG_SET_FD] = { 1, 1, 0, 1 },
	[FSCONFIG_CMD_CREATE] = { 1, 0, 0, 0 },	     [FSCONFIG_CMD_RECONFIGURE] = { 1, 0, 0, 0 },
	[FSCONFIG_CMD_CREATE_EXCL] = { 1, 0, 0, 0 },
};

static int check_command(uint32_t cmd, const struct sysargs *a)
{
	int aux = (int)a->a[4];

	if (cmd >= sizeof(g_commands) / sizeof(g_commands[0]) || !g_commands[cmd].known)
		return -EOPNOTSUPP;
	if (!a->a[2] != !g_commands[cmd].key || !a->a[3] != !g_commands[cmd].value)
		return -EINVAL;
	switch (g_commands[cmd].aux) {
	case 0:
		return aux ? -EINVAL : 0;
	case 1:
		return aux < 0 ? -EINVAL : 0;
	case 2:
		return aux < 0 && aux != AT_FDCWD ? -EINVAL : 0;
	default:
		return aux <= 0 || aux > 1024 * 1024 ? -EINVAL : 0;
	}
}

SYSCALL_HANDLER(fsconfig)
{
	char key[PARAM_MAX], value[PARAM_MAX], *path = NULL;
	uint32_t cmd = (uint32_t)a->a[1];
	struct vfs_ctx ctx;
	struct file *f;
	long r = (int)a->a[0] < 0 ? -EINVAL : check_command(cmd, a);

	if (r)
		return r;
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	if (a->a[2])
		r = param_string(t, a->a[2], key);
	if (!r && cmd == FSCONFIG_SET_STRING)
		r = param_string(t, a->a[3], value);
	else if (!r && (cmd == FSCONFIG_SET_PATH || cmd == FSCONFIG_SET_PATH_EMPTY)) {
		path = copy_path_from_user(t, a->a[3]);
		r = IS_ERR(path) ? PTR_ERR(path) : 0;
	}
	/* No filesystem here takes binary values. */
	if (!r && cmd == FSCONFIG_SET_BINARY)
		r = -EINVAL;
	if (!r) {
		task_vfs_ctx(t, &ctx);
		r = fscontext_fsconfig(&ctx, f, cmd, a->a[2] ? key : NULL,
				       path	 ? path
				       : a->a[3] ? value
						 : NULL,
				       (int)a->a[4]);
		task_vfs_ctx_put(&ctx);
	}
	if (!IS_ERR(path))
		free(path);
	file_put(f);
	return r;
}

SYSCALL_HANDLER(fsmount)
{
	uint32_t flags = (uint32_t)a->a[1];
	struct vfs_ctx ctx;
	struct file *f;
	long r;

	if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	if (flags & ~(uint32_t)FSMOUNT_CLOEXEC)
		return -EINVAL;
	f = fd_get(t, (int)a->a[0]);
	if (!f)
		return -EBADF;
	task_vfs_ctx(t, &ctx);
	r = install_result(t, fscontext_fsmount(&ctx, f, flags, (uint32_t)a->a[2]),
			   flags & FSMOUNT_CLOEXEC);
	task_vfs_ctx_put(&ctx);
	file_put(f);
	return r;
}

#define OPEN_TREE_KNOWN                                                                            \
	((uint32_t)(AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW |         \
		    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC))

/* The file of open_tree(2), or ERR_PTR. */
static struct file *tree_open(struct task *t, const struct sysargs *a)
{
	uint32_t flags = (uint32_t)a->a[2];
	struct at_path ap;
	struct file *f;
	int err;

	if (flags & ~OPEN_TREE_KNOWN)
		return ERR_PTR(-EINVAL);
	if ((flags & (AT_RECURSIVE | OPEN_TREE_CLONE)) == AT_RECURSIVE)
		return ERR_PTR(-EINVAL);
	if ((flags & OPEN_TREE_CLONE) && !cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return ERR_PTR(-EPERM);
	err = at_begin(t, &ap, (int)a->a[0], a->a[1], flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (err)
		return ERR_PTR(err);
	f = fscontext_open_tree(&ap.ctx, ap.start, ap.name, flags);
	at_end(&ap);
	return f;
}

SYSCALL_HANDLER(open_tree)
{
	return install_result(t, tree_open(t, a), !!((uint32_t)a->a[2] & OPEN_TREE_CLOEXEC));
}

/* Copies struct mount_attr, grown or not. */
static int get_attr(struct task *t, struct mount_attr *attr, uint64_t uattr, uint64_t size)
{
	if (size > GUEST_PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(t, attr, sizeof(*attr), uattr, size, MOUNT_ATTR_SIZE_FIRST);
}

SYSCALL_HANDLER(open_tree_attr)
{
	uint32_t flags = (uint32_t)a->a[2];
	struct mount_attr attr;
	struct vfs_ctx ctx;
	struct file *f;
	int err = 0;

	if (!a->a[3] && a->a[4])
		return -EINVAL;
	if (a->a[3])
		err = get_attr(t, &attr, a->a[3], a->a[4]);
	if (err)
		return err;
	f = tree_open(t, a);
	if (IS_ERR(f))
		return PTR_ERR(f);
	if (a->a[3]) {
		task_vfs_ctx(t, &ctx);
		err = fscontext_mount_setattr(&ctx, &f->path, "",
					      AT_EMPTY_PATH | (flags & AT_RECURSIVE), &attr);
		task_vfs_ctx_put(&ctx);
	}
	if (err) {
		file_put(f);
		return err;
	}
	return install_result(t, f, !!(flags & OPEN_TREE_CLOEXEC));
}

SYSCALL_HANDLER(move_mount)
{
	uint32_t flags = (uint32_t)a->a[4];
	struct at_path from, to;
	long r;

	if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	if (flags & ~0x377u) /* MOVE_MOUNT__MASK */
		return -EINVAL;
	r = at_begin(t, &from, (int)a->a[0], a->a[1],
		     flags & MOVE_MOUNT_F_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (r)
		return r;
	r = at_begin_second(t, &to, &from, (int)a->a[2], a->a[3],
			    flags & MOVE_MOUNT_T_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (!r) {
		r = fscontext_move_mount(&from.ctx, from.start, from.name, to.start, to.name,
					 flags);
		at_end_second(&to);
	}
	at_end(&from);
	return r;
}

SYSCALL_HANDLER(mount_setattr)
{
	uint32_t flags = (uint32_t)a->a[2];
	struct mount_attr attr;
	struct at_path ap;
	long r;

	if (flags &
	    ~(uint32_t)(AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT))
		return -EINVAL;
	if (!cred_has_cap(task_cred(t), CAP_SYS_ADMIN))
		return -EPERM;
	r = get_attr(t, &attr, a->a[3], a->a[4]);
	if (r)
		return r;
	if (!attr.attr_set && !attr.attr_clr && !attr.propagation)
		return 0;
	r = at_begin(t, &ap, (int)a->a[0], a->a[1], flags & AT_EMPTY_PATH ? AT_BEGIN_EMPTY : 0);
	if (r)
		return r;
	r = fscontext_mount_setattr(&ap.ctx, ap.start, ap.name, flags, &attr);
	at_end(&ap);
	return r;
}
