/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach points and the deny list. Hidden names form one tree per attach point; a node carries
 * its place in that tree, so the check costs one step per component. What a hidden name stood
 * for at start is refused by identity as well, so a hard link elsewhere does not show it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/log.h"

/* An fd for the file itself: it has no parent here through which it could be opened later. */
static int open_file_root(const char *path, int root_fd, int flags)
{
	struct statx a, b;

	if (host_stat(root_fd, "", &a) || !S_ISREG(a.stx_mode))
		return -1;
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (host_stat(fd, "", &b) || a.stx_ino != b.stx_ino || host_dev(&a) != host_dev(&b)) {
		close(fd);
		return -1;
	}
	return fd;
}

int gofer_add_attach(struct gofer *g, uint32_t id, int root_fd, const char *path, uint32_t flags)
{
	struct statx st;

	if (g->attach_count == GOFER_ATTACH_MAX)
		return -E2BIG;
	for (size_t i = 0; i < g->attach_count; i++)
		if (g->attach[i].id == id)
			return -EEXIST;
	int err = host_stat(root_fd, "", &st);

	if (err)
		return err;
	if (S_ISDIR(st.stx_mode) ? (flags & ATTACH_FILE) : !(flags & ATTACH_FILE))
		return -ENOTDIR;
	if (S_ISLNK(st.stx_mode))
		return -ELOOP;
	if (host_is_kernel_fs(root_fd))
		return -EOPNOTSUPP;
	struct attach *at = &g->attach[g->attach_count++];

	at->id = id;
	at->flags = flags;
	at->root_fd = root_fd;
	at->ro_fd = at->rw_fd = -1;
	if (flags & ATTACH_FILE) {
		at->ro_fd = open_file_root(path, root_fd, O_RDONLY);
		if (!(flags & ATTACH_RDONLY))
			at->rw_fd = open_file_root(path, root_fd, O_RDWR);
	}
	return 0;
}

static uint32_t hide_child(const struct gofer *g, uint32_t at, const char *name, size_t len)
{
	uint32_t i = g->hide[at].child;

	while (i && (strncmp(g->hide[i].name, name, len) || g->hide[i].name[len]))
		i = g->hide[i].next;
	return i;
}

uint32_t hide_step(const struct gofer *g, uint32_t at, const char *name, size_t len, int *hidden)
{
	*hidden = 0;
	if (!at)
		return 0;
	uint32_t i = hide_child(g, at, name, len);

	if (i && g->hide[i].terminal)
		*hidden = 1;
	return i;
}

int hide_object(const struct gofer *g, uint64_t dev, uint64_t ino)
{
	for (uint32_t i = 0; i < g->hidden_count; i++)
		if (g->hidden[i].ino == ino && g->hidden[i].dev == dev)
			return 1;
	return 0;
}

static uint32_t hide_new(struct gofer *g, const char *name, size_t len)
{
	if (g->hide_count == HIDE_MAX)
		return 0;
	struct hide *h = &g->hide[g->hide_count];

	memcpy(h->name, name, len);
	h->name[len] = '\0';
	return g->hide_count++;
}

/* Remembers what rel stands for now, if anything. */
static void hide_remember(struct gofer *g, const struct attach *at, const char *rel)
{
	char name[GOFER_NAME_MAX + 1];
	int dir = at->root_fd;
	struct statx st;

	while (*rel) {
		size_t len = strcspn(rel, "/");

		memcpy(name, rel, len);
		name[len] = '\0';
		rel += len;
		rel += strspn(rel, "/");
		int fd = host_open(dir, name, O_PATH, 0);

		if (dir != at->root_fd)
			close(dir);
		if (fd < 0)
			return;
		dir = fd;
	}
	if (dir == at->root_fd)
		return;
	if (!host_stat(dir, "", &st) && g->hidden_count < HIDE_MAX) {
		g->hidden[g->hidden_count].dev = host_dev(&st);
		g->hidden[g->hidden_count++].ino = st.stx_ino;
	}
	close(dir);
}

int gofer_add_hide(struct gofer *g, uint32_t id, const char *rel)
{
	struct attach *at = NULL;

	for (size_t i = 0; i < g->attach_count; i++)
		if (g->attach[i].id == id)
			at = &g->attach[i];
	if (!at || (at->flags & ATTACH_FILE))
		return -EINVAL;
	rel += strspn(rel, "/");
	if (!*rel)
		return -EINVAL;
	if (!at->hide && !(at->hide = hide_new(g, "", 0)))
		return -E2BIG;
	uint32_t pos = at->hide;

	for (const char *p = rel; *p;) {
		size_t len = strcspn(p, "/");

		if (!gofer_name_valid(p, len))
			return -EINVAL;
		uint32_t next = hide_child(g, pos, p, len);

		if (!next) {
			next = hide_new(g, p, len);
			if (!next)
				return -E2BIG;
			g->hide[next].next = g->hide[pos].child;
			g->hide[pos].child = next;
		}
		pos = next;
		p += len;
		p += strspn(p, "/");
	}
	g->hide[pos].terminal = 1;
	hide_remember(g, at, rel);
	return 0;
}
