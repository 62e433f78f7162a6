/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of view.h, put together from detached mounts; guest-made names are resolved inside it. */
#include "runtime/view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RESOLVE_IN_ROOT
#define RESOLVE_IN_ROOT 0x10
#endif

struct view {
	int root;
	size_t count;
	struct view_bind {
		int tree;
		char *target;
	} binds[SPEC_BINDS_MAX + 1];
};

static int clone_tree(const char *path)
{
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	struct mount_attr a = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

	if (fd >= 0)
		syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a));
	return fd;
}

/* The source of an attach line: ID<TAB>PATH<TAB>… */
static char *attach_path(const struct spec *s, unsigned long id)
{
	const char *line;
	size_t pos = 0;

	while ((line = bootconf_next(&s->gofer, "attach", &pos))) {
		char *tab;

		if (strtoul(line, &tab, 10) == id && *tab == '\t')
			return strndup(tab + 1, strcspn(tab + 1, "\t"));
	}
	return NULL;
}

static void add_bind(struct view *v, const struct spec *s, const char *line)
{
	char *end, *path;
	unsigned long id = strtoul(line + strlen("gofer\t"), &end, 10);

	if (*end != '\t' || !id || v->count == SPEC_BINDS_MAX)
		return;
	path = attach_path(s, id);
	if (!path)
		return;
	struct view_bind *b = &v->binds[v->count];

	b->tree = clone_tree(path);
	b->target = strndup(end + 1, strcspn(end + 1, "\t"));
	if (b->tree >= 0 && b->target)
		v->count++;
	free(path);
}

struct view *view_prepare(const struct spec *s)
{
	struct view *v = calloc(1, sizeof(*v));
	const char *line;
	size_t pos = 0;

	if (!v)
		return NULL;
	v->root = clone_tree(s->rootfs);
	while ((line = bootconf_next(&s->sentry, "mount", &pos)))
		if (!strncmp(line, "gofer\t", 6))
			add_bind(v, s, line);
	return v;
}

static void place(const struct view_bind *b, int root)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	int at = (int)syscall(SYS_openat2, root, b->target, &how, sizeof(how));

	if (at >= 0) {
		syscall(SYS_move_mount, b->tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
		close(at);
	}
	close(b->tree);
}

/* The processes of the sandbox as the host has them: waiter, gofer, sentry, stubs. */
static int make_proc(void)
{
	int ctx = (int)syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC), fd = -1;

	if (ctx < 0)
		return -1;
	if (syscall(SYS_fsconfig, ctx, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(SYS_fsmount, ctx, FSMOUNT_CLOEXEC,
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
	close(ctx);
	return fd;
}

static int become_root(int fd)
{
	return fchdir(fd) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 ||
	       chdir("/") != 0;
}

void view_enter(struct view *v)
{
	if (v && v->root >= 0 &&
	    syscall(SYS_move_mount, v->root, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) == 0) {
		for (size_t i = 0; i < v->count; i++)
			place(&v->binds[i], v->root);
		struct view_bind proc = { .tree = make_proc(), .target = (char[]){ "/proc" } };

		if (proc.tree >= 0)
			place(&proc, v->root);
		if (become_root(v->root) == 0)
			goto out;
	}
	if (mount("empty", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2") == 0) {
		int fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

		become_root(fd);
	}
out:
	if (chdir("/") != 0)
		_exit(1);
	if (v)
		for (size_t i = 0; i < v->count; i++)
			free(v->binds[i].target);
	free(v);
}
