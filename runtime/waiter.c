/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waiter of waiter.h.
 *
 * Theory of operation. States: created (the sentry holds the program back), running, paused. Three
 * sources wake it: the sentry's socket (events, result record, end), the control socket (commands
 * of the runtime's other invocations), and signals. After the sandbox is built it gives up its
 * user, its capabilities and its file tree: what is left is a view of the container's root that
 * engines look into through /proc/PID.
 */
#include "runtime/waiter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/client.h"
#include "runtime/error.h"
#include "runtime/launch.h"
#include "runtime/netns.h"
#include "runtime/result.h"
#include "runtime/view.h"

#define NOBODY 65534u
#define SENTRY_OOM_BELOW 500 /* how much later than its stubs the sentry is to be chosen */
#define COMMAND_MS 2000 /* how long a client may take to say what it wants */

enum phase { CREATED, RUNNING, PAUSED };
static const char *const g_phases[] = { "created", "running", "paused" };

struct waiter_state {
	const struct waiter_setup *w;
	pid_t sentry, gofer;
	int control;	  /* to the sentry */
	int sigfd;
	int starter;	  /* connection of `start` that waits for its answer, or -1 */
	enum phase phase;
	struct result result;
	int have_result;
};

static int g_parent = -1;

/* ---- telling the creating command ---- */

static void tell_parent(const char *key, const char *text)
{
	struct bootconf m;

	bootconf_init(&m);
	if (!bootconf_add(&m, key, text))
		client_send(g_parent, &m, NULL, 0);
	bootconf_free(&m);
}

static void sink(int status, const char *line)
{
	tell_parent(status < 0 ? "warning" : "error", line);
}

/* One word of the parent; its end means that it gave up. */
static void await_parent(void)
{
	char c;

	if (recv(g_parent, &c, 1, 0) != 1)
		_exit(1);
}

/* ---- building the sandbox ---- */

static void own_namespaces(const struct waiter_setup *w)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		die(1, "making mounts private: %s", strerror(errno));
	/* Our own pids, in which the id maps of gofer and sentry are written. */
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		die(1, "mounting /proc: %s", strerror(errno));
	if (w->netns >= 0 && setns(w->netns, CLONE_NEWNET) != 0)
		die(1, "config.json: linux.namespaces: entering %s: %s", w->spec->ns[SPEC_NS_NET].path, strerror(errno));
	if (w->spec->new_netns && unshare(CLONE_NEWNET) != 0)
		die(1, "a network namespace: %s", strerror(errno));
	/* On the host these hold nothing; they are names by which others find the container. */
	if (unshare(CLONE_NEWIPC | CLONE_NEWUTS) != 0)
		die(1, "ipc and uts namespaces: %s", strerror(errno));
	if (w->pod && w->pod->ns[SPEC_NS_IPC] >= 0 && setns(w->pod->ns[SPEC_NS_IPC], CLONE_NEWIPC) != 0)
		die(1, "the ipc namespace of %s: %s", w->pod->join[SPEC_NS_IPC], strerror(errno));
	if (w->pod && w->pod->ns[SPEC_NS_UTS] >= 0 && setns(w->pod->ns[SPEC_NS_UTS], CLONE_NEWUTS) != 0)
		die(1, "the uts namespace of %s: %s", w->pod->join[SPEC_NS_UTS], strerror(errno));
}

static void must(int err)
{
	if (err)
		die(1, "configuration: %s", strerror(-err));
}

static void finish_confs(const struct waiter_setup *w)
{
	struct bootconf *c = &w->spec->sentry, *g = &w->spec->gofer;
	int tty = w->spec->terminal;

	must(bootconf_add(c, "hold", "1"));
	must(bootconf_add(c, "container_id", w->id));
	if (w->spec->have_oom_score_adj)
		must(bootconf_addf(c, "oom_score_adj", "%d", w->spec->oom_score_adj));
	must(bootconf_add(c, "log_level", w->log_level));
	must(bootconf_add_u64(c, "tty", (uint64_t)tty));
	if (tty) {
		must(bootconf_add_u64(c, "tty_rows", w->spec->rows));
		must(bootconf_add_u64(c, "tty_cols", w->spec->cols));
	} else {
		must(bootconf_add_u64(c, "stderr_fd", SENTRY_FD_STDERR));
	}
	must(bootconf_add_u64(c, "stdin_fd", SENTRY_FD_STDIN));
	must(bootconf_add_u64(c, "stdout_fd", SENTRY_FD_STDOUT));
	must(bootconf_add_u64(c, "log_fd", SENTRY_FD_LOG));
	must(bootconf_add_u64(c, "control_fd", SENTRY_FD_CONTROL));
	must(bootconf_add_u64(c, "gofer_fd", SENTRY_FD_GOFER));
	if (!w->pod)
		must(bootconf_add_u64(g, "pdeathsig", 1));
}

