/* SPDX-License-Identifier: Apache-2.0 */
/*
 * goferfs against the real gofer binary, started as the runtime starts it: isolation, filter and
 * all. Skipped when the binary is not built.
 */
#include <check.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "gofer/proto/wire.h"
#include "platform/base/bootconf.h"
#include "platform/base/log.h"
#include "vfs/goferfs/goferfs.h"
#include "vfs/vfs.h"

static char g_dir[64];
static pid_t g_gofer;
static struct goferfs_conn *g_conn;
static struct vfs *g_vfs;
static struct vfs_ctx g_ctx;
static struct mnt_ns *g_ns;
static struct mount *g_root;

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

static void mount_it(int exclusive)
{
	struct goferfs_boot gb = { .conn = g_conn, .attach_id = 0, .exclusive = exclusive };

	g_vfs = vfs_new();
	struct superblock *sb = g_goferfs_type.mount(g_vfs, "root", 0, "", &gb);

	ck_assert_msg(!IS_ERR(sb), "mount: %ld", PTR_ERR(sb));
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
	char text[4096];
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

static void setup_tree(void)
{
	strcpy(g_dir, "/tmp/goferfs.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(g_dir));
	put("hello", "hello, world\n");
	make_dir("sub");
	make_dir("sub/secret");
	put("sub/secret/key", "canary");
	put("sub/file", "in sub");
	make_dir("sub/deep");
	put("sub/deep/file", "deep");
	char path[256];

	snprintf(path, sizeof(path), "%s/link", g_dir);
	ck_assert_int_eq(symlink("sub/file", path), 0);
	snprintf(path, sizeof(path), "%s/fifo", g_dir);
	ck_assert_int_eq(mkfifo(path, 0644), 0);
}

static void teardown_tree(void)
{
	char cmd[128];

	mnt_ns_put(g_ns);
	if (g_gofer > 0) {
		kill(g_gofer, SIGKILL);
		waitpid(g_gofer, NULL, 0);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_dir);
	ck_assert_int_eq(system(cmd), 0);
}

START_TEST(exclusive_tree)
{
	struct linux_stat st;
	struct names n;

	start_gofer("ro\texclusive");
	mount_it(1);
	check_text("/hello", "hello, world\n");
	check_text("/link", "in sub");
	check_text("/sub/deep/file", "deep");
	ck_assert_int_eq(stat_of("/sub/secret/key", &st), -ENOENT);
	ck_assert_int_eq(stat_of("/sub/secret", &st), -ENOENT);
	ck_assert_int_eq(stat_of("/nothing", &st), -ENOENT);
	ck_assert_int_eq(stat_of("/fifo", &st), 0);
	ck_assert(S_ISFIFO(st.mode));
	list_dir("/", &n);
	ck_assert_msg(n.count == 6, "%s", n.text);
	list_dir("/sub", &n);
	ck_assert_msg(n.count == 4, "%s", n.text);
	ck_assert_ptr_null(strstr(n.text, "secret"));

	/* Everything again, and more misses: not a single message. */
	uint64_t before = goferfs_messages(g_conn);

	check_text("/hello", "hello, world\n");
	check_text("/link", "in sub");
	check_text("/sub/deep/file", "deep");
	list_dir("/sub", &n);
	for (int i = 0; i < 50; i++) {
		char name[32];

		snprintf(name, sizeof(name), "/sub/lib%d.so", i);
		ck_assert_int_eq(stat_of(name, &st), -ENOENT);
	}
	ck_assert_int_eq(stat_of("/sub/file", &st), 0);
	ck_assert_int_eq(st.size, 6);
	char cap[32];
	struct path p;

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/hello", 0, &p), 0);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "security.capability", cap, sizeof(cap)),
			 -ENODATA);
	path_put(p);
	ck_assert_int_eq(goferfs_messages(g_conn) - before, 0);

	ck_assert_int_eq(PTR_ERR(open_at("/hello", O_WRONLY)), -EROFS);
	ck_assert_int_eq(PTR_ERR(open_at("/new", O_WRONLY | O_CREAT)), -EROFS);
	teardown_tree();
}
END_TEST

/* Who walks a tree gets its listings in few messages, and all of them. */
START_TEST(walks_ahead)
{
	struct names n;
	char name[64];

	make_dir("tree");
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "tree/%d", i);
		make_dir(name);
		for (int j = 0; j < 3; j++) {
			snprintf(name, sizeof(name), "tree/%d/%d", i, j);
			make_dir(name);
			snprintf(name, sizeof(name), "tree/%d/%d/leaf", i, j);
			put(name, "leaf");
		}
	}
	start_gofer("ro\texclusive");
	mount_it(1);
	uint64_t before = goferfs_messages(g_conn);

	list_dir("/tree", &n);
	ck_assert_int_eq(n.count, 42);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "/tree/%d", i);
		list_dir(name, &n);
		ck_assert_int_eq(n.count, 5);
		for (int j = 0; j < 3; j++) {
			snprintf(name, sizeof(name), "/tree/%d/%d", i, j);
			list_dir(name, &n);
			ck_assert_int_eq(n.count, 3);
			ck_assert_ptr_nonnull(strstr(n.text, "leaf"));
		}
	}
	ck_assert_uint_lt(goferfs_messages(g_conn) - before, 60); /* of 161 directories */
	check_text("/tree/39/2/leaf", "leaf");
	teardown_tree();
}
END_TEST

