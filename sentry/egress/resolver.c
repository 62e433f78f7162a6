/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver of a sandbox with a policy, at 127.0.0.53 port 53, UDP and TCP. It answers for names
 * that the policy allows and says NXDOMAIN for all others, which are never sent anywhere.
 *
 * One thread receives questions and refuses most by itself. A permitted one is asked by a worker, a
 * thread that lives as long as the question (or the client's TCP connection): over endpoints of its
 * own in the sandbox's stack, with a random id and port, by UDP and, when the answer was cut, by TCP.
 * What comes back must come from that server, to that question (dns_read_answer). The addresses it
 * gives are entered into the table of bindings before the client sees them. Workers are bounded; a
 * guest that asks for more than that waits for nobody but itself.
 */
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "netstack/egress/dns.h"
#include "platform/base/errptr.h"
#include "platform/base/ktimer.h"
#include "platform/base/log.h"
#include "platform/base/thread.h"
#include "sentry/egress/egress_priv.h"

#define PORT_DNS 53u
#define WORKERS_MAX 32u
#define TRIES 2u
#define TRY_NS 2000000000ull
#define IDLE_NS 10000000000ull /* a client's TCP connection without a question */
#define STRAYS_MAX 64u	       /* datagrams that were not the answer, per try */
#define MESSAGE_MAX 65535u

static const uint8_t g_address[4] = { 127, 0, 0, 53 };

/* ---- waiting: this is a host thread, no task ---- */

struct sleeper {
	sem_t sem;
	struct waiter w[2];
};

static int wake(struct waiter *w, uint32_t events)
{
	(void)events;
	sem_post(w->priv);
	return 1;
}

/* Until one of the endpoints is ready for events, or the deadline (0: none). 0 or -ETIMEDOUT. */
static int wait_for(struct endpoint **ep, int count, uint32_t events, uint64_t deadline)
{
	struct timespec ts = { (time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u) };
	struct sleeper s;
	int ready = 0, late = 0;

	sem_init(&s.sem, 0, 0);
	for (int i = 0; i < count; i++) {
		waiter_init(&s.w[i], events | POLLERR | POLLHUP, wake, &s.sem);
		waitq_add(&ep[i]->wq, &s.w[i]);
	}
	for (;;) {
		for (int i = 0; i < count; i++)
			ready |= (endpoint_ready(ep[i]) & (events | POLLERR | POLLHUP)) != 0;
		if (ready || late)
			break;
		if (!deadline)
			sem_wait(&s.sem);
		else
			late = sem_clockwait(&s.sem, CLOCK_MONOTONIC, &ts) != 0 && mono_now_ns() >= deadline;
	}
	for (int i = 0; i < count; i++)
		waitq_del(&s.w[i]);
	sem_destroy(&s.sem);
	return ready ? 0 : -ETIMEDOUT;
}

/* All n bytes of a stream, or errno. */
static int stream(struct endpoint *ep, uint8_t *buf, size_t n, int send, uint64_t deadline)
{
	while (n) {
		struct uio u;
		ssize_t r;

		uio_init_kernel(&u, buf, n);
		if (send) {
			struct ep_send m = { .u = &u, .ttl = -1, .tos = -1 };

			r = endpoint_send(ep, &m);
		} else {
			struct ep_recv m = { .u = &u };

			r = endpoint_recv(ep, &m);
		}
		if (r == 0)
			return -EPIPE;
		if (r == -EAGAIN)
			r = wait_for(&ep, 1, send ? POLLOUT : POLLIN, deadline);
		else if (r > 0)
			buf += r, n -= (size_t)r;
		if (r < 0)
			return (int)r;
	}
	return 0;
}

/* ---- asking outside ---- */

static struct endpoint *open_to(struct egress *e, const struct ip_addr *server, int tcp)
{
	struct endpoint *ep = endpoint_new(e->stack, tcp ? EP_TCP : EP_UDP, !ip_is_v4(server),
					   tcp ? IPPROTO_TCP : IPPROTO_UDP);
	int err;

	if (!ep)
		return ERR_PTR(-ENOBUFS);
	ep->trusted = 1;
	err = endpoint_connect(ep, server, PORT_DNS);
	if (err && err != -EINPROGRESS) {
		endpoint_close(ep);
		return ERR_PTR(err);
	}
	return ep;
}

struct exchange {
	struct egress *e;
	const struct ip_addr *server;
	const struct dns_question *q;
	uint8_t query[2 + DNS_QUERY_MAX]; /* with TCP's length in front */
	size_t query_len;
	uint16_t id;
	uint8_t *reply; /* MESSAGE_MAX */
	size_t reply_len;
	struct dns_answer a;
};

static int ask_udp(struct exchange *x)
{
	struct endpoint *ep = open_to(x->e, x->server, 0);
	uint64_t deadline = mono_now_ns() + TRY_NS;
	struct uio u;
	struct ep_send m = { .u = &u, .ttl = -1, .tos = -1 };
	ssize_t r;

	if (IS_ERR(ep))
		return (int)PTR_ERR(ep);
	uio_init_kernel(&u, x->query + 2, x->query_len);
	r = endpoint_send(ep, &m);
	for (uint32_t strays = 0; r >= 0 && strays < STRAYS_MAX; strays++) {
		struct ep_recv in = { .u = &u };

		r = wait_for(&ep, 1, POLLIN, deadline);
		if (r)
			break;
		uio_init_kernel(&u, x->reply, MESSAGE_MAX);
		r = endpoint_recv(ep, &in);
		if (r == -EAGAIN)
			r = 0;
		if (r > 0 && !dns_read_answer(x->reply, (size_t)r, x->id, x->q->name, x->q->type, &x->a)) {
			x->reply_len = (size_t)r;
			endpoint_close(ep);
			return 0;
		}
	}
	endpoint_close(ep);
	return r < 0 ? (int)r : -EBADMSG;
}

static int ask_tcp(struct exchange *x)
{
	struct endpoint *ep = open_to(x->e, x->server, 1);
	uint64_t deadline = mono_now_ns() + TRY_NS;
	uint8_t len[2];
	int err;

	if (IS_ERR(ep))
		return (int)PTR_ERR(ep);
	err = wait_for(&ep, 1, POLLOUT, deadline);
	if (!err)
		err = -endpoint_take_error(ep);
	if (!err)
		err = stream(ep, x->query, x->query_len + 2, 1, deadline);
	if (!err)
		err = stream(ep, len, 2, 0, deadline);
	if (!err) {
		x->reply_len = (size_t)len[0] << 8 | len[1];
		err = stream(ep, x->reply, x->reply_len, 0, deadline);
	}
	if (!err)
		err = dns_read_answer(x->reply, x->reply_len, x->id, x->q->name, x->q->type, &x->a);
	endpoint_close(ep);
	return err;
}

/* The first server that answers. */
static int ask(struct exchange *x)
{
	int err = -ENETUNREACH;

	for (uint32_t i = 0; i < TRIES * x->e->server_count; i++) {
		x->server = &x->e->server[i % x->e->server_count];
		x->id = (uint16_t)stack_random(x->e->stack);
		x->query_len = dns_write_query(x->query + 2, x->id, x->q->name, x->q->type);
		x->query[0] = (uint8_t)(x->query_len >> 8);
		x->query[1] = (uint8_t)x->query_len;
		err = ask_udp(x);
		if (!err && x->a.truncated)
			err = ask_tcp(x);
		if (!err && x->a.rcode != DNS_SERVFAIL && x->a.rcode != DNS_REFUSED)
			return 0;
	}
	log_info("resolver: no answer for %s: %s", x->q->name, strerror(-err));
	return err;
}

/* ---- answering ---- */

static void record(struct egress *e, const char *event, const struct dns_question *q, const struct ep_label *who,
		   const struct ip_addr *addr, const char *rule)
{
	struct audit_record r = { .event = event, .proto = "dns", .who = *who, .addr = addr, .port = -1 };

	snprintf(r.name, sizeof(r.name), "%s", q->name);
	snprintf(r.rule, sizeof(r.rule), "%s", rule);
	audit_write(e, &r);
}

static int may_ask(struct egress *e, const struct dns_question *q, char rule[AUDIT_RULE_MAX])
{
	const char *text = "no host name";
	int may;

	lock_acquire(&e->lock);
	may = q->name[0] && egress_name_allowed(e->policy, q->name, &text);
	snprintf(rule, AUDIT_RULE_MAX, "%s", text);
	lock_release(&e->lock);
	return may;
}

/* Keeps those addresses that a name may give, and enters them as this name's. */
static void bind_addresses(struct egress *e, const struct dns_question *q, const struct ep_label *who,
			   struct dns_answer *a)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < a->count; i++) {
		char rule[AUDIT_RULE_MAX];
		const char *why = "default";
		int ok;

		lock_acquire(&e->lock);
		/* The policy may be another one by now. */
		ok = egress_name_allowed(e->policy, q->name, &why) &&
		     egress_answer_allowed(e->policy, &a->addr[i], &why) &&
		     !egress_bindings_add(e->bindings, q->name, &a->addr[i], mono_now_ns(), a->ttl);
		snprintf(rule, sizeof(rule), "%s", why);
		lock_release(&e->lock);
		if (ok)
			a->addr[kept++] = a->addr[i];
		else
			record(e, "answer-dropped", q, who, &a->addr[i], rule);
	}
	a->count = kept;
}

