/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a process and of each of its threads: which files there are, who may see them.
 * The files themselves: task_stat.c, task_ctl.c, task_links.c.
 */
#include <errno.h>

#include "vfs/proc/proc_priv.h"

int proc_may_access(const struct pseudo_req *rq, int mode)
{
	const struct proc_source *ps = proc_ps(rq);

	return ps->may_access(ps, rq->inst->obj, mode) ? -EACCES : 0;
}

/* hidepid: processes the caller could not trace are closed (1), unseen (2), or both (4). */
int proc_hidden(const struct pseudo_req *rq, void *task)
{
	const struct proc_source *ps = proc_ps(rq);
	const struct proc_mount *pm = proc_mnt(rq);

	if (!pm->hidepid)
		return 0;
	void *me = ps->task_current(ps);
	struct proc_task_info *ti = me ? calloc(1, sizeof(*ti)) : NULL;
	int exempt = 0;

	if (ti && pm->hidepid != 4 && !ps->task_info(ps, pm->ns, me, 0, ti) && ti->cred) {
		exempt = cred_in_egroup(ti->cred, pm->gid);
		cred_put(ti->cred);
	}
	free(ti);
	if (me)
		ps->task_put(ps, me);
	return !exempt && ps->may_access(ps, task, PROC_ACCESS_READ) != 0;
}

static int show_text(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);

	return ps->text(ps, rq->inst->obj, (enum proc_text)rq->desc->arg, out);
}

/* Contents of memory and what is in it: for those who may ptrace, decided at open. */
static int open_traced(const struct pseudo_req *rq, struct file *f, void **data)
{
	return proc_may_access(rq, PROC_ACCESS_READ);
}

/* syscall and friends: at each read, as Linux's lock_trace does, with the stronger mode. */
static int show_traced_text(const struct pseudo_req *rq, struct strbuf *out)
{
	int r = proc_may_access(rq, PROC_ACCESS_ATTACH);

	return r ? -EPERM : show_text(rq, out);
}

static int show_wchan(const struct pseudo_req *rq, struct strbuf *out)
{
	if (proc_may_access(rq, PROC_ACCESS_READ)) {
		strbuf_putc(out, '0');
		return 0;
	}
	return show_text(rq, out);
}

/* Physical addresses and kernel stacks do not exist for a guest. */
static int refuse_open(const struct pseudo_req *rq, struct file *f, void **data)
{
	return -EPERM;
}

static int timens_show(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_puts(out, "monotonic           0         0\nboottime            0         0\n");
	return 0;
}

static int cpuset_show(const struct pseudo_req *rq, struct strbuf *out)
{
	strbuf_puts(out, "/\n");
	return 0;
}

/* oom_adj is the old scale of oom_score_adj: -17 … 15. */
static int oom_adj_show(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	int64_t v = 0;
	int r = ps->number_get(ps, rq->inst->obj, PROC_OOM_SCORE_ADJ, &v);

	if (!r)
		strbuf_printf(out, "%lld\n", (long long)(v == 1000 ? 15 : v * 17 / 1000));
	return r;
}

static ssize_t oom_adj_write(const struct pseudo_req *rq, char *buf, size_t len)
{
	const struct proc_source *ps = proc_ps(rq);
	int64_t v;
	int r = pseudo_parse_s64(buf, len, &v);

	if (!r && (v < -17 || v > 15))
		r = -EINVAL;
	if (!r)
		r = ps->number_set ? ps->number_set(ps, rq->inst->obj, PROC_OOM_SCORE_ADJ,
						    v == 15 ? 1000 : v * 1000 / 17)
				   : -EPERM;
	return r ? r : (ssize_t)len;
}

#define TEXT(n, perm, what, fn) \
	{ .name = (n), .mode = S_IFREG | (perm), .show = (fn), .arg = (what), PROC_NEEDS(text) }
#define TRACED(n, perm, what) \
	{ .name = (n), .mode = S_IFREG | (perm), .show = show_text, .open = open_traced, \
	  .arg = (what), PROC_NEEDS(text) }
#define NUMBER(n, perm, what) \
	{ .name = (n), .mode = S_IFREG | (perm), \
	  .show = ((perm) & 0444) ? proc_show_number : NULL, \
	  .write = ((perm) & 0200) ? proc_write_number : NULL, .present = proc_number_present, \
	  .arg = (what) }
#define IDMAP(n, what) \
	{ .name = (n), .mode = S_IFREG | 0644, .show = proc_show_idmap, .write = proc_write_idmap, \
	  .present = proc_idmap_present, .arg = (what) }
#define MOUNTS(n, perm, kind) \
	{ .name = (n), .mode = S_IFREG | (perm), .show = proc_mounts_show, .open = proc_mounts_open, \
	  .release = proc_mounts_release, .poll = proc_mounts_poll, .arg = (kind), \
	  PROC_NEEDS(mnt_ns) }
