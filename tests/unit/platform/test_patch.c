/* SPDX-License-Identifier: Apache-2.0 */
/* Patched syscall sites: the decoder on hand-made code, then guests that run through them. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/base/log.h"
#include "platform/systrap/patch_cache.h"
#include "tests/unit/platform/guest_code.h"

/* ---- the decoder ---- */

/* `tail` after 60 bytes of one-byte nops, the syscall at the end. */
static enum patch_verdict scan(const uint8_t *tail, size_t n, struct patch_plan *plan)
{
	uint8_t code[128];

	memset(code, 0x90, sizeof(code));
	memcpy(code + 60, tail, n);
	memcpy(code + 60 + n, "\x0f\x05", 2);
	memset(plan, 0, sizeof(*plan));
	return patch_scan(code, 60 + n, plan);
}

#define SCAN(plan, ...)                                             \
	({                                                          \
		const uint8_t tail_[] = { __VA_ARGS__ };            \
		scan(tail_, sizeof(tail_), plan);                   \
	})

START_TEST(the_decoder_takes_what_it_can_prove)
{
	struct patch_plan p;

	ck_assert_int_eq(patch_scan_start(), 0);
	/* mov $39, %eax */
	ck_assert_int_eq(SCAN(&p, 0xb8, 39, 0, 0, 0), PATCH_OK);
	ck_assert_uint_eq(p.length, 5);
	ck_assert_uint_eq(p.boundaries, 1u << 5);
	ck_assert_uint_eq(p.trap_low | p.trap_mid, 0);
	/* mov $1, %r8d: the five bytes of mov $1, %eax are its tail */
	ck_assert_int_eq(SCAN(&p, 0x41, 0xb8, 1, 0, 0, 0), PATCH_OK);
	ck_assert_uint_eq(p.length, 6);
	ck_assert_uint_eq(p.boundaries, 1u << 6);
	/* mov $39, %rax, seven bytes: the syscall stays */
	ck_assert_int_eq(SCAN(&p, 0x48, 0xc7, 0xc0, 39, 0, 0, 0), PATCH_OK);
	ck_assert_uint_eq(p.length, 7);
	ck_assert_uint_eq(p.boundaries, 0);
	/* mov 8(%rsp), %r9 */
	ck_assert_int_eq(SCAN(&p, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 8), PATCH_OK);
	ck_assert_uint_eq(p.length, 5);
	/* mov %rcx, %rsi; mov %rbx, %rdi */
	ck_assert_int_eq(SCAN(&p, 0x48, 0x89, 0xce, 0x48, 0x89, 0xdf), PATCH_OK);
	ck_assert_uint_eq(p.length, 6);
	ck_assert_uint_eq(p.boundaries, 1u << 3 | 1u << 6);
	ck_assert_uint_eq(p.trap_low, 1);
	ck_assert_uint_eq(p.trap_mid, 0);
	/* mov %r8,%r10 (3); xor %eax,%eax (2): boundaries 3 and 5 */
	ck_assert_int_eq(SCAN(&p, 0x4d, 0x89, 0xc2, 0x31, 0xc0), PATCH_OK);
	ck_assert_uint_eq(p.length, 5);
	ck_assert_uint_eq(p.boundaries, 1u << 3 | 1u << 5);
	/* lea 8(%rsp),%rsi is 5; xor %edi,%edi; xor %eax,%eax: the first is four bytes */
	ck_assert_int_eq(SCAN(&p, 0x8d, 0x74, 0x24, 8, 0x31, 0xff, 0x31, 0xc0), PATCH_OK);
	ck_assert_uint_eq(p.length, 8);
	ck_assert_uint_eq(p.boundaries, 1u << 4 | 1u << 6);
	ck_assert_uint_eq(p.trap_mid, 1);
}
END_TEST