/* The sandbox is there: its sentry is asked to take the container in. */
static void join_sandbox(struct waiter_state *s)
{
	static const char *const keys[SPEC_NS_COUNT] = { NULL, "join_pid", "join_ipc", "join_uts" };
	const struct waiter_setup *w = s->w;
	int conf = memfd_create("container", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int out = w->tty >= 0 ? w->tty : 1, in = w->tty >= 0 ? w->tty : 0;
	int fds[] = { conf, w->pod->gofer, in, out, 2 };
	struct bootconf m;

	finish_confs(w);
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		if (keys[i] && w->pod->join[i])
			must(bootconf_add(&w->spec->sentry, keys[i], w->pod->join[i]));
	if (conf < 0 || bootconf_write(&w->spec->sentry, conf) || lseek(conf, 0, SEEK_SET) != 0)
		die(1, "handing the configuration to the sentry: %s", strerror(errno));
	fcntl(conf, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	bootconf_init(&m);
	must(bootconf_add(&m, "cmd", "container"));
	must(client_send(w->pod->conn, &m, fds, w->spec->terminal ? 4 : 5));
	bootconf_free(&m);
	close(conf);
	close(w->pod->gofer);
	s->control = w->pod->conn;
}

static void start_processes(struct waiter_state *s, int null)
{
	const struct waiter_setup *w = s->w;
	char sentry_bin[4200], gofer_bin[4200];
	int gofer_pair[2], control_pair[2];
	int out = w->tty >= 0 ? w->tty : 1, in = w->tty >= 0 ? w->tty : 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gofer_pair) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control_pair) != 0)
		die(1, "socketpair: %s", strerror(errno));
	launch_find_binary("caisson-sentry", sentry_bin, sizeof(sentry_bin));
	launch_find_binary("caisson-gofer", gofer_bin, sizeof(gofer_bin));
	finish_confs(w);

	struct launch g = { .what = "gofer", .binary = gofer_bin, .conf = &w->spec->gofer,
			    .conf_fd = GOFER_FD_CONF, .ids = LAUNCH_IDS_ALL,
			    .uid_map = w->spec->uid_map, .gid_map = w->spec->gid_map };

	launch_fd(&g, null, 0);
	launch_fd(&g, null, 1);
	launch_fd(&g, w->log, 2);
	launch_fd(&g, gofer_pair[1], GOFER_FD_SOCKET);
	launch_fd(&g, w->log, GOFER_FD_LOG);

	struct launch k = { .what = "sentry", .binary = sentry_bin, .conf = &w->spec->sentry,
			    .conf_fd = SENTRY_FD_CONF, .ids = LAUNCH_IDS_NONE };
	char score[16];

	if (w->spec->have_oom_score_adj) {
		int below = w->spec->oom_score_adj - SENTRY_OOM_BELOW;

		snprintf(score, sizeof(score), "%d", below < -999 ? -999 : below);
		k.oom_score_adj = score;
	}
	launch_fd(&k, null, 0);
	launch_fd(&k, null, 1);
	launch_fd(&k, w->log, 2);
	launch_fd(&k, control_pair[1], SENTRY_FD_CONTROL);
	launch_fd(&k, gofer_pair[0], SENTRY_FD_GOFER);
	launch_fd(&k, w->log, SENTRY_FD_LOG);
	launch_fd(&k, in, SENTRY_FD_STDIN);
	launch_fd(&k, out, SENTRY_FD_STDOUT);
	if (!w->spec->terminal)
		launch_fd(&k, 2, SENTRY_FD_STDERR);
	if (w->audit >= 0)
		launch_fd(&k, w->audit, SENTRY_FD_AUDIT);
	if (w->netns >= 0) /* own_namespaces() entered it */
		netns_adopt(-1, &w->spec->sentry, &k, NULL);
	launch_both(&k, &g);
	s->sentry = k.pid;
	s->gofer = g.pid;
	s->control = control_pair[0];
	close(control_pair[1]);
	close(gofer_pair[0]);
	close(gofer_pair[1]);
}

