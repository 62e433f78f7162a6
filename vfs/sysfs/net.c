/* SPDX-License-Identifier: Apache-2.0 */
/* class/net and devices/virtual/net: the network interfaces, from the socket layer. */
#include "vfs/sysfs/sysfs_priv.h"

#define KEY_IF 0

static int get_if(const struct pseudo_req *rq, struct sysfs_net_if *nif)
{
	const struct sysfs_source *ss = sysfs_ss(rq);

	memset(nif, 0, sizeof(*nif));
	if (!ss->net_get || ss->net_get(ss, (uint32_t)rq->inst->key[KEY_IF], nif))
		return -ENODEV;
	nif->name[SYSFS_IF_NAME - 1] = 0;
	return 0;
}

static void put_addr(struct strbuf *out, const uint8_t *addr, uint32_t len)
{
	for (uint32_t i = 0; i < len && i < SYSFS_LL_ADDR; i++)
		strbuf_printf(out, i ? ":%02x" : "%02x", addr[i]);
	strbuf_putc(out, '\n');
}

enum if_field {
	IF_ADDRESS, IF_BROADCAST, IF_ADDR_LEN, IF_FLAGS, IF_INDEX, IF_MTU, IF_TYPE, IF_TXQ, IF_CARRIER,
	IF_OPERSTATE, IF_RX_BYTES, IF_RX_PACKETS, IF_RX_ERRORS, IF_RX_DROPPED, IF_MULTICAST,
	IF_TX_BYTES, IF_TX_PACKETS, IF_TX_ERRORS, IF_TX_DROPPED, IF_COLLISIONS,
};

static int show_if(const struct pseudo_req *rq, struct strbuf *out)
{
	struct sysfs_net_if n;
	uint64_t v = 0;
	int r = get_if(rq, &n);

	if (r)
		return r;
	switch ((enum if_field)rq->desc->arg) {
	case IF_ADDRESS:
		put_addr(out, n.addr, n.addr_len);
		return 0;
	case IF_BROADCAST:
		put_addr(out, n.broadcast, n.addr_len);
		return 0;
	case IF_FLAGS:
		strbuf_printf(out, "0x%x\n", n.flags & 0xffff);
		return 0;
	case IF_OPERSTATE:
		strbuf_printf(out, "%s\n", n.operstate ? n.operstate : "unknown");
		return 0;
	case IF_CARRIER:
		if (!(n.flags & 1)) /* IFF_UP */
			return -EINVAL;
		v = n.carrier;
		break;
	case IF_ADDR_LEN:
		v = n.addr_len;
		break;
	case IF_INDEX:
		v = rq->inst->key[KEY_IF];
		break;
	case IF_MTU:
		v = n.mtu;
		break;
	case IF_TYPE:
		v = n.type;
		break;
	case IF_TXQ:
		v = n.tx_queue_len;
		break;
	case IF_RX_BYTES:
		v = n.rx_bytes;
		break;
	case IF_RX_PACKETS:
		v = n.rx_packets;
		break;
	case IF_RX_ERRORS:
		v = n.rx_errors;
		break;
	case IF_RX_DROPPED:
		v = n.rx_dropped;
		break;
	case IF_MULTICAST:
		v = n.multicast;
		break;
	case IF_TX_BYTES:
		v = n.tx_bytes;
		break;
	case IF_TX_PACKETS:
		v = n.tx_packets;
		break;
	case IF_TX_ERRORS:
		v = n.tx_errors;
		break;
	case IF_TX_DROPPED:
		v = n.tx_dropped;
		break;
	case IF_COLLISIONS:
		v = n.collisions;
		break;
	}
	strbuf_printf(out, "%llu\n", (unsigned long long)v);
	return 0;
}

/* There is no wire, so no speed: Linux's virtual devices say so with this errno. */
static int show_none(const struct pseudo_req *rq, struct strbuf *out)
{
	return -EINVAL;
}

