/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, duplicating, pipes, umask. Descriptor control is sys_fcntl.c. */
#include <errno.h>
#include <linux/openat2.h>
#include <stdlib.h>

#include "platform/base/log.h"
#include "sentry/fd/fdtable.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/fs_util.h"
#include "vfs/pipe.h"

/* What open(2) looks at; it ignores the rest, and openat2(2) refuses it. */
#define OPEN_KNOWN_FLAGS                                                                           \
	((uint64_t)(O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |    \
		    O_DSYNC | O_SYNC | O_ASYNC | O_DIRECT | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | \
		    O_CLOEXEC | O_PATH | O_TMPFILE) |                                              \
	 LINUX_O_LARGEFILE)
#define O_TMPFILE_BIT (O_TMPFILE & ~O_DIRECTORY)

/*
 * Makes a terminal just opened the controlling one, where the rules say so; from the terminal
 * code, absent in a build without it.
 */
void tty_opened(struct task *t, struct file *f) __attribute__((weak));

static long do_open(struct task *t, int dirfd, uint64_t upath, const struct open_how_k *how)
{
	struct at_path ap;
	struct file *f;
	int fd, err = at_begin(t, &ap, dirfd, upath, 0);

	if (err)
		return err;
	fd = fd_reserve(t, 0, (uint32_t)how->flags & O_CLOEXEC);
	if (fd < 0) {
		at_end(&ap);
		return fd;
	}
	f = vfs_open(&ap.ctx, ap.start, ap.name, how);
	at_end(&ap);
	err = IS_ERR(f) ? (int)PTR_ERR(f) : open_finish(t, f);
	if (err) {
		fd_unreserve(t, fd);
		return err;
	}
	if (tty_opened && !(how->flags & (O_NOCTTY | O_PATH)))
		tty_opened(t, f);
	fd_publish(t, fd, f);
	return fd;
}

static long open_classic(struct task *t, int dirfd, uint64_t upath, uint64_t flags, uint64_t mode)
{
	struct open_how_k how = { .flags = (flags & OPEN_KNOWN_FLAGS) | LINUX_O_LARGEFILE };

	if (flags & (O_CREAT | O_TMPFILE_BIT))
		how.mode = mode & 07777;
	return do_open(t, dirfd, upath, &how);
}

SYSCALL_HANDLER(open)
{
	return open_classic(t, AT_FDCWD, a->a[0], (uint32_t)a->a[1], a->a[2]);
}

SYSCALL_HANDLER(openat)
{
	return open_classic(t, (int)a->a[0], a->a[1], (uint32_t)a->a[2], a->a[3]);
}

SYSCALL_HANDLER(creat)
{
	return open_classic(t, AT_FDCWD, a->a[0], O_CREAT | O_WRONLY | O_TRUNC, a->a[1]);
}

SYSCALL_HANDLER(openat2)
{
	const uint64_t resolve_known = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS |
				       RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT |
				       RESOLVE_CACHED;
	struct open_how how;
	struct open_how_k k;
	int err = copy_struct_from_user(t, &how, sizeof(how), a->a[2], a->a[3], sizeof(how));

	if (err)
		return err;
	if ((how.flags & ~OPEN_KNOWN_FLAGS) || (how.resolve & ~resolve_known))
		return -EINVAL;
	if ((how.resolve & RESOLVE_BENEATH) && (how.resolve & RESOLVE_IN_ROOT))
		return -EINVAL;
	if (how.flags & (O_CREAT | O_TMPFILE_BIT) ? (how.mode & ~07777ull) != 0 : how.mode != 0)
		return -EINVAL;
	if ((how.flags & O_PATH) && (how.flags & ~(uint64_t)(O_PATH | O_DIRECTORY | O_NOFOLLOW |
							     O_CLOEXEC | LINUX_O_LARGEFILE)))
		return -EINVAL;
	/* Nothing that modifies can be promised from caches. */
	if ((how.resolve & RESOLVE_CACHED) && (how.flags & (O_TRUNC | O_CREAT | O_TMPFILE_BIT)))
		return -EAGAIN;
	k.flags = how.flags | (how.flags & O_PATH ? 0 : LINUX_O_LARGEFILE);
	k.mode = how.mode;
	k.resolve = how.resolve;
	return do_open(t, (int)a->a[0], a->a[1], &k);
}

SYSCALL_HANDLER(close)
{
	return fd_close(t, (int)a->a[0]);
}

SYSCALL_HANDLER(close_range)
{
	return fd_close_range(t, (uint32_t)a->a[0], (uint32_t)a->a[1], (uint32_t)a->a[2]);
}

SYSCALL_HANDLER(dup)
{
	struct file *f = fd_get_path(t, (int)a->a[0]);
	int fd;

	if (!f)
		return -EBADF;
	fd = fd_install(t, f, 0, 0);
	if (fd < 0)
		file_put(f);
	return fd;
}

SYSCALL_HANDLER(dup2)
{
	return fd_dup2(t, (int)a->a[0], (int)a->a[1], 0, 0);
}

SYSCALL_HANDLER(dup3)
{
	return fd_dup2(t, (int)a->a[0], (int)a->a[1], (uint32_t)a->a[2], 1);
}

static long do_pipe(struct task *t, uint64_t ufds, uint32_t flags)
{
	struct file *ends[2];
	int fds[2], err;

	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK | O_DIRECT | O_EXCL))
		return -EINVAL;
	err = pipe_new(t->k->vfs, task_cred(t), flags, ends);
	if (err)
		return err;
	fds[0] = fd_reserve(t, 0, flags & O_CLOEXEC);
	err = fds[0];
	if (fds[0] < 0)
		goto out_files;
	fds[1] = fd_reserve(t, 0, flags & O_CLOEXEC);
	err = fds[1];
	if (fds[1] < 0)
		goto out_first;
	err = copy_to_user(t, ufds, fds, sizeof(fds));
	if (err)
		goto out_second;
	fd_publish(t, fds[0], ends[0]);
	fd_publish(t, fds[1], ends[1]);
	return 0;
out_second:
	fd_unreserve(t, fds[1]);
out_first:
	fd_unreserve(t, fds[0]);
out_files:
	file_put(ends[0]);
	file_put(ends[1]);
	return err;
}

SYSCALL_HANDLER(pipe)
{
	return do_pipe(t, a->a[0], 0);
}

SYSCALL_HANDLER(pipe2)
{
	return do_pipe(t, a->a[0], (uint32_t)a->a[1]);
}

SYSCALL_HANDLER(umask)
{
	uint32_t old;

	lock_acquire(&t->fs->lock);
	old = t->fs->umask;
	t->fs->umask = (uint32_t)a->a[0] & 0777;
	lock_release(&t->fs->lock);
	return old;
}

SYSCALL_HANDLER(name_to_handle_at)
{
	log_once("name_to_handle_at: file handles are not offered");
	return -EOPNOTSUPP;
}

SYSCALL_HANDLER(open_by_handle_at)
{
	if (!cred_has_cap(task_cred(t), CAP_DAC_READ_SEARCH))
		return -EPERM;
	return -ESTALE;
}
