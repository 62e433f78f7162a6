/* SPDX-License-Identifier: Apache-2.0 */
/* proc over a made-up task source: lookup, listing, formats, rights, settings. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "vfs/proc/proc.h"
#include "vfs/vfs.h"

/* Process 1 (the caller) with threads 1 and 5, process 42 that others may not look into. */
struct task {
	int tgid, tid, refs, alive, access;
	uint32_t uid;
	int64_t adj;
	char comm[PROC_COMM_SIZE];
};
static struct task g_tasks[] = {
	{ .tgid = 1, .tid = 1, .alive = 1, .comm = "init" },
	{ .tgid = 1, .tid = 5, .alive = 1, .comm = "worker" },
	{ .tgid = 42, .tid = 42, .alive = 1, .access = -EPERM, .uid = 1000, .comm = "a b)\n" },
};
#define TASKS (sizeof(g_tasks) / sizeof(g_tasks[0]))

static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct mount *g_mnt;
static struct mnt_ns *g_ns;
static char g_host[PROC_UTS_SIZE] = "box";
static uint8_t g_mem[16] = "0123456789abcde";

static void *hold(struct task *t)
{
	t->refs++;
	return t;
}

static void *task_find(const struct proc_source *ps, void *ns, int pid)
{
	for (size_t i = 0; i < TASKS; i++)
		if (g_tasks[i].tid == pid && g_tasks[i].alive)
			return hold(&g_tasks[i]);
	return NULL;
}

static void *thread_find(const struct proc_source *ps, void *ns, void *task, int tid)
{
	for (size_t i = 0; i < TASKS; i++)
		if (g_tasks[i].tid == tid && g_tasks[i].tgid == ((struct task *)task)->tgid)
			return hold(&g_tasks[i]);
	return NULL;
}

static int pid_next(const struct proc_source *ps, void *ns, int from)
{
	for (size_t i = 0; i < TASKS; i++)
		if (g_tasks[i].tid == g_tasks[i].tgid && g_tasks[i].tgid >= from && g_tasks[i].alive)
			return g_tasks[i].tgid;
	return 0;
}

static int tid_next(const struct proc_source *ps, void *ns, void *task, int from)
{
	for (size_t i = 0; i < TASKS; i++)
		if (g_tasks[i].tgid == ((struct task *)task)->tgid && g_tasks[i].tid >= from)
			return g_tasks[i].tid;
	return 0;
}

static void *task_current(const struct proc_source *ps)
{
	return hold(&g_tasks[1]);
}

static void task_get(const struct proc_source *ps, void *task)
{
	hold(task);
}

static void task_put(const struct proc_source *ps, void *task)
{
	ck_assert_int_gt(((struct task *)task)->refs--, 0);
}

static int task_alive(const struct proc_source *ps, void *task)
{
	return ((struct task *)task)->alive;
}

static int task_ids(const struct proc_source *ps, void *ns, void *task, int *tgid, int *tid)
{
	*tgid = ((struct task *)task)->tgid;
	*tid = ((struct task *)task)->tid;
	return 0;
}

static int task_owner(const struct proc_source *ps, void *task, int always, uint32_t *uid,
		      uint32_t *gid)
{
	struct task *t = task;

	if (!t->alive)
		return -ESRCH;
	*uid = *gid = t->uid;
	return 0;
}

static int task_info(const struct proc_source *ps, void *ns, void *task, int whole,
		     struct proc_task_info *ti)
{
	struct task *t = task;

	if (!t->alive)
		return -ESRCH;
	memcpy(ti->comm, t->comm, PROC_COMM_SIZE);
	ti->state = 'S';
	ti->pid = t->tid;
	ti->tgid = t->tgid;
	ti->pgrp = ti->session = 1;
	ti->tpgid = -1;
	ti->exit_signal = 17;
	ti->num_threads = 2;
	ti->start_ns = 1230000000;
	ti->utime_ns = 50000000;
	ti->has_mm = 1;
	ti->vm_size = 8192;
	ti->rss_anon = 4096;
	ti->rss_limit = UINT64_MAX;
	ti->start_code = 0x1000;
	ti->cpus_allowed[0] = 3;
	ti->umask = 022;
	ti->fd_table_size = 64;
	ti->cred = cred_get(g_ctx.cred);
	return 0;
}

