/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that come with a call and results that wait for its end: trapped and patched. */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "tests/unit/platform/guest_code.h"

__asm__(".pushsection .rodata\n"
	"bounce_code_start:\n"
	".fill 64, 1, 0x90\n"
	/* Three calls in a row; the second can be patched. */
	"bounce_loop: mov $257, %eax\n"
	"bounce_call: syscall\n"
	"mov %rax, %rbx\n"
	"jmp bounce_loop\n"
	"bounce_code_end:\n"
	".popsection\n");
extern const char bounce_code_start[], bounce_code_end[], bounce_call[];

#define BCODE 0x700000ull
#define AFTER (BCODE + (uint64_t)(bounce_call - bounce_code_start) + 2)
#define NR_STRING 257
#define NR_BUFFER 1
#define NR_PAIR 35
#define NR_PAIRS 20

static uint8_t g_bring[PLATFORM_BRING_NUMBERS] = {
	[NR_STRING] = PLATFORM_BRING(1, BRING_A_STRING),
	[NR_BUFFER] = PLATFORM_BRING(1, BRING_A_BUFFER),
	[NR_PAIR] = PLATFORM_BRING(0, BRING_A_PAIR),
	[NR_PAIRS] = PLATFORM_BRING(1, BRING_SOME_PAIRS),
};

static void setup(void)
{
	struct platform_options opt = { .name = "systrap", .bring = g_bring };

	log_setup(2, LOG_WARN, "test");
	ck_assert_int_eq(platform_start(&opt, &g_plat), 0);
}

static void teardown(void)
{
	platform_stop(g_plat);
}

static void load(struct guest *g)
{
	size_t size = (size_t)(bounce_code_end - bounce_code_start);
	struct mem_op rx = { .kind = MEM_PROTECT, .addr = BCODE, .len = 0x1000,
			     .prot = PROT_READ | PROT_EXEC };

	guest_new(g);
	guest_map(g->c, BCODE, 0x1000, PROT_READ | PROT_WRITE);
	ck_assert_int_eq(addrspace_write(g->as, gaddr(BCODE), bounce_code_start, size), (ssize_t)size);
	ck_assert_int_eq(context_mem(g->c, &rx, 1, NULL), 0);
}

/* Runs to the call with this number and second and third argument. */
static void call(struct guest *g, uint32_t nr, uint64_t a, uint64_t b)
{
	g->regs.rip = AFTER - 2; /* past the mov, also where the site is patched */
	g->regs.rax = nr;
	g->regs.rdi = g->regs.rsi = a;
	g->regs.rdx = b;
	context_switch(g->c, &g->regs, &g->ev);
	ck_assert_int_eq(g->ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g->regs.orig_rax, nr);
}

/* Goes on behind the call, up to the next one. rbx is the call's result then. */
static void go_on(struct guest *g, uint64_t result)
{
	g->regs.rax = result;
	context_switch(g->c, &g->regs, &g->ev);
	ck_assert_int_eq(g->ev.kind, EVENT_SYSCALL);
}

static void poke(struct guest *g, uint64_t at, const void *p, size_t n)
{
	ck_assert_int_eq(addrspace_write(g->as, gaddr(at), p, n), (ssize_t)n);
}

static void arguments_come_along(struct guest *g)
{
	char buf[600], big[8192];

	poke(g, DATA, "/etc/passwd", 12);
	call(g, NR_STRING, DATA, 0);
	memset(buf, 0, sizeof(buf));
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), buf, sizeof(buf)), 12);
	ck_assert_str_eq(buf, "/etc/passwd");
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA + 5), buf, 3), 3);
	ck_assert_int_eq(memcmp(buf, "pas", 3), 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA + 12), buf, 1), 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA - 1), buf, 1), 0);
	/* As it was when the call came; gone once it is said to be. */
	poke(g, DATA, "/", 2);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), buf, 4), 4);
	ck_assert_int_eq(memcmp(buf, "/etc", 4), 0);
	ck_assert_int_eq(context_stores_now(g->c), 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), buf, 4), 0);
	/* A string that ends with the last page. */
	poke(g, DATA + 0x1ffd, "abc", 3);
	call(g, NR_STRING, DATA + 0x1ffd, 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA + 0x1ffd), buf, sizeof(buf)), 3);
	memset(big, 'x', sizeof(big));
	poke(g, DATA, big, sizeof(big));
	call(g, NR_STRING, DATA, 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, sizeof(big)), 512);

	call(g, NR_BUFFER, DATA, 8192);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, sizeof(big)), 8192);
	call(g, NR_BUFFER, DATA, 1 << 20);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, sizeof(big)), 0);
	call(g, NR_BUFFER, DATA + 4096, 8192); /* runs into what is not mapped */
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA + 4096), big, 1), 0);
	call(g, NR_BUFFER, DATA, 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, 1), 0);
	call(g, NR_PAIR, DATA, 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, 64), 16);
	call(g, NR_PAIRS, DATA, 3);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, 64), 48);
	call(g, NR_PAIRS, DATA, ~0ull / 16 + 2);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), big, 64), 0);
	/* Bad addresses of every kind, and a number the table does not know. */
	static const uint64_t bad[] = { 0, 0x10000, 0xffff800000000000ull, 0x8000000000000000ull,
					~0ull };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		call(g, NR_STRING, bad[i], 0);
		ck_assert_uint_eq(context_brought(g->c, gaddr(bad[i]), buf, 1), 0);
	}
	call(g, 39, DATA, 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), buf, 1), 0);
	call(g, 0x7fffffff, DATA, 0);
	ck_assert_uint_eq(context_brought(g->c, gaddr(DATA), buf, 1), 0);
}