/* The answer to a permitted question into out (MESSAGE_MAX); its length. */
static size_t resolve(struct egress *e, const struct dns_question *q, const struct ep_label *who, uint8_t *out,
		      size_t max)
{
	struct exchange *x = calloc(1, sizeof(*x));
	int addresses = q->type == DNS_A || q->type == DNS_AAAA, rcode = DNS_SERVFAIL;
	size_t n = 0;

	if (!x)
		return dns_write_answer(out, max, q, rcode, NULL, 0, 0);
	x->e = e;
	x->q = q;
	x->reply = out;
	if (!ask(x)) {
		rcode = x->a.rcode == DNS_NXDOMAIN || !x->a.rcode ? x->a.rcode : DNS_SERVFAIL;
		if (addresses) {
			bind_addresses(e, q, who, &x->a);
		} else if (!rcode && x->reply_len <= max && x->reply_len >= DNS_HEADER + q->question_size) {
			/* Other records open nothing; they pass as they are, but for id and spelling. */
			n = x->reply_len;
			out[0] = (uint8_t)(q->id >> 8);
			out[1] = (uint8_t)q->id;
			memcpy(out + DNS_HEADER, q->question, q->question_size);
		}
	}
	if (!n) {
		n = dns_write_answer(out, max, q, rcode, x->a.addr, addresses ? x->a.count : 0,
				     x->a.ttl > EGRESS_TTL_MAX_S ? EGRESS_TTL_MAX_S : x->a.ttl);
		if (!addresses && !rcode && x->reply_len > max)
			out[2] |= 2; /* TC: ask again by TCP */
	}
	free(x);
	return n;
}

