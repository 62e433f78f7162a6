/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_UNIX: names, connections, life. Data transfer is unix_io.c, cycles of sockets in flight are
 * unix_gc.c. Semantics of unix(7).
 *
 * Theory of operation. A stream connection is two unix_socks that hold references on each other.
 * connect() makes the accepting side (an embryo) at once, links the pair and puts the embryo on the
 * listener's backlog; both ends can send from then on. accept() only wraps an embryo in a file.
 * close() marks the peer (EOF, or reset when data was unread) and drops the reference. A datagram
 * socket's peer is only its default destination.
 */
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "sentry/socket/unix_priv.h"

#define PATH_OFF offsetof(struct sockaddr_un, sun_path)
#define BACKLOG_MAX 4096 /* net.core.somaxconn */

int unix_is_stream(const struct unix_sock *u)
{
	return u->s.type != SOCK_DGRAM;
}

struct unix_sock *unix_get(struct unix_sock *u)
{
	ref_get(&u->ref);
	return u;
}

void unix_put(struct unix_sock *u)
{
	if (!ref_put(&u->ref))
		return;
	sock_cred_put(&u->peer_cred);
	waitq_destroy(&u->s.wq);
	lock_destroy(&u->io_lock);
	free(u);
}

static void op_get(struct socket *s)
{
	unix_get(unix_of(s));
}

static void op_put(struct socket *s)
{
	unix_put(unix_of(s));
}

static const struct socket_ops g_unix_ops;

static struct unix_sock *unix_new(struct kernel *k, int type)
{
	struct unix_sock *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	struct unix_layer *l = k->sockets->local;

	socket_init(&u->s, &g_unix_ops, k, AF_UNIX, type, 0);
	ref_init(&u->ref);
	lock_init(&u->io_lock, RANK_SOCKET_IO);
	list_init(&u->name_node);
	list_init(&u->backlog);
	list_init(&u->backlog_node);
	list_init(&u->rq);
	list_init(&u->gc_node);
	u->peek_off = -1;
	lock_acquire(&l->lock);
	list_add_tail(&u->all_node, &l->all);
	lock_release(&l->lock);
	return u;
}

struct unix_layer *unix_layer_new(void)
{
	struct unix_layer *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	lock_init(&l->lock, RANK_SOCKET);
	list_init(&l->all);
	for (int i = 0; i < UNIX_HASH; i++)
		list_init(&l->abstract[i]);
	return l;
}

static struct socket *unix_create(struct kernel *k, struct task *t, int type, int protocol)
{
	if (protocol && protocol != AF_UNIX)
		return ERR_PTR(-EPROTONOSUPPORT);
	if (type == SOCK_RAW) /* Linux makes a datagram socket of it */
		type = SOCK_DGRAM;
	if (type != SOCK_STREAM && type != SOCK_DGRAM && type != SOCK_SEQPACKET)
		return ERR_PTR(-ESOCKTNOSUPPORT);
	struct unix_sock *u = unix_new(k, type);

	return u ? &u->s : ERR_PTR(-ENOMEM);
}

const struct socket_family g_unix_family = { AF_UNIX, unix_create };

/* ---- names ---- */

static struct list_head *abstract_bucket(struct unix_layer *l, const struct sockaddr_un *a, uint32_t len)
{
	return &l->abstract[hash_bytes(a->sun_path, len - PATH_OFF, 1) % UNIX_HASH];
}

/* The same abstract name may be bound once per socket type. */
static struct unix_sock *abstract_find(struct unix_layer *l, const struct sockaddr_un *a, uint32_t len,
				       int type)
{
	struct unix_sock *u;

	lock_assert_held(&l->lock);
	list_for_each(u, abstract_bucket(l, a, len), name_node)
		if (u->s.type == type && u->addr_len == len &&
		    !memcmp(u->addr.sun_path, a->sun_path, len - PATH_OFF))
			return u;
	return NULL;
}

