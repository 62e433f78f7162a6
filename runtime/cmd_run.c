/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `caisson run`: checks what was asked against the host, writes the two boot configurations,
 * starts gofer and sentry, passes signals and window sizes on, and reports how it ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/base/phase.h"
#include "runtime/cgroup.h"
#include "runtime/client.h"
#include "runtime/command.h"
#include "runtime/error.h"
#include "runtime/etc_files.h"
#include "runtime/hide.h"
#include "runtime/inherit.h"
#include "runtime/launch.h"
#include "runtime/netns.h"
#include "runtime/options.h"
#include "runtime/relay.h"
#include "runtime/result.h"
#include "runtime/terminal.h"
#include "runtime/usernet.h"

/* Milliseconds the sentry gets beyond --timeout before it is killed from outside. */
#define TIMEOUT_GRACE_MS 2000

struct sandbox {
	struct run_options o;
	struct inherited caller;
	int tty, slave; /* slave: the sandbox's end of the relay's pty, until it is launched */
	struct relay relay;
	int log_fd;
	pid_t sentry, gofer, net; /* net: 0 without --network user */
	int control;
	struct cgroup cgroup;
	struct netns_kept *netns; /* to put back at the end */
	struct timespec start;
	uint64_t started_ns; /* for phase.h, here and in the two processes */
};

static void must(int err, const char *what)
{
	if (err)
		die(EXIT_SETUP, "%s: %s", what, strerror(-err));
}

static void check_rootfs(const char *dir)
{
	struct stat st;

	if (stat(dir, &st) != 0) {
		if (errno == ENOENT)
			die(EXIT_SETUP, "--rootfs: there is no '%s'; give an existing directory", dir);
		die(EXIT_SETUP, "--rootfs: '%s' can not be used: %s", dir, strerror(errno));
	}
	if (!S_ISDIR(st.st_mode))
		die(EXIT_SETUP, "--rootfs: '%s' is not a directory; unpack the image first", dir);
	if (access(dir, X_OK | R_OK) != 0)
		die(EXIT_SETUP, "--rootfs: no permission to read '%s'; run as its owner or as root", dir);
}

static void add_mount(struct bootconf *bc, const char *type, const char *source, const char *target,
		      const char *options)
{
	must(bootconf_addf(bc, "mount", "%s\t%s\t%s\t%s", type, source, target, options), "configuration");
}

/* A tab or newline in a path would change the meaning of a configuration line. */
static void check_path_text(const char *what, const char *path)
{
	if (strpbrk(path, "\t\n"))
		die(EXIT_SETUP, "--%s: a tab or newline in a path is not supported", what);
}

static void build_gofer_conf(struct sandbox *s, struct bootconf *g)
{
	const struct run_options *o = &s->o;
	int privileged = launch_is_privileged(), any_rw = 0;

	bootconf_init(g);
	must(bootconf_addf(g, "attach", "0\t%s\tro\texclusive%s", o->rootfs ? o->rootfs : "/",
			   o->rootfs ? "" : ",public"),
	     "configuration");
	if (!o->rootfs)
		must(hide_host_secrets(g, 0), "configuration");
	for (size_t i = 0; i < o->bind_count; i++) {
		const struct bind_option *b = &o->binds[i];
		struct stat st;

		check_path_text("bind", b->src);
		check_path_text("bind", b->dst);
		if (stat(b->src, &st) != 0)
			die(EXIT_SETUP, "--bind: '%s': %s", b->src, strerror(errno));
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			die(EXIT_SETUP, "--bind: '%s' is neither a file nor a directory", b->src);
		char *full = realpath(b->src, NULL);

		if (!full)
			die(EXIT_SETUP, "--bind: '%s': %s", b->src, strerror(errno));
		must(bootconf_addf(g, "attach", "%zu\t%s\t%s\t%s", i + 1, full, b->readonly ? "ro" : "rw",
				   S_ISDIR(st.st_mode) ? "" : "file"),
		     "configuration");
		free(full);
		any_rw |= !b->readonly;
	}
	/*
	 * The host's own root is served with the rights of nobody ("public"). A rootfs that somebody
	 * prepared, or what was bound by name, is served whole, for which root's files must be readable.
	 */
	uint64_t caps = 0;

	if (privileged && any_rw)
		caps = LAUNCH_CAPS_FILE_SERVER;
	else if (privileged && (o->rootfs || o->bind_count))
		caps = LAUNCH_CAPS_READ_ANY;
	must(bootconf_addf(g, "caps", "0x%llx", (unsigned long long)caps), "configuration");
	if (privileged && !caps) {
		must(bootconf_add(g, "uid", "65534"), "configuration");
		must(bootconf_add(g, "gid", "65534"), "configuration");
	}
	if (o->weaker & WEAKER_MOUNTNS)
		must(bootconf_add(g, "allow_weaker", "mountns"), "configuration");
	must(bootconf_add_u64(g, "pdeathsig", 1), "configuration");
	must(bootconf_add_u64(g, "log_fd", GOFER_FD_LOG), "configuration");
	must(bootconf_add(g, "log_level", o->log_level), "configuration");
	must(bootconf_add_u64(g, "started_ns", s->started_ns), "configuration");
}

