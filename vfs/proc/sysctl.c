/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/sys: one table of settings (sysctl_table.h) from which both the directories and the
 * values come. A setting is kept here unless the sentry (or, for net, its socket layer) knows it
 * and acts on it; in either case kind, range and syntax are checked here first.
 */
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/random.h>

#include "vfs/proc/proc_priv.h"

#define SYSCTL_VALUES 4
#define SYSCTL_TEXT 128

enum sysctl_kind {
	KIND_NUM,  /* count signed decimal numbers between min and max */
	KIND_UNUM, /* the same, unsigned 64 bit: max is ignored */
	KIND_TEXT, /* one line */
};

struct sysctl_def {
	const char *name; /* "kernel.pid_max" */
	uint16_t perm;
	uint8_t kind, count;
	int64_t min, max;
	int64_t init[SYSCTL_VALUES];
	const char *text; /* KIND_TEXT: initial value */
};

static const struct sysctl_def g_defs[] = {
#include "vfs/proc/sysctl_table.h"
};
#define SYSCTL_COUNT (sizeof(g_defs) / sizeof(g_defs[0]))

/* The values proc keeps. One set per sandbox, as the settings are the machine's. */
static struct {
	pthread_mutex_t lock; /* a leaf: nothing is taken inside */
	uint8_t changed[SYSCTL_COUNT];
	int64_t val[SYSCTL_COUNT][SYSCTL_VALUES];
	char *text[SYSCTL_COUNT];
} g_kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void kept_get(size_t id, int64_t val[SYSCTL_VALUES])
{
	pthread_mutex_lock(&g_kept.lock);
	memcpy(val, g_kept.changed[id] ? g_kept.val[id] : g_defs[id].init,
	       sizeof(g_defs[id].init));
	pthread_mutex_unlock(&g_kept.lock);
}

static void kept_set(size_t id, const int64_t val[SYSCTL_VALUES])
{
	pthread_mutex_lock(&g_kept.lock);
	memcpy(g_kept.val[id], val, sizeof(g_defs[id].init));
	g_kept.changed[id] = 1;
	pthread_mutex_unlock(&g_kept.lock);
}

static void kept_text(size_t id, char out[SYSCTL_TEXT])
{
	pthread_mutex_lock(&g_kept.lock);
	snprintf(out, SYSCTL_TEXT, "%s", g_kept.text[id] ? g_kept.text[id] : g_defs[id].text);
	pthread_mutex_unlock(&g_kept.lock);
}

static int is_net(const struct sysctl_def *def)
{
	return !strncmp(def->name, "net.", 4);
}

/* From whoever acts on it, else from here. ps may be NULL (boot). */
static void value_get(const struct proc_source *ps, size_t id, int64_t val[SYSCTL_VALUES])
{
	const struct sysctl_def *def = &g_defs[id];
	const struct proc_net_source *ns = proc_net();

	kept_get(id, val);
	if (is_net(def)) {
		if (ns && ns->sysctl_get)
			ns->sysctl_get(ns, def->name, val, def->count);
	} else if (ps && ps->sysctl_get) {
		ps->sysctl_get(ps, def->name, val, def->count);
	}
}

static int value_set(const struct proc_source *ps, size_t id,
		     const int64_t val[SYSCTL_VALUES])
{
	const struct sysctl_def *def = &g_defs[id];
	const struct proc_net_source *ns = proc_net();
	int r = -ENOENT;

	if (is_net(def)) {
		if (ns && ns->sysctl_set)
			r = ns->sysctl_set(ns, def->name, val, def->count);
	} else if (ps && ps->sysctl_set) {
		r = ps->sysctl_set(ps, def->name, val, def->count);
	}
	if (r && r != -ENOENT)
		return r;
	kept_set(id, val);
	return 0;
}

