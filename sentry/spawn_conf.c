/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of spawn_conf.h, each checked again although the runtime has checked it. */
#include "sentry/spawn_conf.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/seccomp/seccomp.h"
#include "sentry/task/task_priv.h"

int spawn_u64(struct spawn *s, const char *key, uint64_t dflt, uint64_t max, uint64_t *out)
{
	if (bootconf_get_u64(s->conf, key, dflt, out) || *out > max)
		return spawn_fail(s, BOOT_EXIT_SETUP, "configuration: %s=%s is out of range", key,
				  bootconf_get(s->conf, key));
	return 0;
}

/* ---- limits ---- */

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

int spawn_rlimits(struct spawn *s, struct thread_group *tg)
{
	const char *v;
	size_t pos = 0;

	rlimits_default(tg->rlimits);
	while ((v = bootconf_next(s->conf, "rlimit", &pos)))
		if (set_rlimit(tg->rlimits, v))
			return spawn_fail(s, BOOT_EXIT_SETUP, "configuration: bad rlimit %s", v);
	return 0;
}

/* What a caller of `caisson run` hands on besides limits. */
int spawn_inherited(struct spawn *s, struct task *t)
{
	const char *nice = bootconf_get(s->conf, "nice");
	uint64_t ignored, blocked;
	char *end = NULL;

	if (spawn_u64(s, "ignored_signals", 0, UINT64_MAX, &ignored) ||
	    spawn_u64(s, "blocked_signals", 0, UINT64_MAX, &blocked))
		return -1;
	t->nice = nice ? (int)strtol(nice, &end, 10) : 0;
	if (nice && (!*nice || *end || t->nice < -20 || t->nice > 19))
		return spawn_fail(s, BOOT_EXIT_SETUP, "configuration: bad nice %s", nice);
	blocked &= ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
	t->blocked = blocked;
	for (int sig = 1; sig <= 64; sig++)
		if (ignored >> (sig - 1) & 1 && sig != SIGKILL && sig != SIGSTOP)
			t->sighand->action[sig - 1].handler = (uint64_t)(uintptr_t)SIG_IGN;
	return 0;
}

/* ---- credentials ---- */

/* Comma-separated group ids. */
static int set_groups(struct spawn *s, struct cred *c)
{
	const char *p = bootconf_get(s->conf, "groups");
	uint32_t *g;
	size_t n = 0;
	int err = 0;

	if (!p || !*p)
		return 0;
	g = malloc((strlen(p) / 2 + 1) * sizeof(*g));
	if (!g)
		return spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
	for (;;) {
		char *end = NULL;
		unsigned long v = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : ULONG_MAX;

		if (v >= UINT32_MAX || (*end && *end != ',')) {
			err = spawn_fail(s, BOOT_EXIT_SETUP, "configuration: bad groups");
			break;
		}
		g[n++] = (uint32_t)v;
		if (!*end)
			break;
		p = end + 1;
	}
	if (!err && cred_set_groups(c, g, n))
		err = spawn_fail(s, BOOT_EXIT_SETUP, "configuration: too many groups");
	free(g);
	return err;
}

/* The five sets by name, as an engine gives them; without them caps= alone decides. */
static int set_caps(struct spawn *s, struct cred *c, uint64_t caps)
{
	uint64_t bounding, effective, permitted, inheritable, ambient;

	if (!bootconf_get(s->conf, "caps_bounding")) {
		/* As after an exec by that user: only root has the set in effect. */
		if (c->uid)
			c->cap_permitted = c->cap_effective = 0;
		if (c->uid && bootconf_get(s->conf, "ambient_caps")) {
			if (spawn_u64(s, "ambient_caps", 0, UINT64_MAX, &ambient))
				return -1;
			c->cap_ambient = c->cap_inheritable = ambient & caps;
			c->cap_permitted = c->cap_effective = ambient & caps;
		}
		return 0;
	}
	if (spawn_u64(s, "caps_bounding", 0, UINT64_MAX, &bounding) ||
	    spawn_u64(s, "caps_effective", 0, UINT64_MAX, &effective) ||
	    spawn_u64(s, "caps_permitted", 0, UINT64_MAX, &permitted) ||
	    spawn_u64(s, "caps_inheritable", 0, UINT64_MAX, &inheritable) ||
	    spawn_u64(s, "caps_ambient", 0, UINT64_MAX, &ambient))
		return -1;
	c->cap_bounding = bounding & CAP_ALL_MASK;
	c->cap_permitted = permitted & CAP_ALL_MASK;
	c->cap_effective = effective & c->cap_permitted;
	c->cap_inheritable = inheritable & CAP_ALL_MASK;
	c->cap_ambient = ambient & c->cap_permitted & c->cap_inheritable;
	return 0;
}

struct cred *spawn_cred(struct spawn *s)
{
	uint64_t uid, gid, caps;
	struct cred *c;

	if (spawn_u64(s, "uid", 0, UINT32_MAX - 1, &uid) || spawn_u64(s, "gid", 0, UINT32_MAX - 1, &gid) ||
	    spawn_u64(s, "caps", CAP_ALL_MASK, UINT64_MAX, &caps))
		return NULL;
	c = cred_new((uint32_t)uid, (uint32_t)gid, caps & CAP_ALL_MASK);
	if (!c) {
		spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
		return NULL;
	}
	if (set_caps(s, c, caps & CAP_ALL_MASK) || set_groups(s, c)) {
		cred_put(c);
		return NULL;
	}
	return c;
}

/* ---- seccomp ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int spawn_seccomp(struct spawn *s, struct task *t)
{
	const char *hex = bootconf_get(s->conf, "seccomp");
	size_t bytes = hex ? strlen(hex) / 2 : 0, len = bytes / sizeof(struct sock_filter);
	struct sock_filter *prog;
	int err = 0;

	if (!hex)
		return 0;
	if (!len || len > BPF_MAXINSNS || strlen(hex) != len * sizeof(*prog) * 2)
		return spawn_fail(s, BOOT_EXIT_SETUP, "configuration: bad seccomp program");
	prog = calloc(len, sizeof(*prog));
	if (!prog)
		return spawn_fail(s, BOOT_EXIT_SETUP, "out of memory");
	for (size_t i = 0; i < bytes && !err; i++) {
		int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);

		if (hi < 0 || lo < 0)
			err = -EINVAL;
		else
			((unsigned char *)prog)[i] = (unsigned char)(hi << 4 | lo);
	}
	if (!err)
		err = seccomp_set_program(t, prog, (unsigned int)len);
	free(prog);
	return err ? spawn_fail(s, BOOT_EXIT_SETUP, "configuration: the seccomp program is refused: %s",
				strerror(-err))
		   : 0;
}
