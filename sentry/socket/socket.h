/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets: the family-independent part. A family (unix.c, inet.c) gives an ops table; the syscalls
 * (sentry/syscall/sys_socket.c) turn its -EAGAIN into waiting. A socket is owned by its open file;
 * families count their own further references.
 *
 * Locks: option fields are single words, set with plain stores by setsockopt and read racily, as
 * Linux does. Everything else belongs to the family.
 */
#ifndef CAISSON_SOCKET_H
#define CAISSON_SOCKET_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "netstack/addr.h"
#include "platform/base/uio.h"
#include "platform/base/waitq.h"
#include "sentry/task/task.h"
#include "vfs/vfs.h"

#define SCM_MAX_FDS 253
#define SOCKADDR_MAX sizeof(struct sockaddr_storage)

/* Who sent a message. */
struct sock_cred {
	struct pid *pid; /* a reference, or NULL: shown as 0 */
	uint32_t uid, gid;
};

/* Ancillary data of one message: kernel side. Owned; scm_free drops the files. */
struct scm {
	struct list_head node; /* for deferred destruction */
	int fd_count;
	struct file *files[SCM_MAX_FDS];
};

/* What IP has to say beside the bytes: send: wishes; receive: facts. */
struct sock_ip {
	int ttl, tos;		/* send: value + 1, 0: not said */
	uint32_t nic;		/* IP_PKTINFO */
	struct ip_addr src, to; /* send: source; receive: the destination it had */
	uint16_t to_port;
	int gso_size;
	uint32_t flow;
	uint64_t stamp_ns;	/* receive: realtime, 0: none */
	struct pkt *err;	/* receive: entry of the error queue, owned */
};

/* Writes ancillary data for the guest; scm.c. */
struct cmsg_out;

struct sock_msg {
	struct uio *u;
	struct sockaddr_storage addr; /* send: destination; receive: source */
	uint32_t addrlen;	      /* 0: none */
	uint32_t flags;		      /* MSG_* given */
	uint32_t out_flags;	      /* MSG_TRUNC, MSG_CTRUNC, MSG_EOR for the caller */
	struct scm *scm;	      /* send: consumed on success; receive: given to the caller */
	struct sock_cred cred;	      /* send: of the sender; receive: of the message */
	int has_cred;
	size_t full_len;	      /* receive: the whole datagram, for MSG_TRUNC */
	struct sock_ip ip;
};

struct socket;

/* All return negative errno; -EAGAIN means wait: on the socket's own poll, or on *wait_on's. */
struct socket_ops {
	int (*bind)(struct socket *s, struct task *t, const struct sockaddr_storage *a, uint32_t len);
	int (*connect)(struct socket *s, struct task *t, const struct sockaddr_storage *a,
		       uint32_t len, struct socket **wait_on);
	int (*listen)(struct socket *s, struct task *t, int backlog);
	/* A new socket (not yet in a file), or ERR_PTR. */
	struct socket *(*accept)(struct socket *s, struct task *t);
	int (*pair)(struct socket *a, struct socket *b, struct task *t);
	/* Fills *a, *len. */
	int (*getname)(struct socket *s, int peer, struct sockaddr_storage *a, uint32_t *len);
	ssize_t (*sendmsg)(struct socket *s, struct task *t, struct sock_msg *m,
			   struct socket **wait_on);
	ssize_t (*recvmsg)(struct socket *s, struct task *t, struct sock_msg *m);
	uint32_t (*poll)(struct socket *s);
	int (*shutdown)(struct socket *s, int how);
	/* Family-level options; SOL_SOCKET ones come here when socket.c does not know them.
	 * -ENOPROTOOPT: unknown. getsockopt: *len in: room, out: size of the value. */
	int (*setsockopt)(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len);
	int (*getsockopt)(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len);
	long (*ioctl)(struct socket *s, struct ioctl_req *r);
	/* One cmsg of the sender for this family's level (any but SOL_SOCKET, and what scm.c does not
	 * know of that). NULL: ignored. */
	int (*cmsg_in)(struct socket *s, struct task *t, struct sock_msg *m, int level, int type,
		       const void *data, size_t len);
	void (*cmsg_out)(struct socket *s, struct sock_msg *m, struct cmsg_out *out);
	void (*msg_free)(struct sock_msg *m);	 /* what recvmsg left in m->ip */
	void (*attached)(struct socket *s);	 /* s->file is set; NULL: nobody asks */
	void (*option)(struct socket *s, int opt); /* a SOL_SOCKET field changed */
	void (*release)(struct socket *s); /* the file is gone; drops the file's reference */
	void (*get)(struct socket *s);	   /* references for wait_on */
	void (*put)(struct socket *s);
};