static void results_wait(struct guest *g)
{
	char big[8192], buf[8192];
	uint64_t v = 0;

	call(g, 39, 0, 0);
	poke(g, DATA, &v, 8);
	v = 0x1122334455667788ull;
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), &v, 8), 1);
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA + 3), "abc", 3), 1);
	v = 1;
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 0);
	go_on(g, 77);
	ck_assert_uint_eq(g->regs.rbx, 77);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 0x1122636261667788ull);

	/* At once, when asked; and never a second time. */
	v = 5;
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), &v, 8), 1);
	ck_assert_int_eq(context_stores_now(g->c), 0);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 5);
	v = 6;
	poke(g, DATA, &v, 8);
	go_on(g, 78);
	ck_assert_uint_eq(g->regs.rbx, 78);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 6);

	/* Room and number are bounded. */
	memset(big, 'y', sizeof(big));
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), big, 8192), 1);
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), big, 8192), 0);
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), "a", 1), 1);
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA + 1), "b", 1), 1);
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA + 2), "c", 1), 1);
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA + 3), "d", 1), 0);
	ck_assert_int_eq(context_store_later(g->c, gaddr(GUEST_TASK_SIZE), "d", 1), 0);
	go_on(g, 0);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), buf, sizeof(buf)), sizeof(buf));
	memcpy(big, "abc", 3);
	ck_assert_int_eq(memcmp(buf, big, sizeof(buf)), 0);

	/* What can not be stored makes the call fail, and stops nobody. */
	ck_assert_int_eq(context_store_later(g->c, gaddr(0x10000), &v, 8), 1);
	go_on(g, 5);
	ck_assert_int_eq((int64_t)g->regs.rbx, -EFAULT);
	ck_assert_int_eq(context_store_later(g->c, gaddr(BCODE), &v, 8), 1);
	ck_assert_int_eq(context_stores_now(g->c), -EFAULT);
	go_on(g, 5);
	ck_assert_int_eq((int64_t)g->regs.rbx, 5);

	/* Orders use the same room; what waits is stored before. */
	v = 99;
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), &v, 8), 1);
	uint8_t vec[2];
	struct mem_op incore = { .kind = MEM_INCORE, .addr = DATA, .len = 0x2000, .buf = vec };

	ck_assert_int_eq(context_mem(g->c, &incore, 1, NULL), 0);
	v = 0;
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 99);
	/* The same before extended state is looked at, and with registers that all change. */
	v = 100;
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), &v, 8), 1);
	size_t size = platform_xstate_size(g_plat);
	void *fp = calloc(1, size);

	ck_assert_int_eq(context_fpstate_get(g->c, fp, size), 0);
	free(fp);
	call(g, 39, 0, 0);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 100);
	v = 101;
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), &v, 8), 1);
	call(g, 39, 0, 0);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 101);
	/* An interrupt that is there already does not lose it. */
	v = 102;
	ck_assert_int_eq(context_store_later(g->c, gaddr(DATA), &v, 8), 1);
	context_interrupt(g->c);
	context_switch(g->c, &g->regs, &g->ev);
	ck_assert_int_eq(g->ev.kind, EVENT_INTERRUPTED);
	ck_assert_int_eq(addrspace_read(g->as, gaddr(DATA), &v, 8), 8);
	ck_assert_uint_eq(v, 102);
}

static void patch(struct guest *g)
{
	struct platform_stats a, b;

	call(g, 39, 0, 0);
	ck_assert_int_eq(context_patch(g->c, AFTER, BCODE, BCODE + 0x1000), 0);
	go_on(g, 0);
	platform_stats(g_plat, &a);
	go_on(g, 0);
	go_on(g, 0);
	platform_stats(g_plat, &b);
	ck_assert_uint_ge(b.fast_switches, a.fast_switches + 2);
}

