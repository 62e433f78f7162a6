/* SPDX-License-Identifier: Apache-2.0 */
/* root and mounts: filesystems of the sandbox's own, and attach points of the gofer for binds. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/spec.h"

/* Options of mount(8) that are no filesystem's own. keep: the sandbox acts on it; else it has no
 * meaning for a mount inside (propagation ends at the sandbox; writes are never delayed there). */
static const struct {
	const char *name;
	int keep, bind;
} g_options[] = {
	{ "ro", 1, 0 },	      { "rw", 1, 0 },	    { "nosuid", 1, 0 },	   { "suid", 1, 0 },
	{ "nodev", 1, 0 },    { "dev", 1, 0 },	    { "noexec", 1, 0 },	   { "exec", 1, 0 },
	{ "noatime", 1, 0 },  { "nodiratime", 1, 0 }, { "relatime", 1, 0 }, { "strictatime", 1, 0 },
	{ "nosymfollow", 1, 0 }, { "defaults", 0, 0 }, { "bind", 0, 1 },   { "rbind", 0, 1 },
	{ "private", 0, 0 },  { "rprivate", 0, 0 }, { "shared", 0, 0 },	   { "rshared", 0, 0 },
	{ "slave", 0, 0 },    { "rslave", 0, 0 },   { "unbindable", 0, 0 }, { "runbindable", 0, 0 },
	{ "sync", 0, 0 },     { "async", 0, 0 },    { "dirsync", 0, 0 },   { "atime", 0, 0 },
	{ "diratime", 0, 0 }, { "norelatime", 0, 0 }, { "nostrictatime", 0, 0 }, { "symfollow", 0, 0 },
	{ "mand", 0, 0 },     { "nomand", 0, 0 },   { "silent", 0, 0 },	   { "loud", 0, 0 },
	{ "iversion", 0, 0 }, { "noiversion", 0, 0 }, { "lazytime", 0, 0 }, { "nolazytime", 0, 0 },
	{ "tmpcopyup", 0, 0 }, { "notmpcopyup", 0, 0 }, { "copyup", 0, 0 }, { "nocopyup", 0, 0 },
	{ "z", 0, 0 },	      { "Z", 0, 0 },
};

static const struct {
	const char *type, *inside;
	const char *options; /* names before '=' that the filesystem takes */
} g_types[] = {
	{ "proc", "proc", " hidepid subset gid " },
	{ "sysfs", "sysfs", " " },
	{ "tmpfs", "tmpfs", " size nr_blocks nr_inodes mode uid gid huge mpol inode64 inode32 noswap " },
	{ "devtmpfs", "devtmpfs", " size nr_inodes mode uid gid " },
	{ "devpts", "devpts", " newinstance ptmxmode mode gid uid max " },
	{ "mqueue", "mqueue", " " },
	{ "cgroup", "cgroup2", NULL }, /* anything: a v1 list of controllers, say */
	{ "cgroup2", "cgroup2", NULL },
};

struct mount_item {
	char at[64]; /* JSON path */
	const char *type, *source, *target;
	char options[1024]; /* for the sandbox */
	int bind, readonly, recursive_readonly;
};

static int append_option(struct mount_item *m, const char *o, struct spec_error *e)
{
	size_t have = strlen(m->options);

	if (have + strlen(o) + 2 > sizeof(m->options))
		return spec_fail(e, m->at, "options are too long");
	snprintf(m->options + have, sizeof(m->options) - have, "%s%s", have ? "," : "", o);
	return 0;
}

static int known_option(const char *o)
{
	for (size_t i = 0; i < sizeof(g_options) / sizeof(*g_options); i++)
		if (!strcmp(o, g_options[i].name))
			return (int)i;
	return -1;
}

static int take_options(struct mount_item *m, struct json_object *list, size_t n, struct spec_error *e)
{
	for (size_t i = 0; i < n; i++) {
		const char *o = spec_item(list, i);
		int k = known_option(o);

		if (k >= 0)
			m->bind |= g_options[k].bind;
	}
	if (m->type && !strcmp(m->type, "bind"))
		m->bind = 1;
	for (size_t i = 0; i < n; i++) {
		const char *o = spec_item(list, i), *allowed = NULL;
		char name[64];
		int k = known_option(o), found = 0;

		if (strpbrk(o, ",\t\n"))
			return spec_fail(e, m->at, "options[%zu] has a comma, tab or newline in it", i);
		if (!strcmp(o, "ro"))
			m->readonly = 1;
		if (!strcmp(o, "rw"))
			m->readonly = 0;
		if (k >= 0) {
			if (g_options[k].keep && append_option(m, o, e))
				return -1;
			continue;
		}
		snprintf(name, sizeof(name), " %.*s ", (int)(strcspn(o, "=") > 40 ? 40 : strcspn(o, "=")), o);
		for (size_t t = 0; !m->bind && m->type && t < sizeof(g_types) / sizeof(*g_types); t++)
			if (!strcmp(m->type, g_types[t].type)) {
				found = 1;
				allowed = g_types[t].options;
			}
		if (found && !allowed)
			continue;
		if (!allowed || !strstr(allowed, name))
			return spec_fail(e, m->at, "options[%zu]: '%s' is not supported", i, o);
		if (append_option(m, o, e))
			return -1;
	}
	return 0;
}