#define LINK(n, which) \
	{ .name = (n), .mode = S_IFLNK | 0777, .readlink = proc_link_read, \
	  .follow = proc_link_follow, .arg = (which), PROC_NEEDS(link_path) }

/* What a process directory and a thread directory have in common. */
#define COMMON_ROWS                                                                          \
	TRACED("auxv", 0400, PROC_TEXT_AUXV),                                                \
	TEXT("cgroup", 0444, PROC_TEXT_CGROUP, show_text),                                   \
	NUMBER("clear_refs", 0200, PROC_CLEAR_REFS),                                         \
	TEXT("cmdline", 0444, PROC_TEXT_CMDLINE, show_text),                                 \
	{ .name = "comm", .mode = S_IFREG | 0644, .show = proc_show_comm,                    \
	  .write = proc_write_comm },                                                        \
	NUMBER("coredump_filter", 0644, PROC_COREDUMP_FILTER),                               \
	PSEUDO_FILE("cpuset", 0444, cpuset_show),                                            \
	LINK("cwd", PROC_LINK_CWD),                                                          \
	TRACED("environ", 0400, PROC_TEXT_ENVIRON),                                          \
	LINK("exe", PROC_LINK_EXE),                                                          \
	{ .name = "fd", .mode = S_IFDIR | 0500, .dyn = &g_proc_fd_dyn,                       \
	  .permission = proc_fd_dir_permission, .attr = proc_fd_dir_attr,                    \
	  PROC_NEEDS(fd_next) },                                                             \
	{ .name = "fdinfo", .mode = S_IFDIR | 0555, .dyn = &g_proc_fdinfo_dyn,               \
	  .permission = proc_fd_dir_permission, PROC_NEEDS(fd_next) },                       \
	IDMAP("gid_map", PROC_GID_MAP),                                                      \
	{ .name = "io", .mode = S_IFREG | 0400, .show = proc_show_io, PROC_NEEDS(io) },      \
	{ .name = "limits", .mode = S_IFREG | 0444, .show = proc_show_limits,                \
	  PROC_NEEDS(rlimits) },                                                             \
	NUMBER("loginuid", 0644, PROC_LOGINUID),                                             \
	TRACED("maps", 0444, PROC_TEXT_MAPS),                                                \
	{ .name = "mem", .mode = S_IFREG | 0600, .open = proc_mem_open,                      \
	  .release = proc_mem_release, .fops = &g_proc_mem_ops, PROC_NEEDS(mem_rw) },        \
	MOUNTS("mountinfo", 0444, 1),                                                        \
	MOUNTS("mounts", 0444, 0),                                                           \
	PSEUDO_DIR("net", 0555, g_proc_net_files),                                           \
	PSEUDO_DIR("ns", 0511, g_proc_ns_links),                                             \
	{ .name = "oom_adj", .mode = S_IFREG | 0644, .show = oom_adj_show,                   \
	  .write = oom_adj_write, PROC_NEEDS(number_get) },                                  \
	NUMBER("oom_score", 0444, PROC_OOM_SCORE),                                           \
	NUMBER("oom_score_adj", 0644, PROC_OOM_SCORE_ADJ),                                   \
	{ .name = "pagemap", .mode = S_IFREG | 0400, .open = refuse_open },                  \
	NUMBER("personality", 0400, PROC_PERSONALITY),                                       \
	IDMAP("projid_map", PROC_PROJID_MAP),                                                \
	LINK("root", PROC_LINK_ROOT),                                                        \
	PSEUDO_FILE("sched", 0644, proc_show_sched),                                         \
	PSEUDO_FILE("schedstat", 0444, proc_show_schedstat),                                 \
	NUMBER("sessionid", 0444, PROC_SESSIONID),                                           \
	{ .name = "setgroups", .mode = S_IFREG | 0644, .show = proc_show_setgroups,          \
	  .write = proc_write_setgroups, .present = proc_number_present,                     \
	  .arg = PROC_SETGROUPS },                                                           \
	TRACED("smaps", 0444, PROC_TEXT_SMAPS),                                              \
	TRACED("smaps_rollup", 0444, PROC_TEXT_SMAPS_ROLLUP),                                \
	{ .name = "stack", .mode = S_IFREG | 0400, .open = refuse_open },                    \
	PSEUDO_FILE("stat", 0444, proc_show_stat),                                           \
	PSEUDO_FILE("statm", 0444, proc_show_statm),                                         \
	PSEUDO_FILE("status", 0444, proc_show_status),                                       \
	TEXT("syscall", 0400, PROC_TEXT_SYSCALL, show_traced_text),                          \
	IDMAP("uid_map", PROC_UID_MAP),                                                      \
	TEXT("wchan", 0444, PROC_TEXT_WCHAN, show_wchan)

static const struct pseudo_desc g_thread_files[] = {
	COMMON_ROWS,
	TEXT("children", 0444, PROC_TEXT_CHILDREN, show_text),
	PSEUDO_END,
};

