/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of pipes, epoll, event files and terminals share: a VFS, and I/O on files. */
#ifndef CAISSON_TEST_FILES_KIT_H
#define CAISSON_TEST_FILES_KIT_H

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/base/hash.h"
#include "vfs/vfs.h"

static struct vfs *g_vfs;
static struct cred *g_cred;   /* root */
static struct cred *g_nobody; /* no capabilities */

static inline void kit_setup(void)
{
	hash_seed(1);
	g_vfs = vfs_new();
	ck_assert_ptr_nonnull(g_vfs);
	g_cred = cred_new(0, 0, CAP_ALL_MASK);
	g_nobody = cred_new(1000, 1000, 0);
}

static inline void kit_teardown(void)
{
	cred_put(g_cred);
	cred_put(g_nobody);
	vfs_destroy(g_vfs);
}

static inline ssize_t kread(struct file *f, void *buf, size_t n)
{
	struct uio u;

	uio_init_kernel(&u, buf, n);
	return file_read(f, &u);
}

static inline ssize_t kwrite(struct file *f, const void *buf, size_t n)
{
	struct uio u;

	uio_init_kernel(&u, (void *)(uintptr_t)buf, n);
	return file_write(f, &u, UINT64_MAX);
}

static inline int kit_in(struct ioctl_req *r, void *dst, uint64_t gaddr, size_t n)
{
	memcpy(dst, (void *)(uintptr_t)gaddr, n);
	return 0;
}

static inline int kit_out(struct ioctl_req *r, uint64_t gaddr, const void *src, size_t n)
{
	memcpy((void *)(uintptr_t)gaddr, src, n);
	return 0;
}

static inline long kioctl(struct file *f, uint32_t cmd, void *arg)
{
	struct ioctl_req r = { .cmd = cmd, .arg = (uint64_t)(uintptr_t)arg, .copy_in = kit_in,
			       .copy_out = kit_out };

	return file_ioctl(f, &r);
}

/* Counts wakes; its poll events are in seen. */
struct probe {
	struct poll_table pt;
	struct waiter w[4];
	int queues, wakes;
	uint32_t seen;
};

static inline int probe_wake(struct waiter *w, uint32_t events)
{
	struct probe *p = w->priv;

	__atomic_fetch_add(&p->wakes, 1, __ATOMIC_SEQ_CST);
	p->seen |= events;
	return 1;
}

static inline void probe_add(struct poll_table *pt, struct waitq *q)
{
	struct probe *p = container_of(pt, struct probe, pt);

	waiter_init(&p->w[p->queues], ~0u, probe_wake, p);
	waitq_add(q, &p->w[p->queues++]);
}

static inline uint32_t probe_start(struct probe *p, struct file *f)
{
	memset(p, 0, sizeof(*p));
	p->pt.add = probe_add;
	return file_poll(f, &p->pt);
}

static inline void probe_stop(struct probe *p)
{
	while (p->queues)
		waitq_del(&p->w[--p->queues]);
}

static inline int kit_run(const char *name, void (*add)(TCase *tc))
{
	Suite *s = suite_create(name);
	TCase *tc = tcase_create(name);
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, kit_setup, kit_teardown);
	add(tc);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}

#endif