static int may_access(const struct proc_source *ps, void *task, int mode)
{
	return ((struct task *)task)->access;
}

static int text(const struct proc_source *ps, void *task, enum proc_text what, struct strbuf *out)
{
	if (what == PROC_TEXT_CMDLINE)
		strbuf_add(out, "a\0b", 4);
	else
		strbuf_printf(out, "text%d\n", (int)what);
	return 0;
}

static int rlimits(const struct proc_source *ps, void *task, struct proc_rlimit out[PROC_RLIMITS])
{
	for (int i = 0; i < PROC_RLIMITS; i++)
		out[i] = (struct proc_rlimit){ (uint64_t)i, UINT64_MAX };
	return 0;
}

static int number_get(const struct proc_source *ps, void *task, enum proc_number what, int64_t *out)
{
	*out = what == PROC_OOM_SCORE_ADJ ? ((struct task *)task)->adj : 1;
	return what == PROC_SCHED_AUTOGROUP ? -ENOENT : 0;
}

static int number_set(const struct proc_source *ps, void *task, enum proc_number what, int64_t val)
{
	((struct task *)task)->adj = val;
	return 0;
}

static ssize_t mem_rw(const struct proc_source *ps, void *task, struct uio *u, uint64_t addr,
		      int write)
{
	if (addr >= sizeof(g_mem))
		return 0;
	return write ? uio_copy_in(u, g_mem + addr, sizeof(g_mem) - addr)
		     : uio_copy_out(u, g_mem + addr, sizeof(g_mem) - addr);
}

static int fd_next(const struct proc_source *ps, void *task, int from)
{
	return from <= 3 ? 3 : from <= 7 ? 7 : -1;
}

static struct file *g_file;
static int fd_mode(const struct proc_source *ps, void *task, int fd, uint32_t *fmode)
{
	*fmode = FMODE_READ;
	return fd == 3 || fd == 7 ? 0 : -ENOENT;
}

static struct file *fd_get(const struct proc_source *ps, void *task, int fd, int *cloexec)
{
	if (cloexec)
		*cloexec = fd == 7;
	return fd == 3 || fd == 7 ? file_get(g_file) : NULL;
}

static int link_path(const struct proc_source *ps, void *task, enum proc_link which,
		     struct path *out)
{
	*out = path_get(g_ctx.root);
	return 0;
}

static int ns_inum(const struct proc_source *ps, void *task, enum proc_ns which, uint64_t *inum)
{
	*inum = 4026531835u + which;
	return 0;
}

static struct mnt_ns *mnt_ns_of(const struct proc_source *ps, void *task, struct path *root)
{
	*root = path_get(g_ctx.root);
	return mnt_ns_get(g_ns);
}

static void meminfo(const struct proc_source *ps, struct proc_meminfo *m)
{
	m->total = 1u << 30;
	m->free = 1u << 29;
}

static void system_info(const struct proc_source *ps, struct proc_system *s)
{
	s->uptime_ns = 12345678900;
	s->boot_time = 1000;
	s->threads = 3;
	s->running = 1;
	s->last_pid = 42;
	s->load[0] = 65536 / 2;
}

static void cpu_times(const struct proc_source *ps, uint32_t cpu, struct proc_cpu_times *t)
{
	t->user_ns = 10000000 * (cpu + 1);
}

static void uts_get(const struct proc_source *ps, enum proc_uts which, char out[PROC_UTS_SIZE])
{
	strcpy(out, g_host);
}

static int uts_set(const struct proc_source *ps, enum proc_uts which, const char *val)
{
	strcpy(g_host, val);
	return 0;
}

static int net_show(const struct proc_net_source *ns, void *task, const char *name,
		    struct strbuf *out)
{
	if (strcmp(name, "tcp"))
		return -ENOENT;
	if (out)
		strbuf_puts(out, "  sl\n");
	return 0;
}

