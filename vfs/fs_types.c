/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of filesystem types. The references are weak so that a test program that links only
 * part of the tree still builds; the sentry links them all.
 */
#include <string.h>

#include "vfs/vfs.h"

#define WEAK_FS(t) extern const struct fs_type t __attribute__((weak))
WEAK_FS(g_tmpfs_type);
WEAK_FS(g_overlay_type);
WEAK_FS(g_goferfs_type);
WEAK_FS(g_proc_type);
WEAK_FS(g_sysfs_type);
WEAK_FS(g_devtmpfs_type);
WEAK_FS(g_devpts_type);
WEAK_FS(g_mqueue_type);
WEAK_FS(g_cgroup2_type);

/* In the order /proc/filesystems shows. */
static const struct fs_type *const g_types[] = {
	&g_sysfs_type, &g_tmpfs_type,	&g_proc_type,	 &g_cgroup2_type, &g_devtmpfs_type,
	&g_devpts_type, &g_mqueue_type, &g_overlay_type, &g_goferfs_type,
};
#define TYPE_COUNT (sizeof(g_types) / sizeof(g_types[0]))

const struct fs_type *fs_type_at(size_t i)
{
	for (size_t k = 0; k < TYPE_COUNT; k++)
		if (g_types[k] && i-- == 0)
			return g_types[k];
	return NULL;
}

const struct fs_type *fs_type_find(const char *name)
{
	const struct fs_type *t;

	for (size_t i = 0; (t = fs_type_at(i)); i++)
		if (strcmp(t->name, name) == 0)
			return t;
	return NULL;
}
