/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that join a running sandbox (container.h).
 *
 * Theory of operation. Three threads stand for one. Its first task's own thread makes the tree and
 * the task, says event=created, waits for the runtime's word, and becomes the program. The control
 * thread serves the waiter's channel; when that closes everything in the container is killed. The
 * end thread sleeps until the first process is dead, ends what is left, lets go of the trees, and
 * only then reports: who reads the result may take the container's files away. The waiter leaves
 * once it has the result, which ends the control thread, which frees everything.
 */
#include "sentry/container.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/boot.h"
#include "sentry/ipc/ipc.h"
#include "sentry/spawn.h"
#include "sentry/task/task_priv.h"
#include "vfs/goferfs/goferfs.h"

struct joining {
	struct container *c;
	struct spawn spawn;
	struct thread_group *tg; /* a reference */
	struct waiter exit_waiter;
	sem_t exited;
	sem_t control_done;
	int failed; /* it never ran: said already */
};

struct container *container_new(struct kernel *k)
{
	struct container *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	ref_init(&c->ref);
	c->k = k;
	c->control_fd = c->gofer_fd = -1;
	list_init(&c->node);
	sem_init(&c->start, 0, 0);
	sem_init(&c->empty, 0, 0);
	return c;
}

struct container *container_get(struct container *c)
{
	ref_get(&c->ref);
	return c;
}

void container_put(struct container *c)
{
	if (!c || !ref_put(&c->ref))
		return;
	if (c->pid_ns)
		pid_ns_put(c->pid_ns);
	if (c->uts)
		uts_put(c->uts);
	if (c->ipc)
		ipc_ns_put(c->ipc);
	bootconf_free(&c->own_conf);
	sem_destroy(&c->start);
	sem_destroy(&c->empty);
	free(c);
}

int container_fail(struct container *c, int code, const char *fmt, ...)
{
	va_list ap;

	c->code = code;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	return -1;
}

void container_kill_locked(struct container *c)
{
	struct thread_group *tg, *next;

	lock_assert_held(&c->k->tasks_lock);
	list_for_each_safe(tg, next, &c->k->groups, node)
		if (tg->container == c && !(tg->group_flags & TG_ZOMBIE))
			tg_exit_locked(tg, SIGKILL);
}

struct container *container_find(struct kernel *k, const char *id)
{
	struct container *c;

	lock_assert_held(&k->tasks_lock);
	list_for_each(c, &k->containers, node) {
		const char *own = bootconf_get(c->conf, "container_id");

		if (own && !strcmp(own, id) && !c->ending)
			return c;
	}
	return NULL;
}

/* ---- the result ---- */

static void report(struct container *c, struct bootconf *m)
{
	if (control_send(c->control_fd, m, 0) != (ssize_t)m->size)
		log_info("container: the result could not be reported: %s", strerror(errno));
	bootconf_free(m);
}

static void report_failure(struct container *c, int code, const char *why)
{
	struct bootconf m;

	bootconf_init(&m);
	if (!bootconf_add(&m, "reason", "setup-error") && !bootconf_add_u64(&m, "exit_code", (uint64_t)code))
		bootconf_add(&m, "message", why);
	report(c, &m);
}

static void report_end(struct container *c, int status, int oom, uint64_t cpu_ns, uint64_t started)
{
	struct bootconf m;
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	bootconf_init(&m);
	bootconf_add(&m, "reason", oom ? "oom" : sig ? "signaled" : status ? "nonzero" : "ok");
	bootconf_add_u64(&m, sig ? "signal" : "exit_code", (uint64_t)(sig ? sig : WEXITSTATUS(status)));
	bootconf_add_u64(&m, "wall_ms", (mono_now_ns() - started) / 1000000u);
	bootconf_add_u64(&m, "cpu_ms", cpu_ns / 1000000u);
	report(c, &m);
}

/* ---- namespaces ---- */

/* join_KEY=ID: the namespace of that container instead of one of its own. */
static struct container *joined(struct container *c, const char *key)
{
	const char *id = bootconf_get(c->conf, key);

	return id ? container_find(c->k, id) : NULL;
}

