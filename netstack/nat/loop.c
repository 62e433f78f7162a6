/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one loop: frames from the sandbox, readiness of host sockets, timers. What the stack hands over
 * while its lock is held waits in `inbox`, and endpoints that woke wait in `tcp_dirty`; both are worked
 * off in each turn with no lock held.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "netstack/link/pair.h"
#include "netstack/nat/nat.h"
#include "platform/base/assert.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"

#define EVENTS 64
#define INBOX_TURN 256 /* packets handled before host sockets get their turn */

uint64_t nat_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- addresses ---- */

socklen_t nat_sockaddr_len(const union nat_sockaddr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

void nat_sockaddr_from(union nat_sockaddr *to, const struct ip_addr *a, uint16_t port)
{
	memset(to, 0, sizeof(*to));
	if (ip_is_v4(a)) {
		to->in.sin_family = AF_INET;
		to->in.sin_port = htons(port);
		to->in.sin_addr.s_addr = a->w[3];
	} else {
		to->in6.sin6_family = AF_INET6;
		to->in6.sin6_port = htons(port);
		memcpy(&to->in6.sin6_addr, a->b, 16);
	}
}

void nat_sockaddr_to(const union nat_sockaddr *from, struct ip_addr *a, uint16_t *port)
{
	if (from->sa.sa_family == AF_INET) {
		*a = ip_from_v4(from->in.sin_addr.s_addr);
		*port = ntohs(from->in.sin_port);
	} else {
		*a = ip_from_v6(&from->in6.sin6_addr); /* a mapped address is IPv4's own form */
		*port = ntohs(from->in6.sin6_port);
	}
}

uint32_t nat_hash(const struct ip_addr *peer, uint16_t pport, uint16_t gport)
{
	return (uint32_t)hash_bytes(peer, sizeof(*peer), (uint64_t)pport << 16 | gport) % NAT_HASH;
}

int nat_family(const struct ip_addr *a)
{
	return !ip_is_v4(a);
}

int nat_is_guest(const struct nat *n, const struct ip_addr *a)
{
	return ip_eq(a, &n->guest[nat_family(a)]) && (ip_is_v4(a) || n->have_v6);
}

int nat_visible_peer(const struct nat *n, struct ip_addr *a)
{
	int f = nat_family(a);

	if (!ip_is_loopback(a) && !ip_is_linklocal6(a) && !ip_eq(a, &n->guest[f]) && !ip_eq(a, &n->dns[f]) &&
	    !ip_eq(a, &n->gate[f]))
		return 0;
	*a = n->gate[f];
	return 1;
}

/* ---- host sockets ---- */

/* #hostcalls: socket */
int nat_socket(const union nat_sockaddr *to, int type, int proto)
{
	int fd = socket(to->sa.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, proto);

	return fd < 0 ? -errno : fd;
}

enum gateway_why nat_why(int err)
{
	switch (err) {
	case ECONNREFUSED:
		return GATEWAY_NO_PORT;
	case EACCES:
	case EPERM:
		return GATEWAY_PROHIBITED;
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return GATEWAY_NO_NET;
	}
	return GATEWAY_NO_HOST;
}

/* #hostcalls: epoll_ctl */
int nat_watch(struct nat *n, struct nat_source *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	list_init(&s->dead);
	return epoll_ctl(n->epoll, EPOLL_CTL_ADD, s->fd, &ev) ? -errno : 0;
}

/* #hostcalls: close */
void nat_bury(struct nat *n, struct nat_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	list_add_tail(&s->dead, &n->dead);
}

/* ---- the stack's side ---- */

static uint64_t env_now(void *priv)
{
	return nat_now();
}

/* #hostcalls: clock_gettime */
static uint64_t env_real(void *priv)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void env_arm(void *priv, uint64_t deadline)
{
	((struct nat *)priv)->stack_deadline = deadline;
}

/* #hostcalls: getrandom */
static void env_random(void *priv, void *buf, size_t size)
{
	ASSERT(getrandom(buf, size, 0) == (ssize_t)size);
}

static void packet(void *priv, struct nic *nic, struct pkt *p)
{
	struct nat *n = priv;

	if (nat_is_guest(n, &p->src))
		list_add_tail(&p->node, &n->inbox);
	else
		pkt_free(p);
}

static void inbox(struct nat *n)
{
	for (int i = 0; i < INBOX_TURN && !list_empty(&n->inbox); i++) {
		struct pkt *p = list_first(&n->inbox, struct pkt, node);

		list_del(&p->node);
		if (p->proto == IPPROTO_TCP)
			nat_tcp_syn(n, p);
		else if (p->proto == IPPROTO_UDP)
			nat_udp_packet(n, p);
		else
			nat_ping_packet(n, p);
	}
}

/* Asks for EPOLLOUT of the link while frames wait for it. */
static void watch_link(struct nat *n)
{
	int want = pair_blocked(n->nic);

	if (want == n->link_wants_out)
		return;
	struct epoll_event ev = { .events = EPOLLIN | (want ? EPOLLOUT : 0), .data.ptr = &n->link };

	if (!epoll_ctl(n->epoll, EPOLL_CTL_MOD, n->link.fd, &ev))
		n->link_wants_out = want;
}

static void link_ready(struct nat *n, struct nat_source *s, uint32_t events)
{
	if (events & EPOLLOUT) {
		stack_lock(n->stack);
		pair_writable(n->nic);
		stack_unlock(n->stack);
	}
	/* A full inbox is worked off first: the sandbox waits. */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && list_empty(&n->inbox)) {
		int r = pair_receive(n->nic);

		if (r < 0 && r != -EAGAIN && r != -EINTR && r != -ENOMEM && r != -ENOBUFS)
			n->done = 1;
	}
}

