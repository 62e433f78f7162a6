/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first task: credentials, limits, stdio and working directory from the boot configuration, and
 * its program, looked up in the guest's tree by the guest's PATH.
 */
#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/boot.h"
#include "sentry/ipc/ipc.h"
#include "sentry/task/task_priv.h"
#include "vfs/hostfd/hostfd.h"

static uint64_t conf_u64(struct kernel *k, const char *key, uint64_t dflt, uint64_t max)
{
	uint64_t v;

	if (bootconf_get_u64(k->conf, key, dflt, &v) || v > max)
		boot_fail(k, BOOT_EXIT_SETUP, "configuration: %s=%s is out of range", key,
			  bootconf_get(k->conf, key));
	return v;
}

static const struct {
	const char *name;
	int which;
} g_rlimit_names[] = {
	{ "AS", RLIMIT_AS },	     { "CORE", RLIMIT_CORE },	  { "CPU", RLIMIT_CPU },
	{ "DATA", RLIMIT_DATA },     { "FSIZE", RLIMIT_FSIZE },	  { "LOCKS", RLIMIT_LOCKS },
	{ "MEMLOCK", RLIMIT_MEMLOCK }, { "MSGQUEUE", RLIMIT_MSGQUEUE }, { "NICE", RLIMIT_NICE },
	{ "NOFILE", RLIMIT_NOFILE }, { "NPROC", RLIMIT_NPROC },	  { "RSS", RLIMIT_RSS },
	{ "RTPRIO", RLIMIT_RTPRIO }, { "RTTIME", RLIMIT_RTTIME }, { "SIGPENDING", RLIMIT_SIGPENDING },
	{ "STACK", RLIMIT_STACK },
};

static int parse_limit(const char **p, uint64_t *v)
{
	char *end;

	if (!strncmp(*p, "unlimited", 9) || !strncmp(*p, "-1", 2)) {
		*p += **p == 'u' ? 9 : 2;
		*v = RLIM_INFINITY;
		return 0;
	}
	if (**p < '0' || **p > '9')
		return -EINVAL;
	errno = 0;
	*v = strtoull(*p, &end, 10);
	*p = end;
	return errno ? -EINVAL : 0;
}

/* NAME:soft:hard, the name with or without RLIMIT_. */
static int set_rlimit(struct rlimit *r, const char *s)
{
	uint64_t soft, hard;
	size_t n;

	if (!strncmp(s, "RLIMIT_", 7))
		s += 7;
	n = strcspn(s, ":");
	for (size_t i = 0; i < sizeof(g_rlimit_names) / sizeof(*g_rlimit_names); i++) {
		if (strlen(g_rlimit_names[i].name) != n || strncmp(g_rlimit_names[i].name, s, n))
			continue;
		s += n + (s[n] == ':');
		if (parse_limit(&s, &soft) || *s++ != ':' || parse_limit(&s, &hard) || *s ||
		    soft > hard)
			return -EINVAL;
		r[g_rlimit_names[i].which].rlim_cur = soft;
		r[g_rlimit_names[i].which].rlim_max = hard;
		return 0;
	}
	return -EINVAL;
}

static void init_rlimits(struct kernel *k, struct thread_group *tg)
{
	const char *v;
	size_t pos = 0;

	rlimits_default(tg->rlimits);
	while ((v = bootconf_next(k->conf, "rlimit", &pos)))
		if (set_rlimit(tg->rlimits, v))
			boot_fail(k, BOOT_EXIT_SETUP, "configuration: bad rlimit %s", v);
}

/* Comma-separated group ids. */
static void init_groups(struct kernel *k, struct cred *c)
{
	const char *s = bootconf_get(k->conf, "groups");
	uint32_t *g;
	size_t n = 0;

	if (!s || !*s)
		return;
	g = malloc((strlen(s) / 2 + 1) * sizeof(*g));
	if (!g)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	for (;;) {
		char *end;
		unsigned long v = *s >= '0' && *s <= '9' ? strtoul(s, &end, 10) : ULONG_MAX;

		if (v >= UINT32_MAX || (*end && *end != ','))
			boot_fail(k, BOOT_EXIT_SETUP, "configuration: bad groups");
		g[n++] = (uint32_t)v;
		if (!*end)
			break;
		s = end + 1;
	}
	if (cred_set_groups(c, g, n))
		boot_fail(k, BOOT_EXIT_SETUP, "configuration: too many groups");
	free(g);
}

static struct cred *init_cred(struct kernel *k)
{
	uint32_t uid = (uint32_t)conf_u64(k, "uid", 0, UINT32_MAX - 1);
	uint32_t gid = (uint32_t)conf_u64(k, "gid", 0, UINT32_MAX - 1);
	uint64_t caps = conf_u64(k, "caps", CAP_ALL_MASK, UINT64_MAX) & CAP_ALL_MASK;
	struct cred *c = cred_new(uid, gid, caps);