static void add_env(struct bootconf *bc, const struct run_options *o, int tty)
{
	static const char *const dflt[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
	};

	for (size_t i = 0; i < sizeof(dflt) / sizeof(*dflt); i++) {
		size_t len = (size_t)(strchr(dflt[i], '=') - dflt[i]) + 1;
		int given = 0;

		for (size_t j = 0; j < o->env_count; j++)
			given |= !strncmp(o->env[j], dflt[i], len);
		if (given)
			continue;
		if (!strncmp(dflt[i], "HOME=", 5) && o->uid)
			must(bootconf_add(bc, "env", "HOME=/"), "configuration");
		else
			must(bootconf_add(bc, "env", dflt[i]), "configuration");
	}
	if (tty && getenv("TERM")) {
		int given = 0;

		for (size_t j = 0; j < o->env_count; j++)
			given |= !strncmp(o->env[j], "TERM=", 5);
		if (!given)
			must(bootconf_addf(bc, "env", "TERM=%s", getenv("TERM")), "configuration");
	}
	for (size_t j = 0; j < o->env_count; j++)
		must(bootconf_add(bc, "env", o->env[j]), "environment");
}

static const char *const g_stdio[] = { "stdin_fd", "stdout_fd", "stderr_fd" };

static void build_sentry_conf(struct sandbox *s, struct bootconf *c)
{
	const struct run_options *o = &s->o;

	bootconf_init(c);
	for (int i = 0; i < o->argc; i++)
		must(bootconf_add(c, "arg", o->argv[i]), "arguments");
	add_env(c, o, s->tty);
	must(bootconf_add(c, "cwd", o->workdir), "configuration");
	must(bootconf_add_u64(c, "uid", o->uid), "configuration");
	must(bootconf_add_u64(c, "gid", o->gid), "configuration");
	if (o->group_count) {
		char list[4096] = "";
		size_t len = 0;

		for (size_t i = 0; i < o->group_count && len < sizeof(list) - 16; i++)
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u", i ? "," : "",
						o->groups[i]);
		must(bootconf_add(c, "groups", list), "configuration");
	}
	must(inherit_give(&s->caller, c), "configuration");
	must(bootconf_add(c, "hostname", o->hostname), "configuration");
	must(bootconf_add(c, "caps", "0x1ffffffffff"), "configuration");
	if (o->memory)
		must(bootconf_add_u64(c, "memory", o->memory), "configuration");
	if (o->pids)
		must(bootconf_add_u64(c, "pids", o->pids), "configuration");
	if (o->cpus > 0)
		must(bootconf_add_u64(c, "cpus", o->cpus < 1 ? 1 : (uint64_t)(o->cpus + 0.999)), "configuration");
	if (o->timeout_ms)
		must(bootconf_add_u64(c, "timeout_ms", o->timeout_ms), "configuration");
	if (o->platform)
		must(bootconf_add(c, "platform", o->platform), "configuration");
	if (o->platform_flags)
		must(bootconf_add(c, "platform_flags", o->platform_flags), "configuration");
	must(bootconf_add_u64(c, "strace", (uint64_t)o->strace), "configuration");
	must(bootconf_add(c, "log_level", o->log_level), "configuration");
	must(bootconf_add_u64(c, "started_ns", s->started_ns), "configuration");
	must(bootconf_add_u64(c, "readonly_root", (uint64_t)o->read_only), "configuration");
	must(bootconf_add_u64(c, "tty", (uint64_t)s->tty), "configuration");
	if (s->tty) {
		unsigned rows, cols;

		terminal_size(0, &rows, &cols);
		must(bootconf_add_u64(c, "tty_rows", rows), "configuration");
		must(bootconf_add_u64(c, "tty_cols", cols), "configuration");
	}
	if (o->weaker & WEAKER_MOUNTNS)
		must(bootconf_add(c, "allow_weaker", "mountns"), "configuration");
	must(bootconf_add(c, "init_signals", "plain"), "configuration");
	add_mount(c, "overlay", "0", "/", o->read_only ? "ro" : "rw");
	add_mount(c, "proc", "proc", "/proc", "nosuid,nodev,noexec");
	add_mount(c, "sysfs", "sysfs", "/sys", "ro,nosuid,nodev,noexec");
	add_mount(c, "devtmpfs", "devtmpfs", "/dev", "nosuid,noexec,mode=755");
	add_mount(c, "devpts", "devpts", "/dev/pts", "nosuid,noexec,mode=620,ptmxmode=666,gid=5");
	add_mount(c, "tmpfs", "shm", "/dev/shm", "nosuid,nodev,mode=1777");
	add_mount(c, "mqueue", "mqueue", "/dev/mqueue", "nosuid,nodev,noexec");
	if (!o->rootfs) { /* host directories that are hidden, but that programs expect */
		add_mount(c, "tmpfs", "tmpfs", "/tmp", "mode=1777");
		add_mount(c, "tmpfs", "tmpfs", "/var/tmp", "mode=1777");
		add_mount(c, "tmpfs", "tmpfs", "/run", "nosuid,nodev,mode=755");
		add_mount(c, "tmpfs", "tmpfs", "/root", "mode=700");
	}
	for (size_t i = 0; i < o->bind_count; i++) {
		char id[32];

		snprintf(id, sizeof(id), "%zu", i + 1);
		add_mount(c, "gofer", id, o->binds[i].dst, o->binds[i].readonly ? "ro" : "rw");
	}
	for (int fd = 0; fd < 3; fd++)
		if (!(s->caller.missing & 1 << fd))
			must(bootconf_add_u64(c, g_stdio[fd], (uint64_t)(SENTRY_FD_STDIN + fd)), "configuration");
	must(bootconf_add_u64(c, "log_fd", SENTRY_FD_LOG), "configuration");
	must(bootconf_add_u64(c, "control_fd", SENTRY_FD_CONTROL), "configuration");
	must(bootconf_add_u64(c, "gofer_fd", SENTRY_FD_GOFER), "configuration");
}

