/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forwarder behind the guest's resolver address: each query goes, with an id and from a port of its
 * own that nobody can guess (RFC 5452), to one of the host's resolvers; what comes back is passed on
 * only when resolver (a connected socket), id and question agree. The next resolver is asked when one
 * refuses or is silent. Over TCP a query is an ordinary flow to a resolver: see tcp.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "netstack/nat/nat.h"

#define DNS_HEAD 12u
#define QUERY_MAX 4096u
#define TRY_NS 2000000000ull
#define ROUNDS 2u
#define SERVFAIL 2

struct dns_query {
	struct nat_source host;
	struct list_head node; /* in nat.dns_wait, by deadline: every try lasts as long */
	struct ip_addr guest, server;
	uint16_t gport, guest_id, id;
	uint32_t tries, len;
	uint64_t deadline;
	uint8_t msg[];
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

uint32_t dns_question(const uint8_t *m, uint32_t len)
{
	uint32_t at = DNS_HEAD;

	if (len < DNS_HEAD || get16(m + 4) != 1)
		return 0;
	while (at < len && m[at]) {
		if (m[at] > 63 || at - DNS_HEAD > 255) /* no pointers in a question */
			return 0;
		at += m[at] + 1u;
	}
	return at + 5 <= len ? at + 5 - DNS_HEAD : 0;
}

int dns_answers(const uint8_t *query, uint32_t query_len, uint16_t id, const uint8_t *m, uint32_t len)
{
	uint32_t n = dns_question(query, query_len);

	if (len < DNS_HEAD || get16(m) != id || !(m[2] & 0x80) || (m[2] & 0x78) != (query[2] & 0x78))
		return 0;
	if (!get16(m + 4)) /* servers that did not understand the question may leave it out */
		return (m[3] & 15) != 0 && !get16(m + 6);
	return n && dns_question(m, len) == n && !memcmp(m + DNS_HEAD, query + DNS_HEAD, n);
}

static void end(struct nat *n, struct dns_query *q)
{
	list_del(&q->node);
	n->dns_count--;
	nat_bury(n, &q->host);
}

/* To the guest, with its own id; consumes nothing. */
static void answer(struct nat *n, struct dns_query *q, uint8_t *m, uint32_t len)
{
	struct pkt *p;

	m[0] = (uint8_t)(q->guest_id >> 8);
	m[1] = (uint8_t)q->guest_id;
	p = pkt_from_mem(m, len);
	if (!p)
		return;
	stack_lock(n->stack);
	gateway_udp(n->nic, p, &q->server, 53, &q->guest, q->gport);
	stack_unlock(n->stack);
}

static void give_up(struct nat *n, struct dns_query *q)
{
	uint32_t len = DNS_HEAD + dns_question(q->msg, q->len);

	q->msg[2] |= 0x80;
	q->msg[3] = SERVFAIL;
	memset(q->msg + 6, 0, 6); /* the question alone */
	answer(n, q, q->msg, len);
	end(n, q);
}

static void next_try(struct nat *n, struct dns_query *q);

/* #hostcalls: recvfrom */
static void host_ready(struct nat *n, struct nat_source *s, uint32_t events)
{
	struct dns_query *q = (struct dns_query *)s;

	for (int i = 0; i < 8; i++) {
		ssize_t got = recv(s->fd, n->msg, sizeof(n->msg), MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			if (errno != EAGAIN)
				next_try(n, q);
			return;
		}
		if (dns_answers(q->msg, q->len, q->id, n->msg, (uint32_t)got)) {
			answer(n, q, n->msg, (uint32_t)got);
			end(n, q);
			return;
		}
	}
}

/* A new socket (so a new port) and a new id for each try. #hostcalls: connect sendto getrandom */
static int ask(struct nat *n, struct dns_query *q, const union nat_sockaddr *to)
{
	int fd = nat_socket(to, SOCK_DGRAM, 0);

	if (fd < 0)
		return fd;
	if (q->host.fd >= 0)
		close(q->host.fd);
	q->host.fd = fd;
	q->host.ready = host_ready;
	if (getrandom(&q->id, sizeof(q->id), 0) != sizeof(q->id))
		return -EIO;
	q->msg[0] = (uint8_t)(q->id >> 8);
	q->msg[1] = (uint8_t)q->id;
	if (connect(fd, &to->sa, nat_sockaddr_len(to)) || send(fd, q->msg, q->len, MSG_NOSIGNAL) < 0)
		return -errno;
	return nat_watch(n, &q->host, EPOLLIN);
}

static void next_try(struct nat *n, struct dns_query *q)
{
	while (q->tries < ROUNDS * n->resolver_count)
		if (!ask(n, q, &n->resolver[q->tries++ % n->resolver_count])) {
			q->deadline = nat_now() + TRY_NS;
			list_del(&q->node);
			list_add_tail(&q->node, &n->dns_wait);
			return;
		}
	give_up(n, q);
}

void nat_dns_packet(struct nat *n, struct pkt *p)
{
	struct dns_query *q = NULL;

	if (p->len >= DNS_HEAD && p->len <= QUERY_MAX) {
		if (n->dns_count >= NAT_DNS_MAX)
			give_up(n, list_first(&n->dns_wait, struct dns_query, node));
		q = calloc(1, sizeof(*q) + p->len);
	}
	if (q) {
		q->host.fd = -1;
		list_init(&q->host.dead);
		list_init(&q->node);
		list_add_tail(&q->node, &n->dns_wait);
		n->dns_count++;
		q->guest = p->src;
		q->server = p->dst;
		q->gport = p->sport;
		q->len = p->len;
		pkt_copy(p, 0, q->msg, p->len);
		q->guest_id = get16(q->msg);
		if ((q->msg[2] & 0x80) || !dns_question(q->msg, q->len))
			end(n, q); /* no query */
		else
			next_try(n, q);
	}
	pkt_free(p);
}

uint64_t nat_dns_expire(struct nat *n, uint64_t now)
{
	while (!list_empty(&n->dns_wait)) {
		struct dns_query *q = list_first(&n->dns_wait, struct dns_query, node);

		if (q->deadline > now)
			return q->deadline;
		next_try(n, q);
	}
	return NAT_NEVER;
}
