/* SPDX-License-Identifier: Apache-2.0 */
/* ioctls of IP sockets, and the netdevice(7) ones every socket answers. */
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sentry/socket/inet_priv.h"

#define IFNAME_MASK 15

static uint32_t flags_of(const struct nic *n)
{
	uint32_t f = IFF_RUNNING;

	if (n->flags & NIC_UP)
		f |= IFF_UP;
	if (n->flags & NIC_LOOPBACK)
		return f | IFF_LOOPBACK;
	return f | IFF_BROADCAST | IFF_MULTICAST;
}

static const struct nic_addr *first_v4(const struct nic *n)
{
	for (uint32_t i = 0; i < n->addr_count; i++)
		if (ip_is_v4(&n->addr[i].addr))
			return &n->addr[i];
	return NULL;
}

static void put_sin(struct sockaddr *sa, uint32_t be)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = be };

	memcpy(sa, &in, sizeof(*sa));
}

static long ifconf(struct socket *s, struct ioctl_req *r)
{
	struct {
		int32_t len;
		uint32_t pad;
		uint64_t buf;
	} c;
	struct ifreq out[64];
	uint32_t count = 0;
	struct nic *n;

	if (r->copy_in(r, &c, r->arg, sizeof(c)))
		return -EFAULT;
	if (c.buf && c.len < 0)
		return -EINVAL;
	memset(out, 0, sizeof(out));
	stack_lock(inet_stack(s));
	list_for_each(n, stack_nics(inet_stack(s)), node)
		for (uint32_t i = 0; i < n->addr_count && count < 64; i++)
			if (ip_is_v4(&n->addr[i].addr)) {
				memcpy(out[count].ifr_name, n->name, NIC_NAME);
				put_sin(&out[count++].ifr_addr, n->addr[i].addr.w[3]);
			}
	stack_unlock(inet_stack(s));
	if (c.buf) {
		uint32_t fit = (uint32_t)c.len / sizeof(out[0]);

		if (count > fit)
			count = fit;
		if (count && r->copy_out(r, c.buf, out, count * sizeof(out[0])))
			return -EFAULT;
	}
	c.len = (int32_t)(count * sizeof(out[0]));
	return r->copy_out(r, r->arg, &c, sizeof(c));
}

static uint32_t mask_of(uint32_t plen)
{
	return plen <= 96 ? 0 : htonl(0xffffffffu << (128 - plen));
}

static long get_if(uint32_t cmd, const struct nic *n, struct ifreq *q)
{
	const struct nic_addr *a = first_v4(n);

	switch (cmd) {
	case SIOCGIFFLAGS:
		q->ifr_flags = (short)flags_of(n);
		return 0;
	case SIOCGIFINDEX:
		q->ifr_ifindex = (int)n->index;
		return 0;
	case SIOCGIFMTU:
		q->ifr_mtu = (int)n->mtu;
		return 0;
	case SIOCGIFMETRIC:
		q->ifr_metric = 0;
		return 0;
	case SIOCGIFTXQLEN:
		q->ifr_qlen = (int)n->tx_queue_len;
		return 0;
	case SIOCGIFMAP:
		memset(&q->ifr_map, 0, sizeof(q->ifr_map));
		return 0;
	case SIOCGIFHWADDR:
		memset(&q->ifr_hwaddr, 0, sizeof(q->ifr_hwaddr));
		q->ifr_hwaddr.sa_family = n->flags & NIC_LOOPBACK ? ARPHRD_LOOPBACK : ARPHRD_ETHER;
		memcpy(q->ifr_hwaddr.sa_data, n->mac, 6);
		return 0;
	}
	if (!a)
		return -EADDRNOTAVAIL;
	switch (cmd) {
	case SIOCGIFADDR:
		put_sin(&q->ifr_addr, a->addr.w[3]);
		return 0;
	case SIOCGIFNETMASK:
		put_sin(&q->ifr_netmask, mask_of(a->plen));
		return 0;
	case SIOCGIFBRDADDR:
		put_sin(&q->ifr_broadaddr, ip_is_v4(&a->broadcast) ? a->broadcast.w[3] : 0);
		return 0;
	case SIOCGIFDSTADDR:
		put_sin(&q->ifr_dstaddr, a->addr.w[3]);
		return 0;
	}
	return -ENOIOCTLCMD;
}

long netdev_ioctl(struct socket *s, struct ioctl_req *r)
{
	struct ifreq q;
	struct nic *n;
	long ret;

	switch (r->cmd) {
	case SIOCGIFCONF:
		return ifconf(s, r);
	case SIOCGIFNAME:
		if (r->copy_in(r, &q, r->arg, sizeof(q)))
			return -EFAULT;
		stack_lock(inet_stack(s));
		n = nic_find(inet_stack(s), (uint32_t)q.ifr_ifindex);
		if (n)
			memcpy(q.ifr_name, n->name, NIC_NAME);
		stack_unlock(inet_stack(s));
		return n ? r->copy_out(r, r->arg, &q, sizeof(q)) : -ENODEV;
	case SIOCGIFFLAGS:
	case SIOCGIFINDEX:
	case SIOCGIFMTU:
	case SIOCGIFMETRIC:
	case SIOCGIFTXQLEN:
	case SIOCGIFMAP:
	case SIOCGIFHWADDR:
	case SIOCGIFADDR:
	case SIOCGIFNETMASK:
	case SIOCGIFBRDADDR:
	case SIOCGIFDSTADDR:
		if (r->copy_in(r, &q, r->arg, sizeof(q)))
			return -EFAULT;
		q.ifr_name[IFNAME_MASK] = 0;
		stack_lock(inet_stack(s));
		n = nic_by_name(inet_stack(s), q.ifr_name);
		ret = n ? get_if(r->cmd, n, &q) : -ENODEV;
		stack_unlock(inet_stack(s));
		return ret ? ret : r->copy_out(r, r->arg, &q, sizeof(q));
	case SIOCETHTOOL:
	case SIOCGIFPFLAGS:
		return -EOPNOTSUPP;
	case SIOCSIFFLAGS:
	case SIOCSIFADDR:
	case SIOCSIFNETMASK:
	case SIOCSIFBRDADDR:
	case SIOCSIFMTU:
	case SIOCSIFHWADDR:
	case SIOCADDRT:
	case SIOCDELRT:
		return -EPERM;
	}
	return -ENOIOCTLCMD;
}

long inet_ioctl(struct socket *s, struct ioctl_req *r)
{
	struct inet_sock *i = inet_of(s);
	int v, tcp = i->ep->kind == EP_TCP;

	switch (r->cmd) {
	case FIONREAD:
		if (tcp && endpoint_tcp_state(i->ep) == 10)
			return -EINVAL;
		v = (int)endpoint_inq(i->ep);
		return r->copy_out(r, r->arg, &v, sizeof(v));
	case SIOCOUTQ:
		if (tcp && endpoint_tcp_state(i->ep) == 10)
			return -EINVAL;
		v = (int)endpoint_outq(i->ep);
		return r->copy_out(r, r->arg, &v, sizeof(v));
	case SIOCATMARK:
		if (!tcp)
			return -ENOIOCTLCMD;
		v = endpoint_at_mark(i->ep);
		return r->copy_out(r, r->arg, &v, sizeof(v));
	}
	return -ENOIOCTLCMD;
}