/* Checks a guest's address: 0 path (NUL-terminated in *un), 1 abstract, 2 autobind, or errno. */
static int parse_addr(const struct sockaddr_storage *a, uint32_t len, struct sockaddr_un *un, uint32_t *out)
{
	if (len < sizeof(sa_family_t) || len > sizeof(*un))
		return -EINVAL;
	memset(un, 0, sizeof(*un));
	memcpy(un, a, len);
	if (un->sun_family != AF_UNIX)
		return -EINVAL;
	if (len == PATH_OFF)
		return 2;
	if (!un->sun_path[0]) {
		*out = len;
		return 1;
	}
	/* sun_path may fill its array without a NUL. */
	*out = (uint32_t)(PATH_OFF + strnlen(un->sun_path, len - PATH_OFF) + 1);
	return 0;
}

int unix_autobind(struct unix_sock *u)
{
	struct unix_layer *l = unix_layer_of(u);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const uint32_t len = PATH_OFF + 6;
	int err = -ENOSPC;

	lock_acquire(&l->lock);
	if (u->addr_len) {
		lock_release(&l->lock);
		return 0;
	}
	for (uint32_t tries = 0; tries < 0x100000; tries++) {
		char digits[8];

		snprintf(digits, sizeof(digits), "%05x", (unsigned)(l->next_autobind++ & 0xfffff));
		memcpy(un.sun_path + 1, digits, 5);
		if (abstract_find(l, &un, len, u->s.type))
			continue;
		u->addr = un;
		u->addr_len = len;
		list_add(&u->name_node, abstract_bucket(l, &un, len));
		err = 0;
		break;
	}
	lock_release(&l->lock);
	return err;
}

static void inode_unbind(struct inode *ino)
{
	/* The file is gone from the filesystem; the socket keeps its name but can't be found. */
	ino->bound_socket = NULL;
}

static int bind_path(struct unix_sock *u, struct task *t, struct sockaddr_un *un, uint32_t len)
{
	struct unix_layer *l = unix_layer_of(u);
	char path[sizeof(un->sun_path) + 1];
	struct vfs_ctx ctx;
	struct path p;

	snprintf(path, sizeof(path), "%.*s", (int)sizeof(un->sun_path), un->sun_path);
	task_vfs_ctx(t, &ctx);
	struct inode *ino = vfs_bind_socket(&ctx, path, 0777 & ~ctx.umask, &p);

	if (IS_ERR(ino)) {
		task_vfs_ctx_put(&ctx);
		return (int)PTR_ERR(ino);
	}
	path_put(p);
	lock_acquire(&ino->lock);
	lock_acquire(&l->lock);
	int taken = u->addr_len != 0;

	if (!taken) {
		ino->bound_socket = u;
		ino->bound_socket_gone = inode_unbind;
		u->addr = *un;
		u->addr_len = len;
		u->bound_inode = ino;
	}
	lock_release(&l->lock);
	lock_release(&ino->lock);
	if (taken) { /* bound already: the new name must not stay behind */
		vfs_unlinkat(&ctx, NULL, path, 0);
		inode_put(ino);
	}
	task_vfs_ctx_put(&ctx);
	return taken ? -EINVAL : 0;
}

static int op_bind(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t alen)
{
	struct unix_sock *u = unix_of(s);
	struct unix_layer *l = unix_layer_of(u);
	struct sockaddr_un un;
	uint32_t len = 0;
	int kind = parse_addr(a, alen, &un, &len);

	if (kind < 0)
		return kind;
	if (kind == 2)
		return unix_autobind(u);
	lock_acquire(&l->lock);
	int err = kind == 1 && u->addr_len ? -EINVAL : 0; /* a path is tried first: it may be in use */

	if (!err && kind == 1) {
		if (abstract_find(l, &un, len, s->type)) {
			err = -EADDRINUSE;
		} else {
			u->addr = un;
			u->addr_len = len;
			list_add(&u->name_node, abstract_bucket(l, &un, len));
		}
	}
	lock_release(&l->lock);
	return err || kind == 1 ? err : bind_path(u, t, &un, len);
}

