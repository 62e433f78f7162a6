/* SPDX-License-Identifier: Apache-2.0 */
/* systrap: events, registers, memory, threads and processes, seen through platform.h. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "tests/unit/platform/guest_code.h"

static void setup(void)
{
	struct platform_options opt = { .name = "systrap" };

	log_setup(2, LOG_WARN, "test");
	ck_assert_int_eq(platform_start(&opt, &g_plat), 0);
}

static void teardown(void)
{
	platform_stop(g_plat);
}

START_TEST(a_syscall_is_an_event_and_its_result_arrives)
{
	struct guest g;

	guest_new(&g);
	g.regs.rax = 39;
	guest_run(&g, AT(syscall_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.ev.foreign_abi, 0);
	ck_assert_uint_eq(g.regs.orig_rax, 39);
	ck_assert_uint_eq(g.regs.rax, 39);
	ck_assert_uint_eq(g.regs.rip, AT(syscall_loop) + 2);
	/* The result is what the guest has in rax, and so the next call's number. */
	g.regs.rax = 1234;
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.regs.orig_rax, 1234);
	guest_free(&g);
}
END_TEST

START_TEST(numbers_that_look_like_restart_codes_pass_unharmed)
{
	static const int64_t numbers[] = { -1, -4, -512, -513, -514, -516, 0x40000001, 1 << 29 };

	struct guest g;

	guest_new(&g);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		g.regs.rax = (uint64_t)numbers[i];
		guest_run(&g, AT(syscall_loop));
		ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
		ck_assert_int_eq((int64_t)g.regs.orig_rax, numbers[i]);
		ck_assert_uint_eq(g.regs.rip, AT(syscall_loop) + 2);
		ck_assert_uint_eq(g.ev.foreign_abi, numbers[i] == 0x40000001);
	}
	guest_free(&g);
}
END_TEST

START_TEST(registers_survive_a_syscall)
{
	struct guest g;

	guest_new(&g);
	guest_regs(&g.regs, AT(syscall_loop));
	uint64_t *r = (uint64_t *)&g.regs;
	struct user_regs_struct want;

	for (size_t i = 0; i < 15; i++)
		r[i] = 0x1111111111111111ull * (i + 1) % 0x7fffffffffffull;
	g.regs.eflags = 0x202 | 0x8d5; /* OF SF ZF AF PF CF */
	want = g.regs;
	for (int i = 0; i < 3; i++) {
		context_switch(g.c, &g.regs, &g.ev);
		ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
		/* rcx and r11 are the syscall instruction's. */
		want.rcx = want.rip = AT(syscall_loop) + 2;
		want.r11 = want.eflags;
		want.orig_rax = want.rax;
		want.cs = g.regs.cs;
		want.ss = g.regs.ss;
		ck_assert_int_eq(memcmp(&want, &g.regs, sizeof(want)), 0);
	}
	/* rcx and r11 given by the sentry arrive too (sigreturn needs it): seen at a #BP. */
	guest_regs(&g.regs, AT(int3));
	g.regs.rcx = 5;
	g.regs.r11 = 6;
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_EXCEPTION);
	ck_assert_uint_eq(g.regs.rcx, 5);
	ck_assert_uint_eq(g.regs.r11, 6);
	guest_free(&g);
}
END_TEST

