/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network stack: bytes in, bytes out. It knows no tasks, no file descriptors and no guest
 * memory but through uio; clock, timer and random source are injected, so that tests script them.
 *
 * Threads: everything of a stack is under its one lock (RANK_STACK), which the functions here take
 * themselves unless they say "locked". No guest memory is copied under it. Wakes of wait queues
 * happen after it was released. Packets on loopback go through a queue that whoever releases the
 * lock drains first: no recursion.
 *
 * Errors are negative errno. Nothing here sleeps: -EAGAIN, and the endpoint's wait queue tells when
 * to ask again.
 */
#ifndef CAISSON_NETSTACK_H
#define CAISSON_NETSTACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "netstack/addr.h"
#include "platform/base/list.h"
#include "platform/base/lock.h"
#include "platform/base/refs.h"
#include "platform/base/uio.h"
#include "platform/base/waitq.h"

struct stack;
struct pkt;
struct endpoint;
struct strbuf;

/* What the outside lends a stack. */
struct stack_env {
	void *priv;
	uint64_t (*now)(void *priv);	   /* monotonic ns */
	uint64_t (*real)(void *priv);	   /* wall clock ns, for receive time stamps */
	/* stack_timers() is to run at this time; a later call replaces an earlier one. May be called
	 * with the stack lock held. */
	void (*arm)(void *priv, uint64_t deadline);
	void (*random)(void *priv, void *buf, size_t n);
};

struct stack *stack_new(const struct stack_env *env); /* NULL: out of memory */
/* Nobody uses it any more; endpoints must be closed. */
void stack_free(struct stack *s);
uint32_t stack_random(struct stack *s);
void stack_timers(struct stack *s);
void stack_lock(struct stack *s);
/* Drains the loopback queue, sets the timer, releases, and then wakes. */
void stack_unlock(struct stack *s);

/* ---- interfaces, addresses, routes: all locked ---- */

#define NIC_NAME 16
#define NIC_ADDRS 16
#define NIC_UP 1u
#define NIC_LOOPBACK 2u
#define NIC_ARP 4u	/* Ethernet: neighbours are resolved */
#define NIC_CSUM_TX 8u	/* the link completes transport checksums */
#define NIC_GSO 16u	/* the link splits TCP super-segments */
#define NIC_GATEWAY 32u /* packets for anybody are taken in: see gateway.h */

struct nic_addr {
	struct ip_addr addr;
	uint32_t plen; /* of the 16 bytes: IPv4 96 + n */
	struct ip_addr broadcast; /* IPv4: or any */
	uint32_t scope; /* RT_SCOPE_*: 0 global, 253 link, 254 host */
	uint32_t flags;	/* IFA_F_* */
};

struct nic_stats {
	uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped, multicast;
	uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped;
};

struct nic {
	struct list_head node;
	struct stack *stack;
	uint32_t index;
	char name[NIC_NAME];
	uint32_t flags, mtu, tx_queue_len;
	uint8_t mac[6];
	struct nic_addr addr[NIC_ADDRS];
	uint32_t addr_count;
	struct nic_stats stats;
	/* Sends a complete frame (or IP packet on loopback); consumes p. Locked. */
	void (*xmit)(struct nic *n, struct pkt *p);
	/* All of one burst was handed over. May be NULL. */
	void (*flush)(struct nic *n);
	int (*start)(struct nic *n); /* its threads; not locked */
	void (*link_xmit)(struct nic *n, struct pkt *p); /* with a guard: what it passes on to */
	void *priv; /* of the link */
};

/* link/loopback.c: lo, index 1, with 127.0.0.1/8 and ::1/128. */
struct nic *loopback_new(struct stack *s);
struct nic *nic_new(struct stack *s, const char *name, uint32_t mtu, uint32_t flags);
struct nic *nic_find(struct stack *s, uint32_t index);
struct nic *nic_by_name(struct stack *s, const char *name);
struct list_head *stack_nics(struct stack *s);
int nic_add_addr(struct nic *n, const struct nic_addr *a); /* -EEXIST, -ENOBUFS */
int nic_del_addr(struct nic *n, const struct ip_addr *a, uint32_t plen);
/* The link is gone for good: n goes down and the connections that used it end with ENETDOWN. */
void nic_lost(struct nic *n);
/* A frame from the link: consumes p. */
void nic_input(struct nic *n, struct pkt *p);
/* The interface that has this address (any 127/8 address is lo's), or NULL. */
struct nic *stack_local(struct stack *s, const struct ip_addr *a);
int stack_is_broadcast(struct stack *s, const struct ip_addr *a);

