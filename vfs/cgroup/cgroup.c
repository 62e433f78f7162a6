/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup2 filesystem of cgroup.h: a table of files over one struct of figures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "vfs/cgroup/cgroup.h"
#include "vfs/cgroup/cgroup_priv.h"
#include "vfs/pseudo/pseudo.h"

#define CGROUP2_MAGIC 0x63677270

static const struct cgroup_source *g_source;

void cgroup_set_source(const struct cgroup_source *cs)
{
	__atomic_store_n(&g_source, cs, __ATOMIC_RELEASE);
}

static const struct cgroup_source *source_of(const struct pseudo_req *rq)
{
	return rq->fs;
}

static void get_stats(const struct pseudo_req *rq, struct cgroup_stats *st)
{
	const struct cgroup_source *cs = source_of(rq);

	memset(st, 0, sizeof(*st));
	st->memory_max = st->memory_high = st->pids_max = st->cpu_quota_us = CGROUP_MAX;
	st->cpu_weight = 100;
	st->cpu_period_us = 100000;
	cs->stats(cs, st);
}

/* One number of struct cgroup_stats: arg is its offset. */
static int show_value(const struct pseudo_req *rq, struct strbuf *out)
{
	struct cgroup_stats st;
	uint64_t v;

	get_stats(rq, &st);
	memcpy(&v, (const char *)&st + rq->desc->arg, sizeof(v));
	if (v == CGROUP_MAX)
		strbuf_puts(out, "max\n");
	else
		strbuf_printf(out, "%llu\n", (unsigned long long)v);
	return 0;
}

static int value_known(const struct pseudo_req *rq)
{
	struct cgroup_stats st;
	uint64_t v;

	get_stats(rq, &st);
	memcpy(&v, (const char *)&st + rq->desc->arg, sizeof(v));
	return v != 0;
}

static int show_fixed(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_puts(out, rq->desc->ptr);
	return 0;
}

static int show_members(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct cgroup_source *cs = source_of(rq);

	if (cs->members)
		cs->members(cs, (int)rq->desc->arg, out);
	return 0;
}

/* There is one group, so every process is in it already: moving one here changes nothing. */
static ssize_t write_members(const struct pseudo_req *rq, char *buf, size_t len)
{
	int64_t pid;
	int r = pseudo_parse_s64(buf, len, &pid);

	return r || pid < 0 ? -EINVAL : (ssize_t)len;
}

#define U(x) ((unsigned long long)(x))

static int show_memory_stat(const struct pseudo_req *rq, struct strbuf *out)
{
	struct cgroup_stats st;

	get_stats(rq, &st);
	strbuf_printf(out,
		      "anon %llu\nfile %llu\nkernel %llu\nshmem %llu\nfile_mapped 0\nfile_dirty 0\n"
		      "file_writeback 0\ninactive_anon 0\nactive_anon %llu\ninactive_file 0\n"
		      "active_file %llu\nunevictable 0\npgfault %llu\npgmajfault %llu\n",
		      U(st.memory_anon), U(st.memory_file), U(st.memory_kernel), U(st.memory_shmem),
		      U(st.memory_anon), U(st.memory_file), U(st.pgfault), U(st.pgmajfault));
	return 0;
}

static int show_memory_events(const struct pseudo_req *rq, struct strbuf *out)
{
	struct cgroup_stats st;

	get_stats(rq, &st);
	strbuf_printf(out, "low 0\nhigh 0\nmax 0\noom %llu\noom_kill %llu\noom_group_kill 0\n",
		      U(st.oom_events), U(st.oom_kills));
	return 0;
}

static int show_cpu_max(const struct pseudo_req *rq, struct strbuf *out)
{
	struct cgroup_stats st;

	get_stats(rq, &st);
	if (st.cpu_quota_us == CGROUP_MAX)
		strbuf_printf(out, "max %llu\n", U(st.cpu_period_us));
	else
		strbuf_printf(out, "%llu %llu\n", U(st.cpu_quota_us), U(st.cpu_period_us));
	return 0;
}

static int show_cpu_stat(const struct pseudo_req *rq, struct strbuf *out)
{
	struct cgroup_stats st;

	get_stats(rq, &st);
	strbuf_printf(out,
		      "usage_usec %llu\nuser_usec %llu\nsystem_usec %llu\nnr_periods %llu\n"
		      "nr_throttled %llu\nthrottled_usec %llu\nnr_bursts 0\nburst_usec 0\n",
		      U(st.cpu_usage_us), U(st.cpu_user_us), U(st.cpu_system_us), U(st.nr_periods),
		      U(st.nr_throttled), U(st.throttled_us));
	return 0;
}

static int show_cpus(const struct pseudo_req *rq, struct strbuf *out)
{
	uint32_t n = source_of(rq)->cpu_count;

	strbuf_printf(out, n > 1 ? "0-%u\n" : "%u\n", n - 1);
	return 0;
}

/* "max" or a number; memory sizes may end in K, M, G as memparse takes them. */
static int parse_limit(const char *buf, size_t len, int suffix, uint64_t *out)
{
	while (len && (buf[len - 1] == '\n' || buf[len - 1] == ' '))
		len--;
	if (len == 3 && !memcmp(buf, "max", 3)) {
		*out = CGROUP_MAX;
		return 0;
	}
	int shift = 0;
	int64_t v;

	if (suffix && len) {
		static const char units[] = "KMGT";
		const char *u = strchr(units, buf[len - 1] & ~0x20);

		if (u && buf[len - 1] > '9') {
			shift = 10 * (int)(u - units + 1);
			len--;
		}
	}
	if (pseudo_parse_s64(buf, len, &v) || v < 0 || (shift && v >> (63 - shift)))
		return -EINVAL;
	*out = (uint64_t)v << shift;
	return 0;
}

