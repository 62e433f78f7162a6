/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the netstack: the stack itself and what its files call of each other. All locked. */
#ifndef CAISSON_NETSTACK_PRIV_H
#define CAISSON_NETSTACK_PRIV_H

#include "netstack/netstack.h"
#include "netstack/pkt.h"
#include "platform/base/errptr.h"
#include "platform/base/hash.h"

/* One-shot timers of a stack, in a heap; only the earliest is known outside. */
struct stimer {
	uint64_t deadline;
	int32_t index; /* in the heap; -1: not armed */
	void (*fn)(struct stimer *t);
};

#define PORT_HASH 1024
#define KINDS 5

struct stack {
	struct lock lock;	      /* RANK_STACK */
	struct stack_env env;	      /* [I] */
	struct stack_sysctl sysctl;
	struct stack_counters c;
	struct list_head nics;
	uint32_t next_nic;
	struct nic *lo;
	struct list_head routes;
	uint32_t route_count;
	struct list_head loop;	      /* packets sent on loopback, not yet received */
	struct list_head wakes;	      /* endpoints' wake_node, each with a reference */
	struct list_head dead;	      /* endpoints to free outside the lock: wake_node */
	uint32_t burst;		      /* frames of the link's burst that are still to come */
	struct list_head acks;	      /* connections' ack_node: acknowledge when the burst is over */
	/* timers */
	struct stimer **heap;
	uint32_t heap_count, heap_cap;
	uint64_t armed;		      /* what env.arm was told, UINT64_MAX: nothing */
	/* demultiplexing */
	struct endpoint **est;	      /* connected TCP and UDP by four-tuple */
	uint32_t est_size, est_count; /* size: a power of two */
	struct list_head ports[KINDS][PORT_HASH]; /* endpoints' bind_node */
	struct list_head all[KINDS];
	uint64_t secret;	      /* keys the hashes and initial sequence numbers */
	uint64_t cookie_secret;	      /* keys SYN cookies */
	uint16_t ip_id;
	uint32_t port_hint;
	struct list_head frags;	      /* ipv4_frag.c, ipv6_frag.c: reassembly queues */
	uint32_t frag_mem;
	struct stimer frag_timer;
	struct list_head neigh;	      /* neigh.c */
	uint32_t neigh_count;
	struct stimer neigh_timer;
	uint64_t icmp_tokens_ns;      /* rate limit of ICMP errors */
	uint64_t challenge_ns;
	uint32_t challenge_count;
	const struct gateway *gateway; /* gateway.h; NULL: packets for others are dropped */
	struct stack_guard guard;     /* output NULL: none */
	struct packet_tap *taps;      /* who sees every frame: packet sockets, pcap */
};

static inline uint64_t stack_now(struct stack *s)
{
	return s->env.now(s->env.priv);
}
/* Packets take much memory; more than all they may. */
static inline int stack_pressed(const struct stack *s)
{
	return pkt_memory() > s->sysctl.mem_pressure;
}
static inline int stack_full(const struct stack *s)
{
	return pkt_memory() > s->sysctl.mem_max;
}

/* timer.c */
void stimer_init(struct stimer *t, void (*fn)(struct stimer *t));
void stimer_arm(struct stack *s, struct stimer *t, uint64_t deadline);
void stimer_cancel(struct stack *s, struct stimer *t);
static inline int stimer_armed(const struct stimer *t)
{
	return t->index >= 0;
}

/* endpoint.c */
/* Wakes ep's waiters once the lock is released. */
void endpoint_wake(struct endpoint *ep, uint32_t events);
/* Drops a reference under the lock; the memory goes after its release. */
void endpoint_put_locked(struct endpoint *ep);
/* Appends p to ep's queue if its receive buffer allows; else frees it. 1 when queued. */
int endpoint_queue(struct endpoint *ep, struct pkt *p);
/* An ICMP error or local one. Consumes quoted (may be NULL), the payload that was refused. */
void endpoint_report(struct endpoint *ep, int err, uint32_t origin, uint32_t type, uint32_t code,
		     uint32_t info, const struct ip_addr *offender, const struct ip_addr *dst,
		     uint16_t dport, struct pkt *quoted);
int endpoint_in_group(const struct endpoint *ep, const struct ip_addr *group, uint32_t nic);

/* gateway.c: p is for nobody here. 1: its owner consumed it. */
int gateway_take(struct nic *n, struct pkt *p);

/* ports.c */
/* -EADDRINUSE; port 0: picks one. */
int port_bind(struct endpoint *ep, const struct ip_addr *a, uint16_t port);
/* For connect: a port whose four-tuple is free. -EADDRNOTAVAIL. */
int port_autoconnect(struct endpoint *ep);
void port_insert(struct endpoint *ep);
void port_release(struct endpoint *ep);

