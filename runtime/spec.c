/* SPDX-License-Identifier: Apache-2.0 */
/* config.json as a whole: what is neither process nor mounts. */
#include "runtime/spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/user.h"

static int add_names(struct spec *s, struct spec_error *e)
{
	const char *host, *domain, *version;

	if (spec_text(s->json, "", "ociVersion", &version, e) || spec_text(s->json, "", "hostname", &host, e) ||
	    spec_text(s->json, "", "domainname", &domain, e))
		return -1;
	if (!version || strncmp(version, "1.", 2))
		return spec_fail(e, "ociVersion", "'%s' is not a version 1", version ? version : "");
	if ((host && strlen(host) > 64) || (domain && strlen(domain) > 64))
		return spec_fail(e, "hostname", "is longer than 64 characters");
	if (host && *host && spec_add(&s->sentry, "hostname", "hostname", host, e))
		return -1;
	return domain && *domain ? spec_add(&s->sentry, "domainname", "domainname", domain, e) : 0;
}

/* Processes of the sandbox are never in a host namespace. One given by path is that of another
 * container (pod.c finds whose), or a network namespace whose interfaces are taken over. */
static int read_namespaces(struct spec *s, struct json_object *lx, struct spec_error *e)
{
	static const char *const known[] = { "network", "pid", "ipc", "uts", "mount", "user", "cgroup" };
	struct json_object *list;

	if (spec_want(lx, "linux", "namespaces", json_type_array, &list, e))
		return -1;
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		const char *type, *path;
		char at[64];
		size_t kind = 0;

		snprintf(at, sizeof(at), "linux.namespaces[%zu]", i);
		if (!json_object_is_type(o, json_type_object))
			return spec_fail(e, at, "must be a JSON object");
		if (spec_text(o, at, "type", &type, e) || spec_text(o, at, "path", &path, e))
			return -1;
		while (type && kind < sizeof(known) / sizeof(*known) && strcmp(type, known[kind]))
			kind++;
		if (!type || kind == sizeof(known) / sizeof(*known))
			return spec_fail(e, at, "type: '%s' is not supported", type ? type : "");
		if (path && *path) {
			if (kind >= SPEC_NS_COUNT)
				return spec_fail(e, at, "path: a %s namespace of the host can not be joined", type);
			if (path[0] != '/')
				return spec_fail(e, at, "path is not absolute");
		}
		if (kind < SPEC_NS_COUNT) {
			s->ns[kind].path = path && *path ? path : NULL;
			s->ns[kind].listed = 1;
			s->ns[kind].index = (int)i;
		}
		if (kind == SPEC_NS_NET)
			s->new_netns = !s->ns[kind].path;
		s->userns |= !strcmp(type, "user");
	}
	return 0;
}

static int read_map(struct json_object *lx, const char *key, char *out, size_t size, struct spec_error *e)
{
	struct json_object *list;
	char at[64];
	size_t len = 0;

	snprintf(at, sizeof(at), "linux.%s", key);
	if (spec_want(lx, "linux", key, json_type_array, &list, e))
		return -1;
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		int64_t inside = -1, outside = -1, n = 0;

		if (!json_object_is_type(o, json_type_object))
			return spec_fail(e, at, "[%zu] must be a JSON object", i);
		if (spec_int(o, at, "containerID", 0, USER_ID_MAX, &inside, e) ||
		    spec_int(o, at, "hostID", 0, USER_ID_MAX, &outside, e) ||
		    spec_int(o, at, "size", 1, 4294967295ll, &n, e))
			return -1;
		if (inside < 0 || outside < 0 || !n || len + 48 > size)
			return spec_fail(e, at, "[%zu] is incomplete, or there are too many", i);
		len += (size_t)snprintf(out + len, size - len, "%lld %lld %lld\n", (long long)inside,
					(long long)outside, (long long)n);
	}
	return 0;
}

static int add_paths(struct spec *s, struct json_object *lx, const char *member, const char *key,
		     struct spec_error *e)
{
	struct json_object *list;
	char at[64];
	size_t n;