START_TEST(the_decoder_refuses_the_rest)
{
	struct patch_plan p;

	ck_assert_int_eq(patch_scan_start(), 0);
	/* jne .+2 before xor %eax, %eax */
	ck_assert_int_eq(SCAN(&p, 0x75, 0x02, 0x31, 0xc0), PATCH_BRANCH);
	ck_assert_int_eq(SCAN(&p, 0xe8, 0, 0, 0, 0, 0x31, 0xc0), PATCH_BRANCH);
	ck_assert_int_eq(SCAN(&p, 0xc3, 0x31, 0xc0), PATCH_BRANCH);
	/* a syscall right before */
	ck_assert_int_eq(SCAN(&p, 0x0f, 0x05, 0x31, 0xc0), PATCH_BRANCH);
	/* mov 0x100(%rip), %eax */
	ck_assert_int_eq(SCAN(&p, 0x8b, 0x05, 0, 1, 0, 0), PATCH_RELATIVE);
	/* rep stosb, push, cpuid */
	ck_assert_int_eq(SCAN(&p, 0xf3, 0xaa, 0x31, 0xc0), PATCH_UNKNOWN);
	ck_assert_int_eq(SCAN(&p, 0x0f, 0xa2, 0x31, 0xc0), PATCH_UNKNOWN);
	/* mov %eax, %ds */
	ck_assert_int_eq(SCAN(&p, 0x8e, 0xd8, 0x31, 0xc0, 0x31, 0xc0), PATCH_UNKNOWN);
	/* six instructions of two bytes: no run begins with one that is long enough */
	ck_assert_int_eq(SCAN(&p, 0x31, 0xc0, 0x31, 0xff, 0x31, 0xf6, 0x31, 0xd2, 0x31, 0xc9, 0x31,
			      0xc0),
			 PATCH_BOUNDARY);
	/* too little before the site */
	uint8_t few[] = { 0xb8, 39, 0, 0, 0, 0x0f, 0x05 };

	ck_assert_int_eq(patch_scan(few, 5, &p), PATCH_SHORT);
	ck_assert_int_eq(patch_scan(few, 0, &p), PATCH_SHORT);
}
END_TEST

START_TEST(hostile_bytes_do_the_decoder_no_harm)
{
	uint8_t code[PATCH_SCAN_BEFORE + 2];
	uint64_t seed = 88172645463325252ull;
	struct patch_plan p;

	ck_assert_int_eq(patch_scan_start(), 0);
	for (int i = 0; i < 500; i++) {
		for (size_t k = 0; k < sizeof(code); k++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			code[k] = (uint8_t)(seed >> 32);
		}
		code[PATCH_SCAN_BEFORE] = 0x0f;
		code[PATCH_SCAN_BEFORE + 1] = 0x05;
		if (patch_scan(code, PATCH_SCAN_BEFORE, &p) != PATCH_OK)
			continue;
		ck_assert_uint_ge(p.length, 5);
		ck_assert_uint_le(p.length, 12);
		ck_assert_uint_eq(p.boundaries & 7, 0);
	}
}
END_TEST

/* ---- guests ---- */

__asm__(".pushsection .rodata\n"
	".balign 4096\n"
	"patch_code_start:\n"
	".rept 96; nop; .endr\n"
	/* Each form makes one call and stops in a call at which the test looks. */
	"patch_mov: mov $39, %eax\n"
	"patch_mov_call: syscall; ud2\n"
	".rept 64; nop; .endr\n"
	"patch_stack: mov %rdi, %rax; mov 8(%rsp), %r9\n"
	"patch_stack_call: syscall; ud2\n"
	".rept 64; nop; .endr\n"
	"patch_regs: mov %rdi, %rax; mov %rcx, %rsi\n"
	"patch_regs_middle: mov %rbx, %rdi\n"
	"patch_regs_call: syscall; ud2\n"
	".rept 64; nop; .endr\n"
	"patch_four: lea 8(%esp), %esi\n"
	"patch_four_middle: xor %edi, %edi; mov %ebx, %eax\n"
	"patch_four_call: syscall; ud2\n"
	".rept 64; nop; .endr\n"
	"patch_seven: mov $39, %rax\n"
	"patch_seven_call: syscall; ud2\n"
	".rept 64; nop; .endr\n"
	"patch_fault: mov (%rdi), %rax; mov (%rsi), %rax; mov 0x10(%rsp), %edx; nop\n"
	"patch_fault_call: syscall; ud2\n"
	/* The result of each call must be one more than the one before, and nothing else change. */
	".rept 64; nop; .endr\n"
	"patch_count: mov $0x1234567890, %r12; stc\n"
	"1: mov $39, %eax\n"
	"patch_count_call: syscall\n"
	"jnc 2f; inc %rbx; cmp %rax, %rbx; jne 2f; cmp $0x55, %rdi; jne 2f; mov %rsp, %rdx; cmp %r14, %rdx; jne 2f;\n"
	"incq (%r15); stc; jmp 1b\n"
	"2: ud2\n"
	/* The same result again and again, and no event. */
	".rept 64; nop; .endr\n"
	"patch_answer: stc\n"
	"1: mov $39, %eax\n"
	"patch_answer_call: syscall\n"
	"jnc 2f; cmp $4242, %rax; jne 2f; cmp $0x55, %rdi; jne 2f; cmp $0x66, %rdx; jne 2f; cmp %rsp, %r14; jne 2f\n"
	"incq (%r15); stc; jmp 1b\n"
	"2: ud2\n"
	".rept 32; nop; .endr\n"
	"patch_code_end:\n"
	".popsection\n");

#define PATCH_LABELS(X)                                                                            \
	X(mov) X(mov_call) X(stack) X(stack_call) X(regs) X(regs_middle) X(regs_call) X(four)      \
		X(four_middle) X(four_call) X(seven) X(seven_call) X(fault) X(fault_call) X(count) \
			X(count_call) X(answer) X(answer_call)
