/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has open and where it is: fd/, fdinfo/, map_files/, ns/, exe, cwd, root, and its
 * mount tables. The links are magic: following one leads to the very object, not to what its text
 * names today.
 */
#include <errno.h>
#include <fcntl.h>

#include "vfs/proc/proc_priv.h"

/* The text of a link to p, as the caller's root sees it. */
static int put_path(const struct proc_source *ps, struct path p, struct strbuf *out)
{
	char *buf = malloc(PATH_MAX + 16);
	struct path root = { 0 };
	void *me = ps->task_current(ps);
	int r = buf ? 0 : -ENOMEM;

	if (me && (!ps->link_path || ps->link_path(ps, me, PROC_LINK_ROOT, &root)))
		root.mnt = NULL;
	if (!r) {
		char *s = path_name(ps->vfs, p, root.mnt ? root : p, buf, PATH_MAX);

		if (IS_ERR(s))
			r = (int)PTR_ERR(s);
		else
			strbuf_puts(out, s);
	}
	if (root.mnt)
		path_put(root);
	if (me)
		ps->task_put(ps, me);
	free(buf);
	return r;
}

int proc_link_follow(const struct pseudo_req *rq, struct path *out)
{
	const struct proc_source *ps = proc_ps(rq);
	int r = proc_may_access(rq, PROC_ACCESS_READ);

	return r ? r : ps->link_path(ps, rq->inst->obj, (enum proc_link)rq->desc->arg, out);
}

int proc_link_read(const struct pseudo_req *rq, struct strbuf *out)
{
	struct path p;
	int r = proc_link_follow(rq, &p);

	if (r)
		return r;
	r = put_path(proc_ps(rq), p, out);
	path_put(p);
	return r;
}

/* ---- fd/ ---- */

static struct file *get_fd(const struct pseudo_req *rq, int *cloexec)
{
	const struct proc_source *ps = proc_ps(rq);

	return ps->fd_get(ps, rq->inst->obj, (int)rq->inst->key[KEY_SUB], cloexec);
}

static int fd_follow(const struct pseudo_req *rq, struct path *out)
{
	int r = proc_may_access(rq, PROC_ACCESS_READ);

	if (r)
		return r;
	struct file *f = get_fd(rq, NULL);

	if (!f)
		return -ENOENT;
	*out = path_get(f->path);
	file_put(f);
	return 0;
}

static int fd_read(const struct pseudo_req *rq, struct strbuf *out)
{
	struct path p;
	int r = fd_follow(rq, &p);

	if (r)
		return r;
	r = put_path(proc_ps(rq), p, out);
	path_put(p);
	return r;
}

/* A source without fd_mode answers through the file itself. */
static int fd_mode_of(const struct pseudo_req *rq, uint64_t fd, uint32_t *fmode)
{
	const struct proc_source *ps = proc_ps(rq);

	if (ps->fd_mode)
		return ps->fd_mode(ps, rq->inst->obj, (int)fd, fmode);
	struct file *f = ps->fd_get(ps, rq->inst->obj, (int)fd, NULL);

	if (!f)
		return -ENOENT;
	*fmode = f->mode;
	file_put(f);
	return 0;
}

/* The link's permission bits say how the file was opened. */
static int fd_attr(const struct pseudo_req *rq, struct inode *ino)
{
	uint32_t fmode = 0, bits = 0;

	if (fd_mode_of(rq, rq->inst->key[KEY_SUB], &fmode))
		return -ENOENT;
	if (!(fmode & FMODE_PATH))
		bits = (fmode & FMODE_READ ? 0500u : 0) | (fmode & FMODE_WRITE ? 0300u : 0);
	ino->mode = S_IFLNK | bits;
	ino->size = 64;
	return 0;
}

static const struct pseudo_desc g_fd_link = {
	.name = "fd",
	.mode = S_IFLNK | 0700,
	.readlink = fd_read,
	.follow = fd_follow,
	.attr = fd_attr,
};

static int fd_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		   char name[PSEUDO_NAME_SIZE])
{
	const struct proc_source *ps = proc_ps(dir);

	if (from >= PID_NUMBER_LIMIT)
		return 0;
	int fd = ps->fd_next(ps, dir->inst->obj, (int)from);

	if (fd < 0)
		return 0;
	*key = (uint64_t)fd;
	snprintf(name, PSEUDO_NAME_SIZE, "%d", fd);
	return 1;
}

static int fd_find(const struct pseudo_req *dir, const char *name, size_t len,
		   struct pseudo_inst *inst)
{
	uint32_t fmode;
	uint64_t fd;

	if (pseudo_name_number(name, len, PID_NUMBER_LIMIT, &fd) ||
	    fd_mode_of(dir, fd, &fmode))
		return -ENOENT;
	inst->key[KEY_SUB] = fd;
	return 0;
}

const struct pseudo_dyn g_proc_fd_dyn = {
	.slot = KEY_SUB,
	.next = fd_next,
	.find = fd_find,
	.each = &g_fd_link,
};