static void reply_udp(struct egress *e, const struct ep_recv *from, uint8_t *buf, size_t n)
{
	struct uio u;
	struct ep_send m = { .u = &u, .ttl = -1, .tos = -1, .to = &from->from, .port = from->from_port };

	uio_init_kernel(&u, buf, n);
	endpoint_send(e->udp, &m);
}

/* ---- workers ---- */

struct work {
	struct egress *e;
	struct dns_question q;	/* of a datagram */
	struct ep_recv from;
	struct ep_label who;
	struct endpoint *conn;	/* or a client's connection */
	uint8_t buf[MESSAGE_MAX + 1];
};

static void *datagram_main(void *arg)
{
	struct work *w = arg;
	struct egress *e = w->e;

	reply_udp(e, &w->from, w->buf, resolve(e, &w->q, &w->who, w->buf, w->q.udp_size));
	free(w);
	__atomic_fetch_sub(&e->workers, 1, __ATOMIC_RELAXED);
	return NULL;
}

static int serve_stream(struct work *w)
{
	char rule[AUDIT_RULE_MAX];
	uint8_t len[2];
	size_t n;
	int r = stream(w->conn, len, 2, 0, mono_now_ns() + IDLE_NS);

	if (!r)
		r = stream(w->conn, w->buf, (size_t)len[0] << 8 | len[1], 0, mono_now_ns() + IDLE_NS);
	if (r)
		return r;
	r = dns_read_query(w->buf, (size_t)len[0] << 8 | len[1], &w->q);
	if (r < 0)
		return r;
	if (!r && !may_ask(w->e, &w->q, rule)) {
		record(w->e, "refused", &w->q, &w->who, NULL, rule);
		r = DNS_NXDOMAIN;
	}
	n = r ? dns_write_answer(w->buf, MESSAGE_MAX, &w->q, r, NULL, 0, 0) :
		resolve(w->e, &w->q, &w->who, w->buf, MESSAGE_MAX);
	len[0] = (uint8_t)(n >> 8);
	len[1] = (uint8_t)n;
	r = stream(w->conn, len, 2, 1, mono_now_ns() + IDLE_NS);
	return r ? r : stream(w->conn, w->buf, n, 1, mono_now_ns() + IDLE_NS);
}