	if (!c)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	/* As after an exec by that user: only root has the set in effect. */
	if (uid) {
		c->cap_permitted = c->cap_effective = 0;
		if (bootconf_get(k->conf, "ambient_caps")) {
			uint64_t amb = conf_u64(k, "ambient_caps", 0, UINT64_MAX) & caps;

			c->cap_ambient = c->cap_inheritable = amb;
			c->cap_permitted = c->cap_effective = amb;
		}
	}
	init_groups(k, c);
	return c;
}

static void init_fs(struct kernel *k, struct task *t)
{
	const char *cwd = bootconf_get(k->conf, "cwd");
	struct mount *root = mnt_ns_root(k->init_mnt_ns);
	struct path p = { .mnt = root, .dentry = root->root }, at;
	struct vfs_ctx ctx;
	int err;

	t->fs = fs_new(p, p, k->init_mnt_ns, (uint32_t)conf_u64(k, "umask", 022, 0777));
	mount_put(root);
	if (!t->fs)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	if (!cwd || !strcmp(cwd, "/"))
		return;
	task_vfs_ctx(t, &ctx);
	err = vfs_lookup(&ctx, NULL, cwd, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &at);
	if (!err)
		err = vfs_path_permission(at, MAY_EXEC, task_cred(t));
	task_vfs_ctx_put(&ctx);
	if (err)
		boot_fail(k, err == -EACCES ? BOOT_EXIT_NOT_EXECUTABLE : BOOT_EXIT_NOT_FOUND,
			  "working directory %s: %s", cwd, strerror(-err));
	path_put(t->fs->cwd);
	t->fs->cwd = at;
}

static void install_at(struct kernel *k, struct task *t, struct file *f, int fd)
{
	if (IS_ERR(f))
		boot_fail(k, BOOT_EXIT_SETUP, "fd %d for the program: %s", fd,
			  strerror((int)-PTR_ERR(f)));
	int got = fd_install(t, f, fd, 0);

	if (got != fd)
		boot_fail(k, BOOT_EXIT_SETUP, "fd %d for the program can not be set up", fd);
}

static int conf_fd(struct kernel *k, const char *key)
{
	return (int)(int64_t)conf_u64(k, key, UINT64_MAX, UINT64_MAX);
}

static void init_stdio(struct kernel *k, struct task *t)
{
	static const char *const keys[3] = { "stdin_fd", "stdout_fd", "stderr_fd" };
	int in = conf_fd(k, keys[0]), out = conf_fd(k, keys[1]), err;
	struct file *slave;
	struct vfs_ctx ctx;

	if (conf_u64(k, "tty", 0, 1)) {
		task_vfs_ctx(t, &ctx);
		err = boot_console(k, &ctx, in, out, (uint16_t)conf_u64(k, "tty_rows", 24, UINT16_MAX),
				    (uint16_t)conf_u64(k, "tty_cols", 80, UINT16_MAX), &slave);
		task_vfs_ctx_put(&ctx);
		if (err)
			boot_fail(k, BOOT_EXIT_SETUP, "no console: %s", strerror(-err));
		for (int fd = 0; fd < 3; fd++)
			install_at(k, t, fd ? file_get(slave) : slave, fd);
		return;
	}
	for (int fd = 0; fd < 3; fd++) {
		int host = conf_fd(k, keys[fd]);

		if (host >= 0)
			install_at(k, t, hostfd_file_new(k->vfs, task_cred(t), host), fd);
	}
}

static int conf_is(const struct bootconf *conf, const char *key, const char *value)
{
	const char *v = bootconf_get(conf, key);

	return v && !strcmp(v, value);
}

static void link_init(struct kernel *k, struct task *t)
{
	struct thread_group *tg = t->tg;
	struct pid *pid;

	lock_acquire(&k->tasks_lock);
	pid = pid_alloc(k->init_pid_ns, NULL, 0);
	if (IS_ERR(pid))
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	t->pid = pid;
	tg->pid = pid_get(pid);
	pid->tg = tg;
	tg->leader = t;
	list_add_tail(&tg->node, &k->groups);
	tg_get(tg);
	tg->group_flags |= TG_INIT;
	/* `caisson run` starts programs that were not written to be an init. */
	if (conf_is(k->conf, "init_signals", "plain"))
		tg->group_flags |= TG_INIT_MORTAL;
	k->init_pid_ns->reaper = tg;
	k->init = tg;
	tg->session_leader = 1;
	tg_join_session(tg, pid_get(pid));
	tg_join_pgrp(tg, pid_get(pid));
	task_get(t);
	task_link(t);
	lock_release(&k->tasks_lock);
}

