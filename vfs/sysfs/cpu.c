/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices/system/cpu and node: cpu_count cores of one package on one memory node, as
 * /proc/cpuinfo says too. Caches from CPUID: the last level is shared by all, others are the
 * core's own.
 */
#include <cpuid.h>

#include "vfs/sysfs/sysfs_priv.h"

#define KEY_CPU 0
#define KEY_CACHE 1
#define CACHE_MAX 8

void sysfs_put_cpu_range(struct strbuf *out, uint32_t first, uint32_t last)
{
	if (first == last)
		strbuf_printf(out, "%u\n", first);
	else
		strbuf_printf(out, "%u-%u\n", first, last);
}

void sysfs_put_cpu_map(struct strbuf *out, uint32_t first, uint32_t last, uint32_t count)
{
	for (uint32_t group = (count + 31) / 32; group-- > 0;) {
		uint32_t v = 0, width = 8;

		for (uint32_t i = group * 32; i < count && i < group * 32 + 32; i++)
			if (i >= first && i <= last)
				v |= 1u << (i % 32);
		if (group == (count + 31) / 32 - 1 && count % 32)
			width = (count % 32 + 3) / 4;
		strbuf_printf(out, "%0*x%s", (int)width, v, group ? "," : "\n");
	}
}

static int show_all_list(const struct pseudo_req *rq, struct strbuf *out)
{
	sysfs_put_cpu_range(out, 0, sysfs_ss(rq)->cpu_count - 1);
	return 0;
}

static int show_all_map(const struct pseudo_req *rq, struct strbuf *out)
{
	uint32_t n = sysfs_ss(rq)->cpu_count;

	sysfs_put_cpu_map(out, 0, n - 1, n);
	return 0;
}

static int show_own_list(const struct pseudo_req *rq, struct strbuf *out)
{
	uint32_t cpu = (uint32_t)rq->inst->key[KEY_CPU];

	sysfs_put_cpu_range(out, cpu, cpu);
	return 0;
}

static int show_own_map(const struct pseudo_req *rq, struct strbuf *out)
{
	uint32_t cpu = (uint32_t)rq->inst->key[KEY_CPU];

	sysfs_put_cpu_map(out, cpu, cpu, sysfs_ss(rq)->cpu_count);
	return 0;
}

static int show_core_id(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "%u\n", (uint32_t)rq->inst->key[KEY_CPU]);
	return 0;
}

static const struct pseudo_desc g_topology[] = {
	RO("core_cpus", show_own_map),
	RO("core_cpus_list", show_own_list),
	RO("core_id", show_core_id),
	RO("core_siblings", show_all_map),
	RO("core_siblings_list", show_all_list),
	RO("die_cpus", show_all_map),
	RO("die_cpus_list", show_all_list),
	FIXED("die_id", "0\n"),
	RO("package_cpus", show_all_map),
	RO("package_cpus_list", show_all_list),
	FIXED("physical_package_id", "0\n"),
	RO("thread_siblings", show_own_map),
	RO("thread_siblings_list", show_own_list),
	PSEUDO_END,
};

/* ---- caches ---- */

struct cache {
	uint32_t level, type, line, partitions, ways, sets;
};

/* Leaf 4 (Intel) or 0x8000001d (AMD), which have one layout. 0: no such index. */
static int cache_get(uint32_t index, struct cache *c)
{
	uint32_t a, b, cx, d, leaf = 4;

	__cpuid(0, a, b, cx, d);
	if (b == signature_AMD_ebx || b == 0x6f677948 /* Hygo */)
		leaf = 0x8000001d;
	if (index >= CACHE_MAX || !__get_cpuid_count(leaf, index, &a, &b, &cx, &d) || !(a & 31))
		return 0;
	c->type = a & 31;
	c->level = (a >> 5) & 7;
	c->line = (b & 0xfff) + 1;
	c->partitions = ((b >> 12) & 0x3ff) + 1;
	c->ways = (b >> 22) + 1;
	c->sets = cx + 1;
	return 1;
}

