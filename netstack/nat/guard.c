/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a flow of the guest may go. Never: this host (its loopback, and any address it has, which only
 * its routing table knows), link-local networks with the clouds' metadata services and such services
 * elsewhere, groups and broadcasts, and all of these in IPv6 clothing. The egress policy, if there is
 * one, is enforced in the sentry; this holds even when the sentry is not believed.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

#include "netstack/egress/address.h"
#include "netstack/nat/nat.h"

/* One address, no other inside it. LANs are reachable; what else is special is not. */
static int plain_allowed(const struct ip_addr *a)
{
	static const struct ip_addr local_nat64 = { .b = { 0, 0x64, 0xff, 0x9b, 0, 1 } };
	const struct egress_range *r = egress_special(a);

	/* Somebody's own NAT64 hides an IPv4 address at a place that only it knows. */
	return (!r || !strcmp(r->what, "private")) && !ip_match(a, &local_nat64, 48);
}

int guard_range_allowed(const struct ip_addr *a)
{
	struct ip_addr to[2];
	int count = egress_reaches(a, to);

	for (int i = 0; i < count; i++)
		if (!plain_allowed(&to[i]))
			return 0;
	return plain_allowed(a);
}

/* #hostcalls: socket(AF_NETLINK), before lockdown */
int guard_open(struct nat *n)
{
	n->route_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	return n->route_fd < 0 ? -errno : 0;
}

/* The host's route to a: its RTN_* type, or -errno. The answer is there when sendto() returns.
 * #hostcalls: sendto recvfrom */
static int route_type(struct nat *n, const struct ip_addr *a)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg r;
		struct rtattr at;
		uint8_t addr[16];
	} rq = { .h = { .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = ++n->route_seq } };
	int v4 = ip_is_v4(a);
	uint32_t len = v4 ? 4 : 16;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	char buf[4096] __attribute__((aligned(8)));

	rq.r.rtm_family = v4 ? AF_INET : AF_INET6;
	rq.r.rtm_dst_len = (unsigned char)(len * 8);
	rq.at.rta_type = RTA_DST;
	rq.at.rta_len = (unsigned short)RTA_LENGTH(len);
	memcpy(rq.addr, v4 ? a->b + 12 : a->b, len);
	rq.h.nlmsg_len = (uint32_t)(offsetof(__typeof__(rq), addr) + len);
	if (sendto(n->route_fd, &rq, rq.h.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	for (int i = 0; i < 16; i++) { /* late answers to earlier questions are passed over */
		ssize_t got = recvfrom(n->route_fd, buf, sizeof(buf), MSG_DONTWAIT, NULL, NULL);
		const struct nlmsghdr *h = (const void *)buf;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -EACCES;
		if (!NLMSG_OK(h, (size_t)got) || h->nlmsg_seq != n->route_seq)
			continue;
		if (h->nlmsg_type == NLMSG_ERROR)
			return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
		if (h->nlmsg_type == RTM_NEWROUTE)
			return ((const struct rtmsg *)NLMSG_DATA(h))->rtm_type;
	}
	return -EACCES;
}

int guard_check(struct nat *n, const struct ip_addr *a)
{
	struct ip_addr to[2];
	int type, count = egress_reaches(a, to);

	if (!guard_range_allowed(a))
		return -EACCES;
	/* What a translator outside would send back to this host. */
	for (int i = 0; i < count && egress_is_embedded(a); i++)
		if (route_type(n, &to[i]) == RTN_LOCAL)
			return -EACCES;
	type = route_type(n, a);
	if (type < 0)
		return type;
	switch (type) {
	case RTN_UNICAST:
		return 0;
	case RTN_UNREACHABLE:
		return -EHOSTUNREACH;
	}
	return -EACCES; /* this host, broadcast, blackholes */
}

int guard_target(struct nat *n, const struct ip_addr *a, uint16_t port, union nat_sockaddr *to)
{
	int f = nat_family(a);

	if (ip_eq(a, &n->gate[f])) {
		struct ip_addr lo = f ? (struct ip_addr){ .b[15] = 1 } : ip_from_v4(htonl(INADDR_LOOPBACK));

		if (!n->host_loopback)
			return -ECONNREFUSED; /* the gateway itself serves nothing */
		nat_sockaddr_from(to, &lo, port);
		return 0;
	}
	if (ip_eq(a, &n->dns[f]))
		return -ECONNREFUSED;
	int err = guard_check(n, a);

	nat_sockaddr_from(to, a, port);
	return err;
}