START_TEST(extended_state_survives_and_can_be_set)
{
	size_t size = platform_xstate_size(g_plat);
	uint8_t *a = calloc(1, size), *b = calloc(1, size);
	struct guest g;

	ck_assert_uint_ge(size, 576);
	guest_new(&g);
	ck_assert_int_eq(context_fpstate_get(g.c, a, size), 0);
	ck_assert_uint_eq(*(uint16_t *)a, 0x37f);
	ck_assert_uint_eq(*(uint32_t *)(a + 24), 0x1f80);
	for (int i = 0; i < 256; i++)
		a[160 + i] = (uint8_t)(i * 7 + 1); /* xmm0 to xmm15 */
	*(uint64_t *)(a + 512) |= 2;
	if (platform_xcr0(g_plat) & 4) { /* upper halves of ymm */
		*(uint64_t *)(a + 512) |= 4;
		memset(a + 576, 0x5a, 256);
	}
	ck_assert_int_eq(context_fpstate_set(g.c, a, size), 0);
	for (int i = 0; i < 4; i++) {
		g.regs.rax = 1;
		guest_run(&g, AT(syscall_loop));
		ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
		ck_assert_int_eq(context_fpstate_get(g.c, b, size), 0);
		ck_assert_int_eq(memcmp(a + 160, b + 160, 256), 0);
		if (platform_xcr0(g_plat) & 4)
			ck_assert_int_eq(memcmp(a + 576, b + 576, 256), 0);
	}
	/* What XRSTOR would refuse is refused. */
	memcpy(b, a, size);
	*(uint32_t *)(b + 24) = 0xffffffff;
	ck_assert_int_eq(context_fpstate_set(g.c, b, size), -EINVAL);
	memcpy(b, a, size);
	*(uint64_t *)(b + 512) = ~0ull;
	ck_assert_int_eq(context_fpstate_set(g.c, b, size), -EINVAL);
	memcpy(b, a, size);
	b[520] = 1;
	ck_assert_int_eq(context_fpstate_set(g.c, b, size), -EINVAL);
	ck_assert_int_eq(context_fpstate_set(g.c, a, 512), 0);
	context_fpstate_reset(g.c);
	guest_run(&g, AT(syscall_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_int_eq(context_fpstate_get(g.c, b, size), 0);
	for (int i = 0; i < 256; i++)
		ck_assert_uint_eq(b[160 + i], 0);
	guest_free(&g);
	free(a);
	free(b);
}
END_TEST

START_TEST(segment_bases_are_loaded_and_reported)
{
	uint64_t words[4] = { 0xabcdef, 0, 0, 0x1234567 };
	struct guest g;

	guest_new(&g);
	ck_assert_int_eq(addrspace_write(g.as, gaddr(DATA), words, sizeof(words)), sizeof(words));
	g.regs.fs_base = DATA;
	g.regs.gs_base = DATA + 16;
	guest_run(&g, AT(segments));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.regs.rax, 0xabcdef);
	ck_assert_uint_eq(g.regs.rbx, 0x1234567);
	ck_assert_uint_eq(g.regs.fs_base, DATA);
	ck_assert_uint_eq(g.regs.gs_base, DATA + 16);
	/* A base that wrfsbase would fault on does no harm. */
	g.regs.fs_base = 0x8000000000000000ull;
	guest_run(&g, AT(syscall_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	guest_free(&g);
}
END_TEST

static void expect_fault(struct guest *g, uint64_t rip, uint64_t rdi, uint64_t at, uint64_t addr,
			 int code, uint32_t access)
{
	g->regs.rdi = rdi;
	guest_run(g, rip);
	ck_assert_int_eq(g->ev.kind, EVENT_FAULT);
	ck_assert_int_eq(g->ev.fault.signo, SIGSEGV);
	ck_assert_int_eq(g->ev.fault.code, code);
	ck_assert_uint_eq(g->ev.fault.addr, addr);
	ck_assert_uint_eq(g->ev.fault.access, access);
	ck_assert_uint_eq(g->regs.rip, at);
}

START_TEST(faults_tell_address_and_access)
{
	const uint64_t hole = 0x700000, bad = 0x8000000000000000ull;
	struct guest g;

	guest_new(&g);
	expect_fault(&g, AT(load), hole + 5, AT(load), hole + 5, SEGV_MAPERR, FAULT_READ);
	ck_assert_uint_eq(g.ev.fault.trapno, 14);
	ck_assert_uint_eq(g.ev.fault.cr2, hole + 5);
	expect_fault(&g, AT(store), hole, AT(store), hole, SEGV_MAPERR, FAULT_WRITE);
	expect_fault(&g, AT(store), CODE, AT(store), CODE, SEGV_ACCERR, FAULT_WRITE);
	expect_fault(&g, AT(jump), DATA, DATA, DATA, SEGV_ACCERR, FAULT_EXEC);
	expect_fault(&g, AT(jump), hole, hole, hole, SEGV_MAPERR, FAULT_EXEC);
	/* Non-canonical: a general protection fault without an address. */
	expect_fault(&g, AT(load), bad, AT(load), 0, SI_KERNEL, 0);
	ck_assert_uint_eq(g.ev.fault.trapno, 13);
	guest_run(&g, bad);
	ck_assert_int_eq(g.ev.kind, EVENT_FAULT);
	ck_assert_int_eq(g.ev.fault.code, SI_KERNEL);
	ck_assert_uint_eq(g.regs.rip, bad);
	/* After all that the guest still works. */
	g.regs.rdi = DATA;
	guest_run(&g, AT(store));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	guest_free(&g);
}
END_TEST

START_TEST(exceptions_have_linux_signals)
{
	struct guest g;

	guest_new(&g);
	guest_run(&g, AT(div));
	ck_assert_int_eq(g.ev.kind, EVENT_EXCEPTION);
	ck_assert_int_eq(g.ev.fault.signo, SIGFPE);
	ck_assert_int_eq(g.ev.fault.code, FPE_INTDIV);
	ck_assert_uint_eq(g.ev.fault.trapno, 0);
	guest_run(&g, AT(ud2));
	ck_assert_int_eq(g.ev.fault.signo, SIGILL);
	ck_assert_int_eq(g.ev.fault.code, ILL_ILLOPN);
	ck_assert_uint_eq(g.ev.fault.addr, AT(ud2));
	guest_run(&g, AT(int3));
	ck_assert_int_eq(g.ev.fault.signo, SIGTRAP);
	ck_assert_uint_eq(g.regs.rip, AT(int3) + 1);
	/* Single step. */
	g.regs.eflags |= 0x100;
	guest_run(&g, AT(busy_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_EXCEPTION);
	ck_assert_int_eq(g.ev.fault.signo, SIGTRAP);
	ck_assert_int_eq(g.ev.fault.code, TRAP_TRACE);
	guest_free(&g);
}
END_TEST

START_TEST(foreign_entries_are_marked)
{
	struct guest g;

	guest_new(&g);
	g.regs.rax = 20;
	guest_run(&g, AT(int80));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.ev.foreign_abi, 1);
	ck_assert_uint_eq(g.regs.rip, AT(int80) + 2);
	guest_run(&g, AT(vsyscall));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.ev.foreign_abi, 0);
	ck_assert_uint_eq(g.regs.orig_rax, 201);
	/* Back behind the call: the next event is that syscall instruction, with our result. */
	uint64_t sp = g.regs.rsp;

	g.regs.rax = 77;
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.regs.orig_rax, 77);
	ck_assert_uint_eq(g.regs.rsp, sp);
	guest_free(&g);
}
END_TEST

static void *interrupt_soon(void *arg)
{
	usleep(20000);
	context_interrupt(arg);
	return NULL;
}

START_TEST(an_interrupt_stops_a_busy_guest_and_is_sticky)
{
	struct guest g;
	pthread_t th;

	guest_new(&g);
	pthread_create(&th, NULL, interrupt_soon, g.c);
	guest_run(&g, AT(busy_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_INTERRUPTED);
	ck_assert_uint_eq(g.regs.rip, AT(busy_loop));
	pthread_join(th, NULL);
	context_interrupt(g.c);
	guest_run(&g, AT(busy_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_INTERRUPTED);
	context_interrupt(g.c);
	context_interrupt_clear(g.c);
	guest_run(&g, AT(syscall_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	guest_free(&g);
}
END_TEST

static void *storm(void *arg)
{
	for (int i = 0; i < 3000; i++)
		context_interrupt(arg);
	return NULL;
}

START_TEST(interrupts_and_syscalls_race_without_loss)
{
	struct guest g;
	pthread_t th;
	uint64_t n = 0;

	guest_new(&g);
	pthread_create(&th, NULL, storm, g.c);
	for (int i = 0; i < 3000; i++) {
		g.regs.rax = n;
		context_switch(g.c, &g.regs, &g.ev);
		if (g.ev.kind == EVENT_SYSCALL) {
			ck_assert_uint_eq(g.regs.orig_rax, n);
			n = (n + 1) % 300; /* 335 and 336 are special, see README.md */
		} else {
			ck_assert_int_eq(g.ev.kind, EVENT_INTERRUPTED);
		}
	}
	pthread_join(th, NULL);
	guest_free(&g);
}
END_TEST

START_TEST(threads_share_memory_and_are_reused)
{
	struct guest g, t;
	struct platform_stats st;

	guest_new(&g);
	for (int i = 0; i < 50; i++) {
		memset(&t, 0, sizeof(t));
		t.as = g.as;
		ck_assert_int_eq(context_clone(g.c, &t.c), 0);
		ck_assert_ptr_eq(context_addrspace(t.c), g.as);
		guest_regs(&t.regs, AT(store));
		t.regs.rdi = DATA + 8;
		t.regs.rax = 500;
		context_switch(t.c, &t.regs, &t.ev);
		ck_assert_int_eq(t.ev.kind, EVENT_SYSCALL);
		ck_assert_uint_eq(t.regs.orig_rax, 500);
		g.regs.rdi = DATA + 8;
		guest_run(&g, AT(load));
		ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
		ck_assert_uint_eq(g.regs.orig_rax, 7);
		uint64_t zero = 0;

		addrspace_write(g.as, gaddr(DATA + 8), &zero, 8);
		context_put(t.c);
	}
	/* More than are parked, so that some exit; then all again. */
	struct context *many[40];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 40; i++)
			ck_assert_int_eq(context_clone(g.c, &many[i]), 0);
		for (int i = 0; i < 40; i++) {
			guest_regs(&t.regs, AT(syscall_loop));
			t.regs.rax = (uint64_t)i;
			context_switch(many[i], &t.regs, &t.ev);
			ck_assert_int_eq(t.ev.kind, EVENT_SYSCALL);
			ck_assert_uint_eq(t.regs.orig_rax, (uint64_t)i);
		}
		for (int i = 0; i < 40; i++)
			context_put(many[i]);
	}
	/* The first thread ends before another one: memory stays readable. */
	ck_assert_int_eq(context_clone(g.c, &t.c), 0);
	context_put(g.c);
	uint64_t v;

	ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA), &v, 8), 8);
	guest_regs(&t.regs, AT(syscall_loop));
	context_switch(t.c, &t.regs, &t.ev);
	ck_assert_int_eq(t.ev.kind, EVENT_SYSCALL);
	context_put(t.c);
	addrspace_put(g.as);
	platform_stats(g_plat, &st);
	ck_assert_uint_gt(st.switches, 100);
}
END_TEST

