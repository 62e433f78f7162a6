/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from the runtime: SOCK_SEQPACKET datagrams of key=value strings (bootconf form).
 *   cmd=winsize rows= cols=	the terminal's new size
 *   cmd=signal signo= [force=1] [all=1]  to the first process, or to all; force: the default action
 *				holds for init too
 *   cmd=kill reason=		ends the sandbox
 *   cmd=start			with hold=1: the program may run now
 *   cmd=ps | cmd=stats | cmd=patches  answered on the connection that comes along
 *   cmd=limits pids= memory=	new limits
 *   cmd=net_policy		new rules of the network policy, in a configuration as second fd
 *   cmd=container		one more container (container.c); with it come the asker's
 *				connection, which becomes its channel, a configuration, the gofer's
 *				socket, and up to three fds for its stdio
 *   cmd=exec			a new process; with it come the asker's connection, a
 *				configuration, and up to three fds for its stdio (control_exec.c)
 * A message may bring the connection of whoever asked, as its first fd; the answer goes there.
 * What the sentry says by itself: event=created, event=started, and the result record at the end.
 * The main thread sits in recvmsg; that costs nothing while nobody speaks.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/boot.h"
#include "sentry/container.h"
#include "sentry/egress/egress.h"
#include "sentry/signal/signal.h"
#include "sentry/socket/socket.h"
#include "sentry/task/task_priv.h"

#define MESSAGE_MAX 8192
#define KILL_PATIENCE_NS 500000000u

#define FDS_MAX 6 /* connection, configuration, gofer, stdio */

struct message {
	struct bootconf conf;
	int fds[FDS_MAX]; /* -1 once taken over */
	int fd_count;
};

/* #hostcalls: sendmsg */
ssize_t control_send(int fd, const struct bootconf *m, int flags)
{
	struct iovec iov = { m->data, m->size };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sendmsg(fd, &h, flags | MSG_NOSIGNAL);
}

static void send_event(struct container *c, const char *event)
{
	struct bootconf m;

	bootconf_init(&m);
	if (bootconf_add(&m, "event", event) == 0 &&
	    control_send(c->control_fd, &m, 0) != (ssize_t)m.size)
		log_warn("control: %s could not be reported", event);
	bootconf_free(&m);
}

void control_hold(struct container *c)
{
	send_event(c, "created");
	while (sem_wait(&c->start) != 0)
		;
}

void control_started(struct container *c)
{
	send_event(c, "started");
}

static void do_start(struct container *c, struct message *m)
{
	(void)m;
	sem_post(&c->start);
}

static void do_winsize(struct container *c, struct message *m)
{
	uint64_t rows, cols;

	if (bootconf_get_u64(&m->conf, "rows", 0, &rows) == 0 &&
	    bootconf_get_u64(&m->conf, "cols", 0, &cols) == 0 && rows <= UINT16_MAX && cols <= UINT16_MAX)
		console_resize(c->console, (uint16_t)rows, (uint16_t)cols);
}

/* Would the signal do nothing, only because its receiver is init? [tasks] */
static int only_init_ignores(struct thread_group *init, int signo)
{
	struct task *leader = init->leader;

	if (!(init->group_flags & TG_INIT) || !leader || !leader->sighand)
		return 0;
	return leader->sighand->action[signo - 1].handler == (uint64_t)(uintptr_t)SIG_DFL &&
	       !((SIGBIT(SIGCHLD) | SIGBIT(SIGURG) | SIGBIT(SIGWINCH) | SIGBIT(SIGCONT) |
		  SIGBIT(SIGTSTP) | SIGBIT(SIGTTIN) | SIGBIT(SIGTTOU)) & SIGBIT(signo));
}

static void kill_due(struct ktimer *timer)
{
	struct container *c = timer->priv;

	if (c == c->k->main) {
		log_warn("control: the first program does not end; the sandbox does");
		kernel_exit(c->k, "signaled", __atomic_load_n(&c->kill_signal, __ATOMIC_RELAXED));
	}
	lock_acquire(&c->k->tasks_lock);
	container_kill_locked(c);
	lock_release(&c->k->tasks_lock);
	container_put(c);
}

/*
 * The first process ends as soon as its threads see it. One that waits for the gofer does not, and
 * the gofer may wait for a network filesystem for ever.
 */
static void arm_kill(struct container *c, int signo, uint64_t patience_ns)
{
	if (__atomic_exchange_n(&c->kill_signal, signo, __ATOMIC_SEQ_CST))
		return;
	ktimer_init(&c->kill_timer, kill_due, container_get(c));
	ktimer_arm(&c->kill_timer, mono_now_ns() + patience_ns);
}

void control_kill_soon(struct container *c)
{
	arm_kill(c, SIGKILL, 0);
}

