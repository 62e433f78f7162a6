/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making of processes from a configuration: credentials, limits, stdio, working directory and
 * program, the latter two looked up in the guest's tree. The words of failures are those that
 * container engines look for.
 */
#include "sentry/spawn.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "sentry/container.h"
#include "sentry/ipc/ipc.h"
#include "sentry/seccomp/seccomp.h"
#include "sentry/spawn_conf.h"
#include "sentry/task/task_priv.h"
#include "vfs/hostfd/hostfd.h"

/* The console becomes the new session's terminal; weak: the tty hooks file has it. */
void tty_adopt_console(struct task *t) __attribute__((weak));

int spawn_fail(struct spawn *s, int code, const char *fmt, ...)
{
	va_list ap;

	s->code = code;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	return -1;
}

/* strerror, as the engines' own language words it. */
static const char *lower_error(int err, char *buf, size_t size)
{
	snprintf(buf, size, "%s", strerror(-err));
	buf[0] = (char)tolower((unsigned char)buf[0]);
	return buf;
}

static int make_cwd(struct task *t, const char *cwd)
{
	const struct cred *root = cred_new(0, 0, CAP_ALL_MASK);
	struct vfs_ctx ctx;
	int err;

	if (!root)
		return -ENOMEM;
	task_vfs_ctx(t, &ctx);
	const struct cred *own = ctx.cred;

	ctx.cred = root;
	err = boot_make_target(&ctx, cwd, 1);
	ctx.cred = own;
	task_vfs_ctx_put(&ctx);
	cred_put(root);
	return err;
}

static int set_cwd(struct spawn *s, struct task *t)
{
	const char *cwd = bootconf_get(s->conf, "cwd");
	struct vfs_ctx ctx;
	struct path at;
	char text[128];
	int err, made = 0;

	if (!cwd || !strcmp(cwd, "/"))
		return 0;
	for (;;) {
		task_vfs_ctx(t, &ctx);
		err = vfs_lookup(&ctx, NULL, cwd, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &at);
		if (!err) {
			err = vfs_path_permission(at, MAY_EXEC, task_cred(t));
			if (err)
				path_put(at);
		}
		task_vfs_ctx_put(&ctx);
		/* Container engines expect it to be made. */
		if (err != -ENOENT || made++ || !bootconf_get(s->conf, "make_cwd") ||
		    make_cwd(t, cwd) != 0)
			break;
	}
	if (err)
		return spawn_fail(s, err == -EACCES ? BOOT_EXIT_NOT_EXECUTABLE : BOOT_EXIT_NOT_FOUND,
				  "working directory %s: chdir to cwd failed: %s", cwd,
				  lower_error(err, text, sizeof(text)));
	path_put(t->fs->cwd);
	t->fs->cwd = at;
	return 0;
}

static int init_fs(struct spawn *s, struct task *t)
{
	struct mount *root = mnt_ns_root(s->c->mnt_ns);
	struct path p = { .mnt = root, .dentry = root->root };
	uint64_t mask;

	if (spawn_u64(s, "umask", 022, 0777, &mask)) {
		mount_put(root);
		return -1;
	}
	t->fs = fs_new(p, p, s->c->mnt_ns, (uint32_t)mask);
	mount_put(root);
	return t->fs ? 0 : spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
}

/* A container's tree, if nothing has been started there yet: /proc shows what t is allowed to see. */
static int make_tree(struct spawn *s, struct task *t)
{
	struct task *before = current;
	int err = 0;

	if (s->c->mnt_ns)
		return 0;
	current = t;
	err = boot_mounts(s->c);
	current = before;
	return err ? spawn_fail(s, s->c->code, "%s", s->c->why) : 0;
}

struct task *spawn_task(struct spawn *s)
{
	struct kernel *k = s->k;
	struct thread_group *tg = tg_new(k);
	struct task *t = tg ? task_new(k, tg) : NULL;
	uint64_t nnp;

