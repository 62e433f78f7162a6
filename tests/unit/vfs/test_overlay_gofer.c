/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay over a real gofer, as the sandbox's root is made: what it costs in messages, that the
 * host's files stay as they were. Skipped when the gofer is not built.
 */
#include <check.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/base/bootconf.h"
#include "platform/base/hash.h"
#include "platform/host/memfile.h"
#include "vfs/goferfs/goferfs.h"
#include "vfs/overlay/overlay.h"
#include "vfs/vfs.h"

static char g_dir[64];
static pid_t g_gofer;
static struct goferfs_conn *g_conn;
static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct mnt_ns *g_ns;
static struct mount *g_root;
static struct superblock *g_lower;

static void put(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
}

static void make_dir(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static int have_binary(char *bin, size_t size)
{
	char self[1024];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 4; i++) {
		char *slash = strrchr(self, '/');

		if (slash)
			*slash = '\0';
	}
	snprintf(bin, size, "%s/caisson-gofer", self);
	return access(bin, X_OK) == 0;
}

static void start_gofer(const char *attach)
{
	char bin[1100];
	struct bootconf bc;
	int sv[2];

	ck_assert(have_binary(bin, sizeof(bin)));
	bootconf_init(&bc);
	ck_assert_int_eq(bootconf_addf(&bc, "attach", "0\t%s\t%s", g_dir, attach), 0);
	bootconf_add(&bc, "hide", "0\tsub/secret");
	bootconf_add(&bc, "caps", "0x1f");
	bootconf_add(&bc, "allow_weaker", "mountns");
	bootconf_add(&bc, "pdeathsig", "1");
	bootconf_add(&bc, "log_level", "warn");
	int conf = memfd_create("conf", 0);

	ck_assert_int_eq(bootconf_write(&bc, conf), 0);
	lseek(conf, 0, SEEK_SET);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	g_gofer = fork();
	if (g_gofer == 0) {
		int s = fcntl(sv[1], F_DUPFD, 100), c = fcntl(conf, F_DUPFD, 100);

		dup2(s, 3);
		dup2(c, 4);
		execl(bin, "caisson-gofer", NULL);
		_exit(127);
	}
	close(sv[1]);
	close(conf);
	bootconf_free(&bc);
	g_conn = goferfs_connect(sv[0]);
	ck_assert_msg(!IS_ERR(g_conn), "connect: %ld", PTR_ERR(g_conn));
}

static void mount_it(void)
{
	struct goferfs_boot gb = { .conn = g_conn, .attach_id = 0, .exclusive = 1, .readonly = 1 };

	hash_seed(3);
	ck_assert_int_eq(memfile_start(), 0);
	g_vfs = vfs_new();
	g_lower = g_goferfs_type.mount(g_vfs, "root", 0, "", &gb);
	ck_assert_msg(!IS_ERR(g_lower), "mount: %ld", PTR_ERR(g_lower));
	struct overlay_boot ob = { .lower = g_lower };
	struct superblock *sb = g_overlay_type.mount(g_vfs, "overlay", 0, "", &ob);

	ck_assert_msg(!IS_ERR(sb), "overlay: %ld", PTR_ERR(sb));
	g_root = mount_new(sb, 0);
	g_ns = mnt_ns_new(g_vfs, mount_get(g_root));
	g_ctx.vfs = g_vfs;
	g_ctx.cred = cred_new(0, 0, CAP_ALL_MASK);
	g_ctx.root = g_ctx.cwd = (struct path){ g_root, g_root->root };
	g_ctx.ns = g_ns;
	g_ctx.umask = 022;
}

static struct file *open_at(const char *path, uint64_t flags)
{
	struct open_how_k how = { .flags = flags, .mode = 0666 };

	return vfs_open(&g_ctx, NULL, path, &how);
}

static void check_text(const char *path, const char *want)
{
	char buf[256] = { 0 };
	struct file *f = open_at(path, O_RDONLY);

	ck_assert_msg(!IS_ERR(f), "%s: %ld", path, PTR_ERR(f));
	ck_assert_int_eq(file_kread(f, buf, sizeof(buf) - 1, 0), (int)strlen(want));
	ck_assert_str_eq(buf, want);
	file_put(f);
}

static long stat_of(const char *path, struct linux_stat *st)
{
	struct path p;
	int err = vfs_lookup(&g_ctx, NULL, path, 0, &p);

	if (err)
		return err;
	err = vfs_getattr(p, st);
	path_put(p);
	return err;
}

struct names {
	struct dir_emit de;
	char text[8192];
	int count;
};

static int emit_name(struct dir_emit *de, const char *name, size_t len, uint64_t next, uint64_t ino,
		     uint8_t type)
{
	struct names *n = (struct names *)de;

	snprintf(n->text + strlen(n->text), sizeof(n->text) - strlen(n->text), "%.*s:%d ", (int)len,
		 name, type);
	n->count++;
	return 1;
}

static void list_dir(const char *path, struct names *n)
{
	struct file *f = open_at(path, O_RDONLY | O_DIRECTORY);

	ck_assert_msg(!IS_ERR(f), "%s: %ld", path, PTR_ERR(f));
	memset(n, 0, sizeof(*n));
	n->de.emit = emit_name;
	for (int before = -1; before != n->count;) {
		before = n->count;
		ck_assert_int_eq(file_iterate(f, &n->de), 0);
	}
	file_put(f);
}

