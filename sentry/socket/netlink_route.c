/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NETLINK_ROUTE (rtnetlink(7)): links, addresses, routes, rules and neighbours of the stack, as
 * getifaddrs(3) and ip(8) ask for them, and the few changes the owner of the namespace may make.
 */
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <string.h>

#include "sentry/egress/egress.h"
#include "sentry/socket/inet_priv.h"
#include "sentry/socket/netlink_priv.h"

static uint32_t flags_of(const struct nic *n)
{
	uint32_t f = n->flags & NIC_UP ? IFF_UP | IFF_RUNNING | 0x10000u /* LOWER_UP */ : 0;

	return f | (n->flags & NIC_LOOPBACK ? IFF_LOOPBACK : IFF_BROADCAST | IFF_MULTICAST);
}

/* ---- links ---- */

static void put_link(struct nl_reply *r, const struct nic *n)
{
	struct ifinfomsg *m = nl_begin(r, RTM_NEWLINK, 0, sizeof(*m));
	int lo = (n->flags & NIC_LOOPBACK) != 0;
	struct rtnl_link_stats64 st64;
	struct rtnl_link_stats st;
	struct rtnl_link_ifmap map;
	uint8_t bcast[6];

	m->ifi_family = AF_UNSPEC;
	m->ifi_type = lo ? ARPHRD_LOOPBACK : ARPHRD_ETHER;
	m->ifi_index = (int)n->index;
	m->ifi_flags = flags_of(n);
	nl_attr_str(r, IFLA_IFNAME, n->name);
	nl_attr_u32(r, IFLA_TXQLEN, n->tx_queue_len);
	nl_attr_u8(r, IFLA_OPERSTATE, !(n->flags & NIC_UP) ? 2 : lo ? 0 : 6);
	nl_attr_u8(r, IFLA_LINKMODE, 0);
	nl_attr_u32(r, IFLA_MTU, n->mtu);
	nl_attr_u32(r, IFLA_MIN_MTU, lo ? 0 : 68);
	nl_attr_u32(r, IFLA_MAX_MTU, lo ? 0 : 65535);
	nl_attr_u32(r, IFLA_GROUP, 0);
	nl_attr_u32(r, IFLA_PROMISCUITY, 0);
	nl_attr_u32(r, IFLA_NUM_TX_QUEUES, 1);
	nl_attr_u32(r, IFLA_GSO_MAX_SEGS, 65535);
	nl_attr_u32(r, IFLA_GSO_MAX_SIZE, 65536);
	nl_attr_u32(r, IFLA_NUM_RX_QUEUES, 1);
	nl_attr_u8(r, IFLA_CARRIER, 1);
	nl_attr_str(r, IFLA_QDISC, "noqueue");
	nl_attr_u32(r, IFLA_CARRIER_CHANGES, 0);
	nl_attr_u32(r, IFLA_CARRIER_UP_COUNT, 0);
	nl_attr_u32(r, IFLA_CARRIER_DOWN_COUNT, 0);
	nl_attr_u8(r, IFLA_PROTO_DOWN, 0);
	memset(&map, 0, sizeof(map));
	nl_attr(r, IFLA_MAP, &map, sizeof(map));
	nl_attr(r, IFLA_ADDRESS, n->mac, 6);
	memset(bcast, lo ? 0 : 0xff, sizeof(bcast));
	nl_attr(r, IFLA_BROADCAST, bcast, 6);
	memset(&st64, 0, sizeof(st64));
	st64.rx_packets = n->stats.rx_packets;
	st64.tx_packets = n->stats.tx_packets;
	st64.rx_bytes = n->stats.rx_bytes;
	st64.tx_bytes = n->stats.tx_bytes;
	st64.rx_errors = n->stats.rx_errors;
	st64.tx_errors = n->stats.tx_errors;
	st64.rx_dropped = n->stats.rx_dropped;
	st64.tx_dropped = n->stats.tx_dropped;
	st64.multicast = n->stats.multicast;
	nl_attr(r, IFLA_STATS64, &st64, sizeof(st64));
	memset(&st, 0, sizeof(st));
	st.rx_packets = (uint32_t)st64.rx_packets;
	st.tx_packets = (uint32_t)st64.tx_packets;
	st.rx_bytes = (uint32_t)st64.rx_bytes;
	st.tx_bytes = (uint32_t)st64.tx_bytes;
	nl_attr(r, IFLA_STATS, &st, sizeof(st));
	nl_end(r);
}

