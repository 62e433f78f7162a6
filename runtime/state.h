/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers on disk: ROOT/ID/ (0700), with state.json, and control.sock, where the container's
 * waiter listens. The directory is locked (flock) while a command works on it. Whether a container
 * lives is never read from the file: the recorded pid, with its start time, decides.
 */
#ifndef CAISSON_RUNTIME_STATE_H
#define CAISSON_RUNTIME_STATE_H

#include <json-c/json.h>
#include <stdint.h>
#include <sys/types.h>

#define STATE_ID_MAX 255

struct state {
	char id[STATE_ID_MAX + 1];
	int dir;		  /* O_DIRECTORY fd of ROOT/ID */
	struct json_object *json; /* state.json; NULL when creation did not get that far */
};

/* Letters, digits and _ + - . ; not "." or ".."; no leading dash. */
int state_id_valid(const char *id);
/* A fresh directory, locked. Ends the process when the id is taken or invalid. */
void state_create(struct state *s, const char *id);
/* Opens and, when lock is set, locks. 0, or -ENOENT: no such container. Dies on anything odd. */
int state_open(struct state *s, const char *id, int lock);
void state_close(struct state *s);
/* Writes s->json, atomically. 0 or negative errno. */
int state_save(struct state *s);
/* Removes the directory. */
void state_remove(struct state *s);

/* The recorded process: 0 when there is none, it is gone, or it is a zombie. */
pid_t state_pid(const struct state *s);
const char *state_text(const struct state *s, const char *key); /* "" when absent */
/* Field 22 of /proc/PID/stat, and 'Z' or 'X' as *dead. 0: no such process. */
uint64_t state_start_time(pid_t pid, int *dead);
/* Calls fn for each id below the root. */
void state_each(void (*fn)(const char *id, void *arg), void *arg);

#endif
