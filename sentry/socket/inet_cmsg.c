/* SPDX-License-Identifier: Apache-2.0 */
/* Ancillary data of IP sockets: what a sender wishes, and what a receiver asked to be told. */
#include <asm/socket.h>
#include <time.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#include <string.h>
#include <sys/time.h>

#include "netstack/pkt.h"
#include "sentry/socket/inet_priv.h"

static int pktinfo4(struct socket *s, struct sock_msg *m, const void *data, size_t len)
{
	struct in_pktinfo pi;

	(void)s;
	if (len != sizeof(pi))
		return -EINVAL;
	memcpy(&pi, data, sizeof(pi));
	m->ip.nic = (uint32_t)pi.ipi_ifindex;
	if (pi.ipi_spec_dst.s_addr)
		m->ip.src = ip_from_v4(pi.ipi_spec_dst.s_addr);
	return 0;
}

static int check_source(struct socket *s, const struct sock_msg *m)
{
	int ok = 1;

	stack_lock(inet_stack(s));
	if (m->ip.nic && !nic_find(inet_stack(s), m->ip.nic))
		ok = 0;
	else if (!ip_is_any(&m->ip.src) && !stack_local(inet_stack(s), &m->ip.src) && !inet_of(s)->ep->o.freebind)
		ok = 0;
	stack_unlock(inet_stack(s));
	return ok;
}

int inet_cmsg_in(struct socket *s, struct task *t, struct sock_msg *m, int level, int type,
		 const void *data, size_t len)
{
	int v = 0, err;

	(void)t;
	if (s->type == SOCK_STREAM)
		return 0;
	if (len >= sizeof(v))
		memcpy(&v, data, sizeof(v));
	if (level == IPPROTO_IP) {
		switch (type) {
		case IP_PKTINFO:
			err = pktinfo4(s, m, data, len);
			if (err)
				return err;
			return check_source(s, m) ? 0 : -EINVAL;
		case IP_TTL:
			if (len != sizeof(int) || v < 1 || v > 255)
				return -EINVAL;
			m->ip.ttl = v + 1;
			return 0;
		case IP_TOS:
			if (len == 1)
				v = *(const uint8_t *)data;
			else if (len != sizeof(int))
				return -EINVAL;
			if (v < 0 || v > 255)
				return -EINVAL;
			m->ip.tos = v + 1;
			return 0;
		}
		return -EINVAL;
	}
	if (level == IPPROTO_IPV6 && s->family == AF_INET6) {
		struct in6_pktinfo pi;

		switch (type) {
		case IPV6_PKTINFO:
		case IPV6_2292PKTINFO:
			if (len < sizeof(pi))
				return -EINVAL;
			memcpy(&pi, data, sizeof(pi));
			m->ip.nic = (uint32_t)pi.ipi6_ifindex;
			m->ip.src = ip_from_v6(&pi.ipi6_addr);
			return check_source(s, m) ? 0 : -EINVAL;
		case IPV6_HOPLIMIT:
		case IPV6_2292HOPLIMIT:
			if (len != sizeof(int) || v < -1 || v > 255)
				return -EINVAL;
			m->ip.ttl = v + 1;
			return 0;
		case IPV6_TCLASS:
			if (len != sizeof(int) || v < -1 || v > 255)
				return -EINVAL;
			m->ip.tos = v + 1;
			return 0;
		}
		return -EINVAL;
	}
	if (level == IPPROTO_UDP && type == UDP_SEGMENT && inet_of(s)->ep->kind == EP_UDP) {
		uint16_t n;

		if (len != sizeof(n))
			return -EINVAL;
		memcpy(&n, data, sizeof(n));
		m->ip.gso_size = n;
		return 0;
	}
	return 0;
}