static int get_link(struct nl_req *q)
{
	const struct ifinfomsg *m = (const void *)(q->h + 1);
	struct stack *s = inet_stack(q->s);
	uint32_t len = 0;
	struct nic *n;

	if (q->r->dump) {
		list_for_each(n, stack_nics(s), node)
			put_link(q->r, n);
		return 0;
	}
	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EINVAL;
	const char *name = nl_find(q->h, sizeof(*m), IFLA_IFNAME, 1, &len);
	char buf[NIC_NAME] = "";

	if (m->ifi_index > 0) {
		n = nic_find(s, (uint32_t)m->ifi_index);
	} else if (name) {
		memcpy(buf, name, len < NIC_NAME - 1 ? len : NIC_NAME - 1);
		n = nic_by_name(s, buf);
	} else {
		return -EINVAL;
	}
	if (!n)
		return -ENODEV;
	put_link(q->r, n);
	return 0;
}

static int set_link(struct nl_req *q)
{
	const struct ifinfomsg *m = (const void *)(q->h + 1);
	uint32_t len;
	struct nic *n;

	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EINVAL;
	const char *name = nl_find(q->h, sizeof(*m), IFLA_IFNAME, 1, &len);
	char buf[NIC_NAME] = "";

	if (m->ifi_index > 0) {
		n = nic_find(inet_stack(q->s), (uint32_t)m->ifi_index);
	} else if (name) {
		memcpy(buf, name, len < NIC_NAME - 1 ? len : NIC_NAME - 1);
		n = nic_by_name(inet_stack(q->s), buf);
	} else {
		return -EINVAL;
	}
	if (!n)
		return q->h->nlmsg_flags & NLM_F_CREATE ? -EOPNOTSUPP : -ENODEV;
	if (m->ifi_change & IFF_UP || (!m->ifi_change && m->ifi_flags)) {
		if (m->ifi_flags & IFF_UP)
			n->flags |= NIC_UP;
		else
			n->flags &= ~NIC_UP;
	}
	return 0;
}

/* ---- addresses ---- */

static void put_addr(struct nl_reply *r, const struct nic *n, const struct nic_addr *a)
{
	struct ifaddrmsg *m = nl_begin(r, RTM_NEWADDR, 0, sizeof(*m));
	struct ifa_cacheinfo ci = { .ifa_prefered = ~0u, .ifa_valid = ~0u };
	int v4 = ip_is_v4(&a->addr);

	m->ifa_family = v4 ? AF_INET : AF_INET6;
	m->ifa_prefixlen = (uint8_t)(v4 ? a->plen - 96 : a->plen);
	m->ifa_flags = IFA_F_PERMANENT;
	m->ifa_scope = (uint8_t)a->scope;
	m->ifa_index = n->index;
	if (v4) {
		nl_attr(r, IFA_ADDRESS, &a->addr.w[3], 4);
		nl_attr(r, IFA_LOCAL, &a->addr.w[3], 4);
		if (!ip_is_any(&a->broadcast))
			nl_attr(r, IFA_BROADCAST, &a->broadcast.w[3], 4);
		nl_attr_str(r, IFA_LABEL, n->name);
	} else {
		nl_attr(r, IFA_ADDRESS, a->addr.b, 16);
	}
	nl_attr_u32(r, IFA_FLAGS, IFA_F_PERMANENT);
	nl_attr(r, IFA_CACHEINFO, &ci, sizeof(ci));
	nl_end(r);
}

static int family_of(const struct nl_req *q)
{
	return q->h->nlmsg_len > NLMSG_HDRLEN ? *(const uint8_t *)(q->h + 1) : AF_UNSPEC;
}