static void await_stubs(uint32_t want)
{
	struct platform_stats st;

	for (int i = 0; i < 2000; i++) {
		platform_stats(g_plat, &st);
		if (st.stubs == want && st.pool_ready == 2)
			return;
		usleep(1000);
	}
	ck_abort_msg("%u stubs are left, not %u", st.stubs, want);
}

START_TEST(fork_copies_memory_and_state)
{
	size_t size = platform_xstate_size(g_plat);
	uint8_t *fp = calloc(1, size), *fp2 = calloc(1, size);
	struct guest g, child, grand;
	uint64_t v = 1;

	guest_new(&g);
	addrspace_write(g.as, gaddr(DATA), &v, 8);
	ck_assert_int_eq(context_fpstate_get(g.c, fp, size), 0);
	memset(fp + 160, 0x77, 256);
	*(uint64_t *)(fp + 512) |= 2;
	ck_assert_int_eq(context_fpstate_set(g.c, fp, size), 0);
	memset(&child, 0, sizeof(child));
	ck_assert_int_eq(addrspace_fork(g.c, &child.as, &child.c), 0);
	ck_assert_int_eq(context_fpstate_get(child.c, fp2, size), 0);
	ck_assert_int_eq(memcmp(fp + 160, fp2 + 160, 256), 0);
	v = 2;
	addrspace_write(g.as, gaddr(DATA), &v, 8);
	ck_assert_int_eq(addrspace_read(child.as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 1);
	/* Both run; the child writes, the parent does not see it. */
	guest_regs(&child.regs, AT(store));
	child.regs.rdi = DATA;
	context_switch(child.c, &child.regs, &child.ev);
	ck_assert_int_eq(child.ev.kind, EVENT_SYSCALL);
	ck_assert_int_eq(context_fpstate_get(child.c, fp2, size), 0);
	ck_assert_int_eq(memcmp(fp + 160, fp2 + 160, 256), 0);
	g.regs.rdi = DATA;
	guest_run(&g, AT(load));
	ck_assert_uint_eq(g.regs.orig_rax, 2);
	/* A child of the child, which outlives it. */
	memset(&grand, 0, sizeof(grand));
	ck_assert_int_eq(addrspace_fork(child.c, &grand.as, &grand.c), 0);
	guest_free(&child);
	guest_regs(&grand.regs, AT(load));
	grand.regs.rdi = DATA;
	context_switch(grand.c, &grand.regs, &grand.ev);
	ck_assert_int_eq(grand.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(grand.regs.orig_rax, 7);
	/* It can map and clone on its own. */
	guest_map(grand.c, 0x10000000, 0x10000, PROT_READ | PROT_WRITE);
	struct context *t;

	ck_assert_int_eq(context_clone(grand.c, &t), 0);
	context_put(t);
	guest_free(&grand);
	guest_free(&g);
	await_stubs(3); /* the zygote and the pool */
	free(fp);
	free(fp2);
}
END_TEST

START_TEST(mappings_of_files_and_their_changes)
{
	int fd = memfd_create("test", 0);
	char text[4096 * 4], back[16];
	struct guest g;
	struct mem_op op = { .kind = MEM_MAP, .addr = 0x20000000, .len = 0x4000,
			     .prot = PROT_READ | PROT_WRITE, .flags = MAP_SHARED, .fd = fd };

	memset(text, 'x', sizeof(text));
	memcpy(text + 4096, "second page", 12);
	ck_assert_int_eq(write(fd, text, sizeof(text)), sizeof(text));
	guest_new(&g);
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(0x20001000), back, 12), 12);
	ck_assert_str_eq(back, "second page");
	g.regs.rdi = 0x20002000;
	guest_run(&g, AT(store));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_int_eq(pread(fd, back, 8, 0x2000), 8);
	ck_assert_uint_eq(*(uint64_t *)back, 7);
	/* A private mapping at an offset keeps its writes. */
	op = (struct mem_op){ .kind = MEM_MAP, .addr = 0x21000000, .len = 0x1000, .off = 0x1000,
			      .prot = PROT_READ | PROT_WRITE, .flags = MAP_PRIVATE, .fd = fd };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	g.regs.rdi = 0x21000000;
	guest_run(&g, AT(store));
	ck_assert_int_eq(pread(fd, back, 12, 0x1000), 12);
	ck_assert_str_eq(back, "second page");
	/* Move it, protect it, drop it; a file cut short is SIGBUS. */
	op = (struct mem_op){ .kind = MEM_REMAP, .addr = 0x20000000, .len = 0x4000,
			      .addr2 = 0x30000000, .len2 = 0x3000 };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	expect_fault(&g, AT(load), 0x20000000, AT(load), 0x20000000, SEGV_MAPERR, FAULT_READ);
	op = (struct mem_op){ .kind = MEM_PROTECT, .addr = 0x30000000, .len = 0x3000,
			      .prot = PROT_READ };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	expect_fault(&g, AT(store), 0x30000000, AT(store), 0x30000000, SEGV_ACCERR, FAULT_WRITE);
	op.prot = PROT_READ | PROT_WRITE;
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	guest_run(&g, AT(store));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_int_eq(ftruncate(fd, 0x1000), 0);
	g.regs.rdi = 0x30002000;
	guest_run(&g, AT(load));
	ck_assert_int_eq(g.ev.kind, EVENT_FAULT);
	ck_assert_int_eq(g.ev.fault.signo, SIGBUS);
	ck_assert_int_eq(g.ev.fault.code, BUS_ADRERR);
	uint8_t vec[3] = { 9, 9, 9 };

	op = (struct mem_op){ .kind = MEM_INCORE, .addr = 0x30000000, .len = 0x3000, .buf = vec };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	ck_assert_uint_eq(vec[0] & 1, 1);
	op = (struct mem_op){ .kind = MEM_SYNC, .addr = 0x30000000, .len = 0x1000, .flags = MS_SYNC };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	op = (struct mem_op){ .kind = MEM_UNMAP, .addr = 0x30000000, .len = 0x3000 };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(0x30000000), back, 1), -EFAULT);
	/* Orders that the contract refuses, and one the host refuses, with the rest not done. */
	op = (struct mem_op){ .kind = MEM_UNMAP, .addr = GUEST_TASK_SIZE - 0x1000, .len = 0x2000 };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), -EINVAL);
	struct mem_op ops[3] = {
		{ .kind = MEM_MAP, .addr = 0x40000000, .len = 0x1000, .prot = PROT_READ,
		  .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = -1 },
		{ .kind = MEM_PROTECT, .addr = 0x50000000, .len = 0x1000, .prot = PROT_READ },
		{ .kind = MEM_UNMAP, .addr = 0x40000000, .len = 0x1000 },
	};
	size_t done = 9;

	ck_assert_int_eq(context_mem(g.c, ops, 3, &done), -ENOMEM);
	ck_assert_uint_eq(done, 1);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(0x40000000), back, 1), 1);
	guest_free(&g);
	close(fd);
}
END_TEST

