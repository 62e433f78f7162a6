/* SPDX-License-Identifier: Apache-2.0 */
/* Opening terminals: /dev/ptmx, /dev/pts/N, /dev/tty, /dev/console, and the console pair. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/dev/tty_priv.h"

/* What /dev/console opens: set once at boot, for the life of the sandbox. */
static struct tty *g_console;

/* Checks and bookkeeping of an open of the slave side by whatever name. */
static int open_slave(struct tty *t, struct file *f, int noctty)
{
	int err = 0;

	lock_acquire(&t->lock);
	if (!t->master_opens || t->locked)
		err = -EIO;
	else if (t->exclusive && !cred_has_cap(f->cred, CAP_SYS_ADMIN))
		err = -EBUSY;
	lock_release(&t->lock);
	if (!err)
		err = tty_attach_file(t, f, 0);
	if (!err && !noctty && !(f->flags & O_NOCTTY))
		tty_maybe_take_ctty(t, f);
	return err;
}

/* The devpts that belongs to a ptmx node: its own, or the one mounted on "pts" beside it. */
static struct devpts *devpts_for(struct inode *ino, struct file *f, struct path *hold)
{
	struct devpts *dp = devpts_of(ino);
	struct vfs_ctx ctx = { 0 };
	struct path dir;

	*hold = (struct path){ 0 };
	if (dp)
		return dp;
	if (!f->path.dentry || !f->path.mnt || f->path.dentry == f->path.mnt->root)
		return NULL;
	dir = (struct path){ f->path.mnt, f->path.dentry->parent };
	ctx.vfs = ino->sb->vfs;
	ctx.cred = f->cred;
	ctx.root = ctx.cwd = dir;
	ctx.ns = f->path.mnt->ns;
	if (vfs_lookup(&ctx, NULL, "pts", LOOKUP_DIRECTORY, hold) < 0) {
		*hold = (struct path){ 0 };
		return NULL;
	}
	return devpts_of(hold->dentry->inode);
}

int pty_open_ptmx(struct inode *ino, struct file *f)
{
	struct path hold;
	struct devpts *dp = devpts_for(ino, f, &hold);
	struct tty *t = dp ? devpts_new_pty(dp, f->cred) : ERR_PTR(-ENODEV);
	int err;

	if (!IS_ERR(t))
		t->mnt = mount_get(hold.mnt ? hold.mnt : f->path.mnt);
	if (hold.dentry)
		path_put(hold);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	err = tty_attach_file(t, f, 1);
	if (err)
		devpts_kill(t);
	tty_put(t);
	return err;
}

int pty_open_slave(struct inode *ino, struct file *f)
{
	struct tty *t = devpts_tty(ino);
	int err;

	if (!t)
		return -EIO; /* a node outside devpts, or the pair is gone */
	err = open_slave(t, f, 0);
	tty_put(t);
	return err;
}

int tty_open_current(struct inode *ino, struct file *f)
{
	struct tty *t = g_tty_hooks ? g_tty_hooks->current_ctty() : NULL;
	int err;

	(void)ino;
	if (!t)
		return -ENXIO;
	err = open_slave(t, f, 1);
	tty_put(t);
	return err;
}

int tty_open_console(struct inode *ino, struct file *f)
{
	(void)ino;
	return g_console ? open_slave(g_console, f, 1) : -ENXIO;
}

struct file *pty_open_peer(struct file *master, uint32_t flags, const struct cred *cred)
{
	uint32_t mode = 0, acc = flags & O_ACCMODE;
	struct dentry *root, *d;
	struct tty *t;
	struct file *f;
	char name[16];
	int err;