/* Policy, rates and records. The namespace's own resolv.conf is where ip-netns(8) looks for it. */
static void add_policy(struct sandbox *s, struct bootconf *c, struct launch *k)
{
	char id[32], own[300], why[EGRESS_WHY_MAX];
	const char *name = s->o.netns ? strrchr(s->o.netns, '/') : NULL;
	const char *resolv[] = { "/etc/resolv.conf", NULL, NULL };
	int fd;

	if (!egress_wanted(&s->o.net))
		return;
	if (!s->o.netns && !s->o.user_network)
		die(EXIT_SETUP, "a network policy needs a network: --network user or netns=PATH");
	if (s->o.user_network && !s->o.net.dns_count)
		s->o.net.dns[s->o.net.dns_count++] = USERNET_DNS;
	if (name && name[1] && (size_t)snprintf(own, sizeof(own), "/etc/netns%s/resolv.conf", name) < sizeof(own)) {
		resolv[1] = resolv[0];
		resolv[0] = own;
	}
	snprintf(id, sizeof(id), "run-%d", (int)getpid());
	if (egress_conf(&s->o.net, id, resolv, SENTRY_FD_AUDIT, c, &fd, why, sizeof(why)))
		die(EXIT_SETUP, "%s", why);
	if (fd >= 0)
		launch_fd(k, fd, SENTRY_FD_AUDIT);
}

