/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside AF_INET and AF_INET6: a socket around an endpoint of the netstack. The endpoint holds the
 * state and the wait queue; here are the guest's ABI, permissions, and what recvmsg(2) reports.
 */
#ifndef CAISSON_INET_PRIV_H
#define CAISSON_INET_PRIV_H

#include <netinet/in.h>

#include "netstack/netstack.h"
#include "sentry/socket/socket.h"

/* What a receiver asked to be told. */
#define WANT_PKTINFO 1u
#define WANT_TTL 2u
#define WANT_TOS 4u
#define WANT_ORIGDST 8u
#define WANT_PKTINFO6 16u
#define WANT_HOPS 32u
#define WANT_TCLASS 64u
#define WANT_OVFL 128u
#define WANT_STAMPNS 256u
#define WANT_2292PKTINFO 512u
#define WANT_2292HOPS 1024u
#define WANT_RECVOPTS 2048u
#define WANT_FLOW 4096u

struct inet_sock {
	struct socket s;
	struct endpoint *ep; /* [I] owned */
	struct lock io_lock; /* RANK_SOCKET_IO: one receiver copies at a time */
	uint32_t want;
	uint32_t drops_told;
	char cc[16];	     /* TCP_CONGESTION */
};

static inline struct inet_sock *inet_of(struct socket *s)
{
	return container_of(s, struct inet_sock, s);
}

static inline struct stack *inet_stack(struct socket *s)
{
	return s->k->sockets->stack;
}

/* inet.c */
void inet_option(struct socket *s, int opt);
/* Parses a guest address for a socket of this family. nic: scope id. */
int inet_addr_in(struct socket *s, const struct sockaddr_storage *a, uint32_t len, struct ip_addr *ip,
		 uint16_t *port, uint32_t *nic);
void inet_addr_out(int family, const struct ip_addr *ip, uint16_t port, uint32_t nic,
		   struct sockaddr_storage *a, uint32_t *len);
/* inet_opt.c */
int inet_setsockopt(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len);
int inet_getsockopt(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len);
/* inet_cmsg.c */
int inet_cmsg_in(struct socket *s, struct task *t, struct sock_msg *m, int level, int type,
		 const void *data, size_t len);
void inet_cmsg_out(struct socket *s, struct sock_msg *m, struct cmsg_out *out);
/* inet_ioctl.c */
long inet_ioctl(struct socket *s, struct ioctl_req *r);
/* The SIOCGIF* family, for sockets of any kind. -ENOIOCTLCMD: unknown. */
long netdev_ioctl(struct socket *s, struct ioctl_req *r);

#endif