static struct unix_sock *find_path(struct unix_sock *from, struct task *t, const struct sockaddr_un *un)
{
	struct unix_layer *l = unix_layer_of(from);
	struct unix_sock *u = ERR_PTR(-ECONNREFUSED);
	char path[sizeof(un->sun_path) + 1];
	struct vfs_ctx ctx;
	struct path p;

	snprintf(path, sizeof(path), "%.*s", (int)sizeof(un->sun_path), un->sun_path);
	task_vfs_ctx(t, &ctx);
	int err = vfs_lookup(&ctx, NULL, path, LOOKUP_FOLLOW, &p);

	if (!err) {
		err = vfs_path_permission(p, MAY_WRITE, ctx.cred);
		if (err)
			path_put(p);
	}
	task_vfs_ctx_put(&ctx);
	if (err)
		return ERR_PTR(err);
	struct inode *ino = p.dentry->inode;

	lock_acquire(&ino->lock);
	if (S_ISSOCK(ino->mode) && ino->bound_socket) {
		/* The socket's release clears bound_socket under this lock before it dies. */
		lock_acquire(&l->lock);
		u = unix_get(ino->bound_socket);
		lock_release(&l->lock);
	}
	lock_release(&ino->lock);
	path_put(p);
	return u;
}

struct unix_sock *unix_find(struct unix_sock *from, struct task *t, const struct sockaddr_storage *a,
			    uint32_t alen, int type)
{
	struct unix_layer *l = unix_layer_of(from);
	struct unix_sock *u;
	struct sockaddr_un un;
	uint32_t len = 0;
	int kind = parse_addr(a, alen, &un, &len);

	if (kind < 0)
		return ERR_PTR(kind);
	if (kind == 2)
		return ERR_PTR(-EINVAL);
	if (kind == 1) {
		lock_acquire(&l->lock);
		u = abstract_find(l, &un, len, type);
		if (u)
			unix_get(u);
		lock_release(&l->lock);
		if (!u)
			return ERR_PTR(-ECONNREFUSED);
	} else {
		u = find_path(from, t, &un);
		if (IS_ERR(u))
			return u;
	}
	if (u->s.type != type) {
		unix_put(u);
		return ERR_PTR(-EPROTOTYPE);
	}
	return u;
}

static int op_getname(struct socket *s, int peer, struct sockaddr_storage *a, uint32_t *len)
{
	struct unix_sock *u = unix_of(s);
	struct unix_layer *l = unix_layer_of(u);
	int err = 0;

	lock_acquire(&l->lock);
	struct unix_sock *of = peer ? u->peer : u;

	if (!of) {
		err = -ENOTCONN;
	} else if (!of->addr_len) {
		((struct sockaddr_un *)a)->sun_family = AF_UNIX;
		*len = PATH_OFF;
	} else {
		memcpy(a, &of->addr, sizeof(of->addr));
		*len = of->addr_len;
	}
	lock_release(&l->lock);
	return err;
}

/* ---- connections ---- */

static void link_pair(struct unix_sock *a, struct unix_sock *b)
{
	a->peer = unix_get(b);
	b->peer = unix_get(a);
	a->connected = b->connected = 1;
}

static void set_peer_cred(struct unix_sock *u, const struct sock_cred *c)
{
	sock_cred_put(&u->peer_cred);
	sock_cred_copy(&u->peer_cred, c);
	u->has_peer_cred = 1;
}

static int op_pair(struct socket *sa, struct socket *sb, struct task *t)
{
	struct unix_sock *a = unix_of(sa), *b = unix_of(sb);
	struct unix_layer *l = unix_layer_of(a);
	struct sock_cred c;

	sock_cred_of(t, &c);
	lock_acquire(&l->lock);
	link_pair(a, b);
	set_peer_cred(a, &c);
	set_peer_cred(b, &c);
	lock_release(&l->lock);
	sock_cred_put(&c);
	return 0;
}

