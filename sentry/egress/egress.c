/* SPDX-License-Identifier: Apache-2.0 */
/* Judging: see egress.h. setup.c reads the configuration. */
#include <stdio.h>
#include <string.h>

#include "netstack/egress/packet.h"
#include "platform/base/ktimer.h"
#include "sentry/egress/egress_priv.h"
#include "sentry/task/task.h"

static const char *proto_name(uint8_t proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return "icmp";
	}
	return "other";
}

static void who(struct endpoint *ep, struct ep_label *l)
{
	if (ep && ep->label.id)
		*l = ep->label;
	else if (current)
		audit_label(current, l);
}

static void keep_texts(struct audit_record *r, const char *rule, const char *name)
{
	snprintf(r->rule, sizeof(r->rule), "%s", rule);
	snprintf(r->name, sizeof(r->name), "%s", name ? name : "");
}

/* e->lock held. */
static int decide(struct egress *e, const struct egress_target *t, uint64_t now, struct audit_record *r)
{
	struct egress_verdict v;

	lock_assert_held(&e->lock);
	if (egress_decide(e->policy, e->bindings, t, now, &v))
		return 0;
	keep_texts(r, v.rule, v.name);
	return -EPERM;
}

/* e->lock held: this connection was found good by the policy there is. */
static int is_cleared(const struct egress *e, const struct endpoint *ep)
{
	return ep->kind == EP_TCP && (ep->cleared == EP_CLEARED_ALWAYS || ep->cleared == e->generation);
}

static int judge_packet(struct egress *e, const struct egress_packet *k, struct endpoint *ep, const char *fault,
			uint64_t now, struct audit_record *r)
{
	struct egress_target t = { k->dst, k->proto, k->ports_known, k->dport };
	struct egress_flow f = { k->src, k->dst, k->sport, k->dport, k->proto };

	if (fault) {
		keep_texts(r, fault, NULL);
		return -EPERM;
	}
	if (ep && is_cleared(e, ep))
		return 0;
	if (!decide(e, &t, now, r)) {
		if (ep && ep->kind == EP_TCP)
			ep->cleared = e->generation;
		return 0;
	}
	/* An answer to a datagram from outside. */
	return ep && ep->kind == EP_UDP && k->ports_known && egress_flows_open(e->flows, &f, now) ? 0 : -EPERM;
}

static int guard_output(void *priv, const struct egress_packet *k, struct endpoint *ep, uint32_t len,
			const char *fault)
{
	struct egress *e = priv;
	struct audit_record r;
	uint64_t now = mono_now_ns();
	int err = 0, told = 1;

	lock_acquire(&e->lock);
	if (ep && ep->trusted)
		goto rates;
	if (e->policy)
		err = judge_packet(e, k, ep, fault, now, &r);
	/* A connection by hand, past connect(2). */
	if (!err && (k->tcp_flags & 0x12) == 2 && !(ep && ep->kind == EP_TCP) &&
	    !egress_bucket_take(&e->connects, 1, now)) {
		keep_texts(&r, "connection rate", NULL);
		err = -EPERM;
	}
rates:
	if (!err && !egress_bucket_take(&e->bytes_out, len, now)) {
		err = -ENOBUFS; /* as a full queue: TCP slows down */
		told = 0;
	}
	lock_release(&e->lock);
	if (err && told) {
		r.event = "refused";
		r.proto = proto_name(k->proto);
		r.who = (struct ep_label){ .id = 0 };
		who(ep, &r.who);
		r.addr = ip_is_any(&k->dst) ? NULL : &k->dst;
		r.port = k->ports_known ? k->dport : -1;
		r.direction = NULL;
		audit_write(e, &r);
	}
	return err;
}

static int guard_input(void *priv, const struct egress_packet *k, uint32_t len)
{
	struct egress *e = priv;
	struct egress_flow f = { k->dst, k->src, k->dport, k->sport, k->proto };
	uint64_t now = mono_now_ns();
	int err = 0;

	lock_acquire(&e->lock);
	if (!egress_bucket_take(&e->bytes_in, len, now))
		err = -ENOBUFS;
	else if (k->proto == IPPROTO_UDP && k->ports_known)
		egress_flows_seen(e->flows, &f, now);
	lock_release(&e->lock);
	return err;
}