static const struct pseudo_desc g_thread_dir = {
	.name = "tid",
	.mode = S_IFDIR | 0555,
	.children = g_thread_files,
};

static int tid_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		    char name[PSEUDO_NAME_SIZE])
{
	const struct proc_source *ps = proc_ps(dir);

	if (from >= PID_NUMBER_LIMIT)
		return 0;
	int tid = ps->tid_next(ps, proc_mnt(dir)->ns, dir->inst->obj, (int)from);

	if (tid <= 0)
		return 0;
	*key = (uint64_t)tid;
	snprintf(name, PSEUDO_NAME_SIZE, "%d", tid);
	return 1;
}

static int tid_find(const struct pseudo_req *dir, const char *name, size_t len,
		    struct pseudo_inst *inst)
{
	const struct proc_source *ps = proc_ps(dir);
	uint64_t tid;

	if (pseudo_name_number(name, len, PID_NUMBER_LIMIT, &tid) || !tid)
		return -ENOENT;
	inst->obj = ps->thread_find(ps, proc_mnt(dir)->ns, dir->inst->obj, (int)tid);
	if (!inst->obj)
		return -ENOENT;
	inst->key[KEY_TID] = tid;
	return 0;
}

static const struct pseudo_dyn g_tid_dyn = {
	.slot = KEY_TID,
	.next = tid_next,
	.find = tid_find,
	.each = &g_thread_dir,
};

static const struct pseudo_desc g_process_files[] = {
	COMMON_ROWS,
	NUMBER("autogroup", 0444, PROC_SCHED_AUTOGROUP),
	{ .name = "map_files", .mode = S_IFDIR | 0500, .dyn = &g_proc_map_files_dyn,
	  .permission = proc_fd_dir_permission, PROC_NEEDS(map_next) },
	MOUNTS("mountstats", 0400, 2),
	{ .name = "task", .mode = S_IFDIR | 0555, .dyn = &g_tid_dyn },
	PSEUDO_FILE("timens_offsets", 0644, timens_show),
	TEXT("timers", 0444, PROC_TEXT_TIMERS, show_text),
	NUMBER("timerslack_ns", 0666, PROC_TIMERSLACK_NS),
	PSEUDO_END,
};

/* hidepid=1 closes the directory to others, 2 and 4 make it not exist. */
static int pid_permission(const struct pseudo_req *rq, struct inode *ino, uint32_t mask)
{
	if (proc_hidden(rq, rq->inst->obj))
		return proc_mnt(rq)->hidepid == 1 ? -EPERM : -ENOENT;
	return vfs_generic_permission(ino, mask, rq->cred);
}

static const struct pseudo_desc g_process_dir = {
	.name = "pid",
	.mode = S_IFDIR | 0555,
	.children = g_process_files,
	.permission = pid_permission,
};

void *proc_dir_task(struct file *f)
{
	if (f->inode->sb->type != &g_proc_type || !S_ISDIR(f->inode->mode))
		return NULL;
	const struct pseudo_req *rq = pseudo_file_req(f);

	return rq->desc == &g_process_dir ? rq->inst->obj : NULL;
}

static int pid_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		    char name[PSEUDO_NAME_SIZE])
{
	const struct proc_source *ps = proc_ps(dir);
	struct proc_mount *pm = proc_mnt(dir);

	while (from < PID_NUMBER_LIMIT) {
		int pid = ps->pid_next(ps, pm->ns, (int)from);

		if (pid <= 0)
			return 0;
		if (pm->hidepid >= 2) {
			void *task = ps->task_find(ps, pm->ns, pid);
			int hidden = !task || proc_hidden(dir, task);

			if (task)
				ps->task_put(ps, task);
			if (hidden) {
				from = (uint64_t)pid + 1;
				continue;
			}
		}
		*key = (uint64_t)pid;
		snprintf(name, PSEUDO_NAME_SIZE, "%d", pid);
		return 1;
	}
	return 0;
}

static int pid_find(const struct pseudo_req *dir, const char *name, size_t len,
		    struct pseudo_inst *inst)
{
	const struct proc_source *ps = proc_ps(dir);
	uint64_t pid;

	if (pseudo_name_number(name, len, PID_NUMBER_LIMIT, &pid) || !pid)
		return -ENOENT;
	void *task = ps->task_find(ps, proc_mnt(dir)->ns, (int)pid);

	if (!task)
		return -ENOENT;
	if (proc_mnt(dir)->hidepid >= 2 && proc_hidden(dir, task)) {
		ps->task_put(ps, task);
		return -ENOENT;
	}
	inst->obj = task;
	inst->key[KEY_PID] = pid;
	return 0;
}

const struct pseudo_dyn g_proc_pid_dyn = {
	.slot = KEY_PID,
	.next = pid_next,
	.find = pid_find,
	.each = &g_process_dir,
};
