/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of sysfs. */
#ifndef CAISSON_SYSFS_PRIV_H
#define CAISSON_SYSFS_PRIV_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/pseudo/pseudo.h"
#include "vfs/sysfs/sysfs.h"

static inline const struct sysfs_source *sysfs_ss(const struct pseudo_req *rq)
{
	return rq->fs;
}

#define RO(n, fn) { .name = (n), .mode = S_IFREG | 0444, .show = (fn) }
#define FIXED(n, text) \
	{ .name = (n), .mode = S_IFREG | 0444, .show = sysfs_show_fixed, .ptr = (text) }

int sysfs_show_fixed(const struct pseudo_req *rq, struct strbuf *out);
/* "0-3\n", "0\n" and "f\n", "ff,ffffffff\n" of the CPUs from first to last */
void sysfs_put_cpu_range(struct strbuf *out, uint32_t first, uint32_t last);
void sysfs_put_cpu_map(struct strbuf *out, uint32_t first, uint32_t last, uint32_t count);

extern const struct pseudo_desc g_sysfs_cpu_files[], g_sysfs_node_files[];
extern const struct pseudo_dyn g_sysfs_cpu_dyn, g_sysfs_net_dyn, g_sysfs_class_net_dyn;

#endif
