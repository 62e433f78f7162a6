/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket options of IPPROTO_IP, IPV6, TCP, UDP, ICMP and what SOL_SOCKET has for IP. Plain ones are
 * rows of one table; the rest is below it.
 */
#include <asm/socket.h>
#include <linux/tcp.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/log.h"
#include "sentry/socket/inet_priv.h"

#ifndef ICMP_FILTER
#define ICMP_FILTER 1
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef IPV6_RECVERR_RFC4884
#define IPV6_RECVERR_RFC4884 31
#endif
#define ICMPV6_FILTER_OPT 1

enum where { FIELD, WANT, PARK };

/* PARK: options whose effect does not exist here (no such header is ever sent): accepted, and shown
 * as off. */
struct opt_row {
	int level, opt;
	enum where where;
	uint32_t off;  /* FIELD: in ep_opts; WANT: the bit; PARK: the value shown */
	uint8_t size;  /* FIELD: 1, 2 or 4 */
	uint8_t flag;  /* stored as 0 or 1 */
	int min, max;  /* else -EINVAL */
	uint8_t kinds; /* bits of enum ep_kind; 0: all */
};

#define F(f) FIELD, offsetof(struct ep_opts, f), sizeof(((struct ep_opts *)0)->f)
#define ANY INT32_MIN, INT32_MAX
#define TCPK (1u << EP_TCP)

