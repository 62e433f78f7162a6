/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay over a tmpfs lower: copy-up, whiteouts, links, renames, listings, open files. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "platform/base/hash.h"
#include "platform/host/memfile.h"
#include "vfs/overlay/overlay.h"
#include "vfs/tmpfs/tmpfs.h"
#include "vfs/vfs.h"

static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct mount *g_mnt, *g_low_mnt;
static struct mnt_ns *g_ns, *g_low_ns;
static struct superblock *g_lower;

static void use(struct mount *m, struct mnt_ns *ns)
{
	g_ctx.root = g_ctx.cwd = (struct path){ m, m->root };
	g_ctx.ns = ns;
}

static struct file *open_at(const char *path, int flags, int mode)
{
	struct open_how_k how = { .flags = (uint64_t)flags, .mode = (uint64_t)mode };

	return vfs_open(&g_ctx, NULL, path, &how);
}

static int put_text(const char *path, const char *text, int flags)
{
	struct file *f = open_at(path, O_WRONLY | flags, 0644);
	struct uio u;
	ssize_t n;

	if (IS_ERR(f))
		return (int)PTR_ERR(f);
	uio_init_kernel(&u, (void *)(uintptr_t)text, strlen(text));
	n = file_write(f, &u, UINT64_MAX);
	file_put(f);
	return n == (ssize_t)strlen(text) ? 0 : (int)n;
}

static const char *text_of(struct file *f)
{
	static char buf[256];
	ssize_t n = file_kread(f, buf, sizeof(buf) - 1, 0);

	ck_assert_int_ge(n, 0);
	buf[n] = 0;
	return buf;
}

static const char *get_text(const char *path)
{
	struct file *f = open_at(path, O_RDONLY, 0);
	const char *s;

	if (IS_ERR(f))
		return "<none>";
	s = text_of(f);
	file_put(f);
	return s;
}

static int stat_of(const char *path, struct linux_stat *st)
{
	struct path p;
	int r = vfs_lookup(&g_ctx, NULL, path, 0, &p);

	if (r)
		return r;
	r = vfs_getattr(p, st);
	path_put(p);
	return r;
}

struct names {
	struct dir_emit de;
	char text[4096];
	int limit;
	uint64_t last;
};

static int names_emit(struct dir_emit *de, const char *name, size_t len, uint64_t next_pos,
		      uint64_t ino, uint8_t type)
{
	struct names *n = container_of(de, struct names, de);

	if (n->limit == 0)
		return 0;
	n->limit--;
	if (!(name[0] == '.' && len <= 2)) {
		strncat(n->text, name, len);
		strcat(n->text, " ");
	}
	n->last = next_pos;
	return 1;
}

/* All names of a directory, step at a time, seeking to the last position in between. */
static const char *list_dir(const char *path, int step)
{
	static struct names n;
	struct file *f = open_at(path, O_RDONLY | O_DIRECTORY, 0);
	char before[4096];

	ck_assert(!IS_ERR(f));
	memset(&n, 0, sizeof(n));
	n.de.emit = names_emit;
	do {
		strcpy(before, n.text);
		n.limit = step;
		ck_assert_int_eq(file_iterate(f, &n.de), 0);
		if (n.limit != step)
			ck_assert_int_eq(file_llseek(f, (int64_t)n.last, SEEK_SET), (int64_t)n.last);
	} while (n.limit != step);
	file_put(f);
	return n.text;
}

