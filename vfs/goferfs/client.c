/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the gofer. Neighbours: node.c makes inodes of replies, io.c uses fds.
 *
 * Theory of operation. A caller puts a tag on its request, registers itself and sends; a SEQPACKET
 * send is one whole message, so senders need no lock. Then it waits for its reply: if nobody is
 * receiving it becomes the receiver, takes messages off the socket and hands each to the caller
 * whose tag it bears. A receiver that got its own reply leaves, and wakes one that still waits to
 * receive in its place. So there is no thread of our own, none wakes for another's sake more than
 * once, and an idle connection costs nothing.
 *
 * The mutex here is a plain pthread one, because callers wait on a condition under it; it is a
 * leaf: nothing is taken inside.
 */
#include "vfs/goferfs/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gofer/proto/fdpass.h"
#include "platform/base/errptr.h"
#include "platform/base/list.h"
#include "platform/base/log.h"
#include "platform/base/refs.h"

#define FORGET_BATCH 64

struct waiting {
	struct list_head node;
	uint32_t tag, type;
	int done;
	int32_t error;
	int fd;
	uint8_t *body; /* malloc'ed */
	size_t size;
	pthread_cond_t cond;
};

struct goferfs_conn {
	struct ref ref;
	int sock;
	uint32_t next_tag; /* [a] */
	uint64_t messages; /* [a] */
	pthread_mutex_t m;
	/* [m] */
	struct list_head waiting;
	int receiving;
	int dead;
	void (*on_death)(void *arg);
	void *death_arg;
	uint32_t forget_count;
	uint32_t forget[FORGET_BATCH][2];
	/* owned by the receiver */
	uint8_t buf[GOFER_MSG_MAX];
};

uint64_t goferfs_messages(const struct goferfs_conn *c)
{
	return __atomic_load_n(&c->messages, __ATOMIC_RELAXED);
}

void goferfs_on_death(struct goferfs_conn *c, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&c->m);
	c->on_death = fn;
	c->death_arg = arg;
	pthread_mutex_unlock(&c->m);
}

/*
 * Everyone who waits gets EIO, now and later. One of them may sit in recvmsg: a message without
 * sense makes the gofer hang up, which wakes it. [m] held.
 */
static void conn_die(struct goferfs_conn *c, const char *why)
{
	struct waiting *w, *tmp;

	if (c->dead)
		return;
	c->dead = 1;
	log_error("gofer connection lost: %s", why);
	struct iovec poison = { &c->dead, sizeof(c->dead) };

	fdpass_send(c->sock, &poison, 1, -1);
	list_for_each_safe (w, tmp, &c->waiting, node) {
		list_del(&w->node);
		w->error = -EIO;
		w->done = 1;
		pthread_cond_signal(&w->cond);
	}
	if (c->on_death) {
		void (*fn)(void *) = c->on_death;

		c->on_death = NULL;
		pthread_mutex_unlock(&c->m);
		fn(c->death_arg);
		pthread_mutex_lock(&c->m);
	}
}

/* Gives one message to its caller; a complaint when it fits none. [m] held. #hostcalls: close */
static const char *deliver(struct goferfs_conn *c, size_t n, int fd)
{
	struct gofer_hdr h;
	struct waiting *w, *found = NULL;
	const char *bad = NULL;

	if (n < sizeof(h)) {
		bad = "short message";
		goto out;
	}
	memcpy(&h, c->buf, sizeof(h));
	list_for_each (w, &c->waiting, node)
		if (w->tag == h.tag)
			found = w;
	if (!found || h.type != found->type)
		bad = "reply to nothing we asked";
	else if (h.size != n || (h.flags & ~(GOFER_F_REPLY | GOFER_F_FD)) ||
		 !(h.flags & GOFER_F_REPLY) || h.error > 0 || h.error < -MAX_ERRNO)
		bad = "malformed reply header";
	else if (!(h.flags & GOFER_F_FD) != (fd < 0) || (h.error && (fd >= 0 || n != sizeof(h))))
		bad = "reply with more than it says";
	if (bad)
		goto out;
	n -= sizeof(h);
	found->error = h.error;
	if (n) {
		found->body = malloc(n);
		if (found->body) {
			memcpy(found->body, c->buf + sizeof(h), n);
			found->size = n;
		} else {
			found->error = -ENOMEM;
		}
	}
	found->fd = fd;
	found->done = 1;
	list_del(&found->node);
	pthread_cond_signal(&found->cond);
	return NULL;
out:
	if (fd >= 0)
		close(fd);
	return bad;
}

/* Receives until w is served. [m] held on entry and exit. #hostcalls: recvmsg */
static void receive_for(struct goferfs_conn *c, struct waiting *w)
{
	c->receiving = 1;
	while (!w->done) {
		int fd;

		pthread_mutex_unlock(&c->m);
		ssize_t n = fdpass_recv(c->sock, c->buf, sizeof(c->buf), &fd);

		pthread_mutex_lock(&c->m);
		const char *bad = n > 0	   ? deliver(c, (size_t)n, fd)
				  : n == 0 ? "it hung up"
					   : "receiving failed";

		if (bad)
			conn_die(c, bad);
	}
	c->receiving = 0;
	if (!list_empty(&c->waiting))
		pthread_cond_signal(&list_first(&c->waiting, struct waiting, node)->cond);
}

/* #hostcalls: sendmsg */
static int send_msg(struct goferfs_conn *c, uint32_t type, uint32_t tag, const void *body,
		    size_t size)
{
	struct gofer_hdr h = { .size = (uint32_t)(sizeof(h) + size),
			       .type = (uint16_t)type,
			       .tag = tag };
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)(uintptr_t)body, size } };

	return fdpass_send(c->sock, iov, 2, -1);
}

