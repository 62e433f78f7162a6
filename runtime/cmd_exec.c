/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec: one more process in a running container. This command, or with --detach a child of it, is
 * the process that engines wait for and signal; it holds a connection to the sentry, which ends the
 * guest process when the connection goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/args.h"
#include "runtime/client.h"
#include "runtime/command.h"
#include "runtime/container.h"
#include "runtime/error.h"
#include "runtime/oci.h"
#include "runtime/relay.h"
#include "runtime/spec.h"
#include "runtime/terminal.h"
#include "runtime/user.h"

#define EXIT_EXEC 255 /* what engines expect of an exec that could not be */

static struct {
	const char *console_socket, *cwd, *user, *process, *pid_file;
	struct arg_list env, caps, groups;
	int tty, detach, nnp, preserve_fds, ignore_paused;
} g_exec;

static const struct arg_option g_options[] = {
	{ "console-socket", 0, ARG_TEXT, &g_exec.console_socket, "socket that takes the terminal's master" },
	{ "cwd", 0, ARG_TEXT, &g_exec.cwd, "working directory" },
	{ "env", 'e', ARG_LIST, &g_exec.env, "NAME=VALUE, may be repeated" },
	{ "tty", 't', ARG_FLAG, &g_exec.tty, "with a terminal" },
	{ "user", 'u', ARG_TEXT, &g_exec.user, "UID[:GID]" },
	{ "additional-gids", 'g', ARG_LIST, &g_exec.groups, "GID, may be repeated" },
	{ "process", 'p', ARG_TEXT, &g_exec.process, "file with a process object" },
	{ "detach", 'd', ARG_FLAG, &g_exec.detach, "do not wait" },
	{ "pid-file", 0, ARG_TEXT, &g_exec.pid_file, "file for the process's pid" },
	{ "no-new-privs", 0, ARG_FLAG, &g_exec.nnp, "no new privileges" },
	{ "cap", 'c', ARG_LIST, &g_exec.caps, "one more capability, may be repeated" },
	{ "preserve-fds", 0, ARG_NUMBER, &g_exec.preserve_fds, "accepted; no file but stdio enters" },
	{ "ignore-paused", 0, ARG_FLAG, &g_exec.ignore_paused, "accepted" },
	{ "process-label", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
	{ "apparmor", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
	{ "cgroup", 0, ARG_IGNORE_TEXT, NULL, "accepted" },
	{ 0 },
};

static struct json_object *load_json(int dir, const char *file)
{
	struct spec_error e = { "" };
	size_t len;
	char *text = spec_read_file(dir, file, &len, &e);
	struct json_object *o = text ? spec_json(text, len, file, &e) : NULL;

	if (!o)
		die(EXIT_EXEC, "%s", e.text);
	free(text);
	return o;
}

static struct json_object *words(int argc, char **argv)
{
	struct json_object *a = json_object_new_array();

	for (int i = 0; i < argc; i++)
		json_object_array_add(a, json_object_new_string(argv[i]));
	return a;
}

static struct json_object *member(struct json_object *o, const char *key, struct json_object *fresh)
{
	struct json_object *v = spec_get(o, key);

	if (v) {
		json_object_put(fresh);
		return v;
	}
	json_object_object_add(o, key, fresh);
	return fresh;
}

/* The container's own process object, changed as the options say. */
static void edit_process(struct json_object *p, int argc, char **argv)
{
	static const char *const sets[] = { "bounding", "effective", "permitted" };
	struct json_object *user, *caps;
	uint32_t uid = 0, gid = 0;

	json_object_object_add(p, "args", words(argc, argv));
	json_object_object_add(p, "terminal", json_object_new_boolean(g_exec.tty));
	if (g_exec.cwd)
		json_object_object_add(p, "cwd", json_object_new_string(g_exec.cwd));
	if (g_exec.nnp)
		json_object_object_add(p, "noNewPrivileges", json_object_new_boolean(1));
	for (size_t i = 0; i < g_exec.env.count; i++)
		json_object_array_add(member(p, "env", json_object_new_array()),
				      json_object_new_string(g_exec.env.items[i]));
	user = member(p, "user", json_object_new_object());
	if (g_exec.user) {
		if (user_parse(g_exec.user, &uid, &gid))
			die(EXIT_EXEC, "--user: '%s' is not UID or UID:GID in decimal", g_exec.user);
		json_object_object_add(user, "uid", json_object_new_int64(uid));
		json_object_object_add(user, "gid", json_object_new_int64(gid));
	}
	for (size_t i = 0; i < g_exec.groups.count; i++) {
		if (user_id_parse(g_exec.groups.items[i], &gid))
			die(EXIT_EXEC, "--additional-gids: '%s' is not a group id", g_exec.groups.items[i]);
		json_object_array_add(member(user, "additionalGids", json_object_new_array()),
				      json_object_new_int64(gid));
	}
	caps = member(p, "capabilities", json_object_new_object());
	/* Capabilities that survive an exec by themselves are never handed out here. */
	json_object_object_del(caps, "inheritable");
	json_object_object_del(caps, "ambient");
	for (size_t i = 0; i < g_exec.caps.count; i++)
		for (size_t j = 0; j < sizeof(sets) / sizeof(*sets); j++)
			json_object_array_add(member(caps, sets[j], json_object_new_array()),
					      json_object_new_string(g_exec.caps.items[i]));
}

struct request {
	struct bootconf conf;
	int tty; /* the slave, or -1 */
	struct relay relay; /* with the caller's own terminal */
};

static void prepare(struct request *q, const struct state *s, int argc, char **argv)
{
	char config[4200];
	struct spec_error e = { "" };
	struct json_object *whole, *p, *seccomp;
	int terminal = 0;

	snprintf(config, sizeof(config), "%s/config.json", state_text(s, "bundle"));
	whole = load_json(AT_FDCWD, config);
	if (g_exec.process) {
		p = load_json(AT_FDCWD, g_exec.process);
	} else {
		p = spec_get(whole, "process");
		if (argc < 1 || !p)
			die(EXIT_EXEC, "no program given; usage: caisson exec [options] ID PROGRAM [ARGS...]");
		edit_process(p, argc, argv);
	}
	if (g_exec.tty)
		json_object_object_add(p, "terminal", json_object_new_boolean(1));
	bootconf_init(&q->conf);
	if (spec_process(p, "process", &q->conf, &e) || spec_bool(p, "process", "terminal", &terminal, &e))
		die(EXIT_EXEC, "%s", e.text);
	seccomp = spec_get(spec_get(whole, "linux"), "seccomp");
	if (seccomp && spec_seccomp(seccomp, &q->conf, &e))
		die(EXIT_EXEC, "%s", e.text);
	q->tty = -1;
	if (terminal) {
		unsigned rows = 24, cols = 80;
		struct json_object *size = spec_get(p, "consoleSize");

		if (size && spec_get(size, "height") && spec_get(size, "width")) {
			rows = (unsigned)json_object_get_int(spec_get(size, "height")) & 0xffff;
			cols = (unsigned)json_object_get_int(spec_get(size, "width")) & 0xffff;
		}
		if (g_exec.console_socket) {
			q->tty = container_console(g_exec.console_socket, rows, cols);
		} else {
			if (g_exec.detach || !isatty(0))
				die(EXIT_EXEC, "cannot allocate tty if runc will detach without setting console socket");
			terminal_size(0, &rows, &cols);
			q->relay.master = container_pty(&q->tty, rows, cols);
		}
		if (bootconf_add(&q->conf, "tty", "1") || bootconf_add_u64(&q->conf, "tty_rows", rows) ||
		    bootconf_add_u64(&q->conf, "tty_cols", cols))
			die(EXIT_EXEC, "out of memory");
	}
	json_object_put(whole);
}

/* Sends it; returns the connection once the program runs. */
static int begin(const struct state *s, struct request *q)
{
	char buf[CLIENT_MESSAGE_MAX];
	int conf = memfd_create("process", MFD_CLOEXEC | MFD_ALLOW_SEALING), conn = client_connect(s->dir);
	struct bootconf m, a;

	if (conn < 0)
		die(EXIT_EXEC, "cannot exec in a container that is not running");
	if (conf < 0 || bootconf_write(&q->conf, conf) || lseek(conf, 0, SEEK_SET) != 0)
		die(EXIT_EXEC, "memfd: %s", strerror(errno));
	fcntl(conf, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	int fds[4] = { conf, 0, 1, 2 }, count = 4;

	if (q->tty >= 0) {
		fds[1] = fds[2] = q->tty;
		count = 3;
	}
	bootconf_init(&m);
	if (bootconf_add(&m, "cmd", "exec") || client_send(conn, &m, fds, count))
		die(EXIT_EXEC, "cannot exec in a container that is not running");
	bootconf_free(&m);
	close(conf);
	int r = client_receive(conn, buf, &a, -1);

	if (r <= 0)
		die(EXIT_EXEC, "the container ended");
	if (bootconf_get(&a, "error"))
		die(EXIT_EXEC, "exec failed: unable to start container process: %s", bootconf_get(&a, "error"));
	return conn;
}

static void send_two(int conn, const char *cmd, const char *k1, unsigned v1, const char *k2, unsigned v2)
{
	struct bootconf m;

	bootconf_init(&m);
	if (!bootconf_add(&m, "cmd", cmd) && !bootconf_add_u64(&m, k1, v1) && (!k2 || !bootconf_add_u64(&m, k2, v2)))
		client_send(conn, &m, NULL, 0);
	bootconf_free(&m);
}

static void send_size(int conn, int tty)
{
	struct winsize ws;

	if (tty >= 0 && ioctl(tty, TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col)
		send_two(conn, "winsize", "rows", ws.ws_row, "cols", ws.ws_col);
}

static void pass_signal(int conn, int sigfd, int tty, const struct relay *relay)
{
	struct signalfd_siginfo si;

	if (read(sigfd, &si, sizeof(si)) != sizeof(si))
		return;
	if (si.ssi_signo == SIGWINCH) {
		relay_resize(relay);
		send_size(conn, tty);
	} else if (si.ssi_signo != SIGCHLD && si.ssi_signo != SIGPIPE &&
		   !(si.ssi_signo == SIGHUP && tty >= 0 && si.ssi_code == SI_KERNEL)) {
		send_two(conn, "signal", "signo", si.ssi_signo, NULL, 0);
	}
}

/* Until the process has ended: its exit status in the shell's form. */
static int attend(int conn, int sigfd, int tty, struct relay *relay)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m;
	uint64_t status;

	for (;;) {
		struct pollfd p[2 + RELAY_POLLS] = { { .fd = conn, .events = POLLIN }, { .fd = sigfd, .events = POLLIN } };

		relay_poll(relay, p + 2);
		if (poll(p, 2 + RELAY_POLLS, -1) < 0)
			continue;
		relay_move(relay, p + 2);
		if (p[1].revents)
			pass_signal(conn, sigfd, tty, relay);
		if (!p[0].revents)
			continue;
		if (client_receive(conn, buf, &m, -1) <= 0)
			return 128 + SIGKILL; /* the sandbox is gone */
		if (bootconf_get(&m, "status") && !bootconf_get_u64(&m, "status", 0, &status))
			return WIFSIGNALED((int)status) ? 128 + WTERMSIG((int)status) : WEXITSTATUS((int)status);
	}
}

static int all_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	return signalfd(-1, &all, SFD_CLOEXEC);
}

/* The process that stays: nothing of the caller's, and no rights. */
static __attribute__((noreturn)) void stay(int conn, int tty)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), sigfd = all_signals();

	setsid();
	if (tty > 0)
		ioctl(tty, TIOCSCTTY, 0);
	/* The engine may have set it before anybody was there to be told. */
	send_size(conn, tty);
	prctl(PR_SET_PDEATHSIG, 0);
	prctl(PR_SET_NAME, "caisson-exec");
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != conn && fd != tty && fd != sigfd)
			close(fd);
	syscall(SYS_close_range, 1024, ~0u, 0);
	if (chdir("/") != 0)
		_exit(EXIT_EXEC);
	if (geteuid() == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) != 0)
		_exit(EXIT_EXEC);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	_exit(attend(conn, sigfd, tty, &(struct relay){ .master = -1 }));
}

