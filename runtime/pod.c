/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and entering the sandbox of pod.h. What a path names is compared with the namespaces of
 * the living containers' waiters: those stand on the host for what is shared inside.
 */
#include "runtime/pod.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cgroup_oci.h"
#include "runtime/client.h"
#include "runtime/error.h"
#include "runtime/launch.h"

static const char *const g_files[SPEC_NS_COUNT] = { "net", "pid", "ipc", "uts" };
static const char *const g_names[SPEC_NS_COUNT] = { "network", "pid", "ipc", "uts" };

struct search {
	enum spec_ns kind;
	dev_t dev;
	ino_t ino;
	char id[STATE_ID_MAX + 1], sandbox[STATE_ID_MAX + 1];
};

static void look(const char *id, void *arg)
{
	struct search *q = arg;
	struct state s;
	struct stat st;
	char path[64];
	pid_t pid;

	if (q->id[0] || state_open(&s, id, 0) != 0)
		return;
	pid = state_pid(&s);
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, g_files[q->kind]);
	if (pid && stat(path, &st) == 0 && st.st_dev == q->dev && st.st_ino == q->ino) {
		const char *in = state_text(&s, "sandbox");

		snprintf(q->id, sizeof(q->id), "%s", id);
		snprintf(q->sandbox, sizeof(q->sandbox), "%s", *in ? in : id);
	}
	state_close(&s);
}

/* The host's own namespace is nobody's, even when a waiter is in it. */
static int is_own(const struct search *q)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", g_files[q->kind]);
	return stat(path, &st) == 0 && st.st_dev == q->dev && st.st_ino == q->ino;
}

/* Whose namespace the path of `kind` is; 0: no container's. */
static int find_owner(const struct spec *s, enum spec_ns kind, struct search *q)
{
	struct stat st;

	memset(q, 0, sizeof(*q));
	q->kind = kind;
	if (stat(s->ns[kind].path, &st) != 0)
		die(1, "config.json: linux.namespaces[%d]: path: %s: %s", s->ns[kind].index, s->ns[kind].path,
		    errno == ENOENT ? "no such file or directory" : strerror(errno));
	q->dev = st.st_dev;
	q->ino = st.st_ino;
	if (!is_own(q))
		state_each(look, q);
	return q->id[0] != '\0';
}

/* The sandbox that a CRI's annotations name, or NULL. */
static const char *annotated(const struct spec *s)
{
	static const char *const keys[][2] = {
		{ "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id" },
		{ "io.kubernetes.cri-o.ContainerType", "io.kubernetes.cri-o.SandboxID" },
	};
	struct json_object *a = spec_get(s->json, "annotations");

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		struct json_object *type = spec_get(a, keys[i][0]), *id = spec_get(a, keys[i][1]);

		if (type && id && json_object_is_type(type, json_type_string) &&
		    json_object_is_type(id, json_type_string) && !strcmp(json_object_get_string(type), "container"))
			return json_object_get_string(id);
	}
	return NULL;
}

static void open_sandbox(struct pod *p, const char *id)
{
	struct state s;

	if (state_id_valid(id) && state_open(&s, id, 0) == 0) {
		if (state_pid(&s) && !*state_text(&s, "sandbox")) {
			p->sandbox = s;
			return;
		}
		state_close(&s);
	}
	die(1, "the sandbox %s that the container belongs to is not running", id);
}

static int sandbox_exists(const char *id)
{
	struct state s;
	int found = state_id_valid(id) && state_open(&s, id, 0) == 0;

	if (found)
		state_close(&s);
	return found;
}