enum cache_field { C_LEVEL, C_TYPE, C_LINE, C_PARTITIONS, C_WAYS, C_SETS, C_SIZE, C_ID, C_MAP, C_LIST };

static int show_cache(const struct pseudo_req *rq, struct strbuf *out)
{
	static const char *const types[] = { "", "Data", "Instruction", "Unified" };
	uint32_t cpu = (uint32_t)rq->inst->key[KEY_CPU], n = sysfs_ss(rq)->cpu_count;
	struct cache c;

	if (!cache_get((uint32_t)rq->inst->key[KEY_CACHE], &c))
		return -EIO;
	int shared = c.level >= 3;

	switch ((enum cache_field)rq->desc->arg) {
	case C_LEVEL:
		strbuf_printf(out, "%u\n", c.level);
		break;
	case C_TYPE:
		strbuf_printf(out, "%s\n", c.type <= 3 ? types[c.type] : "Unified");
		break;
	case C_LINE:
		strbuf_printf(out, "%u\n", c.line);
		break;
	case C_PARTITIONS:
		strbuf_printf(out, "%u\n", c.partitions);
		break;
	case C_WAYS:
		strbuf_printf(out, "%u\n", c.ways);
		break;
	case C_SETS:
		strbuf_printf(out, "%u\n", c.sets);
		break;
	case C_SIZE:
		strbuf_printf(out, "%lluK\n",
			      (unsigned long long)c.line * c.partitions * c.ways * c.sets >> 10);
		break;
	case C_ID:
		strbuf_printf(out, "%u\n", shared ? 0 : cpu);
		break;
	case C_MAP:
		sysfs_put_cpu_map(out, shared ? 0 : cpu, shared ? n - 1 : cpu, n);
		break;
	case C_LIST:
		sysfs_put_cpu_range(out, shared ? 0 : cpu, shared ? n - 1 : cpu);
		break;
	}
	return 0;
}

#define CACHE(n, field) { .name = (n), .mode = S_IFREG | 0444, .show = show_cache, .arg = (field) }

static const struct pseudo_desc g_cache_files[] = {
	CACHE("coherency_line_size", C_LINE),
	CACHE("id", C_ID),
	CACHE("level", C_LEVEL),
	CACHE("number_of_sets", C_SETS),
	CACHE("physical_line_partition", C_PARTITIONS),
	CACHE("shared_cpu_list", C_LIST),
	CACHE("shared_cpu_map", C_MAP),
	CACHE("size", C_SIZE),
	CACHE("type", C_TYPE),
	CACHE("ways_of_associativity", C_WAYS),
	PSEUDO_END,
};

static const struct pseudo_desc g_cache_index = {
	.name = "index",
	.mode = S_IFDIR | 0755,
	.children = g_cache_files,
};

static int cache_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		      char name[PSEUDO_NAME_SIZE])
{
	struct cache c;

	if (from >= CACHE_MAX || !cache_get((uint32_t)from, &c))
		return 0;
	*key = from;
	snprintf(name, PSEUDO_NAME_SIZE, "index%u", (uint32_t)from);
	return 1;
}

static int cache_find(const struct pseudo_req *dir, const char *name, size_t len,
		      struct pseudo_inst *inst)
{
	struct cache c;
	uint64_t n;

	if (len <= 5 || memcmp(name, "index", 5) ||
	    pseudo_name_number(name + 5, len - 5, CACHE_MAX, &n) || !cache_get((uint32_t)n, &c))
		return -ENOENT;
	inst->key[KEY_CACHE] = n;
	return 0;
}

static const struct pseudo_dyn g_cache_dyn = {
	.slot = KEY_CACHE,
	.next = cache_next,
	.find = cache_find,
	.each = &g_cache_index,
};

/* ---- cpuN ---- */

/* The first CPU can not go offline and so has no such file. */
static int has_online(const struct pseudo_req *rq)
{
	return rq->inst->key[KEY_CPU] != 0;
}