	snprintf(at, sizeof(at), "linux.%s", member);
	if (spec_strings(lx, "linux", member, &list, &n, e))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (spec_item(list, i)[0] != '/')
			return spec_fail(e, at, "[%zu] is not an absolute path", i);
		if (spec_add(&s->sentry, at, key, spec_item(list, i), e))
			return -1;
	}
	return 0;
}

static int add_devices(struct spec *s, struct json_object *lx, struct spec_error *e)
{
	struct json_object *list;
	char at[64];

	if (spec_want(lx, "linux", "devices", json_type_array, &list, e))
		return -1;
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		int64_t major = 0, minor = 0, mode = 0666;
		const char *path, *type;

		snprintf(at, sizeof(at), "linux.devices[%zu]", i);
		if (!json_object_is_type(o, json_type_object))
			return spec_fail(e, at, "must be a JSON object");
		if (spec_text(o, at, "path", &path, e) || spec_text(o, at, "type", &type, e) ||
		    spec_int(o, at, "major", 0, 4095, &major, e) || spec_int(o, at, "minor", 0, 1048575, &minor, e) ||
		    spec_int(o, at, "fileMode", 0, 0777777, &mode, e))
			return -1;
		if (!path || path[0] != '/' || strpbrk(path, "\t\n"))
			return spec_fail(e, at, "path is not absolute, or has a tab or newline in it");
		if (!type || !strchr("cubp", type[0]) || !type[0] || type[1])
			return spec_fail(e, at, "type: '%s' is not a device type", type ? type : "");
		if (bootconf_addf(&s->sentry, "device", "%s\t%c\t%u\t%u\t%o", path, type[0] == 'u' ? 'c' : type[0],
				  (unsigned)major, (unsigned)minor, (unsigned)mode & 07777))
			return spec_fail(e, at, "out of memory");
	}
	return 0;
}