static void write_text(const char *path, uint64_t flags, const char *text)
{
	struct file *f = open_at(path, flags);
	struct uio u;

	ck_assert_msg(!IS_ERR(f), "%s: %ld", path, PTR_ERR(f));
	uio_init_kernel(&u, (void *)(uintptr_t)text, strlen(text));
	ck_assert_int_eq(file_write(f, &u, UINT64_MAX), (int)strlen(text));
	file_put(f);
}

static void host_text(const char *name, const char *want)
{
	char path[256], buf[256] = { 0 };

	snprintf(path, sizeof(path), "%s/%s", g_dir, name);
	int fd = open(path, O_RDONLY);

	ck_assert_msg(fd >= 0, "%s: %d", name, errno);
	ck_assert_int_ge(read(fd, buf, sizeof(buf) - 1), 0);
	ck_assert_str_eq(buf, want);
	close(fd);
}

static void change_things(void)
{
	struct linux_stat st;
	struct names n;
	struct path p;
	char buf[128];

	write_text("/new", O_WRONLY | O_CREAT | O_EXCL, "first");
	host_text("new", "first");
	write_text("/new", O_WRONLY | O_APPEND, " second");
	host_text("new", "first second");
	check_text("/new", "first second");
	ck_assert_int_eq(stat_of("/new", &st), 0);
	ck_assert_int_eq(st.size, 12);
	ck_assert_int_eq(st.mode & 07777, 0644);
	write_text("/new", O_WRONLY | O_TRUNC, "x");
	host_text("new", "x");

	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/d", 0777), 0);
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/d", 0777), -EEXIST);
	write_text("/d/a", O_WRONLY | O_CREAT, "aa");
	ck_assert_int_eq(vfs_linkat(&g_ctx, NULL, "/d/a", NULL, "/d/b", 0), 0);
	ck_assert_int_eq(stat_of("/d/b", &st), 0);
	ck_assert_int_eq(st.nlink, 2);
	ck_assert_int_eq(vfs_symlinkat(&g_ctx, "d/a", NULL, "/s"), 0);
	check_text("/s", "aa");
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/d/a", NULL, "/moved", 0), 0);
	host_text("moved", "aa");
	ck_assert_int_eq(stat_of("/d/a", &st), -ENOENT);
	check_text("/moved", "aa");
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/moved", NULL, "/new", RENAME_EXCHANGE), 0);
	host_text("new", "aa");
	host_text("moved", "x");
	check_text("/new", "aa");
	list_dir("/d", &n);
	ck_assert_msg(n.count == 3, "%s", n.text);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 1), -ENOTEMPTY);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d/b", 0), 0);
	list_dir("/d", &n);
	ck_assert_msg(n.count == 2, "%s", n.text);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/d", 1), 0);
	ck_assert_int_eq(stat_of("/d", &st), -ENOENT);

	ck_assert_int_eq(vfs_lookup(&g_ctx, NULL, "/new", 0, &p), 0);
	ck_assert_int_eq(vfs_chmod(&g_ctx, p, 04711), 0);
	ck_assert_int_eq(vfs_setxattr(&g_ctx, p, "user.k", "v", 1, 0), 0);
	ck_assert_int_eq(vfs_getxattr(&g_ctx, p, "user.k", buf, sizeof(buf)), 1);
	ck_assert_int_eq(vfs_listxattr(&g_ctx, p, buf, sizeof(buf)), 7);
	ck_assert_str_eq(buf, "user.k");
	ck_assert_int_eq(vfs_removexattr(&g_ctx, p, "user.k"), 0);
	ck_assert_int_eq(vfs_chown(&g_ctx, p, 5, 6), 0);
	ck_assert_int_eq(vfs_truncate(&g_ctx, p, 100), 0);
	struct linux_timespec ts[2] = { { 11, 22 }, { 33, 44 } };

	ck_assert_int_eq(vfs_utimens(&g_ctx, p, ts), 0);
	path_put(p);
	snprintf(buf, sizeof(buf), "%s/new", g_dir);
	struct stat hs;

	ck_assert_int_eq(stat(buf, &hs), 0);
	ck_assert_int_eq(hs.st_size, 100);
	ck_assert_int_eq(hs.st_uid, 5);
	ck_assert_int_eq(hs.st_gid, 6);
	ck_assert_int_eq(hs.st_mtim.tv_sec, 33);
	ck_assert_int_eq(hs.st_atim.tv_nsec, 22);
	ck_assert_int_eq(stat_of("/new", &st), 0);
	ck_assert_int_eq(st.uid, 5);
	ck_assert_int_eq(st.size, 100);
	ck_assert_int_eq(st.mtime.sec, 33);

	/* A removed file lives on while it is open. */
	struct file *f = open_at("/moved", O_RDWR);

	ck_assert(!IS_ERR(f));
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/moved", 0), 0);
	ck_assert_int_eq(file_kread(f, buf, sizeof(buf), 0), 1);
	ck_assert_int_eq(vfs_ftruncate(f, 7), 0);
	ck_assert_int_eq(vfs_getattr(f->path, &st), 0);
	ck_assert_int_eq(st.size, 7);
	ck_assert_int_eq(st.nlink, 0);
	file_put(f);
	ck_assert_int_eq(PTR_ERR(open_at("/moved", O_RDONLY)), -ENOENT);

	/* Hidden names can neither be made nor moved out of the way. */
	ck_assert_int_eq(vfs_mkdirat(&g_ctx, NULL, "/sub/secret", 0777), -EACCES);
	ck_assert_int_eq(vfs_renameat2(&g_ctx, NULL, "/sub", NULL, "/sub2", 0), -EBUSY);
	ck_assert_int_eq(vfs_mknodat(&g_ctx, NULL, "/pipe", S_IFIFO | 0644, 0), 0);
	ck_assert_int_eq(vfs_mknodat(&g_ctx, NULL, "/dev", S_IFCHR | 0644, 0x103), -EPERM);
	ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, "/pipe", 0), 0);
}

