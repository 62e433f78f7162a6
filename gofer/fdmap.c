/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of nodes the client holds, and the O_PATH fds behind them. Neighbours: host.c opens,
 * hide.c knows the deny list, op_*.c are the requests.
 *
 * Theory of operation. A node is a name below another node together with the identity (device,
 * inode, type) found there. It may hold an O_PATH fd; those fds are a cache in LRU order because
 * a process gets far fewer fds than a client gets nodes. A dropped fd is opened again by walking
 * from the nearest ancestor that has one, one component at a time, and each step must find the
 * identity recorded for it, else ESTALE. So neither the client nor somebody who shuffles names on
 * the host can make a node stand for something else than what its walk reported.
 *
 * A node lives while the client has references or while it has kids. Slots, names and the hash
 * are carved from memory reserved at start: pages are touched as they are needed and the serving
 * process never calls the allocator.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gofer/gofer.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"

#define NAME_CLASSES 4
static const uint16_t g_name_class[NAME_CLASSES] = { 16, 32, 64, 256 };

static void *reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct gofer *gofer_new(void)
{
	struct gofer *g = reserve(sizeof(*g));
	struct rlimit rl;

	if (!g)
		return NULL;
	/* Where address space is rationed a smaller table still serves most trees. */
	for (uint32_t cap = NODE_LIMIT; cap >= 4096; cap /= 4) {
		g->node = reserve((size_t)cap * sizeof(*g->node));
		g->hash = reserve((size_t)cap * sizeof(*g->hash));
		g->name_cap = (size_t)cap * 64;
		g->name_arena = reserve(g->name_cap);
		g->node_cap = cap;
		if (g->node && g->hash && g->name_arena)
			break;
		gofer_free(g);
		g = reserve(sizeof(*g));
		if (!g)
			return NULL;
	}
	g->hide = reserve(sizeof(*g->hide) * HIDE_MAX);
	if (!g->node || !g->hide) {
		gofer_free(g);
		return NULL;
	}
	g->phase = PHASE_START;
	g->hash_mask = g->node_cap - 1;
	g->node_used_end = 1;
	g->hide_count = 1;
	g->stream.fd = -1;
	g->fd_max = 1024;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0)
		g->fd_max = rl.rlim_cur > 65536 ? 65536 : (uint32_t)rl.rlim_cur;
	/* Room for the attach points, the socket, the log and what one request opens. */
	g->fd_max = g->fd_max > 128 ? g->fd_max - g->fd_max / 4 - 32 : 32;
	return g;
}

void gofer_free(struct gofer *g)
{
	if (!g)
		return;
	if (g->node) {
		for (uint32_t i = 1; i < g->node_used_end; i++)
			if (g->node[i].parent && g->node[i].fd >= 0)
				close(g->node[i].fd);
		munmap(g->node, (size_t)g->node_cap * sizeof(*g->node));
	}
	for (size_t i = 0; i < g->attach_count; i++) {
		close(g->attach[i].root_fd);
		if (g->attach[i].ro_fd >= 0)
			close(g->attach[i].ro_fd);
		if (g->attach[i].rw_fd >= 0)
			close(g->attach[i].rw_fd);
	}
	if (g->node_cap && g->stream.nid)
		close(g->stream.fd);
	if (g->hash)
		munmap(g->hash, (size_t)g->node_cap * sizeof(*g->hash));
	if (g->name_arena)
		munmap(g->name_arena, g->name_cap);
	if (g->hide)
		munmap(g->hide, sizeof(*g->hide) * HIDE_MAX);
	munmap(g, sizeof(*g));
}

/* ---- names ---- */

static unsigned int name_class(size_t len)
{
	unsigned int c = 0;

	while (len + 1 > g_name_class[c])
		c++;
	return c;
}

