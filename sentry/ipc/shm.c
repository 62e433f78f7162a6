/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SysV shared memory. The bytes of a segment are a shmem file. Each shmat maps a wrapper file of
 * its own over it, whose release means that this attach, and every copy that forks made of it, is
 * gone: that is when a segment marked for removal can go. How many attaches there are, which only
 * IPC_STAT asks, is counted in the address spaces.
 */
#include <fcntl.h>
#include <linux/shm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sentry/ipc/ipc_priv.h"
#include "sentry/mm/mm.h"
#include "vfs/tmpfs/tmpfs.h"

#define SHM_MAX_BYTES  (UINT64_MAX - (1ull << 24)) /* kernel.shmmax */
#define SHM_ALL_PAGES  (UINT64_MAX - (1ull << 24)) /* kernel.shmall */
#define SHM_COUNT_MAX  4096
#define SHM_DEST_BIT   01000u
#define SHM_LOCKED_BIT 02000u

struct shm_segment {
	struct ipc_obj o;  /* first */
	struct ipc_ns *ns; /* [I] borrowed: the table, and each attach by its own reference */
	struct file *file; /* [I] a reference */
	uint64_t size;	   /* [I] as asked for */
	uint32_t attaches; /* [ns] wrapper files */
	int64_t atime, dtime;
	struct pid *cpid, *lpid; /* [ns] references */
};

/* What a wrapper file holds on to. */
struct shm_attach {
	struct shm_segment *seg; /* a reference */
	struct ipc_ns *ns;	 /* a reference */
};

static struct shm_segment *seg_of(struct ipc_obj *o)
{
	return container_of(o, struct shm_segment, o);
}

static uint64_t seg_pages(const struct shm_segment *s)
{
	return s->size / GUEST_PAGE_SIZE + (s->size % GUEST_PAGE_SIZE != 0);
}

void ipc_shm_free(struct ipc_obj *o)
{
	struct shm_segment *s = seg_of(o);

	if (s->file)
		file_put(s->file);
	if (s->cpid)
		pid_put(s->cpid);
	if (s->lpid)
		pid_put(s->lpid);
	free(s);
}

static void set_pid(struct pid **slot, struct pid *p)
{
	struct pid *old = *slot;

	*slot = pid_get(p);
	if (old)
		pid_put(old);
}

static int check_size(struct ipc_obj *o, uint64_t size)
{
	return seg_of(o)->size < size ? -EINVAL : 0;
}

long ipc_shmget(struct task *t, int32_t key, uint64_t size, int flags)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct shm_segment *s;
	char name[16];
	long ret;

	if (!ns)
		return -ENOMEM;
	lock_acquire(&ns->lock);
	ret = ipc_lookup_key(t, ns, IPC_KIND_SHM, key, flags, check_size, size);
	lock_release(&ns->lock);
	if (ret != -EAGAIN)
		return ret;
	if (!size || size > SHM_MAX_BYTES)
		return -EINVAL;
	if (flags & SHM_HUGETLB)
		return -EINVAL; /* no huge page pool is set up */
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ns = ns;
	s->size = size;
	snprintf(name, sizeof(name), "SYSV%08x", (unsigned int)key);
	if (size > INT64_MAX - GUEST_PAGE_SIZE) {
		free(s);
		return -ENOMEM;
	}
	s->file = shmem_file_new(t->k->vfs, name, seg_pages(s) * GUEST_PAGE_SIZE, task_cred(t));
	if (IS_ERR(s->file)) {
		ret = PTR_ERR(s->file);
		free(s);
		return ret;
	}
	/* The memory was made without the lock; somebody may have taken the key meanwhile. */
	lock_acquire(&ns->lock);
	ret = ipc_lookup_key(t, ns, IPC_KIND_SHM, key, flags, check_size, size);
	if (ret == -EAGAIN) {
		ret = ipc_add(t, ns, IPC_KIND_SHM, &s->o, key, flags);
		if (ret >= 0) {
			set_pid(&s->cpid, t->tg->pid);
			ns->shm_pages += seg_pages(s);
			s = NULL;
		}
	}
	lock_release(&ns->lock);
	if (s)
		ipc_shm_free(&s->o);
	return ret;
}

/* ---- attaching ---- */

/* The last attach of a segment marked for removal: out of the table. 1: drop the table's reference.
 */
static int destroy_if_unused(struct ipc_ns *ns, struct shm_segment *s)
{
	if (s->attaches || !(s->o.mode & SHM_DEST_BIT) || s->o.removed)
		return 0;
	ipc_unlink(ns, IPC_KIND_SHM, &s->o);
	ns->shm_pages -= seg_pages(s);
	return 1;
}