static void *stream_main(void *arg)
{
	struct work *w = arg;
	struct egress *e = w->e;

	while (!serve_stream(w))
		;
	endpoint_close(w->conn);
	free(w);
	__atomic_fetch_sub(&e->workers, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Consumes w. */
static void start_worker(struct work *w, void *(*fn)(void *))
{
	struct egress *e = w->e;

	if (__atomic_fetch_add(&e->workers, 1, __ATOMIC_RELAXED) < WORKERS_MAX && !thread_start("net-dns-ask", fn, w))
		return;
	__atomic_fetch_sub(&e->workers, 1, __ATOMIC_RELAXED);
	if (w->conn)
		endpoint_close(w->conn);
	free(w); /* the client asks again */
}

static void take_datagram(struct egress *e)
{
	uint8_t buf[DNS_UDP_MAX];
	char rule[AUDIT_RULE_MAX];
	struct dns_question q;
	struct uio u;
	struct ep_recv in = { .u = &u };
	struct ip_addr here = ip_from_v4(0);
	ssize_t n;
	int r;

	memcpy(&here.w[3], g_address, 4);
	uio_init_kernel(&u, buf, sizeof(buf));
	n = endpoint_recv(e->udp, &in);
	if (n < 0 || (r = dns_read_query(buf, (size_t)n, &q)) < 0)
		return;
	struct ep_label who = { .id = 0 };

	stack_label(e->stack, EP_UDP, &in.from, in.from_port, &here, PORT_DNS, &who);
	if (!r && !may_ask(e, &q, rule)) {
		record(e, "refused", &q, &who, NULL, rule);
		r = DNS_NXDOMAIN;
	}
	if (r) {
		reply_udp(e, &in, buf, dns_write_answer(buf, sizeof(buf), &q, r, NULL, 0, 0));
		return;
	}
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return;
	w->e = e;
	w->q = q;
	w->from = in;
	w->who = who;
	start_worker(w, datagram_main);
}

static void take_connection(struct egress *e)
{
	struct endpoint *conn = endpoint_accept(e->tcp);
	struct work *w;

	if (IS_ERR(conn))
		return;
	w = calloc(1, sizeof(*w));
	if (!w) {
		endpoint_close(conn);
		return;
	}
	w->e = e;
	w->conn = conn;
	stack_label(e->stack, EP_TCP, &conn->raddr, conn->rport, &conn->laddr, conn->lport, &w->who);
	start_worker(w, stream_main);
}

static void *resolver_main(void *arg)
{
	struct egress *e = arg;
	struct endpoint *both[2] = { e->udp, e->tcp };

	for (;;) {
		wait_for(both, 2, POLLIN, 0);
		if (endpoint_ready(e->udp) & (POLLIN | POLLERR))
			take_datagram(e);
		if (endpoint_ready(e->tcp) & POLLIN)
			take_connection(e);
	}
	return NULL;
}

int resolver_start(struct egress *e)
{
	struct ip_addr here = ip_from_v4(0);
	int err;

	memcpy(&here.w[3], g_address, 4);
	e->udp = endpoint_new(e->stack, EP_UDP, 0, IPPROTO_UDP);
	e->tcp = endpoint_new(e->stack, EP_TCP, 0, IPPROTO_TCP);
	if (!e->udp || !e->tcp)
		return -ENOBUFS;
	err = endpoint_bind(e->udp, &here, PORT_DNS);
	if (!err)
		err = endpoint_bind(e->tcp, &here, PORT_DNS);
	if (!err)
		err = endpoint_listen(e->tcp, 64);
	return err ? err : thread_start("net-dns", resolver_main, e);
}