/* Nothing of the caller's stays open: readers of the container's output wait for its end. */
static void drop_fds(struct waiter_state *s, int null)
{
	int keep[] = { s->control, s->w->listen, s->w->parent, s->w->tty, s->sigfd };
	unsigned from = 3;

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	for (;;) {
		unsigned next = ~0u;

		for (size_t i = 0; i < sizeof(keep) / sizeof(*keep); i++)
			if (keep[i] >= (int)from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next > from)
			syscall(SYS_close_range, from, next == ~0u ? ~0u : next - 1, 0);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}

/* ---- the sentry's words ---- */

static void answer(int conn, const char *key, const char *text)
{
	struct bootconf m;

	bootconf_init(&m);
	if (!bootconf_add(&m, key, text))
		client_send(conn, &m, NULL, 0);
	bootconf_free(&m);
}

static void answer_starter(struct waiter_state *s, const char *key, const char *text)
{
	if (s->starter < 0)
		return;
	answer(s->starter, key, text);
	close(s->starter);
	s->starter = -1;
}

static __attribute__((noreturn)) void finish(struct waiter_state *s)
{
	int status = 0, code;

	while (s->sentry && waitpid(s->sentry, &status, 0) < 0 && errno == EINTR)
		;
	if (s->have_result) {
		code = result_exit_status(&s->result);
	} else {
		code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 137;
		snprintf(s->result.message, sizeof(s->result.message), "the sandbox ended without a result");
	}
	answer_starter(s, "error", s->result.message[0] ? s->result.message : "container ended");
	_exit(code);
}

/* One message of the sentry, or its end. */
static void on_sentry(struct waiter_state *s)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m;
	int r = client_receive(s->control, buf, &m, -1);

	if (r == -EBADMSG)
		return;
	if (r <= 0)
		finish(s);
	const char *event = bootconf_get(&m, "event");

	if (bootconf_get(&m, "reason")) {
		result_from_message(&s->result, &m);
		s->have_result = 1;
		finish(s);
	}
	if (event && !strcmp(event, "started"))
		answer_starter(s, "ok", "1");
}

/* Until the sandbox stands, or says why not. */
static void await_created(struct waiter_state *s)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m;

	for (;;) {
		int r = client_receive(s->control, buf, &m, -1);
		const char *event = r > 0 ? bootconf_get(&m, "event") : NULL;

		if (r <= 0)
			die(1, "the sentry ended before the sandbox stood");
		if (event && !strcmp(event, "created"))
			return;
		if (bootconf_get(&m, "reason")) {
			const char *text = bootconf_get(&m, "message");

			die(1, "unable to start container process: %s", text ? text : "internal error");
		}
	}
}

/* ---- commands ---- */

static void pass_on(struct waiter_state *s, const struct bootconf *m, int conn, const int *fds, int count)
{
	int all[CLIENT_FDS_MAX] = { conn };

	if (count > CLIENT_FDS_MAX - 1)
		return;
	memcpy(all + 1, fds, (size_t)count * sizeof(int));
	client_send(s->control, m, all, count + 1);
}

static void do_start(struct waiter_state *s, const struct bootconf *m, int conn)
{
	if (s->phase != CREATED) {
		answer(conn, "error", "cannot start an already running container");
		close(conn);
		return;
	}
	s->phase = RUNNING;
	s->starter = conn;
	client_send(s->control, m, NULL, 0);
}

/* Stops or continues every process of the sandbox; the guest does not notice. */
static const char *freeze(struct waiter_state *s, int on)
{
	if (s->w->pod)
		return "one container of a sandbox can not be paused; pause the one that has the sandbox";
	if (s->phase != (on ? RUNNING : PAUSED))
		return on ? "container not running" : "container not paused";
	if (kill(-1, on ? SIGSTOP : SIGCONT) != 0)
		return strerror(errno);
	s->phase = on ? PAUSED : RUNNING;
	return NULL;
}

static void end_created(int signo)
{
	if (signo == SIGKILL || signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT)
		_exit(128 + signo);
}

static void do_command(struct waiter_state *s, const struct bootconf *m, int conn, const int *fds, int count)
{
	const char *cmd = bootconf_get(m, "cmd"), *error = NULL;
	uint64_t signo = 0;

	if (!cmd) {
		close(conn);
		return;
	}
	if (!strcmp(cmd, "start")) {
		do_start(s, m, conn);
		return;
	}
	if (!strcmp(cmd, "status")) {
		answer(conn, "status", g_phases[s->phase]);
	} else if (!strcmp(cmd, "pause") || !strcmp(cmd, "resume")) {
		error = freeze(s, cmd[0] == 'p');
		answer(conn, error ? "error" : "ok", error ? error : "1");
	} else if (!strcmp(cmd, "signal") && s->phase == CREATED) {
		answer(conn, "ok", "1");
		if (!bootconf_get_u64(m, "signo", 0, &signo) && signo <= 64)
			end_created((int)signo);
	} else if (!strcmp(cmd, "signal") && s->phase == PAUSED) {
		/* Taken now, seen when the sandbox goes on. */
		client_send(s->control, m, NULL, 0);
		answer(conn, "ok", "1");
	} else if (!strcmp(cmd, "exec") && s->phase != RUNNING) {
		answer(conn, "error", s->phase == PAUSED ? "cannot exec in a paused container"
							 : "cannot exec in a container that is not running");
	} else if (s->phase == PAUSED && strcmp(cmd, "winsize")) {
		answer(conn, "error", "the container is paused");
	} else {
		pass_on(s, m, conn, fds, count);
	}
	close(conn);
}