static void setup(void)
{
	static int started;

	if (!started) {
		hash_seed(42);
		ck_assert_int_eq(memfile_start(), 0);
		started = 1;
	}
	g_vfs = vfs_new();
	ck_assert_ptr_nonnull(g_vfs);
	g_ctx.vfs = g_vfs;
	g_ctx.cred = cred_new(0, 0, CAP_ALL_MASK);
	g_ctx.umask = 022;
	g_lower = g_tmpfs_type.mount(g_vfs, "low", 0, "", NULL);
	ck_assert(!IS_ERR(g_lower));
	g_low_mnt = mount_new(sb_get(g_lower), 0);
	g_low_ns = mnt_ns_new(g_vfs, mount_get(g_low_mnt));
	use(g_low_mnt, g_low_ns);
	ck_assert_int_eq(put_text("/a", "alpha", O_CREAT), 0);
	ck_assert_int_eq(put_text("/b", "beta", O_CREAT), 0);
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/b", NULL, "/b2", 0), 0);
	ck_assert_int_eq(vfs_symlinkat(&g_ctx, "a", NULL, "/ln"), 0);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/d", 0755), 0);
	ck_assert_int_eq(put_text("/d/x", "ex", O_CREAT), 0);
	ck_assert_int_eq(put_text("/d/y", "why", O_CREAT), 0);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/d/sub", 0755), 0);
	ck_assert_int_eq(put_text("/d/sub/z", "zed", O_CREAT), 0);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/empty", 0755), 0);
	struct path p;

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/a", 0, &p), 0);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.k", "v", 1, 0), 0);
	path_put(p);

	struct overlay_boot ob = { .lower = g_lower };
	struct superblock *sb = g_overlay_type.mount(g_vfs, "overlay", 0, "", &ob);

	ck_assert(!IS_ERR(sb));
	g_mnt = mount_new(sb, 0);
	g_ns = mnt_ns_new(g_vfs, mount_get(g_mnt));
	use(g_mnt, g_ns);
}

/* The lower must be what it was. */
static void check_lower(void)
{
	use(g_low_mnt, g_low_ns);
	ck_assert_str_eq(get_text("/a"), "alpha");
	ck_assert_str_eq(get_text("/b"), "beta");
	ck_assert_str_eq(get_text("/d/x"), "ex");
	ck_assert_str_eq(get_text("/d/sub/z"), "zed");
	ck_assert_str_eq(list_dir("/d", 100), "x y sub ");
	use(g_mnt, g_ns);
}

static void teardown(void)
{
	check_lower();
	mount_put(g_mnt);
	mnt_ns_put(g_ns);
	mount_put(g_low_mnt);
	mnt_ns_put(g_low_ns);
	sb_put(g_lower);
	cred_put(g_ctx.cred);
	vfs_destroy(g_vfs);
}

START_TEST(reads_and_copies_up)
{
	struct linux_stat before, after;
	struct file *old;

	ck_assert_str_eq(get_text("/a"), "alpha");
	ck_assert_str_eq(get_text("/ln"), "alpha");
	ck_assert_int_eq(stat_of("/a", &before), 0);
	old = open_at("/a", O_RDONLY, 0);
	ck_assert(!IS_ERR(old));
	ck_assert_str_eq(text_of(old), "alpha");
	ck_assert_int_eq(put_text("/a", "ALP", 0), 0);
	ck_assert_str_eq(get_text("/a"), "ALPha");
	ck_assert_str_eq(text_of(old), "ALPha");
	ck_assert_int_eq(put_text("/a", "!", O_APPEND), 0);
	ck_assert_str_eq(text_of(old), "ALPha!");
	ck_assert_int_eq(put_text("/a", "new", O_TRUNC), 0);
	ck_assert_str_eq(text_of(old), "new");
	file_put(old);
	ck_assert_int_eq(stat_of("/a", &after), 0);
	ck_assert_uint_eq(before.ino, after.ino);
	ck_assert_uint_eq(before.dev, after.dev);
	ck_assert_int_eq(after.size, 3);
}
END_TEST

START_TEST(attributes_without_data)
{
	struct linux_stat st;
	struct path p;
	char buf[8];

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/a", 0, &p), 0);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 0600), 0);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 7, 8), 0);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.k", buf, sizeof(buf)), 1);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.n", "ww", 2, 0), 0);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.k", buf, sizeof(buf)), 1);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.n", buf, sizeof(buf)), 2);
	ck_assert_int_eq(vfs_removexattr(&g_ctx, p, "user.k"), 0);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.k", buf, sizeof(buf)), -ENODATA);
	dentry_invalidate(p.dentry);
	path_put(p);
	/* Pinned: found again with its changes. */
	ck_assert_int_eq(stat_of("/a", &st), 0);
	ck_assert_int_eq(st.mode & 07777, 0600);
	ck_assert_uint_eq(st.uid, 7);
	ck_assert_str_eq(get_text("/a"), "alpha");
	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/a", 0, &p), 0);
	ck_assert_int_eq(vfs_truncate(&g_ctx, p, 2), 0);
	ck_assert_str_eq(get_text("/a"), "al");
	ck_assert_int_eq(vfs_truncate(&g_ctx, p, 4), 0);
	path_put(p);
	ck_assert_int_eq(stat_of("/a", &st), 0);
	ck_assert_int_eq(st.size, 4);
}
END_TEST

