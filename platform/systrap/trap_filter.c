/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter of stub processes, as classic BPF by hand, because it decides by instruction
 * pointer. Everything outside the stub's text traps. From the stub's text, a few calls that can
 * hurt nobody but their own address space pass after a check of their arguments; the calls in
 * notify.c's care are notified; all others trap too. The filter is the list of what a hostile
 * guest can do on the host, so a line more here needs a reason more in README.md.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/systrap/systrap.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define MAX_INSNS 256

struct prog {
	struct sock_filter insn[MAX_INSNS];
	unsigned short len;
};

#define LOW(a) ((uint32_t)((uint64_t)(a)))
#define HIGH(a) ((uint32_t)((uint64_t)(a) >> 32))
#define DATA(field) offsetof(struct seccomp_data, field)
#define ARG_LOW(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define ARG_HIGH(n) (ARG_LOW(n) + 4)

#define LD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define RET(action) BPF_STMT(BPF_RET | BPF_K, (action))
/* Continue when A == k (A <= k, no bit outside `mask`), else return the action. */
#define NEED_EQ(k, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 1, 0), RET(action)
#define NEED_LE(k, action) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (k), 0, 1), RET(action)
#define NEED_MASK(mask, action) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~(uint32_t)(mask), 0, 1), RET(action)

#define ALLOW SECCOMP_RET_ALLOW
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define TRAP SECCOMP_RET_TRAP

/*
 * Allows when arg 0 + arg 1 (address + length) ends at or below GUEST_TASK_SIZE, without
 * wrapping; else notifies. So the stub's own text and slots change on verified orders only.
 */
#define GUEST_RANGE_OR_NOTIFY                                                           \
	LD(ARG_HIGH(0)), NEED_LE(0x7fff, NOTIFY), LD(ARG_HIGH(1)), NEED_LE(0x7fff, NOTIFY), \
	LD(ARG_LOW(1)), BPF_STMT(BPF_MISC | BPF_TAX, 0), LD(ARG_LOW(0)),                    \
	BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), BPF_STMT(BPF_ST, 0),                        \
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_X, 0, 2, 0), /* low sum >= low length: no carry */ \
	BPF_STMT(BPF_LD | BPF_IMM, 1), BPF_STMT(BPF_JMP | BPF_JA, 1),                       \
	BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_ST, 1),                                 \
	LD(ARG_HIGH(0)), BPF_STMT(BPF_MISC | BPF_TAX, 0), LD(ARG_HIGH(1)),                  \
	BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), BPF_STMT(BPF_LDX | BPF_MEM, 1),             \
	BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), NEED_LE(HIGH(GUEST_TASK_SIZE), NOTIFY),     \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, HIGH(GUEST_TASK_SIZE), 1, 0), RET(ALLOW),       \
	BPF_STMT(BPF_LD | BPF_MEM, 0), NEED_LE(LOW(GUEST_TASK_SIZE), NOTIFY), RET(ALLOW)

static void emit(struct prog *p, const struct sock_filter *insn, size_t n)
{
	ASSERT(p->len + n <= MAX_INSNS);
	memcpy(&p->insn[p->len], insn, n * sizeof(*insn));
	p->len = (unsigned short)(p->len + n);
}

#define EMIT(p, ...)                                                                \
	do {                                                                        \
		const struct sock_filter part_[] = { __VA_ARGS__ };                 \
		emit((p), part_, sizeof(part_) / sizeof(part_[0]));                 \
	} while (0)

/* For syscall `nr`: the instructions, which must end in a return. A holds the number before. */
#define CALL(p, nr, ...)                                                            \
	do {                                                                        \
		const struct sock_filter part_[] = { __VA_ARGS__ };                 \
		const size_t n_ = sizeof(part_) / sizeof(part_[0]);                 \
		const struct sock_filter test_ =                                    \
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, (uint8_t)n_);  \
		emit((p), &test_, 1);                                               \
		emit((p), part_, n_);                                               \
	} while (0)