static int accept_wakes(struct waiter *w, uint32_t events)
{
	((struct nat *)w->priv)->accepting = 1;
	return 0;
}

/* ---- life ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Runs what is due; when the next thing is. */
static uint64_t expire(struct nat *n)
{
	uint64_t now = nat_now(), next;

	if (n->stack_deadline <= now) {
		n->stack_deadline = NAT_NEVER;
		stack_timers(n->stack);
	}
	next = earlier(nat_tcp_expire(n, now), nat_udp_expire(n, now));
	next = earlier(next, earlier(nat_ping_expire(n, now), nat_dns_expire(n, now)));
	return earlier(next, n->stack_deadline);
}

/* #hostcalls: epoll_wait */
void nat_turn(struct nat *n, uint64_t limit)
{
	struct epoll_event ev[EVENTS];
	struct nat_source *s, *tmp;
	uint64_t next = earlier(expire(n), limit), now = nat_now();
	int ms = next == NAT_NEVER ? -1 : next <= now ? 0 : next - now > 60000000000u ? 60000 :
		 (int)((next - now + 999999u) / 1000000u);

	if (n->accepting || !list_empty(&n->inbox) || !list_empty(&n->tcp_dirty))
		ms = 0;
	int got = epoll_wait(n->epoll, ev, EVENTS, ms);

	for (int i = 0; i < got; i++) {
		s = ev[i].data.ptr;
		if (s->fd >= 0)
			s->ready(n, s, ev[i].events);
	}
	inbox(n);
	if (n->accepting) {
		n->accepting = 0;
		nat_tcp_accepted(n);
	}
	nat_tcp_pump(n);
	if (n->publish_stalled && n->tcp_count < NAT_TCP_MAX) {
		n->publish_stalled = 0;
		for (uint32_t i = 0; i < n->publish_count; i++)
			if (!n->publish[i].udp)
				nat_tcp_published(n, &n->publish[i]);
	}
	watch_link(n);
	list_for_each_safe(s, tmp, &n->dead, dead) {
		list_del(&s->dead);
		free(s);
	}
}

void nat_run(struct nat *n)
{
	while (!n->done)
		nat_turn(n, NAT_NEVER);
}