#define PATCH_DECLARE(name) extern const char patch_##name[];
PATCH_LABELS(PATCH_DECLARE)
extern const char patch_code_start[], patch_code_end[];

#define PCODE 0x700000ull
#define PAT(name) (PCODE + (uint64_t)(patch_##name - patch_code_start))

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

static void load(struct guest *g)
{
	size_t size = (size_t)(patch_code_end - patch_code_start);
	struct mem_op rx = { .kind = MEM_PROTECT, .addr = PCODE, .len = 0x1000,
			     .prot = PROT_READ | PROT_EXEC };

	guest_new(g);
	guest_map(g->c, PCODE, 0x1000, PROT_READ | PROT_WRITE);
	ck_assert_int_eq(addrspace_write(g->as, gaddr(PCODE), patch_code_start, size), (ssize_t)size);
	ck_assert_int_eq(context_mem(g->c, &rx, 1, NULL), 0);
}

static uint64_t fast_switches(void)
{
	struct platform_stats st;

	platform_stats(g_plat, &st);
	return st.fast_switches;
}

static uint64_t refused(void)
{
	struct platform_stats st;
	uint64_t n = 0;

	platform_stats(g_plat, &st);
	for (int i = 0; i < PLATFORM_REFUSALS; i++)
		n += st.refused[i];
	return n;
}

static int patch(struct guest *g, uint64_t after)
{
	return context_patch(g->c, after, PCODE, PCODE + 0x1000);
}

static void fill(struct user_regs_struct *r)
{
	uint64_t *w = (uint64_t *)r;

	memset(r, 0, sizeof(*r));
	for (size_t i = 0; i < 15; i++)
		w[i] = 0x1111111111111111ull * (i + 1) % 0x7fffffffffffull;
	r->rsp = STACK_TOP - 4096;
	r->eflags = 0x202 | 0x8d5;
}

static void run_to_call(struct guest *g, uint64_t at, uint64_t after)
{
	struct user_regs_struct want;

	fill(&g->regs);
	g->regs.rip = at;
	want = g->regs;
	context_switch(g->c, &g->regs, &g->ev);
	if (g->ev.kind != EVENT_SYSCALL)
		fprintf(stderr, "stopped at %#llx, kind %d signal %d\n", g->regs.rip, g->ev.kind,
			g->ev.fault.signo);
	ck_assert_int_eq(g->ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g->regs.rip, after);
	ck_assert_uint_eq(g->regs.rcx, after);
	ck_assert_uint_eq(g->regs.r11, g->regs.eflags);
	ck_assert_uint_eq(g->regs.orig_rax, g->regs.rax);
	ck_assert_uint_eq(g->regs.rsp, want.rsp);
	ck_assert_uint_eq(g->regs.r12, want.r12);
	ck_assert_uint_eq(g->regs.r13, want.r13);
	ck_assert_uint_eq(g->regs.r14, want.r14);
	ck_assert_uint_eq(g->regs.r15, want.r15);
	ck_assert_uint_eq(g->regs.rbp, want.rbp);
	ck_assert_uint_eq(g->regs.rbx, want.rbx);
	ck_assert_uint_eq(g->regs.r8, want.r8);
	ck_assert_uint_eq(g->regs.r10, want.r10);
	ck_assert_uint_eq(g->regs.gs_base, 0);
	ck_assert_uint_eq(g->regs.fs_base, 0);
}