START_TEST(writable_exclusive)
{
	start_gofer("rw\texclusive");
	mount_it(1);
	change_things();
	teardown_tree();
}
END_TEST

START_TEST(writable_shared)
{
	start_gofer("rw\t");
	mount_it(0);
	change_things();
	teardown_tree();
}
END_TEST

/* What others do on the host shows at the next open, lookup or listing. */
START_TEST(shared_sees_changes)
{
	struct linux_stat st;
	struct names n;
	char path[256], path2[256];

	start_gofer("rw\t");
	mount_it(0);
	check_text("/hello", "hello, world\n");
	put("hello", "changed");
	check_text("/hello", "changed");
	ck_assert_int_eq(stat_of("/later", &st), -ENOENT);
	put("later", "l");
	ck_assert_int_eq(stat_of("/later", &st), 0);
	snprintf(path, sizeof(path), "%s/later", g_dir);
	snprintf(path2, sizeof(path2), "%s/hello", g_dir);
	ck_assert_int_eq(rename(path, path2), 0);
	check_text("/hello", "l");
	ck_assert_int_eq(stat_of("/later", &st), -ENOENT);
	list_dir("/", &n);
	ck_assert_msg(n.count == 6, "%s", n.text);
	ck_assert_int_eq(unlink(path2), 0);
	ck_assert_int_eq(PTR_ERR(open_at("/hello", O_RDONLY)), -ENOENT);
	list_dir("/", &n);
	ck_assert_msg(n.count == 5, "%s", n.text);

	/* Two who append to one file lose nothing. */
	put("log", "host ");
	struct file *f = open_at("/log", O_WRONLY | O_APPEND);
	int fd = open((snprintf(path, sizeof(path), "%s/log", g_dir), path), O_WRONLY | O_APPEND);

	for (int i = 0; i < 3; i++) {
		struct uio u;

		uio_init_kernel(&u, (void *)(uintptr_t) "guest ", 6);
		ck_assert_int_eq(file_write(f, &u, UINT64_MAX), 6);
		ck_assert_int_eq(write(fd, "host ", 5), 5);
	}
	close(fd);
	file_put(f);
	host_text("log", "host guest host guest host guest host ");
	teardown_tree();
}
END_TEST