static int show_uevent(const struct pseudo_req *rq, struct strbuf *out)
{
	struct sysfs_net_if n;
	int r = get_if(rq, &n);

	if (!r)
		strbuf_printf(out, "INTERFACE=%s\nIFINDEX=%u\n", n.name,
			      (uint32_t)rq->inst->key[KEY_IF]);
	return r;
}

#define IF(n, field) { .name = (n), .mode = S_IFREG | 0444, .show = show_if, .arg = (field) }

static const struct pseudo_desc g_statistics[] = {
	IF("collisions", IF_COLLISIONS), IF("multicast", IF_MULTICAST),
	IF("rx_bytes", IF_RX_BYTES),	 IF("rx_dropped", IF_RX_DROPPED),
	IF("rx_errors", IF_RX_ERRORS),	 IF("rx_packets", IF_RX_PACKETS),
	IF("tx_bytes", IF_TX_BYTES),	 IF("tx_dropped", IF_TX_DROPPED),
	IF("tx_errors", IF_TX_ERRORS),	 IF("tx_packets", IF_TX_PACKETS),
	PSEUDO_END,
};

static const struct pseudo_desc g_if_files[] = {
	IF("addr_len", IF_ADDR_LEN),
	IF("address", IF_ADDRESS),
	IF("broadcast", IF_BROADCAST),
	IF("carrier", IF_CARRIER),
	FIXED("dev_id", "0x0\n"),
	FIXED("dormant", "0\n"),
	RO("duplex", show_none),
	IF("flags", IF_FLAGS),
	IF("ifindex", IF_INDEX),
	IF("iflink", IF_INDEX),
	FIXED("link_mode", "0\n"),
	IF("mtu", IF_MTU),
	IF("operstate", IF_OPERSTATE),
	RO("speed", show_none),
	PSEUDO_DIR("statistics", 0755, g_statistics),
	IF("tx_queue_len", IF_TXQ),
	IF("type", IF_TYPE),
	RO("uevent", show_uevent),
	PSEUDO_END,
};

static const struct pseudo_desc g_if_dir = {
	.name = "if",
	.mode = S_IFDIR | 0755,
	.children = g_if_files,
};

static int if_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		   char name[PSEUDO_NAME_SIZE])
{
	const struct sysfs_source *ss = sysfs_ss(dir);

	while (ss->net_next && ss->net_get && from <= INT32_MAX) {
		struct sysfs_net_if n = { .name = "" };
		uint32_t index;

		if (ss->net_next(ss, (uint32_t)from, &index) <= 0)
			return 0;
		*key = index;
		from = (uint64_t)index + 1;
		if (ss->net_get(ss, index, &n))
			continue; /* went away in between */
		n.name[SYSFS_IF_NAME - 1] = 0;
		snprintf(name, PSEUDO_NAME_SIZE, "%s", n.name);
		return 1;
	}
	return 0;
}

static int if_find(const struct pseudo_req *dir, const char *name, size_t len,
		   struct pseudo_inst *inst)
{
	char got[PSEUDO_NAME_SIZE];
	uint64_t key;

	for (uint64_t from = 0; if_next(dir, from, &key, got); from = key + 1)
		if (strlen(got) == len && !memcmp(got, name, len)) {
			inst->key[KEY_IF] = key;
			return 0;
		}
	return -ENOENT;
}

const struct pseudo_dyn g_sysfs_net_dyn = {
	.slot = KEY_IF,
	.next = if_next,
	.find = if_find,
	.each = &g_if_dir,
};

static int if_link(const struct pseudo_req *rq, struct strbuf *out)
{
	struct sysfs_net_if n;
	int r = get_if(rq, &n);

	if (!r)
		strbuf_printf(out, "../../devices/virtual/net/%s", n.name);
	return r;
}

static const struct pseudo_desc g_if_link = {
	.name = "if",
	.mode = S_IFLNK | 0777,
	.readlink = if_link,
};

const struct pseudo_dyn g_sysfs_class_net_dyn = {
	.slot = KEY_IF,
	.next = if_next,
	.find = if_find,
	.each = &g_if_link,
};