static void put_error(struct socket *s, const struct pkt *p, struct cmsg_out *out)
{
	struct {
		struct sock_extended_err ee;
		union {
			struct sockaddr_in in;
			struct sockaddr_in6 in6;
		} offender;
	} e;
	struct sockaddr_storage a;
	uint32_t len;
	int v4 = ip_is_v4(&p->dst);

	memset(&e, 0, sizeof(e));
	e.ee.ee_errno = p->ee.err;
	e.ee.ee_origin = (uint8_t)p->ee.origin;
	e.ee.ee_type = (uint8_t)p->ee.type;
	e.ee.ee_code = (uint8_t)p->ee.code;
	e.ee.ee_info = p->ee.info;
	inet_addr_out(v4 && s->family == AF_INET ? AF_INET : AF_INET6, &p->ee.offender, 0, p->nic, &a, &len);
	memcpy(&e.offender, &a, len);
	cmsg_put(out, s->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
		 s->family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &e, sizeof(e.ee) + len);
}

void inet_cmsg_out(struct socket *s, struct sock_msg *m, struct cmsg_out *out)
{
	struct inet_sock *i = inet_of(s);
	const struct sock_ip *ip = &m->ip;
	int v4 = ip_is_v4(&ip->to), ttl = ip->ttl, tos = ip->tos;

	if (ip->err) {
		put_error(s, ip->err, out);
		return;
	}
	if (!ip->stamp_ns)
		return;
	if (i->want & WANT_STAMPNS) {
		struct timespec ts = { (time_t)(ip->stamp_ns / 1000000000u), (long)(ip->stamp_ns % 1000000000u) };

		cmsg_put(out, SOL_SOCKET, SO_TIMESTAMPNS_OLD, &ts, sizeof(ts));
	} else if (s->timestamp) {
		struct timeval tv = { (time_t)(ip->stamp_ns / 1000000000u),
				      (suseconds_t)(ip->stamp_ns % 1000000000u / 1000u) };

		cmsg_put(out, SOL_SOCKET, SO_TIMESTAMP_OLD, &tv, sizeof(tv));
	}
	if (i->want & WANT_OVFL) {
		uint32_t drops = (uint32_t)i->ep->drops;

		if (drops)
			cmsg_put(out, SOL_SOCKET, SO_RXQ_OVFL, &drops, sizeof(drops));
	}
	if (v4 && (i->want & WANT_PKTINFO)) {
		struct in_pktinfo pi = { .ipi_ifindex = (int)ip->nic, .ipi_addr.s_addr = ip->to.w[3],
					 .ipi_spec_dst.s_addr = ip->to.w[3] };

		cmsg_put(out, IPPROTO_IP, IP_PKTINFO, &pi, sizeof(pi));
	}
	if (v4 && (i->want & WANT_TTL))
		cmsg_put(out, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	if (v4 && (i->want & WANT_TOS))
		cmsg_put(out, IPPROTO_IP, IP_TOS, &ip->tos, 1);
	if (v4 && (i->want & WANT_ORIGDST)) {
		struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(ip->to_port),
					 .sin_addr.s_addr = ip->to.w[3] };

		cmsg_put(out, IPPROTO_IP, IP_ORIGDSTADDR, &a, sizeof(a));
	}
	if (s->family != AF_INET6)
		return;
	if (i->want & (WANT_PKTINFO6 | WANT_2292PKTINFO)) {
		struct in6_pktinfo pi = { .ipi6_ifindex = ip->nic };

		memcpy(&pi.ipi6_addr, ip->to.b, 16);
		cmsg_put(out, IPPROTO_IPV6, i->want & WANT_PKTINFO6 ? IPV6_PKTINFO : IPV6_2292PKTINFO, &pi, sizeof(pi));
	}
	if (i->want & (WANT_HOPS | WANT_2292HOPS))
		cmsg_put(out, IPPROTO_IPV6, i->want & WANT_HOPS ? IPV6_HOPLIMIT : IPV6_2292HOPLIMIT, &ttl, sizeof(ttl));
	if (i->want & WANT_TCLASS)
		cmsg_put(out, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
}