static int op_listen(struct socket *s, struct task *t, int backlog)
{
	struct unix_sock *u = unix_of(s);
	struct unix_layer *l = unix_layer_of(u);
	struct sock_cred c;
	int err = 0;

	if (!unix_is_stream(u))
		return -EOPNOTSUPP;
	sock_cred_of(t, &c);
	lock_acquire(&l->lock);
	if (!u->addr_len || u->connected) {
		err = -EINVAL;
	} else {
		u->backlog_max = (unsigned)backlog > BACKLOG_MAX ? BACKLOG_MAX : backlog;
		s->listening = 1;
		set_peer_cred(u, &c); /* what connect()'s side will see as SO_PEERCRED */
	}
	lock_release(&l->lock);
	sock_cred_put(&c);
	if (!err)
		waitq_wake(&s->wq, POLLOUT | POLLWRNORM);
	return err;
}

/* The common part of connect for stream and seqpacket; embryo and listener references are kept. */
static int connect_locked(struct unix_sock *u, struct unix_sock *listener, struct unix_sock *embryo,
			  const struct sock_cred *c)
{
	if (u->s.listening)
		return -EINVAL;
	if (u->connected)
		return -EISCONN;
	if (!listener->s.listening || (listener->shut & 1))
		return -ECONNREFUSED;
	if (listener->backlog_len > listener->backlog_max)
		return -EAGAIN;
	link_pair(u, embryo);
	set_peer_cred(embryo, c);
	set_peer_cred(u, &listener->peer_cred);
	embryo->addr = listener->addr;
	embryo->addr_len = listener->addr_len;
	embryo->s.passcred = listener->s.passcred;
	embryo->listener = listener;
	list_add_tail(&embryo->backlog_node, &listener->backlog);
	listener->backlog_len++;
	return 0;
}

static int connect_stream(struct unix_sock *u, struct task *t, struct unix_sock *listener,
			  struct socket **wait_on)
{
	struct unix_layer *l = unix_layer_of(u);
	struct unix_sock *embryo = unix_new(u->s.k, u->s.type);
	struct sock_cred c;

	if (!embryo) {
		unix_put(listener);
		return -ENOMEM;
	}
	sock_cred_of(t, &c);
	lock_acquire(&l->lock);
	int err = connect_locked(u, listener, embryo, &c);

	if (err)
		list_del(&embryo->all_node);
	lock_release(&l->lock);
	sock_cred_put(&c);
	if (err)
		unix_put(embryo);
	else
		waitq_wake(&listener->s.wq, POLLIN | POLLRDNORM);
	if (err == -EAGAIN)
		*wait_on = &listener->s; /* the reference goes along */
	else
		unix_put(listener);
	return err;
}

static int op_connect(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t len,
		      struct socket **wait_on)
{
	struct unix_sock *u = unix_of(s), *to, *old;
	struct unix_layer *l = unix_layer_of(u);

	if (s->type == SOCK_DGRAM && len >= sizeof(sa_family_t) && a->ss_family == AF_UNSPEC) {
		to = NULL;
	} else {
		to = unix_find(u, t, a, len, s->type);
		if (IS_ERR(to))
			return (int)PTR_ERR(to);
	}
	if (s->passcred) {
		int err = unix_autobind(u);

		if (err) {
			if (to)
				unix_put(to);
			return err;
		}
	}
	if (unix_is_stream(u))
		return connect_stream(u, t, to, wait_on);
	lock_acquire(&l->lock);
	/* A socket that is itself connected elsewhere takes no datagrams from us. */
	if (to && to->peer && to->peer != u) {
		lock_release(&l->lock);
		unix_put(to);
		return -EPERM;
	}
	old = u->peer;
	u->peer = to;
	u->connected = to != NULL;
	lock_release(&l->lock);
	if (old)
		unix_put(old);
	waitq_wake(&s->wq, POLLOUT | POLLWRNORM);
	return 0;
}

static struct socket *op_accept(struct socket *s, struct task *t)
{
	struct unix_sock *u = unix_of(s), *embryo = NULL;
	struct unix_layer *l = unix_layer_of(u);

