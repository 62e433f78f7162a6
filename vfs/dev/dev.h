/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Character devices: the table that chrdev_open() looks devices up in, and the devices' own
 * entry points. The device number decides; the node's name and place do not matter.
 */
#ifndef CAISSON_VFS_DEV_H
#define CAISSON_VFS_DEV_H

#include "vfs/vfs.h"

struct chrdev {
	uint32_t major, minor;
	uint32_t minor_count;
	const char *class_name; /* as /proc/devices shows the major */
	const struct file_ops *ops; /* set before open() */
	uint32_t fmode;		    /* FMODE_* added */
	/* Completes the open; may replace f->ops, f->inode and f->path. NULL: nothing to do. */
	int (*open)(struct inode *ino, struct file *f);
};

extern const struct fs_type g_devtmpfs_type; /* devtmpfs.c */
extern const struct fs_type *const g_dev_filesystem;

const struct chrdev *chrdev_find(uint64_t rdev);
/* The "Character devices" lines of /proc/devices. */
void chrdev_show(struct strbuf *sb);

extern const struct file_ops g_null_ops, g_zero_ops, g_full_ops, g_random_ops, g_urandom_ops;

/* kmsg.c: the kernel log ring that guests read as /dev/kmsg and by syslog(2). */
extern const struct file_ops g_kmsg_ops;
int kmsg_open(struct inode *ino, struct file *f);
/* Appends a record; text is cut at a line's end. prio: facility << 3 | level. */
__attribute__((format(printf, 2, 3))) void kmsg_printf(uint32_t prio, const char *fmt, ...);
/* syslog(2) SYSLOG_ACTION_READ_ALL: the last bytes that fit, as dmesg shows them. */
ssize_t kmsg_read_all(struct uio *u, int clear);
void kmsg_clear(void);
size_t kmsg_size_unread(void);
#define KMSG_BUF_SIZE (64u << 10)

#endif