static void signal_one(struct thread_group *tg, int signo, int force)
{
	siginfo_t si;

	siginfo_kernel(&si, signo);
	if (signo == SIGKILL || (force && only_init_ignores(tg, signo))) {
		tg_exit_locked(tg, signo);
		if (tg->container && tg == tg->container->init)
			arm_kill(tg->container, signo, KILL_PATIENCE_NS);
	} else {
		signal_send_group_locked(tg, &si);
	}
}

static void do_signal(struct container *c, struct message *m)
{
	struct kernel *k = c->k;
	uint64_t signo, force, all;
	struct thread_group *tg, *next;

	if (bootconf_get_u64(&m->conf, "signo", 0, &signo) || signo < 1 || signo > LINUX_NSIG ||
	    bootconf_get_u64(&m->conf, "force", 0, &force) || bootconf_get_u64(&m->conf, "all", 0, &all))
		return;
	lock_acquire(&k->tasks_lock);
	if (all)
		list_for_each_safe(tg, next, &k->groups, node) {
			if (tg->container == c && !(tg->group_flags & TG_ZOMBIE))
				signal_one(tg, (int)signo, force != 0);
		}
	else if (c->init)
		signal_one(c->init, (int)signo, force != 0);
	lock_release(&k->tasks_lock);
}

static void do_kill(struct container *c, struct message *m)
{
	static const char *const reasons[] = { "signaled", "timeout", "oom", "internal-error" };
	const char *want = bootconf_get(&m->conf, "reason"), *reason = "signaled";

	for (size_t i = 0; want && i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(want, reasons[i]))
			reason = reasons[i];
	if (c == c->k->main)
		kernel_exit(c->k, reason, SIGKILL);
	lock_acquire(&c->k->tasks_lock);
	c->ending = 1;
	container_kill_locked(c);
	lock_release(&c->k->tasks_lock);
	sem_post(&c->start);
}

static void answer(struct message *m, const struct bootconf *a)
{
	if (m->fd_count && m->fds[0] >= 0 &&
	    control_send(m->fds[0], a, MSG_DONTWAIT) < 0)
		log_info("control: nobody took an answer: %s", strerror(errno));
}

/* pids=1,5,9: the processes that live, as the container's pid namespace numbers them. */
static void do_ps(struct container *c, struct message *m)
{
	struct kernel *k = c->k;
	char list[6000] = "";
	struct thread_group *tg;
	struct bootconf a;
	size_t len = 0;

	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		int nr = tg->container != c || (tg->group_flags & TG_ZOMBIE) ? 0 : pid_nr_in(tg->pid, c->pid_ns);

		if (nr && len < sizeof(list) - 16)
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%d", len ? "," : "", nr);
	}
	lock_release(&k->tasks_lock);
	bootconf_init(&a);
	if (!bootconf_add(&a, "pids", list))
		answer(m, &a);
	bootconf_free(&a);
}

static void do_stats(struct container *c, struct message *m)
{
	struct kernel *k = c->k;
	uint64_t user = 0, sys = 0, pids, ut, st;
	struct thread_group *tg;
	struct bootconf a;

	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		if (tg->container != c)
			continue;
		tg_cpu_times_locked(tg, &ut, &st);
		user += ut;
		sys += st;
	}
	pids = c->task_count;
	lock_release(&k->tasks_lock);
	bootconf_init(&a);
	if (!bootconf_add_u64(&a, "cpu_user_ns", user) && !bootconf_add_u64(&a, "cpu_system_ns", sys) &&
	    !bootconf_add_u64(&a, "pids", pids) && !bootconf_add_u64(&a, "pids_limit", c->pids_limit) &&
	    !bootconf_add_u64(&a, "memory_limit", k->memory_limit))
		answer(m, &a);
	bootconf_free(&a);
}

/* Lines for people: NAME COUNT. */
static void do_patches(struct container *c, struct message *m)
{
	struct kernel *k = c->k;
	struct platform_stats st = { 0 };
	struct bootconf a;
	int err;

	platform_stats(k->platform, &st);
	bootconf_init(&a);
	err = bootconf_addf(&a, "line", "patched %llu", (unsigned long long)st.patched);
	for (int i = 0; i < PLATFORM_REFUSALS && !err; i++)
		if (st.refusal[i] && st.refused[i])
			err = bootconf_addf(&a, "line", "refused, %s %llu", st.refusal[i],
					    (unsigned long long)st.refused[i]);
	if (!err)
		err = bootconf_addf(&a, "line", "restored %llu", (unsigned long long)st.restored);
	if (!err)
		err = bootconf_addf(&a, "line", "known before %llu", (unsigned long long)st.scans_saved);
	if (!err)
		err = bootconf_addf(&a, "line", "calls from patched sites %llu", (unsigned long long)st.fast_switches);
	if (!err)
		err = bootconf_addf(&a, "line", "all stops of guest code %llu", (unsigned long long)st.switches);
	if (!err)
		answer(m, &a);
	bootconf_free(&a);
}