/* One's own directory is always open, whatever became of the ids (proc_fd_permission). */
int proc_fd_dir_permission(const struct pseudo_req *rq, struct inode *ino, uint32_t mask)
{
	const struct proc_source *ps = proc_ps(rq);
	int r = vfs_generic_permission(ino, mask, rq->cred);

	if (!r)
		return 0;
	void *me = ps->task_current(ps);
	int mine = 0, tgid, tid, my_tgid;

	if (me && !ps->task_ids(ps, NULL, me, &my_tgid, &tid) &&
	    !ps->task_ids(ps, NULL, rq->inst->obj, &tgid, &tid))
		mine = tgid == my_tgid;
	if (me)
		ps->task_put(ps, me);
	return mine ? 0 : r;
}

/* st_size of fd/ is the number of open files (since Linux 6.2). */
int proc_fd_dir_attr(const struct pseudo_req *rq, struct inode *ino)
{
	const struct proc_source *ps = proc_ps(rq);
	uint64_t n = 0;

	for (int fd = 0; (fd = ps->fd_next(ps, rq->inst->obj, fd)) >= 0; fd++)
		n++;
	ino->size = n;
	return 0;
}

static int fdinfo_show(const struct pseudo_req *rq, struct strbuf *out)
{
	int cloexec = 0, r = proc_may_access(rq, PROC_ACCESS_READ);

	if (r)
		return r;
	struct file *f = get_fd(rq, &cloexec);

	if (!f)
		return -ENOENT;
	uint32_t flags = f->flags | (cloexec ? O_CLOEXEC : 0);

	strbuf_printf(out, "pos:\t%lld\nflags:\t0%o\nmnt_id:\t%d\nino:\t%llu\n", (long long)f->pos,
		      flags, f->path.mnt ? f->path.mnt->id : 0, (unsigned long long)f->inode->ino);
	if (f->ops && f->ops->show_fdinfo)
		f->ops->show_fdinfo(f, out);
	file_put(f);
	return 0;
}

static const struct pseudo_desc g_fdinfo_file = {
	.name = "fdinfo",
	.mode = S_IFREG | 0444,
	.show = fdinfo_show,
};

const struct pseudo_dyn g_proc_fdinfo_dyn = {
	.slot = KEY_SUB,
	.next = fd_next,
	.find = fd_find,
	.each = &g_fdinfo_file,
};

/* ---- map_files/: "start-end" in hex; the instance is known by its start ---- */

static int map_find_bounds(const struct pseudo_req *rq, uint64_t *start, uint64_t *end)
{
	const struct proc_source *ps = proc_ps(rq);
	uint64_t want = rq->inst->key[KEY_SUB] << 12;

	if (!ps->map_next || ps->map_next(ps, rq->inst->obj, want, start, end) <= 0 || *start != want)
		return -ENOENT;
	return 0;
}

static int map_follow(const struct pseudo_req *rq, struct path *out)
{
	const struct proc_source *ps = proc_ps(rq);
	uint64_t start, end;
	int r = proc_may_access(rq, PROC_ACCESS_READ);

	if (!r)
		r = map_find_bounds(rq, &start, &end);
	return r ? r : ps->map_path(ps, rq->inst->obj, start, end, out);
}

static int map_read(const struct pseudo_req *rq, struct strbuf *out)
{
	struct path p;
	int r = map_follow(rq, &p);

	if (r)
		return r;
	r = put_path(proc_ps(rq), p, out);
	path_put(p);
	return r;
}

static const struct pseudo_desc g_map_link = {
	.name = "map",
	.mode = S_IFLNK | 0600,
	.readlink = map_read,
	.follow = map_follow,
};

static int map_next(const struct pseudo_req *dir, uint64_t from, uint64_t *key,
		    char name[PSEUDO_NAME_SIZE])
{
	const struct proc_source *ps = proc_ps(dir);
	uint64_t start, end;

	if (!ps->map_next || from >> 52 || proc_may_access(dir, PROC_ACCESS_READ) ||
	    ps->map_next(ps, dir->inst->obj, from << 12, &start, &end) <= 0)
		return 0;
	*key = start >> 12;
	snprintf(name, PSEUDO_NAME_SIZE, "%llx-%llx", (unsigned long long)start,
		 (unsigned long long)end);
	return 1;
}

static int map_find(const struct pseudo_req *dir, const char *name, size_t len,
		    struct pseudo_inst *inst)
{
	const struct proc_source *ps = proc_ps(dir);
	unsigned long long start = 0;
	size_t i = 0;
	uint64_t s, e;
	char check[PSEUDO_NAME_SIZE];