/* Threads that all wait for replies at once, on trees that ask for every step. */
#define THREADS 8
#define ROUNDS	300

static void *hammer(void *arg)
{
	long me = (long)arg;
	struct linux_stat st;
	char name[64];

	for (int i = 0; i < ROUNDS; i++) {
		check_text("/sub/deep/file", "deep");
		snprintf(name, sizeof(name), "/sub/t%ld-%d", me, i % 7);
		write_text(name, O_WRONLY | O_CREAT, "mine");
		check_text(name, "mine");
		ck_assert_int_eq(stat_of("/nothing/at/all", &st), -ENOENT);
		if (i % 2)
			ck_assert_int_eq(vfs_unlinkat(&g_ctx, NULL, name, 0), 0);
	}
	return NULL;
}

static void hammer_all(void)
{
	pthread_t t[THREADS];

	for (long i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, hammer, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

START_TEST(threads_shared)
{
	start_gofer("rw\t");
	mount_it(0);
	hammer_all();
	teardown_tree();
}
END_TEST

START_TEST(threads_exclusive)
{
	start_gofer("rw\texclusive");
	mount_it(1);
	hammer_all();
	teardown_tree();
}
END_TEST

static int g_died;

static void died(void *arg)
{
	(void)arg;
	__atomic_store_n(&g_died, 1, __ATOMIC_SEQ_CST);
}

/* The gofer's death is noticed, told once, and what is cached still works. */
START_TEST(gofer_dies)
{
	struct linux_stat st;

	start_gofer("ro\texclusive");
	mount_it(1);
	goferfs_on_death(g_conn, died, NULL);
	check_text("/hello", "hello, world\n");
	ck_assert_int_eq(stat_of("/nothing", &st), -ENOENT);
	log_setup(-1, LOG_ERROR, "test");
	kill(g_gofer, SIGKILL);
	waitpid(g_gofer, NULL, 0);
	g_gofer = 0;
	ck_assert_int_eq(PTR_ERR(open_at("/sub/deep/file", O_RDONLY)), -EIO);
	ck_assert_int_eq(g_died, 1);
	check_text("/hello", "hello, world\n");
	teardown_tree();
}
END_TEST

/* ---- a gofer that lies ---- */

struct liar {
	int sock;
	uint32_t type; /* the request it lies about */
	int how;
};

#define LIES 9

static void *lie(void *arg)
{
	struct liar *l = arg;
	static const uint8_t zero[256];

	for (;;) {
		uint8_t in[4096], out[4096];
		struct gofer_attr a = { .dev = 1, .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 };
		struct gofer_hdr h;
		struct wire_out o;

		if (recv(l->sock, in, sizeof(in), 0) < (ssize_t)sizeof(h))
			return NULL;
		memcpy(&h, in, sizeof(h));
		wire_out_init(&o, out + sizeof(h), sizeof(out) - sizeof(h));
		switch (h.type) {
		case GOFER_HELLO:
			wire_put_u32(&o, GOFER_VERSION);
			wire_put_u32(&o, GOFER_MSG_MAX);
			break;
		case GOFER_ATTACH:
			wire_put_u32(&o, 1);
			wire_put_u32(&o, 0);
			wire_put(&o, &a, sizeof(a));
			break;
		case GOFER_WALK:
			wire_put_u32(&o, 1);
			wire_put_u32(&o, 0);
			wire_put_u32(&o, 2);
			a.ino = 2;
			a.mode = S_IFREG | 0644;
			wire_put(&o, &a, sizeof(a));
			break;
		default:
			break;
		}
		h.flags = GOFER_F_REPLY;
		h.size = (uint32_t)(sizeof(h) + o.len);
		if (h.type == l->type)
			switch (l->how) {
			case 0: /* too short */
				h.size -= 1;
				break;
			case 1: /* longer than it says */
				wire_put(&o, zero, 4);
				break;
			case 2: /* for somebody else */
				h.tag += 1000;
				break;
			case 3: /* another message */
				h.type ^= 1;
				break;
			case 4: /* an fd that is not there */
				h.flags |= GOFER_F_FD;
				break;
			case 5: /* no body */
				h.size = sizeof(h);
				break;
			case 6: /* errors are negative */
				h.error = 5;
				break;
			case 7: /* not even a header */
				h.size = 3;
				break;
			case 8: /* nonsense of the right size */
				memset(out + sizeof(h), 0xff, o.len);
				break;
			}
		memcpy(out, &h, sizeof(h));
		size_t n = h.type == l->type && l->how == 1 ? sizeof(h) + o.len : h.size;

		if (h.type != l->type && l->how == 3)
			n = h.size;
		if (send(l->sock, out, n, MSG_NOSIGNAL) < 0)
			return NULL;
	}
}

/* Mounts from the liar; what it lies about fails, once and for all. */
static void see_through(uint32_t type)
{
	struct goferfs_boot gb = { .conn = g_conn };
	struct linux_stat st;

	g_vfs = vfs_new();
	goferfs_on_death(g_conn, died, NULL);
	g_died = 0;
	struct superblock *sb = g_goferfs_type.mount(g_vfs, "root", 0, "", &gb);

	if (type == GOFER_ATTACH) {
		ck_assert(IS_ERR(sb));
		vfs_destroy(g_vfs);
		return;
	}
	ck_assert(!IS_ERR(sb));
	sb_put(sb);
	vfs_destroy(g_vfs);
	mount_it(0);
	int err = (int)stat_of("/x", &st);

	if (type == GOFER_OPEN) {
		ck_assert_int_eq(err, 0);
		err = (int)PTR_ERR(open_at("/x", O_RDONLY));
	}
	ck_assert_int_eq(err, -EIO);
	ck_assert_int_eq(g_died, 1);
}

START_TEST(lying_gofer)
{
	static const uint32_t types[] = { GOFER_HELLO, GOFER_ATTACH, GOFER_WALK, GOFER_OPEN };
	struct liar l = { .type = types[_i / LIES], .how = _i % LIES };
	pthread_t t;
	int sv[2];

	log_setup(-1, LOG_ERROR, "test");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	l.sock = sv[1];
	ck_assert_int_eq(pthread_create(&t, NULL, lie, &l), 0);
	g_conn = goferfs_connect(sv[0]);
	if (l.type == GOFER_HELLO)
		ck_assert(IS_ERR(g_conn));
	else
		see_through(l.type);
	shutdown(sv[0], SHUT_RDWR);
	pthread_join(t, NULL);
}
END_TEST

int main(void)
{
	char bin[1100];
	Suite *s = suite_create("goferfs");
	TCase *tc = tcase_create("goferfs");

	if (!have_binary(bin, sizeof(bin))) {
		printf("skipped: %s is not built\n", bin);
		suite_add_tcase(s, tc);
		srunner_free(srunner_create(s));
		return 0;
	}
	tcase_add_checked_fixture(tc, setup_tree, NULL);
	tcase_add_test(tc, exclusive_tree);
	tcase_add_test(tc, walks_ahead);
	tcase_add_test(tc, writable_exclusive);
	tcase_add_test(tc, writable_shared);
	tcase_add_test(tc, shared_sees_changes);
	tcase_add_test(tc, threads_shared);
	tcase_add_test(tc, threads_exclusive);
	tcase_add_test(tc, gofer_dies);
	tcase_add_loop_test(tc, lying_gofer, 0, 4 * LIES);
	tcase_set_timeout(tc, 30);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);

	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);

	srunner_free(sr);
	return failed != 0;
}