const struct stack_guard g_egress_guard = { .output = guard_output, .input = guard_input };

/* Does a packet to a stay inside? */
static int is_inside(struct stack *s, const struct ip_addr *a)
{
	int inside;

	if (ip_is_any(a)) /* "this host" */
		return 1;
	stack_lock(s);
	inside = stack_local(s, a) != NULL;
	stack_unlock(s);
	return inside;
}

int egress_connect(struct egress *e, struct task *t, struct endpoint *ep, const struct ip_addr *a, uint16_t port)
{
	int tcp = ep->kind == EP_TCP, err = 0;
	struct egress_target to = { *a, ep->proto, 1, port };
	struct audit_record r = { .event = "refused", .proto = proto_name(ep->proto), .addr = a,
				  .port = ep->kind == EP_RAW || ep->kind == EP_PING ? -1 : port };
	uint64_t now = mono_now_ns();

	if (!e || is_inside(e->stack, a))
		return 0;
	lock_acquire(&e->lock);
	if (e->policy)
		err = decide(e, &to, now, &r);
	if (!err && tcp && !egress_bucket_take(&e->connects, 1, now)) {
		keep_texts(&r, "connection rate", NULL);
		err = -EPERM;
	}
	lock_release(&e->lock);
	if (!err)
		return 0;
	audit_label(t, &r.who);
	audit_write(e, &r);
	return tcp ? -ECONNREFUSED : -EPERM;
}

void egress_label(const struct egress *e, struct task *t, struct endpoint *ep)
{
	if (e)
		audit_label(t, &ep->label);
}

void egress_closed(struct egress *e, struct endpoint *ep)
{
	struct audit_record r = { .event = "connection", .proto = "tcp", .who = ep->label };
	struct tcp_numbers n;
	struct ip_addr peer;
	uint32_t cursor = 0;
	const char *name;

	if (!e || !e->audit.connections || ep->kind != EP_TCP || !ep->connected)
		return;
	stack_lock(e->stack);
	peer = ep->raddr;
	r.port = ep->rport;
	r.direction = ep->cleared == EP_CLEARED_ALWAYS ? "in" : "out";
	stack_unlock(e->stack);
	endpoint_tcp_numbers(ep, &n);
	if (is_inside(e->stack, &peer) || !n.segs_in)
		return;
	r.addr = &peer;
	r.bytes_in = n.bytes_received;
	r.bytes_out = n.bytes_acked + endpoint_outq(ep);
	lock_acquire(&e->lock);
	name = egress_bindings_name(e->bindings, &peer, mono_now_ns(), &cursor);
	snprintf(r.name, sizeof(r.name), "%s", name ? name : "");
	lock_release(&e->lock);
	audit_write(e, &r);
}

int egress_has_policy(const struct egress *e)
{
	return e && e->enforced;
}

/* Locked. A connection that the new policy does not have ends. */
static void judge_again(struct endpoint *ep, void *priv)
{
	struct egress *e = priv;
	struct egress_target t = { ep->raddr, IPPROTO_TCP, 1, ep->rport };
	struct egress_verdict v;

	if (!ep->connected || ep->trusted || ep->cleared == EP_CLEARED_ALWAYS || stack_local(e->stack, &ep->raddr))
		return;
	lock_acquire(&e->lock);
	int ok = egress_decide(e->policy, e->bindings, &t, mono_now_ns(), &v);

	if (ok)
		ep->cleared = e->generation;
	lock_release(&e->lock);
	if (!ok)
		endpoint_abort(ep, EPERM);
}

void egress_policy_replace(struct egress *e, struct egress_policy *p)
{
	struct egress_policy *old;
	struct audit_record r = { .event = "policy", .port = -1 };

	lock_acquire(&e->lock);
	old = e->policy;
	e->policy = p;
	e->generation++;
	if (!e->generation || e->generation == EP_CLEARED_ALWAYS)
		e->generation = 1;
	egress_flows_clear(e->flows);
	lock_release(&e->lock);
	egress_policy_free(old);
	stack_lock(e->stack);
	stack_each(e->stack, EP_TCP, judge_again, e);
	stack_unlock(e->stack);
	snprintf(r.rule, sizeof(r.rule), "%u rules", p->count);
	audit_write(e, &r);
}