START_TEST(every_form_works_before_and_after)
{
	static const struct {
		uint64_t (*unused)(void);
		const char *at, *call;
		int low_esp;
	} forms[] = {
		{ NULL, patch_mov, patch_mov_call, 0 },	    { NULL, patch_stack, patch_stack_call, 0 },
		{ NULL, patch_regs, patch_regs_call, 0 },   { NULL, patch_four, patch_four_call, 0 },
		{ NULL, patch_seven, patch_seven_call, 0 },
	};
	struct guest g;
	struct user_regs_struct first;
	uint8_t zone[256], now[256];

	load(&g);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		uint64_t at = PCODE + (uint64_t)(forms[i].at - patch_code_start);
		uint64_t after = PCODE + (uint64_t)(forms[i].call - patch_code_start) + 2;

		run_to_call(&g, at, after);
		first = g.regs;
		ck_assert_int_eq(patch(&g, after), 0);
		uint64_t before = fast_switches();

		/* Once through the trampoline's own syscall: GS base is lent at the next resume. */
		memset(zone, 0xa5, sizeof(zone));
		ck_assert_int_eq(addrspace_write(g.as, gaddr(STACK_TOP - 4096 - 256), zone, 256), 256);
		for (int k = 0; k < 3; k++) {
			run_to_call(&g, at, after);
			ck_assert_int_eq(memcmp(&first, &g.regs, sizeof(first)), 0);
		}
		ck_assert_uint_ge(fast_switches(), before + 2);
		/* The red zone is the guest's. */
		ck_assert_int_eq(addrspace_read(g.as, gaddr(STACK_TOP - 4096 - 256), now, 256), 256);
		ck_assert_int_eq(memcmp(zone, now, 256), 0);
		/* A jump to the place of the syscall instruction. */
		run_to_call(&g, after - 2, after);
		ck_assert_uint_eq(g.regs.rdi, 0x1111111111111111ull * 15 % 0x7fffffffffffull);
		ck_assert_int_ne(patch(&g, after), 0);
	}
	/* And to displaced instructions in the middle. */
	run_to_call(&g, PAT(regs_middle), PAT(regs_call) + 2);
	ck_assert_uint_eq(g.regs.rdi, g.regs.rbx);
	ck_assert_uint_ne(g.regs.rsi, g.regs.rcx);
	run_to_call(&g, PAT(four_middle), PAT(four_call) + 2);
	ck_assert_uint_eq(g.regs.rdi, 0);
	ck_assert_uint_eq(g.regs.rax, (uint32_t)g.regs.rbx);
	/* What follows the site runs, with the result and nothing else changed. */
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	first = g.regs;
	first.rax = g.regs.rax = 4711;
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_EXCEPTION);
	ck_assert_int_eq(g.ev.fault.signo, SIGILL);
	first.orig_rax = g.regs.orig_rax;
	g.regs.eflags &= ~0x10000ull; /* RF, the exception's */
	ck_assert_int_eq(memcmp(&first, &g.regs, sizeof(first)), 0);
	/* A restart: back over the syscall. */
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	g.regs.rip -= 2;
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.regs.rip, PAT(mov_call) + 2);
	ck_assert_uint_eq(g.regs.rax, 39);
	guest_free(&g);
}
END_TEST

START_TEST(text_reads_as_it_was_and_comes_back)
{
	struct guest g;
	struct platform_stats st;
	uint64_t size = (uint64_t)(patch_code_end - patch_code_start), fast;
	uint8_t now[0x1000], part[3];

	load(&g);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 2), 0);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(PCODE), now, size), (ssize_t)size);
	ck_assert_int_eq(memcmp(now, patch_code_start, size), 0);
	ck_assert_int_eq(addrspace_read(g.as, gaddr(PAT(mov) + 3), part, 3), 3);
	ck_assert_int_eq(memcmp(part, patch_mov + 3, 3), 0);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	fast = fast_switches();
	ck_assert_uint_gt(fast, 0);
	/* A range beside it leaves it alone. */
	ck_assert_int_eq(context_unpatch(g.c, PAT(mov_call) + 2, 8, PROT_READ | PROT_EXEC), 0);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_uint_eq(fast_switches(), fast + 1);
	ck_assert_int_eq(context_unpatch(g.c, PAT(mov_call), 1, PROT_READ | PROT_EXEC), 0);
	platform_stats(g_plat, &st);
	ck_assert_uint_eq(st.restored, 1);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_uint_eq(fast_switches(), fast + 1);
	/* And again, by what is known of these bytes. */
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 2), 0);
	platform_stats(g_plat, &st);
	ck_assert_uint_ge(st.scans_saved, 1);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_uint_gt(fast_switches(), fast + 1);
	guest_free(&g);
}
END_TEST

START_TEST(verdicts_are_kept_by_content)
{
	struct patch_cache cache = { NULL };
	struct patch_plan plan = { .length = 5, .boundaries = 0x60 }, out;
	enum patch_verdict why;
	uint8_t code[PATCH_SCAN_BEFORE], other[PATCH_SCAN_BEFORE];

	memset(code, 0x90, sizeof(code));
	memcpy(other, code, sizeof(code));
	other[PATCH_SCAN_BEFORE - 1] = 0x91;
	ck_assert_int_eq(patch_cache_find(&cache, code, sizeof(code), &why, &out), 0);
	patch_cache_add(&cache, code, sizeof(code), PATCH_OK, &plan);
	ck_assert_int_eq(patch_cache_find(&cache, code, sizeof(code), &why, &out), 1);
	ck_assert_int_eq(why, PATCH_OK);
	ck_assert_int_eq(memcmp(&out, &plan, sizeof(plan)), 0);
	ck_assert_int_eq(patch_cache_find(&cache, other, sizeof(other), &why, &out), 0);
	ck_assert_int_eq(patch_cache_find(&cache, code, sizeof(code) - 1, &why, &out), 0);
	patch_cache_add(&cache, other, sizeof(other), PATCH_BRANCH, NULL);
	ck_assert_int_eq(patch_cache_find(&cache, other, sizeof(other), &why, &out), 1);
	ck_assert_int_eq(why, PATCH_BRANCH);
	/* More than there is room for: some are forgotten, none is wrong. */
	for (uint32_t i = 0; i < 5000; i++) {
		memcpy(code, &i, 4);
		patch_cache_add(&cache, code, sizeof(code), (enum patch_verdict)(1 + i % 5), NULL);
	}
	for (uint32_t i = 0, found = 0; i < 5000; i++) {
		memcpy(code, &i, 4);
		if (patch_cache_find(&cache, code, sizeof(code), &why, &out)) {
			ck_assert_uint_eq(why, 1 + i % 5);
			found++;
		}
		ck_assert(i < 4999 || found > 500);
	}
	patch_cache_free(&cache);
}
END_TEST