static int sysctl_show(const struct pseudo_req *rq, struct strbuf *out)
{
	size_t id = rq->inst->key[0];
	const struct sysctl_def *def = &g_defs[id];

	if (def->kind == KIND_TEXT) {
		char text[SYSCTL_TEXT];

		kept_text(id, text);
		strbuf_printf(out, "%s\n", text);
		return 0;
	}
	int64_t val[SYSCTL_VALUES] = { 0 };

	value_get(proc_ps(rq), id, val);
	for (int i = 0; i < def->count; i++)
		strbuf_printf(out, def->kind == KIND_UNUM ? "%s%llu" : "%s%lld", i ? "\t" : "",
			      (unsigned long long)val[i]);
	strbuf_putc(out, '\n');
	return 0;
}

/* One number; *p moves past it. As proc_get_long: decimal, or any base that is marked. */
static int parse_one(const char **p, enum sysctl_kind kind, int64_t *out)
{
	const char *s = *p;
	char *end;
	int neg = 0;

	while (*s == ' ' || *s == '\t' || *s == '\n')
		s++;
	if (*s == '-' && kind == KIND_NUM) {
		neg = 1;
		s++;
	}
	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long v = strtoull(s, &end, 0);

	if (errno || (*end && !strchr(" \t\n", *end)) ||
	    (kind == KIND_NUM && v > (unsigned long long)INT64_MAX))
		return -EINVAL;
	*out = neg ? -(int64_t)v : (int64_t)v;
	*p = end;
	return 0;
}

static int parse_values(const struct sysctl_def *def, const char *buf, int64_t val[SYSCTL_VALUES])
{
	int n = 0;

	/* Fewer numbers than there are leave the others as they are. */
	for (; n < def->count; n++) {
		const char *rest = buf + strspn(buf, " \t\n");

		if (!*rest)
			break;
		int r = parse_one(&buf, (enum sysctl_kind)def->kind, &val[n]);

		if (r)
			return r;
		if (def->kind == KIND_NUM && (val[n] < def->min || val[n] > def->max))
			return -EINVAL;
	}
	return n && !buf[strspn(buf, " \t\n")] ? 0 : -EINVAL;
}

static int text_set(size_t id, const char *buf, size_t len)
{
	size_t n = strcspn(buf, "\n");

	/* One line: what follows it would be lost, or taken for something else by a reader. */
	if (n >= SYSCTL_TEXT || (n < len && n + 1 != len))
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)buf[i] < ' ' || buf[i] == 0x7f)
			return -EINVAL;
	char *copy = strndup(buf, n);

	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&g_kept.lock);
	char *old = g_kept.text[id];

	g_kept.text[id] = copy;
	pthread_mutex_unlock(&g_kept.lock);
	free(old);
	return 0;
}

static int set_from_text(const struct proc_source *ps, size_t id, const char *buf,
			 size_t len)
{
	const struct sysctl_def *def = &g_defs[id];
	int64_t val[SYSCTL_VALUES] = { 0 };

	if (def->kind == KIND_TEXT)
		return text_set(id, buf, len);
	if (strlen(buf) != len)
		return -EINVAL;
	value_get(ps, id, val);
	int r = parse_values(def, buf, val);

	return r ? r : value_set(ps, id, val);
}

static ssize_t sysctl_write(const struct pseudo_req *rq, char *buf, size_t len)
{
	int r = set_from_text(proc_ps(rq), rq->inst->key[0], buf, len);

	return r ? r : (ssize_t)len;
}

static int find_id(const char *name, size_t *id)
{
	for (size_t i = 0; i < SYSCTL_COUNT; i++)
		if (!strcmp(g_defs[i].name, name)) {
			*id = i;
			return 0;
		}
	return -ENOENT;
}

int proc_sysctl_value(const char *name, int64_t *val, int count)
{
	int64_t v[SYSCTL_VALUES];
	size_t id;

	if (find_id(name, &id) || count > g_defs[id].count)
		return -ENOENT;
	kept_get(id, v);
	memcpy(val, v, (size_t)count * sizeof(*val));
	return 0;
}

int proc_sysctl_set_text(const char *name, const char *text)
{
	size_t id;

	if (find_id(name, &id))
		return -ENOENT;
	return set_from_text(NULL, id, text, strlen(text));
}

