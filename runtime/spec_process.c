/* SPDX-License-Identifier: Apache-2.0 */
/* The process object, of config.json and of exec. */
#include <stdio.h>
#include <string.h>

#include "runtime/spec.h"
#include "runtime/user.h"

static const char *const g_caps[] = {
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
	"SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
	"IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
	"SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
	"LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
	"WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
};

/* Names that no kernel of this release knows are left out, as the specification asks. */
static uint64_t cap_bit(const char *name)
{
	if (!strncasecmp(name, "CAP_", 4))
		name += 4;
	for (size_t i = 0; i < sizeof(g_caps) / sizeof(*g_caps); i++)
		if (!strcasecmp(name, g_caps[i]))
			return 1ull << i;
	return 0;
}

static int add_caps(struct json_object *p, const char *path, struct bootconf *out, struct spec_error *e)
{
	static const char *const sets[] = { "bounding", "effective", "permitted", "inheritable", "ambient" };
	struct json_object *caps, *list;
	char at[300], key[64];
	size_t n;

	if (spec_want(p, path, "capabilities", json_type_object, &caps, e))
		return -1;
	snprintf(at, sizeof(at), "%s.capabilities", path);
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		uint64_t mask = 0;

		if (spec_strings(caps, at, sets[i], &list, &n, e))
			return -1;
		for (size_t j = 0; j < n; j++)
			mask |= cap_bit(spec_item(list, j));
		snprintf(key, sizeof(key), "caps_%s", sets[i]);
		if (bootconf_addf(out, key, "0x%llx", (unsigned long long)mask))
			return spec_fail(e, at, "out of memory");
	}
	return 0;
}

static int add_user(struct json_object *p, const char *path, struct bootconf *out, struct spec_error *e)
{
	struct json_object *user, *groups;
	int64_t uid = 0, gid = 0, umask = 022;
	char at[300], list[8192] = "";
	size_t len = 0;

	if (spec_want(p, path, "user", json_type_object, &user, e))
		return -1;
	snprintf(at, sizeof(at), "%s.user", path);
	if (spec_int(user, at, "uid", 0, USER_ID_MAX, &uid, e) ||
	    spec_int(user, at, "gid", 0, USER_ID_MAX, &gid, e) ||
	    spec_int(user, at, "umask", 0, 0777, &umask, e) ||
	    spec_want(user, at, "additionalGids", json_type_array, &groups, e))
		return -1;
	if (spec_get(user, "username"))
		return spec_fail(e, at, "username is for Windows only");
	for (size_t i = 0; groups && i < json_object_array_length(groups); i++) {
		struct json_object *g = json_object_array_get_idx(groups, i);
		int64_t v = g && json_object_is_type(g, json_type_int) ? json_object_get_int64(g) : -1;

		if (v < 0 || v > USER_ID_MAX)
			return spec_fail(e, at, "additionalGids[%zu] is not a group id", i);
		if (len > sizeof(list) - 16)
			return spec_fail(e, at, "additionalGids has too many entries");
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%lld", len ? "," : "",
					(long long)v);
	}
	if (bootconf_add_u64(out, "uid", (uint64_t)uid) || bootconf_add_u64(out, "gid", (uint64_t)gid) ||
	    bootconf_add_u64(out, "umask", (uint64_t)umask) || (len && bootconf_add(out, "groups", list)))
		return spec_fail(e, at, "out of memory");
	return 0;
}

static int add_rlimits(struct json_object *p, const char *path, struct bootconf *out,
		       struct spec_error *e)
{
	static const char *const names[] = { "AS", "CORE", "CPU", "DATA", "FSIZE", "LOCKS", "MEMLOCK",
					     "MSGQUEUE", "NICE", "NOFILE", "NPROC", "RSS", "RTPRIO",
					     "RTTIME", "SIGPENDING", "STACK" };
	struct json_object *list;
	char at[300];

	if (spec_want(p, path, "rlimits", json_type_array, &list, e))
		return -1;
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *r = json_object_array_get_idx(list, i), *soft, *hard;
		const char *type;
		int known = 0;

		snprintf(at, sizeof(at), "%s.rlimits[%zu]", path, i);
		if (!json_object_is_type(r, json_type_object))
			return spec_fail(e, at, "must be a JSON object");
		if (spec_text(r, at, "type", &type, e) || spec_want(r, at, "soft", json_type_int, &soft, e) ||
		    spec_want(r, at, "hard", json_type_int, &hard, e))
			return -1;
		for (size_t j = 0; type && j < sizeof(names) / sizeof(*names); j++)
			known |= !strncmp(type, "RLIMIT_", 7) && !strcmp(type + 7, names[j]);
		if (!known)
			return spec_fail(e, at, "type: '%s' is not a resource limit", type ? type : "");
		uint64_t s = soft ? json_object_get_uint64(soft) : 0, h = hard ? json_object_get_uint64(hard) : 0;

		/* -1, as some write it, means no limit. */
		if (soft && json_object_get_int64(soft) < 0)
			s = UINT64_MAX;
		if (hard && json_object_get_int64(hard) < 0)
			h = UINT64_MAX;
		if (s > h)
			return spec_fail(e, at, "soft is above hard");
		if (bootconf_addf(out, "rlimit", "%s:%llu:%llu", type, (unsigned long long)s,
				  (unsigned long long)h))
			return spec_fail(e, at, "out of memory");
	}
	return 0;
}

static int add_list(struct json_object *p, const char *path, const char *member, const char *key,
		    struct bootconf *out, size_t *n, struct spec_error *e)
{
	struct json_object *list;

	if (spec_strings(p, path, member, &list, n, e))
		return -1;
	for (size_t i = 0; i < *n; i++)
		if (spec_add(out, path, key, spec_item(list, i), e))
			return -1;
	return 0;
}

int spec_process(struct json_object *p, const char *path, struct bootconf *out, struct spec_error *e)
{
	const char *cwd;
	int nnp = 0;
	size_t n;

	if (add_list(p, path, "args", "arg", out, &n, e))
		return -1;
	if (!n)
		return spec_fail(e, path, "args is empty");
	if (add_list(p, path, "env", "env", out, &n, e) || spec_text(p, path, "cwd", &cwd, e))
		return -1;
	if (!cwd || cwd[0] != '/')
		return spec_fail(e, path, "cwd must be an absolute path");
	if (spec_add(out, path, "cwd", cwd, e) || spec_bool(p, path, "noNewPrivileges", &nnp, e) ||
	    bootconf_add_u64(out, "no_new_privs", (uint64_t)nnp) || bootconf_add(out, "make_cwd", "1"))
		return e->text[0] ? -1 : spec_fail(e, path, "out of memory");
	return add_user(p, path, out, e) || add_caps(p, path, out, e) || add_rlimits(p, path, out, e) ? -1 : 0;
}
