/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP flows: guest port and peer, one connected host socket each (a symmetric NAT), or the shared socket
 * of a published port. A flow goes after a while without datagrams, or when it is the longest unused
 * one and room is needed. Nothing is queued here: what a full socket refuses is lost, as on a wire.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "netstack/nat/nat.h"
#include "platform/base/list.h"

#define ONEWAY_NS 30000000000ull /* RFC 4787 wants two minutes once both sides have spoken */
#define BOTH_NS 180000000000ull
#define RECV_TURN 32

struct udp_flow {
	struct nat_source host;
	struct list_head node, lru;
	struct nat_publish *publish; /* answers go out of its socket */
	union nat_sockaddr to;	     /* there: the peer as the host knows it */
	struct ip_addr guest, peer;
	uint16_t gport, pport;
	uint8_t both;
	uint64_t deadline;
};

static struct udp_flow *find(struct nat *n, const struct ip_addr *guest, uint16_t gport, const struct ip_addr *peer,
			     uint16_t pport)
{
	struct udp_flow *f;

	list_for_each(f, &n->udp[nat_hash(peer, pport, gport)], node)
		if (f->gport == gport && f->pport == pport && ip_eq(&f->peer, peer) && ip_eq(&f->guest, guest))
			return f;
	return NULL;
}

static void end(struct nat *n, struct udp_flow *f)
{
	list_del(&f->node);
	list_del(&f->lru);
	n->udp_count--;
	nat_bury(n, &f->host);
}

static void used(struct nat *n, struct udp_flow *f)
{
	f->deadline = nat_now() + (f->both ? BOTH_NS : ONEWAY_NS);
	list_del(&f->lru);
	list_add_tail(&f->lru, &n->udp_lru);
}

static struct udp_flow *flow_new(struct nat *n, const struct ip_addr *guest, uint16_t gport,
				 const struct ip_addr *peer, uint16_t pport)
{
	struct udp_flow *f;

	if (n->udp_count >= NAT_UDP_MAX)
		end(n, list_first(&n->udp_lru, struct udp_flow, lru));
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->host.fd = -1;
	list_init(&f->host.dead);
	list_init(&f->lru);
	f->guest = *guest;
	f->gport = gport;
	f->peer = *peer;
	f->pport = pport;
	list_add(&f->node, &n->udp[nat_hash(peer, pport, gport)]);
	n->udp_count++;
	used(n, f);
	return f;
}

/* The host's errno about something sent earlier: an ICMP error about a datagram without its payload. */
static void tell(struct nat *n, const struct udp_flow *f, int err)
{
	struct pkt *p = pkt_new();

	if (!p)
		return;
	p->src = f->guest;
	p->dst = f->peer;
	p->sport = f->gport;
	p->dport = f->pport;
	p->proto = IPPROTO_UDP;
	p->ttl = 64;
	stack_lock(n->stack);
	gateway_unreachable(n->nic, p, nat_why(err));
	stack_unlock(n->stack);
	pkt_free(p);
}

static void to_guest(struct nat *n, const struct udp_flow *f, size_t size)
{
	struct pkt *p = pkt_from_mem(n->msg, (uint32_t)size);

	if (!p)
		return;
	stack_lock(n->stack);
	gateway_udp(n->nic, p, &f->peer, f->pport, &f->guest, f->gport);
	stack_unlock(n->stack);
}

/* #hostcalls: recvfrom */
static void host_ready(struct nat *n, struct nat_source *s, uint32_t events)
{
	struct udp_flow *f = (struct udp_flow *)s;

	for (int i = 0; i < RECV_TURN; i++) {
		ssize_t got = recv(s->fd, n->msg, sizeof(n->msg), MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			if (errno != EAGAIN)
				tell(n, f, errno);
			return;
		}
		f->both = 1;
		used(n, f);
		to_guest(n, f, (size_t)got);
	}
}