static int roundtrip(struct goferfs_conn *c, struct gcall *call, struct waiting *w)
{
	pthread_mutex_lock(&c->m);
	if (c->dead) {
		pthread_mutex_unlock(&c->m);
		return -EIO;
	}
	list_add_tail(&w->node, &c->waiting);
	pthread_mutex_unlock(&c->m);

	int err = send_msg(c, call->type, w->tag, call->req.buf, call->req.len);

	pthread_mutex_lock(&c->m);
	if (err)
		conn_die(c, "sending failed");
	while (!w->done) {
		if (!c->receiving)
			receive_for(c, w);
		else
			pthread_cond_wait(&w->cond, &c->m);
	}
	pthread_mutex_unlock(&c->m);
	return w->error;
}

/* Sends what is to be forgotten, in one message without a reply. */
static void flush_forgets(struct goferfs_conn *c)
{
	uint8_t body[4 + FORGET_BATCH * 8];
	struct wire_out out;

	wire_out_init(&out, body, sizeof(body));
	pthread_mutex_lock(&c->m);
	uint32_t n = c->dead ? 0 : c->forget_count;

	wire_put_u32(&out, n);
	wire_put(&out, c->forget, (size_t)n * 8);
	c->forget_count = 0;
	pthread_mutex_unlock(&c->m);
	if (n)
		send_msg(c, GOFER_FORGET, 0, body, out.len);
}

void conn_forget(struct goferfs_conn *c, uint32_t nid, uint32_t refs)
{
	int full = 0;

	if (!nid || !refs)
		return;
	for (;;) {
		pthread_mutex_lock(&c->m);
		if (c->forget_count < FORGET_BATCH) {
			c->forget[c->forget_count][0] = nid;
			c->forget[c->forget_count++][1] = refs;
			full = c->forget_count == FORGET_BATCH;
			pthread_mutex_unlock(&c->m);
			break;
		}
		pthread_mutex_unlock(&c->m);
		flush_forgets(c);
	}
	if (full)
		flush_forgets(c);
}

int gcall_begin(struct gcall *c, enum gofer_msg type, size_t size)
{
	c->type = type;
	c->fd = -1;
	c->rep_buf = NULL;
	c->big = NULL;
	wire_in_init(&c->rep, c->small, 0);
	if (size > sizeof(c->small)) {
		if (size > GOFER_MSG_MAX - sizeof(struct gofer_hdr))
			return -EMSGSIZE;
		c->big = malloc(size);
		if (!c->big)
			return -ENOMEM;
		wire_out_init(&c->req, c->big, size);
	} else {
		wire_out_init(&c->req, c->small, sizeof(c->small));
	}
	return 0;
}

int gcall_do(struct goferfs_conn *conn, struct gcall *c)
{
	struct waiting w = { .type = c->type, .fd = -1 };

	if (c->req.bad)
		return -EMSGSIZE;
	w.tag = __atomic_add_fetch(&conn->next_tag, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&conn->messages, 1, __ATOMIC_RELAXED);
	pthread_cond_init(&w.cond, NULL);
	int err = roundtrip(conn, c, &w);

	pthread_cond_destroy(&w.cond);
	c->fd = w.fd;
	c->rep_buf = w.body;
	wire_in_init(&c->rep, w.body, w.size);
	return err;
}

int gcall_fd(struct gcall *c)
{
	int fd = c->fd;

	c->fd = -1;
	return fd;
}

/* #hostcalls: close */
void gcall_end(struct gcall *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->rep_buf);
	free(c->big);
	c->fd = -1;
	c->rep_buf = NULL;
	c->big = NULL;
}

int gcall_bad_reply(struct goferfs_conn *conn, const struct gcall *c, const char *why)
{
	log_error("gofer reply to %s: %s", gofer_msg_name(c->type), why);
	pthread_mutex_lock(&conn->m);
	conn_die(conn, "it sent nonsense");
	pthread_mutex_unlock(&conn->m);
	return -EIO;
}

struct goferfs_conn *goferfs_connect(int fd)
{
	struct goferfs_conn *c = calloc(1, sizeof(*c));
	struct gcall call;

	if (!c)
		return ERR_PTR(-ENOMEM);
	ref_init(&c->ref);
	c->sock = fd;
	list_init(&c->waiting);
	pthread_mutex_init(&c->m, NULL);
	int err = gcall_begin(&call, GOFER_HELLO, 8);

	if (!err) {
		wire_put_u32(&call.req, GOFER_MAGIC);
		wire_put_u32(&call.req, GOFER_VERSION);
		err = gcall_do(c, &call);
		if (!err && (wire_u32(&call.rep) != GOFER_VERSION ||
			     wire_u32(&call.rep) != GOFER_MSG_MAX || !wire_done(&call.rep)))
			err = -EPROTO;
		gcall_end(&call);
	}
	if (err) {
		pthread_mutex_destroy(&c->m);
		free(c);
		return ERR_PTR(err);
	}
	return c;
}

struct goferfs_conn *goferfs_get(struct goferfs_conn *c)
{
	ref_get(&c->ref);
	return c;
}

/* Nobody is in a call: callers hold a mount. #hostcalls: close */
void goferfs_put(struct goferfs_conn *c)
{
	if (!c || !ref_put(&c->ref))
		return;
	close(c->sock);
	pthread_mutex_destroy(&c->m);
	free(c);
}
