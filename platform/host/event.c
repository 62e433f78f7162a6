/* SPDX-License-Identifier: Apache-2.0 */
/* The epoll thread of event.h. */
#include "platform/host/event.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "platform/base/list.h"
#include "platform/base/lock.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"

struct watch {
	struct list_head node;
	uint64_t id; /* never used twice: an event of a watch that is gone finds nothing */
	int fd;
	struct waitq *q;
};

/* One per process, like the fd table it watches. */
static struct {
	pthread_once_t once;
	struct lock lock;	    /* also held while a queue is woken, see hostfd_watch_del() */
	struct list_head watches;   /* [lock] */
	uint64_t last_id;	    /* [lock] */
	int epoll_fd;		    /* [lock] -1 until set up */
	int running;		    /* [lock] the thread is there */
} g_event = { .once = PTHREAD_ONCE_INIT, .epoll_fd = -1 };

static void event_init(void)
{
	lock_init(&g_event.lock, RANK_PLATFORM);
	list_init(&g_event.watches);
}

static void deliver(uint64_t id, uint32_t events)
{
	struct watch *w;

	lock_acquire(&g_event.lock);
	list_for_each(w, &g_event.watches, node) {
		if (w->id == id) {
			waitq_wake(w->q, events); /* EPOLL* and POLL* bits are the same */
			break;
		}
	}
	lock_release(&g_event.lock);
}

/* #hostcalls: epoll_wait */
static void *event_thread(void *arg)
{
	struct epoll_event ev[16];
	int epfd = (int)(intptr_t)arg;

	for (;;) {
		int n = epoll_wait(epfd, ev, 16, -1);

		if (n < 0 && errno != EINTR) {
			log_error("host events: epoll_wait: errno %d", errno);
			return NULL;
		}
		for (int i = 0; i < n; i++)
			deliver(ev[i].data.u64, ev[i].events & ~(uint32_t)EPOLLET);
	}
}

/* With the lock. #hostcalls: epoll_create1 (before lockdown) */
static int setup(void)
{
	if (g_event.epoll_fd < 0)
		g_event.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return g_event.epoll_fd < 0 ? -errno : 0;
}

int hostfd_watch_setup(void)
{
	pthread_once(&g_event.once, event_init);
	lock_acquire(&g_event.lock);
	int ret = setup();

	lock_release(&g_event.lock);
	return ret;
}

/* Starts the thread. With the lock. */
static int start(void)
{
	int ret = setup();

	if (ret || g_event.running)
		return ret;
	ret = thread_start("host-events", event_thread, (void *)(intptr_t)g_event.epoll_fd);
	g_event.running = !ret;
	return ret;
}

/* #hostcalls: epoll_ctl */
int hostfd_watch_add(int fd, struct waitq *q, uint32_t events)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	pthread_once(&g_event.once, event_init);
	lock_acquire(&g_event.lock);
	int ret = start();

	if (!ret) {
		struct epoll_event ev = { .events = events | EPOLLET };

		ev.data.u64 = w->id = ++g_event.last_id;
		w->fd = fd;
		w->q = q;
		/* An event that comes at once waits for the lock, and then finds the watch. */
		if (epoll_ctl(g_event.epoll_fd, EPOLL_CTL_ADD, fd, &ev))
			ret = -errno;
		else
			list_add(&w->node, &g_event.watches);
	}
	lock_release(&g_event.lock);
	if (ret)
		free(w);
	return ret;
}

/* #hostcalls: epoll_ctl */
void hostfd_watch_del(int fd, struct waitq *q)
{
	struct watch *w, *tmp;

	pthread_once(&g_event.once, event_init);
	lock_acquire(&g_event.lock);
	list_for_each_safe(w, tmp, &g_event.watches, node) {
		if (w->fd != fd || w->q != q)
			continue;
		epoll_ctl(g_event.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		list_del(&w->node);
		free(w);
		break;
	}
	lock_release(&g_event.lock);
}
