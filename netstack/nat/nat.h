/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caisson-net, the network helper of `--network user`: a NAT between one sandbox and the host's sockets.
 *
 * The sandbox's frames come over the pair link (link/pair.h) into a stack of our own, which stands in
 * for all other hosts (gateway.h). Each TCP connection it ends is joined to a host socket, each UDP flow
 * and each ping likewise; names go to the host's resolvers; published ports come the other way. Whoever
 * sends the frames is hostile: everything is bounded, and where a flow may go is decided in guard.c.
 *
 * One thread, one epoll loop (loop.c). Functions here are called with no lock held; the stack's lock is
 * only ever taken by this thread. What is freed while its events may still be in hand goes through
 * nat_bury().
 */
#ifndef CAISSON_NAT_H
#define CAISSON_NAT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "netstack/gateway.h"
#include "netstack/netstack.h"
#include "platform/base/bootconf.h"

#define NAT_TCP_MAX 4096u
#define NAT_UDP_MAX 1024u
#define NAT_PING_MAX 64u
#define NAT_DNS_MAX 128u
#define NAT_RESOLVERS 3u
#define NAT_PUBLISH_MAX 32u
#define NAT_MSG_MAX 65536u /* a datagram, or what is taken from a stream at once */
#define NAT_HASH 1024u
#define NAT_NEVER UINT64_MAX

struct nat;

/* A host fd in the loop. First member of what owns it. */
struct nat_source {
	/* events: EPOLL* bits. */
	void (*ready)(struct nat *n, struct nat_source *s, uint32_t events);
	int fd; /* -1: closed */
	struct list_head dead;
};

union nat_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage ss;
};

struct nat_publish {
	struct nat_source src;
	int udp;
	uint16_t port; /* in the guest */
};

struct nat {
	struct stack *stack;
	struct nic *nic;
	struct nat_source link;
	struct gateway gateway;
	struct endpoint *listener;
	struct waiter listener_waits;
	int accepting; /* the listener has connections */
	int epoll, link_wants_out, done;
	uint64_t stack_deadline;
	struct list_head inbox; /* pkts that the stack gave us */
	struct list_head dead;	/* nat_source.dead */
	struct ip_addr guest[2], gate[2], dns[2]; /* 0: IPv4, 1: IPv6 */
	int have_v6, host_loopback;
	int route_fd; /* netlink, for guard.c */
	uint32_t route_seq;
	union nat_sockaddr resolver[NAT_RESOLVERS];
	uint32_t resolver_count;
	struct nat_publish publish[NAT_PUBLISH_MAX];
	uint32_t publish_count;
	int publish_stalled; /* connections wait for room among the flows */
	/* tcp.c */
	struct list_head tcp[NAT_HASH], tcp_dirty, tcp_answered;
	uint32_t tcp_count;
	/* udp.c, ping.c, dns.c: hashes, and lists ordered by deadline */
	struct list_head udp[NAT_HASH], udp_lru, ping, dns_wait;
	uint32_t udp_count, ping_count, dns_count;
	uint8_t msg[NAT_MSG_MAX];
};

/* loop.c */
uint64_t nat_now(void);
int nat_watch(struct nat *n, struct nat_source *s, uint32_t events); /* edge-triggered if it says so */
/* Closes s and frees what it is the first member of once no event can mean it. */
void nat_bury(struct nat *n, struct nat_source *s);
int nat_start(struct nat *n, int link_fd, const uint8_t mac[6], const uint8_t guest_mac[6], uint32_t mtu);
void nat_run(struct nat *n);
/* One turn: waits at most until `limit`. For tests too. */
void nat_turn(struct nat *n, uint64_t limit);
/* A non-blocking host socket for `to`'s family; an fd or -errno. */
int nat_socket(const union nat_sockaddr *to, int type, int proto);
/* The host's errno of a connection attempt, as the guest is told. */
enum gateway_why nat_why(int err);
socklen_t nat_sockaddr_len(const union nat_sockaddr *a);
void nat_sockaddr_from(union nat_sockaddr *to, const struct ip_addr *a, uint16_t port);
void nat_sockaddr_to(const union nat_sockaddr *from, struct ip_addr *a, uint16_t *port);
uint32_t nat_hash(const struct ip_addr *peer, uint16_t pport, uint16_t gport);
int nat_is_guest(const struct nat *n, const struct ip_addr *a);
int nat_family(const struct ip_addr *a); /* 0 or 1, index of guest[], gate[], dns[] */
/* Who the guest sees as the peer of a published port: loopback is the gateway. 1: a stand-in. */
int nat_visible_peer(const struct nat *n, struct ip_addr *a);

/* guard.c */
int guard_open(struct nat *n);
/* May the guest reach this address? 0, -EACCES, or -errno of the host's routing. */
int guard_check(struct nat *n, const struct ip_addr *a);
/* The part of it that needs no routing: never-allowed ranges. */
int guard_range_allowed(const struct ip_addr *a);
/* Where a guest's connection to a:port goes: *to, or what guard_check says. */
int guard_target(struct nat *n, const struct ip_addr *a, uint16_t port, union nat_sockaddr *to);

/* tcp.c */
void nat_tcp_syn(struct nat *n, struct pkt *p); /* consumes */
void nat_tcp_accepted(struct nat *n);
void nat_tcp_pump(struct nat *n);
void nat_tcp_published(struct nat *n, struct nat_publish *b);
uint64_t nat_tcp_expire(struct nat *n, uint64_t now);

/* udp.c */
void nat_udp_packet(struct nat *n, struct pkt *p); /* consumes */
void nat_udp_published(struct nat *n, struct nat_publish *b);
uint64_t nat_udp_expire(struct nat *n, uint64_t now);

/* ping.c */
void nat_ping_packet(struct nat *n, struct pkt *p); /* consumes */
uint64_t nat_ping_expire(struct nat *n, uint64_t now);

/* dns.c */
void nat_dns_packet(struct nat *n, struct pkt *p); /* consumes */
uint64_t nat_dns_expire(struct nat *n, uint64_t now);
/* The length of the one question's section of a query or answer at m, or 0 when it is malformed. */
uint32_t dns_question(const uint8_t *m, uint32_t len);
/* Does the answer belong to the query we sent (with the id `id`)? */
int dns_answers(const uint8_t *query, uint32_t query_len, uint16_t id, const uint8_t *m, uint32_t len);

/* isolate.c, filter.c */
int nat_isolate(const struct bootconf *conf);
int nat_filter(const struct nat *n, int log);

#endif
