/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/net, sys/net and /sys/class/net: texts from the stack's state, in the columns that programs
 * parse (proc(5)). One row per file.
 */
#include "sentry/socket/net_tables.h"

#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>

#include "netstack/netstack.h"
#include "sentry/socket/socket.h"
#include "vfs/proc/proc.h"
#include "vfs/sysfs/sysfs.h"

#define HZ_NS 10000000u /* USER_HZ */

struct table {
	struct stack *s;
	struct strbuf *out;
	int v6, row;
	const char *what;
};

/* ---- sockets ---- */

static void put_addr(struct strbuf *out, const struct ip_addr *a, uint16_t port, int v6)
{
	if (v6)
		strbuf_printf(out, "%08X%08X%08X%08X:%04X", a->w[0], a->w[1], a->w[2], a->w[3], port);
	else
		strbuf_printf(out, "%08X:%04X", a->w[3], port);
}

static void put_tcp(struct endpoint *ep, void *priv)
{
	struct table *t = priv;
	struct tcp_table_row r;
	int st = endpoint_tcp_state(ep);

	if (ep->v6 != t->v6 || st == 7)
		return;
	tcp_table_row(ep, &r);
	strbuf_printf(t->out, "%4d: ", t->row++);
	put_addr(t->out, &ep->laddr, ep->lport, t->v6);
	strbuf_putc(t->out, ' ');
	put_addr(t->out, &ep->raddr, ep->rport, t->v6);
	strbuf_printf(t->out, " %02X %08X:%08X %02X:%08llX %08X %5u %8u %llu %d %016x %llu %llu %u %u %d\n", st, r.txq,
		      r.rxq, r.timer, (unsigned long long)(r.timer_left_ns / HZ_NS), r.retransmits, ep->o.uid, r.probes,
		      ep->owned ? (unsigned long long)ep->sockfs_ino : 0ull, (int)ref_read(&ep->ref), 0,
		      (unsigned long long)r.rto_us / 10000, (unsigned long long)r.ato_us / 10000, 0u, r.cwnd,
		      st == 10 ? (int)r.backlog_max : r.ssthresh);
}