START_TEST(whiteouts_and_listing)
{
	struct linux_stat st;

	ck_assert_str_eq(list_dir("/d", 100), "x y sub ");
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/x", 0), 0);
	ck_assert_int_eq(stat_of("/d/x", &st), -ENOENT);
	ck_assert_int_eq(put_text("/d/n1", "1", O_CREAT), 0);
	ck_assert_int_eq(put_text("/d/n2", "2", O_CREAT | O_EXCL), 0);
	for (int step = 1; step < 6; step++)
		ck_assert_str_eq(list_dir("/d", step), "y sub n1 n2 ");
	ck_assert_int_eq(put_text("/d/x", "again", O_CREAT | O_EXCL), 0);
	ck_assert_str_eq(list_dir("/d", 2), "x y sub n1 n2 ");
	ck_assert_str_eq(get_text("/d/x"), "again");
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 1), -ENOTEMPTY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/x", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/y", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/n1", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/n2", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 1), -ENOTEMPTY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/sub/z", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/sub", 1), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 1), 0);
	ck_assert_int_eq(stat_of("/d", &st), -ENOENT);
	/* A new directory of the name is empty: opaque. */
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/d", 0755), 0);
	ck_assert_str_eq(list_dir("/d", 3), "");
	ck_assert_int_eq(stat_of("/d/x", &st), -ENOENT);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/empty", 1), 0);
}
END_TEST

START_TEST(hard_links)
{
	struct linux_stat a, b;

	ck_assert_int_eq(put_text("/b", "BETA", 0), 0);
	ck_assert_str_eq(get_text("/b2"), "BETA");
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/b", NULL, "/d/b3", 0), 0);
	ck_assert_int_eq(stat_of("/b2", &a), 0);
	ck_assert_int_eq(stat_of("/d/b3", &b), 0);
	ck_assert_uint_eq(a.ino, b.ino);
	ck_assert_uint_eq(a.nlink, 3);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/b", 0), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/b2", 0), 0);
	ck_assert_int_eq(stat_of("/d/b3", &b), 0);
	ck_assert_uint_eq(b.nlink, 1);
	ck_assert_str_eq(get_text("/d/b3"), "BETA");
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/b3", 0), 0);
}
END_TEST

START_TEST(renames)
{
	struct linux_stat before, after;

	ck_assert_int_eq(stat_of("/d", &before), 0);
	ck_assert_int_eq(put_text("/d/x", "EX", 0), 0);
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/d", NULL, "/moved", 0), 0);
	ck_assert_int_eq(stat_of("/moved", &after), 0);
	ck_assert_uint_eq(before.ino, after.ino);
	ck_assert_int_eq(stat_of("/d", &after), -ENOENT);
	ck_assert_str_eq(get_text("/moved/x"), "EX");
	ck_assert_str_eq(get_text("/moved/sub/z"), "zed");
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/moved/sub", NULL, "/empty/sub", 0), 0);
	ck_assert_str_eq(get_text("/empty/sub/z"), "zed");
	ck_assert_str_eq(list_dir("/moved", 1), "x y ");
	/* over an existing lower file: the name stays where it was in listings */
	ck_assert_int_eq(put_text("/tmp", "fresh", O_CREAT), 0);
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/tmp", NULL, "/moved/x", 0), 0);
	ck_assert_str_eq(get_text("/moved/x"), "fresh");
	ck_assert_str_eq(list_dir("/moved", 1), "x y ");
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/a", NULL, "/b", RENAME_NOREPLACE), -EEXIST);
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/a", NULL, "/moved/y", RENAME_EXCHANGE), 0);
	ck_assert_str_eq(get_text("/a"), "why");
	ck_assert_str_eq(get_text("/moved/y"), "alpha");
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/a", NULL, "/c", RENAME_WHITEOUT), 0);
	ck_assert_int_eq(stat_of("/a", &after), 0);
	ck_assert(S_ISCHR(after.mode));
	ck_assert_uint_eq(after.rdev, 0);
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/empty", NULL, "/moved", 0), -ENOTEMPTY);
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/moved", NULL, "/empty/sub/in", 0), 0);
	ck_assert_str_eq(get_text("/empty/sub/in/x"), "fresh");
}
END_TEST