/* #hostcalls: sendto */
static void to_host(struct nat *n, struct udp_flow *f, const struct pkt *p)
{
	int fd = f->publish ? f->publish->src.fd : f->host.fd, err = 0;

	pkt_copy(p, 0, n->msg, p->len);
	for (int i = 0; i < 2; i++) { /* an error of an earlier datagram is told in place of sending */
		ssize_t r = f->publish ? sendto(fd, n->msg, p->len, MSG_NOSIGNAL | MSG_DONTWAIT, &f->to.sa,
						nat_sockaddr_len(&f->to)) :
					 send(fd, n->msg, p->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r >= 0)
			return;
		err = errno;
		if (err != EINTR && err != ECONNREFUSED)
			break;
	}
	if (err != EAGAIN && err != ENOBUFS && err != EMSGSIZE && err != ENOMEM)
		tell(n, f, err);
}

/* #hostcalls: connect */
static int dial(struct nat *n, struct udp_flow *f)
{
	union nat_sockaddr to;
	int err = guard_target(n, &f->peer, f->pport, &to);

	if (err)
		return err;
	f->host.fd = nat_socket(&to, SOCK_DGRAM, 0);
	if (f->host.fd < 0)
		return f->host.fd;
	f->host.ready = host_ready;
	if (connect(f->host.fd, &to.sa, nat_sockaddr_len(&to)))
		return -errno;
	return nat_watch(n, &f->host, EPOLLIN);
}

void nat_udp_packet(struct nat *n, struct pkt *p)
{
	struct udp_flow *f;

	if (p->len > NAT_MSG_MAX) {
		pkt_free(p);
		return;
	}
	if (p->dport == 53 && ip_eq(&p->dst, &n->dns[nat_family(&p->dst)])) {
		nat_dns_packet(n, p);
		return;
	}
	f = find(n, &p->src, p->sport, &p->dst, p->dport);
	if (!f) {
		f = flow_new(n, &p->src, p->sport, &p->dst, p->dport);
		int err = f ? dial(n, f) : -ENOMEM;

		if (err) {
			if (f)
				end(n, f);
			if (err != -ENOMEM && err != -EMFILE && err != -ENFILE) {
				stack_lock(n->stack);
				gateway_unreachable(n->nic, p, nat_why(-err));
				stack_unlock(n->stack);
			}
			pkt_free(p);
			return;
		}
	}
	if (f->publish)
		f->both = 1;
	used(n, f);
	to_host(n, f, p);
	pkt_free(p);
}

/* #hostcalls: recvfrom */
void nat_udp_published(struct nat *n, struct nat_publish *b)
{
	for (;;) {
		union nat_sockaddr from;
		socklen_t len = sizeof(from);
		struct ip_addr peer;
		uint16_t pport;
		ssize_t got = recvfrom(b->src.fd, n->msg, sizeof(n->msg), MSG_DONTWAIT, &from.sa, &len);

		if (got < 0 && errno == EAGAIN)
			return;
		if (got < 0)
			continue; /* an error about an earlier answer; each is told once */
		nat_sockaddr_to(&from, &peer, &pport);
		nat_visible_peer(n, &peer);
		int fam = nat_family(&peer);

		if (!pport || (fam && !n->have_v6))
			continue;
		struct udp_flow *f = find(n, &n->guest[fam], b->port, &peer, pport);

		if (!f) {
			f = flow_new(n, &n->guest[fam], b->port, &peer, pport);
			if (!f)
				continue;
			f->publish = b;
			f->to = from;
		}
		if (f->publish != b) /* the guest talks to that peer by itself: its answers are its own */
			continue;
		f->to = from;
		used(n, f);
		to_guest(n, f, (size_t)got);
	}
}

uint64_t nat_udp_expire(struct nat *n, uint64_t now)
{
	/* By last use, not by deadline: a one-way flow may go later than it could, never sooner. */
	while (!list_empty(&n->udp_lru)) {
		struct udp_flow *f = list_first(&n->udp_lru, struct udp_flow, lru);

		if (f->deadline > now)
			return f->deadline;
		end(n, f);
	}
	return NAT_NEVER;
}
