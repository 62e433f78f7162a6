/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The console of an interactive sandbox: a pty of the guest's own, and two threads that carry bytes
 * between its master side and the runtime's terminal. The host's terminal itself is never visible
 * to the guest, and nothing but bytes passes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/boot.h"
#include "sentry/task/task_priv.h"
#include "vfs/dev/tty.h"

#define CHUNK 4096

static struct console {
	struct file *master;
	int in_fd, out_fd;
	struct lock out_lock; /* one writer of out_fd at a time */
} g_console;

struct sleeper {
	struct poll_table pt;
	struct waiter w;
	pthread_mutex_t m;
	pthread_cond_t c;
	int woken;
};

static int sleeper_wake(struct waiter *w, uint32_t events)
{
	struct sleeper *s = w->priv;

	(void)events;
	pthread_mutex_lock(&s->m);
	s->woken = 1;
	pthread_cond_signal(&s->c);
	pthread_mutex_unlock(&s->m);
	return 1;
}

static void sleeper_add(struct poll_table *pt, struct waitq *q)
{
	struct sleeper *s = container_of(pt, struct sleeper, pt);

	if (!s->w.q)
		waitq_add(q, &s->w);
}

/* Blocks until the master shows one of events. */
static void wait_master(struct sleeper *s, uint32_t events)
{
	while (!(file_poll(g_console.master, NULL) & (events | POLLERR))) {
		pthread_mutex_lock(&s->m);
		while (!s->woken)
			pthread_cond_wait(&s->c, &s->m);
		s->woken = 0;
		pthread_mutex_unlock(&s->m);
	}
}

static void sleeper_init(struct sleeper *s, uint32_t events)
{
	memset(s, 0, sizeof(*s));
	s->pt.add = sleeper_add;
	pthread_mutex_init(&s->m, NULL);
	pthread_cond_init(&s->c, NULL);
	waiter_init(&s->w, events, sleeper_wake, s);
	file_poll(g_console.master, &s->pt);
}

static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) {
			struct pollfd pf = { .fd = fd, .events = POLLOUT };

			poll(&pf, 1, -1);
			continue;
		}
		if (w <= 0)
			return -1;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* What is ready on the master goes out; 0 when there was something. */
static int carry_out(void)
{
	char buf[CHUNK];
	struct uio u;
	ssize_t n;

	lock_acquire(&g_console.out_lock);
	uio_init_kernel(&u, buf, sizeof(buf));
	n = file_read(g_console.master, &u);
	if (n > 0)
		write_all(g_console.out_fd, buf, (size_t)n);
	lock_release(&g_console.out_lock);
	return n > 0 ? 0 : -EAGAIN;
}

static void *output_main(void *arg)
{
	struct sleeper s;

	(void)arg;
	sleeper_init(&s, POLLIN);
	for (;;) {
		wait_master(&s, POLLIN);
		/* EIO while no slave is open: init holds one as its stdio; before that, and if it
		 * closes it, wait for the next change. */
		if (carry_out() && (file_poll(g_console.master, NULL) & POLLHUP)) {
			pthread_mutex_lock(&s.m);
			while (!s.woken)
				pthread_cond_wait(&s.c, &s.m);
			s.woken = 0;
			pthread_mutex_unlock(&s.m);
		}
	}
	return NULL;
}

static void *input_main(void *arg)
{
	struct sleeper s;
	char buf[CHUNK];

	(void)arg;
	sleeper_init(&s, POLLOUT);
	for (;;) {
		ssize_t n = read(g_console.in_fd, buf, sizeof(buf));
		size_t done = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd pf = { .fd = g_console.in_fd, .events = POLLIN };

			poll(&pf, 1, -1);
			continue;
		}
		if (n <= 0)
			return NULL;
		while (done < (size_t)n) {
			struct uio u;
			ssize_t w;

			uio_init_kernel(&u, buf + done, (size_t)n - done);
			w = file_write(g_console.master, &u, UINT64_MAX);
			if (w == -EAGAIN)
				wait_master(&s, POLLOUT);
			else if (w < 0)
				return NULL;
			else
				done += (size_t)w;
		}
	}
}

int console_start(struct kernel *k, const struct vfs_ctx *ctx, int in_fd, int out_fd, uint16_t rows,
		  uint16_t cols, struct file **slave)
{
	int err = console_pty_new(ctx, rows, cols, &g_console.master, slave);

	(void)k;
	if (err)
		return err;
	lock_init(&g_console.out_lock, RANK_NONE);
	g_console.in_fd = in_fd;
	g_console.out_fd = out_fd;
	return 0;
}

/* After lockdown, since the threads live as long as the sandbox. */
int console_run(void)
{
	int err = 0;

	if (!g_console.master)
		return 0;
	err = thread_start("console-out", output_main, NULL);
	if (!err)
		err = thread_start("console-in", input_main, NULL);
	return err;
}

void console_resize(uint16_t rows, uint16_t cols)
{
	if (g_console.master)
		tty_resize(g_console.master, rows, cols);
}

void console_drain(void)
{
	while (g_console.master && carry_out() == 0)
		;
}
