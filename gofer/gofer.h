/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gofer: a process that holds the directories a sandbox may see and works on them for the
 * sentry, which it does not believe. One thread, one `struct gofer`, no allocation after start.
 * Theory, phases and limits: gofer/PROTOCOL.md. Errors are negative errno.
 */
#ifndef CAISSON_GOFER_H
#define CAISSON_GOFER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "gofer/proto/wire.h"

struct gofer;
struct statx;

#define GOFER_ATTACH_MAX 512
#define NODE_LIMIT	 (1u << 20) /* nodes one client may hold */
#define NODE_DEPTH_MAX	 2048	    /* components below an attach point: PATH_MAX / 2 */

/* ------------------------------------------------------------------ nodes (fdmap.c) */

/*
 * One name in the tree. It is known by where it is (parent node, name) and what was found there
 * (device, inode, type); an O_PATH fd of it is a cache that may be dropped and reopened.
 */
struct node {
	uint64_t dev, ino;
	uint64_t mnt;	 /* mount id */
	char *name;	 /* NULL for attach points and unused slots */
	uint32_t parent; /* 0 for attach points */
	uint32_t refs;	 /* the client's */
	uint32_t kids;	 /* nodes whose parent this is */
	uint32_t hash_next;
	uint32_t lru_prev, lru_next; /* ring of the nodes that hold an fd that may be dropped */
	uint32_t hide;		     /* place in the deny tree; 0: nothing hidden below */
	int32_t fd;		     /* O_PATH, or -1 */
	uint16_t attach;
	uint16_t depth;
	uint16_t pins; /* fd in use by the current request */
	uint8_t name_len;
	uint8_t flags; /* NODE_* */
	uint32_t type; /* S_IFMT bits */
};
#define NODE_USED    1u
#define NODE_HASHED  2u /* found by (parent, name) */
#define NODE_BARRIER 4u /* root of a filesystem of kernel interfaces: shown, never entered */
#define NODE_GONE    8u /* unlinked through us: only its fd still reaches it */

/* A deny-list entry: a tree of names, by first child and next sibling. Index 0 is unused. */
struct hide {
	uint32_t child, next;
	uint32_t terminal; /* this name is hidden */
	char name[GOFER_NAME_MAX + 1];
};
#define HIDE_MAX 4096

struct attach {
	uint32_t id;
	uint32_t flags;	   /* ATTACH_* */
	uint32_t attached; /* the client has it */
	uint32_t hide;	   /* root of its deny tree, 0 for none */
	int root_fd;	   /* O_PATH */
	int ro_fd, rw_fd;  /* of a regular file attached by itself, else -1 */
};
#define ATTACH_RDONLY	 1u
#define ATTACH_FILE	 2u
#define ATTACH_EXCLUSIVE 4u
#define ATTACH_PUBLIC	 8u	/* served with a stranger's rights, whatever the others need */
#define GOFER_STRANGER	 65534u /* that stranger: the id of nobody */

enum gofer_phase { PHASE_START = 1, PHASE_READY = 2, PHASE_SERVING = 4 };

struct reply {
	struct wire_out out; /* body */
	int fd;		     /* to send along, or -1 */
	int fd_borrowed;     /* it stays open here */
};

/* One open directory between the pages of its listing. */
struct dirstream {
	uint32_t nid; /* 0: none */
	int fd;
	uint64_t cookie; /* position after the last entry handed out */
	size_t at, len;	 /* unread bytes of buf */
	char buf[32768];
};

struct gofer {
	enum gofer_phase phase;
	const char *violation; /* set once the client broke the protocol */
	uint64_t caps;	       /* effective capabilities it kept */
	uint32_t uid, gid;     /* who it acts as */
	int have_fchmodat2;
	int two_identities; /* some attach points are public, and we can change */
	int pdeathsig;	    /* SIGKILL when the parent ends; a change of identity clears it */
	int is_stranger;    /* the fs ids are GOFER_STRANGER's now */

	struct attach attach[GOFER_ATTACH_MAX];
	size_t attach_count;

