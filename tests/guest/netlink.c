/* SPDX-License-Identifier: Apache-2.0 */
/* AF_NETLINK: getifaddrs(3), name and index, requests and errors, silent uevents; /proc/net. */
#include "tests/lib/guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void interfaces(void)
{
	struct ifaddrs *all = NULL, *i;
	int lo4 = 0, lo6 = 0, link = 0;
	char name[IF_NAMESIZE];

	CHECK("getifaddrs", getifaddrs(&all) == 0);
	for (i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, "lo") || !i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_PACKET)
			link = (i->ifa_flags & IFF_LOOPBACK) != 0;
		if (i->ifa_addr->sa_family == AF_INET)
			lo4 |= ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
		if (i->ifa_addr->sa_family == AF_INET6)
			lo6 |= IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
	}
	freeifaddrs(all);
	CHECK("lo has a link", link);
	CHECK("lo has 127.0.0.1", lo4);
	CHECK("lo has ::1", lo6);
	CHECK("if_nametoindex", if_nametoindex("lo") == 1);
	CHECK("if_indextoname", if_indextoname(1, name) && !strcmp(name, "lo"));
	CHECK_ERRNO("no such interface", if_nametoindex("nosuch") ? 0 : -1, ENODEV);
}

struct req {
	struct nlmsghdr h;
	struct rtmsg m;
};

static void requests(void)
{
	struct sockaddr_nl a = { .nl_family = AF_NETLINK }, got;
	socklen_t len = sizeof(got);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct req r = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)), .nlmsg_type = RTM_GETROUTE,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 77 },
			 .m = { .rtm_family = AF_INET } };
	char buf[65536];
	int n, done = 0, local = 0;

	CHECK("socket", fd >= 0);
	CHECK("bind", bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK("getsockname", getsockname(fd, (struct sockaddr *)&got, &len) == 0 && len == sizeof(got) && got.nl_pid);
	CHECK("send", send(fd, &r, r.h.nlmsg_len, 0) == (ssize_t)r.h.nlmsg_len);
	while (!done && (n = (int)recv(fd, buf, sizeof(buf), 0)) > 0)
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, (unsigned)n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_seq != 77 || h->nlmsg_pid != got.nl_pid)
				break;
			if (h->nlmsg_type == NLMSG_DONE)
				done = 1;
			if (h->nlmsg_type == RTM_NEWROUTE && ((struct rtmsg *)NLMSG_DATA(h))->rtm_table == RT_TABLE_LOCAL)
				local = 1;
		}
	CHECK("dump ends", done);
	CHECK("local table", local);
	CHECK_ERRNO("queue is empty", recv(fd, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	r.h.nlmsg_type = RTM_GETLINK;
	r.h.nlmsg_flags = NLM_F_REQUEST;
	r.h.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg));
	struct {
		struct nlmsghdr h;
		struct ifinfomsg m;
	} l = { .h = r.h, .m = { .ifi_index = 9999 } };

	send(fd, &l, l.h.nlmsg_len, 0);
	n = (int)recv(fd, buf, sizeof(buf), 0);
	CHECK("error for an unknown link", n > 0 && ((struct nlmsghdr *)buf)->nlmsg_type == NLMSG_ERROR &&
					   ((struct nlmsgerr *)NLMSG_DATA(buf))->error == -ENODEV);
	l.m.ifi_index = 1;
	send(fd, &l, l.h.nlmsg_len, 0);
	n = (int)recv(fd, buf, sizeof(buf), 0);
	CHECK("one link", n > 0 && ((struct nlmsghdr *)buf)->nlmsg_type == RTM_NEWLINK &&
			  ((struct ifinfomsg *)NLMSG_DATA(buf))->ifi_index == 1);
	l.h.nlmsg_flags |= NLM_F_ACK;
	send(fd, &l, l.h.nlmsg_len, 0);
	n = (int)recv(fd, buf, 16, MSG_PEEK | MSG_TRUNC);
	CHECK("length by peek", n > 16);
	close(fd);
	CHECK_ERRNO("unknown protocol", socket(AF_NETLINK, SOCK_RAW, 31), EPROTONOSUPPORT);
	CHECK_ERRNO("stream", socket(AF_NETLINK, SOCK_STREAM, 0), ESOCKTNOSUPPORT);
	fd = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_KOBJECT_UEVENT);
	a.nl_groups = 1;
	CHECK("uevent bind", fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	CHECK("uevents are silent", poll(&p, 1, 0) == 0);
	close(fd);
}

static int has_line(const char *path, const char *text)
{
	char buf[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	close(fd);
	if (n < 0)
		return 0;
	buf[n] = 0;
	return strstr(buf, text) != NULL;
}

static void tables(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char want[64];

	bind(fd, (struct sockaddr *)&a, sizeof(a));
	listen(fd, 1);
	getsockname(fd, (struct sockaddr *)&a, &len);
	snprintf(want, sizeof(want), "0100007F:%04X 00000000:0000 0A", ntohs(a.sin_port));
	CHECK("proc/net/tcp", has_line("/proc/net/tcp", want));
	CHECK("proc/net/dev", has_line("/proc/net/dev", "lo:"));
	CHECK("proc/net/if_inet6", has_line("/proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80"));
	CHECK("proc/net/snmp", has_line("/proc/net/snmp", "\nTcp: "));
	CHECK("proc/net/unix", has_line("/proc/net/unix", "RefCount"));
	CHECK("class/net", access("/sys/class/net/lo/mtu", R_OK) == 0);
	struct ifreq q = { .ifr_name = "lo" };

	CHECK("SIOCGIFFLAGS", ioctl(fd, SIOCGIFFLAGS, &q) == 0 && (q.ifr_flags & (IFF_UP | IFF_LOOPBACK)) == (IFF_UP | IFF_LOOPBACK));
	CHECK("SIOCGIFADDR", ioctl(fd, SIOCGIFADDR, &q) == 0 &&
			     ((struct sockaddr_in *)&q.ifr_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	strcpy(q.ifr_name, "nosuch");
	CHECK_ERRNO("no device", ioctl(fd, SIOCGIFFLAGS, &q), ENODEV);
	close(fd);
}

int main(void)
{
	interfaces();
	requests();
	tables();
	return guest_done();
}