	(void)t;
	if (!unix_is_stream(u))
		return ERR_PTR(-EOPNOTSUPP);
	lock_acquire(&l->lock);
	if (!s->listening || (u->shut & 1)) {
		lock_release(&l->lock);
		return ERR_PTR(-EINVAL);
	}
	if (!list_empty(&u->backlog)) {
		embryo = list_first(&u->backlog, struct unix_sock, backlog_node);
		list_del(&embryo->backlog_node);
		embryo->listener = NULL;
		u->backlog_len--;
	}
	lock_release(&l->lock);
	if (!embryo)
		return ERR_PTR(-EAGAIN);
	waitq_wake(&s->wq, POLLOUT | POLLWRNORM); /* connectors that wait for room */
	return &embryo->s;
}

static void wake_peer(struct unix_sock *peer, int both)
{
	waitq_wake(&peer->s.wq, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | (both ? POLLHUP | POLLRDHUP : POLLRDHUP));
}

static int op_shutdown(struct socket *s, int how)
{
	struct unix_sock *u = unix_of(s), *peer = NULL;
	struct unix_layer *l = unix_layer_of(u);

	lock_acquire(&l->lock);
	if (unix_is_stream(u) && !u->connected && !s->listening) {
		lock_release(&l->lock);
		return -ENOTCONN;
	}
	u->shut |= how;
	if (u->peer && unix_is_stream(u)) {
		peer = unix_get(u->peer);
		peer->shut |= ((how & 1) << 1) | ((how & 2) >> 1);
	}
	int both = u->shut == 3;

	lock_release(&l->lock);
	wake_peer(u, both);
	if (peer) {
		wake_peer(peer, both);
		unix_put(peer);
	}
	return 0;
}

/* ---- end ---- */

static void release(struct unix_sock *u);

/* Connections nobody accepted. */
static void drop_backlog(struct list_head *backlog)
{
	while (!list_empty(backlog)) {
		struct unix_sock *e = list_first(backlog, struct unix_sock, backlog_node);

		list_del(&e->backlog_node);
		release(e);
	}
}

/* Ends u for good: as seen by its peer, by name lookups and by the collector. An embryo has no
 * backlog of its own, so this nests at most once. */
static void release(struct unix_sock *u)
{
	struct unix_layer *l = unix_layer_of(u);
	struct list_head queue, backlog;
	struct unix_sock *peer;
	struct inode *ino;

	list_init(&queue);
	list_init(&backlog);
	ino = u->bound_inode;
	if (ino) { /* no new finder by path */
		lock_acquire(&ino->lock);
		if (ino->bound_socket == u)
			ino->bound_socket = NULL;
		lock_release(&ino->lock);
	}
	lock_acquire(&l->lock);
	list_del(&u->name_node);
	list_del(&u->all_node);
	u->s.listening = 0;
	u->shut = 3;
	u->bound_inode = NULL;
	peer = u->peer;
	u->peer = NULL;
	if (peer && unix_is_stream(u)) {
		peer->shut = 3;
		if (!list_empty(&u->rq) || u->listener) {
			peer->reset = 1;
			peer->s.error = -ECONNRESET;
		}
	}
	list_splice_tail(&u->backlog, &backlog);
	u->backlog_len = 0;
	unix_queue_take(u, &queue);
	int collect = unix_collect_due(l);

	lock_release(&l->lock);
	u->s.file = NULL;
	waitq_wake(&u->s.wq, POLLHUP | POLLERR | POLLIN | POLLOUT);
	if (peer) {
		if (unix_is_stream(u))
			wake_peer(peer, 1);
		unix_put(peer);
	}
	drop_backlog(&backlog);
	while (!list_empty(&queue)) {
		struct unix_skb *skb = list_first(&queue, struct unix_skb, node);

		list_del(&skb->node);
		unix_skb_free(skb);
	}
	if (ino)
		inode_put(ino);
	if (collect)
		unix_collect(l);
	unix_put(u);
}

static void op_release(struct socket *s)
{
	release(unix_of(s));
}

/* ---- options and ioctls ---- */

static int op_setsockopt(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len)
{
	int v;

	(void)t, (void)level;
	if (level != SOL_SOCKET || opt != SO_PEEK_OFF)
		return -ENOPROTOOPT;
	memcpy(&v, val, sizeof(v));
	if (len < sizeof(v))
		return -EINVAL;
	unix_of(s)->peek_off = v;
	return 0;
}