static const struct opt_row g_rows[] = {
	{ IPPROTO_IP, IP_TTL, F(ttl), 0, -1, 255, 0 },
	{ IPPROTO_IP, IP_TOS, F(tos), 0, ANY, 0 },
	{ IPPROTO_IP, IP_RECVERR, F(recverr), 1, ANY, 0 },
	{ IPPROTO_IP, IP_FREEBIND, F(freebind), 1, ANY, 0 },
	{ IPPROTO_IP, IP_TRANSPARENT, PARK, 0, 4, 1, 0, 0, 0 },
	{ IPPROTO_IP, IP_MTU_DISCOVER, F(pmtudisc), 0, 0, 5, 0 },
	{ IPPROTO_IP, IP_MULTICAST_LOOP, F(mc_loop), 1, ANY, 0 },
	{ IPPROTO_IP, IP_MULTICAST_ALL, F(mc_all), 1, 0, 1, 0 },
	{ IPPROTO_IP, IP_HDRINCL, F(hdrincl), 1, ANY, 1u << EP_RAW },
	{ IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, F(bind_no_port), 1, ANY, 0 },
	{ IPPROTO_IP, IP_PKTINFO, WANT, WANT_PKTINFO, 4, 1, ANY, 0 },
	{ IPPROTO_IP, IP_RECVTTL, WANT, WANT_TTL, 4, 1, ANY, 0 },
	{ IPPROTO_IP, IP_RECVTOS, WANT, WANT_TOS, 4, 1, ANY, 0 },
	{ IPPROTO_IP, IP_RECVOPTS, WANT, WANT_RECVOPTS, 4, 1, ANY, 0 },
	{ IPPROTO_IP, IP_ORIGDSTADDR, WANT, WANT_ORIGDST, 4, 1, ANY, 0 },
	{ IPPROTO_IP, IP_RETOPTS, PARK, 0, 4, 1, ANY, 0 },
	{ IPPROTO_IP, IP_ROUTER_ALERT, PARK, 0, 4, 1, ANY, 1u << EP_RAW },
	{ IPPROTO_IP, IP_MINTTL, PARK, 0, 4, 0, 0, 255, 0 },
	{ IPPROTO_IP, IP_NODEFRAG, PARK, 0, 4, 1, ANY, 1u << EP_RAW },
	{ IPPROTO_IP, IP_UNICAST_IF, PARK, 0, 4, 0, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_RECVHOPOPTS, PARK, 0, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_RECVRTHDR, PARK, 0, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_RECVDSTOPTS, PARK, 0, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_RECVPATHMTU, PARK, 0, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_V6ONLY, F(v6only), 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, F(hops), 0, -1, 255, 0 },
	{ IPPROTO_IPV6, IPV6_MULTICAST_HOPS, F(mc_hops), 0, -1, 255, 0 },
	{ IPPROTO_IPV6, IPV6_MULTICAST_LOOP, F(mc_loop), 1, 0, 1, 0 },
	{ IPPROTO_IPV6, IPV6_MULTICAST_ALL, F(mc_all), 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_TCLASS, F(tclass), 0, -1, 255, 0 },
	{ IPPROTO_IPV6, IPV6_RECVERR, F(recverr6), 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, F(pmtudisc6), 0, 0, 5, 0 },
	{ IPPROTO_IPV6, IPV6_RECVPKTINFO, WANT, WANT_PKTINFO6, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT, WANT, WANT_HOPS, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_RECVTCLASS, WANT, WANT_TCLASS, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, 11 /* IPV6_FLOWINFO */, WANT, WANT_FLOW, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_2292PKTINFO, WANT, WANT_2292PKTINFO, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_2292HOPLIMIT, WANT, WANT_2292HOPS, 4, 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_FREEBIND, F(freebind), 1, ANY, 0 },
	{ IPPROTO_IPV6, IPV6_CHECKSUM, F(csum_offset), 0, -1, 65534, 1u << EP_RAW },
	{ IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, PARK, 1, 4, 1, 0, 1, 0 },
	{ IPPROTO_IPV6, IPV6_DONTFRAG, PARK, 0, 4, 1, 0, 1, 0 },
	{ IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, PARK, 2, 4, 0, ANY, 0 },
	{ IPPROTO_TCP, TCP_NODELAY, F(nodelay), 1, ANY, TCPK },
	{ IPPROTO_TCP, TCP_CORK, F(cork), 1, ANY, TCPK },
	{ IPPROTO_TCP, TCP_QUICKACK, F(quickack), 1, ANY, TCPK },
	{ IPPROTO_TCP, TCP_KEEPIDLE, F(keepidle_s), 0, 1, 32767, TCPK },
	{ IPPROTO_TCP, TCP_KEEPINTVL, F(keepintvl_s), 0, 1, 32767, TCPK },
	{ IPPROTO_TCP, TCP_KEEPCNT, F(keepcnt), 0, 1, 127, TCPK },
	{ IPPROTO_TCP, TCP_SYNCNT, F(syncnt), 0, 1, 127, TCPK },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, F(user_timeout_ms), 0, 0, INT32_MAX, TCPK },
	{ IPPROTO_TCP, TCP_WINDOW_CLAMP, F(window_clamp), 0, 0, INT32_MAX, TCPK },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, F(notsent_lowat), 0, ANY, TCPK },
	{ IPPROTO_TCP, TCP_FASTOPEN, PARK, 0, 4, 0, 0, INT32_MAX, TCPK },
	{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT, PARK, 0, 4, 0, 0, 1, TCPK },
	{ IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, PARK, 0, 4, 0, 0, 1, TCPK },
	{ IPPROTO_TCP, TCP_THIN_DUPACK, PARK, 0, 4, 0, 0, 1, TCPK },
	{ IPPROTO_TCP, TCP_TIMESTAMP, PARK, 0, 4, 0, ANY, TCPK },
	{ IPPROTO_TCP, TCP_SAVE_SYN, PARK, 0, 4, 0, 0, 2, TCPK },
	{ IPPROTO_TCP, TCP_INQ, PARK, 0, 4, 0, 0, 1, TCPK },
	{ IPPROTO_UDP, UDP_CORK, F(cork), 1, ANY, 1u << EP_UDP },
	{ IPPROTO_UDP, UDP_SEGMENT, F(udp_segment), 0, 0, 65535, 1u << EP_UDP },
	{ IPPROTO_UDP, UDP_NO_CHECK6_TX, PARK, 0, 4, 1, ANY, 1u << EP_UDP },
	{ IPPROTO_UDP, UDP_NO_CHECK6_RX, PARK, 0, 4, 1, ANY, 1u << EP_UDP },
	{ IPPROTO_UDPLITE, 10 /* UDPLITE_SEND_CSCOV */, F(send_cover), 0, 0, 65535, 1u << EP_UDPLITE },
	{ IPPROTO_UDPLITE, 11 /* UDPLITE_RECV_CSCOV */, F(recv_cover), 0, 0, 65535, 1u << EP_UDPLITE },
	{ SOL_SOCKET, SO_RXQ_OVFL, WANT, WANT_OVFL, 4, 1, ANY, 0 },
	{ SOL_SOCKET, SO_TIMESTAMPNS_OLD, WANT, WANT_STAMPNS, 4, 1, ANY, 0 },
	{ SOL_SOCKET, SO_ZEROCOPY, PARK, 0, 4, 1, 0, 1, 0 },
	{ SOL_SOCKET, SO_MAX_PACING_RATE, PARK, (uint32_t)-1, 4, 0, ANY, 0 },
	{ SOL_SOCKET, SO_INCOMING_CPU, PARK, (uint32_t)-1, 4, 0, ANY, 0 },
	{ SOL_SOCKET, SO_LOCK_FILTER, PARK, 0, 4, 1, ANY, 0 },
	{ SOL_SOCKET, SO_SELECT_ERR_QUEUE, PARK, 0, 4, 1, ANY, 0 },
	{ SOL_SOCKET, SO_PREFER_BUSY_POLL, PARK, 0, 4, 1, ANY, 0 },
};