START_TEST(long_lists_of_orders_are_done_in_order)
{
	enum { N = 100 };
	struct mem_op ops[N];
	struct guest g;
	size_t done = 0;
	int fd = memfd_create("test", 0);

	ck_assert_int_eq(ftruncate(fd, N * 4096), 0);
	guest_new(&g);
	for (int i = 0; i < N; i++)
		ops[i] = (struct mem_op){ .kind = MEM_MAP, .addr = 0x20000000 + (uint64_t)i * 8192,
					  .len = 4096, .prot = PROT_READ, .off = (uint64_t)i * 4096,
					  .flags = i % 3 ? MAP_PRIVATE : MAP_SHARED, .fd = fd };
	ck_assert_int_eq(context_mem(g.c, ops, N, &done), 0);
	ck_assert_uint_eq(done, N);
	guest_free(&g);
	close(fd);
}
END_TEST

START_TEST(reads_and_writes_stop_at_bad_pages)
{
	static uint8_t buf[0x6000];
	struct guest g;

	guest_new(&g);
	/* DATA has two pages. */
	ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA + 0x1800), buf, 0x3000), 0x800);
	ck_assert_int_eq(addrspace_write(g.as, gaddr(DATA + 0x1ffc), buf, 8), 4);
	ck_assert_int_eq(addrspace_write(g.as, gaddr(DATA + 0x2000), buf, 8), -EFAULT);
	ck_assert_int_eq(addrspace_write(g.as, gaddr(CODE), buf, 8), -EFAULT);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(0), buf, 8), -EFAULT);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(~0ull - 3), buf, 8), -EFAULT);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(GUEST_TASK_SIZE), buf, 8), -EFAULT);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(0x7fffc0000000), buf, 8), -EFAULT);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA), buf, 0), 0);
	for (size_t n = 1; n <= 8; n *= 2)
		for (size_t off = 0; off < 16; off++) {
			uint64_t in = 0x1122334455667788ull, out = 0;

			ck_assert_int_eq(addrspace_write(g.as, gaddr(DATA + off), &in, n), (ssize_t)n);
			ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA + off), &out, n), (ssize_t)n);
			ck_assert_int_eq(memcmp(&in, &out, n), 0);
		}
	guest_free(&g);
}
END_TEST

