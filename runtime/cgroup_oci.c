/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroups of engines; see cgroup_oci.h. */
#include "runtime/cgroup_oci.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cgroup_file.h"
#include "runtime/error.h"
#include "runtime/spec.h"

/* What sentry, gofer, waiter and stub processes need beyond the guest's own. */
#define MEMORY_HEADROOM (64ll << 20)
#define PIDS_HEADROOM 128

static int read_text(const char *dir, const char *name, char *buf, size_t size)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return -ENAMETOOLONG;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);
	int err = n < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return err;
}

/* A fresh cpuset can hold no process until it says which CPUs and nodes. */
static void inherit_cpuset(const char *parent, const char *dir)
{
	static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
	char buf[4096];

	for (int i = 0; i < 2; i++)
		if (read_text(dir, files[i], buf, sizeof(buf)) == 0 && !buf[0] &&
		    read_text(parent, files[i], buf, sizeof(buf)) == 0)
			cgroup_write_text(dir, files[i], buf);
}

/* mkdir -p of mount/path; hands controllers (v2) or CPUs (cpuset) down on the way. */
static int make_path(const char *mount, const char *path, int v2, char *out, size_t size)
{
	char dir[PATH_MAX], parent[PATH_MAX];
	size_t base = strlen(mount);

	if ((size_t)snprintf(dir, sizeof(dir), "%s/%s", mount, path + strspn(path, "/")) >= sizeof(dir))
		return -ENAMETOOLONG;
	for (char *p = dir + base + 1;; p++) {
		if (*p && *p != '/')
			continue;
		char c = *p;

		*p = '\0';
		snprintf(parent, sizeof(parent), "%s", dir);
		*strrchr(parent, '/') = '\0';
		if (v2) {
			cgroup_write_text(parent, "cgroup.subtree_control", "+memory");
			cgroup_write_text(parent, "cgroup.subtree_control", "+cpu");
			cgroup_write_text(parent, "cgroup.subtree_control", "+pids");
			cgroup_write_text(parent, "cgroup.subtree_control", "+cpuset");
		}
		if (mkdir(dir, 0755) != 0 && errno != EEXIST)
			return -errno;
		if (!v2)
			inherit_cpuset(parent, dir);
		if (!c)
			break;
		*p = c;
	}
	snprintf(out, size, "%s", dir);
	return 0;
}

static void add_dir(struct cgroup_oci *cg, const char *mount, const char *path)
{
	char dir[PATH_MAX];

	if (cg->count == CGROUP_OCI_DIRS || access(mount, W_OK) != 0 ||
	    make_path(mount, path, cg->v2, dir, sizeof(dir)) != 0)
		return;
	cg->dirs[cg->count] = strdup(dir);
	cg->count += cg->dirs[cg->count] != NULL;
}

/* Hierarchies as mounted here. A version 2 beside version 1 carries no limits, and is left alone. */
static void make_dirs(struct cgroup_oci *cg, const char *path)
{
	char line[PATH_MAX + 512];
	FILE *f;

	if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0) {
		cg->v2 = 1;
		add_dir(cg, "/sys/fs/cgroup", path);
		return;
	}
	f = fopen("/proc/self/mountinfo", "re");
	while (f && fgets(line, sizeof(line), f)) {
		char point[PATH_MAX], type[64], *dash = strstr(line, " - ");

		if (dash && sscanf(dash, " - %63s", type) == 1 && !strcmp(type, "cgroup") &&
		    sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1)
			add_dir(cg, point, path);
	}
	if (f)
		fclose(f);
}

/* The directory whose mount point's last part lists the controller ("cpu,cpuacct" for cpu). */
static const char *dir_of(const struct cgroup_oci *cg, const char *controller)
{
	for (int i = 0; i < cg->count; i++) {
		const char *p = cg->dirs[i];

		if (cg->v2)
			return p;
		if (strncmp(p, "/sys/fs/cgroup/", 15) != 0)
			continue;
		for (p += 15; *p && *p != '/'; p += strcspn(p, ",/") + (p[strcspn(p, ",/")] == ',')) {
			size_t n = strcspn(p, ",/");

			if (n == strlen(controller) && !strncmp(p, controller, n))
				return cg->dirs[i];
			if (p[n] == '/')
				break;
		}
	}
	return NULL;
}

struct setting {
	const struct cgroup_oci *cg;
	char *why;
	size_t size;
	int failed;
};

