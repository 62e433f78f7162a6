/* SPDX-License-Identifier: Apache-2.0 */
/* The fake platform: simulated memory, scripts, sticky interrupts, no leaks. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/fake/fake.h"

static struct platform *g_plat;
static struct addrspace *g_as;
static struct context *g_c;

static void setup(void)
{
	struct platform_options opt = { .name = "fake" };

	ck_assert_int_eq(platform_start(&opt, &g_plat), 0);
	ck_assert_int_eq(addrspace_new(g_plat, &g_as, &g_c), 0);
}

static void teardown(void)
{
	context_put(g_c);
	addrspace_put(g_as);
	ck_assert_uint_eq(fake_addrspaces(g_plat), 0);
	ck_assert_uint_eq(fake_contexts(g_plat), 0);
	platform_stop(g_plat);
}

static int map(uint64_t addr, uint64_t len, int prot, int flags)
{
	struct mem_op op = { .kind = MEM_MAP, .addr = addr, .len = len, .prot = prot,
			     .flags = flags | MAP_ANONYMOUS, .fd = -1 };

	return context_mem(g_c, &op, 1, NULL);
}

START_TEST(memory_has_pages_and_protections)
{
	static char buf[0x3000];
	struct mem_op op = { .kind = MEM_PROTECT, .addr = 0x11000, .len = 0x1000, .prot = PROT_READ };

	ck_assert_int_eq(map(0x10000, 0x2000, PROT_READ | PROT_WRITE, MAP_PRIVATE), 0);
	ck_assert_int_eq(addrspace_write(g_as, gaddr(0x10ffe), "abcd", 4), 4);
	ck_assert_int_eq(context_mem(g_c, &op, 1, NULL), 0);
	ck_assert_int_eq(addrspace_write(g_as, gaddr(0x10ffe), "wxyz", 4), 2);
	ck_assert_int_eq(addrspace_read(g_as, gaddr(0x10000), buf, sizeof(buf)), 0x2000);
	ck_assert_int_eq(memcmp(buf + 0xffe, "wxcd", 4), 0);
	ck_assert_int_eq(addrspace_read(g_as, gaddr(0x12000), buf, 1), -EFAULT);
	op = (struct mem_op){ .kind = MEM_REMAP, .addr = 0x10000, .len = 0x2000, .addr2 = 0x40000,
			      .len2 = 0x3000 };
	ck_assert_int_eq(context_mem(g_c, &op, 1, NULL), 0);
	ck_assert_int_eq(addrspace_read(g_as, gaddr(0x10000), buf, 1), -EFAULT);
	ck_assert_int_eq(addrspace_read(g_as, gaddr(0x40ffe), buf, 4), 4);
	ck_assert_int_eq(memcmp(buf, "wxcd", 4), 0);
	op = (struct mem_op){ .kind = MEM_UNMAP, .addr = 0x41000, .len = 0x1000 };
	ck_assert_int_eq(context_mem(g_c, &op, 1, NULL), 0);
	op = (struct mem_op){ .kind = MEM_ADVISE, .addr = 0x40000, .len = 0x3000,
			      .flags = MADV_DONTNEED };
	ck_assert_int_eq(context_mem(g_c, &op, 1, NULL), -ENOMEM);
	op.addr = GUEST_TASK_SIZE;
	ck_assert_int_eq(context_mem(g_c, &op, 1, NULL), -EINVAL);
}
END_TEST

START_TEST(fork_copies_private_and_shares_shared)
{
	struct addrspace *as;
	struct context *c;
	char v;

	ck_assert_int_eq(map(0x10000, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE), 0);
	ck_assert_int_eq(map(0x20000, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED), 0);
	ck_assert_int_eq(addrspace_write(g_as, gaddr(0x10000), "a", 1), 1);
	ck_assert_int_eq(addrspace_fork(g_c, &as, &c), 0);
	ck_assert_int_eq(addrspace_write(g_as, gaddr(0x10000), "b", 1), 1);
	ck_assert_int_eq(addrspace_write(g_as, gaddr(0x20000), "c", 1), 1);
	ck_assert_int_eq(addrspace_read(as, gaddr(0x10000), &v, 1), 1);
	ck_assert_int_eq(v, 'a');
	ck_assert_int_eq(addrspace_read(as, gaddr(0x20000), &v, 1), 1);
	ck_assert_int_eq(v, 'c');
	context_put(c);
	addrspace_put(as);
}
END_TEST

START_TEST(compare_exchange_needs_a_writable_page)
{
	uint32_t old = 9;

	ck_assert_int_eq(map(0x10000, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE), 0);
	ck_assert_int_eq(map(0x20000, 0x1000, PROT_READ, MAP_PRIVATE), 0);
	ck_assert_int_eq(context_cmpxchg32(g_c, gaddr(0x10004), 0, 5, &old), 0);
	ck_assert_uint_eq(old, 0);
	ck_assert_int_eq(context_cmpxchg32(g_c, gaddr(0x10004), 0, 6, &old), 0);
	ck_assert_uint_eq(old, 5);
	ck_assert_int_eq(context_cmpxchg32(g_c, gaddr(0x20000), 0, 6, &old), -EFAULT);
	ck_assert_int_eq(context_cmpxchg32(g_c, gaddr(0x10002), 0, 6, &old), -EINVAL);
}
END_TEST

static void script(struct context *c, struct user_regs_struct *regs, struct platform_event *ev,
		   void *priv)
{
	(void)c;
	ev->kind = EVENT_SYSCALL;
	regs->rax = regs->orig_rax = (unsigned long)++*(int *)priv;
}

START_TEST(scripts_drive_contexts_and_interrupts_stick)
{
	struct user_regs_struct regs = { 0 };
	struct platform_event ev;
	int n = 0;

	context_switch(g_c, &regs, &ev);
	ck_assert_int_eq(ev.kind, EVENT_EXITED);
	fake_set_script(g_plat, script, &n);
	context_switch(g_c, &regs, &ev);
	ck_assert_int_eq(ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(regs.orig_rax, 1);
	context_interrupt(g_c);
	context_switch(g_c, &regs, &ev);
	ck_assert_int_eq(ev.kind, EVENT_INTERRUPTED);
	context_interrupt(g_c);
	context_interrupt_clear(g_c);
	context_switch(g_c, &regs, &ev);
	ck_assert_uint_eq(regs.orig_rax, 2);
	addrspace_kill(g_as);
	context_switch(g_c, &regs, &ev);
	ck_assert_int_eq(ev.kind, EVENT_EXITED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fake");
	TCase *t = tcase_create("fake");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, memory_has_pages_and_protections);
	tcase_add_test(t, fork_copies_private_and_shares_shared);
	tcase_add_test(t, compare_exchange_needs_a_writable_page);
	tcase_add_test(t, scripts_drive_contexts_and_interrupts_stick);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? 1 : 0;
}