START_TEST(compare_exchange_works_and_faults)
{
	struct guest g;
	uint32_t old = 0, v = 5;

	guest_new(&g);
	addrspace_write(g.as, gaddr(DATA + 4), &v, 4);
	ck_assert_int_eq(context_cmpxchg32(g.c, gaddr(DATA + 4), 5, 6, &old), 0);
	ck_assert_uint_eq(old, 5);
	ck_assert_int_eq(context_cmpxchg32(g.c, gaddr(DATA + 4), 5, 9, &old), 0);
	ck_assert_uint_eq(old, 6);
	addrspace_read(g.as, gaddr(DATA + 4), &v, 4);
	ck_assert_uint_eq(v, 6);
	ck_assert_int_eq(context_cmpxchg32(g.c, gaddr(0x700000), 5, 9, &old), -EFAULT);
	ck_assert_int_eq(context_cmpxchg32(g.c, gaddr(CODE), 5, 9, &old), -EFAULT);
	ck_assert_int_eq(context_cmpxchg32(g.c, gaddr(0x7fffc0010000), 5, 9, &old), -EFAULT);
	g.regs.rax = 3;
	guest_run(&g, AT(syscall_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	uint64_t ns = 0;

	ck_assert_int_eq(context_cpu_time(g.c, &ns), 0);
	ck_assert_uint_gt(ns, 0);
	ck_assert_int_eq(addrspace_cpu_time(g.as, &ns), 0);
	ck_assert_uint_gt(ns, 0);
	guest_free(&g);
}
END_TEST

static void *kill_soon(void *arg)
{
	usleep(20000);
	addrspace_kill(arg);
	return NULL;
}

START_TEST(a_killed_process_ends_its_switches)
{
	struct guest g;
	struct context *t;
	pthread_t th;
	uint64_t v;

	guest_new(&g);
	ck_assert_int_eq(context_clone(g.c, &t), 0);
	pthread_create(&th, NULL, kill_soon, g.as);
	guest_run(&g, AT(busy_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_EXITED);
	pthread_join(th, NULL);
	guest_run(&g, AT(busy_loop));
	ck_assert_int_eq(g.ev.kind, EVENT_EXITED);
	context_switch(t, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_EXITED);
	struct mem_op op = { .kind = MEM_UNMAP, .addr = DATA, .len = 4096 };

	ck_assert_int_eq(context_mem(t, &op, 1, NULL), -ESRCH);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA), &v, 8), -EFAULT);
	context_interrupt(t);
	context_put(t);
	guest_free(&g);
	await_stubs(3);
}
END_TEST

