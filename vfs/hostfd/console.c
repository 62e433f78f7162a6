/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The console pump of console.h: one thread, two directions, each with one buffer.
 *
 * Theory of operation: the thread moves what it can in both directions; when nothing moved it
 * sleeps on a semaphore, which waiters on the three files post. The waiters stay queued for ever,
 * so a wake between the last look and the sleep is not lost. When the host's terminal goes away that
 * is a hangup: the master is closed, and the guest's session gets SIGHUP. The end of an input that
 * is no terminal (</dev/null) just means that nobody types.
 */
#include "vfs/hostfd/console.h"

#include <semaphore.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "vfs/hostfd/hostfd.h"

#define PUMP_SIZE 4096u
#define PUMP_WAITERS 6

struct flow {
	uint8_t buf[PUMP_SIZE];
	size_t len, off;
};

struct console {
	struct file *in, *out; /* the host's; references */
	pthread_mutex_t master_lock;
	struct file *master; /* [master_lock] a reference until the hangup */
	int in_is_tty, in_done;
	struct flow to_guest, to_host;
	struct waiter waiters[PUMP_WAITERS];
	uint32_t waiter_count;
	sem_t wake;
	uint32_t pending; /* [a] a post is under way or waiting */
	uint32_t busy;	  /* [a] bytes for the host are held in to_host */
	uint32_t stop;	  /* [a] console_stop was called */
	uint32_t parties; /* [a] who may still use this: the thread, and the starter until it stops */
};

static int console_wake(struct waiter *w, uint32_t events)
{
	struct console *c = w->priv;

	(void)events;
	if (!__atomic_exchange_n(&c->pending, 1, __ATOMIC_SEQ_CST))
		sem_post(&c->wake);
	return 0;
}

struct console_table {
	struct poll_table pt;
	struct console *c;
	uint32_t events;
};

static void console_add(struct poll_table *pt, struct waitq *q)
{
	struct console_table *ct = container_of(pt, struct console_table, pt);
	struct console *c = ct->c;

	if (c->waiter_count == PUMP_WAITERS)
		return;
	waiter_init(&c->waiters[c->waiter_count], ct->events, console_wake, c);
	waitq_add(q, &c->waiters[c->waiter_count++]);
}

static void console_watch(struct console *c, struct file *f, uint32_t events)
{
	struct console_table ct = { .pt.add = console_add, .c = c, .events = events };

	file_poll(f, &ct.pt);
}

/* Refills an empty buffer: 1 when bytes came, 0 when there are none now, -EPIPE at the end. */
static int flow_fill(struct flow *fl, struct file *from)
{
	struct uio u;
	ssize_t r;

	if (fl->len)
		return 0;
	uio_init_kernel(&u, fl->buf, sizeof(fl->buf));
	r = file_read(from, &u);
	if (r == -EAGAIN)
		return 0;
	if (r <= 0)
		return r ? (int)r : -EPIPE;
	fl->len = (size_t)r;
	fl->off = 0;
	return 1;
}

static int flow_drain(struct flow *fl, struct file *to)
{
	struct uio u;
	ssize_t r;

	if (!fl->len)
		return 0;
	uio_init_kernel(&u, fl->buf + fl->off, fl->len);
	r = file_write(to, &u, UINT64_MAX);
	if (r == -EAGAIN)
		return 0;
	if (r < 0) {
		fl->len = 0; /* nobody will ever take it */
		return (int)r;
	}
	fl->off += (size_t)r;
	fl->len -= (size_t)r;
	return r > 0;
}

/* One round in both directions: 1 when something moved, -EPIPE at the host's end. */
static int pump_once(struct console *c)
{
	int moved = 0, r;

	if (!c->in_done) {
		r = flow_fill(&c->to_guest, c->in);
		if (r < 0 && c->in_is_tty)
			return -EPIPE;
		c->in_done = r < 0;
		moved |= r > 0;
	}
	moved |= flow_drain(&c->to_guest, c->master) > 0;

	__atomic_store_n(&c->busy, 1, __ATOMIC_SEQ_CST);
	/* -EIO: no guest process has the terminal open just now. */
	moved |= flow_fill(&c->to_host, c->master) > 0;
	r = flow_drain(&c->to_host, c->out);
	if (r < 0)
		return -EPIPE;
	moved |= r;
	__atomic_store_n(&c->busy, c->to_host.len != 0, __ATOMIC_SEQ_CST);
	return moved;
}

