/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sysfs a container's programs read: CPU topology and caches, the memory node, network
 * interfaces, transparent huge pages, and otherwise empty directories where programs look for
 * hardware. Nothing is read from the host's sysfs.
 */
#ifndef CAISSON_SYSFS_H
#define CAISSON_SYSFS_H

#include <stdint.h>

#include "vfs/vfs.h"

extern const struct fs_type g_sysfs_type;

#define SYSFS_IF_NAME 16
#define SYSFS_LL_ADDR 32

/* One network interface. */
struct sysfs_net_if {
	char name[SYSFS_IF_NAME];
	uint32_t flags; /* IFF_* */
	uint32_t mtu, type /* ARPHRD_* */, tx_queue_len;
	uint32_t addr_len;
	uint8_t addr[SYSFS_LL_ADDR], broadcast[SYSFS_LL_ADDR];
	uint32_t carrier;	/* 0 or 1 */
	const char *operstate;	/* "up", "down", "unknown" */
	uint64_t rx_bytes, rx_packets, rx_errors, rx_dropped, multicast;
	uint64_t tx_bytes, tx_packets, tx_errors, tx_dropped, collisions;
};

/* Filled in by the sentry and its socket layer; callbacks as in proc.h; NULL ones: there is none. */
struct sysfs_source {
	void *priv;
	uint32_t cpu_count;
	void (*memory)(const struct sysfs_source *ss, uint64_t *total, uint64_t *free);
	/* The lowest interface index >= from: 1 and *ifindex, or 0. Of the caller's namespace. */
	int (*net_next)(const struct sysfs_source *ss, uint32_t from, uint32_t *ifindex);
	/* 0 or -ENOENT. */
	int (*net_get)(const struct sysfs_source *ss, uint32_t ifindex, struct sysfs_net_if *out);
};

/* Before the first mount; borrowed for ever. Without it the figures are proc's, and there are no
 * interfaces. */
void sysfs_set_source(const struct sysfs_source *ss);

#endif