	if (tg)
		tg_put(tg);
	if (!t) {
		spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
		return NULL;
	}
	tg->container = container_get(s->c);
	t->pid_ns = pid_ns_get(s->c->pid_ns);
	t->sighand = sighand_new();
	t->files = fdtable_new();
	t->uts = uts_get(s->c->uts);
	t->ipc = ipc_ns_get(s->c->ipc);
	t->cred = spawn_cred(s);
	for (uint32_t cpu = 0; cpu < k->cpu_count; cpu++)
		t->cpu_affinity[cpu / 64] |= 1ull << (cpu % 64);
	if (timers_group_init)
		timers_group_init(tg);
	if (!t->sighand || !t->files)
		spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
	else if (t->cred && !spawn_u64(s, "no_new_privs", 0, 1, &nnp) && !spawn_rlimits(s, tg) &&
		 !spawn_inherited(s, t) && !make_tree(s, t) && !init_fs(s, t)) {
		t->no_new_privs = nnp != 0;
		if (!spawn_seccomp(s, t))
			return t;
	}
	task_put(t);
	return NULL;
}

static int install_at(struct spawn *s, struct task *t, struct file *f, int fd)
{
	char text[128];

	if (IS_ERR(f))
		return spawn_fail(s, BOOT_EXIT_SETUP, "fd %d for the program: %s", fd,
				  lower_error((int)PTR_ERR(f), text, sizeof(text)));
	if (fd_install(t, f, fd, 0) != fd)
		return spawn_fail(s, BOOT_EXIT_SETUP, "fd %d for the program can not be set up", fd);
	return 0;
}

static int init_stdio(struct spawn *s, struct task *t)
{
	uint64_t tty, rows, cols;
	struct file *slave;
	struct vfs_ctx ctx;
	int err = 0;

	if (spawn_u64(s, "tty", 0, 1, &tty) || spawn_u64(s, "tty_rows", 24, UINT16_MAX, &rows) ||
	    spawn_u64(s, "tty_cols", 80, UINT16_MAX, &cols))
		return -1;
	if (!tty) {
		for (int fd = 0; fd < 3 && !err; fd++) {
			int host = s->stdio[fd];

			s->stdio[fd] = -1;
			if (host >= 0)
				err = install_at(s, t, hostfd_file_new(s->k->vfs, task_cred(t), host), fd);
		}
		return err;
	}
	task_vfs_ctx(t, &ctx);
	err = console_open(s->k, &ctx, s->stdio[0], s->stdio[1], (uint16_t)rows, (uint16_t)cols, &slave,
			   &s->console);
	task_vfs_ctx_put(&ctx);
	s->stdio[0] = s->stdio[1] = -1;
	if (err)
		return spawn_fail(s, BOOT_EXIT_SETUP, "no console: %s", strerror(-err));
	for (int fd = 0; fd < 3 && !err; fd++)
		err = install_at(s, t, fd ? file_get(slave) : slave, fd);
	return err;
}

static int link_task(struct spawn *s, struct task *t, int init)
{
	struct kernel *k = s->k;
	struct thread_group *tg = t->tg;
	const char *mode = bootconf_get(s->conf, "init_signals");
	struct pid *pid;

	lock_acquire(&k->tasks_lock);
	/* A namespace that had an init and lost it takes no more. */
	pid = s->c->ending || (t->pid_ns->table_used && !t->pid_ns->reaper) ? ERR_PTR(-ENOMEM)
									    : pid_alloc(t->pid_ns, NULL, 0);
	if (IS_ERR(pid)) {
		lock_release(&k->tasks_lock);
		return spawn_fail(s, BOOT_EXIT_SETUP, "no process id is free");
	}
	t->pid = pid;
	tg->pid = pid_get(pid);
	pid->tg = tg;
	tg->leader = t;
	tg_get(tg);
	list_add_tail(&tg->node, &k->groups);
	if (init && !t->pid_ns->reaper) {
		tg->group_flags |= TG_INIT;
		/* `caisson run` starts programs that were not written to be an init. */
		if (mode && !strcmp(mode, "plain"))
			tg->group_flags |= TG_INIT_MORTAL;
		t->pid_ns->reaper = tg;
	}
	if (init) {
		s->c->init = tg;
		if (s->c == k->main)
			k->init = tg;
	}
	tg->session_leader = 1;
	tg_join_session(tg, pid_get(pid));
	tg_join_pgrp(tg, pid_get(pid));
	task_get(t);
	task_link(t);
	lock_release(&k->tasks_lock);
	return 0;
}

int spawn_link(struct spawn *s, struct task *t, int init)
{
	struct task *before = current;
	int err;

	err = link_task(s, t, init);
	if (err)
		return err;
	current = t;
	err = set_cwd(s, t);
	if (!err)
		err = init_stdio(s, t);
	current = before;
	return err;
}