static void attach_release(struct file *f)
{
	struct shm_attach *a = f->priv;
	struct shm_segment *s = a->seg;
	int drop;

	lock_acquire(&a->ns->lock);
	s->attaches--;
	s->dtime = ipc_now(a->ns->k);
	if (current)
		set_pid(&s->lpid, current->tg->pid);
	drop = destroy_if_unused(a->ns, s);
	lock_release(&a->ns->lock);
	if (drop)
		ipc_obj_put(a->ns, IPC_KIND_SHM, &s->o);
	ipc_obj_put(a->ns, IPC_KIND_SHM, &s->o);
	ipc_ns_put(a->ns);
	free(a);
}

static int attach_extent(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
			 struct map_extent *out)
{
	struct shm_attach *a = f->priv;

	return a->seg->file->ops->map_extent(a->seg->file, off, len, prot, flags, out);
}

static const struct file_ops g_attach_ops = {
	.map_extent = attach_extent,
	.release = attach_release,
};

/* A wrapper for one attach of segment id, counted already; ERR_PTR. */
static struct file *attach_new(struct task *t, struct ipc_ns *ns, int id, int flags)
{
	uint32_t mode = flags & SHM_RDONLY ? FMODE_READ : FMODE_READ | FMODE_WRITE;
	int want = flags & SHM_RDONLY ? S_IRUGO_BITS : S_IRUGO_BITS | S_IWUGO_BITS;
	struct shm_attach *a = calloc(1, sizeof(*a));
	struct shm_segment *s = NULL;
	struct ipc_obj *o;
	struct file *f;
	int err;

	if (!a)
		return ERR_PTR(-ENOMEM);
	if (flags & SHM_EXEC)
		want |= 0111;
	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SHM, id);
	err = IS_ERR(o) ? (int)PTR_ERR(o) : ipc_permission(t, o, want);
	if (!err) {
		s = seg_of(o);
		ref_get(&o->ref);
		s->attaches++;
		s->atime = ipc_now(t->k);
		set_pid(&s->lpid, t->tg->pid);
	}
	lock_release(&ns->lock);
	if (err) {
		free(a);
		return ERR_PTR(err);
	}
	a->seg = s;
	a->ns = ipc_ns_get(ns);
	f = file_new_on(s->file->inode, s->file->path, &g_attach_ops, a,
			flags & SHM_RDONLY ? O_RDONLY : O_RDWR, mode | FMODE_EXEC, task_cred(t));
	if (IS_ERR(f)) {
		struct file fake = { .priv = a };

		attach_release(&fake);
	}
	return f;
}

long ipc_shmat(struct task *t, int id, uint64_t addr, int flags)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	int prot = PROT_READ, mflags = MAP_SHARED;
	struct file *f;
	int64_t at;

	if (!ns)
		return -ENOMEM;
	if (id < 0)
		return -EINVAL;
	if (addr) {
		if (addr & (GUEST_PAGE_SIZE - 1)) {
			if (!(flags & SHM_RND))
				return -EINVAL;
			addr &= ~(GUEST_PAGE_SIZE - 1);
			if (!addr && (flags & SHM_REMAP))
				return -EINVAL;
		}
		mflags |= flags & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	} else if (flags & SHM_REMAP) {
		return -EINVAL;
	}
	if (!(flags & SHM_RDONLY))
		prot |= PROT_WRITE;
	if (flags & SHM_EXEC)
		prot |= PROT_EXEC;
	f = attach_new(t, ns, id, flags);
	if (IS_ERR(f))
		return PTR_ERR(f);
	at = mm_map_in(t->mm, t->ctx, addr, f->inode->size, prot, mflags, f, 0, NULL, VMA_SYSV_SHM);
	file_put(f); /* the mapping has its own */
	return at == -EEXIST ? -EINVAL : at;
}

/* The next piece of the attach at addr, from `from` on. 1 and its range, or 0. [mm] */
static int next_piece(struct mm *mm, uint64_t addr, struct inode **ino, uint64_t from,
		      uint64_t *start, uint64_t *end)
{
	for (size_t i = 0; i < mm->vma_count; i++) {
		struct vma *v = mm->vmas[i];

		if (v->start < from || !(v->flags & VMA_SYSV_SHM) || !v->file)
			continue;
		if (v->start - v->off != addr || (*ino && v->file->inode != *ino))
			continue;
		if (*ino && v->start >= addr + (*ino)->size)
			return 0;
		*ino = v->file->inode;
		*start = v->start;
		*end = v->end;
		return 1;
	}
	return 0;
}

long ipc_shmdt(struct task *t, uint64_t addr)
{
	uint64_t from = addr, start, end;
	struct inode *ino = NULL;
	int found = 0;

	if (addr & (GUEST_PAGE_SIZE - 1))
		return -EINVAL;
	for (;;) {
		lock_acquire(&t->mm->lock);
		int more = next_piece(t->mm, addr, &ino, from, &start, &end);

		lock_release(&t->mm->lock);
		if (!more)
			break;
		int err = mm_unmap(t, start, end - start);

		if (err)
			return err;
		found = 1;
		from = end;
	}
	return found ? 0 : -EINVAL;
}

