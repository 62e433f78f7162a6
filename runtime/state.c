/* SPDX-License-Identifier: Apache-2.0 */
/* The state store of state.h. */
#include "runtime/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/oci.h"

#define STATE_FILE "state.json"
#define STATE_SIZE_MAX (4u << 20)

int state_id_valid(const char *id)
{
	size_t n = strlen(id);

	if (!n || n > STATE_ID_MAX || id[0] == '-' || !strcmp(id, ".") || !strcmp(id, ".."))
		return 0;
	return strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-.") == n;
}

/* mkdir -p; parents as the umask has them, the last for its owner only. */
static int make_root(void)
{
	char path[4096];

	if ((size_t)snprintf(path, sizeof(path), "%s", g_oci.root) >= sizeof(path))
		return -ENAMETOOLONG;
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			if (mkdir(path, 0711) != 0 && errno != EEXIST)
				return -errno;
			*p = '/';
		}
	return mkdir(path, 0700) != 0 && errno != EEXIST ? -errno : 0;
}

/* An fd of the root directory; nobody else may be able to write in it. */
static int open_root(int create)
{
	struct stat st;
	int err = create ? make_root() : 0;
	int fd = err ? -1 : open(g_oci.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && !create && errno == ENOENT)
		return -1;
	if (fd < 0)
		die(1, "the state directory %s can not be used: %s", g_oci.root,
		    strerror(err ? -err : errno));
	if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022))
		die(1, "the state directory %s belongs to somebody else, or others may write to it",
		    g_oci.root);
	return fd;
}

static void check_id(const char *id)
{
	if (!state_id_valid(id))
		die(1, "invalid container id: '%s'", id);
}

static int open_dir(int root, const char *id)
{
	return openat(root, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* What an interrupted creation left: no state.json, and nobody holds the lock. */
static int is_leftover(int dir)
{
	return faccessat(dir, STATE_FILE, F_OK, 0) != 0 && errno == ENOENT &&
	       flock(dir, LOCK_EX | LOCK_NB) == 0;
}

void state_create(struct state *s, const char *id)
{
	int root, taken;

	check_id(id);
	memset(s, 0, sizeof(*s));
	snprintf(s->id, sizeof(s->id), "%s", id);
	root = open_root(1);
	taken = mkdirat(root, id, 0700) != 0;
	if (taken && errno != EEXIST)
		die(1, "%s/%s: %s", g_oci.root, id, strerror(errno));
	s->dir = open_dir(root, id);
	if (s->dir < 0)
		die(1, "%s/%s: %s", g_oci.root, id, strerror(errno));
	if (taken && !is_leftover(s->dir))
		die(1, "container with given ID already exists: %s", id);
	if (!taken && flock(s->dir, LOCK_EX) != 0)
		die(1, "%s/%s: %s", g_oci.root, id, strerror(errno));
	close(root);
}

static void load(struct state *s)
{
	int fd = openat(s->dir, STATE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size < (off_t)STATE_SIZE_MAX) {
		char *text = malloc((size_t)st.st_size + 1);
		ssize_t n = text ? read(fd, text, (size_t)st.st_size) : -1;

		if (n > 0) {
			text[n] = '\0';
			s->json = json_tokener_parse(text);
		}
		free(text);
	}
	close(fd);
	if (s->json && !json_object_is_type(s->json, json_type_object)) {
		json_object_put(s->json);
		s->json = NULL;
	}
}

int state_open(struct state *s, const char *id, int lock)
{
	int root;

	check_id(id);
	memset(s, 0, sizeof(*s));
	s->dir = -1;
	snprintf(s->id, sizeof(s->id), "%s", id);
	root = open_root(0);
	if (root < 0)
		return -ENOENT;
	s->dir = open_dir(root, id);
	close(root);
	if (s->dir < 0)
		return -ENOENT;
	if (lock && flock(s->dir, LOCK_EX) != 0)
		die(1, "%s/%s: %s", g_oci.root, id, strerror(errno));
	load(s);
	/* Deleted while we waited for the lock. */
	struct stat st;

	if (fstat(s->dir, &st) != 0 || st.st_nlink == 0) {
		state_close(s);
		return -ENOENT;
	}
	return 0;
}

void state_close(struct state *s)
{
	if (s->json)
		json_object_put(s->json);
	if (s->dir >= 0)
		close(s->dir);
	s->json = NULL;
	s->dir = -1;
}

int state_save(struct state *s)
{
	const char *text = json_object_to_json_string_ext(s->json, JSON_C_TO_STRING_PLAIN);
	int fd = openat(s->dir, STATE_FILE ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = errno ? -errno : -ENOSPC;
	if (close(fd) != 0 && !err)
		err = -errno;
	if (!err && renameat(s->dir, STATE_FILE ".new", s->dir, STATE_FILE) != 0)
		err = -errno;
	return err;
}

void state_remove(struct state *s)
{
	DIR *d = fdopendir(dup(s->dir));
	struct dirent *e;
	int root;

	rewinddir(d);
	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(s->dir, e->d_name, 0);
	if (d)
		closedir(d);
	root = open_root(0);
	if (root >= 0) {
		unlinkat(root, s->id, AT_REMOVEDIR);
		close(root);
	}
}

uint64_t state_start_time(pid_t pid, int *dead)
{
	char path[64], text[1024], kind;
	unsigned long long start = 0;
	int fd;

	*dead = 1;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* The name may hold anything; the last parenthesis ends it. */
	char *p = strrchr(text, ')');

	if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			 &kind, &start) != 2)
		return 0;
	*dead = kind == 'Z' || kind == 'X';
	return start;
}

pid_t state_pid(const struct state *s)
{
	struct json_object *v;
	int dead;

	if (!s->json || !json_object_object_get_ex(s->json, "pid", &v))
		return 0;
	int64_t pid = json_object_get_int64(v);

	if (pid < 1 || pid > INT32_MAX || !json_object_object_get_ex(s->json, "startTime", &v))
		return 0;
	uint64_t start = state_start_time((pid_t)pid, &dead);

	return start && !dead && start == json_object_get_uint64(v) ? (pid_t)pid : 0;
}

const char *state_text(const struct state *s, const char *key)
{
	struct json_object *v;

	if (!s->json || !json_object_object_get_ex(s->json, key, &v) ||
	    !json_object_is_type(v, json_type_string))
		return "";
	return json_object_get_string(v);
}

void state_each(void (*fn)(const char *id, void *arg), void *arg)
{
	int root = open_root(0);
	DIR *d = root < 0 ? NULL : fdopendir(root);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (state_id_valid(e->d_name))
			fn(e->d_name, arg);
	if (d)
		closedir(d);
}