static const struct opt_row *find_row(const struct socket *s, int level, int opt)
{
	const struct endpoint *ep = inet_of((struct socket *)(uintptr_t)s)->ep;

	if (level == IPPROTO_IPV6 && s->family != AF_INET6)
		return NULL;
	for (size_t i = 0; i < sizeof(g_rows) / sizeof(*g_rows); i++)
		if (g_rows[i].level == level && g_rows[i].opt == opt &&
		    (!g_rows[i].kinds || (g_rows[i].kinds >> ep->kind & 1)))
			return &g_rows[i];
	return NULL;
}

static int load(const struct ep_opts *o, const struct opt_row *r)
{
	const char *at = (const char *)o + r->off;

	if (r->size == 1)
		return *(const uint8_t *)at;
	if (r->size == 2)
		return r->max > INT16_MAX ? *(const uint16_t *)(const void *)at : *(const int16_t *)(const void *)at;
	return *(const int *)(const void *)at;
}

static void store(struct ep_opts *o, const struct opt_row *r, int v)
{
	char *at = (char *)o + r->off;

	if (r->flag)
		v = v != 0;
	if (r->size == 1)
		*(uint8_t *)at = (uint8_t)v;
	else if (r->size == 2)
		*(int16_t *)(void *)at = (int16_t)v;
	else
		*(int *)(void *)at = v;
}

static int set_row(struct socket *s, const struct opt_row *r, int v)
{
	struct inet_sock *i = inet_of(s);
	struct ep_opts *o = &i->ep->o;

	if (v < r->min || v > r->max)
		return -EINVAL;
	if (r->opt == IP_TTL && r->level == IPPROTO_IP && !v)
		return -EINVAL;
	if (r->opt == IPV6_TCLASS && r->level == IPPROTO_IPV6 && v == -1)
		v = 0;
	if (r->opt == IPV6_V6ONLY && r->level == IPPROTO_IPV6 && i->ep->lport)
		return -EINVAL;
	if (r->level == IPPROTO_IPV6 && r->opt == IPV6_CHECKSUM && v >= 0 && (v & 1))
		return -EINVAL;
	if (r->level == IPPROTO_UDPLITE && v && v < 8)
		v = 8; /* at least the header */
	if (r->where == PARK)
		return 0;
	stack_lock(inet_stack(s));
	if (r->where == WANT) {
		i->want = v ? i->want | r->off : i->want & ~r->off;
	} else {
		store(o, r, v);
		endpoint_options(i->ep);
	}
	stack_unlock(inet_stack(s));
	return 0;
}

static int as_int(const void *val, uint32_t len, int *v)
{
	uint8_t byte;

	if (len >= sizeof(int)) {
		memcpy(v, val, sizeof(int));
		return 0;
	}
	if (!len)
		return -EINVAL;
	memcpy(&byte, val, 1); /* IP options may come as one byte */
	*v = byte;
	return 0;
}