	for (; i < len && i < 16 && name[i] != '-'; i++) {
		int c = name[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return -ENOENT;
		start = start * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (!ps->map_next || ps->map_next(ps, dir->inst->obj, start, &s, &e) <= 0 || s != start)
		return -ENOENT;
	snprintf(check, sizeof(check), "%llx-%llx", (unsigned long long)s, (unsigned long long)e);
	if (strlen(check) != len || memcmp(check, name, len))
		return -ENOENT;
	inst->key[KEY_SUB] = start >> 12;
	return 0;
}

const struct pseudo_dyn g_proc_map_files_dyn = {
	.slot = KEY_SUB,
	.next = map_next,
	.find = map_find,
	.each = &g_map_link,
};

/* ---- ns/ ---- */

/* Text of the link: the kind's name, which for the "_for_children" ones is the plain one. */
static const char *const g_ns_kind[] = {
	[PROC_NS_CGROUP] = "cgroup", [PROC_NS_IPC] = "ipc",
	[PROC_NS_MNT] = "mnt",	     [PROC_NS_NET] = "net",
	[PROC_NS_PID] = "pid",	     [PROC_NS_PID_FOR_CHILDREN] = "pid",
	[PROC_NS_TIME] = "time",     [PROC_NS_TIME_FOR_CHILDREN] = "time",
	[PROC_NS_USER] = "user",     [PROC_NS_UTS] = "uts",
};

static int ns_read(const struct pseudo_req *rq, struct strbuf *out)
{
	const struct proc_source *ps = proc_ps(rq);
	uint64_t inum = 0;
	int r = proc_may_access(rq, PROC_ACCESS_READ);

	if (!r)
		r = ps->ns_inum(ps, rq->inst->obj, (enum proc_ns)rq->desc->arg, &inum);
	if (!r)
		strbuf_printf(out, "%s:[%llu]", g_ns_kind[rq->desc->arg],
			      (unsigned long long)inum);
	return r;
}

static int ns_follow(const struct pseudo_req *rq, struct path *out)
{
	const struct proc_source *ps = proc_ps(rq);
	int r = proc_may_access(rq, PROC_ACCESS_READ);

	if (r)
		return r;
	return ps->ns_path ? ps->ns_path(ps, rq->inst->obj, (enum proc_ns)rq->desc->arg, out)
			   : -EACCES;
}

static int ns_present(const struct pseudo_req *rq)
{
	const struct proc_source *ps = proc_ps(rq);
	uint64_t inum;

	return ps->ns_inum && ps->ns_inum(ps, rq->inst->obj, (enum proc_ns)rq->desc->arg, &inum) !=
				      -ENOENT;
}

#define NS(n, which) \
	{ .name = (n), .mode = S_IFLNK | 0777, .readlink = ns_read, .follow = ns_follow, \
	  .present = ns_present, .arg = (which) }

const struct pseudo_desc g_proc_ns_links[] = {
	NS("cgroup", PROC_NS_CGROUP),
	NS("ipc", PROC_NS_IPC),
	NS("mnt", PROC_NS_MNT),
	NS("net", PROC_NS_NET),
	NS("pid", PROC_NS_PID),
	NS("pid_for_children", PROC_NS_PID_FOR_CHILDREN),
	NS("time", PROC_NS_TIME),
	NS("time_for_children", PROC_NS_TIME_FOR_CHILDREN),
	NS("user", PROC_NS_USER),
	NS("uts", PROC_NS_UTS),
	PSEUDO_END,
};

/* ---- mounts, mountinfo, mountstats: of the namespace the process had when they were opened ---- */

struct mounts_view {
	struct mnt_ns *ns;
	struct path root;
	uint64_t seen; /* generation last polled */
};

int proc_mounts_open(const struct pseudo_req *rq, struct file *f, void **data)
{
	const struct proc_source *ps = proc_ps(rq);
	struct mounts_view *mv;
	int r = 0;

	if (rq->desc->arg == 2)
		r = proc_may_access(rq, PROC_ACCESS_READ);
	if (r)
		return r;
	mv = calloc(1, sizeof(*mv));
	if (!mv)
		return -ENOMEM;
	mv->ns = ps->mnt_ns(ps, rq->inst->obj, &mv->root);
	if (!mv->ns) {
		free(mv);
		return -EINVAL;
	}
	mv->seen = mnt_ns_generation(mv->ns);
	*data = mv;
	return 0;
}

void proc_mounts_release(const struct pseudo_req *rq)
{
	struct mounts_view *mv = rq->data;

	path_put(mv->root);
	mnt_ns_put(mv->ns);
	free(mv);
}

int proc_mounts_show(const struct pseudo_req *rq, struct strbuf *out)
{
	struct mounts_view *mv = rq->data;

	mnt_ns_show(mv->ns, mv->root, (int)rq->desc->arg, out);
	return 0;
}

/* Always readable; a change since the last poll shows once as an exceptional condition. */
uint32_t proc_mounts_poll(const struct pseudo_req *rq, struct poll_table *pt)
{
	struct mounts_view *mv = rq->data;
	uint32_t ready = POLLIN | POLLRDNORM;

	poll_wait(pt, mnt_ns_waitq(mv->ns));
	uint64_t now = mnt_ns_generation(mv->ns);

	if (__atomic_exchange_n(&mv->seen, now, __ATOMIC_RELAXED) != now)
		ready |= POLLERR | POLLPRI;
	return ready;
}
