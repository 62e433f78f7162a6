/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues themselves: messages, limits, notification, and their files. The filesystem around
 * them is mqueue_fs.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/mqueue/mqueue_priv.h"

/* What Linux charges beside the bytes: sizes of its struct msg_msg and of a priority's tree node.
 */
#define MSG_OVERHEAD  48u
#define NODE_OVERHEAD 48u

int mqueue_cost(const struct mq_limits *l, uint64_t *bytes)
{
	uint64_t nodes, data;

	if (l->max_count <= 0 || l->msg_size <= 0)
		return -EINVAL;
	if (l->max_count > MQ_HARD_COUNT || l->msg_size > MQ_HARD_SIZE)
		return -EINVAL;
	nodes = (uint64_t)(l->max_count < (int64_t)MQ_PRIO_LIMIT ? l->max_count
								 : (int64_t)MQ_PRIO_LIMIT);
	if (__builtin_mul_overflow((uint64_t)l->max_count, (uint64_t)l->msg_size, &data))
		return -EOVERFLOW;
	*bytes = data + (uint64_t)l->max_count * MSG_OVERHEAD + nodes * NODE_OVERHEAD;
	return 0;
}

struct mqueue *mqueue_new(const struct mq_limits *l)
{
	struct mqueue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	lock_init(&q->lock, RANK_IPC);
	list_init(&q->messages);
	q->limits = *l;
	waitq_init(&q->wq);
	return q;
}

void mqueue_free(struct mqueue *q)
{
	struct mq_message *m, *tmp;

	list_for_each_safe(m, tmp, &q->messages, node)
		free(m);
	if (q->notify)
		q->notify->free(q->notify);
	waitq_destroy(&q->wq);
	lock_destroy(&q->lock);
	free(q);
}

static struct mqueue *queue_of(struct file *f)
{
	return f->inode->priv;
}

/* Behind all of its priority or higher: receivers take from the head. */
static void insert(struct mqueue *q, struct mq_message *m)
{
	struct mq_message *i;

	for (struct list_head *p = q->messages.prev; p != &q->messages; p = p->prev) {
		i = list_entry(p, struct mq_message, node);
		if (i->prio >= m->prio) {
			list_add(&m->node, p);
			return;
		}
	}
	list_add(&m->node, &q->messages);
}

int mqueue_send(struct file *f, const void *data, size_t size, uint32_t prio)
{
	struct mqueue *q = queue_of(f);
	struct mq_notify *fire = NULL;
	struct mq_message *m;

	if (size > (uint64_t)q->limits.msg_size)
		return -EMSGSIZE;
	m = malloc(sizeof(*m) + size);
	if (!m)
		return -ENOMEM;
	m->prio = prio;
	m->size = size;
	memcpy(m->data, data, size);
	lock_acquire(&q->lock);
	if (q->count >= q->limits.max_count) {
		lock_release(&q->lock);
		free(m);
		return -EAGAIN;
	}
	if (!q->count && q->notify && !q->receivers) {
		fire = q->notify;
		q->notify = NULL;
	}
	insert(q, m);
	q->count++;
	q->bytes += size;
	lock_release(&q->lock);
	waitq_wake(&q->wq, POLLIN | POLLRDNORM);
	if (fire) {
		fire->fire(fire);
		fire->free(fire);
	}
	return 0;
}

int mqueue_receive(struct file *f, void **data, size_t *size, uint32_t *prio)
{
	struct mqueue *q = queue_of(f);
	struct mq_message *m;

	lock_acquire(&q->lock);
	if (list_empty(&q->messages)) {
		lock_release(&q->lock);
		return -EAGAIN;
	}
	m = list_first(&q->messages, struct mq_message, node);
	list_del(&m->node);
	q->count--;
	q->bytes -= m->size;
	lock_release(&q->lock);
	waitq_wake(&q->wq, POLLOUT | POLLWRNORM);
	*size = m->size;
	*prio = m->prio;
	/* The message's bytes, moved to the front of its own allocation. */
	size_t n = m->size;

	memmove(m, m->data, n);
	*data = m;
	return 0;
}

int64_t mqueue_msg_size(struct file *f)
{
	return queue_of(f)->limits.msg_size;
}

void mqueue_attr(struct file *f, struct mq_limits *l, int64_t *count)
{
	struct mqueue *q = queue_of(f);

	lock_acquire(&q->lock);
	*l = q->limits;
	*count = q->count;
	lock_release(&q->lock);
}

int mqueue_notify_set(struct file *f, struct mq_notify *n)
{
	struct mqueue *q = queue_of(f);
	int err = 0;

	lock_acquire(&q->lock);
	if (q->notify)
		err = -EBUSY;
	else
		q->notify = n;
	lock_release(&q->lock);
	return err;
}

void mqueue_notify_clear(struct file *f, const void *owner)
{
	struct mqueue *q = queue_of(f);
	struct mq_notify *n = NULL;

	lock_acquire(&q->lock);
	if (q->notify && q->notify->owner == owner) {
		n = q->notify;
		q->notify = NULL;
	}
	lock_release(&q->lock);
	if (n)
		n->free(n);
}

void mqueue_receiver(struct file *f, int delta)
{
	struct mqueue *q = queue_of(f);

	lock_acquire(&q->lock);
	q->receivers += delta;
	lock_release(&q->lock);
}

/* ---- the file: read gives a line about the queue ---- */

static ssize_t mq_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct mqueue *q = queue_of(f);
	struct strbuf sb;
	ssize_t n = 0;

	strbuf_init(&sb);
	lock_acquire(&q->lock);
	strbuf_printf(&sb, "QSIZE:%-10lu NOTIFY:%-5d SIGNO:%-5d NOTIFY_PID:%-6d\n",
		      (unsigned long)q->bytes, q->notify ? q->notify->kind : 0,
		      q->notify ? q->notify->signo : 0, q->notify ? q->notify->pid : 0);
	lock_release(&q->lock);
	if (sb.err)
		n = sb.err;
	else if (*pos >= 0 && (size_t)*pos < sb.len)
		n = uio_copy_out(u, sb.data + *pos, sb.len - (size_t)*pos);
	if (n > 0)
		*pos += n;
	strbuf_free(&sb);
	return n;
}

static uint32_t mq_poll(struct file *f, struct poll_table *pt)
{
	struct mqueue *q = queue_of(f);
	uint32_t ev = 0;

	poll_wait(pt, &q->wq);
	lock_acquire(&q->lock);
	if (q->count)
		ev |= POLLIN | POLLRDNORM;
	if (q->count < q->limits.max_count)
		ev |= POLLOUT | POLLWRNORM;
	lock_release(&q->lock);
	return ev;
}

static int mq_flush(struct file *f)
{
	if (mqueue_caller)
		mqueue_notify_clear(f, mqueue_caller());
	return 0;
}

const struct file_ops g_mqueue_fops = {
	.read = mq_read,
	.poll = mq_poll,
	.flush = mq_flush,
};

int file_is_mqueue(const struct file *f)
{
	return f->ops == &g_mqueue_fops;
}