START_TEST(faults_and_steps_in_displaced_code_are_the_sites)
{
	struct guest g;

	load(&g);
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 2), 0);
	int err = patch(&g, PAT(fault_call) + 2);

	if (!err) { /* mov 0x10(%rsp), %edx (4) and nop */
		guest_regs(&g.regs, PAT(fault));
		g.regs.rdi = g.regs.rsi = DATA;
		g.regs.rsp = 0x123000; /* not mapped */
		context_switch(g.c, &g.regs, &g.ev);
		ck_assert_int_eq(g.ev.kind, EVENT_FAULT);
		ck_assert_uint_eq(g.ev.fault.addr, 0x123010);
		ck_assert_uint_eq(g.regs.rip, PAT(fault) + 6);
	}
	/* Step by step: before the site, its syscall, and done. */
	guest_regs(&g.regs, PAT(mov));
	g.regs.eflags |= 0x100;
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_EXCEPTION);
	ck_assert_int_eq(g.ev.fault.signo, SIGTRAP);
	ck_assert_uint_eq(g.regs.rip, PAT(mov_call));
	ck_assert_uint_eq(g.regs.rax, 39);
	context_switch(g.c, &g.regs, &g.ev);
	ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
	ck_assert_uint_eq(g.regs.rip, PAT(mov_call) + 2);
	guest_free(&g);
}
END_TEST

START_TEST(a_guest_that_uses_gs_keeps_it)
{
	struct guest g;

	load(&g);
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 2), 0);
	for (int i = 0; i < 3; i++) {
		guest_regs(&g.regs, PAT(mov));
		/* mapped, and not mapped: the look at GS base must not confuse anybody */
		g.regs.gs_base = i ? DATA : 0x5000;
		context_switch(g.c, &g.regs, &g.ev);
		ck_assert_int_eq(g.ev.kind, EVENT_SYSCALL);
		ck_assert_uint_eq(g.regs.rip, PAT(mov_call) + 2);
		ck_assert_uint_eq(g.regs.rcx, PAT(mov_call) + 2);
		ck_assert_uint_eq(g.regs.rax, 39);
		ck_assert_uint_eq(g.regs.gs_base, i ? DATA : 0x5000);
	}
	guest_free(&g);
}
END_TEST

START_TEST(extended_state_is_there_after_a_patched_call)
{
	size_t size = platform_xstate_size(g_plat);
	uint8_t *a = calloc(1, size), *b = calloc(1, size);
	struct guest g, child;
	struct context *thread;

	load(&g);
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 2), 0);
	ck_assert_int_eq(context_fpstate_get(g.c, a, size), 0);
	for (int i = 0; i < 256; i++)
		a[160 + i] = (uint8_t)(i * 7 + 1);
	*(uint64_t *)(a + 512) |= 2;
	ck_assert_int_eq(context_fpstate_set(g.c, a, size), 0);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	uint64_t before = fast_switches();

	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_uint_gt(fast_switches(), before);
	ck_assert_int_eq(context_fpstate_get(g.c, b, size), 0);
	ck_assert_int_eq(memcmp(a + 160, b + 160, 256), 0);
	/* fork and clone out of a patched call take it along */
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_int_eq(addrspace_fork(g.c, &child.as, &child.c), 0);
	ck_assert_int_eq(context_fpstate_get(child.c, b, size), 0);
	ck_assert_int_eq(memcmp(a + 160, b + 160, 256), 0);
	before = fast_switches();
	for (int i = 0; i < 3; i++)
		run_to_call(&child, PAT(mov), PAT(mov_call) + 2);
	ck_assert_uint_ge(fast_switches(), before + 2);
	run_to_call(&child, PAT(mov_call), PAT(mov_call) + 2);
	/* patches of the child are not the parent's, and the other way round */
	ck_assert_int_eq(patch(&child, PAT(stack_call) + 2), 0);
	ck_assert_int_eq(patch(&g, PAT(stack_call) + 2), 0);
	ck_assert_int_eq(patch(&g, PAT(seven_call) + 2), 0);
	run_to_call(&child, PAT(stack), PAT(stack_call) + 2);
	run_to_call(&child, PAT(seven), PAT(seven_call) + 2);
	run_to_call(&g, PAT(seven), PAT(seven_call) + 2);
	guest_free(&child);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	ck_assert_int_eq(context_clone(g.c, &thread), 0);
	ck_assert_int_eq(context_fpstate_get(thread, b, size), 0);
	ck_assert_int_eq(memcmp(a + 160, b + 160, 256), 0);
	struct guest t = { .as = g.as, .c = thread };

	for (int i = 0; i < 3; i++)
		run_to_call(&t, PAT(mov), PAT(mov_call) + 2);
	/* a thread that ends in a patched call is woken to another life */
	context_put(thread);
	ck_assert_int_eq(context_clone(g.c, &thread), 0);
	t.c = thread;
	run_to_call(&t, PAT(mov), PAT(mov_call) + 2);
	context_put(thread);
	guest_free(&g);
	free(a);
	free(b);
}
END_TEST

