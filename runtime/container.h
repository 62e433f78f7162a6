/* SPDX-License-Identifier: Apache-2.0 */
/* Containers as whole things: making, asking, ending them. Everything here ends the process with
 * runc's words on failure, unless said otherwise. */
#ifndef CAISSON_RUNTIME_CONTAINER_H
#define CAISSON_RUNTIME_CONTAINER_H

#include <sys/types.h>

#include "platform/base/bootconf.h"
#include "runtime/state.h"

struct container_options {
	const char *bundle, *pid_file, *console_socket;
	int preserve_fds;
	int no_pivot, no_new_keyring, no_subreaper, detach, keep; /* some only accepted */
	int foreground; /* `run` stays: it relays the terminal itself */
	int *master;	/* with foreground: where the terminal's master is put, or -1 */
};

/* Makes it up to "created"; the waiter's pid, a child of the caller. */
pid_t container_create(const char *id, const struct container_options *o);
/* Lets its program run. */
void container_start(struct state *s);
/* "creating", "created", "running", "paused" or "stopped". */
const char *container_status(const struct state *s);
/* Opens or dies with "container does not exist". */
void container_open(struct state *s, const char *id, int lock);
/* Asks a living container; dies with its words, or ours. buf: CLIENT_MESSAGE_MAX, behind *answer. */
void container_ask(struct state *s, const char *cmd, char *buf, struct bootconf *answer);
/* Kills what lives, removes cgroups and the directory, runs poststop hooks. */
void container_destroy(struct state *s);
/* The state object of the specification; the caller puts it. */
struct json_object *container_state_json(const struct state *s, const char *status);
/* A terminal: sends the master to the socket, returns the slave (raw). */
int container_console(const char *socket_path, unsigned rows, unsigned cols);
/* A terminal of our own with a raw slave: the master. */
int container_pty(int *slave, unsigned rows, unsigned cols);
void container_pid_file(const char *path, pid_t pid);
/* A path from the caller as an absolute one that exists; owned by the caller. */
char *container_bundle(const char *bundle);

#endif