static char *name_new(struct gofer *g, const char *name, size_t len)
{
	unsigned int c = name_class(len);
	char *p = g->name_free[c];

	if (p) {
		memcpy(&g->name_free[c], p, sizeof(char *));
	} else {
		if (g->name_cap - g->name_used < g_name_class[c])
			return NULL;
		p = g->name_arena + g->name_used;
		g->name_used += g_name_class[c];
	}
	memcpy(p, name, len);
	p[len] = '\0';
	return p;
}

static void name_free(struct gofer *g, char *p, size_t len)
{
	unsigned int c = name_class(len);

	memcpy(p, &g->name_free[c], sizeof(char *));
	g->name_free[c] = p;
}

/* ---- the hash of (parent, name) ---- */

static uint32_t *bucket(struct gofer *g, uint32_t parent, const char *name, size_t len)
{
	return &g->hash[hash_bytes(name, len, parent) & g->hash_mask];
}

uint32_t node_cached(struct gofer *g, uint32_t dir, const char *name, size_t len)
{
	for (uint32_t i = *bucket(g, dir, name, len); i; i = g->node[i].hash_next) {
		struct node *n = &g->node[i];

		if (n->parent == dir && n->name_len == len && !memcmp(n->name, name, len))
			return i;
	}
	return 0;
}

static void hash_add(struct gofer *g, struct node *n)
{
	uint32_t *b = bucket(g, n->parent, n->name, n->name_len);

	n->hash_next = *b;
	*b = node_id(g, n);
	n->flags |= NODE_HASHED;
}

static void hash_del(struct gofer *g, struct node *n)
{
	if (!(n->flags & NODE_HASHED))
		return;
	uint32_t *at = bucket(g, n->parent, n->name, n->name_len);
	uint32_t me = node_id(g, n);

	while (*at != me)
		at = &g->node[*at].hash_next;
	*at = n->hash_next;
	n->flags &= (uint8_t)~NODE_HASHED;
}

/* ---- the LRU ring of droppable fds ---- */

static void lru_del(struct gofer *g, struct node *n)
{
	uint32_t me = node_id(g, n);

	if (!n->lru_next)
		return;
	if (n->lru_next == me) {
		g->lru = 0;
	} else {
		g->node[n->lru_prev].lru_next = n->lru_next;
		g->node[n->lru_next].lru_prev = n->lru_prev;
		if (g->lru == me)
			g->lru = n->lru_next;
	}
	n->lru_next = n->lru_prev = 0;
}

static void lru_add(struct gofer *g, struct node *n)
{
	uint32_t me = node_id(g, n);

	if (!g->lru) {
		n->lru_next = n->lru_prev = me;
	} else {
		struct node *head = &g->node[g->lru];

		n->lru_next = g->lru;
		n->lru_prev = head->lru_prev;
		g->node[head->lru_prev].lru_next = me;
		head->lru_prev = me;
	}
	g->lru = me;
}

/* #hostcalls: close */
static void fd_drop(struct gofer *g, struct node *n)
{
	if (n->fd < 0 || !n->parent)
		return;
	close(n->fd);
	n->fd = -1;
	g->fd_count--;
	if (!n->lru_next && (n->flags & NODE_GONE))
		g->gone_count--;
	lru_del(g, n);
}

/* Makes room for one more fd. */
static int fd_room(struct gofer *g)
{
	while (g->fd_count >= g->fd_max) {
		uint32_t i = g->lru ? g->node[g->lru].lru_prev : 0, first = i;

		while (i && g->node[i].pins) {
			i = g->node[i].lru_prev;
			if (i == first)
				i = 0;
		}
		if (!i)
			return -EMFILE;
		fd_drop(g, &g->node[i]);
	}
	return 0;
}

static int same_object(const struct node *n, const struct statx *st)
{
	return n->dev == host_dev(st) && n->ino == st->stx_ino &&
	       n->type == (st->stx_mode & S_IFMT);
}