START_TEST(the_platforms_own_range_stays)
{
	struct guest g;
	struct mem_op op = { .kind = MEM_UNMAP, .addr = GUEST_RESERVED_START - 0x10000,
			     .len = 0x100000, .fd = -1 };
	size_t done = 0;

	load(&g);
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 2), 0);
	guest_map(g.c, GUEST_RESERVED_START - 0x1000, 0x1000, PROT_READ);
	ck_assert_int_eq(context_mem(g.c, &op, 1, &done), 0);
	ck_assert_uint_eq(done, 1);
	uint8_t byte;

	ck_assert_int_eq(addrspace_read(g.as, gaddr(GUEST_RESERVED_START - 0x1000), &byte, 1), -EFAULT);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
	op = (struct mem_op){ .kind = MEM_MAP, .addr = GUEST_RESERVED_START, .len = 0x1000,
			      .prot = PROT_READ, .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = -1 };
	ck_assert_int_eq(context_mem(g.c, &op, 1, NULL), -ENOMEM);
	guest_free(&g);
}
END_TEST

START_TEST(hot_sites_are_reported_and_refusals_counted)
{
	struct guest g;
	int hot = 0;

	load(&g);
	for (int i = 0; i < 100 && !hot; i++) {
		run_to_call(&g, PAT(mov), PAT(mov_call) + 2);
		hot = (int)g.ev.hot;
	}
	ck_assert_int_eq(hot, 1);
	uint64_t was = refused();

	/* syscall; jmp back: nothing before it at all */
	ck_assert_int_lt(context_patch(g.c, CODE + 2, CODE, CODE + 0x1000), 0);
	ck_assert_uint_eq(refused(), was + 1);
	ck_assert_int_eq(patch(&g, PAT(mov_call) + 3), -EINVAL); /* no syscall there */
	ck_assert_int_eq(context_patch(g.c, PCODE, PCODE, PCODE + 0x1000), -EINVAL);
	guest_free(&g);
}
END_TEST

/* ---- storms ---- */

struct storm {
	struct guest g;
	uint32_t stop;
	uint64_t sent;
};

static void *interrupter(void *arg)
{
	struct storm *s = arg;
	uint64_t x = 1;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		context_interrupt(s->g.c);
		s->sent++;
		x = x * 6364136223846793005ull + 1;
		for (volatile uint32_t i = (uint32_t)(x >> 33) % 50000; i; i--)
			;
	}
	return NULL;
}

/* Every call arrives once, with the right result, whatever interrupts do to the thread. */
START_TEST(interrupts_lose_no_call)
{
	const char *env = getenv("CAISSON_TEST_INTERRUPTS");
	uint64_t calls = 0, interrupts = 0, want = env ? strtoull(env, NULL, 0) : 3000, counted;
	struct storm s = { 0 };
	pthread_t th;

	load(&s.g);
	ck_assert_int_eq(patch(&s.g, PAT(count_call) + 2), 0);
	guest_regs(&s.g.regs, PAT(count));
	s.g.regs.rdi = 0x55;
	s.g.regs.r14 = s.g.regs.rsp;
	s.g.regs.r15 = DATA;
	ck_assert_int_eq(pthread_create(&th, NULL, interrupter, &s), 0);
	while (interrupts < want || calls < want) {
		context_switch(s.g.c, &s.g.regs, &s.g.ev);
		if (s.g.ev.kind == EVENT_INTERRUPTED) {
			interrupts++;
			/* as a signal does now and then: the slow way back */
			if (interrupts % 7 == 0)
				s.g.regs.r13 ^= 1;
			continue;
		}
		if (s.g.ev.kind != EVENT_SYSCALL)
			fprintf(stderr, "kind %d signal %d at %#llx+%#llx, rax %llu rbx %llu\n",
				s.g.ev.kind, s.g.ev.fault.signo, PCODE,
				(unsigned long long)(s.g.regs.rip - PCODE),
				(unsigned long long)s.g.regs.rax, (unsigned long long)s.g.regs.rbx);
		ck_assert_int_eq(s.g.ev.kind, EVENT_SYSCALL);
		ck_assert_uint_eq(s.g.regs.orig_rax, 39);
		ck_assert_uint_eq(s.g.regs.rbx, calls);
		ck_assert_uint_eq(s.g.regs.rip, PAT(count_call) + 2);
		s.g.regs.rax = ++calls;
	}
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	pthread_join(th, NULL);
	ck_assert_int_eq(addrspace_read(s.g.as, gaddr(DATA), &counted, 8), 8);
	ck_assert_uint_le(counted, calls);
	ck_assert_uint_ge(counted + 1, calls);
	ck_assert_uint_gt(fast_switches(), calls / 8);
	guest_free(&s.g);
}
END_TEST