static void start_processes(struct sandbox *s)
{
	char sentry_bin[4200], gofer_bin[4200];
	struct bootconf sentry_conf, gofer_conf;
	int gofer_pair[2], control_pair[2];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		die(EXIT_SETUP, "/dev/null: %s", strerror(errno));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gofer_pair) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control_pair) != 0)
		die(EXIT_SETUP, "socketpair: %s", strerror(errno));
	launch_find_binary("caisson-sentry", sentry_bin, sizeof(sentry_bin));
	launch_find_binary("caisson-gofer", gofer_bin, sizeof(gofer_bin));
	build_gofer_conf(s, &gofer_conf);
	build_sentry_conf(s, &sentry_conf);
	phase_mark("configuration");

	struct launch g = { .what = "gofer", .binary = gofer_bin, .conf = &gofer_conf,
			    .conf_fd = GOFER_FD_CONF, .ids = LAUNCH_IDS_ALL,
			    .cgroup = &s->cgroup, .weaker = s->o.weaker };

	launch_fd(&g, null, 0);
	launch_fd(&g, null, 1);
	launch_fd(&g, s->log_fd, 2);
	launch_fd(&g, gofer_pair[1], GOFER_FD_SOCKET);
	launch_fd(&g, s->log_fd, GOFER_FD_LOG);

	struct launch k = { .what = "sentry", .binary = sentry_bin, .conf = &sentry_conf,
			    .conf_fd = SENTRY_FD_CONF, .ids = LAUNCH_IDS_NONE,
			    .cgroup = &s->cgroup, .weaker = s->o.weaker };

	launch_fd(&k, null, 0);
	launch_fd(&k, null, 1);
	launch_fd(&k, s->log_fd, 2);
	launch_fd(&k, control_pair[1], SENTRY_FD_CONTROL);
	launch_fd(&k, gofer_pair[0], SENTRY_FD_GOFER);
	launch_fd(&k, s->log_fd, SENTRY_FD_LOG);
	for (int fd = 0; fd < 3; fd++)
		if (!(s->caller.missing & 1 << fd))
			launch_fd(&k, s->tty ? s->slave : fd, SENTRY_FD_STDIN + fd);
	add_policy(s, &sentry_conf, &k);
	if (s->o.netns) {
		int ns = open(s->o.netns, O_RDONLY | O_CLOEXEC);

		if (ns < 0)
			die(EXIT_SETUP, "--network: %s: %s", s->o.netns, strerror(errno));
		netns_adopt(ns, &sentry_conf, &k, &s->netns);
		close(ns);
	}
	if (s->o.user_network) {
		const struct usernet_options u = { .publish = s->o.publish, .publish_count = s->o.publish_count,
						   .host_loopback = s->o.host_loopback, .cgroup = &s->cgroup,
						   .weaker = s->o.weaker, .log_level = s->o.log_level,
						   .log_fd = s->log_fd };

		s->net = usernet_start(&u, &sentry_conf, &k);
	}
	etc_files_add(&sentry_conf, &s->o);
	launch_both(&k, &g);
	s->sentry = k.pid;
	s->gofer = g.pid;
	phase_mark("launched");
	s->control = control_pair[0];
	close(control_pair[1]);
	close(gofer_pair[0]);
	close(gofer_pair[1]);
	close(null);
	bootconf_free(&sentry_conf);
	bootconf_free(&gofer_conf);
}