/* ---- control ---- */

#define MM_BATCH 64

/* Mappings of each segment inode over all address spaces. Tasks may come and go meanwhile. */
static uint64_t count_in_mm(struct mm *mm, const struct inode *ino)
{
	uint64_t n = 0;

	lock_acquire(&mm->lock);
	for (size_t i = 0; i < mm->vma_count; i++)
		n += (mm->vmas[i]->flags & VMA_SYSV_SHM) && mm->vmas[i]->file &&
		     mm->vmas[i]->file->inode == ino;
	lock_release(&mm->lock);
	return n;
}

static int seen_before(struct mm *const *mms, size_t count, const struct mm *mm)
{
	for (size_t i = 0; i < count; i++)
		if (mms[i] == mm)
			return 1;
	return 0;
}

static uint64_t count_attaches(struct kernel *k, const struct inode *ino)
{
	struct thread_group *tg;
	struct task *t;
	struct mm **mms;
	size_t count = 0, cap;
	uint64_t n = 0;

	lock_acquire(&k->tasks_lock);
	cap = k->task_count + 1;
	mms = calloc(cap, sizeof(*mms));
	if (mms)
		list_for_each(tg, &k->groups, node)
			list_for_each(t, &tg->tasks, tg_node)
				if (t->mm && count < cap && !seen_before(mms, count, t->mm))
					mms[count++] = mm_get(t->mm);
	lock_release(&k->tasks_lock);
	for (size_t i = 0; i < count; i++) {
		n += count_in_mm(mms[i], ino);
		mm_put(mms[i]);
	}
	free(mms);
	return n;
}

static int pid_as_seen(struct pid *p, struct task *t)
{
	return p ? pid_nr_in(p, t->pid_ns) : 0;
}

/* All but shm_nattch. [ns] */
static void fill_stat(struct task *t, struct shm_segment *s, struct shmid64_ds *ds)
{
	memset(ds, 0, sizeof(*ds));
	ipc_fill_perm(&s->o, &ds->shm_perm);
	ds->shm_segsz = s->size;
	ds->shm_atime = s->atime;
	ds->shm_dtime = s->dtime;
	ds->shm_ctime = s->o.ctime;
	ds->shm_cpid = pid_as_seen(s->cpid, t);
	ds->shm_lpid = pid_as_seen(s->lpid, t);
}

static long ctl_stat(struct task *t, struct ipc_ns *ns, int id, int cmd, uint64_t buf)
{
	struct shm_segment *s = NULL;
	struct shmid64_ds ds;
	struct ipc_obj *o;
	long ret;

	lock_acquire(&ns->lock);
	if (cmd == IPC_STAT) {
		o = ipc_find(ns, IPC_KIND_SHM, id);
	} else {
		o = ipc_at(ns, IPC_KIND_SHM, (unsigned int)id);
		o = o ? o : ERR_PTR(-EINVAL);
	}
	ret = IS_ERR(o) ? PTR_ERR(o) : cmd == SHM_STAT_ANY ? 0 : ipc_permission(t, o, S_IRUGO_BITS);
	if (!ret) {
		s = seg_of(o);
		ref_get(&o->ref);
		fill_stat(t, s, &ds);
		ret = cmd == IPC_STAT ? 0 : o->id;
	}
	lock_release(&ns->lock);
	if (!s)
		return ret;
	ds.shm_nattch = count_attaches(t->k, s->file->inode);
	ipc_obj_put(ns, IPC_KIND_SHM, &s->o);
	return copy_to_user(t, buf, &ds, sizeof(ds)) ? -EFAULT : ret;
}

static long ctl_ipc_info(struct task *t, struct ipc_ns *ns, uint64_t buf)
{
	struct shminfo64 si = {
		.shmmax = SHM_MAX_BYTES,
		.shmmin = 1,
		.shmmni = SHM_COUNT_MAX,
		.shmseg = SHM_COUNT_MAX,
		.shmall = SHM_ALL_PAGES,
	};
	long ret;

	lock_acquire(&ns->lock);
	ret = ipc_max_index(ns, IPC_KIND_SHM);
	lock_release(&ns->lock);
	return copy_to_user(t, buf, &si, sizeof(si)) ? -EFAULT : ret;
}