struct poker {
	struct guest g;
	uint32_t go; /* 1: send one interrupt; 2: end */
};

static void *poke(void *arg)
{
	struct poker *p = arg;
	uint64_t x = 1;
	uint32_t go;

	while ((go = __atomic_load_n(&p->go, __ATOMIC_SEQ_CST)) != 2) {
		if (!go)
			continue;
		x = x * 6364136223846793005ull + 1;
		for (volatile uint32_t i = (uint32_t)(x >> 33) % 4000; i; i--)
			;
		__atomic_store_n(&p->go, 0, __ATOMIC_SEQ_CST);
		context_interrupt(p->g.c);
	}
	return NULL;
}

/* A guest that never leaves by itself is stopped by each interrupt, always at a whole state. */
START_TEST(answers_need_no_event_and_lose_no_interrupt)
{
	uint64_t rounds = getenv("CAISSON_TEST_INTERRUPTS") ?
				  strtoull(getenv("CAISSON_TEST_INTERRUPTS"), NULL, 0) : 2000;
	uint64_t counted = 0;
	struct poker p = { 0 };
	pthread_t th;

	load(&p.g);
	ck_assert_int_eq(patch(&p.g, PAT(answer_call) + 2), 0);
	guest_regs(&p.g.regs, PAT(answer));
	p.g.regs.rdi = 0x55;
	p.g.regs.rdx = 0x66;
	p.g.regs.r14 = p.g.regs.rsp;
	p.g.regs.r15 = DATA;
	for (int i = 0; i < 3; i++) {
		context_switch(p.g.c, &p.g.regs, &p.g.ev);
		ck_assert_int_eq(p.g.ev.kind, EVENT_SYSCALL);
		p.g.regs.rax = 4242;
	}
	ck_assert_int_eq(context_answer(p.g.c, SYS_read, 1), 0);
	ck_assert_int_eq(context_answer(p.g.c, SYS_getpid, 4242), 1);
	ck_assert_int_eq(pthread_create(&th, NULL, poke, &p), 0);
	for (uint64_t i = 0; i < rounds;) {
		__atomic_store_n(&p.go, 1, __ATOMIC_SEQ_CST);
		for (;;) {
			context_switch(p.g.c, &p.g.regs, &p.g.ev);
			if (p.g.ev.kind != EVENT_SYSCALL)
				break;
			/* It was on its way when the interrupt came. */
			ck_assert_uint_eq(p.g.regs.rax, 39);
			p.g.regs.rax = 4242;
		}
		if (p.g.ev.kind != EVENT_INTERRUPTED)
			fprintf(stderr, "kind %d signal %d at %#llx rax %llu\n", p.g.ev.kind,
				p.g.ev.fault.signo, (unsigned long long)p.g.regs.rip,
				(unsigned long long)p.g.regs.rax);
		ck_assert_int_eq(p.g.ev.kind, EVENT_INTERRUPTED);
		ck_assert_uint_ge(p.g.regs.rip, PAT(answer));
		ck_assert_uint_lt(p.g.regs.rip, PAT(answer_call) + 64);
		i++;
		if (i % 3 == 0)
			p.g.regs.r13++; /* the long way back */
	}
	__atomic_store_n(&p.go, 2, __ATOMIC_SEQ_CST);
	pthread_join(th, NULL);
	ck_assert_int_eq(addrspace_read(p.g.as, gaddr(DATA), &counted, 8), 8);
	ck_assert_uint_gt(counted, rounds);
	context_interrupt_clear(p.g.c);
	context_answers_clear(p.g.c);
	do {
		context_switch(p.g.c, &p.g.regs, &p.g.ev);
	} while (p.g.ev.kind == EVENT_INTERRUPTED);
	ck_assert_int_eq(p.g.ev.kind, EVENT_SYSCALL);
	guest_free(&p.g);
}
END_TEST

