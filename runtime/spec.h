/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json of a bundle, read whole and turned into the sandbox's two configurations. A value
 * that is wrong, or that Caisson does not have, is an error that names its JSON path. The text is
 * not trusted: bounds on size and depth, types checked, nothing here ends the process.
 */
#ifndef CAISSON_RUNTIME_SPEC_H
#define CAISSON_RUNTIME_SPEC_H

#include <json-c/json.h>
#include <stdint.h>

#include "platform/base/bootconf.h"
#include "runtime/egress.h"

#define SPEC_SIZE_MAX (16u << 20)
#define SPEC_BINDS_MAX 500
#define SPEC_MOUNTS_MAX 2000

/* Namespaces that can be another container's. */
enum spec_ns { SPEC_NS_NET, SPEC_NS_PID, SPEC_NS_IPC, SPEC_NS_UTS, SPEC_NS_COUNT };

struct spec_error {
	char text[700];
};

struct spec {
	struct json_object *json;   /* the whole, owned */
	struct json_object *resources; /* borrowed; linux.resources, or NULL */
	struct json_object *hooks;  /* borrowed or NULL */
	struct bootconf sentry;	    /* process, mounts, paths; without fds */
	struct bootconf gofer;	    /* attach points; without capabilities */
	char *rootfs;		    /* absolute; owned */
	int root_readonly;
	int overlay;		    /* in: writes stay in the sandbox */
	int any_writable;	    /* an attach point that may be written */
	uint32_t attach_count;
	int terminal;
	uint16_t rows, cols;
	const char *cgroups_path;   /* borrowed or NULL */
	struct {
		const char *path; /* borrowed or NULL */
		int listed, index; /* its place in linux.namespaces */
	} ns[SPEC_NS_COUNT];
	int new_netns;		    /* a network namespace without a path */
	int userns;
	char uid_map[2048], gid_map[2048]; /* of linux.uidMappings; "" without */
	int oom_score_adj, have_oom_score_adj;
	uint64_t memory, pids;	    /* limits, 0: none */
	struct egress_options network; /* strings borrowed from json */
	const char *network_rules;
};

/* Reads text; relative paths start at bundle, an absolute directory. 0, or -1 with e filled. */
int spec_parse(struct spec *s, const char *text, size_t len, const char *bundle, struct spec_error *e);
void spec_free(struct spec *s);

/* ---- spec_process.c ---- */

/* A process object as keys of spawn (docs/bootconf.md); path is its JSON path for messages. */
int spec_process(struct json_object *p, const char *path, struct bootconf *out, struct spec_error *e);

/* ---- spec_network.c ---- */

int spec_network(struct spec *s, struct spec_error *e);

/* ---- spec_mounts.c ---- */

int spec_mounts(struct spec *s, const char *bundle, struct spec_error *e);

/* ---- spec_seccomp.c ---- */

/* linux.seccomp as key seccomp= (hexadecimal BPF). */
int spec_seccomp(struct json_object *o, struct bootconf *out, struct spec_error *e);

/* ---- helpers (spec_json.c) ---- */

__attribute__((format(printf, 3, 4))) int spec_fail(struct spec_error *e, const char *path,
						     const char *fmt, ...); /* always -1 */
/* A member; NULL when absent or null. */
struct json_object *spec_get(struct json_object *o, const char *key);
/* The member must have the type, or be absent (NULL in *out): 0 or -1. */
int spec_want(struct json_object *o, const char *path, const char *key, enum json_type type,
	      struct json_object **out, struct spec_error *e);
/* Strings without embedded NUL; NULL when absent. */
int spec_text(struct json_object *o, const char *path, const char *key, const char **out,
	      struct spec_error *e);
/* A whole number from min to max; *out stays when absent. */
int spec_int(struct json_object *o, const char *path, const char *key, int64_t min, int64_t max,
	     int64_t *out, struct spec_error *e);
int spec_bool(struct json_object *o, const char *path, const char *key, int *out, struct spec_error *e);
/* An array of strings; *n entries. */
int spec_strings(struct json_object *o, const char *path, const char *key, struct json_object **out,
		 size_t *n, struct spec_error *e);
const char *spec_item(struct json_object *array, size_t i);
/* Adds to a configuration. */
int spec_add(struct bootconf *bc, const char *path, const char *key, const char *value,
	     struct spec_error *e);
/* All of a file, at most SPEC_SIZE_MAX, NUL-terminated; NULL with e filled. */
char *spec_read_file(int dir, const char *name, size_t *len, struct spec_error *e);
struct json_object *spec_json(const char *text, size_t len, const char *what, struct spec_error *e);

#endif
