/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readiness of host fds as wakes of wait queues. One thread, started with the first watch, sleeps
 * in epoll_wait; it is woken by changes of readiness only (edge-triggered), so a ready fd that
 * nobody serves costs nothing.
 */
#ifndef CAISSON_HOST_EVENT_H
#define CAISSON_HOST_EVENT_H

#include <stdint.h>

#include "platform/base/waitq.h"

/* Makes what watching needs; for a process that may not later (the first watch does it else). */
int hostfd_watch_setup(void);
/*
 * From now on each new readiness of fd (poll bits; POLLERR and POLLHUP always) wakes q, and once
 * at the start for what is ready already. One watch per fd. -EEXIST, -ENOMEM, -EAGAIN, or -EPERM
 * for files that are always ready (regular ones). Any thread; takes RANK_PLATFORM.
 */
int hostfd_watch_add(int fd, struct waitq *q, uint32_t events);
/* Afterwards q is not being woken for fd and will not be: both may go. Before close(fd). */
void hostfd_watch_del(int fd, struct waitq *q);

#endif
