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
 *   cmd=exec			a new process; with it come the asker's connection, a
 *				configuration, and up to three fds for its stdio (control_exec.c)
 * A message may bring the connection of whoever asked, as its first fd; the answer goes there.
 * What the sentry says by itself: event=created, event=started, and the result record at the end.
 * The main thread sits in recvmsg; that costs nothing while nobody speaks.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/boot.h"
#include "sentry/egress/egress.h"
#include "sentry/signal/signal.h"
#include "sentry/socket/socket.h"
#include "sentry/task/task_priv.h"

#define MESSAGE_MAX 8192
#define KILL_PATIENCE_NS 500000000u

static struct ktimer g_kill_timer; /* armed by the first lethal signal, g_kill_signal */
static int g_kill_signal;
#define FDS_MAX 5 /* connection, configuration, stdio */

struct message {
	struct bootconf conf;
	int fds[FDS_MAX]; /* -1 once taken over */
	int fd_count;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int started;
} g_hold = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

/* #hostcalls: sendmsg */
ssize_t control_send(int fd, const struct bootconf *m, int flags)
{
	struct iovec iov = { m->data, m->size };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sendmsg(fd, &h, flags | MSG_NOSIGNAL);
}

static void send_event(struct kernel *k, const char *event)
{
	struct bootconf m;

	bootconf_init(&m);
	if (bootconf_add(&m, "event", event) == 0 &&
	    control_send(k->control_fd, &m, 0) != (ssize_t)m.size)
		log_warn("control: %s could not be reported", event);
	bootconf_free(&m);
}

void control_hold(struct kernel *k)
{
	send_event(k, "created");
	pthread_mutex_lock(&g_hold.lock);
	while (!g_hold.started)
		pthread_cond_wait(&g_hold.cond, &g_hold.lock);
	pthread_mutex_unlock(&g_hold.lock);
}

void control_started(struct kernel *k)
{
	send_event(k, "started");
}

static void do_start(struct kernel *k, struct message *m)
{
	(void)k, (void)m;
	pthread_mutex_lock(&g_hold.lock);
	g_hold.started = 1;
	pthread_cond_broadcast(&g_hold.cond);
	pthread_mutex_unlock(&g_hold.lock);
}

static void do_winsize(struct kernel *k, struct message *m)
{
	uint64_t rows, cols;

	(void)k;
	if (bootconf_get_u64(&m->conf, "rows", 0, &rows) == 0 &&
	    bootconf_get_u64(&m->conf, "cols", 0, &cols) == 0 && rows <= UINT16_MAX && cols <= UINT16_MAX)
		console_resize(NULL, (uint16_t)rows, (uint16_t)cols);
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
	struct kernel *k = timer->priv;

	log_warn("control: the first program does not end; the sandbox does");
	kernel_exit(k, "signaled", __atomic_load_n(&g_kill_signal, __ATOMIC_RELAXED));
}

/*
 * The first process ends as soon as its threads see it. One that waits for the gofer does not, and
 * the gofer may wait for a network filesystem for ever.
 */
static void arm_kill(struct kernel *k, int signo)
{
	if (__atomic_exchange_n(&g_kill_signal, signo, __ATOMIC_SEQ_CST))
		return;
	ktimer_init(&g_kill_timer, kill_due, k);
	ktimer_arm(&g_kill_timer, mono_now_ns() + KILL_PATIENCE_NS);
}

static void signal_one(struct thread_group *tg, int signo, int force)
{
	siginfo_t si;

	siginfo_kernel(&si, signo);
	if (signo == SIGKILL || (force && only_init_ignores(tg, signo))) {
		tg_exit_locked(tg, signo);
		if (tg == tg->k->init)
			arm_kill(tg->k, signo);
	} else {
		signal_send_group_locked(tg, &si);
	}
}

static void do_signal(struct kernel *k, struct message *m)
{
	uint64_t signo, force, all;
	struct thread_group *tg, *next;

	if (bootconf_get_u64(&m->conf, "signo", 0, &signo) || signo < 1 || signo > LINUX_NSIG ||
	    bootconf_get_u64(&m->conf, "force", 0, &force) || bootconf_get_u64(&m->conf, "all", 0, &all))
		return;
	lock_acquire(&k->tasks_lock);
	if (all)
		list_for_each_safe(tg, next, &k->groups, node) {
			if (!(tg->group_flags & TG_ZOMBIE))
				signal_one(tg, (int)signo, force != 0);
		}
	else if (k->init)
		signal_one(k->init, (int)signo, force != 0);
	lock_release(&k->tasks_lock);
}

static void do_kill(struct kernel *k, struct message *m)
{
	static const char *const reasons[] = { "signaled", "timeout", "oom", "internal-error" };
	const char *want = bootconf_get(&m->conf, "reason"), *reason = "signaled";

	for (size_t i = 0; want && i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(want, reasons[i]))
			reason = reasons[i];
	kernel_exit(k, reason, SIGKILL);
}

static void answer(struct message *m, const struct bootconf *a)
{
	if (m->fd_count && m->fds[0] >= 0 &&
	    control_send(m->fds[0], a, MSG_DONTWAIT) < 0)
		log_info("control: nobody took an answer: %s", strerror(errno));
}