START_TEST(unlinked_and_tmpfile)
{
	struct file *f = open_at("/a", O_RDWR, 0), *t;
	struct uio u;
	char word[] = "ok";

	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/a", 0), 0);
	ck_assert_str_eq(text_of(f), "alpha");
	uio_init_kernel(&u, word, 2);
	ck_assert_int_eq(file_pwrite(f, &u, 0, UINT64_MAX, 0), 2);
	ck_assert_str_eq(text_of(f), "okpha");
	file_put(f);
	t = open_at("/d", O_TMPFILE | O_RDWR, 0600);
	ck_assert(!IS_ERR(t));
	uio_init_kernel(&u, word, 2);
	ck_assert_int_eq(file_pwrite(t, &u, 3, UINT64_MAX, 0), 2);
	ck_assert_int_eq(t->inode->size, 5);
	file_put(t);
	ck_assert_str_eq(list_dir("/d", 9), "x y sub ");
}
END_TEST

START_TEST(mapping_follows_the_data)
{
	struct map_extent e;
	struct file *f = open_at("/a", O_RDWR, 0), *n;

	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(f->ops->map_extent(f, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, &e), 0);
	ck_assert_int_eq(e.fd, memfile_fd());
	ck_assert_int_eq(memcmp(memfile_at((int64_t)e.off), "alpha", 5), 0);
	memcpy(memfile_at((int64_t)e.off), "ALPHA", 5);
	ck_assert_str_eq(get_text("/a"), "ALPHA");
	file_put(f);
	n = open_at("/new", O_RDWR | O_CREAT, 0600);
	ck_assert(!IS_ERR(n));
	ck_assert_int_eq(n->ops->map_extent(n, 0, 4096, PROT_READ, MAP_SHARED, &e), -ENXIO);
	ck_assert_int_eq(vfs_ftruncate(n, 8192), 0);
	ck_assert_int_eq(n->ops->map_extent(n, 4096, 4096, PROT_READ, MAP_SHARED, &e), 0);
	file_put(n);
}
END_TEST

START_TEST(rewriting_while_listing_ends)
{
	char path[64];
	int made = 0;
	struct names n = { .de = { .emit = names_emit } };
	struct file *f = open_at("/d", O_RDONLY | O_DIRECTORY, 0);

	ck_assert(!IS_ERR(f));
	for (int i = 0; i < 100; i++) {
		n.limit = 1;
		ck_assert_int_eq(file_iterate(f, &n.de), 0);
		if (n.limit)
			break;
		snprintf(path, sizeof(path), "/d/made%d", made++);
		ck_assert_int_eq(put_text(path, "m", O_CREAT), 0);
	}
	file_put(f);
	ck_assert_int_lt(made, 10);
}
END_TEST

START_TEST(limits_give_enospc)
{
	struct overlay_boot ob = { .lower = g_lower, .upper_size_limit = 1 << 20 };
	struct superblock *sb = g_overlay_type.mount(g_vfs, "overlay", 0, "", &ob);
	char *big = calloc(1, 2 << 20);
	struct mount *m;
	struct mnt_ns *ns;
	struct file *f;
	struct uio u;
	ssize_t n, total = 0;

	memset(big, 1, 2 << 20);
	ck_assert(!IS_ERR(sb));
	m = mount_new(sb, 0);
	ns = mnt_ns_new(g_vfs, mount_get(m));
	use(m, ns);
	f = open_at("/big", O_WRONLY | O_CREAT, 0644);
	ck_assert(!IS_ERR(f));
	do {
		uio_init_kernel(&u, big, 2 << 20);
		n = file_write(f, &u, UINT64_MAX);
		if (n > 0)
			total += n;
	} while (n > 0);
	ck_assert_int_eq(n, -ENOSPC);
	ck_assert_int_le(total, 1 << 20);
	file_put(f);
	free(big);
	use(g_mnt, g_ns);
	mount_put(m);
	mnt_ns_put(ns);
}
END_TEST

static struct linux_statfs statfs_root(void)
{
	struct linux_statfs st;
	struct path p;

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/", 0, &p), 0);
	ck_assert_int_eq(vfs_statfs(p, &st), 0);
	path_put(p);
	return st;
}