int cmd_exec(int argc, char **argv)
{
	struct request q = { .tty = -1, .relay.master = -1 };
	struct state s;

	oci_begin(EXIT_EXEC);
	args_parse(g_options, "exec [options] ID PROGRAM [ARGS...]", 0, &argc, &argv);
	if (argc < 1)
		die(EXIT_EXEC, "a container id is needed");
	container_open(&s, argv[0], 0);
	if (!state_pid(&s))
		die(EXIT_EXEC, "cannot exec in a container that is not running: container not running");
	if (argc > 1 && !strcmp(argv[1], "--")) {
		argv++;
		argc--;
	}
	prepare(&q, &s, argc - 1, argv + 1);
	int conn = begin(&s, &q);

	if (g_exec.detach) {
		pid_t pid = fork();

		if (pid < 0)
			die(EXIT_EXEC, "fork: %s", strerror(errno));
		if (pid == 0)
			stay(conn, q.tty);
		container_pid_file(g_exec.pid_file, pid);
		return 0;
	}
	container_pid_file(g_exec.pid_file, getpid());
	int sigfd = all_signals();

	if (q.relay.master >= 0) {
		die_cleanup(terminal_restore);
		terminal_raw(0);
	}
	int code = attend(conn, sigfd, q.tty, &q.relay);

	relay_drain(&q.relay);
	terminal_restore();
	return code;
}