static uint32_t nic_of_addr(struct socket *s, uint32_t be)
{
	struct ip_addr a = ip_from_v4(be);
	struct nic *n = stack_local(inet_stack(s), &a);

	return n ? n->index : 0;
}

static int set_multicast4(struct socket *s, int opt, const void *val, uint32_t len)
{
	struct inet_sock *i = inet_of(s);
	struct ip_mreqn m = { .imr_ifindex = 0 };
	uint32_t nic;

	if (opt == IP_MULTICAST_IF) {
		if (len < sizeof(struct in_addr))
			return -EINVAL;
		if (len >= sizeof(m))
			memcpy(&m, val, sizeof(m));
		else if (len >= sizeof(struct ip_mreq))
			memcpy(&m, val, sizeof(struct ip_mreq));
		else
			memcpy(&m.imr_address, val, sizeof(struct in_addr));
	} else {
		if (len < sizeof(struct ip_mreq))
			return -EINVAL;
		memcpy(&m, val, len >= sizeof(m) ? sizeof(m) : sizeof(struct ip_mreq));
	}
	stack_lock(inet_stack(s));
	nic = (uint32_t)m.imr_ifindex;
	if (!nic && m.imr_address.s_addr)
		nic = nic_of_addr(s, m.imr_address.s_addr);
	int ok = nic ? nic_find(inet_stack(s), nic) != NULL : !m.imr_address.s_addr;

	if (opt == IP_MULTICAST_IF && ok) {
		i->ep->o.mc_nic = nic;
		i->ep->o.mc_addr = ip_from_v4(m.imr_address.s_addr);
	}
	stack_unlock(inet_stack(s));
	if (!ok)
		return opt == IP_MULTICAST_IF ? -EADDRNOTAVAIL : -ENODEV;
	if (opt == IP_MULTICAST_IF)
		return 0;
	struct ip_addr g = ip_from_v4(m.imr_multiaddr.s_addr);

	return opt == IP_ADD_MEMBERSHIP ? endpoint_join(i->ep, &g, nic) : endpoint_leave(i->ep, &g, nic);
}

static int set_multicast6(struct socket *s, int opt, const void *val, uint32_t len)
{
	struct inet_sock *i = inet_of(s);
	struct ipv6_mreq m;

	if (opt == IPV6_MULTICAST_IF) {
		int v;

		if (len < sizeof(int))
			return -EINVAL;
		memcpy(&v, val, sizeof(v));
		stack_lock(inet_stack(s));
		int ok = v >= 0 && (!v || nic_find(inet_stack(s), (uint32_t)v));

		if (ok)
			i->ep->o.mc_nic = (uint32_t)v;
		stack_unlock(inet_stack(s));
		return ok ? 0 : -ENODEV;
	}
	if (len < sizeof(m))
		return -EINVAL;
	memcpy(&m, val, sizeof(m));
	struct ip_addr g = ip_from_v6(&m.ipv6mr_multiaddr);

	return opt == IPV6_ADD_MEMBERSHIP ? endpoint_join(i->ep, &g, (uint32_t)m.ipv6mr_interface) :
					    endpoint_leave(i->ep, &g, (uint32_t)m.ipv6mr_interface);
}

/* MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP: struct group_req. */
static int set_group(struct socket *s, int opt, const void *val, uint32_t len)
{
	struct group_req g;
	struct ip_addr a;

	if (len < sizeof(g))
		return -EINVAL;
	memcpy(&g, val, sizeof(g));
	if (g.gr_group.ss_family == AF_INET)
		a = ip_from_v4(((struct sockaddr_in *)&g.gr_group)->sin_addr.s_addr);
	else if (g.gr_group.ss_family == AF_INET6)
		a = ip_from_v6(&((struct sockaddr_in6 *)&g.gr_group)->sin6_addr);
	else
		return -EADDRNOTAVAIL;
	return opt == MCAST_JOIN_GROUP ? endpoint_join(inet_of(s)->ep, &a, g.gr_interface) :
					 endpoint_leave(inet_of(s)->ep, &a, g.gr_interface);
}

