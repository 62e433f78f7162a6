/* SPDX-License-Identifier: Apache-2.0 */
/* sysfs: what programs read of CPUs, the node and interfaces. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/base/hash.h"
#include "vfs/sysfs/sysfs.h"
#include "vfs/vfs.h"

static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct mount *g_mnt;
static struct mnt_ns *g_ns;

static void memory(const struct sysfs_source *ss, uint64_t *total, uint64_t *left)
{
	*total = 8192;
	*left = 4096;
}

static int net_next(const struct sysfs_source *ss, uint32_t from, uint32_t *ifindex)
{
	*ifindex = from <= 1 ? 1 : 4;
	return from <= 4;
}

static int net_get(const struct sysfs_source *ss, uint32_t ifindex, struct sysfs_net_if *n)
{
	strcpy(n->name, ifindex == 1 ? "lo" : "eth0");
	n->addr_len = 6;
	n->addr[5] = (uint8_t)ifindex;
	n->mtu = 1500;
	n->flags = 0x1043;
	n->carrier = 1;
	n->operstate = "up";
	n->rx_bytes = 77;
	return 0;
}

static const struct sysfs_source g_src = { .cpu_count = 34, .memory = memory,
					   .net_next = net_next, .net_get = net_get };

static const char *get(const char *path)
{
	static char buf[4096];
	struct open_how_k how = { .flags = O_RDONLY };
	struct file *f = vfs_open(&g_ctx, NULL, path, &how);
	ssize_t n;

	if (IS_ERR(f))
		return "<none>";
	n = file_kread(f, buf, sizeof(buf) - 1, 0);
	if (n < 0)
		snprintf(buf, sizeof(buf), "read:%zd", n);
	else
		buf[n] = 0;
	file_put(f);
	return buf;
}

static void setup(void)
{
	hash_seed(1);
	g_vfs = vfs_new();
	g_ctx.vfs = g_vfs;
	g_ctx.cred = cred_new(0, 0, CAP_ALL_MASK);
	sysfs_set_source(&g_src);
	struct superblock *sb = g_sysfs_type.mount(g_vfs, "sysfs", 0, "", NULL);

	ck_assert(!IS_ERR(sb));
	g_mnt = mount_new(sb, 0);
	g_ns = mnt_ns_new(g_vfs, mount_get(g_mnt));
	g_ctx.root = g_ctx.cwd = (struct path){ g_mnt, g_mnt->root };
	g_ctx.ns = g_ns;
}

static void teardown(void)
{
	mount_put(g_mnt);
	mnt_ns_put(g_ns);
	cred_put(g_ctx.cred);
	vfs_destroy(g_vfs);
}

START_TEST(cpus)
{
	ck_assert_str_eq(get("/devices/system/cpu/online"), "0-33\n");
	ck_assert_str_eq(get("/devices/system/cpu/offline"), "\n");
	ck_assert_str_eq(get("/devices/system/cpu/cpu33/topology/core_id"), "33\n");
	ck_assert_str_eq(get("/devices/system/cpu/cpu33/topology/thread_siblings"), "2,00000000\n");
	ck_assert_str_eq(get("/devices/system/cpu/cpu1/topology/core_siblings"), "3,ffffffff\n");
	ck_assert_str_eq(get("/devices/system/cpu/cpu34/topology/core_id"), "<none>");
	ck_assert_str_eq(get("/devices/system/cpu/cpu0/online"), "<none>");
	ck_assert_str_eq(get("/devices/system/cpu/cpu1/online"), "1\n");
	ck_assert_str_eq(get("/devices/system/node/node0/cpulist"), "0-33\n");
	ck_assert_str_eq(get("/devices/system/node/node0/cpu3/topology/core_id"), "3\n");
	ck_assert_ptr_nonnull(strstr(get("/devices/system/node/node0/meminfo"), "MemTotal:       8 kB"));
}
END_TEST

START_TEST(interfaces)
{
	ck_assert_str_eq(get("/class/net/eth0/address"), "00:00:00:00:00:04\n");
	ck_assert_str_eq(get("/class/net/eth0/ifindex"), "4\n");
	ck_assert_str_eq(get("/class/net/lo/mtu"), "1500\n");
	ck_assert_str_eq(get("/class/net/lo/flags"), "0x1043\n");
	ck_assert_str_eq(get("/class/net/lo/operstate"), "up\n");
	ck_assert_str_eq(get("/class/net/lo/speed"), "read:-22");
	ck_assert_str_eq(get("/class/net/lo/statistics/rx_bytes"), "77\n");
	ck_assert_str_eq(get("/class/net/wlan0/mtu"), "<none>");
}
END_TEST

START_TEST(kernel)
{
	ck_assert_str_eq(get("/kernel/mm/transparent_hugepage/enabled"), "always madvise [never]\n");
	struct linux_statfs st;
	struct linux_stat a;
	struct path p;

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/fs/cgroup", LOOKUP_DIRECTORY, &p), 0);
	ck_assert_int_eq(vfs_statfs(p, &st), 0);
	ck_assert_int_eq(st.type, 0x62656572);
	path_put(p);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/devices/system/cpu/online", 0, &p), 0);
	ck_assert_int_eq(vfs_getattr(p, &a), 0);
	ck_assert_int_eq(a.size, 4096);
	path_put(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sysfs");
	TCase *tc = tcase_create("sysfs");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, cpus);
	tcase_add_test(tc, interfaces);
	tcase_add_test(tc, kernel);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