static int get_addr(struct nl_req *q)
{
	int family = family_of(q);
	uint32_t index = q->h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifaddrmsg)) ?
				 ((const struct ifaddrmsg *)(const void *)(q->h + 1))->ifa_index :
				 0;
	struct nic *n;

	if (!q->r->dump)
		return -EOPNOTSUPP;
	for (int pass = 0; pass < 2; pass++) {
		int want = pass ? AF_INET6 : AF_INET;

		if (family != AF_UNSPEC && family != want)
			continue;
		list_for_each(n, stack_nics(inet_stack(q->s)), node)
			for (uint32_t i = 0; i < n->addr_count; i++)
				if (ip_is_v4(&n->addr[i].addr) == !pass && (!index || index == n->index))
					put_addr(q->r, n, &n->addr[i]);
	}
	return 0;
}

static int addr_attr(const struct nl_req *q, uint32_t hdr, uint16_t type, int family, struct ip_addr *out)
{
	const void *p = nl_find(q->h, hdr, type, family == AF_INET ? 4 : 16, NULL);
	uint32_t be;

	if (!p)
		return 0;
	if (family == AF_INET) {
		memcpy(&be, p, 4);
		*out = ip_from_v4(be);
	} else {
		*out = ip_from_v6(p);
	}
	return 1;
}