static struct proc_source g_src = {
	.release = "6.12.0-test",
	.version = "#1 SMP",
	.cmdline = "",
	.boot_id = "00000000-0000-4000-8000-000000000000",
	.cpu_count = 2,
	.task_find = task_find,
	.thread_find = thread_find,
	.pid_next = pid_next,
	.tid_next = tid_next,
	.task_current = task_current,
	.task_get = task_get,
	.task_put = task_put,
	.task_alive = task_alive,
	.task_ids = task_ids,
	.task_owner = task_owner,
	.task_info = task_info,
	.may_access = may_access,
	.text = text,
	.rlimits = rlimits,
	.number_get = number_get,
	.number_set = number_set,
	.mem_rw = mem_rw,
	.fd_next = fd_next,
	.fd_mode = fd_mode,
	.fd_get = fd_get,
	.link_path = link_path,
	.ns_inum = ns_inum,
	.mnt_ns = mnt_ns_of,
	.meminfo = meminfo,
	.system = system_info,
	.cpu_times = cpu_times,
	.uts_get = uts_get,
	.uts_set = uts_set,
};
static const struct proc_net_source g_net = { .show = net_show };

static struct file *open_at(const char *path, int flags)
{
	struct open_how_k how = { .flags = (uint64_t)flags };

	return vfs_open(&g_ctx, NULL, path, &how);
}

static const char *get(const char *path)
{
	static char buf[65536];
	struct file *f = open_at(path, O_RDONLY);

	if (IS_ERR(f)) {
		snprintf(buf, sizeof(buf), "open:%ld", PTR_ERR(f));
		return buf;
	}
	ssize_t n = file_kread(f, buf, sizeof(buf) - 1, 0);

	if (n < 0)
		snprintf(buf, sizeof(buf), "read:%zd", n);
	else
		buf[n] = 0;
	file_put(f);
	return buf;
}

static ssize_t put(const char *path, const char *s)
{
	struct file *f = open_at(path, O_WRONLY | O_TRUNC);
	struct uio u;

	if (IS_ERR(f))
		return PTR_ERR(f);
	uio_init_kernel(&u, (void *)(uintptr_t)s, strlen(s));
	ssize_t n = file_write(f, &u, UINT64_MAX);

	file_put(f);
	return n;
}

static const char *link_of(const char *path)
{
	static char buf[512];
	struct path p;
	ssize_t n = vfs_lookup(&g_ctx, NULL, path, 0, &p);

	if (!n) {
		n = vfs_readlink(&g_ctx, p, buf, sizeof(buf) - 1);
		path_put(p);
	}
	if (n < 0)
		snprintf(buf, sizeof(buf), "err:%zd", n);
	else
		buf[n] = 0;
	return buf;
}

struct names {
	struct dir_emit de;
	char text[8192];
};

static int names_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t ino, uint8_t type)
{
	struct names *n = container_of(de, struct names, de);

	strncat(n->text, name, len);
	strcat(n->text, " ");
	return 1;
}

static const char *list_dir(const char *path)
{
	static struct names n;
	struct file *f = open_at(path, O_RDONLY | O_DIRECTORY);

	ck_assert_msg(!IS_ERR(f), "%s: %ld", path, PTR_ERR(f));
	memset(&n, 0, sizeof(n));
	n.de.emit = names_emit;
	ck_assert_int_eq(file_iterate(f, &n.de), 0);
	file_put(f);
	return n.text;
}

static void setup(void)
{
	hash_seed(1);
	g_vfs = vfs_new();
	g_src.vfs = g_vfs;
	proc_set_source(&g_src);
	proc_set_net_source(&g_net);
	g_ctx.vfs = g_vfs;
	g_ctx.cred = cred_new(0, 0, CAP_ALL_MASK);
	struct superblock *sb = g_proc_type.mount(g_vfs, "proc", 0, "", NULL);

	ck_assert(!IS_ERR(sb));
	g_mnt = mount_new(sb, 0);
	g_ns = mnt_ns_new(g_vfs, mount_get(g_mnt));
	g_ctx.root = g_ctx.cwd = (struct path){ g_mnt, g_mnt->root };
	g_ctx.ns = g_ns;
	g_file = open_at("/uptime", O_RDONLY);
	ck_assert(!IS_ERR(g_file));
}