static int op_getsockopt(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len)
{
	struct unix_sock *u = unix_of(s);
	struct unix_layer *l = unix_layer_of(u);
	struct ucred c = { .pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1 };

	if (level != SOL_SOCKET)
		return -EOPNOTSUPP;
	if (opt == SO_PEEK_OFF) {
		uint32_t n = *len < sizeof(int) ? *len : sizeof(int);

		memcpy(val, &u->peek_off, n);
		*len = n;
		return 0;
	}
	if (opt != SO_PEERCRED)
		return -ENOPROTOOPT;
	lock_acquire(&l->lock);
	if (u->has_peer_cred && !s->listening) {
		c.pid = u->peer_cred.pid ? pid_nr_in(u->peer_cred.pid, t->pid_ns) : 0;
		c.uid = u->peer_cred.uid;
		c.gid = u->peer_cred.gid;
	}
	lock_release(&l->lock);
	uint32_t n = *len < sizeof(c) ? *len : sizeof(c);

	memcpy(val, &c, n);
	*len = n;
	return 0;
}

static long op_ioctl(struct socket *s, struct ioctl_req *r)
{
	struct unix_sock *u = unix_of(s);
	struct unix_layer *l = unix_layer_of(u);
	int v = 0;

	lock_acquire(&l->lock);
	if (r->cmd == FIONREAD) {
		if (s->type == SOCK_DGRAM)
			v = list_empty(&u->rq) ? 0 : (int)list_first(&u->rq, struct unix_skb, node)->len;
		else
			v = (int)u->rq_bytes;
	} else if (r->cmd == SIOCOUTQ) {
		v = u->peer && unix_is_stream(u) ? (int)u->peer->rq_bytes : 0;
	} else {
		v = -1;
	}
	int listening = s->listening;

	lock_release(&l->lock);
	if (v < 0)
		return -ENOIOCTLCMD;
	return listening ? -EINVAL : r->copy_out(r, r->arg, &v, sizeof(v));
}

static const struct socket_ops g_unix_ops = {
	.bind = op_bind,
	.connect = op_connect,
	.listen = op_listen,
	.accept = op_accept,
	.pair = op_pair,
	.getname = op_getname,
	.sendmsg = unix_sendmsg,
	.recvmsg = unix_recvmsg,
	.poll = unix_poll,
	.shutdown = op_shutdown,
	.setsockopt = op_setsockopt,
	.getsockopt = op_getsockopt,
	.ioctl = op_ioctl,
	.release = op_release,
	.get = op_get,
	.put = op_put,
};

/* ---- /proc/net/unix ---- */

void unix_show(struct kernel *k, struct strbuf *sb)
{
	struct unix_layer *l = k->sockets->local;
	struct unix_sock *u;

	strbuf_puts(sb, "Num       RefCount Protocol Flags    Type St Inode Path\n");
	if (!l)
		return;
	lock_acquire(&l->lock);
	list_for_each(u, &l->all, all_node) {
		/* Flags and states as Linux's: __SO_ACCEPTCON; SS_UNCONNECTED 1, SS_CONNECTED 3. */
		strbuf_printf(sb, "%016x: %08X %08X %08X %04X %02X %5llu", 0, ref_read(&u->ref), 0,
			      u->s.listening ? 0x10000u : 0u, u->s.type, u->connected ? 3 : 1,
			      u->s.file ? (unsigned long long)u->s.file->inode->ino : 0ull);
		if (u->addr_len) {
			strbuf_putc(sb, ' ');
			if (u->addr.sun_path[0]) {
				strbuf_escape(sb, u->addr.sun_path);
			} else {
				for (uint32_t i = 0; i < u->addr_len - PATH_OFF; i++)
					strbuf_putc(sb, u->addr.sun_path[i] ? u->addr.sun_path[i] : '@');
			}
		}
		strbuf_putc(sb, '\n');
	}
	lock_release(&l->lock);
}