/* ---- the guard: who may send what to the outside; guard.c ---- */

struct egress_packet; /* netstack/egress/packet.h */

struct stack_guard {
	void *priv;
	/* May this leave? ep: whose it is; NULL: a frame that nobody vouches for. fault: why it can not
	 * be judged by its address, or NULL. 0 or negative errno. Locked; not asked about lo. */
	int (*output)(void *priv, const struct egress_packet *k, struct endpoint *ep, uint32_t len,
		      const char *fault);
	/* This came in, fragments joined, len bytes without the IP header; not 0: drop it. Locked. */
	int (*input)(void *priv, const struct egress_packet *k, uint32_t len);
};
/* For all interfaces there are; once. Locked. */
void stack_set_guard(struct stack *s, const struct stack_guard *g);

struct neigh_info {
	uint32_t nic;
	struct ip_addr addr;
	uint8_t mac[6];
	uint16_t state; /* NUD_* */
};
void neigh_each(struct stack *s, void (*fn)(const struct neigh_info *i, void *priv), void *priv);
void neigh_add(struct nic *n, const struct ip_addr *a, const uint8_t mac[6]);

struct route {
	struct list_head node;
	struct ip_addr dst;
	uint32_t plen;
	struct ip_addr gateway;	 /* any: on link */
	struct ip_addr pref_src; /* any: choose */
	uint32_t nic, metric, table, protocol, scope, type;
};
struct list_head *stack_routes(struct stack *s);
int route_add(struct stack *s, const struct route *r); /* -EEXIST, -ENOBUFS */
int route_del(struct stack *s, const struct route *r); /* -ESRCH */

/* Where a packet to dst goes. */
struct route_result {
	struct nic *nic;
	struct ip_addr next_hop, src;
	int local;
};
/* nic 0: any. -ENETUNREACH, -EHOSTUNREACH, -EADDRNOTAVAIL. */
int route_lookup(struct stack *s, const struct ip_addr *dst, uint32_t nic, struct route_result *out);

/* ---- endpoints ---- */

enum ep_kind { EP_TCP, EP_UDP, EP_PING, EP_RAW, EP_UDPLITE };

/* Options: stored by the owner under the stack lock, obeyed by the protocols. */
struct ep_opts {
	uint8_t reuseaddr, reuseport, v6only, broadcast, keepalive, oobinline, freebind;
	uint8_t nodelay, cork, quickack, defer_accept, recverr, recverr6, hdrincl, no_check;
	uint8_t mc_loop, mc_all, want_stamp, bind_no_port;
	uint8_t tos, tclass, pmtudisc, pmtudisc6;
	int16_t ttl, hops, mc_ttl, mc_hops; /* -1: the default */
	int rcvbuf, sndbuf, rcvlowat;
	uint8_t rcvbuf_locked, sndbuf_locked;
	int linger_on, linger_s;
	uint32_t nic, mc_nic, uid;
	struct ip_addr mc_addr;
	uint32_t keepidle_s, keepintvl_s, keepcnt, user_timeout_ms, maxseg, syncnt, window_clamp,
		notsent_lowat;
	int linger2_s;
	int udp_segment;  /* UDP_SEGMENT: bytes of each datagram in one send */
	uint16_t send_cover, recv_cover; /* UDP-Lite; 0: everything */
	int csum_offset;  /* raw IPv6: IPV6_CHECKSUM, -1: off */
	uint32_t icmp_filter;
	uint32_t icmp6_filter[8];
};

struct ep_group {
	struct ip_addr addr;
	uint32_t nic;
};
#define EP_GROUPS 20

/* The owner's note about who used an endpoint last; the stack only keeps it. */
struct ep_label {
	int id;
	char text[16];
};

#define EP_CLEARED_ALWAYS UINT32_MAX