struct socket {
	const struct socket_ops *ops; /* [I] */
	struct kernel *k;	      /* [I] */
	int family, type, protocol;   /* [I] */
	struct file *file;	      /* the open file, NULL before accept; borrowed */
	struct waitq wq;
	struct waitq *wait;	      /* [I] where waiters queue: &wq, or the endpoint's */
	uint64_t rcv_timeout_ns, snd_timeout_ns; /* 0: none */
	int rcvbuf, sndbuf, rcvlowat, priority, mark;
	uint32_t passcred, passpidfd, reuseaddr, reuseport, keepalive, broadcast, timestamp, oobinline,
		dontroute, no_check, busy_poll, rcvbuf_lock, sndbuf_lock;
	struct linger linger;
	int (*take_error)(struct socket *s); /* [I] of a family that keeps errors itself; or NULL */
	int error;		      /* [a] SO_ERROR: read once */
	int listening;		      /* [a] */
};

/* Families, one row each in socket.c. */
struct socket_family {
	int family;
	/* -ESOCKTNOSUPPORT, -EPROTONOSUPPORT, -EPERM … or a socket by ERR_PTR rules. */
	struct socket *(*create)(struct kernel *k, struct task *t, int type, int protocol);
};

void socket_init(struct socket *s, const struct socket_ops *ops, struct kernel *k, int family,
		 int type, int protocol);
struct socket *socket_create(struct task *t, int family, int type, int protocol);
/* Wraps s in an open file; consumes s on success. type_flags: SOCK_NONBLOCK. ERR_PTR on error. */
struct file *socket_file(struct task *t, struct socket *s, int type_flags);
/* The socket behind a file, or NULL (ENOTSOCK). Borrowed. */
struct socket *file_socket(struct file *f);
int socket_setsockopt(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len);
int socket_getsockopt(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len);

/* scm.c */
void scm_free(struct scm *scm);
void sock_cred_of(struct task *t, struct sock_cred *c); /* takes a pid reference */
void sock_cred_put(struct sock_cred *c);
void sock_cred_copy(struct sock_cred *to, const struct sock_cred *from);
/* Parses a guest control buffer into m->scm and m->cred. */
int scm_import(struct task *t, struct socket *s, struct sock_msg *m, uint64_t control, uint64_t len);
/* Writes the ancillary data of m to the guest; *used is msg_controllen. Installs fds. */
int scm_export(struct task *t, struct socket *s, struct sock_msg *m, uint64_t control, uint64_t room,
	       uint64_t *used);

/* A cmsg for the guest; MSG_CTRUNC when it does not fit. */
void cmsg_put(struct cmsg_out *o, int level, int type, const void *data, size_t len);

/* All sockets of the sandbox; layer.c. */
struct unix_layer;
struct stack;
struct egress;
struct socket_layer {
	struct unix_layer *local;
	struct stack *stack;
	struct egress *egress; /* NULL: no network policy, rates or records */
};
int socket_layer_start(struct kernel *k);
struct unix_layer *unix_layer_new(void);

extern const struct socket_family g_unix_family;
extern const struct socket_family g_inet_family __attribute__((weak));
extern const struct socket_family g_inet6_family __attribute__((weak));
extern const struct socket_family g_netlink_family __attribute__((weak));
extern const struct socket_family g_packet_family __attribute__((weak));
/* /proc/net/unix */
void unix_show(struct kernel *k, struct strbuf *sb);

#endif
