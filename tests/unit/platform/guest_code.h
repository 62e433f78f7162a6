/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small guest programs for the platform tests, as position-independent machine code that the
 * tests copy into guest memory, and the few steps every test starts with.
 */
#ifndef CAISSON_TEST_GUEST_CODE_H
#define CAISSON_TEST_GUEST_CODE_H

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "platform/platform.h"

#define CODE 0x400000ull
#define DATA 0x500000ull
#define STACK_TOP 0x610000ull

__asm__(".pushsection .rodata\n"
	".balign 4096\n"
	"guest_code_start:\n"
	/* rax holds the number; afterwards again and again. */
	"guest_syscall_loop: syscall; jmp guest_syscall_loop\n"
	"guest_busy_loop: jmp guest_busy_loop\n"
	/* load from, store to, jump to rdi */
	"guest_load: mov (%rdi), %rax; syscall\n"
	"guest_store: movq $7, (%rdi); syscall\n"
	"guest_jump: jmp *%rdi\n"
	"guest_div: xor %ecx, %ecx; mov $1, %eax; xor %edx, %edx; div %ecx\n"
	"guest_ud2: ud2\n"
	"guest_int3: int3; nop\n"
	"guest_int80: int $0x80; syscall\n"
	/* fs:0 to rax, gs:8 to rbx */
	"guest_segments: mov %fs:0, %rax; mov %gs:8, %rbx; syscall\n"
	/* count at rdi without end */
	"guest_count: lock incq (%rdi); jmp guest_count\n"
	/* call the vsyscall page's time() */
	"guest_vsyscall: mov $0xffffffffff600400, %rax; xor %edi, %edi; call *%rax; syscall\n"
	"guest_code_end:\n"
	".popsection\n");

#define GUEST_LABELS(X)                                                                         \
	X(syscall_loop)                                                                         \
	X(busy_loop) X(load) X(store) X(jump) X(div) X(ud2) X(int3) X(int80) X(segments) X(count) \
		X(vsyscall)
#define DECLARE(name) extern const char guest_##name[];
GUEST_LABELS(DECLARE)
extern const char guest_code_start[], guest_code_end[];

/* The guest address of a label. */
#define AT(name) (CODE + (uint64_t)(guest_##name - guest_code_start))

struct guest {
	struct addrspace *as;
	struct context *c;
	struct user_regs_struct regs;
	struct platform_event ev;
};

static struct platform *g_plat;

static inline void guest_map(struct context *c, uint64_t addr, uint64_t len, int prot)
{
	struct mem_op op = { .kind = MEM_MAP, .addr = addr, .len = len, .prot = prot,
			     .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = -1 };

	ck_assert_int_eq(context_mem(c, &op, 1, NULL), 0);
}

static inline void guest_load_code(struct context *c)
{
	size_t size = (size_t)(guest_code_end - guest_code_start);
	struct mem_op ops[3] = {
		{ .kind = MEM_MAP, .addr = CODE, .len = 0x1000, .prot = PROT_READ | PROT_WRITE,
		  .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = -1 },
		{ .kind = MEM_MAP, .addr = DATA, .len = 0x2000, .prot = PROT_READ | PROT_WRITE,
		  .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = -1 },
		{ .kind = MEM_MAP, .addr = STACK_TOP - 0x10000, .len = 0x10000,
		  .prot = PROT_READ | PROT_WRITE, .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = -1 },
	};
	struct mem_op rx = { .kind = MEM_PROTECT, .addr = CODE, .len = 0x1000,
			     .prot = PROT_READ | PROT_EXEC };
	size_t done = 0;

	ck_assert_int_eq(context_mem(c, ops, 3, &done), 0);
	ck_assert_uint_eq(done, 3);
	ck_assert_int_eq(addrspace_write(context_addrspace(c), gaddr(CODE), guest_code_start, size),
			 (ssize_t)size);
	ck_assert_int_eq(context_mem(c, &rx, 1, NULL), 0);
}

static inline void guest_regs(struct user_regs_struct *r, uint64_t rip)
{
	memset(r, 0, sizeof(*r));
	r->rip = rip;
	r->rsp = STACK_TOP - 64;
	r->eflags = 0x202;
}

static inline void guest_new(struct guest *g)
{
	memset(g, 0, sizeof(*g));
	ck_assert_int_eq(addrspace_new(g_plat, &g->as, &g->c), 0);
	guest_load_code(g->c);
	guest_regs(&g->regs, AT(syscall_loop));
}

static inline void guest_free(struct guest *g)
{
	context_put(g->c);
	addrspace_put(g->as);
}

static inline void guest_run(struct guest *g, uint64_t rip)
{
	g->regs.rip = rip;
	context_switch(g->c, &g->regs, &g->ev);
}

#endif
