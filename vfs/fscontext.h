/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The new mount API: each function is the syscall of its name with strings already copied in;
 * those that give a fd return the file (a reference) instead. Flags that only concern the fd
 * (…_CLOEXEC) are accepted and ignored here.
 */
#ifndef CAISSON_FSCONTEXT_H
#define CAISSON_FSCONTEXT_H

#include <linux/mount.h>

#include "vfs/vfs.h"

struct file *fscontext_fsopen(const struct vfs_ctx *ctx, const char *fs_name, unsigned int flags);
struct file *fscontext_fspick(const struct vfs_ctx *ctx, const struct path *start, const char *path,
			      unsigned int flags);
/* key and value as the command has them, NULL where it has none; at most 256 bytes each (the
 * caller's check: -EINVAL beyond). -EINVAL when f is no context. */
int fscontext_fsconfig(const struct vfs_ctx *ctx, struct file *f, unsigned int cmd, const char *key,
		       const char *value, int aux);
struct file *fscontext_fsmount(const struct vfs_ctx *ctx, struct file *f, unsigned int flags,
			       unsigned int attr_flags);
struct file *fscontext_open_tree(const struct vfs_ctx *ctx, const struct path *start,
				 const char *path, unsigned int flags);
int fscontext_move_mount(const struct vfs_ctx *ctx, const struct path *from_start,
			 const char *from_path, const struct path *to_start, const char *to_path,
			 unsigned int flags);
/* attr is the caller's copy, its size already checked against what we know. */
int fscontext_mount_setattr(const struct vfs_ctx *ctx, const struct path *start, const char *path,
			    unsigned int flags, const struct mount_attr *attr);

#endif