struct worker {
	pthread_t th;
	struct guest g;
	int failed;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < 300 && !w->failed; i++) {
		w->g.regs.rax = i;
		guest_run(&w->g, AT(syscall_loop));
		if (w->g.ev.kind != EVENT_SYSCALL || w->g.regs.orig_rax != i)
			w->failed = 1;
		if (i % 50 == 0)
			guest_map(w->g.c, 0x10000000 + i * 0x10000, 0x10000, PROT_READ);
	}
	return NULL;
}

START_TEST(sixty_four_contexts_run_in_parallel)
{
	static struct worker w[64];

	for (int i = 0; i < 64; i++) {
		if (i % 4 == 0) {
			guest_new(&w[i].g);
		} else {
			w[i].g.as = addrspace_get(w[i - i % 4].g.as);
			ck_assert_int_eq(context_clone(w[i - i % 4].g.c, &w[i].g.c), 0);
			guest_regs(&w[i].g.regs, AT(syscall_loop));
		}
	}
	for (int i = 0; i < 64; i++)
		pthread_create(&w[i].th, NULL, work, &w[i]);
	for (int i = 0; i < 64; i++)
		pthread_join(w[i].th, NULL);
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(w[i].failed, 0);
		guest_free(&w[i].g);
	}
	await_stubs(3);
}
END_TEST