static int take_namespaces(struct container *c)
{
	static const char *const keys[] = { "join_pid", "join_ipc", "join_uts" };
	const char *host = bootconf_get(c->conf, "hostname"), *dom = bootconf_get(c->conf, "domainname");
	struct container *from[3];

	lock_acquire(&c->k->tasks_lock);
	for (int i = 0; i < 3; i++)
		from[i] = joined(c, keys[i]);
	if (from[0])
		c->pid_ns = pid_ns_get(from[0]->pid_ns);
	if (from[1])
		c->ipc = ipc_ns_get(from[1]->ipc);
	if (from[2])
		c->uts = uts_get(from[2]->uts);
	lock_release(&c->k->tasks_lock);
	for (int i = 0; i < 3; i++)
		if (!from[i] && bootconf_get(c->conf, keys[i]))
			return container_fail(c, BOOT_EXIT_SETUP, "the container whose namespaces it joins has ended");
	if (!c->pid_ns) {
		/* Not below the first one's: containers do not see one another. */
		struct pid_ns *ns = pid_ns_new(NULL);

		c->pid_ns = IS_ERR(ns) ? NULL : ns;
	}
	if (!c->ipc)
		c->ipc = ipc_ns_new(c->k);
	if (!c->uts)
		c->uts = uts_new(host ? host : "caisson", dom ? dom : "(none)");
	return c->pid_ns && c->ipc && c->uts ? 0 : container_fail(c, BOOT_EXIT_SETUP, "out of memory");
}

/* ---- its end ---- */

static void wait_sem(sem_t *s)
{
	while (sem_wait(s) != 0)
		;
}

static int on_exit_wake(struct waiter *w, uint32_t events)
{
	(void)events;
	sem_post(&container_of(w, struct joining, exit_waiter)->exited);
	return 0;
}

/* Everything else in it dies with the first process, also where the pid namespace goes on. */
static void empty(struct container *c)
{
	int others;

	lock_acquire(&c->k->tasks_lock);
	c->ending = 1;
	container_kill_locked(c);
	others = c->task_count != 0;
	lock_release(&c->k->tasks_lock);
	if (others)
		wait_sem(&c->empty);
}

/* Trees, and with the last of them the gofer. */
static void let_go(struct container *c)
{
	lock_acquire(&c->k->tasks_lock);
	list_del(&c->node);
	list_init(&c->node);
	c->init = NULL;
	lock_release(&c->k->tasks_lock);
	if (c->mnt_ns)
		mnt_ns_put(c->mnt_ns);
	c->mnt_ns = NULL;
	boot_forget_shared();
	goferfs_put(c->gofer);
	c->gofer = NULL;
	if (c->gofer_fd >= 0)
		close(c->gofer_fd);
}

static void free_joining(struct joining *j)
{
	for (int i = 0; i < 3; i++)
		if (j->spawn.stdio[i] >= 0)
			close(j->spawn.stdio[i]);
	close(j->c->control_fd);
	if (j->tg)
		tg_put(j->tg);
	container_put(j->c);
	free(j);
}

static void *end_main(void *arg)
{
	struct joining *j = arg;
	struct container *c = j->c;
	struct kernel *k = c->k;
	int zombie = 0, status = 0, oom = 0;
	uint64_t ut = 0, st = 0;

	while (!zombie) {
		wait_sem(&j->exited);
		lock_acquire(&k->tasks_lock);
		zombie = (j->tg->group_flags & TG_ZOMBIE) != 0;
		status = j->tg->exit_status;
		oom = (j->tg->group_flags & TG_OOM) != 0;
		tg_cpu_times_locked(j->tg, &ut, &st);
		lock_release(&k->tasks_lock);
	}
	waitq_del(&j->exit_waiter);
	empty(c);
	if (c->console)
		console_drain(c->console);
	let_go(c);
	if (!j->failed)
		report_end(c, status, oom, ut + st, j->tg->start_mono_ns);
	wait_sem(&j->control_done);
	if (c->console)
		console_close(c->console);
	free_joining(j);
	return NULL;
}

