/* SPDX-License-Identifier: Apache-2.0 */
/* The sysfs tree's top, and mounting it. CPUs and nodes: cpu.c; interfaces: net.c. */
#include <stdlib.h>

#include "vfs/proc/proc.h"
#include "vfs/sysfs/sysfs_priv.h"

#define SYSFS_MAGIC 0x62656572

static const struct sysfs_source *g_source;

void sysfs_set_source(const struct sysfs_source *ss)
{
	__atomic_store_n(&g_source, ss, __ATOMIC_RELEASE);
}

int sysfs_show_fixed(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_puts(out, rq->desc->ptr);
	return 0;
}

/* Huge pages are the host's to give; the guest can not ask for them. */
static const struct pseudo_desc g_khugepaged[] = {
	FIXED("defrag", "0\n"),
	PSEUDO_END,
};

static const struct pseudo_desc g_thp[] = {
	FIXED("defrag", "always defer defer+madvise madvise [never]\n"),
	FIXED("enabled", "always madvise [never]\n"),
	FIXED("hpage_pmd_size", "2097152\n"),
	FIXED("shmem_enabled", "always within_size advise [never] deny force\n"),
	FIXED("use_zero_page", "0\n"),
	PSEUDO_DIR("khugepaged", 0755, g_khugepaged),
	PSEUDO_END,
};

static const struct pseudo_desc g_hugepages_2m[] = {
	FIXED("free_hugepages", "0\n"),	    FIXED("nr_hugepages", "0\n"),
	FIXED("nr_overcommit_hugepages", "0\n"), FIXED("resv_hugepages", "0\n"),
	FIXED("surplus_hugepages", "0\n"),  PSEUDO_END,
};

static const struct pseudo_desc g_hugepages[] = {
	PSEUDO_DIR("hugepages-2048kB", 0755, g_hugepages_2m),
	PSEUDO_END,
};

static const struct pseudo_desc g_mm[] = {
	PSEUDO_DIR("hugepages", 0755, g_hugepages),
	PSEUDO_DIR("transparent_hugepage", 0755, g_thp),
	PSEUDO_END,
};

static const struct pseudo_desc g_kernel[] = {
	FIXED("address_bits", "64\n"),
	FIXED("cpu_byteorder", "little\n"),
	PSEUDO_DIR("debug", 0700, NULL),
	PSEUDO_DIR("mm", 0755, g_mm),
	FIXED("profiling", "0\n"),
	PSEUDO_DIR("security", 0755, NULL),
	PSEUDO_DIR("tracing", 0700, NULL),
	PSEUDO_END,
};

static const struct pseudo_desc g_cgroup_features[] = { PSEUDO_END };

static const struct pseudo_desc g_fs[] = {
	PSEUDO_DIR("bpf", 0755, NULL),
	PSEUDO_DIR("cgroup", 0755, g_cgroup_features), /* where cgroup2 is mounted */
	PSEUDO_END,
};

static const struct pseudo_desc g_system[] = {
	{ .name = "cpu", .mode = S_IFDIR | 0755, .children = g_sysfs_cpu_files,
	  .dyn = &g_sysfs_cpu_dyn },
	PSEUDO_DIR("node", 0755, g_sysfs_node_files),
	PSEUDO_END,
};

static const struct pseudo_desc g_virtual[] = {
	{ .name = "net", .mode = S_IFDIR | 0755, .dyn = &g_sysfs_net_dyn },
	PSEUDO_END,
};

static const struct pseudo_desc g_devices[] = {
	PSEUDO_DIR("system", 0755, g_system),
	PSEUDO_DIR("virtual", 0755, g_virtual),
	PSEUDO_END,
};

static const struct pseudo_desc g_class[] = {
	PSEUDO_DIR("block", 0755, NULL),
	{ .name = "net", .mode = S_IFDIR | 0755, .dyn = &g_sysfs_class_net_dyn },
	PSEUDO_END,
};

static const struct pseudo_desc g_dev[] = {
	PSEUDO_DIR("block", 0755, NULL),
	PSEUDO_DIR("char", 0755, NULL),
	PSEUDO_END,
};

static const struct pseudo_desc g_bus_cpu[] = { PSEUDO_DIR("devices", 0755, NULL), PSEUDO_END };
static const struct pseudo_desc g_bus[] = { PSEUDO_DIR("cpu", 0755, g_bus_cpu), PSEUDO_END };

static const struct pseudo_desc g_top[] = {
	PSEUDO_DIR("block", 0755, NULL),     PSEUDO_DIR("bus", 0755, g_bus),
	PSEUDO_DIR("class", 0755, g_class),  PSEUDO_DIR("dev", 0755, g_dev),
	PSEUDO_DIR("devices", 0755, g_devices), PSEUDO_DIR("firmware", 0755, NULL),
	PSEUDO_DIR("fs", 0755, g_fs),	     PSEUDO_DIR("kernel", 0755, g_kernel),
	PSEUDO_DIR("module", 0755, NULL),    PSEUDO_DIR("power", 0755, NULL),
	PSEUDO_END,
};

static const struct pseudo_desc g_root = {
	.name = "/",
	.mode = S_IFDIR | 0555,
	.children = g_top,
};

static void sysfs_destroy(void *priv, void *sb_data)
{
	free(sb_data);
}

static const struct pseudo_fs g_sysfs = {
	.magic = SYSFS_MAGIC,
	.file_size = 4096,
	.sb_flags = SB_NOCACHE_NEGATIVE,
	.root = &g_root,
	.destroy = sysfs_destroy,
};

static void memory_of_proc(const struct sysfs_source *ss, uint64_t *total, uint64_t *left)
{
	const struct proc_source *ps = proc_get_source();
	struct proc_meminfo m = { .total = 0 };

	if (ps->meminfo)
		ps->meminfo(ps, &m);
	*total = m.total;
	*left = m.free;
}

/* What is mounted when nobody set a source; freed with the superblock. */
static struct sysfs_source *source_of_proc(void)
{
	const struct proc_source *ps = proc_get_source();
	struct sysfs_source *ss = ps && ps->cpu_count ? calloc(1, sizeof(*ss)) : NULL;

	if (ss) {
		ss->cpu_count = ps->cpu_count;
		ss->memory = memory_of_proc;
	}
	return ss;
}

static struct superblock *sysfs_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				      const char *options, const void *boot)
{
	const struct sysfs_source *ss = __atomic_load_n(&g_source, __ATOMIC_ACQUIRE);

	struct sysfs_source *own = NULL;

	if (options && options[0])
		return ERR_PTR(-EINVAL);
	if (!ss)
		ss = own = source_of_proc();
	if (!ss)
		return ERR_PTR(-ENODEV);
	struct superblock *sb = pseudo_mount(vfs, &g_sysfs_type, source, sb_flags, &g_sysfs,
					     (void *)(uintptr_t)ss, own);

	if (IS_ERR(sb))
		free(own);
	return sb;
}

const struct fs_type g_sysfs_type = {
	.name = "sysfs",
	.mount = sysfs_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
