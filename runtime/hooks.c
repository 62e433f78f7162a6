/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of hooks.h. */
#include "runtime/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/spec.h"

static char **string_list(struct json_object *a, const char *first)
{
	size_t n = a && json_object_is_type(a, json_type_array) ? json_object_array_length(a) : 0;
	char **v = calloc(n + 2, sizeof(*v));

	if (!v)
		die(1, "out of memory");
	for (size_t i = 0; i < n; i++) {
		v[i] = (char *)(uintptr_t)json_object_get_string(json_object_array_get_idx(a, i));
		if (!v[i])
			v[i] = (char *)(uintptr_t)"";
	}
	if (!n && first)
		v[0] = (char *)(uintptr_t)first;
	return v;
}

/* Waits for the child, at most `seconds` (0: for ever); the wait status, -1 after killing it. */
static int await(pid_t pid, int64_t seconds)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), status = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int late = 0;

	if (seconds > 0 && fd >= 0)
		late = poll(&p, 1, seconds > 1000000 ? -1 : (int)seconds * 1000) == 0;
	if (late)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (fd >= 0)
		close(fd);
	return late ? -1 : status;
}

static int run_one(struct json_object *h, const char *name, const char *text)
{
	struct json_object *path = spec_get(h, "path"), *timeout = spec_get(h, "timeout");
	const char *file = path ? json_object_get_string(path) : NULL;
	int in[2];

	if (!file || file[0] != '/') {
		warn("hooks.%s: path is missing or not absolute", name);
		return -1;
	}
	char **argv = string_list(spec_get(h, "args"), file), **envp = string_list(spec_get(h, "env"), NULL);

	if (pipe2(in, O_CLOEXEC) != 0)
		die(1, "pipe: %s", strerror(errno));
	pid_t pid = fork();

	if (pid == 0) {
		dup2(in[0], 0);
		signal(SIGPIPE, SIG_DFL);
		syscall(SYS_close_range, 3, ~0u, 0);
		execve(file, argv, envp);
		_exit(127);
	}
	close(in[0]);
	signal(SIGPIPE, SIG_IGN);
	if (pid > 0 && write(in[1], text, strlen(text)) < 0 && errno != EPIPE)
		warn("hooks.%s: %s: %s", name, file, strerror(errno));
	close(in[1]);
	free(argv);
	free(envp);
	int status = pid < 0 ? -1 : await(pid, timeout ? json_object_get_int64(timeout) : 0);

	if (status != 0)
		warn("hooks.%s: %s failed (%s %d)", name, file,
		     status < 0 ? "timeout" : WIFSIGNALED(status) ? "signal" : "status",
		     status < 0 ? 0 : WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return status ? -1 : 0;
}

int hooks_run(struct json_object *hooks, const char *name, struct json_object *state)
{
	struct json_object *list = spec_get(hooks, name);
	const char *text = json_object_to_json_string_ext(state, JSON_C_TO_STRING_PLAIN);
	int err = 0;

	if (!list || !json_object_is_type(list, json_type_array))
		return 0;
	for (size_t i = 0; !err && i < json_object_array_length(list); i++)
		err = run_one(json_object_array_get_idx(list, i), name, text);
	return err;
}
