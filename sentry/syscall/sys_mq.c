/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX message queue calls: names, copying, waiting. The queues are vfs/mqueue. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/base/log.h"
#include "sentry/fd/fdtable.h"
#include "sentry/ipc/ipc.h"
#include "sentry/ipc/mq.h"
#include "sentry/mm/mm.h"
#include "sentry/syscall/syscall.h"
#include "sentry/time/timers.h"
#include "vfs/mqueue/mqueue.h"

struct linux_mq_attr {
	int64_t flags, maxmsg, msgsize, curmsgs, reserved[4];
};

/* The path context with the namespace's queues as root and current directory. */
struct mq_ctx {
	struct vfs_ctx own, at;
	struct mount *mnt;
};

static int mq_ctx_get(struct task *t, struct mq_ctx *c)
{
	struct ipc_ns *ns = ipc_ns_of(t);

	c->mnt = ns ? ipc_ns_mq_mount(ns) : ERR_PTR(-ENOMEM);
	if (IS_ERR(c->mnt))
		return (int)PTR_ERR(c->mnt);
	task_vfs_ctx(t, &c->own);
	c->at = c->own;
	c->at.root = c->at.cwd = (struct path){ c->mnt, c->mnt->root };
	return 0;
}

static void mq_ctx_put(struct mq_ctx *c)
{
	task_vfs_ctx_put(&c->own);
	mount_put(c->mnt);
}

/* One component, without the slash that the C library takes off. ERR_PTR; free() it. */
static char *name_from_user(struct task *t, uint64_t addr)
{
	char *name = copy_path_from_user(t, addr);
	int err = 0;

	if (IS_ERR(name))
		return name;
	if (!*name)
		err = -ENOENT;
	else if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		err = -EACCES;
	else if (strlen(name) > NAME_MAX)
		err = -ENAMETOOLONG;
	if (!err)
		return name;
	free(name);
	return ERR_PTR(err);
}

