/* SPDX-License-Identifier: Apache-2.0 */
/* Host cgroups of cgroup.h: directory per sandbox below the caller's own cgroup. */
#include "runtime/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cgroup_file.h"
#include "runtime/error.h"

#define CPU_PERIOD_US 100000
/* Sentry, gofer, stub processes and tables beyond what the guest itself may use. */
#define MEMORY_HEADROOM (32ull << 20)
#define PIDS_HEADROOM 64

/* The caller's path in the hierarchy of `controller` ("" for v2): line "N:controllers:path". */
static int own_path(const char *controller, char *out, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX + 128];
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		char *save;

		if (!*controller && !list[1])
			found = 1;
		for (char *c = strtok_r(list + 1, ",", &save); c && *controller;
		     c = strtok_r(NULL, ",", &save))
			if (!strcmp(c, controller))
				found = 1;
		if (found)
			snprintf(out, size, "%s", strcmp(path, "/") ? path : "");
	}
	if (f)
		fclose(f);
	return found;
}

static char *make_dir(const char *root, const char *own)
{
	struct timespec ts;
	char *dir;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (asprintf(&dir, "%s%s/caisson-%d-%lx", root, own, (int)getpid(), (unsigned long)ts.tv_nsec) < 0)
		return NULL;
	if (mkdir(dir, 0755) == 0)
		return dir;
	free(dir);
	return NULL;
}

static int create_v2(struct cgroup *cg, uint64_t memory, double cpus, uint64_t pids)
{
	char own[PATH_MAX], text[64];

	if (access("/sys/fs/cgroup/cgroup.controllers", R_OK) != 0 || !own_path("", own, sizeof(own)))
		return -ENOENT;
	/* A cgroup that holds processes can not hand controllers down, the root excepted: then the
	 * sandbox goes beside the caller's own. */
	char *slash = strrchr(own, '/');

	if (slash)
		*slash = '\0';
	char parent[PATH_MAX + 32];

	snprintf(parent, sizeof(parent), "/sys/fs/cgroup%s", own);
	cgroup_write_text(parent, "cgroup.subtree_control", "+memory");
	cgroup_write_text(parent, "cgroup.subtree_control", "+cpu");
	cgroup_write_text(parent, "cgroup.subtree_control", "+pids");
	char *dir = make_dir("/sys/fs/cgroup", own);

	if (!dir)
		return -EACCES;
	cg->v2 = 1;
	cg->dirs[cg->count++] = dir;
	cg->memory_dir = dir;
	int err = memory ? cgroup_write_number(dir, "memory.max", memory + MEMORY_HEADROOM) : 0;

	if (memory)
		cgroup_write_number(dir, "memory.swap.max", 0);
	if (!err && pids)
		err = cgroup_write_number(dir, "pids.max", 2 * pids + PIDS_HEADROOM);
	if (!err && cpus > 0) {
		snprintf(text, sizeof(text), "%llu %d", (unsigned long long)(cpus * CPU_PERIOD_US),
			 CPU_PERIOD_US);
		err = cgroup_write_text(dir, "cpu.max", text);
	}
	return err;
}

static char *create_v1_dir(struct cgroup *cg, const char *controller)
{
	char own[PATH_MAX], root[64];

	snprintf(root, sizeof(root), "/sys/fs/cgroup/%s", controller);
	if (access(root, W_OK) != 0 || !own_path(controller, own, sizeof(own)))
		return NULL;
	char *dir = make_dir(root, own);

	if (dir)
		cg->dirs[cg->count++] = dir;
	return dir;
}

static int create_v1(struct cgroup *cg, uint64_t memory, double cpus, uint64_t pids)
{
	int err = 0;

	if (memory) {
		cg->memory_dir = create_v1_dir(cg, "memory");
		err = cg->memory_dir ? cgroup_write_number(cg->memory_dir, "memory.limit_in_bytes",
						    memory + MEMORY_HEADROOM)
				     : -EACCES;
		if (!err)
			cgroup_write_number(cg->memory_dir, "memory.memsw.limit_in_bytes", memory + MEMORY_HEADROOM);
	}
	if (!err && cpus > 0) {
		char *dir = create_v1_dir(cg, "cpu");

		err = dir ? cgroup_write_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US) : -EACCES;
		if (!err)
			err = cgroup_write_number(dir, "cpu.cfs_quota_us", (uint64_t)(cpus * CPU_PERIOD_US));
	}
	if (!err && pids) {
		char *dir = create_v1_dir(cg, "pids");

		err = dir ? cgroup_write_number(dir, "pids.max", 2 * pids + PIDS_HEADROOM) : -EACCES;
	}
	return err;
}

void cgroup_create(struct cgroup *cg, uint64_t memory, double cpus, uint64_t pids)
{
	memset(cg, 0, sizeof(*cg));
	if (!memory && !(cpus > 0) && !pids)
		return;
	int err = create_v2(cg, memory, cpus, pids);

	if (err == -ENOENT)
		err = create_v1(cg, memory, cpus, pids);
	if (err)
		warn("no host cgroup for the limits (%s); they hold inside the sandbox only", strerror(-err));
}

void cgroup_add(const struct cgroup *cg, pid_t pid)
{
	for (int i = 0; i < cg->count; i++) {
		int err = cgroup_write_number(cg->dirs[i], "cgroup.procs", (uint64_t)pid);

		if (err)
			warn("%s/cgroup.procs: %s", cg->dirs[i], strerror(-err));
	}
}

int cgroup_oom_killed(const struct cgroup *cg)
{
	char path[PATH_MAX], key[64];
	unsigned long long v;
	int hit = 0;

	if (!cg->memory_dir)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", cg->memory_dir, cg->v2 ? "memory.events" : "memory.oom_control");
	FILE *f = fopen(path, "re");

	while (f && fscanf(f, "%63s %llu", key, &v) == 2)
		hit |= !strcmp(key, "oom_kill") && v > 0;
	if (f)
		fclose(f);
	return hit;
}

void cgroup_remove(struct cgroup *cg)
{
	for (int i = 0; i < cg->count; i++) {
		/* The kernel may still be ending the last process of the group. */
		for (int tries = 0; rmdir(cg->dirs[i]) != 0 && errno == EBUSY && tries < 200; tries++)
			usleep(5000);
		free(cg->dirs[i]);
	}
	memset(cg, 0, sizeof(*cg));
}