static int set_device(struct socket *s, struct task *t, int by_index, const void *val, uint32_t len)
{
	struct inet_sock *i = inet_of(s);
	char name[NIC_NAME] = "";
	uint32_t index = 0;
	int err = 0;

	if (i->ep->o.nic && !cred_has_cap(task_cred(t), CAP_NET_RAW))
		return -EPERM;
	if (by_index) {
		if (len < sizeof(index))
			return -EINVAL;
		memcpy(&index, val, sizeof(index));
	} else {
		memcpy(name, val, len < NIC_NAME - 1 ? len : NIC_NAME - 1);
	}
	stack_lock(inet_stack(s));
	struct nic *n = by_index ? nic_find(inet_stack(s), index) : nic_by_name(inet_stack(s), name);

	if (by_index ? !index : !name[0])
		i->ep->o.nic = 0;
	else if (n)
		i->ep->o.nic = n->index;
	else
		err = -ENODEV;
	stack_unlock(inet_stack(s));
	return err;
}

static int set_special(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len)
{
	struct inet_sock *i = inet_of(s);
	struct ep_opts *o = &i->ep->o;
	int v = 0, tcp = i->ep->kind == EP_TCP;

	if (level == SOL_SOCKET) {
		switch (opt) {
		case SO_BINDTODEVICE:
			return set_device(s, t, 0, val, len);
		case SO_BINDTOIFINDEX:
			return set_device(s, t, 1, val, len);
		case SO_ATTACH_FILTER:
		case SO_ATTACH_BPF:
		case SO_ATTACH_REUSEPORT_CBPF:
		case SO_ATTACH_REUSEPORT_EBPF:
			log_info("socket filter refused");
			return -EPERM;
		case SO_DETACH_FILTER:
			return -ENOENT;
		case SO_TIMESTAMPING_OLD:
		case SO_TIMESTAMPING_NEW:
			return 0;
		}
		return -ENOPROTOOPT;
	}
	if (level == IPPROTO_TCP && tcp) {
		switch (opt) {
		case TCP_CONGESTION: {
			char name[16] = "";

			if (!len)
				return -EINVAL;
			memcpy(name, val, len < 15 ? len : 15);
			if (strcmp(name, "cubic") && strcmp(name, "reno"))
				return -ENOENT;
			memcpy(i->cc, name, sizeof(i->cc));
			return 0;
		}
		case TCP_ULP:
			return -ENOENT;
		case TCP_REPAIR:
			return -EPERM;
		case TCP_INFO:
		case TCP_CC_INFO:
			return -ENOPROTOOPT;
		}
		if (as_int(val, len < 4 ? 0 : len, &v))
			return -EINVAL;
		stack_lock(inet_stack(s));
		int err = 0;

		if (opt == TCP_MAXSEG) {
			if (v && (v < 88 || v > 32767))
				err = -EINVAL;
			else
				o->maxseg = (uint32_t)v;
		} else if (opt == TCP_DEFER_ACCEPT) {
			o->defer_accept = v > 0 ? (uint8_t)(v > 255 ? 255 : v) : 0;
		} else if (opt == TCP_LINGER2) {
			o->linger2_s = v < 0 ? -1 : v > 120 ? 0 : v;
		} else {
			err = -ENOPROTOOPT;
		}
		stack_unlock(inet_stack(s));
		return err;
	}
	if (level == IPPROTO_ICMP && i->ep->kind == EP_RAW && opt == ICMP_FILTER && i->ep->proto == IPPROTO_ICMP) {
		if (len > sizeof(uint32_t))
			len = sizeof(uint32_t);
		memcpy(&o->icmp_filter, val, len);
		return 0;
	}
	if (level == IPPROTO_ICMPV6 && i->ep->kind == EP_RAW && opt == ICMPV6_FILTER_OPT && i->ep->proto == IPPROTO_ICMPV6) {
		if (len > sizeof(o->icmp6_filter))
			len = sizeof(o->icmp6_filter);
		memcpy(o->icmp6_filter, val, len);
		return 0;
	}
	if (level == IPPROTO_IP) {
		switch (opt) {
		case IP_MULTICAST_IF:
		case IP_ADD_MEMBERSHIP:
		case IP_DROP_MEMBERSHIP:
			return tcp ? -EPROTO : set_multicast4(s, opt, val, len);
		case IP_MULTICAST_TTL:
			if (as_int(val, len, &v))
				return -EINVAL;
			if (v == -1)
				v = 1;
			if (v < 0 || v > 255)
				return -EINVAL;
			o->mc_ttl = (int16_t)v;
			return 0;
		case MCAST_JOIN_GROUP:
		case MCAST_LEAVE_GROUP:
			return set_group(s, opt, val, len);
		case IP_OPTIONS:
			return len ? -EINVAL : 0;
		}
	}
	if (level == IPPROTO_IPV6 && s->family == AF_INET6) {
		switch (opt) {
		case IPV6_MULTICAST_IF:
		case IPV6_ADD_MEMBERSHIP:
		case IPV6_DROP_MEMBERSHIP:
			return set_multicast6(s, opt, val, len);
		case MCAST_JOIN_GROUP:
		case MCAST_LEAVE_GROUP:
			return set_group(s, opt, val, len);
		case IPV6_ADDRFORM:
			return -EINVAL;
		}
	}
	return -ENOPROTOOPT;
}

