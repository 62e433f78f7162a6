/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files. Every operation goes to where the inode's data is at that moment: the upper's file
 * once there is one, else this open file's own view of the lower. So a file opened before the
 * copy-up sees what is written after it.
 */
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "vfs/overlay/overlay_priv.h"

/* The lower's open file, opened by whoever needs it first; borrowed from f. */
struct file *ovl_lower_file(struct file *f)
{
	struct ovl_file *of = f->priv;
	struct inode *low = ovl_i(f->inode)->lower;
	struct file *lf = __atomic_load_n(&of->lower, __ATOMIC_ACQUIRE);

	if (lf)
		return lf;
	lf = ovl_open_layer(ovl_s(f->inode), low,
			    O_RDONLY | (S_ISDIR(low->mode) ? O_DIRECTORY : 0));
	if (IS_ERR(lf))
		return lf;
	struct file *none = NULL;

	if (__atomic_compare_exchange_n(&of->lower, &none, lf, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return lf;
	file_put(lf);
	return none;
}

/* The file that has the data now, NULL for an empty new file; borrowed. */
static struct file *data_file(struct file *f)
{
	struct ovl_inode *oi = ovl_i(f->inode);
	struct file *up = __atomic_load_n(&oi->upper_file, __ATOMIC_ACQUIRE);

	if (up || !oi->lower)
		return up;
	return ovl_lower_file(f);
}

/* The upper's file, after copying up if need be. */
static struct file *writable_file(struct file *f)
{
	struct inode *ino = f->inode;
	struct ovl_inode *oi = ovl_i(ino);
	struct file *up = __atomic_load_n(&oi->upper_file, __ATOMIC_ACQUIRE);

	if (up)
		return up;
	lock_acquire(&ino->lock);
	int r = ovl_copy_up_data(ino, UINT64_MAX);

	lock_release(&ino->lock);
	return r ? ERR_PTR(r) : oi->upper_file;
}

static ssize_t ovl_read(struct file *f, struct uio *u, int64_t *pos)
{
	struct file *df = data_file(f);

	if (!df)
		return 0;
	if (IS_ERR(df))
		return PTR_ERR(df);
	return df->ops->read ? df->ops->read(df, u, pos) : -EINVAL;
}

static void data_changed(struct inode *ino)
{
	lock_acquire(&ino->lock);
	ovl_sync_size(ino);
	ino->mtime = ino->ctime = vfs_now();
	ino->change_count++;
	lock_release(&ino->lock);
}

static ssize_t ovl_write(struct file *f, struct uio *u, int64_t *pos)
{
	struct file *up = writable_file(f);

	if (IS_ERR(up))
		return PTR_ERR(up);
	ssize_t n = up->ops->write(up, u, pos);

	if (n > 0)
		data_changed(f->inode);
	return n;
}

static int64_t ovl_llseek(struct file *f, int64_t off, int whence)
{
	int64_t size = (int64_t)__atomic_load_n(&f->inode->size, __ATOMIC_RELAXED), to;

	switch (whence) {
	case SEEK_SET:
		to = off;
		break;
	case SEEK_CUR:
		if (__builtin_add_overflow(f->pos, off, &to))
			return -EOVERFLOW;
		break;
	case SEEK_END:
		if (__builtin_add_overflow(size, off, &to))
			return -EOVERFLOW;
		break;
	case SEEK_DATA:
	case SEEK_HOLE: {
		if (off < 0 || off >= size)
			return -ENXIO;
		struct file *df = data_file(f);

		if (IS_ERR(df))
			return PTR_ERR(df);
		to = whence == SEEK_DATA ? off : size;
		if (df && df->ops->llseek)
			to = df->ops->llseek(df, off, whence);
		if (to < 0)
			return to;
		break;
	}
	default:
		return -EINVAL;
	}
	if (to < 0)
		return -EINVAL;
	return to;
}

static int ovl_map_extent(struct file *f, uint64_t off, uint64_t len, int prot, int flags,
			  struct map_extent *out)
{
	/* A shared mapping that may be written, now or after mprotect, must never be the lower's. */
	int shared_write = (flags & MAP_TYPE) != MAP_PRIVATE && (f->mode & FMODE_WRITE);
	struct file *df = shared_write ? writable_file(f) : data_file(f);

	if (!df)
		return -ENXIO;
	if (IS_ERR(df))
		return (int)PTR_ERR(df);
	return df->ops->map_extent ? df->ops->map_extent(df, off, len, prot, flags, out) : -ENODEV;
}

static int ovl_fallocate(struct file *f, int mode, int64_t off, int64_t len)
{
	struct file *up = writable_file(f);

	if (IS_ERR(up))
		return (int)PTR_ERR(up);
	if (!up->ops->fallocate)
		return -EOPNOTSUPP;
	int r = up->ops->fallocate(up, mode, off, len);

	if (!r)
		data_changed(f->inode);
	return r;
}

/* Memory needs no syncing. */
static int ovl_fsync(struct file *f, int64_t start, int64_t end, int datasync)
{
	return 0;
}

static void ovl_release(struct file *f)
{
	struct ovl_file *of = f->priv;

	if (!of)
		return;
	if (of->lower)
		file_put(of->lower);
	free(of);
	f->priv = NULL;
}

int ovl_open(struct inode *ino, struct file *f)
{
	if (S_ISCHR(ino->mode))
		return chrdev_open(ino, f);
	if (!S_ISREG(ino->mode) && !S_ISDIR(ino->mode))
		return -ENXIO;
	struct ovl_file *of = calloc(1, sizeof(*of));

	if (!of)
		return -ENOMEM;
	f->priv = of;
	f->ops = ino->fops;
	return 0;
}

const struct file_ops g_ovl_file_ops = {
	.read = ovl_read,
	.write = ovl_write,
	.llseek = ovl_llseek,
	.map_extent = ovl_map_extent,
	.fsync = ovl_fsync,
	.fallocate = ovl_fallocate,
	.release = ovl_release,
};

const struct file_ops g_ovl_dir_ops = {
	.iterate = ovl_iterate,
	.fsync = ovl_fsync,
	.release = ovl_release,
};