static void set_number(struct setting *t, const char *controller, const char *file, int64_t v,
		       const char *path)
{
	const char *dir = dir_of(t->cg, controller);
	int err = dir ? cgroup_write_number(dir, file, v) : -ENOENT;

	if (err && !t->failed) {
		t->failed = 1;
		snprintf(t->why, t->size, "linux.resources.%s: writing %lld to %s: %s", path, (long long)v, file,
			 strerror(-err));
	}
}

static void set_text(struct setting *t, const char *controller, const char *file, const char *v,
		     const char *path)
{
	const char *dir = dir_of(t->cg, controller);
	int err = dir ? cgroup_write_text(dir, file, v) : -ENOENT;

	if (err && !t->failed) {
		t->failed = 1;
		snprintf(t->why, t->size, "linux.resources.%s: writing %s to %s: %s", path, v, file,
			 strerror(-err));
	}
}

static int has(struct json_object *o, const char *key, int64_t *v)
{
	struct json_object *m = spec_get(o, key);

	if (!m || !json_object_is_type(m, json_type_int))
		return 0;
	*v = json_object_get_int64(m);
	return 1;
}

static int64_t roomy(int64_t v)
{
	return v > 0 && v < INT64_MAX / 2 ? v + MEMORY_HEADROOM : -1;
}

static void apply_memory(struct setting *t, struct json_object *m)
{
	int64_t limit, swap, v;
	int have_limit = has(m, "limit", &limit) && limit, have_swap = has(m, "swap", &swap) && swap;

	if (t->cg->v2) {
		if (have_limit)
			roomy(limit) < 0 ? set_text(t, "memory", "memory.max", "max", "memory.limit")
					 : set_number(t, "memory", "memory.max", roomy(limit), "memory.limit");
		if (has(m, "reservation", &v) && v > 0)
			set_number(t, "memory", "memory.low", v, "memory.reservation");
		return;
	}
	const char *dir = dir_of(t->cg, "memory");

	/* The pair is ordered: the sum may not fall below memory. A machine without swap accounting
	 * has no file for it. */
	if (have_limit && dir && !have_swap)
		cgroup_write_number(dir, "memory.memsw.limit_in_bytes", -1);
	if (have_swap && dir)
		cgroup_write_number(dir, "memory.memsw.limit_in_bytes", -1);
	if (have_limit)
		set_number(t, "memory", "memory.limit_in_bytes", roomy(limit), "memory.limit");
	if (have_swap && dir)
		cgroup_write_number(dir, "memory.memsw.limit_in_bytes", roomy(swap));
	if (has(m, "reservation", &v) && v)
		set_number(t, "memory", "memory.soft_limit_in_bytes", v, "memory.reservation");
}

static void apply_cpu(struct setting *t, struct json_object *c)
{
	struct json_object *s;
	int64_t shares, quota = -1, period = 100000;
	int have_period = has(c, "period", &period) && period, have_quota = has(c, "quota", &quota) && quota;
	char text[64];

	if (has(c, "shares", &shares) && shares) {
		if (t->cg->v2)
			set_number(t, "cpu", "cpu.weight", 1 + ((shares - 2) * 9999) / 262142, "cpu.shares");
		else
			set_number(t, "cpu", "cpu.shares", shares, "cpu.shares");
	}
	if (t->cg->v2 && (have_period || have_quota)) {
		if (quota > 0)
			snprintf(text, sizeof(text), "%lld %lld", (long long)quota, (long long)period);
		else
			snprintf(text, sizeof(text), "max %lld", (long long)period);
		set_text(t, "cpu", "cpu.max", text, "cpu.quota");
	} else if (!t->cg->v2) {
		if (have_period)
			set_number(t, "cpu", "cpu.cfs_period_us", period, "cpu.period");
		if (have_quota)
			set_number(t, "cpu", "cpu.cfs_quota_us", quota < 0 ? -1 : quota, "cpu.quota");
	}
	if ((s = spec_get(c, "cpus")) && json_object_get_string_len(s))
		set_text(t, "cpuset", "cpuset.cpus", json_object_get_string(s), "cpu.cpus");
	if ((s = spec_get(c, "mems")) && json_object_get_string_len(s))
		set_text(t, "cpuset", "cpuset.mems", json_object_get_string(s), "cpu.mems");
}