int inet_setsockopt(struct socket *s, struct task *t, int level, int opt, const void *val, uint32_t len)
{
	const struct opt_row *r = find_row(s, level, opt);
	int v;

	if (!r) {
		int err = set_special(s, t, level, opt, val, len);

		if (err == -ENOPROTOOPT)
			log_info("setsockopt: level %d option %d is not known", level, opt);
		return err;
	}
	/* IPPROTO_IP takes single bytes; the others want an int. */
	if (as_int(val, level == IPPROTO_IP || len >= sizeof(int) ? len : 0, &v))
		return -EINVAL;
	return set_row(s, r, v);
}

/* ---- reading ---- */

static int give(void *val, uint32_t *len, const void *from, size_t size)
{
	if (*len > size)
		*len = (uint32_t)size;
	memcpy(val, from, *len);
	return 0;
}

static int give_int(void *val, uint32_t *len, int v)
{
	return give(val, len, &v, sizeof(v));
}

static int tcp_info(struct inet_sock *i, void *val, uint32_t *len)
{
	struct tcp_info ti;
	struct tcp_numbers n;

	memset(&ti, 0, sizeof(ti));
	endpoint_tcp_numbers(i->ep, &n);
	ti.tcpi_state = n.state;
	ti.tcpi_ca_state = n.ca_state;
	ti.tcpi_retransmits = n.retransmits;
	ti.tcpi_probes = n.probes;
	ti.tcpi_backoff = n.backoff;
	ti.tcpi_options = n.options;
	ti.tcpi_snd_wscale = n.snd_wscale & 15;
	ti.tcpi_rcv_wscale = n.rcv_wscale & 15;
	ti.tcpi_rto = n.rto_us;
	ti.tcpi_ato = n.ato_us;
	ti.tcpi_snd_mss = n.snd_mss;
	ti.tcpi_rcv_mss = n.rcv_mss;
	ti.tcpi_unacked = n.unacked;
	ti.tcpi_sacked = n.sacked;
	ti.tcpi_retrans = n.retrans;
	ti.tcpi_last_data_sent = n.last_data_sent_ms;
	ti.tcpi_last_data_recv = n.last_data_recv_ms;
	ti.tcpi_last_ack_recv = n.last_ack_recv_ms;
	ti.tcpi_pmtu = n.pmtu;
	ti.tcpi_rcv_ssthresh = n.rcv_ssthresh;
	ti.tcpi_rtt = n.rtt_us;
	ti.tcpi_rttvar = n.rttvar_us;
	ti.tcpi_snd_ssthresh = n.snd_ssthresh;
	ti.tcpi_snd_cwnd = n.snd_cwnd;
	ti.tcpi_advmss = n.advmss;
	ti.tcpi_reordering = n.reordering;
	ti.tcpi_rcv_space = n.rcv_space;
	ti.tcpi_total_retrans = n.total_retrans;
	ti.tcpi_pacing_rate = ti.tcpi_max_pacing_rate = ~0ull;
	ti.tcpi_bytes_acked = n.bytes_acked;
	ti.tcpi_bytes_received = n.bytes_received;
	ti.tcpi_segs_out = n.segs_out;
	ti.tcpi_segs_in = n.segs_in;
	ti.tcpi_notsent_bytes = n.notsent;
	ti.tcpi_min_rtt = n.min_rtt_us;
	ti.tcpi_data_segs_in = n.data_segs_in;
	ti.tcpi_data_segs_out = n.data_segs_out;
	ti.tcpi_bytes_sent = n.bytes_sent;
	ti.tcpi_bytes_retrans = n.bytes_retrans;
	ti.tcpi_rcv_ooopack = n.rcv_ooopack;
	ti.tcpi_snd_wnd = n.snd_wnd;
	return give(val, len, &ti, sizeof(ti));
}