static ssize_t write_limit(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct cgroup_source *cs = source_of(rq);
	enum cgroup_limit which = (enum cgroup_limit)(uintptr_t)rq->desc->ptr;
	uint64_t v;
	int r = parse_limit(buf, len, which == CGROUP_MEMORY_MAX || which == CGROUP_MEMORY_HIGH, &v);

	if (!r && which == CGROUP_CPU_WEIGHT && (v < 1 || v > 10000))
		r = -ERANGE;
	if (!r)
		r = cs->limit_set ? cs->limit_set(cs, which, v) : -EPERM;
	return r ? r : (ssize_t)len;
}

#define VALUE(n, field) \
	{ .name = (n), .mode = S_IFREG | 0444, .show = show_value, \
	  .arg = (long)offsetof(struct cgroup_stats, field) }
#define PEAK(n, field) \
	{ .name = (n), .mode = S_IFREG | 0444, .show = show_value, .present = value_known, \
	  .arg = (long)offsetof(struct cgroup_stats, field) }
#define LIMIT(n, field, which) \
	{ .name = (n), .mode = S_IFREG | 0644, .show = show_value, .write = write_limit, \
	  .arg = (long)offsetof(struct cgroup_stats, field), .ptr = (void *)(uintptr_t)(which) }
#define FIXED(n, text) { .name = (n), .mode = S_IFREG | 0444, .show = show_fixed, .ptr = (text) }
#define MEMBERS(n, threads) \
	{ .name = (n), .mode = S_IFREG | 0644, .show = show_members, .write = write_members, \
	  .arg = (threads) }

static const struct pseudo_desc g_files[] = {
	FIXED("cgroup.controllers", "cpuset cpu memory pids\n"),
	FIXED("cgroup.events", "populated 1\nfrozen 0\n"),
	FIXED("cgroup.freeze", "0\n"),
	FIXED("cgroup.max.depth", "0\n"),
	FIXED("cgroup.max.descendants", "0\n"),
	MEMBERS("cgroup.procs", 0),
	FIXED("cgroup.stat", "nr_descendants 0\nnr_dying_descendants 0\n"),
	FIXED("cgroup.subtree_control", ""),
	MEMBERS("cgroup.threads", 1),
	FIXED("cgroup.type", "domain\n"),
	PSEUDO_FILE("cpu.max", 0444, show_cpu_max),
	PSEUDO_FILE("cpu.stat", 0444, show_cpu_stat),
	LIMIT("cpu.weight", cpu_weight, CGROUP_CPU_WEIGHT),
	FIXED("cpuset.cpus", "\n"),
	PSEUDO_FILE("cpuset.cpus.effective", 0444, show_cpus),
	FIXED("cpuset.mems", "\n"),
	FIXED("cpuset.mems.effective", "0\n"),
	VALUE("memory.current", memory_current),
	PSEUDO_FILE("memory.events", 0444, show_memory_events),
	PSEUDO_FILE("memory.events.local", 0444, show_memory_events),
	LIMIT("memory.high", memory_high, CGROUP_MEMORY_HIGH),
	FIXED("memory.low", "0\n"),
	LIMIT("memory.max", memory_max, CGROUP_MEMORY_MAX),
	FIXED("memory.min", "0\n"),
	FIXED("memory.oom.group", "0\n"),
	PEAK("memory.peak", memory_peak),
	PSEUDO_FILE("memory.stat", 0444, show_memory_stat),
	FIXED("memory.swap.current", "0\n"),
	FIXED("memory.swap.max", "0\n"),
	VALUE("pids.current", pids_current),
	FIXED("pids.events", "max 0\n"),
	LIMIT("pids.max", pids_max, CGROUP_PIDS_MAX),
	PEAK("pids.peak", pids_peak),
	PSEUDO_END,
};

static const struct pseudo_desc g_root = {
	.name = "/",
	.mode = S_IFDIR | 0755,
	.children = g_files,
};

static const struct pseudo_fs g_cgroup_fs = {
	.magic = CGROUP2_MAGIC,
	.root = &g_root,
};

static struct superblock *cgroup_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				       const char *options, const void *boot)
{
	static const char *const known[] = { "nsdelegate", "favordynmods", "memory_localevents",
					     "memory_recursiveprot" };
	const struct cgroup_source *cs = __atomic_load_n(&g_source, __ATOMIC_ACQUIRE);
	const char *pos = options ? options : "";
	char key[32], val[32];
	int r;

	if (!cs)
		cs = cgroup_source_of_proc();
	if (!cs)
		return ERR_PTR(-ENODEV);
	while ((r = mount_option_next(&pos, key, sizeof(key), val, sizeof(val))) > 0) {
		size_t i = 0;

		while (i < sizeof(known) / sizeof(known[0]) && strcmp(key, known[i]))
			i++;
		if (i == sizeof(known) / sizeof(known[0]))
			return ERR_PTR(-EINVAL);
	}
	if (r < 0)
		return ERR_PTR(r);
	return pseudo_mount(vfs, &g_cgroup2_type, source, sb_flags, &g_cgroup_fs,
			    (void *)(uintptr_t)cs, NULL);
}

const struct fs_type g_cgroup2_type = {
	.name = "cgroup2",
	.mount = cgroup_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
