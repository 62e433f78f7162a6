/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a container as the runtime's short-lived commands see it.
 *
 * Creation, in order: state directory (locked), configuration, terminal, cgroup, waiter (which builds
 * the sandbox), hooks, pid file, and only then the waiter's leave to live on without us. A command
 * that dies on the way takes the waiter with it, and leaves a directory that `delete --force` clears.
 */
#include "runtime/container.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cgroup_oci.h"
#include "runtime/client.h"
#include "runtime/error.h"
#include "runtime/hooks.h"
#include "runtime/launch.h"
#include "runtime/oci.h"
#include "runtime/pod.h"
#include "runtime/relay.h"
#include "runtime/spec.h"
#include "runtime/waiter.h"

#define ANSWER_MS 10000
#define DEATH_MS 10000

/* ---- half-made containers ---- */

static struct {
	struct state *state;
	struct cgroup_oci *cgroup;
	pid_t waiter;
} g_making;

static void undo(void)
{
	if (g_making.waiter > 0) {
		kill(g_making.waiter, SIGKILL);
		waitpid(g_making.waiter, NULL, 0);
	}
	if (g_making.cgroup)
		cgroup_oci_remove(g_making.cgroup);
	if (g_making.state)
		state_remove(g_making.state);
}

/* ---- pieces of creation ---- */

char *container_bundle(const char *bundle)
{
	char *full = realpath(bundle ? bundle : ".", NULL);

	if (!full)
		die(1, "bundle %s: %s", bundle ? bundle : ".",
		    errno == ENOENT ? "no such file or directory" : strerror(errno));
	return full;
}

static void load_spec(struct spec *s, const char *bundle)
{
	struct spec_error e = { "" };
	int dir = open(bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t len;
	char *text = dir < 0 ? NULL : spec_read_file(dir, "config.json", &len, &e);

	if (!text)
		die(1, "%s/%s", bundle, dir < 0 ? strerror(errno) : e.text);
	close(dir);
	s->overlay = g_oci.overlay && !strcmp(g_oci.overlay, "memory");
	if (spec_parse(s, text, len, bundle, &e))
		die(1, "%s", e.text);
	free(text);
}

int container_pty(int *slave, unsigned rows, unsigned cols)
{
	int master = relay_pty(slave, rows, cols);

	if (master < 0)
		die(1, "a terminal: %s", strerror(errno));
	return master;
}

int container_console(const char *socket_path, unsigned rows, unsigned cols)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), slave, master;
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char name[] = "/dev/ptmx";
	struct iovec iov = { name, sizeof(name) - 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };

	if (strlen(socket_path) >= sizeof(a.sun_path))
		die(1, "--console-socket: the path is too long");
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", socket_path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
		die(1, "--console-socket %s: %s", socket_path, strerror(errno));
	master = container_pty(&slave, rows, cols);
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &master, sizeof(int));
	if (sendmsg(fd, &h, MSG_NOSIGNAL) < 0)
		die(1, "--console-socket %s: %s", socket_path, strerror(errno));
	close(fd);
	close(master);
	return slave;
}

static int console_for(const struct spec *s, const struct container_options *o)
{
	int slave;

	if (!s->terminal) {
		if (o->console_socket)
			die(1, "--console-socket is of no use: process.terminal is false");
		return -1;
	}
	if (o->console_socket)
		return container_console(o->console_socket, s->rows, s->cols);
	if (!o->foreground)
		die(1, "cannot allocate tty if runc will detach without setting console socket");
	if (!isatty(0))
		die(1, "process.terminal is true, but stdin is not a terminal");
	*o->master = container_pty(&slave, 0, 0);
	return slave;
}

void container_pid_file(const char *path, pid_t pid)
{
	char temp[PATH_MAX], text[16];
	int fd, n;

	if (!path)
		return;
	/* Whole or not at all: it is moved into its place. */
	if ((size_t)snprintf(temp, sizeof(temp), "%s.%d.new", path, (int)getpid()) >= sizeof(temp))
		die(1, "--pid-file: the path is too long");
	n = snprintf(text, sizeof(text), "%d", (int)pid);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, (size_t)n) != n || close(fd) != 0 || rename(temp, path) != 0)
		die(1, "--pid-file %s: %s", path, strerror(errno));
}

static void add_string(struct json_object *o, const char *key, const char *v)
{
	json_object_object_add(o, key, json_object_new_string(v));
}

static void record(struct state *st, const struct spec *s, const char *bundle, const struct cgroup_oci *cg,
		   pid_t pid, const char *sandbox)
{
	struct json_object *o = json_object_new_object(), *a = spec_get(s->json, "annotations");
	char when[40];
	time_t now = time(NULL);
	struct tm tm;
	int dead;

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	add_string(o, "ociVersion", OCI_VERSION);
	add_string(o, "id", st->id);
	json_object_object_add(o, "pid", json_object_new_int(pid));
	json_object_object_add(o, "startTime", json_object_new_uint64(state_start_time(pid, &dead)));
	add_string(o, "bundle", bundle);
	add_string(o, "rootfs", s->rootfs);
	add_string(o, "created", when);
	if (sandbox)
		add_string(o, "sandbox", sandbox);
	json_object_object_add(o, "annotations", a ? json_object_get(a) : json_object_new_object());
	json_object_object_add(o, "cgroups", cgroup_oci_to_json(cg));
	if (s->hooks)
		json_object_object_add(o, "hooks", json_object_get(s->hooks));
	if (st->json)
		json_object_put(st->json);
	st->json = o;
	int err = state_save(st);

	if (err)
		die(1, "%s/%s: %s", g_oci.root, st->id, strerror(-err));
}

