/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile guest: jumps into the stub's text with registers of its choice. No host call but the
 * harmless few may happen; the rest is a syscall event like any other, or death.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/systrap/sysmsg.h"
#include "tests/unit/platform/guest_code.h"

extern const uint8_t systrap_stub_image[], systrap_stub_image_end[];

static pthread_t g_neighbour;
static int g_stop;

/* Somebody whose orders are notified: unordered calls are looked at when such ones are. */
static void *neighbour(void *arg)
{
	struct guest g;
	struct mem_op op = { .kind = MEM_PROTECT, .addr = DATA, .len = 0x1000,
			     .prot = PROT_READ | PROT_WRITE };

	(void)arg;
	guest_new(&g);
	while (!__atomic_load_n(&g_stop, __ATOMIC_SEQ_CST)) {
		ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), 0);
		usleep(200);
	}
	guest_free(&g);
	return NULL;
}

static void setup(void)
{
	struct platform_options opt = { .name = "systrap" };

	log_setup(-1, LOG_ERROR, "test");
	ck_assert_int_eq(platform_start(&opt, &g_plat), 0);
	pthread_create(&g_neighbour, NULL, neighbour, NULL);
}

static void teardown(void)
{
	__atomic_store_n(&g_stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(g_neighbour, NULL);
	platform_stop(g_plat);
}

/* The stub's `syscall; ret`. */
static uint64_t stub_gadget(void)
{
	for (const uint8_t *p = systrap_stub_image; p + 3 < systrap_stub_image_end; p++)
		if (p[0] == 0x0f && p[1] == 0x05 && p[2] == 0xc3)
			return STUB_TEXT_ADDR + (uint64_t)(p - systrap_stub_image);
	ck_abort_msg("no gadget");
	return 0;
}

enum outcome { TRAPPED, DIED, FAULTED, RAN };

/* The guest makes the call from the gadget; *ret is what the host gave if it RAN. */
static enum outcome attempt(struct guest *g, uint64_t rip, const uint64_t *arg, uint64_t nr,
			    uint64_t *ret)
{
	uint64_t back = AT(syscall_loop);

	guest_regs(&g->regs, rip);
	ck_assert_int_eq(addrspace_write(g->as, gaddr(g->regs.rsp), &back, 8), 8);
	g->regs.rax = nr;
	g->regs.rdi = arg[0];
	g->regs.rsi = arg[1];
	g->regs.rdx = arg[2];
	g->regs.r10 = arg[3];
	g->regs.r8 = arg[4];
	g->regs.r9 = arg[5];
	context_switch(g->c, &g->regs, &g->ev);
	if (g->ev.kind == EVENT_EXITED)
		return DIED;
	if (g->ev.kind != EVENT_SYSCALL)
		return FAULTED;
	*ret = g->regs.rax;
	return g->regs.rip == rip + 2 ? TRAPPED : RAN;
}

static void renew(struct guest *g)
{
	guest_free(g);
	guest_new(g);
}

static int harmless(uint64_t nr)
{
	static const uint16_t numbers[] = { SYS_futex, SYS_munmap, SYS_mmap, SYS_mprotect,
					    SYS_madvise, SYS_close, SYS_sigaltstack,
					    SYS_clock_gettime, SYS_prctl, SYS_close_range,
					    /* the kernel's own probe calls, which bypass filters */
					    335, 336 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i] == nr)
			return 1;
	return 0;
}

START_TEST(no_other_call_runs_from_the_stub_text)
{
	static const uint64_t args[][6] = {
		{ 0 },
		{ 1, 1, 1, 1, 1, 1 },
		{ DATA, 64, DATA, 64, DATA, 64 },
		{ ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull },
		{ 0, ~0u, 2, 0, 0, 0 },
	};
	uint64_t gadget = stub_gadget(), ret;
	struct guest g;

	guest_new(&g);
	for (uint64_t nr = 0; nr < 470; nr++) {
		for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
			if (nr == SYS_futex && args[i][1] == 0)
				continue; /* waits, as it should */
			enum outcome o = attempt(&g, gadget, args[i], nr, &ret);

			if (o == RAN && !harmless(nr))
				ck_abort_msg("host call %u ran: %ld", (unsigned int)nr, (long)ret);
			/* munmap may well have taken the code away. */
			if (o == FAULTED && nr != SYS_rt_sigreturn && !harmless(nr))
				ck_abort_msg("host call %u: signal %d", (unsigned int)nr,
					     g.ev.fault.signo);
			if (o != TRAPPED)
				renew(&g);
		}
	}
	guest_free(&g);
}
END_TEST