/* The console becomes init's terminal; weak: the tty hooks file has it. */
void tty_adopt_console(struct task *t) __attribute__((weak));

struct task *boot_init_task(struct kernel *k)
{
	struct thread_group *tg = tg_new(k);
	struct task *t = tg ? task_new(k, tg) : NULL;

	if (!t)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	t->pid_ns = pid_ns_get(k->init_pid_ns);
	t->cred = init_cred(k);
	t->sighand = sighand_new();
	t->files = fdtable_new();
	t->uts = uts_get(k->init_uts_ns);
	t->ipc = ipc_ns_get(k->init_ipc_ns);
	t->no_new_privs = conf_u64(k, "no_new_privs", 0, 1) != 0;
	if (!t->sighand || !t->files)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	for (uint32_t cpu = 0; cpu < k->cpu_count; cpu++)
		t->cpu_affinity[cpu / 64] |= 1ull << (cpu % 64);
	init_rlimits(k, tg);
	if (timers_group_init)
		timers_group_init(tg);
	link_init(k, t);
	current = t;
	init_fs(k, t);
	init_stdio(k, t);
	current = NULL;
	tg_put(tg);
	return t;
}

/* ---- the program ---- */

struct program {
	char **argv, **envp;
	size_t argc, envc;
};

static char **conf_list(struct kernel *k, const char *key, size_t *count)
{
	size_t pos = 0, n = 0;
	const char *v;
	char **list;

	while (bootconf_next(k->conf, key, &pos))
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		boot_fail(k, BOOT_EXIT_SETUP, "out of memory");
	for (pos = 0, n = 0; (v = bootconf_next(k->conf, key, &pos));)
		list[n++] = (char *)v;
	*count = n;
	return list;
}

static const char *env_path(const struct program *p)
{
	for (size_t i = 0; i < p->envc; i++)
		if (!strncmp(p->envp[i], "PATH=", 5))
			return p->envp[i] + 5;
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

static int try_exec(struct task *t, const struct program *p, const char *path)
{
	struct exec_args a = { .path = path, .argv = p->argv, .argc = p->argc, .envp = p->envp,
			       .envc = p->envc };

	return task_exec(t, &a);
}

/* As execvp: the first that exists and may be run; EACCES is remembered. */
static int exec_by_path(struct task *t, const struct program *p, const char *name)
{
	const char *path = env_path(p);
	int denied = 0;

	while (*path) {
		size_t n = strcspn(path, ":");
		char full[PATH_MAX];
		int err;

		if (n + strlen(name) + 2 <= sizeof(full)) {
			snprintf(full, sizeof(full), "%.*s/%s", (int)n, n ? path : ".", name);
			if (!n)
				snprintf(full, sizeof(full), "./%s", name);
			err = try_exec(t, p, full);
			if (err == -EACCES)
				denied = 1;
			else if (err != -ENOENT && err != -ENOTDIR)
				return err;
		}
		path += n + (path[n] == ':');
	}
	return denied ? -EACCES : -ENOENT;
}

static const char *exec_error_text(int err)
{
	switch (err) {
	case -ENOENT:
		return "no such file, or its interpreter is missing";
	case -ENOEXEC:
		return "exec format error";
	case -EACCES:
		return "permission denied";
	case -ELIBBAD:
		return "bad interpreter";
	}
	return strerror(-err);
}

void *boot_init_main(void *arg)
{
	struct task *t = arg;
	struct kernel *k = t->k;
	struct program p;
	const char *exe;
	int err;

	current = t;
	if (tty_adopt_console)
		tty_adopt_console(t);
	p.argv = conf_list(k, "arg", &p.argc);
	p.envp = conf_list(k, "env", &p.envc);
	exe = bootconf_get(k->conf, "exe");
	if (!exe)
		exe = p.argc ? p.argv[0] : "";
	if (!*exe)
		boot_fail(k, BOOT_EXIT_NOT_FOUND, "no program given");
	err = strchr(exe, '/') ? try_exec(t, &p, exe) : exec_by_path(t, &p, exe);
	if (err == -ENOENT || err == -ENOTDIR)
		boot_fail(k, BOOT_EXIT_NOT_FOUND,
			  strchr(exe, '/') ? "%s: %s" : "%s: not found in PATH (%s)", exe,
			  exec_error_text(-ENOENT));
	if (err)
		boot_fail(k, BOOT_EXIT_NOT_EXECUTABLE, "%s: %s", exe, exec_error_text(err));
	free(p.argv);
	free(p.envp);
	return task_main(t);
}
