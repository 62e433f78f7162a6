/* SPDX-License-Identifier: Apache-2.0 */
/* create, start, delete, and run in the engines' sense (a bundle and an id). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/args.h"
#include "runtime/command.h"
#include "runtime/container.h"
#include "runtime/error.h"
#include "runtime/oci.h"
#include "runtime/relay.h"
#include "runtime/terminal.h"

static struct container_options g_create;

static const struct arg_option g_create_options[] = {
	{ "bundle", 'b', ARG_TEXT, &g_create.bundle, "directory with config.json; default: the current one" },
	{ "pid-file", 0, ARG_TEXT, &g_create.pid_file, "file for the container's pid" },
	{ "console-socket", 0, ARG_TEXT, &g_create.console_socket, "socket that takes the terminal's master" },
	{ "preserve-fds", 0, ARG_NUMBER, &g_create.preserve_fds, "accepted; no file but stdio enters" },
	{ "no-pivot", 0, ARG_FLAG, &g_create.no_pivot, "accepted; nothing is pivoted" },
	{ "no-new-keyring", 0, ARG_FLAG, &g_create.no_new_keyring, "accepted; a sandbox has its own" },
	{ "no-subreaper", 0, ARG_FLAG, &g_create.no_subreaper, "accepted" },
	{ "detach", 'd', ARG_FLAG, &g_create.detach, "run: do not wait for the container" },
	{ "keep", 0, ARG_FLAG, &g_create.keep, "run: do not delete the container at its end" },
	{ 0 },
};

static const char *only_id(int argc, char **argv, const char *usage)
{
	if (argc != 1)
		die(1, "exactly one container id is needed (usage: caisson %s)", usage);
	return argv[0];
}

int cmd_create(int argc, char **argv)
{
	static const char usage[] = "create [options] ID";

	oci_begin(1);
	args_parse(g_create_options, usage, 1, &argc, &argv);
	container_create(only_id(argc, argv, usage), &g_create);
	return 0;
}

int cmd_start(int argc, char **argv)
{
	static const struct arg_option none[] = { { 0 } };
	struct state s;

	oci_begin(1);
	args_parse(none, "start ID", 1, &argc, &argv);
	container_open(&s, only_id(argc, argv, "start ID"), 1);
	container_start(&s);
	return 0;
}

int cmd_delete(int argc, char **argv)
{
	int force = 0;
	const struct arg_option options[] = {
		{ "force", 'f', ARG_FLAG, &force, "end it first when it still runs; no error when it is not there" },
		{ 0 },
	};
	struct state s;
	const char *status;

	oci_begin(1);
	args_parse(options, "delete [--force] ID", 1, &argc, &argv);
	const char *id = only_id(argc, argv, "delete [--force] ID");

	if (state_open(&s, id, 1) == -ENOENT) {
		if (force)
			return 0;
		die(1, "container does not exist: %s", id);
	}
	status = container_status(&s);
	if (!force && strcmp(status, "stopped") && strcmp(status, "created"))
		die(1, "cannot delete container %s that is not stopped: %s", id, status);
	container_destroy(&s);
	return 0;
}

/* ---- run ---- */

/* Passes signals and terminal bytes on until the child has ended; its status in the shell's form. */
static int attend(pid_t pid, int sigfd, struct relay *relay)
{
	struct signalfd_siginfo si;
	int status;

	for (;;) {
		struct pollfd p[1 + RELAY_POLLS] = { { .fd = sigfd, .events = POLLIN } };

		relay_poll(relay, p + 1);
		if (waitpid(pid, &status, WNOHANG) == pid) {
			relay_drain(relay);
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		}
		if (poll(p, 1 + RELAY_POLLS, -1) < 0)
			continue;
		relay_move(relay, p + 1);
		if (!p[0].revents || read(sigfd, &si, sizeof(si)) != sizeof(si) || si.ssi_signo == SIGCHLD)
			continue;
		if (si.ssi_signo == SIGWINCH)
			relay_resize(relay);
		else
			kill(pid, (int)si.ssi_signo);
	}
}

static int run_bundle(int argc, char **argv)
{
	static const char usage[] = "run [options] --bundle DIR ID";
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD };
	struct relay relay = { .master = -1 };
	struct state s;
	sigset_t set, before;

	oci_begin(1);
	args_parse(g_create_options, usage, 1, &argc, &argv);
	const char *id = only_id(argc, argv, usage);

	g_create.foreground = !g_create.detach;
	g_create.master = &relay.master;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	pid_t pid = container_create(id, &g_create);

	container_open(&s, id, 1);
	if (relay.master >= 0) {
		die_cleanup(terminal_restore);
		terminal_raw(0);
		relay_resize(&relay);
	}
	container_start(&s);
	if (g_create.detach)
		return 0;
	/* `delete` and the like must be able to work on it meanwhile. */
	state_close(&s);
	container_open(&s, id, 0);
	int code = attend(pid, signalfd(-1, &set, SFD_CLOEXEC), &relay);

	terminal_restore();
	state_close(&s);
	if (!g_create.keep && state_open(&s, id, 1) == 0)
		container_destroy(&s);
	return code;
}

/*
 * `run` means two things: with --bundle/-b, or with one word and a config.json here, a container of
 * an engine; else a program for a person. The options before the first plain word decide.
 */
int cmd_run(int argc, char **argv)
{
	int words = 0, separator = 0, bundle = 0;

	for (int i = 1; i < argc && !separator; i++) {
		const char *a = argv[i];

		separator = !strcmp(a, "--");
		bundle |= !strcmp(a, "--bundle") || !strcmp(a, "-b") || !strncmp(a, "--bundle=", 9);
		words += a[0] != '-';
	}
	if (!separator && (bundle || (words && words == argc - 1 && words == 1 && access("config.json", R_OK) == 0)))
		return run_bundle(argc, argv);
	return run_for_people(argc, argv);
}