/* ---- settings that are not plain values ---- */

static int show_uts(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	char name[PROC_UTS_SIZE] = { 0 };

	ps->uts_get(ps, (enum proc_uts)rq->desc->arg, name);
	name[PROC_UTS_SIZE - 1] = 0;
	strbuf_printf(out, "%s\n", name);
	return 0;
}

static ssize_t write_uts(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct proc_source *ps = proc_ps(rq);
	size_t n = strcspn(buf, "\n");

	if (n > len)
		n = len;
	if (n >= PROC_UTS_SIZE)
		n = PROC_UTS_SIZE - 1; /* as proc_dostring: cut short */
	buf[n] = 0;
	int r = ps->uts_set ? ps->uts_set(ps, (enum proc_uts)rq->desc->arg, buf) : -EPERM;

	return r ? r : (ssize_t)len;
}

static int show_release(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "%s\n", proc_ps(rq)->release);
	return 0;
}

static int show_version(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "%s\n", proc_ps(rq)->version);
	return 0;
}

static int show_boot_id(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "%s\n", proc_ps(rq)->boot_id);
	return 0;
}

/* A fresh random UUID (version 4) at each reading. */
static int show_uuid(const struct pseudo_req *rq, struct strbuf *out)
{
	uint8_t u[16];

	if (getrandom(u, sizeof(u), 0) != (ssize_t)sizeof(u))
		return -EIO;
	u[6] = (u[6] & 0x0f) | 0x40;
	u[8] = (u[8] & 0x3f) | 0x80;
	for (int i = 0; i < 16; i++)
		strbuf_printf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
	strbuf_putc(out, '\n');
	return 0;
}

static int show_fixed(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_puts(out, rq->desc->ptr);
	return 0;
}

/* ---- the tree: a directory's instances are the rows whose name starts with its ptr ---- */

/* The last part of row i's name if it lies in dir ("kernel"), else NULL. */
static const char *leaf_in(size_t i, const char *dir)
{
	size_t n = strlen(dir);
	const char *name = g_defs[i].name;

	if (strncmp(name, dir, n) || name[n] != '.' || strchr(name + n + 1, '.'))
		return NULL;
	return name + n + 1;
}

static int sysctl_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		       char name[PSEUDO_NAME_SIZE])
{
	for (uint64_t i = from; i < SYSCTL_COUNT; i++) {
		const char *leaf = leaf_in(i, dir->desc->ptr);

		if (leaf) {
			*key = i;
			snprintf(name, PSEUDO_NAME_SIZE, "%s", leaf);
			return 1;
		}
	}
	return 0;
}

static int sysctl_find(const struct pseudo_req *dir, const char *name, size_t len,
		       struct pseudo_inst *inst)
{
	for (size_t i = 0; i < SYSCTL_COUNT; i++) {
		const char *leaf = leaf_in(i, dir->desc->ptr);

		if (leaf && strlen(leaf) == len && !memcmp(leaf, name, len)) {
			inst->key[0] = i;
			return 0;
		}
	}
	return -ENOENT;
}

static int sysctl_attr(const struct pseudo_req *rq, struct inode *ino)
{
	ino->mode = S_IFREG | g_defs[rq->inst->key[0]].perm;
	return 0;
}

/* As proc_sys_permission: the mode binds root too. */
static int sysctl_permission(const struct pseudo_req *rq, struct inode *ino, uint32_t mask)
{
	uint32_t mode = g_defs[rq->inst->key[0]].perm;

	if (rq->cred->euid == 0)
		mode >>= 6;
	else if (cred_in_egroup(rq->cred, 0))
		mode >>= 3;
	return mask & ~mode & (MAY_READ | MAY_WRITE | MAY_EXEC) ? -EACCES : 0;
}

static const struct pseudo_desc g_sysctl_file = {
	.name = "sysctl",
	.mode = S_IFREG | 0644,
	.show = sysctl_show,
	.write = sysctl_write,
	.attr = sysctl_attr,
	.permission = sysctl_permission,
};