	struct node *node; /* [node_cap], slot 0 unused */
	uint32_t node_cap, node_used_end, node_free, node_count;
	uint32_t *hash;
	uint32_t hash_mask;
	uint32_t lru; /* head: most recently used; 0 for empty */
	uint32_t fd_count, fd_max;
	uint32_t gone_count; /* fds held only because their file was unlinked */
	char *name_arena;
	size_t name_used, name_cap;
	char *name_free[4];

	struct hide *hide; /* [HIDE_MAX] */
	uint32_t hide_count;
	struct {
		uint64_t dev, ino;
	} hidden[HIDE_MAX]; /* objects the deny list named at start */
	uint32_t hidden_count;

	struct dirstream stream;
	/* Directories named in the listings of the reply being made: their parent, and where. */
	struct {
		uint32_t nid, at;
	} below[GOFER_LISTDIRS_MAX];
	uint32_t below_count;
	uint8_t in[GOFER_MSG_MAX], out[GOFER_MSG_MAX];
};

/* Reserves all memory the gofer will ever use. NULL when out of memory. */
struct gofer *gofer_new(void);
void gofer_free(struct gofer *g);
/*
 * Adds an attach point; consumes root_fd (O_PATH). Flags ATTACH_*. For a regular file it opens
 * the file for reading (and writing when allowed), as it has no parent to reopen it through.
 * -EEXIST, -E2BIG, -ENOTDIR; -EOPNOTSUPP for a filesystem of kernel interfaces.
 */
int gofer_add_attach(struct gofer *g, uint32_t id, int root_fd, const char *path, uint32_t flags);
/* Hides rel (components by '/') and what is below it in attach point id. */
int gofer_add_hide(struct gofer *g, uint32_t id, const char *rel);

/* Returns the node of a name below dir, with one reference for the client; identity from st. */
int64_t node_get_child(struct gofer *g, uint32_t dir, const char *name, size_t len,
		       const struct statx *st, uint32_t hide);
int64_t node_get_root(struct gofer *g, struct attach *at, const struct statx *st);
/* The node behind a number the client sent, or NULL. We act as its attach point asks from here. */
struct node *node_find(struct gofer *g, uint32_t nid);
static inline uint32_t node_id(const struct gofer *g, const struct node *n)
{
	return (uint32_t)(n - g->node);
}
/* Drops n of the client's references; -EINVAL when it has fewer. */
int node_forget(struct gofer *g, uint32_t nid, uint32_t n);
/*
 * An O_PATH fd of the node, verified to be the object it stands for; it stays open until
 * node_unpin. -ESTALE when the name now leads elsewhere.
 */
int node_pin(struct gofer *g, struct node *n);
void node_unpin(struct gofer *g, struct node *n);
/* What happened to names through us. */
void node_unlinked(struct gofer *g, uint32_t dir, const char *name, size_t len);
void node_unlink_prepare(struct gofer *g, uint32_t dir, const char *name, size_t len);
void node_renamed(struct gofer *g, uint32_t olddir, const char *oldname, uint32_t newdir,
		  const char *newname, int exchange);
/* One step down: the node of name in dir, with a reference for the client, and its attributes. */
int64_t node_step(struct gofer *g, uint32_t dir, const char *name, size_t len, struct statx *st);
/* The live node of (dir, name), without opening anything; 0 when there is none. */
uint32_t node_cached(struct gofer *g, uint32_t dir, const char *name, size_t len);

/* The deny list: the place of name below `at`; *hidden when the name must not exist. */
uint32_t hide_step(const struct gofer *g, uint32_t at, const char *name, size_t len, int *hidden);
int hide_object(const struct gofer *g, uint64_t dev, uint64_t ino);

/* ------------------------------------------------------------------ host files (host.c) */