/* ---- the program ---- */

struct program {
	char **argv, **envp;
	size_t argc, envc;
};

static char **conf_list(const struct bootconf *conf, const char *key, size_t *count)
{
	size_t pos = 0, n = 0;
	const char *v;
	char **list;

	while (bootconf_next(conf, key, &pos))
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (pos = 0, n = 0; (v = bootconf_next(conf, key, &pos));)
		list[n++] = (char *)v;
	*count = n;
	return list;
}

static const char *env_path(const struct bootconf *conf)
{
	size_t pos = 0;
	const char *v;

	while ((v = bootconf_next(conf, "env", &pos)))
		if (!strncmp(v, "PATH=", 5))
			return v + 5;
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* Looks without running: 0 when `path` could be executed as far as its mode goes. */
static int probe(struct task *t, const char *path)
{
	struct vfs_ctx ctx;
	struct file *f;

	task_vfs_ctx(t, &ctx);
	f = vfs_open_exec(&ctx, NULL, path, LOOKUP_FOLLOW);
	task_vfs_ctx_put(&ctx);
	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	file_put(f);
	return 0;
}

static int try_program(struct task *t, const struct program *p, const char *path)
{
	if (!p)
		return probe(t, path);
	struct exec_args a = { .path = path, .argv = p->argv, .argc = p->argc, .envp = p->envp,
			       .envc = p->envc };

	return task_exec(t, &a);
}

/* As execvp: the first that exists and may be run; EACCES is remembered. */
static int by_path(struct spawn *s, struct task *t, const struct program *p, const char *name)
{
	const char *path = env_path(s->conf);
	int denied = 0;

	while (*path) {
		size_t n = strcspn(path, ":");
		char full[PATH_MAX];

		if (n + strlen(name) + 3 <= sizeof(full)) {
			snprintf(full, sizeof(full), "%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
			int err = try_program(t, p, full);

			if (err == -EACCES)
				denied = 1;
			else if (err != -ENOENT && err != -ENOTDIR)
				return err;
		}
		path += n + (path[n] == ':');
	}
	return denied ? -EACCES : -ENOENT;
}

static int explain(struct spawn *s, const char *exe, int err)
{
	char text[128];

	if (err == -ENOENT && !strchr(exe, '/'))
		return spawn_fail(s, BOOT_EXIT_NOT_FOUND,
				  "exec: \"%s\": executable file not found in $PATH", exe);
	if (err == -ENOENT || err == -ENOTDIR)
		return spawn_fail(s, BOOT_EXIT_NOT_FOUND,
				  "exec: \"%s\": stat %s: no such file or directory, or its interpreter "
				  "is missing", exe, exe);
	if (err == -ENOEXEC)
		return spawn_fail(s, BOOT_EXIT_NOT_EXECUTABLE, "exec: \"%s\": exec format error", exe);
	if (err == -ELIBBAD)
		return spawn_fail(s, BOOT_EXIT_NOT_EXECUTABLE, "exec: \"%s\": bad interpreter", exe);
	return spawn_fail(s, BOOT_EXIT_NOT_EXECUTABLE, "exec: \"%s\": %s", exe,
			  lower_error(err, text, sizeof(text)));
}

static const char *program_name(struct spawn *s)
{
	const char *exe = bootconf_get(s->conf, "exe");

	if (!exe)
		exe = bootconf_get(s->conf, "arg");
	return exe ? exe : "";
}

static int find_program(struct spawn *s, struct task *t, const struct program *p)
{
	const char *exe = program_name(s);
	int err;

	if (!*exe)
		return spawn_fail(s, BOOT_EXIT_NOT_FOUND, "exec: \"\": no such file or directory: no program given");
	err = strchr(exe, '/') ? try_program(t, p, exe) : by_path(s, t, p, exe);
	return err ? explain(s, exe, err) : 0;
}

int spawn_check(struct spawn *s, struct task *t)
{
	return find_program(s, t, NULL);
}

int spawn_exec(struct spawn *s, struct task *t)
{
	struct program p = { 0 };
	int err;

	if (s->console && tty_adopt_console)
		tty_adopt_console(t);
	p.argv = conf_list(s->conf, "arg", &p.argc);
	p.envp = conf_list(s->conf, "env", &p.envc);
	err = p.argv && p.envp ? find_program(s, t, &p)
			       : spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
	free(p.argv);
	free(p.envp);
	return err;
}