START_TEST(statfs_counts_both_layers)
{
	struct linux_statfs low, before, after;

	use(g_low_mnt, g_low_ns);
	low = statfs_root();
	use(g_mnt, g_ns);
	before = statfs_root();
	ck_assert_uint_gt(low.blocks - low.bfree, 0);
	ck_assert_uint_eq(before.blocks - before.bfree, low.blocks - low.bfree);
	ck_assert_uint_eq(before.files - before.ffree, low.files - low.ffree);
	ck_assert_int_eq(put_text("/new", "text", O_CREAT), 0);
	after = statfs_root();
	ck_assert_uint_eq(after.blocks, before.blocks);
	ck_assert_uint_eq(after.bfree, before.bfree - 1);
}
END_TEST

/* Threads that do everything to few names: no deadlock, no lost inode, a tree that adds up. */
static void *churn(void *arg)
{
	static const char *const names[] = { "/a", "/b", "/b2", "/d", "/d/x", "/d/y", "/d/sub",
					     "/d/sub/z", "/n", "/m", "/m/k", "/empty" };
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct open_how_k how = { .mode = 0644 };
	struct linux_stat st;
	char buf[64] = "text";

	for (int i = 0; i < 1500; i++) {
		const char *p = names[rand_r(&seed) % 12], *q = names[rand_r(&seed) % 12];
		struct file *f;
		struct path path;
		struct uio u;

		switch (rand_r(&seed) % 10) {
		case 0:
			vfs_unlinkat(&g_ctx, NULL, p, rand_r(&seed) % 2);
			break;
		case 1:
			vfs_mkdirat(&g_ctx, NULL, p, 0755);
			break;
		case 2:
			vfs_renameat2(&g_ctx, NULL, p, NULL, q, 0);
			break;
		case 3:
			vfs_renameat2(&g_ctx, NULL, p, NULL, q, RENAME_EXCHANGE);
			break;
		case 4:
			vfs_linkat(&g_ctx, NULL, p, NULL, q, 0);
			break;
		case 5:
		case 6:
			how.flags = O_RDWR | O_CREAT | (rand_r(&seed) % 2 ? O_TRUNC : 0);
			f = vfs_open(&g_ctx, NULL, p, &how);
			if (IS_ERR(f))
				break;
			uio_init_kernel(&u, buf, 4);
			file_pwrite(f, &u, rand_r(&seed) % 9, UINT64_MAX, 0);
			file_kread(f, buf + 8, 16, 0);
			file_put(f);
			break;
		case 7:
			if (vfs_lookup(&g_ctx, NULL, p, LOOKUP_FOLLOW, &path))
				break;
			vfs_chmod(&g_ctx, path, 0700);
			vfs_setxattr(&g_ctx, path, "user.t", "1", 1, 0);
			vfs_getattr(path, &st);
			path_put(path);
			break;
		case 8: {
			struct names n = { .de = { .emit = names_emit }, .limit = 100 };

			how.flags = O_RDONLY | O_DIRECTORY;
			f = vfs_open(&g_ctx, NULL, p, &how);
			if (IS_ERR(f))
				break;
			file_iterate(f, &n.de);
			file_put(f);
			break;
		}
		default:
			stat_of(p, &st);
			break;
		}
	}
	return NULL;
}

START_TEST(threads)
{
	pthread_t t[4];
	struct linux_stat st;

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(stat_of("/", &st), 0);
	ck_assert_int_eq(put_text("/after", "x", O_CREAT), 0);
	ck_assert_str_eq(get_text("/after"), "x");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("overlay");
	TCase *tc = tcase_create("overlay");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, reads_and_copies_up);
	tcase_add_test(tc, attributes_without_data);
	tcase_add_test(tc, whiteouts_and_listing);
	tcase_add_test(tc, hard_links);
	tcase_add_test(tc, renames);
	tcase_add_test(tc, unlinked_and_tmpfile);
	tcase_add_test(tc, mapping_follows_the_data);
	tcase_add_test(tc, rewriting_while_listing_ends);
	tcase_add_test(tc, limits_give_enospc);
	tcase_add_test(tc, statfs_counts_both_layers);
	tcase_add_test(tc, threads);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
