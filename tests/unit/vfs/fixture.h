/* SPDX-License-Identifier: Apache-2.0 */
/* A VFS with a tmpfs root and a caller, for the unit tests of this folder. */
#ifndef CAISSON_TEST_VFS_FIXTURE_H
#define CAISSON_TEST_VFS_FIXTURE_H

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/host/memfile.h"
#include "vfs/tmpfs/tmpfs.h"
#include "vfs/vfs.h"

static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct cred *g_root, *g_user;

static inline void fix_setup(void)
{
	struct superblock *sb;
	struct mount *m;

	ck_assert_int_eq(memfile_start(), 0);
	g_vfs = vfs_new();
	ck_assert_ptr_nonnull(g_vfs);
	sb = g_tmpfs_type.mount(g_vfs, "root", 0, "mode=0755", NULL);
	ck_assert(!IS_ERR(sb));
	m = mount_new(sb, MNT_F_RELATIME);
	g_ctx.vfs = g_vfs;
	g_ctx.root = path_get((struct path){m, m->root});
	g_ctx.cwd = path_get(g_ctx.root);
	g_ctx.ns = mnt_ns_new(g_vfs, m);
	g_root = cred_new(0, 0, CAP_ALL_MASK);
	g_user = cred_new(1000, 1000, 0);
	g_ctx.cred = g_root;
	g_ctx.umask = 022;
}

static inline void fix_teardown(void)
{
	path_put(g_ctx.cwd);
	path_put(g_ctx.root);
	mnt_ns_put(g_ctx.ns);
	vfs_destroy(g_vfs);
	cred_put(g_root);
	cred_put(g_user);
	memset(&g_ctx, 0, sizeof(g_ctx));
}

static inline struct file *fix_open(const char *path, uint64_t flags, uint32_t mode)
{
	struct open_how_k how = {.flags = flags, .mode = mode};

	return vfs_open(&g_ctx, NULL, path, &how);
}

/* 0 or the error of opening; closes what it opened. */
static inline int fix_try_open(const char *path, uint64_t flags)
{
	struct file *f = fix_open(path, flags, 0644);

	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	file_put(f);
	return 0;
}

static inline int fix_mkdir(const char *path)
{
	return vfs_mkdirat(&g_ctx, NULL, path, 0755);
}

static inline void fix_create(const char *path)
{
	ck_assert_int_eq(fix_try_open(path, O_CREAT | O_EXCL | O_WRONLY), 0);
}

static inline int fix_link(const char *target, const char *path)
{
	return vfs_symlinkat(&g_ctx, target, NULL, path);
}

static inline int fix_lookup(const char *path, uint32_t flags, uint64_t resolve, struct linux_stat *st)
{
	struct path p;
	int r = vfs_lookup_resolve(&g_ctx, NULL, path, flags, resolve, &p);

	if (r)
		return r;
	if (st)
		r = vfs_getattr(p, st);
	path_put(p);
	return r;
}

static inline int fix_stat(const char *path, struct linux_stat *st)
{
	return fix_lookup(path, LOOKUP_FOLLOW, 0, st);
}

static inline int fix_rename(const char *a, const char *b, uint32_t flags)
{
	return vfs_renameat2(&g_ctx, NULL, a, NULL, b, flags);
}

static inline ssize_t fix_pwrite(struct file *f, const void *buf, size_t n, int64_t pos)
{
	struct uio u;

	uio_init_kernel(&u, (void *)(uintptr_t)buf, n);
	return file_pwrite(f, &u, pos, UINT64_MAX, 0);
}

static inline ssize_t fix_pread(struct file *f, void *buf, size_t n, int64_t pos)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	return file_pread(f, &u, pos);
}

static inline int fix_run(Suite *s)
{
	SRunner *sr = srunner_create(s);
	int failed;

	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