struct endpoint {
	struct ref ref;
	struct stack *stack;	      /* [I] */
	enum ep_kind kind;	      /* [I] */
	uint8_t v6;		      /* [I] an AF_INET6 socket */
	uint8_t proto;		      /* [I] IP protocol */
	uint8_t owned;		      /* a socket still refers to it */
	uint8_t shut;		      /* 1: no more receiving, 2: no more sending */
	uint8_t port_bound, addr_bound; /* by bind(2) */
	uint8_t connected;
	uint8_t nospace;	      /* somebody waits for room to send */
	uint8_t passive;	      /* came of a listener: found by its four-tuple only */
	uint16_t lport, rport;	      /* host order */
	struct ip_addr laddr, raddr;
	struct ep_opts o;
	int error, soft_error;	      /* positive errno */
	struct list_head bind_node;   /* in the port bucket */
	struct endpoint *hash_next;   /* demux of connected ones */
	uint32_t hash, hashed;
	struct list_head all_node;
	struct list_head wake_node;   /* waits for the lock's release */
	uint32_t wake_events;
	struct waitq wq;
	struct list_head rq;	      /* pkts: datagrams, or TCP's in-order data */
	uint32_t rq_bytes, rq_mem, rq_count;
	struct list_head errq;	      /* pkts: error queue */
	uint32_t errq_count;
	uint64_t drops;
	uint64_t sockfs_ino;	      /* of the owner, for tables */
	struct ep_label label;
	uint32_t cleared;	      /* TCP: the guard's mark for this connection; 0: none,
					 EP_CLEARED_ALWAYS: it was begun outside */
	uint8_t trusted;	      /* the guard lets it go anywhere: not a guest's */
	struct ep_group group[EP_GROUPS];
	uint32_t group_count;
};

/* Returns the owner's reference, or NULL. v6: AF_INET6. */
struct endpoint *endpoint_new(struct stack *s, enum ep_kind kind, int v6, uint8_t proto);
/* The owner is done: consumes its reference. The protocol may go on. */
void endpoint_close(struct endpoint *ep);
/* Frees the last reference's endpoint; takes the lock, so not for the locked. */
struct endpoint *endpoint_get(struct endpoint *ep);
void endpoint_put(struct endpoint *ep);
int endpoint_bind(struct endpoint *ep, const struct ip_addr *a, uint16_t port);
/* TCP: 0 once established, -EINPROGRESS when it starts, -EALREADY while it goes on. */
int endpoint_connect(struct endpoint *ep, const struct ip_addr *a, uint16_t port);
int endpoint_disconnect(struct endpoint *ep); /* connect(AF_UNSPEC) */
int endpoint_listen(struct endpoint *ep, int backlog);
struct endpoint *endpoint_accept(struct endpoint *ep); /* its reference, or ERR_PTR */
int endpoint_shutdown(struct endpoint *ep, int how);   /* bits 1 receive, 2 send */
uint32_t endpoint_ready(struct endpoint *ep);	       /* poll bits */
void endpoint_options(struct endpoint *ep);	       /* locked: options changed */
/* SO_ERROR: takes it. Positive. */
int endpoint_take_error(struct endpoint *ep);

#define EPF_MORE 1u
#define EPF_OOB 2u
#define EPF_PEEK 4u
#define EPF_TRUNC 8u
#define EPF_CONFIRM 16u

struct ep_send {
	struct uio *u;
	uint32_t flags;
	const struct ip_addr *to; /* NULL: the peer */
	uint16_t port;
	int ttl, tos;		  /* of this message; -1: the endpoint's */
	uint32_t nic;		  /* IP_PKTINFO; 0: any */
	struct ip_addr src;	  /* IP_PKTINFO; any: choose */
	int gso_size;
};
/* Bytes taken (TCP: maybe fewer), or errno. */
ssize_t endpoint_send(struct endpoint *ep, struct ep_send *m);

struct ep_recv {
	struct uio *u;
	uint32_t flags;
	/* out */
	size_t full_len;	  /* of the datagram */
	int truncated, oob;
	struct ip_addr from, to;  /* datagrams */
	uint16_t from_port, to_port;
	uint32_t nic;
	uint8_t ttl, tos;
	uint32_t flow;
	uint64_t stamp_ns;
};
/* The caller serialises receivers of one endpoint. */
ssize_t endpoint_recv(struct endpoint *ep, struct ep_recv *m);
/* The error queue's first entry, owned by the caller, or NULL. */
struct pkt *endpoint_errq(struct endpoint *ep);
uint32_t endpoint_inq(struct endpoint *ep);  /* SIOCINQ */
uint32_t endpoint_outq(struct endpoint *ep); /* SIOCOUTQ */
int endpoint_join(struct endpoint *ep, const struct ip_addr *group, uint32_t nic);
int endpoint_leave(struct endpoint *ep, const struct ip_addr *group, uint32_t nic);