static long ctl_shm_info(struct task *t, struct ipc_ns *ns, uint64_t buf)
{
	struct shm_info si = { 0 };
	long ret;

	lock_acquire(&ns->lock);
	si.used_ids = (int)ns->ids[IPC_KIND_SHM].used;
	si.shm_tot = ns->shm_pages;
	for (unsigned int i = 0; i < ns->ids[IPC_KIND_SHM].cap; i++) {
		struct ipc_obj *o = ipc_at(ns, IPC_KIND_SHM, i);

		si.shm_rss += o ? seg_of(o)->file->inode->blocks / 8 : 0;
	}
	ret = ipc_max_index(ns, IPC_KIND_SHM);
	lock_release(&ns->lock);
	return copy_to_user(t, buf, &si, sizeof(si)) ? -EFAULT : ret;
}

static long ctl_change(struct task *t, struct ipc_ns *ns, int id, int cmd,
		       const struct shmid64_ds *ds)
{
	struct shm_segment *s;
	struct ipc_obj *o;
	int drop = 0;
	long ret;

	lock_acquire(&ns->lock);
	o = ipc_find(ns, IPC_KIND_SHM, id);
	ret = IS_ERR(o) ? PTR_ERR(o) : 0;
	if (ret)
		goto out;
	s = seg_of(o);
	if (cmd == SHM_LOCK || cmd == SHM_UNLOCK) {
		/* Pages of a sandbox are not pinned; the flag and its permission rule are Linux's.
		 */
		if (!cred_has_cap(task_cred(t), CAP_IPC_LOCK)) {
			const struct cred *c = task_cred(t);

			if (c->euid != o->uid && c->euid != o->cuid)
				ret = -EPERM;
			else if (cmd == SHM_LOCK && !rlimit_cur(t, RLIMIT_MEMLOCK))
				ret = -EPERM;
		}
		if (!ret)
			o->mode = cmd == SHM_LOCK ? o->mode | SHM_LOCKED_BIT
						  : o->mode & ~SHM_LOCKED_BIT;
		goto out;
	}
	ret = ipc_may_change(t, o);
	if (!ret && cmd == IPC_SET)
		ret = ipc_set_perm(t, o, &ds->shm_perm);
	if (!ret && cmd == IPC_RMID) {
		/* Nobody finds it by its key any more; the id works until the last detach. */
		o->mode |= SHM_DEST_BIT;
		o->key = IPC_PRIVATE;
		drop = destroy_if_unused(ns, s);
	}
out:
	lock_release(&ns->lock);
	if (drop)
		ipc_obj_put(ns, IPC_KIND_SHM, o);
	return ret;
}

long ipc_shmctl(struct task *t, int id, int cmd, uint64_t buf)
{
	struct ipc_ns *ns = ipc_ns_of(t);
	struct shmid64_ds ds;

	if (!ns)
		return -ENOMEM;
	cmd = ipc_cmd(cmd);
	if (cmd < 0 || id < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
		return ctl_ipc_info(t, ns, buf);
	case SHM_INFO:
		return ctl_shm_info(t, ns, buf);
	case IPC_STAT:
	case SHM_STAT:
	case SHM_STAT_ANY:
		return ctl_stat(t, ns, id, cmd, buf);
	case IPC_SET:
		if (copy_from_user(t, &ds, buf, sizeof(ds)))
			return -EFAULT;
		return ctl_change(t, ns, id, cmd, &ds);
	case IPC_RMID:
	case SHM_LOCK:
	case SHM_UNLOCK:
		return ctl_change(t, ns, id, cmd, NULL);
	}
	return -EINVAL;
}

void ipc_show_shm(struct task *t, struct strbuf *sb)
{
	struct ipc_ns *ns = ipc_ns_of(t);

	strbuf_puts(sb,
		    "       key      shmid perms                  size  cpid  lpid nattch   uid   "
		    "gid  cuid  cgid      atime      dtime      ctime                   rss"
		    "                  swap\n");
	if (!ns)
		return;
	for (unsigned int i = 0; i < SHM_COUNT_MAX; i++) {
		struct shm_segment *s;
		struct shmid64_ds d;
		struct ipc_obj *o;

		lock_acquire(&ns->lock);
		o = ipc_at(ns, IPC_KIND_SHM, i);
		if (o) {
			ref_get(&o->ref);
			fill_stat(t, seg_of(o), &d);
		}
		lock_release(&ns->lock);
		if (!o)
			continue;
		s = seg_of(o);
		strbuf_printf(
			sb,
			"%10d %10d  %4o %21lu %5d %5d  %5lu %5u %5u %5u %5u %10lu %10lu %10lu "
			"%21lu %21lu\n",
			o->key, o->id, o->mode, (unsigned long)s->size, d.shm_cpid, d.shm_lpid,
			(unsigned long)count_attaches(t->k, s->file->inode), o->uid, o->gid,
			o->cuid, o->cgid, (unsigned long)d.shm_atime, (unsigned long)d.shm_dtime,
			(unsigned long)d.shm_ctime, (unsigned long)s->file->inode->blocks * 512,
			0ul);
		ipc_obj_put(ns, IPC_KIND_SHM, o);
	}
}
