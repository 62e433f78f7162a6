/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that join a running sandbox (`caisson exec`).
 *
 * Theory of operation. The asker's connection lives as long as the process. Two service threads
 * stand for it: the waiter sleeps until the process has ended, passes on what its terminal still
 * holds, and sends the wait status; the listener takes signals and window sizes from the asker, and
 * kills the process when the asker goes away. The asker leaves once it has the status, which ends
 * the listener, which frees everything.
 *
 * To the asker: event=started, then status=N (wait(2)'s), or error= and code= instead.
 * From the asker: cmd=signal signo=, cmd=winsize rows= cols=.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/boot.h"
#include "sentry/container.h"
#include "sentry/spawn.h"
#include "sentry/task/task_priv.h"

#define MESSAGE_MAX 512

struct joined {
	struct spawn spawn;
	struct bootconf conf;
	int conn;
	struct thread_group *tg; /* a reference */
	struct waiter exit_waiter;
	sem_t exited;
	sem_t listener_done;
};

static void tell(struct joined *j, struct bootconf *m)
{
	if (control_send(j->conn, m, MSG_DONTWAIT) < 0)
		log_info("exec: the asker is gone: %s", strerror(errno));
	bootconf_free(m);
}

static void tell_error(struct joined *j)
{
	struct bootconf m;

	bootconf_init(&m);
	if (!bootconf_add(&m, "error", j->spawn.why))
		bootconf_add_u64(&m, "code", (uint64_t)j->spawn.code);
	tell(j, &m);
}

static void tell_number(struct joined *j, const char *key, uint64_t v)
{
	struct bootconf m;

	bootconf_init(&m);
	bootconf_add_u64(&m, key, v);
	tell(j, &m);
}

static int on_exit_wake(struct waiter *w, uint32_t events)
{
	struct joined *j = container_of(w, struct joined, exit_waiter);

	(void)events;
	sem_post(&j->exited);
	return 0;
}

static void serve_asker(struct joined *j, const struct bootconf *m)
{
	const char *cmd = bootconf_get(m, "cmd");
	uint64_t a, b;
	siginfo_t si;

	if (cmd && !strcmp(cmd, "winsize") && !bootconf_get_u64(m, "rows", 0, &a) &&
	    !bootconf_get_u64(m, "cols", 0, &b) && a <= UINT16_MAX && b <= UINT16_MAX && j->spawn.console)
		console_resize(j->spawn.console, (uint16_t)a, (uint16_t)b);
	if (!cmd || strcmp(cmd, "signal") != 0 || bootconf_get_u64(m, "signo", 0, &a) || a < 1 ||
	    a > LINUX_NSIG)
		return;
	siginfo_kernel(&si, (int)a);
	lock_acquire(&j->spawn.k->tasks_lock);
	if (!(j->tg->group_flags & TG_ZOMBIE))
		signal_send_group_locked(j->tg, &si);
	lock_release(&j->spawn.k->tasks_lock);
}

/* #hostcalls: recvmsg */
static void *listener_main(void *arg)
{
	struct joined *j = arg;
	char buf[MESSAGE_MAX];

	for (;;) {
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n = recvmsg(j->conn, &h, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (buf[n - 1] == '\0')
			serve_asker(j, &(struct bootconf){ .data = buf, .size = (size_t)n,
							   .cap = sizeof(buf) });
	}
	lock_acquire(&j->spawn.k->tasks_lock);
	if (!(j->tg->group_flags & TG_ZOMBIE))
		tg_exit_locked(j->tg, SIGKILL);
	lock_release(&j->spawn.k->tasks_lock);
	sem_post(&j->listener_done);
	return NULL;
}

static void wait_sem(sem_t *s)
{
	while (sem_wait(s) != 0)
		;
}

static void free_joined(struct joined *j)
{
	for (int i = 0; i < 3; i++)
		if (j->spawn.stdio[i] >= 0)
			close(j->spawn.stdio[i]);
	close(j->conn);
	container_put(j->spawn.c);
	bootconf_free(&j->conf);
	free(j);
}

static void *waiter_main(void *arg)
{
	struct joined *j = arg;
	struct kernel *k = j->spawn.k;
	int zombie = 0, status = 0;

	while (!zombie) {
		wait_sem(&j->exited);
		lock_acquire(&k->tasks_lock);
		zombie = (j->tg->group_flags & TG_ZOMBIE) != 0;
		status = j->tg->exit_status;
		lock_release(&k->tasks_lock);
	}
	waitq_del(&j->exit_waiter);
	if (j->spawn.console)
		console_drain(j->spawn.console);
	tell_number(j, "status", (uint64_t)status);
	wait_sem(&j->listener_done);
	/* Only now: the listener may have been about to resize it. */
	if (j->spawn.console)
		console_close(j->spawn.console);
	tg_put(j->tg);
	free_joined(j);
	return NULL;
}

/* Ends a process that is in the task tree but never got a program. */
static void *give_up(struct joined *j, struct task *t)
{
	lock_acquire(&t->k->tasks_lock);
	tg_exit_locked(t->tg, j->spawn.code << 8);
	lock_release(&t->k->tasks_lock);
	return task_main(t);
}

/* Nobody watches the process yet: j goes with it. */
static void *fail_alone(struct joined *j, struct task *t)
{
	tell_error(j);
	if (t && t->pid) {
		void *r = give_up(j, t);

		free_joined(j);
		return r;
	}
	if (t)
		task_put(t);
	free_joined(j);
	return NULL;
}

/* The new process's own thread. */
static void *joined_main(void *arg)
{
	struct joined *j = arg;
	struct task *t = spawn_task(&j->spawn);

	if (!t || spawn_link(&j->spawn, t, 0))
		return fail_alone(j, t);
	current = t;
	j->tg = tg_get(t->tg);
	waiter_init(&j->exit_waiter, POLLIN | POLLHUP, on_exit_wake, NULL);
	waitq_add(&j->tg->pid->exit_wait, &j->exit_waiter);
	if (thread_start("exec-listener", listener_main, j)) {
		waitq_del(&j->exit_waiter);
		tg_put(j->tg);
		snprintf(j->spawn.why, sizeof(j->spawn.why), "no thread for the process");
		j->spawn.code = BOOT_EXIT_SETUP;
		return fail_alone(j, t);
	}
	int failed = spawn_exec(&j->spawn, t);

	if (failed)
		tell_error(j);
	else
		tell_number(j, "started", (uint64_t)task_tgid(t));
	/* Without a waiter the asker still learns of the end: by the sandbox's. */
	if (thread_start("exec-waiter", waiter_main, j))
		log_error("exec: no thread to wait for a process");
	return failed ? give_up(j, t) : task_main(t);
}

void control_exec(struct container *c, int conn, int conf_fd, const int *stdio)
{
	struct joined *j = calloc(1, sizeof(*j));
	int err;

	if (!j) {
		close(conn);
		close(conf_fd);
		for (int i = 0; i < 3; i++)
			if (stdio[i] >= 0)
				close(stdio[i]);
		return;
	}
	j->conn = conn;
	j->spawn.k = c->k;
	j->spawn.c = container_get(c);
	j->spawn.conf = &j->conf;
	j->spawn.code = BOOT_EXIT_SETUP;
	memcpy(j->spawn.stdio, stdio, sizeof(j->spawn.stdio));
	sem_init(&j->exited, 0, 0);
	sem_init(&j->listener_done, 0, 0);
	bootconf_init(&j->conf);
	err = bootconf_read(&j->conf, conf_fd);
	close(conf_fd);
	if (err)
		snprintf(j->spawn.why, sizeof(j->spawn.why), "no usable configuration: %s", strerror(-err));
	else if (thread_start("exec", joined_main, j) == 0)
		return;
	else
		snprintf(j->spawn.why, sizeof(j->spawn.why), "no thread for the process");
	tell_error(j);
	free_joined(j);
}
