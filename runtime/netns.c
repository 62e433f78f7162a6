/* SPDX-License-Identifier: Apache-2.0 */
/* Adopting a network namespace: see netns.h. The keys are in docs/bootconf.md. */
#include "runtime/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/error.h"

#define NICS_MAX 6 /* what fits into struct launch beside the fixed fds */
#define SOCKET_BUFFER (8 << 20)
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct nic {
	int index;
	char name[IFNAMSIZ];
};

/* Netlink requests, one behind the other. */
struct messages {
	char *data;
	size_t size;
};

struct netns_kept {
	int ns;
	struct messages put_back; /* requests that make the addresses, routes and neighbours again */
	struct nic nic[NICS_MAX];  /* those whose IPv6 was switched off */
	int nic_count;
};

struct adopt {
	int nl;
	struct bootconf *conf;
	struct launch *launch;
	struct nic nic[NICS_MAX];
	int nic_count;
	/* Requests that remove what was adopted, kept until all dumps are done. */
	struct messages undo;
	struct netns_kept *kept; /* or NULL */
};

static void must(int err)
{
	if (err)
		die(EXIT_SETUP, "network namespace: %s", strerror(-err));
}

/* ---- rtnetlink ---- */

/* Sends a dump request and calls each() for every message of the answer. */
static void dump(struct adopt *a, uint16_t type, void (*each)(struct adopt *a, struct nlmsghdr *h))
{
	struct {
		struct nlmsghdr h;
		struct rtgenmsg g;
	} rq = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtgenmsg)), .nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	static char buf[1 << 16] __attribute__((aligned(8)));

	if (send(a->nl, &rq, rq.h.nlmsg_len, 0) < 0)
		die(EXIT_SETUP, "network namespace: rtnetlink: %s", strerror(errno));
	for (;;) {
		ssize_t n = recv(a->nl, buf, sizeof(buf), 0);

		if (n < 0)
			die(EXIT_SETUP, "network namespace: rtnetlink: %s", strerror(errno));
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return;
			if (h->nlmsg_type == NLMSG_ERROR)
				die(EXIT_SETUP, "network namespace: rtnetlink refuses a dump");
			each(a, h);
		}
	}
}

static const void *attr(const struct nlmsghdr *h, size_t header, int type, size_t *len)
{
	size_t left = h->nlmsg_len - NLMSG_LENGTH(header);
	const struct rtattr *r = (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(header));

	for (; RTA_OK(r, left); r = RTA_NEXT(r, left))
		if (r->rta_type == type) {
			if (len)
				*len = RTA_PAYLOAD(r);
			return RTA_DATA(r);
		}
	return NULL;
}

static struct nic *nic_of(struct adopt *a, int index)
{
	for (int i = 0; i < a->nic_count; i++)
		if (a->nic[i].index == index)
			return &a->nic[i];
	return NULL;
}

static const char *text(int family, const void *addr, char *buf)
{
	return addr && inet_ntop(family, addr, buf, INET6_ADDRSTRLEN) ? buf : "-";
}

/* ---- interfaces ---- */

static int open_packet(const char *name, int index)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), one = 1, size = SOCKET_BUFFER;

	if (fd < 0)
		die(EXIT_SETUP, "network interface %s: a packet socket: %s", name, strerror(errno));
	if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) != 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) != 0)
		die(EXIT_SETUP, "network interface %s: packet socket options: %s", name, strerror(errno));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (bind(fd, (struct sockaddr *)&ll, sizeof(ll)) != 0)
		die(EXIT_SETUP, "network interface %s: binding: %s", name, strerror(errno));
	return fd;
}

static void take_link(struct adopt *a, struct nlmsghdr *h)
{
	const struct ifinfomsg *m = NLMSG_DATA(h);
	const char *name = attr(h, sizeof(*m), IFLA_IFNAME, NULL);
	size_t mac_len = 0;
	const uint8_t *mac = attr(h, sizeof(*m), IFLA_ADDRESS, &mac_len);
	const uint32_t *mtu = attr(h, sizeof(*m), IFLA_MTU, NULL);

	if (h->nlmsg_type != RTM_NEWLINK || !name || (m->ifi_flags & IFF_LOOPBACK) || !(m->ifi_flags & IFF_UP))
		return;
	if (m->ifi_type != ARPHRD_ETHER || mac_len != 6) {
		warn("network interface %s is no Ethernet one and stays outside", name);
		return;
	}
	if (a->nic_count == NICS_MAX) {
		warn("network interface %s: more than %d are not taken over", name, NICS_MAX);
		return;
	}
	struct nic *n = &a->nic[a->nic_count];
	int to = SENTRY_FD_NIC + a->nic_count++;

	char key[16];

	n->index = m->ifi_index;
	snprintf(n->name, sizeof(n->name), "%s", name);
	snprintf(key, sizeof(key), "nic%d_fd", to - SENTRY_FD_NIC);
	must(bootconf_add_u64(a->conf, key, (uint64_t)to));
	launch_fd(a->launch, open_packet(name, n->index), to);
	must(bootconf_addf(a->conf, "nic", "%s\t%d\t%02x:%02x:%02x:%02x:%02x:%02x\t%u", name, to, mac[0], mac[1],
			   mac[2], mac[3], mac[4], mac[5], mtu ? *mtu : 1500));
}

