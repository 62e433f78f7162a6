/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID: memory, descriptors, links, mappings and namespaces. */
#include "platform/base/hash.h"
#include "sentry/ipc/ipc.h"
#include "sentry/proc_priv.h"

/* Inode numbers of the namespaces there is one of, as Linux's initial ones are numbered. */
#define CGROUP_NS_INO 0xeffffffbu
#define USER_NS_INO 0xeffffffdu
#define TIME_NS_INO 0xeffffffau
#define NET_NS_INO 0xf0000000u
#define MNT_NS_INO 0xeffffff8u

struct fs_struct *proc_fs_of(struct task *t)
{
	struct fs_struct *fs = NULL;

	lock_acquire(&t->k->tasks_lock);
	if (t->fs)
		fs = fs_get(t->fs);
	lock_release(&t->k->tasks_lock);
	return fs;
}

static struct fdtable *files_of(struct task *t)
{
	struct fdtable *ft = NULL;

	lock_acquire(&t->k->tasks_lock);
	if (t->files)
		ft = fdtable_get(t->files);
	lock_release(&t->k->tasks_lock);
	return ft;
}

/* ---- memory ---- */

void *proc_src_mem_get(const struct proc_source *ps, void *task)
{
	(void)ps;
	return task_mm_get(task);
}

void proc_src_mem_put(const struct proc_source *ps, void *mem)
{
	(void)ps;
	mm_put(mem);
}

ssize_t proc_src_mem_rw(const struct proc_source *ps, void *mem, struct uio *u, uint64_t addr,
			int write)
{
	ssize_t done = 0;
	char buf[4096];

	(void)ps;
	while (u->left) {
		size_t want = u->left < sizeof(buf) ? u->left : sizeof(buf);
		ssize_t n, m;

		if (write) {
			n = uio_copy_in(u, buf, want);
			m = n > 0 ? mm_write_force(mem, addr, buf, (size_t)n) : n;
		} else {
			n = mm_read(mem, buf, addr, want);
			m = n > 0 ? uio_copy_out(u, buf, (size_t)n) : n;
		}
		if (n <= 0)
			return done ? done : n < 0 && write ? n : -EIO;
		if (m <= 0)
			return done ? done : write ? -EIO : m;
		done += m;
		addr += (uint64_t)m;
		if (m < n || (size_t)n < want)
			break;
	}
	return done;
}

int proc_src_map_next(const struct proc_source *ps, void *task, uint64_t from, uint64_t *start,
		      uint64_t *end)
{
	struct mm *mm = task_mm_get(task);
	int found = 0;

	(void)ps;
	if (!mm)
		return 0;
	lock_acquire(&mm->lock);
	for (size_t i = 0; i < mm->vma_count && !found; i++)
		if (mm->vmas[i]->file && mm->vmas[i]->start >= from) {
			*start = mm->vmas[i]->start;
			*end = mm->vmas[i]->end;
			found = 1;
		}
	lock_release(&mm->lock);
	mm_put(mm);
	return found;
}

int proc_src_map_path(const struct proc_source *ps, void *task, uint64_t start, uint64_t end,
		      struct path *out)
{
	struct mm *mm = task_mm_get(task);
	int err = -ENOENT;
	struct vma *v;

	(void)ps;
	if (!mm)
		return -ENOENT;
	lock_acquire(&mm->lock);
	v = vma_find(mm, start);
	if (v && v->start == start && v->end == end && v->file) {
		*out = path_get(v->file->path);
		err = 0;
	}
	lock_release(&mm->lock);
	mm_put(mm);
	return err;
}

/* ---- descriptors and links ---- */

int proc_src_fd_next(const struct proc_source *ps, void *task, int from)
{
	struct fdtable *ft = files_of(task);
	int fd;

	(void)ps;
	if (!ft)
		return -1;
	fd = fdtable_next(ft, from);
	fdtable_put(ft);
	return fd;
}

struct file *proc_src_fd_get(const struct proc_source *ps, void *task, int fd, int *cloexec)
{
	struct fdtable *ft = files_of(task);
	struct file *f;

	(void)ps;
	if (!ft)
		return NULL;
	f = fdtable_file(ft, fd, cloexec);
	fdtable_put(ft);
	return f;
}

static int exe_path(struct task *t, struct path *out)
{
	struct mm *mm = task_mm_get(t);
	int err = -ENOENT;

	if (!mm)
		return err;
	lock_acquire(&mm->lock);
	if (mm->exe) {
		*out = path_get(mm->exe->path);
		err = 0;
	}
	lock_release(&mm->lock);
	mm_put(mm);
	return err;
}

int proc_src_link_path(const struct proc_source *ps, void *task, enum proc_link which,
		       struct path *out)
{
	struct fs_struct *fs;

	(void)ps;
	if (which == PROC_LINK_EXE)
		return exe_path(task, out);
	fs = proc_fs_of(task);
	if (!fs)
		return -ENOENT;
	lock_acquire(&fs->lock);
	*out = path_get(which == PROC_LINK_CWD ? fs->cwd : fs->root);
	lock_release(&fs->lock);
	fs_put(fs);
	return 0;
}

/* ---- namespaces ---- */

struct mnt_ns *proc_src_mnt_ns(const struct proc_source *ps, void *task, struct path *root)
{
	struct fs_struct *fs = proc_fs_of(task);
	struct mnt_ns *ns;

	(void)ps;
	if (!fs)
		return NULL;
	lock_acquire(&fs->lock);
	ns = mnt_ns_get(fs->ns);
	*root = path_get(fs->root);
	lock_release(&fs->lock);
	fs_put(fs);
	return ns;
}

/* Distinct for each namespace, and no address of ours. [tasks] */
static uint64_t mnt_ns_inum(struct task *t)
{
	const struct mnt_ns *ns = t->fs ? t->fs->ns : NULL;

	if (!ns)
		return 0;
	return ns == t->k->init_mnt_ns ? MNT_NS_INO :
					 NET_NS_INO + hash_bytes(&ns, sizeof(ns), 0) % 1000003u;
}

int proc_src_ns_inum(const struct proc_source *ps, void *task, enum proc_ns which, uint64_t *inum)
{
	struct task *t = task;
	int err = 0;

	(void)ps;
	lock_acquire(&t->k->tasks_lock);
	switch (which) {
	case PROC_NS_CGROUP:
		*inum = CGROUP_NS_INO;
		break;
	case PROC_NS_IPC:
		*inum = ipc_ns_id(ipc_ns_of(t));
		break;
	case PROC_NS_MNT:
		*inum = mnt_ns_inum(t);
		break;
	case PROC_NS_NET:
		*inum = NET_NS_INO;
		break;
	case PROC_NS_PID:
		*inum = t->pid_ns->ns_id;
		break;
	case PROC_NS_PID_FOR_CHILDREN:
		*inum = (t->tg->pid_ns_for_children ? t->tg->pid_ns_for_children : t->pid_ns)->ns_id;
		break;
	case PROC_NS_TIME:
	case PROC_NS_TIME_FOR_CHILDREN:
		*inum = TIME_NS_INO;
		break;
	case PROC_NS_USER:
		*inum = USER_NS_INO;
		break;
	case PROC_NS_UTS:
		*inum = t->uts ? t->uts->ns_id : 0;
		break;
	default:
		err = -ENOENT;
	}
	lock_release(&t->k->tasks_lock);
	return err ? err : *inum ? 0 : -ENOENT;
}