static void do_limits(struct container *c, struct message *m)
{
	struct kernel *k = c->k;
	uint64_t pids, memory;

	if (bootconf_get_u64(&m->conf, "pids", c->pids_limit, &pids) == 0 && pids <= UINT32_MAX)
		__atomic_store_n(&c->pids_limit, (uint32_t)pids, __ATOMIC_RELAXED);
	if (bootconf_get_u64(&m->conf, "memory", k->memory_limit, &memory) == 0 && k->memory_limit && memory)
		__atomic_store_n(&k->memory_limit, memory, __ATOMIC_RELAXED);
}

static void do_exec(struct container *c, struct message *m)
{
	int stdio[3] = { -1, -1, -1 };

	if (m->fd_count < 2 || m->fd_count > 5)
		return;
	for (int i = 2; i < m->fd_count; i++)
		stdio[i - 2] = m->fds[i];
	control_exec(c, m->fds[0], m->fds[1], stdio);
	m->fd_count = 0; /* taken over */
}

/* Only the sandbox's own container takes others in. */
static void do_container(struct container *c, struct message *m)
{
	int stdio[3] = { -1, -1, -1 };

	if (m->fd_count < 3 || c != c->k->main)
		return;
	for (int i = 3; i < m->fd_count; i++)
		stdio[i - 3] = m->fds[i];
	container_join(c->k, m->fds[0], m->fds[1], m->fds[2], stdio);
	m->fd_count = 0; /* taken over */
}

/* The new policy's lines come in a configuration; a bad one leaves the old policy in force. */
static void do_net_policy(struct container *asker, struct message *m)
{
	char why[600] = "";
	struct bootconf c, a;
	int err;

	if (m->fd_count < 2)
		return;
	bootconf_init(&c);
	bootconf_init(&a);
	err = bootconf_read(&c, m->fds[1]);
	if (err)
		snprintf(why, sizeof(why), "no usable configuration: %s", strerror(-err));
	else
		err = egress_reload(asker->k->sockets->egress, &c, why, sizeof(why));
	if (!bootconf_add(&a, err ? "error" : "ok", err ? why : "1"))
		answer(m, &a);
	bootconf_free(&a);
	bootconf_free(&c);
}

static const struct {
	const char *cmd;
	void (*fn)(struct container *c, struct message *m);
	int acknowledge; /* an empty answer says that it is done */
} g_commands[] = {
	{ "winsize", do_winsize, 0 }, { "signal", do_signal, 1 }, { "kill", do_kill, 0 },
	{ "start", do_start, 0 },     { "ps", do_ps, 0 },	  { "stats", do_stats, 0 },
	{ "patches", do_patches, 0 },
	{ "limits", do_limits, 1 },   { "exec", do_exec, 0 },
	{ "net_policy", do_net_policy, 0 },
	{ "container", do_container, 0 },
};

static void serve_message(struct container *c, struct message *m)
{
	static const char done[] = "ok=1";
	const char *cmd = bootconf_get(&m->conf, "cmd");

	for (size_t i = 0; cmd && i < sizeof(g_commands) / sizeof(*g_commands); i++)
		if (!strcmp(cmd, g_commands[i].cmd)) {
			g_commands[i].fn(c, m);
			if (g_commands[i].acknowledge)
				answer(m, &(struct bootconf){ .data = (char *)(uintptr_t)done,
							      .size = sizeof(done) });
			return;
		}
	log_warn("control: unknown command");
}

/* 1 a message, 0 one to be skipped, -1 the runtime is gone. #hostcalls: recvmsg */
static int receive(int fd, char *buf, struct message *m)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { buf, MESSAGE_MAX };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	ssize_t n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);

	m->fd_count = 0;
	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			m->fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(m->fds, CMSG_DATA(c), (size_t)m->fd_count * sizeof(int));
		}
	m->conf = (struct bootconf){ .data = buf, .size = (size_t)n, .cap = MESSAGE_MAX };
	return buf[n - 1] == '\0' && !(h.msg_flags & MSG_TRUNC);
}

/* #hostcalls: close futex */
void control_run(struct container *c)
{
	char buf[MESSAGE_MAX];

	while (c->control_fd >= 0) {
		struct message m;
		int got = receive(c->control_fd, buf, &m);

		if (got < 0) {
			/* The runtime is gone: nobody is left to run for. */
			log_info("control: the runtime is gone");
			if (c != c->k->main)
				return;
			kernel_exit(c->k, "signaled", SIGKILL);
		}
		if (got)
			serve_message(c, &m);
		for (int i = 0; i < m.fd_count; i++)
			close(m.fds[i]);
	}
	for (;;)
		thread_nap(UINT64_MAX);
}