/* Keeps h as a request of another type. */
static struct nlmsghdr *keep(struct messages *m, const struct nlmsghdr *h, uint16_t type, uint16_t flags)
{
	size_t size = NLMSG_ALIGN(h->nlmsg_len);
	char *p = realloc(m->data, m->size + size);

	if (!p)
		die(EXIT_SETUP, "out of memory");
	m->data = p;
	memset(p + m->size, 0, size);
	memcpy(p + m->size, h, h->nlmsg_len);
	struct nlmsghdr *w = (void *)(p + m->size);

	w->nlmsg_type = type;
	w->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	w->nlmsg_seq = 0;
	w->nlmsg_pid = 0;
	m->size += size;
	return w;
}

/* Also for the sandbox's end. */
static struct nlmsghdr *put_back(struct adopt *a, const struct nlmsghdr *h)
{
	return a->kept ? keep(&a->kept->put_back, h, h->nlmsg_type, NLM_F_CREATE | NLM_F_REPLACE) : NULL;
}

static void take_addr(struct adopt *a, struct nlmsghdr *h)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	char buf[INET6_ADDRSTRLEN], bcast[INET6_ADDRSTRLEN];
	struct nic *n = nic_of(a, (int)m->ifa_index);
	const void *addr = attr(h, sizeof(*m), IFA_LOCAL, NULL);

	if (h->nlmsg_type != RTM_NEWADDR || !n || (m->ifa_family != AF_INET && m->ifa_family != AF_INET6))
		return;
	if (!addr)
		addr = attr(h, sizeof(*m), IFA_ADDRESS, NULL);
	must(bootconf_addf(a->conf, "nic_addr", "%s\t%s/%u\t%s\t%u", n->name, text(m->ifa_family, addr, buf),
			   m->ifa_prefixlen, text(m->ifa_family, attr(h, sizeof(*m), IFA_BROADCAST, NULL), bcast),
			   m->ifa_scope));
	keep(&a->undo, h, RTM_DELADDR, 0);
	put_back(a, h);
}

static void take_route(struct adopt *a, struct nlmsghdr *h)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	char dst[INET6_ADDRSTRLEN], gw[INET6_ADDRSTRLEN], src[INET6_ADDRSTRLEN];
	const int *oif = attr(h, sizeof(*m), RTA_OIF, NULL);
	const uint32_t *metric = attr(h, sizeof(*m), RTA_PRIORITY, NULL);
	struct nic *n = oif ? nic_of(a, *oif) : NULL;

	if (h->nlmsg_type != RTM_NEWROUTE || !n || m->rtm_table != RT_TABLE_MAIN || m->rtm_type != RTN_UNICAST ||
	    (m->rtm_family != AF_INET && m->rtm_family != AF_INET6))
		return;
	const void *d = attr(h, sizeof(*m), RTA_DST, NULL);

	must(bootconf_addf(a->conf, "route", "%s/%u\t%s\t%s\t%s\t%u\t%u\t%u", d ? text(m->rtm_family, d, dst) :
			   m->rtm_family == AF_INET ? "0.0.0.0" : "::", m->rtm_dst_len, n->name,
			   text(m->rtm_family, attr(h, sizeof(*m), RTA_GATEWAY, NULL), gw),
			   text(m->rtm_family, attr(h, sizeof(*m), RTA_PREFSRC, NULL), src), metric ? *metric : 0,
			   m->rtm_protocol, m->rtm_scope));
	if (m->rtm_protocol == RTPROT_KERNEL) /* comes with its address */
		return;
	struct nlmsghdr *again = put_back(a, h);

	if (again)
		((struct rtmsg *)NLMSG_DATA(again))->rtm_flags &= RTNH_F_ONLINK;
}

static void take_neigh(struct adopt *a, struct nlmsghdr *h)
{
	const struct ndmsg *m = NLMSG_DATA(h);
	struct nic *n = nic_of(a, m->ndm_ifindex);
	size_t len = 0;
	const uint8_t *mac = attr(h, sizeof(*m), NDA_LLADDR, &len);
	char buf[INET6_ADDRSTRLEN];

	if (h->nlmsg_type != RTM_NEWNEIGH || !n || !mac || len != 6 || !(m->ndm_state & (NUD_PERMANENT | NUD_REACHABLE)) ||
	    (m->ndm_family != AF_INET && m->ndm_family != AF_INET6))
		return;
	must(bootconf_addf(a->conf, "neigh", "%s\t%s\t%02x:%02x:%02x:%02x:%02x:%02x", n->name,
			   text(m->ndm_family, attr(h, sizeof(*m), NDA_DST, NULL), buf), mac[0], mac[1], mac[2], mac[3],
			   mac[4], mac[5]));
	if (m->ndm_state & NUD_PERMANENT)
		put_back(a, h);
}

