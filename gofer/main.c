/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caisson-gofer: started by the runtime with the sentry's socket on fd 3 and its configuration
 * (platform/base/bootconf.h) on fd 4:
 *
 *   attach=ID<TAB>PATH<TAB>ro|rw<TAB>FLAGS   repeated; FLAGS: file, exclusive, public
 *   hide=ID<TAB>REL/PATH			  repeated: absent for the sandbox, with all below
 *   caps=HEX uid= gid=			  capabilities to keep, user to become
 *   allow_weaker=mountns			  go on where no mount namespace can be had
 *   pdeathsig=0|1 log_fd= log_level= started_ns=
 *
 * It opens the attach points, isolates itself (isolate.c), and serves until the socket closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/bootconf.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "platform/base/phase.h"

#define FD_SOCK 3
#define FD_CONF 4

static int conf_fail(const char *key, const char *value, const char *why)
{
	log_error("configuration: %s=%s: %s", key, value ? value : "", why);
	return -EINVAL;
}

static int parse_u32(const char *s, size_t len, uint32_t *out)
{
	uint64_t v = 0;

	if (!len || len > 10)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	*out = (uint32_t)v;
	return v > UINT32_MAX ? -EINVAL : 0;
}

static int parse_hex(const char *s, uint64_t *out)
{
	char *end;

	if (!strncmp(s, "0x", 2))
		s += 2;
	if (!*s || strspn(s, "0123456789abcdefABCDEF") != strlen(s) || strlen(s) > 16)
		return -EINVAL;
	*out = strtoull(s, &end, 16);
	return 0;
}

static int parse_attach_flags(const char *s, uint32_t *flags)
{
	while (*s) {
		size_t n = strcspn(s, ",");

		if (n == 4 && !strncmp(s, "file", 4))
			*flags |= ATTACH_FILE;
		else if (n == 9 && !strncmp(s, "exclusive", 9))
			*flags |= ATTACH_EXCLUSIVE;
		else if (n == 6 && !strncmp(s, "public", 6))
			*flags |= ATTACH_PUBLIC;
		else if (n)
			return -EINVAL;
		s += n + (s[n] == ',');
	}
	return 0;
}

/* One attach line: splits it, opens the path, adds it. */
static int add_attach(struct gofer *g, const char *line, struct gofer_conf *c)
{
	char path[4097];
	uint32_t id, flags = 0;
	const char *t1 = strchr(line, '\t'), *t2 = t1 ? strchr(t1 + 1, '\t') : NULL;
	const char *t3 = t2 ? strchr(t2 + 1, '\t') : NULL;

	if (!t3 || parse_u32(line, (size_t)(t1 - line), &id) || t1[1] != '/' ||
	    (size_t)(t2 - t1) > sizeof(path) || parse_attach_flags(t3 + 1, &flags))
		return conf_fail("attach", line, "malformed");
	memcpy(path, t1 + 1, (size_t)(t2 - t1 - 1));
	path[t2 - t1 - 1] = '\0';
	if (t3 - t2 == 3 && !strncmp(t2 + 1, "ro", 2))
		flags |= ATTACH_RDONLY;
	else if (t3 - t2 == 3 && !strncmp(t2 + 1, "rw", 2))
		c->any_writable = 1;
	else
		return conf_fail("attach", line, "neither ro nor rw");
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return conf_fail("attach", line, strerror(errno));
	int err = gofer_add_attach(g, id, fd, path, flags);

	if (err) {
		close(fd);
		return conf_fail("attach", line, strerror(-err));
	}
	return 0;
}

static int add_hide(struct gofer *g, const char *line)
{
	const char *tab = strchr(line, '\t');
	uint32_t id;

	if (!tab || parse_u32(line, (size_t)(tab - line), &id))
		return conf_fail("hide", line, "malformed");
	int err = gofer_add_hide(g, id, tab + 1);

	return err ? conf_fail("hide", line, strerror(-err)) : 0;
}

static int read_trees(struct gofer *g, const struct bootconf *bc, struct gofer_conf *c)
{
	const char *v;
	size_t pos = 0;
	int err = 0;

	while (!err && (v = bootconf_next(bc, "attach", &pos)))
		err = add_attach(g, v, c);
	if (!err && !g->attach_count)
		err = conf_fail("attach", NULL, "nothing to serve");
	for (pos = 0; !err && (v = bootconf_next(bc, "hide", &pos));)
		err = add_hide(g, v);
	return err;
}