static const struct pseudo_desc g_cpu_files[] = {
	{ .name = "cache", .mode = S_IFDIR | 0755, .dyn = &g_cache_dyn },
	{ .name = "online", .mode = S_IFREG | 0444, .show = sysfs_show_fixed, .ptr = "1\n",
	  .present = has_online },
	PSEUDO_DIR("topology", 0755, g_topology),
	PSEUDO_END,
};

static const struct pseudo_desc g_cpu_dir = {
	.name = "cpu",
	.mode = S_IFDIR | 0755,
	.children = g_cpu_files,
};

static int cpu_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		    char name[PSEUDO_NAME_SIZE])
{
	if (from >= sysfs_ss(dir)->cpu_count)
		return 0;
	*key = from;
	snprintf(name, PSEUDO_NAME_SIZE, "cpu%u", (uint32_t)from);
	return 1;
}

static int cpu_find(const struct pseudo_req *dir, const char *name, size_t len,
		    struct pseudo_inst *inst)
{
	uint64_t n;

	if (len <= 3 || memcmp(name, "cpu", 3) ||
	    pseudo_name_number(name + 3, len - 3, sysfs_ss(dir)->cpu_count, &n))
		return -ENOENT;
	inst->key[KEY_CPU] = n;
	return 0;
}

const struct pseudo_dyn g_sysfs_cpu_dyn = {
	.slot = KEY_CPU,
	.next = cpu_next,
	.find = cpu_find,
	.each = &g_cpu_dir,
};

static const struct pseudo_desc g_smt[] = {
	FIXED("active", "0\n"),
	FIXED("control", "notsupported\n"),
	PSEUDO_END,
};

static int show_kernel_max(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "%u\n", sysfs_ss(rq)->cpu_count - 1);
	return 0;
}

const struct pseudo_desc g_sysfs_cpu_files[] = {
	FIXED("isolated", "\n"),
	RO("kernel_max", show_kernel_max),
	FIXED("offline", "\n"),
	RO("online", show_all_list),
	RO("possible", show_all_list),
	RO("present", show_all_list),
	PSEUDO_DIR("smt", 0755, g_smt),
	PSEUDO_END,
};

/* ---- node0 ---- */

static int show_node_meminfo(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct sysfs_source *ss = sysfs_ss(rq);
	uint64_t total = 0, left = 0;

	if (ss->memory)
		ss->memory(ss, &total, &left);
	strbuf_printf(out,
		      "Node 0 MemTotal:       %llu kB\nNode 0 MemFree:        %llu kB\n"
		      "Node 0 MemUsed:        %llu kB\n",
		      (unsigned long long)total >> 10, (unsigned long long)left >> 10,
		      (unsigned long long)(total - left) >> 10);
	return 0;
}

static int node_cpu_link(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_printf(out, "../../cpu/cpu%u", (uint32_t)rq->inst->key[KEY_CPU]);
	return 0;
}

static const struct pseudo_desc g_node_cpu = {
	.name = "cpu",
	.mode = S_IFLNK | 0777,
	.readlink = node_cpu_link,
};

static const struct pseudo_dyn g_node_cpu_dyn = {
	.slot = KEY_CPU,
	.next = cpu_next,
	.find = cpu_find,
	.each = &g_node_cpu,
};

static const struct pseudo_desc g_node0[] = {
	RO("cpulist", show_all_list),
	RO("cpumap", show_all_map),
	FIXED("distance", "10\n"),
	RO("meminfo", show_node_meminfo),
	PSEUDO_END,
};

const struct pseudo_desc g_sysfs_node_files[] = {
	FIXED("has_cpu", "0\n"),
	FIXED("has_memory", "0\n"),
	FIXED("has_normal_memory", "0\n"),
	{ .name = "node0", .mode = S_IFDIR | 0755, .children = g_node0, .dyn = &g_node_cpu_dyn },
	FIXED("online", "0\n"),
	FIXED("possible", "0\n"),
	PSEUDO_END,
};