static void show_tcp(struct table *t)
{
	strbuf_puts(t->out, t->v6 ? "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" :
				    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \n");
	stack_each(t->s, EP_TCP, put_tcp, t);
}

static void put_dgram(struct endpoint *ep, void *priv)
{
	struct table *t = priv;

	if (ep->v6 != t->v6 || (ep->kind != EP_RAW && !ep->lport))
		return;
	strbuf_printf(t->out, "%5d: ", t->row++);
	put_addr(t->out, &ep->laddr, ep->kind == EP_RAW ? ep->proto : ep->lport, t->v6);
	strbuf_putc(t->out, ' ');
	put_addr(t->out, &ep->raddr, ep->rport, t->v6);
	strbuf_printf(t->out, " %02X %08X:%08X %02X:%08X %08X %5u %8d %llu %d %016x %llu\n", ep->connected ? 1 : 7, 0,
		      ep->rq_mem, 0, 0, 0, ep->o.uid, 0, (unsigned long long)ep->sockfs_ino, (int)ref_read(&ep->ref), 0,
		      (unsigned long long)ep->drops);
}

static void show_dgram(struct table *t)
{
	strbuf_puts(t->out, t->v6 ? "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n" :
				    "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops             \n");
	stack_each(t->s, !strncmp(t->what, "raw", 3) ? EP_RAW : !strncmp(t->what, "udplite", 7) ? EP_UDPLITE : EP_UDP, put_dgram, t);
}

/* ---- interfaces and routes ---- */

static void show_dev(struct table *t)
{
	struct nic *n;

	strbuf_puts(t->out, "Inter-|   Receive                                                |  Transmit\n"
			    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n");
	list_for_each(n, stack_nics(t->s), node) {
		const struct nic_stats *c = &n->stats;

		strbuf_printf(t->out, "%6s: %7llu %7llu %4llu %4llu %4d %5d %10d %9llu %8llu %7llu %4llu %4llu %4d %5d %7d %10d\n",
			      n->name, (unsigned long long)c->rx_bytes, (unsigned long long)c->rx_packets,
			      (unsigned long long)c->rx_errors, (unsigned long long)c->rx_dropped, 0, 0, 0,
			      (unsigned long long)c->multicast, (unsigned long long)c->tx_bytes,
			      (unsigned long long)c->tx_packets, (unsigned long long)c->tx_errors,
			      (unsigned long long)c->tx_dropped, 0, 0, 0, 0);
	}
}

static const char *nic_name(struct stack *s, uint32_t index)
{
	struct nic *n = nic_find(s, index);

	return n ? n->name : "*";
}

static void show_route(struct table *t)
{
	struct route *r;

	strbuf_printf(t->out, "%-127s\n", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT");
	list_for_each(r, stack_routes(t->s), node) {
		uint32_t plen = r->plen - 96, flags = 1u | (ip_is_any(&r->gateway) ? 0 : 2u);
		struct strbuf line;

		if (!ip_is_v4(&r->dst))
			continue;
		strbuf_init(&line);
		strbuf_printf(&line, "%s\t%08X\t%08X\t%04X\t%d\t%u\t%u\t%08X\t%d\t%u\t%u", nic_name(t->s, r->nic),
			      r->dst.w[3], ip_is_v4(&r->gateway) ? r->gateway.w[3] : 0, flags | (plen == 32 ? 4u : 0), 0, 0u,
			      r->metric, plen ? htonl(0xffffffffu << (32 - plen)) : 0, 0, 0u, 0u);
		strbuf_printf(t->out, "%-127s\n", line.data ? line.data : "");
		strbuf_free(&line);
	}
}

static void put_hex(struct strbuf *out, const struct ip_addr *a)
{
	for (int i = 0; i < 16; i++)
		strbuf_printf(out, "%02x", a->b[i]);
}

static void show_if_inet6(struct table *t)
{
	struct nic *n;

	list_for_each(n, stack_nics(t->s), node)
		for (uint32_t i = 0; i < n->addr_count; i++) {
			const struct nic_addr *a = &n->addr[i];

			if (ip_is_v4(&a->addr))
				continue;
			put_hex(t->out, &a->addr);
			strbuf_printf(t->out, " %02x %02x %02x %02x %8s\n", n->index, a->plen,
				      a->scope == 254 ? 0x10 : a->scope == 253 ? 0x20 : 0, 0x80, n->name);
		}
}

static void put_route6(struct table *t, const struct ip_addr *dst, uint32_t plen, const struct ip_addr *gw,
		       uint32_t metric, uint32_t flags, const char *dev)
{
	put_hex(t->out, dst);
	strbuf_printf(t->out, " %02x ", plen);
	put_hex(t->out, &(struct ip_addr){ .d = { 0, 0 } });
	strbuf_puts(t->out, " 00 ");
	put_hex(t->out, gw);
	strbuf_printf(t->out, " %08x %08x %08x %08x %8s\n", metric, 1, 0, flags, dev);
}

static void show_route6(struct table *t)
{
	const struct ip_addr none = { .d = { 0, 0 } };
	struct route *r;
	struct nic *n;

	list_for_each(r, stack_routes(t->s), node)
		if (!ip_is_v4(&r->dst))
			put_route6(t, &r->dst, r->plen, &r->gateway, r->metric ? r->metric : 1024,
				   1u | (ip_is_any(&r->gateway) ? 0 : 2u), nic_name(t->s, r->nic));
	list_for_each(n, stack_nics(t->s), node)
		for (uint32_t i = 0; i < n->addr_count; i++)
			if (!ip_is_v4(&n->addr[i].addr))
				put_route6(t, &n->addr[i].addr, 128, &none, 0, 0x80200001u, "lo");
}

/* ---- counters ---- */

#define ULL(v) ((unsigned long long)(v))

static void show_snmp(struct table *t)
{
	const struct stack_counters *c = stack_counters(t->s);

	strbuf_puts(t->out, "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates OutTransmits\n");
	strbuf_printf(t->out, "Ip: 2 %u %llu %llu %llu 0 %llu %llu %llu %llu 0 %llu 0 %llu %llu %llu %llu %llu %llu %llu\n",
		      stack_sysctl(t->s)->default_ttl, ULL(c->ip_in), ULL(c->ip_in_hdr_errors), ULL(c->ip_in_addr_errors),
		      ULL(c->ip_in_unknown), ULL(c->ip_in_discards), ULL(c->ip_in_delivers), ULL(c->ip_out),
		      ULL(c->ip_out_no_routes), ULL(c->ip_reasm_reqds), ULL(c->ip_reasm_oks), ULL(c->ip_reasm_fails),
		      ULL(c->ip_frag_oks), ULL(c->ip_frag_fails), ULL(c->ip_frag_creates), ULL(c->ip_out));
	strbuf_puts(t->out, "Icmp: InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutRateLimitGlobal OutRateLimitHost OutDestUnreachs OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks OutAddrMaskReps\n");
	strbuf_printf(t->out, "Icmp: %llu %llu 0 %llu 0 0 0 0 %llu 0 0 0 0 0 %llu 0 0 0 %llu 0 0 0 0 0 %llu 0 0 0 0\n",
		      ULL(c->icmp_in), ULL(c->icmp_in_errors), ULL(c->icmp_in_unreach), ULL(c->icmp_in_echo),
		      ULL(c->icmp_out), ULL(c->icmp_out_unreach), ULL(c->icmp_out_echo_reply));
	strbuf_puts(t->out, "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\n");
	strbuf_printf(t->out, "Tcp: 1 200 120000 -1 %llu %llu %llu %llu %u %llu %llu %llu %llu %llu 0\n", ULL(c->tcp_active),
		      ULL(c->tcp_passive), ULL(c->tcp_fails), ULL(c->tcp_est_resets), c->tcp_count, ULL(c->tcp_in),
		      ULL(c->tcp_out), ULL(c->tcp_retrans), ULL(c->tcp_in_errs), ULL(c->tcp_out_rsts));
	strbuf_puts(t->out, "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors\n");
	strbuf_printf(t->out, "Udp: %llu %llu %llu %llu %llu %llu 0 0 0\n", ULL(c->udp_in), ULL(c->udp_no_ports),
		      ULL(c->udp_in_errors), ULL(c->udp_out), ULL(c->udp_rcvbuf_errors), ULL(c->udp_sndbuf_errors));
	strbuf_puts(t->out, "UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors\nUdpLite: 0 0 0 0 0 0 0 0 0\n");
}

static void show_netstat(struct table *t)
{
	const struct stack_counters *c = stack_counters(t->s);

	strbuf_puts(t->out, "TcpExt: SyncookiesSent SyncookiesRecv SyncookiesFailed TW ListenOverflows ListenDrops TCPTimeouts\n");
	strbuf_printf(t->out, "TcpExt: %llu %llu %llu %u %llu %llu 0\n", ULL(c->cookies_sent), ULL(c->cookies_recv),
		      ULL(c->cookies_failed), c->tcp_tw, ULL(c->listen_overflows), ULL(c->listen_drops));
	strbuf_puts(t->out, "IpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 0 0\n");
}

static void show_sockstat(struct table *t)
{
	const struct stack_counters *c = stack_counters(t->s);

	strbuf_printf(t->out, "sockets: used %u\nTCP: inuse %u orphan %u tw %u alloc %u mem 0\nUDP: inuse %u mem 0\nUDPLITE: inuse 0\nRAW: inuse %u\nFRAG: inuse 0 memory 0\n",
		      c->tcp_count + c->udp_count + c->raw_count, c->tcp_count, c->tcp_orphans, c->tcp_tw, c->tcp_count,
		      c->udp_count, c->raw_count);
}

static void show_sockstat6(struct table *t)
{
	strbuf_puts(t->out, "TCP6: inuse 0\nUDP6: inuse 0\nUDPLITE6: inuse 0\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n");
}

static void show_arp(struct table *t)
{
	strbuf_puts(t->out, "IP address       HW type     Flags       HW address            Mask     Device\n");
}

static void show_unix(struct table *t)
{
	(void)t; /* by its own function, without the stack lock */
}

static void show_packet(struct table *t)
{
	strbuf_puts(t->out, "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n");
}

static void show_netlink(struct table *t)
{
	strbuf_puts(t->out, "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n");
}

static void show_nothing(struct table *t)
{
	(void)t;
}

static const struct {
	const char *name;
	void (*show)(struct table *t);
	int v6;
} g_tables[] = {
	{ "tcp", show_tcp, 0 },		{ "tcp6", show_tcp, 1 },	{ "udp", show_dgram, 0 },
	{ "udp6", show_dgram, 1 },	{ "raw", show_dgram, 0 },	{ "raw6", show_dgram, 1 },
	{ "udplite", show_dgram, 0 }, { "udplite6", show_dgram, 1 },
	{ "dev", show_dev, 0 },		{ "route", show_route, 0 },	{ "if_inet6", show_if_inet6, 1 },
	{ "ipv6_route", show_route6, 1 }, { "snmp", show_snmp, 0 },	{ "netstat", show_netstat, 0 },
	{ "sockstat", show_sockstat, 0 }, { "sockstat6", show_sockstat6, 1 }, { "arp", show_arp, 0 },
	{ "unix", show_unix, 0 },	{ "packet", show_packet, 0 },	{ "netlink", show_netlink, 0 },
	{ "dev_mcast", show_nothing, 0 }, { "igmp6", show_nothing, 1 }, { "snmp6", show_nothing, 1 },
};

static int net_show(const struct proc_net_source *ns, void *task, const char *name, struct strbuf *out)
{
	struct kernel *k = ns->priv;

	(void)task;
	for (size_t i = 0; i < sizeof(g_tables) / sizeof(*g_tables); i++) {
		if (strcmp(g_tables[i].name, name))
			continue;
		if (!out)
			return 0;
		if (g_tables[i].show == show_unix) {
			unix_show(k, out);
			return 0;
		}
		struct table t = { .s = k->sockets->stack, .out = out, .v6 = g_tables[i].v6, .what = name };

		stack_lock(t.s);
		g_tables[i].show(&t);
		stack_unlock(t.s);
		return 0;
	}
	return -ENOENT;
}

/* ---- sys/net: the settings the stack obeys ---- */

static const struct {
	const char *name;
	size_t off;
	int count;
} g_sysctls[] = {
#define CTL(n, field, count) { n, offsetof(struct stack_sysctl, field), count }
	CTL("net.ipv4.ip_local_port_range", port_min, 2),
	CTL("net.core.somaxconn", somaxconn, 1),
	CTL("net.ipv4.tcp_max_syn_backlog", max_syn_backlog, 1),
	CTL("net.ipv4.tcp_syncookies", syncookies, 1),
	CTL("net.core.rmem_default", rmem_default, 1),
	CTL("net.core.rmem_max", rmem_max, 1),
	CTL("net.core.wmem_default", wmem_default, 1),
	CTL("net.core.wmem_max", wmem_max, 1),
	CTL("net.ipv4.tcp_rmem", tcp_rmem, 3),
	CTL("net.ipv4.tcp_wmem", tcp_wmem, 3),
	CTL("net.ipv4.ip_default_ttl", default_ttl, 1),
	CTL("net.ipv4.tcp_syn_retries", syn_retries, 1),
	CTL("net.ipv4.tcp_synack_retries", synack_retries, 1),
	CTL("net.ipv4.tcp_retries2", retries2, 1),
	CTL("net.ipv4.tcp_fin_timeout", fin_timeout_s, 1),
	CTL("net.ipv4.tcp_keepalive_time", keepidle_s, 1),
	CTL("net.ipv4.tcp_keepalive_intvl", keepintvl_s, 1),
	CTL("net.ipv4.tcp_keepalive_probes", keepcnt, 1),
	CTL("net.ipv4.tcp_tw_reuse", tw_reuse, 1),
	CTL("net.ipv4.tcp_max_tw_buckets", max_tw, 1),
	CTL("net.ipv4.ping_group_range", ping_min, 2),
	CTL("net.ipv4.ip_unprivileged_port_start", unprivileged_port, 1),
};

static uint32_t *sysctl_field(const struct proc_net_source *ns, const char *name, int count)
{
	struct kernel *k = ns->priv;

	for (size_t i = 0; i < sizeof(g_sysctls) / sizeof(*g_sysctls); i++)
		if (!strcmp(g_sysctls[i].name, name) && g_sysctls[i].count == count)
			return (uint32_t *)(void *)((char *)stack_sysctl(k->sockets->stack) + g_sysctls[i].off);
	return NULL;
}

static int net_sysctl_get(const struct proc_net_source *ns, const char *name, int64_t *val, int count)
{
	const uint32_t *f = sysctl_field(ns, name, count);

	if (!f)
		return -ENOENT;
	for (int i = 0; i < count; i++)
		val[i] = f[i];
	return 0;
}

static int net_sysctl_set(const struct proc_net_source *ns, const char *name, const int64_t *val, int count)
{
	struct kernel *k = ns->priv;
	uint32_t *f = sysctl_field(ns, name, count);

	if (!f)
		return -ENOENT;
	for (int i = 0; i < count; i++)
		if (val[i] < 0 || val[i] > UINT32_MAX)
			return -EINVAL;
	if (!strcmp(name, "net.ipv4.ip_local_port_range") && (val[0] < 1 || val[1] > 65535 || val[0] > val[1]))
		return -EINVAL;
	stack_lock(k->sockets->stack);
	for (int i = 0; i < count; i++)
		f[i] = (uint32_t)val[i];
	stack_unlock(k->sockets->stack);
	return 0;
}

static struct proc_net_source g_net_source = {
	.show = net_show,
	.sysctl_get = net_sysctl_get,
	.sysctl_set = net_sysctl_set,
};

/* ---- /sys/class/net ---- */

static int sys_next(const struct sysfs_source *ss, uint32_t from, uint32_t *index)
{
	struct kernel *k = ss->priv;
	uint32_t best = 0;
	struct nic *n;

	stack_lock(k->sockets->stack);
	list_for_each(n, stack_nics(k->sockets->stack), node)
		if (n->index >= from && (!best || n->index < best))
			best = n->index;
	stack_unlock(k->sockets->stack);
	*index = best;
	return best != 0;
}

static int sys_get(const struct sysfs_source *ss, uint32_t index, struct sysfs_net_if *out)
{
	struct kernel *k = ss->priv;
	struct stack *s = k->sockets->stack;

	stack_lock(s);
	struct nic *n = nic_find(s, index);

	if (n) {
		int lo = (n->flags & NIC_LOOPBACK) != 0;

		memset(out, 0, sizeof(*out));
		memcpy(out->name, n->name, sizeof(out->name));
		out->flags = (n->flags & NIC_UP ? IFF_UP : 0) | (lo ? IFF_LOOPBACK : IFF_BROADCAST | IFF_MULTICAST);
		out->mtu = n->mtu;
		out->type = lo ? ARPHRD_LOOPBACK : ARPHRD_ETHER;
		out->tx_queue_len = n->tx_queue_len;
		out->addr_len = 6;
		memcpy(out->addr, n->mac, 6);
		memset(out->broadcast, lo ? 0 : 0xff, 6);
		out->carrier = 1;
		out->operstate = lo ? "unknown" : n->flags & NIC_UP ? "up" : "down";
		out->rx_bytes = n->stats.rx_bytes;
		out->rx_packets = n->stats.rx_packets;
		out->rx_errors = n->stats.rx_errors;
		out->rx_dropped = n->stats.rx_dropped;
		out->multicast = n->stats.multicast;
		out->tx_bytes = n->stats.tx_bytes;
		out->tx_packets = n->stats.tx_packets;
		out->tx_errors = n->stats.tx_errors;
		out->tx_dropped = n->stats.tx_dropped;
	}
	stack_unlock(s);
	return n ? 0 : -ENOENT;
}

static void sys_memory(const struct sysfs_source *ss, uint64_t *total, uint64_t *left)
{
	const struct proc_source *ps = proc_get_source();
	struct proc_meminfo m = { .total = 0 };

	(void)ss;
	if (ps && ps->meminfo)
		ps->meminfo(ps, &m);
	*total = m.total;
	*left = m.free;
}

static struct sysfs_source g_sysfs_source = { .memory = sys_memory, .net_next = sys_next, .net_get = sys_get };

void net_tables_start(struct kernel *k)
{
	g_net_source.priv = k;
	proc_set_net_source(&g_net_source);
	g_sysfs_source.priv = k;
	g_sysfs_source.cpu_count = k->cpu_count;
	sysfs_set_source(&g_sysfs_source);
}