static int add_mount(struct spec *s, const char *type, const char *source, const char *target,
		     const char *options, struct spec_error *e)
{
	return bootconf_addf(&s->sentry, "mount", "%s\t%s\t%s\t%s", type, source, target, options)
		       ? spec_fail(e, target, "out of memory")
		       : 0;
}

static int add_attach(struct spec *s, const char *path, int readonly, const char *flags,
		      struct spec_error *e)
{
	if (s->attach_count > SPEC_BINDS_MAX)
		return spec_fail(e, "mounts", "more than %d binds", SPEC_BINDS_MAX);
	if (bootconf_addf(&s->gofer, "attach", "%u\t%s\t%s\t%s", s->attach_count, path,
			  readonly ? "ro" : "rw", flags))
		return spec_fail(e, path, "out of memory");
	s->attach_count++;
	s->any_writable |= !readonly;
	return 0;
}

/* A device of the host that the sandbox has too (null, zero, random …) may be bound. */
static int bind_device(struct spec *s, const struct mount_item *m, const struct stat *st,
		       struct spec_error *e)
{
	if (!S_ISCHR(st->st_mode) || (major(st->st_rdev) != 1 && major(st->st_rdev) != 5))
		return spec_fail(e, m->at, "source: '%s' is neither a file nor a directory; devices, "
				 "sockets and pipes of the host can not be bound", m->source);
	return bootconf_addf(&s->sentry, "device", "%s\tc\t%u\t%u\t%o", m->target, major(st->st_rdev),
			     minor(st->st_rdev), st->st_mode & 0777)
		       ? spec_fail(e, m->at, "out of memory")
		       : 0;
}

static int add_bind(struct spec *s, const struct mount_item *m, const char *bundle, struct spec_error *e)
{
	char joined[PATH_MAX], *full, id[16];
	struct stat st;
	int err;

	if (!m->source || !*m->source)
		return spec_fail(e, m->at, "source is missing");
	if ((size_t)snprintf(joined, sizeof(joined), "%s%s%s", m->source[0] == '/' ? "" : bundle,
			     m->source[0] == '/' ? "" : "/", m->source) >= sizeof(joined))
		return spec_fail(e, m->at, "source is too long");
	full = realpath(joined, NULL);
	if (!full || stat(full, &st) != 0) {
		err = spec_fail(e, m->at, "source: %s: %s", joined,
				errno == ENOENT ? "no such file or directory" : strerror(errno));
	} else if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
		err = bind_device(s, m, &st, e);
	} else if (strpbrk(full, "\t\n")) {
		err = spec_fail(e, m->at, "source: a tab or newline in a path is not supported");
	} else {
		snprintf(id, sizeof(id), "%u", s->attach_count);
		err = add_attach(s, full, m->readonly, S_ISDIR(st.st_mode) ? "" : "file", e);
		if (!err)
			err = add_mount(s, "gofer", id, m->target, m->options, e);
		/* Containers of one sandbox that have the same object share what the sentry knows of it. */
		if (!err && bootconf_addf(&s->sentry, "shared", "%s\t%llx:%llx", id, (unsigned long long)st.st_dev,
					  (unsigned long long)st.st_ino))
			err = spec_fail(e, m->at, "out of memory");
	}
	free(full);
	return err;
}

static int one_mount(struct spec *s, struct json_object *o, size_t i, const char *bundle,
		     struct spec_error *e)
{
	struct mount_item m = { 0 };
	struct json_object *list;
	char slash[PATH_MAX];
	size_t n;