static void teardown(void)
{
	file_put(g_file);
	mount_put(g_mnt);
	mnt_ns_put(g_ns);
	for (size_t i = 0; i < TASKS; i++)
		ck_assert_int_eq(g_tasks[i].refs, 0);
	cred_put(g_ctx.cred);
	vfs_destroy(g_vfs);
}

START_TEST(system_files)
{
	ck_assert_str_eq(get("/uptime"), "12.34 0.00\n");
	ck_assert_str_eq(get("/loadavg"), "0.50 0.00 0.00 1/3 42\n");
	ck_assert_ptr_nonnull(strstr(get("/meminfo"), "MemTotal:        1048576 kB\n"));
	ck_assert_ptr_nonnull(strstr(get("/stat"), "cpu  3 0 0 0 0 0 0 0 0 0\ncpu0 1 "));
	ck_assert_ptr_nonnull(strstr(get("/version"), "Linux version 6.12.0-test "));
	ck_assert_ptr_nonnull(strstr(get("/cpuinfo"), "processor\t: 1\n"));
	ck_assert_ptr_nonnull(strstr(get("/filesystems"), "nodev\tproc\n"));
	ck_assert_str_eq(get("/modules"), "");
	ck_assert_str_eq(get("/kallsyms"), "open:-1");
	ck_assert_str_eq(get("/nonsense"), "open:-2");
	ck_assert_str_eq(link_of("/self"), "1");
	ck_assert_str_eq(link_of("/thread-self"), "1/task/5");
	ck_assert_ptr_nonnull(strstr(get("/mounts"), "proc / proc "));
	ck_assert_ptr_nonnull(strstr(list_dir("/"), "self thread-self 1 42 "));
	ck_assert_str_eq(get("/net/tcp"), "  sl\n");
	ck_assert_str_eq(get("/net/udp"), "open:-2");
}
END_TEST

START_TEST(process_files)
{
	ck_assert_str_eq(get("/1/comm"), "init\n");
	ck_assert_str_eq(get("/1/task/5/comm"), "worker\n");
	ck_assert_str_eq(get("/5/comm"), "worker\n");
	ck_assert_str_eq(get("/01/comm"), "open:-2");
	ck_assert_str_eq(get("/1/task/42/comm"), "open:-2");
	ck_assert_str_eq(list_dir("/1/task"), ". .. 1 5 ");
	ck_assert_str_eq(get("/1/stat"),
			 "1 (init) S 0 1 1 0 -1 0 0 0 0 0 5 0 0 0 20 0 2 0 123 8192 1 "
			 "18446744073709551615 4096 0 0 0 0 0 0 0 0 1 0 0 17 0 0 0 0 0 0 0 0 0 0 0 "
			 "0 0 0\n");
	ck_assert_ptr_nonnull(strstr(get("/42/stat"), "42 (a b)\\n) S "));
	ck_assert_str_eq(get("/1/statm"), "2 1 0 0 0 0 0\n");
	const char *st = get("/self/status");

	ck_assert_ptr_nonnull(strstr(st, "Name:\tinit\nUmask:\t0022\nState:\tS (sleeping)\n"));
	ck_assert_ptr_nonnull(strstr(st, "Groups:\t \nNStgid:\t1\n"));
	ck_assert_ptr_nonnull(strstr(st, "Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"));
	ck_assert_ptr_nonnull(strstr(get("/1/limits"), "Max open files            7  "));
	ck_assert_str_eq(get("/1/maps"), "text0\n");
	ck_assert_str_eq(get("/42/maps"), "open:-13");
	ck_assert_str_eq(get("/42/syscall"), "read:-1");
	ck_assert_str_eq(get("/1/pagemap"), "open:-1");
	ck_assert_int_eq(put("/1/oom_score_adj", "500\n"), 4);
	ck_assert_str_eq(get("/1/oom_score_adj"), "500\n");
	ck_assert_int_eq(put("/1/oom_score_adj", "1001"), -EINVAL);
	ck_assert_int_eq(put("/1/oom_score_adj", "x"), -EINVAL);
}
END_TEST