static int read_settings(const struct bootconf *bc, struct gofer_conf *c)
{
	const char *caps = bootconf_get(bc, "caps"), *weaker = bootconf_get(bc, "allow_weaker");
	enum log_level level = LOG_WARN;
	uint64_t v;

	if (bootconf_get_u64(bc, "log_fd", 2, &v) || v > 1023)
		return conf_fail("log_fd", bootconf_get(bc, "log_fd"), "not an fd");
	c->log_fd = (int)v;
	if (log_level_parse(bootconf_get(bc, "log_level"), &level))
		return conf_fail("log_level", bootconf_get(bc, "log_level"), "unknown");
	log_setup(c->log_fd, level, "gofer");
	if (caps && parse_hex(caps, &c->caps))
		return conf_fail("caps", caps, "not a hexadecimal number");
	c->uid = geteuid();
	c->gid = getegid();
	c->switch_user = bootconf_get(bc, "uid") || bootconf_get(bc, "gid");
	if (bootconf_get_u64(bc, "uid", c->uid, &v) || v >= UINT32_MAX)
		return conf_fail("uid", bootconf_get(bc, "uid"), "not a user id");
	c->uid = (uint32_t)v;
	if (bootconf_get_u64(bc, "gid", c->gid, &v) || v >= UINT32_MAX)
		return conf_fail("gid", bootconf_get(bc, "gid"), "not a group id");
	c->gid = (uint32_t)v;
	if (bootconf_get_u64(bc, "pdeathsig", 0, &v))
		return conf_fail("pdeathsig", bootconf_get(bc, "pdeathsig"), "neither 0 nor 1");
	c->pdeathsig = v != 0;
	if (bootconf_get_u64(bc, "started_ns", 0, &c->started_ns))
		return conf_fail("started_ns", bootconf_get(bc, "started_ns"), "not a number");
	c->allow_no_mountns = weaker && strstr(weaker, "mountns") != NULL;
	c->sock = FD_SOCK;
	return 0;
}

/* Nothing inherited but the socket, the configuration and the log. #hostcalls: close_range */
static void close_others(int log_fd)
{
	int keep[] = { FD_SOCK, FD_CONF, log_fd };
	unsigned int from = 0;

	for (unsigned int fd = 0; fd <= 1023; fd++) {
		int kept = 0;

		for (int i = 0; i < 3; i++)
			kept |= keep[i] == (int)fd;
		if (kept) {
			if (fd > from)
				syscall(SYS_close_range, from, fd - 1, 0);
			from = fd + 1;
		}
	}
	syscall(SYS_close_range, from, ~0u, 0);
}

static void raise_nofile(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static int pivot(struct gofer *g)
{
	int roots[GOFER_ATTACH_MAX];
	uint32_t flags[GOFER_ATTACH_MAX], ids[GOFER_ATTACH_MAX];

	for (size_t i = 0; i < g->attach_count; i++) {
		roots[i] = g->attach[i].root_fd;
		flags[i] = g->attach[i].flags;
		ids[i] = g->attach[i].id;
	}
	int err = isolate_pivot(roots, flags, ids, g->attach_count);

	for (size_t i = 0; i < g->attach_count; i++)
		g->attach[i].root_fd = roots[i];
	return err;
}

/* Does this kernel change modes through O_PATH fds? */
static int probe_fchmodat2(void)
{
	return syscall(452, -1, "", 0, AT_EMPTY_PATH) < 0 && errno == EBADF;
}

static int start(struct gofer *g, const struct bootconf *bc, struct gofer_conf *c)
{
	uint64_t seed = 0;
	int ns = isolate_mount_ns();

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed))
		hash_seed(seed);
	int err = read_trees(g, bc, c);

	if (err)
		return err;
	phase_mark("trees");
	if (!ns)
		ns = pivot(g);
	if (ns && !c->allow_no_mountns) {
		log_error("no mount namespace of its own (%s); run with more rights, or accept the "
			  "weaker isolation with allow_weaker=mountns",
			  strerror(-ns));
		return ns;
	}
	if (ns)
		log_warn("layer missing: mount namespace (%s)", strerror(-ns));
	phase_mark("root");
	g->have_fchmodat2 = probe_fchmodat2();
	err = isolate_privileges(g, c);
	if (err) {
		log_error("giving up privileges failed: %s", strerror(-err));
		return err;
	}
	phase_mark("privileges");
	err = isolate_landlock(g);
	if (err)
		log_info("layer missing: Landlock (%s)", strerror(-err));
	return 0;
}

int main(void)
{
	struct gofer_conf c = { .log_fd = 2 };
	struct bootconf bc;
	struct gofer *g;

	log_setup(2, LOG_WARN, "gofer");
	bootconf_init(&bc);
	int err = bootconf_read(&bc, FD_CONF);

	if (err) {
		log_error("no usable configuration on fd %d: %s", FD_CONF, strerror(-err));
		return 1;
	}
	if (read_settings(&bc, &c))
		return 1;
	phase_begin(c.started_ns);
	phase_mark("main");
	close_others(c.log_fd);
	close(FD_CONF);
	raise_nofile();
	g = gofer_new();
	if (!g) {
		log_error("out of memory");
		return 1;
	}
	if (start(g, &bc, &c))
		return 1;
	phase_mark("isolated");
	bootconf_free(&bc);
	err = filter_install(g, &c);
	if (err) {
		log_error("seccomp filter: %s", strerror(-err));
		return 1;
	}
	phase_mark("filter");
	phase_log();
	log_info("serving %zu trees", g->attach_count);
	return gofer_serve(g, c.sock) ? 1 : 0;
}