	if (!file_is_tty(master) || !tty_file(master)->master)
		return ERR_PTR(-ENOTTY);
	t = tty_file(master)->tty;
	if (acc != O_WRONLY)
		mode |= FMODE_READ;
	if (acc != O_RDONLY)
		mode |= FMODE_WRITE;
	root = t->slave_inode->sb->root;
	snprintf(name, sizeof(name), "%u", t->index);
	d = vfs_lookup_one(root, name, strlen(name));
	if (IS_ERR(d))
		return ERR_PTR(-EIO);
	f = file_new_on(t->slave_inode, (struct path){ t->mnt, d },
			&g_tty_ops, NULL, flags & ~(uint32_t)O_CLOEXEC, mode | FMODE_STREAM, cred);
	dentry_put(d);
	if (IS_ERR(f))
		return f;
	err = open_slave(t, f, (flags & O_NOCTTY) != 0);
	if (err) {
		file_put(f);
		return ERR_PTR(err);
	}
	return f;
}

/* A master in a devpts of its own that is mounted nowhere. */
static struct file *private_master(struct vfs *vfs, const struct cred *cred)
{
	struct superblock *sb = g_devpts_type.mount(vfs, "devpts", 0, "", NULL);
	struct file *f = ERR_PTR(-ENOMEM);
	struct mount *m;
	struct dentry *d;
	struct tty *t;
	int err;

	if (IS_ERR(sb))
		return (struct file *)sb;
	m = mount_new(sb, MNT_F_NOSUID | MNT_F_NOEXEC);
	if (!m)
		return f;
	d = vfs_lookup_one(sb->root, "ptmx", 4);
	if (IS_ERR(d)) {
		mount_put(m);
		return (struct file *)d;
	}
	t = devpts_new_pty(devpts_of(d->inode), cred);
	if (!IS_ERR(t)) {
		t->mnt = mount_get(m);
		f = file_new_on(d->inode, (struct path){ m, d }, &g_tty_ops, NULL, O_RDWR,
				FMODE_READ | FMODE_WRITE | FMODE_STREAM, cred);
		err = IS_ERR(f) ? (int)PTR_ERR(f) : tty_attach_file(t, f, 1);
		if (err) {
			devpts_kill(t);
			if (!IS_ERR(f))
				file_put(f);
			f = ERR_PTR(err);
		}
		tty_put(t);
	}
	dentry_put(d);
	mount_put(m);
	return f;
}

void tty_resize(struct file *f, uint16_t rows, uint16_t cols)
{
	struct tty *t = tty_file(f)->tty;

	lock_acquire(&t->lock);
	if (t->winsize.row != rows || t->winsize.col != cols) {
		t->winsize.row = rows;
		t->winsize.col = cols;
		tty_signal_foreground(t, SIGWINCH);
	}
	lock_release(&t->lock);
}

int console_pty_new(const struct vfs_ctx *ctx, uint16_t rows, uint16_t cols, struct file **master,
		    struct file **slave)
{
	static const char *const ptmx[] = { "/dev/pts/ptmx", "/dev/ptmx" };
	struct open_how_k how = { .flags = O_RDWR | O_NOCTTY };
	struct vfs_ctx root_ctx = *ctx;
	struct cred *cred = cred_new(0, 0, CAP_ALL_MASK);
	struct file *m = ERR_PTR(-ENODEV);
	struct tty *t;

	if (!cred)
		return -ENOMEM;
	root_ctx.cred = cred; /* ptmx of a devpts may be mode 000 */
	for (size_t i = 0; IS_ERR(m) && i < sizeof(ptmx) / sizeof(ptmx[0]); i++)
		m = vfs_open(&root_ctx, NULL, ptmx[i], &how);
	if (IS_ERR(m))
		m = private_master(ctx->vfs, cred);
	cred_put(cred);
	if (IS_ERR(m))
		return (int)PTR_ERR(m);
	t = tty_file(m)->tty;
	lock_acquire(&t->lock);
	t->locked = 0;
	t->winsize.row = rows;
	t->winsize.col = cols;
	lock_release(&t->lock);
	*slave = pty_open_peer(m, O_RDWR | O_NOCTTY, ctx->cred);
	if (IS_ERR(*slave)) {
		int err = (int)PTR_ERR(*slave);

		file_put(m);
		return err;
	}
	tty_maybe_take_ctty(t, *slave);
	if (!g_console)
		g_console = tty_get(t);
	*master = m;
	return 0;
}