/* Threads run through the sites of one page while all of them are being patched. */
#define FARM 0x800000ull
#define FARM_SITES 48
#define FARM_STEP 80
#define FARM_LOOPS 60

static void *farmer(void *arg)
{
	struct guest *g = arg;
	uint64_t seen = 0;

	guest_regs(&g->regs, FARM);
	g->regs.rsp -= (uint64_t)(uintptr_t)g % 8 * 4096;
	for (int i = 0; i < FARM_LOOPS * FARM_SITES; i++) {
		uint64_t site = (uint64_t)i % FARM_SITES;

		context_switch(g->c, &g->regs, &g->ev);
		if (g->ev.kind == EVENT_INTERRUPTED) {
			i--;
			continue;
		}
		if (g->ev.kind != EVENT_SYSCALL || g->regs.rax != 1000 + site ||
		    g->regs.rip != FARM + site * FARM_STEP + 72) {
			fprintf(stderr, "kind %d signal %d addr %#llx at farm+%#llx rax %llu, want %llu\n",
				g->ev.kind, g->ev.fault.signo, (unsigned long long)g->ev.fault.addr,
				(unsigned long long)(g->regs.rip - FARM),
				(unsigned long long)g->regs.rax, (unsigned long long)site);
			return (void *)1;
		}
		seen++;
		if (g->ev.hot)
			context_patch(g->c, g->regs.rip, FARM, FARM + 0x1000);
	}
	return seen == FARM_LOOPS * FARM_SITES ? NULL : (void *)1;
}

START_TEST(threads_run_while_text_is_patched)
{
	static uint8_t text[0x1000];
	struct guest g, t[3];
	pthread_t th[3];
	struct platform_stats st;
	struct mem_op rx = { .kind = MEM_PROTECT, .addr = FARM, .len = 0x1000,
			     .prot = PROT_READ | PROT_EXEC };

	memset(text, 0x90, sizeof(text));
	for (uint32_t i = 0; i < FARM_SITES; i++) {
		uint8_t *at = text + i * FARM_STEP + 65;
		uint32_t nr = 1000 + i;

		at[0] = 0xb8;
		memcpy(at + 1, &nr, 4);
		memcpy(at + 5, "\x0f\x05", 2);
	}
	int32_t back = -(int32_t)(FARM_SITES * FARM_STEP + 5);

	text[FARM_SITES * FARM_STEP] = 0xe9;
	memcpy(text + FARM_SITES * FARM_STEP + 1, &back, 4);
	load(&g);
	guest_map(g.c, FARM, 0x1000, PROT_READ | PROT_WRITE);
	ck_assert_int_eq(addrspace_write(g.as, gaddr(FARM), text, sizeof(text)), (ssize_t)sizeof(text));
	ck_assert_int_eq(context_mem(g.c, &rx, 1, NULL), 0);
	for (int i = 0; i < 3; i++) {
		memset(&t[i], 0, sizeof(t[i]));
		t[i].as = g.as;
		ck_assert_int_eq(context_clone(g.c, &t[i].c), 0);
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&th[i], NULL, farmer, &t[i]), 0);
	for (int i = 0; i < 3; i++) {
		void *bad;

		pthread_join(th[i], &bad);
		ck_assert_ptr_null(bad);
		context_put(t[i].c);
	}
	platform_stats(g_plat, &st);
	ck_assert_uint_ge(st.patched, FARM_SITES);
	ck_assert_uint_gt(st.fast_switches, 0);
	guest_free(&g);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("patch");
	TCase *scan_case = tcase_create("decoder"), *tc = tcase_create("guests");

	tcase_add_test(scan_case, the_decoder_takes_what_it_can_prove);
	tcase_add_test(scan_case, the_decoder_refuses_the_rest);
	tcase_add_test(scan_case, hostile_bytes_do_the_decoder_no_harm);
	tcase_set_timeout(scan_case, 60);
	suite_add_tcase(s, scan_case);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, every_form_works_before_and_after);
	tcase_add_test(tc, text_reads_as_it_was_and_comes_back);
	tcase_add_test(scan_case, verdicts_are_kept_by_content);
	tcase_add_test(tc, faults_and_steps_in_displaced_code_are_the_sites);
	tcase_add_test(tc, a_guest_that_uses_gs_keeps_it);
	tcase_add_test(tc, extended_state_is_there_after_a_patched_call);
	tcase_add_test(tc, the_platforms_own_range_stays);
	tcase_add_test(tc, hot_sites_are_reported_and_refusals_counted);
	tcase_add_test(tc, interrupts_lose_no_call);
	tcase_add_test(tc, answers_need_no_event_and_lose_no_interrupt);
	tcase_add_test(tc, threads_run_while_text_is_patched);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(suite());

	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);

	srunner_free(r);
	return failed != 0;
}
