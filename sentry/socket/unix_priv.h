/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside AF_UNIX. One lock (layer->lock, RANK_SOCKET) protects every queue, peer pointer, name and
 * in-flight count of all AF_UNIX sockets of the sandbox: their operations touch two sockets at a
 * time, are short, and copy no guest memory under it. [l] marks what it protects.
 */
#ifndef CAISSON_UNIX_PRIV_H
#define CAISSON_UNIX_PRIV_H

#include "platform/base/refs.h"
#include "sentry/socket/socket.h"

#define UNIX_HASH 256
#define UNIX_DGRAM_QLEN 10     /* net.unix.max_dgram_qlen */
#define UNIX_SKB_MAX (64u << 10)
#define UNIX_SKB_PRICE 768     /* bytes of buffer that a message costs beside its data */

struct unix_layer {
	struct lock lock;
	struct list_head abstract[UNIX_HASH]; /* [l] unix_sock.name_node */
	struct list_head all;		      /* [l] unix_sock.all_node */
	uint64_t inflight;		      /* [l] AF_UNIX sockets in queues, for the collector */
	uint64_t closes;		      /* [l] since the collector ran */
	uint64_t next_autobind;		      /* [l] */
};

/* One write, or one datagram. */
struct unix_skb {
	struct list_head node;
	struct sock_cred cred;
	struct scm *scm;	     /* files, or NULL */
	struct sockaddr_un from;     /* datagrams: the sender's name */
	uint32_t from_len;
	size_t len, off;	     /* bytes, and how many a stream reader has taken */
	char data[];
};

struct unix_sock {
	struct socket s;
	struct ref ref;
	struct list_head all_node;    /* [l] */
	/* name */
	struct sockaddr_un addr;      /* [l] */
	uint32_t addr_len;	      /* [l] 0: unbound */
	struct list_head name_node;   /* [l] abstract hash */
	struct inode *bound_inode;    /* [l] a reference */
	/* connection */
	struct unix_sock *peer;	      /* [l] a reference */
	int connected;		      /* [l] stream/seqpacket: was connected (peer may be gone) */
	int shut;		      /* [l] 1 no more receiving, 2 no more sending */
	int reset;		      /* [l] the peer closed with our data unread: ECONNRESET */
	struct sock_cred peer_cred;   /* [l] SO_PEERCRED */
	int has_peer_cred;
	/* listening */
	struct list_head backlog;     /* [l] embryos' backlog_node, each with a reference */
	struct list_head backlog_node;
	struct unix_sock *listener;   /* [l] embryo: whose backlog; borrowed */
	int backlog_len, backlog_max; /* [l] */
	/* receiving */
	struct lock io_lock;	      /* RANK_SOCKET_IO: one reader copies at a time */
	struct list_head rq;	      /* [l] unix_skb.node */
	size_t rq_bytes;	      /* [l] */
	int rq_count;		      /* [l] */
	int peek_off;		      /* [l] SO_PEEK_OFF; -1: off */
	/* collector */
	uint64_t inflight;	      /* [l] times this socket is in a queue */
	int64_t gc_refs;	      /* [l] scratch */
	struct list_head gc_node;     /* [l] scratch */
};

static inline struct unix_sock *unix_of(struct socket *s)
{
	return container_of(s, struct unix_sock, s);
}

static inline struct unix_layer *unix_layer_of(const struct unix_sock *u)
{
	return u->s.k->sockets->local;
}

struct unix_sock *unix_get(struct unix_sock *u);
/* Drops a reference; not under the layer lock. */
void unix_put(struct unix_sock *u);
int unix_is_stream(const struct unix_sock *u);

/* unix_io.c */
ssize_t unix_sendmsg(struct socket *s, struct task *t, struct sock_msg *m, struct socket **wait_on);
ssize_t unix_recvmsg(struct socket *s, struct task *t, struct sock_msg *m);
uint32_t unix_poll(struct socket *s);
void unix_skb_free(struct unix_skb *skb);
/* Takes all skbs of u onto list, with in-flight accounting. [l] held. */
void unix_queue_take(struct unix_sock *u, struct list_head *list);
/* unix.c: the target of a datagram or connect. Returns a reference or ERR_PTR. */
struct unix_sock *unix_find(struct unix_sock *from, struct task *t, const struct sockaddr_storage *a,
			    uint32_t len, int type);
int unix_autobind(struct unix_sock *u);
/* unix_gc.c: frees cycles of sockets that are only reachable through each other's queues. */
int unix_collect_due(struct unix_layer *l);
void unix_collect(struct unix_layer *l);
/* +1/-1 for each AF_UNIX socket among scm's files. [l] held. */
void unix_inflight(struct unix_layer *l, struct scm *scm, int delta);

#endif