/* demux.c */
void demux_add(struct endpoint *ep);
void demux_del(struct endpoint *ep);
struct endpoint *demux_connected(struct stack *s, enum ep_kind kind, const struct ip_addr *laddr,
				 uint16_t lport, const struct ip_addr *raddr, uint16_t rport,
				 uint32_t nic);
/* A listener or an unconnected datagram endpoint, the best match; NULL. */
struct endpoint *demux_bound(struct stack *s, enum ep_kind kind, const struct ip_addr *laddr,
			     uint16_t lport, const struct ip_addr *raddr, uint16_t rport, uint32_t nic);

/* net/ */
struct ip_out {
	struct ip_addr src, dst;
	uint8_t proto, tos;
	int ttl;	 /* -1: default */
	uint32_t nic;	 /* 0: routed */
	uint8_t df;
	uint8_t mc_loop;
	uint8_t any_src; /* src need not be ours: raw with header */
	uint8_t own;	 /* the stack's answer to a packet from outside: no guard */
	struct endpoint *ep; /* whose packet; NULL: nobody's */
};
/* Routes and sends; consumes p, whose front is the transport header. tcp/udp checksums are filled in
 * at csum_off (or -1). 0 or errno (-EMSGSIZE with df). */
int ip_output(struct stack *s, struct pkt *p, const struct ip_out *o, int csum_off);
void ip_input(struct nic *n, struct pkt *p);
/* A complete IP packet for transport: src, dst, proto set. */
void transport_input(struct nic *n, struct pkt *p);
void icmp_input(struct nic *n, struct pkt *p);
/* An error about p (headers pulled): to p's source. Does not consume p. */
void icmp_error(struct nic *n, struct pkt *p, int v4_type, int v4_code, int v6_type, int v6_code,
		uint32_t info);
/* guard.c: 0 and p is marked, or errno. o, p as for ip_output; whole: p starts with its IP header. */
int guard_output(struct nic *n, struct pkt *p, const struct ip_out *o);
int guard_whole(struct nic *n, struct pkt *p, struct endpoint *ep);
int guard_input(struct nic *n, const struct pkt *p);
uint32_t route_mtu(const struct route_result *r);

/* transports */
struct endpoint *tcp_new(struct stack *s);
void tcp_free(struct endpoint *ep);
void tcp_input(struct nic *n, struct pkt *p);
/* Sends the acknowledgements that a burst of segments put off. */
void tcp_flush_acks(struct stack *s);
void tcp_close(struct endpoint *ep);
/* Ends a connection without a word to the peer; err for the owner. */
void tcp_abort(struct endpoint *ep, int err);
int tcp_connect(struct endpoint *ep, const struct ip_addr *a, uint16_t port);
int tcp_disconnect(struct endpoint *ep);
int tcp_listen(struct endpoint *ep, int backlog);
struct endpoint *tcp_accept(struct endpoint *ep);
int tcp_shutdown(struct endpoint *ep, int how);
uint32_t tcp_ready(struct endpoint *ep);
void tcp_options(struct endpoint *ep);
ssize_t tcp_send(struct endpoint *ep, struct ep_send *m);
ssize_t tcp_recv(struct endpoint *ep, struct ep_recv *m);
void tcp_icmp_error(struct endpoint *ep, int err, uint32_t seq, uint32_t mtu);
int tcp_is_listening(const struct endpoint *ep);
int tcp_is_timewait(const struct endpoint *ep);
/* TIME_WAIT ep may make way for a new connection of the same four-tuple. */
int tcp_timewait_reusable(const struct endpoint *ep);
void tcp_timewait_kill(struct endpoint *ep);

void udp_input(struct nic *n, struct pkt *p);
ssize_t udp_send(struct endpoint *ep, struct ep_send *m);
ssize_t dgram_recv(struct endpoint *ep, struct ep_recv *m);
/* Where a datagram goes and from where: the message's wishes over the endpoint's. */
int dgram_route(struct endpoint *ep, const struct ep_send *m, struct ip_out *o, uint16_t *port);
ssize_t raw_send(struct endpoint *ep, struct ep_send *m);
/* Copies to raw endpoints; p's front is the transport header. 1 when somebody took it. */
int raw_input(struct nic *n, struct pkt *p);
void ping_input(struct nic *n, struct pkt *p, uint16_t id);

static inline int ep_is_udp(const struct endpoint *ep)
{
	return ep->kind == EP_UDP || ep->kind == EP_UDPLITE;
}

static inline int ep_wants_v4(const struct endpoint *ep)
{
	return !ep->v6 || !ep->o.v6only;
}

#endif