START_TEST(links_and_fds)
{
	struct linux_stat st;
	struct path p;

	ck_assert_str_eq(list_dir("/1/fd"), ". .. 3 7 ");
	ck_assert_str_eq(link_of("/1/fd/3"), "/uptime");
	ck_assert_str_eq(link_of("/1/fd/4"), "err:-2");
	ck_assert_str_eq(link_of("/42/fd/3"), "err:-13");
	ck_assert_str_eq(get("/1/fd/3"), "12.34 0.00\n");
	ck_assert_ptr_nonnull(strstr(get("/1/fdinfo/7"), "pos:\t0\nflags:\t02000000\nmnt_id:\t"));
	ck_assert_str_eq(link_of("/1/cwd"), "/");
	ck_assert_str_eq(link_of("/1/ns/mnt"), "mnt:[4026531837]");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/42", 0, &p), 0);
	ck_assert_int_eq(vfs_getattr(p, &st), 0);
	ck_assert_uint_eq(st.uid, 1000);
	path_put(p);
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/1/fd/3", 0, &p), 0);
	ck_assert_int_eq(vfs_getattr(p, &st), 0);
	ck_assert_uint_eq(st.mode, S_IFLNK | 0500);
	path_put(p);
}
END_TEST

START_TEST(exited_process)
{
	struct file *f = open_at("/42/comm", O_RDONLY);
	char buf[16];

	ck_assert(!IS_ERR(f));
	g_tasks[2].alive = 0;
	ck_assert_int_eq(file_kread(f, buf, sizeof(buf), 0), -ESRCH);
	file_put(f);
	ck_assert_str_eq(get("/42/comm"), "open:-2");
	ck_assert_ptr_null(strstr(list_dir("/"), " 42 "));
	g_tasks[2].alive = 1;
}
END_TEST

START_TEST(memory_file)
{
	struct file *f = open_at("/1/mem", O_RDWR);
	char buf[4];

	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(file_kread(f, buf, 4, 10), 4);
	ck_assert_int_eq(memcmp(buf, "abcd", 4), 0);
	ck_assert_int_eq(file_kread(f, buf, 4, 1 << 20), -EIO);
	file_put(f);
	ck_assert_int_eq(PTR_ERR(open_at("/42/mem", O_RDONLY)), -EACCES);
}
END_TEST

START_TEST(settings)
{
	int64_t v[4];

	ck_assert_str_eq(get("/sys/kernel/pid_max"), "4194304\n");
	ck_assert_str_eq(get("/sys/kernel/sem"), "32000\t1024000000\t500\t32000\n");
	ck_assert_str_eq(get("/sys/kernel/shmmax"), "18446744073692774399\n");
	ck_assert_int_eq(put("/sys/kernel/pid_max", "32768\n"), 6);
	ck_assert_str_eq(get("/sys/kernel/pid_max"), "32768\n");
	ck_assert_int_eq(proc_sysctl_value("kernel.pid_max", v, 1), 0);
	ck_assert_int_eq(v[0], 32768);
	ck_assert_int_eq(put("/sys/kernel/pid_max", "5"), -EINVAL);
	ck_assert_int_eq(put("/sys/kernel/pid_max", "99999999999999999999"), -EINVAL);
	ck_assert_int_eq(put("/sys/kernel/sem", "1 2"), 3);
	ck_assert_str_eq(get("/sys/kernel/sem"), "1\t2\t500\t32000\n");
	ck_assert_int_eq(put("/sys/kernel/sem", "1 2 3 4 5"), -EINVAL);
	ck_assert_int_eq(put("/sys/kernel/ngroups_max", "1"), -EACCES);
	ck_assert_int_eq(put("/sys/kernel/hostname", "other\n"), 6);
	ck_assert_str_eq(get("/sys/kernel/hostname"), "other\n");
	ck_assert_str_eq(get("/sys/kernel/osrelease"), "6.12.0-test\n");
	ck_assert_str_eq(get("/sys/net/ipv4/conf/all/rp_filter"), "0\n");
	ck_assert_str_eq(get("/sys/net/core/somaxconn"), "4096\n");
	ck_assert_str_eq(list_dir("/sys/fs/epoll"), ". .. max_user_watches ");
	ck_assert_int_eq(strlen(get("/sys/kernel/random/uuid")), 37);
	ck_assert_str_eq(get("/sys/vm/drop_caches"), "open:-13");
	ck_assert_int_eq(proc_sysctl_set_text("net.core.somaxconn", "77"), 0);
	ck_assert_str_eq(get("/sys/net/core/somaxconn"), "77\n");
	ck_assert_int_eq(proc_sysctl_set_text("kernel.core_pattern", "a\nb\nkernel.x=1"), -EINVAL);
	ck_assert_int_eq(proc_sysctl_set_text("kernel.nothing", "1"), -ENOENT);
	ck_assert_int_eq(PTR_ERR(open_at("/sys/kernel", O_WRONLY)), -EISDIR);
}
END_TEST