static void send_message(struct sandbox *s, struct bootconf *m)
{
	if (m->size && send(s->control, m->data, m->size, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
	    errno != ECONNRESET)
		warn("talking to the sentry: %s", strerror(errno));
	bootconf_free(m);
}

static void forward_signal(struct sandbox *s, int signo)
{
	struct bootconf m;

	bootconf_init(&m);
	if (signo == SIGWINCH) {
		unsigned rows, cols;

		if (!s->tty)
			return;
		terminal_size(0, &rows, &cols);
		must(bootconf_add(&m, "cmd", "winsize"), "message");
		must(bootconf_add_u64(&m, "rows", rows), "message");
		must(bootconf_add_u64(&m, "cols", cols), "message");
	} else {
		/* force: a person's ^C ends a program even though it is pid 1 of the sandbox. */
		must(bootconf_add(&m, "cmd", "signal"), "message");
		must(bootconf_add_u64(&m, "signo", (uint64_t)signo), "message");
		must(bootconf_add(&m, "force", "1"), "message");
	}
	send_message(s, &m);
}

/* A bad file leaves the old policy in force. */
static void reload_policy(struct sandbox *s)
{
	char why[EGRESS_WHY_MAX];

	if (egress_tell(&s->o.net, s->control, 1, why, sizeof(why)))
		warn("%s; the network policy stays as it was", why);
	else
		warn("the network policy is %s again", s->o.net.policy_file);
}

static uint64_t elapsed_ms(const struct sandbox *s)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - s->start.tv_sec) * 1000 + (now.tv_nsec - s->start.tv_nsec) / 1000000);
}

static const int g_forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };

/* Waits for the sentry's last word; *r says how it ended. */
static void supervise(struct sandbox *s, struct result *r, int sigfd)
{
	char buf[8192];
	int got = 0, killed_late = 0;

	memset(r, 0, sizeof(*r));
	for (;;) {
		struct pollfd p[2 + RELAY_POLLS] = { { .fd = s->control, .events = POLLIN },
						     { .fd = sigfd, .events = POLLIN } };
		int wait_ms = -1;

		if (s->o.timeout_ms) {
			uint64_t limit = s->o.timeout_ms + TIMEOUT_GRACE_MS, now = elapsed_ms(s);

			if (now >= limit && !killed_late) {
				killed_late = 1;
				kill(s->sentry, SIGKILL);
			}
			wait_ms = now >= limit ? -1 : (int)(limit - now < 1000000 ? limit - now : 1000000);
		}
		relay_poll(&s->relay, p + 2);
		if (poll(p, 2 + RELAY_POLLS, wait_ms) < 0) {
			if (errno != EINTR)
				die(EXIT_SETUP, "poll: %s", strerror(errno));
			continue;
		}
		relay_move(&s->relay, p + 2);
		if (p[1].revents & POLLIN) {
			struct signalfd_siginfo si;

			if (read(sigfd, &si, sizeof(si)) != sizeof(si))
				continue;
			if (si.ssi_signo == (uint32_t)SIGRTMIN)
				reload_policy(s);
			else
				forward_signal(s, (int)si.ssi_signo);
		}
		if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) {
			ssize_t n = recv(s->control, buf, sizeof(buf), 0);

			if (n <= 0)
				break;
			struct bootconf msg = { .data = buf, .size = (size_t)n, .cap = sizeof(buf) };

			if (buf[n - 1] == '\0' && bootconf_get(&msg, "reason")) {
				result_from_message(r, &msg);
				got = 1;
			}
		}
	}
	int status;

	while (waitpid(s->sentry, &status, 0) < 0 && errno == EINTR)
		;
	int oom = cgroup_oom_killed(&s->cgroup);

	/* The host has taken the program's memory: stubs are its first victims. */
	if (got && oom && r->signal == SIGKILL && !strcmp(r->reason, "signaled"))
		snprintf(r->reason, sizeof(r->reason), "oom");
	if (!got) {
		snprintf(r->reason, sizeof(r->reason), "%s",
			 killed_late ? "timeout" : oom ? "oom" : "internal-error");
		r->signal = oom || killed_late ? SIGKILL : 0;
		if (WIFSIGNALED(status))
			snprintf(r->message, sizeof(r->message), "the sentry was ended by signal %d",
				 WTERMSIG(status));
		else
			snprintf(r->message, sizeof(r->message),
				 "the sentry ended with status %d without a result; --log FILE tells more",
				 WEXITSTATUS(status));
		r->wall_ms = elapsed_ms(s);
	}
}

