/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host cgroup of a container, at the path its configuration names: a directory in every
 * hierarchy of version 1, or one of version 2. Sentry, gofer, stubs and waiter are all in it, so
 * that what engines read there is the whole cost of the container. Limits of processes and memory
 * get headroom, because the sandbox enforces the exact ones inside.
 */
#ifndef CAISSON_RUNTIME_CGROUP_OCI_H
#define CAISSON_RUNTIME_CGROUP_OCI_H

#include <json-c/json.h>
#include <sys/types.h>

#define CGROUP_OCI_DIRS 20

struct cgroup_oci {
	char *dirs[CGROUP_OCI_DIRS]; /* absolute; owned */
	int count;
	int v2;
};

/*
 * Makes the directories and sets the limits. Where there are no rights to (rootless) nothing is made.
 * 0, or -1 with `why` filled when a limit that was asked for could not be set.
 */
int cgroup_oci_create(struct cgroup_oci *cg, const char *path, int systemd, struct json_object *resources,
		      char *why, size_t size);
int cgroup_oci_apply(const struct cgroup_oci *cg, struct json_object *resources, char *why, size_t size);
void cgroup_oci_add(const struct cgroup_oci *cg, pid_t pid);
/* Kills what is left in it and removes the directories. */
void cgroup_oci_remove(struct cgroup_oci *cg);
/* To and from the state file. */
struct json_object *cgroup_oci_to_json(const struct cgroup_oci *cg);
void cgroup_oci_from_json(struct cgroup_oci *cg, struct json_object *o);
/* A number in a file of the controller's directory; 0 when there is none. */
uint64_t cgroup_oci_read(const struct cgroup_oci *cg, const char *controller, const char *file, const char *key);

#endif