static void apply_pids(struct setting *t, struct json_object *p)
{
	int64_t limit;

	if (!has(p, "limit", &limit) || !limit)
		return;
	if (limit < 0 || limit > 1000000)
		set_text(t, "pids", "pids.max", "max", "pids.limit");
	else
		set_number(t, "pids", "pids.max", 4 * limit + PIDS_HEADROOM, "pids.limit");
}

int cgroup_oci_apply(const struct cgroup_oci *cg, struct json_object *resources, char *why, size_t size)
{
	struct setting t = { .cg = cg, .why = why, .size = size };

	if (!cg->count || !resources)
		return 0;
	apply_memory(&t, spec_get(resources, "memory"));
	apply_cpu(&t, spec_get(resources, "cpu"));
	apply_pids(&t, spec_get(resources, "pids"));
	return t.failed ? -1 : 0;
}

int cgroup_oci_create(struct cgroup_oci *cg, const char *path, int systemd, struct json_object *resources,
		      char *why, size_t size)
{
	char own[PATH_MAX];

	memset(cg, 0, sizeof(*cg));
	if (!path || !*path)
		return 0;
	/* slice:prefix:name, as systemd would place it; no systemd is asked. */
	const char *c1 = systemd ? strchr(path, ':') : NULL, *c2 = c1 ? strchr(c1 + 1, ':') : NULL;

	if (c2)
		snprintf(own, sizeof(own), "/%.*s/%.*s-%s.scope", c1 > path ? (int)(c1 - path) : 12,
			 c1 > path ? path : "system.slice", (int)(c2 - c1 - 1), c1 + 1, c2 + 1);
	else
		snprintf(own, sizeof(own), "%s", path);
	if (strstr(own, "/../") || !strncmp(own, "../", 3) || strlen(own) > 2000) {
		snprintf(why, size, "linux.cgroupsPath: '%.200s' is not usable", own);
		return -1;
	}
	make_dirs(cg, own);
	if (!cg->count)
		return 0;
	if (cgroup_oci_apply(cg, resources, why, size) == 0)
		return 0;
	cgroup_oci_remove(cg);
	return -1;
}

void cgroup_oci_add(const struct cgroup_oci *cg, pid_t pid)
{
	for (int i = 0; i < cg->count; i++) {
		int err = cgroup_write_number(cg->dirs[i], "cgroup.procs", pid);

		if (err)
			warn("%s/cgroup.procs: %s", cg->dirs[i], strerror(-err));
	}
}

static void kill_all(const char *dir)
{
	char path[PATH_MAX];
	int pid;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	FILE *f = fopen(path, "re");

	while (f && fscanf(f, "%d", &pid) == 1)
		if (pid > 1)
			kill(pid, SIGKILL);
	if (f)
		fclose(f);
}

void cgroup_oci_remove(struct cgroup_oci *cg)
{
	for (int i = 0; i < cg->count; i++) {
		/* The kernel may still be ending the last process of the group. */
		for (int tries = 0; rmdir(cg->dirs[i]) != 0 && errno == EBUSY && tries < 100; tries++) {
			if (tries % 20 == 10)
				kill_all(cg->dirs[i]);
			usleep(5000);
		}
		free(cg->dirs[i]);
	}
	cg->count = 0;
}

struct json_object *cgroup_oci_to_json(const struct cgroup_oci *cg)
{
	struct json_object *a = json_object_new_array();

	for (int i = 0; i < cg->count; i++)
		json_object_array_add(a, json_object_new_string(cg->dirs[i]));
	return a;
}

void cgroup_oci_from_json(struct cgroup_oci *cg, struct json_object *o)
{
	memset(cg, 0, sizeof(*cg));
	cg->v2 = access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0;
	for (size_t i = 0; o && json_object_is_type(o, json_type_array) && i < json_object_array_length(o) &&
			   cg->count < CGROUP_OCI_DIRS; i++) {
		const char *dir = json_object_get_string(json_object_array_get_idx(o, i));

		if (dir && (cg->dirs[cg->count] = strdup(dir)))
			cg->count++;
	}
}

uint64_t cgroup_oci_read(const struct cgroup_oci *cg, const char *controller, const char *file, const char *key)
{
	const char *dir = dir_of(cg, controller);
	char path[PATH_MAX], name[64];
	unsigned long long v = 0;

	if (!dir)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	FILE *f = fopen(path, "re");

	if (f && !key && fscanf(f, "%llu", &v) != 1)
		v = 0;
	while (f && key && fscanf(f, "%63s %llu", name, &v) == 2 && strcmp(name, key))
		v = 0;
	if (f)
		fclose(f);
	return v;
}