/* statx of fd itself (name "") or of one name below it, never following. */
int host_stat(int dirfd, const char *name, struct statx *st);
/* openat2 of one component, no links, no escapes; fd or negative errno. */
int host_open(int dirfd, const char *name, uint64_t flags, uint64_t mode);
/* Takes the file system ids with which attach point `attach` is served. */
void host_act_for(struct gofer *g, const struct attach *at);
/* True for filesystems that are kernel interfaces: proc, sysfs, cgroup, … */
int host_is_kernel_fs(int fd);
void attr_from_statx(struct gofer_attr *a, const struct statx *st);
uint64_t host_dev(const struct statx *st);

/* ------------------------------------------------------------------ requests */

/*
 * Handles one message of n bytes. Fills *r and *hdr (the reply's header). 1: send the reply,
 * 0: there is none, -EPROTO: the client broke the protocol (g->violation says how).
 */
int gofer_dispatch(struct gofer *g, const void *msg, size_t n, struct gofer_hdr *hdr,
		   struct reply *r);
/* Serves until the peer hangs up (0) or breaks the protocol or the socket fails (negative). */
int gofer_serve(struct gofer *g, int sock);

typedef int (*op_fn)(struct gofer *g, struct wire_in *in, struct reply *r);
#define MSG(num, name, phases, flags)                                                              \
	int op_##name(struct gofer *g, struct wire_in *in, struct reply *r);
#include "gofer/proto/messages.def"
#undef MSG
#define MSG_NOREPLY 1u
#define MSG_WRITES  2u

/* Ends the connection; returns -EPROTO. `why` must be static. */
int gofer_violation(struct gofer *g, const char *why);
/* Checks that the whole body was read: every handler calls it before it acts. */
#define OP_BODY_DONE(g, in)                                                                        \
	do {                                                                                       \
		if (!wire_done(in))                                                                \
			return gofer_violation(g, "malformed body");                               \
	} while (0)

/* Opens a regular-file node; access GOFER_OPEN_*. fd or negative errno (op_open.c). */
int node_open_file(struct gofer *g, struct node *n, uint32_t access, int *borrowed);
/* A readable fd of a regular file or directory, for calls that O_PATH fds refuse. */
int node_open_any(struct gofer *g, struct node *n, int *borrowed);
/* What an open file tells beyond statx: GOFER_ATTR_NOCAPS. */
uint32_t host_open_flags(int fd);

/* A name about to be made (op_link.c): {mode, uid, gid, name} as every creating request has it. */
struct new_child {
	uint32_t mode, uid, gid;
	uint32_t hide;
	size_t len;
	char name[GOFER_NAME_MAX + 1];
};
void child_read(struct new_child *nc, struct wire_in *in);
/* Checks that the name may be made and pins dir: its fd, or negative errno. */
int child_begin(struct gofer *g, uint32_t dir, struct new_child *nc);
/* Gives a fresh object (fd: open or O_PATH) its owner and mode, as far as we may. */
int child_owner(struct gofer *g, int fd, const struct new_child *nc);
/* Its node. */
int64_t child_node(struct gofer *g, uint32_t dir, int fd, const struct new_child *nc);

/* -EROFS unless the node's attach point may be changed. */
int node_writable(const struct gofer *g, const struct node *n);

/* ------------------------------------------------------------------ start (isolate.c, filter.c) */

struct gofer_conf {
	uint64_t caps;
	uint32_t uid, gid;
	int switch_user;
	uint64_t started_ns; /* of the runtime, for phase.h */
	int any_writable;
	int allow_no_mountns; /* allow_weaker=mountns */
	int pdeathsig;
	int log_fd;
	int sock;
};

/* Own mount namespace; -EPERM (and nothing changed) when that is not possible. */
int isolate_mount_ns(void);
/*
 * Moves the attach points (opened after isolate_mount_ns) into a tree of their own and makes it
 * the root; the fds in roots[] are replaced by ones inside it.
 */
int isolate_pivot(int *roots, const uint32_t *flags, const uint32_t *ids, size_t count);
/* Landlock, user, capabilities, limits, no_new_privs. */
int isolate_landlock(const struct gofer *g);
int isolate_privileges(struct gofer *g, const struct gofer_conf *c);
/* The seccomp filter: the last step. */
int filter_install(const struct gofer *g, const struct gofer_conf *c);

#endif