static int get_socket(struct inet_sock *i, int opt, void *val, uint32_t *len)
{
	struct socket *s = &i->s;

	switch (opt) {
	case SO_BINDTODEVICE: {
		char name[NIC_NAME] = "";

		stack_lock(inet_stack(s));
		struct nic *n = i->ep->o.nic ? nic_find(inet_stack(s), i->ep->o.nic) : NULL;

		if (n)
			memcpy(name, n->name, NIC_NAME);
		stack_unlock(inet_stack(s));
		if (n && *len < NIC_NAME)
			return -EINVAL;
		return give(val, len, name, name[0] ? strlen(name) + 1 : 0);
	}
	case SO_BINDTOIFINDEX:
		return give_int(val, len, (int)i->ep->o.nic);
	case SO_INCOMING_NAPI_ID:
		return give_int(val, len, 0);
	case SO_COOKIE: {
		uint64_t c = i->ep->sockfs_ino;

		return *len < sizeof(c) ? -EINVAL : give(val, len, &c, sizeof(c));
	}
	case SO_MEMINFO: {
		uint32_t m[9] = { i->ep->rq_bytes, (uint32_t)s->rcvbuf, endpoint_outq(i->ep),
				  (uint32_t)s->sndbuf, 0, 0, 0, 0, (uint32_t)i->ep->drops };

		return give(val, len, m, sizeof(m));
	}
	case SO_PEERNAME: {
		struct sockaddr_storage a;
		uint32_t alen;
		int err = s->ops->getname(s, 1, &a, &alen);

		if (err)
			return err;
		return *len > alen ? -EINVAL : give(val, len, &a, alen);
	}
	case SO_PEERCRED:
		return give(val, len, &(struct ucred){ 0, (uid_t)-1, (gid_t)-1 }, sizeof(struct ucred));
	case SO_PEERSEC:
		return -ENOPROTOOPT;
	case SO_TIMESTAMPING_OLD:
	case SO_TIMESTAMPING_NEW:
		return give_int(val, len, 0);
	}
	return -ENOPROTOOPT;
}

static int path_mtu(struct socket *s, void *val, uint32_t *len)
{
	struct endpoint *ep = inet_of(s)->ep;
	struct route_result r;
	int mtu = 0;

	stack_lock(inet_stack(s));
	if (ep->connected && !route_lookup(inet_stack(s), &ep->raddr, ep->o.nic, &r))
		mtu = r.nic->mtu > 65535 ? 65535 : (int)r.nic->mtu; /* IP_MAX_MTU */
	stack_unlock(inet_stack(s));
	return mtu ? give_int(val, len, mtu) : -ENOTCONN;
}