/* TCP's numbers, as tcp_info has them. */
struct tcp_numbers {
	uint8_t state, ca_state, retransmits, probes, backoff, options, snd_wscale, rcv_wscale;
	uint32_t rto_us, ato_us, snd_mss, rcv_mss, unacked, sacked, lost, retrans;
	uint32_t last_data_sent_ms, last_data_recv_ms, last_ack_recv_ms;
	uint32_t pmtu, rcv_ssthresh, rtt_us, rttvar_us, snd_ssthresh, snd_cwnd, advmss, reordering;
	uint32_t rcv_rtt_us, rcv_space, total_retrans, snd_wnd, rcv_wnd, notsent;
	uint64_t bytes_acked, bytes_received, bytes_sent, bytes_retrans, delivery_rate;
	uint32_t segs_out, segs_in, data_segs_in, data_segs_out, min_rtt_us, rcv_ooopack;
};
void endpoint_tcp_numbers(struct endpoint *ep, struct tcp_numbers *n);
int endpoint_tcp_state(const struct endpoint *ep); /* TCP_ESTABLISHED 1 … TCP_CLOSING 11 */
/* Ends a connection without a word to the peer; its owner is told err (positive). Locked. */
void endpoint_abort(struct endpoint *ep, int err);
/* The note of the endpoint that datagrams from here (or this connection) come from. 0 or -ENOENT. */
int stack_label(struct stack *s, enum ep_kind kind, const struct ip_addr *laddr, uint16_t lport,
		const struct ip_addr *raddr, uint16_t rport, struct ep_label *out);
int endpoint_at_mark(struct endpoint *ep);	   /* SIOCATMARK; locked not */

/* For tables: all endpoints of a kind, locked. */
void stack_each(struct stack *s, enum ep_kind kind, void (*fn)(struct endpoint *ep, void *priv), void *priv);
struct tcp_table_row {
	uint32_t txq, rxq, timer, retransmits, probes;
	uint64_t timer_left_ns;
	uint32_t backlog, backlog_max, rto_us, ato_us, cwnd;
	int ssthresh;
};
void tcp_table_row(struct endpoint *ep, struct tcp_table_row *row); /* locked */

/* Counters of RFC 1213 and Linux's /proc/net/snmp. */
struct stack_counters {
	uint64_t ip_in, ip_in_hdr_errors, ip_in_addr_errors, ip_in_unknown, ip_in_discards,
		ip_in_delivers, ip_out, ip_out_no_routes, ip_reasm_reqds, ip_reasm_oks, ip_reasm_fails,
		ip_frag_oks, ip_frag_fails, ip_frag_creates;
	uint64_t icmp_in, icmp_in_errors, icmp_out, icmp_in_echo, icmp_out_echo_reply, icmp_in_unreach,
		icmp_out_unreach;
	uint64_t tcp_active, tcp_passive, tcp_fails, tcp_est_resets, tcp_in, tcp_out, tcp_retrans,
		tcp_in_errs, tcp_out_rsts, cookies_sent, cookies_recv, cookies_failed, listen_overflows,
		listen_drops;
	uint64_t udp_in, udp_no_ports, udp_in_errors, udp_out, udp_rcvbuf_errors, udp_sndbuf_errors;
	uint32_t tcp_count, tcp_tw, tcp_orphans, udp_count, raw_count;
};
const struct stack_counters *stack_counters(struct stack *s);

struct stack_sysctl {
	uint32_t port_min, port_max, somaxconn, max_syn_backlog;
	uint32_t rmem_default, rmem_max, wmem_default, wmem_max;
	uint32_t tcp_rmem[3], tcp_wmem[3];
	uint32_t default_ttl, syn_retries, synack_retries, retries2, fin_timeout_s, keepidle_s,
		keepintvl_s, keepcnt, tw_reuse, max_tw, syncookies;
	/* Packets and buffers of all endpoints: from the first buffers no longer grow, at the second
	 * nothing is queued that can be had again. Linux's tcp_mem and udp_mem, in bytes. */
	uint64_t mem_pressure, mem_max;
	uint32_t ping_min, ping_max, unprivileged_port;
};
struct stack_sysctl *stack_sysctl(struct stack *s);

#endif