static int change_addr(struct nl_req *q, int add)
{
	const struct ifaddrmsg *m = (const void *)(q->h + 1);
	struct nic_addr a = { .scope = 0 };

	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EINVAL;
	if (m->ifa_family != AF_INET && m->ifa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (m->ifa_prefixlen > (m->ifa_family == AF_INET ? 32 : 128))
		return -EINVAL;
	if (!addr_attr(q, sizeof(*m), IFA_LOCAL, m->ifa_family, &a.addr) &&
	    !addr_attr(q, sizeof(*m), IFA_ADDRESS, m->ifa_family, &a.addr))
		return -EINVAL;
	struct nic *n = nic_find(inet_stack(q->s), m->ifa_index);

	if (!n)
		return -ENODEV;
	a.plen = m->ifa_prefixlen + (m->ifa_family == AF_INET ? 96u : 0);
	a.scope = m->ifa_scope;
	a.broadcast = ip_from_v4(0);
	addr_attr(q, sizeof(*m), IFA_BROADCAST, AF_INET, &a.broadcast);
	return add ? nic_add_addr(n, &a) : nic_del_addr(n, &a.addr, a.plen);
}

/* ---- routes ---- */

static void put_route(struct nl_reply *r, const struct route *o)
{
	int v4 = ip_is_v4(&o->dst);
	struct rtmsg *m = nl_begin(r, RTM_NEWROUTE, 0, sizeof(*m));
	uint32_t table = o->table ? o->table : RT_TABLE_MAIN, plen = v4 ? o->plen - 96 : o->plen;

	m->rtm_family = v4 ? AF_INET : AF_INET6;
	m->rtm_dst_len = (uint8_t)plen;
	m->rtm_table = (uint8_t)(table > 255 ? RT_TABLE_COMPAT : table);
	m->rtm_protocol = (uint8_t)(o->protocol ? o->protocol : RTPROT_BOOT);
	m->rtm_scope = (uint8_t)o->scope;
	m->rtm_type = (uint8_t)(o->type ? o->type : RTN_UNICAST);
	nl_attr_u32(r, RTA_TABLE, table);
	if (plen)
		nl_attr(r, RTA_DST, v4 ? (const void *)&o->dst.w[3] : o->dst.b, v4 ? 4 : 16);
	if (o->metric)
		nl_attr_u32(r, RTA_PRIORITY, o->metric);
	if (!ip_is_any(&o->gateway))
		nl_attr(r, RTA_GATEWAY, v4 ? (const void *)&o->gateway.w[3] : o->gateway.b, v4 ? 4 : 16);
	if (!ip_is_any(&o->pref_src))
		nl_attr(r, RTA_PREFSRC, v4 ? (const void *)&o->pref_src.w[3] : o->pref_src.b, v4 ? 4 : 16);
	nl_attr_u32(r, RTA_OIF, o->nic);
	nl_end(r);
}

/* Our own addresses, which Linux keeps in the local table. */
static void put_local(struct nl_reply *r, const struct nic *n, const struct nic_addr *a)
{
	struct route o = { .dst = a->addr, .plen = 128, .nic = n->index, .table = RT_TABLE_LOCAL,
			   .protocol = RTPROT_KERNEL, .type = RTN_LOCAL, .scope = RT_SCOPE_HOST };

	if (ip_is_v4(&a->addr)) {
		o.pref_src = a->addr;
		o.gateway = ip_from_v4(0);
		if (n->flags & NIC_LOOPBACK) {
			struct route net = o;

			net.plen = a->plen;
			net.dst.b[13] = net.dst.b[14] = net.dst.b[15] = 0;
			put_route(r, &net);
		}
	}
	put_route(r, &o);
}

static int get_route(struct nl_req *q)
{
	struct stack *s = inet_stack(q->s);
	const struct rtmsg *m = (const void *)(q->h + 1);
	int family = family_of(q);
	struct route *o;
	struct nic *n;

	if (q->r->dump) {
		for (int pass = 0; pass < 2; pass++) {
			if (family != AF_UNSPEC && family != (pass ? AF_INET6 : AF_INET))
				continue;
			list_for_each(o, stack_routes(s), node)
				if (ip_is_v4(&o->dst) == !pass)
					put_route(q->r, o);
			list_for_each(n, stack_nics(s), node)
				for (uint32_t i = 0; i < n->addr_count; i++)
					if (ip_is_v4(&n->addr[i].addr) == !pass)
						put_local(q->r, n, &n->addr[i]);
		}
		return 0;
	}
	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EINVAL;
	if (m->rtm_family != AF_INET && m->rtm_family != AF_INET6)
		return -EAFNOSUPPORT;
	struct route_result res;
	struct ip_addr dst;

	if (!addr_attr(q, sizeof(*m), RTA_DST, m->rtm_family, &dst))
		return -EINVAL;
	int err = route_lookup(s, &dst, 0, &res);

	if (err)
		return err;
	struct route out = { .dst = dst, .plen = 128, .gateway = res.next_hop, .pref_src = res.src,
			     .nic = res.nic->index, .table = res.local ? RT_TABLE_LOCAL : RT_TABLE_MAIN,
			     .type = res.local ? RTN_LOCAL : RTN_UNICAST };

	if (ip_eq(&res.next_hop, &dst))
		memset(&out.gateway, 0, sizeof(out.gateway));
	put_route(q->r, &out);
	return 0;
}

static int change_route(struct nl_req *q, int add)
{
	const struct rtmsg *m = (const void *)(q->h + 1);
	struct stack *s = inet_stack(q->s);
	struct route o;
	const void *p;

	if (q->h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EINVAL;
	if (m->rtm_family != AF_INET && m->rtm_family != AF_INET6)
		return -EAFNOSUPPORT;
	int v4 = m->rtm_family == AF_INET;

	if (m->rtm_dst_len > (v4 ? 32 : 128))
		return -EINVAL;
	memset(&o, 0, sizeof(o));
	o.dst = v4 ? ip_from_v4(0) : o.dst;
	o.gateway = o.pref_src = o.dst;
	o.plen = m->rtm_dst_len + (v4 ? 96u : 0);
	o.protocol = m->rtm_protocol;
	o.scope = m->rtm_scope;
	o.type = m->rtm_type;
	addr_attr(q, sizeof(*m), RTA_DST, m->rtm_family, &o.dst);
	addr_attr(q, sizeof(*m), RTA_GATEWAY, m->rtm_family, &o.gateway);
	addr_attr(q, sizeof(*m), RTA_PREFSRC, m->rtm_family, &o.pref_src);
	p = nl_find(q->h, sizeof(*m), RTA_OIF, 4, NULL);
	if (p)
		memcpy(&o.nic, p, 4);
	p = nl_find(q->h, sizeof(*m), RTA_PRIORITY, 4, NULL);
	if (p)
		memcpy(&o.metric, p, 4);
	if (!add)
		return route_del(s, &o);
	if (!o.nic && !ip_is_any(&o.gateway)) {
		struct route_result res;

		if (route_lookup(s, &o.gateway, 0, &res))
			return -ENETUNREACH;
		o.nic = res.nic->index;
	}
	if (!nic_find(s, o.nic))
		return -ENODEV;
	return route_add(s, &o);
}

/* ---- the rest ---- */

static int get_rule(struct nl_req *q)
{
	static const struct {
		uint32_t prio, table;
	} rules[] = { { 0, RT_TABLE_LOCAL }, { 32766, RT_TABLE_MAIN }, { 32767, RT_TABLE_DEFAULT } };
	int family = family_of(q);

	if (!q->r->dump)
		return -EOPNOTSUPP;
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < 3; i++) {
			int f = pass ? AF_INET6 : AF_INET;

			if ((family != AF_UNSPEC && family != f) || (pass && i == 2))
				continue;
			struct fib_rule_hdr *m = nl_begin(q->r, RTM_NEWRULE, 0, sizeof(*m));

			m->family = (uint8_t)f;
			m->table = (uint8_t)rules[i].table;
			m->action = FR_ACT_TO_TBL;
			nl_attr_u32(q->r, FRA_TABLE, rules[i].table);
			nl_attr_u32(q->r, FRA_SUPPRESS_PREFIXLEN, ~0u);
			if (rules[i].prio)
				nl_attr_u32(q->r, FRA_PRIORITY, rules[i].prio);
			nl_end(q->r);
		}
	return 0;
}

static int get_qdisc(struct nl_req *q)
{
	struct nic *n;

	if (!q->r->dump)
		return -EOPNOTSUPP;
	list_for_each(n, stack_nics(inet_stack(q->s)), node) {
		struct tcmsg *m = nl_begin(q->r, RTM_NEWQDISC, 0, sizeof(*m));

		m->tcm_ifindex = (int)n->index;
		m->tcm_parent = ~0u;
		m->tcm_info = 2;
		nl_attr_str(q->r, TCA_KIND, "noqueue");
		nl_end(q->r);
	}
	return 0;
}

int rtnl_request(struct nl_req *q)
{
	struct stack *s = inet_stack(q->s);
	uint16_t type = q->h->nlmsg_type;
	int err;

	/* Everything but reading needs the right to administer the namespace. */
	if ((type & 3) != 2 && !cred_has_cap(task_cred(q->t), CAP_NET_ADMIN))
		return -EPERM;
	/* Another neighbour or gateway for a permitted address would be a way round the policy. */
	if ((type & 3) != 2 && type != RTM_NEWLINK && type != RTM_SETLINK &&
	    egress_has_policy(q->s->k->sockets->egress))
		return -EPERM;
	stack_lock(s);
	switch (type) {
	case RTM_GETLINK:
		err = get_link(q);
		break;
	case RTM_NEWLINK:
	case RTM_SETLINK:
		err = set_link(q);
		break;
	case RTM_GETADDR:
		err = get_addr(q);
		break;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		err = change_addr(q, type == RTM_NEWADDR);
		break;
	case RTM_GETROUTE:
		err = get_route(q);
		break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		err = change_route(q, type == RTM_NEWROUTE);
		break;
	case RTM_GETRULE:
		err = get_rule(q);
		break;
	case RTM_GETQDISC:
		err = get_qdisc(q);
		break;
	case RTM_GETNEIGH:
	case RTM_GETNEIGHTBL:
	case RTM_GETADDRLABEL:
	case RTM_GETNSID:
	case RTM_GETNETCONF:
	case RTM_GETMDB:
	case RTM_GETNEXTHOP:
	case RTM_GETTCLASS:
	case RTM_GETTFILTER:
	case RTM_GETMULTICAST:
	case RTM_GETANYCAST:
		err = q->r->dump ? 0 : -EOPNOTSUPP; /* there are none */
		break;
	default:
		err = -EOPNOTSUPP;
	}
	stack_unlock(s);
	return err;
}