/* ---- the host lets go ---- */

/* The kernel's answer to one request. */
static int request(int nl, const struct nlmsghdr *h)
{
	char buf[8192] __attribute__((aligned(8)));
	struct nlmsghdr *r = (void *)buf;

	if (send(nl, h, h->nlmsg_len, 0) < 0)
		return -errno;
	ssize_t n = recv(nl, buf, sizeof(buf), 0);

	if (n < 0)
		return -errno;
	return n < (ssize_t)NLMSG_LENGTH(sizeof(int)) ? -EPROTO : ((struct nlmsgerr *)NLMSG_DATA(r))->error;
}

static void undo(struct adopt *a)
{
	for (size_t at = 0; at < a->undo.size;) {
		const struct nlmsghdr *h = (void *)(a->undo.data + at);
		int err = request(a->nl, h);

		if (err && err != -EADDRNOTAVAIL) /* a secondary one went with its primary */
			die(EXIT_SETUP, "network namespace: removing an address: %s", strerror(-err));
		at += NLMSG_ALIGN(h->nlmsg_len);
	}
	free(a->undo.data);
}

/* Sets disable_ipv6 of an interface. 1: it was the other way. */
static int switch_ipv6(const struct nic *n, char off)
{
	char path[128], was = off;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", n->name);
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (read(fd, &was, 1) == 1 && was != off && pwrite(fd, &off, 1, 0) != 1)
		warn("network interface %s: the host's IPv6 stays as it is: %s", n->name, strerror(errno));
	close(fd);
	return was != off;
}

static int open_rtnetlink(void)
{
	struct sockaddr_nl nl = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&nl, sizeof(nl)) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void netns_restore(struct netns_kept *k)
{
	int nl = -1, back, failed = 0, done = 1;

	if (!k)
		return;
	back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (back < 0 || setns(k->ns, CLONE_NEWNET) != 0 || (nl = open_rtnetlink()) < 0) {
		warn("network namespace: its addresses are not put back: %s", strerror(errno));
		goto out;
	}
	for (int i = 0; i < k->nic_count; i++)
		switch_ipv6(&k->nic[i], '0');
	/* A route may need one that follows it, so again as long as that helps. */
	for (int left = 1; left && done;) {
		left = done = failed = 0;
		for (size_t at = 0; at < k->put_back.size;) {
			struct nlmsghdr *h = (void *)(k->put_back.data + at);
			int err = h->nlmsg_type == NLMSG_NOOP ? 0 : request(nl, h);

			if (!err && h->nlmsg_type != NLMSG_NOOP) {
				h->nlmsg_type = NLMSG_NOOP;
				done = 1;
			} else if (err) {
				failed = err;
				left = 1;
			}
			at += NLMSG_ALIGN(h->nlmsg_len);
		}
	}
	if (failed && failed != -ENODEV) /* the interface may be gone, and everything with it */
		warn("network namespace: not everything is put back: %s", strerror(-failed));
	close(nl);
out:
	if (back >= 0 && setns(back, CLONE_NEWNET) != 0)
		warn("leaving the network namespace: %s", strerror(errno));
	if (back >= 0)
		close(back);
	close(k->ns);
	free(k->put_back.data);
	free(k);
}

int netns_adopt(int netns, struct bootconf *conf, struct launch *l, struct netns_kept **kept)
{
	struct adopt a = { .conf = conf, .launch = l };
	int back = -1;

	if (kept) {
		a.kept = *kept = calloc(1, sizeof(**kept));
		if (!a.kept)
			die(EXIT_SETUP, "out of memory");
		a.kept->ns = fcntl(netns, F_DUPFD_CLOEXEC, 3);
	}
	if (netns >= 0) {
		back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (back < 0 || setns(netns, CLONE_NEWNET) != 0)
			die(EXIT_SETUP, "entering the network namespace: %s", strerror(errno));
	}
	a.nl = open_rtnetlink();
	if (a.nl < 0)
		die(EXIT_SETUP, "network namespace: rtnetlink: %s", strerror(errno));
	dump(&a, RTM_GETLINK, take_link);
	dump(&a, RTM_GETADDR, take_addr);
	dump(&a, RTM_GETROUTE, take_route);
	dump(&a, RTM_GETNEIGH, take_neigh);
	undo(&a);
	for (int i = 0; i < a.nic_count; i++)
		/* The host's IPv6 would invent a link-local address again and answer for it. */
		if (switch_ipv6(&a.nic[i], '1') && a.kept)
			a.kept->nic[a.kept->nic_count++] = a.nic[i];
	close(a.nl);
	if (back >= 0) {
		if (setns(back, CLONE_NEWNET) != 0)
			die(EXIT_SETUP, "leaving the network namespace: %s", strerror(errno));
		close(back);
	}
	return a.nic_count;
}
