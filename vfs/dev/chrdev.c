/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of character devices. A new device is a row. */
#include <stddef.h>

#include "vfs/dev/dev.h"
#include "vfs/dev/tty.h"

static const struct chrdev g_chrdevs[] = {
	{ 1, 3, 1, "mem", &g_null_ops, 0, NULL },
	{ 1, 5, 1, "mem", &g_zero_ops, 0, NULL },
	{ 1, 7, 1, "mem", &g_full_ops, 0, NULL },
	{ 1, 8, 1, "mem", &g_random_ops, 0, NULL },
	{ 1, 9, 1, "mem", &g_urandom_ops, 0, NULL },
	{ 1, 11, 1, "mem", &g_kmsg_ops, FMODE_NOPREAD, kmsg_open },
	{ 5, 0, 1, "/dev/tty", &g_tty_ops, FMODE_STREAM, tty_open_current },
	{ 5, 1, 1, "/dev/console", &g_tty_ops, FMODE_STREAM, tty_open_console },
	{ 5, 2, 1, "/dev/ptmx", &g_tty_ops, FMODE_STREAM, pty_open_ptmx },
	{ PTY_SLAVE_MAJOR, 0, PTY_MAX, "pts", &g_tty_ops, FMODE_STREAM, pty_open_slave },
};

/* fs_types.c refers to devtmpfs only weakly: this puts it into every program that has devices. */
const struct fs_type *const g_dev_filesystem = &g_devtmpfs_type;

#define CHRDEV_COUNT (sizeof(g_chrdevs) / sizeof(g_chrdevs[0]))

const struct chrdev *chrdev_find(uint64_t rdev)
{
	uint32_t major = linux_major(rdev), minor = linux_minor(rdev);

	for (size_t i = 0; i < CHRDEV_COUNT; i++) {
		const struct chrdev *c = &g_chrdevs[i];

		if (c->major == major && minor >= c->minor && minor - c->minor < c->minor_count)
			return c;
	}
	return NULL;
}

int chrdev_open(struct inode *ino, struct file *f)
{
	const struct chrdev *c = chrdev_find(ino->rdev);

	if (!c)
		return -ENXIO;
	f->ops = c->ops;
	f->mode |= c->fmode;
	return c->open ? c->open(ino, f) : 0;
}

void chrdev_show(struct strbuf *sb)
{
	for (size_t i = 0; i < CHRDEV_COUNT; i++)
		if (!i || g_chrdevs[i].major != g_chrdevs[i - 1].major ||
		    g_chrdevs[i].major == 5) /* each minor of 5 is a driver of its own */
			strbuf_printf(sb, "%3u %s\n", g_chrdevs[i].major, g_chrdevs[i].class_name);
}