START_TEST(dangerous_arguments_are_refused)
{
	const uint64_t none = ~0ull;
	static const uint64_t text = STUB_TEXT_ADDR, top = GUEST_TASK_SIZE;
	const struct {
		uint64_t nr, arg[6];
		enum outcome want;
	} cases[] = {
		/* Memory of its own it may break, by itself. */
		{ SYS_munmap, { 0x10000000, 0x1000 }, RAN },
		{ SYS_munmap, { top - 0x1000, 0x1000 }, RAN },
		{ SYS_munmap, { 0xfffff000, 0x1000 }, RAN },
		{ SYS_munmap, { 0xfffff000, 0x2000 }, RAN },
		{ SYS_mmap, { 0x10000000, 0x1000, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, none, 0 }, RAN },
		/* The stub's range it may not. */
		{ SYS_munmap, { top - 0x1000, 0x2000 }, DIED },
		{ SYS_munmap, { text, 0x1000 }, DIED },
		{ SYS_munmap, { text + 0x10000, 0x10000 }, DIED },
		{ SYS_munmap, { 0x1000, 0x7fffffff0000 }, DIED },
		{ SYS_munmap, { 0x7fff00000000, 0x100000000 }, DIED },
		{ SYS_munmap, { 0xffffffffffff0000, 0x20000 }, DIED },
		{ SYS_mmap, { text, 0x1000, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, none, 0 }, DIED },
		{ SYS_mmap, { 0x10000000, 0x1000, 3, MAP_PRIVATE | MAP_ANONYMOUS, none, 0 }, DIED },
		{ SYS_mmap, { 0x10000000, 0x1000, 3, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, none, 0 }, DIED },
		{ SYS_mmap, { 0x10000000, 0x1000, 3, MAP_PRIVATE | MAP_FIXED, 0, 0 }, DIED },
		{ SYS_mmap, { 0x10000000, 0x1000, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_LOCKED, none, 0 }, DIED },
		{ SYS_mprotect, { text, 0x1000, 5 }, DIED },
		{ SYS_mprotect, { DATA, 0x1000, 1 }, RAN },
		{ SYS_mprotect, { DATA, 0x1000, 3 }, DIED },
		{ SYS_mprotect, { DATA, 0x1000, 0x100000001 }, DIED },
		{ SYS_madvise, { DATA, 0x1000, MADV_DONTNEED }, RAN },
		{ SYS_madvise, { DATA, 0x1000, MADV_REMOVE }, DIED },
		{ SYS_madvise, { text + 0x10000, 0x1000, MADV_DONTNEED }, DIED },
		{ SYS_madvise, { text + 0x10000, 0x10000, MADV_DOFORK }, DIED },
		{ SYS_mremap, { DATA, 0x1000, 0x1000, MREMAP_MAYMOVE | MREMAP_FIXED, 0x10000000 }, DIED },
		{ SYS_clone, { SIGCHLD, 0, 0, 0, 0 }, DIED },
		{ SYS_exit, { 0 }, DIED },
		{ STUB_NR_HELLO, { STUB_SLOT_ADDR, 1 }, DIED },
		{ SYS_futex, { DATA, FUTEX_LOCK_PI, 0, 0 }, TRAPPED },
		{ SYS_futex, { DATA, FUTEX_WAKE, 1, 0 }, RAN },
		{ SYS_prctl, { 1, SIGKILL }, RAN },
		{ SYS_prctl, { 1, 0 }, TRAPPED },
		{ SYS_prctl, { 22, 2, DATA }, TRAPPED },
		{ SYS_clock_gettime, { 0, DATA }, TRAPPED },
		{ SYS_clock_gettime, { 3, DATA }, RAN },
	};
	uint64_t gadget = stub_gadget(), ret;
	struct guest g;

	guest_new(&g);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum outcome o = attempt(&g, gadget, cases[i].arg, cases[i].nr, &ret);

		if (o != cases[i].want)
			ck_abort_msg("case %zu (call %u): outcome %d, not %d", i,
				     (unsigned int)cases[i].nr, (int)o, (int)cases[i].want);
		if (o != TRAPPED)
			renew(&g);
	}
	guest_free(&g);
}
END_TEST

START_TEST(x32_and_i386_calls_from_the_stub_text_trap)
{
	static const uint64_t args[6] = { 0 };
	uint64_t gadget = stub_gadget(), ret;
	struct guest g;

	guest_new(&g);
	for (uint64_t nr = 0; nr < 600; nr++) {
		ck_assert_int_eq(attempt(&g, gadget, args, nr | 0x40000000, &ret), TRAPPED);
		ck_assert_uint_eq(g.ev.foreign_abi, 1);
	}
	guest_free(&g);
}
END_TEST

/* The guest scribbles over its own slot, then makes syscalls: whatever happens, only it dies. */
START_TEST(a_damaged_slot_hurts_its_owner_only)
{
	struct guest g, other;

	guest_new(&other);
	for (uint64_t off = 0; off < SLOT_SIZE; off += 8) {
		guest_new(&g);
		/* Slots are handed out lowest first: one of the first few is this guest's. */
		for (uint64_t slot = 0; slot < 8; slot++) {
			guest_regs(&g.regs, AT(store));
			g.regs.rdi = STUB_SLOT_ADDR + slot * SLOT_SIZE + off;
			g.regs.rax = 39;
			context_switch(g.c, &g.regs, &g.ev);
			if (g.ev.kind == EVENT_EXITED)
				break;
		}
		guest_free(&g);
		if (off >= 0x1000 && off < SLOT_STACK + 0x6000)
			off += 0xff8;
	}
	other.regs.rax = 7;
	guest_run(&other, AT(syscall_loop));
	ck_assert_int_eq(other.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(other.regs.orig_rax, 7);
	guest_free(&other);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("escape");
	TCase *t = tcase_create("escape");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, no_other_call_runs_from_the_stub_text);
	tcase_add_test(t, dangerous_arguments_are_refused);
	tcase_add_test(t, x32_and_i386_calls_from_the_stub_text_trap);
	tcase_add_test(t, a_damaged_slot_hurts_its_owner_only);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed ? 1 : 0;
}