/* Opens n below its parent, which has an fd. */
static int fd_reopen(struct gofer *g, struct node *n)
{
	struct node *dir = &g->node[n->parent];
	struct statx st;

	if (n->flags & NODE_GONE)
		return -ESTALE;
	dir->pins++;
	int err = fd_room(g);
	int fd = err ? err : host_open(dir->fd, n->name, O_PATH, 0);

	dir->pins--;
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
	err = host_stat(fd, "", &st);
	if (!err && !same_object(n, &st))
		err = -ESTALE;
	if (err) {
		close(fd);
		return err;
	}
	n->fd = fd;
	g->fd_count++;
	lru_add(g, n);
	return 0;
}

int node_pin(struct gofer *g, struct node *n)
{
	uint32_t chain[NODE_DEPTH_MAX + 1];
	size_t count = 0;

	/* Renames of whole subtrees can make chains longer than any walk, or even a ring. */
	for (struct node *at = n; at->fd < 0; at = &g->node[at->parent]) {
		if (count > NODE_DEPTH_MAX)
			return -ESTALE;
		chain[count++] = node_id(g, at);
	}
	while (count) {
		int err = fd_reopen(g, &g->node[chain[--count]]);

		if (err)
			return err;
	}
	if (n->lru_next) {
		lru_del(g, n);
		lru_add(g, n);
	}
	n->pins++;
	return n->fd;
}

void node_unpin(struct gofer *g, struct node *n)
{
	(void)g;
	n->pins--;
}

/* ---- life ---- */

struct node *node_find(struct gofer *g, uint32_t nid)
{
	if (nid == 0 || nid >= g->node_used_end || g->node[nid].refs == 0)
		return NULL;
	host_act_for(g, &g->attach[g->node[nid].attach]);
	return &g->node[nid];
}

static struct node *node_new(struct gofer *g)
{
	uint32_t i = g->node_free;

	if (i)
		g->node_free = g->node[i].hash_next;
	else if (g->node_used_end < g->node_cap)
		i = g->node_used_end++;
	else
		return NULL;
	struct node *n = &g->node[i];

	memset(n, 0, sizeof(*n));
	n->fd = -1;
	n->flags = NODE_USED;
	g->node_count++;
	return n;
}

static void node_identity(struct node *n, const struct statx *st)
{
	n->dev = host_dev(st);
	n->ino = st->stx_ino;
	n->mnt = st->stx_mask & STATX_MNT_ID ? st->stx_mnt_id : 0;
	n->type = st->stx_mode & S_IFMT;
	n->refs = 1;
}

int64_t node_get_root(struct gofer *g, struct attach *at, const struct statx *st)
{
	struct node *n = node_new(g);

	if (!n)
		return -ENFILE;
	node_identity(n, st);
	n->fd = at->root_fd;
	n->attach = (uint16_t)(at - g->attach);
	n->hide = at->hide;
	return node_id(g, n);
}

int64_t node_get_child(struct gofer *g, uint32_t dir, const char *name, size_t len,
		       const struct statx *st, uint32_t hide)
{
	struct node *parent = &g->node[dir];
	uint32_t old = node_cached(g, dir, name, len);

	if (old) {
		struct node *n = &g->node[old];

		if (same_object(n, st) && n->refs < UINT32_MAX) {
			n->refs++;
			return old;
		}
		hash_del(g, n); /* the name stands for something else now */
	}
	if (parent->depth >= NODE_DEPTH_MAX)
		return -ENAMETOOLONG;
	char *copy = name_new(g, name, len);

	if (!copy)
		return -ENFILE;
	struct node *n = node_new(g);

	if (!n) {
		name_free(g, copy, len);
		return -ENFILE;
	}
	node_identity(n, st);
	n->name = copy;
	n->name_len = (uint8_t)len;
	n->parent = dir;
	n->attach = parent->attach;
	n->depth = (uint16_t)(parent->depth + 1);
	n->hide = hide;
	parent->kids++;
	hash_add(g, n);
	/* The root of another mount: is it a tree of kernel interfaces? Symlinks are no mounts. */
	if ((n->mnt != parent->mnt || n->dev != parent->dev) && n->type != S_IFLNK) {
		int fd = node_pin(g, n);

		if (fd < 0) {
			node_forget(g, node_id(g, n), 1);
			return fd;
		}
		if (host_is_kernel_fs(fd))
			n->flags |= NODE_BARRIER;
		node_unpin(g, n);
	}
	return node_id(g, n);
}