/* A server of the sandbox serves nobody any more, and has nothing of its own to finish. */
static void end_server(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The runtime's own lines, which are few: those of phase.h. */
static void start_log(const struct sandbox *s)
{
	enum log_level level = LOG_ERROR;

	(void)log_level_parse(s->o.log_level, &level);
	log_setup(s->log_fd, level, "caisson");
}

int run_for_people(int argc, char **argv)
{
	static struct sandbox s = { .control = -1, .log_fd = -1, .slave = -1, .relay.master = -1 };
	struct result r;
	sigset_t set;

	s.started_ns = phase_begin(0);
	inherit_take(&s.caller);
	run_options_parse(&s.o, argc, argv);
	clock_gettime(CLOCK_MONOTONIC, &s.start);
	if (s.o.rootfs) {
		check_path_text("rootfs", s.o.rootfs);
		check_rootfs(s.o.rootfs);
		s.o.rootfs = realpath(s.o.rootfs, NULL);
		if (!s.o.rootfs)
			die(EXIT_SETUP, "--rootfs: %s", strerror(errno));
	}
	s.tty = s.o.tty >= 0 ? s.o.tty : isatty(0) && isatty(1);
	if (s.tty && !isatty(0))
		die(EXIT_SETUP, "--tty: stdin is not a terminal; use --no-tty");
	if (s.o.log) {
		s.log_fd = open(s.o.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (s.log_fd < 0)
			die(EXIT_SETUP, "--log: '%s': %s", s.o.log, strerror(errno));
	} else {
		s.log_fd = fcntl(2, F_DUPFD_CLOEXEC, 10);
	}
	if (!s.o.log_level)
		s.o.log_level = s.o.log || s.o.strace ? "info" : "error";
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(g_forwarded) / sizeof(*g_forwarded); i++)
		sigaddset(&set, g_forwarded[i]);
	if (s.o.net.policy_file)
		sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int sigfd = signalfd(-1, &set, SFD_CLOEXEC);

	if (sigfd < 0)
		die(EXIT_SETUP, "signalfd: %s", strerror(errno));
	start_log(&s);
	phase_mark("options");
	cgroup_create(&s.cgroup, s.o.memory, s.o.cpus, s.o.pids);
	if (s.tty) {
		s.relay.master = relay_pty(&s.slave, 0, 0);
		if (s.relay.master < 0)
			die(EXIT_SETUP, "--tty: no terminal for the program: %s", strerror(errno));
	}
	start_processes(&s);
	phase_log();
	if (s.tty) {
		close(s.slave);
		die_cleanup(terminal_restore);
		terminal_raw(0);
	}
	supervise(&s, &r, sigfd);
	relay_drain(&s.relay);
	phase_mark("sentry-ended");
	terminal_restore();
	close(s.control);
	end_server(s.gofer);
	if (s.net)
		end_server(s.net);
	phase_mark("gofer-ended");
	phase_log();
	cgroup_remove(&s.cgroup);
	netns_restore(s.netns);
	if (r.message[0] && (!strcmp(r.reason, "setup-error") || !strcmp(r.reason, "internal-error")))
		warn("%s", r.message);
	if (!strcmp(r.reason, "timeout"))
		warn("the program ran longer than --timeout and was killed");
	if (!strcmp(r.reason, "oom"))
		warn("the sandbox reached its memory limit and was killed");
	if (s.o.json)
		result_print_json(&r, s.o.json_file);
	return result_exit_status(&r);
}
