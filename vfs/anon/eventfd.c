/* SPDX-License-Identifier: Apache-2.0 */
/* eventfd: a 64-bit counter that is readable while not zero. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "vfs/anon/anon.h"

struct eventfd {
	struct lock lock; /* RANK_TIMER_OBJ */
	uint64_t count;	  /* [lock] */
	int semaphore;	  /* [I] */
	uint32_t id;	  /* [I] for fdinfo */
	struct waitq wq;
};

static const struct file_ops g_eventfd_ops;
static uint32_t g_eventfd_ids; /* [a] */

int file_is_eventfd(const struct file *f)
{
	return f->ops == &g_eventfd_ops;
}

static ssize_t eventfd_read_op(struct file *f, struct uio *u, int64_t *pos)
{
	struct eventfd *e = f->priv;
	uint64_t v;
	ssize_t r;

	(void)pos;
	if (u->left < sizeof(v))
		return -EINVAL;
	lock_acquire(&e->lock);
	if (!e->count) {
		lock_release(&e->lock);
		return -EAGAIN;
	}
	v = e->semaphore ? 1 : e->count;
	e->count -= v;
	waitq_wake(&e->wq, POLLOUT | POLLWRNORM);
	lock_release(&e->lock);
	r = uio_copy_out(u, &v, sizeof(v));
	return r == sizeof(v) ? r : -EFAULT;
}

static ssize_t eventfd_write_op(struct file *f, struct uio *u, int64_t *pos)
{
	struct eventfd *e = f->priv;
	uint64_t v;

	(void)pos;
	if (u->left < sizeof(v))
		return -EINVAL;
	if (uio_copy_in(u, &v, sizeof(v)) != sizeof(v))
		return -EFAULT;
	if (v == UINT64_MAX)
		return -EINVAL;
	lock_acquire(&e->lock);
	if (UINT64_MAX - e->count <= v) {
		lock_release(&e->lock);
		return -EAGAIN;
	}
	e->count += v;
	waitq_wake(&e->wq, POLLIN | POLLRDNORM);
	lock_release(&e->lock);
	return sizeof(v);
}

void eventfd_signal(struct file *f, uint64_t n)
{
	struct eventfd *e = f->priv;

	lock_acquire(&e->lock);
	if (UINT64_MAX - e->count < n)
		n = UINT64_MAX - e->count;
	e->count += n;
	waitq_wake(&e->wq, POLLIN | POLLRDNORM | (e->count == UINT64_MAX ? POLLERR : 0));
	lock_release(&e->lock);
}

static uint32_t eventfd_poll(struct file *f, struct poll_table *pt)
{
	struct eventfd *e = f->priv;
	uint32_t mask = 0;
	uint64_t count;

	poll_wait(pt, &e->wq);
	lock_acquire(&e->lock);
	count = e->count;
	lock_release(&e->lock);
	if (count)
		mask |= POLLIN;
	if (count == UINT64_MAX)
		mask |= POLLERR;
	if (count < UINT64_MAX - 1)
		mask |= POLLOUT;
	return mask;
}

static void eventfd_release(struct file *f)
{
	struct eventfd *e = f->priv;

	waitq_destroy(&e->wq);
	lock_destroy(&e->lock);
	free(e);
}

static void eventfd_show_fdinfo(struct file *f, struct strbuf *sb)
{
	struct eventfd *e = f->priv;

	lock_acquire(&e->lock);
	strbuf_printf(sb, "eventfd-count: %16llx\neventfd-id: %u\neventfd-semaphore: %d\n",
		      (unsigned long long)e->count, e->id, e->semaphore);
	lock_release(&e->lock);
}

static const struct file_ops g_eventfd_ops = {
	.read = eventfd_read_op,
	.write = eventfd_write_op,
	.llseek = anon_llseek,
	.poll = eventfd_poll,
	.release = eventfd_release,
	.show_fdinfo = eventfd_show_fdinfo,
};

struct file *eventfd_new(struct vfs *vfs, const struct cred *cred, uint32_t count, int flags)
{
	struct eventfd *e;
	struct file *f;

	if (flags & ~(EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE))
		return ERR_PTR(-EINVAL);
	e = calloc(1, sizeof(*e));
	if (!e)
		return ERR_PTR(-ENOMEM);
	lock_init(&e->lock, RANK_TIMER_OBJ);
	waitq_init(&e->wq);
	e->count = count;
	e->semaphore = !!(flags & EFD_SEMAPHORE);
	e->id = __atomic_fetch_add(&g_eventfd_ids, 1, __ATOMIC_RELAXED);
	f = file_new_anon(vfs, "anon_inode:[eventfd]", &g_eventfd_ops, e,
			  O_RDWR | (uint32_t)(flags & EFD_NONBLOCK),
			  FMODE_READ | FMODE_WRITE | FMODE_NOPREAD, cred);
	if (IS_ERR(f)) {
		waitq_destroy(&e->wq);
		lock_destroy(&e->lock);
		free(e);
	}
	return f;
}