int pod_find(struct spec *s, struct pod *p)
{
	const char *by_name = annotated(s);
	struct search q;

	memset(p, 0, sizeof(*p));
	p->sandbox.dir = p->conn = p->gofer = -1;
	for (int i = 0; i < SPEC_NS_COUNT; i++)
		p->ns[i] = -1;
	/* Annotations may be left from elsewhere; a path is certain. */
	if (by_name && sandbox_exists(by_name))
		open_sandbox(p, by_name);
	for (enum spec_ns i = 0; i < SPEC_NS_COUNT; i++) {
		if (!s->ns[i].path)
			continue;
		if (!find_owner(s, i, &q)) {
			if (i == SPEC_NS_NET)
				continue; /* one that an engine has made: it is adopted */
			die(1, "config.json: linux.namespaces[%d]: path: %s is not the %s namespace of a running container "
			    "of Caisson's under the same --root", s->ns[i].index, s->ns[i].path, g_names[i]);
		}
		if (p->sandbox.dir < 0)
			open_sandbox(p, q.sandbox);
		else if (strcmp(p->sandbox.id, q.sandbox))
			die(1, "config.json: linux.namespaces[%d]: path: container %s is in another sandbox than %s; "
			    "one container can not be in both", s->ns[i].index, q.id, p->sandbox.id);
		p->join[i] = strdup(q.id);
		p->ns[i] = open(s->ns[i].path, O_RDONLY | O_CLOEXEC);
		if (p->ns[i] < 0)
			die(1, "config.json: linux.namespaces[%d]: path: %s", s->ns[i].index, strerror(errno));
	}
	if (p->sandbox.dir < 0)
		return 0;
	if (!p->join[SPEC_NS_NET] && (s->ns[SPEC_NS_NET].listed || !by_name))
		die(1, "config.json: linux.namespaces: the container shares the sandbox of %s, which has one network; "
		    "give it that one's network namespace by path", p->sandbox.id);
	return 1;
}

/* In a process of the sandbox's pid namespace: starts the file server and leaves it to the waiter. */
static __attribute__((noreturn)) void gofer_starter(const struct spec *s, int log, int sock)
{
	static char binary[4200];
	struct launch g = { .what = "gofer", .binary = binary, .conf = &s->gofer, .conf_fd = GOFER_FD_CONF,
			    .ids = LAUNCH_IDS_ALL, .uid_map = s->uid_map, .gid_map = s->gid_map, .outlives = 1 };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	launch_find_binary("caisson-gofer", binary, sizeof(binary));
	/* The id maps are written through a /proc that counts as this process does. */
	if (null < 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		die(1, "mounts for the file server: %s", strerror(errno));
	launch_fd(&g, null, 0);
	launch_fd(&g, null, 1);
	launch_fd(&g, log, 2);
	launch_fd(&g, sock, GOFER_FD_SOCKET);
	launch_fd(&g, log, GOFER_FD_LOG);
	launch_one(&g);
	_exit(0);
}

/* The pid namespace of the sandbox's first container holds its file servers: they end with it, and
 * outlive single containers whose directories others still use. */
static void start_gofer(struct pod *p, const struct spec *s, int log, int sock)
{
	int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC), go[2], status = 0;
	struct cgroup_oci cg;
	char path[64], c;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)state_pid(&p->sandbox));
	int ns = open(path, O_RDONLY | O_CLOEXEC);

	if (own < 0 || ns < 0 || pipe2(go, O_CLOEXEC) != 0 || setns(ns, CLONE_NEWPID) != 0)
		die(1, "entering the sandbox of %s: %s", p->sandbox.id, strerror(errno));
	pid_t pid = fork();

	if (pid == 0) {
		die_cleanup(NULL);
		close(go[1]);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		gofer_starter(s, log, sock);
	}
	if (pid < 0 || setns(own, CLONE_NEWPID) != 0)
		die(1, "leaving the sandbox of %s: %s", p->sandbox.id, strerror(errno));
	cgroup_oci_from_json(&cg, spec_get(p->sandbox.json, "cgroups"));
	cgroup_oci_add(&cg, pid);
	if (write(go[1], "g", 1) != 1 || waitpid(pid, &status, 0) != pid || status)
		die(1, "the container's file server could not be started in the sandbox of %s", p->sandbox.id);
	close(go[0]);
	close(go[1]);
	close(own);
	close(ns);
}

void pod_enter(struct pod *p, const struct spec *s, int log)
{
	int pair[2];

	p->conn = client_connect(p->sandbox.dir);
	if (p->conn < 0)
		die(1, "the sandbox of %s can not be reached: %s", p->sandbox.id, strerror(-p->conn));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		die(1, "socketpair: %s", strerror(errno));
	start_gofer(p, s, log, pair[1]);
	close(pair[1]);
	p->gofer = pair[0];
}

int pod_pid_begin(const struct pod *p)
{
	int own;

	if (p->ns[SPEC_NS_PID] < 0)
		return -1;
	own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	if (own < 0 || setns(p->ns[SPEC_NS_PID], CLONE_NEWPID) != 0)
		die(1, "entering the pid namespace of %s: %s", p->join[SPEC_NS_PID], strerror(errno));
	return own;
}

void pod_pid_end(int own)
{
	if (own < 0)
		return;
	if (setns(own, CLONE_NEWPID) != 0)
		die(1, "leaving a pid namespace: %s", strerror(errno));
	close(own);
}