SYSCALL_HANDLER(mq_open)
{
	int flags = (int)a->a[1], fd;
	struct open_how_k how = {
		.flags = (uint64_t)(flags & (O_ACCMODE | O_CREAT | O_EXCL | O_NONBLOCK)),
		.mode = flags & O_CREAT ? a->a[2] & 07777 : 0,
	};
	struct mq_limits limits, *lp = NULL;
	struct linux_mq_attr attr;
	struct mq_ctx ctx;
	struct file *f;
	char *name;

	if (a->a[3] && (flags & O_CREAT)) {
		if (copy_from_user(t, &attr, a->a[3], sizeof(attr)))
			return -EFAULT;
		limits = (struct mq_limits){ attr.maxmsg, attr.msgsize };
		lp = &limits;
	}
	if ((flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	name = name_from_user(t, a->a[0]);
	if (IS_ERR(name))
		return PTR_ERR(name);
	fd = mq_ctx_get(t, &ctx);
	if (fd) {
		free(name);
		return fd;
	}
	mqueue_next_limits(lp);
	f = vfs_open(&ctx.at, NULL, name, &how);
	mqueue_next_limits(NULL);
	mq_ctx_put(&ctx);
	free(name);
	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = fd_install(t, f, 0, O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

SYSCALL_HANDLER(mq_unlink)
{
	char *name = name_from_user(t, a->a[0]);
	struct mq_ctx ctx;
	int err;

	if (IS_ERR(name))
		return PTR_ERR(name);
	err = mq_ctx_get(t, &ctx);
	if (!err) {
		err = vfs_unlinkat(&ctx.at, NULL, name, 0);
		mq_ctx_put(&ctx);
	}
	free(name);
	return err;
}

/* The queue behind fd, opened with `mode`: a reference, or NULL (EBADF). */
static struct file *queue_get(struct task *t, int fd, uint32_t mode)
{
	struct file *f = fd_get(t, fd);

	if (f && (!file_is_mqueue(f) || (f->mode & mode) != mode)) {
		file_put(f);
		return NULL;
	}
	return f;
}

static int abs_timeout(struct task *t, uint64_t addr, uint64_t *ns)
{
	*ns = NO_DEADLINE;
	return addr ? timespec_from_user(t, addr, ns) : 0;
}

/* Waits for the queue to change, until an instant on CLOCK_REALTIME. */
static int wait_queue(struct task *t, struct file *f, uint32_t events, uint64_t abs_ns)
{
	uint64_t deadline = NO_DEADLINE;

	if (f->flags & O_NONBLOCK)
		return -EAGAIN;
	if (abs_ns != NO_DEADLINE)
		deadline = clock_to_mono(t->k, CLOCK_REALTIME, abs_ns);
	return task_wait_file(t, f, events, deadline);
}

SYSCALL_HANDLER(mq_timedsend)
{
	uint64_t abs_ns, size = a->a[2];
	uint32_t prio = (uint32_t)a->a[3];
	struct file *f;
	void *buf = NULL;
	int err = abs_timeout(t, a->a[4], &abs_ns);

	if (err)
		return err;
	if (prio >= MQ_PRIO_LIMIT)
		return -EINVAL;
	f = queue_get(t, (int)a->a[0], FMODE_WRITE);
	if (!f)
		return -EBADF;
	err = -EMSGSIZE;
	if (size > (uint64_t)mqueue_msg_size(f))
		goto out;
	err = -ENOMEM;
	buf = malloc(size ? size : 1);
	if (!buf)
		goto out;
	err = copy_from_user(t, buf, a->a[1], size);
	while (!err && (err = mqueue_send(f, buf, size, prio)) == -EAGAIN) {
		err = wait_queue(t, f, POLLOUT, abs_ns);
		if (err)
			break;
	}
out:
	free(buf);
	file_put(f);
	return err;
}

SYSCALL_HANDLER(mq_timedreceive)
{
	uint64_t abs_ns;
	struct file *f;
	uint32_t prio;
	size_t size;
	void *data;
	long ret = abs_timeout(t, a->a[4], &abs_ns);

	if (ret)
		return ret;
	f = queue_get(t, (int)a->a[0], FMODE_READ);
	if (!f)
		return -EBADF;
	ret = -EMSGSIZE;
	if (a->a[2] < (uint64_t)mqueue_msg_size(f))
		goto out;
	while ((ret = mqueue_receive(f, &data, &size, &prio)) == -EAGAIN) {
		mqueue_receiver(f, 1);
		ret = wait_queue(t, f, POLLIN, abs_ns);
		mqueue_receiver(f, -1);
		if (ret)
			goto out;
	}
	if (!ret) {
		ret = (long)size;
		if ((a->a[3] && put_user_u32(t, a->a[3], prio)) ||
		    copy_to_user(t, a->a[1], data, size))
			ret = -EFAULT;
		free(data);
	}
out:
	file_put(f);
	return ret;
}

struct linux_mq_sigevent {
	uint64_t value;
	int32_t signo, notify;
	int32_t pad[12];
};

SYSCALL_HANDLER(mq_notify)
{
	struct linux_mq_sigevent ev;
	struct file *f;
	int err = 0;

	if (a->a[1]) {
		if (copy_from_user(t, &ev, a->a[1], sizeof(ev)))
			return -EFAULT;
		if (ev.notify != SIGEV_NONE && ev.notify != SIGEV_SIGNAL &&
		    ev.notify != SIGEV_THREAD)
			return -EINVAL;
		if (ev.notify == SIGEV_SIGNAL && (ev.signo <= 0 || ev.signo > LINUX_NSIG))
			return -EINVAL;
		if (ev.notify == SIGEV_THREAD) {
			/* It would go through a netlink socket that the C library made. */
			log_once("mq_notify with SIGEV_THREAD: ENOSYS");
			return -ENOSYS;
		}
	}
	f = queue_get(t, (int)a->a[0], 0);
	if (!f)
		return -EBADF;
	if (a->a[1])
		err = mq_register_signal(t, f, ev.notify, ev.signo, ev.value);
	else
		mqueue_notify_clear(f, t->tg);
	file_put(f);
	return err;
}

SYSCALL_HANDLER(mq_getsetattr)
{
	struct linux_mq_attr attr, old;
	struct mq_limits limits;
	struct file *f;
	int64_t count;
	int err = 0;

	if (a->a[1]) {
		if (copy_from_user(t, &attr, a->a[1], sizeof(attr)))
			return -EFAULT;
		if (attr.flags & ~(int64_t)O_NONBLOCK)
			return -EINVAL;
	}
	f = queue_get(t, (int)a->a[0], 0);
	if (!f)
		return -EBADF;
	mqueue_attr(f, &limits, &count);
	memset(&old, 0, sizeof(old));
	old.flags = f->flags & O_NONBLOCK;
	old.maxmsg = limits.max_count;
	old.msgsize = limits.msg_size;
	old.curmsgs = count;
	if (a->a[1])
		err = file_set_flags(f, (f->flags & ~(uint32_t)O_NONBLOCK) | (uint32_t)attr.flags);
	file_put(f);
	if (!err && a->a[2])
		err = copy_to_user(t, a->a[2], &old, sizeof(old));
	return err;
}