static void put_in(const char *path, const char *text, uint64_t flags)
{
	struct file *f = open_at(path, O_WRONLY | flags);
	struct uio u;

	ck_assert_msg(!IS_ERR(f), "%s: %ld", path, PTR_ERR(f));
	uio_init_kernel(&u, (void *)(uintptr_t)text, strlen(text));
	ck_assert_int_eq(file_write(f, &u, UINT64_MAX), (int)strlen(text));
	file_put(f);
}

static int skipped(void)
{
	char bin[1100];

	return !have_binary(bin, sizeof(bin));
}

static void setup(void)
{
	char path[128];

	strcpy(g_dir, "/tmp/ovlgofer.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(g_dir));
	put("hello", "hello, world\n");
	make_dir("sub");
	put("sub/file", "in sub");
	make_dir("sub/deep");
	put("sub/deep/file", "deep");
	make_dir("many");
	for (int i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "many/f%d", i);
		put(path, "x");
	}
	snprintf(path, sizeof(path), "%s/link", g_dir);
	ck_assert_int_eq(symlink("sub/file", path), 0);
	if (skipped())
		return;
	start_gofer("ro\texclusive");
	mount_it();
}

static void teardown(void)
{
	char cmd[256];

	if (!skipped()) {
		/* The host's tree is as it was made. */
		snprintf(cmd, sizeof(cmd),
			 "cd %s && grep -qx 'hello, world' hello && test $(ls many | wc -l) = 300 && "
			 "test \"$(cat sub/file)\" = 'in sub'",
			 g_dir);
		ck_assert_int_eq(system(cmd), 0);
		mount_put(g_root);
		mnt_ns_put(g_ns);
		sb_put(g_lower);
		vfs_destroy(g_vfs);
		kill(g_gofer, SIGKILL);
		waitpid(g_gofer, NULL, 0);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_dir);
	ck_assert_int_eq(system(cmd), 0);
}

START_TEST(second_time_is_free)
{
	struct linux_stat st;
	uint64_t before;

	if (skipped())
		return;
	for (int round = 0; round < 2; round++) {
		before = goferfs_messages(g_conn);
		check_text("/hello", "hello, world\n");
		check_text("/link", "in sub");
		check_text("/sub/deep/file", "deep");
		ck_assert_int_eq(stat_of("/sub/missing", &st), -ENOENT);
		ck_assert_int_eq(stat_of("/many/f17", &st), 0);
		ck_assert_int_eq(st.size, 1);
	}
	ck_assert_uint_eq(goferfs_messages(g_conn), before);
}
END_TEST

START_TEST(changes_stay_here)
{
	struct linux_stat a, b;
	struct names n;
	struct file *old;
	char buf[32];

	if (skipped())
		return;
	ck_assert_int_eq(stat_of("/hello", &a), 0);
	old = open_at("/hello", O_RDONLY);
	put_in("/hello", "HELLO", 0);
	check_text("/hello", "HELLO, world\n");
	ck_assert_int_eq(file_kread(old, buf, 5, 0), 5);
	ck_assert_int_eq(memcmp(buf, "HELLO", 5), 0);
	file_put(old);
	ck_assert_int_eq(stat_of("/hello", &b), 0);
	ck_assert_uint_eq(a.ino, b.ino);
	put_in("/sub/file", "short", O_TRUNC);
	check_text("/link", "short");
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/sub", NULL, "/bus", 0), 0);
	check_text("/bus/deep/file", "deep");
	check_text("/bus/file", "short");
	ck_assert_int_eq(stat_of("/link", &b), 0);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/many/f0", 0), 0);
	put_in("/many/new", "n", O_CREAT);
	list_dir("/many", &n);
	ck_assert_int_eq(n.count, 302);
	ck_assert_ptr_nonnull(strstr(n.text, "new:8 "));
	ck_assert_ptr_null(strstr(n.text, "f0:8 "));
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/bus/deep/mk", 0755), 0);
	ck_assert_int_eq(vfs_symlinkat(&g_ctx, "/hello", NULL, "/bus/deep/mk/s"), 0);
	check_text("/bus/deep/mk/s", "HELLO, world\n");
}
END_TEST

START_TEST(maps_the_donated_fd)
{
	struct map_extent e;
	struct file *f;

	if (skipped())
		return;
	f = open_at("/hello", O_RDONLY);
	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(f->ops->map_extent(f, 0, 4096, PROT_READ, MAP_PRIVATE, &e), 0);
	ck_assert_int_ne(e.fd, memfile_fd());
	put_in("/hello", "HELLO", 0);
	ck_assert_int_eq(f->ops->map_extent(f, 0, 4096, PROT_READ, MAP_PRIVATE, &e), 0);
	ck_assert_int_eq(e.fd, memfile_fd());
	file_put(f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("overlay_gofer");
	TCase *tc = tcase_create("overlay_gofer");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, second_time_is_free);
	tcase_add_test(tc, changes_stay_here);
	tcase_add_test(tc, maps_the_donated_fd);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