static void on_client(struct waiter_state *s)
{
	int conn = accept4(s->w->listen, NULL, NULL, SOCK_CLOEXEC), fds[CLIENT_FDS_MAX], count = 0;
	char buf[CLIENT_MESSAGE_MAX];
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct bootconf m;

	if (conn < 0)
		return;
	struct pollfd p = { .fd = conn, .events = POLLIN };

	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
	    (peer.uid != 0 && peer.uid != s->w->owner) || poll(&p, 1, COMMAND_MS) <= 0 ||
	    client_receive_fds(conn, buf, &m, fds, &count) <= 0) {
		close(conn);
		return;
	}
	do_command(s, &m, conn, fds, count);
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

/* ---- signals ---- */

static void send_size(struct waiter_state *s)
{
	struct winsize ws;
	struct bootconf m;

	if (s->w->tty < 0 || ioctl(s->w->tty, TIOCGWINSZ, &ws) != 0 || !ws.ws_row || !ws.ws_col)
		return;
	bootconf_init(&m);
	if (!bootconf_add(&m, "cmd", "winsize") && !bootconf_add_u64(&m, "rows", ws.ws_row) &&
	    !bootconf_add_u64(&m, "cols", ws.ws_col))
		client_send(s->control, &m, NULL, 0);
	bootconf_free(&m);
}

/* Orphans of this pid namespace (file servers of containers that have joined) are ours to reap. */
static void reap_orphans(const struct waiter_state *s)
{
	siginfo_t si;

	for (;;) {
		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) != 0 || !si.si_pid || si.si_pid == s->sentry)
			return;
		waitpid(si.si_pid, NULL, 0);
		/* Without its file server a sandbox is of no use, however long it might take to notice. */
		if (si.si_pid == s->gofer)
			kill(s->sentry, SIGKILL);
	}
}

static void on_signal(struct waiter_state *s)
{
	struct signalfd_siginfo si;
	struct bootconf m;

	if (read(s->sigfd, &si, sizeof(si)) != sizeof(si))
		return;
	int signo = (int)si.ssi_signo;

	if (signo == SIGCHLD)
		reap_orphans(s);
	if (signo == SIGCHLD || signo == SIGTTIN || signo == SIGTTOU || signo == SIGPIPE)
		return;
	if (signo == SIGWINCH) {
		send_size(s);
		return;
	}
	if (s->phase == CREATED) {
		end_created(signo);
		return;
	}
	/* A terminal's hangup reaches the guest through its own terminal. */
	if (signo == SIGHUP && s->w->tty >= 0 && si.ssi_code == SI_KERNEL)
		return;
	bootconf_init(&m);
	if (!bootconf_add(&m, "cmd", "signal") && !bootconf_add_u64(&m, "signo", (uint64_t)signo))
		client_send(s->control, &m, NULL, 0);
	bootconf_free(&m);
}

static int take_signals(void)
{
	sigset_t all;

	/* Blocked signals of an init are queued, not ignored. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	return signalfd(-1, &all, SFD_CLOEXEC);
}

/* ---- rights ---- */

static void drop_rights(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap);
	/* The user that sentry and stubs have on this host, so that they can be stopped. A rootless
	 * engine may have no such user to give; then the capabilities go all the same. */
	if (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0)
		if (setresuid(NOBODY, NOBODY, NOBODY) != 0)
			tell_parent("warning", "the waiter keeps its user");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_capset, &h, none);
}

void waiter_run(const struct waiter_setup *w)
{
	struct waiter_state s = { .w = w, .control = -1, .starter = -1 };
	int null;

	g_parent = w->parent;
	error_sink(sink);
	error_status(1);
	s.sigfd = take_signals();
	setsid();
	prctl(PR_SET_NAME, "caisson-waiter");
	await_parent();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || s.sigfd < 0)
		die(1, "/dev/null or signalfd: %s", strerror(errno));
	own_namespaces(w);
	struct view *view = view_prepare(w->spec);

	if (w->pod)
		join_sandbox(&s);
	else
		start_processes(&s, null);
	if (w->tty >= 0)
		ioctl(w->tty, TIOCSCTTY, 0);
	await_created(&s);
	view_enter(view);
	drop_fds(&s, null);
	drop_rights();
	tell_parent("ok", "1");
	await_parent();
	close(w->parent);
	send_size(&s);
	for (;;) {
		struct pollfd p[3] = { { .fd = s.control, .events = POLLIN },
				       { .fd = w->listen, .events = POLLIN },
				       { .fd = s.sigfd, .events = POLLIN } };

		if (poll(p, 3, -1) < 0)
			continue;
		if (p[2].revents)
			on_signal(&s);
		if (p[1].revents)
			on_client(&s);
		if (p[0].revents)
			on_sentry(&s);
	}
}