static void build(struct prog *p)
{
	p->len = 0;
	EMIT(p, LD(DATA(arch)), NEED_EQ(AUDIT_ARCH_X86_64, TRAP));
	EMIT(p, LD(DATA(instruction_pointer) + 4), NEED_EQ(HIGH(STUB_TEXT_ADDR), TRAP));
	EMIT(p, LD(DATA(instruction_pointer)),
	     BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LOW(STUB_TEXT_ADDR), 1, 0), RET(TRAP),
	     BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LOW(STUB_TEXT_ADDR + STUB_TEXT_SIZE), 0, 1),
	     RET(TRAP));
	EMIT(p, LD(DATA(nr)));

	/* Hot first. No futex operation but plain WAIT and WAKE: the others are attack surface. */
	CALL(p, SYS_futex, LD(ARG_LOW(1)), NEED_LE(1, TRAP), RET(ALLOW));
	CALL(p, SYS_rt_sigreturn, RET(ALLOW));
	CALL(p, SYS_munmap, GUEST_RANGE_OR_NOTIFY);
	/* Fresh private memory only. */
	CALL(p, SYS_mmap, LD(ARG_HIGH(3)), NEED_EQ(0, NOTIFY), LD(ARG_LOW(3)),
	     BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(uint32_t)(MAP_NORESERVE | MAP_POPULATE)),
	     NEED_EQ(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NOTIFY), LD(ARG_LOW(4)),
	     NEED_EQ(0xffffffff, NOTIFY), GUEST_RANGE_OR_NOTIFY);
	/* Not PROT_WRITE: the range may be a shared file that the guest may only read. */
	CALL(p, SYS_mprotect, LD(ARG_HIGH(2)), NEED_EQ(0, NOTIFY), LD(ARG_LOW(2)),
	     NEED_MASK(PROT_READ | PROT_EXEC, NOTIFY), GUEST_RANGE_OR_NOTIFY);
	/* Not MADV_REMOVE, which punches holes into files; DONTFORK also for the own slot. */
	CALL(p, SYS_madvise, LD(ARG_LOW(2)),
	     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTFORK, 0, 1), RET(ALLOW),
	     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 2, 0),
	     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_FREE, 1, 0), RET(NOTIFY),
	     GUEST_RANGE_OR_NOTIFY);
	CALL(p, SYS_clone, RET(NOTIFY));
	CALL(p, STUB_NR_HELLO, RET(NOTIFY));
	CALL(p, SYS_mremap, RET(NOTIFY));
	CALL(p, SYS_exit, RET(NOTIFY));
	CALL(p, SYS_msync, RET(NOTIFY));
	CALL(p, SYS_mincore, RET(NOTIFY));
	/* A stub has no fds but the one of an ordered mmap. */
	CALL(p, SYS_close, RET(ALLOW));
	/* rt_sigreturn can set it as well. */
	CALL(p, SYS_sigaltstack, RET(ALLOW));
	CALL(p, SYS_close_range, LD(ARG_LOW(0)), NEED_EQ(0, TRAP), LD(ARG_LOW(1)),
	     NEED_EQ(0xffffffff, TRAP), LD(ARG_LOW(2)), NEED_EQ(2, TRAP), RET(ALLOW));
	CALL(p, SYS_prctl, LD(ARG_LOW(0)), NEED_EQ(1, TRAP), LD(ARG_HIGH(1)), NEED_EQ(0, TRAP),
	     LD(ARG_LOW(1)), NEED_EQ(SIGKILL, TRAP), RET(ALLOW)); /* PR_SET_PDEATHSIG */
	CALL(p, SYS_clock_gettime, LD(ARG_LOW(0)), NEED_EQ(3, TRAP), RET(ALLOW)); /* own CPU time */
	EMIT(p, RET(TRAP));
}

int trap_filter_install(void)
{
	struct prog p;

	build(&p);
	struct sock_fprog prog = { .len = p.len, .filter = p.insn };
	unsigned int flags =
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);

	if (fd < 0 && errno == EINVAL) /* Linux before 5.19 */
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			     &prog);
	return fd < 0 ? -errno : (int)fd;
}
