/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/net: tables of the network namespace. Their texts are the socket layer's, through
 * proc_net_source; what it does not know is not there.
 */
#include <errno.h>

#include "vfs/proc/proc_priv.h"

static int show(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_net_source *ns = proc_net();

	return ns ? ns->show(ns, rq->inst->obj, rq->desc->name, out) : -ENOENT;
}

static int present(const struct pseudo_req *rq)
{
	const struct proc_net_source *ns = proc_net();

	return ns && ns->show(ns, rq->inst->obj, rq->desc->name, NULL) != -ENOENT;
}

#define NET(n) { .name = (n), .mode = S_IFREG | 0444, .show = show, .present = present }

const struct pseudo_desc g_proc_net_files[] = {
	NET("arp"),	 NET("dev"),	   NET("dev_mcast"),	 NET("fib_trie"),
	NET("icmp"),	 NET("icmp6"),	   NET("if_inet6"),	 NET("igmp"),
	NET("igmp6"),	 NET("ipv6_route"), NET("netlink"),	 NET("netstat"),
	NET("packet"),	 NET("protocols"), NET("psched"),	 NET("ptype"),
	NET("raw"),	 NET("raw6"),	   NET("route"),	 NET("rt6_stats"),
	NET("snmp"),	 NET("snmp6"),	   NET("sockstat"),	 NET("sockstat6"),
	NET("softnet_stat"), NET("tcp"),   NET("tcp6"),		 NET("udp"),
	NET("udp6"),	 NET("udplite"),   NET("udplite6"),	 NET("unix"),
	NET("wireless"), PSEUDO_END,
};