static void set_oom_score(const struct spec *s, pid_t pid)
{
	char path[64], text[16];
	int fd;

	if (!s->have_oom_score_adj)
		return;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	snprintf(text, sizeof(text), "%d", s->oom_score_adj);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	/* Lowering takes a right that the runtime may lack; the container runs all the same. */
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		warn("oom_score_adj can not be set to %s: %s", text, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* The waiter's report: returns when the sandbox stands. */
static void await_waiter(int sock)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m;

	for (;;) {
		int r = client_receive(sock, buf, &m, -1);
		const char *text;

		if (r <= 0)
			die(1, "the container's process ended while it was made");
		if ((text = bootconf_get(&m, "error")))
			die(1, "create failed: %s", text);
		if ((text = bootconf_get(&m, "warning")))
			warn("%s", text);
		else if (bootconf_get(&m, "ok"))
			return;
	}
}

static int open_netns(const struct spec *s)
{
	const char *path = s->ns[SPEC_NS_NET].path;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (path && fd < 0)
		die(1, "config.json: linux.namespaces: %s: %s", path,
		    errno == ENOENT ? "no such file or directory" : strerror(errno));
	return fd;
}

/* The pause container of a pod holds the whole pod here; its own tiny share of CPU is not meant for
 * that. The pod's cgroup above has the pod's. */
static void drop_pause_share(const struct spec *s)
{
	struct json_object *type = spec_get(spec_get(s->json, "annotations"), "io.kubernetes.cri.container-type");
	struct json_object *cpu = spec_get(s->resources, "cpu");

	if (type && cpu && json_object_is_type(cpu, json_type_object) && json_object_is_type(type, json_type_string) &&
	    !strcmp(json_object_get_string(type), "sandbox"))
		json_object_object_del(cpu, "shares");
}

static void gofer_conf(struct spec *s, const char *log_level)
{
	struct bootconf *g = &s->gofer;

	if (bootconf_addf(g, "caps", "0x%llx", s->any_writable ? LAUNCH_CAPS_FILE_SERVER : LAUNCH_CAPS_READ_ANY) ||
	    bootconf_add_u64(g, "log_fd", GOFER_FD_LOG) || bootconf_add(g, "log_level", log_level))
		die(1, "out of memory");
}

static void give_word(int sock)
{
	if (send(sock, "g", 1, MSG_NOSIGNAL) != 1)
		die(1, "the container's process ended while it was made");
}

static int sandbox_log(struct state *st)
{
	int fd = g_oci.debug ? openat(st->dir, "sandbox.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
			     : open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		die(1, "log of the sandbox: %s", strerror(errno));
	return fd;
}

pid_t container_create(const char *id, const struct container_options *o)
{
	static struct spec spec;
	static struct state st;
	static struct cgroup_oci cg;
	static struct pod pod;
	char why[EGRESS_WHY_MAX] = "", *bundle = container_bundle(o->bundle);
	int pair[2];

	/* A caller without 0, 1 or 2 must not lend the sandbox some other file in their place. */
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			die(1, "fd %d is closed and /dev/null can not take its place", fd);
	load_spec(&spec, bundle);
	drop_pause_share(&spec);
	int joins = pod_find(&spec, &pod);

	state_create(&st, id);
	g_making.state = &st;
	die_cleanup(undo);
	int tty = console_for(&spec, o);

	if (o->preserve_fds)
		warn("--preserve-fds: files besides stdin, stdout and stderr do not enter the sandbox");
	if (cgroup_oci_create(&cg, spec.cgroups_path, g_oci.systemd_cgroup, spec.resources, why, sizeof(why)))
		die(1, "%s", why);
	g_making.cgroup = &cg;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		die(1, "socketpair: %s", strerror(errno));

	struct waiter_setup w = { .spec = &spec, .id = id, .pod = joins ? &pod : NULL, .parent = pair[1], .tty = tty,
				  .owner = geteuid(), .netns = open_netns(&spec),
				  .log = sandbox_log(&st), .log_level = g_oci.debug ? "info" : "error" };

	const char *const resolv[] = { "/etc/resolv.conf", NULL };

	if (egress_conf(&spec.network, id, resolv, SENTRY_FD_AUDIT, &spec.sentry, &w.audit, why, sizeof(why)))
		die(1, "%s", why);
	w.listen = client_listen(st.dir);
	if (w.listen < 0)
		die(1, "the control socket: %s", strerror(-w.listen));
	gofer_conf(&spec, w.log_level);
	if (joins)
		pod_enter(&pod, &spec, w.log);

	int own = joins ? pod_pid_begin(&pod) : -1;
	unsigned long flags = CLONE_NEWNS | (own < 0 ? CLONE_NEWPID : 0) | SIGCHLD;
	pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);

	if (pid < 0)
		die(1, "new namespaces: %s", errno == EPERM ? "operation not permitted" : strerror(errno));
	if (pid == 0) {
		die_cleanup(NULL);
		close(pair[0]);
		waiter_run(&w);
	}
	g_making.waiter = pid;
	pod_pid_end(own);
	if (joins) {
		close(pod.conn);
		close(pod.gofer);
	}
	close(pair[1]);
	close(w.listen);
	if (tty > 0)
		close(tty);
	cgroup_oci_add(&cg, pid);
	set_oom_score(&spec, pid);
	record(&st, &spec, bundle, &cg, pid, joins ? pod.sandbox.id : NULL);
	give_word(pair[0]);
	await_waiter(pair[0]);

	struct json_object *state = container_state_json(&st, "creating");

	if (hooks_run(spec.hooks, "prestart", state) || hooks_run(spec.hooks, "createRuntime", state))
		die(1, "create failed: a hook failed");
	json_object_put(state);
	container_pid_file(o->pid_file, pid);
	give_word(pair[0]);
	die_cleanup(NULL);
	memset(&g_making, 0, sizeof(g_making));
	close(pair[0]);
	state_close(&st);
	return pid;
}

/* ---- living containers ---- */

void container_open(struct state *s, const char *id, int lock)
{
	if (state_open(s, id, lock) == -ENOENT)
		die(1, "container does not exist: %s", id);
}

const char *container_status(const struct state *s)
{
	char buf[CLIENT_MESSAGE_MAX];
	static char status[32];
	struct bootconf m;

	if (!s->json)
		return "creating";
	if (!state_pid(s))
		return "stopped";
	if (client_ask(s->dir, "status", NULL, NULL, buf, &m, 2000) <= 0)
		return state_pid(s) ? "running" : "stopped";
	snprintf(status, sizeof(status), "%s", bootconf_get(&m, "status") ? bootconf_get(&m, "status") : "running");
	return status;
}

struct json_object *container_state_json(const struct state *s, const char *status)
{
	struct json_object *o = json_object_new_object(), *a = spec_get(s->json, "annotations");

	add_string(o, "ociVersion", OCI_VERSION);
	add_string(o, "id", s->id);
	add_string(o, "status", status);
	json_object_object_add(o, "pid", json_object_new_int(strcmp(status, "stopped") ? state_pid(s) : 0));
	add_string(o, "bundle", state_text(s, "bundle"));
	add_string(o, "rootfs", state_text(s, "rootfs"));
	add_string(o, "created", state_text(s, "created"));
	json_object_object_add(o, "annotations", a ? json_object_get(a) : json_object_new_object());
	add_string(o, "owner", "");
	return o;
}

void container_start(struct state *s)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m;
	int r;

	if (!state_pid(s))
		die(1, "cannot start a container that has stopped");
	r = client_ask(s->dir, "start", NULL, NULL, buf, &m, -1);
	if (r <= 0)
		die(1, "cannot start a container that has stopped");
	if (bootconf_get(&m, "error"))
		die(1, "%s", bootconf_get(&m, "error"));
	struct json_object *state = container_state_json(s, "running");

	hooks_run(spec_get(s->json, "hooks"), "poststart", state);
	json_object_put(state);
}

