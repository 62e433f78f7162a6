/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounting proc: options, the pid namespace it shows, its root directory. The files are in
 * system.c, sysctl.c, net.c (the machine) and task*.c (processes).
 */
#include <errno.h>

#include "vfs/proc/proc_priv.h"

/* Set once at boot: mount(2) from the guest brings no pointer along. */
static const struct proc_source *g_source;
static const struct proc_net_source *g_net_source;

void proc_set_source(const struct proc_source *ps)
{
	__atomic_store_n(&g_source, ps, __ATOMIC_RELEASE);
}

void proc_set_net_source(const struct proc_net_source *ns)
{
	__atomic_store_n(&g_net_source, ns, __ATOMIC_RELEASE);
}

const struct proc_source *proc_get_source(void)
{
	return __atomic_load_n(&g_source, __ATOMIC_ACQUIRE);
}

const struct proc_net_source *proc_net(void)
{
	return __atomic_load_n(&g_net_source, __ATOMIC_ACQUIRE);
}

int proc_has_callback(const struct pseudo_req *rq)
{
	void (*fn)(void);

	memcpy(&fn, (const char *)proc_ps(rq) + (uintptr_t)rq->desc->ptr, sizeof(fn));
	return fn != NULL && !(proc_mnt(rq)->subset_pid && !rq->inst->obj);
}

/* /proc/self is the caller's process: a link of text, as "1234" relative to the mount. */
int proc_self_read(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	void *task = ps->task_current(ps);
	int tgid, tid, r = -ENOENT;

	if (!task)
		return -ENOENT;
	if (!ps->task_ids(ps, proc_mnt(rq)->ns, task, &tgid, &tid)) {
		if (rq->desc->arg)
			strbuf_printf(out, "%d/task/%d", tgid, tid);
		else
			strbuf_printf(out, "%d", tgid);
		r = 0;
	}
	ps->task_put(ps, task);
	return r;
}

static void task_get(void *fs, void *obj)
{
	const struct proc_source *ps = fs;

	ps->task_get(ps, obj);
}

static void task_put(void *fs, void *obj)
{
	const struct proc_source *ps = fs;

	ps->task_put(ps, obj);
}

static int task_alive(void *fs, void *obj)
{
	const struct proc_source *ps = fs;

	return ps->task_alive(ps, obj);
}

/*
 * Files of a process belong to its effective ids while it is dumpable, to root otherwise. World
 * readable directories are the exception (they keep the ids; proc_pid_make_inode's rule).
 */
static int task_attr(const struct pseudo_req *rq, struct inode *ino)
{
	const struct proc_source *ps = proc_ps(rq);
	uint32_t uid = ino->uid, gid = ino->gid;
	int r = ps->task_owner(ps, rq->inst->obj, rq->desc->mode == (S_IFDIR | 0555), &uid, &gid);

	ino->uid = uid;
	ino->gid = gid;
	return r;
}

static void show_options(struct superblock *sb, struct strbuf *out)
{
	static const char *const names[] = { [1] = "noaccess", [2] = "invisible", [4] = "ptraceable" };
	struct proc_mount *pm = pseudo_sb_data(sb);

	if (pm->gid)
		strbuf_printf(out, ",gid=%u", pm->gid);
	if (pm->hidepid)
		strbuf_printf(out, ",hidepid=%s", names[pm->hidepid]);
	if (pm->subset_pid)
		strbuf_puts(out, ",subset=pid");
}

static int parse_hidepid(const char *val, uint32_t *out)
{
	static const struct {
		const char *name;
		uint32_t val;
	} names[] = { { "off", 0 },	    { "0", 0 }, { "noaccess", 1 },   { "1", 1 },
		      { "invisible", 2 },   { "2", 2 }, { "ptraceable", 4 }, { "4", 4 } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(val, names[i].name)) {
			*out = names[i].val;
			return 0;
		}
	return -EINVAL;
}

static int parse_options(const char *options, struct proc_mount *pm)
{
	const char *pos = options;
	char key[32], val[32];
	int r;

	while ((r = mount_option_next(&pos, key, sizeof(key), val, sizeof(val))) > 0) {
		int64_t n;

		if (!strcmp(key, "hidepid")) {
			if (parse_hidepid(val, &pm->hidepid))
				return -EINVAL;
		} else if (!strcmp(key, "gid")) {
			if (pseudo_parse_s64(val, strlen(val), &n) || n < 0 || n > UINT32_MAX - 1)
				return -EINVAL;
			pm->gid = (uint32_t)n;
		} else if (!strcmp(key, "subset")) {
			if (strcmp(val, "pid"))
				return -EINVAL;
			pm->subset_pid = 1;
		} else {
			return -EINVAL;
		}
	}
	return r;
}

static int proc_remount(struct superblock *sb, const char *options)
{
	struct proc_mount *pm = pseudo_sb_data(sb), fresh = *pm;
	int r = parse_options(options ? options : "", &fresh);

	if (r)
		return r;
	if (fresh.subset_pid != pm->subset_pid)
		return -EINVAL;
	pm->hidepid = fresh.hidepid;
	pm->gid = fresh.gid;
	return 0;
}

static void proc_mount_free(struct proc_mount *pm)
{
	if (pm->ns && pm->ps->pidns_put)
		pm->ps->pidns_put(pm->ps, pm->ns);
	free(pm);
}

static void proc_destroy(void *priv, void *sb_data)
{
	proc_mount_free(sb_data);
}

static const struct pseudo_fs g_proc_fs = {
	.magic = PROC_MAGIC,
	.sb_flags = SB_NODCACHE | SB_NOCACHE_NEGATIVE,
	.root = &g_proc_root,
	.obj_get = task_get,
	.obj_put = task_put,
	.obj_attr = task_attr,
	.obj_alive = task_alive,
	.show_options = show_options,
	.remount = proc_remount,
	.destroy = proc_destroy,
};

static struct superblock *proc_mount(struct vfs *vfs, const char *source, uint32_t sb_flags,
				     const char *options, const void *boot)
{
	const struct proc_source *ps = proc_get_source();
	struct proc_mount *pm;
	int r;

	if (!ps)
		return ERR_PTR(-ENODEV);
	pm = calloc(1, sizeof(*pm));
	if (!pm)
		return ERR_PTR(-ENOMEM);
	pm->ps = ps;
	r = parse_options(options ? options : "", pm);
	if (r) {
		free(pm);
		return ERR_PTR(r);
	}
	if (ps->pidns_current)
		pm->ns = ps->pidns_current(ps);
	struct superblock *sb = pseudo_mount(vfs, &g_proc_type, source, sb_flags, &g_proc_fs,
					     (void *)(uintptr_t)ps, pm);

	if (IS_ERR(sb))
		proc_mount_free(pm);
	return sb;
}

const struct fs_type g_proc_type = {
	.name = "proc",
	.mount = proc_mount,
	.flags = FS_USERMOUNT | FS_NODEV,
};