START_TEST(arguments_of_a_trapped_call)
{
	struct guest g;

	load(&g);
	arguments_come_along(&g);
	guest_free(&g);
}
END_TEST

START_TEST(arguments_of_a_patched_call)
{
	struct guest g;

	load(&g);
	patch(&g);
	/* The site's own mov has the number. */
	poke(&g, DATA, "string", 7);
	char buf[16] = "";

	g.regs.rsi = DATA;
	go_on(&g, 0);
	ck_assert_uint_eq(g.regs.orig_rax, NR_STRING);
	ck_assert_uint_eq(context_brought(g.c, gaddr(DATA), buf, sizeof(buf)), 7);
	ck_assert_str_eq(buf, "string");
	g.regs.rsi = 0xffff800000000000ull;
	go_on(&g, 0);
	go_on(&g, 0);
	ck_assert_uint_eq(context_brought(g.c, gaddr(g.regs.rsi), buf, 1), 0);
	guest_free(&g);
}
END_TEST

START_TEST(results_of_a_trapped_call)
{
	struct guest g;

	load(&g);
	results_wait(&g);
	guest_free(&g);
}
END_TEST

START_TEST(results_of_a_patched_call)
{
	struct guest g;

	load(&g);
	patch(&g);
	results_wait(&g);
	/* As in results_wait, but surely with the short way back. */
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t v = 0;

		ck_assert_int_eq(context_store_later(g.c, gaddr(DATA + 8 * (i % 512)), &i, 8), 1);
		go_on(&g, i);
		ck_assert_uint_eq(g.regs.rbx, i);
		ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA + 8 * (i % 512)), &v, 8), 8);
		ck_assert_uint_eq(v, i);
	}
	guest_free(&g);
}
END_TEST

/* What the guest finds where its slot takes arguments, before its first call has any. */
static uint64_t look_at_slot(struct guest *g)
{
	const uint64_t first = 0x7fffc0010000ull, size = 0x10000;

	for (uint64_t slot = 0; slot < 256; slot++) {
		g->regs.rdi = first + slot * size + 0x1000;
		guest_run(g, AT(load));
		if (g->ev.kind == EVENT_SYSCALL)
			return g->regs.orig_rax;
	}
	ck_abort_msg("no slot");
}

/* What one process read and wrote is not in the slot that another one gets. */
START_TEST(a_slot_is_clean_for_its_next_owner)
{
	static const char secret[] = "a secret of another process";
	char buf[64];

	for (int round = 0; round < 8; round++) {
		struct guest g;

		load(&g);
		ck_assert_uint_eq(look_at_slot(&g), 0);
		poke(&g, DATA, secret, sizeof(secret));
		call(&g, NR_STRING, DATA, 0);
		ck_assert_uint_eq(context_brought(g.c, gaddr(DATA), buf, sizeof(buf)), sizeof(secret));
		ck_assert_uint_ne(look_at_slot(&g), 0);
		guest_free(&g);
	}
}
END_TEST

static void *interrupter(void *arg)
{
	struct guest *g = arg;

	for (int i = 0; i < 3000; i++) {
		context_interrupt(g->c);
		if (i % 16 == 0)
			usleep(50);
	}
	return NULL;
}

/* Interrupts in the middle of copies lose no store and no call. */
START_TEST(interrupts_and_stores)
{
	pthread_t th;
	struct guest g;

	load(&g);
	patch(&g);
	ck_assert_int_eq(pthread_create(&th, NULL, interrupter, &g), 0);
	for (uint64_t i = 1; i <= 4000; i++) {
		uint64_t v = 0;

		ck_assert_int_eq(context_store_later(g.c, gaddr(DATA), &i, 8), 1);
		g.regs.rax = i;
		do
			context_switch(g.c, &g.regs, &g.ev);
		while (g.ev.kind == EVENT_INTERRUPTED);
		ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
		ck_assert_uint_eq(g.regs.rbx, i);
		ck_assert_int_eq(addrspace_read(g.as, gaddr(DATA), &v, 8), 8);
		ck_assert_uint_eq(v, i);
	}
	pthread_join(th, NULL);
	guest_free(&g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bounce");
	TCase *tc = tcase_create("bounce");
	SRunner *sr = srunner_create(s);

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, arguments_of_a_trapped_call);
	tcase_add_test(tc, arguments_of_a_patched_call);
	tcase_add_test(tc, results_of_a_trapped_call);
	tcase_add_test(tc, results_of_a_patched_call);
	tcase_add_test(tc, a_slot_is_clean_for_its_next_owner);
	tcase_add_test(tc, interrupts_and_stores);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);

	srunner_free(sr);
	return failed != 0;
}