/* One of several in a sandbox is ended by the sentry, which lets go of its files first. */
static void end_joined(struct state *s)
{
	char buf[CLIENT_MESSAGE_MAX];
	struct bootconf m;

	client_ask(s->dir, "kill", NULL, NULL, buf, &m, 100);
	for (int i = 0; state_pid(s) && i < ANSWER_MS / 5; i++)
		usleep(5000);
}

void container_destroy(struct state *s)
{
	pid_t pid = state_pid(s);
	struct cgroup_oci cg;

	if (pid && *state_text(s, "sandbox"))
		end_joined(s);
	if (pid && state_pid(s)) {
		kill(pid, SIGKILL);
		for (int i = 0; state_pid(s) && i < DEATH_MS / 5; i++)
			usleep(5000);
		if (state_pid(s))
			die(1, "process %d does not end", (int)pid);
	}
	cgroup_oci_from_json(&cg, spec_get(s->json, "cgroups"));
	cgroup_oci_remove(&cg);
	if (s->json) {
		struct json_object *state = container_state_json(s, "stopped");

		hooks_run(spec_get(s->json, "hooks"), "poststop", state);
		json_object_put(state);
	}
	state_remove(s);
}

void container_ask(struct state *s, const char *cmd, char *buf, struct bootconf *answer)
{
	if (!state_pid(s))
		die(1, "container not running");
	int r = client_ask(s->dir, cmd, NULL, NULL, buf, answer, ANSWER_MS);

	if (r <= 0)
		die(1, "%s: %s", cmd, r ? strerror(-r) : "container not running");
	if (bootconf_get(answer, "error"))
		die(1, "%s", bootconf_get(answer, "error"));
}