/* Only what belongs to a namespace of the container may be set; values are one plain line. */
static int add_sysctls(struct spec *s, struct json_object *lx, struct spec_error *e)
{
	static const char *const allowed[] = { "net.", "fs.mqueue.", "kernel.shm", "kernel.msg", "kernel.sem",
					       "kernel.hostname", "kernel.domainname" };
	struct json_object *map;

	if (spec_want(lx, "linux", "sysctl", json_type_object, &map, e))
		return -1;
	if (!map)
		return 0;
	json_object_object_foreach(map, name, value)
	{
		const char *text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
		char at[128], dotted[128];
		int ok = 0;

		snprintf(at, sizeof(at), "linux.sysctl[\"%.80s\"]", name);
		snprintf(dotted, sizeof(dotted), "%s", name);
		for (char *p = dotted; *p; p++)
			*p = *p == '/' ? '.' : *p;
		for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
			ok |= !strncmp(dotted, allowed[i], strlen(allowed[i]));
		if (!ok || strlen(name) > 100 || strstr(dotted, "..") ||
		    strspn(dotted, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != strlen(dotted))
			return spec_fail(e, at, "is not a setting of a container");
		if (!text || strlen(text) != (size_t)json_object_get_string_len(value))
			return spec_fail(e, at, "must be a string");
		for (const char *p = text; *p; p++)
			if (!isprint((unsigned char)*p) && *p != '\t')
				return spec_fail(e, at, "the value is not one line of text");
		if (bootconf_addf(&s->sentry, "sysctl", "%s=%s", dotted, text))
			return spec_fail(e, at, "out of memory");
	}
	return 0;
}

static int read_limits(struct spec *s, struct spec_error *e)
{
	struct json_object *memory, *pids;
	int64_t limit = 0, count = 0;

	if (spec_want(s->resources, "linux.resources", "memory", json_type_object, &memory, e) ||
	    spec_want(s->resources, "linux.resources", "pids", json_type_object, &pids, e) ||
	    spec_int(memory, "linux.resources.memory", "limit", -1, INT64_MAX, &limit, e) ||
	    spec_int(pids, "linux.resources.pids", "limit", -1, INT64_MAX, &count, e))
		return -1;
	if (limit > 0 && limit < INT64_MAX / 2)
		s->memory = (uint64_t)limit;
	if (count > 0 && count <= 4194304)
		s->pids = (uint64_t)count;
	if ((s->memory && bootconf_add_u64(&s->sentry, "memory", s->memory)) ||
	    (s->pids && bootconf_add_u64(&s->sentry, "pids", s->pids)))
		return spec_fail(e, "linux.resources", "out of memory");
	return 0;
}

static int read_linux(struct spec *s, struct spec_error *e)
{
	struct json_object *lx, *seccomp;

	if (spec_want(s->json, "", "linux", json_type_object, &lx, e))
		return -1;
	if (spec_get(lx, "intelRdt"))
		return spec_fail(e, "linux.intelRdt", "is not supported");
	if (spec_want(lx, "linux", "resources", json_type_object, &s->resources, e) ||
	    spec_want(lx, "linux", "seccomp", json_type_object, &seccomp, e) ||
	    spec_text(lx, "linux", "cgroupsPath", &s->cgroups_path, e) || read_namespaces(s, lx, e) ||
	    read_map(lx, "uidMappings", s->uid_map, sizeof(s->uid_map), e) ||
	    read_map(lx, "gidMappings", s->gid_map, sizeof(s->gid_map), e) ||
	    add_paths(s, lx, "maskedPaths", "masked", e) ||
	    add_paths(s, lx, "readonlyPaths", "readonly_path", e) || add_devices(s, lx, e) ||
	    add_sysctls(s, lx, e) || read_limits(s, e))
		return -1;
	return seccomp ? spec_seccomp(seccomp, &s->sentry, e) : 0;
}

static int read_terminal(struct spec *s, struct json_object *process, struct spec_error *e)
{
	struct json_object *size;
	int64_t rows = 24, cols = 80, adj = 0;

	if (spec_bool(process, "process", "terminal", &s->terminal, e) ||
	    spec_want(process, "process", "consoleSize", json_type_object, &size, e) ||
	    spec_int(size, "process.consoleSize", "height", 0, UINT16_MAX, &rows, e) ||
	    spec_int(size, "process.consoleSize", "width", 0, UINT16_MAX, &cols, e) ||
	    spec_int(process, "process", "oomScoreAdj", -1000, 1000, &adj, e))
		return -1;
	s->rows = (uint16_t)rows;
	s->cols = (uint16_t)cols;
	s->have_oom_score_adj = spec_get(process, "oomScoreAdj") != NULL;
	s->oom_score_adj = (int)adj;
	return 0;
}

static int read_hooks(struct spec *s, struct spec_error *e)
{
	static const char *const inside[] = { "createContainer", "startContainer" };

	if (spec_want(s->json, "", "hooks", json_type_object, &s->hooks, e))
		return -1;
	for (size_t i = 0; i < 2; i++) {
		struct json_object *list = spec_get(s->hooks, inside[i]);
		char at[64];

		snprintf(at, sizeof(at), "hooks.%s", inside[i]);
		if (list && (!json_object_is_type(list, json_type_array) || json_object_array_length(list)))
			return spec_fail(e, at, "is not supported: no host process ever runs in a sandbox");
	}
	return 0;
}

int spec_parse(struct spec *s, const char *text, size_t len, const char *bundle, struct spec_error *e)
{
	struct json_object *process;

	bootconf_init(&s->sentry);
	bootconf_init(&s->gofer);
	e->text[0] = '\0';
	s->json = spec_json(text, len, "config.json", e);
	if (!s->json || add_names(s, e) || spec_want(s->json, "", "process", json_type_object, &process, e))
		return -1;
	if (!process)
		return spec_fail(e, "process", "is missing");
	if (spec_process(process, "process", &s->sentry, e) || read_terminal(s, process, e) ||
	    spec_mounts(s, bundle, e) || read_linux(s, e) || spec_network(s, e) ||
	    read_hooks(s, e))
		return -1;
	return 0;
}

void spec_free(struct spec *s)
{
	if (s->json)
		json_object_put(s->json);
	bootconf_free(&s->sentry);
	bootconf_free(&s->gofer);
	free(s->rootfs);
	memset(s, 0, sizeof(*s));
}