/* pids=1,5,9: the processes that live, as the first pid namespace numbers them. */
static void do_ps(struct kernel *k, struct message *m)
{
	char list[6000] = "";
	struct thread_group *tg;
	struct bootconf a;
	size_t len = 0;

	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		int nr = tg->group_flags & TG_ZOMBIE ? 0 : pid_nr_in(tg->pid, k->init_pid_ns);

		if (nr && len < sizeof(list) - 16)
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%d", len ? "," : "", nr);
	}
	lock_release(&k->tasks_lock);
	bootconf_init(&a);
	if (!bootconf_add(&a, "pids", list))
		answer(m, &a);
	bootconf_free(&a);
}

static void do_stats(struct kernel *k, struct message *m)
{
	uint64_t user = 0, sys = 0, pids, ut, st;
	struct thread_group *tg;
	struct bootconf a;

	lock_acquire(&k->tasks_lock);
	list_for_each(tg, &k->groups, node) {
		tg_cpu_times_locked(tg, &ut, &st);
		user += ut;
		sys += st;
	}
	pids = k->task_count;
	lock_release(&k->tasks_lock);
	bootconf_init(&a);
	if (!bootconf_add_u64(&a, "cpu_user_ns", user) && !bootconf_add_u64(&a, "cpu_system_ns", sys) &&
	    !bootconf_add_u64(&a, "pids", pids) && !bootconf_add_u64(&a, "pids_limit", k->pids_limit) &&
	    !bootconf_add_u64(&a, "memory_limit", k->memory_limit))
		answer(m, &a);
	bootconf_free(&a);
}

/* Lines for people: NAME COUNT. */
static void do_patches(struct kernel *k, struct message *m)
{
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

static void do_limits(struct kernel *k, struct message *m)
{
	uint64_t pids, memory;

	if (bootconf_get_u64(&m->conf, "pids", k->pids_limit, &pids) == 0 && pids <= UINT32_MAX)
		__atomic_store_n(&k->pids_limit, (uint32_t)pids, __ATOMIC_RELAXED);
	if (bootconf_get_u64(&m->conf, "memory", k->memory_limit, &memory) == 0 && k->memory_limit && memory)
		__atomic_store_n(&k->memory_limit, memory, __ATOMIC_RELAXED);
}

static void do_exec(struct kernel *k, struct message *m)
{
	int stdio[3] = { -1, -1, -1 };

	if (m->fd_count < 2)
		return;
	for (int i = 2; i < m->fd_count; i++)
		stdio[i - 2] = m->fds[i];
	control_exec(k, m->fds[0], m->fds[1], stdio);
	m->fd_count = 0; /* taken over */
}

/* The new policy's lines come in a configuration; a bad one leaves the old policy in force. */
static void do_net_policy(struct kernel *k, struct message *m)
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
		err = egress_reload(k->sockets->egress, &c, why, sizeof(why));
	if (!bootconf_add(&a, err ? "error" : "ok", err ? why : "1"))
		answer(m, &a);
	bootconf_free(&a);
	bootconf_free(&c);
}

static const struct {
	const char *cmd;
	void (*fn)(struct kernel *k, struct message *m);
	int acknowledge; /* an empty answer says that it is done */
} g_commands[] = {
	{ "winsize", do_winsize, 0 }, { "signal", do_signal, 1 }, { "kill", do_kill, 0 },
	{ "start", do_start, 0 },     { "ps", do_ps, 0 },	  { "stats", do_stats, 0 },
	{ "patches", do_patches, 0 },
	{ "limits", do_limits, 1 },   { "exec", do_exec, 0 },
	{ "net_policy", do_net_policy, 0 },
};

static void serve_message(struct kernel *k, struct message *m)
{
	static const char done[] = "ok=1";
	const char *cmd = bootconf_get(&m->conf, "cmd");

	for (size_t i = 0; cmd && i < sizeof(g_commands) / sizeof(*g_commands); i++)
		if (!strcmp(cmd, g_commands[i].cmd)) {
			g_commands[i].fn(k, m);
			if (g_commands[i].acknowledge)
				answer(m, &(struct bootconf){ .data = (char *)(uintptr_t)done,
							      .size = sizeof(done) });
			return;
		}
	log_warn("control: unknown command");
}

/* 1 a message, 0 one to be skipped, -1 the runtime is gone. #hostcalls: recvmsg */
static int receive(struct kernel *k, char *buf, struct message *m)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { buf, MESSAGE_MAX };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	ssize_t n = recvmsg(k->control_fd, &h, MSG_CMSG_CLOEXEC);

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
void control_run(struct kernel *k)
{
	static char buf[MESSAGE_MAX];

	while (k->control_fd >= 0) {
		struct message m;
		int got = receive(k, buf, &m);

		if (got < 0) {
			/* The runtime is gone: nobody is left to run for. */
			log_info("control: the runtime is gone");
			kernel_exit(k, "signaled", SIGKILL);
		}
		if (got)
			serve_message(k, &m);
		for (int i = 0; i < m.fd_count; i++)
			close(m.fds[i]);
	}
	for (;;)
		thread_nap(UINT64_MAX);
}
