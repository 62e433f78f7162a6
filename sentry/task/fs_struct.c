/* SPDX-License-Identifier: Apache-2.0 */
/* Root, working directory, umask and mount namespace of tasks, shared by CLONE_FS. */
#include <stdlib.h>

#include "sentry/task/task_priv.h"

/* Takes its own references. */
struct fs_struct *fs_new(struct path root, struct path cwd, struct mnt_ns *ns, uint32_t umask)
{
	struct fs_struct *fs = calloc(1, sizeof(*fs));

	if (!fs)
		return NULL;
	ref_init(&fs->ref);
	lock_init(&fs->lock, RANK_FS);
	fs->root = path_get(root);
	fs->cwd = path_get(cwd);
	fs->ns = mnt_ns_get(ns);
	fs->umask = umask;
	return fs;
}

struct fs_struct *fs_get(struct fs_struct *fs)
{
	ref_get(&fs->ref);
	return fs;
}

struct fs_struct *fs_dup(struct fs_struct *fs)
{
	struct fs_struct *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	ref_init(&n->ref);
	lock_init(&n->lock, RANK_FS);
	lock_acquire(&fs->lock);
	n->root = path_get(fs->root);
	n->cwd = path_get(fs->cwd);
	n->ns = mnt_ns_get(fs->ns);
	n->umask = fs->umask;
	lock_release(&fs->lock);
	return n;
}

void fs_put(struct fs_struct *fs)
{
	if (!fs || !ref_put(&fs->ref))
		return;
	path_put(fs->root);
	path_put(fs->cwd);
	mnt_ns_put(fs->ns);
	lock_destroy(&fs->lock);
	free(fs);
}