static int get_special(struct inet_sock *i, int level, int opt, void *val, uint32_t *len)
{
	const struct ep_opts *o = &i->ep->o;
	struct socket *s = &i->s;

	if (level == SOL_SOCKET)
		return get_socket(i, opt, val, len);
	if (level == IPPROTO_TCP && i->ep->kind == EP_TCP) {
		switch (opt) {
		case TCP_INFO:
			return tcp_info(i, val, len);
		case TCP_CONGESTION:
			return give(val, len, i->cc, sizeof(i->cc));
		case TCP_MAXSEG: {
			struct tcp_numbers n;

			endpoint_tcp_numbers(i->ep, &n);
			if (o->maxseg && (n.state == 7 || n.state == 10))
				return give_int(val, len, (int)o->maxseg);
			return give_int(val, len, n.state == 7 || n.state == 10 ? 536 : (int)n.snd_mss);
		}
		case TCP_DEFER_ACCEPT:
			return give_int(val, len, o->defer_accept);
		case TCP_LINGER2:
			return give_int(val, len, o->linger2_s ? o->linger2_s : 60);
		case TCP_ULP:
			return give(val, len, "", 0);
		case TCP_CC_INFO:
			return give(val, len, "", 0);
		}
		return -ENOPROTOOPT;
	}
	if (level == IPPROTO_ICMP && i->ep->kind == EP_RAW && opt == ICMP_FILTER && i->ep->proto == IPPROTO_ICMP)
		return give(val, len, &o->icmp_filter, sizeof(o->icmp_filter));
	if (level == IPPROTO_ICMPV6 && i->ep->kind == EP_RAW && opt == ICMPV6_FILTER_OPT && i->ep->proto == IPPROTO_ICMPV6)
		return give(val, len, o->icmp6_filter, sizeof(o->icmp6_filter));
	if (level == IPPROTO_IP) {
		switch (opt) {
		case IP_MTU:
			return path_mtu(s, val, len);
		case IP_MULTICAST_TTL:
			return give_int(val, len, o->mc_ttl);
		case IP_MULTICAST_IF: {
			uint32_t a = ip_is_v4(&o->mc_addr) ? o->mc_addr.w[3] : 0;

			return give(val, len, &a, sizeof(a));
		}
		case IP_OPTIONS:
			*len = 0;
			return 0;
		case 51: /* IP_LOCAL_PORT_RANGE, newer than these headers */
			return give_int(val, len, 0);
		}
		/* iptables: there are no tables. */
	}
	if (level == IPPROTO_IPV6 && s->family == AF_INET6) {
		switch (opt) {
		case IPV6_MTU:
			return path_mtu(s, val, len);
		case IPV6_MULTICAST_IF:
			return give_int(val, len, (int)o->mc_nic);
		case IPV6_ADDRFORM:
			return give_int(val, len, AF_INET6);
		}
	}
	return level == IPPROTO_IP || level == IPPROTO_IPV6 || level == IPPROTO_TCP || level == IPPROTO_UDP ?
		       -ENOPROTOOPT :
		       -EOPNOTSUPP;
}

int inet_getsockopt(struct socket *s, struct task *t, int level, int opt, void *val, uint32_t *len)
{
	struct inet_sock *i = inet_of(s);
	const struct opt_row *r = find_row(s, level, opt);
	const struct stack_sysctl *c = stack_sysctl(inet_stack(s));
	int v;

	(void)t;
	if (!r) {
		int err = get_special(i, level, opt, val, len);

		if (err == -ENOPROTOOPT)
			log_info("getsockopt: level %d option %d is not known", level, opt);
		return err;
	}
	if (r->where == PARK)
		v = (int)r->off;
	else if (r->where == WANT)
		v = (i->want & r->off) != 0;
	else
		v = load(&i->ep->o, r);
	/* Unset ones show the default. */
	if ((level == IPPROTO_IP && opt == IP_TTL && v < 0) ||
	    (level == IPPROTO_IPV6 && opt == IPV6_UNICAST_HOPS && v < 0))
		v = (int)c->default_ttl;
	if (level == IPPROTO_IPV6 && opt == IPV6_MULTICAST_HOPS && v < 0)
		v = 1;
	if (level == IPPROTO_TCP && !v)
		v = opt == TCP_KEEPIDLE	 ? (int)c->keepidle_s :
		    opt == TCP_KEEPINTVL ? (int)c->keepintvl_s :
		    opt == TCP_KEEPCNT	 ? (int)c->keepcnt :
		    opt == TCP_SYNCNT	 ? (int)c->syn_retries :
					   v;
	/* ip(7): a caller with room for one byte gets one. */
	if (level == IPPROTO_IP && *len > 0 && *len < sizeof(int) && v >= 0 && v <= 255) {
		uint8_t byte = (uint8_t)v;

		return give(val, len, &byte, 1);
	}
	return give_int(val, len, v);
}