static void stream_close(struct gofer *g)
{
	if (g->stream.nid)
		close(g->stream.fd);
	g->stream.nid = 0;
	g->stream.fd = -1;
}

int node_forget(struct gofer *g, uint32_t nid, uint32_t count)
{
	struct node *n = node_find(g, nid);

	if (!n || count > n->refs)
		return -EINVAL;
	n->refs -= count;
	while (n->refs == 0 && n->kids == 0) {
		uint32_t parent = n->parent, me = node_id(g, n);

		if (g->stream.nid == me)
			stream_close(g);
		hash_del(g, n);
		fd_drop(g, n);
		if (n->name)
			name_free(g, n->name, n->name_len);
		memset(n, 0, sizeof(*n));
		n->fd = -1;
		n->hash_next = g->node_free;
		g->node_free = me;
		g->node_count--;
		if (!parent)
			break;
		n = &g->node[parent];
		n->kids--;
	}
	return 0;
}

/* ---- names changed through us ---- */

/*
 * Before (dir, name) is unlinked: the client may go on using the node it has, so make sure there
 * is an fd of it. Failure to open is not an error of the unlink.
 */
void node_unlink_prepare(struct gofer *g, uint32_t dir, const char *name, size_t len)
{
	uint32_t i = node_cached(g, dir, name, len);

	if (i && g->node[i].refs && node_pin(g, &g->node[i]) >= 0)
		node_unpin(g, &g->node[i]);
}

static void node_gone(struct gofer *g, struct node *n)
{
	hash_del(g, n);
	n->flags |= NODE_GONE;
	/* Keep the only way to it, unless too many are kept like that already. */
	if (n->fd >= 0 && n->lru_next && g->gone_count < g->fd_max / 4) {
		lru_del(g, n);
		g->gone_count++;
	}
}

void node_unlinked(struct gofer *g, uint32_t dir, const char *name, size_t len)
{
	uint32_t i = node_cached(g, dir, name, len);

	if (i)
		node_gone(g, &g->node[i]);
}

static void node_move(struct gofer *g, struct node *n, uint32_t dir, char *name, size_t len)
{
	uint32_t old = n->parent;

	n->name = name;
	n->name_len = (uint8_t)len;
	n->parent = dir;
	n->depth = (uint16_t)(g->node[dir].depth + 1);
	g->node[dir].kids++;
	g->node[old].kids--;
	hash_add(g, n);
}

void node_renamed(struct gofer *g, uint32_t olddir, const char *oldname, uint32_t newdir,
		  const char *newname, int exchange)
{
	size_t oldlen = strlen(oldname), newlen = strlen(newname);
	uint32_t a = node_cached(g, olddir, oldname, oldlen);
	uint32_t b = node_cached(g, newdir, newname, newlen);

	if (a == b && a)
		return;
	if (a)
		hash_del(g, &g->node[a]);
	if (b && !exchange) {
		node_gone(g, &g->node[b]);
		b = 0;
	} else if (b) {
		hash_del(g, &g->node[b]);
	}
	/* The depths of what lies below are not adjusted: node_pin bounds the real steps. */
	char *aname = a ? name_new(g, newname, newlen) : NULL;
	char *bname = b ? name_new(g, oldname, oldlen) : NULL;

	if (a && aname) {
		name_free(g, g->node[a].name, g->node[a].name_len);
		node_move(g, &g->node[a], newdir, aname, newlen);
	} else if (a) {
		g->node[a].flags |= NODE_GONE;
	}
	if (b && bname) {
		name_free(g, g->node[b].name, g->node[b].name_len);
		node_move(g, &g->node[b], olddir, bname, oldlen);
	} else if (b) {
		g->node[b].flags |= NODE_GONE;
	}
}