	snprintf(m.at, sizeof(m.at), "mounts[%zu]", i);
	if (!json_object_is_type(o, json_type_object))
		return spec_fail(e, m.at, "must be a JSON object");
	if (spec_text(o, m.at, "type", &m.type, e) || spec_text(o, m.at, "source", &m.source, e) ||
	    spec_text(o, m.at, "destination", &m.target, e) ||
	    spec_strings(o, m.at, "options", &list, &n, e))
		return -1;
	if (spec_get(o, "uidMappings") || spec_get(o, "gidMappings"))
		return spec_fail(e, m.at, "id-mapped mounts are not supported");
	if (!m.target || !*m.target || strpbrk(m.target, "\t\n") || strlen(m.target) > PATH_MAX - 2)
		return spec_fail(e, m.at, "destination is missing, too long, or has a tab or newline in it");
	if (m.target[0] != '/') { /* old configurations; runc reads them so too */
		snprintf(slash, sizeof(slash), "/%s", m.target);
		m.target = slash;
	}
	if (take_options(&m, list, n, e))
		return -1;
	if (m.bind)
		return add_bind(s, &m, bundle, e);
	for (size_t t = 0; m.type && t < sizeof(g_types) / sizeof(*g_types); t++)
		if (!strcmp(m.type, g_types[t].type)) {
			/* /dev comes with its devices, whatever the engine plans to put there. */
			int dev = !strcmp(m.type, "tmpfs") &&
				  (!strcmp(m.target, "/dev") || !strcmp(m.target, "/dev/"));

			return add_mount(s, dev ? "devtmpfs" : g_types[t].inside, g_types[t].type, m.target,
					 m.options, e);
		}
	return spec_fail(e, m.at, "type: '%s' is not supported", m.type ? m.type : "");
}

static const char *destination(struct json_object *list, size_t i)
{
	struct json_object *d = spec_get(json_object_array_get_idx(list, i), "destination");

	return d && json_object_is_type(d, json_type_string) ? json_object_get_string(d) : "";
}

/* Is `path` below `dir`, by whole components? */
static int is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	return !strncmp(path, dir, n) && path[n] == '/';
}

/*
 * Does the root have every mount point that is its own? Then it can be served read-only altogether;
 * else the sandbox makes them, and closes it for writing itself.
 */
static int has_mount_points(const char *rootfs, struct json_object *list)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC), all = root >= 0;

	for (size_t i = 0; all && list && i < json_object_array_length(list); i++) {
		int covered = 0;

		for (size_t j = 0; j < i; j++)
			covered |= is_below(destination(list, i), destination(list, j));
		if (covered)
			continue;
		int fd = (int)syscall(SYS_openat2, root, destination(list, i), &how, sizeof(how));

		all = fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	if (root >= 0)
		close(root);
	return all;
}

static int add_root(struct spec *s, struct json_object *mounts, const char *bundle, struct spec_error *e)
{
	struct json_object *root;
	const char *path;
	char joined[PATH_MAX];
	struct stat st;

	if (spec_want(s->json, "", "root", json_type_object, &root, e))
		return -1;
	if (!root)
		return spec_fail(e, "root", "is missing");
	if (spec_text(root, "root", "path", &path, e) || spec_bool(root, "root", "readonly", &s->root_readonly, e))
		return -1;
	if (!path || !*path)
		return spec_fail(e, "root.path", "is missing");
	if ((size_t)snprintf(joined, sizeof(joined), "%s%s%s", path[0] == '/' ? "" : bundle,
			     path[0] == '/' ? "" : "/", path) >= sizeof(joined))
		return spec_fail(e, "root.path", "is too long");
	s->rootfs = realpath(joined, NULL);
	if (!s->rootfs || stat(s->rootfs, &st) != 0)
		return spec_fail(e, "root.path", "%s: %s", joined,
				 errno == ENOENT ? "no such file or directory" : strerror(errno));
	if (!S_ISDIR(st.st_mode) || strpbrk(s->rootfs, "\t\n"))
		return spec_fail(e, "root.path", "%s is not a directory, or has a tab or newline in it", joined);
	if (add_attach(s, s->rootfs, s->overlay || (s->root_readonly && has_mount_points(s->rootfs, mounts)), s->overlay ? "exclusive" : "", e))
		return -1;
	return add_mount(s, s->overlay ? "overlay" : "gofer", "0", "/", s->root_readonly ? "ro" : "rw", e);
}

int spec_mounts(struct spec *s, const char *bundle, struct spec_error *e)
{
	struct json_object *list;

	if (spec_want(s->json, "", "mounts", json_type_array, &list, e))
		return -1;
	if (list && json_object_array_length(list) > SPEC_MOUNTS_MAX)
		return spec_fail(e, "mounts", "more than %d", SPEC_MOUNTS_MAX);
	if (add_root(s, list, bundle, e))
		return -1;
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (one_mount(s, json_object_array_get_idx(list, i), i, bundle, e))
			return -1;
	return 0;
}