START_TEST(seq_positions)
{
	struct file *f = open_at("/uptime", O_RDONLY);
	char buf[16];

	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(file_kread(f, buf, 4, 3), 4);
	ck_assert_int_eq(memcmp(buf, "34 0", 4), 0);
	ck_assert_int_eq(file_kread(f, buf, 4, 100), 0);
	ck_assert_int_eq(file_llseek(f, 0, SEEK_END), -EINVAL);
	ck_assert_int_eq(file_llseek(f, 6, SEEK_SET), 6);
	file_put(f);
}
END_TEST

START_TEST(hidepid)
{
	struct superblock *sb = g_proc_type.mount(g_vfs, "proc", 0, "hidepid=4", NULL);

	ck_assert(!IS_ERR(sb));
	struct mount *m = mount_new(sb, 0);
	struct mnt_ns *ns = mnt_ns_new(g_vfs, mount_get(m));

	g_ctx.root = g_ctx.cwd = (struct path){ m, m->root };
	ck_assert_ptr_null(strstr(list_dir("/"), " 42 "));
	ck_assert_str_eq(get("/42/stat"), "open:-2");
	ck_assert_str_eq(get("/1/comm"), "init\n");
	mount_put(m);
	mnt_ns_put(ns);
	g_ctx.root = g_ctx.cwd = (struct path){ g_mnt, g_mnt->root };
	ck_assert_int_eq(PTR_ERR(g_proc_type.mount(g_vfs, "proc", 0, "what=1", NULL)), -EINVAL);
}
END_TEST

/* Everything there is can be opened and read, or refuses with a plain error. */
START_TEST(walk_everything)
{
	static char todo[4096][160];
	size_t next = 0, count = 1, files = 0;

	strcpy(todo[0], "");
	for (; next < count; next++) {
		char dir[200], list[8192], *save = NULL;

		snprintf(dir, sizeof(dir), "%.159s/", todo[next]);
		strcpy(list, list_dir(dir));
		for (char *n = strtok_r(list, " ", &save); n; n = strtok_r(NULL, " ", &save)) {
			char path[400];
			struct linux_stat st;
			struct path p;

			if (!strcmp(n, ".") || !strcmp(n, ".."))
				continue;
			snprintf(path, sizeof(path), "%.159s/%.200s", todo[next], n);
			ck_assert_msg(!vfs_lookup(&g_ctx, NULL, path, 0, &p), "%s", path);
			ck_assert_int_eq(vfs_getattr(p, &st), 0);
			path_put(p);
			if (S_ISDIR(st.mode)) {
				ck_assert_uint_lt(count, 4096);
				ck_assert_uint_lt(strlen(path), 160);
				strcpy(todo[count++], path);
			} else if (S_ISLNK(st.mode)) {
				link_of(path);
			} else {
				get(path);
				files++;
			}
		}
	}
	ck_assert_uint_gt(files, 300);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("proc");
	TCase *tc = tcase_create("proc");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, system_files);
	tcase_add_test(tc, process_files);
	tcase_add_test(tc, links_and_fds);
	tcase_add_test(tc, exited_process);
	tcase_add_test(tc, memory_file);
	tcase_add_test(tc, settings);
	tcase_add_test(tc, seq_positions);
	tcase_add_test(tc, hidepid);
	tcase_add_test(tc, walk_everything);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