static const struct pseudo_dyn g_sysctl_dyn = {
	.next = sysctl_next,
	.find = sysctl_find,
	.each = &g_sysctl_file,
};

#define FIXED(n, text) { .name = (n), .mode = S_IFREG | 0444, .show = show_fixed, .ptr = (text) }
#define DIR(n, path, kids) \
	{ .name = (n), .mode = S_IFDIR | 0555, .children = (kids), .dyn = &g_sysctl_dyn, .ptr = (path) }

static const struct pseudo_desc g_random[] = {
	{ .name = "boot_id", .mode = S_IFREG | 0444, .show = show_boot_id },
	{ .name = "uuid", .mode = S_IFREG | 0444, .show = show_uuid },
	FIXED("entropy_avail", "256\n"),
	FIXED("poolsize", "256\n"),
	PSEUDO_END,
};

static const struct pseudo_desc g_seccomp[] = {
	FIXED("actions_avail", "kill_process kill_thread trap errno user_notif trace log allow\n"),
	PSEUDO_END,
};

static const struct pseudo_desc g_kernel[] = {
	FIXED("arch", "x86_64\n"),
	FIXED("ostype", "Linux\n"),
	{ .name = "osrelease", .mode = S_IFREG | 0444, .show = show_release },
	{ .name = "version", .mode = S_IFREG | 0444, .show = show_version },
	{ .name = "hostname", .mode = S_IFREG | 0644, .show = show_uts, .write = write_uts,
	  .arg = PROC_UTS_HOSTNAME },
	{ .name = "domainname", .mode = S_IFREG | 0644, .show = show_uts, .write = write_uts,
	  .arg = PROC_UTS_DOMAINNAME },
	DIR("keys", "kernel.keys", NULL),
	DIR("pty", "kernel.pty", NULL),
	DIR("random", "kernel.random", g_random),
	PSEUDO_DIR("seccomp", 0555, g_seccomp),
	PSEUDO_END,
};

static const struct pseudo_desc g_fs[] = {
	PSEUDO_DIR("binfmt_misc", 0555, NULL),
	DIR("epoll", "fs.epoll", NULL),
	DIR("fanotify", "fs.fanotify", NULL),
	DIR("inotify", "fs.inotify", NULL),
	DIR("mqueue", "fs.mqueue", NULL),
	PSEUDO_END,
};

static const struct pseudo_desc g_dev[] = { DIR("tty", "dev.tty", NULL), PSEUDO_END };

static const struct pseudo_desc g_conf4[] = {
	DIR("all", "net.ipv4.conf.all", NULL),
	DIR("default", "net.ipv4.conf.default", NULL),
	PSEUDO_END,
};

static const struct pseudo_desc g_ipv4[] = { DIR("conf", "net.ipv4.conf", g_conf4), PSEUDO_END };

static const struct pseudo_desc g_conf6[] = {
	DIR("all", "net.ipv6.conf.all", NULL),
	DIR("default", "net.ipv6.conf.default", NULL),
	PSEUDO_END,
};

static const struct pseudo_desc g_ipv6[] = { DIR("conf", "net.ipv6.conf", g_conf6), PSEUDO_END };

static const struct pseudo_desc g_net[] = {
	DIR("core", "net.core", NULL),
	DIR("ipv4", "net.ipv4", g_ipv4),
	DIR("ipv6", "net.ipv6", g_ipv6),
	DIR("unix", "net.unix", NULL),
	PSEUDO_END,
};

const struct pseudo_desc g_proc_sys_dirs[] = {
	DIR("debug", "debug", NULL),
	PSEUDO_DIR("dev", 0555, g_dev),
	DIR("fs", "fs", g_fs),
	DIR("kernel", "kernel", g_kernel),
	PSEUDO_DIR("net", 0555, g_net),
	DIR("user", "user", NULL),
	DIR("vm", "vm", NULL),
	PSEUDO_END,
};