/* What the stack may keep for one connection: with NAT_TCP_MAX it bounds everything. */
static void stack_limits(struct stack *s)
{
	struct stack_sysctl *c = stack_sysctl(s);

	c->tcp_rmem[1] = 131072;
	c->tcp_rmem[2] = 262144;
	c->tcp_wmem[1] = c->tcp_wmem[2] = 262144;
	c->max_tw = 0; /* the link neither loses nor delays: nothing old can arrive */
	c->somaxconn = NAT_TCP_MAX;
}

static void publish_ready(struct nat *n, struct nat_source *s, uint32_t events)
{
	struct nat_publish *b = (struct nat_publish *)s;

	if (b->udp)
		nat_udp_published(n, b);
	else
		nat_tcp_published(n, b);
}

static int add_addr(struct nat *n, const struct ip_addr *a, uint32_t plen)
{
	struct nic_addr na = { .addr = *a, .plen = plen, .broadcast = ip_from_v4(0) };

	return nic_add_addr(n->nic, &na);
}

/* The link, its addresses, and the way to the guest. */
static int start_link(struct nat *n, int fd, const uint8_t mac[6], const uint8_t guest_mac[6], uint32_t mtu)
{
	int err = 0;

	n->nic = pair_new(n->stack, "sandbox", fd, mac, mtu);
	if (!n->nic)
		return -ENOMEM;
	gateway_set(n->nic, &n->gateway);
	for (int f = 0; f < 1 + n->have_v6 && !err; f++) {
		struct route r = { .dst = n->guest[f], .plen = 128, .nic = n->nic->index, .type = 1 };

		r.gateway = r.pref_src = f ? (struct ip_addr){ .d = { 0, 0 } } : ip_from_v4(0);
		err = add_addr(n, &n->gate[f], 128);
		if (!err)
			err = add_addr(n, &n->dns[f], 128);
		if (!err)
			err = route_add(n->stack, &r);
		neigh_add(n->nic, &n->guest[f], guest_mac);
	}
	return err;
}

/* #hostcalls: epoll_create1 */
int nat_start(struct nat *n, int link_fd, const uint8_t mac[6], const uint8_t guest_mac[6], uint32_t mtu)
{
	struct stack_env env = { .priv = n, .now = env_now, .real = env_real, .arm = env_arm, .random = env_random };
	int err;

	for (uint32_t i = 0; i < NAT_HASH; i++) {
		list_init(&n->tcp[i]);
		list_init(&n->udp[i]);
	}
	list_init(&n->inbox);
	list_init(&n->dead);
	list_init(&n->tcp_dirty);
	list_init(&n->tcp_answered);
	list_init(&n->udp_lru);
	list_init(&n->ping);
	list_init(&n->dns_wait);
	n->stack_deadline = NAT_NEVER;
	n->gateway = (struct gateway){ .priv = n, .packet = packet };
	n->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (n->epoll < 0)
		return -errno;
	n->stack = stack_new(&env);
	if (!n->stack)
		return -ENOMEM;
	stack_limits(n->stack);
	stack_lock(n->stack);
	err = loopback_new(n->stack) ? start_link(n, link_fd, mac, guest_mac, mtu) : -ENOMEM;
	stack_unlock(n->stack);
	n->listener = err ? NULL : gateway_listener(n->stack, NAT_TCP_MAX);
	if (!n->listener)
		return err ? err : -ENOMEM;
	n->listener->o.nodelay = n->listener->o.oobinline = 1;
	waiter_init(&n->listener_waits, POLLIN, accept_wakes, n);
	waitq_add(&n->listener->wq, &n->listener_waits);
	n->link = (struct nat_source){ .ready = link_ready, .fd = link_fd };
	err = nat_watch(n, &n->link, EPOLLIN);
	for (uint32_t i = 0; i < n->publish_count && !err; i++) {
		n->publish[i].src.ready = publish_ready;
		err = nat_watch(n, &n->publish[i].src, EPOLLIN | EPOLLET);
	}
	return err;
}
