/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of shared memory: memfd, MAP_SHARED|MAP_ANONYMOUS, SysV shm. They are tmpfs files without
 * a directory entry, on a tmpfs that is mounted nowhere and has no limits of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "vfs/tmpfs/tmpfs_priv.h"
#include "vfs/vfs_priv.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#define MFD_EXEC 16u
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif
#define MFD_HUGE_BITS (0x3fu << 26)
#define ALL_SEALS \
	(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_EXEC)
#define MEMFD_NAME_MAX (NAME_MAX - 6) /* "memfd:" comes before it */

static struct mount *shmem_mount(struct vfs *vfs)
{
	struct superblock *sb;
	struct mount *m;

	m = __atomic_load_n(&vfs->shmem_mnt, __ATOMIC_ACQUIRE);
	if (m)
		return m;
	sb = tmp_sb_make(vfs, "tmpfs", 0, "size=0,nr_inodes=0,mode=0777", TMP_NO_XATTR);
	if (IS_ERR(sb))
		return (void *)sb;
	m = mount_new(sb, 0);
	if (!m)
		return ERR_PTR(-ENOMEM);
	lock_acquire(&vfs->shmem_lock);
	if (vfs->shmem_mnt) {
		struct mount *twin = m;

		m = vfs->shmem_mnt;
		lock_release(&vfs->shmem_lock);
		mount_put(twin);
		return m;
	}
	__atomic_store_n(&vfs->shmem_mnt, m, __ATOMIC_RELEASE);
	lock_release(&vfs->shmem_lock);
	return m;
}

static struct file *shmem_open(struct vfs *vfs, const char *name, uint32_t mode, uint64_t size,
			       uint32_t seals, const struct cred *cred)
{
	struct mount *m = shmem_mount(vfs);
	struct inode *ino;
	struct dentry *d;
	struct file *f;

	if (IS_ERR(m))
		return (void *)m;
	if (size > INT64_MAX)
		return ERR_PTR(-EINVAL);
	ino = tmp_inode_new(m->sb, NULL, S_IFREG | mode, 0, cred);
	if (IS_ERR(ino))
		return (void *)ino;
	ino->nlink = 0;
	ino->size = size;
	ino->seals = seals;
	d = dentry_new_unhashed(m->sb, m->sb->root, name, strlen(name), ino);
	if (!d)
		return ERR_PTR(-ENOMEM);
	f = file_new_on(ino, (struct path){m, d}, &g_tmp_file_fops, NULL, O_RDWR,
			FMODE_READ | FMODE_WRITE, cred);
	dentry_put(d);
	return f;
}

struct file *shmem_file_new(struct vfs *vfs, const char *name, uint64_t size,
			    const struct cred *cred)
{
	if (strlen(name) > NAME_MAX)
		return ERR_PTR(-EINVAL);
	return shmem_open(vfs, name, 0777, size, F_SEAL_SEAL, cred);
}

int tmpfs_memfd_create(struct vfs *vfs, const char *name, unsigned int flags,
		       const struct cred *cred, struct file **out)
{
	char full[NAME_MAX + 1];
	uint32_t seals = F_SEAL_SEAL, mode = 0777;
	struct file *f;

	if (flags & MFD_HUGETLB)
		return -ENOSYS;
	if (flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC))
		return -EINVAL;
	if ((flags & MFD_EXEC) && (flags & MFD_NOEXEC_SEAL))
		return -EINVAL;
	if (strlen(name) > MEMFD_NAME_MAX)
		return -EINVAL;
	snprintf(full, sizeof(full), "memfd:%s", name);
	if (flags & MFD_NOEXEC_SEAL) {
		mode = 0666;
		seals = F_SEAL_EXEC;
	} else if (flags & MFD_ALLOW_SEALING) {
		seals = 0;
	}
	f = shmem_open(vfs, full, mode, 0, seals, cred);
	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	*out = f;
	return 0;
}

static int is_tmpfs_file(const struct file *f)
{
	return f->inode->ops == &g_tmp_file_ops && !(f->mode & FMODE_PATH);
}

int tmpfs_add_seals(struct file *f, uint32_t seals)
{
	struct inode *ino = f->inode;
	int r = 0;

	if (f->mode & FMODE_PATH)
		return -EBADF;
	/* A file of an ordinary tmpfs is sealed against seals. */
	if (!is_tmpfs_file(f))
		return -EINVAL;
	if (!(f->mode & FMODE_WRITE))
		return -EPERM;
	if (seals & ~(uint32_t)ALL_SEALS)
		return -EINVAL;
	lock_acquire(&ino->lock);
	if ((ino->seals & F_SEAL_SEAL) || !(tmp_sb(ino)->flags & TMP_NO_XATTR)) {
		r = -EPERM;
	} else {
		if ((seals & F_SEAL_WRITE) && !(ino->seals & F_SEAL_WRITE) &&
		    __atomic_load_n(&tmp_node(ino)->reg.writable_maps, __ATOMIC_SEQ_CST))
			r = -EBUSY;
		/* Executable and sealed so: its bytes are sealed with it. */
		if ((seals & F_SEAL_EXEC) && (ino->mode & 0111))
			seals |= F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
		if (!r)
			ino->seals |= seals;
	}
	lock_release(&ino->lock);
	return r;
}

int tmpfs_get_seals(struct file *f)
{
	if (f->mode & FMODE_PATH)
		return -EBADF;
	if (!is_tmpfs_file(f))
		return -EINVAL;
	if (!(tmp_sb(f->inode)->flags & TMP_NO_XATTR))
		return F_SEAL_SEAL;
	return (int)f->inode->seals;
}

void tmpfs_writable_mapping(struct file *f, int delta)
{
	if (is_tmpfs_file(f))
		__atomic_fetch_add(&tmp_node(f->inode)->reg.writable_maps, delta, __ATOMIC_SEQ_CST);
}