static void *control_main(void *arg)
{
	struct joining *j = arg;
	struct container *c = j->c;

	control_run(c);
	lock_acquire(&c->k->tasks_lock);
	c->ending = 1;
	container_kill_locked(c);
	lock_release(&c->k->tasks_lock);
	sem_post(&c->start);
	sem_post(&j->control_done);
	return NULL;
}

/* ---- its beginning ---- */

/* Before anybody watches. */
static void *fail_alone(struct joining *j, struct task *t, int code, const char *why)
{
	struct container *c = j->c;

	report_failure(c, code, why);
	j->failed = 1;
	if (t && t->pid) {
		lock_acquire(&c->k->tasks_lock);
		tg_exit_locked(t->tg, code << 8);
		lock_release(&c->k->tasks_lock);
		return task_main(t);
	}
	if (t)
		task_put(t);
	let_go(c);
	free_joining(j);
	return NULL;
}

/* Nothing can be taken back from here on: the threads own j. */
static int watch(struct joining *j, struct task *t)
{
	j->tg = tg_get(t->tg);
	waiter_init(&j->exit_waiter, POLLIN | POLLHUP, on_exit_wake, NULL);
	waitq_add(&j->tg->pid->exit_wait, &j->exit_waiter);
	if (thread_start("container-end", end_main, j)) {
		waitq_del(&j->exit_waiter);
		return -1;
	}
	/* Without the other thread nobody could end it: it does not begin. */
	if (thread_start("container-ctl", control_main, j)) {
		sem_post(&j->control_done);
		return -1;
	}
	return 0;
}

static void *join_main(void *arg)
{
	struct joining *j = arg;
	struct container *c = j->c;
	struct spawn *s = &j->spawn;
	struct task *t;
	uint64_t pids;

	if (take_namespaces(c))
		return fail_alone(j, NULL, c->code, c->why);
	c->pids_limit = bootconf_get_u64(c->conf, "pids", 0, &pids) || pids > UINT32_MAX ? 0 : (uint32_t)pids;
	lock_acquire(&c->k->tasks_lock);
	list_add_tail(&c->node, &c->k->containers);
	lock_release(&c->k->tasks_lock);
	t = spawn_task(s);
	if (!t || spawn_link(s, t, 1)) {
		/* A linked task without a watcher is ended and released by nobody but itself. */
		return fail_alone(j, t, s->code, s->why);
	}
	current = t;
	c->console = s->console;
	boot_sysctls(c, t);
	if (watch(j, t))
		return fail_alone(j, t, BOOT_EXIT_SETUP, "no thread for the container");
	int failed = spawn_check(s, t);

	if (!failed) {
		control_hold(c);
		failed = c->ending || spawn_exec(s, t);
	}
	if (failed)
		return fail_alone(j, t, s->code, s->why);
	control_started(c);
	return task_main(t);
}

void container_join(struct kernel *k, int conn, int conf_fd, int gofer_fd, const int *stdio)
{
	struct joining *j = calloc(1, sizeof(*j));
	struct container *c = j ? container_new(k) : NULL;
	int err;

	if (!c) {
		free(j);
		close(conn);
		close(conf_fd);
		close(gofer_fd);
		for (int i = 0; i < 3; i++)
			if (stdio[i] >= 0)
				close(stdio[i]);
		return;
	}
	c->control_fd = conn;
	c->gofer_fd = gofer_fd;
	bootconf_init(&c->own_conf);
	c->conf = &c->own_conf;
	j->c = c;
	j->spawn = (struct spawn){ .k = k, .c = c, .conf = c->conf, .code = BOOT_EXIT_SETUP };
	memcpy(j->spawn.stdio, stdio, sizeof(j->spawn.stdio));
	sem_init(&j->exited, 0, 0);
	sem_init(&j->control_done, 0, 0);
	err = bootconf_read(&c->own_conf, conf_fd);
	close(conf_fd);
	if (err)
		fail_alone(j, NULL, BOOT_EXIT_SETUP, "no usable configuration");
	else if (thread_start("container", join_main, j))
		fail_alone(j, NULL, BOOT_EXIT_SETUP, "no thread for the container");
}