START_TEST(many_forks_leave_nothing_behind)
{
	const char *env = getenv("CAISSON_TEST_FORKS");
	int n = env ? atoi(env) : 1000;
	struct guest g, child;

	guest_new(&g);
	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(addrspace_fork(g.c, &child.as, &child.c), 0);
		guest_regs(&child.regs, AT(syscall_loop));
		child.regs.rax = (uint64_t)i % 300;
		context_switch(child.c, &child.regs, &child.ev);
		ck_assert_int_eq(child.ev.kind, EVENT_SYSCALL);
		ck_assert_uint_eq(child.regs.orig_rax, (uint64_t)i % 300);
		guest_free(&child);
	}
	guest_free(&g);
	await_stubs(3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("systrap");
	TCase *t = tcase_create("systrap");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_syscall_is_an_event_and_its_result_arrives);
	tcase_add_test(t, numbers_that_look_like_restart_codes_pass_unharmed);
	tcase_add_test(t, registers_survive_a_syscall);
	tcase_add_test(t, extended_state_survives_and_can_be_set);
	tcase_add_test(t, segment_bases_are_loaded_and_reported);
	tcase_add_test(t, faults_tell_address_and_access);
	tcase_add_test(t, exceptions_have_linux_signals);
	tcase_add_test(t, foreign_entries_are_marked);
	tcase_add_test(t, an_interrupt_stops_a_busy_guest_and_is_sticky);
	tcase_add_test(t, interrupts_and_syscalls_race_without_loss);
	tcase_add_test(t, threads_share_memory_and_are_reused);
	tcase_add_test(t, fork_copies_memory_and_state);
	tcase_add_test(t, mappings_of_files_and_their_changes);
	tcase_add_test(t, long_lists_of_orders_are_done_in_order);
	tcase_add_test(t, reads_and_writes_stop_at_bad_pages);
	tcase_add_test(t, compare_exchange_works_and_faults);
	tcase_add_test(t, a_killed_process_ends_its_switches);
	tcase_add_test(t, sixty_four_contexts_run_in_parallel);
	tcase_add_test(t, many_forks_leave_nothing_behind);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? 1 : 0;
}