static void console_leave(struct console *c)
{
	if (__atomic_sub_fetch(&c->parties, 1, __ATOMIC_SEQ_CST))
		return;
	sem_destroy(&c->wake);
	pthread_mutex_destroy(&c->master_lock);
	free(c);
}

static void *console_thread(void *arg)
{
	struct console *c = arg;
	struct file *m;
	int r;

	for (;;) {
		__atomic_store_n(&c->pending, 0, __ATOMIC_SEQ_CST);
		do
			r = pump_once(c);
		while (r > 0 && !__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST));
		if (r < 0 || __atomic_load_n(&c->stop, __ATOMIC_SEQ_CST))
			break;
		while (sem_wait(&c->wake) < 0)
			;
	}
	log_debug("console: the host's side is closed");
	for (uint32_t i = 0; i < c->waiter_count; i++)
		waitq_del(&c->waiters[i]);
	__atomic_store_n(&c->busy, 0, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&c->master_lock);
	m = c->master;
	c->master = NULL;
	pthread_mutex_unlock(&c->master_lock);
	file_put(m);
	/* Nothing of the host's terminal stays open, or is read, from here on. */
	file_put(c->in);
	file_put(c->out);
	console_leave(c);
	return NULL;
}

void console_stop(struct console *c)
{
	__atomic_store_n(&c->stop, 1, __ATOMIC_SEQ_CST);
	sem_post(&c->wake);
	console_leave(c);
}

int console_start(struct vfs *vfs, const struct cred *cred, struct file *master, int in_fd,
		  int out_fd, struct console **out)
{
	struct console *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	*out = NULL;
	if (!c)
		goto err_master;
	c->master = master;
	c->parties = 2;
	c->in = hostfd_file_new(vfs, cred, in_fd);
	c->out = hostfd_file_new(vfs, cred, out_fd);
	if (IS_ERR(c->in) || IS_ERR(c->out)) {
		err = (int)PTR_ERR(IS_ERR(c->in) ? c->in : c->out);
		goto err_files;
	}
	c->in_is_tty = S_ISCHR(c->in->inode->mode) && !c->in->inode->rdev;
	pthread_mutex_init(&c->master_lock, NULL);
	sem_init(&c->wake, 0, 0);
	console_watch(c, c->in, POLLIN);
	console_watch(c, c->out, POLLOUT);
	console_watch(c, c->master, POLLIN | POLLOUT);
	err = thread_start("console", console_thread, c);
	if (!err) {
		*out = c;
		return 0;
	}
	for (uint32_t i = 0; i < c->waiter_count; i++)
		waitq_del(&c->waiters[i]);
	sem_destroy(&c->wake);
	pthread_mutex_destroy(&c->master_lock);
err_files:
	if (!IS_ERR(c->in))
		file_put(c->in);
	if (!IS_ERR(c->out))
		file_put(c->out);
	free(c);
err_master:
	file_put(master);
	return err;
}

struct file *console_master(struct console *c)
{
	struct file *m;

	pthread_mutex_lock(&c->master_lock);
	m = c->master ? file_get(c->master) : NULL;
	pthread_mutex_unlock(&c->master_lock);
	return m;
}

void console_flush(struct console *c, unsigned ms)
{
	/* The process is about to end and the pump may wait for a slow terminal: look now and then. */
	for (; ms; ms--) {
		struct file *m = console_master(c);
		int done;

		if (!m)
			return;
		done = !(file_poll(m, NULL) & POLLIN) &&
		       !__atomic_load_n(&c->busy, __ATOMIC_SEQ_CST);
		file_put(m);
		if (done)
			return;
		thread_nap(1000000);
	}
}
