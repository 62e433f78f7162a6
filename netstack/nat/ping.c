/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo requests, by the host's unprivileged ICMP sockets (ping_group_range permitting; where it does
 * not, pings get no answer). The host chooses the identifier on the wire; the guest's is put back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "netstack/hdr/wire.h"
#include "netstack/nat/nat.h"
#include "platform/base/log.h"

#define PING_NS 30000000000ull
#define ECHO_HEAD 8u

struct ping_flow {
	struct nat_source host;
	struct list_head node; /* in nat.ping, least recently used first */
	struct ip_addr guest, peer;
	uint16_t id; /* the guest's, as on the wire */
	uint64_t deadline;
};

static void end(struct nat *n, struct ping_flow *f)
{
	list_del(&f->node);
	n->ping_count--;
	nat_bury(n, &f->host);
}

static void used(struct nat *n, struct ping_flow *f)
{
	f->deadline = nat_now() + PING_NS;
	list_del(&f->node);
	list_add_tail(&f->node, &n->ping);
}

/* #hostcalls: recvfrom */
static void host_ready(struct nat *n, struct nat_source *s, uint32_t events)
{
	struct ping_flow *f = (struct ping_flow *)s;
	ssize_t got = recv(s->fd, n->msg, sizeof(n->msg), MSG_DONTWAIT);
	uint8_t reply = ip_is_v4(&f->peer) ? 0 : 129;

	if (got < (ssize_t)ECHO_HEAD || n->msg[0] != reply)
		return;
	memcpy(n->msg + 4, &f->id, 2);
	used(n, f);
	struct pkt *p = pkt_from_mem(n->msg, (uint32_t)got);

	if (!p)
		return;
	stack_lock(n->stack);
	gateway_icmp(n->nic, p, &f->peer, &f->guest);
	stack_unlock(n->stack);
}

/* #hostcalls: connect */
static int dial(struct nat *n, struct ping_flow *f)
{
	union nat_sockaddr to;
	int err = guard_check(n, &f->peer);

	if (err)
		return err;
	nat_sockaddr_from(&to, &f->peer, 0);
	f->host.fd = nat_socket(&to, SOCK_DGRAM, ip_is_v4(&f->peer) ? IPPROTO_ICMP : IPPROTO_ICMPV6);
	if (f->host.fd < 0) {
		log_once("pings are not passed on: net.ipv4.ping_group_range does not allow it here");
		return -ENOMEM; /* no answer */
	}
	f->host.ready = host_ready;
	if (connect(f->host.fd, &to.sa, nat_sockaddr_len(&to)))
		return -errno;
	return nat_watch(n, &f->host, EPOLLIN);
}

static struct ping_flow *flow(struct nat *n, const struct pkt *p, uint16_t id, int *err)
{
	struct ping_flow *f;

	list_for_each(f, &n->ping, node)
		if (f->id == id && ip_eq(&f->peer, &p->dst) && ip_eq(&f->guest, &p->src))
			return f;
	if (n->ping_count >= NAT_PING_MAX)
		end(n, list_first(&n->ping, struct ping_flow, node));
	f = calloc(1, sizeof(*f));
	*err = -ENOMEM;
	if (!f)
		return NULL;
	f->host.fd = -1;
	list_init(&f->node);
	f->guest = p->src;
	f->peer = p->dst;
	f->id = id;
	n->ping_count++;
	*err = dial(n, f);
	if (!*err)
		return f;
	end(n, f);
	return NULL;
}

/* #hostcalls: sendto */
void nat_ping_packet(struct nat *n, struct pkt *p)
{
	struct icmp_hdr h;
	int err = 0;

	if (p->len < ECHO_HEAD || p->len > NAT_MSG_MAX || pkt_copy(p, 0, &h, sizeof(h))) {
		pkt_free(p);
		return;
	}
	struct ping_flow *f = flow(n, p, h.id, &err);

	if (f) {
		pkt_copy(p, 0, n->msg, p->len);
		used(n, f);
		if (send(f->host.fd, n->msg, p->len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			err = -errno;
	}
	if (err == -ENETUNREACH || err == -EHOSTUNREACH || err == -EACCES) {
		stack_lock(n->stack);
		gateway_unreachable(n->nic, p, nat_why(-err));
		stack_unlock(n->stack);
	}
	pkt_free(p);
}

uint64_t nat_ping_expire(struct nat *n, uint64_t now)
{
	while (!list_empty(&n->ping)) {
		struct ping_flow *f = list_first(&n->ping, struct ping_flow, node);

		if (f->deadline > now)
			return f->deadline;
		end(n, f);
	}
	return NAT_NEVER;
}
